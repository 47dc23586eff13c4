"""Layers from their definition: one query and one head at a time, in float64."""

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
