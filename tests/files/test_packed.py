"""Packed weights come back bit for bit, from small files, and damaged ones are refused."""

import json
import tracemalloc
import zlib

import numpy as np
import pytest
from compact_parts import changed, compact
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from constructive import Decoder, FormatError, Text, build_decoder
from constructive.layers import decoder as decoders
from constructive.layers.packed import NAMES, drawn_signs, order_of, pack, packable, parity, unpack
from constructive.support.stored import serialized

BITS = {"W_Q": (2, 3, 1), "W_K": (2, 3, 1), "U": (9, 2), "embedding": (4, 3)}
SHAPES = BITS | {"positions": (8, 3), "unembedding": (5, 2)}


@pytest.fixture(scope="module")
def decoder():
    return compact()[0]


def content(decoder):
    return decoders.file_content(decoder.tensors, decoder.about())


def same_bits(one, other):
    return all((one[name].view("u4") == other[name].view("u4")).all() for name in one)


integers = st.one_of(st.integers(-3, 3), st.integers(-(2**24), 2**24))
entries = st.one_of(integers.map(float), st.sampled_from([-0.0, 0.5, 2.0**30, 1e-40]))


@st.composite
def weights(draw):
    """Tensors with columns of any kind, formulas of this package among them."""
    made = {}
    for name, shape in SHAPES.items():
        array = draw(arrays(np.float32, shape, elements=entries.map(np.float32)))
        if draw(st.booleans()):
            array = np.rint(array / 2**20) + 0.0
        if draw(st.booleans()):
            array = draw(st.integers(1, 9)) * drawn_signs(name, 3, shape)
        made[name] = array.astype(np.float32)
    if draw(st.booleans()):
        line = draw(st.integers(-3, 3)) - np.array(draw(st.permutations(range(5))))
        made["unembedding"] = np.stack([2.0 * line, -7.0 * line**2], 1).astype(np.float32)
        order = order_of(line)[:4]
        made["embedding"][:, 1] = parity(order & draw(st.integers(0, 7)))
        made["positions"][:, 2] = 3.0 * parity(np.arange(8) & draw(st.integers(0, 7)))
    return made


@settings(deadline=None)
@given(weights())
def test_every_bit_comes_back_here_and_in_the_checker(checker, tensors):
    packed = pack(tensors, 3)
    assert same_bits(unpack(packed.rules, packed.bits, 3), tensors)
    rules = json.loads(json.dumps(packed.rules))
    read = checker.packed.read(rules, np.packbits(packed.bits, bitorder="little"), 3)
    assert same_bits(read, tensors)
    assert packed.num_stored <= sum(a.size for a in tensors.values()) + 32


RULES = {
    "fields": st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 3)),
    "places": st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 3)),
    "integers": st.tuples(st.integers(0, 3)),
    "drawn": st.tuples(st.integers(-1, 2)),
    "constant": st.tuples(
        st.sampled_from([-3, 0, 2, 1 << 31, -(1 << 31)]), st.integers(0, 1), st.integers(-3, 3)
    ),
    "parity": st.tuples(st.integers(0, 9), st.integers(-3, 3)),
    "order": st.tuples(st.integers(0, 9), st.integers(-3, 3)),
    "parabola": st.tuples(st.integers(-3, 3), st.integers(-3, 3)),
    "paired drawn": st.tuples(st.sampled_from([1, -1]), st.integers(-1, 2)),
    "paired integers": st.tuples(st.sampled_from([1, -1]), st.integers(0, 3)),
}
ONE = {
    name: {"shape": [2] + [1] * (1 + (name in {"W_Q", "W_K"})), "columns": [[1, "constant", 1]]}
    for name in NAMES
} | {"U": {"shape": [3, 1], "columns": [[1, "constant", 1]]}}


@given(st.data())
def test_files_that_no_program_wrote_are_read_alike(checker, data):
    """Any rules and bits: both readers give the same arrays, zeros included, or refuse them."""
    rules, bits = dict(ONE), np.array(data.draw(st.lists(st.booleans(), max_size=48)), np.uint8)
    times = st.sampled_from([1] * 9 + [0, 2, -1, True, 1 << 20])
    rules["unembedding"] = {"shape": [2, data.draw(st.sampled_from([2, 2, 2, 5000]))]}
    rules["unembedding"]["columns"] = []
    for name in ("unembedding", "unembedding", "positions", "U"):
        rule = data.draw(st.sampled_from(sorted(RULES)))
        run = [data.draw(times), rule, *data.draw(RULES[rule])]
        if name == "unembedding":
            rules[name]["columns"].append(run)
        else:
            rules[name] = rules[name] | {"columns": [run]}
    packed, found = np.packbits(bits, bitorder="little"), []
    for read, given_bits in (
        (unpack, np.unpackbits(packed, bitorder="little")),
        (checker.packed.read, packed),
    ):
        try:
            found.append(read(rules, given_bits, 0))
        except ValueError:
            found.append(None)
    assert (found[0] is None) == (found[1] is None)
    assert found[0] is None or same_bits(*found)


