"""Certificates of decoders, as the checker reads them; and what a forger would try."""

import ast
import contextlib
import copy
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from checker_parts import (
    SOURCES,
    other_shapes,
    refused,
    said,
    saved,
    small,
)
from decoder_parts import TWO, by_hand, files_of, two_tokens
from mutations import content_of

from constructive import Text, certify
from constructive.certificates import claims as claim_rooms
from constructive.certificates.certificate import DECODER_FORMAT
from constructive.support.verdict import pack

BOUND = "0x1.0p-60"


@pytest.fixture(scope="module")
def recited():
    """The files of a text of 12 tokens."""
    return honest(*small())


def honest(decoder, text):
    return files_of(decoder, text, content_of(certify(decoder, text)))


# It is an island, and states what certify states.


def test_the_format_is_that_of_certify(checker):
    assert checker.decoders.Decoder.format == DECODER_FORMAT
    assert claim_rooms.__name__ not in ast.dump(ast.parse(SOURCES["decoders"].read_text()))


# What a forger would try.


def forged(files, folder, part, change):
    """Files with one of them changed, and the certificate signed anew: (tensors, about) are two."""
    files = copy.deepcopy(files)
    change(*[(files.content,), (files.weights, files.about), (files.text,)][part])
    if part:
        with contextlib.suppress(TypeError, KeyError, AttributeError):
            files.signed()
    return files.write(folder)


def evidence(name, **fields):
    return lambda c: c["claims"][name]["evidence"].update(fields)


def more_margin(content):
    """The next float above a bound which holds is one, too; twice it is not."""
    told = content["claims"]["recites"]
    bound = 2 * float.fromhex(told["evidence"]["bound"])
    told["evidence"]["bound"] = bound.hex()
    head, tail = told["statement"].split(", by ")
    told["statement"] = f"{head}, by {bound!r} {tail.split(' ', 1)[1]}"


def tensor(name, change):
    def altered(tensors, _):
        tensors[name] = np.ascontiguousarray(change(tensors[name]))

    return altered


def entry(name, value):
    def altered(tensors, _):
        tensors[name].reshape(-1)[3] = value

    return altered


def about(**fields):
    return lambda _, about: about.update(fields)


def record(**fields):
    return lambda _, about: about["record"].update(fields)


def other_words(_, about):
    about["vocabulary"] = [*about["vocabulary"][1:], about["vocabulary"][0]]


ALTERED = [
    (0, lambda c: c["data"].update(texts=True), "the certificate is about other data"),
    (0, lambda c: c["weights"].update(window=5), "the certificate is about other weights"),
    (0, more_margin, "recites: the least margin is "),
    (0, evidence("recites", bound="0x0p+0"), "recites: the least margin is "),
    (0, evidence("rank", columns=pack(np.zeros(12, int))), "a column of Z is named twice"),
    (1, tensor("U", lambda u: u * np.float32(np.nan)), "U is not finite"),
    (1, tensor("U", lambda u: -u), "another logit is as large"),
    (1, tensor("W_Q", lambda w: w * np.float32(np.pi)), "too fine for a table"),
    (1, entry("W_Q", 2.0**60), "short integers"),
    (1, entry("positions", 1e30), "do not add exactly"),
    (1, tensor("U", lambda u: u[:0]), "is not a shape"),
    (1, lambda t, _: t.pop("U"), "the weights are not"),
    (1, lambda t, _: t.update(more=t["U"]), "the weights are not"),
    (1, about(window=0), "the window is none"),
    (1, about(unit="bytes"), "different vocabularies"),
    (1, other_words, "different vocabularies"),
    (1, record(storage="float8"), "the storage is none"),
    (1, record(storage="float16"), "executed: its model does not store in float16"),
    (2, lambda d: d["texts"][0].pop(), "packed integers misfit"),
    (2, lambda d: d["texts"].append(d["texts"][0]), "it does not state: at all 24"),
    (2, lambda d: d.update(prompt=2), "packed integers misfit"),
]  # fmt: skip


@pytest.mark.parametrize(("part", "change", "words"), ALTERED)
def test_altered_files(checker, recited, tmp_path, part, change, words):
    status, printed = said(checker, forged(recited, tmp_path, part, change))
    assert status == 1
    assert printed.startswith("NOT PROVED: ")
    assert words in printed


