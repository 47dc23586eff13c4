"""The layer in mpmath, one number at a time: slow, plain, and written from the definition."""

import mpmath
import numpy as np


def outputs(layer, dataset, examples, digits=60, corrections=()):
    """f on some examples as lists of mpf, at `digits` decimal digits."""
    with mpmath.workdps(digits):
        exact = np.vectorize(lambda x: mpmath.mpf(float(x)), otypes=[object])
        w_q, w_k = exact(layer.query_weights), exact(layer.key_weights)
        w_v = exact(layer.value_weights)
        for correction in corrections:
            w_v = w_v + exact(correction)
        output = exact(layer.output_weights).reshape(layer.num_heads, layer.value_dim, -1)
        readout, found = exact(layer.readout_weights), []
        for t in examples:
            context = dataset.contexts if dataset.shared_context else dataset.contexts[t]
            context, query = exact(context), exact(dataset.queries[t])
            mixed = 0
            for h in range(layer.num_heads):
                logits = context @ (w_k[h] @ (w_q[h].T @ query))
                weights = np.array([mpmath.exp(x - max(logits)) for x in logits])
                mixed = mixed + ((weights / weights.sum()) @ context) @ w_v[h] @ output[h]
            found.append(list(mixed @ readout))
    return found
