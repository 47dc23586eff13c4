"""What an output says: some of its rows, wrong and right, and what they could have read."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from constructive.kernels.mistakes.bench import Bench, Memory
from constructive.kernels.problem import Problem
from constructive.kernels.same import same_rows
from constructive.support.arrays import Array, Booleans, Integers

_WRONG, _RIGHT = 28, 20  # Rows of a sample. A law that leads to these is tried on all.


@dataclass(frozen=True, eq=False)
class Evidence:
    """An output that is wrong, from which laws are inferred.

    Rows of the sample are R of all N = B H T_q rows, which are numbered in that order.
    """

    problem: Problem  # what was computed
    out: Array  # (B, H, T_q, d_v) the output
    wrong: Booleans  # (B, H, T_q) rows that differ
    memory: Memory | None = None  # how the kernel got its arrays, or None

    @cached_property
    def bench(self) -> Bench:
        """The problem, whose parts can be changed."""
        return Bench.of(self.problem, self.memory)

    @cached_property
    def counted(self) -> Booleans:
        """Rows that are checked and see a key, (B, H, T_q)."""
        return self.problem.answer.checked & ~self.problem.answer.empty

    @cached_property
    def sample(self) -> Integers:
        """Numbers of the sample's rows, (R,); wrong ones first."""
        random = np.random.default_rng(self.problem.spec.seed)
        wrong = np.flatnonzero(self.wrong & self.counted)
        right = np.flatnonzero(~self.wrong & self.counted)
        parts = [
            np.sort(random.permutation(rows)[:count])
            for rows, count in ((wrong, _WRONG), (right, _RIGHT))
        ]
        return np.concatenate(parts)

    @cached_property
    def places(self) -> tuple[Integers, Integers, Integers]:
        """Sequence, head and query of the sample's rows, (R,) each."""
        return self.at(self.sample)

    def at(self, rows: Integers) -> tuple[Integers, Integers, Integers]:
        """Return sequence, head and query of rows."""
        batch, head, query = np.unravel_index(rows, self.wrong.shape)
        return batch, head, query

    @cached_property
    def every(self) -> tuple[Integers, Integers, Integers]:
        """Sequence, head and query of all rows, (N,) each."""
        return self.at(np.arange(self.wrong.size))

    def of(self, array: np.ndarray) -> np.ndarray:
        """Return the sample's rows of an array."""
        batch, head, query = (
            place if size > 1 else 0 * place
            for place, size in zip(self.places, array.shape[:3], strict=True)
        )
        return np.asarray(array[batch, head, query])

    @cached_property
    def is_wrong(self) -> Booleans:
        """Which rows of the sample are wrong, (R,)."""
        return self.of(self.wrong)

    @cached_property
    def scores(self) -> Array:
        """Logits of the sample's rows, (R, T_k)."""
        return self.of(self.bench.scores)

    @cached_property
    def visible(self) -> Booleans:
        """Which keys the sample's rows may see, (R, T_k)."""
        return self.of(self.bench.visible)

    @cached_property
    def values(self) -> Array:
        """Values of the sample's rows, (R, T_k, d_v)."""
        found: Array = self.bench.values[self.places[:2]]
        return found

    @cached_property
    def sinks(self) -> Array:
        """Logits of the sample's sinks, (R,); -inf where there is none."""
        sinks = self.problem.sinks
        found: Array = (
            np.full(len(self.sample), -np.inf) if sinks is None else sinks[self.places[1]]
        )
        return found

    @cached_property
    def shares(self) -> Array:
        """Right weights of the sample's keys, (R, T_k)."""
        weights, total = self.weighed(self.scores, self.visible)
        return weights / total

    @cached_property
    def read(self) -> Array:
        """What the sample's rows are, (R, d_v)."""
        return self.of(self.out)

    @cached_property
    def winners(self) -> Booleans:
        """Keys that rows should read, (B, H, T_q, T_k)."""
        return np.asarray(self.problem.answer.weights > 0.0)

    def weighed(
        self, scores: Array, visible: Booleans, sinks: Array | None = None
    ) -> tuple[Array, Array]:
        """Return exponentials less the largest logit, and their sums."""
        more = (self.sinks if sinks is None else sinks)[..., None]
        logits = np.where(visible, scores, -np.inf)
        top = np.maximum(logits.max(-1, keepdims=True), more)
        with np.errstate(all="ignore"):
            top = np.where(np.isfinite(top), top, 0.0)
            weights = np.exp(logits - top)
            return weights, weights.sum(-1, keepdims=True) + np.exp(more - top)

    def averaged(self, scores: Array, visible: Booleans, sinks: Array | None = None) -> Array:
        """Return what rows would read, (R, d_v)."""
        weights, total = self.weighed(scores, visible, sinks)
        with np.errstate(all="ignore"):
            return self.summed(weights / total)

    def summed(self, shares: Array) -> Array:
        """Return weighted sums of the values of rows, (R, d_v)."""
        found: Array = np.einsum("rk,rkv->rv", shares, self.values)
        return found

    def agrees(self, other: Array) -> Booleans:
        """Return where rows are what a law says, (.., R)."""
        with np.errstate(all="ignore"):
            same, _ = same_rows(self.read, other, self.problem.spec.output)
        return same

    def read_at(self, row: int, scores: Array, visible: Booleans) -> Array:
        """Return what one row of the sample would read, (S, d_v)."""
        weights, total = self.weighed(scores, visible, self.sinks[row, None])
        with np.errstate(all="ignore"):
            found: Array = weights @ self.values[row] / total
        return found

    def agrees_at(self, row: int, scores: Array, visible: Booleans) -> Booleans:
        """Return whether one row of the sample is what it would read, (S,)."""
        return self.is_same(row, self.read_at(row, scores, visible))

    def is_same(self, row: int, others: Array) -> Booleans:
        """Return whether one row of the sample is one of others, (S,)."""
        with np.errstate(all="ignore"):
            same, _ = same_rows(self.read[row], others, self.problem.spec.output)
        return same
