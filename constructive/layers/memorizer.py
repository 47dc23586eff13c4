"""`Memorizer`: a layer with the record of how it was built."""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from constructive.data.dataset import Dataset
from constructive.data.labels import labels_of, require_classes
from constructive.data.shapes import require_examples
from constructive.layers.extended import ExtendedLayer, require_float_layer
from constructive.layers.layer import (
    AttentionLayer,
    dtype_of,
    require_single_target,
)
from constructive.layers.record import (
    BuildRecord,
    TrainedRecord,
    memorizer_sheet,
    read_record,
)
from constructive.support.arrays import (
    UNREADABLE,
    AnyArray,
    Array,
    Integers,
    Rebuilt,
    as_array,
    private,
)
from constructive.support.errors import (
    DataError,
    ParameterError,
    in_three_parts,
    require,
    with_article,
)
from constructive.support.files import replacing
from constructive.support.tables import Sheet, Shown
from constructive.support.tensors import FileForm, load_tensors, require_only, serialized

# The file of a memorizer: tensors of a layer, and its record as JSON in the metadata.


FORM = FileForm(
    "constructive memorizer 1", "record", "a memorizer", "Memorizer.save or `constructive build`"
)


def _layer(arrays: dict[str, Array], precision: int) -> AttentionLayer:
    w_q, w_k, w_v, w_o, w_d = (arrays[name] for name in ("W_Q", "W_K", "W_V", "W_O", "W_D"))
    if "W_V_corrections" in arrays:
        return ExtendedLayer(w_q, w_k, w_v, w_o, w_d, arrays["W_V_corrections"], precision)
    return AttentionLayer(w_q, w_k, w_v, w_o, w_d)


if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class HeadRecipe:
    """One head as the proofs write it: it gives the tokens of E the logits E W e.

    W = W_K W_Q^T = W* + c u w^T. W* = V B^T makes the logits of the group that the head serves, and
    w is orthogonal to the queries of this group. On other examples c u w^T *saturates* the head: u
    scores the tokens, and c is so large that the token with the extreme score takes nearly all of
    the attention (proofs/3-heads.md, proofs/7-rank-one-heads.md).

    Attributes:
        examples: (k,), the group, as indices of the dataset; None where heads serve no groups
        sharpness: c, or 0 where nothing saturates
        u: (d,), zero where c = 0
        w: (d,), of length one, or zero where c = 0
        keys: V (d, k); for saturated heads E_t v_t are the logits of the group's example t
        queries: B (d, k); for saturated heads the dual basis of the group: e_t B is a unit vector
    """

    examples: Integers | None
    sharpness: float
    u: Array = field(repr=False)
    w: Array = field(repr=False)
    keys: Array = field(repr=False)
    queries: Array = field(repr=False)

    @property
    def W_star(self) -> Array:  # noqa: N802 - its name in the proofs
        """W* (d, d), which makes the logits of the group."""
        product: Array = self.keys @ self.queries.T
        return product


