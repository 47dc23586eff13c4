"""The table of published bounds: each count meets the condition of its own paper."""

from math import ceil

import pytest

from constructive import comparison, published_bounds
from constructive.theory.published import three_layer_widths

SIZES = [(2, 2), (3, 2), (4, 6), (8, 3), (32, 64)]
"""n and d; for some n > d, where no context has rank n."""


def of(source, total, size, width):
    """The rows of a source, by the beginning of its name."""
    rows = published_bounds(num_examples=total, context_size=size, width=width)
    found = [row for row in rows if row.source.startswith(source)]
    assert found
    return found


@pytest.mark.parametrize(("size", "width"), SIZES)
def test_heads_are_as_many_as_the_theorems_ask_for(size, width):
    for total in range(1, 501):
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
            assert row.parameters == heads * (2 * width * head_dim + width + 1) + 1
        (heads,) = generic.units
        assert (heads - 1) * width < total <= heads * width
        assert generic.parameters == heads * width + 2 * width + heads


@pytest.mark.parametrize(("size", "width"), SIZES)
def test_units_are_as_many_as_the_papers_ask_for(size, width):
    inputs = (size + 1) * width
    for total in range(1, 501):
        (cover,), (baum,), (zhang,), (bubeck,), (madden,), (yun,) = (
            of(source, total, size, width)
            for source in ("Cover", "Baum", "Zhang", "Bubeck", "Madden, Thra", "Yun")
        )
        assert (cover.parameters == inputs + 1) == (total <= inputs + 1)
        assert (cover.units == (1,)) == (total <= inputs + 1)
        assert baum.units == (ceil(total / inputs),)
        assert zhang.units == (total,)
        assert zhang.parameters == 2 * total + inputs
        assert bubeck.units == (4 * ceil(total / inputs),)
        (even,) = madden.units
        assert even % 2 == 0
        assert even * inputs >= 2 * total > (even - 2) * inputs
        for row in (baum, bubeck, madden):  # a weight for each input, a bias, one for the output
            assert row.parameters == row.units[0] * (inputs + 2)
        first, second = yun.units
        assert 4 * (first // 4) * (second // 4) >= total
        layers = (inputs + 1) * first, (first + 1) * second, second + 1
        assert yun.parameters == sum(layers)


@pytest.mark.parametrize("inputs", [1, 6, 50, 2112])
def test_three_layers_have_few_weights(inputs):
    def weights(first, second):
        return first * (inputs + 1 + second) + 2 * second + 1

    for total in [*range(1, 501, 7), 4, 16, 64]:
        least = min(
            weights(4 * quarter, 4 * ceil(total / (4 * quarter))) for quarter in range(1, total + 1)
        )
        assert least <= weights(*three_layer_widths(total, inputs)) <= 1.15 * least
    # With N = 4ab for whole a and b the condition is an equality.
    first, second = three_layer_widths(64, inputs=1)
    assert (first, second) == (16, 16)
    assert 4 * (first // 4) * (second // 4) == 64


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
