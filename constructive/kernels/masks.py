"""Which keys a query may see. A kind of mask is one class.

Several masks of a `Spec` hide a key if one of them does. A mask with a diagonal has an `alignment`:
"bottom-right", the default of all masks, pairs the last query with the last key of each sequence,
as decoding needs it; "top-left" pairs the first query with the first key.
"""

import base64
import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from constructive.support.arrays import Booleans, Integers
from constructive.support.errors import (
    DataError,
    ParameterError,
    is_integer,
    require_known,
    require_positive,
    shown,
)

Alignment = Literal["top-left", "bottom-right"]
Scalar = TypeVar("Scalar", bound=np.generic)
# Fields of masks that have a number for each sequence
_LENGTHS = ("lengths", "starts", "queries", "keys")


@dataclass(frozen=True, eq=False)
class Grid:
    """The positions that a mask decides about."""

    batch: int  # number of sequences B
    heads: int  # number of query heads H
    queries: int  # queries of the longest sequence, T_q
    keys: int  # keys of the longest sequence, T_k
    query_lengths: Integers  # (B,) queries of each sequence
    key_lengths: Integers  # (B,) keys of each sequence

    @classmethod
    def of(cls, masks: Iterable["Mask"], batch: int, heads: int, queries: int, keys: int) -> "Grid":
        """Return the positions of sequences that are as long as masks say."""
        of_queries = np.full(batch, queries, dtype=np.int64)
        of_keys = np.full(batch, keys, dtype=np.int64)
        for mask in require_masks(masks):
            of_queries = np.minimum(of_queries, mask.query_lengths(batch, queries))
            of_keys = np.minimum(of_keys, mask.key_lengths(batch, keys))
        return cls(batch, heads, queries, keys, of_queries, of_keys)

    def visible(self, masks: Iterable["Mask"]) -> Booleans:
        found: Booleans = np.ones((1, 1, self.queries, self.keys), dtype=np.bool_)
        for mask in masks:
            found = found & mask.visible(self)
        return found

    @property
    def i(self) -> Integers:
        """Positions of queries, (T_q, 1)."""
        return np.arange(self.queries)[:, None]

    @property
    def j(self) -> Integers:
        """Positions of keys, (T_k,)."""
        return np.arange(self.keys)

    def diagonal(self, alignment: Alignment) -> Integers:
        """Return the key that belongs to each query, (B, 1, T_q, 1)."""
        shift = np.zeros(self.batch, dtype=np.int64)
        if alignment == "bottom-right":
            shift = self.key_lengths - self.query_lengths
        return self.i + shift[:, None, None, None]


class Mask(ABC):
    """A rule that hides keys from queries; a frozen dataclass, whose text names its fields."""

    name: ClassVar[str]
    has_sizes: ClassVar[bool] = False  # whether it says lengths or a shape, of one number of keys

    def __post_init__(self) -> None:
        for name in _LENGTHS:  # lists and arrays become tuples, so that masks can be compared
            given = getattr(self, name, None)
            if isinstance(given, Iterable) and not isinstance(given, str):
                own = tuple(int(each) if is_integer(each) else each for each in given)
                object.__setattr__(self, name, own)
        if hasattr(self, "alignment"):
            require_known("alignment", self.alignment, get_args(Alignment))

    @abstractmethod
    def visible(self, grid: Grid) -> Booleans:
        """Return True where a key may be seen, of a shape that broadcasts to (B, H, T_q, T_k)."""

    def key_lengths(self, batch: int, keys: int) -> Integers:
        """Return how many keys each sequence has in memory, (B,)."""
        return np.full(batch, keys, dtype=np.int64)

    def query_lengths(self, batch: int, queries: int) -> Integers:
        """Return how many queries each sequence has, (B,)."""
        return np.full(batch, queries, dtype=np.int64)

    def __str__(self) -> str:
        own = (getattr(self, each.name) for each in fields(self))  # type: ignore[arg-type] # every mask is a dataclass
        return " ".join([self.name, *map(str, own)])


@dataclass(frozen=True)
class Causal(Mask):
    """No key of the future: j <= i, or j <= i + n_k - n_q with the last query at the last key.

    Attributes:
        alignment: "top-left" or "bottom-right"
    """

    name: ClassVar[str] = "causal"
    alignment: Alignment = "bottom-right"

    def visible(self, grid: Grid) -> Booleans:
        return np.asarray(grid.j <= grid.diagonal(self.alignment))


