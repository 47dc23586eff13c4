"""Rocq proves *rank* and *error*, or *impossible*, or *recites*, of stored numbers."""

import json
import math
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from constructive.certificates.certificate import DECODER_FORMAT, Certificate
from constructive.certificates.check import Checked, require_gigabytes
from constructive.certificates.rocq import compiling as rocq
from constructive.certificates.rocq import error, impossible, rank, recites
from constructive.certificates.rocq.definitions import (
    MAIN,
    MANTISSA,
    SCALARS,
    SCOPES,
    SIGNED,
    FilledTheory,
    NotConfirmableError,
    StoredNumbers,
    Theory,
    opening,
    write,
)
from constructive.data.corpus import Text
from constructive.data.dataset import Dataset
from constructive.layers.decoder import Decoder
from constructive.layers.memorizer import Memorizer
from constructive.support.arrays import Array
from constructive.support.errors import FormatError, ParameterError
from constructive.support.verdict import Verdict
from constructive.support.work import report

# What a proof of stored numbers may rest on: axioms by their full names, and how Rocq says so.
#
# Rocq prints an axiom by the shortest name that means it, which depends on what is imported. So it
# is asked in a file that imports nothing, and what the names mean there is asked, too.


NAME = "axioms"  # The file that asks

# Three axioms of mathcomp, and Rocq's machine integers.
AXIOMS = {
    *(f"mathcomp.classical.boolp.{name}" for name in (
        "constructive_indefinite_description", "functional_extensionality_dep",
        "propositional_extensionality",
    )),
    *(f"Coq.Numbers.Cyclic.Int63.PrimInt63.{name}" for name in (
        "add", "eqb", "int", "land", "leb", "lor", "lsl", "lsr", "ltb", "mod", "mul", "sub",
    )),
    *(f"Coq.Numbers.Cyclic.Int63.Uint63.{name}" for name in (
        "add_spec", "eqb_correct", "eqb_refl", "land_spec", "leb_spec", "lor_spec", "lsl_spec",
        "lsr_spec", "ltb_spec", "mod_spec", "mul_spec", "of_to_Z", "sub_spec",
    )),
}  # fmt: skip

_MEANING = re.compile(r"^Expands to: Constant\s+([\w.]+)$", re.MULTILINE)


def question(conclusion: str) -> str:
    """Return the file that asks what names of axioms mean, and which ones a theorem rests on."""
    about = "".join(f"About {_short(name)}.\n" for name in sorted(AXIOMS))
    return f"Require Stored.{MAIN}.\n{about}Print Assumptions Stored.{MAIN}.{conclusion}.\n"


def objection(printed: str) -> str:
    """Say what is wrong with what Rocq prints for `question`; "" if all axioms are known."""
    meanings, said, named = printed.partition("Axioms:\n")
    meant = _MEANING.findall(meanings)
    if meant != sorted(AXIOMS):
        others = ", ".join(sorted(set(meant) - AXIOMS)) or "or nothing is said of them"
        return f"axioms: their names mean others, {others}"
    if not said:
        return "axioms: nothing is said of them"
    # What a type takes more lines for is indented. A check of the kernel that is switched off is a
    # line without a type, such as "f is assumed to be guarded.".
    found = {line.partition(" :")[0] for line in named.splitlines() if line[:1].strip()}
    more = sorted(found - set(map(_short, AXIOMS)))
    return f"axioms: {', '.join(more)}" if more else ""


def _short(name: str) -> str:
    """Return the name of an axiom after that of its module."""
    return ".".join(name.split(".")[-2:])


# What memory Rocq takes for so many stored numbers, estimated before it starts.


_LEAST = 1.1  # GB: its libraries, and one file of numbers as it is read
_EACH = 400e-9  # GB for each stored number, and for each entry of a right inverse


def gigabytes(known: StoredNumbers) -> float:
    """Return the GB that the largest process of Rocq takes, about, as benchmarks measured it."""
    return _LEAST + _EACH * _numbers(known)


def require_memory(known: StoredNumbers, most: float) -> None:
    """Raise ParameterError where Rocq needs more GB than it may take, and for no size."""
    require_gigabytes(most)
    needed = gigabytes(known)
    if needed > most:
        count = _numbers(known)
        raise ParameterError(
            f"{count:,} numbers take Rocq about {needed:.1f} GB, and it may take {most:g}",
            witness=count,
            suggestion=f"fewer examples, or max_memory={math.ceil(needed)} if there is as much",
        )


