"""`score`: what a verifier said about a folder of instances, against the proved answers."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import numpy as np

from constructive.instances.folder import Expected, expected_rows
from constructive.instances.properties import TOLERANCE, Property, read_property
from constructive.support.arrays import Array
from constructive.support.errors import FormatError, require
from constructive.support.files import GZIP, regular_file, unpacked
from constructive.support.work import report

# Words of results files.
SAYS = {
    "sat": ("sat", "violated", "unsafe", "falsified"),
    "unsat": ("unsat", "holds", "safe", "verified"),
    "unknown": ("unknown", "no_result_in_file"),
}
# Words with one of these in them, such as `run_instance_timeout` or `error_exit_code_1`.
_PARTS = {
    "error": ("error", "crash"),
    "unknown": ("timeout", "timed-out", "timed_out", "memout", "out-of-memory", "out_of_memory"),
}
EVALUATORS = "onnxruntime", "float64"  # Where witnesses are replayed
_MOST_WITNESS = 1 << 26  # Bytes of a witness in a file that is packed


class Outcome(Enum):
    """What became of an instance."""

    RIGHT = "right"
    UNSHOWN = "unshown"
    """Rightly said to be sat, without a witness that can be replayed."""
    UNKNOWN = "unknown"
    FALSE = "FALSE"
    ERROR = "error"
    MISSING = "missing"


class Result(NamedTuple):
    """What a row of a results file says; its meaning is None if the word is not known."""

    word: str
    meaning: str | None
    witness: str = ""


@dataclass(frozen=True)
class Scored:
    """An instance, and what a verifier said about it.

    Attributes:
        expected: its row of expected.csv
        said: the word of the results file, or ""
        outcome: what that is worth, against the answer in real arithmetic
        reason: in words
        in_float32: what it is worth against the answer of float32 programs
    """

    expected: Expected
    said: str
    outcome: Outcome
    reason: str
    in_float32: Outcome


@dataclass(frozen=True)
class Score:
    """The result of a verifier on a folder.

    Attributes:
        rows: one for each instance, in the order of expected.csv
        others: how many rows of the results file are about no instance of the folder
        strange: instances by words that are not known, which count as unknown; "" for no word
    """

    rows: tuple[Scored, ...]
    others: int
    strange: Mapping[str, tuple[str, ...]]

    @property
    def false(self) -> tuple[Scored, ...]:
        """The instances about which the verifier is wrong, in real arithmetic."""
        return tuple(row for row in self.rows if row.outcome is Outcome.FALSE)

    @property
    def false_in_float32(self) -> tuple[Scored, ...]:
        """The instances about which it is wrong, as float32 programs compute."""
        return tuple(row for row in self.rows if row.in_float32 is Outcome.FALSE)

    @property
    def sound(self) -> bool:
        """Whether nothing is false, in one of both semantics."""
        return not (self.false and self.false_in_float32)

    @property
    def totals(self) -> Counter[Outcome]:
        """How many instances have each outcome, in real arithmetic."""
        return Counter(row.outcome for row in self.rows)

    @property
    def totals_in_float32(self) -> Counter[Outcome]:
        """How many have each outcome, as float32 programs compute."""
        return Counter(row.in_float32 for row in self.rows)

    def counts(self) -> dict[tuple[str, str], Counter[Outcome]]:
        """Count outcomes by family and answer, in this order, and all of them at the end.

        Instances whose answers in real arithmetic and in float32 differ are counted twice, once for
        each.
        """
        found: dict[tuple[str, str], Counter[Outcome]] = {}
        for row in self.rows:
            given = row.expected
            if given.answer == given.float32:
                found.setdefault((given.family, given.answer), Counter())[row.outcome] += 1
                continue
            for name, answer, outcome in (
                (f"{given.family}, real", given.answer, row.outcome),
                (f"{given.family}, float32", given.float32, row.in_float32),
            ):
                found.setdefault((name, answer), Counter())[outcome] += 1
        found = dict(sorted(found.items()))
        found["all", ""] = self.totals
        if self.totals_in_float32 != self.totals:
            found["all, float32", ""] = self.totals_in_float32
        return found

    def document(self) -> dict[str, object]:
        """Return what `--json` prints."""
        return {
            "counts": {outcome.value: self.totals[outcome] for outcome in Outcome},
            "counts in float32": {each.value: self.totals_in_float32[each] for each in Outcome},
            "other rows": self.others,
            "words that are not known": dict(self.strange),
            "instances": [
                {"instance": row.expected.name, "answer": row.expected.answer, "said": row.said,
                 "outcome": row.outcome.value, "in float32": row.in_float32.value,
                 "reason": row.reason}
                for row in self.rows
            ],
        }  # fmt: skip


def score(folder: str | Path, results: str | Path) -> Score:
    r"""Compare the results of a verifier with the proved answers of a folder.

    Rows of the results file have, in this order, the name of an instance or its .vnnlib file; the
    result; and perhaps a witness, as text or as the path of a file (which may be .gz). Other
    columns, such as categories, networks and times, may stand between them, as in the files of
    VNN-COMP, whose witnesses are files `NETWORK_NAME.counterexample.gz` beside the results, or in a
    folder there. Witnesses are replayed (`replaying`). Check the folder first: its expected.csv is
    believed here.

    A word that is not known counts as unknown, and so does a row with no word or with both *sat*
    and *unsat*. Of several rows about an instance a false one counts; if others differ, they are an
    error.

    Args:
        folder: as `save` writes it
        results: a .csv file

    Raises:
        FormatError: if the folder or the file is not what it should be, or no row is about it
        OSError: if the file cannot be read
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
    rows, strange = [], dict[str, tuple[str, ...]]()
    for done, given in enumerate(expected.values()):
        report("score", done, len(expected))
        found = said.get(given.name, [])
        row = _scored(folder, given, found)
        if row.outcome is Outcome.FALSE:
            row = replace(row, reason=row.reason + _twins(given, expected, said))
        rows.append(row)
        for word in sorted({result.word for result in found if result.meaning is None}):
            strange[word] = (*strange.get(word, ()), given.name)
    report("score", len(expected), len(expected))
    return Score(tuple(rows), others, strange)


