"""What Rocq gets besides stored numbers: evidence of a claim, and a right inverse modulo p."""

from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.certificates.certificate import Certificate
from constructive.data.dataset import Dataset
from constructive.exact import modular
from constructive.exact.arithmetics.residues import Point
from constructive.layers.attention import AttentionLayer
from constructive.support.arrays import Array
from constructive.support.errors import FormatError, ParameterError
from constructive.support.verdict import Verdict

Integers = npt.NDArray[np.int64]


def evidence_of(certificate: Certificate, name: str, command: str) -> dict[str, Any]:
    """The evidence of a claim that is PROVED.

    Args:
        certificate: of which nobody needs to believe anything
        name: of the claim
        command: which makes such certificates

    Raises:
        FormatError: for a certificate without that claim

    Example:
        >>> from constructive import generators, upper_bound_certificate
        >>> data = generators.shared_context(num_examples=8, context_size=3, width=5)
        >>> certificate = upper_bound_certificate(data, 3)
        >>> evidence_of(certificate, "impossible", "constructive upper-bound")["heads"]
        3
    """
    claims = {claim.name: claim for claim in certificate.claims}
    if name not in claims or claims[name].verdict is not Verdict.PROVED:
        raise FormatError(
            f"the certificate does not claim that {name} is PROVED",
            witness=sorted(claims),
            suggestion=command,
        )
    return claims[name].evidence


def cleared(layer: AttentionLayer, dataset: Dataset, point: Point) -> Array:
    """Z(a) modulo p, each row times its softmax denominators: (T, H d), balanced residues.

    Args:
        layer: its W_Q and W_K, (H, d, d_h)
        dataset: T examples which fit the layer
        point: p and a

    Example:
        >>> from constructive import build_memorizer, generators
        >>> data = generators.uniform(num_examples=3, context_size=2, width=2, seed=0)
        >>> layer = build_memorizer(data, num_heads=2).layer
        >>> cleared(layer, data, Point(4194287, 2)).shape
        (3, 4)
    """
    prime, order = point.prime, point.prime - 1
    total, heads = dataset.num_examples, layer.num_heads
    exponent = modular.least_exponent(dataset.contexts)
    contexts = dataset.contexts_of(slice(None))
    keys = _integers(layer.key_weights, order).transpose(0, 2, 1)
    read = modular.product(
        _integers(dataset.queries, order), _integers(layer.query_weights, order), order
    )
    absorbed = modular.product(read, np.ascontiguousarray(keys), order).transpose(1, 0, 2)
    tokens = modular.residues(contexts, order, exponent).transpose(0, 2, 1)
    logits = modular.product(np.ascontiguousarray(absorbed), np.ascontiguousarray(tokens), order)
    powers = modular.power_table(point.value, prime)(logits)
    sums = modular.reduce(powers.sum(axis=2), prime)
    others = np.ones((total, heads))
    for head in range(heads):
        for other in range(heads):
            if other != head:
                others[:, head] = modular.reduce(others[:, head] * sums[:, other], prime)
    combined = modular.product(powers, modular.residues(contexts, prime, exponent), prime)
    return modular.reduce(combined * others[:, :, np.newaxis], prime).reshape(total, -1)


def right_inverse(matrix: Array, columns: Integers, prime: int) -> Integers:
    """M with A[:, columns] M = 1 modulo p, in 0, ..., p - 1: (T, T).

    Args:
        matrix: A (T, k), balanced residues
        columns: T of its columns
        prime: p

    Raises:
        ParameterError: where these columns are dependent modulo p

    Example:
        >>> right_inverse(np.array([[2.0, 1.0]]), np.array([0]), 1009)
        array([[505]])
    """
    total = len(matrix)
    factors = modular.factor(np.ascontiguousarray(matrix[:, columns]), prime)
    if factors.rank < total or len(columns) != total:
        raise ParameterError(
            f"Z has rank {factors.rank} modulo {prime} in {len(columns)} columns, not {total}",
            witness=factors.rank,
            suggestion="a certificate of these very weights and data, in which rank is PROVED",
        )
    solution = np.empty((total, total))  # of the columns in the order of their pivots
    solution[factors.columns] = modular.solve(factors, np.eye(total))
    return solution.astype(np.int64) % prime


def _integers(array: Array, modulus: int) -> Array:
    return modular.residues(array, modulus, modular.least_exponent(array))
