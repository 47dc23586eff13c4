"""onnxruntime: its Attention of the ONNX standard, and two operators of its own."""

from typing import Any, ClassVar

import numpy as np

from constructive.kernels.adapters.adapter import (
    ALL,
    BIAS,
    MASK,
    SCALE,
    WIDTH,
    Adapter,
    Models,
    Packages,
)  # fmt: skip
from constructive.kernels.adapters.onnx_graph import Reference, graph
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal, LeftPadding, Mask, RightPadding, Window
from constructive.kernels.spec import FullyMasked, Spec

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
