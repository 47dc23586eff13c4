"""The layer in ball arithmetic: every number comes with a proved bound on its error.

Weights and data are exact dyadic rationals; what is enclosed is the layer in real arithmetic, all
operations included: products, exponentials, the quotient of the softmax, and the readout.

*Which tokens matter.* A head which saturates on an example leaves all tokens but one with next to
no attention. So the logits are first bounded in float64, which is rigorous too: a sum of products
evaluated in any order, with or without fused operations, is off by at most ::

    gamma sum |a| |b| ...,    gamma = k u / (1 - k u),    u = 2^-53,

for k roundings in a chain (Higham, *Accuracy and Stability of Numerical Algorithms*, section 3).
Tokens whose logits are surely less than the largest one by `prec` bits get the ball [0, 2^-prec];
exponentials are enclosed only for the others, with python-flint. The bound is not an estimate:
where it is useless (huge weights, infinities) every token counts as one that matters.

Precision is an argument, `prec` in bits, and is set only while an enclosure is computed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from constructive.data.dataset import Dataset
from constructive.exact.ball import exact_matrix
from constructive.exact.precision import working_precision
from constructive.layers.bounded import bounded_logits
from constructive.support.arrays import Array

if TYPE_CHECKING:
    from constructive.layers.attention import AttentionLayer

_CHUNK = 32
"""Examples whose logits are bounded at a time."""


class Enclosed(NamedTuple):
    """One example in balls.

    Attributes:
        example: its index
        representation: z as a row, (1, H d)
        output: f(E, e), (1, d_out)
    """

    example: int
    representation: arb_mat
    output: arb_mat


@dataclass(frozen=True, eq=False)
class BallLayer:
    """A layer ready for evaluation in balls of `prec` bits. Use `enclose_layer`.

    Attributes:
        layer: what is enclosed
        prec: bits of the balls
        products: W_Q W_K^T of each head, (d, d)
        readout: U, (H d, d_out), with f = U^T z
    """

    layer: "AttentionLayer"
    prec: int
    products: tuple[arb_mat, ...]
    readout: arb_mat

    def __call__(self, dataset: Dataset) -> Iterator[Enclosed]:
        """Enclose the layer on each example of a data set."""
        context = exact_matrix(dataset.contexts) if dataset.shared_context else None
        for start in range(0, dataset.num_examples, _CHUNK):
            rows = slice(start, min(start + _CHUNK, dataset.num_examples))
            relevant = _relevant_tokens(self.layer, dataset, rows, self.prec)
            for example in range(rows.start, rows.stop):
                tokens = context if context is not None else exact_matrix(dataset.contexts[example])
                query = dataset.queries[example]
                with working_precision(self.prec):
                    z = self._attend(tokens, query, relevant[example - start]) * tokens
                    flat = arb_mat(1, z.nrows() * z.ncols(), z.entries())
                    output = flat * self.readout
                yield Enclosed(example, flat, output)

    def _attend(self, tokens: arb_mat, query: Array, relevant: npt.NDArray[np.bool_]) -> arb_mat:
        """Softmax attention (H, n) of all heads on one example."""
        heads, size = relevant.shape
        none = _unit_interval() * arb(2) ** -self.prec
        # At most n - 1 tokens of weight at most 2^-prec each leave at least this to the only one.
        nearly_one = 1 - none * (size - 1)
        attention = [none] * (heads * size)
        row = exact_matrix(query[np.newaxis])
        transposed = None
        for head, mask in enumerate(relevant):
            index = np.flatnonzero(mask).tolist()
            if len(index) == 1:
                attention[head * size + index[0]] = nearly_one
                continue
            if transposed is None:
                transposed = tokens.transpose()
            logits = (row * self.products[head] * transposed).entries()
            reference = max(logits[i].mid() for i in index)
            weights = [(logits[i] - reference).exp() for i in index]
            # Each token left out has at most 2^-prec of the weight of one which is not.
            total = sum(weights, arb(0)) * (1 + none * (size - len(index)))
            for i, weight in zip(index, weights, strict=True):
                attention[head * size + i] = weight / total
        return arb_mat(heads, size, attention)


def enclose_layer(
    layer: "AttentionLayer", *, prec: int, corrections: tuple[Array, ...] = ()
) -> BallLayer:
    """The layer in balls; W_V is the sum of `layer.value_weights` and `corrections`, exactly.

    Args:
        layer: weights of float64 or float32
        prec: bits of the balls
        corrections: arrays (H, d, d_v); by default none
    """
    with working_precision(prec):
        products = tuple(
            exact_matrix(w_q) * exact_matrix(w_k.T)
            for w_q, w_k in zip(layer.query_weights, layer.key_weights, strict=True)
        )
        readout = effective_readout(layer, corrections=corrections)
    return BallLayer(layer, prec, products, readout)


def effective_readout(layer: "AttentionLayer", *, corrections: tuple[Array, ...] = ()) -> arb_mat:
    """U with f = U^T z: (H d, d_out), at the precision in force.

    Args:
        layer: weights of float64 or float32
        corrections: arrays (H, d, d_v), which are added to W_V; by default none
    """
    output = layer.output_weights.reshape(layer.num_heads, layer.value_dim, -1)
    last = exact_matrix(layer.readout_weights)
    entries: list[arb] = []
    for head in range(layer.num_heads):
        values = exact_matrix(layer.value_weights[head])
        for correction in corrections:
            values += exact_matrix(correction[head])
        entries += (values * (exact_matrix(output[head]) * last)).entries()
    return arb_mat(layer.num_heads * layer.width, layer.target_dim, entries)


def intermediate(enclosed: BallLayer, dataset: Dataset) -> arb_mat:
    """Z in balls: (T, H d).

    Args:
        enclosed: the layer in balls
        dataset: T examples which fit it
    """
    entries: list[arb] = []
    for row in enclosed(dataset):
        entries += row.representation.entries()
    return arb_mat(dataset.num_examples, len(entries) // dataset.num_examples, entries)


def _unit_interval() -> arb:
    """The ball [0, 1]."""
    return arb(0.5, 0.5)


def _relevant_tokens(
    layer: "AttentionLayer", dataset: Dataset, rows: slice, prec: int
) -> npt.NDArray[np.bool_]:
    """Tokens whose attention may exceed 2^-prec: (rows, H, n); at least one of each head."""
    with np.errstate(all="ignore"):  # an overflow makes every token relevant
        logits, bound = bounded_logits(layer, dataset, rows)
        top = logits.argmax(axis=2)[:, :, np.newaxis]
        least_of_top = np.take_along_axis(logits - bound, top, axis=2)
        # log(2) < 0.7. Both sides below are rounded by 2^-53 of their own sizes; whichever is
        # larger, 1 + 1e-9 |least_of_top| is more than that can decide.
        margin = 0.7 * prec + 1.0 + 1e-9 * np.abs(least_of_top)
        dropped: npt.NDArray[np.bool_] = logits + bound < least_of_top - margin
    return ~dropped
