"""Programs of a model are within its bounds; one production more, and some are not; integers."""

import dataclasses
import runpy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cases import PRODUCTIONS, climb, decoder_case, share, shares
from decoder_parts import changed, compact
from emulated import INTEGER_MODELS, MODELS, programs
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from constructive import ParameterError, Text, Verdict, certify
from constructive.checker.integers import require_sums
from constructive.exact.formats import FORMATS
from constructive.recite.causal import picks, read_tokens


@pytest.mark.parametrize("model", MODELS)
def test_no_program_breaks_its_bound(model):
    used = []

    @settings(max_examples=8, derandomize=True)  # what is reached depends on what is drawn
    @given(programs(model), st.integers(0, 10**6))
    def check(program, seed):
        case = decoder_case(np.random.default_rng(seed), MODELS[model].storage.name)
        found = share(case, program, case.bounds(MODELS[model]))
        assert found <= 1.0
        used.append(found)

    check()
    assert max(used) > 1e-5


def test_a_search_breaks_none():
    rng = np.random.default_rng(5)
    assert 0.0 < climb(decoder_case(rng, "float32"), MODELS["float32, pairwise"], rng, 30)[0] <= 1.0


BEYOND = [(name, model) for name, each in PRODUCTIONS.items() for model in each.models]


@pytest.mark.parametrize(("name", "model"), BEYOND)
def test_one_production_more_breaks_it(name, model):
    assert any(found > 1.0 for found in shares(PRODUCTIONS[name], model, 6))


def test_every_model_has_a_production_beyond():
    assert {model for _, model in BEYOND} >= set(MODELS)


# Drawn programs on decoders of integers: z is exact, bit for bit, and so is the token.
#
# Where the hypotheses do not hold, some program says another token, or z is not that of the picks.


PAIRWISE = ["float32, pairwise", "float32, pairwise, blocks of 16", *INTEGER_MODELS]
SHORT = Text.words("a b, a c, b d. a d")


@pytest.fixture(scope="module")
def made():
    """A decoder with full margins, its text, its tokens and Z."""
    decoder, text = compact(SHORT, period=8, spacing=301)
    x = decoder.embedded(text.ids[None])
    z = read_tokens(x[0], picks(x[0], *list(decoder.layer.tensors.values())[:2], 8).tokens)
    return decoder, text, x, z


@pytest.mark.parametrize("name", PAIRWISE)
def test_programs_give_z_and_the_token(made, name):
    decoder, text, x, z = made
    following = np.append(text.ids[1:], text.end)
    claim = certify(decoder, text, claims=["executed"], model=name)["executed"]
    assert claim.verdict is Verdict.PROVED
    exact = z.astype(float) @ decoder.layer.readout_weights @ decoder.unembedding.T.astype(float)
    assert np.abs(exact).max() < 2**24

    @settings(max_examples=15)
    @given(programs(name))
    def check(program):
        found = program.of_decoder(decoder.layer, decoder.unembedding, x)[0]
        assert (found == exact).all()
        assert (found.argmax(axis=1) == following).all()
        identity = dataclasses.replace(
            decoder.layer, readout_weights=np.eye(z.shape[1], dtype=np.float32)
        )
        rows = program.of_decoder(identity, np.eye(z.shape[1], dtype=np.float32), x)[0]
        assert (rows == z).all()

    check()


def test_other_models_are_not_proved_by_integers(made):
    decoder, text, _, _ = made
    with pytest.raises(ParameterError, match="model"):
        certify(decoder.stored_as("bfloat16"), text, model="float32, TF32 products")
    merged = certify(decoder, text, claims=["executed"], model="float32, scaled")["executed"]
    assert merged.verdict is Verdict.UNDECIDED


def test_factors_that_do_not_fit_are_not_proved():
    """Keys are 64 b, and bfloat16 holds b of 8 bits."""
    decoder, text = compact(SHORT, period=8, window=8, heads=8, spacing=301)
    w_k = decoder.layer.key_weights
    wider = changed(decoder, "W_K", array=w_k * np.float32(5.0))
    x = decoder.embedded(text.ids[None])[0].astype(float)
    keys = np.abs(x @ w_k[:, :, 0].T.astype(float) * 5.0)
    assert (keys % 2 == 0).all()
    assert ((keys / 64) % 2 == 1).all()
    assert (keys / 64).max() > 2 ** FORMATS["bfloat16"].digits
    for name in INTEGER_MODELS:
        claim = certify(wider, text, claims=["executed"], model=name)["executed"]
        assert (claim.verdict is Verdict.PROVED) == ("bfloat16" not in name)


def test_a_split_readout_needs_smaller_sums():
    """128 |A| + |B| may add up to 2^24 where |U| does not: then orders matter."""
    model = INTEGER_MODELS["float32, bfloat16 products"]
    rows, value = 4000, 4161.0
    readout = np.full((rows, 1), value, np.float32)
    readout[1::2] = -value
    high = 128.0 * np.rint(value / 128.0)
    assert rows * value < 2**24 < rows * (high + abs(value - high))
    ones = np.ones((1, 1, 1), int)
    weights = {"W_Q": ones, "W_K": ones, "U": readout.astype(int)}
    require_sums(weights, MODELS["float32, pairwise"].row)
    with pytest.raises(ValueError, match="sums of the readout"):
        require_sums(weights, model.row)


# Exponentials of the libraries which evaluate a decoder, by the program which goes through all.


PATH = Path(__file__).parent.parent / "benchmarks" / "exponentials.py"
EXPONENTIALS = runpy.run_path(str(PATH))


@pytest.mark.slow
def test_all_are_as_assumed():
    worst, count = EXPONENTIALS["measured"](EXPONENTIALS["backends"](), 499)
    assert count > 2_000_000
    for name, each in worst.items():
        assert each.holds, (name, each.ulps, each.place, each.low, each.low_place)
        assert each.ulps > 0.4, name  # none is exact


SMALLEST = np.float32(2.0**-126)

WRONG_EXPONENTIALS = {
    "relative error": lambda values: np.exp(values) * np.float32(1.0 + 2.0**-17),
    "flushed too early": lambda values: np.where(
        np.exp(values) < 5.0 * SMALLEST, np.float32(0.0), np.exp(values)
    ),
    "nan": lambda values: np.where(np.isinf(values), np.float32(np.nan), np.exp(values)),
}


def test_wrong_ones_would_be_seen():
    right = {"right": np.exp, "softmax": EXPONENTIALS["ratios"](partial(softmax, axis=1))}
    worst, _ = EXPONENTIALS["measured"](WRONG_EXPONENTIALS | right, 9973)
    assert {name for name, each in worst.items() if each.holds} == set(right)
