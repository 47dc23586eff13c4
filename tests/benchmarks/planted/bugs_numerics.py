"""Planted bugs of precision: the right formula, computed with too few bits or too small a range."""

import ml_dtypes
import numpy as np

from eager import Eager
from flash import Flash


def _through(x, dtype, real):
    return x.astype(dtype).astype(real)


def _truncated(x, bits):
    """Float32 numbers whose last `bits` bits are cut off."""
    whole = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return (whole >> np.uint32(bits) << np.uint32(bits)).view(np.float32)


class LogitsInBfloat16(Flash):
    """Scores are rounded to bfloat16 before the softmax."""

    needs = "many-keys"

    def dot(self, run, q, k):
        return _through(super().dot(run, q, k), ml_dtypes.bfloat16, run.real)


class LogitsInFloat16(Flash):
    """Scores before the scale are rounded to float16, and overflow."""

    needs = "large-logits"

    def dot(self, run, q, k):
        return _through(super().dot(run, q, k), np.float16, run.real)


class AccumulatorInBfloat16(Flash):
    """The accumulator is rounded to bfloat16 after each block."""

    needs = "key-blocks"

    def update(self, run, state, s, v):
        m, total, acc = super().update(run, state, s, v)
        return m, total, _through(acc, ml_dtypes.bfloat16, run.real)


class AccumulatorInFormatOfInputs(Flash):
    """The accumulator is rounded to the 16 bits of the inputs after each block."""

    needs = "key-blocks half"

    def update(self, run, state, s, v):
        m, total, acc = super().update(run, state, s, v)
        return m, total, _through(acc, run.q.dtype, run.real)


class SumInBfloat16(Flash):
    """The sum of exponentials is kept in bfloat16."""

    needs = "key-blocks"

    def update(self, run, state, s, v):
        m, total, acc = super().update(run, state, s, v)
        return m, _through(total, ml_dtypes.bfloat16, run.real), acc


class SumOneByOneInFormatOfInputs(Flash):
    """Exponentials are added one after the other in the 16 bits of the inputs."""

    needs = "key-blocks half"

    def update(self, run, state, s, v):
        m, _, acc = super().update(run, state, s, v)
        base = np.where(np.isneginf(m), 0, m)
        total = (state[1] * self.exp(state[0] - base)).astype(run.q.dtype)
        p = self.exp(s - base[..., None]).astype(run.q.dtype)
        for key in range(s.shape[-1]):
            total = total + p[..., key]
        return m, total.astype(run.real), acc


class WeightsInFloat8(Flash):
    """Weights are rounded to float8 (e4m3) before they meet the values, without a scale."""

    needs = "many-keys"

    def update(self, run, state, s, v):
        m, total, _ = super().update(run, state, s, v)
        base = np.where(np.isneginf(m), 0, m)
        p = _through(self.exp(s - base[..., None]), ml_dtypes.float8_e4m3fn, run.real)
        return m, total, state[2] * self.exp(state[0] - base)[..., None] + p @ v


class ValuesInFloat8(Flash):
    """Values are rounded to float8 (e5m2) on their way."""

    needs = "many-keys"

    def values(self, run, keys):
        return _through(super().values(run, keys), ml_dtypes.float8_e5m2, run.real)


class ExponentialQuadratic(Flash):
    """2**x on [0, 1) is a quadratic polynomial, with a relative error of 0.2 percent."""

    needs = "many-keys"

    def exp(self, x):
        t = np.maximum(x * np.float32(np.log2(np.e)), -1000.0)
        whole = np.floor(t)
        part = t - whole
        p = np.ldexp(1 + part * (0.6564 + 0.3436 * part), whole.astype(int))
        return np.where(np.isneginf(x), 0, p).astype(x.dtype)


class ExponentialCutOff(Flash):
    """Exponentials below exp(-4) are set to zero."""

    needs = "many-keys"

    def exp(self, x):
        return np.where(x < -4, 0, super().exp(x)).astype(x.dtype)


class ExponentialTable(Flash):
    """Exponents are rounded to sixty-fourths before the exponential is looked up."""

    needs = "many-keys"

    def exp(self, x):
        return super().exp(np.round(x * 64) / 64).astype(x.dtype)


class InputsInBfloat16(Flash):
    """Queries and keys in float32 are rounded to bfloat16, as a fast path does."""

    needs = "float32"

    def dot(self, run, q, k):
        return super().dot(run, *(_through(x, ml_dtypes.bfloat16, run.real) for x in (q, k)))


class ProductsInTf32(Flash):
    """Products of float32 inputs have the eleven bits of TF32."""

    needs = "float32"

    def dot(self, run, q, k):
        return super().dot(run, _truncated(q, 13), _truncated(k, 13))


