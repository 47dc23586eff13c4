"""One formula of attention with replaceable parts: what a kernel with a mistake would return.

A mistake is a `Change`: the parts that it does differently, each a function of some rows. Few rows
are computed, so a mistake costs about a tenth of a millisecond. A key is an address among those of
all sequences and KV heads, so reading another one is an index.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from constructive.kernels.encodings import Quantized
from constructive.kernels.inputs import Pool
from constructive.kernels.masks import Scalar
from constructive.kernels.problem import Problem
from constructive.support.arrays import Array, Booleans, Integers, Tensor

# How a kernel got its arrays: pages, stored numbers with scales, or a key of `inputs.PLACES`.
Memory = Pool | Quantized | str
Shared = TypeVar("Shared")
Place: TypeAlias = Tensor  # a number, an array of them, or None for a row's own
Part = Callable[..., Tensor] | None
LARGEST, _SMALLEST = 88.7, 2.0**-149  # of float32: exponents that overflow, weights that vanish
_NEGLIGIBLE = 1e-14  # a weight that changes no digit that is compared
_FEW = 2**18  # products of weights and values that are computed faster than zeros are found


class Rows:
    """Some rows of a problem, each one query of one head.

    `index` has the sequence b, head h and query i of each, (R, 3). All numbers of rows are columns,
    (R, 1), and j, the keys, is a row, (1, T_k), so that they broadcast to (R, T_k).
    """

    def __init__(
        self,
        problem: Problem,
        index: Integers,
        memory: Memory | None = None,
        shared: dict[object, object] | None = None,
    ) -> None:
        spec = problem.spec
        self.problem, self.index, self.memory = problem, index, memory
        self.shared = {} if shared is None else shared  # what all rows of a problem share
        self.b, self.h, self.i = index.T[..., None]
        self.g, self.j = self.h // spec.group, np.arange(spec.keys)[None]
        lengths = self.once("lengths", lambda: spec.lengths)
        self.queries, self.keys = lengths[0][self.b], lengths[1][self.b]  # of each sequence

    def once(self, name: object, made: Callable[[], Shared]) -> Shared:
        """Return what is computed once for all rows of a problem."""
        if name not in self.shared:
            self.shared[name] = made()
        return cast("Shared", self.shared[name])

    def moved(self, b: Place = None, h: Place = None, i: Place = None) -> "Rows":
        """Return other rows in the place of these."""
        most = self.problem.answer.checked.shape
        own = (self.b, self.h, self.i)
        parts = [
            np.broadcast_to(mine if x is None else x, mine.shape) % n
            for mine, x, n in zip(own, (b, h, i), most, strict=True)
        ]
        return Rows(self.problem, np.hstack(parts), self.memory, self.shared)

    def of(self, array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Return rows of an array that broadcasts to (B, H, T_q, ..)."""
        ends = zip(self.index.T, array.shape, strict=False)
        found: npt.NDArray[Scalar] = array[tuple(np.minimum(x, n - 1) for x, n in ends)]
        return found

    @cached_property
    def at(self) -> Integers:
        """The key on the diagonal, (R, 1)."""
        return self.of(self.once("diagonal", lambda: self.problem.spec.diagonal))

    @cached_property
    def visible(self) -> Booleans:
        """Which keys may be seen, (R, T_k)."""
        return self.of(self.problem.visible)

    @cached_property
    def bias(self) -> Tensor:
        """What is added to logits, (R, T_k), or None."""
        return None if self.problem.bias is None else self.of(self.problem.bias)

    @cached_property
    def sinks(self) -> Tensor:
        """Logits of sinks, (R, 1), or None."""
        return None if self.problem.sinks is None else self.problem.sinks[self.h]

    def address(self, b: Place, g: Place, j: Place) -> Integers:
        """Return where a key is among those of all sequences and KV heads."""
        return np.asarray((b * self.problem.spec.heads[1] + g) * self.problem.spec.keys + j)

    @cached_property
    def own(self) -> Integers:
        """Addresses of the keys of each row, (R, T_k)."""
        return self.address(self.b, self.g, self.j)

    def products(self, k: Array | None = None) -> Array:
        """Return products of the queries with all keys, or with those in their place."""
        k = self.problem.k if k is None else k
        return np.asarray(self.of(self.problem.q) @ k.reshape(-1, k.shape[-1]).T)

    @cached_property
    def raw(self) -> Array:
        """Products of each row with its own keys, (R, T_k)."""
        return np.take_along_axis(self.products(), self.own, axis=1)

    @cached_property
    def scores(self) -> Array:
        """Logits after the scale, the soft cap and the bias, (R, T_k)."""
        return self.scored(self.raw)

    @cached_property
    def logits(self) -> Array:
        """The same, -inf where keys are hidden."""
        return np.where(self.visible, self.scores, -np.inf)

    @cached_property
    def softmax(self) -> tuple[Array, Array]:
        """Right weights and their sums."""
        return softmax(self, self.logits, top=largest(self, self.logits))

    @cached_property
    def values(self) -> Array:
        """The values of the keys of each row, (R, T_k, d_v)."""
        return np.asarray(self.problem.v.reshape(-1, self.problem.v.shape[-1])[self.own])

    def scored(self, raw: Array, factor: float = 1.0, *, capped: bool = True) -> Array:
        """Return logits of products; `factor` is beside the scale."""
        found = self.capped(raw, factor) if capped else raw * (self.problem.spec.factor * factor)
        return found if self.bias is None else found + self.bias

    def capped(self, raw: Array, factor: float = 1.0) -> Array:
        """Return logits before the bias."""
        cap, found = self.problem.spec.soft_cap, raw * (self.problem.spec.factor * factor)
        return found if cap is None else cap * np.tanh(found / cap)


