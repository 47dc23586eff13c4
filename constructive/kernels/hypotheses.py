"""The hypotheses of the theorems, checked on the numbers of a problem in exact arithmetic."""

from dataclasses import dataclass

import numpy as np

from constructive.exact.float_model import power
from constructive.kernels.answer import (
    EXP0_ERROR,
    EXP_ERROR,
    TANH_ERROR,
    Answer,
    averaged,
    beside,
    bits_of_values,
    exp0_error,
    far,
    far_below,
    products,
    tail_of_cap,
)
from constructive.kernels.cases import GAP, LOGIT_ERROR, MOST_DIGITS, Draft, fine_error
from constructive.kernels.spec import Spec, format_of, holds
from constructive.support.arrays import Array, Booleans
from constructive.support.errors import AssumptionError

MOST_KEYS = 2**18
LARGEST_VALUE = 8.0  # Over the smallest one
# The same with scales of values, and bits of a value (Proposition 23)
_LARGEST_SCALED, _MOST_BITS = 64.0, 4
# Formats in which a kernel may keep logits, of another range than float32.
_WITH_LOGITS = ("float64", "float16")
_BELOW = 64.0  # How far a sink without weight is below the winner, and both errors of its logit


@dataclass(frozen=True)
class Hypotheses:
    """What was checked."""

    rows: int  # rows whose answer follows from the theorems
    one_winner: int  # rows with one winner at 0 (Theorem A1)
    ties: int  # rows with several winners (A2, A4)
    levelled: int  # rows whose winner is not at 0 (A3)
    shared: int  # rows in which a second key keeps a part of the weight: an interval
    empty: int  # rows without a visible key: a convention, not a theorem


def soft_cap_reason(spec: Spec) -> str | None:
    """Return why a soft cap is too small for exact answers, or None.

    A capped logit ends at -cap: all keys together must weigh less than the output can show. `Spec`
    takes no cap above 2^16, where epsilon of Theorem 15 is below 0.006.

    Example:
        >>> soft_cap_reason(Spec(soft_cap=5.0))
        'a soft cap of 5 leaves weight to keys that are far below'
        >>> soft_cap_reason(Spec(soft_cap=50.0))
    """
    if spec.soft_cap is None:
        return None
    if tail_of_cap(spec) >= 2.0 ** -(spec.output.digits + 2):
        return f"a soft cap of {spec.soft_cap:g} leaves weight to keys that are far below"
    return None


def overflows(spec: Spec, draft: Draft, visible: Booleans) -> Booleans:
    """Return rows in which a kernel may overflow that keeps logits in float32, or in float16."""
    kept = spec.inputs if spec.dtype in _WITH_LOGITS else format_of("float32")
    with np.errstate(over="ignore", invalid="ignore"):
        most = np.abs(draft.q).max() * np.abs(draft.k).max() * spec.head_dim
        if 2.0 * max(1.0, spec.factor) * (most + abs(draft.level)) < kept.largest:
            return np.zeros(draft.q.shape[:3], dtype=np.bool_)
        _, size = products(spec, draft)
        largest = 2.0 * max(1.0, spec.factor) * (size.astype(np.float64) + abs(draft.level))
        found = ((largest >= kept.largest) & visible).any(-1)
    return np.asarray(found & spec.rows()[:, None])


