"""Attention in float64 with one thing changed: what a kernel with a mistake would return."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.kernels.answer import grouped
from constructive.kernels.paged import Pool
from constructive.kernels.problem import Problem
from constructive.support.arrays import Array, Booleans, Integers

Made = Callable[[], Array]
# Sentences, each with a function that returns the output of rows, (B, H, R, d_v).
Mistakes = Iterator[tuple[str, Made]]

BLOCKS = (16, 32, 64, 128, 8, 48, 96)  # Sizes of blocks that kernels use most. Laws try others.
# Queries and keys of a block.
TILES = (
    (16, 16),
    (16, 32),
    (32, 32),
    (32, 48),
    (32, 64),
    (64, 32),
    (64, 64),
    (64, 128),
    (128, 64),
)
Memory = Pool | str  # How a kernel got its arrays: pages, or a name of `places.PLACES`.
# What a mistake may concern: whether keys, and whether values.
PARTS = {"keys and values": (True, True), "keys": (True, False), "values": (False, True)}
SPLITS = (2, 4, 8, 3)  # Numbers of splits that kernels use
SAME: Any = object()  # Of an argument: as the problem has it


@dataclass(frozen=True, eq=False)
class Bench:
    """A problem whose parts can be changed one at a time."""

    problem: Problem  # the problem
    rows: Integers  # (R,) queries that are computed; all outputs are (B, H, R, d_v)
    # how the kernel got its arrays, or None where nothing is said
    memory: Memory | None = field(default=None, kw_only=True)
    # sizes of blocks that mistakes try
    blocks: tuple[int, ...] = field(default=BLOCKS, kw_only=True)
    # sizes of blocks of queries and of keys that mistakes try
    tiles: tuple[tuple[int, int], ...] = field(default=TILES, kw_only=True)

    @classmethod
    def of(cls, problem: Problem, memory: Memory | None = None) -> "Bench":
        """Return the bench of all queries."""
        return cls(problem, np.arange(problem.spec.queries), memory=memory)

    @cached_property
    def splits(self) -> dict[int, str]:
        """Sizes of splits of the keys, and what they are called."""
        keys = self.problem.spec.keys
        sizes = {block: f"splits of {block}" for block in self.blocks}
        for parts in SPLITS:
            sizes[-(-keys // parts)] = f"{parts} splits"
            for block in self.blocks:
                size = -(-keys // (parts * block)) * block
                sizes.setdefault(size, f"{parts} splits of blocks of {block}")
        return {size: words for size, words in sizes.items() if size < keys}

    @cached_property
    def visible(self) -> Booleans:
        """Which keys may be seen, (B, H, R, T_k)."""
        return self.of_rows(self.problem.visible)

    @cached_property
    def q(self) -> Array:
        """Queries, (B, H, R, d)."""
        return self.problem.q[:, :, self.rows]

    @cached_property
    def bias(self) -> Array | None:
        """What is added to logits, (B, H, R, T_k), or None."""
        bias = self.problem.bias
        return None if bias is None else self.of_rows(bias)

    def of_rows(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the rows of a mask or a bias."""
        return np.broadcast_to(array, self.problem.answer.weights.shape)[:, :, self.rows]

    @cached_property
    def scores(self) -> Array:
        """Logits after scale, soft cap and bias, (B, H, R, T_k)."""
        return self.scored()

    @cached_property
    def logits(self) -> Array:
        """The same, -inf where keys are hidden."""
        return np.where(self.visible, self.scores, -np.inf)

    @cached_property
    def sinks(self) -> Array | None:
        """Logits of sinks, (H, 1, 1), or None."""
        sinks = self.problem.sinks
        return None if sinks is None else sinks[:, None, None]

    @cached_property
    def every(self) -> "Bench":
        """The bench of all queries."""
        return Bench.of(self.problem)

    @cached_property
    def raw(self) -> Array:
        """Products of queries and keys, (B, H, R, T_k)."""
        return grouped(self.problem.spec, self.q, self.problem.k)

    @cached_property
    def keys(self) -> Array:
        """Keys of each query head, (B, H, T_k, d)."""
        return np.repeat(self.problem.k, self.problem.spec.group, axis=1)

    @cached_property
    def values(self) -> Array:
        """Values of each query head, (B, H, T_k, d_v)."""
        return np.repeat(self.problem.v, self.problem.spec.group, axis=1)

    def of_heads(self, array: Array) -> Array:
        """Return keys or values of each query head, (B, H, T_k, ..)."""
        return np.repeat(array, self.problem.spec.heads[0] // array.shape[1], axis=1)

    def read(
        self, *, q: Array | None = None, k: Array | None = None, v: Array | None = None
    ) -> Array:
        """Return the output of other queries, keys or values, (B, H, R, d_v)."""
        values = None if v is None else self.of_heads(v)
        if q is None and k is None:
            return self.averaged(v=values)
        keys = self.keys if k is None else self.of_heads(k)
        raw = (self.q if q is None else q) @ keys.swapaxes(-1, -2)
        return self.averaged(self.scored(raw=raw), v=values, k=keys)

    def changed(
        self, *, raw: Array | None = None, factor: float = 1.0, cap: float | None = SAME,
        bias: Array | None = SAME,
    ) -> Array:  # fmt: skip
        """Return the output of logits with parts changed, as `scored` has them, (B, H, R, d_v)."""
        return self.averaged(self.scored(raw=raw, factor=factor, cap=cap, bias=bias))

    def scored(
        self, *, raw: Array | None = None, factor: float = 1.0, cap: float | None = SAME,
        bias: Array | None = SAME,
    ) -> Array:  # fmt: skip
        """Return logits with parts changed."""
        spec = self.problem.spec
        logits = (self.raw if raw is None else raw) * (spec.factor * factor)
        cap = spec.soft_cap if cap is SAME else cap
        bias = self.bias if bias is SAME else bias
        if cap is not None:
            logits = cap * np.tanh(logits / cap)
        return logits if bias is None else logits + bias

    def averaged(
        self, scores: Array | None = None, visible: Booleans | None = None, v: Array | None = None,
        *, k: Array | None = None, sinks: Array | None = SAME, zeros: int | Integers = 0,
        more: float | Array | Integers = 0.0,
    ) -> Array:  # fmt: skip
        """Return the average of values by softmax, (B, H, R, d_v)."""
        del k
        weights, total = self.weighed(scores, visible, sinks=sinks, zeros=zeros)
        with np.errstate(all="ignore"):
            return (weights @ (self.values if v is None else v)) / (total + more)

    def weighed(
        self, scores: Array | None = None, visible: Booleans | None = None,
        *, sinks: Array | None = SAME, zeros: int | Integers = 0,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Return exponentials less the largest logit, and their sum."""
        sinks = self.sinks if sinks is SAME else sinks
        if scores is None and visible is None:
            logits = self.logits
        else:
            scores = self.scores if scores is None else scores
            logits = np.where(self.visible if visible is None else visible, scores, -np.inf)
        largest = logits.max(-1, keepdims=True)
        counted = np.asarray(zeros)
        if counted.any():
            largest = np.where(counted > 0, np.maximum(largest, 0.0), largest)
        if sinks is not None:
            largest = np.maximum(largest, sinks)
        with np.errstate(all="ignore"):
            weights = np.exp(logits - np.where(np.isfinite(largest), largest, 0.0))
            total = weights.sum(-1, keepdims=True)
            if counted.any():
                total = total + np.where(counted > 0, counted * np.exp(-largest), 0.0)
            if sinks is not None:
                total = total + np.exp(sinks - largest)
        return weights, total

    def filled(self, lost: Booleans, number: float) -> Made:
        """Return what comes out where rows or columns are a number, others being right."""
        return lambda: np.where(lost, number, self.averaged())

    def sees(self, visible: Booleans) -> Made:
        """Return what comes out where other keys are visible."""
        return lambda: self.averaged(visible=self.of_rows(visible))
