"""An instance for verifiers: a network, a property, the answer, and its proof.

*sat* is proved by a witness, *unsat* by a refutation of each disjunct.
"""

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from flint import arb

from constructive.exact.directed import lower
from constructive.instances.network import Network
from constructive.instances.properties import Box, Linear, Property, text_of
from constructive.instances.rounding import property_rounding
from constructive.support.errors import ParameterError


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
        """
        if not self.is_in(wanted.box):
            return -float("inf")
        outputs = network.enclosed(self.point)

        def slack(atom: Linear) -> float:
            pairs = zip(atom.coefficients.tolist(), outputs, strict=True)
            return lower(sum((each * w for w, each in pairs), arb(-atom.threshold)))

        return max(min(slack(atom) for atom in atoms) for atoms in wanted.disjuncts)

    def is_in(self, box: Box) -> bool:
        """Whether the point is in a box, and made of float32 numbers."""
        in_float32 = all(Fraction(float(np.float32(x))) == x for x in self.point)
        return in_float32 and box.contains(self.point)

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
    def margin(self, network: Network, box: Box, atom: Linear) -> float:
        """Return a lower bound of c - w . f on the box; minus infinity where nothing is proved."""

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

        These are the disjuncts of the sum of heads that the network is on the box.
        """
        heads, wanted, error = network.reduced(wanted)
        if len(self.parts) != len(wanted.disjuncts):
            return -float("inf")
        pairs = list(zip(self.parts, wanted.disjuncts, strict=True))
        if any(not 0 <= part.atom < len(atoms) for part, atoms in pairs):
            return -float("inf")
        least = min(part.margin(heads, wanted.box, atoms[part.atom]) for part, atoms in pairs)
        return math.nextafter(least - error, -math.inf) if error else least

    def document(self) -> dict[str, Any]:
        """Return the entries of a proof file."""
        return {"refutations": [part.document() for part in self.parts]}


class Answer(enum.StrEnum):
    """The two answers, as verifiers give them."""

    SAT = "sat"
    UNSAT = "unsat"


class Hardness(NamedTuple):
    """Upper bounds of the probability that one evaluation finds a witness.

    After N evaluations, restarts included, a search has entered the set with a probability of N
    times that at most. A bound is None where the hypotheses of its theorem do not hold, or where it
    says nothing.

    Attributes:
        random: of uniform random points of the box (Proposition 20.4)
        sign: of points of ascent along signs of gradients, with uniform starts and step sizes that
            are not negative and depend on neither start nor f (Proposition 20.5)
    """

    random: float | None = None
    sign: float | None = None


UNKNOWN = Hardness()  # Nothing is known of how hard an instance is


class InFloat32(ABC):
    """The answer that float32 programs give to an instance, with its proof (`deployed`)."""

    answer: Answer

    @abstractmethod
    def check(self, instance: "Instance") -> None:
        """Raise ParameterError unless both answers of the instance are proved."""

    @abstractmethod
    def rounding(self, instance: "Instance") -> float:
        """Bound what programs round beside logits."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Return its entry in a proof file."""


@dataclass(frozen=True, eq=False)
class Instance:
    """A network and a property, with a proved answer.

    Attributes:
        name: of its files; says nothing of the answer
        network: f
        property: what is asked; *sat* if an input meets it
        answer: SAT or UNSAT
        proof: a witness, or refutations
        family: the name of the family that it is from
        hardness: of finding a witness
        float32: the answer of float32 programs and its proof, where it does not follow from a
            margin of twice the bound of rounding

    Raises:
        ParameterError: if the property is not about the inputs and outputs of the network, the
            proof is not one of that answer, or proves no margin of twice the bound of rounding
    """

    name: str
    network: Network
    property: Property
    answer: Answer
    proof: Witness | Refutations
    family: str
    hardness: Hardness = UNKNOWN
    float32: InFloat32 | None = None

    def __post_init__(self) -> None:
        shape = self.network.input_dim, self.network.output_dim
        if shape != (len(self.property.box.lower), self.property.output_dim):
            raise ParameterError(
                "the property does not fit the network",
                witness=(shape, (len(self.property.box.lower), self.property.output_dim)),
                suggestion="a box of its inputs, and atoms about its outputs",
            )
        if isinstance(self.proof, Witness) != (self.answer is Answer.SAT):
            raise ParameterError(
                f"the proof of {self.name} is not one of {self.answer}",
                witness=type(self.proof).__name__,
                suggestion="Witness for SAT, Refutations for UNSAT",
            )
        if self.float32 is not None:
            self.float32.check(self)
        elif not self.margin >= 2.0 * self.rounding:
            raise ParameterError(
                f"{self.name} has no proof with a margin of twice the bound of rounding",
                witness={"margin": self.margin, "rounding": self.rounding},
                suggestion="a larger margin, a smaller scale or a smaller box",
            )

    def __repr__(self) -> str:
        asked = f"{self.network.input_dim} inputs, {self.answer} in real arithmetic"
        return f"<Instance {self.name}: {asked}, {self.deployed} in float32>"

    @cached_property
    def margin(self) -> float:
        """A lower bound of the distance from the threshold, which the proof shows in balls."""
        return self.proof.margin(self.network, self.property)

    @cached_property
    def rounding(self) -> float:
        """A bound of what float32 evaluations of its atoms are off by (`rounding.MODEL`)."""
        if self.float32 is not None:
            return self.float32.rounding(self)
        return property_rounding(self.network, self.property)

    @cached_property
    def deployed(self) -> Answer:
        """The answer of float32 programs of the model."""
        return self.answer if self.float32 is None else self.float32.answer

    @cached_property
    def network_name(self) -> str:
        """The name of the file of its network, which twins share."""
        return self.name.rpartition("_")[0] or self.name


class Twins(NamedTuple):
    """One network and two properties with opposite answers: thresholds or boxes differ.

    Attributes:
        sat: the instance with a witness
        unsat: the instance without
    """

    sat: Instance
    unsat: Instance
