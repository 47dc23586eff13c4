"""The options of `certify`, checked once for all claims."""

import dataclasses
import math
import numbers
import operator
from concurrent.futures import Executor
from dataclasses import dataclass

from constructive.support.arguments import require_positive, require_seed
from constructive.support.errors import ParameterError, shown
from constructive.support.parallel import require_executor

MOST_BITS = 4096  # Bits after which an undecided claim stays so, by default
_FEWEST_BITS = 2


@dataclass(frozen=True)
class CertifyOptions:
    """What claims are judged with; each claim says which of these it takes."""

    epsilon: float | None = None  # the largest error that is allowed, or None for the usual one
    # the largest distance to an exact readout, or None for what can be shown
    delta: float | None = None
    max_prec: int = MOST_BITS  # bits after which an undecided claim stays so
    seed: int = 0  # of the primes' points
    model: str | None = None  # a model of `exact.float_model`, or None for the usual one
    executor: Executor | None = None  # where pieces of the work are done, or None for this process

    def checked(self) -> "CertifyOptions":
        """Return the same options with bounds and bits as Python's own numbers.

        Example:
            >>> CertifyOptions(epsilon=1).checked().epsilon
            1.0
        """
        checked = dataclasses.replace(
            self,
            epsilon=_bound("epsilon", self.epsilon),
            delta=_bound("delta", self.delta),
            max_prec=_bits(self.max_prec),
        )
        if self.executor is not None:
            require_executor(self.executor)
        require_seed(self.seed)
        return checked

    def given(self) -> dict[str, object]:
        """Return the options that are not the usual ones, by name.

        Example:
            >>> CertifyOptions(seed=3).given()
            {'seed': 3}
        """
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }


def _bits(max_prec: int) -> int:
    require_positive(max_prec=max_prec)
    if max_prec < _FEWEST_BITS:
        raise ParameterError(
            f"max_prec={max_prec} is less than balls have",
            witness=max_prec,
            suggestion="max_prec=4096",
        )
    return operator.index(max_prec)


def _bound(name: str, value: float | None) -> float | None:
    """Return a bound as a float of Python, as certificates state it."""
    if value is None:
        return None
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        bound = float(value) if real else math.nan
    except OverflowError:  # of integers and fractions
        bound = math.inf
    if not 0.0 <= bound < math.inf:
        raise ParameterError(
            f"{name}={shown(value)} is not a bound", witness=shown(value), suggestion=f"{name}=1e-6"
        )
    return bound
