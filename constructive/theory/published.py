"""The theorems of this package beside other published bounds for memorization.

Counts are of the parameters that suffice for T = N examples with one real label each. Bounds
which a paper states up to constants or logarithms are not evaluated: their order is given. Networks
on vectors take all of an example as their input, D = (n + 1) d numbers.

The models differ in what they are, in what they ask of the data and in what a label is, so that
the table compares statements, not merits. Where every two queries differ, as under Assumption 1
for n >= 2, the 2N + d weights of a two-layer network on the queries alone would do: the question
of the field is what *attention* can memorize.

No smooth family of fewer than N parameters reaches all real labels of N examples: its image has
measure zero (Sard). Orders below N are of labels from a finite set, or of weights with many digits.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from constructive.support import tables
from constructive.support.arguments import require_positive
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
    """

    model: str
    parameters: int | None
    formula: str
    data: str
    source: str
    units: tuple[int, ...] = ()


# The fields of a `PublishedBound`; units are those that the count would be of.
_Row = tuple[str, int | None, tuple[int, ...], str, str, str]

# Transformers with feed-forward layers, and other labels: networks, orders, data, sources.
_TRANSFORMERS = (
    ("transformer of many layers", "O~(d + n + sqrt(n N)), n labels a sequence",
     "separated tokens", "Kim, Kim, Mozafari, ICLR 2023"),
    ("one attention layer of rank one, and a feed-forward layer",
     "O(n N d + d^2), n labels a sequence", "separated tokens",
     "Kajitsuka, Sato, ICLR 2024"),
    ("one attention layer, and feed-forward layers",
     "O~(sqrt(N)), or O~(sqrt(n N)) for n labels a sequence; optimal up to logarithms",
     "separated tokens, labels from a finite set", "Kajitsuka, Sato, ICLR 2025"),
    ("one attention layer, no feed-forward layer", "H d_h + d associations of H heads",
     "sequences of a vocabulary, next tokens as labels",
     "Dana, Pydi, Chevaleyre, AISTATS 2025"),
    ("one transformer layer, real-analytic activation, not polynomial",
     "Theta((V - 1) N) for next-token distributions of a vocabulary of V",
     "different sequences",
     "Madden, Fox, Thrampoulidis, IEEE Trans. Inf. Theory 2025 (arXiv 2405.13718)"),
    ("one attention layer, and a feed-forward layer",
     "O~(N) for N facts, in attention or in the feed-forward layer",
     "facts of subject, relation and answer; random embeddings",
     "Nichani, Lee, Bietti, ICLR 2025"),
    ("transformer of O(N) blocks", "O(d N) for vectors of d as labels, whatever n is",
     "different sequences, d >= 2",
     "Alcalde, Fantuzzi, Zuazua, 2025 (arXiv 2502.02270)"),
)  # fmt: skip


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
    orders = (
        (model, None, (), formula, data, source) for model, formula, data, source in _TRANSFORMERS
    )
    rows: tuple[_Row, ...] = (
        *_one_attention_layer(num_examples, context_size, width),
        *orders,
        *_networks_on_vectors(num_examples, (context_size + 1) * width),
    )
    return tuple(
        PublishedBound(model, count, formula, data, source, () if count is None else units)
        for model, count, units, formula, data, source in rows
    )


