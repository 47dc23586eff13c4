"""Marabou through maraboupy: one query for each disjunct."""

import math
import time
from importlib.metadata import version

from answering import answer_all, witness
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
