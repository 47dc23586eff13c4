"""Kernels of the tests: right ones of several kinds, whose steps may be replaced."""

import numpy as np

from constructive.exact.formats import nearest
from constructive.kernels import Spec
from constructive.kernels.masks import (
    Boolean,
    Causal,
    Chunked,
    LeftPadding,
    Prefix,
    RightPadding,
    VariableLengths,
    Window,
)
from constructive.kernels.spec import format_of

SINGLE = np.float32


def logits_of(problem, dtype=np.float64):
    """Logits of all keys, hidden ones at -inf, (B, H, T_q, T_k)."""
    spec = problem.spec
    q, k = problem.q.astype(dtype), np.repeat(problem.k, spec.group, 1).astype(dtype)
    scores = q @ k.swapaxes(-1, -2) * dtype(spec.factor)
    if spec.soft_cap is not None:
        scores = dtype(spec.soft_cap) * np.tanh(scores / dtype(spec.soft_cap))
    if problem.bias is not None:
        scores = scores + problem.bias.astype(dtype)
    return np.where(problem.visible, scores, dtype(-np.inf))


def values_of(problem, dtype=np.float64):
    return np.repeat(problem.v, problem.spec.group, 1).astype(dtype)


def plain(problem, dtype=np.float64):
    """Softmax in one piece, weights normalised before the average."""
    sinks = None if problem.sinks is None else problem.sinks.astype(dtype)
    return average(logits_of(problem, dtype), values_of(problem, dtype), sinks)


def average(scores, v, sinks=None):
    """Values by the softmax of scores, -inf where hidden; 0 in rows that see no key."""
    sinks = np.full(1, -np.inf, scores.dtype) if sinks is None else sinks
    sinks = sinks[:, None, None]
    top = np.maximum(scores.max(-1, keepdims=True), sinks)
    top = np.where(np.isfinite(top), top, 0)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True) + np.exp(sinks - top)
    return (weights / np.where(total > 0, total, 1)) @ v


