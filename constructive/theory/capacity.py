"""How many examples fixed heads memorize: what contexts allow, the fewest heads, exact capacities.

Heads are *fixed* if W_Q and W_K are chosen before the targets, which only a readout then fits. So
these are numbers of independent rows of Z. Heads that depend on the targets memorize more.

*What contexts allow* is c(E; H), whatever queries, W_Q and W_K are, with the examples to blame.

For a set J of examples let k_J and delta_J be the dimensions that their tokens span, and that
differences of tokens of one context span. c(E; H) is the least of T - |J| + k_J + (H - 1) delta_J
over all J (0 for T = 0 examples). For all W_Q and W_K it bounds the rank of Z (Theorem 8), and for
almost all queries almost all of them reach it (Theorem 9, proofs/15-contexts.md).

*The minimizer* costs one elimination: draw y_t from L_t = {(r, r + v_2, ..., r + v_H)} for r in the
span of the tokens and v_h in that of the differences, and let J be the rows that take part in some
linear dependency. Rows outside of J add one to the rank each, and those of J span the sum of all
L_t, for almost all choices.

Here that is computed modulo a prime, where chance may fail. So nothing is taken from it but J: k_J
and delta_J are those over the rational numbers, and the rank modulo a prime is a lower bound of
c(E; H). Where both agree, they are c(E; H), and that is proved.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from math import gcd
from typing import NamedTuple

import flint
import numpy as np
import numpy.typing as npt

from constructive.data.dataset import Dataset, different_inputs
from constructive.data.shapes import require_examples
from constructive.exact import dyadic, modular
from constructive.layers import residues
from constructive.layers.layer import AttentionLayer
from constructive.support.arrays import Array, Integers, components, row_chunks
from constructive.support.errors import (
    CapacityError,
    in_three_parts,
    require_positive,
    require_seed,
)
from constructive.support.work import in_pieces, one_blas_thread, report
from constructive.theory.bounds import heads_in_words, require_heads

# What tokens span, and what differences within contexts span, exactly.
#
# Both spaces are known by the vectors orthogonal to them: x with e.x = 0 for every token e, and x
# with e.x constant within every context. Candidates come from few rows that span the others modulo
# a prime; that they are orthogonal to all the others is checked over the rational numbers, and
# where it fails the row that shows so is added. So dimensions are those over the rational numbers.


Vectors = tuple[tuple[int, ...], ...]
Rows = list[list[flint.fmpz]]


@dataclass(frozen=True)
class Spans:
    """Two spaces of contexts: that of their tokens, and that of differences within them."""

    tokens: int  # k, the dimension that all tokens span
    differences: int  # delta, the dimension that the differences of tokens of one context span
    # d - delta integer vectors, the first d - k orthogonal to all tokens, the others constant
    # within each context; entry `pivots[i]` of vector i is not zero, and that of all later ones is,
    # so that they are independent
    orthogonal: Vectors
    pivots: tuple[int, ...]  # an entry of each vector


def spans_of(contexts: Array) -> Spans:
    """Return the spans of contexts (C, n, d) of finite floats, over the rational numbers."""
    width = contexts.shape[2]
    if not len(contexts):  # all vectors are orthogonal to no rows: exact elimination takes a second
        units = tuple(map(tuple, np.eye(width, dtype=np.int64).tolist()))
        return Spans(0, 0, units, tuple(range(width)))
    contexts = np.unique(np.asarray(contexts, dtype=np.float64) + 0.0, axis=0)
    zero = _orthogonal(contexts, differences=False)
    constant = _orthogonal(contexts, differences=True)
    vectors, pivots = _triangular(zero, constant)
    return Spans(width - len(zero), width - len(constant), vectors, pivots)


def dimensions(contexts: Array) -> tuple[int, int]:
    """Return only k and delta of `spans_of`, which is quicker."""
    contexts = np.unique(np.asarray(contexts, dtype=np.float64) + 0.0, axis=0)
    tokens, differences = (len(_orthogonal(contexts, differences=which)) for which in (False, True))
    return contexts.shape[2] - tokens, contexts.shape[2] - differences


def subset_dimensions(contexts: Array) -> tuple[Integers, Integers]:
    """Return k_J and delta_J of every set J of a few contexts (C, n, d): entry sum 2^j, j in J."""
    parts = [
        [_integer_rows(context, differences=which) for context in contexts]
        for which in (False, True)
    ]
    return _subset_ranks(parts[0]), _subset_ranks(parts[1])


_LARGE_PRIME = (1 << 61) - 1


def _subset_ranks(parts: list[Rows]) -> Integers:
    """Return the rank of the rows of every set of parts; where it is that of all, no set is tried.

    Sets grow by parts of larger and larger index. Modulo a prime a rank is no larger than it is,
    so it is right where it grows by as much as it can; elsewhere integers are eliminated.
    """
    alone = [_rank(part) for part in parts]
    whole = _rank([row for part in parts for row in part])
    ranks = np.full(1 << len(parts), whole)

    def grow(chosen: list[int], rank: int, basis: list[list[flint.nmod]]) -> None:
        ranks[sum(1 << index for index in chosen)] = rank
        if rank == whole:
            return
        for index in range(chosen[-1] + 1 if chosen else 0, len(parts)):
            larger = [*chosen, index]
            reduced, found = flint.nmod_mat([*basis, *parts[index]], _LARGE_PRIME).rref()
            more = reduced.tolist()[:found]
            if found < min(whole, rank + alone[index]):
                found = _rank([row for part in larger for row in parts[part]])
            grow(larger, found, more)

    grow([], 0, [])
    return ranks


def _rank(rows: Rows) -> int:
    return int(flint.fmpz_mat(rows).rank()) if rows else 0


def vocabulary(contexts: Array) -> tuple[Array, Integers]:
    """Return the V different tokens of contexts (C, n, d), and which part each is in: (V,).

    Tokens are in one part where contexts join them.
    """
    tokens = contexts.reshape(-1, contexts.shape[2]) + 0.0
    different, ids = np.unique(tokens, axis=0, return_inverse=True)
    ids = ids.reshape(contexts.shape[:2])
    edges = np.stack([np.repeat(ids[:, :1], ids.shape[1], axis=1), ids]).reshape(2, -1)
    return different, components(edges, len(different))


def count_spans(contexts: Array) -> tuple[int, int]:
    """Bound both by counting: V tokens, and V less the parts that contexts (C, n, d) join."""
    different, parts = vocabulary(contexts)
    return len(different), len(different) - len(np.unique(parts))


def _triangular(
    zero: list[list[int]], constant: list[list[int]]
) -> tuple[Vectors, tuple[int, ...]]:
    """Return the vectors of the first list, then some of the second, each with a pivot.

    The second list spans the first, so that there are as many vectors in the end as it has.
    """
    rows: list[list[int]] = []
    pivots: list[int] = []
    for candidate in (*zero, *constant):
        if len(rows) == len(constant):
            break
        x = list(candidate)
        for row, pivot in zip(rows, pivots, strict=True):
            if x[pivot]:
                x = [row[pivot] * a - x[pivot] * b for a, b in zip(x, row, strict=True)]
        common = gcd(*x)
        if common:
            rows.append([a // common for a in x])
            pivots.append(_pivot(rows[-1], zero))
    return tuple(map(tuple, rows)), tuple(pivots)


def _pivot(x: list[int], others: list[list[int]]) -> int:
    """An entry of a vector that is not zero; where there is one, at which most others are zero.

    A basis of a null space has, for each vector, an entry where all others are zero, which saves
    to eliminate it from them.
    """
    places = [j for j, entry in enumerate(x) if entry]
    return min(places, key=lambda j: sum(other[j] != 0 for other in others))


def _orthogonal(contexts: Array, *, differences: bool) -> list[list[int]]:
    """Return a basis of the vectors that are orthogonal to all rows, over the rational numbers.

    Rows are tokens, or their differences from the first token of their context.
    """
    width = contexts.shape[2]
    places = _spanning(contexts, differences=differences)
    if len(places) == width:  # rows are independent over the rational numbers, too: none is left
        return []
    rows = [_integer_row(contexts[c], row, differences=differences) for c, row in places]
    while True:
        columns = dyadic.null_vectors(flint.fmpz_mat(len(rows), width, list(chain(*rows))))
        if not columns:
            return []
        kernel = dyadic.as_columns(columns, width)
        for chunk, _ in _chunks(contexts):
            products = _times(chunk, kernel)
            wrong = products[:, 1:] != products[:, :1] if differences else products != 0
            off = np.argwhere(wrong.any(axis=2))
            if len(off):
                context, row = off[0]
                rows.append(_integer_row(chunk[context], row, differences=differences))
                break
        else:
            return columns


def _times(contexts: Array, matrix: flint.fmpz_mat) -> npt.NDArray[np.object_]:
    """Return tokens of contexts (C, n, d), each context scaled by a power of two, times (d, k)."""
    count, size, width = contexts.shape
    whole, exponents = dyadic.integers(contexts.reshape(-1, width))
    products = np.array((whole * matrix).tolist(), dtype=object).reshape(count, size, -1)
    return _of_one_scale(products, np.array(exponents, dtype=object).reshape(count, size, 1))


def _of_one_scale(
    rows: npt.NDArray[np.object_], exponents: npt.NDArray[np.object_]
) -> npt.NDArray[np.object_]:
    """Return integers (C, n, k) times 2^exponents (C, n, 1), each context times a power of two."""
    scaled: npt.NDArray[np.object_] = rows << (exponents - exponents.min(axis=1, keepdims=True))
    return scaled


def _integer_rows(context: Array, *, differences: bool) -> Rows:
    """Return the tokens of one context (n, d), or their differences, times a power of two."""
    whole, exponents = dyadic.integers(context)
    powers = np.array(exponents, dtype=object)[np.newaxis, :, np.newaxis]
    tokens = _of_one_scale(np.array(whole.tolist(), dtype=object)[np.newaxis], powers)[0]
    rows: Rows = (tokens[1:] - tokens[:1] if differences else tokens).tolist()
    return rows


def _integer_row(context: Array, row: int, *, differences: bool) -> list[flint.fmpz]:
    """Return one of these rows."""
    tokens = context[[0, row + 1]] if differences else context[row : row + 1]
    return _integer_rows(tokens, differences=differences)[0]


def _spanning(contexts: Array, *, differences: bool) -> list[tuple[int, int]]:
    """Return the places of independent rows that span all modulo a prime, early ones if so."""
    prime = next(modular.safe_primes())
    exponent = modular.least_exponent(contexts)
    width = contexts.shape[2]
    held: Array = np.empty((0, width))
    where: list[tuple[int, int]] = []  # the context and the row of each
    for chunk, start in _chunks(contexts):
        rows = modular.residues(chunk, prime, exponent)
        if differences:
            rows = modular.reduce(rows[:, 1:] - rows[:, :1], prime)
        where += [(start + c, row) for c, row in np.ndindex(rows.shape[:2])]
        rows = np.concatenate([held, rows.reshape(-1, width)])
        if not len(rows):
            continue
        factors = modular.factor(rows, prime)
        chosen = np.sort(factors.rows[: factors.rank])
        held, where = rows[chosen], [where[i] for i in chosen]
        if len(held) == width:
            break
    return where


def _chunks(contexts: Array) -> Iterator[tuple[Array, int]]:
    """Yield a few contexts at a time, and the index of the first."""
    for rows in row_chunks(len(contexts), 8 * contexts.shape[1] * contexts.shape[2]):
        yield contexts[rows], rows.start


_PRIMES = 4  # Primes that are tried as long as the bounds differ
# Random combinations of the dependencies that were found, whose supports are taken together.
_MIXTURES = 8


@dataclass(frozen=True, eq=False)
class ContextCapacity:
    """Bounds of c(E; H), and the set J that gives the upper one."""

    lower: int  # the rank of random elements of all L_t, modulo a prime
    upper: int  # T - |J| + k_J + (H - 1) delta_J, for T different inputs
    num_heads: int  # H
    # J, ascending; empty where none was found whose bound is below the number of different inputs:
    # that is c(E; H) if the bounds agree
    blamed: Integers
    spans: Spans  # k_J and delta_J, with vectors that prove them

    @property
    def exact(self) -> bool:
        """Whether both bounds agree, and so are c(E; H)."""
        return self.lower == self.upper

    def __str__(self) -> str:
        if not len(self.blamed):
            return f"{self.upper} different inputs"
        return (
            f"T - |J| + k_J + (H - 1) delta_J, where the |J| = {len(self.blamed)} examples of J "
            f"have tokens of k_J = {self.spans.tokens} and differences of delta_J = "
            f"{self.spans.differences} dimensions"
        )


def context_capacity(
    dataset: Dataset,
    num_heads: int,
    rng: np.random.Generator,
    different: Integers | None = None,
) -> ContextCapacity:
    """Return bounds of c(E; H), from one elimination modulo a prime, and exact spans.

    Examples that are one input have one row of Z, and count once.

    dataset: of its queries only which are equal has a part in it
    different: one example of each input (`different_inputs`), where that is known
    """
    different = different_inputs(dataset) if different is None else different
    total = len(different)
    if dataset.shared_context:  # L_t is one space for all
        spans = spans_of(dataset.contexts[np.newaxis])
        holds = spans.tokens + (num_heads - 1) * spans.differences
        blamed = different if total > holds else different[:0]
        return ContextCapacity(min(total, holds), min(total, holds), num_heads, blamed, spans)
    contexts = dataset.filled.contexts[different]
    nothing = spans_of(contexts[:0])
    found = ContextCapacity(0, total, num_heads, different[:0], nothing)
    common = np.arange(total)
    enough = min(num_heads, total)  # as many have the same rank: k + (T - 1) delta >= T
    for prime, _ in zip(modular.safe_primes(), range(_PRIMES), strict=False):
        rows = generic_rows(contexts, enough, prime, rng)
        factors = modular.factor(rows, prime, overwrite=True)
        found = replace(found, lower=max(found.lower, factors.rank))
        dependent = dependent_rows(factors, rng)
        common = np.intersect1d(common, dependent)  # without what depends modulo one prime alone
        for blamed in (dependent, common, np.arange(total)):
            if found.exact:
                return found
            spans = spans_of(contexts[blamed])
            upper = total - len(blamed) + spans.tokens + (num_heads - 1) * spans.differences
            if upper < found.upper:
                found = ContextCapacity(found.lower, upper, num_heads, different[blamed], spans)
    return found


def generic_rows(
    contexts: Array,
    num_heads: int,
    prime: int,
    rng: np.random.Generator,
) -> Array:
    """Return a random element of each L_t, modulo a prime: (T, H d).

    The part of each head is a combination of tokens; the sums of coefficients agree for all heads,
    as integers.

    contexts: (T, n, d)
    """
    total, size, width = contexts.shape
    out = np.empty((total, num_heads * width))
    exponent = modular.least_exponent(contexts)

    def draws() -> Iterator[tuple[slice, Integers]]:
        for rows in row_chunks(total, 8 * max(size * width, num_heads * (size + width))):
            yield rows, rng.integers(prime, size=(rows.stop - rows.start, num_heads, size))

    def combine(piece: tuple[slice, Integers]) -> None:
        rows, mixing = piece
        tokens = modular.residues(contexts[rows], prime, exponent)
        mixing[:, :, 0] += mixing[:, :1].sum(axis=2) - mixing.sum(axis=2)
        balanced = modular.reduce((mixing % prime).astype(np.float64), prime)
        out[rows] = modular.product(balanced, tokens, prime).reshape(len(tokens), -1)

    for _ in in_pieces(combine, draws(), float(out.size) * size):
        pass
    return out


def dependent_rows(factors: modular.Factors, rng: np.random.Generator) -> Integers:
    """Return the rows that take part in some dependency, but with a chance of T / p each time."""
    rank, total = factors.rank, len(factors.rows)
    if rank == total:
        return np.empty(0, dtype=np.int64)
    prime = factors.modulus
    mixing = modular.random_residues(rng, (_MIXTURES, total - rank), prime, least=1)
    used = modular.dependencies(factors, mixing)
    return np.sort(np.concatenate([factors.rows[rank:], factors.rows[:rank][used.any(axis=0)]]))


# Dimensions whose mean squares are below this part of the largest ones are there by a hair.
_HAIR = 1e-14


@dataclass(frozen=True)
class FewestHeads:
    """The fewest fixed heads that the contexts of data allow, and some room.

    Attributes:
        least: the smallest H with T <= c(E; H), for the different inputs: no fewer heads have a
            readout for all targets (Theorem 8), and as many have for almost all queries (Theorem 9)
        heads: the same, or one more where less than half a head would be left: Z of a full layer is
            ill-conditioned; and more where tokens lie in fewer dimensions but for a hair, which
            float64 does not see
        reason: why fewer are not enough, and what is left, in words
    """

    least: int
    heads: int
    reason: str


@in_three_parts
def fewest_heads(dataset: Dataset, *, seed: int = 0) -> FewestHeads:
    """Return the fewest fixed heads that the contexts of a dataset allow, and some room.

    It counts heads that do not depend on the targets: no fewer have a readout for all targets,
    whatever the queries, W_Q and W_K are (Theorem 8); as many have for almost all queries
    (Theorem 9). For some queries they have not, whatever their number (Proposition 15.5):
    `capacity` decides that for your data. Heads that depend on the targets may be fewer.

    Args:
        dataset: T examples, contexts (T, n, d) or one shared (n, d)
        seed: of the elimination that finds the examples to blame

    Raises:
        ParameterError: for a negative seed
        CapacityError: where no number of heads is enough

    Example:
        >>> from constructive import generators
        >>> data = generators.uniform(num_examples=100, context_size=8, width=16)
        >>> found = fewest_heads(data)
        >>> found.least, found.heads
        (7, 7)
        >>> print(found.reason)
        contexts allow 96 of 100 examples with 6 heads chosen before the targets, and 112 with 7
    """
    require_examples(dataset, Dataset)
    require_seed(seed)
    rng, different = np.random.default_rng(seed), different_inputs(dataset)
    least, below, decided = _least_heads(dataset, different, rng)
    spans, blamed = below.spans, len(below.blamed)
    seen = seen_in_floats(dataset)
    enough, words = seen.heads(len(different)), f"; but {seen}"
    doubt = "" if decided else "; whether that is enough is not decided"
    if not blamed:
        reason = f"contexts allow all {below.upper} different inputs with one head" + doubt
        return FewestHeads(1, enough, reason + words * (enough > 1))
    room = spans.tokens + (least - 1) * spans.differences - blamed
    heads = least + (2 * room < spans.differences)
    holds = blamed + room + (heads - least) * spans.differences
    fewer = blamed + room - spans.differences
    below_least = f"{heads_in_words(least - 1)} chosen before the targets"
    allowed = f"contexts allow {fewer} of {blamed} examples with {below_least}"
    reason = f"{allowed}, and {holds} with {heads}{doubt}"
    return FewestHeads(least, max(heads, enough), reason + words * (enough > heads))


def _least_heads(
    dataset: Dataset, different: Integers, rng: np.random.Generator
) -> tuple[int, ContextCapacity, bool]:
    """Return the smallest H, what one head less holds (or one), and whether H is proved to do."""
    last = found = context_capacity(dataset, 1, rng, different)
    heads = 1
    while blamed := len(found.blamed):
        spans = found.spans
        if not spans.differences:
            raise CapacityError(
                f"no number of heads can memorize these examples: {blamed} have equal tokens in "
                f"each context, which span {spans.tokens} dimensions",
                witness=tuple(found.blamed[:8].tolist()),
                suggestion="contexts with two different tokens, or fewer examples",
            )
        # The rows of J need k + (H - 1) delta >= |J|.
        heads = 1 + -(-(blamed - spans.tokens) // spans.differences)
        last, found = found, context_capacity(dataset, heads, rng, different)
    if heads == 1:
        return 1, found, found.exact
    below = context_capacity(dataset, heads - 1, rng, different)
    return heads, below if len(below.blamed) else last, found.exact


class Seen(NamedTuple):
    """The dimensions that tokens and differences of tokens span as float64 sees them.

    Others are there by a hair, such as what is left of rounding, and no readout in float64 uses
    them.
    """

    tokens: int
    differences: int

    def allow(self, num_heads: int, examples: int) -> int:
        """Return how many of so many examples fixed heads memorize with these dimensions alone."""
        return min(examples, self.tokens + (num_heads - 1) * self.differences)

    def heads(self, examples: int) -> int:
        """Return the fewest heads that these dimensions allow for so many examples, or one."""
        missing = examples - self.tokens
        return 1 + -(-max(missing, 0) // self.differences) if self.differences else 1

    def __str__(self) -> str:
        return (
            f"float64 sees tokens in {self.tokens} dimensions and differences in {self.differences}"
        )


def seen_in_floats(dataset: Dataset) -> Seen:
    """Return the dimensions that float64 sees."""
    dataset = dataset.filled
    grams, scale = np.zeros((2, dataset.width, dataset.width)), np.abs(dataset.contexts).max() or 1
    for _, contexts in dataset.context_chunks():
        tokens = contexts / scale
        for index, vectors in enumerate((tokens, tokens - tokens[:, :1])):
            flat = vectors.reshape(-1, dataset.width)
            grams[index] += flat.T @ flat
    sizes = np.linalg.eigvalsh(grams)
    return Seen(*(sizes > _HAIR * sizes[:, -1:]).sum(axis=1).tolist())


# Exact capacity of fixed heads: the largest rank of Z over all W_Q and W_K, for a given dataset.
#
# rank Z = T is what it takes for one choice of W_Q and W_K to have a readout for all targets of T
# examples. Minors of Z are analytic in the weights, so almost all weights give the largest rank,
# and random ones most likely.
#
# - *Proved from below*: rank Z(a) modulo p for random integer weights (`layers.residues`). These
#   very heads have a readout for all targets of as many examples.
# - *Proved from above*: Theorem 8, c(E; H), by the set J of examples that gives the least bound.
# - Where both agree, that is the capacity. By Theorem 9 they do for almost all queries. For some
#   they do not, as where contexts are translates of each other and have one query (Proposition
#   15.5). The capacity is probably the lower one then: no weights found it higher.


_LARGEST_WEIGHT = 1 << 20
_ATTEMPTS = 2  # Random weights that are tried while the bounds differ


@dataclass(frozen=True, eq=False)
class CapacityBounds:
    """Bounds of how many examples fixed heads, or free heads, memorize; each with its reason.

    Attributes:
        at_least: b for which some b of the examples can have any targets: the same fixed heads have
            a readout for all of these, of free heads some weights return each
        why_at_least: by which weights or theorem
        at_most: of no more examples, whichever they are, that can be said
        why_at_most: by which theorem
        blamed: of a dataset, the examples J that give the upper bound; None for sizes
    """

    at_least: int
    why_at_least: str
    at_most: int
    why_at_most: str
    blamed: Integers | None = field(default=None, repr=False)


@in_three_parts
def fixed_capacity(
    dataset: Dataset, num_heads: int, head_dim: int = 1, *, seed: int = 0
) -> CapacityBounds:
    """Find how many examples fixed heads memorize, proved from below and from above.

    It is the largest rank of Z over all W_Q and W_K: so many examples have a readout for all
    targets with heads that do not depend on the targets. Heads that depend on them memorize more.
    Where the bounds differ, it is probably the lower one.
    """
    require_examples(dataset, Dataset)
    require_positive(num_heads=num_heads, head_dim=head_dim)
    require_seed(seed)
    num_heads, head_dim = operator.index(num_heads), operator.index(head_dim)
    of_z = dataset.num_examples * (dataset.width + dataset.context_size)
    of_weights = 2 * dataset.width * (head_dim + dataset.target_dim)
    require_heads(num_heads, dataset.num_examples, of_z + of_weights)
    rng, shape = np.random.default_rng(seed), (2, num_heads, dataset.width, head_dim)
    no_readout = (num_heads, dataset.width, 1), (num_heads, 1), (1, 1)
    least = count = 0
    with one_blas_thread(dataset.largest_product(num_heads)):
        report("what contexts hold", 0, 1)
        contexts = context_capacity(dataset, num_heads, rng)
        while least < contexts.upper and count < _ATTEMPTS:
            report("random weights", count, _ATTEMPTS)
            query, key = rng.integers(1, _LARGEST_WEIGHT, size=shape).astype(np.float64)
            layer = AttentionLayer(query, key, *map(np.zeros, no_readout))
            least = max(least, residues.search(layer, dataset, rng).rank)
            count += 1
    why = f"random weights, rank {least} modulo a prime"
    # What float64 sees in these contexts: a readout for more examples takes more bits.
    seen = seen_in_floats(dataset).allow(num_heads, contexts.upper)
    if seen < least:
        why += f"; float64 sees {seen}"
    return CapacityBounds(least, why, contexts.upper, f"{contexts} (Theorem 8)", contexts.blamed)
