"""Have Rocq check the formal proofs in `proofs/rocq/`, and read what the main theorems rest on.

`make` in that folder does the work: no gap in the sources, every file, and statements and axioms as
they should be. Here it runs in a copy, so that nothing is written where the package is.
"""

import re
import shutil
import subprocess
import tempfile
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from constructive.support import tables
from constructive.support.errors import MissingExtraError, OutputError
from constructive.support.progress import Progress, silent
from constructive.theory import proofs

PACKAGES = (
    "coq", "make", "libcoq-mathcomp-analysis", "libcoq-mathcomp-algebra-tactics",
    "libcoq-mathcomp-zify",
)  # fmt: skip
"""What Debian calls Rocq and its libraries."""

_INSTALL = f"Rocq 8.16 with mathcomp 1.15; on Debian 12: apt-get install {' '.join(PACKAGES)}"
_PRINTED = re.compile(
    r"^(\w+)\n {5}: (.*?)\n(?:Axioms:\n(.*?)|Closed under the global context\n?)"
    r"(?=^\w+\n {5}: |\Z)",
    re.MULTILINE | re.DOTALL,
)
_BESIDE = "Makefile", "_CoqProject", "main_theorems.txt", "sources.awk"
_LAST_LINES = 30
"""Of the output of `make`, where it fails."""


@dataclass(frozen=True)
class Theorem:
    """A theorem which Rocq has checked.

    Attributes:
        name: its name in the sources
        statement: what it says, by the name of a definition in `statements/` or in full
        axioms: all axioms its proof rests on, with their modules
    """

    name: str
    statement: str
    axioms: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What `make` found: the main theorems, and its last lines where it failed, else ""."""

    theorems: tuple[Theorem, ...]
    failure: str


def sources() -> Path:
    """The folder of the formal proofs.

    Example:
        >>> (sources() / "statements" / "Definitions.v").exists()
        True
    """
    return proofs.pages()[0].parent / "rocq"


def files(folder: Path) -> list[Path]:
    """The sources in a folder, relative to it, in the order of their names.

    Example:
        >>> files(sources())[0].as_posix()
        'checker/integer_checker.v'
    """
    return sorted(path.relative_to(folder) for path in folder.rglob("*.v"))


def printed(text: str) -> tuple[Theorem, ...]:
    r"""The theorems in what Rocq prints for `main_theorems.v`.

    Example:
        >>> text = "sum\n     : Sum\nAxioms:\nboolp.choice\n  : forall x, x\nR.zero : R.int\n"
        >>> printed(text + "one\n     : 1 = 1\nClosed under the global context\n")[0]
        Theorem(name='sum', statement='Sum', axioms=('boolp.choice', 'R.zero'))
    """
    return tuple(
        Theorem(name, statement, tuple(re.findall(r"^([\w.]+)(?=\s)", axioms, re.MULTILINE)))
        for name, statement, axioms in _PRINTED.findall(text)
    )


def check(folder: Path | None = None, progress: Progress = silent) -> Report:
    """Copy the sources, and have Rocq check them there.

    Args:
        folder: where the copy is made and what is built is kept, so that the next check takes
            little time; a temporary folder by default
        progress: called with each file, how many were begun before it, and how many there are

    Raises:
        MissingExtraError: where Rocq, its libraries or make are not installed
        OutputError: for a folder which holds something else
    """
    for program in ("coqc", "make"):
        if shutil.which(program) is None:
            raise MissingExtraError(
                f"the formal proofs need {program}, which is not installed",
                witness=program,
                suggestion=_INSTALL,
            )
    with _copy(folder) as copy:
        status, output = _make(copy, progress)
        missing = re.search(r"Cannot find a physical path bound to logical path.*?mathcomp", output)
        if missing is None:
            missing = re.search(r"Unable to locate library\s.*?mathcomp.*", output)
        if missing is not None:
            raise MissingExtraError(
                "the formal proofs need libraries of Rocq which are not installed",
                witness=missing[0],
                suggestion=_INSTALL,
            )
        found = copy / "main_theorems.out"
        theorems = printed(found.read_text()) if found.exists() else ()
    return Report(theorems, output if status else "")


def table(theorems: Sequence[Theorem]) -> str:
    """Each theorem, its file, and how many axioms of which modules; then the axioms by name."""
    rows = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("theorem", "file", "axioms"):
        rows.add_column(heading)
    texts = {path.as_posix(): (sources() / path).read_text() for path in files(sources())}
    for theorem in theorems:
        place = rf"^(?:Theorem|Lemma) {theorem.name}\b"
        where = [path for path, text in texts.items() if re.search(place, text, re.MULTILINE)]
        modules = Counter(axiom.partition(".")[0] for axiom in theorem.axioms)
        counted = ", ".join(f"{module} {count}" for module, count in sorted(modules.items()))
        rows.add_row(theorem.name, ", ".join(where), counted or "none")
    named = sorted({axiom for theorem in theorems for axiom in theorem.axioms})
    by_module: dict[str, list[str]] = {}
    for axiom in named:
        module, _, name = axiom.partition(".")
        by_module.setdefault(module, []).append(name)
    legend = [f"{module}: {', '.join(names)}" for module, names in by_module.items()]
    return "\n".join([*tables.lines(rows, 130), "", *legend])


@contextmanager
def _copy(folder: Path | None) -> Iterator[Path]:
    """The sources in a folder; those which have not changed keep their times, for make."""
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary, _copy(Path(temporary)) as copy:
            yield copy
        return
    if folder.exists() and any(folder.iterdir()) and not (folder / "_CoqProject").exists():
        raise OutputError(
            f"cannot build in {folder}: it holds something else",
            witness=str(folder),
            suggestion="an empty folder, or one which an earlier check has made",
        )
    for path in (sources() / name for name in [*map(Path, _BESIDE), *files(sources())]):
        target = folder / path.relative_to(sources())
        if not target.exists() or target.read_bytes() != path.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    yield folder


def _make(copy: Path, progress: Progress) -> tuple[int, str]:
    """Run make: its exit status, and the last lines of its output."""
    (copy / "main_theorems.out").unlink(missing_ok=True)
    total, begun = len(files(copy)), 0
    last: deque[str] = deque(maxlen=_LAST_LINES)
    with subprocess.Popen(
        ["make", "--no-print-directory"],  # noqa: S607 - the user's make, as they have it
        cwd=copy,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                if line.startswith("COQC "):
                    progress(line.removeprefix("COQC ").strip(), begun, total)
                    begun += 1
                last.append(line)
            process.wait()
        finally:
            if process.poll() is None:  # an interrupt ends the compiler, too
                process.terminate()
    return process.returncode, "".join(last)
