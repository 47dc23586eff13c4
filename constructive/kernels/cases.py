"""Cases of problems by name: which key each query reads. A new case is a class and a line here."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, cast

import numpy as np

from constructive.kernels.spec import Spec, chosen_heads, holds, kinds_of_bias
from constructive.support.arrays import Array, Booleans, Integers
from constructive.support.errors import ParameterError

# Keys as digits, values as codes: numbers that every format holds, and that say where they are.
#
# Key j of sequence b and KV head g has the number `offset(b, g) + j`; its m digits of radix r each
# put one number into one of r coordinates. So a product with a query picks, for each digit, one
# coordinate of the query. Values are vectors of powers of two from 1 to 8, no two alike.


MOST_DIGITS = 4  # Nonzero products of a logit: the theorems count their roundings
_DIGITS = 8  # Bits of formats in which logits are more exact than in the rest
_LEVELS = (1, 3)  # The largest exponents of values that are tried


def _digits_of_keys(spec: Spec, reserved: int) -> tuple[Integers, int]:
    """Return digits of all keys, (B, G, T_k, m), the lowest first, and their radix."""
    sizes = cast("tuple[int, int, int]", _sizes(spec, reserved))  # `Case.refuses` where it is None
    span, count, radix = sizes
    pairs, random = _pairs(spec), np.random.default_rng((spec.seed, 2))
    starts = random.permutation(max(span, pairs))[:pairs] % span
    numbers = starts.reshape(spec.batch, spec.heads[1], 1) + np.arange(spec.keys)
    return numbers[..., None] // radix ** np.arange(count) % radix, radix


def _pairs(spec: Spec) -> int:
    """Return of how many (sequence, KV head) pairs there are keys."""
    return spec.batch * spec.heads[1]


def _sizes(spec: Spec, reserved: int) -> tuple[int, int, int] | None:
    """Return the span of offsets, the number of digits and their radix, or None: no room."""
    pairs, room = _pairs(spec), spec.head_dim - reserved
    for span in (2 * pairs, pairs, 1):
        for count in range(1, MOST_DIGITS + 1):
            radix = room // count
            if radix >= 1 and radix**count >= spec.keys + span - 1:
                return span, count, radix
    return None


def _exponent(spec: Spec) -> int | None:
    count = _pairs(spec) * spec.keys
    fits = (b for b in _LEVELS if spec.d_v * math.log2(b + 1) >= math.log2(count))
    return next(fits, None)


def lacks_room(spec: Spec, reserved: int | None) -> str | None:
    """Return why keys have no digits beside reserved coordinates, or values no codes, or None.

    Keys need no digits where `reserved` is None.
    """
    if reserved is not None and _sizes(spec, reserved) is None:
        return f"head_dim={spec.head_dim} is too small for {spec.keys} keys"
    if _exponent(spec) is None:
        return f"value_dim={spec.d_v} is too small for {_pairs(spec) * spec.keys} keys in all"
    return None


def exponent_of_values(spec: Spec) -> int:
    """Return b: values are powers of two from 1 to 2^b."""
    found = _exponent(spec)
    if found is None:
        raise ParameterError(
            str(lacks_room(spec, None)),
            witness=spec.d_v,
            suggestion="a larger value_dim, or fewer keys",
        )
    return found


def codes(spec: Spec) -> Array:
    """Return the values, (B, G, T_k, d_v): powers of two, no two rows alike."""
    count = _pairs(spec) * spec.keys
    base = exponent_of_values(spec) + 1
    random = np.random.default_rng((spec.seed, 1))
    width = 1
    while base**width < count:
        width += 1
    chosen = random.integers(0, base, (count, spec.d_v))
    chosen[:, :width] = random.permutation(count)[:, None] // base ** np.arange(width) % base
    values = np.exp2(chosen[:, random.permutation(spec.d_v)])
    return values.reshape(spec.batch, spec.heads[1], spec.keys, spec.d_v)


def factors(product: float, largest: float) -> tuple[float, float]:
    """Return powers of two (of a query, of a key) whose product is `product` or more."""
    of_key = 2.0 ** math.floor(math.log2(math.sqrt(product * largest)))
    return 2.0 ** math.ceil(math.log2(product / of_key)), of_key


# What a case has to say: queries and keys for a spec. All else follows from these numbers.


# How far a visible key is below the winner, after the scale; 64 where nothing is said.
GAP = {"float64": 72.0}
LOGIT_ERROR = 2.0**-4  # A logit is off by at most this part of the sum of sizes of its products
PART_OF_LEVEL = 0.25  # of the size of a level that the gap is larger
_CAPS = 6.0  # A logit of -6 caps is -cap after a soft cap


@dataclass(frozen=True, eq=False, repr=False)
class Draft:
    """Queries and keys that a case proposes."""

    q: Array  # (B, H, T_q, d)
    k: Array  # (B, G, T_k, d)
    level_slot: int | None = None  # the coordinate that all keys of a head share, or None
    # logit before the scale of keys that keep a part of the weight, less the level, or None
    near: float | None = None
    near_bias: float = 0.0  # what ALiBi adds to the logit of such a key
    near_error: float = LOGIT_ERROR  # how far a logit of such a key may be off, as a part of it
    spread: float = 1.0  # by how much values of every other key are larger

    @cached_property
    def levels(self) -> Array:
        """Logits of winners before the scale, (B, H, T_q): the product of the shared coordinate."""
        if self.level_slot is None:
            return np.zeros(self.q.shape[:3])
        of_keys = np.repeat(self.k[:, :, 0, self.level_slot], self.q.shape[1] // self.k.shape[1], 1)
        return np.asarray(self.q[..., self.level_slot] * of_keys[..., None])

    @property
    def level(self) -> float:
        """The level that is farthest from 0; that of all rows under a soft cap."""
        return float(self.levels.flat[np.argmax(np.abs(self.levels))])


class Case(ABC):
    """A way to choose which key each query reads."""

    name: ClassVar[str]
    purpose: ClassVar[str]
    has_digits: ClassVar[bool] = True
    extra: ClassVar[int] = 0  # coordinates that digits leave free, for a level
    unit: ClassVar[float] = 1.0  # the smallest value, a power of two

    def refuses(self, spec: Spec) -> str | None:
        """Return why there is no such problem for a spec, or None; only its numbers may not fit."""
        if spec.bias is not None and (spec.alibi or spec.soft_cap is not None):
            return "a bias is tried without slopes and soft caps"
        return self.lacks(spec) or lacks_room(spec, self.extra if self.has_digits else None)

    def lacks(self, spec: Spec) -> str | None:
        """Return what a spec lacks for this case, or has and must not, beside room; or None."""
        del spec
        return None

    def slope(self, spec: Spec) -> float:
        """Return the slope of heads that have one, where the spec has ALiBi.

        Over all keys it takes less than half of the gap, so decoys win.
        """
        return power(GAP.get(spec.dtype, 64.0) / (4.0 * (spec.keys + spec.queries)))

    @abstractmethod
    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        """Return queries and keys."""


def gap(spec: Spec) -> float:
    """Return how far other visible keys are below the winner, before the scale."""
    caps = 0.0 if spec.soft_cap is None else _CAPS * spec.soft_cap
    return max(GAP.get(spec.dtype, 64.0), caps) / spec.factor


@dataclass(frozen=True, eq=False)
class Board:
    """What all cases with one winner share: digits, numbers of queries and keys, the winners."""

    spec: Spec  # the shapes
    visible: Booleans  # (B, H, T_q, T_k)
    of_keys: Integers  # (B, G, T_k, m) digits of keys, the lowest first
    radix: int  # of digits
    winner: Integers  # (B, H, T_q) the key to be read; 0 where no key is visible
    digits: Integers  # (B, H, T_q, m) its digits
    number: float  # the number in queries
    key: float  # the number in keys
    random: "np.random.Generator"  # for what is drawn; numpy imports it when it is asked for

    @property
    def count(self) -> int:
        """How many digits there are, m."""
        return int(self.digits.shape[-1])

    def line(self, position: Integers) -> tuple[Integers, Booleans]:
        """Return the keys that differ from the winner in one digit alone, and which exist."""
        away = np.arange(self.radix) - self.own(position)
        keys = self.winner[..., None] + away * self.radix ** position[..., None]
        exists = (keys >= 0) & (keys < self.spec.keys)
        return np.clip(keys, 0, self.spec.keys - 1), exists

    def seen(self, keys: Integers) -> Booleans:
        """Return whether keys (B, H, T_q, r) are visible."""
        return np.asarray(np.take_along_axis(self.visible, keys, axis=-1))

    def own(self, position: Integers) -> Integers:
        """Return the winner's digit at a position, (B, H, T_q, 1)."""
        return np.asarray(np.take_along_axis(self.digits, position[..., None], axis=-1))

    def slots(
        self, position: Integers, others: Booleans | None = None, product: float = 0.0
    ) -> Array:
        """Return slots of queries that read the winner, (B, H, T_q, m, r).

        In the digit at a position, (B, H, T_q), hidden keys are decoys, and others, (B, H, T_q, r),
        have a product.
        """
        is_own = self.digits[..., None] == np.arange(self.radix)
        slots = np.where(is_own, 0.0, -2.0 * self.number)
        keys, exists = self.line(position)
        values = np.where(exists & ~self.seen(keys), self.number, -2.0 * self.number)
        if others is not None:
            values[others] = product / self.key
        np.put_along_axis(values, self.own(position), 0.0, axis=-1)
        np.put_along_axis(slots, position[..., None, None], values[..., None, :], axis=-2)
        return slots

    def draft(
        self, slots: Array, *, level: Array | float | None = None, near: float | None = None
    ) -> Draft:
        """Return the draft of slots, its coordinates permuted; a level has one of its own."""
        spec, used, blank = self.spec, self.count * self.radix, ~self.visible.any(-1)
        q = np.zeros((*self.winner.shape, spec.head_dim))
        q[..., :used] = slots.reshape(*self.winner.shape, used)
        shape = self.of_keys.shape[:3]
        k = self.random.choice([-self.key, self.key], (*shape, spec.head_dim))
        hot = self.of_keys[..., None] == np.arange(self.radix)
        k[..., :used] = self.key * hot.reshape(*shape, used)
        if level is not None:
            q[..., used], k[..., used] = level / self.key, self.key
        q[blank] = 0.0
        order = self.random.permutation(spec.head_dim)
        slot = None if level is None else int(np.flatnonzero(order == used)[0])
        return Draft(q[..., order], k[..., order], slot, near)


