"""What the checker makes of sequences, part by part, against Fractions one by one."""

import ast
import dataclasses
import functools
import itertools
import json
import math
from fractions import Fraction
from types import SimpleNamespace

import checker_parts
import numpy as np
import pytest
from checker_parts import FILES_OF, refused, saved

from constructive import (
    Certificate,
    DataError,
    FormatError,
    ParameterError,
    SequenceDataset,
    SequenceMemorizer,
    Verdict,
    build_memorizer,
    build_sequence_memorizer,
    certify,
    check,
    generators,
)
from constructive.sequences.claims import SIZE
from constructive.sequences.memorizer import BoundSizes
from constructive.sequences.network import combination
from constructive.support.files import digest
from constructive.support.verdict import Claim

LONGEST = 1 << 14


@pytest.fixture
def part(checker):
    return checker.sequences


@pytest.fixture
def free(part):
    return part.Work(math.inf, math.inf)


def column(part, entries):
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return part.Column(array)


# Numbers.


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("-1f", -31), ("f/2", Fraction(15, 2)), ("-1/10", Fraction(-1, 16)), ("10", 16)],
)
def test_numbers(part, text, value):
    found = part.number(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text", ["", "-0", "00", "01", "1/1", "2/4", "1/0", "0/5", "F", "1/-2", "+1", " 1", "1 ", "0x1",
             "1.0", "1/2/3", "1_0", "\u0661"]
)  # fmt: skip
def test_what_is_no_number(part, text):
    with refused(r"is not a number|not in lowest terms"):
        part.number(text)


