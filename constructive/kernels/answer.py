"""The answer that follows from numbers: what each row is, its log-sum-exp, and how exact both are.

Nothing here knows how queries were made. A row is checked where the hypotheses of a theorem hold;
the average of the winners' values is its answer.
"""

import math
from dataclasses import dataclass

import numpy as np

from constructive.exact.formats import FORMATS, nearest
from constructive.exact.kernel_model import KERNEL_MODELS, power
from constructive.kernels.cases import (
    GAP,
    LOGIT_ERROR,
    MOST_DIGITS,
    PART_OF_LEVEL,
    Draft,
    fine_error,
)
from constructive.kernels.spec import Spec, format_of, holds
from constructive.support.arrays import Array, Booleans, Integers
from constructive.support.errors import AssumptionError

EXP0_ERROR = 2.0**-14  # How far exp(0) may be from 1 in kernels of 16 bits
EXP_ERROR = 2.0**-6  # What is assumed of exponentials where two keys share the weight
TANH_ERROR = 2.0**-11  # What is assumed of the tanh of a soft cap
# Products of a logit that is far below have sizes of at most this many times its own.
_SAME_SIGN = 3.0
_BIAS_KEPT = 1.0 - 2.0**-6  # Of a bias, after roundings in 8 bits
_CAPPED = 0.997  # Of the cap: what a logit that is 6 caps below a level is at most, with all errors
_RANGE = 8.0  # Of values, for which tails are computed
_TAIL = 2.0**7  # 2 tau of Theorem 13 over n omega, with a soft cap
_LAZY_TAIL = 2.0**12  # 2 tau over n omega and the range of values, where sums have 24 bits
# u of a sum, delta of Theorem 14 (logarithms and merging), eta of Theorem 15: exp near 0, such as
# that of FlashAttention 4, by a polynomial.
_SINGLE = 2.0**-23, 2.0**-20, 2.0**-13.5
_DOUBLE = 2.0**-52, 2.0**-48, 2.0**-37
_EXACT_FLOAT32 = 2.0**24


@dataclass(frozen=True, eq=False)
class ExactAnswer:
    """What every admissible kernel returns."""

    weights: Array  # (B, H, T_q, T_k) weights of keys before normalisation: 1 for winners
    expected: Array  # (B, H, T_q, d_v) the answer; NaN in rows that are not checked
    slack: Array  # (B, H, T_q, 1 or d_v) how far an admissible output may be away; 0: bit for bit
    checked: Booleans  # (B, H, T_q) rows for which the hypotheses hold
    empty: Booleans  # (B, H, T_q) rows that see no key
    guards: Booleans  # (B, H, T_q, T_k) hidden keys whose leak changes the answer


def products(spec: Spec, draft: Draft) -> tuple[Array, Array]:
    """Return q k^T without the level and the sums of sizes of its products, (B, H, T_q, T_k).

    The numbers are powers of two, and sums stay below 2^53 of their unit: both are exact.
    """
    q, k = _short(draft.q, draft.k)
    if draft.level_slot is not None:
        rest = np.arange(spec.head_dim) != draft.level_slot
        q, k = q * rest, k * rest
    return grouped(spec, q, k), grouped(spec, np.abs(q), np.abs(k))


def _short(q: Array, k: Array) -> tuple[Array, Array]:
    """Return both in float32 if all sums of products are exact there."""
    ends = [(array.max(), array[array > 0.0].min(initial=1.0)) for array in (np.abs(q), np.abs(k))]
    most = ends[0][0] * ends[1][0] * q.shape[-1]
    if most < _EXACT_FLOAT32 * min(ends[0][1], 1.0) * min(ends[1][1], 1.0):
        return q.astype(np.float32), k.astype(np.float32)
    return q, k


def grouped(spec: Spec, q: Array, k: Array) -> Array:
    """Return products of queries (B, H, T_q, d) with keys (B, G, T_k, d) of their KV head."""
    batch, group = spec.batch, spec.group
    rows = q.reshape(batch, spec.heads[1], group * q.shape[2], q.shape[3])
    found: Array = (rows @ k.swapaxes(-1, -2)).reshape(batch, spec.heads[0], q.shape[2], -1)
    return found


