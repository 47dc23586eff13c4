"""The statements of the theorems in integers: how many examples, how many heads, how many weights.

Nothing here looks at data. Symbols: H heads, n tokens in a context, d the width of a token, d_h the
head dimension, d_v the value dimension, T examples, r = min(n, d_h).
"""

from dataclasses import dataclass
from typing import Literal, get_args

from constructive.support.arguments import require_positive
from constructive.support.errors import CapacityError, ParameterError

Theorem = Literal["saturated", "rank_one"]
"""The heads of Theorem 1, and those of Theorem 2."""


def saturated_capacity(num_heads: int, context_size: int, head_dim: int) -> int:
    """Theorem 1's number of examples, H(r - 1) + 1 with r = min(n, d_h).

    Args:
        num_heads: H
        context_size: n, the number of tokens in a context
        head_dim: d_h

    Raises:
        ParameterError: where a count is not a positive integer

    Source: Mahdavi, Liao and Thrampoulidis (ICLR 2024), Theorem 1.

    Example:
        >>> saturated_capacity(num_heads=60, context_size=32, head_dim=64)
        1861
    """
    require_positive(num_heads=num_heads, context_size=context_size, head_dim=head_dim)
    return num_heads * (min(context_size, head_dim) - 1) + 1


def rank_one_capacity(num_heads: int, context_size: int) -> int:
    """Theorem 2's number of examples, H(n - 1) + 1, for every head dimension d_h >= 1.

    The sharper theorem of this project: heads of rank one suffice (see `multihead.heads`).

    Args:
        num_heads: H
        context_size: n, the number of tokens in a context

    Raises:
        ParameterError: where a count is not a positive integer

    Example:
        >>> rank_one_capacity(num_heads=60, context_size=32)
        1861
    """
    require_positive(num_heads=num_heads, context_size=context_size)
    return num_heads * (context_size - 1) + 1


