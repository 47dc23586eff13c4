"""Programs of a model are within its bounds; and one production beyond, some are not."""

import beyond
import numpy as np
import pytest
from cases import decoder_case, layer_case, share
from climbing import climb
from emulated import Program, Softmax, programs
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive.exact.float_model import FLOAT32, MODELS

WHOLE = [(name, False) for name in MODELS if MODELS[name].storage.name == "float32"]
WHOLE += [(name, True) for name in MODELS]
"""Models, and whether it is decoders that they evaluate."""


def case_of(model, seed, decoder):
    rng = np.random.default_rng(seed)
    return decoder_case(rng, MODELS[model].storage.name) if decoder else layer_case(rng)


@pytest.mark.parametrize(("model", "decoder"), WHOLE)
def test_no_program_breaks_its_bound(model, decoder):
    used = []

    @settings(max_examples=8)
    @given(programs(model, decoder=decoder), st.integers(0, 10**6))
    def check(program, seed):
        case = case_of(model, seed, decoder)
        found = share(case, program, case.bounds(MODELS[model]))
        assert found <= 1.0
        used.append(found)

    check()
    assert max(used) > 1e-3


@pytest.mark.parametrize("decoder", [False, True])
def test_a_search_breaks_none(decoder):
    rng = np.random.default_rng(5)
    case = layer_case(rng) if not decoder else decoder_case(rng, "float32")
    assert 0.0 < climb(case, FLOAT32, rng, 30)[0] <= 1.0


BEYOND = [
    (table, name, model)
    for table, each in (("layer", beyond.LAYERS), ("decoder", beyond.DECODERS))
    for name, production in each.items()
    for model in production.models
]


@pytest.mark.parametrize(("table", "name", "model"), BEYOND)
def test_one_production_more_breaks_it(table, name, model):
    production = (beyond.LAYERS if table == "layer" else beyond.DECODERS)[name]
    assert any(found > 1.0 for found in beyond.shares(production, model, 6))


def test_every_model_has_a_production_beyond():
    assert {(model, table == "decoder") for table, _, model in BEYOND} >= set(WHOLE)


def test_merged_weights_do_not_sum_to_one():
    """exp(l - (m + log L)) moves all weights at once, so equal tokens are not help there."""
    case = beyond.large_logits()
    program = Program(model="float32, scaled", form=Softmax("log"))
    off = float(case.off(program).max())
    assert off > 1e-3
    assert off <= float(case.bounds(MODELS["float32, scaled"]).min())
