"""Token mixing: a layer before the heads that makes Assumption 1 hold where all queries are equal.

One self-attention layer with zero query and key weights, identity value and output and a skip
connection attends uniformly, so it sends every token x of a context E to x + mean(E); and the
query e, which attends to the context as well, to e + mean(E).

*Contexts keep their rank.* The mixed context is (I + 11^T/n) E, and I + 11^T/n has the eigenvalues
1 and 2. QED

Equal queries become different as soon as the means differ. With one shared context they stay
equal, and nothing helps: the inputs themselves are equal.

Source: Mahdavi, Liao and Thrampoulidis (ICLR 2024), the remark on token mixing; the formulation and
the proof are ours.
"""

import numpy as np

from constructive.data.dataset import Dataset, owning
from constructive.data.shapes import require_examples
from constructive.support.arrays import Array, first_place
from constructive.support.errors import AssumptionError, DataError, in_three_parts


@in_three_parts
def token_mixing(dataset: Dataset) -> Dataset:
    """Add the mean of its context to every token and query, as one layer of attention does.

    The result is the stored data set: sums are rounded to its floats, and all that is proved of it
    afterwards (`assumptions.check`, `certify`) is exact for these floats. Targets stay as they are.

    Args:
        dataset: T examples, contexts (T, n, d) or one shared (n, d)

    Raises:
        AssumptionError: for a shared context with equal queries, which no mixing can tell apart
        DataError: if the sums overflow

    Example:
        >>> from constructive import build_memorizer, generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5)
        >>> same = Dataset(data.contexts, np.ones((7, 5)), data.targets)  # a class token, say
        >>> mixed = token_mixing(same)
        >>> build_memorizer(mixed, num_heads=3).max_error(mixed) < 1e-9
        True
    """
    require_examples(dataset, Dataset)
    if dataset.shared_context:
        _, first, counts = np.unique(
            dataset.queries + 0.0, axis=0, return_index=True, return_counts=True
        )
        if (counts > 1).any():
            example = int(first[counts.argmax()])
            others = np.flatnonzero((dataset.queries == dataset.queries[example]).all(axis=1))
            raise AssumptionError(
                f"{len(others)} examples with the shared context have one query, and stay equal",
                witness=tuple(others[:8].tolist()),
                suggestion="own contexts, or one example for each query",
            )
    with np.errstate(over="ignore"):
        means = dataset.contexts.mean(axis=-2, dtype=np.float64)
        contexts = dataset.contexts + means[..., np.newaxis, :]
        queries = dataset.queries + means
    kind = dataset.queries.dtype
    mixed = _finite(contexts, kind), _finite(queries, kind)
    return owning(*mixed, dataset.targets, dataset.classes)


def _finite(array: Array, kind: np.dtype[np.floating]) -> Array:
    with np.errstate(over="ignore"):
        stored: Array = array.astype(kind)
    if not np.isfinite(stored).all():
        raise DataError(
            "sums of tokens leave the range of floats",
            witness=first_place(~np.isfinite(stored)),
            suggestion="data scaled to size one",
        )
    return stored
