"""Commands that prove things of files: certify, upper-bound, check."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import constructive
from constructive.certificates.claims.registry import CLAIMS
from constructive.cli.common import (
    CertificateFile,
    Data,
    Force,
    MemorizerFile,
    Pieces,
    app,
    end,
    hand_out,
    one_output,
    processes,
    progress_bar,
    require_rocq,
)
from constructive.support.errors import ParameterError

if TYPE_CHECKING:
    ClaimOption = str
else:
    ClaimOption = StrEnum("ClaimOption", {name: name for name in CLAIMS["layer"]})
"""The values of --claim."""


@app.command("certify")
def certify_command(
    memorizer: MemorizerFile,
    data: Data,
    output: CertificateFile = Path("certificate.json"),
    claim: Annotated[
        list[ClaimOption] | None, typer.Option(help="A claim; repeat it. By default all.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Error to prove; by default 1e-6 of the largest target.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Distance to an exact readout; by default what is shown.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Of the claim executed, such as 'float32, any contraction'."),
    ] = None,
    jobs: Pieces = 1,
    force: Force = False,
) -> None:
    """Prove that stored weights memorize stored data, and write a certificate.

    Exit status 0 if every claim is PROVED, else 1; the certificate is written in any case.

    Examples:

        constructive certify memorizer.safetensors data.npz

        constructive certify memorizer.safetensors data.npz --claim rank --claim error
    """
    inputs = {"MEMORIZER": memorizer, "DATA": data}
    output, say = one_output(output, inputs=inputs, force=force)
    loaded, dataset = constructive.Memorizer.load(memorizer), constructive.Dataset.open(data)
    claims = tuple(map(str, claim)) if claim else None
    with processes(jobs) as executor, progress_bar():
        certificate = constructive.certify(
            loaded, dataset, claims=claims, epsilon=epsilon, delta=delta, model=model,
            executor=executor)  # fmt: skip
    hand_out(certificate, output, say)


@app.command("upper-bound")
def upper_bound(
    data: Data,
    heads: Annotated[int, typer.Option("--heads", "-H", help="Number H of heads.")],
    output: CertificateFile = Path("upper-bound.json"),
    force: Force = False,
) -> None:
    """Prove that no weights of H heads memorize all labellings of a data set.

    Exit status 0 if that is PROVED, else 1; the certificate is written in any case.

    Example:

        constructive upper-bound data.npz --heads 20
    """
    output, say = one_output(output, inputs={"DATA": data}, force=force)
    with progress_bar():
        certificate = constructive.upper_bound_certificate(constructive.Dataset.open(data), heads)
    hand_out(certificate, output, say)


@app.command("check")
def check_command(
    certificate: Annotated[
        Path,
        typer.Argument(
            readable=False,  # `check` says so, with the file's role
            help=".json file from `certify`, `upper-bound` or `sequence certify`.",
        ),
    ],
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[MEMORIZER] DATA",
            readable=False,
            help=".safetensors file from `build` (none for an upper bound) and .npz file; for "
            "sequences both .json files from `sequence build`.",
        ),
    ],
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Rank by random products (others than it are quick anyway)."),
    ] = False,
    max_memory: Annotated[
        float, typer.Option(help="GB which the checker may take; it refuses before it takes more.")
    ] = 8.0,
    formal: Annotated[
        bool, typer.Option("--rocq", help="Have Rocq prove the claim rank, or impossible, instead.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="With --rocq: a new folder for a copy of all that Rocq compiled."),
    ] = None,
) -> None:
    """Check a certificate with the independent checker, in a process of its own.

    Exit status 0 only if every claim of the certificate holds, 1 if the checker says NOT PROVED,
    2 if a file is not there or is in the place of another.

    With --rocq: Rocq proves rank Z = T of the stored numbers, or of an upper bound that all weights
    miss some labels. It gets the numbers as integers and powers of two. Its theory is compiled
    each time, in half a minute, and nothing in --folder is used. For small data: 100 examples take
    a few seconds more and a gigabyte. Needs Rocq.

    Examples:

        constructive check certificate.json memorizer.safetensors data.npz

        constructive check certificate.json memorizer.safetensors data.npz --rocq

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
    require_rocq(formal, folder)
    if formal:
        if quick:
            raise ParameterError(
                "--rocq is never quick", witness="--quick", suggestion="--rocq without it"
            )
        from constructive.certificates.rocq.confirm import confirm

        with progress_bar():
            confirmed = confirm(
                certificate, weights, files[-1], folder=folder, max_memory=max_memory
            )
        typer.echo(confirmed.report)
        end(proved=confirmed.proved)
        return
    with progress_bar():
        checked = constructive.check(
            certificate, weights, files[-1], quick=quick, max_memory=max_memory
        )
    typer.echo(checked.report.rstrip())
    end(proved=checked.proved)