def test_denominators_are_not_too_long(part):
    longest = "f" * (LONGEST // 4)
    assert part.number(f"1/{longest}").denominator == int(longest, 16)
    with refused("is too long"):
        part.number(f"1/{longest}f")
    assert part.number("1" * 30_000)  # a numerator may be
    below = Fraction(1, (1 << (LONGEST - 1)) - 1)
    assert part.whole(below) == below
    with refused("too long to go on"):
        part.whole(Fraction(1, (1 << (LONGEST - 1)) + 1))


@pytest.mark.parametrize("x", [-1, 7, True, 1.0, "1", None])
def test_what_is_no_index(part, x):
    with refused("is not an index below 7"):
        part.index(x, 7)


# What evaluation may cost.


@pytest.mark.parametrize(
    "row",
    [
        (list(range(20_000)), ["1"] * 20_000, f"{1 << 40_000_000:x}"),
        (list(range(9_000)), [f"1/{(1 << 999) + 2 * k + 1:x}" for k in range(9_000)], "0"),
    ],
    ids=["long bias", "many denominators"],
)
def test_rows_whose_sums_are_long_are_refused(part, row):
    found = part.Network({"residual": False, "layers": [{"inputs": len(row[0]), "rows": [row]}]})
    work = part.Work(part.MINUTE, 1e12)
    ones = [column(part, [1]) for _ in row[0]]
    with refused("more than a minute"):
        found(ones, work)


def test_numbers_made_to_have_one_hash_are_told_apart_quickly(part, free):
    """A set of them compares each with all others: half a minute for these."""
    prime = (1 << 61) - 1
    texts = [[f"{(2 * k + 1) * prime:x}/2"] for k in range(10_000)]
    assert {hash(part.number(x)) for (x,) in texts} == {0}
    network = {"inputs": 1, "rows": [[[0], ["1"], "0"]]}
    memorizer = SimpleNamespace(
        symbols=None, embedding=part.Network({"residual": False, "layers": [network]})
    )
    tokens = part.read_tokens({"tokens": texts, "symbols": None}, memorizer)
    assert len(tokens) == 10_000
    assert part.Memorizer.sums(None, tokens[:, 0], np.array([[0, 1]]), free).tolist() == [2 * prime]
    with refused("a token is there twice"):
        part.read_tokens({"tokens": [*texts, texts[5]], "symbols": None}, memorizer)


@pytest.mark.parametrize("fractions", [False, True])
@pytest.mark.parametrize("bits", [1, 60, 1000])
def test_bytes_of_sums_are_announced(part, free, monkeypatch, fractions, bits):
    """Of the columns so far, and of three more: the sum so far, the product, and their sum."""
    rng, held = np.random.default_rng(bits), []

    def draw():
        whole = int.from_bytes(rng.bytes(bits // 8 + 1), "big") - (1 << bits)
        return Fraction(whole, abs(whole) + 1) if fractions else whole

    x = [[draw() for _ in range(5)] for _ in range(3)]
    rows = [([1], [draw()], 0), ([0, 1, 2], [draw(), draw(), Fraction(1, 3)], draw())]
    columns = [column(part, entries) for entries in x]
    monkeypatch.setattr(free, "hold", held.append)
    found = part.affine(rows, columns, 5, free)
    before = sum(each.size for each in columns)
    for (names, values, bias), made, most in zip(rows, found, held, strict=True):
        terms = [[v * entry for entry in x[n]] for n, v in zip(names, values, strict=True)]
        assert made.entries.tolist() == [bias + sum(each) for each in zip(*terms, strict=True)]
        assert before + 3 * made.size <= most <= before + 3 * 5 * (80 + 30 * (bits + 100) // 8)
        before += made.size


# Networks.


def network(*layers, residual=False):
    listed = []
    for inputs, *rows in layers:
        texts = [[names, [text(v) for v in values], text(bias)] for names, values, bias in rows]
        listed.append({"inputs": inputs, "rows": texts})
    return {"residual": residual, "layers": listed}


def text(x):
    x = Fraction(x)
    sign, size = "-" * (x < 0), abs(x)
    whole = f"{sign}{size.numerator:x}"
    return whole if x.denominator == 1 else f"{whole}/{x.denominator:x}"


ROW = ([0, 1], [2, Fraction(-1, 3)], 5)
PASS = ([0], [1], 0)
PLAIN = [(2, ROW, ([1], [1], 0), ([0], [-1], 1)), (3, ([0, 2], [1, 7], 0), ([1], [4], -9))]


@pytest.mark.parametrize(
    ("layers", "residual", "words"),
    [
        ([], False, "without layers"),
        (PLAIN, 1, "without layers"),
        ([PLAIN[0], (2, ROW)], False, "layers do not fit"),
        ([PLAIN[0], (4, ROW)], False, "layers do not fit"),
        ([(True, ([0], [1], 0))], False, "a width is not a width"),
        ([(-1,)], False, "a width is not a width"),
        ([(2, ([2], [1], 0))], False, "is not an index below"),
        ([(2, ([0, 0], [1, 1], 0))], False, "a row is not a row"),
        ([(2, ([0, 1], [1], 0))], False, "a row is not a row"),
        ([(2, PASS, PASS), *PLAIN], True, "odd number of layers"),
        ([(2, ROW), (1, PASS), (1, PASS, PASS), (2, ROW)], True, "blocks of different widths"),
    ],
)  # fmt: skip
def test_what_is_no_network(part, layers, residual, words):
    with refused(words):
        part.Network(network(*layers, residual=residual))


# Memorizers.


EMBEDDING = network((2, ([0], [1], 0), ([0, 1], [1, 1], 0)))
CLASSIFIER = network((2, ([0, 1], [1, 1], 0)))


def memorizer(**changes):
    return {
        "task": "next", "context_size": 3, "embedding": EMBEDDING, "classifier": CLASSIFIER,
        "attention": {"W_Q": ["0", "0"], "W_K": ["0", "0"], "W_V": ["0", "1"], "W_O": ["0", "1"]},
        "symbols": None, "classes": None,
    } | changes  # fmt: skip


def attention(**changes):
    return {"attention": memorizer()["attention"] | changes}


ONE = network((2, ([0], [1], 0)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "first"}, "unknown task"),
        ({"context_size": 0}, "n is not a number"),
        ({"context_size": 3.0}, "n is not a number"),
        (attention(W_Q=["0", "1"]), "not uniform"),
        (attention(W_K=["1", "0"]), "not uniform"),
        (attention(W_V=["0"]), "do not fit"),
        (attention(W_K=["0"]), "do not fit"),
        (attention(W_O="00"), "'00' is not a list"),
        (attention(more=[]), "other weights"),
        ({"classifier": network((3, ([0], [1], 0)))}, "do not fit"),
        ({"classifier": network((2, ([0], [1], 0), ([0], [1], 0)))}, "do not fit"),
        ({"embedding": ONE, "classifier": network((1, ([0], [1], 0)))}
         | attention(W_Q=["0"], W_K=["0"], W_V=["0"], W_O=["0"]), "do not fit"),
        ({"symbols": [["str", "a"]]}, "symbols are one number each"),
    ],
)  # fmt: skip
def test_what_is_no_memorizer(part, changes, words):
    with refused(words):
        part.Memorizer(memorizer(**changes))


def test_values_need_a_common_denominator(part, free):
    found = part.Memorizer(memorizer())
    odd = (1 << (LONGEST // 2)) - 1
    values = np.array([Fraction(1, odd), Fraction(1, odd + 2)], dtype=object)
    with refused("no common denominator"):
        found.sums(values, np.array([[0, 1]]), free)
    one = found.sums(values[:1], np.array([[0, 0, 0], [0, 0, 0]]), free)
    assert one.tolist() == [Fraction(3, odd)] * 2


@pytest.mark.parametrize("large", [2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70])
def test_values_as_long_as_words_are_added_exactly(part, free, large):
    """Of mixed signs, too, of which numpy makes floats beyond 2^63."""
    found = part.Memorizer(memorizer())
    values = np.array([large, -1, 3], dtype=object)
    sums = found.sums(values, np.array([[0, 0, 1], [1, 1, 2]]), free)
    assert sums.tolist() == [2 * large - 1, 1]
    assert {type(x) for x in sums.tolist()} == {int}


@pytest.mark.parametrize("most", [2, 5, 1000, 5000])
@pytest.mark.parametrize("total", [1, 7, 1024, 1025, 3000])
def test_as_many_examples_at_a_time_as_fit(part, most, total):
    def function(some):
        if len(some) > most:
            raise MemoryError
        return sum(some)

    seen = list(part.in_parts(function, total))
    assert [k for some, _ in seen for k in some] == list(range(total))
    assert all(result == sum(some) for some, result in seen)
    at_once = min(most, 1024)
    assert max(len(some) for some, _ in seen) <= at_once
    assert len(seen) <= 2 * total / at_once + total / 1024 + 1  # not many more than needed


def test_one_example_which_does_not_fit(part):
    def function(_):
        raise MemoryError

    with refused("one example takes more"):
        list(part.in_parts(function, 5))


# Data.


@pytest.mark.parametrize("listed", ["", "ab", {}, {"ab": 1}, ["ab"], [["a"]], [["a", "b", "c"]], 7])
def test_what_is_no_list_of_pairs(part, listed):
    with pytest.raises((ValueError, TypeError), match=r"pairs of a kind|is not a list"):
        part.places(listed)


def read(part, **data):
    content = {"tokens": None, "symbols": None, "classes": [["int", "1"]]} | data
    found = part.Memorizer(memorizer(embedding=network((1, ([0], [1], 0), ([0], [2], 0)))))
    return part.read_tokens(content, found), part.read_labels(content, found)


def test_tokens_and_labels(part):
    tokens, labels = read(
        part,
        tokens=[["0"], ["-1/2"], ["f"]],
        classes=[["int", "-a"], ["bool", 1], ["bool", 0], ["int", "5"]],
    )
    assert tokens.tolist() == [[0], [Fraction(-1, 2)], [15]]
    assert labels == [-10, 1, 0, 5]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"tokens": []}, "tokens have not 1 entries"),
        ({"tokens": [[]]}, "tokens have not 1 entries"),
        ({"tokens": [["1", "2"]]}, "tokens have not 1 entries"),
        ({"tokens": [["1"], ["1"]]}, "a token is there twice"),
        ({"tokens": [["1"]], "symbols": [["str", "a"]]}, "tokens, or symbols"),
        ({}, "tokens, or symbols"),
        ({"symbols": [["str", "a"]]}, "knows no symbols"),
        ({"tokens": [["1"]], "classes": []}, "there are no classes"),
        ({"tokens": [["1"]], "classes": [["str", "a"]]}, "puts out integers"),
        ({"tokens": [["1"]], "classes": [["bool", 2]]}, "is not an index below 2"),
        ({"tokens": [["1"]], "classes": [["bool", "1"]]}, "is not an index below 2"),
        ({"tokens": [["1"]], "classes": [["bool", True]]}, "is not an index below 2"),
        ({"tokens": [["1"]], "classes": [["int", "1/2"]]}, "a label is not an integer"),
    ],
)
def test_data_which_are_none(part, data, words):
    with refused(words):
        read(part, **data)


