"""Boxes around a point: the largest one that is proved, and one beyond it with a witness.

Boxes have float32 bounds. `around(x, r)` is the least such box that contains all points within r of
x in each entry. Radii are float32 numbers, found by bisection of their bit patterns, which are in
the order of the numbers.

Scorers accept witnesses that are up to 1e-4 outside of the box. So the bound is also proved with a
margin of 1e-3 on the box that is wider by 1e-4 on every side.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TypeVar

import numpy as np

from constructive.instances.attacks import search
from constructive.instances.interval import Interval, attention_ranges
from constructive.instances.network import Network
from constructive.instances.proof import Refutation, Refutations, Witness
from constructive.instances.properties import Atom, Box, Property
from constructive.instances.rounding import property_rounding
from constructive.instances.search import refute_by_heads
from constructive.support.arrays import Array

Found = TypeVar("Found")
Disjuncts = tuple[tuple[Atom, ...], ...]

TOLERANCE = 1e-4  # How far outside of the box, and of the property, VNN-COMP accepts a witness
CLEARANCE = 1e-3  # The least margin of an answer
# Radii are found up to so many float32 numbers: factors of 1 + 2^-7, and of 1 + 2^-4 by search.
_STEPS, _COARSE = 1 << 16, 1 << 19
_OCTAVE = 1 << 23  # As many float32 numbers as there are up to twice a number
_LEAST, _MOST = 1e-6, 64.0  # Radii that are tried
_BUDGET = 3000  # Evaluations of f by a search in one box
_ROOM = 1.25  # Searches end at this multiple of the margin


def around(point: Array, radius: float) -> Box:
    """Return the least box with float32 bounds that contains all points within a radius of x (d,).

    Example:
        >>> around(np.array([0.5]), 0.25).upper
        array([0.75])
    """
    exact = [(Fraction(x) - Fraction(radius), Fraction(x) + Fraction(radius)) for x in point]
    lower = [_float32(low, -np.inf) for low, _ in exact]
    upper = [_float32(high, np.inf) for _, high in exact]
    return Box(np.array(lower), np.array(upper))


def _float32(exact: Fraction, toward: float) -> float:
    """Round to float32 in the direction of an infinity."""
    nearest = np.float32(float(exact))
    passed = Fraction(nearest.item()) >= exact if toward > 0 else Fraction(nearest.item()) <= exact
    return float(nearest if passed else np.nextafter(nearest, np.float32(toward)))


def widened(box: Box) -> Box:
    """Return a box that is wider by 1e-4, or a little more, on every side.

    Example:
        >>> widened(Box([0.0], [1.0])).upper > 1.0001
        array([ True])
    """
    step = Fraction(TOLERANCE)
    lower = [_float32(Fraction(x) - step, -np.inf) for x in box.lower.tolist()]
    upper = [_float32(Fraction(x) + step, np.inf) for x in box.upper.tolist()]
    return Box(np.array(lower), np.array(upper))


def refuted(network: Network, wanted: Property, *, dual: bool = False) -> Refutations | None:
    """Prove unsat on a box that is wider by 1e-4, with a margin; None where that fails.

    A disjunct is refuted by the first of its atoms for which there is a proof. With dual, weighted
    means of each head (`search.refute_by_heads`), which take longer, are tried where the interval
    form fails.

    Example:
        >>> from constructive.instances.network import Head
        >>> network = Network((Head([[2.0], [0.0]], [0.0, 0.0], [[1.0], [0.0]]),))
        >>> wanted = Property(Box([-1.0], [1.0]), ((Atom([1.0], 0.875),),))
        >>> refuted(network, wanted) is None
        True
        >>> wanted = Property(Box([-1.0], [1.0]), ((Atom([1.0], 0.90625),),))
        >>> refuted(network, wanted)
        Refutations(parts=(Interval(atom=0),))
    """
    wide = Property(widened(wanted.box), wanted.disjuncts)
    needed = max(CLEARANCE, 2.0 * property_rounding(network, wide))
    if not needed < np.inf:
        return None
    ranges = attention_ranges(network, wide.box)

    def shown(atoms: tuple[Atom, ...]) -> Refutation | None:
        for index, atom in enumerate(atoms):
            if atom.threshold - ranges.upper_bound(atom.coefficients) >= needed:
                return Interval(index)
        for index, atom in enumerate(atoms if dual else ()):
            slabs = refute_by_heads(network, wide.box, atoms, tolerance=CLEARANCE / 8, index=index)
            if slabs.margin(network, wide.box, atom) >= needed:
                return slabs
        return None

    parts: list[Refutation] = []
    for atoms in wide.disjuncts:
        part = shown(atoms)
        if part is None:
            return None
        parts.append(part)
    return Refutations(tuple(parts))


def largest_proved(
    network: Network, point: Array, disjuncts: Disjuncts, *, dual: bool = False
) -> tuple[Property, Refutations] | None:
    """Find the largest box around x (d,) on which provably no disjunct is met; None without one.

    With dual it goes on with weighted means of each head, up to four times the radius.
    """

    def at(radius: float, *, dual: bool) -> tuple[Property, Refutations] | None:
        wanted = Property(around(point, radius), disjuncts)
        proof = refuted(network, wanted, dual=dual)
        return (wanted, proof) if proof else None

    least, most = _bits(_LEAST), _bits(_MOST)
    found, last = _nearest(partial(at, dual=False), at(_LEAST, dual=False), least, most, _STEPS)
    if dual:
        high = min(last + 2 * _OCTAVE, most)
        found, _ = _nearest(partial(at, dual=True), found, last, high, _COARSE)
    return found


def _nearest(
    at: Callable[[float], Found | None], found: Found | None, good: int, bad: int, apart: int
) -> tuple[Found | None, int]:
    """Bisect between a radius where something was found and one where nothing was.

    Radii are the bit patterns of float32 numbers; the last one where something was is returned.
    """
    while found and abs(good - bad) > apart:
        middle = (good + bad) // 2
        better = at(_number(middle))
        good, bad = (middle, bad) if better else (good, middle)
        found = better or found
    return found, good


def nearest_witness(
    network: Network, point: Array, disjuncts: Disjuncts, *, beyond: float, seed: int = 0
) -> tuple[Property, Witness] | None:
    """Search for a witness in boxes around x (d,), and return the least one where there was one.

    A witness is a float32 point; balls show that it meets the property with a margin. There is none
    within the radius `beyond`.
    """
    conceivable = max(min(_highest(network, atom) for atom in atoms) for atoms in disjuncts)

    def at(radius: float) -> tuple[Property, Witness] | None:
        wanted = Property(around(point, radius), disjuncts)
        needed = max(CLEARANCE, 2.0 * property_rounding(network, wanted))
        if not needed <= conceivable:
            return None
        for method in ("sign", "adam"):
            attempt = search(
                network, wanted, method, budget=_BUDGET, seed=seed, enough=_ROOM * needed
            )
            near = np.clip(attempt.point.astype(np.float32), wanted.box.lower, wanted.box.upper)
            witness = Witness(tuple(Fraction(x) for x in near.tolist()))
            if attempt.slack >= needed and witness.margin(network, wanted) >= needed:
                return wanted, witness
        return None

    low, high = beyond, beyond * 2.0
    found = at(high)
    while not found and high <= _MOST:
        low, high = high, high * 2.0
        found = at(high)
    return _nearest(at, found, _bits(high), _bits(low), _COARSE)[0]


def _highest(network: Network, atom: Atom) -> float:
    """About the largest w . f - c that any input could have."""
    tops = [(head.values @ atom.coefficients).max() for head in network.heads]
    return float(sum(tops)) - atom.threshold


def _bits(number: float) -> int:
    """The bit pattern of a positive float32 number, as an integer."""
    return int(np.float32(number).view(np.uint32))


def _number(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))
