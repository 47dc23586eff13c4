"""What a kernel should return, in float64 and without blocks; written apart from the kernels."""

from itertools import pairwise

import numpy as np
import torch


def _unpaged(cache, table):
    """(batch, kv heads, tokens, d) of a paged cache, a page after the other."""
    return torch.stack(
        [torch.cat([cache[max(0, min(int(p), len(cache) - 1))] for p in row], 1) for row in table]
    )


def _tensor(x):
    return torch.from_numpy(np.asarray(x).astype(np.float64))


def attention(q, k, v, o):
    """Attention of float64 torch tensors, which autograd may follow."""
    if o.query_offsets is not None:
        alone = o.but(query_offsets=None, key_offsets=None)
        spans = zip(
            *(
                [slice(int(a), int(b)) for a, b in pairwise(c)]
                for c in (o.query_offsets, o.key_offsets)
            ),
            strict=True,
        )
        return torch.cat(
            [attention(q[:, :, r], k[:, :, c], v[:, :, c], alone) for r, c in spans], 2
        )
    if o.block_table is not None:
        k, v = (_unpaged(cache, o.block_table) for cache in (k, v))
    batch, heads, tq, d = q.shape
    tk = k.shape[2]
    k, v = (x.repeat_interleave(heads // x.shape[1], 1) for x in (k, v))
    i, j = torch.arange(tq)[:, None], torch.arange(tk)[None]
    seen = torch.ones(batch, heads, tq, tk, dtype=torch.bool)
    pad = torch.zeros(batch, tk, dtype=torch.bool)
    distance = torch.zeros(batch, tq, tk, dtype=torch.int64)
    for b in range(batch):
        length = tk if o.key_lengths is None else int(o.key_lengths[b])
        start = 0 if o.key_starts is None else int(o.key_starts[b])
        pad[b] = (j[0] >= length) | (j[0] < start)
        shift = 0 if (o.causal or o.alignment) == "top-left" else length - tq
        distance[b] = j - (i + shift)
    seen &= ~pad[:, None, None]
    if o.causal:
        seen &= (distance <= 0)[:, None]
    left, right = o.window
    if left is not None:
        seen &= (distance >= -left)[:, None]
    if right is not None:
        seen &= (distance <= right)[:, None]
    if o.mask is not None:
        seen &= torch.from_numpy(np.ascontiguousarray(o.mask))
    k, v = (torch.where(pad[:, None, :, None], 0.0, x) for x in (k, v))
    s = torch.einsum("bhqd,bhkd->bhqk", q, k) * (d**-0.5 if o.scale is None else o.scale)
    if o.softcap is not None:
        s = o.softcap * torch.tanh(s / o.softcap)
    if o.bias is not None:
        s = s + _tensor(o.bias)
    if o.slopes is not None:
        s = s - _tensor(o.slopes)[:, None, None] * distance.abs()[:, None]
    s = torch.where(seen, s, -torch.inf)
    if o.sinks is not None:
        s = torch.cat([s, _tensor(o.sinks)[None, :, None, None].expand(batch, heads, tq, 1)], 3)
    top = s.amax(-1, keepdim=True).detach()
    p = torch.exp(s - torch.where(top == -torch.inf, 0.0, top))
    p = torch.where(torch.isneginf(s), 0.0, p)
    total = p.sum(-1, keepdim=True)
    p = p / torch.where(total > 0, total, 1.0)
    return p[..., :tk] @ v


def exact(q, k, v, o):
    """The output of attention in float64."""
    return attention(*map(_tensor, (q, k, v)), o).numpy()


def exact_gradients(q, k, v, o, dout):
    """The gradients (dq, dk, dv) in float64."""
    leaves = [_tensor(x).requires_grad_() for x in (q, k, v)]
    out = attention(*leaves, o)
    return [g.numpy() for g in torch.autograd.grad(out, leaves, _tensor(dout))]
