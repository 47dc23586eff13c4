"""Packed weights in the checker: each rule by its definition, and what it refuses."""

import json
import tracemalloc
import zlib

import numpy as np
import pytest
from checker_parts import refused

from constructive.support.stored import serialized

NAMES = ("embedding", "positions", "W_Q", "W_K", "U", "unembedding")
ONES = {
    name: {"shape": [2] + [1] * (1 + (name in {"W_Q", "W_K"})), "columns": [[1, "constant", 1]]}
    for name in NAMES
} | {"U": {"shape": [3, 1], "columns": [[1, "constant", 1]]}}
"""Six tensors of ones: two tokens, two positions, and two heads."""


def packed_bits(bits):
    return np.packbits(np.array(bits, np.uint8), bitorder="little")


def rules_of(name, *runs, shape=None):
    """Rules of ones, but for the columns of one tensor."""
    columns = [list(run) for run in runs]
    shape = [ONES[name]["shape"][0], sum(run[0] for run in columns)] if shape is None else shape
    return ONES | {name: {"shape": shape, "columns": columns}}


def read(checker, name, *runs, bits=(), shape=None, seed=0):
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
        about = json.dumps({"weights": ONES, "record": {"seed": 0}}).encode()
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
        column = read(checker, "positions", run, shape=[4, 1])
        assert column[:, 0].tolist() == made

    def test_formulas_of_the_order(self, checker):
        """The first column has the order 1, 2, 0, which the next ones and the embedding take."""
        rules = ONES | {
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
        column = read(checker, "positions", run, shape=[3, 1], bits=bits)
        assert column[:, 0].tolist() == [9, 5, 7]

    def test_integers(self, checker):
        """Signs -, +, -; then the low bits 1, 1, 0; and above them 2, 0, 1."""
        bits = [
            1,
            0,
            1,
            1,
            1,
            0,
            0,
            0,
            1,
            1,
            0,
            1,
        ]
        column = read(checker, "positions", [1, "integers", 1], shape=[3, 1], bits=bits)
        assert column[:, 0].tolist() == [-5, 1, -2]

    def test_zeros_have_no_sign(self, checker):
        for rule in (["integers", 0], ["paired integers", -1, 0]):
            bits = [1, 1, 1, 1] if rule[0] == "integers" else [1, 1]
            column = read(checker, "positions", [1, *rule], shape=[2, 1], bits=bits)
            assert not np.signbit(column).any()
            assert (column == 0).all()

    def test_floats(self, checker):
        wanted = np.float32([0.1, -(2.0**30)])
        bits = np.unpackbits(wanted.view(np.uint8), bitorder="little")
        column = read(checker, "positions", [1, "floats"], shape=[2, 1], bits=bits)
        assert (column[:, 0] == wanted).all()

    @pytest.mark.parametrize("rows", [1, 2, 5])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_pairs(self, checker, rows, sign):
        half = rows - rows // 2
        bits = [n >> digit & 1 for n in range(1, half + 1) for digit in range(2)]
        run = [1, "paired fields", sign, 1, 2, 2]
        column = read(checker, "positions", run, shape=[rows, 1], bits=bits)[:, 0]
        first = [3, 5, 7][:half]
        assert column.tolist() == [*first, *(sign * n for n in first[half - rows // 2 :])]

    def test_drawn(self, checker):
        """Signs depend on the seed and the name alone, and all columns are drawn at once."""
        names, seeds = ("positions", "embedding"), (0, 1)
        drawn = {
            (name, seed): read(checker, name, [9, "drawn", 3], shape=[20, 9], seed=seed)
            for name in names
            for seed in seeds
        }
        assert all(set(np.unique(each)) == {-3.0, 3.0} for each in drawn.values())
        listed = list(drawn.values())
        assert not any((listed[i] == listed[j]).all() for i in range(4) for j in range(i))
        one = read(checker, "positions", [4, "constant", 0], [5, "drawn", 1], shape=[20, 9])
        assert (3 * one[:, 4:] == drawn["positions", 0][:, 4:]).all()


REFUSED = {
    "a row that is not there": ["constant", 1, 2],
    "a row before the first": ["constant", 1, -1],
    "a mask below zero": ["parity", -1, 1],
    "another sign": ["paired drawn", 0, 1],
    "a sign of two": ["paired drawn", 2, 1],
}
"""Rules whose parameters are of the right kind."""

NOT_RULES = {
    "no parameter": ["constant"],
    "one parameter more": ["drawn", 1, 1],
    "two parameters of one or three": ["constant", 1, 1, 1, 1],
    "floats have none": ["floats", 1],
    "a fraction": ["constant", 0.5],
    "a Boolean": ["constant", True],
    "a string": ["constant", "1"],
    "32 bits": ["parity", 1 << 31, 1],
    "minus 32 bits": ["drawn", -(1 << 31)],
}


class TestRefused:
    """What is not a rule, a shape, or a description."""

    @pytest.mark.parametrize("name", REFUSED)
    def test_parameters(self, checker, name):
        with pytest.raises((ValueError, IndexError)):
            read(checker, "positions", [1, *REFUSED[name]])

    @pytest.mark.parametrize("name", NOT_RULES)
    def test_rules(self, checker, name):
        with pytest.raises((ValueError, TypeError), match=r"rule|abs"):
            read(checker, "positions", [1, *NOT_RULES[name]])

    def test_a_name_that_is_no_rule(self, checker):
        with pytest.raises(KeyError, match="formula"):
            read(checker, "positions", [1, "formula", 1])

    def test_one_row(self, checker):
        assert read(checker, "positions", [1, "constant", 3], shape=[1, 1]).tolist() == [[3]]

    @pytest.mark.parametrize("rule", ["order", "parabola"])
    def test_an_order_that_is_not_known(self, checker, rule):
        with refused("order"):
            read(checker, "unembedding", [1, rule, 1, 1], shape=[2, 1])
        known = [1, "fields", 0, 1, 0], [1, rule, 1, 1]
        assert read(checker, "unembedding", *known, shape=[2, 2]).shape == (2, 2)

    @pytest.mark.parametrize("rule", ["order", "parabola"])
    def test_an_order_of_fewer(self, checker, rule):
        with refused("order"):
            read(checker, "positions", [1, rule, 1, 1], shape=[3, 1])
        if rule == "parabola":
            with refused("order"):
                read(checker, "positions", [1, rule, 1, 1], shape=[1, 1])

    @pytest.mark.parametrize(("most", "known"), [(4096, True), (4097, False)])
    def test_columns(self, checker, most, known):
        with refused(None if known else "wide"):
            assert read(checker, "positions", [most, "constant", 1]).shape == (2, most)

    @pytest.mark.parametrize(
        "runs",
        [
            [[1, "constant", 1]],
            [[3, "constant", 1]],
            [[3, "constant", 1], [-1, "constant", 1]],
            [[2, "constant", 1], [0, "constant", 1]],
            [[True, "constant", 1], [1, "constant", 1]],
            [[2.0, "constant", 1]],
        ],
    )
    def test_runs(self, checker, runs):
        assert read(checker, "positions", [2, "constant", 1], shape=[2, 2]).shape == (2, 2)
        with refused(r"wide|columns"):
            read(checker, "positions", *runs, shape=[2, 2])

    @pytest.mark.parametrize("size", [2.0**24, np.inf, np.nan])
    def test_floats_are_finite(self, checker, size):
        bits = np.unpackbits(np.float32([size, 2.0**30]).view(np.uint8), bitorder="little")
        with refused(None if np.isfinite(size) else "finite"):
            assert read(checker, "positions", [1, "floats"], bits=bits)[0, 0] == size

    @pytest.mark.parametrize("left", [[0] * 8, [0, 1], [0] * 7 + [1]])
    def test_bits_that_are_left(self, checker, left):
        run = [1, "fields", 0, 1, 1]
        assert read(checker, "positions", run, bits=[1, 1] + [0] * 6).tolist() == [[1], [1]]
        with refused("more bits"):
            read(checker, "positions", run, bits=[1, 1, *left] + [0] * 6)

    def test_seeds(self, checker):
        for seed in (True, 0.0, "0", None):
            with refused("seed"):
                read(checker, "positions", [1, "constant", 1], seed=seed)

    @pytest.mark.parametrize(
        ("name", "shape"),
        [
            ("U", [0, 1]), ("U", [-3, -1]), ("U", [3.0, 1]), ("U", [True, 1]), ("U", [3]),
            ("U", [3, 1, 1]), ("W_Q", [2, 1]), ("W_K", [2, 1, 1, 1]), ("W_Q", "211"),
        ],
    )  # fmt: skip
    def test_shapes(self, checker, name, shape):
        shapes = checker.packed.shapes_of(ONES)
        assert shapes["U"][:2] == (np.dtype("<f4"), (3, 1))
        assert shapes["W_Q"][1] == (2, 1, 1)
        with refused("shape"):
            checker.packed.shapes_of(ONES | {name: {"shape": shape}})

    def test_names(self, checker):
        others = dict(ONES), {**ONES, "V": ONES["U"]}
        del others[0]["U"]
        for rules in (*others, list(ONES), None):
            with refused("weights"):
                checker.packed.shapes_of(rules)

    def test_descriptions(self, checker):
        about = {"weights": ONES, "more": "x" * 1000}
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