@dataclass(frozen=True, eq=False)
class Memorizer(Rebuilt, Shown):
    """A layer whose weights were constructed to reproduce every target of a dataset.

    `repr` is one line, `str` a table, which notebooks show.

    Attributes:
        layer: the weights: `AttentionLayer`, or `ExtendedLayer` where the readout has more bits
        record: how they were built, head by head, and the error measured on the data; or where they
            come from (`from_torch`)
        saturating: w of each head (H, d), which files do not hold; None if it is not known

    Raises:
        ParameterError: for a record of scalar targets with a layer of several outputs
        DataError: for a record of more or fewer classes than the layer has outputs
    """

    layer: AttentionLayer
    record: BuildRecord | TrainedRecord
    saturating: Array | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.record, BuildRecord | TrainedRecord):
            raise ParameterError(
                f"the record is {with_article(type(self.record).__name__)}",
                suggestion="TrainedRecord(source, scalar_targets=False, constant=False)",
            )
        require_single_target(self.layer.target_dim, scalar_targets=self.record.scalar_targets)
        require_classes(self.record.classes, self.layer.target_dim)
        if self.saturating is not None:
            object.__setattr__(self, "saturating", private("saturating", self.saturating))

    @property
    def built(self) -> BuildRecord:
        """The record of a memorizer that was built. Raises ParameterError for trained weights."""
        if isinstance(self.record, TrainedRecord):
            raise ParameterError(
                f"weights of {with_article(self.record.source)} were not built here, and have no "
                "groups",
                witness=self.record.source,
                suggestion="a memorizer from build_memorizer, or memorizer.max_error(dataset)",
            )
        return self.record

    @property
    def heads(self) -> tuple[HeadRecipe, ...]:
        """The recipe: each head as W = W* + c u w^T, from its weights.

        *Saturated heads* hold B and V in the first k columns of W_Q and W_K, and sqrt(c) w and
        sqrt(c) u in column k, which is the one that saturates. *Rank-one heads* and pairs have
        W = u b^T with u in the first column of W_K, and b = b_1 + c w, with all of c, in that of
        W_Q. Here V is u and B is b_1. Other heads have no saturating part, so W* is W.

        Raises:
            ParameterError: for rank-one heads and pairs that were read from a file, which does not
                say how b is split

        Example:
            >>> from constructive import build_memorizer, generators
            >>> data = generators.uniform(num_examples=7, context_size=3, width=5)
            >>> memorizer = build_memorizer(data, num_heads=3)
            >>> head, layer = memorizer.heads[2], memorizer.layer
            >>> head.examples
            array([5, 6])
            >>> W = layer.key_weights[2] @ layer.query_weights[2].T
            >>> np.allclose(W, head.W_star + head.sharpness * np.outer(head.u, head.w))
            True
            >>> bool(abs(data.queries[head.examples] @ head.w).max() < 1e-14)
            True
        """
        return tuple(map(self._head, range(self.layer.num_heads)))

    def _head(self, index: int) -> HeadRecipe:
        record, examples, sharpness, size = self.record, None, 0.0, 0
        keys, queries = self.layer.key_weights[index], self.layer.query_weights[index]
        if record.heads:
            measured = record.heads[index]
            sharpness, size = measured.sharpness, measured.stop - measured.start
            if record.grouped or record.order:
                examples = np.arange(measured.start, measured.stop)
                examples = np.array(record.order, dtype=int)[examples] if record.order else examples
        if not sharpness:
            u, w = np.zeros((2, self.layer.width))
        elif record.construction == "saturated" and size < self.layer.head_dim:
            root = math.sqrt(sharpness)
            u, w = keys[:, size] / root, queries[:, size] / root
            keys, queries = keys[:, :size], queries[:, :size]
        elif self.saturating is not None:
            u, w = keys[:, 0], self.saturating[index]
            keys, queries = keys[:, :1], queries[:, :1] - sharpness * w[:, np.newaxis]
        else:
            raise ParameterError(
                f"a file of {record.construction} heads does not say which part of b is c w",
                witness=record.construction,
                suggestion="build_memorizer again, with the seed= of its record",
            )
        return HeadRecipe(examples, sharpness, u, w, keys, queries)

    @in_three_parts
    def predict(self, contexts: npt.ArrayLike, queries: npt.ArrayLike) -> Array:
        """Evaluate the layer: (T,) if it memorized targets of shape (T,), else (T, d_out).

        One query without the axis of examples gives one output without it: a number, or (d_out,).
        `memorizer(contexts, queries)` is the same.

        Args:
            contexts: (T, n, d) or one shared (n, d), or T arrays (n_i, d) of different lengths;
                (n, d) for one query (d,)
            queries: (T, d), or (d,) for one example

        Raises:
            DataError: if the shapes do not fit the layer
            PrecisionError: if the readout has more bits, and an output cannot be enclosed

        Example:
            >>> from constructive import build_memorizer
            >>> data = Dataset([[1, 0], [1, 1]], [[2, 3], [4, 6]], [5, 7])
            >>> context, query, target = data[1]
            >>> bool(abs(build_memorizer(data).predict(context, query) - target) < 1e-9)
            True
        """
        several = _one_more_axis(contexts, queries)
        outputs = self.layer(contexts, queries if several is None else several)
        outputs = outputs[:, 0] if self.record.scalar_targets else outputs
        return outputs if several is None else outputs[0]

    __call__ = predict

    def predict_labels(self, contexts: npt.ArrayLike, queries: npt.ArrayLike) -> AnyArray:
        """Return the class of the largest output of each example: (T,), or one label.

        Every input gets the label of some class. What is proved of them, for the examples that
        were memorized, follows from the claim *error* (`data.labels`).

        Args:
            contexts: as for `predict`
            queries: as for `predict`

        Raises:
            ParameterError: unless it was built from `Dataset.of_classes`
            DataError: as `predict` does
            PrecisionError: as `predict` does

        Example:
            >>> from constructive import build_memorizer
            >>> data = Dataset.of_classes([[1, 0], [1, 1]], [[2, 3], [4, 6]], ["dog", "cat"])
            >>> build_memorizer(data).predict_labels(data.contexts, data.queries).tolist()
            ['dog', 'cat']
        """
        if not self.record.classes:
            raise ParameterError(
                "the targets that were memorized are not classes",
                witness=self.record.construction,
                suggestion="build_memorizer(Dataset.of_classes(contexts, queries, labels)), or "
                "predict for numbers",
            )
        return labels_of(self.predict(contexts, queries), self.record.classes)

    @in_three_parts
    def max_error(self, dataset: Dataset) -> float:
        """Return the largest `|f(E, e) - y|` over the examples and the entries of their targets.

        As the dtype of the weights evaluates it; an upper bound, from balls, where the readout has
        more bits.

        Args:
            dataset: T examples

        Raises:
            ParameterError: for what is not a dataset
            DataError: if the data do not fit the layer
        """
        require_examples(dataset, Dataset)
        return self.layer.max_error(dataset)

    def astype(self, dtype: npt.DTypeLike) -> "Memorizer":
        """Return the same memorizer with rounded weights; measure `max_error` anew.

        Args:
            dtype: float32 or float64

        Raises:
            ParameterError: for a readout beyond float64; for
                another dtype, and for weights beyond its range
        """
        layer = require_float_layer(self.layer, f"arrays of {dtype_of(dtype)}")
        return dataclasses.replace(self, layer=layer.astype(dtype))

    def save(self, path: str | Path) -> None:
        """Write a .safetensors file, whole or not at all.

        Tensors W_Q, W_K, W_V, W_O, W_D as in `AttentionLayer`, and W_V_corrections where the
        readout has more bits (`ExtendedLayer`); the record is JSON in the metadata.

        Args:
            path: the file, .safetensors; an old one of that name is replaced

        Raises:
            OutputError: where the file cannot be written
        """
        written = json.dumps(dataclasses.asdict(self.record))
        content = serialized(self.layer.tensors, {"format": FORM.name, FORM.key: written})
        with replacing(path, ".safetensors") as file:
            file.write(content)

    @classmethod
    def load(cls, path: str | Path) -> "Memorizer":
        """Read a file written by `save`.

        Args:
            path: the file

        Raises:
            FormatError: if it is not one
            OSError: if it cannot be read
        """

        def made(arrays: dict[str, Array], fields: dict[str, Any]) -> "Memorizer":
            record = read_record(fields)
            layer = _layer(arrays, record.precision)
            require_only(arrays, layer.tensors)
            expected = 0 if record.free or record.construction == "trained" else layer.num_heads
            if len(record.heads) != expected:
                raise ValueError(f"{layer.num_heads} heads have {len(record.heads)} records")
            return cls(layer, record)

        return load_tensors(path, FORM, made)

    def to_torch(
        self, dtype: "torch.dtype | None" = None, *, multihead: bool = False
    ) -> "torch.nn.Module":
        """Return the layer as a PyTorch module, with the same weights.

        `forward(contexts, queries)` gives what `predict` does, as tensors; contexts of different
        lengths are one tensor with a third argument, the mask of `padded`. Rounding to float32 or
        bfloat16 is not for free: measure, as with `astype`. `float_model` of the module names the
        model of floating-point programs that it belongs to in float32, for the claim *executed*;
        in bfloat16 it belongs to none.

        Args:
            dtype: what they are rounded to, such as `torch.bfloat16`; by default as they are
            multihead: False for `interop.pytorch.AttentionModule`, which holds any layer; True for
                a `torch.nn.MultiheadAttention` and a `torch.nn.Linear` (`MultiheadModule`), which
                ask for H d_h = d, d_v = d_h and d_o <= d

        Raises:
            MissingExtraError: without torch
            ParameterError: for a readout beyond float64, for shapes that
                `MultiheadAttention` does not have, and for a dtype that is no `torch.dtype` of
                real numbers
        """
        layer = require_float_layer(self.layer, "PyTorch modules")
        require("torch", extra="torch", purpose="Memorizer.to_torch")
        from constructive.interop import pytorch  # noqa: PLC0415 - torch is optional

        scalar = self.record.scalar_targets
        pytorch.check_dtype(dtype)
        kind = pytorch.multihead_module if multihead else pytorch.AttentionModule
        return kind(layer, scalar_targets=scalar).to(dtype)

    @classmethod
    def from_torch(cls, module: "torch.nn.Module", dataset: Dataset | None = None) -> "Memorizer":
        """Read the weights of a PyTorch module, trained ones also, as they are in evaluation mode.

        Where it has biases, the layer is one for data with a constant entry, of width d + 1
        (`Dataset.with_constant`; see `interop.torch_reading` for why). `MultiheadAttention`
        divides by sqrt(d_h); here W_Q is divided, in float64. Other weights are not rounded.

        Args:
            module: what `to_torch` gives, or any module whose `forward(contexts, queries)` is one
                `torch.nn.MultiheadAttention` (batch_first) and one `torch.nn.Linear`
            dataset: examples on which any but an unchanged `AttentionModule`, which is known, is
                compared with what was read, beside random ones; by default none

        Raises:
            MissingExtraError: without torch
            ParameterError: for a module that is or does something else, as far as these
                comparisons in float64 show. They are not proof: a module that differs elsewhere is
                not found out
            DataError: for examples whose shapes do not fit, whatever the module is
        """
        require("torch", extra="torch", purpose="Memorizer.from_torch")
        from constructive.interop import torch_reading  # noqa: PLC0415 - torch is optional

        found = torch_reading.read_module(module, dataset)
        source = type(module).__name__
        return cls(found.layer, TrainedRecord(source, found.scalar_targets, found.constant))

    def to_onnx(self, path: str | Path, *, shared_context: bool = False) -> None:
        """Write an ONNX model of the layer, whole or not at all.

        Inputs contexts (T, n, d) and queries (T, d), output predictions (T,) or (T, d_out), in the
        dtype of the weights; T and n are free, but all contexts of one run have one length. Its
        metadata have the `float_model` that it belongs to in float32.

        Args:
            path: the file, .onnx; an old one of that name is replaced
            shared_context: whether contexts are one (n, d) rather than (T, n, d)

        Raises:
            MissingExtraError: without onnx
            ParameterError: for a readout beyond float64
            OutputError: where the file cannot be written
        """
        layer = require_float_layer(self.layer, "ONNX models")
        require("onnx", extra="onnx", purpose="Memorizer.to_onnx")
        from constructive.interop import onnx_graph  # noqa: PLC0415 - onnx is optional

        scalar = self.record.scalar_targets
        model = onnx_graph.layer_model(layer, scalar_targets=scalar, shared_context=shared_context)
        with replacing(path, ".onnx") as file:
            file.write(model.SerializeToString())

    def __repr__(self) -> str:
        return f"Memorizer({self.record.summary(self.layer)})"

    def _sheet(self) -> Sheet:
        return memorizer_sheet(self.layer, self.record)


def _one_more_axis(contexts: npt.ArrayLike, queries: npt.ArrayLike) -> npt.ArrayLike | None:
    """Return one query (d,) as (1, d), or None where queries have an axis of examples.

    A context (n, d) may be the only one or shared; so it is the queries that tell.
    """
    try:
        asked = as_array(queries)
        if asked.ndim != 1:
            return None
        given = as_array(contexts).shape
    except UNREADABLE:  # the layer says what is wrong
        return None
    if len(given) != 2:
        raise DataError(
            f"one query {asked.shape} has contexts {given}",
            witness=(given, asked.shape),
            suggestion="one context (n, d) for one query (d,), or queries (T, d)",
        )
    # A list stays one: numpy would make floats of long integers, which a rational layer takes.
    return [queries] if isinstance(queries, list | tuple) else asked[np.newaxis]
