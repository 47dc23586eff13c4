"""Mistakes of backward passes by name, with the gradients they lead to.

A backward pass computes weights again, P = exp(S - logsumexp), so it has masks, addresses and a
scale of its own. `GradientBench` returns gradients in the place of outputs: mistakes of forward
passes then are those of backward passes whose forward pass is right.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from constructive.exact.formats import FORMATS, nearest
from constructive.kernels.masks import Booleans
from constructive.kernels.mistakes import addresses, logits, masks, packed, softmax, tiles
from constructive.kernels.mistakes.bench import BLOCKS, SAME, Bench, Made, Mistakes
from constructive.support.arrays import Array

_LARGEST = float(np.finfo(np.float32).max)
_FORWARD: tuple[Callable[[Bench], Mistakes], ...] = (
    masks.alignment, masks.diagonals, masks.windows, packed.packed, masks.missing, masks.lengths,
    masks.arbitrary, tiles.neighbours, tiles.tiles, tiles.diagonals_inside, tiles.rows_of_blocks,
    addresses.heads,
    addresses.sequences, logits.soft_caps, softmax.sinks, logits.scale, addresses.rows,
)  # fmt: skip
"""Kinds whose outputs are averages by softmax."""


@dataclass(frozen=True, eq=False)
class GradientBench(Bench):
    """A bench whose averages are gradients: dq, dk and dv, one after the other, (N,).

    Attributes:
        d_out: (B, H, T_q, d_v) gradient of the output
    """

    d_out: Array

    @cached_property
    def forward(self) -> tuple[Array, Array]:
        """The output and its logsumexp, (B, H, T_q, d_v) and (B, H, T_q, 1)."""
        logits = np.where(self.visible, self.scores, -np.inf)
        largest = logits.max(-1, keepdims=True)
        if self.problem.sinks is not None:
            largest = np.maximum(largest, self.problem.sinks[:, None, None])
        weights, total = self.weighed()
        return weights @ self.values / total, largest + np.log(total)

    @cached_property
    def rows_alone(self) -> Array:
        """The sum over a row of what its gradient and its output have in common, (B, H, T_q, 1)."""
        found: Array = (self.d_out * np.nan_to_num(self.forward[0])).sum(-1, keepdims=True)
        return found

    def averaged(
        self, scores: Array | None = None, visible: Booleans | None = None, v: Array | None = None,
        *, k: Array | None = None, sinks: Array | None = SAME, zeros: object = 0, more: float = 0.0,
    ) -> Array:  # fmt: skip
        """Return gradients of a backward pass with other scores, masks or values.

        Args:
            scores: logits
            visible: which keys are read
            v: values, (B, H, T_k, d_v)
            k: keys of which scores are, (B, H, T_k, d), and which dq is made of
            sinks: None, or other sinks: the logsumexp is then without sinks, or with these
            zeros: has no meaning here
            more: has no meaning here
        """
        del zeros, more
        scores = self.scores if scores is None else scores
        visible = self.visible if visible is None else visible
        lse = self.forward[1] if sinks is SAME else self._with(sinks)
        lse = np.where(np.isneginf(lse), np.inf, lse)  # rows without keys have no weights
        weights = _exp(np.where(visible, scores, -np.inf) - lse)
        return self.of_weights(weights, v=v, k=k)

    def _with(self, sinks: Array | None) -> Array:
        weights, total = self.weighed(sinks=sinks)
        largest = np.where(self.visible, self.scores, -np.inf).max(-1, keepdims=True)
        if sinks is not None:
            largest = np.maximum(largest, sinks[:, None, None])
        del weights
        found: Array = largest + np.log(total)
        return found

    def of_weights(
        self, weights: Array, *, v: Array | None = None, k: Array | None = None,
        alone: Array | None = None, slope: Array | float = SAME,
        change: Callable[[Array], Array] | None = None, of_query: float = 1.0, of_key: float = 1.0,
    ) -> Array:  # fmt: skip
        """Return gradients from weights, with parts changed.

        Args:
            weights: (B, H, T_q, T_k)
            v: values of each head
            k: keys of each head
            alone: what is subtracted in each row, (B, H, T_q, 1)
            slope: of the soft cap
            change: of gradients of scores
            of_query: what dq is multiplied by
            of_key: what dk is multiplied by
        """
        values = self.values if v is None else v
        rest = self.d_out @ values.swapaxes(-1, -2) - (self.rows_alone if alone is None else alone)
        found: Array = weights * rest * (self.slope if slope is SAME else slope)
        found = found if change is None else change(found)
        scale = self.problem.spec.factor
        dq = found @ (self.keys if k is None else k) * (scale * of_query)
        dk = self.summed(found.swapaxes(-1, -2) @ self.q * (scale * of_key))
        dv = self.summed(weights.swapaxes(-1, -2) @ self.d_out)
        return np.concatenate([dq.ravel(), dk.ravel(), dv.ravel()])

    @cached_property
    def slope(self) -> Array | float:
        """The slope of the soft cap, (B, H, T_q, T_k), or 1."""
        cap = self.problem.spec.soft_cap
        if cap is None:
            return 1.0
        found: Array = 1.0 - np.tanh(self.raw * self.problem.spec.factor / cap) ** 2
        return found

    def summed(self, heads: Array) -> Array:
        """Return the sum over the query heads of a KV head.

        Args:
            heads: (B, H, T_k, ..)
        """
        spec = self.problem.spec
        split = heads.reshape(spec.batch, spec.heads[1], spec.group, *heads.shape[2:])
        found: Array = split.sum(2)
        return found

    @cached_property
    def weights(self) -> Array:
        """Right weights, (B, H, T_q, T_k)."""
        return _exp(np.where(self.visible, self.scores, -np.inf) - self.forward[1])


def gradients(bench: GradientBench) -> Iterator[tuple[str, Made]]:
    """Yield sentences, each with a function that returns dq, dk and dv, (N,).

    Args:
        bench: all queries of a problem, and the gradient of its output
    """
    yield from _own(bench)
    for kind in _FORWARD:
        for sentence, made in kind(bench):
            yield f"in the backward pass, {sentence}", made


def _own(bench: GradientBench) -> Iterator[tuple[str, Made]]:
    """Yield mistakes that forward passes do not have."""
    spec, p, alone = bench.problem.spec, bench.weights, bench.rows_alone
    made = partial(bench.of_weights, p)
    yield "D, the sum of dO O, is not subtracted from dP", partial(made, alone=0.0 * alone)
    yield "D is the sum of dO, not of dO O", partial(made, alone=bench.d_out.sum(-1)[..., None])
    yield "dq is not multiplied by the scale", partial(made, of_query=1.0 / spec.factor)
    yield "dk is not multiplied by the scale", partial(made, of_key=1.0 / spec.factor)
    yield "dq is multiplied by the scale twice", partial(made, of_query=spec.factor)
    yield "dk is multiplied by the scale twice", partial(made, of_key=spec.factor)
    if spec.soft_cap is not None:
        capped = bench.scored(bias=None) / spec.soft_cap
        slopes = {
            "is left out": 1.0,
            "is 1 - |tanh|, not 1 - tanh^2": 1.0 - np.abs(capped),
            "is taken at the capped logit": 1.0 - np.tanh(capped) ** 2,
        }
        for words, slope in slopes.items():
            yield f"the slope of the soft cap {words}", partial(made, slope=slope)
    lse = bench.forward[1]
    logsumexps = {
        "the logsumexp has base two and is read as one of base e": lse / np.log(2.0),
        "the logsumexp is the largest logit alone": bench.scores.max(
            -1, keepdims=True, where=bench.visible, initial=-np.inf
        ),
    }
    logits_seen = np.where(bench.visible, bench.scores, -np.inf)
    for sentence, other in logsumexps.items():
        yield sentence, partial(_of_logits, bench, logits_seen - other)
    for name in ("bfloat16", "float16", "float8_e4m3fn"):
        form = FORMATS[name]
        if form.digits < spec.output.digits:
            yield (
                f"gradients of scores are rounded to {name}",
                partial(made, change=partial(nearest, form=form)),
            )
        yield f"weights are rounded to {name}", partial(bench.of_weights, nearest(p, form))
    yield from _groups(bench, p)
    for block in BLOCKS:
        if block < spec.queries:
            first = np.arange(spec.queries) // block * block
            last = (spec.queries - 1) // block * block
            yield (
                f"D is that of the first query of each block of {block}",
                partial(made, alone=alone[:, :, first]),
            )
            yield (
                f"dk and dv are those of the last block of {block} queries, not summed over blocks",
                partial(_parts, bench, p, rows=slice(last, None)),
            )
            yield (
                f"the last block of {block} queries, which is not full, adds nothing to dk and dv",
                partial(_parts, bench, p, rows=slice(0, spec.queries // block * block)),
            )
        if block < spec.keys:
            late = np.maximum(np.arange(spec.keys) - block, np.arange(spec.keys) % block)
            yield (
                f"dP is computed with the values of the block of {block} before",
                partial(made, v=bench.values[:, :, late]),
            )
            last = (spec.keys - 1) // block * block
            yield (
                f"dq is that of the last block of {block} keys, not summed over blocks",
                partial(_parts, bench, p, keys=slice(last, None)),
            )


def _groups(bench: GradientBench, p: Array) -> Iterator[tuple[str, Made]]:
    """Yield sums over other query heads than those of a KV head."""
    spec = bench.problem.spec
    if spec.group == 1:
        return
    shape = spec.batch, spec.heads[1], spec.group
    turned = spec.batch, spec.group, spec.heads[1]
    ways: dict[str, Callable[[Array], Array]] = {
        "are those of the first query head of each group alone":
            lambda x: x.reshape(*shape, *x.shape[2:])[:, :, 0],
        "are those of the last query head of each group alone":
            lambda x: x.reshape(*shape, *x.shape[2:])[:, :, -1],
        "are averaged over query heads of a group, not summed": lambda x: bench.summed(x)
        / spec.group,
        "of query head h go to KV head h % kv_heads, not h // group":
            lambda x: x.reshape(*turned, *x.shape[2:]).sum(1),
    }  # fmt: skip
    for words, way in ways.items():
        yield f"dk and dv {words}", partial(_summed, bench, p, way)


def _summed(bench: GradientBench, p: Array, way: Callable[[Array], Array]) -> Array:
    scale = bench.problem.spec.factor
    rest = bench.d_out @ bench.values.swapaxes(-1, -2) - bench.rows_alone
    found = p * rest * bench.slope
    dq = found @ bench.keys * scale
    dk = way(found.swapaxes(-1, -2) @ bench.q * scale)
    dv = way(p.swapaxes(-1, -2) @ bench.d_out)
    return np.concatenate([dq.ravel(), dk.ravel(), dv.ravel()])


def _parts(
    bench: GradientBench, p: Array, rows: slice = slice(None), keys: slice = slice(None)
) -> Array:
    """Return gradients where dk and dv are those of some queries, and dq is that of some keys."""
    scale = bench.problem.spec.factor
    rest = bench.d_out @ bench.values.swapaxes(-1, -2) - bench.rows_alone
    found = p * rest * bench.slope
    dq = found[..., keys] @ bench.keys[:, :, keys] * scale
    dk = bench.summed(found[:, :, rows].swapaxes(-1, -2) @ bench.q[:, :, rows] * scale)
    dv = bench.summed(p[:, :, rows].swapaxes(-1, -2) @ bench.d_out[:, :, rows])
    return np.concatenate([dq.ravel(), dk.ravel(), dv.ravel()])


def _of_logits(bench: GradientBench, exponents: Array) -> Array:
    return bench.of_weights(_exp(exponents))


def _exp(exponents: Array) -> Array:
    """Return exponentials in the range of float32; rows without keys have weights 0."""
    with np.errstate(all="ignore"):
        weights = np.exp(exponents)
    found: Array = np.where(weights > _LARGEST, np.inf, np.nan_to_num(weights, posinf=np.inf))
    return found
