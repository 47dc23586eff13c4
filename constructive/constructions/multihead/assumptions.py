"""Step 1. What the theorem asks of the data, checked in floating point (proofs/1).

Of the queries the construction needs less than Assumption 1, group by group; `grouping` and `heads`
check that. This step checks the contexts (Assumption 2: every one has rank n), and that no input
occurs twice. Contexts are compared as multisets of tokens, because attention does not see their
order.

Ranks are numerical here: a context counts as rank-deficient when, after its tokens are scaled to
length one, its smallest singular value is below `RANK_TOLERANCE` times its largest.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from constructive.data.dataset import Dataset, refusal, repeated_inputs
from constructive.support.arrays import Array, unit_rows
from constructive.support.errors import AssumptionError, DataError
from constructive.support.work import in_pieces
from constructive.theory.kruskal import dependency, describe_dependency

# A Gram matrix loses half the digits, so distances below this are decided by singular values.
LOOK_CLOSER = 1e-6


# Length of a token below which its products are not normal numbers: a Gram matrix says nothing.
_TINY = 1e-150

# Largest entry of contexts or queries; squares and products with weights stay within float64.
_LARGEST = 1e100

# Largest target: readouts are larger, by the inverse of what float64 rounds to at most.
_LARGEST_TARGET = 1e290


def repeated(dataset: Dataset) -> AssumptionError | None:
    """Return why the inputs are not memorized by any weights, or None: one of them occurs twice.

    Raises DataError for equal inputs with different targets (witness: the two examples), for
    contexts or queries whose largest entry is beyond 1e100 or below 1e-100, and for targets beyond
    1e290.
    """
    target = max(float(dataset.targets.max()), -float(dataset.targets.min()))
    if target > _LARGEST_TARGET:
        raise DataError(
            f"the largest target is {target:.1e}, and its readouts would be beyond float64",
            witness=target,
            suggestion=f"targets up to {_LARGEST_TARGET:.0e}, such as these divided by 2^100",
        )
    queries = max(float(dataset.queries.max()), -float(dataset.queries.min()))
    for name, largest in (("contexts", dataset.largest_token_entry), ("queries", queries)):
        _check_scale(name, largest)
    pair = repeated_inputs(dataset)
    return None if pair is None else _repeated(dataset, *pair)


def _check_scale(name: str, largest: float) -> None:
    """Refuse data whose products with the weights would leave the range of float64."""
    if not 1.0 / _LARGEST <= largest <= _LARGEST:
        message = f"the largest entry of {name} is {largest:.1e}, outside 1e-100 to 1e100"
        if largest == 0:
            suggestion = f"{name} which are not all zero"
        else:
            suggestion = f"multiply {name} by 1e{-round(np.log10(largest)):+03d}"
        raise DataError(message, witness=largest, suggestion=suggestion)


def context_ranks(dataset: Dataset) -> float | AssumptionError:
    """Return the least distance of a unit token to the span of the tokens before it.

    That is over all contexts. Returns an AssumptionError for one of rank below n.
    """
    least = float("inf")
    operations = float(dataset.contexts.size) * dataset.context_size
    for found in in_pieces(
        lambda chunk: least_distance(*chunk), dataset.context_chunks(), operations
    ):
        if isinstance(found, AssumptionError):
            return found
        least = min(least, found)
    return least


def least_distance(rows: slice, contexts: Array) -> float | AssumptionError:
    """Return the least distance of a token in the contexts (rows, n, d) of some examples.

    Returns an AssumptionError for a context of rank below n (witness: the example and its dependent
    tokens).
    """
    with np.errstate(all="ignore"):  # zero or tiny tokens: decided below
        gram = contexts @ contexts.transpose(0, 2, 1)
        lengths = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
        try:
            # Entry (i, i) of the Cholesky factor is the distance of token i to the span before it;
            # scaling tokens would scale rows of the factor, and round no more.
            factor = np.linalg.cholesky(gram)
            distances = (np.diagonal(factor, axis1=1, axis2=2) / lengths).min(axis=1)
        except np.linalg.LinAlgError:
            values = [np.linalg.svd(unit_rows(each)[1], compute_uv=False) for each in contexts]
            distances = np.array([each[-1] for each in values])  # the smallest singular values
    distances[~((lengths.min(axis=1) > _TINY) & (distances > 0.0))] = (
        0.0  # also what is not a number
    )
    for index in np.flatnonzero(distances < LOOK_CLOSER):
        rank, coefficients = dependency(contexts[index])
        size = contexts.shape[1]
        if rank < size:
            tokens, words = describe_dependency(list(range(size)), coefficients)
            example = rows.start + int(index)
            message = (
                f"the context of example {example} has rank {rank} (numerically); "
                f"Assumption 2 needs rank n={size}"
            )
            return AssumptionError(
                message,
                witness=f"example {example}, tokens {tokens}: {words}",
                suggestion="add a positional encoding, drop repeated tokens, or drop the example",
            )
    return float(distances.min())


def _repeated(dataset: Dataset, first: int, second: int) -> AssumptionError:
    targets = dataset.targets[first], dataset.targets[second]
    if np.array_equal(*targets):
        message = f"examples {first} and {second} are the same input, so rank Z < T for all weights"
        suggestion = (
            f"dataset.distinct(), or drop example {second}; its target {targets[1]} will be "
            "memorized all the same"
        )
        return AssumptionError(message, witness=(first, second), suggestion=suggestion)
    raise refusal(dataset, first, second)


@dataclass(frozen=True)
class Survey:
    """Facts about T examples, each computed when it is first asked for, and then kept."""

    dataset: Dataset

    @cached_property
    def repeated(self) -> AssumptionError | None:
        """An error if an input occurs twice, as one output cannot be two targets; else None.

        Raises DataError for equal inputs with different targets, and for numbers that are too large
        or too small for float64.
        """
        return repeated(self.dataset)

    @cached_property
    def contexts(self) -> float | AssumptionError:
        """Return `context_ranks`, unless inputs are repeated."""
        return self.repeated or context_ranks(self.dataset)
