"""Every construction of sequence memorizers keeps the laws; its programs and networks."""

import dataclasses
from fractions import Fraction
from math import prod
from tempfile import TemporaryDirectory

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    Certificate,
    ParameterError,
    SequenceDataset,
    SequenceMemorizer,
    build_sequence_memorizer,
    certify,
    strategies,
)
from constructive.sequences import dictionary
from constructive.sequences.constructions import (
    CONSTRUCTIONS,
    SequenceConstruction,
    product_hash,
    products,
    separating_weights,
)
from constructive.sequences.dictionary import RAMP, SATURATING
from constructive.sequences.network import Affine, Program, ProgramStep

# What every construction has to keep: `check_sequence_construction`.


PROBLEMS = strategies.sequence_problems()
WORDS, SEEDS = st.sampled_from([None, 8, 52]), st.integers(0, 3)

# Sequences, labels and tasks: one class, equal tokens, multiplicity, one token that tells all
# apart (as many as a power of two, one more or less), long labels, tokens of any size.
EDGES = (
    ([[5, 5, 5]], [3], "next"),
    ([[5, 5, 5]], [[3, 3, 3]], "seq2seq"),
    ([[1, 2], [3, 4]], [5, 5], "last"),
    ([list("aab"), list("abb")], [0, 1], "next"),
    ([[1], [2], [5], [9]], ["x", 1 << 80, None, ("y", 2.5)], "next"),
    (np.random.default_rng(0).integers(-3, 4, (20, 3, 300)).tolist(), list(range(20)), "next"),
    *(([[0, 0, 10**6 + 7 * i] for i in range(total)], labels, "next")
      for total in (15, 16, 17, 33)
      for labels in (list(range(total)), [i % 2 for i in range(total)])),
    *(([[k * scale, -k * scale, 0] for k in range(1, 9)], list(range(8)), "next")
      for scale in (Fraction(1, 10**300), 10**300, 1e-300)),
)  # fmt: skip


def check_sequence_construction(name, checker, folder):
    """Check the laws of a construction, on all three tasks.

    name: among `CONSTRUCTIONS`;  checker: its modules;  folder: for files
    """
    assert CONSTRUCTIONS[name].name == name
    edges(name)
    labels_are_reproduced(name)
    certificates_are_proved(name, checker, folder)
    if CONSTRUCTIONS[name].comparison.forgiving:
        floats_are_right(name)


def edges(name):
    for sequences, labels, task in EDGES:
        memorizer = build_sequence_memorizer(sequences, labels, task=task, construction=name)
        assert memorizer.predict(sequences) == labels
        assert memorizer.nonzero_parameters <= memorizer.record.sizes.bound
        if all(label == labels[0] for label in labels):
            assert memorizer.classifier.depth == 0


def labels_are_reproduced(name):
    """Also when tokens change their places, and by an evaluator that shares no code."""

    @settings(max_examples=30)
    @given(PROBLEMS, WORDS, SEEDS, st.randoms(use_true_random=False))
    def law(problem, most, seed, random):
        memorizer = problem.build(construction=name, max_word_bits=most, seed=seed)
        order = list(range(len(problem.sequences[0])))
        if problem.task == "last":
            head = order[:-1]
            random.shuffle(head)
            order = [*head, order[-1]]
        else:
            random.shuffle(order)
        moved = [[row[i] for i in order] for row in problem.sequences]
        every = problem.task == "seq2seq"
        labels = [[row[i] for i in order] for row in problem.labels] if every else problem.labels
        assert memorizer.predict(moved) == labels
        assert by_flint(memorizer, problem) == problem.labels
        if most is None:
            assert memorizer.nonzero_parameters <= memorizer.record.sizes.bound
        again = problem.build(construction=name, max_word_bits=most, seed=seed)
        assert again.content() == memorizer.content()

    law()


def certificates_are_proved(name, checker, folder):
    """And files are read as they were written."""

    @settings(max_examples=10)
    @given(PROBLEMS)
    def law(problem):
        memorizer, dataset = problem.build(construction=name), SequenceDataset.of(*problem)
        certificate = certify(memorizer, dataset)
        assert certificate.proved
        with TemporaryDirectory(dir=folder) as place:
            paths = [f"{place}/{part}.json" for part in ("certificate", "memorizer", "data")]
            for thing, path in zip((certificate, memorizer, dataset), paths, strict=True):
                thing.save(path)
            assert checker.main(paths) == 0
            assert Certificate.load(paths[0]) == certificate
            loaded = SequenceMemorizer.load(paths[1])
            again = SequenceDataset.load(paths[2])
        assert (loaded.content(), str(loaded)) == (memorizer.content(), str(memorizer))
        assert (again.content(), repr(again)) == (dataset.content(), repr(dataset))

    law()


