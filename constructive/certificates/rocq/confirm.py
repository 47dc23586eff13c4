"""`confirm_rank`: Rocq proves rank Z = T of stored weights and data, from a certificate."""

import base64
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from constructive.certificates.certificate import Certificate
from constructive.certificates.check import Checked
from constructive.certificates.rocq.instance import Instance, write
from constructive.certificates.rocq.reading import read, require_same
from constructive.certificates.rocq.witness import cleared, right_inverse
from constructive.data.dataset import Dataset
from constructive.exact import modular
from constructive.layers.memorizer import Memorizer
from constructive.layers.residues import Point
from constructive.support.errors import FormatError, ParameterError
from constructive.support.progress import Progress, silent
from constructive.support.verdict import Verdict
from constructive.theory import rocq

AXIOMS = {
    *(f"boolp.{name}" for name in (
        "constructive_indefinite_description", "functional_extensionality_dep",
        "propositional_extensionality",
    )),
    *(
        "PrimInt63.eqb", "PrimInt63.int", "add", "add_spec", "eqb_correct", "eqb_refl",
        "land", "land_spec", "leb", "leb_spec", "lor", "lor_spec",
        "lsl", "lsl_spec", "lsr", "lsr_spec", "ltb", "ltb_spec",
        "mod", "mod_spec", "mul", "mul_spec", "of_to_Z", "sub",
        "sub_spec",
    ),
}  # fmt: skip
"""What a proof may rest on: three axioms of mathcomp, and Rocq's machine integers."""

_THEORY = "checker/attention_rank"
_LAST_LINES = 12
_AXIOM = re.compile(r"^([\w.]+)(?=\s*:|$)", re.MULTILINE)


def confirm_rank(
    certificate: str | Path,
    weights: str | Path,
    data: str | Path,
    *,
    folder: Path | None = None,
    progress: Progress = silent,
) -> Checked:
    """Have Rocq prove rank Z = T of the stored weights on the stored data.

    A file is written in which weights and data are integers and powers of two; it is read back, and
    every number compared with the stored one. Of the certificate only p, a and the columns of the
    claim *rank* are taken, and Rocq believes none of them.

    Args:
        certificate: file with a claim *rank* that is PROVED
        weights: .safetensors file of a `Memorizer`
        data: .npz file of a `Dataset`
        folder: where the theory is compiled and kept, so that it is compiled once; by default a
            temporary folder, which takes half a minute each time
        progress: called with what is done

    Returns:
        PROVED, or UNDECIDED where Rocq refuses, with a report

    Raises:
        FormatError: for files which are something else, or without that claim
        DataError: for data which do not fit the weights
        ParameterError: for weights and data of which the claim does not hold
        MissingExtraError: where Rocq is not installed
        OutputError: for a folder which holds something else
    """
    memorizer, dataset = Memorizer.load(weights), Dataset.open(data)
    instance = instance_of(Certificate.load(certificate), memorizer, dataset)
    stored = instance.arrays
    with rocq.compiled(_THEORY, folder, progress) as theory, tempfile.TemporaryDirectory() as place:
        file = Path(place) / "stored_layer.v"
        file.write_text(write(instance))
        same = require_same(read(file.read_text()), stored)
        progress("Rocq", 0, 1)
        command = ["coqc", "-q", "-w", "-all", "-R", str(theory), "Memorization", str(file)]
        run = subprocess.run(  # noqa: S603 - a file of numbers, and no shell
            command, capture_output=True, text=True, check=False
        )
    total, exponent = dataset.num_examples, sum(map(modular.least_exponent, stored.values()))
    lines = [f"read back: {same} numbers of the file for Rocq are those stored"]
    if run.returncode:
        said = "\n".join(run.stderr.strip().splitlines()[-_LAST_LINES:])
        return Checked(Verdict.UNDECIDED, "\n".join([*lines, said, "NOT PROVED: Rocq refuses"]))
    found = axioms(run.stdout)
    if found is None or not found <= AXIOMS:
        more = ", ".join(sorted((found or set()) - AXIOMS)) or "nothing is said of them"
        return Checked(Verdict.UNDECIDED, "\n".join([*lines, f"NOT PROVED: axioms: {more}"]))
    lines += [
        f"rank Z = T = {total} of the stored numbers, as real numbers, if exp(2^{exponent}) is",
        "  transcendental (Hermite 1873); so these W_Q and W_K memorize every labelling",
        "trusted: Rocq, its virtual machine and machine integers; three axioms of mathcomp",
        "  (choice, extensionality of functions and of propositions); the readers of both files",
        "PROVED",
    ]
    return Checked(Verdict.PROVED, "\n".join(lines))


def instance_of(certificate: Certificate, memorizer: Memorizer, dataset: Dataset) -> Instance:
    """What Rocq has to check, from the claim *rank* of a certificate.

    Args:
        certificate: with p, a and columns
        memorizer: its W_Q and W_K
        dataset: T examples

    Raises:
        FormatError: for a certificate without that claim
        DataError: for data which do not fit the weights
        ParameterError: for weights and data of which it does not hold

    Example:
        >>> from constructive import build_memorizer, certify, generators
        >>> data = generators.uniform(num_examples=3, context_size=2, width=2, seed=0)
        >>> memorizer = build_memorizer(data, num_heads=2)
        >>> instance_of(certify(memorizer, data, claims=["rank"]), memorizer, data).inverse.shape
        (3, 3)
    """
    claims = {claim.name: claim for claim in certificate.claims}
    if "rank" not in claims or claims["rank"].verdict is not Verdict.PROVED:
        raise FormatError(
            "the certificate does not claim that rank is PROVED",
            witness=sorted(claims),
            suggestion="constructive certify --claim rank",
        )
    layer = memorizer.layer.leading
    layer.check_fits(dataset)
    try:
        evidence = claims["rank"].evidence
        prime, value = int(evidence["prime"]), int(evidence["value"])
        columns = np.frombuffer(base64.b64decode(evidence["columns"]), dtype="<u4")
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"the evidence of rank cannot be read: {error}",
            witness="rank",
            suggestion="a certificate of `constructive certify`",
        ) from error
    chosen = np.sort(columns.astype(np.int64))
    fits = 1 < value < prime < modular.LARGEST_MODULUS and len(chosen) == dataset.num_examples
    if not (fits and (np.diff(chosen) > 0).all() and chosen[-1] < layer.num_heads * layer.width):
        raise ParameterError(
            "the evidence of rank is not about these weights and data",
            witness=(prime, value, len(chosen)),
            suggestion="the files from which the certificate was made",
        )
    inverse = right_inverse(cleared(layer, dataset, Point(prime, value)), chosen, prime)
    arrays = dataset.contexts, dataset.queries, layer.query_weights, layer.key_weights
    return Instance(*arrays, prime, value, chosen, inverse)


def axioms(printed: str) -> set[str] | None:
    r"""The names of the axioms which Rocq prints; None where it prints none.

    Args:
        printed: by `Print Assumptions`

    Example:
        >>> sorted(axioms("Axioms:\nsub_spec\n  : forall x, x\nsub : int63 -> int63\n"))
        ['sub', 'sub_spec']
    """
    _, said, named = printed.partition("Axioms:\n")
    return set(_AXIOM.findall(named)) if said else None
