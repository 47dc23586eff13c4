"""Recites and executed of decoders of integers: what holds, what does not, and each limit."""

import dataclasses
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from checker_parts import FILES_OF, decoder_of, refused, saved
from compact_parts import WINDOW, changed, compact

from constructive import PrecisionError, Text, Verdict, certify, check
from constructive.certificates.families import DECODERS
from constructive.exact.float_model import INTEGER_MODELS, MODELS, nearest
from constructive.layers import margins as room
from constructive.layers.margins import integer_margins, recital, require_integers
from constructive.support.verdict import Claim

CLAIMS = ("recites", "executed")
FILES = FILES_OF[Text]
LIMIT = 2**24


@pytest.fixture(scope="module")
def made():
    return compact()


def by_integers(decoder, text, model="float32, pairwise"):
    """The margins from integers alone. Raises PrecisionError where they decide nothing."""
    form = (MODELS | INTEGER_MODELS)[model]
    require_integers(decoder.tensors, form)
    tokens = decoder.embedded(text.ids[None])[0]
    following, places = np.append(text.ids[1:], text.end), np.arange(len(text))
    window = decoder.layer.window
    return integer_margins(decoder.tensors, form, tokens, window, following, places)


def in_checker(checker, decoder, text, model="float32, pairwise"):
    """The same in the checker, of no files: the least margin, and the largest share."""
    on = decoder_of(checker, decoder, text, model)
    if not checker.integers.are_integers(on.weights):
        raise ValueError("not integers")
    return checker.integers.integer_margins(on)


def forged(folder, decoder, text):
    """Files of a decoder with a certificate that says of it what is true of the honest one."""
    honest, of = compact()
    paths = saved(folder, honest, of, certify(honest, of, claims=CLAIMS))
    content = json.loads((folder / FILES[0]).read_text())
    content["data"], content["weights"] = DECODERS.describe(decoder, text)
    (folder / FILES[0]).write_text(json.dumps(content))
    decoder.save(paths[1])
    text.save(paths[2])
    return paths


# What holds is proved, here and there.


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("model", ["float32, pairwise", *INTEGER_MODELS])
def test_it_is_proved_and_checked(checker, tmp_path, outputs, model):
    decoder, text = compact(outputs=outputs)
    certificate = certify(decoder, text, claims=CLAIMS, model=model)
    assert certificate.proved
    assert check(*saved(tmp_path, decoder, text, certificate)).proved
    least, share = in_checker(checker, decoder, text, model)
    found = by_integers(decoder, text, model)
    np.testing.assert_allclose([least, share], [found.least.min(), found.share.max()], rtol=1e-9)


def test_margins_are_those_of_the_library_in_real_arithmetic(made):
    """The general bound, with softmax from balls, and the integers agree."""
    decoder, text = made
    model = MODELS["float32, pairwise, blocks of 16"]
    seen = by_integers(decoder, text)
    bounds = room._by_bounds(decoder, text, model)
    assert (seen.least <= bounds.most).all()
    assert (bounds.least <= seen.most).all()
    assert (np.rint(seen.most) - seen.least < 1e-3).all()


def test_several_texts_and_prompts(tmp_path):
    decoder, text = compact()
    halves = dataclasses.replace(text, lengths=np.array([16, len(text) - 16]))
    claim = certify(decoder, halves, claims=["recites"])["recites"]
    assert claim.verdict is Verdict.REFUTED
    prompted = dataclasses.replace(text, prompt=5)
    certificate = certify(decoder, prompted, claims=CLAIMS)
    assert certificate.proved
    assert check(*saved(tmp_path, decoder, prompted, certificate)).proved
    assert len(recital(decoder, prompted).least) == len(text) - 4


# What does not hold is not.


def flipped(name, place):
    def change(decoder, text):
        return changed(decoder, name, place, -decoder.tensors[name][place]), text

    return change


def equal_keys(decoder, text):
    """A head that reads no position: equal tokens tie."""
    w_k = np.array(decoder.layer.key_weights)
    w_k[0, -5:] = 0.0
    return changed(decoder, "W_K", array=w_k), text


def no_margin(decoder, text):
    """Two tokens have one point on the line."""
    one, other = text.ids[4], text.ids[5]
    return changed(decoder, "unembedding", one, decoder.unembedding[other]), text


def a_third(decoder, text):
    """An entry of a token that is 3."""
    return changed(decoder, "embedding", (2, 1), 3.0), text


def other_text(decoder, text):
    ids = text.ids.copy()
    ids[[6, 8]] = ids[[8, 6]]
    return decoder, dataclasses.replace(text, ids=ids)


