"""A decoder as an ONNX model. Needs onnx (`pip install ".[onnx]"`)."""

from collections.abc import Mapping

import numpy as np
import onnx

from constructive.interop.onnx_graph import Graph, Value
from constructive.support.arrays import Array


def model(
    tensors: Mapping[str, Array],
    *,
    window: int | None,
    float_model: str,
    longest: int | None = None,
) -> onnx.ModelProto:
    """Return the model with input `ids` (S, N), int64, and output `logits` (S, N, V + 1), float32.

    S and N are free. Its initializers have the names and shapes of `Decoder.tensors`. Its metadata
    name the model of floating-point programs that it belongs to. It has passed onnx's own checker.
    All H N N logits of heads are stored at once. Runtimes refuse ids of V or more, and more tokens
    than there are positions, unless these are periodic; ids from -V to -1 they count from the end,
    as ONNX has it.

    Args:
        tensors: `Decoder.tensors`, which are copied
        window: how many tokens a position sees, itself among them; None for all up to itself
        float_model: `Decoder.float_model`
        longest: `Decoder.longest`, where positions are periodic

    Example:
        >>> from constructive import Text, build_decoder
        >>> decoder = build_decoder(Text.words("the cat sat"), width=32)
        >>> made = model(decoder.tensors, window=None, float_model=decoder.float_model)
        >>> [value.name for value in (*made.graph.input, *made.graph.output)]
        ['ids', 'logits']
    """
    graph = Graph()
    for name, array in tensors.items():
        graph.constant(name, array)
    zero, one = graph.constant("zero", np.array(0)), graph.constant("one", np.array(1))
    first = graph.constant("first_axis", np.array([0]))
    second = graph.constant("second_axis", np.array([1]))

    length = graph.node("Shape", "ids", name="length", start=1)
    place = graph.node("Squeeze", length, first, name="num_tokens")
    place = graph.node("Range", zero, place, one, name="places")
    row = graph.node("Unsqueeze", place, second, name="row")
    column = graph.node("Unsqueeze", place, first, name="column")
    hidden = graph.node("Greater", column, row, name="later")
    if window is not None:
        reach = graph.constant("window", np.array(window))
        reach = graph.node("Add", column, reach, name="reach")
        earlier = graph.node("LessOrEqual", reach, row, name="earlier")
        hidden = graph.node("Or", hidden, earlier, name="hidden")

    tokens = graph.node("Gather", "embedding", "ids", name="tokens")
    if longest is not None:
        period = graph.constant("period", np.array(len(tensors["positions"])))
        place = graph.node("Mod", place, period, name="periodic")
    placed = graph.node("Gather", "positions", place, name="placed")
    tokens = graph.node("Add", tokens, placed, name="x")
    each = graph.node("Unsqueeze", tokens, second, name="x_of_heads")  # (S, 1, N, d)
    query = graph.node("MatMul", each, "W_Q", name="query")  # (S, H, N, d_h)
    key = graph.node("MatMul", each, "W_K", name="key")
    turned = graph.node("Transpose", key, name="turned", perm=[0, 1, 3, 2])
    scores = graph.node("MatMul", query, turned, name="scores")  # (S, H, N, N)
    never = graph.constant("never", np.array(-np.inf, dtype=np.float32))
    scores = graph.node("Where", hidden, never, scores, name="seen")
    attention = graph.node("Softmax", scores, name="attention", axis=-1)
    attended = graph.node("MatMul", attention, each, name="attended")  # (S, H, N, d)
    parts = graph.node("Concat", each, attended, name="parts", axis=1)
    by_position = graph.node("Transpose", parts, name="by_position", perm=[0, 2, 1, 3])
    side_by_side = graph.constant("side_by_side", np.array([0, 0, len(tensors["U"])]))
    z = graph.node("Reshape", by_position, side_by_side, name="z")
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
