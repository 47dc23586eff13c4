"""Every label, with ==, for small problems of every kind."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import DataError, ParameterError, PrecisionError, build_sequence_memorizer
from constructive.contextual import embedding

TASKS = ("next", "last", "seq2seq")
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
LABELS = st.one_of(
    st.integers(-3, 12), st.integers(0, 1 << 80), st.sampled_from(["cat", "dog", "cow"])
)
TOKENS = st.sampled_from(
    [
        st.integers(-3, 3),
        st.fractions(max_denominator=7).map(lambda x: x % 2),
        st.floats(-2, 2, width=16),
        st.tuples(st.integers(-2, 2), st.integers(0, 1), st.fractions(0, 1, max_denominator=3)),
        st.sampled_from("abcd"),
        st.sampled_from([b"x", ("y", 1), "z"]),
    ]
)


def key(task, sequence, position):
    """What a label may depend on."""
    context = frozenset(Counter(sequence).items())
    return context if task == "next" else (context, sequence[position])


@st.composite
def problems(draw):
    task = draw(st.sampled_from(TASKS))
    size = draw(st.integers(1, 4))
    rows = st.lists(draw(TOKENS), min_size=size, max_size=size)
    sequences = draw(st.lists(rows, min_size=1, max_size=7))
    kind, known = draw(st.sampled_from([LABELS, st.integers(0, 1), st.just(7)])), {}
    labels = []
    for sequence in sequences:
        positions = range(size) if task == "seq2seq" else [size - 1]
        keys = [key(task, sequence, position) for position in positions]
        row = [known.setdefault(k, draw(kind)) if k not in known else known[k] for k in keys]
        labels.append(row if task == "seq2seq" else row[0])
    return task, sequences, labels


@settings(max_examples=150, deadline=None)
@given(problems(), OPTIONS)
def test_every_label_is_reproduced(problem, options):
    task, sequences, labels = problem
    memorizer = build_sequence_memorizer(sequences, labels, task=task, **options)
    assert memorizer.predict(sequences) == labels


@settings(max_examples=30, deadline=None)
@given(problems(), OPTIONS, st.randoms(use_true_random=False))
def test_a_permutation_of_the_tokens(problem, options, random):
    task, sequences, labels = problem
    memorizer = build_sequence_memorizer(sequences, labels, task=task, **options)
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
    task, sequences, labels = problem
    first, second = (
        build_sequence_memorizer(sequences, labels, task=task, **options) for _ in range(2)
    )
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
        (["ab"], None, {}, DataError, "1 sequences have 0 labels"),
        (["ab"], [1], {"layout": np.array([1, 2])}, ParameterError, "unknown layout="),
        ([[float("inf")]], [1], {}, DataError, "a token is no finite number"),
        (["ab"], [1], {"task": "first"}, ParameterError, "unknown task='first'"),
        (["ab"], [1], {"embedding": "hash"}, ParameterError, "unknown embedding='hash'"),
        (["ab"], [1], {"layout": "tall"}, ParameterError, "unknown layout='tall'"),
        (["ab"], [1], {"backend": "jax"}, ParameterError, "unknown backend='jax'"),
        (["ab"], [1], {"step": "sigmoid"}, ParameterError, "unknown step='sigmoid'"),
        (["ab"], [1], {"max_word_bits": 0}, ParameterError, "max_word_bits=0 is not a positive"),
        (["ab"], [1], {"seed": -1}, ParameterError, "seed=-1 is not a non-negative"),
    ],
)
def test_bad_input(sequences, labels, options, error, message):
    with pytest.raises(error, match=message):
        build_sequence_memorizer(sequences, labels, **options)


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


def test_vectors_of_one_number_are_numbers():
    memorizer = build_sequence_memorizer([[(1,)], [2]], [1, 2])
    assert memorizer.predict([[1], [(2,)]]) == [1, 2]


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
