"""The right flash kernel in numpy: blocks, online softmax, pages, splits; one method a decision.

A planted bug is a subclass that overrides one of the methods.
"""

import numpy as np

from options import Run


class Flash:
    """FlashAttention with float32 accumulation; the output is rounded once."""

    block_q = 16
    block_k = 16
    handles = frozenset({"pages", "splits", "packed"})

    def __call__(self, q, k, v, o):
        run = Run(q, k, v, o)
        with np.errstate(all="ignore"):
            out = self.packed(run) if o.query_offsets is not None else self.forward(run)[0]
            return self.store(run, out)

    def store(self, run, out):
        return out.astype(run.q.dtype)

    # sequences packed along the tokens

    def spans(self, o, sequence):
        queries, keys = o.query_offsets, o.key_offsets
        return (
            slice(int(queries[sequence]), int(queries[sequence + 1])),
            slice(int(keys[sequence]), int(keys[sequence + 1])),
        )

    def sequences(self, o):
        return range(len(o.query_offsets) - 1)

    def packed(self, run):
        out = np.zeros((1, run.heads, run.tq, run.dv), run.real)
        alone = run.o.but(query_offsets=None, key_offsets=None)
        for sequence in self.sequences(run.o):
            rows, keys = self.spans(run.o, sequence)
            part = Run(run.q[:, :, rows], run.k[:, :, keys], run.v[:, :, keys], alone)
            if part.tq:
                out[:, :, rows] = self.forward(part)[0]
        return out

    # the loops

    def forward(self, run):
        parts = [self.part(run, low, high) for low, high in self.split_bounds(run)]
        out, lse = self.merge(run, *(np.stack(each) for each in zip(*parts, strict=True)))
        if run.o.sinks is not None:
            return self.with_sinks(run, out, lse)
        return out, lse

    def part(self, run, low, high):
        out = np.zeros((run.batch, run.heads, run.tq, run.dv), run.real)
        lse = np.full(out.shape[:3], -np.inf, run.real)
        state = None
        for rows in self.query_blocks(run):
            state = self.initial(run, len(rows), state)
            q = self.queries(run, rows)
            for keys in self.key_blocks(run, rows, low, high):
                k = self.load(run, run.k, keys, self.key_heads(run))
                v = self.values(run, keys)
                state = self.update(run, state, self.scores(run, q, k, rows, keys), v)
            out[:, :, rows], lse[:, :, rows] = self.finish(run, state)
        return out, lse

    def query_blocks(self, run):
        for first in range(0, run.tq, self.block_q):
            yield np.arange(first, min(first + self.block_q, run.tq))

    def key_blocks(self, run, rows, low, high):
        first, last = self.key_range(run, rows)
        first = low + max(first - low, 0) // self.block_k * self.block_k
        for start in range(first, min(last, high), self.block_k):
            stop = start + self.block_k
            yield np.arange(start, stop if high >= run.tk else min(stop, high))

    def key_range(self, run, rows):
        """The keys that some row of the block can see: first, and one past the last."""
        at = self.positions(run, rows)
        first, last = int(run.starts.min()), int(run.lengths.max())
        left, right = run.o.window
        if left is not None:
            first = max(first, int(at.min()) - left)
        if right is not None:
            last = min(last, int(at.max()) + right + 1)
        if run.o.causal:
            last = min(last, int(at.max()) + 1)
        return first, last

    # memory

    def key_heads(self, run):
        return np.arange(run.heads) // run.group

    def value_heads(self, run):
        return np.arange(run.heads) // run.group

    def queries(self, run, rows):
        return run.q[:, :, rows].astype(run.real)

    def values(self, run, keys):
        return self.load(run, run.v, keys, self.value_heads(run))

    def exists(self, run, keys):
        """(batch, keys): whether the key is there at all, and not padding."""
        inside = keys[None] < np.minimum(run.lengths, run.tk)[:, None]
        return inside & (keys[None] >= run.starts[:, None])

    def address(self, run, keys):
        """(batch, keys): the page of each key, and its slot there."""
        pages = run.o.block_table[:, keys // run.page]
        return pages, np.broadcast_to(keys % run.page, pages.shape)

    def load(self, run, memory, keys, heads):
        exists = self.exists(run, keys)
        keys = np.clip(keys, 0, run.tk - 1)
        if run.o.block_table is not None:
            pages, slots = self.address(run, keys)
            block = np.moveaxis(memory[np.where(exists, pages, 0), :, slots], 2, 1)
        else:
            block = memory[:, :, keys]
        block = block[:, heads].astype(run.real)
        return np.where(exists[:, None, :, None], block, 0)

    # scores

    def scores(self, run, q, k, rows, keys):
        s = self.dot(run, q, k) * self.scale(run)
        if run.o.softcap is not None:
            s = self.cap(run, s)
        if run.o.bias is not None:
            s = s + self.bias(run, rows, keys)
        if run.o.slopes is not None:
            s = s + self.alibi(run, rows, keys)
        return np.where(self.visible(run, rows, keys), s, -np.inf).astype(run.real)

    def dot(self, run, q, k):
        return q @ np.swapaxes(k, -1, -2)

    def scale(self, run):
        return run.real(run.d**-0.5 if run.o.scale is None else run.o.scale)

    def cap(self, run, s):
        cap = run.real(run.o.softcap)
        return cap * np.tanh(s / cap)

    def entries(self, run, table, rows, keys):
        """The block of a mask or a bias, by broadcast to (batch, heads, rows, keys)."""
        whole = np.broadcast_to(table, (*table.shape[:2], run.tq, run.tk))
        return whole[:, :, rows][..., np.clip(keys, 0, run.tk - 1)]

    def bias(self, run, rows, keys):
        return self.entries(run, run.o.bias, rows, keys).astype(run.real)

    def slopes(self, run):
        return run.o.slopes.astype(run.real)

    def distances(self, run, rows, keys):
        return np.abs(self.positions(run, rows)[:, None, :, None] - keys)

    def alibi(self, run, rows, keys):
        distances = self.distances(run, rows, keys).astype(run.real)
        return -self.slopes(run)[None, :, None, None] * distances

    # masks

    def offset(self, run):
        """(batch,): the position of query 0 among the keys."""
        if (run.o.causal or run.o.alignment) == "top-left":
            return np.zeros(run.batch, int)
        return run.lengths - run.tq

    def positions(self, run, rows):
        return rows[None] + self.offset(run)[:, None]

    def visible(self, run, rows, keys):
        seen = self.exists(run, keys)[:, None, None]
        if run.o.causal:
            seen = seen & self.causal(run, rows, keys)[:, None]
        if run.o.window != (None, None):
            seen = seen & self.window(run, rows, keys)[:, None]
        if run.o.mask is not None:
            seen = seen & self.mask(run, rows, keys)
        return seen

    def causal(self, run, rows, keys):
        return keys <= self.positions(run, rows)[..., None]

    def window(self, run, rows, keys):
        at = self.positions(run, rows)[..., None]
        left, right = run.o.window
        seen = np.ones((*at.shape[:2], len(keys)), bool)
        if left is not None:
            seen &= keys >= at - left
        if right is not None:
            seen &= keys <= at + right
        return seen

    def mask(self, run, rows, keys):
        return self.entries(run, run.o.mask, rows, keys)

    # online softmax: (maximum, sum of exponentials, sum of weighted values)

    def exp(self, x):
        return np.exp(x)

    def initial(self, run, rows, previous):
        shape = (run.batch, run.heads, rows)
        return (
            np.full(shape, -np.inf, run.real),
            np.zeros(shape, run.real),
            np.zeros((*shape, run.dv), run.real),
        )

    def maximum(self, run, old, s):
        return np.maximum(old, s.max(-1))

    def update(self, run, state, s, v):
        m, total, acc = state
        new = self.maximum(run, m, s)
        base = np.where(np.isneginf(new), 0, new)
        p = self.exp(s - base[..., None])
        fade = self.exp(m - base)
        return new, total * fade + p.sum(-1), acc * fade[..., None] + p @ v

    def finish(self, run, state):
        m, total, acc = state
        out = acc / np.where(total > 0, total, 1)[..., None]
        return out, np.where(total > 0, np.where(np.isneginf(m), 0, m) + np.log(total), -np.inf)

    # parts of the keys, and sinks

    def split_bounds(self, run):
        blocks = -(-run.tk // self.block_k)
        size = -(-blocks // run.o.splits) * self.block_k
        return [(n * size, min((n + 1) * size, run.tk)) for n in range(run.o.splits)]

    def merge(self, run, outs, lses):
        top = lses.max(0)
        base = np.where(np.isneginf(top), 0, top)
        weights = np.exp(lses - base)
        total = weights.sum(0)
        share = weights / np.where(total > 0, total, 1)
        lse = np.where(total > 0, base + np.log(total), -np.inf)
        return (outs * share[..., None]).sum(0), lse

    def sinks(self, run):
        return run.o.sinks.astype(run.real)[None, :, None]

    def with_sinks(self, run, out, lse):
        sinks = np.broadcast_to(self.sinks(run), lse.shape)
        return out / (1 + np.exp(sinks - lse))[..., None], np.logaddexp(lse, sinks)
