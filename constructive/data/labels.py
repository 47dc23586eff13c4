"""Class labels: strings, integers or Booleans as one-hot targets, and back.

A target is the unit vector of its class. Where `|f - y| <= epsilon < 1/2` in every entry, the entry
of the right class is 1 - epsilon or more and any other one epsilon or less: the largest output is
that of the right class, by 1 - 2 epsilon or more. So a certificate of the claim *error* proves the
labels, too.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from constructive.support.arrays import AnyArray, Array
from constructive.support.errors import DataError, is_integer, shown, with_article

Label = str | int | bool  # The name of a class: all those of a dataset are of one of these types

IGNORED = -100  # The label of what PyTorch's losses leave out
_WAYS = "labels that are all strings, all integers or all Booleans, one for each example"
_INTEGERS = np.iinfo(np.int64)


def one_hot(labels: object, names: object = None) -> tuple[Array, tuple[Label, ...]]:
    """Return a unit vector for each label, (T, C), and what the C columns stand for.

    names: these, or their number; by default the labels, sorted
    """
    found = _listed(labels)
    listed: object = range(int(names)) if is_integer(names) else names  # type: ignore[call-overload]
    classes = require_classes(sorted(set(found)) if names is None else listed)
    place = {label: column for column, label in enumerate(classes)}
    for index, label in enumerate(found):
        ignored = names is None and type(label) is int and label == IGNORED
        if ignored or label not in place or type(label) is not type(classes[0]):
            what = "which PyTorch's losses ignore" if ignored else "which is none of the classes"
            raise DataError(
                f"labels[{index}] is {shown(label)}, {what}",
                witness=index,
                suggestion="the data without such examples, Dataset.of_sequences(tokens, labels) "
                "for sequences, or classes= with this label",
            )
    targets = np.zeros((len(found), len(classes)))
    targets[np.arange(len(found)), [place[label] for label in found]] = 1.0
    return targets, classes


def require_classes(classes: object, columns: int | None = None) -> tuple[Label, ...]:
    """Return the names of classes: none, or different ones of one type, as many as columns."""
    found = tuple(_listed(classes))
    if len(set(found)) < len(found):
        twice = next(label for place, label in enumerate(found) if label in found[:place])
        raise DataError("a class is named twice", witness=twice, suggestion="different names")
    for label in found:
        if isinstance(label, str) and "\0" in label:
            raise DataError("a label has the character 0", witness=label, suggestion="text")
        if isinstance(label, int) and not _INTEGERS.min <= label <= _INTEGERS.max:
            raise DataError(
                f"the label {shown(label)} has more than 64 bits",
                witness=shown(label),
                suggestion="smaller integers, or strings",
            )
    if found and columns is not None and len(found) != columns:
        raise DataError(
            f"{len(found)} classes are named, and targets have d_out={columns} entries",
            witness=len(found),
            suggestion="Dataset.of_classes(contexts, queries, labels)",
        )
    return found


def same_classes(one: tuple[Label, ...], other: tuple[Label, ...]) -> bool:
    """Return whether names are equal and of one type: for Python, True is 1."""
    return one == other and [*map(type, one)] == [*map(type, other)]


def labels_of(outputs: AnyArray, classes: tuple[Label, ...]) -> AnyArray:
    """Return the class of the largest output, which is the last axis; of equal ones the first."""
    chosen: AnyArray = np.array(classes)[np.argmax(outputs, axis=-1)]
    return chosen


def _listed(labels: Any) -> list[Any]:  # noqa: ANN401 - whatever holds labels
    """Return labels as Python's own, if they are of one type. Raises DataError."""
    given = _column(labels)
    unordered = isinstance(given, str | bytes | set | frozenset | Mapping)
    if unordered or not isinstance(given, Iterable):
        kind = type(labels).__name__
        raise DataError(
            f"labels are {with_article(kind)}, not a list", witness=kind, suggestion=_WAYS
        )
    found = [_plain(label) for label in given]
    for place, label in enumerate(found):
        if type(label) not in (str, int, bool) or type(label) is not type(found[0]):
            raise _refused(place, label, found[0])
    return found


def _column(labels: Any) -> Any:  # noqa: ANN401
    """Return what may be a list of labels: of tables and matrices the only column."""
    if len(getattr(labels, "shape", ())) == 2:
        given = labels.to_numpy() if hasattr(labels, "to_numpy") else labels
        if given.shape[1] != 1:
            raise DataError(
                f"labels have {given.shape[1]} columns",
                witness=tuple(given.shape),
                suggestion="one column, or Dataset(contexts, queries, targets) for targets that "
                "are one-hot already",
            )
        labels = given.reshape(-1)
    return labels.tolist() if hasattr(labels, "tolist") else labels


def _plain(label: Any) -> Any:  # noqa: ANN401
    """Return a label of numpy, or a tensor without axes, as an object of Python."""
    return label.item() if getattr(label, "ndim", None) == 0 else label


def _refused(place: int, label: object, first: object) -> DataError:
    """Return what to say of an object that is not a label like the first."""
    kind, suggestion = type(label).__name__, _WAYS
    if label is None or kind in ("NAType", "NaTType") or label != label:  # noqa: PLR0124 - NaN
        message = f"labels[{place}] is missing: {shown(label)}"
        suggestion = "drop the example, or give it a class such as 'unknown'"
        return DataError(message, witness=place, suggestion=suggestion)
    if isinstance(label, float):
        suggestion = "labels.astype(int) for whole numbers; Dataset(contexts, queries, targets) "
        suggestion += "for numbers that the layer should return"
    elif place == 0:
        suggestion += "; labels.astype(str) for other objects"
    after = f" after {with_article(type(first).__name__)}" * (place > 0)
    message = f"labels[{place}] is {shown(label)}, {with_article(kind)}{after}"
    return DataError(message, witness=place, suggestion=suggestion)
