"""Step 2. Every head takes a group of examples.

At the bound T = H(r - 1) + 1 the first head takes r examples and each later head r - 1 fresh ones;
groups are consecutive examples, in the order given. With each group S come two matrices:

- its *dual basis* B (d, |S|): e_t^T B is the unit vector of t in S. A query projection W_Q = B
  reads off which example of its group it sees, so that W e_t = v_t is solved by W = [v_1 ...
  v_|S|] B^T.
- its *complement* N (d, d - |S|), an orthonormal basis of the vectors orthogonal to S, among which
  the saturating vector w is chosen.

Both come from one QR factorization of the queries, and exist because these are independent. Heads
which need a few vectors of either do not form them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from scipy.linalg import blas, lapack

from constructive.data.dataset import Dataset
from constructive.support.arrays import Array
from constructive.support.errors import AssumptionError
from constructive.theory.assumptions.numerical import dependency, describe_dependency, unit_rows

_LOOK_CLOSER = 1e-10
"""Unit queries nearer than this to the span of those before them are decided by singular values."""


@dataclass(frozen=True, eq=False)
class Group:
    """Examples start, ..., stop - 1, which one head takes, with a QR factorization of its queries.

    lengths: (size,), of the queries
    reflectors, factors: (d, size) and (size,), the unit queries as columns, as LAPACK's dgeqrf
        leaves them
    """

    start: int
    stop: int
    lengths: Array
    reflectors: Array
    factors: Array

    @property
    def size(self) -> int:
        """|S|, the number of examples in the group."""
        return self.stop - self.start

    @property
    def rows(self) -> slice:
        """The examples of the group as a slice."""
        return slice(self.start, self.stop)

    @cached_property
    def dual_basis(self) -> Array:
        """B (d, size), with e_t^T B the unit vector of t."""
        # Unit queries are R^T Q^T, so their dual basis is Q R^-T. An LU of R is R itself; dtrsm
        # would be the same, but OpenBLAS wakes all threads for it, which takes longer than the
        # work.
        triangle, orthogonal = np.triu(self.reflectors[: self.size]), self._orthogonal
        return np.linalg.solve(triangle, orthogonal[:, : self.size].T).T / self.lengths

    @property
    def complement(self) -> Array:
        """N (d, d - size), orthonormal and orthogonal to the queries."""
        return self._orthogonal[:, self.size :]

    def solve(self, values: Array) -> Array:
        """B times some values (size,), and so the shortest b (d,) with e_t.b = values_t.

        >>> data = Dataset([[1, 0], [1, 1]], [[2, 0], [0, 4]], [1, 2])
        >>> (group,) = partition(data, [2])
        >>> group.solve(np.array([2.0, 2.0])).round(12)
        array([1. , 0.5])
        """
        inner = np.zeros((len(self.reflectors), 1), order="F")
        if self.size:
            triangle = self.reflectors[: self.size]
            inner[: self.size, 0] = blas.dtrsv(triangle, values / self.lengths, trans=1)
        return self._rotated(inner)[:, 0]

    def axes(self, count: int) -> Array:
        """The first columns of the complement: (d, count), or as many as there are."""
        width = len(self.reflectors)
        return self._rotated(np.eye(width, min(count, width - self.size), -self.size, order="F"))

    def _rotated(self, vectors: Array) -> Array:
        """Q times some vectors (d, m)."""
        if not self.size:
            return vectors
        room = max(1, 64 * vectors.shape[1])
        rotated: Array = lapack.dormqr("L", "N", self.reflectors, self.factors, vectors, room)[0]
        return rotated

    @cached_property
    def _orthogonal(self) -> Array:
        """Q (d, d)."""
        width = len(self.reflectors)
        if not self.size:
            return np.eye(width)
        square = np.zeros((width, width), order="F")
        square[:, : self.size] = self.reflectors
        orthogonal: Array = lapack.dorgqr(square, self.factors, overwrite_a=1)[0]
        return orthogonal


def partition(dataset: Dataset, sizes: Sequence[int]) -> tuple[Group, ...]:
    """Share the examples among heads, and solve for each group's dual basis.

    sizes: (H,), of the groups, which are consecutive examples

    Raises AssumptionError if the queries of a group are dependent; the witness names examples whose
    queries are. (Numerically: see `assumptions`.)

    >>> data = Dataset([[1, 0], [1, 1]], [[2, 0], [0, 4], [1, 1]], [1, 2, 3])
    >>> [group.size for group in partition(data, [2, 1])]
    [2, 1]
    >>> data.queries[:2] @ partition(data, [2, 1])[0].dual_basis
    array([[1., 0.],
           [0., 1.]])
    """
    stops = list(accumulate(sizes))
    lengths, unit = unit_rows(dataset.queries.astype(np.float64, copy=False))
    groups = []
    for start, stop in zip([0, *stops[:-1]], stops, strict=True):
        group = take(lengths, unit, start, stop)
        if group is None:
            raise _dependent(lengths, unit, start, stop)
        groups.append(group)
    return tuple(groups)


def take(lengths: Array, unit: Array, start: int, stop: int) -> Group | None:
    """The group of examples start, ..., stop - 1, or None if its queries are dependent.

    lengths: (T,);  unit: (T, d), the queries scaled to length one
    """
    size, width = stop - start, unit.shape[1]
    if size == 0:
        return Group(start, stop, np.zeros(0), np.zeros((width, 0)), np.zeros(0))
    if size > width:
        return None
    members = unit[start:stop]
    reflectors, factors, _, _ = lapack.dgeqrf(members.T)
    # Entry (i, i) is, up to sign, the distance of unit query i to the span of those before it.
    if np.abs(np.diagonal(reflectors)).min() < _LOOK_CLOSER and dependency(members)[0] < size:
        return None
    return Group(start, stop, lengths[start:stop], reflectors, factors)


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
        "use more heads and so smaller groups, another order (assumptions.regroup looks for one), "
        "or construction='generic'",
    )