def paired_capacity(num_heads: int, width: int) -> int:
    """How many examples with contexts of their own paired heads hold: (H // 2)(d - 1) + 1.

    For 2(n - 1) <= d - 1 and an even H that includes the H(n - 1) + 1 of the theorems. Unlike
    these it needs blocks in general position, which are checked when they are built
    (`decoupled.pairs`). One head makes no pair, and holds none.

    Args:
        num_heads: H
        width: d, the number of entries of a token or a query

    Raises:
        ParameterError: where a count is not a positive integer

    Example:
        >>> paired_capacity(num_heads=1000, width=64)
        31501
    """
    require_positive(num_heads=num_heads, width=width)
    return (num_heads // 2) * (width - 1) + 1 if num_heads > 1 else 0


def heads_needed(num_examples: int, context_size: int, head_dim: int | None = None) -> int:
    """The smallest H whose bound holds T examples: Theorem 1's if d_h is given, else Theorem 2's.

    Args:
        num_examples: T
        context_size: n, the number of tokens in a context
        head_dim: d_h; by default any, since Theorem 2 holds for all

    Raises:
        ParameterError: where a count is not a positive integer
        CapacityError: where r = 1 and T > 1: softmax over one token (or a head with no rank to
            spare) holds one example, whatever H is

    Example:
        >>> heads_needed(1861, context_size=32, head_dim=64)
        60
        >>> heads_needed(1862, context_size=32)
        61
    """
    rank = context_size if head_dim is None else min(context_size, head_dim)
    require_positive(num_examples=num_examples, context_size=context_size, head_dim=rank)
    if num_examples == 1:
        return 1
    if rank == 1:
        message = f"no number of heads memorizes {num_examples} examples with r = min(n, d_h) = 1"
        suggestion = "use contexts with n >= 2 tokens" + (
            ", or construction='rank_one', which needs no head dimension"
            if context_size > 1
            else ""
        )
        raise CapacityError(message, witness=rank, suggestion=suggestion)
    return -(-(num_examples - 1) // (rank - 1))


def group_sizes(num_examples: int, num_heads: int) -> tuple[int, ...]:
    """Share T examples among H heads as evenly as possible, larger groups first.

    At the bound T = H(r - 1) + 1 these are the sizes in the proof: r for the first head and r - 1
    for each later one. Below the bound no group is larger than that.

    Example:
        >>> group_sizes(7, 3)  # H = 3, r = 3: T = 3 * 2 + 1
        (3, 2, 2)
        >>> group_sizes(2, 3)
        (1, 1, 0)
    """
    require_positive(num_examples=num_examples, num_heads=num_heads)
    each, rest = divmod(num_examples, num_heads)
    return tuple(each + (head < rest) for head in range(num_heads))


def parameter_count(
    *, num_heads: int, width: int, head_dim: int, value_dim: int, target_dim: int
) -> int:
    """Entries of W_Q, W_K, W_V, W_O and W_D: H d (2 d_h + d_v) + H d_v^2 + d_v d_out.

    Args:
        num_heads: H
        width: d, the number of entries of a token or a query
        head_dim: d_h
        value_dim: d_v, which is d_out where a layer was built
        target_dim: d_out, the number of entries of a target

    Example:
        >>> parameter_count(num_heads=3, width=5, head_dim=3, value_dim=1, target_dim=1)
        109
    """
    per_head = width * (2 * head_dim + value_dim) + value_dim**2
    return num_heads * per_head + value_dim * target_dim


def nonzero_parameter_count(*, num_examples: int, plan: "Plan", width: int, target_dim: int) -> int:
    """How many entries of the built weights are not zero: the others carry nothing.

    A head of a group S uses `|S|` columns of W_Q and W_K and one more to saturate (rank-one heads:
    one in all), d_out columns of W_V, and an identity matrix in W_O; W_D is one, too.

    Args:
        num_examples: T, which are shared among the heads
        plan: the construction, H and d_h, as `theory.bounds.plan` gives them
        width: d, the number of entries of a token or a query
        target_dim: d_out, the number of entries of a target

    Raises:
        ParameterError: where T or H is not a positive integer

    Example:
        >>> narrow = plan(num_examples=7, context_size=3, num_heads=3, construction="rank_one")
        >>> nonzero_parameter_count(num_examples=7, plan=narrow, width=5, target_dim=1)
        49
    """
    columns = 0
    for size in group_sizes(num_examples, plan.num_heads):
        saturating = size < min(plan.head_dim, width)
        columns += 1 if plan.construction == "rank_one" else size + saturating
    values = plan.num_heads * (width + 1) * target_dim + target_dim
    return 2 * width * columns + values


@dataclass(frozen=True)
class Plan:
    """Which construction is used, with which head dimension, and how many examples it holds."""

    construction: str
    num_heads: int
    head_dim: int
    capacity: int


def plan(
    *,
    num_examples: int,
    context_size: int,
    num_heads: int,
    head_dim: int | None = None,
    construction: str = "auto",
) -> Plan:
    """Choose between the theorems, and refuse more examples than they hold.

    (`planning.explain` chooses among all constructions, by cost.)

    Args:
        num_examples: T
        context_size: n
        num_heads: H
        head_dim: d_h; without it a head is as wide as its construction can use: n for saturated
            heads, 1 for rank-one heads
        construction: "saturated" (Theorem 1), "rank_one" (Theorem 2) or "auto": saturated where T
            allows it, else rank_one

    Raises:
        ParameterError: for an unknown construction or a count below 1
        CapacityError: for too many examples; the message says how many heads would do

    Example:
        >>> plan(num_examples=7, context_size=3, num_heads=3)
        Plan(construction='saturated', num_heads=3, head_dim=3, capacity=7)
        >>> plan(num_examples=7, context_size=3, num_heads=3, head_dim=2)
        Plan(construction='rank_one', num_heads=3, head_dim=2, capacity=7)
    """
    names = get_args(Theorem)
    if construction not in ("auto", *names):
        message = f"unknown construction={construction!r}"
        raise ParameterError(
            message,
            witness=construction,
            suggestion=f"one of 'auto', {', '.join(map(repr, names))}",
        )
    require_positive(num_heads=num_heads, context_size=context_size)
    if head_dim is not None:
        require_positive(head_dim=head_dim)

    wide = context_size if head_dim is None else head_dim
    saturated = Plan(
        "saturated", num_heads, wide, saturated_capacity(num_heads, context_size, wide)
    )
    narrow = wide if construction == "auto" or head_dim is not None else 1
    rank_one = Plan("rank_one", num_heads, narrow, rank_one_capacity(num_heads, context_size))

    if construction == "auto":
        chosen = saturated if num_examples <= saturated.capacity else rank_one
    else:
        chosen = saturated if construction == "saturated" else rank_one
    if num_examples > chosen.capacity:
        raise _too_many(num_examples, chosen, context_size)
    return chosen


def _too_many(num_examples: int, chosen: Plan, context_size: int) -> CapacityError:
    if chosen.construction == "saturated":
        rank = min(context_size, chosen.head_dim)
        formula, used = "H(min(n, d_h) - 1) + 1", chosen.head_dim
    else:
        rank, formula, used = context_size, "H(n - 1) + 1", None
    message = (
        f"{num_examples} examples are too many for {chosen.num_heads} {chosen.construction} heads: "
        f"the theorem holds {formula} = {chosen.capacity} (n={context_size}, d_h={chosen.head_dim})"
    )
    ways = []
    if rank > 1:
        ways.append(f"num_heads={heads_needed(num_examples, context_size, used)}")
    if chosen.construction == "saturated" and (
        num_examples <= rank_one_capacity(chosen.num_heads, context_size)
    ):
        ways.append("construction='rank_one', which holds them with these heads")
    if rank == 1 and context_size == 1:
        ways.append("contexts with n >= 2 tokens: softmax over one token is constant")
    ways.append(f"or keep {chosen.capacity} of the examples")
    return CapacityError(message, witness=num_examples, suggestion="; ".join(ways))
