"""FlashAttention 4, which CuTe compiles for a GPU when a kernel is first called."""

from libraries import OF_FLASH, Row

import packed


def _given(problem, device):
    left, right = (None if end < 0 else end for end in packed.window(problem))
    given = {
        "softmax_scale": problem.spec.factor,
        "softcap": problem.spec.soft_cap or 0.0,
        "learnable_sink": packed.floats(problem.sinks, device),
        "return_lse": True,
    }
    if packed.is_causal(problem):
        return given | {"causal": left is None, "window_size": (left, None if left is None else 0)}
    return given | {"window_size": (left, right)}


def _tokens(problem, device):
    queries, keys = problem.spec.lengths
    return {
        "cu_seqlens_q": packed.starts(queries, device),
        "cu_seqlens_k": packed.starts(keys, device),
        "max_seqlen_q": int(queries.max()),
        "max_seqlen_k": int(keys.max()),
    }


def _forward(problem, device):
    import torch
    from flash_attn.cute import flash_attn_varlen_func

    q, k, v = packed.tensors(problem, device)
    with torch.no_grad():
        return flash_attn_varlen_func(
            q, k, v, **_tokens(problem, device), **_given(problem, device)
        )


def _paged(problem, device):
    """Keys in pages."""
    import torch
    from flash_attn.cute import flash_attn_varlen_func

    q, _, _ = packed.tensors(problem, device)
    k, v, table = packed.pool(problem, device)
    tokens = _tokens(problem, device)
    del tokens["cu_seqlens_k"]
    tokens |= {"page_table": table, "seqused_k": packed.ints(problem.spec.lengths[1], device)}
    with torch.no_grad():
        return flash_attn_varlen_func(q, k, v, **tokens, **_given(problem, device))


def _backward(backward, device):
    from flash_attn.cute import flash_attn_varlen_func

    given = _tokens(backward.problem, device) | _given(backward.problem, device)
    return packed.gradients(
        backward, device, lambda q, k, v: flash_attn_varlen_func(q, k, v, **given)[0]
    )


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
        Row("flash_attn_varlen_func, gradients", package, _backward, kind="backward",
            **common | {"takes": OF_FLASH}),
    ]  # fmt: skip
