"""Attend of x-transformers, in plain tensor operations and by torch's fused function."""

from typing import Any, ClassVar

from constructive.kernels.adapters.adapter import ALL, SINK, SOFT_CAP, Adapter, Models, Packages
from constructive.kernels.adapters.torch_attention import FLASH, WITHOUT_FLOAT64
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal
from constructive.kernels.spec import FullyMasked, Spec


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
