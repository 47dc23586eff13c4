"""Commands that make things: generate, build, predict, demo."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.table import Table

import constructive
from constructive.cli.common import Force, Say, app, one_output, progress_bar, several_outputs
from constructive.constructions.registry import CONSTRUCTIONS
from constructive.support.errors import ParameterError
from constructive.support.files import replacing

if TYPE_CHECKING:
    Construction = str
else:
    Construction = StrEnum("Construction", {name: name for name in ("auto", *CONSTRUCTIONS)})
"""The values of --construction."""
_AUTO = Construction("auto")
FewestOr = Annotated[
    int | None,
    typer.Option("--heads", "-H", help="Number H of heads; by default the fewest, with some room."),
]
ValueDim = Annotated[
    int | None,
    typer.Option(help="Value dimension d_v; by default d_out, and fewer examples fit below."),
]


class Kind(StrEnum):
    """The generators by their names on the command line."""

    uniform = "uniform"
    shared = "shared"
    gaussian = "gaussian"
    bag = "bag"
    moment_curve = "moment-curve"
    integers = "integers"


_GENERATORS = {
    Kind.uniform: "uniform",
    Kind.shared: "shared_context",
    Kind.gaussian: "gaussian",
    Kind.bag: "bag_of_tokens",
    Kind.moment_curve: "moment_curve",
    Kind.integers: "integers",
}


@app.command()
def build(
    data: Annotated[Path, typer.Argument(help=".npz file with contexts, queries and targets.")],
    heads: FewestOr = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the weights go.")] = Path(
        "memorizer.safetensors"
    ),
    head_dim: Annotated[
        int | None,
        typer.Option(
            help="Head dimension d_h; by default n or n + 1 for saturated and schur, 1 else."
        ),
    ] = None,
    value_dim: ValueDim = None,
    construction: Annotated[
        Construction, typer.Option(help="Which one; `constructive explain` compares them.")
    ] = _AUTO,
    shared_keys: Annotated[
        bool, typer.Option("--shared-keys", help="One key direction for all heads.")
    ] = False,
    precision: Annotated[
        str, typer.Option(help="Bits of the readout, or 'auto': float64 where that suffices.")
    ] = "53",
    tolerance: Annotated[
        float, typer.Option(help="Largest error handed out, relative to the largest target.")
    ] = 1e-6,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Folder which keeps finished pairs of heads, so that the same command goes on "
            "where it was ended (paired heads only)."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Build weights which memorize a data set, and save them.

    Examples:

        constructive build data.npz

        constructive build data.npz --heads 60 --construction rank_one -o small.safetensors

        constructive build data.npz --construction paired --checkpoint finished-pairs
    """
    output, say = one_output(output, inputs={"DATA": data}, force=force)
    dataset = constructive.Dataset.load(data)
    with progress_bar() as progress:
        memorizer = constructive.build_memorizer(
            dataset,
            num_heads=heads,
            head_dim=head_dim,
            value_dim=value_dim,
            construction=str(construction),
            shared_keys=shared_keys,
            tolerance=tolerance,
            precision="auto" if precision == "auto" else _bits(precision),
            seed=seed,
            checkpoint=checkpoint,
            progress=progress,
        )
    memorizer.save(output)
    say(f"{memorizer}\n\nwritten to {output}")


@app.command()
def explain(
    data: Annotated[Path, typer.Argument(help=".npz file with contexts, queries and targets.")],
    heads: FewestOr = None,
    head_dim: Annotated[int | None, typer.Option(help="Head dimension d_h.")] = None,
    value_dim: ValueDim = None,
    construction: Annotated[Construction, typer.Option(help="As for `build`.")] = _AUTO,
) -> None:
    """Say which construction `build` would use, and what each would hold and cost.

    Example:

        constructive explain data.npz --heads 1000
    """
    explanation = constructive.explain(
        constructive.Dataset.load(data),
        num_heads=heads,
        head_dim=head_dim,
        value_dim=value_dim,
        construction=str(construction),
    )
    typer.echo(str(explanation))
    _ = explanation.plan  # raises what `build` would raise


