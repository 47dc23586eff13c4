"""Commands that draw: demo, and figures of the papers.

The demo memorizes handwritten digits, draws heads, proves and checks. Each of the 1,797 images of
8 x 8 pixels that scikit-learn carries becomes a context of n = 16 tokens, its 2 x 2 patches under a
fixed random linear embedding plus a positional encoding, and a query, a fixed random embedding of
the whole image. The same images are then given three kinds of targets: their true classes, random
classes, real numbers.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import constructive
from constructive.cli.outputs import Say, require_no_dash, several_outputs
from constructive.cli.program import app, command, end, progress_bar, threads
from constructive.figures.gallery import NAMES as FIGURES
from constructive.support.arrays import Array, Integers
from constructive.support.errors import OutputError, ParameterError
from constructive.support.tables import new_table

IMAGES = 1797
WIDTH = 64
CLASSES = 10
FEWEST = 17  # More than the n images of the first head, so that there is one that saturates
CLOSE = 1e-6  # A real-valued target counts as reproduced within this


@dataclass(frozen=True, eq=False)
class EmbeddedDigits:
    """The images as attention sees them.

    contexts: (T, 16, 64);  queries: (T, 64);  labels: (T,) classes 0 to 9
    dependent_without_positions: how many contexts lack rank n before the positional encoding
    equal_patches: how many images have two equal patches
    """

    contexts: Array
    queries: Array
    labels: Integers
    dependent_without_positions: int
    equal_patches: int


@dataclass(frozen=True, eq=False)
class TaskOutcome:
    """One of the three tasks: what was built, in how many seconds, and what it reproduces."""

    task: str
    dataset: "constructive.Dataset"
    memorizer: "constructive.Memorizer"
    seconds: float
    reproduced: int


def load_digits(count: int = IMAGES) -> EmbeddedDigits:
    """Embed the first images that scikit-learn bundles. Raises MissingExtraError without it.

    >>> digits = load_digits()
    >>> digits.contexts.shape, digits.dependent_without_positions
    ((1797, 16, 64), 1797)
    """
    from constructive.data.samples import digit_images
    from constructive.theory.kruskal import dependency

    images = digit_images()
    _, size, pixels = images.patches.shape
    rng = np.random.default_rng(0)
    embedding = rng.standard_normal((pixels, WIDTH))
    positions = rng.standard_normal((size, WIDTH))
    all_pixels = images.pixels.shape[1]
    whole_image = rng.standard_normal((all_pixels, WIDTH)) / np.sqrt(all_pixels)
    patches = images.patches[:count]
    embedded = patches @ embedding
    return EmbeddedDigits(
        contexts=embedded + positions,
        queries=images.pixels[:count] @ whole_image,
        labels=images.labels[:count],
        dependent_without_positions=sum(dependency(c)[0] < len(c) for c in embedded),
        equal_patches=sum(len(np.unique(p, axis=0)) < len(p) for p in patches),
    )


def memorized(digits: EmbeddedDigits) -> Iterator[TaskOutcome]:
    """Build a memorizer for each task, with the fewest heads that Theorem 1 needs."""
    rng = np.random.default_rng(0)
    count, size = digits.contexts.shape[:2]
    num_heads = constructive.heads_needed(count, context_size=size, head_dim=size)
    random_classes = rng.integers(CLASSES, size=count)
    real_numbers = rng.random((count,))
    one_hot: Array = np.eye(CLASSES)
    tasks: tuple[tuple[str, Array, npt.ArrayLike], ...] = (
        ("true classes", one_hot[digits.labels], digits.labels),
        ("random classes", one_hot[random_classes], random_classes),
        ("real numbers", real_numbers, real_numbers),
    )
    for task, targets, wanted in tasks:
        dataset = constructive.Dataset(digits.contexts, digits.queries, targets)
        start = time.perf_counter()
        memorizer = constructive.build_memorizer(dataset, num_heads=num_heads)
        seconds = time.perf_counter() - start
        outputs = memorizer.predict(dataset.contexts, dataset.queries)
        if outputs.ndim > 1:
            right = outputs.argmax(axis=1) == wanted
        else:
            right = np.abs(outputs - np.asarray(wanted)) <= CLOSE
        yield TaskOutcome(task, dataset, memorizer, seconds, int(right.sum()))


@command(app)
def demo(
    *,
    output: Path = Path("constructive-demo"),
    examples: int = IMAGES,
    force: bool = False,
    quiet: bool = False,
) -> None:
    """Memorize 1,797 images of handwritten digits, with true, random and real-valued targets.

    Writes a picture of the saturated heads, and data, weights and certificate of the last task,
    18 MB in all. The first 200 images take seconds, and 2 MB. Needs the extra `demo` (scikit-learn
    and matplotlib); nothing is downloaded.

    Args:
        output: Folder for all files; it may be a new one.
        examples: Number of images, the first ones; at least 17 and at most 1,797.

    Examples:

        constructive demo

        constructive demo --examples 200 -o digits
    """
    from constructive.data import samples
    from constructive.figures import drawing, saturation

    if not FEWEST <= examples <= IMAGES:
        raise ParameterError(
            f"--examples {examples} is not a number of these images",
            witness=examples,
            suggestion=f"--examples {FEWEST} to {IMAGES}",
        )
    require_no_dash("--output", output)
    drawing.require_matplotlib()
    digits = load_digits(count=examples)  # before a folder is made
    if output.exists() and not output.is_dir():
        raise OutputError(
            f"cannot write {output}: it is not a folder",
            witness=str(output),
            suggestion="the path of a folder, for all files",
        )
    output.mkdir(parents=True, exist_ok=True)
    names = "digits-saturation.png", "digits.npz", "digits.safetensors", "digits.json"
    written = [output / name for name in names]
    say = several_outputs(
        {path.name: path for path in written}, inputs={}, force=force, quiet=quiet
    )
    count, size, width = digits.contexts.shape
    say(
        f"{count} images of 8 x 8 pixels, as contexts of n = {size} patches in d = {width}.\n"
        f"Assumption 2 (contexts of rank n) fails for {digits.dependent_without_positions} of "
        f"{count} before the positional encoding\n(a patch has {samples.PATCH**2} pixels, and "
        f"{digits.equal_patches} images have two equal patches), and for none after it.\n"
    )
    table = new_table(
        "targets", "H", "bound", "parameters", "build", "max error", "reproduced", "saturated",
        left=("targets",),
    )  # fmt: skip
    first = last = None
    with progress_bar(quiet=quiet):
        for outcome in memorized(digits):
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
    say(f"{certificate}\n\nAll {size:.2g} MB of it are in the folder {data.parent}.\n")
    say(f"$ constructive check {proof} {weights} {data}")
    say(checked.report.rstrip())
    end(proved=certificate.proved and checked.proved)


@command(app, choices={"only": FIGURES})
def figures(
    *,
    output: Path = Path(),
    only: list[str] | None = None,
    quick: bool = False,
    jobs: int | None = None,
    force: bool = False,
    quiet: bool = False,
) -> None:
    """Redo the figures of the paper by construction, without training anything.

    Each file is written as soon as its figure is drawn, and stays if you interrupt the command.
    Needs the extra `demo` (scikit-learn and matplotlib); nothing is downloaded.

    Args:
        output: Folder for the SVG and text files; it may be a new one.
        only: Draw only this figure; may be repeated. By default all.
        quick: Draw smaller grids, in seconds each instead of minutes.

    Examples:

        constructive figures --quick -o quick

        constructive figures --only capacity --jobs 4 -o pictures
    """
    from constructive.figures import gallery

    names = only or None
    require_no_dash("--output", output)
    written = {path.name: path for path in gallery.prepare(output, names)}
    say = several_outputs(written, inputs={}, force=force, quiet=quiet)
    with threads(jobs), progress_bar(quiet=quiet):
        for drawn in gallery.draw(output, only=names, quick=quick):
            say(f"{drawn.seconds:7.1f} s  {drawn.title}")
            say(f"           {drawn.path}")
            if drawn.path.suffix == ".txt":
                say("\n" + drawn.path.read_text())
