"""What it costs to have Rocq prove claims of stored numbers: time, memory, and size of files.

    python tests/benchmarks/rocq_instances.py [--large]

The theory is compiled once before, for all of them. --large adds a claim that takes some minutes.
"""

import argparse
import resource
import tempfile
from contextlib import nullcontext
from unittest import mock

from measuring import saved, timed

from constructive import build_memorizer, certify, generators, upper_bound_certificate
from constructive.rocq import compiling as rocq
from constructive.rocq.confirm import confirm, gigabytes
from constructive.rocq.definitions import write
from constructive.rocq.theories import ERROR, IMPOSSIBLE, ONTO, RANK

SMALL = (100, 12, 16, 9)  # T, n, d, H
LARGE = (621, 32, 64, 20)
FREE = (100, 12, 16, 4)
LAYERS = {  # the construction of each claim, and options
    "rank": (RANK, {"construction": "saturated"}),
    "onto": (ONTO, {"construction": "tangent", "head_dim": 4}),
    "error": (ERROR, {"construction": "saturated"}),
}


def measure(kind, theory, certificate, *things):
    """Time one certificate, whose memorizer, if there is one, and data are things."""
    given = [certificate, *(thing for thing in things if thing is not None)]
    known = theory.known_of(*given)
    files = write(theory.filled(known, *given))
    with tempfile.TemporaryDirectory() as folder:
        paths = saved(folder, certificate, *things)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall, done = timed(lambda: confirm(*paths))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"| {kind} | {done.verdict.name} | {sum(map(len, files.values())) / 1e6:.2f} MB | "
        f"{sum(x.size for x in known.arrays.values()):,} | {wall:.0f} s | {cpu:.0f} s | "
        f"{after.ru_maxrss / 1e6:.2f} GB | {gigabytes(known):.2f} GB |",
        flush=True,
    )


def measure_layer(claim, sizes):
    """A claim of heads on contexts of their own."""
    (total, size, width, heads), (theory, options) = sizes, LAYERS[claim]
    data = generators.uniform(num_examples=total, context_size=size, width=width, seed=0)
    memorizer = build_memorizer(data, num_heads=heads, **options)
    certificate = certify(memorizer, data, claims=[claim])
    measure(f"{claim} | {' | '.join(map(str, sizes))}", theory, certificate, memorizer, data)


def measure_bound():
    """One example more than any weights memorize, on a shared context."""
    total, size, width, heads = 622, *LARGE[1:]
    data = generators.shared_context(num_examples=total, context_size=size, width=width)
    certificate = upper_bound_certificate(data, heads)
    kind = f"impossible | {total} | {size} | {width} | {heads}"
    measure(kind, IMPOSSIBLE, certificate, None, data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="also errors of 621 examples")
    large = parser.parse_args().large
    with (
        # impossible needs the theory of ranks
        rocq.compiled(IMPOSSIBLE.name, ERROR.name, ONTO.name) as theory,
        mock.patch.object(rocq, "compiled", return_value=nullcontext(theory)),
    ):
        print(
            "| claim | T | n | d | H | | files | stored numbers | wall | CPU | "
            "largest process yet | estimate |"
        )
        print("|" + "---|" * 12)
        measure_layer("rank", SMALL)
        measure_layer("onto", FREE)
        measure_bound()
        measure_layer("error", SMALL)
        if large:
            measure_layer("error", LARGE)


if __name__ == "__main__":
    main()
