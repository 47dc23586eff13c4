"""Planted bugs of blocks and of the online softmax."""

import numpy as np

from flash import Flash


class LastPartialBlockDropped(Flash):
    """A last block of keys that is not full is dropped."""

    needs = "partial-key-block key-blocks"

    def key_blocks(self, run, rows, low, high):
        for keys in super().key_blocks(run, rows, low, high):
            if keys[-1] < run.tk:
                yield keys


class FirstBlockSkipped(Flash):
    """The first block of keys is skipped."""

    needs = "key-blocks"

    def key_blocks(self, run, rows, low, high):
        blocks = list(super().key_blocks(run, rows, low, high))
        yield from blocks[1:] or blocks


class SecondBlockSkipped(Flash):
    """The second block of keys is skipped, as the pipeline's prologue counts it as done."""

    needs = "key-blocks"

    def key_blocks(self, run, rows, low, high):
        blocks = list(super().key_blocks(run, rows, low, high))
        yield from blocks[:1] + blocks[2:]


class LoopEndsBeforeDiagonalBlock(Flash):
    """The loop over blocks of keys ends before the block that the causal edge crosses."""

    needs = "causal key-blocks query-blocks"

    def key_range(self, run, rows):
        first, last = super().key_range(run, rows)
        if run.o.causal and last > self.block_k:
            last = (last - 1) // self.block_k * self.block_k
        return first, last


class LastKeyNeverRead(Flash):
    """The last key is never read."""

    needs = "many-keys"

    def exists(self, run, keys):
        return super().exists(run, keys) & (keys < run.tk - 1)


class TailCountsAsKeys(Flash):
    """Places of the last block past the last key count as keys with score zero."""

    needs = "partial-key-block not-causal"

    def exists(self, run, keys):
        return (keys[None] < run.lengths[:, None]) & (keys[None] >= run.starts[:, None])

    def scores(self, run, q, k, rows, keys):
        s = super().scores(run, q, k, rows, keys)
        return np.where(keys >= run.tk, 0, s).astype(run.real)


class LastBlockOverlaps(Flash):
    """The last block is moved back to be full, and counts the overlapping keys twice."""

    needs = "partial-key-block key-blocks"

    def key_blocks(self, run, rows, low, high):
        for keys in super().key_blocks(run, rows, low, high):
            yield keys - max(0, keys[-1] + 1 - run.tk)


class FirstKeyTwice(Flash):
    """The first key of every block but the first is counted twice."""

    needs = "key-blocks"

    def key_blocks(self, run, rows, low, high):
        for keys in super().key_blocks(run, rows, low, high):
            yield np.concatenate([keys[:1], keys]) if keys[0] else keys


class AccumulatorNotRescaled(Flash):
    """The accumulator is not rescaled when the running maximum grows."""

    needs = "key-blocks"

    def update(self, run, state, s, v):
        m, total, _ = super().update(run, state, s, v)
        base = np.where(np.isneginf(m), 0, m)
        return m, total, state[2] + self.exp(s - base[..., None]) @ v


class SumNotRescaled(Flash):
    """The sum of exponentials is not rescaled when the running maximum grows."""

    needs = "key-blocks"

    def update(self, run, state, s, v):
        m, _, acc = super().update(run, state, s, v)
        base = np.where(np.isneginf(m), 0, m)
        return m, state[1] + self.exp(s - base[..., None]).sum(-1), acc


class RescaledInversely(Flash):
    """The rescaling factor is exp(new - old) instead of exp(old - new)."""

    needs = "key-blocks"

    def update(self, run, state, s, v):
        m, total, acc = state
        new = self.maximum(run, m, s)
        fade = np.where(np.isneginf(m), 0, self.exp(new - m))
        p = self.exp(s - np.where(np.isneginf(new), 0, new)[..., None])
        return new, total * fade + p.sum(-1), acc * fade[..., None] + p @ v


class RescaledBelowThresholdInSumOnly(Flash):
    """A small growth of the maximum rescales the sum but not the accumulator."""

    needs = "key-blocks"

    def update(self, run, state, s, v):
        m, total, acc = super().update(run, state, s, v)
        small = (m - state[0] < 8)[..., None]
        p = self.exp(s - np.where(np.isneginf(m), 0, m)[..., None])
        return m, total, np.where(small, state[2] + p @ v, acc)


class RescaledByFirstRow(Flash):
    """Every row of a block is rescaled by the factor of its first row."""

    needs = "key-blocks many-queries"

    def update(self, run, state, s, v):
        m, total, acc = state
        new = self.maximum(run, m, s)
        base = np.where(np.isneginf(new), 0, new)
        p = self.exp(s - base[..., None])
        fade = np.broadcast_to(self.exp(m - base)[..., :1], m.shape)
        return new, total * fade + p.sum(-1), acc * fade[..., None] + p @ v


class MaximumForgetsEarlierBlocks(Flash):
    """The maximum is that of the newest block; earlier sums are scaled up, and overflow."""

    needs = "key-blocks large-logits"

    def maximum(self, run, old, s):
        return s.max(-1)


