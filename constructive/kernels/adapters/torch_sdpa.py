"""torch.nn.functional.scaled_dot_product_attention: by its own choice, by backend and by mask."""

import warnings
from typing import Any, ClassVar

from constructive.kernels.adapters.adapter import (
    ALL,
    SINK,
    SOFT_CAP,
    Adapter,
    Models,
    Packages,
    Refused,
)  # fmt: skip
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal
from constructive.kernels.spec import FullyMasked

# Logits and sums in float32 or more; weights in the format of the inputs; one rounding.
FLASH: Models = {name: f"flash {name}" for name in ("float64", "float32", "float16", "bfloat16")}


class TorchSdpa(Adapter):
    """Causal masks by flag where it means the same, all others as booleans or additive numbers."""

    name: ClassVar[str] = "torch"
    packages: ClassVar[Packages] = {"torch": "torch"}
    library: ClassVar[str] = "torch"
    layout: ClassVar[str] = "BHTd"
    models: ClassVar[Models] = FLASH
    fully_masked: ClassVar[FullyMasked] = "zeros"
    can: ClassVar[frozenset[str]] = ALL - {SOFT_CAP, SINK}
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return attn_mask or is_causal, scale and enable_gqa."""
        if self.is_alone(problem, Causal("top-left")):
            return {"is_causal": True} | self.scaled(problem)
        return self.masked(problem, "attn_mask") | self.scaled(problem)

    def scaled(self, problem: Inputs) -> dict[str, Any]:
        """Return scale and enable_gqa, where they are not the usual ones."""
        grouped = {"enable_gqa": True} if problem.spec.group > 1 else {}
        return super().scaled(problem) | grouped

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, H, T_q, d_v)."""
        import torch  # noqa: PLC0415 - an extra

        return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)


class Boolean(TorchSdpa):
    """Every mask as booleans, the causal one too."""

    name: ClassVar[str] = "torch-boolean"

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return attn_mask, scale and enable_gqa."""
        return self.masked(problem, "attn_mask") | self.scaled(problem)


class Additive(TorchSdpa):
    """Every mask as numbers that are added: 0 and -inf."""

    name: ClassVar[str] = "torch-additive"

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return attn_mask, scale and enable_gqa."""
        return self.masked(problem, "attn_mask", additive=True) | self.scaled(problem)


class LowerRight(TorchSdpa):
    """Causal masks that end at the last query and the last key, by torch's class for them."""

    name: ClassVar[str] = "torch-lower-right"

    def refuses(self, problem: Inputs) -> str | None:
        """Return why: there is another mask, or none."""
        if not self.is_alone(problem, Causal("bottom-right")):
            return "it is for a causal mask, bottom-right, alone"
        return super().refuses(problem)

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return attn_mask, scale and enable_gqa."""
        from torch.nn.attention.bias import causal_lower_right  # noqa: PLC0415 - an extra

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of NaN with fewer keys; there are none
            mask = causal_lower_right(problem.spec.queries, problem.spec.keys)
        return {"attn_mask": mask} | self.scaled(problem)


class _Backend(TorchSdpa):
    """One of torch's implementations, as `sdpa_kernel` selects it."""

    backend: ClassVar[str]

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output; Refused if the backend has no kernel for it."""
        from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: PLC0415 - an extra

        with sdpa_kernel([getattr(SDPBackend, self.backend)]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns why it refuses; `Refused` says it
            try:
                return super().attend(q, k, v, **options)
            except RuntimeError as error:
                if "No viable backend" in str(error) or "No available kernel" in str(error):
                    raise Refused(f"torch has no kernel of {self.backend} for it") from error
                raise


class Math(_Backend):
    """The one in plain tensor operations."""

    name: ClassVar[str] = "torch-math"
    backend: ClassVar[str] = "MATH"


class Flash(_Backend):
    """FlashAttention."""

    name: ClassVar[str] = "torch-flash"
    backend: ClassVar[str] = "FLASH_ATTENTION"


class Efficient(_Backend):
    """The memory-efficient one; torch has it on GPUs alone."""

    name: ClassVar[str] = "torch-efficient"
    backend: ClassVar[str] = "EFFICIENT_ATTENTION"
    devices: ClassVar[tuple[str, ...]] = ("cuda",)


class Cudnn(_Backend):
    """The one of cuDNN; torch has it on GPUs alone."""

    name: ClassVar[str] = "torch-cudnn"
    backend: ClassVar[str] = "CUDNN_ATTENTION"
    devices: ClassVar[tuple[str, ...]] = ("cuda",)
