"""Intervals that contain the output of every admissible evaluation of attention.

Theorem 17 (proofs/27-kernel-intervals.md) says how far an output may be from the exact one before
its last rounding, by the numbers of a model (`exact.kernel_model`); rounding is monotone, so both
ends are rounded. `kernels.enclosure` computes them.
"""

from dataclasses import dataclass, replace

import numpy as np

from constructive.exact.kernel_model import KernelModel, kernel_model_named
from constructive.kernels.enclosure import enclose, read
from constructive.kernels.spec import as_float64
from constructive.support.arrays import Array, Booleans, frozen
from constructive.support.errors import DataError, require_known, require_positive

_DIGITS = range(4, 18)  # Digits of numbers in a message: so many that they differ


@dataclass(frozen=True, eq=False, repr=False)
class Intervals:
    """Where the outputs of all kernels of a model are.

    Attributes:
        lower: (B, H, T_q, d_v), -inf in rows that are not judged; what `fully_masked` says in rows
            that see no key, NaN too
        upper: the same, inf in rows that are not judged
        judged: (B, H, T_q) False in rows that see no key where `fully_masked` is None
        model: what a kernel may do; `model.describe()` says it
        empty: (B, H, T_q) rows that see no key
    """

    lower: Array
    upper: Array
    judged: Booleans
    model: KernelModel
    empty: Booleans

    def __repr__(self) -> str:
        return f"<intervals of {self.model.name!r} for outputs {self.lower.shape}>"

    def outside(self, out: object) -> Booleans:
        """Return where an output is not in its interval, (B, H, T_q, d_v).

        A NaN is outside, but in a row that sees no key with `fully_masked="nan"`.

        Args:
            out: what a kernel returned, from numpy, torch or jax

        Raises:
            DataError: for another shape
        """
        found = as_float64(out, "out")
        if found.shape != self.lower.shape:
            raise DataError(
                f"the output has shape {found.shape}, the intervals {self.lower.shape}",
                witness=found.shape,
                suggestion="(batch, heads, queries, d_v)",
            )
        inside = (self.lower <= found) & (found <= self.upper)
        inside |= np.isnan(self.lower) & np.isnan(found)
        return np.asarray(~inside & self.judged[..., None])

    def contains(self, out: object) -> bool:
        """Return whether an output is inside in all rows that are judged.

        Args:
            out: (B, H, T_q, d_v)

        Raises:
            DataError: for another shape
        """
        return not self.outside(out).any()

    def check(self, out: object) -> None:
        """Require that an output is inside.

        Args:
            out: (B, H, T_q, d_v)

        Raises:
            AssertionError: if not; it says where, and what was proved
            DataError: for another shape
        """
        __tracebackhide__ = True
        wrong = self.outside(out)
        if not wrong.any():
            return
        found = as_float64(out)
        with np.errstate(all="ignore"):  # the worst, in widths of intervals; a NaN is before all
            beyond = np.maximum(self.lower - found, found - self.upper) / (self.upper - self.lower)
            share = np.where(wrong, np.where(np.isfinite(beyond), beyond, np.inf), -1.0)
        index = tuple(int(i) for i in np.unravel_index(np.argmax(share), share.shape))
        batch, head, query, entry = index
        where = f"query {query} of head {head}{f' of batch {batch}' if len(wrong) > 1 else ''}"
        number, low, high = _told_apart(found[index], self.lower[index], self.upper[index])
        count = int(self.judged.sum()) * wrong.shape[3]
        outside = f"(entry {entry}; {int(wrong.sum())} of {count} numbers are outside)"
        if self.empty[index[:3]]:
            raise AssertionError(
                f"{where} sees no key: {number} is not {low} {outside}\n"
                "Another convention for such rows: bounds(.., fully_masked='nan'), or None to "
                "leave them out"
            )
        raise AssertionError(
            f"{where}: {number} is not in [{low}, {high}] {outside}\n"
            f"So this is not an evaluation of the model {self.model.name!r}: "
            f"{self.model.describe()}."
        )


def bounds(
    q: object,
    k: object,
    v: object,
    mask: object = None,
    scale: float | None = None,
    model: str = "flash bfloat16",
    *,
    softcap: float | None = None,
    bias: object = None,
    sinks: object = None,
    depth: int | None = None,
    block: int | None = None,
    fully_masked: str | None = "zeros",
) -> Intervals:
    """Return an interval for each number of softmax(cap(scale q k^T) + bias) v.

    Every kernel of the model returns numbers inside. A number outside proves that the kernel is
    not of this model: it computes something else, or with less precision than was said.

    Args:
        q: (B, H, T_q, d) as the kernel reads it, from numpy, torch or jax
        k: (B, G, T_k, d); G divides H, and head h reads KV head h // (H / G)
        v: (B, G, T_k, d_v)
        mask: booleans, True where a key may be seen; or numbers to add, -inf where it may not;
            either broadcasts to (B, H, T_q, T_k), as `problem.mask` does
        scale: factor of logits, 1 / sqrt(d) by default
        model: a name of `exact.kernel_model.KERNEL_MODELS`
        softcap: c of c tanh(logit / c)
        bias: numbers to add to logits, as `mask`
        sinks: (H,) logits without a value
        depth: additions that a term of a sum passes through in this kernel, at most (an instruction
            that adds k products at once counts as k). It is yours to know; by default any order is
            allowed, and bounds for float32 are wide
        block: keys of a block of softmax in this kernel, at least; by default what the model has
        fully_masked: what a row without a visible key has to be, which is a convention, not a part
            of the model: "zeros", "nan", or None for anything

    Raises:
        DataError: for shapes that do not fit, or numbers that the format of the model lacks
        ParameterError: for another model or convention, or inputs for which a kernel of the model
            may overflow

    Example:
        >>> random = np.random.default_rng(0)
        >>> q, k, v = random.standard_normal((3, 1, 2, 16, 8)).astype(np.float16)
        >>> inside = bounds(q, k, v, model="flash float16")
        >>> weights = np.exp(q.astype(float) @ k.astype(float).swapaxes(-1, -2) / np.sqrt(8))
        >>> out = weights / weights.sum(-1, keepdims=True) @ v
        >>> inside.contains(out.astype(np.float16)), inside.contains(1.01 * out)
        (True, False)
    """
    row = kernel_model_named(model)
    for name, number in (("depth", depth), ("block", block)):
        if number is not None:
            require_positive(**{name: number})
    row = replace(row, depth=depth, block=row.block if block is None else block)
    given = read(
        q, k, v, row.storage, mask=mask, scale=scale, softcap=softcap, bias=bias, sinks=sinks
    )
    lower, upper = enclose(given, row)
    empty, judged = ~given.judged, given.judged
    if fully_masked is not None:
        require_known("fully_masked", fully_masked, ("zeros", "nan"))
        lower[empty] = upper[empty] = 0.0 if fully_masked == "zeros" else np.nan
        judged = judged | empty
    return Intervals(frozen(lower), frozen(upper), frozen(judged.copy()), row, frozen(empty))


def _told_apart(number: float, low: float, high: float) -> tuple[str, str, str]:
    """Three numbers with so many digits that one sees that the first is outside."""
    for digits in _DIGITS:
        texts = tuple(f"{each:.{digits}g}" for each in (number, low, high))
        found, bottom, top = (float(text) for text in texts)
        if not bottom <= found <= top and bottom < top:
            break
    return texts[0], texts[1], texts[2]
