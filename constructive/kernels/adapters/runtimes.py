"""Runtimes with attention as an operator: ONNX and onnxruntime, OpenVINO, MLX, Paddle."""

from typing import Any, ClassVar

import numpy as np

from constructive.kernels.adapters.adapter import (
    ALL,
    BIAS,
    GROUPS,
    MASK,
    SCALE,
    SINK,
    SOFT_CAP,
    WIDTH,
    Adapter,
    Models,
    Packages,
)
from constructive.kernels.adapters.torch_attention import EAGER
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal, LeftPadding, Mask, RightPadding, Window
from constructive.kernels.spec import FullyMasked, Spec, numpy_dtype

# Attention as an operator of ONNX: the reference evaluator, and what several runtimes share.


OPSET = 23
_CUSTOM = "com.microsoft"


def graph(
    operator: str, inputs: dict[str, Any], attributes: dict[str, Any], outputs: int = 1
) -> bytes:
    """Return a model of one operator as bytes."""
    from onnx import helper  # noqa: PLC0415 - an extra

    named = [name if value is not None else "" for name, value in inputs.items()]
    domain = "" if operator == "Attention" else _CUSTOM
    out = [f"out_{index}" for index in range(outputs)]
    node = helper.make_node(operator, named, out, domain=domain, **attributes)
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in inputs.items()
        if value is not None
    ]
    kind = helper.np_dtype_to_tensor_dtype(next(iter(inputs.values())).dtype)
    result = helper.make_tensor_value_info(out[0], kind, None)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(_CUSTOM, 1)]
    model = helper.make_model(
        helper.make_graph([node], "attention", given, [result]), opset_imports=opsets
    )
    model.ir_version = 10  # which all releases of onnxruntime with this operator read
    content: bytes = model.SerializeToString()
    return content


class Reference(Adapter):
    """The reference evaluator of the onnx package on Attention, opset 23."""

    name: ClassVar[str] = "onnx"
    packages: ClassVar[Packages] = {"onnx": "onnx"}
    library: ClassVar[str] = "numpy"
    layout: ClassVar[str] = "BHTd"
    models: ClassVar[Models] = EAGER
    fully_masked: ClassVar[FullyMasked] = "zeros"
    can: ClassVar[frozenset[str]] = ALL - {SINK}

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return attn_mask, is_causal, scale, softcap, and `past`, keys that are in a cache."""
        spec, found = problem.spec, self.scaled(problem)
        if spec.soft_cap is not None:
            found["softcap"] = spec.soft_cap
        if self.is_alone(problem, Causal("top-left")):
            return found | {"is_causal": 1}
        if self.is_alone(problem, Causal("bottom-right")) and spec.keys > spec.queries:
            return found | {"is_causal": 1, "past": spec.keys - spec.queries}
        return found | self.masked(problem, "attn_mask")

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, H, T_q, d_v)."""
        mask, past = options.pop("attn_mask", None), options.pop("past", 0)
        old_k, old_v = (k[:, :, :past], v[:, :, :past]) if past else (None, None)
        inputs = {
            "q": q, "k": k[:, :, past:], "v": v[:, :, past:],
            "mask": mask, "past_key": old_k, "past_value": old_v,
        }  # fmt: skip
        content = graph("Attention", inputs, options, 3 if past else 1)
        given = {
            name: np.asarray(value, order="C")
            for name, value in inputs.items()
            if value is not None
        }
        return self.evaluated(content, given)

    def evaluated(self, content: bytes, inputs: dict[str, Any]) -> Any:  # noqa: ANN401
        """Return the first output of a model."""
        import onnx  # noqa: PLC0415 - an extra
        from onnx.reference import ReferenceEvaluator  # noqa: PLC0415

        found: Any = ReferenceEvaluator(onnx.load_from_string(content)).run(None, inputs)
        return found[0]


# onnxruntime: its Attention of the ONNX standard, and two operators of its own.


