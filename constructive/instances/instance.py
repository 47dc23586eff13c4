"""An instance for verifiers: a network, a property, the answer, and its proof."""

import enum
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from constructive.instances.network import Network
from constructive.instances.proof import Refutations, Witness
from constructive.instances.properties import Property
from constructive.instances.rounding import property_rounding
from constructive.support.errors import ParameterError


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
        if not self.margin >= 2.0 * self.rounding:
            raise ParameterError(
                f"{self.name} has no proof with a margin of twice the bound of rounding",
                witness={"margin": self.margin, "rounding": self.rounding},
                suggestion="a larger margin, a smaller scale or a smaller box",
            )

    @cached_property
    def margin(self) -> float:
        """A lower bound of the distance from the threshold, which the proof shows in balls."""
        return self.proof.margin(self.network, self.property)

    @cached_property
    def rounding(self) -> float:
        """A bound of what float32 evaluations of its atoms are off by (`rounding.MODEL`)."""
        return property_rounding(self.network, self.property)

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
