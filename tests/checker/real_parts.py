"""Layers for the claims about real numbers, and what they are in 60 digits."""

import mpmath
import numpy as np


class Free:
    """Nothing costs anything, and nobody is told."""

    def take(self, operations):
        pass

    def tell(self, step, done, total):
        pass


FREE = Free()


def layer_and_data(rng, *, shared, outputs, parts, total=7):
    size, width, heads, inner, value_dim, between = 3, 4, 5, 2, 3, 6
    draw = rng.standard_normal
    contexts = draw((size, width)) if shared else draw((total, size, width))
    contexts *= 1.0 if shared else 2.0 ** rng.integers(-9, 9, (total, 1, 1))
    data = {
        "contexts": contexts,
        "queries": draw((total, width)),
        "targets": draw((total, outputs)) if outputs else draw(total),
    }
    weights = {
        "W_Q": draw((heads, width, inner)),
        "W_K": draw((heads, width, inner)),
        "W_V": draw((heads, width, value_dim)),
        "W_O": draw((heads * value_dim, between)),
        "W_D": draw((between, max(outputs, 1))),
    }
    if parts:
        weights["W_V_corrections"] = 1e-17 * draw((parts, heads, width, value_dim))
    return weights, data


MATRIX = np.vectorize(lambda x: mpmath.mpf(float(x)), otypes=[object])


def evaluated(weights, data):
    """Z and f in 60 digits."""
    values = MATRIX(weights["W_V"]) + sum(map(MATRIX, weights.get("W_V_corrections", [])))
    z_all = []
    for t, query in enumerate(MATRIX(data["queries"])):
        tokens = MATRIX(data["contexts"] if data["contexts"].ndim == 2 else data["contexts"][t])
        row = []
        for w_q, w_k in zip(MATRIX(weights["W_Q"]), MATRIX(weights["W_K"]), strict=True):
            powers = [mpmath.exp(x) for x in tokens @ w_k @ (w_q.T @ query)]
            row.append(np.array(powers) @ tokens / sum(powers))
        z_all.append(row)
    read = [np.concatenate([z @ v for z, v in zip(row, values, strict=True)]) for row in z_all]
    f = np.array(read) @ MATRIX(weights["W_O"]) @ MATRIX(weights["W_D"])
    return np.array(z_all).reshape(len(f), -1), f
