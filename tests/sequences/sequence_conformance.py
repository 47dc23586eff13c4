"""What every construction of sequence memorizers has to keep: `check_sequence_construction`."""

from fractions import Fraction
from tempfile import TemporaryDirectory

import flint
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    Certificate,
    SequenceDataset,
    SequenceMemorizer,
    build_sequence_memorizer,
    certify,
    strategies,
)
from constructive.sequences.constructions import CONSTRUCTIONS, project
from constructive.sequences.network import Affine

PROBLEMS = strategies.sequence_problems()
WORDS, SEEDS = st.sampled_from([None, 8, 52]), st.integers(0, 3)
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
"""Sequences, labels and tasks: one class, equal tokens, multiplicity, one token that tells all
apart (as many as a power of two, one more or less), long labels, tokens of any size."""


def check_sequence_construction(name, checker, folder):
    """Check the laws of a construction, on all three tasks.

    name: among `CONSTRUCTIONS`;  checker: its modules;  folder: for files
    """
    assert CONSTRUCTIONS[name].name == name
    edges(name)
    labels_are_reproduced(name)
    registers_are_integers(CONSTRUCTIONS[name])
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


def registers_are_integers(kind):
    """Registers that units copy are not negative, and the program computes the hashes."""

    @settings(max_examples=15)
    @given(PROBLEMS, WORDS, SEEDS)
    def law(problem, most, seed):
        dataset = SequenceDataset.of(*problem)
        rng = np.random.default_rng(seed)
        projected = project(dataset, rng)
        embedded = kind.embed(dataset, projected, most, rng)
        tokens = [dict(zip(embedded.program.inputs, row, strict=True)) for row in dataset.tokens]
        assert run(embedded.program, tokens) == embedded.hashes.tolist()
        sums = embedded.hashes[dataset.ids].sum(axis=1)
        assert dataset.told_apart(*dataset.with_own(sums, projected.residues))

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
    return memorizer.labelled(np.array([int(x) for x in outputs], dtype=object), len(ids))


def run(program, examples):
    """Run a program as it is written, and look at every register; its first outputs."""

    def value(affine, known):
        return affine.constant + sum(v * known[name] for name, v in affine.terms.items())

    found = []
    for inputs in examples:
        known = {name: value(affine, inputs) for name, affine in program.start.items()}
        for step in program.steps:
            units = {name: max(value(unit, known), 0) for name, unit in step.units.items()}
            for name, update in step.updates.items():
                copied = dict(update.terms)
                if copied.get(name) == 1:  # it is kept
                    del copied[name]
                assert all(known.get(part, 0) >= 0 for part in copied if part not in units)
            before = {name: Affine({name: 1}) for name in known}
            known = {
                name: value(u, known | units) for name, u in (before | dict(step.updates)).items()
            }
            assert all(x == int(x) for x in known.values())
        found.append(value(program.outputs[0], known))
    return found


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
