"""Seconds and CPU seconds of a build, a proof, a check and a capacity, by the number of threads.

    python tests/benchmarks/threads.py [--jobs 1 2] [--size 7 | 1861 | 4000] [--beside]

With --beside, another process multiplies matrices with two threads meanwhile. Each number of
threads has a process of its own. Restrict cores with `taskset -c 0,1`.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from measuring import alone, memory, saved

from constructive import Dataset, build_memorizer, certify, check, generators
from constructive.theory.capacity import fixed_capacity

NOISE = "import numpy as np\na = np.ones((2500, 2500))\nwhile True: a @ a"


def data_of(size):
    """T = 7, n = 3, d = 5, H = 3; T = 1861, n = 32, d = 64, H = 60; T = 4000, d = 384, H = 11."""
    if size == 7:
        return generators.uniform(num_examples=7, context_size=3, width=5, seed=1), 3
    if size == 1861:
        return generators.uniform(num_examples=1861, context_size=32, width=64, seed=1), 60
    rng = np.random.default_rng(0)
    shapes = (4000, 16, 384), (4000, 384), (4000,)
    return Dataset(*(rng.standard_normal(shape).astype(np.float32) for shape in shapes)), 11


def told(name, work):
    """Print seconds, and return what came of it."""
    wall, cpu = time.perf_counter(), os.times()
    found = work()
    wall, now = time.perf_counter() - wall, os.times()
    spent = sum(now[:4]) - sum(cpu[:4])  # with processes that have ended
    print(f"  {name:9} {wall:7.4f} s {spent:7.2f} s of CPU", flush=True)
    return found


def measure(size):
    data, heads = data_of(size)
    small = generators.uniform(num_examples=200, context_size=32, width=64)
    certify(build_memorizer(small, num_heads=7), small)  # loads libraries
    memorizer = told("build", lambda: build_memorizer(data, num_heads=heads))
    certificate = told("certify", lambda: certify(memorizer, data))
    told("capacity", lambda: fixed_capacity(data, heads))
    with tempfile.TemporaryDirectory() as folder:
        paths = saved(folder, certificate, memorizer, data)
        checked = told("check", lambda: check(*paths))
        bits = hashlib.sha256(paths[0].read_bytes() + paths[1].read_bytes()).hexdigest()[:16]
    peak = memory("VmHWM") / 1e9
    verdicts = f"{certificate.verdict.name}, {checked.verdict.name}"
    print(f"  {verdicts}; bits {bits}; {peak:.2f} GB at most", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--size", type=int, choices=(7, 1861, 4000), default=1861)
    parser.add_argument("--beside", action="store_true")
    given = parser.parse_args()
    noise = subprocess.Popen([sys.executable, "-c", NOISE], env=os.environ | {
        "OPENBLAS_NUM_THREADS": "2"}) if given.beside else None  # fmt: skip
    try:
        for jobs in given.jobs:
            print(f"T = {given.size}, {jobs} threads", flush=True)
            os.environ["CONSTRUCTIVE_JOBS"] = str(jobs)
            alone(measure, given.size)
    finally:
        if noise is not None:
            noise.kill()


if __name__ == "__main__":
    main()
