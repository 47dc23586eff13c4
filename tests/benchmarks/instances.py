"""How many witnesses of planted needles searches find.

    python tests/benchmarks/instances.py --dims 2 10 20 --seeds 32

Each search has the same budget of evaluations of f in float64, restarts included, and exact
gradients.
"""

import argparse
import math

import numpy as np

from constructive.instances import planted
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
SCALES = 16.0, 64.0, 256.0
BUDGET = 100_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dims", type=int, nargs="+", default=[3, 5, 10, 20])
    parser.add_argument("--seeds", type=int, default=8)
    given = parser.parse_args()
    print(f"{'d':>4} {'scale':>6}  {'random':>10} {' '.join(f'{name:>10}' for name in STEPS)}")
    for dim in given.dims:
        for scale in SCALES:
            found = dict.fromkeys(["random", *STEPS], 0)
            for seed in range(given.seeds):
                sat = planted(dim=dim, scale=scale, seed=seed).sat
                asked = sat.network, sat.property
                found["random"] += at_random(*asked, BUDGET, seed) >= 0.0
                for method in STEPS:
                    found[method] += search(*asked, method, budget=BUDGET, seed=seed)[1] >= 0.0
            print(f"{dim:4} {scale:6g}  {' '.join(f'{n:10}' for n in found.values())}", flush=True)


if __name__ == "__main__":
    main()
