"""Right kernels for encoded problems in float32, in variants, and specs to run them on."""

import numpy as np
from kernels_of_tests import SINGLE, Flash

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
