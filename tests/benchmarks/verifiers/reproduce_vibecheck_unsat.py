"""vibecheck-nn with default options: "unsat", though a corner of the box is a counterexample.

f(x) = softmax(0, 84 s (x - t) - 5)_1 + 0.25 / (1 + exp(1 - s . (x - t))); t is a corner of the box.
"""

from importlib.metadata import version

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from vibecheck import Spec, verify

d = 40
t = np.random.default_rng(0).integers(0, 2, d).astype(np.float32)
s = 1 - 2 * t
first = np.vstack([0 * s, 84 * np.diag(s)]), np.append(0, -84 * s * t - 5), np.eye(d + 1)[:, :1]
second = np.vstack([s, 0 * s]), np.array([-s @ t - 1, 0]), np.array([[0.25], [0]])
names = "A1", "b1", "V1", "A2", "b2", "V2"
stored = [
    numpy_helper.from_array(np.float32(x), n) for x, n in zip(first + second, names, strict=True)
]
nodes = [helper.make_node("Add", ["Y1", "Y2"], ["Y"])]
for h in "21":
    nodes.insert(0, helper.make_node("MatMul", [f"P{h}", f"V{h}"], [f"Y{h}"]))
    nodes.insert(0, helper.make_node("Softmax", [f"L{h}"], [f"P{h}"], axis=1))
    nodes.insert(0, helper.make_node("Gemm", ["X", f"A{h}", f"b{h}"], [f"L{h}"], transB=1))
ends = [
    [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, k])] for n, k in (("X", d), ("Y", 1))
]
graph = helper.make_graph(nodes, "graph", *ends, initializer=stored)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
result = verify(model, Spec(x_lo=[0] * d, x_hi=[1] * d).forbid([[1.0]], [-0.7]), timeout=20)
print(version("vibecheck-nn"), "says that f >= 0.7 is", result.verdict)
run = onnxruntime.InferenceSession(model.SerializeToString()).run
print("f at the corner t of the box:", run(None, {"X": t[None]})[0].item())
