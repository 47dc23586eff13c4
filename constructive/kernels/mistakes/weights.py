"""Mistakes in weights: cut off, clamped, transposed, summed along other axes or in few bits."""

from functools import partial

import numpy as np

from constructive.exact.formats import FORMATS, Format, nearest
from constructive.kernels.masks import RightPadding
from constructive.kernels.mistakes.bench import Bench, Mistakes
from constructive.support.arrays import Array, Booleans

_SMALL = (0.1, 0.05, 0.01, 1e-3)
_COUNTS = (2, 4, 8, 16, 32)
_LIMITS = (20.0, 30.0, 50.0, 60.0, 80.0, 88.0, 100.0)


def cut(bench: Bench) -> Mistakes:
    """Yield weights that are dropped, and logits that are clamped or pass through few bits."""
    weights, total = bench.weighed()
    shares = weights / np.where(total > 0.0, total, 1.0)
    for least in _SMALL:
        words = f"weights below {least:g} are dropped"
        yield words, partial(_kept, bench, shares, shares > least)
        yield (
            f"{words}, and the others divided by their sum",
            partial(_kept, bench, shares, shares > least, again=True),
        )
    for count in _COUNTS:
        if count < shares.shape[-1]:
            last = np.partition(shares, -count, axis=-1)[..., -count, None]
            words = f"only the {count} largest weights are kept"
            yield words, partial(_kept, bench, shares, shares >= last)
            yield (
                f"{words}, without those that equal the last",
                partial(_kept, bench, shares, shares > last),
            )
    for limit in _LIMITS:
        raw = np.clip(bench.raw, -limit, limit)
        yield (
            f"products of queries and keys are clamped to {limit:g}",
            partial(bench.changed, raw=raw),
        )
        clamped = np.clip(bench.scores, -limit, limit)
        yield f"logits are clamped to {limit:g}", partial(bench.averaged, clamped)
    for name in ("float16", "bfloat16"):
        if FORMATS[name].digits < bench.problem.spec.output.digits:
            yield f"logits pass through {name}", partial(_rounded, bench, FORMATS[name])


def summed(bench: Bench) -> Mistakes:
    """Yield sums over queries, and sums key by key in few bits."""
    if bench.problem.spec.queries > 1:
        yield (
            "each row of the output is the largest of those so far",
            partial(_so_far, bench, np.maximum),
        )
        yield "each row of the output is the sum of those so far", partial(_so_far, bench, np.add)
    padding = bench.problem.spec.mask(RightPadding)
    if padding is not None and len(bench.problem.spec.masks) == 1:
        short = np.asarray(padding.lengths)[:, None, None, None]
        yield (
            "right padding hides queries, not keys",
            bench.sees(
                (np.arange(bench.problem.spec.queries)[:, None] < short)
                & np.ones_like(bench.problem.visible)
            ),
        )
    for name in ("bfloat16", "float16"):
        form = FORMATS[name]
        if form.digits <= bench.problem.spec.output.digits:
            yield f"the output is summed key by key in {name}", partial(_by_key, bench, form)
            yield (
                f"the sum of weights is summed key by key in {name}",
                partial(_total_by_key, bench, form),
            )


def _kept(bench: Bench, shares: Array, kept: Booleans, *, again: bool = False) -> Array:
    left = np.where(kept, shares, 0.0)
    total = left.sum(-1, keepdims=True) if again else 1.0
    with np.errstate(all="ignore"):
        out: Array = np.nan_to_num(left @ bench.values / total)
    return out


def _rounded(bench: Bench, form: Format) -> Array:
    """Return the output with short logits; rows in which all are -inf end as zeros."""
    scores = nearest(bench.scores, form)
    lost = (np.where(bench.visible, scores, -np.inf) == -np.inf).all(-1, keepdims=True)
    return np.where(lost, 0.0, bench.averaged(scores))


def _so_far(bench: Bench, how: np.ufunc) -> Array:
    out = np.nan_to_num(bench.every.averaged())
    found: Array = how.accumulate(out, axis=2)[:, :, bench.rows]
    return found


def _by_key(bench: Bench, form: Format) -> Array:
    weights, total = bench.weighed()
    shares = weights / total
    out = np.zeros((*shares.shape[:3], bench.values.shape[-1]))
    for key in np.flatnonzero((shares > 0.0).any((0, 1, 2))):
        more = shares[..., key, None] * bench.values[:, :, key, None]
        out = nearest(out + nearest(more, form), form)
    return out


def _total_by_key(bench: Bench, form: Format) -> Array:
    weights, total = bench.weighed()
    rest = total - weights.sum(-1, keepdims=True)
    short = nearest(weights, form)
    found = np.zeros_like(total)
    for key in np.flatnonzero((short > 0.0).any((0, 1, 2))):
        found = nearest(found + short[..., key, None], form)
    found = nearest(found + nearest(rest, form), form)
    out: Array = nearest(short / found, form) @ bench.values
    return out


def axes(bench: Bench) -> Mistakes:
    """Yield sums over queries in the place of keys, and logits or weights that are transposed."""
    yield "softmax is over queries, not over keys", partial(_over_queries, bench, whole=True)
    yield (
        "weights are divided by their sums over queries, not over keys",
        partial(_over_queries, bench, whole=False),
    )
    if bench.problem.spec.queries == bench.problem.spec.keys:
        yield (
            "logits are transposed before the mask is applied",
            partial(_transposed, bench, of_weights=False),
        )
        yield "weights are transposed", partial(_transposed, bench, of_weights=True)


def _over_queries(bench: Bench, *, whole: bool) -> Array:
    every = bench.every
    logits = every.logits
    if whole:
        top = logits.max(-2, keepdims=True)
        weights = np.exp(logits - np.where(np.isfinite(top), top, 0.0))
    else:
        weights, _ = every.weighed()
    total = weights.sum(-2, keepdims=True)
    out: Array = weights / np.where(total > 0.0, total, 1.0) @ every.values
    return out[:, :, bench.rows]


def _transposed(bench: Bench, *, of_weights: bool) -> Array:
    every = bench.every
    if of_weights:
        weights, total = every.weighed()
        out: Array = (weights / total).swapaxes(-1, -2) @ every.values
    else:
        out = every.averaged(every.scored(raw=every.raw.swapaxes(-1, -2)))
    return out[:, :, bench.rows]
