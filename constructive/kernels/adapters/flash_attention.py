"""flash-attn, on GPUs: one function for each way in which sequences lie in memory.

Not measured by us: no GPU was at hand.
"""

from typing import Any, ClassVar

from constructive.kernels.adapters.adapter import (
    BIAS,
    GROUPS,
    MASK,
    SCALE,
    SOFT_CAP,
    Adapter,
    Models,
    Packages,
)  # fmt: skip
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal, RightPadding, VariableLengths, Window
from constructive.kernels.spec import FullyMasked, Spec


class FlashAttention(Adapter):
    """flash_attn_func; causal masks and windows end at the last query and key."""

    name: ClassVar[str] = "flash-attn"
    packages: ClassVar[Packages] = {"flash_attn": "flash-attn", "torch": "torch"}
    library: ClassVar[str] = "torch"
    layout: ClassVar[str] = "BTHd"
    models: ClassVar[Models] = {"float16": "tensor float16", "bfloat16": "tensor bfloat16"}
    fully_masked: ClassVar[FullyMasked] = "zeros"
    can: ClassVar[frozenset[str]] = frozenset({MASK, BIAS, SCALE, SOFT_CAP, GROUPS})
    devices: ClassVar[tuple[str, ...]] = ("cuda",)
    lengths: ClassVar[tuple[type, ...]] = ()

    def refuses(self, problem: Inputs) -> str | None:
        """Return why: another mask than causal ones, windows and lengths, or another corner."""
        spec = problem.spec
        for mask in spec.masks:
            if isinstance(mask, (Causal, Window)):
                equal = spec.queries == spec.keys and not any(
                    isinstance(other, self.lengths) for other in spec.masks
                )
                if mask.alignment == "top-left" and not equal:
                    return "its diagonal ends at the last query and the last key"
            elif not isinstance(mask, self.lengths):
                return f"no mask {mask}"
        return super().refuses(problem)

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return softmax_scale, causal, window_size, softcap and alibi_slopes."""
        spec = problem.spec
        found: dict[str, Any] = {"softmax_scale": spec.factor, "causal": _causal(spec)}
        window = spec.mask(Window)
        if window is not None:
            ends = (window.left, window.right)
            found["window_size"] = tuple(-1 if end is None else end for end in ends)
        if spec.soft_cap is not None:
            found["softcap"] = spec.soft_cap
        if problem.slopes is not None:
            import torch  # noqa: PLC0415 - an extra

            found["alibi_slopes"] = torch.from_numpy(problem.slopes).float()
        return found

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, T_q, H, d)."""
        import flash_attn  # noqa: PLC0415 - an extra

        return flash_attn.flash_attn_func(q, k, v, **options)


class VariableLength(FlashAttention):
    """flash_attn_varlen_func: sequences one after the other in memory."""

    name: ClassVar[str] = "flash-attn-varlen"
    layout: ClassVar[str] = "packed"
    lengths: ClassVar[tuple[type, ...]] = (VariableLengths, RightPadding)

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, and the options above."""
        import torch  # noqa: PLC0415 - an extra

        found = super().options(problem)
        for side, lengths in zip("qk", problem.spec.lengths, strict=True):
            starts = torch.nn.functional.pad(torch.from_numpy(lengths).cumsum(0), (1, 0))
            found[f"cu_seqlens_{side}"] = starts.int()
            found[f"max_seqlen_{side}"] = int(lengths.max())
        return found

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (tokens, H, d)."""
        import flash_attn  # noqa: PLC0415 - an extra

        return flash_attn.flash_attn_varlen_func(q, k, v, **options)


class KeyValueCache(FlashAttention):
    """flash_attn_with_kvcache: keys in a cache that is longer than the sequences."""

    name: ClassVar[str] = "flash-attn-kvcache"
    lengths: ClassVar[tuple[type, ...]] = (RightPadding,)

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return cache_seqlens, and the options above."""
        import torch  # noqa: PLC0415 - an extra

        return super().options(problem) | {
            "cache_seqlens": torch.from_numpy(problem.spec.lengths[1]).int()
        }

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, T_q, H, d)."""
        import flash_attn  # noqa: PLC0415 - an extra

        return flash_attn.flash_attn_with_kvcache(q, k, v, **options)


def _causal(spec: Spec) -> bool:
    return spec.mask(Causal) is not None
