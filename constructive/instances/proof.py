"""Proofs of answers: a witness for sat, and for unsat a refutation of each disjunct."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from flint import arb, fmpq

from constructive.exact.directed import lower
from constructive.instances.network import Network
from constructive.instances.properties import Atom, Box, Property
from constructive.support.arrays import Array


def exact_ball(value: float | Fraction) -> arb:
    """Return a ball that contains a number, at the working precision."""
    return arb(fmpq(*Fraction(value).as_integer_ratio()))


def text_of(value: float | Fraction) -> str:
    """Write a number exactly, as `fractions.Fraction` reads it.

    Example:
        >>> text_of(0.375), text_of(Fraction(1, 3)), text_of(2.0)
        ('0.375', '1/3', '2')
    """
    exact = Fraction(value)
    twos = exact.denominator.bit_length() - 1
    if exact.denominator != 1 << twos:
        return str(exact)
    sign, digits = "-" * (exact < 0), str(abs(exact.numerator) * 5**twos).rjust(twos + 1, "0")
    return f"{sign}{digits[:-twos]}.{digits[-twos:]}" if twos else f"{sign}{digits}"


@dataclass(frozen=True)
class Witness:
    """An input that meets all atoms of a disjunct.

    Attributes:
        point: x, d exact numbers, which float32 has: others are not inputs of a graph
    """

    point: tuple[Fraction, ...]

    def margin(self, network: Network, wanted: Property) -> float:
        """Return a lower bound of how far w . f(x) is above c, for the best disjunct.

        It is negative or minus infinity where the point proves nothing.

        Args:
            network: f
            wanted: the property
        """
        in_float32 = all(Fraction(float(np.float32(x))) == x for x in self.point)
        if not (in_float32 and wanted.box.contains(self.point)):
            return -float("inf")
        outputs = network.enclosed(self.point)

        def slack(atom: Atom) -> float:
            pairs = zip(atom.coefficients.tolist(), outputs, strict=True)
            return lower(sum((each * w for w, each in pairs), arb(-atom.threshold)))

        return max(min(slack(atom) for atom in atoms) for atoms in wanted.disjuncts)

    def after(self, fixed: Array) -> "Witness":
        """Return the witness of a graph with more inputs, which come first and have one value.

        Args:
            fixed: their values (m,)

        Example:
            >>> Witness((Fraction(1, 2),)).after(np.array([0.25])).point
            (Fraction(1, 4), Fraction(1, 2))
        """
        return Witness((*map(Fraction, fixed.tolist()), *self.point))

    def document(self) -> dict[str, Any]:
        """Return the entries of a proof file."""
        return {"witness": [text_of(value) for value in self.point]}


class Refutation(ABC):
    """A proof that no input of a box meets an atom. A new kind is a subclass in a file of its own.

    Attributes:
        kind: its name in proof files
        atom: the index, in its disjunct, of the atom that is refuted
    """

    kind: ClassVar[str]
    atom: int

    @abstractmethod
    def margin(self, network: Network, box: Box, atom: Atom) -> float:
        """Return a lower bound of c - w . f on the box, as far as this proves it.

        It is minus infinity where nothing is proved.

        Args:
            network: f
            box: of inputs
            atom: w . f >= c, which is refuted if the margin is positive
        """

    def after(self, fixed: Array) -> "Refutation":
        """Return the proof for a graph with more inputs, which come first and have one value.

        Args:
            fixed: their values (m,)
        """
        del fixed
        return self

    def evidence(self) -> Mapping[str, Any]:
        """Return what proof files say of it beside its kind and its atom."""
        return {}

    def document(self) -> dict[str, Any]:
        """Return its entry in the list of refutations of a proof file."""
        return {"atom": self.atom, "kind": self.kind, **self.evidence()}


@dataclass(frozen=True)
class Refutations:
    """Refutations of all disjuncts, in their order.

    Attributes:
        parts: one for each disjunct
    """

    parts: tuple[Refutation, ...]

    def margin(self, network: Network, wanted: Property) -> float:
        """Return a lower bound of c - w . f on the box, the least over all disjuncts.

        Args:
            network: f
            wanted: the property
        """
        if len(self.parts) != len(wanted.disjuncts):
            return -float("inf")
        pairs = list(zip(self.parts, wanted.disjuncts, strict=True))
        if any(not 0 <= part.atom < len(atoms) for part, atoms in pairs):
            return -float("inf")
        return min(part.margin(network, wanted.box, atoms[part.atom]) for part, atoms in pairs)

    def after(self, fixed: Array) -> "Refutations":
        """Return the proofs for a graph with more inputs, which come first and have one value.

        Args:
            fixed: their values (m,)
        """
        return Refutations(tuple(part.after(fixed) for part in self.parts))

    def document(self) -> dict[str, Any]:
        """Return the entries of a proof file."""
        return {"refutations": [part.document() for part in self.parts]}