def other_window(decoder, text):
    layer = dataclasses.replace(decoder.layer, window=WINDOW // 2)
    return dataclasses.replace(decoder, layer=layer), text


def shifted_positions(decoder, text):
    return changed(decoder, "positions", array=np.roll(decoder.positions, 1, axis=0)), text


def largest(decoder):
    u = np.abs(decoder.layer.readout_weights[11:, 0])
    return 11 + int(u.argmax()), 0


FALSE = {
    "a sign of W_Q": flipped("W_Q", (0, 1, 0)),
    "a sign of W_K": flipped("W_K", (1, 2, 0)),
    "a sign of a token": flipped("embedding", (1, 1)),
    "a sign of a position": flipped("positions", (3, -1)),
    "a sign of U": lambda d, t: flipped("U", largest(d))(d, t),
    "a sign of the unembedding": flipped("unembedding", (0, 0)),
    "a head with ties": equal_keys,
    "no margin": no_margin,
    "an entry 3": a_third,
    "another text": other_text,
    "another window": other_window,
    "shifted positions": shifted_positions,
}


@pytest.mark.parametrize("name", FALSE)
def test_what_is_false_is_neither_proved_nor_accepted(made, tmp_path, name):
    decoder, text = FALSE[name](*made)
    certificate = certify(decoder, text, claims=CLAIMS)
    assert certificate["recites"].verdict is not Verdict.PROVED
    assert certificate["executed"].verdict is not Verdict.PROVED
    checked = check(*forged(tmp_path, decoder, text))
    assert not checked.proved
    assert "recites" in checked.report


def test_a_forgery_of_the_same_decoder_is_accepted(made, tmp_path):
    """So it is not for the way in which they are made that others are refused."""
    assert check(*forged(tmp_path, *made)).proved


def sum_of(total):
    """A sum of the readout is so large."""

    def change(decoder):
        u, width = np.array(decoder.layer.readout_weights), decoder.layer.width
        u[width, 0] = 0.0
        u[width, 0] = total - int(np.abs(u[:, 0]).sum())
        return changed(decoder, "U", array=u)

    return change


def leads(scale):
    """Keys are so many times as large."""
    return lambda decoder: changed(
        decoder, "W_K", array=decoder.layer.key_weights * np.float32(scale)
    )


def logits(exponent):
    """Keys are as large as logits may be below 2^24 for, or twice that."""

    def change(decoder):
        sizes = [np.abs(w[:, :, 0]).sum(axis=1) for w in list(decoder.layer.tensors.values())[:2]]
        most = 2 * float((sizes[0] * sizes[1]).max())
        return leads(2.0 ** (np.floor(np.log2(LIMIT / most)) + exponent))(decoder)

    return change


def token(entry):
    return lambda decoder: changed(decoder, "embedding", (2, 1), entry)


PLAIN = "float32, pairwise"
NOT_SHOWN = {
    "a sum of the readout": (sum_of(LIMIT), PLAIN, "add up", "readout"),
    "leads of 126": (leads(63 / 64), PLAIN, "leads", "lead"),
    "leads of 64": (leads(1 / 2), PLAIN, "leads", "lead"),
    "leads of 2": (leads(1 / 64), PLAIN, "leads", "lead"),
    "logits of 24 bits": (logits(1), PLAIN, "difference", "logits"),
    "a token of 3": (token(3.0), PLAIN, "not \\+1 or -1", "signs"),
    "a token of 0": (token(0.0), PLAIN, "not \\+1 or -1", "signs"),
    "a token of -2": (token(-2.0), PLAIN, "not \\+1 or -1", "signs"),
    "merged": (lambda d: d, "float32, scaled", "averages first", "merges"),
    "any contraction": (lambda d: d, "float32, any contraction", "averages first", "merges"),
}
"""What certify says of it, and the checker."""


@pytest.mark.parametrize("name", NOT_SHOWN)
def test_what_integers_do_not_show(made, checker, name):
    change, model, of_certify, of_checker = NOT_SHOWN[name]
    decoder, text = change(made[0]), made[1]
    with refused(of_certify, PrecisionError):
        by_integers(decoder, text, model)
    with refused(of_checker):
        in_checker(checker, decoder, text, model)


def test_what_integers_show_up_to_their_limits(made, checker):
    """No order of a sum of 2^24 - 1 is rounded, though it says another token."""
    decoder, text = logits(0)(made[0]), made[1]
    assert by_integers(decoder, text).least.min() > 0.0 < in_checker(checker, decoder, text)[0]
    decoder = sum_of(LIMIT - 1)(made[0])
    assert by_integers(decoder, text).least.min() < 0.0 > in_checker(checker, decoder, text)[0]


@pytest.mark.parametrize(("apart", "proved"), [(1.0, False), (64.0, True)])
def test_what_the_last_product_may_round_counts(checker, tmp_path, apart, proved):
    """A token has the point of the last one, but for a little: logits are 2^24 or more there."""
    decoder, text = compact(spacing=400_001)
    one = len(text.vocabulary) - 1
    text = dataclasses.replace(text, prompt=text.ids.tolist().index(one))
    other = next(v for v in range(one) if v not in text.ids[text.prompt :])
    row = decoder.unembedding[one] - np.float32([0.0, apart])
    near = changed(decoder, "unembedding", other, row)
    seen = recital(near, text)
    assert seen.least.min() == pytest.approx(apart)
    assert seen.error.max() > 1.0
    assert (seen.share.max() < 1.0) == proved
    least, share = in_checker(checker, near, text)
    np.testing.assert_allclose([least, share], [seen.least.min(), seen.share.max()], rtol=1e-9)
    certificate = certify(near, text, claims=CLAIMS)
    assert certificate["recites"].verdict is Verdict.PROVED
    assert (certificate["executed"].verdict is Verdict.PROVED) == proved
    if proved:
        assert check(*saved(tmp_path, near, text, certificate)).proved


@pytest.mark.parametrize("model", INTEGER_MODELS)
def test_what_a_format_holds(checker, model):
    """As rounding to nearest has it, which the checker does not do."""
    form, theirs = INTEGER_MODELS[model].factors, checker.float_model.INTEGER_MODELS[model].factors
    whole = np.concatenate([np.arange(-5000, 5001), 2 ** np.arange(24), [65504, 65536, 65520]])
    exact = nearest(whole.astype(float), form) == whole
    assert (checker.integers.held(whole, theirs) == exact).all()


HYPOTHESES = {
    "an even width": {"even": True},
    "a window of 6 with a period of 4": {"window": 6, "period": 4},
    "a window of 8 with a period of 4": {"period": 4},
}


@pytest.mark.parametrize("name", HYPOTHESES)
def test_hypotheses_of_the_construction(checker, name):
    """Some head ties, though the readout was solved for one of the tokens that it may read."""
    decoder, text = compact(**HYPOTHESES[name])
    with pytest.raises(PrecisionError, match="leads"):
        by_integers(decoder, text)
    with refused("lead"):
        in_checker(checker, decoder, text)


def test_storage_in_fewer_bits(made):
    """Outputs that are stored in 8 bits lose the margins, and it is said so."""
    decoder, text = made
    stored = decoder.stored_as("bfloat16")
    certificate = certify(stored, text, claims=CLAIMS)
    assert certificate["executed"].verdict is Verdict.UNDECIDED


def test_storage_in_float16_where_it_holds(tmp_path):
    """Two tokens, and outputs below 65,504: they may be rounded to 11 bits."""
    text = Text.of([0, 1, 1, 0, 1, 0, 0, 1, 1, 1])
    decoder, _ = compact(text, spacing=301, period=8, heads=6)
    stored = decoder.stored_as("float16")
    assert (stored.layer.readout_weights == decoder.layer.readout_weights).all()
    certificate = certify(stored, text, claims=CLAIMS)
    assert certificate.proved
    assert check(*saved(tmp_path, stored, text, certificate)).proved


def test_a_model_that_the_certificate_does_not_have(made, tmp_path):
    """A certificate of float32 says nothing of bfloat16 products, whatever it is renamed to."""
    decoder, text = made
    w_k = decoder.layer.key_weights * np.float32(5.0)
    wide = changed(decoder, "W_K", array=w_k)
    certificate = certify(wide, text, claims=CLAIMS)
    assert certificate.proved
    paths = saved(tmp_path, wide, text, certificate)
    content = json.loads((tmp_path / FILES[0]).read_text())
    name = "float32, bfloat16 products"
    claim: Claim = certify(decoder, text, claims=["executed"], model=name)["executed"]
    assert claim.verdict is Verdict.PROVED
    content["claims"]["executed"]["evidence"] = claim.evidence
    content["claims"]["executed"]["statement"] = claim.statement
    (tmp_path / FILES[0]).write_text(json.dumps(content))
    checked = check(*paths)
    assert not checked.proved
    assert "bfloat16" in checked.report


# The steps in the checker: what each limit lets pass, and what it stops.


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
