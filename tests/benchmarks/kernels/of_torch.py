"""PyTorch: log-sum-exps of its implementations, gradients, flex attention, variable lengths."""

import packed
from libraries import OF_FLASH, SHORT, Row

from constructive.kernels import ADAPTERS
from constructive.kernels.masks import Causal

_ALL = ("float32", *SHORT)


def _is_flag(problem):
    return problem.spec.masks == (Causal("top-left"),)


def _flash(problem, device):
    import torch

    q, k, v = problem.tensors("torch", device=device)
    given = {"scale": problem.spec.factor}
    causal = problem.spec.mask(Causal) is not None
    if device == "cpu":
        causal = _is_flag(problem)
        function = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        mask = (
            None if problem.mask is None or causal else problem.mask_tensor("torch", additive=True)
        )
        return tuple(function(q, k, v, 0.0, causal, attn_mask=mask, **given))
    found = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, **given)
    return found[0], found[1]


def _bias(problem, device):
    """Return an additive mask whose rows are aligned, as the kernel asks, or None."""
    import torch

    if problem.mask is None or _is_flag(problem):
        return None
    spec = problem.spec
    mask = problem.mask_tensor("torch", additive=True).to(device)
    wide = torch.zeros(*mask.shape[:3], -(-spec.keys // 16) * 16, dtype=mask.dtype, device=device)[
        ..., : spec.keys
    ]
    wide.copy_(mask)
    return wide.expand(spec.batch, spec.heads[0], spec.queries, spec.keys)


def _with_bias(name):
    """Return one of the implementations that take an additive mask."""

    def run(problem, device):
        import torch

        function = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention")
        out, lse, *_ = function(
            *problem.tensors("torch", device=device), _bias(problem, device),
            compute_log_sumexp=True, is_causal=_is_flag(problem), scale=problem.spec.factor,
        )  # fmt: skip
        lse = lse[..., 0] if lse.ndim == 4 else lse
        return out, lse[..., : problem.spec.queries]

    return run


def _backward(adapter):
    """Return gradients by one implementation of scaled_dot_product_attention."""

    def run(backward, device):
        import torch

        problem = backward.problem
        q, k, v = (x.requires_grad_() for x in problem.tensors("torch", device=device))
        options = problem.options("torch")
        options = {n: x.to(device) if hasattr(x, "to") else x for n, x in options.items()}
        d_out = torch.from_numpy(backward.d_out).to(q.dtype).to(device)
        return torch.autograd.grad(ADAPTERS[adapter].attend(q, k, v, **options), (q, k, v), d_out)

    return run


def _flex(problem, device, q, k, v):
    """Return output and log-sum-exp of flex attention, compiled on GPUs."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    spec, given = problem.spec, {"scale": problem.spec.factor, "enable_gqa": problem.spec.group > 1}
    if problem.mask is not None:
        seen = problem.mask_tensor("torch").to(device)
        per_head = seen.shape[1] > 1
        given["block_mask"] = create_block_mask(
            lambda b, h, i, j: seen[b, h if per_head else 0, i, j], spec.batch,
            spec.heads[0] if per_head else None, spec.queries, spec.keys, device=device,
        )  # fmt: skip
    cap = spec.soft_cap
    bias = None if problem.bias is None else torch.from_numpy(problem.bias).float().to(device)
    if cap is not None or problem.slopes is not None:

        def changed(score, b, h, i, j):
            if cap is not None:
                score = cap * torch.tanh(score / cap)
            return score if bias is None else score + bias[b, h, i, j]

        given["score_mod"] = changed
    function = torch.compile(flex_attention, dynamic=False) if device == "cuda" else flex_attention
    return function(q, k, v, return_lse=True, **given)


def _flex_forward(problem, device):
    import torch

    with torch.no_grad():
        return _flex(problem, device, *problem.tensors("torch", device=device))


def _flex_backward(backward, device):
    import torch

    q, k, v = (x.requires_grad_() for x in backward.problem.tensors("torch", device=device))
    out, lse = _flex(backward.problem, device, q, k, v)
    d_out = torch.from_numpy(backward.d_out).to(q.dtype).to(device)
    d_lse = torch.from_numpy(backward.d_lse).float().to(device)
    return torch.autograd.grad((out, lse), (q, k, v), (d_out, d_lse))


def _compiling(_):
    """Compile as many shapes as there are."""
    import torch

    torch._dynamo.config.recompile_limit = 10**6
    torch._dynamo.config.accumulated_recompile_limit = 10**6
    torch._dynamo.config.fail_on_recompile_limit_hit = True


def _varlen_of(p, **more):
    from torch.nn.attention.varlen import varlen_attn

    window = (p.window[0], 0) if p.is_causal else p.window
    return varlen_attn(
        p.q, p.k, p.v, p.starts(p.queries), p.starts(p.keys), p.most_queries, p.most_keys,
        scale=p.scale, window_size=window, **more,
    )  # fmt: skip


def _varlen(p):
    import torch
    from torch.nn.attention.varlen import AuxRequest

    with torch.no_grad():
        return _varlen_of(p, return_aux=AuxRequest(lse=True))


def _merged(merge, device):
    from torch.distributed.tensor.experimental._context_parallel._attention import _SDPAMerger

    merger = _SDPAMerger(convert_to_f32=True, seq_dim=2)
    for out, lse in zip(*merge.tensors("torch", device=device), strict=True):
        merger.step(out.permute(1, 0, 2)[None], lse.T[None].contiguous(), partial=False)
    out, lse = merger.results()
    return out[0].permute(1, 0, 2), lse[0].T


def rows():
    """Return the rows of PyTorch."""
    lse = {"takes": ("top-left", "mask", "scale"), "has_groups": False}
    on_gpu = {"on_cuda": SHORT, "on_cpu": ()}
    gradients = {
        "kind": "backward", "takes": ("mask", "top-left", "scale"), "on_cuda": SHORT,
        "has_width": False,
    }  # fmt: skip
    options = ("mask", "bias", "scale", "soft cap", "ALiBi")
    flex = {"takes": options, "prepare_with": _compiling, "parts": 6, "patience": 2.0}
    of_varlen = {
        "modules": ("torch.nn.attention.varlen",), "takes": OF_FLASH, "has_width": False,
        "layout": "packed", "has_groups": False, "heads_first": True, **on_gpu,
    }  # fmt: skip
    return [
        Row("torch flash, lse", "torch", _flash, takes=("bottom-right", "scale"), has_width=False,
            has_groups=False, says={"fully_masked_lse": float("inf")}, **on_gpu),
        Row("torch flash on CPUs, lse", "torch", _flash, on_cuda=(), on_cpu=_ALL,
            says={"fully_masked_lse": 0.0}, has_width=False, **lse),
        Row("torch efficient, lse", "torch", _with_bias("efficient"), on_cuda=_ALL,
            says={"fully_masked_lse": 0.0}, **lse),
        Row("torch cudnn, lse", "torch", _with_bias("cudnn"), **lse, **on_gpu),
        Row("torch flash, gradients", "torch", _backward("torch-flash"), on_cpu=_ALL,
            **gradients | {"has_groups": True}),
        Row("torch efficient, gradients", "torch", _backward("torch-efficient"),
            **gradients | {"on_cuda": _ALL, "has_groups": False}),
        Row("torch cudnn, gradients", "torch", _backward("torch-cudnn"),
            **gradients | {"has_width": True}),
        Row("torch math, gradients", "torch", _backward("torch-math"), on_cpu=("float32",),
            **gradients | {"has_width": True, "on_cuda": ("float32",)}),
        Row("torch flex, lse", "torch", _flex_forward, on_cpu=_ALL, **flex),
        Row("torch flex, gradients", "torch", _flex_backward, kind="backward", d_lse=True,
            **flex | {"takes": ("mask", "bias", "scale", "soft cap")}),
        Row("torch varlen_attn, lse", "torch", _varlen, says={"fully_masked_lse": float("inf")},
            **of_varlen),
        Row("torch varlen_attn, gradients", "torch", packed.gradients(_varlen_of), kind="backward",
            **of_varlen),
        Row("torch _SDPAMerger", "torch", _merged, kind="merge",
            modules=("torch.distributed.tensor.experimental",), on_cuda=_ALL, on_cpu=_ALL),
    ]  # fmt: skip