class ValuesInTf32(Flash):
    """Weights and values in float32 are cut to the eleven bits of TF32."""

    needs = "float32"

    def values(self, run, keys):
        return _truncated(super().values(run, keys), 13)


class OutputTruncated(Flash):
    """The output is truncated to bfloat16, not rounded to the nearest."""

    needs = "bfloat16"

    def store(self, run, out):
        return super().store(run, _truncated(out, 16))


class OutputThroughFloat16(Flash):
    """The output passes through float16 on its way to bfloat16, and overflows."""

    needs = "bfloat16 large-values"

    def store(self, run, out):
        return super().store(run, out.astype(np.float16).astype(run.real))


class OutputThroughBfloat16(Flash):
    """The output passes through bfloat16 on its way to float16 or float32."""

    needs = "float16"

    def store(self, run, out):
        return super().store(run, _through(out, ml_dtypes.bfloat16, run.real))


class BitsOfOtherFormat(Flash):
    """The bits of bfloat16 values are read as float16."""

    needs = "bfloat16"

    def __call__(self, q, k, v, o):
        return super().__call__(q, k, v.view(np.float16).astype(v.dtype), o)


class ScaleInBfloat16(Flash):
    """The scale is rounded to bfloat16."""

    needs = "inexact-scale"

    def scale(self, run):
        return run.real(ml_dtypes.bfloat16(float(super().scale(run))))


class ScaledQueriesRounded(Flash):
    """Queries are multiplied by the scale and rounded to the format of the inputs."""

    needs = "half inexact-scale"

    def dot(self, run, q, k):
        scale = self.scale(run)
        return super().dot(run, _through(q * scale, run.q.dtype, run.real), k) / scale


class ReciprocalInBfloat16(Flash):
    """The output is multiplied by a reciprocal that was rounded to bfloat16."""

    needs = "many-keys"

    def finish(self, run, state):
        lse = super().finish(run, state)[1]
        total = np.where(state[1] > 0, state[1], 1)
        return state[2] * _through(1 / total, ml_dtypes.bfloat16, run.real)[..., None], lse


class SumGuarded(Flash):
    """0.001 is added to the sum of exponentials, against division by zero."""

    needs = "many-keys"

    def finish(self, run, state):
        return super().finish(run, (state[0], state[1] + np.float32(1e-3), state[2]))


class SoftcapRational(Flash):
    """The soft cap is x / (1 + |x|), not tanh."""

    needs = "softcap"

    def cap(self, run, s):
        x = s / run.o.softcap
        return (run.o.softcap * x / (1 + np.abs(x))).astype(run.real)


class SoftcapInBfloat16(Flash):
    """The tanh of the soft cap is computed in bfloat16."""

    needs = "softcap"

    def cap(self, run, s):
        x = np.tanh(_through(s / run.o.softcap, ml_dtypes.bfloat16, run.real))
        return run.real(run.o.softcap) * _through(x, ml_dtypes.bfloat16, run.real)


class AlibiInBfloat16(Flash):
    """ALiBi is rounded to bfloat16 before it is added."""

    needs = "alibi"

    def alibi(self, run, rows, keys):
        return _through(super().alibi(run, rows, keys), ml_dtypes.bfloat16, run.real)


class BiasInFloat8(Flash):
    """The bias is rounded to float8 (e5m2) before it is added."""

    needs = "bias"

    def bias(self, run, rows, keys):
        return _through(super().bias(run, rows, keys), ml_dtypes.float8_e5m2, run.real)


class DotHalvesInFormatOfInputs(Flash):
    """Two halves of the dot product are rounded to the inputs' 16 bits before they are added."""

    needs = "half"

    def dot(self, run, q, k):
        half = run.d // 2
        parts = (super(DotHalvesInFormatOfInputs, self).dot(run, q[..., s], k[..., s])
                 for s in (slice(half), slice(half, None)))  # fmt: skip
        return sum(_through(part, run.q.dtype, run.real) for part in parts)


class NoMaximum(Eager):
    """The softmax does not subtract the maximum, and overflows."""

    needs = "large-logits float32"

    def softmax(self, run, s):
        e = s.exp()
        return e / e.sum(-1, keepdim=True)


class SoftmaxInFloat8(Eager):
    """The weights are rounded to float8 (e4m3)."""

    needs = "many-keys"

    def softmax(self, run, s):
        import torch

        return super().softmax(run, s).to(torch.float8_e4m3fn).float()


class SmallWeightsDropped(Flash):
    """Weights below 2**-10 meet no value, but count in the sum."""

    needs = "many-keys float32"

    def update(self, run, state, s, v):
        m, total, _ = super().update(run, state, s, v)
        base = np.where(np.isneginf(m), 0, m)
        p = self.exp(s - base[..., None])
        p = np.where(p < 2.0**-10, 0, p).astype(run.real)
        return m, total, state[2] * self.exp(state[0] - base)[..., None] + p @ v
