"""A kernel in Triton, flash-attn-triton's; on CPUs by Triton's interpreter (TRITON_INTERPRET=1)."""

import os
from typing import Any, ClassVar

from constructive.kernels.adapters.adapter import SCALE, GROUPS, MASK, Adapter, Models, Packages
from constructive.kernels.masks import Causal
from constructive.kernels.problem import Problem
from constructive.kernels.spec import FullyMasked


class FlashAttentionTriton(Adapter):
    """Causal masks, top-left, alone; without a mask queries are a multiple of 128."""

    name: ClassVar[str] = "triton"
    packages: ClassVar[Packages] = {"flash_attn_triton": "flash-attn-triton", "triton": "triton", "torch": "torch"}
    library: ClassVar[str] = "torch"
    layout: ClassVar[str] = "BTHd"
    models: ClassVar[Models] = {"float16": "flash float16"}
    fully_masked: ClassVar[FullyMasked] = "zeros"
    can: ClassVar[frozenset[str]] = frozenset({MASK, SCALE, GROUPS})
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def refuses(self, problem: Problem) -> str | None:
        """Return why: another mask, or no mask and a partial block."""
        spec = problem.spec
        if spec.masks not in {(), (Causal("top-left"),)}:
            return "its only mask is causal, top-left"
        return super().refuses(problem)

    def options(self, problem: Problem) -> dict[str, Any]:
        """Return causal and softmax_scale."""
        spec = problem.spec
        return {"causal": spec.mask(Causal) is not None, "softmax_scale": spec.factor}

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, T_q, H, d)."""
        from flash_attn_triton import flash_attn_func  # noqa: PLC0415 - an extra

        return flash_attn_func(q, k, v, **options)
