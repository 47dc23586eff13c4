"""Commands that make things: build, explain, export, predict, generate."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import constructive
from constructive.cli.common import (
    ContextSize,
    Data,
    Examples,
    Force,
    Json,
    MemorizerFile,
    Pieces,
    Quiet,
    Seed,
    WeightsFile,
    Width,
    app,
    processes,
    progress_bar,
)
from constructive.cli.outputs import (
    Say,
    folder_output,
    one_output,
    print_json,
    require_predictions,
    save_predictions,
)
from constructive.constructions import NAMES as CONSTRUCTION_NAMES
from constructive.data.stored import NAMES
from constructive.support.errors import ParameterError
from constructive.support.progress import report

if TYPE_CHECKING:
    Construction = str
else:
    Construction = StrEnum("Construction", {name: name for name in ("auto", *CONSTRUCTION_NAMES)})
"""The values of --construction."""
_AUTO = Construction("auto")
FewestOr = Annotated[
    int | None,
    typer.Option("--heads", "-H", help="Number H of heads; by default a few more than the fewest."),
]
ValueDim = Annotated[
    int | None,
    typer.Option(help="Value dimension d_v; default d_out; smaller values reduce capacity."),
]
ConstructionName = Annotated[
    Construction,
    typer.Option(help="How to build the weights; `constructive explain` compares the choices."),
]
HeadDim = Annotated[
    int | None,
    typer.Option(help="Head dimension d_h; by default n for saturated heads, else 1."),
]


class Kind(StrEnum):
    """The generators, with their names on the command line."""

    uniform = "uniform"
    shared_context = "shared"
    gaussian = "gaussian"
    bag_of_tokens = "bag"
    moment_curve = "moment-curve"
    integers = "integers"


@app.command()
def build(
    data: Data,
    heads: FewestOr = None,
    output: WeightsFile = Path("memorizer.safetensors"),
    head_dim: HeadDim = None,
    value_dim: ValueDim = None,
    construction: ConstructionName = _AUTO,
    shared_keys: Annotated[
        bool,
        typer.Option("--shared-keys", help="Give the keys of all heads one common direction."),
    ] = False,
    exact_logits: Annotated[
        bool,
        typer.Option(
            "--exact-logits",
            help="Choose weights for which float32 computes attention logits without rounding; "
            "for data with few significant bits.",
        ),
    ] = False,
    precision: Annotated[
        str,
        typer.Option(
            help="Bits of the readout: 53 is float64; 'auto' takes more if float64 is too coarse."
        ),
    ] = "53",
    tolerance: Annotated[
        float, typer.Option(help="Fail if the error exceeds this fraction of the largest target.")
    ] = 1e-6,
    seed: Seed = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Folder for finished pairs of heads; the same command then resumes after an "
            "interruption (paired heads only)."
        ),
    ] = None,
    jobs: Pieces = 1,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Build weights that memorize a data set, and save them.

    Examples:

        constructive build data.npz

        constructive build data.npz --heads 60 --construction rank_one -o small.safetensors

        constructive build data.npz --construction paired --jobs 2 --checkpoint finished-pairs
    """
    inputs = {"DATA": data}
    output, say = one_output(output, ".safetensors", inputs=inputs, force=force, quiet=quiet)
    dataset = constructive.Dataset.open(data)
    with processes(jobs) as executor, progress_bar(quiet=quiet):
        memorizer = constructive.build_memorizer(
            dataset,
            num_heads=heads,
            head_dim=head_dim,
            value_dim=value_dim,
            construction=str(construction),
            shared_keys=shared_keys,
            tolerance=tolerance,
            precision="auto" if precision == "auto" else _bits(precision),
            exact_logits=exact_logits,
            seed=seed,
            executor=executor,
            checkpoint=checkpoint,
        )
    memorizer.save(output)
    say(f"{memorizer}\n\nwritten to {output}")


