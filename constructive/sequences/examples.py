"""Sequences and labels as integers: tokens by index, and what a label may depend on.

Uniform attention sees a context as a multiset. So the label of an example has to be a function of
its *key*: the multiset (`next`), the multiset and the last token (`last`), or the multiset and the
token at the position (`seq2seq`, where every position is an example).
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from constructive.support.arrays import AnyArray, Integers, Rebuilt, private
from constructive.support.errors import (
    DataError,
    ParameterError,
    require_known,
    shown,
    with_article,
)
from constructive.support.files import Json, JsonFile

# Exact numbers, symbols and classes as JSON values.
#
# Numbers are text in base 16, "-1f" or "3/2", since integers get long; symbols and classes are
# pairs of a kind and a value, so that 1, "1" and b"1" stay different. One value has one text, which
# the reader insists on: so equal values are equal JSON, and a hash of it says what a file holds.

Number = int | Fraction


def written(number: Number) -> str:
    """Return a number in base 16."""
    if number.denominator == 1:
        return format(int(number), "x")
    return f"{number.numerator:x}/{number.denominator:x}"


def number(text: str) -> Number:
    """Return the number that `written` wrote."""
    numerator, _, denominator = text.partition("/")
    found: Number = int(numerator, 16)
    if denominator:
        found = Fraction(int(numerator, 16), int(denominator, 16))
    if written(found) != text:
        raise ValueError(f"{text[:40]!r} is not a number as it is written here")
    return found


def encoded(value: Hashable) -> Json:
    """Return a symbol or class as a kind and a value."""
    kind = "None" if value is None else type(value).__name__
    write = _ENCODERS.get(kind)
    if write is None or (value is not None and type(value) is not _TYPES[kind]):
        raise ParameterError(
            f"a file does not hold {value!r}, which is {with_article(type(value).__name__)}",
            witness=repr(value),
            suggestion="tokens and labels of " + ", ".join(_ENCODERS),
        )
    return [kind, write(value)]


def decoded(content: Json) -> Hashable:
    """Return the value that `encoded` encoded."""
    kind, text = content
    value = _DECODERS[kind](text)
    if encoded(value) != content:
        raise ValueError(f"{str(content)[:60]} is not a value as it is written here")
    return value


_TYPES: dict[str, type] = {
    "str": str, "bytes": bytes, "bool": bool, "int": int, "float": float,
    "Fraction": Fraction, "tuple": tuple,
}  # fmt: skip
_ENCODERS: dict[str, Callable[[Any], Json]] = {
    "str": str,
    "bytes": bytes.hex,
    "bool": int,
    "int": written,
    "float": float.hex,
    "Fraction": lambda x: f"{x.numerator:x}/{x.denominator:x}",
    "None": lambda _: "",
    "tuple": lambda x: list(map(encoded, x)),
}
_DECODERS: dict[str, Callable[[Any], Hashable]] = {
    "str": str,
    "bytes": bytes.fromhex,
    "bool": bool,
    "int": number,
    "float": float.fromhex,
    "Fraction": lambda x: Fraction(*(int(part, 16) for part in x.split("/"))),
    "None": lambda _: None,
    "tuple": lambda x: tuple(map(decoded, x)),
}


# Tokens and labels as users have them: numbered, and numbers among them exact.


def rectangular(sequences: Sequence[Any]) -> list[list[Any]]:
    """Return sequences as lists of one length. Raises DataError where they are not."""
    try:
        listed = [list(sequence) for sequence in sequences]
    except TypeError as error:
        raise DataError(
            f"a sequence is none: {error}", suggestion="lists of tokens, of one length"
        ) from error
    lengths = {len(sequence) for sequence in listed}
    if len(lengths) != 1 or 0 in lengths:
        lengths_seen = sorted(lengths)
        raise DataError(
            f"sequences have lengths {lengths_seen}; attention sees proportions only"
            if listed
            else "there are no sequences",
            witness=lengths_seen,
            suggestion="sequences of one length; pad them with a token of its own",
        )
    return listed


def numbered(listed: list[list[Any]]) -> tuple[tuple[Hashable, ...], Integers]:
    """Return the different tokens, and the index of each (N, n)."""
    places: dict[Hashable, int] = {}
    try:
        rows = [
            [places.setdefault(_hashable(token), len(places)) for token in row] for row in listed
        ]
    except TypeError as error:
        raise DataError(
            f"a token cannot be told from others: {error}",
            suggestion="numbers, vectors of numbers, or hashable symbols",
        ) from error
    return tuple(places), np.array(rows, dtype=np.int64)


def exact_vectors(tokens: tuple[Hashable, ...]) -> AnyArray | None:
    """Return tokens as integers and Fractions (V, d), or None if some are not numbers."""
    vectors = [token if isinstance(token, tuple) else (token,) for token in tokens]
    if any(not isinstance(x, Real) for vector in vectors for x in vector):
        return None
    widths = sorted({len(vector) for vector in vectors})
    if len(widths) != 1 or 0 in widths:
        raise DataError(
            f"tokens have {widths} entries", witness=widths, suggestion="vectors of one length"
        )
    exact = [[_exact(x, place, vector) for place, x in enumerate(vector)] for vector in vectors]
    array = np.empty((len(exact), widths[0]), dtype=object)
    array[:] = exact
    return array


def known_vectors(
    tokens: tuple[Hashable, ...], symbols: tuple[Hashable, ...] | None, width: int
) -> AnyArray:
    """Return different tokens as a network reads them (V, d), or places of symbols (V, 1)."""
    if symbols is not None:
        known = {symbol: place for place, symbol in enumerate(symbols)}
        unknown = [token for token in tokens if token not in known]
        if unknown:
            raise DataError(
                f"unknown token {shown(unknown[0])}",
                witness=shown(unknown[0]),
                suggestion=f"one of the {len(known)} symbols that were memorized",
            )
        return np.array([[known[token]] for token in tokens], dtype=object)
    vectors = exact_vectors(tokens)
    if vectors is None or vectors.shape[1] != width:
        raise other_tokens(tokens[0], width)
    return vectors


def other_tokens(token: object, width: int) -> DataError:
    """Return the error for a token that is not a vector of so many numbers."""
    return DataError(
        f"the tokens are not vectors of {width} numbers, as those that were memorized",
        witness=shown(token),
        suggestion="tokens of the same kind",
    )


def _exact(entry: Any, place: int, token: tuple[Any, ...]) -> int | Fraction:  # noqa: ANN401
    """Return the number at a place of a token."""
    try:
        number = Fraction(entry)
    except (ValueError, OverflowError, TypeError) as error:
        raise DataError(
            f"entry {place} of the token {shown(token)} is not a finite number",
            witness=shown(entry),
            suggestion="finite integers, Fractions or floats of 64 bits at most",
        ) from error
    return number.numerator if number.denominator == 1 else number


def _hashable(token: Any) -> Hashable:  # noqa: ANN401 - whatever users have
    if isinstance(token, np.ndarray):
        token = token.tolist()
    if isinstance(token, (list, tuple)):
        entries = tuple(map(_hashable, token))
        single = len(entries) == 1 and isinstance(entries[0], Real)
        # A vector of one number is that number.
        first: Hashable = entries[0] if single else entries
        return first
    value: Hashable = builtin(token)
    return value


def builtin(value: Any) -> Any:  # noqa: ANN401
    """Return numbers and strings of numpy as those of Python; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(map(builtin, value))
    kinds = np.number, np.bool_, np.str_, np.bytes_
    return value.item() if isinstance(value, kinds) else value