# Sizes.


@pytest.mark.parametrize("keys", [1, 2, 3, 10, 57, 300])
@pytest.mark.parametrize(
    ("label_bits", "key_bits"),
    [pair for pair in itertools.product([0, 1, 4, 11], [0, 1, 5, 20]) if any(pair)],
)
def test_the_least_dictionary_is_found(part, keys, label_bits, key_bits):
    """Among all sizes and lengths of blocks, not only those that may be best."""
    reach = label_bits + key_bits
    costs = [
        14 * (math.ceil(keys / entries) + 2 ** (reach - bits) + 1)
        + 15 * ((entries - 1) * bits + entries)
        for entries in range(1, 2 * keys + 9)
        for bits in range(max(1, reach - 14), reach + 1)
    ]
    assert part.dictionary_bound(keys, label_bits, key_bits) == min(costs) + 40


PROBLEMS = [
    ([[i * i % 97, i] for i in range(12)], [i % 5 for i in range(12)], "next"),
    ([[(1, 2), (3, 4), (1, 2)], [(1, 2), (3, 4), (3, 4)], [(Fraction(1, 3), 0)] * 3],
     [[7, 8, 7], [9, 7, 7], [11, 11, 11]], "seq2seq"),
    ([[5, 5, 6], [6, 5, 5], [7, -900, 5], [6, 6, 6]], [1, 2, 3, -4], "last"),
    (["abca", "bcdd", "aaaa"], ["x", "y", "x"], "next"),
]  # fmt: skip


