"""Models of kernels: rows of numbers, and sentences from them."""

from dataclasses import fields, replace

from constructive.exact.formats import FORMATS
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
