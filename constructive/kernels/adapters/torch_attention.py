"""Attention of torch: scaled_dot_product_attention by backend and mask, modules, flex_attention."""

import warnings
from typing import Any, ClassVar

from constructive.kernels.adapters.adapter import (
    ALL,
    BIAS,
    MASK,
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


# torch.nn.MultiheadAttention with projections that change nothing, and flex_attention.


# Logits are stored in the format of the inputs, too.
EAGER: Models = {
    "float64": "flash float64",
    "float32": "flash float32",
    "float16": "eager float16",
    "bfloat16": "eager bfloat16",
}

# Of libraries whose softmax is in float32, also where inputs are in float64.
WITHOUT_FLOAT64: Models = {name: model for name, model in EAGER.items() if name != "float64"}


class Multihead(Adapter):
    """torch.nn.MultiheadAttention without weights in its output: it calls the fused function."""

    name: ClassVar[str] = "torch-mha"
    packages: ClassVar[Packages] = {"torch": "torch"}
    library: ClassVar[str] = "torch"
    layout: ClassVar[str] = "BTHd"
    models: ClassVar[Models] = FLASH
    fully_masked: ClassVar[FullyMasked] = "zeros"
    can: ClassVar[frozenset[str]] = frozenset({MASK, BIAS})
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    weights: ClassVar[bool] = False

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return attn_mask, (B H, T_q, T_k): True is hidden, or numbers that are added."""
        import torch  # noqa: PLC0415 - an extra

        spec = problem.spec
        if problem.mask is None and problem.added is None:
            return {}
        if spec.masks == (Causal("top-left"),) and not spec.alibi:
            hidden = ~torch.ones(spec.queries, spec.keys, dtype=torch.bool).tril()
            return {"attn_mask": hidden, "is_causal": spec.queries == spec.keys}
        mask = problem.mask_tensor("torch", additive=problem.added is not None)
        mask = ~mask if mask.dtype == torch.bool else mask
        whole = (spec.batch, spec.heads[0], spec.queries, spec.keys)
        return {"attn_mask": mask.expand(whole).reshape(-1, *whole[2:])}

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, T_q, H, d)."""
        import torch  # noqa: PLC0415 - an extra

        heads, width = q.shape[2], q.shape[2] * q.shape[3]
        like = {"dtype": q.dtype, "device": q.device}
        layer = torch.nn.MultiheadAttention(width, heads, bias=False, batch_first=True, **like)
        with torch.no_grad():
            layer.in_proj_weight.copy_(torch.eye(width, **like).repeat(3, 1))
            layer.out_proj.weight.copy_(torch.eye(width, **like))
            out, _ = layer(*(x.flatten(2) for x in (q, k, v)), need_weights=self.weights, **options)
        return out.unflatten(2, (heads, -1))


class MultiheadWeights(Multihead):
    """The same with weights in its output: softmax in plain tensor operations."""

    name: ClassVar[str] = "torch-mha-weights"
    models: ClassVar[Models] = EAGER
    fully_masked: ClassVar[FullyMasked] = "nan"
    weights: ClassVar[bool] = True

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return attn_mask; a hint that it is causal is of no use here."""
        return super().options(problem) | ({"is_causal": False} if problem.mask is not None else {})


class Flex(Adapter):
    """torch's flex_attention as it is, not compiled: masks and logits are changed by functions."""

    name: ClassVar[str] = "torch-flex"
    packages: ClassVar[Packages] = {"torch": "torch"}
    library: ClassVar[str] = "torch"
    layout: ClassVar[str] = "BHTd"
    models: ClassVar[Models] = FLASH
    fully_masked: ClassVar[FullyMasked] = "zeros"
    can: ClassVar[frozenset[str]] = ALL - {SINK}
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return score_mod, block_mask, scale and enable_gqa."""
        from torch.nn.attention.flex_attention import create_block_mask  # noqa: PLC0415 - an extra

        spec = problem.spec
        found: dict[str, Any] = {}
        if problem.mask is not None:
            seen = problem.mask_tensor("torch")
            per_head = seen.shape[1] > 1
            found["block_mask"] = create_block_mask(
                lambda b, h, i, j: seen.to(i.device)[b, h if per_head else 0, i, j],
                spec.batch, spec.heads[0] if per_head else None, spec.queries, spec.keys,
                device="cpu",
            )  # fmt: skip
        if spec.soft_cap is not None or problem.bias is not None:
            found["score_mod"] = _changed(problem)
        grouped = {"enable_gqa": True} if spec.group > 1 else {}
        return found | self.scaled(problem) | grouped

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, H, T_q, d_v)."""
        from torch.nn.attention.flex_attention import flex_attention  # noqa: PLC0415 - an extra

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that it is slow
            return self.compiled(flex_attention)(q, k, v, **options)

    def compiled(self, function: Any) -> Any:  # noqa: ANN401
        """Return the function that is called; for a subclass that compiles it."""
        return function


class FlexCompiled(Flex):
    """The same, compiled: one fused kernel of Triton on GPUs."""

    name: ClassVar[str] = "torch-flex-compiled"
    devices: ClassVar[tuple[str, ...]] = ("cuda",)

    def compiled(self, function: Any) -> Any:  # noqa: ANN401
        """Return it compiled."""
        import torch  # noqa: PLC0415 - an extra

        return torch.compile(function)


def _changed(problem: Inputs) -> Any:  # noqa: ANN401
    """Return the function of torch that puts a soft cap and slopes on logits."""
    import torch  # noqa: PLC0415 - an extra

    cap = problem.spec.soft_cap
    bias = None if problem.bias is None else torch.from_numpy(problem.bias)

    def changed(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:  # noqa: ANN401
        if cap is not None:
            score = cap * torch.tanh(score / cap)
        return score if bias is None else score + bias.to(i.device, score.dtype)[b, h, i, j]

    return changed
