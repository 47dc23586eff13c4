"""Every label, with ==, for small problems of every kind."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from dense import dense
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    DataError,
    ParameterError,
    PrecisionError,
    SequenceDataset,
    SequenceMemorizer,
    build_sequence_memorizer,
    certify,
    strategies,
)
from constructive.sequences import build, embedding, examples
from constructive.sequences.attention import UniformAttention
from constructive.sequences.network import Affine

OPTIONS = st.fixed_dictionaries(
    {
        "embedding": st.sampled_from(["power_hash", "product_hash", "separating_set"]),
        "layout": st.sampled_from(["deep", "wide"]),
        "backend": st.sampled_from(["plain", "residual"]),
        "step": st.sampled_from(["ramp", "saturating"]),
        "max_word_bits": st.sampled_from([None, 8, 52]),
        "seed": st.integers(0, 3),
    }
)
problems = strategies.sequence_problems


@settings(max_examples=150, deadline=None)
@given(problems(), OPTIONS)
def test_every_label_is_reproduced(problem, options):
    memorizer = problem.build(**options)
    assert memorizer.predict(problem.sequences) == problem.labels


@settings(max_examples=100, deadline=None)
@given(problems(), OPTIONS.map(lambda options: {**options, "max_word_bits": None}))
def test_no_more_weights_than_the_formula_says(problem, options):
    """Theorem 7 is about words of any length: with max_word_bits it may be otherwise."""
    memorizer = problem.build(**options)
    assert memorizer.nonzero_parameters <= memorizer.record.sizes.bound


@settings(max_examples=30, deadline=None)
@given(problems(), OPTIONS, st.randoms(use_true_random=False))
def test_a_permutation_of_the_tokens(problem, options, random):
    sequences, labels, task = problem
    memorizer = problem.build(**options)
    order = list(range(len(sequences[0])))
    if task == "last":
        head = order[:-1]
        random.shuffle(head)
        order = [*head, order[-1]]
    else:
        random.shuffle(order)
    permuted = [[sequence[i] for i in order] for sequence in sequences]
    expected = [[row[i] for i in order] for row in labels] if task == "seq2seq" else labels
    assert memorizer.predict(permuted) == expected


@settings(max_examples=30, deadline=None)
@given(problems(), OPTIONS)
def test_the_same_seed_gives_the_same_weights(problem, options):
    first, second = (problem.build(**options) for _ in range(2))
    assert first.embedding == second.embedding
    assert first.classifier == second.classifier


@pytest.mark.parametrize("backend", ["plain", "residual"])
def test_one_class_needs_no_units(backend):
    memorizer = build_sequence_memorizer([[1, 2], [3, 4]], [5, 5], backend=backend)
    assert memorizer.predict([[2, 1], [3, 4]]) == [5, 5]
    assert memorizer.classifier.depth == 0


def test_multiplicity_alone_tells_apart():
    sequences = [list("aab"), list("abb")]
    for name in ("power_hash", "separating_set"):
        memorizer = build_sequence_memorizer(sequences, [0, 1], embedding=name)
        assert memorizer.predict(sequences) == [0, 1]


@pytest.mark.parametrize(
    ("task", "sequences", "labels", "witness"),
    [
        ("next", ["ab", "cd", "ba"], [1, 2, 3], (0, 2)),
        ("last", ["abc", "bac"], [1, 2], (0, 1)),
        ("seq2seq", ["aa", "bb"], [[1, 2], [3, 3]], (0, 1)),
    ],
)
def test_inconsistent_labels(task, sequences, labels, witness):
    with pytest.raises(DataError, match="have one multiset of tokens") as caught:
        build_sequence_memorizer(sequences, labels, task=task)
    assert caught.value.witness == witness


def test_long_labels_in_messages():
    with pytest.raises(DataError, match="labels 1 and an integer of 33220 bits"):
        build_sequence_memorizer(["ab", "ba"], [1, 10**10000])
    long = build_sequence_memorizer(["a", "b"], [10**10000, 1])
    claim = certify(long, SequenceDataset.of(["a", "b"], [1, 1]))["equality"]
    assert claim.detail == "1 labels differ: at 0 it is an integer of 33220 bits, not 1"


def test_the_own_token_may_decide():
    memorizer = build_sequence_memorizer(["abc", "bca"], [1, 2], task="last")
    assert memorizer.predict(["bac", "cba"]) == [1, 2]


@pytest.mark.parametrize(
    ("sequences", "labels", "options", "error", "message"),
    [
        ([], [], {}, DataError, "there are no sequences"),
        ([[]], [1], {}, DataError, r"sequences have lengths \[0\]"),
        (["ab", "abc"], [1, 2], {}, DataError, r"lengths \[2, 3\]; attention sees proportions"),
        (["ab"], [1, 2], {}, DataError, "1 sequences have 2 labels"),
        ([1, 2], [1, 2], {}, DataError, "a sequence is none"),
        ([[{1}]], [1], {}, DataError, "a token cannot be told from others"),
        (["ab"], [[1]], {}, DataError, "a label cannot be told from others"),
        (["ab"], [1], {"task": "seq2seq"}, DataError, "labels do not fit 1 sequences of 2"),
        (["ab"], [[1]], {"task": "seq2seq"}, DataError, "labels do not fit 1 sequences of 2"),
        ([[(1, 2), (1,)]], [1], {}, DataError, r"tokens have \[1, 2\] entries"),
        ([[float("nan")]], [1], {}, DataError, "no finite number"),
        (["a"], [float("nan")], {}, DataError, "a label is nan, which is not equal to itself"),
        (["ab"], None, {}, ParameterError, "sequences without labels"),
        (["ab"], [1], {"layout": np.array([1, 2])}, ParameterError, "unknown layout="),
        ([[float("inf")]], [1], {}, DataError, "a token is no finite number"),
        (["ab"], [1], {"task": "first"}, ParameterError, "unknown task='first'"),
        (["ab"], [1], {"embedding": "hash"}, ParameterError, "unknown embedding='hash'"),
        (["ab"], [1], {"layout": "tall"}, ParameterError, "unknown layout='tall'"),
        (["ab"], [1], {"backend": "jax"}, ParameterError, "unknown backend='jax'"),
        (["ab"], [1], {"step": "sigmoid"}, ParameterError, "unknown step='sigmoid'"),
        (["ab"], [1], {"max_word_bits": 0}, ParameterError, "max_word_bits=0 is not a positive"),
        (["ab"], [1], {"seed": -1}, ParameterError, "seed=-1 is not a non-negative"),
        (["ab"], [1], {"seed": 10**5000}, ParameterError, "seed= has 16610 bits"),
        (["ab"], [1], {"seed": np.array([1])}, ParameterError, "is not a non-negative integer"),
        (["ab"], [1], {"max_word_bits": np.array([1, 2])}, ParameterError, "is not a positive"),
        (["ab"], [1], {"task": np.array(["next", "last"])}, ParameterError, "unknown task="),
        (["ab"], np.array(1), {}, DataError, "1 sequences have 0 labels"),
        (["ab"], [("x", float("nan"))], {}, DataError, "which is not equal to itself"),
        ([[("x", float("nan"))]], [1], {}, DataError, "which is not equal to itself"),
    ],
)
def test_bad_input(sequences, labels, options, error, message):
    with pytest.raises(error, match=message):
        build_sequence_memorizer(sequences, labels, **options)


def test_a_data_set_has_its_labels_and_its_task():
    dataset = SequenceDataset.of(["ab", "ba"], ["x", "y"], task="last")
    memorizer = build_sequence_memorizer(dataset, seed=3)
    same = build_sequence_memorizer(["ab", "ba"], ["x", "y"], task="last", seed=3)
    assert memorizer.content() == same.content()
    assert build_sequence_memorizer(dataset, task="last", seed=3).content() == same.content()
    assert certify(memorizer, dataset).proved
    for arguments, options in (((["x", "y"],), {}), ((), {"task": "next"}), ((), {"task": [1]})):
        with pytest.raises(ParameterError, match="has its labels, and its task 'last'") as caught:
            build_sequence_memorizer(dataset, *arguments, **options)
        assert caught.value.suggestion == "build_sequence_memorizer(dataset)"


def test_no_prime_is_found(monkeypatch):
    monkeypatch.setattr(embedding, "_MOST_BITS", 6)  # a prime below 8 for 20 sums
    with pytest.raises(PrecisionError, match="no prime of up to 4 bits tells the examples apart"):
        build_sequence_memorizer([[i, i + 1] for i in range(20)], range(20))


def test_tokens_of_any_size():
    for scale in (Fraction(1, 10**300), 10**300, 1e-300):
        tokens = [[k * scale, -k * scale, 0] for k in range(1, 9)]
        memorizer = build_sequence_memorizer(tokens, range(8))
        assert memorizer.predict(tokens) == list(range(8))


def test_predictions_for_other_sequences():
    words = build_sequence_memorizer(["ab", "cd"], [1, 2])
    with pytest.raises(DataError, match="unknown token 'e'"):
        words.predict(["ae"])
    with pytest.raises(DataError, match="sequences have 3 tokens, not 2"):
        words.predict(["abc"])
    numbers = build_sequence_memorizer([[1, 2], [3, 4]], [1, 2])
    for other in (["ab"], [[(1, 2), (3, 4)]]):
        with pytest.raises(DataError, match="the tokens are no vectors of 1 numbers"):
            numbers.predict(other)
    assert repr(numbers).startswith("SequenceMemorizer(next, n=2, ")


def test_off_the_data_there_is_some_answer():
    memorizer = build_sequence_memorizer([[1], [2], [5], [9]], list("abcd"))
    for x in (0.5, 1.5, 4.9, 9.5):
        (found,) = memorizer.predict([[x]])
        assert found in [*"abcd", None]


def test_long_residues_do_not_overflow():
    rows = np.random.default_rng(1).integers(0, 2**60, (300, 3))
    weights = embedding.separating_weights(rows, np.random.default_rng(0))
    sums = {sum(weights.get(z, 0) for z in row) for row in rows.tolist()}
    assert len(sums) == 300


def test_booleans_are_classes():
    memorizer = build_sequence_memorizer(["a", "b"], [True, False])
    assert [type(label) for label in memorizer.predict(["b", "a"])] == [bool, bool]


def test_vectors_of_one_number_are_numbers():
    memorizer = build_sequence_memorizer([[(1,)], [2]], [1, 2])
    assert memorizer.predict([[1], [(2,)]]) == [1, 2]


def test_options_and_symbols_of_numpy(tmp_path):
    tokens, labels = np.array([["a", "b"], ["b", "b"]]), [(np.int64(1), np.str_("x")), "y"]
    memorizer = build_sequence_memorizer(
        tokens, labels, seed=np.int64(3), max_word_bits=np.uint8(20)
    )
    memorizer.save(tmp_path / "m.json")
    SequenceDataset.of(tokens, labels).save(tmp_path / "d.json")
    assert SequenceMemorizer.load(tmp_path / "m.json").predict(tokens) == [(1, "x"), "y"]


def test_tokens_are_mixed_with_a_salt():
    """No data can be made beforehand whose sums of mixed bits agree."""
    dataset = SequenceDataset.of([[0, 1], [2, 3]], [0, 1])
    values = np.arange(4)
    first, second = (examples._mixed(values, salt) for salt in (1, 2))
    assert not (first == second).any()
    assert dataset.told_apart_by(values, salt=5)
    assert not dataset.told_apart_by(np.array([1, 2, 2, 1]), salt=5)


def test_other_labels_of_numpy():
    days = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]")
    memorizer = build_sequence_memorizer(["a", "b"], days)
    assert memorizer.predict(["b"]) == [days[1]]


def test_numbers_among_symbols_are_symbols():
    sequences = [[1, 2], ["a", "b"], [(1, "x"), None]]
    memorizer = build_sequence_memorizer(sequences, ["p", None, 2.5])
    assert memorizer.predict([[2, 1]]) == ["p"]
    assert memorizer.predict(sequences) == ["p", None, 2.5]


def test_numbers_may_be_arrays():
    rng = np.random.default_rng(0)
    tokens, labels = rng.standard_normal((20, 3, 2)), rng.integers(9, size=20)
    memorizer = build_sequence_memorizer(tokens, labels)
    assert memorizer.predict(tokens) == labels.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["power_hash", "separating_set"])
def test_parameters_grow_as_the_square_root(name):
    """Next-token data of section 4 of the design: all tokens different, n = 8, 16 classes."""
    counts = {}
    for total in (64, 1024):
        rng = np.random.default_rng(0)
        numbers = rng.choice(10**6, size=(total, 8), replace=False)
        tokens = [[Fraction(int(x), 100) for x in row] for row in numbers]
        labels = rng.integers(16, size=total).tolist()
        memorizer = build_sequence_memorizer(tokens, labels, embedding=name)
        assert memorizer.predict(tokens) == labels
        counts[total] = memorizer.nonzero_parameters
    exponent = np.log(counts[1024] / counts[64]) / np.log(16)
    assert 0.4 < exponent < 0.62


@pytest.mark.parametrize("name", ["power_hash", "product_hash", "separating_set"])
@pytest.mark.parametrize("total", [15, 16, 17, 33])
def test_one_distinguishing_token(name, total):
    """All sequences agree but for one token; as many as a power of two, and one more or less."""
    sequences = [[0, 0, 10**6 + 7 * i] for i in range(total)]
    for labels in (list(range(total)), [i % 2 for i in range(total)]):
        memorizer = build_sequence_memorizer(sequences, labels, embedding=name)
        assert memorizer.predict(sequences) == labels
        assert memorizer.nonzero_parameters <= memorizer.record.sizes.bound


def test_all_tokens_are_equal():
    for task, labels in [("next", [3]), ("last", [3]), ("seq2seq", [[3, 3, 3]])]:
        memorizer = build_sequence_memorizer([[5, 5, 5]], labels, task=task)
        assert memorizer.predict([[5, 5, 5]]) == labels


def test_wide_tokens():
    rng = np.random.default_rng(0)
    tokens = rng.integers(-3, 4, size=(20, 3, 300))
    memorizer = build_sequence_memorizer(tokens, range(20))
    assert memorizer.predict(tokens) == list(range(20))


def test_sums_off_the_data_do_not_overflow():
    """An embedding may be long on tokens it was not built for; n times as much is a sum."""
    memorizer = build_sequence_memorizer([[1, 2], [3, 4]], [1, 2])
    columns, ids = memorizer.encode([[2**62, 2**62]])
    huge = np.array([2**61], dtype=np.int64)
    stream = [huge, np.zeros(1, dtype=np.int64)]
    assert memorizer.attention(stream, ids)[-1].tolist() == [[2**62, 2**62]]
    assert len(columns) == 1


@settings(max_examples=60, deadline=None)
@given(problems(), OPTIONS)
def test_registers_are_integers_and_those_carried_are_not_negative(problem, options):
    """Of the steps, as a program means them, on the tokens and the sums of the data."""
    dataset = SequenceDataset.of(*problem)
    rng = np.random.default_rng(options["seed"])
    chosen = build._Options(
        options["layout"], options["step"], options["backend"], options["max_word_bits"]
    )
    embedded = build._embedded(dataset, options["embedding"], chosen, rng)
    classified = build._classifier(dataset, embedded, chosen, rng)
    tokens = [dict(zip(embedded.program.inputs, row, strict=True)) for row in dataset.tokens]
    registers_of(embedded.program, tokens)
    sums = embedded.hashes[dataset.ids].sum(axis=1)
    contexts, own = dataset.with_own(sums, embedded.residues)
    keys = [{"h": 0, "t": int(t), "S": int(s)} for s, t in zip(contexts, own, strict=True)]
    found = registers_of(classified.program, keys)
    assert found == [dataset.values[label] for label in dataset.labels]


def registers_of(program, examples):
    """Run a program as it is written, and look at every register; its last outputs."""

    def value(affine, known):
        return affine.constant + sum(v * known[name] for name, v in affine.terms.items())

    last = []
    for inputs in examples:
        known = {name: value(affine, inputs) for name, affine in program.start.items()}
        for step, live in zip(program.steps, program.needed()[1:], strict=True):
            units = {name: max(value(unit, known), 0) for name, unit in step.units.items()}
            before = dict(known)
            known |= {name: value(u, before | units) for name, u in step.updates.items()}
            assert all(known[name] == int(known[name]) for name in live)
            updates = {name: step.updates.get(name, Affine({name: 1})) for name in live}
            carried = {p for u in updates.values() for p in u.terms if p not in step.units}
            assert all(before[name] >= 0 for name in carried), carried
        outputs = [value(output, known) for output in program.outputs]
        last.append(outputs[0])
    return last


@settings(max_examples=40, deadline=None)
@given(problems(tasks=st.just("seq2seq")), OPTIONS, st.lists(st.integers(0, 10**4), min_size=3))
def test_plain_and_residual_agree_off_the_data(problem, options, others):
    first, second = (problem.build(**options | {"backend": b}) for b in ("plain", "residual"))
    stream = [np.array(others, dtype=object)] * 3
    domain = 1 << (first.record.sizes.sum_bits - 1)
    keys = [np.array([x % max(domain // 8, 1) for x in others], dtype=object), *stream[1:]]
    sums = [keys[0], np.zeros(len(others), dtype=np.int64), keys[0] // 2]
    assert first.classifier(sums)[0].tolist() == second.classifier(sums)[0].tolist()


@settings(max_examples=40, deadline=None)
@given(problems(max_sequences=5), OPTIONS)
def test_an_evaluator_of_flint_agrees(problem, options):
    """The whole memorizer, dense, in rational matrices, with the mean of attention."""
    memorizer = problem.build(**options)
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
    found = np.array([int(x) for x in outputs], dtype=object)
    assert memorizer.labelled(found, len(ids)) == problem.labels


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=12))
def test_weights_of_a_separating_set_are_small(rows):
    """At most C(N, 2) + 1, where the least one is taken: here fewer than 16 classes change."""
    weights = embedding.separating_weights(np.array(rows), np.random.default_rng(0))
    count = len({tuple(sorted(row)) for row in rows})
    assert all(0 < weight <= count * (count - 1) // 2 + 1 for weight in weights.values())


def test_attention_is_uniform_or_none():
    memorizer = build_sequence_memorizer(["ab", "bb"], [1, 2])
    width = len(memorizer.attention.value_weights)
    for changes in (
        {"query_weights": (1,) * width, "key_weights": (1,) * width},
        {"key_weights": (0,) * (width - 1) + (Fraction(1, 9),)},
        {"query_weights": (0,) * (width + 3), "key_weights": ()},
    ):
        with pytest.raises(ParameterError, match="attention is not uniform, or of no width"):
            dataclasses.replace(memorizer.attention, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"context_size": 0}, "its parts do not fit together"),
        ({"task": "first"}, "its parts do not fit together"),
        ({"attention": UniformAttention.summing(2, 9)}, "its parts do not fit together"),
        ({"symbols": ("a", "a")}, "a symbol is there twice"),
        ({"classes": (1, True)}, "a class is there twice"),
    ],
)
def test_memorizers_of_parts_which_do_not_fit(changes, words):
    memorizer = build_sequence_memorizer(["ab", "bb"], [1, 2])
    with pytest.raises(ParameterError, match=words):
        dataclasses.replace(memorizer, **changes)
    wide = build_sequence_memorizer([[(1, 2)], [(3, 4)]], [1, 2])
    with pytest.raises(ParameterError, match="symbols are one number each"):
        dataclasses.replace(wide, symbols=("a", "b"))
