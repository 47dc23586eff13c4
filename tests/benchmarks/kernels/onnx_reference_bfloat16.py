"""onnx.reference, Attention in bfloat16: the sum of weights stops at 256.

With 2000 equal logits each weight is 1/2000 and the output is 1. The softmax of the evaluator adds
exponentials in bfloat16, in which 256 + 1 is 256, so weights are 8 times too large.
"""

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

KIND = {"bfloat16": TensorProto.BFLOAT16, "float32": TensorProto.FLOAT}
for name, kind in KIND.items():
    shapes = {"q": (1, 1, 1, 8), "k": (1, 1, 2000, 8), "v": (1, 1, 2000, 8)}
    inputs = [helper.make_tensor_value_info(n, kind, s) for n, s in shapes.items()]
    out = helper.make_tensor_value_info("out", kind, None)
    node = helper.make_node("Attention", list(shapes), ["out"])
    graph = helper.make_graph([node], "g", inputs, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    dtype = ml_dtypes.bfloat16 if name == "bfloat16" else np.float32
    given = {n: (np.ones if n == "v" else np.zeros)(s).astype(dtype) for n, s in shapes.items()}
    found = ReferenceEvaluator(model).run(None, given)[0]
    print(onnx.__version__, name, float(found[0, 0, 0, 0]))
