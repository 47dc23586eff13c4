"""Every construction keeps the laws, and one that does not is found out."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from constructive import (
    AssumptionError,
    CapacityError,
    ConstructiveError,
    DataError,
    Dataset,
    Memorizer,
    ParameterError,
    PrecisionError,
    build_memorizer,
    certify,
    check,
    explain,
    generators,
)
from constructive.constructions import NAMES
from constructive.constructions.choice import CONSTRUCTIONS
from constructive.constructions.construction import Construction, Cost, FixedHeads
from constructive.support.work import progress_to, report
from constructive.theory.bounds import Plan, group_sizes, rank_one_capacity

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
    """What fixed heads take works, and heads that depend on the targets refuse it."""
    total = min(problem.holds, 7)
    data = generators.integers(num_examples=total, context_size=SIZE, width=WIDTH)
    rng = np.random.default_rng(0)
    data = Dataset(data.contexts, data.queries, rng.standard_normal((total, OUTPUTS)))
    for name, (options, holds) in OPTIONS.items():
        given = {key: value(folder) for key, value in options.items()}
        if problem.known.free:
            with pytest.raises(ParameterError):
                problem.build(data, **given)
        else:
            built = problem.build(data, **given)
            assert holds(built, data), f"{name} has no effect"


OPTIONS = {
    "saturated_fraction": (
        {"saturated_fraction": lambda _: 0.5},
        lambda built, _: built.record.saturated_fraction in (0.0, 0.5),
    ),
    "precision": ({"precision": lambda _: 120}, lambda built, _: built.layer.precision == 120),
    "value_dim": (
        {"value_dim": lambda _: OUTPUTS + 2},
        lambda built, data: built.layer.value_dim == OUTPUTS + 2 and built.max_error(data) < 1e-6,
    ),
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
    if not problem.known.lengths:
        for run in (problem.build, lambda data: explain(data, **problem.asked).plan):
            with pytest.raises(ParameterError, match="contexts of different lengths"):
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


def plan(shapes, num_heads, head_dim):
    holds = rank_one_capacity(num_heads, shapes.context_size)
    if shapes.num_examples > holds:
        raise CapacityError(f"a toy holds {holds}", suggestion="fewer examples")
    return Plan("toy", num_heads, head_dim or 1, holds)


def cost(shapes, num_heads, _):
    return Cost(2.0 * shapes.num_examples**2 * num_heads * shapes.width, 0.0)


def play(survey, num_heads, head_dim, *, rng):
    """The smallest there is: random heads of rank one; the readout is the shortest, as for all."""
    if survey.repeated is not None:
        return survey.repeated
    report("play", 0, 1)
    weights = 3 * rng.standard_normal((2, num_heads, survey.dataset.width, head_dim))
    stops = np.cumsum(group_sizes(survey.dataset.num_examples, num_heads))
    return [FixedHeads(*weights, stops)]


def toy(**changes):
    known = Construction("toy", "H(n - 1) + 1", "no theorem", plan, cost, play)
    return dataclasses.replace(known, **changes)


@pytest.mark.parametrize("name", [*NAMES, "toy"])
def test_constructions(name, tmp_path, monkeypatch):
    monkeypatch.setitem(CONSTRUCTIONS, "toy", toy())
    check_construction(name, tmp_path)


def test_auto_takes_nothing_that_is_not_in_its_order(monkeypatch):
    data = generators.gaussian(num_examples=7, context_size=3, width=5, seed=0)
    dependent = Dataset(data.contexts[:, [0, 1, 1]], data.queries, data.targets)
    before = [str(build_memorizer(each, num_heads=3)) for each in (data, dependent)]

    def never(*_, **__):
        pytest.fail("a construction that is not in the order was built")

    for place in (0, len(CONSTRUCTIONS)):
        listed = [*CONSTRUCTIONS.items()]
        listed.insert(place, ("toy", toy(build=never, cost=lambda *_: Cost(1.0, 1.0))))
        with monkeypatch.context() as patched:
            for name in list(CONSTRUCTIONS):
                patched.delitem(CONSTRUCTIONS, name)
            for name, known in listed:
                patched.setitem(CONSTRUCTIONS, name, known)
            assert "toy" in str(explain(data, num_heads=3))
            after = [str(build_memorizer(each, num_heads=3)) for each in (data, dependent)]
        assert after == before


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


def test_free_heads_of_another_name_have_files_and_their_own_claims(tmp_path, monkeypatch):
    known = CONSTRUCTIONS["tangent"]

    def named(*sizes):
        return dataclasses.replace(known.plan(*sizes), construction="toy")

    other = dataclasses.replace(known, name="toy", plan=named)
    monkeypatch.setitem(CONSTRUCTIONS, "toy", other)
    data = generators.gaussian(num_examples=20, context_size=3, width=5, seed=0)
    memorizer = build_memorizer(data, num_heads=2, head_dim=2, construction="toy")
    memorizer.save(tmp_path / "toy.safetensors")
    loaded = Memorizer.load(tmp_path / "toy.safetensors")
    assert [claim.name for claim in certify(loaded, data).claims] == ["error", "onto", "near"]


def short(*sizes):
    """Plan for one example more than the capacity."""
    planned = plan(*sizes)
    return dataclasses.replace(planned, capacity=planned.capacity - 1)


def equal(survey, num_heads, head_dim, *, rng):
    """Return the same head again and again, which holds fewer examples than were planned."""
    found = play(survey, num_heads, head_dim, rng=rng)
    if isinstance(found, AssumptionError):
        return found
    (heads,) = found
    for weights in (heads.query_weights, heads.key_weights):
        weights[:] = weights[0]
    return [heads]


def narrow(survey, num_heads, head_dim, *, rng):
    """Return one head less than was planned."""
    found = play(survey, num_heads, head_dim, rng=rng)
    if isinstance(found, AssumptionError):
        return found
    (heads,) = found
    weights = heads.query_weights[1:], heads.key_weights[1:]
    return [FixedHeads(*weights, heads.stops[1:])]


def careless(survey, num_heads, head_dim, *, rng):  # noqa: ARG001
    """Draw from a state of its own."""
    return play(survey, num_heads, head_dim, rng=np.random.default_rng())


def blind(survey, num_heads, head_dim, *, rng):
    """Do not look for repeated inputs."""
    blinded = dataclasses.replace(survey)
    vars(blinded)["repeated"] = None
    return play(blinded, num_heads, head_dim, rng=rng)


LIES = [
    ("check_build", toy(build=equal)),
    ("refused", toy(plan=short)),
    ("check_build", toy(build=narrow)),
    ("check_seed", toy(build=careless)),
    ("check_refusals", toy(build=blind)),
    ("check_facts", toy(name="other")),
    ("check_facts", toy(theorem="")),
]


@pytest.mark.parametrize(("where", "lie"), LIES)
def test_lies_are_found(where, lie, tmp_path, monkeypatch):
    monkeypatch.setitem(CONSTRUCTIONS, "toy", lie)
    found = (AssertionError, pytest.fail.Exception, ConstructiveError, AttributeError)
    with pytest.raises(found) as caught:
        check_construction("toy", tmp_path)
    assert where in [entry.name for entry in caught.traceback]


# The error on record is that of the layer as it is evaluated, and no layer is far from its own.


ASKED = ("auto", *NAMES)


def drawn(seed):
    """Data of a kind that a construction may take, and how many heads are asked for."""
    rng = np.random.default_rng(seed)
    size, width, heads = int(rng.integers(2, 6)), int(rng.integers(2, 9)), int(rng.integers(1, 7))
    kinds = generators.uniform, generators.gaussian, generators.shared_context
    total = int(rng.integers(1, heads * (size - 1) + 2))
    width, outputs = max(size, width), int(rng.integers(1, 4))
    data = kinds[seed % 3](
        num_examples=total, context_size=size, width=width, target_dim=outputs, seed=seed
    )
    scale = 10.0 ** rng.integers(-4, 5)
    return Dataset(data.contexts * scale, data.queries / scale, data.targets), heads


def nearly_equal(seed):
    """Six examples for four heads, the first with two tokens that are one but for rounding."""
    rng = np.random.default_rng(seed)
    size, width = int(rng.integers(2, 4)), int(rng.integers(3, 6))
    contexts = rng.normal(size=(6, size, width))
    apart = 10.0 ** -rng.integers(7, 17)
    contexts[0, 1] = contexts[0, 0] * (1.0 + apart * rng.normal(size=width))
    if seed % 3 == 2:
        contexts = contexts[0]
    return Dataset(contexts, rng.normal(size=(6, width)), rng.normal(size=(6, 2))), 4


def outcome(data, heads, construction, **options):
    """How a build ends, in a word; raises AssertionError where what is on record is wrong."""
    try:
        memorizer = build_memorizer(data, num_heads=heads, construction=construction, **options)
    except ConstructiveError as error:
        return type(error).__name__
    record = memorizer.built
    assert record.max_error == memorizer.max_error(data)
    assert record.max_error <= 1e-6 * record.largest_target
    verdict = certify(memorizer, data, claims=["error"]).verdict.name
    assert verdict == "PROVED", (construction, record.max_error)
    return record.construction


def outcomes(examples, **options):
    found = Counter()
    for data, heads in examples:
        for construction in ASKED:
            found[construction, outcome(data, heads, construction, **options)] += 1
    return found


def test_the_error_on_record_is_that_of_the_layer():
    found = outcomes(map(drawn, range(40)))
    assert {built for _, built in found} >= set(NAMES)


def test_heads_that_rounding_eats_are_not_handed_out():
    own = [data for data in map(nearly_equal, range(30)) if not data[0].shared_context]
    found = outcomes(own)
    assert found["rank_one", "PrecisionError"]  # asked for by name
    assert found["auto", "generic"]
    assert {word for asked, word in found if asked == "auto"} <= set(NAMES)


def test_the_sharpness_is_named():
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(6, 2, 3))
    contexts[0, 1] = contexts[0, 0] * (1.0 + 1e-11 * rng.normal(size=3))
    data = Dataset(contexts, rng.normal(size=(6, 3)), rng.normal(size=6))
    with pytest.raises(PrecisionError, match="other rounding of logits") as caught:
        build_memorizer(data, num_heads=5, construction="rank_one")
    assert caught.value.witness["sharpness"] > 1e11


def test_more_bits_are_measured_with_all_of_them():
    found = outcomes(map(nearly_equal, range(4)), precision=106)
    assert found["rank_one", "rank_one"]


@pytest.mark.slow
def test_the_error_on_record_is_that_of_the_layer_for_hundreds():
    found = outcomes(map(drawn, range(600))) + outcomes(map(nearly_equal, range(100)))
    assert {built for _, built in found} >= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_all_heads_are_evaluated_unless_that_takes_longer_than_the_build(name, monkeypatch):
    monkeypatch.setattr("constructive.constructions.choice.QUICK", 0.0)
    data = generators.gaussian(num_examples=60, context_size=16, width=32, seed=0)
    memorizer = build_memorizer(data, num_heads=16, construction=name)
    assert memorizer.built.own_heads == (name == "paired")
    if name != "paired":
        assert memorizer.built.max_error == memorizer.max_error(data)
    else:
        assert "(own heads)" in str(memorizer)
        assert memorizer.max_error(data) < 1e-6
