"""Triton kernels of vLLM, SGLang and LMDeploy, imported without the rest of these packages."""

import math

from alone import KVQuantMode, Platform, alone
from libraries import OF_FLASH, SHORT, Row, as_many_keys, has_keys, one_query, windows_are_causal

import packed
from constructive.kernels.masks import Causal, Window

_OPS = "vllm.v1.attention.ops."
_SGLANG = "sglang.kernels.ops.attention."
_LMDEPLOY = "lmdeploy.pytorch.kernels.cuda."
_PAGE = 16
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

    def run(problem, device, k=None, v=None, table=None, **scales):
        import torch
        from vllm.v1.attention.ops.triton_unified_attention import unified_attention

        spec = problem.spec
        q, _, _ = packed.tensors(problem, device)
        if k is None:
            k, v, table = packed.pool(problem, device, _PAGE)
        queries, keys = spec.lengths
        out = torch.empty(*q.shape[:2], spec.d_v, dtype=q.dtype, device=device)
        given = {"q_descale": None, "k_descale": None, "v_descale": None} | scales
        if segments:
            shape = (q.shape[0], q.shape[1], segments)
            wide = 2 ** math.ceil(math.log2(spec.head_dim))
            like = {"dtype": torch.float32, "device": device}
            given |= {
                "seq_threshold_3D": 128, "num_par_softmax_segments": segments,
                "softmax_segm_output": torch.empty(*shape, wide, **like),
                "softmax_segm_max": torch.empty(shape, **like),
                "softmax_segm_expsum": torch.empty(shape, **like),
            }  # fmt: skip
        unified_attention(
            q=q, k=k, v=v, out=out, cu_seqlens_q=packed.starts(queries, device),
            max_seqlen_q=int(queries.max()), seqused_k=packed.ints(keys, device),
            max_seqlen_k=int(keys.max()), softmax_scale=spec.factor,
            causal=packed.is_causal(problem), window_size=packed.window(problem),
            block_table=table, softcap=spec.soft_cap or 0.0,
            alibi_slopes=packed.floats(problem.slopes, device),
            sinks=packed.floats(problem.sinks, device), **given,
        )  # fmt: skip
        return out

    return run


def _of_unified(problem):
    queries, keys = problem.spec.lengths
    if (queries > keys).any():
        return "queries are the last tokens of each sequence"
    if problem.spec.alibi and not packed.is_causal(problem):
        return "its slopes are for causal masks"
    return windows_are_causal(problem)


def _of_segments(problem):
    return has_keys(problem) or _of_unified(problem)


def _unified_quantized(quantized, device):
    paged, table = packed.quantized(quantized, device)
    given = {"k": paged.k, "v": paged.v, "table": table}
    if quantized.stored_k.kind == "tensor":
        given |= {
            "kv_quant_mode": KVQuantMode.FP8_PER_TENSOR,
            "k_descale": paged.k_scale, "v_descale": paged.v_scale,
        }  # fmt: skip
    else:
        is_int = quantized.form == "int8"
        mode = KVQuantMode.INT8_PER_TOKEN_HEAD if is_int else KVQuantMode.FP8_PER_TOKEN_HEAD
        scales = {"k_scale_cache": paged.k_scale, "v_scale_cache": paged.v_scale}
        given |= {"kv_quant_mode": mode} | scales
    return _unified(0)(quantized.problem, device, **given)


def _vllm_merged(merge, device):
    import torch
    from vllm.v1.attention.ops.triton_merge_attn_states import merge_attn_states

    def pair(out, lse, other, its):
        lse, its = lse.T.contiguous(), its.T.contiguous()
        new, new_lse = torch.empty_like(out), torch.empty_like(lse)
        merge_attn_states(new, out, lse, other, its, new_lse)
        return new, new_lse.T

    return packed.merged(merge, device, pair)


def _vllm_prefill(problem, device):
    import torch
    from vllm.v1.attention.ops.triton_prefill_attention import context_attention_fwd

    spec = problem.spec
    q, k, v = packed.tensors(problem, device)
    out = torch.empty_like(q)
    window, causal = spec.mask(Window), packed.is_causal(problem)
    given = {}
    if window is not None:  # its numbers count the keys before and after, 0 or None for all
        given = {"sliding_window_q": window.left, "sliding_window_k": window.right}
    context_attention_fwd(
        q, k, v, out, packed.starts(spec.lengths[0], device)[:-1].contiguous(),
        packed.ints(spec.lengths[0], device), int(spec.lengths[0].max()), is_causal=causal,
        softmax_scale=spec.factor, sinks=packed.floats(problem.sinks, device), **given,
    )  # fmt: skip
    return out


def _of_prefill(problem):
    queries, keys = problem.spec.lengths
    if (queries != keys).any():
        return "as many keys as queries"
    return None


