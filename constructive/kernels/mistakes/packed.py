"""Mistakes at the borders of sequences that are packed one after the other."""

from functools import partial

import numpy as np

from constructive.kernels.masks import Causal, VariableLengths
from constructive.kernels.mistakes.bench import Bench, Mistakes
from constructive.support.arrays import Array, Integers


def packed(bench: Bench) -> Mistakes:
    """Yield keys from before or behind a sequence."""
    spec = bench.problem.spec
    if spec.mask(VariableLengths) is None or spec.batch == 1:
        return
    queries, keys = (np.concatenate([[0], np.cumsum(length)]) for length in spec.lengths)
    first, last, total = keys[:-1], keys[1:], int(keys[-1])
    options = {
        "a sequence also reads the last key of the one before": (first - 1, last),
        "a sequence also reads the first key of the next one": (first, last + 1),
        "a sequence reads all keys of those before it": (first * 0, last),
        "a sequence reads all keys of those behind it": (first, last * 0 + total),
        "a sequence reads the keys of all sequences": (first * 0, last * 0 + total),
        "keys of a sequence begin where its queries do": (queries[:-1], queries[1:]),
        "keys of a sequence are those of the next one": (last, last + spec.lengths[1]),
        "each sequence has as many keys as the longest one":
            (first, first + spec.lengths[1].max()),
        "keys of a sequence begin one too late": (first + 1, last),
        "keys of a sequence end one too early": (first, last - 1),
    }  # fmt: skip
    queries_at, length = queries[:-1], spec.lengths[1]
    others = {
        "keys of a sequence begin where its queries do, and are as many as they are":
            (queries_at, np.minimum(queries_at + length, total)),
        "keys of a sequence begin where the next one does, those of the last at the start":
            (last % total, np.minimum(last % total + length, total)),
    }  # fmt: skip
    for sentence, (low, high) in (options | others).items():
        spans = np.clip(low, 0, total), np.clip(high, 0, total)
        yield sentence, partial(_read, bench, *spans)
    longest = np.arange(spec.batch) * int(spec.lengths[1].max())
    begins = np.minimum(longest, total - spec.lengths[1])
    yield (
        "values of a sequence begin where they would if all were as long as the longest",
        partial(_other_values, bench, begins),
    )
    yield "queries of a sequence begin one too early", partial(_queries_before, bench)


def _other_values(bench: Bench, begins: Integers) -> Array:
    spec = bench.problem.spec
    lengths = spec.lengths[1]
    memory = np.concatenate(
        [rows[:, :end] for rows, end in zip(bench.values, lengths, strict=True)], axis=1
    )
    places = np.minimum(begins[:, None] + np.arange(spec.keys), memory.shape[1] - 1)
    return bench.read(v=memory[:, places].swapaxes(0, 1))


def _queries_before(bench: Bench) -> Array:
    """Return the output where each sequence but the first begins with the last query before it."""
    spec, q = bench.problem.spec, bench.problem.q
    moved = np.roll(q, 1, axis=2)
    for b, length in enumerate(spec.lengths[0][:-1]):
        moved[b + 1, :, 0] = q[b, :, length - 1]
    moved[0] = q[0]
    return bench.read(q=moved[:, :, bench.rows])


def _read(bench: Bench, low: Integers, high: Integers) -> Array:
    """Return the output where each sequence reads a span of all keys; its diagonal moves along."""
    spec = bench.problem.spec
    lengths = spec.lengths[1]
    k, v = (
        np.concatenate([rows[:, :end] for rows, end in zip(array, lengths, strict=True)], axis=1)
        for array in (bench.keys, bench.values)
    )
    j = np.arange(k.shape[1])
    seen = (j >= low[:, None, None]) & (j < high[:, None, None])
    causal = spec.mask(Causal)
    if causal is not None:
        shift = 0 * low if causal.alignment == "top-left" else high - low - spec.lengths[0]
        seen = seen & (j - low[:, None, None] <= bench.rows[:, None] + shift[:, None, None])
    scores = bench.q @ k.swapaxes(-1, -2) * spec.factor
    shape = spec.batch, *k.shape[:2]
    k, v = (np.broadcast_to(each, (*shape, each.shape[-1])) for each in (k, v))
    return bench.averaged(scores, seen[:, None], v, k=k)