def _numbers(known: StoredNumbers) -> int:
    return sum(array.size for array in known.arrays.values()) + known.more


# Reading the files for Rocq back: what their integers say, and that nothing else is in them.


_NUMBER = re.compile(r"(Plus|Minus) (\d+) (\d+)")
_LITERAL = re.compile(r"(\d+)(?:%N|%uint63)|\((- )?(\d+)%:Z\)%R")
_ENTRY = {
    "masks": r"true|false",
    "inverses": r"\d+",
    "numbers": r"\d+",
    **dict.fromkeys(SIGNED, r"Z0|Z(?:pos|neg) 0x[0-9a-f]+"),
}
_MOST_SHIFT = 1 << 12


def read(theory: Theory, files: Mapping[str, str]) -> FilledTheory:
    """Return what files, by their names, are about, if `write` could have written them.

    Raises FormatError for any other text, and for numbers that are not float64.
    """
    numbers = [name for name in files if name != MAIN]
    main, start = files.get(MAIN, ""), opening(theory, numbers)
    if not (main.startswith(start) and main.endswith(theory.tail)):
        raise _wrong("its beginning or its end")
    if not all(files[name].startswith(theory.head) for name in numbers):
        raise _wrong("the beginning of a file of numbers")
    lines = iter(main[len(start) : len(main) - len(theory.tail)].splitlines())
    pieces = (line for name in numbers for line in files[name][len(theory.head) :].splitlines())
    values: dict[str, Any] = {}
    exponents: dict[str, int] = {}
    try:
        for name, kind in theory.definitions.items():
            text = _value(lines, name, kind)
            if kind in SCALARS:
                (exponents if kind == "exponent" else values)[name] = _integer(name, text)
                continue
            found = _list(name, kind, text, pieces)
            if kind in _ENTRY:
                values[name] = found
            else:
                exponent = exponents[f"{theory.shares.get(name, name)}_exponent"]
                values[name] = _floats(name, found, exponent)
        instance = FilledTheory(theory, values)
        same = write(instance) == files
    except FormatError:
        raise
    except (ValueError, TypeError, OverflowError, IndexError, KeyError) as error:
        raise _wrong(f"its numbers ({error!s:.100})") from error
    if not same:  # other lines, or numbers which are written in another way
        raise _wrong("other lines, or how its numbers are written")
    return instance


def require_same(instance: FilledTheory, stored: StoredNumbers) -> int:
    """Return how many numbers of files and of arrays are the same; all of them have to be.

    Raises FormatError with the first number that is another one.
    """
    for name, size in stored.sizes.items():
        if instance.values[name] != size:
            raise _other(f"{name} is {instance.values[name]}", str(size), instance.values[name])
    for name, array in stored.arrays.items():
        found = np.asarray(instance.values[name])
        if found.shape != array.shape:
            raise _other(f"the shape of {name} is {found.shape}", str(array.shape), found.shape)
        wrong = np.argwhere(found != array)
        if len(wrong):
            place = tuple(wrong[0].tolist())
            raise _other(f"{name}{list(place)} is {found[place]}", str(array[place]), place)
    return sum(array.size for array in stored.arrays.values())


def _value(lines: Iterator[str], name: str, kind: str) -> str:
    line, start = next(lines, ""), f"Definition {name} : {kind} := "
    if not (line.startswith(start) and line.endswith(".")):
        raise _wrong(f"the definition of {name}")
    return line[len(start) : -1]


def _integer(name: str, value: str) -> int:
    match = _LITERAL.fullmatch(value)
    if match is None:
        raise _wrong(f"the value of {name}")
    return int(match[1] or match[3]) * (-1 if match[2] else 1)


def _list(name: str, kind: str, value: str, pieces: Iterator[str]) -> list[Any]:
    """A list, or the lists of its pieces, which are the next ones of the other files."""
    parts = value.split(" ++ ")
    if parts[0] != f"{name}_0":
        return _parsed(name, kind, value)
    return [x for part in parts for x in _parsed(part, kind, _value(pieces, part, kind))]


