"""Layers from their definition, one query and one head at a time; and ranks by elimination."""

import numpy as np


def attended(layer, seen, query):
    """Attention (H, n) of the tokens that a query sees, and their averages z (H, d)."""
    rows = []
    for w_q, w_k in zip(layer.query_weights, layer.key_weights, strict=True):
        logits = seen @ w_k @ (w_q.T @ query)
        weights = np.exp(logits - logits.max())
        rows.append(weights / weights.sum())
    alpha = np.array(rows)
    return alpha, alpha @ seen


def output(layer, context, query):
    """f(E, e) of an `AttentionLayer` (d_out,)."""
    _, z = attended(layer, context, query)
    values = [row @ w_v for row, w_v in zip(z, layer.value_weights, strict=True)]
    return np.concatenate(values) @ layer.output_weights @ layer.readout_weights


def rank_of(rows, prime=None):
    """The rank of a matrix of Fractions, or of integers modulo a prime."""
    rows, rank = [[x % prime if prime else x for x in row] for row in rows], 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        inverse = pow(rows[rank][column], -1, prime)
        for i in range(rank + 1, len(rows)):
            factor = rows[i][column] * inverse
            if factor:
                below = zip(rows[i], rows[rank], strict=True)
                rows[i] = [(x - factor * y) % prime if prime else x - factor * y for x, y in below]
        rank += 1
    return rank
