"""`SequenceMemorizer`: two token-wise networks around one layer of uniform attention."""

import dataclasses
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np
import numpy.typing as npt

from constructive.sequences.examples import (
    SequenceDataset,
    Task,
    decoded,
    encoded,
    expected_outputs,
    known_vectors,
    met,
    numbered,
    other_tokens,
    rectangular,
)
from constructive.sequences.network import (
    Column,
    Floats,
    ReluNetwork,
    UniformAttention,
    rounded_outputs,
    rows_of_floats,
)
from constructive.support.arrays import Integers
from constructive.support.errors import DataError, ParameterError, require
from constructive.support.files import Json, JsonFile, replacing
from constructive.support.tables import Sheet, Shown, new_table

# How many weights a sequence memorizer has at most, by Theorem 7 (proofs/14-sequences.md has what
# each part takes), and at least. L(x) is the number of bits of x. M is at most N (nN for seq2seq),
# Q may be taken about M^2, and R below n q (P + 1), so that all grows as sqrt(M log(M C)), up to
# logarithms of n, U and N. The bound holds where `max_word_bits` is not given.


@dataclass(frozen=True)
class BoundSizes:
    """The numbers in the bound; those that may be long by their bits."""

    keys: int  # M, of the examples
    width: int  # d
    label_bits: int  # of C, the range of what is put out
    token_bits: int  # of U, above projections of tokens
    residue_bits: int  # of q
    # of a power hash, which no construction makes; files name it
    prime_bits: int = field(default=0, kw_only=True)
    kept: int  # S, of a separating set; 0 for others
    weight_bits: int  # of W, of a separating set; 0 for others
    sum_bits: int  # of R, above keys before they are reduced
    key_bits: int  # of Q, above keys after that

    @property
    def bound(self) -> int:
        """The number of non-zero weights that is not exceeded."""
        embedding = 4 * (self.width + 1) + 14 * self.token_bits
        if self.kept:
            embedding += dictionary_bound(self.kept, self.weight_bits, self.residue_bits)
            embedding += 14 * self.residue_bits
        else:
            embedding += 40 * self.residue_bits
        classifier = dictionary_bound(self.keys, self.label_bits, self.key_bits)
        return embedding + 2 + 14 * (self.sum_bits + self.key_bits) + 8 + classifier


