"""Mistakes about rows of the output that are not written, and are zero or NaN."""

import numpy as np

from constructive.kernels.mistakes.bench import BLOCKS, Bench, Mistakes


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
        yield sentence, bench.filled(np.asarray(lost)[:, None, :, None], 0.0)
    for block in BLOCKS:
        columns = np.arange(spec.d_v) >= spec.d_v // block * block
        if columns.any() and not columns.all():
            yield (
                f"columns of the output behind the last whole block of {block} are not written",
                bench.filled(columns, 0.0),
            )
            yield (
                f"columns of the output behind the last whole block of {block} are NaN",
                bench.filled(columns, np.nan),
            )
