"""SGLang's kernels in Triton; on CPUs in Triton's interpreter (TRITON_INTERPRET=1)."""

from typing import Any, ClassVar

from constructive.kernels.adapters.adapter import (
    ALL,
    BIAS,
    GROUPS,
    MASK,
    SCALE,
    Adapter,
    Models,
    Packages,
    Refused,
)  # fmt: skip
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal, RightPadding, VariableLengths, Window
from constructive.kernels.spec import FullyMasked
from constructive.support.arrays import Array

_MODULES = "sglang.kernels.ops.attention"
_K_SCALE, _V_SCALE = 16.0, 4.0  # Of the cache: where one is dropped, logits or values are smaller


class Prefill(Adapter):
    """context_attention_fwd: as many keys as queries in each sequence."""

    name: ClassVar[str] = "sglang-prefill"
    packages: ClassVar[Packages] = {
        f"{_MODULES}.prefill_attention": "sglang", "torch": "torch", "triton": "triton"
    }  # fmt: skip
    library: ClassVar[str] = "torch"
    layout: ClassVar[str] = "packed"
    models: ClassVar[Models] = {
        name: f"flash {name}" for name in ("float32", "float16", "bfloat16")
    }
    fully_masked: ClassVar[FullyMasked] = "zeros"
    can: ClassVar[frozenset[str]] = frozenset({MASK, SCALE, GROUPS})
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    masks: ClassVar[tuple[type, ...]] = (Causal, VariableLengths)

    def refuses(self, problem: Inputs) -> str | None:
        """Return why: another mask, or another number of keys than of queries."""
        queries, keys = problem.spec.lengths
        if not all(isinstance(mask, self.masks) for mask in problem.spec.masks):
            return "no such mask"
        if (queries != keys).any():
            return "as many keys as queries"
        return super().refuses(problem)

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return b_start_loc, b_seq_len, max_input_len, is_causal and sm_scale."""
        import torch  # noqa: PLC0415 - an extra

        lengths = torch.from_numpy(problem.spec.lengths[0]).int()
        return {
            "b_start_loc": lengths.cumsum(0).int() - lengths,
            "b_seq_len": lengths,
            "max_input_len": int(lengths.max()),
            "is_causal": problem.spec.mask(Causal) is not None,
            "sm_scale": problem.spec.factor,
        }

    def run(self, problem: Inputs, device: str = "cpu") -> Array:
        """Return the output; the interpreter cannot do bfloat16."""
        if device == "cpu" and problem.spec.dtype == "bfloat16":
            raise Refused("Triton's interpreter multiplies the bits of bfloat16 as integers")
        return super().run(problem, device)

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (tokens, H, d)."""
        import torch  # noqa: PLC0415 - an extra
        from sglang.kernels.ops.attention.prefill_attention import (  # noqa: PLC0415
            context_attention_fwd,
        )

        out = torch.empty_like(q)
        context_attention_fwd(q, k, v, out, **options)
        return out


class Extend(Prefill):
    """extend_attention_fwd: keys of the past are in a cache, by their indices."""

    name: ClassVar[str] = "sglang-extend"
    packages: ClassVar[Packages] = {
        f"{_MODULES}.extend_attention": "sglang", "torch": "torch", "triton": "triton"
    }  # fmt: skip
    can: ClassVar[frozenset[str]] = ALL - {BIAS}
    masks: ClassVar[tuple[type, ...]] = (Causal, Window, RightPadding, VariableLengths)

    def refuses(self, problem: Inputs) -> str | None:
        """Return why: queries are the last tokens, and windows end at their own key."""
        spec = problem.spec
        queries, keys = spec.lengths
        if not all(isinstance(mask, self.masks) for mask in spec.masks):
            return "no such mask"
        if (queries > keys).any():
            return "queries are the last tokens of each sequence"
        window, causal = spec.mask(Window), spec.mask(Causal)
        for mask in (window, causal):
            if mask is not None and mask.alignment == "top-left" and (queries != keys).any():
                return "its diagonal ends at the last query and the last key"
        if window is not None and (causal is None or window.left is None or window.right):
            return "its windows are causal"
        return super(Prefill, self).refuses(problem)

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return lengths, and is_causal, sm_scale, logit_cap, sliding_window_size and sinks."""
        import torch  # noqa: PLC0415 - an extra

        spec = problem.spec
        queries, keys = (torch.from_numpy(lengths).int() for lengths in spec.lengths)
        causal = spec.mask(Causal) is not None
        found = {"lengths": (queries, keys), "is_causal": causal, "sm_scale": spec.factor}
        window = spec.mask(Window)
        if window is not None:
            found["sliding_window_size"] = window.left
        if spec.soft_cap is not None:
            found["logit_cap"] = spec.soft_cap
        if problem.sinks is not None:
            found["sinks"] = torch.from_numpy(problem.sinks).float()
        return found

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (tokens, H, d_v): keys are split into cached and new ones."""
        import torch  # noqa: PLC0415 - an extra
        from sglang.kernels.ops.attention.extend_attention import (  # noqa: PLC0415
            extend_attention_fwd,
        )

        queries, keys = (lengths.to(q.device) for lengths in options.pop("lengths"))
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


def _pointers(lengths: Any) -> Any:  # noqa: ANN401
    """Return where each sequence starts, and the end of the last."""
    import torch  # noqa: PLC0415 - an extra

    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int()
