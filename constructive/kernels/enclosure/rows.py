"""Inputs in pieces: some queries at a time, and the keys that one of them sees."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from constructive.kernels.enclosure.inputs import Inputs
from constructive.support.arrays import Array, Booleans, Integers

_ENTRIES = 1 << 18  # Of a matrix of logits that is computed at once: two megabytes
_PARTS = 4  # Of the queries under a mask: fewer of them see fewer keys, and others are left out


@dataclass(frozen=True, eq=False)
class Rows:
    """Some queries of P pairs (sequence, KV head), and the keys that one of them sees."""

    place: tuple[Integers, Integers, slice, slice]  # where they are in (B, G, H / G, T_q)
    q: Array  # (P, R, d) queries, times the scale
    k: Array  # (P, T, d)
    v: Array  # (P, T, d_v)
    sizes_of_k: Array  # (P, T, d) |k| / 2^e in float32
    sizes_of_v: Array  # (P, T, 2 d_v) |v| / 2^e and its square
    exponents: tuple[int, int, int]  # e of q, k and v, so that no size is more than 1
    visible: Booleans | None  # (P, R, T), or None where all is
    added: tuple[Array, ...]  # (P, R, T) each
    sinks: Array | None  # (P, R, 1), or None
    keys: int  # T_k, seen or not


def pieces(given: Inputs) -> Iterator[Rows]:
    """Yield all rows, so many at once that a matrix of logits has about `_ENTRIES`."""
    batch, heads, queries, width = given.q.shape
    groups, keys = given.k.shape[1:3]
    share = heads // groups
    q = (given.q * given.scale).reshape(batch, groups, share, queries, width)
    of_q, of_k, of_v = (_exponent(each) for each in (q, given.k, given.v))
    sizes_of_k = np.ldexp(np.abs(given.k), -of_k).astype(np.float32)
    sizes = np.ldexp(np.abs(given.v), -of_v)
    sizes_of_v = np.concatenate([sizes, sizes * sizes], axis=-1, dtype=np.float32)
    whole, split = (batch, heads, queries, keys), (batch, groups, share, queries, keys)
    added = [np.broadcast_to(each, whole).reshape(split) for each in given.added]
    visible = None
    if given.visible is not None:
        visible = np.broadcast_to(given.visible, whole).reshape(split)
    sinks = None if given.sinks is None else given.sinks.reshape(groups, share, 1)
    entries = _ENTRIES
    if visible is not None:
        entries = min(entries, max(entries // _PARTS, share * queries * keys // _PARTS))
    for pair, group, rows in _places(batch, groups, share, queries, keys, entries):
        place = (pair, group, slice(None), rows)
        some = q[place]
        flat = (len(pair), some.shape[1] * some.shape[2])
        seen, columns = None, slice(None)
        if visible is not None:
            seen, columns = _seen(visible[place].reshape(*flat, keys))
        parts = (
            each[pair, group][:, columns] for each in (given.k, given.v, sizes_of_k, sizes_of_v)
        )
        k, v, some_of_k, some_of_v = parts
        biases = tuple(each[place].reshape(*flat, keys)[..., columns] for each in added)
        logits = None
        if sinks is not None:
            logits = np.broadcast_to(sinks[group], some.shape[:3]).reshape(*flat, 1)
        yield Rows(
            place, some.reshape(*flat, width), k, v, some_of_k, some_of_v, (of_q, of_k, of_v),
            seen, biases, logits, keys,
        )  # fmt: skip


def above(left: Array, right: Array, factor: float = 1.0) -> Array:
    """Bound a product of matrices, times a factor, from above, by float32, which is twice as fast.

    Each of k products has two factors that are rounded, a rounding of its own and k - 1 additions
    or fewer; what underflows is less than 2^-147.

    Example:
        >>> bool(above(np.full((1, 9), 0.3), np.full((9, 1), 0.1, dtype=np.float32)) > 0.27)
        True
    """
    terms = left.shape[-1] + 4
    found = (left.astype(np.float32) @ right).astype(np.float64)
    found *= (1.0 + terms * 2.0**-23) * factor
    found += terms * 2.0**-145 * factor
    return found


def _exponent(values: Array) -> int:
    """The least e with all sizes up to 2^e."""
    return math.frexp(max(float(values.max()), -float(values.min())))[1]


def _places(
    batch: int, groups: int, share: int, queries: int, keys: int, entries: int
) -> Iterator[tuple[Integers, Integers, slice]]:
    """Pairs and queries of a piece."""
    several = max(1, entries // (share * queries * keys))
    length = max(1, entries // (share * keys))
    for first in range(0, batch * groups, several):
        pair: Integers = np.arange(first, min(first + several, batch * groups), dtype=np.int64)
        for start in range(0, queries, length):
            yield pair // groups, pair % groups, slice(start, start + length)


def _seen(visible: Booleans) -> tuple[Booleans | None, slice]:
    """Who sees whom among the columns that one row sees; None if all do."""
    columns = np.flatnonzero(visible.any((0, 1)))
    if not len(columns):
        return visible[..., :1], slice(1)
    part = slice(int(columns[0]), int(columns[-1]) + 1)
    seen = visible[..., part]
    return None if seen.all() else seen, part
