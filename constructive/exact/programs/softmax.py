"""Averages with attention weights, as programs compute them: blocks, divisions, merged parts.

Forms of division::

    before      exp(l - m) / L, then the sum                      whole rows
    after       the sum, then / L                                 in blocks
    reciprocal  the sum, then times 1 / L                         in blocks
    log         exp(l - (m + log L)), then the sum                whole rows
    parts       parts are divided, and merged with weights exp(lse_s - lse), lse_s = m_s + log L_s
    ratios      parts are divided, and merged with exp(lse_s - max lse) over their sum
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from constructive.exact.programs.machine import Machine
from constructive.exact.programs.sums import Order, summed
from constructive.support.arrays import Array

DIVISIONS = "before", "after", "reciprocal"
MERGES = "log", "parts", "ratios"


@dataclass(frozen=True)
class Softmax:
    """How a program computes averages."""

    division: str = "before"  # of `DIVISIONS`, or of `MERGES` where parts are merged
    block: int = 512  # tokens of a block
    first: int = 512  # tokens of the first block, at most as many; so blocks begin anywhere
    part: int = 1  # blocks of a part
    onto: bool = False  # whether terms of a block are added one after the other to what there is
    # whether exponentials are powers of two, and logits were scaled for that
    base_two: bool = False
    # which results are stored in fewer bits: "exponentials" or "weights", and "averages"
    stored: tuple[str, ...] = ()
    # whether denominators sum stored exponentials, rather than those before
    rounded_sum: bool = True
    # how often numerators are stored on the way: 0, or 1 where after each block, which no model
    # allows
    again: int = 0


class _Part(NamedTuple):
    """The numerator (..., k), the denominator and the largest logit (...) of a part."""

    sums: Array
    total: Array
    top: Array


def average(machine: Machine, logits: Array, values: Array, form: Softmax, order: Order) -> Array:
    """Average values (..., n, k) with the softmax of logits (..., n): (..., k).

    A logit of minus infinity hides its value.

    Example:
        >>> from constructive.exact.models import FLOAT32
        >>> machine = Machine(FLOAT32, np.random.default_rng(0))
        >>> values = np.array([[1.0], [3.0]])
        >>> average(machine, np.zeros(2), values, Softmax("after", first=1), Order()).tolist()
        [2.0]
    """
    turned = np.swapaxes(values, -1, -2)  # (..., k, n)
    if form.division in {"before", "log"}:
        weights = attention(machine, logits, form, order)
        result = summed(machine, [weights[..., np.newaxis, :], turned], order)
    else:
        parts = _parts(machine, logits, turned, form, order)
        result = (
            _divided(machine, parts[0], form)
            if form.division in DIVISIONS
            else _merged(machine, parts, form, order)
        )
    return machine.store(result) if "averages" in form.stored else result


def attention(machine: Machine, logits: Array, form: Softmax, order: Order) -> Array:
    """Return attention weights (..., n), divided by the sum, or by exp(m + log L)."""
    signs = machine.directions(logits.shape)
    top = logits.max(axis=-1)
    apart = _less(machine, logits, top)
    whole = machine.exp(apart, signs, base_two=form.base_two)
    kept = _stored(machine, whole, form, "exponentials")
    total = summed(machine, [kept if form.rounded_sum else whole], order)
    ways = machine.directions(total.shape)
    if form.division == "log":
        lse = _lse(machine, top, total, form)
        return machine.exp(_less(machine, logits, lse), signs, base_two=form.base_two)
    weights = machine.divide(kept, total[..., np.newaxis], ways[..., np.newaxis])
    return _stored(machine, weights, form, "weights")


def _stored(machine: Machine, array: Array, form: Softmax, name: str) -> Array:
    return machine.store(array) if name in form.stored else array


def _less(machine: Machine, logits: Array, top: Array) -> Array:
    """Return l - m, rounded; minus infinity where l is that."""
    seen = np.where(np.isneginf(top), 0.0, top)[..., np.newaxis]
    hidden = np.isneginf(logits)
    apart = machine.add(np.where(hidden, 0.0, logits), -seen, machine.directions(logits.shape))
    return np.where(hidden, -np.inf, apart)


def _parts(
    machine: Machine, logits: Array, turned: Array, form: Softmax, order: Order
) -> list[_Part]:
    """Go through blocks, with the largest logit so far."""
    count = logits.shape[-1]
    starts = [0, *range(form.first, count, form.block)]
    merged = form.division in MERGES
    parts: list[_Part] = []
    state: _Part | None = None
    shape = np.broadcast_shapes((*logits.shape[:-1], 1), turned.shape[:-1])
    way = machine.directions(shape)
    for number, (start, stop) in enumerate(zip(starts, [*starts[1:], count], strict=True)):
        if merged and number and number % form.part == 0 and state is not None:
            parts.append(state)
            state = None
        state = _block(
            machine, state, logits[..., start:stop], turned[..., start:stop], form, order, way
        )
    return parts if state is None else [*parts, state]


def _block(
    machine: Machine,
    state: _Part | None,
    logits: Array,
    turned: Array,
    form: Softmax,
    order: Order,
    way: Array,
) -> _Part:
    """Add a block to what there is."""
    top = logits.max(axis=-1)
    top = top if state is None else np.maximum(state.top, top)
    exps = machine.exp(
        _less(machine, logits, top), machine.directions(logits.shape), base_two=form.base_two
    )
    kept = _stored(machine, exps, form, "exponentials")
    counted = kept if form.rounded_sum else exps
    ways = machine.directions(top.shape)
    factors = [kept[..., np.newaxis, :], turned]
    if state is None:
        sums = summed(machine, factors, order, way)
        total = summed(machine, [counted], order, ways)
    else:
        change = _less(machine, state.top[..., np.newaxis], top)[..., 0]
        again = machine.exp(change, machine.directions(change.shape), base_two=form.base_two)
        before, rescaled = (state.sums, again[..., np.newaxis]), (state.total, again)
        if form.onto:
            sums = summed(machine, factors, order, way, before)
            total = summed(machine, [counted], order, ways, rescaled)
        else:
            sums = machine.multiply_add(*before, summed(machine, factors, order, way), way)
            total = machine.multiply_add(*rescaled, summed(machine, [counted], order, ways), ways)
    if form.again:
        sums = machine.store(sums)
    return _Part(sums, total, top)


def _divided(machine: Machine, part: _Part, form: Softmax) -> Array:
    """Divide a numerator by its denominator."""
    way = machine.directions(part.sums.shape)
    total = np.where(part.total == 0.0, 1.0, part.total)[..., np.newaxis]  # where all is hidden
    if form.division == "reciprocal":
        return machine.multiply(part.sums, machine.divide(np.ones(()), total, -way), way)
    return machine.divide(part.sums, total, way)


def _lse(machine: Machine, top: Array, total: Array, form: Softmax) -> Array:
    """Return m + log L; minus infinity where all is hidden."""
    hidden = np.isneginf(top)
    ways = machine.directions(total.shape)
    log = machine.log(np.where(hidden, 1.0, total), ways, base_two=form.base_two)
    return np.where(hidden, -np.inf, machine.add(np.where(hidden, 0.0, top), log, ways))


def _merged(machine: Machine, parts: list[_Part], form: Softmax, order: Order) -> Array:
    """Merge parts by the logarithms of their sums."""
    averages = np.stack([_divided(machine, part, form) for part in parts], axis=-1)
    each = np.stack([_lse(machine, part.top, part.total, form) for part in parts], axis=-1)
    top = each.max(axis=-1)
    signs = machine.directions(each.shape)
    weights = machine.exp(_less(machine, each, top), signs, base_two=form.base_two)
    total = summed(machine, [weights], order)
    if form.division == "parts":
        lse = _lse(machine, top, total, form)
        weights = machine.exp(_less(machine, each, lse), signs, base_two=form.base_two)
        return summed(machine, [weights[..., np.newaxis, :], averages], order)
    sums = summed(machine, [weights[..., np.newaxis, :], averages], order)
    return machine.divide(sums, total[..., np.newaxis], machine.directions(sums.shape))
