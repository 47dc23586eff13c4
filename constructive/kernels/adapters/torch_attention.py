"""Attention of torch, transformers and x-transformers."""

import warnings
from types import SimpleNamespace
from typing import Any, ClassVar

from constructive.kernels.adapters.adapter import (
    ALL,
    BIAS,
    MASK,
    SINK,
    SOFT_CAP,
    Adapter,
    Models,
    Refused,
)  # fmt: skip
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal
from constructive.kernels.spec import FullyMasked, Spec

# Logits and sums in float32 or more; weights in the format of the inputs; one rounding.
FLASH: Models = {name: f"flash {name}" for name in ("float64", "float32", "float16", "bfloat16")}


class TorchSdpa(Adapter):
    """Causal masks by flag where it means the same, all others as booleans or additive numbers."""

    name = "torch"
    packages = {"torch": "torch"}
    library = "torch"
    layout = "BHTd"
    models = FLASH
    fully_masked = "zeros"
    can = ALL - {SOFT_CAP, SINK}
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def options(self, problem: Inputs) -> dict[str, Any]:
        if self.is_alone(problem, Causal("top-left")):
            return {"is_causal": True} | self.scaled(problem)
        return self.masked(problem, "attn_mask") | self.scaled(problem)

    def scaled(self, problem: Inputs) -> dict[str, Any]:
        grouped = {"enable_gqa": True} if problem.spec.group > 1 else {}
        return super().scaled(problem) | grouped

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        import torch

        return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)


class Boolean(TorchSdpa):
    """Every mask as booleans, the causal one too."""

    name = "torch-boolean"

    def options(self, problem: Inputs) -> dict[str, Any]:
        return self.masked(problem, "attn_mask") | self.scaled(problem)


class Additive(TorchSdpa):
    """Every mask as numbers that are added: 0 and -inf."""

    name = "torch-additive"

    def options(self, problem: Inputs) -> dict[str, Any]:
        return self.masked(problem, "attn_mask", additive=True) | self.scaled(problem)


class LowerRight(TorchSdpa):
    """Causal masks that end at the last query and the last key, by torch's class for them."""

    name = "torch-lower-right"

    def refuses(self, problem: Inputs) -> str | None:
        if not self.is_alone(problem, Causal("bottom-right")):
            return "it is for a causal mask, bottom-right, alone"
        return super().refuses(problem)

    def options(self, problem: Inputs) -> dict[str, Any]:
        from torch.nn.attention.bias import causal_lower_right

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of NaN with fewer keys; there are none
            mask = causal_lower_right(problem.spec.queries, problem.spec.keys)
        return {"attn_mask": mask} | self.scaled(problem)


class _Backend(TorchSdpa):
    """One of torch's implementations, as `sdpa_kernel` selects it."""

    backend: ClassVar[str]

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

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

    name = "torch-math"
    backend = "MATH"


class Flash(_Backend):
    """FlashAttention."""

    name = "torch-flash"
    backend = "FLASH_ATTENTION"


class Efficient(_Backend):
    """The memory-efficient one; torch has it on GPUs alone."""

    name = "torch-efficient"
    backend = "EFFICIENT_ATTENTION"
    devices = ("cuda",)


class Cudnn(_Backend):
    """The one of cuDNN; torch has it on GPUs alone."""

    name = "torch-cudnn"
    backend = "CUDNN_ATTENTION"
    devices = ("cuda",)


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

    name = "torch-mha"
    packages = {"torch": "torch"}
    library = "torch"
    layout = "BTHd"
    models = FLASH
    fully_masked: ClassVar[FullyMasked] = "zeros"
    can = frozenset({MASK, BIAS})
    devices = ("cpu", "cuda")
    weights = False

    def options(self, problem: Inputs) -> dict[str, Any]:
        import torch

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

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        import torch

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

    name = "torch-mha-weights"
    models = EAGER
    fully_masked = "nan"
    weights = True

    def options(self, problem: Inputs) -> dict[str, Any]:
        return super().options(problem) | ({"is_causal": False} if problem.mask is not None else {})


class Flex(Adapter):
    """torch's flex_attention as it is, not compiled: masks and logits are changed by functions."""

    name = "torch-flex"
    packages = {"torch": "torch"}
    library = "torch"
    layout = "BHTd"
    models = FLASH
    fully_masked = "zeros"
    can = ALL - {SINK}
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def options(self, problem: Inputs) -> dict[str, Any]:
        from torch.nn.attention.flex_attention import create_block_mask

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

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        from torch.nn.attention.flex_attention import flex_attention

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that it is slow
            return self.compiled(flex_attention)(q, k, v, **options)

    def compiled(self, function: Any) -> Any:
        return function


