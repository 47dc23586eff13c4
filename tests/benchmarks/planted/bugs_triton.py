"""Planted bugs of the kernel in Triton's language.

`bug` names the branch of the kernel that is wrong; the others are wrong in the launch.
"""

from triton_flash import Triton


class TritonKeyHeadModulo(Triton):
    """Keys, but not values, are read from KV head h % kv_heads."""

    group = "heads"
    needs = "kv-heads"
    bug = "key head modulo"


class TritonHeadAfter(Triton):
    """Keys and values are read from KV head (h + 1) // group."""

    group = "heads"
    needs = "kv-heads"
    bug = "head after"


class TritonBatchByRemainder(Triton):
    """The batch of keys and values is program % batch, not program // heads."""

    group = "heads"
    needs = "heads-and-batch"
    bug = "batch by remainder"


class TritonLengthOfWholeCache(Triton):
    """Key lengths are ignored, in the mask and in the alignment."""

    group = "padding"
    needs = "lengths"
    bug = "length of the whole cache"


class TritonCausalWithinBlock(Triton):
    """The causal mask compares keys with the row inside its block of queries."""

    group = "masks"
    needs = "causal query-blocks"
    bug = "causal within the block"


class TritonCausalOnOneBlock(Triton):
    """The causal mask is applied to the last block of keys only."""

    group = "masks"
    needs = "causal query-blocks key-blocks unequal"
    seen = "https://github.com/Dao-AILab/flash-attention/pull/436"
    bug = "causal mask on one block"


class TritonCausalLoopEndsEarly(Triton):
    """The loop over keys ends at the block that holds the causal edge, without it."""

    group = "blocks"
    needs = "causal query-blocks"
    bug = "causal loop ends a block early"


class TritonFeaturesUnmasked(Triton):
    """The head width is padded to a power of two, and loads of the tail are not masked."""

    group = "memory"
    needs = "odd-d many-keys"
    bug = "no mask of features"


class TritonScaledQueriesRounded(Triton):
    """Queries are multiplied by the scale and rounded to 16 bits before the dot product."""

    group = "numerics"
    needs = "half inexact-scale"
    bug = "scaled queries rounded"


class TritonMaximumStartsAtZero(Triton):
    """The running maximum starts at zero: rows of very negative scores underflow."""

    group = "blocks"
    needs = "sunk-logits"
    bug = "maximum starts at zero"


class TritonWindowStartsBlockLate(Triton):
    """The first block of a window is rounded up."""

    group = "masks"
    needs = "window-left query-blocks key-blocks"
    bug = "window starts a block late"


class TritonWindowKeyShort(Triton):
    """The window misses its leftmost key."""

    group = "masks"
    needs = "window-left"
    bug = "window a key short"


class TritonWholeBlocksOnly(Triton):
    """Only whole blocks of keys are read."""

    group = "blocks"
    needs = "partial-key-block key-blocks"
    bug = "whole blocks of keys only"


class TritonLastKeysUnmasked(Triton):
    """Places past the last key count with score zero."""

    group = "blocks"
    needs = "partial-key-block not-causal"
    bug = "no mask of the last keys"


class TritonSoftcapInBaseTwo(Triton):
    """The soft cap is applied to scores that were already multiplied by log2 e."""

    group = "scores"
    needs = "softcap"
    bug = "soft cap in base two"


class TritonNoLog2e(Triton):
    """Scores meet exp2 without the factor log2 e."""

    group = "scores"
    needs = "many-keys"
    bug = "no factor log2 e"


class TritonSlopesInBaseE(Triton):
    """ALiBi meets exp2 without the factor log2 e."""

    group = "scores"
    needs = "alibi"
    bug = "slopes in base e"


class TritonSinkInBaseE(Triton):
    """The sink meets exp2 without the factor log2 e."""

    group = "sinks"
    needs = "sinks"
    bug = "sink in base e"


class TritonRescaledInBaseE(Triton):
    """Accumulators are rescaled by exp, not exp2, of the difference of maxima."""

    group = "blocks"
    needs = "key-blocks"
    bug = "rescaled in base e"


class TritonSumNotRescaled(Triton):
    """The sum of exponentials is not rescaled when the running maximum grows."""

    group = "blocks"
    needs = "key-blocks"
    bug = "sum not rescaled"


class TritonAccumulatorInFormatOfInputs(Triton):
    """The accumulator is rounded to the 16 bits of the inputs after each block."""

    group = "numerics"
    needs = "half key-blocks"
    bug = "accumulator in the format of the inputs"


class TritonValuesWithStridesOfKeys(Triton):
    """Values are read with the strides of the keys."""

    group = "memory"
    needs = "other-value many-keys"

    def strides(self, run, q, k, v, out):
        return *q.stride(), *k.stride(), *k.stride(), *out.stride()


class TritonKeysTakenAsContiguous(Triton):
    """The strides of the keys are ignored."""

    group = "memory"
    needs = "strided"
    seen = "https://github.com/torch-spyre/torch-spyre/issues/4331"

    def strides(self, run, q, k, v, out):
        return *q.stride(), *k.contiguous().stride(), *v.stride(), *out.stride()


class TritonQueriesTakenAsContiguous(Triton):
    """The strides of the queries are ignored."""

    group = "memory"
    needs = "strided"

    def strides(self, run, q, k, v, out):
        return *q.contiguous().stride(), *k.stride(), *v.stride(), *out.stride()


class TritonBroadcastBiasNotBroadcast(Triton):
    """A bias shared by all heads is read as if each head had its own."""

    group = "memory"
    needs = "shared-bias heads"
    seen = "https://github.com/pytorch/pytorch/issues/191937"

    def bias_strides(self, run, bias):
        tq, tk = run.tq, run.tk
        return run.heads * tq * tk, tq * tk, tk, 1


class TritonScaleOfValueWidth(Triton):
    """The default scale is of the width of the values."""

    group = "scores"
    needs = "other-value"

    def scale(self, run):
        return super().scale(run) if run.o.scale is not None else run.dv**-0.5


class TritonScaleOfPaddedWidth(Triton):
    """The default scale is of the width padded to a power of two."""

    group = "scores"
    needs = "odd-d"

    def scale(self, run):
        padded = 1 << (run.d - 1).bit_length()
        return super().scale(run) if run.o.scale is not None else padded**-0.5


class TritonSinkOfNextHead(Triton):
    """The sink of the next head is used."""

    group = "sinks"
    needs = "sinks heads"

    def sinks(self, run):
        return [*run.o.sinks[1:], run.o.sinks[0]]
