"""Attention as an operator of ONNX: the reference evaluator, and what several runtimes share."""

from typing import Any, ClassVar

import numpy as np

from constructive.kernels.adapters.adapter import ALL, SINK, Adapter, Models, Packages
from constructive.kernels.adapters.torch_attention import EAGER
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal
from constructive.kernels.spec import FullyMasked

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
