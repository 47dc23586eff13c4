"""Planted bugs of the fourth campaign: tiles."""

import ml_dtypes
import numpy as np

from tiles import Tile, Tiles


class ScaleOfValues(Tiles):
    """The default scale is that of the width of values."""

    def scale(self, run):
        return np.float32(run.dv**-0.5 if run.o.scale is None else run.o.scale)


class OffsetNotNegative(Tiles):
    """The offset of the bottom-right diagonal is cut off at zero."""

    def offset(self, run):
        return max(super().offset(run), 0)


class WindowFromTopLeft(Tiles):
    """The window is counted from the top-left diagonal, also where the causal mask is not."""

    def window_offset(self, run):
        return 0


class OneQuerySeesAll(Tiles):
    """With one query the causal mask is left out, which only the bottom-right one allows."""

    def is_causal(self, run):
        return super().is_causal(run) and run.tq > 1


class WindowOfZeroIsUnlimited(Tiles):
    """A left window of zero keys counts as none."""

    def window(self, run):
        left, right = super().window(run)
        return left or None, right


class RightWindowReplacesCausal(Tiles):
    """A right window stands in for the causal mask, so that later keys are read."""

    def is_causal(self, run):
        return super().is_causal(run) and run.o.window[1] is None


class ValuesByStrideOfKeys(Tiles):
    """Rows of values are as far apart as those of keys."""

    def value_stride(self, run):
        return run.d


class WidthInSixteens(Tiles):
    """The product of queries and keys leaves out entries behind the last 16."""

    def product(self, run, q, k):
        width = run.d // 16 * 16 or run.d
        return super().product(run, q[..., :width], k[..., :width])


class GroupsInterleaved(Tiles):
    """Query head h reads KV head h % kv_heads."""

    def key_heads(self, run):
        return np.arange(run.heads) % run.kv_heads


class ValuesOfHeadsNotGrouped(Tiles):
    """Query head h reads values of KV head h, as far as there are."""

    def value_heads(self, run):
        return np.minimum(np.arange(run.heads), run.kv_heads - 1)


class LastRowsKeepTheirNumbers(Tiles):
    """The last tile is moved back to be full, and its queries keep the numbers of before."""

    def tiles(self, run):
        for tile in super().tiles(run):
            first = tile.rows[0]
            if first + self.block_q <= run.tq or run.tq <= self.block_q:
                yield tile
            else:
                rows = np.arange(self.block_q)
                yield Tile(run.tq - self.block_q + rows, first + rows)


class EndWithoutOffset(Tiles):
    """The loop over keys ends at the diagonal from the top left."""

    def causal_end(self, run, last):
        return last + 1


class EndOneKeyEarly(Tiles):
    """The loop over keys ends one key early, which costs a tile that the diagonal begins."""

    def causal_end(self, run, last):
        return super().causal_end(run, last) - 1


class WindowBeginsAtLastRow(Tiles):
    """The first tile of keys is the one where the window of the last row begins."""

    def first_key(self, run, tile):
        return super().first_key(run, Tile(tile.rows, tile.numbers[::-1]))


