"""Sequences and labels as integers: tokens by index, and what a label may depend on.

Uniform attention sees a context as a multiset. So the label of an example has to be a function of
its *key*: the multiset (`next`), the multiset and the last token (`last`), or the multiset and the
token at the position (`seq2seq`, where every position is an example).
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from constructive.sequences.storage import Json, JsonFile, decoded, encoded, number, written
from constructive.sequences.tokens import (
    codes,
    exact_vectors,
    flat_labels,
    numbered,
    rectangular,
    require_equal_to_themselves,
)
from constructive.support.arguments import require_known
from constructive.support.arrays import Integers, Rebuilt, private
from constructive.support.errors import DataError, shown

Task = Literal["next", "last", "seq2seq"]


@dataclass(frozen=True, eq=False)
class SequenceDataset(Rebuilt, JsonFile):
    """Sequences of tokens, and one label for each key. Its arrays are read-only.

    Attributes:
        task: what a label belongs to: "next", "last" or "seq2seq"
        tokens: (V, d) integers and Fractions, the different tokens
        ids: (N, n), each token's index
        symbols: the tokens, if they are not numbers, else None; a token is then its index
        labels: for each example the index of its class: (N,), or (N n,) for seq2seq
        classes: the different labels, most frequent ones first: what stands for the first costs
            nothing
    """

    FORMAT = "constructive sequences 1"

    task: Task
    tokens: npt.NDArray[Any]
    ids: Integers
    symbols: tuple[Hashable, ...] | None
    labels: Integers
    classes: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        for name in ("tokens", "ids", "labels"):
            object.__setattr__(self, name, private(name, getattr(self, name)))

    @classmethod
    def of(
        cls, sequences: Sequence[Any], labels: Sequence[Any], task: str = "next"
    ) -> "SequenceDataset":
        """Return sequences and labels as they are given, checked.

        Args:
            sequences: as in `build_sequence_memorizer`
            labels: as in `build_sequence_memorizer`
            task: as in `build_sequence_memorizer`

        Raises:
            ParameterError: for an unknown task
            DataError: for no sequences, different lengths, labels of the wrong number, tokens of
                different kinds, and inconsistent labels

        Example:
            >>> SequenceDataset.of(["abb", "abc", "bba"], [1, 2, 1])
            SequenceDataset(next, N=3, n=3, V=3, symbols, 2 labels)
        """
        require_known("task", task, get_args(Task))
        listed = rectangular(sequences)
        different, ids = numbered(listed)
        tokens = exact_vectors(different)
        flat = flat_labels(labels, ids.shape, each_token=task == "seq2seq")
        try:
            classes = tuple(label for label, _ in Counter(flat).most_common())
        except TypeError as error:
            raise DataError(
                f"a label cannot be told from others: {error}",
                suggestion="integers, or hashable classes; task='seq2seq' for several a sequence",
            ) from error
        require_equal_to_themselves("token", different)
        require_equal_to_themselves("label", classes)
        index = {label: place for place, label in enumerate(classes)}
        found = cls(
            task=task,  # type: ignore[arg-type] # checked above
            tokens=codes(len(different)) if tokens is None else tokens,
            ids=ids,
            symbols=different if tokens is None else None,
            labels=np.array([index[label] for label in flat], dtype=np.int64),
            classes=classes,
        )
        contexts, own = found.keys(np.arange(len(different)))
        clash = conflict(found.labels, own, contexts)
        if clash is not None:
            first, second = clash
            raise DataError(
                f"examples {first} and {second} have one multiset of tokens"
                + (" and one own token" if found.per_position else "")
                + f" and labels {shown(flat[first])} and {shown(flat[second])}",
                witness=clash,
                suggestion="equal labels"
                + ("" if found.per_position else ", or task='last' or 'seq2seq', which also see a "
                   "token of their own"),
            )  # fmt: skip
        return found

    def content(self) -> Json:
        """Return what `save` writes."""
        numbers = [list(map(written, row)) for row in self.tokens.tolist()]
        return {
            "format": self.FORMAT,
            "task": self.task,
            "tokens": numbers if self.symbols is None else None,
            "symbols": None if self.symbols is None else list(map(encoded, self.symbols)),
            "ids": self.ids.tolist(),
            "classes": list(map(encoded, self.classes)),
            "labels": self.labels.tolist(),
        }

    @classmethod
    def from_content(cls, content: Json) -> "SequenceDataset":
        """Return the data set that `of` makes of what was written of one.

        Raises:
            ValueError: for what is not a data set
        """
        symbols, classes = content["symbols"], list(map(decoded, content["classes"]))
        tokens: list[Any] = (
            [tuple(map(number, row)) for row in content["tokens"]]
            if symbols is None
            else list(map(decoded, symbols))
        )
        task, size = content["task"], len(content["ids"][0])
        if any(
            type(i) is not int or i < 0 for row in [*content["ids"], content["labels"]] for i in row
        ):
            raise ValueError("an index is not an index")
        labels: list[Any] = [classes[i] for i in content["labels"]]
        if task == "seq2seq":
            labels = [labels[start : start + size] for start in range(0, len(labels), size)]
        return cls.of([[tokens[i] for i in row] for row in content["ids"]], labels, task)

    def __repr__(self) -> str:
        count, size = self.ids.shape
        kind = f"d={self.tokens.shape[1]}" if self.symbols is None else "symbols"
        return (
            f"SequenceDataset({self.task}, N={count}, n={size}, V={len(self.tokens)}, {kind}, "
            f"{len(self.classes)} labels)"
        )

    @property
    def integers(self) -> bool:
        """Whether all labels are integers, and no Booleans."""
        return all(type(label) is int for label in self.classes)

    @property
    def values(self) -> tuple[int, ...]:
        """What the network outputs for each class; integer labels themselves, else the index."""
        if self.integers:
            return tuple(int(label) for label in self.classes)  # type: ignore[call-overload]
        return tuple(range(len(self.classes)))

    @property
    def num_keys(self) -> int:
        """M, what labels are given to."""
        contexts, own = self.keys(np.arange(len(self.tokens)))
        return len(np.unique(np.stack([contexts, own]), axis=1).T)

    @property
    def per_position(self) -> bool:
        """Whether keys have a token of their own."""
        return self.task != "next"

    def keys(self, values: Integers) -> tuple[Integers, Integers]:
        """Return the keys of tokens replaced by values (V,): contexts, and own tokens (or zeros).

        Both have an entry for each example. Contexts are numbered, equal numbers for equal
        multisets.

        Args:
            values: of each token (V,)
        """
        rows = np.sort(values[self.ids], axis=1)
        contexts = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
        return self.with_own(contexts, values)

    def with_own(self, contexts: Integers, values: Integers) -> tuple[Integers, Integers]:
        """Return for each example the number of its context and its own token's value (or 0).

        Args:
            contexts: a number for each sequence (N,)
            values: of each token (V,)
        """
        if self.task == "next":
            return contexts, np.zeros_like(contexts)
        if self.task == "last":
            return contexts, values[self.ids[:, -1]]
        return np.repeat(contexts, self.ids.shape[1]), values[self.ids].reshape(-1)

    def told_apart_by(self, values: Integers, salt: int) -> bool:
        """Return whether examples with equal keys, of tokens replaced by values, share labels.

        Contexts are compared by sums of 64 mixed bits of their values, which is quick. Equal
        multisets have equal sums, so True is certain. False is wrong once in 2^64 pairs or so, and
        for no data that were made before the salt was drawn.

        Args:
            values: of each token (V,)
            salt: drawn at random, below 2^64
        """
        sums = _mixed(values, salt)[self.ids].sum(axis=1).view(np.int64)
        return self.told_apart(*self.with_own(sums, values))

    def told_apart(self, contexts: Integers, own: Integers) -> bool:
        """Return whether examples with equal keys have equal labels.

        Args:
            contexts: a number for each example
            own: the value of its own token, or 0, for each example
        """
        return conflict(self.labels, own, contexts) is None


def _mixed(values: Integers, salt: int) -> npt.NDArray[np.uint64]:
    """Integers whose bits look random (splitmix64: multiplications and shifts modulo 2^64)."""
    mixed = (values.astype(np.uint64) ^ np.uint64(salt)) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed


def conflict(labels: Integers, own: Integers, contexts: Integers) -> tuple[int, int] | None:
    """Return two examples with one key, a context and an own token, and different labels; or None.

    Example:
        >>> conflict(np.array([1, 2, 2]), np.array([0, 0, 5]), np.array([7, 7, 7]))
        (0, 1)
    """
    order = np.lexsort((labels, own, contexts))
    before, after = order[:-1], order[1:]
    same = (contexts[before] == contexts[after]) & (own[before] == own[after])
    wrong = np.flatnonzero(same & (labels[before] != labels[after]))
    if not len(wrong):
        return None
    first, second = sorted((int(before[wrong[0]]), int(after[wrong[0]])))
    return first, second
