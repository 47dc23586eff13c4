"""Planted bugs of scale, soft cap, bias and ALiBi."""

import numpy as np

from eager import Eager
from flash import Flash


class ScaledTwice(Flash):
    """The scale is applied twice."""

    needs = "many-keys"

    def scale(self, run):
        return super().scale(run) ** 2


class NotScaled(Flash):
    """The scale is not applied."""

    needs = "many-keys"

    def scale(self, run):
        return run.real(1)


class ScaledByWidth(Flash):
    """The default scale is 1 / d, not 1 / sqrt(d)."""

    needs = "many-keys"

    def scale(self, run):
        return super().scale(run) if run.o.scale is not None else run.real(1 / run.d)


class ScaledByValueWidth(Flash):
    """The default scale is of the width of the values."""

    needs = "other-value"

    def scale(self, run):
        return super().scale(run) if run.o.scale is not None else run.real(run.dv**-0.5)


class ScaledByPaddedWidth(Flash):
    """The default scale is of the width padded to a power of two."""

    needs = "odd-d"

    def scale(self, run):
        padded = 1 << (run.d - 1).bit_length()
        return super().scale(run) if run.o.scale is not None else run.real(padded**-0.5)


class ScaleIgnored(Eager):
    """The scale that was asked for is ignored; the default is used."""

    needs = "scale"

    def scale(self, run):
        return run.d**-0.5


class ScaleOverWidth(Eager):
    """The scale that was asked for is divided by sqrt(d)."""

    needs = "scale"

    def scale(self, run):
        return super().scale(run) * run.d**-0.5


class SoftcapIgnored(Eager):
    """The soft cap is ignored."""

    needs = "softcap"

    def cap(self, run, s):
        return s


class SoftcapAfterMask(Flash):
    """The soft cap comes after the masks: hidden scores become -cap."""

    needs = "softcap causal"
    seen = "https://github.com/flashinfer-ai/flashinfer/pull/350"

    def scores(self, run, q, k, rows, keys):
        s = super().scores(run, q, k, rows, keys)
        here = self.exists(run, keys)[:, None, None]
        return np.where(here & np.isneginf(s), -run.real(run.o.softcap), s)


class SoftcapNotMultipliedBack(Flash):
    """The soft cap is tanh(s / cap), not cap * tanh(s / cap)."""

    needs = "softcap"

    def cap(self, run, s):
        return np.tanh(s / run.real(run.o.softcap))


class SoftcapBeforeScale(Flash):
    """The soft cap is applied to scores that are not yet scaled."""

    needs = "softcap"

    def cap(self, run, s):
        scale = self.scale(run)
        return super().cap(run, s / scale) * scale


class SoftcapClips(Flash):
    """The soft cap clips scores at the cap."""

    needs = "softcap"

    def cap(self, run, s):
        return np.clip(s, -run.real(run.o.softcap), run.real(run.o.softcap))


class SoftcapAfterBias(Flash):
    """The bias is added before the soft cap."""

    needs = "softcap bias"
    seen = "https://github.com/onnx/onnx/pull/7867"

    def cap(self, run, s):
        return s

    def bias(self, run, rows, keys):
        self.waiting = super().bias(run, rows, keys)
        return 0

    def scores(self, run, q, k, rows, keys):
        s = super().scores(run, q, k, rows, keys)
        capped = super().cap(run, np.where(np.isneginf(s), 0, s) + self.waiting)
        return np.where(np.isneginf(s), s, capped).astype(run.real)


class SoftcapForgottenInSplits(Flash):
    """The soft cap is ignored by the kernel that splits keys."""

    needs = "softcap splits"

    def cap(self, run, s):
        return s if run.o.splits > 1 else super().cap(run, s)


class BiasScaled(Eager):
    """The bias is multiplied by the scale, with the scores."""

    needs = "bias"

    def bias(self, run):
        return super().bias(run) * self.scale(run)


