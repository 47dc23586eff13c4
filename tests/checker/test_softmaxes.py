"""Bounds of softmax heads in the checker: never below a value, tight where the theorem says so."""

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from checker_parts import network, problem, refused, unit_box
from hypothesis import given
from hypothesis import strategies as st
from network_balls import enclosed, slack

from constructive.instances import Atom, Box, Head, Network, Property
from constructive.instances.graphs import written
from constructive.instances.properties import text_of as text

ONE = ((0, 1),)


def heads_of(checker, made, box=None, weights=ONE):
    box = box or unit_box(made.input_dim)
    outputs = made.output_dim
    read = problem(checker, written(made), box, ((Atom(np.eye(outputs)[0], 0.0),),))
    return checker.softmaxes.heads_of(read.outputs, weights), read.box


def points(box, count=400, seed=0):
    random = np.random.default_rng(seed)
    drawn = random.uniform(box.lower, box.upper, (count, len(box.lower)))
    drawn[::3] = np.where(random.random(drawn[::3].shape) < 0.5, box.lower, box.upper)
    return drawn


def slab(direction, *slabs):
    return {"atom": 0, "kind": "slabs", "direction": [text(g) for g in direction], "slabs": slabs}


def part(start, end, *heads):
    return {
        "from": text(start), "to": text(end),
        "heads": [
            {"bound": text(c), "weights": list(map(text, weights)), "tilts": list(map(text, tilts))}
            for c, weights, tilts in heads
        ],
    }  # fmt: skip


@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([0.25, 2.0, 30.0]))
def test_intervals_are_above_all_values(checker, seed, dims, size):
    made = network(2, 4, dims, 2, seed=seed, size=size)
    box = unit_box(dims)
    for weights, row in (
        (ONE, [1.0, 0.0]),
        (((1, -1),), [0.0, -1.0]),
        (((0, 1), (1, -1)), [1.0, -1.0]),
    ):
        heads, ends = heads_of(checker, made, box, weights)
        most = checker.softmaxes.most_by_intervals(heads, ends, {"atom": 0, "kind": "interval"})
        assert (made(points(box)) @ row).max() <= float(most) + 1e-9
        largest = sum((head.values @ row).max() for head in made.heads)
        assert float(most) <= largest + 1e-9


def test_intervals_of_steep_logits(checker):
    """Exponents beyond those that are computed: both tokens may win."""
    head = Head([[4096.0], [-4096.0]], [0.0, 0.0], [[1.0], [-1.0]])
    heads, ends = heads_of(checker, Network((head,)), unit_box(1))
    most = checker.softmaxes.most_by_intervals(heads, ends, {"atom": 0, "kind": "interval"})
    assert 1 <= most < 1 + Fraction(1, 10**9)
    box = Box([0.5], [1.0])
    heads, ends = heads_of(checker, Network((head,)), box, ((0, -1),))
    most = checker.softmaxes.most_by_intervals(heads, ends, {"atom": 0, "kind": "interval"})
    assert -1 <= most < -1 + Fraction(1, 10**9)


@given(
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.floats(0.02, 0.98),
    st.lists(st.floats(0.0, 9.0), min_size=5, max_size=5),
    st.lists(st.floats(-9.0, 9.0), min_size=5, max_size=5),
    st.lists(st.floats(-2.0, 2.0), min_size=3, max_size=3),
)
def test_whatever_is_accepted_of_slabs_is_true(
    checker, seed, dims, level, weights, tilts, direction
):
    made = network(1, 5, dims, 1, seed=seed, size=0.7)
    box, (head,) = unit_box(dims), made.heads
    low, high = head.values.min(), head.values.max()
    c = low + level * (high - low)
    reach = float(np.abs(direction[:dims]).sum()) + 1.0
    heads, ends = heads_of(checker, made, box)
    evidence = slab(direction[:dims], part(-reach, reach, (c, weights, tilts)))
    try:
        found = checker.softmaxes.most_by_slabs(heads, ends, evidence)
    except ValueError:
        return
    assert abs(float(found) - c) < 1e-12
    assert made(points(box)).max() <= c + 1e-12


def needle():
    """One token with the value 1 at the logit 0, and guards on both sides of 0.25."""
    slopes, t = np.array([[0.0], [16.0], [-16.0]]), 0.25
    return Network((Head(slopes, [0.0, -16 * t - 2, 16 * t - 2], [[1.0], [0.0], [0.0]]),))


