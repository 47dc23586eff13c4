"""Run verifiers on instances with proved answers, and print what they got right and wrong.

    python tests/benchmarks/verifiers/run.py [VERIFIER ..] --python /path/to/venv/bin/python

Nothing is installed: a verifier runs in the Python that has it, and others are said to be missing.
alpha-beta-CROWN is looked for in the folder ALPHA_BETA_CROWN. To add a tool, write a function in
`adapters.py` and a line in its `VERIFIERS`.
"""

import argparse
import json
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from adapters import OURS, VERIFIERS

from constructive import instances
from constructive.instances.graphs import OperatorGraph
from constructive.instances.making import KINDS
from constructive.instances.network import Rectified, Stacked
from constructive.instances.scoring import Outcome

ADAPTERS = Path(__file__).resolve().parent / "adapters.py"
# Seconds in which an adapter has to say its version.
START = 120.0
# Seconds beyond the timeout after which a tool is stopped: it may have to start programs.
GRACE = 60.0


class MissingError(Exception):
    """The tool is not there."""


class Adapter:
    """A process of an adapter, which is started again if it dies or hangs."""

    def __init__(self, command):
        self.command, self.process = command, None
        self.start()

    def start(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(self.command, text=True, **pipes)
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
        self.process.kill()
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


def judged(name, command, folder, made, timeout):
    """Run one verifier: its line of the table, and how often it failed by what it said."""
    adapter = Adapter(command)
    results, started = folder.with_name(f"{name}.csv"), time.monotonic()
    errors = Counter()
    with results.open("w") as file:
        for instance in made:
            reply = adapter.ask(problem_of(folder, instance, timeout))
            if reply.startswith("error"):
                errors[reply.partition(",")[2]] += 1
            file.write(f"{instance.name},{reply.replace('timed-out', 'timeout')}\n")
    adapter.stop()
    seconds = (time.monotonic() - started) / len(made)
    labels = {each.name: label(each) for each in made}
    return row(name, adapter.version, instances.score(folder, results), seconds, labels), errors


def label(instance):
    """The family, or the first operator between the affine maps."""
    if instance.family != "operator":
        return instance.family
    between = (node.operator for node in instance.network.nodes[1:])
    return next(operator for operator in between if operator not in {"MatMul", "Reshape"})


def row(name, version, score, seconds, labels):
    """A line of the table."""
    outcomes = Counter((row.expected.answer, row.outcome) for row in score.rows)
    total = Counter(row.outcome for row in score.rows)
    false = Counter(labels[row.expected.name] for row in score.false)
    kinds = ", ".join(f"{count} {family}" for family, count in sorted(false.items()))
    errors = total[Outcome.ERROR] + total[Outcome.UNSHOWN] + total[Outcome.MISSING]
    cells = [
        name, version, outcomes["sat", Outcome.RIGHT], outcomes["unsat", Outcome.RIGHT],
        total[Outcome.UNKNOWN], f"{len(score.false)}" + f" ({kinds})" * bool(kinds),
        len(score.false_in_float32), errors, f"{seconds:.2f} s",
    ]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("verifiers", nargs="*", metavar="VERIFIER", help=", ".join(VERIFIERS))
    parser.add_argument("--python", default=sys.executable, help="which has the tools")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--kind", action="append", help="family; may be repeated")
    parser.add_argument("--even", action="store_true", help="as many turns for each default family")
    parser.add_argument("--dim", type=int, nargs=2, default=(2, 16))
    parser.add_argument("--scale", type=float, nargs=2, default=(16.0, 256.0))
    parser.add_argument("--timeout", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    kinds = options.kind or [*(dict.fromkeys(KINDS) if options.even else KINDS)]
    scaled = any("scale" in instances.FAMILIES[kind].options for kind in kinds)
    given = {"scale": tuple(options.scale)} if scaled else {}
    made = instances.make(
        options.count, kinds=kinds, dims=tuple(options.dim), seed=options.seed, **given
    )
    place = Path(tempfile.mkdtemp())
    folder = place / "folder"
    instances.save(folder, made)
    if not instances.check(folder).proved:
        raise SystemExit("the answers of the folder are not proved")
    counted = Counter(instance.answer for instance in made)
    print(", ".join(f"{count} {answer}" for answer, count in counted.items()), f"of {kinds}")
    columns = "sat right | unsat right | unknown | FALSE | FALSE in float32 | error | time"
    print(f"| verifier | version | {columns} |")
    print("|---" * 9 + "|")
    for name in options.verifiers or VERIFIERS:
        python = sys.executable if name in OURS else options.python
        try:
            line, errors = judged(name, [python, ADAPTERS, name], folder, made, options.timeout)
        except MissingError:
            print(f"| {name} | not found | | | | | | | |")
            continue
        said = (f"  {count} x {message}" for message, count in errors.items())
        print(line, *said, sep="\n", flush=True)
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
