"""Layers and decoders for programs: small ones, whose numbers make rounding matter.

A case knows the bound of its outputs, and what they are in real arithmetic: float64 is near enough,
as its errors are 2^-29 of those that are bounded.
"""

from typing import NamedTuple

import numpy as np

from constructive import AttentionLayer, Dataset
from constructive.exact.float_model import rounded
from constructive.layers.causal import CausalLayer
from constructive.layers.exact_logits import exact_positions, rounding
from constructive.layers.margins import margins

KINDS = "normal", "positive", "equal", "short", "cancelling", "tiny", "large logits"


class LayerCase(NamedTuple):
    """A layer and data."""

    layer: AttentionLayer
    dataset: Dataset

    def bounds(self, model):
        """Of each output: (T, d_out)."""
        return rounding(self.layer, self.dataset, model).bounds

    def off(self, program):
        """What a program is off from real arithmetic: (T, d_out)."""
        return np.abs(program.of_layer(self.layer, self.dataset) - self.truth())

    def truth(self):
        return self.layer.astype(np.float64)(self.dataset.contexts, self.dataset.queries)


class DecoderCase(NamedTuple):
    """A causal layer, the rows of two next tokens, and vectors of one text."""

    layer: CausalLayer
    unembedding: np.ndarray
    tokens: np.ndarray

    def bounds(self, model):
        """Of the difference of both logits: (N,)."""
        weights = self.layer.query_weights, self.layer.key_weights
        known = exact_positions(weights, self.tokens, model)
        if not known.tabulated:
            return np.full(self.tokens.shape[1], np.inf)
        places = np.arange(self.tokens.shape[1])[np.newaxis]
        arrays = self.layer, self.unembedding, model, self.tokens.astype(float), known
        with np.errstate(all="ignore"):
            parts = list(margins(*arrays, np.zeros_like(places), places))
        order = np.concatenate([part.places for part in parts]).argsort()
        return np.concatenate([part.error for part in parts])[order]

    def off(self, program):
        """What a program is off in that difference: (N,)."""
        found = program.of_decoder(self.layer, self.unembedding, self.tokens)[0]
        true = self.truth()
        return np.abs((found[:, 0] - found[:, 1]) - (true[:, 0] - true[:, 1]))

    def truth(self):
        double = CausalLayer(
            *(w.astype(float) for w in self.layer.tensors.values()),
            self.layer.window,
            self.layer.skip,
        )
        return double(self.tokens.astype(float))[0] @ self.unembedding.T.astype(float)


def share(case, program, bounds):
    """The largest part of a bound that a program uses; 0 where nothing is bounded."""
    known = np.isfinite(bounds)
    if not known.any():
        return 0.0
    return float((case.off(program)[known] / bounds[known]).max())


def entries(rng, shape, kind):
    """Numbers of a kind."""
    if kind == "positive":
        return rng.uniform(0.5, 1.0, shape)
    if kind == "equal":
        return np.full(shape, rng.uniform(0.5, 1.0))
    if kind == "short":
        return rng.integers(-4, 5, shape) * 0.5
    if kind == "tiny":
        return rng.standard_normal(shape) * 10.0 ** rng.uniform(-39, 0, shape)
    return rng.standard_normal(shape)


def layer_case(rng, most=4, longest=6, wide=0.0):
    """Draw a layer with data; now and then a long context, or a wide layer on one token."""
    heads, width, inner, value_dim, between, outputs = (int(k) for k in rng.integers(1, most, 6))
    total, size = (int(k) for k in rng.integers(1, (4, longest)))
    if rng.random() < 0.15:
        size = int(rng.integers(17, 70))
    elif rng.random() < wide:
        total, size, width, heads = 1, 1, int(rng.integers(20, 60)), int(rng.integers(1, 12))
    kinds = rng.choice(KINDS, 7)
    shapes = (
        (heads, width, inner), (heads, width, inner), (heads, width, value_dim),
        (heads * value_dim, between), (between, outputs),
    )  # fmt: skip
    weights = [entries(rng, shape, kind) for shape, kind in zip(shapes, kinds, strict=False)]
    weights[0] = weights[0] * 10.0 ** rng.choice([-2, 0, 1, 2, 4])
    shared = rng.random() < 0.5
    contexts = entries(rng, (size, width) if shared else (total, size, width), kinds[5])
    queries = entries(rng, (total, width), kinds[6])
    if kinds[6] == "cancelling":
        queries = queries + 1000.0
    kind = rng.choice([np.float32, np.float64])
    layer = AttentionLayer(*(w.astype(kind) for w in weights))
    return LayerCase(layer, Dataset(contexts, queries, np.zeros((total, outputs))))


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
    skip = bool(rng.random() < 0.7)
    readout = entries(rng, ((heads + skip) * width, outputs), kinds[0])
    rows = entries(rng, (2, outputs), kinds[1])
    readout, rows = (rounded(each.astype(np.float32), storage) for each in (readout, rows))
    window = None if rng.random() < 0.7 else int(rng.integers(1, length + 1))
    layer = CausalLayer(w_q.astype(np.float32), w_k.astype(np.float32), readout, window, skip)
    return DecoderCase(layer, rows, tokens.astype(np.float32))
