"""Networks of softmax heads: what one attention layer computes of its query, contexts fixed.

With fixed contexts the logits are affine functions of the query x, so a layer is ::

    f(x) = sum_h V_h^T softmax(A_h x + b_h),    A_h (n, d), b_h (n,), V_h (n, k).

Conversely every such f is an attention layer on one context (Lemma 20.1, proofs/20-instances.md).

All entries are float32 numbers, so a graph in float32, a property in decimals and a proof in
rational numbers are about one function.

Two networks go on from there: `Rectified` has a ReLU readout of its heads, `Stacked` a layer of
heads before them. Proofs are about a sum of heads that has the same answer on the box (`reduced`).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from constructive.instances.properties import Linear, Property, float32_numbers
from constructive.layers.extended import require_float_layer
from constructive.layers.layer import AttentionLayer
from constructive.support.arrays import Array, Rebuilt, as_array
from constructive.support.errors import ParameterError, shown


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
    def input_dim(self) -> int:
        """d, the entries of an input."""
        return int(self.heads[0].slopes.shape[1])

    @property
    def output_dim(self) -> int:
        """k, the entries of an output."""
        return int(self.heads[0].values.shape[1])

    def __call__(self, inputs: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> Array:
        """Evaluate f: (N, k)."""
        x = np.asarray(inputs, dtype=dtype)
        total = np.zeros((len(x), self.heads[0].values.shape[1]), dtype)
        for head in self.heads:
            with np.errstate(invalid="ignore"):  # set by unused lanes of BLAS, too (numpy#24067)
                logits = x @ head.slopes.T.astype(dtype) + head.offsets.astype(dtype)
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            total += weights / weights.sum(axis=1, keepdims=True) @ head.values.astype(dtype)
        return total

    def reduced(self, wanted: Property) -> "Reduced":
        """Return a sum of heads, and a property of it that has the same answer."""
        return Reduced(self, wanted)


def _exactly(terms: Sequence[float]) -> float:
    """Add numbers that float64 holds, where it holds the sum. Raises ParameterError elsewhere."""
    total = math.fsum(terms)
    left = math.fsum([-total, *terms])
    if left:
        raise ParameterError(
            "float64 does not hold a sum of numbers of a network",
            witness=left,
            suggestion="numbers with few bits, such as multiples of 1/256",
        )
    return total


class Reduced(NamedTuple):
    """A sum of heads, and a property of it that has the answer of another network on the box."""

    network: Network
    property: Property


@dataclass(frozen=True, eq=False)
class Rectified(Network):
    """Heads with k outputs, and a readout of them by units, sum_j relu(w_j . f + c_j).

    The units' weights are -1, 0 and 1. As relu(z) = max(z, 0), the output is the largest of its
    pieces, the sums of any of the units' affine functions, and reaches a threshold if and only if
    one of these does (Proposition 20.9).
    """

    units: Array  # w (m, k)
    biases: Array  # c (m,)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, axes in (("units", 2), ("biases", 1)):
            object.__setattr__(self, name, float32_numbers(name, getattr(self, name), axes))
        features = self.heads[0].values.shape[1]
        fits = self.units.shape == (len(self.biases), features) and features <= _MOST_FEATURES
        if not fits or not np.isin(self.units, (-1.0, 0.0, 1.0)).all():
            raise ParameterError(
                "the units do not fit the heads",
                witness=(self.units.shape, self.biases.shape, features),
                suggestion="units (m, k) of entries -1, 0, 1, biases (m,), and heads with k <= 2",
            )

    @property
    def output_dim(self) -> int:
        """One, the sum of the units."""
        return 1

    def __call__(self, inputs: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> Array:
        """Evaluate the readout: (N, 1)."""
        features = super().__call__(inputs, dtype)
        units = features @ self.units.T.astype(dtype) + self.biases.astype(dtype)
        found: Array = np.maximum(units, 0.0).sum(axis=1, keepdims=True)
        return found

    def reduced(self, wanted: Property) -> Reduced:
        """Return the heads, and a disjunct for each piece of each condition."""
        pieces = []
        for (condition, *others), chosen in itertools.product(wanted.disjuncts, self.patterns()):
            above = condition.coefficients[0] == 1.0 and condition.threshold > 0.0
            coefficients = self.units[chosen].sum(axis=0)
            if others or not above or np.abs(coefficients).max() > 1.0:
                raise ParameterError(
                    "the property is not one whose pieces are known",
                    witness=condition.threshold,
                    suggestion="Y_0 >= c alone, c above 0",
                )
            threshold = _exactly([condition.threshold, *(-self.biases[chosen]).tolist()])
            pieces.append((Linear(coefficients, threshold),))
        return Reduced(Network(self.heads), Property(wanted.box, tuple(pieces)))

    def patterns(self) -> list[list[int]]:
        """Units of each piece: all sets but the empty one, in the order of their bits."""
        count = len(self.biases)
        sets = ([j for j in range(count) if bits >> j & 1] for bits in range(1, 1 << count))
        return list(sets)


@dataclass(frozen=True, eq=False)
class Stacked(Network):
    """Heads of x + g(x), where g is a layer of heads with one output for each input."""

    first: Network  # g; the first token of each head is to have nearly all its weight

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first.input_dim != self.first.output_dim or self.first.input_dim != self.input_dim:
            raise ParameterError(
                "the layers do not fit",
                witness=(self.first.input_dim, self.first.output_dim, self.input_dim),
                suggestion="a first layer with as many outputs as inputs, and as the second has",
            )

    @property
    def shift(self) -> Array:
        """The values of the first tokens of the first layer, added: (d,)."""
        rows = [head.values[0].tolist() for head in self.first.heads]
        return float32_numbers(
            "shift", [math.fsum(column) for column in zip(*rows, strict=True)], 1
        )

    def __call__(self, inputs: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> Array:
        """Evaluate both layers: (N, k)."""
        x = np.asarray(inputs, dtype=dtype)
        return super().__call__(x + self.first(x, dtype), dtype)

    def reduced(self, wanted: Property) -> Reduced:
        """Return the second layer of x + v, v the shift: the rest of g changes less than 1e-50."""
        shift, made = self.shift, []
        for head in self.heads:
            rows = zip(head.offsets.tolist(), head.slopes * shift, strict=True)
            offsets = [_exactly([b, *products.tolist()]) for b, products in rows]
            made.append(Head(head.slopes, np.array(offsets), head.values))
        return Reduced(Network(tuple(made)), wanted)


LEAD = 128.0  # Nats by which the first tokens of a first layer have to lead
_MOST_FEATURES = 2  # Of a readout: values of a piece are sums of two float32 numbers


def network_of(layer: AttentionLayer, context: Array) -> Network:
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
