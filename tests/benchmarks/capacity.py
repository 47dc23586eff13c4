"""What contexts hold: c(E; H) by its definition, both constructions at their limits, certificates.

    python tests/benchmarks/capacity.py [--only vocabulary limits conditions impossible language]

Prints tables for docs/performance.md and others; one run each, with the seconds it took.
"""

import argparse
import sys
import time
from itertools import combinations
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from claim_parts import certified

from constructive import (
    CapacityError,
    Dataset,
    build_memorizer,
    check,
    exact_capacity,
    fewest_heads,
    generators,
    upper_bound_certificate,
)
from constructive.data.samples import language
from constructive.exact import dyadic

HEADS, SIZE, WIDTH = 20, 32, 64


def timed(call):
    start = time.perf_counter()
    found = call()
    return found, time.perf_counter() - start


def by_definition(contexts, heads):
    """The least bound over all sets of examples."""
    total, width = len(contexts), contexts.shape[2]
    least = total
    for size in range(1, total + 1):
        for chosen in map(list, combinations(range(total), size)):
            part = contexts[chosen]
            differences = (part - part[:, :1]).reshape(-1, width)
            k, delta = dyadic.rank(part.reshape(-1, width)), dyadic.rank(differences)
            least = min(least, total - size + k + (heads - 1) * delta)
    return least


def vocabulary():
    """Small vocabularies: one-hot, dependent, with a constant entry; at most nine examples."""
    rng = np.random.default_rng(2026)
    right = closed = 0
    for seed in range(1000):
        words, width = int(rng.integers(2, 6)), int(rng.integers(1, 5))
        total, size, heads = (int(rng.integers(1, most)) for most in (10, 5, 5))
        kind = rng.integers(5)
        high = 3 if kind < 3 else 10
        known = rng.integers(1 - high, high, (words, width)).astype(float)
        known = np.eye(words) if kind == 0 else known
        known[:, 0] = 1 if kind == 4 else known[:, 0]
        contexts = known[rng.integers(0, words, (total, size))]
        queries = rng.standard_normal((total, contexts.shape[2]))
        found = exact_capacity(Dataset(contexts, queries, np.zeros(total)), heads, seed=seed)
        truth = by_definition(contexts, heads)
        right += found.contexts.lower == found.contexts.upper == truth
        closed += found.exact
    print(f"1000 vocabularies: c(E; H) right in {right}, capacity proved both ways in {closed}")


def limits():
    """As many examples as each construction holds, with d_h = 1, and what a certificate says."""
    print("data      construction     T  condition   error  build  certify  verdict")
    for make in (generators.uniform, generators.gaussian):
        for name, total in (("rank_one", HEADS * (WIDTH - 1) + 1), ("generic", HEADS * WIDTH)):
            data = make(num_examples=total, context_size=SIZE, width=WIDTH)
            memorizer, build = timed(
                lambda data=data, name=name: build_memorizer(
                    data, num_heads=HEADS, construction=name
                )
            )
            certificate, proof = timed(lambda data=data, m=memorizer: certified(m, data))
            record = memorizer.record
            print(
                f"{make.__name__:9} {name:12} {total:5}  {record.condition:9.0e} "
                f"{record.max_error:7.0e} {build:4.1f} s {proof:6.1f} s  {certificate.verdict.name}"
            )


def conditions():
    """The condition of Z by construction, for the same data; "-" where it holds too few."""
    names = "saturated", "rank_one", "generic"
    print("| data | T | H |", " | ".join(names), "|")
    print("|---|---|---|" + "---|" * len(names))
    for make in (generators.uniform, generators.gaussian, generators.shared_context):
        for total, heads in ((300, HEADS), (621, HEADS), (1261, HEADS)):
            data = make(num_examples=total, context_size=SIZE, width=WIDTH)
            cells = []
            for name in names:
                try:
                    built = build_memorizer(
                        data, num_heads=heads, construction=name, tolerance=1e99
                    )
                    cells.append(f"{built.record.condition:.0e}")
                except CapacityError:
                    cells.append("-")
            print(f"| {make.__name__} | {total} | {heads} |", " | ".join(cells), "|")


def impossible():
    """Certificates that 1,000 examples are too many, and how long checking them takes."""
    rng = np.random.default_rng(0)
    own = rng.standard_normal((1000, SIZE, WIDTH))
    constant, two = own.copy(), own.copy()
    constant[..., 5] = 1.0
    two[:500], two[500:] = own[0], own[1]
    subspace = rng.integers(-9, 10, (1000, SIZE, 48)) @ rng.integers(-9, 10, (48, WIDTH))
    words = rng.standard_normal((40, WIDTH))[rng.integers(0, 40, (1000, SIZE))]
    print("contexts       H  rank Z <=  size    made  checked")
    for name, contexts, heads in (
        ("own", own, 15), ("constant entry", constant, 15), ("one shared", own[0], 20),
        ("two", two, 10), ("48 of 64 dims", subspace.astype(float), 15), ("40 words", words, 15),
    ):  # fmt: skip
        data = Dataset(contexts, rng.standard_normal((1000, WIDTH)), np.zeros(1000))
        made, seconds = timed(lambda data=data, h=heads: upper_bound_certificate(data, h))
        checked, spent = timed(lambda made=made, data=data: check(made, None, data))
        claim = made["impossible"]
        size = len(str(claim.evidence)) / 1e3
        bound = claim.statement.split("rank Z <= ")[1].split()[0]
        verdict = "" if checked.proved else f"  {checked.report}"
        took = f"{seconds:5.1f} s {spent:5.1f} s"
        print(f"{name:14} {heads:2} {bound:>9} {size:4.0f} kB {took}{verdict}")


def windows():
    """4,000 windows of 16 words, with their last words as queries."""
    text = "\n".join(topics.values())
    found, cut = timed(lambda: language(text, context_size=16, width=384, limit=4000))
    data = found.dataset
    fewest, counted = timed(lambda: fewest_heads(data))
    memorizer, build = timed(lambda: build_memorizer(data, num_heads=12, construction="generic"))
    certificate, proof = timed(lambda: certified(memorizer, data))
    different = len(np.unique(data.queries, axis=0))
    print(
        f"{data}, {different} different queries, {len(found.ambiguous)} ambiguous windows left out "
        f"({cut:.0f} s)\n{fewest.reason} ({counted:.0f} s)\n{memorizer!r}, condition "
        f"{memorizer.record.condition:.0e} ({build:.0f} s)\n{certificate!r} ({proof:.0f} s)"
    )


PARTS = {
    "vocabulary": vocabulary, "limits": limits, "conditions": conditions, "impossible": impossible,
    "language": windows,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    for name in parser.parse_args().only:
        PARTS[name]()
        sys.stdout.flush()


if __name__ == "__main__":
    main()
