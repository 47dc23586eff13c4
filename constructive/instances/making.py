"""Many instances from one seed: sizes are drawn, families take turns."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from constructive.instances.deployed import Rounding
from constructive.instances.instance import DIM, TWINS, Answer, Family, Instance, Option, Twins
from constructive.instances.memorized import Deviation
from constructive.instances.operator import Narrow, Operator
from constructive.instances.planting import Corner, Needle, Shadow, TwoLayers
from constructive.instances.spelling import Spelling
from constructive.support.errors import (
    ParameterError,
    require_known,
    require_pair,
    require_positive,
    require_seed,
    shown,
)
from constructive.support.work import report

_SEEDS = 2**31
_NAMES = 16**5
# As `--kind` takes them. A new family is a class, and a name here.
FAMILIES: dict[str, type[Family]] = {
    family.name: family
    for family in (
        *(Operator, Narrow, Deviation, Needle, Corner, Shadow, Rounding),
        *(TwoLayers, Spelling),
    )
}
PLANTED = ("needle", "corner", "shadow")  # families of one layer with a planted maximum
# Made by default; there are many operators, so they have three turns.
KINDS = ("operator", "narrow", "operator", "readout", "operator", *PLANTED, "rounding")
# What groups ask for, in a random order of ten: one of two thresholds or boxes of a network says
# nothing about the other, so that answers cannot be guessed.
_SAT, _UNSAT = TWINS
GROUPS = (
    *((_SAT,), (_UNSAT,)) * 2,
    *((_SAT, _SAT), (_UNSAT, _UNSAT)) * 2,
    (_SAT, _UNSAT),
)


def planted(
    *, dim: int, scale: float = 64.0, kind: str = "needle", margin: float = 0.05, seed: int = 0
) -> Twins:
    """Make twins: one network and one box, with a threshold below its maximum and one above.

    Args:
        dim: d, the number of inputs
        scale: slope of the sharpest logits
        kind: "needle", "corner" or "shadow"
        margin: distance of the thresholds from the maximum
        seed: of all that is drawn

    Raises:
        ParameterError: for another kind, sizes that are out of range, and a margin that is too
            small for the network

    Example:
        >>> twins = planted(dim=5, scale=64.0, seed=1)
        >>> below, above = (each.property.disjuncts[0][0].threshold for each in twins)
        >>> below < above
        True
        >>> twins.unsat.margin >= 2 * twins.unsat.rounding
        True
    """
    if kind not in PLANTED:
        raise ParameterError(
            f"kind={shown(kind)} has no planted maximum",
            witness=shown(kind),
            suggestion=" or ".join(map(repr, PLANTED)),
        )
    one, other = FAMILIES[kind]().make(dim, seed=seed, scale=scale, margin=margin)
    return Twins(one, other)


def make(
    count: int,
    *,
    kinds: str | Sequence[str] = KINDS,
    dims: tuple[float, float] = (2, 32),
    seed: int = 0,
    **options: float | tuple[float, float],
) -> list[Instance]:
    """Make instances in groups, one or two on a network, until there are as many as were asked for.

    Families take turns. Numbers of inputs, and options with ranges, are drawn for each group,
    uniformly in their logarithms. Options go to the families that take them. Two instances of a
    network mostly have the same answer, so that what one asks does not tell the other's answer.
    Names of networks are drawn, and instances are in their order: neither tells a family.

    Args:
        count: how many instances, at least
        kinds: the names of one or more families; a string is one name
        dims: the range of d, in whole numbers
        seed: of all that is drawn
        options: values, or ranges (least, most), of options of families

    Raises:
        ParameterError: for other kinds or none, ranges that are not pairs in order of numbers that
            an option takes, options that no family takes, and a margin that is too small for one of
            the networks

    Example:
        >>> made = make(4, kinds=["needle"], dims=(2, 8), scale=(16.0, 256.0))
        >>> len(made[0].name), sorted({each.name[-2:] for each in made}), made[0].family
        (8, ['_a', '_b'], 'needle')
    """
    require_positive(count=count)
    require_seed(seed)
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if not kinds:
        raise ParameterError("kinds= names no family", suggestion="one of " + ", ".join(FAMILIES))
    for kind in kinds:
        require_known("family", kind, FAMILIES)
    made: list[Instance] = []
    for group in _groups(kinds, _ranges(kinds, dims, options), seed):
        made += group
        report("make instances", min(len(made), count), count)
        if len(made) >= count:
            break
    return sorted(made, key=lambda each: each.name)


def _ranges(
    kinds: Sequence[str],
    dims: tuple[float, float],
    options: Mapping[str, float | tuple[float, float]],
) -> dict[str, tuple[float, float]]:
    """The range of d and those of options, checked."""
    known = _options(kinds)
    usual = {name: option.drawn for name, option in known.items() if option.drawn is not None}
    ranges: dict[str, tuple[float, float]] = {}
    for name, given in {"dims": dims, **usual, **options}.items():
        if name not in known:
            raise ParameterError(
                f"no family of {', '.join(kinds)} takes {name}",
                witness=name,
                suggestion=", ".join(sorted(known)),
            )
        pair = given if isinstance(given, tuple | list) else (given, given)
        require_pair(name, pair, f"{name}=(least, most)")
        taken = all(value in known[name] for value in pair)
        if not (taken and pair[0] <= pair[1] and (pair[0] or pair[0] == pair[1])):
            one, other = map(shown, pair)
            raise ParameterError(
                f"{one} to {other} is not a range of {name}" if one != other
                else f"{one} is not a value of {name}",
                witness=shown(given),
                suggestion=f"{known[name].range}; a range has the smaller number first, above 0",
            )  # fmt: skip
        ranges[name] = pair
    return ranges


def _options(kinds: Sequence[str]) -> dict[str, Option]:
    options = {name: option for kind in kinds for name, option in FAMILIES[kind].options.items()}
    return {"dims": DIM, **options}


def _groups(
    kinds: Sequence[str], ranges: Mapping[str, tuple[float, float]], seed: int
) -> Iterator[list[Instance]]:
    """Draw groups of instances, without end."""
    known, number, taken = _options(kinds), 0, set[str]()
    left: dict[str, list[tuple[Answer, ...]]] = {kind: [] for kind in kinds}
    while True:
        for kind in kinds:
            random = np.random.default_rng((seed, number))
            drawn = {name: _between(pair, random) for name, pair in ranges.items()}
            drawn = {name: round(x) if known[name].whole else x for name, x in drawn.items()}
            dim, family = int(drawn.pop("dims")), FAMILIES[kind]()
            options = {name: value for name, value in drawn.items() if name in family.options}
            left[kind] = left[kind] or [GROUPS[i] for i in random.permutation(len(GROUPS))]
            answers = random.permutation(left[kind].pop()).tolist()
            seed_of_group, name = int(random.integers(_SEEDS)), ""
            while not name or name in taken:
                name = f"n{random.integers(_NAMES):05x}"
            yield family.make(
                dim, seed=seed_of_group, name=name, answers=[*map(Answer, answers)], **options
            )
            taken.add(name)
            number += 1


def _between(pair: tuple[float, float], random: np.random.Generator) -> float:
    """Draw a number whose logarithm is uniform."""
    low, high = pair
    drawn = random.random()
    return low if low == high else min(high, low * (high / low) ** drawn)
