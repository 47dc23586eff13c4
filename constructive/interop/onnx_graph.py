"""Layers, sequence memorizers and decoders as ONNX models. Needs onnx (`pip install ".[onnx]"`)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from constructive.layers.layer import AttentionLayer
from constructive.sequences.network import (
    ReluNetwork,
    UniformAttention,
    dense_layers,
    require_exact,
)
from constructive.support.arrays import Array, float_type

OPSET, IR_VERSION = 18, 9  # Of ONNX 1.13 (2022), old enough for every runtime in use.


class Value(NamedTuple):
    """An input or an output of a model."""

    name: str  # as runtimes take it
    dtype: npt.DTypeLike  # of its entries
    shape: Sequence[int | str]  # lengths of its axes, or names of those that are free


class Graph:
    """Nodes and constants, in the order in which they are added."""

    def __init__(self, opset: int = OPSET, ir_version: int = IR_VERSION) -> None:
        self._opset, self._ir_version = opset, ir_version
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def constant(self, name: str, array: npt.ArrayLike) -> str:
        """Add an initializer, and return its name."""
        self._constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def node(
        self,
        operator: str,
        *inputs: str,
        name: str = "",
        outputs: Sequence[str] = (),
        **attributes: Any,  # noqa: ANN401 - as onnx takes them
    ) -> str:
        """Add a node, and return the name of its first output, which is also its own name."""
        outputs = outputs or (name or f"{operator}_{len(self._nodes)}",)
        self._nodes.append(
            helper.make_node(operator, inputs, outputs, name=outputs[0], **attributes)
        )
        return outputs[0]

    def model(
        self, name: str, inputs: Sequence[Value], output: Value, **properties: str
    ) -> onnx.ModelProto:
        """Return the model, which has passed onnx's own checker."""
        graph = helper.make_graph(
            self._nodes, name, [*map(_info, inputs)], [_info(output)], self._constants
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self._opset)],
            ir_version=self._ir_version,
            producer_name="constructive",
        )
        helper.set_model_props(model, properties)
        onnx.checker.check_model(model, full_check=True)
        return model


def _info(value: Value) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    return helper.make_tensor_value_info(value.name, kind, value.shape)


def layer_model(
    layer: AttentionLayer, *, scalar_targets: bool, shared_context: bool = False
) -> onnx.ModelProto:
    """Return the model with inputs `contexts` and `queries`, and output `predictions`.

    Its initializers are W_Q, W_K, W_V, W_O and W_D, with the heads of the first three side by side:
    (d, H k). Its metadata name the model of floating-point programs that it belongs to in float32,
    as `float_model`. It has passed onnx's own checker.
    """
    graph, heads, width = Graph(), layer.num_heads, layer.width
    for name, array in layer.tensors.items():
        flat = array.transpose(1, 0, 2).reshape(width, -1) if array.ndim > 2 else array
        graph.constant(name, flat)
    apart = graph.constant("heads_apart", np.array([0, 0, heads, -1]))
    joined = graph.constant("heads_joined", np.array([0, -1]))

    def heads_of(tokens: str, weights: str, name: str, order: list[int]) -> str:
        """(T, n, d) @ (d, H k), then (T, n, H, k), then the axes in another order."""
        product = graph.node("MatMul", tokens, weights, name=f"{name}_all")
        parts = graph.node("Reshape", product, apart, name=f"{name}_by_head")
        return graph.node("Transpose", parts, name=name, perm=order)

    contexts = "contexts"
    if shared_context:
        first = graph.constant("first_axis", np.array([0]))
        contexts = graph.node("Unsqueeze", "contexts", first, name="one_context")
    second = graph.constant("second_axis", np.array([1]))
    each = graph.node("Unsqueeze", "queries", second, name="query_tokens")  # (T, 1, d)
    query = heads_of(each, "W_Q", "query", [0, 2, 1, 3])  # (T, H, 1, d_h)
    key = heads_of(contexts, "W_K", "key", [0, 2, 3, 1])  # (T, H, d_h, n)
    value = heads_of(contexts, "W_V", "value", [0, 2, 1, 3])  # (T, H, n, d_v)
    logits = graph.node("MatMul", query, key, name="logits")
    attention = graph.node("Softmax", logits, name="attention", axis=-1)
    attended = graph.node("MatMul", attention, value, name="attended")  # (T, H, 1, d_v)
    side_by_side = graph.node("Reshape", attended, joined, name="attended_joined")
    output = graph.node("MatMul", side_by_side, "W_O", name="output")
    last = "outputs" if scalar_targets else "predictions"
    predicted = graph.node("MatMul", output, "W_D", name=last)
    if scalar_targets:
        graph.node("Squeeze", predicted, second, name="predictions")

    kind = layer.query_weights.dtype
    tokens = ("n", width) if shared_context else ("T", "n", width)
    return graph.model(
        "memorizer",
        [Value("contexts", kind, tokens), Value("queries", kind, ("T", width))],
        Value("predictions", kind, ("T",) if scalar_targets else ("T", layer.target_dim)),
        float_model=layer.float_model,
    )


