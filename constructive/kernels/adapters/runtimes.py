"""Attention of ONNX and onnxruntime, OpenVINO, MLX, Paddle, JAX, Flax and Keras."""

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
from constructive.kernels.adapters.torch_attention import EAGER, FLASH
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import (
    Causal,
    LeftPadding,
    Mask,
    RightPadding,
    VariableLengths,
    Window,
)
from constructive.kernels.spec import Spec, numpy_dtype
from constructive.support.arrays import Array

# Attention as an operator of ONNX: the reference evaluator, and what several runtimes share.


OPSET = 23
_CUSTOM = "com.microsoft"


def graph(
    operator: str, inputs: dict[str, Any], attributes: dict[str, Any], outputs: int = 1
) -> bytes:
    """Return a model of one operator as bytes."""
    from onnx import helper

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

    name = "onnx"
    packages: ClassVar[Packages] = {"onnx": "onnx"}
    library = "numpy"
    layout = "BHTd"
    models: ClassVar[Models] = EAGER
    fully_masked = "zeros"
    can = ALL - {SINK}

    def options(self, problem: Inputs) -> dict[str, Any]:
        spec, found = problem.spec, self.scaled(problem)
        if spec.soft_cap is not None:
            found["softcap"] = spec.soft_cap
        if self.is_alone(problem, Causal("top-left")):
            return found | {"is_causal": 1}
        if self.is_alone(problem, Causal("bottom-right")) and spec.keys > spec.queries:
            return found | {"is_causal": 1, "past": spec.keys - spec.queries}
        return found | self.masked(problem, "attn_mask")

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        mask, past = options.pop("attn_mask", None), options.pop("past", 0)
        old_k, old_v = (k[:, :, :past], v[:, :, :past]) if past else (None, None)
        inputs = {
            "q": q, "k": k[:, :, past:], "v": v[:, :, past:],
            "mask": mask, "past_key": old_k, "past_value": old_v,
        }  # fmt: skip
        content = graph("Attention", inputs, options, 3 if past else 1)
        return self.evaluated(content, _given(inputs))

    def evaluated(self, content: bytes, inputs: dict[str, Any]) -> Any:
        import onnx
        from onnx.reference import ReferenceEvaluator

        found: Any = ReferenceEvaluator(onnx.load_from_string(content)).run(None, inputs)
        return found[0]


# onnxruntime: its Attention of the ONNX standard, and two operators of its own.


_SHORT: Models = {"float32": "flash float32", "float16": "eager float16"}
_PACKAGES: Packages = {"onnxruntime": "onnxruntime", "onnx": "onnx"}


