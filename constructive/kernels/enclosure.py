"""Intervals of attention in float64, a few rows at a time; `intervals` has the proof."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from constructive.exact.formats import nearest
from constructive.exact.kernel_model import KernelModel
from constructive.exact.upward import gamma, up
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Booleans
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError

_ENTRIES = 1 << 17
"""Of a matrix of logits that is computed at once: a megabyte, which stays in a cache."""
_WIDE = 50.0
"""Errors of exponents beyond it are not bounded by differences, but by the hull of values."""
_FAR = 100.0
"""Exponents that are lower by more belong to keys whose weight is nothing."""
_NARROW = 0.125
"""Errors of exponents up to it are bounded without exponentials."""
_OWN = 2.0**-51
"""Our roundings of a logit, of a bias and of l - m, relative to the largest of them."""
_OWN_EXP = 2.0**-46
"""Our exponentials and tanh: 64 units in the last place, far more than numpy's."""
_LARGE = 2.0**100
"""In place of what is infinite, as a factor."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some queries of some pairs (sequence, KV head), and the keys that one of them sees.

    Attributes:
        q: (P, R, d) queries, times the scale
        k: (P, T, d)
        v: (P, T, d_v)
        sizes_of_k: (P, T, d) |k|, of size one and in float32, as the next
        sizes_of_v: (P, T, 2 d_v) |v| and v^2
        visible: (P, R, T), or None where all is
        added: (P, R, T) each
        sinks: (P, R, 1), or None
    """

    q: Array
    k: Array
    v: Array
    sizes_of_k: Array
    sizes_of_v: Array
    visible: Booleans | None
    added: tuple[Array, ...]
    sinks: Array | None


@dataclass(frozen=True, eq=False)
class _Weights:
    """Weights of reference, and how far those of a kernel may be from them; rows are (P, R, 1).

    Attributes:
        p: (P, R, T) exponentials of our logits less the largest
        sink: that of the sink, or 0
        total: their sum
        mean: of kappa, by weight
        root: G, the root of the mean of (exp(kappa) - 1)^2, infinite for wide rows
        most: the largest kappa
        count: n, the visible keys
        merges: what merging by logsumexp does to weights, as a part of them
    """

    p: Array
    sink: Array
    total: Array
    mean: Array
    root: Array
    most: Array
    count: Array
    merges: Array


