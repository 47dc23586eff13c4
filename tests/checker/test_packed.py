"""Packed weights come back bit for bit, from small files, and damaged ones are refused."""

import json
import zlib

import numpy as np
import pytest
from checker_parts import refused
from decoder_parts import changed, compact
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from constructive import Decoder, FormatError, Text, build_decoder
from constructive.checker.packed import places, read_packed
from constructive.recite import decoder as decoders
from constructive.recite.packed import NAMES, drawn_signs, pack, packable, parity
from constructive.support.tensors import serialized

BITS = {"W_Q": (2, 3, 1), "W_K": (2, 3, 1), "U": (9, 2), "embedding": (4, 3)}
SHAPES = BITS | {"positions": (8, 3), "unembedding": (5, 2)}


@pytest.fixture(scope="module")
def decoder():
    return compact()[0]


def content(decoder):
    return decoders.file_content(decoder.tensors, decoder.about())


def unpacked(packed, seed):
    """What files hold of packed weights, read by the checker's program."""
    rules = json.loads(json.dumps(packed.rules))
    return read_packed(rules, np.packbits(packed.bits, bitorder="little"), seed)


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
        order = places(line)[:4]
        made["embedding"][:, 1] = parity(order & draw(st.integers(0, 7)))
        made["positions"][:, 2] = 3.0 * parity(np.arange(8) & draw(st.integers(0, 7)))
    return made


@settings(deadline=None)
@given(weights())
def test_every_bit_comes_back(tensors):
    packed = pack(tensors, 3)
    assert same_bits(unpacked(packed, 3), tensors)
    assert packed.num_stored <= sum(a.size for a in tensors.values()) + 32


ONE = {
    name: {"shape": [2] + [1] * (1 + (name in {"W_Q", "W_K"})), "columns": [[1, "constant", 1]]}
    for name in NAMES
} | {"U": {"shape": [3, 1], "columns": [[1, "constant", 1]]}}
"""Six tensors of ones: two tokens, two positions, and two heads."""


def test_formulas_take_no_bits(decoder):
    packed = pack(decoder.tensors, 0)
    for name in ("W_Q", "W_K", "positions"):
        kinds = {run[1] for run in packed.rules[name]["columns"]}
        assert kinds <= {"drawn", "constant", "parity"}
    other = pack(decoder.tensors, 1)
    assert len(other.bits) > len(packed.bits)
    assert same_bits(unpacked(other, 1), decoder.tensors)


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
    assert same_bits(unpacked(packed, 0), others | line)
    shuffled = {"unembedding": rng.permutation(200.0 - np.arange(200))[:, None].astype("f4")}
    packed = pack(others | shuffled, 0)
    assert 6 * 200 < len(packed.bits) <= 8 * 200
    assert same_bits(unpacked(packed, 0), others | shuffled)


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


def weights_with(**changes):
    """Replace fields of the rules of tensors, by the path to each."""

    def change(about):
        for path, value in changes.items():
            *trail, last = path.split("__")
            part = about["weights"]
            for step in trail:
                part = part[int(step) if step.isdigit() else step]
            part[int(last) if last.isdigit() else last] = value

    return change


