"""Formats of floating-point numbers, and arrays of numbers that they hold.

What programs may do with them, and how far they are off then, is said in one place:
`checker/float_model.py` of layers and decoders, `exact.kernel_model` of kernels.
"""

from dataclasses import dataclass

import numpy as np

from constructive.support.arrays import Array
from constructive.support.errors import ParameterError


@dataclass(frozen=True)
class Format:
    """A format of floating-point numbers."""

    name: str  # as numpy and ml_dtypes call it
    digits: int  # bits of a significand: integers up to 2^digits are exact
    smallest: float  # its smallest normal number
    largest: float  # its largest number
    # the absolute error of storing a number that is nearly zero, underflow to zero included where
    # machines do that
    tiny: float

    @property
    def unit(self) -> float:
        """The unit roundoff u = 2^-digits of rounding to nearest."""
        return 2.0**-self.digits

    @property
    def gradual(self) -> bool:
        """Whether underflow is always gradual, and never to zero."""
        return self.tiny < self.smallest

    def holds(self, values: Array) -> bool:
        """Return whether these finite numbers are all numbers of the format."""
        if values.dtype.name == self.name:
            return True
        exact = values.astype(np.float64, copy=False)
        return bool((nearest(exact, self) == exact).all())


# By name.
FORMATS = {
    each.name: each
    for each in (
        Format("float64", 53, 2.0**-1022, (2.0 - 2.0**-52) * 2.0**1023, 2.0**-1022),
        Format("float32", 24, 2.0**-126, (2.0 - 2.0**-23) * 2.0**127, 2.0**-126),
        Format("bfloat16", 8, 2.0**-126, (2.0 - 2.0**-7) * 2.0**127, 2.0**-126),
        Format("float16", 11, 2.0**-14, 65504.0, 2.0**-25),
        Format("float8_e4m3fn", 4, 2.0**-6, 448.0, 2.0**-10),
        Format("float8_e5m2", 3, 2.0**-14, 57344.0, 2.0**-17),
    )
}
# What tensor cores make of float32 factors. No array has this type.
TF32 = Format("TF32", 11, 2.0**-126, (2.0 - 2.0**-10) * 2.0**127, 2.0**-126)


def nearest(values: Array, form: Format) -> Array:
    """Return float64 rounded to nearest in a format, ties to even; infinite beyond its range.

    Underflow is gradual. Rounding is monotone, so it keeps bounds. NaN stays NaN.
    """
    dropped = FORMATS["float64"].digits - form.digits
    if not dropped:
        return values.copy()
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    kept = bits >> np.uint64(dropped)
    kept &= np.uint64(1)  # the last digit, so that ties go to even
    kept += np.uint64((1 << (dropped - 1)) - 1)
    kept += bits
    kept &= ~np.uint64((1 << dropped) - 1)
    found = kept.view(np.float64)
    sizes = np.abs(found)
    small, large = sizes < form.smallest, sizes > form.largest
    if small.any():
        step = form.smallest * 2.0 ** (1 - form.digits)
        found[small] = np.rint(values[small] / step) * step
    if large.any():  # or NaN whose last digits were dropped
        found[large] = np.where(np.isnan(values[large]), np.nan, np.inf * found[large])
    return found


def rounded(weights: Array, storage: str) -> Array:
    """Return float32 weights rounded to the nearest numbers of a format, still as float32.

    Raises ParameterError for weights beyond its range.
    """
    found = weights
    if storage != "float32":
        found = nearest(weights.astype(np.float64), FORMATS[storage]).astype(np.float32)
    if not np.isfinite(found).all():
        raise ParameterError(
            f"weights of size {np.abs(weights).max():.1e} are beyond {storage}",
            witness=float(np.abs(weights).max()),
            suggestion="storage='bfloat16', which has the range of float32",
        )
    return found


STORAGES = "float32", "bfloat16", "float16"  # Formats in which decoders may be stored
FLOAT32 = "float32, pairwise"  # The usual model of programs
