"""Every construction keeps the laws, and one that does not is found out."""

import dataclasses

import numpy as np
import pytest
from conformance import check_construction
from toy import TAKES, TOY, Toy

from constructive import CapacityError, ConstructiveError
from constructive.constructions import registry
from constructive.constructions.construction import FLOAT, Built, Cost
from constructive.theory.bounds import Plan


@pytest.mark.parametrize("name", [*registry.HOMES, "toy"])
def test_constructions(name, tmp_path, monkeypatch):
    monkeypatch.setitem(registry.HOMES, "toy", "toy:TOY")
    check_construction(name, tmp_path)


class Greedy(Toy):
    """Promises more examples than any weights hold."""

    def plan(self, shapes, num_heads, options):  # noqa: ARG002
        holds = num_heads * shapes.width + 1
        if shapes.num_examples > holds:
            raise CapacityError("too many", suggestion="fewer examples")
        return Plan(self.name, num_heads, 1, holds, rank_one=True)


class Short(Toy):
    """Plans for one example more than its capacity."""

    def plan(self, shapes, num_heads, options):
        plan = super().plan(shapes, num_heads, options)
        return dataclasses.replace(plan, capacity=plan.capacity - 1)


class Flattering(Toy):
    """Has an error, and says it has none."""

    def build(self, survey, plan, options, *, rng):
        built = super().build(survey, plan, options, rng=rng)
        if not isinstance(built, Built):
            return built
        values = built.layer.value_weights + 1e-6
        layer = dataclasses.replace(built.layer, value_weights=values)
        return dataclasses.replace(built, layer=layer)


class Careless(Toy):
    """Draws from a state of its own."""

    def build(self, survey, plan, options, *, rng):  # noqa: ARG002
        return super().build(survey, plan, options, rng=np.random.default_rng())


class Stubborn(Toy):
    """Draws the same heads for every seed."""

    def build(self, survey, plan, options, *, rng):  # noqa: ARG002
        return super().build(survey, plan, options, rng=np.random.default_rng(0))


class Blind(Toy):
    """Does not look for repeated inputs."""

    def build(self, survey, plan, options, *, rng):
        blind = dataclasses.replace(survey)
        vars(blind)["repeated"] = None
        return super().build(blind, plan, options, rng=rng)


class Wider(Toy):
    """Builds another number of heads than it planned."""

    def build(self, survey, plan, options, *, rng):
        more = dataclasses.replace(plan, num_heads=plan.num_heads + 1)
        return super().build(survey, more, options, rng=rng)


class Free(Toy):
    """Costs nothing."""

    def cost(self, shapes, num_heads, options):  # noqa: ARG002
        return Cost(0.0, 0.0)


def toy(kind=Toy, **changes):
    return dataclasses.replace(kind("toy", TOY.formula, TOY.theorem, options=TAKES), **changes)


def taking(option):
    return toy(options={FLOAT: TAKES[FLOAT] | {option}})


LIES = [
    ("check_build", toy(Greedy)),
    ("refused", toy(Short)),
    ("check_build", toy(Flattering)),
    ("check_seed", toy(Careless)),
    ("check_seed", toy(Stubborn)),
    ("check_refusals", toy(Blind)),
    ("check_build", toy(Wider)),
    ("check_plans", toy(Free)),
    ("refused", toy(name="other")),
    ("check_facts", toy(theorem="")),
    ("check_facts", taking("magic")),
    ("check_options", taking("shared_keys")),
    ("check_options", taking("exact_logits")),
    ("of", taking("value_dim < d_out")),
    ("check_rational", toy(options={**TAKES, "rational": TAKES[FLOAT]})),
]


@pytest.mark.parametrize(("where", "lie"), LIES)
def test_lies_are_found(where, lie, tmp_path, monkeypatch):
    monkeypatch.setitem(registry.HOMES, "toy", "toy:LIE")
    monkeypatch.setattr("toy.LIE", lie, raising=False)
    found = (AssertionError, pytest.fail.Exception, ConstructiveError, AttributeError)
    with pytest.raises(found) as caught:
        check_construction("toy", tmp_path)
    assert where in [entry.name for entry in caught.traceback]
