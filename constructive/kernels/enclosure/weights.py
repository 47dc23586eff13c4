"""Weights: exponentials of our logits, and kappa, how far those of a kernel may be from them."""

import math
from dataclasses import dataclass

import numpy as np

from constructive.exact.kernel_model import KernelModel
from constructive.exact.upward import up
from constructive.kernels.enclosure.logits import OWN, OWN_EXP, LogitErrors, Logits
from constructive.kernels.enclosure.rows import Rows
from constructive.support.arrays import Array

WIDE = 50.0  # Where kappa is more, only the hull of values bounds an average
FAR = 100.0  # Keys whose exponents are lower by more have no weight that matters
_HALF = 0.5  # By which the exponent of the largest logit may be off: beyond it nothing is proved
_NARROW = 0.125  # Where kappa is less, exp(kappa) - 1 <= kappa / (1 - kappa / 2) is as good


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of reference, and how far those of a kernel may be from them; rows are (P, R, 1)."""

    p: Array  # (P, R, T) exponentials of our logits less the largest
    total: Array  # their sum, with that of a sink
    mean: Array  # of kappa, by weight
    root: Array  # G, the root of the mean of (exp(kappa) - 1)^2; infinite where kappa is wide
    least: Array  # a lower bound of a kernel's denominator
    count: Array  # n, visible keys and a sink
    blocks: Array  # R, those with a visible key
    merges: Array  # what merging by logsumexp does to weights, as a part of them


def weights(rows: Rows, logits: Logits, of_logits: LogitErrors, model: KernelModel) -> Weights:
    """Return weights and their errors; the arrays of `logits` are used up."""
    values, errors, sinks = logits.values, logits.errors, rows.sinks
    count, top = _seen(rows, values)
    blocks = np.minimum(count, math.ceil(rows.keys / model.block) + 1.0 + (sinks is not None))
    largest = np.maximum(logits.largest, np.abs(top)) if sinks is not None else logits.largest
    worst = logits.worst
    shared = _shared(largest + worst, blocks, of_logits, model)
    below = largest > np.abs(top) + 2.0 * FAR
    if (below | (worst + shared > WIDE)).any():
        _drop_far(values, errors, shared + _merging(largest + worst, count, model))
        largest = np.abs(np.where(np.isinf(values), 0.0, values)).max(-1, keepdims=True)
        if sinks is not None:
            largest = np.maximum(largest, np.abs(top))
        worst = errors.max(-1, keepdims=True)
        shared = _shared(largest + worst, blocks, of_logits, model)
    kappa = up(worst + shared)
    apart, sink = np.zeros_like(top), np.zeros_like(top)
    if sinks is not None:
        # X of Theorem 17 where it is the size of a sink below all logits: only its weight has it.
        size = OWN + of_logits.rounded + 6.0 * model.unit * model.merged
        apart = up((of_logits.last + size) * np.abs(sinks))
        far = shared + 2.0 * _merging(largest + np.abs(sinks), count, model)  # for both
        matters = sinks + apart + far >= top - kappa - FAR
        apart = np.where(matters, apart, 0.0)
        sink = np.where(matters, np.exp(sinks - top), 0.0)
        kappa = np.maximum(kappa, up(apart + shared))
    p = np.exp(np.subtract(values, top, out=values), out=values)
    total = p.sum(-1, keepdims=True) + sink
    total[total == 0.0] = 1.0  # no key is seen
    weighted = p * errors
    mean = (weighted.sum(-1, keepdims=True) + sink * apart) / total
    if (kappa <= _NARROW).all():
        squares = np.einsum("prt,prt->pr", weighted, errors)[..., None] + sink * apart**2
        root = np.sqrt(up(squares / total + shared * (2.0 * mean + shared)))
        root = up(root / (1.0 - kappa / 2.0))
    else:
        grown = np.expm1(np.minimum(errors + shared, WIDE))
        squares = np.einsum("prt,prt,prt->pr", p, grown, grown)[..., None]
        squares += sink * np.expm1(np.minimum(apart + shared, WIDE)) ** 2
        root = up(np.sqrt(up(squares / total)))
    wide = kappa > WIDE
    fallen = of_logits.rounded * (largest + worst + 2.0 * model.lag) + _exponentials(blocks, model)
    least = _least(
        up(fallen),
        np.where(wide, 0.0, total * np.exp(-mean - shared - kappa)),
        count,
        model,
    )
    mean, root = np.where(wide, 0.0, up(mean + shared)), np.where(wide, np.inf, root)
    # A sink may be put in at the end, by another exponential of a difference of logarithms.
    merging = _merging(largest + kappa, count, model) * (1.0 + (sinks is not None))
    merges = up(np.expm1(np.minimum(merging, WIDE)))
    return Weights(p, total, mean, root, least, count, blocks, merges)


def _seen(rows: Rows, values: Array) -> tuple[Array, Array]:
    """How many keys a row sees, and the largest of its logits."""
    top = values.max(-1, keepdims=True)
    count = np.full(top.shape, float(values.shape[-1]))
    if rows.visible is not None:
        count = np.count_nonzero(rows.visible, axis=-1, keepdims=True).astype(np.float64)
        top = np.where(count > 0.0, top, 0.0)
    return (count, top) if rows.sinks is None else (count + 1.0, np.maximum(top, rows.sinks))


def _shared(largest: Array, blocks: Array, of_logits: LogitErrors, model: KernelModel) -> Array:
    """Bound what the keys of a row have in common in kappa."""
    near = largest + 2.0 * model.lag
    parts = np.maximum(_exponentials(blocks, model), 0.0)
    own = OWN * largest + OWN_EXP
    return up(of_logits.rounded * near + parts + own + of_logits.flushed)


def _exponentials(blocks: Array, model: KernelModel) -> Array:
    """Bound the logarithm of what errors of exponentials do to a weight."""
    parts = model.exp_error + (blocks - 1.0) * model.rescale_error
    # |log(1 + x)| <= |x| / (1 - |x|); and two roundings to spare.
    return parts / (1.0 - max(model.exp_error, model.rescale_error)) + 2.0 * model.unit


def _drop_far(values: Array, errors: Array, shared: Array) -> None:
    """Hide keys that have no weight, whatever the errors are."""
    low = (values - errors).max(-1, keepdims=True) - shared
    far = values + errors + shared < low - FAR
    values[far], errors[far] = -np.inf, 0.0


def _least(fallen: Array, total: Array, count: Array, model: KernelModel) -> Array:
    """Bound a denominator from below, as it is summed from weights before or after storage.

    The largest logit has the exponential 1, or with a fused l - m that of a rounding.
    """
    least = np.exp(-np.minimum(fallen, _HALF)) * (1.0 - model.stored_unit) * (1.0 - OWN_EXP)
    if not model.stores_divided:
        kept = total * (1.0 - model.weight_error) * (1.0 - OWN_EXP) - count * model.stored_tiny
        least = np.maximum(least, kept)
    return np.where(fallen <= _HALF, least, 0.0)


def _merging(logits: Array, count: Array, model: KernelModel) -> Array:
    """Bound what merging by logsumexp does to the exponent of a weight.

    Six roundings of logits and all that logarithms do (`FloatModel.exponents`; sums are from 1/2 to
    2 n), and two exponentials that rescale, with -log(1 - x) <= 3 x / 2 for x <= 1/3.
    """
    if not model.merged:
        return np.zeros_like(logits)
    return 6.0 * model.unit * logits + model.exponents(2.0 * count) + 3.0 * model.rescale_error
