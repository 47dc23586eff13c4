"""FlashInfer and FlashAttention 4 on GPUs, which compile each kernel when it is first called."""

import numpy as np
import packed
from libraries import OF_FLASH, Row, one_query, windows_are_causal

from constructive.kernels.masks import Causal, RightPadding, VariableLengths, Window

_WORKSPACE = 128 * 2**20  # bytes


def _workspace(device):
    import torch

    return torch.empty(_WORKSPACE, dtype=torch.uint8, device=device)


def _options(p):
    return {"sm_scale": p.scale, "window_left": p.window[0], "logits_soft_cap": p.spec.soft_cap}


def _is_plain(problem):
    """Return whether flags and lengths say the whole mask."""
    kinds = (Causal, Window, RightPadding, VariableLengths)
    masks = problem.spec.masks
    aligned = all(getattr(m, "alignment", "bottom-right") == "bottom-right" for m in masks)
    return all(isinstance(m, kinds) for m in masks) and (
        aligned or problem.spec.queries == problem.spec.keys
    )


def _single(p):
    """Return prefill of one sequence after the other."""
    import flashinfer
    import torch

    given = _options(p) | {"causal": p.is_causal}
    outs, lses = [], []
    for b, (q_end, k_end) in enumerate(zip(p.queries.cumsum(), p.keys.cumsum(), strict=True)):
        q_rows, k_rows = slice(q_end - p.queries[b], q_end), slice(k_end - p.keys[b], k_end)
        if not _is_plain(p.problem):
            mask = torch.tensor(p.problem.visible[b, 0, : p.queries[b], : p.keys[b]])
            given = {"sm_scale": p.scale, "custom_mask": mask.to(p.device)}
            given["logits_soft_cap"] = p.spec.soft_cap
        out, lse = flashinfer.single_prefill_with_kv_cache(
            p.q[q_rows], p.k[k_rows], p.v[k_rows], backend="fa2", return_lse=True, **given
        )
        outs.append(out)
        lses.append(lse)
    return torch.cat(outs), torch.cat(lses)


def _of_single(problem):
    if problem.visible.shape[1] > 1:
        return "its masks are those of all heads"
    queries, keys = problem.spec.lengths
    if _is_plain(problem) and problem.spec.mask(Causal) is not None and (queries > keys).any():
        return "causal masks have as many keys as queries, or more"
    return windows_are_causal(problem)


def _decoded_alone(p):
    """Return decoding of one sequence after the other."""
    import flashinfer
    import torch

    outs, lses = [], []
    for b, end in enumerate(p.keys.cumsum()):
        rows = slice(end - p.keys[b], end)
        out, lse = flashinfer.single_decode_with_kv_cache(
            p.q[b], p.k[rows], p.v[rows], return_lse=True, **_options(p)
        )
        outs.append(out)
        lses.append(lse)
    return torch.stack(outs), torch.stack(lses)


def _batch(backend):
    """Return prefill of a batch, keys in pages, perhaps of a cache with scales."""

    def run(p, kind=None, **said):
        import flashinfer

        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
            _workspace(p.device), "NHD", backend=backend
        )
        wrapper.plan(
            p.starts(p.queries), *p.listed(), *p.spec.heads, p.spec.head_dim, packed.PAGE,
            causal=p.is_causal, q_data_type=p.q.dtype, kv_data_type=kind or p.q.dtype,
            **_options(p),
        )  # fmt: skip
        return wrapper.run(p.q, p.pool[:2], **(said or {"return_lse": True}))

    return run


def _decoded(*, tensor_cores=None):
    """Return decoding of a batch, keys in pages, perhaps of a cache with scales."""

    def run(p, kind=None, **said):
        import flashinfer

        cores = {} if tensor_cores is None else {"use_tensor_cores": tensor_cores}
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
            _workspace(p.device), "NHD", **cores
        )
        wrapper.plan(
            *p.listed(), *p.spec.heads, p.spec.head_dim, packed.PAGE, q_data_type=p.q.dtype,
            kv_data_type=kind or p.q.dtype, **_options(p),
        )  # fmt: skip
        return wrapper.run(p.q, p.pool[:2], **(said or {"return_lse": True}))

    return run


def _scales(cache, _):
    """Return one scale each for keys and values."""
    import torch

    kind = getattr(torch, cache.form)
    return {"kind": kind, "k_scale": float(cache.k_scale[0]), "v_scale": float(cache.v_scale[0])}


def _latent(problem, device):
    """Return decoding with values inside keys (multi-head latent attention)."""
    import flashinfer

    from constructive.kernels import Latent

    latent = Latent.of(problem, filled=False, library="torch", device=device)
    p, spec, wide = packed.Packed(problem, device), problem.spec, problem.spec.d_v
    q = latent.q.permute(0, 2, 1, 3).reshape(-1, spec.heads[0], wide + spec.head_dim)
    kv = latent.kv.reshape(-1, 1, wide + spec.head_dim)  # pages of one token
    where = [b * spec.keys + i for b in range(spec.batch) for i in range(p.keys[b])]
    wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(_workspace(device), backend="fa2")
    wrapper.plan(
        p.starts(p.queries), p.starts(p.keys), p.ints(np.array(where)), p.ints(p.keys),
        spec.heads[0], wide, spec.head_dim, 1, p.is_causal, latent.scale, q.dtype, q.dtype,
    )  # fmt: skip
    out, lse = wrapper.run(
        q[..., :wide].contiguous(), q[..., wide:].contiguous(),
        kv[..., :wide].contiguous(), kv[..., wide:].contiguous(), return_lse=True,
    )  # fmt: skip
    shape = spec.batch, spec.queries, spec.heads[0]
    return out.reshape(*shape, -1), lse.reshape(shape)


