"""Formats against numpy and ml_dtypes, and what is stored in them."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructive.exact.float_model import FORMATS, STORAGES, model_named, nearest, rounded


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


def test_an_array_of_a_format_is_not_copied_to_ask_whether_it_holds_it():
    values = np.ones(10**6, np.float32)
    tracemalloc.start()
    assert FORMATS["float32"].holds(values)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10**5


@pytest.mark.parametrize("name", STORAGES)
def test_numbers_that_a_format_holds(name):
    model, form = model_named(None, name), FORMATS[name]
    assert model.storage is form
    assert model.stored_unit == (0.0 if name == "float32" else 2.0**-form.digits)
    # Integers of so many bits are stored exactly, and one more bit is too many.
    whole = np.append(2.0**form.digits - np.arange(3), [form.largest, form.smallest, 0.0])
    assert form.holds(whole)
    assert (rounded(whole.astype(np.float32), name) == whole).all()
    for other in (2.0**form.digits + 1, 2.0 * form.largest):
        assert not form.holds(np.array([1.0, other]))


@given(st.lists(st.floats(-60000, 60000, width=32), min_size=1), st.sampled_from(STORAGES))
def test_storing(numbers, name):
    model, exact = model_named(None, name), np.array(numbers, np.float32)
    found = rounded(exact, name).astype(float)
    bound = model.stored_unit * np.abs(exact).astype(float) + model.stored_tiny
    assert (np.abs(found - exact) <= bound).all()
