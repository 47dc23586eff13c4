"""Texts to be recited: tokens by their numbers, and what has to follow them.

A position of a text sees the tokens up to itself, or the last ones of these in a window, and has to
say which comes next; the last one has to say that the text ends. Positions are counted from the
start of each text, and a context knows its own: so two contexts are one where their positions and
their tokens agree, and then one token has to follow both.
"""

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from constructive.support.arrays import Integers, private
from constructive.support.errors import (
    DataError,
    ParameterError,
    is_integer,
    require_known,
    require_positive,
    shown,
    with_article,
)
from constructive.support.files import Json, JsonFile

# Tokens of texts: words, bytes, or the ids of any tokenizer.


Unit = Literal["words", "bytes", "ids"]
Token = str | int
Joined = str | bytes | tuple[int, ...]


def require_vocabulary(vocabulary: tuple[Token, ...], unit: str) -> None:
    """Raise ParameterError for an unknown unit, or tokens that are not all different ones of it.

    They are strings for "words", integers from 0 to 255 for "bytes", any integers for "ids".
    """
    require_known("unit", unit, get_args(Unit))
    met: set[Token] = set()
    for token in vocabulary:
        fits = isinstance(token, str) if unit == "words" else is_integer(token)
        if fits and unit == "bytes":
            fits = token in range(256)
        if not fits or token in met:
            says = "is there twice" if fits else f"is not one of {unit}"
            raise ParameterError(
                f"{shown(token)} in the vocabulary {says}",
                witness=shown(token),
                suggestion="Text.words(text), Text.bytes(content) or Text.of(token_ids)",
            )
        met.add(token)


def split(text: Any, unit: str) -> list[Token]:  # noqa: ANN401 - what users give
    """Return the tokens of a text: a string of words, a string or bytes, or integers for "ids".

    Raises ParameterError for anything else.
    """
    if unit == "words":
        if not isinstance(text, str):
            raise _no_text(text, "a string")
        return re.findall(r"\w+|\W", text)
    if unit == "bytes":
        content = text.encode() if isinstance(text, str) else text
        if not isinstance(content, bytes):
            raise _no_text(text, "a string or bytes")
        return list(content)
    found: list[Any] = list(text) if np.iterable(text) and not isinstance(text, str) else [None]
    for value in found:
        if not is_integer(value):
            raise _no_text(value, "a token id, an integer")
    return [int(value) for value in found]


def numbers_of(
    tokens: "str | bytes | Sequence[Token]", vocabulary: Sequence[Token], unit: str
) -> Integers:
    """Return the numbers of tokens (N,), which may be a string if they are words or bytes.

    Raises DataError for a token that is not in the vocabulary, for none, and for no sequence.
    """
    listed: list[Any]
    if isinstance(tokens, str) and unit != "ids":
        listed = split(tokens, unit)
    elif isinstance(tokens, Iterable):
        listed = list(tokens)
    else:
        raise DataError(
            f"tokens are {with_article(type(tokens).__name__)}, not a sequence",
            witness=type(tokens).__name__,
            suggestion="tokens of the text that it was built for, in a list",
        )
    number = {token: index for index, token in enumerate(vocabulary)}
    unknown = [token for token in listed if not isinstance(token, Hashable) or token not in number]
    if unknown or not listed:
        raise DataError(
            f"the token {shown(unknown[0])} is not one of the {len(vocabulary)} of this decoder"
            if unknown
            else "the prompt is empty",
            witness=shown(unknown[0]) if unknown else None,
            suggestion="the first tokens of the text it was built for, one or more",
        )
    return np.array([number[token] for token in listed], dtype=np.int64)


def joined(tokens: Sequence[Token], unit: str) -> Joined:
    """Return tokens one after the other: a string of words, bytes, or a tuple of token ids."""
    if unit == "words":
        return "".join(map(str, tokens))
    numbers = tuple(int(token) for token in tokens)
    return bytes(numbers) if unit == "bytes" else numbers


