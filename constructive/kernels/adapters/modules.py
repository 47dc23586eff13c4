"""Attention of transformers and x-transformers."""

from types import SimpleNamespace
from typing import Any, ClassVar

from constructive.kernels.adapters.adapter import ALL, SINK, SOFT_CAP, Adapter, Models, Packages
from constructive.kernels.adapters.torch_attention import FLASH, WITHOUT_FLOAT64
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal
from constructive.kernels.spec import FullyMasked, Spec

# Attention functions of transformers: the eager ones of three models, and the one with SDPA.


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


# Attend of x-transformers, in plain tensor operations and by torch's fused function.


class Plain(Adapter):
    """Causal masks, bottom-right, by flag; all others as booleans."""

    name: ClassVar[str] = "x-transformers"
    packages: ClassVar[Packages] = {"x_transformers": "x-transformers", "torch": "torch"}
    library: ClassVar[str] = "torch"
    layout: ClassVar[str] = "BHTd"
    models: ClassVar[Models] = WITHOUT_FLOAT64
    fully_masked: ClassVar[FullyMasked] = "zeros"
    can: ClassVar[frozenset[str]] = ALL - {SINK}
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    flash: ClassVar[bool] = False

    def convention(self, spec: Spec) -> FullyMasked:
        """Return "mean" where the causal flag alone hides all keys, "zeros" below masks."""
        flag = spec.masks == (Causal("bottom-right"),)
        return "mean" if flag and not self.flash else self.fully_masked

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return what Attend is made with, and mask and attn_bias."""
        spec = problem.spec
        made: dict[str, Any] = {"flash": self.flash, "scale": spec.scale}
        if spec.soft_cap is not None:
            made |= {"softclamp_logits": True, "logit_softclamp_value": spec.soft_cap}
        found: dict[str, Any] = {"made": made}
        if spec.masks == (Causal("bottom-right"),):
            made["causal"] = True
        elif problem.mask is not None:
            found["mask"] = problem.mask_tensor("torch")
        if problem.bias is not None:
            import torch  # noqa: PLC0415 - an extra

            found["attn_bias"] = torch.from_numpy(problem.bias)
        return found

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, H, T_q, d_v)."""
        from x_transformers.attend import Attend  # noqa: PLC0415 - an extra

        if "attn_bias" in options:
            options["attn_bias"] = options["attn_bias"].to(q.dtype)
        return Attend(**options.pop("made"))(q, k, v, **options)[0]


class Flash(Plain):
    """The same with flash=True."""

    name: ClassVar[str] = "x-transformers-flash"
    models: ClassVar[Models] = FLASH
    can: ClassVar[frozenset[str]] = ALL - {SINK, SOFT_CAP}
    flash: ClassVar[bool] = True
