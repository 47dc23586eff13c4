"""The theorems of this package beside other published bounds for memorization.

Bounds are rows of `published.toml`, read here. Counts are of the parameters that suffice for T = N
examples with one real label each. Bounds which a paper states up to constants or logarithms are not
evaluated: their order is given. Some say what is necessary, and two rows are measured. Networks on
vectors take all of an example as their input, D = (n + 1) d numbers.

The models differ in what they are, in what they ask of the data and in what a label is, so that
the table compares statements, not merits. Where every two queries differ, as under Assumption 1
for n >= 2, the 2N + d weights of a two-layer network on the queries alone would do: the question
of the field is what *attention* can memorize.

No smooth family of fewer than N parameters reaches all real labels of N examples: its image has
measure zero (Sard). Orders below N are of labels from a finite set, or of weights with many digits.
"""

import functools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from typing import Any

from constructive.support import tables
from constructive.support.errors import require_positive
from constructive.theory.bounds import (
    THEOREMS,
    heads_needed,
    nonzero_parameter_count,
    parameter_count,
    rank_one_capacity,
)


@dataclass(frozen=True)
class PublishedBound:
    """One theorem: how many parameters memorize N examples.

    Attributes:
        model: the network
        parameters: how many suffice here, or None where constants are not published or the
            theorem says nothing about these sizes
        formula: the count, or its order
        data: what is asked of the inputs and labels
        source: authors, venue and year
        units: where parameters are counted: the heads, or the units of each hidden layer
        kind: "sufficient" for what is built; "necessary" for what no network does with less; both
            where the orders agree; or "measured"
        bits: what is said of the bits of the weights, where it is more than real numbers
        radius: around each input, where the label is that of all inputs within it
    """

    model: str
    parameters: int | None
    formula: str
    data: str
    source: str
    units: tuple[int, ...] = ()
    kind: str = "sufficient"
    bits: str = ""
    radius: str = ""


def published_bounds(
    *, num_examples: int, context_size: int, width: int
) -> tuple[PublishedBound, ...]:
    """Return the table for T examples of n tokens of d entries and one real label, ours first.

    Args:
        num_examples: T, or N in the formulas
        context_size: n, the number of tokens in a context
        width: d, the number of entries of a token or a query

    Raises:
        ParameterError: where T, n or d is not a positive integer
        CapacityError: where n = 1 and T > 1

    Example:
        >>> ours = published_bounds(num_examples=621, context_size=32, width=64)[1]
        >>> ours.parameters, ours.formula, ours.units
        (3861, 'H(3d + 1) + 1, H = (N - 1)/(n - 1)', (20,))
    """
    require_positive(num_examples=num_examples, context_size=context_size, width=width)
    sizes = {"N": num_examples, "n": context_size, "d": width, "D": (context_size + 1) * width}
    sizes["H"] = heads_needed(num_examples, context_size=context_size)
    return tuple(_bound(row, sizes) for row in _rows())


@functools.cache
def _rows() -> list[Any]:
    path = files("constructive.theory") / "published.toml"
    rows: list[Any] = tomllib.loads(path.read_text("utf-8"))["bound"]
    return rows


def _bound(row: Mapping[str, Any], sizes: Mapping[str, int]) -> PublishedBound:
    """Return a row of the file for these sizes."""
    said = row["model"], row["formula"], row["data"], row["source"]
    more = {name: row[name] for name in ("kind", "bits", "radius") if name in row}
    if "parameters" not in row or not _value(row.get("holds", "True"), sizes):
        return PublishedBound(said[0], None, *said[1:], **more)
    names, units = dict(sizes), []
    for number, unit in enumerate(row["units"], start=1):
        units.append(_value(unit, names))
        names[f"m_{number}"] = units[-1]
    names["m"] = units[0]
    count = _value(row["parameters"], names)
    return PublishedBound(said[0], count, *said[1:], tuple(units), **more)