def test_integers_are_no_strings_and_no_booleans(checker, tmp_path):
    """Vocabularies 0, 1 and False, True are equal in Python, and others in files."""
    files = honest(by_hand(TWO, two_tokens()), TWO)
    assert said(checker, files.write(tmp_path))[0] == 0
    for value in ([False, True], ["0", "1"]):
        others = forged(files, tmp_path, 2, lambda data, value=value: data.update(vocabulary=value))
        assert "the vocabulary is none" in said(checker, others)[1]
    different = forged(files, tmp_path, 1, about(vocabulary=[0, True]))
    assert "different vocabularies" in said(checker, different)[1]


# Files which are not files.


def rewritten(path, header=lambda h: h, body=lambda b: b):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    content = json.loads(raw[8 : 8 + length])
    told = json.dumps(header(content) or content).encode()
    path.write_bytes(struct.pack("<Q", len(told)) + told + body(raw[8 + length :]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"body": lambda body: body[:-1]}, "is cut off"),
        ({"header": lambda h: h.pop("__metadata__") and None}, "NOT PROVED"),
        ({"header": lambda h: h["__metadata__"].update(format="x") }, "are not decoder"),
        ({"header": lambda h: h["__metadata__"].update(decoder="[]")}, "NOT PROVED"),
        ({"header": lambda h: h["__metadata__"].update(decoder='{"window":1,"window":null}')},
         "repeats a key"),
    ],
)  # fmt: skip
def test_spoilt_weights(checker, recited, tmp_path, options, words):
    files = forged(recited, tmp_path, 0, lambda _: None)
    rewritten(Path(files[1]), **options)
    status, printed = said(checker, files)
    assert status == 1
    assert words in printed


# What it takes.

# lengths of texts, V, d, H, d_h, d_out, window: each large in one way or two
LARGE = [
    ([700], 5, 4, 4, 4, 4, None),
    ([3000], 5, 4, 2, 4, 4, 1),
    ([2000], 5, 4, 2, 4, 4, 70),
    ([300], 5, 1, 1, 60000, 1, None),
    ([10] * 200, 5, 2, 100, 2, 2, None),
    ([40], 5000, 8, 2, 2, 60, None),
    ([40], 5, 200, 4, 100, 3, None),
    ([60], 3, 1, 900, 1, 9, 50),
]


def asked(shape):
    """A decoder of this shape, and a text."""
    lengths, count, width, heads, inner, outputs, window = shape
    rng = np.random.default_rng(0)
    ids = rng.integers(count, size=sum(lengths))
    text = Text(tuple(range(count)), ids, np.array(lengths), 1, "ids")

    def signs(*size):
        return rng.integers(-1, 2, size=size)

    weights = {
        "embedding": signs(count, width),
        "positions": signs(max(lengths), width),
        "W_Q": signs(heads, width, inner),
        "W_K": signs(heads, width, inner) * 2.0**-4,
        "U": signs((heads + 1) * width, outputs),
        "unembedding": signs(count + 1, outputs),
    }
    return by_hand(text, weights, window=window), text


@pytest.mark.parametrize(
    ("shape", "names"),
    [(shape, ["recites", "executed"]) for shape in LARGE]
    + [(shape, ["rank"]) for shape in LARGE[::3]],
    ids=lambda given: str(given)[-40:],
)
def test_memory_is_not_above_what_is_announced(
    checker, monkeypatch, tmp_path, peak_of, shape, names
):
    decoder, text = asked(shape)
    total = len(text.different(decoder.layer.window)) if text.num_texts == 1 else len(text)
    rows = {
        "prime": 4194287, "value": 5, "columns": pack(np.arange(total)),
        "solution": pack(np.zeros(12 * total, int)),
    }  # fmt: skip
    told = {"rank": rows, "recites": {"bound": BOUND}, "executed": {"model": "float32, pairwise"}}
    content = {"format": DECODER_FORMAT, "verdict": "PROVED"}
    content["claims"] = {
        name: {"verdict": "PROVED", "statement": "", "evidence": told[name]} for name in names
    }
    files = files_of(decoder, text, content).signed().write(tmp_path)
    options = checker.verify.Options(quick=False, asked=(), epsilon=np.inf, most=1e10)
    announced = []
    monkeypatch.setattr(checker.decoders, "announce", lambda *needed: announced.append(needed[0]))
    of = checker.decoders.Decoder
    peak = peak_of(
        lambda: checker.verify.statements(of, content, files[1:], options),
        "recites|named|singular|state|misfit|vanish",
    )
    assert announced
    assert peak <= announced[0]


