"""onnxruntime's MultiHeadAttention: a padding key has -10000 added, which large logits outweigh.

Key 0 has a logit of -20000, key 1 is padding with a logit of 0: the output is that of key 1.
`mask_filter_value` is documented, and -10000 is its default; float32 has room for more.
"""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

q = np.full((1, 1, 8), -50.0, np.float32)
k = np.array([50.0, 0.0], np.float32).reshape(1, 2, 1) * np.ones((1, 2, 8), np.float32)
v = np.array([1.0, 10.0], np.float32).reshape(1, 2, 1) * np.ones((1, 2, 8), np.float32)
given = {"q": q, "k": k, "v": v, "padding": np.array([[1, 0]], np.int32)}
inputs = [
    helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    for n, x in given.items()
]
for value in ({}, {"mask_filter_value": -3e38}):
    node = helper.make_node(
        "MultiHeadAttention", ["q", "k", "v", "", "padding"], ["out"], domain="com.microsoft",
        num_heads=1, scale=1.0, **value,
    )  # fmt: skip
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "g", inputs, [out]), opset_imports=opsets)
    model.ir_version = 10
    run = onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)[0]
    print(onnxruntime.__version__, value or "default", run[0, 0, 0])
