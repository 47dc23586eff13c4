"""Which rows of two outputs are the same, but for rounding."""

import numpy as np

from constructive.exact.formats import Format
from constructive.support.arrays import Array, Booleans


def same_rows(out: Array, other: Array, form: Format) -> tuple[Booleans, Booleans]:
    """Return rows that a mistake leads to, and those in which it leads to the same numbers.

    Numbers may differ by a few roundings. Where a mistake leads to NaN, a kernel may have 0.
    """
    close = 2.0 ** (2 - min(form.digits, 20))
    near = np.abs(out - other) <= close * np.maximum(np.abs(other), 2.0**-6)
    near &= (out != 0.0) | (np.abs(other) <= form.smallest)  # what is tiny is not 0
    equal = np.isfinite(other) & near
    odd = ~np.isfinite(out) & ~np.isfinite(other)
    guarded = ~np.isfinite(other).any(-1) & (out == 0.0).all(-1)  # kernels that ask for sums > 0
    same: Booleans = np.asarray((equal | odd).all(-1))
    return same | guarded, same
