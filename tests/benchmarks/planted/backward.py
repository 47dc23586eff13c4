"""The right backward pass of the flash kernel in numpy, block by block."""

import numpy as np

from flash import Flash
from options import Run


class Backward(Flash):
    """Gradients (dq, dk, dv); the forward pass is always the right one.

    The methods inherited from Flash recompute scores and masks here, so a bug in them is a bug of
    the backward pass alone.
    """

    handles = frozenset({"backward"})

    def __call__(self, q, k, v, o, dout):
        run = Run(q, k, v, o)
        with np.errstate(all="ignore"):
            out, lse = Flash().forward(run)
            if o.sinks is not None:
                lse = self.lse(run, lse)
            grads = self.gradients(run, out, lse, dout.astype(run.real))
        return tuple(g.astype(run.q.dtype) for g in grads)

    def lse(self, run, lse):
        """The log-sum-exp that the forward pass stored, sinks included."""
        return lse

    def delta(self, run, out, dout):
        return (out * dout).sum(-1)

    def gradients(self, run, out, lse, dout):
        scale, delta = self.scale(run), self.delta(run, out, dout)
        size = -(-run.tk // self.block_k) * self.block_k
        dq = np.zeros((run.batch, run.heads, run.tq, run.d), run.real)
        dk = np.zeros((run.batch, run.heads, size, run.d), run.real)
        dv = np.zeros((run.batch, run.heads, size, run.dv), run.real)
        for rows in self.query_blocks(run):
            q, do = self.queries(run, rows), dout[:, :, rows]
            for keys in self.key_blocks(run, rows, 0, run.tk):
                k = self.load(run, run.k, keys, self.key_heads(run))
                v = self.values(run, keys)
                p = self.weights(run, self.scores(run, q, k, rows, keys), lse[:, :, rows])
                ds = self.softmax_gradient(run, p, do @ np.swapaxes(v, -1, -2), delta[:, :, rows])
                ds = ds * self.cap_gradient(run, self.dot(run, q, k) * scale)
                self.add(run, dv, keys, np.swapaxes(p, -1, -2) @ do)
                self.add_query(run, dq, rows, self.query_gradient(run, ds, k, scale))
                self.add(run, dk, keys, self.key_gradient(run, ds, q, scale))
        return (
            dq,
            self.over_group(run, dk[:, :, : run.tk]),
            self.over_group(run, dv[:, :, : run.tk]),
        )

    def weights(self, run, s, lse):
        lse = lse[..., None]
        return np.where(np.isneginf(lse) | np.isneginf(s), 0, np.exp(s - lse))

    def softmax_gradient(self, run, p, dp, delta):
        return p * (dp - delta[..., None])

    def cap_gradient(self, run, s):
        if run.o.softcap is None:
            return 1
        return 1 - np.tanh(s / run.real(run.o.softcap)) ** 2

    def query_gradient(self, run, ds, k, scale):
        return ds @ k * scale

    def key_gradient(self, run, ds, q, scale):
        return np.swapaxes(ds, -1, -2) @ q * scale

    def add(self, run, total, keys, part):
        total[:, :, keys] += part

    def add_query(self, run, total, rows, part):
        total[:, :, rows] += part

    def over_group(self, run, per_head):
        return per_head.reshape(run.batch, run.kv_heads, run.group, *per_head.shape[2:]).sum(2)
