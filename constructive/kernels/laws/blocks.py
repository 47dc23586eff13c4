"""Laws of running sums: the listed mistakes of blocks and splits, for blocks of every size."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from constructive.kernels.laws.evidence import Evidence
from constructive.kernels.laws.sizes import block_sizes
from constructive.kernels.mistakes import merging, running, softmax, tiles
from constructive.kernels.mistakes.bench import Bench, Mistakes
from constructive.kernels.same import same_rows
from constructive.support.arrays import Integers

# Queries of a block, beside as many as keys.
_QUERIES = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 128)
# Listed mistakes whose sizes are tried.
KINDS = (
    running.rescaling, running.running, running.counted_again, softmax.maxima, running.carried,
    softmax.sinks, tiles.diagonals_inside, tiles.rows_of_blocks, tiles.tiles, tiles.transposed,
    merging.splits, merging.empty, merging.lost, merging.merging,
)  # fmt: skip


def blocks(evidence: Evidence) -> Mistakes:
    """Yield mistakes of blocks that lead to the rows of two queries."""
    whole, queries = _with_sizes(evidence), _chosen(evidence)
    for kind in KINDS:
        asked: set[str] | None = None
        for query in queries:  # one at a time: few mistakes lead to the first
            asked = set(_fitting(evidence, replace(whole, rows=query[None]), kind, asked))
            if not asked:
                break
        if asked:
            yield from ((sentence, made) for sentence, made in kind(whole) if sentence in asked)


def _with_sizes(evidence: Evidence) -> Bench:
    spec = evidence.problem.spec
    most = max(spec.keys, spec.queries) - 1
    sizes = tuple(block_sizes(most))
    pairs = tuple(
        (queries, keys)
        for keys in block_sizes(spec.keys - 1)
        for queries in sorted({keys, *_QUERIES})
        if queries <= max(spec.queries, _QUERIES[0])
    )
    return replace(evidence.bench, blocks=sizes, tiles=pairs)


def _chosen(evidence: Evidence) -> Integers:
    """Return the queries with most wrong rows and with least, of those that have some."""
    count = (evidence.wrong & evidence.counted).sum((0, 1))
    some = np.flatnonzero(count)
    ranked = some[np.argsort(count[some], kind="stable")]
    return np.unique(ranked[[-1, 0]])[::-1]


def _fitting(
    evidence: Evidence, few: Bench, kind: Callable[[Bench], Mistakes], asked: set[str] | None
) -> Iterator[str]:
    """Yield mistakes that lead to all rows of some queries."""
    out = evidence.out[:, :, few.rows]
    rows = evidence.counted[:, :, few.rows]
    form = evidence.problem.spec.output
    for sentence, made in kind(few):
        if asked is None or sentence in asked:
            with np.errstate(all="ignore"):
                same, _ = same_rows(out, made(), form)
            if same[rows].all():
                yield sentence
