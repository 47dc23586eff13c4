"""Bounds of softmax that were released and are wrong: twins of the default set expose each.

A claim is false if a bound of the outputs is below the threshold of a *sat* instance. Three numbers
that guard against zeros are tried: 1e-12 added to a sum of exponentials, 1e-30 as the least sum,
and 1e-8 in a logarithm. None of them matters until logits are far apart.
"""

import numpy as np
import pytest

from constructive.instances import Answer, Property, make, planted
from constructive.instances.refutations import attention_ranges


def logit_ranges(head, box):
    middle, radius = (box.lower + box.upper) / 2.0, box.widths / 2.0
    centre, spread = head.slopes @ middle + head.offsets, np.abs(head.slopes) @ radius
    return centre - spread, centre + spread


def upper_bound(network, box, ranges):
    """Interval arithmetic: each weight by itself, then products with values."""
    total = 0.0
    for head in network.heads:
        least, most = ranges(*logit_ranges(head, box))
        values = head.values[:, 0]
        total += np.where(values > 0.0, values * most, values * least).sum()
    return total


def sums(least, most):
    """Exponentials less the largest upper bound, and the least sum with each token at its most."""
    low, high = np.exp(least - most.max()), np.exp(most - most.max())
    return low, high, low.sum() - low + high, high.sum() - high + low


def sound(least, most):
    with np.errstate(over="ignore"):
        apart = least[np.newaxis] - most[:, np.newaxis]
        np.fill_diagonal(apart, 0.0)
        wide = most[np.newaxis] - least[:, np.newaxis]
        np.fill_diagonal(wide, 0.0)
        return 1.0 / np.exp(wide).sum(axis=1), 1.0 / np.exp(apart).sum(axis=1)


def with_a_number_added(least, most):
    low, high, smallest, largest = sums(least, most)
    return low / (largest + 1e-12), high / (smallest + 1e-12)


def with_a_least_sum(least, most):
    low, high, smallest, largest = sums(least, most)
    return low / np.maximum(largest, 1e-30), high / np.maximum(smallest, 1e-30)


def linear_bound(instance, small):
    """Bound two heads of two tokens each, whose first logits are functions of one number, by lines.

    The weight of a first token is exp(z), z = ln sigma(l). As z is concave, it is below its tangent
    at the least l, and exp(z) is below its chord; `small` is added to weights before logarithms.
    """
    box, ends = instance.property.box, []
    for head in instance.network.heads:
        low, high = (x[0] - x[1] for x in logit_ranges(head, box))
        least, most = (1.0 / (1.0 + np.exp(-x)) for x in (low, high))
        left, right = np.log(least + small), np.log(most + small)
        slope = (most - least) / (right - left)
        start = -np.logaddexp(0.0, -low)
        z = np.array([start, start + (1.0 - least) * (high - low)])
        ends.append(head.values[0, 0] * (least + slope * (z - left)))
    rising, falling = ends
    return (rising + falling[::-1]).max()


def threshold(instance):
    return instance.property.disjuncts[0][0].threshold


def claims(instances, ranges):
    """The names of instances that a bound calls unsat."""
    return {
        each.name: each.answer
        for each in instances
        if upper_bound(each.network, each.property.box, ranges) < threshold(each)
    }


@pytest.fixture(scope="module")
def default_set():
    return make(60)


@pytest.mark.parametrize("ranges", [with_a_number_added, with_a_least_sum])
def test_the_default_set_exposes_unsound_bounds(default_set, ranges):
    claimed = claims(default_set, ranges)
    false = [name for name, answer in claimed.items() if answer is Answer.SAT]
    assert len(false) >= 3
    # A twin with the same network shows it: both are called unsat.
    assert any(name[:-1] + "a" in claimed and name[:-1] + "b" in claimed for name in false)


def test_shadows_expose_a_number_added_in_a_logarithm(default_set):
    shadows = [each for each in default_set if each.family == "shadow"]
    false = [
        each
        for each in shadows
        if each.answer is Answer.SAT and linear_bound(each, 1e-8) < threshold(each)
    ]
    assert len(false) >= 3
    for each in shadows:
        assert each.answer is Answer.UNSAT or linear_bound(each, 0.0) >= threshold(each)


def test_sound_bounds_claim_nothing_false(default_set):
    assert Answer.SAT not in claims(default_set, sound).values()
    for each in default_set:
        ours = attention_ranges(each.network, each.property.box).upper_bound(np.ones(1))
        assert ours >= threshold(each) or each.answer is Answer.UNSAT


def test_unsound_bounds_are_right_where_logits_are_near():
    """So the default set is needed: gentle slopes do not tell these bounds from sound ones."""
    for ranges in (with_a_number_added, with_a_least_sum):
        for kind in ("needle", "corner"):
            twins = planted(dim=3, scale=4.0, kind=kind)
            assert isinstance(twins.sat.property, Property)
            assert Answer.SAT not in claims(twins, ranges).values()
