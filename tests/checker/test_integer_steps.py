"""The steps of margins of integers in the checker: what each limit lets pass, and what it stops."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from compact_parts import compact
from refusals import refused
from test_integer_claims import in_checker

from constructive.layers.recital import recital

LIMIT = 2**24
PLAIN = "float32, pairwise"
HELD = LIMIT - 65536, 32640, 32512, 64, 257
"""Integers that bfloat16 holds, the last one in two parts. With 63 they make 2^24."""


def model_of(checker, name):
    models = checker.float_model
    return (models.MODELS | models.INTEGER_MODELS)[name]


def layer(**others):
    """Weights of one head, of tokens with one entry."""
    weights = {"embedding": [[1]], "positions": [[0]], "unembedding": [[1], [0]]}
    weights |= {"W_Q": [[[1]]], "W_K": [[[128]]], "U": [[0], [0]]} | others
    return {name: np.array(array, np.int64) for name, array in weights.items()}


class TestSums:
    """`require_sums`: each limit, and the number beside it."""

    @pytest.mark.parametrize("more", [0, 1])
    @pytest.mark.parametrize(
        ("w_q", "w_k"),
        [
            ([[[1]]], [[[2**23 - 1]]]),
            ([[[1], [-1]]], [[[2**21], [1 - 2**21]]]),
            ([[[1, -1]]], [[[2**22, 2**22 - 1]]]),
            ([[[1]], [[1]]], [[[1]], [[2**23 - 1]]]),
        ],
    )
    def test_differences_of_logits(self, checker, w_q, w_k, more):
        w_k = np.array(w_k)
        w_k[-1, 0, -1] += more
        weights, model = layer(W_Q=w_q, W_K=w_k), model_of(checker, PLAIN)
        with refused("differences" if more else None):
            checker.integers.require_sums(weights, model)

    @pytest.mark.parametrize(
        ("name", "u", "word"),
        [
            (PLAIN, np.zeros((2, 4096)), None),
            (PLAIN, np.zeros((2, 4097)), "columns"),
            (PLAIN, [[LIMIT - 2, 3], [1, 4]], None),
            (PLAIN, [[3, LIMIT - 2], [4, -2]], "sums of the readout"),
            ("float32, bfloat16 products", [[257], [128 * 255 + 1]], None),
            ("float32, bfloat16 products", [[128 * 257 + 1], [0]], "hold"),
            ("float32, bfloat16 products", [[LIMIT - 1], [0]], "sums of the readout"),
            ("float32, bfloat16 products", [[n] for n in (*HELD, 62)], None),
            ("float32, bfloat16 products", [[n] for n in (*HELD, 63)], "sums of the readout"),
            ("float32, float16 products", [[65504], [0]], None),
            ("float32, float16 products", [[65536], [0]], "hold"),
        ],
    )
    def test_readout(self, checker, name, u, word):
        weights, model = layer(U=u), model_of(checker, name)
        with refused(word):
            checker.integers.require_sums(weights, model)

    @pytest.mark.parametrize("name", ["W_Q", "W_K"])
    def test_factors(self, checker, name):
        model = model_of(checker, "float32, bfloat16 products")
        checker.integers.require_sums(layer(**{name: [[[256]]]}), model)
        with refused("hold"):
            checker.integers.require_sums(layer(**{name: [[[257]]]}), model)

    @pytest.mark.parametrize("name", ["embedding", "unembedding", "U", "W_K"])
    def test_storage(self, checker, name):
        for whole, stored in ((2048, True), (2049, False)):
            weights, model = layer(), model_of(checker, "float16, pairwise")
            weights[name].reshape(-1)[0] = whole
            with refused(None if stored else "stored"):
                checker.integers.require_sums(weights, model)


class TestWhole:
    """`are_integers`."""

    @pytest.mark.parametrize(
        ("entry", "whole"),
        [(LIMIT - 1.0, True), (1.0 - LIMIT, True), (LIMIT, False), (-LIMIT, False), (0.5, False)],
    )
    def test_entries(self, checker, entry, whole):
        weights = {"U": np.float32([[1.0], [2.0]]), "W_Q": np.float32([[3.0, entry]])}
        assert checker.integers.are_integers(weights) == whole


class TestModels:
    """Programs that may do something else first."""

    @pytest.mark.parametrize("other", [{"free": True}, {"constants": 1}, {"merged": True}])
    def test_each_of_three(self, checker, other):
        on = SimpleNamespace(model=model_of(checker, PLAIN)._replace(**other), weights=layer())
        with refused("merges"):
            checker.integers.integer_margins(on)


class TestReading:
    """`read_out` and `integer_margins`."""

    def test_heads_a_few_at_a_time(self, checker, as_if):
        decoder, text = compact()
        found = in_checker(checker, decoder, text)
        as_if("integers", ENTRIES=1)
        assert in_checker(checker, decoder, text) == found

    def test_margins_count_from_the_prompt_on(self, checker):
        decoder, text = compact()
        seen = []
        for prompt in range(1, len(text) + 1):
            prompted = dataclasses.replace(text, prompt=prompt)
            least = in_checker(checker, decoder, prompted)[0]
            assert least == pytest.approx(recital(decoder, prompted).least.min(), rel=1e-9)
            seen.append(least)
        assert len(set(seen)) > 1

    @pytest.mark.parametrize(("name", "most"), [("float32, float16 products", 2048)])
    @pytest.mark.parametrize("wide", ["W_Q", "W_K"])
    def test_queries_and_keys_are_held(self, checker, name, most, wide):
        """One of two may be wide, not the other one, whichever it is."""
        model = model_of(checker, name)
        for entry, proved in ((most // 2, True), (most // 2 + 1, False)):
            weights = layer(embedding=[[1, 1]], positions=[[0, 0]], U=np.zeros((4, 1)))
            other = {"W_Q": "W_K", "W_K": "W_Q"}[wide]
            weights |= {wide: np.array([[[entry], [entry - 1]]]), other: np.array([[[1], [0]]])}
            x = np.array([[1, 1]])
            if proved:
                checker.integers.read_out(weights, x, None, model)
            else:
                weights[wide][0] = [[most], [1]]  # odd, and of 12 bits
                with refused("queries or keys"):
                    checker.integers.read_out(weights, x, None, model)

    @pytest.mark.parametrize("wide", ["W_Q", "W_K"])
    def test_queries_and_keys_are_stored(self, checker, wide):
        weights = layer(embedding=[[1, 1]], positions=[[0, 0]], U=np.zeros((4, 1)))
        other = {"W_Q": "W_K", "W_K": "W_Q"}[wide]
        weights |= {wide: np.array([[[2048], [1]]]), other: np.array([[[1], [0]]])}
        x = np.array([[1, 1]])
        checker.integers.read_out(weights, x, None, model_of(checker, PLAIN))
        with refused("queries or keys"):
            checker.integers.read_out(weights, x, None, model_of(checker, "float16, pairwise"))

    @pytest.mark.parametrize(("lead", "proved"), [(128, True), (127, False)])
    def test_leads(self, checker, lead, proved):
        weights, model = layer(W_K=[[[1]]]), model_of(checker, PLAIN)
        weights |= {"W_Q": np.array([[[lead], [0]]]), "W_K": np.array([[[0], [1]]])}
        weights["U"] = np.arange(1, 5)[:, None]
        x = np.array([[1, 0], [1, 1]])  # logits: 0; then 0 and the lead
        with refused(None if proved else "lead"):
            outputs = checker.integers.read_out(weights, x, None, model)
            assert outputs.tolist() == [[1 + 3], [1 + 2 + 3 + 4]]

    @pytest.mark.parametrize(("length", "word"), [(1 << 20, "signs"), ((1 << 20) + 1, "too many")])
    def test_tokens_that_a_position_sees(self, checker, length, word):
        weights = layer(embedding=[[2]], positions=[[0]])
        on = SimpleNamespace(model=model_of(checker, PLAIN), weights=weights, window=None)
        on.texts, on.period, on.prompt = [np.zeros(length, np.int64)], 1, 1
        with refused(word):
            checker.integers.integer_margins(on)

    @pytest.mark.parametrize("window", [8, 100])
    def test_other_tokens_weigh_as_much_as_they_may(self, checker, monkeypatch, window):
        """Each of them e^-128 at most, and a sign moves by two."""
        decoder, text = compact(window=8)
        layer = dataclasses.replace(decoder.layer, window=window)
        judge, given = checker.integers.judge, []
        monkeypatch.setattr(
            checker.integers, "judge", lambda *about: given.append(about[-1]) or judge(*about)
        )
        monkeypatch.setattr(checker.integers, "read_out", lambda w, x, *_: x @ w["U"][: x.shape[1]])
        in_checker(checker, dataclasses.replace(decoder, layer=layer), text)
        sizes = np.abs(decoder.layer.readout_weights).sum(axis=0) @ np.abs(decoder.unembedding).T
        weight = 2 * min(window, len(text)) * np.exp(-128.0) * sizes
        assert (weight <= given[0]).all()
        assert (given[0] <= 1.6 * weight + 2.0**-900).all()


class TestJudge:
    """Margins and shares of given outputs."""

    def judged(self, checker, name, outputs, unembedding, right, moved=2.0**-160):
        model = model_of(checker, name)
        moved = np.full(len(unembedding), moved)
        outputs, unembedding = np.array(outputs), np.array(unembedding)
        return checker.integers.judge(model, outputs, unembedding, np.array(right), moved)

    def test_integers_lose_nothing(self, checker):
        least, share = self.judged(checker, PLAIN, [[3, -2]], [[1, 0], [0, -1], [5, 7]], [0])
        assert 1.0 - 1e-9 < least < 1.0
        assert share < 2.0**-900

    def test_a_margin_of_zero_is_lost(self, checker):
        least, share = self.judged(checker, PLAIN, [[3, 3]], [[1, 0], [0, 1]], [0])
        assert least < 0.0
        assert share == math.inf

    def test_the_least_of_several(self, checker):
        outputs, unembedding = [[4], [-9], [2]], [[1], [-1], [0]]
        least, _ = self.judged(checker, PLAIN, outputs, unembedding, [0, 1, 0])
        assert least == pytest.approx(2.0)
        least, _ = self.judged(checker, PLAIN, outputs, unembedding, [0, 1, 1])
        assert least == pytest.approx(-4.0)

    def test_what_averages_move_counts_on_both_sides(self, checker):
        least, _ = self.judged(checker, PLAIN, [[8]], [[1], [0]], [0], moved=2.0**-10)
        assert 8.0 - 2.0**-9 - 1e-9 < least <= 8.0 - 2.0**-9

    @pytest.mark.parametrize("name", [PLAIN, "bfloat16, pairwise", "float16, pairwise"])
    def test_all_roundings_count(self, checker, name):
        """With entries of one sign all errors may add up: ((1 + s)^2 (1 + g) - 1) of the sizes."""
        model = model_of(checker, name)
        outputs, unembedding = [[9, 5]], [[1000, 200], [40, 30]]
        if name == PLAIN:
            outputs = [[9 << 20, 5 << 20]]
        sizes = (np.array(outputs) @ np.array(unembedding).T)[0].astype(float)
        gamma = 2 * model.unit / (1 - 2 * model.unit)
        part = (1 + model.stored) ** 2 * (1 + gamma) - 1
        wanted = part * sizes.sum() + 2 * model.tiny
        least, share = self.judged(checker, name, outputs, unembedding, [0])
        assert least == pytest.approx(sizes[0] - sizes[1])
        assert wanted <= share * least <= wanted * (1 + 1e-6)

    @pytest.mark.parametrize(
        ("outputs", "unembedding", "held"),
        [
            ([[32000]], [[1], [0]], True),
            ([[65480]], [[1], [0]], False),  # 2^-11 more is beyond 65,504
            ([[40000]], [[2], [0]], False),
            ([[32740]], [[2], [0]], False),  # 65,480, and rounding
            ([[65480, 1]], [[0, 1], [0, 0]], False),
            ([[32000, 32000]], [[1, -1], [2, -2]], False),  # products, though their sum is 0
        ],
    )
    def test_range_of_storage(self, checker, outputs, unembedding, held):
        share = self.judged(checker, "float16, pairwise", outputs, unembedding, [0])[1]
        assert (share < math.inf) == held

    def test_logits_of_52_bits(self, checker):
        self.judged(checker, PLAIN, [[1 << 28]], [[(1 << 24) - 1], [0]], [0])
        with refused("too large"):
            self.judged(checker, PLAIN, [[1 << 28]], [[1 << 24], [0]], [0])
