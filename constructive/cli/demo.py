"""Commands that draw: demo, and figures of the papers.

The demo memorizes handwritten digits, draws heads, proves and checks. Each of the 1,797 images of
8 x 8 pixels that scikit-learn carries becomes a context of n = 16 tokens, its 2 x 2 patches under a
fixed random linear embedding plus a positional encoding, and a query, a fixed random embedding of
the whole image. The same images are then given three kinds of targets: their true classes, random
classes, real numbers.
"""

import time
from pathlib import Path

import numpy as np

import constructive
from constructive.cli.outputs import end, output_file, require_no_dash, say
from constructive.cli.program import app, command
from constructive.figures import NAMES as FIGURES
from constructive.support.arrays import Array, Integers
from constructive.support.errors import OutputError, ParameterError
from constructive.support.tables import new_table

IMAGES = 1797
WIDTH = 64
CLASSES = 10
FEWEST = 17  # More than the n images of the first head, so that there is one that saturates
FREE_HEADS, FREE_DIM = 8, 8  # Of heads that may depend on the targets
CLOSE = 1e-6  # A real-valued target counts as reproduced within this


@command(app, adds=("force",))
def demo(*, output: Path = Path("constructive-demo"), examples: int = IMAGES) -> None:
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
    from constructive.figures import drawing
    from constructive.figures.real_data import PATCH, digit_images

    if not FEWEST <= examples <= IMAGES:
        raise ParameterError(
            f"--examples {examples} is not a number of these images",
            witness=examples,
            suggestion=f"--examples {FEWEST} to {IMAGES}",
        )
    require_no_dash("--output", output)
    drawing.require_matplotlib()
    images = digit_images()  # before a folder is made
    names = "digits-saturation.png", "digits.npz", "digits.safetensors", "digits.json"
    picture, data, weights, proof = _files(output, names)
    patches, labels = images.patches[:examples], images.labels[:examples]
    contexts, queries, dependent = _embedded(patches, images.pixels[:examples])
    equal = sum(len(np.unique(patch, axis=0)) < len(patch) for patch in patches)
    size, width = contexts.shape[1:]
    say(
        f"{examples} images of 8 x 8 pixels, as contexts of n = {size} patches in d = {width}.\n"
        f"Assumption 2 (contexts of rank n) fails for {dependent} of {examples} before the "
        f"positional encoding\n(a patch has {PATCH**2} pixels, and {equal} images have two equal "
        "patches), and for none after it.\n"
    )
    table = new_table(
        "targets", "H", "bound", "parameters", "build", "max error", "reproduced", "saturated",
        left=("targets",),
    )  # fmt: skip
    built = []
    for task, targets in _tasks(labels).items():
        dataset = constructive.Dataset(contexts, queries, targets)
        start = time.perf_counter()
        memorizer = constructive.build_memorizer(
            dataset,
            num_heads=constructive.heads_needed(examples, context_size=size, head_dim=size),
        )
        seconds = time.perf_counter() - start
        record, layer = memorizer.built, memorizer.layer
        table.add_row(
            task,
            str(layer.num_heads),
            str(record.capacity),
            f"{layer.num_parameters:,}",
            f"{seconds:.1f} s",
            f"{record.max_error:.0e}",
            f"{_reproduced(memorizer, dataset)}/{examples}",
            f"{np.mean([h.saturated_fraction for h in record.heads if h.sharpness]):.1%}",
        )
        built.append((memorizer, dataset))
    say(table)
    first, (memorizer, dataset) = built[0], built[-1]
    title = f"{examples} digits, {memorizer.layer.num_heads} heads: who saturates on what"
    constructive.plot_heads(*first, title=title).save(picture)
    say(
        "\nNo weight was trained. 'saturated' is the share of the examples off its group on "
        f"which a head\ngives all but 1e-6 of its attention to one token. Drawn in {picture}.\n"
    )
    free = constructive.build_memorizer(
        dataset, num_heads=FREE_HEADS, head_dim=FREE_DIM, construction="tangent"
    )
    proved = constructive.certify(free, dataset)
    say(
        f"Heads that may depend on the targets need fewer weights: {FREE_HEADS} heads with d_h = "
        f"{FREE_DIM}, {free.layer.num_parameters:,} parameters, return the same real numbers.\n\n"
        f"{proved}\n"
    )
    certificate = constructive.certify(memorizer, dataset)
    dataset.save(data)
    memorizer.save(weights)
    certificate.save(proof)
    checked = constructive.check(proof, weights, data)
    written = sum(path.stat().st_size for path in (picture, data, weights, proof)) / 1e6
    say(f"{certificate}\n\nAll {written:.2g} MB of it are in the folder {output}.\n")
    say(f"$ constructive check {proof} {weights} {data}\n{checked.report.rstrip()}")
    end(proved=certificate.proved and checked.proved and proved.proved)


def _files(folder: Path, names: tuple[str, ...]) -> list[Path]:
    """Make the folder, and return the paths of these files in it."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(
            f"cannot write {folder}: it is not a folder",
            witness=str(folder),
            suggestion="the path of a folder, for all files",
        )
    folder.mkdir(parents=True, exist_ok=True)
    return [output_file(name, folder / name) for name in names]


def _embedded(patches: Array, pixels: Array) -> tuple[Array, Array, int]:
    """Return images as attention sees them.

    That is contexts (T, 16, 64), queries (T, 64), and how many contexts lack rank n before the
    positional encoding.
    """
    from constructive.theory.kruskal import dependency

    rng = np.random.default_rng(0)
    embedding = rng.standard_normal((patches.shape[2], WIDTH))
    positions = rng.standard_normal((patches.shape[1], WIDTH))
    whole_image = rng.standard_normal((pixels.shape[1], WIDTH)) / np.sqrt(pixels.shape[1])
    embedded = patches @ embedding
    dependent = sum(dependency(context)[0] < len(context) for context in embedded)
    return embedded + positions, pixels @ whole_image, dependent


def _tasks(labels: Integers) -> dict[str, Array]:
    """Return the targets of each task."""
    rng, one_hot = np.random.default_rng(0), np.eye(CLASSES)
    return {
        "true classes": one_hot[labels],
        "random classes": one_hot[rng.integers(CLASSES, size=len(labels))],
        "real numbers": rng.random(len(labels)),
    }


def _reproduced(memorizer: "constructive.Memorizer", dataset: "constructive.Dataset") -> int:
    """Return how many labels are right, or how many real numbers are close."""
    outputs, targets = memorizer.predict(dataset.contexts, dataset.queries), dataset.targets
    if outputs.ndim > 1:
        return int((outputs.argmax(axis=1) == targets.argmax(axis=1)).sum())
    return int((np.abs(outputs - targets) <= CLOSE).sum())


@command(app, adds=("force", "jobs"), choices={"only": FIGURES})
def figures(*, output: Path = Path(), only: list[str] | None = None, quick: bool = False) -> None:
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
    from constructive.figures import prepare

    require_no_dash("--output", output)
    prepared = prepare(output, only or None, quick=quick)
    for _, path in prepared:
        output_file(path.name, path)
    for figure, path in prepared:
        start = time.perf_counter()
        figure.draw(path)
        say(f"{time.perf_counter() - start:7.1f} s  {figure.title}\n           {path}")
        if path.suffix == ".txt":
            say("\n" + path.read_text())
