"""What a claim is, what is said of it, and what it is about: a new one is a class, and a line."""

import math
from abc import ABC, abstractmethod
from collections import namedtuple
from contextlib import suppress

import numpy as np

from .files import require

PROVED, REFUTED, UNDECIDED = "PROVED", "REFUTED", "UNDECIDED"
# What a check raises: a requirement, or what reading evidence of other types and fields does
FAILURES = ValueError, LookupError, TypeError, AttributeError, ArithmeticError

# What a claim states, how it was shown or why not, and where it fails
Found = namedtuple("Found", "name verdict statement detail witness")
# The numbers which a statement has, and how it was shown
Shown = namedtuple("Shown", "numbers detail", defaults=[""])


class Refuted(ValueError):  # noqa: N818 - what is found, and not an error
    """A claim is false, and where that is seen. Any other ValueError leaves it undecided."""

    def __init__(self, detail, witness=None):
        super().__init__(detail)
        self.witness = witness


class Unshown(ValueError):  # noqa: N818
    """A claim is not shown, and where: who proposes may look there."""

    def __init__(self, detail, witness):
        super().__init__(detail)
        self.witness = witness


class Claim(ABC):
    """A claim of a certificate, which is checked in the evidence's own words.

    name: by which certificates call it
    statement: what it has to state, with places for the numbers which `check` returns
    unshown: what it states where these numbers are not known
    of_weights: whether it is about weights, which then have to be given
    of_lengths: whether it may be about contexts of different lengths
    error: the error which it claims, if it does
    """

    of_weights, of_lengths, error, unshown = True, False, None, None

    def __init__(self, content):
        self.evidence = content["evidence"]

    @property
    @abstractmethod
    def name(self): ...

    @property
    @abstractmethod
    def statement(self): ...

    def needs(self, about):
        """Bytes and operations of its check alone, from shapes."""
        del about
        return 0, 0

    @abstractmethod
    def check(self, about):
        """What is shown; Refuted if it is false, and any other of FAILURES if neither is known."""

    def numbers(self, about):
        """The numbers which it states, where they are known before it is checked."""
        del about
        return ()

    def judge(self, about):
        """What is known of it."""
        try:
            shown = self.check(about)
        except FAILURES as failure:
            verdict = REFUTED if isinstance(failure, Refuted) else UNDECIDED
            malformed = f"the evidence is malformed: {failure!r}"
            detail = str(failure) if isinstance(failure, ValueError) else malformed
            witness, numbers = getattr(failure, "witness", None), ()
            with suppress(*FAILURES):  # as evidence may be malformed
                numbers = self.numbers(about)
            stated = self.statement.format(*numbers) if numbers else self.unshown or self.statement
            return Found(self.name, verdict, stated, detail, witness)
        shown = shown if isinstance(shown, Shown) else Shown(shown)
        return Found(self.name, PROVED, self.statement.format(*shown.numbers), shown.detail, None)

    def number(self, name, what):
        """A number of the evidence: finite, and not negative."""
        value = float.fromhex(self.evidence[name])
        require(0 <= value < math.inf, f"the {what} of {self.name} is not a number")
        return value

    @property
    def bound(self):
        """The number which it is about."""
        return self.number("bound", "bound")


class About(ABC):
    """What a certificate is about: arrays, and what is read from its files.

    format: of the certificate
    solves: whether an elimination for *rank* solves, too, for who proposes what it eliminates
    solution: what it found, in evidence of files
    """

    solves, solution = False, np.empty((0, 0))

    @property
    @abstractmethod
    def format(self): ...

    @classmethod
    def read(cls, content, files, claims, options):
        """What these files hold, which have to be what the certificate says."""
        return cls(content, files, claims, options)
