"""The data to memorize: contexts, queries and targets, checked once at the border."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from constructive.data.labels import IGNORED, Label, one_hot, require_classes, same_classes
from constructive.data.padded import Padded, as_padded
from constructive.data.shapes import (
    ARRAYS,
    LENGTHS,
    ExampleShapes,
    check_shapes,
    require_examples,
)
from constructive.data.stored import StoredContexts, read_archive, read_folder, write_folder
from constructive.support.arrays import (
    CHUNK_BYTES,
    AnyArray,
    Array,
    Integers,
    Tensor,
    as_array,
    finite_array,
    first_place,
    frozen,
    readable_array,
    row_chunks,
    with_one,
)
from constructive.support.errors import (
    AssumptionError,
    DataError,
    ParameterError,
    as_path,
    in_three_parts,
    with_article,
)
from constructive.support.files import replacing
from constructive.support.tensors import fingerprint


def indices(examples: npt.ArrayLike, total: int) -> AnyArray:
    """Return indices of some of T = `total` examples, which may be from -T on, or T Booleans.

    Raises DataError for anything else, and where nothing is taken.
    """
    ways = f"indices from 0 to {total - 1}, or {total} Booleans, in a list or array"
    index = readable_array("the examples to take", examples, ways)
    if index.dtype == bool and index.shape == (total,):
        index = np.flatnonzero(index)
    if not index.size:
        raise DataError("no examples to take", witness=index.shape, suggestion=ways)
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise DataError(
            f"the examples to take are an array {index.shape} of {index.dtype}",
            witness=index.shape,
            suggestion=ways,
        )
    beyond = index[(index < -total) | (index >= total)]
    if len(beyond):
        raise DataError(
            f"there is no example with index {beyond[0]} among {total}",
            witness=int(beyond[0]),
            suggestion=ways,
        )
    return index


def arrays_of(examples: object) -> tuple[Tensor, Tensor, Tensor]:
    """Return contexts, queries and targets of a dataset of PyTorch, which is not imported here.

    Raises ParameterError for what gives no examples, and DataError for what are not triples.
    """
    given: Tensor = examples
    wanted = "a TensorDataset(contexts, queries, targets), or examples (context, query, target)"
    if hasattr(given, "tensors"):
        columns = tuple(given.tensors)
        counts = {len(columns)}
    else:
        try:
            rows = [tuple(given[index]) for index in range(len(given))]
        except TypeError as error:
            name = type(given).__name__
            raise ParameterError(
                f"{with_article(name)} does not give examples by their index: {error}",
                witness=name,
                suggestion=wanted,
            ) from error
        counts = {len(row) for row in rows}
        columns = tuple(map(list, zip(*rows, strict=False)))
    if counts != {3}:
        listed = sorted(counts)
        raise DataError(
            f"examples have {' or '.join(map(str, listed)) or 'no'} parts, not a context, a query "
            "and a target",
            witness=listed,
            suggestion=wanted,
        )
    contexts, queries, targets = columns
    shape = tuple(getattr(contexts[0], "shape", (None, None)))
    if len(shape) != 2:
        raise DataError(
            f"the context of the first example has {len(shape)} axes, not (n, d)",
            witness=shape,
            suggestion=f"{wanted}, with contexts (n, d); Dataset(context, queries, targets) for "
            "one context that all share",
        )
    return contexts, queries, targets


class Example(NamedTuple):
    """One example, as `dataset[i]` and iteration give it; its arrays are read-only views.

    Attributes:
        context: (n, d)
        query: (d,)
        target: (d_out,), or a number where targets are (T,)
    """

    context: Array
    query: Array
    target: Tensor


@dataclass(frozen=True, eq=False, init=False)
class Dataset(ExampleShapes):
    """T examples, each a context of n tokens, a query and a target.

    Anything that numpy reads as real numbers is accepted. float32 and float64 stay as they are;
    float16 and bfloat16 become float32, and integers become float64, exactly. The arrays are
    read-only copies: what happens to those that were given changes nothing here. Tensors with
    gradients, pandas and other libraries' arrays are read as numbers.

    Contexts may have different lengths, as a list of arrays or as `padded(contexts, mask)`. Then
    `contexts` is `Padded`, and each example attends to its own tokens only.

    Where contexts are `on_disk` (`open`), `contexts` maps them, and rows are read as they are used.

    `len(data)` is T, `data[2]` an `Example`, `data[:3]` or `data[[4, 0]]` a dataset of some
    (`take`), and `for context, query, target in data` walks through all. `==` compares shapes,
    dtypes and all entries.

    Attributes:
        contexts: (T, n, d), or (n, d) for one context that all examples share (never copied T
            times), or T arrays (n_i, d) of different lengths
        queries: (T, d)
        targets: (T,) or (T, d_out)
        classes: what each of the d_out entries of a target stands for, where they are one-hot
            classes (`of_classes`); by default nothing
        on_disk: the file of the contexts, where they are not in memory
        num_examples: T
        context_size: n, of the longest context
        width: d
        target_dim: d_out
        context_shape: (T, n, d), or (n, d) for a shared context
        context_dtype: float32 or float64
        shared_context: whether all examples have one context
        lengths: the number of tokens of each context (T,), or None where all have n
        target_matrix: the targets as (T, d_out), also where they were given as (T,)

    Raises:
        DataError: for shapes that do not fit, a dtype that is not real, integers beyond 2^53,
            no example at all, and for a NaN or an infinity (the witness is its index)

    Example:
        >>> data = Dataset(contexts=[[[1, 0], [1, 1]]], queries=[[2, 3]], targets=[5])
        >>> data
        Dataset(T=1, n=2, d=2, d_out=1, own contexts, float64)
        >>> len(data), float(data[0].target), data == data[:1]
        (1, 5.0, True)
        >>> Dataset([[[1, 0]], [[1, 0], [1, 1]]], [[2, 3], [4, 6]], [5, 7])
        Dataset(T=2, n=1 to 2, d=2, d_out=1, own contexts, float64)
    """

    source: Array | Padded | StoredContexts  # of contexts
    queries: Array
    targets: Array
    classes: tuple[Label, ...] = ()

    def __init__(
        self, contexts: object, queries: object, targets: object, classes: object = ()
    ) -> None:
        _fill(self, (contexts, queries, targets), classes, copy=True)

    @property
    def contexts(self) -> Array:
        """The contexts; those on disk are mapped anew, as a mapping keeps in memory what is read.

        They are `Padded` where contexts have different lengths.
        """
        source: Any = self.source
        contexts: Array = source.mapped() if self.on_disk else source
        return contexts

    @property
    def on_disk(self) -> StoredContexts | None:
        """The file of the contexts, where they are not in memory."""
        return self.source if isinstance(self.source, StoredContexts) else None

    @property
    def lengths(self) -> Integers | None:
        """The number of tokens of each context (T,), or None where all have n."""
        return self.source.lengths if isinstance(self.source, Padded) else None

    @property
    def context_shape(self) -> tuple[int, ...]:
        """(T, n, d), or (n, d) for one context that all examples share."""
        return self.source.shape

    @property
    def context_dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.source.dtype

    @classmethod
    def of_classes(
        cls,
        contexts: object,
        queries: object,
        labels: object,
        classes: object = None,
    ) -> "Dataset":
        """Return examples with a class label each: targets are one-hot, a column for each class.

        `Memorizer.predict_labels` gives labels back; a certificate of the claim *error* with an
        epsilon below 1/2 proves all of them, by a margin of 1 - 2 epsilon (`data.labels`).

        Args:
            contexts: as for `Dataset`
            queries: (T, d)
            labels: T strings, T integers or T Booleans: a list, an array, a tensor, or a column
                of pandas, categories among them
            classes: what the columns stand for, as a list, or their number C for 0 to C - 1; by
                default the labels that occur, sorted

        Raises:
            DataError: for labels of other or several types or missing ones, -100 (what PyTorch's
                losses ignore) unless it is one of the classes, and as for a `Dataset`

        Example:
            >>> data = Dataset.of_classes([[1, 0], [1, 1]], [[2, 3], [4, 6]], ["dog", "cat"])
            >>> data.classes, data.targets.tolist()
            (('cat', 'dog'), [[0.0, 1.0], [1.0, 0.0]])
        """
        return cls(contexts, queries, *one_hot(labels, classes))

    @classmethod
    def of_sequences(
        cls,
        tokens: object,
        labels: object,
        classes: object = None,
        *,
        ignored: int = IGNORED,
    ) -> "Dataset":
        """Return an example for each position of sequences that has a label.

        Its context are the tokens up to the position, as causal heads see them, and its query is
        the last of them.

        Args:
            tokens: (B, N, d)
            labels: (B, N) integers
            classes: as for `of_classes`
            ignored: the label of positions that are no examples, such as padding

        Raises:
            DataError: for shapes that do not fit, where all positions are ignored, and as
                `of_classes` does

        Example:
            >>> data = Dataset.of_sequences(np.eye(3)[np.newaxis], [[-100, 1, 0]], classes=2)
            >>> data, data[1].query
            (Dataset(T=2, n=2 to 3, d=3, d_out=2, own contexts, float64), array([0., 0., 1.]))
        """
        read, wanted = as_array(tokens), as_array(labels)
        if read.ndim != 3 or wanted.shape != read.shape[:2] or not (wanted != ignored).any():
            raise DataError(
                f"tokens {read.shape} and labels {wanted.shape} give no examples",
                witness=(read.shape, wanted.shape),
                suggestion="tokens (B, N, d) and labels (B, N), some of which are not "
                f"ignored={ignored}",
            )
        places = np.argwhere(wanted != ignored)
        contexts = [read[sequence, : position + 1] for sequence, position in places]
        sequences, positions = places.T
        queries = read[sequences, positions]
        return cls.of_classes(contexts, queries, wanted[sequences, positions], classes)

    @classmethod
    def from_torch(
        cls,
        examples: object,
        *,
        labels: bool = False,
    ) -> "Dataset":
        """Read a PyTorch dataset. Equal inputs with equal targets are merged, with a warning.

        No weights give two outputs for one input (`distinct`), so that a dataset with repeated
        inputs is not memorized as it is. What memorizes the merged one reproduces all examples.

        Args:
            examples: `torch.utils.data.TensorDataset(contexts, queries, targets)`, or any dataset
                with a length whose examples are such triples, a `Subset` among them. Contexts
                may have different lengths
            labels: whether targets are class labels, as for `of_classes`

        Raises:
            ParameterError: for what gives no examples by index
            DataError: for examples that are not triples, as a `Dataset` does, and for equal inputs
                with different targets (the witness names two examples)

        Example:
            >>> import torch
            >>> from torch.utils.data import TensorDataset
            >>> tensors = torch.eye(3)[None].repeat(2, 1, 1), torch.eye(3)[:2], torch.ones(2)
            >>> Dataset.from_torch(TensorDataset(*tensors))
            Dataset(T=2, n=3, d=3, d_out=1, own contexts, float32)
        """
        make = Dataset.of_classes if labels else Dataset
        given = make(*arrays_of(examples))
        merged = given.distinct()
        if len(merged) < len(given):
            warnings.warn(
                f"{len(given) - len(merged)} of {len(given)} examples repeat an input with its "
                f"target: merged, {len(merged)} are left",
                stacklevel=2,
            )
        return merged

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> Example: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int] | AnyArray) -> "Dataset": ...

    def __getitem__(self, index: Any) -> "Example | Dataset":
        """One example for an integer, a dataset for a slice, a list or an array (`take`)."""
        if isinstance(index, int | np.integer) and not isinstance(index, bool):
            (place,) = indices([int(index)], self.num_examples)
            (context,) = self.stored_rows(np.array([place]))
            return Example(context, self.queries[place], self.targets[place])
        if isinstance(index, slice):
            index = range(*index.indices(self.num_examples))
        if isinstance(index, tuple):
            raise DataError(
                f"examples have one axis, and {len(index)} indices are given",
                witness=index,
                suggestion="dataset[i].context, dataset[i].query or dataset[i].target",
            )
        return self.take(index)

    def __iter__(self) -> Iterator[Example]:
        return (self[index] for index in range(self.num_examples))

    def take(self, examples: npt.ArrayLike) -> "Dataset":
        """Return some of the examples, in the given order.

        Args:
            examples: their indices, or a Boolean for each of the T examples

        Raises:
            DataError: for an index that is not from -T to T - 1 (the witness is the first), for
                what are not integers or not T Booleans in one axis, and where nothing is taken

        Example:
            >>> Dataset([[1, 0], [1, 1]], [[2, 3], [4, 6]], [5, 7]).take([1]).targets
            array([7.])
        """
        index = indices(examples, self.num_examples)
        contexts = self.contexts if self.shared_context else self.stored_rows(index)
        return owning(contexts, self.queries[index], self.targets[index], self.classes)

    def distinct(self) -> "Dataset":
        """Return the data with each input once: the first example of each, in the given order.

        Inputs are equal if their queries are, and their contexts have the same tokens, in any
        order, as attention does not see it. Returns the data themselves where all differ.

        Raises:
            DataError: for equal inputs with different targets (the witness names two examples)

        Example:
            >>> data = Dataset([[1, 0], [1, 1]], [[2, 3], [4, 6], [2, 3]], [5, 7, 5])
            >>> data.distinct().targets
            array([5., 7.])
        """
        first = first_of_each(self)
        targets = self.target_matrix
        apart = np.flatnonzero((targets != targets[first]).any(axis=1))
        if len(apart):
            raise refusal(self, int(first[apart[0]]), int(apart[0]))
        kept = np.unique(first)
        return self if len(kept) == len(self) else self.take(kept)

    def with_constant(self) -> "Dataset":
        """Return the data with an entry 1 appended to every token and every query: d becomes d + 1.

        A layer without biases does on them what one with biases does on the data as they are.

        Example:
            >>> Dataset([[2, 0], [2, 1]], [[3, 4]], [5]).with_constant().contexts
            array([[2., 0., 1.],
                   [2., 1., 1.]])
        """
        longer = with_one(self.filled.contexts)
        contexts = longer if self.lengths is None else Padded(longer, self.lengths)
        return owning(contexts, with_one(self.queries), self.targets, self.classes)

    @property
    def filled(self) -> "Dataset":
        """The data with contexts of one length: shorter ones repeat their first token.

        These span the same, and have the same largest entries. Attention to them differs, as it
        counts repeated tokens. Returns the data themselves where contexts have one length.
        """
        if self.lengths is None:
            return self
        padded: Any = self.contexts
        return owning(padded.tokens, self.queries, self.targets, self.classes)

    @property
    def largest_token_entry(self) -> float:
        """The largest `|x|` of an entry x of the contexts."""
        if self.on_disk:
            return self.on_disk.largest
        tokens = self.filled.contexts
        return max(float(tokens.max()), -float(tokens.min()))

    def stored_rows(self, rows: slice | AnyArray) -> Array:
        """Return contexts of some examples as stored: (rows, n, d), or (1, n, d) if shared."""
        if self.on_disk:
            return self.on_disk.rows(rows)
        chosen: Array = self.contexts[np.newaxis] if self.shared_context else self.contexts[rows]
        return chosen

    def contexts_of(self, rows: slice | AnyArray) -> Array:
        """Return the same as float64."""
        return self.stored_rows(rows).astype(np.float64, copy=False)

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Walk through the examples: all at once, or a few at a time where contexts are on disk."""
        if self.on_disk:
            yield from self.on_disk.blocks()
        else:
            yield slice(0, self.num_examples), self.contexts

    def context_chunks(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[slice, Array]]:
        """Walk through the contexts in float64, a few at a time; a shared one comes once."""
        if self.shared_context:
            yield slice(0, self.num_examples), self.contexts_of(slice(None))
            return
        context_bytes = 8 * self.context_size * self.width
        for rows in row_chunks(self.num_examples, context_bytes, chunk_bytes):
            yield rows, self.contexts_of(rows)

    def fingerprint(self) -> bytes:
        """Return the SHA-256 of the arrays, by which certificates name a dataset."""
        if self.on_disk:
            return self.on_disk.sha256
        return fingerprint(self.arrays)

    @property
    def arrays(self) -> dict[str, AnyArray]:
        """The arrays by their names in files: with `lengths` where contexts have different ones."""
        named = {name: getattr(self.filled, name) for name in ARRAYS}
        if self.lengths is not None:  # integers are float64 to those who check
            named[LENGTHS] = self.lengths.astype(np.float64)
        return named

    def require_unchanged(self) -> None:
        """Read contexts that are on disk again, and compare their hash.

        Programs that write through a mapping of the file need not change its time.
        """
        if self.on_disk:
            self.on_disk.require_unchanged(self.queries, self.targets)

    def __eq__(self, other: object) -> bool:
        """Return whether shapes, dtypes, all entries and names of classes are the same."""
        if isinstance(other, Dataset) and (self.on_disk or other.on_disk):
            same = same_classes(self.classes, other.classes)
            return same and self.fingerprint() == other.fingerprint()
        return super().__eq__(other)

    __hash__ = ExampleShapes.__hash__

    def save(self, path: str | Path) -> None:
        """Write an .npz file of `contexts`, `queries` and `targets`, whole or not at all.

        Names of classes are an array `classes`, where there are some. Where contexts have different
        lengths, these are an array `lengths`, and shorter contexts repeat their first token.

        Args:
            path: the file, .npz; an old one of that name is replaced

        Raises:
            OutputError: where it cannot be written
        """
        arrays: dict[str, Any] = self.arrays
        if self.lengths is not None:
            arrays[LENGTHS] = self.lengths
        if self.classes:
            arrays["classes"] = np.array(self.classes)
        with replacing(path, ".npz") as file:
            np.savez(file, **arrays)

    def save_folder(self, path: str | Path) -> None:
        """Write a folder of `contexts.npy`, `queries.npy` and `targets.npy`, for `open`.

        Names of classes go into `classes.npy`, where there are some. Whole or not at all: the
        folder gets its name when everything is written.

        Args:
            path: the folder; an old one of that name is replaced if it holds nothing else

        Raises:
            DataError: for contexts of different lengths, which folders do not hold
            OutputError: where it cannot be written
        """
        if self.lengths is not None:
            raise DataError(
                "contexts of different lengths do not go into a folder",
                witness=(int(self.lengths.min()), self.context_size),
                suggestion="Dataset.save, which writes an .npz file",
            )
        blocks = (block for _, block in self.blocks())
        others = self.queries, self.targets
        shape, dtype = self.context_shape, self.context_dtype
        write_folder(path, shape, dtype, blocks, lambda: others, classes=self.classes)

    @classmethod
    def open(cls, path: str | Path) -> "Dataset":
        """Open an .npz file, or a folder whose contexts stay on disk.

        Of a folder with `contexts.npy`, `queries.npy` and `targets.npy` the contexts (float32 or
        float64, in C order) are read once here, to see that they are finite, and later whenever
        they are needed, some at a time. A file that changes meanwhile is refused then, by its
        inode, size and time of change; and at the end of `certify` by its hash, for a program that
        writes through a mapping of the file does not change its time each time.

        Args:
            path: an .npz file, or such a folder

        Raises:
            FormatError: if it is neither, or a file is cut off
            DataError: if the arrays are not a dataset
            OSError: if it cannot be read

        Example:
            >>> import tempfile
            >>> folder = Path(tempfile.mkdtemp()) / "data"
            >>> Dataset([[[1, 0], [1, 1]]], [[2, 3]], [5]).save_folder(folder)
            >>> Dataset.open(folder)
            Dataset(T=1, n=2, d=2, d_out=1, own contexts, float64)
        """
        return owning(**read_folder(path)) if as_path(path).is_dir() else cls.load(path)

    @classmethod
    def load(cls, path: str | Path) -> "Dataset":
        """Read an .npz file with the arrays `contexts`, `queries` and `targets` into memory.

        Nothing is unpickled. An array `classes`, if there is one, names the entries of targets. An
        array `lengths` says how many tokens each context has; those beyond are not read.
        `open` also takes folders, and so do all commands.

        Args:
            path: the file

        Raises:
            FormatError: if the file is not such an archive, or a folder
            DataError: if its arrays are not a dataset
            OSError: if it cannot be read
        """
        arrays = read_archive(path, ARRAYS)
        if LENGTHS in arrays:
            arrays["contexts"] = Padded(arrays["contexts"], arrays.pop(LENGTHS))
        return owning(**arrays)

    def __repr__(self) -> str:
        kind = "one shared context" if self.shared_context else "own contexts"
        shortest = "" if self.lengths is None else f"{self.lengths.min()} to "
        return (
            f"Dataset(T={self.num_examples}, n={shortest}{self.context_size}, d={self.width}, "
            f"d_out={self.target_dim}, {kind}, {self.queries.dtype})"
        )


