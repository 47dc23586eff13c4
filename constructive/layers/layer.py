"""The layer: its weights, its forward pass, and the intermediate representation.

Notation: E a context (n, d), e a query (d,), H heads with W_Q, W_K (d, d_h), W_V (d, d_v), an
output matrix W_O (H d_v, d_o) and a readout W_D (d_o, d_out); the paper has d_o = d_v. ::

    alpha_h = softmax(E W_K W_Q^T e)                                   attention of head h, (n,)
    z       = [E^T alpha_1; ...; E^T alpha_H]                intermediate representation, (H d,)
    f(E, e) = W_D^T W_O^T [W_V1^T E^T alpha_1; ...; W_VH^T E^T alpha_H]            output, (d_out,)

All of it is evaluated by `layers.attention`, one loop for all layers and masks, with the softmax
of an arithmetic (`exact.softmax`). The logits carry no factor 1/sqrt(d_h). f is linear in z:
f = U^T z, with an *effective readout* U of shape (H d, d_out), and any U can be written in these
weights as soon as d_v >= d_out. Below that each head's part of U has rank d_v at most
(proofs/18-narrow-values.md).

Source: Mahdavi, Liao and Thrampoulidis (ICLR 2024), section 3.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from constructive.data.dataset import Dataset
from constructive.data.padded import Padded, as_padded
from constructive.data.shapes import ExampleShapes
from constructive.exact.formats import FLOAT32
from constructive.exact.softmax import FactoredFloats, Floats
from constructive.layers.attention import Chunk, View, after_attention, examples, flat
from constructive.support.arrays import (
    CHUNK_BYTES,
    AnyArray,
    Array,
    Integers,
    Rebuilt,
    as_array,
    checked_matrix,
    finite_array,
    first_place,
    private,
)
from constructive.support.errors import DataError, ParameterError, require_positive, shown

ArithmeticOf = Callable[[npt.DTypeLike], Floats]  # the arithmetic of weights of a dtype

# What the shapes of weights say, in any arithmetic.


FLOAT64_BITS = 53  # Bits of a float64, and so of a readout that is not a sum of several


class HeadShapes(Rebuilt):
    """The shapes of the weights of a layer, whatever their entries are."""

    query_weights: AnyArray
    key_weights: AnyArray

    @property
    def num_heads(self) -> int:
        """H, the number of heads."""
        return len(self.query_weights)

    @property
    def width(self) -> int:
        """d, the number of entries of a token or a query."""
        return int(self.query_weights.shape[1])

    @property
    def head_tensors(self) -> dict[str, AnyArray]:
        """What attention is made of, by the names which files give it."""
        return {"W_Q": self.query_weights, "W_K": self.key_weights}

    @property
    def head_dim(self) -> int:
        """d_h, the inner dimension of W_K W_Q^T."""
        return int(self.query_weights.shape[2])

    @property
    def num_parameters(self) -> int:
        """The number of entries of the weights."""
        return sum(array.size for array in vars(self).values() if isinstance(array, np.ndarray))


def check_targets(dataset: ExampleShapes, target_dim: int) -> None:
    """Raise DataError if targets have another number of entries than the outputs of a layer."""
    if dataset.target_dim != target_dim:
        raise DataError(
            f"targets have d_out={dataset.target_dim}, the layer {target_dim}",
            witness=dataset.target_dim,
            suggestion=f"targets with d_out={target_dim}",
        )


def require_floats(tensors: Mapping[str, AnyArray]) -> None:
    """Raise ParameterError for dtypes but float32 or float64 alone, and what is not finite."""
    kinds = sorted({str(array.dtype) for array in tensors.values()})
    if kinds not in (["float32"], ["float64"]):
        raise ParameterError(
            f"the weights have dtypes {kinds}",
            witness=tuple(kinds),
            suggestion="all float64, or all float32",
        )
    for name, array in tensors.items():
        wrong = ~np.isfinite(array)
        if wrong.any():
            place = first_place(wrong)
            raise ParameterError(
                f"{name}{list(place)} is {array[place]}",
                witness=(name, place),
                suggestion="finite weights only",
            )


# W_O and W_D that differ from head to head, and leave the outputs of a layer as they are.
#
# Identities for W_O and W_D give every effective readout
# (`AttentionLayer.from_effective_readout`). But then all heads have the same block of W_O, and an
# attention kernel that concatenates heads in a wrong order, transposes W_O or W_D, or leaves them
# out has the right outputs. So `drawn` replaces ::
#
#     W_V,h by W_V,h P_h^-1,     W_O,h by P_h W_O,h Q^-1,     W_D by Q W_D
#
# with P_h = R_h Q where d_v = d_o, and P_h = R_h elsewhere. Every R_h, and Q, is a *signed cycle*:
# a permutation matrix of one cycle, with signs, times a power of two. So identities become R_h and
# Q.
#
# *Proposition.* (1) In floats every product is exact, so W_V W_O W_D and |W_V| |W_O| |W_D| of each
# head keep their bits. (2) A signed cycle is not symmetric where its size is 2 or more, and never
# the identity. (3) R_h and R_g differ for 0 < |h - g| < 6. (4) R_h and R_(H-1-h) differ for some h
# if H >= 2. *Proof.* (1) Sums have one term that is not zero, and a power of two changes an
# exponent only, as `_in_range` makes sure. (2) The inverse of a cycle of 3 or more is another
# cycle; for 2 the signs differ; the power of two is not 1. (3) Six powers take turns. (4) By (3),
# for h = 0 unless H - 1 is a multiple of 6, and else for h = 1. QED
#
# Weights within 2^10 of either end of the range of floats get signed cycles without powers of two,
# of which (1) holds too, and (2) but for size 1.


_POWERS = 0.125, 0.25, 0.5, 2.0, 4.0, 8.0
_MARGIN = 2.0**10  # More than products of three of these powers


class Outputs(NamedTuple):
    """Weights after attention."""

    values: tuple[Array, ...]  # W_V (H, d, d_v); several arrays where W_V is their sum
    output: Array  # W_O (H d_v, d_o)
    readout: Array  # W_D (d_o, d_out)


class SignedCycles(NamedTuple):
    """Matrices P (k, m, m) whose row i has one entry that is not zero."""

    columns: Integers  # where that is (k, m)
    entries: Array  # what it is, a power of two with a sign (k, m)

    @classmethod
    def random(
        cls, count: int, size: int, powers: Sequence[float], rng: np.random.Generator
    ) -> "SignedCycles":
        """Draw `count` matrices of one size; matrices next to each other have other powers."""
        order = rng.permuted(np.tile(np.arange(size), (count, 1)), axis=1)
        columns = np.empty_like(order)
        np.put_along_axis(columns, order, np.roll(order, -1, axis=1), axis=1)
        signs = rng.choice([-1.0, 1.0], (count, size))
        signs[:, 1:2] = -signs[:, :1]
        return cls(columns, signs * np.resize(rng.permutation(powers), (count, 1)))

    def then(self, last: "SignedCycles") -> "SignedCycles":
        """Return P Q for the one matrix Q of `last`."""
        return SignedCycles(
            last.columns[0, self.columns], self.entries * last.entries[0, self.columns]
        )

    def times(self, matrices: Array) -> Array:
        """Return P M for M (k, m, ...)."""
        rows = np.take_along_axis(matrices, self.columns[:, :, np.newaxis], axis=1)
        product: Array = rows * self.entries[:, :, np.newaxis] + 0.0  # no negative zeros
        return product

    def undone(self, matrices: Array) -> Array:
        """Return M P^-1 for M (k, ..., m)."""
        columns = np.take_along_axis(matrices, self.columns[:, np.newaxis], axis=2)
        product: Array = columns / self.entries[:, np.newaxis] + 0.0
        return product


def drawn(given: Outputs, rng: np.random.Generator) -> Outputs:
    """Draw signed cycles, and fold them into float64 weights (see the module for what stays)."""
    heads, _, size = given.values[0].shape
    between = len(given.readout)
    powers = _POWERS if all(map(_in_range, (*given.values, given.output))) else (1.0,)
    last = SignedCycles.random(1, between, powers, rng)
    first = SignedCycles.random(heads, size, powers, rng)
    if size == between:
        first = first.then(last)
    output = first.times(given.output.reshape(heads, size, between))
    return Outputs(
        tuple(map(first.undone, given.values)),
        last.undone(output.reshape(1, -1, between))[0],
        last.times(given.readout[np.newaxis])[0],
    )


def _in_range(weights: Array) -> bool:
    """Return whether neither end of the range of floats is near."""
    limits, sizes = np.finfo(weights.dtype), np.abs(weights[weights != 0])
    least, most = limits.smallest_normal * _MARGIN, limits.max / _MARGIN
    return bool(((sizes >= least) & (sizes <= most)).all())


@dataclass(frozen=True, eq=False)
class AttentionLayer(HeadShapes):
    """Multi-head attention with a linear readout, as plain arrays of floats.

    All five arrays have one dtype, float64 or float32, and the layer computes in it. They are
    read-only copies of what was given.

    Attributes:
        query_weights: W_Q (H, d, d_h)
        key_weights: W_K (H, d, d_h)
        value_weights: W_V (H, d, d_v)
        output_weights: W_O (H d_v, d_o); in layers that are built d_o is the larger one of d_v and
            d_out
        readout_weights: W_D (d_o, d_out)
        float_model: the model of floating-point programs that the layer is one of, in float32

    Raises:
        ParameterError: for what is not an array, shapes that do not fit, mixed or other dtypes, and
            entries that are not finite

    Example:
        >>> layer = AttentionLayer.from_effective_readout(
        ...     np.zeros((1, 2, 1)), np.zeros((1, 2, 1)), np.array([[1.0], [10.0]])
        ... )
        >>> layer([[[1.0, 0.0], [0.0, 1.0]]], [[3.0, 4.0]])  # uniform attention: the mean token
        array([[5.5]])
    """

    query_weights: Array
    key_weights: Array
    value_weights: Array
    output_weights: Array
    readout_weights: Array

    float_model: ClassVar[str] = FLOAT32

    def __post_init__(self) -> None:
        for field in fields(AttentionLayer):
            object.__setattr__(self, field.name, private(field.name, getattr(self, field.name)))
        _check_weights(self._floats)

    @classmethod
    def from_effective_readout(
        cls,
        query_weights: Array,
        key_weights: Array,
        effective_readout: Array,
        value_dim: int | None = None,
    ) -> "AttentionLayer":
        """Return the layer with f = U^T z, for U = effective_readout of shape (H d, d_out).

        U_h fills the first d_out columns of W_Vh; W_O and W_D copy them through (identities padded
        with zeros). `build_memorizer` then draws others (`with_outputs`).

        Args:
            query_weights: W_Q (H, d, d_h)
            key_weights: W_K (H, d, d_h)
            effective_readout: U (H d, d_out), of the same dtype
            value_dim: d_v; by default d_out

        Raises:
            ParameterError: if d_v < d_out, as such a layer has too few outputs, and for weights
                that `AttentionLayer` refuses
        """
        num_heads, target_dim = len(query_weights), effective_readout.shape[1]
        width = len(effective_readout) // num_heads
        value_dim = target_dim if value_dim is None else value_dim
        if value_dim < target_dim:
            message = f"value_dim={value_dim} is less than the d_out={target_dim} of the targets"
            raise ParameterError(message, witness=value_dim, suggestion=f"value_dim={target_dim}")
        dtype = effective_readout.dtype
        value_weights = np.zeros((num_heads, width, value_dim), dtype)
        value_weights[:, :, :target_dim] = effective_readout.reshape(num_heads, width, target_dim)
        copy_through = np.eye(value_dim, dtype=dtype)
        return cls(
            query_weights,
            key_weights,
            value_weights,
            np.concatenate([copy_through] * num_heads),
            copy_through[:, :target_dim].copy(),
        )

    @classmethod
    def from_projections(
        cls,
        query: npt.ArrayLike,
        key: npt.ArrayLike,
        value: npt.ArrayLike,
        output: npt.ArrayLike,
        num_heads: int,
        num_kv_heads: int | None = None,
        *,
        readout: npt.ArrayLike | None = None,
        query_bias: npt.ArrayLike | None = None,
        value_bias: npt.ArrayLike | None = None,
        output_bias: npt.ArrayLike | None = None,
        readout_bias: npt.ArrayLike | None = None,
    ) -> "AttentionLayer":
        """Return the attention of a checkpoint, in float64, from its arrays (out, in).

        Logits are divided by sqrt(d_h), in W_Q, which is rounded unless d_h is a power of 4. With a
        bias the layer takes data with a constant entry (`Dataset.with_constant`). A bias of the
        keys changes nothing: it adds the same to all logits of a head. A layer that rotates queries
        and keys by their positions (RoPE) is not of this form.

        Args:
            query: (H d_h, d); tensors are read as numbers
            key: (G d_h, d)
            value: (G d_v, d)
            output: (d_o, H d_v)
            num_heads: H
            num_kv_heads: G, heads of keys and values, each for H / G heads in turn; by default H
            readout: (d_out, d_o), a linear map of the outputs; by default none
            query_bias: (H d_h,)
            value_bias: (G d_v,)
            output_bias: (d_o,)
            readout_bias: (d_out,)

        Raises:
            DataError: for what are not finite matrices
            ParameterError: for numbers of heads that are not positive, and shapes that do not fit

        Example:
            >>> projections = np.ones((4, 3)), np.ones((2, 3)), np.ones((2, 3)), np.ones((3, 4))
            >>> AttentionLayer.from_projections(*projections, num_heads=2, num_kv_heads=1)
            AttentionLayer(H=2, d=3, d_h=2, d_v=2, d_out=3, float64)
        """
        projections = {"query": query, "key": key, "value": value, "output": output}
        biases = {
            "query_bias": query_bias,
            "value_bias": value_bias,
            "output_bias": output_bias,
            "readout_bias": readout_bias,
        }
        return cls(*_weights_of(projections, readout, num_heads, num_kv_heads, biases))

    @property
    def tensors(self) -> dict[str, Array]:
        """The weights by the names which files give them."""
        return self._floats

    @property
    def _floats(self) -> dict[str, Array]:
        return {
            **self.head_tensors,
            "W_V": self.value_weights,
            "W_O": self.output_weights,
            "W_D": self.readout_weights,
        }

    @property
    def in_words(self) -> str:
        """In what numbers the weights are, in words."""
        return f"{self.query_weights.dtype} weights"

    def with_outputs(self, rng: np.random.Generator) -> "AttentionLayer":
        """Return the same f with random W_O and W_D; W_V undoes them exactly (`drawn`)."""
        given = Outputs((self.value_weights,), self.output_weights, self.readout_weights)
        (values,), output, readout = drawn(given, rng)
        return AttentionLayer(self.query_weights, self.key_weights, values, output, readout)

    @property
    def value_dim(self) -> int:
        """d_v, the number of entries of a head's value."""
        return int(self.value_weights.shape[2])

    @property
    def target_dim(self) -> int:
        """d_out, the number of entries of the output."""
        return int(self.readout_weights.shape[1])

    @property
    def effective_readout(self) -> Array:
        """U with f = U^T z, of shape (H d, d_out)."""
        return self.readouts(self.query_weights.dtype).reshape(-1, self.target_dim)

    def readouts(self, dtype: npt.DTypeLike = np.float64) -> Array:
        """Return W_V W_O W_D of each head: (H, d, d_out)."""
        weights = self.value_weights, self.output_weights, self.readout_weights
        w_v, w_o, w_d = (array.astype(dtype, copy=False) for array in weights)
        readouts: Array = w_v @ w_o.reshape(self.num_heads, self.value_dim, -1) @ w_d
        return readouts

    def __call__(
        self, contexts: npt.ArrayLike, queries: npt.ArrayLike, *, chunk_bytes: int = CHUNK_BYTES
    ) -> Array:
        """Evaluate f on examples: (T, d_out).

        Args:
            contexts: (T, n, d) or one shared (n, d)
            queries: (T, d)
            chunk_bytes: about the size of temporary arrays, in bytes; by default 4 MiB

        Raises:
            DataError: if shapes do not fit the layer
        """
        return self._outputs(contexts, queries, FactoredFloats, chunk_bytes)

    def _outputs(
        self,
        contexts: npt.ArrayLike,
        queries: npt.ArrayLike,
        arithmetic: ArithmeticOf,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> Array:
        readout = self.effective_readout
        return self._collected(
            examples(*self.checked_inputs(contexts, queries)),
            (self.target_dim,),
            lambda chunk: flat(chunk.representation) @ readout,
            chunk_bytes,
            arithmetic,
        )

    def attention(
        self, contexts: npt.ArrayLike, queries: npt.ArrayLike, *, chunk_bytes: int = CHUNK_BYTES
    ) -> Array:
        """Return the softmax weights alpha of every head on every example: (T, H, n).

        Args:
            contexts: (T, n, d) or one shared (n, d)
            queries: (T, d)
            chunk_bytes: about the size of temporary arrays, in bytes; by default 4 MiB

        Raises:
            DataError: if shapes do not fit the layer
        """
        view = examples(*self.checked_inputs(contexts, queries))
        shape = self.num_heads, view.tokens.shape[1]
        return self._collected(view, shape, lambda chunk: chunk.attention, chunk_bytes)

    def intermediate(
        self, contexts: npt.ArrayLike, queries: npt.ArrayLike, *, chunk_bytes: int = CHUNK_BYTES
    ) -> Array:
        """Return the intermediate representation Z, a row z for each example: (T, H d).

        Args:
            contexts: (T, n, d) or one shared (n, d)
            queries: (T, d)
            chunk_bytes: about the size of temporary arrays, in bytes; by default 4 MiB

        Raises:
            DataError: if shapes do not fit the layer
        """
        return self._collected(
            examples(*self.checked_inputs(contexts, queries)),
            (self.num_heads * self.width,),
            lambda chunk: flat(chunk.representation),
            chunk_bytes,
        )

    def _collected(
        self,
        view: View,
        shape: tuple[int, ...],
        of: Callable[[Chunk[Array]], Array],
        chunk_bytes: int,
        kind: ArithmeticOf = FactoredFloats,
    ) -> Array:
        """What is made of each example after attention: (T, ...)."""
        weights = self.query_weights, self.key_weights
        arithmetic = kind(self.query_weights.dtype)
        out = np.empty((*view.shape, *shape), arithmetic.dtype)

        def stored(chunk: Chunk[Array]) -> None:
            out[chunk.rows] = of(chunk)

        for _ in after_attention(stored, arithmetic, weights, view, chunk_bytes=chunk_bytes):
            pass
        return out

    def check_fits(self, dataset: Dataset) -> None:
        """Refuse a dataset that does not fit the layer."""
        self._require_fit(dataset.context_shape, dataset.queries.shape)
        check_targets(dataset, self.target_dim)

    def max_error(self, dataset: Dataset) -> float:
        """Return the largest `|f - y|` over the data, as evaluated in the dtype of the weights.

        Args:
            dataset: T examples

        Raises:
            DataError: if shapes do not fit the layer
        """
        return float(self.column_errors(dataset).max())

    def column_errors(self, dataset: Dataset, arithmetic: ArithmeticOf = FactoredFloats) -> Array:
        """Return the largest `|f - y|` of each entry of the output: (d_out,).

        Args:
            dataset: T examples
            arithmetic: how floats are evaluated; by default as `layer(...)` does

        Raises:
            DataError: if shapes do not fit the layer, or the data are rational
        """
        self.check_fits(dataset)
        worst = np.zeros(self.target_dim)
        for rows, contexts in dataset.blocks():
            outputs = self._outputs(contexts, dataset.queries[rows], arithmetic)
            worst = np.maximum(worst, np.abs(outputs - dataset.target_matrix[rows]).max(axis=0))
        return worst

    def astype(self, dtype: npt.DTypeLike) -> "AttentionLayer":
        """Return the same layer with weights rounded to float32 or float64.

        Args:
            dtype: one of the two

        Raises:
            ParameterError: for another one, and for weights beyond its range
        """
        kind = dtype_of(dtype)
        with np.errstate(over="ignore"):  # what is infinite then is refused
            return AttentionLayer(*(array.astype(kind) for array in self._floats.values()))

    def __repr__(self) -> str:
        return (
            f"AttentionLayer(H={self.num_heads}, d={self.width}, d_h={self.head_dim}, "
            f"d_v={self.value_dim}, d_out={self.target_dim}, {self.query_weights.dtype})"
        )

    def checked_inputs(self, contexts: npt.ArrayLike, queries: npt.ArrayLike) -> tuple[Any, Array]:
        """Return the inputs as arrays; contexts of different lengths as `Padded`."""
        given, queries = as_padded(contexts), as_array(queries)
        read = given if isinstance(given, Padded) else as_array(given)
        self._require_fit(read.shape, queries.shape)
        for name, array in (("contexts", read), ("queries", queries)):
            checked = isinstance(array, Padded) or array.dtype.kind != "f" or not array.size
            # Without an array of Booleans, as contexts may fill the memory.
            if not (checked or np.isfinite([array.max(), array.min()]).all()):
                finite_array(name, array, copy=False)  # raises, with the place
        return read, queries

    def _require_fit(self, contexts: tuple[int, ...], queries: tuple[int, ...]) -> None:
        """Raise DataError for shapes that do not fit the layer."""
        fits = (
            len(queries) == 2
            and len(contexts) in (2, 3)
            and contexts[-1] == queries[1] == self.width
            and (len(contexts) == 2 or contexts[0] == queries[0])
            and contexts[-2] > 0
        )
        if not fits:
            message = f"contexts {contexts} and queries {queries} do not fit the layer"
            suggestion = f"contexts (T, n, d) or (n, d) and queries (T, d) with d={self.width}"
            if queries[-1:] == (self.width - 1,):
                suggestion += ", or Dataset.with_constant() for weights of a module with biases"
            raise DataError(message, witness=(contexts, queries), suggestion=suggestion)


def dtype_of(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Read a dtype as numpy does. Raises ParameterError for anything else."""
    try:
        return np.dtype(dtype)
    except TypeError as error:
        raise ParameterError(
            f"dtype={shown(dtype)} is not a dtype",
            witness=shown(dtype),
            suggestion="float32 or float64",
        ) from error


def require_single_target(target_dim: int, *, scalar_targets: bool) -> None:
    """Raise ParameterError for outputs (T,) of a layer that has several for each example."""
    if scalar_targets and target_dim != 1:
        raise ParameterError(
            f"scalar_targets=True, but the layer has d_out={target_dim}",
            witness=target_dim,
            suggestion="scalar_targets=False",
        )


def _check_weights(arrays: dict[str, Array]) -> None:
    shapes = {name: array.shape for name, array in arrays.items()}
    axes = {"W_Q": 3, "W_K": 3, "W_V": 3, "W_O": 2, "W_D": 2}
    fits = all(arrays[name].ndim == count for name, count in axes.items())
    if fits:
        num_heads, width, _ = shapes["W_Q"]
        value_dim = shapes["W_V"][2]
        fits = (
            shapes["W_K"] == shapes["W_Q"]
            and shapes["W_V"][:2] == (num_heads, width)
            and shapes["W_O"][0] == num_heads * value_dim
            and shapes["W_D"][0] == shapes["W_O"][1]
            and min(min(shape) for shape in shapes.values()) > 0
        )
    if not fits:
        message = "the shapes of the weights do not fit together"
        suggestion = "W_Q and W_K (H, d, d_h), W_V (H, d, d_v), W_O (H d_v, d_o), W_D (d_o, d_out)"
        raise ParameterError(message, witness=shapes, suggestion=suggestion)
    require_floats(arrays)


# Projections of a checkpoint as weights: rows for outputs, shared keys, biases.
#
# *Biases.* Append an entry 1 to every token and every query (`Dataset.with_constant`). Then a bias
# of the queries is one more row of W_Q. A bias of the keys adds the same number to all logits of a
# head, which softmax does not see. Attention sums to one, so a bias of the values is one more row
# of W_V, which reads the constant entry; and one more value, the constant itself, carries the
# biases of the output and of the readout through W_O and W_D. So the layer equals what it was read
# from, as real functions, on the longer tokens. What is rounded is only W_Q, by the factor
# 1/sqrt(d_h), and not even that where d_h is a power of 4.

Weights = tuple[Array, Array, Array, Array, Array]  # W_Q, W_K, W_V, W_O and W_D of a layer


def _weights_of(
    projections: Mapping[str, object],
    readout: object,
    num_heads: int,
    num_kv_heads: int | None,
    biases: Mapping[str, object],
) -> Weights:
    """Return the weights that `AttentionLayer.from_projections` describes, in float64.

    projections: query, key, value and output, (out, in);  biases: None where there is none
    """
    shared = num_heads if num_kv_heads is None else num_kv_heads
    require_positive(num_heads=num_heads, num_kv_heads=shared)
    query, key, value, output = (
        checked_matrix(f"{name} projections", array).astype(np.float64)
        for name, array in projections.items()
    )
    width, inner = query.shape[1], len(query) // num_heads
    fits = (
        num_heads % shared == len(query) % num_heads == 0
        and key.shape == (shared * inner, width)
        and len(value) % shared == 0
        and value.shape[1] == width
        and output.shape[1] == num_heads * (len(value) // shared)
    )
    if not fits:
        shapes = {"query": query, "key": key, "value": value, "output": output}
        raise ParameterError(
            f"projections do not fit {num_heads} heads with {shared} of keys and values",
            witness={name: array.shape for name, array in shapes.items()},
            suggestion="query (H d_h, d), key (G d_h, d), value (G d_v, d), output (d_o, H d_v) "
            "with H a multiple of G; weight.T where a checkpoint has (in, out), as GPT-2 has",
        )
    last = np.eye(len(output)) if readout is None else checked_matrix("readout", readout)
    if last.shape[1] != len(output):
        raise ParameterError(
            f"the readout {last.shape} does not fit outputs of {len(output)} entries",
            witness=last.shape,
            suggestion=f"a readout (d_out, {len(output)})",
        )
    each = np.arange(num_heads) // (num_heads // shared)  # the keys and values of each head
    heads = _heads(query, num_heads), _heads(key, shared)[each], _heads(value, shared)[each]
    weights: Weights = *heads, output.T, last.astype(np.float64).T
    if any(bias is not None for bias in biases.values()):
        sizes = len(query), len(value), len(output), len(last)
        of_query, of_value, *ends = (
            _bias(name, bias, size)
            for (name, bias), size in zip(biases.items(), sizes, strict=True)
        )
        of_value = of_value.reshape(shared, -1)[each].ravel()
        weights = _with_biases(weights, of_query, of_value, *ends)
    return weights[0] / math.sqrt(inner), *weights[1:]


def _heads(projection: Array, count: int) -> Array:
    """(H k, d) as (H, d, k)."""
    heads: Array = projection.reshape(count, -1, projection.shape[1]).swapaxes(1, 2)
    return heads


def _bias(name: str, bias: object, size: int) -> Array:
    if bias is None:
        return np.zeros(size)
    row: Array = checked_matrix(name, [bias])[0].astype(np.float64)
    if len(row) != size:
        raise ParameterError(
            f"{name} has {len(row)} entries, its projection {size} rows",
            witness=len(row),
            suggestion=f"{size} entries",
        )
    return row


def _with_biases(
    weights: Weights, of_query: Array, of_value: Array, of_output: Array, of_readout: Array
) -> Weights:
    """Return weights for tokens with a constant entry (see above)."""
    query, key, value, output, last = weights
    heads, width, inner = value.shape
    query = np.concatenate([query, of_query.reshape(heads, 1, -1)], axis=1)
    key = np.pad(key, ((0, 0), (0, 1), (0, 0)))
    value = np.concatenate([value, of_value.reshape(heads, 1, inner)], axis=1)
    value = np.pad(value, ((0, 0), (0, 0), (0, 1)))
    value[0, width, inner] = 1.0
    rows = np.zeros((heads, inner + 1, output.shape[1] + 1))
    rows[:, :inner, :-1] = output.reshape(heads, inner, -1)
    rows[0, inner, :-1], rows[0, inner, -1] = of_output, 1.0
    return query, key, value, rows.reshape(heads * (inner + 1), -1), np.vstack([last, of_readout])
