"""What tests of decoders share: decoders by hand, and their files."""

import flint
import numpy as np

from constructive import Text, build_decoder
from constructive.layers.causal import CausalLayer
from constructive.layers.decoder import Decoder
from constructive.layers.record import DecoderRecord

NAMES = ("embedding", "positions", "W_Q", "W_K", "U", "unembedding")
RIDDLE = "a rat sat, a cat sat"
TWO = Text.of([0, 1])
"""Two tokens, and the end."""
TWO_ROWS = np.array([[0.0, 0.1], [0.25, 1.0], [-1.0, -1.0]])
"""Unembedding for which (1, 1) gives the second token, (-1, 0) the end, and (-1, 1) neither."""


def by_hand(text, weights, *, window=None, storage="float32"):
    """A decoder of these six arrays."""
    embedding, positions, w_q, w_k, u, unembedding = (
        np.asarray(weights[name], np.float32) for name in NAMES
    )
    layer = CausalLayer(w_q, w_k, u, window)
    record = DecoderRecord(0, text.num_positions, 1.0, 0.0, 0.0, storage)
    tokens = text.vocabulary, text.unit
    return Decoder(embedding, positions, layer, unembedding, *tokens, record)


def two_tokens(unit=1.0, out=1.0, **others):
    """Two tokens (unit, unit, unit) and (unit, unit, -unit), a head which averages, and what reads.

    The outputs are the last entry of the token, and of the average: (1, 1), then (-1, 0).

    Args:
        unit: the size of tokens
        out: the size of outputs
        others: instead of what it makes
    """
    embedding = unit * np.array([[1.0, 1.0, 1.0], [1.0, 1.0, -1.0]])
    u = np.zeros((6, 2))
    u[2, 0] = u[5, 1] = out / unit
    weights = {
        "embedding": embedding,
        "positions": np.zeros((2, 3)),
        "W_Q": np.zeros((1, 3, 1)),
        "W_K": np.zeros((1, 3, 1)),
        "U": u,
        "unembedding": TWO_ROWS,
    }
    return weights | others


def small():
    """A text of words, and a decoder of it."""
    text = Text.words(RIDDLE)
    return build_decoder(text, width=16), text


def true_margins(decoder, text):
    """The margin of every asked position, as a ball of 3,000 bits."""
    arb, out = flint.arb, []

    def exact(value):
        return arb(float(value))

    for ids in np.split(text.ids, np.cumsum(text.lengths)[:-1]):
        x = [
            [exact(a) + exact(b) for a, b in zip(decoder.embedding[v], p, strict=True)]
            for v, p in zip(ids, decoder.positions, strict=False)
        ]
        queries, keys = decoder.layer.query_weights, decoder.layer.key_weights
        columns = range(queries.shape[2])
        for i in range(text.prompt - 1, len(ids)):
            z, begin = list(x[i]), 0
            if decoder.layer.window is not None:
                begin = max(0, i + 1 - decoder.layer.window)
            for w_q, w_k in zip(queries, keys, strict=True):
                read = [
                    sum(a * exact(w) for a, w in zip(x[i], w_q[:, c], strict=True)) for c in columns
                ]
                logits = [
                    sum(
                        r * sum(a * exact(w) for a, w in zip(x[j], w_k[:, c], strict=True))
                        for c, r in zip(columns, read, strict=True)
                    )
                    for j in range(begin, i + 1)
                ]
                e = [(logit - logits[0]).exp() for logit in logits]
                z += [
                    sum(a * x[begin + j][k] for j, a in enumerate(e)) / sum(e)
                    for k in range(len(x[0]))
                ]
            u, o = decoder.layer.readout_weights, decoder.unembedding
            f = [
                sum(a * exact(w) for a, w in zip(z, u[:, c], strict=True))
                for c in range(u.shape[1])
            ]
            last = [sum(a * exact(w) for a, w in zip(f, row, strict=True)) for row in o]
            right = int(ids[i + 1]) if i + 1 < len(ids) else text.end
            out.append([last[right] - logit for v, logit in enumerate(last) if v != right])
    return out
