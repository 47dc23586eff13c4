"""Triton kernels of vLLM, SGLang and LMDeploy, imported without the rest of these packages."""

import math

import numpy as np
import packed
from alone import KVQuantMode, Platform, alone
from libraries import OF_FLASH, SHORT, Row, as_many_keys, has_keys, one_query, windows_are_causal

from constructive.kernels.masks import Causal, Window

_OPS = "vllm.v1.attention.ops."
_SGLANG = "sglang.kernels.ops.attention."
_LMDEPLOY = "lmdeploy.pytorch.kernels.cuda."
_TRITON = ("tf32", *SHORT)  # float32 on GPUs is multiplied as TF32


def _vllm(_):
    import triton
    import triton.language as tl

    modules = [
        "triton_unified_attention", "triton_attention_helpers", "triton_merge_attn_states",
        "triton_decode_attention", "triton_prefill_attention", "prefix_prefill",
        "triton_unified_attention_diffkv", "int4_per_token_head",
    ]  # fmt: skip
    from triton.language.core import _aggregate
    from triton.language.extra import libdevice

    alone(
        "vllm",
        [_OPS + name for name in modules] + ["vllm.utils.math_utils"],
        {
            "vllm.platforms": {"current_platform": Platform()},
            "vllm.triton_utils": {
                "tl": tl, "triton": triton, "tldevice": libdevice, "HAS_TRITON": True,
                "LOG2E": 1.4426950408889634, "aggregate": _aggregate,
            },
            "vllm.envs": {"VLLM_BATCH_INVARIANT": False},
            "vllm.v1.kv_cache_interface": {"KVQuantMode": KVQuantMode},
        },
    )  # fmt: skip


def _sglang(device):
    modules = [
        "decode_attention", "extend_attention", "prefill_attention", "merge_state", "score_mod",
    ]  # fmt: skip
    no, yes = (lambda *_, **__: False), (lambda *_, **__: device == "cuda")
    utils = {
        "is_cuda": yes, "is_hip": no, "is_gfx95_supported": no, "is_gfx1250_supported": no,
        "get_device_core_count": lambda *_: 132,
    }  # fmt: skip
    alone("sglang", [_SGLANG + name for name in modules], {"sglang.srt.utils": utils})


def _lmdeploy(_):
    import enum

    policy = enum.IntEnum("QuantPolicy", {
        "NONE": 0, "INT4": 4, "INT8": 8, "FP8": 16, "FP8_E5M2": 17, "TURBO_QUANT": 42,
    })  # fmt: skip
    names = ["pagedattention", "flashattention", "utils", "turbo_quant"]
    alone(
        "lmdeploy", [_LMDEPLOY + n for n in names], {"lmdeploy.messages": {"QuantPolicy": policy}}
    )


def _unified(segments):
    """Return vLLM's attention over pages; with segments decoding is split."""

    def run(p, **scales):
        import torch
        from vllm.v1.attention.ops.triton_unified_attention import unified_attention

        k, v, table = p.pool
        out = torch.empty(*p.q.shape[:2], p.spec.d_v, dtype=p.q.dtype, device=p.device)
        given = {"q_descale": None, "k_descale": None, "v_descale": None} | scales
        if segments:
            shape = (p.q.shape[0], p.q.shape[1], segments)
            wide = 2 ** math.ceil(math.log2(p.spec.head_dim))
            like = {"dtype": torch.float32, "device": p.device}
            given |= {
                "seq_threshold_3D": 128, "num_par_softmax_segments": segments,
                "softmax_segm_output": torch.empty(*shape, wide, **like),
                "softmax_segm_max": torch.empty(shape, **like),
                "softmax_segm_expsum": torch.empty(shape, **like),
            }  # fmt: skip
        unified_attention(
            q=p.q, k=k, v=v, out=out, cu_seqlens_q=p.starts(p.queries),
            max_seqlen_q=p.most_queries, seqused_k=p.ints(p.keys), max_seqlen_k=p.most_keys,
            softmax_scale=p.scale, causal=p.is_causal, window_size=p.window, block_table=table,
            softcap=p.cap, alibi_slopes=p.slopes, sinks=p.sinks, **given,
        )  # fmt: skip
        return out

    return run


