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
    All H N N logits of heads are stored at once, or 2 H N w of a window of w tokens. Runtimes
    refuse ids of V or more, and more tokens than there are positions, unless these are periodic;
    ids from -V to -1 they count from the end, as ONNX has it.

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

    def numbers(name: str, *values: int) -> str:
        return graph.constant(name, np.array(values))

    size, third = numbers("window", window), numbers("third_axis", 2)
    more = graph.node("Add", length, numbers("window_less_one", window - 1))
    count = graph.node("Div", more, size, name="blocks")
    whole = graph.node("Mul", count, size, name="whole")
    after = graph.node("Sub", whole, length, name="after")
    begin, middle, end = (
        numbers("pad_begin", 0, window, 0),
        numbers("pad_middle", 0),
        numbers("pad_end", 0),
    )
    pads = graph.node("Concat", begin, middle, after, end, name="pads", axis=0)
    padded = graph.node("Pad", tokens, pads, name="padded")
    shape = numbers("block_shape", 0, -1, window, heads[1])
    blocks = graph.node("Reshape", padded, shape, name="by_block")
    last, far = numbers("last", -1), numbers("far", np.iinfo(np.int64).max)
    before = graph.node("Slice", blocks, "first_axis", last, "second_axis", name="before")
    own = graph.node("Slice", blocks, "second_axis", far, "second_axis", name="own")
    keys = graph.node("Concat", before, own, name="seen_tokens", axis=2)  # (S, B, 2 w, d)

    back = window + np.arange(window)[:, np.newaxis] - np.arange(2 * window)
    outside = graph.constant("outside", (back < 0) | (back >= window))  # (w, 2 w)
    number = graph.node("Squeeze", count, "first_axis", name="num_blocks")
    number = graph.node("Range", "zero", number, "one", name="block_numbers")
    axes = numbers("axes_of_blocks", 1, 2, 3)
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
    side_by_side = numbers("side_by_side", 0, -1, heads[0] * heads[1])
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
