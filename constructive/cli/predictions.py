"""Predictions in a file: .npy, or .csv with a line for each example."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.data.labels import Label, labels_of
from constructive.support.errors import OutputError
from constructive.support.files import replacing

_ARRAYS = ".npy", ""  # pipes and devices have no suffix
_TABLE = ".csv"


def require_kind(path: Path) -> None:
    """Raise OutputError for a file whose name promises something else; worth a call before work."""
    if path.suffix.lower() not in (*_ARRAYS, _TABLE):
        raise OutputError(
            f"cannot write {path}: predictions are an .npy or a .csv file",
            witness=path.suffix,
            suggestion=f"{path.with_suffix('.npy')} or {path.with_suffix('.csv')}",
        )


def save(path: Path, predictions: npt.NDArray[Any], classes: tuple[Label, ...]) -> None:
    """Write it as the name says, whole or not at all.

    A table starts with a line of names. Of classes there is the label first, and then the output
    for each class; numbers have as many digits as bring every bit back.
    """
    with replacing(path) as file:
        if path.suffix.lower() != _TABLE:
            np.save(file, predictions)
            return
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        rows = predictions.reshape(len(predictions), -1)
        if classes:
            writer.writerow(["label", *classes])
            labels = labels_of(rows, classes).tolist()
            writer.writerows(
                [label, *row] for label, row in zip(labels, rows.tolist(), strict=True)
            )
        else:
            single = predictions.ndim == 1
            names = [f"prediction_{column}" for column in range(rows.shape[1])]
            writer.writerow(["prediction"] if single else names)
            writer.writerows(rows.tolist())
        file.write(text.getvalue().encode())
