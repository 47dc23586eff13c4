"""False bounds of verifiers, by programs that need only the tool.

    /path/to/venv/bin/python tests/benchmarks/verifiers/reproduce.py NAME

NAME is a report of docs/reports, such as lirpa-interval, whose first program is run; or one of
lirpa-two-heads and vibecheck-unsat.
"""

import re
import sys
from importlib.metadata import version
from pathlib import Path

REPORTS = Path(__file__).resolve().parents[3] / "docs" / "reports"


def lirpa_two_heads():
    """auto_LiRPA: CROWN's upper bound of softmax cuts logarithms off at 1e-8, and uses a tangent.

    f(x) = softmax(x, 0)_1 + 6 softmax(-(x + 50) / 49, 0)_1 is 4.386 at x = -99.
    """
    import auto_LiRPA
    import torch
    from torch import nn

    def head(slope, offset):
        linear = nn.Linear(1, 2)
        linear.weight.data = torch.tensor([[slope], [0.0]])
        linear.bias.data = torch.tensor([offset, 0])
        return nn.Sequential(linear, nn.Softmax(dim=1))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = head(1.0, 0.0), head(-1 / 49, -50 / 49)

        def forward(self, x):
            one, six = torch.tensor([[1.0], [0]]), torch.tensor([[6.0], [0]])
            return self.first(x) @ one + self.second(x) @ six

    low, high = torch.tensor([[-99.0]]), torch.tensor([[-1.0]])
    box = auto_LiRPA.BoundedTensor(low, auto_LiRPA.PerturbationLpNorm(x_L=low, x_U=high))
    bounds = auto_LiRPA.BoundedModule(Network(), low).compute_bounds(x=(box,), method="CROWN")
    print(auto_LiRPA.__version__, "CROWN claims:", bounds[1].item(), "at most")
    print("true at x = -99:", Network()(low).item())


def vibecheck_unsat():
    """vibecheck-nn with default options: "unsat", though a corner of the box is a counterexample.

    f(x) = softmax(0, 84 s (x - t) - 5)_1 + 0.25 / (1 + exp(1 - s . (x - t))), t a corner.
    """
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    from vibecheck import Spec, verify

    d = 40
    t = np.random.default_rng(0).integers(0, 2, d).astype(np.float32)
    s = 1 - 2 * t
    first = np.vstack([0 * s, 84 * np.diag(s)]), np.append(0, -84 * s * t - 5)
    first += (np.eye(d + 1)[:, :1],)
    second = np.vstack([s, 0 * s]), np.array([-s @ t - 1, 0]), np.array([[0.25], [0]])
    names = "A1", "b1", "V1", "A2", "b2", "V2"
    stored = [
        numpy_helper.from_array(np.float32(x), name)
        for x, name in zip(first + second, names, strict=True)
    ]
    nodes = [helper.make_node("Add", ["Y1", "Y2"], ["Y"])]
    for h in "21":
        nodes.insert(0, helper.make_node("MatMul", [f"P{h}", f"V{h}"], [f"Y{h}"]))
        nodes.insert(0, helper.make_node("Softmax", [f"L{h}"], [f"P{h}"], axis=1))
        nodes.insert(0, helper.make_node("Gemm", ["X", f"A{h}", f"b{h}"], [f"L{h}"], transB=1))
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size])]
        for name, size in (("X", d), ("Y", 1))
    ]
    graph = helper.make_graph(nodes, "graph", *ends, initializer=stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    wanted = Spec(x_lo=[0] * d, x_hi=[1] * d).forbid([[1.0]], [-0.7])
    result = verify(model, wanted, timeout=100)
    print(version("vibecheck-nn"), "says that f >= 0.7 is", result.verdict)
    run = onnxruntime.InferenceSession(model.SerializeToString()).run
    print("f at the corner t of the box:", run(None, {"X": t[None]})[0].item())


PROGRAMS = {"lirpa-two-heads": lirpa_two_heads, "vibecheck-unsat": vibecheck_unsat}

if __name__ == "__main__":
    name = sys.argv[1]
    if name in PROGRAMS:
        PROGRAMS[name]()
    else:
        program = re.search(r"```python\n(.*?)```", (REPORTS / f"{name}.md").read_text(), re.DOTALL)
        exec(program[1])  # noqa: S102 - ours