_SHORT: Models = {"float32": "flash float32", "float16": "eager float16"}
_PACKAGES: Packages = {"onnxruntime": "onnxruntime", "onnx": "onnx"}


def evaluated(content: bytes, inputs: dict[str, Any]) -> Any:  # noqa: ANN401
    """Return the first output of a model."""
    import onnxruntime  # noqa: PLC0415 - an extra

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return session.run(["out_0"], inputs)[0]


class Standard(Reference):
    """Attention, opset 23."""

    name: ClassVar[str] = "onnxruntime"
    packages: ClassVar[Packages] = _PACKAGES
    models: ClassVar[Models] = _SHORT

    def evaluated(self, content: bytes, inputs: dict[str, Any]) -> Any:  # noqa: ANN401
        """Return the first output of a model."""
        return evaluated(content, inputs)


class Multihead(Adapter):
    """com.microsoft.MultiHeadAttention: masks as padding of keys or as numbers that are added."""

    name: ClassVar[str] = "onnxruntime-mha"
    packages: ClassVar[Packages] = _PACKAGES
    library: ClassVar[str] = "numpy"
    layout: ClassVar[str] = "BTHd"
    models: ClassVar[Models] = {"float32": "flash float32"}
    fully_masked: ClassVar[FullyMasked] = "nan"
    can: ClassVar[frozenset[str]] = frozenset({MASK, BIAS, SCALE, WIDTH})

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return unidirectional, key_padding_mask or attention_bias, and scale."""
        spec, found = problem.spec, self.scaled(problem)
        only = spec.masks[0] if len(spec.masks) == 1 and problem.added is None else None
        if isinstance(only, Causal) and spec.queries == spec.keys:
            return found | {"unidirectional": 1}
        if isinstance(only, (LeftPadding, RightPadding)) and problem.visible.any(-1).all():
            return found | {"key_padding_mask": problem.visible[:, 0, 0].astype(np.int32)}
        return found | self.masked(problem, "attention_bias", additive=True)

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, T_q, H, d_v)."""
        heads = q.shape[2]
        inputs = {
            "q": _flat(q), "k": _flat(k), "v": _flat(v), "no_bias": None,
            "padding": options.pop("key_padding_mask", None),
            "bias": options.pop("attention_bias", None),
        }  # fmt: skip
        content = graph("MultiHeadAttention", inputs, options | {"num_heads": heads})
        out = evaluated(content, _given(inputs))
        return out.reshape(*out.shape[:2], heads, -1)


