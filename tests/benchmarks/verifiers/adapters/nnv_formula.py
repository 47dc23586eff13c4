"""The bounds that NNV documents for softmax attention, written anew: NNV itself needs MATLAB.

Each attention weight is largest where its own logit is largest and the others are smallest, all
within their intervals; softmax subtracts the largest logit. With constant values the output is
between the sums of the extremes of weight times value.
"""

import numpy as np
from answering import answer_all, by_bounds


def answer(problem):
    if problem["before"] or problem["units"]:
        return "unknown"
    middle = (np.array(problem["lower"]) + problem["upper"]) / 2
    radius = (np.array(problem["upper"]) - problem["lower"]) / 2

    def upper_bounds(rows):
        total = 0.0
        for slopes, offsets, values in (map(np.array, head) for head in problem["heads"]):
            logits, reach = slopes @ middle + offsets, np.abs(slopes) @ radius
            low, high = (
                corner(logits + reach, logits - reach),
                corner(logits - reach, logits + reach),
            )
            weighed = np.array(rows) @ values.T
            total = total + np.maximum(weighed * low, weighed * high).sum(axis=1)
        return total

    return by_bounds(problem, upper_bounds)


def corner(others, own):
    """softmax of each token, with its own logit and the others' of another vector."""
    logits = np.where(np.eye(len(own), dtype=bool), own, others)
    terms = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.diag(terms) / terms.sum(axis=1)


answer_all("NNV's documented formula, in numpy", answer)
