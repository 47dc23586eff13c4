"""Which pairs agree on which examples, and x_{t,p} with bounds where they do not."""

from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from constructive.certificates.claims.paired.examples import (
    MARGIN,
    TAIL,
    Examples,
    Integers,
    UndecidedError,
)
from constructive.exact.compensated import dot, exponential
from constructive.exact.directed import UNIT, gamma, lengths, up
from constructive.support.arrays import CHUNK_BYTES, Array
from constructive.support.parallel import ordered_map
from constructive.support.progress import Progress
from constructive.support.shared import Place, arrays_at, shared

_TOGETHER = 16
"""Chunks of the product in a piece of work."""

_MOST_COUPLED = 4
"""Coupled entries for each example, on average, beyond which nothing is tried."""

_EXPONENTIAL_ERROR = 2.0**-46
"""Relative error of exponentials, more than theirs: as whoever checks it takes for his own."""

_SMALL = 0.01
"""Errors up to which first-order bounds of a softmax hold with a few percent to spare."""

_GOOD_ENOUGH = 1e-10
"""Error of attention above which scores are evaluated anew, in twice the precision."""

DIFFERENCE = 1.0, -1.0
"""Signs of the two heads in x_{t,p}."""


class Entries(NamedTuple):
    """x_{t,p} with a bound on the error of each entry: the blocks, and the coupled rest.

    T' positions belong to a pair, and m entries beside those do not agree.

    Attributes:
        own: (T', d), of each position and its own pair
        own_error: (T',)
        positions: (m,), of the coupled rest
        pairs: (m,)
        coupled: (m, d)
        coupled_error: (m,)
    """

    own: Array
    own_error: Array
    positions: Integers
    pairs: Integers
    coupled: Array
    coupled_error: Array


class _Piece(NamedTuple):
    """Some rows of the product of queries and heads, as `_disagreeing` needs them.

    Attributes:
        place: queries (T, d), weights (d, 2 P), owner (T',), and what is needed at the top and at
            the bottom (T,)
        start: the first position
        stop: the position after the last one
        pairs: P
    """

    place: Place
    start: int
    stop: int
    pairs: int


def evaluate(
    examples: Examples, progress: Progress, *, executor: Executor | None = None
) -> Entries:
    """Decide which entries are tails, and evaluate the others.

    Raises:
        UndecidedError: where too many are not
    """
    owner = examples.owner
    with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
        positions, pairs = _coupled(examples, owner, executor, progress)
        progress("evaluate what is coupled", 0, 1)
        own = read(examples, np.arange(len(owner)), owner, DIFFERENCE)
        coupled = read(examples, positions, pairs, DIFFERENCE)
    return Entries(*own, positions, pairs, *coupled)


