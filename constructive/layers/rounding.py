"""What float32 does to a layer, at most: on each example, whatever order its products are taken in.

Rounding acts twice: on attention, since logits are rounded, and on sums of what it weighs.

*Logits* are products x^T W_K W_Q^T e of four factors. In any order, with the rounding of the
factors themselves where they are stored in more bits, and that of the difference to the largest
logit, they are off by at most ::

    eps  =  gamma_k max_j |x_j|^T |W_K| |W_Q|^T |e| + merging            for head h, example t

with k roundings as the model counts them (`FloatModel.logit_roundings`; 2d + d_h + 6 where products
are pairwise), and what its merging adds (`exponents`). Each difference is off by u times itself,
and those from block to block add up to that from the largest. So each attention weight a_j becomes
a'_j = a_j w_j / sum_i a_i w_i with w_j in exp(+-eps), ::

    |a'_j - a_j|  <=  min(1, a_j g)  =: s_j,    g = exp(2 eps) - 1.

Let v_j = U_h^T x_j be the values, as real numbers, and c any number. As both a and a' sum to one,
the output of a head moves by at most ::

    |sum_j (a'_j - a_j) v_j|  <=  min(sum_j s_j |v_j - c|, max v - min v).

With c = sum_j a_j v_j a saturated head moves by little, whatever g is, and one whose logits are
all wrong by no more than its values differ. Where logits are exact (`layers.exact_logits`) eps is
zero, and so is all that.

Where parts are merged by logsumexp, nothing divides by the sum of the weights as they were computed
in the end: a token has a_j w_j itself, all w in exp(+-2 eps), and these do not sum to one. So
neither c nor min(1, .) helps there: the output moves by g sum_j a_j |v_j| at most, and averages are
of sizes that are larger by a part of g.

*Sums.* From the logits that were computed, an evaluation gives averages with a relative error of
zeta (`FloatModel.average`), and a product of four factors with sums over entries, heads and values:
k roundings at most (`FloatModel.output_roundings`), in any order that the model allows (values
first; or averages first; or U first). So it is off by at most ::

    ((1 + zeta) (1 + gamma_k) - 1)  sum_h (|W_V||W_O||W_D|)_h^T  max_j |x_j|      (times 1 + g).

*Underflow.* A product of matrices is a sum over paths, one for each choice of inner indices. Every
factor, product and partial sum of a path that becomes zero, or is read as zero, loses 2^-126, times
the other factors of the path, which are at most the largest entries, or 1. There are fewer than 32
of them, so 2^-120 times the number of paths and the largest entries is more than all of it, with
what float64 loses here. Nothing is bounded where that product, times 2 n, but without 2^-120, is
beyond float32: numbers on the way may be infinite.

What float64 rounds here is added, with its own gamma. Source: Higham, *Accuracy and Stability of
Numerical Algorithms*, 2nd ed., sections 3.1 and 3.5.
"""

import math
from dataclasses import dataclass

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import upward
from constructive.exact.compensated import EXPONENTIAL_ERROR, exponential
from constructive.exact.float_model import FloatModel
from constructive.exact.models import FLOAT64
from constructive.exact.upward import up
from constructive.layers.attention import AttentionLayer
from constructive.layers.exact_logits import Booleans, ShortSums, short_sums
from constructive.support.arrays import CHUNK_BYTES, Array
from constructive.support.progress import report

_PATH = 2.0**-120
"""What underflow takes from a path of factors, each of size one."""
_SMALL = 2.0**-6
"""Exponents up to which a series is nearer than exp, less one."""
_LARGEST = 700.0
"""Exponents up to which there are exponentials."""
_MERGED = 250.0
"""Errors up to which merged parts have a bound: times exp(500), the 2^-1000 that `up` adds is
nothing still, so that a checker, who adds it more often, finds as much."""


@dataclass(frozen=True, eq=False)
class Rounding:
    """Bounds of what rounding does to the outputs; infinite where nothing is bounded.

    Attributes:
        logits: by the rounding of logits (T, d_out)
        sums: by everything else (T, d_out)
        logit_errors: eps of the head whose logits are off most (T,)
        exact: the share of logits of heads on examples which are exact, 1 where all are
    """

    logits: Array
    sums: Array
    logit_errors: Array
    exact: float

    @property
    def bounds(self) -> Array:
        """Both together, rounded up: (T, d_out)."""
        together = up(self.logits + self.sums)
        return np.where(np.isnan(together), np.inf, together)


