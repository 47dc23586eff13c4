"""torch.nn.MultiheadAttention with projections that change nothing, and flex_attention."""

import warnings
from typing import Any, ClassVar

from constructive.kernels.adapters.adapter import ALL, BIAS, MASK, SINK, Adapter, Models, Packages
from constructive.kernels.adapters.torch_sdpa import FLASH
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal
from constructive.kernels.spec import FullyMasked

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
