"""Models of programs: bounds of what rounding does, against what it does, and their sentences."""

import math
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive.checker.float_model import (
    KEPT,
    MODELS,
    averaged,
    exponents,
    gamma_of,
    logit_steps,
    of_decoders,
    readout_steps,
    weighted,
)
from constructive.exact.formats import rounded

HALF = MODELS["float16, pairwise"]._asdict()

# Bounds of what rounding does, against what it does: float32 by brute force.


SEEDS = st.integers(0, 2**32 - 1)
FLOAT32, SCALED, ANY = (
    MODELS[f"float32, {name}"] for name in ("pairwise", "scaled", "any contraction")
)
BLOCK = FLOAT32.block


def zeta_of(model, count):
    """The bound of averages where all weight may be on any tokens."""
    return averaged(model, np.float64(count))[0]


def both_of(model, count, large, rest):
    """zeta and what comes on top, where all but some large tokens have little weight."""
    return weighted(model, *map(np.float64, (count, large, rest)))


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
    error = model.exp * (1 - 2.0**-5)  # which leaves room for rounding to float32
    wrong = exact * (1.0 + error * rng.choice([-1.0, 1.0], numbers.shape))
    tiny = exact < model.small
    wrong[tiny] = rng.choice([0.0, 2.0 * model.small], tiny.sum())
    wrong[numbers == 0] = 1.0
    return wrong.astype(np.float32)


@settings(max_examples=30)
@given(
    SEEDS, st.sampled_from([1, 2, 7, 100, 600, 2000]), st.floats(0.0, 60.0),
    st.sampled_from(sorted(KEPT)), st.booleans(), st.booleans(),
)  # fmt: skip
def test_averages(seed, count, spread, storage, in_blocks, divided_first):
    """Softmax in one piece or in blocks, with exp as wrong as may be, stored in any format."""
    model, rng = MODELS[f"{storage}, pairwise"], np.random.default_rng(seed)
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
    zeta, flushed = map(float, averaged(model, np.float64(count)))
    bound = zeta * (exact @ np.abs(tokens)) + flushed
    assert abs(average - exact @ tokens) <= bound + 1e-15


def test_no_bound_where_a_relative_error_is_none():
    coarse = FLOAT32._replace(unit=2.0**-10)
    assert np.isinf(gamma_of(coarse, 512))
    assert np.isfinite(gamma_of(coarse, 511))
    assert np.isinf(zeta_of(coarse, 400))  # beta beyond a half before gamma is
    loose = FLOAT32._replace(exp=0.25)
    assert np.isfinite(gamma_of(loose, 100))
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
    zeta, more = both_of(FLOAT32, count, large, rest * (1 + 2.0**-40) / whole)
    for _ in range(3):
        off = abs(float(tree_sum(rng, terms)) - math.fsum(exact.tolist()))
        assert off <= float(zeta + more) * whole
    assert zeta + more <= zeta_of(FLOAT32, count) * (1 + 1e-9)
    zeta, more = both_of(FLOAT32, 10_000, 20, 1e-6)
    assert zeta + more < 0.2 * zeta_of(FLOAT32, 10_000)  # so they are worth it


def test_models_are_ordered_by_what_they_allow():
    """More programs have larger bounds."""
    count = np.array([1, 2, 100, 5000])
    small = MODELS["float32, pairwise, blocks of 16"]
    for one, other in ((FLOAT32, small), (small, SCALED), (small, ANY)):
        assert (zeta_of(one, count) <= zeta_of(other, count)).all()
        assert (both_of(one, count, 1, 1e-9)[0] <= both_of(other, count, 1, 1e-9)[0]).all()
        assert logit_steps(one, 5, 3) <= logit_steps(other, 5, 3)
        paths = [sum(readout_steps(model, 7, 5, 3)) for model in (one, other)]
        assert paths[0] <= paths[1]
        assert all(exponents(one, k) <= exponents(other, k) for k in count)
    assert exponents(FLOAT32, 5000) == 0.0 < exponents(SCALED, 1)


def test_the_sentence_says_the_numbers():
    """Another number in a row is another sentence."""
    for change, words in (
        ({"block": 64}, "blocks of 64 tokens"),
        ({"exp": 2.0**-21}, "at most 4 units"),
        ({"small": 2.0**-100}, "it is 2^-99 or more"),
        ({"constants": 3}, "in 3 roundings"),
        ({"merged": True}, "logsumexp"),
        ({"free": True}, "any number of indices"),
        (HALF, "stored in float16, where underflow is gradual"),
    ):
        assert words in of_decoders(FLOAT32._replace(**change))
        assert words not in of_decoders(FLOAT32)


def test_the_table_of_the_docs_has_these_rows():
    page = Path(__file__).parents[2] / "docs" / "claims.md"
    rows = [line.strip("| ").split(" | ") for line in page.read_text().splitlines()]
    found = {row[0].split("`")[1]: row[1:] for row in rows if len(row) == 6 and "`" in row[0]}
    for name, model in MODELS.items():
        contraction = "any" if model.free else "pairwise"
        merged = "yes" if model.merged else "no"
        numbers = [str(model.block), str(model.constants)]
        assert found[name] == [contraction, *numbers, merged, model.kept]
