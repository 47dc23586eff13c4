"""Radii proved around memorized examples, by the interval form and by weighted means; and searches.

    python tests/benchmarks/radii.py

Geometric means over the first examples of a data set, for |f - y| <= sd(y) / 4. *gap* is the radius
at which a search found a witness over the largest one that was proved.
"""

import time

import numpy as np

from constructive import build_memorizer, generators
from constructive.instances.memorized import largest_proved, leaves, nearest_witness
from constructive.instances.network import network_of

SIZES = [(7, 3, 5, 3), (25, 4, 8, 8), (61, 8, 16, 10)]
CONSTRUCTIONS = ["saturated", "rank_one", "generic"]
EXAMPLES = 3


def radius(found):
    return np.nan if found is None else found[0].box.widths.max() / 2


def row(size, construction):
    """Print the radii of one memorizer."""
    examples, tokens, width, heads = size
    data = generators.uniform(num_examples=examples, context_size=tokens, width=width, seed=1)
    memorizer = build_memorizer(data, num_heads=heads, construction=construction)
    epsilon = 0.25 * float(np.std(data.targets))
    radii, seconds = [], []
    for t in range(EXAMPLES):
        network = network_of(memorizer.layer, data.contexts[t])
        bad, query, found = leaves(data.targets[t : t + 1], epsilon), data.queries[t], []
        for dual in (False, True):
            start = time.perf_counter()
            found.append(radius(largest_proved(network, query, bad, dual=dual)))
            seconds.append(time.perf_counter() - start)
        if np.isnan(found).any():
            print(f"| {', '.join(map(str, size))} {construction} | none in float32 | | | |")
            return
        found.append(radius(nearest_witness(network, query, bad, beyond=found[1])))
        radii.append(found)
    interval, dual, attack = np.exp(np.mean(np.log(radii), axis=0))
    times = np.reshape(seconds, (EXAMPLES, 2)).mean(axis=0)
    print(
        f"| {', '.join(map(str, size))} {construction} | {interval:.2e} ({times[0]:.2f} s) "
        f"| {dual:.2e} ({times[1]:.2f} s) | {attack:.2e} | {attack / dual:.2f} |"
    )


def main():
    print("| T, n, d, H, construction | interval form | and weighted means | search | gap |")
    print("|---|---|---|---|---|")
    for size in SIZES:
        for construction in CONSTRUCTIONS:
            row(size, construction)


if __name__ == "__main__":
    main()
