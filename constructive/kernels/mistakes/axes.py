"""Mistakes about axes: softmax over queries, and matrices that are transposed."""

from functools import partial

import numpy as np

from constructive.kernels.mistakes.bench import Bench, Mistakes
from constructive.support.arrays import Array


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
