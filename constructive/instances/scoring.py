"""`score`: what a verifier said about a folder of instances, against the proved answers."""

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from constructive.instances.properties import Property
from constructive.instances.reading import Expected, expected_rows, read_property
from constructive.instances.replaying import Grade, replayed
from constructive.support.errors import FormatError
from constructive.support.progress import report

# Words of results files. A word with "error" or "crash" in it is an error.
SAYS = {
    "sat": ("sat", "violated", "unsafe", "falsified"),
    "unsat": ("unsat", "holds", "safe", "verified"),
    "unknown": ("unknown", "timeout", "run_instance_timeout"),
}
_DECADES = 2, 4, 6, 9
_FOLDERS = "vnnlib", "vnnlib2"


class Outcome(Enum):
    """What became of an instance."""

    RIGHT = "right"
    UNSHOWN = "unshown"
    """Rightly said to be sat, without a witness that can be replayed."""
    UNKNOWN = "unknown"
    FALSE = "FALSE"
    ERROR = "error"
    MISSING = "missing"


@dataclass(frozen=True)
class Scored:
    """An instance, and what a verifier said about it.

    Attributes:
        expected: its row of expected.csv
        said: the word of the results file, or ""
        outcome: what that is worth
        reason: in words
    """

    expected: Expected
    said: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class Score:
    """The result of a verifier on a folder.

    Attributes:
        rows: one for each instance, in the order of expected.csv
        others: how many rows of the results file are about no instance of the folder
    """

    rows: tuple[Scored, ...]
    others: int

    @property
    def false(self) -> tuple[Scored, ...]:
        """The instances about which the verifier is wrong."""
        return tuple(row for row in self.rows if row.outcome is Outcome.FALSE)

    def counts(self) -> dict[tuple[str, str, str], Counter[Outcome]]:
        """Count outcomes by family, answer and hardness, in this order."""
        random = {row.expected.network: row.expected.random for row in self.rows
                  if row.expected.random is not None}  # fmt: skip
        found: dict[tuple[str, str, str], Counter[Outcome]] = {}
        for row in self.rows:
            given = row.expected
            key = given.family, given.answer, hardness(random.get(given.network))
            found.setdefault(key, Counter())[row.outcome] += 1
        return dict(sorted(found.items()))

    def document(self) -> dict[str, object]:
        """Return what `--json` prints."""
        totals = Counter(row.outcome for row in self.rows)
        return {
            "counts": {outcome.value: totals[outcome] for outcome in Outcome},
            "other rows": self.others,
            "instances": [
                {"instance": row.expected.name, "answer": row.expected.answer, "said": row.said,
                 "outcome": row.outcome.value, "reason": row.reason}
                for row in self.rows
            ],
        }  # fmt: skip


def hardness(random: float | None) -> str:
    """Return in words how small a part of the box witnesses are known to take.

    Example:
        >>> hardness(3e-5), hardness(None)
        ('< 1e-4 of the box', 'no bound')
    """
    if random is None:
        return "no bound"
    reached = [decade for decade in _DECADES if random < 10.0**-decade]
    return f"< 1e-{reached[-1]} of the box" if reached else "1e-2 of the box or more"


def score(folder: str | Path, results: str | Path) -> Score:
    r"""Compare the results of a verifier with the proved answers of a folder.

    Rows of the results file have, in this order, the name of an instance or its .vnnlib file; the
    result; and perhaps a witness, as text or as the path of a file (which may be .gz). Other
    columns, such as categories, networks and times, may stand between them, as in the files of
    VNN-COMP. Witnesses are replayed (`replaying`). Check the folder first: its expected.csv is
    believed here.

    Args:
        folder: as `save` writes it
        results: a .csv file

    Raises:
        FormatError: if the folder or the file cannot be read, a result is not a known word, an
            instance has two rows or a row two results, or no row is about the folder
        MissingExtraError: without onnx and onnxruntime, if there are witnesses

    Example:
        >>> import tempfile
        >>> from constructive import instances
        >>> folder = Path(tempfile.mkdtemp()) / "folder"
        >>> instances.save(folder, instances.planted(dim=2, scale=16.0))
        >>> results = folder.with_name("results.csv")
        >>> _ = results.write_text("needle_a,unsat\nneedle_b,unsat\n")
        >>> [(row.expected.answer, row.outcome.value) for row in score(folder, results).rows]
        [('sat', 'FALSE'), ('unsat', 'right')]
    """
    folder, results = Path(folder), Path(results)
    expected = expected_rows(folder)
    said, others = _results(results, expected)
    if not said:
        raise FormatError(
            f"no row of {results} is about {folder}",
            witness=f"{others} rows",
            suggestion="rows such as onnx/NETWORK.onnx,vnnlib/NAME.vnnlib,sat",
        )
    rows = []
    for done, given in enumerate(expected.values()):
        report("score", done, len(expected))
        word, witness = said.get(given.name, ("", ""))
        outcome, reason = _judged(folder, given, word, witness)
        if outcome is Outcome.FALSE:
            reason += _twins(given, expected, said)
        rows.append(Scored(given, word, outcome, reason))
    report("score", len(expected), len(expected))
    return Score(tuple(rows), others)


