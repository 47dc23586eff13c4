"""Planted bugs of masks."""

import numpy as np
import torch

from eager import Eager
from flash import Flash


class CausalOneAhead(Flash):
    """The causal mask lets one key of the future through."""

    needs = "causal"

    def causal(self, run, rows, keys):
        return keys <= self.positions(run, rows)[..., None] + 1


class CausalWithoutDiagonal(Flash):
    """The causal mask hides the query's own position."""

    needs = "causal"

    def causal(self, run, rows, keys):
        return keys < self.positions(run, rows)[..., None]


class CausalTopLeft(Flash):
    """The causal mask is aligned to the top left where bottom right was asked for."""

    needs = "bottom-right unequal"
    seen = "https://github.com/gittensor-ai-lab/sparkinfer/issues/3"

    def offset(self, run):
        return np.zeros(run.batch, int)


class CausalBottomRight(Flash):
    """The causal mask is aligned to the bottom right where top left was asked for."""

    needs = "top-left unequal"

    def offset(self, run):
        return run.lengths - run.tq


class CausalOffsetNegated(Flash):
    """The offset of the causal mask is queries less keys, not keys less queries."""

    needs = "bottom-right unequal"

    def offset(self, run):
        return -super().offset(run)


class CausalForgottenForOneQuery(Flash):
    """The causal mask is skipped when there is a single query, as if it were the last."""

    needs = "top-left one-query many-keys"

    def causal(self, run, rows, keys):
        return super().causal(run, rows, keys) | (run.tq == 1)

    def key_range(self, run, rows):
        first, last = super().key_range(run, rows)
        return (first, int(run.lengths.max())) if run.tq == 1 else (first, last)


class CausalOnLastBlockOnly(Flash):
    """The causal mask is applied to the last block of keys; the edge crosses two blocks."""

    needs = "bottom-right key-blocks unequal query-blocks"
    seen = "https://github.com/Dao-AILab/flash-attention/pull/436"

    def causal(self, run, rows, keys):
        last = self.key_range(run, rows)[1]
        return super().causal(run, rows, keys) | (keys[-1] + 1 < last)


class CausalByWholeBlocks(Flash):
    """The causal mask drops blocks of the future, but hides nothing inside the diagonal block."""

    needs = "causal key-blocks"

    def causal(self, run, rows, keys):
        return np.ones((run.batch, len(rows), len(keys)), bool)


class CausalOverGroup(Flash):
    """The query's position is divided by the group size, as if grouped heads were packed rows."""

    needs = "causal grouped many-queries"

    def causal(self, run, rows, keys):
        at = rows[None] // run.group + self.offset(run)[:, None]
        return keys <= at[..., None]


class CausalCountsFromFirstRealKey(Flash):
    """The causal diagonal is moved by the left padding."""

    needs = "causal starts"

    def causal(self, run, rows, keys):
        at = self.positions(run, rows) - run.starts[:, None]
        return keys <= at[..., None]


class CausalOffsetOfFirstBatch(Flash):
    """The causal offset of batch 0 is used for all batches, whose lengths differ."""

    needs = "bottom-right uneven-lengths"

    def offset(self, run):
        return np.full(run.batch, super().offset(run)[0])


class WindowOneTooLong(Flash):
    """The window reaches one key too far to the left."""

    needs = "window-left"
    seen = "https://github.com/huggingface/transformers/issues/39408"

    def window(self, run, rows, keys):
        left, right = run.o.window
        at = self.positions(run, rows)[..., None]
        return (keys >= at - left - 1) & (keys <= at + (run.tk if right is None else right))


class WindowOneTooShort(Flash):
    """The window misses its leftmost key."""

    needs = "window-left"
    seen = "https://github.com/lightseekorg/tokenspeed/pull/578"

    def window(self, run, rows, keys):
        left = run.o.window[0]
        at = self.positions(run, rows)[..., None]
        return super().window(run, rows, keys) & (keys > at - left)


class WindowRightIgnored(Flash):
    """The right side of the window is not masked inside blocks."""

    needs = "window-right"

    def window(self, run, rows, keys):
        left = run.o.window[0]
        at = self.positions(run, rows)[..., None]
        return keys >= at - (run.tk + run.tq if left is None else left)


class WindowSidesExchanged(Flash):
    """The left and right sides of the window are exchanged."""

    needs = "window-uneven"

    def __call__(self, q, k, v, o):
        return super().__call__(q, k, v, o.but(window=o.window[::-1]))


class WindowTopLeft(Flash):
    """The window is counted from the query's index, without the offset of its alignment."""

    needs = "bottom-right window-left unequal"

    def window(self, run, rows, keys):
        return keys >= rows[None, :, None] - run.o.window[0] + np.zeros((run.batch, 1, 1), int)

    def key_range(self, run, rows):
        return 0, super().key_range(run, rows)[1]


