"""What certificates cost. Run: python tests/benchmarks/certify.py [--runs 5] [--skip-real]

    python tests/benchmarks/certify.py --large 4000 8000

does elimination modulo p alone, of matrices stored in float32, once for each size and in a process
of its own, whose memory is read.

Ratios are taken run by run, in one process, between things measured right after each other; quote
their medians.
"""

import argparse
import contextlib
import importlib
import io
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.linalg import lu_factor

from constructive import Dataset, Memorizer, build_memorizer, certify, generators
from constructive.certificates.check import CHECKER
from constructive.exact import modular
from constructive.layers import residues
from constructive.theory.bounds import group_sizes

PRIME = next(modular.safe_primes())
LARGE = {"num_examples": 1861, "context_size": 32, "width": 64}
CONSOLE = Console(width=110)


def seconds(work: Callable[..., object], *arguments: object, **options: object) -> float:
    start = time.perf_counter()
    work(*arguments, **options)
    return time.perf_counter() - start


def table(title: str, *headings: str) -> Table:
    made = Table(box=None, pad_edge=False, title=title)
    for heading in headings:
        made.add_column(heading, justify="right")
    return made


def large(sizes: list[int]) -> None:
    rows = table(
        "elimination modulo p in place, one run each",
        "T", "LAPACK LU", "ours", "ours/LU", "CPU: ours/LU", "matrix", "beside it",
    )  # fmt: skip
    for size in sizes:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows.add_row(*pool.apply(large_row, (size,)))
    CONSOLE.print(rows)


def large_row(size: int) -> list[str]:
    rng = np.random.default_rng(0)
    matrix = np.empty((size, size), np.float32)
    for row in range(0, size, 64):
        some = rng.integers(PRIME, size=matrix[row : row + 64].shape).astype(float)
        matrix[row : row + 64] = modular.reduce(some, PRIME)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    ours = seconds(modular.factor, matrix, PRIME, overwrite=True)
    our_work = time.process_time() - start
    beside = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / 1e6
    floats = matrix.astype(np.float64)  # what is left there will do for LAPACK
    start = time.process_time()
    lu = seconds(lu_factor, floats, overwrite_a=True, check_finite=False)
    lu_work = time.process_time() - start
    return [
        str(size), f"{lu:.2f} s", f"{ours:.2f} s", f"{ours / lu:.1f}", f"{our_work / lu_work:.1f}",
        f"{matrix.nbytes / 1e9:.2f} GB", f"{beside:.2f} GB",
    ]  # fmt: skip


def rank_claim(checker, folder: Path, runs: int) -> None:
    title = "rank claim, T=1861, H=60, n=32, d=64, d_h=64"
    rows = table(
        title,
        "data",
        "forward + LU mod p",
        "certify",
        "ratio",
        "check/certify",
        "quick/certify",
        "kB",
    )
    columns = np.concatenate([h * 64 + np.arange(k) for h, k in enumerate(group_sizes(1861, 60))])
    for name, make in (("own", generators.uniform), ("shared", generators.shared_context)):
        data = make(**LARGE)
        memorizer = build_memorizer(data, num_heads=60, head_dim=64)
        z = residues.intermediate(memorizer.layer, data, residues.Point(PRIME, 12345), columns)
        paths = saved(data, memorizer, certify(memorizer, data, claims=["rank"]), folder)
        base, made, checked, quick = [], [], [], []
        for _ in range(runs):
            base.append(
                seconds(memorizer.layer.intermediate, data.contexts, data.queries)
                + seconds(modular.factor, z, PRIME)
            )
            made.append(seconds(certify, memorizer, data, claims=["rank"]))
            checked.append(seconds(checker.check, paths))
            quick.append(seconds(checker.check, paths, quick=True))
        rows.add_row(
            name,
            f"{np.median(base):.2f} s",
            f"{np.median(made):.2f} s",
            f"{np.median(np.divide(made, base)):.2f}",
            f"{np.median(np.divide(checked, made)):.2f}",
            f"{np.median(np.divide(quick, made)):.2f}",
            f"{Path(paths[0]).stat().st_size / 1000:.0f}",
        )
    CONSOLE.print(rows)


def real_claims(checker, folder: Path) -> None:
    rows = table(
        "claims in real arithmetic, one run each",
        "case", "error", "error + readout", "check of both / certify", "shown",
    )  # fmt: skip
    cases: list[tuple[str, Dataset, dict[str, object]]] = [
        ("own, T=1861", generators.uniform(**LARGE), {"num_heads": 60, "head_dim": 64}),
        ("shared, T=1861", generators.shared_context(**LARGE), {"num_heads": 60, "head_dim": 64}),
    ]
    for size in (16, 32):
        count = 20 * (size - 1) + 1
        data = generators.shared_context(num_examples=count, context_size=size, width=64)
        options = {"num_heads": 20, "construction": "rank_one", "precision": 160}
        cases.append((f"rank one, shared, n={size}, T={count}", data, options))
    for name, data, options in cases:
        memorizer = build_memorizer(data, **options)
        alone = seconds(certify, memorizer, data, claims=["error"])
        start = time.perf_counter()
        certificate = certify(memorizer, data, claims=["error", "readout"])
        both = time.perf_counter() - start
        paths = saved(data, memorizer, certificate, folder)
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


def saved(data: Dataset, memorizer: Memorizer, certificate, folder: Path) -> list[str]:
    paths = [str(folder / name) for name in ("c.json", "w.safetensors", "d.npz")]
    for thing, path in zip((certificate, memorizer, data), paths, strict=True):
        thing.save(path)
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each measurement")
    parser.add_argument("--skip-real", action="store_true", help="only the claims modulo p")
    parser.add_argument("--large", type=int, nargs="+", help="sizes of elimination, and no more")
    options = parser.parse_args()
    if options.large:
        large(options.large)
        return
    sys.path.insert(0, str(CHECKER))
    checker = importlib.import_module("command")
    announced = contextlib.redirect_stderr(io.StringIO())  # what each check needs
    with tempfile.TemporaryDirectory() as name, announced:
        folder = Path(name)
        rank_claim(checker, folder, options.runs)
        if not options.skip_real:
            real_claims(checker, folder)


if __name__ == "__main__":
    main()
