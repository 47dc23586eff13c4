"""By how much the right output is the largest: in real arithmetic, and as floats evaluate it.

Where tokens and W_Q, W_K are short integers times powers of two, logits of heads are as well, and
float64 makes no error in them (`layers.exact_logits`). What is left are exponentials of multiples
of one power of two, which are read from a table that ball arithmetic made, and sums of positive
size, for which there are bounds (`exact.float_model`).

The output for a row z of the representation is f = U^T z, and its logits are f . o_v for the rows
o_v of the unembedding. Let the true margin of a position be the least f . (o_next - o_v) over all
other v. Float64 gives it up to a bound; and any evaluation in a `FloatModel` gives logits which
are off by E_v at most, ::

    |z^ - z|  <=  zeta A + more X + flushed (1 + zeta) X                                   =: B
    |f^ - f|  <=  (1 + gamma_k) |U|^T B + gamma_k |U|^T A + lost                           =: D
    |l^ - l|  <=  gamma_m |O| (|f| + D) + |O| D                                            =: E

with A the averages of `|x|`, `|z| <= A`, X >= 1 the largest
`|x|`, and zeta and more of each head (`FloatModel.weighted`); B is zero where z is x. The counts k
and m are those of `Contraction.readouts`: K and d_out, the entries of z and f, where the readout
comes before the unembedding; else all roundings are in k, and m = 0. Where logits of heads are
off by eps, attention moves by a part g = exp(2 eps) - 1 at most, before the rest happens: so
(1 + zeta)(1 + g) - 1 stands for zeta, and the weight tau of small tokens grows by 1 + g.

There is one rounding more each where outputs and logits are stored in fewer bits. Where sums may
leave the range of the format, nothing is bounded. So the next token has the largest logit in every
such evaluation where the margin exceeds E_next + E_v for every other v.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from constructive.exact.arithmetics.tabulated import Tabulated
from constructive.exact.float_model import FloatModel
from constructive.exact.models import FLOAT64
from constructive.exact.upward import up
from constructive.layers.attend import attend, flat
from constructive.layers.causal.layer import CausalLayer
from constructive.layers.exact_logits import ExactLogits
from constructive.layers.views import Block, Causal
from constructive.support.arrays import Array, Booleans, Integers, row_chunks

_FEW = 1024  # Positions whose logits are computed at a time
# Of attention weights that are worth to be counted: those of others are summed up.
_LARGE = 2.0**-24
# Up to it exp(2 eps) - 1 is at most 2 eps + 4 eps^2: the series is 2 eps + 2 eps^2 (1 + ...).
_SMALL = 0.25


@dataclass(frozen=True, eq=False)
class Margins:
    """What is known of some positions."""

    places: Integers  # which ones (R,)
    least: Array  # lower bounds of the true margins (R,)
    most: Array  # upper bounds of the same (R,)
    error: Array  # E_next + E_v, where that is the largest part of the margin (R,)
    # that part, rounded up; the next token is the largest for every program where it is less than
    # one, and infinite where no margin is known to be positive (R,)
    share: Array

    @classmethod
    def together(cls, parts: "list[Margins]") -> "Margins":
        """Join one or several, in the order of their places."""
        joined = [
            np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])
        ]
        order = np.argsort(joined[0], kind="stable")
        return cls(*(array[order] for array in joined))


@dataclass(frozen=True, eq=False)
class Sizes:
    """Bounds that all positions share."""

    growth: float  # g, by how large a part of itself attention may move
    heads_width: int  # d, the entries of what a head gives
    readout: Array  # U (K, d_out), float64
    readout_sizes: Array  # |U|
    largest: float  # X, the largest |x| or 1
    columns: Array  # bounds of the sums of the columns of |U|, and 1, times X (d_out,)
    head_columns: Array  # bounds of the sums of its columns over the rows of each head (H, d_out)
    unembedding: Array  # O^T (d_out, V), float64
    unembedding_sizes: Array  # |O|^T


def margins(
    layer: CausalLayer,
    unembedding: Array,
    model: FloatModel,
    tokens: Array,
    known: ExactLogits,
    following: Integers,
    places: Integers,
    longest: int | None = None,
) -> Iterator[Margins]:
    """Bound the margins at some positions, a few at a time, of float64 tokens (S, N, d).

    A position is called places[s, i], and following[s, i] is right there, or negative where nothing
    is asked. No position sees more than the `longest` tokens, here or elsewhere; by default N.
    """
    readout = layer.readout_weights.astype(np.float64)
    outputs = np.ascontiguousarray(unembedding.T.astype(np.float64))
    largest = max(1.0, float(np.abs(tokens).max()))
    columns = up(up(np.abs(readout).sum(axis=0) + 1.0) * largest)
    absolute = np.abs(readout)
    by_head = absolute[layer.skip * layer.width :].reshape(layer.num_heads, layer.width, -1)
    head_columns = up(by_head.sum(axis=1))
    sizes = Sizes(
        _growth(known, model, longest or tokens.shape[1]),
        layer.width,
        readout,
        absolute,
        largest,
        columns,
        head_columns,
        outputs,
        np.abs(outputs),
    )
    for block, z, attended in _attended(layer, tokens, known):
        right = following[block.rows]
        asked = np.nonzero(right >= 0)
        for part in row_chunks(len(asked[0]), 1, _FEW):
            at = tuple(index[part] for index in asked)
            some = _Attended(*(array[at] for array in attended))
            yield Margins(places[block.rows][at], *_judged(sizes, model, z[at], some, right[at]))


def _growth(known: ExactLogits, model: FloatModel, tokens: int) -> float:
    """Bound by how large a part of itself attention may move: not at all where logits are exact.

    Infinite where tokens, queries or keys may be stored in fewer bits than they have.
    """
    if known.exact(model).all():
        return 0.0
    eps = float(known.errors(model, tokens).max())
    if model.stored_unit or not (eps <= _SMALL and known.in_range(model)):
        return math.inf
    return float(up(np.array(2.0 * eps + 4.0 * eps**2)))


class _Attended(NamedTuple):
    """Of some positions: A (..., K), n (...), and of each head m and tau (..., H)."""

    averages: Array
    counts: Array
    large: Array
    rest: Array


def _attended(
    layer: CausalLayer, tokens: Array, known: ExactLogits
) -> Iterator[tuple[Block, Array, _Attended]]:
    """Yield blocks of positions (s, b), with z (s, b, K) and what bounds its errors."""
    weights, view = (layer.query_weights, layer.key_weights), Causal(tokens, layer.window)
    absolute = np.abs(tokens)
    narrow = absolute.astype(np.float32)
    for chunk in attend(Tabulated(known.unit, known.most), weights, view):
        block, attention, z = chunk.block, chunk.attention, flat(chunk.representation)
        by_group = attention.reshape(len(attention), -1, attention.shape[-1])
        sizes = average_sizes(by_group, narrow[block.groups, block.keys]).reshape(z.shape)
        if layer.skip:
            z = np.concatenate([tokens[chunk.rows], z], axis=2)
            sizes = np.concatenate([absolute[chunk.rows], sizes], axis=2)
        heavy = attention >= _LARGE
        large = np.count_nonzero(heavy, axis=3).astype(np.float64)
        np.copyto(attention, 0.0, where=heavy)
        rest = up(up(attention.sum(axis=3)))
        counts = np.broadcast_to(block.counts.astype(np.float64), z.shape[:2])
        yield block, z, _Attended(sizes, counts, large, rest)


def average_sizes(weights: Array, sizes: Array) -> Array:
    """Bound averages of sizes |x|, by products in float32, which are off by little.

    Rounding weights, sizes and n products in any order takes a part of gamma_(n+2) at most, with
    u = 2^-24, and less than (n + 4) 2^-23; underflow takes 2^-125 from each term, times 1 or |x|.
    Weights (S, R, n) are one or less in sum, and sizes (S, n, d) are rounded to float32.
    """
    terms = sizes.shape[1]
    with np.errstate(over="ignore"):  # an infinity bounds everything
        products = (weights.astype(np.float32) @ sizes).astype(np.float64)
    lost = 2.0**-120 * terms * (1.0 + float(sizes.max()))
    return up(up(products * (1.0 + (terms + 4) * 2.0**-23)) + lost)


def _judged(
    sizes: Sizes, model: FloatModel, z: Array, attended: _Attended, right: Integers
) -> tuple[Array, Array, Array, Array]:
    """Of some positions: least, most, error and share."""
    outputs = z @ sizes.readout
    spread = _Spread.of(sizes, attended)
    own = _output_errors(FLOAT64, sizes, spread, attended, 0.0)
    reach = up(np.abs(outputs) + own)  # of the true outputs
    logits = outputs @ sizes.unembedding
    ours = _logit_errors(FLOAT64, sizes, reach, own)
    theirs = _output_errors(model, sizes, spread, attended, sizes.growth)
    with np.errstate(invalid="ignore"):  # infinite errors, times zero
        theirs = up(theirs + model.stored_unit * (reach + theirs) + model.stored_tiny)
    theirs = _within(model, up(spread.whole + theirs), theirs)
    executed = _logit_errors(model, sizes, reach, theirs)
    if model.contraction.free:
        executed = up(executed + _lost_in_paths(model, sizes, attended))
    each = np.arange(len(z))
    ahead = logits[each, right][:, np.newaxis] - logits
    doubt = up(ours[each, right][:, np.newaxis] + ours) + 2.0**-50 * np.abs(ahead)
    least, most = ahead - up(doubt), ahead + up(doubt)
    error = up(executed[each, right][:, np.newaxis] + executed)
    return of_the_worst(least, most, error, right)


def of_the_worst(
    least: Array, most: Array, error: Array, right: Integers
) -> tuple[Array, Array, Array, Array]:
    """Return least, most, error and share of some positions, from those of each token (R, V + 1).

    The arrays are used up; right[r] has to follow at position r.
    """
    each = np.arange(len(right))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where((least > 0.0) & (error < np.inf), up(error / least), np.inf)
    for values, nothing in ((least, np.inf), (most, np.inf), (share, -np.inf)):
        values[each, right] = nothing
    worst = share.argmax(axis=1)
    return least.min(axis=1), most.min(axis=1), error[each, worst], share[each, worst]


@dataclass(frozen=True, eq=False)
class _Spread:
    """|U|^T A, and the part of each head in it."""

    whole: Array  # (R, d_out)
    heads: Array  # (H, R, d_out)

    @classmethod
    def of(cls, sizes: Sizes, attended: _Attended) -> "_Spread":
        """Products with the rows of |U| of x, if there are any, and of each head."""
        averages, heads = attended.averages, attended.large.shape[1]
        own = averages.shape[1] - heads * sizes.heads_width
        by_head = averages[:, own:].reshape(len(averages), heads, -1).transpose(1, 0, 2)
        readouts = sizes.readout_sizes[own:].reshape(heads, sizes.heads_width, -1)
        parts = up(by_head @ readouts)
        skipped = averages[:, :own] @ sizes.readout_sizes[:own]
        return cls(up(parts.sum(axis=0) + skipped), parts)


def _output_errors(
    model: FloatModel, sizes: Sizes, spread: _Spread, attended: _Attended, growth: float
) -> Array:
    """Bound what rounding does to outputs, D: (R, d_out)."""
    inner, counts = attended.averages.shape[1], attended.counts[:, np.newaxis]
    first, _ = model.contraction.readouts(counts, inner, sizes.readout.shape[1])
    gamma = model.gamma(first)
    with np.errstate(invalid="ignore"):  # infinite growth, times zero
        rest = np.nan_to_num(attended.rest * (1.0 + growth), nan=np.inf, posinf=np.inf)
    zeta, more = model.weighted(counts, attended.large, rest)
    zeta = up(zeta + growth + zeta * growth)
    flushed = up(model.flushed(counts) * (1.0 + zeta))
    top = up((more + flushed) * sizes.largest)
    largest = up(sizes.largest * (1.0 + zeta) + top).max(axis=1, keepdims=True)  # of averages
    fits = (largest <= model.storage.largest) & (up(largest * counts) <= model.overflow)
    with np.errstate(invalid="ignore"):  # infinite errors, times zero
        moved = up(np.einsum("rh,hro->ro", zeta, spread.heads) + top @ sizes.head_columns)
        found = up((1.0 + gamma) * moved + gamma * spread.whole)
        found = up(found + (1.0 + gamma) * model.lost(inner) * sizes.columns)
    return np.where(fits & ~np.isnan(found), found, np.inf)


def _logit_errors(model: FloatModel, sizes: Sizes, reach: Array, errors: Array) -> Array:
    """Bound what rounding does to logits, E: (R, V)."""
    inner = reach.shape[1]
    gamma = float(model.gamma(model.contraction.readouts(1, len(sizes.readout), inner)[1]))
    computed = up(reach + errors)
    with np.errstate(invalid="ignore"):  # infinite errors, times zero
        bound = up((gamma * computed + errors) @ sizes.unembedding_sizes)
        whole = up(computed @ sizes.unembedding_sizes)
        underflow = model.lost(inner) * (1.0 + up(computed).max(axis=1, keepdims=True))
        bound = up(bound + underflow + model.stored_unit * (whole + bound) + model.stored_tiny)
    return _within(model, up(whole + bound), bound)


def _lost_in_paths(model: FloatModel, sizes: Sizes, attended: _Attended) -> Array:
    """Bound what underflow takes from logits where any arrays may be multiplied first: (R, 1).

    A path loses the smallest normal number a few times, times its other factors. Infinite where
    the sum of all paths may leave the range of the operations.
    """
    inner, outputs = sizes.readout.shape
    paths, _ = model.contraction.readouts(attended.counts[:, np.newaxis], inner, outputs)
    factors = [
        max(1.0, float(each.max())) for each in (sizes.readout_sizes, sizes.unembedding_sizes)
    ]
    reach = up(np.float64(sizes.largest * factors[0] * factors[1]) * paths)
    return np.where(reach <= model.overflow, up(model.lost(1) * reach), np.inf)


def _within(model: FloatModel, reach: Array, bound: Array) -> Array:
    """Bounds, infinite in each row unless all that it may reach is known to be in range."""
    in_range: Booleans = reach.max(axis=1, keepdims=True) <= model.storage.largest
    return np.where(in_range, bound, np.inf)
