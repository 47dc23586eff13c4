"""Kernels of servers: flash-attn, and those of SGLang and vLLM in Triton."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from constructive.kernels.adapters.adapter import (
    ALL,
    BIAS,
    FLASH,
    GROUPS,
    MASK,
    SCALE,
    SINK,
    SOFT_CAP,
    Adapter,
    Options,
    Refused,
)
from constructive.kernels.inputs import Inputs, Pool
from constructive.kernels.masks import Causal, RightPadding, VariableLengths, Window
from constructive.kernels.spec import Spec

# flash-attn, on GPUs: one function for each way in which sequences lie in memory. Causal masks and
# windows end at the last query and key. Not measured by us: no GPU was at hand.


def _other_than(*lengths: type) -> Callable[[Inputs], str | None]:
    """Return what a kernel excludes that has these masks of lengths, causal masks and windows."""

    def excludes(problem: Inputs) -> str | None:
        spec = problem.spec
        for mask in spec.masks:
            if isinstance(mask, (Causal, Window)):
                equal = spec.queries == spec.keys and not any(
                    isinstance(other, lengths) for other in spec.masks
                )
                if mask.alignment == "top-left" and not equal:
                    return _DIAGONAL
            elif not isinstance(mask, lengths):
                return f"no mask {mask}"
        return None

    return excludes


_DIAGONAL = "its diagonal ends at the last query and the last key"


def _flash_options(problem: Inputs) -> Options:
    spec = problem.spec
    found: Options = {"softmax_scale": spec.factor, "causal": _causal(spec)}
    window = spec.mask(Window)
    if window is not None:
        ends = (window.left, window.right)
        found["window_size"] = tuple(-1 if end is None else end for end in ends)
    if spec.soft_cap is not None:
        found["softcap"] = spec.soft_cap
    if problem.slopes is not None:
        import torch

        found["alibi_slopes"] = torch.from_numpy(problem.slopes).float()
    return found


def _flash(q: Any, k: Any, v: Any, **options: Any) -> Any:
    import flash_attn

    return flash_attn.flash_attn_func(q, k, v, **options)


def _varlen_options(problem: Inputs) -> Options:
    """Return options where sequences are one after the other in memory."""
    import torch

    found = _flash_options(problem)
    for side, lengths in zip("qk", problem.spec.lengths, strict=True):
        found[f"cu_seqlens_{side}"] = _pointers(torch.from_numpy(lengths))
        found[f"max_seqlen_{side}"] = int(lengths.max())
    return found


def _varlen(q: Any, k: Any, v: Any, **options: Any) -> Any:
    import flash_attn

    return flash_attn.flash_attn_varlen_func(q, k, v, **options)


def _cache_options(problem: Inputs) -> Options:
    """Return options where keys are in a cache that is longer than the sequences."""
    import torch

    lengths = torch.from_numpy(problem.spec.lengths[1]).int()
    return _flash_options(problem) | {"cache_seqlens": lengths}


def _kvcache(q: Any, k: Any, v: Any, **options: Any) -> Any:
    import flash_attn

    return flash_attn.flash_attn_with_kvcache(q, k, v, **options)


def _causal(spec: Spec) -> bool:
    return spec.mask(Causal) is not None


def _pointers(lengths: Any) -> Any:
    """Return where each sequence starts, and the end of the last."""
    import torch

    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int()


_FLASH = Adapter(
    attend=_flash,
    options=_flash_options,
    excludes=_other_than(),
    packages={"flash_attn": "flash-attn", "torch": "torch"},
    library="torch",
    layout="BTHd",
    models={"float16": "tensor float16", "bfloat16": "tensor bfloat16"},
    can=frozenset({MASK, BIAS, SCALE, SOFT_CAP, GROUPS}),
    devices=("cuda",),
)


# SGLang's kernels in Triton; on CPUs in Triton's interpreter (TRITON_INTERPRET=1). Prefill has as
# many keys as queries in each sequence; in extend, keys of the past are in a cache, by indices.


_MODULES = "sglang.kernels.ops.attention"
_K_SCALE, _V_SCALE = 16.0, 4.0  # Of the cache: where one is dropped, logits or values are smaller


def _other_than_prefill(problem: Inputs) -> str | None:
    queries, keys = problem.spec.lengths
    if not all(isinstance(mask, (Causal, VariableLengths)) for mask in problem.spec.masks):
        return "no such mask"
    return "as many keys as queries" if (queries != keys).any() else None


def _prefill_options(problem: Inputs) -> Options:
    import torch

    lengths = torch.from_numpy(problem.spec.lengths[0]).int()
    return {
        "b_start_loc": lengths.cumsum(0).int() - lengths,
        "b_seq_len": lengths,
        "max_input_len": int(lengths.max()),
        "is_causal": _causal(problem.spec),
        "sm_scale": problem.spec.factor,
    }


def _prefill(q: Any, k: Any, v: Any, **options: Any) -> Any:
    import torch

    _require_products(q)
    from sglang.kernels.ops.attention.prefill_attention import context_attention_fwd

    out = torch.empty_like(q)
    context_attention_fwd(q, k, v, out, **options)
    return out


def _require_products(q: Any) -> None:
    if q.device.type == "cpu" and "bfloat16" in str(q.dtype):
        raise Refused("Triton's interpreter multiplies the bits of bfloat16 as integers")


def _other_than_extend(problem: Inputs) -> str | None:
    spec = problem.spec
    queries, keys = spec.lengths
    known = (Causal, Window, RightPadding, VariableLengths)
    if not all(isinstance(mask, known) for mask in spec.masks):
        return "no such mask"
    if (queries > keys).any():
        return "queries are the last tokens of each sequence"
    window, causal = spec.mask(Window), spec.mask(Causal)
    for mask in (window, causal):
        if mask is not None and mask.alignment == "top-left" and (queries != keys).any():
            return _DIAGONAL
    if window is not None and (causal is None or window.left is None or window.right):
        return "its windows are causal"
    return None


def _extend_options(problem: Inputs) -> Options:
    import torch

    spec = problem.spec
    queries, keys = (torch.from_numpy(lengths).int() for lengths in spec.lengths)
    found = {"lengths": (queries, keys), "is_causal": _causal(spec), "sm_scale": spec.factor}
    window = spec.mask(Window)
    if window is not None:
        found["sliding_window_size"] = window.left
    if spec.soft_cap is not None:
        found["logit_cap"] = spec.soft_cap
    if problem.sinks is not None:
        found["sinks"] = torch.from_numpy(problem.sinks).float()
    return found


def _extend(q: Any, k: Any, v: Any, *, lengths: Any, **options: Any) -> Any:
    import torch

    _require_products(q)
    from sglang.kernels.ops.attention.extend_attention import extend_attention_fwd

    queries, keys = (each.to(q.device) for each in lengths)
    ends = keys.cumsum(0)
    token = torch.arange(int(ends[-1]), device=q.device)
    past = keys - queries
    starts = torch.repeat_interleave(ends - keys, keys)
    cached = token - starts < torch.repeat_interleave(past, keys)
    out = q.new_empty(*q.shape[:2], v.shape[-1])
    # Scales are those of the cache alone. Powers of two, so that it has the same bits divided.
    extend_attention_fwd(
        q, k[~cached].contiguous(), v[~cached].contiguous(), out, k / _K_SCALE, v / _V_SCALE,
        _pointers(queries), _pointers(past), token[cached],
        custom_mask=None, mask_indptr=None, max_len_extend=int(queries.max()),
        k_scale=_K_SCALE, v_scale=_V_SCALE, **options,
    )  # fmt: skip
    return out


_PREFILL = Adapter(
    attend=_prefill,
    options=_prefill_options,
    excludes=_other_than_prefill,
    packages={f"{_MODULES}.prefill_attention": "sglang", "torch": "torch", "triton": "triton"},
    library="torch",
    layout="packed",
    models={name: model for name, model in FLASH.items() if name != "float64"},
    can=frozenset({MASK, SCALE, GROUPS}),
    devices=("cpu", "cuda"),
)


# vLLM's kernel in Triton, on GPUs: keys in pages, for prefill and decoding. In Triton's interpreter
# it was run with `vllm.triton_utils` replaced, as vLLM turns Triton off where there is no GPU.


def _other_than_unified(problem: Inputs) -> str | None:
    window = problem.spec.mask(Window)
    if window is not None and (window.left is None or not _causal(problem.spec)):
        return "its windows are causal and have a left end"
    return _other_than(VariableLengths, RightPadding)(problem)


def _unified_options(problem: Inputs) -> Options:
    import torch

    spec, given = problem.spec, _varlen_options(problem)
    pool = Pool.of(problem, page_size=16, spare=3, stale=True)
    dtype = getattr(torch, spec.dtype)
    sinks = problem.sinks
    return {
        "key_cache": torch.from_numpy(pool.k).to(dtype),
        "value_cache": torch.from_numpy(pool.v).to(dtype),
        "block_table": torch.from_numpy(pool.table.clip(0)).int(),
        "seqused_k": torch.from_numpy(pool.lengths).int(),
        "cu_seqlens_q": given["cu_seqlens_q"],
        "max_seqlen_q": given["max_seqlen_q"],
        "max_seqlen_k": given["max_seqlen_k"],
        "softmax_scale": spec.factor,
        "causal": _causal(spec),
        "window_size": given.get("window_size", (-1, -1)),
        "softcap": spec.soft_cap or 0.0,
        "sinks": None if sinks is None else torch.from_numpy(sinks).float(),
    }


def _unified(q: Any, k: Any, v: Any, *, key_cache: Any, value_cache: Any, **options: Any) -> Any:
    import torch
    from vllm.v1.attention.ops.triton_unified_attention import unified_attention

    del k, v  # they are in pages
    out = torch.empty_like(q)
    scales = {"q_descale": None, "k_descale": None, "v_descale": None}
    unified_attention(q=q, k=key_cache, v=value_cache, out=out, **scales, **options)
    return out


SERVERS: dict[str, Adapter] = {
    "sglang-prefill": _PREFILL,
    "sglang-extend": replace(
        _PREFILL,
        attend=_extend,
        options=_extend_options,
        excludes=_other_than_extend,
        packages={f"{_MODULES}.extend_attention": "sglang", "torch": "torch", "triton": "triton"},
        can=ALL - {BIAS},
    ),
    "vllm": replace(
        _FLASH,
        attend=_unified,
        options=_unified_options,
        excludes=_other_than_unified,
        packages={"vllm.v1.attention.ops.triton_unified_attention": "vllm", "torch": "torch"},
        layout="packed",
        can=frozenset({MASK, SCALE, SOFT_CAP, SINK, GROUPS}),
    ),
    "flash-attn": _FLASH,
    "flash-attn-varlen": replace(
        _FLASH,
        attend=_varlen,
        options=_varlen_options,
        excludes=_other_than(VariableLengths, RightPadding),
        layout="packed",
    ),
    "flash-attn-kvcache": replace(
        _FLASH, attend=_kvcache, options=_cache_options, excludes=_other_than(RightPadding)
    ),
}