@dataclass(frozen=True)
class Window(Mask):
    """Keys near the diagonal: from `left` before it to `right` after it, both included.

    Attributes:
        left: keys before the diagonal, or None for all (-1 in other libraries)
        right: keys after it, or None for all
        alignment: where the diagonal is

    Raises:
        ParameterError: for an end that is neither a number of keys nor None
    """

    name: ClassVar[str] = "window"
    left: int | None = None
    right: int | None = None
    alignment: Alignment = "bottom-right"

    def __post_init__(self) -> None:
        super().__post_init__()
        pair = self.left, self.right
        if any(each is not None and (not is_integer(each) or each < 0) for each in pair):
            raise ParameterError(
                f"window={pair} has an end that is neither a number of keys nor None",
                witness=pair,
                suggestion="None in place of -1: (None, 0) is all keys up to the diagonal, "
                "(127, 0) the last 128",
            )

    def visible(self, grid: Grid) -> Booleans:
        distance = grid.j - grid.diagonal(self.alignment)
        inside = np.ones_like(distance, dtype=np.bool_)
        if self.left is not None:
            inside &= distance >= -self.left
        if self.right is not None:
            inside &= distance <= self.right
        return inside

    def __str__(self) -> str:
        return f"window ({self.left}, {self.right}) {self.alignment}"


