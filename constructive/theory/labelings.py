"""How many binary labelings of T examples the readouts of fixed heads attain, exactly.

Heads are *fixed* if they are chosen before the labels; those that depend on the labels attain more.
A readout attains the signs of Z u, and a labeling is attained if it is one without a zero. Their
number is that of the regions into which the hyperplanes z_t . u = 0 cut the space, which depends on
the ranks of sets of rows alone (Zaslavsky):

    sum over all sets S of examples of (-1)^(|S| - rank Z_S).

For almost all queries and heads rank Z_S = c(E_S; H) for every S (Theorems 8 and 9), and no one
choice of queries and heads attains more. Where every set of N rows is independent, and N + 1 never
are, this is Cover's number 2 sum_{k < N} C(T - 1, k): so it is for generic contexts with N = Hd,
and for one shared context with N = H(n - 1) + 1. Proofs: proofs/23-labels.md.
"""

import operator
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import overload

import numpy as np

from constructive.data.dataset import Dataset, different_inputs
from constructive.support.arrays import Integers
from constructive.support.errors import (
    CapacityError,
    ParameterError,
    in_three_parts,
    require_positive,
    shown,
)
from constructive.theory.bounds import sized_spans
from constructive.theory.capacity import (
    ContextCapacity,
    context_capacity,
    dimensions,
    subset_dimensions,
)

# Examples in dependencies up to which all sets of them are looked at: a minute at most.
_MOST = 18


@dataclass(frozen=True)
class Labelings:
    """How many of the 2^T binary labelings of T different inputs fixed heads attain.

    Attributes:
        count: as many labelings are attained by readouts of almost all heads, for almost all
            queries (and for almost all contexts, where only sizes are given); no one choice of
            heads and queries attains more
        num_examples: T, the different inputs
        rank: the largest rank of Z; all labelings are attained where it is T, and only there
    """

    count: int
    num_examples: int
    rank: int

    @property
    def share(self) -> Fraction:
        """The share of all 2^T labelings: the chance that a random one is attained."""
        return Fraction(self.count, 1 << self.num_examples)


@overload
def labelings(
    num_examples: int,
    num_heads: int,
    *,
    width: int,
    context_size: int,
    shared_context: bool = False,
) -> Labelings: ...
@overload
def labelings(num_examples: Dataset, num_heads: int) -> Labelings: ...
@in_three_parts
def labelings(
    num_examples: int | Dataset,
    num_heads: int,
    *,
    width: int | None = None,
    context_size: int | None = None,
    shared_context: bool = False,
) -> Labelings:
    """Count the binary labelings that almost any H fixed heads attain on almost all data.

    A readout attains a labeling if its signs are the labels. Heads are chosen before the labels.
    For a dataset it is the count for its contexts and almost all queries; of its queries only which
    are equal has a part in it, and targets have none.

    Args:
        num_examples: T, or a dataset
        num_heads: H
        width: d, for a number T
        context_size: n, for a number T, of almost all contexts
        shared_context: whether the T examples of these sizes have one context

    Raises:
        ParameterError: where a count is not a positive integer, for sizes with a dataset, and
            for a number T without sizes
        CapacityError: for a dataset with more than 18 examples in dependencies, unless all these
            contexts span the same: the count is known, but takes 2^T steps here

    Source: Cover (1965), Zaslavsky (1975); Theorem 29 (ours).

    Example:
        >>> found = labelings(20, num_heads=2, width=5, context_size=4)
        >>> found.count, found.share, found.rank  # T = 2 Hd: half of all
        (524288, Fraction(1, 2), 10)
        >>> from constructive import Dataset
        >>> one_hot = [[[1, 0, 0], [0, 1, 0]]] * 4 + [[[0, 1, 0], [0, 0, 1]]]
        >>> queries = [[0, 0, 1], [0, 0, 2], [0, 0, 3], [0, 0, 4], [0, 0, 5]]
        >>> labelings(Dataset(one_hot, queries, [0] * 5), num_heads=2)
        Labelings(count=28, num_examples=5, rank=4)
    """
    require_positive(num_heads=num_heads)
    if isinstance(num_examples, Dataset):
        if width is not None or context_size is not None or shared_context:
            raise ParameterError(
                "a dataset has its sizes",
                witness=(width, context_size, shared_context),
                suggestion="labelings(dataset, num_heads)",
            )
        return _of_data(num_examples, operator.index(num_heads))
    if width is None or context_size is None:
        raise ParameterError(
            "a number of examples says nothing of their contexts",
            witness=(width, context_size),
            suggestion="labelings(T, num_heads, width=d, context_size=n), or a Dataset",
        )
    require_positive(num_examples=num_examples)
    total = operator.index(num_examples)  # integers of numpy overflow
    columns = _columns(num_heads, width, context_size, shared_context)
    return Labelings(cover(total, columns), total, min(total, columns))


