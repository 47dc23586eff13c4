"""What searches find of planted witnesses, against what Theorem 20.5 promises that they do not.

Each search has the same budget of evaluations of f in float64, restarts included, and exact
gradients. *at most* is the budget times the proved probability per evaluation (`Hardness`), the
mean over the seeds: for random points, and for ascent along signs. A dash is a case that is outside
of the hypotheses. For other searches nothing is promised.

    python tests/benchmarks/hardness.py --kind needle --dims 3 5 10 20 --scales 16 64 256 --seeds 8
"""

import argparse
import math
import time

import numpy as np

from constructive.instances import FAMILIES, Answer
from constructive.instances.difficulty import STEPS, search


def normalised():
    """Steps along gradients, of one length each."""

    def step(gradient, _):
        lengths = np.linalg.norm(gradient, axis=1, keepdims=True)
        return math.sqrt(gradient.shape[1]) * gradient / (lengths + 1e-300)

    return step


STEPS["normalised"] = normalised


def promised(share, budget):
    """The largest part of seeds that a search finds, on average; 1 where nothing is promised."""
    return 1.0 if share is None else min(1.0, share * budget)


def row(kind, dim, scale, seeds, budget):
    """Print what each search finds of the sat instances of some seeds."""
    found = dict.fromkeys(STEPS, 0)
    promises, outside = [], 0
    start = time.perf_counter()
    for seed in range(seeds):
        pair = FAMILIES[kind]().make(dim, seed=seed, scale=scale)
        (sat,) = (each for each in pair if each.answer is Answer.SAT)
        promises.append([promised(share, budget) for share in sat.hardness])
        outside += sat.hardness.sign is None
        for method in STEPS:
            attempt = search(sat.network, sat.property, method, budget=budget, seed=seed)
            found[method] += attempt.slack >= 0.0
    random, sign = np.mean(promises, axis=0)
    limits = f"{random:8.0e} {'-' if outside == seeds else f'{sign:8.0e}':>8}"
    shares = " ".join(f"{count:4}/{seeds}" for count in found.values())
    print(f"{kind:8} {dim:4} {scale:6g} {limits}  {shares} {time.perf_counter() - start:7.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", default="needle", choices=["needle", "corner"])
    parser.add_argument("--dims", type=int, nargs="+", default=[3, 5, 10, 20])
    parser.add_argument("--scales", type=float, nargs="+", default=[16.0, 64.0, 256.0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--budget", type=int, default=100_000)
    given = parser.parse_args()
    names = " ".join(f"{name[:6]:>6}" for name in STEPS)
    print(f"{'':20} {'at most':^17}  found by")
    print(f"{'kind':8} {'d':>4} {'scale':>6} {'random':>8} {'sign':>8}  {names}")
    for dim in given.dims:
        for scale in given.scales:
            row(given.kind, dim, scale, given.seeds, given.budget)


if __name__ == "__main__":
    main()