def _parsed(name: str, kind: str, value: str) -> list[Any]:
    """Lists in lists; a float is a pair in them."""
    value = value.removesuffix(SCOPES[kind])
    if re.sub(_ENTRY.get(kind, _NUMBER), "", value).strip("[:];"):
        raise _wrong(f"the value of {name}")
    if kind in SIGNED:
        value = re.sub(_ENTRY[kind], lambda x: f'"{x[0]}"', value)
    elif kind not in _ENTRY:
        value = _NUMBER.sub(lambda x: f"[{'-' if x[1] == 'Minus' else ''}{x[2]},{x[3]}]", value)
    found: list[Any] = json.loads(value.replace("[::", "[").replace(";", ","))
    return [_signed(row) for row in found] if kind in SIGNED else found


def _signed(text: Any) -> Any:  # noqa: ANN401 - lists in lists
    """Integers as Rocq builds them: Z0, Zpos 0x1f, Zneg 0x1f."""
    if isinstance(text, list):
        return [_signed(part) for part in text]
    kind, _, size = text.partition(" ")
    return {"Z0": 0, "Zpos": 1, "Zneg": -1}[kind] * int(size or "0", 16)


def _floats(name: str, pairs: list[Any], exponent: int) -> Array:
    """The floats of an array: each integer times its power of two, exactly."""
    integers = np.array(pairs, dtype=np.int64)
    if not integers.size:
        return np.zeros((0, 0))
    mantissas, shifts = integers[..., 0], integers[..., 1]
    if (np.abs(mantissas) > 1 << MANTISSA).any() or (shifts > _MOST_SHIFT).any():
        raise _wrong(f"a number of {name}, which is not a float64")
    return np.ldexp(mantissas.astype(np.float64), shifts + exponent)


def _wrong(what: str) -> FormatError:
    return FormatError(
        f"this is not a file for Rocq: {what}",
        witness=what,
        suggestion="files as `write` writes them",
    )


def _other(found: str, stored: str, witness: object) -> FormatError:
    return FormatError(
        f"{found} in the files for Rocq, and {stored} is stored",
        witness=witness,
        suggestion="write the files anew",
    )


class _Provable(Protocol):
    """A claim that Rocq can prove: a module with functions of a certificate, weights and data."""

    known_of: Callable[..., StoredNumbers]
    instance_of: Callable[..., FilledTheory]


@dataclass(frozen=True)
class _Kind:
    """Weights of one kind: who reads the files, and what Rocq can prove, by the names of claims."""

    data: Callable[[str | Path], Any]
    weights: Callable[[str | Path], Any]
    claims: Mapping[str, _Provable]


_LAYERS = _Kind(Dataset.open, Memorizer.load, {"rank": rank, "error": error})
# By the formats of certificates; all others are of layers.
_KINDS = {DECODER_FORMAT: _Kind(Text.load, Decoder.load, {"recites": recites})}
_LAST_LINES = 12
_UNKNOWN = "not a claim that Rocq proves of these files"


def confirm(
    certificate: str | Path,
    weights: str | Path | None,
    data: str | Path,
    *,
    folder: Path | None = None,
    max_memory: float = 8.0,
) -> Checked:
    """Have Rocq prove claims of stored weights, or *impossible* of all weights.

    Of a layer it proves *rank* and *error*, of a decoder *recites*: those of these claims that are
    PROVED in the certificate, as far as there are programs for these weights. The report names all
    other claims of the certificate, and why they are not confirmed; they are not refused.

    Files are written in which stored numbers are integers and powers of two; they are read back,
    and every number compared with the stored one. Of the certificate only p, a, columns, epsilon
    and the margin are taken, or H, J and vectors, and Rocq believes none of them. The theory is
    copied from this package and compiled each time, in a temporary folder of its own.
    """
    loaded = Certificate.load(certificate)
    if weights is None:
        claims: Mapping[str, _Provable] = {"impossible": impossible}
        subject = [loaded, Dataset.open(data)]
    else:
        kind = _KINDS.get(loaded.format, _LAYERS)
        claims, dataset = kind.claims, kind.data(data)
        subject = [loaded, kind.weights(weights), dataset]
    proved = [claim.name for claim in loaded.claims if claim.verdict is Verdict.PROVED]
    names = [name for name in claims if name in proved] or list(claims)[:1]
    pairs, reasons = _confirmable({name: claims[name] for name in names}, subject, max_memory)
    confirmed = {instance.theory.claim for instance, _ in pairs}
    others = {
        claim.name: reasons.get(claim.name, _UNKNOWN)
        if claim.verdict is Verdict.PROVED
        else f"the certificate says {claim.verdict.name}"
        for claim in loaded.claims
        if claim.name not in confirmed
    }
    return confirm_instances(pairs, folder, others)


