"""Commands about theorems and data: assumptions, regroup, capacity, exact-capacity, prove."""

import dataclasses
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import constructive
from constructive.cli.common import (
    ContextSize,
    Data,
    Examples,
    Force,
    Heads,
    HeadsOrFewest,
    Json,
    Quiet,
    Seed,
    Width,
    app,
    console,
    end,
    progress_bar,
    require_rocq,
)
from constructive.cli.outputs import one_output, print_json
from constructive.support.errors import AssumptionError, ParameterError
from constructive.support.tables import new_table
from constructive.theory import proofs, published, rocq
from constructive.theory.bounds import THEOREMS

if TYPE_CHECKING:
    from constructive.theory.assumptions.report import Report

    Construction = str
else:
    Construction = StrEnum("Construction", {name: name for name in THEOREMS})
"""The values of --construction."""
_DEFAULT = Construction("saturated")


@app.command("assumptions")
def assumptions_command(
    data: Data,
    heads: HeadsOrFewest = None,
    subsets: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of random subsets of queries to test; by default at most 5000."
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option(min=0, max=1, help="Confidence level of the estimated interval.")
    ] = 0.99,
    budget: Annotated[
        float, typer.Option(min=0, help="Time budget; 1.0 is about 30 s at T = 10,000.")
    ] = 1.0,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Test the assumptions of the theorems on a data set, and say how each result is known.

    Exit status 0 if the examples meet what the construction needs, in some order, else 1.

    Example:

        constructive assumptions data.npz --heads 60
    """
    dataset = constructive.Dataset.open(data)
    with progress_bar(quiet=quiet):
        report = constructive.assumptions.check(
            dataset, heads, subsets=subsets, confidence=confidence, budget=budget, seed=seed
        )
    if as_json:
        print_json(**_described(report))
    else:
        typer.echo(str(report))
    end(proved=report.construction is constructive.Verdict.PROVED)


def _described(report: "Report") -> dict[str, Any]:
    """Return what --json prints of it."""
    estimates = [estimate for estimate in (report.share, report.position) if estimate]
    return {
        "num_examples": report.count,
        "context_size": report.size,
        "width": report.width,
        "num_heads": report.num_heads,
        "assumption_1": report.assumption_1.name,
        "assumption_2": report.assumption_2.name,
        "grouping": report.construction.name,
        "grouping_detail": report.regrouping and report.regrouping.detail,
        "kruskal_rank": {"lower": report.kruskal.lower, "upper": report.kruskal.upper},
        "dependent_contexts": [context.example for context in report.contexts],
        "estimates": [dataclasses.asdict(estimate) for estimate in estimates],
    }


@app.command()
def regroup(
    data: Data,
    heads: Heads,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="File to write the reordered data to, .npz."),
    ] = Path("regrouped.npz"),
    construction: Annotated[
        Construction,
        typer.Option(
            help="What the order is for: groups of n - 1 examples (saturated) or of d - 1 "
            "(rank_one)."
        ),
    ] = _DEFAULT,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Put the examples into an order that meets what the construction needs.

    Example:

        constructive regroup data.npz --heads 60 -o regrouped.npz
    """
    output, say = one_output(output, ".npz", inputs={"DATA": data}, force=force, quiet=quiet)
    dataset = constructive.Dataset.open(data)
    with progress_bar(quiet=quiet):
        found = constructive.assumptions.regroup(
            dataset, heads, construction=str(construction), seed=seed
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
    as_json: Json = False,
) -> None:
    """Print how many heads and parameters the theorems need, beside other published bounds.

    Example:

        constructive capacity --examples 621 --context-size 32 --width 64
    """
    sizes = {"num_examples": examples, "context_size": context_size, "width": width}
    if as_json:
        needs, bounds = published.needs(**sizes), constructive.published_bounds(**sizes)
        print_json(
            **sizes,
            theorems=[dataclasses.asdict(need) for need in needs],
            published=[dataclasses.asdict(bound) for bound in bounds],
        )
        return
    typer.echo(constructive.capacity_table(**sizes) + "\n\n" + constructive.comparison(**sizes))