def test_slabs_are_tight_for_one_top_token(checker):
    """The maximum is 1 / (1 + 2 e^-2); the best weights of the guards are one half each."""
    heads, ends = heads_of(checker, needle())
    top = 1 / (1 + 2 * math.exp(-2))
    for c, accepted in ((top + 1e-9, True), (top - 1e-9, False)):
        evidence = slab([0.0], part(0.0, 0.0, (c, [0.0, 1.0, 1.0], [0.0] * 3)))
        with refused(None if accepted else "does not hold"):
            assert float(checker.softmaxes.most_by_slabs(heads, ends, evidence)) == c


def test_a_tilt_is_needed_on_a_slab(checker):
    """Right of 0.5 the needle is lower, which the multiplier of the slab's end shows."""
    heads, ends = heads_of(checker, needle())
    value = 1 / (1 + math.exp(16 * 0.25 - 2) + math.exp(-16 * 0.25 - 2))
    left = part(-1.0, 0.5, (0.8, [0, 1, 1], [0, 0, 0]))
    for tilt, accepted in ((-16.0, True), (0.0, False)):
        right = part(0.5, 1.0, (value + 0.01, [0, 1, 0], [tilt, 0, 0]))
        both = slab([1.0], left, right)
        with refused(None if accepted else "does not hold"):
            assert checker.softmaxes.most_by_slabs(heads, ends, both) == Fraction(0.8)


@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([0.25, 2.0, 30.0]))
def test_no_slope_is_steeper_than_the_bound(checker, seed, dims, size):
    made = network(2, 4, dims, 1, seed=seed, size=size)
    box, step = unit_box(dims), 2.0**-20
    heads, ends = heads_of(checker, made, box)
    bound = float(checker.softmaxes.steepness(heads))
    random = np.random.default_rng(seed)
    near = points(box, 60, seed)
    moved = near + step * random.choice([-1.0, 1.0], near.shape)
    assert np.abs(made(near) - made(moved)).max() <= bound * step + 1e-12
    wide = checker.softmaxes.wider(ends, Fraction(1, 10**4))
    for side, sign in (("lower", -1), ("upper", 1)):
        apart = sign * (getattr(wide, side) - getattr(ends, side)) - Fraction(2**149, 10**4)
        assert all(0 <= x <= 1 for x in apart)


def test_the_bound_of_steepness_is_reached(checker):
    """At the middle of a sigmoid of height 2 and slope 8: 2 * 8 / 4; equal values count nothing."""
    made = Network((Head([[8.0], [0.0], [-80.0]], [0.0, 0.0, -200.0], [[2.0], [0.0], [2.0]]),))
    heads, _ = heads_of(checker, Network((Head([[8.0], [0.0]], [0.0, 0.0], [[2.0], [0.0]]),)))
    assert 4 <= checker.softmaxes.steepness(heads) < 4 + Fraction(1, 10**6)
    heads, _ = heads_of(checker, made)
    assert 40 <= checker.softmaxes.steepness(heads) < 40 + Fraction(1, 10**6)


def test_slopes_and_values_that_float64_takes_for_equal(checker):
    """2^80 + 2^20 and 2^80 are one number of float64, and differ by 2^20; 2^60 + 1 and 2^60 too."""
    slopes = np.array([[2**80 + 2**20], [2**80]], dtype=object)
    offsets = np.array([0, 0], dtype=object)
    for low, high in ((0, 1), (2**60, 2**60 + 1)):
        values = np.array([high, low], dtype=object)
        head = checker.softmaxes.Head(slopes, offsets, values)
        assert checker.softmaxes.steepness([head]) == Fraction(2**18, 2 ** (149 + 298))


HOLDS = (0.8, [0, 1, 1], [0, 0, 0])


