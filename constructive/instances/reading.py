"""Reading properties that `vnnlib` wrote, and tables of a folder.

The independent checker has a reader of its own, which accepts more and trusts nothing.
"""

import csv
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from constructive.instances.properties import Atom, Box, Property
from constructive.instances.vnnlib import version_1, version_2
from constructive.support.errors import FormatError
from constructive.support.reading import regular_file

_DECLARED = re.compile(
    r"\(declare-const ([XY])_\d+ Real\)|\(declare-(?:in|out)put ([XY]) .*, (\d+)\]"
)
_ATOM = re.compile(r"\(([<>]=) ([XY])(?:_|\[0,)(\d+)\]? (?:(-?[\d.]+)|Y(?:_|\[0,)(\d+)\]?)\)")
_HARDNESS = "found by a random point"


class Expected(NamedTuple):
    """A row of expected.csv.

    Attributes:
        name: of the instance
        answer: "sat" or "unsat"
        family: its kind
        network: the name of its network, which twins share
        random: a bound of the probability that a random point is a witness, or None
    """

    name: str
    answer: str
    family: str
    network: str
    random: float | None


def expected_rows(folder: str | Path) -> dict[str, Expected]:
    """Read expected.csv of a folder: rows by the names of instances.

    Example:
        >>> expected_rows("none")
        Traceback (most recent call last):
            ...
        constructive.FormatError: none/expected.csv cannot be read as the answers of instances
          witness: FileNotFoundError
          try: a folder of `constructive instances`
    """
    path = Path(folder) / "expected.csv"
    rows = {}
    try:
        with regular_file(path).open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file, strict=True):
                random = float(row[_HARDNESS]) if row.get(_HARDNESS) else None
                name = row["instance"]
                rows[name] = Expected(name, row["answer"], row["family"], row["network"], random)
    except (OSError, KeyError, ValueError, csv.Error) as error:
        raise FormatError(
            f"{path} cannot be read as the answers of instances",
            witness=type(error).__name__,
            suggestion="a folder of `constructive instances`",
        ) from error
    return rows


def read_property(text: str) -> Property:
    """Read a property in VNN-LIB 1.0 or 2.0; any other text than `vnnlib` writes is refused.

    Example:
        >>> bad = Property(Box([0.0], [0.5]), ((Atom([1.0], 0.25),), (Atom([-1.0], 2.0),)))
        >>> read_property(version_2(bad)).disjuncts[1][0].threshold
        2.0
    """
    counts, bounds = {"X": 0, "Y": 0}, {}
    disjuncts: list[list[tuple[str, ...]]] = [[]]
    for line in text.splitlines():
        declared = _DECLARED.search(line)
        if declared is not None:
            counts[declared[1] or declared[2]] += int(declared[3] or 1)
            continue
        if not line.startswith("(assert "):
            continue
        parts = line.removeprefix("(assert ").removesuffix(")").removeprefix("(or ").split("(and ")
        for part in parts:
            atoms = _ATOM.findall(part)
            if not atoms and part.strip("() "):
                raise _unread(line)
            if atoms and atoms[0][1] == "X":
                bounds.update({(atom[0], int(atom[2])): float(atom[3]) for atom in atoms})
            elif atoms and len(parts) > 1:
                disjuncts.append(atoms)
            else:
                disjuncts[0] += atoms
    try:
        least, most = ([bounds[side, i] for i in range(counts["X"])] for side in (">=", "<="))
        found = [[_atom(atom, counts["Y"]) for atom in atoms] for atoms in disjuncts if atoms]
        wanted = Property(Box(np.array(least), np.array(most)), tuple(map(tuple, found)))
    except (KeyError, IndexError) as error:
        raise _unread(f"bounds of {counts['X']} inputs, {counts['Y']} outputs") from error
    if text not in (version_1(wanted), version_2(wanted)):
        raise _unread(text)
    return wanted


def _atom(found: tuple[str, ...], outputs: int) -> Atom:
    """An atom as `_ATOM` finds it."""
    side, _, output, number, other = found
    sign = 1.0 if side == ">=" else -1.0
    weights = np.zeros(outputs)
    weights[int(output)] = sign
    if other:
        weights[int(other)] = -sign
        return Atom(weights, 0.0)
    return Atom(weights, sign * float(number))


def _unread(line: str) -> FormatError:
    return FormatError(
        "the property is not in the form that `instances.save` writes",
        witness=line[:80],
        suggestion="a .vnnlib file of a folder of `constructive instances`",
    )
