"""Commands about sequences of a text: build and ask."""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

import constructive
from constructive.cli.common import (
    Force,
    Quiet,
    Seed,
    WeightsFile,
    app,
    end,
    progress_bar,
)
from constructive.cli.outputs import several_outputs
from constructive.sequences.registry import CONSTRUCTIONS
from constructive.support.errors import DataError
from constructive.support.files import read_file
from constructive.support.progress import report
from constructive.support.tables import new_table

if TYPE_CHECKING:
    from constructive.data.samples import TextExamples
    from constructive.sequences.growth import GrowthPoint

sequence = typer.Typer(
    no_args_is_help=True, help="Memorize a text with about sqrt(N) parameters, exactly."
)
app.add_typer(sequence, name="sequence")


class Question(StrEnum):
    """The values of --question."""

    next_byte = "next-byte"
    line = "line"


if TYPE_CHECKING:
    Construction = str
else:
    Construction = StrEnum("Construction", {name: name for name in CONSTRUCTIONS})
"""The values of --construction."""
_DEFAULT = Construction("product_hash")


@sequence.command("build")
def build_command(
    corpus: Annotated[Path, typer.Argument(help="File with the text; it is read as bytes.")],
    question: Annotated[
        Question, typer.Option(help="What is memorized: the next byte, or the number of a line.")
    ] = Question.next_byte,
    window: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number n of bytes in a window; by default the fewest that determine the next.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Number N of sequences to memorize; by default all.")
    ] = None,
    construction: Annotated[
        Construction,
        typer.Option(
            help="How to build the weights; those named float_... can be rounded to float64 if "
            "--max-word-bits is 52."
        ),
    ] = _DEFAULT,
    max_word_bits: Annotated[
        int | None,
        typer.Option(min=1, help="Largest number of bits of a weight that stores labels."),
    ] = None,
    seed: Seed = 0,
    output: WeightsFile = Path("sequences.json"),
    data: Annotated[
        Path,
        typer.Option(
            "--save-data",
            help="File to write the sequences and labels to, for `certify` and `check`.",
        ),
    ] = Path("sequences-data.json"),
    picture: Annotated[
        Path | None,
        typer.Option(help="PNG or SVG file to draw the number of parameters against N in."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Memorize a text: the next byte of every window of n bytes, or which line it is.

    The first 64, 256, 1024, ... sequences are also memorized, to show how parameters grow.
    `--picture` needs the extra `demo` (matplotlib).

    Examples:

        constructive sequence build README.md --limit 1024 -o readme.json

        constructive sequence build README.md --question line --construction separating_set
    """
    from constructive.sequences.growth import growth

    outputs = {"--output": output, "--save-data": data, "--picture": picture}
    endings = {"--output": ".json", "--save-data": ".json"}
    say = several_outputs(
        outputs, inputs={"CORPUS": corpus}, force=force, quiet=quiet, endings=endings
    )
    if picture is not None:
        from constructive.figures import drawing

        drawing.require_picture(picture)
        drawing.require_matplotlib()
    with progress_bar(quiet=quiet):
        report("read the text", 0, 1)
        examples = _read(corpus, question, window)
    if limit is not None:
        examples = examples.first(limit)
    count, size, _ = examples.tokens.shape
    what = "different lines" if question is Question.line else "different windows and what follows"
    say(f"{corpus}: N = {count} {what}, n = {size} bytes with their positions")
    tokens = examples.tokens.tolist()
    with progress_bar(quiet=quiet):
        points = list(
            growth(
                tokens,
                examples.labels,
                construction=str(construction),
                max_word_bits=max_word_bits,
                seed=seed,
            )
        )
        report("write weights and data", 0, 1)
        memorizer = points[-1].memorizer
        memorizer.save(output)
        constructive.SequenceDataset.of(tokens, examples.labels).save(data)
    say(_table(points))
    say(_exponents(points))
    if picture is not None:
        _draw(points, picture)
        say(f"drawn in {picture}")
    say(f"\n{memorizer}\n\nwritten to {output}; the data are in {data}")
    end(proved=all(point.exact for point in points))


@sequence.command("ask")
def ask_command(
    memorizer: Annotated[Path, typer.Argument(help=".json file from `sequence build`.")],
    question: Annotated[
        str, typer.Argument(help="The text of a line, or the n bytes before the one to predict.")
    ],
) -> None:
    """Ask what was memorized: the number of a line, or the byte that follows.

    Text that was not memorized gets some answer as well.

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


def _read(corpus: Path, question: Question, window: int | None) -> "TextExamples":
    from constructive.data import samples

    content = read_file(corpus)
    if question is Question.next_byte:
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
    from constructive.sequences.growth import exponent

    slope, after = exponent(keys, counts), exponent(keys, counts, after_log=True)
    return (
        f"\nNon-zero parameters grow as N^{slope:.3f} here, as N^{after:.3f} after dividing by "
        "sqrt(log2 N).\n'of heads': all weights of a layer of Theorem 2 for as many examples in "
        "width d = n, to be seen beside 'total'."
    )


def _draw(points: "list[GrowthPoint]", picture: Path) -> None:
    from constructive.figures import drawing, sequences

    figure = drawing.new_figure(sequences.HEIGHT)
    label = points[-1].memorizer.record.construction.replace("_", " ")
    sequences.draw_points(figure, {label: points})
    drawing.save(figure, picture)
