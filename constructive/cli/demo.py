"""The demo: memorize all 1,797 handwritten digits that scikit-learn carries, by construction.

Each 8 x 8 image becomes a context of n = 16 tokens, its 2 x 2 patches under a fixed random linear
embedding plus a positional encoding, and a query, a fixed random embedding of the whole image. The
same images are then given three kinds of targets: their true classes, random classes, real
numbers.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from constructive.constructions.build import build_memorizer
from constructive.data.dataset import Dataset
from constructive.data.real import digit_images
from constructive.layers.memorizer import Memorizer
from constructive.support.arrays import Array, Booleans, Integers
from constructive.theory.assumptions.numerical import dependency
from constructive.theory.bounds import heads_needed

WIDTH = 64
CLASSES = 10
CLOSE = 1e-6
"""A real-valued target counts as reproduced within this."""


@dataclass(frozen=True, eq=False)
class Digits:
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
class Outcome:
    """One of the three tasks: what was built, in how many seconds, and what it reproduces."""

    task: str
    dataset: Dataset
    memorizer: Memorizer
    seconds: float
    reproduced: int


def load_digits(*, seed: int = 0) -> Digits:
    """Embed the images that scikit-learn bundles (no download).

    Raises MissingExtraError without scikit-learn.

    >>> digits = load_digits()
    >>> digits.contexts.shape, digits.dependent_without_positions
    ((1797, 16, 64), 1797)
    """
    images = digit_images()
    _, size, pixels = images.patches.shape
    rng = np.random.default_rng(seed)
    embedding = rng.standard_normal((pixels, WIDTH))
    positions = rng.standard_normal((size, WIDTH))
    all_pixels = images.pixels.shape[1]
    whole_image = rng.standard_normal((all_pixels, WIDTH)) / np.sqrt(all_pixels)
    embedded = images.patches @ embedding
    return Digits(
        contexts=embedded + positions,
        queries=images.pixels @ whole_image,
        labels=images.labels,
        dependent_without_positions=sum(dependency(c)[0] < len(c) for c in embedded),
        equal_patches=sum(len(np.unique(p, axis=0)) < len(p) for p in images.patches),
    )


def run(digits: Digits, *, seed: int = 0) -> Iterator[Outcome]:
    """Build a memorizer for each task, with the fewest heads that Theorem 1 asks for."""
    rng = np.random.default_rng(seed)
    count, size = digits.contexts.shape[:2]
    num_heads = heads_needed(count, context_size=size, head_dim=size)
    random_classes = rng.integers(CLASSES, size=count)
    real_numbers = rng.random((count,))
    one_hot: Array = np.eye(CLASSES)
    tasks: tuple[tuple[str, Array, npt.ArrayLike], ...] = (
        ("true classes", one_hot[digits.labels], digits.labels),
        ("random classes", one_hot[random_classes], random_classes),
        ("real numbers", real_numbers, real_numbers),
    )
    for task, targets, wanted in tasks:
        dataset = Dataset(digits.contexts, digits.queries, targets)
        start = time.perf_counter()
        memorizer = build_memorizer(dataset, num_heads=num_heads, seed=seed)
        seconds = time.perf_counter() - start
        outputs = memorizer.predict(dataset.contexts, dataset.queries)
        right = outputs.argmax(axis=1) == wanted if outputs.ndim == 2 else _close(outputs, wanted)
        yield Outcome(task, dataset, memorizer, seconds, int(right.sum()))


def _close(outputs: Array, wanted: npt.ArrayLike) -> Booleans:
    close: Booleans = np.abs(outputs - np.asarray(wanted)) <= CLOSE
    return close
