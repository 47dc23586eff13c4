"""Instances for verifiers: a network, a property, the answer and its proof; and families of them.

*sat* is proved by a witness, *unsat* by a refutation of each disjunct. Families
propose these; what they show is for the checker to say (`constructive.checker.instances`).
"""

import enum
import math
import string
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Real
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from constructive.checker import instances as checker
from constructive.checker.properties import read_property
from constructive.checker.ranges import MODEL as OPERATORS
from constructive.exact.formats import FLOAT32
from constructive.instances.graphs import AnyNetwork, OperatorGraph, graph_of
from constructive.instances.properties import Property, text_of, version_1
from constructive.support.errors import (
    ParameterError,
    refuse,
    require_positive,
    require_seed,
    shown,
)

FORMAT = checker.FORMAT


@dataclass(frozen=True)
class Witness:
    """An input that meets all atoms of a disjunct.

    Attributes:
        point: x, d exact numbers, which float32 has: others are not inputs of a graph
    """

    point: tuple[Fraction, ...]

    def document(self) -> dict[str, object]:
        """Return the entries of a proof file."""
        return {"witness": [text_of(value) for value in self.point]}


class Refutation(ABC):
    """A proof that no input of a box meets an atom. A new kind is a function of the checker.

    Attributes:
        kind: its name in proof files
        atom: the index, in its disjunct, of the atom that is refuted
    """

    kind: ClassVar[str]
    atom: int

    def evidence(self) -> Mapping[str, object]:
        """Return what proof files say of it beside its kind and its atom."""
        return {}

    def document(self) -> dict[str, object]:
        """Return its entry in the list of refutations of a proof file."""
        return {"atom": self.atom, "kind": self.kind, **self.evidence()}


@dataclass(frozen=True)
class Refutations:
    """Refutations of all disjuncts, in their order.

    Attributes:
        parts: one for each disjunct; of a network with a readout, for each piece of each
    """

    parts: tuple[Refutation, ...]

    def document(self) -> dict[str, object]:
        """Return the entries of a proof file."""
        return {"refutations": [part.document() for part in self.parts]}


class Answer(enum.StrEnum):
    """The two answers, as verifiers give them."""

    SAT = "sat"
    UNSAT = "unsat"


