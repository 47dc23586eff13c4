"""Run the adapters of installed libraries: exact answers, and intervals for random inputs.

    python tests/benchmarks/kernels/released.py [--dtype float16] [--no-intervals] [ADAPTER ..]

Libraries exclude each other in one environment; run it in several, and read the lines together.
Kernels in Triton need TRITON_INTERPRET=1, Keras needs KERAS_BACKEND=jax.
"""

import argparse
import sys
import time
from dataclasses import replace

import numpy as np

from constructive.kernels.adapters import ADAPTERS
from constructive.kernels.adapters.adapter import Refused
from constructive.kernels.batteries import BOTTOM, TOP
from constructive.kernels.intervals import bounds
from constructive.kernels.masks import Boolean
from constructive.kernels.problem import Problem
from constructive.kernels.running import run_all, suite_for, tally
from constructive.kernels.spec import Spec, numpy_dtype
from constructive.support.errors import MissingExtraError

RANDOM = {
    "plain": Spec(queries=70, keys=150),
    "causal": Spec(queries=96, keys=96, masks=(TOP,)),
    "causal, more keys": Spec(queries=40, keys=150, masks=(BOTTOM,)),
    "grouped": Spec(heads=(4, 2), queries=64, keys=64, masks=(TOP,)),
    "boolean": Spec(queries=50, keys=90, masks=(Boolean(),)),
    "long": Spec(queries=16, keys=1000),
}
SIZES = 1.0, 4.0
"""Standard deviations of entries: with 4, logits reach about 20 times that of 1."""


def exact(adapter, dtype):
    """Run the suite: its tally, and what was wrong."""
    runs = []
    for shape, spec in suite_for(adapter, dtype).shapes.items():
        runs.extend(run_all(adapter, {shape: spec}))
    wrong = {}
    for run in runs:
        if run.outcome in {"wrong", "error"}:
            wrong.setdefault(run.summary, []).append(f"{run.shape}/{run.problem.case}")
    return tally(runs), wrong


def inside(adapter, dtype):
    """Compare random inputs with intervals: numbers, how many outside, bound over largest error."""
    count = outside = 0
    ratio = 0.0
    for spec in RANDOM.values():
        for size in SIZES:
            problem = drawn(replace(spec, dtype=dtype), size)
            if adapter.refuses(problem) is not None:
                continue
            try:
                out = adapter.run(problem)
            except Refused:
                continue
            q, k, v = problem.tensors()
            found = bounds(
                q, k, v, problem.mask, model=adapter.models[dtype], fully_masked=None
            )  # fmt: skip
            wrong = found.outside(out.astype(numpy_dtype(problem.spec.output.name)))
            count += int(found.judged.sum()) * out.shape[-1]
            outside += int(wrong.sum())
            middle = (found.lower + found.upper) / 2
            error = np.abs(out - middle)[found.judged].max()
            ratio = max(ratio, (found.upper - found.lower)[found.judged].max() / 2 / error)
    return count, outside, ratio


def drawn(spec, size):
    """Return a problem of a spec with random q, k and v of its format."""
    problem = Problem.build(spec, "last")
    random = np.random.default_rng(0)
    q, k, v = (
        (size * random.standard_normal(x.shape)).astype(numpy_dtype(spec.dtype)).astype(np.float64)
        for x in (problem.q, problem.k, problem.v)
    )
    for x in (q, k, v):
        x[np.abs(x) < spec.inputs.smallest] = 0.0  # some libraries flush these
    return replace(problem, draft=replace(problem.draft, q=q, k=k), v=v)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("adapters", nargs="*")
    parser.add_argument("--dtype", action="append")
    parser.add_argument("--no-intervals", action="store_true")
    options = parser.parse_args()
    print(
        f"{'adapter':<22}{'version':<14}{'dtype':<10}{'runs':>5}{'exact':>6}{'wrong':>6}"
        f"{'errors':>7}{'refused':>8}{'cover':>7}{'numbers':>9}{'outside':>8}{'ratio':>8}{'s':>6}"
    )
    deviations = {}
    for name in options.adapters or ADAPTERS:
        adapter = ADAPTERS[name]
        try:
            adapter.require()
        except MissingExtraError as error:
            print(f"{name:<22}{error.problem}")
            continue
        if "cpu" not in adapter.devices:
            print(f"{name:<22}not measured: it needs {', '.join(adapter.devices)}")
            continue
        for dtype in options.dtype or adapter.models:
            if dtype not in adapter.models:
                continue
            started = time.monotonic()
            t, wrong = exact(adapter, dtype)
            count, outside, ratio = (0, 0, 0.0) if options.no_intervals else inside(adapter, dtype)
            print(
                f"{name:<22}{adapter.version()[:13]:<14}{dtype:<10}{t.cases - t.refused:>5}"
                f"{t.exact:>6}{t.wrong:>6}{t.errors:>7}{t.refused:>8}{t.coverage:>7.0%}"
                f"{count:>9}{outside:>8}{ratio:>8.1f}{time.monotonic() - started:>6.0f}",
                flush=True,
            )
            for sentence, where in wrong.items():
                deviations.setdefault(f"{name}: {sentence}", []).extend(
                    f"{dtype} {each}" for each in where
                )
    for sentence, where in deviations.items():
        print(f"\n{sentence}\n    {len(where)}: {'; '.join(where[:6])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
