"""Formats against numpy and ml_dtypes, and models of kernels: rows of numbers, and sentences."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructive.exact.formats import FORMATS, STORAGES, nearest, rounded
from constructive.exact.kernel_model import KERNEL_MODELS, kernel_model_named

# Formats against numpy and ml_dtypes, and what is stored in them.


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_those_of_numpy_and_ml_dtypes(name):
    kind = np.dtype(name if name.startswith("float") and "_" not in name else "float32")
    found = np.finfo(kind) if kind.name == name else pytest.importorskip("ml_dtypes").finfo(name)
    known = FORMATS[name]
    assert known.digits == found.nmant + 1
    assert known.smallest == float(found.smallest_normal)
    assert known.largest == float(found.max)
    assert known.tiny >= 0.5 * float(found.smallest_subnormal)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2"])
def test_nearest_rounds_as_others_do(name):
    types = pytest.importorskip("ml_dtypes")
    kind = getattr(types, name) if hasattr(types, name) else getattr(np, name)
    random = np.random.default_rng(0)
    values = random.standard_normal(4000) * 2.0 ** random.integers(-30, 8, 4000)
    values = values.astype(np.float32).astype(np.float64)
    values = values[np.abs(values) < 400]
    assert np.array_equal(
        nearest(values, FORMATS[name]), values.astype(np.float32).astype(kind).astype(float)
    )


@given(
    st.lists(st.floats(width=64), min_size=1, max_size=4),
    st.sampled_from(sorted(set(FORMATS) - {"float64"})),
)
def test_what_is_not_finite_stays_so_and_changes_no_other_number(numbers, name):
    """NaN of any bits: those whose last digits alone differ from infinity, too."""
    strange = np.array([0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF], np.uint64).view(float)
    found = nearest(np.concatenate([numbers, strange, [np.inf, -np.inf]]), FORMATS[name])
    alone = [nearest(np.array([number]), FORMATS[name])[0] for number in numbers]
    assert np.array_equal(found, [*alone, np.nan, np.nan, np.inf, -np.inf], equal_nan=True)
    assert (np.isnan(alone) == np.isnan(numbers)).all()


@pytest.mark.parametrize("name", STORAGES)
def test_numbers_that_a_format_holds(name):
    form = FORMATS[name]
    # Integers of so many bits are stored exactly, and one more bit is too many.
    whole = np.append(2.0**form.digits - np.arange(3), [form.largest, form.smallest, 0.0])
    assert form.holds(whole)
    assert (rounded(whole.astype(np.float32), name) == whole).all()
    for other in (2.0**form.digits + 1, 2.0 * form.largest):
        assert not form.holds(np.array([1.0, other]))
    # Arrays of the format itself are not looked at, nor copied.
    assert FORMATS["float32"].holds(np.array([np.nan], np.float32))


@given(st.lists(st.floats(-60000, 60000, width=32), min_size=1), st.sampled_from(STORAGES))
def test_storing(numbers, name):
    form, exact = FORMATS[name], np.array(numbers, np.float32)
    found = rounded(exact, name).astype(float)
    bound = (form.unit * np.abs(exact).astype(float) + form.tiny) * (name != "float32")
    assert (np.abs(found - exact) <= bound).all()


# Models of kernels: rows of numbers, and sentences from them.


def test_every_number_of_a_model_is_in_its_sentence():
    model = kernel_model_named("lazy bfloat16")
    model = replace(model, operand_unit=2.0**-10, stores_logits=True)
    ignored = {"name", "overflow"}
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
