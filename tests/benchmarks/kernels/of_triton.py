"""Triton kernels of packages that can be imported: flash-linear-attention, FlagGems, xformers."""

import packed
from libraries import SHORT, Row, as_many_keys, one_query, windows_are_causal

from constructive.kernels.masks import Causal

_TRITON = ("tf32", *SHORT)


def _first_configuration(_):
    """Take the first configuration of each kernel in place of measuring all of them."""
    from triton.runtime.autotuner import Autotuner

    run = Autotuner.run

    def first(self, *args, **kwargs):
        self.configs = self.configs[:1]
        return run(self, *args, **kwargs)

    Autotuner.run = first


def _fla(p):
    from fla.ops.attn import parallel_attn

    return parallel_attn(
        p.q[None], p.k[None], p.v[None], scale=p.scale, sink_bias=p.sinks,
        cu_seqlens=p.starts(p.queries).long(), **p.sliding("window_size"),
    )[0]  # fmt: skip


def _fla_decode(p):
    from fla.ops.attn.decoding import attn_decoding_one_step

    return attn_decoding_one_step(
        p.q[None], p.k[None], p.v[None], scale=p.scale, cu_seqlens=p.starts(p.keys).long(),
        sink_bias=p.sinks, **p.sliding("window_size"),
    )[0]  # fmt: skip


def _causal_square(problem):
    queries, keys = problem.spec.lengths
    if (queries != keys).any() or problem.spec.mask(Causal) is None:
        return "it is causal, with as many keys as queries"
    return windows_are_causal(problem)


def _gems(problem, device):
    import flag_gems
    import torch

    spec = problem.spec
    q, k, v = problem.tensors("torch", device=device)
    given = {"scale": spec.factor, "enable_gqa": spec.group > 1}
    if problem.mask is not None and spec.masks == (Causal("top-left"),):
        given["is_causal"] = True
    elif problem.mask is not None or problem.added is not None:
        mask = problem.mask_tensor("torch", additive=problem.added is not None).to(device)
        given["attn_mask"] = mask.expand(spec.batch, spec.heads[0], spec.queries, spec.keys)
    with torch.no_grad():
        return flag_gems.ops.scaled_dot_product_attention_forward(q, k, v, **given)[0]


def _gems_backward(backward, device):
    import flag_gems
    import torch

    problem, spec = backward.problem, backward.problem.spec
    q, k, v = (x.requires_grad_() for x in problem.tensors("torch", device=device))
    out = flag_gems.ops.ScaleDotProductAttention.apply(
        q, k, v, None, 0.0, problem.mask is not None, spec.factor, spec.group > 1
    )
    d_out = torch.from_numpy(backward.d_out).to(q.dtype).to(device)
    return torch.autograd.grad(out, (q, k, v), d_out)


def _top_left(problem):
    masks = problem.spec.masks
    return None if masks in ((), (Causal("top-left"),)) else "no mask but a causal one"


def _gems_flash(problem, device):
    import flag_gems

    q, k, v = problem.tensors("torch", layout="BTHd", device=device)
    p = packed.Packed(problem, device)
    left, right = (None if end < 0 else end for end in p.window)
    out, lse, *_ = flag_gems.ops.flash_attention_forward(
        q, k, v, None, None, p.spec.queries, p.spec.keys, 0.0, p.is_causal,
        return_debug_mask=False, scale=p.scale, softcap=p.cap, window_size_left=left,
        window_size_right=right, alibi_slopes=p.slopes,
    )  # fmt: skip
    return out, lse


def _gems_varlen(p):
    import flag_gems

    k, v, table = p.pool
    out, lse = flag_gems.ops.flash_attn_varlen_func(
        p.q, k, v, p.most_queries, p.starts(p.queries), p.most_keys, seqused_k=p.ints(p.keys),
        softmax_scale=p.scale, causal=p.is_causal, window_size=list(p.window), softcap=p.cap,
        alibi_slopes=p.slopes, block_table=table, return_softmax_lse=True,
    )  # fmt: skip
    return out, lse


def _xformers_merged(merge, device):
    """Return a merge, states as (B, M, G, H, d) and log-sum-exps as (B, G, H, M)."""
    from xformers.ops.fmha import merge_attentions

    outs, lses = merge.tensors("torch", device=device)
    out, lse = merge_attentions(
        [x[None, :, None] for x in outs], [x.T[None, None].contiguous() for x in lses],
        output_dtype=outs.dtype,
    )  # fmt: skip
    return out[0, :, 0], lse[0, 0].T


def rows():
    """Return the rows of flash-linear-attention, FlagGems and xformers."""
    fla = {
        "modules": ("fla", "triton"), "on_cuda": _TRITON, "on_cpu": ("float32", "float16"),
        "layout": "packed", "prepare_with": _first_configuration, "patience": 1.5,
    }  # fmt: skip
    square = {"takes": ("top-left", "bottom-right", "window", "variable lengths", "scale", "sink"),
              "only": as_many_keys, "why_not": _causal_square}  # fmt: skip
    gems = {
        "modules": ("flag_gems", "sqlalchemy", "yaml"), "on_cuda": ("float32", *SHORT),
        "has_width": False, "given": {"head_dim": 64}, "patience": 3.0,
    }  # fmt: skip
    of_flash = ("bottom-right", "window", "scale", "soft cap", "ALiBi")
    return [
        Row("fla parallel_attn", "fla-core", _fla, **fla | square),
        Row("fla parallel_attn, gradients", "fla-core", packed.gradients(_fla),
            kind="backward", **fla | square),
        Row("fla decoding", "fla-core", _fla_decode, **fla | {
            "takes": ("bottom-right", "window", "lengths", "scale", "sink"), "only": one_query,
            "why_not": windows_are_causal}),
        Row("flag_gems scaled_dot_product_attention", "flag-gems", _gems,
            takes=("top-left", "mask", "bias", "scale"), **gems),
        Row("flag_gems sdpa, gradients", "flag-gems", _gems_backward, kind="backward",
            takes=("top-left", "scale"), why_not=_top_left, **gems),
        Row("flag_gems flash_attention_forward, lse", "flag-gems", _gems_flash,
            layout="BTHd", heads_first=True, takes=of_flash,
            says={"fully_masked_lse": float("inf")}, **gems | {"on_cuda": SHORT}),
        Row("flag_gems flash_attn_varlen, lse", "flag-gems", _gems_varlen, layout="packed",
            takes=(*of_flash, "lengths", "variable lengths"), heads_first=True,
            says={"fully_masked_lse": float("inf")}, **gems | {"on_cuda": SHORT}),
        Row("xformers merge_attentions", "xformers", _xformers_merged, kind="merge",
            modules=("xformers",), on_cuda=("float32", *SHORT)),
    ]  # fmt: skip