@dataclass(frozen=True)
class Change:
    """What a mistake does differently, each a function of rows; None: what it should."""

    rows: Part = None  # the rows whose output is written
    query: Part = None  # the rows whose query is used
    k: Part = None  # keys as they are read, (B, G, T_k, d)
    v: Part = None  # values as they are read, (B, G, T_k, d_v)
    keys: Part = None  # the addresses of keys that are read, (R, T_k)
    values: Part = None  # the addresses of values that are read, (R, T_k)
    bias: Part = None  # what is added to logits, (R, T_k)
    visible: Part = None  # which keys are read, (R, T_k)
    sinks: Part = None  # logits of sinks, (R, 1)
    logits: Part = None  # also of products: logits before the mask, (R, T_k)
    weights: Part = None  # also of logits: weights, and what their sum is divided by


def attention(rows: Rows, change: Change) -> Array:
    """Return what comes out, (R, d_v); NaN also where float32 would overflow."""
    rows = change.rows(rows) if change.rows else rows
    logits = masked(rows, change)
    if change.sinks:
        weights, total = softmax(rows, logits, sinks=change.sinks(rows))
    elif change.weights:
        weights, total = change.weights(rows, logits)
    else:
        weights, total = softmax(rows, logits)
    v = change.v(rows) if change.v else rows.problem.v
    return np.asarray(summed(rows, weights, v, change.values) / total)


def masked(rows: Rows, change: Change) -> Array:
    """Return logits, -inf where keys are hidden, (R, T_k)."""
    raw = rows.raw
    if change.query or change.k or change.keys:
        asking = change.query(rows) if change.query else rows
        found = asking.products(change.k(rows) if change.k else None)
        raw = np.take_along_axis(found, change.keys(rows) if change.keys else rows.own, axis=1)
    if change.logits:
        logits = change.logits(rows, raw)
    elif change.bias:
        logits = rows.capped(raw) + change.bias(rows)
    elif raw is not rows.raw:
        logits = rows.scored(raw)
    elif change.visible:
        logits = rows.scores
    else:
        return rows.logits
    return np.where(change.visible(rows) if change.visible else rows.visible, logits, -np.inf)


