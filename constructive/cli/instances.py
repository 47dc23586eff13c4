"""Commands about instances for verifiers: make a folder of them."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from constructive.cli.common import (
    Force,
    Jobs,
    Json,
    Quiet,
    Seed,
    app,
    console,
    end,
    processes,
    progress_bar,
)
from constructive.cli.outputs import folder_output, print_json
from constructive.support.errors import ParameterError, shown
from constructive.support.tables import new_table

instances = typer.Typer(
    help="Make instances for verifiers of neural networks, with proved answers, and check them.",
)
app.add_typer(instances, name="instances")


_MOST = 1_000_000  # Instances of a folder


class VnnLib(StrEnum):
    """The values of --vnnlib."""

    one = "1"
    two = "2"
    both = "both"


@instances.command("make")
@instances.callback(invoke_without_command=True)
def make(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write the instances to.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Family: needle, corner, shadow or another; may be repeated."),
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, max=_MOST, help="Number of instances, at least.")
    ] = 100,
    dim: Annotated[str, typer.Option(help="Number of inputs, or a range LEAST:MOST.")] = "2:32",
    scale: Annotated[
        str | None,
        typer.Option(help="Slope of the sharpest logits, or a range; by default 16:256."),
    ] = None,
    margin: Annotated[
        str | None,
        typer.Option(help="Distance of thresholds from the maximum; by default 0.05."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE or NAME=LEAST:MOST of another option of a family."),
    ] = None,
    seed: Seed = 0,
    graph: Annotated[str, typer.Option(help="ONNX graph: split, fused, flat or exp.")] = "split",
    vnnlib: Annotated[VnnLib, typer.Option(help="Versions of VNN-LIB.")] = VnnLib.both,
    timeout: Annotated[float, typer.Option(help="Seconds, for instances.csv.")] = 60.0,
    jobs: Jobs = 1,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write a folder of instances in the layout of VNN-COMP, with a proof of each answer.

    Instances come in groups with one network, such as twins: two thresholds, opposite answers. What
    tools see says nothing of the answers, which are in `expected.csv` and `proofs/`. The same seed
    gives the same bytes.

    Examples:

        constructive instances -o folder --kind needle --count 100 --dim 2:32 --scale 16:256

        constructive instances -o folder --kind needle --set decoy=0
    """
    if context.invoked_subcommand is not None:
        return
    if folder is None:
        typer.echo(context.get_help())
        raise typer.Exit
    from constructive.instances.folder import save
    from constructive.instances.making import KINDS
    from constructive.instances.making import make as made

    options = {"scale": scale, "margin": margin}
    options |= dict(_named(text) for text in option or ())
    ranges = {name: _range(name, text) for name, text in options.items() if text is not None}
    found = [file for file in folder.rglob("*") if file.is_file()] if folder.is_dir() else []
    names = [file.relative_to(folder).as_posix() for file in found]
    say = folder_output(folder, names, force=force, quiet=quiet)
    with progress_bar(quiet=quiet), processes(jobs) as executor:
        group = made(
            count,
            kinds=tuple(kind or KINDS),
            dims=_range("dim", dim),
            seed=seed,
            executor=executor,
            **ranges,
        )
        save(folder, group, graph=graph, vnnlib=str(vnnlib), timeout=timeout)
    sat = sum(each.answer == "sat" for each in group)
    say(f"{len(group)} instances, {sat} of them sat, written to {folder}")


@instances.command("check")
def check_command(
    folder: Annotated[Path, typer.Argument(readable=False, help="Folder of instances.")],
    max_memory: Annotated[
        float, typer.Option(help="Memory in GB that each process of the checker may use.")
    ] = 8.0,
    jobs: Jobs = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check the proofs of all answers with the independent checker, in a process of its own.

    It reads the ONNX and VNN-LIB files itself, and accounts for every row and every file. Exit
    status 0 only if every answer is proved, 1 if one is not.

    Example:

        constructive instances check folder --jobs 2
    """
    from constructive.instances.folder import check

    with progress_bar(quiet=quiet):
        checked = check(folder, jobs=jobs, max_memory=max_memory)
    if as_json:
        print_json(verdict=checked.verdict.name, report=str(checked).splitlines())
    else:
        typer.echo(str(checked))
    end(proved=checked.proved)


@instances.command("score")
def score_command(
    folder: Annotated[Path, typer.Argument(readable=False, help="Folder of instances.")],
    results: Annotated[
        Path, typer.Argument(readable=False, help=".csv file of a verifier, as in VNN-COMP.")
    ],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare the results of a verifier with the proved answers.

    Rows of RESULTS have the name of an instance or its .vnnlib file; then sat, unsat, unknown,
    timeout or error; then perhaps a witness ((X_0 v) ... (Y_0 v)), or the path of one. Other words
    count as unknown, and are named. Witnesses are replayed in onnxruntime and in float64. They may
    be outside of the box, and miss the property, by 1e-4 as in VNN-COMP; others do not show that
    sat is right.

    Exit status 1 if a result is FALSE: sat and unsat confused.

    Example:

        constructive instances score folder results.csv
    """
    from constructive.instances.scoring import Outcome, score

    with progress_bar(quiet=quiet):
        found = score(folder, results)
    if as_json:
        print_json(**found.document())
        end(proved=not found.false)
        return
    keys = "family", "answer", "witnesses"
    table = new_table(*keys, *(outcome.value for outcome in Outcome), left=keys)
    for key, counts in found.counts().items():
        table.add_row(*key, *(str(counts[outcome]) for outcome in Outcome))
    console(width=120).print(table)
    for row in found.false:
        typer.echo(f"FALSE: {row.expected.name}: {row.said}, but {row.reason}")
    for word, names in found.strange.items():
        what = f"the word {shown(word)} is not known" if word else "there is no result"
        typer.echo(f"unknown: {what}: {names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)}")
    missing = found.totals[Outcome.MISSING]
    if missing:
        typer.echo(f"missing: {results} has no row about {missing} of {len(found.rows)} instances")
    if found.others:
        typer.echo(f"{found.others} rows are about no instance of the folder")
    end(proved=not found.false)


def _named(text: str) -> tuple[str, str]:
    """A name and a value."""
    name, equal, value = text.partition("=")
    if not (name and equal and value):
        raise ParameterError(
            f"--set {text} is not an option of a family",
            witness=text,
            suggestion="--set NAME=VALUE or --set NAME=LEAST:MOST",
        )
    return name, value


def _range(name: str, text: str) -> tuple[float, float]:
    """LEAST:MOST as two numbers, or one number twice."""
    first, colon, last = text.partition(":")
    try:
        return float(first), float(last if colon else first)
    except ValueError as error:
        raise ParameterError(
            f"--{name} {text} is not a number or a range",
            witness=text,
            suggestion=f"--{name} 16 or --{name} 16:256",
        ) from error
