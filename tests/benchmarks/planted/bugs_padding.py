"""Planted bugs of padding and of sequences of various lengths."""

import numpy as np

from flash import Flash


class LengthsIgnored(Flash):
    """Key lengths are ignored: right padding is read."""

    needs = "lengths"

    def exists(self, run, keys):
        inside = np.broadcast_to(keys < run.tk, (run.batch, len(keys)))
        return inside & (keys[None] >= run.starts[:, None])


class LengthOfFirstBatch(Flash):
    """The length of batch 0 is used for all batches."""

    needs = "uneven-lengths"

    def exists(self, run, keys):
        inside = np.broadcast_to(keys < run.lengths[0], (run.batch, len(keys)))
        return inside & (keys[None] >= run.starts[:, None])


class LengthOneTooLong(Flash):
    """One key of the right padding is read."""

    needs = "lengths"

    def exists(self, run, keys):
        inside = keys[None] < np.minimum(run.lengths + 1, run.tk)[:, None]
        return inside & (keys[None] >= run.starts[:, None])


class LengthOneTooShort(Flash):
    """The last key before the right padding is not read."""

    needs = "lengths"

    def exists(self, run, keys):
        return super().exists(run, keys) & (keys[None] < run.lengths[:, None] - 1)


class LengthRoundedUpToBlock(Flash):
    """Lengths are rounded up to whole blocks of keys."""

    needs = "partial-lengths"

    def exists(self, run, keys):
        lengths = np.minimum(-(-run.lengths // self.block_k) * self.block_k, run.tk)
        return (keys[None] < lengths[:, None]) & (keys[None] >= run.starts[:, None])


class LengthRoundedDownToBlock(Flash):
    """Keys in a partial last block of a padded sequence are dropped."""

    needs = "partial-lengths key-blocks"

    def exists(self, run, keys):
        whole = run.lengths // self.block_k * self.block_k
        lengths = np.where(run.lengths < run.tk, whole, run.lengths)
        return super().exists(run, keys) & (keys[None] < lengths[:, None])


class LengthsOfNextBatch(Flash):
    """Lengths are those of the next batch."""

    needs = "uneven-lengths"

    def exists(self, run, keys):
        inside = keys[None] < np.roll(run.lengths, -1)[:, None]
        return inside & (keys[None] >= run.starts[:, None])


class PaddingScoresZero(Flash):
    """Padded keys are loaded as zeros but not masked: they count with score zero."""

    needs = "lengths not-causal"

    def visible(self, run, rows, keys):
        return super().visible(run, rows, keys) | (keys < run.tk)

    def load(self, run, memory, keys, heads):
        return super().load(run, memory, keys, heads)


class PaddingValuesRead(Flash):
    """Padded values are multiplied by weights of zero: NaN in the padding comes through."""

    needs = "poison"

    def values(self, run, keys):
        block = run.v[:, :, np.clip(keys, 0, run.tk - 1)]
        return block[:, self.value_heads(run)].astype(run.real)


class StartsIgnored(Flash):
    """Left padding is read."""

    needs = "starts"

    def exists(self, run, keys):
        return keys[None] < np.minimum(run.lengths, run.tk)[:, None]


class StartOneTooLate(Flash):
    """The first key after the left padding is not read."""

    needs = "starts"

    def exists(self, run, keys):
        late = (run.starts > 0).astype(int)
        return super().exists(run, keys) & (keys[None] >= (run.starts + late)[:, None])


class StartOneTooEarly(Flash):
    """The last key of the left padding is read."""

    needs = "starts"

    def exists(self, run, keys):
        inside = keys[None] < np.minimum(run.lengths, run.tk)[:, None]
        return inside & (keys[None] >= run.starts[:, None] - 1)


class LeftPaddingTakenAsRight(Flash):
    """As many keys as there is left padding are hidden at the right instead."""

    needs = "starts"

    def exists(self, run, keys):
        return keys[None] < (np.minimum(run.lengths, run.tk) - run.starts)[:, None]


class OffsetOfPaddedLength(Flash):
    """The bottom-right alignment uses the padded number of keys, not each batch's length."""

    needs = "bottom-right lengths"

    def offset(self, run):
        return np.full(run.batch, run.tk - run.tq)


class EmptySequenceCopiesFirstBatch(Flash):
    """A sequence without keys returns what its memory held: the output of batch 0."""

    needs = "empty-sequence batch"

    def store(self, run, out):
        empty = run.lengths <= run.starts
        out = np.where(empty[:, None, None, None], out[:1], out)
        return super().store(run, out)


class EmptySequenceNaN(Flash):
    """A sequence without keys divides zero by zero."""

    needs = "empty-sequence"
    seen = "https://github.com/ROCm/flash-attention/pull/179"

    def finish(self, run, state):
        return state[2] / state[1][..., None], super().finish(run, state)[1]


class KeyOffsetsOfQueries(Flash):
    """Packed keys are cut at the cumulative lengths of the queries."""

    needs = "packed"

    def spans(self, o, sequence):
        rows, _ = super().spans(o, sequence)
        return rows, rows


class PackedLastSequenceDropped(Flash):
    """The last packed sequence is not computed."""

    needs = "packed"

    def sequences(self, o):
        return super().sequences(o)[:-1]


class PackedKeyOfNextSequence(Flash):
    """A packed sequence sees the first key of the next one."""

    needs = "packed not-causal"

    def spans(self, o, sequence):
        rows, keys = super().spans(o, sequence)
        return rows, slice(keys.start, min(keys.stop + 1, int(o.key_offsets[-1])))


class PackedKeyOfSequenceBefore(Flash):
    """A packed sequence sees the last key of the one before."""

    needs = "packed"

    def spans(self, o, sequence):
        rows, keys = super().spans(o, sequence)
        return rows, slice(max(0, keys.start - 1), keys.stop)


class PackedSeesEarlierSequences(Flash):
    """A packed sequence sees all keys of earlier sequences."""

    needs = "packed"

    def spans(self, o, sequence):
        rows, keys = super().spans(o, sequence)
        return rows, slice(0, keys.stop)


class PackedLastTokenDropped(Flash):
    """The last query of each packed sequence is not written."""

    needs = "packed"

    def spans(self, o, sequence):
        rows, keys = super().spans(o, sequence)
        return slice(rows.start, rows.stop - 1), keys


class PackedOffsetOfWhole(Flash):
    """The causal offset of packed sequences is the total of keys less the total of queries."""

    needs = "packed bottom-right"

    def packed(self, run):
        self.whole = run.tk - run.tq
        return super().packed(run)

    def offset(self, run):
        return np.full(run.batch, self.whole)
