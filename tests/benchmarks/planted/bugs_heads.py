"""Planted bugs of batches, heads and features."""

import numpy as np

from eager import Eager
from flash import Flash


class HeadsModulo(Flash):
    """Keys and values are read from KV head h % kv_heads, not h // group."""

    needs = "kv-heads"

    def key_heads(self, run):
        return np.arange(run.heads) % run.kv_heads

    value_heads = key_heads


class ValueHeadModulo(Flash):
    """Values, but not keys, are read from KV head h % kv_heads."""

    needs = "kv-heads"

    def value_heads(self, run):
        return np.arange(run.heads) % run.kv_heads


class FirstKeyHead(Flash):
    """All heads read KV head 0."""

    needs = "kv-heads"

    def key_heads(self, run):
        return np.zeros(run.heads, int)

    value_heads = key_heads


class GroupRoundedUp(Flash):
    """The group size is rounded up to a power of two."""

    needs = "odd-group"

    def key_heads(self, run):
        group = 1 << (run.group - 1).bit_length()
        return np.arange(run.heads) // group

    value_heads = key_heads


class FirstBatchKeys(Flash):
    """Keys of batch 0 are used for all batches."""

    needs = "batch"

    def load(self, run, memory, keys, heads):
        block = super().load(run, memory, keys, heads)
        return np.broadcast_to(block[:1], block.shape) if memory is run.k else block


class FirstBatchValues(Flash):
    """Values of batch 0 are used for all batches."""

    needs = "batch"

    def values(self, run, keys):
        v = super().values(run, keys)
        return np.broadcast_to(v[:1], v.shape)


class LastHeadNotComputed(Flash):
    """The last head of an odd number of heads per KV head is left at zero."""

    needs = "odd-group"

    def finish(self, run, state):
        out, lse = super().finish(run, state)
        out[:, -1] = 0
        return out, lse


class HeadsOfOutputInterleaved(Eager):
    """Output heads of a group are written group by group in the wrong order."""

    needs = "kv-heads"

    def output(self, run, out):
        grouped = out.unflatten(1, (run.group, run.kv_heads))
        return grouped.transpose(1, 2).flatten(1, 2)


class HeadsTiled(Eager):
    """KV heads are tiled (repeat) instead of repeated one by one (repeat_interleave)."""

    needs = "kv-heads"

    def repeat(self, run, x):
        return x.repeat(1, run.heads // x.shape[1], 1, 1)


class OutputNotTransposed(Eager):
    """The output is written in layout (batch, tokens, heads, d) and read as (batch, heads, ...)."""

    needs = "heads many-queries"

    def output(self, run, out):
        return out.transpose(1, 2).reshape(out.shape)


class BatchAndHeadExchanged(Flash):
    """Keys and values of the program are found by batch = program % batch."""

    needs = "heads-and-batch"

    def load(self, run, memory, keys, heads):
        block = super().load(run, memory, keys, heads)
        program = np.arange(run.batch * run.heads).reshape(run.batch, run.heads)
        return block[program % run.batch, np.arange(run.heads)[None]]


class ValuesCutToKeyWidth(Flash):
    """Values have more features than keys; those beyond the keys' width stay zero."""

    needs = "wide-value"

    def finish(self, run, state):
        out, lse = super().finish(run, state)
        out[..., run.d :] = 0
        return out, lse


class TailOfFeaturesLeftOut(Flash):
    """The dot product covers multiples of eight features only."""

    needs = "d-tail"

    def dot(self, run, q, k):
        whole = run.d // 8 * 8
        return super().dot(run, q[..., :whole], k[..., :whole])


class TailOfValuesNotWritten(Flash):
    """Output features beyond a multiple of eight are not written."""

    needs = "dv-tail"

    def finish(self, run, state):
        out, lse = super().finish(run, state)
        out[..., run.dv // 8 * 8 :] = 0
        return out, lse


class HeadPaddedWithKeysOfNextToken(Flash):
    """The head width is padded to a power of two, and the tail reads the next token."""

    needs = "odd-d many-queries many-keys"

    def dot(self, run, q, k):
        extra = min(run.d, (1 << (run.d - 1).bit_length()) - run.d)
        tail = np.roll(q, -1, 2)[..., :extra] @ np.swapaxes(np.roll(k, -1, 2)[..., :extra], -1, -2)
        return super().dot(run, q, k) + tail


class QueryHeadsReversedInGroup(Flash):
    """Queries of a group are loaded in reversed order, and stored in order."""

    needs = "grouped"

    def queries(self, run, rows):
        q = super().queries(run, rows)
        grouped = q.reshape(run.batch, run.kv_heads, run.group, *q.shape[2:])
        return grouped[:, :, ::-1].reshape(q.shape)
