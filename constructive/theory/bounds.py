"""The statements of the theorems in integers: how many examples, how many heads, how many weights.

Nothing here looks at data. Symbols: H heads, n tokens in a context, d the width of a token, d_h the
head dimension, d_v the value dimension, T examples, r = min(n, d_h).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

from constructive.data.shapes import ExampleShapes
from constructive.support.errors import (
    AssumptionError,
    CapacityError,
    ParameterError,
    physical_memory,
    require_positive,
)

Theorem = Literal["saturated", "rank_one"]  # The heads of Theorem 1, and those of Theorem 2


def saturated_capacity(num_heads: int, context_size: int, head_dim: int) -> int:
    """Return Theorem 1's number of examples, H(r - 1) + 1 with r = min(n, d_h).

    Source: Mahdavi, Liao and Thrampoulidis (ICLR 2024), Theorem 1.

    Example:
        >>> saturated_capacity(num_heads=60, context_size=32, head_dim=64)
        1861
    """
    require_positive(num_heads=num_heads, context_size=context_size, head_dim=head_dim)
    return num_heads * (min(context_size, head_dim) - 1) + 1


def rank_one_capacity(num_heads: int, context_size: int) -> int:
    """Return Theorem 2's number of examples, H(n - 1) + 1, for every head dimension d_h >= 1.

    The sharper theorem of this project: heads of rank one suffice (see `multihead.heads`).

    Example:
        >>> rank_one_capacity(num_heads=60, context_size=32)
        1861
    """
    require_positive(num_heads=num_heads, context_size=context_size)
    return num_heads * (context_size - 1) + 1


def paired_capacity(num_heads: int, width: int) -> int:
    """Return how many examples with contexts of their own paired heads hold: (H // 2)(d - 1) + 1.

    For 2(n - 1) <= d - 1 and an even H that includes the H(n - 1) + 1 of the theorems. Unlike
    these it needs blocks in general position, which are checked when they are built
    (`constructions.paired`). One head makes no pair, and holds none.

    Example:
        >>> paired_capacity(num_heads=1000, width=64)
        31501
    """
    require_positive(num_heads=num_heads, width=width)
    return (num_heads // 2) * (width - 1) + 1 if num_heads > 1 else 0


def heads_needed(num_examples: int, context_size: int, head_dim: int | None = None) -> int:
    """Return the smallest H for T examples by Theorem 1, or by 2 without d_h.

    Both theorems are about heads that do not depend on the targets, and data that meet the
    assumptions.

    Args:
        num_examples: T
        context_size: n
        head_dim: d_h; None for rank-one heads

    Raises:
        ParameterError: where a count is not a positive integer
        CapacityError: where r = min(n, d_h) = 1 and T > 1: such heads hold one example

    Example:
        >>> heads_needed(1861, context_size=32, head_dim=64)
        60
        >>> heads_needed(1862, context_size=32)
        61
    """
    widest = context_size if head_dim is None else head_dim
    require_positive(num_examples=num_examples, context_size=context_size, head_dim=widest)
    rank = min(context_size, widest)
    if num_examples == 1:
        return 1
    if rank == 1:
        message = f"the theorem allows one example with r = min(n, d_h) = 1, not {num_examples}"
        suggestion = "use contexts with n >= 2 tokens" + (
            f", or construction={RANK_ONE.name!r}, which needs no head dimension"
            if context_size > 1
            else ""
        )
        raise CapacityError(message, witness=rank, suggestion=suggestion)
    return -(-(num_examples - 1) // (rank - 1))


def parameter_count(
    *, num_heads: int, width: int, head_dim: int, value_dim: int, target_dim: int
) -> int:
    """Return entries of W_Q, W_K, W_V, W_O and W_D: H d (2 d_h + d_v) + H d_v^2 + d_v d_out.

    That is for W_O of shape (H d_v, d_v), as it is where d_v >= d_out.
    """
    require_positive(
        num_heads=num_heads,
        width=width,
        head_dim=head_dim,
        value_dim=value_dim,
        target_dim=target_dim,
    )
    per_head = width * (2 * head_dim + value_dim) + value_dim**2
    return num_heads * per_head + value_dim * target_dim


@dataclass(frozen=True)
class Plan:
    """Which construction is used, with which head dimension, and how many examples it holds."""

    construction: str  # its name
    num_heads: int  # H
    head_dim: int  # d_h
    capacity: int  # the number of examples it holds


def require_ranks(shapes: ExampleShapes) -> None:
    """Raise AssumptionError where no context has rank n: for n > d."""
    size, width = shapes.context_size, shapes.width
    if size > width:
        raise AssumptionError(
            f"contexts of n={size} tokens in d={width} dimensions have rank at most {width}; "
            "Assumption 2 needs rank n",
            witness=size,
            suggestion=f"at most n={width} tokens",
        )


@dataclass(frozen=True)
class TheoremHeads:
    """The heads of a theorem, and what it says of them."""

    name: Theorem  # what users ask for
    formula: str  # how many examples H heads hold
    theorem: str  # where that is proved
    rank_one: bool  # whether every W_K W_Q^T is of rank one, and d_h does not matter

    def capacity(self, num_heads: int, context_size: int, head_dim: int) -> int:
        """Return how many examples H such heads hold."""
        if self.rank_one:
            return rank_one_capacity(num_heads, context_size)
        return saturated_capacity(num_heads, context_size, head_dim)

    def plan(self, shapes: ExampleShapes, num_heads: int, head_dim: int | None = None) -> Plan:
        """Plan such heads, and refuse more examples than they hold.

        Without d_h a head is as wide as it can use: n, or 1 if of rank one.
        """
        require_ranks(shapes)
        num_examples, context_size = shapes.num_examples, shapes.context_size
        if head_dim is None:
            head_dim = 1 if self.rank_one else context_size
        counts = {"num_heads": num_heads, "context_size": context_size, "head_dim": head_dim}
        require_positive(num_examples=num_examples, **counts)
        holds = self.capacity(num_heads, context_size, head_dim)
        if num_examples > holds:
            raise self._too_many(num_examples, holds, context_size, num_heads, head_dim)
        return Plan(self.name, num_heads, head_dim, holds)

    def _too_many(
        self, num_examples: int, holds: int, context_size: int, num_heads: int, head_dim: int
    ) -> CapacityError:
        rank = context_size if self.rank_one else min(context_size, head_dim)
        ways = []
        if rank > 1:
            used = None if self.rank_one else head_dim
            ways.append(f"num_heads={heads_needed(num_examples, context_size, used)}")
        if not self.rank_one and num_examples <= rank_one_capacity(num_heads, context_size):
            ways.append(f"construction={RANK_ONE.name!r}, which memorizes them with these heads")
        if rank == 1 and context_size == 1:
            ways.append("contexts with n >= 2 tokens: softmax over one token is constant")
        ways.append(f"or keep {holds} of the examples")
        return CapacityError(
            f"{num_examples} examples are too many for {heads_in_words(num_heads, self.name)}: the "
            f"theorem allows {self.formula} = {holds} (n={context_size}, d_h={head_dim})",
            witness=num_examples,
            suggestion="; ".join(ways),
        )


SATURATED = TheoremHeads("saturated", "H(min(n, d_h) - 1) + 1", "Theorem 1", rank_one=False)
RANK_ONE = TheoremHeads("rank_one", "H(n - 1) + 1", "Theorem 2", rank_one=True)
# The theorems' heads by their names.
THEOREMS: dict[Theorem, TheoremHeads] = {heads.name: heads for heads in (SATURATED, RANK_ONE)}


def sized_spans(context_size: int, width: int, *, shared_context: bool) -> tuple[int, int]:
    """Return k and delta of generic contexts of n tokens of d entries."""
    if shared_context:
        return min(context_size, width), min(context_size - 1, width)
    return width, width if context_size > 1 else 0


def heads_in_words(num_heads: int, kind: str = "") -> str:
    """Return "1 head", "3 heads" or, of a kind, "3 saturated heads"."""
    return f"{num_heads} {kind}{' ' * bool(kind)}head{'s' * (num_heads != 1)}"


def require_room(shapes: ExampleShapes, num_heads: int) -> int:
    """Return how many examples H fixed heads hold if contexts of these shapes are generic.

    CapacityError for more examples than that, which no contexts of these shapes allow.

    Source: Theorems 8 and 9.
    """
    tokens, differences = sized_spans(
        shapes.context_size, shapes.width, shared_context=shapes.shared_context
    )
    holds = tokens + (num_heads - 1) * differences
    if shapes.num_examples > holds:
        enough = 1 + -(-(shapes.num_examples - tokens) // max(differences, 1))
        raise CapacityError(
            f"{shapes.num_examples} examples are too many for {heads_in_words(num_heads)} chosen "
            f"before the targets: contexts of these shapes allow {holds} at most",
            witness=shapes.num_examples,
            suggestion=f"num_heads={enough} or more"
            if differences
            else "contexts with n >= 2 tokens: softmax over one token is constant",
        )
    return holds


# How many heads can be asked for: what they would take, before it is taken.
#
# More heads than examples memorize nothing more: where differences of tokens span a dimension at
# all, k + (H - 1) delta >= T for H >= T, so that c(E; H) = c(E; T).


MOST = 10**5  # Heads that nobody needs for fewer examples; as many take a minute or two to build

_COPIES = 4  # Arrays of the size of weights and Z that are in memory together, about

_SHORT = 10**30  # Numbers below it are printed in full


def require_heads(num_heads: int, num_examples: int, each: int) -> None:
    """Require that H heads are not far too many, and fit into the memory of this machine.

    each: entries of weights, and of Z where it is formed, for each head
    """
    needed = 8 * _COPIES * num_heads * each
    if needed <= physical_memory() and num_heads <= max(num_examples, MOST):
        return
    gigabytes, minutes = -(-needed // 10**9), -(-2 * num_heads // MOST)
    most = min(num_examples, num_heads)
    raise ParameterError(
        f"{_count(num_heads)} heads for {num_examples:,} examples take {_count(gigabytes)} GB and "
        f"{_count(minutes)} minutes, about",
        witness=num_heads if num_heads < _SHORT else _count(num_heads),
        suggestion=f"at most {most:,} heads: more heads than examples memorize nothing more"
        if num_heads > num_examples
        else "fewer heads, or smaller dimensions of a head",
    )


def _count(number: int) -> str:
    return f"{number:,}" if number < _SHORT else "more than 10^30"


# Groups of examples, one for each head.


Groups = tuple[tuple[int, int], ...]  # Groups (start, stop) of examples


def group_sizes(num_examples: int, num_heads: int) -> tuple[int, ...]:
    """Share T examples among H heads as evenly as possible, larger groups first.

    At the bound T = H(r - 1) + 1 these are the sizes in the proof: r for the first head and r - 1
    for each later one. Below the bound no group is larger than that.
    """
    require_positive(num_examples=num_examples, num_heads=num_heads)
    each, rest = divmod(num_examples, num_heads)
    return tuple(each + (head < rest) for head in range(num_heads))


def consecutive(sizes: Iterable[int]) -> Groups:
    """Return groups (start, stop) of these sizes, one after the other."""
    return tuple(pairwise([0, *accumulate(sizes)]))