def _one_attention_layer(total: int, size: int, width: int) -> tuple[_Row, ...]:
    """Theorem 1 and what this package has beyond it."""
    heads = heads_needed(total, context_size=size)
    ranked = size <= width  # else no context has rank n
    own = size > 1 and (width > 1 or total == 1)  # where Theorem 10 holds some number of heads
    more = max(1, -(-(total - 1) // max(1, width - 1)))
    full = -(-total // width)
    saturated, narrow, spans = (
        parameter_count(num_heads=h, width=width, head_dim=k, value_dim=1, target_dim=1)
        for h, k in ((heads, size), (heads, 1), (more, 1))
    )
    kruskal = "queries of Kruskal rank n, contexts of rank n"
    return (
        ("one attention layer, d_h = n", saturated if ranked else None, (heads,),
         "H(2dn + d + 1) + 1, H = (N - 1)/(n - 1)", kruskal,
         "Mahdavi, Liao, Thrampoulidis, ICLR 2024, Theorem 1"),
        ("one attention layer, d_h = 1", narrow if ranked else None, (heads,),
         "H(3d + 1) + 1, H = (N - 1)/(n - 1)", kruskal, "Theorem 2 of this package"),
        ("one attention layer, d_h = 1", spans if own else None, (more,),
         "H(3d + 1) + 1, H = (N - 1)/(d - 1)",
         "queries of Kruskal rank d, almost all contexts of n >= 2 tokens",
         "Theorem 10 of this package"),
        ("one attention layer, W_h = c_h k q^T",
         full * (width + 1) + 2 * width if size > 1 else None, (full,),
         "Hd + 2d + H, H = N/d; N are needed for real labels",
         "queries not zero, almost all contexts of n >= 2 tokens",
         "Theorems 9 and 11 of this package"),
    )  # fmt: skip


def _networks_on_vectors(total: int, inputs: int) -> tuple[_Row, ...]:
    """Networks on D numbers; layers are counted without that of the inputs."""
    threshold = -(-total // inputs)
    relu, smooth = 4 * threshold, 2 * threshold
    first, second = three_layer_widths(total, inputs)
    return (
        ("one threshold unit", inputs + 1 if total <= inputs + 1 else None, (1,),
         "D + 1 for N <= D + 1; at N = 2(D + 1) half of all labellings",
         "general position, labels of two values", "Cover, IEEE Trans. Electronic Computers 1965"),
        ("two layers, thresholds", threshold * (inputs + 2), (threshold,), "ceil(N/D) units",
         "general position, labels of two values", "Baum, J. Complexity 1988"),
        ("two layers, ReLU", 2 * total + inputs, (total,), "2N + D, with shared weights",
         "different inputs", "Zhang et al., ICLR 2017, Theorem 1"),
        ("two layers, ReLU", relu * (inputs + 2), (relu,), "4 ceil(N/D) units",
         "general position", "Bubeck, Eldan, Lee, Mikulincer, NeurIPS 2020"),
        ("two layers, activation real-analytic at a point", smooth * (inputs + 2), (smooth,),
         "m even, m D >= 2N units", "almost all inputs; no polynomial of low degree",
         "Madden, Thrampoulidis, SIAM J. Math. Data Sci. 2024 (arXiv 2308.02001)"),
        ("three layers, ReLU", first * (inputs + 1 + second) + 2 * second + 1, (first, second),
         "4 floor(d_1/4) floor(d_2/4) >= N units", "different inputs, bounded labels",
         "Yun, Sra, Jadbabaie, NeurIPS 2019"),
        ("deep thresholds", None, (), "O~(exp(1/s^2)(D + sqrt(N)) + N)",
         "inputs on a sphere with distances >= s, labels of two values",
         "Vershynin, SIAM J. Math. Data Sci. 2020, as stated by Rajput et al."),
        ("deep thresholds", None, (), "O~(D/s + N), with O~(1/s + sqrt(N)) units",
         "inputs with distances >= s, labels of two values",
         "Rajput, Sreenivasan, Papailiopoulos, Karbasi, NeurIPS 2021"),
        ("deep ReLU", None, (), "O~(N^(2/3))", "separated inputs, labels from a finite set",
         "Park, Lee, Yun, Shin, COLT 2021"),
        ("deep ReLU", None, (), "O~(sqrt(N))", "separated inputs, labels from a finite set",
         "Vardi, Yehudai, Shamir, ICLR 2022"),
    )  # fmt: skip


def three_layer_widths(num_examples: int, inputs: int) -> tuple[int, int]:
    """Return widths with 4 floor(d_1/4) floor(d_2/4) >= N, and about the fewest weights.

    With d_1 = 4a and d_2 = N/a the weights are 4N + 4a(D + 1) + 2N/a, least for a near
    sqrt(N/(2(D + 1))).

    Source: Yun, Sra and Jadbabaie, *Small ReLU networks are powerful memorizers* (NeurIPS 2019),
    Theorem 3.1, for one output.

    Example:
        >>> three_layer_widths(621, inputs=2112), three_layer_widths(10**6, inputs=10)
        ((4, 624), (852, 4696))
    """
    quarter = max(1, math.isqrt(num_examples // (2 * (inputs + 1))))
    return 4 * quarter, 4 * -(-num_examples // (4 * quarter))


@dataclass(frozen=True)
class Need:
    """What a theorem needs to memorize T examples with real labels."""

    head_dim: int  # d_h
    theorem: str  # its name
    num_heads: int  # the smallest H
    capacity: int  # how many examples these heads memorize
    parameters: int  # the entries of all weights
    nonzero_parameters: int  # those of them that are not zero


def needs(*, num_examples: int, context_size: int, width: int) -> Iterator[Need]:
    """Yield the smallest H of each theorem and what its weights cost, for growing d_h.

    Example:
        >>> next(needs(num_examples=7, context_size=3, width=5)).num_heads
        3
    """
    require_positive(num_examples=num_examples, context_size=context_size, width=width)
    powers = [1 << k for k in range(int(context_size).bit_length()) if 1 << k < context_size]
    for head_dim in (*powers, context_size):
        for built in THEOREMS.values():
            if not built.rank_one and head_dim == 1 < num_examples:
                continue  # r = 1 holds one example
            heads = heads_needed(
                num_examples,
                context_size=context_size,
                head_dim=None if built.rank_one else head_dim,
            )
            chosen = built.plan(
                num_examples=num_examples,
                context_size=context_size,
                num_heads=heads,
                head_dim=head_dim,
            )
            count = parameter_count(
                num_heads=heads, width=width, head_dim=head_dim, value_dim=1, target_dim=1
            )
            nonzero = nonzero_parameter_count(
                num_examples=num_examples, plan=chosen, width=width, target_dim=1
            )
            yield Need(head_dim, built.theorem, heads, chosen.capacity, count, nonzero)


def capacity_table(*, num_examples: int, context_size: int, width: int) -> str:
    """Write a table of the smallest H by each theorem, and its weights, for growing d_h.

    "at most" are upper bounds for all weights of H heads, with a shared context and in general.

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
        d_h  theorem  H  holds  parameters  not zero  N / parameter  at most (shared)  at most
          1  2        3      7          49        49           0.14                 7       15
          2  1        6      7         157       157          0.045                13       30
          2  2        3      7          79        49          0.089                 7       15
          3  1        3      7         109       109          0.064                 7       15
          3  2        3      7         109        49          0.064                 7       15
    """
    table = tables.new_table(
        "d_h", "theorem", "H", "holds", "parameters", "not zero", "N / parameter",
        "at most (shared)", "at most", left=("theorem",),
    )  # fmt: skip
    for need in needs(num_examples=num_examples, context_size=context_size, width=width):
        table.add_row(
            str(need.head_dim), need.theorem.split()[-1], str(need.num_heads),
            str(need.capacity), f"{need.parameters:,}", f"{need.nonzero_parameters:,}",
            f"{num_examples / need.parameters:.2g}",
            str(rank_one_capacity(need.num_heads, context_size)), str(need.num_heads * width),
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
    words = "network", "formula", "asks for", "source"
    table = tables.new_table(
        words[0], "parameters", "N / parameter", *words[1:], left=words, fold=True
    )
    sizes = {"num_examples": num_examples, "context_size": context_size, "width": width}
    for bound in published_bounds(**sizes):
        count = bound.parameters
        shown = ("", "") if count is None else (f"{count:,}", f"{num_examples / count:.2g}")
        table.add_row(bound.model, *shown, bound.formula, bound.data, bound.source)
    heading = (
        f"N = {num_examples} examples of n = {context_size} tokens, d = {width}, one real label "
        f"each (D = {(context_size + 1) * width})"
    )
    return "\n".join([heading, "", *tables.lines(table, 150)])
