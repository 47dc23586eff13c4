"""Adapters: what they refuse, and that the libraries they call are right bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

from constructive.kernels import ADAPTERS, Problem, Spec
from constructive.kernels.adapters.adapter import ALL, BIAS, Refused
from constructive.kernels.batteries import SUITE
from constructive.kernels.intervals import bounds
from constructive.kernels.masks import Boolean, Causal, RightPadding, Window
from constructive.kernels.running import file_names, run_all, run_one, suite_for, tally
from constructive.support.errors import MissingExtraError

torch = pytest.importorskip("torch")

INSTALLED = [
    name
    for name, adapter in ADAPTERS.items()
    if {"torch", "onnx", "onnxruntime"}.issuperset(adapter.packages.values())
    and "cpu" in adapter.devices
]
TOP, BOTTOM = Causal("top-left"), Causal("bottom-right")
CASES = ["last", "random", "ties", "uniform"]
FEW = {"torch-flex": ["causal", "boolean", "soft cap"]}  # which is slow if it is not compiled
SMALL = {
    "plain": Spec(queries=9, keys=20, head_dim=16),
    "causal": Spec(queries=20, keys=20, head_dim=16, masks=(TOP,)),
    "more keys": Spec(batch=2, heads=(4, 2), queries=1, keys=20, head_dim=32, masks=(BOTTOM,)),
    "fewer keys": Spec(queries=20, keys=9, head_dim=16, masks=(BOTTOM,)),
    "boolean": Spec(queries=9, keys=20, head_dim=16, masks=(Boolean(empty=True),)),
    "padding": Spec(
        batch=3, queries=12, keys=12, head_dim=32, masks=(TOP, RightPadding((12, 5, 1)))
    ),
    "window": Spec(queries=30, keys=30, head_dim=16, masks=(TOP, Window(5, 0, "top-left"))),
    "soft cap": Spec(queries=9, keys=9, soft_cap=50.0, masks=(TOP,)),
    "sink": Spec(queries=9, keys=9, sink=True, masks=(TOP,)),
    "ALiBi": Spec(queries=9, keys=9, alibi=True, masks=(TOP,)),
}


def test_rows_have_words_that_are_known():
    for adapter in ADAPTERS.values():
        adapter.require_known_names()


@pytest.mark.parametrize("name", INSTALLED)
def test_released_libraries_are_exact(name):
    adapter = ADAPTERS[name]
    adapter.require()
    names = list(adapter.models)
    for dtype in {names[0], names[-1]}:
        specs = {
            shape: replace(spec, dtype=dtype, fully_masked=adapter.convention(spec))
            for shape, spec in SMALL.items()
            if shape in FEW.get(name, SMALL)
        }
        runs = list(run_all(adapter, specs, cases=CASES))
        wrong = [str(run.report or run.reason) for run in runs if run.outcome in {"wrong", "error"}]
        assert not wrong
        counted = tally(runs)
        assert counted.passed
        assert counted.coverage > 0.9


@pytest.mark.parametrize("name", INSTALLED)
def test_random_inputs_are_inside_the_interval_of_the_model(name):
    adapter = ADAPTERS[name]
    masks = (TOP,) if name == "onnxruntime-gqa" else (BOTTOM,) if "right" in name else ()
    random = np.random.default_rng(0)
    for dtype, model in adapter.models.items():
        spec = Spec(queries=24, keys=24, head_dim=16, masks=masks, dtype=dtype)
        problem = Problem.build(spec, "last")
        # quarters are numbers of every format here
        q, k, v = (np.round(4 * random.standard_normal(x.shape)) / 4 for x in problem.tensors())
        problem = replace(problem, draft=replace(problem.draft, q=q, k=k), v=v)
        inside = bounds(*problem.tensors(adapter.library), problem.mask, model=model)
        out = adapter.run(problem)
        inside.check(out)
        assert not inside.contains(out + 0.25)


def off_by_one(problem):
    """Return the options of a causal mask that lets one key of the future through."""
    queries, keys = problem.spec.queries, problem.spec.keys
    return {"attn_mask": torch.ones(queries, keys, dtype=torch.bool).tril(1)}


def broken(q, k, v, **options):  # noqa: ARG001
    raise RuntimeError("no memory")


def unwilling(q, k, v, **options):  # noqa: ARG001
    raise Refused("not today")


def test_mistakes_exceptions_and_refusals_are_counted_apart():
    spec = {"causal": SMALL["causal"]}
    runs = list(
        run_all(replace(ADAPTERS["torch"], options=off_by_one), spec, cases=["last", "random"])
    )
    counted = tally(runs)
    assert (counted.cases, counted.wrong, counted.exact) == (len(runs), len(runs), 0)
    assert "one key of the future" in runs[0].summary
    assert not counted.passed
    raising = replace(ADAPTERS["torch"], attend=broken)
    counted = tally(run_all(raising, spec, cases=["last"]))
    assert (counted.errors, counted.cases, counted.passed) == (counted.cases, counted.errors, False)
    assert counted.coverage == 1.0  # of nothing
    run = run_one(raising, "causal", Problem.build(SMALL["causal"], "last"))
    assert run.summary == "RuntimeError: no memory"
    run = run_one(
        replace(raising, attend=unwilling), "causal", Problem.build(SMALL["causal"], "last")
    )
    assert (run.outcome, run.reason) == ("refused", "not today")


def test_what_a_library_lacks_is_refused_by_name():
    adapter = ADAPTERS["torch"]
    cap = Problem.build(SMALL["soft cap"], "last")
    assert adapter.refuses(cap) == "no soft cap"
    assert adapter.refuses(Problem.build(Spec(dtype="float8_e5m2"), "last")) == "no float8_e5m2"
    assert adapter.refuses(Problem.build(SMALL["plain"], "last")) is None


def test_a_kernel_that_takes_masks_of_booleans_is_not_given_numbers():
    booleans = replace(ADAPTERS["torch"], can=ALL - {BIAS})
    for masks, reason in (((Boolean(),), None), ((Boolean(additive=True),), "no bias")):
        problem = Problem.build(Spec(queries=9, keys=20, masks=masks), "last")
        assert booleans.refuses(problem) == reason


def test_a_library_that_is_not_installed_is_named():
    nowhere = replace(ADAPTERS["torch"], packages={"no_such_module": "no-such-package"})
    with pytest.raises(MissingExtraError, match="adapter") as error:
        nowhere.require()
    assert error.value.witness == "no-such-package"
    assert "pip install no-such-package" in str(error.value)


def test_the_suite_follows_the_conventions_of_an_adapter():
    suite = suite_for(ADAPTERS["torch-mha-weights"], "bfloat16").shapes
    assert {"causal", "ALiBi", "decode, pages"} <= set(suite) <= set(SUITE)
    assert not {"soft cap", "sink", "scale"} & set(suite)
    assert {(spec.dtype, spec.fully_masked) for spec in suite.values()} == {("bfloat16", "nan")}
    assert {(spec.group, spec.d_v == spec.head_dim) for spec in suite.values()} == {(1, True)}
    asked = suite_for(ADAPTERS["torch-mha-weights"], "bfloat16", ["sink", "tiny"], 3).shapes
    assert {(name, spec.seed) for name, spec in asked.items()} == {("sink", 3), ("tiny", 3)}
    names = file_names(SUITE, "npz")
    assert len(set(names)) == len(names)