def _coupled(
    examples: Examples, owner: Integers, executor: Executor | None, progress: Progress
) -> tuple[Integers, Integers]:
    """Positions and pairs which are not certified to agree, but for those of the own pairs."""
    total, pairs = len(examples.order), len(examples.stops)
    ordered = np.sort(examples.scores, axis=1)
    weights = np.ascontiguousarray(np.concatenate(list(examples.query_weights)).T)
    longest = float(lengths(examples.query_weights).max())
    reach_error = up(gamma(len(weights) + 2) * longest * lengths(examples.queries))
    arrays = {"queries": examples.queries, "weights": weights, "owner": owner}
    gaps = ordered[:, -1] - ordered[:, -2], ordered[:, 1] - ordered[:, 0]
    for name, gap in zip(("top", "bottom"), gaps, strict=True):
        least = np.maximum(gap - up(2.0 * examples.score_error + 2.0 * UNIT * gap), 0.0)
        arrays[name] = up(up(MARGIN / least) + reach_error)
    found: dict[int, tuple[Integers, Integers]] = {}

    def keep(number: int, part: tuple[Integers, Integers]) -> None:
        found[number] = part
        if sum(len(positions) for positions, _ in found.values()) > _MOST_COUPLED * total:
            raise UndecidedError(
                f"pairs do not agree on more than {_MOST_COUPLED} entries an example; "
                "another seed=, or fewer examples"
            )

    rows = _TOGETHER * max(1, CHUNK_BYTES // (8 * 2 * pairs))
    with ExitStack() as stack:
        place: Place = arrays if executor is None else stack.enter_context(shared(arrays))
        parts = ordered_map(
            _disagreeing,
            [
                _Piece(place, start, min(start + rows, total), pairs)
                for start in range(0, total, rows)
            ],
            executor=executor,
            progress=progress,
            step="certify which pairs agree",
            keep=keep,
        )
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _disagreeing(piece: _Piece) -> tuple[Integers, Integers]:
    """Positions of the piece and pairs, not their own, which are not certified to agree there."""
    arrays, pairs = arrays_at(piece.place), piece.pairs
    owner = arrays["owner"]
    found_positions, found_pairs = [], []
    step = max(1, CHUNK_BYTES // (8 * 2 * pairs))
    for start in range(piece.start, piece.stop, step):
        rows = slice(start, min(start + step, piece.stop))
        with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
            reach = arrays["queries"][rows] @ arrays["weights"]
        first, second = reach[:, :pairs], reach[:, pairs:]
        top, bottom = (arrays[name][rows, np.newaxis] for name in ("top", "bottom"))
        # Of one sign, and beyond what is needed there (infinity, where scores may be equal).
        agree = np.minimum(first, second) >= top
        agree |= np.maximum(first, second) <= -bottom
        inside = np.arange(rows.start, min(rows.stop, len(owner)))
        agree[inside - rows.start, owner[inside]] = True
        where, which = np.nonzero(~agree)
        found_positions.append(where + start)
        found_pairs.append(which)
    return np.concatenate(found_positions), np.concatenate(found_pairs)


def read(
    examples: Examples, positions: Integers, pairs: Integers, signs: tuple[float, float]
) -> tuple[Array, Array]:
    """The sum of both heads' z times signs (k, d), and a bound on the error of its entries (k,)."""
    width, size = examples.queries.shape[1], examples.scores.shape[1]
    values, errors = np.empty((len(positions), width)), np.empty(len(positions))
    by_example = np.argsort(examples.order[positions], kind="stable")  # as they lie on disk
    step = max(1, CHUNK_BYTES // (8 * size * width))
    for start in range(0, len(positions), step):
        part = by_example[start : start + step]
        chosen = positions[part]
        contexts = examples.contexts(chosen)
        weights = examples.query_weights[:, pairs[part]].transpose(1, 0, 2)
        reach = dot(examples.queries[chosen, np.newaxis], weights)
        scores, score_error = examples.scores[chosen], examples.score_error[chosen]
        attention, error = _attention(reach, scores, np.zeros_like(scores), score_error)
        # Where s_{t,h} is large and gaps are small, differences of scores have to be better.
        worse = np.flatnonzero(~(error <= _GOOD_ENOUGH))
        if len(worse):
            leading, rest, bounds = dot(contexts[worse], examples.key)
            attention[worse], error[worse] = _attention(
                [each[worse] for each in reach], leading, rest, bounds.max(axis=1)
            )
        combined = signs[0] * attention[:, 0] + signs[1] * attention[:, 1]
        values[part] = np.matmul(combined[:, np.newaxis], contexts)[:, 0]
        errors[part] = up(up(error + 3.0 * gamma(size + 2)) * examples.largest[chosen])
    return values, errors


def _attention(
    reach: Sequence[Array], scores: Array, rest: Array, score_error: Array
) -> tuple[Array, Array]:
    """Attention of both heads (k, 2, n), and a bound (k,) of the sum of all errors.

    Args:
        reach: s_{t,h} as a sum of two, and the error of that, (k, 2) each
        scores: E_t key (k, n), as a sum of these
        rest: and these
        score_error: (k,), bounds the errors of that
    """
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
    # delta = sum_i alpha_i e_i. Those which are taken for 0 are below exp(-700) of the largest one:
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
