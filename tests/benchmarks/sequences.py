"""Sequences: parameters and seconds against N, the fitted exponents, and what floats leave.

    python tests/benchmarks/sequences.py [--largest 16384]   exponents
    python tests/benchmarks/sequences.py --prototype         beside the counts of a prototype
    python tests/benchmarks/sequences.py --floats            float64 and float32

Each label is compared with ==. Exponents are slopes of log(parameters) against log(keys), by least
squares, from 64 keys on; "after log" divides parameters by sqrt(log2 keys) first. The prototype is
the one on which the construction was tried out: dictionaries of gaps and labels, few tries for each
random choice; its data were drawn in the same way, from another seed.
"""

import argparse
import time
from fractions import Fraction

import numpy as np

from constructive import SequenceDataset, build_sequence_memorizer
from constructive.figures.sequences import random_sequences
from constructive.sequences.growth import exponent

CLASSES = 16
EMBEDDINGS = ("power_hash", "product_hash", "separating_set")

NEXT = {  # non-zero and total by N, for n = 8
    ("all tokens different", "power_hash"): {
        16: (567, 1020), 64: (1010, 2088), 256: (2047, 4562), 1024: (3762, 9100),
        4096: (7829, 19541),
    },
    ("all tokens different", "separating_set"): {
        16: (471, 927), 64: (811, 1829), 256: (1646, 4067), 1024: (3279, 8465), 4096: (7012, 18533),
    },
    ("one token different", "power_hash"): {
        16: (810, 1484), 64: (1775, 3423), 256: (3601, 7283), 1024: (6945, 14531),
        4096: (11953, 26614),
    },
    ("one token different", "separating_set"): {
        16: (519, 1149), 64: (1164, 2932), 256: (2639, 6928), 1024: (5930, 15808),
        4096: (12580, 33844),
    },
}  # fmt: skip
SEQ2SEQ = {  # by N and n, power hash
    "all tokens different": {
        (4, 4): (526, 1059), (16, 4): (1012, 2375), (64, 4): (1888, 4814), (16, 16): (2036, 5139),
        (4, 64): (2499, 6195), (256, 4): (3994, 10372), (64, 16): (3390, 8895),
        (16, 64): (4208, 10796), (1024, 4): (8138, 21392), (256, 16): (7965, 21076),
        (64, 64): (8141, 21321),
    },
    "vocabulary of 3n": {
        (4, 4): (517, 1065), (16, 4): (1132, 2656), (58, 4): (1965, 4794), (16, 16): (2025, 5067),
        (4, 64): (2385, 5920), (200, 4): (3591, 9096), (64, 16): (4132, 10610),
        (16, 64): (4155, 10685), (433, 4): (4988, 12838), (256, 16): (7722, 20118),
        (64, 64): (8068, 21173),
    },
}  # fmt: skip
OPTIONS = {  # non-zero and total by N, for n = 4, all tokens different, power hash
    "saturating": ({"step": "saturating"}, {16: (435, 897), 64: (1018, 2509), 256: (2236, 6065),
                                            1024: (4519, 12787), 4096: (9234, 27069)}),
    "wide": ({"layout": "wide"}, {16: (406, 584), 64: (889, 1462), 256: (1862, 3147),
                                  1024: (3687, 6622), 4096: (7258, 13143)}),
    "residual": ({"backend": "residual"}, {16: (310, 1150), 64: (641, 2306), 256: (1307, 4622),
                                           1024: (2554, 8935), 4096: (5105, 17673)}),
}  # fmt: skip
CONTEXT_SIZES = {2: 2733, 4: 2260, 8: 1941, 16: 1860, 32: 1931, 64: 1738, 128: 1771}
"""Non-zero parameters by n, for N = 256, d = 2, power hash."""


