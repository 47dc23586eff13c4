"""The data to memorize: contexts, queries and targets, checked once at the border."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from constructive.data.archive import read_archive
from constructive.data.examples import Examples
from constructive.data.indices import indices
from constructive.data.labels import Label, one_hot, require_classes
from constructive.data.padded import Padded, as_padded, of_lengths
from constructive.data.repeats import first_of_each, refusal
from constructive.data.shapes import ARRAYS, LENGTHS, check_shapes
from constructive.data.stored import StoredContexts, read_folder, write_folder
from constructive.data.torch_examples import arrays_of
from constructive.support.arguments import as_path
from constructive.support.arrays import Array, finite_array, frozen, with_one
from constructive.support.errors import DataError
from constructive.support.files import replacing


class Example(NamedTuple):
    """One example, as `dataset[i]` and iteration give it; its arrays are read-only views.

    Attributes:
        context: (n, d)
        query: (d,)
        target: (d_out,), or a number where targets are (T,)
    """

    context: Array
    query: Array
    target: Any


@dataclass(frozen=True, eq=False)
class Dataset(Examples):
    """T examples, each a context of n tokens, a query and a target.

    Anything that numpy reads as real numbers is accepted. float32 and float64 stay as they are;
    float16 and bfloat16 become float32, and integers become float64, exactly. The arrays are
    read-only copies: what happens to those that were given changes nothing here. Tensors with
    gradients, pandas and other libraries' arrays are read as numbers.

    Contexts may have different lengths, as a list of arrays or as `padded(contexts, mask)`. Then
    `contexts` is `Padded`, and each example attends to its own tokens only.

    Where contexts are `on_disk` (`open`), `contexts` maps them, and rows are read as they are used.

    `len(data)` is T, `data[2]` an `Example`, `data[:3]` or `data[[4, 0]]` a data set of some
    (`take`), and `for context, query, target in data` walks through all. `==` compares shapes,
    dtypes and all entries.

    Attributes:
        contexts: (T, n, d), or (n, d) for one context that all examples share (never copied T
            times), or T arrays (n_i, d) of different lengths
        queries: (T, d)
        targets: (T,) or (T, d_out)
        classes: what each of the d_out entries of a target stands for, where they are one-hot
            classes (`of_classes`); by default nothing

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

    contexts: Array = field()
    queries: Array
    targets: Array
    classes: tuple[Label, ...] = ()

    def __post_init__(self) -> None:
        _fill(self, (self.held, self.queries, self.targets), self.classes, copy=True)

    @classmethod
    def of_classes(
        cls,
        contexts: Any,  # noqa: ANN401 - as for Dataset
        queries: Any,  # noqa: ANN401
        labels: Any,  # noqa: ANN401
    ) -> "Dataset":
        """Return examples with a class label each: targets are one-hot, a column for each class.

        `Memorizer.predict_labels` gives labels back; a certificate of the claim *error* with an
        epsilon below 1/2 proves all of them, by a margin of 1 - 2 epsilon (`data.labels`).

        Args:
            contexts: as for `Dataset`
            queries: (T, d)
            labels: T strings, T integers or T Booleans: a list, an array, a tensor, or a column
                of pandas, categories among them; classes are those that occur, sorted

        Raises:
            DataError: for labels of other or several types or missing ones, and as for a `Dataset`

        Example:
            >>> data = Dataset.of_classes([[1, 0], [1, 1]], [[2, 3], [4, 6]], ["dog", "cat"])
            >>> data.classes, data.targets.tolist()
            (('cat', 'dog'), [[0.0, 1.0], [1.0, 0.0]])
        """
        return cls(contexts, queries, *one_hot(labels))

    @classmethod
    def from_torch(
        cls,
        examples: Any,  # noqa: ANN401 - of a library that may be absent
        *,
        labels: bool = False,
    ) -> "Dataset":
        """Read a PyTorch data set. Equal inputs with equal targets are merged, with a warning.

        No weights give two outputs for one input (`distinct`), so that a data set with repeated
        inputs is not memorized as it is. What memorizes the merged one reproduces all examples.

        Args:
            examples: `torch.utils.data.TensorDataset(contexts, queries, targets)`, or any data set
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
    def __getitem__(self, index: slice | Sequence[int] | npt.NDArray[Any]) -> "Dataset": ...

    def __getitem__(self, index: Any) -> "Example | Dataset":
        """One example for an integer, a data set for a slice, a list or an array (`take`)."""
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

    def last_token_queries(self) -> "Dataset":
        """Return the data with the last token of each context as its query, as in a language model.

        Raises:
            DataError: for a shared context, where all queries would be one

        Example:
            >>> Dataset([[[1, 0], [1, 1]]], [[2, 3]], [5]).last_token_queries().queries
            array([[1., 1.]])
        """
        if self.shared_context:
            raise DataError(
                "all examples share one context, and so its last token",
                witness=self.contexts.shape,
                suggestion="contexts of their own",
            )
        last = -1 if self.lengths is None else self.lengths - 1
        queries = self.filled.contexts[np.arange(len(self)), last]
        return owning(self.contexts, queries, self.targets, self.classes)

    @property
    def filled(self) -> "Dataset":
        """The data with contexts of one length: shorter ones repeat their first token.

        These span the same, and have the same largest entries. Attention to them differs, as it
        counts repeated tokens. Returns the data themselves where contexts have one length.
        """
        if not isinstance(self.held, Padded):
            return self
        return owning(self.held.tokens, self.queries, self.targets, self.classes)

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
        with replacing(path) as file:
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
            DataError: if the arrays are not a data set
            OSError: if it cannot be read

        Example:
            >>> import tempfile
            >>> folder = Path(tempfile.mkdtemp()) / "data"
            >>> Dataset([[[1, 0], [1, 1]]], [[2, 3]], [5]).save_folder(folder)
            >>> Dataset.open(folder)
            Dataset(T=1, n=2, d=2, d_out=1, own contexts, float64)
        """
        return owning(*read_folder(path)) if as_path(path).is_dir() else cls.load(path)

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
            DataError: if its arrays are not a data set
            OSError: if it cannot be read
        """
        arrays = read_archive(path, ARRAYS)
        lengths = arrays.pop(LENGTHS, None)
        if lengths is not None:
            arrays["contexts"] = of_lengths(arrays["contexts"], lengths)
        return owning(**arrays)

    def __repr__(self) -> str:
        kind = "one shared context" if self.shared_context else "own contexts"
        shortest = "" if self.lengths is None else f"{self.lengths.min()} to "
        return (
            f"Dataset(T={self.num_examples}, n={shortest}{self.context_size}, d={self.width}, "
            f"d_out={self.target_dim}, {kind}, {self.queries.dtype})"
        )


def owning(
    contexts: Any,  # noqa: ANN401 - as for Dataset
    queries: Any,  # noqa: ANN401
    targets: Any,  # noqa: ANN401
    classes: tuple[Label, ...] = (),
) -> Dataset:
    """Return a data set that takes over arrays that nobody else holds: only for those just made.

    They become read-only, and are not copied.

    Example:
        >>> made = np.eye(2)
        >>> np.shares_memory(owning([[1, 0]], made, [1, 2]).queries, made)
        True
    """
    dataset = object.__new__(Dataset)
    _fill(dataset, (contexts, queries, targets), classes, copy=False)
    return dataset


def _fill(
    dataset: Dataset, arrays: tuple[object, object, object], classes: object, *, copy: bool
) -> None:
    """Check the arrays of a data set, and set them."""
    contexts, *others = arrays
    for name, values in zip(ARRAYS, (as_padded(contexts), *others), strict=True):
        kept = values  # those on disk were checked when they were read, and padded ones
        if not isinstance(kept, StoredContexts | Padded):
            kept = frozen(finite_array(name, kept, copy=copy))
        object.__setattr__(dataset, name, kept)
    check_shapes(dataset.context_shape, dataset.queries.shape, dataset.targets.shape)
    named = require_classes(classes)
    object.__setattr__(dataset, "classes", named and require_classes(named, dataset.target_dim))