CLAIMED = [
    (0, "product_hash"), (0, "separating_set"), (1, "separating_set"), (1, "float_separating_set"),
    (2, "float_separating_set"), (3, "product_hash"),
]  # fmt: skip


@pytest.fixture(params=CLAIMED, ids=str)
def claimed(part, request):
    """A memorizer and its data, and what check_size is given for them beside sizes."""
    number, construction = request.param
    sequences, labels, task = PROBLEMS[number]
    memorizer = build_sequence_memorizer(sequences, labels, task=task, construction=construction)
    dataset = SequenceDataset.of(sequences, labels, task)
    found, data = part.Memorizer(memorizer.content()), dataset.content()
    tokens, classes = part.read_tokens(data, found), part.read_labels(data, found)
    expected = [classes[i] for i in data["labels"]]
    return memorizer, dataset, (found, tokens, np.array(data["ids"]), expected)


SPARE = 8  # bits for the chance by which a search missed the least number


def largest_sizes(memorizer, dataset, sizes):
    """Return the largest possible value of each size but for `keys`, `width` and `label_bits`."""
    columns, ids = memorizer.encode_dataset(dataset)
    contexts, _ = dataset.keys(np.arange(len(dataset.tokens)))
    hashes = bits_of_hashes(memorizer, columns)
    pairs = 2 * len(ids).bit_length() + SPARE
    longest = memorizer.context_size.bit_length()
    longest += max(sizes.residue_bits, 1) * (pairs + SPARE)
    return {
        "token_bits": bits_of_tokens(memorizer, columns),
        "residue_bits": sizes.token_bits,
        "kept": max(len(np.unique(contexts)) - 1, 1),
        "weight_bits": min(hashes + 1, pairs),
        "sum_bits": min(hashes + 1, longest) + sizes.residue_bits + 1,
        "key_bits": min(sizes.sum_bits, 2 * sizes.keys.bit_length() + SPARE),
    }


def bits_of_tokens(memorizer, columns):
    """Return bits of U: of what a projection reaches, and of what units of the first layer span.

    One of these units holds the projection, and one three times it; or none holds anything.
    """
    count, width = len(columns[0]), len(columns)
    entries = [x for column in columns for x in column.tolist()]
    unit = math.lcm(*(x.denominator for x in entries))
    reach = (2 * width * int(max(abs(x * unit) for x in entries)) + 1).bit_length()
    reach += 0 if width == 1 else 2 * count.bit_length() + SPARE
    units = (unit.tolist() for unit in memorizer.embedding.layers[0](columns, count))
    spans = (int(max(unit) - min(unit) + 1) for unit in units if max(unit) > min(unit))
    return min([reach, *(span.bit_length() for span in spans)])


def bits_of_hashes(memorizer, columns):
    """Return bits of n times the largest hash of a token, which attention reads."""
    read = combination(memorizer.embedding(columns), memorizer.attention.value_weights)
    return int(max(*read.tolist(), 0)).bit_length()