def enclose(given: Inputs, model: KernelModel) -> tuple[Array, Array]:
    """Return bounds (B, H, T_q, d_v) of every admissible output; infinite in rows not judged.

    Args:
        given: inputs
        model: what a kernel may do

    Raises:
        ParameterError: if a kernel of this model may overflow
    """
    batch, heads, queries, _ = given.q.shape
    groups, keys, width = given.v.shape[1:]
    shape = (batch, groups, heads // groups, queries, width)
    lower, upper = np.empty(shape), np.empty(shape)
    size = _Sizes(given, model)
    for pairs, rows, part in _parts(given, size):
        center, distance = _interval(part, given, model, size, keys)
        chosen = (*pairs, slice(None), rows)
        split = (len(pairs[0]), shape[2], -1, width)
        lower[chosen] = (center - distance).reshape(split)
        upper[chosen] = (center + distance).reshape(split)
    hidden = ~given.judged.reshape(shape[:-1])
    lower[hidden], upper[hidden] = -np.inf, np.inf
    whole = (batch, heads, queries, width)
    return _stored(lower.reshape(whole), model, -1.0), _stored(upper.reshape(whole), model, 1.0)


class _Sizes:
    """Numbers about all inputs, and coefficients of errors of logits."""

    def __init__(self, given: Inputs, model: KernelModel) -> None:
        width = given.q.shape[3]
        self.q, self.k, self.v = (float(np.abs(each).max()) for each in (given.q, given.k, given.v))
        self.scale = given.scale
        self.exponents = tuple(
            math.frexp(each)[1] for each in (self.q * self.scale, self.k, self.v)
        )
        order = float(model.sums(width))
        levels = math.inf if model.depth is None else float(model.sums(min(model.depth, width)))
        # gamma_d (S + |l|) / 2 in any order; gamma_depth S
        of_sum, of_logit = (levels, 0.0) if levels <= order / 2.0 else (order / 2.0, order / 2.0)
        self.rounded = float(model.gamma(model.constants))
        of_sum += (1.0 + min(order, levels)) * model.term_error + gamma(width + 4)
        capped = given.softcap is not None
        stored = (1.0 + model.logit_unit) ** (4 + capped) * (1.0 + self.rounded * capped) - 1.0
        self.of_sum = min(of_sum * (1.0 + stored), _LARGE)
        self.of_logit = min(of_logit * (1.0 + stored) + stored + _OWN, _LARGE)
        stores = (1.0 + model.logit_unit) ** 3 if given.added or given.sinks is not None else 1.0
        self.last = stores * (1.0 + self.rounded) * (1.0 + _OWN) - 1.0
        self.tanh = (
            (1.0 + model.tanh_error) * (1.0 + model.unit) ** 6 * (1.0 + model.logit_unit) ** 2
            * (1.0 + _OWN_EXP) - 1.0
        )  # fmt: skip
        both = (1.0 + self.q) * (1.0 + self.k) * (1.0 + self.scale)
        lost = 8.0 * model.smallest + 8.0 * model.stored_tiny * model.stores_logits
        self.flushed = lost * width * both * (1.0 + (given.softcap or 0.0))

    def require_no_overflow(self, sums: float, most: float, model: KernelModel, terms: int) -> None:
        """Refuse inputs for which the model, which has no overflow, says nothing.

        Args:
            sums: a bound of sums of sizes of products of entries
            most: a bound of logits, before a bias and with it
            model: what a kernel may do
            terms: the number of keys
        """
        entries = max(self.q, self.k) * max(1.0, self.scale)
        values = 2.0 * terms * math.exp(model.lag) * self.v
        for name, reached, limit in (
            ("logits, raw or scaled,", most * max(1.0, 1.0 / self.scale), model.logit_overflow),
            ("entries of q and k, scaled,", entries, model.logit_overflow),
            ("sums of products of q and k", sums * max(1.0, 1.0 / self.scale), model.overflow),
            ("sums of values", values, model.overflow),
        ):
            if not reached < limit:
                raise ParameterError(
                    f"{name} may reach {reached:.3g}, where a kernel of the model {model.name!r} "
                    f"may overflow (beyond {limit:.3g})",
                    witness=reached,
                    suggestion="smaller inputs; or the model 'flash ...' for a kernel that keeps "
                    "logits in float32",
                )


def _parts(given: Inputs, size: "_Sizes") -> Iterator[tuple[tuple[Array, Array], slice, _Rows]]:
    """Pairs and queries, so many that a matrix of logits has about `_ENTRIES`."""
    batch, heads, queries, width = given.q.shape
    groups, keys = given.k.shape[1:3]
    share = heads // groups
    scaled = (given.q * given.scale).reshape(batch, groups, share, queries, width)
    sizes_of_k = np.ldexp(np.abs(given.k), -size.exponents[1]).astype(np.float32)
    v = np.ldexp(np.abs(given.v), -size.exponents[2])
    sizes_of_v = np.concatenate([v, v * v], axis=-1, dtype=np.float32)
    whole = (batch, heads, queries, keys)
    visible, *added = (
        None if each is None else np.broadcast_to(each, whole).reshape(*scaled.shape[:4], keys)
        for each in (given.visible, *given.added)
    )
    several = max(1, _ENTRIES // (share * queries * keys))
    length = min(queries, max(1, _ENTRIES // (share * keys)))
    for first in range(0, batch * groups, several):
        pair = np.arange(first, min(first + several, batch * groups))
        pairs = pair // groups, pair % groups
        for start in range(0, queries, length):
            rows = slice(start, start + length)
            q = scaled[(*pairs, slice(None), rows)]
            flat = (len(pair), -1)
            part, seen = slice(None), None
            if visible is not None:
                seen = visible[(*pairs, slice(None), rows)].reshape(*flat, keys)
                columns = np.flatnonzero(seen.any((0, 1)))
                if not len(columns):
                    columns = np.zeros(1, dtype=np.int64)
                part = slice(int(columns[0]), int(columns[-1]) + 1)
                seen = seen[..., part]
                if seen.all():
                    seen = None
            more = tuple(
                each[(*pairs, slice(None), rows, part)].reshape(*flat, seen_keys(part, keys))
                for each in added
                if each is not None
            )
            sinks = None
            if given.sinks is not None:
                each = given.sinks.reshape(groups, share)[pairs[1]][:, :, None]
                sinks = np.broadcast_to(each, q.shape[:3]).reshape(*flat, 1)
            of_pairs = (each[pairs][:, part] for each in (given.k, given.v, sizes_of_k, sizes_of_v))
            yield pairs, rows, _Rows(q.reshape(*flat, width), *of_pairs, seen, more, sinks)


def seen_keys(part: slice, keys: int) -> int:
    """Return the length of a part of the keys."""
    return len(range(keys)[part])


def _interval(
    rows: _Rows, given: Inputs, model: KernelModel, size: _Sizes, keys: int
) -> tuple[Array, Array]:
    """A reference and the distance to it, (P, R, d_v) each."""
    weights = _weights(rows, *_logits(rows, given, model, size), model, size, keys)
    return _outputs(rows, weights, model, size, keys)


def _logits(
    rows: _Rows, given: Inputs, model: KernelModel, size: _Sizes
) -> tuple[Array, Array, Array]:
    """Our logits, -inf where hidden; errors of a kernel's; and the largest size in a row."""
    logits = rows.q @ rows.k.swapaxes(-1, -2)
    exponent, of_k, _ = size.exponents
    errors = _above(np.ldexp(np.abs(rows.q), -exponent), rows.sizes_of_k.swapaxes(-1, -2))
    errors *= 2.0**exponent * 2.0**of_k
    sums = float(errors.max())
    errors *= size.of_sum
    sizes = np.abs(logits)
    hidden = None if rows.visible is None else ~rows.visible
    if hidden is not None:
        sizes[hidden] = 0.0
        errors[hidden] = 0.0
    largest = sizes.max(-1, keepdims=True)
    most = float(largest.max()) + float(errors.max()) + size.flushed
    if given.softcap is None and not rows.added:
        whole = size.of_logit * (1.0 + size.last) + size.last
        errors *= 1.0 + size.last
        errors += np.multiply(sizes, whole, out=sizes)
    else:
        errors += size.of_logit * sizes + size.flushed
        if given.softcap is not None:
            near = np.maximum(sizes * (1.0 - _OWN) - errors, 0.0) / given.softcap
            slope = 1.0 - np.tanh(near) ** 2 + _OWN_EXP
            logits = given.softcap * np.tanh(logits / given.softcap)
            sizes = np.abs(logits)
            errors = slope * errors + size.tanh * sizes
        for bias in rows.added:
            logits += bias
            sizes += np.abs(bias)
        errors += size.last * (sizes + errors)
        if hidden is not None:
            errors[hidden] = 0.0
        shown = logits if hidden is None else np.where(hidden, -np.inf, logits)
        most = max(most, float((shown + errors).max()))
        largest = np.abs(shown if hidden is None else np.where(hidden, 0.0, logits)).max(
            -1, keepdims=True
        )
    if hidden is not None:
        logits[hidden] = -np.inf
    size.require_no_overflow(sums, most, model, rows.v.shape[1])
    return logits, errors, largest


def _weights(
    rows: _Rows, logits: Array, errors: Array, largest: Array, model: KernelModel,
    size: _Sizes, keys: int,
) -> _Weights:  # fmt: skip
    """Exponentials, and how far a kernel's may be from them."""
    top = logits.max(-1, keepdims=True)
    seen = rows.visible
    count = np.full(top.shape, float(logits.shape[-1]))
    if seen is not None:
        count = np.count_nonzero(seen, axis=-1, keepdims=True).astype(np.float64)
        top = np.where(count > 0, top, 0.0)
    if rows.sinks is not None:
        top = np.maximum(top, rows.sinks)
        largest = np.maximum(largest, np.abs(top))
        count += 1.0
    blocks = np.minimum(count, math.ceil(keys / model.block) + 1.0)
    exponentials = (model.exp_error + (blocks - 1.0) * model.rescale_error) / (
        1.0 - max(model.exp_error, model.rescale_error)
    ) + 2.0 * model.unit

    def common(largest: Array, most: Array) -> Array:
        """What all keys of a row have in common in kappa, rounded up."""
        own = _OWN * largest + _OWN_EXP + size.flushed * (1.0 + size.last)
        near = largest + most + 2.0 * model.lag
        return up(size.rounded * near + exponentials + own)

    most = errors.max(-1, keepdims=True)
    shared = common(largest, most)
    if (most + shared > _WIDE).any():
        low = (logits - errors).max(-1, keepdims=True) - shared
        far = logits + errors + shared < low - _FAR
        logits[far], errors[far] = -np.inf, 0.0
        largest = np.where(far | np.isinf(logits), 0.0, np.abs(logits)).max(-1, keepdims=True)
        if rows.sinks is not None:
            largest = np.maximum(largest, np.abs(top))
        most = errors.max(-1, keepdims=True)
        shared = common(largest, most)
    kappa = up(most + shared)
    p = np.exp(np.subtract(logits, top, out=logits), out=logits)
    sink, apart = np.zeros_like(top), np.zeros_like(top)
    if rows.sinks is not None:
        apart = up(size.last * np.abs(rows.sinks))
        counts = rows.sinks + apart + shared >= top - kappa - _FAR
        apart = np.where(counts, apart, 0.0)
        sink = np.where(counts, np.exp(rows.sinks - top), 0.0)
        kappa = np.maximum(kappa, up(apart + shared))
    total = p.sum(-1, keepdims=True) + sink
    total[total == 0.0] = 1.0
    wide = kappa > _WIDE
    weighted = p * errors
    mean = (weighted.sum(-1, keepdims=True) + sink * apart) / total
    if (kappa <= _NARROW).all():
        squares = np.einsum("prt,prt->pr", weighted, errors)[..., None] + sink * apart**2
        squares = squares / total + shared * (2.0 * mean + shared)
        root = np.sqrt(up(squares)) / (1.0 - kappa / 2.0)
    else:
        np.minimum(np.add(errors, shared, out=errors), _WIDE, out=errors)
        grown = np.expm1(errors, out=errors)
        squares = np.einsum("prt,prt,prt->pr", p, grown, grown)[..., None]
        squares += sink * np.expm1(np.minimum(apart + shared, _WIDE)) ** 2
        root = np.sqrt(up(squares / total))
    merges = np.zeros_like(top)
    if model.merged:
        merges = up(np.expm1(np.minimum(
            6.0 * model.unit * (largest + kappa) + model.exponents(count), _WIDE
        )))  # fmt: skip
    return _Weights(
        p, sink, total, np.where(wide, 0.0, up(mean + shared)), np.where(wide, np.inf, up(root)), kappa,
        count, merges,
    )  # fmt: skip


def _above(left: Array, right: Array) -> Array:
    """Bound a product of matrices from above; float32 is twice as fast, and the bound as good.

    Args:
        left: float64 from 0 to 1
        right: float32 from 0 to 1
    """
    terms = left.shape[-1] + 4
    found = (left.astype(np.float32) @ right).astype(np.float64)
    found *= 1.0 + terms * 2.0**-23
    found += terms * 2.0**-145
    return found


def _outputs(
    rows: _Rows, weights: _Weights, model: KernelModel, size: _Sizes, keys: int
) -> tuple[Array, Array]:
    """The average of values, and the distance of a kernel's to it before its last rounding."""
    values = rows.v
    inverse = 1.0 / weights.total
    center = weights.p @ values
    center *= inverse
    sizes = _above(weights.p, rows.sizes_of_v)
    sizes *= inverse * 2.0 ** size.exponents[2]
    mean, square = np.split(sizes, 2, axis=-1)
    square *= 2.0 ** size.exponents[2]
    own = gamma(values.shape[1] + 8)
    deviation = np.sqrt(up(np.maximum(square - center * center, 0.0) + 16.0 * own * square))
    bottom, top = values.min(-2, keepdims=True), values.max(-2, keepdims=True)
    if rows.sinks is not None:
        bottom, top = np.minimum(bottom, 0.0), np.maximum(top, 0.0)
    spread, most = up(top - bottom), np.maximum(top, -bottom)
    with np.errstate(invalid="ignore"):  # infinite times zero; fmin takes the other bound then
        grown, root = np.exp(weights.mean) * (1.0 + _OWN_EXP), weights.root
        moved = np.fmin(grown * root * deviation, spread)
        terms = np.fmin(grown * (mean + root * (deviation + np.abs(center))), most)
        apart = np.fmin(grown * (1.0 + root) * deviation + moved, spread)
    theta = model.weight_error
    each = (1.0 + model.unit) * (1.0 + model.operand_unit) * (1.0 + weights.merges) - 1.0
    stored = theta / (1.0 - theta) * np.maximum(terms, apart)
    terms *= (1.0 + theta) / (1.0 - theta)
    stored += each * terms
    terms = (1.0 + each) * terms
    blocks = np.minimum(weights.count, math.ceil(keys / model.block) + 1.0)
    nested = 2.0 + 2.0 * model.merged
    rounded = weights.count + nested * blocks
    reached = np.abs(center) + moved + stored
    summed, divided = model.sums(rounded) * (terms + reached) / 2.0, model.gamma(rounded)
    if model.depth is not None:
        levels = np.minimum(model.depth + nested * blocks, rounded)
        summed = np.minimum(summed, model.sums(levels) * terms)
        divided = np.minimum(divided, model.gamma(levels))
    ratio = (1.0 + model.gamma(2 * nested)) / (1.0 - np.minimum(divided, 0.5)) - 1.0
    ratio = np.where(divided < 0.5, ratio, np.inf)  # noqa: PLR2004 - a half
    lost = _lost(weights, model, blocks, most)
    distance = moved + stored + (1.0 + ratio) * (summed + lost) + ratio * reached
    return center, np.nan_to_num(
        up(distance + 4.0 * own * mean), copy=False, nan=np.inf, posinf=np.inf
    )


def _lost(weights: _Weights, model: KernelModel, blocks: Array, most: Array) -> Array:
    """What underflows, in a sum and in storage, and keys whose weight is nothing."""
    count = weights.count + 1.0
    flushed = 2.0**13 * count * (blocks + 1.0) * model.smallest * (1.0 + most)
    least = np.ones_like(weights.total)
    if not model.stores_divided:
        below = np.where(np.isinf(weights.root), _WIDE, weights.mean + weights.most)
        least = np.maximum(least, weights.total * np.exp(-below))
    return flushed + (2.0 * count * model.stored_tiny / least + 2.0**-_FAR) * most


def _stored(bounds: Array, model: KernelModel, side: float) -> Array:
    """Bounds in the format of outputs; what is nearly zero may have become zero."""
    found = nearest(bounds, model.output)
    if model.output.gradual:
        return found
    tiny = (np.abs(bounds) < model.output.smallest) & (bounds * side < 0.0)
    found[tiny] = 0.0
    return found