def vectors(numbers, width=4, base=100):
    """Different tokens in Q^d, of two decimals, for different numbers."""
    digits = np.stack([numbers // base**k % base for k in range(width)], axis=-1)
    return [[tuple(Fraction(int(x), 100) for x in token) for token in row] for row in digits]


def data(kind, total, size, task="next", width=4):
    """Sequences, and 16 labels."""
    rng = np.random.default_rng(total)
    base = 100 if width == 4 else 1000
    if kind == "all tokens different":
        numbers = rng.choice(base**width, size=(total, size), replace=False)
    elif kind == "one token different":
        chosen = rng.choice(base**width, size=total + size - 1, replace=False)
        common = np.tile(chosen[: size - 1], (total, 1))
        numbers = np.column_stack([common, chosen[size - 1 :]])
    else:
        vocabulary = rng.choice(base**width, size=3 * size, replace=False)
        seen = {}
        while len(seen) < total:
            row = rng.integers(3 * size, size=size)
            seen.setdefault(tuple(sorted(row.tolist())), row)
        numbers = vocabulary[np.array(list(seen.values()))]
    sequences = vectors(numbers, width, base)
    if task == "next":
        return sequences, rng.integers(CLASSES, size=total).tolist()
    known = {}
    return sequences, [
        [known.setdefault((i, token), int(rng.integers(CLASSES))) for token in row]
        for i, row in enumerate(sequences)
    ]


def measured(sequences, labels, **options):
    """A memorizer, whether it is exact, and the seconds to build and to evaluate."""
    start = time.perf_counter()
    memorizer = build_sequence_memorizer(sequences, labels, **options)
    built = time.perf_counter()
    exact = memorizer.predict(sequences) == labels
    return memorizer, exact, built - start, time.perf_counter() - built


def exponents(task, size, embedding, totals):
    print(f"\n{task}, n = {size}, {embedding}")
    print("     N   keys  exact  non-zero    total  depth  bits    build  check")
    keys, nonzero, dense = [], [], []
    for total in totals:
        sequences, labels = data("all tokens different", total, size, task)
        memorizer, exact, build, check = measured(sequences, labels, task=task, embedding=embedding)
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


def compared(name, memorizer, exact, reference):
    nonzero, total = memorizer.nonzero_parameters, memorizer.total_parameters
    beside = f"{nonzero:7} {reference[0]:7} {nonzero / reference[0]:6.2f}"
    if len(reference) > 1:
        beside += f"   {total:7} {reference[1]:7} {total / reference[1]:6.2f}"
    print(f"{name:64} {exact!s:5} {beside}", flush=True)


def beside_the_prototype(largest):
    print(f"{'':64} exact non-zero, prototype's, ratio   total, prototype's, ratio")
    for (kind, embedding), rows in NEXT.items():
        names = [embedding] + ["product_hash"] * (embedding == "power_hash")
        for name in names:
            for total in (n for n in rows if n <= largest):
                found = measured(*data(kind, total, 8), embedding=name)
                compared(f"next, n = 8, {kind}, {name}, N = {total}", *found[:2], rows[total])
    for kind, rows in SEQ2SEQ.items():
        for (total, size), reference in rows.items():
            if total * size <= largest:
                found = measured(*data(kind, total, size, "seq2seq"), task="seq2seq")
                compared(f"seq2seq, {kind}, N x n = {total} x {size}", *found[:2], reference)
    for name, (options, rows) in OPTIONS.items():
        for total in (n for n in rows if n <= largest):
            found = measured(*data("all tokens different", total, 4), **options)
            compared(f"next, n = 4, {name}, N = {total}", *found[:2], rows[total])
    for size, count in CONTEXT_SIZES.items():
        found = measured(*data("all tokens different", 256, size, width=2))
        compared(f"next, N = 256, d = 2, n = {size}", *found[:2], (count,))


def floats(largest):
    print("Share of the labels 1..16 which are left in float64 and float32; tokens k/64, d = 4")
    totals = [n for n in (16, 64, 128, 192, 256, 384, 448, 512, 768, 1024, 4096) if n <= largest]
    variants = {
        "plain": {},
        "wide": {"layout": "wide"},
        "residual": {"backend": "residual"},
        "saturating": {"step": "saturating"},
        "saturating, residual": {"step": "saturating", "backend": "residual"},
        "saturating, words of 52 bits": {"step": "saturating", "max_word_bits": 52},
        "saturating, words of 23 bits": {"step": "saturating", "max_word_bits": 23},
    }
    for size, tokens in ((8, 64), (7, 100)):
        for name, options in variants.items():
            print(f"\nn = {size}, tokens k/{tokens}, {name}, product_hash")
            print("     N  bits  non-zero  float64  float32")
            for total in totals:
                sequences, labels = random_sequences(total, size, tokens)
                memorizer = build_sequence_memorizer(
                    sequences, labels, embedding="product_hash", **options
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
    parser.add_argument("--prototype", action="store_true")
    parser.add_argument("--floats", action="store_true")
    given = parser.parse_args()
    if given.prototype:
        beside_the_prototype(given.largest)
    elif given.floats:
        floats(given.largest)
    else:
        totals = [4**k for k in range(2, 8) if 4**k <= given.largest]
        for embedding in EMBEDDINGS:
            exponents("next", 8, embedding, totals)
            exponents("seq2seq", 4, embedding, [total // 4 for total in totals if total <= 4096])


if __name__ == "__main__":
    main()
