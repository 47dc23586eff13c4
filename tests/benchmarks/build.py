"""What a build costs and how exact it is. Run: python tests/benchmarks/build.py [--runs 9]

Ratios are taken run by run, in one process, between things measured right after each other; quote
their medians. The yardsticks are one forward pass to Z (all heads, all examples) and one LAPACK LU
factorization and solve of a T x T system.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.linalg import lu_factor, lu_solve

from constructive import CapacityError, Dataset, build_memorizer, generators

LARGE = {"num_examples": 1861, "context_size": 32, "width": 64}
HEADS, HEAD_DIM = 60, 64


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def large_build(data: Dataset, runs: int, **options: object) -> list[str]:
    """One row of the table."""
    layer = build_memorizer(data, num_heads=HEADS, head_dim=HEAD_DIM, **options).layer
    square = layer.intermediate(data.contexts, data.queries)[:, : data.num_examples].copy()
    targets = data.target_matrix
    forward, solve, build = [], [], []
    for _ in range(runs):
        forward.append(seconds(lambda: layer.intermediate(data.contexts, data.queries)))
        solve.append(seconds(lambda: lu_solve(lu_factor(square, check_finite=False), targets)))
        build.append(
            seconds(lambda: build_memorizer(data, num_heads=HEADS, head_dim=HEAD_DIM, **options))
        )
    ratio = float(np.median(np.array(build) / (np.array(forward) + np.array(solve))))
    memorizer = build_memorizer(data, num_heads=HEADS, head_dim=HEAD_DIM, **options)
    return [
        f"{np.median(forward):.2f} s",
        f"{np.median(solve):.2f} s",
        f"{np.median(build):.2f} s",
        f"{ratio:.2f}",
        f"{memorizer.max_error(data):.0e}",
        f"{memorizer.astype(np.float32).max_error(data):.0e}",
        f"{memorizer.record.condition:.0e}",
    ]


def shared_context_table() -> Table:
    """How the condition number of rank-one heads on one shared context grows with n."""
    table = Table(box=None, pad_edge=False, title="rank-one heads, shared context, H=20, d=64")
    for heading in ("n", "T", "condition", "max error"):
        table.add_column(heading, justify="right")
    for size in (4, 8, 12, 16, 20, 24):
        count = 20 * (size - 1) + 1
        data = generators.shared_context(num_examples=count, context_size=size, width=64)
        # Any error is let through here: how large it is, is the question.
        record = build_memorizer(data, num_heads=20, construction="rank_one", tolerance=1e9).record
        table.add_row(str(size), str(count), f"{record.condition:.0e}", f"{record.max_error:.0e}")
    return table


def conditions() -> Table:
    """The condition of Z by construction, for the same data; "-" where it holds too few."""
    names = "saturated", "rank_one", "generic"
    table = Table(box=None, pad_edge=False, title="condition of Z, n=32, d=64, H=20")
    for heading in ("data", "T", *names):
        table.add_column(heading, justify="right")
    for make in (generators.uniform, generators.shared_context):
        for total in (300, 621, 1261):
            data = make(num_examples=total, context_size=32, width=64)
            cells = []
            for name in names:
                try:
                    built = build_memorizer(data, num_heads=20, construction=name, tolerance=1e99)
                    cells.append(f"{built.record.condition:.0e}")
                except CapacityError:
                    cells.append("-")
            table.add_row(make.__name__, str(total), *cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9, help="counted runs of each build")
    runs = parser.parse_args().runs

    table = Table(box=None, pad_edge=False, title=f"T=1861, H={HEADS}, n=32, d=64, d_h={HEAD_DIM}")
    for heading in (
        "data", "heads", "forward", "LU", "build", "build/(forward+LU)",
        "max error", "in float32", "condition",
    ):  # fmt: skip
        table.add_column(heading, justify="left" if heading in {"data", "heads"} else "right")
    for name, make, construction in (
        ("uniform", generators.uniform, "saturated"),
        ("gaussian", generators.gaussian, "saturated"),
        ("bag of tokens", generators.bag_of_tokens, "saturated"),
        ("shared context", generators.shared_context, "saturated"),
        ("uniform", generators.uniform, "rank_one"),
    ):
        table.add_row(
            name, construction, *large_build(make(**LARGE), runs, construction=construction)
        )
    console = Console(width=120)
    console.print(table)
    console.print()
    console.print(shared_context_table())
    console.print()
    console.print(conditions())


if __name__ == "__main__":
    main()