def sequence_model(
    embedding: ReluNetwork,
    attention: UniformAttention,
    classifier: ReluNetwork,
    *,
    task: str,
    context_size: int,
    dtype: npt.DTypeLike = np.float64,
) -> onnx.ModelProto:
    """Return the model with input `sequences` (N, n, d), and `outputs` (N,), or (N, n) for seq2seq.

    It has passed onnx's own checker.
    """
    kind = float_type(dtype)
    require_exact(attention.numbers(), kind)
    graph, width = Graph(), embedding.layers[0].width
    stream = _tokenwise(graph, "embedding", embedding, kind, "sequences")
    rows = attention.query_weights, attention.key_weights, attention.value_weights
    query, key, value = (
        graph.node("MatMul", stream, graph.constant(f"W_{name}", np.array([weights], kind).T))
        for name, weights in zip("QKV", rows, strict=True)
    )
    turned = graph.node("Transpose", key, perm=[0, 2, 1])
    shares = graph.node("Softmax", graph.node("MatMul", query, turned), axis=-1)
    attended = graph.node("MatMul", shares, value)
    output = graph.constant("W_O", np.array([attention.output_weights], kind))
    moved = graph.node("Add", stream, graph.node("MatMul", attended, output))
    if task != "seq2seq":
        moved = graph.node("Gather", moved, graph.constant("last", np.array(-1)), axis=1)
    found = _tokenwise(graph, "classifier", classifier, kind, moved)
    last = graph.constant("last_axis", np.array([-1]))
    graph.node("Squeeze", found, last, name="outputs")
    return graph.model(
        "sequence_memorizer",
        [Value("sequences", kind, ("N", context_size, width))],
        Value("outputs", kind, ("N", context_size) if task == "seq2seq" else ("N",)),
    )


def _tokenwise(
    graph: Graph, name: str, network: ReluNetwork, kind: np.dtype[Any], values: str
) -> str:
    """Add a ReLU network on the last axis."""
    require_exact(network.numbers(), kind)
    layers = dense_layers(network, kind)

    def affine(index: int, inputs: str) -> str:
        weights, bias = layers[index]
        w = graph.constant(f"{name}.{index}.weight", weights.T)
        b = graph.constant(f"{name}.{index}.bias", bias)
        return graph.node("Add", graph.node("MatMul", inputs, w), b)

    count = len(layers)
    values = affine(0, values)
    for index in range(1, count - 1, 2):
        hidden = graph.node("Relu", affine(index, values))
        values = graph.node("Add", values, affine(index + 1, hidden))
    return affine(count - 1, values)


def decoder_model(
    tensors: Mapping[str, Array],
    *,
    window: int | None,
    float_model: str,
    longest: int | None = None,
) -> onnx.ModelProto:
    """Return the model with input `ids` (S, N), int64, and output `logits` (S, N, V + 1), float32.

    S and N are free. Its initializers have the names and shapes of `Decoder.tensors`. Its metadata
    name the model of floating-point programs that it belongs to. It has passed onnx's own checker.
    All H N N logits of heads are stored at once, or 2 H N w of a window of w tokens. Runtimes
    refuse ids of V or more, and more tokens than there are positions, unless these are periodic;
    ids from -V to -1 they count from the end, as ONNX has it.
    """
    graph = Graph()
    for name, array in tensors.items():
        graph.constant(name, array)
    zero, one = graph.constant("zero", np.array(0)), graph.constant("one", np.array(1))
    first = graph.constant("first_axis", np.array([0]))
    graph.constant("second_axis", np.array([1]))

    length = graph.node("Shape", "ids", name="length", start=1)
    place = graph.node("Squeeze", length, first, name="num_tokens")
    place = graph.node("Range", zero, place, one, name="places")
    tokens = graph.node("Gather", "embedding", "ids", name="tokens")
    row = place
    if longest is not None:
        period = graph.constant("period", np.array(len(tensors["positions"])))
        row = graph.node("Mod", place, period, name="periodic")
    placed = graph.node("Gather", "positions", row, name="placed")
    tokens = graph.node("Add", tokens, placed, name="x")
    if window is None:
        z = _all_tokens(graph, tokens, place, len(tensors["U"]))
    else:
        z = _in_blocks(graph, tokens, length, window, tensors["W_Q"].shape)
    output = graph.node("MatMul", z, "U", name="output")
    outputs = graph.node("Transpose", "unembedding", name="outputs", perm=[1, 0])
    graph.node("MatMul", output, outputs, name="logits")

    entries = len(tensors["unembedding"])
    return graph.model(
        "decoder",
        [Value("ids", np.int64, ("S", "N"))],
        Value("logits", np.float32, ("S", "N", entries)),
        float_model=float_model,
    )