@pytest.mark.parametrize(
    ("run", "accepted"),
    [
        (["fields", 2**24, 0, 0], True),
        (["fields", 2**24 + 1, 0, 0], False),
        (["fields", 2, 1925880945, 25], False),  # float64 rounds it once or twice: two numbers
        (["constant", 2**25], False),
        (["parabola", 2**13, 2], False),
        (["drawn", 2**24 + 2], False),
    ],
)
def test_integers_that_float32_rounds_are_refused(checker, run, accepted):
    numbers = [25226675 >> place & 1 for place in range(25)] * 2 if run[-1] == 25 else []
    packed = np.packbits(np.array(numbers, np.uint8), bitorder="little")
    rules = ONE | {"positions": {"shape": [2, 1], "columns": [[1, *run]]}}
    for read, bits in (
        (unpack, np.unpackbits(packed, bitorder="little")),
        (checker.packed.read, packed),
    ):
        if accepted:
            assert read(rules, bits, 0)["positions"].tolist() == [[2.0**24]] * 2
        else:
            with pytest.raises(ValueError, match="beyond"):
                read(rules, bits, 0)


def test_formulas_take_no_bits(decoder):
    packed = pack(decoder.tensors, 0)
    for name in ("W_Q", "W_K", "positions"):
        kinds = {run[1] for run in packed.rules[name]["columns"]}
        assert kinds <= {"drawn", "constant", "parity"}
    other = pack(decoder.tensors, 1)
    assert len(other.bits) > len(packed.bits)
    unpacked = unpack(other.rules, other.bits, 1)
    assert same_bits(unpacked, decoder.tensors)


def test_places_in_few_classes_take_few_bits():
    """Of 200 tokens in three classes, which keep their order, each takes two bits or so."""
    rng = np.random.default_rng(0)
    classes = rng.choice(3, 200, p=[0.7, 0.2, 0.1])
    order = np.empty(200)
    order[np.argsort(-classes, kind="stable")] = np.arange(200)
    line = {"unembedding": (50.0 - 2.0 * order)[:, None].astype(np.float32)}
    others = {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()}
    packed = pack(others | line, 0)
    assert packed.rules["unembedding"]["columns"] == [[1, "places", 50, -2, 0]]
    assert len(packed.bits) < 2 * 200
    assert same_bits(unpack(packed.rules, packed.bits, 0), others | line)
    shuffled = {"unembedding": rng.permutation(200.0 - np.arange(200))[:, None].astype("f4")}
    packed = pack(others | shuffled, 0)
    assert 6 * 200 < len(packed.bits) <= 8 * 200
    assert same_bits(unpack(packed.rules, packed.bits, 0), others | shuffled)


def test_the_line_of_the_unembedding_is_a_formula(decoder):
    packed = pack(decoder.tensors, 0)
    assert packed.rules["unembedding"]["columns"][1][1] == "parabola"
    spoilt = changed(decoder, "unembedding", (3, 1), 17.0)
    assert pack(spoilt.tensors, 0).rules["unembedding"]["columns"][1][1] != "parabola"


def test_what_is_counted(decoder):
    assert decoder.num_stored < decoder.num_parameters
    assert decoder.num_bits < 32 * decoder.num_stored
    plain = changed(decoder, "U", (1, 0), 0.5)
    assert not packable(plain.tensors)
    assert plain.num_stored == plain.num_parameters
    assert plain.num_bits == 32 * plain.num_parameters


def test_a_packed_file(decoder, tmp_path):
    decoder.save(tmp_path / "packed.safetensors")
    read = Decoder.load(tmp_path / "packed.safetensors")
    assert same_bits(read.tensors, decoder.tensors)
    about = [read.vocabulary, read.unit, read.longest, read.layer.window, read.record]
    assert about == [
        decoder.vocabulary, decoder.unit, decoder.longest, decoder.layer.window, decoder.record
    ]  # fmt: skip
    plain = changed(decoder, "U", (1, 0), 0.5)
    assert len(content(plain)) > 3 * len(content(decoder))


def test_other_decoders_have_the_files_they_had():
    decoder = build_decoder(Text.words("a rat sat"), width=16)
    metadata = {"format": "constructive decoder 1", "decoder": json.dumps(decoder.about())}
    assert content(decoder) == serialized(decoder.tensors, metadata)


def described(decoder):
    """What a packed file says, and its bits."""
    packed = pack(decoder.tensors, decoder.record.seed)
    about = decoder.about() | {"weights": packed.rules}
    return json.loads(json.dumps(about)), np.packbits(packed.bits, bitorder="little")