class OddTileDropped(Tiles):
    """The loop over keys takes two tiles at a time, and leaves out an odd one at the end."""

    def key_tiles(self, run, tile):
        found = list(super().key_tiles(run, tile))
        return found if len(found) == 1 else found[: len(found) // 2 * 2]


class MaximumStartsAtZero(Tiles):
    """The running maximum starts at 0: rows of low scores underflow."""

    def initial(self, run, tile):
        maximum, total, sums = super().initial(run, tile)
        return np.zeros_like(maximum), total, sums


class SumStartsAtOne(Tiles):
    """The denominator starts at 1, which the first tile does not rescale."""

    def initial(self, run, tile):
        maximum, total, sums = super().initial(run, tile)
        return maximum, np.ones_like(total), sums

    def fade(self, old, new, base):
        return np.where(np.isfinite(old), super().fade(old, new, base), np.float32(1))


class LastKeysTwice(Tiles):
    """The last tile of keys is moved back to be full, and counts keys twice."""

    def key_tiles(self, run, tile):
        for keys in super().key_tiles(run, tile):
            yield keys - max(0, keys[-1] + 1 - run.tk) * (run.tk > self.block_k)


class DiagonalTestedAtLastRow(Tiles):
    """A tile counts as below the diagonal where its last row is."""

    def is_below(self, run, tile, keys):
        return super().is_below(run, Tile(tile.rows, tile.numbers[::-1]), keys)


class KeysBehindTheEnd(Tiles):
    """Zeros behind the last key are keys with score 0."""

    def exists(self, run, keys):
        return np.ones(len(keys), bool)


class DiagonalHidden(Tiles):
    """The causal mask hides the diagonal."""

    def causal(self, run, numbers, keys):
        return keys < numbers + self.offset(run)


class WindowOneKeyShort(Tiles):
    """The left edge of the window is hidden."""

    def left_edge(self, at, left):
        return super().left_edge(at, left) + 1


class MaskOfFirstSequence(Tiles):
    """The mask of every sequence is that of the first."""

    def mask(self, run, tile, keys):
        return super().mask(run, tile, keys)[:1]


class MaskOfKeyHead(Tiles):
    """The mask is that of the head with the number of the KV head."""

    def mask(self, run, tile, keys):
        return super().mask(run, tile, keys)[:, self.key_heads(run)]


class MaskFromFirstColumn(Tiles):
    """The mask is read from its first column, wherever the loop over keys starts."""

    def mask(self, run, tile, keys):
        start = self.first_key(run, tile) // self.block_k * self.block_k
        return super().mask(run, tile, keys - start)


class MaskAdded(Tiles):
    """A mask of booleans is added to the scores as 0 and 1."""

    def scores(self, run, q, tile, keys):
        found = super().scores(run, q, tile, keys)
        return found if run.o.mask is None else found + super().mask(run, tile, keys)

    def mask(self, run, tile, keys):
        return True


class TilesSkippedByFirstRow(Tiles):
    """A tile is skipped where its first row sees nothing."""

    def is_needed(self, seen):
        return seen[..., 0, :].any(-1)


class HiddenTileEndsLoop(Tiles):
    """The loop over keys ends at a tile without a visible key."""

    def initial(self, run, tile):
        self.runs = np.ones((run.batch, run.heads), bool)
        return super().initial(run, tile)

    def is_needed(self, seen):
        self.runs = self.runs & super().is_needed(seen)
        return self.runs


class ValuesBehindSkippedTiles(Tiles):
    """The address of values moves on only where a tile is not skipped, and lags behind."""

    def initial(self, run, tile):
        self.skipped = np.zeros((run.batch, run.heads), int)
        return super().initial(run, tile)

    def is_needed(self, seen):
        needed = super().is_needed(seen)
        self.skipped = self.skipped + ~needed
        return needed

    def values(self, run, keys):
        return super().values(run, keys - self.block_k * self.skipped[..., None])


class ScoresInBfloat16(Tiles):
    """Scores are rounded to bfloat16."""

    def scores(self, run, q, tile, keys):
        found = super().scores(run, q, tile, keys)
        return found.astype(ml_dtypes.bfloat16).astype(np.float32)


class HiddenScoresFinite(Tiles):
    """Hidden scores are -10000: rows that see nothing are averages."""

    def hidden(self, run, scores, seen, keys):
        lowest = np.where(super().exists(run, keys), np.float32(-1e4), np.float32(-np.inf))
        return np.where(seen, scores, lowest)


class MaximumOfHiddenScores(Tiles):
    """The maximum is taken before the mask: rows of low scores underflow."""

    def largest(self, scores, hidden):
        return scores.max(-1)


class SmallGrowthNotRescaled(Tiles):
    """Where the maximum grows by less than 8 octaves it is replaced, and sums stay as they are."""

    def fade(self, old, new, base):
        is_small = new - old < np.float32(8 * np.log(2))
        return np.where(is_small, np.float32(1), super().fade(old, new, base))


class SumOfHiddenKeys(Tiles):
    """The denominator counts hidden keys."""

    def added(self, exponents, weights):
        return np.exp(exponents).sum(-1)


class SumsNotRescaled(Tiles):
    """The sum of weighted values is not rescaled when the maximum grows."""

    def rescaled(self, sums, fade):
        return sums
