"""FlashInfer on GPUs: it compiles each kernel when it is first called, with nvcc."""

from libraries import OF_FLASH, Row, one_query, windows_are_causal

import packed
from constructive.kernels.masks import Causal, RightPadding, VariableLengths, Window

_PAGE = 16
_WORKSPACE = 128 * 2**20  # bytes


def _workspace(device):
    import torch

    return torch.empty(_WORKSPACE, dtype=torch.uint8, device=device)


def _options(problem):
    spec = problem.spec
    return {
        "sm_scale": spec.factor,
        "window_left": packed.window(problem)[0],
        "logits_soft_cap": spec.soft_cap,
    }


def _is_plain(problem):
    """Return whether flags and lengths say the whole mask."""
    kinds = (Causal, Window, RightPadding, VariableLengths)
    masks = problem.spec.masks
    aligned = all(getattr(m, "alignment", "bottom-right") == "bottom-right" for m in masks)
    return all(isinstance(m, kinds) for m in masks) and (
        aligned or problem.spec.queries == problem.spec.keys
    )


def _single(backend):
    """Return prefill of one sequence after the other."""

    def run(problem, device):
        import flashinfer
        import torch

        q, k, v = packed.tensors(problem, device)
        queries, keys = (x.cumsum() for x in problem.spec.lengths)
        outs, lses = [], []
        for b, (q_end, k_end) in enumerate(zip(queries, keys, strict=True)):
            q_size, k_size = (x[b] for x in problem.spec.lengths)
            given = _options(problem) | {"causal": packed.is_causal(problem)}
            if not _is_plain(problem):
                mask = problem.visible[b, 0, :q_size, :k_size]
                given = {
                    "sm_scale": problem.spec.factor,
                    "custom_mask": torch.tensor(mask).to(device),
                }
                given["logits_soft_cap"] = problem.spec.soft_cap
            out, lse = flashinfer.single_prefill_with_kv_cache(
                q[q_end - q_size : q_end], k[k_end - k_size : k_end], v[k_end - k_size : k_end],
                backend=backend, return_lse=True, **given,
            )  # fmt: skip
            outs.append(out)
            lses.append(lse)
        return torch.cat(outs), torch.cat(lses)

    return run


def _of_single(problem):
    if problem.visible.shape[1] > 1:
        return "its masks are those of all heads"
    queries, keys = problem.spec.lengths
    if _is_plain(problem) and packed.is_causal(problem) and (queries > keys).any():
        return "causal masks have as many keys as queries, or more"
    return windows_are_causal(problem)


def _decoded_alone(problem, device):
    """Return decoding of one sequence after the other."""
    import flashinfer
    import torch

    q, k, v = packed.tensors(problem, device)
    ends = problem.spec.lengths[1].cumsum()
    outs, lses = [], []
    for b, end in enumerate(ends):
        rows = slice(end - problem.spec.lengths[1][b], end)
        out, lse = flashinfer.single_decode_with_kv_cache(
            q[b], k[rows], v[rows], return_lse=True, **_options(problem)
        )
        outs.append(out)
        lses.append(lse)
    return torch.stack(outs), torch.stack(lses)


def _pages(problem, device):
    k, v, table = packed.pool(problem, device, _PAGE)
    return (k, v), [packed.ints(x, device) for x in packed.pages_of(problem, table, _PAGE)]


def _batch(backend):
    """Return prefill of a batch, keys in pages."""

    def run(problem, device):
        import flashinfer

        spec = problem.spec
        q, _, _ = packed.tensors(problem, device)
        cache, (starts, pages, last) = _pages(problem, device)
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
            _workspace(device), "NHD", backend=backend
        )
        wrapper.plan(
            packed.starts(spec.lengths[0], device), starts, pages, last, *spec.heads,
            spec.head_dim, _PAGE, causal=packed.is_causal(problem), q_data_type=q.dtype,
            kv_data_type=q.dtype, **_options(problem),
        )  # fmt: skip
        return wrapper.run(q, cache, return_lse=True)

    return run