def _of_unified(problem):
    queries, keys = problem.spec.lengths
    if (queries > keys).any():
        return "queries are the last tokens of each sequence"
    if problem.spec.alibi and problem.spec.mask(Causal) is None:
        return "its slopes are for causal masks"
    return windows_are_causal(problem)


def _of_segments(problem):
    return has_keys(problem) or _of_unified(problem)


def _unified_scales(cache, paged):
    if cache.stored_k.kind == "tensor":
        scales = {"k_descale": paged.k_scale, "v_descale": paged.v_scale}
        return {"kv_quant_mode": KVQuantMode.FP8_PER_TENSOR} | scales
    is_int = cache.form == "int8"
    mode = KVQuantMode.INT8_PER_TOKEN_HEAD if is_int else KVQuantMode.FP8_PER_TOKEN_HEAD
    scales = {"k_scale_cache": paged.k_scale, "v_scale_cache": paged.v_scale}
    return {"kv_quant_mode": mode} | scales


def _decode_scales(_, paged):
    return {"k_scale": paged.k_scale[0], "v_scale": paged.v_scale[0]}


def _vllm_merged(out, lse, other, its):
    import torch
    from vllm.v1.attention.ops.triton_merge_attn_states import merge_attn_states

    lse, its = lse.T.contiguous(), its.T.contiguous()
    new, new_lse = torch.empty_like(out), torch.empty_like(lse)
    merge_attn_states(new, out, lse, other, its, new_lse)
    return new, new_lse.T


def _vllm_prefill(p):
    import torch
    from vllm.v1.attention.ops.triton_prefill_attention import context_attention_fwd

    out, window, given = torch.empty_like(p.q), p.spec.mask(Window), {}
    if window is not None:  # its numbers count the keys before and after, 0 or None for all
        given = {"sliding_window_q": window.left, "sliding_window_k": window.right}
    context_attention_fwd(
        p.q, p.k, p.v, out, p.starts(p.queries)[:-1].contiguous(), p.ints(p.queries),
        p.most_queries, is_causal=p.is_causal, softmax_scale=p.scale, sinks=p.sinks, **given,
    )  # fmt: skip
    return out


def _of_prefill(problem):
    queries, keys = problem.spec.lengths
    if (queries != keys).any():
        return "as many keys as queries"
    return None


def _vllm_decode(splits):
    def run(p, **scales):
        import torch
        from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd

        k, v, table = p.pool
        like = {"dtype": torch.float32, "device": p.device}
        out = torch.zeros(*p.q.shape[:2], p.spec.d_v, dtype=p.q.dtype, device=p.device)
        lse = torch.zeros(p.q.shape[:2], **like)
        logits = torch.empty(*p.q.shape[:2], splits, p.spec.d_v + 1, **like)
        decode_attention_fwd(
            p.q, k, v, out, lse, table, p.ints(p.keys), logits, splits, p.scale, packed.PAGE,
            p.cap, **scales,
        )  # fmt: skip
        return out, lse

    return run