def _scored(folder: Path, given: Expected, results: Sequence[Result]) -> Scored:
    """What the rows about one instance are worth together."""
    if not results:
        return Scored(given, "", Outcome.MISSING, "no row", Outcome.MISSING)
    if given.answer == given.float32:
        word, outcome, reason = _together(folder, given, results, given.answer, EVALUATORS)
        return Scored(given, word, outcome, reason, outcome)
    word, outcome, reason = _together(folder, given, results, given.answer, ("float64",))
    _, in_float32, _ = _together(folder, given, results, given.float32, ("onnxruntime",))
    return Scored(given, word, outcome, reason, in_float32)


def _together(
    folder: Path, given: Expected, results: Sequence[Result], answer: str, where: Sequence[str]
) -> tuple[str, Outcome, str]:
    """The word, the outcome and the reason of several rows, against one answer."""
    judged = [(each.word, *_judged(folder, given, each, answer, where)) for each in results]
    first = min(judged, key=lambda row: row[1] is not Outcome.FALSE)
    if first[1] is Outcome.FALSE or len({each.meaning or "unknown" for each in results}) == 1:
        return first
    return first[0], Outcome.ERROR, "rows differ: " + ", ".join(each.word for each in results)


def _judged(
    folder: Path, given: Expected, result: Result, answer: str, where: Sequence[str]
) -> tuple[Outcome, str]:
    """What a result is worth, and why; witnesses are evaluated as `where` says."""
    (word, meant, witness), proof = result, f"proofs/{given.name}.json"
    if meant not in {"sat", "unsat"}:
        return Outcome.ERROR if meant == "error" else Outcome.UNKNOWN, word or "no result"
    if meant != answer:
        says = "has a witness" if answer == "sat" else "proves that there is no witness"
        return Outcome.FALSE, f"{proof} {says}"
    if meant == "unsat":
        return Outcome.RIGHT, f"as proved in {proof}"
    if not witness:
        return Outcome.UNSHOWN, "no witness"
    graph = folder / f"onnx/{given.network}.onnx"
    text = (folder / f"vnnlib/{given.name}.vnnlib").read_text(encoding="utf-8")
    replay = replayed(graph, read_property(text), witness, where)
    words = f"witness {replay.grade.value}: {replay.reason}"
    return (Outcome.RIGHT if replay.grade is Grade.EXACT else Outcome.UNSHOWN), words


