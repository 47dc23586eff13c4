"""Causal attention: every position of a sequence asks, and sees what came before it.

`CausalLayer` computes in floats, and `picks` finds what saturated heads of integers read, without
rounding. The checker bounds what programs round.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from constructive.exact.softmax import Floats
from constructive.layers.attention import BLOCK_BYTES, CausalView, Rows, attend, flat
from constructive.layers.layer import HeadShapes, require_floats
from constructive.support.arrays import (
    AnyArray,
    Array,
    Integers,
    finite_array,
    first_place,
    private,
    row_chunks,
)
from constructive.support.errors import (
    DataError,
    ParameterError,
    PrecisionError,
    require_positive,
    shown,
)

# The causal layer: every position of a sequence is a query, and its context is what came before.
#
# Notation: x_1, ..., x_N the tokens of a sequence (N, d), H heads with W_Q, W_K (d, d_h), an
# effective readout U. Position i sees j = 1, ..., i, or the last `window` of these. ::
#
#     alpha_h = softmax of x_j . W_K W_Q^T x_i over the j which i sees
#     z_h     = sum_j alpha_hj x_j
#     f_i     = U^T (x_i, z_1, ..., z_H)       with the skip connection x_i
#
# The logits carry no factor 1/sqrt(d_h). For almost all sequences and almost all weights the rows
# of all S N positions have rank min((H + 1) d, min(S, d) + S (N - 1)), and for no sequences and
# weights it is larger (Theorem 12, proofs/17): so about N / d heads memorize a text.


@dataclass(frozen=True, eq=False)
class CausalLayer(HeadShapes):
    """Causal multi-head attention with a skip connection and an effective readout, as plain arrays.

    The arrays are read-only copies of what was given; the layer computes in their one dtype.

    Attributes:
        query_weights: W_Q (H, d, d_h)
        key_weights: W_K (H, d, d_h)
        readout_weights: U (K, d_out) of x_i and all heads, K = (H + 1) d
        window: how many positions one sees, itself among them; None for all up to itself

    Raises:
        ParameterError: for what is not an array, shapes that do not fit, dtypes other than float32
            or float64 or several of them, entries that are not finite, and a window that is not a
            positive integer

    Example:
        >>> zeros = np.zeros((1, 1, 1))
        >>> layer = CausalLayer(zeros, zeros, np.array([[0.0], [1.0]]))
        >>> layer([[[3.0], [5.0], [1.0]]]).tolist()  # uniform attention: means of what came before
        [[[3.0], [4.0], [3.0]]]
    """

    query_weights: Array
    key_weights: Array
    readout_weights: Array
    window: int | None = None

    def __post_init__(self) -> None:
        for name in ("query_weights", "key_weights", "readout_weights"):
            object.__setattr__(self, name, private(name, getattr(self, name)))
        if self.window is not None:
            require_positive(window=self.window)
        _check(self.tensors)

    @property
    def tensors(self) -> dict[str, Array]:
        """The weights by the names which files give them."""
        return {**self.head_tensors, "U": self.readout_weights}

    @property
    def width(self) -> int:
        """d, the number of entries of a token."""
        return len(self.readout_weights) // (self.num_heads + 1)

    @property
    def target_dim(self) -> int:
        """d_out, the number of entries of the output."""
        return int(self.readout_weights.shape[1])

    @property
    def inner_dim(self) -> int:
        """K, the number of entries of the representation."""
        return len(self.readout_weights)

    def __call__(self, sequences: npt.ArrayLike, *, block_bytes: int = BLOCK_BYTES) -> Array:
        """Evaluate f at all positions of all sequences: (S, N, d_out).

        Args:
            sequences: (S, N, d)
            block_bytes: about the size of temporary arrays, in bytes; by default 32 MiB

        Raises:
            DataError: if shapes do not fit the layer, or numbers are not finite
        """
        return self._collected(
            sequences, self.target_dim, lambda z: z @ self.readout_weights, block_bytes
        )

    def intermediate(self, sequences: npt.ArrayLike, *, block_bytes: int = BLOCK_BYTES) -> Array:
        """The intermediate representation of all positions: (S, N, K).

        Args:
            sequences: (S, N, d)
            block_bytes: about the size of temporary arrays, in bytes; by default 32 MiB

        Raises:
            DataError: if shapes do not fit the layer, or numbers are not finite
        """
        return self._collected(sequences, self.inner_dim, lambda z: z, block_bytes)

    def _collected(
        self,
        sequences: npt.ArrayLike,
        entries: int,
        of: Callable[[Array], Array],
        block_bytes: int,
    ) -> Array:
        """What is made of the representation of all positions: (S, N, entries)."""
        tokens = self.checked(sequences)
        out = np.empty((*tokens.shape[:2], entries), tokens.dtype)
        for rows, z in self.chunks(tokens, block_bytes=block_bytes):
            out[rows] = of(z)
        return out

    def chunks(
        self, tokens: Array, *, block_bytes: int = BLOCK_BYTES
    ) -> Iterator[tuple[Rows, Array]]:
        """Which positions of which sequences, and their representation, a few at a time."""
        weights, view = (self.query_weights, self.key_weights), CausalView(tokens, self.window)
        for chunk in attend(Floats(tokens.dtype), weights, view, chunk_bytes=block_bytes):
            own, z = tokens[chunk.rows], flat(chunk.representation)
            yield chunk.rows, np.concatenate([own, z], axis=2)

    def checked(self, sequences: npt.ArrayLike) -> Array:
        """Sequences as an array of the layer's dtype."""
        tokens = finite_array("sequences", sequences, copy=False)
        if tokens.ndim != 3 or tokens.shape[2] != self.width or 0 in tokens.shape:
            raise DataError(
                f"sequences have shape {tokens.shape}, not (S, N, d={self.width})",
                witness=tokens.shape,
                suggestion="an array of sequences of tokens; x[np.newaxis] for a single one",
            )
        return tokens.astype(self.query_weights.dtype, copy=False)