def _with_values_inside(problem):
    from constructive.kernels import Latent

    return Latent.of(problem, filled=False).problem


def _merged_states(merge, device):
    import flashinfer

    states = merge.tensors("torch", device=device)
    return flashinfer.merge_states(*(x.transpose(0, 1).contiguous() for x in states))


def _merged_two(out, lse, other, its):
    import flashinfer

    return flashinfer.merge_state(out, lse, other, its)


def _merged_in_place(out, lse, other, its):
    import flashinfer
    import torch

    out, lse = out.clone(), lse.clone()
    flashinfer.merge_state_in_place(out, lse, other, its)
    torch.cuda.synchronize()
    return out, lse


def _of_flashinfer():
    """Return the rows of FlashInfer."""
    common = {
        "modules": ("flashinfer", "tvm_ffi"), "has_width": False, "layout": "packed",
        "given": {"head_dim": 64}, "says": {"base": "2"}, "patience": 3.0, "on_cuda": ("bfloat16",),
        "why_not": windows_are_causal, "takes": (*OF_FLASH, "soft cap"),
    }  # fmt: skip
    decoding = common | {"only": one_query}
    merges = {
        "modules": ("flashinfer", "tvm_ffi"), "kind": "merge", "says": {"base": "2"},
        "on_cuda": ("bfloat16", "float16"), "patience": 3.0, "given": {"head_dim": 64},
    }  # fmt: skip
    package = "flashinfer-python"
    quantized = {"kind": "quantized", "forms": (("float8_e4m3fn", "tensor", "tensor"),)}
    latent = {"heads": (16, 1), "head_dim": 64, "value_dim": 512, "scale": 192.0**-0.5}
    return [
        Row("flashinfer batch prefill, lse", package, _batch("fa2"), parts=3, **common),
        Row("flashinfer batch decode, lse", package, _decoded(tensor_cores=False), **decoding),
        Row("flashinfer merge_states", package, _merged_states, **merges),
        Row("flashinfer merge_state", package, packed.merged(_merged_two), **merges),
        Row("flashinfer merge_state_in_place", package, packed.merged(_merged_in_place), **merges),
        Row("flashinfer batch prefill, float8 cache", package,
            packed.quantized(_batch("fa2"), _scales), **common | quantized),
        Row("flashinfer batch decode, float8 cache", package,
            packed.quantized(_decoded(), _scales), **decoding | quantized),
        Row("flashinfer single prefill, lse", package, _single,
            **common | {
                "takes": (*OF_FLASH, "soft cap", "top-left", "mask"), "why_not": _of_single}),
        Row("flashinfer single decode, lse", package, _decoded_alone, **decoding),
        Row("flashinfer batch MLA, lse", package, _latent,
            **common | {"given": latent, "layout": "BTHd", "has_width": True, "models": None,
                        "takes": ("bottom-right", "lengths", "scale"),
                        "become": _with_values_inside}),
        Row("flashinfer decode by tensor cores, lse", package, _decoded(tensor_cores=True),
            **decoding),
        Row("flashinfer batch prefill fa3, lse", package, _batch("fa3"), parts=2, **common),
    ]  # fmt: skip


def _given(p):
    left, right = (None if end < 0 else end for end in p.window)
    given = {
        "softmax_scale": p.scale, "softcap": p.cap, "learnable_sink": p.sinks, "return_lse": True,
        "cu_seqlens_q": p.starts(p.queries), "max_seqlen_q": p.most_queries,
        "max_seqlen_k": p.most_keys,
    }  # fmt: skip
    if p.is_causal:
        return given | {"causal": left is None, "window_size": (left, None if left is None else 0)}
    return given | {"window_size": (left, right)}


def _varlen(p):
    from flash_attn.cute import flash_attn_varlen_func

    return flash_attn_varlen_func(p.q, p.k, p.v, cu_seqlens_k=p.starts(p.keys), **_given(p))


def _forward(p):
    import torch

    with torch.no_grad():
        return _varlen(p)


def _paged(p):
    """Keys in pages."""
    import torch
    from flash_attn.cute import flash_attn_varlen_func

    k, v, table = p.pool
    pages = {"page_table": table, "seqused_k": p.ints(p.keys)}
    with torch.no_grad():
        return flash_attn_varlen_func(p.q, k, v, **pages, **_given(p))


def _of_flash_attention():
    """Return the rows of FlashAttention."""
    common = {
        "modules": ("flash_attn", "cutlass"), "layout": "packed", "heads_first": True,
        "given": {"head_dim": 64}, "has_width": False, "parts": 4, "patience": 3.0,
        "takes": (*OF_FLASH, "soft cap", "sink"),
    }  # fmt: skip
    package = "flash-attn-4"
    return [
        Row("flash_attn_varlen_func, lse", package, _forward, **common),
        Row("flash_attn_varlen_func, pages, lse", package, _paged, **common),
        Row("flash_attn_varlen_func, gradients", package, packed.gradients(_varlen),
            kind="backward", **common | {"takes": OF_FLASH}),
    ]  # fmt: skip


def rows():
    """Return the rows of both."""
    return [*_of_flashinfer(), *_of_flash_attention()]
