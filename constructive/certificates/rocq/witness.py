"""What Rocq gets besides stored numbers: evidence of a claim, and a right inverse modulo p."""

import base64
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from constructive.certificates.certificate import Certificate
from constructive.data.dataset import Dataset
from constructive.exact import modular
from constructive.exact.arithmetics import Point, Residues
from constructive.layers.attend import attend, examples
from constructive.layers.attention import AttentionLayer
from constructive.support.arrays import Array, Integers
from constructive.support.errors import FormatError, ParameterError
from constructive.support.verdict import Verdict

Read = TypeVar("Read")


class NotConfirmableError(ParameterError):
    """A claim for which Rocq has no program, on these weights; it may hold all the same."""


def evidence_of(
    certificate: Certificate, name: str, read: Callable[[dict[str, Any]], Read], command: str
) -> Read:
    """Read the evidence of a claim that is PROVED; the command is one that makes such certificates.

    Raises FormatError for a certificate without that claim, or with other evidence.

    Example:
        >>> from constructive import generators, upper_bound_certificate
        >>> data = generators.shared_context(num_examples=8, context_size=3, width=5)
        >>> certificate = upper_bound_certificate(data, 3)
        >>> evidence_of(certificate, "impossible", lambda found: found["heads"], "upper-bound")
        3
    """
    claims = {claim.name: claim for claim in certificate.claims}
    if name not in claims or claims[name].verdict is not Verdict.PROVED:
        raise FormatError(
            f"the certificate does not claim that {name} is PROVED",
            witness=sorted(claims),
            suggestion=f"constructive {command}",
        )
    try:
        return read(claims[name].evidence)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"the evidence of {name} cannot be read: {error}",
            witness=name,
            suggestion=f"a certificate of `constructive {command}`",
        ) from error


def bound_of(evidence: dict[str, Any]) -> float:
    """Return the bound that evidence states, for `evidence_of`."""
    bound = float.fromhex(evidence["bound"])
    if not 0.0 <= bound < math.inf:
        raise ValueError(f"the bound is {bound!r}")
    return bound


def unpack(text: str) -> Integers:
    """Read integers as `support.verdict.pack` writes them, or raise TypeError or ValueError.

    Example:
        >>> unpack("AQAAAAIBAAA=")
        array([  1, 258])
    """
    return np.frombuffer(base64.b64decode(text), dtype="<u4").astype(np.int64)


def not_about(name: str, what: str, witness: object) -> ParameterError:
    """Return the error for evidence of other numbers than the stored ones."""
    return ParameterError(
        f"the evidence of {name} is not about {what}",
        witness=witness,
        suggestion="the files from which the certificate was made",
    )


def cleared(layer: AttentionLayer, dataset: Dataset, point: Point) -> Array:
    """Return Z(a) modulo p, each row times its softmax denominators: (T, H d), balanced residues.

    Example:
        >>> from constructive import build_memorizer, generators
        >>> data = generators.uniform(num_examples=3, context_size=2, width=2, seed=0)
        >>> layer = build_memorizer(data, num_heads=2).layer
        >>> cleared(layer, data, Point(4194287, 2)).shape
        (3, 4)
    """
    units = modular.least_exponent(dataset.contexts), modular.least_exponent(dataset.queries)
    weights, prime = (layer.query_weights, layer.key_weights), point.prime
    rows = np.empty((dataset.num_examples, layer.num_heads, layer.width))
    view = examples(dataset.contexts, dataset.queries)
    for chunk in attend(Residues(point, *units), weights, view):
        sums, inverses, _ = chunk.representation
        product: Array = np.ones(len(sums))
        for denominators in modular.inverse(inverses, prime).T:
            product = modular.reduce(product * denominators, prime)
        others = modular.reduce(product[:, np.newaxis] * inverses, prime)
        rows[chunk.rows] = modular.reduce(sums * others[:, :, np.newaxis], prime)
    return rows.reshape(dataset.num_examples, -1)


def right_inverse(matrix: Array, columns: Integers, prime: int) -> Integers:
    """Return M with A[:, columns] M = 1 modulo p, in 0, ..., p - 1: (T, T).

    A (T, k) has balanced residues. Raises ParameterError where its T columns are dependent.

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
