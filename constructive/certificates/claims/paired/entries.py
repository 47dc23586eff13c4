"""Which pairs agree on which examples, and x_{t,p} with bounds where they do not."""

from concurrent.futures import Executor
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from constructive.certificates.claims.paired.examples import MARGIN, TAIL, Examples, UndecidedError
from constructive.certificates.claims.paired.reading import DIFFERENCE, read
from constructive.certificates.claims.paired.scan import Scan
from constructive.exact.upward import UNIT, gamma, lengths, up
from constructive.support.arrays import CHUNK_BYTES, Array, Integers, row_chunks
from constructive.support.parallel import Place, arrays_at, ordered_map, shared
from constructive.support.progress import report

_TOGETHER = 16  # Chunks of the product in a piece of work

_MOST_COUPLED = 4  # Coupled entries for each example, on average, beyond which nothing is tried


class Entries(NamedTuple):
    """x_{t,p} with a bound on the error of each entry: the blocks, and the coupled rest.

    T' positions belong to a pair, and m entries beside those do not agree.
    """

    own: Array  # (T', d), of each position and its own pair
    own_error: Array  # (T',)
    positions: Integers  # (m,), of the coupled rest
    pairs: Integers  # (m,)
    coupled: Array  # (m, d)
    coupled_error: Array  # (m,)
    tail: Array  # tail_t (T,), which bounds all other entries
    largest: Array  # (T,), bounds `max |E_t|`, and so whatever a head reads


class _Piece(NamedTuple):
    """Some rows of the product of queries and heads, as `_disagreeing` needs them."""

    # queries (T, d), weights (d, 2 P), owner (T',), and what the top and the bottom need: (T,)
    place: Place
    start: int  # the first position
    stop: int  # the position after the last one
    pairs: int  # P


def evaluate(examples: Examples, scan: Scan, *, executor: Executor | None = None) -> Entries:
    """Decide which entries are tails, and evaluate the coupled ones from contexts read anew."""
    others = examples.dataset.context_size - 1
    with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
        tail = up(2.0 * others * TAIL * scan.largest)
        positions, pairs = coupled_entries(examples, examples.owner, scan, executor)
        report("evaluate what is coupled", 0, 1)
        coupled = read(examples, positions, pairs, DIFFERENCE)
    return Entries(scan.own, scan.own_error, positions, pairs, *coupled, tail, scan.largest)


def coupled_entries(
    examples: Examples, owner: Integers, scan: Scan, executor: Executor | None
) -> tuple[Integers, Integers]:
    """Return positions and pairs that are not certified to agree, but for those of the own pairs.

    `owner` is the pair of each position that belongs to one. Raises UndecidedError where there are
    too many.
    """
    total, pairs = len(examples.order), len(examples.stops)
    weights = np.ascontiguousarray(np.concatenate(list(examples.query_weights)).T)
    longest = float(lengths(examples.query_weights).max())
    reach_error = up(gamma(len(weights) + 2) * longest * lengths(examples.queries))
    arrays = {"queries": examples.queries, "weights": weights, "owner": owner}
    for name, gap in (("top", scan.top), ("bottom", scan.bottom)):
        least = np.maximum(gap - up(2.0 * scan.score_error + 2.0 * UNIT * gap), 0.0)
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
            step="certify which pairs agree",
            keep=keep,
        )
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _disagreeing(piece: _Piece) -> tuple[Integers, Integers]:
    """Positions of the piece and pairs, not their own, which are not certified to agree there."""
    arrays, pairs = arrays_at(piece.place), piece.pairs
    owner = arrays["owner"]
    found_positions, found_pairs = [], []
    for part in row_chunks(piece.stop - piece.start, 8 * 2 * pairs):
        rows = slice(piece.start + part.start, piece.start + part.stop)
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
        found_positions.append(where + rows.start)
        found_pairs.append(which)
    return np.concatenate(found_positions), np.concatenate(found_pairs)