def test_sizes_are_those_of_the_data_and_possible(part, free, claimed):
    """And no larger than what the memorizer computes allows."""
    memorizer, dataset, given = claimed
    honest = certify(memorizer, dataset, claims=["size"])["size"].evidence
    for name in honest:
        wrong = honest | {name: honest[name] + 1000}
        allowed = {name: honest[name] for name in ("keys", "width", "label_bits")}
        words = "the sizes of the data are"
        if name not in allowed:
            allowed = largest_sizes(memorizer, dataset, BoundSizes(**wrong))
            words = "sizes are above"
        with pytest.raises(ValueError, match=words) as caught:
            part.check_size(wrong, *given, free)
        said = str(caught.value)
        assert ast.literal_eval(said[said.index("{") :]) == allowed
    for value in (1.0, True, -1, "1", None):
        with pytest.raises((ValueError, TypeError), match=r"a size is not a number|not supported"):
            part.check_size(honest | {"kept": value}, *given, free)
    for wrong in (honest | {"more": 1}, {k: v for k, v in honest.items() if k != "kept"}):
        with refused("names other sizes"):
            part.check_size(wrong, *given, free)


@pytest.mark.parametrize("chunk", [1, 4])
def test_the_extents_of_all_tokens_count(part, free, claimed, as_if, chunk):
    _, _, (found, tokens, *_) = claimed
    whole = part.extents(found, tokens, free)
    as_if("sequences", CHUNK=chunk)
    assert part.extents(found, tokens, free) == whole


@pytest.mark.parametrize("chunk", [2, 1024])
def test_every_label_is_looked_at(part, free, claimed, as_if, chunk):
    _, _, (found, tokens, ids, expected) = claimed
    as_if("sequences", CHUNK=chunk)
    part.check_equality(found, tokens, ids, expected, free)
    for k in range(len(expected)):
        wrong = [y + (i == k) for i, y in enumerate(expected)]
        with refused(f"label {k} is "):
            part.check_equality(found, tokens, ids, wrong, free)


# Certificates about sequences, and the third island, which checks them.


FILES = FILES_OF[SequenceDataset]
paths = functools.partial(checker_parts.paths, kind=SequenceDataset)
SEQUENCES = [[(1, 2), (3, 4), (1, 2)], [(1, 2), (3, 4), (3, 4)], [(Fraction(1, 3), 0)] * 3]
LABELS = [[7, 8, 7], [9, 7, 7], [11, 11, 11]]


@pytest.fixture(scope="module")
def proved(tmp_path_factory):
    """A folder with the files of three sequences, with a label for each token."""
    folder = tmp_path_factory.mktemp("sequences")
    memorizer = build_sequence_memorizer(SEQUENCES, LABELS, task="seq2seq")
    saved(folder, memorizer, SequenceDataset.of(SEQUENCES, LABELS, "seq2seq"))
    return folder


# What does not hold is refuted.


@pytest.mark.parametrize(
    ("labels", "witness", "detail"),
    [
        ([[7, 8, 7], [9, 0, 0], [11, 11, 11]], (1, 1), "label 4 is 7, not 0"),
        ([[7, 8, 7], [9, 7, 7], [1 << 9000] * 3], (2, 0), "label 6 is 11, not a long number"),
    ],
)
def test_other_labels_are_refuted(labels, witness, detail):
    memorizer = build_sequence_memorizer(SEQUENCES, LABELS, task="seq2seq")
    claim = certify(memorizer, SequenceDataset.of(SEQUENCES, labels, "seq2seq"))["equality"]
    assert (claim.verdict, claim.witness) == (Verdict.REFUTED, witness)
    assert claim.detail == detail


def test_more_parameters_than_the_formula_are_refuted():
    """Words of 6 bits hold one key each, and need as many blocks."""
    sequences = [[i * i] for i in range(1500)]
    labels = [i % 32 for i in range(1500)]
    memorizer = build_sequence_memorizer(sequences, labels, max_word_bits=6)
    dataset = SequenceDataset.of(sequences, labels)
    certificate = certify(memorizer, dataset)
    claim = certificate["size"]
    assert claim.verdict is Verdict.REFUTED
    assert claim.witness == memorizer.nonzero_parameters
    evidence = SIZE.propose(SimpleNamespace(weights=memorizer, data=dataset))
    forged = Claim("size", claim.statement, Verdict.PROVED, "", evidence=evidence)
    report = check(dataclasses.replace(certificate, claims=(forged,)), memorizer, dataset).report
    assert f"size: {claim.witness} parameters, above" in report


