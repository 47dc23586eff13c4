"""Commands that prove things of files: certify, upper-bound, check."""

from pathlib import Path
from typing import Any

import constructive
from constructive.cli.outputs import end, say
from constructive.cli.program import app, command, require_rocq
from constructive.support.errors import ParameterError


@command(app, writes={"output": (".json",)}, adds=("jobs", "as_json"))
def certify(
    memorizer: Path,
    data: Path,
    *,
    output: Path = Path("certificate.json"),
    claims: list[str] | None = None,
    epsilon: float | None = None,
    model: str | None = None,
) -> None:
    """Prove that stored weights memorize stored data, and write a certificate.

    The file of the data says what the weights are: a layer, a decoder or sequences.

    Exit status 0 if every claim is PROVED, else 1; the certificate is written in any case.

    Args:
        memorizer: File from `build` or `recite`, or of `SequenceMemorizer.save`.
        data: .npz file or folder with contexts, queries and targets; the .json file of the text
            (`recite`) or of the sequences (`SequenceDataset.save`).
        output: File to write the certificate to, .json.
        claims: What to prove, separated by commas or blanks in quotes. About a layer: grouping,
            rank, error, labels, onto, near; by default rank, error and, where heads have groups,
            grouping; of tangent heads error, onto and near.
            About a decoder: rank, recites, executed. About sequences: equality, size.
        epsilon: Largest error to allow; by default 1e-6 of the largest target.
        model: Which float32 programs the claim 'executed' is about, such as 'float32, any
            contraction'; by default those of this library.

    Examples:

        constructive certify memorizer.safetensors data.npz

        constructive certify memorizer.safetensors data.npz --claims rank,error

        constructive certify decoder.safetensors text.json --claims recites
    """
    loaded, dataset = _read(memorizer, data)
    chosen = None if claims is None else " ".join(claims).replace(",", " ").split()
    certificate = constructive.certify(loaded, dataset, claims=chosen, epsilon=epsilon, model=model)
    _write(certificate, output)


def _write(certificate: "constructive.Certificate", output: Path) -> None:
    """Write a certificate whatever it says; status 1 unless all of it is PROVED."""
    certificate.save(output)
    say(f"{certificate}\n\nwritten to {output}")
    claims = [
        {
            "name": claim.name,
            "verdict": claim.verdict.name,
            "statement": claim.statement,
            "detail": claim.detail,
            "witness": claim.witness,
        }
        for claim in certificate.claims
    ]
    end(
        proved=certificate.proved,
        verdict=certificate.verdict.name,
        claims=claims,
        certificate=str(output),
    )


def _read(memorizer: Path, data: Path) -> tuple[Any, Any]:
    """Return weights and data of the kind that the file of the data names; by default a layer."""
    from constructive.certificates.check import named_format

    kinds: dict[str | None, tuple[Any, Any]] = {
        constructive.Text.FORMAT: (constructive.Decoder, constructive.Text),
        constructive.SequenceDataset.FORMAT: (
            constructive.SequenceMemorizer,
            constructive.SequenceDataset,
        ),
    }
    kind = kinds.get(named_format(data))
    if kind is None:
        return constructive.Memorizer.load(memorizer), constructive.Dataset.open(data)
    return kind[0].load(memorizer), kind[1].load(data)


@command(app, "upper-bound", writes={"output": (".json",)})
def upper_bound(
    data: Path,
    *,
    heads: int,
    head_dim: int | None = None,
    output: Path = Path("upper-bound.json"),
) -> None:
    """Prove that whichever H fixed heads you choose, some targets of the data have no readout.

    With --head-dim: that almost no targets are returned by any weights of H heads of this d_h.

    Exit status 0 if that is PROVED, else 1; the certificate is written in any case.

    Args:
        head_dim: d_h, for heads that may depend on the targets.
        output: File to write the certificate to, .json.

    Examples:

        constructive upper-bound data.npz --heads 20

        constructive upper-bound data.npz --heads 4 --head-dim 8
    """
    dataset = constructive.Dataset.open(data)
    _write(constructive.upper_bound_certificate(dataset, heads, head_dim=head_dim), output)


@command(app, adds=("jobs", "as_json"), metavar={"files": "[MEMORIZER] DATA"})
def check(
    certificate: Path,
    files: list[Path],
    *,
    quick: bool = False,
    max_memory: float = 8.0,
    rocq: bool = False,
    folder: Path | None = None,
) -> None:
    """Check a certificate with the independent checker, in a process of its own.

    Exit status 0 only if every claim of the certificate holds, 1 if the checker says NOT PROVED,
    2 if a file does not exist or is given in the place of another.

    With --rocq: Rocq proves rank Z = T, onto and the error of the stored numbers, as far as the
    certificate has these claims, or what a decoder of integers recites, or of an upper bound that
    all W_Q and W_K miss some targets. Claims that it does not confirm are named, and do not change
    the exit status. It gets the numbers as integers and powers of two. Its theory is compiled each
    time, in a minute, and nothing in --folder is used. For small data: 100 examples take ten
    to fifteen seconds more for a rank or an error, and a gigabyte. Needs Rocq.

    Args:
        certificate: .json file from `certify`, `recite` or `upper-bound`.
        files: .safetensors file from `build` (none for an upper bound) and .npz file; for a
            decoder the .safetensors and .json files from `recite`; for sequences two .json files.
        quick: Check the rank claim probabilistically, with random vectors (much faster).
        max_memory: Memory in GB that the checker may use; it refuses to start for more.
        rocq: Have Rocq prove rank, onto and error, recites of a decoder of integers, or impossible
            for fixed heads, instead.
        folder: With --rocq: a new folder for a copy of all that Rocq compiled.

    Examples:

        constructive check certificate.json memorizer.safetensors data.npz

        constructive check certificate.json memorizer.safetensors data.npz --rocq

        constructive check decoder-certificate.json decoder.safetensors text.json

        constructive check upper-bound.json data.npz

        constructive check upper-bound.json data.npz --rocq --folder compiled
    """
    most = 2
    if len(files) > most:
        raise ParameterError(
            f"{len(files)} files after the certificate",
            witness=str(files[most]),
            suggestion="constructive check CERTIFICATE [MEMORIZER] DATA",
        )
    weights = files[0] if len(files) == most else None
    require_rocq(rocq, folder)
    if rocq:
        if quick:
            raise ParameterError(
                "--rocq has no quick way", witness="--quick", suggestion="--rocq without --quick"
            )
        from constructive.rocq.confirm import confirm

        confirmed = confirm(certificate, weights, files[-1], folder=folder, max_memory=max_memory)
        proved, text = confirmed.proved, confirmed.report
    else:
        checked = constructive.check(
            certificate, weights, files[-1], quick=quick, max_memory=max_memory
        )
        proved, text = checked.proved, checked.report.rstrip()
    say(text)
    verdict = constructive.Verdict.PROVED if proved else constructive.Verdict.UNDECIDED
    end(proved=proved, verdict=verdict.name, report=text.splitlines())
