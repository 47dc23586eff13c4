"""Right kernels for encoded problems in float32, in variants, and specs to run them on."""

import math

import numpy as np

from constructive.exact.float_model import nearest
from constructive.kernels import Spec
from constructive.kernels.masks import (
    Boolean,
    Causal,
    LeftPadding,
    Prefix,
    RightPadding,
    VariableLengths,
    Window,
)
from constructive.kernels.spec import format_of

# Blocks of keys, weights stored in 16 bits, exponents fused in base 2, the scale in queries.
SINGLE = 24  # Bits of float32, whose kernels store weights in it
VARIANTS = [
    {"block": 1000}, {"block": 16}, {"block": 7, "stored": True}, {"block": 32, "base2": True},
    {"block": 16, "base2": True, "stored": True}, {"block": 13, "prescaled": True},
]  # fmt: skip


def attend(q, k, v, problem, *, factor=1.0, after=1.0, visible=None, block=16, stored=False,
           base2=False, prescaled=False, scale=None):  # fmt: skip
    """Online softmax; `factor` multiplies products of each key, `after` the output of each head."""
    spec, single = problem.spec, np.float32
    visible = problem.visible if visible is None else visible
    scale = single(spec.factor if scale is None else scale)
    group = q.shape[1] // k.shape[1]
    q, k, v = (np.asarray(x, np.float64).astype(single) for x in (q, k, v))
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    log2e = single(math.log2(math.e)) if base2 else single(1)
    if prescaled:
        products = (q * scale) @ k.swapaxes(-1, -2) * np.asarray(factor, single)
    else:
        products = q @ k.swapaxes(-1, -2) * np.asarray(factor, single) * scale
    if spec.soft_cap is not None:
        products = single(spec.soft_cap) * np.tanh(products / single(spec.soft_cap))
    if problem.bias is not None:
        products = products + problem.bias.astype(single)
    scores = np.where(visible, products, single(-np.inf))
    rows = scores.shape[:3]
    top, total = np.full((*rows, 1), -np.inf, single), np.zeros((*rows, 1), single)
    if problem.sinks is not None:
        top = np.broadcast_to(problem.sinks.astype(single)[:, None, None], (*rows, 1))
        total = np.ones((*rows, 1), single)
    out = np.zeros((*rows, v.shape[-1]), single)

    def exp(x, m):
        if not base2:
            return np.exp(x - m)
        # a fused multiply-add: float64 has room for the product
        fused = x.astype(float) * float(log2e) - (m * log2e).astype(float)
        return np.exp2(fused.astype(single))

    for first in range(0, scores.shape[-1], block):
        part = scores[..., first : first + block]
        new = np.maximum(top, part.max(-1, keepdims=True))
        base = np.where(np.isfinite(new), new, single(0))
        with np.errstate(invalid="ignore"):
            shrink, weights = exp(top, base), exp(part, base)
        total = total * shrink + weights.sum(-1, keepdims=True, dtype=single)
        if stored and spec.output.digits < SINGLE:
            weights = rounded(weights, "bfloat16")
        out = out * shrink + weights @ v[:, :, first : first + block]
        top = new
    out = out / np.where(total > 0, total, single(1)) * np.asarray(after, single)
    return rounded(out, spec.output.name)


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
    return Spec(**(given | fixed))
