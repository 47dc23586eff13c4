"""Attention functions of transformers: the eager ones of three models, and the one with SDPA."""

from types import SimpleNamespace
from typing import Any, ClassVar

from constructive.kernels.adapters.adapter import ALL, SINK, SOFT_CAP, Adapter, Models, Packages
from constructive.kernels.adapters.torch_attention import FLASH
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal
from constructive.kernels.spec import FullyMasked


class Eager(Adapter):
    """Llama's; Gemma 2's for soft caps and that of gpt-oss for sinks. Masks are finite numbers."""

    name: ClassVar[str] = "transformers"
    packages: ClassVar[Packages] = {"transformers": "transformers", "torch": "torch"}
    library: ClassVar[str] = "torch"
    layout: ClassVar[str] = "BHTd"
    models: ClassVar[Models] = {
        "float32": "flash float32",
        "float16": "logits float16",
        "bfloat16": "logits bfloat16",
    }
    fully_masked: ClassVar[FullyMasked] = "mean"
    can: ClassVar[frozenset[str]] = ALL
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def refuses(self, problem: Inputs) -> str | None:
        """Return why: no model has both a soft cap and a sink."""
        both = problem.spec.sink and problem.spec.soft_cap is not None
        return "no model has a soft cap and a sink" if both else super().refuses(problem)

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return module, attention_mask, scaling and softcap."""
        import torch  # noqa: PLC0415 - an extra

        spec, mask = problem.spec, None
        if problem.mask is not None or problem.bias is not None:
            mask = problem.mask_tensor("torch", additive=True)
            mask = mask.clamp(min=torch.finfo(mask.dtype).min)  # what the library itself writes
        sinks = None if problem.sinks is None else torch.from_numpy(problem.sinks)
        module = SimpleNamespace(num_key_value_groups=spec.group, training=False, sinks=sinks)
        found = {"module": module, "attention_mask": mask, "scaling": spec.factor}
        return found | ({} if spec.soft_cap is None else {"softcap": spec.soft_cap})

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, H, T_q, d_v)."""
        from transformers.models.gemma2 import modeling_gemma2  # noqa: PLC0415 - an extra
        from transformers.models.gpt_oss import modeling_gpt_oss  # noqa: PLC0415
        from transformers.models.llama import modeling_llama  # noqa: PLC0415

        module = options.pop("module")
        model = modeling_gemma2 if "softcap" in options else modeling_llama
        if module.sinks is not None:
            model = modeling_gpt_oss
            module.sinks = module.sinks.to(q.device, q.dtype)
        out, _ = model.eager_attention_forward(module, q, k, v, **options)
        return out.transpose(1, 2)


class Sdpa(Eager):
    """Its function that calls scaled_dot_product_attention of torch."""

    name: ClassVar[str] = "transformers-sdpa"
    models: ClassVar[Models] = FLASH
    fully_masked: ClassVar[FullyMasked] = "zeros"
    can: ClassVar[frozenset[str]] = ALL - {SOFT_CAP, SINK}

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return module, attention_mask, is_causal and scaling."""
        spec = problem.spec
        module = SimpleNamespace(num_key_value_groups=spec.group, is_causal=False)
        found: dict[str, Any] = {"module": module, "attention_mask": None, "scaling": spec.factor}
        if self.is_alone(problem, Causal("top-left")) and spec.queries > 1:
            return found | {"is_causal": True}
        return found | self.masked(problem, "attention_mask")

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, H, T_q, d_v)."""
        from transformers.integrations.sdpa_attention import (  # noqa: PLC0415 - an extra
            sdpa_attention_forward,
        )

        out, _ = sdpa_attention_forward(options.pop("module"), q, k, v, **options)
        return out.transpose(1, 2)
