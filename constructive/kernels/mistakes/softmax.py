"""Mistakes in the sums: denominators, padding, rescaling, merging of splits, sinks."""

from functools import partial

import numpy as np

from constructive.kernels.mistakes.bench import SPLITS, Bench, Made, Mistakes
from constructive.kernels.mistakes.running import Running
from constructive.support.arrays import Array


def denominators(bench: Bench) -> Mistakes:
    """Yield denominators that are missing or have more in them."""
    weights, total = bench.weighed()
    with np.errstate(all="ignore"):
        right = bench.averaged()
        yield "the output is not divided by the sum of weights", lambda: weights @ bench.values
        yield "the output is divided by the sum of weights twice", lambda: right / total
        yield (
            "the output is divided by the number of keys",
            lambda: weights @ bench.values / bench.problem.spec.keys,
        )
        yield "the output is multiplied by the sum of weights", lambda: right * total
    yield (
        "1 is added to the denominator (a sink that nobody asked for)",
        partial(bench.averaged, more=1.0),
    )
    for epsilon in (1e-3, 1e-2, 1e-4, 1e-5, 1e-6, 0.1):
        yield f"{epsilon:g} is added to the denominator", partial(bench.averaged, more=epsilon)
    yield (
        "all weights are equal: the softmax is missing",
        partial(bench.averaged, np.zeros_like(bench.scores)),
    )


def padding(bench: Bench) -> Mistakes:
    """Yield keys of zeros that are counted beyond the last one."""
    keys = bench.problem.spec.keys
    for block in bench.blocks:
        extra = -keys % block
        if extra:
            yield (
                f"{extra} keys of zeros, up to a multiple of {block}, are in the denominator",
                partial(bench.averaged, zeros=extra),
            )
    for count in range(1, 5):
        yield (
            f"{count} more with a logit of 0 in the denominator: keys of zeros, or empty splits",
            partial(bench.averaged, zeros=count),
        )
    spec, visible = bench.problem.spec, bench.visible
    if not visible.all():
        hidden = (~visible).sum(-1, keepdims=True)
        yield (
            "hidden keys are in the denominator, with a logit of 0",
            partial(bench.averaged, zeros=hidden),
        )
        beyond = np.broadcast_to((spec.keys - spec.lengths[1])[:, None, None, None], hidden.shape)
        yield (
            "keys beyond the length of a sequence are in the denominator, with a logit of 0",
            partial(bench.averaged, zeros=beyond),
        )


def twice(bench: Bench) -> Mistakes:
    """Yield keys that are counted twice, and keys beyond the last one, of the next head."""
    keys = bench.problem.spec.keys
    j = np.arange(keys)
    for block in bench.blocks:
        if block >= keys:
            continue
        last = (keys - 1) // block * block
        options = {
            f"the last block is read twice (blocks of {block} keys)": j >= last,
            f"the first block is read twice (blocks of {block} keys)": j < block,
            f"the last block of {block} keys is moved back, so that keys count twice": (
                (j >= keys - block) & (j < last)
            ),
            f"the first key of each block of {block} is read twice": (j % block == 0) & (j > 0),
        }
        for sentence, chosen in options.items():
            if chosen.any():
                yield sentence, partial(bench.averaged, bench.scores + np.log(1.0 + chosen))
    sizes = {-keys % block: f", up to a multiple of {block}" for block in bench.blocks}
    for extra, words in (sizes | {1: "", 2: ""}).items():
        if extra:
            yield (
                f"{extra} keys past the last one are read{words}: those of the next head in memory",
                partial(_past, bench, extra),
            )


def _past(bench: Bench, extra: int) -> Array:
    problem = bench.problem
    spec = problem.spec
    heads = np.arange(spec.batch)[:, None] * spec.heads[1] + np.arange(spec.heads[1])
    index = heads[..., None] * spec.keys + np.arange(spec.keys + extra)
    found = []
    for array in (problem.k, problem.v):
        flat = array.reshape(-1, array.shape[-1])
        found.append(np.repeat(flat[index % len(flat)], spec.group, axis=1))
    k, v = found
    scores = bench.scored(raw=bench.q @ k.swapaxes(-1, -2), bias=None)
    if bench.bias is not None:
        scores[..., : spec.keys] += bench.bias
    beyond = np.ones((*bench.visible.shape[:3], extra), dtype=np.bool_)
    if spec.heads[1] * spec.batch == 1:
        beyond[:] = False
    return bench.averaged(scores, np.concatenate([bench.visible, beyond], -1), v)


def maxima(bench: Bench) -> Mistakes:
    """Yield maxima that are not subtracted, or that do not start at -inf."""
    yield "the largest logit is not subtracted", partial(_fixed, bench)
    for start in (0.0, -1e4, -30.0, -100.0, -1e3, -5e4, -65504.0):
        words = f"the largest logit starts at {start:g}, not at -inf"
        yield f"{words}, and rows end as NaN", partial(_started, bench, start, np.nan)
        yield f"{words}, and rows end as zeros", partial(_started, bench, start, 0.0)

    factor = bench.problem.spec.factor
    early: dict[str, Made] = {"before logits are scaled": lambda: bench.raw}
    if bench.bias is not None:
        early["before the bias is added"] = lambda: bench.scored(bias=None)
    if bench.problem.spec.soft_cap is not None:
        early["before the soft cap"] = lambda: bench.raw * factor
    for words, scores in early.items():
        yield f"the largest logit is taken {words}", partial(_early, bench, scores, None)
        for block in bench.blocks:
            if block < bench.problem.spec.keys:
                yield (
                    f"the largest logit is taken {words} (blocks of {block} keys)",
                    partial(_early, bench, scores, block),
                )
    yield (
        "one largest logit is taken for all rows",
        partial(_of_block, bench, bench.problem.spec.queries),
    )
    yield "the smallest logit is subtracted, not the largest", partial(_smallest, bench)
    for block in bench.blocks:
        if block < bench.problem.spec.queries:
            yield (
                f"one largest logit is taken for all rows of each block of {block} queries",
                partial(_of_block, bench, block),
            )


