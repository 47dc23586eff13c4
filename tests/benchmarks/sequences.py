"""Sequences: parameters and seconds against N, the fitted exponents, and what floats leave.

    python tests/benchmarks/sequences.py [--largest 16384]   exponents
    python tests/benchmarks/sequences.py --floats            float64 and float32

Each label is compared with ==. Exponents are slopes of log(parameters) against log(keys), by least
squares, from 64 keys on; "after log" divides parameters by sqrt(log2 keys) first.
"""

import argparse
import time
from fractions import Fraction

import numpy as np

from constructive import SequenceDataset, build_sequence_memorizer
from constructive.figures.sequences import exponent, random_sequences
from constructive.sequences.constructions import CONSTRUCTIONS

CLASSES = 16
FEWEST = ("product_hash", "separating_set")


def vectors(numbers):
    """Different tokens in Q^4, of two decimals, for different numbers."""
    digits = np.stack([numbers // 100**k % 100 for k in range(4)], axis=-1)
    return [[tuple(Fraction(int(x), 100) for x in token) for token in row] for row in digits]


def data(total, size, task):
    """Sequences whose tokens are all different, and 16 labels."""
    rng = np.random.default_rng(total)
    sequences = vectors(rng.choice(100**4, size=(total, size), replace=False))
    if task == "next":
        return sequences, rng.integers(CLASSES, size=total).tolist()
    return sequences, rng.integers(CLASSES, size=(total, size)).tolist()


def measured(sequences, labels, **options):
    """A memorizer, whether it is exact, and the seconds to build and to evaluate."""
    start = time.perf_counter()
    memorizer = build_sequence_memorizer(sequences, labels, **options)
    built = time.perf_counter()
    exact = memorizer.predict(sequences) == labels
    return memorizer, exact, built - start, time.perf_counter() - built


def exponents(task, size, construction, totals):
    print(f"\n{task}, n = {size}, {construction}")
    print("     N   keys  exact  non-zero    total  depth  bits    build  check")
    keys, nonzero, dense = [], [], []
    for total in totals:
        sequences, labels = data(total, size, task)
        memorizer, exact, build, check = measured(
            sequences, labels, task=task, construction=construction
        )
        keys.append(memorizer.record.sizes.keys)
        nonzero.append(memorizer.nonzero_parameters)
        dense.append(memorizer.total_parameters)
        depth = memorizer.embedding.depth + memorizer.classifier.depth
        print(
            f"{total:6} {keys[-1]:6}  {exact!s:5} {nonzero[-1]:9} {dense[-1]:8} {depth:6} "
            f"{memorizer.largest_bits:5} {build:7.1f} s {check:5.1f} s", flush=True,
        )  # fmt: skip
    first = sum(1 for count in keys if count < 64)
    for name, counts in (("non-zero", nonzero), ("total", dense)):
        slope = exponent(keys[first:], counts[first:])
        after = exponent(keys[first:], counts[first:], after_log=True)
        print(f"exponent of {name} parameters: {slope:.3f}; after log: {after:.3f}")


def floats(largest):
    print("Share of the labels 1..16 which are left in float64 and float32; tokens k/64, n = 8")
    variants = [(name, None) for name in CONSTRUCTIONS]
    variants += [(name, most) for name in CONSTRUCTIONS if "float" in name for most in (52, 23)]
    for name, most in variants:
        print(f"\n{name}, max_word_bits={most}")
        print("     N  bits  non-zero  float64  float32")
        for total in (256, 512, 1024, 4096):
            if total > largest:
                break
            sequences, labels = random_sequences(total, 8, 64)
            memorizer = build_sequence_memorizer(
                sequences, labels, construction=name, max_word_bits=most
            )
            dataset = SequenceDataset.of(sequences, labels)
            double, single = (memorizer.reproduced(dataset, t) for t in ("f8", "f4"))
            print(
                f"{total:6} {memorizer.largest_bits:5} {memorizer.nonzero_parameters:9} "
                f"{double:8.1%} {single:8.1%}", flush=True,
            )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=16384)
    parser.add_argument("--floats", action="store_true")
    given = parser.parse_args()
    if given.floats:
        floats(given.largest)
        return
    totals = [4**k for k in range(2, 8) if 4**k <= given.largest]
    for construction in FEWEST:
        exponents("next", 8, construction, totals)
        exponents("seq2seq", 4, construction, [total // 4 for total in totals if total <= 4096])


if __name__ == "__main__":
    main()