class BiasIgnored(Flash):
    """The bias is ignored."""

    needs = "bias"

    def bias(self, run, rows, keys):
        return 0 * super().bias(run, rows, keys)


class BiasSubtracted(Eager):
    """The bias is subtracted."""

    needs = "bias"

    def bias(self, run):
        return -super().bias(run)


class BiasTransposed(Eager):
    """The bias is read with queries and keys exchanged."""

    needs = "bias equal"

    def bias(self, run):
        return super().bias(run).transpose(-1, -2)


class BiasOfFirstBatch(Flash):
    """The bias of batch 0 is used for every batch."""

    needs = "batch-bias"

    def bias(self, run, rows, keys):
        return super().bias(run, rows, keys)[:1]


class BiasOfFirstHead(Flash):
    """The bias of head 0 is used for every head."""

    needs = "head-bias"

    def bias(self, run, rows, keys):
        return super().bias(run, rows, keys)[:, :1]


class BiasByRowInBlock(Flash):
    """The row of the bias is the row inside the block of queries."""

    needs = "bias query-blocks"

    def bias(self, run, rows, keys):
        return super().bias(run, rows - rows[0], keys)


class BiasByKeyInBlock(Flash):
    """The column of the bias is the key inside its block."""

    needs = "bias key-blocks"

    def bias(self, run, rows, keys):
        return super().bias(run, rows, keys - keys[0])


class BiasMultiplied(Flash):
    """Exponentials are multiplied by the bias plus one, instead of by its exponential."""

    needs = "bias"

    def bias(self, run, rows, keys):
        return np.log1p(np.maximum(super().bias(run, rows, keys), -0.999))


class AlibiNegated(Flash):
    """ALiBi rewards distance."""

    needs = "alibi"

    def alibi(self, run, rows, keys):
        return -super().alibi(run, rows, keys)


class AlibiSlopesRecomputed(Flash):
    """The slopes that were asked for are ignored; 2**(-8 (h + 1) / heads) is used."""

    needs = "alibi"

    def slopes(self, run):
        return (2.0 ** (-8 * np.arange(1, run.heads + 1) / run.heads)).astype(run.real)


class AlibiSlopeOfNextHead(Flash):
    """The slope of the next head is used."""

    needs = "alibi heads"

    def slopes(self, run):
        return np.roll(super().slopes(run), -1)


class AlibiSlopeByKeyHead(Flash):
    """The slope is looked up by key head, not by query head."""

    needs = "alibi grouped"

    def slopes(self, run):
        return super().slopes(run)[self.key_heads(run)]


class AlibiWithoutOffset(Flash):
    """ALiBi's distances ignore the alignment of queries to keys."""

    needs = "alibi unequal not-causal"

    def distances(self, run, rows, keys):
        return np.abs(rows[None, None, :, None] - keys)


class AlibiOneSided(Flash):
    """ALiBi's distances are zero for keys of the future."""

    needs = "alibi not-causal many-keys"

    def distances(self, run, rows, keys):
        return np.maximum(self.positions(run, rows)[:, None, :, None] - keys, 0)


class AlibiSigned(Flash):
    """ALiBi's distances have a sign: keys of the future are rewarded."""

    needs = "alibi not-causal many-keys"

    def distances(self, run, rows, keys):
        return self.positions(run, rows)[:, None, :, None] - keys


class AlibiByKeyInBlock(Flash):
    """ALiBi's distances count keys from the beginning of their block."""

    needs = "alibi key-blocks"

    def distances(self, run, rows, keys):
        return super().distances(run, rows, keys - keys[0])


class AlibiScaled(Eager):
    """ALiBi is multiplied by the scale, with the scores."""

    needs = "alibi"

    def alibi(self, run):
        return super().alibi(run) * self.scale(run)


class AlibiSquared(Eager):
    """ALiBi's distances are squared."""

    needs = "alibi many-keys"

    def alibi(self, run):
        return super().alibi(run) * self.distance(run)[:, None].abs()