def flat_labels(labels: Any, shape: tuple[int, ...], *, each_token: bool) -> list[Any]:  # noqa: ANN401
    """Return the labels of sequences, or of all their tokens, one after the other.

    `shape` is that of the sequences (N, n). Raises DataError for labels that are not as many.
    """
    count, size = shape
    flat = _listed(labels)
    if each_token:
        rows = [_listed(row) for row in flat]
        wrong = [i for i, row in enumerate(rows) if len(row) != size]
        if wrong or len(rows) != count:
            raise DataError(
                f"labels do not fit {count} sequences of {size} tokens",
                witness=wrong[:1] or len(rows),
                suggestion="one label for each token",
            )
        flat = [label for row in rows for label in row]
    elif len(flat) != count:
        raise DataError(
            f"{count} sequences have {len(flat)} labels",
            witness=len(flat),
            suggestion="one label for each sequence",
        )
    return [builtin(label) for label in flat]


def _listed(labels: Any) -> list[Any]:  # noqa: ANN401
    """Return labels as a list; none of what is not a list."""
    try:
        return list(labels)
    except TypeError:
        return []


def require_equal_to_themselves(kind: str, values: tuple[Hashable, ...]) -> None:
    """Raise DataError for tokens or labels that hold a NaN, which is not equal to itself."""
    for value in values:
        if _unequal(value):
            raise DataError(
                f"a {kind} is {value}, which is not equal to itself; no finite number",
                witness=str(value),
                suggestion="a symbol such as None for what is missing",
            )