@dataclass(frozen=True)
class Chunked(Mask):
    """Chunked local attention: keys of the query's own chunk, up to the diagonal.

    Attributes:
        size: keys of a chunk, which are counted from the first key
        alignment: where the diagonal is
    """

    name: ClassVar[str] = "chunked"
    size: int
    alignment: Alignment = "bottom-right"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(size=self.size)

    def visible(self, grid: Grid) -> Booleans:
        at = grid.diagonal(self.alignment)
        return np.asarray((grid.j <= at) & (grid.j // self.size == at // self.size))


class Ends(Mask):
    """Sequences of unequal length: keys behind the end of theirs are hidden."""

    has_sizes: ClassVar[bool] = True

    def visible(self, grid: Grid) -> Booleans:
        return np.asarray(grid.j < self.key_lengths(grid.batch, grid.keys)[:, None, None, None])


@dataclass(frozen=True)
class RightPadding(Ends):
    """Sequences of unequal length: keys from a length on are padding, or free places of a cache.

    Attributes:
        lengths: keys of each sequence
    """

    name: ClassVar[str] = "right padding"
    lengths: tuple[int, ...]

    def key_lengths(self, batch: int, keys: int) -> Integers:
        return _per_sequence("lengths", self.lengths, batch, keys)


@dataclass(frozen=True)
class LeftPadding(Mask):
    """Sequences that end together: keys before a start are padding.

    Attributes:
        starts: the first key of each sequence
    """

    name: ClassVar[str] = "left padding"
    has_sizes: ClassVar[bool] = True
    starts: tuple[int, ...]

    def visible(self, grid: Grid) -> Booleans:
        starts = _per_sequence("starts", self.starts, grid.batch, grid.keys)
        return np.asarray(grid.j >= starts[:, None, None, None])


@dataclass(frozen=True)
class VariableLengths(Ends):
    """Sequences of unequal length packed one after the other (cu_seqlens).

    Rows of queries beyond the length of their sequence do not exist; nothing is checked there.

    Attributes:
        queries: queries of each sequence
        keys: keys of each sequence
    """

    name: ClassVar[str] = "variable lengths"
    queries: tuple[int, ...]
    keys: tuple[int, ...]

    def key_lengths(self, batch: int, keys: int) -> Integers:
        return _per_sequence("keys", self.keys, batch, keys)

    def query_lengths(self, batch: int, queries: int) -> Integers:
        return _per_sequence("queries", self.queries, batch, queries)


@dataclass(frozen=True)
class Prefix(Mask):
    """A prefix that every query sees, and causal attention after it (prefix-LM).

    Attributes:
        lengths: keys of each prefix
        alignment: of the causal part
    """

    name: ClassVar[str] = "prefix"
    has_sizes: ClassVar[bool] = True
    lengths: tuple[int, ...]
    alignment: Alignment = "bottom-right"

    def visible(self, grid: Grid) -> Booleans:
        ends = _per_sequence("lengths", self.lengths, grid.batch, grid.keys)
        return np.asarray(
            (grid.j < ends[:, None, None, None]) | (grid.j <= grid.diagonal(self.alignment))
        )


@dataclass(frozen=True)
class Boolean(Mask):
    """An arbitrary mask, drawn from a seed; each row sees 1, 2, 4, .. or 64 keys.

    The numbers of keys are powers of two, so that their average is exact (case `uniform`).

    Attributes:
        per_head: whether each head has a mask of its own
        additive: whether a library gets it as numbers to add (0 and -inf), not as booleans
        empty: whether some rows see no key
        seed: of the draw
    """

    name: ClassVar[str] = "boolean"
    per_head: bool = False
    additive: bool = False
    empty: bool = False
    seed: int = 0

    def visible(self, grid: Grid) -> Booleans:
        random = np.random.default_rng((self.seed, 7))
        rows = (grid.batch, grid.heads if self.per_head else 1, grid.queries)
        most = min(7, int(grid.key_lengths.min()).bit_length())
        seen = 2 ** random.integers(0, max(1, most), rows)
        if self.empty:
            seen[random.random(rows) < 1 / 8] = 0
        # Only keys that other masks of lengths show, so that rows keep their numbers of keys.
        order = random.random((*rows, grid.keys))
        order += grid.j >= grid.key_lengths[:, None, None, None]
        rank = np.argsort(np.argsort(order, axis=-1), axis=-1)
        return np.asarray(rank < seen[..., None])

    def __str__(self) -> str:
        name = "additive" if self.additive else "boolean"
        return f"{name}{' per head' if self.per_head else ''}{' with empty rows' * self.empty}"


@dataclass(frozen=True, eq=False, repr=False)
class Given(Mask):
    """A mask that you have.

    Attributes:
        allowed: True where a key may be seen, of a shape that broadcasts to (B, H, T_q, T_k)
    """

    name: ClassVar[str] = "given"
    has_sizes: ClassVar[bool] = True
    allowed: Booleans

    def visible(self, grid: Grid) -> Booleans:
        allowed = np.asarray(self.allowed)
        if allowed.dtype != np.bool_:
            raise ParameterError(
                f"a mask of {allowed.dtype} may hide keys where it is 0, or be added to logits",
                witness=str(allowed.dtype),
                suggestion="Given(mask.astype(bool)), or Given(mask == 0) for numbers to add",
            )
        whole = (grid.batch, grid.heads, grid.queries, grid.keys)
        return with_four_axes("a mask", allowed, whole)

    @classmethod
    def packed(cls, shape: tuple[int, ...], text: str) -> "Given":
        """Return a mask from its `repr`."""
        bits = np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype=np.uint8)
        return cls(np.unpackbits(bits, count=math.prod(shape)).astype(np.bool_).reshape(shape))

    def __repr__(self) -> str:
        allowed = np.asarray(self.allowed)
        text = base64.b85encode(zlib.compress(np.packbits(allowed).tobytes(), 9)).decode()
        return f"Given.packed({allowed.shape}, {text!r})"

    def __str__(self) -> str:
        return "given mask"


def with_four_axes(
    name: str, array: npt.NDArray[Scalar], whole: tuple[int, ...]
) -> npt.NDArray[Scalar]:
    """Return an array with four axes, or raise if it does not broadcast to a shape."""
    given = (1,) * (len(whole) - array.ndim) + array.shape
    if len(given) > len(whole) or any(n not in {1, m} for n, m in zip(given, whole, strict=True)):
        raise DataError(
            f"{name} of shape {array.shape} does not broadcast to {whole}",
            witness=array.shape,
            suggestion="(batch, heads, queries, keys), with 1 for what all share",
        )
    return array.reshape(given)


def require_masks(masks: object) -> tuple[Mask, ...]:
    """Return masks as a tuple, or raise for what is not several valid masks."""
    several: list[object] = list(masks) if isinstance(masks, Iterable) else []
    found = tuple(mask for mask in several if isinstance(mask, Mask))
    if not isinstance(masks, Iterable) or len(found) < len(several):
        raise ParameterError(
            "masks are not a list of masks",
            witness=type(masks).__name__,
            suggestion="[Given(array)] for an array, [mask] for one of kernels.masks",
        )
    return found


def _per_sequence(name: str, values: tuple[int, ...], batch: int, most: int) -> Integers:
    given = values if isinstance(values, tuple) else ()
    if len(given) != batch or not all(is_integer(each) and 0 <= each <= most for each in given):
        raise ParameterError(
            f"{name}={shown(values)} are not {batch} integers from 0 to {most}",
            witness=shown(values),
            suggestion=f"one number for each of {batch} sequences (batch={batch})",
        )
    return np.asarray(given, dtype=np.int64)
