"""Logits without any rounding: where all that is summed on the way is a short integer in its unit.

Let all entries of contexts be multiples of a power of two, and so those of queries, and of W_Q and
of W_K of a head. Then every product and every partial sum on the way to a logit x^T W_K W_Q^T e is
a multiple of the product of some of these units. Where the sizes of the terms add up to less than
2^24 such units, and the unit is a normal number, float32 holds every partial sum, whatever the
order; so it makes no error, and nothing underflows. These are looked at:

    entries themselves, as they are rounded first
    W_Q^T e, W_K^T x        d terms
    W_K W_Q^T               d_h terms
    W_K W_Q^T e, W_Q W_K^T x        d d_h terms, one product or two
    logits, and differences of two        2 d^2 d_h terms

The last is looked at for each example with its own sizes; the others with the largest sizes that
any example has in an entry.

Where any arrays may be multiplied first (`Contraction.free`), a partial sum has some factors and
sums over some indices. In its own unit it is at most the product of all four largest entries in
their units, times d^2 d_h: so that product has to be less than 2^24, too, and products of units
have to be normal numbers. Where a model scales or merges, exponents have errors anyway.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from constructive.data.dataset import Dataset
from constructive.exact.dyadic import granularity
from constructive.exact.float_model import FloatModel
from constructive.exact.models import FLOAT32
from constructive.exact.upward import up
from constructive.support.arrays import CHUNK_BYTES, Array
from constructive.support.errors import DataError

Booleans = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

_MOST_BITS = 8
"""Of entries of W_Q and W_K which are made short: more are of no use."""


@dataclass(frozen=True, eq=False)
class ShortSums:
    """What is known of the logits of all heads on some data.

    Attributes:
        model: how evaluation rounds
        exponents: those of the units of logits (H,)
        heads: for which heads all is exact but what the sizes of logits decide (H,)
    """

    model: FloatModel
    exponents: Integers
    heads: Booleans

    def exact(self, sizes: Array) -> Booleans:
        """Which logits are exact, and so are differences of two.

        Args:
            sizes: bounds of |x|^T |W_K| |W_Q|^T |e|, the largest over tokens (T, H)
        """
        return self.heads & _fit(self.model, self.exponents, 2.0 * sizes)


def short_sums(weights: tuple[Array, Array], dataset: Dataset, model: FloatModel) -> ShortSums:
    """Look at all sums on the way to logits, with the largest sizes of entries.

    Args:
        weights: W_Q and W_K (H, d, d_h)
        dataset: T examples of width d
        model: how evaluation rounds; one that stores no numbers in fewer bits

    Example:
        >>> data = Dataset([[1.0, 2.0], [0.5, 4.0]], [[1.0, 1.0]], [0.0])
        >>> whole, third = np.full((1, 2, 1), 3.0), np.full((1, 2, 1), 1 / 3)
        >>> [bool(short_sums((w, whole), data, FLOAT32).heads.all()) for w in (whole, third)]
        [True, False]
    """
    w_q, w_k = (w.astype(np.float64) for w in weights)
    x, e = (granularity(array) for array in (dataset.contexts, dataset.queries))
    q, k = (np.array([granularity(w) for w in each]) for each in (w_q, w_k))
    tokens, queries = _sizes(dataset.contexts), _sizes(dataset.queries)
    w_q, w_k = np.abs(w_q), np.abs(w_k)
    matrix = up(w_q @ w_k.transpose(0, 2, 1))
    sums = (
        (x, tokens.max()), (e, queries.max()), (q, _top(w_q)), (k, _top(w_k)),
        (e + q, _top(up(queries @ w_q))), (x + k, _top(up(tokens @ w_k))),
        (q + k, _top(matrix)),
        (e + q + k, _top(up(queries @ matrix))), (x + q + k, _top(up(matrix @ tokens))),
    )  # fmt: skip
    heads = np.full(len(w_q), model.keeps_logits)
    for unit, size in sums:
        heads &= _fit(model, unit, size)
    if model.contraction.free:
        units = np.broadcast_arrays(x, e, q, k)
        whole = up(tokens.max() * queries.max() * _top(w_q) * _top(w_k) * float(matrix[0].size))
        heads &= _fit(model, sum(units), up(whole * w_q.shape[2]))
        heads &= _normal(model, sum(np.minimum(unit, 0) for unit in units))
    return ShortSums(model, x + e + q + k, heads)


def _sizes(array: Array) -> Array:
    """The largest size of each entry of vectors (..., d)."""
    rows = array.reshape(-1, array.shape[-1])
    sizes: Array = np.maximum(rows.max(axis=0), -rows.min(axis=0)).astype(np.float64)
    return sizes


def _top(array: Array) -> Array:
    """The largest entry of each head."""
    largest: Array = array.reshape(len(array), -1).max(axis=1)
    return largest


def _fit(model: FloatModel, exponents: npt.ArrayLike, sizes: npt.ArrayLike) -> Booleans:
    """Whether all multiples of 2^e of such sizes are zero or normal numbers of the format."""
    exponents, sizes = np.asarray(exponents), np.asarray(sizes)
    bits = np.frexp(sizes)[1] - exponents  # of what is infinite, or no number, they mean nothing
    short = (bits <= model.storage.digits) & (sizes <= model.storage.largest)
    fits: Booleans = short & _normal(model, exponents)
    return fits


def _normal(model: FloatModel, exponents: npt.ArrayLike) -> Booleans:
    """Whether 2^e are normal numbers."""
    normal: Booleans = np.asarray(exponents) > np.frexp(model.smallest)[1] - 2  # of 1/2 2^-125
    return normal


def shortened(
    weights: tuple[Array, Array], dataset: Dataset, *, chunk_bytes: int = CHUNK_BYTES
) -> tuple[Array, Array]:
    """Round W_Q and W_K to so few bits that all logits on the data are exact in float32.

    Each head has a power of two of its own for W_Q, and one for W_K; its largest entries have up to
    8 bits, as many as all heads can have.

    Args:
        weights: W_Q and W_K (H, d, d_h)
        dataset: T examples of width d
        chunk_bytes: about the size of temporary arrays, in bytes; by default 4 MiB

    Raises:
        DataError: where data have so many bits that weights of one bit are too long

    Example:
        >>> data = Dataset([[1.0, 2.0], [0.5, 4.0]], [[1.0, 1.0]], [0.0])
        >>> shortened((np.full((1, 2, 1), 0.7), np.full((1, 2, 1), 1 / 3)), data)[1].tolist()
        [[[0.333984375], [0.333984375]]]
    """
    for bits in range(_MOST_BITS, 0, -1):
        w_q, w_k = (_rounded(w, bits) for w in weights)
        if _all_exact((w_q, w_k), dataset, chunk_bytes):
            return w_q, w_k
    found = {
        name: int(np.frexp(np.abs(array).max())[1]) - granularity(array)
        for name, array in (("contexts", dataset.contexts), ("queries", dataset.queries))
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


def _all_exact(weights: tuple[Array, Array], dataset: Dataset, chunk_bytes: int) -> bool:
    sums = short_sums(weights, dataset, FLOAT32)
    if not sums.heads.all():
        return False
    w_q, w_k = (np.abs(w).transpose(1, 0, 2) for w in weights)
    heads, width, _ = weights[0].shape
    matrix = up(np.einsum("dhk,ehk->dhe", w_q, w_k)).reshape(width, -1)
    step = max(1, chunk_bytes // (8 * heads * (width + dataset.context_size)))
    for start in range(0, dataset.num_examples, step):
        rows = slice(start, start + step)
        queries = np.abs(dataset.queries[rows]).astype(np.float64)
        tokens = np.abs(dataset.contexts_of(rows)).transpose(0, 2, 1)
        read = up(queries @ matrix).reshape(-1, heads, width)
        if not sums.exact(up(read @ tokens).max(axis=2)).all():
            return False
    return True
