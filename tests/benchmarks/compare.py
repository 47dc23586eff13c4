"""What building, proving and checking cost beside what one would do instead: docs/performance.md.

    python tests/benchmarks/compare.py [--runs 3] [--largest 31001] [--cap 300] [--only NAME ...]

Every measurement is a process of its own, so that its peak memory can be read; what belongs to one
comparison is measured in turn, run by run, and each figure is the median over the runs. Sizes are
those of the theorem's bound with n = 32 and d = 64: H = (T - 1) / 31.

    scale     build, certify and check against T, with fitted exponents
    peers     at T = 1861: a build against random heads and numpy.linalg.lstsq
    training  at T = 621: a build against Adam in PyTorch until the error is below 1e-3, or a cap
    rank      certify against python-flint's rank modulo the same kind of prime
    largest   T = 100,007 in float32: build, certify, check
    wide      d = 384 and 768 in float32, n = 16: assumptions, build, certify, check
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent))

from claim_parts import certified

from constructive import (
    AttentionLayer,
    Dataset,
    assumptions,
    build_memorizer,
    certify,
    check,
    generators,
)
from constructive.exact import modular
from constructive.layers import residues

SIZE, WIDTH = 32, 64
SHARED = "shared"
COMPARISONS = ["scale", "peers", "training", "rank", "largest", "wide"]


def heads_for(total):
    return -(-(total - 1) // (SIZE - 1))


def make(kind, total, seed=0):
    sizes = {"num_examples": total, "context_size": SIZE, "width": WIDTH, "seed": seed}
    if kind == "float32":
        rng = np.random.default_rng(seed)
        contexts = rng.random((total, SIZE, WIDTH), dtype=np.float32)
        queries = rng.random((total, WIDTH), dtype=np.float32)
        return Dataset(contexts, queries, rng.random(total))
    return (generators.shared_context if kind == SHARED else generators.uniform)(**sizes)


def timed(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


# What is measured, each in a process of its own. They return numbers by name.


def ours(kind, total, heads=None, *, prove=False):
    """Pairs, at every size."""
    heads = heads_for(total) if heads is None else heads
    return built(make(kind, total), "paired", heads, prove=prove)


def built(data, construction, heads, *, prove, claims=None):
    """A build by some construction, and the proof of some claims and the check of that."""
    build_memorizer(make("uniform", 200), num_heads=8, construction=construction)  # loads libraries
    forget_peak()
    before = memory("VmRSS")
    seconds, memorizer = timed(
        lambda: build_memorizer(data, num_heads=heads, construction=construction)
    )
    found = {
        "build": seconds,
        "memory": memory("VmHWM") - before,
        "condition": memorizer.record.condition,
    }
    found |= {"own error": memorizer.record.max_error, "coupled": memorizer.record.coupled}
    found["heads"] = memorizer.layer.num_heads
    sample = np.linspace(0, data.num_examples - 1, min(data.num_examples, 1000)).astype(int)
    part = data.take(sample)
    found["error"] = memorizer.max_error(part)
    if prove:
        found["certify"], certificate = timed(
            lambda: (
                certify(memorizer, data, claims=claims) if claims else certified(memorizer, data)
            )
        )
        found["memory with proof"] = memory("VmHWM") - before
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("c.json", "w.safetensors", "d.npz")]
            for what, path in zip((certificate, memorizer, data), files, strict=True):
                what.save(path)
            found["check"], checked = timed(lambda: check(*files))
        found["verdict"] = f"{certificate.verdict.name}, {checked.verdict.name}"
    return found


def wide_data(total, width):
    data = generators.gaussian(num_examples=total, context_size=16, width=width)
    return Dataset(*(x.astype(np.float32) for x in (data.contexts, data.queries, data.targets)))


def wide(total, width, construction):
    """Pairs, or by default the fewest heads which hold so many examples."""
    heads = 2 * -(-(total - 1) // (width - 2)) if construction == "paired" else None
    claims = "rank", "error"  # an inverse of all of Z takes too much memory, and hours to check
    return built(wide_data(total, width), construction, heads, prove=True, claims=claims)


def assumed(total, width):
    """The report about the assumptions."""
    data = wide_data(total, width)
    return {"seconds": timed(lambda: assumptions.check(data))[0]}


def random_heads(kind, total):
    """Random heads of logit deviation 1 and numpy.linalg.lstsq, which a user would really do."""
    data, heads = make(kind, total), heads_for(total)
    rng = np.random.default_rng(0)

    def work():
        scale = np.sqrt(np.mean(data.queries**2) * np.mean(data.contexts**2)) * WIDTH
        query_weights, key_weights = rng.standard_normal((2, heads, WIDTH, SIZE))
        query_weights /= scale * np.sqrt(SIZE)
        layer = AttentionLayer.from_effective_readout(
            query_weights, key_weights, np.zeros((heads * WIDTH, 1))
        )
        z = layer.intermediate(data.contexts, data.queries)
        readout, _, _, singular = np.linalg.lstsq(z, data.target_matrix, rcond=None)
        return np.abs(z @ readout - data.target_matrix).max(), singular[0] / singular[-1]

    seconds, (error, condition) = timed(work)
    return {"random": seconds, "error": float(error), "condition": float(condition)}


def condition_of(kind, total):
    """The condition number of Z for our heads, by all singular values, and the readout's length."""
    data, heads = make(kind, total), heads_for(total)
    found = {}
    for construction in ("saturated",) if kind == SHARED else ("saturated", "paired"):
        memorizer = build_memorizer(data, num_heads=heads, construction=construction)
        z = memorizer.layer.intermediate(data.contexts, data.queries)
        singular = np.linalg.svd(z, compute_uv=False)[:total]
        found[construction] = float(singular[0] / singular[-1])
    return found