class Grouped(Adapter):
    """com.microsoft.GroupQueryAttention: causal, keys of the past are in a cache."""

    name: ClassVar[str] = "onnxruntime-gqa"
    packages: ClassVar[Packages] = _PACKAGES
    library: ClassVar[str] = "numpy"
    layout: ClassVar[str] = "BTHd"
    models: ClassVar[Models] = {"float32": "flash float32", "float16": "flash float16"}
    fully_masked: ClassVar[FullyMasked] = "zeros"
    can: ClassVar[frozenset[str]] = ALL - {WIDTH}

    def refuses(self, problem: Inputs) -> str | None:
        """Return why: it is always causal, and its queries are the last tokens."""
        spec = problem.spec
        causal = spec.mask(Causal)
        if spec.batch > 1 and 1 < spec.queries < spec.keys:
            return "its cache is for one sequence, or one query each"
        if causal is None:
            return "it is always causal"
        if spec.keys == spec.queries:
            if causal.alignment == "bottom-right" and spec.mask(RightPadding) is not None:
                return "its queries begin with the sequence"
        elif causal.alignment == "top-left" or int(spec.lengths[1].min()) < spec.queries:
            return "its queries are the last tokens of each sequence"
        return super().refuses(problem)

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return lengths, local_window_size, scale, softcap, head_sink and attention_bias."""
        spec = problem.spec
        found: dict[str, Any] = {"lengths": spec.lengths[1]}
        own: list[Mask] = [m for m in spec.masks if isinstance(m, (Causal, RightPadding))]
        window = spec.mask(Window)
        if window is not None and window.left is not None and _follows(spec, window):
            found["local_window_size"] = window.left + 1
            own.append(window)
        found |= self.scaled(problem)
        found |= {} if spec.soft_cap is None else {"softcap": spec.soft_cap}
        if problem.sinks is not None:
            found["head_sink"] = problem.sinks.astype(spec.dtype)
        if problem.added is not None or len(own) < len(spec.masks):
            found["attention_bias"] = problem.mask_tensor(additive=True)
        return found

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, T_q, H, d): keys before the queries are put into a cache."""
        (batch, new, heads, width), total = q.shape, k.shape[1]
        lengths = options.pop("lengths")
        old_k = old_v = None
        if total > new:
            cache = int(lengths.max()) - new
            old_k, old_v = (x[:, :cache].transpose(0, 2, 1, 3) for x in (k, v))
            rows = (lengths - new)[:, None] + np.arange(new)
            k, v = (np.take_along_axis(x, rows[..., None, None], axis=1) for x in (k, v))
        longest = int(lengths.max()) if total > new else total
        bias = options.pop("attention_bias", None)
        inputs = {
            "q": _flat(q), "k": _flat(k), "v": _flat(v), "past_key": old_k, "past_value": old_v,
            "seqlens_k": (lengths - 1).astype(np.int32), "total": np.array(longest, np.int32),
            "cos": None, "sin": None, "positions": None,
            "bias": None if bias is None else bias[..., :longest],
            "sink": options.pop("head_sink", None),
        }  # fmt: skip
        attributes = options | {"num_heads": heads, "kv_num_heads": k.shape[2]}
        content = graph("GroupQueryAttention", inputs, attributes, 3)
        return evaluated(content, _given(inputs)).reshape(batch, new, heads, width)


def _follows(spec: Spec, window: Window) -> bool:
    """Return whether a window is on the diagonal of the causal mask, and ends there or later."""
    causal = spec.mask(Causal)
    aligned = causal is not None and window.alignment == causal.alignment
    return (aligned or spec.queries == spec.keys) and (window.right is None or window.right >= 0)


def _flat(array: Any) -> Any:  # noqa: ANN401
    return array.reshape(*array.shape[:2], -1)


def _given(inputs: dict[str, Any]) -> dict[str, Any]:
    return {n: np.asarray(v, order="C") for n, v in inputs.items() if v is not None}


# ScaledDotProductAttention of OpenVINO, on CPUs.


class OpenVino(Adapter):
    """A model of one operator, compiled for arithmetic in float32 whatever is stored."""

    name: ClassVar[str] = "openvino"
    packages: ClassVar[Packages] = {"openvino": "openvino"}
    library: ClassVar[str] = "numpy"
    layout: ClassVar[str] = "BHTd"
    models: ClassVar[Models] = {"float32": "flash float32", "float16": "flash float16"}
    fully_masked: ClassVar[FullyMasked] = "nan"
    can: ClassVar[frozenset[str]] = frozenset({MASK, BIAS, SCALE, WIDTH})
    hint: ClassVar[str] = "f32"

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return causal, attention_mask and scale."""
        if self.is_alone(problem, Causal("top-left")):
            return self.scaled(problem) | {"causal": True}
        return self.scaled(problem) | self.masked(problem, "attention_mask")

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, H, T_q, d_v)."""
        import openvino  # noqa: PLC0415 - an extra
        from openvino import opset13  # noqa: PLC0415

        scale = options.pop("scale", None)
        given = {"query": q, "key": k, "value": v}
        given |= {name: options.pop(name) for name in ("attention_mask",) if name in options}
        given = {name: np.ascontiguousarray(value) for name, value in given.items()}
        inputs = {name: opset13.parameter(x.shape, x.dtype) for name, x in given.items()}
        constant = {} if scale is None else {"scale": opset13.constant(scale, q.dtype)}
        if constant and "attention_mask" not in inputs:  # the scale comes after a mask
            constant["attention_mask"] = opset13.constant(0.0, q.dtype)
        node = opset13.scaled_dot_product_attention(**inputs, **constant, **options)
        model = openvino.Model([node], list(inputs.values()))
        asked = {"INFERENCE_PRECISION_HINT": self.hint}
        return openvino.compile_model(model, "CPU", asked)(list(given.values()))[0]


