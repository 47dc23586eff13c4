"""Mistakes of precision: numbers that pass through a shorter format than the output's."""

from functools import partial

import numpy as np

from constructive.exact.formats import FORMATS, Format, nearest
from constructive.kernels.mistakes.bench import BLOCKS, Bench, Mistakes
from constructive.support.arrays import Array

_SHORT = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")


def precision(bench: Bench) -> Mistakes:
    """Yield weights, sums and outputs that are rounded to a short format on their way."""
    spec = bench.problem.spec
    digits = spec.output.digits
    for form in (FORMATS[name] for name in _SHORT):
        if form.digits < digits:
            yield f"values are rounded to {form.name}", partial(_values, bench, form)
            yield f"the output passes through {form.name}", partial(_output, bench, form)
            yield f"the sum of weights is rounded to {form.name}", partial(_total, bench, form)
            yield (
                f"the reciprocal of the sum of weights is rounded to {form.name}",
                partial(_reciprocal, bench, form),
            )
            for block in BLOCKS:
                words = f"rounded to {form.name} after each block of {block} keys"
                if block < spec.keys:
                    yield f"the sum of weights is {words}", partial(_blocks, bench, form, block, "")
                    yield f"the accumulator is {words}", partial(_blocks, bench, form, block, "acc")
        yield f"products of queries and keys pass through {form.name}", partial(_raw, bench, form)
        yield f"weights are rounded to {form.name}", partial(_weights, bench, form)
        yield f"weights are rounded to {form.name} once divided", partial(_divided, bench, form)


def _values(bench: Bench, form: Format) -> Array:
    return bench.averaged(v=nearest(bench.values, form))


def _raw(bench: Bench, form: Format) -> Array:
    """Return the output with short logits; rows in which all are -inf end as zeros."""
    scores = bench.scored(raw=nearest(bench.raw, form))
    lost = (np.where(bench.visible, scores, -np.inf) == -np.inf).all(-1, keepdims=True)
    return np.where(lost, 0.0, bench.averaged(scores))


def _output(bench: Bench, form: Format) -> Array:
    return nearest(bench.averaged(), form)


def _total(bench: Bench, form: Format) -> Array:
    weights, total = bench.weighed()
    out: Array = weights @ bench.values / nearest(total, form)
    return out


def _reciprocal(bench: Bench, form: Format) -> Array:
    weights, total = bench.weighed()
    out: Array = weights @ bench.values * nearest(1.0 / total, form)
    return out


def _weights(bench: Bench, form: Format) -> Array:
    weights, total = bench.weighed()
    out: Array = nearest(weights, form) @ bench.values / total
    return out


def _divided(bench: Bench, form: Format) -> Array:
    weights, total = bench.weighed()
    out: Array = nearest(weights / total, form) @ bench.values
    return out


def _blocks(bench: Bench, form: Format, block: int, what: str) -> Array:
    """Return sums of blocks with a running maximum, where one of the sums is rounded each time."""
    logits = bench.logits
    largest = np.full((*logits.shape[:3], 1), -np.inf)
    total, out = np.zeros_like(largest), np.zeros((*logits.shape[:3], bench.values.shape[-1]))
    for start in range(0, logits.shape[-1], block):
        part = logits[..., start : start + block]
        new = np.maximum(largest, part.max(-1, keepdims=True))
        base = np.where(np.isfinite(new), new, 0.0)
        weights, factor = np.exp(part - base), np.exp(largest - base)
        total = total * factor + weights.sum(-1, keepdims=True)
        out = out * factor + weights @ bench.values[:, :, start : start + block]
        if what:
            out = nearest(out, form)
        else:
            total = nearest(total, form)
        largest = new
    if bench.sinks is not None:
        total = total + np.exp(bench.sinks - largest)
    averaged: Array = out / total
    return averaged
