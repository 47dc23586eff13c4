"""Every family keeps the laws; a toy does, and liars are caught."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from instance_parts import Toy, check_answer, check_family

from constructive import ParameterError
from constructive.instances import (
    FAMILIES,
    Answer,
    Atom,
    Property,
    Refutations,
    Witness,
    planted,
)
from constructive.instances.making import PLANTED

STACKED = [*PLANTED, "stacked"]


@pytest.mark.parametrize("name", STACKED)
def test_planted_families(name):
    check_family(FAMILIES[name]())


@pytest.mark.parametrize("name", STACKED)
@pytest.mark.parametrize("scale", [16.0, 255.3])
@pytest.mark.parametrize("dim", [1, 33, 64])
def test_sizes(name, scale, dim):
    for instance in FAMILIES[name]().make(dim, seed=5, scale=scale):
        check_answer(instance)


@pytest.mark.parametrize("name", ["needle", "corner"])
def test_without_a_decoy(name):
    check_family(FAMILIES[name](), decoy=0.0)


def test_the_toy_is_a_family():
    check_family(Toy(), margin=0.2)


class SaysMore(Toy):
    """Its maximum is one half, and it asks for more."""

    def thresholds(self, options):
        return 0.5 + options["margin"], 0.6 + options["margin"]


class Twice(Toy):
    """Its second instance is its first."""

    def draw(self, names, dim, random, options):
        first, second = super().draw(names, dim, random, options)
        return first, replace(first, name=second.name)


class Forgetful(Toy):
    """Each call has another seed."""

    calls = 0

    def draw(self, names, dim, random, options):  # noqa: ARG002
        Forgetful.calls += 1
        return super().draw(names, dim, np.random.default_rng(Forgetful.calls), options)


class OneAnswer(Toy):
    """Leaves one out."""

    def draw(self, names, dim, random, options):
        return super().draw(names, dim, random, options)[:1]


@pytest.mark.parametrize(
    ("liar", "reason"),
    [
        (SaysMore, "margin"),
        (Twice, "other answers"),
        (Forgetful, "a seed gives one group"),
        (OneAnswer, "other answers"),
    ],
)
def test_liars_are_caught(liar, reason):
    with pytest.raises((AssertionError, ParameterError, pytest.fail.Exception), match=reason):
        check_family(liar(), margin=0.2)


def test_an_answer_without_its_proof_is_refused():
    twins = planted(dim=3, scale=32.0)
    with pytest.raises(ParameterError, match="no proof that it is unsat"):
        replace(twins.sat, answer=Answer.UNSAT)
    with pytest.raises(ParameterError, match="no proof"):
        replace(twins.sat, property=twins.unsat.property)
    with pytest.raises(ParameterError, match="no proof"):
        replace(twins.unsat, property=twins.sat.property)
    (slabs,) = twins.unsat.proof.parts
    for less in (slabs.slabs[1:], slabs.slabs[:-1], ()):
        with pytest.raises(ParameterError, match="no proof"):
            replace(twins.unsat, proof=Refutations((replace(slabs, slabs=less),)))
    with pytest.raises(ParameterError, match="no proof"):
        replace(twins.unsat, proof=Refutations(()))
    outside = (Fraction(100), *twins.sat.proof.point[1:])
    with pytest.raises(ParameterError, match="no proof"):
        replace(twins.sat, proof=Witness(outside))
    with pytest.raises(ParameterError, match="no proof"):
        replace(twins.sat, proof=Witness(twins.sat.proof.point[:-1]))


def test_a_property_of_another_network_is_refused():
    small, large = planted(dim=2), planted(dim=3)
    with pytest.raises(ParameterError, match="does not fit"):
        replace(small.sat, property=large.sat.property)


def test_a_margin_below_the_rounding_is_refused():
    twins = planted(dim=3, scale=64.0)
    atom = twins.sat.property.disjuncts[0][0]
    close = float(np.float32(atom.threshold + 0.05 - 1e-5))
    near = Property(twins.sat.property.box, ((Atom([1.0], close),),))
    with pytest.raises(ParameterError, match="twice"):
        replace(twins.sat, property=near)
    with pytest.raises(ParameterError, match="too small"):
        planted(dim=3, scale=4096.0, margin=0.002)


def test_the_maximum_of_a_plan_is_one():
    """On a fine grid no value is above the upper bound, and some is near the lower one."""
    for name in STACKED:
        family = FAMILIES[name]()
        options = {"scale": 16.0, "margin": 0.05, "decoy": 0.5}
        plan = family.plan(2, np.random.default_rng(3), options)
        least, most = plan.maximum()
        axes = [
            np.linspace(*ends, 801) for ends in zip(plan.box.lower, plan.box.upper, strict=True)
        ]
        grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        highest = plan.network(grid).max()
        assert highest <= most
        assert least - 0.02 <= highest
        assert most - least < 0.01
