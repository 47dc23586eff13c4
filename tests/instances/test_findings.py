"""Wrong bounds of released verifiers, simulated: the default folder shows each of them."""

import math
from typing import NamedTuple

import numpy as np
import pytest

from constructive.instances import Answer, make
from constructive.instances.graphs import OperatorGraph
from constructive.instances.operator import touched

POINTS = 2001
TABLE = 2.0 * math.pi / 1000.0  # the step of a table of tangents
ALMOST_FIXED = 1e-5


class Unit(NamedTuple):
    """g(w . x + b) times v, and the range of w . x + b on the box."""

    weights: np.ndarray
    offset: float
    readout: float
    low: float
    high: float


def units_of(instance, operator):
    """Units and the last offset of an instance of one operator between affine maps, or None."""
    network, box = instance.network, instance.property.box
    if not isinstance(network, OperatorGraph) or len(network.nodes) != 3:
        return None
    if network.nodes[1].operator != operator:
        return None
    w, b, v, c = (np.float64(network.constants[name]) for name in ("W", "b", "v", "c"))
    middle, reach = (box.lower + box.upper) / 2 @ w + b, box.widths / 2 @ np.abs(w)
    ends = middle - reach, middle + reach
    units = [Unit(*each) for each in zip(w.T, b, v[:, 0], *ends, strict=True)]
    return units, float(c[0])


def lines_of(function, unit):
    """The least and the largest value of g, as lines."""
    values = function(np.linspace(unit.low, unit.high, POINTS))
    return [(0.0, values.min()), (0.0, values.max())]


def square(unit, lines):
    """CROWN: both lines are the tangent in the middle."""
    middle = (unit.low + unit.high) / 2
    line = (2 * middle, -(middle**2))
    return lines if unit.low <= 0 <= unit.high else [line, line]


def cosine(unit, lines):
    """CROWN: a table of tangents is asked where a chord crosses, and has none there."""
    if not -math.pi / 2 < unit.low < 0 or unit.high > math.pi:
        return lines
    shifted = math.floor((unit.low + math.pi / 2) / TABLE) * TABLE - math.pi / 2
    ends = [touched(start)[1] - 2.0**-12 for start in (unit.low, shifted)]
    missing = ends[0] < unit.high < ends[1]
    return [(1.0, math.pi / 2), lines[1]] if missing else lines


def leaky(unit, lines):
    """Forward bounds: that of ReLU."""
    return [(0.0, 0.0)] * 2 if unit.high <= 0 else lines


RELAXED = {
    "square": ("Pow", np.square, square),
    "cos": ("Cos", np.cos, cosine),
    "leaky": ("LeakyRelu", lambda a: np.where(a > 0, a, a / 8), leaky),
}


def bound(instance, finding, *, wrong):
    """The largest w . Y by lines, or None for another operator."""
    operator, function, relax = RELAXED[finding]
    found, box = units_of(instance, operator), instance.property.box
    number = instance.network.constants.get("number_0") if found else None
    if found is None or (number is not None and number != 2):
        return None
    ((atom,),) = instance.property.disjuncts
    (sign,), (units, total) = atom.coefficients, found
    total *= sign
    slopes = np.zeros(len(box.lower))
    for unit in units:
        lines, scale = lines_of(function, unit), sign * unit.readout
        lines = relax(unit, lines) if wrong else lines
        slope, constant = lines[int(scale > 0)]
        slopes += scale * slope * unit.weights
        total += scale * (slope * unit.offset + constant)
    return total + np.maximum(slopes * box.lower, slopes * box.upper).sum()


def fixed(instance):
    """The output where nearly fixed inputs are fixed, as some preprocessing does; else None."""
    box = instance.property.box
    if instance.family != "narrow" or box.widths.max() > ALMOST_FIXED:
        return None
    values = {"X": box.lower[None]} | {
        name: np.float64(array) for name, array in instance.network.constants.items()
    }
    for node in instance.network.nodes:
        first, *rest = (values[name] for name in node.inputs)
        values[node.outputs[0]] = first @ rest[0] + rest[1] if rest else np.maximum(first, 0)
    ((atom,),) = instance.property.disjuncts
    return float(atom.coefficients[0] * values["Y"][0, 0])


def pinned(instance):
    """The largest output where nearly fixed attention is fixed at its least value; else None.

    A weight is least where all other logits are as far above its own as they get. Where no input
    has that, a tool that fixes it finds none at all. Marabou is wrong on some of these instances.
    """
    if instance.family != "readout":
        return None
    network, box = instance.network, instance.property.box
    middle, reach, found = (box.lower + box.upper) / 2, box.widths / 2, []
    for head in network.heads:
        steps = head.slopes - head.slopes[:, None]  # of l_j - l_i
        apart = steps @ middle + head.offsets - head.offsets[:, None]
        spread = np.abs(steps) @ reach
        with np.errstate(over="ignore"):
            least, most = (1 / np.exp(apart + sign * spread).sum(axis=1) for sign in (1, -1))
        for i in np.flatnonzero((most - least < ALMOST_FIXED) & (most > 1e-12)):
            ends = {tuple(np.sign(step)) for j, step in enumerate(steps[i]) if j != i}
            corner = middle + reach * np.array(next(iter(ends)))
            found.append(-np.inf if len(ends) > 1 else float(network(corner[None])[0, 0]))
    return min(found, default=None)


def found(made):
    """How many instances with a witness each wrong bound calls unsat."""
    sat = [each for each in made if each.answer is Answer.SAT]
    bounds = {f: [bound(each, f, wrong=True) for each in sat] for f in RELAXED}
    bounds["narrow"], bounds["readout"] = map(fixed, sat), map(pinned, sat)
    limits = [each.property.disjuncts[0][0].threshold for each in sat]
    return {
        name: sum(b is not None and b < limit for b, limit in zip(few, limits, strict=True))
        for name, few in bounds.items()
    }


def test_bounds_without_the_faults_say_nothing_false():
    for each in make(60, kinds="operator", seed=1):
        for finding in RELAXED:
            most = bound(each, finding, wrong=False)
            threshold = each.property.disjuncts[0][0].threshold
            assert most is None or most >= threshold - 1e-4 or each.answer is Answer.UNSAT


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_default_folder_shows_each_finding(seed):
    made = make(400, seed=seed)
    assert all(count >= 2 for count in found(made).values())
