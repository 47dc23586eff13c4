"""Sums of products in an order that is drawn, all sums of an array at a time.

The order is the same for all, or follows from the numbers of each: by their sizes, the positive
ones first, or such that errors add up (each time the term whose addition is rounded most in one
direction). Any of these is "any order".
"""

from dataclasses import dataclass

import numpy as np

from constructive.exact.programs.machine import Machine
from constructive.support.arrays import Array

# Names of orders: one after the other, as they are or shuffled; trees of halves or of any pairs;
# and sorted, one after the other.
ORDERS = (
    "sequential", "pairwise", "shuffled", "random tree", "descending", "ascending", "positive",
    "adversarial",
)  # fmt: skip


@dataclass(frozen=True)
class Order:
    """The order of a sum."""

    name: str = "sequential"  # of `ORDERS`
    seed: int = 0  # of what is shuffled


def summed(
    machine: Machine,
    factors: list[Array],
    order: Order,
    signs: Array | None = None,
    start: tuple[Array, Array] | None = None,
) -> Array:
    """Multiply factors (..., k) entry by entry, and sum the products over the last axis: (...).

    `signs` are directions of errors of each sum (...), by default drawn. `start` are two factors of
    a product that comes first of all, as in sums that are continued.

    Example:
        >>> from constructive.exact.models import FLOAT32
        >>> machine = Machine(FLOAT32, np.random.default_rng(0))
        >>> terms = np.array([1.0, 2.0**-24, 2.0**-24])
        >>> float(summed(machine, [terms], Order("sequential"))) == 1.0
        True
        >>> float(summed(machine, [terms], Order("ascending"))) == 1.0 + 2.0**-23
        True
    """
    factors = list(np.broadcast_arrays(*factors))
    shape = factors[0].shape
    way = machine.directions(shape[:-1]) if signs is None else signs
    way = np.broadcast_to(way, shape[:-1])
    left: Array = factors[0]
    right: Array = np.ones(shape)
    for factor in factors[1:]:
        left, right = _product(machine, left, right, way), factor
    if order.name in {"descending", "ascending", "positive"}:
        terms = left * right
        keys = -terms if order.name == "positive" else np.abs(terms)
        keys = -keys if order.name == "descending" else keys
        at = keys.argsort(axis=-1, kind="stable")
        left, right = (np.take_along_axis(each, at, axis=-1) for each in (left, right))
    elif order.name == "adversarial":
        return _greedy(machine, left, right, way, start)
    elif order.name == "shuffled":
        at = np.random.default_rng(order.seed).permutation(shape[-1])
        left, right = left[..., at], right[..., at]
    total = None if start is None else machine.multiply(*start, way)
    if order.name in {"pairwise", "random tree"}:
        tree = _tree(machine, left, right, way, order)
        if start is None:
            return tree
        return machine.multiply_add(*start, tree, way)
    for k in range(shape[-1]):
        term = left[..., k], right[..., k]
        total = (
            machine.multiply(*term, way)
            if total is None
            else machine.multiply_add(*term, total, way)
        )
    return np.zeros(shape[:-1]) if total is None else total


def _product(machine: Machine, left: Array, right: Array, way: Array) -> Array:
    """Multiply, unless by ones."""
    if (right == 1.0).all():
        return left
    return machine.multiply(left, right, way[..., np.newaxis])


def _tree(machine: Machine, left: Array, right: Array, way: Array, order: Order) -> Array:
    """Add neighbours and then their sums, or any two that are there."""
    rng = np.random.default_rng(order.seed)
    waiting: list[int | Array] = list(range(left.shape[-1]))
    while len(waiting) > 1:
        if order.name == "pairwise":
            pairs = len(waiting) // 2
            added = (
                _node(machine, left, right, way, (waiting[2 * i], waiting[2 * i + 1]))
                for i in range(pairs)
            )
            waiting = [*added, *waiting[2 * pairs :]]
        else:
            one, other = (waiting.pop(int(rng.integers(len(waiting)))) for _ in range(2))
            waiting.append(_node(machine, left, right, way, (one, other)))
    return _value(machine, left, right, way, waiting[0])


def _node(
    machine: Machine, left: Array, right: Array, way: Array, pair: tuple[int | Array, int | Array]
) -> Array:
    """Add two, where a product that was not rounded yet may be fused."""
    one, other = pair if isinstance(pair[0], int) else (pair[1], pair[0])
    known = _value(machine, left, right, way, other)
    if isinstance(one, int):
        return machine.multiply_add(left[..., one], right[..., one], known, way)
    return machine.add(one, known, way)


def _value(machine: Machine, left: Array, right: Array, way: Array, which: int | Array) -> Array:
    """Return a sum that is known, or the product of that number."""
    if isinstance(which, int):
        return machine.multiply(left[..., which], right[..., which], way)
    return which


def _greedy(
    machine: Machine, left: Array, right: Array, way: Array, start: tuple[Array, Array] | None
) -> Array:
    """Take the term whose addition is rounded most in the direction of the sum, each time."""
    left, right = left.copy(), right.copy()
    first = machine.multiply(left, right, way[..., np.newaxis])
    total = np.zeros(way.shape) if start is None else machine.multiply(*start, way)
    unused = np.ones(left.shape, dtype=bool)
    for _ in range(left.shape[-1]):
        exact = total[..., np.newaxis] + (left * right if machine.fused else first)
        off = (exact.astype(np.float32) - exact) * way[..., np.newaxis]
        at = np.where(unused, off, -np.inf).argmax(axis=-1)[..., np.newaxis]
        a, b = (np.take_along_axis(each, at, axis=-1)[..., 0] for each in (left, right))
        total = machine.multiply_add(a, b, total, way)
        np.put_along_axis(unused, at, values=False, axis=-1)
    return total
