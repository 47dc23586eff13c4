"""Planted bugs of a second campaign, which were written before names were looked at."""

import numpy as np
import torch

from backward import Backward
from eager import Eager
from flash import Flash


class KeyHeadsInReverse(Flash):
    """KV heads are taken in reverse order."""

    needs = "kv-heads"

    def key_heads(self, run):
        return run.kv_heads - 1 - super().key_heads(run)

    value_heads = key_heads


class KeysOfEverySecondBlockStale(Flash):
    """A double buffer of keys is filled every second time only."""

    needs = "key-blocks"

    def load(self, run, memory, keys, heads):
        is_late = memory is run.k and keys[0] >= self.block_k and keys[0] // self.block_k % 2
        return super().load(run, memory, keys - self.block_k * bool(is_late), heads)


class LastValuesOfBlockBefore(Flash):
    """The last block of values is still the one before."""

    needs = "key-blocks"

    def values(self, run, keys):
        is_last = keys[0] >= self.block_k and keys[-1] >= run.tk - 1
        return super().values(run, keys - self.block_k * bool(is_last))


class LastValueOfEachBlockUnused(Flash):
    """The product with values stops one key before the end of the block."""

    needs = "key-blocks"

    def values(self, run, keys):
        v = super().values(run, keys).copy()
        v[:, :, -1] = 0
        return v


class ValuesOneKeyLate(Flash):
    """Values in a block are those of the key before, around the block."""

    needs = "key-blocks"

    def values(self, run, keys):
        return np.roll(super().values(run, keys), 1, axis=2)


class RowsWrittenOneLate(Flash):
    """Each row of the output is written where the next one belongs."""

    needs = "many-queries"

    def forward(self, run):
        out, lse = super().forward(run)
        return np.roll(out, 1, axis=2), lse


class QueriesOfFirstSequence(Flash):
    """The batch offset of queries is forgotten."""

    needs = "batch"

    def queries(self, run, rows):
        q = super().queries(run, rows)
        return np.broadcast_to(q[:1], q.shape)


class SumWithoutLastBlock(Flash):
    """The sum that divides is the one from before the last block."""

    needs = "key-blocks"

    def update(self, run, state, s, v):
        new, total, acc = super().update(run, state, s, v)
        self.before = state[1]
        return new, total, acc

    def finish(self, run, state):
        m, total, acc = state
        return super().finish(run, (m, np.where(self.before > 0, self.before, total), acc))


class HeadsOfOutputInReverse(Flash):
    """Heads of the output are in reverse order."""

    needs = "kv-heads"

    def store(self, run, out):
        return super().store(run, out[:, ::-1])


class OutputIsRunningMaximum(Flash):
    """A reduction over queries is left in the epilogue."""

    needs = "many-queries"

    def store(self, run, out):
        return super().store(run, np.maximum.accumulate(out, axis=2))


class OutputOfFirstSequence(Flash):
    """The batch offset of the output is forgotten, and the first result is copied."""

    needs = "batch"

    def store(self, run, out):
        return super().store(run, np.broadcast_to(out[:1], out.shape))


class SoftmaxOverQueries(Eager):
    """Softmax is over the wrong axis."""

    needs = "many-queries"

    def softmax(self, run, s):
        s = s.to(torch.float64 if s.dtype == torch.float64 else torch.float32)
        return torch.softmax(s, -2).nan_to_num()


class LogitsTransposed(Eager):
    """Logits are transposed before the mask."""

    needs = "equal many-queries"

    def scores(self, run, q, k):
        return super().scores(run, q, k).mT


class FirstColumnIsTheSink(Eager):
    """The sink's column is the last one, but the first is dropped."""

    needs = "sinks"

    def softmax(self, run, s):
        s = s.to(torch.float64 if s.dtype == torch.float64 else torch.float32)
        sinks = torch.from_numpy(np.asarray(run.o.sinks).astype(run.real)).to(s.dtype)
        s = torch.cat([s, sinks[None, :, None, None].expand(*s.shape[:3], 1)], -1)
        return torch.softmax(s, -1)[..., 1:]


class DeltaAdded(Backward):
    """The row sums are added to dP, not subtracted."""

    needs = "many-keys"

    def delta(self, run, out, dout):
        return -super().delta(run, out, dout)


class DeltaOfQueryBefore(Backward):
    """The row sums are those of the query before."""

    needs = "many-keys many-queries"

    def delta(self, run, out, dout):
        return np.roll(super().delta(run, out, dout), 1, axis=2)


class DeltaIsMean(Backward):
    """One mean stands for the row sums of all queries."""

    needs = "many-keys many-queries"

    def delta(self, run, out, dout):
        found = super().delta(run, out, dout)
        return np.broadcast_to(found.mean(2, keepdims=True), found.shape)


class ScoreGradientWithoutWeights(Backward):
    """dP - D is not multiplied by the weights."""

    needs = "many-keys"

    def softmax_gradient(self, run, p, dp, delta):
        return dp - delta[..., None]


class ScoreGradientOfDiagonal(Backward):
    """Of the Jacobian of softmax, the diagonal alone is used."""

    needs = "many-keys"

    def softmax_gradient(self, run, p, dp, delta):
        return p * (1 - p) * dp


class ScoreGradientNotNegative(Backward):
    """Negative gradients of scores are cut off at zero."""

    needs = "many-keys"

    def softmax_gradient(self, run, p, dp, delta):
        return np.maximum(super().softmax_gradient(run, p, dp, delta), 0)


class QueryGradientDivided(Backward):
    """dq is divided by the scale."""

    needs = "many-keys"

    def query_gradient(self, run, ds, k, scale):
        return ds @ k / scale


class KeyGradientNegated(Backward):
    """dk has the opposite sign."""

    needs = "many-keys"

    def key_gradient(self, run, ds, q, scale):
        return -super().key_gradient(run, ds, q, scale)


class GradientsOfOtherHeads(Backward):
    """Heads of dq are in reverse order."""

    needs = "kv-heads"

    def gradients(self, run, out, lse, dout):
        dq, dk, dv = super().gradients(run, out, lse, dout)
        return dq[:, ::-1], dk, dv


class KeyGradientOneLate(Backward):
    """dk is written one key late."""

    needs = "many-keys"

    def gradients(self, run, out, lse, dout):
        dq, dk, dv = super().gradients(run, out, lse, dout)
        return dq, np.roll(dk, 1, axis=2), dv


class ValueGradientOfLastKeyLost(Backward):
    """dv of the last key is zero."""

    needs = "many-keys"

    def gradients(self, run, out, lse, dout):
        dq, dk, dv = super().gradients(run, out, lse, dout)
        dv = dv.copy()
        dv[:, :, -1] = 0
        return dq, dk, dv


class KeyGradientOfFirstHeadOfGroup(Backward):
    """Only the first head of a group adds to dk; dv is right."""

    needs = "grouped"

    def gradients(self, run, out, lse, dout):
        dq, dk, dv = super().gradients(run, out, lse, dout)
        self.over_group = lambda run, per_head: per_head[:, :: run.group]
        _, dk, _ = super().gradients(run, out, lse, dout)
        del self.over_group
        return dq, dk, dv


class QueryGradientOfFirstSequence(Backward):
    """The batch offset of dq is forgotten."""

    needs = "batch many-keys"

    def gradients(self, run, out, lse, dout):
        dq, dk, dv = super().gradients(run, out, lse, dout)
        return np.broadcast_to(dq[:1], dq.shape), dk, dv