SPOILT = {
    "a rule": (weights_with(U__columns__0__1="formula"), "formula"),
    "a count": (weights_with(U__columns__0__0=2), "U"),
    "a parameter": (weights_with(U__columns__0__2=0.5), " "),
    "a name": (lambda about: about["weights"].update(V=about["weights"].pop("U")), " "),
    "the window": (lambda about: about.update(window=-1), " "),
    "a run": (weights_with(unembedding__columns__0__0=1 << 21), "unembedding has other columns"),
    "columns": (
        weights_with(W_Q__shape__2=1 << 20, W_K__shape__2=1 << 20), "W_Q is too wide",
    ),
    "rows": (weights_with(embedding__shape__0=1 << 22, unembedding__shape__0=1 << 22), "shapes"),
    "a product that is 0 in 64 bits": (weights_with(positions__shape=[1 << 32] * 2), "shapes"),
    "positions": (weights_with(positions__shape__0=1 << 28), "shapes"),
    "text": (
        lambda about: about.update(x=[[]] * (decoders.MOST_TEXT // 4)), "more than 16777216 bytes"
    ),
    **{f"no {name}": (lambda about, n=name: about["weights"].pop(n), " ") for name in NAMES},
}  # fmt: skip
"""Changes of a description, of which some state far more than the file holds."""


@pytest.mark.parametrize("name", SPOILT)
def test_what_a_file_states_is_compared_before_it_is_made(decoder, tmp_path, peak_of, name):
    change, words = SPOILT[name]
    about, bits = described(decoder)
    path = tmp_path / "spoilt.safetensors"
    written(path, about, bits)
    assert same_bits(Decoder.load(path).tensors, decoder.tensors)
    change(about)
    written(path, about, bits)
    assert path.stat().st_size < 80_000
    most = peak_of(lambda: Decoder.load(path), words)
    assert most < 2 * decoders.MOST_TEXT + 10**6 if name == "text" else most < 10**6


def test_bits_that_are_missing_or_left_and_text_that_is_none(decoder, tmp_path):
    about, bits = described(decoder)
    path = tmp_path / "spoilt.safetensors"
    spoilt = [(other, None) for other in (bits[:-2], np.append(bits, np.uint8(1)))]
    spoilt += [(bits, text) for text in (b"[", b"[]", b"\xff", json.dumps(about).encode()[:-1])]
    for other, text in spoilt:
        written(path, about, other, text)
        with pytest.raises(FormatError):
            Decoder.load(path)


# Packed weights in the checker: each rule by its definition, and what it refuses.


def packed_bits(bits):
    return np.packbits(np.array(bits, np.uint8), bitorder="little")


def rules_of(name, *runs, shape=None):
    """Rules of ones, but for the columns of one tensor."""
    columns = [list(run) for run in runs]
    shape = [ONE[name]["shape"][0], sum(run[0] for run in columns)] if shape is None else shape
    return ONE | {name: {"shape": shape, "columns": columns}}


def checked_read(checker, *runs, name="positions", bits=(), shape=None, seed=0):
    rules = rules_of(name, *runs, shape=shape)
    return checker.packed.read_packed(rules, packed_bits(bits), seed)[name]


def test_all_bits_are_announced_before_they_are_read(checker, tmp_path, peak_of):
    """Whatever the file holds is there before anything is known to be left."""
    path, bits = tmp_path / "weights", np.zeros(10**6, np.uint8)
    more = np.random.default_rng(0).bytes(10**4).hex()  # longer than the header of the file
    about = {"weights": ONE, "record": {"seed": 0}, "more": more}
    written(path, about, bits)
    _, _, announced, read = checker.decoders.read_about(path, 1e9)
    peak = peak_of(read, "more bits")
    assert 9 * len(bits) < peak <= announced <= 11 * len(bits)
    size = len(zlib.compress(json.dumps(about).encode()))
    with refused("what the weights say is too large"):
        checker.decoders.read_about(path, 64 * (size - 1))


def floats(*numbers):
    return np.unpackbits(np.float32(numbers).view(np.uint8), bitorder="little")


C, TWICE = "constant", [25226675 >> place & 1 for place in range(25)] * 2
REFUSED = {
    "a row that is not there": (([1, C, 1, 2, 5],), {}, "out of bounds|row"),
    "a mask below zero": (([1, "parity", -1, 1],), {}, "mask"),
    "one row beyond 2^24": (([1, C, 1, 0, 1 << 25],), {}, "beyond"),
    "fields beyond 2^24": (([1, "fields", (1 << 24) + 1, 0, 0],), {}, "beyond"),
    "a constant beyond 2^24": (([1, C, 1 << 25],), {}, "beyond"),
    "a parabola beyond 2^24": (([1, "parabola", 1 << 13, 2],), {}, "beyond"),
    "signs beyond 2^24": (([1, "drawn", (1 << 24) + 2],), {}, "beyond"),
    "a product that float64 rounds": (  # once or twice: two numbers
        ([1, "fields", 2, 1925880945, 25],),
        {"bits": TWICE},
        "beyond",
    ),
    "two parameters of one or three": (([1, C, 1, 1],), {}, "rule"),
    "floats have none": (([1, "floats", 1],), {}, "rule"),
    "a Boolean": (([1, C, True],), {}, "rule"),
    "32 bits": (([1, "parity", 1 << 31, 1],), {}, "rule"),
    "a name that is not a rule": (([1, "formula", 1],), {}, "'formula' is not a rule"),
    "a rule of earlier files": (([1, "paired drawn", 1, 1],), {}, "'paired drawn' is not a rule"),
    "no order": (([1, "order", 1, 1],), {"name": "unembedding", "shape": [2, 1]}, "order"),
    "an order of fewer": (([1, "order", 1, 1],), {"shape": [3, 1]}, "order"),
    "a line of one": (([1, "parabola", 1, 1],), {"shape": [1, 1]}, "order"),
    "4097 columns": (([4097, C, 1],), {}, "wide"),
    "a column too few": (([1, C, 1],), {"shape": [2, 2]}, "columns"),
    "a column too many": (([3, C, 1],), {"shape": [2, 2]}, "wide|columns"),
    "none": (([2, C, 1], [0, C, 1]), {"shape": [2, 2]}, "wide|columns"),
    "rows that are not of heads": (([1, C, 1],), {"name": "U", "shape": [4, 1]}, "columns"),
    "a Boolean number": (([True, C, 1], [1, C, 1]), {"shape": [2, 2]}, "wide|columns"),
    "not a number": (([1, "floats"],), {"bits": floats(np.nan, 1)}, "finite"),
    "no bits": (([1, "fields", 0, 1, 1],), {}, "cut off"),
    "numbers without an end": (([1, "integers", 1],), {"bits": [1, 1, 1, 1]}, "cut off"),
    "fields of 26 bits": (([1, "fields", 0, 1, 26],), {"bits": [0] * 56}, "too many bits"),
    "a byte is left": (([1, "fields", 0, 1, 1],), {"bits": [1, 1] + [0] * 14}, "more bits"),
    "a byte of zeros is left": (([1, "fields", 0, 1, 4],), {"bits": [0] * 16}, "more bits"),
    "the last bit": (([1, "fields", 0, 1, 1],), {"bits": [1, 1] + [0] * 7 + [1]}, "more bits"),
    **{f"the seed {x!r}": (([1, C, 1],), {"seed": x}, "seed") for x in (True, 0.0, "0", None)},
}
READ = {
    "the largest mask": (([1, "parity", 2**31 - 1, 1],), {"shape": [4, 1]}, [[1, -1, -1, 1]]),
    "fields of 2^24": (([1, "fields", 1 << 24, 0, 0],), {}, [[1 << 24] * 2]),
    "fields of 25 bits": (([1, "fields", 0, 1, 25],), {"bits": [0] * 56}, [[0, 0]]),
    "the order of the first column": (
        ([1, "fields", 0, 1, 1], [1, C, 1], [1, "order", 1, 1]),
        {"name": "unembedding", "bits": [0, 1]}, [[0, 1], [1, 1], [-1, 1]],
    ),
    "4096 columns": (([4096, C, 1],), {}, [[1] * 2] * 4096),
    "zeros to the end of a byte": (
        ([1, "fields", 0, 1, 1],), {"bits": [1, 1] + [0] * 6}, [[1, 1]]
    ),
}  # fmt: skip
"""What is at a limit of those, and the columns by their definition."""


@pytest.mark.parametrize("case", REFUSED)
def test_rules_that_are_refused(checker, case):
    runs, options, words = REFUSED[case]
    with pytest.raises((ValueError, TypeError, IndexError, KeyError), match=words):
        checked_read(checker, *runs, **options)


@pytest.mark.parametrize("case", READ)
def test_rules_that_are_read(checker, case):
    runs, options, made = READ[case]
    found = checked_read(checker, *runs, **options)
    assert found.T.tolist() == made


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("U", [0, 1]), ("U", [-3, -1]), ("U", [3.0, 1]), ("U", [True, 1]), ("U", [3]),
        ("U", [3, 1, 1]), ("W_Q", [2, 1]), ("W_K", [2, 1, 1, 1]), ("W_Q", "211"),
    ],
)  # fmt: skip
def test_shapes_that_are_refused(checker, name, shape):
    shapes = checker.packed.shapes_of(ONE)
    assert shapes["U"][:2] == (np.dtype("<f4"), (3, 1))
    assert shapes["W_Q"][1] == (2, 1, 1)
    with refused("shape"):
        checker.packed.shapes_of(ONE | {name: {"shape": shape}})


def test_names_that_are_refused(checker):
    others = dict(ONE), {**ONE, "V": ONE["U"]}
    del others[0]["U"]
    for rules in (*others, list(ONE), None):
        with refused("weights"):
            checker.packed.shapes_of(rules)


def test_descriptions_that_are_cut_off(checker):
    about = {"weights": ONE, "more": "x" * 1000}
    text = json.dumps(about).encode()
    content = zlib.compress(text)
    assert checker.packed.described(content, 64 * len(text)) == about
    for other, most in (
        (content[:-1], 1e9),
        (content + b"x", 1e9),
        (content, 64 * len(text) - 64),
        (zlib.compress(b"[]")[:-4], 1e9),
    ):
        with refused("cut off"):
            checker.packed.described(other, most)