def summed(rows: Rows, weights: Array, v: Array, of: Part) -> Array:
    """Return sums of weights times values, of the keys' own addresses or of others."""
    width = v.shape[-1]
    if of is None and v is rows.problem.v and weights.size * width <= _FEW:
        return (weights[:, None] @ rows.values)[:, 0]
    # Most weights are zero, so the others are gathered.
    where = np.broadcast_to(of(rows) if of else rows.own, weights.shape)
    found = np.zeros((len(weights), width))
    row, key = np.nonzero(~(np.abs(weights) <= _NEGLIGIBLE))
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    if len(row):
        parts = weights[row, key][:, None] * v.reshape(-1, width)[where[row, key]]
        found[row[starts]] = np.add.reduceat(parts, starts, axis=0)
    return found


def exp(x: Array) -> Array:
    """Return exponentials as float32 has them."""
    return np.exp(np.where(x > LARGEST, np.inf, x))


def largest(rows: Rows, logits: Array, sinks: Array | None = None) -> Array:
    """Return the largest logit of each row, (R, 1), sinks among them; 0 if there is none."""
    sinks = rows.sinks if sinks is None else sinks
    top = logits.max(-1, keepdims=True)
    top = top if sinks is None else np.maximum(top, sinks)
    return np.where(np.isfinite(top), top, 0.0)


def softmax(
    rows: Rows, logits: Array, *, zeros: Place = 0, sinks: Array | None = None,
    top: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Return weights and their sums: exponentials of logits less `top`, and of `zeros` more."""
    is_right = logits is rows.logits and sinks is None and np.ndim(zeros) == 0 and not zeros
    sinks, zeros = rows.sinks if sinks is None else sinks, np.asarray(zeros)
    if top is None:
        if is_right:
            return rows.softmax
        top = largest(rows, logits, sinks)
        top = np.where(zeros > 0, np.maximum(top, 0.0), top)
    weights = exp(logits - top)
    total = weights.sum(-1, keepdims=True)
    total = total + np.where(zeros > 0, zeros * exp(-top + 0.0 * total), 0.0)
    total = total if sinks is None else total + exp(sinks - top)
    return np.where(weights < _SMALLEST, 0.0, weights), np.where(total < _SMALLEST, 0.0, total)


def fading(rows: Rows, logits: Array, *, is_sum: bool, n: int) -> tuple[Array, Array]:
    """Return weights and sums where one of both is not rescaled between blocks of n keys.

    What is subtracted of a logit there is the largest one of all blocks so far.
    """
    top, block = largest(rows, logits), np.arange(logits.shape[1]) // n
    own = np.maximum.reduceat(logits, np.arange(0, logits.shape[1], n), axis=1)
    so_far = np.maximum.accumulate(own, axis=1)
    late = np.where(np.isfinite(so_far), so_far, 0.0)[:, block]
    seen = np.isfinite(logits)
    weights, sums = (
        exp(logits - np.where(seen, x, 0.0)) for x in ((top, late) if is_sum else (late, top))
    )
    total = sums.sum(-1, keepdims=True)
    return weights, total if rows.sinks is None else total + exp(rows.sinks - top)


def of_splits(
    rows: Rows, logits: Array, *, n: int, share: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """Return weights where splits of n keys are merged by weights exp(share(log-sum-exps))."""
    split = np.arange(logits.shape[1]) // n
    weights, tops, totals = of_each_split(logits, n)
    logs = share(tops + np.log(totals))
    merged = exp(logs - largest(rows, logs, sinks=np.array(-np.inf)))
    part = (merged / np.where(totals > 0, totals, 1.0))[:, split]
    return weights * part, merged.sum(-1, keepdims=True)


def of_each_split(logits: Array, n: int) -> tuple[Array, Array, Array]:
    """Return weights of keys within their split, and the largest logits and sums of splits."""
    starts, split = np.arange(0, logits.shape[1], n), np.arange(logits.shape[1]) // n
    tops = np.maximum.reduceat(logits, starts, axis=1)
    weights = exp(logits - np.where(np.isfinite(tops), tops, 0.0)[:, split])
    return weights, tops, np.add.reduceat(weights, starts, axis=1)
