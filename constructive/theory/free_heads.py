"""How many examples *free heads* memorize: heads that may be chosen after the targets.

*Fixed heads* are chosen before the targets, and a readout gives any targets to c(E; H) examples
(`theory.capacity`). Free heads memorize d_h times as many, about. Two numbers enclose theirs.

*At least.* Where all outputs are 0 whatever the data are, and the derivative of the outputs in all
weights is onto, some weights near that point return any targets, with readouts times a large number
(Theorem 33, proofs/24-free-heads.md). Such a *zero point* is a partition of the heads into groups:
heads of a group share W_Q and W_K, or have W_K = 0 (*uniform attention*), and their readouts sum to
zero. Its rank is known for almost all data, and is computed modulo a prime for given ones.

*At most.* No weights have a derivative of a rank above c_1. If that is less than the number of
targets' entries, almost no targets are returned by any weights (Theorem 36).

Symbols: H heads, d_h the head dimension, d entries of a token, n tokens, m outputs; k dimensions
are spanned by tokens, delta by differences of tokens of one context, and q by queries.
"""

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import comb
from typing import NamedTuple

import numpy as np

from constructive import checker
from constructive.data.dataset import Dataset, different_inputs
from constructive.data.shapes import ExampleShapes, require_examples
from constructive.exact import dyadic, modular
from constructive.exact.softmax import VanishingDenominatorError
from constructive.support import tables
from constructive.support.arrays import Array, Integers
from constructive.support.errors import ParameterError, in_three_parts, require_positive
from constructive.support.work import one_blas_thread, report, workers
from constructive.theory.bounds import MOST, saturated_capacity, sized_spans
from constructive.theory.capacity import (
    CapacityBounds,
    dependent_rows,
    fixed_capacity,
    spans_of,
)

# Numbers for almost all data of given dimensions.


@dataclass(frozen=True)
class Dimensions:
    """The dimensions that data span, which are generic other than that."""

    tokens: int  # k
    differences: int  # delta, of tokens of one context
    queries: int  # q
    of_one: int  # differences of the tokens of one example, at most
    # whether all examples share one context: then outputs at uniform attention are linear in the
    # query, so that it holds d + 1 examples at most
    one_context: bool = False

    @classmethod
    def of_sizes(cls, context_size: int, width: int, *, shared_context: bool) -> "Dimensions":
        """Return those of generic contexts of n tokens of d entries."""
        tokens, differences = sized_spans(context_size, width, shared_context=shared_context)
        return cls(tokens, differences, width, min(context_size - 1, width), shared_context)

    @classmethod
    def of_shapes(cls, shapes: ExampleShapes) -> "Dimensions":
        """Return those of generic data of the same shapes."""
        shared = shapes.shared_context
        return cls.of_sizes(shapes.context_size, shapes.width, shared_context=shared)

    @classmethod
    def of_data(cls, dataset: Dataset) -> "Dimensions":
        """Return those of a dataset, over the rational numbers."""
        contexts = dataset.filled.contexts
        shared = dataset.shared_context
        spans = spans_of(contexts[np.newaxis] if shared else contexts)
        of_one = min(dataset.context_size - 1, spans.differences)
        queries = dyadic.rank(dataset.queries)
        return cls(spans.tokens, spans.differences, queries, of_one, shared)

    def fixed(self, num_heads: int) -> int:
        """Return how many examples fixed heads memorize: the rank in readouts, for one output."""
        return self.tokens + (num_heads - 1) * self.differences

    def moved(self, num_heads: int, head_dim: int) -> int:
        """Return a bound of the rank in W_Q and W_K, at all weights."""
        r = min(head_dim, self.differences, self.queries)
        return num_heads * r * (self.differences + self.queries - r)


def uniform_rank(num_heads: int, head_dim: int, data: Dimensions) -> int:
    """Return the rank in W_K at uniform attention, with own contexts (Theorem 34; one output).

    Of more than delta + 1 heads that is the rank of delta + 1, which is a lower bound.
    """
    delta, q = data.differences, data.queries
    r, heads = min(head_dim, q), min(num_heads, delta + 1)
    if heads < 2 or data.one_context:
        return 0
    overlaps = (delta - heads + 1) * max(0, heads * r - (heads - 1) * q)
    return heads * delta * r - overlaps - comb(heads, 2) * max(0, 2 * r - q)


