"""Answers of float32 programs that are not those of real arithmetic: the family *rounding*.

In a *step* row of logits at most one slope is not zero, and it is a power of two of size one or
more. So its product with an input has no error, and every program of the model computes one number,
fl(a x + b), in whatever order and with or without fused multiply-add. Rounding is monotone, so on a
box this is between its values at the two ends, which exact arithmetic finds (Proposition 20.11).

With a large number in all logits of a head, float32 rounds them to multiples of S.

Some tokens have the logit B = 1.5 2^23 S and the value v. d others have the logits
B - gamma + s_i beta (x_i - t_i), and the value 0. Real weights see r_i = s_i beta (x_i - t_i), a
program the multiple of S that is next to it, which is 0 up to S / 2. On the box with
-3 S / 8 <= r_i <= -S / 8 the program returns one number, which the real maximum is above. On its
mirror image it returns the same number, which the real maximum is below. Where S is small the
boxes are wider: from -7 S / 16 to 7 S / 16, and from -5 S / 8 to S / 4, where the program rounds
to -S and is above the real maximum.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from constructive.instances.instance import (
    Answer,
    Deployed,
    Family,
    Instance,
    Names,
    Option,
    Refutations,
    Witness,
)
from constructive.instances.network import Head, Network
from constructive.instances.properties import Atom, Box, Property
from constructive.instances.refutations import Interval

_STEP = Option(16.0, 2.0**-4, 256.0, "distance of float32 numbers near the logits", (0.25, 256.0))
_COARSE = 4.0  # Steps from which boxes are those beside the planted point
# Ends of boxes, and what the largest computed logits are rounded to, in steps: for real answers.
_BESIDE = {Answer.SAT: (-0.375, -0.125, 0.0), Answer.UNSAT: (0.125, 0.375, 0.0)}
_AROUND = {Answer.SAT: (-0.4375, 0.4375, 0.0), Answer.UNSAT: (-0.625, 0.25, -1.0)}


class Rounding(Family):
    """Instances whose answers in real arithmetic are not those of float32 programs."""

    name = "rounding"
    purpose = "real arithmetic and float32 programs have different answers"
    options = MappingProxyType({"step": _STEP})

    def draw(
        self, names: Names, dim: int, random: np.random.Generator, options: Mapping[str, float]
    ) -> list[Instance]:
        """Draw a network and boxes, with thresholds between real and computed maxima."""
        step = 2.0 ** round(math.log2(options["step"]))
        beta = max(step, 1.0)
        point, signs = random.integers(-2, 3, dim).astype(float), random.choice([-1.0, 1.0], dim)
        gamma = step * round(math.log(dim) / step)
        tops = max(1, round(dim * math.exp(-gamma)))
        level = 1.5 * 2.0**23 * step
        slopes = np.vstack([np.zeros((tops, dim)), beta * np.diag(signs)])
        offsets = np.append(np.full(tops, level), level - gamma - beta * signs * point)
        value = round(64.0 * 2.0 ** random.uniform(-1.0, 1.0)) / 64.0
        values = np.repeat([[value], [0.0]], [tops, dim], axis=0)
        network = Network((Head(slopes, offsets, values),))

        def height(steps: float) -> float:
            """The output where all r_i are so many S."""
            return float(value / (1.0 + dim * math.exp(steps * step - gamma) / tops))

        made = []
        for name, answer in names.items():
            low, high, rounded = (_AROUND if step < _COARSE else _BESIDE)[answer]
            ends = np.array([[low], [high]]) * signs * (step / beta) + point
            real, computed, share = height(low), height(rounded), random.uniform(0.375, 0.625)
            threshold = float(np.float32(real + share * (computed - real)))
            wanted = Property(Box(*np.sort(ends, axis=0)), ((Atom(np.ones(1), threshold),),))
            lowest = Witness(tuple(map(Fraction, ends[0].tolist())))  # where all r_i are least
            is_sat = answer is Answer.SAT
            made.append(
                Instance(
                    name, network, wanted, answer,
                    lowest if is_sat else Refutations((Interval(0),)), self.name,
                    float32=Deployed(Answer.UNSAT) if is_sat else Deployed(Answer.SAT, lowest),
                )
            )  # fmt: skip
        return made
