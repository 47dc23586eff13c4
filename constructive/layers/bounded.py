"""The layer in float64, with a-priori bounds of how far that is from real arithmetic.

What balls cost is a Python object for each number; here all examples go through BLAS, and bounds of
the rounding of all steps are products of sizes, as in Higham, *Accuracy and Stability of Numerical
Algorithms*, sections 3.1 and 3.5. A sum of k products is off by at most ::

    gamma_k sum |a| |b|,    gamma_k = k u / (1 - k u),    u = 2^-53,

in whatever order, and with or without fused operations.

*Logits* are x^T (W_K W_Q^T) e. Where heads are sharp, they are large, and so are their errors; of
those which are not certain of one token, logits are computed anew with compensated products, as if
in twice the precision (`exact.compensated`).

*Contexts* are taken times a power of two, 2^(-a_t), with which their entries are below 1. So are
those of z then, and of values z^T U the size is that of U. Dividing loses at most 2^-1075 of an
entry.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from constructive.data.dataset import Dataset
from constructive.exact.compensated import dot
from constructive.exact.softmax import differences, shares
from constructive.exact.upward import LONGEST, TINY, UNIT, gamma, up
from constructive.support.arrays import CHUNK_BYTES, Array

if TYPE_CHECKING:
    from constructive.layers.attention import AttentionLayer

_GOOD_ENOUGH = 2.0**-44
"""Error of attention above which logits are computed anew, in twice the precision."""


class Enclosed(NamedTuple):
    """Some examples, all divided by 2^(a_t).

    Attributes:
        rows: which ones
        representation: z (k, H, d)
        error: bounds of the error of its entries (k, H)
        outputs: U^T z (k, d_out)
        output_error: bounds of their errors (k, d_out), with what U is off by
    """

    rows: slice
    representation: Array
    error: Array
    outputs: Array
    output_error: Array


@dataclass(frozen=True, eq=False)
class BoundedLayer:
    """A layer ready for evaluation in float64 with bounds.

    Attributes:
        layer: W_Q and W_K, in float64 or float32
        readout: U (H, d, d_out), as float64 has it
        readout_error: bounds of what its entries are off by (H, d, d_out)
    """

    layer: "AttentionLayer"
    readout: Array
    readout_error: Array

    def __call__(
        self,
        dataset: Dataset,
        exponents: npt.NDArray[np.int64],
        *,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> Iterator[Enclosed]:
        """Evaluate the layer on a data set, some examples at a time.

        Args:
            dataset: T examples which fit it
            exponents: a_t (T,), so that the entries of E_t are below 2^(a_t) in size
            chunk_bytes: about the size of temporary arrays, in bytes; by default 4 MiB
        """
        largest = self.layer.num_heads * max(dataset.context_size, dataset.width)
        step = max(1, chunk_bytes // (8 * largest))
        for start in range(0, dataset.num_examples, step):
            rows = slice(start, min(start + step, dataset.num_examples))
            # What overflows or is not a number is not below any bound.
            with np.errstate(all="ignore"):
                yield self._enclosed(dataset, rows, exponents[rows])

    def _enclosed(
        self, dataset: Dataset, rows: slice, exponents: npt.NDArray[np.int64]
    ) -> Enclosed:
        contexts = dataset.contexts_of(rows)
        attention, error = self._attention(dataset, rows, contexts)
        scale = exponents[: len(contexts), np.newaxis, np.newaxis]
        z = attention @ np.ldexp(contexts, -scale)
        # Where one token has all attention, products with 1 and zeros are exact.
        exact = ((attention == 0.0) | (attention == 1.0)).all(axis=2)
        error = up(error + np.where(exact, 0.0, 2.0 * gamma(dataset.context_size + 2)))
        turned = z.transpose(1, 0, 2)
        outputs = _pairwise(turned @ self.readout)
        sizes = up(_pairwise(np.abs(turned) @ np.abs(self.readout)))
        terms = dataset.width + self.layer.num_heads.bit_length() + 2
        per_head = up(np.abs(self.readout).sum(axis=1))
        off_readout = up(self.readout_error.sum(axis=(0, 1)))
        if self.readout.shape[0] * self.readout.shape[1] > LONGEST:
            off_readout = np.full_like(off_readout, np.inf)
        output_error = up(gamma(terms) * sizes + up(error @ per_head) + off_readout)
        return Enclosed(rows, z, error, outputs, output_error)

    def _attention(self, dataset: Dataset, rows: slice, contexts: Array) -> tuple[Array, Array]:
        """Attention (k, H, n), and bounds of the sum of its errors (k, H)."""
        logits, bounds = bounded_logits(self.layer, dataset, rows)
        top = logits.argmax(axis=2)[:, :, np.newaxis]
        attention, error = shares(*differences(logits, np.zeros_like(logits), bounds, top), top)
        examples, heads = np.nonzero(~(error <= _GOOD_ENOUGH))
        shape = self.layer.query_weights.shape[1:]
        step = max(1, CHUNK_BYTES // (8 * max(np.prod(shape), contexts[0].size)))
        queries = dataset.queries[rows].astype(np.float64, copy=False)
        for start in range(0, len(examples), step):
            chosen, head = examples[start : start + step], heads[start : start + step]
            tokens = contexts[chosen] if len(contexts) > 1 else contexts
            high, low, bound = self._sharper_logits(tokens, queries[chosen], head)
            above = high.argmax(axis=1)[:, np.newaxis]
            better = shares(*differences(high, low, bound, above), above)
            attention[chosen, head], error[chosen, head] = better
        return attention, error

    def _sharper_logits(
        self, tokens: Array, queries: Array, heads: npt.NDArray[np.int64]
    ) -> tuple[Array, Array, Array]:
        """Logits (k, n) of one head on each example, as a sum of two, and bounds of its error."""
        w_q = self.layer.query_weights[heads].astype(np.float64, copy=False)
        w_k = self.layer.key_weights[heads].astype(np.float64, copy=False)
        read = dot(queries[:, np.newaxis], w_q.transpose(0, 2, 1))
        absorbed = _times(w_k, *read)
        return _times(tokens, *absorbed)


def bounded_logits(layer: "AttentionLayer", dataset: Dataset, rows: slice) -> tuple[Array, Array]:
    """Logits of some examples in float64, and bounds of their errors: both (k, H, n).

    Args:
        layer: W_Q and W_K, in float64 or float32
        dataset: T examples which fit the layer
        rows: which of them
    """
    double = np.float64
    w_q = layer.query_weights.astype(double, copy=False)
    w_k = layer.key_weights.astype(double, copy=False)
    queries = dataset.queries[rows].astype(double, copy=False)
    contexts = dataset.contexts_of(rows)
    logits = _logits(w_q, w_k, contexts, queries)
    sizes = _logits(np.abs(w_q), np.abs(w_k), np.abs(contexts), np.abs(queries))
    roundings = layer.head_dim + 2 * layer.width + 16
    # Twice gamma, for `sizes` is rounded as well. The last term is for what underflows: at most
    # 3 d^2 d_h products lose 2^-1075 each, times what they are multiplied by; W_Q W_K^T has
    # d^2 entries, and W_Q d d_h, in memory, so that d^2 d_h < 2^70.
    bounds = 2.1 * roundings * UNIT * sizes
    bounds += TINY * (1 + np.abs(contexts).max()) * (1 + np.abs(queries).max())
    return logits, bounds


def _logits(w_q: Array, w_k: Array, contexts: Array, queries: Array) -> Array:
    absorbed = w_q @ w_k.transpose(0, 2, 1)
    per_head = np.einsum("td,hde->the", queries, absorbed, optimize=True)
    logits: Array = per_head @ contexts.transpose(0, 2, 1)
    return logits


def _times(matrices: Array, high: Array, low: Array, off: Array) -> tuple[Array, Array, Array]:
    """The products (k, m) of matrices (k, m, i) with vectors (k, i) that are high + low."""
    found, rest, bound = dot(matrices, high[:, np.newaxis])
    sizes = np.abs(matrices)
    small, spread = (
        np.matmul(sizes, each[:, :, np.newaxis])[..., 0] for each in (np.abs(low), off)
    )
    rest = rest + np.matmul(matrices, low[:, :, np.newaxis])[..., 0]
    # The sum of both rests is rounded, too: by u times less than gamma times sizes.
    rounded = gamma(matrices.shape[2] + 3) * up(small) + 2.0 * UNIT * np.abs(rest)
    return found, rest, up(bound + up(spread) + up(rounded))


def _pairwise(parts: Array) -> Array:
    """The sum over the first axis by halves: each term is in ceil(log2 H) sums."""
    while len(parts) > 1:
        half = len(parts) // 2
        added = parts[:half] + parts[half : 2 * half]
        parts = added if 2 * half == len(parts) else np.concatenate([added, parts[2 * half :]])
    total: Array = parts[0]
    return total
