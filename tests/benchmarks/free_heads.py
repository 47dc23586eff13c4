"""Tangent heads: examples, errors, sizes of weights, seconds; and what certificates take.

Run: python tests/benchmarks/free_heads.py [small | large | largest | real ...]

Seconds are those of the processor, and the table says how many times those of one Cholesky
factorization with its Gram matrix they are, each measured in the same run with one BLAS thread.
"""

import argparse
import time

import measuring
import numpy as np
from scipy.linalg import lapack

from constructive import Dataset, build_memorizer, capacity, certify, check
from constructive.figures.real_data import digit_images, sinusoidal_positions, text_windows
from constructive.support.work import one_blas_thread

# n, d, H, d_h; then T, or parts of the number that free heads memorize at least
SMALL = [(2, 16, 2, 8), (8, 32, 4, 16), (8, 32, 4, 8)]
LARGE = [(16, 64, 8, 8), (256, 32, 4, 8)]
ONE = (16, 64, 8, 16, 5734)
LARGEST = (8, 64, 30, 16, 30720)
SHARED = [(32, 64, 4, 64, 550), (32, 64, 8, 64, 1300)]
REAL = {"digits": (16, 64, 8, 4, 1797), "letters": (16, 64, 2, 4, 300)}


def drawn(size, width, total, kind, *, shared=False):
    rng = np.random.default_rng(1)
    draw = rng.standard_normal if kind == "Gaussian" else rng.random
    contexts = draw((size, width) if shared else (total, size, width))
    return Dataset(contexts, draw((total, width)), rng.standard_normal(total))


def real(kind, size, width, total):
    """Patches of images as the demo embeds them, or letters of windows; targets are drawn."""
    rng = np.random.default_rng(0)
    if kind == "digits":
        images = digit_images()
        tokens = images.patches @ rng.standard_normal((4, width))
        contexts = tokens + rng.standard_normal((size, width))
        queries = images.pixels @ rng.standard_normal((64, width)) / 8
    else:
        letters = rng.standard_normal((256, width))[text_windows(total, size)]
        contexts = letters + sinusoidal_positions(size, width)
        queries = contexts[:, -1]
    return Dataset(contexts, queries, rng.standard_normal(total))


def cpu(work):
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def factorization(total, columns):
    """Seconds of a Gram matrix of so many columns, and its Cholesky factor."""
    rows = np.random.default_rng(0).standard_normal((total, columns))

    def work():
        gram = rows @ rows.T
        gram[np.diag_indices(total)] += 2.0 * columns
        lapack.dpotrf(gram, lower=1, overwrite_a=1)

    with one_blas_thread():
        return cpu(work)[0]


def row(kind, shape, total, *, shared=False, proved=True):
    size, width, heads, head_dim = shape
    data = (
        real(kind, size, width, total)
        if kind in REAL
        else drawn(size, width, total, kind, shared=shared)
    )
    asked = {"num_heads": heads, "head_dim": head_dim, "construction": "tangent"}
    seconds, built = cpu(lambda: build_memorizer(data, **asked))
    once = factorization(total, heads * width)
    found = [kind, *shape, total, f"{total / built.record.capacity:.0%}"]
    found += [f"{built.max_error(data):.0e}", f"{np.abs(built.layer.value_weights).max():.0e}"]
    found += [f"{seconds:.1f}", f"{seconds / once:.1f}"]
    if proved:
        seconds, certificate = cpu(lambda: certify(built, data))
        found += [" ".join(claim.verdict.name for claim in certificate.claims)]
        found += [f"{seconds:.1f}", check(certificate, built, data).proved]
    return found


def rows(words):
    for shape in [*(SMALL if "small" in words else []), *(LARGE if "large" in words else [])]:
        size, width, heads, head_dim = shape
        sizes = {"num_heads": heads, "head_dim": head_dim, "context_size": size, "width": width}
        room = capacity(**sizes).free.at_least
        for kind in ("Gaussian", "uniform"):
            for load in (0.8, 1.0):
                yield row(kind, shape, int(load * room))
    if "small" in words:
        for *shape, total in SHARED:
            yield row("shared", tuple(shape), total, shared=True)
    if "large" in words:
        yield row("Gaussian", ONE[:4], ONE[4], proved=False)
    if "real" in words:
        for kind, (*shape, total) in REAL.items():
            yield row(kind, tuple(shape), total)
    if "largest" in words:
        yield row("Gaussian", LARGEST[:4], LARGEST[4], proved=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", default=["small"], metavar="small large largest real")
    headings = [
        "data", "n", "d", "H", "d_h", "T", "load", "error", "readout", "build", "factorizations",
        "error, onto, near", "certify", "checked",
    ]  # fmt: skip
    measuring.table("Tangent heads", headings, rows(parser.parse_args().words), left=1)


if __name__ == "__main__":
    main()
