"""Have Rocq check the formal proofs in `proofs/rocq/`, and read what the main theorems rest on.

`make` in that folder does the work: no gap in the sources, every file, and statements and axioms as
they should be. Here it runs in a copy, so that nothing is written where the package is.
"""

import re
import shutil
import subprocess
import tempfile
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from constructive.support import tables
from constructive.support.errors import MissingExtraError, OutputError
from constructive.support.work import report
from constructive.theory import proofs

# What Debian calls Rocq and its libraries.
PACKAGES = (
    "coq", "make", "libcoq-mathcomp-analysis", "libcoq-mathcomp-algebra-tactics",
    "libcoq-mathcomp-zify",
)  # fmt: skip

_INSTALL = f"Rocq 8.16 with mathcomp 1.15; on Debian 12: apt-get install {' '.join(PACKAGES)}"
_GROUP = re.compile(
    r"(.*?)^(?:Axioms:\n(.*?)|Closed under the global context\n?)(?=^\w+\n {5}: |\Z)",
    re.MULTILINE | re.DOTALL,
)
_STATED = re.compile(r"^(\w+)\n {5}: (.*?)\n(?=^\w+\n {5}: |\Z)", re.MULTILINE | re.DOTALL)
_BESIDE = "Makefile", "_CoqProject", "main_theorems.txt", "sources.awk"
_LAST_LINES = 30  # Of the output of `make`, where it fails


@dataclass(frozen=True)
class Theorem:
    """A theorem that Rocq has checked."""

    name: str  # its name in the sources
    statement: str  # what it says, by the name of a definition in `statements/` or in full
    axioms: tuple[str, ...]  # all axioms that the proofs of its group rest on, with their modules


@dataclass(frozen=True)
class FormalProofs:
    """What `make` found: the main theorems, and its last lines where it failed, else ""."""

    theorems: tuple[Theorem, ...]
    failure: str


def sources() -> Path:
    """Return the folder of the formal proofs."""
    return proofs.pages()[0].parent / "rocq"


def files(folder: Path) -> list[Path]:
    """Return the sources in a folder, relative to it, in the order of their names."""
    return sorted(path.relative_to(folder) for path in folder.rglob("*.v"))


def printed(text: str) -> tuple[Theorem, ...]:
    r"""Return the theorems in what Rocq prints for `main_theorems.v`.

    Axioms are printed once for a group of theorems, since it takes Rocq seconds to find them. They
    are those of all theorems of the group together.
    """
    return tuple(
        Theorem(name, statement, tuple(re.findall(r"^(\S.*?)(?= :|$)", axioms, re.MULTILINE)))
        for group, axioms in _GROUP.findall(text)
        for name, statement in _STATED.findall(group)
    )


def check(folder: Path | None = None) -> FormalProofs:
    """Copy the sources into a temporary folder, and have Rocq check them there.

    A new or empty `folder` gets a copy of the sources and of what was built; none of it is read.
    """
    _require_programs()
    require_new(folder)
    with _copy() as copy:
        status, output = _make(copy)
        _require_libraries(output)
        found = copy / "main_theorems.out"
        theorems = printed(found.read_text()) if found.exists() else ()
        keep(folder, {"": copy})
    return FormalProofs(theorems, output if status else "")


@contextmanager
def compiled(*names: str) -> Iterator[Path]:
    """Copy the sources into a temporary folder, and compile some files and those that they need.

    These are named without `.v`. Compiled files and makefiles that were there before would be
    believed, so none is reused.
    """
    _require_programs()
    with _copy() as copy:
        status, output = _make(copy, "Makefile.coq")
        if not status:
            status, output = _make(copy, "-f", "Makefile.coq", *(f"{name}.vo" for name in names))
        _require_libraries(output)
        if status:
            raise OutputError(
                f"{', '.join(names)} does not compile: {output}",
                witness=str(copy),
                suggestion="constructive prove --rocq",
            )
        yield copy


def require_new(folder: Path | None) -> None:
    """Require that a folder is new or empty, and that files can be written into it."""
    if folder is None:
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise OutputError(
            f"cannot write {folder}: it is not empty",
            witness=str(folder),
            suggestion="a new or an empty folder: what Rocq compiled before is not used again",
        )
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def keep(folder: Path | None, parts: Mapping[str, Path]) -> None:
    """Copy folders, by their names, into one that `require_new` has accepted."""
    if folder is None:
        return
    try:
        for name, part in parts.items():
            shutil.copytree(part, folder / name, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: Exception) -> OutputError:
    reason = getattr(error, "strerror", None) or str(error)
    return OutputError(
        f"cannot write {folder}: {reason}", witness=str(folder), suggestion="another folder"
    )


def _require_programs() -> None:
    for program in ("coqc", "make"):
        if shutil.which(program) is None:
            raise MissingExtraError(
                f"the formal proofs need {program}, which is not installed",
                witness=program,
                suggestion=_INSTALL,
            )


def _require_libraries(output: str) -> None:
    missing = re.search(
        r"Cannot find a physical path bound to logical path.*?mathcomp"
        r"|Unable to locate library\s.*?mathcomp.*",
        output,
    )
    if missing is not None:
        raise MissingExtraError(
            "the formal proofs need libraries of Rocq that are not installed",
            witness=missing[0],
            suggestion=_INSTALL,
        )


def table(theorems: Sequence[Theorem]) -> str:
    """Write a table of theorems, their files and axioms; then the axioms by name."""
    rows = tables.new_table("theorem", "file", "axioms")
    texts = {path.as_posix(): (sources() / path).read_text() for path in files(sources())}
    for theorem in theorems:
        place = rf"^(?:Theorem|Lemma) {theorem.name}\b"
        where = [path for path, text in texts.items() if re.search(place, text, re.MULTILINE)]
        modules = Counter(axiom.partition(".")[0] for axiom in theorem.axioms)
        counted = ", ".join(f"{module} {count}" for module, count in sorted(modules.items()))
        rows.add_row(theorem.name, ", ".join(where), counted or "none")
    axioms = sorted({axiom for theorem in theorems for axiom in theorem.axioms})
    legend = [
        f"{module}: {', '.join(axiom.partition('.')[2] for axiom in named)}"
        for module, named in groupby(axioms, lambda axiom: axiom.partition(".")[0])
    ]
    return "\n".join([*tables.lines(rows, 130), "", *legend])


@contextmanager
def _copy() -> Iterator[Path]:
    """Yield a temporary folder of this user with the sources, and nothing else."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary)
        for path in (sources() / name for name in [*map(Path, _BESIDE), *files(sources())]):
            target = copy / path.relative_to(sources())
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        yield copy


def _make(copy: Path, *arguments: str) -> tuple[int, str]:
    """Run make: its exit status, and the last lines of its output."""
    total, begun = len(files(copy)), 0
    last: deque[str] = deque(maxlen=_LAST_LINES)
    with subprocess.Popen(  # noqa: S603 - targets of ours, and no shell
        ["make", "--no-print-directory", *arguments],  # noqa: S607 - the user's make, as they have it
        cwd=copy,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                if line.startswith("COQC "):
                    report(line.removeprefix("COQC ").strip(), begun, total)
                    begun += 1
                last.append(line)
            process.wait()
        finally:
            if process.poll() is None:  # an interrupt ends the compiler, too
                process.terminate()
    return process.returncode, "".join(last)
