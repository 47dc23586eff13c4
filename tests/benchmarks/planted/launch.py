"""The same problem, launched otherwise: with splits, pages, strides or packed sequences.

These are ways to call a kernel, not problems; a user chooses them for any inputs.
"""

import numpy as np

from cases import paged, strided
from options import Run


def launched(case, needs):
    """Launch a problem with what the bug needs: (case, function from its output to the problem's).

    Returns None if this problem cannot be launched so.
    """
    q, k, v, o = case
    back = lambda out: out  # noqa: E731
    if "packed" in needs and o.query_offsets is None:
        if any(x is not None for x in (o.mask, o.bias, o.key_starts, o.block_table)):
            return None
        return _packed(Run(q, k, v, o))
    if needs & {"pages", "part-page"} and o.block_table is None:
        k, v, table = paged(k, v, 8, np.random.default_rng(0))
        lengths = Run(*case).lengths  # the last page has leftovers
        o = _at_width(o, case[1].shape[2], table.shape[1] * 8).but(
            block_table=table, key_lengths=lengths
        )
    if needs & {"splits", "uneven-splits", "empty-split"}:
        blocks = -(-Run(q, k, v, o).tk // 16)
        even = 2 if "uneven-splits" not in needs else 3
        o = o.but(splits=blocks + 2 if "empty-split" in needs else even)
    if "strided" in needs:
        q, k, v = (strided(x) if x.flags.c_contiguous else x for x in (q, k, v))
    return (q, k, v, o), back


def _at_width(o, tk, wide):
    """Widen a mask and a bias to the padded number of keys."""
    wider = lambda x: np.pad(x, [(0, 0)] * 3 + [(0, wide - tk)])  # noqa: E731
    tables = {name: getattr(o, name) for name in ("mask", "bias")}
    return o.but(
        **{
            name: wider(x) if x is not None and x.shape[3] == tk else x
            for name, x in tables.items()
        }
    )


def _packed(run):
    rows = [slice(None, run.tq)] * run.batch
    keys = [slice(None, length) for length in run.lengths]
    o = run.o.but(
        key_lengths=None,
        query_offsets=np.arange(run.batch + 1) * run.tq,
        key_offsets=np.concatenate([[0], np.cumsum(run.lengths)]),
    )

    def together(x, parts):
        return np.concatenate([x[b : b + 1, :, part] for b, part in enumerate(parts)], 2)

    def back(out):
        return np.concatenate([out[:, :, a : a + run.tq] for a in range(0, out.shape[2], run.tq)])

    return (together(run.q, rows), together(run.k, keys), together(run.v, keys), o), back
