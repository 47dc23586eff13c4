"""Each construction as one function: its steps in order, from a data set to heads and a readout.

dense    the theorems' heads, Z, and the shortest readout of all (`multihead`)
paired   heads in pairs, and a small system for each (`decoupled.pairs`, own contexts)
schur    elimination within heads, and a system of size 2H (`decoupled.schur`, shared context)
"""

from dataclasses import dataclass

import numpy as np

from constructive.capacity import Plan
from constructive.dataset import Array, Dataset
from constructive.decoupled import coupling, ordering, pairs, schur
from constructive.decoupled import readout as decoupled_readout
from constructive.multihead import assumptions, grouping, heads, intermediate, readout
from constructive.progress import Progress
from constructive.record import HeadRecord


@dataclass(frozen=True, eq=False)
class Built:
    """Heads with an effective readout, and what was found on the way.

    query_weights, key_weights: (H, d, d_h);  effective: U (H d, d_out)
    residuals: (d_out,), the largest |f - y| for each entry of the targets, as measured
    condition: estimated condition number of Z, or the largest one among the systems solved
    order:     the examples in the order in which heads take them; empty where it is as given
    coupled:   entries beside the groups which are not saturated, and were solved for
    """

    query_weights: Array
    key_weights: Array
    effective: Array
    residuals: Array
    condition: float
    heads: tuple[HeadRecord, ...]
    shared_keys: bool
    order: tuple[int, ...] = ()
    coupled: int = 0


def build(
    dataset: Dataset,
    plan: Plan,
    *,
    shared_keys: bool,
    fraction: float,
    rng: np.random.Generator,
    progress: Progress,
) -> Built:
    """Build by the construction of the plan; raises what its steps raise."""
    if plan.construction == "paired":
        return _paired(dataset, plan, rng, progress)
    if plan.construction == "schur":
        return _schur(dataset, plan, rng, progress)
    return _dense(
        dataset, plan, shared_keys=shared_keys, fraction=fraction, rng=rng, progress=progress
    )


def _dense(
    dataset: Dataset,
    plan: Plan,
    *,
    shared_keys: bool,
    fraction: float,
    rng: np.random.Generator,
    progress: Progress,
) -> Built:
    assumed = assumptions.check(dataset)
    groups = grouping.partition(dataset, plan.num_heads)
    progress("build heads", 0, plan.num_heads)
    built = heads.construct(
        dataset, assumed, groups, plan, shared_keys=shared_keys, fraction=fraction, rng=rng
    )
    z = intermediate.assemble(dataset, built, progress=progress)
    progress("solve for the readout", 0, 1)
    solution = readout.solve(z, dataset.target_matrix)
    records = tuple(
        HeadRecord(
            start=head.group.start,
            stop=head.group.stop,
            sharpness=head.sharpness,
            saturated_fraction=float(saturated),
            rank_reached=rank,
        )
        for head, saturated, rank in zip(built, z.saturated_fraction, solution.ranks, strict=True)
    )
    return Built(
        z.query_weights,
        z.key_weights,
        solution.effective,
        solution.residuals,
        solution.condition,
        records,
        shared_keys,
    )


def _paired(dataset: Dataset, plan: Plan, rng: np.random.Generator, progress: Progress) -> Built:
    progress("check the contexts", 0, 1)
    assumed = assumptions.check(dataset)
    ordered = ordering.arrange(dataset, plan.num_heads, rng)
    largest = -(-int(np.diff(ordered.stops, prepend=0).max()) // 2)
    built = pairs.construct(
        ordered, assumed, plan.head_dim,
        full_rank=plan.head_dim > largest, rng=rng, progress=progress,
    )  # fmt: skip
    progress("solve for the readout", 0, 1)
    entries = coupling.evaluate(ordered, built)
    solution = decoupled_readout.solve(ordered, built, entries)
    residual = decoupled_readout.measure(ordered, built, entries, solution)

    idle = plan.num_heads % 2  # a head without a partner does nothing
    shape = (plan.num_heads - idle, dataset.width, -1)
    pad = ((0, idle), (0, 0), (0, 0))
    missed = np.bincount(built.leftover_pairs, minlength=ordered.num_pairs)
    return Built(
        np.pad(built.query_weights.reshape(shape), pad),
        np.pad(built.key_weights.reshape(shape), pad),
        np.pad(solution.effective.reshape(shape), pad).reshape(-1, dataset.target_dim),
        _largest(residual),
        solution.condition,
        _pair_records(ordered, built, missed, solution.ranks, idle),
        shared_keys=True,
        order=tuple(ordered.order.tolist()),
        coupled=entries.entries,
    )


def _pair_records(
    ordered: ordering.Ordered,
    built: pairs.Pairs,
    missed: ordering.Integers,
    ranks: ordering.Integers,
    idle: int,
) -> tuple[HeadRecord, ...]:
    records = []
    stops, reached = [0, *ordered.stops.tolist()], [0, *np.cumsum(ranks).tolist()]
    total = len(ordered.queries)
    for pair in range(ordered.num_pairs):
        start, stop = stops[pair], stops[pair + 1]
        half = start + (stop - start + 1) // 2
        saturated = 1.0 - missed[pair] / max(total - (stop - start), 1)
        sharpness = float(built.sharpness[pair])
        rank = reached[pair] + min(half - start, int(ranks[pair]))
        records.append(HeadRecord(start, half, sharpness, float(saturated), rank))
        records.append(HeadRecord(half, stop, sharpness, float(saturated), reached[pair + 1]))
    records += [HeadRecord(stops[-1], stops[-1], 0.0, 0.0, reached[-1])] * idle
    return tuple(records)


def _schur(dataset: Dataset, plan: Plan, rng: np.random.Generator, progress: Progress) -> Built:
    assumed = assumptions.check(dataset)
    groups = grouping.partition(dataset, plan.num_heads)
    built = schur.construct(dataset, assumed, groups, plan.head_dim, rng=rng, progress=progress)
    solution = schur.solve(dataset, groups, built, progress=progress)
    residual = schur.measure(dataset, groups, built, solution.effective)
    missed = np.bincount(built.leftover_heads, minlength=plan.num_heads)
    records = tuple(
        HeadRecord(
            start=group.start,
            stop=group.stop,
            sharpness=float(sharpness),
            saturated_fraction=float(1.0 - miss / max(dataset.num_examples - group.size, 1)),
            rank_reached=group.stop,  # a singular system is refused
        )
        for group, sharpness, miss in zip(groups, built.sharpness, missed, strict=True)
    )
    return Built(
        built.query_weights,
        built.key_weights,
        solution.effective.reshape(-1, dataset.target_dim),
        _largest(residual),
        solution.condition,
        records,
        shared_keys=True,
        coupled=len(built.leftover_heads),
    )


def _largest(residual: Array) -> Array:
    """max |f - y| for each entry of the targets, infinite where it is not a number."""
    largest = np.abs(residual).max(axis=0)
    return np.where(np.isfinite(largest), largest, np.inf)
