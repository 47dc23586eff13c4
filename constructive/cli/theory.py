"""Commands about theorems and data: assumptions, capacity, prove."""

from pathlib import Path

import constructive
from constructive.cli.outputs import end, say
from constructive.cli.program import app, command, require_rocq
from constructive.rocq import compiling as formal
from constructive.support.errors import ParameterError
from constructive.theory import proofs
from constructive.theory.bounds import heads_in_words


@command(app)
def assumptions(
    data: Path,
    *,
    heads: int | None = None,
    subsets: int | None = None,
    budget: float = 1.0,
) -> None:
    """Test the assumptions of the theorems on a dataset, and say how each result is known.

    Exit status 0 if the examples meet what the construction needs, in some order, else 1.

    Args:
        heads: Number H of heads; by default the fewest that suffice.
        subsets: Number of random subsets of queries to test; by default at most 5000.
        budget: Time budget; 1.0 is about 30 s at T = 10,000.

    Example:

        constructive assumptions data.npz --heads 60
    """
    dataset = constructive.Dataset.open(data)
    report = constructive.assumptions.check(dataset, heads, subsets=subsets, budget=budget)
    say(str(report))
    end(proved=report.construction is constructive.Verdict.PROVED)


@command(app)
def capacity(
    data: Path | None = None,
    *,
    heads: int | None = None,
    head_dim: int | None = None,
    context_size: int | None = None,
    width: int | None = None,
    target_dim: int | None = None,
    shared: bool = False,
) -> None:
    """Print how many examples of a dataset, or of almost all data, fixed and free heads memorize.

    Whatever the targets are: fixed heads are chosen before them, free heads may depend on them.
    Without a dataset data have the given sizes. With a dataset and without --heads: the fewest
    fixed heads that memorize its examples with any targets, and a proof that fewer do not. Exit
    status 0 if both are PROVED, else 1.

    Args:
        data: A dataset; or give --context-size and --width.
        heads: Number H of heads; by default the fewest fixed heads that suffice.
        head_dim: Head dimension d_h; by default d / H.
        context_size: Number n of tokens in a context, without a dataset.
        width: Number d of entries of a token, without a dataset.
        target_dim: Number d_out of entries of a target, without a dataset; by default one number.
        shared: Whether all examples share one context, without a dataset.

    Examples:

        constructive capacity data.npz --heads 20

        constructive capacity --heads 12 --head-dim 64 --context-size 197 --width 768

        constructive capacity data.npz
    """
    dataset = None if data is None else constructive.Dataset.open(data)
    if dataset is not None and heads is None:
        _fewest(dataset, head_dim or 1)
        return
    if heads is None:
        raise ParameterError(
            "the number of heads is missing",
            witness="--heads",
            suggestion="--heads 12, or a dataset, whose fewest heads are found",
        )
    entries = width if dataset is None else dataset.width
    size = max(1, (entries or 1) // heads) if head_dim is None else head_dim
    found = constructive.capacity(
        dataset,
        num_heads=heads,
        head_dim=size,
        context_size=context_size,
        width=width,
        shared_context=shared,
        target_dim=target_dim,
    )
    say(str(found))


def _fewest(dataset: "constructive.Dataset", head_dim: int) -> None:
    """Print and prove the fewest fixed heads: from below by some, from above for all."""
    least = constructive.fewest_heads(dataset).least
    found = constructive.capacity(dataset, num_heads=least, head_dim=head_dim)
    rank, total = found.fixed.at_least, dataset.num_examples
    enough = constructive.Verdict.PROVED if rank == total else constructive.Verdict.UNDECIDED
    say(
        f"{enough.name}: {heads_in_words(least)} of d_h = {head_dim}, chosen before the targets, "
        f"memorize these T = {total} examples with any targets (rank Z = {rank} for random "
        "weights, modulo a prime)"
    )
    needed = constructive.Verdict.PROVED
    if least > 1:
        claim = constructive.upper_bound_certificate(dataset, least - 1)["impossible"]
        needed = claim.verdict
        say(f"{needed.name}: fewer heads do not; {claim.statement}")
    end(proved=enough is needed is constructive.Verdict.PROVED)


@command(app)
def prove(
    page: list[Path] | None = None,
    *,
    rocq: bool = False,
    folder: Path | None = None,
) -> None:
    """Run the checks of all proofs, and print what is proved and how it is checked.

    Needs the extra `proofs` (sympy). Exit status 0 if every statement has its proof and holds.

    With --rocq: Rocq checks the formal proofs, in five CPU minutes and 0.9 GB, and the
    table names the axioms they rest on. Exit status 0 if there is no gap. Needs Rocq.

    Args:
        page: Pages of proofs, as names, numbers or files; by default all.
        rocq: Have Rocq check the formal proofs instead.
        folder: With --rocq: a new folder for a copy of what is built.

    Example:

        constructive prove

        constructive prove --rocq
    """
    if rocq:
        _check_formal_proofs(page, folder)
        return
    require_rocq(rocq, folder)
    pages = proofs.pages()
    chosen = [_page(path, pages) for path in page or pages]
    outcomes = proofs.prove(chosen)
    say(proofs.table(outcomes))
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


def _check_formal_proofs(page: list[Path] | None, folder: Path | None) -> None:
    """Print the table of formal proofs, and end with status 1 if there is a gap."""
    if page:
        raise ParameterError(
            "--rocq checks all formal proofs, not those of a page",
            witness=str(page[0]),
            suggestion="--rocq without a page",
        )
    report = formal.check(folder)
    say(formal.table(report.theorems))
    whole = bool(report.theorems) and not report.failure
    if not whole:
        say(f"\nFAILED\n{report.failure}")
    end(proved=whole)
