"""Wrong results of released libraries, each shown by a few lines (docs/kernels-found.md).

    python tests/benchmarks/kernels/found.py paddle_causal

Each program needs the library that it names; those with device="cuda" need a GPU, and those of
Triton its interpreter, by TRITON_INTERPRET=1.
"""

import argparse
from importlib.metadata import version
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np


def _outweighed(shape):
    """Return q, k and v, tokens first: logits of -20000 and 0, values of 1 and 10."""
    each = np.ones(shape, np.float32)
    of_keys = np.arange(2, dtype=np.float32).reshape(1, 2, *[1] * (len(shape) - 2))
    return -50.0 * each, (50.0 - 50.0 * of_keys) * each, (1.0 + 9.0 * of_keys) * each


def sglang_merge():
    """SGLang: `merge_state_triton` of two empty states is NaN, as exp(-inf + inf) is.

    Expected: an output of 0 and a log-sum-exp of -inf. Merged with a state that has keys, both
    are NaN again. `merge_state` falls back to it where the CUDA kernel does not apply.
    """
    import torch
    from sglang.kernels.ops.attention.merge_state import merge_state_triton

    out = torch.zeros(1, 1, 16, device="cuda")
    lse = torch.full((1, 1), -torch.inf, device="cuda")
    print(merge_state_triton(out, lse, out, lse))


def torch_merge():
    """PyTorch: context parallelism merges states to NaN where the first one is empty.

    Where a query sees no key of the first block, its log-sum-exp is -inf, and so is what is
    merged so far: the difference is NaN. Expected: a state that is empty counts nothing.
    """
    from torch.distributed.tensor.experimental._context_parallel._attention import _SDPAMerger

    from constructive.kernels import merges

    states = next(merges())  # (k, T, H, d_v) and (k, T, H), some with lse = -inf
    merger = _SDPAMerger(convert_to_f32=True, seq_dim=2)
    for out, lse in zip(*states.tensors("torch"), strict=True):
        merger.step(out.permute(1, 0, 2)[None], lse.T[None], partial=False)
    out, lse = merger.results()
    states.check(out[0].permute(1, 0, 2), lse[0].T)


