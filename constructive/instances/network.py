"""Networks of softmax heads: what one attention layer computes of its query, contexts fixed.

With fixed contexts the logits are affine functions of the query x, so a layer is ::

    f(x) = sum_h V_h^T softmax(A_h x + b_h),    A_h (n, d), b_h (n,), V_h (n, k).

Conversely every such f is an attention layer on one context (Lemma 20.1,
proofs/20-instances.md): `Network.layer` is that layer.

All entries are float32 numbers, so a graph in float32, a property in decimals and a proof in
rational numbers are about one function.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat, fmpq

from constructive.exact.directed import working_precision
from constructive.layers.attention import AttentionLayer
from constructive.layers.record import Layer, require_float_layer
from constructive.support.arrays import Array, Rebuilt, as_array, frozen, private
from constructive.support.errors import ParameterError, shown

_BITS = 200  # Of enclosures


def float32_numbers(name: str, values: object, axes: int) -> Array:
    """Return a read-only float64 array whose entries are float32 numbers; messages name it."""
    array = private(name, values)
    if array.ndim != axes or not array.size or array.dtype.kind not in "fiu":
        raise ParameterError(
            f"{name} is not an array of numbers with {axes} axes",
            witness=(str(array.dtype), array.shape),
            suggestion=f"an array with {axes} axes, none of them empty",
        )
    wide = array.astype(np.float64)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32).astype(np.float64)
    wrong = ~np.isfinite(narrow) | (narrow != array)
    if wrong.any():
        raise ParameterError(
            f"{name} has an entry that is not a finite float32 number",
            witness=wide[wrong].flat[0].item(),
            suggestion="round to float32 first: np.float32(...)",
        )
    return frozen(wide + 0.0)  # no negative zeros


@dataclass(frozen=True, eq=False)
class Head(Rebuilt):
    """One softmax head, V^T softmax(A x + b). Arrays are float64 and hold float32 numbers.

    Attributes:
        slopes: A (n, d)
        offsets: b (n,)
        values: V (n, k)

    Raises:
        ParameterError: for shapes that do not fit, and entries that are not float32 numbers

    Example:
        >>> head = Head([[2.0], [0.0]], [0.0, 0.0], [[1.0], [0.0]])
        >>> head.slopes.shape
        (2, 1)
    """

    slopes: Array
    offsets: Array
    values: Array

    def __post_init__(self) -> None:
        for name, axes in (("slopes", 2), ("offsets", 1), ("values", 2)):
            object.__setattr__(self, name, float32_numbers(name, getattr(self, name), axes))
        if not len(self.slopes) == len(self.offsets) == len(self.values):
            raise ParameterError(
                "slopes, offsets and values are of different numbers of tokens",
                witness=(self.slopes.shape, self.offsets.shape, self.values.shape),
                suggestion="slopes (n, d), offsets (n,) and values (n, k)",
            )


@dataclass(frozen=True, eq=False)
class Network(Rebuilt):
    """A sum of softmax heads with one number of tokens, inputs and outputs.

    Attributes:
        heads: H heads of the same shapes

    Raises:
        ParameterError: without heads, and for heads of different shapes

    Example:
        >>> network = Network((Head([[2.0], [0.0]], [0.0, 0.0], [[1.0], [0.0]]),))
        >>> network([[0.0]])
        array([[0.5]])
        >>> network.enclosed([0])[0].contains(arb(0.5))
        True
    """

    heads: tuple[Head, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", tuple(self.heads))
        shapes = {(head.slopes.shape, head.values.shape) for head in self.heads}
        if len(shapes) != 1:
            raise ParameterError(
                "a network has one head or more, all of the same shapes",
                witness=sorted(shapes) or None,
                suggestion="heads with the same numbers of tokens, inputs and outputs",
            )

    @property
    def num_tokens(self) -> int:
        """n, the tokens of each head."""
        return int(self.heads[0].slopes.shape[0])

    @property
    def input_dim(self) -> int:
        """d, the entries of an input."""
        return int(self.heads[0].slopes.shape[1])

    @property
    def output_dim(self) -> int:
        """k, the entries of an output."""
        return int(self.heads[0].values.shape[1])

    def __call__(self, inputs: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> Array:
        """Evaluate f: (N, k).

        Args:
            inputs: x (N, d)
            dtype: float64 or float32, of inputs and of everything that is computed
        """
        x = np.asarray(inputs, dtype=dtype)
        total = np.zeros((len(x), self.output_dim), dtype)
        for head in self.heads:
            logits = x @ head.slopes.T.astype(dtype) + head.offsets.astype(dtype)
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            total += weights / weights.sum(axis=1, keepdims=True) @ head.values.astype(dtype)
        return total

    def enclosed(self, point: Sequence[float | Fraction] | Array) -> list[arb]:
        """Enclose f at one point: k balls.

        Args:
            point: x, d floats or fractions, which are taken exactly

        Raises:
            ParameterError: for a point with another number of entries
        """
        entries = [Fraction(value) for value in point]
        if len(entries) != self.input_dim:
            raise ParameterError(
                f"the point has {len(entries)} entries, the network {self.input_dim} inputs",
                witness=shown(len(entries)),
                suggestion=f"a point with {self.input_dim} entries",
            )
        total = [arb(0)] * self.output_dim
        with working_precision(_BITS):
            x = arb_mat([[arb(fmpq(*value.as_integer_ratio()))] for value in entries])
            for head in self.heads:
                logits = (arb_mat(head.slopes.tolist()) * x).entries()
                logits = [
                    each + offset
                    for each, offset in zip(logits, head.offsets.tolist(), strict=True)
                ]
                top = max(float(each.mid()) for each in logits)  # any shift is right
                weights = [(each - top).exp() for each in logits]
                whole = sum(weights, arb(0))
                averages = arb_mat([weights]) * arb_mat(head.values.tolist())
                total = [
                    before + part / whole
                    for before, part in zip(total, averages.entries(), strict=True)
                ]
        return total

    @property
    def layer(self) -> AttentionLayer:
        """The attention layer, in float64, that computes f on `context` (Lemma 20.1).

        Its query is `query(x)`, (x, 1, 0, ..., 0). W_Q of each head reads (x, 1), W_K its slopes
        and offset from its own block of a token, and W_V its values.
        """
        heads, width = len(self.heads), self.context.shape[1]
        block, inputs = width // heads, self.input_dim + 1
        queries, keys = np.zeros((2, heads, width, inputs))
        values = np.zeros((heads * width, self.output_dim))
        queries[:, :inputs] = np.eye(inputs)
        for h in range(heads):
            start = h * block
            keys[h, start : start + inputs] = np.eye(inputs)
            rows = h * width + start + inputs
            values[rows : rows + self.output_dim] = np.eye(self.output_dim)
        return AttentionLayer.from_effective_readout(queries, keys, values)

    @property
    def context(self) -> Array:
        """The tokens (A_1[i], b_1[i], V_1[i], ..., A_H[i], b_H[i], V_H[i]): (n, H (d + 1 + k))."""
        return np.hstack(
            [np.column_stack([head.slopes, head.offsets, head.values]) for head in self.heads]
        )

    def query(self, inputs: npt.ArrayLike) -> Array:
        """Return the queries (x, 1, 0, ..., 0) of `layer`: (N, H (d + 1 + k)).

        Args:
            inputs: x (N, d)
        """
        x = np.asarray(inputs, dtype=np.float64)
        queries = np.zeros((len(x), self.context.shape[1]))
        queries[:, : self.input_dim], queries[:, self.input_dim] = x, 1.0
        return queries


def network_of(layer: Layer, context: Array) -> Network:
    """Return the float32 network of a layer with a context, a function of the query.

    Its numbers A_h = E W_K W_Q^T, b_h = 0 and V_h = E U_h, with the effective readout U_h of each
    head, are computed in float64 and rounded to float32. So the network is not quite the layer:
    look at its own outputs.

    Args:
        layer: H heads whose weights are floats
        context: E (n, d)

    Raises:
        ParameterError: for weights that are not floats, a context of another width, and products
            beyond float32

    Example:
        >>> from constructive import build_memorizer, generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
        >>> memorizer = build_memorizer(data, num_heads=3)
        >>> network = network_of(memorizer.layer, data.contexts[0])
        >>> bool(abs(network(data.queries[:1])[0, 0] - data.targets[0]) < 1e-4)
        True
    """
    floats = require_float_layer(layer, "instances")
    tokens = as_array(context).astype(np.float64)
    if tokens.ndim != 2 or tokens.shape[1] != floats.width:
        raise ParameterError(
            f"the context is not one of n tokens with {floats.width} entries",
            witness=shown(tokens.shape),
            suggestion="data.contexts[i], or data.contexts if all examples share it",
        )
    heads = zip(floats.query_weights, floats.key_weights, floats.readouts(), strict=True)
    with np.errstate(over="ignore"):
        return Network(
            tuple(
                Head(
                    (tokens @ key.astype(np.float64) @ query.astype(np.float64).T).astype("f4"),
                    np.zeros(len(tokens)),
                    (tokens @ readout).astype("f4"),
                )
                for query, key, readout in heads
            )
        )


def network_of_token(layer: Layer, context: Array, query: Array, token: int = 0) -> Network:
    """Return the float32 network of a layer as a function of how one token of a context moves.

    The token moves along an orthonormal basis N of the directions that no head's values read,
    U_h^T N = 0. The input z (r,) stands for the token x + N z. Its logit in head h is
    (x + N z)^T W_K W_Q^T e; all other logits, and all values, are constant. As in `network_of`,
    these numbers are computed in float64 and rounded to float32.

    Raises ParameterError as `network_of` does, for a token that is not there, and for values that
    read all directions.
    """
    floats, whole = require_float_layer(layer, "instances"), network_of(layer, context)
    tokens, readouts = as_array(context).astype(np.float64), floats.readouts()
    read = np.concatenate(list(readouts), axis=1)
    rank = int(np.linalg.matrix_rank(read))
    if not 0 <= token < len(tokens) or rank == len(read):
        raise ParameterError(
            f"there is no token {token}, or no direction that values do not read",
            witness=shown((len(tokens), rank, len(read))),
            suggestion="a token of the context, and fewer heads or outputs than the width",
        )
    basis = np.linalg.svd(read)[0][:, rank:]
    pairs = zip(floats.query_weights, floats.key_weights, whole.heads, strict=True)
    heads = []
    for query_weights, key_weights, head in pairs:
        key = key_weights.astype(np.float64) @ (query_weights.astype(np.float64).T @ query)
        slopes = np.zeros((len(tokens), basis.shape[1]))
        slopes[token] = key @ basis
        heads.append(Head(slopes.astype("f4"), (tokens @ key).astype("f4"), head.values))
    return Network(tuple(heads))
