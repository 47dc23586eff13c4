"""How exact builds are, and what they, their proofs and their checks cost: docs/performance.md.

    python tests/benchmarks/precision.py build [--runs 9]
    python tests/benchmarks/precision.py certify
    python tests/benchmarks/precision.py certify --large 4000 8000

build     what a build costs and how exact it is. The yardsticks are one forward pass to Z (all
          heads, all examples) and one LAPACK LU factorization and solve of a T x T system.
certify   what certificates cost; with --large elimination modulo p alone, of matrices stored in
          float32, once for each size and in a process of its own, whose memory is read.

Ratios are taken run by run, in one process, between things measured right after each other; quote
their medians.
"""

import argparse
import resource
import tempfile
import time

import numpy as np
from measuring import CONSOLE, alone, saved, table, timed
from scipy.linalg import lu_factor, lu_solve

from constructive import (
    CapacityError,
    build_memorizer,
    certify,
    check,
    generators,
)
from constructive.exact import modular

PRIME = next(modular.safe_primes())
LARGE = {"num_examples": 1861, "context_size": 32, "width": 64}
HEADS, HEAD_DIM = 60, 64


def seconds(work):
    return timed(work)[0]


def large_build(data, runs, construction):
    """One row of the table."""

    def build():
        options = {"num_heads": HEADS, "head_dim": HEAD_DIM, "construction": construction}
        return build_memorizer(data, **options)

    memorizer = build()
    layer, targets = memorizer.layer, data.target_matrix
    square = layer.intermediate(data.contexts, data.queries)[:, : data.num_examples].copy()
    ratios = []
    for _ in range(runs):
        forward = seconds(lambda: layer.intermediate(data.contexts, data.queries))
        solve = seconds(lambda: lu_solve(lu_factor(square, check_finite=False), targets))
        ratios.append(seconds(build) / (forward + solve))
    return [
        f"{np.median(ratios):.2f}",
        f"{memorizer.max_error(data):.0e}",
        f"{memorizer.astype(np.float32).max_error(data):.0e}",
        f"{memorizer.record.condition:.0e}",
    ]


def shared_contexts():
    """How the condition number of rank-one heads on one shared context grows with n."""
    rows = []
    for size in (4, 8, 12, 16, 20, 24):
        count = 20 * (size - 1) + 1
        data = generators.shared_context(num_examples=count, context_size=size, width=64)
        # Any error is let through here: how large it is, is the question.
        record = build_memorizer(data, num_heads=20, construction="rank_one", tolerance=1e9).record
        rows.append([size, count, f"{record.condition:.0e}", f"{record.max_error:.0e}"])
    title = "rank-one heads, shared context, H=20, d=64"
    table(title, ["n", "T", "condition", "max error"], rows)


def conditions():
    """The condition of Z by construction, for the same data; "-" where it holds too few."""
    names, rows = ("saturated", "rank_one", "generic"), []
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
            rows.append([make.__name__, total, *cells])
    table("condition of Z, n=32, d=64, H=20", ["data", "T", *names], rows, left=1)


def elimination(size):
    """One row of the table."""
    rng = np.random.default_rng(0)
    matrix = np.empty((size, size), np.float32)
    for row in range(0, size, 64):
        some = rng.integers(PRIME, size=matrix[row : row + 64].shape).astype(float)
        matrix[row : row + 64] = modular.reduce(some, PRIME)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    modular.factor(matrix, PRIME, overwrite=True)
    ours = time.process_time() - start
    beside = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / 1e6
    floats = matrix.astype(np.float64)  # what is left there will do for LAPACK
    start = time.process_time()
    lu_factor(floats, overwrite_a=True, check_finite=False)
    lu = time.process_time() - start
    sizes = (f"{gigabytes:.2f} GB" for gigabytes in (matrix.nbytes / 1e9, beside))
    return [size, f"{ours / lu:.1f}", *sizes]


def real_claims():
    rows = []
    shared = generators.shared_context(num_examples=621, context_size=32, width=64)
    rank_one = {"num_heads": 20, "construction": "rank_one", "precision": 160}
    cases = [
        ("own, T=1861", generators.uniform(**LARGE), {"num_heads": HEADS, "head_dim": HEAD_DIM}),
        ("rank one, shared, n=32, T=621", shared, rank_one),
    ]
    for name, data, options in cases:
        memorizer = build_memorizer(data, **options)
        one, certificate = timed(lambda: certify(memorizer, data, claims=["error"]))  # noqa: B023
        with tempfile.TemporaryDirectory() as folder:
            files = saved(folder, certificate, memorizer, data)
            checked = seconds(lambda: check(*files))  # noqa: B023
        shown = certificate["error"].detail.partition(" (")[0]
        shares = f"{one:.1f} s", f"{checked / one:.2f}"
        rows.append([name, *shares, shown.partition("<= ")[2]])
    headings = ["case", "error", "check / certify", "shown"]
    table("claims in real arithmetic, one run each", headings, rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    CONSOLE.print(f"largest memory of the process so far: {peak:.2f} GB")


def build(options):
    rows = [
        [name, construction, *large_build(make(**LARGE), options.runs, construction)]
        for name, make, construction in (
            ("uniform", generators.uniform, "saturated"),
            ("bag of tokens", generators.bag_of_tokens, "saturated"),
            ("shared context", generators.shared_context, "saturated"),
            ("uniform", generators.uniform, "rank_one"),
        )
    ]
    headings = ["data", "heads", "build/(forward+LU)", "max error", "in float32", "condition"]
    table(f"T=1861, H={HEADS}, n=32, d=64, d_h={HEAD_DIM}", headings, rows, left=2)
    shared_contexts()
    conditions()


def certificates(options):
    if not options.large:
        real_claims()
        return
    rows = [alone(elimination, size) for size in options.large]
    headings = ["T", "CPU: ours/LU", "matrix", "beside it"]
    table("elimination modulo p in place, one run each", headings, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["build", "certify"])
    parser.add_argument("--runs", type=int, default=9, help="of each build")
    parser.add_argument("--large", type=int, nargs="+", help="sizes of elimination, and no more")
    options = parser.parse_args()
    {"build": build, "certify": certificates}[options.what](options)


if __name__ == "__main__":
    main()