def owning(
    contexts: object,
    queries: object,
    targets: object,
    classes: tuple[Label, ...] = (),
) -> Dataset:
    """Return a dataset that takes over arrays that nobody else holds: only for those just made.

    They become read-only, and are not copied.
    """
    dataset = object.__new__(Dataset)
    _fill(dataset, (contexts, queries, targets), classes, copy=False)
    return dataset


def _fill(
    dataset: Dataset, arrays: tuple[object, object, object], classes: object, *, copy: bool
) -> None:
    """Check the arrays of a dataset, and set them."""
    contexts, *others = arrays
    source: Any = as_padded(contexts)
    if not isinstance(source, Padded | StoredContexts):
        source = frozen(finite_array("contexts", source, copy=copy))
    queries, targets = (
        frozen(finite_array(name, values, copy=copy))
        for name, values in zip(ARRAYS[1:], others, strict=True)
    )
    check_shapes(source.shape, queries.shape, targets.shape)
    known = require_classes(classes, targets.size // len(targets))
    # Copies and pickles of a dataset know what was read before.
    if isinstance(source, StoredContexts) and not source.sha256:
        source = source.scanned(queries, targets)
    vars(dataset).update(source=source, queries=queries, targets=targets, classes=known)


# What occurs twice: inputs (one query, and one multiset of tokens), and tokens of a context.


def repeated_inputs(dataset: Dataset) -> tuple[int, int] | None:
    """Return two examples that are the same input, contexts being multisets of tokens, or None."""
    first = first_of_each(dataset)
    again = np.flatnonzero(first != np.arange(len(first)))
    return (int(first[again[0]]), int(again[0])) if len(again) else None


def different_inputs(dataset: Dataset) -> Integers:
    """Return the first example of each input, contexts being multisets of tokens: ascending."""
    return np.unique(first_of_each(dataset))


def first_of_each(dataset: Dataset) -> Integers:
    """Return for each example the first with the same input, contexts being multisets: (T,)."""
    rows: list[bytes] = _rows_as_bytes(dataset.queries).tolist()
    first = np.arange(len(rows))
    times, seen = Counter(rows), dict[bytes, int]()
    for example, row in enumerate(rows):
        if times[row] > 1:
            # Of tokens a hash is kept, as all contexts together may not fit into memory.
            tokens = b"" if dataset.shared_context else _multiset(dataset, example)
            other = seen.setdefault(row + sha256(tokens).digest(), example)
            if other == example or not tokens or tokens == _multiset(dataset, other):
                first[example] = other
    return first


def refusal(dataset: Dataset, first: int, second: int) -> DataError:
    """Return the error about two equal inputs with different targets."""
    return DataError(
        f"examples {first} and {second} are the same input with different targets "
        f"{dataset.targets[first]} and {dataset.targets[second]}: no function fits both",
        witness=(first, second),
        suggestion="drop one of the two examples",
    )


def _multiset(dataset: Dataset, example: int) -> bytes:
    """Return a context without the order of its tokens, which attention does not see.

    Of different lengths, contexts are one input where all tokens occur in the same proportions.
    """
    tokens = _rows_as_bytes(dataset.contexts[example])
    tokens.sort()
    if dataset.lengths is None:
        return tokens.tobytes()
    different, counts = np.unique(tokens, return_counts=True)
    return np.repeat(different, counts // np.gcd.reduce(counts)).tobytes()


def _rows_as_bytes(matrix: Array) -> npt.NDArray[np.void]:
    """Return the bytes of each row of (k, d), the same for equal rows: (k,)."""
    plain = np.ascontiguousarray(matrix + 0.0)  # turns -0.0 into 0.0
    return plain.view(np.dtype((np.void, plain[0].nbytes))).ravel()


# Token mixing: a layer before the heads that makes Assumption 1 hold where all queries are equal
# (Proposition 9.1). Uniform attention with identity values and a skip connection sends each token x
# of a context E to x + mean(E), and the query e to e + mean(E).


@in_three_parts
def token_mixing(dataset: Dataset) -> Dataset:
    """Add the mean of its context to every token and query, as one layer of attention does.

    The result is the stored dataset: sums are rounded to its floats, and all that is proved of it
    afterwards (`assumptions.check`, `certify`) is exact for these floats. Targets stay as they are.

    Args:
        dataset: T examples, contexts (T, n, d) or one shared (n, d)

    Raises:
        AssumptionError: for a shared context with equal queries, which no mixing can tell apart
        DataError: if the sums overflow

    Example:
        >>> from constructive import build_memorizer, generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5)
        >>> same = Dataset(data.contexts, np.ones((7, 5)), data.targets)  # a class token, say
        >>> mixed = token_mixing(same)
        >>> build_memorizer(mixed, num_heads=3).max_error(mixed) < 1e-9
        True
    """
    require_examples(dataset, Dataset)
    if dataset.shared_context:
        first = first_of_each(dataset)
        others = np.flatnonzero(first == np.bincount(first).argmax())
        if len(others) > 1:
            raise AssumptionError(
                f"{len(others)} examples with the shared context have one query, and stay equal",
                witness=tuple(others[:8].tolist()),
                suggestion="own contexts, or one example for each query",
            )
    with np.errstate(over="ignore"):
        means = dataset.contexts.mean(axis=-2, dtype=np.float64)
        contexts = dataset.contexts + means[..., np.newaxis, :]
        queries = dataset.queries + means
    kind = dataset.queries.dtype
    mixed = _finite(contexts, kind), _finite(queries, kind)
    return owning(*mixed, dataset.targets, dataset.classes)


def _finite(array: Array, kind: np.dtype[np.floating]) -> Array:
    with np.errstate(over="ignore"):
        stored: Array = array.astype(kind)
    if not np.isfinite(stored).all():
        raise DataError(
            "sums of tokens leave the range of floats",
            witness=first_place(~np.isfinite(stored)),
            suggestion="data scaled to size one",
        )
    return stored
