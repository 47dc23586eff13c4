"""Every construction keeps the laws, and one that does not is found out."""

import dataclasses

import numpy as np
import pytest

from constructive import (
    AssumptionError,
    AttentionLayer,
    CapacityError,
    ConstructiveError,
    DataError,
    Dataset,
    Memorizer,
    ParameterError,
    build_memorizer,
    certify,
    check,
    explain,
    generators,
)
from constructive.constructions import NAMES
from constructive.constructions.build import CONSTRUCTIONS
from constructive.constructions.construction import (
    LENGTHS,
    USUAL,
    Built,
    Construction,
    Cost,
    unsaturated_heads,
)  # fmt: skip
from constructive.constructions.multihead.readout import largest
from constructive.support.work import progress_to, report
from constructive.theory.bounds import Plan, rank_one_capacity
from constructive.theory.grouping import group_sizes

# What every construction has to do: a new one is tested by one line, `check_construction`.


SIZE, WIDTH, OUTPUTS, HEADS = 3, 6, 3, 4


def check_construction(name, folder):
    """Check the laws of a construction that is registered; raises AssertionError for a breach.

    name: what users ask for
    folder: an empty folder for files
    """
    problem = Problem.of(name)
    check_facts(problem)
    check_plans(problem)
    for total in {1, problem.holds // 2, problem.holds}:
        check_build(problem, problem.data(total))
    check_seed(problem)
    check_options(problem, folder)
    check_refusals(problem)
    check_lengths(problem)
    check_files_and_proof(problem, folder)


@dataclasses.dataclass(frozen=True)
class Problem:
    """Data that a construction holds, and how it is asked for."""

    known: object
    asked: dict
    holds: int

    @classmethod
    def of(cls, name):
        """Contexts of their own, H = 4; as many as are planned for."""
        known = CONSTRUCTIONS[name]
        asked = {"construction": name, "num_heads": HEADS}
        fits = [t for t in range(1, 2 * HEADS * WIDTH) if not refused(shapes(t), asked)]
        assert fits == list(range(1, len(fits) + 1)), "fewer examples are not easier"
        assert fits, "no data of these sizes are planned for"
        return cls(known, asked, len(fits))

    def data(self, total, seed=0):
        return generators.gaussian(
            num_examples=total, context_size=SIZE, width=WIDTH, target_dim=OUTPUTS, seed=seed
        )

    def build(self, data, **options):
        return build_memorizer(data, **{**self.asked, **options})


def shapes(total):
    """Examples which take no memory, of which nothing but their shapes is known."""
    sizes = (total, SIZE, WIDTH), (total, WIDTH), (total, OUTPUTS)
    return Dataset(*(np.broadcast_to(1.0, size) for size in sizes))


def refused(data, asked):
    """Whether nothing is planned for so many examples."""
    explained = explain(data, **asked)
    refusal = explained.chosen.refusal
    if refusal is not None:
        assert isinstance(refusal, CapacityError)
        assert refusal.suggestion
        return True
    plan = explained.plan
    assert plan.construction == asked["construction"]
    assert plan.num_heads == HEADS
    assert plan.capacity >= data.num_examples, "a plan promises fewer examples than it was made for"
    return False


def check_facts(problem):
    known = problem.known
    assert known is CONSTRUCTIONS[problem.asked["construction"]]
    assert known.name == problem.asked["construction"]
    assert all(text.isprintable() and text for text in (known.name, known.formula, known.theorem))
    assert known.theorem in str(explain(shapes(1), **problem.asked))
    every = USUAL | {LENGTHS}
    assert known.options <= every


def check_plans(problem):
    """Of shapes alone, and of any numbers of examples and heads."""
    fewer, most = (explain(shapes(t), **problem.asked) for t in (1, problem.holds))
    assert most.plan == explain(problem.data(problem.holds), **problem.asked).plan
    assert most.plan.capacity == problem.holds
    (small,), (large,) = (
        [option for option in each.options if option.construction == problem.known.name]
        for each in (fewer, most)
    )
    assert 0 < small.operations < large.operations < np.inf
    assert 0 <= small.memory <= large.memory < np.inf
    more = {**problem.asked, "num_heads": 2 * HEADS}
    assert explain(shapes(problem.holds + 1), **more).plan.num_heads == 2 * HEADS
    asked = {**problem.asked, "num_heads": None}
    found = explain(problem.data(problem.holds), **asked)
    assert found.plan.num_heads == found.num_heads <= HEADS + 1  # with some room


def check_build(problem, data):
    steps = []
    with progress_to(lambda step, done, total: steps.append((step, done, total))):
        memorizer = problem.build(data, tolerance=1e-5)
    record, layer = memorizer.built, memorizer.layer
    assert steps
    assert all(0 <= done <= total for _, done, total in steps)
    plan = explain(data, **problem.asked).plan
    assert (layer.num_heads, layer.head_dim) == (plan.num_heads, plan.head_dim)
    assert layer.target_dim == data.target_dim
    assert record.capacity == plan.capacity
    assert record.theorem == problem.known.theorem
    assert record.formula
    error = memorizer.max_error(data)
    assert error <= 1e-5 * np.abs(data.targets).max(), "targets are missed"
    assert error <= 2 * record.max_error + 1e-9, "the error on record is smaller than the true one"
    assert 0.99 < record.condition < np.inf
    assert len(record.heads) in {0, layer.num_heads}
    assert record.order in ((), *[record.order] * (sorted(record.order) == list(range(len(data)))))
    if problem.known.grouped:
        assert record.heads[-1].stop == record.heads[-1].rank_reached == data.num_examples


def check_seed(problem):
    data = problem.data(problem.holds)
    one, same, other = (problem.build(data, seed=seed) for seed in (3, 3, 4))
    assert one.record == same.record
    for name, array in one.layer.tensors.items():
        assert array.tobytes() == same.layer.tensors[name].tobytes(), f"{name} is not of the seed"
    assert one.layer.tensors["W_Q"].tobytes() != other.layer.tensors["W_Q"].tobytes()


def check_options(problem, folder):
    """What is listed works, and what is not is refused."""
    takes, total = problem.known.options, min(problem.holds, 7)
    data = generators.integers(num_examples=total, context_size=SIZE, width=WIDTH)
    rng = np.random.default_rng(0)
    data = Dataset(data.contexts, data.queries, rng.standard_normal((total, OUTPUTS)))
    for name, (options, holds) in OPTIONS.items():
        given = {key: value(folder) for key, value in options.items()}
        if f"{name}=" in takes:
            built = problem.build(data, **given)
            assert holds(built, data), f"{name} is listed and has no effect"
        else:
            with pytest.raises(ParameterError):
                problem.build(data, **given)


OPTIONS = {
    "saturated_fraction": (
        {"saturated_fraction": lambda _: 0.5},
        lambda built, _: built.record.saturated_fraction in (0.0, 0.5),
    ),
    "precision": ({"precision": lambda _: 120}, lambda built, _: built.layer.precision == 120),
}


def check_refusals(problem):
    """What no weights memorize is refused by its witness, whatever is built."""
    data = problem.data(max(2, problem.holds // 2))
    last = len(data) - 1
    arrays = {"contexts": data.contexts, "queries": data.queries, "targets": data.targets}
    arrays = {name: array.copy() for name, array in arrays.items()}
    for array in arrays.values():
        array[last] = array[0]
    if problem.known.name == "tangent":  # an input that is repeated counts once
        assert problem.build(Dataset(**arrays)).max_error(Dataset(**arrays)) < 1e-5
    else:
        with pytest.raises(AssumptionError, match="the same input") as caught:
            problem.build(Dataset(**arrays))
        assert caught.value.witness == (0, last)
    arrays["targets"][last] += 1.0
    with pytest.raises(DataError, match="different targets") as caught:
        problem.build(Dataset(**arrays))
    assert caught.value.witness == (0, last)
    with pytest.raises(DataError, match="outside 1e-100"):
        problem.build(Dataset(data.contexts, 1e200 * data.queries, data.targets))
    with pytest.raises(DataError, match=r"largest target is 1.0e\+308"):
        problem.build(Dataset(data.contexts, data.queries, np.full_like(data.targets, -1e308)))


def check_lengths(problem):
    """Contexts of different lengths are built for, or refused before anything is computed."""
    whole = problem.data(4)
    contexts = [tokens[: 1 + index % SIZE] for index, tokens in enumerate(whole.contexts)]
    data = Dataset(contexts, whole.queries, whole.targets)
    if LENGTHS not in problem.known.options:
        for run in (problem.build, lambda data: explain(data, **problem.asked).plan):
            with pytest.raises(ParameterError, match=LENGTHS):
                run(data)
        return
    memorizer = problem.build(data)
    assert memorizer.max_error(data) < 1e-6
    certificate = certify(memorizer, data, claims=["rank", "error"])
    assert check(certificate, memorizer, data).proved


def check_files_and_proof(problem, folder):
    data = problem.data(min(problem.holds, 7), seed=1)
    memorizer = problem.build(data)
    memorizer.save(folder / "built.safetensors")
    loaded = Memorizer.load(folder / "built.safetensors")
    assert loaded.record == memorizer.record
    assert str(loaded) == str(memorizer)
    assert problem.known.formula.partition(" or")[0] in str(memorizer)
    certificate = certify(loaded, data)
    assert certificate.proved
    assert check(certificate, loaded, data).proved
    claims = {claim.name for claim in certificate.claims}
    free = problem.known.name == "tangent"  # heads that depend on the targets
    assert {"onto" if free else "rank", "error"} <= claims
    assert ("grouping" in claims) == problem.known.grouped


# The laws on all constructions and on a toy, and liars.


TAKES = frozenset({"value_dim=", "precision="})


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


class Blind(Toy):
    """Does not look for repeated inputs."""

    def build(self, survey, plan, options, *, rng):
        blind = dataclasses.replace(survey)
        vars(blind)["repeated"] = None
        return super().build(blind, plan, options, rng=rng)


def toy(kind=Toy, **changes):
    known = kind("toy", "H(n - 1) + 1", "no theorem", options=TAKES)
    return dataclasses.replace(known, **changes)


def taking(option):
    return toy(options=TAKES | {option})


LIES = [
    ("check_build", toy(Greedy)),
    ("refused", toy(Short)),
    ("check_build", toy(Flattering)),
    ("check_seed", toy(Careless)),
    ("check_refusals", toy(Blind)),
    ("refused", toy(name="other")),
    ("check_facts", toy(theorem="")),
    ("check_facts", taking("magic=")),
]


@pytest.mark.parametrize(("where", "lie"), LIES)
def test_lies_are_found(where, lie, tmp_path, monkeypatch):
    monkeypatch.setitem(CONSTRUCTIONS, "toy", lie)
    found = (AssertionError, pytest.fail.Exception, ConstructiveError, AttributeError)
    with pytest.raises(found) as caught:
        check_construction("toy", tmp_path)
    assert where in [entry.name for entry in caught.traceback]