@app.command("exact-capacity")
def exact_capacity_command(
    data: Data,
    heads: HeadsOrFewest = None,
    head_dim: Annotated[
        list[int] | None,
        typer.Option(
            min=1, help="Head dimension d_h; may be repeated. By default powers of two up to d."
        ),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find how many of these examples any weights can memorize, proved from below and from above.

    Without --heads: the fewest heads that memorize these examples, whatever their targets are, and
    a proof that no fewer do. Exit status 0 if both are PROVED, else 1.

    Examples:

        constructive exact-capacity data.npz

        constructive exact-capacity data.npz --heads 20 --head-dim 1 --head-dim 32
    """
    dataset = constructive.Dataset.open(data)
    if heads is None:
        _fewest(dataset, (head_dim or [1])[0], seed, as_json=as_json, quiet=quiet)
        return
    powers = [1 << k for k in range(dataset.width.bit_length()) if 1 << k <= dataset.width]
    table = new_table("d_h", "Theorem 1", "proved rank", "no weights above", "seconds", left=())
    results = []
    for size in head_dim or powers:
        start = time.perf_counter()
        with progress_bar(quiet=quiet):
            found = constructive.exact_capacity(dataset, heads, size, seed=seed)
        bound = constructive.saturated_capacity(heads, dataset.context_size, size)
        cells = min(bound, dataset.num_examples), found.lower, found.upper
        table.add_row(str(size), *map(str, cells), f"{time.perf_counter() - start:.1f}")
        keys = "theorem_1", "lower", "upper"
        results.append({"head_dim": size, **dict(zip(keys, cells, strict=True))})
    if as_json:
        total = dataset.num_examples
        print_json(num_heads=heads, num_examples=total, results=results, reason=found.reason)
        return
    console(width=100).print(table)
    typer.echo(f"\nupper bound: {found.reason}")


def _fewest(
    dataset: "constructive.Dataset", head_dim: int, seed: int, *, as_json: bool, quiet: bool
) -> None:
    """Print and prove the fewest heads: from below by weights, from above for all weights."""
    with progress_bar(quiet=quiet):
        least = constructive.fewest_heads(dataset, seed=seed).least
        found = constructive.exact_capacity(dataset, least, head_dim, seed=seed)
    total = dataset.num_examples
    enough = constructive.Verdict.PROVED if found.lower == total else constructive.Verdict.UNDECIDED
    lines = [
        f"{enough.name}: H = {least} heads of d_h = {head_dim} memorize all labellings of these "
        f"T = {total} examples (rank Z = {found.lower} for random weights, modulo a prime)"
    ]
    needed = constructive.Verdict.PROVED
    if least > 1:
        claim = constructive.upper_bound_certificate(dataset, least - 1, seed=seed)["impossible"]
        needed = claim.verdict
        lines.append(f"{needed.name}: no {least - 1} do; {claim.statement}")
    if as_json:
        print_json(
            num_heads=least, head_dim=head_dim, num_examples=total,
            enough=enough.name, no_fewer=needed.name, statements=lines,
        )  # fmt: skip
    else:
        typer.echo("\n".join(lines))
    end(proved=enough is needed is constructive.Verdict.PROVED)


@app.command("prove")
def prove_command(
    page: Annotated[
        list[Path] | None,
        typer.Argument(help="Pages of proofs, as names, numbers or files; by default all."),
    ] = None,
    formal: Annotated[
        bool, typer.Option("--rocq", help="Have Rocq check the formal proofs instead.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="With --rocq: a new folder for a copy of what is built."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run the checks of all proofs, and print what is proved and how it is checked.

    Needs the extra `proofs` (sympy). Exit status 0 if every statement has its proof and holds.

    With --rocq: Rocq checks the formal proofs, in five CPU minutes and 0.9 GB, and the
    table names the axioms they rest on. Exit status 0 if there is no gap. Needs Rocq.

    Example:

        constructive prove

        constructive prove --rocq
    """
    if formal:
        _check_formal_proofs(page, folder, quiet=quiet)
        return
    require_rocq(formal, folder)
    pages = proofs.pages()
    chosen = [_page(path, pages) for path in page or pages]
    with progress_bar(quiet=quiet):
        outcomes = proofs.prove(chosen)
    typer.echo(proofs.table(outcomes))
    end(proved=bool(outcomes) and all(outcome.holds for outcome in outcomes))


def _page(asked: Path, pages: list[Path]) -> Path:
    """Return a page by its name, by its number or by its path."""
    for known in pages:
        if str(asked) in {known.stem, known.stem.partition("-")[0]}:
            return known
    if not asked.is_file():
        raise ParameterError(
            f"there is no page of proofs {asked}",
            witness=str(asked),
            suggestion=", ".join(known.stem for known in pages),
        )
    return asked


def _check_formal_proofs(page: list[Path] | None, folder: Path | None, *, quiet: bool) -> None:
    """Print the table of formal proofs, and end with status 1 if there is a gap."""
    if page:
        raise ParameterError(
            "--rocq checks all formal proofs, not those of a page",
            witness=str(page[0]),
            suggestion="--rocq without a page",
        )
    with progress_bar(quiet=quiet):
        report = rocq.check(folder)
    typer.echo(rocq.table(report.theorems))
    whole = bool(report.theorems) and not report.failure
    if not whole:
        typer.echo(f"\nFAILED\n{report.failure}")
    end(proved=whole)
