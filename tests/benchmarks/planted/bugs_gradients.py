"""Planted bugs of the backward pass; the forward pass is right."""

import ml_dtypes
import numpy as np

from backward import Backward


class GradientOfLastHeadOfGroup(Backward):
    """dk and dv of a KV head are those of its group's last head, not the sum."""

    needs = "grouped"
    seen = "https://github.com/marin-community/levanter/pull/449"

    def over_group(self, run, per_head):
        return per_head[:, run.group - 1 :: run.group]


class GradientMeanOverGroup(Backward):
    """dk and dv of a KV head are means over its group, not sums."""

    needs = "grouped"

    def over_group(self, run, per_head):
        return super().over_group(run, per_head) / run.group


class GradientGroupModulo(Backward):
    """dk and dv are summed over heads h % kv_heads."""

    needs = "kv-heads"
    seen = "https://github.com/XunhaoLai/native-sparse-attention-triton/issues/27"

    def over_group(self, run, per_head):
        shape = (run.batch, run.group, run.kv_heads, *per_head.shape[2:])
        return per_head.reshape(shape).sum(1)


class QueryGradientNotScaled(Backward):
    """dq is not multiplied by the scale."""

    needs = "many-keys"

    def query_gradient(self, run, ds, k, scale):
        return ds @ k


class KeyGradientScaledTwice(Backward):
    """dk is multiplied by the scale twice."""

    needs = "many-keys"

    def key_gradient(self, run, ds, q, scale):
        return super().key_gradient(run, ds, q, scale) * scale


class GradientWithoutDelta(Backward):
    """The row sums of dout * out are not subtracted."""

    needs = "many-keys"

    def delta(self, run, out, dout):
        return 0 * super().delta(run, out, dout)


class DeltaWithoutOutput(Backward):
    """The row sums are of dout, not of dout * out."""

    needs = "many-keys"

    def delta(self, run, out, dout):
        return dout.sum(-1)


class DeltaOfFirstRow(Backward):
    """The row sums of a block's first row are used for all its rows."""

    needs = "many-keys many-queries"

    def softmax_gradient(self, run, p, dp, delta):
        return super().softmax_gradient(run, p, dp, np.broadcast_to(delta[..., :1], delta.shape))


class GradientOfUnnormalized(Backward):
    """The backward pass recomputes exponentials without the sum: log-sum-exp is the maximum."""

    needs = "many-keys"

    def weights(self, run, s, lse):
        return super().weights(run, s, np.broadcast_to(s.max(-1), lse.shape))


class LogSumExpInBaseTwoOfBackward(Backward):
    """The log-sum-exp was stored in base two and is read as natural."""

    needs = "many-keys"

    def weights(self, run, s, lse):
        return super().weights(run, s, lse / run.real(np.log(2)))


class GradientIgnoresCausal(Backward):
    """The backward pass has no causal mask."""

    needs = "causal many-queries"

    def causal(self, run, rows, keys):
        return np.ones((run.batch, len(rows), len(keys)), bool)


class GradientCausalOneAhead(Backward):
    """The causal mask of the backward pass lets one key of the future through."""

    needs = "causal many-queries"

    def causal(self, run, rows, keys):
        return keys <= self.positions(run, rows)[..., None] + 1


class GradientCausalTopLeft(Backward):
    """The causal mask of the backward pass is aligned to the top left."""

    needs = "bottom-right unequal"

    def offset(self, run):
        return np.zeros(run.batch, int)


class GradientIgnoresWindow(Backward):
    """The backward pass has no window."""

    needs = "window-left"

    def window(self, run, rows, keys):
        return np.ones((run.batch, len(rows), len(keys)), bool)


class GradientIgnoresMask(Backward):
    """The backward pass has no boolean mask."""

    needs = "mask"

    def mask(self, run, rows, keys):
        return np.ones_like(super().mask(run, rows, keys))


