"""How fast violations of the assumptions are found, and exact capacities.

    python tests/benchmarks/assumptions.py --runs 3

Each planted violation is among 10,000 queries in d = 64, looked for with the defaults and n = 32.
Found means: exactly this subset, or for a cluster a subset of it, with exact coefficients. Figures
are printed as tables in Markdown; docs/assumptions.md and docs/capacity.md hold one run.
"""

import argparse
import time
from statistics import median

import numpy as np

from constructive import generators
from constructive.theory.bounds import saturated_capacity
from constructive.theory.capacity import fixed_capacity
from constructive.theory.kruskal import kruskal_rank

COUNT, WIDTH, WANTED = 10_000, 64, 32


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
    "6 dependent, coefficients +-1": planted(6, signs),
    "6 queries in 5 dimensions": cluster(6, 5),
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


def capacities():
    print(
        "\n| d_h | Theorem 1 | own contexts | s | shared context | s |\n|---|---|---|---|---|---|"
    )
    sizes = {"num_examples": 621, "context_size": 32, "width": WIDTH}
    for head_dim in (1, 2, 4, 8, 16, 32, 64):
        cells = [str(head_dim), str(saturated_capacity(20, 32, head_dim))]
        for make in (generators.uniform, generators.shared_context):
            start = time.perf_counter()
            found = fixed_capacity(make(**sizes), 20, head_dim)
            shown = str(found.lower) if found.exact else f"{found.lower} to {found.upper}"
            cells += [shown, f"{time.perf_counter() - start:.1f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    violations(parser.parse_args().runs)
    capacities()