class MaximumOfWholeBlock(Flash):
    """One maximum is used for all rows of a block: rows with smaller scores underflow."""

    needs = "large-logits many-queries"

    def maximum(self, run, old, s):
        new = super().maximum(run, old, s)
        return np.broadcast_to(new.max(-1, keepdims=True), new.shape)


class MaximumOfHiddenKeys(Flash):
    """The maximum includes hidden keys: rows whose visible scores are far below underflow."""

    needs = "causal large-logits many-queries"

    def scores(self, run, q, k, rows, keys):
        s = super().scores(run, q, k, rows, keys)
        everything = self.dot(run, q, k) * self.scale(run)
        top = np.where(self.exists(run, keys)[:, None, None], everything, -np.inf)
        self.top = np.maximum(top.max(-1), s.max(-1))
        return s

    def maximum(self, run, old, s):
        return np.maximum(old, self.top)


class MaximumStartsFinite(Flash):
    """The running maximum starts at -50000: rows whose scores are all below are zero."""

    needs = "sunk-logits"
    seen = "https://github.com/flashinfer-ai/flashinfer/issues/4267"

    def maximum(self, run, old, s):
        return np.maximum(super().maximum(run, old, s), -5e4).astype(run.real)


class MaximumOfUnscaledScores(Flash):
    """The maximum is of the scores before they are scaled: exponentials underflow."""

    needs = "large-logits"

    def maximum(self, run, old, s):
        return super().maximum(run, old, s / self.scale(run))

    def update(self, run, state, s, v):
        m, total, acc = state
        new = np.maximum(m, (s / self.scale(run)).max(-1))
        base = np.where(np.isneginf(new), 0, new)
        p = self.exp(s - base[..., None])
        fade = self.exp(m - base)
        return new, total * fade + p.sum(-1), acc * fade[..., None] + p @ v


class BiasAfterMaximum(Flash):
    """The bias is added after the maximum: exponentials overflow."""

    needs = "large-bias"

    def scores(self, run, q, k, rows, keys):
        s = super().scores(run, q, k, rows, keys)
        self.plain = s - self.bias(run, rows, keys)
        return s

    def maximum(self, run, old, s):
        return np.maximum(old, self.plain.max(-1))


class SumKeptBetweenQueryBlocks(Flash):
    """The sum of exponentials is not cleared when the next block of queries begins."""

    needs = "query-blocks"

    def initial(self, run, rows, previous):
        fresh = super().initial(run, rows, previous)
        if previous is None:
            return fresh
        return previous[0][:, :, :rows], previous[1][:, :, :rows], fresh[2]


class DividedTwice(Flash):
    """The accumulator is divided by the sum in the last block, and again at the end."""

    needs = "many-keys"

    def finish(self, run, state):
        out, lse = super().finish(run, state)
        return super().finish(run, (state[0], state[1], out))[0], lse


class NeverDivided(Flash):
    """The output is not divided by the sum of exponentials."""

    needs = "many-keys"

    def finish(self, run, state):
        return state[2], super().finish(run, state)[1]


class ValuesOfBlockBefore(Flash):
    """Values are a block behind: the second buffer is read before it is filled."""

    needs = "key-blocks"

    def values(self, run, keys):
        before = keys - self.block_k if keys[0] >= self.block_k else keys
        return super().values(run, before)


class QueriesOfFirstBlock(Flash):
    """Every block of queries computes with the queries of the first."""

    needs = "query-blocks"

    def queries(self, run, rows):
        return super().queries(run, rows % self.block_q)


class LastQueriesNotWritten(Flash):
    """The rows of a last partial block of queries are not written."""

    needs = "partial-query-block"

    def store(self, run, out):
        out[:, :, run.tq // self.block_q * self.block_q :] = 0
        return super().store(run, out)


class LastRowOfBlockStale(Flash):
    """The last row of each full block of queries has the weights of the row before."""

    needs = "query-blocks"

    def scores(self, run, q, k, rows, keys):
        s = super().scores(run, q, k, rows, keys)
        if len(rows) == self.block_q:
            s[:, :, -1] = s[:, :, -2]
        return s


class KeysPermutedInsideBlock(Flash):
    """Values of a block are read with its two halves exchanged."""

    needs = "key-blocks"

    def values(self, run, keys):
        half = self.block_k // 2
        return super().values(run, np.concatenate([keys[half:], keys[:half]]))


class WeightsTransposed(Flash):
    """Weights of a full square block are transposed before they meet the values."""

    needs = "key-blocks query-blocks"

    def update(self, run, state, s, v):
        m, total, acc = super().update(run, state, s, v)
        if s.shape[2] != s.shape[3]:
            return m, total, acc
        base = np.where(np.isneginf(m), 0, m)
        p, fade = self.exp(s - base[..., None]), self.exp(state[0] - base)
        return m, total, state[2] * fade[..., None] + np.swapaxes(p, -1, -2) @ v