class GradientIgnoresBias(Backward):
    """The backward pass recomputes scores without the bias."""

    needs = "bias"

    def bias(self, run, rows, keys):
        return 0 * super().bias(run, rows, keys)


class GradientIgnoresLengths(Backward):
    """The backward pass gives gradients to padded keys."""

    needs = "lengths"

    def exists(self, run, keys):
        inside = np.broadcast_to(keys < run.tk, (run.batch, len(keys)))
        return inside & (keys[None] >= run.starts[:, None])

    def offset(self, run):
        return super().offset(run)


class GradientIgnoresSink(Backward):
    """The stored log-sum-exp lacks the sink."""

    needs = "sinks"
    seen = "https://github.com/NVIDIA/cudnn-frontend/issues/676"

    def lse(self, run, lse):
        return np.log(np.exp(lse) - np.exp(self.sinks(run)))


class GradientWithoutSoftcap(Backward):
    """The derivative of the soft cap is left out."""

    needs = "softcap"

    def cap_gradient(self, run, s):
        return 1


class GradientOfSoftcapNotSquared(Backward):
    """The derivative of the soft cap is 1 - |tanh|, not 1 - tanh**2."""

    needs = "softcap"

    def cap_gradient(self, run, s):
        return 1 - np.abs(np.tanh(s / run.real(run.o.softcap)))


class GradientOfCappedScore(Backward):
    """The derivative of the soft cap is taken at the capped score."""

    needs = "softcap"

    def cap_gradient(self, run, s):
        return super().cap_gradient(run, self.cap(run, s))


class EmptyRowGradientNaN(Backward):
    """Rows that see no key have NaN gradients."""

    needs = "empty-row"
    seen = "https://github.com/Dao-AILab/flash-attention/issues/443"

    def weights(self, run, s, lse):
        return np.exp(s - lse[..., None])


class LastQueriesGiveNoGradient(Backward):
    """A partial last block of queries adds nothing to dk and dv."""

    needs = "partial-query-block query-blocks"

    def query_blocks(self, run):
        for rows in super().query_blocks(run):
            if len(rows) == self.block_q:
                yield rows


class QueryGradientOverwritten(Backward):
    """dq is that of the last block of keys, not the sum over blocks."""

    needs = "key-blocks"

    def add_query(self, run, total, rows, part):
        total[:, :, rows] = part


class KeyGradientOverwritten(Backward):
    """dk and dv are those of the last block of queries, not the sum over blocks."""

    needs = "query-blocks"

    def add(self, run, total, keys, part):
        total[:, :, keys] = part


class KeyGradientInBfloat16(Backward):
    """dk and dv are rounded to bfloat16 after every block of queries."""

    needs = "query-blocks"

    def add(self, run, total, keys, part):
        total[:, :, keys] += part
        total[:, :, keys] = total[:, :, keys].astype(ml_dtypes.bfloat16).astype(run.real)


class GradientWeightsInFloat8(Backward):
    """The recomputed weights are rounded to float8 (e4m3)."""

    needs = "many-keys"

    def weights(self, run, s, lse):
        p = super().weights(run, s, lse)
        return p.astype(ml_dtypes.float8_e4m3fn).astype(run.real)


class ScoreGradientInBfloat16(Backward):
    """Gradients of scores are rounded to bfloat16 before they meet queries and keys."""

    needs = "many-keys"

    def softmax_gradient(self, run, p, dp, delta):
        ds = super().softmax_gradient(run, p, dp, delta)
        return ds.astype(ml_dtypes.bfloat16).astype(run.real)


class GradientHeadsModulo(Backward):
    """The backward pass reads keys and values of KV head h % kv_heads."""

    needs = "kv-heads"

    def key_heads(self, run):
        return np.arange(run.heads) % run.kv_heads

    value_heads = key_heads


class ValueGradientOfBlockBefore(Backward):
    """dp is computed with the values of the block before."""

    needs = "key-blocks"

    def values(self, run, keys):
        return super().values(run, keys - self.block_k if keys[0] >= self.block_k else keys)
