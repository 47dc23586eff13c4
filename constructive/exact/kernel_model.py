"""What an attention kernel may do in floating point: rows of numbers, and a sentence from them.

A `KernelModel` has units, exponentials, blocks, storage and merging, and some numbers that fused
kernels need: sums of tensor cores, operands that are cut, logits that are stored, exponentials for
rescaling that differ from those of weights. `kernels.enclosure` proves intervals from these numbers
and no others, and quotes `describe()`.

*Sums of matrix products* have a unit of their own, `matrix_unit`. In the standard model an addition
is off by u times its result. A tensor core adds k products and an accumulator at once: it aligns
them to the largest, cuts each off below a quantum (2^-23 of its power of two, or 2^-13 for float8
on Hopper), adds exactly, and cuts the sum off. The largest operand loses nothing, so k operands
that are not zero lose k + 1 <= 2k quanta together. The largest operand and the result are subset
sums, and no larger than M + E, which bounds any partial sum and its error. So each operand counts
as an addition whose unit is two quanta: 2^-22, or 2^-12.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from constructive.checker.bounds import up
from constructive.checker.float_model import gammas
from constructive.exact.formats import FORMATS, Format
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError, shown

STRETCH = 2.0**16  # Products of constants, on the way, are from its inverse to this
_OPERATIONS = {2.0**-24: "float32", 2.0**-53: "float64"}  # By their unit roundoff
_EXP_ULPS = 32  # Units in the last place by which exponentials in float32 may be off: 64 u
_ENTRIES = 2  # Roundings of entries of q and k by constants, q and k together
# Roundings on the way from the sum that is a logit to an exponent: three constants (two for the
# scale, log2 e), two products with them, a bias, l - m, and a difference of maxima and its product.
_EXPONENTS = 9


@dataclass(frozen=True)
class KernelModel:
    """How a kernel rounds.

    Attributes:
        name: as `bounds` takes it
        storage: the format of q, k and v, and of what is stored between steps
        unit: u of all operations but products of matrices
        exp_error: relative error of exponentials that are weights, and of logarithms
        block: keys of a block of softmax, at least
        smallest: the smallest normal number of the operations
        overflow: the largest number of the operations
        constants: roundings from the sum that is a logit to an exponent
        merged: whether splits may be divided and merged by logsumexp
        output: the format of results
        matrix_unit: of an addition in a product of matrices
        operand_unit: error of operands of matrix products, which are rounded or cut off
        rescale_error: relative error of exponentials that rescale sums of earlier blocks
        tanh_error: relative error of tanh, for a soft cap
        stores_logits: whether logits are stored in `storage`, raw, scaled, capped and with bias
        stores_entries: whether constants, and q and k once scaled, are stored there as well
        stores_divided: whether weights may be divided by their sum before they are stored
        lag: by how much the number that is subtracted may be less than the largest logit so far
        depth: additions that a term of a sum passes through, at most; None for any order
    """

    name: str
    storage: Format
    unit: float
    exp_error: float
    block: int
    smallest: float
    overflow: float
    constants: int = 0
    merged: bool = False
    output: Format = FORMATS["float32"]
    matrix_unit: float = 2.0**-24
    operand_unit: float = 0.0
    rescale_error: float = 2.0**-21
    tanh_error: float = 2.0**-10
    stores_logits: bool = False
    stores_entries: bool = False
    stores_divided: bool = True
    lag: float = 0.0
    depth: int | None = None

    @property
    def stored_unit(self) -> float:
        """The rounding of what is stored; 0 where storage has the numbers of the operations."""
        return self.storage.unit if self.storage.unit > self.unit else 0.0

    @property
    def stored_tiny(self) -> float:
        """The absolute error of storing what is nearly zero; 0 where nothing is rounded."""
        return self.storage.tiny if self.storage.unit > self.unit else 0.0

    @property
    def logit_unit(self) -> float:
        """The rounding of a logit that is stored; 0 where logits are not."""
        return self.stored_unit if self.stores_logits else 0.0

    @property
    def entry_unit(self) -> float:
        """The rounding of q, k and constants that are stored; 0 where they are not."""
        return self.stored_unit if self.stores_entries else 0.0

    @property
    def logit_overflow(self) -> float:
        """The largest logit."""
        return self.storage.largest if self.stores_logits else self.overflow

    @property
    def term_error(self) -> float:
        """Error of a product of an entry of q and one of k, relative to it."""
        own = (1.0 + self.unit) ** (_ENTRIES + 1)
        return own * (1.0 + self.operand_unit) ** 2 * (1.0 + self.entry_unit) ** _ENTRIES - 1.0

    @property
    def weight_error(self) -> float:
        """Error of a weight that is stored and then an operand, relative to it."""
        return (1.0 + self.stored_unit) * (1.0 + self.operand_unit) - 1.0

    def gamma(self, terms: npt.ArrayLike) -> Array:
        """Bound gamma_k from above; infinite beyond 2^20 terms and where k u is not small."""
        bounds: Array = gammas(self, np.asarray(terms, dtype=np.float64))
        return bounds

    def exponents(self, counts: npt.ArrayLike) -> Array:
        """Bound what merging by logsumexp adds to errors of exponents, for so many keys.

        Twice, a logarithm is rounded and added to a logit (u log n), and a difference is rounded
        (u log n, then 2 u log n); logarithms are off by `exp_error` (1 + log n).
        """
        logs = np.log(np.maximum(np.asarray(counts, dtype=np.float64), 1.0)) * (1.0 + 2.0**-40)
        whole = 5.0 * self.unit * logs + 2.0 * self.exp_error * (1.0 + logs)
        return up(whole) if self.merged else np.zeros_like(logs)

    def sums(self, terms: npt.ArrayLike) -> Array:
        """Bound gamma_k of sums in products of matrices, as `gamma` does of others.

        Args:
            terms: k, of any shape

        Example:
            >>> model = kernel_model_named("tensor bfloat16")
            >>> bool(model.sums(64) == 4 * kernel_model_named("flash bfloat16").sums(64))
            False
        """
        return replace(self, unit=self.matrix_unit).gamma(terms)

    def describe(self) -> str:
        """Say what an evaluation of this model is."""
        return "; ".join(self._kernel_clauses())

    def _kernel_clauses(self) -> Iterator[str]:
        ways = "in any order" if self.depth is None else f"of depth {self.depth} at most"
        stored, gradual = self.storage.name, self.storage.gradual
        merged = (
            " or, not stored in fewer bits and divided by sums L of 1/2 or more, by logsumexp "
            f"once, with log off by at most {power(self.exp_error)} (1 + |log|)"
        )
        yield f"q, k and v are numbers of {stored}; hidden keys have weight 0"
        yield f"operations in {_OPERATIONS[self.unit]}, to nearest, sums {ways}; no overflow"
        if self.matrix_unit > self.unit:
            yield (
                "products of matrices, but not sums of weights, may align products to the largest "
                f"and cut them off, by at most {power(self.matrix_unit / 2.0)} of it each"
            )
        if self.operand_unit:
            yield f"operands of products of matrices are off by at most {power(self.operand_unit)}"
        yield (
            f"constants multiply entries of q and k in {_ENTRIES} roundings, and logits and "
            f"exponents in {self.constants} at most, with those of a bias, of l - m and of "
            "differences of maxima; their product, a soft cap apart, is the scale (for exp2 times "
            f"log2 e), and on the way {power(1.0 / STRETCH)} min(1, scale) or more"
            + f", where {stored} is stored min(1, scale) or more"
            * (gradual and self.stores_logits)
        )
        if self.stores_entries:
            yield (
                "q and k once scaled, and constants (two of the scale, those of a soft cap), may "
                f"be stored in {stored}"
            )
        if self.stores_logits:
            yield (
                "logits (raw, scaled, divided by a soft cap, their tanh, capped, with bias) and a "
                f"bias or a sink may be stored in {stored}"
            )
        if self.stored_unit:
            what = "exponentials or weights" if self.stores_divided else "exponentials"
            yield f"{what} are stored in {stored} once at most, summed before or after that"
        lag = (
            f", or a number at most log {math.exp(self.lag):.0f} less that does not fall"
            if self.lag
            else ""
        )
        yield (
            f"softmax less the largest logit of visible keys so far{lag}, in blocks of "
            f"{self.block} keys or more (the first and last may be shorter), rescaled by exp of "
            "differences of stored maxima, divided before or after the average; splits of whole "
            "blocks are merged by (m, L)" + merged * self.merged
        )
        yield (
            "a sink is one more key with the value 0, in a block of its own or not"
            + " or, after the rest, a factor 1 / (1 + exp(sink - m - log L))" * self.merged
        )
        yield (
            f"exp is off by a part {power(self.exp_error)} at most, for rescaling "
            f"{power(self.rescale_error)}, by {power(2.0 * self.smallest)} where it is less than "
            f"that, and for rescaling 1 at 0; tanh by a part {power(self.tanh_error)}"
        )
        yield f"the output is rounded to {self.output.name} once, to nearest"
        yield "underflow to zero or gradual" + f", in storage of {stored} gradual" * gradual


def power(number: float) -> str:
    """Write a number as a power of two."""
    return f"2^{math.log2(number):g}"


# Two quanta of tensor cores that keep 23 bits behind the first of the largest operand.
_TENSOR = 2.0**-22
_HOPPER = 2.0**-12  # Of 13 bits, as products of float8 are summed on Hopper
_CUT = 2.0**-10  # Operands cut off to the 11 bits of TF32
# exp where weights have 16 bits or fewer: by a polynomial of degree 3 in FlashAttention 4
# (2^-13.5), and off by 2^-14.1 at least in PyTorch on CPUs (tests/benchmarks/exponentials.py).
_SHORT_EXP = 2.0**-13
_LAZY = math.log(256.0)  # FlashAttention 4 rescales when the maximum has grown by more


def _rows() -> Iterator[KernelModel]:
    """Yield all models of kernels."""
    in_float32 = FORMATS["float32"]
    flash = KernelModel(
        "flash float32",
        in_float32,
        in_float32.unit,
        2.0 * _EXP_ULPS * in_float32.unit,
        16,
        in_float32.smallest,
        in_float32.largest,
        constants=_EXPONENTS,
        tanh_error=2.0**-20,
    )
    double = FORMATS["float64"]
    yield replace(
        flash, name="flash float64", storage=double, output=double, unit=double.unit,
        matrix_unit=double.unit, exp_error=2.0**-45, rescale_error=2.0**-45, tanh_error=2.0**-45,
        smallest=double.smallest, overflow=double.largest,
    )  # fmt: skip
    yield flash
    yield replace(flash, name="split float32", merged=True)
    yield replace(flash, name="tf32", matrix_unit=_TENSOR, operand_unit=_CUT)
    for storage in ("bfloat16", "float16"):
        form = FORMATS[storage]
        short = replace(
            flash, name=f"flash {storage}", storage=form, output=form, exp_error=_SHORT_EXP,
            tanh_error=2.0**-10,
        )  # fmt: skip
        yield short
        yield replace(short, name=f"split {storage}", merged=True)
        yield replace(short, name=f"logits {storage}", stores_logits=True)
        yield replace(short, name=f"eager {storage}", stores_logits=True, stores_entries=True)
        tensor = replace(short, name=f"tensor {storage}", matrix_unit=_TENSOR)
        yield tensor
        yield replace(tensor, name=f"lazy {storage}", lag=_LAZY)
    for storage in ("float8_e4m3fn", "float8_e5m2"):
        short = replace(
            flash,
            name=f"flash {storage.removesuffix('fn')}",
            storage=FORMATS[storage],
            output=FORMATS["bfloat16"],
            exp_error=_SHORT_EXP,
            stores_divided=False,
            tanh_error=2.0**-10,
        )
        yield short
        name = f"hopper {storage.removesuffix('fn')}"
        yield replace(short, name=name, matrix_unit=_HOPPER)


# By name: "flash bfloat16", "eager float16", "tf32" and so on.
KERNEL_MODELS = {model.name: model for model in _rows()}


def kernel_model_named(name: object) -> KernelModel:
    """Return a model of kernels."""
    if not isinstance(name, str) or name not in KERNEL_MODELS:
        raise ParameterError(
            f"model={shown(name)} is not a model of kernels",
            witness=shown(name),
            suggestion="one of " + ", ".join(map(repr, KERNEL_MODELS)),
        )
    return KERNEL_MODELS[name]
