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
    """Weights and data that claims are judged on, with the options of `certify`.

    Attributes:
        weights: a memorizer, a decoder, a sequence memorizer, or all weights of some heads
        data: of the type that such weights have
        options: checked
        asked: the kinds of claims that are asked for, in their order
        fingerprints: the SHA-256 of the data, followed by that of the weights
        rng: of primes' points
        judged: the claims before this one, by name
        shared: what `once` has computed, by type
    """

    weights: Weights
    data: Data
    options: CertifyOptions
    asked: tuple["ClaimKind", ...]
    fingerprints: bytes
    rng: np.random.Generator
    judged: dict[str, Claim] = field(default_factory=dict)
    shared: dict[type[Any], Any] = field(default_factory=dict)

    def once(self, kind: type[Shared], compute: Callable[[], Shared]) -> Shared:
        """Return what several claims share, computed by the first one that needs it."""
        if kind not in self.shared:
            self.shared[kind] = compute()
        found: Shared = self.shared[kind]
        return found


class ClaimKind(ABC):
    """One kind of claim.

    Attributes:
        name: by which `certify` is asked for it
        statement: its sentence, with places for numbers; the checker has the same one
        options: the fields of `CertifyOptions` that it takes
        needs_rows: whether it needs Z, and not outputs alone
        usual: whether certificates make it by default
    """

    name: ClassVar[str]
    statement: ClassVar[str]
    options: ClassVar[frozenset[str]] = frozenset()
    needs_rows: ClassVar[bool] = False
    usual: ClassVar[bool] = True

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
