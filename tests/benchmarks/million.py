"""A data set on disk: generate, build with pairs, certify and check, each in its own process.

Run: python tests/benchmarks/million.py [-T 1000000] [-n 32] [-d 64] [--heads H] [--folder DIR]

For each step: seconds, seconds of the processor, and the peak of the memory which its processes
hold (resident, pages of files included). The data are float32, 8.4 GB by default; the work grows as
T H. What is written to the folder stays there only with --keep; with --keep a later run goes on
with the data, weights and certificate which it finds.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

CONSTRUCTIVE = [sys.executable, "-m", "constructive"]


def usual_heads(examples, width):
    """The least even H with (H / 2)(d - 2) + 1 >= T.

    Pairs hold one example more than d - 2 each, but then w has no angle to be chosen by, and has to
    be so sharp that float64 does not carry the readout.
    """
    return 2 * -(-(examples - 1) // (width - 2))


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


def steps(arguments, folder):
    """What each step writes, and its command."""
    data, weights, proof = (
        folder / name for name in ("data", "memorizer.safetensors", "certificate.json")
    )
    sizes = ["-T", arguments.T, "-n", arguments.n, "-d", arguments.d]
    heads = arguments.heads or usual_heads(arguments.T, arguments.d)
    commands = {
        "generate": (data, ["generate", "gaussian", *sizes, "--float32", "-o", data]),
        "build": (weights, ["build", data, "-H", heads, "--construction", "paired"]),
        "certify": (proof, ["certify", weights, data, "--claims", "rank,error,readout"]),
        "check": (folder / "checked", ["check", proof, weights, data]),
    }
    commands["build"][1].extend(["--tolerance", arguments.tolerance, "-o", weights])
    commands["certify"][1].extend(["--epsilon", arguments.epsilon, "-o", proof])
    return {
        name: (made, CONSTRUCTIVE + [str(word) for word in words])
        for name, (made, words) in commands.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-T", type=int, default=1_000_000, help="examples")
    parser.add_argument("-n", type=int, default=32, help="tokens of a context")
    parser.add_argument("-d", type=int, default=64, help="entries of a token")
    parser.add_argument("--heads", type=int, help="by default (T - 1) / (d - 2) pairs")
    parser.add_argument("--tolerance", type=float, default=1e-5, help="of the build")
    parser.add_argument("--epsilon", type=float, default=1e-4, help="which is certified")
    parser.add_argument("--folder", type=Path, help="where 4 n d T bytes have room")
    parser.add_argument("--keep", action="store_true", help="leave the files there")
    arguments = parser.parse_args()

    folder = Path(tempfile.mkdtemp(prefix="million-", dir=arguments.folder))
    if arguments.keep and arguments.folder:
        folder.rmdir()
        folder = arguments.folder
    size = 4 * arguments.T * (arguments.n + 1) * arguments.d / 1e9
    heads = arguments.heads or usual_heads(arguments.T, arguments.d)
    table = Table(
        title_justify="left",
        title=f"T = {arguments.T:,}, n = {arguments.n}, d = {arguments.d}, H = {heads:,}: "
        f"{size:.2g} GB",
        box=None,
    )
    for heading in ("step", "seconds", "of the processor", "peak memory"):
        table.add_column(heading, justify="left" if heading == "step" else "right")
    said = ""
    try:
        for name, (made, command) in steps(arguments, folder).items():
            if made.exists():
                table.add_row(name, "-", "-", "-")
                continue
            log = folder / f"{name}.log"
            seconds, used, peak = measured(command, log)
            table.add_row(name, f"{seconds:.1f}", f"{used:.1f}", f"{peak:.2f} GB")
            said = log.read_text()
            print(f"{name}: {seconds:.1f} s, {peak:.2f} GB", file=sys.stderr, flush=True)
    finally:
        if not arguments.keep:
            shutil.rmtree(folder)
    Console(width=100).print(table)
    print(said)


if __name__ == "__main__":
    main()
