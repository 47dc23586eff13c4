"""What a case has to say: queries and keys for a spec. All else follows from these numbers."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from constructive.kernels.encoding import Encoding, encode, factors
from constructive.kernels.spec import Spec
from constructive.support.arrays import Array, Booleans, Integers

# How far a visible key is below the winner, after the scale; 64 where nothing is said.
GAP = {"float64": 72.0}
_CAPS = 6.0  # A logit of -6 caps is -cap after a soft cap


@dataclass(frozen=True, eq=False)
class Draft:
    """Queries and keys that a case proposes."""

    q: Array  # (B, H, T_q, d)
    k: Array  # (B, G, T_k, d)
    level: float = 0.0  # logit of the winner before the scale, the same product for all keys
    level_slot: int | None = None  # the coordinate of that product, or None
    # logit before the scale of keys that keep a part of the weight, less `level`, or None
    near: float | None = None


class Case(ABC):
    """A way to choose which key each query reads."""

    name: ClassVar[str]
    purpose: ClassVar[str]

    def refuses(self, spec: Spec) -> str | None:
        """Return why there is no such problem for a spec, or None."""
        del spec
        return None

    def slope(self, spec: Spec) -> float:
        """Return the slope of heads that have one, where the spec has ALiBi.

        Over all keys it takes less than half of the gap, so decoys win.
        """
        return power(GAP.get(spec.dtype, 64.0) / (4.0 * (spec.keys + spec.queries)))

    @property
    def unit(self) -> float:
        """The smallest value, a power of two."""
        return 1.0

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
    encoding: Encoding  # digits of keys
    winner: Integers  # (B, H, T_q) the key to be read; 0 where no key is visible
    digits: Integers  # (B, H, T_q, m) its digits
    number: float  # the number in queries
    key: float  # the number in keys
    random: np.random.Generator  # for what is drawn

    @property
    def slots(self) -> Array:
        """Zeros for queries, (B, H, T_q, m, r)."""
        return np.zeros((*self.digits.shape, self.encoding.radix))

    def line(self, position: Integers) -> tuple[Integers, Booleans]:
        """Return the keys that differ from the winner in one digit alone, and which exist."""
        radix = self.encoding.radix
        digit = np.take_along_axis(self.digits, position[..., None], axis=-1)
        keys = self.winner[..., None] + (np.arange(radix) - digit) * radix ** position[..., None]
        exists = (keys >= 0) & (keys < self.spec.keys)
        return np.clip(keys, 0, self.spec.keys - 1), exists

    def seen(self, keys: Integers) -> Booleans:
        """Return whether keys (B, H, T_q, r) are visible."""
        found: Booleans = np.take_along_axis(self.visible, keys, axis=-1)
        return found

    def put(self, slots: Array, position: Integers, values: Array) -> None:
        """Write numbers (B, H, T_q, r) of a digit (B, H, T_q) into slots (B, H, T_q, m, r)."""
        np.put_along_axis(slots, position[..., None, None], values[..., None, :], axis=-2)

    def equal(self) -> Booleans:
        """Return where a slot is of a digit of the winner, (B, H, T_q, m, r)."""
        found: Booleans = self.digits[..., None] == np.arange(self.encoding.radix)
        return found

    def draft(self, slots: Array, *extra: tuple[Array, Array], **more: float | None) -> Draft:
        """Return the draft of slots, its coordinates permuted."""
        spec, used = self.spec, self.encoding.used
        blank = ~self.visible.any(-1)
        q = np.zeros((*self.winner.shape, spec.head_dim))
        q[..., :used] = slots.reshape(*self.winner.shape, used)
        k = self.random.choice(
            [-self.key, self.key], (*self.encoding.digits.shape[:3], spec.head_dim)
        )
        if spec.shared:
            k[:] = k[:1]
        k[..., :used] = self.key * self.encoding.one_hot()
        for index, (of_queries, of_keys) in enumerate(extra):
            q[..., used + index], k[..., used + index] = of_queries, of_keys
        q[blank] = 0.0
        order = self.random.permutation(spec.head_dim)
        slot = int(np.flatnonzero(order == used)[0]) if more.get("level") else None
        level, near = more.get("level") or 0.0, more.get("near")
        return Draft(q[..., order], k[..., order], level, slot, near)


def board(
    spec: Spec, visible: Booleans, choice: str, *, reserved: int = 0, times: float = 1.0,
    least: float | None = None,
) -> Board:  # fmt: skip
    """Return the board of a case."""
    encoding = encode(spec, reserved)
    shape = (spec.batch, spec.heads[0], spec.queries)
    visible = np.broadcast_to(visible, (*shape, spec.keys))
    random = np.random.default_rng((spec.seed, 3))
    if choice == "last":
        winner = spec.keys - 1 - np.argmax(visible[..., ::-1], axis=-1)
    elif choice == "first":
        winner = np.argmax(visible, axis=-1)
    else:
        rank = np.cumsum(visible, axis=-1, dtype=np.int64)
        wanted = np.floor(random.random(shape) * rank[..., -1]).astype(np.int64) + 1
        winner = np.argmax(rank == wanted[..., None], axis=-1)
    winner = np.where(visible.any(-1), winner, 0)
    digits = np.repeat(encoding.digits, spec.group, axis=1)
    of_winner = np.take_along_axis(digits, winner[..., None], axis=2)
    number, key = factors(gap(spec) if least is None else least, times)
    return Board(spec, visible, encoding, winner, of_winner, number, key, random)


def power(value: float) -> float:
    """Return the power of two that is nearest, by its logarithm."""
    return 2.0 ** round(math.log2(value))