def board(
    spec: Spec, visible: Booleans, choice: str, *, reserved: int = 0, times: float = 1.0,
    least: float | None = None,
) -> Board:  # fmt: skip
    """Return the board of a case."""
    of_keys, radix = _digits_of_keys(spec, reserved)
    shape = (spec.batch, spec.heads[0], spec.queries)
    visible = np.broadcast_to(visible, (*shape, spec.keys))
    random = np.random.default_rng((spec.seed, 3))
    if choice == "last":
        winner = spec.keys - 1 - np.argmax(visible[..., ::-1], axis=-1)
    elif choice == "first":
        winner = np.argmax(visible, axis=-1)
    elif choice == "diagonal":
        winner = np.broadcast_to(np.clip(spec.diagonal, 0, spec.keys - 1)[..., 0], shape)
    else:
        rank = np.cumsum(visible, axis=-1, dtype=np.int64)
        wanted = np.floor(random.random(shape) * rank[..., -1]).astype(np.int64) + 1
        winner = np.argmax(rank == wanted[..., None], axis=-1)
    winner = np.where(visible.any(-1), winner, 0)
    digits = np.take_along_axis(np.repeat(of_keys, spec.group, axis=1), winner[..., None], axis=2)
    number, key = factors(gap(spec) if least is None else least, times)
    return Board(spec, visible, of_keys, radix, winner, digits, number, key, random)