@app.command()
def explain(
    data: Data,
    heads: FewestOr = None,
    head_dim: HeadDim = None,
    value_dim: ValueDim = None,
    construction: ConstructionName = _AUTO,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say which construction `build` would use, and what each can memorize and costs.

    Example:

        constructive explain data.npz --heads 1000
    """
    with progress_bar(quiet=quiet):
        report("what contexts allow", 0, 1)
        explanation = constructive.explain(
            constructive.Dataset.open(data),
            num_heads=heads,
            head_dim=head_dim,
            value_dim=value_dim,
            construction=str(construction),
        )
        if as_json:
            print_json(**_described(explanation))
        else:
            typer.echo(str(explanation))
    _ = explanation.plan  # raises what `build` would raise


def _described(explanation: "constructive.Explanation") -> dict[str, Any]:
    """Return what --json prints of it."""
    from constructive.constructions.planning import CONSTRUCTIONS

    chosen = explanation.chosen
    return {
        "num_heads": explanation.num_heads,
        "asked": explanation.asked,
        "chosen": None if chosen.plan is None else chosen.construction,
        "constructions": [
            {
                "construction": option.construction,
                "theorem": CONSTRUCTIONS[option.construction].theorem,
                "capacity": option.plan and option.plan.capacity,
                "head_dim": option.plan and option.plan.head_dim,
                "operations": option.plan and option.operations,
                "memory_bytes": option.plan and option.memory,
                "refusal": option.refusal and option.refusal.problem,
            }
            for option in explanation.options
        ],
    }


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
    memorizer: MemorizerFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write the model to, .onnx.")
    ] = Path("memorizer.onnx"),
    shared: Annotated[
        bool, typer.Option("--shared", help="Give the model one context that all examples share.")
    ] = False,
    single: Annotated[
        bool,
        typer.Option("--float32", help="Round the weights to float32, which makes errors larger."),
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write a saved memorizer as an ONNX model, with inputs contexts and queries.

    Needs the extra `onnx`.

    Example:

        constructive export memorizer.safetensors -o memorizer.onnx
    """
    inputs = {"MEMORIZER": memorizer}
    output, say = one_output(output, ".onnx", inputs=inputs, force=force, quiet=quiet)
    loaded = constructive.Memorizer.load(memorizer)
    if single:
        loaded = loaded.astype(np.float32)
    loaded.to_onnx(output, shared_context=shared)
    say(f"written to {output}")


@app.command()
def predict(
    memorizer: MemorizerFile,
    data: Data,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write the predictions to, .npy or .csv."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Run a saved memorizer on a data set, and compare with its targets.

    Examples:

        constructive predict memorizer.safetensors data.npz

        constructive predict memorizer.safetensors data.npz -o predictions.csv
    """
    inputs = {"MEMORIZER": memorizer, "DATA": data}
    either = "" if output is None else output.suffix.lower()  # one of two
    output, say = one_output(output, either, inputs=inputs, force=force, quiet=quiet)
    if output is not None:
        require_predictions(output)
    loaded, dataset = constructive.Memorizer.load(memorizer), constructive.Dataset.open(data)
    classes, total = loaded.record.classes, dataset.num_examples
    with progress_bar(quiet=quiet):
        report("evaluate", 0, 2)
        error, outputs = loaded.max_error(dataset), None
        report("evaluate", 1, 2)
        if output is not None or classes:
            outputs = np.concatenate(
                [loaded.predict(tokens, dataset.queries[rows]) for rows, tokens in dataset.blocks()]
            )
    if output is not None and outputs is not None:
        save_predictions(output, outputs, classes)
        say(f"written to {output}")
    say(f"{total} examples, max error {error:.1e}")
    if outputs is not None and classes and classes == dataset.classes:
        right = int((outputs.argmax(axis=1) == dataset.targets.argmax(axis=1)).sum())
        say(f"{right} of {total} labels are those of the data")


@app.command()
def generate(
    kind: Annotated[Kind, typer.Argument(help="The distribution of tokens and queries.")],
    examples: Examples,
    context_size: ContextSize,
    width: Width,
    target_dim: Annotated[
        int | None,
        typer.Option(min=1, help="Number d_out of entries of a target; by default one number."),
    ] = None,
    seed: Seed = 0,
    single: Annotated[
        bool, typer.Option("--float32", help="Round all numbers to float32.")
    ] = False,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="What to write: an .npz file, or a folder if it has no ending."
        ),
    ] = Path("data.npz"),
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Make a data set to try things on.

    A folder is written a few examples at a time, so it may be larger than memory.

    Examples:

        constructive generate uniform --examples 1861 --context-size 32 --width 64 -o data.npz

        constructive generate gaussian -T 100000 -n 32 -d 64 --float32 -o large
    """
    on_disk = _names_folder(output)
    if on_disk:
        say: Say = folder_output(output, NAMES, force=force, quiet=quiet)
    else:
        output, say = one_output(output, ".npz", inputs={}, force=force, quiet=quiet)
    if context_size > width:
        typer.echo(
            f"warning: contexts of n={context_size} tokens in d={width} dimensions cannot have "
            f"rank {context_size}, which Theorems 1 and 2 require; try -d {context_size}",
            err=True,
        )
    dataset = getattr(constructive.generators, kind.name)(
        num_examples=examples,
        context_size=context_size,
        width=width,
        target_dim=target_dim,
        seed=seed,
        dtype=np.float32 if single else np.float64,
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