def _check(tensors: dict[str, Array]) -> None:
    """Raise ParameterError for weights which do not fit together."""
    w_q, w_k, readout = (tensors[name] for name in ("W_Q", "W_K", "U"))
    shapes = {name: array.shape for name, array in tensors.items()}
    fits = w_q.ndim == 3 and w_q.shape == w_k.shape and readout.ndim == 2 and w_q.size
    if not fits or readout.shape[0] != (len(w_q) + 1) * w_q.shape[1] or not readout.size:
        raise ParameterError(
            f"weights have shapes {shapes}",
            witness=shapes,
            suggestion="W_Q and W_K (H, d, d_h), U ((H + 1) d, d_out)",
        )
    require_floats(tensors)


# Saturated heads: each of them reads one token, and every float evaluation gives this token.
#
# Let the entries of tokens be signs, and those of W_Q and W_K integers. Where the terms of a
# difference of two logits add up to less than 2^24 in size, float32 makes no error in any logit. If
# the largest one of each position leads by 128 or more as well, evaluation in floating point rounds
# all other weights away, and z_h **is** the token of the largest logit, bit for bit. Proposition
# 21.2 (proofs/21) says for which programs: not for exp2(fma(l, c, -m c)), nor for products with the
# reciprocal of a rounded logsumexp.


Signs = npt.NDArray[np.int8]

LEAD = 128  # The lead from which the other weights are below 2^-184, and vanish by rounding
EXACT = 1 << 24  # Integers up to this one are float32 numbers
_ENTRIES = 1 << 21  # Of the logits of one offset that are in memory at once


class Picks(NamedTuple):
    """Which tokens saturated heads read."""

    tokens: Integers  # the index of the token, for each position and head (N, H)
    # the least difference of the largest logit and the next one, over all positions that see two
    # tokens or more; `LEAD` if there are none
    lead: int
    size: int  # the largest sum of the sizes of all terms in a difference of two logits, over heads


def picks(
    tokens: npt.ArrayLike,
    w_q: npt.ArrayLike,
    w_k: npt.ArrayLike,
    window: int | None,
) -> Picks:
    """Return the token that each head reads at each position, from integer arithmetic alone.

    Of one sequence (N, d). Callers have checked shapes and window.
    """
    x, w_q, w_k = (np.asarray(array) for array in (tokens, w_q, w_k))
    wrong = ~((x == 1) | (x == -1))
    if wrong.any():
        place = first_place(wrong)
        raise PrecisionError(
            f"tokens{list(place)} is {shown(x[place].item())}, not +1 or -1",
            witness=place,
            suggestion="tokens of a decoder from build_decoder(text, parameters='few')",
        )
    x, queries, keys = x.astype(np.int64), _integers("W_Q", w_q), _integers("W_K", w_k)
    size = logit_size(queries, keys)
    if size >= EXACT:
        raise PrecisionError(
            f"the terms of a difference of two logits add up to {size}, so float32 may round it",
            witness=size,
            suggestion="smaller weights: the sum of sizes has to be less than 2^24",
        )
    heads, length = len(queries), len(x)
    found = np.empty((length, heads), np.int64)
    lead = np.iinfo(np.int64).max
    for part in row_chunks(heads, length, _ENTRIES):
        at, leads = _picked(x, queries[part], keys[part], window)
        found[:, part] = at
        low = np.unravel_index(int(leads.argmin()), leads.shape)
        if leads[low] < LEAD:
            where = int(low[0]), part.start + int(low[1])
            raise PrecisionError(
                f"the largest logit of position and head {where} leads by {leads[low]} only",
                witness=(where, int(leads[low])),
                suggestion=f"weights for which every lead is {LEAD} or more",
            )
        lead = min(lead, int(leads[low]))
    alone = length == 1 or window == 1
    return Picks(found, LEAD if alone else lead, size)


def read_tokens(tokens: npt.ArrayLike, picked: Integers) -> Signs:
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


def _integers(name: str, weights: AnyArray) -> Integers:
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
