"""The right flash kernel in Triton's language, which also runs in Triton's interpreter on a CPU.

    TRITON_INTERPRET=1 python ...

The interpreter multiplies bfloat16 blocks as integers, so blocks are widened before `tl.dot`.
A planted bug is a name that the kernel looks at (`BUG`), or a subclass of Triton that passes it
wrong strides or scales. A boolean mask is passed as a bias of zeros and minus infinities.
"""

import math
import os

import ml_dtypes
import numpy as np

os.environ.setdefault("TRITON_INTERPRET", "1")  # before triton is imported

import torch
import triton
import triton.language as tl

from eager import to_numpy
from options import Run

LOG2E = 1 / math.log(2)


@triton.jit
def _nearest(x, FORMAT: tl.constexpr):
    """Numbers rounded to nearest; the interpreter of Triton 3.9.0 cuts bfloat16 off."""
    if FORMAT == tl.bfloat16:
        bits = x.to(tl.uint32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        x = bits.to(tl.float32, bitcast=True)
    return x.to(FORMAT)


@triton.jit
def _flash(
    Q, K, V, OUT, BIAS, LENGTHS, STARTS, SLOPES, SINKS,
    qb, qh, qt, qd, kb, kh, kt, kd, vb, vh, vt, vd, ob, oh, ot, od, bb, bh, bq, bk,
    batch, heads, group, tq, tk, d, dv, scale, softcap, left, right,
    CAUSAL: tl.constexpr, TOP_LEFT: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_SLOPES: tl.constexpr, HAS_SINKS: tl.constexpr,
    SOFTCAP: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    BUG: tl.constexpr,
):  # fmt: skip
    log2e = 1.4426950408889634
    block = tl.program_id(0)
    b = tl.program_id(1) // heads
    h = tl.program_id(1) % heads
    key_batch = b
    key_head = h // group
    value_head = h // group
    if BUG == "key head modulo":
        key_head = h % (heads // group)
    if BUG == "head after":
        key_head = ((h + 1) // group) % (heads // group)
        value_head = key_head
    if BUG == "batch by remainder":
        key_batch = tl.program_id(1) % batch
    length = tl.load(LENGTHS + b)
    first = tl.load(STARTS + b)
    if BUG == "length of the whole cache":
        length = length * 0 + tk
    offset = length - tq
    if TOP_LEFT:
        offset = length * 0
    rows = block * M + tl.arange(0, M)
    at = rows + offset
    if BUG == "causal within the block":
        at = tl.arange(0, M) + offset
    i = tl.arange(0, D)
    c = tl.arange(0, DV)
    features = i < d
    if BUG == "no mask of features":
        features = i < D
    q = tl.load(
        Q + b * qb + h * qh + rows[:, None] * qt + i[None, :] * qd,
        mask=(rows < tq)[:, None] & features[None, :], other=0.0,
    )  # fmt: skip
    if BUG == "scaled queries rounded":
        q = (q.to(tl.float32) * scale).to(Q.dtype.element_ty)
    m = tl.full([M], float("-inf"), tl.float32)
    if BUG == "maximum starts at zero":
        m = tl.zeros([M], tl.float32)
    total = tl.zeros([M], tl.float32)
    acc = tl.zeros([M, DV], tl.float32)
    low = first // N * N
    high = tl.minimum(length, tk)
    if LEFT:
        if BUG == "window starts a block late":
            low = tl.maximum(low, (block * M + offset - left + N - 1) // N * N)
        else:
            low = tl.maximum(low, (block * M + offset - left) // N * N)
    if RIGHT:
        high = tl.minimum(high, block * M + M + offset + right)
    if CAUSAL:
        high = tl.minimum(high, block * M + M + offset)
        if BUG == "causal loop ends a block early":
            high = tl.minimum(high, (block * M + M - 1 + offset) // N * N)
    if BUG == "whole blocks of keys only":
        high = high // N * N
    low = tl.maximum(low, 0)
    for start in range(low, high, N):
        keys = start + tl.arange(0, N)
        here = (keys >= first) & (keys < length) & (keys < tk)
        k = tl.load(
            K + key_batch * kb + key_head * kh + keys[None, :] * kt + i[:, None] * kd,
            mask=here[None, :] & features[:, None], other=0.0,
        )  # fmt: skip
        s = tl.dot(q.to(tl.float32), k.to(tl.float32), input_precision="ieee")
        if BUG != "scaled queries rounded":
            s = s * scale
        if SOFTCAP:
            x = s / softcap
            if BUG == "soft cap in base two":
                x = x * log2e
            square = x * x
            series = x * (1 - square * (1 / 3 - square * (2 / 15 - square * (17 / 315))))
            e = tl.exp(-2 * tl.abs(x))
            tanh = tl.where(x < 0, -1.0, 1.0) * (1 - e) / (1 + e)
            s = softcap * tl.where(tl.abs(x) < 0.125, series, tanh)
            if BUG == "soft cap in base two":
                s = s / log2e
        if HAS_BIAS:
            s += tl.load(
                BIAS + b * bb + h * bh + rows[:, None] * bq + keys[None, :] * bk,
                mask=(rows < tq)[:, None] & here[None, :], other=0.0,
            )  # fmt: skip
        if BUG != "no factor log2 e":
            s = s * log2e
        if HAS_SLOPES:
            far = tl.abs(keys[None, :] - at[:, None]).to(tl.float32)
            if BUG == "slopes in base e":
                s -= tl.load(SLOPES + h) * far
            else:
                s -= tl.load(SLOPES + h) * log2e * far
        seen = here[None, :]
        if BUG == "no mask of the last keys":
            seen = (keys >= first)[None, :] & (keys < high + N)[None, :]
        if CAUSAL:
            if BUG == "causal mask on one block":
                seen = seen & ((keys[None, :] <= at[:, None]) | (start + N < high))
            else:
                seen = seen & (keys[None, :] <= at[:, None])
        if LEFT:
            if BUG == "window a key short":
                seen = seen & (keys[None, :] > at[:, None] - left)
            else:
                seen = seen & (keys[None, :] >= at[:, None] - left)
        if RIGHT:
            seen = seen & (keys[None, :] <= at[:, None] + right)
        s = tl.where(seen, s, float("-inf"))
        new = tl.maximum(m, tl.max(s, 1))
        base = tl.where(new == float("-inf"), 0.0, new)
        p = tl.math.exp2(s - base[:, None])
        fade = tl.math.exp2(m - base)
        if BUG == "rescaled in base e":
            fade = tl.exp(m - base)
        if BUG == "sum not rescaled":
            total = total + tl.sum(p, 1)
        else:
            total = total * fade + tl.sum(p, 1)
        v = tl.load(
            V + key_batch * vb + value_head * vh + keys[:, None] * vt + c[None, :] * vd,
            mask=here[:, None] & (c < dv)[None, :], other=0.0,
        )  # fmt: skip
        p = _nearest(p, V.dtype.element_ty).to(tl.float32)  # as tensor cores take it
        acc = acc * fade[:, None] + tl.dot(p, v.to(tl.float32), input_precision="ieee")
        if BUG == "accumulator in the format of the inputs":
            acc = acc.to(V.dtype.element_ty).to(tl.float32)
        m = new
    if HAS_SINKS:
        sink = tl.load(SINKS + h)
        if BUG != "sink in base e":
            sink = sink * log2e
        total = total + tl.math.exp2(sink - tl.where(m == float("-inf"), sink, m))
    acc = acc / tl.where(total > 0, total, 1.0)[:, None]
    tl.store(
        OUT + b * ob + h * oh + rows[:, None] * ot + c[None, :] * od,
        _nearest(acc, OUT.dtype.element_ty), mask=(rows < tq)[:, None] & (c < dv)[None, :],
    )  # fmt: skip


def _buffer(x, slack):
    """A tensor with the values and strides of x, at the beginning of memory of its own."""
    bits = x.view(np.int16) if x.dtype == ml_dtypes.bfloat16 else x
    steps = [s // bits.itemsize for s in bits.strides]
    if any(step < 0 for step in steps):
        return _buffer(np.ascontiguousarray(x), slack)
    extent = 1 + sum((n - 1) * step for n, step in zip(bits.shape, steps, strict=True))
    memory = torch.zeros(extent + slack, dtype=torch.from_numpy(bits.ravel()[:0].copy()).dtype)
    view = memory.as_strided(bits.shape, steps)
    view.numpy()[...] = bits
    return view.view(torch.bfloat16) if x.dtype == ml_dtypes.bfloat16 else view


class Triton:
    """The launch of the kernel: strides, scale and sizes."""

    handles = frozenset()
    block_q = block_k = 16
    bug = ""

    def __call__(self, q, k, v, o):
        run = Run(q, k, v, o)
        slack = 2 * sum(x.size for x in (q, k, v)) + 4096
        out = torch.zeros((run.batch, run.heads, run.tq, run.dv), dtype=_buffer(q, 0).dtype)
        q, k, v = (_buffer(x, slack) for x in (q, k, v))
        memory = torch.zeros(out.numel() + slack, dtype=out.dtype)
        out = memory.as_strided(out.shape, out.stride())
        bias = self.bias(run)
        numbers = lambda x: torch.from_numpy(np.array(x, np.float32))  # noqa: E731
        left, right = o.window
        width = lambda n: max(16, 1 << (n - 1).bit_length())  # noqa: E731
        _flash[-(-run.tq // self.block_q), run.batch * run.heads](
            q, k, v, out, bias if bias is not None else q,
            torch.from_numpy(run.lengths.astype(np.int32)),
            torch.from_numpy(run.starts.astype(np.int32)),
            numbers(o.slopes if o.slopes is not None else [0]),
            numbers(self.sinks(run) if o.sinks is not None else [0]),
            *self.strides(run, q, k, v, out),
            *(self.bias_strides(run, bias) if bias is not None else (0, 0, 0, 0)),
            run.batch, run.heads, run.group, run.tq, run.tk, run.d, run.dv,
            self.scale(run), float(o.softcap or 0), left or 0, right or 0,
            CAUSAL=o.causal is not None, TOP_LEFT=(o.causal or o.alignment) == "top-left",
            LEFT=left is not None, RIGHT=right is not None,
            HAS_BIAS=bias is not None, HAS_SLOPES=o.slopes is not None,
            HAS_SINKS=o.sinks is not None, SOFTCAP=o.softcap is not None,
            M=self.block_q, N=self.block_k, D=width(run.d), DV=width(run.dv), BUG=self.bug,
        )  # fmt: skip
        return to_numpy(out.contiguous())

    def scale(self, run):
        return float(run.d**-0.5 if run.o.scale is None else run.o.scale)

    def sinks(self, run):
        return run.o.sinks

    def strides(self, run, q, k, v, out):
        return *q.stride(), *k.stride(), *v.stride(), *out.stride()

    def bias(self, run):
        if run.o.bias is None and run.o.mask is None:
            return None
        bias = np.zeros((1, 1, 1, 1)) if run.o.bias is None else run.o.bias
        if run.o.mask is not None:
            bias = np.where(run.o.mask, bias.astype(np.float32), -np.inf)
        bias = torch.from_numpy(bias.astype(np.float32))
        slack = torch.zeros(bias.numel() + run.batch * run.heads * (run.tq + 1) * (run.tk + 1))
        slack[: bias.numel()] = bias.ravel()
        return slack.as_strided(bias.shape, bias.stride())

    def bias_strides(self, run, bias):
        whole = bias.expand(run.batch, run.heads, run.tq, run.tk)
        return whole.stride()
