"""How many examples no weights memorize: bounds of rank Z which hold for all of them.

*Theorem 3.* Let all tokens of all contexts span k dimensions, and let some x have e.x = 1 for every
one of them. Then rank Z <= H(k - 1) + 1 for all weights.
*Proof.* Attention weights add up to one, so every row of every block Z_h is an average of tokens:
Z_h x is the all-one vector, for every head. So for h = 2, ..., H the vector with x at the first
head and -x at head h is in the null space of Z, and so is every vector with some v orthogonal to
all tokens at one head: d - k dimensions for each head. No nonzero combination of the x at two
heads is of the second kind, so the null space has at least H - 1 + H(d - k) dimensions, and rank
Z <= Hd - H + 1 - Hd + Hk. QED

A shared context of rank n is the case k = n: E x = 1 has a solution. Tokens with a constant entry
are another, and so are tokens of a vocabulary of at most d. Without such an x the same proof gives
rank Z <= Hk; and where n = 1, all heads agree and rank Z <= k.
"""

from fractions import Fraction

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import dyadic
from constructive.support.arrays import Array


def token_space(dataset: Dataset) -> tuple[int, tuple[Fraction, ...] | None]:
    """The number k of dimensions which all tokens span, and x with e.x = 1 for all tokens, or None.

    Example:
        >>> token_space(Dataset([[1, 0, 0], [0, 2, 0]], queries=[[1, 2, 3]], targets=[0]))
        (2, (Fraction(1, 1), Fraction(1, 2), Fraction(0, 1)))
    """
    tokens = _distinct_tokens(dataset)
    width = dataset.width
    # v = (x, -1) with (e, 1).v = 0
    basis = dyadic.kernel(np.hstack([tokens, np.ones((len(tokens), 1))])).tolist()
    columns = [[int(x) for x in column] for column in zip(*basis, strict=True)]
    through = next((column for column in columns if column[-1]), None)
    if through is None:
        return width - len(columns), None
    solution = tuple(Fraction(-x, through[-1]) for x in through[:-1])
    return width - len(columns) + 1, solution


def rank_upper_bound(dataset: Dataset, num_heads: int) -> tuple[int, str]:
    """A number which no weights of H heads raise rank Z above, and why: proved.

    Example:
        >>> from constructive import generators
        >>> shared = generators.shared_context(num_examples=9, context_size=3, width=5)
        >>> rank_upper_bound(shared, num_heads=2)
        (5, 'H(k - 1) + 1: all tokens lie on a hyperplane, and span k = 3 dimensions')
    """
    return least_bound(dataset, num_heads, *token_space(dataset))


def least_bound(
    dataset: Dataset, num_heads: int, spanned: int, solution: tuple[Fraction, ...] | None
) -> tuple[int, str]:
    """The least of all bounds, and why it holds; for k and x of `token_space`."""
    bounds = [(dataset.num_examples, "T examples")]
    inputs, held = _distinct_inputs(dataset, num_heads * (dataset.context_size - 1) + 1)
    if inputs < dataset.num_examples:
        bounds.append((inputs, "different inputs"))
    if dataset.context_size == 1:
        bounds.append((spanned, f"n = 1, so all heads agree, and tokens span k = {spanned}"))
    elif solution is not None:
        why = f"H(k - 1) + 1: all tokens lie on a hyperplane, and span k = {spanned} dimensions"
        bounds.append((num_heads * (spanned - 1) + 1, why))
    else:
        bounds.append((num_heads * spanned, f"Hk: all tokens span k = {spanned} dimensions"))
    bounds.append((held, "at most H(n - 1) + 1 for each of the different contexts"))
    return min(bounds, key=lambda bound: bound[0])


def _distinct_tokens(dataset: Dataset) -> Array:
    tokens = dataset.contexts.reshape(-1, dataset.width) + 0.0
    return tokens if dataset.shared_context else np.unique(tokens, axis=0)


def _distinct_inputs(dataset: Dataset, most: int) -> tuple[int, int]:
    """The number of different inputs; and that with at most so many for each different context.

    Contexts count as multisets of tokens.
    """
    _, queries = np.unique(dataset.queries + 0.0, axis=0, return_inverse=True)
    contexts = np.zeros_like(queries.ravel())
    if not dataset.shared_context:
        tokens = dataset.contexts.reshape(-1, dataset.width) + 0.0
        _, token_ids = np.unique(tokens, axis=0, return_inverse=True)
        multisets = np.sort(token_ids.reshape(dataset.num_examples, -1), axis=1)
        _, contexts = np.unique(multisets, axis=0, return_inverse=True)
    inputs = np.unique(np.stack([contexts.ravel(), queries.ravel()], axis=1), axis=0)
    counts = np.bincount(inputs[:, 0])
    return len(inputs), int(np.minimum(counts, most).sum())
