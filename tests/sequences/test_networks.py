"""Programs and networks against Python's own arithmetic, and against an evaluator of flint."""

import dataclasses
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from dense import dense
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import ParameterError
from constructive.sequences import dictionary, embedding
from constructive.sequences.bounds import dictionary_bound
from constructive.sequences.embedding import separating_weights
from constructive.sequences.gadgets import remainder, where_at_least
from constructive.sequences.network import Affine, Program, Step, bits, plain, residual

LAYOUTS = st.sampled_from(["deep", "wide"])
STEPS = st.sampled_from(["ramp", "saturating"])
LOWERINGS = st.sampled_from([plain, residual])


@st.composite
def tables(draw):
    domain = draw(st.integers(1, 60))
    keys = draw(st.sets(st.integers(0, domain - 1), min_size=1, max_size=12))
    label = draw(st.sampled_from([st.integers(0, 3), st.integers(0, 1 << 80)]))
    return {k: draw(label) for k in keys}, domain


@settings(max_examples=150, deadline=None)
@given(tables(), LAYOUTS, STEPS, LOWERINGS, st.sampled_from([None, 6, 52]), st.booleans())
def test_a_dictionary_is_a_dict_on_its_whole_domain(table, layout, step, lower, most, in_word):
    entries, domain = table
    costs = dictionary.Costs.of(layout, step, residual=lower is residual)
    blocks = dictionary.plan(entries, domain, costs=costs, max_word_bits=most)
    last = blocks.members[-1][-1].bit_length()  # first members in code words, or beside them
    blocks = dataclasses.replace(blocks, first_bits=last if in_word else 0)
    steps = tuple(dictionary.steps(blocks, layout=layout, comparison=step))
    network = lower(Program(("z",), {"z": Affine({"z": 1})}, steps, (Affine({"T": 1}),)))
    found = network([np.arange(domain)])[0].tolist()
    assert found == [entries.get(z, 0) for z in range(domain)]


@pytest.mark.parametrize("layout", ["deep", "wide"])
@pytest.mark.parametrize("lower", [plain, residual])
@pytest.mark.parametrize("most", [0, 3, 1 << 17, 1 << 40])
def test_large_dictionaries(layout, lower, most):
    rng = np.random.default_rng(most)
    domain = 4096
    keys = [0, *rng.choice(np.arange(1, domain), size=400, replace=False).tolist()]
    table = {key: 1 + int(rng.integers(most + 1)) for key in keys}
    network = lower(dictionary.program(table, domain, layout=layout))
    assert network([np.arange(domain)])[0].tolist() == [table.get(z, 0) for z in range(domain)]


@pytest.mark.parametrize("layout", ["deep", "wide"])
@pytest.mark.parametrize("step", ["ramp", "saturating"])
@pytest.mark.parametrize("lower", [plain, residual])
@pytest.mark.parametrize("carried", [0, 1])
def test_what_a_dictionary_costs(layout, step, lower, carried):
    """The numbers by which `plan` chooses, and the bound of Lemma 14.2."""
    rng = np.random.default_rng(0)
    costs = dictionary.Costs.of(layout, step, residual=lower is residual, carried=carried)
    for size, domain in [(40, 300), (400, 1 << 14), (1500, 1 << 20)]:
        keys = rng.choice(domain, size=size, replace=False).tolist()
        table = {key: 1 + int(rng.integers(15)) for key in keys}
        blocks = dictionary.plan(table, domain, costs=costs)
        steps = tuple(dictionary.steps(blocks, layout=layout, comparison=step))
        outputs = Affine({"T": 1}), Affine({"z": carried})
        program = Program(("z",), {"z": Affine({"z": 1})}, steps, outputs)
        found = lower(program).nonzero_parameters
        bits = blocks.word_bits - blocks.answer_bits
        expected = (costs.block if blocks.first_bits else costs.jump) * len(blocks.keys)
        expected += costs.bit * bits + costs.entry * blocks.entries
        assert abs(found - expected) < 35
        assert found <= dictionary_bound(size, (16).bit_length(), domain.bit_length())


@settings(max_examples=25, deadline=None)
@given(tables(), LAYOUTS, STEPS, LOWERINGS, st.data())
def test_flint_agrees(table, layout, step, lower, data):
    entries, domain = table
    network = lower(dictionary.program(entries, domain, layout=layout, comparison=step))
    z = data.draw(st.integers(0, domain - 1))
    assert dense(network, [z]) == [entries.get(z, 0)]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 50), st.integers(1, 400), STEPS, LOWERINGS)
