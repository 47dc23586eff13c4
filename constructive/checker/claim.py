"""What a claim is, and what it is about: a new claim is a class, and a line of `command`."""

import math
from abc import ABC, abstractmethod

from .files import require


class Claim(ABC):
    """A claim of a certificate, which is checked in the evidence's own words.

    name: by which certificates call it
    statement: what it has to state, with places for the numbers which `check` returns
    of_weights: whether it is about weights, which then have to be given
    of_lengths: whether it may be about contexts of different lengths
    error: the error which it claims, if it does
    """

    of_weights, of_lengths, error = True, False, None

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
        """The numbers which it states; whatever is wrong raises."""

    def number(self, name, what):
        """A number of the evidence: finite, and not negative."""
        value = float.fromhex(self.evidence[name])
        require(0 <= value < math.inf, f"the {what} of {self.name} is not a number")
        return value

    @property
    def bound(self):
        """The number which it is about."""
        return self.number("bound", "bound")


class Bound(Claim):
    """A claim which is a number; it is shown when all claims are known."""

    def check(self, about):
        del about
        return (self.bound,)


class About(ABC):
    """What a certificate is about, read from its files.

    format: of the certificate
    """

    @property
    @abstractmethod
    def format(self): ...

    @abstractmethod
    def __init__(self, content, files, claims, options): ...

    def conclude(self, claims):
        """Check what claims show together, when each by itself is checked."""
        del claims
