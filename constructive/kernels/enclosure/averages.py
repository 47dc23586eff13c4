"""Errors of averages of values: weights, their storage, sums and divisions."""

import numpy as np

from constructive.exact.kernel_model import KernelModel
from constructive.exact.upward import gamma, up
from constructive.kernels.enclosure.logits import OWN_EXP
from constructive.kernels.enclosure.rows import Rows, above
from constructive.kernels.enclosure.weights import FAR, Weights
from constructive.support.arrays import Array

_HALF = 0.5  # Beyond it a relative error is not small


def averages(rows: Rows, weights: Weights, model: KernelModel) -> tuple[Array, Array]:
    """Return averages by our weights, and how far a kernel's may be from them, unrounded."""
    inverse, unit = 1.0 / weights.total, np.ldexp(1.0, rows.exponents[2])
    center = weights.p @ rows.v
    center *= inverse
    sizes = above(weights.p, rows.sizes_of_v)
    sizes *= inverse
    mean, square = np.split(sizes, 2, axis=-1)  # of |v| and of v^2, in units
    own, reduced = gamma(rows.v.shape[1] + 8), center / unit
    # The square of `center` is off by 4 own square; and |o| + sd is covered below.
    deviation = np.sqrt(up(np.maximum(square - reduced * reduced, 0.0) + 16.0 * own * square))
    deviation *= unit
    mean *= unit
    bottom, top = rows.v.min(-2, keepdims=True), rows.v.max(-2, keepdims=True)
    if rows.sinks is not None:
        bottom, top = np.minimum(bottom, 0.0), np.maximum(top, 0.0)
    spread, most = up(top - bottom), np.maximum(top, -bottom)
    grown, root = np.exp(weights.mean) * (1.0 + OWN_EXP), weights.root
    with np.errstate(invalid="ignore"):  # infinite times zero; fmin takes the other bound then
        moved = np.fmin(grown * root * deviation, spread)
        terms = np.fmin(grown * (mean + root * (deviation + np.abs(center))), most)
        apart = np.fmin(grown * (1.0 + root) * deviation + moved, spread)
        theta = model.weight_error
        stored = theta / (1.0 - theta) * np.maximum(terms, apart)
        terms *= (1.0 + theta) / (1.0 - theta)
        each = (1.0 + model.unit) * (1.0 + model.operand_unit) * (1.0 + weights.merges) - 1.0
        stored += each * terms
        terms *= 1.0 + each
        reached = np.abs(center) + moved + stored
        summed, divided = _sums(terms, reached, weights, model)
        ratio = (1.0 + model.gamma(4 + 2 * model.merged)) / (1.0 - np.minimum(divided, _HALF)) - 1.0
        ratio = np.where(divided < _HALF, ratio, np.inf)
        summed += _lost(weights, model, most)
        distance = up(moved + stored + (1.0 + ratio) * summed + ratio * reached + 4.0 * own * mean)
    return center, np.where(np.isnan(distance), np.inf, distance)


def _sums(
    terms: Array, reached: Array, weights: Weights, model: KernelModel
) -> tuple[Array, Array]:
    """Bound the error of a numerator, and the relative one of a denominator."""
    rescaled = 2.0 * (1 + model.merged) * weights.blocks
    rounded = weights.count + rescaled
    summed = model.sums(rounded) / 2.0 * (terms + reached)
    divided = model.gamma(rounded)
    if model.depth is not None:
        levels = np.minimum(model.depth + rescaled, rounded)
        summed = np.fmin(summed, model.sums(levels) * terms)
        divided = np.minimum(divided, model.gamma(levels))
    return summed, divided


def _lost(weights: Weights, model: KernelModel, most: Array) -> Array:
    """Bound what underflows in sums and in storage, and what keys without weight may add."""
    count = weights.count + 1.0
    flushed = 2.0**13 * count * (weights.blocks + 1.0) * model.smallest * (1.0 + most)
    with np.errstate(divide="ignore"):
        lost: Array = (flushed + 2.0 * count * model.stored_tiny * most) / weights.least
    lost += 2.0**-FAR * most
    return lost
