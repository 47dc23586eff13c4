"""Steps of programs: comparisons, remainders and products with a bit, exact at integers.

*Lemma (a comparison).* For integers r and t, relu(r - t + 1) - relu(r - t) is 1 if r >= t, else 0;
and so is 1 - relu(1 - relu(3 (r - t) + 2)), for all r within 1/3 of an integer.
*Proof.* If r >= t, the first is (r - t + 1) - (r - t) = 1, and in the second r - t >= -1/3, so that
the inner relu is at least 1 and the outer one is 0. If r < t, all of r - t + 1 <= 0 and r - t < 0:
the first is 0; and r - t <= -2/3 in the second, which is 1 - relu(1 - 0) = 0. QED

The first takes one layer (`ramp`), and is a difference of numbers as large as r times the
coefficient it gets. The second (`saturating`) takes two layers and never cancels, so that floats
carry words of as many bits as they have; and it forgives rounding.

*Lemma (remainders).* If 0 <= r < q 2^J, subtracting q 2^j where r >= q 2^j, for j = J - 1, ..., 0,
leaves r mod q. *Proof.* After step j, 0 <= r < q 2^j, and r has changed by a multiple of q. QED

*Lemma (rounding).* If r is within 1/3 of an integer z, 0 <= z < 2^J, then adding up 2^j where what
is left of r is at least 2^j, for j = J - 1, ..., 0, gives z itself.
*Proof.* Comparisons which forgive 1/3 see z: what is left of r stays within 1/3 of what is left of
z, and the bits are those of z. QED
"""

from collections.abc import Mapping
from typing import Literal

from constructive.sequences.network import Affine, Number, Step

Comparison = Literal["ramp", "saturating"]


def where_at_least(
    register: str,
    threshold: int,
    changes: Mapping[str, Number],
    *,
    comparison: Comparison,
    start: Mapping[str, Affine] | None = None,
) -> list[Step]:
    """Steps which add changes[name] to each named register where `register` >= threshold.

    Args:
        register: the name of what is compared
        threshold: an integer
        changes: what is added, by the names of registers
        comparison: "ramp", of one step, or "saturating", of two
        start: what is added to, where that is not the register as it is

    Example:
        >>> steps = where_at_least("r", 5, {"r": -5}, comparison="ramp")
        >>> steps[0].updates["r"]
        Affine(terms={'r': 1, 'high': -5, 'low': 5}, constant=0)
    """
    begin = {name: Affine({name: 1}) for name in changes} | dict(start or {})
    if comparison == "ramp":
        above = Affine({register: 1}, 1 - threshold)
        units = {"high": above, "low": Affine({register: 1}, -threshold)}
        updates = {
            name: Affine({**begin[name].terms, "high": value, "low": -value}, begin[name].constant)
            for name, value in changes.items()
        }
        return [Step(units, updates)]
    above = Affine({register: 3}, 2 - 3 * threshold)
    first = Step({"high": above}, {"above": Affine({"high": 1})})
    second = Step(
        {"below": Affine({"above": -1}, 1)},
        {
            name: Affine({**begin[name].terms, "below": -value}, begin[name].constant + value)
            for name, value in changes.items()
        },
    )
    return [first, second]


def remainder(register: str, modulus: int, below: int, *, comparison: Comparison) -> list[Step]:
    """Steps which leave register mod modulus, for 0 <= register < below.

    Args:
        register: its name
        modulus: q
        below: above all that it holds
        comparison: "ramp" or "saturating"

    Example:
        >>> len(remainder("r", 3, below=12, comparison="ramp"))
        2
    """
    powers: list[int] = []
    while modulus << len(powers) < below:
        powers.append(modulus << len(powers))
    return [
        step
        for power in reversed(powers)
        for step in where_at_least(register, power, {register: -power}, comparison=comparison)
    ]


def rounded(register: str, below: int, *, comparison: Comparison) -> list[Step]:
    """Steps which leave the integer that is nearest to register, for 0 <= register < below.

    Args:
        register: its name; it is within 1/3 of an integer
        below: above that integer
        comparison: "saturating", which forgives so much, or "ramp"

    Example:
        >>> len(rounded("r", below=12, comparison="saturating"))
        9
    """
    steps: list[Step] = []
    for bit in reversed(range((below - 1).bit_length())):
        change = {register: -(1 << bit), "exact": 1 << bit}
        start = None if steps else {"exact": Affine()}
        steps += where_at_least(register, 1 << bit, change, comparison=comparison, start=start)
    end = {register: Affine({"exact": 1} if steps else {}), "exact": Affine()}
    return [*steps, Step({}, end)]
