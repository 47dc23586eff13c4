"""Commands that make things: generate, explain, build, predict, export."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import typer

import constructive
from constructive.cli.outputs import output_file, output_folder, say
from constructive.cli.program import app, command
from constructive.constructions import NAMES as CONSTRUCTIONS
from constructive.data.labels import Label, labels_of
from constructive.data.stored import NAMES
from constructive.support.arrays import AnyArray
from constructive.support.files import replacing
from constructive.support.work import report

# The generators, by their names on the command line.
_KINDS = {
    "uniform": "uniform",
    "shared": "shared_context",
    "gaussian": "gaussian",
    "bag": "bag_of_tokens",
    "moment-curve": "moment_curve",
    "integers": "integers",
}


@command(app, adds=("force",), choices={"kind": tuple(_KINDS)})
def generate(
    kind: str,
    *,
    examples: int,
    context_size: int,
    width: int,
    target_dim: int | None = None,
    seed: int = 0,
    float32: bool = False,
    output: Path = Path("data.npz"),
) -> None:
    """Make a dataset to try things on.

    A folder is written a few examples at a time, so it may be larger than memory.

    Args:
        kind: The distribution of tokens and queries.
        target_dim: Number d_out of entries of a target; by default one number.
        float32: Round all numbers to float32.
        output: What to write: an .npz file, or a folder if it has no ending.

    Examples:

        constructive generate uniform --examples 1861 --context-size 32 --width 64 -o data.npz

        constructive generate gaussian -T 100000 -n 32 -d 64 --float32 -o large
    """
    on_disk = _names_folder(output)
    if on_disk:
        output_folder(output, NAMES)
    else:
        output = output_file("--output", output, ".npz")
    if context_size > width:
        typer.echo(
            f"warning: contexts of n={context_size} tokens in d={width} dimensions cannot have "
            f"rank {context_size}, which Theorems 1 and 2 require; try -d {context_size}",
            err=True,
        )
    dataset = getattr(constructive.generators, _KINDS[kind])(
        num_examples=examples,
        context_size=context_size,
        width=width,
        target_dim=target_dim,
        seed=seed,
        dtype=np.float32 if float32 else np.float64,
        folder=output if on_disk else None,
    )
    if not on_disk:
        dataset.save(output)
    say(f"{dataset}\nwritten to {output}")


def _names_folder(output: Path) -> bool:
    """Whether it is a name without an ending, and not that of a file, device or link."""
    if output.suffix or output == Path("-") or output.is_symlink():
        return False
    return output.is_dir() or not output.exists()


@command(app)
def explain(
    data: Path,
    *,
    heads: int | None = None,
    head_dim: int | None = None,
    value_dim: int | None = None,
) -> None:
    """Say which construction `build` would use, and what each can memorize and costs.

    Args:
        heads: Number H of heads; by default a few more than the fewest.

    Example:

        constructive explain data.npz --heads 1000
    """
    report("what contexts allow", 0, 1)
    explanation = constructive.explain(
        constructive.Dataset.open(data),
        num_heads=heads,
        head_dim=head_dim,
        value_dim=value_dim,
    )
    say(str(explanation))
    _ = explanation.plan  # raises what `build` would raise


@command(
    app,
    writes={"output": (".safetensors",)},
    adds=("jobs",),
    choices={"construction": ("auto", *CONSTRUCTIONS)},
)
def build(
    data: Path,
    *,
    heads: int | None = None,
    output: Path = Path("memorizer.safetensors"),
    head_dim: int | None = None,
    value_dim: int | None = None,
    construction: str = "auto",
    precision: str = "53",
    tolerance: float = 1e-6,
    seed: int = 0,
) -> None:
    """Build weights that memorize a dataset, and save them.

    Args:
        heads: Number H of heads; by default a few more than the fewest.
        output: File to write the weights to.
        construction: How to build the weights; `constructive explain` compares the choices.
        precision: Bits of the readout: 53 is float64; 'auto' takes more if float64 is too coarse.
        tolerance: Fail if the error exceeds this fraction of the largest target.

    Examples:

        constructive build data.npz

        constructive build data.npz --heads 60 --construction rank_one -o small.safetensors

        constructive build data.npz --construction paired
    """
    memorizer = constructive.build_memorizer(
        constructive.Dataset.open(data),
        num_heads=heads,
        head_dim=head_dim,
        value_dim=value_dim,
        construction=construction,
        tolerance=tolerance,
        precision=_bits(precision),
        seed=seed,
    )
    memorizer.save(output)
    say(f"{memorizer}\n\nwritten to {output}")


def _bits(text: str) -> Any:  # noqa: ANN401 - the library says what is wrong with other words
    try:
        return int(text)
    except ValueError:
        return text


@command(app, writes={"output": (".npy", ".csv")})
def predict(
    memorizer: Path,
    data: Path,
    *,
    output: Path | None = None,
) -> None:
    """Run a saved memorizer on a dataset, and compare with its targets.

    Args:
        output: File to write the predictions to, .npy or .csv.

    Examples:

        constructive predict memorizer.safetensors data.npz

        constructive predict memorizer.safetensors data.npz -o predictions.csv
    """
    loaded, dataset = constructive.Memorizer.load(memorizer), constructive.Dataset.open(data)
    classes, total = loaded.record.classes, dataset.num_examples
    report("evaluate", 0, 2)
    error = loaded.max_error(dataset)
    report("evaluate", 1, 2)
    outputs = np.zeros((0, 1))
    if output is not None or classes:
        outputs = np.concatenate(
            [loaded.predict(tokens, dataset.queries[rows]) for rows, tokens in dataset.blocks()]
        )
    if output is not None:
        _save_predictions(output, outputs, classes)
        say(f"written to {output}")
    say(f"{total} examples, max error {error:.1e}")
    if classes and classes == dataset.classes:
        right = int((outputs.argmax(axis=1) == dataset.targets.argmax(axis=1)).sum())
        say(f"{right} of {total} labels are those of the data")


def _save_predictions(path: Path, predictions: AnyArray, classes: tuple[Label, ...]) -> None:
    """Write it as the name says, whole or not at all.

    A table starts with a line of names. Of classes there is the label first, and then the output
    for each class; numbers have as many digits as bring every bit back.
    """
    rows = predictions.reshape(len(predictions), -1)
    table = rows.tolist()
    if classes:
        names = ["label", *classes]
        labels = labels_of(rows, classes).tolist()
        table = [[label, *row] for label, row in zip(labels, table, strict=True)]
    elif predictions.ndim == 1:
        names = ["prediction"]
    else:
        names = [f"prediction_{column}" for column in range(rows.shape[1])]
    with replacing(path) as file:
        if path.suffix.lower() == ".csv":
            text = io.StringIO(newline="")
            csv.writer(text, lineterminator="\n").writerows([names, *table])
            file.write(text.getvalue().encode())
        else:
            np.save(file, predictions)


@command(app, writes={"output": (".onnx",)})
def export(
    memorizer: Path,
    *,
    output: Path = Path("memorizer.onnx"),
    float32: bool = False,
) -> None:
    """Write a saved memorizer as an ONNX model, with inputs contexts and queries.

    Needs the extra `onnx`.

    Args:
        output: File to write the model to, .onnx.
        float32: Round the weights to float32, which makes errors larger.

    Example:

        constructive export memorizer.safetensors -o memorizer.onnx
    """
    loaded = constructive.Memorizer.load(memorizer)
    if float32:
        loaded = loaded.astype(np.float32)
    loaded.to_onnx(output)
    say(f"written to {output}")
