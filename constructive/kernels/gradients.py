"""What a right backward pass computes: the matrices that gradients are made of.

P = exp(S - lse), dP = Z dO V^T, D = sum dO O, dS = P (dP - D + dlse), dq = dS K, dk = dS^T Q and
dv = (Z P)^T dO, where Z is the mask of dropout over the share that it keeps.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from constructive.kernels.answer import beside
from constructive.kernels.problem import Problem
from constructive.support.arrays import Array, Booleans

NAMES = ("dq", "dk", "dv")
ONE = np.ones((1, 1, 1, 1))  # without dropout, or a soft cap


@dataclass(frozen=True, eq=False)
class Matrices:
    """What a right backward pass computes, for all rows of a problem."""

    problem: Problem
    d_out: Array  # (B, H, T_q, d_v) gradient of the output
    d_lse: Array  # (B, H, T_q, 1) gradient of the log-sum-exp
    z: Array  # what dropout multiplies weights by, (B, H, T_q, T_k), or ONE

    @cached_property
    def keys(self) -> Array:
        """Keys of each query head, (B, H, T_k, d)."""
        return np.repeat(self.problem.k, self.problem.spec.group, axis=1)

    @cached_property
    def values(self) -> Array:
        """Values of each query head, (B, H, T_k, d_v)."""
        return np.repeat(self.problem.v, self.problem.spec.group, axis=1)

    @cached_property
    def raw(self) -> Array:
        """Products of queries and keys, (B, H, T_q, T_k)."""
        return np.asarray(self.problem.q @ self.keys.swapaxes(-1, -2))

    @cached_property
    def slope(self) -> Array:
        """The slope of the soft cap, (B, H, T_q, T_k), or `ONE`."""
        cap = self.problem.spec.soft_cap
        if cap is None:
            return ONE
        return np.asarray(1.0 - np.tanh(self.raw * self.problem.spec.factor / cap) ** 2)

    def summed(self, heads: Array) -> Array:
        """Return the sum over the query heads of a KV head."""
        spec = self.problem.spec
        split = heads.reshape(spec.batch, spec.heads[1], spec.group, *heads.shape[2:])
        return np.asarray(split.sum(2))

    @cached_property
    def used(self) -> Booleans:
        """Rows whose output has a gradient, and which see a key, (B, H, T_q, 1)."""
        answer = self.problem.answer
        return (self.d_out.any(-1) & answer.checked & ~answer.empty)[..., None]

    @cached_property
    def total(self) -> Array:
        """Sums of weights where a winner has 1, (B, H, T_q, 1); 1 in rows that are not used."""
        problem = self.problem
        found = problem.answer.weights.sum(-1) + beside(problem.draft, problem.sinks)
        return np.where(self.used, found[..., None], 1.0)

    @cached_property
    def weights(self) -> Array:
        """P, (B, H, T_q, T_k), exactly: 0 for keys that are far below, and in rows not used."""
        return np.where(self.used, self.problem.answer.weights / self.total, 0.0)

    @cached_property
    def rest(self) -> Array:
        """dP, (B, H, T_q, T_k)."""
        return np.asarray((self.d_out @ self.values.swapaxes(-1, -2)) * self.z)

    @cached_property
    def alone(self) -> Array:
        """D, (B, H, T_q, 1)."""
        return np.asarray((self.weights * self.rest).sum(-1, keepdims=True))

    @cached_property
    def scores(self) -> Array:
        """The gradient of what is added to logits: dS but for the slope of a soft cap."""
        return self.weights * (self.rest - self.alone + self.d_lse)
