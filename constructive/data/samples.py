"""Sample data: images of digits, windows of a text, a random layer, lines of bytes."""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from constructive.support.arrays import Array, Integers
from constructive.support.errors import DataError, require


def sinusoidal_positions(size: int, width: int) -> Array:
    """Return the positional encoding of Vaswani et al. (2017), section 3.5: (n, d)."""
    angles = np.arange(size)[:, np.newaxis] / 10000.0 ** (np.arange(0, width, 2) / width)
    interleaved: Array = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(size, -1)
    return interleaved[:, :width]


# Images and text come with scikit-learn (`pip install ".[demo]"`); nothing is downloaded.

PATCH = 2  # Pixels along the side of a patch


@dataclass(frozen=True, eq=False)
class DigitImages:
    """1,797 images of handwritten digits, 8 x 8 pixels from 0 to 1."""

    patches: Array  # (T, 16, 4), the 2 x 2 patches row by row
    pixels: Array  # (T, 64), row by row
    labels: Integers  # (T,), 0 to 9


def digit_images() -> DigitImages:
    """Return the images that scikit-learn bundles."""
    datasets = require("sklearn.datasets", extra="demo", purpose="the images of digits")
    bundled = datasets.load_digits()
    images = bundled.images / 16.0
    count, side, _ = images.shape
    grid = side // PATCH
    patches = images.reshape(count, grid, PATCH, grid, PATCH).swapaxes(2, 3)
    return DigitImages(
        patches=patches.reshape(count, grid * grid, PATCH * PATCH),
        pixels=images.reshape(count, -1),
        labels=bundled.target.astype(np.int64),
    )


def english_text() -> str:
    """Return an English text: scikit-learn's descriptions of its datasets."""
    datasets = require("sklearn.datasets", extra="demo", purpose="the text")
    loaders = (datasets.load_iris, datasets.load_wine, datasets.load_breast_cancer,
               datasets.load_digits, datasets.load_diabetes)  # fmt: skip
    return "\n".join(load().DESCR for load in loaders)


def text_windows(count: int, size: int) -> Integers:
    """Return bytes of `english_text` in windows: (count, size), different, at even distances."""
    letters = np.frombuffer(english_text().encode(), dtype=np.uint8)
    every = np.lib.stride_tricks.sliding_window_view(letters, size)
    first = np.sort(np.unique(every, axis=0, return_index=True)[1])  # without repeated windows
    if count > len(first):
        raise DataError(
            f"the text has {len(first)} different windows of {size} bytes, not {count}",
            witness=len(first),
            suggestion="fewer windows, or another size",
        )
    chosen = first[np.linspace(0, len(first) - 1, count).astype(np.int64)]
    return every[chosen].astype(np.int64)


def random_attention_layer(tokens: Array, *, num_heads: int, seed: int) -> Array:
    """Apply a self-attention layer with random weights and a skip connection: (T, n, d)."""
    width = tokens.shape[-1]
    rng = np.random.default_rng(seed)
    inner = width // num_heads
    query, key, value = rng.standard_normal((3, num_heads, 1, width, inner)) / np.sqrt(width)
    logits = (tokens @ query) @ (tokens @ key).swapaxes(-1, -2) / np.sqrt(inner)
    mixed = (softmax(logits, axis=-1) @ (tokens @ value)).transpose(1, 2, 0, 3)
    output = rng.standard_normal((num_heads * inner, width)) / np.sqrt(width)
    result: Array = tokens + mixed.reshape(*tokens.shape[:2], -1) @ output
    return result
