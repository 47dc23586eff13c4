"""The command demo: handwritten digits, memorized, drawn, proved and checked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import constructive
from constructive.cli.common import Force, Quiet, Seed, app, progress_bar
from constructive.cli.outputs import Say, require_no_dash, several_outputs
from constructive.support.tables import new_table


@app.command()
def demo(
    folder: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for all files; it may be a new one.")
    ] = Path("constructive-demo"),
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Memorize 1,797 images of handwritten digits, with true, random and real-valued targets.

    Writes a picture of the saturated heads, and data, weights and certificate of the last task,
    18 MB in all. Needs the extra `demo` (scikit-learn and matplotlib); nothing is downloaded.

    Examples:

        constructive demo

        constructive demo -o digits
    """
    from constructive.cli import demo as digits_demo
    from constructive.data import real
    from constructive.figures import drawing, saturation

    require_no_dash("--output", folder)
    drawing.require_matplotlib()
    digits = digits_demo.load_digits(seed=seed)  # before a folder is made, for it may be missing
    folder.mkdir(parents=True, exist_ok=True)
    names = "digits-saturation.png", "digits.npz", "digits.safetensors", "digits.json"
    written = [folder / name for name in names]
    say = several_outputs(
        {path.name: path for path in written}, inputs={}, force=force, quiet=quiet
    )
    count, size, width = digits.contexts.shape
    say(
        f"{count} images of 8 x 8 pixels, as contexts of n = {size} patches in d = {width}.\n"
        f"Assumption 2 (contexts of rank n) fails for {digits.dependent_without_positions} of "
        f"{count} before the positional encoding\n(a patch has {real.PATCH**2} pixels, and "
        f"{digits.equal_patches} images have two equal patches), and for none after it.\n"
    )
    table = new_table(
        "targets", "H", "bound", "parameters", "build", "max error", "reproduced", "saturated",
        left=("targets",),
    )  # fmt: skip
    first = last = None
    with progress_bar(quiet=quiet):
        for outcome in digits_demo.run(digits, seed=seed):
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
        picture = written[0]
        saturation.draw_heads(first.memorizer, first.dataset, picture, title=title)
        say(
            "\nNo weight was trained. 'saturated' is the share of the examples off its group on "
            f"which a head\ngives all but 1e-6 of its attention to one token. Drawn in {picture}.\n"
        )
    if last is not None:
        _prove_and_check(last.memorizer, last.dataset, written, say, quiet=quiet)


def _prove_and_check(
    memorizer: "constructive.Memorizer",
    dataset: "constructive.Dataset",
    written: Sequence[Path],
    say: Say,
    *,
    quiet: bool,
) -> None:
    """Write data, weights and certificate beside the picture, and let the checker read them."""
    _, data, weights, proof = written
    with progress_bar(quiet=quiet):
        certificate = constructive.certify(memorizer, dataset)
    dataset.save(data)
    memorizer.save(weights)
    certificate.save(proof)
    with progress_bar(quiet=quiet):
        checked = constructive.check(proof, weights, data)
    size = sum(path.stat().st_size for path in written) / 1e6
    say(f"{certificate}\n\nAll {size:.0f} MB of it are in the folder {data.parent}.\n")
    say(f"$ constructive check {proof} {weights} {data}")
    say(checked.report.rstrip())
    if not (certificate.proved and checked.proved):
        raise typer.Exit(1)
