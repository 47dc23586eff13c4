"""Language as contexts: windows of tokens with fixed embeddings and positions.

The query of a window is its last token, as in a language model, so that queries repeat and no group
of them is independent; the target is the number of the token that follows.
"""

import re
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from constructive.data.dataset import Dataset
from constructive.data.positions import positions as encoding
from constructive.support.arguments import require_known, require_positive, require_seed
from constructive.support.arrays import Integers
from constructive.support.errors import DataError

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
        positions: the encoding that is added to a window (`data.positions`)
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
    contexts = embedding[windows] + encoding(positions, context_size, width, seed=seed)
    dataset = Dataset(contexts, contexts[:, -1], ids[starts + context_size].astype(np.float64))
    return Language(dataset, vocabulary, windows, ambiguous)


def _tokens(text: str, unit: str) -> list[str]:
    require_known("unit", unit, get_args(Unit))
    if unit == "words":
        return re.findall(r"\w+|[^\w\s]", text.lower())
    return [chr(byte) for byte in text.encode()]
