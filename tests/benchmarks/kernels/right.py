"""Look for false alarms: right kernels of many kinds on random problems and random inputs.

    python tests/benchmarks/kernels/right.py --seeds 20000 --jobs 2

A seed draws a shape, masks and options, a format and a case. Right kernels are those of the tests:
softmax in one piece; blocks; lazy rescaling; splits; base 2 with a fused exponent; weights that are
stored in 16 bits; scales in queries; and for log-sum-exps, gradients, merges, quantized caches and
intervals one or several of each. Any alarm is a bug of the library. It prints their number and the
first ones.
"""

import argparse
import logging
import os
import sys
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "kernels"))

import kernel_programs as programs
import ml_dtypes
import numpy as np
from kernels_of_tests import VARIANTS, Flash, attend, plain, random_spec, rounded
from test_encodings import KINDS, dequantized
from test_gradients import BaseTwo, Steps
from test_log_sum_exps import at_once, kernel, logaddexp, sigmoid, two_by_two

from constructive.exact.formats import FORMATS, nearest
from constructive.exact.kernel_model import KERNEL_MODELS
from constructive.kernels import CASES, Backward, Problem, Quantized, bounds, examine, merges
from constructive.kernels.encodings import FORMS
from constructive.kernels.merging import MergeReport
from constructive.kernels.problem import attempt
from constructive.support.errors import DataError, ParameterError

