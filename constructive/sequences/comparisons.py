"""Comparisons with an integer, as steps of programs: the two kinds, and what is made of them.

*Lemma (a comparison).* For integers r and t, relu(r - t + 1) - relu(r - t) is 1 if r >= t, else 0;
and so is 1 - relu(1 - relu(3 (r - t) + 2)), for all r within 1/3 of an integer.
*Proof.* If r >= t, the first is (r - t + 1) - (r - t) = 1, and in the second r - t >= -1/3, so that
the inner relu is at least 1 and the outer one is 0. If r < t, all of r - t + 1 <= 0 and r - t < 0:
the first is 0; and r - t <= -2/3 in the second, which is 1 - relu(1 - 0) = 0. QED

*Lemma (remainders).* If 0 <= r < q 2^J, subtracting q 2^j where r >= q 2^j, for j = J - 1, ..., 0,
leaves r mod q. *Proof.* After step j, 0 <= r < q 2^j, and r has changed by a multiple of q. QED

*Lemma (rounding).* If r is within 1/3 of an integer z, 0 <= z < 2^J, then adding up 2^j where what
is left of r is at least 2^j, for j = J - 1, ..., 0, gives z itself.
*Proof.* Comparisons that forgive 1/3 see z: what is left of r stays within 1/3 of what is left of
z, and the bits are those of z. QED
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from constructive.sequences.network import Affine, Number, Step

# Steps, units of the step after them, and a sum of these units that is 0 or 1.
Indicator = tuple[list[Step], dict[str, Affine], Affine]


class Comparison(ABC):
    """One way to compare a register with an integer, exact at integers."""

    forgiving: ClassVar[bool]  # whether it is also right for registers within 1/3 of an integer
    # how many that are not zero it takes, beside two for each register that is changed, for
    # thresholds beyond 1
    weights: ClassVar[int]

    @abstractmethod
    def indicator(self, register: str, threshold: int) -> Indicator:
        """Return what makes 1 where `register` >= threshold, and 0 elsewhere."""

    def where_at_least(
        self,
        register: str,
        threshold: int,
        changes: Mapping[str, Number],
        start: Mapping[str, Affine] | None = None,
    ) -> list[Step]:
        """Return steps that add changes[name] to each named register where `register` >= threshold.

        Example:
            >>> RAMP.where_at_least("r", 5, {"r": -5})[0].updates["r"]
            Affine(terms={'r': 1, 'high': -5, 'low': 5}, constant=0)
            >>> len(SATURATING.where_at_least("r", 5, {"r": -5}))
            2
        """
        begin = {name: Affine({name: 1}) for name in changes} | dict(start or {})
        first, units, bit = self.indicator(register, threshold)
        updates = {
            name: Affine(
                {**begin[name].terms, **{unit: value * w for unit, w in bit.terms.items()}},
                begin[name].constant + value * bit.constant,
            )
            for name, value in changes.items()
        }
        return [*first, Step(units, updates)]

    def remainder(self, register: str, modulus: int, below: int) -> list[Step]:
        """Return steps that leave register mod modulus, for 0 <= register < below.

        Example:
            >>> len(RAMP.remainder("r", 3, below=12))
            2
        """
        powers: list[int] = []
        while modulus << len(powers) < below:
            powers.append(modulus << len(powers))
        return [
            step
            for power in reversed(powers)
            for step in self.where_at_least(register, power, {register: -power})
        ]

    def rounded(self, register: str, below: int) -> list[Step]:
        """Return steps that leave the integer, for 0 <= register < below.

        What the register lacks of an integer stays, as units copy what is not negative.

        Example:
            >>> len(SATURATING.rounded("r", below=12))
            9
        """
        steps: list[Step] = []
        for bit in reversed(range((below - 1).bit_length())):
            change = {register: -(1 << bit), "exact": 1 << bit}
            start = None if steps else {"exact": Affine()}
            steps += self.where_at_least(register, 1 << bit, change, start)
        end = {register: Affine({"exact": 1} if steps else {}), "exact": Affine()}
        return [*steps, Step({}, end)]


class Ramp(Comparison):
    """relu(r - t + 1) - relu(r - t): one layer, a difference of numbers as large as r."""

    forgiving = False
    weights = 4

    def indicator(self, register: str, threshold: int) -> Indicator:
        """Return two units and their difference."""
        high, low = Affine({register: 1}, 1 - threshold), Affine({register: 1}, -threshold)
        return [], {"high": high, "low": low}, Affine({"high": 1, "low": -1})


class Saturating(Comparison):
    """1 - relu(1 - relu(3 (r - t) + 2)): two layers, whose numbers never cancel.

    So floats carry words of as many bits as they have, and rounding is forgiven.
    """

    forgiving = True
    weights = 7

    def indicator(self, register: str, threshold: int) -> Indicator:
        """Return a step for the inner relu, and one minus the outer one."""
        high = Affine({register: 3}, 2 - 3 * threshold)
        first = Step({"high": high}, {"above": Affine({"high": 1})})
        return [first], {"below": Affine({"above": -1}, 1)}, Affine({"below": -1}, 1)


RAMP, SATURATING = Ramp(), Saturating()
