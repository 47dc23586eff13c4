"""Mistakes about rows of the output that are not written, and are zero."""

from functools import partial

import numpy as np

from constructive.kernels.masks import Booleans
from constructive.kernels.mistakes.bench import BLOCKS, Bench, Mistakes
from constructive.support.arrays import Array


def unwritten(bench: Bench) -> Mistakes:
    """Yield queries or columns whose output is zero, others being right."""
    spec = bench.problem.spec
    i, lengths = bench.rows, spec.lengths[0][:, None]
    rows = {
        "the last query of each sequence is not written": i == lengths - 1,
        "the first query of each sequence is not written": i + 0 * lengths == 0,
    }
    for block in BLOCKS:
        if block < spec.queries:
            rows[f"the last block of {block} queries, which is not full, is not written"] = (
                i >= lengths // block * block
            )
    for sentence, lost in rows.items():
        yield sentence, partial(_zero, bench, np.asarray(lost)[:, None, :, None])
    for block in BLOCKS:
        columns = np.arange(spec.d_v) >= spec.d_v // block * block
        if columns.any() and not columns.all():
            yield (
                f"columns of the output behind the last whole block of {block} are not written",
                partial(_zero, bench, columns),
            )


def _zero(bench: Bench, lost: Booleans) -> Array:
    return np.where(lost, 0.0, bench.averaged())
