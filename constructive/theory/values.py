"""How many examples heads hold whose values have fewer entries than targets, d_v < d_out.

An effective readout U (H d, d_out) has rank d_v at most for each head then, so that rank Z = T is
not enough. Proposition 18.1 (what is built) and Proposition 18.2 (what is impossible) are proved in
proofs/18-narrow-values.md.
"""

from bisect import bisect_left
from dataclasses import dataclass

from constructive.data.shapes import ExampleShapes
from constructive.support.errors import CapacityError, ParameterError, require_positive


@dataclass(frozen=True)
class ValueBounds:
    """How many examples can have any labels, if values have d_v entries and targets d_out.

    Attributes:
        by_rank: as many are reached by random values and a free W_O
        by_slots: as many are reached where each entry of a value serves one entry of the targets
        at_most: above that no weights of these shapes reach all labels
        reason: why not
    """

    by_rank: int
    by_slots: int
    at_most: int
    reason: str

    @property
    def holds(self) -> int:
        """As many are reached."""
        return max(self.by_rank, self.by_slots)


def value_bounds(
    *,
    num_heads: int,
    width: int,
    head_dim: int,
    value_dim: int,
    target_dim: int,
    tokens: int | None = None,
    differences: int | None = None,
) -> ValueBounds:
    """Return how many examples heads with values of d_v entries hold, and how many none do.

    All labels of T examples are reached up to `holds`, for almost all queries, if contexts are
    generic own ones or one shared one of such dimensions. Above `at_most` they are not, for all
    weights, queries and contexts of such dimensions or fewer. For d_v >= min(d, d_out) both are
    c(E; H) of Theorems 8 and 9.

    Args:
        num_heads: H
        width: d, the number of entries of a token or a query
        head_dim: d_h
        value_dim: d_v
        target_dim: d_out, the number of entries of a target
        tokens: k, the number of dimensions that all tokens span; by default d
        differences: delta, the number of dimensions that differences of two tokens of one context
            span, such as n - 1 of a shared one; by default k

    Raises:
        ParameterError: where a count is not a positive integer, and unless delta <= k <= d

    Source: Propositions 18.1 and 18.2 (ours).

    Example:
        >>> bounds = value_bounds(num_heads=8, width=16, head_dim=1, value_dim=2, target_dim=4)
        >>> bounds.holds, bounds.at_most
        (64, 128)
        >>> print(value_bounds(num_heads=2, width=4, head_dim=1, value_dim=1, target_dim=5).reason)
        values have rank 2 at most, and labels of d_out = 5 entries may have more (Proposition 18.2)
    """
    require_positive(
        num_heads=num_heads,
        width=width,
        head_dim=head_dim,
        value_dim=value_dim,
        target_dim=target_dim,
    )
    k = width if tokens is None else tokens
    delta = k if differences is None else differences
    require_positive(tokens=k)
    if not 0 <= delta <= k <= width:
        raise ParameterError(
            f"tokens={k} and differences={delta} are not dimensions of contexts with d={width}",
            witness=(k, delta),
            suggestion="0 <= differences <= tokens <= width",
        )
    values = min(value_dim, k)
    rank = min(num_heads * values, k + (num_heads - 1) * min(values, delta))
    share = num_heads * values // target_dim
    slots = k + (min(share, num_heads) - 1) * delta if share else 0

    most = k + (num_heads - 1) * delta
    limits = [(most, f"contexts allow {most} at most, for all weights (Theorem 8)")]
    if rank < target_dim:
        why = f"values have rank {rank} at most, and labels of d_out = {target_dim} entries "
        limits.append((rank, why + "may have more (Proposition 18.2)"))
    inner, narrow = min(head_dim, delta), min(values, target_dim)
    weights = num_heads * (narrow * (k + target_dim - narrow) + inner * (delta + width - inner))
    why = (
        f"weights have {weights} dimensions, and {{}} examples have {{}} labels (Proposition 18.2)"
    )
    beyond = weights // target_dim + 1
    limits.append((beyond - 1, why.format(beyond, beyond * target_dim)))
    return ValueBounds(rank, slots, *min(limits))


def generic_spans(shapes: ExampleShapes) -> tuple[int, int]:
    """Return k and delta of generic contexts of these shapes."""
    return sized_spans(shapes.context_size, shapes.width, shared_context=shapes.shared_context)


def sized_spans(context_size: int, width: int, *, shared_context: bool) -> tuple[int, int]:
    """Return k and delta of generic contexts of n tokens of d entries."""
    if shared_context:
        return min(context_size, width), min(context_size - 1, width)
    return width, width if context_size > 1 else 0


def require_room(shapes: ExampleShapes, num_heads: int) -> int:
    """Return how many examples H heads hold if contexts of these shapes are generic.

    CapacityError for more examples than that, which no contexts of these shapes hold.

    Source: Theorems 8 and 9.
    """
    tokens, differences = generic_spans(shapes)
    holds = tokens + (num_heads - 1) * differences
    if shapes.num_examples > holds:
        enough = 1 + -(-(shapes.num_examples - tokens) // max(differences, 1))
        raise CapacityError(
            f"{shapes.num_examples} examples are too many for {num_heads} heads, whatever "
            f"their weights are: contexts of these shapes allow {holds} at most",
            witness=shapes.num_examples,
            suggestion=f"num_heads={enough}"
            if differences
            else "contexts with n >= 2 tokens: softmax over one token is constant",
        )
    return holds


def generic_bounds(
    shapes: ExampleShapes, num_heads: int, head_dim: int, value_dim: int
) -> ValueBounds:
    """Return `value_bounds` for generic contexts of these shapes."""
    tokens, differences = generic_spans(shapes)
    return value_bounds(
        num_heads=num_heads,
        width=shapes.width,
        head_dim=head_dim,
        value_dim=value_dim,
        target_dim=shapes.target_dim,
        tokens=tokens,
        differences=differences,
    )


def heads_for_values(shapes: ExampleShapes, value_dim: int) -> int | None:
    """Return the smallest H with which values of d_v entries hold the examples, or None."""
    total = shapes.num_examples

    def holds(num_heads: int) -> int:
        return generic_bounds(shapes, num_heads, 1, value_dim).holds

    # One more head raises the rank of values, if tokens of a context differ.
    found = 1 + bisect_left(range(1, total + 1), total, key=holds)
    return found if found <= total else None
