"""`check`: the independent checkers, run on files in processes of their own."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from constructive.certificate import CHECKERS, FORMAT, SEQUENCE_FORMAT
from constructive.contextual import examples, memorizer
from constructive.errors import FormatError
from constructive.verdict import Verdict

_OTHERS = {
    memorizer.FORMAT: "a memorizer of sequences, no certificate",
    examples.FORMAT: "a file of sequences, no certificate",
}
"""What may be taken for a certificate."""


@dataclass(frozen=True)
class Checked:
    """What the independent checker said: PROVED, or UNDECIDED where it refused.

    report: its output, a line for each claim, then PROVED or the reason why not
    """

    verdict: Verdict
    report: str


def check(
    certificate: str | Path, weights: str | Path | None, data: str | Path, *, quick: bool = False
) -> Checked:
    """Run the independent checker on the files of a certificate, weights and data.

    weights: None for the certificate of an upper bound, which is about all weights;
             for sequences the JSON file of the memorizer, and data are one too

    The checker is one file, run as a process of its own with `python -I`: it imports nothing of
    this package. For paired heads that is `constructive/paired_checker.py`, which needs no T x T
    matrix; for sequences `constructive/sequence_checker.py`; for all others
    `constructive/checker.py`, where `quick` checks the rank claim by
    products with vectors which nobody can choose, in O(T^2), instead of by elimination.

    Raises FormatError where the files are those of sequences in another order, or one is missing.

    >>> check("none.json", "none.safetensors", "none.npz").verdict
    <Verdict.UNDECIDED: 'neither was shown; the claim says what to try'>
    """
    paths = [certificate, data] if weights is None else [certificate, weights, data]
    files = [str(Path(path).resolve()) for path in paths]
    found = str(_format_of(certificate))
    if found in _OTHERS or (found == SEQUENCE_FORMAT and weights is None):
        raise FormatError(
            f"{certificate} is {_OTHERS.get(found, 'a certificate of a memorizer')}",
            witness=str(certificate),
            suggestion="three files in this order: certificate, memorizer, data",
        )
    named = CHECKERS.get(found, CHECKERS[FORMAT])
    checker = CHECKERS[FORMAT] if weights is None else named
    command = [sys.executable, "-I", str(Path(__file__).with_name(checker)), *files]
    if quick and checker == CHECKERS[FORMAT]:
        command.append("--quick")
    run = subprocess.run(  # noqa: S603 - our own file, and no shell
        command, capture_output=True, text=True, check=False
    )
    verdict = Verdict.PROVED if run.returncode == 0 else Verdict.UNDECIDED
    return Checked(verdict, run.stdout + run.stderr)


def _format_of(path: str | Path) -> object:
    """What a certificate says it is; the checker it names reads it again, and trusts nothing."""
    try:
        return json.loads(Path(path).read_bytes())["format"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