def _unequal(value: Any) -> bool:  # noqa: ANN401
    if isinstance(value, tuple):
        return any(map(_unequal, value))
    return bool(value != value)  # noqa: PLR0124 - NaN


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
    tokens: AnyArray
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
            # a symbol is its index
            tokens=np.arange(len(different)).astype(object)[:, np.newaxis]
            if tokens is None
            else tokens,
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
        """Return the dataset that `of` makes of what was written of one; else ValueError."""
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
        """
        rows = np.sort(values[self.ids], axis=1)
        contexts = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
        return self.with_own(contexts, values)

    def with_own(self, contexts: Integers, values: Integers) -> tuple[Integers, Integers]:
        """Return for each example the number of its context and its own token's value (or 0).

        contexts: a number for each sequence (N,);  values: of each token (V,)
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
        """
        sums = _mixed(values, salt)[self.ids].sum(axis=1).view(np.int64)
        return self.told_apart(*self.with_own(sums, values))

    def told_apart(self, contexts: Integers, own: Integers) -> bool:
        """Return whether examples with equal keys have equal labels."""
        return conflict(self.labels, own, contexts) is None


def _mixed(values: Integers, salt: int) -> npt.NDArray[np.uint64]:
    """Integers whose bits look random (splitmix64: multiplications and shifts modulo 2^64)."""
    mixed = (values.astype(np.uint64) ^ np.uint64(salt)) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed


def conflict(labels: Integers, own: Integers, contexts: Integers) -> tuple[int, int] | None:
    """Return two examples with one key (context and own token) and two labels; or None."""
    order = np.lexsort((labels, own, contexts))
    before, after = order[:-1], order[1:]
    same = (contexts[before] == contexts[after]) & (own[before] == own[after])
    wrong = np.flatnonzero(same & (labels[before] != labels[after]))
    if not len(wrong):
        return None
    first, second = sorted((int(before[wrong[0]]), int(after[wrong[0]])))
    return first, second


# What is to be put out for labels, and whether an output of floats is one.


_MET = Fraction(1, 8)  # How near to a label an output of floats has to be


def expected_outputs(
    known: tuple[Hashable, ...] | None, classes: Sequence[Hashable]
) -> list[int | None]:
    """Return the wanted outputs for classes: themselves, or their places among known ones.

    None for what cannot be put out.
    """
    if known is None:
        return [_integer(label) for label in classes]
    places = {label: place for place, label in enumerate(known)}
    return [places.get(label) for label in classes]


def _integer(label: Hashable) -> int | None:
    """Return the integer that a label is equal to."""
    equal = isinstance(label, int) or (isinstance(label, float | Fraction) and label % 1 == 0)
    return int(label) if equal else None  # type: ignore[call-overload] # a number, as asked


def met(output: float, label: int | None) -> bool:
    """Return whether an output is a label, within 1/8."""
    return label is not None and isfinite(output) and abs(Fraction(output) - label) <= _MET
