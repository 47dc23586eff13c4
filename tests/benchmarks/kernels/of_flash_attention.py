"""FlashAttention 4, which CuTe compiles for a GPU when a kernel is first called."""

from libraries import OF_FLASH, Row

import packed


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


def rows():
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
