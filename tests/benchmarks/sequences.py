"""Sequences: parameters and seconds against N, and the fitted exponents.

    python tests/benchmarks/sequences.py [--largest 16384]

Data: all tokens different, d = 4 entries of two decimals, 16 classes. Each label is compared with
==. Exponents are slopes of log(parameters) against log(keys), by least
squares; "after log" divides parameters by sqrt(log2 keys) first.
"""

import argparse
import time
from fractions import Fraction

import numpy as np

from constructive import build_sequence_memorizer

CLASSES, WIDTH = 16, 4


def generic(total, size, task):
    """Sequences of different tokens in Q^4, and random labels."""
    rng = np.random.default_rng(total)
    numbers = rng.choice(10**9, size=total * size, replace=False)
    digits = np.stack([numbers // 1000**k % 1000 for k in range(3)] + [numbers % 7], axis=1)
    vectors = [tuple(Fraction(int(x), 100) for x in row) for row in digits]
    sequences = [vectors[i * size : (i + 1) * size] for i in range(total)]
    shape = (total, size) if task == "seq2seq" else total
    return sequences, rng.integers(CLASSES, size=shape).tolist()


def fitted(keys, counts):
    keys, counts = np.array(keys, dtype=float), np.array(counts, dtype=float)
    return np.polyfit(np.log(keys), np.log(counts), 1)[0]


def table(task, size, embedding, totals):
    print(f"\n{task}, n = {size}, {embedding}")
    print("     N   keys  exact  non-zero    total  depth  bits    build  check")
    keys, nonzero, dense = [], [], []
    for total in totals:
        sequences, labels = generic(total, size, task)
        start = time.perf_counter()
        memorizer = build_sequence_memorizer(sequences, labels, task=task, embedding=embedding)
        built = time.perf_counter()
        exact = memorizer.predict(sequences) == labels
        done = time.perf_counter()
        keys.append(total * (size if task == "seq2seq" else 1))
        nonzero.append(memorizer.nonzero_parameters)
        dense.append(memorizer.total_parameters)
        depth = memorizer.embedding.depth + memorizer.classifier.depth
        bits = max(memorizer.embedding.largest_bits, memorizer.classifier.largest_bits)
        print(
            f"{total:6} {keys[-1]:6}  {exact!s:5} {nonzero[-1]:9} {dense[-1]:8} {depth:6} {bits:5} "
            f"{built - start:7.1f} s {done - built:5.1f} s", flush=True,
        )  # fmt: skip
    logs = np.sqrt(np.log2(keys))
    from64 = [i for i, count in enumerate(keys) if count >= 64]
    for name, counts in (("non-zero", np.array(nonzero)), ("total", np.array(dense))):
        plain = fitted(np.array(keys)[from64], counts[from64])
        after = fitted(np.array(keys)[from64], (counts / logs)[from64])
        print(f"exponent of {name} parameters: {plain:.3f}; after log: {after:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=16384)
    largest = parser.parse_args().largest
    totals = [4**k for k in range(2, 8) if 4**k <= largest]
    for embedding in ("power_hash", "separating_set"):
        table("next", 8, embedding, totals)
        table("seq2seq", 4, embedding, [total // 4 for total in totals if total <= 4096])


if __name__ == "__main__":
    main()
