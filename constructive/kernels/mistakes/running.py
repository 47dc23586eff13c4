"""Mistakes in running sums: what is rescaled, counted again, or carried to the next queries."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from constructive.kernels.mistakes.bench import SPLITS, Bench, Mistakes
from constructive.support.arrays import Array, Booleans, Integers

_NEVER = -1
# What a block of queries may take over from the one before.
_STATES = {
    "the sum of weights is": ("total",),
    "the accumulator is": ("out",),
    "the largest logit is": ("largest",),
    "the largest logit and the sum of weights are": ("largest", "total"),
    "the largest logit and the accumulator are": ("largest", "out"),
    "the sum of weights and the accumulator are": ("total", "out"),
    "the largest logit, the sum of weights and the accumulator are": ("largest", "total", "out"),
}


@dataclass(frozen=True, eq=False)
class Running:
    """Softmax over blocks of keys, by running sums; one step may be changed."""

    rescales_sums: bool = True  # whether sums of weights are rescaled when the largest logit rises
    rescales_outputs: bool = True  # whether sums of values are
    keeps_sums: bool = True  # whether sums of weights of earlier blocks are kept
    keeps_outputs: bool = True  # whether sums of values are
    keeps_largest: bool = True  # whether the largest logit is that of all blocks so far
    is_inverted: bool = False  # whether the factor of rescaling is divided by
    # whether sums of values are divided by those of weights after every block
    is_divided: bool = False
    is_late: bool = False  # whether weights are taken less the largest logit of the blocks before
    has_sinks: bool = False  # whether sums start with the sinks; else they join at the end
    # of the factor, from the largest logits of the blocks before and of all
    exponent: Callable[[Array, Array], Array] = np.subtract
    first: Integers | None = None  # for each row the one whose factor it has, or None
    reference: Array | None = None  # logits of which the largest are taken, (B, H, R, T_k), or None

    def run(self, bench: Bench, block: int) -> Array:
        """Return the output for blocks of a number of keys."""
        # In the format of accumulators, in which factors that are too large overflow.
        real = np.float64 if bench.problem.spec.output.name == "float64" else np.float32
        logits: Array = bench.logits.astype(real)
        values: Array = bench.values.astype(real)
        seen = logits if self.reference is None else self.reference.astype(real)
        rows = logits.shape[:3]
        largest = np.full((*rows, 1), -np.inf, real)
        total, out = np.zeros((*rows, 1), real), np.zeros((*rows, values.shape[-1]), real)
        sinks = None if bench.sinks is None else bench.sinks.astype(real)
        if self.has_sinks and sinks is not None:
            largest, total = np.broadcast_to(sinks, total.shape), total + real(1.0)
        with np.errstate(all="ignore"):
            for start in range(0, logits.shape[-1], block):
                keys = slice(start, start + block)
                top = seen[..., keys].max(-1, keepdims=True)
                new = np.maximum(largest, top) if self.keeps_largest else top
                base = _finite(largest if self.is_late and start else new)
                weights = np.exp(logits[..., keys] - base)
                factor = self._factor(largest, _finite(new))
                total = total * factor if self.rescales_sums else total
                out = out * factor if self.rescales_outputs else out
                total = weights.sum(-1, keepdims=True) + (total if self.keeps_sums else real(0.0))
                out = weights @ values[:, :, keys] + (out if self.keeps_outputs else real(0.0))
                if self.is_divided:
                    out = out / np.where(total > 0.0, total, real(1.0))
                largest = new
            if not self.has_sinks and sinks is not None:
                total = total + np.exp(sinks - largest)
            return (out if self.is_divided else out / total).astype(np.float64)

    def _factor(self, old: Array, new: Array) -> Array:
        exponent = self.exponent(old, new)
        if self.first is not None:
            exponent, old = exponent[:, :, self.first], old[:, :, self.first]
        factor = np.where(np.isfinite(old), np.exp(exponent), old.dtype.type(0.0))
        if self.is_inverted:
            factor = np.where(factor > 0.0, old.dtype.type(1.0) / factor, factor)
        return factor


def _finite(largest: Array) -> Array:
    """Return largest logits; 0 in rows that have seen no key."""
    return np.where(np.isfinite(largest), largest, largest.dtype.type(0.0))


def _by_first(bench: Bench, queries: int, keys: int, *, has_sinks: bool) -> Array:
    """Return the output where all rows of a block of queries have the factors of its first row."""
    rows, count = bench.rows, len(bench.rows)
    both = Bench(bench.problem, np.concatenate([rows, rows // queries * queries]))
    first = np.tile(count + np.arange(count), 2)
    return Running(first=first, has_sinks=has_sinks).run(both, keys)[:, :, :count]


_INVERTED = Running(exponent=lambda old, new: new - old, has_sinks=True)
_BASE_TWO = Running(exponent=lambda old, new: (old - new) * np.log(2.0), has_sinks=True)


def rescaling(bench: Bench) -> Mistakes:
    """Yield softmax in blocks that forgets a part of what it has to carry along."""
    named = {
        "sums are not rescaled when the largest logit rises": Running(rescales_sums=False),
        "the accumulator is not rescaled when the largest logit rises":
            Running(rescales_outputs=False),
        "neither sums nor the accumulator are rescaled":
            Running(rescales_sums=False, rescales_outputs=False),
        "the largest logit is that of the block, not the largest so far":
            Running(keeps_largest=False),
        "only the last block is in the denominator": Running(keeps_sums=False),
        "only the last block is in the accumulator": Running(keeps_outputs=False),
        "the rescaling factor is inverted": Running(is_inverted=True),
        "the accumulator is divided by the sum after every block": Running(is_divided=True),
        "weights are taken less the largest logit of blocks before": Running(is_late=True),
    }  # fmt: skip
    for sentence, changed in named.items():
        for block in bench.blocks:
            if block < bench.problem.spec.keys:
                yield f"{sentence} (blocks of {block} keys)", partial(changed.run, bench, block)
    for block in bench.blocks[:3]:
        if block < min(bench.problem.spec.keys, bench.problem.spec.queries):
            yield (
                f"rows are rescaled by the factor of the first one of each block of {block}",
                partial(_by_first, bench, block, block, has_sinks=False),
            )


def running(bench: Bench) -> Mistakes:
    """Yield sums that miss their last block, and rows that are rescaled by others."""
    spec = bench.problem.spec
    for queries, keys in bench.tiles:
        if keys >= spec.keys:
            continue
        size = f"(blocks of {queries} queries and {keys} keys)"
        if queries > 1 and queries != keys and spec.queries > 1:
            yield (
                f"rows are rescaled by the factor of the first one of their block {size}",
                partial(_by_first, bench, queries, keys, has_sinks=True),
            )
        yield (
            f"outputs are divided by the sum of weights before the last block {size}",
            partial(_without_last, bench, queries, keys),
        )
        yield (
            f"values of each block are those of the block before, the first are zeros {size}",
            partial(_stale, bench, queries, keys),
        )
        first, _ = _span(bench, queries, keys)
        own = np.where(bench.visible, np.arange(spec.keys), spec.keys).min(-1) // keys
        if (first < own).any():
            yield (
                f"rows whose first block has no visible key are NaN, -inf less -inf {size}",
                bench.filled((first < own)[..., None], np.nan),
            )
    for keys in sorted({keys for _, keys in bench.tiles if keys < spec.keys}):
        last = np.arange(spec.keys) % keys == keys - 1
        yield (
            f"the last key of each block is in the sum, not in the output (blocks of {keys} keys)",
            partial(bench.averaged, v=np.where(last[:, None], 0.0, bench.values)),
        )
        yield (
            f"factors of rescaling are inverted, exp(new - old) (blocks of {keys} keys)",
            partial(_INVERTED.run, bench, keys),
        )
        if not bench.visible.all() or spec.sink:
            yield (
                f"the factor of rescaling is exp2 without log2(e) (blocks of {keys} keys)",
                partial(_BASE_TWO.run, bench, keys),
            )


def counted_again(bench: Bench) -> Mistakes:
    """Yield what counts in every block that is read: hidden keys, sinks, splits without keys."""
    problem = bench.problem
    cap = problem.spec.soft_cap
    if cap is not None and not bench.visible.all():
        logits = np.where(bench.visible, bench.scores, -cap)
        index = np.arange(problem.spec.keys)
        for queries, keys in bench.tiles:
            first, last = (end[..., None] for end in _span(bench, queries, keys))
            read = (index // keys >= first) & (index // keys <= last)
            yield (
                "the soft cap is applied after the mask: hidden keys in blocks that are read have "
                f"a logit of -cap (blocks of {queries} queries and {keys} keys)",
                partial(bench.averaged, logits, np.asarray(read)),
            )
    if bench.sinks is not None:
        for queries, keys in bench.tiles:
            _, last = _span(bench, queries, keys)
            more = bench.sinks + np.log(np.maximum(last + 1, 1)[..., None])
            yield (
                f"the sink is counted in each block that is read (blocks of {queries} queries "
                f"and {keys} keys)",
                partial(bench.averaged, sinks=more),
            )
    ends = np.where(bench.visible, np.arange(problem.spec.keys) + 1, 0).max(-1, keepdims=True)
    for parts in SPLITS:
        for block in (1, *sorted({keys for _, keys in bench.tiles})):
            blocks = -(-ends // block)
            empty = parts - -(-blocks // np.maximum(-(-blocks // parts), 1))
            if empty.any():
                yield (
                    f"each split without keys adds 1 to the sum of weights ({parts} splits of "
                    f"blocks of {block})",
                    partial(bench.averaged, more=empty),
                )


def _span(bench: Bench, queries: int, keys: int) -> tuple[Integers, Integers]:
    """Return the first and last block of keys that the block of a query reads, (B, H, R)."""
    every = bench.problem.visible
    shape = bench.problem.answer.weights.shape
    j = np.arange(shape[-1])
    low = np.where(every, j, shape[-1]).min(-1) // keys
    high = np.where(every, j, _NEVER).max(-1) // keys
    starts = np.arange(0, every.shape[2], queries)
    index = np.minimum(bench.rows // queries, len(starts) - 1)
    found = (
        np.minimum.reduceat(low, starts, axis=-1)[..., index],
        np.maximum.reduceat(high, starts, axis=-1)[..., index],
    )
    rows = (*shape[:2], len(bench.rows))
    return np.broadcast_to(found[0], rows), np.broadcast_to(found[1], rows)


def _without_last(bench: Bench, queries: int, keys: int) -> Array:
    """Return the output divided by the sum that its last block has not joined, if there is one."""
    _, last = _span(bench, queries, keys)
    before: Booleans = np.arange(bench.problem.spec.keys) // keys < last[..., None]
    earlier = np.where(bench.visible & before, bench.scores, -np.inf)
    weights, total = bench.weighed()
    top = earlier.max(-1, keepdims=True)
    if bench.sinks is not None:
        top = np.maximum(top, bench.sinks)
    with np.errstate(all="ignore"):
        part = np.exp(earlier - np.where(np.isfinite(top), top, 0.0)).sum(-1, keepdims=True)
        if bench.sinks is not None:
            part = part + np.exp(bench.sinks - top)
        out: Array = weights @ bench.values / np.where(part > 0.0, part, total)
    return out


def _stale(bench: Bench, queries: int, keys: int) -> Array:
    """Return the output where the values of a block come one block late."""
    first, _ = _span(bench, queries, keys)
    weights, total = bench.weighed()
    j = np.arange(bench.problem.spec.keys)
    late = np.where(j // keys > first[..., None], weights, 0.0)
    with np.errstate(all="ignore"):
        out: Array = late @ bench.values[:, :, np.maximum(j - keys, 0)] / total
    return out


def carried(bench: Bench) -> Mistakes:
    """Yield parts of the running softmax that a block of queries takes over from the one before."""
    for block in bench.blocks:
        if block < bench.problem.spec.queries:
            for words, kept in _STATES.items():
                sentence = f"{words} not reset between blocks of queries"
                yield f"{sentence} (blocks of {block})", partial(_carried, bench, block, kept)


def _carried(bench: Bench, block: int, kept: tuple[str, ...]) -> Array:
    """Return the output where rows begin with what the row a block before ended with."""
    every = bench.every
    logits = every.logits
    top = logits.max(-1, keepdims=True)
    base = np.where(np.isfinite(top), top, 0.0)
    weights = np.exp((logits - base).astype(np.float32)).astype(np.float64)
    outs, totals = weights @ every.values, weights.sum(-1, keepdims=True)
    found = np.empty_like(outs)
    largest = total = out = np.zeros(())
    for start in range(0, outs.shape[2], block):
        rows = np.s_[:, :, start : start + block]
        of_block = top[rows]
        count = of_block.shape[2]
        before = largest[:, :, :count] if start and "largest" in kept else of_block - np.inf
        # A sum without its maximum is taken as it is: kernels add to it without rescaling.
        new = np.maximum(before, of_block)
        usual = np.where(np.isfinite(new), new, 0.0)
        factor = np.exp(before - usual) if "largest" in kept else np.ones(())
        share = np.exp(of_block - usual)
        more = total[:, :, :count] * factor if start and "total" in kept else 0.0
        total_now = totals[rows] * share + more
        more = out[:, :, :count] * factor if start and "out" in kept else 0.0
        out_now = outs[rows] * share + more
        found[rows] = out_now / total_now
        if start + block < outs.shape[2]:
            largest, total, out = new, total_now, out_now
    return found[:, :, bench.rows]
