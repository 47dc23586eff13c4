"""Mistakes about what a kernel carries from one block of queries to the next: state not reset."""

from functools import partial

import numpy as np

from constructive.kernels.mistakes.bench import Bench, Mistakes
from constructive.support.arrays import Array

_STATES = {
    "the sum of weights is": ("total",),
    "the accumulator is": ("out",),
    "the largest logit is": ("largest",),
    "the largest logit and the sum of weights are": ("largest", "total"),
    "the largest logit and the accumulator are": ("largest", "out"),
    "the sum of weights and the accumulator are": ("total", "out"),
    "the largest logit, the sum of weights and the accumulator are": ("largest", "total", "out"),
}


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