def written(path, about, bits, text=None):
    text = json.dumps(about).encode() if text is None else text
    content = np.frombuffer(zlib.compress(text), np.uint8)
    path.write_bytes(
        serialized({"about": content, "bits": bits}, {"format": "constructive decoder 2"})
    )


SPOILT = {
    "a rule": lambda about: about["weights"]["U"]["columns"][0].__setitem__(1, "formula"),
    "a shape": lambda about: about["weights"]["positions"].update(shape=[1 << 40, 11]),
    "a count": lambda about: about["weights"]["U"]["columns"][0].__setitem__(0, 2),
    "a parameter": lambda about: about["weights"]["U"]["columns"][0].__setitem__(2, 0.5),
    "a name": lambda about: about["weights"].update(V=about["weights"].pop("U")),
    "the window": lambda about: about.update(window=-1),
}


@pytest.mark.parametrize("name", SPOILT)
def test_spoilt_descriptions(decoder, tmp_path, name):
    about, bits = described(decoder)
    path = tmp_path / "spoilt.safetensors"
    written(path, about, bits)
    assert same_bits(Decoder.load(path).tensors, decoder.tensors)
    SPOILT[name](about)
    written(path, about, bits)
    with pytest.raises(FormatError):
        Decoder.load(path)


def bomb(name, about):
    """A description that states far more than its file holds."""
    weights = about["weights"]
    if name == "a run":
        weights["unembedding"]["columns"][0][0] = 1 << 21
    elif name == "columns":
        weights["W_Q"]["shape"][2] = weights["W_K"]["shape"][2] = 1 << 20
    elif name == "rows":
        weights["embedding"]["shape"][0] = weights["unembedding"]["shape"][0] = 1 << 22
    elif name == "sizes whose product is 0 in 64 bits":
        weights["positions"]["shape"] = [1 << 32, 1 << 32]
    elif name == "positions":
        weights["positions"]["shape"][0] = 1 << 28
    else:
        about["x"] = [[]] * (decoders.MOST_TEXT // 4)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a run", "rules for unembedding"),
        ("columns", "columns, more than 4096"),
        ("rows", "shapes"),
        ("sizes whose product is 0 in 64 bits", "shapes"),
        ("positions", "shapes"),
        ("text", "more than 16777216 bytes"),
    ],
)
def test_what_a_file_states_is_compared_before_it_is_made(decoder, tmp_path, name, why):
    about, bits = described(decoder)
    bomb(name, about)
    path = tmp_path / "bomb.safetensors"
    written(path, about, bits)
    assert path.stat().st_size < 80_000
    tracemalloc.start()
    with pytest.raises(FormatError, match=why):
        Decoder.load(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2 * decoders.MOST_TEXT + 10**6 if name == "text" else most < 10**6


def test_what_would_not_be_read_is_not_packed(decoder, tmp_path, monkeypatch):
    monkeypatch.setattr(decoders, "MOST_TEXT", 100)
    decoder.save(tmp_path / "plain.safetensors")
    assert same_bits(Decoder.load(tmp_path / "plain.safetensors").tensors, decoder.tensors)


@pytest.mark.parametrize("shape", [(2, 30), (9,), (0, 2)])
def test_weights_that_do_not_fit_are_not_packable(shape):
    tensors = {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()}
    assert packable(tensors)
    assert not packable(tensors | {"U": np.ones(shape, np.float32)})


@pytest.mark.parametrize("name", NAMES)
def test_bits_that_are_missing_or_left(decoder, tmp_path, name):
    about, bits = described(decoder)
    path = tmp_path / "spoilt.safetensors"
    for other in (bits[:-2], np.append(bits, np.uint8(1)), np.append(bits, np.uint8(0))):
        written(path, about, other)
        with pytest.raises(FormatError):
            Decoder.load(path)
    del about["weights"][name]
    written(path, about, bits)
    with pytest.raises(FormatError):
        Decoder.load(path)


def test_text_that_is_no_description(decoder, tmp_path):
    about, bits = described(decoder)
    path = tmp_path / "spoilt.safetensors"
    for text in (b"[", b"[]", b"{}", b"\xff", json.dumps(about).encode()[:-1]):
        written(path, about, bits, text)
        with pytest.raises(FormatError):
            Decoder.load(path)


def test_parities_and_orders_of_many():
    numbers = np.array([1 << 31, 3 << 15, (1 << 32) - 1, 7 << 20, 0])
    assert parity(numbers).tolist() == [1 - 2 * (int(n).bit_count() % 2) for n in numbers]
    assert order_of(np.repeat([1.0, 2.0], 50)).tolist() == [*range(50, 100), *range(50)]
