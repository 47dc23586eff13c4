"""Adapters: what they refuse, and that the libraries they call are right bit for bit."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from constructive.kernels import ADAPTERS, Problem, Spec
from constructive.kernels.adapters import BIAS, MASK, Refused
from constructive.kernels.batteries import SUITE
from constructive.kernels.intervals import bounds
from constructive.kernels.masks import Boolean, Causal, RightPadding, Window
from constructive.kernels.running import file_names, run_all, suite_for, tally

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "kernels"))

import of_onnx
import of_others

torch = pytest.importorskip("torch")

EVERY = ADAPTERS | of_onnx.ADAPTERS | of_others.ADAPTERS
INSTALLED = [
    name
    for name, adapter in EVERY.items()
    if {"torch", "onnx", "onnxruntime"}.issuperset(adapter.packages.values())
    and "cpu" in adapter.devices
]
TOP, BOTTOM = Causal("top-left"), Causal("bottom-right")
CASES = ["last", "random", "ties", "uniform"]
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
    for adapter in EVERY.values():
        adapter.require_known_names()


@pytest.mark.parametrize("name", INSTALLED)
def test_released_libraries_are_exact(name):
    adapter = EVERY[name]
    adapter.require()
    names = list(adapter.models)
    for dtype in {names[0], names[-1]}:
        specs = {
            shape: replace(spec, dtype=dtype, fully_masked=adapter.fully_masked)
            for shape, spec in SMALL.items()
        }
        runs = list(run_all(adapter, specs, cases=CASES))
        wrong = [str(run.report or run.reason) for run in runs if run.outcome in {"wrong", "error"}]
        assert not wrong
        counted = tally(runs)
        assert counted.passed
        assert counted.coverage > 0.9


@pytest.mark.parametrize("name", INSTALLED)
def test_random_inputs_are_inside_the_interval_of_the_model(name):
    adapter = EVERY[name]
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


def raising(error):
    def attend(*_, **__):
        raise error

    return {"attend": attend}


# It lets one key of the future through.
AHEAD = {"options": lambda _: {"attn_mask": torch.ones(20, 20, dtype=torch.bool).tril(1)}}


@pytest.mark.parametrize(
    ("changed", "outcome", "summary"),
    [
        (AHEAD, "wrong", "the key is the key to be read + 1"),
        (raising(RuntimeError("no memory")), "error", "RuntimeError: no memory"),
        (raising(Refused("not today")), "refused", "not today"),
        ({"attend": lambda q, *_, **__: q[..., :3]}, "error", "the output has shape"),
    ],
)
def test_mistakes_exceptions_and_refusals_are_counted_apart(changed, outcome, summary):
    adapter = replace(ADAPTERS["torch"], **changed)
    (run,) = run_all(adapter, {"causal": SMALL["causal"]}, cases=["last"])
    assert run.outcome == outcome
    assert summary in run.summary
    counted = tally([run])
    assert (counted.cases, counted.exact, counted.passed) == (1, 0, False)
    assert counted.wrong == (outcome == "wrong")
    assert counted.errors == (outcome == "error")
    assert counted.refused == (outcome == "refused")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (SMALL["plain"], None), (Spec(heads=(4, 2), value_dim=32), None),
        (SMALL["soft cap"], "no soft cap"),
        (Spec(dtype="float8_e5m2"), "no float8_e5m2"), (Spec(masks=(Boolean(),)), None),
        (Spec(masks=(Boolean(additive=True),)), "no bias"),
    ],
)  # fmt: skip
def test_what_a_library_lacks_is_refused_by_name(spec, reason):
    booleans = replace(ADAPTERS["torch"], can=ADAPTERS["torch"].can - {BIAS})
    assert booleans.refuses(Problem.build(spec, "last")) == reason


def test_the_suite_follows_the_conventions_of_an_adapter():
    own = replace(ADAPTERS["torch"], fully_masked="nan", can=frozenset({MASK, BIAS}))
    suite = suite_for(own, "bfloat16").shapes
    assert {"causal", "ALiBi", "decode, pages"} <= set(suite) <= set(SUITE)
    assert not {"soft cap", "sink", "scale"} & set(suite)
    assert {(spec.dtype, spec.fully_masked) for spec in suite.values()} == {("bfloat16", "nan")}
    assert {(spec.group, spec.d_v == spec.head_dim) for spec in suite.values()} == {(1, True)}
    asked = suite_for(own, "bfloat16", ["sink", "tiny"], 3).shapes
    assert {(name, spec.seed) for name, spec in asked.items()} == {("sink", 3), ("tiny", 3)}
    names = file_names(SUITE)
    assert len(set(names)) == len(names)
