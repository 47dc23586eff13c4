"""vibecheck-nn with default options, on the CPU."""

from importlib.metadata import version

from answering import answer_all, witness
from vibecheck import verify


def answer(problem):
    result = verify(problem["onnx"], problem["vnnlib"], timeout=problem["timeout"], device="cpu")
    if result.verdict == "sat":
        return witness(result.counterexample["X"].reshape(-1))
    return result.verdict


answer_all(f"vibecheck-nn {version('vibecheck-nn')}", answer)
