"""Saturated heads: each of them reads one token, and every float evaluation gives this token.

Let the entries of tokens be signs, and those of W_Q and W_K integers. Then logits are integers.
Where the terms of a difference of two logits add up to less than 2^24 in size, float32 makes no
error in any logit, whatever is multiplied first and in whatever order sums are taken. If in
addition the largest logit of each position leads by 128 or more, then all other attention weights
together are at most (w - 1) e^-128 < (w - 1) 2^-184, and evaluation in floating point rounds them
away: they meet a 1 in the denominator, and a +1 or -1 in each entry of the average. So z_h **is**
the token of the largest logit, bit for bit, in float32, and also where attention is stored in
bfloat16 or float16 (Proposition 21.2).

This holds for programs that round to nearest, keep logits in float32, mask with -inf or with
-2^24 or less, and evaluate exp(l - max l) without fusing the product into the exponent. It does not
hold for exp2(fma(l, c, -m c)), nor for products with the reciprocal of a rounded logsumexp.

Source: Proposition 21.2 (proofs/21); the construction is ours.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from constructive.support.arguments import require_positive
from constructive.support.arrays import Integers, first_place, row_chunks
from constructive.support.errors import ParameterError, PrecisionError, shown

Signs = npt.NDArray[np.int8]

LEAD = 128  # The lead from which the other weights are below 2^-184, and vanish by rounding
EXACT = 1 << 24  # Integers up to this one are float32 numbers
_ENTRIES = 1 << 21  # Of the logits of one offset that are in memory at once


class Picks(NamedTuple):
    """Which tokens saturated heads read."""

    # the index of the token within its sequence, for each position and head (..., N, H)
    tokens: Integers
    # the least difference of the largest logit and the next one, over all positions that see two
    # tokens or more; `LEAD` if there are none
    lead: int
    size: int  # the largest sum of the sizes of all terms in a difference of two logits, over heads


def picks(
    tokens: npt.ArrayLike,
    w_q: npt.ArrayLike,
    w_k: npt.ArrayLike,
    window: int | None,
    *,
    first: int = 0,
) -> Picks:
    """Return the token that each head reads at each position, from integer arithmetic alone.

    Example:
        >>> sequence = [[1, 1, -1], [1, -1, -1], [1, 1, 1]]
        >>> picks(sequence, [[[64], [0], [0]]], [[[0], [2], [1]]], window=2).tokens.tolist()
        [[0], [0], [2]]
    """
    x, w_q, w_k = (np.asarray(array) for array in (tokens, w_q, w_k))
    if window is not None:
        require_positive(window=window)
    _require_shapes(x, w_q, w_k)
    if first not in range(x.shape[-2]):
        raise ParameterError(
            f"first={first} is not a position of {x.shape[-2]}", witness=first, suggestion="first=0"
        )
    _require_signs(x)
    x, queries, keys = x.astype(np.int64), _integers("W_Q", w_q), _integers("W_K", w_k)
    size = logit_size(queries, keys)
    if size >= EXACT:
        raise PrecisionError(
            f"the terms of a difference of two logits add up to {size}, so float32 may round it",
            witness=size,
            suggestion="smaller weights: the sum of sizes has to be less than 2^24",
        )
    heads, length = len(queries), x.shape[-2]
    sequences = x.reshape(-1, *x.shape[-2:])
    found = np.empty((len(sequences), length - first, heads), np.int64)
    lead = np.iinfo(np.int64).max
    parts = list(row_chunks(heads, length, _ENTRIES))
    for number, sequence in enumerate(sequences):
        for part in parts:
            at, leads = (
                each[first:] for each in _picked(sequence, queries[part], keys[part], window)
            )
            found[number, :, part] = at
            low = np.unravel_index(int(leads.argmin()), leads.shape)
            if leads[low] < LEAD:
                where = (number, first + int(low[0]), part.start + int(low[1]))
                raise PrecisionError(
                    f"the largest logit of sequence, position and head {where} leads by "
                    f"{leads[low]} only",
                    witness=(where, int(leads[low])),
                    suggestion=f"weights for which every lead is {LEAD} or more",
                )
            lead = min(lead, int(leads[low]))
    alone = length == 1 or window == 1
    return Picks(found.reshape(*x.shape[:-2], -1, heads), LEAD if alone else lead, size)


def read(tokens: npt.ArrayLike, picked: Integers) -> Signs:
    """Return the rows of Z: each token, and those that the heads read (N, (H + 1) d), as int8."""
    x = np.asarray(tokens).astype(np.int8)
    rows = np.concatenate([x[:, np.newaxis], x[picked]], axis=1)
    return rows.reshape(len(x), -1)


def logit_size(w_q: Integers, w_k: Integers) -> int:
    """Return twice the sum of the sizes of all terms of a logit of sign tokens, at most over heads.

    No partial sum on the way to a logit, or to a difference of two, is larger, whichever arrays are
    multiplied first.
    """
    columns = [np.abs(w).sum(axis=1).astype(object) for w in (w_q, w_k)]
    return int(2 * (columns[0] * columns[1]).sum(axis=1).max())


def _picked(
    x: Integers, w_q: Integers, w_k: Integers, window: int | None
) -> tuple[Integers, Integers]:
    """The tokens that some heads read in one sequence (N, h), and their leads (N, h)."""
    queries, keys = (np.moveaxis(x @ w, 0, 1) for w in (w_q, w_k))  # (N, h, d_h)
    length, heads = queries.shape[:2]
    best = (queries * keys).sum(axis=2)
    at = np.repeat(np.arange(length)[:, np.newaxis], heads, axis=1)
    lead = np.full((length, heads), np.iinfo(np.int64).max)
    for offset in range(1, min(window or length, length)):
        logits = (queries[offset:] * keys[:-offset]).sum(axis=2)
        difference = logits - best[offset:]
        wins = difference > 0
        # The lead of a new winner is over the old one, which led over all others.
        before = np.where(wins, difference, lead[offset:])
        lead[offset:] = np.minimum(before, np.abs(difference))
        np.copyto(at[offset:], np.arange(length - offset)[:, np.newaxis], where=wins)
        np.maximum(best[offset:], logits, out=best[offset:])
    return at, lead


def _require_shapes(x: npt.NDArray[Any], w_q: npt.NDArray[Any], w_k: npt.NDArray[Any]) -> None:
    shapes = x.shape, w_q.shape, w_k.shape
    fits = x.ndim in (2, 3) and w_q.ndim == 3 and w_q.shape == w_k.shape
    if not fits or w_q.shape[1] != x.shape[-1] or not x.size or not w_q.size:
        raise ParameterError(
            f"tokens, W_Q and W_K have shapes {shapes}",
            witness=shapes,
            suggestion="tokens (N, d) or (S, N, d), W_Q and W_K (H, d, d_h)",
        )


def _require_signs(x: npt.NDArray[Any]) -> None:
    wrong = ~((x == 1) | (x == -1))
    if wrong.any():
        place = first_place(wrong)
        raise PrecisionError(
            f"tokens{list(place)} is {shown(x[place].item())}, not +1 or -1",
            witness=place,
            suggestion="tokens of a decoder from build_decoder(text, parameters='few')",
        )


def _integers(name: str, weights: npt.NDArray[Any]) -> Integers:
    """Weights as int64. Raises PrecisionError for entries that are not integers below 2^24."""
    whole = np.abs(weights) < EXACT
    whole &= weights == np.rint(np.where(whole, weights, 0))
    if not whole.all():
        place = first_place(~whole)
        raise PrecisionError(
            f"{name}{list(place)} is {shown(weights[place].item())}, not an integer below 2^24",
            witness=place,
            suggestion="weights of a decoder from build_decoder(text, parameters='few')",
        )
    return weights.astype(np.int64)
