"""`upper_bound_certificate`: what no weights of so many heads can do."""

import operator

from constructive.certificates.certificate import Certificate
from constructive.certificates.claims.impossible import AllWeights
from constructive.certificates.claims.options import CertifyOptions
from constructive.certificates.families import ALL_WEIGHTS
from constructive.data.dataset import Dataset
from constructive.data.shapes import require_examples
from constructive.support.arguments import require_positive, require_seed
from constructive.support.errors import in_three_parts


@in_three_parts
def upper_bound_certificate(dataset: Dataset, num_heads: int, *, seed: int = 0) -> Certificate:
    """Prove that no weights of H heads memorize all labellings of the examples.

    It holds wherever different examples are more than c(E; H) (Theorem 8,
    `theory.context_capacity`): for
    T > H(n - 1) + 1 examples with one shared context of rank n, for T > Hd with contexts of their
    own, and wherever tokens are few or lie in a subspace. The certificate carries the examples J to
    blame, and vectors that show what their tokens span. Else the claim *impossible* is UNDECIDED;
    where it says that contexts hold all inputs, it is false for almost all queries, by Theorem 9.

    Args:
        dataset: T examples; their targets do not matter
        num_heads: H
        seed: of the search for J; whatever it finds is a proof

    Raises:
        ParameterError: for what is not a data set, if H is not positive, and for a negative seed

    Example:
        >>> from constructive import generators
        >>> data = generators.shared_context(num_examples=8, context_size=3, width=5)
        >>> print(upper_bound_certificate(data, num_heads=3)["impossible"].statement.split(":")[0])
        for all weights of H = 3 heads rank Z <= 7 on 8 different examples
    """
    require_examples(dataset, Dataset)
    require_positive(num_heads=num_heads)
    require_seed(seed)
    weights = AllWeights(operator.index(num_heads))  # as certificates keep it
    names = tuple(ALL_WEIGHTS.available(weights))
    return ALL_WEIGHTS.prove(weights, dataset, names, CertifyOptions(seed=seed))
