"""ScaledDotProductAttention of OpenVINO, on CPUs."""

from typing import Any, ClassVar

import numpy as np

from constructive.kernels.adapters.adapter import (
    BIAS,
    MASK,
    SCALE,
    WIDTH,
    Adapter,
    Models,
    Packages,
)
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal
from constructive.kernels.spec import FullyMasked


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
