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
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measuring import CONSOLE, alone, forget_peak, medians, megabytes, memory, saved, table, timed

sys.path.insert(0, str(Path(__file__).parent.parent))


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


def heads_for(total):
    return -(-(total - 1) // (SIZE - 1))


def make(kind, total):
    sizes = {"num_examples": total, "context_size": SIZE, "width": WIDTH, "seed": 0}
    if kind == "float32":
        rng = np.random.default_rng(0)
        contexts = rng.random((total, SIZE, WIDTH), dtype=np.float32)
        queries = rng.random((total, WIDTH), dtype=np.float32)
        return Dataset(contexts, queries, rng.random(total))
    return (generators.shared_context if kind == SHARED else generators.uniform)(**sizes)


# What is measured, each in a process of its own. They return numbers by name.


def ours(kind, total, construction="paired", *, prove=False):
    return built(make(kind, total), construction, heads_for(total), prove=prove)


def built(data, construction, heads, *, prove, claims=None):
    """A build by some construction, and the proof of some claims and the check of that."""
    build_memorizer(make("uniform", 200), num_heads=8, construction=construction)  # loads libraries
    before = forget_peak()
    seconds, memorizer = timed(
        lambda: build_memorizer(data, num_heads=heads, construction=construction)
    )
    found = {"build": seconds, "memory": memory("VmHWM") - before}
    found |= {"coupled": memorizer.record.coupled, "heads": memorizer.layer.num_heads}
    count = min(data.num_examples, 1000 if prove else data.num_examples)
    sample = np.linspace(0, data.num_examples - 1, count).astype(int)
    found["error"] = memorizer.max_error(data.take(sample))
    if prove:
        found["certify"], certificate = timed(
            lambda: certify(memorizer, data, claims=claims) if claims else certify(memorizer, data)
        )
        found["memory with proof"] = memory("VmHWM") - before
        with tempfile.TemporaryDirectory() as folder:
            files = saved(folder, certificate, memorizer, data)
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
    return {"build": seconds, "error": float(error), "condition": float(condition)}


def condition_of(kind, total, construction):
    """The condition number of Z for our heads, by all singular values."""
    data = make(kind, total)
    layer = build_memorizer(data, num_heads=heads_for(total), construction=construction).layer
    z = layer.intermediate(data.contexts, data.queries)
    singular = np.linalg.svd(z, compute_uv=False)[:total]
    return float(singular[0] / singular[-1])


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
    ranks = [factors.rank, int(rank)]
    return {"ours": ours_seconds, "flint": theirs, "convert": convert, "ranks": ranks}


def repeated(runs, work, *arguments, **options):
    return medians([alone(work, *arguments, **options) for _ in range(runs)])


# The comparisons, by their names.


def scale(given):
    totals = [t for t in (621, 1861, 6201, 15501, 31001) if t <= given.largest]
    found = {t: repeated(given.runs, ours, "uniform", t, prove=True) for t in totals}
    rows = [
        [t, heads_for(t), f"{each['build']:.2f} s", f"{each['error']:.0e}",
         megabytes(each["memory"]), int(each["coupled"]), f"{each['certify']:.2f} s",
         f"{each['check']:.2f} s", each["verdict"]]
        for t, each in found.items()
    ]  # fmt: skip
    headings = ["T", "H", "build", "error", "memory", "coupled", "certify", "check", "verdicts"]
    table("uniform, H = (T - 1) / 31", headings, rows)
    if len(totals) > 2:
        slopes = []
        for step in ("build", "certify", "check"):
            seconds = [found[t][step] for t in totals[1:]]
            slope = np.polyfit(np.log(totals[1:]), np.log(seconds), 1)[0]
            slopes.append(f"{step} T^{slope:.2f}")
        CONSOLE.print("fitted from T = 1861 on: " + ", ".join(slopes) + "\n")


def peers(given):
    for kind, names in (("uniform", ("saturated", "paired")), (SHARED, ("saturated",))):
        runs = [
            [alone(random_heads, kind, 1861), *(alone(ours, kind, 1861, name) for name in names)]
            for _ in range(given.runs)
        ]
        ratio = statistics.median(row[0]["build"] / row[-1]["build"] for row in runs)
        theirs, *built_by = (medians(list(each)) for each in zip(*runs, strict=True))
        conditions = [theirs["condition"], *(alone(condition_of, kind, 1861, n) for n in names)]
        rows = [
            [name, f"{each['build']:.2f} s", f"{each['error']:.0e}", f"{condition:.1e}"]
            for name, each, condition in zip(
                ("random heads, lstsq", *names), (theirs, *built_by), conditions, strict=True
            )
        ]
        table(f"T = 1861, {kind}", ["", "seconds", "max error", "condition of Z"], rows)
        error = built_by[-1]["error"]
        words = f"random heads over {names[-1]}: {ratio:.1f}; error of {names[-1]} {error:.0e}\n"
        CONSOLE.print(words)


def against_training(given):
    rows = []
    for kind, name, head_dim in (
        ("uniform", "saturated", SIZE), ("uniform", "paired", 1), (SHARED, "saturated", SIZE),
    ):  # fmt: skip
        trained = alone(training, kind, 621, head_dim, given.cap)
        each = repeated(max(given.runs, 5), ours, kind, 621, name)
        rows.append(
            [kind, name, head_dim, f"{each['build']:.3f} s", f"{each['error']:.0e}",
             f"{trained['training']:.0f} s", trained["steps"], f"{trained['error']:.1e}",
             f"{trained['training'] / each['build']:,.0f}"]
        )  # fmt: skip
    table(
        "T = 621: a build, and Adam on a layer of the same shape",
        ["data", "", "d_h", "build", "error", "Adam", "steps", "its error", "Adam / build"],
        rows,
    )


def rank(given):
    rows = []
    for t in (621, 1861, 3101):
        each = repeated(given.runs, flint_rank, "uniform", t)
        seconds = [f"{each[name]:.2f} s" for name in ("ours", "flint", "convert")]
        ratio = (each["flint"] + each["convert"]) / each["ours"]
        rows.append([t, *seconds, f"{ratio:.1f}", each["ranks"]])
    headings = ["T", "ours", "flint", "conversion", "ratio", "ranks"]
    table("rank modulo a prime: ours, and python-flint", headings, rows)


def largest(_given):
    each = alone(ours, "float32", 100_007, prove=True)
    rows = [[key, f"{each[key]:.0f} s"] for key in ("build", "certify", "check")] + [
        ["data", megabytes(4 * 100_007 * (SIZE + 1) * WIDTH)],
        ["memory of the build beside the data", megabytes(each["memory"])],
        ["with the proof", megabytes(each["memory with proof"])],
        ["max error, 1,000 examples", f"{each['error']:.0e}"],
        ["verdicts", each["verdict"]],
    ]
    table("T = 100,007, H = 3226, float32 data", ["", ""], rows)


def widths(given):
    rows = []
    for total, width in ((4000, 384), (10_000, 768)):
        seconds = repeated(given.runs, assumed, total, width)["seconds"]
        for construction in ("paired", "auto"):
            each = repeated(given.runs, wide, total, width, construction)
            rows.append(
                [f"{total:,}", width, "pairs" if construction == "paired" else "fewest heads",
                 int(each["heads"]), f"{seconds:.0f} s", f"{each['build']:.1f} s",
                 f"{each['certify']:.1f} s", f"{each['check']:.1f} s", f"{each['error']:.0e}",
                 megabytes(each["memory with proof"]), each["verdict"]]
            )  # fmt: skip
    headings = ["T", "d", "", "H", "assumptions", "build", "certify", "check", "error", "memory",
                "verdicts"]  # fmt: skip
    table("wide data, n = 16; claims rank and error", headings, rows)


COMPARISONS = {
    "scale": scale, "peers": peers, "training": against_training, "rank": rank,
    "largest": largest, "wide": widths,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--largest", type=int, default=31001, help="no larger T, but for `largest`")
    parser.add_argument("--cap", type=float, default=300.0, help="seconds of training")
    parser.add_argument("--only", nargs="*", choices=COMPARISONS, default=list(COMPARISONS))
    given = parser.parse_args()
    threads = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    CONSOLE.print(f"{os.cpu_count()} cores, threads {json.dumps(threads)}, {given.runs} runs\n")
    for name in given.only:
        COMPARISONS[name](given)


if __name__ == "__main__":
    main()