def torch_cudnn_mask():
    """PyTorch: the cuDNN backend adds -65504 for a boolean mask, so rows without keys are averages.

    Expected: True False twice; actual: False True, then True False. These lines have not been
    run; the problems of `released.py` were.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (torch.randn(1, 1, 8, 64, device="cuda", dtype=torch.bfloat16) for _ in "qkv")
    hidden = torch.zeros(1, 1, 8, 8, dtype=torch.bool, device="cuda")
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        with sdpa_kernel(backend):
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden)
            print((out == 0).all().item(), torch.allclose(out, v.mean(2, keepdim=True), atol=1e-2))


def flag_gems_mask():
    """FlagGems: a boolean mask hides the keys that it should show.

    Expected: 0 twice, as the second key is hidden; it is 1 and 0. `attn_mask.to(query.dtype) *
    -1.0e6` puts -1,000,000 at keys whose mask is True, which means visible in PyTorch.
    """
    import torch
    from flag_gems.ops import scaled_dot_product_attention_forward

    torch.set_default_device("cuda")
    q, k, v = torch.zeros(1, 1, 1, 16), torch.zeros(1, 1, 2, 16), torch.zeros(1, 1, 2, 16)
    v[0, 0, 1] = 1.0
    mask = torch.tensor([[[[True, False]]]])
    print(scaled_dot_product_attention_forward(q, k, v, attn_mask=mask)[0][0, 0, 0, 0])
    print(torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)[0, 0, 0, 0])


def x_transformers_causal():
    """x-transformers: Attend(causal=True) with fewer keys than queries has two meanings.

    Which keys do 4 queries of 2 keys see? With flash=False the last query sees the last key (and
    queries without keys see all); with flash=True the first query sees the first key alone.
    """
    import torch
    from x_transformers.attend import Attend

    q, k = torch.zeros(1, 1, 4, 8), torch.zeros(1, 1, 2, 8)
    v = torch.tensor([1.0, 10.0]).reshape(1, 1, 2, 1).expand(1, 1, 2, 8)
    for flash in (False, True):
        out, _ = Attend(causal=True, flash=flash)(q, k, v)
        print(version("x-transformers"), f"flash={flash}", out[0, 0, :, 0].tolist())


def x_transformers_kv_heads():
    """x-transformers: query head h reads KV head h % kv_heads, not h // (heads / kv_heads).

    Weights of models with grouped heads from elsewhere (Llama, torch's enable_gqa) mix up their
    heads.
    """
    import torch
    from x_transformers.attend import Attend

    q, k = torch.zeros(1, 4, 1, 8), torch.zeros(1, 2, 1, 8)
    v = torch.arange(2.0).reshape(1, 2, 1, 1).expand(1, 2, 1, 8)
    out, _ = Attend()(q, k, v)
    print("x-transformers", version("x-transformers"), out[0, :, 0, 0].tolist())
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    print("torch", torch.__version__, out[0, :, 0, 0].tolist())


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


def paddle_causal():
    """Paddle: is_causal=True on CPUs hides keys by a finite number, which large logits outweigh.

    Query 0 may see key 0 alone, whose logit is -20000; key 1 has 0. The output is that of key 1.
    """
    import paddle

    attention = paddle.nn.functional.scaled_dot_product_attention
    q, k, v = map(paddle.to_tensor, _outweighed((1, 2, 1, 8)))
    mask = paddle.to_tensor(np.tril(np.ones((1, 1, 2, 2), bool)))
    for options in ({"is_causal": True}, {"attn_mask": mask}):
        out = attention(q, k, v, scale=1.0, **options).numpy()
        print(paddle.__version__, next(iter(options)), out[0, 0, 0, 0])


def paddle_empty_rows():
    """Paddle, float32 on CPUs: a row whose mask hides all keys is NaN, or their average.

    It is the average where the number of keys is a multiple of 8. In float64 it is always NaN.
    """
    import paddle

    attention = paddle.nn.functional.scaled_dot_product_attention
    for keys in (4, 8, 40, 60, 64):
        q, k, v = (np.ones((1, tokens, 1, 16), np.float32) for tokens in (2, keys, keys))
        mask = np.zeros((1, 1, 2, keys), bool)
        mask[..., 1, :] = True
        out = attention(*map(paddle.to_tensor, (q, k, v)), attn_mask=paddle.to_tensor(mask)).numpy()
        print(paddle.__version__, f"{keys} keys:", out[0, 0, 0, 0])


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


def softmax_of_float64():
    """Float64 inputs, float32 softmax: jax.nn.dot_product_attention (so Keras and flax.nnx),
    transformers, x-transformers.

    The average of 3 values, 1, 1 and 2, with equal logits: the error is 1e-8, not 1e-16. Each
    library does so on purpose, and says so in its code; a user of float64 may not know. Runs what
    is installed.
    """
    q, k = np.zeros((1, 1, 1, 8)), np.zeros((1, 1, 3, 8))
    v = np.array([1.0, 1.0, 2.0]).reshape(1, 1, 3, 1) * np.ones((1, 1, 3, 8))
    if find_spec("jax"):
        import jax

        with jax.enable_x64(True):  # noqa: FBT003 - of jax
            heads_last = (x.swapaxes(1, 2) for x in (q, k, v))
            out = jax.nn.dot_product_attention(*heads_last)
        print("jax", version("jax"), out.dtype, abs(float(out.max()) - 4 / 3))
    if find_spec("transformers"):
        import torch
        from transformers.models.llama.modeling_llama import eager_attention_forward

        module = SimpleNamespace(num_key_value_groups=1, training=False)
        out, _ = eager_attention_forward(module, *map(torch.tensor, (q, k, v)), None, 1.0)
        print("transformers", version("transformers"), out.dtype, abs(out.max().item() - 4 / 3))
    if find_spec("x_transformers"):
        import torch
        from x_transformers.attend import Attend

        out, _ = Attend()(*map(torch.tensor, (q, k, v)))
        print("x-transformers", version("x-transformers"), out.dtype, abs(out.max().item() - 4 / 3))


def onnxruntime_padding():
    """onnxruntime's MultiHeadAttention: a padding key has -10000 added, less than large logits.

    Key 0 has a logit of -20000, key 1 is padding with a logit of 0: the output is that of key 1.
    `mask_filter_value` is documented, and -10000 is its default; float32 has room for more.
    """
    import onnxruntime
    from of_onnx import evaluated, graph

    q, k, v = _outweighed((1, 2, 8))
    given = {"q": q[:, :1], "k": k, "v": v}
    given |= {"no_bias": None, "padding": np.array([[1, 0]], np.int32)}
    there = {name: x for name, x in given.items() if x is not None}
    for value in ({}, {"mask_filter_value": -3e38}):
        content = graph("MultiHeadAttention", given, {"num_heads": 1, "scale": 1.0} | value)
        out = evaluated(content, there)
        print(onnxruntime.__version__, value or "default", out[0, 0, 0])


PROGRAMS = {
    program.__name__: program
    for program in (
        sglang_merge, torch_merge, torch_cudnn_mask,
        flag_gems_mask, x_transformers_causal, x_transformers_kv_heads,
        openvino_float16, paddle_causal, paddle_empty_rows,
        onnx_reference_bfloat16, triton_dot_bfloat16, triton_bfloat16,
        softmax_of_float64, onnxruntime_padding,
    )
}  # fmt: skip

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=PROGRAMS)
    PROGRAMS[parser.parse_args().name]()
