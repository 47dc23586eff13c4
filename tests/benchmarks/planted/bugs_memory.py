"""Planted bugs of strides and of paged caches."""

import numpy as np
from numpy.lib.stride_tricks import as_strided

from flash import Flash


def _taken_as_contiguous(x):
    """What a kernel reads that ignores the strides of x: its memory in order."""
    base = x
    while base.base is not None and isinstance(base.base, np.ndarray):
        base = base.base
    flat = base.ravel(order="K")
    return np.resize(flat, x.size).reshape(x.shape)


class QueriesTakenAsContiguous(Flash):
    """The strides of the queries are ignored."""

    needs = "strided"
    seen = "https://github.com/pytorch/pytorch/issues/112577"

    def __call__(self, q, k, v, o):
        return super().__call__(_taken_as_contiguous(q), k, v, o)


class KeysTakenAsContiguous(Flash):
    """The strides of the keys are ignored."""

    needs = "strided"

    def __call__(self, q, k, v, o):
        return super().__call__(q, _taken_as_contiguous(k), v, o)


class ValuesTakenAsContiguous(Flash):
    """The strides of the values are ignored."""

    needs = "strided"
    seen = "https://github.com/ROCm/pytorch/issues/3230"

    def __call__(self, q, k, v, o):
        return super().__call__(q, k, _taken_as_contiguous(v), o)


class ValuesWithStridesOfKeys(Flash):
    """Values are read with the strides of the keys, which have another width."""

    needs = "other-value many-keys"

    def values(self, run, keys):
        v = super().values(run, keys)
        if run.o.block_table is not None:
            return v
        flat = np.concatenate([np.ascontiguousarray(run.v).ravel()] * 2)
        steps = [flat.itemsize * n for n in (run.kv_heads * run.tk * run.d, run.tk * run.d)]
        steps += [flat.itemsize * run.d, flat.itemsize]
        wrong = as_strided(flat, run.v.shape, steps)
        return self.load(run, wrong, keys, self.value_heads(run))


class PagesInPhysicalOrder(Flash):
    """The block table is ignored: pages are read in the order of the cache."""

    needs = "pages"

    def address(self, run, keys):
        per = run.o.block_table.shape[1]
        pages = np.arange(run.batch)[:, None] * per + keys // run.page
        return pages, np.broadcast_to(keys % run.page, pages.shape)


class TableOfFirstBatch(Flash):
    """The block table of batch 0 is used for all batches."""

    needs = "pages batch"

    def address(self, run, keys):
        pages, slots = super().address(run, keys)
        return np.broadcast_to(pages[:1], pages.shape), slots


class TableStrideTooShort(Flash):
    """The row stride of the block table is the number of pages in use less one."""

    needs = "pages batch"

    def address(self, run, keys):
        table = run.o.block_table
        at = np.arange(run.batch)[:, None] * (table.shape[1] - 1) + keys // run.page
        pages = np.maximum(table.ravel()[at], 0)
        return pages, np.broadcast_to(keys % run.page, pages.shape)


class PageOfBlockStart(Flash):
    """The page is looked up once per block of keys, which is longer than a page."""

    needs = "pages"

    def address(self, run, keys):
        pages, slots = super().address(run, keys)
        return np.repeat(pages[:, :1], pages.shape[1], 1), slots


class PageBoundaryLate(Flash):
    """The first key of a page is looked up in the page before."""

    needs = "pages many-keys"

    def address(self, run, keys):
        _, slots = super().address(run, keys)
        return run.o.block_table[:, np.maximum(keys - 1, 0) // run.page], slots


class SlotOfNextKey(Flash):
    """The slot of keys, but not of values, inside a page is one too far, and wraps around."""

    needs = "pages"

    def load(self, run, memory, keys, heads):
        return super().load(run, np.roll(memory, -1, 2) if memory is run.k else memory, keys, heads)


class LastPageReadInFull(Flash):
    """The length is rounded up to whole pages: leftovers in the last page are read."""

    needs = "part-page"
    seen = "https://github.com/hw-native-sys/simpler/pull/72"

    def exists(self, run, keys):
        lengths = -(-run.lengths // run.page) * run.page
        inside = keys[None] < np.minimum(lengths, run.tk)[:, None]
        return inside & (keys[None] >= run.starts[:, None])


class LastPartialPageDropped(Flash):
    """A last page that is not full is not read."""

    needs = "part-page"

    def exists(self, run, keys):
        return super().exists(run, keys) & (
            keys[None] < (run.lengths // run.page * run.page)[:, None]
        )


class ValuesFromPageOfNeighbour(Flash):
    """Values, but not keys, are read one physical page further."""

    needs = "pages"

    def load(self, run, memory, keys, heads):
        return super().load(run, np.roll(memory, -1, 0) if memory is run.v else memory, keys, heads)


class PageSizeOfBlock(Flash):
    """The page of a key is computed with the kernel's block size, not the cache's page size."""

    needs = "pages"

    def address(self, run, keys):
        _, slots = super().address(run, keys)
        return run.o.block_table[:, keys // self.block_k], slots


class HeadStrideOfPages(Flash):
    """Key heads of a page are read as if its layout were (slots, heads), not (heads, slots)."""

    needs = "pages"

    def load(self, run, memory, keys, heads):
        if run.o.block_table is None:
            return super().load(run, memory, keys, heads)
        pages, heads_, slots, width = memory.shape
        wrong = memory.reshape(pages, slots, heads_, width).swapaxes(1, 2)
        return super().load(run, wrong if memory is run.k else memory, keys, heads)
