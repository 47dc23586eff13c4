"""Commands about theorems and data: assumptions, capacity, exact-capacity, prove."""

import time
from pathlib import Path

import constructive
from constructive.certificates.rocq import compiling as formal
from constructive.cli.outputs import end, say
from constructive.cli.program import app, command, require_rocq
from constructive.support.errors import ParameterError
from constructive.support.tables import new_table
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
def capacity(*, examples: int, context_size: int, width: int) -> None:
    """Print how many heads and parameters the theorems need.

    Example:

        constructive capacity --examples 621 --context-size 32 --width 64
    """
    sizes = {"num_examples": examples, "context_size": context_size, "width": width}
    say(constructive.capacity_table(**sizes))


@command(app, "exact-capacity")
def exact_capacity(
    data: Path,
    *,
    heads: int | None = None,
    head_dim: list[int] | None = None,
) -> None:
    """Find how many of these examples fixed heads memorize, proved from below and from above.

    Fixed heads are chosen before the targets; only the readout depends on these. Without --heads:
    the fewest fixed heads that memorize these examples with any targets, and a proof that fewer do
    not. Exit status 0 if both are PROVED, else 1.

    Args:
        heads: Number H of heads; by default the fewest that suffice.
        head_dim: Head dimension d_h; may be repeated. By default powers of two up to d.

    Examples:

        constructive exact-capacity data.npz

        constructive exact-capacity data.npz --heads 20 --head-dim 1 --head-dim 32
    """
    dataset = constructive.Dataset.open(data)
    if heads is None:
        _fewest(dataset, (head_dim or [1])[0])
        return
    powers = [1 << k for k in range(dataset.width.bit_length()) if 1 << k <= dataset.width]
    table = new_table("d_h", "Theorem 1", "proved rank", "at most", "seconds", left=())
    for size in head_dim or powers:
        start = time.perf_counter()
        found = constructive.exact_capacity(dataset, heads, size)
        bound = constructive.saturated_capacity(heads, dataset.context_size, size)
        cells = min(bound, dataset.num_examples), found.lower, found.upper
        table.add_row(str(size), *map(str, cells), f"{time.perf_counter() - start:.1f}")
    say(table)
    say(f"\nupper bound for all W_Q and W_K: {found.reason}")


def _fewest(dataset: "constructive.Dataset", head_dim: int) -> None:
    """Print and prove the fewest fixed heads: from below by some, from above for all."""
    least = constructive.fewest_heads(dataset).least
    found = constructive.exact_capacity(dataset, least, head_dim)
    total = dataset.num_examples
    enough = constructive.Verdict.PROVED if found.lower == total else constructive.Verdict.UNDECIDED
    say(
        f"{enough.name}: {heads_in_words(least)} of d_h = {head_dim}, chosen before the targets, "
        f"memorize these T = {total} examples with any targets (rank Z = {found.lower} for random "
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