@in_three_parts
def label_capacity(
    num_heads: int,
    *,
    width: int,
    context_size: int,
    shared_context: bool = False,
    probability: float = 0.5,
) -> int:
    """Return the most examples whose random labels fixed heads attain with a given probability.

    Contexts are almost any of these sizes, queries and heads almost any, and labels T fair coins.

    Args:
        num_heads: H
        width: d
        context_size: n
        shared_context: whether the T examples have one context
        probability: above 0, and at most 1: for all labelings

    Raises:
        ParameterError: where a count is not a positive integer, and for no probability

    Source: Cover (1965); Theorem 29 (ours).

    Example:
        >>> label_capacity(8, width=64, context_size=8)  # twice Hd = 512
        1024
        >>> label_capacity(8, width=64, context_size=8, probability=0.999)
        929
        >>> label_capacity(8, width=64, context_size=8, shared_context=True, probability=1)
        57
    """
    number = isinstance(probability, int | float | Fraction) and not isinstance(probability, bool)
    if not (number and 0 < probability <= 1):
        raise ParameterError(
            f"probability={shown(probability)} is not a number above 0 and at most 1",
            witness=shown(probability),
            suggestion="a number such as 0.5",
        )
    columns = _columns(num_heads, width, context_size, shared_context)
    wanted = Fraction(probability)

    def likely(total: int) -> bool:
        return Fraction(cover(total, columns), 1 << total) >= wanted

    most = 2 * columns
    while likely(most):
        most *= 2
    # The chance falls with T, from 1 at as many as there are columns.
    beyond = range(columns, most)
    return columns - 1 + bisect_left(beyond, x=True, key=lambda total: not likely(total))


def _columns(num_heads: int, width: int, context_size: int, shared_context: bool) -> int:  # noqa: FBT001
    """Return N: every set of N rows is independent for almost all contexts, and none of N + 1."""
    require_positive(num_heads=num_heads, width=width, context_size=context_size)
    heads, size, entries = map(operator.index, (num_heads, context_size, width))
    tokens, differences = sized_spans(size, entries, shared_context=shared_context)
    return tokens + (heads - 1) * differences


def cover(total: int, columns: int) -> int:
    """Return Cover's number for T rows of which every N are independent, in N dimensions."""
    if columns >= total:
        return 1 << total
    chosen, binomial = 0, 1
    for k in range(columns):  # each from the one before, so that thousands take moments
        chosen += binomial
        binomial = binomial * (total - 1 - k) // (k + 1)
    return 2 * chosen


# Of a dataset: examples in no dependency have any sign, whatever the others have, and double the
# number. For the others, J, it is Cover's, or all sets are looked at.


def _of_data(dataset: Dataset, num_heads: int) -> Labelings:
    different = different_inputs(dataset)
    total = len(different)
    found = context_capacity(dataset, num_heads, np.random.default_rng(0), different)
    if not found.exact:
        raise CapacityError(
            f"whether {found.lower} or {found.upper} rows of Z may be independent is not decided",
            witness=(found.lower, found.upper),
            suggestion="fewer examples",
        )
    if not len(found.blamed):
        return Labelings(1 << total, total, total)
    free = total - len(found.blamed)
    return Labelings(_of_dependent(dataset, found) << free, total, found.upper)


def _of_dependent(dataset: Dataset, found: ContextCapacity) -> int:
    """Return the number for the examples J alone."""
    count, heads = len(found.blamed), found.num_heads
    rank = found.spans.tokens + (heads - 1) * found.spans.differences
    if dataset.shared_context:
        return cover(count, rank)
    contexts = dataset.filled.contexts[found.blamed]
    different, which = np.unique(contexts + 0.0, axis=0, return_inverse=True)
    whole = found.spans.tokens, found.spans.differences
    if all(dimensions(context[np.newaxis]) == whole for context in different):
        return cover(count, rank)
    if count > _MOST:
        raise CapacityError(
            f"{count} examples are in dependencies, and their 2^{count} sets are too many to look "
            "at",
            witness=count,
            suggestion=f"{_MOST} of them, or labelings(T, num_heads, width=d, context_size=n) for "
            "almost all contexts",
        )
    tokens, differences = subset_dimensions(different)
    return _regions(tokens + (heads - 1) * differences, which.reshape(-1))


def _regions(spans: Integers, which: Integers) -> int:
    """Return the sum of (-1)^(|S| - rank of S) over all sets S of examples.

    spans: dim of the sum of L_t, for every set of different contexts
    which: the context of each example
    """
    sets = np.zeros(1, dtype=np.int64)  # of contexts, for each set of examples
    sizes = np.zeros(1, dtype=np.int64)
    for context in which.tolist():
        sets = np.concatenate([sets, sets | (1 << context)])
        sizes = np.concatenate([sizes, sizes + 1])
    lost: Integers = spans[sets] - sizes
    for bit in range(len(which)):  # rank S - |S| is the least one of all subsets J of S
        halves = lost.reshape(-1, 2, 1 << bit)
        np.minimum(halves[:, 1], halves[:, 0], out=halves[:, 1])
    return int(len(lost) - 2 * np.count_nonzero(lost % 2))