def test_what_makes_no_sense_is_refused():
    memorizer = build_sequence_memorizer(["ab", "cd"], ["x", "y"])
    dataset = SequenceDataset.of(["ab", "cd"], ["x", "y"])
    other = generators.uniform(num_examples=7, context_size=3, width=5)
    layer = build_memorizer(other, num_heads=3)
    for error, words, weights, data, options in (
        (ParameterError, "are not claims about sequences", memorizer, dataset, {"claims": "rank"}),
        (ParameterError, "does not take epsilon=", memorizer, dataset, {"epsilon": 1e-6}),
        (ParameterError, "are not claims about a layer", layer, other, {"claims": "size"}),
        (ParameterError, "not a SequenceDataset and then a SequenceM", dataset, memorizer, {}),
        (DataError, "a SequenceMemorizer does not fit a Dataset", memorizer, other, {}),
        (DataError, "a Memorizer does not fit a SequenceDataset", layer, dataset, {}),
        (DataError, "task='last'", memorizer, SequenceDataset.of(["ab"], ["x"], "last"), {}),
        (DataError, "unknown token 'e'", memorizer, SequenceDataset.of(["ae"], ["x"]), {}),
    ):
        with pytest.raises(error, match=words):
            certify(weights, data, **options)


# What a forger would try.


def forged(folder, target, part, change):
    """Files with one of them changed, and the certificate signed anew."""
    contents = [json.loads((folder / name).read_text()) for name in FILES]
    change(contents[FILES.index(part)])
    certificate, memorizer, data = contents
    if part != FILES[0]:
        certificate["data"]["sha256"] = digest(data)
        certificate["weights"]["sha256"] = digest(memorizer)
    for name, content in zip(FILES, contents, strict=True):
        (target / name).write_text(json.dumps(content))
    return paths(target)


def sizes(**fields):
    return lambda c: c["claims"]["size"]["evidence"].update(fields)


def long_fraction(memorizer):
    """A layer which divides by a long number."""
    last_row(memorizer["classifier"])[2] = "1/" + "f" * 5000


def long_fractions(memorizer):
    """Layers which divide by numbers whose product is long."""
    rows = [row for layer in memorizer["classifier"]["layers"] for row in layer["rows"]]
    for place, row in enumerate(row for row in rows if row[2] != "0"):
        row[2] = "1/" + ("f" * 3000 if place % 2 else "1" + "0" * 2999)


def last_row(network):
    return network["layers"][-1]["rows"][-1]


@pytest.mark.parametrize(
    ("part", "change", "words"),
    [
        (0, lambda c: c["data"].update(sequences=3.0), "something else than"),
        (0, lambda c: c["weights"].update(nonzero=3), "something else than"),
        (0, lambda c: c["weights"].update(classifier_depth=1), "something else than"),
        (0, sizes(residue_bits=9), "sizes are above"),
        (0, sizes(prime_bits=62), "no network has a power hash"),
        (0, sizes(prime_bits=0), "it does not state"),
        (0, sizes(key_bits=4), "it does not state"),
        (0, sizes(keys=6), "the sizes of the data are"),
        (1, lambda m: m.update(task="next"), "another task"),
        (1, lambda m: m.update(context_size=4), "lengths differ"),
        (1, lambda m: last_row(m["classifier"]).__setitem__(2, "8"), "equality: label 0"),
        (2, lambda d: d["ids"].reverse(), "equality: label"),
        (2, lambda d: d["ids"].append([0, 0, 0]), "labels do not fit"),
        (2, lambda d: d["ids"][0].append(0), "lengths differ"),
        (2, lambda d: d["labels"].reverse(), "equality: label"),
        (2, lambda d: d["labels"].pop(), "labels do not fit"),
        (2, lambda d: d["classes"].__setitem__(0, ["int", "c"]), "equality: label"),
        (2, lambda d: d["tokens"].append(["1", "1"]), "a token is in no sequence"),
        (2, lambda d: d["classes"].append(["int", "5"]), "a class is the label of nothing"),
        (1, long_fraction, "ffff' is too long"),
        (1, long_fractions, "a denominator is too long to go on"),
        (2, lambda d: d.update(ids=[], labels=[]), "lengths differ"),
    ],
)  # fmt: skip
def test_altered_files(checker, proved, tmp_path, capsys, part, change, words):
    assert checker.main(forged(proved, tmp_path, FILES[part], change)) == 1
    said = capsys.readouterr().out
    assert words in said
    assert said.startswith("NOT PROVED: ")


