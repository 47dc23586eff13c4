"""How exact builds are, and what they, their proofs and their checks cost: docs/performance.md.

    python tests/benchmarks/precision.py build [--runs 9]
    python tests/benchmarks/precision.py certify
    python tests/benchmarks/precision.py certify --large 4000 8000
    python tests/benchmarks/precision.py executed

build     what a build costs and how exact it is. The yardsticks are one forward pass to Z (all
          heads, all examples) and one LAPACK LU factorization and solve of a T x T system.
certify   what certificates cost; with --large elimination modulo p alone, of matrices stored in
          float32, once for each size and in a process of its own, whose memory is read.
executed  bounds of |f - y| over all evaluations in float32, against the error of one: that of this
          machine.

Ratios are taken run by run, in one process, between things measured right after each other; quote
their medians.
"""

import argparse
import contextlib
import importlib
import io
import multiprocessing
import re
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.linalg import lu_factor, lu_solve

from constructive import (
    CapacityError,
    Dataset,
    ParameterError,
    build_memorizer,
    certify,
    check,
    generators,
)
from constructive.certificates.check import CHECKER
from constructive.exact import modular

PRIME = next(modular.safe_primes())
LARGE = {"num_examples": 1861, "context_size": 32, "width": 64}
HEADS, HEAD_DIM = 60, 64
CONSOLE = Console(width=150)


def seconds(work, *arguments, **options):
    start = time.perf_counter()
    work(*arguments, **options)
    return time.perf_counter() - start


def table(title, *headings):
    made = Table(box=None, pad_edge=False, title=title)
    for heading in headings:
        made.add_column(heading, justify="left" if heading in {"data", "heads"} else "right")
    return made


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


def shared_context_table():
    """How the condition number of rank-one heads on one shared context grows with n."""
    title = "rank-one heads, shared context, H=20, d=64"
    rows = table(title, "n", "T", "condition", "max error")
    for size in (4, 8, 12, 16, 20, 24):
        count = 20 * (size - 1) + 1
        data = generators.shared_context(num_examples=count, context_size=size, width=64)
        # Any error is let through here: how large it is, is the question.
        record = build_memorizer(data, num_heads=20, construction="rank_one", tolerance=1e9).record
        rows.add_row(str(size), str(count), f"{record.condition:.0e}", f"{record.max_error:.0e}")
    return rows


def conditions():
    """The condition of Z by construction, for the same data; "-" where it holds too few."""
    names = "saturated", "rank_one", "generic"
    rows = table("condition of Z, n=32, d=64, H=20", "data", "T", *names)
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
            rows.add_row(make.__name__, str(total), *cells)
    return rows


def large(sizes):
    rows = table(
        "elimination modulo p in place, one run each",
        "T", "CPU: ours/LU", "matrix", "beside it",
    )  # fmt: skip
    for size in sizes:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows.add_row(*pool.apply(large_row, (size,)))
    CONSOLE.print(rows)


def large_row(size):
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
    return [str(size), f"{ours / lu:.1f}", *sizes]


def real_claims(checker, folder):
    rows = table(
        "claims in real arithmetic, one run each",
        "case", "error", "error + readout", "check of both / certify", "shown",
    )  # fmt: skip
    shared = generators.shared_context(num_examples=621, context_size=32, width=64)
    rank_one = {"num_heads": 20, "construction": "rank_one", "precision": 160}
    cases = [
        ("own, T=1861", generators.uniform(**LARGE), {"num_heads": HEADS, "head_dim": HEAD_DIM}),
        ("rank one, shared, n=32, T=621", shared, rank_one),
    ]
    for name, data, options in cases:
        memorizer = build_memorizer(data, **options)
        alone = seconds(certify, memorizer, data, claims=["error"])
        start = time.perf_counter()
        certificate = certify(memorizer, data, claims=["error", "readout"])
        both = time.perf_counter() - start
        paths = [str(folder / name) for name in ("c.json", "w.safetensors", "d.npz")]
        for thing, path in zip((certificate, memorizer, data), paths, strict=True):
            thing.save(path)
        checked = seconds(checker.check, paths)
        shown = certificate["error"].detail.partition(" (")[0]
        rows.add_row(
            name,
            f"{alone:.1f} s",
            f"{both:.1f} s",
            f"{checked / both:.2f}",
            shown.partition("<= ")[2],
        )
    CONSOLE.print(rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    CONSOLE.print(f"largest memory of the process so far: {peak:.2f} GB")


CASES = (
    (61, 8, 16, 10, "saturated", {}),
    (61, 8, 16, 10, "saturated", {"saturated_fraction": 0.5}),
    (61, 8, 16, 10, "paired", {}),
    (61, 8, 16, 10, "generic", {}),
    (1861, 32, 64, 60, "saturated", {}),
    (1861, 32, 64, 60, "generic", {}),
)
COLUMNS = "T", "n", "d", "H", "construction", "bound", "by logits", "one evaluation"


def of_uniform(total, size, width):
    drawn = generators.uniform(num_examples=total, context_size=size, width=width, seed=0)
    arrays = drawn.contexts, drawn.queries, drawn.targets
    return Dataset(*(array.astype(np.float32) for array in arrays))


def executed(_options):
    rows = Table(*COLUMNS, title="float32 data and weights, targets of size one")
    for total, size, width, heads, construction, options in CASES:
        data = of_uniform(total, size, width)
        built = build_memorizer(data, num_heads=heads, construction=construction, **options)
        single = built.astype("float32")
        certificate = certify(single, data, claims="executed")
        if not check(certificate, single, data).proved:
            raise ParameterError("a certificate is not proved", suggestion="look into it")
        claim = certificate["executed"]
        named = " ".join([construction, *(f"{name}={value}" for name, value in options.items())])
        rows.add_row(
            *map(str, (total, size, width, heads, named)),
            f"{float.fromhex(claim.evidence['bound']):.1e}"
            + " (vacuous)" * ("vacuous" in claim.detail),
            re.search("([0-9]+%|none) of that by logits", claim.detail)[1],
            f"{single.max_error(data):.1e}",
        )
    CONSOLE.print(rows)


def build(options):
    rows = table(
        f"T=1861, H={HEADS}, n=32, d=64, d_h={HEAD_DIM}",
        "data", "heads", "build/(forward+LU)", "max error", "in float32", "condition",
    )  # fmt: skip
    for name, make, construction in (
        ("uniform", generators.uniform, "saturated"),
        ("bag of tokens", generators.bag_of_tokens, "saturated"),
        ("shared context", generators.shared_context, "saturated"),
        ("uniform", generators.uniform, "rank_one"),
    ):
        rows.add_row(name, construction, *large_build(make(**LARGE), options.runs, construction))
    for each in (rows, shared_context_table(), conditions()):
        CONSOLE.print(each)


def certificates(options):
    if options.large:
        large(options.large)
        return
    sys.path.insert(0, str(CHECKER))
    checker = importlib.import_module("command")
    announced = contextlib.redirect_stderr(io.StringIO())  # what each check needs
    with tempfile.TemporaryDirectory() as name, announced:
        folder = Path(name)
        real_claims(checker, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["build", "certify", "executed"])
    parser.add_argument("--runs", type=int, default=9, help="of each build")
    parser.add_argument("--large", type=int, nargs="+", help="sizes of elimination, and no more")
    options = parser.parse_args()
    {"build": build, "certify": certificates, "executed": executed}[options.what](options)


if __name__ == "__main__":
    main()
