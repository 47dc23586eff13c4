"""Attention of torch and transformers."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

from constructive.kernels.adapters.adapter import (
    ALL,
    BIAS,
    EAGER,
    FLASH,
    MASK,
    SINK,
    SOFT_CAP,
    Adapter,
    Options,
    Refused,
    called,
    is_alone,
    masked,
    scaled,
)
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal
from constructive.support.arrays import Tensor

_BOTH = ("cpu", "cuda")


# torch.nn.functional.scaled_dot_product_attention: masks by flag, as booleans, as numbers to add.


def _by_flag(problem: Inputs) -> Options:
    """Return causal masks by flag where it means the same, all others as booleans or numbers."""
    if is_alone(problem, Causal("top-left")):
        return {"is_causal": True} | _grouped(problem)
    return _as_booleans(problem)


def _as_booleans(problem: Inputs) -> Options:
    return masked(problem, "attn_mask", "torch") | _grouped(problem)


def _as_numbers(problem: Inputs) -> Options:
    return masked(problem, "attn_mask", "torch", additive=True) | _grouped(problem)


def _grouped(problem: Inputs) -> Options:
    return scaled(problem) | ({"enable_gqa": True} if problem.spec.group > 1 else {})


sdpa = called("torch.nn.functional", "scaled_dot_product_attention")


def _backend(name: str) -> Callable[..., Tensor]:
    """Return one of torch's implementations, as `sdpa_kernel` selects it."""

    def attend(q: Tensor, k: Tensor, v: Tensor, **options: Tensor) -> Tensor:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel([getattr(SDPBackend, name)]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns why it refuses; `Refused` says it
            try:
                return sdpa(q, k, v, **options)
            except RuntimeError as error:
                if "No viable backend" in str(error) or "No available kernel" in str(error):
                    raise Refused(f"torch has no kernel of {name} for it") from error
                raise

    return attend


_SDPA = Adapter(
    attend=sdpa,
    options=_by_flag,
    packages={"torch": "torch"},
    library="torch",
    models=FLASH,
    can=ALL - {SOFT_CAP, SINK},
    devices=_BOTH,
)

_FUSED = replace(_SDPA, placed="contiguous")


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
    _SDPA,
    attend=_multihead,
    options=_multihead_options,
    layout="BTHd",
    can=frozenset({MASK, BIAS}),
)


# torch's flex_attention, not compiled: masks and logits are changed by functions.


def _flex_options(problem: Inputs) -> Options:
    from torch.nn.attention.flex_attention import create_block_mask

    spec, found = problem.spec, _grouped(problem)
    if problem.mask is not None:
        seen = problem.mask_tensor("torch")
        per_head = seen.shape[1] > 1
        found["block_mask"] = create_block_mask(
            lambda b, h, i, j: _beside(seen, i)[b, h if per_head else 0, i, j],
            spec.batch, spec.heads[0] if per_head else None, spec.queries, spec.keys, device="cpu",
        )  # fmt: skip
    if spec.soft_cap is not None or problem.bias is not None:
        found["score_mod"] = _changed(problem)
    return found


def _beside(tensor: Tensor, other: Tensor) -> Tensor:
    """Return a tensor where another one is; what is compiled cannot move tensors."""
    return tensor if tensor.device == other.device else tensor.to(other.device)


def _changed(problem: Inputs) -> Tensor:
    """Return the function of torch that puts a soft cap and slopes on logits."""
    import torch

    cap = problem.spec.soft_cap
    bias = None if problem.bias is None else torch.from_numpy(problem.bias)

    def changed(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if cap is not None:
            score = cap * torch.tanh(score / cap)
        return score if bias is None else score + _beside(bias, i)[b, h, i, j].to(score.dtype)

    return changed


def _flex(q: Tensor, k: Tensor, v: Tensor, **options: Tensor) -> Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that it is slow
        return flex_attention(q, k, v, **options)


_FLEX = replace(_SDPA, attend=_flex, options=_flex_options, can=ALL - {SINK})


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


_TRANSFORMERS = replace(_SDPA, packages={"transformers": "transformers", "torch": "torch"})


TORCH: dict[str, Adapter] = {
    "torch": _SDPA,
    "torch-boolean": replace(_SDPA, options=_as_booleans),
    "torch-additive": replace(_SDPA, options=_as_numbers),
    "torch-math": replace(_SDPA, attend=_backend("MATH")),
    "torch-flash": replace(_FUSED, attend=_backend("FLASH_ATTENTION")),
    "torch-efficient": replace(_FUSED, attend=_backend("EFFICIENT_ATTENTION"), devices=("cuda",)),
    "torch-cudnn": replace(_FUSED, attend=_backend("CUDNN_ATTENTION"), devices=("cuda",)),
    "torch-mha": _MULTIHEAD,
    "torch-mha-weights": replace(
        _MULTIHEAD, options=_with_weights, models=EAGER, fully_masked="nan"
    ),
    "torch-flex": _FLEX,
    "transformers": replace(
        _TRANSFORMERS,
        attend=_eager,
        options=_eager_options,
        excludes=_not_both,
        models={
            "float32": "flash float32", "float16": "logits float16", "bfloat16": "logits bfloat16"
        },
        fully_masked="mean",
        can=ALL,
    ),
    "transformers-sdpa": replace(_TRANSFORMERS, attend=_fused, options=_fused_options),
}  # fmt: skip
