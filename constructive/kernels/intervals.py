"""Intervals that contain the output of every admissible evaluation of attention, with their proof.

Theorem B. Let a_j be any weights that are not negative and sum to 1, o = sum_j a_j v_j and
sd^2 = sum_j a_j (v_j - o)^2. What a kernel of a model (`exact.kernel_model`) computes before its
last rounding is within Delta of o; its output, rounded to nearest, is between the roundings of
o - Delta and o + Delta, as rounding is monotone. Here a_j are weights that float64 computed, taken
as they are; what they owe to float64 is part of kappa below. u is the unit of operations, u' that
of matrix products, gamma_k = k u / (1 - k u), n the number of visible keys. Other keys have weight
0, and adding 0 rounds nothing.

*Sums.* An addition is off by u' times its result. A partial sum is a sum of some of the terms, so
it is within M = max(sum of positive terms, sum of sizes of negative ones) = (sum of sizes + |sum|)
/ 2, and its errors so far. Let E be the largest error of a partial sum of k terms, each off by a
part theta. Then E <= theta S + k u' (M + E), where S is the sum of sizes, so
E <= gamma'_k M + (1 + gamma'_k) theta S. If no term passes through more than `depth` additions, as
additions of one level have no term in common, gamma'_depth S is another bound of the first part.

*Logits.* l_j = scale q k_j. Products, and entries that constants multiply, make theta =
(1 + u)^3 - 1 (with operands cut off, and q and k stored, more). Then come 9 roundings at most, each
of a number that is no larger than A_j = |l_j before a bias| + |biases|, or the largest |l| of keys
that matter, or their sum: as largest logits only grow, u |l_j - m| and those of differences of
maxima are together u (m - l_j + 2 lag). Logits that are stored come on top, relative to |l_j| or to
A_j. A soft cap multiplies errors by its largest slope, 1 - tanh^2 at the near end of the interval,
and tanh is off by a part of its result. Together: |error of l_j - m| <= eps_j.

*Weights.* A weight has one exponential, and R - 1 more that rescale, where R <= n counts blocks
with a visible key, R <= ceil(T_k / block) + 1. So weights are a_j w_j / sum a w, |log w_j| <=
kappa_j = eps_j + exponentials. As sum a_j (v_j - o) = 0, the average moves by
|sum a_j (w_j - 1) (v_j - o)| / sum a w <= exp(k) G sd = D, by Cauchy and Schwarz, where
G^2 = sum a_j (exp(kappa_j) - 1)^2, and sum a_j exp(-kappa_j) >= exp(-k), k = sum a_j kappa_j, by
Jensen. It moves by no more than max v - min v either.
Keys with l_j + kappa_j < max_i (l_i - kappa_i) - 100 have weights below exp(-100), and count as
2^-100 max |v| at the end. If another key has kappa_j > 50, D = max v - min v.

*Storage.* New weights b_j sum |v_j| to X <= exp(k) (sum a |v| + G (sd + |o|)), and
sum b_j |v_j - sum b v| <= Y = exp(k) (1 + G) sd + D. Stored weights are off by a part theta: the
average moves by theta X if the denominator is the sum of weights as they were, and by
theta / (1 - theta) Y if it is that of stored ones. Operands v, products and merging by logsumexp
(`FloatModel.exponents`) are off by a part of each term, so of X.

*Averages.* The numerator is a sum of n terms with 2 R rescalings or fewer (4 R where parts are
divided and merged by logsumexp), the denominator another with u. Four roundings divide, and
multiply by a constant (six where merged).

*Underflow.* The largest logit has the exponential 1, or that of a rounding of it where l - m is
fused; if that may be 1/2 or more, nothing is proved. So denominators are exp(-1/2) or more.
Exponentials, products and rescaled sums lose a few times the smallest normal number each, stored
weights as much as storage does near 0: in the numerator, or in both and then times |v_j - o|.

*Our own rounding.* Logits, exponentials (assumed to be within 64 units in the last place of
float64) and l - m are parts of kappa_j. Sums of weights times v are off by gamma_(n+8) of float64.
Everything else is a sum of products of positive numbers, which `exact.upward.up` covers; two
products of matrices are in float32, times 1 + (k + 4) 2^-23.

Reference: Higham, *Accuracy and Stability of Numerical Algorithms*, chapters 3 and 4.
"""

from dataclasses import dataclass, replace

import numpy as np

