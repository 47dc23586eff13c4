"""Decoders whose numbers make rounding matter; searches, and what breaks bounds."""

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from emulated import MODELS, READOUTS, Order, Softmax, choices, drawn

from constructive import checker
from constructive.checker.margins import real_margins
from constructive.exact.formats import rounded
from constructive.recite.causal import CausalLayer

# Small cases. Each knows the bound of its outputs, and what they are in real arithmetic: float64 is
# near enough, as its errors are 2^-29 of those that are bounded.


KINDS = "normal", "positive", "equal", "short", "cancelling", "tiny", "large logits"


class DecoderCase(NamedTuple):
    """A causal layer, the rows of two next tokens, and vectors of one text."""

    layer: CausalLayer
    unembedding: np.ndarray
    tokens: np.ndarray

    def bounds(self, model):
        """Of the difference of both logits: (N,)."""
        tokens, (w_q, w_k, readout) = self.tokens[0], self.layer.tensors.values()
        weights = {
            "embedding": np.zeros_like(tokens[:1]),
            "positions": tokens,
            "W_Q": w_q,
            "W_K": w_k,
            "U": readout,
            "unembedding": self.unembedding,  # of the one token, and of the end
        }
        ids = np.zeros(len(tokens), dtype=int)
        about = checker.decoder(weights, [ids], model.name, window=self.layer.window)
        try:
            with np.errstate(all="ignore"):
                return real_margins(about, model.row).error
        except ValueError:
            return np.full(len(tokens), np.inf)

    def off(self, program):
        """What a program is off in that difference: (N,)."""
        found = program.of_decoder(self.layer, self.unembedding, self.tokens)[0]
        true = self.truth()
        return np.abs((found[:, 0] - found[:, 1]) - (true[:, 0] - true[:, 1]))

    def truth(self):
        double = CausalLayer(
            *(w.astype(float) for w in self.layer.tensors.values()), self.layer.window
        )
        return double(self.tokens.astype(float))[0] @ self.unembedding.T.astype(float)


def share(case, program, bounds):
    """The largest part of a bound that a program uses; 0 where nothing is bounded."""
    known = np.isfinite(bounds)
    if not known.any():
        return 0.0
    return float((case.off(program)[known] / bounds[known]).max())


def entries(rng, shape, kind):
    if kind == "positive":
        return rng.uniform(0.5, 1.0, shape)
    if kind == "equal":
        return np.full(shape, rng.uniform(0.5, 1.0))
    if kind == "short":
        return rng.integers(-4, 5, shape) * 0.5
    if kind == "tiny":
        return rng.standard_normal(shape) * 10.0 ** rng.uniform(-39, 0, shape)
    return rng.standard_normal(shape)


def decoder_case(rng, storage, most=4, longest=7):
    """Draw a decoder with short queries, keys and tokens, as decoders have."""
    heads, width, inner = (int(k) for k in rng.integers(1, most, 3))
    outputs, length = int(rng.integers(1, 2 * most)), int(rng.integers(1, longest))
    if rng.random() < 0.15:
        length = int(rng.integers(17, 50))
    tokens = rng.integers(-6, 7, (1, length, width)) * 0.5
    units = 2.0 ** -rng.integers(0, 3)
    bits = int(rng.choice([3, 3, 9]))
    w_q, w_k = (
        (rng.integers(-(2**bits), 2**bits + 1, (heads, width, inner)) * units) for _ in range(2)
    )
    kinds = rng.choice(KINDS, 2)
    readout = entries(rng, ((heads + 1) * width, outputs), kinds[0])
    if rng.random() < 0.3:
        readout[:width] = 0.0
    rows = entries(rng, (2, outputs), kinds[1])
    readout, rows = (rounded(each.astype(np.float32), storage) for each in (readout, rows))
    window = None if rng.random() < 0.7 else int(rng.integers(1, length + 1))
    layer = CausalLayer(w_q.astype(np.float32), w_k.astype(np.float32), readout, window)
    return DecoderCase(layer, rows, tokens.astype(np.float32))


# A search for the program, and the case, that use the largest part of a bound.


# Fields of programs that are drawn anew together: they fit each other.
TOGETHER = (
    ("logits", "logit_order"), ("outputs", "apart", "output_order"), ("average_order",),
    ("form", "scale"), ("stored",), ("fused", "flush"), ("edge", "signs"), ("seed",),
)  # fmt: skip


def climb(case, model, rng, steps):
    """The largest share there is after so many steps, and what has it."""
    choose = choices(int(rng.integers(1 << 30)))
    best = drawn(model, choose)
    bounds = case.bounds(model)
    top = share(case, best, bounds)
    for _ in range(steps):
        program, where, known = best, case, bounds
        if rng.random() < 0.5:
            other = drawn(model, choose)
            names = TOGETHER[rng.integers(len(TOGETHER))]
            program = dataclasses.replace(best, **{name: getattr(other, name) for name in names})
        else:
            where = moved(case, rng)
            known = where.bounds(model)
        found = share(where, program, known)
        if found > top:
            top, best, case, bounds = found, program, where, known
    return top, best, case


def moved(case, rng):
    """A case with some entries changed; whole numbers stay such, as decoders need them."""
    weights = [*case.layer.tensors.values(), case.unembedding]
    at = rng.integers(2, 4)
    weights[at] = changed(weights[at], rng).astype(np.float16).astype(np.float32)
    if rng.random() < 0.3:
        signs = rng.choice([-1.0, 1.0], case.tokens.shape[2]).astype(np.float32)
        case = case._replace(tokens=np.where(rng.random() < 0.5, abs(case.tokens), 1) * signs)
    layer = CausalLayer(*weights[:3], case.layer.window)
    return DecoderCase(layer, weights[3], case.tokens.astype(np.float32))