def averaged(weights: Array, v: Array) -> Array:
    """Return weighted sums (B, H, T_q, d_v) of values (B, G, T_k, d_v)."""
    batch, heads, queries, keys = weights.shape
    rows = weights.reshape(batch, v.shape[1], heads // v.shape[1] * queries, keys)
    found: Array = (rows @ v).reshape(batch, heads, queries, -1)
    return found


def answer(
    spec: Spec, draft: Draft, v: Array, visible: Booleans, bias: Array | None,
    sinks: Array | None, *, is_encoded: bool = False,
) -> ExactAnswer:  # fmt: skip
    """Return the answer of a draft; raise if its numbers are not those that theorems are about."""
    _require_numbers(spec, draft, v, is_encoded=is_encoded)
    raw, size = products(spec, draft)
    visible = np.broadcast_to(visible, raw.shape)
    zero: Booleans = size == 0.0
    below: Booleans = far_below(spec, draft, raw, size, bias)
    high = raw >= 0.0
    if bias is not None:
        zero = zero & (bias == 0.0)
        high = raw * spec.factor + bias >= 0.0
    winners = visible & zero
    weights = winners.astype(np.float64)
    near = np.zeros_like(winners)
    part, ends = near_weight(spec, draft)
    if draft.near is not None:
        near = visible & _is_near(draft, raw, size, bias)
        weights[near] = part
    exists = spec.rows()[:, None]
    empty = ~visible.any(-1) & exists
    checked: Booleans = winners.any(-1) & (below | winners | near | ~visible).all(-1) & exists
    checked &= _meets_hypotheses(spec, draft, visible, sinks)
    total = weights.sum(-1) + beside(draft, sinks)
    expected: Array = averaged(weights, v) / np.where(checked, total, 1.0)[..., None]
    relative = _rounding(spec, draft, v, total, visible.sum(-1))
    slack: Array = relative[..., None] * expected
    if near.any():
        # The average is monotone in the weight of near keys, so its ends are those of the weight,
        # which may have been stored before it is summed above, or above and below.
        count = near.sum(-1)[..., None]
        others = total[..., None] - part * count
        of_winners, of_near = (averaged(keys.astype(float), v) for keys in (winners, near))
        with np.errstate(invalid="ignore", divide="ignore"):  # rows that are not checked
            moved = np.max([
                np.abs((of_winners + stored * of_near) / (others + below * count) - expected)
                for end in ends
                for stored in (end * (1.0 - _stored(spec)), end * (1.0 + _stored(spec)))
                for below in (end, stored)
            ], axis=0)  # fmt: skip
        slack = np.where(count > 0, slack + moved * (1.0 + relative[..., None]), slack)
    expected = np.where(checked[..., None], expected, np.nan)
    guards = ~visible & high & checked[..., None]
    if guards.any():
        guards &= _tell(spec, v, expected, slack, total[..., None], guards)
    expected, slack, checked, guards = _empty_rows(
        spec, v, empty, (expected, slack, checked, guards)
    )
    return ExactAnswer(
        weights, expected, np.where(checked[..., None], slack, 0.0), checked, empty, guards
    )


def _is_near(draft: Draft, raw: Array, size: Array, bias: Array | None) -> Booleans:
    found = (raw == draft.near) & (size == -(draft.near or 0.0))
    return np.asarray(found if bias is None else found & (bias == draft.near_bias))


def beside(draft: Draft, sinks: Array | None) -> Array | float:
    """Return 1 in rows whose winner is at 0 beside a sink at 0, (B, H, T_q)."""
    if sinks is None:
        return 0.0
    return np.asarray((sinks[:, None] == 0.0) & (draft.levels == 0.0), dtype=np.float64)


def _tell(
    spec: Spec, v: Array, expected: Array, slack: Array, total: Array, leaks: Booleans
) -> Booleans:
    """Return which keys would change the answer if they leaked, (B, H, T_q, T_k).

    A leak has the weight of a winner or more, so an entry moves by |v - expected| / (total + 1) or
    more. That has to be more than the slack and the last rounding.
    """
    found: Booleans = np.zeros((), dtype=np.bool_)
    rest = (total + 1.0) * slack + spec.output.unit * total * expected
    for value in np.unique(v):  # with scales there are dozens, of which a few tell nearly all
        tells = np.abs(value - expected) > rest + spec.output.unit * value
        both = tells.astype(np.float32), (v == value).astype(np.float32)
        found = found | (grouped(spec, *both) > 0.0)
        if found[leaks].all():
            break
    return found


def _stored(spec: Spec) -> float:
    """Return how far weights may be off that are stored in fewer bits than the output."""
    return spec.inputs.unit if spec.inputs.digits < spec.output.digits else 0.0


def operand_error(spec: Spec) -> float:
    """Return how far operands of products may be off: those of TF32 are rounded or cut off."""
    return 2.0 ** (1 - spec.inputs.digits) if spec.dtype == "tf32" else 0.0


def far(spec: Spec) -> tuple[int, int]:
    """Return how far below the winner a key weighs next to nothing, and the power of 1/2 it is."""
    return (58, 80) if spec.dtype == "float64" else (50, 70)


def most_far(spec: Spec) -> float:
    """Return omega: what a key far below the winner weighs at most."""
    most = 2.0 ** -far(spec)[1]
    return most if spec.soft_cap is None else max(most, math.exp(-_CAPPED * spec.soft_cap))


def bits_of_values(v: Array) -> tuple[int, int]:
    """Return how many bits a value has, and how many a sum of a few in units of all."""
    part, exponent = np.frexp(v)
    own = next(n for n in range(1, 54) if (np.ldexp(part, n) % 1.0 == 0.0).all())
    return own, int(exponent.max() - exponent.min()) + own


def tail_of_cap(spec: Spec) -> float:
    """Return what all keys that end at -cap add to a row at most, 2 tau of Theorem 13 (c)."""
    return 0.0 if spec.soft_cap is None else _TAIL * spec.keys * most_far(spec)


def fused_error(spec: Spec, level: Array) -> Array:
    """Return epsilon of Theorem 15: a winner's weight, if exp is fused with the subtraction."""
    unit, _, near = _arithmetic(spec)
    off = unit / 2.0 * (1.0 + LOGIT_ERROR) * level * math.log2(math.e)
    return np.asarray(np.exp2(np.minimum(off, 1.0)) * (1.0 + near) - 1.0)


def exp0_error(spec: Spec) -> float:
    """Return how far exp(0) may be from 1 (Theorem 20): not at all where outputs have 24 bits."""
    return EXP0_ERROR if spec.output.digits < FORMATS["float32"].digits else 0.0


def near_exp_error(spec: Spec) -> float:
    """Return how far exp may be off of numbers that are nearly 0."""
    return _arithmetic(spec)[2]


def _arithmetic(spec: Spec) -> tuple[float, float, float]:
    return _DOUBLE if spec.output.name == "float64" else _SINGLE


def far_below(
    spec: Spec, draft: Draft, raw: Array, size: Array, bias: Array | None = None
) -> Booleans:
    """Return where a logit is so far below the winner that its key has no weight."""
    gap = usual = GAP.get(spec.dtype, 64.0)
    if spec.soft_cap is not None:
        gap = 6.0 * spec.soft_cap + max(draft.level, 0.0) * spec.factor
    # sqrt(head_dim) is rounded correctly, and exact where the comparison could be with equality.
    least = np.asarray(gap * math.sqrt(spec.head_dim) if spec.scale is None else gap / spec.scale)
    if spec.soft_cap is None:
        least = least + PART_OF_LEVEL * np.abs(draft.levels[..., None])
    bound = np.asarray(least, dtype=raw.dtype)
    bound = np.where(bound < least, np.nextafter(bound, raw.dtype.type(np.inf)), bound)
    signed: Booleans = size <= raw.dtype.type(-_SAME_SIGN) * raw
    if bias is None:
        return signed & (raw <= -bound)
    found: Booleans = signed & (((raw <= -bound) & (bias <= 0.0)) | (bias <= -usual))
    if spec.soft_cap is None:  # a bias that outweighs a product (Lemma 19.1)
        least = usual + PART_OF_LEVEL * np.abs(draft.levels[..., None]) * spec.factor
        found = found | (_most(spec, raw, size) + bias * _BIAS_KEPT <= -least)
    return found


def _most(spec: Spec, raw: Array, size: Array) -> Array:
    """Return the most that a logit may be without its level."""
    return np.asarray((raw.astype(np.float64) + LOGIT_ERROR * size) * spec.factor)


def outweighing(spec: Spec, draft: Draft, visible: Booleans, kinds: Integers) -> Array:
    """Return a bias: 0, -1, or any number that outweighs the products of keys, all of 8 bits."""
    most = np.where(visible, _most(spec, *products(spec, draft)), 0.0)
    axes = tuple(axis for axis, n in enumerate(kinds.shape) if n == 1)
    highest = np.maximum(most.max(axes, keepdims=True), 0.0)
    level = PART_OF_LEVEL * float(np.abs(draft.levels).max()) * spec.factor
    random = np.random.default_rng((spec.seed, 47))
    least = (highest + GAP.get(spec.dtype, 64.0) + level) / _BIAS_KEPT
    numbers = nearest(-least * (1.01 + random.random(kinds.shape) / 2.0), FORMATS["bfloat16"])
    seen = visible.any(axes, keepdims=True)  # else a leak of the key would change nothing
    return np.select([(kinds == 0) | ~seen, kinds == 1], [0.0, -1.0], numbers)


def near_weight(spec: Spec, draft: Draft) -> tuple[float, tuple[float, float]]:
    """Return the weight of a near key beside 1, and the least and the most that it may be."""
    if draft.near is None:
        return 0.0, (0.0, 0.0)

    def distance(level: float, near: float) -> float:
        more, level, near = near * draft.near_bias, level * of_level, near * of_near
        if spec.soft_cap is not None:
            cap = spec.soft_cap
            near = cap * (math.tanh((level + near) / cap) - math.tanh(level / cap))
        return near + more

    of_level, of_near = draft.level * spec.factor, draft.near * spec.factor
    exact = distance(1.0, 1.0)
    # A level is the same product for all keys: it is off by the same part for both. And tanh does
    # not bring the near key above the winner.
    off = 1.0 - draft.near_error, 1.0 + draft.near_error
    ends = [distance(level, near) for level in off for near in off]
    more = 0.0 if spec.soft_cap is None else 4.0 * TANH_ERROR * spec.soft_cap
    low, high = min(ends) - more, min(0.0, max(ends) + more)
    return math.exp(exact), (
        math.exp(low) * (1.0 - EXP_ERROR),
        math.exp(high) * (1.0 + EXP_ERROR),
    )


def _rounding(spec: Spec, draft: Draft, v: Array, total: Array, seen: Array) -> Array:
    """Return the relative slack of rows by what is asked of arithmetic, (B, H, T_q)."""
    bits = spec.output.digits
    unit, delta, _ = _arithmetic(spec)
    safe = np.maximum(total, 1.0)
    powers = np.exp2(np.round(np.log2(safe))) == safe
    own, width = bits_of_values(v)
    fits = np.where(safe > 1.0, np.log2(safe) + width, own) <= bits
    merged = (1.0 + delta) / (1.0 - delta) * ((1.0 + unit) / (1.0 - unit)) ** (safe + 2.0)
    off = np.where(safe > 1.0, merged * (1.0 + 2.01 * exp0_error(spec)), 1.0)
    if draft.level:
        size = np.abs(draft.levels) * spec.factor
        epsilon = fused_error(spec, np.minimum(size, spec.soft_cap or np.inf))
        off = np.where(
            size > 0.0, off * (1.0 + epsilon / (1.0 - epsilon) + (4.0 + (own > 1)) * unit), off
        )
    off = np.where(off > 1.0, off * (1.0 + operand_error(spec)), 1.0)  # 1 is a number of TF32
    off = off - 1.0 + tail_of_cap(spec) * max(1.0, v.max() / v.min() / _RANGE)
    if draft.spread > 1.0:  # keys far below have larger values than winners (Proposition 28)
        short = powers & fits & (bits < FORMATS["float32"].digits)
        growth = np.where(short, spec.keys, 1.0)
        off = off + _LAZY_TAIL * growth * spec.keys * most_far(spec) * v.max() / v.min()
    # A number of as many bits as the output has is what nearer numbers are rounded to.
    exact = np.where(off < 2.0 ** -(bits + 1), 0.0, off + 2.0**-bits * (1.0 + off))
    return np.where(powers & fits, exact, _rough(spec, seen) + off)


def _rough(spec: Spec, seen: Array | int) -> Array | float:
    """Return the relative slack of an average of `seen` keys that is not over 2^m."""
    bits = min(spec.output.digits, 50)
    return 2.0 ** (2 - bits) + _arithmetic(spec)[0] * (seen + 4.0)


def _empty_rows(
    spec: Spec, v: Array, empty: Booleans, rows: tuple[Array, Array, Booleans, Booleans]
) -> tuple[Array, Array, Booleans, Booleans]:
    """Return answers with those of rows that see no key, by the convention."""
    expected, slack, checked, guards = rows
    if not empty.any():
        return rows
    if spec.fully_masked == "mean":
        mean = np.repeat(v.mean(2, keepdims=True), spec.group, axis=1)
        rough = _rough(spec, spec.keys) + operand_error(spec)
        expected = np.where(empty[..., None], mean, expected)
        slack = np.where(empty[..., None], rough * mean, slack)
    else:
        value = 0.0 if spec.fully_masked == "zeros" else np.nan
        expected = np.where(empty[..., None], value, expected)
        slack = np.where(empty[..., None], 0.0, slack)
        guards = guards | empty[..., None]
    return expected, slack, checked | empty, guards


# The log-sum-exp that every admissible kernel returns beside its output (Theorem 20).


LN2 = math.log(2.0)
BASES = {"e": 1.0, "2": LN2}
UNIT = 2.0**-24  # log-sum-exps are in float32, or in more bits
LOG_ERROR = 2.0**-20  # eps_l: a logarithm is off by at most this part of itself, and log 1 = 0
_FAINT = 2.0**-70  # what a key or a sink far below adds
_ENTRIES = 6  # roundings to the format of inputs, where logits and entries are stored


@dataclass(frozen=True, eq=False)
class Lse:
    """Log-sum-exps of rows: log sum_j exp(l_j), its two parts, and what a kernel may return."""

    # (B, H, T_q) in the base that was asked for; NaN in rows that are not checked, the convention
    # in rows that see no key
    expected: Array
    slack: Array  # (B, H, T_q) how far an admissible one may be away; about 2^-60: bit for bit
    level: Array  # (B, H, T_q) logits of winners
    total: Array  # (B, H, T_q) weights of all keys, where a winner has 1
    base: str  # "e" or "2"


def expected_lse(
    spec: Spec, draft: Draft, given: ExactAnswer, sinks: Array | None, *, base: str = "e",
    sink_in_lse: bool = True, fully_masked_lse: float = -math.inf, model: str | None = None,
) -> Lse:  # fmt: skip
    """Return the log-sum-exps of a problem, by Theorem 20; `base` is one of `BASES`."""
    counted = sinks if sink_in_lse else None
    level, of_level = _level(spec, draft)
    total = np.asarray(given.weights.sum(-1) + beside(draft, counted))
    log = np.log(np.maximum(total, 1.0))
    size = np.abs(level)
    slack = np.where(total == 1.0, 0.0, 5.0 * UNIT * (size + log) + 1.2 * LOG_ERROR * log)
    whole = np.exp2(np.round(np.log2(np.maximum(total, 1.0)))) == total
    slack = slack + np.where(whole, 0.0, 4.0 * UNIT * (spec.keys + 8.0))
    slack = (
        slack + _FAINT * (spec.keys + 1) + 1.01 * exp0_error(spec) + tail_of_cap(spec) + of_level
    )
    if rounded := _of_scale(spec, model):
        slack = slack + rounded * size + np.where(size > 0.0, 1.01 * near_exp_error(spec), 0.0)
    slack = slack + _of_near(spec, draft, given, total)
    alone = np.broadcast_to(fully_masked_lse, level.shape)
    off = np.zeros_like(slack)
    if counted is not None:
        alone = np.broadcast_to(np.asarray(counted)[:, None], level.shape)
        off = 3.0 * UNIT * np.abs(alone)
    expected = level + log
    if base == "2":
        expected, slack = expected / LN2, (slack + 3.0 * UNIT * (size + log)) / LN2
        if counted is not None:
            alone, off = alone / LN2, 2.0 * off / LN2
    expected = np.where(given.empty, alone, np.where(given.checked, expected, np.nan))
    return Lse(expected, np.where(given.empty, off, slack), level, total, base)


def expected_logits(
    spec: Spec, draft: Draft, given: ExactAnswer, model: str | None = None
) -> tuple[Array, Array]:
    """Return the largest logit of each row, (B, H, T_q), and how far it may be off.

    It is the winner's; -inf where no key is visible, and NaN in rows that are not checked.
    """
    level, of_cap = _level(spec, draft)
    slack = (5.0 * UNIT + _of_scale(spec, model)) * np.abs(level) + of_cap
    level = np.where(given.empty, -np.inf, np.where(given.checked, level, np.nan))
    return level, np.where(level == 0.0, 0.0, slack)


def _of_scale(spec: Spec, model: str | None) -> float:
    """Return by which part of a level its scale may be off, whose root both factors may have."""
    if math.frexp(math.sqrt(spec.factor))[0] == 0.5 and spec.soft_cap is None:  # noqa: PLR2004 - 2^k
        return 0.0
    kept = None if model is None else KERNEL_MODELS[model]
    stored = 0.0 if kept is None or not kept.stores_logits else _ENTRIES * kept.stored_unit
    return 6.0 * UNIT + stored + operand_error(spec)


def _level(spec: Spec, draft: Draft) -> tuple[Array, Array | float]:
    """Return logits of winners, and how far a soft cap may move them."""
    level, cap = draft.levels * spec.factor, spec.soft_cap
    if cap is None:
        return level, 0.0
    ends = [np.tanh(level * (1.0 + sign * LOGIT_ERROR) / cap) for sign in (-1.0, 1.0)]
    capped = np.tanh(level / cap)
    moved = np.maximum(*(np.abs(end - capped) for end in ends)) + TANH_ERROR * np.abs(capped)
    return cap * capped, cap * moved


def _of_near(spec: Spec, draft: Draft, given: ExactAnswer, total: Array) -> Array | float:
    """Return how far a near key may move the logarithm."""
    if draft.near is None:
        return 0.0
    part, ends = near_weight(spec, draft)
    near = ((given.weights > 0.0) & (given.weights < 1.0)).sum(-1)
    safe = np.maximum(total, 1.0)
    moved = [np.abs(np.log((safe + near * (end - part)) / safe)) for end in ends]
    return np.asarray(np.maximum(*moved))


# The other hypotheses of the theorems, on the numbers of a problem in exact arithmetic.


MOST_KEYS = 2**18
LARGEST_VALUE = 8.0  # Over the smallest one
# The same with scales of values, and bits of a value (Proposition 23)
_LARGEST_SCALED, _MOST_BITS = 64.0, 4
# Formats in which a kernel may keep logits, of another range than float32.
_WITH_LOGITS = ("float64", "float16")
_BELOW = 64.0  # How far a sink without weight is below the winner, and both errors of its logit


def soft_cap_reason(spec: Spec) -> str | None:
    """Return why a soft cap is too small for exact answers, or None.

    A capped logit ends at -cap: all keys together must weigh less than the output can show. `Spec`
    takes no cap above 2^16, where epsilon of Theorem 15 is below 0.006.
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


def _meets_hypotheses(spec: Spec, draft: Draft, visible: Booleans, sinks: Array | None) -> Booleans:
    """Return rows, (B, H, T_q), that meet what theorems ask for beside winners and other keys.

    Nothing overflows, no logit has more than four products beside its level, the sink is beside the
    winner or far below it, and under a soft cap, whose slope depends on it, the level is one.
    """
    found = ~overflows(spec, draft, visible) & _known(spec, draft, sinks)
    if spec.soft_cap is not None:
        found &= draft.levels == draft.level
    raised = draft.levels != 0.0
    for head in range(spec.heads[0]):
        kept = (draft.q[:, head] != 0.0).astype(np.float32)
        there = (draft.k[:, head // spec.group] != 0.0).astype(np.float32)
        count = kept @ there.swapaxes(-1, -2) - raised[:, head, :, None]
        found[:, head] &= ~((count > MOST_DIGITS) & visible[:, head]).any(-1)
    return found


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


# What a kernel may do so that the answers hold bit for bit: the model of exact answers, in words.
#
# The numbers are those that the hypotheses use; the sentence is made from them.


def sentence(spec: Spec) -> str:
    """Return the model in words."""
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
