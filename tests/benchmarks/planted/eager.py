"""The right eager kernel in torch: whole matrices, every step rounded to the format of the inputs.

Softmax is computed in float32, as models do. A planted bug overrides one of the methods.
"""

import ml_dtypes
import numpy as np
import torch

from options import Run


def to_torch(x):
    if x.dtype == ml_dtypes.bfloat16:
        x = np.ascontiguousarray(x)
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(x))


def to_numpy(x):
    if x.dtype == torch.bfloat16:
        return x.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.contiguous().numpy()


class Eager:
    """Attention as models write it without a kernel."""

    handles = frozenset()

    def __call__(self, q, k, v, o):
        run = Run(q, k, v, o)
        return to_numpy(self.forward(run, *map(to_torch, (q, k, v))))

    def forward(self, run, q, k, v):
        exists = self.exists(run)[:, None, :, None]
        k, v = (torch.where(exists, x, torch.zeros((), dtype=x.dtype)) for x in (k, v))
        s = self.scores(run, q, self.repeat(run, k))
        s = self.masked(run, s, self.visible(run))
        p = self.softmax(run, s).to(v.dtype)
        return self.output(run, p @ self.repeat(run, v))

    def repeat(self, run, x):
        return x.repeat_interleave(run.heads // x.shape[1], 1)

    def output(self, run, out):
        return out

    def scale(self, run):
        return run.d**-0.5 if run.o.scale is None else float(run.o.scale)

    def scores(self, run, q, k):
        s = (q @ k.transpose(-1, -2)) * self.scale(run)
        if run.o.softcap is not None:
            s = self.cap(run, s)
        if run.o.bias is not None:
            s = s + self.bias(run).to(s.dtype)
        if run.o.slopes is not None:
            s = s + self.alibi(run).to(s.dtype)
        return s

    def cap(self, run, s):
        return torch.tanh(s / run.o.softcap) * run.o.softcap

    def bias(self, run):
        return torch.from_numpy(np.asarray(run.o.bias).astype(run.real))

    def alibi(self, run):
        slopes = torch.from_numpy(np.asarray(run.o.slopes).astype(run.real))
        return -slopes[:, None, None] * self.distance(run)[:, None].abs()

    def offset(self, run):
        if (run.o.causal or run.o.alignment) == "top-left":
            return torch.zeros(run.batch, dtype=torch.int64)
        return torch.from_numpy(run.lengths - run.tq)

    def distance(self, run):
        """(batch, Tq, Tk): how far the key is to the right of the query's own position."""
        at = torch.arange(run.tq)[None, :, None] + self.offset(run)[:, None, None]
        return torch.arange(run.tk)[None, None] - at

    def exists(self, run):
        j = torch.arange(run.tk)[None]
        lengths, starts = (torch.from_numpy(x)[:, None] for x in (run.lengths, run.starts))
        return (j < lengths) & (j >= starts)

    def visible(self, run):
        seen = self.exists(run)[:, None, None]
        if run.o.causal:
            seen = seen & self.causal(run)[:, None]
        if run.o.window != (None, None):
            seen = seen & self.window(run)[:, None]
        if run.o.mask is not None:
            seen = seen & self.mask(run)
        return seen

    def causal(self, run):
        return self.distance(run) <= 0

    def window(self, run):
        left, right = run.o.window
        distance = self.distance(run)
        seen = torch.ones_like(distance, dtype=torch.bool)
        if left is not None:
            seen &= distance >= -left
        if right is not None:
            seen &= distance <= right
        return seen

    def mask(self, run):
        return torch.from_numpy(np.ascontiguousarray(run.o.mask))

    def masked(self, run, s, seen):
        return s.masked_fill(~seen, -torch.inf)

    def softmax(self, run, s):
        s = s.to(torch.float64 if s.dtype == torch.float64 else torch.float32)
        if run.o.sinks is not None:
            sinks = torch.from_numpy(np.asarray(run.o.sinks).astype(run.real)).to(s.dtype)
            s = torch.cat([s, sinks[None, :, None, None].expand(*s.shape[:3], 1)], -1)
        p = torch.softmax(s, -1)
        p = torch.where((s == -torch.inf).all(-1, keepdim=True), torch.zeros_like(p), p)
        return p[..., : run.tk]
