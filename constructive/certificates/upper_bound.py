"""`upper_bound_certificate`: what no weights of so many heads can do."""

import operator

from constructive.certificates.about import data_arrays, described, made_by
from constructive.certificates.certificate import Certificate
from constructive.certificates.claims import impossible
from constructive.data.dataset import Dataset
from constructive.support.arguments import require_positive


def upper_bound_certificate(dataset: Dataset, num_heads: int) -> Certificate:
    """Prove that no weights of H heads memorize all labellings of the examples.

    It holds for every T > H(n - 1) + 1 examples with one shared context of rank n, and wherever
    all tokens lie on a hyperplane: the certificate carries x with e.x = 1 for every token, which
    gives H - 1 null vectors of Z whatever the weights are (Theorem 3, `theory.upper_bounds`). The
    claim *impossible* is UNDECIDED where that does not prove it.

    Args:
        dataset: T examples; their targets do not matter
        num_heads: H

    Raises:
        ParameterError: if H is not positive

    Example:
        >>> from constructive import generators
        >>> data = generators.shared_context(num_examples=8, context_size=3, width=5)
        >>> print(upper_bound_certificate(data, num_heads=3)["impossible"].statement)
        rank Z <= 7 < T = 8 for all weights of H = 3 heads: none memorize every labelling
    """
    require_positive(num_heads=num_heads)
    num_heads = operator.index(num_heads)  # as certificates keep it
    return Certificate(
        claims=(impossible.prove(dataset, num_heads),),
        data=described(data_arrays(dataset)),
        weights=described({}),
        made_by=made_by(),
    )