def _early(bench: Bench, scores: Made, block: int | None) -> Array:
    reference = np.where(bench.visible, scores(), -np.inf)
    if block is None:
        return _fixed(bench, reference.max(-1, keepdims=True))
    return Running(reference=reference).run(bench, block)


def _smallest(bench: Bench) -> Array:
    return _fixed(bench, np.where(bench.visible, bench.scores, np.inf).min(-1, keepdims=True))


def _of_block(bench: Bench, block: int) -> Array:
    """Return the output with the largest logit of all rows of the block of each query."""
    every = bench.every
    top = every.logits.max(-1)
    starts = np.arange(0, top.shape[-1], block)
    of_blocks = np.maximum.reduceat(top, starts, axis=-1)
    return _fixed(bench, of_blocks[..., bench.rows // block, None])


def _fixed(bench: Bench, top: Array | float = 0.0) -> Array:
    """Return the output in float32 with other references than the largest logit."""
    logits = bench.logits.astype(np.float32)
    with np.errstate(all="ignore"):
        weights = np.exp(logits - np.where(np.isfinite(top), top, 0.0).astype(np.float32))
        total = weights.sum(-1, keepdims=True)
        if bench.sinks is not None:
            total = total + np.exp((bench.sinks - top).astype(np.float32))
        out: Array = (weights @ bench.values.astype(np.float32)) / total
    return out


def _started(bench: Bench, start: float, empty: float) -> Array:
    logits = bench.logits
    with np.errstate(all="ignore"):
        largest = np.maximum(logits.max(-1, keepdims=True), start)
        weights = np.exp((logits - largest).astype(np.float32)).astype(np.float64)
        total = weights.sum(-1, keepdims=True)
        return np.where(total > 0.0, weights @ bench.values / total, empty)


def _unshifted(bench: Bench, found: Array) -> Array:
    """Return the output where sinks are not less the largest logit; in float32 they overflow."""
    weights, total = bench.weighed(sinks=None)
    with np.errstate(all="ignore"):
        out: Array = weights @ bench.values / (total + np.exp(found.astype(np.float32)))
    return out


def _itself(bench: Bench, found: Array) -> Array:
    weights, total = bench.weighed(sinks=None)
    out: Array = weights @ bench.values / (total + found)
    return out


def _valued(bench: Bench, key: int) -> Array:
    weights, total = bench.weighed()
    rest = total - weights.sum(-1, keepdims=True)
    out: Array = (weights @ bench.values + rest * bench.values[:, :, key][:, :, None]) / total
    return out


def _first_column(bench: Bench) -> Array:
    weights, total = bench.weighed()
    rest = total - weights.sum(-1, keepdims=True)
    moved = np.concatenate([weights[..., 1:], rest], -1)
    out: Array = moved @ bench.values / total
    return out


def sinks(bench: Bench) -> Mistakes:
    """Yield sinks that are ignored, of another head, or counted otherwise."""
    spec, found = bench.problem.spec, bench.sinks
    if found is None:
        return
    yield "the sink is ignored", partial(bench.averaged, sinks=None)
    h = np.arange(spec.heads[0])
    maps = {
        "the sink is that of head 0": h * 0,
        "the sink is that of the next head": (h + 1) % spec.heads[0],
        "the sink is that of the KV head": h // spec.group,
        "sinks are in reverse order": spec.heads[0] - 1 - h,
        "sinks are those of KV head h % kv_heads": h % spec.heads[1],
    }
    for sentence, order in maps.items():
        if not np.array_equal(found[order], found):
            yield sentence, partial(bench.averaged, sinks=found[order])
    yield "sinks are not shifted by the largest logit", partial(_unshifted, bench, found)
    yield "the sink itself is added to the sum, not its exponential", partial(_itself, bench, found)
    yield "the weight of the sink goes to the value of the first key", partial(_valued, bench, 0)
    yield "the weight of the sink goes to the value of the last key", partial(_valued, bench, -1)
    yield (
        "the column of the sink is taken to be the first: each key has the weight of the next one",
        partial(_first_column, bench),
    )
    by_query = found[bench.rows % spec.heads[0], 0]
    yield (
        "the sink is that of the head with the query's number",
        partial(bench.averaged, sinks=by_query),
    )
    yield "the sink is 0 in every head", partial(bench.averaged, sinks=found * 0.0)
    yield "sinks have the opposite sign", partial(bench.averaged, sinks=-found)
    yield "sinks are multiplied by the scale", partial(bench.averaged, sinks=found * spec.factor)
    yield "the sink is counted twice", partial(bench.averaged, sinks=found + np.log(2.0))
    counts = {f"each of {parts} splits": parts for parts in SPLITS}
    for block in bench.blocks:
        counts[f"each block of {block} keys"] = -(-spec.keys // block)
    for words, count in counts.items():
        if count > 1:
            more = found + np.log(float(count))
            yield f"the sink is counted in {words}", partial(bench.averaged, sinks=more)
