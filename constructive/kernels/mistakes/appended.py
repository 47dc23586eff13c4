"""Mistakes of caches to which the keys of the last queries are appended."""

from functools import partial

import numpy as np

from constructive.kernels.mistakes.bench import Bench, Mistakes


def appended(bench: Bench) -> Mistakes:
    """Yield new keys in wrong places, if there are more keys than queries."""
    spec = bench.problem.spec
    j, past = np.arange(spec.keys), spec.keys - spec.queries
    k, v = bench.keys, bench.values
    if past <= 0:
        return
    new = j >= past
    if spec.queries > 1 and bench.problem.visible.any():
        exists = (j < spec.lengths[1][:, None])[:, None, None]
        yield (
            "the causal mask is missing between new keys: all queries see all of them",
            bench.sees(bench.problem.visible | (new & exists)),
        )
    orders = {
        "new keys are put in front of those of the cache": np.roll(j, spec.queries),
        "the first new key is the last one of the cache": np.where(j == past, past - 1, j),
        "the last key of the cache is overwritten by the first new one":
            np.where(j == past - 1, past, j),
        "new keys are in reverse order": np.where(new, spec.keys - 1 + past - j, j),
        "keys of the cache are one too late": np.where(new, j, np.maximum(j - 1, 0)),
        "keys of the cache are one too early": np.where(new, j, np.minimum(j + 1, past - 1)),
        "all new keys are the last one": np.where(new, spec.keys - 1, j),
    }  # fmt: skip
    for sentence, order in orders.items():
        if not np.array_equal(order, j):
            yield sentence, partial(bench.read, k=k[:, :, order], v=v[:, :, order])
            yield f"{sentence}, for values alone", partial(bench.read, v=v[:, :, order])
            yield f"{sentence}, for keys alone", partial(bench.read, k=k[:, :, order])
    if spec.batch > 1:
        for words, kept in (("of the cache", ~new), ("that are new", new)):
            yield (
                f"values {words} are those of sequence 0",
                partial(bench.read, v=np.where(kept[:, None], v[:1], v)),
            )
