"""Step 2. Every head takes a group of examples, which are consecutive (proofs/2).

How many each takes says `theory.bounds.group_sizes`.

With each group S come its *dual basis* B (d, |S|), where e_t^T B is the unit vector of t in S, and
its *complement* N (d, d - |S|), an orthonormal basis of the vectors orthogonal to S, among which w
is chosen. Both come from one QR factorization of the queries, and exist because these are
independent. Heads that need a few vectors of either take them from the factorization (`Factored`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack

from constructive.data.dataset import Dataset
from constructive.support.arrays import Array, unit_rows
from constructive.support.errors import AssumptionError
from constructive.support.work import in_pieces
from constructive.theory.bounds import consecutive
from constructive.theory.kruskal import dependency, describe_dependency

# Unit queries nearer than this to the span of those before them are decided by singular values.
_LOOK_CLOSER = 1e-10


@dataclass(frozen=True, eq=False)
class Taken:
    """Examples start, ..., stop - 1, which a head or a pair of heads takes."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        """|S|, the number of these examples."""
        return self.stop - self.start

    @property
    def rows(self) -> slice:
        """These examples as a slice."""
        return slice(self.start, self.stop)


@dataclass(frozen=True, eq=False)
class Group(Taken):
    """What one head takes.

    dual_basis: (d, size);  complement: (d, d - size), orthonormal
    """

    dual_basis: Array
    complement: Array


@dataclass(frozen=True, eq=False)
class Factored:
    """A QR factorization of some independent queries.

    lengths: (k,), of the queries
    reflectors, factors: (d, k) and (k,), of the unit queries as columns, as LAPACK's dgeqrf leaves
        them
    """

    lengths: Array
    reflectors: Array
    factors: Array

    def whole(self) -> tuple[Array, Array]:
        """Return the dual basis (d, k) and the complement (d, d - k)."""
        width, size = self.reflectors.shape
        if size == 0:
            return np.zeros((width, 0)), np.eye(width)
        square = np.zeros((width, width), order="F")
        square[:, :size] = self.reflectors
        orthogonal, _, _ = lapack.dorgqr(square, self.factors, overwrite_a=1)
        # Unit queries are R^T Q^T, so their dual basis is Q R^-T. An LU of R is R itself; dtrsm
        # would be the same, but OpenBLAS wakes all threads for it, which takes longer than the
        # work.
        triangle = np.triu(self.reflectors[:size])
        dual_basis = np.linalg.solve(triangle, orthogonal[:, :size].T).T
        return dual_basis / self.lengths, orthogonal[:, size:]

    def solve(self, values: Array) -> Array:
        """Return the shortest b_j (d, m) with e_t.b_j = values_tj: the dual basis times values."""
        size = len(self.lengths)
        inner = np.zeros((len(self.reflectors), values.shape[1]), order="F")
        if size:
            triangle = self.reflectors[:size]
            for index, column in enumerate((values / self.lengths[:, np.newaxis]).T):
                inner[:size, index] = blas.dtrsv(triangle, column, trans=1)
        return self._rotated(inner)

    def axes(self, count: int) -> Array:
        """Return the first columns of the complement: (d, count), or as many as there are."""
        width, size = self.reflectors.shape
        return self._rotated(np.eye(width, min(count, width - size), -size, order="F"))

    def _rotated(self, vectors: Array) -> Array:
        """Return Q times some vectors (d, m)."""
        if not (len(self.lengths) and vectors.shape[1]):
            return vectors
        room = 64 * vectors.shape[1]
        rotated: Array = lapack.dormqr("L", "N", self.reflectors, self.factors, vectors, room)[0]
        return rotated


def partition(dataset: Dataset, sizes: Sequence[int]) -> tuple[Group, ...] | AssumptionError:
    """Share the examples among heads, and solve for each group's dual basis.

    sizes: (H,), of the groups, which are consecutive examples

    Returns an AssumptionError if the queries of a group are dependent; the witness names examples
    whose queries are. (Numerically: see `assumptions`.)
    """
    lengths, unit = unit_rows(dataset.queries.astype(np.float64, copy=False))

    def solved(ends: tuple[int, int]) -> Group | tuple[int, int]:
        factored = factor(lengths[slice(*ends)], unit[slice(*ends)])
        return ends if factored is None else Group(*ends, *factored.whole())

    groups, operations = [], float(sum(size**2 for size in sizes)) * dataset.width
    for found in in_pieces(solved, consecutive(sizes), operations):
        if isinstance(found, tuple):
            return _dependent(lengths, unit, *found)
        groups.append(found)
    return tuple(groups)


def factor(lengths: Array, unit: Array) -> Factored | None:
    """Factorize some queries, or None if they are dependent.

    lengths: (k,);  unit: (k, d), the queries scaled to length one
    """
    size, width = unit.shape
    if size == 0:
        return Factored(lengths, np.zeros((width, 0)), lengths)
    if size > width:
        return None
    reflectors, factors, _, _ = lapack.dgeqrf(unit.T)
    # Entry (i, i) is, up to sign, the distance of unit query i to the span of those before it.
    if np.abs(np.diagonal(reflectors)).min() < _LOOK_CLOSER and dependency(unit)[0] < size:
        return None
    return Factored(lengths, reflectors, factors)


def _dependent(lengths: Array, unit: Array, start: int, stop: int) -> AssumptionError:
    rank, coefficients = dependency(unit[start:stop])
    witness, words = describe_dependency(
        list(range(start, stop)), coefficients / lengths[start:stop]
    )
    message = (
        f"the queries of examples {start} to {stop - 1}, one group, have rank {rank} "
        "(numerically); a group needs independent ones, as any n queries are by Assumption 1"
    )
    return AssumptionError(
        message,
        witness=witness,
        suggestion=f"drop or move one of these examples (their queries satisfy {words}), "
        "use more heads and so smaller groups, another order, "
        "or construction='generic'",
    )
