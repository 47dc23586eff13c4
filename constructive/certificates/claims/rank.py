"""The claims *rank*, *grouping* and *impossible*, by elimination (docs/claims.md).

What a certificate carries that others may check quickly is said at each claim.
"""

import hashlib
import struct
from typing import Any

import numpy as np

from constructive.data.dataset import Dataset, repeated_inputs
from constructive.exact import modular
from constructive.exact.softmax import Point
from constructive.layers.layer import AttentionLayer
from constructive.layers.residues import Search
from constructive.support.arrays import Array, Integers
from constructive.support.verdict import pack

# *rank*: all rows of Z are independent, so these heads have a readout for all targets.
#
# Proof by one prime p and one value a at which Z has rank T modulo p (`layers.residues`). What a
# certificate carries:
#
# - p, a, and T columns C of Z that are independent modulo p. To eliminate Z(a)[:, C] again proves
#   the claim.
# - The solution X of Z(a)[:, C] X = B modulo p for `ROUNDS` columns B that nobody can choose: they
#   are the SHAKE-256 stream of the hashes of data and weights, of p, a and C. If Z(a)[:, C] were
#   singular, a random column would lie in its range with probability at most 1/p, and so no X would
#   exist but with probability p^-ROUNDS < 2^-250. An attacker who tries 2^128 certificates in
#   search of an accident still fails but for 2^-122. To check Z(a)[:, C] X = B costs O(T^2).
#
# The second is the certificate of Kaltofen, Nehring and Saunders (*Quadratic-time certificates in
# linear algebra*, ISSAC 2011), with the verifier's random vectors drawn from a hash function (Fiat
# and Shamir), which is modelled as random.

ROUNDS = 12

Refutation = tuple[str, object]  # A detail and a witness


def rank_evidence(found: Search, total: int, fingerprints: bytes, more: str) -> dict[str, Any]:
    """Return a prime, a point and columns at which Z has rank T, and a solution for `--quick`.

    Or what there is instead, and that one should try `more`.
    """
    if found.point is None or found.factors is None:
        advice = f"softmax denominators vanish at all {found.retries} points; another seed="
        return {"advice": advice}
    if found.rank < total:
        return {
            "advice": f"rank Z >= {found.rank}, and probably equal: that is the rank modulo "
            f"{found.tried} primes at random x; try {more}"
        }
    sides = challenge(fingerprints, found.point, found.columns)
    solution = modular.solve(found.factors, sides).astype(np.int64) % found.point.prime
    return {
        "prime": found.point.prime,
        "value": found.point.value,
        "retries": found.retries,
        "columns": pack(found.columns),
        "solution": pack(solution),
    }


def challenge(fingerprints: bytes, point: Point, columns: Integers) -> Array:
    """Return right-hand sides that follow from what is claimed: (T, ROUNDS), balanced residues.

    The fingerprints are the SHA-256 of the data, followed by that of the weights.
    """
    hashed = hashlib.shake_256(b"constructive rank 1")
    hashed.update(fingerprints + struct.pack("<II", point.prime, point.value))
    hashed.update(columns.astype("<u4").tobytes())
    stream = np.frombuffer(hashed.digest(8 * ROUNDS * len(columns)), dtype="<u8")
    values = (stream % np.uint64(point.prime)).astype(np.float64)
    return modular.reduce(values.reshape(len(columns), ROUNDS), point.prime)


def refute(layer: AttentionLayer, dataset: Dataset) -> Refutation | None:
    """Return why rank Z < T for all weights of this layer's shape, or None."""
    total, size, heads = dataset.num_examples, dataset.context_size, layer.num_heads
    if dataset.shared_context and total > heads * (size - 1) + 1:
        bound = heads * (size - 1) + 1
        detail = (
            f"on a shared context rank Z <= H(n - 1) + 1 = {bound} < {total}, since attention "
            "weights sum to one"
        )
        return detail, bound
    columns = layer.width * (1 if size == 1 else heads)
    if total > columns:
        return f"Z has {columns} different columns, fewer than {total} examples", columns
    repeated = repeated_inputs(dataset)
    if repeated is not None:
        first, second = repeated
        return f"examples {first} and {second} are one input, so two rows of Z are equal", repeated
    return None
