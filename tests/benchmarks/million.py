"""A dataset on disk: generate, build with pairs, certify and check, each in its own process.

Run: python tests/benchmarks/million.py [-T 1000000] [--folder DIR]

For each step: seconds, seconds of the processor, and the peak of the memory which its processes
hold (resident, pages of files included). The data are float32, 8.4 GB by default; the work grows as
T H. What is written to the folder is removed at the end.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOKENS, WIDTH = 32, 64


def usual_heads(examples):
    """The least even H with (H / 2)(d - 2) + 1 >= T.

    Pairs hold one example more than d - 2 each, but then w has no angle to be chosen by, and has to
    be so sharp that float64 does not carry the readout.
    """
    return 2 * -(-(examples - 1) // (WIDTH - 2))


def measured(command, log):
    """Seconds, seconds of the processor, and the peak memory in GB of a command."""
    start = time.perf_counter()
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{log.read_text()}")
    seconds = time.perf_counter() - start
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e9


def steps(examples, heads, folder):
    """The words of each command, by its name."""
    data, weights, proof = (
        folder / name for name in ("data", "memorizer.safetensors", "certificate.json")
    )
    sizes = ["-T", examples, "-n", TOKENS, "-d", WIDTH]
    paired = ["-H", heads, "--construction", "paired", "--tolerance", 1e-5]
    claims = ["--claims", "rank,error", "--epsilon", 1e-4]
    return {
        "generate": ["gaussian", *sizes, "--float32", "-o", data],
        "build": [data, *paired, "-o", weights],
        "certify": [weights, data, *claims, "-o", proof],
        "check": [proof, weights, data],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-T", type=int, default=1_000_000, help="examples")
    parser.add_argument("--folder", type=Path, help="where 4 n d T bytes have room")
    given = parser.parse_args()
    size, heads = 4 * given.T * (TOKENS + 1) * WIDTH / 1e9, usual_heads(given.T)
    print(f"T = {given.T:,}, n = {TOKENS}, d = {WIDTH}, H = {heads:,}: {size:.2g} GB")
    print(" step      seconds  of the processor  peak memory")
    with tempfile.TemporaryDirectory(prefix="million-", dir=given.folder) as name:
        log = Path(name) / "log"
        for step, words in steps(given.T, heads, Path(name)).items():
            command = [sys.executable, "-m", "constructive", step, *map(str, words)]
            seconds, used, peak = measured(command, log)
            print(f" {step:8} {seconds:8.1f}  {used:16.1f}  {peak:8.2f} GB", flush=True)
        print(log.read_text())


if __name__ == "__main__":
    main()
