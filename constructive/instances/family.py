"""What a family of instances is: options as data, and how one group of instances is drawn."""

import string
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from constructive.instances.instance import Answer, Instance
from constructive.support.errors import (
    ParameterError,
    refuse,
    require_positive,
    require_seed,
    shown,
)


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
