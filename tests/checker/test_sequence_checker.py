"""Certificates about sequences, and the third island, which checks them."""

import dataclasses
import functools
import json
from fractions import Fraction

import checker_parts
import pytest
from checker_parts import FILES_OF, saved

from constructive import (
    Certificate,
    DataError,
    Dataset,
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
from constructive.sequences import storage

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


# What holds is proved.


@pytest.mark.usefixtures("own_process")
def test_the_statements(proved, capsys, checker):
    assert checker.main(paths(proved)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "equality  f(X) == y for all 9 labels of N = 3 sequences of n = 3 tokens"
    assert lines[1].startswith("size      ")
    assert lines[2] == "PROVED"
    assert check(*paths(proved)).verdict is Verdict.PROVED


def test_the_table():
    memorizer = build_sequence_memorizer(["ab", "cd"], ["x", "y"])
    certificate = certify(memorizer, SequenceDataset.of(["ab", "cd"], ["x", "y"]))
    lines = str(certificate).splitlines()
    assert lines[0].startswith("Certificate: PROVED, for the stored rational weights")
    assert "N = 2, n = 2, 4 tokens, task next" in lines[1]
    assert repr(certificate) == "<Certificate: PROVED, equality PROVED, size PROVED>"


# What does not hold is refuted.


@pytest.mark.parametrize(
    ("labels", "witness", "detail"),
    [
        ([[7, 8, 7], [9, 7, 7], [11, 11, 12]], None, None),
        ([[7, 8, 7], [9, 0, 0], [11, 11, 11]], (1, 1), "2 labels differ: at (1, 1) it is 7, not 0"),
        ([[7, 8, 7], [9, 7, 7], ["x"] * 3], (2, 0), "3 labels differ: at (2, 0) it is 11, not 'x'"),
    ],
)
def test_other_labels_are_refuted(labels, witness, detail):
    memorizer = build_sequence_memorizer(SEQUENCES, LABELS, task="seq2seq")
    if witness is None:
        with pytest.raises(DataError, match="one multiset of tokens and one own token"):
            SequenceDataset.of(SEQUENCES, labels, "seq2seq")
        return
    claim = certify(memorizer, SequenceDataset.of(SEQUENCES, labels, "seq2seq"))["equality"]
    assert (claim.verdict, claim.witness) == (Verdict.REFUTED, witness)
    assert claim.detail == detail


def test_more_parameters_than_the_formula_are_refuted():
    """Words of 6 bits hold one key each, and need as many blocks."""
    sequences = [[i * i] for i in range(1500)]
    labels = [i % 32 for i in range(1500)]
    memorizer = build_sequence_memorizer(sequences, labels, max_word_bits=6)
    claim = certify(memorizer, SequenceDataset.of(sequences, labels))["size"]
    assert claim.verdict is Verdict.REFUTED
    assert claim.witness == memorizer.nonzero_parameters


def test_what_makes_no_sense_is_refused():
    memorizer = build_sequence_memorizer(["ab", "cd"], ["x", "y"])
    dataset = SequenceDataset.of(["ab", "cd"], ["x", "y"])
    with pytest.raises(ParameterError, match="are not claims about sequences"):
        certify(memorizer, dataset, claims=["rank"])
    with pytest.raises(ParameterError, match="'equality size' does not take epsilon="):
        certify(memorizer, dataset, epsilon=1e-6)
    other = generators.uniform(num_examples=7, context_size=3, width=5)
    with pytest.raises(DataError, match="a SequenceMemorizer does not fit a Dataset"):
        certify(memorizer, other)
    with pytest.raises(DataError, match="a Memorizer does not fit a SequenceDataset"):
        certify(build_memorizer(other, num_heads=3), dataset)
    with pytest.raises(ParameterError, match="are not claims about a layer"):
        certify(build_memorizer(other, num_heads=3), other, claims=["size"])
    with pytest.raises(ParameterError, match="not a SequenceDataset and a SequenceMemorizer"):
        certify(dataset, memorizer)
    with pytest.raises(DataError, match="the data are for task='last' and n=2"):
        certify(memorizer, SequenceDataset.of(["ab"], ["x"], "last"))
    with pytest.raises(DataError, match="unknown token 'e'"):
        certify(memorizer, SequenceDataset.of(["ae"], ["x"]))
    assert isinstance(other, Dataset)


# What a forger would try.


def forged(folder, target, part, change):
    """Files with one of them changed, and the certificate signed anew."""
    contents = [json.loads((folder / name).read_text()) for name in FILES]
    change(contents[FILES.index(part)])
    certificate, memorizer, data = contents
    if part != FILES[0]:
        certificate["data"]["sha256"] = storage.digest(data)
        certificate["weights"]["sha256"] = storage.digest(memorizer)
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
        (0, sizes(prime_bits=62), "sizes are above"),
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


SAME = [[1, 2, "a"], [2, 2, "a"], [1, 1, 2], [2, 2, 2]], ["x", "y", "x", "z"]


@pytest.mark.parametrize(
    ("built", "given", "words"),
    [
        (SAME, (SAME[0][2:], SAME[1][2:]), "the memorizer reads symbols"),
        ((["aa", "ab"], [0, 1]), ([["a", "a"], ["a", "b"]], [0, 1]), None),
        (([["a", 1], ["a", "b"]], [0, 1]), ([["a", True], ["a", "b"]], [0, 1]), "symbol True"),
        (([["a", 1], ["a", "b"]], [0, 1]), ([["a", 1.0], ["a", "b"]], [0, 1]), "symbol 1.0"),
        ((["ab", "bb"], ["u", 1]), (["ab", "bb"], ["u", True]), "label True"),
        ((["ab", "bb"], ["u", 1]), (["ab", "bb"], ["u", 1.0]), "label 1.0"),
        ((["ab", "bb"], [True, False]), (["ab", "bb"], [1, 0]), "label "),
        ((["ab", "bb"], [1, 2]), (["ab", "bb"], [True, 2]), None),
        ((["ab", "bb"], [1, 2]), (["ab", "bb"], [1.0, 2]), "label 1.0 is not an integer"),
        ((["ab", "bb"], [1, 2]), (["ab", "bb"], [Fraction(1), 2]), "label Fraction(1, 1)"),
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
    assert certificate["equality"].verdict is Verdict.REFUTED
    assert certificate["size"].verdict is Verdict.UNDECIDED
    assert "the label 'w' is none of the memorizer's" in certificate["size"].detail


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
    assert "token_bits = 58 of the record is more than the " in certificate["size"].detail
    capsys.readouterr()
    evidence = dataclasses.asdict(inflated)
    forged = dataclasses.replace(certificate["size"], verdict=Verdict.PROVED, evidence=evidence)
    certificate = dataclasses.replace(certificate, claims=(forged,))
    assert checker.main(saved(tmp_path, boasting, dataset, certificate)) == 1
    assert "sizes are above {'token_bits': " in capsys.readouterr().out


def test_formats_which_are_none(tmp_path):
    for content in ({"format": []}, {"format": {}}, {}, []):
        (tmp_path / "c.json").write_text(json.dumps(content))
        assert check(*[tmp_path / "c.json"] * 3).verdict is Verdict.UNDECIDED


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
        (2, lambda d: d["symbols"].__setitem__(1, ["str", "1"]), "is not one of the memorizer's"),
        (2, lambda d: d["classes"].__setitem__(1, ["str", ""]), "a label is none of"),
        (2, lambda d: d.update(tokens=[["0"], ["1"], ["2"], ["3"]], symbols=None), "reads symbols"),
    ]:
        target = tmp_path / words.replace(" ", "")[:12]
        target.mkdir(exist_ok=True)
        assert checker.main(forged(folder, target, FILES[part], change)) == 1
        assert words in capsys.readouterr().out


def test_the_layout_of_a_file_does_not_matter(checker, proved, tmp_path):
    for name in FILES:
        content = json.loads((proved / name).read_text())
        (tmp_path / name).write_text(json.dumps(content, indent=3, sort_keys=name != FILES[0]))
    assert checker.main(paths(tmp_path)) == 0