def test_slabs_have_to_cover_the_box(checker):
    heads, ends = heads_of(checker, needle())
    half = [part(-1.0, 0.0, HOLDS), part(0.0, 1.0, HOLDS)]
    accept = checker.softmaxes.most_by_slabs
    assert accept(heads, ends, slab([1.0], *half)) == Fraction(0.8)
    assert accept(heads, ends, slab([1.0], *half[::-1])) == Fraction(0.8)
    assert accept(heads, ends, slab([0.0], part(-1.0, 1.0, HOLDS)))
    tiny = Fraction(1, 2**200)
    for slabs in (
        half[:1], half[1:], [], [half[0], part(tiny, 1.0, HOLDS)],
        [part(-1 + tiny, 0.0, HOLDS), half[1]], [half[0], part(0.0, 1 - tiny, HOLDS)],
        [part(-1.0, -0.5, HOLDS), part(0.5, 1.0, HOLDS)],
    ):  # fmt: skip
        with refused("do not cover"):
            accept(heads, ends, slab([1.0], *slabs))
    with refused("before it begins"):
        accept(heads, ends, slab([1.0], part(1.0, -1.0, HOLDS)))
    with refused("do not cover"):
        accept(heads, ends, slab([0.0], part(0.5, 1.0, HOLDS)))


def test_lengths_and_signs(checker):
    heads, ends = heads_of(checker, needle())
    accept, whole = checker.softmaxes.most_by_slabs, (-1.0, 1.0)
    for head, words in (
        ((0.8, [0, 1], [0, 0, 0]), "one for each token"),
        ((0.8, [0, 1, 1], [0, 0]), "one for each token"),
        ((0.8, [0, 1, 1, 0], [0, 0, 0, 0]), "one for each token"),
        ((0.8, [0, 1, -1], [0, 0, 0]), "negative"),
        ((0.8, [1, 0, 0], [0, 0, 0]), "no weights"),  # of a token above the bound
        ((0.8, [0, 0, 0], [0, 0, 0]), "no weights"),
        ((-0.1, [0, 1, 1], [0, 0, 0]), "no weights"),  # below all values
    ):
        with refused(words):
            accept(heads, ends, slab([1.0], part(*whole, head)))
    with refused("another length"):
        accept(heads, ends, slab([1.0, 0.0], part(*whole, HOLDS)))
    with refused("another length"):
        accept(heads, ends, slab([], part(*whole, HOLDS)))
    for wrong in ((), (HOLDS, HOLDS)):
        with refused("number of heads"):
            accept(heads, ends, slab([1.0], part(*whole, *wrong)))
    assert accept(heads, ends, slab([1.0], part(*whole, (1.0, [0, 0, 0], [0, 0, 0])))) == 1
    more = slab([1.0], part(*whole, HOLDS)) | {"more": 1}
    with refused("other evidence"):
        accept(heads, ends, more)
    more = slab([1.0], part(*whole, HOLDS) | {"more": 1})
    with refused("other entries"):
        accept(heads, ends, more)


def test_inputs_that_do_not_vary_count_in_the_direction(checker):
    slopes = [[0.0, 0.0], [16.0, 1.0], [-16.0, 1.0]]
    made = Network((Head(slopes, [0.0, -6.5, 1.5], [[1.0], [0.0], [0.0]]),))
    box = Box([-1.0, 0.5], [1.0, 0.5])
    heads, ends = heads_of(checker, made, box)
    c, value = 0.8, made(points(box)).max()
    assert 0.76 < value < c
    accept = checker.softmaxes.most_by_slabs
    head = c, [0, 1, 1], [1.0, 0, 0]
    with refused("does not hold"):
        accept(heads, ends, slab([0.0, 8.0], part(3.0, 5.0, head)))
    assert accept(heads, ends, slab([0.0, 8.0], part(4.0, 4.0, head)))
    with refused("do not cover"):
        accept(heads, ends, slab([0.0, 8.0], part(0.0, 0.0, head)))


@given(st.integers(0, 10**6))
def test_weights_are_rounded_to_a_sum_of_one(checker, seed):
    random = np.random.default_rng(seed)
    given_weights = [Fraction(x) for x in random.exponential(size=6) ** 9]
    used, shares = checker.softmaxes.shares_of(given_weights, [0, 2, 3, 5])
    assert sum(shares) == 2**checker.softmaxes.SHARE
    assert set(used.tolist()) <= {0, 2, 3, 5}
    assert (shares > 0).all()