def _twins(
    given: Expected, expected: Mapping[str, Expected], said: Mapping[str, list[Result]]
) -> str:
    """What a false result contradicts: instances on the same network, and what was said there."""
    twins = [each for each in expected.values()
             if each.network == given.network and each.answer != given.answer]  # fmt: skip
    told = (
        f"; its twin {each.name} is {each.answer}, and the result says "
        f"{' and '.join(result.word for result in said.get(each.name, [])) or 'nothing'}"
        for each in twins
    )
    return "".join(told)


def _meaning(word: str) -> str | None:
    """sat, unsat, unknown, error, or None for a word that is not known."""
    plain = word.strip().lower()
    for meaning, words in SAYS.items():
        if plain in words:
            return meaning
    parts = (meaning for meaning, words in _PARTS.items() if any(part in plain for part in words))
    return next(parts, None)


def _results(path: Path, expected: Mapping[str, Expected]) -> tuple[dict[str, list[Result]], int]:
    """Results by instance, one for each row, and the number of other rows."""
    found: dict[str, list[Result]] = {}
    others = 0
    for row in _rows(path):
        named = _named(row, expected)
        if named is None:
            others += bool(row)
            continue
        place, name = named
        result = _result([cell.strip() for cell in row[place + 1 :]], path.parent)
        if result.meaning == "sat" and not result.witness:
            result = result._replace(witness=_beside(path.parent, expected[name]))
        found.setdefault(name, []).append(result)
    return found, others


def _result(cells: Sequence[str], folder: Path) -> Result:
    """The result in the cells after the name of an instance; files of witnesses are in a folder."""
    meanings = list(map(_meaning, cells))
    places = [k for k, meaning in enumerate(meanings) if meaning is not None]
    if not places:  # a word that is not known, if any cell is one
        return Result(next((cell for cell in cells if cell[:1].isalpha()), ""), None)
    first = places[0]
    others = [k for k in places if meanings[k] in {"sat", "unsat"} - {meanings[first]}]
    if others:  # which of them is the result?
        return Result(f"{cells[first]} and {cells[others[0]]}", None)
    witnesses = (_witness(cell, folder) for cell in cells[first + 1 :])
    return Result(cells[first], meanings[first], next(filter(None, witnesses), ""))


def _beside(folder: Path, given: Expected) -> str:
    """A witness in a file beside the results, as the scripts of VNN-COMP name it, or nothing."""
    name = f"{given.network}_{given.name}.counterexample"
    places = (f"{place}{name}{end}" for place in ("", "*/") for end in ("", ".gz"))
    files = (file for place in places for file in sorted(folder.glob(place)))
    return next(filter(None, (_witness(str(file), folder) for file in files)), "")


def _rows(path: Path) -> list[list[str]]:
    try:
        with regular_file(path).open(newline="", encoding="utf-8-sig") as file:
            return list(csv.reader(file, strict=True))
    except FormatError:
        raise
    except (ValueError, csv.Error) as error:
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
        return (unpacked(data, _MOST_WITNESS, GZIP) if path.suffix == ".gz" else data).decode()
    except (OSError, ValueError):
        return ""


# Replaying witnesses of verifiers, by the rules of VNN-COMP 2026.
#
# A witness is text: `((X_0 0.25) ... (Y_0 1.5))`, or `X[0,0]`; or in VNN-LIB 2.0 a line
# `X float32 [1,2]` and one number a line. Outputs are ignored. It is *exact* if it is in the box,
# and the outputs that are computed meet the property, both in onnxruntime (float32) and in float64;
# or in one of both, where the answers in real arithmetic and of float32 programs differ. It is
# *within tolerance* if it is up to 1e-4 outside of the box, which does not show that sat is right.
# Anything else is refused.


