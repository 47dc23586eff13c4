"""By how much the right output is the largest: in real arithmetic, and as floats evaluate it.

Where tokens and W_Q, W_K are short integers times powers of two, logits of heads are as well, and
float64 makes no error in them (`recite.exact_logits`). What is left are exponentials of multiples
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

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from constructive.exact.float_enclosure import Tabulated
from constructive.exact.float_model import FLOAT64, FloatModel, Format, model_named
from constructive.exact.upward import up
from constructive.layers.attention import Block, CausalView, Chunk, after_attention, flat
from constructive.recite.causal import EXACT, CausalLayer, picks
from constructive.recite.corpus import Text
from constructive.recite.decoder import Decoder
from constructive.recite.exact_logits import ExactLogits, exact_positions
from constructive.support.arrays import Array, Booleans, Integers, first_place, row_chunks
from constructive.support.errors import PrecisionError, shown
from constructive.support.work import report

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
class TensorSizes:
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
    sizes = TensorSizes(
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
    weights, view = (layer.query_weights, layer.key_weights), CausalView(tokens, layer.window)
    absolute = np.abs(tokens)
    narrow = absolute.astype(np.float32)

    def bounded(chunk: Chunk[Array]) -> tuple[Block, Array, _Attended]:
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
        return block, z, _Attended(sizes, counts, large, rest)

    return after_attention(bounded, Tabulated(known.unit, known.most), weights, view)


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
    sizes: TensorSizes, model: FloatModel, z: Array, attended: _Attended, right: Integers
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
    def of(cls, sizes: TensorSizes, attended: _Attended) -> "_Spread":
        """Products with the rows of |U| of x, if there are any, and of each head."""
        averages, heads = attended.averages, attended.large.shape[1]
        own = averages.shape[1] - heads * sizes.heads_width
        by_head = averages[:, own:].reshape(len(averages), heads, -1).transpose(1, 0, 2)
        readouts = sizes.readout_sizes[own:].reshape(heads, sizes.heads_width, -1)
        parts = up(by_head @ readouts)
        skipped = averages[:, :own] @ sizes.readout_sizes[:own]
        return cls(up(parts.sum(axis=0) + skipped), parts)


def _output_errors(
    model: FloatModel, sizes: TensorSizes, spread: _Spread, attended: _Attended, growth: float
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


def _logit_errors(model: FloatModel, sizes: TensorSizes, reach: Array, errors: Array) -> Array:
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


def _lost_in_paths(model: FloatModel, sizes: TensorSizes, attended: _Attended) -> Array:
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


# Margins of decoders of integers: what programs compute are integers, and no rounding is left.
#
# Where the heads are saturated (`recite.causal`) every program of a model computes the same z, and
# where the sizes of each column of U add up to less than 2^24, f = U^T z without error. Only the
# last product may round: a logit f . o_v is off by gamma_k sum |f_k o_vk| at most, and not at all
# where that sum is less than 2^24 (Proposition 21.3, proofs/21). In real arithmetic other tokens
# have weights, so f . o_v is off by `2 (n - 1) e^-128 sum |U| |o_v|`.
#
# This needs a model that rounds to nearest, computes z before the product with U and that before
# the one with the unembedding, and divides sums of exponentials by nothing but their sum. Where
# parts are merged by logsumexp, or constants multiply logits, nothing is known here. Where factors
# of products are rounded to fewer bits, all of them have to be numbers of that format: tokens,
# W_Q, W_K, queries and keys, which such models compute first, and U or its two parts.


_SMALL_WEIGHT = 2.0**-184  # More than e^-128
_HELD = 2.0**52  # Float64 holds integers up to it, and differences of two of them
# Positions whose logits are computed at a time, or fewer where there are many heads.
_AT_ONCE = 1024
_MOST_ENTRIES = 1 << 24  # Of the rows of Z of these
_MOST_PICKS = 1 << 22  # Tokens that heads read, in memory at once
_SPLIT = 128.0  # The unit of the high part of a readout
_MOST_TOKENS = 1 << 20  # That a position sees: so many weights of 2^-124 are nothing to a 1


def require_integers(weights: dict[str, Array], model: FloatModel) -> None:
    """Require that all weights are integers that programs of a model add without error.

    Raises PrecisionError for other weights, for columns of U whose sizes add up to 2^24, and for
    models that merge parts, scale logits, or multiply any arrays first.
    """
    if model.contraction.free or model.constants or model.merged:
        raise PrecisionError(
            f"the model {model.name!r} does not compute averages first, with logits as they are",
            witness=model.name,
            suggestion="another model=, such as 'float32, pairwise'",
        )
    for name, array in weights.items():
        if not (np.abs(array) < EXACT).all() or not (np.rint(array) == array).all():
            raise PrecisionError(
                f"{name} has entries that are not integers below 2^24",
                witness=name,
                suggestion="a decoder of build_decoder(text, parameters='few')",
            )
    readout = weights["U"].astype(np.float64)
    parts = readout_parts(readout, model.factors)
    largest = float(sum(np.abs(part).sum(axis=0) for part in parts).max())
    if largest >= EXACT:
        raise PrecisionError(
            f"the sizes of a column of U add up to {largest:.0f}, so float32 may round sums of it",
            witness=int(largest),
            suggestion="a smaller readout: the sum has to be less than 2^24",
        )
    if model.factors is not None:
        held = {"entries of W_Q": weights["W_Q"], "entries of W_K": weights["W_K"]}
        _require_held(held | {"entries of U": np.concatenate(parts)}, model.factors)
    if model.stored_unit:
        _require_held({f"entries of {name}": w for name, w in weights.items()}, model.storage)


def integer_margins(
    weights: dict[str, Array],
    model: FloatModel,
    tokens: Array,
    window: int | None,
    following: Integers,
    places: Integers,
) -> Margins:
    """Bound the margins of one text of signs (N, d); `require_integers` holds for the weights.

    Position i is called places[i], and following[i] is right there, or negative where nothing is
    asked. Raises PrecisionError where heads are not saturated, where tokens, queries or keys are
    not numbers of the model's formats, or where logits are beyond what float64 holds.
    """
    heads = weights["W_Q"], weights["W_K"]
    seen = min(len(tokens), window or len(tokens))
    if seen > _MOST_TOKENS:
        raise PrecisionError(
            f"a position sees {seen} tokens, more than 2^20", witness=seen, suggestion="a window="
        )
    _require_factors(tokens.astype(np.float64), heads, model)
    readout, unembedding = (weights[name].astype(np.float64) for name in ("U", "unembedding"))
    sizes = np.abs(unembedding)
    moved = up(np.abs(readout).sum(axis=0) @ sizes.T * (2.0 * seen * _SMALL_WEIGHT))
    parts = []
    for at, picked in _picked(tokens, heads, window, following):
        z = np.concatenate([tokens[at, np.newaxis], tokens[picked]], axis=1)
        outputs = z.reshape(len(at), -1).astype(np.float64) @ readout
        logits, most = outputs @ unembedding.T, np.abs(outputs) @ sizes.T
        if most.max() >= _HELD:
            raise PrecisionError(
                f"terms of logits add up to {most.max():.1e}: float64 may round them",
                witness=float(most.max()),
                suggestion="a smaller readout or unembedding",
            )
        errors = _integer_logit_errors(model, np.abs(outputs), most, sizes)
        parts.append(Margins(places[at], *_judged_integers(logits, errors, moved, following[at])))
    return Margins.together(parts)


def _picked(
    tokens: Array, heads: tuple[Array, Array], window: int | None, following: Integers
) -> Iterator[tuple[Integers, Integers]]:
    """Yield a few positions that are asked for, and the tokens that heads read there (R, H)."""
    few = min(_AT_ONCE, max(1, _MOST_ENTRIES // ((len(heads[0]) + 1) * tokens.shape[1])))
    length = len(tokens) if window is None else max(few, _MOST_PICKS // len(heads[0]))
    for begin in range(0, len(tokens), length):
        stop = min(len(tokens), begin + length)
        low = 0 if window is None else max(0, begin + 1 - window)
        found = picks(tokens[low:stop], *heads, window, first=begin - low).tokens + low
        asked = np.flatnonzero(following[begin:stop] >= 0)
        for part in row_chunks(len(asked), 1, few):
            some = asked[part]
            yield begin + some, found[some]


def _integer_logit_errors(
    model: FloatModel, outputs: Array, sizes: Array, unembedding: Array
) -> Array:
    """Bound what rounding does to logits, where outputs are exact but for storage: (R, V + 1)."""
    inner = outputs.shape[1]
    gamma = float(model.gamma(model.contraction.readouts(1, 1, inner)[1]))
    if not model.stored_unit:
        return np.where(sizes < EXACT, 0.0, up(gamma * sizes))
    off = up(model.stored_unit * outputs)
    spread = up(off @ unembedding.T)
    bound = up(gamma * (sizes + spread) + spread)
    bound = up(bound + model.stored_unit * (sizes + bound) + model.stored_tiny)
    most = model.storage.largest
    fits = (up(outputs + off).max(axis=1) <= most) & (up(sizes + bound).max(axis=1) <= most)
    return np.where(fits[:, np.newaxis], bound, np.inf)


def _judged_integers(
    logits: Array, errors: Array, moved: Array, right: Integers
) -> tuple[Array, Array, Array, Array]:
    """Of some positions: least, most, error and share."""
    each = np.arange(len(logits))
    ahead = logits[each, right][:, np.newaxis] - logits
    doubt = up(moved[right][:, np.newaxis] + moved)
    least = np.where(ahead > 0.0, np.nextafter(ahead - doubt, -np.inf), ahead - doubt)
    most = np.nextafter(ahead + doubt, np.inf)
    return of_the_worst(least, most, up(errors[each, right][:, np.newaxis] + errors), right)


def readout_parts(readout: Array, form: Format | None) -> tuple[Array, ...]:
    """Return U, integers in float64, or two parts of it where a format of factors is too short."""
    if form is None or form.holds(readout):
        return (readout,)
    high = _SPLIT * np.rint(readout / _SPLIT)
    return high, readout - high


def _require_held(arrays: dict[str, Array], form: Format) -> None:
    for name, array in arrays.items():
        if not form.holds(array):
            raise PrecisionError(
                f"there are {name} that {form.name} does not hold",
                witness=name,
                suggestion="another model=, or weights of fewer bits",
            )


def _require_factors(x: Array, heads: tuple[Array, Array], model: FloatModel) -> None:
    """Require that formats of fewer bits hold queries and keys."""
    form = model.factors or (model.storage if model.stored_unit else None)
    if form is None:
        return
    for w_q, w_k in zip(*(w.astype(np.float64) for w in heads), strict=True):
        _require_held({"queries": x @ w_q, "keys": x @ w_k}, form)


# How a decoder recites: the margin of every next token, and what rounding takes of it.


def exact_tokens(decoder: Decoder, text: Text, model: FloatModel) -> ExactLogits:
    """What is known of the logits of the heads at all positions of texts."""
    layer = decoder.layer
    weights = layer.query_weights, layer.key_weights
    known = exact_positions(weights, added_tokens(decoder, text), model)
    if not known.tabulated:
        raise PrecisionError(
            f"differences of logits are up to {known.most:.1e} in units of {known.unit:.1e}: "
            "too many, or too fine, for a table of exponentials",
            witness=int(known.logits().bits.max()),
            suggestion="a decoder of build_decoder, whose logits are short integers",
        )
    return known


def added_tokens(decoder: Decoder, text: Text) -> Array:
    """Each different token of texts at each position it has there, which float32 adds exactly.

    Float64 may round as float32 does; the sum is exact where each part is what is left of it
    without the other (Knuth's TwoSum).
    """
    places = np.arange(len(text)) - np.repeat(text.starts, text.lengths)
    pairs = np.unique(np.stack([text.ids, places]), axis=1)
    token = decoder.embedding[pairs[0]].astype(np.float64)
    position = decoder.placed(pairs[1]).astype(np.float64)
    with np.errstate(over="ignore"):
        added = token + position
        tokens: Array = added.astype(np.float32)
        filled = decoder.embedding[0] + decoder.placed(np.arange(text.longest))
    rest = added - token
    exact = (tokens == added) & (rest == position) & (added - rest == token)
    if not exact.all() or not np.isfinite(filled).all():
        raise PrecisionError(
            "a token and its position do not add up exactly in float32",
            witness=shown(None if exact.all() else first_place(~exact)),
            suggestion="a decoder of build_decoder, whose entries are multiples of 1/2",
        )
    return tokens


def _normal(weights: Array) -> bool:
    """Whether all entries are normal numbers or zero, so that no machine reads zeros for them."""
    sizes = np.abs(weights[weights != 0])
    return bool((sizes >= np.finfo(np.float32).smallest_normal).all())


def recital(decoder: Decoder, text: Text, *, model: FloatModel | None = None) -> Margins:
    """The margins at all positions which something has to follow, in the order of the texts.

    The decoder remembers those of the last text, so that they are bounded once for all uses.

    Rounding is infinite where logits of heads are far from exact, or weights, tokens, queries or
    keys are not numbers of the model's storage, or where logits depend on subnormal weights, which
    some machines read as zeros.
    """
    decoder.require_same_tokens(text)
    if model is None:
        model = model_named(None, decoder.record.storage, decoder=True)
    last, bounded = decoder.remembered.get("margins", ((), None))
    if bounded is None or last[0] is not text or last[1] != model:
        bounded = _bounded(decoder, text, model)
        decoder.remembered["margins"] = (text, model), bounded
    found: Margins = bounded
    return found


def _bounded(decoder: Decoder, text: Text, model: FloatModel) -> Margins:
    """Take integers where they decide it, and bounds where they do not."""
    try:
        return _of_integers(decoder, text, model)
    except PrecisionError:
        if model.factors is not None:  # nothing else is known of it
            raise
        return _by_bounds(decoder, text, model)


def _of_integers(decoder: Decoder, text: Text, model: FloatModel) -> Margins:
    """Margins of a decoder of integers. Raises PrecisionError for others."""
    require_integers(decoder.tensors, model)
    added_tokens(decoder, text)  # raises where float32 does not add them exactly
    parts = []
    for number, start in enumerate(text.starts.tolist()):
        report("read the tokens of saturated heads", number, text.num_texts)
        places = np.arange(start, start + int(text.lengths[number]))
        ids = text.ids[places]
        following = np.append(ids[1:], text.end)
        following[: text.prompt - 1] = -1
        tokens = decoder.embedded(ids[np.newaxis])[0]
        asked = decoder.layer.window, following, places
        parts.append(integer_margins(decoder.tensors, model, tokens, *asked))
    return Margins.together(parts)


def _by_bounds(decoder: Decoder, text: Text, model: FloatModel) -> Margins:
    """Margins of any decoder with exact logits of heads."""
    known = exact_tokens(decoder, text, model)
    parts, done = [], 0
    for batch in text.batches():
        tokens = decoder.embedded(batch.ids).astype(np.float64)
        weights, asked = (decoder.layer, decoder.unembedding), (batch.following, batch.places)
        for part in margins(*weights, model, tokens, known, *asked, text.longest):
            report("bound the rounding", done, text.num_positions)
            done += len(part.least)
            parts.append(part)
    together = Margins.together(parts)
    of_logits = decoder.embedding, decoder.positions, *list(decoder.layer.tensors.values())[:2]
    stored = map(model.storage.holds, decoder.tensors.values())
    if all(stored) and all(map(_normal, of_logits)):
        return together
    nothing = np.full(len(together.least), np.inf)
    return dataclasses.replace(together, error=nothing, share=nothing)
