"""What one piece of a build of pairs costs, and what that makes of 10^8 examples.

    python tests/benchmarks/cluster.py [--examples 250000 1000000] [--total 100000000]

Heads are as many as the theorem's bound asks for, H = (T - 1) / 31, with n = 32 and d = 64, and
data are in float32. What a worker looks at are queries, which are made here for so many examples;
contexts it reads for its own examples only, so these are made when they are asked for. Every
measurement is a process of its own, on one thread. Costs of T examples are counted from those of
the largest number which was measured, times what grows.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time

import numpy as np
from compare import Report, forget_peak, heads_for, measure_in, memory

from constructive import build_memorizer, certify, generators
from constructive.certificates.claims import pairs
from constructive.constructions import paired_heads, paired_search
from constructive.constructions.multihead.assumptions import Assumptions
from constructive.constructions.multihead.heads import KeyDirection

SIZE, WIDTH = 32, 64


def piece(total):
    """The pairs in the middle of the order: seconds, and bytes beside the queries."""
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((total, WIDTH))
    gaps = np.sort(rng.exponential(0.25, size=(2, total)), axis=1)

    def read(examples):
        return np.random.default_rng(0).standard_normal((len(examples), SIZE, WIDTH))

    direction = KeyDirection(np.eye(WIDTH)[0], *gaps)
    coarse = paired_search.coarse_of(queries, direction, np.zeros(0))
    stops = np.cumsum(np.full((total - 1) // 62, 62))
    examples = paired_search.Ordered(
        read, SIZE, np.arange(total), queries, direction, np.zeros(0), coarse, stops
    )
    recipe = paired_heads.Recipe(1, full_rank=False, assumed=Assumptions(0.1), entropy=0)
    first = len(stops) // 2
    block = paired_heads.build(examples, recipe, 0, 2)  # loads libraries
    reader = paired_heads.Reader.of(examples, block.query_weights[0], block.key_weights[0])
    forget_peak()
    before, start = memory("VmRSS"), time.process_time()
    paired_heads.build(examples, recipe, first, first + paired_heads.TOGETHER, reader)
    return {"seconds": time.process_time() - start, "memory": memory("VmHWM") - before}


def agreement(total):
    """One piece of a proof that pairs agree: seconds for each example and pair."""
    rng = np.random.default_rng(0)
    count = heads_for(total) // 2
    arrays = {
        "queries": rng.standard_normal((4096, WIDTH)),
        "weights": rng.standard_normal((WIDTH, 2 * count)),
        "owner": np.zeros(0, dtype=np.int64),
        "top": np.zeros(4096),
        "bottom": np.zeros(4096),
    }
    pairs._disagreeing(pairs._Piece(arrays, 0, 64, count))
    start = time.process_time()
    pairs._disagreeing(pairs._Piece(arrays, 0, 4096, count))
    return {"seconds": (time.process_time() - start) / (4096 * count)}


def linear(total):
    """The whole of a build and of a proof beside that, and the most memory beside the data."""
    data = generators.uniform(num_examples=total, context_size=SIZE, width=WIDTH, seed=0)
    heads = heads_for(total)
    spent = []
    real = paired_heads.build

    def watched(*arguments):
        start = time.process_time()
        block = real(*arguments)
        spent.append(time.process_time() - start)
        return block

    from constructive.constructions import paired

    paired.build = watched
    forget_peak()
    before, start = memory("VmRSS"), time.process_time()
    memorizer = build_memorizer(data, num_heads=heads, construction="paired")
    build = time.process_time() - start - sum(spent)
    peak, start = memory("VmHWM") - before, time.process_time()
    certify(memorizer, data, claims=["rank", "error", "readout"])
    return {"build": build, "memory": peak, "certify": time.process_time() - start}


WORK = {function.__name__: function for function in (piece, agreement, linear)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, nargs="*", default=[250_000, 1_000_000])
    parser.add_argument("--total", type=int, default=10**8)
    parser.add_argument("--workers", type=int, default=1000)
    given = parser.parse_args()
    report, together, rows = Report(), paired_heads.TOGETHER, []
    for total in given.examples:
        found = measure_in(WORK, "piece", total)
        each = found["seconds"] / (total * together)
        rows.append(
            [
                f"{total:,}",
                f"{found['seconds']:.1f} s",
                f"{1e9 * each:.1f} ns",
                f"{found['memory'] / 1e6:,.0f} MB",
            ]
        )
    report.table(
        f"one piece, {together} pairs", ["T", "seconds", "an example and pair", "memory"], rows
    )
    proof = measure_in(WORK, "agreement", 100_007)["seconds"]
    rest = measure_in(WORK, "linear", 31_001)
    beside = rest["certify"] - proof * 31_001 * (heads_for(31_001) // 2)

    total, count = given.total, heads_for(given.total) // 2
    pieces = -(-count // together)
    queries, contexts = 4 * total * (WIDTH + 2), 4 * total * SIZE * WIDTH
    seconds = each * total * together
    own = 8 * total * WIDTH

    def hours(value):
        return f"{value / 3600:,.1f} h"

    def size(value):
        return f"{value / 1e9:,.1f} GB" if value < 1e12 else f"{value / 1e12:,.1f} TB"

    report.table(
        f"T = {total:,}, H = {2 * count:,}, counted from these",
        ["", ""],
        [
            ["pieces", f"{pieces:,}"],
            ["a piece", f"{seconds:,.0f} s"],
            ["read by a piece", size(queries)],
            ["read in all by pieces", size(queries * pieces + 2 * contexts)],
            ["core hours of all pieces", hours(seconds * pieces)],
            [f"hours with {given.workers:,} cores", hours(seconds * pieces / given.workers)],
            ["rate of reading which that takes, a core", size(queries / seconds) + "/s"],
            ["core hours of the proof that pairs agree", hours(proof * total * count)],
            ["the rest of a build, in one process", hours(rest["build"] / 31_001 * total)],
            ["the rest of a proof, in one process", hours(beside / 31_001 * total)],
            ["memory of that process (x_t, its inverses, queries)", size(4 * own + queries)],
            ["weights", size(8 * 3 * 2 * count * WIDTH)],
            ["contexts", size(contexts)],
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
