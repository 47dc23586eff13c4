"""Commands about theorems and data: assumptions, regroup, capacity, exact-capacity, prove."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import constructive
from constructive.cli.common import (
    ContextSize,
    Data,
    Examples,
    Force,
    Heads,
    HeadsOrFewest,
    Seed,
    Width,
    app,
    console,
    end,
    one_output,
    progress_bar,
    require_rocq,
)
from constructive.support.errors import AssumptionError, ParameterError
from constructive.theory import proofs, rocq


@app.command("assumptions")
def assumptions_command(
    data: Data,
    heads: HeadsOrFewest = None,
    subsets: Annotated[
        int | None,
        typer.Option(min=1, help="Random subsets of an estimate; by default 5000 at most."),
    ] = None,
    confidence: Annotated[float, typer.Option(min=0, max=1, help="Of its interval.")] = 0.99,
    budget: Annotated[float, typer.Option(min=0, help="1: half a minute at T = 10,000.")] = 1.0,
    seed: Seed = 0,
) -> None:
    """Report what is known of the assumptions of the theorems, and how it is known.

    Exit status 0 if the examples meet what the construction needs, in some order, else 1.

    Example:

        constructive assumptions data.npz --heads 60
    """
    dataset = constructive.Dataset.open(data)
    with progress_bar():
        report = constructive.assumptions.check(
            dataset, heads, subsets=subsets, confidence=confidence, budget=budget, seed=seed
        )
    typer.echo(str(report))
    end(proved=report.construction is constructive.Verdict.PROVED)


@app.command()
def regroup(
    data: Data,
    heads: Heads,
    output: Annotated[
        Path, typer.Option("--output", "-o", help=".npz file for the data in the new order.")
    ] = Path("regrouped.npz"),
    construction: Annotated[
        str, typer.Option("--construction", help="saturated, or rank_one for groups of d - 1.")
    ] = "saturated",
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Put the examples into an order which meets what the construction needs.

    Example:

        constructive regroup data.npz --heads 60 -o regrouped.npz
    """
    output, say = one_output(output, inputs={"DATA": data}, force=force)
    dataset = constructive.Dataset.open(data)
    with progress_bar():
        found = constructive.assumptions.regroup(
            dataset, heads, construction=construction, seed=seed
        )
    if found.order is None:
        raise AssumptionError(
            f"{found.verdict.name}: {found.detail}",
            witness=found.members or None if found.dependency is None else str(found.dependency),
            suggestion="more heads"
            if found.verdict is constructive.Verdict.UNDECIDED
            else "drop examples of the witness, or token_mixing where queries agree",
        )
    dataset.take(found.order).save(output)
    say(f"{found.verdict.name}: {found.detail}\nwritten to {output}")


@app.command()
def capacity(
    examples: Examples,
    context_size: ContextSize,
    width: Width,
) -> None:
    """Print what the theorems promise, and other published bounds beside them.

    Example:

        constructive capacity --examples 621 --context-size 32 --width 64
    """
    sizes = {"num_examples": examples, "context_size": context_size, "width": width}
    typer.echo(constructive.capacity_table(**sizes) + "\n\n" + constructive.comparison(**sizes))


@app.command("exact-capacity")
def exact_capacity_command(
    data: Data,
    heads: HeadsOrFewest = None,
    head_dim: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Head dimension d_h; repeat it. By default powers of two to d."),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Find the largest rank of Z over all weights, proved from below and from above.

    Without --heads: the fewest heads which memorize these examples, whatever their targets are, and
    a proof that no fewer do. Exit status 0 if both are PROVED, else 1.

    Example:

        constructive exact-capacity data.npz

        constructive exact-capacity data.npz --heads 20 --head-dim 1 --head-dim 32
    """
    dataset = constructive.Dataset.open(data)
    if heads is None:
        _fewest(dataset, (head_dim or [1])[0], seed)
        return
    powers = [1 << k for k in range(dataset.width.bit_length()) if 1 << k <= dataset.width]
    table = Table(box=None, pad_edge=False)
    for heading in ("d_h", "Theorem 1", "proved rank", "no weights above", "seconds"):
        table.add_column(heading, justify="right")
    for size in head_dim or powers:
        start = time.perf_counter()
        with progress_bar():
            found = constructive.exact_capacity(dataset, heads, size, seed=seed)
        bound = constructive.saturated_capacity(heads, dataset.context_size, size)
        cells = min(bound, dataset.num_examples), found.lower, found.upper
        table.add_row(str(size), *map(str, cells), f"{time.perf_counter() - start:.1f}")
    console(width=100).print(table)
    typer.echo(f"\nupper bound: {found.reason}")


def _fewest(dataset: "constructive.Dataset", head_dim: int, seed: int) -> None:
    """Print and prove the fewest heads: from below by weights, from above for all weights."""
    with progress_bar():
        least = constructive.fewest_heads(dataset, seed=seed).least
        found = constructive.exact_capacity(dataset, least, head_dim, seed=seed)
    total = dataset.num_examples
    enough = constructive.Verdict.PROVED if found.lower == total else constructive.Verdict.UNDECIDED
    typer.echo(
        f"{enough.name}: H = {least} heads of d_h = {head_dim} memorize all labellings of these "
        f"T = {total} examples (rank Z = {found.lower} for random weights, modulo a prime)"
    )
    needed = constructive.Verdict.PROVED
    if least > 1:
        claim = constructive.upper_bound_certificate(dataset, least - 1, seed=seed)["impossible"]
        needed = claim.verdict
        typer.echo(f"{needed.name}: no {least - 1} do; {claim.statement}")
    end(proved=enough is needed is constructive.Verdict.PROVED)


@app.command("prove")
def prove_command(
    page: Annotated[
        list[Path] | None, typer.Argument(help="Pages, as files or names; by default all.")
    ] = None,
    formal: Annotated[
        bool, typer.Option("--rocq", help="Have Rocq check the formal proofs instead.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="With --rocq: a new folder for a copy of what is built."),
    ] = None,
) -> None:
    """Run the checks of the literate proofs, and print what is proved and checked how.

    Needs the extra `proofs` (sympy). Exit status 0 if every statement has its proof and holds.

    With --rocq: Rocq checks the formal proofs, in two to three minutes and 1.5 GB, and the
    table names the axioms they rest on. Exit status 0 if there is no gap. Needs Rocq.

    Example:

        constructive prove

        constructive prove --rocq
    """
    if formal:
        _check_formal_proofs(page, folder)
        return
    require_rocq(formal, folder)
    known = {known.stem: known for known in proofs.pages()}
    chosen = [known.get(str(path), path) for path in page or known.values()]
    with progress_bar():
        outcomes = proofs.prove(chosen)
    typer.echo(proofs.table(outcomes))
    end(proved=bool(outcomes) and all(outcome.holds for outcome in outcomes))


def _check_formal_proofs(page: list[Path] | None, folder: Path | None) -> None:
    """Print the table of formal proofs, and end with status 1 if there is a gap."""
    if page:
        raise ParameterError(
            "--rocq checks all formal proofs, not those of a page",
            witness=str(page[0]),
            suggestion="--rocq without a page",
        )
    with progress_bar():
        report = rocq.check(folder)
    typer.echo(rocq.table(report.theorems))
    if report.failure or not report.theorems:
        typer.echo(f"\nFAILED\n{report.failure}")
        raise typer.Exit(1)