STEP = 250
LARGEST_VALUE = 8.0
SINGLE = np.float32
ALL = ("float64", "float32", "tf32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def variant(number):
    def run(problem):
        return attend(problem.q, problem.k, problem.v, problem, **VARIANTS[number])

    return run


# Twelve kinds of forward passes; in float64 the first and the second.
FORWARD = {
    "one piece": lambda p: plain(p, np.float64 if p.spec.dtype == "float64" else SINGLE),
    "blocks of 16": lambda p: Flash(
        p, real=np.float64 if p.spec.dtype == "float64" else SINGLE
    ).output(),
    "blocks of 7": lambda p: Flash(p, block=7).output(),
    "lazy": lambda p: Flash(p, block=7, lag=np.log(256.0)).output(),
    "three splits": lambda p: Flash(p, splits=3).output(),
    "exact, then rounded": lambda p: plain(p, np.float64),
    **{f"variant {VARIANTS[number]}": variant(number) for number in range(len(VARIANTS))},
}


def drawn(seed, dtypes=ALL, cases=None, **fixed):
    """Return a problem of a seed, or None where its case does not apply."""
    random = np.random.default_rng((seed, 71))
    fixed = {"dtype": str(random.choice(dtypes)), "alibi": bool(random.random() < 0.08)} | fixed
    spec = random_spec(seed, **fixed)
    if spec.alibi:
        spec = replace(spec, soft_cap=None, bias=None)
    found = attempt(spec, str(random.choice(cases or list(CASES))))
    return found if isinstance(found, Problem) and found.answer.checked.any() else None


def forward(seed):
    problem = drawn(seed)
    if problem is None:
        return None
    names = list(FORWARD)[:2] if problem.spec.dtype == "float64" else list(FORWARD)
    name = names[seed % len(names)]
    if problem.spec.dtype in ("float32", "tf32") and "stored" in name:
        name = "blocks of 16"
    out = np.asarray(FORWARD[name](problem), float)
    return name, examine(problem, rounded(out, problem.spec.output.name))


def of_lse(seed):
    problem = drawn(seed, dtypes=("float32", "float16", "bfloat16"))
    if problem is None:
        return None
    how = {"base": "e2"[seed % 2]} | ({}, {"splits": 3}, {"base2": True})[seed % 3]
    if how.get("splits") and problem.case in ("ties", "uniform"):
        how = {"base": how["base"]}
    out, lse = kernel(problem, **how)
    return f"lse {how}", examine(problem, out, lse=lse, base=how["base"])


def in_float8(seed):
    """Outputs that are stored in float8, with scales of their own."""
    problem = drawn(seed, dtypes=("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"))
    if problem is None or problem.v.max() > LARGEST_VALUE:  # which float8 does not hold
        return None
    name = ("float8_e4m3fn", "float8_e5m2")[seed % 2]
    random = np.random.default_rng((seed, 79))
    shape = problem.expected.shape
    scales = (
        np.asarray(2.0 ** random.integers(-4, 3)), np.asarray(random.random() + 0.05),
        random.random((*shape[:3], 1)) + 0.05,
    )  # fmt: skip
    scale = scales[seed % 3].astype(SINGLE)
    names = list(FORWARD)
    out = np.asarray(FORWARD[names[seed % len(names)]](problem), SINGLE)
    if seed // 3 % 2:
        out = rounded(out, problem.spec.output.name).astype(SINGLE)
    times = out * (SINGLE(1.0) / scale) if seed // 6 % 2 else out / scale
    stored = times.astype(getattr(ml_dtypes, name))
    return f"{name}", examine(problem, stored, out_scale=scale)


def gradients(seed):
    problem = drawn(seed, dtypes=("float32", "float16", "bfloat16"))
    if problem is None:
        return None
    given = {"d_lse": bool(seed % 2), "keep": (None, None, 0.5, 0.25)[seed % 4]}
    try:
        backward = Backward.of(problem, **given)
    except ParameterError:
        return None
    kind = (Steps, BaseTwo)[seed // 4 % 2]
    return f"gradients {kind.__name__}", kind(backward, SINGLE).report()


def merging(seed):
    dtype, base = ("float32", "bfloat16", "float16")[seed % 3], "e2"[seed // 3 % 2]
    count = 2 + seed % 7
    *_, merge = merges(count, dtype=dtype, base=base, seed=seed, sink=seed % 5 == 0)
    outs, lses = merge.outs.astype(SINGLE), merge.lses.astype(SINGLE)
    if merge.sinks is not None:  # one more state, with the output 0
        more = np.broadcast_to(merge.sinks.astype(SINGLE), (1, *lses.shape[1:]))
        outs, lses = np.concatenate([outs, 0 * outs[:1]]), np.concatenate([lses, more])
    which = seed // 6 % 5
    if which == 0:
        out, lse = at_once(outs, lses, base)
    else:
        pair = (sigmoid, logaddexp)[which % 2]
        states = list(zip(outs, lses, strict=True))
        out, lse = two_by_two(pair, states, base, is_tree=which > 2)
    return f"merge {which}", MergeReport(merge, nearest(out, FORMATS[dtype]), lse.astype(float))


def of_cache(seed):
    form = list(FORMS)[seed % len(FORMS)]
    fixed = {"dtype": form} if form.startswith("float8") and seed % 5 == 0 else {}
    problem = drawn(seed, dtypes=("float32", "float16", "bfloat16"), alibi=False, **fixed)
    if problem is None:
        return None
    kinds = {"k": KINDS[seed % 7], "v": KINDS[seed // 7 % 7]}
    try:
        quantized = Quantized.of(problem, form=form, page_size=8, **kinds)
    except ParameterError:
        return None
    how = VARIANTS[seed % len(VARIANTS)]
    out = dequantized(quantized, how, after=seed % 2 == 0)
    return f"cache {form}", examine(quantized.problem, out)


class Inside:
    """A report on an interval."""

    def __init__(self, wrong, said):
        self.passed, self.said = not wrong, f"{wrong} numbers outside: {said}"

    def __str__(self):
        return self.said


def intervals(seed):
    """A random program of a model on random inputs."""
    random = np.random.default_rng((seed, 73))
    names = [name for name in KERNEL_MODELS if "64" not in name]
    name = names[seed % len(names)]
    keys, queries, width = (int(random.integers(1, n)) for n in (80, 6, 40))
    size = float(random.choice([0.3, 1.0, 3.0]))
    q, k, v = (
        programs.inputs(random, name, shape, size)
        for shape in ((queries, width), (keys, width), (keys, 5))
    )
    if name == "tf32":
        q, k, v = (programs._cut(x).astype(float) for x in (q, k, v))
    visible = random.random((queries, keys)) < 0.8
    visible[:, 0] = True
    cap = None if random.random() < 0.8 else 30.0
    scale = width**-0.5
    program = programs.draw(random, name, keys)
    out = programs.evaluate(program, q, k, v, scale=scale, visible=visible, softcap=cap)
    arrays = (x[None, None] for x in (q, k, v))
    try:
        found = bounds(*arrays, visible[None, None], scale, name, softcap=cap)
    except (ParameterError, DataError):
        return None
    with np.errstate(invalid="ignore"):
        outside = ~((found.lower <= out[None, None]) & (out[None, None] <= found.upper))
    return f"interval {name}", Inside(int(outside.sum()), f"{program}")


KINDS_OF = {
    "forward": forward, "log-sum-exps": of_lse, "float8": in_float8, "gradients": gradients,
    "merges": merging, "caches": of_cache, "intervals": intervals,
}  # fmt: skip


def work(kind, first, last):
    """Return how many of some seeds were of which kernel, and the alarms."""
    counts, alarms = Counter(), []
    logging.disable(logging.ERROR)
    for seed in range(first, last):
        try:
            with np.errstate(all="ignore"):
                found = KINDS_OF[kind](seed)
        except Exception:  # an error of ours is as bad as an alarm
            counts["error"] += 1
            alarms.append(f"ERROR {kind} {seed}: {traceback.format_exc()[-900:]}")
            continue
        if found is None:
            counts["no such problem"] += 1
            continue
        name, report = found
        counts["run"] += 1
        counts[name] += 1
        if not report.passed:
            counts["alarm"] += 1
            alarms.append(f"ALARM {kind} {seed} {name}: {str(report)[:1500]}")
    return kind, counts, alarms


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=list(KINDS_OF))
    parser.add_argument("--seeds", type=int, default=20000)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    found, alarms = {kind: Counter() for kind in options.kinds}, []
    with ProcessPoolExecutor(options.jobs) as pool:
        parts = [
            pool.submit(work, kind, first, min(first + STEP, options.seeds))
            for first in range(0, options.seeds, STEP)
            for kind in options.kinds
        ]
        for part in as_completed(parts):
            kind, counts, raised = part.result()
            found[kind].update(counts)
            alarms += raised
    for kind, counts in found.items():
        print(f"{kind}: {counts['run']} run, {counts['alarm']} alarms, {counts['error']} errors")
        print(
            "    " + "; ".join(f"{n} {c}" for n, c in counts.items() if n not in ("run", "alarm"))
        )
    print(*alarms[:12], sep="\n")
    return int(bool(alarms))


if __name__ == "__main__":
    sys.exit(main())