@dataclass(frozen=True, eq=False)
class _Weights:
    """Weights in float64, and bounds of the sizes of their products.

    Attributes:
        absorbed: W_Q W_K^T of all heads side by side (d, H d)
        absorbed_sizes: |W_Q| |W_K|^T in the same places
        readout: U of all heads side by side (d, H d_out)
        readout_sizes: the sum of |W_V| |W_O| |W_D| over heads (d, d_out)
    """

    absorbed: Array
    absorbed_sizes: Array
    readout: Array
    readout_sizes: Array


def rounding(
    layer: AttentionLayer, dataset: Dataset, model: FloatModel, *, chunk_bytes: int = CHUNK_BYTES
) -> Rounding:
    """What an evaluation may be off from real arithmetic with the stored weights and data.

    Args:
        layer: H heads, in float32 or float64
        dataset: T examples which fit the layer
        model: how evaluation rounds; one that stores no numbers in fewer bits
        chunk_bytes: about the size of temporary arrays, in bytes; by default 4 MiB

    Example:
        >>> from constructive import build_memorizer, generators
        >>> from constructive.exact.models import FLOAT32
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
        >>> layer = build_memorizer(data, num_heads=3).layer
        >>> float(rounding(layer, data, FLOAT32).bounds.max()) < 1e-3
        True
    """
    total, size, outputs = dataset.num_examples, dataset.context_size, layer.target_dim
    entries = layer.num_heads * (4 * size + 2 * layer.width + 2 * size * outputs) + size * outputs
    step = max(1, chunk_bytes // (8 * entries))
    parts = []
    with np.errstate(all="ignore"):  # what is infinite, or no number, bounds nothing
        weights = _weights(layer)
        known = short_sums((layer.query_weights, layer.key_weights), dataset, model)
        lost_logits, lost_outputs = _lost(layer, dataset, model)
        for start in range(0, total, step):
            rows = slice(start, min(start + step, total))
            report("bound the rounding", start, total)
            parts.append(_moved(weights, known, layer, dataset, model, rows, lost_logits))
        report("bound the rounding", total, total)
        moved, errors, exact, sizes = (np.concatenate(part) for part in zip(*parts, strict=True))
        reach = up(sizes @ weights.readout_sizes)
        if model.merged:
            reach = up(reach * (1.0 + _growth(errors)[:, np.newaxis]))
        between = len(layer.readout_weights)
        shape = layer.num_heads, size, layer.width, layer.value_dim, between
        zeta, gamma = float(model.average(size)), float(model.gamma(model.output_roundings(*shape)))
        own = (size + 2.0) * upward.gamma(FLOAT64.output_roundings(*shape))
        relative = (zeta + gamma + zeta * gamma + own) * (1.0 + 2.0**-30)
        sums = up(relative * reach + lost_outputs)
    return Rounding(moved, sums, errors, float(exact.mean()))


def _weights(layer: AttentionLayer) -> _Weights:
    w_q, w_k, w_v, w_o, w_d = (array.astype(np.float64) for array in layer.tensors.values())
    keys, outputs = w_k.transpose(0, 2, 1), w_o.reshape(layer.num_heads, layer.value_dim, -1)
    sizes = up(up(np.abs(w_v) @ np.abs(outputs)) @ np.abs(w_d))
    return _Weights(
        _side_by_side(w_q @ keys),
        _side_by_side(up(np.abs(w_q) @ np.abs(keys))),
        _side_by_side(w_v @ outputs @ w_d),
        up(sizes.sum(axis=0)),
    )


def _side_by_side(matrices: Array) -> Array:
    """(H, d, k) as (d, H k)."""
    return matrices.transpose(1, 0, 2).reshape(matrices.shape[1], -1)


def _lost(layer: AttentionLayer, dataset: Dataset, model: FloatModel) -> tuple[float, float]:
    """What underflow adds to logits and to outputs; infinite where sums may be too large."""
    largest = {name: max(1.0, float(np.abs(w).max())) for name, w in layer.tensors.items()}
    tokens, queries = (
        max(1.0, float(np.abs(x).max())) for x in (dataset.contexts, dataset.queries)
    )
    size, width = float(dataset.context_size), float(layer.width)
    logits = width * layer.head_dim * width * tokens * largest["W_K"] * largest["W_Q"] * queries
    logits *= model.stretch
    between = float(layer.readout_weights.shape[0])
    paths = float(layer.num_heads) * width * layer.value_dim * between
    outputs = paths * tokens * largest["W_V"] * largest["W_O"] * largest["W_D"]
    fits = 2.0 * size * max(logits, outputs) * (1.0 + 2.0**-30) <= model.overflow
    if not fits:
        return math.inf, math.inf
    flushed = float(model.flushed(size))
    lost = up(np.array([_PATH * (logits + size), (flushed + _PATH) * outputs]))
    return float(lost[0]), float(lost[1])


def _moved(
    weights: _Weights,
    known: ShortSums,
    layer: AttentionLayer,
    dataset: Dataset,
    model: FloatModel,
    rows: slice,
    lost: float,
) -> tuple[Array, Array, Booleans, Array]:
    """Of some examples: how far rounded logits move outputs, eps, what is exact, max_j |x_j|."""
    tokens, queries = dataset.contexts_of(rows), dataset.queries[rows].astype(np.float64)
    heads, width = layer.num_heads, layer.width
    turned = tokens.transpose(0, 2, 1)
    logits = (queries @ weights.absorbed).reshape(-1, heads, width) @ turned
    read = up(np.abs(queries) @ weights.absorbed_sizes).reshape(-1, heads, width)
    sizes = up(read @ np.abs(turned)).max(axis=2)
    shape = width, layer.head_dim
    gamma = float(model.gamma(model.logit_roundings(*shape)))
    gamma += upward.gamma(FLOAT64.logit_roundings(*shape))
    errors = up(gamma * sizes + lost + model.exponents(dataset.context_size))
    exact = known.exact(sizes)
    errors = np.where(exact, 0.0, np.where(np.isnan(errors), np.inf, errors))
    if model.merged:
        errors = np.where(errors <= _MERGED, errors, np.inf)
    attention, growth = _attention(logits), _growth(errors)[:, :, np.newaxis]
    values = (tokens @ weights.readout).reshape(*tokens.shape[:2], heads, -1)
    moved = (
        _whole(attention * growth, values) if model.merged else _by_head(attention, growth, values)
    )
    largest = np.broadcast_to(np.abs(tokens).max(axis=1), queries.shape)
    return moved, errors.max(axis=1), exact, largest


def _by_head(attention: Array, growth: Array, values: Array) -> Array:
    """How far outputs of heads move, where attention sums to one: (T, d_out)."""
    moving = np.minimum(attention * growth, 1.0)
    middle = np.einsum("thn,tnho->tho", attention, np.broadcast_to(values, _like(values, moving)))
    middle /= attention.sum(axis=2)[..., np.newaxis]  # bounds of attention add up to more than one
    off = np.abs(values - middle[:, np.newaxis])
    near = up(np.einsum("thn,tnho->tho", up(moving), off))
    spread = values.max(axis=1) - values.min(axis=1)
    moved: Array = up(np.minimum(near, up(spread)).sum(axis=1))
    return moved


def _whole(moving: Array, values: Array) -> Array:
    """How far they move, where it does not: (T, d_out)."""
    sizes = np.broadcast_to(np.abs(values), _like(values, moving))
    moved: Array = up(up(np.einsum("thn,tnho->tho", up(moving), sizes)).sum(axis=1))
    return moved


def _like(values: Array, attention: Array) -> tuple[int, ...]:
    """The shape of values with a shared context in the place of each example's own."""
    return len(attention), *values.shape[1:]


def _attention(logits: Array) -> Array:
    """Upper bounds of softmax, of logits as they are."""
    logits = logits - logits.max(axis=2, keepdims=True)
    exponentials = exponential(logits)
    least = exponentials.sum(axis=2, keepdims=True) * (1.0 - 2.0**-30)
    bounds: Array = up(up(exponentials * (1.0 + 4.0 * EXPONENTIAL_ERROR)) / least)
    return bounds


def _growth(errors: Array) -> Array:
    """Upper bounds of exp(2 eps) - 1; infinite where that is beyond exp(700)."""
    x = 2.0 * errors
    small = up(x + x**2 / 2.0 + x**3 / 2.0)  # the rest of the series is x^3 / 6 exp(x) at most
    large = up(exponential(np.minimum(x, _LARGEST)) * (1.0 + 4.0 * EXPONENTIAL_ERROR) - 1.0)
    return np.where(x <= _SMALL, small, np.where(x <= _LARGEST, large, np.inf))
