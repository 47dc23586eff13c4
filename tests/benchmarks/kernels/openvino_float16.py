"""OpenVINO: a float16 model compiled with INFERENCE_PRECISION_HINT=f16 runs in bfloat16 on CPUs
that have it, without a warning. The property of the compiled model admits it.

One query, 3 equal logits, values 1, 1 and 2: 4/3 is 1.333 in float16 and 1.336 in bfloat16.
"""

import numpy as np
import openvino
from openvino import opset13

q, k = np.zeros((1, 1, 1, 16), np.float16), np.zeros((1, 1, 3, 16), np.float16)
v = np.array([1, 1, 2], np.float16).reshape(1, 1, 3, 1) * np.ones((1, 1, 3, 16), np.float16)
inputs = [opset13.parameter(x.shape, x.dtype) for x in (q, k, v)]
model = openvino.Model([opset13.scaled_dot_product_attention(*inputs)], inputs)
for hint in ("f32", "f16"):
    compiled = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": hint})
    used = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    print(openvino.__version__, f"asked {hint}, used {used}:", compiled([q, k, v])[0][0, 0, 0, 0])