def require_hypotheses(
    spec: Spec, draft: Draft, v: Array, visible: Booleans, bias: Array | None,
    sinks: Array | None, answer: Answer, *, is_encoded: bool = False,
) -> Hypotheses:  # fmt: skip
    """Check that the answer follows from the theorems, however the numbers were made."""
    _require_numbers(spec, draft, v, is_encoded=is_encoded)
    _require("q k overflows", overflows(spec, draft, visible))
    raw, size = products(spec, draft)
    visible = np.broadcast_to(visible, raw.shape)
    rows = answer.checked & ~answer.empty
    winners = (answer.weights == 1.0) & visible
    near = (answer.weights > 0.0) & (answer.weights < 1.0)
    rest = visible & ~winners & ~near
    below = far_below(spec, draft, raw, size, bias)
    zero = size == 0.0
    if bias is not None:
        zero &= bias == 0.0
    _require("a winner has a product that is not 0", rows & (winners & ~zero).any(-1))
    _require("a hidden key has weight", rows & ((answer.weights > 0.0) & ~visible).any(-1))
    _require("there is no winner", rows & ~winners.any(-1))
    _require("a key is not far below the winner", rows & (rest & ~below).any(-1))
    if draft.near is not None:
        elsewhere = near & ((raw != draft.near) | (size != -draft.near))
        _require("a near key is elsewhere", rows & elsewhere.any(-1))
    raised = draft.levels != 0.0
    for head in range(spec.heads[0]):
        kept = (draft.q[:, head] != 0.0).astype(np.float32)
        there = (draft.k[:, head // spec.group] != 0.0).astype(np.float32)
        count = kept @ there.swapaxes(-1, -2) - raised[:, head, :, None]
        many = (count > MOST_DIGITS) & visible[:, head]
        _require("a logit has more than four products", rows[:, head] & many.any(-1))
    _require("a sink is not far below the winner", rows & ~_known(spec, draft, sinks))
    total = answer.weights.sum(-1) + beside(draft, sinks)
    expected = averaged(answer.weights, v)
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(answer.expected * total[..., None] - expected) <= 2.0**-40 * expected)
    exact = (answer.slack == 0.0).all(-1)
    if spec.soft_cap is not None:  # the slope depends on the level
        _require("a query is not at the level", rows & (draft.levels != draft.level))
    _require("an answer is not the average of the winners", rows & wrong.any(-1))
    exponent = np.log2(np.maximum(total, 1.0))
    own, of_sums = bits_of_values(v)
    width = np.where(total > 1.0, exponent + of_sums, own)
    _require("an exact average has too many bits", rows & exact & (width > spec.output.digits))
    _require("an exact average is not over 2^m", rows & exact & (exponent % 1.0 != 0.0))
    return Hypotheses(
        rows=int(rows.sum()),
        one_winner=int((rows & (total == 1.0) & ~raised).sum()),
        ties=int((rows & (winners.sum(-1) > 1)).sum()),
        levelled=int((rows & raised).sum()),
        shared=int((rows & near.any(-1)).sum()),
        empty=int(answer.empty.sum()),
    )


def _known(spec: Spec, draft: Draft, sinks: Array | None) -> Booleans:
    """Return rows whose sink is beside a winner at 0 or far below the winner, (B, H, T_q)."""
    if sinks is None:
        return np.ones(draft.levels.shape, dtype=np.bool_)
    level = draft.levels * spec.factor
    below = sinks[:, None] <= level - 2.0 * LOGIT_ERROR * np.abs(level) - _BELOW
    return np.asarray((beside(draft, sinks) > 0.0) | below)


def _require_numbers(spec: Spec, draft: Draft, v: Array, *, is_encoded: bool) -> None:
    """Check that inputs are powers of two which the format holds, and values are codes.

    Stored numbers of an encoding are in their formats; with scales they are in that of the output.
    """
    form = spec.output if is_encoded else spec.inputs
    for name, array in (("q", draft.q), ("k", draft.k), ("v", v)):
        sizes = np.abs(array[array != 0.0])
        most = _MOST_BITS if is_encoded and name == "v" else 1
        if not holds(form, array) or (np.ldexp(np.frexp(sizes)[0], most) % 1.0).any():
            raise AssumptionError(
                f"{name} are not powers of two in {form.name}, or not of {most} bits",
                witness=float(sizes.max()),
                suggestion="Problem.build",
            )
    largest = _LARGEST_SCALED if is_encoded and spec.dtype != "float64" else LARGEST_VALUE
    largest *= draft.spread
    if v.min() < (0.25 if is_encoded else 1.0) or v.max() > largest * v.min():
        raise AssumptionError(
            f"values are not from 1 to {largest:g}, or these times a power of two",
            witness=float(v.max()),
            suggestion="a larger value_dim",
        )
    if spec.keys > MOST_KEYS:
        raise AssumptionError(
            f"{spec.keys} keys are too many", witness=spec.keys, suggestion=f"at most {MOST_KEYS}"
        )
    reason = soft_cap_reason(spec)
    if reason is not None:
        raise AssumptionError(reason, witness=spec.soft_cap, suggestion="a larger soft cap")
    if draft.level_slot is not None:
        of_keys = draft.k[..., draft.level_slot]
        if (of_keys != of_keys[..., :1]).any():
            raise AssumptionError(
                "levels of keys differ", witness=draft.level, suggestion="Problem.build"
            )


def _require(problem: str, rows: Booleans) -> None:
    if rows.any():
        where = tuple(int(index) for index in np.argwhere(rows)[0])
        raise AssumptionError(problem, witness=where, suggestion="Problem.build")


# What a kernel may do so that the answers hold bit for bit: the model of exact answers, in words.
#
# The numbers are those that the hypotheses use; the sentence is made from them.


def sentence(spec: Spec) -> str:
    """Return the model in words.

    Example:
        >>> sentence(Spec(dtype="bfloat16"))[:60]
        'logits from products of entries in any order, zero where all'
    """
    below, least = far(spec)
    gap, inputs, output = GAP.get(spec.dtype, 64.0), spec.inputs, spec.output
    cap = f"tanh off by at most {power(TANH_ERROR)} of itself; "
    short = f" (or off by at most {power(EXP0_ERROR)}, not alike for all keys)"
    at_0 = short if exp0_error(spec) else ""
    stored = f"weights may be rounded to normal numbers of {inputs.name}"
    if spec.dtype == "tf32":
        stored = f"operands of products may be rounded or cut off to {inputs.digits} bits"
    elif inputs.digits < output.digits:
        stored += " before they are divided"
    sums = (
        "as many bits as the output has, or in float32 where an average needs more bits than the "
        "output has"
    )
    if spec.soft_cap is not None:
        sums = "float64" if output.name == "float64" else "float32"
    return (
        "logits from products of entries in any order, zero where all products are, else off by "
        f"at most {LOGIT_ERROR:g} of the sum of their sizes, equal products alike for all keys, "
        f"in 'fine scale' by {fine_error(spec):.2g}; "
        f"{cap if spec.soft_cap is not None else ''}"
        "weights exp(l - m), m the largest logit of visible keys, in one piece or of the blocks "
        f"so far, 1 at 0{at_0}, else off by at most {power(EXP_ERROR)} of themselves or at most "
        f"2^-{least} where l - m <= -{below} (here gaps are {gap:g} or more); {stored}; hidden "
        f"keys not read, or {below} or more below the winner; sums to nearest or toward zero in "
        f"{sums}, normalised before or after the average, splits merged by their maxima and sums; "
        f"at most {MOST_KEYS} keys"
    )
