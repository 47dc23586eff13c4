"""The smallest family there is: a sigmoid, largest at one end of an interval."""

from fractions import Fraction
from typing import ClassVar

import numpy as np

from constructive.instances import Answer, Atom, Box, Head, Instance, Network, Property, Witness
from constructive.instances.family import MARGIN, Family, Option
from constructive.instances.instance import Refutations
from constructive.instances.refutations import refute_by_heads


class Toy(Family):
    name = "toy"
    purpose = "one token against another"
    options: ClassVar = {"margin": MARGIN, "steep": Option(4.0, 1.0, 8.0, "the slope")}

    def thresholds(self, options):
        """Below one half, where the maximum is, and above."""
        return 0.5 - options["margin"], 0.5 + options["margin"]

    def draw(self, name, dim, random, options):
        slopes = np.zeros((2, dim))
        slopes[0] = round(options["steep"]) * random.choice([-1.0, 1.0], dim)
        network = Network((Head(slopes, np.zeros(2), np.array([[1.0], [0.0]])),))
        signs = np.sign(slopes[0])
        box = Box(np.minimum(-signs, 0.0), np.maximum(-signs, 0.0))
        letters = random.permutation(["a", "b"])
        below, above = (float(np.float32(c)) for c in self.thresholds(options))
        asked = [Property(box, ((Atom([1.0], c),),)) for c in (below, above)]
        slabs = refute_by_heads(network, box, asked[1].disjuncts[0])
        point = tuple(Fraction(0) for _ in range(dim))
        return (
            Instance(f"{name}_{letters[0]}", network, asked[0], Answer.SAT, Witness(point), "toy"),
            Instance(
                f"{name}_{letters[1]}", network, asked[1], Answer.UNSAT,
                Refutations((slabs,)), "toy",
            ),
        )  # fmt: skip