def _vllm_prefix(p):
    """Return vLLM's prefill of queries that are the last tokens, with earlier ones in pages."""
    import torch
    from vllm.v1.attention.ops.prefix_prefill import context_attention_fwd

    pages, values, table = p.pool
    rows = _last(p)
    ten = 16 // p.q.element_size()
    k_cache = pages.reshape(len(pages), packed.PAGE, p.spec.heads[1], p.spec.head_dim // ten, ten)
    k_cache = k_cache.permute(0, 2, 3, 1, 4).contiguous()
    v_cache = values.permute(0, 2, 3, 1).contiguous()
    out = torch.empty_like(p.q)
    one = torch.ones((), dtype=torch.float32, device=p.device)
    context_attention_fwd(
        p.q, p.k[rows].contiguous(), p.v[rows].contiguous(), out, "auto", k_cache, v_cache, table,
        p.starts(p.queries), p.ints(p.keys), p.most_keys, p.most_queries, one, one,
        sm_scale=p.scale, alibi_slopes=p.slopes, sinks=p.sinks, **p.sliding("sliding_window"),
    )  # fmt: skip
    return out


def _last(p):
    """Return where in memory the last tokens of each sequence are, as many as it has queries."""
    ends = zip(p.queries, p.keys.cumsum(), strict=True)
    return np.concatenate([np.arange(end - count, end) for count, end in ends])


def _of_prefix(problem):
    queries, keys = problem.spec.lengths
    if problem.spec.mask(Causal) is None:
        return "it is always causal"
    if (queries > keys).any():
        return "queries are the last tokens of each sequence"
    if problem.spec.head_dim % 8:
        return "pages need widths that are multiples of 8"
    if problem.sinks is not None and problem.slopes is not None:
        return "sinks and slopes exclude each other"
    return windows_are_causal(problem)


def _extend(*, masked):
    """Return SGLang's attention of queries that are the last tokens; with any mask if asked."""

    def run(p):
        import torch
        from sglang.kernels.ops.attention.extend_attention import extend_attention_fwd

        rows = _last(p)
        cached = torch.from_numpy(np.setdiff1d(np.arange(len(p.k)), rows)).to(p.device)
        out = p.q.new_empty(*p.q.shape[:2], p.spec.d_v)
        lse = torch.full(p.q.shape[:2], -7.0, dtype=torch.float32, device=p.device)
        given = {"custom_mask": None, "mask_indptr": None, "is_causal": p.is_causal}
        if masked:
            visible = zip(p.problem.visible[:, 0], p.queries, p.keys, strict=True)
            parts = np.concatenate([x[:queries, :keys].ravel() for x, queries, keys in visible])
            given = {
                "custom_mask": torch.tensor(parts).to(p.device),
                "mask_indptr": p.starts(p.queries * p.keys).long(), "is_causal": False,
                "skip_prefix_custom_mask": False,
            }  # fmt: skip
        else:
            given |= p.sliding("sliding_window_size", more=0)
        # Scales are those of the cache alone: powers of two, so that it has the same bits divided
        extend_attention_fwd(
            p.q, p.k[rows].contiguous(), p.v[rows].contiguous(), out, p.k / 16.0, p.v / 4.0,
            p.starts(p.queries), p.starts(p.keys - p.queries), cached,
            max_len_extend=p.most_queries, k_scale=16.0, v_scale=4.0, sm_scale=p.scale,
            logit_cap=p.cap, sinks=p.sinks, lse_extend=lse, **given,
        )  # fmt: skip
        return out, lse

    return run


def _of_extend(problem):
    queries, keys = problem.spec.lengths
    if (queries > keys).any():
        return "queries are the last tokens of each sequence"
    if problem.visible.shape[1] > 1:
        return "its masks are those of all heads"
    return None


def _of_extend_flags(problem):
    return _of_extend(problem) or windows_are_causal(problem)


def _sglang_decode(splits):
    def run(p):
        import torch
        from sglang.kernels.ops.attention.decode_attention import decode_attention_fwd

        like = {"dtype": torch.float32, "device": p.device}
        out = torch.zeros(*p.q.shape[:2], p.spec.d_v, dtype=p.q.dtype, device=p.device)
        logits = torch.empty(*p.q.shape[:2], splits, p.spec.d_v, **like)
        lse = torch.empty(*p.q.shape[:2], splits, **like)
        order = torch.randperm(len(p.k), generator=torch.Generator().manual_seed(0))
        where = torch.empty_like(order)
        where[order] = torch.arange(len(p.k))
        decode_attention_fwd(
            p.q, p.k[order.to(p.device)] / 16.0, p.v[order.to(p.device)] / 4.0, out,
            p.starts(p.keys), where.to(p.device), logits, lse,
            torch.full((p.spec.batch,), splits, dtype=torch.int32, device=p.device), splits,
            p.scale, 16.0, 4.0, logit_cap=p.cap, sinks=p.sinks,
        )  # fmt: skip
        return out

    return run


def _sglang_prefill(p):
    import torch
    from sglang.kernels.ops.attention.prefill_attention import context_attention_fwd

    out = torch.empty_like(p.q)
    context_attention_fwd(
        p.q, p.k, p.v, out, p.starts(p.queries)[:-1].contiguous(), p.ints(p.queries),
        p.most_queries, is_causal=p.is_causal, sm_scale=p.scale,
    )  # fmt: skip
    return out


def _sglang_merged(*states):
    from sglang.kernels.ops.attention.merge_state import merge_state_triton

    return merge_state_triton(*states)


def _lmdeploy_options(p):
    return {
        "softmax_scale": p.scale, "window_size": p.window, "softcap": p.spec.soft_cap,
        "alibi_slopes": p.slopes, "sinks": p.sinks,
    }  # fmt: skip


def _lmdeploy_prefill(p):
    from lmdeploy.pytorch.kernels.cuda.flashattention import flash_attn_varlen_func

    return flash_attn_varlen_func(
        p.q, p.k, p.v, p.starts(p.queries), p.starts(p.keys), p.most_queries, p.most_keys,
        causal=p.is_causal, kv_layout="shd", **_lmdeploy_options(p),
    )  # fmt: skip


def _lmdeploy_decode(p, **scales):
    from lmdeploy.pytorch.kernels.cuda.pagedattention import flash_attn_with_kvcache

    k, v, table = p.pool
    return flash_attn_with_kvcache(
        p.q, k, v, p.ints(p.keys), table, **_lmdeploy_options(p), **scales
    )


def _lmdeploy_quantized(cache, device):
    import torch
    from lmdeploy.messages import QuantPolicy

    p = packed.Packed(cache.problem, device)
    paged = p.take(cache)
    scales, policy = (paged.k_scale, paged.v_scale), QuantPolicy.FP8
    if cache.form == "int8":  # unsigned, with the zero point 128
        policy = QuantPolicy.INT8
        k, v = ((x.int() + 128).to(torch.uint8) for x in (paged.k, paged.v))
        p.pool = k, v, p.pool[2]
        scales = [torch.stack([x, torch.full_like(x, 128.0)], -1).to(torch.float32) for x in scales]
    return _lmdeploy_decode(
        p, quant_policy=policy, k_scales_zeros=scales[0], v_scales_zeros=scales[1]
    )


def rows():
    """Return the rows of vLLM, SGLang and LMDeploy."""
    packed_rows = {"layout": "packed", "on_cpu": ("float32", "float16"), "on_cuda": _TRITON}
    vllm = packed_rows | {"modules": ("vllm", "triton", "torch"), "prepare_with": _vllm}
    sglang = packed_rows | {"modules": ("sglang", "triton", "torch"), "prepare_with": _sglang}
    lmdeploy = packed_rows | {
        "modules": ("lmdeploy", "triton", "torch"), "prepare_with": _lmdeploy, "on_cpu": (),
    }  # fmt: skip
    decode = {
        "takes": ("bottom-right", "lengths", "scale", "soft cap"), "only": one_query,
        "given": {"fully_masked": "nan"},
    }  # fmt: skip
    unified = {
        "takes": (*OF_FLASH, "soft cap", "sink", "ALiBi"), "has_width": False,
        "why_not": _of_unified, "parts": 2,
    }  # fmt: skip
    of_cache = {"kind": "quantized", "on_cuda": SHORT, "on_cpu": ("float16",), "models": None}
    of_unified = packed.quantized(_unified(0), _unified_scales)
    of_decode = packed.quantized(_vllm_decode(4), _decode_scales)
    tensor = (("float8_e4m3fn", "tensor", "tensor"),)
    tokens = (("int8", "token", "token"), ("float8_e4m3fn", "token", "token"))
    merges = {"kind": "merge", "on_cuda": ("float32", *SHORT), "on_cpu": ("float32", *SHORT)}
    prefill = {"takes": ("top-left", "bottom-right", "variable lengths", "scale"),
               "has_width": False, "only": as_many_keys, "why_not": _of_prefill}  # fmt: skip
    return [
        Row("vllm unified_attention", "vllm", _unified(0), **vllm | unified),
        Row("vllm unified_attention, segments", "vllm", _unified(16),
            **vllm | unified | {"why_not": _of_segments}),
        Row("vllm unified_attention, cache by tensor", "vllm", of_unified,
            **vllm | unified | of_cache | {"forms": tensor}),
        Row("vllm unified_attention, cache by token", "vllm", of_unified,
            **vllm | unified | of_cache | {"forms": tokens}),
        Row("vllm merge_attn_states", "vllm", packed.merged(_vllm_merged), **vllm | merges),
        Row("vllm decode_attention, 1 split, lse", "vllm", _vllm_decode(1), **vllm | decode),
        Row("vllm decode_attention, 8 splits, lse", "vllm", _vllm_decode(8), **vllm | decode),
        Row("vllm decode_attention, float8 cache", "vllm", of_decode,
            **vllm | decode | of_cache | {"forms": tensor}),
        Row("vllm prefill_attention", "vllm", _vllm_prefill,
            **vllm | prefill | {"takes": (*prefill["takes"], "window", "sink")}),
        Row("vllm prefix_prefill", "vllm", _vllm_prefix, **vllm | {
            "takes": (*OF_FLASH, "ALiBi", "sink"), "has_width": False, "why_not": _of_prefix}),
        Row("sglang extend_attention, lse", "sglang", _extend(masked=False),
            **sglang | {"takes": (*OF_FLASH, "soft cap", "sink"), "why_not": _of_extend_flags}),
        Row("sglang extend_attention, any mask, lse", "sglang", _extend(masked=True),
            **sglang | {"takes": ("mask", "lengths", "scale"), "why_not": _of_extend}),
        Row("sglang decode_attention, 1 split", "sglang", _sglang_decode(1),
            **sglang | decode | {"takes": (*decode["takes"], "sink")}),
        Row("sglang decode_attention, 8 splits", "sglang", _sglang_decode(8),
            **sglang | decode | {"takes": (*decode["takes"], "sink")}),
        Row("sglang prefill_attention", "sglang", _sglang_prefill, **sglang | prefill),
        Row("sglang merge_state", "sglang", packed.merged(_sglang_merged), **sglang | merges),
        Row("lmdeploy flash_attn_varlen", "lmdeploy", _lmdeploy_prefill, **lmdeploy | {
            "takes": (*OF_FLASH, "soft cap", "sink", "ALiBi"), "why_not": windows_are_causal}),
        Row("lmdeploy paged decoding", "lmdeploy", _lmdeploy_decode, **lmdeploy | {
            "takes": (*OF_FLASH, "soft cap", "sink", "ALiBi"), "only": one_query,
            "why_not": _of_segments}),
        Row("lmdeploy paged decoding, cache by token", "lmdeploy", _lmdeploy_quantized,
            **lmdeploy | of_cache | decode | {
                "on_cpu": (), "why_not": has_keys, "forms": tokens[:1]}),
        Row("lmdeploy paged decoding, float8 cache", "lmdeploy", _lmdeploy_quantized,
            **lmdeploy | of_cache | decode | {
                "on_cpu": (), "why_not": has_keys, "forms": tensor}),
    ]  # fmt: skip
