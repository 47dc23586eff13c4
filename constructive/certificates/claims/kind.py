"""`ClaimKind`: what a kind of claim says of itself, the `Subject` it is judged on, and options.

docs/contributing.md has the steps that add one.
"""

import dataclasses
import math
import numbers
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from constructive.support.errors import (
    ParameterError,
    require_positive,
    require_seed,
    shown,
)
from constructive.support.verdict import Claim

MOST_BITS = 4096  # Bits after which an undecided claim stays so, by default
_FEWEST_BITS = 2


@dataclass(frozen=True)
class CertifyOptions:
    """What claims are judged with; each claim says which of these it takes."""

    epsilon: float | None = None  # the largest error that is allowed, or None for the usual one
    max_prec: int = MOST_BITS  # bits after which an undecided claim stays so
    seed: int = 0  # of the primes' points
    model: str | None = None  # a model of `checker.MODELS`, or None for the usual one

    def checked(self) -> "CertifyOptions":
        """Return the same options with bounds and bits as Python's own numbers."""
        require_positive(max_prec=self.max_prec)
        if self.max_prec < _FEWEST_BITS:
            raise ParameterError(
                f"max_prec={self.max_prec} is less than balls have",
                witness=self.max_prec,
                suggestion="max_prec=4096",
            )
        require_seed(self.seed)
        return dataclasses.replace(
            self,
            epsilon=_bound("epsilon", self.epsilon),
            max_prec=operator.index(self.max_prec),
        )

    def given(self) -> dict[str, object]:
        """Return the options that are not the usual ones, by name."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }


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


Weights = TypeVar("Weights")
Data = TypeVar("Data")
Shared = TypeVar("Shared")


@dataclass(frozen=True, eq=False)
class Subject(Generic[Weights, Data]):
    """Weights and data that claims are judged on, with the options of `certify`."""

    weights: Weights  # a memorizer, a decoder, a sequence memorizer, or all weights of some heads
    data: Data  # of the type that such weights have
    options: CertifyOptions  # checked
    fingerprints: bytes  # the SHA-256 of the data, followed by that of the weights
    rng: np.random.Generator  # of primes' points
    shared: dict[type[Any], Any] = field(default_factory=dict)  # what `once` has computed, by type

    def once(self, kind: type[Shared], compute: Callable[[], Shared]) -> Shared:
        """Return what several claims share, computed by the first one that needs it."""
        if kind not in self.shared:
            self.shared[kind] = compute()
        found: Shared = self.shared[kind]
        return found


class ClaimKind(ABC):
    """One kind of claim."""

    name: ClassVar[str]  # by which `certify` is asked for it
    options: ClassVar[frozenset[str]] = frozenset()  # the fields of `CertifyOptions` that it takes
    usual: ClassVar[bool] = True  # whether certificates make it by default

    def applies(self, weights: Any) -> bool:  # noqa: ANN401, ARG002 - weights of any kind
        """Return whether there is such a claim about these weights."""
        return True

    def is_usual(self, weights: Any) -> bool:  # noqa: ANN401, ARG002 - as above
        """Return whether certificates of such weights make the claim by default."""
        return self.usual

    def require_options(  # noqa: B027 - most claims take any
        self,
        weights: Any,  # noqa: ANN401 - weights of any kind
        options: CertifyOptions,
    ) -> None:
        """Raise ParameterError, before any work, for options that these weights cannot have."""

    @abstractmethod
    def judge(self, subject: Subject[Any, Any]) -> Claim:
        """Prove the claim, refute it, or leave it undecided."""
