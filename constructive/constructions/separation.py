"""A readout that gives every example its label, or multipliers that show that there is none.

Minimize |U|^2 such that output y_t of row t leads any other by 1 at least. Adding one vector to all
columns of U changes no lead, so U = V P with P (C - 1, C), whose rows are orthonormal and sum to
zero: for two classes V is one column, and the leads are y_t z_t.v.

Mehrotra's predictor and corrector: with leads A V = 1 + s, s >= 0, and multipliers l >= 0, steps go
to V = A^T l and s l = 0. Each solves equations of N (C - 1) unknowns with A^T diag(l / s) A + I.
Where there is no such U, l grows, and A^T l / |l| goes to zero: that is Gordan's positive
combination. Multipliers are positive all along, so what is left is projected away.

Pivoting (`compact_readout.solve_cells`) does not do: with more rows than columns its active sets
are soon larger than the rank. Inner points do not end where inequalities are just tight, so they
are of no use where the active ones are needed exactly, as for readouts that are rounded.

Source: Mehrotra, *On the implementation of a primal-dual interior point method*, SIAM Journal on
Optimization 1992. Theorem 29 (proofs/23-labels.md) says for how many labelings there is a U.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from constructive.support.arrays import Array, Integers
from constructive.support.errors import require_memory
from constructive.support.work import report

_STEPS = 100  # There are 8 to 20 far from the limit
_GAP = 1e-8  # Mean of s l at which leads are as equal as they need to be
_REST = 1e-5  # |A^T l| / |l| from which on multipliers are projected
_SHARE = 0.99  # Of the way to the boundary
_COPIES = 2  # Of the matrix of the equations: itself, and its factor


@dataclass(frozen=True, eq=False)
class Separation:
    """Either a readout, or multipliers; neither where float64 finds none of them."""

    effective: Array | None = None  # U (N, C): every label leads by 1 or so
    # B (T, C): negative but at the label, with rows and Z^T B about zero (Proposition 32)
    combination: Array | None = None


def separate(z: Array, labels: Integers, classes: int) -> Separation:
    """Look for a readout of Z (T, N) with which every label, 0 to C - 1, leads.

    ParameterError for equations that are larger than the memory of this machine.
    """
    unknowns = z.shape[1] * (classes - 1)
    require_memory(
        f"equations for {classes} classes and {z.shape[1]} columns of Z",
        8 * _COPIES * unknowns**2,
        "fewer heads; or fit='targets', whose equations do not grow with the classes",
    )
    size = np.linalg.norm(z, axis=1).mean()
    if not 0.0 < size < np.inf:
        return Separation()
    system = _System(z * (z.shape[1] ** 0.5 / size), labels, classes)
    with np.errstate(all="ignore"):  # what overflows ends in a factorization that fails
        try:
            found = _inner_points(system)
        except (LinAlgError, ValueError):
            return Separation()
    if found.effective is None:
        return found
    return Separation(found.effective * (z.shape[1] ** 0.5 / size))


class _System:
    """The map A from V (N, C - 1) to leads (T, C - 1), of each label over the other classes."""

    def __init__(self, z: Array, labels: Integers, classes: int) -> None:
        self.z, self.labels, self.classes = z, labels, classes
        place = np.arange(classes)
        self.others = np.stack([np.delete(place, label) for label in labels])
        self.simplex = _simplex(classes)
        own = self.simplex[:, labels].T[:, np.newaxis]
        self.differences = own - self.simplex.T[self.others]  # (T, C - 1, C - 1)

    def leads(self, values: Array) -> Array:
        """A V."""
        found: Array = np.einsum("tk,tjk->tj", self.z @ values, self.differences)
        return found

    def back(self, multipliers: Array) -> Array:
        """A^T l."""
        combined: Array = self.z.T @ np.einsum("tj,tjk->tk", multipliers, self.differences)
        return combined

    def normal(self, weights: Array) -> Array:
        """A^T diag(w) A + I, in blocks of classes."""
        columns, outputs = self.z.shape[1], self.classes - 1
        matrix = np.empty((outputs, columns, outputs, columns))
        for k in range(outputs):
            left = weights * self.differences[:, :, k]
            for j in range(k + 1):
                each = (left * self.differences[:, :, j]).sum(axis=1)
                matrix[k, :, j] = self.z.T @ (self.z * each[:, np.newaxis])
                matrix[j, :, k] = matrix[k, :, j].T
        whole = matrix.reshape(outputs * columns, -1)
        whole[np.diag_indices(len(whole))] += 1.0
        return whole

    def combination(self, multipliers: Array) -> Array | None:
        """B of these multipliers, projected so that Z^T B = 0; None if signs do not stay."""
        found = np.zeros((len(self.z), self.classes))
        rows = np.arange(len(self.z))
        np.put_along_axis(found, self.others, -multipliers, axis=1)
        factor = cho_factor(self.z.T @ self.z, check_finite=False)
        for _ in range(2):
            found[rows, self.labels] = 0.0
            found[rows, self.labels] = -found.sum(axis=1)
            found -= self.z @ cho_solve(factor, self.z.T @ found, check_finite=False)
        others = np.take_along_axis(found, self.others, axis=1)
        return found if (others < 0.0).all() else None


def _simplex(classes: int) -> Array:
    """Return P (C - 1, C): row k is orthogonal to those before, and to ones."""
    rows = np.tril(np.ones((classes, classes)), -1)[1:]
    rows[np.arange(classes - 1), np.arange(1, classes)] = -np.arange(1.0, classes)
    unit: Array = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _inner_points(system: _System) -> Separation:
    total, columns = system.z.shape
    shape = total, system.classes - 1
    values, slack = np.zeros((columns, shape[1])), np.ones(shape)
    multipliers = np.full(shape, 1.0 / total)
    for step in range(_STEPS):
        report("separate the labels", step, _STEPS)
        leads, back = system.leads(values), system.back(multipliers)
        gap = (slack * multipliers).mean()
        if leads.min() > 0.0 and gap < _GAP:
            return Separation(effective=values @ system.simplex / leads.min())
        if np.linalg.norm(back) < _REST * np.linalg.norm(multipliers):
            combination = system.combination(multipliers)
            if combination is not None:
                return Separation(combination=combination)
        factor = cho_factor(system.normal(multipliers / slack), overwrite_a=True)
        missing, off = leads - slack - 1.0, values - back

        def direction(
            products: Array,
            factor: tuple[Array, bool] = factor,
            missing: Array = missing,
            off: Array = off,
            slack: Array = slack,
            multipliers: Array = multipliers,
        ) -> tuple[Array, Array, Array]:
            """The step to s l = s l - products, by linear equations."""
            right = system.back((-products - multipliers * missing) / slack) - off
            moved = cho_solve(factor, right.T.ravel()).reshape(right.T.shape).T
            less = system.leads(moved) + missing
            return moved, less, (-products - multipliers * less) / slack

        _, less, more = direction(slack * multipliers)
        way = min(_furthest(slack, less), _furthest(multipliers, more))
        reached = ((slack + way * less) * (multipliers + way * more)).mean()
        centre = gap * (reached / gap) ** 3
        moved, less, more = direction(slack * multipliers + less * more - centre)
        way = _SHARE * min(_furthest(slack, less), _furthest(multipliers, more))
        values, slack = values + way * moved, slack + way * less
        multipliers = multipliers + way * more
    return Separation()


def _furthest(numbers: Array, change: Array) -> float:
    """The part of a change, at most 1, that keeps positive numbers from becoming negative."""
    falling = change < 0.0
    return min(1.0, float((-numbers[falling] / change[falling]).min(initial=np.inf)))