def floats_are_right(name):
    @settings(max_examples=10)
    @given(strategies.sequence_problems(labels=st.integers(0, 1000)))
    def law(problem):
        memorizer = problem.build(construction=name, max_word_bits=52)
        assert memorizer.reproduced(SequenceDataset.of(*problem)) == 1.0

    law()


def by_flint(memorizer, problem):
    """Labels by dense rational matrices, and the mean of attention."""
    columns, ids = memorizer.encode(problem.sequences)
    streams = [dense(memorizer.embedding, token) for token in zip(*columns, strict=True)]
    attention, outputs = memorizer.attention, []
    for row in ids:
        values = [
            sum(Fraction(w) * x for w, x in zip(attention.value_weights, streams[i], strict=True))
            for i in row
        ]
        mean = sum(values) / len(row)
        for i in row if problem.task == "seq2seq" else row[-1:]:
            weights = attention.output_weights
            moved = [x + w * mean for x, w in zip(streams[i], weights, strict=True)]
            outputs += dense(memorizer.classifier, moved)
    assert all(x.denominator == 1 for x in outputs)
    return memorizer.labeled(np.array([int(x) for x in outputs], dtype=object), len(ids))


def dense(network, inputs):
    """The outputs for one input, by rational matrices of flint; an evaluator of its own."""

    def exact(number):
        return flint.fmpq(Fraction(number).numerator, Fraction(number).denominator)

    vector = flint.fmpq_mat(len(inputs), 1, [exact(x) for x in inputs])

    def affine(layer, x):
        weights = [[flint.fmpq(0)] * layer.width for _ in layer.biases]
        for row, columns, values in zip(weights, layer.columns, layer.values, strict=True):
            for column, value in zip(columns, values, strict=True):
                row[column] += exact(value)
        bias = [exact(b) for b in layer.biases]
        product = flint.fmpq_mat(len(weights), layer.width, sum(weights, [])) * x  # noqa: RUF017
        return product + flint.fmpq_mat(len(bias), 1, bias)

    def relu(x):
        return flint.fmpq_mat(x.nrows(), 1, [max(entry, flint.fmpq(0)) for entry in x.entries()])

    vector = affine(network.layers[0], vector)
    for first, second in zip(network.layers[1:-1:2], network.layers[2:-1:2], strict=True):
        vector += affine(second, relu(affine(first, vector)))
    return [Fraction(int(e.p), int(e.q)) for e in affine(network.layers[-1], vector).entries()]


# The laws on all constructions and on a liar.


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_construction(name, checker, tmp_path):
    check_sequence_construction(name, checker, tmp_path)


def lying(*given):
    """Return a network that computes other hashes than it says."""
    embedded = product_hash(*given)
    return dataclasses.replace(embedded, hashes=embedded.hashes + 1)


def test_a_liar_does_not_keep_the_laws(monkeypatch, checker, tmp_path):
    monkeypatch.setitem(CONSTRUCTIONS, "liar", SequenceConstruction("liar", lying, SATURATING))
    with pytest.raises(AssertionError):
        check_sequence_construction("liar", checker, tmp_path)


# Programs and networks against Python's own arithmetic.


KINDS = [RAMP, SATURATING]
COMPARISONS = st.sampled_from(KINDS)


def left_by(steps, inputs, register="r", start=None):
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
    found = left_by(
        dictionary.steps(blocks, comparison), range(domain), "T", {"z": Affine({"x": 1})}
    )
    assert found == [entries.get(z, 0) for z in range(domain)]


@pytest.mark.parametrize("shift", [0, Fraction(1, 3)])
def test_rounding(shift):
    inputs = [z + shift for z in range(21)]
    assert left_by(SATURATING.rounded("r", 21), inputs) == list(range(21))


@settings(max_examples=30)
@given(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=6), COMPARISONS)
def test_products(factors, comparison):
    steps = products(factors, comparison)
    found = left_by(steps, range(1 << len(factors)), "h", {"z": Affine({"x": 1})})
    expected = [
        prod(factor for bit, factor in enumerate(factors) if z >> bit & 1)
        for z in range(1 << len(factors))
    ]
    assert found == expected


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