def test_certificates_with_a_size_that_is_gone(checker, proved, tmp_path, capsys):
    """They name `prime_bits`, which was 0 for all."""

    def before(certificate):
        size = certificate["claims"]["size"]
        size["evidence"]["prime_bits"] = 0
        size["statement"] = size["statement"].replace(", kept ", ", prime_bits 0, kept ")

    assert checker.main(forged(proved, tmp_path, FILES[0], before)) == 0
    assert "prime_bits 0, kept" in capsys.readouterr().out


SAME = [[1, 2, "a"], [2, 2, "a"], [1, 1, 2], [2, 2, 2]], ["x", "y", "x", "z"]


@pytest.mark.parametrize(
    ("built", "given", "words"),
    [
        (SAME, (SAME[0][2:], SAME[1][2:]), "the memorizer reads symbols"),
        ((["aa", "ab"], [0, 1]), ([["a", "a"], ["a", "b"]], [0, 1]), None),
        (
            ([["a", 1], ["a", "b"]], [0, 1]),
            ([["a", True], ["a", "b"]], [0, 1]),
            'has no symbol ["bool", 1]',
        ),
        (
            ([["a", 1], ["a", "b"]], [0, 1]),
            ([["a", 1.0], ["a", "b"]], [0, 1]),
            "has no symbol",
        ),
        (
            (["ab", "bb"], ["u", 1]),
            (["ab", "bb"], ["u", True]),
            'has no label ["bool", 1]',
        ),
        ((["ab", "bb"], ["u", 1]), (["ab", "bb"], ["u", 1.0]), "has no label"),
        ((["ab", "bb"], [True, False]), (["ab", "bb"], [1, 0]), "label "),
        ((["ab", "bb"], [1, 2]), (["ab", "bb"], [True, 2]), None),
        ((["ab", "bb"], [1, 2]), (["ab", "bb"], [1.0, 2]), 'integers, and not ["float", '),
        (
            (["ab", "bb"], [1, 2]),
            (["ab", "bb"], [Fraction(1), 2]),
            'integers, and not ["Fraction", "1/1"]',
        ),
    ],
)
def test_what_python_holds_for_equal_is_of_one_kind_in_files(
    checker, tmp_path, built, given, words
):
    """Labels are met, to Python; what certify proves, the checker accepts."""
    memorizer, dataset = build_sequence_memorizer(*built), SequenceDataset.of(*given)
    assert memorizer.predict(given[0]) == given[1]
    certificate = certify(memorizer, dataset)
    if words is None:
        assert certificate.proved
        assert checker.main(saved(tmp_path, memorizer, dataset)) == 0
        return
    for claim in certificate.claims:
        assert claim.verdict is Verdict.UNDECIDED
        assert words in claim.detail


def test_labels_which_the_memorizer_does_not_know():
    memorizer = build_sequence_memorizer(["ab", "bb"], ["u", "v"])
    dataset = SequenceDataset.of(["ab", "bb"], ["u", "w"])
    certificate = certify(memorizer, dataset)
    for claim in certificate.claims:
        assert claim.verdict is Verdict.UNDECIDED
        assert claim.detail == 'the memorizer has no label ["str", "w"]'


def test_a_scale_in_the_network_does_not_inflate_the_bound(checker, tmp_path, capsys):
    """All registers times 2^50: the network is another, the range of its tokens is not."""
    sequences, labels = [[i * i % 97, i] for i in range(30)], [i % 5 for i in range(30)]
    memorizer = build_sequence_memorizer(sequences, labels)
    layers = list(memorizer.embedding.layers)
    for place, layer in enumerate(layers):  # registers are written, and read, in turn
        scale = Fraction(1, 1 << 50) if place % 2 else 1 << 50
        values = tuple(tuple(v * scale for v in row) for row in layer.values)
        biases = layer.biases if place % 2 else tuple(b * scale for b in layer.biases)
        layers[place] = dataclasses.replace(layer, values=values, biases=biases)
    embedding = dataclasses.replace(memorizer.embedding, layers=tuple(layers))
    other = dataclasses.replace(memorizer, embedding=embedding)
    assert other.predict(sequences) == labels
    dataset = SequenceDataset.of(sequences, labels)
    assert checker.main(saved(tmp_path, other, dataset)) == 0
    inflated = dataclasses.replace(memorizer.record.sizes, token_bits=58)
    record = dataclasses.replace(memorizer.record, sizes=inflated)
    boasting = dataclasses.replace(other, record=record)
    certificate = certify(boasting, dataset)
    assert certificate["size"].verdict is Verdict.UNDECIDED
    assert "sizes are above {'token_bits': " in certificate["size"].detail
    capsys.readouterr()
    evidence = dataclasses.asdict(inflated)
    forged = dataclasses.replace(certificate["size"], verdict=Verdict.PROVED, evidence=evidence)
    certificate = dataclasses.replace(certificate, claims=(forged,))
    assert checker.main(saved(tmp_path, boasting, dataset, certificate)) == 1
    assert "sizes are above {'token_bits': " in capsys.readouterr().out


