"""What certificates cost. Run: python tests/benchmarks/certify.py [--runs 5] [--skip-real]

    python tests/benchmarks/certify.py --large 4000 8000

does elimination modulo p alone, of matrices stored in float32, once for each size and in a process
of its own, whose memory is read; and

    python tests/benchmarks/certify.py --claim 10000

the rank claim of generic heads of d = 384, from files, in processes of their own.

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

import flint
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


def flint_rank(matrix: np.ndarray) -> int:
    """The rank by python-flint, its conversion included."""
    rows, columns = matrix.shape
    entries = (matrix.astype(np.int64) % PRIME).ravel().tolist()
    return flint.nmod_mat(rows, columns, entries, PRIME).rank()


def elimination(runs: int) -> None:
    rng = np.random.default_rng(0)
    rows = table("elimination modulo p", "T", "LAPACK LU", "ours", "ours/LU", "nmod_mat/ours")
    for size in (1000, 2000, 4000):
        matrix = modular.reduce(rng.integers(PRIME, size=(size, size)).astype(float), PRIME)
        lu, ours = [], []
        for _ in range(runs):
            lu.append(seconds(lu_factor, matrix, check_finite=False))
            ours.append(seconds(modular.factor, matrix, PRIME))
        peer = seconds(flint_rank, matrix)
        rows.add_row(
            str(size),
            f"{np.median(lu):.2f} s",
            f"{np.median(ours):.2f} s",
            f"{np.median(np.divide(ours, lu)):.1f}",
            f"{peer / ours[-1]:.1f}",
        )
    CONSOLE.print(rows)


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


def measured(work: Callable[[], object]) -> tuple[str, str, str]:
    """Seconds, CPU seconds, and memory beside what this process has held so far."""
    held, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    took = seconds(work)
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / 1e6
    return f"{took:.0f} s", f"{time.process_time() - start:.0f} s", f"{more:.2f} GB"


def wide_build(total: int, folder: Path) -> tuple[str, str, str]:
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((total, 4, 384), dtype=np.float32)
    queries = rng.standard_normal((total, 384), dtype=np.float32)
    data = Dataset(contexts, queries, rng.random(total))
    data.save(folder / "d.npz")

    def work() -> None:
        heads = -(-total // 384)
        build_memorizer(data, num_heads=heads, construction="generic").save(
            folder / "w.safetensors"
        )

    return measured(work)


def wide_certify(folder: Path) -> tuple[str, str, str]:
    memorizer = Memorizer.load(folder / "w.safetensors")
    data = Dataset.load(folder / "d.npz")
    return measured(lambda: certify(memorizer, data, claims=["rank"]).save(folder / "c.json"))


def wide_check(folder: Path, how: str) -> tuple[str, str, str]:
    sys.path.insert(0, str(CHECKER))
    checker = importlib.import_module("command")
    names = [str(folder / name) for name in ("c.json", "w.safetensors", "d.npz")]
    return measured(lambda: checker.check(names, quick=how == "quick"))


def wide_claim(total: int) -> None:
    rows = table(
        f"rank claim, T={total}, n=4, d=384, generic heads", "", "seconds", "CPU", "memory"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for step, work, arguments in (
            ("build", wide_build, (total, folder)),
            ("certify", wide_certify, (folder,)),
            ("quick check, reading included", wide_check, (folder, "quick")),
            ("check, reading included", wide_check, (folder, "full")),
        ):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                rows.add_row(step, *pool.apply(work, arguments))
    CONSOLE.print(rows)


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


def tiny(checker, folder: Path, runs: int) -> None:
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=3)
    every = ["grouping", "rank", "error", "readout"]
    paths = saved(data, memorizer, certify(memorizer, data, claims=every), folder)
    rows = table("tiny, T=7, medians", "certify: rank", "all claims", "check", "quick", "kB")
    count = 40 * runs
    works = (
        lambda: certify(memorizer, data, claims=["rank"]),
        lambda: certify(memorizer, data, claims=every),
        lambda: checker.check(paths),
        lambda: checker.check(paths, quick=True),
    )
    medians = [1e3 * np.median([seconds(work) for _ in range(count)]) for work in works]
    size = f"{Path(paths[0]).stat().st_size / 1000:.1f}"
    rows.add_row(*(f"{x:.1f} ms" for x in medians), size)
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
    parser.add_argument("--claim", type=int, help="the T of a rank claim of d = 384, and no more")
    options = parser.parse_args()
    if options.claim:
        wide_claim(options.claim)
        return
    if options.large:
        large(options.large)
        return
    sys.path.insert(0, str(CHECKER))
    checker = importlib.import_module("command")
    announced = contextlib.redirect_stderr(io.StringIO())  # what each check needs
    with tempfile.TemporaryDirectory() as name, announced:
        folder = Path(name)
        elimination(options.runs)
        rank_claim(checker, folder, options.runs)
        tiny(checker, folder, options.runs)
        if not options.skip_real:
            real_claims(checker, folder)


if __name__ == "__main__":
    main()
