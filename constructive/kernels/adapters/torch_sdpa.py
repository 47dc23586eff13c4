"""torch.nn.functional.scaled_dot_product_attention, the backend as torch chooses it."""

from typing import Any, ClassVar

from constructive.kernels.adapters.adapter import Adapter
from constructive.kernels.formats import as_float64
from constructive.kernels.masks import Causal
from constructive.kernels.problem import Problem
from constructive.kernels.spec import FullyMasked
from constructive.support.arrays import Array
from constructive.support.extras import require


class TorchSdpa(Adapter):
    """Causal masks by flag where it means the same, all others as booleans or additive numbers."""

    name: ClassVar[str] = "torch"
    library: ClassVar[str] = "torch"
    layout: ClassVar[str] = "BHTd"
    models: ClassVar[dict[str, str]] = {
        "float64": "flash float64",
        "float32": "flash float32",
        "float16": "flash float16",
        "bfloat16": "flash bfloat16",
    }
    fully_masked: ClassVar[FullyMasked] = "zeros"

    def refuses(self, problem: Problem) -> str | None:
        """Return why: torch has no soft cap, no sink and no fp8 here.

        Args:
            problem: the problem
        """
        spec = problem.spec
        if spec.soft_cap is not None or spec.sink:
            return "no soft cap, no sink"
        return None if spec.dtype in self.models else f"no {spec.dtype}"

    def options(self, problem: Problem) -> dict[str, Any]:
        """Return attn_mask or is_causal, scale and enable_gqa.

        Args:
            problem: the problem
        """
        spec, found = problem.spec, {}
        if spec.masks == (Causal("top-left"),) and problem.bias is None:
            found["is_causal"] = True
        elif problem.added is not None:
            found["attn_mask"] = problem.mask_tensor("torch", additive=True)
        elif spec.masks:
            found["attn_mask"] = problem.mask_tensor("torch")
        if spec.scale is not None:
            found["scale"] = spec.scale
        if spec.group > 1:
            found["enable_gqa"] = True
        return found

    def run(self, problem: Problem, device: str = "cpu") -> Array:
        """Return the output, (B, H, T_q, d_v).

        Args:
            problem: the problem
            device: of torch
        """
        torch = require("torch", extra="torch", purpose="the adapter of torch")
        q, k, v = problem.tensors("torch", layout=self.layout, device=device)
        words = {
            name: word.to(device) if hasattr(word, "to") else word
            for name, word in self.options(problem).items()
        }
        return as_float64(torch.nn.functional.scaled_dot_product_attention(q, k, v, **words))