def _bits(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ParameterError(
            f"--precision={text!r} is not a number of bits",
            witness=text,
            suggestion="--precision=auto, or a number such as 106",
        ) from error


@app.command()
def export(
    memorizer: Annotated[Path, typer.Argument(help=".safetensors file from `build`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help=".onnx file.")] = Path(
        "memorizer.onnx"
    ),
    shared: Annotated[
        bool, typer.Option("--shared", help="A model for one context of all examples.")
    ] = False,
    single: Annotated[
        bool, typer.Option("--float32", help="Round weights to float32; measure what is left.")
    ] = False,
    force: Force = False,
) -> None:
    """Write a saved memorizer as an ONNX model, with inputs contexts and queries.

    Needs the extra `onnx`.

    Example:

        constructive export memorizer.safetensors -o memorizer.onnx
    """
    output, say = one_output(output, inputs={"MEMORIZER": memorizer}, force=force)
    loaded = constructive.Memorizer.load(memorizer)
    if single:
        loaded = loaded.astype(np.float32)
    loaded.to_onnx(output, shared_context=shared)
    say(f"written to {output}")


@app.command()
def predict(
    memorizer: Annotated[Path, typer.Argument(help=".safetensors file from `build`.")],
    data: Annotated[Path, typer.Argument(help=".npz file with contexts, queries and targets.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help=".npy file for the predictions.")
    ] = None,
    force: Force = False,
) -> None:
    """Run a saved memorizer on a data set, and compare with its targets.

    Examples:

        constructive predict memorizer.safetensors data.npz

        constructive predict memorizer.safetensors data.npz -o predictions.npy
    """
    inputs = {"MEMORIZER": memorizer, "DATA": data}
    output, say = one_output(output, inputs=inputs, force=force)
    loaded, dataset = constructive.Memorizer.load(memorizer), constructive.Dataset.load(data)
    error = loaded.max_error(dataset)
    if output is not None:
        predictions = loaded.predict(dataset.contexts, dataset.queries)
        with replacing(output) as file:
            np.save(file, predictions)
        say(f"written to {output}")
    say(f"{dataset.num_examples} examples, max error {error:.1e}")


@app.command()
def generate(
    kind: Annotated[Kind, typer.Argument(help="The distribution of tokens and queries.")],
    examples: Annotated[int, typer.Option("--examples", "-T", min=1, help="Number T.")],
    context_size: Annotated[int, typer.Option("--context-size", "-n", min=1, help="Tokens n.")],
    width: Annotated[int, typer.Option("--width", "-d", min=1, help="Entries d of a token.")],
    target_dim: Annotated[
        int | None, typer.Option(min=1, help="Entries d_out of a target.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed.")] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help=".npz file.")] = Path("data.npz"),
    force: Force = False,
) -> None:
    """Make a data set to try things on.

    Example:

        constructive generate uniform --examples 1861 --context-size 32 --width 64 -o data.npz
    """
    output, say = one_output(output, inputs={}, force=force)
    dataset = getattr(constructive.generators, _GENERATORS[kind])(
        num_examples=examples,
        context_size=context_size,
        width=width,
        target_dim=target_dim,
        seed=seed,
    )
    dataset.save(output)
    say(f"{dataset}\nwritten to {output}")


@app.command()
def demo(
    picture: Annotated[
        Path, typer.Option(help="PNG file which shows the saturated heads; others go beside it.")
    ] = Path("digits-saturation.png"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the embedding and of the weights.")] = 0,
    force: Force = False,
) -> None:
    """Memorize 1,797 images of handwritten digits, with true, random and real-valued targets.

    Needs the extra `demo` (scikit-learn and matplotlib); nothing is downloaded.

    Example:

        constructive demo --picture digits.png
    """
    from constructive.cli import demo as digits_demo
    from constructive.data import real
    from constructive.figures import saturation

    data, weights, proof = (
        picture.parent / name for name in ("digits.npz", "digits.safetensors", "digits.json")
    )
    beside = {path.name: path for path in (data, weights, proof)}
    say = several_outputs({"--picture": picture, **beside}, inputs={}, force=force)
    digits = digits_demo.load_digits(seed=seed)
    count, size, width = digits.contexts.shape
    say(
        f"{count} images of 8 x 8 pixels, as contexts of n = {size} patches in d = {width}.\n"
        f"Assumption 2 (contexts of rank n) fails for {digits.dependent_without_positions} of "
        f"{count} before the positional encoding\n(a patch has {real.PATCH**2} pixels, and "
        f"{digits.equal_patches} images have two equal patches), and for none after it.\n"
    )
    table = Table(box=None, pad_edge=False)
    for heading in (
        "targets", "H", "bound", "parameters", "build", "max error", "reproduced", "saturated",
    ):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "targets" else "right")
    first = last = None
    with progress_bar() as progress:
        for outcome in digits_demo.run(digits, seed=seed, progress=progress):
            first, last = first or outcome, outcome
            record, layer = outcome.memorizer.built, outcome.memorizer.layer
            table.add_row(
                outcome.task,
                str(layer.num_heads),
                str(record.capacity),
                f"{layer.num_parameters:,}",
                f"{outcome.seconds:.1f} s",
                f"{record.max_error:.0e}",
                f"{outcome.reproduced}/{count}",
                f"{np.mean([h.saturated_fraction for h in record.heads if h.sharpness]):.1%}",
            )
    say(table)
    if first is not None:
        title = f"{count} digits, {first.memorizer.layer.num_heads} heads: who saturates on what"
        saturation.draw_heads(first.memorizer, first.dataset, picture, title=title)
        say(
            "\nNo weight was trained. 'saturated' is the share of the examples off its group on "
            f"which a head\ngives all but 1e-6 of its attention to one token. Drawn in {picture}.\n"
        )
    if last is not None:
        _prove_and_check(last.memorizer, last.dataset, data, weights, proof, say)


def _prove_and_check(
    memorizer: "constructive.Memorizer",
    dataset: "constructive.Dataset",
    data: Path,
    weights: Path,
    proof: Path,
    say: Say,
) -> None:
    """Write data, weights and certificate, and let the checker read them."""
    with progress_bar() as progress:
        certificate = constructive.certify(memorizer, dataset, progress=progress)
    dataset.save(data)
    memorizer.save(weights)
    certificate.save(proof)
    checked = constructive.check(proof, weights, data)
    say(f"{certificate}\n\n$ constructive check {proof} {weights} {data}")
    say(checked.report.rstrip())
    if not (certificate.proved and checked.proved):
        raise typer.Exit(1)
