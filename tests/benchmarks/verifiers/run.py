"""Run verifiers on instances with proved answers, and print what they got right and wrong.

    python tests/benchmarks/verifiers/run.py [VERIFIER ..] --python /path/to/venv/bin/python

Nothing is installed: a verifier runs in the Python that has it, and others are said to be missing.
alpha-beta-CROWN is looked for in the folder ALPHA_BETA_CROWN. To add a tool, write a function in
`adapters.py` and a line in its `VERIFIERS`.
"""

import argparse
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from adapters import OURS, VERIFIERS, WRONG

from constructive import instances
from constructive.instances.graphs import OperatorGraph
from constructive.instances.network import Rectified, Stacked
from constructive.instances.scoring import Outcome

ADAPTERS = Path(__file__).resolve().parent / "adapters.py"
# Seconds in which an adapter has to say its version.
START = 120.0
# Seconds beyond the timeout after which a tool is stopped: it may have to start programs.
GRACE = 60.0
# Each has a number for each seed. A bound is wrong that is below an output which was seen.
COLUMNS = (
    "sat right", "unsat right", "false sat", "false unsat", "false in float32", "wrong bounds",
    "unknown", "unshown", "error",
)  # fmt: skip


class MissingError(Exception):
    """The tool is not there."""


class Adapter:
    """A process of an adapter, which is started again if it dies or hangs."""

    def __init__(self, command):
        self.command, self.process = command, None
        self.start()

    def start(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        # a group of its own, with the programs that it starts
        self.process = subprocess.Popen(self.command, text=True, start_new_session=True, **pipes)
        self.version = self.line(START)
        if self.version is None:
            self.stop()
            raise MissingError

    def line(self, seconds):
        """The next line, or None if there is none in time."""
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        return (self.process.stdout.readline().strip() or None) if ready else None

    def ask(self, problem):
        """What the tool says, in one line."""
        try:
            print(json.dumps(problem), file=self.process.stdin, flush=True)
            reply = self.line(problem["timeout"] + GRACE)
        except BrokenPipeError:
            reply = None
        if reply is not None:
            return reply
        hung = self.process.poll() is None
        self.stop()
        self.start()
        return "timeout" if hung else "error,the process ended"

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def problem_of(folder, instance, timeout):
    """An instance as adapters read it."""
    box, network = instance.property.box, instance.network
    graph = isinstance(network, OperatorGraph)
    return {
        "onnx": str(folder / f"onnx/{instance.network_name}.onnx"),
        "vnnlib": str(folder / f"vnnlib/{instance.name}.vnnlib"),
        "timeout": timeout,
        "lower": box.lower.tolist(),
        "upper": box.upper.tolist(),
        "point": [float(x) for x in getattr(instance.proof, "point", ())],
        "disjuncts": [
            [[atom.coefficients.tolist(), float(atom.threshold)] for atom in atoms]
            for atoms in instance.property.disjuncts
        ],
        "heads": [] if graph else heads_of(network),
        "before": heads_of(network.first) if isinstance(network, Stacked) else [],
        "units": [network.units.tolist(), network.biases.tolist()]
        if isinstance(network, Rectified)
        else [],
        "nodes": [[*node] for node in network.nodes] if graph else [],
        "constants": [
            [name, str(array.dtype), array.shape, array.reshape(-1).tolist()]
            for name, array in network.constants.items()
        ]
        if graph
        else [],
    }


def heads_of(network):
    parts = [(head.slopes, head.offsets, head.values) for head in network.heads]
    return [[part.tolist() for part in head] for head in parts]


def judged(name, command, folders, timeout):
    """Run one verifier on folders of one family: its line of the table, and other lines."""
    adapter, rows, others = Adapter(command), [], Counter()
    started, total = time.monotonic(), sum(len(made) for _, made in folders)
    for folder, made in folders:
        results, cells = folder.with_name(f"{folder.name}-{name}.csv"), Counter()
        with results.open("w") as file:
            for instance in made:
                reply = adapter.ask(problem_of(folder, instance, timeout))
                if reply.startswith("error"):
                    others[reply.partition(",")[2]] += 1
                cells["wrong bounds"] += reply.endswith(WRONG)
                file.write(f"{instance.name},{reply.replace('timed-out', 'timeout')}\n")
        score, labels = instances.score(folder, results), {each.name: label(each) for each in made}
        for each in score.rows:
            said = {Outcome.RIGHT: f"{each.said} right", Outcome.FALSE: f"false {each.said}"}
            cells[said.get(each.outcome, str(each.outcome.value))] += 1
        cells["false in float32"] = len(score.false_in_float32)
        others.update(f"FALSE: {labels[each.expected.name]}" for each in score.false)
        rows.append(cells)
    adapter.stop()
    cells = [", ".join(str(row[column]) for row in rows) for column in COLUMNS]
    cells += [f"{(time.monotonic() - started) / total:.2f} s"]
    lines = [f"  {count} x {message}" for message, count in others.items()]
    return f"| {name} | {adapter.version} | {made[0].family} | {' | '.join(cells)} |", *lines


def label(instance):
    """The family, or the first operator between the affine maps."""
    if instance.family != "operator":
        return instance.family
    between = (node.operator for node in instance.network.nodes[1:])
    return next(operator for operator in between if operator not in {"MatMul", "Reshape"})


def folder_of(place, kind, seed, options):
    """A folder of one family whose answers are proved, and its instances."""
    known, drawn = instances.FAMILIES[kind].options, {"scale": tuple(options.scale)}
    given = {name: pair for name, pair in drawn.items() if name in known}
    dims = tuple(options.dim)
    made = instances.make(options.count, kinds=[kind], dims=dims, seed=seed, **given)
    folder = place / f"{seed}-folder"
    instances.save(folder, made)
    if not instances.check(folder).proved:
        raise SystemExit("the answers of the folder are not proved")
    return folder, made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("verifiers", nargs="*", metavar="VERIFIER", help=", ".join(VERIFIERS))
    parser.add_argument("--python", default=sys.executable, help="which has the tools")
    parser.add_argument("--count", type=int, default=100, help="instances of each family and seed")
    parser.add_argument("--kind", nargs="+", default=[*instances.FAMILIES], help="families")
    parser.add_argument("--dim", type=int, nargs=2, default=(2, 16))
    parser.add_argument("--scale", type=float, nargs=2, default=(16.0, 256.0))
    parser.add_argument("--timeout", type=float, default=10.0)
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    print(f"| verifier | version | family | {' | '.join(COLUMNS)} | time |")
    print("|---" * (len(COLUMNS) + 4) + "|")
    for kind in options.kind:
        place = Path(tempfile.mkdtemp())
        folders = [folder_of(place, kind, seed, options) for seed in options.seed]
        for name in options.verifiers or VERIFIERS:
            python = sys.executable if name in OURS else options.python
            try:
                lines = judged(name, [python, ADAPTERS, name], folders, options.timeout)
            except MissingError:
                lines = [f"| {name} | not found |" + " |" * (len(COLUMNS) + 2)]
            print(*lines, sep="\n", flush=True)
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
