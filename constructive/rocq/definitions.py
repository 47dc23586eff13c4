"""The files which Rocq reads: definitions of numbers, and theorems on them.

A float is an integer m <= 2^53 times 2^s times the power of two of its array, exactly; a file says
`Plus m s` or `Minus m s`. Rocq takes ten times as much memory to read a number as to keep it, so
long lists are cut into pieces, in files which are compiled one after the other.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from constructive.exact import modular
from constructive.support.arrays import Array, Integers

MANTISSA = 53
MAIN = "stored"  # The file with the theorems: the last, which needs all others
SCALARS = {"int63": "{}%uint63", "nat": "{}%N", "exponent": "({}%:Z)%R"}
# Types of lists, and how Rocq is to read their entries.
SCOPES = {
    "array": "%uint63",
    "arrays": "%uint63",
    "inverses": "%uint63",
    "integers": "%positive",
    "blocks": "%positive",
    "numbers": "%N",
    "masks": "",
}
SIGNED = "integers", "blocks"  # Those of integers: rows, and lists of rows

_PIECE = 1 << 18  # Characters of a list that stays whole
_FILE = 1 << 21  # Characters of the pieces in one file


@dataclass(frozen=True)
class Theory:
    """What files of one kind say, whatever their numbers are."""

    name: str  # the theory which has to be compiled, without `.v`
    modules: str  # those parts of it which files need
    definitions: Mapping[str, str]  # the types of all definitions by their names, in their order
    tail: str  # the theorems
    claim: str  # the name of the claim that they prove
    # the name of what has all theorems as its parts, whose axioms are asked for
    conclusion: str
    # says in lines what is proved where Rocq accepts the files
    confirmed: Callable[["FilledTheory"], list[str]]
    # the numbers of which the theorems have to speak, of a certificate, weights and data
    known_of: Callable[..., "StoredNumbers"]
    # of these numbers, certificate, weights and data: what else Rocq needs, and need not believe
    evidence_of: Callable[..., Mapping[str, Any]] = lambda *_: {}
    # arrays which have no power of two of their own, but that of another one
    shares: Mapping[str, str] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """The first lines of every file."""
        return (
            "From Coq Require Import ZArith Uint63.\n"
            "From mathcomp Require Import all_ssreflect all_algebra.\n"
            "From mathcomp.analysis Require Import reals sequences exp.\n"
            f"From Memorization Require Import {self.modules}.\n"
            "Import GRing.Theory.\n"
            "Local Open Scope ring_scope.\n"
        )

    def filled(self, known: "StoredNumbers", *subject: object) -> "FilledTheory":
        """Return what Rocq has to check of these numbers, of a certificate, weights and data."""
        others = self.evidence_of(known, *subject)
        return FilledTheory(self, {**known.sizes, **known.arrays, **others})


def theorems(section: str, program: str, proved: str) -> str:
    """Return theorems about all real types R, which rest on a program that says true."""
    return (
        f"Lemma checked : {program} = true.\nProof. vm_cast_no_check (erefl true). Qed.\n"
        f"Section {section}.\nVariable R : realType.\n{proved}End {section}.\n"
    )


def exponents(arrays: Iterable[str]) -> dict[str, str]:
    """Return the definitions of the powers of two of arrays."""
    return {f"{name}_exponent": "exponent" for name in arrays}


@dataclass(frozen=True, eq=False)
class FilledTheory:
    """A theory, and its numbers."""

    theory: Theory  # what is said of them
    # by the names of its definitions: integers, floats (arrays), or lists in lists; powers of two
    # follow from the arrays
    values: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class StoredNumbers:
    """The numbers of which a theorem has to speak."""

    # as they are in files of weights and data, by their names in the files for Rocq
    arrays: Mapping[str, Array]
    sizes: Mapping[str, int]  # of these arrays, by their names there
    more: int = 0  # how many other numbers take memory, such as those of a witness

    @property
    def count(self) -> int:
        """All numbers that take memory."""
        return sum(array.size for array in self.arrays.values()) + self.more


def write(instance: FilledTheory) -> dict[str, str]:
    """Return the texts of the files by their names, in the order in which they are compiled."""
    theory, lines = instance.theory, []
    pieces: list[str] = []
    for name, kind in theory.definitions.items():
        if kind in SCALARS:
            value = _scalar(name, kind, instance.values)
            lines.append(f"Definition {name} : {kind} := {value}.\n")
            continue
        whole = _texts(name, kind, instance)
        groups = _grouped(map(_listed, whole), _PIECE) or [[]]
        names = [name] if len(groups) == 1 else [f"{name}_{k}" for k in range(len(groups))]
        parts = [
            f"Definition {part} : {kind} := [::{';'.join(group)}]{SCOPES[kind]}.\n"
            for part, group in zip(names, groups, strict=True)
        ]
        if len(groups) > 1:
            pieces += parts
            parts = [f"Definition {name} : {kind} := {' ++ '.join(names)}.\n"]
        lines += parts
    files = {
        f"numbers_{k}": theory.head + "".join(group)
        for k, group in enumerate(_grouped(pieces, _FILE))
    }
    needed = "".join(f"From Stored Require Import {name}.\n" for name in files)
    return {**files, MAIN: theory.head + needed + "".join(lines) + theory.tail}


def whole(array: Array, exponent: int) -> tuple[Integers, Integers]:
    """Return integers of 53 bits, and shifts: floats are integers times 2^(shift + exponent).

    The exponent is at most `modular.least_exponent(array)`.
    """
    mantissas, powers = np.frexp(array.astype(np.float64, copy=False))
    integers = np.ldexp(mantissas, MANTISSA).astype(np.int64)
    shifts = powers.astype(np.int64) - MANTISSA - exponent
    shifts[integers == 0] = 0
    return integers, shifts


def _texts(name: str, kind: str, instance: FilledTheory) -> list[Any]:
    """The entries of a list as texts, in lists."""
    value = instance.values[name]
    if kind in {"array", "arrays"}:
        other = instance.values[instance.theory.shares.get(name, name)]
        integers, shifts = whole(value, modular.least_exponent(other))
        texts = np.where(integers < 0, "Minus ", "Plus ").astype(object)
        texts = texts + np.abs(integers).astype(str).astype(object) + " "
        return list((texts + shifts.astype(str).astype(object)).tolist())
    signed = dict.fromkeys(SIGNED, _integer)
    as_text = {"masks": lambda x: "true" if x else "false", **signed}.get(kind, str)
    return mapped(value.tolist() if isinstance(value, np.ndarray) else value, as_text)


def _integer(x: int) -> str:
    return "Z0" if not x else f"Zpos {x:#x}" if x > 0 else f"Zneg {-x:#x}"


def mapped(value: list[Any], function: Callable[[Any], Any]) -> list[Any]:
    """Apply a function to the entries of lists in lists."""
    return [mapped(x, function) if isinstance(x, list) else function(x) for x in value]


def _listed(rows: object) -> str:
    """Lists in lists as Rocq writes them: [:: a; b]."""
    return f"[::{';'.join(map(_listed, rows))}]" if isinstance(rows, list) else str(rows)


def _grouped(texts: Iterable[str], most: int) -> list[list[str]]:
    """Texts in their order, in groups of so many characters, or of one which is longer."""
    groups: list[list[str]] = []
    length = most
    for text in texts:
        if length + len(text) > most:
            groups.append([])
            length = 0
        groups[-1].append(text)
        length += len(text)
    return groups


def _scalar(name: str, kind: str, values: Mapping[str, Any]) -> str:
    if kind == "exponent":
        value = modular.least_exponent(values[name.removesuffix("_exponent")])
    else:
        value = values[name]
    return SCALARS[kind].format(f"- {-value}" if value < 0 else value)