def confirm_instances(
    pairs: Sequence[tuple[FilledTheory, StoredNumbers]],
    folder: Path | None = None,
    others: Mapping[str, str] | None = None,
) -> Checked:
    """Write the files of each claim, read them back, and have Rocq compile them."""
    rocq.require_new(folder)
    lines: list[str] = []
    with (
        rocq.compiled(*(instance.theory.name for instance, _ in pairs)) as theory,
        tempfile.TemporaryDirectory() as temporary,
    ):
        places = {"theory": theory}
        for instance, known in pairs:
            claim = instance.theory.claim
            places[claim] = Path(temporary) / claim
            places[claim].mkdir()
            objection = _objection(instance, known, places[claim], theory, lines)
            if objection:
                break
        rocq.keep(folder, places)
    lines += [f"not confirmed: {name}: {reason}" for name, reason in (others or {}).items()]
    if objection:
        return Checked(Verdict.UNDECIDED, "\n".join([*lines, objection]))
    named = ", ".join(instance.theory.claim for instance, _ in pairs)
    lines += [
        "trusted: Rocq and its libraries as installed, its virtual machine and machine integers;",
        "  three axioms of mathcomp (choice, extensionality of functions and of propositions);",
        "  the readers of the files",
        f"PROVED: {named}" if others else "PROVED",
    ]
    return Checked(Verdict.PROVED, "\n".join(lines))


def _confirmable(
    claims: Mapping[str, _Provable], subject: Sequence[Any], max_memory: float
) -> tuple[list[tuple[FilledTheory, StoredNumbers]], dict[str, str]]:
    """Return what can be confirmed of these claims, and why others cannot be, by their names."""
    pairs: list[tuple[FilledTheory, StoredNumbers]] = []
    refused: dict[str, NotConfirmableError] = {}
    for name, claim in claims.items():
        try:
            known = claim.known_of(*subject)
            require_memory(known, max_memory)
            pairs.append((claim.instance_of(*subject), known))
        except NotConfirmableError as error:
            refused[name] = error
    if not pairs:
        raise next(iter(refused.values()))
    return pairs, {
        name: f"{error.problem}; here: {error.witness}" for name, error in refused.items()
    }


def _objection(
    instance: FilledTheory, known: StoredNumbers, place: Path, theory: Path, lines: list[str]
) -> str:
    """Return why a claim is not proved, or ""; what is proved is added to the lines."""
    files = write(instance)
    for name, text in files.items():
        (place / f"{name}.v").write_text(text)
    found = {name: (place / f"{name}.v").read_text() for name in files}
    same = require_same(read(instance.theory, found), known)
    lines.append(f"read back: {same} numbers of the files for Rocq are those stored")
    (place / f"{NAME}.v").write_text(question(instance.theory.conclusion))
    run = compile_files([*files, NAME], place, theory)
    if run.returncode:
        refusal = "\n".join(run.stderr.strip().splitlines()[-_LAST_LINES:])
        return f"{refusal}\nNOT PROVED: Rocq refuses"
    wrong = objection(run.stdout)
    if wrong:
        return f"NOT PROVED: {wrong}"
    lines += instance.theory.confirmed(instance)
    return ""


def compile_files(
    names: Sequence[str], place: Path, theory: Path
) -> "subprocess.CompletedProcess[str]":
    """Compile files of a folder in turn, up to the first that Rocq refuses; return the last run."""
    command = ["coqc", "-q", "-w", "-all", "-R", str(theory), "Memorization"]
    command += ["-Q", str(place), "Stored"]
    for done, name in enumerate(names):
        report("Rocq", done, len(names))
        run = subprocess.run(  # noqa: S603 - files of numbers, and no shell
            [*command, str(place / f"{name}.v")],
            cwd=theory,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            break
    return run