def _judged(folder: Path, given: Expected, word: str, witness: str) -> tuple[Outcome, str]:
    """What a result is worth, and why."""
    meant, proof = _meaning(word) if word else "", f"proofs/{given.name}.json"
    if meant not in {"sat", "unsat"}:
        others = {"": Outcome.MISSING, "unknown": Outcome.UNKNOWN}
        return others.get(meant or "", Outcome.ERROR), word or "no row"
    if meant != given.answer:
        says = "has a witness" if given.answer == "sat" else "proves that there is no witness"
        return Outcome.FALSE, f"{proof} {says}"
    if meant == "unsat":
        return Outcome.RIGHT, f"as proved in {proof}"
    if not witness:
        return Outcome.UNSHOWN, "no witness"
    replay = replayed(folder / f"onnx/{given.network}.onnx", _property(folder, given), witness)
    refused = replay.grade is Grade.REFUSED
    words = f"witness {replay.grade.value}: {replay.reason}"
    return (Outcome.UNSHOWN if refused else Outcome.RIGHT), words


def _twins(
    given: Expected, expected: Mapping[str, Expected], said: Mapping[str, tuple[str, str]]
) -> str:
    """What a false result contradicts: instances on the same network, and what was said there."""
    twins = [each for each in expected.values()
             if each.network == given.network and each.answer != given.answer]  # fmt: skip
    told = (
        f"; its twin {each.name} is {each.answer}, and the result says "
        f"{said.get(each.name, ('nothing', ''))[0]}"
        for each in twins
    )
    return "".join(told)


def _property(folder: Path, given: Expected) -> Property:
    path = next(
        path for part in _FOLDERS if (path := folder / part / f"{given.name}.vnnlib").is_file()
    )
    return read_property(path.read_text(encoding="utf-8"))


def _meaning(word: str) -> str | None:
    """sat, unsat, unknown, error, or None for a word that is not a result."""
    plain = word.strip().lower()
    for meaning, words in SAYS.items():
        if plain in words:
            return meaning
    wrong = any(part in plain for part in ("error", "crash"))
    return "error" if wrong else "unknown" if "timeout" in plain else None


def _results(
    path: Path, expected: Mapping[str, Expected]
) -> tuple[dict[str, tuple[str, str]], int]:
    """Result and witness by instance, and the number of other rows."""
    found: dict[str, tuple[str, str]] = {}
    others = 0
    for row in _rows(path):
        named = _named(row, expected)
        if named is None:
            others += bool(row)
            continue
        place, name = named
        rest = row[place + 1 :]
        results = [k for k, cell in enumerate(rest) if _meaning(cell) is not None]
        meant = [_meaning(rest[k]) for k in results]
        if not results or name in found or {"sat", "unsat"} & set(meant) - set(meant[:1]):
            what = "no result" if not results else "two rows" if name in found else "two results"
            raise FormatError(
                f"{path} has {what} of {name}",
                witness=",".join(row)[:80],
                suggestion="one row for each instance, with sat, unsat, unknown, timeout or error",
            )
        after = (_witness(cell, path.parent) for cell in rest[results[0] + 1 :])
        found[name] = rest[results[0]].strip(), next(filter(None, after), "")
    return found, others


def _rows(path: Path) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return list(csv.reader(file, strict=True))
    except (OSError, ValueError, csv.Error) as error:
        raise FormatError(
            f"{path} cannot be read as a results file",
            witness=str(error),
            suggestion="a .csv file such as those of VNN-COMP",
        ) from error


def _named(row: Sequence[str], expected: Mapping[str, Expected]) -> tuple[int, str] | None:
    """The place of the cell that names an instance, and its name; a .vnnlib file comes first."""

    def names() -> Iterator[tuple[bool, int, str]]:
        for place, cell in enumerate(row):
            name = Path(cell.strip()).name
            stem = name.removesuffix(".gz").removesuffix(".vnnlib")
            if stem in expected:
                yield name == stem, place, stem

    best = min(names(), default=None)
    return best[1:] if best else None


def _witness(cell: str, folder: Path) -> str:
    """A witness in a cell, or in a file that it names; else nothing."""
    text = cell.strip()
    if text.startswith("("):
        return text
    path = folder / text
    try:
        if not text or not path.is_file():
            return ""
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, ValueError, EOFError, zlib.error):
        return ""
