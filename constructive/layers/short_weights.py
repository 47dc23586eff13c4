"""Weights of so few bits that all logits on some data are exact in float32."""

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact.dyadic import granularity
from constructive.exact.models import FLOAT32
from constructive.exact.upward import up
from constructive.layers.exact_logits import exact_logits
from constructive.layers.views import examples
from constructive.support.arrays import Array, row_chunks
from constructive.support.errors import DataError

_MOST_BITS = 8  # Of entries of W_Q and W_K: more are of no use


def shortened(weights: tuple[Array, Array], dataset: Dataset) -> tuple[Array, Array]:
    """Round W_Q and W_K to so few bits that all logits on the data are exact in float32.

    Each head has a power of two of its own for W_Q, and one for W_K; its largest entries have up to
    8 bits, as many as all heads can have. Raises DataError where data have so many bits that
    weights of one bit are too long.

    Example:
        >>> data = Dataset([[1.0, 2.0], [0.5, 4.0]], [[1.0, 1.0]], [0.0])
        >>> shortened((np.full((1, 2, 1), 0.7), np.full((1, 2, 1), 1 / 3)), data)[1].tolist()
        [[[0.333984375], [0.333984375]]]
    """
    for bits in range(_MOST_BITS, 0, -1):
        w_q, w_k = (_rounded(w, bits) for w in weights)
        if _all_exact((w_q, w_k), dataset):
            return w_q, w_k
    found = {
        name: int(np.frexp(np.abs(array).max())[1]) - granularity(array)
        for name, array in (("contexts", dataset.filled.contexts), ("queries", dataset.queries))
    }
    width, inner = weights[0].shape[1:]
    words = " and ".join(f"{name} of {bits} bits" for name, bits in found.items())
    raise DataError(
        f"logits are not exact in float32: sums of {width} x {width} x {inner} products of {words} "
        f"with weights of one bit are longer than {FLOAT32.storage.digits} bits",
        witness=found,
        suggestion="contexts and queries of few bits, such as np.rint(8 * x) / 8, a smaller "
        "head_dim=, or exact_logits=False",
    )


def _rounded(weights: Array, bits: int) -> Array:
    """To multiples of a power of two for each head, up to 2^bits of it."""
    units = np.frexp(np.abs(weights).max(axis=(1, 2), keepdims=True))[1] - bits
    rounded: Array = np.ldexp(np.rint(np.ldexp(weights, -units)), units)
    return rounded


def _all_exact(weights: tuple[Array, Array], dataset: Dataset) -> bool:
    """Return whether all logits of all examples are exact, each with its own sizes."""
    dataset = dataset.filled  # who sees which tokens does not matter
    known = exact_logits(weights, examples(dataset.contexts, dataset.queries))
    if not known.before(FLOAT32).all():
        return False
    w_q, w_k = (np.abs(w).transpose(1, 0, 2) for w in weights)
    heads, width, _ = weights[0].shape
    matrix = up(np.einsum("dhk,ehk->dhe", w_q, w_k)).reshape(width, -1)
    for rows in row_chunks(dataset.num_examples, 8 * heads * (width + dataset.context_size)):
        queries = np.abs(dataset.queries[rows]).astype(np.float64)
        tokens = np.abs(dataset.contexts_of(rows)).transpose(0, 2, 1)
        read = up(queries @ matrix).reshape(-1, heads, width)
        if not known.logits(up(read @ tokens).max(axis=2)).exact(FLOAT32.storage).all():
            return False
    return True