def _all_tokens(graph: Graph, tokens: str, place: str, inner: int) -> str:
    """Add attention of each token to all up to itself; return z (S, N, K)."""
    row = graph.node("Unsqueeze", place, "second_axis", name="row")
    column = graph.node("Unsqueeze", place, "first_axis", name="column")
    hidden = graph.node("Greater", column, row, name="later")
    each = graph.node("Unsqueeze", tokens, "second_axis", name="x_of_heads")  # (S, 1, N, d)
    attended = _attended(graph, each, each, hidden)  # (S, H, N, d)
    parts = graph.node("Concat", each, attended, name="parts", axis=1)
    by_position = graph.node("Transpose", parts, name="by_position", perm=[0, 2, 1, 3])
    side_by_side = graph.constant("side_by_side", np.array([0, 0, inner]))
    return graph.node("Reshape", by_position, side_by_side, name="z")


def _in_blocks(graph: Graph, tokens: str, length: str, window: int, heads: tuple[int, ...]) -> str:
    """Add attention in a window, of blocks to themselves and the one before; return z (S, N, K)."""

    def row_of(name: str, *values: int) -> str:
        return graph.constant(name, np.array(values))

    size, third = row_of("window", window), row_of("third_axis", 2)
    more = graph.node("Add", length, row_of("window_less_one", window - 1))
    count = graph.node("Div", more, size, name="blocks")
    whole = graph.node("Mul", count, size, name="whole")
    after = graph.node("Sub", whole, length, name="after")
    begin, middle, end = (
        row_of("pad_begin", 0, window, 0),
        row_of("pad_middle", 0),
        row_of("pad_end", 0),
    )
    pads = graph.node("Concat", begin, middle, after, end, name="pads", axis=0)
    padded = graph.node("Pad", tokens, pads, name="padded")
    shape = row_of("block_shape", 0, -1, window, heads[1])
    blocks = graph.node("Reshape", padded, shape, name="by_block")
    last, far = row_of("last", -1), row_of("far", np.iinfo(np.int64).max)
    before = graph.node("Slice", blocks, "first_axis", last, "second_axis", name="before")
    own = graph.node("Slice", blocks, "second_axis", far, "second_axis", name="own")
    keys = graph.node("Concat", before, own, name="seen_tokens", axis=2)  # (S, B, 2 w, d)

    back = window + np.arange(window)[:, np.newaxis] - np.arange(2 * window)
    outside = graph.constant("outside", (back < 0) | (back >= window))  # (w, 2 w)
    number = graph.node("Squeeze", count, "first_axis", name="num_blocks")
    number = graph.node("Range", "zero", number, "one", name="block_numbers")
    axes = row_of("axes_of_blocks", 1, 2, 3)
    number = graph.node("Unsqueeze", number, axes, name="block")
    number = graph.node("Mul", number, size, name="block_begin")
    column = graph.constant("columns", np.arange(2 * window) - window)
    column = graph.node("Add", number, column, name="key_place")
    early = graph.node("Less", column, "zero", name="before_the_text")  # (B, 1, 1, 2 w)
    hidden = graph.node("Or", outside, early, name="hidden")

    asking = graph.node("Unsqueeze", own, third, name="own_of_heads")
    each = graph.node("Unsqueeze", keys, third, name="seen_of_heads")
    attended = _attended(graph, asking, each, hidden, axes=5)  # (S, B, H, w, d)
    turned = graph.node("Transpose", attended, name="by_position", perm=[0, 1, 3, 2, 4])
    side_by_side = row_of("side_by_side", 0, -1, heads[0] * heads[1])
    flat = graph.node("Reshape", turned, side_by_side, name="by_text")
    cut = graph.node("Slice", flat, "first_axis", length, "second_axis", name="averages")
    return graph.node("Concat", tokens, cut, name="z", axis=2)


def _attended(graph: Graph, asking: str, each: str, hidden: str, axes: int = 4) -> str:
    """Add averages of tokens (..., 1, n, d) for queries of others (..., 1, b, d)."""
    query = graph.node("MatMul", asking, "W_Q", name="query")  # (..., H, b, d_h)
    key = graph.node("MatMul", each, "W_K", name="key")
    perm = [*range(axes - 2), axes - 1, axes - 2]
    turned = graph.node("Transpose", key, name="turned", perm=perm)
    scores = graph.node("MatMul", query, turned, name="scores")
    never = graph.constant("never", np.array(-np.inf, dtype=np.float32))
    scores = graph.node("Where", hidden, never, scores, name="seen")
    attention = graph.node("Softmax", scores, name="attention", axis=-1)
    return graph.node("MatMul", attention, each, name="attended")
