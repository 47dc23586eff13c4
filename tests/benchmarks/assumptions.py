"""How fast violations of the assumptions are found, exact capacities, and reports of wide data.

    python tests/benchmarks/assumptions.py --runs 3 [--only wide]

Each planted violation is among 10,000 queries in d = 64, looked for with the defaults and n = 32.
Found means: exactly this subset, or for a cluster a subset of it, with exact coefficients. A
whole report of wide data is made in a process of its own, whose memory is read. Figures are printed
as tables in Markdown; docs/assumptions.md holds one run.
"""

import argparse
import multiprocessing
import resource
import time
from statistics import median

import numpy as np

from constructive import Dataset, assumptions, exact_capacity, generators, saturated_capacity
from constructive.exact import dyadic
from constructive.theory import kruskal
from constructive.theory.kruskal import kruskal_rank

COUNT, WIDTH, WANTED = 10_000, 64, 32
WIDE = (4_000, 384), (10_000, 768)
"""T and d of whole reports, of contexts of 16 tokens."""


def queries(rng):
    return np.round(rng.standard_normal((COUNT, WIDTH)) * 4096)


def planted(size, draw):
    """A query which is a combination of size - 1 others."""

    def make(rng):
        vectors = queries(rng)
        rows = rng.choice(COUNT, size, replace=False)
        vectors[rows[-1]] = draw(rng, size - 1) @ vectors[rows[:-1]]
        return vectors, set(rows.tolist())

    return make


def cluster(members, dimension):
    """Queries in a common subspace."""

    def make(rng):
        vectors = queries(rng)
        rows = rng.choice(COUNT, members, replace=False)
        basis = np.round(rng.standard_normal((dimension, WIDTH)) * 4096)
        vectors[rows] = np.round(rng.standard_normal((members, dimension)) * 64) @ basis
        return vectors, set(rows.tolist())

    return make


def signs(rng, count):
    return rng.choice([-1.0, 1.0], count)


def gaussian(rng, count):
    return np.round(rng.standard_normal(count) * 256) / 256


KINDS = {
    "two equal queries": planted(2, lambda *_: np.ones(1)),
    "two parallel queries": planted(2, lambda *_: np.full(1, -0.75)),
    "3 dependent, coefficients +-1": planted(3, signs),
    "4 dependent, coefficients +-1": planted(4, signs),
    "5 dependent, coefficients +-1": planted(5, signs),
    "6 dependent, coefficients +-1": planted(6, signs),
    "6 dependent, normal coefficients": planted(6, gaussian),
    "6 queries in 5 dimensions": cluster(6, 5),
    "30 queries in 5 dimensions": cluster(30, 5),
    "40 queries in 12 dimensions": cluster(40, 12),
}


def violations(runs):
    print("| planted | found | median | longest |\n|---|---|---|---|")
    for name, make in KINDS.items():
        found, seconds = 0, []
        for seed in range(runs):
            vectors, rows = make(np.random.default_rng(seed))
            start = time.perf_counter()
            known = kruskal_rank(vectors, WANTED)
            seconds.append(time.perf_counter() - start)
            violation = known.violation
            found += (
                violation is not None and set(violation.rows) <= rows and violation.holds(vectors)
            )
        print(
            f"| {name} | {found} of {runs} | {median(seconds):.1f} s | {max(seconds):.1f} s |",
            flush=True,
        )


def triples():
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    found = kruskal.enumerated_dependency(queries(rng), 3, rng)
    shown = "none" if found is None else str(found)
    print(f"\nall triples of {COUNT:,} queries: {shown}, {time.perf_counter() - start:.1f} s")


def recall(count):
    """How many sets of six the first three passes of the search find from their own members."""
    shares = []
    for name in list(KINDS)[5:8]:
        hits = 0
        for seed in range(count):
            vectors, rows = KINDS[name](np.random.default_rng(5000 + seed))
            unit, members = kruskal._whitened(vectors), np.array(sorted(rows))
            seen = kruskal._grow(unit, members, 5)
            seen |= kruskal._pursue(unit, members, 5, 1)
            seen |= kruskal._pursue(unit, members, 5, 4)
            hits += tuple(members.tolist()) in seen
        shares.append(f"{name}: {hits} of {count}")
    print(f"\nfound by the first three passes: {'; '.join(shares)}")


def capacities():
    print(
        "\n| d_h | Theorem 1 | own contexts | s | shared context | s |\n|---|---|---|---|---|---|"
    )
    sizes = {"num_examples": 621, "context_size": 32, "width": WIDTH}
    for head_dim in (1, 2, 4, 8, 16, 32, 64):
        cells = [str(head_dim), str(saturated_capacity(20, 32, head_dim))]
        for make in (generators.uniform, generators.shared_context):
            start = time.perf_counter()
            found = exact_capacity(make(**sizes), 20, head_dim)
            shown = str(found.lower) if found.exact else f"{found.lower} to {found.upper}"
            cells += [shown, f"{time.perf_counter() - start:.1f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


def contexts():
    """A dependency of relative size 1e-14, which is none."""
    rng = np.random.default_rng(0)
    context = np.round(rng.standard_normal((32, 64)) * 2**20)
    context[31] = context[0] + context[1]
    ranks = [(np.linalg.matrix_rank(context), dyadic.rank(context))]
    context[31, 0] += 2.0**-26
    ranks.append((np.linalg.matrix_rank(context), dyadic.rank(context)))
    print("\n| context of 32 tokens | numpy.linalg.matrix_rank | exact rank |\n|---|---|---|")
    for name, (numpy_rank, rank) in zip(("e_31 = e_0 + e_1", "off by 1e-14"), ranks, strict=True):
        print(f"| {name} | {numpy_rank} | {rank} |")


def wide():
    print(
        "\n| T | d | n | seconds | CPU seconds | memory of the process | subsets of n "
        "| subsets of d | grouping |\n|---|---|---|---|---|---|---|---|---|"
    )
    for total, width in WIDE:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(f"| {' | '.join(pool.apply(wide_row, (total, width)))} |", flush=True)


def wide_row(total, width):
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((total, 16, width), dtype=np.float32)
    queries = rng.standard_normal((total, width), dtype=np.float32)
    data = Dataset(contexts, queries, np.zeros(total))
    del contexts
    start, work = time.perf_counter(), time.process_time()
    report = assumptions.check(data)
    seconds, work = time.perf_counter() - start, time.process_time() - work
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    shares = [f"{x.dependent} of {x.subsets}" for x in (report.share, report.position)]
    return [
        f"{total:,}", str(width), "16", f"{seconds:.0f}", f"{work:.0f}", f"{most:.1f} GB",
        *shares, report.construction.name,
    ]  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--recall", type=int, default=60)
    parser.add_argument("--only", choices=["wide"], help="reports of wide data alone")
    given = parser.parse_args()
    if given.only is None:
        contexts()
        print()
        violations(given.runs)
        triples()
        recall(given.recall)
        capacities()
    wide()