from constructive.exact.kernel_model import KernelModel, kernel_model_named
from constructive.kernels.enclosure.enclose import enclose
from constructive.kernels.enclosure.inputs import exactly, read
from constructive.support.arguments import require_positive
from constructive.support.arrays import Array, Booleans, frozen
from constructive.support.errors import DataError

_DIGITS = range(4, 18)  # Digits of numbers in a message: so many that they differ


@dataclass(frozen=True, eq=False)
class Intervals:
    """Where the outputs of all kernels of a model are.

    Attributes:
        lower: (B, H, T_q, d_v), -inf in rows that are not judged
        upper: the same, inf there
        judged: (B, H, T_q) False in rows that see no key; what is there depends on conventions
        model: what a kernel may do; `model.describe()` says it
    """

    lower: Array
    upper: Array
    judged: Booleans
    model: KernelModel

    def outside(self, out: object) -> Booleans:
        """Return where an output is not in its interval, NaN included, (B, H, T_q, d_v).

        Args:
            out: what a kernel returned, from numpy, torch or jax

        Raises:
            DataError: for another shape
        """
        found = exactly("out", out)
        if found.shape != self.lower.shape:
            raise DataError(
                f"the output has shape {found.shape}, the intervals {self.lower.shape}",
                witness=found.shape,
                suggestion="(batch, heads, queries, d_v)",
            )
        inside = (self.lower <= found) & (found <= self.upper)
        wrong: Booleans = ~inside & self.judged[..., None]
        return wrong

    def contains(self, out: object) -> bool:
        """Return whether an output is inside, but for rows that are not judged.

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
        wrong = self.outside(out)
        if not wrong.any():
            return
        found = exactly("out", out)
        # The worst first, in widths of intervals; a NaN before all others.
        beyond = np.maximum(self.lower - found, found - self.upper)
        width = self.upper - self.lower
        with np.errstate(all="ignore"):
            share = np.where(wrong, np.where(np.isfinite(beyond), beyond / width, np.inf), -1.0)
        index = tuple(int(i) for i in np.unravel_index(np.argmax(share), share.shape))
        batch, head, query, entry = index
        where = f"query {query} of head {head}" + (f" of batch {batch}" if len(wrong) > 1 else "")
        number, low, high = _told_apart(found[index], self.lower[index], self.upper[index])
        raise AssertionError(
            f"{where}: {number} is not in [{low}, {high}] (entry {entry}; {int(wrong.sum())} of "
            f"{int(self.judged.sum()) * wrong.shape[3]} numbers are outside)\n"
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
) -> Intervals:
    """Return an interval for each number of softmax(cap(scale q k^T) + bias) v.

    Every kernel of the model returns numbers inside. A number outside proves that the kernel is
    not of this model: it computes something else, or with less precision than was said.

    Args:
        q: (B, H, T_q, d) as the kernel reads it, from numpy, torch or jax
        k: (B, G, T_k, d); G divides H, and head h reads KV head h // (H / G)
        v: (B, G, T_k, d_v)
        mask: booleans, True where a key may be seen; or numbers to add, -inf where it may not;
            either broadcasts to (B, H, T_q, T_k). Or a mask of `kernels.masks`, or several
        scale: factor of logits, 1 / sqrt(d) by default
        model: a name of `exact.kernel_model.KERNEL_MODELS`
        softcap: c of c tanh(logit / c)
        bias: numbers to add to logits, as `mask`
        sinks: (H,) logits without a value
        depth: additions that a term of a sum passes through in this kernel, at most (an instruction
            that adds k products at once counts as k). It is yours to know; by default any order is
            allowed, and bounds for float32 are wide
        block: keys of a block of softmax in this kernel, at least; by default what the model has

    Raises:
        DataError: for shapes that do not fit, or numbers that the format of the model lacks
        ParameterError: for another model, or inputs for which a kernel of the model may overflow

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
    return Intervals(frozen(lower), frozen(upper), frozen(given.judged.copy()), row)


def _told_apart(number: float, low: float, high: float) -> tuple[str, str, str]:
    """Three numbers with so many digits that one sees that the first is outside."""
    for digits in _DIGITS:
        texts = tuple(f"{each:.{digits}g}" for each in (number, low, high))
        found, bottom, top = (float(text) for text in texts)
        if not bottom <= found <= top and bottom < top:
            break
    return texts[0], texts[1], texts[2]
