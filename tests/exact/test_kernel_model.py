"""Models of kernels: rows of numbers, and sentences from them."""

from dataclasses import fields, replace

import pytest

from constructive.exact.float_model import FORMATS
from constructive.exact.kernel_model import KERNEL_MODELS, kernel_model_named


def test_every_number_of_a_model_is_in_its_sentence():
    model = kernel_model_named("lazy bfloat16")
    model = replace(model, operand_unit=2.0**-10, stores_logits=True)
    ignored = {"name", "contraction", "overflow", "factors"}  # the last is of other models
    other = {
        "storage": FORMATS["float16"], "unit": 2.0**-53, "output": FORMATS["float16"],
        "stores_logits": False, "stores_entries": True, "merged": True, "stores_divided": False,
        "depth": 7, "block": 99,
    }  # fmt: skip
    for field in fields(model):
        if field.name not in ignored:
            value = other[field.name] if field.name in other else getattr(model, field.name) * 2
            changed = replace(model, **{field.name: value})
            assert changed.describe() != model.describe(), field.name


def test_models_differ_in_their_numbers():
    assert len({model.describe() for model in KERNEL_MODELS.values()}) == len(KERNEL_MODELS)
    assert all(name == model.name for name, model in KERNEL_MODELS.items())


@pytest.mark.parametrize("name", KERNEL_MODELS)
def test_sentences_say_what_is_assumed(name):
    model = kernel_model_named(name)
    *clauses, underflow = model.describe().split("; ")
    gradual = model.storage.name in {"float16", "float8_e4m3fn", "float8_e5m2"}
    assert underflow.endswith(f"in storage of {model.storage.name} gradual") == gradual
    merged = next(clause for clause in clauses if clause.startswith("splits"))
    assert ("log off by" in merged) == name.startswith("split")
    constants = next(clause for clause in clauses if "2^-16 min(1, scale) or more" in clause)
    stored = name in {"logits float16", "eager float16"}
    assert constants.endswith("where float16 is stored min(1, scale) or more") == stored
    assert any(clause.startswith("a sink is one more key") for clause in clauses)
