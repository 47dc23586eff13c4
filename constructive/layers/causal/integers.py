"""Margins of decoders of integers: what programs compute are integers, and no rounding is left.

Let all weights be integers, and the entries of tokens signs. Where the heads are saturated
(`layers.causal.saturated`) every program of a model computes the same z, the tokens that the heads
read, bit for bit. Where the sizes of each column of U add up to less than 2^24, it then computes
f = U^T z without error, in any order. So only the last product may round (Proposition 21.3)::

    logits   f . o_v, without error where the sum of |f_k o_vk| is less than 2^24; else off by
             gamma_k times that sum at most

In real arithmetic other tokens have weights, of (n - 1) e^-128 together at most, and an entry of z
is off by twice that at most. So f . o_v is off by `2 (n - 1) e^-128 sum |U| |o_v|`.

This needs a model that rounds to nearest, computes z before the product with U and that before the
one with the unembedding, and divides sums of exponentials by nothing but their sum. Where parts are
merged by logsumexp, or constants multiply logits, nothing is known here. Where factors of products
are rounded to fewer bits, all of them have to be numbers of that format: tokens, W_Q, W_K, queries
and keys, which such models compute first, and U or its two parts.

Source: Propositions 21.2 and 21.3; the construction is ours.
"""

from collections.abc import Iterator

import numpy as np

from constructive.exact.float_model import FloatModel
from constructive.exact.formats import Format
from constructive.exact.upward import up
from constructive.layers.causal.margins import Margins, of_the_worst
from constructive.layers.causal.saturated import EXACT, picks
from constructive.support.arrays import Array, Integers, row_chunks
from constructive.support.errors import PrecisionError

_SMALL_WEIGHT = 2.0**-184  # More than e^-128
_HELD = 2.0**52  # Float64 holds integers up to it, and differences of two of them
_FEW = 1024  # Positions whose logits are computed at a time, or fewer where there are many heads
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
        errors = _logit_errors(model, np.abs(outputs), most, sizes)
        parts.append(Margins(places[at], *_judged(logits, errors, moved, following[at])))
    return Margins.together(parts)


def _picked(
    tokens: Array, heads: tuple[Array, Array], window: int | None, following: Integers
) -> Iterator[tuple[Integers, Integers]]:
    """Yield a few positions that are asked for, and the tokens that heads read there (R, H)."""
    few = min(_FEW, max(1, _MOST_ENTRIES // ((len(heads[0]) + 1) * tokens.shape[1])))
    length = len(tokens) if window is None else max(few, _MOST_PICKS // len(heads[0]))
    for begin in range(0, len(tokens), length):
        stop = min(len(tokens), begin + length)
        low = 0 if window is None else max(0, begin + 1 - window)
        found = picks(tokens[low:stop], *heads, window, first=begin - low).tokens + low
        asked = np.flatnonzero(following[begin:stop] >= 0)
        for part in row_chunks(len(asked), 1, few):
            some = asked[part]
            yield begin + some, found[some]


def _logit_errors(model: FloatModel, outputs: Array, sizes: Array, unembedding: Array) -> Array:
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


def _judged(
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
    """Return U, integers in float64, or two parts of it where a format of factors is too short.

    Example:
        >>> from constructive.exact.formats import FORMATS
        >>> high, low = readout_parts(np.array([[1001.0], [-3.0]]), FORMATS["bfloat16"])
        >>> high.tolist(), low.tolist()
        ([[1024.0], [-0.0]], [[-23.0], [-3.0]])
    """
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
