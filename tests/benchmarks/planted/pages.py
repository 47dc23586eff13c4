"""The right kernel of the fourth campaign: a paged cache, in splits that are merged one by one.

A planted bug is a subclass that overrides one of the decisions.
"""

from dataclasses import dataclass

import numpy as np

from options import Run


@dataclass(frozen=True, eq=False)
class Cache:
    """Keys and values in pages of layout (page, slot, head, entry), some of them stale.

    Attributes:
        k: pages of keys
        v: pages of values
        table: (batch, places) pages of each sequence, and two spare ones
    """

    k: np.ndarray
    v: np.ndarray
    table: np.ndarray


@dataclass(frozen=True)
class Split:
    """Keys from `low` on; some row may see those from `first` to before `end`."""

    low: int
    first: int
    end: int


class Pages:
    """Paged attention in float32; its rows are the queries of all heads of a group."""

    page = 16
    splits = 3
    empty = -np.inf
    """The log-sum-exp of a row that sees no key of a split."""

    def __call__(self, q, k, v, o):
        run = Run(q, k, v, o)
        cache = self.cache(run)
        rows = q.reshape(run.batch, run.kv_heads, run.group * run.tq, run.d)
        out = np.zeros((*rows.shape[:3], run.dv), np.float32)
        lse = np.full(rows.shape[:3], -np.inf, np.float32)
        with np.errstate(all="ignore"):
            for split in self.kept(self.all_splits(run)):
                out, lse = self.merged(out, lse, *self.part(run, cache, rows, split))
        grouped = out.reshape(run.batch, run.kv_heads, run.group, run.tq, run.dv)
        return self.ungrouped(grouped).reshape(run.batch, run.heads, run.tq, run.dv)

    def ungrouped(self, out):
        """(batch, x, y, queries, d_v), where head x y' + y is written at x, y."""
        return out

    # memory

    def used(self, run):
        """Pages of a sequence."""
        return -(-run.tk // self.page)

    def cache(self, run):
        random = np.random.default_rng(0)
        used, keys = self.used(run), np.arange(run.tk)
        pages = run.batch * used + 3
        table = np.full((run.batch, used + 2), pages - 1)
        table[:, :used] = random.permutation(run.batch * used).reshape(run.batch, used)
        stored = []
        for x in (run.k, run.v):
            memory = random.standard_normal((pages, self.page, run.kv_heads, x.shape[3]))
            memory = memory.astype(np.float32)
            memory[table[:, keys // self.page], keys % self.page] = np.swapaxes(x, 1, 2)
            stored.append(memory)
        return Cache(*stored, table)

    def table_stride(self, run, cache):
        return cache.table.shape[1]

    def pages(self, run, cache, places):
        """(batch, keys): the page at each place of the table."""
        first = np.arange(run.batch)[:, None] * self.table_stride(run, cache)
        return cache.table.reshape(-1)[first + places]

    def slots(self, split, keys):
        return keys % self.page

    def values(self, cache, pages, slots):
        return np.moveaxis(cache.v[pages, slots], 2, 1)

    # which keys

    def offset(self, run):
        return run.tk - run.tq if run.o.causal == "bottom-right" else 0

    def reach(self, run):
        """How far to the right of its own key a query sees, or None."""
        right = run.o.window[1]
        if run.o.causal is None:
            return right
        return 0 if right is None else min(right, 0)

    def numbers(self, run):
        """The number of the query in each row of a group."""
        return np.arange(run.group * run.tq) % run.tq

    def length(self, run, parts):
        """Keys of a split."""
        return -(-run.tk // parts)

    def high(self, low, length):
        return low + length

    def all_splits(self, run):
        parts, numbers = min(self.splits, self.used(run)), self.numbers(run)
        length, left, reach = self.length(run, parts), run.o.window[0], self.reach(run)
        for low in range(0, parts * length, length):
            first, end = low, min(self.high(low, length), run.tk)
            if left is not None:
                edge = max(0, int(numbers.min()) + self.offset(run) - left)
                first = max(first, self.first_page(edge) * self.page)
            if reach is not None:
                end = min(end, self.farthest(numbers) + self.offset(run) + reach + 1)
            yield Split(low, first, end)

    def first_page(self, key):
        return key // self.page

    def farthest(self, numbers):
        return int(numbers.max())

    def kept(self, splits):
        return (split for split in splits if split.first < split.end)

    # masks

    def exists(self, run, split, keys, pages):
        """(batch, keys) or (keys,): whether a slot of the last page is one of the split."""
        return keys < split.end

    def key_numbers(self, split, keys):
        return keys

    def visible(self, run, split, keys, pages):
        """(batch, KV heads, rows, keys): what the masks let each row see."""
        rows = run.group * run.tq
        exists = np.broadcast_to(self.exists(run, split, keys, pages), (run.batch, len(keys)))
        seen = np.broadcast_to(exists[:, None, None], (run.batch, run.kv_heads, rows, len(keys)))
        at, numbers = self.numbers(run)[:, None] + self.offset(run), self.key_numbers(split, keys)
        if self.reach(run) is not None:
            seen = seen & (numbers <= at + self.reach(run))
        if run.o.window[0] is not None:
            seen = seen & (numbers >= at - run.o.window[0])
        if run.o.mask is not None:
            seen = seen & self.mask(run, split, keys)
        return seen

    def mask(self, run, split, keys):
        rows = run.o.mask.reshape(run.batch, run.kv_heads, run.group * run.tq, run.tk)
        return rows[..., np.minimum(keys, run.tk - 1)]

    # softmax of a split, and the merge

    def scale(self, run):
        return np.float32(run.d**-0.5 if run.o.scale is None else run.o.scale)

    def part(self, run, cache, q, split):
        keys = np.arange(split.first, -(-split.end // self.page) * self.page)
        pages, slots = self.pages(run, cache, keys // self.page), self.slots(split, keys)
        k, v = np.moveaxis(cache.k[pages, slots], 2, 1), self.values(cache, pages, slots)
        seen = self.visible(run, split, keys, pages)
        products = np.where(seen, q @ np.swapaxes(k, -1, -2), np.float32(-np.inf))
        scores = np.where(seen, products * self.scale(run), np.float32(-np.inf))
        maximum = self.finite(scores.max(-1))
        weights = np.exp(scores - maximum[..., None])
        total = weights.sum(-1)
        divisor = np.where(total > 0, total, np.float32(1))
        lse = self.log_sum(maximum, np.log(divisor), products)
        lse = np.where(total > 0, lse, np.float32(self.empty))
        return weights @ v / divisor[..., None], self.stored(run, lse)

    def finite(self, maximum):
        return np.where(np.isfinite(maximum), maximum, np.float32(0))

    def log_sum(self, maximum, log, products):
        return maximum + log

    def stored(self, run, lse):
        return lse

    def merged(self, out, lse, part, part_lse):
        top = self.shift(np.maximum(lse, part_lse))
        old, new = np.exp(lse - top), np.exp(part_lse - top)
        total = old + new
        divisor = np.where(total == 0, np.float32(1), total)
        sums = out * old[..., None] + part * new[..., None]
        both = np.where(total > 0, self.both(lse, part_lse, top + np.log(divisor)), -np.inf)
        return sums / divisor[..., None], both.astype(np.float32)

    def shift(self, largest):
        return self.finite(largest)

    def both(self, lse, part_lse, log):
        """The log-sum-exp of two splits."""
        return log
