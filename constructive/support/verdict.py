"""Verdicts have three values, and claims carry one each."""

import base64
import enum
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


def no_boolean(what: str, instead: str) -> TypeError:
    """Return the error for a use of something with three values as a Boolean."""
    return TypeError(f"{what} has three values; ask {instead}")


class Verdict(enum.Enum):
    """What is known of a claim. It is not a Boolean: compare with `is`.

    Example:
        >>> bool(Verdict.UNDECIDED)
        Traceback (most recent call last):
            ...
        TypeError: a verdict has three values; ask `is Verdict.PROVED` or `is Verdict.REFUTED`
        >>> Verdict.all_of([Verdict.PROVED, Verdict.UNDECIDED])
        <Verdict.UNDECIDED: 'neither was shown; the claim says what to try'>
    """

    PROVED = "the claim holds, by exact or ball arithmetic"
    REFUTED = "the claim fails; its witness shows where"
    UNDECIDED = "neither was shown; the claim says what to try"

    def __bool__(self) -> bool:
        raise no_boolean("a verdict", "`is Verdict.PROVED` or `is Verdict.REFUTED`")

    @classmethod
    def all_of(cls, verdicts: "list[Verdict]") -> "Verdict":
        """Return REFUTED if one is, else UNDECIDED if one is or there are none, else PROVED.

        Args:
            verdicts: of the claims that have to hold together
        """
        if any(verdict is cls.REFUTED for verdict in verdicts):
            return cls.REFUTED
        if not verdicts or any(verdict is cls.UNDECIDED for verdict in verdicts):
            return cls.UNDECIDED
        return cls.PROVED


Evidence = dict[str, Any]  # What a checker needs, as JSON values


@dataclass(frozen=True)
class Claim:
    """One statement about stored numbers, and what is known of it.

    It is not a Boolean: ask `proved`.

    Attributes:
        name: by which `certify` is asked for it; docs/claims.md explains all of them
        statement: what is claimed
        verdict: what is known
        detail: how it was shown, or what to try where it is undecided
        witness: for a refuted claim, the smallest evidence (indices of examples); else None
        evidence: what a checker needs, as JSON values
    """

    name: str
    statement: str
    verdict: Verdict
    detail: str
    witness: Any = None
    evidence: Evidence = field(default_factory=dict)

    @property
    def proved(self) -> bool:
        """Whether the verdict is PROVED."""
        return self.verdict is Verdict.PROVED

    def __bool__(self) -> bool:
        raise no_boolean("a claim", "its .proved")


def pack(integers: npt.ArrayLike) -> str:
    """Return integers in 0, ..., 2^32 - 1 as text: little-endian, four bytes each, base64."""
    return base64.b64encode(np.asarray(integers).astype("<u4").tobytes()).decode()
