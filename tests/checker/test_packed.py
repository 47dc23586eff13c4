"""Packed weights come back bit for bit, from small files, and damaged ones are refused."""

import json
import tracemalloc
import zlib

import numpy as np
import pytest
from checker_parts import refused
from compact_parts import changed, compact
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from constructive import Decoder, FormatError, Text, build_decoder
from constructive.constructions import compact as construction
from constructive.layers import decoder as decoders
from constructive.layers.packed import NAMES, drawn_signs, order_of, pack, packable, parity, unpack
from constructive.support.tensors import serialized

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
"""Six tensors of ones: two tokens, two positions, and two heads."""


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
    return checker.packed.read(rules, packed_bits(bits), seed)[name]


class TestBits:
    """Fields, unary numbers, and Rice's code."""

    def test_fields(self, checker):
        bits = checker.packed.Bits(packed_bits([1, 0, 1, 0, 1, 1, 1, 0]))
        assert bits.fields(2, 3).tolist() == [5, 6]
        assert bits.fields(3, 0).tolist() == [0, 0, 0]
        assert bits.left.tolist() == [1, 0]

    def test_as_many_bits_as_there_are(self, checker):
        assert len(checker.packed.Bits(packed_bits([1] * 8)).take(8)) == 8
        for count in (9, -1):
            with refused("cut off"):
                checker.packed.Bits(packed_bits([1] * 8)).take(count)

    @pytest.mark.parametrize(("width", "known"), [(25, True), (26, False), (-1, False)])
    def test_widths(self, checker, width, known):
        bits = checker.packed.Bits(packed_bits([1] * 56))
        with refused(None if known else "too many bits"):
            assert bits.fields(2, width).tolist() == [2**25 - 1] * 2

    def test_unary(self, checker):
        given = [1, 0, 1, 0, 0, 1] + 40 * [0] + [1, 0]
        bits = checker.packed.Bits(packed_bits(given))
        assert bits.unary(4).tolist() == [0, 1, 2, 40]
        assert len(bits.left) == 1
        one = packed_bits([0] * 7 + [1])
        assert checker.packed.Bits(one).unary(1).tolist() == [7]
        with refused("cut off"):
            checker.packed.Bits(one).unary(2)

    def test_coded(self, checker):
        """First the low bits of all, then what is above them."""
        bits = checker.packed.Bits(packed_bits([1, 0, 1, 1, 0, 1, 1, 0]))
        assert bits.coded(2, 2).tolist() == [1 + 4 * 1, 3]
        assert len(bits.left) == 1


class TestMemory:
    """What reading takes does not grow with what a column leaves unread."""

    def peak(self, function, *arguments):
        tracemalloc.start()
        try:
            function(*arguments)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def test_unary_numbers_before_many_bits(self, checker):
        bits = checker.packed.Bits(np.full(10**6, 255, np.uint8))
        assert self.peak(bits.unary, 3) < 2 * 10**6
        sparse = checker.packed.Bits(packed_bits(([0] * 99_999 + [1]) * 8))
        assert sparse.unary(8).tolist() == [99_999] * 8

    def test_fields(self, checker):
        bits = checker.packed.Bits(np.full(10**6, 255, np.uint8))
        assert self.peak(bits.fields, 10**5, 25) < 4 * 8 * 10**5

    def test_all_bits_are_announced(self, checker, tmp_path):
        """Whatever the file holds is there before anything is known to be left."""
        about = json.dumps({"weights": ONE, "record": {"seed": 0}}).encode()
        text, path = np.frombuffer(zlib.compress(about), np.uint8), tmp_path / "weights"
        bits = np.zeros(10**6, np.uint8)
        path.write_bytes(
            serialized({"about": text, "bits": bits}, {"format": "constructive decoder 2"})
        )
        _, _, announced, read = checker.decoders.read_about(path, 1e9)

        def left():
            with refused("more bits"):
                read()

        assert 9 * len(bits) < self.peak(left) <= announced <= 11 * len(bits)
        with refused("too large"):
            checker.decoders.read_about(path, 64 * (len(text) - 1))