def test_tables_are_short(checker, tmp_path):
    text = TWO
    weights = two_tokens(W_Q=[[[2.0**-12], [0], [0]]], W_K=[[[0], [0], [1.0]]])
    decoder = by_hand(text, weights)
    certificate = certify(decoder, text)
    assert certificate["recites"].verdict.name == "PROVED"
    assert said(checker, saved(tmp_path, decoder, text, certificate))[0] == 0


# Texts, shapes of weights, and places.


TEXT = {
    "format": "constructive text 1",
    "unit": "words",
    "prompt": 2,
    "vocabulary": ["a", "b", "c"],
    "texts": [[0, 1, 2], [2, 0]],
}


def texts_of(checker, folder, **others):
    path = folder / "text.json"
    path.write_text(json.dumps(TEXT | others))
    return checker.decoders.read_texts(path, 1e9)


def test_texts_are_read(checker, tmp_path):
    texts, prompt, unit, vocabulary, data = texts_of(checker, tmp_path)
    assert [ids.tolist() for ids in texts] == TEXT["texts"]
    assert (prompt, unit, vocabulary) == (2, "words", ["a", "b", "c"])
    assert (data["texts"], data["tokens"], data["vocabulary"]) == (2, 5, 3)
    assert texts_of(checker, tmp_path, prompt=1)[-1]["sha256"] != data["sha256"]


NO_TEXT = [
    ({"format": "constructive text 2"}, "not text"),
    ({"more": 1}, "unit"),
    ({"unit": "lines"}, "unit"),
    ({"vocabulary": "abc"}, "no text"),
    *(({"texts": texts}, "no text") for texts in ([], {"0": [0, 1]})),
    *(({"vocabulary": ["a", "b", last]}, "vocabulary") for last in (3, "a")),
    *(({"prompt": prompt}, "prompt") for prompt in (0, True, 1.0)),
    ({"prompt": 3}, "shorter"),
    ({"texts": [[0, 1], "ab"]}, "shorter"),
    *(({"texts": [[0, 1], [0, token]]}, "a token") for token in (3, -1, True, 1.0)),
]


@pytest.mark.parametrize(("others", "word"), NO_TEXT)
def test_what_is_not_text(checker, tmp_path, others, word):
    with refused(word):
        texts_of(checker, tmp_path, **others)


SHAPES = {
    "embedding": (7, 3),
    "positions": (5, 3),
    "W_Q": (2, 3, 4),
    "W_K": (2, 3, 4),
    "U": (9, 6),
    "unembedding": (8, 6),
}
"""Of seven tokens, and texts of five."""


def require_shapes(checker, kinds=None, **others):
    shapes = {
        name: (np.dtype((kinds or {}).get(name, "<f4")), shape, 0)
        for name, shape in (SHAPES | others).items()
    }
    checker.decoders.require_shapes(shapes, 7, 5)


def test_shapes_which_fit_and_others(checker):
    """Any size alone is another one, but for positions that no text has."""
    require_shapes(checker)
    require_shapes(checker, positions=(6, 3))
    require_shapes(checker, U=(9, 1), unembedding=(8, 1))
    for name in SHAPES:
        with refused("float32"):
            require_shapes(checker, {name: "<f8"})
    for other in other_shapes(SHAPES, [{"positions": (6, 3)}]):
        with refused(r"axes|fit|unpack"):
            require_shapes(checker, **other)


@pytest.mark.parametrize("prompt", [1, 2, 3])
@pytest.mark.parametrize("window", [None, 1, 2, 3, 9])
def test_which_contexts_were_not_met_before(checker, window, prompt):
    """A place and the tokens in its window, also of texts before the prompt."""
    texts = [np.array(ids) for ids in ([0, 1, 1], [1, 1, 1, 2], [0, 1, 2, 0], [0, 1, 1, 2])]
    found = checker.decoders.different(texts, prompt, window).tolist()
    met, wanted, start = set(), [], 0
    for ids in texts:
        for i in range(len(ids)):
            context = (i, *ids[max(0, i + 1 - (window or 9)) : i + 1].tolist())
            wanted += [start + i] * (context not in met and i >= prompt - 1)
            met.add(context)
        start += len(ids)
    assert found == wanted
