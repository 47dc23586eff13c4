"""`Strategy`: a shorter proof of several claims at once."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from constructive.certificates.claims.kind import Subject
from constructive.support.verdict import Claim


class Strategy(ABC):
    """A shorter proof of several claims together, for weights that allow one.

    Attributes:
        claims: the names of those that it proves
        options: the fields of `CertifyOptions` that it takes beside those of its claims
        format: of its certificates
    """

    claims: ClassVar[tuple[str, ...]]
    options: ClassVar[frozenset[str]] = frozenset()
    format: ClassVar[str]

    @abstractmethod
    def applies(self, subject: Subject[Any, Any]) -> bool:
        """Return whether these weights allow it."""

    @abstractmethod
    def prove(self, subject: Subject[Any, Any]) -> tuple[Claim, ...] | None:
        """Return the claims, or None where each should be judged by itself after all."""
