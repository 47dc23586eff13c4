"""What commands write: files that are checked before the work starts, and text or JSON."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import typer
from rich.table import Table

from constructive.cli.program import console, end
from constructive.data.labels import Label, labels_of
from constructive.support.errors import OutputError
from constructive.support.files import (
    STANDARD_OUTPUT,
    replacing,
    require_folder,
    require_writable,
    same_file,
)

if TYPE_CHECKING:
    from constructive.certificates.certificate import Certificate

# How such a command speaks: on standard output, unless a file goes there.
Say = Callable[[str | Table], None]

Output = TypeVar("Output", Path, Path | None)

_DASH = Path("-")
# Endings of names that promise something; any others are up to the user.
_FORMATS = {
    ".csv": "a table",
    ".json": "a JSON file",
    ".npy": "an array of NumPy",
    ".npz": "an archive of NumPy",
    ".onnx": "an ONNX model",
    ".png": "a picture",
    ".pt": "a file of PyTorch",
    ".pth": "a file of PyTorch",
    ".safetensors": "a file of safetensors",
    ".svg": "a picture",
}
_ARRAYS = ".npy", ""  # pipes and devices have no suffix
_TABLE = ".csv"  # Endings of predictions


def one_output(
    output: Output,
    ending: str,
    *,
    inputs: Mapping[str, Path],
    force: bool,
    quiet: bool,
    as_json: bool = False,
) -> tuple[Output, Say]:
    """Check --output before the work starts; return its path and an echo function.

    ending: that of files that the command writes; names may have none, or one of their own
    inputs: the files it reads, by their names in its usage

    `-` is standard output. Raises OutputError as `several_outputs` does, for an ending of another
    format, and for standard output as the place of a file and of the document of --json.
    """
    path = STANDARD_OUTPUT if output == _DASH else output
    say = _looked_at({"--output": path}, inputs, force=force, quiet=quiet or as_json)
    if path is not None:
        _look_at_ending(path, ending, quiet=quiet or as_json)
    if as_json and path is not None and require_writable(path).is_standard_output:
        raise OutputError(
            "--output and --json both write to standard output",
            witness=str(output),
            suggestion="--output with the path of a file, or no --json",
        )
    return path, say


def _look_at_ending(path: Path, ending: str, *, quiet: bool) -> None:
    """Refuse a name whose ending promises another format, and say what one of its own will be."""
    found = path.suffix.lower()
    if found in {"", ending}:
        return
    if found in _FORMATS:
        raise OutputError(
            f"cannot write {path}: {found} is the ending of {_FORMATS[found]}, and this is "
            f"{_FORMATS[ending]}",
            witness=found,
            suggestion=str(path.with_suffix(ending)),
        )
    if not quiet:
        typer.echo(f"{path} will be {_FORMATS[ending]}, usually named *{ending}", err=True)


def folder_output(output: Path, names: Sequence[str], *, force: bool, quiet: bool) -> Say:
    """Check a folder that a command will write before the work starts; return an echo function.

    names: the files that it will have

    Raises OutputError for what cannot be written, and for such a folder that exists, unless
    forced.
    """
    if require_folder(output, names) and not force:
        raise OutputError(
            f"cannot write {output}: it exists already",
            witness=str(output),
            suggestion="--force to overwrite it, or another path",
        )
    return _silent if quiet else typer.echo


def several_outputs(
    outputs: Mapping[str, Path | None],
    *,
    inputs: Mapping[str, Path],
    force: bool,
    quiet: bool,
    endings: Mapping[str, str] | None = None,
) -> Say:
    """Check all that a command will write before the work starts; return an echo function.

    outputs, inputs: paths by their names in its usage; files without such a name by their own
    endings: of outputs whose names may have none, or one of their own

    Raises OutputError for an output that cannot be written, that is an input or another output,
    for one that exists, unless forced, for the ending of another format, and for `-`, where several
    files would run together.
    """
    for role, path in outputs.items():
        require_no_dash(role, path)
    say = _looked_at(outputs, inputs, force=force, quiet=quiet)
    for role, ending in (endings or {}).items():
        path = outputs[role]
        if path is not None:
            _look_at_ending(path, ending, quiet=quiet)
    return say


def require_no_dash(role: str, path: Path | None) -> None:
    """Raise OutputError for standard output in a command that writes several files."""
    if path == _DASH:
        raise OutputError(
            f"{role} - is standard output, but this command writes several files",
            witness="-",
            suggestion=f"a path for {role}",
        )


def _looked_at(
    outputs: Mapping[str, Path | None], inputs: Mapping[str, Path], *, force: bool, quiet: bool
) -> Say:
    taken, aside = dict(inputs), False
    for role, given in inputs.items():
        given.stat()  # what is not there is named before what is wrong with the outputs
        if given.is_dir():  # a folder of data is all of its files
            taken |= {f"{role} ({file.name})": file for file in sorted(given.iterdir())}
    for role, path in outputs.items():
        if path is None:
            continue
        for other, file in taken.items():
            if same_file(path, file):
                raise OutputError(
                    f"cannot write {path}: {role} and {other} are one file",
                    witness=str(file),
                    suggestion=f"another path for {role}",
                )
        target = require_writable(path)
        if target.is_old_file and not force:
            raise target.refused("it exists already", "--force to overwrite it, or another path")
        taken[role] = path
        aside = aside or target.is_standard_output

    def say(text: str | Table) -> None:
        if isinstance(text, Table):
            console(width=100, stderr=aside).print(text)
        else:
            typer.echo(text, err=aside)

    written = any(path is not None for path in outputs.values())
    return _silent if quiet and written else say


def _silent(_text: str | Table) -> None:
    """Say nothing."""


def print_json(**document: Any) -> None:  # noqa: ANN401 - whatever has a JSON form
    """Print what --json promises: one document, and nothing else on standard output."""
    typer.echo(json.dumps(document, indent=1, default=str))


def write_certificate(
    certificate: "Certificate", output: Path, say: Say, *, as_json: bool = False
) -> None:
    """Write a certificate whatever it says; status 1 unless all of it is PROVED."""
    certificate.save(output)
    say(f"{certificate}\n\nwritten to {output}")
    if as_json:
        claims = [
            {
                "name": claim.name,
                "verdict": claim.verdict.name,
                "statement": claim.statement,
                "detail": claim.detail,
                "witness": claim.witness,
            }
            for claim in certificate.claims
        ]
        print_json(verdict=certificate.verdict.name, claims=claims, certificate=str(output))
    end(proved=certificate.proved)


def require_predictions(path: Path) -> None:
    """Raise OutputError for a file whose name promises something else; worth a call before work."""
    if path.suffix.lower() not in (*_ARRAYS, _TABLE):
        raise OutputError(
            f"cannot write {path}: predictions are an .npy or a .csv file",
            witness=path.suffix,
            suggestion=f"{path.with_suffix('.npy')} or {path.with_suffix('.csv')}",
        )


def save_predictions(path: Path, predictions: npt.NDArray[Any], classes: tuple[Label, ...]) -> None:
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
