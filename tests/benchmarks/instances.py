"""Witnesses that searches find of instances for verifiers, and bounds of their conditions.

    python tests/benchmarks/instances.py hardness --dims 3 5 10 20 --seeds 8

hardness  what searches find of planted needles, against what Theorem 20.5 promises that they do
          not. Each search has the same budget of evaluations of f in float64, restarts included,
          and exact gradients. *at most* is the budget times the proved probability per evaluation
          (`Hardness`), the mean over the seeds: for random points, and for ascent along signs. A
          dash is a case that is outside of the hypotheses. For other searches nothing is promised.
"""

import argparse
import math
import time

import numpy as np

from constructive.instances import FAMILIES, Answer
from constructive.instances.memorized import STEPS, search


def normalised():
    """Steps along gradients, of one length each."""

    def step(gradient, _):
        lengths = np.linalg.norm(gradient, axis=1, keepdims=True)
        return math.sqrt(gradient.shape[1]) * gradient / (lengths + 1e-300)

    return step


def at_random(network, wanted, budget, seed):
    """The largest slack of random points."""
    box, random, most = wanted.box, np.random.default_rng(seed), -math.inf
    for start in range(0, budget, 1000):
        points = random.uniform(box.lower, box.upper, (min(1000, budget - start), len(box.lower)))
        most = max(most, wanted.least_slack(network(points)).max())
    return most


STEPS["normalised"] = normalised
SEARCHES = "random", *STEPS
SCALES = 16.0, 64.0, 256.0
BUDGET = 100_000


def promised(share):
    """The largest part of seeds that a search finds, on average; 1 where nothing is promised."""
    return 1.0 if share is None else min(1.0, share * BUDGET)


def hardness_row(dim, scale, seeds):
    """Print what each search finds of the sat instances of some seeds."""
    found = dict.fromkeys(SEARCHES, 0)
    promises, outside = [], 0
    start = time.perf_counter()
    for seed in range(seeds):
        pair = FAMILIES["needle"]().make(dim, seed=seed, scale=scale)
        (sat,) = (each for each in pair if each.answer is Answer.SAT)
        promises.append([promised(share) for share in sat.hardness])
        outside += sat.hardness.sign is None
        found["random"] += at_random(sat.network, sat.property, BUDGET, seed) >= 0.0
        for method in STEPS:
            _, slack = search(sat.network, sat.property, method, budget=BUDGET, seed=seed)
            found[method] += slack >= 0.0
    random, sign = np.mean(promises, axis=0)
    limits = f"{random:8.0e} {'-' if outside == seeds else f'{sign:8.0e}':>8}"
    shares = " ".join(f"{count:4}/{seeds}" for count in found.values())
    print(f"{dim:4} {scale:6g} {limits}  {shares} {time.perf_counter() - start:7.1f} s")


def hardness(given):
    names = " ".join(f"{name[:6]:>6}" for name in SEARCHES)
    print(f"{'':11} {'at most':^17}  found by")
    print(f"{'d':>4} {'scale':>6} {'random':>8} {'sign':>8}  {names}")
    for dim in given.dims:
        for scale in SCALES:
            hardness_row(dim, scale, given.seeds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["hardness"])
    parser.add_argument("--dims", type=int, nargs="+", default=[3, 5, 10, 20])
    parser.add_argument("--seeds", type=int, default=8)
    given = parser.parse_args()
    hardness(given)


if __name__ == "__main__":
    main()
