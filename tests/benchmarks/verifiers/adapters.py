"""Verifiers as processes that read problems and answer each in one line.

    /path/to/venv/bin/python tests/benchmarks/verifiers/adapters.py NAME

Run it with the Python that has the tool. `run.py` starts the first; problems come in as lines of
JSON. A problem has "onnx" and "vnnlib" (paths), "timeout" (seconds), "lower" and "upper" (the box),
"disjuncts" (lists of atoms; an atom [w, c] means w . Y >= c), "point" (a witness, or nothing), and
"heads": lists [A, b, V] of f(x) = sum_h V_h^T softmax(A_h x + b_h). "before" may have such heads
g, too: the network is then f(x + g(x)); and "units" weights w and biases c of a readout
sum_j relu(w_j . f + c_j). A graph of other operators has "nodes" ([operator, inputs, outputs,
attributes]) and "constants" ([name, type, shape, entries]) instead. The first line that comes back
is a version.
"""

import copy
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np


def answer_all(tool_version, answer):
    """Print the version, and `answer(problem)` for each problem: sat, unsat, ... and a witness."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the tool prints is not an answer
    print(tool_version, file=replies, flush=True)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:
            reply = f"error,{type(error).__name__}: {error}".replace("\n", " ")[:300]
        print(reply, file=replies, flush=True)


def by_bounds(problem, upper_bounds, reached=None):
    """unsat if in each disjunct the upper bound of an atom's w . Y is below its threshold.

    `upper_bounds` takes the coefficients of all atoms, one row each; `reached` returns the largest
    w . Y that were seen, and a bound below them is wrong.
    """
    rows = [w for disjunct in problem["disjuncts"] for w, _ in disjunct]
    found = np.array(upper_bounds(rows), float)
    if np.isnan(found).any():
        return "error,a bound is NaN"
    seen = np.array(reached(rows)) if reached else found
    wrong = (found < seen - ROUGH * np.maximum(1.0, np.abs(seen))).any()
    bounds = iter(found)
    slacks = [[next(bounds) - c for _, c in disjunct] for disjunct in problem["disjuncts"]]
    said = "unsat" if all(min(disjunct) < 0 for disjunct in slacks) else "unknown"
    return said + WRONG * bool(wrong)


def points(problem):
    """Points of the box: its ends, at random, corners, and the witness where there is one."""
    low, high = (np.array(problem[side]) for side in ("lower", "upper"))
    drawn = np.random.default_rng(0).uniform(low, high, (POINTS, len(low)))
    corners = np.where(drawn > (low + high) / 2, high, low)
    return np.array([low, high, problem["point"] or low, *drawn, *corners])


def witness(x):
    return "sat,(" + " ".join(f"(X_{i} {float(v)!r})" for i, v in enumerate(x)) + ")"


# More than float64 rounds in the control.
SLACK = 1e-6
# More than float32 rounds, as a part of a value or of 1; and what is added to a reply.
ROUGH, WRONG = 1e-4, ",wrong bound"
POINTS = 100


def interval_form():
    """The interval form of this library."""
    from constructive import __version__
    from constructive.instances import Atom, Box, Head, Network, Property
    from constructive.instances.network import Rectified, Stacked
    from constructive.instances.refutations import attention_ranges

    def answer(problem):
        if problem["nodes"]:
            return "unknown"
        heads, before = (
            tuple(Head(*map(np.array, head)) for head in problem[part])
            for part in ("heads", "before")
        )
        network = Stacked(heads, Network(before)) if before else Network(heads)
        if problem["units"]:
            network = Rectified(heads, *map(np.array, problem["units"]))
        atoms = [[Atom(w, c) for w, c in disjunct] for disjunct in problem["disjuncts"]]
        wanted = Property(Box(problem["lower"], problem["upper"]), atoms)
        network, wanted = network.reduced(wanted)
        ranges = attention_ranges(network, wanted.box)
        asked = [[(a.coefficients, a.threshold) for a in atoms] for atoms in wanted.disjuncts]

        return by_bounds(
            {"disjuncts": asked}, lambda rows: [ranges.upper_bound(row) + SLACK for row in rows]
        )

    answer_all(f"constructive {__version__}", answer)


def auto_lirpa(method, precision):
    """auto_LiRPA: bounds of the network as a PyTorch module, by IBP or CROWN, in a format."""
    import torch
    from auto_LiRPA import BoundedModule, BoundedTensor, PerturbationLpNorm, __version__
    from torch import nn

    dtype = getattr(torch, precision)

    class Heads(nn.Module):
        def __init__(self, heads):
            super().__init__()
            self.heads, self.values = nn.ModuleList(), nn.ParameterList()
            for slopes, offsets, values in heads:
                linear = nn.Linear(len(slopes[0]), len(slopes), dtype=dtype)
                linear.weight.data = torch.tensor(slopes, dtype=dtype)
                linear.bias.data = torch.tensor(offsets, dtype=dtype)
                self.heads.append(nn.Sequential(linear, nn.Softmax(dim=1)))
                self.values.append(torch.tensor(values, dtype=dtype))

        def forward(self, x):
            parts = [head(x) @ each for head, each in zip(self.heads, self.values, strict=True)]
            return sum(parts[1:], parts[0])

    class Network(nn.Module):
        def __init__(self, problem):
            super().__init__()
            self.before = Heads(problem["before"]) if problem["before"] else None
            self.heads, self.units = Heads(problem["heads"]), None
            if problem["units"]:
                weights, biases = (torch.tensor(part, dtype=dtype) for part in problem["units"])
                self.units, self.total = nn.Linear(*weights.T.shape), nn.Linear(len(weights), 1)
                self.units.weight.data, self.units.bias.data = weights, biases
                self.total.weight.data = torch.ones((1, len(weights)), dtype=dtype)
                self.total.bias.data = torch.zeros(1, dtype=dtype)

        def forward(self, x):
            f = self.heads(x + self.before(x) if self.before else x)
            return self.total(torch.relu(self.units(f))) if self.units else f

    def answer(problem):
        low, high = (torch.tensor([problem[k]], dtype=dtype) for k in ("lower", "upper"))
        box = BoundedTensor((low + high) / 2, PerturbationLpNorm(x_L=low, x_U=high))
        module = graph_module(problem, dtype) if problem["nodes"] else Network(problem)
        network = BoundedModule(module, low)

        def upper_bounds(rows):
            rows = torch.tensor([rows], dtype=dtype)
            return network.compute_bounds(x=(box,), C=rows, method=method)[1][0].tolist()

        def reached(rows):
            exact = copy.deepcopy(module).double()
            rows = torch.tensor(rows).double()
            found = [rows @ exact(x)[0] for x in torch.tensor(points(problem)).split(1)]
            return torch.stack(found).amax(0).tolist()

        return by_bounds(problem, upper_bounds, reached)

    answer_all(f"auto_LiRPA {__version__}, torch {torch.__version__}", answer)


def graph_module(problem, dtype):
    """A graph of operators as a PyTorch module."""
    import torch
    from torch import nn
    from torch.nn import functional

    def normalized(x, scale, bias, axis, epsilon):
        return functional.layer_norm(x, x.shape[axis:], scale, bias, epsilon)

    one = {
        "Relu": torch.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Exp": torch.exp,
        "Log": torch.log, "Sqrt": torch.sqrt, "Sin": torch.sin, "Cos": torch.cos, "Abs": torch.abs,
        "Erf": torch.erf, "Gelu": functional.gelu, "Reciprocal": torch.reciprocal,
        "Neg": lambda x: -x, "Identity": lambda x: x,
        "Add": lambda x, y: x + y, "Sub": lambda x, y: x - y, "Mul": lambda x, y: x * y,
        "Div": lambda x, y: x / y, "Max": torch.max, "MatMul": lambda x, y: x @ y,
        "LeakyRelu": lambda x, alpha: functional.leaky_relu(x, negative_slope=alpha),
        "Pow": lambda x, y: x ** int(y[0]),
        "Clip": lambda x, low, high: functional.hardtanh(x, low[0], high[0]),
        "Gemm": lambda x, w, b, **given: functional.linear(x, w if given else w.T, b),
        "Softmax": lambda x, axis: torch.softmax(x, dim=axis),
        "ReduceMean": lambda x, axes, keepdims: x.mean(axes, keepdim=bool(keepdims)),
        "LayerNormalization": normalized,
        "MaxPool": lambda x, kernel_shape, strides: functional.max_pool1d(
            x, kernel_size=kernel_shape, stride=strides
        ),
        "Reshape": lambda x, shape: x.reshape(shape),
        "Flatten": lambda x, axis: torch.flatten(x, start_dim=axis),
        "Concat": lambda x, y, axis: torch.cat([x, y], axis),
        "Split": lambda x, axis: torch.split(x, x.shape[axis] // 2, axis),
    }  # fmt: skip

    plain = {"Pow", "Clip", "Reshape"}  # whose constants are numbers of the program
    numbers = {name: entries for name, _, _, entries in problem["constants"]}

    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.names = {}
            for k, (name, kind, shape, entries) in enumerate(problem["constants"]):
                self.names[name] = f"constant_{k}"
                exact = torch.int64 if kind == "int64" else dtype
                value = torch.tensor(entries, dtype=exact).reshape(shape)
                self.register_buffer(f"constant_{k}", value)

        def forward(self, x):
            values = {"X": x} | {name: getattr(self, kept) for name, kept in self.names.items()}
            for operator, inputs, outputs, attributes in problem["nodes"]:
                given = values | numbers if operator in plain else values
                found = one[operator](*(given[name] for name in inputs), **attributes)
                found = found if isinstance(found, tuple) else (found,)
                values.update(zip(outputs, found, strict=True))
            return values["Y"]

    return Graph()


def marabou():
    """Marabou through maraboupy: one query for each disjunct."""
    from maraboupy import Marabou

    def answer(problem):
        end = time.monotonic() + problem["timeout"]
        said = set()
        for disjunct in problem["disjuncts"]:
            network = Marabou.read_onnx(problem["onnx"])
            inputs = network.inputVars[0].reshape(-1).tolist()
            outputs = network.outputVars[0].reshape(-1).tolist()
            for x, low, high in zip(inputs, problem["lower"], problem["upper"], strict=True):
                network.setLowerBound(x, low)
                network.setUpperBound(x, high)
            for weights, threshold in disjunct:
                used = [(y, -w) for y, w in zip(outputs, weights, strict=True) if w]
                network.addInequality([y for y, _ in used], [w for _, w in used], -threshold)
            left = max(1, math.ceil(end - time.monotonic()))
            options = Marabou.createOptions(timeoutInSeconds=left, verbosity=0)
            result, values, _ = network.solve(verbose=False, options=options)
            if result == "sat":
                return witness(values[x] for x in inputs)
            said.add(result.lower())
        return "unsat" if said == {"unsat"} else max(said - {"unsat"})

    answer_all(f"maraboupy {version('maraboupy')}", answer)


def vibecheck_nn():
    """vibecheck-nn with default options, on the CPU."""
    from vibecheck import verify

    def answer(problem):
        paths = problem["onnx"], problem["vnnlib"]
        result = verify(*paths, timeout=problem["timeout"], device="cpu")
        if result.verdict == "sat":
            return witness(result.counterexample["X"].reshape(-1))
        return result.verdict

    answer_all(f"vibecheck-nn {version('vibecheck-nn')}", answer)


def by_program(name, home, *words):
    """A tool's own program, once for each instance: what it says, and perhaps a counterexample.

    Words of the command may name parts of the problem, and a folder, where the program leaves
    `results`, and `example` if that is a file of its own.
    """

    def answer(problem):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, *(word.format(**problem, folder=folder) for word in words)]
            run = subprocess.run(command, check=False, cwd=home, capture_output=True, text=True)
            results, example = Path(folder) / "results", Path(folder) / "example"
            if not results.is_file():
                lines = run.stderr.strip().splitlines() or ["no result"]
                return f"error,{lines[-1][:300]}"
            text = results.read_text() + (example.read_text() if example.is_file() else "")
        said, values = text.split()[0], re.findall(r"X_\d+\s+\S+\)", text)
        said = said.replace("early_stop", "unknown")
        return said + (",(" + " ".join(f"({value}" for value in values) + ")" if values else "")

    answer_all(name, answer)


CROWN_OPTIONS = """\
general: {device: cpu, save_adv_example: true}
bab: {branching: {method: naive, input_split: {enable: true}}}
"""


def alpha_beta_crown():
    """alpha-beta-CROWN with input split; the variable ALPHA_BETA_CROWN is its folder."""
    home = Path(os.environ["ALPHA_BETA_CROWN"]).resolve()
    found = re.search(r"version__ = '([^']+)'", (home / "__init__.py").read_text())
    with tempfile.NamedTemporaryFile("w+", suffix=".yaml") as options:
        print(CROWN_OPTIONS, file=options, flush=True)
        by_program(
            f"alpha-beta-CROWN {found[1] if found else 'of unknown version'}", home, "abcrown.py",
            f"--config={options.name}", "--onnx_path={onnx}", "--vnnlib_path={vnnlib}",
            "--timeout={timeout}", "--results_file={folder}/results", "--cex_path={folder}/example",
        )  # fmt: skip


def neural_sat():
    """NeuralSAT of PyPI with default options, on the CPU."""
    from importlib.util import find_spec

    home = Path(next(iter(find_spec("src").submodule_search_locations)))  # as it calls its package
    by_program(
        f"NeuralSAT {version('neuralsat')}", home, "main.py", "--device=cpu", "--export_cex",
        "--net={onnx}", "--spec={vnnlib}", "--timeout={timeout}", "--result_file={folder}/results",
    )  # fmt: skip


VERIFIERS = {
    "interval-form": interval_form,
    "lirpa-ibp": partial(auto_lirpa, "IBP", "float32"),
    "lirpa-ibp-64": partial(auto_lirpa, "IBP", "float64"),
    "lirpa-crown": partial(auto_lirpa, "CROWN", "float32"),
    "lirpa-crown-64": partial(auto_lirpa, "CROWN", "float64"),
    "lirpa-forward": partial(auto_lirpa, "forward", "float32"),
    "lirpa-forward-64": partial(auto_lirpa, "forward", "float64"),
    "marabou": marabou,
    "vibecheck": vibecheck_nn,
    "alpha-beta-crown": alpha_beta_crown,
    "neuralsat": neural_sat,
}
# They need this library's dependencies, not a tool.
OURS = {"interval-form", "nnv-formula"}

if __name__ == "__main__":
    VERIFIERS[sys.argv[1]]()
