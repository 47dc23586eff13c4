"""Examples in floats, and how their contexts are read: from memory, or from disk as needed."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.data.labels import same_classes
from constructive.data.padded import Padded
from constructive.data.shapes import LENGTHS, ExampleShapes
from constructive.data.stored import StoredContexts
from constructive.support.arrays import CHUNK_BYTES, Array, Integers, row_chunks
from constructive.support.fingerprint import fingerprint


class Examples(ExampleShapes):
    """T examples of float32 or float64.

    Where contexts are `on_disk`, `contexts` maps the whole file; other methods read it by rows.
    """

    queries: Array
    targets: Array

    @property
    def contexts(self) -> Array:
        """(T, n, d), (n, d) for one context that all examples share, or `Padded`."""
        contexts: Array = self.on_disk.file.mapped() if self.on_disk else self.held
        return contexts

    @contexts.setter
    def contexts(self, contexts: Array) -> None:
        vars(self)["contexts"] = contexts

    @property
    def held(self) -> Any:  # noqa: ANN401 - one of three, as the others below ask
        """The contexts as they are kept: an array, `Padded` or `StoredContexts`."""
        return vars(self)["contexts"]

    @property
    def on_disk(self) -> StoredContexts | None:
        """The file of the contexts, where they are not in memory."""
        return self.held if isinstance(self.held, StoredContexts) else None

    @property
    def lengths(self) -> Integers | None:
        """The number of tokens of each context (T,), or None where all have n."""
        return self.held.lengths if isinstance(self.held, Padded) else None

    @property
    def context_shape(self) -> tuple[int, ...]:
        """(T, n, d), or (n, d) for one context that all examples share."""
        shape: tuple[int, ...] = self.held.shape
        return shape

    @property
    def context_dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        dtype: np.dtype[Any] = self.held.dtype
        return dtype

    @property
    def largest_token_entry(self) -> float:
        """The largest `|x|` of an entry x of the contexts."""
        if self.on_disk:
            return self.on_disk.largest
        tokens = self.held.tokens if isinstance(self.held, Padded) else self.held
        return max(float(tokens.max()), -float(tokens.min()))

    def stored_rows(self, rows: slice | npt.NDArray[Any]) -> Array:
        """Return contexts of some examples as stored: (rows, n, d), or (1, n, d) if shared.

        Args:
            rows: which examples, as a slice, indices, or a Boolean for each

        Raises:
            FormatError: if the contexts are on disk, and have changed since they were opened
        """
        if self.on_disk:
            return self.on_disk.file.rows(rows)
        chosen: Array = self.contexts[np.newaxis] if self.shared_context else self.contexts[rows]
        return chosen

    def contexts_of(self, rows: slice | npt.NDArray[Any]) -> Array:
        """Return the same as float64."""
        return self.stored_rows(rows).astype(np.float64, copy=False)

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Walk through the examples: all at once, or a few at a time where contexts are on disk.

        Yields:
            which examples, and their contexts as they are stored, (rows, n, d) or a shared (n, d)
        """
        if self.on_disk:
            yield from self.on_disk.blocks()
        else:
            yield slice(0, self.num_examples), self.contexts

    def context_chunks(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[slice, Array]]:
        """Walk through the contexts in float64, a few at a time; a shared one comes once.

        Args:
            chunk_bytes: the size of the contexts of one step, in bytes; by default 4 MiB

        Yields:
            which examples, and their contexts as `contexts_of` gives them
        """
        if self.shared_context:
            yield slice(0, self.num_examples), self.contexts_of(slice(None))
            return
        context_bytes = 8 * self.context_size * self.width
        for rows in row_chunks(self.num_examples, context_bytes, chunk_bytes):
            yield rows, self.contexts_of(rows)

    def fingerprint(self) -> bytes:
        """Return the SHA-256 of the arrays, by which certificates name a data set."""
        if self.on_disk:
            return self.on_disk.sha256
        return fingerprint(self.arrays)

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by their names in files: with `lengths` where contexts have different ones."""
        named = super().arrays
        if isinstance(self.held, Padded):  # integers are float64 to those who check
            named |= {"contexts": self.held.tokens, LENGTHS: self.held.lengths.astype(np.float64)}
        return named

    def require_unchanged(self) -> None:
        """Read contexts that are on disk again, and compare their hash.

        Programs that write through a mapping of the file need not change its time.

        Raises:
            FormatError: if the file has changed since it was opened
        """
        if self.on_disk:
            self.on_disk.require_unchanged(self.queries, self.targets)

    def __eq__(self, other: object) -> bool:
        """Return whether shapes, dtypes, all entries and names of classes are the same."""
        if isinstance(other, Examples) and (self.on_disk or other.on_disk):
            same = same_classes(self.classes, other.classes)
            return same and self.fingerprint() == other.fingerprint()
        return super().__eq__(other)

    __hash__ = ExampleShapes.__hash__