class FlexCompiled(Flex):
    """The same, compiled: one fused kernel of Triton on GPUs."""

    name = "torch-flex-compiled"
    devices = ("cuda",)

    def compiled(self, function: Any) -> Any:
        import torch

        return torch.compile(function)


def _changed(problem: Inputs) -> Any:
    """Return the function of torch that puts a soft cap and slopes on logits."""
    import torch

    cap = problem.spec.soft_cap
    bias = None if problem.bias is None else torch.from_numpy(problem.bias)

    def changed(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        if cap is not None:
            score = cap * torch.tanh(score / cap)
        return score if bias is None else score + bias.to(i.device, score.dtype)[b, h, i, j]

    return changed


# Attention functions of transformers: the eager ones of three models, and the one with SDPA.


class Transformers(Adapter):
    """Llama's; Gemma 2's for soft caps and that of gpt-oss for sinks. Masks are finite numbers."""

    name = "transformers"
    packages = {"transformers": "transformers", "torch": "torch"}
    library = "torch"
    layout = "BHTd"
    models: ClassVar[Models] = {
        "float32": "flash float32",
        "float16": "logits float16",
        "bfloat16": "logits bfloat16",
    }
    fully_masked: ClassVar[FullyMasked] = "mean"
    can = ALL
    devices = ("cpu", "cuda")

    def refuses(self, problem: Inputs) -> str | None:
        both = problem.spec.sink and problem.spec.soft_cap is not None
        return "no model has a soft cap and a sink" if both else super().refuses(problem)

    def options(self, problem: Inputs) -> dict[str, Any]:
        import torch

        spec, mask = problem.spec, None
        if problem.mask is not None or problem.bias is not None:
            mask = problem.mask_tensor("torch", additive=True)
            mask = mask.clamp(min=torch.finfo(mask.dtype).min)  # what the library itself writes
        sinks = None if problem.sinks is None else torch.from_numpy(problem.sinks)
        module = SimpleNamespace(num_key_value_groups=spec.group, training=False, sinks=sinks)
        found = {"module": module, "attention_mask": mask, "scaling": spec.factor}
        return found | ({} if spec.soft_cap is None else {"softcap": spec.soft_cap})

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        from transformers.models.gemma2 import modeling_gemma2
        from transformers.models.gpt_oss import modeling_gpt_oss
        from transformers.models.llama import modeling_llama

        module = options.pop("module")
        model = modeling_gemma2 if "softcap" in options else modeling_llama
        if module.sinks is not None:
            model = modeling_gpt_oss
            module.sinks = module.sinks.to(q.device, q.dtype)
        out, _ = model.eager_attention_forward(module, q, k, v, **options)
        return out.transpose(1, 2)


class TransformersSdpa(Transformers):
    """Its function that calls scaled_dot_product_attention of torch."""

    name = "transformers-sdpa"
    models = FLASH
    fully_masked = "zeros"
    can = ALL - {SOFT_CAP, SINK}

    def options(self, problem: Inputs) -> dict[str, Any]:
        spec = problem.spec
        module = SimpleNamespace(num_key_value_groups=spec.group, is_causal=False)
        found: dict[str, Any] = {"module": module, "attention_mask": None, "scaling": spec.factor}
        if self.is_alone(problem, Causal("top-left")) and spec.queries > 1:
            return found | {"is_causal": True}
        return found | self.masked(problem, "attention_mask")

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        from transformers.integrations.sdpa_attention import (
            sdpa_attention_forward,
        )

        out, _ = sdpa_attention_forward(options.pop("module"), q, k, v, **options)
        return out.transpose(1, 2)


# Attend of x-transformers, in plain tensor operations and by torch's fused function.


class XTransformers(Adapter):
    """Causal masks, bottom-right, by flag; all others as booleans."""

    name = "x-transformers"
    packages = {"x_transformers": "x-transformers", "torch": "torch"}
    library = "torch"
    layout = "BHTd"
    models = WITHOUT_FLOAT64
    fully_masked = "zeros"
    can = ALL - {SINK}
    devices = ("cpu", "cuda")
    flash = False

    def convention(self, spec: Spec) -> FullyMasked:
        """Return "mean" where the causal flag alone hides all keys, "zeros" below masks."""
        flag = spec.masks == (Causal("bottom-right"),)
        return "mean" if flag and not self.flash else self.fully_masked

    def options(self, problem: Inputs) -> dict[str, Any]:
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
            import torch

            found["attn_bias"] = torch.from_numpy(problem.bias)
        return found

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        from x_transformers.attend import Attend

        if "attn_bias" in options:
            options["attn_bias"] = options["attn_bias"].to(q.dtype)
        return Attend(**options.pop("made"))(q, k, v, **options)[0]


class XTransformersFlash(XTransformers):
    """The same with flash=True."""

    name = "x-transformers-flash"
    models = FLASH
    can = ALL - {SINK, SOFT_CAP}
    flash = True