def test_long_labels_take_no_memory(checker, tmp_path):
    sequences, labels = [[i] for i in range(40)], [1 << 20000, *[0] * 39]
    memorizer = build_sequence_memorizer(sequences, labels)
    dataset = SequenceDataset.of(sequences, labels)
    assert checker.main(saved(tmp_path, memorizer, dataset)) == 0


def test_files_in_another_order(proved):
    certificate, memorizer, data = paths(proved)
    for files, words in [
        ((memorizer, certificate, data), "the certificate .*memorizer.json is a memorizer"),
        ((data, memorizer, certificate), "the certificate .*data.json is the data"),
        ((certificate, data, memorizer), "the memorizer .*data.json is the data"),
        ((certificate, memorizer, "none.json"), "the data none.json is not there"),
        ((certificate, memorizer, proved), "is not a regular file"),
    ]:
        with pytest.raises(FormatError, match=words) as caught:
            check(*files)
        assert "certificate, memorizer, data" in caught.value.suggestion
    assert "needs a memorizer and data" in check(certificate, None, data).report


def test_objects_are_checked_as_their_files_are(proved):
    certificate = Certificate.load(proved / FILES[0])
    memorizer = SequenceMemorizer.load(proved / FILES[1])
    dataset = SequenceDataset.load(proved / FILES[2])
    checked = check(certificate, memorizer, dataset)
    assert checked.proved
    assert repr(checked) == "<Checked: PROVED>"
    refused = check(certificate, memorizer, dataset, max_memory=1e-9)
    assert repr(refused).startswith("<Checked: UNDECIDED, NOT PROVED: ")
    assert repr(refused)[:-1].endswith(str(refused).splitlines()[-1])
    assert check(proved / FILES[0], memorizer, str(proved / FILES[2])).proved
    with pytest.raises(FormatError, match="the memorizer is a SequenceDataset"):
        check(certificate, dataset, memorizer)
    with pytest.raises(ParameterError, match="the memorizer is a list") as caught:
        check(certificate, [1], dataset)
    assert "Memorizer.from_torch reads a module" in caught.value.suggestion


def test_symbols_and_classes(checker, tmp_path, capsys):
    """Kinds count: a 1 is not "1", whatever their places are."""
    sequences, labels = [["a", 1], ["b", b"x"]], ["p", None]
    memorizer = build_sequence_memorizer(sequences, labels)
    folder = tmp_path / "honest"
    folder.mkdir()
    assert checker.main(saved(folder, memorizer, SequenceDataset.of(sequences, labels))) == 0
    for part, change, words in [
        (1, lambda m: m["symbols"].reverse(), "NOT PROVED"),
        (1, lambda m: m["classes"].reverse(), "equality: label 0"),
        (1, lambda m: m["symbols"].append(m["symbols"][0]), "is named twice"),
        (1, lambda m: m.update(symbols=None), "knows no symbols"),
        (2, lambda d: d["symbols"].__setitem__(1, ["str", "1"]), "has no symbol"),
        (2, lambda d: d["classes"].__setitem__(1, ["str", ""]), "has no label"),
        (2, lambda d: d.update(tokens=[["0"], ["1"], ["2"], ["3"]], symbols=None), "reads symbols"),
    ]:
        target = tmp_path / words.replace(" ", "")[:12]
        target.mkdir(exist_ok=True)
        assert checker.main(forged(folder, target, FILES[part], change)) == 1
        assert words in capsys.readouterr().out