def training(kind, total, head_dim, cap):
    """Adam on a layer of one shape from PyTorch's usual start, full batches; its best error."""
    import torch

    torch.manual_seed(0)
    data, heads = make(kind, total), heads_for(total)
    contexts, queries, targets = (
        torch.tensor(x, dtype=torch.float32) for x in (data.contexts, data.queries, data.targets)
    )

    def weights(*shape, fan):
        return torch.nn.Parameter((torch.rand(*shape) * 2 - 1) / fan**0.5)

    w_q, w_k = (weights(heads, WIDTH, head_dim, fan=WIDTH) for _ in range(2))
    readout = weights(heads, WIDTH, fan=heads * WIDTH)
    optimizer = torch.optim.Adam([w_q, w_k, readout], lr=1e-3)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=200)
    start, steps, best = time.perf_counter(), 0, float("inf")
    while time.perf_counter() - start < cap and best >= 1e-3:
        keys = torch.einsum("td,hdk,hek->the", queries, w_q, w_k)
        attention = torch.softmax(keys @ contexts.transpose(-1, -2), dim=2)
        outputs = torch.einsum("thd,hd->t", attention @ contexts, readout)
        loss = ((outputs - targets) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step(loss.detach())
        steps, best = steps + 1, min(best, float((outputs - targets).abs().max().detach()))
    return {"training": time.perf_counter() - start, "steps": steps, "error": best}


def flint_rank(kind, total):
    """The rank of the same T columns of Z modulo one prime: ours, and python-flint's."""
    import flint

    data = make(kind, total)
    layer = build_memorizer(data, num_heads=heads_for(total), construction="saturated").layer
    found = residues.search(layer, data, np.random.default_rng(0))
    z = residues.intermediate(layer, data, found.point, found.columns)
    prime = found.point.prime
    ours_seconds, factors = timed(lambda: modular.factor(z.copy(), prime))
    convert, matrix = timed(
        lambda: flint.nmod_mat(*z.shape, (z.astype(np.int64) % prime).ravel().tolist(), prime)
    )
    theirs, rank = timed(matrix.rank)
    return {
        "ours": ours_seconds,
        "flint": theirs,
        "convert": convert,
        "ranks": [factors.rank, int(rank)],
    }


def memory(field):
    """VmRSS, what the process has, or VmHWM, the most it had; in bytes (Linux)."""
    status = Path("/proc/self/status").read_text().split()
    return 1024 * int(status[status.index(f"{field}:") + 1])


def forget_peak():
    """Set VmHWM to what the process has now, so that making the data does not count."""
    Path("/proc/self/clear_refs").write_text("5")


WORK = {
    function.__name__: function
    for function in (
        ours, wide, assumed, random_heads, condition_of, training, flint_rank,
    )
}  # fmt: skip


def _child(function, arguments, options, pipe):
    pipe.send(function(*arguments, **options))
    pipe.close()


def measure(name, *arguments, **options):
    """One measurement in a fresh process."""
    return measure_in(WORK, name, *arguments, **options)


def measure_in(functions, name, *arguments, **options):
    """The same, of functions by name."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(functions[name], arguments, options, send))
    process.start()
    send.close()
    try:
        found = receive.recv()
    except EOFError:
        found = None
    process.join()
    return found


def medians(rows):
    """The median of every number by name; other things from the last run."""
    return {
        key: statistics.median(row[key] for row in rows)
        if isinstance(rows[0][key], (int, float))
        else rows[-1][key]
        for key in rows[0]
    }


def repeated(runs, *arguments, **options):
    return medians([measure(*arguments, **options) for _ in range(runs)])


def exponent(totals, seconds):
    """The slope of log seconds against log T, from the second size on."""
    return float(np.polyfit(np.log(totals[1:]), np.log(seconds[1:]), 1)[0])


def megabytes(count):
    return f"{count / 1e6:,.0f} MB"


class Report:
    """Tables as they stand in docs/performance.md."""

    def __init__(self):
        self.console = Console(width=140)

    def table(self, title, headings, rows):
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for heading in headings:
            table.add_column(heading, justify="right")
        for row in rows:
            table.add_row(*map(str, row))
        self.console.print(table)
        self.console.print()

    def say(self, text):
        self.console.print(text + "\n")


def scale(report, given):
    totals = [t for t in (621, 1861, 6201, 15501, 31001) if t <= given.largest]
    found = {t: repeated(given.runs, "ours", "uniform", t, prove=True) for t in totals}
    headings = ["T", "H", "build", "error", "memory", "coupled"]
    rows = []
    for t in totals:
        each = found[t]
        row = [t, heads_for(t), f"{each['build']:.2f} s", f"{each['error']:.0e}"]
        row += [megabytes(each["memory"]), int(each["coupled"])]
        row += [f"{each['certify']:.2f} s", f"{each['check']:.2f} s", each["verdict"]]
        rows.append(row)
    headings += ["certify", "check", "verdicts"]
    report.table("uniform, H = (T - 1) / 31", headings, rows)
    if len(totals) > 2:
        slopes = [
            f"{step} T^{exponent(totals, [found[t][step] for t in totals]):.2f}"
            for step in ("build", "certify", "check")
        ]
        report.say("fitted from T = 1861 on: " + ", ".join(slopes))


def peers(report, given):
    for kind in ("uniform", SHARED):
        name = "saturated" if kind == SHARED else "paired"
        pairs = [
            (measure("build_by", kind, 1861, name), measure("random_heads", kind, 1861))
            for _ in range(given.runs)
        ]
        ratio = statistics.median(b["random"] / a["build"] for a, b in pairs)
        a, b = (medians(list(each)) for each in zip(*pairs, strict=True))
        conditions = measure("condition_of", kind, 1861)
        rows = [
            [
                "random heads, lstsq",
                f"{b['random']:.2f} s",
                f"{b['error']:.0e}",
                f"{b['condition']:.1e}",
            ]
        ]
        for name, condition in conditions.items():
            each = repeated(given.runs, "build_by", kind, 1861, name)
            rows.append(
                [name, f"{each['build']:.2f} s", f"{each['error']:.0e}", f"{condition:.1e}"]
            )
        report.table(f"T = 1861, {kind}", ["", "seconds", "max error", "condition of Z"], rows)
        report.say(f"random heads over {name}: {ratio:.1f}; error of {name} {a['error']:.0e}")


def build_by(kind, total, construction):
    data = make(kind, total)
    build_memorizer(make(kind, 200), num_heads=8)
    seconds, memorizer = timed(
        lambda: build_memorizer(data, num_heads=heads_for(total), construction=construction)
    )
    return {"build": seconds, "error": memorizer.max_error(data)}


WORK["build_by"] = build_by


def compare_training(report, given):
    try:
        import torch  # noqa: F401
    except ImportError:
        report.say("training: PyTorch is not installed (pip install torch)")
        return
    rows = []
    for kind, name, head_dim in (
        ("uniform", "saturated", SIZE),
        ("uniform", "paired", 1),
        (SHARED, "saturated", SIZE),
    ):
        trained = measure("training", kind, 621, head_dim, given.cap)
        built = repeated(max(given.runs, 5), "build_by", kind, 621, name)
        rows.append(
            [
                kind,
                name,
                head_dim,
                f"{built['build']:.3f} s",
                f"{built['error']:.0e}",
                f"{trained['training']:.0f} s",
                trained["steps"],
                f"{trained['error']:.1e}",
                f"{trained['training'] / built['build']:,.0f}",
            ]
        )
    report.table(
        "T = 621: a build, and Adam on a layer of the same shape",
        ["data", "", "d_h", "build", "error", "Adam", "steps", "its error", "Adam / build"],
        rows,
    )


def compare_rank(report, given):
    rows = []
    for t in (621, 1861, 3101):
        each = repeated(given.runs, "flint_rank", "uniform", t)
        rows.append(
            [t, f"{each['ours']:.2f} s", f"{each['flint']:.2f} s", f"{each['convert']:.2f} s",
             f"{(each['flint'] + each['convert']) / each['ours']:.1f}", each["ranks"]]
        )  # fmt: skip
    report.table(
        "rank modulo a prime: ours, and python-flint",
        ["T", "ours", "flint", "conversion", "ratio", "ranks"],
        rows,
    )


def largest(report, _given):
    each = measure("ours", "float32", 100_007, prove=True)
    data = 4 * 100_007 * (SIZE + 1) * WIDTH
    rows = [[key, f"{each[key]:.0f} s"] for key in ("build", "certify", "check")] + [
        ["data", megabytes(data)],
        ["memory of the build beside the data", megabytes(each["memory"])],
        ["with the proof", megabytes(each["memory with proof"])],
        ["max error, 1,000 examples", f"{each['error']:.0e}"],
        ["verdicts", each["verdict"]],
    ]
    report.table("T = 100,007, H = 3226, float32 data", ["", ""], rows)


def compare_wide(report, given):
    rows = []
    for total, width in ((4000, 384), (10_000, 768)):
        seconds = repeated(given.runs, "assumed", total, width)["seconds"]
        for construction in ("paired", "auto"):
            each = repeated(given.runs, "wide", total, width, construction)
            rows.append(
                [f"{total:,}", width, "pairs" if construction == "paired" else "fewest heads",
                 int(each["heads"]), f"{seconds:.0f} s", f"{each['build']:.1f} s",
                 f"{each['certify']:.1f} s", f"{each['check']:.1f} s", f"{each['error']:.0e}",
                 megabytes(each["memory with proof"]), each["verdict"]]
            )  # fmt: skip
    report.table(
        "wide data, n = 16; claims rank and error",
        ["T", "d", "", "H", "assumptions", "build", "certify", "check", "error", "memory",
         "verdicts"],
        rows,
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--largest", type=int, default=31001, help="no larger T, but for `largest`")
    parser.add_argument("--cap", type=float, default=300.0, help="seconds of training")
    parser.add_argument("--only", nargs="*", choices=COMPARISONS, default=COMPARISONS)
    given = parser.parse_args()
    report = Report()
    threads = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    report.say(f"{os.cpu_count()} cores, threads {json.dumps(threads)}, {given.runs} runs")
    functions = [
        scale, peers, compare_training, compare_rank, largest, compare_wide,
    ]  # fmt: skip
    for name, function in zip(COMPARISONS, functions, strict=True):
        if name in given.only:
            function(report, given)


if __name__ == "__main__":
    main()
