"""Commands about sequences of a text: build and ask."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

import constructive
from constructive.cli.outputs import several_outputs
from constructive.cli.program import app, command, end, progress_bar
from constructive.sequences import NAMES
from constructive.support.errors import DataError
from constructive.support.files import read_file
from constructive.support.progress import report
from constructive.support.tables import new_table

if TYPE_CHECKING:
    from constructive.data.samples import TextExamples
    from constructive.sequences.build import GrowthPoint

sequence = typer.Typer(
    no_args_is_help=True, help="Memorize a text with about sqrt(N) parameters, exactly."
)
app.add_typer(sequence, name="sequence")


@command(
    sequence,
    choices={"question": ("next-byte", "line"), "construction": NAMES},
)
def build(
    corpus: Path,
    *,
    question: str = "next-byte",
    window: int | None = None,
    limit: int | None = None,
    construction: str = "product_hash",
    seed: int = 0,
    output: Path = Path("sequences.json"),
    save_data: Path = Path("sequences-data.json"),
    force: bool = False,
    quiet: bool = False,
) -> None:
    """Memorize a text: the next byte of every window of n bytes, or which line it is.

    The first 64, 256, 1024, ... sequences are also memorized, to show how parameters grow.

    Args:
        corpus: File with the text; it is read as bytes.
        question: What is memorized: the next byte, or the number of a line.
        window: Number n of bytes in a window; by default the fewest that determine the next.
        limit: Number N of sequences to memorize; by default all.
        construction: How to build the weights.
        output: File to write the weights to.
        save_data: File to write the sequences and labels to, for `certify` and `check`.

    Examples:

        constructive sequence build README.md --limit 1024 -o readme.json

        constructive sequence build README.md --question line --construction separating_set
    """
    from constructive.sequences.build import growth

    outputs = {"--output": output, "--save-data": save_data}
    say = several_outputs(
        outputs,
        inputs={"CORPUS": corpus},
        force=force,
        quiet=quiet,
        endings=dict.fromkeys(outputs, ".json"),
    )
    with progress_bar(quiet=quiet):
        report("read the text", 0, 1)
        examples = _read(corpus, question, window)
    if limit is not None:
        examples = examples.first(limit)
    count, size, _ = examples.tokens.shape
    what = "different lines" if question == "line" else "different windows and what follows"
    say(f"{corpus}: N = {count} {what}, n = {size} bytes with their positions")
    tokens = examples.tokens.tolist()
    with progress_bar(quiet=quiet):
        points = list(growth(tokens, examples.labels, construction=construction, seed=seed))
        report("write weights and data", 0, 1)
        memorizer = points[-1].memorizer
        memorizer.save(output)
        constructive.SequenceDataset.of(tokens, examples.labels).save(save_data)
    say(_table(points))
    say(_exponents(points))
    say(f"\n{memorizer}\n\nwritten to {output}; the data are in {save_data}")
    end(proved=all(point.exact for point in points))


@command(sequence)
def ask(memorizer: Path, question: str) -> None:
    """Ask what was memorized: the number of a line, or the byte that follows.

    Text that was not memorized gets some answer as well.

    Args:
        memorizer: .json file from `sequence build`.
        question: The text of a line, or the n bytes before the one to predict.

    Example:

        constructive sequence ask lines.json "## The theorem"
    """
    from constructive.data.samples import encode

    loaded = constructive.SequenceMemorizer.load(memorizer)
    asked, size = os.fsencode(question), loaded.context_size
    if loaded.classes is not None and len(asked) != size:
        raise DataError(
            f"what follows {len(asked)} bytes was not memorized: it takes {size} bytes",
            witness=len(asked),
            suggestion=f"a part of the text that is {size} bytes long",
        )
    tokens = encode(asked, size)
    (answer,) = loaded.predict([tokens.tolist()])
    typer.echo("nothing that was memorized" if answer is None else str(answer))


def _read(corpus: Path, question: str, window: int | None) -> "TextExamples":
    from constructive.data import samples

    content = read_file(corpus)
    if question == "next-byte":
        return samples.windows(content, window)
    if window is not None:
        raise DataError(
            f"--window={window} is for the next byte, not for lines",
            witness=window,
            suggestion="--question next-byte, or no --window",
        )
    return samples.lines(content)


def _table(points: "list[GrowthPoint]") -> Table:
    from constructive.figures.sequences import multihead_parameters

    table = new_table(
        "N", "exact", "non-zero", "total", "per sequence", "of heads", "depth", "bits", "build",
        "check", left=(),
    )  # fmt: skip
    for point in points:
        memorizer, total = point.memorizer, point.num_sequences
        heads = multihead_parameters(total, memorizer.context_size)
        table.add_row(
            str(total),
            "all" if point.exact else "NO",
            f"{memorizer.nonzero_parameters:,}",
            f"{memorizer.total_parameters:,}",
            f"{memorizer.nonzero_parameters / total:.2f}",
            f"{heads:,}",
            str(memorizer.embedding.depth + memorizer.classifier.depth),
            str(memorizer.largest_bits),
            *(f"{seconds:.1f} s" for seconds in point.seconds),
        )
    return table


def _exponents(points: "list[GrowthPoint]") -> str:
    """A line about slopes; nothing where there are too few points for one."""
    keys = [point.num_keys for point in points]
    few = 2
    if len(set(keys)) <= few:
        return ""
    counts = [point.memorizer.nonzero_parameters for point in points]
    from constructive.sequences.build import exponent

    slope, after = exponent(keys, counts), exponent(keys, counts, after_log=True)
    return (
        f"\nNon-zero parameters grow as N^{slope:.3f} here, as N^{after:.3f} after dividing by "
        "sqrt(log2 N).\n'of heads': all weights of a layer of Theorem 2 for as many examples in "
        "width d = n, to be seen beside 'total'."
    )