class Flash:
    """Blocks of keys, an online softmax and merged splits; each step may be replaced.

    Places are b (sequences), h (heads) and i (queries); j are the keys of a block.
    """

    real, block, splits, lag = SINGLE, 16, 1, 0.0

    def __init__(self, problem, **steps):
        given = {name: getattr(problem, name) for name in ("q", "k", "v", "visible")}
        for name, step in (given | steps).items():
            setattr(self, name, step)
        self.problem, self.spec = problem, problem.spec
        self.q, self.k, self.v = (
            np.asarray(x, float).astype(self.real) for x in (self.q, self.k, self.v)
        )
        batch, heads, queries, _ = self.q.shape
        self.b, self.h, self.i, _ = np.ogrid[:batch, :heads, :queries, :1]
        lengths = [each[:, None, None, None] for each in self.spec.lengths]
        self.group, self.lengths = heads // self.k.shape[1], lengths[1]
        self.at = np.arange(self.spec.queries)[:, None] + lengths[1] - lengths[0]  # bottom-right

    def output(self):
        return self.outputs()[0]

    def outputs(self):
        """The output and log-sum-exps."""
        with np.errstate(all="ignore"):
            parts = [self.part(low, high) for low, high in self.bounds()]
            outs, ends = map(np.stack, zip(*parts, strict=True))
            return self.written(self.merged(outs, ends)), self.lse(ends)

    def bounds(self):
        keys = self.k.shape[2]
        blocks = -(-keys // self.block)
        size = -(-blocks // self.splits) * self.block
        return [(size * n, min(size * (n + 1), keys)) for n in range(self.splits)]

    def part(self, low, high):
        shape = (*self.q.shape[:3], self.v.shape[3])
        top = self.first(np.full((*shape[:3], 1), -np.inf, self.real))
        total, out = np.zeros_like(top), np.zeros(shape, self.real)
        for j in self.blocks(low, high):
            scores = self.hidden(self.scores(j), self.seen(j), j)
            new = self.top(top, scores, j)
            base = np.where(np.isneginf(new), 0, new)
            weights, fade = self.exp(scores, base), self.exp(top, base)
            total = self.summed(total, fade, weights, j)
            out, top = self.added(out, fade, weights, j), new
        return self.divided(top, total, out)

    def exp(self, scores, base):
        return np.exp(scores - base)

    def blocks(self, low, high):
        return [np.arange(j, min(j + self.block, high)) for j in range(low, high, self.block)]

    def keys(self, j):
        return self.read(self.k, *self.key_place(j))

    def values(self, j):
        return self.read(self.v, *self.value_place(j))

    def read(self, x, b, g, j):
        return x[b[..., 0], g[..., 0], j]

    def key_place(self, j):
        return self.b, self.h // self.group, j

    def value_place(self, j):
        return self.key_place(j)

    def scores(self, j):
        logits = self.capped(self.products(j) * self.scale())
        return logits if self.problem.bias is None else logits + self.bias(j)

    def scale(self):
        return self.real(self.spec.factor)

    def products(self, j):
        return self.q @ self.keys(j).swapaxes(-1, -2)

    def bias(self, j):
        return self.problem.bias[..., j].astype(self.real)

    def capped(self, logits):
        cap = self.spec.soft_cap
        return logits if cap is None else self.real(cap) * np.tanh(logits / self.real(cap))

    def seen(self, j):
        return self.visible[..., j]

    def hidden(self, scores, seen, j):
        return np.where(seen, scores, self.real(-np.inf))

    def first(self, top):
        return top

    def top(self, old, scores, j):
        new = np.maximum(old, scores.max(-1, keepdims=True))
        return np.where(new > old + self.real(self.lag), new, old)

    def summed(self, total, fade, weights, j):
        return total * fade + weights.sum(-1, keepdims=True)

    def added(self, out, fade, weights, j):
        return out * fade + weights @ self.values(j)

    def divided(self, top, total, out):
        lse = np.where(total > 0, top + np.log(total), -np.inf)
        return out / np.where(total > 0, total, 1), lse

    def merged(self, outs, ends):
        top = np.maximum(ends.max(0), self.sinks())
        shares = np.exp(ends - np.where(np.isneginf(top), 0, top))
        total = shares.sum(0) + np.exp(self.sinks() - np.where(np.isneginf(top), 0, top))
        return (outs * shares).sum(0) / np.where(total > 0, total, 1)

    def lse(self, ends):
        top = np.maximum(ends.max(0), self.sinks())
        top = np.where(np.isneginf(top), 0, top)
        return (top + np.log(np.exp(ends - top).sum(0) + np.exp(self.sinks() - top)))[..., 0]

    def sinks(self):
        sinks = self.problem.sinks
        return self.real(-np.inf) if sinks is None else sinks.astype(self.real)[:, None, None]

    def written(self, out):
        return out


def softmax_average(q, k, v, visible, scale):
    return average(np.where(visible, q @ k.swapaxes(-1, -2) * scale, -np.inf), v)


# Right kernels for encoded problems in float32, in variants, and specs to run them on.

# Blocks of keys, weights stored in 16 bits, exponents fused in base 2, the scale in queries.
BITS = 24  # Of float32, whose kernels store weights in it
LOG2E = SINGLE(np.log2(np.e))
VARIANTS = [
    {"block": 1000}, {"block": 16}, {"block": 7, "stored": True}, {"block": 32, "base2": True},
    {"block": 16, "base2": True, "stored": True}, {"block": 13, "prescaled": True},
]  # fmt: skip


class Encoded(Flash):
    """Products of each key are multiplied by `factor`, outputs of each head by `after`."""

    factor = after = 1.0
    stored = base2 = prescaled = False

    def scores(self, j):
        factor = np.asarray(self.factor, SINGLE) + np.zeros((1, 1, 1, self.k.shape[2]), SINGLE)
        q, scale = (self.q * self.scale(), 1) if self.prescaled else (self.q, self.scale())
        logits = self.capped(q @ self.keys(j).swapaxes(-1, -2) * factor[..., j] * scale)
        return logits if self.problem.bias is None else logits + self.bias(j)

    def exp(self, scores, base):
        if not self.base2:
            return np.exp(scores - base)
        # a fused multiply-add: float64 has room for the product
        fused = scores.astype(float) * float(LOG2E) - (base * LOG2E).astype(float)
        return np.exp2(fused.astype(SINGLE))

    def added(self, out, fade, weights, j):
        if self.stored and self.spec.output.digits < BITS:
            weights = rounded(weights, "bfloat16")
        return Flash.added(self, out, fade, weights, j)

    def written(self, out):
        return rounded(out * np.asarray(self.after, SINGLE), self.spec.output.name)


def attend(q, k, v, problem, **how):
    return Encoded(problem, q=q, k=k, v=v, **how).output()


def rounded(x, name):
    finite = np.nan_to_num(x.astype(float), nan=0.0, posinf=0.0, neginf=0.0)
    return np.where(np.isfinite(x), nearest(finite, format_of(name)), x)


def random_spec(seed, **fixed):
    r = np.random.default_rng((seed, 101))
    kv, batch = int(r.integers(1, 4)), int(r.integers(1, 4))
    keys, queries = int(r.integers(1, 40)), int(r.integers(1, 40))
    alignment = str(r.choice(["top-left", "bottom-right"]))

    def drawn(most=keys):
        return tuple(int(x) for x in r.integers(0, most + 1, batch))

    masks = [
        (), (Causal(alignment),),
        (Window(int(r.integers(0, keys + 1)), None if r.random() < 0.5 else 2, alignment),),
        (LeftPadding(drawn()),), (RightPadding(drawn()),), (Prefix(drawn(), alignment),),
        (Boolean(per_head=bool(r.integers(2)), empty=bool(r.integers(2)), seed=seed % 9),),
        (Causal(), RightPadding(drawn())), (VariableLengths(drawn(queries), drawn()),),
        (Chunked(int(r.integers(1, keys + 2)), alignment),),
    ]  # fmt: skip
    given = {
        "batch": batch, "heads": (kv * int(r.integers(1, 4)), kv), "queries": queries,
        "keys": keys, "head_dim": int(r.choice([16, 24, 32, 40, 64])),
        "value_dim": int(r.choice([16, 24, 32, 64])), "masks": masks[int(r.integers(len(masks)))],
        "dtype": str(r.choice(["float32", "bfloat16", "float16"])), "seed": int(r.integers(99)),
        "sink": bool(r.random() < 0.2),
        "scale": None if r.random() < 0.6 else float(r.choice([0.25, 0.1, 1.0, 2.0])),
        "soft_cap": float(r.choice([30.0, 50.0])) if r.random() < 0.1 else None,
    }  # fmt: skip
    if r.random() < 0.1:
        given |= {"bias": str(r.choice(["bhij", "bij", "hij", "bj"])), "soft_cap": None}
    return Spec(**(given | fixed))
