"""The right kernel of the fourth campaign: tiles of queries and keys, without pages or splits.

A planted bug is a subclass that overrides one of the decisions.
"""

from dataclasses import dataclass

import numpy as np

from options import Run


@dataclass(frozen=True, eq=False)
class Tile:
    """Rows of queries that one program computes.

    Attributes:
        rows: where q is read and the output is written
        numbers: the numbers of these queries, which masks compare
    """

    rows: np.ndarray
    numbers: np.ndarray


class Tiles:
    """Flash attention in float32; keys and values of a tile beyond the last are zeros."""

    block_q, block_k = 32, 64

    def __call__(self, q, k, v, o):
        run = Run(q, k, v, o)
        out = np.zeros((run.batch, run.heads, run.tq, run.dv), np.float32)
        with np.errstate(all="ignore"):
            for tile in self.tiles(run):
                out[:, :, tile.rows] = self.output(run, tile)
        return out

    def tiles(self, run):
        for first in range(0, run.tq, self.block_q):
            rows = np.arange(first, min(first + self.block_q, run.tq))
            yield Tile(rows, rows)

    def output(self, run, tile):
        state = self.initial(run, tile)
        q = run.q[:, :, tile.rows]
        for keys in self.key_tiles(run, tile):
            seen = self.visible(run, tile, keys)
            is_needed = self.is_needed(seen)
            if not is_needed.any():
                continue
            scores = self.scores(run, q, tile, keys)
            new = self.update(state, scores, self.hidden(run, scores, seen, keys),
                              self.values(run, keys))  # fmt: skip
            state = tuple(
                np.where(is_needed.reshape(is_needed.shape + (1,) * (old.ndim - 2)), later, old)
                for old, later in zip(state, new, strict=True)
            )
        return self.divided(state)

    # which tiles of keys

    def key_tiles(self, run, tile):
        first, end = self.first_key(run, tile), self.end(run, tile)
        for start in range(first // self.block_k * self.block_k, end, self.block_k):
            yield start + np.arange(self.block_k)

    def first_key(self, run, tile):
        left, _ = self.window(run)
        if left is None:
            return 0
        return max(0, int(tile.numbers[0]) + self.window_offset(run) - left)

    def end(self, run, tile):
        """One past the last key that a row of the tile sees."""
        end, last = run.tk, int(tile.numbers[-1])
        if self.is_causal(run):
            end = min(end, self.causal_end(run, last))
        _, right = self.window(run)
        if right is not None:
            end = min(end, last + self.window_offset(run) + right + 1)
        return end

    def causal_end(self, run, last):
        return last + self.offset(run) + 1

    def is_needed(self, seen):
        """(batch, heads): whether a tile has a visible key; others change nothing."""
        return seen.any((-2, -1))

    # memory

    def key_heads(self, run):
        return np.arange(run.heads) // run.group

    def value_heads(self, run):
        return self.key_heads(run)

    def keys(self, run, keys):
        rows = run.k[:, self.key_heads(run)][:, :, np.minimum(keys, run.tk - 1)]
        return np.where((keys < run.tk)[:, None], rows, np.float32(0))

    def value_stride(self, run):
        return run.dv

    def values(self, run, keys):
        """Read (batch, heads, keys, d_v) by addresses; keys may differ from head to head."""
        sequence, head = np.arange(run.batch)[:, None], self.value_heads(run)
        rows = (sequence * run.kv_heads + head) * run.tk * run.dv
        address = rows[..., None, None] + (keys * self.value_stride(run))[..., None]
        address = np.minimum(address + np.arange(run.dv), run.v.size - 1)
        return np.where((keys < run.tk)[..., None], run.v.reshape(-1)[address], np.float32(0))

    # scores

    def scale(self, run):
        return np.float32(run.d**-0.5 if run.o.scale is None else run.o.scale)

    def product(self, run, q, k):
        return q @ np.swapaxes(k, -1, -2)

    def scores(self, run, q, tile, keys):
        return self.product(run, q, self.keys(run, keys)) * self.scale(run)

    def hidden(self, run, scores, seen, keys):
        return np.where(seen, scores, np.float32(-np.inf))

    # masks

    def is_causal(self, run):
        return run.o.causal is not None

    def window(self, run):
        return run.o.window

    def offset(self, run):
        return run.tk - run.tq if run.o.causal == "bottom-right" else 0

    def window_offset(self, run):
        return self.offset(run)

    def visible(self, run, tile, keys):
        """(batch, heads, rows, keys): what the masks let each row see."""
        shape = (run.batch, run.heads, len(tile.rows), len(keys))
        seen = np.broadcast_to(self.exists(run, keys), shape)
        if self.is_causal(run) and not self.is_below(run, tile, keys):
            seen = seen & self.causal(run, tile.numbers[:, None], keys)
        left, right = self.window(run)
        at = tile.numbers[:, None] + self.window_offset(run)
        if left is not None:
            seen = seen & (keys >= self.left_edge(at, left))
        if right is not None:
            seen = seen & (keys <= at + right)
        if run.o.mask is not None:
            seen = seen & self.mask(run, tile, keys)
        return seen

    def exists(self, run, keys):
        return keys < run.tk

    def is_below(self, run, tile, keys):
        """Whether all rows of a tile see all its keys, so that the causal mask is left out."""
        return keys[-1] <= tile.numbers[0] + self.offset(run)

    def causal(self, run, numbers, keys):
        return keys <= numbers + self.offset(run)

    def left_edge(self, at, left):
        return at - left

    def mask(self, run, tile, keys):
        """(batch, heads, rows, keys) of the given mask; True behind the last key."""
        rows = run.o.mask[:, :, tile.rows]
        return rows[..., np.minimum(keys, run.tk - 1)] | (keys >= run.tk)

    # online softmax: (maximum, sum of exponentials, sum of weighted values)

    def initial(self, run, tile):
        shape = (run.batch, run.heads, len(tile.rows))
        return (
            np.full(shape, -np.inf, np.float32),
            np.zeros(shape, np.float32),
            np.zeros((*shape, run.dv), np.float32),
        )

    def update(self, state, scores, hidden, v):
        maximum, total, sums = state
        new = np.maximum(maximum, self.largest(scores, hidden))
        base = np.where(np.isfinite(new), new, np.float32(0))[..., None]
        weights = np.exp(hidden - base)
        fade = self.fade(maximum, new, base[..., 0])
        total = total * fade + self.added(scores - base, weights)
        return new, total, self.rescaled(sums, fade) + weights @ v

    def largest(self, scores, hidden):
        return hidden.max(-1)

    def fade(self, old, new, base):
        return np.exp(old - base)

    def added(self, exponents, weights):
        """What a tile adds to the sum of exponentials."""
        return weights.sum(-1)

    def rescaled(self, sums, fade):
        return sums * fade[..., None]

    def divided(self, state):
        _, total, sums = state
        share = np.where(total > 0, 1 / np.where(total > 0, total, np.float32(1)), np.float32(0))
        return sums * np.where(np.isnan(total), total, share)[..., None]
