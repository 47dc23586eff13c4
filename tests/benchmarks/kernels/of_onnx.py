"""Adapters of onnx and onnxruntime, and how both are called, for `released.py`."""

from dataclasses import replace

import numpy as np

from constructive.kernels.adapters import (
    ALL,
    BIAS,
    FLASH,
    MASK,
    SCALE,
    SINK,
    WIDTH,
    Adapter,
    Options,
    is_alone,
    masked,
    scaled,
)
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal, LeftPadding, Mask, RightPadding, Window
from constructive.kernels.spec import Spec
from constructive.support.arrays import Tensor

# Logits are stored in the format of the inputs, too.
EAGER = FLASH | {"float16": "eager float16", "bfloat16": "eager bfloat16"}


# Attention as an operator of ONNX: the reference evaluator, and what several runtimes share.


OPSET = 23
_CUSTOM = "com.microsoft"


def graph(operator: str, inputs: Options, attributes: Options, outputs: int = 1) -> bytes:
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


def _standard_options(problem: Inputs) -> Options:
    spec, found = problem.spec, scaled(problem)
    if spec.soft_cap is not None:
        found["softcap"] = spec.soft_cap
    if is_alone(problem, Causal("top-left")):
        return found | {"is_causal": 1}
    if is_alone(problem, Causal("bottom-right")) and spec.keys > spec.queries:
        return found | {"is_causal": 1, "past": spec.keys - spec.queries}
    return found | masked(problem, "attn_mask")


def _standard(q: Tensor, k: Tensor, v: Tensor, options: Options) -> tuple[bytes, Options]:
    """Return the model of Attention, and its inputs."""
    mask, past = options.pop("attn_mask", None), options.pop("past", 0)
    old_k, old_v = (k[:, :, :past], v[:, :, :past]) if past else (None, None)
    inputs = {
        "q": q, "k": k[:, :, past:], "v": v[:, :, past:],
        "mask": mask, "past_key": old_k, "past_value": old_v,
    }  # fmt: skip
    return graph("Attention", inputs, options, 3 if past else 1), _given(inputs)


def _reference(q: Tensor, k: Tensor, v: Tensor, **options: Tensor) -> Tensor:
    import onnx
    from onnx.reference import ReferenceEvaluator

    content, inputs = _standard(q, k, v, options)
    found: Tensor = ReferenceEvaluator(onnx.load_from_string(content)).run(None, inputs)
    return found[0]


# The reference evaluator of the onnx package.
_ONNX = Adapter(
    attend=_reference,
    options=_standard_options,
    packages={"onnx": "onnx"},
    models=EAGER,
    can=ALL - {SINK},
)


# onnxruntime: its Attention of the ONNX standard, and two operators of its own.


