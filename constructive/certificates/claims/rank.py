"""The claim *rank*: Z has rank T, so these attention weights memorize every labelling of the data.

With them Z U = Y for some effective readout U, (H d, d_out), whatever the targets are; where
d_v >= d_out, weights of the stored shapes hold it.

Proof by one prime p and one value a at which Z has rank T modulo p (`layers.residues`). What a
certificate carries:

- p, a, and T columns C of Z which are independent modulo p. To eliminate Z(a)[:, C] again proves
  the claim.
- The solution X of Z(a)[:, C] X = B modulo p for `ROUNDS` columns B which nobody can choose: they
  are the SHAKE-256 stream of the hashes of data and weights, of p, a and C. If Z(a)[:, C] were
  singular, a random column would lie in its range with probability at most 1/p, and so no X would
  exist but with probability p^-ROUNDS < 2^-250. Whoever tries 2^128 certificates in search of an
  accident still fails but for 2^-122. To check Z(a)[:, C] X = B costs O(T^2).

The second is the certificate of Kaltofen, Nehring and Saunders (*Quadratic-time certificates in
linear algebra*, ISSAC 2011), with the verifier's random vectors drawn from a hash function (Fiat
and Shamir), which is modelled as random.
"""

import hashlib
import struct

import numpy as np
import numpy.typing as npt

from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.data.dataset import Dataset
from constructive.data.repeats import repeated_inputs
from constructive.exact import modular
from constructive.exact.arithmetics.residues import Point
from constructive.layers import residues
from constructive.layers.attention import AttentionLayer
from constructive.support.arrays import Array
from constructive.support.progress import report
from constructive.support.verdict import Claim, Verdict, pack

ROUNDS = 12
STATEMENT = "rank Z = T = {}: for all Y some effective readout U (H d, d_out) has Z U = Y"


def prove(
    layer: AttentionLayer, dataset: Dataset, fingerprints: bytes, rng: np.random.Generator
) -> Claim:
    """Prove or refute that Z has rank T.

    Args:
        layer: its W_Q and W_K, (H, d, d_h)
        dataset: T examples which fit the layer
        fingerprints: the SHA-256 of the data, followed by that of the weights
        rng: of primes' points
    """
    total = dataset.num_examples
    statement = STATEMENT.format(total)
    refuted = refute(layer, dataset)
    if refuted is not None:
        detail, witness = refuted
        return Claim("rank", statement, Verdict.REFUTED, detail, witness)

    found = residues.search(layer, dataset, rng)
    return judged(found, total, statement, fingerprints, "fewer examples or more heads")


def judged(
    found: residues.Search, total: int, statement: str, fingerprints: bytes, suggestion: str
) -> Claim:
    """The claim that all rows are independent, by what elimination found.

    Args:
        found: by elimination
        total: how many rows there are
        statement: what is claimed
        fingerprints: the SHA-256 of the data, followed by that of the weights
        suggestion: what to try where it is undecided
    """
    point, factors = found.point, found.factors
    if point is None or factors is None:
        detail = f"softmax denominators vanish at all {found.retries} points; another seed="
        return Claim("rank", statement, Verdict.UNDECIDED, detail)
    if found.rank < total:
        detail = (
            f"rank Z >= {found.rank}, and probably equal: that is the rank modulo {found.tried} "
            f"primes at random x; try {suggestion}"
        )
        return Claim("rank", statement, Verdict.UNDECIDED, detail)
    solution = modular.solve(factors, challenge(fingerprints, point, found.columns))
    evidence = {
        "prime": point.prime,
        "value": point.value,
        "retries": found.retries,
        "columns": pack(found.columns),
        "solution": pack(solution.astype(np.int64) % point.prime),
    }
    at = f"modulo p = {point.prime} at x = {point.value}"
    detail = f"rank {total} {at} ({found.retries} retries)"
    return Claim("rank", statement, Verdict.PROVED, detail, evidence=evidence)


def challenge(fingerprints: bytes, point: Point, columns: npt.NDArray[np.int64]) -> Array:
    """Right-hand sides which follow from what is claimed: (T, ROUNDS), balanced residues."""
    hashed = hashlib.shake_256(b"constructive rank 1")
    hashed.update(fingerprints + struct.pack("<II", point.prime, point.value))
    hashed.update(columns.astype("<u4").tobytes())
    stream = np.frombuffer(hashed.digest(8 * ROUNDS * len(columns)), dtype="<u8")
    values = (stream % np.uint64(point.prime)).astype(np.float64)
    return modular.reduce(values.reshape(len(columns), ROUNDS), point.prime)


def refute(layer: AttentionLayer, dataset: Dataset) -> tuple[str, object] | None:
    """Reasons why rank Z < T for all weights of this shape, or None."""
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


def _of(subject: Subject) -> Claim:
    report("intermediate representation modulo a prime", 0, 1)
    return prove(subject.layer.leading, subject.dataset, subject.fingerprints, subject.rng)


RANK = ClaimKind(_of, usual=True)