def equal_rank(num_heads: int, head_dim: int, data: Dimensions) -> int:
    """Return the rank in W_Q and W_K where all heads are equal (Theorem 35; one output)."""
    delta, q = data.differences, data.queries
    r, k = min(head_dim, delta, q), min(num_heads - 1, delta)
    i = max(0, k + r - delta)
    return r * (k * delta - comb(k, 2)) + (q - r) * (k * r - comb(i, 2))


@dataclass(frozen=True)
class ZeroPoint:
    """A partition of heads, and the rank of the derivative there for almost all data."""

    uniform: int  # so many heads have uniform attention
    equal: tuple[int, ...]  # so many heads share one attention matrix, group by group
    rank: int

    @property
    def groups(self) -> tuple[slice, ...]:
        """The heads of each group; those with uniform attention are the first one."""
        sizes = ((self.uniform,) if self.uniform else ()) + self.equal
        return tuple(slice(*ends) for ends in pairwise([0, *accumulate(sizes)]))

    def __str__(self) -> str:
        sizes = sorted({size for size in self.equal if size > 1}, reverse=True)
        words = [f"{self.uniform} heads with uniform attention"] if self.uniform else []
        for size in sizes:
            count = self.equal.count(size)
            words.append(f"{size} equal heads" if count == 1 else f"{count} x {size} equal heads")
        alone = self.equal.count(1)
        if not words:
            return "readouts alone"
        return " and ".join([*words, *([f"{alone} with a readout of zero"] if alone else [])])


def zero_point(num_heads: int, head_dim: int, data: Dimensions) -> ZeroPoint:
    """Return the partition of H heads with the largest rank that is proved (one output).

    The first group adds k to the rank by its readouts, and each other one delta.
    """
    counts = range(min(num_heads, data.differences + 1) + 1)
    most = max(counts, key=lambda count: _rank_with(count, num_heads, head_dim, data))
    equal = _equal_groups(num_heads - most, head_dim, data)
    return ZeroPoint(most, equal, _rank_with(most, num_heads, head_dim, data))


def _rank_with(uniform: int, num_heads: int, head_dim: int, data: Dimensions) -> int:
    """Return the largest rank with one group of `uniform` heads at uniform attention."""
    if uniform == 1 or (uniform and data.one_context):
        return -1
    equal = _equal_groups(num_heads - uniform, head_dim, data)
    groups = len(equal) + (uniform > 0)
    found = sum(equal_rank(size, head_dim, data) for size in equal)
    found += uniform_rank(uniform, head_dim, data) if uniform else 0
    return found + data.tokens + (groups - 1) * data.differences


def _equal_groups(num_heads: int, head_dim: int, data: Dimensions) -> tuple[int, ...]:
    """Return the best sizes of groups of equal heads.

    A group's rank is concave in its size, so sizes of the best partition into S groups differ by
    one at most, and what is best for S groups is concave in S.
    """

    def total(groups: int) -> int:
        size, larger = divmod(num_heads, groups)
        parts = equal_rank(size, head_dim, data), equal_rank(size + 1, head_dim, data)
        return (groups - larger) * parts[0] + larger * parts[1] + groups * data.differences

    if not num_heads:
        return ()
    counts = range(1, num_heads)
    groups = 1 + bisect_left(counts, 1, key=lambda count: total(count + 1) <= total(count))
    size, larger = divmod(num_heads, groups)
    return (size + 1,) * larger + (size,) * (groups - larger)


