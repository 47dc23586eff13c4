"""What it costs to have Rocq prove claims of stored numbers: time, memory, and size of files.

    python tests/benchmarks/rocq_instances.py [--large]

The theory is compiled once before, for all of them. --large adds a million entries and more, in
ten minutes.
"""

import argparse
import resource
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy as np

from constructive import Dataset, build_memorizer, certify, generators, upper_bound_certificate
from constructive.certificates.rocq import compiling as rocq
from constructive.certificates.rocq import error, impossible, rank
from constructive.certificates.rocq.confirm import confirm, gigabytes
from constructive.certificates.rocq.definitions import write

RANKS = [  # T, n, d, H, construction, contexts
    (7, 3, 5, 3, "saturated", "own"),
    (31, 4, 8, 10, "saturated", "own"),
    (61, 7, 11, 10, "saturated", "own"),
    (100, 12, 16, 9, "saturated", "own"),
    (100, 12, 16, 9, "rank_one", "own"),
    (100, 12, 16, 9, "saturated", "shared"),
]
LARGE_RANKS = [
    (621, 32, 64, 20, "saturated", "shared"),
    (621, 32, 64, 20, "saturated", "own"),
]
ERRORS = [(100, 12, 16, 9, "saturated", "own")]
LARGE_ERRORS = [(621, 32, 64, 20, "saturated", "own")]
BOUNDS = [  # T, n, d, H, contexts
    (20, 3, 5, 3, "own"),
    (100, 12, 16, 6, "own"),
    (100, 12, 16, 6, "constant"),
    (100, 12, 16, 8, "shared"),
    (100, 12, 16, 8, "subspace"),
]
LARGE_BOUNDS = [
    (622, 32, 64, 20, "shared"),
    (300, 16, 64, 6, "subspace"),
    (700, 32, 64, 10, "own"),
]


def data_of(total, size, width, contexts):
    """Contexts of their own; one; with a constant entry; or integers in 3/4 of the dimensions."""
    if contexts == "shared":
        return generators.shared_context(num_examples=total, context_size=size, width=width)
    if contexts == "constant":
        return generators.gaussian(
            num_examples=total, context_size=size, width=width - 1
        ).with_constant()
    made = generators.gaussian(num_examples=total, context_size=size, width=width)
    if contexts == "subspace":
        rng = np.random.default_rng(0)
        basis = rng.integers(-9, 10, (3 * width // 4, width))
        tokens = rng.integers(-9, 10, (total, size, len(basis))) @ basis
        return Dataset(tokens.astype(float), made.queries, made.targets)
    return made


def timed(kind, files, known, confirmed):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = confirmed()
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"| {kind} | {done.verdict.name} | {sum(map(len, files.values())) / 1e6:.2f} MB | "
        f"{sum(x.size for x in known.arrays.values()):,} | {wall:.0f} s | {cpu:.0f} s | "
        f"{after.ru_maxrss / 1e6:.2f} GB | {gigabytes(known):.2f} GB |",
        flush=True,
    )


def measure_layer(name, case, instance_of, known_of):
    total, size, width, heads, construction, contexts = case
    make = generators.shared_context if contexts == "shared" else generators.uniform
    data = make(num_examples=total, context_size=size, width=width, seed=0)
    memorizer = build_memorizer(data, num_heads=heads, construction=construction)
    certificate = certify(memorizer, data, claims=[name])
    known = known_of(certificate, memorizer, data)
    files = write(instance_of(certificate, memorizer, data))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("c.json", "m.safetensors", "d.npz")]
        for thing, path in zip((certificate, memorizer, data), paths, strict=True):
            thing.save(path)
        timed(
            f"{name} | {total} | {size} | {width} | {heads} | {construction}, {contexts}",
            files,
            known,
            lambda: confirm(*paths),
        )


def measure_bound(case):
    total, size, width, heads, contexts = case
    data = data_of(total, size, width, contexts)
    certificate = upper_bound_certificate(data, heads)
    known = impossible.known_of(certificate, data)
    files = write(impossible.instance_of(certificate, data))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("c.json", "d.npz")]
        for thing, path in zip((certificate, data), paths, strict=True):
            thing.save(path)
        timed(
            f"impossible | {total} | {size} | {width} | {heads} | {contexts}",
            files,
            known,
            lambda: confirm(paths[0], None, paths[1]),
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="a million entries and more, too")
    large = parser.parse_args().large
    with (
        rocq.compiled(impossible.THEORY.name) as theory,  # which needs that of ranks
        mock.patch.object(rocq, "compiled", return_value=nullcontext(theory)),
    ):
        measure(large=large)


def measure(*, large):
    print(
        "| claim | T | n | d | H | weights, contexts | | files | stored numbers | wall | CPU | "
        "largest process yet | estimate |"
    )
    print("|" + "---|" * 13)
    for case in RANKS + LARGE_RANKS * large:
        measure_layer("rank", case, rank.instance_of, rank.known_of)
    for case in ERRORS + LARGE_ERRORS * large:
        measure_layer("error", case, error.instance_of, error.known_of)
    for case in BOUNDS + LARGE_BOUNDS * large:
        measure_bound(case)


if __name__ == "__main__":
    main()