def changed(array, rng):
    """Signs, sizes or last places of some entries."""
    kind = rng.integers(5)
    some = rng.random(array.shape) < rng.choice([0.2, 1.0])
    if kind == 0:
        return np.where(some, -array, array)
    if kind == 1:
        return np.where(some, array * 2.0 ** rng.integers(-3, 4), array)
    if kind == 2:
        return np.where(some, array * (1.0 + 2.0**-12 * rng.standard_normal(array.shape)), array)
    if kind == 3:
        return np.where(some, np.abs(array), array)
    return np.where(some, rng.standard_normal(array.shape), array)


# Programs one production beyond a model, and cases where they break its bound.
#
# Each is what a usual library might do that the model does not allow: more indices in one sum,
# smaller blocks, an exponential that is worse, a constant that is not a power of two, a division by
# exp(m + log L), another order of the last two products, and more results stored.


SMALL = "blocks of 16"

# Times the error that exponentials may have: 11 bits, as those of units for float16. Errors of
# numerators and denominators are the same ones, where the bound adds both, so twice is not
# enough.
HALF = 128.0


class Production(NamedTuple):
    """What a program does that no program of these models may do."""

    models: tuple[str, ...]
    case: Callable
    changes: dict  # of fields of a program


def halves(size):
    return np.where(np.arange(size) < size / 2, 1.0, -1.0)


def folded():
    """Terms of the readout and of the unembedding, K d_out of them, all the same."""
    d, outputs = 16, 256
    readout = np.full((2 * d, outputs), np.float32(0.8184808492660522))
    rows = np.zeros((2, outputs), np.float32)
    rows[1] = np.float32(0.6348933577537537)
    return decoder(np.ones((1, d)), readout, rows)


def cancelling():
    """Products of the readout's rows with the unembedding that are long, and cancel exactly."""
    outputs, large = 4096, np.float32(0.7123451)
    readout = np.zeros((4, outputs), np.float32)
    readout[0], readout[1] = large, -large / 1.5
    rows = np.zeros((2, outputs), np.float32)
    rows[1] = np.float32(0.6348933577537537)
    return decoder(np.array([[1.0, 1.5]]), readout, rows)


def increasing_tokens(size=96):
    """One head whose logits increase, and a readout of its average."""
    tokens = np.stack([np.arange(size), halves(size)], axis=1)
    tokens[-1, 0] = size
    return decoder_head(tokens, 2.0**-16)


def large_blocks(largest, size=432):
    """Logits that are equal, and two large blocks at first, which swallow all others."""
    tokens = np.stack([np.zeros(size), np.ones(size)], axis=1)
    tokens[:32, 1] = largest
    return decoder_head(tokens, 1.0)


def large_tokens():
    return decoder_head(np.stack([np.full(3, 2.0**10), np.ones(3)], axis=1), 1.0)


def decoder_head(tokens, unit):
    weights = np.zeros((1, 2, 1), np.float32)
    weights[0, 0, 0] = 1.0
    keys = weights * np.float32(unit)
    asked = weights.copy()
    readout = np.zeros((4, 1), np.float32)
    readout[3] = 1.0
    rows = np.array([[1.0], [0.0]], np.float32)
    made = CausalLayer(asked, keys, readout)
    return DecoderCase(made, rows, np.asarray(tokens, np.float32)[None])


def decoder(tokens, readout, rows):
    zeros = np.zeros((1, tokens.shape[1], 1), np.float32)
    made = CausalLayer(zeros, zeros, readout)
    return DecoderCase(made, rows, tokens.astype(np.float32)[None])


BLOCKS_OF_ONE = {"form": Softmax("after", block=1, first=1, onto=True), "signs": 1}
LESS_EXACT = {"exp_share": HALF, "form": Softmax(), "signs": 1}
STORED_AGAIN = {"form": Softmax("after", 16, 16, again=1)}
BY_LOGARITHM = {"form": Softmax("log")}

PAIRWISE = "float32, pairwise", f"float32, pairwise, {SMALL}"
UNSCALED = (*PAIRWISE, "float32, any contraction")
FLOAT32 = (*PAIRWISE, "float32, scaled", "float32, any contraction")

STORED = tuple(
    f"{kept}, pairwise{more}" for kept in ("bfloat16", "float16") for more in ("", f", {SMALL}")
)

IN_ORDER = Order("sequential")

PRODUCTIONS = {
    "readout and unembedding in one sum": Production(
        PAIRWISE, folded, {"outputs": ("z", "U", "O"), "output_order": IN_ORDER}
    ),
    "readout folded with unembedding": Production(
        PAIRWISE, cancelling, {"outputs": ("z", ("U", "O")), "output_order": IN_ORDER}
    ),
    "blocks of one token": Production(
        UNSCALED, increasing_tokens, BLOCKS_OF_ONE | {"outputs": READOUTS[0]}
    ),
    "numerators stored after each block": Production(
        STORED[:2], lambda: large_blocks(128.0), STORED_AGAIN
    ),
    "numerators in float16 after each block": Production(
        STORED[2:], lambda: large_blocks(1024.0), STORED_AGAIN
    ),
    "exponentials of 11 bits": Production(
        FLOAT32,
        lambda: decoder_head(np.array([[1.0, -1.0], [0.0, 1.0], [1.0, -1.0]]), 2.0**-8),
        LESS_EXACT,
    ),
    "divided by exp(m + log L)": Production(UNSCALED, large_tokens, BY_LOGARITHM),
}


def shares(production, model, count, seed=0):
    case = production.case()
    bounds = case.bounds(MODELS[model])
    for number in range(seed, seed + count):
        program = drawn(MODELS[model], choices(number))
        yield share(case, replace(program, **production.changes, edge=False), bounds)