def dictionary_bound(keys: int, label_bits: int, key_bits: int) -> int:
    """Return the bound for a dictionary alone: of M keys, and of the bits of C and Q."""
    reach = label_bits + key_bits
    # Below these f one bit more saves 28 k or more blocks, and costs 15 (k - 1).
    return 40 + min(
        14 * (-(-keys // entries) + (1 << (reach - bits)) + 1)
        + 15 * ((entries - 1) * bits + entries)
        for entries in range(1, 4 * isqrt(keys) + 2)
        for bits in range(max(1, reach - entries.bit_length() - 2), reach + 1)
    )


def fewest_weights(*, keys: int, classes: int, places: int, width: int) -> int:
    """Return how many real weights some labeling needs with uniform attention (Proposition 14.7).

    With n^3 N in place of `places`, nN, it is for hardmax, too.
    """
    wanted: int = (classes**keys - 1).bit_length()  # C^M <= 2^x for integers x from here on

    def reached(weights: int) -> bool:
        patterns = 4 * weights * (2 * (weights + width)).bit_length()
        signs = (22 * weights * places * classes).bit_length()  # 8 e < 22
        return patterns + (weights // 2 + 1) * weights * signs >= wanted

    return bisect_left(range(wanted + 1), x=True, key=reached)


# How a sequence memorizer came to be, as its file keeps it.


_LARGEST = 1 << 32  # Of the sizes in a record


@dataclass(frozen=True)
class SequenceRecord:
    """How a sequence memorizer came to be.

    Attributes:
        construction: as in `build_sequence_memorizer`
        max_word_bits: as there
        seed: as there
        num_sequences: N
        sizes: the numbers in the bound of Theorem 7 (`BoundSizes`)
    """

    construction: str
    max_word_bits: int | None
    seed: int
    num_sequences: int
    sizes: BoundSizes


def read_record(content: Json) -> SequenceRecord:
    """Return the record of a file. Raises ValueError, TypeError or KeyError for another one."""
    record = dict(content)
    sizes = BoundSizes(**record.pop("sizes"))
    if sizes.prime_bits:
        raise ValueError("its record is of a power hash, which no construction makes")
    found = SequenceRecord(**record, sizes=sizes)
    counts = [*dataclasses.astuple(sizes), found.seed, found.num_sequences]
    if found.max_word_bits is not None:
        counts.append(found.max_word_bits)
    small = all(type(x) is int and 0 <= x < _LARGEST for x in dataclasses.astuple(sizes))
    if not small or any(type(x) is not int or x < 0 for x in counts):
        raise ValueError("a number of its record is not a number")
    if not (isinstance(found.construction, str) and found.construction.isidentifier()):
        raise ValueError("the construction in its record is not a name")
    return found


if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class SequenceMemorizer(JsonFile, Shown):
    """Two token-wise ReLU networks around one layer of uniform attention, in exact arithmetic.

    `repr` is one line, `str` a table, which notebooks show.

    Attributes:
        task: what a label belongs to: "next", "last" or "seq2seq"
        context_size: n
        embedding: from the d entries of a token to the stream (h, t, 0), or (h, 0) for the task
            next
        attention: adds up h over the context, in the last entry of the stream: (h, t, S)
        classifier: from the stream to the label
        symbols: tokens that are not numbers, in the order of the integers that stand for them;
            None for numbers
        classes: labels that are not integers, in the order of the integers that stand for them;
            None for integers
        record: how it was built

    Raises:
        ParameterError: for parts that do not fit together
    """

    FORMAT = "constructive sequence memorizer 1"
    claimed_by: ClassVar[str] = "constructive.sequences.claims"

    task: Task
    context_size: int
    embedding: ReluNetwork
    attention: UniformAttention
    classifier: ReluNetwork
    symbols: tuple[Hashable, ...] | None
    classes: tuple[Hashable, ...] | None
    record: SequenceRecord

    def __post_init__(self) -> None:
        stream = self.embedding.outputs
        widths = {stream, self.classifier.layers[0].width, len(self.attention.value_weights)}
        fits = len(widths) == 1 and stream > 1 and self.classifier.outputs == 1
        if not fits or self.task not in get_args(Task) or not self.context_size > 0:
            raise _misfit("its parts do not fit together", (self.task, self.context_size, widths))
        if self.symbols is not None and self.width != 1:
            raise _misfit("symbols are one number each", self.width)
        for name, listed in (("symbol", self.symbols), ("class", self.classes)):
            if listed is not None and len(set(listed)) != len(listed):
                raise _misfit(f"a {name} is there twice", len(listed))

    def predict(self, sequences: Sequence[Any]) -> list[Any]:
        """Return the label of each sequence; for seq2seq a list of labels, one for each token.

        Exact: all numbers on the way are integers or Fractions.

        Args:
            sequences: any number of them, of n tokens each; tokens may be any numbers, and symbols
                must be those that were memorized

        Raises:
            DataError: for other tokens, and for sequences of another length
        """
        columns, ids = self.encode(sequences)
        return self.labeled(self.outputs(columns, ids), len(ids))

    def encode(self, sequences: Sequence[Any]) -> tuple[list[Column], Integers]:
        """Encode tokens as the network reads them: columns (V,) for entries, and indices (N, n).

        A symbol is its index.
        """
        listed = rectangular(sequences)
        if len(listed[0]) != self.context_size:
            raise DataError(
                f"sequences have {len(listed[0])} tokens, not {self.context_size}",
                witness=len(listed[0]),
                suggestion=f"n={self.context_size}",
            )
        different, ids = numbered(listed)
        tokens = known_vectors(different, self.symbols, self.width)
        return list(tokens.T), ids

    def encode_dataset(self, dataset: SequenceDataset) -> tuple[list[Column], Integers]:
        """Return the same for a dataset of the same task, context size and kind of tokens."""
        size = dataset.ids.shape[1]
        if dataset.task != self.task or size != self.context_size:
            raise DataError(
                f"the data are for task={dataset.task!r} and n={size}, the memorizer is for "
                f"{self.task!r} and n={self.context_size}",
                witness=(dataset.task, size),
                suggestion="the data that it was built for",
            )
        tokens = dataset.tokens
        if dataset.symbols is not None or self.symbols is not None:
            vectors = dataset.symbols or tuple(map(_token, dataset.tokens.tolist()))
            tokens = known_vectors(vectors, self.symbols, self.width)
        elif tokens.shape[1] != self.width:
            raise other_tokens(tokens[0].tolist(), self.width)
        return list(tokens.T), dataset.ids

    def outputs(self, columns: list[Column], ids: Integers) -> Column:
        """Return the output of the classifier for each example, a column (N,) or (N n,): integers.

        columns, ids: of `encode`
        """
        stream = self.attention(self.embedding(columns), ids)
        chosen = slice(None if self._every else -1, None)
        return self.classifier([column[:, chosen].reshape(-1) for column in stream])[0]

    def labeled(self, outputs: Column, count: int) -> list[Any]:
        """Return outputs of `count` sequences as labels; None where one stands for no class."""
        found: list[Any] = outputs.tolist()
        if self.classes is not None:
            found = [self._class(value) for value in found]
        if not self._every:
            return found
        size = self.context_size
        return [found[start : start + size] for start in range(0, count * size, size)]

    def _class(self, value: int) -> Hashable:
        classes = self.classes or ()
        known = isinstance(value, int) and 0 <= value < len(classes)
        return classes[value] if known else None

    def arrays(self, sequences: Sequence[Any], dtype: npt.DTypeLike = np.float64) -> Floats:
        """Return sequences as the exported models take them: (N, n, d), rounded to floats.

        Args:
            sequences: as for `predict`
            dtype: float64, the default, or float32

        Raises:
            DataError: as for `predict`, and for tokens beyond all floats
            ParameterError: for another dtype
        """
        columns, ids = self.encode(sequences)
        tokens = rows_of_floats(columns, dtype)
        if not np.isfinite(tokens).all():
            raise DataError(
                f"a token is beyond {np.dtype(dtype).name}",
                witness=int(np.flatnonzero(~np.isfinite(tokens).all(axis=1))[0]),
                suggestion="smaller numbers",
            )
        return tokens[ids]

    def reproduced(self, dataset: SequenceDataset, dtype: npt.DTypeLike = np.float64) -> float:
        """Measure the share of labels that are right when all is computed in floats.

        Words of more bits than a float has are lost: expect 1.0 for a construction of floats and
        `max_word_bits=52`, and chance for long words. Attention is computed as exported models do,
        by rounded shares 1/n, and a label counts if it is met within 1/8; other programs may add in
        another order.

        Args:
            dataset: the sequences, and the labels that are compared
            dtype: of all numbers; float64, the default, or float32

        Raises:
            DataError: for data of another task or size, and as for `predict`
            ParameterError: for another dtype
        """
        columns, ids = self.encode_dataset(dataset)
        tokens = rows_of_floats(columns, dtype)
        found = rounded_outputs(
            self.embedding, self.attention, self.classifier, tokens, ids, every=self._every
        )
        values = expected_outputs(self.classes, dataset.classes)
        pairs = zip(found.tolist(), dataset.labels.tolist(), strict=True)
        return sum(met(out, values[label]) for out, label in pairs) / len(found)

    def to_torch(self, dtype: "torch.dtype | None" = None) -> "torch.nn.Module":
        """Return a PyTorch module with the same weights: `interop.pytorch.SequenceModule`.

        `forward(sequences)` takes (N, n, d) (`arrays`) and gives outputs (N,), or (N, n) for
        seq2seq: labels when rounded, for classes their indices. Measure `reproduced` before.

        Args:
            dtype: torch.float64, the default, or torch.float32

        Raises:
            MissingExtraError: without torch
            PrecisionError: where a weight is not a number of that dtype
            ParameterError: for another dtype
        """
        require("torch", extra="torch", purpose="SequenceMemorizer.to_torch")
        from constructive.interop import pytorch  # noqa: PLC0415 - torch is optional

        given = {} if dtype is None else {"dtype": dtype}
        return pytorch.SequenceModule(
            self.embedding, self.attention, self.classifier, task=self.task, **given
        )

    def to_onnx(self, path: str | Path, dtype: npt.DTypeLike = np.float64) -> None:
        """Write an ONNX model, whole or not at all; an old file of that name is replaced.

        Input sequences (N, n, d), output outputs (N,), or (N, n) for seq2seq, in that dtype; N is
        free. What they are is said at `to_torch`.

        Args:
            path: the file, .onnx; an old one of that name is replaced
            dtype: float64, the default, or float32

        Raises:
            MissingExtraError: without onnx
            PrecisionError: where a weight is not a number of that dtype
            ParameterError: for another dtype
            OutputError: where the file cannot be written
        """
        require("onnx", extra="onnx", purpose="SequenceMemorizer.to_onnx")
        from constructive.interop import onnx_graph  # noqa: PLC0415 - onnx is optional

        model = onnx_graph.sequence_model(
            self.embedding, self.attention, self.classifier,
            task=self.task, context_size=self.context_size, dtype=dtype,
        )  # fmt: skip
        with replacing(path) as file:
            file.write(model.SerializeToString())

    @property
    def width(self) -> int:
        """d, the entries of a token."""
        return self.embedding.layers[0].width

    @property
    def _every(self) -> bool:
        """Whether every position has an output, and not the last one alone."""
        return self.task == "seq2seq"

    @property
    def nonzero_parameters(self) -> int:
        """Weights and biases that are not zero."""
        return sum(part.nonzero_parameters for part in self._parts)

    @property
    def total_parameters(self) -> int:
        """Weights and biases of dense matrices."""
        return sum(part.total_parameters for part in self._parts)

    @property
    def largest_bits(self) -> int:
        """Bits of the longest weight of the two networks."""
        return max(self.embedding.largest_bits, self.classifier.largest_bits)

    @property
    def total_bits(self) -> int:
        """Bits of all weights of the two networks that are not zero."""
        return self.embedding.total_bits + self.classifier.total_bits

    @property
    def _parts(self) -> tuple[ReluNetwork | UniformAttention, ...]:
        return self.embedding, self.attention, self.classifier

    def content(self) -> Json:
        """Return what `save` writes."""
        classes = self.classes
        return {
            "format": self.FORMAT,
            "task": self.task,
            "context_size": self.context_size,
            "embedding": self.embedding.content(),
            "attention": self.attention.content(),
            "classifier": self.classifier.content(),
            "symbols": None if self.symbols is None else list(map(encoded, self.symbols)),
            "classes": None if classes is None else list(map(encoded, classes)),
            "record": dataclasses.asdict(self.record),
        }

    @classmethod
    def from_content(cls, content: Json) -> "SequenceMemorizer":
        """Return the memorizer of which `content` is the content; else ValueError."""
        symbols, classes = (
            None if content[name] is None else tuple(map(decoded, content[name]))
            for name in ("symbols", "classes")
        )
        if type(content["context_size"]) is not int:
            raise ValueError("its context size is not a number")
        return cls(
            content["task"],
            content["context_size"],
            ReluNetwork.from_content(content["embedding"]),
            UniformAttention.from_content(content["attention"]),
            ReluNetwork.from_content(content["classifier"]),
            symbols,
            classes,
            read_record(content["record"]),
        )

    def __repr__(self) -> str:
        return (
            f"SequenceMemorizer({self.task}, n={self.context_size}, "
            f"{self.nonzero_parameters:,} parameters, depth "
            f"{self.embedding.depth} + {self.classifier.depth})"
        )

    def _sheet(self) -> Sheet:
        record, sizes = self.record, self.record.sizes
        kind = f"{len(self.symbols)} symbols" if self.symbols is not None else f"d = {self.width}"
        facts = (
            ("examples", f"N = {record.num_sequences}, n = {self.context_size}, {kind}, "
                         f"{sizes.keys} keys, labels of {sizes.label_bits} bits"),
            ("weights", f"{self.nonzero_parameters:,} non-zero (Theorem 7: at most "
                        f"{sizes.bound:,}), of up to {self.largest_bits} bits"),
            ("options", f"{record.construction}, seed {record.seed}"),
        )  # fmt: skip
        table = new_table(
            "part", "depth", "width", "non-zero", "total", "largest bits", left=("part",)
        )
        for name, part in zip(("embedding", "attention", "classifier"), self._parts, strict=True):
            depth, width = (part.depth, part.width) if isinstance(part, ReluNetwork) else (1, 1)
            counts = part.nonzero_parameters, part.total_parameters
            numbers = depth, width, *counts, part.largest_bits
            table.add_row(name, *(f"{x:,}" for x in numbers))
        return Sheet(f"SequenceMemorizer: task {self.task}, exact", facts, table)


def _misfit(problem: str, witness: object) -> ParameterError:
    return ParameterError(problem, witness=witness, suggestion="build_sequence_memorizer(...)")


def _token(vector: list[Any]) -> Hashable:
    return vector[0] if len(vector) == 1 else tuple(vector)
