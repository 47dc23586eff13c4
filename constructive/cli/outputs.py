"""What commands write: files that are checked before the work starts, and text or JSON."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.table import Table

from constructive.cli.common import console, end
from constructive.support.errors import OutputError
from constructive.support.files import (
    STANDARD_OUTPUT,
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
        require_ending(path, ending)
    if as_json and path is not None and require_writable(path).is_standard_output:
        raise OutputError(
            "--output and --json both write to standard output",
            witness=str(output),
            suggestion="--output with the path of a file, or no --json",
        )
    return path, say


def require_ending(path: Path, ending: str) -> None:
    """Raise OutputError for a name whose ending promises another format."""
    found = path.suffix.lower()
    if found != ending and found in _FORMATS:
        raise OutputError(
            f"cannot write {path}: {found} is the ending of {_FORMATS[found]}, and this is "
            f"{_FORMATS[ending]}",
            witness=found,
            suggestion=str(path.with_suffix(ending)),
        )


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
            require_ending(path, ending)
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
    for role, given in inputs.items():  # a folder of data is all of its files
        if given.is_dir():
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
