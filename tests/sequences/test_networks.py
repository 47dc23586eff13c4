"""Programs and networks against Python's own arithmetic, and against an evaluator of flint."""

import dataclasses
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import ParameterError
from constructive.sequences import dictionary
from constructive.sequences.constructions import products, separating_weights
from constructive.sequences.dictionary import RAMP, SATURATING
from constructive.sequences.memorizer import dictionary_bound
from constructive.sequences.network import Affine, Program, ProgramStep

KINDS = [RAMP, SATURATING]
COMPARISONS = st.sampled_from(KINDS)


def outputs(steps, inputs, register="r", start=None):
    """What steps leave in a register, for each input."""
    start = {register: Affine({"x": 1})} if start is None else start
    network = Program(("x",), start, tuple(steps), (Affine({register: 1}),)).network()
    return network([np.array(inputs)])[0].tolist()


@st.composite
def tables(draw):
    domain = draw(st.integers(1, 60))
    keys = draw(st.sets(st.integers(0, domain - 1), min_size=1, max_size=12))
    label = draw(st.sampled_from([st.integers(0, 3), st.integers(0, 1 << 80)]))
    return {k: draw(label) for k in keys}, domain


@given(tables(), COMPARISONS, st.sampled_from([None, 6, 52]), st.booleans())
def test_a_dictionary_is_a_dict_on_its_whole_domain(table, comparison, most, in_word):
    entries, domain = table
    blocks = dictionary.plan(entries, domain, comparison=comparison, max_word_bits=most)
    last = blocks.members[-1][-1].bit_length()  # first members in code words, or beside them
    blocks = dataclasses.replace(blocks, first_bits=last if in_word else 0)
    found = outputs(
        dictionary.steps(blocks, comparison), range(domain), "T", {"z": Affine({"x": 1})}
    )
    assert found == [entries.get(z, 0) for z in range(domain)]


@pytest.mark.parametrize("most", [0, 3, 1 << 17, 1 << 40])
def test_large_dictionaries(most):
    rng = np.random.default_rng(most)
    domain = 4096
    keys = [0, *rng.choice(np.arange(1, domain), size=400, replace=False).tolist()]
    table = {key: 1 + int(rng.integers(most + 1)) for key in keys}
    network = dictionary.program(table, domain).network()
    assert network([np.arange(domain)])[0].tolist() == [table.get(z, 0) for z in range(domain)]


@pytest.mark.parametrize("comparison", KINDS)
def test_what_a_dictionary_costs(comparison):
    """The numbers by which `plan` chooses, and the bound of Lemma 14.2."""
    rng = np.random.default_rng(0)
    for size, domain in [(40, 300), (400, 1 << 14), (1500, 1 << 20)]:
        keys = rng.choice(domain, size=size, replace=False).tolist()
        table = {key: 1 + int(rng.integers(15)) for key in keys}
        blocks = dictionary.plan(table, domain, comparison=comparison)
        network = dictionary.program(table, domain, comparison=comparison).network()
        word = blocks.word_bits - blocks.answer_bits
        expected = (comparison.weights + (2 if blocks.first_bits else 4)) * len(blocks.keys)
        expected += (comparison.weights + 4) * word + dictionary.ENTRY * blocks.entries
        assert abs(network.nonzero_parameters - expected) < 35
        bound = dictionary_bound(size, (16).bit_length(), domain.bit_length())
        assert network.nonzero_parameters <= bound
        assert network.width <= 5


@settings(max_examples=30)
@given(st.integers(1, 50), st.integers(1, 400), COMPARISONS)
def test_remainders(modulus, below, comparison):
    found = outputs(comparison.remainder("r", modulus, below), range(below))
    assert found == [r % modulus for r in range(below)]


@pytest.mark.parametrize("shift", [0, Fraction(1, 3)])
def test_rounding(shift):
    inputs = [z + shift for z in range(21)]
    assert outputs(SATURATING.rounded("r", 21), inputs) == list(range(21))


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 1 << 40), min_size=1, max_size=6),
    st.sampled_from([None, 2, 3, 5, 7, 31, 1009]), COMPARISONS,
)  # fmt: skip
def test_products(factors, prime, comparison):
    if prime is not None:
        factors = [factor % prime or 1 for factor in factors]
    steps = products(factors, comparison, prime)
    found = outputs(steps, range(1 << len(factors)), "h", {"z": Affine({"x": 1})})
    expected = [
        prod(factor for bit, factor in enumerate(factors) if z >> bit & 1)
        for z in range(1 << len(factors))
    ]
    assert found == [x if prime is None else x % prime for x in expected]


@settings(max_examples=20)
@given(st.integers(0, 10), st.integers(-3, 13), COMPARISONS)
def test_comparisons(threshold, coefficient, comparison):
    steps = comparison.where_at_least(
        "r", threshold, {"s": coefficient}, start={"s": Affine({}, 100)}
    )
    found = outputs(steps, range(12), "s", {"r": Affine({"x": 1})})
    assert found == [100 + coefficient * (r >= threshold) for r in range(12)]


def test_fractions_are_exact():
    program = Program(
        ("x",),
        {"r": Affine({"x": Fraction(1, 3)}, Fraction(1, 7))},
        (ProgramStep({"u": Affine({"r": 3})}, {"r": Affine({"u": 7})}),),
        (Affine({"r": 1}),),
    )
    inputs = [np.array([1, Fraction(1, 2), 10**30], dtype=object)]
    found = program.network()(inputs)[0].tolist()
    assert found == [7 * (x + Fraction(3, 7)) for x in (1, Fraction(1, 2), 10**30)]
    assert type(found[0]) is int


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (lambda layers: layers[:-1], "layers"),
        (lambda layers: (*layers[:2], *layers[3:], layers[-1]), "inputs after"),
        (lambda layers: (*layers[:-1], layers[0]), "inputs after|different widths"),
        (lambda layers: (spoilt(layers[0], columns=((0, 0),)), *layers[1:]), "has others"),
        (lambda layers: (spoilt(layers[0], columns=((9,),)), *layers[1:]), "has others"),
        (lambda layers: (spoilt(layers[0], values=((0,),)), *layers[1:]), "has others"),
    ],
)
def test_layers_that_do_not_fit(layers, words):
    network = dictionary.program({2: 7, 3: 1, 11: 4}, domain=16).network()
    with pytest.raises(ValueError, match=words):
        type(network)(layers(network.layers))


def spoilt(layer, *, columns=((0,),), values=((1,),)):
    rest = len(layer.biases) - 1
    return dataclasses.replace(
        layer, columns=columns + layer.columns[-rest:], values=values + layer.values[-rest:]
    )


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=12))
def test_separating_sets(rows):
    """Fewer residues than multisets; weights are small, as fewer than 16 classes change."""
    weights = separating_weights(np.array(rows), np.random.default_rng(0))
    multisets = {tuple(sorted(row)) for row in rows}
    count = len(multisets)
    assert len(weights) <= count - 1
    assert all(0 < weight <= count * (count - 1) // 2 + 1 for weight in weights.values())
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
