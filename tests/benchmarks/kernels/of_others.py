"""Adapters for `released.py`: MLX, OpenVINO, Paddle, (x-)transformers, `MultiheadAttention`."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
from of_onnx import EAGER

from constructive.kernels import ADAPTERS as INSIDE
from constructive.kernels.adapters import (
    ALL,
    BIAS,
    GROUPS,
    MASK,
    SCALE,
    SINK,
    SOFT_CAP,
    WIDTH,
    Adapter,
    Options,
    is_alone,
    masked,
    scaled,
)
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal
from constructive.kernels.spec import numpy_dtype
from constructive.support.arrays import Tensor

# ScaledDotProductAttention of OpenVINO, on CPUs.


def _openvino_options(problem: Inputs) -> Options:
    if is_alone(problem, Causal("top-left")):
        return scaled(problem) | {"causal": True}
    return scaled(problem) | masked(problem, "attention_mask")


def _openvino(q: Tensor, k: Tensor, v: Tensor, **options: Tensor) -> Tensor:
    import openvino
    from openvino import opset13

    scale = options.pop("scale", None)
    given = {"query": q, "key": k, "value": v}
    given |= {name: options.pop(name) for name in ("attention_mask",) if name in options}
    given = {name: np.ascontiguousarray(value) for name, value in given.items()}
    inputs = {name: opset13.parameter(x.shape, x.dtype) for name, x in given.items()}
    constant = {} if scale is None else {"scale": opset13.constant(scale, q.dtype)}
    if constant and "attention_mask" not in inputs:  # the scale comes after a mask
        constant["attention_mask"] = opset13.constant(0.0, q.dtype)
    node = opset13.scaled_dot_product_attention(**inputs, **constant, **options)
    model = openvino.Model([node], list(inputs.values()))
    asked = {"INFERENCE_PRECISION_HINT": "f32"}
    return openvino.compile_model(model, "CPU", asked)(list(given.values()))[0]


# mlx.core.fast.scaled_dot_product_attention: a causal mask by name where it ends at the last key,
# all others as booleans or numbers.


def _mlx_options(problem: Inputs) -> Options:
    found: Options = {"scale": problem.spec.factor}
    if problem.sinks is not None:
        found["sinks"] = _array(problem.sinks.astype(numpy_dtype(problem.spec.dtype)))
    if is_alone(problem, Causal("bottom-right")):
        return found | {"mask": "causal"}
    return found | {name: _array(array) for name, array in masked(problem, "mask").items()}


def _mlx(q: Tensor, k: Tensor, v: Tensor, **options: Tensor) -> Tensor:
    import mlx.core as mx

    q, k, v = (_array(x) for x in (q, k, v))
    out = mx.fast.scaled_dot_product_attention(q, k, v, **options)
    return np.asarray(out.astype(mx.float32))


def _array(array: Tensor) -> Tensor:
    """Return an array of mlx of the same format."""
    import mlx.core as mx

    if array.dtype == np.bool_:
        return mx.array(array)
    return mx.array(array.astype(np.float32)).astype(getattr(mx, str(array.dtype)))


# paddle.nn.functional.scaled_dot_product_attention: causal masks by flag where it means the same,
# else booleans or numbers.


def _paddle_options(problem: Inputs) -> Options:
    if is_alone(problem, Causal("top-left")):
        return scaled(problem) | {"is_causal": True}
    mask = masked(problem, "attn_mask")
    return scaled(problem) | {name: _tensor(array) for name, array in mask.items()}


def _paddle(q: Tensor, k: Tensor, v: Tensor, **options: Tensor) -> Tensor:
    import paddle

    q, k, v = (_tensor(x) for x in (q, k, v))
    out = paddle.nn.functional.scaled_dot_product_attention(q, k, v, **options)
    return out.astype("float64").numpy()


def _tensor(array: Tensor) -> Tensor:
    import paddle

    return paddle.to_tensor(np.ascontiguousarray(array))


# Attend of x-transformers, in plain tensor operations and by torch's fused function: causal masks,
# bottom-right, by flag; all others as booleans.

_BOTTOM = (Causal("bottom-right"),)


def _attend_options(problem: Inputs) -> Options:
    spec = problem.spec
    found: Options = {}
    made: Options = {"scale": spec.scale}
    if spec.soft_cap is not None:
        made |= {"softclamp_logits": True, "logit_softclamp_value": spec.soft_cap}
    if spec.masks == _BOTTOM and spec.queries <= spec.keys:  # else rows without keys are averages
        made["causal"] = True
    elif problem.mask is not None:
        found["mask"] = problem.mask_tensor("torch")
    if problem.bias is not None:
        import torch

        found["attn_bias"] = torch.from_numpy(problem.bias)
    return found | {"made": made}


def _attend(
    q: Tensor, k: Tensor, v: Tensor, *, made: Options, flash: bool = False, **options: Tensor
) -> Tensor:
    from x_transformers.attend import Attend

    if "attn_bias" in options:
        options["attn_bias"] = options["attn_bias"].to(q.dtype)
    return Attend(flash=flash, **made)(q, k, v, **options)[0]


_ATTEND = replace(
    INSIDE["torch"],
    attend=partial(_attend, flash=True),
    options=_attend_options,
    packages={"x_transformers": "x-transformers", "torch": "torch"},
)

# Attention functions of transformers: the eager ones of Llama, Gemma 2 (soft caps) and gpt-oss
# (sinks), whose masks are finite numbers, and the one that calls torch's fused function.


def _not_both(problem: Inputs) -> str | None:
    both = problem.spec.sink and problem.spec.soft_cap is not None
    return "no model has a soft cap and a sink" if both else None


def _eager_options(problem: Inputs) -> Options:
    import torch

    spec, mask = problem.spec, None
    if problem.mask is not None or problem.bias is not None:
        mask = problem.mask_tensor("torch", additive=True)
        mask = mask.clamp(min=torch.finfo(mask.dtype).min)  # what the library itself writes
    sinks = None if problem.sinks is None else torch.from_numpy(problem.sinks)
    module = SimpleNamespace(num_key_value_groups=spec.group, training=False, sinks=sinks)
    found = {"module": module, "attention_mask": mask, "scaling": spec.factor}
    return found | ({} if spec.soft_cap is None else {"softcap": spec.soft_cap})


def _eager(q: Tensor, k: Tensor, v: Tensor, **options: Tensor) -> Tensor:
    from transformers.models.gemma2 import modeling_gemma2
    from transformers.models.gpt_oss import modeling_gpt_oss
    from transformers.models.llama import modeling_llama

    module = options.pop("module")
    model = modeling_gemma2 if "softcap" in options else modeling_llama
    if module.sinks is not None:
        model = modeling_gpt_oss
        module.sinks = module.sinks.to(q.device, q.dtype)
    out, _ = model.eager_attention_forward(module, q, k, v, **options)
    return out.transpose(1, 2)


def _fused_options(problem: Inputs) -> Options:
    spec = problem.spec
    module = SimpleNamespace(num_key_value_groups=spec.group, is_causal=False)
    found: Options = {"module": module, "attention_mask": None, "scaling": spec.factor}
    if is_alone(problem, Causal("top-left")) and spec.queries > 1:
        return found | {"is_causal": True}
    return found | masked(problem, "attention_mask", "torch")


def _fused(q: Tensor, k: Tensor, v: Tensor, **options: Tensor) -> Tensor:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    out, _ = sdpa_attention_forward(options.pop("module"), q, k, v, **options)
    return out.transpose(1, 2)


_TRANSFORMERS = replace(
    INSIDE["torch"], packages={"transformers": "transformers", "torch": "torch"}
)


# torch.nn.MultiheadAttention with projections that change nothing. Without weights in its output
# it calls the fused function; with them, softmax is in plain tensor operations.


def _multihead_options(problem: Inputs) -> Options:
    import torch

    spec = problem.spec
    if problem.mask is None and problem.added is None:
        return {}
    if spec.masks == (Causal("top-left"),) and not spec.alibi:
        hidden = ~torch.ones(spec.queries, spec.keys, dtype=torch.bool).tril()
        return {"attn_mask": hidden, "is_causal": spec.queries == spec.keys}
    mask = problem.mask_tensor("torch", additive=problem.added is not None)
    mask = ~mask if mask.dtype == torch.bool else mask
    whole = (spec.batch, spec.heads[0], spec.queries, spec.keys)
    return {"attn_mask": mask.expand(whole).reshape(-1, *whole[2:])}


def _multihead(q: Tensor, k: Tensor, v: Tensor, **options: Tensor) -> Tensor:
    import torch

    heads, width = q.shape[2], q.shape[2] * q.shape[3]
    like = {"dtype": q.dtype, "device": q.device}
    layer = torch.nn.MultiheadAttention(width, heads, bias=False, batch_first=True, **like)
    options = {"need_weights": False} | options
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(width, **like).repeat(3, 1))
        layer.out_proj.weight.copy_(torch.eye(width, **like))
        out, _ = layer(*(x.flatten(2) for x in (q, k, v)), **options)
    return out.unflatten(2, (heads, -1))


def _with_weights(problem: Inputs) -> Options:
    flag = {"is_causal": False} if problem.mask is not None else {}
    return _multihead_options(problem) | flag | {"need_weights": True}


_MULTIHEAD = replace(
    INSIDE["torch"],
    attend=_multihead,
    options=_multihead_options,
    layout="BTHd",
    can=frozenset({MASK, BIAS}),
)


ADAPTERS: dict[str, Adapter] = {
    "torch-mha": _MULTIHEAD,
    "torch-mha-weights": replace(
        _MULTIHEAD, options=_with_weights, models=EAGER, fully_masked="nan"
    ),
    "transformers": replace(
        _TRANSFORMERS,
        attend=_eager,
        options=_eager_options,
        excludes=_not_both,
        models={
            "float32": "flash float32",
            "float16": "logits float16",
            "bfloat16": "logits bfloat16",
        },
        fully_masked="mean",
        can=ALL,
    ),
    "transformers-sdpa": replace(_TRANSFORMERS, attend=_fused, options=_fused_options),
    "x-transformers": replace(
        _ATTEND,
        attend=_attend,
        models={name: model for name, model in EAGER.items() if name != "float64"},
        can=ALL - {SINK},
    ),
    "x-transformers-flash": _ATTEND,
    "mlx": Adapter(
        attend=_mlx,
        options=_mlx_options,
        packages={"mlx.core": "mlx"},
        models={name: model for name, model in EAGER.items() if name != "float64"},
        fully_masked="mean",
        can=ALL - {SOFT_CAP},
    ),
    "openvino": Adapter(
        attend=_openvino,
        options=_openvino_options,
        packages={"openvino": "openvino"},
        models={"float32": "flash float32", "float16": "flash float16"},
        fully_masked="nan",
        can=frozenset({MASK, BIAS, SCALE, WIDTH}),
    ),
    "paddle": Adapter(
        attend=_paddle,
        options=_paddle_options,
        packages={"paddle": "paddlepaddle"},
        layout="BTHd",
        models={"float32": "flash float32", "float64": "flash float64"},
        fully_masked="nan",
        can=frozenset({MASK, BIAS, SCALE, GROUPS, WIDTH}),
    ),
}