def test_many_long_fractions_are_added_at_once(checker):
    """Their sum has a denominator of more than a million digits; rounded first, none is long."""
    random = np.random.default_rng(0)
    digits = ["".join(map(str, row)) for row in random.integers(1, 10, (3000, 399))]
    given_weights = [checker.operators.exact(f"1/{each}") for each in digits]
    begin = time.process_time()
    used, shares = checker.softmaxes.shares_of(given_weights, range(3000))
    assert time.process_time() - begin < 5.0  # 0.1 s; unrounded, minutes
    assert len(used) == 3000
    assert sum(shares) == 2**checker.softmaxes.SHARE


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_values_at_a_point(checker, seed, dims):
    made = network(2, 4, dims, 2, seed=seed)
    box = unit_box(dims)
    heads, ends = heads_of(checker, made, box, ((0, 1), (1, -1)))
    point = points(box, 1, seed)[0].astype(np.float32)
    least = checker.softmaxes.least_at(heads, ends, checker.operators.integers(point))
    atom = Atom([1.0, -1.0], 0.0)
    exact = slack(Property(box, ((atom,),)), enclosed(made, point.tolist()))
    assert abs(float(least) - exact) < 1e-12


def test_exponentials_of_all_sizes(checker):
    exponential, fraction = checker.operators.exponential, checker.operators.fraction
    for exponent in (-3000, -1001, -999, -1, 0, 2, 999):
        found = exponential(checker.operators.interval(exponent))
        exact = math.exp(max(exponent, -700)) if exponent < 700 else None
        if exponent < -1000:
            assert fraction(found.a) == 0
            assert 0 < fraction(found.b) < Fraction(1, 10**400)
        elif exact and exponent > -700:
            assert math.isclose(float(fraction(found.a)), exact, rel_tol=1e-14)
            assert fraction(found.a) <= fraction(found.b)
    far = exponential(checker.operators.interval(1001))
    assert far.b == checker.operators.INTERVALS.inf
    assert fraction(far.a) > 10**400
    wide = exponential(checker.operators.INTERVALS.mpf([-2000, 2000]))
    assert wide.a == 0
    assert wide.b == checker.operators.INTERVALS.inf


def test_intervals_of_integers_contain_them(checker):
    big = 3**200
    found, fraction = checker.operators.interval(big, 300), checker.operators.fraction
    assert fraction(found.a) < Fraction(big, 2**300) < fraction(found.b)
    assert str(checker.operators.rounded(Fraction(1, 3), 2)) == "1"


# Answers of float32 programs: what they compute of rows of one product and one sum.

ABOVE = ((Atom([1.0], 0.5),),)


def constant(slopes, offsets=(0.0, 0.0), values=((1.0,), (0.0,))):
    return Network((Head(np.array(slopes), np.array(offsets), np.array(values)),))


def computed(checker, network, box, disjuncts=ABOVE):
    read = problem(checker, written(network), box, disjuncts)
    return float(checker.softmaxes.computed_most(read.outputs, ((0, 1),), read.box, read.model))


@pytest.mark.parametrize("row", [[3.0, 0.0], [0.5, 0.0], [1.0, 1.0], [1.0, -2.0]])
def test_logits_of_more_than_one_rounding_are_refused(checker, row):
    with refused("not one rounding"):
        computed(checker, constant([row, [0.0, 0.0]]), unit_box())
    assert computed(checker, constant([[4.0, 0.0], [0.0, -1.0]]), unit_box()) < 1.0


HALF = constant(np.zeros((2, 2)))
AT_LEAST = {c: Atom([1.0], c) for c in (0.25, 0.75)}
LITTLE = Atom([-1.0], -0.25)


@pytest.mark.parametrize(
    ("disjuncts", "sat", "unsat"),
    [
        (((AT_LEAST[0.25],),), True, False),
        (((AT_LEAST[0.75],),), False, True),
        (((AT_LEAST[0.25], LITTLE),), False, True),
        (((AT_LEAST[0.75],), (AT_LEAST[0.25],)), True, False),
        (((AT_LEAST[0.25], LITTLE), (AT_LEAST[0.75],)), False, True),
    ],
)
def test_conditions_hold_together_and_alternatives_one_by_one(checker, disjuncts, sat, unsat):
    """All programs return one half, but for some roundings."""
    read = problem(checker, written(HALF), unit_box(), disjuncts)
    for answer, right in (("sat", sat), ("unsat", unsat)):
        content = {"answer": answer} | ({"witness": ["0", "0"]} if answer == "sat" else {})
        if right:
            assert checker.instances.in_float32(read, content)[1] > 0.2
        else:
            with refused("not shown"):
                checker.instances.in_float32(read, content)
