"""Sample data: positional encodings, windows of a text, images of digits, lines of bytes."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from constructive.data.dataset import Dataset
from constructive.support.arguments import require_known, require_positive, require_seed
from constructive.support.arrays import Array, Integers
from constructive.support.errors import DataError, ParameterError, require

Positions = Literal["sinusoidal", "gaussian", "signs", "none"]


def positional_encoding(kind: str, size: int, width: int, *, seed: int = 0) -> Array:
    """Return a positional encoding by its name.

    Args:
        kind: "sinusoidal" (Vaswani et al., 2017), "gaussian" (as learned ones are initialized:
            standard deviation 0.02), "signs" (random, +1 and -1), or "none" (zeros)
        size: n
        width: d
        seed: of random ones

    Raises:
        ParameterError: for another kind, a size or a width that is not a positive integer, and a
            seed that is not a non-negative integer

    Example:
        >>> positional_encoding("signs", 2, 3, seed=1)
        array([[-1.,  1.,  1.],
               [ 1., -1., -1.]])
    """
    require_positive(size=size, width=width)
    require_seed(seed)
    rng = np.random.default_rng(seed)
    require_known("positions", kind, get_args(Positions))
    if kind == "sinusoidal":
        return sinusoidal_positions(size, width)
    if kind == "gaussian":
        return 0.02 * rng.standard_normal((size, width))
    if kind == "signs":
        return rng.choice([-1.0, 1.0], (size, width))
    return np.zeros((size, width))


def sinusoidal_positions(size: int, width: int) -> Array:
    """Return the positional encoding of Vaswani et al. (2017), section 3.5: (n, d).

    Args:
        size: n
        width: d

    Raises:
        ParameterError: for a size or a width that is not a positive integer

    Example:
        >>> sinusoidal_positions(2, 4).round(3)
        array([[0.   , 1.   , 0.   , 1.   ],
               [0.841, 0.54 , 0.01 , 1.   ]])
    """
    require_positive(size=size, width=width)
    angles = np.arange(size)[:, np.newaxis] / 10000.0 ** (np.arange(0, width, 2) / width)
    interleaved: Array = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(size, -1)
    return interleaved[:, :width]


# Language as contexts: windows of tokens with fixed embeddings and positions.
#
# The query of a window is its last token, as in a language model, so that queries repeat and no
# group of them is independent; the target is the number of the token that follows.


Unit = Literal["words", "bytes"]


@dataclass(frozen=True, eq=False)
class Language:
    """Windows of a text, and what follows them.

    Attributes:
        dataset: T examples: contexts (T, n, d), last tokens as queries, and numbers of the tokens
            that follow as targets (T,)
        vocabulary: the different tokens, in order of their first appearance
        windows: the numbers of the tokens of each window (T, n)
        ambiguous: windows that more than one token follows, with these; they are left out, as no
            function fits them
    """

    dataset: Dataset
    vocabulary: tuple[str, ...]
    windows: Integers
    ambiguous: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]

    def decode(self, predictions: npt.ArrayLike) -> list[str]:
        """Return the tokens whose numbers are nearest to predictions.

        Args:
            predictions: (T,), what a memorizer puts out
        """
        last = len(self.vocabulary) - 1
        numbers = np.clip(np.rint(np.asarray(predictions, dtype=np.float64)), 0, last)
        return [self.vocabulary[int(number)] for number in numbers]


def language(
    text: str,
    *,
    context_size: int,
    width: int,
    unit: str = "words",
    positions: str = "sinusoidal",
    limit: int | None = None,
    seed: int = 0,
) -> Language:
    """Cut a text into all its windows of n tokens, and embed them.

    Embeddings are Gaussian vectors of length about sqrt(d), fixed by the seed; nothing is trained.

    Args:
        text: any text
        context_size: n, the tokens of a window
        width: d, the entries of an embedding
        unit: "words" (and signs between them, in lower case), or "bytes" of UTF-8
        positions: the encoding that is added to a window (`positional_encoding`)
        limit: how many windows are taken, from the start; by default all
        seed: of embeddings and positions

    Raises:
        ParameterError: for sizes that are not positive integers, a seed, a unit or an encoding
            that is none
        DataError: for a text of too few tokens, with how many it has as witness

    Example:
        >>> found = language("the cat sat on the mat and the cat ran", context_size=2, width=4)
        >>> found.dataset
        Dataset(T=6, n=2, d=4, d_out=1, own contexts, float64)
        >>> found.ambiguous
        ((('the', 'cat'), ('sat', 'ran')),)
        >>> found.decode(found.dataset.targets)[:3]
        ['on', 'the', 'mat']
    """
    require_positive(context_size=context_size, width=width)
    require_seed(seed)
    if limit is not None:
        require_positive(limit=limit)
    tokens = _tokens(text, unit)
    if len(tokens) <= context_size:
        raise DataError(
            f"{len(tokens)} tokens have no window of {context_size} with a token after it",
            witness=len(tokens),
            suggestion="a longer text, or a smaller context_size",
        )
    vocabulary = tuple(dict.fromkeys(tokens))
    number = {token: index for index, token in enumerate(vocabulary)}
    ids = np.array([number[token] for token in tokens], dtype=np.int64)
    every = np.lib.stride_tricks.sliding_window_view(ids, context_size)[:-1]
    following: dict[bytes, dict[int, int]] = {}
    for place, window in enumerate(every):
        following.setdefault(window.tobytes(), {}).setdefault(int(ids[place + context_size]), place)
    clear = [next(iter(after.values())) for after in following.values() if len(after) == 1]
    ambiguous = tuple(
        (
            tuple(vocabulary[i] for i in every[next(iter(after.values()))]),
            tuple(vocabulary[i] for i in after),
        )
        for after in following.values()
        if len(after) > 1
    )
    starts = np.array(clear[:limit], dtype=np.int64)
    windows = every[starts]
    rng = np.random.default_rng(seed)
    embedding = rng.standard_normal((len(vocabulary), width))
    contexts = embedding[windows] + positional_encoding(positions, context_size, width, seed=seed)
    dataset = Dataset(contexts, contexts[:, -1], ids[starts + context_size].astype(np.float64))
    return Language(dataset, vocabulary, windows, ambiguous)


def _tokens(text: str, unit: str) -> list[str]:
    require_known("unit", unit, get_args(Unit))
    if unit == "words":
        return re.findall(r"\w+|[^\w\s]", text.lower())
    return [chr(byte) for byte in text.encode()]


# Real data as attention sees them: images of digits in patches, and text in bytes.
#
# Both come with scikit-learn (`pip install ".[demo]"`); nothing is downloaded. Embeddings are
# random, as those of a network are before training.


PATCH = 2  # Pixels along the side of a patch


@dataclass(frozen=True, eq=False)
class DigitImages:
    """1,797 images of handwritten digits, 8 x 8 pixels from 0 to 1."""

    patches: Array  # (T, 16, 4), the 2 x 2 patches row by row
    pixels: Array  # (T, 64), row by row
    labels: Integers  # (T,), 0 to 9


def digit_images() -> DigitImages:
    """Return the images that scikit-learn bundles.

    Raises:
        MissingExtraError: without scikit-learn

    Example:
        >>> digit_images().patches.shape
        (1797, 16, 4)
    """
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
    """Return an English text: scikit-learn's descriptions of its data sets.

    Raises:
        MissingExtraError: without scikit-learn

    Example:
        >>> english_text().split()[:5]
        ['..', '_iris_dataset:', 'Iris', 'plants', 'dataset']
    """
    datasets = require("sklearn.datasets", extra="demo", purpose="the text")
    loaders = (datasets.load_iris, datasets.load_wine, datasets.load_breast_cancer,
               datasets.load_digits, datasets.load_diabetes)  # fmt: skip
    return "\n".join(load().DESCR for load in loaders)


def text_windows(count: int, size: int) -> Integers:
    r"""Return windows of consecutive bytes of an English text: (count, size), 0 to 255.

    The text is `english_text`; windows start at even distances, and are all different.

    Args:
        count: how many, at most the different windows of the text
        size: the number of bytes of each

    Raises:
        ParameterError: for a count or a size that is not a positive integer
        DataError: for more windows than are different; the witness is how many are
        MissingExtraError: without scikit-learn

    Example:
        >>> bytes(text_windows(100, 24)[0].tolist())
        b'.. _iris_dataset:\n\nIris '
    """
    require_positive(count=count, size=size)
    text = english_text().encode()
    letters = np.frombuffer(text, dtype=np.uint8)
    every = np.lib.stride_tricks.sliding_window_view(letters, min(size, len(letters)))
    first = np.sort(np.unique(every, axis=0, return_index=True)[1])  # without repeated windows
    different = len(first) if size <= len(letters) else 0
    if count > different:
        raise DataError(
            f"the text has {different} different windows of {size} bytes, not {count}",
            witness=different,
            suggestion="fewer windows, or another size",
        )
    chosen = first[np.linspace(0, len(first) - 1, count).astype(np.int64)]
    return every[chosen].astype(np.int64)


def random_attention_layer(tokens: Array, *, num_heads: int, seed: int) -> Array:
    """Apply a self-attention layer with random weights and a skip connection: (T, n, d)."""
    require_positive(num_heads=num_heads)
    require_seed(seed)
    width = tokens.shape[-1]
    if num_heads > width:
        raise ParameterError(
            f"num_heads={num_heads} is more than the d={width} entries of a token",
            witness=num_heads,
            suggestion=f"at most {width} heads",
        )
    rng = np.random.default_rng(seed)
    inner = width // num_heads
    query, key, value = rng.standard_normal((3, num_heads, 1, width, inner)) / np.sqrt(width)
    logits = (tokens @ query) @ (tokens @ key).swapaxes(-1, -2) / np.sqrt(inner)
    mixed = (softmax(logits, axis=-1) @ (tokens @ value)).transpose(1, 2, 0, 3)
    output = rng.standard_normal((num_heads * inner, width)) / np.sqrt(width)
    result: Array = tokens + mixed.reshape(*tokens.shape[:2], -1) @ output
    return result


# Text as sequences: lines, or windows of bytes, whose tokens are (position, byte).
#
# With positions in the tokens a multiset is a sequence: attention that does not see the order can
# still tell "ab" from "ba". Short lines are filled up with the byte -1.


_END = -1
_WIDEST = 1 << 12  # The longest window that is tried


@dataclass(frozen=True, eq=False)
class TextExamples:
    """Sequences of a text, with their labels."""

    tokens: Integers  # (N, n, 2), position and byte
    # of each sequence, the number of the line, from 1, or the next byte
    labels: list[int] | list[bytes]

    def first(self, total: int) -> "TextExamples":
        """Return the first sequences."""
        return TextExamples(self.tokens[:total], self.labels[:total])


def encode(text: bytes, size: int) -> Integers:
    """Return a text as one sequence of tokens (n, 2), filled up with -1."""
    if len(text) > size:
        raise DataError(
            f"{len(text)} bytes are more than n={size}",
            witness=len(text),
            suggestion=f"at most {size} bytes",
        )
    values = np.full(size, _END, dtype=np.int64)
    values[: len(text)] = np.frombuffer(text, dtype=np.uint8)
    return np.stack([np.arange(size), values], axis=1)


def lines(text: bytes) -> TextExamples:
    r"""Pose the question which line this is: each different line, and its first number from 1.

    Args:
        text: lines with any usual ends; n is the length of the longest

    Raises:
        DataError: for a text without lines

    Example:
        >>> lines(b"a rose\nis\na rose\n").labels
        [1, 2]
    """
    numbers: dict[bytes, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        numbers.setdefault(line, number)
    size = max(map(len, numbers), default=0)
    if not size:
        raise DataError("the text has no lines", witness=len(text), suggestion="a longer text")
    tokens = np.stack([encode(line, size) for line in numbers])
    return TextExamples(tokens, list(numbers.values()))


def windows(text: bytes, size: int | None = None) -> TextExamples:
    """Pose the question what comes next: each different window of n bytes, and the next byte.

    Args:
        text: two bytes or more
        size: n; by default the smallest that decides the next byte everywhere

    Raises:
        DataError: for a text that is too short, a size that is not a length of its windows, and
            windows that two bytes follow

    Example:
        >>> found = windows(b"the cat sat on the mat")
        >>> found.tokens.shape[1], b"".join(found.labels)
        (5, b'at sat on the mat')
    """
    if size is None:
        size = _deciding(text)
    elif not 0 < size < len(text):
        raise DataError(
            f"n={size} is not a length of windows of {len(text)} bytes",
            witness=size,
            suggestion=f"n from 1 to {len(text) - 1}",
        )
    known: dict[bytes, bytes] = {}
    for place in range(len(text) - size):
        following = text[place + size : place + size + 1]
        first = known.setdefault(text[place : place + size], following)
        if first != following:
            window = text[place : place + size]
            raise DataError(
                f"{window!r} is followed by {first!r}, and at byte {place + size} by {following!r}",
                witness=place + size,
                suggestion="longer windows, or none given, for the shortest that will do",
            )
    tokens = np.stack([encode(window, size) for window in known])
    return TextExamples(tokens, list(known.values()))


def _deciding(text: bytes) -> int:
    """Return the smallest n such that n bytes decide what follows, everywhere in the text.

    What n bytes decide n + 1 bytes decide as well, so it is found by halving.
    """
    few = 2
    if len(text) < few:
        raise DataError(
            f"a text of {len(text)} bytes has no next byte",
            witness=len(text),
            suggestion="a longer text",
        )
    low, high = 1, min(len(text) - 1, _WIDEST)
    if not _decides(text, high):
        raise DataError(
            f"{high} bytes do not decide the next one everywhere",
            witness=high,
            suggestion="a text that repeats itself less",
        )
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _decides(text, middle) else (middle + 1, high)
    return low


def _decides(text: bytes, size: int) -> bool:
    known: dict[bytes, int] = {}
    places = range(len(text) - size)
    return all(
        known.setdefault(text[i : i + size], text[i + size]) == text[i + size] for i in places
    )
