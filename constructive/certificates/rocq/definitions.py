"""The files which Rocq reads: definitions of numbers, and theorems on them.

A float is an integer m <= 2^53 times 2^s times the power of two of its array, exactly; a file says
`Plus m s` or `Minus m s`. Rocq takes ten times as much memory to read a number as to keep it, so
long lists are cut into pieces, in files which are compiled one after the other.
"""

import base64
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from constructive.certificates.certificate import Certificate
from constructive.data.dataset import Dataset
from constructive.exact import modular
from constructive.exact.softmax import Point, Residues
from constructive.layers.attention import attend, examples
from constructive.layers.layer import AttentionLayer
from constructive.support.arrays import Array, Integers
from constructive.support.errors import FormatError, ParameterError
from constructive.support.verdict import Verdict

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


def theorems(section: str, program: str, proved: str) -> str:
    """Return theorems about all real types R, which rest on a program that says true."""
    return (
        f"Lemma checked : {program} = true.\nProof. vm_cast_no_check (erefl true). Qed.\n"
        f"Section {section}.\nVariable R : realType.\n{proved}End {section}.\n"
    )


# Contexts of all examples, also where one is shared; and what contexts and queries are in R.
OF_EXAMPLES = """\
Definition of_examples : arrays := mkseq (fun t => nth [::] contexts (t %% size contexts)) T.
"""
IN_REALS = """\
Let E (t : 'I_T) : 'M[R]_(n, d) := stored_matrix R contexts_exponent n d (nth [::] of_examples t).
Let Q : 'M[R]_(T, d) := stored_matrix R queries_exponent T d queries.
"""


def exponents(arrays: Iterable[str]) -> dict[str, str]:
    """Return the definitions of the powers of two of arrays."""
    return {f"{name}_exponent": "exponent" for name in arrays}


def sizes_of(layer: AttentionLayer, dataset: Dataset) -> dict[str, int]:
    """Return the sizes of a layer and its data; raise DataError where they do not fit."""
    layer.check_fits(dataset)
    return {
        "n": dataset.context_size,
        "d": layer.width,
        "dh": layer.head_dim,
        "T": dataset.num_examples,
        "H": layer.num_heads,
    }


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

    def filled(self, theory: Theory, **others: object) -> FilledTheory:
        """Return a theory with these numbers and others."""
        return FilledTheory(theory, {**self.sizes, **self.arrays, **others})


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


# What Rocq gets besides stored numbers: evidence of a claim, and a right inverse modulo p.


Read = TypeVar("Read")


class NotConfirmableError(ParameterError):
    """A claim for which Rocq has no program, on these weights; it may hold all the same."""


def evidence_of(
    certificate: Certificate, name: str, read: Callable[[dict[str, Any]], Read], command: str
) -> Read:
    """Read the evidence of a claim that is PROVED; the command is one that makes such certificates.

    Raises FormatError for a certificate without that claim, or with other evidence.
    """
    claims = {claim.name: claim for claim in certificate.claims}
    if name not in claims or claims[name].verdict is not Verdict.PROVED:
        raise FormatError(
            f"the certificate does not claim that {name} is PROVED",
            witness=sorted(claims),
            suggestion=f"constructive {command}",
        )
    try:
        return read(claims[name].evidence)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"the evidence of {name} cannot be read: {error}",
            witness=name,
            suggestion=f"a certificate of `constructive {command}`",
        ) from error


def bound_of(evidence: dict[str, Any]) -> float:
    """Return the bound that evidence states, for `evidence_of`."""
    bound = float.fromhex(evidence["bound"])
    if not 0.0 <= bound < math.inf:
        raise ValueError(f"the bound is {bound!r}")
    return bound


def unpack(text: str) -> Integers:
    """Read integers as `support.verdict.pack` writes them, or raise TypeError or ValueError."""
    return np.frombuffer(base64.b64decode(text), dtype="<u4").astype(np.int64)


def not_about(name: str, what: str, witness: object) -> ParameterError:
    """Return the error for evidence of other numbers than the stored ones."""
    return ParameterError(
        f"the evidence of {name} is not about {what}",
        witness=witness,
        suggestion="the files from which the certificate was made",
    )


def cleared(layer: AttentionLayer, dataset: Dataset, point: Point) -> Array:
    """Return Z(a) modulo p (T, H d), each row times its softmax denominators, balanced."""
    units = modular.least_exponent(dataset.contexts), modular.least_exponent(dataset.queries)
    weights, prime = (layer.query_weights, layer.key_weights), point.prime
    rows = np.empty((dataset.num_examples, layer.num_heads, layer.width))
    view = examples(dataset.contexts, dataset.queries)
    for chunk in attend(Residues(point, *units), weights, view):
        sums, inverses, _ = chunk.representation
        product: Array = np.ones(len(sums))
        for denominators in modular.inverse(inverses, prime).T:
            product = modular.reduce(product * denominators, prime)
        others = modular.reduce(product[:, np.newaxis] * inverses, prime)
        rows[chunk.rows] = modular.reduce(sums * others[:, :, np.newaxis], prime)
    return rows.reshape(dataset.num_examples, -1)


def right_inverse(matrix: Array, columns: Integers, prime: int) -> Integers:
    """Return M with A[:, columns] M = 1 modulo p, in 0, ..., p - 1: (T, T).

    A (T, k) has balanced residues. Raises ParameterError where its T columns are dependent.
    """
    total = len(matrix)
    factors = modular.factor(np.ascontiguousarray(matrix[:, columns]), prime)
    if factors.rank < total or len(columns) != total:
        raise ParameterError(
            f"Z has rank {factors.rank} modulo {prime} in {len(columns)} columns, not {total}",
            witness=factors.rank,
            suggestion="a certificate of these very weights and data, in which rank is PROVED",
        )
    solution = np.empty((total, total))  # of the columns in the order of their pivots
    solution[factors.columns] = modular.solve(factors, np.eye(total))
    return solution.astype(np.int64) % prime
