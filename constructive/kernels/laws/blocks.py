"""Laws of running sums: the listed mistakes of blocks and splits, for blocks of every size."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from constructive.kernels.laws.evidence import Evidence
from constructive.kernels.laws.sizes import block_sizes
from constructive.kernels.masks import Integers
from constructive.kernels.mistakes import carried, merging, running, softmax, tiles
from constructive.kernels.mistakes.bench import Bench, Mistakes
from constructive.kernels.report import same_rows

_QUERIES = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 128)
"""Queries of a block, beside as many as keys."""
_KINDS = (
    softmax.rescaling, running.running, running.counted_again, softmax.maxima, carried.carried,
    softmax.sinks, tiles.diagonals_inside, tiles.rows_of_blocks, tiles.tiles, tiles.transposed,
    softmax.splits, merging.empty, merging.lost, merging.merging,
)  # fmt: skip


def blocks(evidence: Evidence) -> Mistakes:
    """Yield mistakes of blocks that lead to the rows of two queries.

    Args:
        evidence: the output
    """
    whole = _with_sizes(evidence)
    few = replace(whole, rows=_chosen(evidence))
    asked = dict(_fitting(evidence, few))
    for kind in _KINDS if asked else ():
        for sentence, made in kind(whole):
            if sentence in asked:
                yield sentence, made


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
    return np.unique(ranked[[0, -1]])


def _fitting(evidence: Evidence, few: Bench) -> Iterator[tuple[str, bool]]:
    """Yield mistakes that lead to all rows of some queries."""
    out = evidence.out[:, :, few.rows]
    rows = evidence.counted[:, :, few.rows]
    form = evidence.problem.spec.output
    for kind in _KINDS:
        for sentence, made in kind(few):
            with np.errstate(all="ignore"):
                same, _ = same_rows(out, made(), form)
            if same[rows].all():
                yield sentence, True
