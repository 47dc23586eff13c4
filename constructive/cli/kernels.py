"""Commands about attention kernels: run libraries on problems with answers, and export these."""

import sys
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import typer

from constructive.cli.outputs import end, output_folder, say
from constructive.cli.program import app, command, version_of
from constructive.kernels.batteries import SUITE
from constructive.kernels.cases import CASES
from constructive.support.errors import ParameterError, require_known
from constructive.support.tables import new_table

if TYPE_CHECKING:
    from constructive.kernels.adapters import Adapter
    from constructive.kernels.running import Run

_MOST_SENTENCES = 12

kernels = typer.Typer(
    no_args_is_help=True, help="Test attention kernels of libraries, without tolerances."
)
app.add_typer(kernels, name="kernels")


_SELECTING = {"shape": tuple(SUITE), "case": tuple(CASES)}
_METAVAR = {"shape": "NAME"}  # names have commas, and all of them fill a screen


@command(kernels, "list")
def list_adapters() -> None:
    """Print the adapters: libraries, versions that are installed, and formats.

    Example:

        constructive kernels list
    """
    from constructive.kernels.adapters import ADAPTERS

    table = new_table("adapter", "library", "version", "formats", "devices", "rows without keys")
    for name, adapter in ADAPTERS.items():
        library = next(iter(adapter.packages.values()))
        devices = ", ".join(adapter.devices)
        formats = ", ".join(adapter.models)
        table.add_row(name, library, version_of(library), formats, devices, adapter.fully_masked)
    say(table)


@command(kernels, choices=_SELECTING, metavar=_METAVAR)
def run(
    adapter: str,
    *,
    device: str = "cpu",
    dtype: list[str] | None = None,
    shape: list[str] | None = None,
    case: list[str] | None = None,
    seed: int = 0,
) -> None:
    """Run a library on problems whose answers are known, and compare its outputs with them.

    The table counts `problems`, outputs that are right in every row (`exact`) and others
    (`wrong`), what the library does not compute (`refused`) and exceptions (`errors`). `coverage`
    is the share of hidden keys whose leak would have changed an answer. Below it are what failing
    problems have in common, and what was refused.

    Exit status 0 if all that ran is exact and no more was refused than ran, else 1: nothing is
    known of what was refused. Choose by --shape what a kernel of few features takes.

    Args:
        adapter: A name from `list`, or MODULE:NAME of your own.
        device: Where to compute: cpu or cuda.
        dtype: Number format of inputs, such as bfloat16; may be repeated. By default all formats
            of the adapter.

    Examples:

        constructive kernels run torch --dtype bfloat16

        constructive kernels run torch-flash --device cuda
    """
    from constructive.kernels.comparing import comparison
    from constructive.kernels.inputs import require_device
    from constructive.kernels.running import run_all, suite_for, tally

    chosen = _adapter(adapter)
    formats = tuple(chosen.models) if dtype is None else tuple(dtype)
    for name in formats:
        require_known("dtype", name, chosen.models)
    if device not in chosen.devices:
        raise ParameterError(
            f"{adapter} does not run on {device}",
            witness=device,
            suggestion=" or ".join(f"--device {name}" for name in chosen.devices),
        )
    suites = {name: suite_for(chosen, name, shape, seed) for name in formats}
    chosen.require()
    require_device(chosen.library, device)
    table = new_table(
        "dtype", "problems", "exact", "wrong", "refused", "errors", "coverage",
        left=("dtype",),
    )  # fmt: skip
    runs: list[Run] = []
    refused: Counter[tuple[str, str]] = Counter()  # by reason and shape; runs take much memory
    compared: list[str] = []
    total, passed = 0, True
    for name, suite in suites.items():
        done = list(run_all(chosen, suite.shapes, device, case))
        counted = tally(done)
        passed = passed and counted.passed
        outcomes = counted.exact, counted.wrong, counted.refused, counted.errors
        cells = map(str, (counted.cases, *outcomes))
        table.add_row(name, *cells, f"{counted.coverage:.1%}")
        total += counted.cases
        compared += comparison(each.report for each in done if each.report is not None)
        refused.update((each.reason, each.shape) for each in done if each.outcome == "refused")
        runs.extend(each for each in done if each.outcome in {"wrong", "error"})
    if not total:
        raise ParameterError(
            "no case applies to these shapes",
            witness=", ".join(case or shape or ()),
            suggestion="other values of --case or --shape",
        )
    package = next(iter(chosen.packages.values()), None)
    library = "no package" if package is None else f"{package} {version_of(package)}"
    say(f"{adapter}: {library}, {device}")
    if shape is None:
        say(suites[formats[0]])
    say(table)
    for line in compared:
        say(line)
    _deviations(runs)
    end(proved=_ran_enough(refused, total) and passed)


