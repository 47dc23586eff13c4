"""`ClaimKind`: what a kind of claim has to say of itself, and the `Subject` that it is judged on.

A new kind is a file with a subclass, a line in `registry`, and its check in the checker.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from constructive.certificates.claims.options import CertifyOptions
from constructive.support.errors import PrecisionError
from constructive.support.verdict import Claim, Verdict

Weights = TypeVar("Weights")
Data = TypeVar("Data")
Shared = TypeVar("Shared")


@dataclass(frozen=True, eq=False)
class Subject(Generic[Weights, Data]):
    """Weights and data that claims are judged on, with the options of `certify`."""

    weights: Weights  # a memorizer, a decoder, a sequence memorizer, or all weights of some heads
    data: Data  # of the type that such weights have
    options: CertifyOptions  # checked
    asked: tuple["ClaimKind", ...]  # the kinds of claims that are asked for, in their order
    fingerprints: bytes  # the SHA-256 of the data, followed by that of the weights
    rng: np.random.Generator  # of primes' points
    judged: dict[str, Claim] = field(default_factory=dict)  # the claims before this one, by name
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
    statement: ClassVar[str]  # its sentence, with places for numbers; the checker has the same one
    options: ClassVar[frozenset[str]] = frozenset()  # the fields of `CertifyOptions` that it takes
    needs_rows: ClassVar[bool] = False  # whether it needs Z, and not outputs alone
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

    def undecided(self, statement: str, failure: PrecisionError) -> Claim:
        """Return the claim, where arithmetic is not precise enough to say anything."""
        detail = f"{failure.problem}; {failure.suggestion}"
        return Claim(self.name, statement, Verdict.UNDECIDED, detail)

    @abstractmethod
    def judge(self, subject: Subject[Any, Any]) -> Claim:
        """Prove the claim, refute it, or leave it undecided."""
