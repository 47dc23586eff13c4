"""What occurs twice: inputs (one query, and one multiset of tokens), and tokens of a context."""

from collections import Counter
from hashlib import sha256
from typing import Any

import numpy as np

from constructive.data.dataset import Examples
from constructive.support.arrays import Array, Integers
from constructive.support.errors import DataError


def repeated_inputs(dataset: Examples) -> tuple[int, int] | None:
    """Return two examples that are the same input, contexts being multisets of tokens, or None.

    Example:
        >>> from constructive import Dataset
        >>> repeated_inputs(Dataset([[1, 0], [1, 1]], [[2, 3], [4, 6], [2, 3]], [5, 7, 5]))
        (0, 2)
    """
    queries = np.ascontiguousarray(dataset.queries + 0.0)  # turns -0.0 into 0.0
    as_bytes = queries.view(np.dtype((np.void, queries.dtype.itemsize * dataset.width)))
    rows: list[Any] = as_bytes.ravel().tolist()
    if len(set(rows)) == len(rows):
        return None
    times, seen = Counter(rows), dict[bytes, int]()
    for example, row in enumerate(rows):
        if times[row] == 1:
            continue
        # Of tokens a hash is kept, as all contexts together may not fit into memory.
        tokens = b"" if dataset.shared_context else _multiset(dataset, example)
        other = seen.setdefault(row + sha256(tokens).digest(), example)
        if other != example and (not tokens or tokens == _multiset(dataset, other)):
            return other, example
    return None


def different_inputs(dataset: Examples) -> Integers:
    """Return the first example of each input, contexts being multisets of tokens: ascending.

    Example:
        >>> from constructive import Dataset
        >>> different_inputs(Dataset([[1, 0], [1, 1]], [[2, 3], [4, 6], [2, 3]], [5, 7, 5]))
        array([0, 1])
    """
    return np.unique(first_of_each(dataset))


def first_of_each(dataset: Examples) -> Integers:
    """Return for each example the first with the same input, contexts being multisets: (T,).

    Example:
        >>> from constructive import Dataset
        >>> first_of_each(Dataset([[1, 0], [1, 1]], [[2, 3], [4, 6], [2, 3]], [5, 7, 5]))
        array([0, 1, 0])
    """
    _, queries = np.unique(dataset.queries + 0.0, axis=0, return_inverse=True)
    keys = [queries.reshape(-1)]
    repeated = np.unique(keys[0], return_counts=True)[1].max() > 1
    if repeated and dataset.lengths is not None:
        inputs = [_multiset(dataset, example) for example in range(dataset.num_examples)]
        number = {tokens: place for place, tokens in enumerate(inputs)}
        keys.append(np.array([number[tokens] for tokens in inputs]))
    elif repeated and not dataset.shared_context:
        multisets = np.sort(token_numbers(dataset.contexts), axis=1)
        keys.append(np.unique(multisets, axis=0, return_inverse=True)[1].reshape(-1))
    _, first, which = np.unique(
        np.stack(keys, axis=1), axis=0, return_index=True, return_inverse=True
    )
    found: Integers = first[which.reshape(-1)]
    return found


def refusal(dataset: Examples, first: int, second: int) -> DataError:
    """Return the error about two equal inputs with different targets."""
    return DataError(
        f"examples {first} and {second} are the same input with different targets "
        f"{dataset.targets[first]} and {dataset.targets[second]}: no function fits both",
        witness=(first, second),
        suggestion="drop one of the two examples",
    )


def token_numbers(contexts: Array) -> Integers:
    """Return numbers (C, n) of tokens (C, n, d), equal for equal tokens and for no others.

    Example:
        >>> token_numbers(np.array([[[1.0, 0.0], [2.0, 3.0], [1.0, -0.0]]]))
        array([[0, 1, 0]])
    """
    tokens = contexts.reshape(-1, contexts.shape[2]) + 0.0
    _, numbers = np.unique(tokens, axis=0, return_inverse=True)
    found: Integers = numbers.reshape(contexts.shape[:2])
    return found


def _multiset(dataset: Examples, example: int) -> bytes:
    """Return a context without the order of its tokens, which attention does not see.

    Of different lengths, contexts are one input where all tokens occur in the same proportions.
    """
    context = dataset.contexts[example] + 0.0
    if dataset.lengths is not None:
        tokens, counts = np.unique(context, axis=0, return_counts=True)
        context = np.repeat(tokens, counts // np.gcd.reduce(counts), axis=0)
    ordered: bytes = context[np.lexsort(context.T)].tobytes()
    return ordered