def _no_text(found: object, wanted: str) -> ParameterError:
    """Return the error for what is not a text."""
    return ParameterError(
        f"{shown(found)} is not {wanted}",
        witness=type(found).__name__,
        suggestion="Text.words(text), Text.bytes(content) or Text.of(token_ids)",
    )


_BATCH = 1 << 14  # Tokens of texts that are put side by side, unless a single one is longer


class Position(NamedTuple):
    """A place in texts: which text, and which token of it, both from 0."""

    text: int
    token: int


class TextBatch(NamedTuple):
    """Texts of about one length, side by side."""

    ids: Integers  # their tokens (s, n), filled up with the token 0
    places: Integers  # where these are in `Text.ids` (s, n), -1 where filled up
    following: Integers  # the number of what has to follow (s, n), -1 where nothing has to


@dataclass(frozen=True, eq=False)
class Text(JsonFile):
    """One text or several, as tokens. Made by `words`, `bytes` or `of`.

    Attributes:
        vocabulary: the V different tokens, in order of their first appearance
        ids: the number of each token (N,), text after text
        lengths: of the texts (S,)
        prompt: tokens of each text that are given, and need not be recited; 1 or more
        unit: what a token is: "words", "bytes" or "ids"

    Raises:
        DataError: for numbers outside of the vocabulary, and for texts that are empty or
            shorter than the prompt; the witness is the text
        ParameterError: for an unknown unit, a vocabulary of another unit, and a prompt
            that is not a positive integer

    Example:
        >>> text = Text.words("the cat sat")
        >>> text
        Text(N=5, V=4, words)
        >>> text.tokens
        ('the', ' ', 'cat', ' ', 'sat')
        >>> text.joined(text.tokens)
        'the cat sat'
    """

    FORMAT = "constructive text 1"
    ALSO = " or `constructive recite`"

    vocabulary: tuple[Token, ...]
    ids: Integers
    lengths: Integers
    prompt: int = 1
    unit: str = "words"

    def __post_init__(self) -> None:
        for name in ("ids", "lengths"):
            object.__setattr__(self, name, private(name, getattr(self, name)))
        object.__setattr__(self, "vocabulary", tuple(self.vocabulary))
        require_positive(prompt=self.prompt)
        require_vocabulary(self.vocabulary, self.unit)
        whole = self.ids.dtype.kind == "i" and self.lengths.dtype.kind == "i"
        fits = whole and self.ids.ndim == self.lengths.ndim == 1
        if not fits or not len(self.lengths) or int(self.lengths.sum()) != len(self.ids):
            raise DataError(
                "ids and lengths are not numbers of tokens, text after text",
                witness=(self.ids.shape, self.lengths.shape),
                suggestion="Text.words(text), Text.bytes(text) or Text.of(ids)",
            )
        short = np.flatnonzero(self.lengths < self.prompt)
        if len(short):
            raise DataError(
                f"text {short[0]} has {self.lengths[short[0]]} tokens, and the prompt is "
                f"{self.prompt}",
                witness=int(short[0]),
                suggestion="texts of a token or more, and a prompt that is not longer",
            )
        wrong = np.flatnonzero((self.ids < 0) | (self.ids >= len(self.vocabulary)))
        if len(wrong):
            raise DataError(
                f"ids[{wrong[0]}] = {self.ids[wrong[0]]} is none of {len(self.vocabulary)} tokens",
                witness=int(wrong[0]),
                suggestion="numbers of the vocabulary",
            )

    @classmethod
    def words(cls, *texts: str, prompt: int = 1) -> "Text":
        r"""Texts whose tokens are words, and single characters between them.

        Nothing is lost: the tokens one after the other are the text.

        Args:
            texts: one or several
            prompt: tokens of each that are given

        Raises:
            ParameterError: for what is not a string, and a prompt that is not a positive integer
            DataError: for no text, and for one that is shorter than the prompt

        Example:
            >>> Text.words("No, no!").tokens
            ('No', ',', ' ', 'no', '!')
        """
        return cls._of([split(text, "words") for text in texts], prompt, "words")

    @classmethod
    def bytes(cls, *texts: "str | bytes", prompt: int = 1) -> "Text":
        """Texts whose tokens are bytes, of UTF-8 where they are strings.

        Args:
            texts: one or several
            prompt: tokens of each that are given

        Raises:
            ParameterError: for what is not a text, and for a prompt that is not a positive integer
            DataError: for no text, and for one that is shorter than the prompt

        Example:
            >>> Text.bytes("abba").ids.tolist()
            [0, 1, 1, 0]
        """
        return cls._of([split(text, "bytes") for text in texts], prompt, "bytes")

    @classmethod
    def of(cls, *texts: Sequence[int], prompt: int = 1) -> "Text":
        """Texts of the token ids of any tokenizer.

        Args:
            texts: one or several sequences of integers
            prompt: tokens of each that are given

        Raises:
            ParameterError: for ids that are not integers, and a prompt that is not a positive one
            DataError: for no text, and for one that is shorter than the prompt

        Example:
            >>> Text.of([464, 3797, 464]).vocabulary
            (464, 3797)
        """
        return cls._of([split(text, "ids") for text in texts], prompt, "ids")

    @classmethod
    def _of(cls, texts: list[list[Token]], prompt: int, unit: str) -> "Text":
        vocabulary = tuple(dict.fromkeys(token for text in texts for token in text))
        number = {token: index for index, token in enumerate(vocabulary)}
        ids = [[number[token] for token in text] for text in texts]
        return cls(vocabulary, *_side_by_side(ids), prompt, unit)

    @property
    def num_texts(self) -> int:
        """S, the number of texts."""
        return len(self.lengths)

    @property
    def starts(self) -> Integers:
        """Where each text begins in `ids`: (S,)."""
        starts: Integers = np.cumsum(self.lengths) - self.lengths
        return starts

    @property
    def longest(self) -> int:
        """The number of tokens of the longest text."""
        return int(self.lengths.max())

    @property
    def num_positions(self) -> int:
        """How many positions say what follows: all, but for those within prompts."""
        return int((self.lengths - self.prompt + 1).sum())

    @property
    def end(self) -> int:
        """The number that stands for the end of a text: V."""
        return len(self.vocabulary)

    @property
    def following(self) -> Integers:
        """What follows each token (N,): the number of the next one, `end` behind a text."""
        after = np.append(self.ids[1:], self.end)
        after[np.cumsum(self.lengths) - 1] = self.end
        return after

    @property
    def texts(self) -> tuple[tuple[Token, ...], ...]:
        """The tokens of each text."""
        return tuple(tuple(self.vocabulary[i] for i in part) for part in self._parts())

    def _parts(self) -> list[list[int]]:
        return [part.tolist() for part in np.split(self.ids, np.cumsum(self.lengths)[:-1])]

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens of the text, where there is one. Raises ParameterError for several."""
        if self.num_texts > 1:
            raise ParameterError(
                f"these are {self.num_texts} texts",
                witness=self.num_texts,
                suggestion="texts[k] for the tokens of one of them",
            )
        return self.texts[0]

    def first(self, count: int | None) -> "Text":
        """Return the first tokens of the text, where there is one, with a vocabulary of their own.

        Args:
            count: of the tokens; None for all

        Raises:
            ParameterError: for several texts

        Example:
            >>> Text.words("the cat sat on the mat").first(5)
            Text(N=5, V=4, words)
        """
        return Text._of([list(self.tokens[:count])], self.prompt, self.unit)

    def joined(self, tokens: Sequence[Token]) -> "Joined":
        """Tokens one after the other: a string of words, bytes, or a tuple of token ids.

        Args:
            tokens: of the vocabulary
        """
        return joined(tokens, self.unit)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        several = f"S={self.num_texts}, " if self.num_texts > 1 else ""
        prompt = f", prompts of {self.prompt}" if self.prompt > 1 else ""
        return f"Text({several}N={len(self)}, V={len(self.vocabulary)}, {self.unit}{prompt})"

    def batches(self) -> Iterator[TextBatch]:
        """All texts, those of about one length side by side, so that few places are filled up."""
        batch: list[int] = []
        for text in np.argsort(self.lengths, kind="stable").tolist():
            longest = self.lengths[text]
            wide = batch and longest > 2 * self.lengths[batch[0]]
            if wide or (batch and (len(batch) + 1) * longest > _BATCH):
                yield self._batch(batch)
                batch = []
            batch.append(text)
        yield self._batch(batch)

    def _batch(self, texts: list[int]) -> TextBatch:
        texts = sorted(texts)
        lengths = self.lengths[texts][:, np.newaxis]
        place = np.arange(int(lengths.max()))
        inside = place < lengths
        places = np.where(inside, self.starts[texts][:, np.newaxis] + place, -1)
        ids = np.where(inside, self.ids[places], 0)
        following = np.where(inside & (place >= self.prompt - 1), self.following[places], -1)
        return TextBatch(ids, places, following)

    def different(self, window: int | None = None) -> Integers:
        """One place for each different context that something has to follow: (R,), of `ids`."""
        if window is not None:
            require_positive(window=window)
        if self.num_texts == 1:
            return np.arange(self.prompt - 1, len(self))
        places = []
        met: dict[tuple[int, ...], tuple[int, int]] = {}  # of each context, its place and follower
        for start, ids in zip(self.starts.tolist(), self._parts(), strict=True):
            context = -1
            for token, following in enumerate([*ids[1:], self.end]):
                if window is None:  # one that was met, and a token more
                    key: tuple[int, ...] = (context, ids[token])
                else:
                    key = (token, *ids[max(0, token + 1 - window) : token + 1])
                place = start + token
                context, other = met.setdefault(key, (place, following))
                if token >= self.prompt - 1:
                    if other != following:
                        raise self._contradiction((context, other), (place, following))
                    if context == place:
                        places.append(place)
        return np.array(places, dtype=np.int64)

    def position(self, place: int) -> Position:
        """Which text a token of `ids` is in, and which of its tokens it is."""
        text = int(np.searchsorted(self.starts, place, side="right")) - 1
        return Position(text, place - int(self.starts[text]))

    def _contradiction(self, *met: tuple[int, int]) -> DataError:
        """Return the error about two places, with what follows there, whose contexts are one."""
        one, two = (self.position(place) for place, _ in met)
        ends = self.end in [following for _, following in met]

        def says(goes_on: str, following: int) -> str:
            if following == self.end:
                return "ends"
            return f"{goes_on}with {shown(self.vocabulary[following])}"

        first, second = (following for _, following in met)
        told_apart = f", or prompt={one.token + 2}" if one.token + 2 <= self.lengths.min() else ""
        return DataError(
            f"text {one.text} {says('goes on ', first)} after token {one.token}, and text "
            f"{two.text} {says('goes on ' if ends else '', second)}",
            witness=(tuple(one), tuple(two)),
            suggestion=f"texts with different first tokens{told_apart}; or a longer window=, "
            "if any",
        )

    def content(self) -> Json:
        """Return what `save` writes."""
        return {
            "format": self.FORMAT,
            "unit": self.unit,
            "prompt": self.prompt,
            "vocabulary": list(self.vocabulary),
            "texts": self._parts(),
        }

    @classmethod
    def from_content(cls, content: Json) -> "Text":
        """Return the text of which `content` is the content; else ValueError."""
        vocabulary, texts = tuple(content["vocabulary"]), content["texts"]
        if any(type(i) is not int for text in texts for i in text):
            raise ValueError("its texts are not numbers of tokens")
        return cls(vocabulary, *_side_by_side(texts), content["prompt"], content["unit"])


def _side_by_side(texts: list[list[int]]) -> tuple[Integers, Integers]:
    """Return the numbers of tokens text after text (N,), and the lengths of the texts (S,)."""
    ids = np.array([i for text in texts for i in text], dtype=np.int64)
    return ids, np.array([len(text) for text in texts], dtype=np.int64)
