"""The table of published bounds: each count meets the condition of its own paper."""

from itertools import pairwise
from math import ceil

import pytest

from constructive import comparison, published_bounds
from constructive.theory.bounds import parameter_count

SIZES = [(2, 2), (3, 2), (4, 6), (8, 3), (32, 64)]
"""n and d; for some n > d, where no context has rank n."""


TOTALS = (1, 2, 7, 49, 64, 65, 500)


def dense(*widths):
    """Weights and biases of layers of these widths."""
    return sum((before + 1) * after for before, after in pairwise(widths))


def of(source, total, size, width):
    """The rows of a source, by the beginning of its name."""
    rows = published_bounds(num_examples=total, context_size=size, width=width)
    found = [row for row in rows if row.source.startswith(source)]
    assert found
    return found


@pytest.mark.parametrize(("size", "width"), SIZES)
@pytest.mark.parametrize("total", TOTALS)
def test_heads_are_as_many_as_the_theorems_ask_for(total, size, width):
    (mahdavi,), (second,), (tenth,), (generic,) = (
        of(source, total, size, width)
        for source in ("Mahdavi", "Theorem 2", "Theorem 10", "Theorems 9")
    )
    for row, head_dim, each in ((mahdavi, size, size), (second, 1, size), (tenth, 1, width)):
        if row is not tenth and size > width:
            assert (row.parameters, row.units) == (None, ())
            continue
        (heads,) = row.units
        assert heads * (each - 1) + 1 >= total
        assert heads == 1 or (heads - 1) * (each - 1) + 1 < total  # no more than that
        assert row.parameters == parameter_count(
            num_heads=heads, width=width, head_dim=head_dim, value_dim=1, target_dim=1
        )
    (heads,) = generic.units
    assert (heads - 1) * width < total <= heads * width
    assert generic.parameters == heads * width + 2 * width + heads


@pytest.mark.parametrize(("size", "width"), SIZES)
@pytest.mark.parametrize("total", TOTALS)
def test_units_are_as_many_as_the_papers_ask_for(total, size, width):
    inputs = (size + 1) * width
    (cover,), (baum,), (bubeck,), (madden,), (yun,) = (
        of(source, total, size, width)
        for source in ("Cover", "Baum", "Bubeck", "Madden, Thra", "Yun")
    )
    assert (cover.parameters is None) == (total > inputs + 1)
    for row, each, even in ((baum, 1, 1), (bubeck, 1 / 4, 4), (madden, 1 / 2, 2)):
        (units,) = row.units
        assert units % even == 0
        assert units * each * inputs >= total > (units - even) * each * inputs
        assert row.parameters == dense(inputs, units, 1) - 1  # the output has no bias
    first, second = yun.units
    assert 4 * (first // 4) * (second // 4) >= total
    assert yun.parameters == dense(inputs, first, second, 1)
    least = min(
        dense(inputs, 4 * quarter, 4 * ceil(total / (4 * quarter)), 1)
        for quarter in range(1, total + 1)
    )
    assert least <= yun.parameters <= 1.15 * least  # few weights, of those that will do


def test_what_no_theorem_says():
    """One token, or one dimension: Theorem 10 has nothing for more than one example."""
    (tenth,) = of("Theorem 10", 5, 3, 1)
    assert (tenth.parameters, tenth.units) == (None, ())
    for source in ("Theorem 10", "Theorems 9"):
        (row,) = of(source, 1, 1, 4)
        assert row.parameters is None


@pytest.mark.parametrize("sizes", [(621, 32, 64), (7, 3, 5), (1, 1, 1), (20000, 8, 4)])
def test_the_table_prints(sizes):
    sizes = dict(zip(("num_examples", "context_size", "width"), sizes, strict=True))
    rows = published_bounds(**sizes)
    text = comparison(**sizes)
    assert all(row.model and row.formula and row.data and row.source for row in rows)
    assert all(row.source.split(",")[0].split()[0] in text for row in rows)
    for row in rows:
        assert (row.parameters is None) == (row.units == ())
        if row.parameters is not None:
            assert row.parameters > 0
            assert min(row.units) > 0
            assert f" {row.parameters:,} " in text


def test_papers_which_a_reader_will_look_for():
    sources = " ".join(
        row.source for row in published_bounds(num_examples=9, context_size=3, width=4)
    )
    names = "Cover", "Vershynin", "Rajput", "Park", "Nichani", "Alcalde", "Trans. Inf. Theory"
    for name in names:
        assert name in sources
    one_layer = of("Kajitsuka, Sato, ICLR 2025", 9, 3, 4)[0]
    assert "one attention layer" in one_layer.model
    assert "sqrt(n N)" in one_layer.formula