_FUNCTIONS = {"ceil": lambda a, b: -(-a // b), "isqrt": math.isqrt, "max": max}


def _value(expression: str, names: Mapping[str, int]) -> int:
    """Evaluate arithmetic of `published.toml`, which is a part of this package, as its code is."""
    known = {"__builtins__": {}, **_FUNCTIONS, **names}
    value: int = eval(expression, known)  # noqa: S307
    return value


def capacity_table(*, num_examples: int, context_size: int, width: int) -> str:
    """Write a table of the smallest H by each theorem, and its weights, for growing d_h.

    "rank <=" are upper bounds of rank Z for all W_Q and W_K of H heads, with a shared context and
    in general: heads that are chosen before the targets memorize no more examples.

    Args:
        num_examples: T, or N in the table
        context_size: n, the number of tokens in a context
        width: d, the number of entries of a token or a query

    Raises:
        ParameterError: where T, n or d is not a positive integer
        CapacityError: where n = 1 and T > 1

    Example:
        >>> print(capacity_table(num_examples=7, context_size=3, width=5))
        N = 7 examples of n = 3 tokens, d = 5, one real label each
        <BLANKLINE>
        d_h  theorem  H  holds  parameters  not zero  N / parameter  rank <= (shared)  rank <=
          1  2        3      7          49        49           0.14                 7       15
          2  1        6      7         157       157          0.045                13       30
          2  2        3      7          79        49          0.089                 7       15
          3  1        3      7         109       109          0.064                 7       15
          3  2        3      7         109        49          0.064                 7       15
    """
    require_positive(num_examples=num_examples, context_size=context_size, width=width)
    table = tables.new_table(
        "d_h", "theorem", "H", "holds", "parameters", "not zero", "N / parameter",
        "rank <= (shared)", "rank <=", left=("theorem",),
    )  # fmt: skip
    powers = [1 << k for k in range(int(context_size).bit_length()) if 1 << k < context_size]
    for head_dim, built in product((*powers, context_size), THEOREMS.values()):
        if not built.rank_one and head_dim == 1 < num_examples:
            continue  # r = 1 holds one example
        heads = heads_needed(num_examples, context_size, None if built.rank_one else head_dim)
        plan = built.plan(
            num_examples=num_examples, context_size=context_size, num_heads=heads, head_dim=head_dim
        )
        count = parameter_count(
            num_heads=heads, width=width, head_dim=head_dim, value_dim=1, target_dim=1
        )
        nonzero = nonzero_parameter_count(
            num_examples=num_examples, plan=plan, width=width, target_dim=1
        )
        table.add_row(
            str(head_dim), built.theorem.split()[-1], str(heads), str(plan.capacity),
            f"{count:,}", f"{nonzero:,}", f"{num_examples / count:.2g}",
            str(rank_one_capacity(heads, context_size)), str(heads * width),
        )  # fmt: skip
    heading = (
        f"N = {num_examples} examples of n = {context_size} tokens, d = {width}, "
        "one real label each"
    )
    return "\n".join([heading, "", *tables.lines(table, 120)])


def comparison(*, num_examples: int, context_size: int, width: int) -> str:
    """Write the published bounds, with examples for each parameter where that is known.

    Args:
        num_examples: T, or N in the table
        context_size: n, the number of tokens in a context
        width: d, the number of entries of a token or a query

    Raises:
        ParameterError: where T, n or d is not a positive integer
        CapacityError: where n = 1 and T > 1

    Example:
        >>> print(comparison(num_examples=621, context_size=32, width=64).splitlines()[0])
        N = 621 examples of n = 32 tokens, d = 64, one real label each (D = 2112)
    """
    words = "network", "bound", "formula", "asks for", "source"
    table = tables.new_table(
        *words[:2], "parameters", "N / parameter", *words[2:], left=words, fold=True
    )
    sizes = {"num_examples": num_examples, "context_size": context_size, "width": width}
    for bound in published_bounds(**sizes):
        count = bound.parameters
        shown = ("", "") if count is None else (f"{count:,}", f"{num_examples / count:.2g}")
        asks = "; ".join(filter(None, (bound.data, bound.bits, bound.radius)))
        table.add_row(bound.model, bound.kind, *shown, bound.formula, asks, bound.source)
    heading = (
        f"N = {num_examples} examples of n = {context_size} tokens, d = {width}, one real label "
        f"each (D = {(context_size + 1) * width})"
    )
    return "\n".join([heading, "", *tables.lines(table, 150)])
