"""What heads read from contexts that are in memory, with bounds of the error of that.

A holder of `Tokens` reads as much as it needs of them, so that no context is read from disk
for each of his questions. `read` is for a few examples, whose contexts are read anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from constructive.certificates.claims.paired.examples import MARGIN, TAIL, Examples
from constructive.exact.compensated import dot, exponential
from constructive.exact.upward import UNIT, gamma, lengths, up
from constructive.support.arrays import Array, Integers, row_chunks

# Relative error of exponentials, more than theirs: as a checker takes for its own.
_EXPONENTIAL_ERROR = 2.0**-46

# Errors up to which first-order bounds of a softmax hold with a few percent to spare.
_SMALL = 0.01

# Error of attention above which scores are evaluated anew, in twice the precision.
_GOOD_ENOUGH = 1e-10

DIFFERENCE = 1.0, -1.0  # Signs of the two heads in x_{t,p}

SECOND = 0.0, 1.0  # Signs for what the second head reads


@dataclass(frozen=True, eq=False)
class Tokens:
    """Contexts of k positions, in memory, with their scores."""

    examples: Examples  # all of them
    positions: Integers  # (k,)
    contexts: Array  # E_t (k, n, d), times 2^-a
    scores: Array  # E_t key (k, n)
    score_error: Array  # (k,), bounds the errors of these
    largest: Array  # (k,), bounds `max |E_t|`

    @classmethod
    def of(cls, examples: Examples, positions: Integers) -> "Tokens":
        """Read the contexts of some positions, each of them once."""
        contexts, key = examples.contexts(positions), examples.key
        longest = lengths(contexts).max(axis=1)
        error = up(gamma(len(key) + 2) * float(lengths(key)) * longest)
        largest = up(np.abs(contexts).max(axis=(1, 2)))
        return cls(examples, positions, contexts, contexts @ key, error, largest)

    def read(self, pairs: Integers, signs: tuple[float, float]) -> tuple[Array, Array]:
        """Return the sum of both heads' z times signs, and a bound on the error of its entries."""
        examples, count = self.examples, len(pairs)
        contexts, scores = self.contexts[:count], self.scores[:count]
        weights = examples.query_weights[:, pairs].transpose(1, 0, 2)
        reach = dot(examples.queries[self.positions[:count], np.newaxis], weights)
        attention, error = bounded_attention(
            reach, scores, np.zeros_like(scores), self.score_error[:count]
        )
        # Where s_{t,h} is large and gaps are small, differences of scores have to be better.
        worse = np.flatnonzero(~(error <= _GOOD_ENOUGH))
        if len(worse):
            leading, rest, bounds = dot(contexts[worse], examples.key)
            attention[worse], error[worse] = bounded_attention(
                [each[worse] for each in reach], leading, rest, bounds.max(axis=1)
            )
        combined = signs[0] * attention[:, 0] + signs[1] * attention[:, 1]
        values = np.matmul(combined[:, np.newaxis], contexts)[:, 0]
        rounding = 3.0 * gamma(scores.shape[1] + 2)
        return values, up(up(error + rounding) * self.largest[:count])


def read(
    examples: Examples, positions: Integers, pairs: Integers, signs: tuple[float, float]
) -> tuple[Array, Array]:
    """Read the contexts of any positions (k,) now, as they lie on disk, for `Tokens.read`."""
    size, width = examples.dataset.context_size, examples.queries.shape[1]
    values, errors = np.empty((len(positions), width)), np.empty(len(positions))
    by_example = np.argsort(examples.order[positions], kind="stable")
    for rows in row_chunks(len(positions), 8 * size * width):
        part = by_example[rows]
        tokens = Tokens.of(examples, positions[part])
        values[part], errors[part] = tokens.read(pairs[part], signs)
    return values, errors


def bounded_attention(
    reach: Sequence[Array], scores: Array, rest: Array, score_error: Array
) -> tuple[Array, Array]:
    """Return attention of both heads (k, 2, n), and a bound (k,) of the sum of all errors."""
    high, low, reach_error = (each[:, :, np.newaxis] for each in reach)
    ends = np.stack([scores.argmin(axis=1), scores.argmax(axis=1)], axis=1)
    top = np.take_along_axis(ends, (reach[0] > 0).astype(np.int64), axis=1)
    difference = scores[:, np.newaxis] - np.take_along_axis(scores, top, axis=1)[:, :, np.newaxis]
    difference += rest[:, np.newaxis] - np.take_along_axis(rest, top, axis=1)[:, :, np.newaxis]
    below = high * difference + low * difference
    # Differences of scores are rounded twice, the second time by small parts; logits three times.
    size = np.abs(difference)
    off = up(2.0 * score_error[:, np.newaxis, np.newaxis] + 4.0 * UNIT * size)
    spread = up(reach_error * up(size + off) + np.abs(high) * up(2.0 * off + 4.0 * UNIT * size))
    exponentials = exponential(below)
    attention = exponentials / exponentials.sum(axis=2, keepdims=True)
    # If exponentials w_i are off by e_i w_i, shares are off by 2 delta / (1 - delta) in all, for
    # delta = sum_i alpha_i e_i. Those that are taken for 0 are below exp(-700) of the largest one:
    # far less than gamma, below.
    each = up(1.01 * (_EXPONENTIAL_ERROR + spread))
    delta = up((attention * each).sum(axis=2))
    small = (each.max(axis=2) < _SMALL) & (delta < _SMALL)
    error = np.where(small, 2.1 * delta, np.inf)
    # If all others are certainly MARGIN below, both are within 2 (n - 1) exp(-MARGIN) of one-hot.
    others = scores.shape[1] - 1
    certain = below + spread
    np.put_along_axis(certain, top[:, :, np.newaxis], -np.inf, axis=2)
    alone = certain.max(axis=2) <= -MARGIN
    error = np.where(alone, 4.1 * others * TAIL, error) + gamma(others + 5)
    return attention, up(error.sum(axis=1))
