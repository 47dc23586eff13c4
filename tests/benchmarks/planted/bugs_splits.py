"""Planted bugs of splits of the keys and of the merge."""

import ml_dtypes
import numpy as np

from flash import Flash


class MergeIsMean(Flash):
    """Parts are averaged, without their log-sum-exp."""

    needs = "splits"

    def merge(self, run, outs, lses):
        return outs.mean(0), super().merge(run, outs, lses)[1]


class MergeWithoutMaximum(Flash):
    """The log-sum-exp of a part forgets its maximum: it is the log of the sum."""

    needs = "splits"

    def finish(self, run, state):
        out, _ = super().finish(run, state)
        return out, np.where(state[1] > 0, np.log(state[1]), -np.inf)


class MergeWithoutSum(Flash):
    """The log-sum-exp of a part is its maximum alone."""

    needs = "splits"

    def finish(self, run, state):
        return super().finish(run, state)[0], state[0]


class MergeInBaseTwo(Flash):
    """Natural log-sum-exps are merged with powers of two."""

    needs = "splits"

    def merge(self, run, outs, lses):
        log2 = run.real(np.log(2))
        out, lse = super().merge(run, outs, lses * log2)
        return out, lse / log2


class MergeUnshifted(Flash):
    """The merge takes exp(lse) without the largest subtracted, and overflows."""

    needs = "splits large-logits"

    def merge(self, run, outs, lses):
        weights = np.exp(lses)
        total = weights.sum(0)
        return (outs * weights[..., None]).sum(0) / total[..., None], np.log(total)


class MergeScaledAgain(Flash):
    """Log-sum-exps are multiplied by the scale, which they already hold."""

    needs = "splits"
    seen = "https://github.com/HKUSTDial/flash-sparse-attention/pull/106"

    def finish(self, run, state):
        out, lse = super().finish(run, state)
        return out, lse * self.scale(run)


class MergeOfUnnormalized(Flash):
    """Parts are merged before they are divided by their own sums."""

    needs = "splits"

    def finish(self, run, state):
        return state[2], super().finish(run, state)[1]


class LastSplitDropped(Flash):
    """The last split is left out of the merge."""

    needs = "splits"

    def merge(self, run, outs, lses):
        last = max(1, run.o.splits - 1)
        return super().merge(run, outs[:last], lses[:last])


class RemainderOfSplitsDropped(Flash):
    """Blocks that do not divide evenly among splits are dropped."""

    needs = "uneven-splits"

    def split_bounds(self, run):
        size = run.tk // self.block_k // run.o.splits * self.block_k
        return [(n * size, (n + 1) * size) for n in range(run.o.splits)]


class SplitsOverlap(Flash):
    """Each split but the first counts the last key of the split before again."""

    needs = "splits key-blocks"

    def split_bounds(self, run):
        return [(max(0, low - 1), high) for low, high in super().split_bounds(run)]


class SplitsGap(Flash):
    """The first key of each split but the first is not read."""

    needs = "splits key-blocks"

    def split_bounds(self, run):
        return [(low + (low > 0), high) for low, high in super().split_bounds(run)]


class EmptySplitWeighs(Flash):
    """A split without keys has a log-sum-exp of zero: it weighs as much as a score of zero."""

    needs = "empty-split"

    def finish(self, run, state):
        out, lse = super().finish(run, state)
        return out, np.where(np.isneginf(lse), 0, lse)


class EmptySplitNaN(Flash):
    """A split without keys makes the merge NaN."""

    needs = "empty-split"

    def finish(self, run, state):
        return state[2] / state[1][..., None], super().finish(run, state)[1]


class PartsInFormatOfInputs(Flash):
    """Parts are rounded to the 16 bits of the inputs before the merge."""

    needs = "splits half"

    def merge(self, run, outs, lses):
        return super().merge(run, outs.astype(run.q.dtype).astype(run.real), lses)


class LogSumExpInBfloat16(Flash):
    """Log-sum-exps are stored in bfloat16."""

    needs = "splits"

    def merge(self, run, outs, lses):
        return super().merge(run, outs, lses.astype(ml_dtypes.bfloat16).astype(run.real))


class LogSumExpOfOtherHead(Flash):
    """Log-sum-exps are read in layout (heads, batch), and were stored as (batch, heads)."""

    needs = "splits heads-and-batch"
    seen = "https://github.com/vllm-project/flash-attention/pull/87"

    def merge(self, run, outs, lses):
        shape = (len(lses), run.heads, run.batch, run.tq)
        return super().merge(run, outs, lses.reshape(shape).swapaxes(1, 2))


class LogSumExpOfFirstRow(Flash):
    """The merge uses the log-sum-exp of each block's first row for all its rows."""

    needs = "splits many-queries"

    def merge(self, run, outs, lses):
        rows = np.arange(run.tq) // self.block_q * self.block_q
        return super().merge(run, outs, lses[..., rows])


class LogSumExpOfSplitZero(Flash):
    """Weights of the merge are relative to the first split and capped at one."""

    needs = "splits"

    def merge(self, run, outs, lses):
        return super().merge(run, outs, np.minimum(lses, lses[:1]))