def _vllm_decode(splits):
    def run(problem, device, k=None, v=None, table=None, **scales):
        import torch
        from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd

        spec = problem.spec
        q, _, _ = packed.tensors(problem, device)
        if k is None:
            k, v, table = packed.pool(problem, device, _PAGE)
        like = {"dtype": torch.float32, "device": device}
        out = torch.zeros(*q.shape[:2], spec.d_v, dtype=q.dtype, device=device)
        lse = torch.zeros(q.shape[:2], **like)
        logits = torch.empty(*q.shape[:2], splits, spec.d_v + 1, **like)
        decode_attention_fwd(
            q, k, v, out, lse, table, packed.ints(spec.lengths[1], device), logits, splits,
            spec.factor, _PAGE, spec.soft_cap or 0.0, **scales,
        )  # fmt: skip
        return out, lse

    return run


def _vllm_decode_quantized(quantized, device):
    paged, table = packed.quantized(quantized, device)
    return _vllm_decode(4)(
        quantized.problem, device, k=paged.k, v=paged.v, table=table,
        k_scale=paged.k_scale[0], v_scale=paged.v_scale[0],
    )[0]  # fmt: skip


def _vllm_prefix(problem, device):
    """Return vLLM's prefill of queries that are the last tokens, with earlier ones in pages."""
    import torch
    from vllm.v1.attention.ops.prefix_prefill import context_attention_fwd

    spec = problem.spec
    q, k, v = packed.tensors(problem, device)
    queries, keys = spec.lengths
    pages, values, table = packed.pool(problem, device, _PAGE)
    rows = _last(queries, keys)
    ten = 16 // q.element_size()
    k_cache = pages.reshape(len(pages), _PAGE, spec.heads[1], spec.head_dim // ten, ten)
    k_cache = k_cache.permute(0, 2, 3, 1, 4).contiguous()
    v_cache = values.permute(0, 2, 3, 1).contiguous()
    out = torch.empty_like(q)
    one = torch.ones((), dtype=torch.float32, device=device)
    context_attention_fwd(
        q, k[rows].contiguous(), v[rows].contiguous(), out, "auto", k_cache, v_cache, table,
        packed.starts(queries, device), packed.ints(keys, device), int(keys.max()),
        int(queries.max()), one, one, sm_scale=spec.factor,
        alibi_slopes=packed.floats(problem.slopes, device),
        sinks=packed.floats(problem.sinks, device), **packed.sliding(problem, "sliding_window"),
    )  # fmt: skip
    return out


def _last(queries, keys):
    """Return where in memory the last tokens of each sequence are, as many as it has queries."""
    import numpy as np

    ends = keys.cumsum()
    return np.concatenate([np.arange(e - n, e) for n, e in zip(queries, ends, strict=True)])


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

    def run(problem, device):
        import numpy as np
        import torch
        from sglang.kernels.ops.attention.extend_attention import extend_attention_fwd

        spec = problem.spec
        q, k, v = packed.tensors(problem, device)
        queries, keys = spec.lengths
        past = keys - queries
        rows = _last(queries, keys)
        cached = np.setdiff1d(np.arange(len(k)), rows)
        out = q.new_empty(*q.shape[:2], spec.d_v)
        lse = torch.full(q.shape[:2], -7.0, dtype=torch.float32, device=device)
        given = {"custom_mask": None, "mask_indptr": None, "is_causal": packed.is_causal(problem)}
        if masked:
            parts = [problem.visible[b, 0, : queries[b], : keys[b]] for b in range(spec.batch)]
            given = {
                "custom_mask": torch.tensor(np.concatenate([x.ravel() for x in parts])).to(device),
                "mask_indptr": packed.starts(queries * keys, device).long(), "is_causal": False,
                "skip_prefix_custom_mask": False,
            }  # fmt: skip
        else:
            given |= packed.sliding(problem, "sliding_window_size", more=0)
        index = torch.tensor(cached, dtype=torch.int64, device=device)
        # Scales are those of the cache alone: powers of two, so that it has the same bits divided
        extend_attention_fwd(
            q, k[rows].contiguous(), v[rows].contiguous(), out, k / 16.0, v / 4.0,
            packed.starts(queries, device), packed.starts(past, device), index,
            max_len_extend=int(queries.max()), k_scale=16.0, v_scale=4.0, sm_scale=spec.factor,
            logit_cap=spec.soft_cap or 0.0, sinks=packed.floats(problem.sinks, device),
            lse_extend=lse, **given,
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
    def run(problem, device):
        import torch
        from sglang.kernels.ops.attention.decode_attention import decode_attention_fwd

        spec = problem.spec
        q, k, v = packed.tensors(problem, device)
        like = {"dtype": torch.float32, "device": device}
        out = torch.zeros(*q.shape[:2], spec.d_v, dtype=q.dtype, device=device)
        logits = torch.empty(*q.shape[:2], splits, spec.d_v, **like)
        lse = torch.empty(*q.shape[:2], splits, **like)
        order = torch.randperm(len(k), generator=torch.Generator().manual_seed(0))
        where = torch.empty_like(order)
        where[order] = torch.arange(len(k))
        decode_attention_fwd(
            q, k[order.to(device)] / 16.0, v[order.to(device)] / 4.0, out,
            packed.starts(spec.lengths[1], device), where.to(device), logits, lse,
            torch.full((spec.batch,), splits, dtype=torch.int32, device=device), splits,
            spec.factor, 16.0, 4.0, logit_cap=spec.soft_cap or 0.0,
            sinks=packed.floats(problem.sinks, device),
        )  # fmt: skip
        return out

    return run


def _sglang_prefill(problem, device):
    import torch
    from sglang.kernels.ops.attention.prefill_attention import context_attention_fwd

    q, k, v = packed.tensors(problem, device)
    lengths = packed.ints(problem.spec.lengths[0], device)
    out = torch.empty_like(q)
    context_attention_fwd(
        q, k, v, out, packed.starts(problem.spec.lengths[0], device)[:-1].contiguous(), lengths,
        int(lengths.max()), is_causal=packed.is_causal(problem), sm_scale=problem.spec.factor,
    )  # fmt: skip
    return out


def _sglang_merged(merge, device):
    from sglang.kernels.ops.attention.merge_state import merge_state_triton

    return packed.merged(merge, device, merge_state_triton)


def _lmdeploy_prefill(problem, device):
    from lmdeploy.pytorch.kernels.cuda.flashattention import flash_attn_varlen_func

    spec = problem.spec
    q, k, v = packed.tensors(problem, device)
    queries, keys = spec.lengths
    return flash_attn_varlen_func(
        q, k, v, packed.starts(queries, device), packed.starts(keys, device), int(queries.max()),
        int(keys.max()), softmax_scale=spec.factor, causal=packed.is_causal(problem),
        window_size=packed.window(problem), softcap=spec.soft_cap,
        alibi_slopes=packed.floats(problem.slopes, device),
        sinks=packed.floats(problem.sinks, device), kv_layout="shd",
    )  # fmt: skip


def _lmdeploy_decode(problem, device, k=None, v=None, table=None, **scales):
    from lmdeploy.pytorch.kernels.cuda.pagedattention import flash_attn_with_kvcache

    spec = problem.spec
    q, _, _ = packed.tensors(problem, device)
    if k is None:
        k, v, table = packed.pool(problem, device, _PAGE)
    return flash_attn_with_kvcache(
        q, k, v, packed.ints(spec.lengths[1], device), table, softmax_scale=spec.factor,
        window_size=packed.window(problem), softcap=spec.soft_cap,
        alibi_slopes=packed.floats(problem.slopes, device),
        sinks=packed.floats(problem.sinks, device), **scales,
    )  # fmt: skip


def _lmdeploy_quantized(quantized, device):
    import torch
    from lmdeploy.messages import QuantPolicy

    paged, table = packed.quantized(quantized, device)
    scales = paged.k_scale, paged.v_scale
    k, v, policy = paged.k, paged.v, QuantPolicy.FP8
    if quantized.form == "int8":  # unsigned, with the zero point 128
        policy = QuantPolicy.INT8
        k, v = ((x.int() + 128).to(torch.uint8) for x in (k, v))
        scales = [torch.stack([x, torch.full_like(x, 128.0)], -1).to(torch.float32) for x in scales]
    return _lmdeploy_decode(
        quantized.problem, device, k=k, v=v, table=table, quant_policy=policy,
        k_scales_zeros=scales[0], v_scales_zeros=scales[1],
    )  # fmt: skip


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
    tensor = (("float8_e4m3fn", "tensor", "tensor"),)
    tokens = (("int8", "token", "token"), ("float8_e4m3fn", "token", "token"))
    merges = {"kind": "merge", "on_cuda": ("float32", *SHORT), "on_cpu": ("float32", *SHORT)}
    prefill = {"takes": ("top-left", "bottom-right", "variable lengths", "scale"),
               "has_width": False, "only": as_many_keys, "why_not": _of_prefill}  # fmt: skip
    return [
        Row("vllm unified_attention", "vllm", _unified(0), **vllm | unified),
        Row("vllm unified_attention, segments", "vllm", _unified(16),
            **vllm | unified | {"why_not": _of_segments}),
        Row("vllm unified_attention, cache by tensor", "vllm", _unified_quantized,
            **vllm | unified | of_cache | {"forms": tensor}),
        Row("vllm unified_attention, cache by token", "vllm", _unified_quantized,
            **vllm | unified | of_cache | {"forms": tokens}),
        Row("vllm merge_attn_states", "vllm", _vllm_merged, **vllm | merges),
        Row("vllm decode_attention, 1 split, lse", "vllm", _vllm_decode(1), **vllm | decode),
        Row("vllm decode_attention, 8 splits, lse", "vllm", _vllm_decode(8), **vllm | decode),
        Row("vllm decode_attention, float8 cache", "vllm", _vllm_decode_quantized,
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
        Row("sglang merge_state", "sglang", _sglang_merged, **sglang | merges),
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