def power(value: float) -> float:
    """Return the power of two that is nearest, by its logarithm."""
    return 2.0 ** round(math.log2(value))


# The winner is the last visible key, or the first: edges of masks, tails of blocks.


class Last(Case):
    """Logits grow with the position: 0 at the last visible key, more at every key after it.

    In the slot of a digit that is above the winner's by any amount a query has 4^p A, below it
    -4^p A, p the place of the digit. The highest digit in which two keys differ outweighs all lower
    ones, so logits are ordered as keys are.
    """

    name: ClassVar[str] = "last"
    purpose: ClassVar[str] = "right edges of masks, tails of blocks"

    sign: ClassVar[float] = 1.0

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        chosen = board(spec, visible, self.name, times=4.0 ** (MOST_DIGITS // 2))
        weights = self.sign * chosen.number * 4.0 ** np.arange(chosen.count)
        above = np.arange(chosen.radix) - chosen.digits[..., None]
        return chosen.draft(np.sign(above) * weights[:, None])


class First(Last):
    """Logits fall with the position: 0 at the first visible key, more at every key before it."""

    name: ClassVar[str] = "first"
    purpose: ClassVar[str] = "left edges of masks, the first block"
    sign: ClassVar[float] = -1.0


# Winners far from 0, each row at a level of its own: maxima, finite values for -inf, lse.


_TOPS = tuple(range(8, 3, -1))  # exponents of the largest level of `levels` that are tried
_LEAST = -2  # exponent of the smallest
_LOW = (-256.0, -1024.0, -131072.0)


class Levels(Case):
    """Several winners, whose logits are 0 or a power of two with a sign, another one in each row.

    Every fourth row is at the highest level. Rows of a block do not share a maximum.
    """

    name: ClassVar[str] = "levels"
    purpose: ClassVar[str] = "maxima that are not subtracted; the base and the parts of an lse"
    extra: ClassVar[int] = 1

    def lacks(self, spec: Spec) -> str | None:
        if spec.soft_cap is not None or spec.alibi:
            return "a soft cap or a slope has a level of its own"
        if spec.sink and power(spec.factor) != spec.factor:
            return "the logit of a sink is exact where the scale is a power of two"
        return None if self.known(spec) else f"{spec.dtype} does not hold the numbers of a level"

    def known(self, spec: Spec) -> list[float]:
        """Return levels that a format holds, after the scale."""
        tops = [2.0**top for top in _TOPS if _holds_level(spec, 2.0**top, 2.0**_LEAST)]
        return tops[:1]

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        (top,) = self.known(spec)
        draws = np.random.default_rng((spec.seed, 31))
        shape = (spec.batch, spec.heads[0], spec.queries)
        drawn = np.exp2(draws.integers(_LEAST, int(math.log2(top)) + 1, shape))
        drawn = np.where(_turns(spec) % 4 == 0, top, draws.integers(-1, 2, shape) * drawn)
        most = draws.integers(0, most_winners(spec) + 1, shape)
        chosen = board(spec, visible, "random", reserved=1, least=_gap_at(spec, top))
        slots = tied(chosen, most, np.zeros(spec.heads[0]))
        return chosen.draft(slots, level=drawn * power(1.0 / spec.factor))


class Low(Levels):
    """`random`, with a third of the rows at each of three levels far below 0."""

    name: ClassVar[str] = "low"
    purpose: ClassVar[str] = "maxima that start at 0, blocks that are hidden, finite masks"

    def known(self, spec: Spec) -> list[float]:
        """Return levels that a format holds, after the scale."""
        return [level for level in _LOW if _holds_level(spec, level, level)]

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        levels = np.array(self.known(spec))
        chosen = board(spec, visible, "random", reserved=1, least=_gap_at(spec, levels.min()))
        own = levels[(_turns(spec) + spec.seed) % len(levels)]
        return chosen.draft(addressed(chosen), level=own * power(1.0 / spec.factor))


def _turns(spec: Spec) -> Integers:
    """Return a number of each row, (B, H, T_q): neighbours of all kinds have different ones."""
    b, h, i = np.ogrid[: spec.batch, : spec.heads[0], : spec.queries]
    return np.asarray(b + h + i)


def _gap_at(spec: Spec, level: float) -> float:
    """Return how far other keys are below winners at a level or nearer to 0, before the scale."""
    return gap(spec) + abs(level) * power(1.0 / spec.factor) * PART_OF_LEVEL


def _holds_level(spec: Spec, level: float, least: float) -> bool:
    """Return whether the format of inputs holds the numbers of levels, and float16 the logits."""
    unit, sizes = power(1.0 / spec.factor), _sizes(spec, 1)
    below = _gap_at(spec, level)
    number, key = factors(below, 1.0)
    numbers = [2.0 * number, key, abs(level) * unit / key, abs(least) * unit / key]
    if sizes is None or not holds(spec.inputs, numbers):
        return False
    largest = 2.0 * sizes[1] * number * key + abs(level) * unit
    return spec.dtype != "float16" or 2.0 * max(1.0, spec.factor) * largest < spec.inputs.largest


# The winner is any visible key: addresses of rows, heads, pages and sequences; large values.


_BEYOND = 2.0**17  # More than float16 holds
_ENOUGH = 2.0**100  # The range of formats in which no sum of such values overflows


class Random(Case):
    """Each query reads a key of its own; hidden keys that differ in one digit would win.

    A query has -2A in all slots but those of the winner. In one digit the slots of hidden keys
    that agree with the winner in all others have +A. A visible key with such a slot differs in
    another digit, so it is at -A or below.
    """

    name: ClassVar[str] = "random"
    purpose: ClassVar[str] = "addresses: strides, heads, pages, sequences"

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        chosen = board(spec, visible, "random")
        return chosen.draft(addressed(chosen))


class LargeValues(Random):
    """`random`, with values from 2^17 on: all outputs are as much larger, without rounding."""

    name: ClassVar[str] = "large values"
    purpose: ClassVar[str] = "formats of too small a range, outputs that are cut off"
    unit: ClassVar[float] = _BEYOND

    def lacks(self, spec: Spec) -> str | None:
        if min(spec.inputs.largest, spec.output.largest) < _ENOUGH:
            return f"{spec.dtype} has no such values"
        return None


def addressed(chosen: Board) -> Array:
    """Return slots of queries that read the winner, with decoys in one digit."""
    return chosen.slots(chosen.random.integers(0, chosen.count, chosen.winner.shape))


# Two keys share the weight: the factor of logits can be read off.


class Scale(Case):
    """The winner is at 0, a second key about 1 below it, all others far below.

    The weights depend on the scale. They are not exact: the check is an interval that allows a
    logit to be off by 1/16 of its size.
    """

    name: ClassVar[str] = "scale"
    purpose: ClassVar[str] = "the factor of logits: 1 / sqrt(head_dim), log2(e)"

    def lacks(self, spec: Spec) -> str | None:
        return "a second key is needed" if spec.keys == 1 or spec.alibi else None

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        chosen = board(spec, visible, "random")
        near = power(1.0 / spec.factor)
        return chosen.draft(with_second(chosen, near), near=-near)


# A single product of powers of two passes at most six roundings to nearest, or three toward zero
# (Proposition 28): of constants, of a query and a key that are scaled, of the logit. Or both
# operands have 8 bits.
_ROUNDINGS, _LEAST_ERROR = 3, 2.0**-7
_DEEP = {"float16": (5.9, 2.0**12)}  # how far below a second key is; the most that values differ
_MORE_WEIGHT = 16.0  # of the second key over the first, by its values
_DISTANCE = 2  # of a second key from the diagonal


class FineScale(Scale):
    """A second key about 12 below the winner, with values so much larger that it weighs more.

    Values of every other key are larger by a power of two, so that outputs depend on the scale to a
    power: a part of 1/50 changes outputs by a seventh, and one of 1/20 by a third.
    """

    name: ClassVar[str] = "fine scale"
    purpose: ClassVar[str] = "the factor of logits, to a part of 1/50; in bfloat16, 1/20"

    def lacks(self, spec: Spec) -> str | None:
        if spec.soft_cap is not None:
            return "a soft cap leaves weight to other keys"
        if spec.inputs.digits < _DIGITS:
            return f"{spec.dtype} has too few bits"
        return super().lacks(spec)

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        deep, most = _DEEP.get(spec.dtype, (12.0, np.inf))
        chosen = board(spec, visible, "random")
        near = power(deep / spec.factor)
        return replace(
            chosen.draft(with_second(chosen, near, is_odd=True), near=-near),
            near_error=fine_error(spec),
            spread=min(most, _MORE_WEIGHT * power(math.exp(near * spec.factor))),
        )


class Slopes(Scale):
    """The winner is on the diagonal; keys two before and two behind it are below by ALiBi alone.

    Products of all three are 0. In heads without a slope they share the weight.
    """

    name: ClassVar[str] = "slopes"
    purpose: ClassVar[str] = "the size of slopes, the distance they multiply"

    def lacks(self, spec: Spec) -> str | None:
        return None if spec.alibi else "there are no slopes"

    def slope(self, spec: Spec) -> float:
        """Return the slope with which these keys are 1 below the winner."""
        del spec
        return 1.0 / _DISTANCE

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        chosen = board(spec, visible, "diagonal")
        keys, exists = chosen.line(first := np.zeros_like(chosen.winner))
        is_near = np.abs(keys - chosen.winner[..., None]) == _DISTANCE
        slots = chosen.slots(first, is_near & exists & chosen.seen(keys))
        return replace(chosen.draft(slots, near=0.0), near_bias=-1.0)


class Biased(Scale):
    """Products of the winner and of keys whose bias is -1 are 0."""

    name: ClassVar[str] = "bias"
    purpose: ClassVar[str] = "the size of a bias: log2(e), a scale that comes after it"

    def lacks(self, spec: Spec) -> str | None:
        return "there is no bias" if spec.bias is None else super().lacks(spec)

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        chosen = board(spec, visible, "random")
        near = spec.visible() & (kinds_of_bias(spec, near=True) == 1)
        near = np.broadcast_to(near, chosen.visible.shape)
        chosen = replace(chosen, visible=chosen.visible | near)
        keys, exists = chosen.line(first := np.zeros_like(chosen.winner))
        is_near = exists & np.take_along_axis(near, keys, axis=-1)
        return replace(chosen.draft(chosen.slots(first, is_near), near=0.0), near_bias=-1.0)


def fine_error(spec: Spec) -> float:
    """Return how far a logit that is one product of powers of two may be off, as a part of it."""
    return max((1.0 - 2.0 * spec.inputs.unit) ** -_ROUNDINGS - 1.0, _LEAST_ERROR)


def _lacks_cap(spec: Spec) -> str | None:
    """Return why a spec has no winners at a level under a soft cap, or None."""
    if spec.soft_cap is None:
        return "there is no soft cap"
    return "a sink or a slope has a level of its own" if spec.sink or spec.alibi else None


class SoftCap(Case):
    """Two keys at some caps, whose logits differ by about 1 after the soft cap alone."""

    name: ClassVar[str] = "soft cap"
    purpose: ClassVar[str] = "soft caps that are missing or of another size"
    extra: ClassVar[int] = 1

    def lacks(self, spec: Spec) -> str | None:
        return _lacks_cap(spec)

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        cap = spec.soft_cap or 1.0
        level, near = min(
            ((power(cap * 2.0**a / spec.factor), power(cap * 2.0**b / spec.factor))
             for a in (0, 1, 2) for b in range(a - 4, a)),
            key=lambda pair: abs(math.log(_difference(spec, *pair))),
        )  # fmt: skip
        least = level + gap(spec)
        chosen = board(spec, visible, "random", reserved=self.extra, least=least)
        return chosen.draft(with_second(chosen, near), level=level, near=-near)


def _difference(spec: Spec, level: float, near: float) -> float:
    """Return how far two logits are apart after the soft cap."""
    cap, factor = spec.soft_cap or 1.0, spec.factor
    high, low = (cap * math.tanh(value * factor / cap) for value in (level, level - near))
    return high - low


def with_second(chosen: Board, near: float, *, is_odd: bool = False) -> Array:
    """Return slots of queries that read the winner, and a second key whose product is -near.

    The second key has an odd number, where `is_odd`, if there is such a key.
    """
    places = 1 if is_odd else chosen.count
    position = chosen.random.integers(0, places, chosen.winner.shape)
    keys, exists = chosen.line(position)
    order = np.where(exists & chosen.seen(keys), chosen.random.random(keys.shape), 2.0)
    order -= is_odd & (keys % 2 == 1) & (order < 1.0)
    np.put_along_axis(order, chosen.own(position), 3.0, axis=-1)
    is_first = np.arange(chosen.radix) == np.argmin(order, axis=-1)[..., None]
    return chosen.slots(position, is_first & (order < 1.0), -near)


# Several keys win together: denominators, rescaling between blocks, merging of splits.


MOST_WINNERS = 6  # The exponent of the largest number of winners


def most_winners(spec: Spec) -> int:
    """Return the largest m for which the average of 2^m values is a number of the output."""
    return max(0, min(MOST_WINNERS, spec.output.digits - exponent_of_values(spec) - 1))


class Ties(Case):
    """The winners are 2^m keys that differ in one digit, the output is the average of their values.

    A sink counts as one of them. Digits alternate with the query: winners are neighbours, or far
    apart.
    """

    name: ClassVar[str] = "ties"
    purpose: ClassVar[str] = "denominators, rescaling between blocks, merging of splits"

    def level(self, spec: Spec) -> float | None:
        """Return the logit of the winners before the scale, or None: 0."""
        del spec
        return None

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        level = self.level(spec)
        least = level + gap(spec) if level else None
        chosen = board(spec, visible, "random", reserved=self.extra, least=least)
        sinks = (chosen_heads(spec, self.name) & spec.sink).astype(float)
        return chosen.draft(tied(chosen, most_winners(spec), sinks), level=level)


def tied(chosen: Board, most: Integers | int, sinks: Array) -> Array:
    """Return slots of queries with 2^m winners that differ in one digit, m at most `most`.

    A sink of weight 1, (H,), is one of them.
    """
    spec = chosen.spec
    turn = np.arange(spec.queries) + np.arange(spec.heads[0])[:, None]
    position = np.broadcast_to(turn % chosen.count, chosen.winner.shape)
    keys, exists = chosen.line(position)
    seen = exists & chosen.seen(keys)
    order = np.where(seen, chosen.random.random(keys.shape), 2.0)
    np.put_along_axis(order, chosen.own(position), -1.0, axis=-1)
    rank = np.argsort(np.argsort(order, axis=-1), axis=-1)
    exponent = np.floor(np.log2((seen.sum(-1) + sinks[:, None]).clip(1.0)))
    wanted = np.exp2(np.minimum(exponent, most)) - sinks[:, None]
    return chosen.slots(position, seen & (rank < wanted.clip(1.0)[..., None]))


class CappedTies(Ties):
    """Winners at about one cap, where the slope of a soft cap is neither 0 nor 1.

    All winners have the same product, so their weights are equal whatever the cap is: gradients
    show its slope.
    """

    name: ClassVar[str] = "soft cap ties"
    purpose: ClassVar[str] = "the slope of a soft cap, in gradients"
    extra: ClassVar[int] = 1

    def lacks(self, spec: Spec) -> str | None:
        return _lacks_cap(spec)

    def level(self, spec: Spec) -> float:
        """Return about one cap."""
        return power((spec.soft_cap or 1.0) / spec.factor)


# All logits are equal: one visible key more or less changes the average.


_NUMBER = 8.0
_SLOPE = 128.0


class Uniform(Case):
    """Every query is orthogonal to every key, term by term.

    With a soft cap all logits are -6 caps, hence -cap after it: a mask that is added before the cap
    hides nothing then.
    """

    name: ClassVar[str] = "uniform"
    purpose: ClassVar[str] = "any key more or less, soft caps after masks"
    has_digits: ClassVar[bool] = False

    def slope(self, spec: Spec) -> float:
        """Return a slope with which the nearest key wins."""
        del spec
        return _SLOPE

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        del visible
        random = np.random.default_rng((spec.seed, 5))
        k = random.choice(
            [-_NUMBER, _NUMBER], (spec.batch, spec.heads[1], spec.keys, spec.head_dim)
        )
        q = np.zeros((spec.batch, spec.heads[0], spec.queries, spec.head_dim))
        if spec.soft_cap is None or spec.sink or spec.alibi:
            return Draft(q, k)
        slot = int(random.integers(spec.head_dim))
        least = _CAPS * spec.soft_cap / spec.factor / _NUMBER
        q[..., slot], k[..., slot] = -(2.0 ** math.ceil(math.log2(least))), _NUMBER
        return Draft(q, k, slot)


class Orthogonal(Uniform):
    """The same at logits of 0, where a soft cap does nothing."""

    name: ClassVar[str] = "orthogonal"
    purpose: ClassVar[str] = "any key more or less, at logits of 0"

    def lacks(self, spec: Spec) -> str | None:
        return "it is `uniform` without a soft cap" if spec.soft_cap is None else None

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        drawn = super().draft(spec, visible)
        return Draft(np.zeros_like(drawn.q), drawn.k)


# In the order in which `battery` takes them.
CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Last(), First(), Random(), Ties(), Uniform(), Orthogonal(), Levels(), Low(), Scale(),
        FineScale(), Slopes(), Biased(), SoftCap(), CappedTies(), LargeValues(),
    )
}  # fmt: skip
