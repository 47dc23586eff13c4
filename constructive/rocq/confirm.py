"""Rocq proves *rank*, *onto* and *error*, or *impossible*, or *recites*, of stored numbers."""

import json
import math
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from constructive.certificates.certificate import DECODER_FORMAT, Certificate
from constructive.certificates.check import Checked, require_gigabytes
from constructive.data.dataset import Dataset
from constructive.layers.memorizer import Memorizer
from constructive.recite.corpus import Text
from constructive.recite.decoder import Decoder
from constructive.rocq import compiling as rocq
from constructive.rocq.definitions import (
    MAIN,
    SCALARS,
    SCOPES,
    SIGNED,
    FilledTheory,
    StoredNumbers,
    Theory,
    mapped,
    write,
)
from constructive.rocq.theories import (
    ERROR,
    IMPOSSIBLE,
    ONTO,
    RANK,
    RECITES,
    NotConfirmableError,
)
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
    return _LEAST + _EACH * known.count


def require_memory(known: StoredNumbers, most: float) -> None:
    """Raise ParameterError where Rocq needs more GB than it may take, and for no size."""
    require_gigabytes(most)
    needed = gigabytes(known)
    if needed > most:
        raise ParameterError(
            f"{known.count:,} numbers take Rocq about {needed:.1f} GB, and it may take {most:g}",
            witness=known.count,
            suggestion=f"fewer examples, or max_memory={math.ceil(needed)} if there is as much",
        )


# Reading the files for Rocq back: what their integers say, and that nothing else is in them.

_DEFINITION = re.compile(r"^Definition (\w+) : \w+ := (.*)\.$", re.MULTILINE)
_LITERAL = re.compile(r"(\d+)(?:%N|%uint63)|\((- )?(\d+)%:Z\)%R")
_PAIR = re.compile(r"(Plus|Minus) (\d+) (\d+)")
_INTEGER = re.compile(r"Z(?:0|pos 0x\w+|neg 0x\w+)")


def read(theory: Theory, files: Mapping[str, str]) -> FilledTheory:
    """Return what files, by their names, are about, if `write` could have written them.

    What is read is written again, and has to give these very texts: so nothing else is in them.
    Raises FormatError for any other text, and for numbers that are not float64.
    """
    found = dict(_DEFINITION.findall("".join(files.values())))
    values: dict[str, Any] = {}
    exponents: dict[str, int] = {}
    try:
        for name, kind in theory.definitions.items():
            if kind in SCALARS:
                (exponents if kind == "exponent" else values)[name] = _scalar(found[name])
                continue
            parts = found[name].split(" ++ ")
            pieces = [found[part] for part in parts] if len(parts) > 1 else parts
            entries: Any = [x for piece in pieces for x in _entries(kind, piece)]
            if kind in {"array", "arrays"}:
                entries = _floats(entries, exponents[f"{theory.shares.get(name, name)}_exponent"])
            values[name] = entries
        instance = FilledTheory(theory, values)
        same = write(instance) == files
    except (
        ValueError, TypeError, OverflowError, LookupError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        raise _wrong(f"its numbers ({error!s:.100})") from error
    if not same:
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
    return stored.count - stored.more


def _scalar(text: str) -> int:
    match = _LITERAL.fullmatch(text)
    if match is None:
        raise ValueError(f"not a number: {text}")
    return int(match[1] or match[3]) * (-1 if match[2] else 1)


def _entries(kind: str, text: str) -> list[Any]:
    """Lists in lists; a float is a pair in them."""
    text = text.removesuffix(SCOPES[kind]).replace("[::", "[").replace(";", ",")
    if kind in {"array", "arrays"}:
        text = _PAIR.sub(lambda x: f"[{'-' if x[1] == 'Minus' else ''}{x[2]},{x[3]}]", text)
    elif kind in SIGNED:
        text = _INTEGER.sub(r'"\g<0>"', text)
    found: list[Any] = json.loads(text)
    return mapped(found, _integer) if kind in SIGNED else found


def _integer(text: str) -> int:
    """An integer as Rocq builds it: Z0, Zpos 0x1f, Zneg 0x1f."""
    sign, _, size = text.partition(" ")
    return {"Z0": 0, "Zpos": 1, "Zneg": -1}[sign] * int(size or "0", 16)


def _floats(pairs: list[Any], exponent: int) -> Array:
    """The floats of an array: each integer times its power of two, exactly."""
    integers = np.array(pairs, dtype=np.int64)
    if not integers.size:
        return np.zeros((0, 0))
    mantissas, shifts = integers[..., 0], integers[..., 1]
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


_LAST_LINES = 12


def confirm(
    certificate: str | Path,
    weights: str | Path | None,
    data: str | Path,
    *,
    folder: Path | None = None,
    max_memory: float = 8.0,
) -> Checked:
    """Have Rocq prove claims of stored weights, or *impossible* of all weights.

    Of a layer it proves *rank*, *onto* and *error*, of a decoder *recites*: those of these claims
    that are PROVED in the certificate, as far as there are programs for these weights. The report
    names all other claims of the certificate, and why they are not confirmed; they are not refused.

    Files are written in which stored numbers are integers and powers of two; they are read back,
    and every number compared with the stored one. Of the certificate only p, a, columns, a zero
    point, epsilon and the margin are taken, or H, J and vectors, and Rocq believes none of them.
    The theory is copied from this package and compiled each time, in a temporary folder of its own.
    """
    loaded = Certificate.load(certificate)
    subject: list[Any] = [loaded]
    theories: tuple[Theory, ...]
    if weights is None:
        theories = (IMPOSSIBLE,)
        subject += [Dataset.open(data)]
    elif loaded.format == DECODER_FORMAT:
        theories = (RECITES,)
        subject += [Decoder.load(weights), Text.load(data)]
    else:
        theories = RANK, ONTO, ERROR
        subject += [Memorizer.load(weights), Dataset.open(data)]
    proved = [claim.name for claim in loaded.claims if claim.verdict is Verdict.PROVED]
    asked = [theory for theory in theories if theory.claim in proved] or theories[:1]
    others = {
        claim.name: "not a claim that Rocq proves of these files"
        if claim.verdict is Verdict.PROVED
        else f"the certificate says {claim.verdict.name}"
        for claim in loaded.claims
    }
    pairs: list[tuple[FilledTheory, StoredNumbers]] = []
    refused: NotConfirmableError | None = None
    for theory in asked:
        try:
            known = theory.known_of(*subject)
            require_memory(known, max_memory)
            pairs.append((theory.filled(known, *subject), known))
            others.pop(theory.claim)
        except NotConfirmableError as reason:
            refused = refused or reason
            others[theory.claim] = f"{reason.problem}; here: {reason.witness}"
    if refused is not None and not pairs:
        raise refused
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
