"""False bounds of verifiers, each in a function that needs only the tool.

    /path/to/venv/bin/python tests/benchmarks/verifiers/reproduce.py NAME

docs/verifiers-found.md shows what each prints.
"""

import sys
from importlib.metadata import version


def lirpa_interval():
    """auto_LiRPA: the interval of softmax adds 1e-12 to the denominator, so it is too small.

    The second of the logits (x, -40) has the weight 1 / (1 + exp(x + 40)), which is 1 at x = -100.
    """
    import auto_LiRPA
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.Softmax(dim=1))
    model[0].weight.data = torch.tensor([[1.0], [0.0]])
    model[0].bias.data = torch.tensor([0.0, -40.0])
    low, high = torch.tensor([[-100.0]]), torch.tensor([[0.0]])
    box = auto_LiRPA.BoundedTensor(low, auto_LiRPA.PerturbationLpNorm(x_L=low, x_U=high))
    bounds = auto_LiRPA.BoundedModule(model, low).compute_bounds(x=(box,), method="IBP")
    print(auto_LiRPA.__version__, "IBP claims:", bounds[1][0, 1].item(), "at most")
    print("true at x = -100:", model(low)[0, 1].item())


def lirpa_crown():
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


def vibecheck_interval():
    """vibecheck-nn: the interval of softmax clamps the denominator at 1e-30, so it is too small.

    The second of the logits (x, -80) has the weight 1 / (1 + exp(x + 80)), 0.982 at x = -84.
    """
    import torch
    from vibecheck.core.relax import softmax_interval

    low, high = torch.tensor([[-84.0, -80.0]]), torch.tensor([[0.0, -80.0]])
    bounds = softmax_interval(low, high, {"pre": 1, "k": 2, "post": 1})
    claimed = bounds[1][0, 1].item()
    print(version("vibecheck-nn"), "softmax_interval claims:", claimed, "at most")
    print("true at x = -84:", torch.softmax(low, dim=1)[0, 1].item())


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
    result = verify(model, wanted, timeout=20)
    print(version("vibecheck-nn"), "says that f >= 0.7 is", result.verdict)
    run = onnxruntime.InferenceSession(model.SerializeToString()).run
    print("f at the corner t of the box:", run(None, {"X": t[None]})[0].item())


PROGRAMS = {
    each.__name__: each
    for each in (lirpa_interval, lirpa_crown, vibecheck_interval, vibecheck_unsat)
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
