"""Tokens of a causal layer, and blocks of positions with what they see."""

import math

import numpy as np

from bounds import chunks
from files import require

ENTRIES = 1 << 22  # logits of heads which are computed at a time


def tokens_of(on, ids, places):
    """Tokens with positions (n, d), which have to be exact in float32: float64 may round, too."""
    one = on.weights["embedding"][ids].astype(np.float64)
    other = on.weights["positions"][places].astype(np.float64)
    with np.errstate(over="ignore"):
        tokens = (one + other).astype(np.float32).astype(np.float64)
    rest = tokens - one
    exact = ((rest == other) & (tokens - rest == one)).all()
    require(exact, "a token and its position do not add exactly")
    return tokens


def blocks(length, heads, window):
    """Rows, the keys which they see, and which of these each row does not see."""
    window = min(length, window or length)
    for rows in chunks(length, 1, rows_of(length, heads, window)):
        begin = max(0, rows.start + 1 - window)
        row, key = np.arange(rows.start, rows.stop)[:, None], np.arange(begin, rows.stop)
        yield rows, slice(begin, rows.stop), ((key > row) | (key <= row - window))[:, None]


def rows_of(length, heads, window):
    """How many rows are computed together: they see rows + window keys, or all."""
    half = max(1, ENTRIES // (2 * heads))
    return max(
        1,
        min(length, half // window, math.isqrt(half))
        if window < length
        else min(length, 2 * half // length),
    )


def side_by_side(matrices):
    """W_Q W_K^T of all heads: (H, d, d) as (d, H d)."""
    return np.ascontiguousarray(matrices.transpose(1, 0, 2)).reshape(matrices.shape[1], -1)
