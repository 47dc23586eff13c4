"""Decoders recite what they were built for, from every prompt, and say what they cannot hold."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from constructive import (
    CapacityError,
    CausalLayer,
    DataError,
    Decoder,
    DecoderRecord,
    FormatError,
    ParameterError,
    PrecisionError,
    Text,
    Verdict,
    build_decoder,
    certify,
)
from constructive.exact.formats import rounded
from constructive.exact.softmax import Floats
from constructive.layers.attention import CausalView, attend
from constructive.recite.build import TAKES, spread_codes
from constructive.recite.causal import LEAD, picks, read_tokens
from constructive.recite.compact_readout import nearest_plane, polished, solve_cells
from constructive.recite.compact_tokens import base_of, cells_of, points_of
from constructive.recite.decoder import recital
from constructive.support import errors

# Both constructions of decoders keep the laws; what many parameters are by default.


CAT = "the cat sat on the mat, and the cat saw the rat"
LONGER = f"{CAT}; the rat sat on the cat"

TEXTS = [
    Text.words(CAT),
    Text.of([5]),
    Text.of([7, 9]),
    Text.of([0] * 50 + [1]),
    Text.bytes(b"ab" * 30),
    Text.words("one two three four", "three two four", "two one one", "four one", prompt=2),
]

# A value for each option, which works where the option is taken.
GIVEN = {
    "width": 32, "num_heads": 2, "head_dim": 4, "window": 4, "code_width": 8, "outputs": 2,
    "readout": "int8", "every": True,
}  # fmt: skip


def assert_recites(decoder, text):
    assert decoder.recites(text)
    for tokens in text.texts:
        assert decoder.generate(tokens[: text.prompt]) == tokens  # it ends where the text does
        assert decoder.generate(tokens[: text.prompt], text.prompt) == tokens[: text.prompt]
        half = max(1, len(tokens) // 2)
        assert decoder.generate(tokens[:1], half) == tokens[:half] or text.prompt > 1
        assert decoder.logits(tokens).shape == (len(tokens), len(text.vocabulary) + 1)


@pytest.mark.parametrize("name", TAKES)
def test_both_constructions_keep_the_laws(name, tmp_path):
    text = TEXTS[0]
    for each in TEXTS:
        decoder = build_decoder(each, parameters=name)
        assert_recites(decoder, each)
        assert decoder.record.share < 1.0
        assert decoder.record.margin > 0
        assert decoder.record.num_positions == len(each.different(decoder.layer.window))
    one, again, other = (build_decoder(text, parameters=name, seed=seed) for seed in (3, 3, 4))
    assert all(np.array_equal(one.tensors[key], again.tensors[key]) for key in one.tensors)
    assert not np.array_equal(one.layer.query_weights, other.layer.query_weights)
    for option, value in GIVEN.items():
        if option in TAKES[name]:
            assert_recites(build_decoder(text, parameters=name, **{option: value}), text)
            continue
        with pytest.raises(ParameterError, match=option) as caught:
            build_decoder(text, parameters=name, **{option: value})
        assert caught.value.witness == value
        assert "parameters=" in caught.value.suggestion
    with pytest.raises(DataError, match="goes on"):
        build_decoder(Text.words("a b c", "a b d"), parameters=name)
    one.save(tmp_path / "decoder.safetensors")
    assert Decoder.load(tmp_path / "decoder.safetensors").record == one.record


def test_the_default_is_smaller_than_full_heads():
    text = Text.words(LONGER)
    default, full = build_decoder(text), build_decoder(text, width=32)
    assert (default.layer.head_dim, default.layer.window, default.layer.target_dim) == (1, 16, 16)
    assert (full.layer.head_dim, full.layer.window, full.layer.target_dim) == (32, None, 32)
    assert default.num_parameters < full.num_parameters / 2


def test_texts_that_need_a_longer_window_get_one():
    common = " a" * 20
    text = Text.words("one" + common + " b", "two" + common + " c")
    decoder = build_decoder(text)
    assert decoder.layer.window is None
    assert decoder.recites(text)
    with pytest.raises(DataError, match="goes on"):
        build_decoder(text, window=16)


@pytest.mark.parametrize(("count", "width"), [(1, 1), (2, 3), (30, 4), (200, 8)])
def test_codes_keep_away_from_each_other(count, width):
    codes = spread_codes(np.random.default_rng(0), count, width)
    assert np.allclose(np.linalg.norm(codes, axis=1), 1.0)
    assert np.array_equal(codes, codes.astype(np.float32))
    products = codes @ codes.T - 2 * np.eye(count)
    drawn = np.random.default_rng(1).standard_normal((count, width))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    random = drawn @ drawn.T - 2 * np.eye(count)
    assert products.max() <= random.max() + 1e-6
    if count > 2:
        assert 1 - products.max() > 3 * (1 - random.max())


# Decoders of many parameters, from every prompt, and their files.


WIDTH = 64


@st.composite
def texts(draw):
    """One text or several, which begin with tokens of their own, of few symbols which repeat."""
    symbols = st.integers(0, draw(st.integers(0, 5)))
    bodies = draw(st.lists(st.lists(symbols, max_size=40), min_size=1, max_size=4))
    several = [[100 + number, *body] for number, body in enumerate(bodies)]
    return Text.of(*several)


@settings(max_examples=12)
@given(texts(), st.sampled_from([None, 1, 2, 7]), st.integers(0, 3))
def test_what_is_built_recites(text, window, seed):
    if window is not None and text.num_texts > 1:
        text = Text.of(text.texts[0])  # which others may contradict in a window
    decoder = build_decoder(text, width=WIDTH, window=window, seed=seed)
    assert_recites(decoder, text)
    assert decoder.record.num_positions == len(text.different(window))
    assert decoder.record.share < 1
    assert decoder.record.margin > 0
    assert {array.dtype for array in decoder.tensors.values()} == {np.dtype(np.float32)}


def test_texts_which_a_prompt_tells_apart():
    text = Text.words("one two three", "one two four", prompt=5)
    decoder = build_decoder(text, width=WIDTH)
    assert decoder.record.num_positions == 2
    assert_recites(decoder, text)
    with pytest.raises(DataError, match="goes on with 'three' after token 3, and text 1 with"):
        build_decoder(Text.words("one two three", "one two four"), width=WIDTH)


# --- refusals


def test_more_positions_than_columns():
    heads = 2
    text = Text.of(list(range((heads + 1) * 8 + 1)))
    with pytest.raises(
        CapacityError, match=rf"{len(text)} positions are too many for {heads} heads"
    ) as refused:
        build_decoder(text, width=8, num_heads=heads)
    assert refused.value.witness == len(text)
    assert refused.value.suggestion == f"num_heads={-(-len(text) // 8)}, or None"


@pytest.mark.parametrize(
    ("text", "window", "suggestion"),
    [
        (Text.of(*[[i] for i in range(17)]), None, "width=17, or prompt=2"),
        (Text.of(*[[i, 0] for i in range(17)]), 5, "width=17, or prompt=2"),
        (Text.of([0] * 17), 1, "width=17, or window=2"),
    ],
)
def test_more_positions_which_see_one_token_than_columns(text, window, suggestion):
    with pytest.raises(CapacityError, match="17 positions see one token") as refused:
        build_decoder(text, width=16, window=window)
    assert refused.value.suggestion == suggestion


@pytest.mark.parametrize("width", [1, 2, 3])
def test_margins_which_are_too_small(width):
    """At width 1 the readout is beyond float32."""
    with pytest.raises(PrecisionError, match="do not give every next token: the") as refused:
        build_decoder(Text.of(list(range(30))), width=width)
    assert "a larger width=" in refused.value.suggestion
    assert refused.value.witness["margin"] <= 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text": CAT}, "text is a str, not a Text"),
        ({"width": 0}, "width=0"),
        ({"num_heads": 0}, "num_heads=0"),
        ({"head_dim": 0}, "head_dim=0"),
        ({"head_dim": 65}, "head_dim=65 is more than the width 64"),
        ({"window": 0}, "window=0"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_bad_parameters(change, words):
    options = {"text": Text.words(CAT), "width": WIDTH, **change}
    with pytest.raises(ParameterError, match=words):
        build_decoder(options.pop("text"), **options)


@pytest.fixture(scope="module")
def cat():
    text = Text.words(CAT)
    return build_decoder(text, width=WIDTH), text


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda d: d.generate("the dog"), DataError, "the token 'dog' is not one of the 10"),
        (lambda d: d.generate(""), DataError, "the prompt is empty"),
        (lambda d: d.generate("the", 0), ParameterError, "length=0"),
        (
            lambda d: d.generate("the", 25),
            ParameterError,
            "length=25 is more than the 24 positions",
        ),
        (lambda d: d.logits(["the"] * 25), DataError, "25 tokens are more than the 24 positions"),
        (lambda d: d.embedded([[10]]), DataError, "ids are not numbers of tokens"),
        (lambda d: d.embedded([[-1]]), DataError, "ids are not numbers of tokens"),
        (lambda d: d.embedded([[0.0]]), DataError, "ids are not numbers of tokens"),
        (lambda d: d.recites(Text.words("cat")), DataError, "has other tokens than the decoder"),
        (
            lambda d: d.recites(Text.words(f"{CAT} {CAT}")),
            DataError,
            "49 tokens, and the decoder 24",
        ),
        (lambda d: d.stored_as("float8"), ParameterError, "unknown storage='float8'"),
    ],
)
def test_bad_questions(cat, ask, error, words):
    with pytest.raises(error, match=words):
        ask(cat[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"embedding": np.zeros((9, 64), np.float32)}, "arrays have shapes"),
        ({"positions": np.zeros((24, 64))}, "arrays are float32, float64"),
        ({"positions": np.full((24, 64), np.nan, np.float32)}, "not all finite"),
        ({"vocabulary": tuple("abcdefghij"), "unit": "ids"}, "'a' in the vocabulary is not one of"),
        ({"vocabulary": ("a",) * 10}, "'a' in the vocabulary is there twice"),
        ({"unit": "lines"}, "unknown unit='lines'"),
        ({"longest": 0}, "longest=0"),
        ({"longest": 1.5}, "longest=1.5"),
    ],
)
def test_parts_which_do_not_fit(cat, change, words):
    with pytest.raises(ParameterError, match=words):
        dataclasses.replace(cat[0], **change)


# --- storage and files


@pytest.mark.parametrize("storage", ["float32", "bfloat16", "float16"])
def test_storage(storage):
    text = Text.words(CAT)
    decoder = build_decoder(text, width=128).stored_as(storage)
    readout = decoder.layer.readout_weights
    assert decoder.record.storage == storage
    assert (rounded(readout, storage) == readout).all()
    assert all((rounded(array, storage) == array).all() for array in decoder.tensors.values())
    assert_recites(decoder, text)
    assert recital(decoder, text).share.max() < (0.01 if storage == "float32" else 1)


def test_weights_beyond_a_format(cat):
    decoder, _ = cat
    layer = decoder.layer
    large = dataclasses.replace(layer, readout_weights=1e6 * np.ones_like(layer.readout_weights))
    with pytest.raises(
        ParameterError, match=r"weights of size 1.0e\+06 are beyond float16"
    ) as refused:
        dataclasses.replace(decoder, layer=large).stored_as("float16")
    assert "bfloat16" in refused.value.suggestion


@pytest.mark.parametrize(
    ("text", "window"),
    [
        (Text.words(CAT), 2),
        (Text.bytes(b"\x00\xff\n"), None),
        (Text.of([10**20, -3, 7, 10**20]), None),
        (Text.words("\ud800 ä", "b b", prompt=2), None),
    ],
)
def test_files_keep_every_bit(tmp_path, text, window):
    decoder = build_decoder(text, width=WIDTH, window=window).stored_as("bfloat16")
    decoder.save(tmp_path / "decoder.safetensors")
    again = Decoder.load(tmp_path / "decoder.safetensors")
    assert again.record == decoder.record
    assert (again.vocabulary, again.unit, again.layer.window) == (
        text.vocabulary,
        text.unit,
        window,
    )
    assert again.tensors.keys() == decoder.tensors.keys()
    assert all((again.tensors[name] == array).all() for name, array in decoder.tensors.items())
    assert_recites(again, text)
    assert [path.name for path in tmp_path.iterdir()] == ["decoder.safetensors"]


@pytest.fixture
def saved(cat, tmp_path):
    path = tmp_path / "decoder.safetensors"
    cat[0].save(path)
    content = path.read_bytes()
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    return path, load_file(path), metadata


SPOILT = [
    ("unit", "bytes", "in the vocabulary is not one of bytes"),
    ("vocabulary", ["a"] * 10, "is there twice"),
    ("vocabulary", 3, "is not a decoder"),
    ("window", 0, "window=0"),
    ("record", {}, r"its record is about \[\]"),
    ("record.seed", 1.5, "seed is 1.5"),
    ("record.margin", math.nan, "margin is nan"),
    ("record.share", -0.5, "share is -0.5"),
    ("record.storage", "float8", "unknown storage='float8'"),
    ("record.more", 1, "its record is about"),
]


@pytest.mark.parametrize(("field", "value", "words"), SPOILT)
def test_spoilt_descriptions(saved, field, value, words):
    path, tensors, metadata = saved
    about = json.loads(metadata["decoder"])
    name, _, entry = field.partition(".")
    changed = about[name] | {entry: value} if entry else value
    save_file(tensors, path, {**metadata, "decoder": json.dumps({**about, name: changed})})
    with pytest.raises(FormatError, match=words) as refused:
        Decoder.load(path)
    assert "written by Decoder.save" in refused.value.suggestion
    del about[name]
    save_file(tensors, path, {**metadata, "decoder": json.dumps(about)})
    with pytest.raises(FormatError, match="is not a decoder"):
        Decoder.load(path)


def test_a_longest_text_is_a_number_or_absent(saved):
    path, tensors, metadata = saved
    about = json.loads(metadata["decoder"]) | {"longest": None}
    save_file(tensors, path, {**metadata, "decoder": json.dumps(about)})
    with pytest.raises(FormatError, match="its longest text is null"):
        Decoder.load(path)


@pytest.mark.parametrize("name", ["embedding", "positions", "W_Q", "W_K", "U", "unembedding"])
def test_spoilt_tensors(saved, name):
    path, tensors, metadata = saved
    for wrong in (tensors[name][:-1], tensors[name].astype(np.float64), tensors[name] * np.nan):
        if (name, wrong.shape) == ("positions", (23, 64)):
            continue  # a decoder of fewer positions
        save_file(tensors | {name: np.ascontiguousarray(wrong)}, path, metadata)
        with pytest.raises(FormatError, match="is not a decoder"):
            Decoder.load(path)
    save_file({key: value for key, value in tensors.items() if key != name}, path, metadata)
    with pytest.raises(FormatError, match="is not a decoder"):
        Decoder.load(path)


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00" * 64])
def test_files_which_are_none(tmp_path, content):
    path = tmp_path / "decoder.safetensors"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="is not a decoder"):
        Decoder.load(path)
    save_file({"x": np.zeros(3)}, path)
    with pytest.raises(FormatError, match="its format is None"):
        Decoder.load(path)
    with pytest.raises(FileNotFoundError):
        Decoder.load(tmp_path / "none")


def test_logits_which_are_not_exact(cat):
    """Rounding takes all in float32 then; and beyond float64 nothing is said at all."""
    decoder, text = cat
    layer = decoder.layer

    def changed(**arrays):
        weights = CausalLayer(*({**layer.tensors, **arrays}).values())
        return dataclasses.replace(decoder, layer=weights)

    inexact = changed(
        W_Q=layer.query_weights * np.float32(1 + 2.0**-14), W_K=layer.key_weights * np.float32(256)
    )
    assert np.isfinite(recital(inexact, text).least).all()
    assert (recital(inexact, text).share > 1.0).all()
    fine = changed(W_Q=layer.query_weights * np.float32(1 + 2.0**-20))
    with pytest.raises(PrecisionError, match="too fine for a table"):
        recital(fine, text)
    embedding = decoder.embedding * np.float32(1 + 2.0**-23)
    with pytest.raises(PrecisionError, match="do not add exactly"):
        recital(dataclasses.replace(decoder, embedding=embedding), text)


def test_a_readout_which_is_not_stored_as_is_said(cat):
    decoder, text = cat
    record = dataclasses.replace(decoder.record, storage="bfloat16")
    assert isinstance(record, DecoderRecord)
    assert np.isinf(recital(dataclasses.replace(decoder, record=record), text).share).all()
    assert np.isfinite(recital(decoder.stored_as("bfloat16"), text).error).all()


@pytest.mark.parametrize("storage", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    ("readout", "unembedding"), [(2.0**133, 2.0**-20), (2.0**133, 0.0), (2.0**100, 2.0**100)]
)
def test_sums_which_may_leave_the_range(cat, storage, readout, unembedding):
    """Outputs or logits which overflow in float32: nothing is bounded, and nothing is NaN."""
    decoder, text = cat
    layer, outputs = decoder.layer, decoder.unembedding * np.float32(unembedding)
    weights = (layer.readout_weights.astype(np.float64) * readout).astype(np.float32)
    outputs[:, 0] = 0.0  # an infinite output does not reach logits there
    huge = dataclasses.replace(
        decoder,
        layer=dataclasses.replace(layer, readout_weights=weights),
        unembedding=outputs,
        record=dataclasses.replace(decoder.record, storage=storage),
    )
    found = recital(huge, text)
    assert np.isposinf(found.share).all()
    assert not np.isnan(found.error).any()
    assert certify(huge, text, claims=("executed",)).claims[0].verdict is Verdict.UNDECIDED


# Compact decoders recite in float32 and in integers; saturated heads read one token.


ENGLISH = (Path(__file__).parents[2] / "LICENSE").read_text()


def english(tokens):
    return Text.words("".join(Text.words(ENGLISH).tokens[:tokens]))


def integer_margin(decoder, text):
    """The least margin, from the stored arrays alone, in integers."""
    layer, least = decoder.layer, None
    arrays = {name: array.astype(np.int64) for name, array in decoder.tensors.items()}
    assert all(np.array_equal(arrays[name], array) for name, array in decoder.tensors.items())
    assert np.abs(arrays["U"]).sum(axis=0).max() < 2**24
    for batch in text.batches():
        for ids, places, following in zip(*batch, strict=True):
            at = np.arange(int((places >= 0).sum()))
            tokens = arrays["embedding"][ids[at]] + arrays["positions"][at % len(decoder.positions)]
            picked = picks(tokens, arrays["W_Q"], arrays["W_K"], layer.window).tokens
            rows = np.concatenate([tokens[:, np.newaxis], tokens[picked]], axis=1)
            logits = rows.reshape(len(tokens), -1) @ arrays["U"] @ arrays["unembedding"].T
            for place, token in enumerate(following[at].tolist()):
                if token >= 0:
                    others = np.delete(logits[place], token)
                    margin = int(logits[place, token] - others.max())
                    least = margin if least is None else min(least, margin)
    return least


def assert_recites_in_integers(decoder, text):
    assert decoder.recites(text)
    assert decoder.record.share < 1.0
    assert integer_margin(decoder, text) == decoder.record.margin > 0
    if text.num_texts == 1:
        assert decoder.generate(text.tokens[: text.prompt]) == text.tokens


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "options",
    [{}, {"outputs": 2}, {"outputs": 3}, {"every": True}, {"window": 16}, {"window": 2}],
    ids=str,
)
def test_few_parameters_recite(options, seed):
    text = english(200)
    assert_recites_in_integers(build_decoder(text, parameters="few", seed=seed, **options), text)


@pytest.mark.parametrize("text", [*map(english, (1, 2, 3, 9)), *TEXTS], ids=repr)
def test_few_parameters_recite_short_texts(text):
    decoder = build_decoder(text, parameters="few")
    assert_recites_in_integers(decoder, text)
    assert decoder.record.share == 0.0  # sums of such small integers have no error
    assert "rounding takes 0% of a margin" in certify(decoder, text)["executed"].detail


def test_formats_bound_the_entries():
    text = english(300)
    short = build_decoder(text, parameters="few", readout="int8")
    longer = build_decoder(text, parameters="few")
    assert_recites_in_integers(short, text)
    assert (
        np.abs(short.layer.readout_weights).max()
        < 2**7
        <= np.abs(longer.layer.readout_weights).max()
    )
    with pytest.raises(PrecisionError, match="int8"):
        build_decoder(text, parameters="few", readout="int8", outputs=1)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"window": 12}, "power of two"), ({"window": 1}, "power of two"),
        ({"outputs": 0}, "outputs"), ({"readout": "int4"}, "readout"),
        ({"parameters": "some"}, "some"),
    ],
)  # fmt: skip
def test_options_are_looked_at(options, word):
    with pytest.raises(ParameterError, match=word):
        build_decoder(english(9), **{"parameters": "few"} | options)


def test_texts_whose_equations_do_not_fit_into_memory(monkeypatch):
    monkeypatch.setattr(errors, "physical_memory", lambda: 30 * 300**2 - 1)
    build_decoder(english(299), parameters="few")
    with pytest.raises(ParameterError, match="the equations of 300 positions"):
        build_decoder(english(300), parameters="few")


def test_points_are_the_digits_of_places():
    order = np.array([3, 0, 1, 4, 2])
    assert points_of(order, 1).T.tolist() == [[-3, 0, -1, -4, -2]]
    assert points_of(order, 2).tolist() == [[0, -1], [0, 0], [-1, 0], [-1, -1], [-2, 0]]
    for count in (2, 5, 27, 28, 519):
        for outputs in (1, 2, 3):
            base = base_of(count, outputs)
            assert base**outputs >= count
            assert base == 2 or (base - 1) ** outputs < count
            assert len(np.unique(points_of(np.arange(count), outputs), axis=0)) == count


def test_pivoting_gives_the_shortest_readout():
    """Against conditions of optimality, which are sufficient for a convex problem."""
    rng = np.random.default_rng(0)
    rows = rng.choice([-1.0, 1.0], (60, 50))
    order = np.arange(5)
    following = rng.choice(5, 60, p=[0.6, 0.1, 0.1, 0.1, 0.1])
    (cells,) = cells_of(points_of(order, 1), following, every=False)
    solved = solve_cells(rows @ rows.T, cells, 50, 1e-9)
    readout = rows.T @ solved.multipliers
    assert np.allclose(rows @ readout, solved.outputs, atol=1e-6)
    assert (solved.outputs >= cells.lower - 1e-5).all()
    assert (solved.outputs <= cells.upper + 1e-5).all()
    only_lower, only_upper = np.isinf(cells.upper), np.isinf(cells.lower)
    assert (solved.multipliers[only_lower] >= 0).all()
    assert (solved.multipliers[only_upper] <= 0).all()
    slack = only_lower & (solved.outputs > cells.lower + 1e-5)
    assert slack.any()
    assert (solved.multipliers[slack] == 0).all()


def test_the_nearest_plane_is_nearer_than_rounding():
    rng = np.random.default_rng(0)
    rows = rng.choice([-1.0, 1.0], (40, 60))
    factor = np.linalg.cholesky(rows.T @ rows + 0.1 * np.eye(60)).T
    wanted = 9.0 * rng.standard_normal((60, 3))
    plane, plain = nearest_plane(factor, wanted), np.rint(wanted)
    assert np.array_equal(plane, np.rint(plane))
    near, far = (np.linalg.norm(factor @ (q - wanted), axis=0) for q in (plane, plain))
    assert (near < 0.8 * far).all()


def test_single_steps_leave_room_or_give_up():
    rng = np.random.default_rng(0)
    rows = rng.choice([-1.0, 1.0], (40, 60)).astype(np.float32)
    following = rng.integers(4, size=40)
    (cells,) = cells_of(points_of(np.arange(4), 1), following, every=True)
    spacing, needed = 30.0, 3.0
    exact = np.linalg.lstsq(rows, cells.lower * spacing, rcond=None)[0]
    start = np.rint(exact) + rng.integers(-1, 2, 60)
    assert cells.room(rows @ start, spacing).min() < needed
    found = polished(rows, start, cells, spacing, needed)
    assert np.array_equal(found, np.rint(found))
    assert cells.room(rows @ found, spacing).min() >= needed
    assert polished(rows, start, cells, 4.0, 1.9) is None


# Saturated heads read one token: integers, balls and floats agree, and near misses are refused.


LENGTH, ENTRIES, HEADS, WINDOW = 40, 9, 6, 8


def drawn(seed=0, *, sequences=None):
    """Tokens with the digits of their positions, and heads as compact decoders have them."""
    rng = np.random.default_rng(seed)
    shape = (LENGTH, ENTRIES) if sequences is None else (sequences, LENGTH, ENTRIES)
    tokens = rng.choice([-1, 1], shape)
    tokens[..., 0] = 1
    tokens[..., -3:] = 1 - 2 * (np.arange(LENGTH)[:, None] >> np.arange(3) & 1)
    queries = 64 * rng.choice([-1, 1], (HEADS, ENTRIES, 1))
    keys = 2 * WINDOW * rng.choice([-1, 1], (HEADS, ENTRIES, 1))
    keys[:, 0] = 0
    keys[:, -3:, 0] = rng.choice([-1, 1], (HEADS, 3)) * 2 ** np.arange(3)
    return tokens, queries, keys


@pytest.mark.parametrize("window", [WINDOW, 5])
def test_float32_gives_the_tokens_bit_for_bit(window):
    tokens, queries, keys = drawn()
    picked = picks(tokens, queries, keys, window)
    weights = queries.astype(np.float32), keys.astype(np.float32)
    wanted = tokens[picked.tokens]
    for chunk in attend(
        Floats(np.float32), weights, CausalView(tokens.astype(np.float32)[np.newaxis], window)
    ):
        rows = chunk.rows[1]
        assert np.array_equal(chunk.representation[0], wanted[rows].astype(np.float32))
    assert picked.lead >= LEAD
    assert np.array_equal(
        read_tokens(tokens, picked.tokens)[:, ENTRIES:], wanted.reshape(LENGTH, -1)
    )


@pytest.mark.parametrize(
    ("array", "place", "change", "word"),
    [
        (0, (3, 2), lambda _: 0.0, "tokens"),
        (1, (1, 2), lambda _: 0.5, "W_Q"),
        (2, (1, 2), lambda _: np.nan, "W_K"),
        (1, ..., lambda queries: queries / 2, "lead"),
        (2, (0, slice(-3, None)), lambda _: 0.0, "lead"),  # a tie
        (1, ..., lambda queries: queries * 1024, "add up"),
    ],
)
def test_what_the_proposition_does_not_allow_is_refused(array, place, change, word):
    arrays = [each.astype(np.float64) for each in drawn()]
    arrays[array][place] = change(arrays[array][place])
    with pytest.raises(PrecisionError, match=word) as error:
        picks(*arrays, WINDOW)
    assert error.value.witness is not None