class WindowStartsBlockLate(Flash):
    """The first block of a window is rounded up, so the block with its left edge is skipped."""

    needs = "window-left key-blocks query-blocks"

    def key_range(self, run, rows):
        first, last = super().key_range(run, rows)
        return -(-first // self.block_k) * self.block_k, last


class WindowCentred(Flash):
    """The left window is halved and spent on both sides."""

    needs = "window-left"

    def window(self, run, rows, keys):
        at = self.positions(run, rows)[..., None]
        half = run.o.window[0] // 2
        return (keys >= at - half) & (keys <= at + half)


class MaskOfFirstHead(Flash):
    """The boolean mask of head 0 is used for every head."""

    needs = "head-mask"

    def mask(self, run, rows, keys):
        return super().mask(run, rows, keys)[:, :1]


class MaskOfFirstBatch(Flash):
    """The boolean mask of batch 0 is used for every batch."""

    needs = "batch-mask"

    def mask(self, run, rows, keys):
        return super().mask(run, rows, keys)[:1]


class MaskOfFirstRow(Flash):
    """The row of the boolean mask is read once per block of queries."""

    needs = "mask many-queries"

    def mask(self, run, rows, keys):
        return super().mask(run, np.full_like(rows, rows[0]), keys)


class MaskByKeyHead(Flash):
    """The boolean mask is read by key head, not by query head."""

    needs = "head-mask grouped"

    def mask(self, run, rows, keys):
        return super().mask(run, rows, keys)[:, self.key_heads(run)]


class MaskOneKeyLate(Flash):
    """The boolean mask is read one key too far to the left."""

    needs = "mask many-keys"

    def mask(self, run, rows, keys):
        return super().mask(run, rows, np.maximum(keys - 1, 0))


class MaskInverted(Eager):
    """True in the boolean mask hides a key."""

    needs = "mask"

    def mask(self, run):
        return ~super().mask(run)


class MaskTransposed(Eager):
    """The boolean mask is read with queries and keys exchanged."""

    needs = "mask equal"

    def mask(self, run):
        return super().mask(run).transpose(-1, -2)


class MaskDroppedByCausal(Eager):
    """The boolean mask is ignored when a causal mask was asked for, too."""

    needs = "mask causal"

    def mask(self, run):
        return torch.ones_like(super().mask(run)) | torch.tensor(run.o.causal is not None)


class WindowDroppedByCausal(Eager):
    """The window is ignored when a causal mask was asked for, too."""

    needs = "window causal"

    def window(self, run):
        return super().window(run) | torch.tensor(run.o.causal is not None)


class HiddenScoreFinite(Eager):
    """Hidden scores are -10000, not minus infinity: a row of large negative scores sees them."""

    needs = "causal sunk-logits float32"
    seen = "https://github.com/flashinfer-ai/flashinfer/issues/4267"

    def masked(self, run, s, seen):
        return s.masked_fill(~seen, -1e4)


class HiddenScoreAdded(Eager):
    """Hidden keys have -5 added to their scores: they are weak, not hidden."""

    needs = "causal"

    def masked(self, run, s, seen):
        return s - 5 * (~seen).to(s.dtype)


class HiddenWeightZeroedLate(Eager):
    """Hidden keys are zeroed after the softmax: they still count in its denominator."""

    needs = "causal"

    def softmax(self, run, s):
        hidden = torch.isneginf(s)
        p = super().softmax(run, torch.where(hidden, torch.zeros_like(s), s))
        return torch.where(hidden, torch.zeros_like(p), p)


class EmptyRowMean(Eager):
    """A row that sees no key is the mean of all values."""

    needs = "empty-row"

    def masked(self, run, s, seen):
        empty = ~seen.any(-1, keepdim=True)
        return torch.where(empty, torch.zeros_like(s), super().masked(run, s, seen))


class EmptyRowNaN(Eager):
    """A row that sees no key is NaN."""

    needs = "empty-row"
    seen = "https://github.com/Dao-AILab/flash-attention/issues/443"

    def softmax(self, run, s):
        return torch.softmax(s.float(), -1) + 0 * super().softmax(run, s)


class InfiniteBiasCleared(Eager):
    """Minus infinities of the bias become zeros."""

    needs = "infinite-bias"

    def bias(self, run):
        return torch.nan_to_num(super().bias(run), neginf=0.0)


class CausalAfterTranspose(Eager):
    """The causal mask is the upper triangle: queries see the present and the future."""

    needs = "causal"

    def causal(self, run):
        return self.distance(run) >= 0


class DiagonalAlwaysVisible(Eager):
    """The boolean mask never hides the query's own position."""

    needs = "mask"

    def mask(self, run):
        return super().mask(run) | (self.distance(run) == 0)[:, None]
