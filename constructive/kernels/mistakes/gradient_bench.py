"""Attention and its gradients in float64 with one thing changed in the backward pass."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from constructive.kernels.mistakes.bench import SAME, Bench
from constructive.support.arrays import Array, Booleans

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class GradientBench(Bench):
    """A bench whose averages are gradients: dq, dk and dv, one after the other, (N,)."""

    d_out: Array  # (B, H, T_q, d_v) gradient of the output

    @cached_property
    def forward(self) -> tuple[Array, Array]:
        """The output and its logsumexp, (B, H, T_q, d_v) and (B, H, T_q, 1)."""
        weights, total = self.weighed()
        return weights @ self.values / total, self.logsumexp(self.sinks)

    @cached_property
    def rows_alone(self) -> Array:
        """The sum over a row of what its gradient and its output have in common, (B, H, T_q, 1)."""
        found: Array = (self.d_out * np.nan_to_num(self.forward[0])).sum(-1, keepdims=True)
        return found

    def averaged(
        self, scores: Array | None = None, visible: Booleans | None = None, v: Array | None = None,
        *, k: Array | None = None, sinks: Array | None = SAME, zeros: object = 0, more: object = 0,
    ) -> Array:  # fmt: skip
        """Return gradients of a backward pass with other scores, masks or values."""
        del zeros, more
        scores = self.scores if scores is None else scores
        visible = self.visible if visible is None else visible
        lse = self.forward[1] if sinks is SAME else self.logsumexp(sinks)
        lse = np.where(np.isneginf(lse), np.inf, lse)  # rows without keys have no weights
        weights = exponentials(np.where(visible, scores, -np.inf) - lse)
        return self.of_weights(weights, v=v, k=k)

    def logsumexp(self, sinks: Array | None) -> Array:
        """Return the logsumexp of visible keys and of sinks, (B, H, T_q, 1)."""
        _, total = self.weighed(sinks=sinks)
        largest = self.logits.max(-1, keepdims=True)
        found: Array = largest if sinks is None else np.maximum(largest, sinks)
        return found + np.log(total)

    def of_weights(
        self, weights: Array, *, v: Array | None = None, k: Array | None = None,
        alone: Array | None = None, slope: Array | float = SAME,
        change: Callable[[Array], Array] | None = None, of_query: float = 1.0, of_key: float = 1.0,
    ) -> Array:  # fmt: skip
        """Return gradients from weights, with parts changed."""
        rest = self.rest if v is None else self.d_out @ v.swapaxes(-1, -2)
        rest = rest - (self.rows_alone if alone is None else alone)
        found: Array = weights * rest * (self.slope if slope is SAME else slope)
        found = found if change is None else change(found)
        keys = self.keys if k is None else k
        return self.joined(
            found @ keys * of_query, found.swapaxes(-1, -2) @ self.q * of_key, of_values=weights
        )

    def joined(
        self, of_queries: Array | None = None, of_keys: Array | None = None,
        *, of_values: Array | None = None,
    ) -> Array:  # fmt: skip
        """Return dq, dk and dv, one after the other, (N,); those that are not given are right."""
        scale, right = self.problem.spec.factor, self.of_scores
        dq = (right @ self.keys if of_queries is None else of_queries) * scale
        dk = (right.swapaxes(-1, -2) @ self.q if of_keys is None else of_keys) * scale
        weights = self.weights if of_values is None else of_values
        dv = weights.swapaxes(-1, -2) @ self.d_out
        return flat(dq, self.summed(dk), self.summed(dv))

    @cached_property
    def rest(self) -> Array:
        """dP: products of the output's gradient with values, (B, H, T_q, T_k)."""
        found: Array = self.d_out @ self.values.swapaxes(-1, -2)
        return found

    @cached_property
    def of_scores(self) -> Array:
        """dS: right gradients of scores, P (dP - D), (B, H, T_q, T_k)."""
        found: Array = self.weights * (self.rest - self.rows_alone) * self.slope
        return found

    @cached_property
    def slope(self) -> Array | float:
        """The slope of the soft cap, (B, H, T_q, T_k), or 1."""
        cap = self.problem.spec.soft_cap
        if cap is None:
            return 1.0
        found: Array = 1.0 - np.tanh(self.raw * self.problem.spec.factor / cap) ** 2
        return found

    def summed(self, heads: Array) -> Array:
        """Return the sum over the query heads of a KV head."""
        spec = self.problem.spec
        split = heads.reshape(spec.batch, spec.heads[1], spec.group, *heads.shape[2:])
        found: Array = split.sum(2)
        return found

    @cached_property
    def weights(self) -> Array:
        """Right weights, (B, H, T_q, T_k)."""
        return exponentials(self.logits - self.forward[1])


def exponentials(exponents: Array) -> Array:
    """Return exponentials in the range of float32; rows without keys have weights 0."""
    with np.errstate(all="ignore"):
        weights = np.exp(exponents)
    found: Array = np.where(weights > _LARGEST, np.inf, np.nan_to_num(weights, posinf=np.inf))
    return found


def flat(*gradients: Array) -> Array:
    """Return dq, dk and dv, one after the other, (N,)."""
    return np.concatenate([each.ravel() for each in gradients])