def evaluated(content: bytes, inputs: dict[str, Any]) -> Any:
    """Return the first output of a model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return session.run(["out_0"], inputs)[0]


class Standard(Reference):
    """Attention, opset 23."""

    name = "onnxruntime"
    packages = _PACKAGES
    models = _SHORT

    def evaluated(self, content: bytes, inputs: dict[str, Any]) -> Any:
        return evaluated(content, inputs)


class Multihead(Adapter):
    """com.microsoft.MultiHeadAttention: masks as padding of keys or as numbers that are added."""

    name = "onnxruntime-mha"
    packages = _PACKAGES
    library = "numpy"
    layout = "BTHd"
    models = {"float32": "flash float32"}
    fully_masked = "nan"
    can = frozenset({MASK, BIAS, SCALE, WIDTH})

    def options(self, problem: Inputs) -> dict[str, Any]:
        spec, found = problem.spec, self.scaled(problem)
        only = spec.masks[0] if len(spec.masks) == 1 and problem.added is None else None
        if isinstance(only, Causal) and spec.queries == spec.keys:
            return found | {"unidirectional": 1}
        if isinstance(only, (LeftPadding, RightPadding)) and problem.visible.any(-1).all():
            return found | {"key_padding_mask": problem.visible[:, 0, 0].astype(np.int32)}
        return found | self.masked(problem, "attention_bias", additive=True)

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
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

    name = "onnxruntime-gqa"
    packages = _PACKAGES
    library = "numpy"
    layout = "BTHd"
    models = {"float32": "flash float32", "float16": "flash float16"}
    fully_masked = "zeros"
    can = ALL - {WIDTH}

    def refuses(self, problem: Inputs) -> str | None:
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

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
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


def _flat(array: Any) -> Any:
    return array.reshape(*array.shape[:2], -1)


def _given(inputs: dict[str, Any]) -> dict[str, Any]:
    return {n: np.asarray(v, order="C") for n, v in inputs.items() if v is not None}


# ScaledDotProductAttention of OpenVINO, on CPUs.


class OpenVino(Adapter):
    """A model of one operator, compiled for arithmetic in float32 whatever is stored."""

    name = "openvino"
    packages = {"openvino": "openvino"}
    library = "numpy"
    layout = "BHTd"
    models = {"float32": "flash float32", "float16": "flash float16"}
    fully_masked = "nan"
    can = frozenset({MASK, BIAS, SCALE, WIDTH})
    hint = "f32"

    def options(self, problem: Inputs) -> dict[str, Any]:
        if self.is_alone(problem, Causal("top-left")):
            return self.scaled(problem) | {"causal": True}
        return self.scaled(problem) | self.masked(problem, "attention_mask")

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        import openvino
        from openvino import opset13

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

    name = "openvino-f16"
    models = {"float16": "eager float16"}
    hint = "f16"


# mlx.core.fast.scaled_dot_product_attention.


class Mlx(Adapter):
    """A causal mask by name where it ends at the last key, all others as booleans or numbers."""

    name = "mlx"
    packages = {"mlx.core": "mlx"}
    library = "numpy"
    layout = "BHTd"
    models = {
        "float32": "flash float32",
        "float16": "eager float16",
        "bfloat16": "eager bfloat16",
    }
    fully_masked = "mean"
    can = ALL - {SOFT_CAP}

    def options(self, problem: Inputs) -> dict[str, Any]:
        found: dict[str, Any] = {"scale": problem.spec.factor}
        if problem.sinks is not None:
            found["sinks"] = _array(problem.sinks.astype(numpy_dtype(problem.spec.dtype)))
        if self.is_alone(problem, Causal("bottom-right")):
            return found | {"mask": "causal"}
        mask = self.masked(problem, "mask")
        return found | {name: _array(array) for name, array in mask.items()}

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        import mlx.core as mx

        q, k, v = (_array(x) for x in (q, k, v))
        out = mx.fast.scaled_dot_product_attention(q, k, v, **options)
        return np.asarray(out.astype(mx.float32))


def _array(array: Any) -> Any:
    """Return an array of mlx of the same format."""
    import mlx.core as mx

    if array.dtype == np.bool_:
        return mx.array(array)
    return mx.array(array.astype(np.float32)).astype(getattr(mx, str(array.dtype)))


# paddle.nn.functional.scaled_dot_product_attention.


class Paddle(Adapter):
    """Causal masks by flag where it means the same, else booleans or numbers."""

    name = "paddle"
    packages = {"paddle": "paddlepaddle"}
    library = "numpy"
    layout = "BTHd"
    models = {"float32": "flash float32", "float64": "flash float64"}
    fully_masked = "nan"
    can = frozenset({MASK, BIAS, SCALE, GROUPS, WIDTH})

    def options(self, problem: Inputs) -> dict[str, Any]:
        if self.is_alone(problem, Causal("top-left")):
            return self.scaled(problem) | {"is_causal": True}
        mask = self.masked(problem, "attn_mask")
        return self.scaled(problem) | {name: _tensor(array) for name, array in mask.items()}

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        import paddle

        q, k, v = (_tensor(x) for x in (q, k, v))
        out = paddle.nn.functional.scaled_dot_product_attention(q, k, v, **options)
        return out.astype("float64").numpy()


def _tensor(array: Any) -> Any:
    import paddle

    return paddle.to_tensor(np.ascontiguousarray(array))


# jax.nn.dot_product_attention, and those of Flax and Keras.


class Jax(Adapter):
    """Masks in words where jax has them, else as booleans. Its softmax is in float32 at most."""

    name = "jax"
    packages = {"jax": "jax"}
    library = "jax"
    layout = "BTHd"
    models: ClassVar[Models] = {name: model for name, model in FLASH.items() if name != "float64"}
    fully_masked = "mean"
    can = frozenset({MASK, BIAS, SCALE, GROUPS})
    devices = ("cpu", "cuda")

    def run(self, problem: Inputs, device: str = "cpu") -> Array:
        import jax

        with jax.enable_x64(problem.spec.dtype == "float64"):
            return super().run(problem, device)

    def options(self, problem: Inputs) -> dict[str, Any]:
        spec, found = problem.spec, self.scaled(problem)
        left = []
        for mask in spec.masks:
            if mask == Causal("top-left"):
                found["is_causal"] = True
            elif (
                isinstance(mask, Window)
                and None not in {mask.left, mask.right}
                and (mask.alignment == "top-left" or spec.queries == spec.keys)
            ):
                found["local_window_size"] = (mask.left, mask.right)
            elif isinstance(mask, (RightPadding, VariableLengths)):
                found["key_value_seq_lengths"] = spec.lengths[1].astype("int32")
            else:
                left.append(mask)
        return found | _in_words(problem, everything=bool(left))

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        import jax

        return jax.nn.dot_product_attention(q, k, v, **options)


class Flax(Jax):
    """flax.linen.dot_product_attention: softmax in the format of the inputs."""

    name = "flax"
    packages = {"flax": "flax", "jax": "jax"}
    models = EAGER
    can = frozenset({MASK, BIAS, WIDTH})

    def options(self, problem: Inputs) -> dict[str, Any]:
        return _in_words(problem, everything=problem.mask is not None)

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        from flax import linen

        return linen.dot_product_attention(q, k, v, **options)


class FlaxNnx(Flax):
    """flax.nnx.dot_product_attention, which calls that of jax."""

    name = "flax-nnx"
    models = Jax.models
    can = frozenset({MASK, BIAS})

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        from flax import nnx

        return nnx.dot_product_attention(q, k, v, **options)


class Keras(Jax):
    """keras.ops.dot_product_attention; its arrays are those of jax, so KERAS_BACKEND is jax."""

    name = "keras"
    packages = {"keras": "keras", "jax": "jax"}

    def refuses(self, problem: Inputs) -> str | None:
        import keras

        other = keras.backend.backend() != "jax"
        return "KERAS_BACKEND is not jax" if other else super().refuses(problem)

    def options(self, problem: Inputs) -> dict[str, Any]:
        spec, found = problem.spec, self.scaled(problem)
        if spec.masks == (Causal("top-left"),):
            return found | {"is_causal": True} | _in_words(problem, everything=False)
        return found | _in_words(problem, everything=problem.mask is not None)

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        import keras

        return keras.ops.dot_product_attention(q, k, v, **options)


def _in_words(problem: Inputs, *, everything: bool) -> dict[str, Any]:
    """Return mask and bias as arrays of numpy."""
    found: dict[str, Any] = {}
    if problem.bias is not None:
        found["bias"] = problem.bias.astype(numpy_dtype(problem.spec.output.name))
    return found | ({"mask": problem.mask_tensor()} if everything else {})
