"""Which positions of a causal layer are computed together: blocks, so that memory is bounded.

A block of b positions sees the keys up to its last one, n of them. Its logits are H b n numbers
for each sequence, never H N N.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

BLOCK_BYTES = 1 << 25
"""About the size of the logits of a block, in bytes: large, so that products are."""
_MOST_ROWS = 256
"""Beyond this a block computes more of what it does not see than it gains."""


class Block(NamedTuple):
    """Positions which are computed together.

    Attributes:
        sequences: which sequences
        rows: which positions ask
        keys: which positions any of them sees
        hidden: (b, n), which of these a row does not see
    """

    sequences: slice
    rows: slice
    keys: slice
    hidden: npt.NDArray[np.bool_]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many keys each row sees: (b,)."""
        counts: npt.NDArray[np.int64] = (~self.hidden).sum(axis=1)
        return counts


def blocks(
    count: int, length: int, num_heads: int, window: int | None, block_bytes: int = BLOCK_BYTES
) -> Iterator[Block]:
    """Cover all positions of all sequences.

    Args:
        count: S, the number of sequences
        length: N, the number of positions of each
        num_heads: H
        window: how many positions a row sees, itself among them; None for all up to itself
        block_bytes: about the size of the logits of a block, in bytes

    Example:
        >>> [(b.rows.start, b.rows.stop, b.keys.start) for b in blocks(1, 5, 1, 2, block_bytes=64)]
        [(0, 2, 0), (2, 4, 1), (4, 5, 3)]
    """
    allowed = max(1, block_bytes // (8 * num_heads))  # entries of one head
    window = window if window is None else min(window, length)
    others = (window or length) - 1
    # b rows see at most N keys together, and at most b + window - 1.
    fitting = max(allowed // length, (math.isqrt(others**2 + 4 * allowed) - others) // 2)
    rows = max(1, min(length, _MOST_ROWS, fitting))
    together = max(1, allowed // (rows * min(length, rows + others)))
    for first in range(0, count, together):
        sequences = slice(first, min(first + together, count))
        for start in range(0, length, rows):
            stop = min(start + rows, length)
            begin = 0 if window is None else max(0, start + 1 - window)
            row = np.arange(start, stop)[:, np.newaxis]
            key = np.arange(begin, stop)
            hidden = key > row
            if window is not None:
                hidden |= key <= row - window
            yield Block(sequences, slice(start, stop), slice(begin, stop), hidden)
