"""The readout of paired heads: one small system a pair, and an iteration for what couples them.

*Blocks.* The equations of pair p are D_p U_p = y_p with |S| + |S'| <= d - 1 rows; the shortest
solution is R_p y_p with R_p = D_p^T (D_p D_p^T)^-1, from a QR factorization of D_p^T. All blocks
together cost O(T d^2).

*The extra example* t* belongs to no pair. The second head of pair 0 reads from it one token x*
(it is saturated there), and gets the readout -U_0 + gamma x* / |x*|^2. Then f(t*) = gamma, and
every other example t gets gamma kappa_t with kappa_t = z_t.x* / |x*|^2 for what that head reads
there: gamma = y* is known first.

*Leftover coupling.* With M the few entries x_{t,p} off the blocks, (D + M) U = Y is solved by GMRES
for y in (D + M) R y = Y, so U = R y. As (D + M) R is I + M R with M R nilpotent where coupling is
block triangular (`pairs`), the iteration ends after as many steps as coupling is deep; without
coupling after one, which refines.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from constructive.constructions.paired_heads import Coupling
from constructive.constructions.paired_search import Ordered
from constructive.support.arrays import CHUNK_BYTES, Array, Integers
from constructive.support.errors import PrecisionError

_TOLERANCE = 1e-14
_RESTART, _ROUNDS = 40, 3


@dataclass(frozen=True, eq=False)
class Readout:
    """U with Z U = Y for paired heads.

    effective: (P, 2, d, d_out)
    residual:  (T, d_out), Y - f by position, from x_{t,p} as a forward pass rounds them: logits of
               size c have other errors there than in what was solved. Pairs that are saturated
               on an example cancel there, and are left out.
    condition: the largest estimated condition number of a block, in the infinity norm
    ranks:     (P,), estimated rank of each block
    """

    effective: Array
    residual: Array
    condition: float
    ranks: Integers


@dataclass(frozen=True, eq=False)
class _System:
    """(D + M) and R, with the extra example as one more unknown gamma where there is one.

    inverses: R_p by runs of pairs with equally many rows, [(pairs, positions, R)]
    """

    coupling: Coupling
    inverses: tuple[tuple[slice, slice, Array], ...]
    num_pairs: int

    def solve(self, right: Array) -> tuple[Array, Array]:
        """Return R y: readouts (P, d, d_out) and gamma (d_out,); right: (T, d_out)."""
        width, outputs = self.coupling.own.shape[1], right.shape[1]
        readouts = np.zeros((self.num_pairs, width, outputs))
        gamma = np.zeros(outputs)
        if self.coupling.reader is not None:
            gamma = right[-1]
            right = right - self.coupling.extra[:, np.newaxis] * gamma
        for pairs, rows, inverse in self.inverses:
            blocks = right[rows].reshape(len(inverse), inverse.shape[2], outputs)
            readouts[pairs] = np.matmul(inverse, blocks)
        return readouts, gamma

    def apply(self, unknown: tuple[Array, Array]) -> Array:
        """Return (D + M) U: (T, d_out)."""
        readouts, gamma = unknown
        own, outputs = self.coupling.own, readouts.shape[2]
        result: Array = self.coupling.leftover @ readouts.reshape(-1, outputs)
        for pairs, rows, inverse in self.inverses:
            blocks = own[rows].reshape(len(inverse), inverse.shape[2], own.shape[1])
            result[rows] += np.matmul(blocks, readouts[pairs]).reshape(-1, outputs)
        result += self.coupling.extra[:, np.newaxis] * gamma
        return result


def solve(ordered: Ordered, coupling: Coupling, targets: Array) -> Readout:
    """Solve for the readouts of all pairs; targets: (T, d_out), by position.

    Raises PrecisionError if a block is singular, or if the coupling does not let the iteration
    converge.
    """
    inverses, condition, ranks = _invert(ordered, coupling)
    system = _System(coupling, inverses, ordered.num_pairs)
    scale: Array = np.ldexp(1.0, np.frexp(np.abs(targets).max(axis=0))[1])  # norms stay in range
    (readouts, gamma), residual = _iterate(system, targets / scale)
    if not np.isfinite(residual).all():
        raise PrecisionError(
            "a block of a pair of heads is singular, or numbers are too far apart for float64 "
            f"(condition number about {condition:.0e})",
            witness=condition,
            suggestion="another seed=, more heads, data of one scale, or construction='saturated'",
        )
    readouts, gamma = readouts * scale, gamma * scale
    effective = np.stack([readouts, -readouts], axis=1)
    if coupling.reader is not None:
        effective[0, 1] += coupling.reader.dual[:, np.newaxis] * gamma
    forward = _System(dataclasses.replace(coupling, own=coupling.again), inverses, len(readouts))
    return Readout(effective, targets - forward.apply((readouts, gamma)), condition, ranks)


def _iterate(system: _System, targets: Array) -> tuple[tuple[Array, Array], Array]:
    """U and the residual Y - (D + M) U, not finite where a block is singular, by GMRES for y."""
    from scipy.sparse.linalg import LinearOperator, gmres  # noqa: PLC0415 - long to import

    shape = targets.shape

    def product(flat: Array) -> Array:
        return system.apply(system.solve(flat.reshape(shape))).ravel()

    operator = LinearOperator((targets.size, targets.size), matvec=product, dtype=np.float64)
    with np.errstate(all="ignore"):  # a singular block shows in the residual
        flat, _ = gmres(
            operator, targets.ravel(), rtol=_TOLERANCE, restart=_RESTART, maxiter=_ROUNDS
        )
        unknown = system.solve(flat.reshape(shape))
        return unknown, targets - system.apply(unknown)


def _invert(
    ordered: Ordered, coupling: Coupling
) -> tuple[tuple[tuple[slice, slice, Array], ...], float, Integers]:
    """R_p for all pairs, the largest condition number, and the ranks."""
    parts, condition, ranks = [], 1.0, []
    for pairs, size in _runs(ordered):
        rows = slice(ordered.start(pairs.start), int(ordered.stops[pairs.stop - 1]))
        count = pairs.stop - pairs.start
        blocks = coupling.own[rows].reshape(count, size, ordered.width)
        basis, triangle = np.linalg.qr(blocks.transpose(0, 2, 1))
        distances = np.abs(np.diagonal(triangle, axis1=1, axis2=2))
        least = np.finfo(float).eps * blocks.shape[2] * distances.max(axis=1, initial=0.0)
        full = distances > least[:, np.newaxis]
        ranks.append(full.sum(axis=1))
        if full.all():
            # D = R^T Q^T, so its right inverse is Q R^-T.
            inverse = np.linalg.solve(triangle, basis.transpose(0, 2, 1)).transpose(0, 2, 1)
            if size:
                norms = np.abs(blocks).sum(axis=2).max(axis=1)
                condition = max(
                    condition, float((norms * np.abs(inverse).sum(axis=2).max(axis=1)).max())
                )
        else:
            inverse = np.full((count, ordered.width, size), np.nan)
            condition = float("inf")
        parts.append((pairs, rows, inverse))
    return tuple(parts), condition, np.concatenate(ranks)


def _runs(ordered: Ordered) -> Iterator[tuple[slice, int]]:
    """Consecutive pairs with equally many examples, a bounded number at a time, and how many."""
    sizes = np.diff(ordered.stops, prepend=0)
    step = max(1, CHUNK_BYTES // (8 * ordered.width**2))
    start = 0
    while start < len(sizes):
        others = np.flatnonzero(sizes[start : start + step] != sizes[start])
        stop = start + int(others[0]) if len(others) else min(start + step, len(sizes))
        yield slice(start, stop), int(sizes[start])
        start = stop
