"""`check`: the independent checker, run on files in a process of its own."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from constructive.certificates.certificate import FORMATS
from constructive.data.dataset import Dataset
from constructive.data.stored import FILES
from constructive.support.errors import FormatError, ParameterError, as_path, shown, with_article
from constructive.support.verdict import Verdict, no_boolean
from constructive.support.work import listened, report

# The folder that Python runs. It imports nothing of this package.
CHECKER = Path(__file__).parent.with_name("checker")

_CERTIFICATE, _WEIGHTS, _DATA = "certificate", "memorizer", "data"
_KINDS = {
    **dict.fromkeys(FORMATS, _CERTIFICATE),
    "constructive sequence memorizer 1": _WEIGHTS,
    "constructive sequences 1": _DATA,
    "constructive text 1": _DATA,
}
# A line of the checker that tells what it is at (`Told` of `checker/files.py`).
_STEP = re.compile(r"\.\.\. (.{1,99}): (\d{1,18}) of (\d{1,18})\n")
_HEAD = 4096  # Bytes of a file that say what it is
_NAMED = re.compile(rb'\s*\{.*?"format":\s*"([^"]{1,60})"', re.DOTALL)
_LENGTH = 8  # Bytes before the JSON of a .safetensors file.
_ORDER = "three files in this order: certificate, memorizer, data (two for an upper bound)"


@runtime_checkable
class Saved(Protocol):
    """What can be written to a file: a certificate, a memorizer, data."""

    def save(self, path: str | Path) -> None:
        """Write it."""


@dataclass(frozen=True)
class Checked:
    """What the independent checker said: PROVED, or UNDECIDED where it refused.

    It is not a Boolean: ask `proved`.

    Attributes:
        verdict: of all claims together
        report: its output: what it needed, a line for each claim, then PROVED or the reason why not
    """

    verdict: Verdict
    report: str

    def __repr__(self) -> str:
        reason = "" if self.proved else f", {str(self).rpartition(chr(10))[2]}"
        return f"<Checked: {self.verdict.name}{reason}>"

    def __str__(self) -> str:
        return self.report.rstrip()

    @property
    def proved(self) -> bool:
        """Whether every claim of the certificate was proved again."""
        return self.verdict is Verdict.PROVED

    def __bool__(self) -> bool:
        raise no_boolean("what a checker said", "its .proved")


def check(
    certificate: str | Path | Saved,
    weights: str | Path | Saved | None,
    data: str | Path | Saved,
    *,
    quick: bool = False,
    max_memory: float = 8.0,
) -> Checked:
    """Run the independent checker on a certificate, weights and data: files, or what they hold.

    The checker is the folder `constructive/checker`, which `python -I` runs in a process of its
    own; it imports nothing of this package. Objects are written to a temporary folder first.

    Args:
        certificate: a file of `Certificate.save`, or the object
        weights: a file of `Memorizer.save`, `SequenceMemorizer.save` or `Decoder.save`, or the
            object; None for the certificate of an upper bound, which is about all weights
        data: a file of `Dataset.save`, `SequenceDataset.save` or `Text.save`, or the object; a
            folder of `Dataset.save_folder`, of which contexts are read a few at a time where the
            certificate is of paired heads
        quick: check the rank claim by products with vectors that nobody can choose, in O(T^2),
            instead of by elimination (others than that are quick anyway)
        max_memory: GB that the checker may take: from the shapes it says what it needs, and
            refuses what is more before it takes it; by default 8

    Raises:
        FormatError: for a file that is not there, or may not be read, or is one of another role
        ParameterError: for what is neither a file nor such an object, such as a PyTorch module,
            for rational weights, which no file holds, and for no size

    Example:
        >>> check("none.json", "none.safetensors", "none.npz")
        Traceback (most recent call last):
            ...
        constructive.FormatError: the certificate none.json is not there
          witness: none.json
          try: three files in this order: certificate, memorizer, data (two for an upper bound)
    """
    require_gigabytes(max_memory)
    if not isinstance(quick, bool):
        raise ParameterError(
            f"quick={shown(quick)} is neither True nor False",
            witness=shown(quick),
            suggestion="quick=True",
        )
    given = {_CERTIFICATE: certificate, _WEIGHTS: weights, _DATA: data}
    given = {role: thing for role, thing in given.items() if thing is not None}
    with tempfile.TemporaryDirectory() as folder:
        paths = [_path_of(role, thing, Path(folder)) for role, thing in given.items()]
        return run_checker([*map(str, paths), *["--quick"] * quick], max_memory=max_memory)


def run_checker(arguments: Sequence[str], *, max_memory: float = 8.0) -> Checked:
    """Run the independent checker with these arguments, in a process of its own."""
    require_gigabytes(max_memory)
    command = [sys.executable, "-I", str(CHECKER), *arguments]
    command += ["--max-memory", repr(float(max_memory))]
    with tempfile.TemporaryDirectory() as folder:
        status, report = _run(command, Path(folder) / "stdout")
    return Checked(Verdict.PROVED if status == 0 else Verdict.UNDECIDED, report)


def require_gigabytes(max_memory: float) -> None:
    """Raise ParameterError unless it is a positive number of GB."""
    if not (isinstance(max_memory, int | float) and 0 < max_memory <= sys.float_info.max):
        raise ParameterError(
            f"max_memory={shown(max_memory)} is not a size",
            witness=shown(max_memory),
            suggestion="max_memory=8",
        )


def _run(command: list[str], printed: Path) -> tuple[int, str]:
    """Return the status of the checker, and all it wrote but for its steps, which are reported.

    Steps come on stderr while it runs; stdout goes to a file, as two pipes may block each other.
    """
    told = ["--progress"] if listened() else []
    others = []
    with (
        printed.open("w+b") as stdout,
        subprocess.Popen(  # noqa: S603 - our own files, and no shell
            [*command, *told], stdout=stdout, stderr=subprocess.PIPE, text=True, errors="replace"
        ) as checker,
    ):
        try:
            for line in checker.stderr or ():
                step = _STEP.fullmatch(line)
                if step is None:
                    others.append(line)
                    report(f"check: {line.strip()}", 0, 1)  # what it needs, before it begins
                else:
                    report(f"check: {step[1]}", int(step[2]), int(step[3]))
            status = checker.wait()
        except BaseException:  # of the listener, or Ctrl-C: nobody waits for it any more
            checker.kill()
            raise
        stdout.seek(0)
        return status, "".join(others) + stdout.read().decode(errors="replace")


def _path_of(role: str, given: object, folder: Path) -> Path:
    """Return the file of a role; an object is written to one, unless it is on disk already."""
    if isinstance(given, Dataset) and given.on_disk:
        given = given.on_disk.path.parent
    if isinstance(given, str | Path):
        _require_role(as_path(given), role, given)
        return Path(given).resolve()
    if not isinstance(given, Saved):
        raise ParameterError(
            f"the {role} is {with_article(type(given).__name__)}",
            witness=shown(given),
            suggestion="the path of a file, or what certify took and gave: a Certificate, a "
            "Memorizer (Memorizer.from_torch reads a module), a Dataset",
        )
    path = folder / role
    given.save(path)
    found = _role_of(path)
    if found not in {role, None}:
        name = type(given).__name__
        raise FormatError(f"the {role} is {with_article(name)}", witness=name, suggestion=_ORDER)
    return path


def _require_role(path: Path, role: str, given: object) -> None:
    if not os.path.exists(path):  # noqa: PTH110 - False also for a name that is too long
        problem = f"the {role} {given} is not there"
    elif path.is_dir() and all((path / name).is_file() for name in FILES):
        if role == _DATA:
            return
        problem = f"the {role} {given} is the {_DATA}"
    elif not path.is_file():
        problem = f"the {role} {given} is not a regular file"
    elif not os.access(path, os.R_OK):
        problem = f"the {role} {given} may not be read"
    else:
        found = _role_of(path)
        if found in {role, None}:
            return
        problem = f"the {role} {given} is {'a' if found != _DATA else 'the'} {found}"
    raise FormatError(problem, witness=str(given), suggestion=_ORDER)


def named_format(path: Path) -> str | None:
    """Return the format that a JSON file of ours names at its start; None for any other file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        named = _NAMED.match(file.read(_HEAD))
    return named[1].decode(errors="replace") if named else None


def _role_of(path: Path) -> str | None:
    """What a file says it is; None where the checker may find out what is wrong with it."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"PK"):
        return _DATA
    if head.find(b"{") == _LENGTH:
        return _WEIGHTS
    return _KINDS.get(named_format(path) or "")