class TestRules:
    """The columns that rules make."""

    @pytest.mark.parametrize(
        ("run", "made"),
        [
            ([1, "constant", 3], [3, 3, 3, 3]),
            ([1, "constant", 3, 1, 0], [3, 0, 3, 3]),
            ([1, "constant", 3, 3, -2], [3, 3, 3, -2]),
            ([1, "parity", 0, 5], [5, 5, 5, 5]),
            ([1, "parity", 1, 5], [5, -5, 5, -5]),
            ([1, "parity", 3, -5], [-5, 5, 5, -5]),
            ([1, "parity", 2**31 - 1, 1], [1, -1, -1, 1]),
        ],
    )
    def test_formulas(self, checker, run, made):
        column = checked_read(checker, run, shape=[4, 1])
        assert column[:, 0].tolist() == made

    def test_formulas_of_the_order(self, checker):
        """The first column has the order 1, 2, 0, which the next ones and the embedding take."""
        rules = ONE | {
            "unembedding": {
                "shape": [3, 3],
                "columns": [[1, "fields", 0, 3, 2], [1, "parabola", 1, 2], [1, "order", 1, 4]],
            },
            "embedding": {"shape": [2, 2], "columns": [[1, "constant", 5], [1, "order", 2, 7]]},
        }
        bits = packed_bits([0, 1, 1, 0, 1, 1])  # 2, 1, 3
        tensors = checker.packed.read(rules, bits, 0)
        assert tensors["unembedding"].T.tolist() == [[6, 3, 9], [0, -2, -2], [-4, 4, 4]]
        assert tensors["embedding"].T.tolist() == [[5, 5], [7, -7]]

    def test_places(self, checker):
        """Classes 1, 0, 1: the rows 0 and 2 come first."""
        run, bits = [1, "places", 9, -2, 1], [1, 0, 1, 1, 1, 1]
        column = checked_read(checker, run, shape=[3, 1], bits=bits)
        assert column[:, 0].tolist() == [9, 5, 7]

    def test_integers(self, checker):
        """Signs -, +, -; then the low bits 1, 1, 0; and above them 2, 0, 1."""
        bits = [int(bit) for bit in "101110001101"]
        column = checked_read(checker, [1, "integers", 1], shape=[3, 1], bits=bits)
        assert column[:, 0].tolist() == [-5, 1, -2]

    def test_zeros_have_no_sign(self, checker):
        for rule in (["integers", 0], ["paired integers", -1, 0]):
            bits = [1, 1, 1, 1] if rule[0] == "integers" else [1, 1]
            column = checked_read(checker, [1, *rule], shape=[2, 1], bits=bits)
            assert not np.signbit(column).any()
            assert (column == 0).all()

    def test_floats(self, checker):
        wanted = np.float32([0.1, -(2.0**30)])
        column = checked_read(checker, [1, "floats"], shape=[2, 1], bits=floats(*wanted))
        assert (column[:, 0] == wanted).all()

    @pytest.mark.parametrize("rows", [1, 2, 5])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_pairs(self, checker, rows, sign):
        half = rows - rows // 2
        bits = [n >> digit & 1 for n in range(1, half + 1) for digit in range(2)]
        run = [1, "paired fields", sign, 1, 2, 2]
        column = checked_read(checker, run, shape=[rows, 1], bits=bits)[:, 0]
        first = [3, 5, 7][:half]
        assert column.tolist() == [*first, *(sign * n for n in first[half - rows // 2 :])]

    def test_drawn(self, checker):
        """Signs depend on the seed and the name alone, and all columns are drawn at once."""
        names, seeds = ("positions", "embedding"), (0, 1)
        drawn = {
            (name, seed): checked_read(
                checker, [9, "drawn", 3], name=name, shape=[20, 9], seed=seed
            )
            for name in names
            for seed in seeds
        }
        assert all(set(np.unique(each)) == {-3.0, 3.0} for each in drawn.values())
        listed = list(drawn.values())
        assert not any((listed[i] == listed[j]).all() for i in range(4) for j in range(i))
        one = checked_read(checker, [4, "constant", 0], [5, "drawn", 1], shape=[20, 9])
        assert (3 * one[:, 4:] == drawn["positions", 0][:, 4:]).all()


def floats(*numbers):
    return np.unpackbits(np.float32(numbers).view(np.uint8), bitorder="little")


C = "constant"
KNOWN = [1, "fields", 0, 1, 0]
"""A column of the line, which has an order."""
REFUSED = {
    "a row that is not there": (([1, C, 1, 2, 5],), {}, "out of bounds|row"),
    "a row before the first": (([1, C, 1, -1, 5],), {}, "row"),
    "a mask below zero": (([1, "parity", -1, 1],), {}, "mask"),
    "another sign": (([1, "paired drawn", 0, 1],), {}, "sign"),
    "a sign of two": (([1, "paired drawn", 2, 1],), {}, "sign"),
    "no parameter": (([1, C],), {}, "rule"),
    "one parameter more": (([1, "drawn", 1, 1],), {}, "rule"),
    "two parameters of one or three": (([1, C, 1, 1],), {}, "rule"),
    "four parameters of one or three": (([1, C, 1, 1, 1, 1],), {}, "rule"),
    "floats have none": (([1, "floats", 1],), {}, "rule"),
    "a fraction": (([1, C, 0.5],), {}, "rule"),
    "a Boolean": (([1, C, True],), {}, "rule"),
    "a string": (([1, C, "1"],), {}, "rule|abs"),
    "32 bits": (([1, "parity", 1 << 31, 1],), {}, "rule"),
    "minus 32 bits": (([1, "drawn", -(1 << 31)],), {}, "rule"),
    "a name that is no rule": (([1, "formula", 1],), {}, "formula"),
    "no order": (([1, "order", 1, 1],), {"name": "unembedding", "shape": [2, 1]}, "order"),
    "no line": (([1, "parabola", 1, 1],), {"name": "unembedding", "shape": [2, 1]}, "order"),
    "an order of fewer": (([1, "order", 1, 1],), {"shape": [3, 1]}, "order"),
    "a line of fewer": (([1, "parabola", 1, 1],), {"shape": [3, 1]}, "order"),
    "a line of one": (([1, "parabola", 1, 1],), {"shape": [1, 1]}, "order"),
    "4097 columns": (([4097, C, 1],), {}, "wide"),
    "a column too few": (([1, C, 1],), {"shape": [2, 2]}, "columns"),
    "a column too many": (([3, C, 1],), {"shape": [2, 2]}, "wide|columns"),
    "less than none": (([3, C, 1], [-1, C, 1]), {"shape": [2, 2]}, "wide|columns"),
    "none": (([2, C, 1], [0, C, 1]), {"shape": [2, 2]}, "wide|columns"),
    "a Boolean number": (([True, C, 1], [1, C, 1]), {"shape": [2, 2]}, "wide|columns"),
    "a float": (([2.0, C, 1],), {"shape": [2, 2]}, "wide|columns"),
    "infinite": (([1, "floats"],), {"bits": floats(np.inf, 1)}, "finite"),
    "not a number": (([1, "floats"],), {"bits": floats(np.nan, 1)}, "finite"),
    "a byte is left": (([1, "fields", 0, 1, 1],), {"bits": [1, 1] + [0] * 14}, "more bits"),
    "a bit is left": (([1, "fields", 0, 1, 1],), {"bits": [1, 1, 0, 1] + [0] * 6}, "more bits"),
    "the last bit": (([1, "fields", 0, 1, 1],), {"bits": [1, 1] + [0] * 7 + [1]}, "more bits"),
    **{f"the seed {x!r}": (([1, C, 1],), {"seed": x}, "seed") for x in (True, 0.0, "0", None)},
}
ACCEPTED = {
    "one row": (([1, C, 3],), {"shape": [1, 1]}, [[3]]),
    "an order": ((KNOWN, [1, "order", 1, 1]), {"name": "unembedding", "shape": [2, 2]}, None),
    "a line": ((KNOWN, [1, "parabola", 1, 1]), {"name": "unembedding", "shape": [2, 2]}, None),
    "4096 columns": (([4096, C, 1],), {}, [[1] * 4096] * 2),
    "two columns": (([2, C, 1],), {"shape": [2, 2]}, [[1, 1]] * 2),
    "large floats": (([1, "floats"],), {"bits": floats(2.0**24, 2.0**30)}, [[2**24], [2**30]]),
    "zeros to the end of a byte": (
        ([1, "fields", 0, 1, 1],), {"bits": [1, 1] + [0] * 6}, [[1], [1]]
    ),
}  # fmt: skip


class TestRefused:
    """What is not a rule, a shape, or a description; and what nearly is not."""

    @pytest.mark.parametrize("case", REFUSED)
    def test_rules(self, checker, case):
        runs, options, words = REFUSED[case]
        with pytest.raises((ValueError, TypeError, IndexError, KeyError), match=words):
            checked_read(checker, *runs, **options)

    @pytest.mark.parametrize("case", ACCEPTED)
    def test_rules_that_are_read(self, checker, case):
        runs, options, made = ACCEPTED[case]
        found = checked_read(checker, *runs, **options)
        assert made is None or found.tolist() == made

    @pytest.mark.parametrize(
        ("name", "shape"),
        [
            ("U", [0, 1]), ("U", [-3, -1]), ("U", [3.0, 1]), ("U", [True, 1]), ("U", [3]),
            ("U", [3, 1, 1]), ("W_Q", [2, 1]), ("W_K", [2, 1, 1, 1]), ("W_Q", "211"),
        ],
    )  # fmt: skip
    def test_shapes(self, checker, name, shape):
        shapes = checker.packed.shapes_of(ONE)
        assert shapes["U"][:2] == (np.dtype("<f4"), (3, 1))
        assert shapes["W_Q"][1] == (2, 1, 1)
        with refused("shape"):
            checker.packed.shapes_of(ONE | {name: {"shape": shape}})

    def test_names(self, checker):
        others = dict(ONE), {**ONE, "V": ONE["U"]}
        del others[0]["U"]
        for rules in (*others, list(ONE), None):
            with refused("weights"):
                checker.packed.shapes_of(rules)

    def test_descriptions(self, checker):
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


# Heads in pairs are stored once: in files, and as the checker reads them.


@pytest.fixture(scope="module")
def in_blocks():
    words = Text.of([(7 * i * i + i // 3) % 11 for i in range(200)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(construction, "LARGEST", 60)
        patch.setattr(construction, "BLOCK", 6)
        return build_decoder(words, parameters="few")


def test_decoders_in_blocks_come_back_here_and_in_the_checker(checker, in_blocks):
    packed = pack(in_blocks.tensors, 0)
    rules = json.loads(json.dumps(packed.rules))
    bits = np.packbits(packed.bits, bitorder="little")
    for read in (unpack(packed.rules, packed.bits, 0), checker.packed.read(rules, bits, 0)):
        for name, array in in_blocks.tensors.items():
            assert np.array_equal(read[name].view("u4"), array.view("u4"))


def test_pairs_count_once(in_blocks):
    packed = pack(in_blocks.tensors, 0)
    kinds = {name: {run[1] for run in about["columns"]} for name, about in packed.rules.items()}
    assert "paired drawn" in kinds["W_Q"]
    assert "paired drawn" in kinds["W_K"]
    assert kinds["U"] & {"paired integers", "paired fields"}
    readout = in_blocks.layer.readout_weights
    assert packed.num_stored < len(readout)


@pytest.mark.parametrize(("sign", "front"), [(1, 0), (-1, 0), (1, 1), (-1, 1)])
def test_halves_with_a_sign(sign, front):
    rng = np.random.default_rng(0)
    first = rng.integers(-50, 50, (front + 8, 3)).astype(np.float32)
    tensors = dict.fromkeys(("unembedding", "embedding", "positions"), first)
    heads = 3 * drawn_signs("W_Q", 5, (8, 3))
    tensors["W_Q"] = tensors["W_K"] = np.concatenate([heads, sign * heads])[:, :, np.newaxis]
    tensors["U"] = np.concatenate([first[:1], first[-8:], sign * first[-8:] + 0.0])
    packed = pack(tensors, 5)
    assert [run[1:] for run in packed.rules["W_Q"]["columns"]] == [["paired drawn", sign, 3]]
    assert {run[1] for run in packed.rules["U"]["columns"]} <= {"paired integers", "paired fields"}
    assert all(np.array_equal(unpack(packed.rules, packed.bits, 5)[n], tensors[n]) for n in tensors)
    tensors["U"] = tensors["U"].copy()
    tensors["U"][-1] += 1
    assert all("paired" not in run[1] for run in pack(tensors, 5).rules["U"]["columns"])


def test_another_sign_is_refused(checker, in_blocks):
    packed = pack(in_blocks.tensors, 0)
    rules = json.loads(json.dumps(packed.rules))
    run = next(run for run in rules["W_K"]["columns"] if run[1] == "paired drawn")
    run[2] = 2
    bits = np.packbits(packed.bits, bitorder="little")
    with pytest.raises(ValueError, match="sign"):
        unpack(rules, packed.bits, 0)
    with pytest.raises(ValueError, match="sign"):
        checker.packed.read(rules, bits, 0)