def evaluated(content: bytes, inputs: Options) -> Tensor:
    """Return the first output of a model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return session.run(["out_0"], inputs)[0]


def _onnxruntime(q: Tensor, k: Tensor, v: Tensor, **options: Tensor) -> Tensor:
    return evaluated(*_standard(q, k, v, options))


_ONNXRUNTIME = replace(
    _ONNX,
    attend=_onnxruntime,
    packages={"onnxruntime": "onnxruntime", "onnx": "onnx"},
    models={"float32": "flash float32", "float16": "eager float16"},
)


# MultiHeadAttention: masks as padding of keys or as numbers that are added.


def _padded_options(problem: Inputs) -> Options:
    spec, found = problem.spec, scaled(problem)
    only = spec.masks[0] if len(spec.masks) == 1 and problem.added is None else None
    if isinstance(only, Causal) and spec.queries == spec.keys:
        return found | {"unidirectional": 1}
    if isinstance(only, (LeftPadding, RightPadding)) and problem.visible.any(-1).all():
        return found | {"key_padding_mask": problem.visible[:, 0, 0].astype(np.int32)}
    return found | masked(problem, "attention_bias", additive=True)


def _of_runtime(
    q: Tensor, k: Tensor, v: Tensor, *, key_padding_mask: Tensor = None,
    attention_bias: Tensor = None, **attributes: Tensor,
) -> Tensor:  # fmt: skip
    heads = q.shape[2]
    inputs = {
        "q": _flat(q), "k": _flat(k), "v": _flat(v), "no_bias": None,
        "padding": key_padding_mask, "bias": attention_bias,
    }  # fmt: skip
    content = graph("MultiHeadAttention", inputs, attributes | {"num_heads": heads})
    out = evaluated(content, _given(inputs))
    return out.reshape(*out.shape[:2], heads, -1)


# GroupQueryAttention: causal, keys of the past are in a cache.


def _other_cache(problem: Inputs) -> str | None:
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
    return None


def _grouped_options(problem: Inputs) -> Options:
    spec = problem.spec
    found: Options = scaled(problem) | {"lengths": spec.lengths[1]}
    own: list[Mask] = [m for m in spec.masks if isinstance(m, (Causal, RightPadding))]
    window = spec.mask(Window)
    if window is not None and window.left is not None and _follows(spec, window):
        found["local_window_size"] = window.left + 1
        own.append(window)
    if spec.soft_cap is not None:
        found["softcap"] = spec.soft_cap
    if problem.sinks is not None:
        found["head_sink"] = problem.sinks.astype(spec.dtype)
    if problem.added is not None or len(own) < len(spec.masks):
        found["attention_bias"] = problem.mask_tensor(additive=True)
    return found


def _group_query(
    q: Tensor, k: Tensor, v: Tensor, *, lengths: Tensor, attention_bias: Tensor = None,
    head_sink: Tensor = None, **attributes: Tensor,
) -> Tensor:  # fmt: skip
    (batch, new, heads, width), total = q.shape, k.shape[1]
    old_k = old_v = None
    if total > new:
        cache = int(lengths.max()) - new
        old_k, old_v = (x[:, :cache].transpose(0, 2, 1, 3) for x in (k, v))
        rows = (lengths - new)[:, None] + np.arange(new)
        k, v = (np.take_along_axis(x, rows[..., None, None], axis=1) for x in (k, v))
    longest = int(lengths.max()) if total > new else total
    inputs = {
        "q": _flat(q), "k": _flat(k), "v": _flat(v), "past_key": old_k, "past_value": old_v,
        "seqlens_k": (lengths - 1).astype(np.int32), "total": np.array(longest, np.int32),
        "cos": None, "sin": None, "positions": None,
        "bias": None if attention_bias is None else attention_bias[..., :longest],
        "sink": head_sink,
    }  # fmt: skip
    attributes |= {"num_heads": heads, "kv_num_heads": k.shape[2]}
    content = graph("GroupQueryAttention", inputs, attributes, 3)
    return evaluated(content, _given(inputs)).reshape(batch, new, heads, width)


def _follows(spec: Spec, window: Window) -> bool:
    """Return whether a window is on the diagonal of the causal mask, and ends there or later."""
    causal = spec.mask(Causal)
    aligned = causal is not None and window.alignment == causal.alignment
    return (aligned or spec.queries == spec.keys) and (window.right is None or window.right >= 0)


def _flat(array: Tensor) -> Tensor:
    return array.reshape(*array.shape[:2], -1)


def _given(inputs: Options) -> Options:
    return {n: np.asarray(v, order="C") for n, v in inputs.items() if v is not None}


ADAPTERS: dict[str, Adapter] = {
    "onnxruntime": _ONNXRUNTIME,
    "onnxruntime-mha": replace(
        _ONNXRUNTIME,
        attend=_of_runtime,
        options=_padded_options,
        layout="BTHd",
        models={"float32": "flash float32"},
        fully_masked="nan",
        can=frozenset({MASK, BIAS, SCALE, WIDTH}),
    ),
    "onnxruntime-gqa": replace(
        _ONNXRUNTIME,
        attend=_group_query,
        options=_grouped_options,
        excludes=_other_cache,
        layout="BTHd",
        models={"float32": "flash float32", "float16": "flash float16"},
        can=ALL - {WIDTH},
    ),
    "onnx": _ONNX,
}
