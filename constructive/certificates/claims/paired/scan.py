"""The one pass over all contexts, in the order in which they lie on disk.

All that is asked of every example is found while its tokens are in memory: scores, the entries of
its own pair, and what is read by a pair whose readouts do not cancel. Nothing of the size of the
contexts is kept, nor all scores.
"""

from dataclasses import dataclass

import numpy as np

from constructive.certificates.claims.paired.examples import Examples
from constructive.certificates.claims.paired.reading import DIFFERENCE, SECOND, Tokens
from constructive.certificates.claims.paired.readouts import Terms, Unlike
from constructive.support.arrays import Array, Integers, row_chunks
from constructive.support.progress import report


@dataclass(frozen=True, eq=False)
class Scan:
    """What is found of T examples, of which T' belong to a pair."""

    top: Array  # (T,), from the largest score of an example to the next one
    bottom: Array  # (T,), from the least score to the next one
    score_error: Array  # (T,), bounds the errors of scores
    largest: Array  # (T,), bounds `max |E_t|`
    own: Array  # x_{t,p} (T', d), of each position and its own pair
    own_error: Array  # (T',), bounds the errors of their entries
    # z_{t,2p+1}.V_p of all positions, for the pair whose readouts do not cancel; None if there is
    # none, or nobody asks
    second: Terms | None

    @classmethod
    def of(cls, examples: Examples, unlike: Unlike | None) -> "Scan":
        """Read every context once; `unlike` is the pair whose readouts do not cancel."""
        owner, total = examples.owner, len(examples.order)
        size, width = examples.dataset.context_size, examples.queries.shape[1]
        top, bottom, score_error, largest = np.empty((4, total))
        own, own_error = np.empty((len(owner), width)), np.empty(len(owner))
        second = Terms.room(total, 0 if unlike is None else unlike.readouts.shape[2])
        positions = _as_on_disk(examples.order, len(owner))
        for part in row_chunks(total, 8 * size * width):
            report("read contexts", part.start, total)
            rows = positions[part]
            mine = rows[: max(len(owner) - part.start, 0)]
            with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
                tokens = Tokens.of(examples, rows)
                ordered = np.sort(tokens.scores, axis=1)
                top[rows] = ordered[:, -1] - ordered[:, -2]
                bottom[rows] = ordered[:, 1] - ordered[:, 0]
                score_error[rows], largest[rows] = tokens.score_error, tokens.largest
                own[mine], own_error[mine] = tokens.read(owner[mine], DIFFERENCE)
                if unlike is not None:
                    pairs = np.full(len(rows), unlike.pair)
                    z = tokens.read(pairs, SECOND)
                    terms = Terms.of(*z, unlike.readouts, pairs)
                    for kept, term in zip(second, terms, strict=True):
                        kept[rows] = term
        return cls(
            top, bottom, score_error, largest, own, own_error, second if unlike else None
        )  # fmt: skip


def _as_on_disk(order: Integers, owned: int) -> Integers:
    """All positions by their examples, but for the extra one without a pair, which comes last."""
    return np.concatenate([np.argsort(order[:owned]), np.arange(owned, len(order))])