@dataclass(frozen=True)
class Deployed:
    """The answer of every float32 program of the model: by a point, or on the whole box."""

    answer: Answer
    witness: Witness | None = None  # of sat

    def document(self) -> dict[str, object]:
        """Return its entry in a proof file."""
        evidence = self.witness.document() if self.witness else {}
        return {"answer": str(self.answer), **evidence}


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
        float32: the answer of float32 programs and its proof, where it does not follow from a
            margin of twice the bound of rounding
        style: how its property is written (`properties.STYLES`)

    Raises:
        ParameterError: if the property is not about the inputs and outputs of the network, or the
            checker does not prove the answer from the proof, by a margin of twice the bound of
            rounding
    """

    name: str
    network: AnyNetwork
    property: Property
    answer: Answer
    proof: Witness | Refutations
    family: str
    float32: Deployed | None = None
    style: int = 0

    def __post_init__(self) -> None:
        shape = self.network.input_dim, self.network.output_dim
        if shape != (len(self.property.box.lower), self.property.output_dim):
            raise ParameterError(
                "the property does not fit the network",
                witness=(shape, (len(self.property.box.lower), self.property.output_dim)),
                suggestion="a box of its inputs, and atoms about its outputs",
            )
        try:
            _ = self._shown
        except ValueError as error:
            raise ParameterError(
                f"{self.name} has no proof that it is {self.answer}: {error}",
                witness=self.name,
                suggestion="another proof, a larger margin, a smaller scale or a smaller box",
            ) from error

    def __repr__(self) -> str:
        asked = f"{self.network.input_dim} inputs, {self.answer} in real arithmetic"
        return f"<Instance {self.name}: {asked}, {self.deployed} in float32>"

    @cached_property
    def _shown(self) -> checker.Shown:
        """What the checker says of the proof."""
        wanted = read_property(version_1(self.property).encode(), "vnnlib")
        shown: checker.Shown = checker.judge(self.claims(), graph_of(self.network), wanted, ())
        return shown

    def claims(self) -> dict[str, object]:
        """Return what its proof file says, but for hashes and a bound of rounding that is found."""
        operators = isinstance(self.network, OperatorGraph)
        return {
            "format": FORMAT,
            "answer": str(self.answer),
            "model": OPERATORS if operators else FLOAT32,
            **({} if operators else {"rounding": "0"}),
            **self.proof.document(),
            **({"float32": self.float32.document()} if self.float32 else {}),
        }

    @cached_property
    def margin(self) -> float:
        """A lower bound of the distance from the threshold, which the checker proved."""
        exact: Fraction = self._shown.margin
        near = float(exact)
        return near if Fraction(near) <= exact else math.nextafter(near, -math.inf)

    @cached_property
    def rounding(self) -> float:
        """A bound of what float32 programs are off by, beside the margin; 0 where that has it."""
        exact: Fraction = self._shown.rounding
        near = float(exact)
        return near if Fraction(near) >= exact else math.nextafter(near, math.inf)

    @cached_property
    def deployed(self) -> Answer:
        """The answer of float32 programs of the model."""
        return Answer(self._shown.deployed)

    @cached_property
    def network_name(self) -> str:
        """The name of the file of its network, which other instances may have."""
        return self.name.rpartition("_")[0] or self.name


class Twins(NamedTuple):
    """One network and two properties with opposite answers: thresholds or boxes differ.

    Attributes:
        sat: the instance with a witness
        unsat: the instance without
    """

    sat: Instance
    unsat: Instance


# What a family of instances is: options as data, and how one group of instances is drawn.


@dataclass(frozen=True)
class Option:
    """A number that a family takes.

    Attributes:
        default: its value if none is given
        least: the smallest value
        most: the largest value
        meaning: of the option, in words
        drawn: the range that it is drawn from, for many instances; None for the default
        whole: whether it is a whole number
    """

    default: float
    least: float
    most: float
    meaning: str
    drawn: tuple[float, float] | None = None
    whole: bool = False

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, Real):
            return False
        number: Any = value  # Real has no comparisons for mypy
        inside = self.least <= number <= self.most
        return bool(inside and (not self.whole or number == round(number)))

    @property
    def range(self) -> str:
        """The values that it takes, in words."""
        return f"{'whole numbers ' * self.whole}from {self.least:g} to {self.most:g}"


LETTERS = string.ascii_lowercase
TWINS = (Answer.SAT, Answer.UNSAT)
Names = Mapping[str, Answer]
DIM = Option(2, 1, 10_000, "inputs", whole=True)
MARGIN = Option(0.05, 1e-3, 10.0, "distance of thresholds from the maximum")


class Family(ABC):
    """A kind of instances. A new one is a subclass, and a name in `making.FAMILIES`.

    The laws, which `check_family` tests: the same seed gives the same instances; all instances of a
    group have one network, and the answers that were asked for; every answer has a proof with a
    margin of twice the bound of rounding; and options that are not listed, or are out of their
    range, are refused.

    Attributes:
        name: as `--kind` takes it
        purpose: what it tests, in words
        options: numbers that it takes, by name
    """

    name: ClassVar[str]
    purpose: ClassVar[str]
    options: ClassVar[Mapping[str, Option]] = MappingProxyType({"margin": MARGIN})

    @abstractmethod
    def draw(
        self, names: Names, dim: int, random: np.random.Generator, options: Mapping[str, float]
    ) -> list[Instance]:
        """Draw a group of instances on one network, with proofs.

        Args:
            names: of the instances, with the answer that each is to have
            dim: d, the number of inputs
            random: of all that is drawn
            options: a value for each of the options of the family

        Raises:
            ParameterError: where no proof is found with these options
        """

    def make(
        self,
        dim: int,
        *,
        seed: int = 0,
        name: str | None = None,
        answers: Sequence[Answer] = TWINS,
        **options: float,
    ) -> list[Instance]:
        """Check what was given, and draw a group of instances.

        Args:
            dim: d, the number of inputs
            seed: of all that is drawn
            name: of the group; by default the name of the family. Instances are NAME_a, NAME_b ..
            answers: one for each instance of the group
            options: values of options; others have their defaults

        Raises:
            ParameterError: for options that the family does not take, or that are out of their
                range
        """
        require_positive(dim=dim)
        require_seed(seed)
        known = {"dim": DIM, **self.options}
        for option, value in {"dim": dim, **options}.items():
            if option not in known:
                raise refuse({f"{option}=": value}, f"the family {self.name}", [*self.options])
            if value not in known[option]:
                raise ParameterError(
                    f"{option}={shown(value)} is not in the range of the family {self.name}",
                    witness=shown(value),
                    suggestion=known[option].range,
                )
        chosen = {option: each.default for option, each in self.options.items()}
        chosen |= {option: float(value) for option, value in options.items()}
        names = {
            f"{name or self.name}_{letter}": answer
            for letter, answer in zip(LETTERS, answers, strict=False)
        }
        return self.draw(names, dim, np.random.default_rng(seed), chosen)
