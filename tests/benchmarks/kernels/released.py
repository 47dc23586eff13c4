"""Run attention kernels of installed libraries on the wide suite, and print a table.

    python tests/benchmarks/kernels/released.py [--device cuda] [--jobs 16] [NAME ..]

A row is a kernel and a format: outputs, log-sum-exps, gradients, merges or quantized caches, and
random inputs with their intervals. What is not installed, or needs a GPU that is not there, is
named and left out. Without a GPU kernels in Triton run in its interpreter, which takes long:
`--seconds` bounds each row, and the table says how many problems were run in it.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from constructive.kernels import Backward, Problem, Quantized, Spec, bounds, examine, merges
from constructive.kernels.adapters import Refused
from constructive.kernels.checking import arranged
from constructive.kernels.inputs import from_layout
from constructive.kernels.masks import Boolean, Causal
from constructive.kernels.merging import MergeReport
from constructive.kernels.spec import as_float64, numpy_dtype
from constructive.support.errors import ParameterError

TOP, BOTTOM = Causal("top-left"), Causal("bottom-right")
RANDOM = {
    "plain": Spec(queries=70, keys=150),
    "causal": Spec(queries=96, keys=96, masks=(TOP,)),
    "causal, bottom-right": Spec(queries=96, keys=96, masks=(BOTTOM,)),
    "causal, more keys": Spec(queries=40, keys=150, masks=(BOTTOM,)),
    "grouped": Spec(heads=(4, 2), queries=64, keys=64, masks=(TOP,)),
    "boolean": Spec(queries=50, keys=90, masks=(Boolean(),)),
    "decode": Spec(heads=(4, 2), queries=1, keys=300, masks=(BOTTOM,)),
    "long": Spec(queries=16, keys=1000),
}
SIZES = 1.0, 4.0  # standard deviations of entries: with 4, logits are 16 times those of 1
# One thread for each of many processes, and messages that say what was raised
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "JAX_TRACEBACK_FILTERING": "off",
}  # fmt: skip
MERGES = 40  # seeds of merges
KEPT = 12  # reports of a row that are kept in full


class Result:
    """What became of the problems of a row; a line of JSON after each shape."""

    def __init__(self, row, dtype, device, part, output, seconds):
        self.row, self.dtype, self.device, self.output = row, dtype, device, output
        self.end = time.monotonic() + seconds
        self.found = {"row": row.name, "dtype": dtype, "device": device, "part": part}
        self.counts, self.refused, self.errors = Counter(), Counter(), Counter()
        self.wrong, self.last, self.where = [], "", ""

    @property
    def is_over(self):
        return time.monotonic() > self.end

    def run(self, what, function, *arguments, **more):
        """Return what the library computes, or None where it refuses or fails."""
        self.last = what
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return function(*arguments, **more)
        except Refused as refusal:
            self.counts["refused"] += 1
            self.refused[str(refusal)[:120]] += 1
        except Exception as error:  # whatever a library raises is an outcome
            self.counts["error"] += 1
            said = traceback.format_exception_only(error)[-1].strip()[:400]
            if said[:80] not in {each[:80] for each in self.errors}:
                frames = traceback.extract_tb(error.__traceback__)[-3:]
                where = " <- ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
                self.wrong.append(f"ERROR {what}: {said} ({where})")
            self.errors[said[:160]] += 1
            if "CUDA error" in said or "illegal memory" in said:
                raise
        return None

    def judge(self, what, argument, examined, repeated):
        """Run the kernel of the row, examine what it returns, and count the report."""
        found = self.run(what, self.row.compute, argument, self.device)
        report = None if found is None else self.run(what, examined, found)
        if report is None:
            return
        self.counts["run"] += 1
        self.counts["exact" if report.passed else "wrong"] += 1
        if not report.passed:
            text = str(report)
            if sum(not each.startswith("ERROR") for each in self.wrong) < KEPT:
                self.wrong.append(f"{text}\n  {repeated}")
            else:
                self.wrong.append(text.splitlines()[0])

    def write(self, state):
        line = self.found | {
            "state": state, "counts": dict(self.counts), "refused": dict(self.refused),
            "errors": dict(self.errors), "wrong": self.wrong, "where": self.where,
            "version": self.row.version(),
        }  # fmt: skip
        with Path(self.output).open("a") as file:
            file.write(json.dumps(line) + "\n")


def work(row, dtype, device, part, output, seconds):
    """Run one row in one format, one of several parts of its shapes."""
    result = Result(row, dtype, device, part, output, seconds)
    with np.errstate(all="ignore"):
        try:
            row.prepare(device)
            _KINDS[row.kind](result, part)
            result.write("over time" if result.is_over else "done")
        except BaseException as error:
            said = traceback.format_exc()[-1500:]
            result.errors[f"ended at {result.last}: {error!r}"[:300]] += 1
            result.wrong.append(said)
            result.write("ended")
            if isinstance(error, KeyboardInterrupt):
                raise


def _problems(result, part):
    """Yield problems of the shapes of a part that the kernel takes, until the time is over."""
    index, count = part
    suite = result.row.battery(result.dtype)
    for place, (name, spec) in enumerate(suite.shapes.items()):
        if place % count == index:
            result.where = name
            for problem in replace(suite, shapes={name: spec}) if _applies(suite, spec) else ():
                reason = result.row.refuses(problem)
                if result.is_over:
                    return
                if reason:
                    result.counts["refused"] += 1
                    result.refused[reason[:120]] += 1
                else:
                    yield problem
            result.write("so far")


def _applies(suite, spec):
    """Return whether some case applies to a spec."""
    from constructive.kernels.batteries import attempt

    return any(not isinstance(attempt(spec, case), str) for case in suite.cases)


def forward(result, part):
    row, says = result.row, dict(result.row.says)
    for problem in _problems(result, part):
        judged = row.become(problem)

        def examined(found, problem=problem, judged=judged):
            out, lse = _parted(row, problem, found)
            has = {"lse": lse, **says} if lse is not None else {}
            result.counts["with lse"] += lse is not None
            return examine(judged, out, layout=row.layout, **has)

        result.judge(f"{result.where}/{problem.case}", problem, examined, repr(judged))
    if part[0] == 0:
        inside(result)


def inside(result):
    """Compare random inputs with intervals."""
    row, dtype = result.row, result.dtype
    model = row.model(dtype, result.device)
    for name, spec in RANDOM.items():
        for size in SIZES:
            if model is None or result.is_over:
                return
            problem = drawn(replace(spec, dtype=dtype, **row.fixed(spec)), size)
            if not row.applies(problem.spec) or row.refuses(problem):
                continue
            found = result.run(f"random {name}", row.compute, problem, result.device)
            if found is None:
                continue
            out, _ = _parted(row, problem, found)
            q, k, v = problem.tensors()
            given = {"scale": problem.spec.factor, "model": model, "fully_masked": None}
            inside = bounds(q, k, v, problem.mask, **given)
            out = arranged(problem, as_float64(out), row.layout)
            outside = inside.outside(out.astype(numpy_dtype(problem.spec.output.name)))
            result.counts["numbers"] += int(inside.judged.sum()) * out.shape[-1]
            result.counts["outside"] += int(outside.sum())
            if outside.any():
                result.wrong.append(f"INTERVAL {name}, size {size:g}: {int(outside.sum())} outside")


def _parted(row, problem, found):
    """Return an output, and log-sum-exps (B, H, T_q) or None."""
    out, lse = found if isinstance(found, tuple) else (found, None)
    if lse is None:
        return out, None
    lse = as_float64(lse)
    if row.layout == "packed" and lse.ndim == 2:
        lse = lse.T if row.heads_first else lse
        lse = from_layout(problem.spec, lse[..., None], "packed")[..., 0]
    elif row.layout == "BTHd" and not row.heads_first:
        lse = lse.swapaxes(1, 2)
    return out, lse


def drawn(spec, size):
    """Return a problem of a spec with random q, k and v of its format."""
    problem = Problem.build(spec, "last")
    random = np.random.default_rng(0)
    form = numpy_dtype(spec.dtype)
    q, k, v = (
        (size * random.standard_normal(x.shape)).astype(form).astype(np.float64)
        for x in (problem.q, problem.k, problem.v)
    )
    if spec.dtype == "tf32":
        q, k, v = (np.float32(x).view(np.uint32) & np.uint32(0xFFFFE000) for x in (q, k, v))
        q, k, v = (x.view(np.float32).astype(np.float64) for x in (q, k, v))
    for x in (q, k, v):
        x[np.abs(x) < spec.inputs.smallest] = 0.0  # some libraries flush these
    return replace(problem, draft=replace(problem.draft, q=q, k=k), v=v)


def backward(result, part):
    row = result.row
    for problem in _problems(result, part):
        try:
            each = Backward.of(problem, d_lse=row.d_lse)
        except ParameterError:  # its gradients are not known
            continue

        def examined(found, each=each):
            return each.examine(*found[:3], **(found[3] if len(found) > 3 else {}))

        result.judge(f"{result.where}/{problem.case}", each, examined, repr(each))


def merging(result, part):
    row = result.row
    for seed in range(part[0], MERGES, part[1]):
        for shape in ({}, {"tokens": 33, "heads": 3, "value_dim": 64}):
            if row.given.get("head_dim", shape.get("value_dim")) != shape.get("value_dim"):
                continue
            given = {"states": row.states, "dtype": result.dtype, "base": row.says.get("base", "e")}
            for merge in merges(seed=seed, **given, **shape):

                def examined(found, merge=merge):
                    out, lse = (None if x is None else as_float64(x) for x in found)
                    return MergeReport(merge, out, lse)

                result.judge(f"seed {seed}", merge, examined, f"merges(seed={seed})")
        result.write("so far")


def quantized(result, part):
    row = result.row
    for problem in _problems(result, part):
        for form, k, v in row.forms:
            if result.is_over:
                return
            what = f"{result.where}/{problem.case}/{form}/{k}/{v}"
            try:
                with contextlib.suppress(AttributeError):
                    each = Quantized.of(problem, form=form, k=k, v=v, page_size=16)
            except Exception as error:  # no such numbers in this form
                result.refused[str(error).splitlines()[0][:120]] += 1
                result.counts["no such problem"] += 1
                continue

            def examined(found, each=each):
                out = found[0] if isinstance(found, tuple) else found
                return examine(each.problem, out, layout=row.layout)

            result.judge(what, each, examined, repr(each.problem))


_KINDS = {
    "forward": forward, "backward": backward, "merge": merging, "quantized": quantized,
}  # fmt: skip


def tasks(rows, options):
    """Yield what is run: row, format, part."""
    for row in rows:
        for dtype in options.dtype or row.dtypes_on(options.device):
            if dtype in row.dtypes_on(options.device):
                count = row.parts if options.jobs > 1 else 1
                for index in range(count):
                    yield row, dtype, (index, count)


def run_tasks(every, options):
    """Run tasks in processes, as many at once as there are jobs."""
    context = multiprocessing.get_context("fork")
    waiting, running = list(every), {}
    end = time.monotonic() + options.total
    while waiting or running:
        now = time.monotonic()
        for process in list(running):
            limit = running[process]
            if not process.is_alive():
                process.join()
                del running[process]
            elif now > min(limit, end):
                process.kill()
                process.join()
                del running[process]
        if now > end:
            break
        while waiting and len(running) < options.jobs:
            row, dtype, part = waiting.pop(0)
            left = min(options.seconds * row.patience, end - now - 3)
            if left < 5:
                continue
            name = f"{row.name}-{dtype}-{part[0]}".replace(" ", "_").replace("/", "_")
            output = Path(options.output) / f"{name}.jsonl"
            process = context.Process(
                target=work, args=(row, dtype, options.device, part, str(output), left)
            )
            process.start()
            running[process] = now + left + 20
        time.sleep(0.05)


def table(folder):
    """Return the rows of all results in a folder: the last line of each part, added up."""
    found = {}
    for file in sorted(Path(folder).glob("*.jsonl")):
        line = json.loads(file.read_text().splitlines()[-1])
        key = line["row"], line["version"], line["dtype"]
        counts, states, wrong, errors, refused = found.setdefault(
            key, (Counter(), Counter(), [], Counter(), Counter())
        )
        counts.update(line["counts"])
        states[line["state"]] += 1
        wrong.extend(line["wrong"])
        errors.update(line["errors"])
        refused.update(line["refused"])
    return found


def show(folder, *, details):
    heads = ("run", "exact", "wrong", "with lse", "refused", "error", "numbers", "outside")
    print(f"{'kernel':<40}{'version':<16}{'format':<9}" + "".join(f"{h:>9}" for h in heads))
    for (name, version, dtype), (counts, states, wrong, errors, refused) in table(folder).items():
        unfinished = {k: v for k, v in states.items() if k != "done"}
        print(
            f"{name:<40}{version[:15]:<16}{dtype:<9}"
            + "".join(f"{counts[h]:>9}" for h in heads)
            + (f"  {unfinished}" if unfinished else "")
        )
        if details:
            for each in wrong[: details if isinstance(details, int) else None]:
                print("    " + each.replace("\n", "\n    "))
            for said, count in (*errors.most_common(5), *refused.most_common(5)):
                print(f"    {count} x {said}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="parts of the names of rows")
    parser.add_argument("--dtype", action="append")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0, help="of a row")
    parser.add_argument("--total", type=float, default=36000.0, help="seconds of all rows")
    parser.add_argument("--output", default="released-results")
    parser.add_argument("--details", type=int, default=3, help="reports of each row")
    options = parser.parse_args()
    if options.device is None:
        options.device = "cuda" if _has_cuda() else "cpu"
    if options.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from libraries import every_row

    rows = [
        row for row in every_row() if not options.names or any(n in row.name for n in options.names)
    ]
    there = []
    for row in rows:
        missing = row.missing(options.device)
        if missing:
            print(f"{row.name}: {missing}")
        else:
            there.append(row)
    Path(options.output).mkdir(parents=True, exist_ok=True)
    for file in Path(options.output).glob("*.jsonl"):
        file.unlink()
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(1)
    run_tasks(list(tasks(there, options)), options)
    show(options.output, details=options.details)
    return 0


def _has_cuda():
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.version.cuda) and Path("/dev/nvidia0").exists()


if __name__ == "__main__":
    sys.exit(main())