_PAIR = re.compile(r"\(\s*([XY])(?:_|\[0,\s*)(\d+)\]?\s+([-+0-9.eE]+|[-+]?(?:inf|nan))\s*\)")
_SECOND = re.compile(r"^\(?\s*([XY])\s+\w+\s*\[[\d, ]+\]\s*$", re.MULTILINE)


class Grade(Enum):
    """What a witness is worth."""

    EXACT = "exact"
    TOLERATED = "within tolerance"
    REFUSED = "refused"


class Replay(NamedTuple):
    """What a replay showed."""

    grade: Grade  # of the witness
    reason: str  # in words


def read_witness(text: str, inputs: int) -> Array:
    """Read the inputs of a witness: (d,)."""
    parts = _SECOND.split(text)
    if len(parts) > 1:  # words, then a name and its numbers by turns
        named = dict(zip(parts[1::2], parts[2::2], strict=True))
        numbers = named.get("X", "").replace(")", " ").replace("(", " ").split()
        found, rest = {i: _number(value) for i, value in enumerate(numbers)}, parts[0].strip()
        right = len(named) == len(parts) // 2
    else:
        pairs = _PAIR.findall(text)
        rest = re.sub(r"[\s()]", "", _PAIR.sub("", text))
        found = {int(index): _number(value) for role, index, value in pairs if role == "X"}
        right = len({pair[:2] for pair in pairs}) == len(pairs)
    values = np.array([found.get(i, np.nan) for i in range(inputs)])
    if (
        not right
        or rest not in {"", "sat"}
        or len(found) != inputs
        or not np.isfinite(values).all()
    ):
        raise FormatError(
            f"the witness does not name {inputs} inputs once each",
            witness=text[:80],
            suggestion="((X_0 0.25) (X_1 0.5) ... (Y_0 1.5))",
        )
    return values


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def outputs_of(graph: Path, point: Array) -> dict[str, Array]:
    """Evaluate an ONNX graph at one input (d,), in onnxruntime and in float64: (k,) each."""
    onnx = require("onnx", extra="instances", purpose="replaying witnesses")
    reference = require("onnx.reference", extra="instances", purpose="replaying witnesses")
    runtime = require("onnxruntime", extra="instances", purpose="replaying witnesses")
    model = onnx.load(regular_file(graph))
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (single,) = session.run(None, {"X": point[None].astype(np.float32)})
    numbers = onnx.numpy_helper
    for constant in model.graph.initializer:
        array = numbers.to_array(constant)
        if array.dtype == np.float32:
            constant.CopyFrom(numbers.from_array(array.astype(np.float64), constant.name))
    (double,) = reference.ReferenceEvaluator(model).run(None, {"X": point[None]})
    return {"onnxruntime": single[0].astype(np.float64), "float64": double[0]}


def replayed(
    graph: Path, wanted: Property, witness: str, evaluators: Sequence[str] = EVALUATORS
) -> Replay:
    """Replay the text of a witness on an ONNX file, in some of `EVALUATORS`."""
    try:
        point = read_witness(witness, len(wanted.box.lower))
    except FormatError as error:
        return Replay(Grade.REFUSED, error.problem)
    outside = np.maximum(wanted.box.lower - point, point - wanted.box.upper)
    where = int(outside.argmax())
    far, words = float(outside[where]), f"X_{where} is {outside[where]:.2g} outside of the box"
    if far > TOLERANCE:
        return Replay(Grade.REFUSED, words)
    outputs = outputs_of(graph, point)
    for name in evaluators:
        slack = float(wanted.least_slack(outputs[name][None])[0])
        if not slack >= 0.0:
            return Replay(Grade.REFUSED, f"outputs in {name} miss the property by {-slack:.2g}")
    if far > 0.0:
        return Replay(Grade.TOLERATED, words)
    return Replay(Grade.EXACT, "in the box, and its outputs meet the property")
