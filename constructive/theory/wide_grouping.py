"""The claim *wide_grouping*: what Theorem 10 asks of the data, exactly.

In the order in which heads take the examples,

- the queries of each group are independent;
- no query of an earlier group is in the span of those of a later one;
- of any part J of a group the differences of tokens within contexts span |J| dimensions or more (of
  the first group, the tokens).

Queries are decided as for the claim *grouping* (`theory.grouping`), and contexts by random
differences that are independent modulo a prime (`theory.group_spans`).
"""

from typing import Any

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import modular
from constructive.support.arrays import Integers
from constructive.support.verdict import Claim, Verdict, pack
from constructive.theory.bounds import Groups
from constructive.theory.group_spans import TooNarrow, widths
from constructive.theory.grouping import RefutedError, UndecidedError, require_cover, separate

NAME = "wide_grouping"
STATEMENT = (
    "in an order of the examples, the queries of each of {} groups are independent, and no query "
    "of an earlier group is in the span of a later one; any k examples of a group have contexts "
    "whose differences of tokens, or in the first group whose tokens, span k dimensions or more"
)


def prove(dataset: Dataset, groups: Groups, order: Integers, rng: np.random.Generator) -> Claim:
    """Prove or refute the claim.

    groups: (start, stop) of consecutive examples in the order
    order: (T,), the examples in the order in which heads take them

    Example:
        >>> same = np.tile([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], (3, 1, 1))
        >>> data = Dataset(same, [[1, 0, 0], [1, 1, 0], [0, 0, 1]], np.zeros(3))
        >>> rng = np.random.default_rng(0)
        >>> prove(data, ((0, 2), (2, 3)), np.arange(3), rng).verdict.name
        'PROVED'
        >>> refuted = prove(data, ((0, 1), (1, 3)), np.arange(3), rng)
        >>> print(refuted.detail)
        the differences of tokens of 2 examples of one group span 1 dimensions
        >>> refuted.witness
        (1, 2)
    """
    statement = STATEMENT.format(len(groups))
    prime = next(modular.safe_primes())
    try:
        require_cover(dataset, groups)
        given = np.array_equal(order, np.arange(len(order)))
        taken = dataset if given else dataset.take(order)
        normals = separate(taken, groups, prime, rng, earlier=True)
        verdict, narrow = widths(taken, tuple(stop - start for start, stop in groups), rng)
        if narrow is not None:
            raise RefutedError(in_words(narrow), narrow.examples)
        if verdict is not Verdict.PROVED:
            raise UndecidedError("contexts are wide enough, but not modulo some primes")
    except RefutedError as found:
        detail = found.detail if given else f"{found.detail}, in the order of heads"
        return Claim(NAME, statement, Verdict.REFUTED, detail, _given(found.witness, order))
    except UndecidedError as found:
        return Claim(NAME, statement, Verdict.UNDECIDED, str(found))
    evidence = {
        "prime": prime,
        "order": pack(order.astype(np.int64)),
        "groups": [list(group) for group in groups],
        "normals": pack(normals.astype(np.int64) % prime),
    }
    return Claim(NAME, statement, Verdict.PROVED, f"modulo p = {prime}", evidence=evidence)


def in_words(narrow: TooNarrow) -> str:
    """Describe what is too narrow, and how."""
    what = "tokens" if narrow.tokens else "differences of tokens"
    return (
        f"the {what} of {len(narrow.examples)} examples of one group span "
        f"{narrow.dimension} dimensions"
    )


def _given(witness: Any, order: Integers) -> tuple[int, ...]:  # noqa: ANN401
    """Examples of a witness, and those of a group (start, stop) in it, as the data count them."""
    parts = [range(*part) if isinstance(part, tuple) else [part] for part in witness]
    return tuple(order[[example for part in parts for example in part]].tolist())