def most_examples(num_heads: int, head_dim: int, data: Dimensions, *, m: int = 1) -> int:
    """Return the largest T with T m <= c_1: almost no targets of more are reached (Theorem 36)."""
    fixed = data.fixed(num_heads)
    most = data.moved(num_heads, head_dim) // m + fixed
    missing = m - num_heads * data.of_one  # entries of an output that attention does not move
    return min(most, m * fixed // missing) if missing > 0 else most


def measured_examples(num_heads: int, head_dim: int, data: Dimensions, *, m: int = 1) -> int:
    """Return how many examples the best zero point memorizes, for the plan of a construction.

    For one output that is Theorem 34 or 35. For several ones heads may be divided among them, which
    is proved; or it is what equal heads reached in all 700 shapes that were measured, which is not.
    """
    divided = zero_point(num_heads // m, head_dim, data).rank if num_heads >= m else 0
    delta, others = data.differences, num_heads - 1
    if m == 1 or m > others * delta:
        return max(divided, data.tokens)
    rank = min(data.moved(others, head_dim), m * equal_rank(delta + 1, head_dim, data))
    most, missing = rank // m + data.tokens, m - others * data.of_one
    together = min(most, m * data.tokens // missing) if missing > 0 else most
    return max(divided, together)


_LOAD = 0.8  # Of the number of examples that fit: beyond it heads become ill-conditioned


def heads_at_load(num_examples: int, head_dim: int, data: Dimensions, *, m: int = 1) -> int | None:
    """Return the fewest heads that so many examples fill by four fifths, or None.

    None: equal tokens in each context, which no heads tell apart.
    """
    if not data.differences:
        return 1 if num_examples <= data.tokens else None

    def enough(heads: int) -> bool:
        return _LOAD * measured_examples(heads, head_dim, data, m=m) >= num_examples

    most = 1
    while not enough(most):
        most *= 2
    return 1 + bisect_left(range(1, most), 1, key=enough)


# The rank at given weights and data, modulo a prime: the checker multiplies the derivative by
# random vectors, so that it has as many columns as rows. A rank that is found is a lower bound.


_LARGEST_WEIGHT = 1 << 20
_POINTS = 20  # that are tried while a denominator of softmax vanishes


class Base(NamedTuple):
    """Integer weights at which the derivative is taken, as floats; groups share an attention."""

    query_weights: Array  # (H, d, d_h)
    key_weights: Array  # (H, d, d_h)
    readouts: Array  # (H, d, m), of sum zero in each group where outputs are zero
    groups: tuple[slice, ...]  # of heads


def draw_zero_point(
    point: ZeroPoint, width: int, head_dim: int, outputs: int, rng: np.random.Generator
) -> Base:
    """Draw integer weights of such groups, whose outputs are zero."""
    heads = point.uniform + sum(point.equal)
    base = draw_weights(heads, width, head_dim, outputs, rng)._replace(groups=point.groups)
    for group in base.groups:
        others = base.readouts[group][:-1].sum(axis=0)
        base.readouts[group.stop - 1] = -others
        if point.uniform and not group.start:
            base.key_weights[group] = 0
        else:
            base.query_weights[group] = base.query_weights[group.start]
            base.key_weights[group] = base.key_weights[group.start]
    return base


def draw_weights(
    num_heads: int, width: int, head_dim: int, outputs: int, rng: np.random.Generator
) -> Base:
    """Draw integer weights of heads, each of which is a group of its own."""
    query, key = rng.integers(1, _LARGEST_WEIGHT, (2, num_heads, width, head_dim)).astype(float)
    readouts = rng.integers(1, _LARGEST_WEIGHT, (num_heads, width, outputs)).astype(float)
    return Base(query, key, readouts, tuple(slice(h, h + 1) for h in range(num_heads)))


def factors_at(base: Base, dataset: Dataset, rng: np.random.Generator) -> modular.Factors:
    """Eliminate the derivative at these weights modulo a prime: its rank is a lower bound.

    Rows are (t, j), example after example. It takes one array of (T m)^2 numbers.
    """
    prime = next(modular.safe_primes())
    about = checker.layer({}, dataset.arrays, jobs=workers(), tell=report)
    for _ in range(_POINTS):
        point = prime, int(rng.integers(2, prime - 1))
        try:
            rows = checker.derivative(base, about.data, point, report)
        except ValueError:  # a denominator of softmax vanishes at this point
            continue
        return modular.factor(rows, prime, overwrite=True)
    raise VanishingDenominatorError


# Both bounds for given data.


_MOST_ROWS = 2048  # rows (t, j) that are eliminated, which takes some seconds; more are sampled


def free_capacity(
    dataset: Dataset,
    num_heads: int,
    head_dim: int,
    rng: np.random.Generator,
    *,
    different: Integers,
    fixed: int = 0,
) -> CapacityBounds:
    """Return bounds for free heads on a dataset: the rank at a zero point, and c_1.

    So many examples can have any targets, for each of which there are some weights; and of more
    than the upper bound almost no targets are returned by any weights.

    different: one example of each input, as equal ones count once;  fixed: what fixed heads
    memorize, which free heads do, too
    """
    total, m = len(different), dataset.target_dim
    if fixed == total:  # nothing is left to find, and with many outputs the search takes minutes
        return CapacityBounds(
            total, "fixed heads", total, f"{total} different examples", different[:0]
        )
    dataset = dataset.take(different)
    report("zero point", 0, 1)
    data = Dimensions.of_data(dataset)
    tried = min(total, max(1, _MOST_ROWS // m))
    sample = dataset if tried == total else dataset.take(np.sort(rng.permutation(total)[:tried]))
    at_least, reason = _proved(sample, num_heads, head_dim, data, rng)
    if fixed >= at_least:
        at_least, reason = fixed, "fixed heads"
    elif tried < total:
        reason += f", of {tried} examples that were tried"
    at_most, why, blamed = _most_of(dataset, np.arange(total), num_heads, head_dim)
    if at_least < at_most and tried == total:
        # Those in dependencies at random weights: by Proposition 15.3 their bound is the least one,
        # for almost all queries (Theorem 37).
        weights = draw_weights(num_heads, dataset.width, head_dim, m, rng)
        rows = dependent_rows(factors_at(weights, dataset, rng), rng)
        bound = _most_of(dataset, np.unique(rows // m), num_heads, head_dim)
        at_most, why, blamed = min((at_most, why, blamed), bound, key=lambda found: found[0])
    return CapacityBounds(at_least, reason, at_most, why, different[blamed])


def _proved(
    dataset: Dataset, num_heads: int, head_dim: int, data: Dimensions, rng: np.random.Generator
) -> tuple[int, str]:
    """Return how many examples can have any targets, and why: by all heads, or by a share of them.

    With several outputs either all rows are independent at one zero point; or heads are divided
    among the outputs, and each output has what its heads memorize.
    """
    total, m = dataset.num_examples, dataset.target_dim

    def rank_of(heads: int, outputs: int) -> tuple[ZeroPoint, int]:
        point = zero_point(heads, head_dim, data)
        base = draw_zero_point(point, dataset.width, head_dim, outputs, rng)
        return point, factors_at(base, dataset, rng).rank

    if m == 1 or num_heads > 1:
        point, found = rank_of(num_heads, m)
        if m == 1 or found == total * m:
            return found // m, f"{point}: rank {found} modulo a prime"
    if num_heads < m:
        return 0, ""
    point, found = rank_of(num_heads // m, 1)
    return found, f"{point} for each of {m} outputs: rank {found} modulo a prime"


def _most_of(
    dataset: Dataset, chosen: Integers, num_heads: int, head_dim: int
) -> tuple[int, str, Integers]:
    """Return the bound of c_1 by the examples of J, in examples, how to say so, and J."""
    total, m, size = dataset.num_examples, dataset.target_dim, len(chosen)
    none = total, f"{total} different examples", chosen[:0]
    if not size:
        return none
    part = dataset.take(chosen)
    data = Dimensions.of_data(part)
    delta = data.differences
    lengths = np.full(size, dataset.context_size) if part.lengths is None else part.lengths
    moved = int(np.minimum(m, num_heads * np.minimum(lengths - 1, delta)).sum())
    inner = min(data.moved(num_heads, head_dim), moved)
    bound = total - size + inner // m + data.fixed(num_heads)
    why = (
        f"c_1 of {size} examples with k = {data.tokens}, delta = {delta}, q = {data.queries} "
        "(Theorem 36)"
    )
    return (bound, why, chosen) if bound < total else none


# Both questions, for sizes or for data.


@dataclass(frozen=True, eq=False)
class Capacity(tables.Shown):
    """How many examples of a dataset, or of almost all data, fixed and free heads memorize.

    Attributes:
        title: of which heads and data, in words
        theorem_1: what Theorem 1 promises, if data meet its assumptions; 0 for n > d, as none do
        fixed: bounds for heads that are chosen before the targets, so that a readout returns any
        free: bounds for heads that may depend on the targets; of more than `free.at_most` examples
            almost no targets are returned by any weights, which says nothing about labels
    """

    title: str
    theorem_1: int
    fixed: CapacityBounds
    free: CapacityBounds

    def _sheet(self) -> tables.Sheet:
        table = tables.new_table("", "examples", "reason", left=("", "reason"))
        met = "if its assumptions hold" if self.theorem_1 else "no n > d tokens are independent"
        table.add_row("Theorem 1", f"{self.theorem_1:,}", met)
        for name, found, theorem in (
            ("fixed heads", self.fixed, 8),
            ("free heads", self.free, 36),
        ):
            if found.at_least == found.at_most:
                whole = found.blamed is not None and not len(found.blamed)
                both = whole or found.why_at_least == found.why_at_most
                why = found.why_at_least + f"; no more by Theorem {theorem}" * (not both)
                word = "all" if whole else "exactly"
                table.add_row(f"{name}, {word}", f"{found.at_most:,}", why)
                continue
            table.add_row(f"{name}, at least", f"{found.at_least:,}", found.why_at_least)
            table.add_row(f"{name}, at most", f"{found.at_most:,}", found.why_at_most)
        return tables.Sheet(self.title, (), table)


@in_three_parts
def capacity(
    dataset: Dataset | None = None,
    *,
    num_heads: int,
    head_dim: int,
    context_size: int | None = None,
    width: int | None = None,
    shared_context: bool = False,
    target_dim: int | None = None,
    seed: int = 0,
) -> Capacity:
    """Return how many examples of a dataset, or of almost all data, fixed and free heads memorize.

    Whatever the targets are: *fixed heads* are chosen before them, *free heads* may depend on
    them. Without a dataset data have the given sizes. A layer needs d_v >= d_out.

    Args:
        dataset: T examples, contexts (T, n, d) or one shared (n, d); their targets have no part in
            it but by their number of entries. Without it the sizes are those of generic data
        num_heads: H
        head_dim: d_h
        context_size: n, without a dataset
        width: d, without a dataset
        shared_context: whether all examples share one context, without a dataset
        target_dim: d_out, without a dataset; by default one number
        seed: of random weights, with a dataset

    Raises:
        ParameterError: for a count that is not positive, for sizes beside a dataset or neither,
            and for far too many heads

    Source: Theorems 8 and 9 for fixed heads; Theorems 33 to 40 for free heads
        (proofs/24-free-heads.md).

    Example:
        >>> print(capacity(num_heads=4, head_dim=8, context_size=8, width=32))
        H = 4, d_h = 8: generic data, own contexts, n = 8, d = 32
                                examples  reason
          Theorem 1                   29  if its assumptions hold
          fixed heads, exactly       128  c(E; H) = k + (H - 1) delta (Theorems 8 and 9)
          free heads, at least     1,352  4 equal heads (Theorem 35)
          free heads, at most      1,920  almost no targets of more (Theorem 36)
    """
    require_positive(num_heads=num_heads, head_dim=head_dim)
    if dataset is not None:
        sizes = {"context_size": context_size, "width": width, "target_dim": target_dim}
        given = [f"{name}=" for name, size in sizes.items() if size is not None]
        given += ["shared_context="] * shared_context
        if given:
            raise ParameterError(
                f"a dataset has its own sizes, and {' and '.join(given)} would be others",
                witness=given,
                suggestion="the dataset alone, or sizes alone",
            )
        return _of_data(dataset, num_heads, head_dim, seed)
    if context_size is None or width is None:
        raise ParameterError(
            "neither a dataset nor its sizes are given",
            witness=dataset,
            suggestion="a dataset, or context_size= and width=",
        )
    target_dim = 1 if target_dim is None else target_dim
    require_positive(context_size=context_size, width=width, target_dim=target_dim)
    if num_heads > MOST:
        raise ParameterError(
            f"num_heads={num_heads} is too large for a search of the best partition",
            witness=num_heads,
            suggestion=f"num_heads={MOST:,} or fewer",
        )
    data = Dimensions.of_sizes(context_size, width, shared_context=shared_context)
    fixed = data.fixed(num_heads)
    by_theorem = "c(E; H) = k + (H - 1) delta (Theorems 8 and 9)"
    at_least, reason = _by_theorems(num_heads, head_dim, data, target_dim)
    at_most = most_examples(num_heads, head_dim, data, m=target_dim)
    return Capacity(
        f"H = {num_heads}, d_h = {head_dim}: generic data, "
        + _sizes(context_size, width, target_dim, shared=shared_context),
        _theorem_1(num_heads, head_dim, context_size, width),
        CapacityBounds(fixed, by_theorem, fixed, by_theorem),
        CapacityBounds(at_least, reason, at_most, "almost no targets of more (Theorem 36)"),
    )


def _sizes(context_size: int, width: int, target_dim: int, *, shared: bool) -> str:
    kind = "one shared context" if shared else "own contexts"
    return f"{kind}, n = {context_size}, d = {width}" + f", d_out = {target_dim}" * (target_dim > 1)


def _theorem_1(num_heads: int, head_dim: int, size: int, width: int) -> int:
    return saturated_capacity(num_heads, size, head_dim) if size <= width else 0


def _by_theorems(num_heads: int, head_dim: int, data: Dimensions, m: int) -> tuple[int, str]:
    """Return how many examples of generic data free heads memorize, and by which theorem."""
    if m == 1 and not data.differences:  # then outputs are linear in W_V alone
        return data.fixed(num_heads), "fixed heads (Theorem 9)"
    point = zero_point(num_heads, head_dim, data)
    if m == 1:
        theorem = "34" if point.uniform == num_heads else "35"
        return point.rank, f"{point} (Theorem {'38' if data.one_context else theorem})"
    ways = [(data.fixed(num_heads), "fixed heads (Theorem 9)")]
    if num_heads >= m:
        point = zero_point(num_heads // m, head_dim, data)
        ways.append((point.rank, f"{point} for each output (Theorem 40 (c))"))
    # Theorem 40 (b): m = p rho, T p <= H d_h floor(d / rho).
    width = data.differences
    if num_heads * head_dim <= width == data.queries and not data.one_context:
        for p in range(1, min(num_heads - 1, m) + 1):
            rho, rest = divmod(m, p)
            if not rest and rho <= data.of_one:
                found = num_heads * head_dim * (width // rho) // p
                ways.append((found, "uniform attention (Theorem 40 (b))"))
    return max(ways)


def _of_data(dataset: Dataset, num_heads: int, head_dim: int, seed: int) -> Capacity:
    require_examples(dataset, Dataset)
    fixed = fixed_capacity(dataset, num_heads, head_dim, seed=seed)
    rng, different = np.random.default_rng(seed), different_inputs(dataset)
    with one_blas_thread(dataset.largest_product(num_heads)):
        free = free_capacity(
            dataset, num_heads, head_dim, rng, different=different, fixed=fixed.at_least
        )
    size, shared = dataset.context_size, dataset.shared_context
    return Capacity(
        f"H = {num_heads}, d_h = {head_dim}: {dataset.num_examples:,} examples, "
        + _sizes(size, dataset.width, dataset.target_dim, shared=shared),
        _theorem_1(num_heads, head_dim, size, dataset.width),
        fixed,
        free,
    )