def _decoded(*, tensor_cores):
    """Return decoding of a batch, keys in pages."""

    def run(problem, device):
        import flashinfer

        spec = problem.spec
        q, _, _ = packed.tensors(problem, device)
        cache, (starts, pages, last) = _pages(problem, device)
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
            _workspace(device), "NHD", use_tensor_cores=tensor_cores
        )
        wrapper.plan(
            starts, pages, last, *spec.heads, spec.head_dim, _PAGE, q_data_type=q.dtype,
            kv_data_type=q.dtype, **_options(problem),
        )  # fmt: skip
        return wrapper.run(q, cache, return_lse=True)

    return run


def _quantized(*, decode):
    """Return attention over a cache in float8 with one scale each for keys and values."""

    def run(quantized, device):
        import flashinfer
        import torch

        problem, spec = quantized.problem, quantized.problem.spec
        q, _, _ = packed.tensors(problem, device)
        paged, _ = packed.quantized(quantized, device)
        starts, pages, last = (
            packed.ints(x, device) for x in packed.pages_of(problem, paged.table, _PAGE)
        )
        kind = getattr(torch, quantized.form)
        scales = {"k_scale": float(quantized.k_scale[0]), "v_scale": float(quantized.v_scale[0])}
        given = _options(problem) | {"q_data_type": q.dtype, "kv_data_type": kind}
        sizes = (*spec.heads, spec.head_dim, _PAGE)
        if decode:
            wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(_workspace(device), "NHD")
            wrapper.plan(starts, pages, last, *sizes, **given)
        else:
            wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
                _workspace(device), "NHD", backend="fa2"
            )
            queries = packed.starts(spec.lengths[0], device)
            causal = packed.is_causal(problem)
            wrapper.plan(queries, starts, pages, last, *sizes, causal=causal, **given)
        return wrapper.run(q, (paged.k, paged.v), **scales)

    return run


def _latent(problem, device):
    """Return decoding with values inside keys (multi-head latent attention)."""
    import flashinfer
    import torch

    from constructive.kernels import Latent

    latent = Latent.of(problem, filled=False, library="torch", device=device)
    spec = problem.spec
    wide = spec.d_v
    lengths = spec.lengths[1]
    q = latent.q.permute(0, 2, 1, 3).reshape(-1, spec.heads[0], wide + spec.head_dim)
    kv = latent.kv.reshape(-1, 1, wide + spec.head_dim)  # pages of one token
    where = [b * spec.keys + i for b in range(spec.batch) for i in range(lengths[b])]
    wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(_workspace(device), backend="fa2")
    wrapper.plan(
        packed.starts(spec.lengths[0], device), packed.starts(lengths, device),
        torch.tensor(where, dtype=torch.int32, device=device), packed.ints(lengths, device),
        spec.heads[0], wide, spec.head_dim, 1, packed.is_causal(problem), latent.scale,
        q.dtype, q.dtype,
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


def _merged(how):
    def run(merge, device):
        import flashinfer
        import torch

        if how == "states":
            states = merge.tensors("torch", device=device)
            return flashinfer.merge_states(*(x.transpose(0, 1).contiguous() for x in states))

        def in_place(out, lse, other, its):
            out, lse = out.clone(), lse.clone()
            flashinfer.merge_state_in_place(out, lse, other, its)
            return out, lse

        pair = in_place if how == "in place" else flashinfer.merge_state
        found = packed.merged(merge, device, pair)
        torch.cuda.synchronize()
        return found

    return run


def rows():
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
        Row("flashinfer merge_states", package, _merged("states"), **merges),
        Row("flashinfer merge_state", package, _merged("two"), **merges),
        Row("flashinfer merge_state_in_place", package, _merged("in place"), **merges),
        Row("flashinfer batch prefill, float8 cache", package, _quantized(decode=False),
            **common | quantized),
        Row("flashinfer batch decode, float8 cache", package, _quantized(decode=True),
            **decoding | quantized),
        Row("flashinfer single prefill, lse", package, _single("fa2"),
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
