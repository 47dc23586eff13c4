"""Mistakes about what bits mean: numbers of one format that are read as those of another."""

from functools import partial

import numpy as np
import numpy.typing as npt

from constructive.exact.formats import FORMATS, Format
from constructive.kernels.mistakes.bench import Bench, Mistakes
from constructive.support.arrays import Array

_OTHERS = {
    "float16": "bfloat16", "bfloat16": "float16",
    "float8_e4m3fn": "float8_e5m2", "float8_e5m2": "float8_e4m3fn",
}  # fmt: skip
_BITS = {"float16": 16, "bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8}


def bits(bench: Bench) -> Mistakes:
    """Yield inputs and outputs whose bits are read in the other format of as many bits."""
    spec = bench.problem.spec
    inputs, output = spec.inputs.name, spec.output.name
    if inputs in _OTHERS:
        for what in ("queries", "keys", "values", "queries, keys and values"):
            yield (
                f"bits of {what}, which are {inputs}, are read as {_OTHERS[inputs]}",
                partial(_inputs, bench, what),
            )
    if output in _OTHERS:
        other = _OTHERS[output]
        yield (
            f"bits of the output are those of {other}, and read as {output}",
            lambda: read_as(bench.averaged(), other, output),
        )


def _inputs(bench: Bench, what: str) -> Array:
    problem, form = bench.problem, bench.problem.spec.inputs.name
    q, k, v = (
        read_as(array, form, _OTHERS[form]) if name in what else array
        for name, array in (
            ("queries", bench.q), ("keys", problem.k), ("values", problem.v),
        )
    )  # fmt: skip
    return bench.read(q=q, k=k, v=v)


def read_as(values: Array, written: str, read: str) -> Array:
    """Return what numbers become whose bits are written in one format and read in another.

    Example:
        >>> read_as(np.array([1.0, -2.0, 0.0]), "float16", "bfloat16")
        array([ 0.0078125, -2.       ,  0.       ])
    """
    return _decoded(_encoded(values, FORMATS[written]), FORMATS[read])


def _fields(form: Format) -> tuple[int, int]:
    """Return bits of the fraction, and the bias of the exponent."""
    return form.digits - 1, 1 - int(np.log2(form.smallest))


def _encoded(values: Array, form: Format) -> npt.NDArray[np.int64]:
    fraction, bias = _fields(form)
    sizes = np.minimum(np.abs(np.nan_to_num(values)), form.largest)
    exponents = np.where(sizes > 0.0, np.maximum(np.frexp(sizes)[1] - 1, 1 - bias), 1 - bias)
    whole = np.floor(np.ldexp(sizes, fraction - exponents)).astype(np.int64)
    # A normal number's leading bit adds 1 to the exponent field of a subnormal one.
    found = whole + ((exponents + bias - 1).astype(np.int64) << fraction)
    sign = np.signbit(values).astype(np.int64)
    codes: npt.NDArray[np.int64] = found | (sign << (_BITS[form.name] - 1))
    return codes


def _decoded(codes: npt.NDArray[np.int64], form: Format) -> Array:
    fraction, bias = _fields(form)
    sign = codes >> (_BITS[form.name] - 1)
    field = codes & ((1 << (_BITS[form.name] - 1)) - 1)
    exponents, rest = field >> fraction, field & ((1 << fraction) - 1)
    whole = np.where(exponents > 0, rest + (1 << fraction), rest).astype(np.float64)
    found = np.ldexp(whole, np.maximum(exponents, 1) - bias - fraction)
    found = np.where(found > form.largest, np.inf, found)
    return np.where(sign == 1, -found, found)
