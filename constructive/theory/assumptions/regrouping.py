"""Another order of the examples, where the given one does not suit the construction."""

import operator

import numpy as np

from constructive.data.dataset import Dataset
from constructive.data.shapes import require_examples
from constructive.support.arguments import require_positive, require_seed
from constructive.support.errors import CapacityError, ParameterError, shown
from constructive.support.foreign import in_three_parts
from constructive.theory.assumptions.even_groups import EvenGroups
from constructive.theory.assumptions.group_search import GroupSearch, Regrouping
from constructive.theory.assumptions.wide_groups import WideGroups
from constructive.theory.many_heads import require_heads

# By the constructions whose groups are looked for: of Theorems 1 and 2, and of Theorem 10.
SEARCHES: dict[str, type[GroupSearch]] = {"saturated": EvenGroups, "rank_one": WideGroups}


@in_three_parts
def regroup(
    dataset: Dataset, num_heads: int, *, construction: str = "saturated", seed: int = 0
) -> Regrouping:
    """Find an order of the examples that meets the conditions of the construction, and prove it.

    Args:
        dataset: T examples, contexts (T, n, d) or one shared (n, d)
        num_heads: H
        construction: "saturated" for groups of n - 1 examples, and n in the first, as Theorems 1
            and 2 have them; "rank_one" for those of Theorem 10, which may have d - 1, and d
            (`build_memorizer` looks for these itself where the given order has none)
        seed: of all random choices

    Raises:
        ParameterError: unless H is positive, for a negative seed, and another construction
        CapacityError: for more than H(n - 1) + 1 examples; of "rank_one" more than H(d - 1) + 1

    Example:
        >>> from constructive import generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5)
        >>> queries = np.round(100 * data.queries)
        >>> queries[2] = queries[0] + queries[1]  # by their places these are the first group
        >>> found = regroup(Dataset(data.contexts, queries, data.targets), num_heads=3)
        >>> found.verdict.name, len(set(found.order[:3]) & {0, 1, 2}) < 3
        ('PROVED', True)
    """
    require_examples(dataset, Dataset)
    require_positive(num_heads=num_heads)
    num_heads = operator.index(num_heads)
    require_heads(num_heads, dataset.num_examples, dataset.width)
    require_seed(seed)
    if construction not in SEARCHES:
        raise ParameterError(
            f"construction={shown(construction)} has no groups that depend on the order",
            witness=shown(construction),
            suggestion=" or ".join(map(repr, SEARCHES)),
        )
    kind = SEARCHES[construction]
    total, size = dataset.num_examples, kind.size(dataset)
    most = num_heads * (size - 1) + 1
    if total > most:
        others = {name: other.size(dataset) for name, other in SEARCHES.items()}
        larger = [name for name, each in others.items() if size < each <= dataset.width]
        ways = ["more heads", *(f"construction={name!r}" for name in larger)]
        raise CapacityError(
            f"{total} examples are more than H({kind.letter} - 1) + 1 = {most}",
            witness=total,
            suggestion="; or ".join(ways) if size > 1 else kind.least,
        )
    searching = kind(dataset, num_heads, np.random.default_rng(seed))
    return searching.given() or searching.search()
