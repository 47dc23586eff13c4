"""Models of programs, formats and kernels: bounds of what rounding does, against what it does."""

import dataclasses
import math
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import ParameterError
from constructive.exact.float_model import (
    BLOCK,
    FLOAT32,
    FORMATS,
    MODELS,
    SMALL_BLOCK,
    STORAGES,
    model_named,
    nearest,
    rounded,
)
from constructive.exact.kernel_model import KERNEL_MODELS, kernel_model_named

# Bounds of what rounding does, against what it does: float32 by brute force.


SEEDS = st.integers(0, 2**32 - 1)
SCALED, ANY = MODELS["float32, scaled"], MODELS["float32, any contraction"]


def zeta_of(model, count):
    """The bound of averages where all weight may be on any tokens."""
    return model.weighted(count, count, 1.0)[0]


def tree_sum(rng, terms):
    """A sum in the dtype of the terms, along a random tree."""
    terms = terms[rng.permutation(len(terms))]
    while len(terms) > 1:
        pairs = int(rng.integers(1, len(terms) // 2 + 1))
        terms = np.concatenate([terms[:pairs] + terms[pairs : 2 * pairs], terms[2 * pairs :]])
    return terms[0]


def inexact_exp(rng, numbers, model):
    """exp in float32, as wrong as is assumed; anything small where it is not a normal number."""
    exact = np.exp(numbers.astype(float))
    error = model.exp_error * (1 - 2.0**-5)  # which leaves room for rounding to float32
    wrong = exact * (1.0 + error * rng.choice([-1.0, 1.0], numbers.shape))
    tiny = exact < model.smallest
    wrong[tiny] = rng.choice([0.0, 2.0 * model.smallest], tiny.sum())
    wrong[numbers == 0] = 1.0
    return wrong.astype(np.float32)


@settings(max_examples=30)
@given(
    SEEDS, st.sampled_from([1, 2, 7, 100, 600, 2000]), st.floats(0.0, 60.0),
    st.sampled_from(STORAGES), st.booleans(), st.booleans(),
)  # fmt: skip
def test_averages(seed, count, spread, storage, in_blocks, divided_first):
    """Softmax in one piece or in blocks, with exp as wrong as may be, stored in any format."""
    model, rng = model_named(None, storage), np.random.default_rng(seed)
    logits = np.round(spread * rng.standard_normal(count)).astype(np.float32)
    tokens = rng.choice(np.float32([-1, 0, 1]), count)
    if in_blocks:
        most, total, sums = logits[0], np.float32(0), np.float32(0)
        for start in range(0, count, BLOCK):
            part = slice(start, start + BLOCK)
            newest = max(most, logits[part].max())
            rescale = inexact_exp(rng, np.array([most - newest]), model)[0]
            powers = inexact_exp(rng, logits[part] - newest, model)
            total = total * rescale + tree_sum(rng, powers)
            sums = sums * rescale + tree_sum(rng, powers * tokens[part])
            most = newest
        average = sums / total
    else:
        powers = inexact_exp(rng, logits - logits.max(), model)
        total = tree_sum(rng, powers)
        if divided_first:
            average = tree_sum(rng, rounded(powers / total, storage) * tokens)
        else:
            average = tree_sum(rng, powers * tokens) / total
    average = float(rounded(np.array([average], np.float32), storage)[0])
    exact = np.exp((logits - logits.max()).astype(float))
    exact /= exact.sum()
    bound = float(zeta_of(model, count)) * (exact @ np.abs(tokens)) + float(model.flushed(count))
    assert abs(average - exact @ tokens) <= bound + 1e-15


def test_no_bound_where_a_relative_error_is_none():
    coarse = dataclasses.replace(FLOAT32, unit=2.0**-10)
    assert np.isinf(coarse.gamma(512))
    assert np.isfinite(coarse.gamma(511))
    assert np.isinf(zeta_of(coarse, 400))  # beta beyond a half before gamma is
    loose = dataclasses.replace(FLOAT32, exp_error=0.25)
    assert np.isfinite(loose.gamma(100))
    assert np.isinf(zeta_of(loose, 2 * BLOCK))


@given(st.integers(0, 2**32), st.integers(1, 6), st.floats(1e-9, 1e-3))
def test_few_tokens_with_much_weight(seed, large, share):
    """Sums in any order of a few large terms, and of many small ones, which add up to `share`."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(large, 3000))
    terms = np.concatenate([rng.uniform(0.1, 1.0, large), np.zeros(count - large)])
    small = rng.exponential(size=count - large) ** 3
    rest = share if count > large else 0.0
    terms[:large] *= (1.0 - rest) / terms[:large].sum()
    terms[large:] = small * rest / max(small.sum(), 1e-300)
    terms = (terms * rng.choice([-1.0, 1.0], count)).astype(np.float32)
    exact = terms.astype(np.float64)
    rest = float(np.abs(exact[large:]).sum())
    whole = float(np.abs(exact).sum())
    zeta, more = FLOAT32.weighted(count, large, rest * (1 + 2.0**-40) / whole)
    for _ in range(3):
        off = abs(float(tree_sum(rng, terms)) - math.fsum(exact.tolist()))
        assert off <= float(zeta + more) * whole
    assert zeta + more <= zeta_of(FLOAT32, count) * (1 + 1e-9)
    zeta, more = FLOAT32.weighted(10_000, 20, 1e-6)
    assert zeta + more < 0.2 * zeta_of(FLOAT32, 10_000)  # so they are worth it


def test_models_are_ordered_by_what_they_allow():
    """More programs have larger bounds."""
    count = np.array([1, 2, 100, 5000])
    small = MODELS["float32, pairwise, blocks of 16"]
    for one, other in ((FLOAT32, small), (small, SCALED), (small, ANY)):
        assert (zeta_of(one, count) <= zeta_of(other, count)).all()
        assert (one.weighted(count, 1, 1e-9)[0] <= other.weighted(count, 1, 1e-9)[0]).all()
        assert one.logit_roundings(5, 3) <= other.logit_roundings(5, 3)
        paths = [sum(model.contraction.readouts(7, 5, 3)) for model in (one, other)]
        assert paths[0] <= paths[1]
        assert (one.exponents(count) <= other.exponents(count)).all()
    assert (FLOAT32.exponents(count) == 0.0).all()
    assert (SCALED.exponents(count) > 0.0).all()


def test_the_sentence_says_the_numbers():
    """Another number in a row is another sentence."""
    for change, words in (
        ({"block": 64}, "blocks of 64 tokens"),
        ({"exp_error": 2.0**-21}, "at most 4 units"),
        ({"smallest": 2.0**-100}, "it is 2^-99 or more"),
        ({"constants": 3}, "in 3 roundings"),
        ({"merged": True}, "logsumexp"),
        ({"contraction": ANY.contraction}, "any number of indices"),
        ({"storage": FORMATS["float16"]}, "stored in float16, where underflow is gradual"),
    ):
        other = dataclasses.replace(FLOAT32, **change)
        assert words in other.of_decoders()
        assert words not in FLOAT32.of_decoders()
    assert SMALL_BLOCK == 16


def test_models_have_names():
    assert model_named(None, "bfloat16") is MODELS["bfloat16, pairwise"]
    for name, storage in (("flash", "float32"), ("bfloat16, pairwise", "float32"), (7, "float32")):
        with pytest.raises(ParameterError, match="not a model") as failure:
            model_named(name, storage)
        assert "float32, scaled" in failure.value.suggestion


def test_the_table_of_the_docs_has_these_rows():
    page = Path(__file__).parents[2] / "docs" / "claims.md"
    rows = [line.strip("| ").split(" | ") for line in page.read_text().splitlines()]
    found = {row[0].split("`")[1]: row[1:] for row in rows if len(row) == 6 and "`" in row[0]}
    for name, model in MODELS.items():
        contraction = "any" if model.contraction.free else "pairwise"
        merged = "yes" if model.merged else "no"
        numbers = [str(model.block), str(model.constants)]
        assert found[name] == [contraction, *numbers, merged, model.storage.name]


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
    model, form = model_named(None, name), FORMATS[name]
    assert model.storage is form
    assert model.stored_unit == (0.0 if name == "float32" else 2.0**-form.digits)
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
    model, exact = model_named(None, name), np.array(numbers, np.float32)
    found = rounded(exact, name).astype(float)
    bound = model.stored_unit * np.abs(exact).astype(float) + model.stored_tiny
    assert (np.abs(found - exact) <= bound).all()


# Models of kernels: rows of numbers, and sentences from them.


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
