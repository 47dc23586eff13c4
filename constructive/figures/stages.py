"""Images of digits and windows of text at each stage of a network that was not trained.

A context are the tokens of an image (16 patches) or of a window of text (16 bytes), embedded in
d = 64; its query is a class token for images, the same one for all, and the last byte for text.
Stages are: embedded; with random positions, as learned ones are at first, or sinusoidal ones; and
after one attention layer with random weights (`data.real.random_attention_layer`), where queries
have seen their contexts.

Embeddings and positions are multiples of 2^-16, so that embedding rounds nothing: the tokens of
patches with 4 pixels lie in 4 dimensions exactly. (With longer weights rounding would make nearly
all of them independent, by a hair.)
"""

from dataclasses import dataclass

import numpy as np

from constructive.data.dataset import Dataset
from constructive.data.samples import (
    digit_images,
    random_attention_layer,
    sinusoidal_positions,
    text_windows,
)
from constructive.support.arrays import Array

WIDTH, HEADS = 64, 4
WINDOWS, WINDOW = 1797, 16


@dataclass(frozen=True, eq=False)
class Stage:
    """Data at one stage: contexts (T, n, d), queries (T, d), and targets of no importance."""

    data: str
    stage: str
    dataset: Dataset


def digits() -> list[Stage]:
    """Return the stages of 1,797 images. Raises MissingExtraError without scikit-learn."""
    images = digit_images()
    rng = np.random.default_rng(0)
    embedded = images.patches @ _short_normal(rng, images.patches.shape[2])
    class_token = np.broadcast_to(_short_normal(rng, 1)[0], (len(embedded), WIDTH))
    return _stages("digits", embedded, class_token, rng)


def text() -> list[Stage]:
    """Return the stages of as many windows of a text. MissingExtraError without scikit-learn."""
    windows = text_windows(WINDOWS, WINDOW)
    rng = np.random.default_rng(0)
    embedded = _short_normal(rng, 256)[windows]
    return _stages("text", embedded, None, rng)


def _short_normal(rng: np.random.Generator, count: int) -> Array:
    return _short(rng.standard_normal((count, WIDTH)))


def _short(values: Array) -> Array:
    rounded: Array = np.round(values * 2.0**16) * 2.0**-16
    return rounded


def _stages(
    data: str, embedded: Array, class_token: Array | None, rng: np.random.Generator
) -> list[Stage]:
    """Return all stages; without a class token the last token of a context is its query."""
    size = embedded.shape[1]
    positions = {
        "embedded": np.zeros((size, WIDTH)),
        "random positions": _short_normal(rng, size),
        "sinusoidal positions": _short(sinusoidal_positions(size, WIDTH)),
    }
    stages = []
    for name, encoding in positions.items():
        tokens = embedded + encoding
        queries = tokens[:, -1] if class_token is None else class_token
        stages.append(_stage(data, name, tokens, queries))
        if name == "random positions":
            # The class token attends, too, and is then the query.
            both = tokens if class_token is None else np.concatenate(
                [tokens, queries[:, np.newaxis]], axis=1)  # fmt: skip
            mixed = random_attention_layer(both, num_heads=HEADS, seed=1)
            after = _stage(data, "after attention", mixed[:, :size], mixed[:, -1])
    return [*stages, after]


def _stage(data: str, name: str, tokens: Array, queries: Array) -> Stage:
    return Stage(data, name, Dataset(tokens, queries, np.zeros(len(queries))))