@command(
    kernels,
    adds=("force",),
    choices=_SELECTING,
    metavar=_METAVAR,
)
def export(
    folder: Path,
    *,
    dtype: str = "float32",
    shape: list[str] | None = None,
    case: list[str] | None = None,
    seed: int = 0,
    fully_masked: str = "zeros",
) -> None:
    """Write problems with their answers into a folder, for kernels in other languages.

    Each problem is a file with q, k, v, the mask and the expected output; `problems.json` says what
    they are, and the options of each problem. The same seed gives the same bytes.

    Args:
        folder: Folder to write the problems to.
        dtype: Number format of inputs.
        fully_masked: Expected output of a query that sees no key: zeros, nan or mean (of the
            values).

    Examples:

        constructive kernels export problems --dtype bfloat16

        constructive kernels export decode --shape decode --case last
    """
    from constructive.kernels.running import export as write
    from constructive.kernels.running import file_names

    specs = {
        name: replace(spec, seed=seed, dtype=dtype, fully_masked=fully_masked)  # type: ignore[arg-type]
        for name, spec in SUITE.items()
        if shape is None or name in shape
    }
    output_folder(folder, file_names(specs))
    count = write(folder, specs, cases=case)
    say(f"{count} problems written to {folder}")


def _adapter(name: str) -> "Adapter":
    """Return the adapter of a name, or one of the user's."""
    from constructive.kernels.adapters import ADAPTERS, Adapter

    if ":" not in name:
        require_known("adapter", name, (*ADAPTERS, "MODULE:NAME"))
        return ADAPTERS[name]
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` has it, and a console script has not
    try:
        module, _, own = name.partition(":")
        made: object = getattr(import_module(module), own)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ParameterError(
            f"{name} cannot be loaded: {error}",
            witness=name,
            suggestion="MODULE:NAME, a module of this folder or one that is installed, and an "
            "Adapter in it",
        ) from error
    if not isinstance(made, Adapter):
        raise ParameterError(
            f"{name} is not an adapter",
            witness=type(made).__name__,
            suggestion="a constructive.kernels.adapters.Adapter",
        )
    made.require_known_names()
    return made


def _ran_enough(refused: Counter[tuple[str, str]], total: int) -> bool:
    """Print what was refused, and why; return whether it is no more than what ran."""
    if refused:
        say(f"{refused.total()} of {total} problems were refused:")
    shapes: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for (reason, shape), count in refused.items():
        shapes.setdefault(reason, []).append(shape)
        counts[reason] += count
    for reason, count in counts.most_common():
        say(f"{count} x {reason}: {'; '.join(dict.fromkeys(shapes[reason]))}")
    if 2 * refused.total() <= total:
        return True
    say(
        "More was refused than ran, so the status is 1. The adapter's `can` says what its kernel "
        "has, and --shape chooses what runs."
    )
    return False


def _deviations(runs: "list[Run]") -> None:
    """Print what is wrong, each sentence once, and one whole report."""
    found = Counter(f"{run.shape}: {run.summary}" for run in runs)
    for sentence, count in found.most_common(_MOST_SENTENCES):
        say(f"{count} x {sentence}")
    if len(found) > _MOST_SENTENCES:
        say(f"and {len(found) - _MOST_SENTENCES} more sentences")
    for run in runs:
        if run.report is not None:
            chosen = f"--shape {quote(run.shape)} --case {quote(run.problem.case)}"
            say(f"\n{chosen}\n{run.report}")
            for line in run.report.model_lines:
                say(f"\n{line}")
            break
