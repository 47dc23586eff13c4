"""How many heads: by the theorems for sizes, and exactly for data."""

from dataclasses import dataclass
from typing import overload

import numpy as np

from constructive.data.dataset import Dataset
from constructive.data.shapes import require_examples
from constructive.support.arguments import require_seed
from constructive.support.errors import CapacityError, ParameterError
from constructive.support.foreign import in_three_parts
from constructive.theory import bounds
from constructive.theory.context_capacity import LeastHeads, least_heads

# Dimensions whose mean squares are below this part of the largest ones are there by a hair.
_HAIR = 1e-14


@dataclass(frozen=True)
class FewestHeads:
    """The fewest heads that the contexts of data allow, and some room.

    Attributes:
        least: the smallest H with T <= c(E; H), for the different inputs: no fewer do (Theorem 8),
            and as many do for almost all queries (Theorem 9)
        heads: the same, or one more where less than half a head would be left: Z of a full layer is
            ill-conditioned; and more where tokens lie in fewer dimensions but for a hair, which
            float64 does not see
        reason: why no fewer do, and what is left, in words
    """

    least: int
    heads: int
    reason: str


@in_three_parts
def fewest_heads(dataset: Dataset, *, seed: int = 0) -> FewestHeads:
    """Return the fewest heads that the contexts of a data set allow, with a margin in conditioning.

    No fewer memorize it, whatever its queries and the weights are (Theorem 8); as many do for
    almost all queries (Theorem 9). For some they do not, whatever their number (Proposition 15.5):
    `exact_capacity(dataset, least)` decides that.

    Args:
        dataset: T examples, contexts (T, n, d) or one shared (n, d)
        seed: of the elimination that finds the examples to blame

    Raises:
        ParameterError: for a negative seed
        CapacityError: where no number of heads holds them

    Example:
        >>> from constructive import generators
        >>> data = generators.uniform(num_examples=100, context_size=8, width=16)
        >>> found = fewest_heads(data)
        >>> found.least, found.heads
        (7, 7)
        >>> print(found.reason)
        contexts allow 96 of 100 examples with 6 heads, and 112 with 7
    """
    require_examples(dataset, Dataset)
    require_seed(seed)
    return with_room(dataset, least_heads(dataset, np.random.default_rng(seed)))


def with_room(dataset: Dataset, known: LeastHeads) -> FewestHeads:
    """Return the fewest heads of a data set, and some room.

    CapacityError where no number of heads holds it.
    """
    least, below, decided, different = known
    spans, blamed = below.spans, len(below.blamed)
    if least is None:
        raise CapacityError(
            f"no number of heads can memorize these examples: {blamed} have equal tokens in "
            f"each context, which span {spans.tokens} dimensions",
            witness=tuple(below.blamed[:8].tolist()),
            suggestion="contexts with two different tokens, or fewer examples",
        )
    seen, words = _seen_in_floats(dataset, len(different))
    doubt = "" if decided else "; whether that is enough is not decided"
    if not blamed:
        reason = f"contexts allow all {below.upper} different inputs with one head" + doubt
        return FewestHeads(1, max(1, seen), reason + words * (seen > 1))
    room = spans.tokens + (least - 1) * spans.differences - blamed
    heads = least + (2 * room < spans.differences)
    holds = blamed + room + (heads - least) * spans.differences
    fewer = blamed + room - spans.differences
    allowed = f"contexts allow {fewer} of {blamed} examples with {least - 1} heads"
    reason = f"{allowed}, and {holds} with {heads}{doubt}"
    return FewestHeads(least, max(heads, seen), reason + words * (seen > heads))


def _seen_in_floats(dataset: Dataset, inputs: int) -> tuple[int, str]:
    """Return the heads for all examples by the dimensions that float64 sees, and how to say so."""
    dataset = dataset.filled
    grams, scale = np.zeros((2, dataset.width, dataset.width)), np.abs(dataset.contexts).max() or 1
    for _, contexts in dataset.context_chunks():
        tokens = contexts / scale
        for index, vectors in enumerate((tokens, tokens - tokens[:, :1])):
            flat = vectors.reshape(-1, dataset.width)
            grams[index] += flat.T @ flat
    sizes = np.linalg.eigvalsh(grams)
    spanned, differences = (sizes > _HAIR * sizes[:, -1:]).sum(axis=1).tolist()
    missing = inputs - spanned
    if missing <= 0 or not differences:
        return 1, ""
    return 1 + -(-missing // differences), (
        f"; but float64 sees tokens in {spanned} dimensions and differences in {differences}"
    )


@overload
def heads_needed(num_examples: int, context_size: int, head_dim: int | None = None) -> int: ...
@overload
def heads_needed(num_examples: Dataset) -> int: ...
def heads_needed(
    num_examples: int | Dataset, context_size: int | None = None, head_dim: int | None = None
) -> int:
    """Return the smallest H that holds T examples, or that the contexts of a data set allow.

    For sizes Theorem 1's if d_h is given, else Theorem 2's. For a data set the number that its
    contexts allow: no fewer heads hold it (Theorem 8), and as many do for almost all queries
    (Theorem 9).

    Args:
        num_examples: T, or a data set
        context_size: n, for a number T
        head_dim: d_h; None for rank-one heads

    Raises:
        ParameterError: where a count is not a positive integer, and for sizes with a data set
        CapacityError: where r = min(n, d_h) = 1, or no number of heads holds the data

    Example:
        >>> heads_needed(1861, context_size=32, head_dim=64)
        60
        >>> heads_needed(1862, context_size=32)
        61
        >>> from constructive import generators
        >>> heads_needed(generators.uniform(num_examples=100, context_size=8, width=16))
        7
    """
    if not isinstance(num_examples, Dataset):
        return bounds.heads_needed(num_examples, context_size, head_dim)  # type: ignore[arg-type] # checked there
    if context_size is not None or head_dim is not None:
        raise ParameterError(
            "a data set has its sizes, and every head dimension holds as much",
            witness=(context_size, head_dim),
            suggestion="heads_needed(dataset)",
        )
    return fewest_heads(num_examples).least
