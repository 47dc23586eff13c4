"""Every construction keeps the laws, and one that does not is found out."""

import dataclasses

import numpy as np
import pytest
from conformance import check_construction

from constructive import (
    AttentionLayer,
    CapacityError,
    ConstructiveError,
    Memorizer,
    ParameterError,
    build_memorizer,
    certify,
    explain,
    generators,
)
from constructive.constructions import NAMES
from constructive.constructions.construction import (
    EXACT_LOGITS,
    FLOAT,
    NARROW,
    WIDE,
    Built,
    Construction,
    Cost,
    unsaturated_heads,
)
from constructive.constructions.multihead.readout import largest
from constructive.constructions.planning import CONSTRUCTIONS
from constructive.support.progress import report
from constructive.theory.bounds import Plan, group_sizes, rank_one_capacity

TAKES = {FLOAT: frozenset({WIDE, "value_dim=", "precision="})}


class Toy(Construction):
    """The smallest there is: random heads of rank one, and the shortest readout."""

    def plan(self, shapes, num_heads, options):
        holds = rank_one_capacity(num_heads, shapes.context_size)
        if shapes.num_examples > holds:
            raise CapacityError(f"a toy holds {holds}", suggestion="fewer examples")
        inner = options.head_dim or 1
        return Plan(self.name, num_heads, inner, holds, rank_one=inner == 1)

    def cost(self, shapes, num_heads, options):  # noqa: ARG002
        return Cost(2.0 * shapes.num_examples**2 * num_heads * shapes.width, 0.0)

    def build(self, survey, plan, options, *, rng):
        if survey.repeated is not None:
            return survey.repeated
        report("play", 0, 1)
        dataset = survey.dataset
        shape = plan.num_heads, dataset.width, plan.head_dim
        weights = 3 * rng.standard_normal((2, *shape))
        nothing = np.zeros((plan.num_heads * dataset.width, dataset.target_dim))
        layer = AttentionLayer.from_effective_readout
        z = layer(*weights, nothing).intermediate(dataset.contexts, dataset.queries)
        effective = np.linalg.lstsq(z, dataset.target_matrix)[0]
        stops = np.cumsum(group_sizes(dataset.num_examples, plan.num_heads)).tolist()
        return Built(
            layer(*weights, effective, options.value_dim),
            largest(z @ effective - dataset.target_matrix),
            float(np.linalg.cond(z)),
            unsaturated_heads(stops, stops),
        )


@pytest.mark.parametrize("name", [*NAMES, "toy"])
def test_constructions(name, tmp_path, monkeypatch):
    monkeypatch.setitem(CONSTRUCTIONS, "toy", toy())
    check_construction(name, tmp_path)


def test_names_are_known_before_anything_is_imported():
    assert tuple(CONSTRUCTIONS) == NAMES


def test_files_are_read_by_who_has_no_such_construction(tmp_path, monkeypatch):
    data = generators.gaussian(num_examples=7, context_size=3, width=5, seed=0)
    monkeypatch.setitem(CONSTRUCTIONS, "toy", toy())
    assert "toy" in str(explain(data, num_heads=3, construction="toy"))
    memorizer = build_memorizer(data, num_heads=3, construction="toy")
    memorizer.save(tmp_path / "toy.safetensors")
    monkeypatch.delitem(CONSTRUCTIONS, "toy")
    loaded = Memorizer.load(tmp_path / "toy.safetensors")
    assert str(loaded) == str(memorizer)
    assert "bound H(n - 1) + 1 = 7 (no theorem)" in str(loaded)
    assert [claim.name for claim in certify(loaded, data).claims] == ["rank", "error"]
    with pytest.raises(ParameterError, match="are not claims about toy heads"):
        certify(loaded, data, claims=["grouping"])
    with pytest.raises(ParameterError, match="unknown construction='toy'"):
        build_memorizer(data, num_heads=3, construction="toy")


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
    known = kind("toy", "H(n - 1) + 1", "no theorem", options=TAKES)
    return dataclasses.replace(known, **changes)


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
    ("check_facts", taking("magic=")),
    ("check_options", taking("shared_keys=")),
    ("check_options", taking(EXACT_LOGITS)),
    ("of", taking(NARROW)),
    ("check_rational", toy(options={**TAKES, "rational": TAKES[FLOAT]})),
]


@pytest.mark.parametrize(("where", "lie"), LIES)
def test_lies_are_found(where, lie, tmp_path, monkeypatch):
    monkeypatch.setitem(CONSTRUCTIONS, "toy", lie)
    found = (AssertionError, pytest.fail.Exception, ConstructiveError, AttributeError)
    with pytest.raises(found) as caught:
        check_construction("toy", tmp_path)
    assert where in [entry.name for entry in caught.traceback]
