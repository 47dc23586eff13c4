"""Rocq proves *rank* and *error*, or *impossible*, or *recites*, of stored numbers."""

import math
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from constructive.certificates.certificate import DECODER_FORMAT, Certificate
from constructive.certificates.check import Checked, require_gigabytes
from constructive.certificates.rocq import axioms, error, impossible, rank, recites
from constructive.certificates.rocq.definitions import Instance, Stored, write
from constructive.certificates.rocq.reading import read, require_same
from constructive.certificates.rocq.witness import NotConfirmableError
from constructive.data.corpus import Text
from constructive.data.dataset import Dataset
from constructive.layers.decoder import Decoder
from constructive.layers.memorizer import Memorizer
from constructive.support.errors import ParameterError
from constructive.support.progress import report
from constructive.support.verdict import Verdict
from constructive.theory import rocq

# GB: libraries of Rocq, and one file of numbers as it is read.
_LEAST = 1.1
# GB for each stored number, and for each entry of a right inverse.
_EACH = 400e-9


class _Provable(Protocol):
    """A claim that Rocq can prove: a module with functions of a certificate, weights and data."""

    known_of: Callable[..., Stored]
    instance_of: Callable[..., Instance]


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
    pairs: Sequence[tuple[Instance, Stored]],
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
) -> tuple[list[tuple[Instance, Stored]], dict[str, str]]:
    """Return what can be confirmed of these claims, and why others cannot be, by their names."""
    pairs: list[tuple[Instance, Stored]] = []
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
    instance: Instance, known: Stored, place: Path, theory: Path, lines: list[str]
) -> str:
    """Return why a claim is not proved, or ""; what is proved is added to the lines."""
    files = write(instance)
    for name, text in files.items():
        (place / f"{name}.v").write_text(text)
    found = {name: (place / f"{name}.v").read_text() for name in files}
    same = require_same(read(instance.theory, found), known)
    lines.append(f"read back: {same} numbers of the files for Rocq are those stored")
    (place / f"{axioms.NAME}.v").write_text(axioms.question(instance.theory.conclusion))
    run = compile_files([*files, axioms.NAME], place, theory)
    if run.returncode:
        refusal = "\n".join(run.stderr.strip().splitlines()[-_LAST_LINES:])
        return f"{refusal}\nNOT PROVED: Rocq refuses"
    objection = axioms.objection(run.stdout)
    if objection:
        return f"NOT PROVED: {objection}"
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


def gigabytes(known: Stored) -> float:
    """Return the GB that the largest process of Rocq takes, about, as benchmarks measured it.

    Example:
        >>> import numpy as np
        >>> round(gigabytes(Stored({"queries": np.zeros((1000, 64))}, {"T": 1000})), 1)
        1.1
    """
    return _LEAST + _EACH * _numbers(known)


def require_memory(known: Stored, most: float) -> None:
    """Raise ParameterError where Rocq needs more GB than it may take, and for no size.

    Example:
        >>> import numpy as np
        >>> require_memory(Stored({"queries": np.zeros((10**4, 10**4))}, {"T": 10**4}), 8.0)
        Traceback (most recent call last):
            ...
        constructive.ParameterError: 100,000,000 numbers take Rocq about 41.1 GB, and it may take 8
          witness: 100000000
          try: fewer examples, or max_memory=42 if there is as much
    """
    require_gigabytes(most)
    needed = gigabytes(known)
    if needed > most:
        count = _numbers(known)
        raise ParameterError(
            f"{count:,} numbers take Rocq about {needed:.1f} GB, and it may take {most:g}",
            witness=count,
            suggestion=f"fewer examples, or max_memory={math.ceil(needed)} if there is as much",
        )


def _numbers(known: Stored) -> int:
    return sum(array.size for array in known.arrays.values()) + known.more
