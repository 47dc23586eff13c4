"""What float32 does to a layer, at most: on each example, whatever order its products are taken in.

Rounding acts twice: on attention, since logits are rounded, and on sums of what it weighs.

*Logits* are off by eps at most (`layers.exact_logits`), and move the output of a head, the average
of the values U_h^T x_j, by no more than `exact.arithmetics.rounded` says.

*Sums.* From the logits that were computed, an evaluation gives averages with a relative error of
zeta (`FloatModel.average`), and a product of four factors with sums over entries, heads and values:
k roundings at most (`FloatModel.output_roundings`), in any order that the model allows (values
first; or averages first; or U first). So it is off by at most ::

    ((1 + zeta) (1 + gamma_k) - 1)  sum_h (|W_V||W_O||W_D|)_h^T  max_j |x_j|

and by a part of exp(2 eps) - 1 more where parts are merged, as averages are then of sizes that are
larger by that part.

*Underflow* takes 2^-120 from each path of a product (`layers.exact_logits`). Nothing is bounded
where the largest entries of a path, times the number of paths and 2 n, are beyond float32: numbers
on the way may be infinite.

What float64 rounds here is added, with its own gamma. Source: Higham, *Accuracy and Stability of
Numerical Algorithms*, 2nd ed., sections 3.1 and 3.5.
"""

import math
from dataclasses import dataclass

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import upward
from constructive.exact.arithmetics.floats import side_by_side
from constructive.exact.arithmetics.rounded import Rounded, growth
from constructive.exact.float_model import FloatModel
from constructive.exact.models import FLOAT64
from constructive.exact.upward import up
from constructive.layers.attend import attend
from constructive.layers.attention import AttentionLayer
from constructive.layers.exact_logits import PATH, exact_logits
from constructive.layers.views import examples
from constructive.support.arrays import CHUNK_BYTES, Array
from constructive.support.progress import report

# Errors up to which merged parts have a bound: times exp(500), the 2^-1000 that `up` adds is
# nothing still, so that a checker, who adds it more often, finds as much.
_MERGED = 250.0


@dataclass(frozen=True, eq=False)
class Rounding:
    """Bounds of what rounding does to the outputs; infinite where nothing is bounded."""

    logits: Array  # by the rounding of logits (T, d_out)
    sums: Array  # by everything else (T, d_out)
    logit_errors: Array  # eps of the head whose logits are off most (T,)
    exact: float  # the share of logits of heads on examples that are exact, 1 where all are

    @property
    def bounds(self) -> Array:
        """Both together, rounded up: (T, d_out)."""
        together = up(self.logits + self.sums)
        return np.where(np.isnan(together), np.inf, together)


def rounding(
    layer: AttentionLayer, dataset: Dataset, model: FloatModel, *, chunk_bytes: int = CHUNK_BYTES
) -> Rounding:
    """Bound how far an evaluation is from real arithmetic with the stored weights and data.

    The model is one that stores no numbers in fewer bits.

    Example:
        >>> from constructive import build_memorizer, generators
        >>> from constructive.exact.models import FLOAT32
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
        >>> layer = build_memorizer(data, num_heads=3).layer
        >>> float(rounding(layer, data, FLOAT32).bounds.max()) < 1e-3
        True
    """
    total, size, outputs = dataset.num_examples, dataset.context_size, layer.target_dim
    view, weights = examples(dataset.contexts, dataset.queries), layer.tensors
    shape = layer.width, layer.head_dim
    own = upward.gamma(FLOAT64.logit_roundings(*shape))
    moved, errors = np.empty((total, outputs)), np.empty(total)
    largest, exact = np.empty((total, layer.width)), 0
    with np.errstate(all="ignore"):  # what is infinite, or no number, bounds nothing
        w_v, w_o, w_d = (weights[name].astype(np.float64) for name in ("W_V", "W_O", "W_D"))
        w_o = w_o.reshape(layer.num_heads, layer.value_dim, -1)
        known = exact_logits((layer.query_weights, layer.key_weights), view)
        short = known.before(model)

        def off(sizes: Array) -> Array:
            eps = known.errors(model, size, sizes, own)
            eps = np.where(short & known.logits(sizes).exact(model.storage), 0.0, eps)
            return np.where(eps <= _MERGED, eps, np.inf) if model.merged else eps

        entries = layer.num_heads * (4 * size + 2 * layer.width + 2 * size * outputs)
        numbers = layer.num_heads * (2 * layer.width + size)
        arithmetic = Rounded(
            off,
            side_by_side(w_v @ w_o @ w_d),
            merged=model.merged,
            itemsize=-(-8 * (entries + size * outputs) // numbers),
        )
        pairs = layer.query_weights, layer.key_weights
        for chunk in attend(arithmetic, pairs, view, chunk_bytes=chunk_bytes):
            rows, by_head = chunk.rows, chunk.representation
            report("bound the rounding", rows.start, total)
            moved[rows], errors[rows] = up(by_head.bounds.sum(axis=1)), by_head.errors.max(axis=1)
            exact += int(np.count_nonzero(by_head.errors == 0.0))
            largest[rows] = np.abs(view.tokens[chunk.block.groups]).max(axis=1)
        report("bound the rounding", total, total)
        sizes = up(up(np.abs(w_v) @ np.abs(w_o)) @ np.abs(w_d))
        reach = up(largest @ up(sizes.sum(axis=0)))
        if model.merged:
            reach = up(reach * (1.0 + growth(errors)[:, np.newaxis]))
        steps = layer.num_heads, size, layer.width, layer.value_dim, len(w_d)
        zeta, gamma = float(model.average(size)), float(model.gamma(model.output_roundings(*steps)))
        ours = (size + 2.0) * upward.gamma(FLOAT64.output_roundings(*steps))
        relative = (zeta + gamma + zeta * gamma + ours) * (1.0 + 2.0**-30)
        tops = float(largest.max()), known.paths * model.stretch
        sums = up(relative * reach + _lost(layer, model, size, *tops))
    return Rounding(moved, sums, errors, exact / (total * layer.num_heads))


def _lost(
    layer: AttentionLayer, model: FloatModel, size: int, entry: float, logits: float
) -> float:
    """Bound what underflow adds to outputs; infinite where sums of paths may be too large.

    Entries of tokens are at most `entry`, and the paths of a logit together at most `logits`.
    """
    tops = {name: max(1.0, float(np.abs(w).max())) for name, w in layer.tensors.items()}
    paths = float(layer.num_heads) * layer.width * layer.value_dim * len(layer.readout_weights)
    outputs = paths * max(1.0, entry) * tops["W_V"] * tops["W_O"] * tops["W_D"]
    if not 2.0 * size * max(logits, outputs) * (1.0 + 2.0**-30) <= model.overflow:
        return math.inf
    return float(up(np.array((float(model.flushed(size)) + PATH) * outputs)))