def test_remainders(modulus, below, step, lower):
    steps = tuple(remainder("r", modulus, below, comparison=step))
    program = Program(("r",), {"r": Affine({"r": 1})}, steps, (Affine({"r": 1}),))
    found = lower(program)([np.arange(below)])[0].tolist()
    assert found == [r % modulus for r in range(below)]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([2, 3, 5, 7, 31, 97, 1009]), st.integers(1, 1008), st.integers(1, 7), STEPS,
    LOWERINGS,
)  # fmt: skip
def test_powers(prime, base, bits, step, lower):
    base = base % prime or 1
    factors = [pow(base, 1 << bit, prime) for bit in range(bits)]
    steps = tuple(embedding._products(factors, prime, step))
    program = Program(("z",), {"z": Affine({"z": 1})}, steps, (Affine({"h": 1}),))
    found = lower(program)([np.arange(1 << bits)])[0].tolist()
    assert found == [pow(base, z, prime) for z in range(1 << bits)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=6), STEPS, LOWERINGS)
def test_products(factors, step, lower):
    steps = tuple(embedding._products(factors, None, step))
    program = Program(("z",), {"z": Affine({"z": 1})}, steps, (Affine({"h": 1}),))
    found = lower(program)([np.arange(1 << len(factors))])[0].tolist()
    assert found == [
        prod(factor for bit, factor in enumerate(factors) if z >> bit & 1)
        for z in range(1 << len(factors))
    ]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10), st.integers(-3, 13), STEPS, LOWERINGS)
def test_comparisons(threshold, coefficient, step, lower):
    steps = where_at_least("r", threshold, {"s": coefficient}, comparison=step,
                           start={"s": Affine({}, 100)})  # fmt: skip
    program = Program(("r",), {"r": Affine({"r": 1})}, tuple(steps), (Affine({"s": 1}),))
    found = lower(program)([np.arange(12)])[0].tolist()
    assert found == [100 + coefficient * (r >= threshold) for r in range(12)]


def test_a_register_which_gets_negative_needs_a_residual_network():
    program = Program(
        ("x",),
        {"r": Affine({"x": 1})},
        (Step({"u": Affine({"r": 1})}, {"s": Affine({"u": 1})}),),
        (Affine({"r": 1, "s": 1}),),
    )
    inputs = [np.array([-3, 2])]
    assert residual(program)(inputs)[0].tolist() == [-3, 4]
    assert plain(program)(inputs)[0].tolist() == [0, 4]  # as its documentation says


def test_fractions_are_exact():
    program = Program(
        ("x",),
        {"r": Affine({"x": Fraction(1, 3)}, Fraction(1, 7))},
        (Step({"u": Affine({"r": 3})}, {"r": Affine({"u": 7})}),),
        (Affine({"r": 1}),),
    )
    inputs = [np.array([1, Fraction(1, 2), 10**30], dtype=object)]
    expected = [7 * (x + Fraction(3, 7)) for x in (1, Fraction(1, 2), 10**30)]
    for network in (plain(program), residual(program)):
        found = network(inputs)[0].tolist()
        assert found == expected
        assert type(found[0]) is int


def test_counting():
    network = plain(dictionary.program({2: 7, 3: 1, 11: 4}, domain=16))
    assert network.nonzero_parameters == sum(
        sum(map(len, layer.values)) + sum(b != 0 for b in layer.biases) for layer in network.layers
    )
    assert network.total_parameters == sum(
        len(layer.biases) * (layer.width + 1) for layer in network.layers
    )
    assert network.width <= 6
    assert network.depth == len(network.layers) - 1
    assert network.largest_bits == max(bits(x) for x in (x for layer in network.layers
                                                         for x in layer.numbers()))  # fmt: skip
    assert network.total_bits > network.largest_bits


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=12))
def test_separating_sets(rows):
    weights = separating_weights(np.array(rows), np.random.default_rng(0))
    multisets = {tuple(sorted(row)) for row in rows}
    assert len(weights) <= len(multisets) - 1
    sums = {sum(weights.get(z, 0) for z in multiset) for multiset in multisets}
    assert len(sums) == len(multisets)
    counts = {tuple(multiset.count(z) for z in weights) for multiset in multisets}
    assert len(counts) == len(multisets)


def test_one_distinguishing_token_needs_the_whole_set():
    rows = np.array([[0, 0, 1 + i] for i in range(40)])
    weights = separating_weights(rows, np.random.default_rng(0))
    assert len(weights) == 39
    assert max(weights.values()) <= 40


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "0 keys are none below domain=9, or none at all"),
        ({9: 1}, "1 keys are none below domain=9"),
        ({1: -1, 2: 3}, "the label -1 is negative"),
    ],
)
def test_tables_which_are_none(table, message):
    with pytest.raises(ParameterError, match=message):
        dictionary.program(table, 9)


@pytest.mark.parametrize("layout", ["deep", "wide"])
def test_widths_and_depths(layout):
    rng = np.random.default_rng(0)
    keys = rng.choice(4000, size=64, replace=False).tolist()
    program = dictionary.program({k: 1 + k % 16 for k in keys}, 4000, layout=layout)
    network = plain(program)
    assert (network.width <= 6) == (layout == "deep")
    assert network.nonzero_parameters < 700
