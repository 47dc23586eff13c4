"""Commands about instances for verifiers: make a folder of them, check and score it."""

from pathlib import Path

import typer

from constructive.cli.outputs import end, output_folder, say
from constructive.cli.program import app, command
from constructive.support.errors import ParameterError, shown
from constructive.support.tables import new_table

instances = typer.Typer(
    help="Make instances for verifiers of neural networks, with proved answers, and check them.",
)
app.add_typer(instances, name="instances")


@command(instances, adds=("force",))
def make(
    *,
    output: Path,
    kind: list[str] | None = None,
    count: int = 400,
    dim: str = "2:32",
    scale: str | None = None,
    margin: str | None = None,
    option: list[str] | None = None,
    seed: int = 0,
    timeout: float = 30.0,
    vnncomp: Path | None = None,
    wheel: Path | None = None,
) -> None:
    """Write a folder of instances in the layout of VNN-COMP, with a proof of each answer.

    One or two instances are on a network. What tools see says nothing of the answers, which are in
    `expected.csv` and `proofs/`. The same seed gives the same bytes.

    Args:
        output: Folder to write the instances to.
        kind: Family: needle, corner, shadow or another; may be repeated.
        count: Number of instances, at least.
        dim: Number of inputs, or a range LEAST:MOST.
        scale: Slope of the sharpest logits, or a range; by default 16:256.
        margin: Distance of thresholds from the maximum; by default 0.05.
        option: NAME=VALUE or NAME=LEAST:MOST of another option of a family.
        timeout: Seconds for small networks; larger ones have more.
        vnncomp: Folder of a benchmark as VNN-COMP takes it, without answers, to write too.
        wheel: Wheel of this package, for the benchmark, until it is on an index.

    Examples:

        constructive instances make -o folder --kind needle --count 100 --dim 2:32 --scale 16:256

        constructive instances make -o folder --kind needle --set decoy=0
    """
    from constructive.instances.folder import save, save_benchmark
    from constructive.instances.making import KINDS
    from constructive.instances.making import make as made

    fixed = {"scale": scale, "margin": margin}
    ranges = {name: _range(f"--{name} ", text) for name, text in fixed.items() if text is not None}
    for text in option or ():
        name, value = _named(text)
        ranges[name] = _range(f"--set {name}=", value)
    found = [file for file in output.rglob("*") if file.is_file()] if output.is_dir() else []
    names = [file.relative_to(output).as_posix() for file in found]
    output_folder(output, names)
    group = made(
        count,
        kinds=tuple(kind or KINDS),
        dims=_range("--dim ", dim),
        seed=seed,
        **ranges,
    )
    words = ["instances", "make", "--count", str(count), "--dim", dim]
    words += ["--timeout", str(timeout), *(f"--kind={each}" for each in kind or ())]
    words += [f"--{name}={text}" for name, text in fixed.items() if text is not None]
    words += [f"--set={text}" for text in option or ()]
    save(output, group, timeout=timeout)
    if vnncomp is not None:
        save_benchmark(vnncomp, group, timeout=timeout, command=words, wheel=wheel)
    sat = sum(each.answer == "sat" for each in group)
    say(f"{len(group)} instances, {sat} of them sat, written to {output}")


@command(instances, adds=("as_json",))
def check(
    folder: Path,
    *,
    max_memory: float = 8.0,
    jobs: int = 1,
) -> None:
    """Check the proofs of all answers with the independent checker, in a process of its own.

    It reads the ONNX and VNN-LIB files itself, and accounts for every row and every file. Exit
    status 0 only if every answer is proved, 1 if one is not.

    Args:
        folder: Folder of instances.
        max_memory: Memory in GB that each process of the checker may use.
        jobs: Number of processes of the checker.

    Example:

        constructive instances check folder --jobs 2
    """
    from constructive.instances import folder as folders

    checked = folders.check(folder, jobs=jobs, max_memory=max_memory)
    say(str(checked))
    end(
        proved=checked.proved,
        verdict=checked.verdict.name,
        report=str(checked).splitlines(),
    )


@command(instances, adds=("as_json",))
def score(folder: Path, results: Path) -> None:
    """Compare the results of a verifier with the proved answers.

    Rows of RESULTS have the name of an instance or its .vnnlib file; then sat, unsat, unknown,
    timeout or error; then perhaps a witness ((X_0 v) ... (Y_0 v)), or the path of one. Other words
    count as unknown, and are named. Witnesses may be files NETWORK_NAME.counterexample.gz beside
    RESULTS. They are replayed in onnxruntime and in float64: in the box, with outputs that meet the
    property, as the rules of VNN-COMP 2026 ask; others do not show that sat is right.

    Exit status 1 if results are FALSE, sat and unsat confused, both in real arithmetic and in
    float32: a verifier has to be sound in one of both.

    Args:
        folder: Folder of instances.
        results: .csv file of a verifier, as in VNN-COMP.

    Example:

        constructive instances score folder results.csv
    """
    from constructive.instances import scoring
    from constructive.instances.scoring import Outcome

    found = scoring.score(folder, results)
    keys = "family", "answer"
    table = new_table(*keys, *(outcome.value for outcome in Outcome), left=keys)
    for key, counts in found.counts().items():
        table.add_row(*key, *(str(counts[outcome]) for outcome in Outcome))
    say(table)
    for row in found.false:
        say(f"FALSE: {row.expected.name}: {row.said}, but {row.reason}")
    for row in set(found.false_in_float32) - set(found.false):
        say(f"FALSE in float32: {row.expected.name}: {row.said}")
    for word, names in found.strange.items():
        what = f"the word {shown(word)} is not known" if word else "there is no result"
        say(f"unknown: {what}: {names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)}")
    missing = found.totals[Outcome.MISSING]
    if missing:
        say(f"missing: {results} has no row about {missing} of {len(found.rows)} instances")
    if found.others:
        say(f"rows about no instance of the folder: {found.others}")
    end(proved=found.sound, **found.document())


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


def _range(option: str, text: str) -> tuple[float, float]:
    """LEAST:MOST as two numbers, or one number twice."""
    first, colon, last = text.partition(":")
    try:
        return float(first), float(last if colon else first)
    except ValueError as error:
        raise ParameterError(
            f"{option}{text} is not a number or a range",
            witness=text,
            suggestion=f"{option}16 or {option}16:256",
        ) from error
