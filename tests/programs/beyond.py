"""Programs one production beyond a model, and cases where they break its bound.

Each is what a usual library might do that the model does not allow: more indices in one sum,
smaller blocks, an exponential that is worse, a constant that is not a power of two, a division by
exp(m + log L), another order of the last two products, and more results stored.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from cases import DecoderCase, LayerCase, share
from emulated import READOUTS, Order, Program, Scale, Softmax, choices, drawn

from constructive import AttentionLayer, Dataset
from constructive.exact.float_model import MODELS
from constructive.layers.causal import CausalLayer

SMALL = "blocks of 16"
HALF = 128.0
"""Times the error that exponentials may have: 11 bits, as those of units for float16. Errors of
numerators and denominators are the same ones, where the bound adds both, so twice is not enough."""


class Production(NamedTuple):
    """What a program does that no program of these models may do."""

    models: tuple[str, ...]
    case: Callable
    changes: Callable


def layer(w_q, w_k, w_v, w_o, w_d, contexts, queries):
    arrays = (np.asarray(w, np.float32) for w in (w_q, w_k, w_v, w_o, w_d))
    x, e = (np.asarray(each, np.float32) for each in (contexts, queries))
    return LayerCase(AttentionLayer(*arrays), Dataset(x, e, np.zeros(len(e))))


def one_logit():
    """Two equal logits: d d_h d terms of one, and few terms of the other, in sums as they are."""
    d, c = 28, np.float32(0.0123)
    weights = np.full((1, d, d), c)
    contexts = np.ones((2, d))
    contexts[1] = 0.0
    contexts[1, 0] = d
    values = np.full((1, d, 1), (1.0 + 1.0 / d) / (d - 1))
    values[0, 0, 0] = -1.0 / d
    return layer(weights, weights, values, [[1.0]], [[1.0]], contexts, np.ones((1, d)))


def many_values():
    """A large term of the first head, and small ones of all others, which it swallows."""
    heads, tokens = 64, 64
    values = np.full((heads, 1, 1), 2.0**-19 * 0.999)
    values[0] = 1.0
    zero = np.zeros((heads, 1, 1))
    ones = np.ones((tokens, 1))
    return layer(zero, zero, values, np.ones((heads, 1)), [[1.0]], ones, [[1.0]])


def many_columns():
    """The same with the columns of W_O: the first of the first head, and all others."""
    heads = columns = 64
    zero, outputs = np.zeros((heads, 1, 1)), np.full((heads, columns), 2.0**-25 * 0.999)
    outputs[0, 0] = 1.0
    values = np.ones((heads, 1, 1))
    return layer(zero, zero, values, outputs, np.ones((columns, 1)), [[1.0]], [[1.0]])


def exponentials():
    """Small differences of exact logits, and values of both signs."""
    return one_head(np.array([0.0, -(2.0**-8)]), np.array([-1.0, 1.0]))


def increasing(size=96):
    """Each logit is larger than the one before."""
    return one_head(np.arange(size) * 2.0**-10, halves(size))


def halves(size):
    """Ones, and then as many with the other sign."""
    return np.where(np.arange(size) < size / 2, 1.0, -1.0)


def large_logits():
    """Exact logits of a million, all the same."""
    return one_head(np.full(3, 2.0**20), np.ones(3))


def opposite_logits():
    """Exact logits of a million, as differences of larger numbers."""
    a, b, k = 7.0, 11.0, 2.0**16
    queries, keys = np.diag([a * k, b * k])[None], np.diag([b, a])[None]
    return layer(
        queries, keys, np.eye(2)[None], np.eye(2), [[1.0], [-1.0]], np.eye(2), [[1.0, 1.0]]
    )


def one_head(logits, values):
    """Tokens (logit, value), of one head."""
    contexts = np.stack([logits, values], axis=1)
    zeros = np.array([[[1.0], [0.0]]])
    return layer(zeros, zeros, [[[0.0], [1.0]]], [[1.0]], [[1.0]], contexts, [[1.0, 0.0]])


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
    """Exact logits of a million, all the same."""
    return decoder_head(np.stack([np.full(3, 2.0**10), np.ones(3)], axis=1), 1.0)


def decoder_head(tokens, unit):
    weights = np.zeros((1, 2, 1), np.float32)
    weights[0, 0, 0] = 1.0
    keys = weights * np.float32(unit)
    asked = weights.copy()
    readout = np.zeros((2, 1), np.float32)
    readout[1] = 1.0
    rows = np.array([[1.0], [0.0]], np.float32)
    made = CausalLayer(asked, keys, readout, skip=False)
    return DecoderCase(made, rows, np.asarray(tokens, np.float32)[None])


def decoder(tokens, readout, rows):
    zeros = np.zeros((1, tokens.shape[1], 1), np.float32)
    made = CausalLayer(zeros, zeros, readout)
    return DecoderCase(made, rows, tokens.astype(np.float32)[None])


def _blocks_of_one(program):
    return replace(program, form=Softmax("after", block=1, first=1, onto=True), signs=1)


def _layer_in_blocks_of_one(program):
    return replace(_blocks_of_one(program), outputs=Program().outputs, apart="h")


def _decoder_in_blocks_of_one(program):
    return replace(_blocks_of_one(program), outputs=READOUTS[0])


def _stored_again(program):
    return replace(program, form=Softmax("after", 16, 16, again=1))


PAIRWISE = "float32, pairwise", f"float32, pairwise, {SMALL}"
UNSCALED = (*PAIRWISE, "float32, any contraction")
FLOAT32 = (*PAIRWISE, "float32, scaled", "float32, any contraction")
STORED = tuple(
    f"{kept}, pairwise{more}" for kept in ("bfloat16", "float16") for more in ("", f", {SMALL}")
)
IN_ORDER = Order("sequential")

LAYERS = {
    "one sum for a logit": Production(
        PAIRWISE, one_logit,
        lambda program: replace(program, logits=("x", "W_K", "W_Q", "e"), logit_order=IN_ORDER),
    ),
    "heads and tokens in one sum": Production(
        PAIRWISE, many_values,
        lambda program: replace(
            program, outputs=(("a", (("x", "W_V"), "W_O")), "W_D"), average_order=IN_ORDER, apart=""
        ),
    ),
    "heads and columns of W_O in one sum": Production(
        PAIRWISE, many_columns,
        lambda program: replace(
            program, outputs=(("a", ("x", "W_V")), "W_O", "W_D"), output_order=IN_ORDER, apart=""
        ),
    ),
    "exponentials of 11 bits": Production(
        FLOAT32, exponentials,
        lambda program: replace(program, exp_share=HALF, form=Softmax(), signs=1),
    ),
    "blocks of one token": Production(
        UNSCALED, increasing, _layer_in_blocks_of_one
    ),
    "divided by exp(m + log L)": Production(
        UNSCALED, large_logits,
        lambda program: replace(program, form=Softmax("log")),
    ),
    "a constant that is not a power of two": Production(
        UNSCALED, opposite_logits,
        lambda program: replace(program, scale=Scale(2.0**0.5, ("e",))),
    ),
}  # fmt: skip
"""Of layers, by name."""

DECODERS = {
    "readout and unembedding in one sum": Production(
        PAIRWISE, folded,
        lambda program: replace(program, outputs=("z", "U", "O"), output_order=IN_ORDER),
    ),
    "readout folded with unembedding": Production(
        PAIRWISE, cancelling,
        lambda program: replace(program, outputs=("z", ("U", "O")), output_order=IN_ORDER),
    ),
    "blocks of one token": Production(
        UNSCALED, increasing_tokens, _decoder_in_blocks_of_one
    ),
    "numerators stored after each block": Production(
        STORED[:2], lambda: large_blocks(128.0), _stored_again
    ),
    "numerators in float16 after each block": Production(
        STORED[2:], lambda: large_blocks(1024.0), _stored_again
    ),
    "exponentials of 11 bits": Production(
        FLOAT32, lambda: decoder_head(np.array([[1.0, -1.0], [0.0, 1.0], [1.0, -1.0]]), 2.0**-8),
        lambda program: replace(program, exp_share=HALF, form=Softmax(), signs=1),
    ),
    "divided by exp(m + log L)": Production(
        UNSCALED, large_tokens,
        lambda program: replace(program, form=Softmax("log")),
    ),
}  # fmt: skip
"""Of decoders."""


def shares(production, model, count, seed=0):
    """The parts of a bound that some programs use, which are rounded to nearest as on machines."""
    case = production.case()
    bounds = case.bounds(MODELS[model])
    for number in range(seed, seed + count):
        program = drawn(MODELS[model], choices(number), decoder=isinstance(case, DecoderCase))
        yield share(case, replace(production.changes(program), edge=False), bounds)
