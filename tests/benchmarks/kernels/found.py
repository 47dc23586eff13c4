"""What `released.py` does not show of docs/kernels-found.md, each by a few lines.

    python tests/benchmarks/kernels/found.py onnxruntime_padding

Each program needs the library that it names, and those of Triton its interpreter, by
TRITON_INTERPRET=1.
"""

import argparse

import numpy as np


def openvino_float16():
    """OpenVINO: a float16 model compiled with INFERENCE_PRECISION_HINT=f16 runs in bfloat16 on CPUs
    that have it, without a warning. The property of the compiled model admits it.

    One query, 3 equal logits, values 1, 1 and 2: 4/3 is 1.333 in float16 and 1.336 in bfloat16.
    """
    import openvino
    from openvino import opset13

    q, k = np.zeros((1, 1, 1, 16), np.float16), np.zeros((1, 1, 3, 16), np.float16)
    v = np.array([1, 1, 2], np.float16).reshape(1, 1, 3, 1) * np.ones((1, 1, 3, 16), np.float16)
    inputs = [opset13.parameter(x.shape, x.dtype) for x in (q, k, v)]
    model = openvino.Model([opset13.scaled_dot_product_attention(*inputs)], inputs)
    for hint in ("f32", "f16"):
        compiled = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": hint})
        used = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        out = compiled([q, k, v])[0]
        print(openvino.__version__, f"asked {hint}, used {used}:", out[0, 0, 0, 0])


def onnx_reference_bfloat16():
    """onnx.reference, Attention in bfloat16: the sum of weights stops at 256.

    With 2000 equal logits each weight is 1/2000 and the output is 1. The softmax of the evaluator
    adds exponentials in bfloat16, in which 256 + 1 is 256, so weights are 8 times too large.
    """
    import ml_dtypes
    import onnx
    from of_onnx import graph
    from onnx.reference import ReferenceEvaluator

    for dtype in (ml_dtypes.bfloat16, np.float32):
        q, k, v = np.zeros((1, 1, 1, 8)), np.zeros((1, 1, 2000, 8)), np.ones((1, 1, 2000, 8))
        given = {name: x.astype(dtype) for name, x in (("q", q), ("k", k), ("v", v))}
        model = onnx.load_from_string(graph("Attention", given, {}))
        found = ReferenceEvaluator(model).run(None, given)[0]
        print(onnx.__version__, found.dtype, float(found[0, 0, 0, 0]))


def triton_dot_bfloat16():
    """Triton's interpreter: tl.dot of bfloat16 multiplies the bits of the numbers as integers.

    Expected: 16.0 for both.
    """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def product(a, b, out):
        at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
        tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))

    for dtype in (torch.float16, torch.bfloat16):
        ones, out = torch.ones(16, 16, dtype=dtype), torch.empty(16, 16)
        product[(1,)](ones, ones, out)
        print(triton.__version__, dtype, out[0, 0].item())


def triton_bfloat16():
    """Triton's interpreter cuts float32 off to bfloat16, where a GPU rounds to nearest."""
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def cast(x, y, count: tl.constexpr):
        index = tl.arange(0, count)
        tl.store(y + index, tl.load(x + index).to(tl.bfloat16))

    numbers = torch.rand(4096, generator=torch.Generator().manual_seed(0)) + 0.5
    stored = torch.zeros(4096, dtype=torch.bfloat16)
    cast[(1,)](numbers, stored, count=4096)
    cut = (numbers.view(torch.int32) & ~0xFFFF).view(torch.float32)
    print("triton", triton.__version__)
    print("cut off:", int((stored.float() == cut).sum()), "of 4096")
    print("to nearest:", int((stored == numbers.bfloat16()).sum()), "of 4096")


def onnxruntime_padding():
    """onnxruntime's MultiHeadAttention: a padding key has -10000 added, less than large logits.

    Key 0 has a logit of -20000, key 1 is padding with a logit of 0: the output is that of key 1.
    `mask_filter_value` is documented, and -10000 is its default; float32 has room for more.
    """
    import onnxruntime
    from of_onnx import evaluated, graph

    ones = np.ones((1, 2, 8), np.float32)
    first = np.arange(2, dtype=np.float32)[:, None]  # logits of -20000 and 0, values of 1 and 10
    given = {"q": -50.0 * ones[:, :1], "k": (50.0 - 50.0 * first) * ones}
    given |= {"v": (1.0 + 9.0 * first) * ones, "no_bias": None}
    given["padding"] = np.array([[1, 0]], np.int32)
    there = {name: x for name, x in given.items() if x is not None}
    for value in ({}, {"mask_filter_value": -3e38}):
        content = graph("MultiHeadAttention", given, {"num_heads": 1, "scale": 1.0} | value)
        out = evaluated(content, there)
        print(onnxruntime.__version__, value or "default", out[0, 0, 0])


PROGRAMS = {
    program.__name__: program
    for program in (
        openvino_float16, onnx_reference_bfloat16, triton_dot_bfloat16, triton_bfloat16,
        onnxruntime_padding,
    )
}  # fmt: skip

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=PROGRAMS)
    PROGRAMS[parser.parse_args().name]()
