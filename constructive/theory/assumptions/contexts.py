"""Assumption 2, exactly: which contexts have rank n, and the dependency of those that do not."""

from dataclasses import dataclass

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import dyadic
from constructive.exact.dyadic import Dependency
from constructive.support.arguments import require_seed
from constructive.support.progress import report


@dataclass(frozen=True)
class DependentContext:
    """An example whose tokens are dependent, and how.

    Attributes:
        example: its index; 0 for a shared context
        tokens: which of its tokens are dependent, with exact coefficients
    """

    example: int
    tokens: Dependency


def dependent_contexts(dataset: Dataset, *, seed: int = 0) -> tuple[DependentContext, ...]:
    """Return every context of rank below n, decided exactly, with a dependency of its tokens.

    A context counts as what its floats are, however near it is to another.

    Args:
        dataset: T examples, contexts (T, n, d) or one shared (n, d)
        seed: of random choices on the way to exact ranks; any seed finds the same

    Raises:
        ParameterError: for a negative seed

    Example:
        >>> contexts = [[[1, 0], [1, 1e-17]], [[1, 0.1], [2, 0.2]]]
        >>> [(found.example, str(found.tokens)) for found in dependent_contexts(
        ...     Dataset(contexts, queries=[[1, 0], [0, 1]], targets=[0, 0]))]
        [(1, '[0] - 1/2 [1] = 0')]
    """
    require_seed(seed)
    rng = np.random.default_rng(seed)
    found = []
    for rows, contexts in dataset.context_chunks():
        for index in np.flatnonzero(~dyadic.independent(contexts, rng)).tolist():
            dependency = dyadic.dependency(contexts[index])
            if dependency is not None:
                found.append(DependentContext(rows.start + index, dependency))
        report("ranks of contexts", rows.stop, dataset.num_examples)
    return tuple(found)
