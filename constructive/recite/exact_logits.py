"""Which logits have no rounding error, and how far off the others are.

*Exact logits.* Let all entries of tokens be multiples of a power of two, and so those of queries,
and of W_Q and of W_K of a head. Then every product and every partial sum on the way to a logit
x^T W_K W_Q^T e is a multiple of the product of some of these units. Where the sizes of the terms
add up to less than 2^24 such units, and the unit is a normal number, float32 represents every
partial sum, whatever the order; so it makes no error, and nothing underflows. These are looked at:

    entries themselves, where they are rounded first
    W_Q^T e, W_K^T x        d terms
    W_K W_Q^T               d_h terms
    W_K W_Q^T e, W_Q W_K^T x        d d_h terms, one product or two
    logits, and differences of two        2 d^2 d_h terms

with the largest sizes that any query or token has in an entry, or with each of them.

Where any arrays may be multiplied first (`Contraction.free`), a partial sum has some factors and
sums over some indices. In its own unit it is at most the product of all four largest entries in
their units, times d^2 d_h: so that product has to be less than 2^24 as well, and products of units
have to be normal numbers. Where a model scales or merges, exponents have errors anyway.

*Other logits.* They are products of four factors. In any order, with the rounding of the factors
themselves where they are stored in more bits, and that of the difference to the largest logit, they
are off by at most ::

    eps  =  gamma_k max_j |x_j|^T |W_K| |W_Q|^T |e| + underflow + merging        for each head

with k roundings as the model counts them (`FloatModel.logit_roundings`; 2d + d_h + 6 where products
are pairwise), and what its merging adds (`exponents`). Each difference is off by u times itself,
and those from block to block add up to that from the largest.

*Underflow.* A product of matrices is a sum over paths, one for each choice of inner indices. Every
factor, product and partial sum of a path that becomes zero, or is read as zero, loses 2^-126, times
the other factors of the path, which are at most the largest entries, or 1. There are fewer than 32
of them, so 2^-120 times the number of paths and the largest entries is more than all of it, with
what float64 loses here.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from constructive.exact.dyadic import granularity
from constructive.exact.float_enclosure import ENOUGH
from constructive.exact.float_model import FORMATS, FloatModel, Format
from constructive.exact.upward import up
from constructive.layers.attention import (
    BLOCK_BYTES,
    CausalView,
    View,
)
from constructive.support.arrays import Array, Booleans, Integers, row_chunks

PATH = 2.0**-120  # What underflow takes from a path of factors, each of size one
# Sums that float64 represents, with a bit to spare.
_TABLE = Format("a table of float64", 52, 2.0**-900, 2.0**900, 2.0**-900)
_LARGEST_TABLE = 1 << 20


class Sums(NamedTuple):
    """Sums of short integers times a power of two, in whatever order they are taken."""

    exponents: npt.ArrayLike  # of that power, the unit, for each head (H,) or for all
    largest: npt.ArrayLike  # bounds of the sizes of all partial sums, (..., H) or one for all

    @property
    def bits(self) -> Integers:
        """The least b such that all partial sums are at most 2^b units, where they are finite."""
        bits: Integers = np.frexp(self.largest)[1] - np.asarray(self.exponents)
        return np.where(np.asarray(self.largest) == 0.0, 0, bits)

    def exact(self, form: Format) -> Booleans:
        """Return whether a format represents all of them, as zero or as normal numbers."""
        normal = np.asarray(self.exponents) >= np.frexp(form.smallest)[1] - 1
        inside = np.asarray(self.largest) <= form.largest
        exact: Booleans = inside & normal & (self.bits <= form.digits)
        return exact


@dataclass(frozen=True, eq=False)
class ExactLogits:
    """What is known of the logits of all heads on some data."""

    # numbers that are rounded to the format of storage, if it has fewer bits
    stored: tuple[Sums, ...]
    summed: tuple[Sums, ...]  # all that is summed on the way to logits, if products are pairwise
    free: tuple[Sums, ...]  # what else may be summed if any arrays may be multiplied first
    exponents: Integers  # of the units of logits (H,)
    sizes: Array  # bounds of |x|^T |W_K| |W_Q|^T |e| of any token and query (H,)
    paths: float  # d^2 d_h times the largest sizes of all factors, or 1
    width: int  # d
    head_dim: int  # d_h

    def logits(self, sizes: Array | None = None) -> Sums:
        """Return differences of two logits, for sizes as the attribute (..., H)."""
        return Sums(self.exponents, 2.0 * (self.sizes if sizes is None else sizes))

    def exact(self, model: FloatModel) -> Booleans:
        """Return for which heads an evaluation makes no error in logits and differences: (H,).

        Sums and logits themselves are in float32.
        """
        return self.before(model) & self.logits().exact(FORMATS["float32"])

    def before(self, model: FloatModel) -> Booleans:
        """Return for which heads it makes none in what comes before logits: (H,)."""
        single, free = FORMATS["float32"], model.contraction.free
        possible = model.keeps_logits and (self.in_range(model) or not free)
        exact = np.full(len(self.sizes), possible)
        for sums in self.summed + self.free * free:
            exact &= sums.exact(single)
        for sums in self.stored:
            exact &= sums.exact(model.storage)
        return exact

    def in_range(self, model: FloatModel) -> bool:
        """Return whether no product of factors, scaled or not, overflows in any order."""
        return 2.0 * self.paths * model.stretch <= FORMATS["float32"].largest

    def errors(
        self, model: FloatModel, tokens: int, sizes: Array | None = None, own: float = 0.0
    ) -> Array:
        """Bound the errors of exponents, eps, where logits are not exact: (..., H).

        A query sees n = tokens at most; `own` is a relative error that is added to gamma.
        """
        steps = model.logit_roundings(self.width, self.head_dim)
        gamma = float(model.gamma(steps)) + own
        lost = PATH * (self.paths * model.stretch + tokens)
        whole = self.sizes if sizes is None else sizes
        errors: Array = up(gamma * whole + lost + model.exponents(tokens))
        return np.where(np.isnan(errors), np.inf, errors)

    @property
    def unit(self) -> float:
        """The unit of the logits of all heads."""
        return 2.0 ** int(self.exponents.min())

    @property
    def most(self) -> float:
        """A bound of the differences of two logits of a head."""
        return 2.0 * float(self.sizes.max())

    @property
    def tabulated(self) -> bool:
        """Whether exponentials of such logits fit into a table, and float64 makes no error."""
        exact = all(sums.exact(_TABLE).all() for sums in (*self.summed, self.logits()))
        return exact and min(ENOUGH, self.most) <= _LARGEST_TABLE * self.unit


def exact_logits(
    weights: tuple[Array, Array], view: View, *, stored: bool = False, each: bool = False
) -> ExactLogits:
    """Bound all sums on the way to logits, in units of their own.

    The orders that are covered: queries W_Q^T e and keys W_K^T x first, then their product; the
    matrix W_K W_Q^T first, and its product with e or with x; each sum in any order.

    Who sees whom in the view does not matter. `stored` weights are numbers of the format of
    storage, which nothing rounds; their heads have one unit, so that one table has all
    exponentials. With `each`, every query and token is multiplied, not only the largest entries.
    """
    given = [w.astype(np.float64) for w in weights]
    x, e = granularity(view.tokens), granularity(view.queries)
    q, k = (
        np.full(len(w), granularity(w)) if stored else np.array([*map(granularity, w)])
        for w in given
    )
    w_q, w_k = (np.abs(w) for w in given)
    matrix = up(w_q @ w_k.transpose(0, 2, 1))
    rows = [array.reshape(-1, w_q.shape[1]) for array in (view.queries, view.tokens)]
    queries, tokens = (np.maximum(r.max(axis=0), -r.min(axis=0)).astype(np.float64) for r in rows)
    if not each:
        rows = [queries[np.newaxis], tokens[np.newaxis]]
    asked, seen = (np.abs(array) for array in rows)
    asking, keys, absorbed = _sums(asked, w_q), _sums(seen, w_k), _sums(asked, matrix)
    summed = (
        Sums(e + q, _top(asking)), Sums(x + k, _top(keys)), Sums(q + k, _top(matrix)),
        Sums(e + q + k, _top(absorbed)), Sums(x + q + k, _top(up(matrix @ tokens))),
    )  # fmt: skip
    kept = [Sums(e, queries.max()), Sums(x, tokens.max())]
    if stored:
        signed = [_sums(r, w) for r, w in zip(rows, given, strict=True)] if each else (asking, keys)
        kept += [Sums(e + q, _top(signed[0])), Sums(x + k, _top(signed[1]))]
    else:
        kept += [Sums(q, _top(w_q)), Sums(k, _top(w_k))]
    sizes = np.maximum(up((asking * keys).sum(axis=1)), up(absorbed @ tokens))
    width, inner = w_q.shape[1:]
    count = float(width * width * inner)
    factors = np.stack(np.broadcast_arrays(tokens.max(), queries.max(), _top(w_q), _top(w_k)))
    # In its own unit, a sum of some factors over any indices is less than that of all.
    least = np.minimum(np.stack(np.broadcast_arrays(x, e, q, k)), 0).sum(axis=0)
    free = (
        Sums(x + e + q + k, up(count * factors.prod(axis=0))), Sums(least, np.ldexp(1.0, least)),
    )  # fmt: skip
    paths = float(up(count * np.maximum(factors.max(axis=1), 1.0).prod()))
    return ExactLogits(tuple(kept), summed, free, x + e + q + k, sizes, paths, width, inner)


def exact_positions(
    weights: tuple[Array, Array], tokens: Array, model: FloatModel | None = None
) -> ExactLogits:
    """Bound all sums on the way to the logits of a decoder, whose tokens (..., d) are its queries.

    Where the largest entries of tokens show that evaluations of a model make no error, as is usual,
    no token is multiplied.
    """
    view = CausalView(tokens.reshape(1, -1, tokens.shape[-1]))
    if model is not None:
        known = exact_logits(weights, view, stored=True)
        if known.exact(model).all() and known.tabulated:
            return known
    return exact_logits(weights, view, stored=True, each=True)


def _top(array: Array) -> Array:
    """Return the largest entry of each head."""
    largest: Array = array.reshape(len(array), -1).max(axis=1)
    return largest


def _sums(rows: Array, matrices: Array) -> Array:
    """Bound the largest |x @ W| over rows x, for W >= 0 or exact sums: (H, columns)."""
    found = np.zeros((len(matrices), matrices.shape[2]))
    for some in row_chunks(len(rows), 8 * found.size, BLOCK_BYTES):
        part = up(np.abs(rows[some] @ matrices))
        np.maximum(found, part.max(axis=1), out=found)
    return found
