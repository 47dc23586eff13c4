"""Heads in pairs, for contexts of their own, whose readout does not cost T^3.

Most of Z is never formed, because heads saturate there. The steps of `PairedHeads.build`:
`arrange` orders the examples, `build_all` builds the pairs, and `solve` finds the readout.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from constructive.constructions.construction import (
    FLOAT,
    USUAL,
    Built,
    Construction,
    Cost,
    Options,
    Outcome,
    Survey,
)
from constructive.constructions.multihead.assumptions import too_many_tokens
from constructive.constructions.multihead.readout import largest
from constructive.constructions.paired_heads import BuiltPairs, Reader, build_all
from constructive.constructions.paired_search import SWEEP, Ordered, arrange
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.layers.layer import AttentionLayer
from constructive.layers.record import HeadRecord
from constructive.support.arrays import CHUNK_BYTES, Array, Integers
from constructive.support.errors import (
    AssumptionError,
    CapacityError,
    ParameterError,
    PrecisionError,
)
from constructive.support.work import report
from constructive.theory.bounds import Plan, paired_capacity, rank_one_capacity

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# The readout of paired heads: one small system a pair, and an iteration for what couples them.
#
# *Blocks.* The equations of pair p are D_p U_p = y_p with |S| + |S'| <= d - 1 rows; the shortest
# solution is R_p y_p with R_p = D_p^T (D_p D_p^T)^-1, from a QR factorization of D_p^T. All blocks
# together cost O(T d^2).
#
# *The extra example* t* belongs to no pair. The second head of pair 0 reads from it one token x*,
# and gets the readout -U_0 + gamma x* / |x*|^2. Then f(t*) = gamma = y*, and every other example t
# gets gamma kappa_t with kappa_t = z_t.x* / |x*|^2 for what that head reads there.
#
# *Leftover coupling.* With M the few entries x_{t,p} off the blocks, (D + M) U = Y is solved by
# GMRES for y in (D + M) R y = Y, so U = R y. As (D + M) R is I + M R with M R nilpotent where
# coupling is block triangular (`paired_search`), the iteration ends after as many steps as coupling
# is deep; without coupling after one, which refines.


_TOLERANCE = 1e-14
_RESTART, _ROUNDS = 40, 3


@dataclass(frozen=True, eq=False)
class PairedReadout:
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
class _PairSystem:
    """(D + M) and R, with the extra example as one more unknown gamma where there is one.

    own:      (T', d), x_{t,p} at the pair p of t; T' positions belong to a pair
    leftover: (T, P d), sparse: x_{t,p} elsewhere, where the pair p is not saturated on t
    extra:    (T,), kappa_t of the reader
    inverses: R_p by runs of pairs with equally many rows, [(pairs, positions, R)]
    """

    own: Array
    leftover: "csr_array"
    extra: Array
    inverses: tuple[tuple[slice, slice, Array], ...]
    ordered: Ordered

    def solve(self, right: Array) -> tuple[Array, Array]:
        """Return R y: readouts (P, d, d_out) and gamma (d_out,); right: (T, d_out)."""
        outputs = right.shape[1]
        readouts = np.zeros((self.ordered.num_pairs, self.own.shape[1], outputs))
        gamma = np.zeros(outputs)
        if self.ordered.has_extra:
            gamma = right[-1]
            right = right - self.extra[:, np.newaxis] * gamma
        for pairs, rows, inverse in self.inverses:
            blocks = right[rows].reshape(len(inverse), inverse.shape[2], outputs)
            readouts[pairs] = np.matmul(inverse, blocks)
        return readouts, gamma

    def apply(self, unknown: tuple[Array, Array]) -> Array:
        """Return (D + M) U: (T, d_out)."""
        readouts, gamma = unknown
        own, outputs = self.own, readouts.shape[2]
        result: Array = self.leftover @ readouts.reshape(-1, outputs)
        for pairs, rows, inverse in self.inverses:
            blocks = own[rows].reshape(len(inverse), inverse.shape[2], own.shape[1])
            result[rows] += np.matmul(blocks, readouts[pairs]).reshape(-1, outputs)
        result += self.extra[:, np.newaxis] * gamma
        return result


def solve(
    ordered: Ordered, built: BuiltPairs, reader: Reader | None, targets: Array
) -> PairedReadout:
    """Solve for the readouts of all pairs; targets: (T, d_out), by position.

    Raises PrecisionError if a block is singular, or if the coupling does not let the iteration
    converge.
    """
    from scipy.sparse import csr_array  # noqa: PLC0415 - long to import

    width = built.own.shape[1]
    columns = built.pairs[:, np.newaxis] * width + np.arange(width)
    leftover = csr_array(
        (built.coupled.ravel(), (np.repeat(built.positions, width), columns.ravel())),
        shape=(len(targets), ordered.num_pairs * width),
    )
    extra = built.extra if reader is None else np.append(built.extra, 1.0)  # x* is read as x*
    inverses, condition, ranks = _invert(ordered, built.own)
    system = _PairSystem(built.own, leftover, extra, inverses, ordered)
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
    if reader is not None:
        effective[0, 1] += reader.dual[:, np.newaxis] * gamma
    forward = dataclasses.replace(system, own=built.again)
    return PairedReadout(effective, targets - forward.apply((readouts, gamma)), condition, ranks)


def _iterate(system: _PairSystem, targets: Array) -> tuple[tuple[Array, Array], Array]:
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
    ordered: Ordered, own: Array
) -> tuple[tuple[tuple[slice, slice, Array], ...], float, Integers]:
    """R_p for all pairs, the largest condition number, and the ranks."""
    parts, condition, ranks = [], 1.0, []
    for pairs, size in _runs(ordered.stops, own.shape[1]):
        rows = slice(ordered.start(pairs.start), int(ordered.stops[pairs.stop - 1]))
        count = pairs.stop - pairs.start
        blocks = own[rows].reshape(count, size, own.shape[1])
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
            inverse = np.full((count, own.shape[1], size), np.nan)
            condition = float("inf")
        parts.append((pairs, rows, inverse))
    return tuple(parts), condition, np.concatenate(ranks)


def _runs(stops: Integers, width: int) -> Iterator[tuple[slice, int]]:
    """Consecutive pairs with equally many examples, a bounded number at a time, and how many."""
    sizes = np.diff(stops, prepend=0)
    step = max(1, CHUNK_BYTES // (8 * width**2))
    start = 0
    while start < len(sizes):
        others = np.flatnonzero(sizes[start : start + step] != sizes[start])
        stop = start + int(others[0]) if len(others) else min(start + step, len(sizes))
        yield slice(start, stop), int(sizes[start])
        start = stop


# Own contexts: heads in pairs, and a small system for each pair, without a T x T matrix.


class PairedHeads(Construction):
    """Heads 2p and 2p + 1 read nearly the same but from their own examples."""

    def plan(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Plan:
        """Plan for contexts of their own, of two tokens at least."""
        if shapes.shared_context:
            raise ParameterError(
                "construction='paired' needs own contexts: on a shared one the rows of a pair lie "
                f"in a space of n - 1 = {shapes.context_size - 1} dimensions",
                witness="one shared context",
                suggestion="construction='saturated'",
            )
        if shapes.context_size == 1:
            raise ParameterError(
                "construction='paired' needs contexts with n >= 2 tokens",
                witness=shapes.context_size,
                suggestion="construction='saturated', which memorizes one example here",
            )
        holds = paired_capacity(num_heads, shapes.width)
        plan = Plan(self.name, num_heads, options.inner_dim, holds, rank_one=True)
        if shapes.num_examples > holds:
            needed = 2 * max(1, -(-(shapes.num_examples - 1) // max(shapes.width - 1, 1)))
            suggestion = f"num_heads={needed}"
            dense = rank_one_capacity(num_heads, shapes.context_size)
            if dense >= shapes.num_examples:
                suggestion += (
                    f"; construction='saturated', which memorizes {dense} with these heads"
                )
            formula = (
                f"{self.formula} = {holds}" if num_heads > 1 else "none: one head is not a pair"
            )
            raise CapacityError(
                f"{shapes.num_examples} examples are too many for {num_heads} heads in pairs: a "
                f"pair takes at most d - 1 = {shapes.width - 1}, so all memorize {formula}",
                witness=shapes.num_examples,
                suggestion=suggestion,
            )
        return plan

    def cost(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Cost:  # noqa: ARG002
        """Estimate sweeps over angles, and a system of d for each pair."""
        total, size, width = shapes.num_examples, shapes.context_size, shapes.width
        sweep = total * num_heads / 2 * (2 * 4 * width + SWEEP)
        return Cost(sweep + 4.0 * total * width**2, 8.0 * total * (4 * width + 2 * size))

    def build(
        self, survey: Survey, plan: Plan, options: Options, *, rng: np.random.Generator
    ) -> Outcome:
        """Order the examples so that pairs take those with the smallest gaps first."""
        dataset: Dataset = survey.dataset
        obstacle = too_many_tokens(dataset) or survey.repeated
        if obstacle is not None:
            return obstacle
        ordered = arrange(dataset, plan.num_heads, rng)
        if isinstance(ordered, AssumptionError):
            return ordered
        built, reader = build_all(ordered, plan.head_dim, int(rng.integers(2**63)))
        report("solve for the readout", 0, 1)
        targets = dataset.target_matrix[ordered.order].astype(np.float64, copy=False)
        solution = solve(ordered, built, reader, targets)

        idle = plan.num_heads % 2  # a head without a partner does nothing
        shape = (plan.num_heads - idle, dataset.width, -1)
        pad = ((0, idle), (0, 0), (0, 0))
        missed = np.bincount(built.pairs, minlength=ordered.num_pairs)
        layer = AttentionLayer.from_effective_readout(
            np.pad(built.query_weights.reshape(shape), pad),
            np.pad(built.key_weights.reshape(shape), pad),
            np.pad(solution.effective.reshape(shape), pad).reshape(-1, dataset.target_dim),
            options.value_dim,
        )
        return Built(
            layer,
            largest(solution.residual),
            solution.condition,
            _pair_records(ordered, built.sharpness, missed, solution.ranks, idle),
            shared_keys=True,
            order=tuple(ordered.order.tolist()),
            coupled=len(built.positions),
            fraction=options.saturated_fraction,
        )


def _pair_records(
    ordered: Ordered, sharpness: Array, missed: Integers, ranks: Integers, idle: int
) -> tuple[HeadRecord, ...]:
    records = []
    stops, reached = [0, *ordered.stops.tolist()], [0, *np.cumsum(ranks).tolist()]
    total = len(ordered.queries)
    for pair in range(ordered.num_pairs):
        start, stop = stops[pair], stops[pair + 1]
        half = start + (stop - start + 1) // 2
        saturated = 1.0 - missed[pair] / max(total - (stop - start), 1)
        reached_by = float(sharpness[pair])
        rank = reached[pair] + min(half - start, int(ranks[pair]))
        records.append(HeadRecord(start, half, reached_by, float(saturated), rank))
        records.append(HeadRecord(half, stop, reached_by, float(saturated), reached[pair + 1]))
    records += [HeadRecord(stops[-1], stops[-1], 0.0, 0.0, reached[-1])] * idle
    return tuple(records)


PAIRED = PairedHeads("paired", "(H // 2)(d - 1) + 1", "Theorem 6", options={FLOAT: USUAL})