class OpenVinoShort(OpenVino):
    """The same, asked for arithmetic in the format of float16."""

    name: ClassVar[str] = "openvino-f16"
    models: ClassVar[Models] = {"float16": "eager float16"}
    hint: ClassVar[str] = "f16"


# mlx.core.fast.scaled_dot_product_attention.


class Mlx(Adapter):
    """A causal mask by name where it ends at the last key, all others as booleans or numbers."""

    name: ClassVar[str] = "mlx"
    packages: ClassVar[Packages] = {"mlx.core": "mlx"}
    library: ClassVar[str] = "numpy"
    layout: ClassVar[str] = "BHTd"
    models: ClassVar[Models] = {
        "float32": "flash float32",
        "float16": "eager float16",
        "bfloat16": "eager bfloat16",
    }
    fully_masked: ClassVar[FullyMasked] = "mean"
    can: ClassVar[frozenset[str]] = ALL - {SOFT_CAP}

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return scale, mask and sinks."""
        found: dict[str, Any] = {"scale": problem.spec.factor}
        if problem.sinks is not None:
            found["sinks"] = _array(problem.sinks.astype(numpy_dtype(problem.spec.dtype)))
        if self.is_alone(problem, Causal("bottom-right")):
            return found | {"mask": "causal"}
        mask = self.masked(problem, "mask")
        return found | {name: _array(array) for name, array in mask.items()}

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output in float32, (B, H, T_q, d_v)."""
        import mlx.core as mx  # noqa: PLC0415 - an extra

        q, k, v = (_array(x) for x in (q, k, v))
        out = mx.fast.scaled_dot_product_attention(q, k, v, **options)
        return np.asarray(out.astype(mx.float32))


def _array(array: Any) -> Any:  # noqa: ANN401
    """Return an array of mlx of the same format."""
    import mlx.core as mx  # noqa: PLC0415 - an extra

    if array.dtype == np.bool_:
        return mx.array(array)
    return mx.array(array.astype(np.float32)).astype(getattr(mx, str(array.dtype)))


# paddle.nn.functional.scaled_dot_product_attention.


class Paddle(Adapter):
    """Causal masks by flag where it means the same, else booleans or numbers."""

    name: ClassVar[str] = "paddle"
    packages: ClassVar[Packages] = {"paddle": "paddlepaddle"}
    library: ClassVar[str] = "numpy"
    layout: ClassVar[str] = "BTHd"
    models: ClassVar[Models] = {"float32": "flash float32", "float64": "flash float64"}
    fully_masked: ClassVar[FullyMasked] = "nan"
    can: ClassVar[frozenset[str]] = frozenset({MASK, BIAS, SCALE, GROUPS, WIDTH})

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return is_causal, attn_mask, scale and enable_gqa."""
        if self.is_alone(problem, Causal("top-left")):
            return self.scaled(problem) | {"is_causal": True}
        mask = self.masked(problem, "attn_mask")
        return self.scaled(problem) | {name: _tensor(array) for name, array in mask.items()}

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, T_q, H, d_v)."""
        import paddle  # noqa: PLC0415 - an extra

        q, k, v = (_tensor(x) for x in (q, k, v))
        out = paddle.nn.functional.scaled_dot_product_attention(q, k, v, **options)
        return out.astype("float64").numpy()


def _tensor(array: Any) -> Any:  # noqa: ANN401
    import paddle  # noqa: PLC0415 - an extra

    return paddle.to_tensor(np.ascontiguousarray(array))
