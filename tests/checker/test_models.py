"""Models of programs: bounds of what rounding does, against what it does, and their sentences."""

from pathlib import Path

import numpy as np

from constructive.checker.float_model import (
    MODELS,
    averaged,
    exponents,
    gamma_of,
    logit_steps,
    of_decoders,
    readout_steps,
    weighted,
)

HALF = MODELS["float16, pairwise"]._asdict()

# Bounds of what rounding does, against what it does: float32 by brute force.


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


def test_no_bound_where_a_relative_error_is_none():
    coarse = FLOAT32._replace(unit=2.0**-10)
    assert np.isinf(gamma_of(coarse, 512))
    assert np.isfinite(gamma_of(coarse, 511))
    assert np.isinf(zeta_of(coarse, 400))  # beta beyond a half before gamma is
    loose = FLOAT32._replace(exp=0.25)
    assert np.isfinite(gamma_of(loose, 100))
    assert np.isinf(zeta_of(loose, 2 * BLOCK))


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
