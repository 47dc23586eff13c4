"""What logits may be, and couplings as matrices: for both who bound paired heads."""

import itertools

import mpmath
import numpy as np

SIGNS = np.array(list(itertools.product((1.0, -1.0), repeat=4)))


def softmax(logits):
    powers = [mpmath.exp(x - max(logits)) for x in logits]
    return [x / sum(powers) for x in powers]


def possible(high, low, off, scores, low_scores, score_error):
    """Logits (n,) which one head may have: the ends of its reach and of its scores."""
    exactly = mpmath.mpf
    both = [exactly(a) + exactly(b) for a, b in zip(scores, low_scores, strict=True)]
    for sign, signs in itertools.product((1, 0, -1), SIGNS[:, : len(both)]):
        reach = exactly(high) + exactly(low) + sign * exactly(off)
        yield [reach * (s + x * exactly(score_error)) for s, x in zip(both, signs, strict=True)]


def distance(truth, found):
    return sum(abs(a - mpmath.mpf(float(b))) for a, b in zip(truth, found, strict=True))


class Matrix:
    """N as a matrix, to be searched for w."""

    def __init__(self, matrix):
        self.matrix, self.sums = matrix, np.zeros(len(matrix))

    def __call__(self, w):
        return self.matrix @ w
