"""How the parameters of sequence memorizers grow with N: built for longer and longer beginnings."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from constructive.sequences.build import build_sequence_memorizer
from constructive.sequences.memorizer import SequenceMemorizer
from constructive.support.errors import ParameterError
from constructive.support.progress import report

_FACTOR = 4
_SMALLEST = 64


@dataclass(frozen=True)
class GrowthPoint:
    """The first N sequences, memorized."""

    num_sequences: int  # N
    memorizer: SequenceMemorizer  # as it was built
    exact: bool  # whether it predicts every label
    seconds: tuple[float, float]  # to build, and to predict

    @property
    def num_keys(self) -> int:
        """M, what labels are given to; at most N, or nN for seq2seq."""
        return self.memorizer.record.sizes.keys


def prefixes(total: int) -> tuple[int, ...]:
    """Return 64, 256, 1024, ... below a number, and the number itself.

    Example:
        >>> prefixes(1000)
        (64, 256, 1000)
    """
    found = []
    size = _SMALLEST
    while size < total:
        found.append(size)
        size *= _FACTOR
    return (*found, total)


def growth(
    sequences: Sequence[Any],
    labels: Sequence[Any],
    *,
    totals: Sequence[int] | None = None,
    **options: Any,  # noqa: ANN401 - those of build_sequence_memorizer
) -> Iterator[GrowthPoint]:
    """Memorize the first N sequences, for each N in totals, and compare every label by ==.

    Args:
        sequences: as `build_sequence_memorizer` takes them
        labels: as it takes them
        totals: each N; by default 64, 256, 1024, ... and all
        **options: of `build_sequence_memorizer`

    Raises:
        ParameterError: for totals beyond the data, and as `build_sequence_memorizer` raises it
        DataError: as `build_sequence_memorizer` raises it
        PrecisionError: as `build_sequence_memorizer` raises it

    Example:
        >>> windows = [[i, i + 1] for i in range(256)]
        >>> [p.num_sequences for p in growth(windows, [i % 5 for i in range(256)])]
        [64, 256]
    """
    labels = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    wanted = prefixes(len(sequences)) if totals is None else tuple(totals)
    beyond = [total for total in wanted if not 0 < total <= len(sequences)]
    if beyond:
        raise ParameterError(
            f"totals={beyond[0]} is not between 1 and {len(sequences)}",
            witness=beyond[0],
            suggestion="as many sequences as there are",
        )
    for place, total in enumerate(wanted):
        report(f"memorize {total} sequences", place, len(wanted))
        start = time.perf_counter()
        memorizer = build_sequence_memorizer(sequences[:total], labels[:total], **options)
        built = time.perf_counter()
        report(f"evaluate {total} sequences", place, len(wanted))
        exact = memorizer.predict(sequences[:total]) == labels[:total]
        seconds = built - start, time.perf_counter() - built
        yield GrowthPoint(total, memorizer, exact, seconds)


def exponent(keys: Sequence[int], counts: Sequence[float], *, after_log: bool = False) -> float:
    """Return the slope of log(counts) against log(keys), by least squares.

    Example:
        >>> round(exponent([64, 256, 1024], [80, 160, 320]), 3)
        0.5
    """
    if len(set(keys)) < 2 or min(keys) < 2:
        raise ParameterError(
            f"keys={list(keys)} give no slope",
            witness=list(keys),
            suggestion="two numbers of keys at least, beyond 1",
        )
    heights = np.array(counts, dtype=float)
    if after_log:
        heights /= np.sqrt(np.log2(keys))
    slope, _ = np.polyfit(np.log(keys), np.log(heights), 1)
    return float(slope)
