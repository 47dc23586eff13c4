"""Planted bugs of the fourth campaign: pages and splits."""

import itertools

import ml_dtypes
import numpy as np

from pages import Pages


class TableWithoutSparePages(Pages):
    """Rows of the table are read as if it had no spare pages."""

    def table_stride(self, run, cache):
        return self.used(run)


class OffsetOfWholePages(Pages):
    """The offset of the bottom-right diagonal counts the slots of the last page."""

    def offset(self, run):
        padding = self.used(run) * self.page - run.tk
        return super().offset(run) + padding * (run.o.causal == "bottom-right")


class KeysBehindEvenSplits(Pages):
    """The length of a split is rounded down, so that the last keys are not read."""

    def length(self, run, parts):
        return run.tk // parts


class RowsOfGroupInterleaved(Pages):
    """The rows of a group count as if the heads of a query followed each other."""

    def numbers(self, run):
        return np.arange(run.group * run.tq) // run.group


class SplitsOverlapByOne(Pages):
    """A split ends one key late, so that the first key of the next counts twice."""

    def high(self, low, length):
        return super().high(low, length) + 1


class FirstPageRoundedUp(Pages):
    """The page where the window begins is left out, unless it begins with the page."""

    def first_page(self, key):
        return -(-key // self.page)


class EndOfFirstRow(Pages):
    """The last key that is read is the last one of the first query."""

    def farthest(self, numbers):
        return int(numbers.min())


class EmptySplitEndsLoop(Pages):
    """The loop over splits ends at one without keys."""

    def kept(self, splits):
        return itertools.takewhile(lambda split: split.first < split.end, splits)


class StaleSlotsRead(Pages):
    """The slots of the last page behind the last key are read."""

    def exists(self, run, split, keys, pages):
        is_last = split.end == run.tk
        return super().exists(run, split, keys, pages) | is_last


class PagesInPairs(Pages):
    """The page at every other place is taken to be the one behind the page before."""

    def pages(self, run, cache, places):
        before = super().pages(run, cache, places - places % 2)
        return (before + places % 2) % len(cache.k)


class SlotsFromSplit(Pages):
    """Slots are counted from the first key of the split."""

    def slots(self, split, keys):
        return (keys - split.low) % self.page


class PageZeroIsNull(Pages):
    """Page 0 counts as none."""

    def exists(self, run, split, keys, pages):
        return super().exists(run, split, keys, pages) & (pages != 0)


class ValuesWithHeadsFirst(Pages):
    """Values are read as (page, head, slot), and were stored as (page, slot, head)."""

    def values(self, cache, pages, slots):
        _, page, heads, width = cache.v.shape
        v = cache.v.reshape(-1, heads, page, width)
        return np.moveaxis(v[pages, :, slots], 2, 1)


class KeysCountedFromSplit(Pages):
    """Causal masks and windows count keys from the first one of the split."""

    def key_numbers(self, split, keys):
        return keys - split.low


class MaskOfFirstGroup(Pages):
    """The mask is that of the heads of the first group."""

    def mask(self, run, split, keys):
        return super().mask(run, split, keys)[:, :1]


class MaskFromSplit(Pages):
    """The columns of the mask are counted from the first key of the split."""

    def mask(self, run, split, keys):
        return super().mask(run, split, keys - split.low)


class LogSumIsMaximum(Pages):
    """The log-sum-exp of a split is its largest score."""

    def log_sum(self, maximum, log, products):
        return maximum


class LogSumInBaseTwo(Pages):
    """The log-sum-exp of a split is in base two, and merged in base e."""

    def log_sum(self, maximum, log, products):
        return super().log_sum(maximum, log, products) * np.float32(np.log2(np.e))


class LogSumOfUnscaledMaximum(Pages):
    """The log-sum-exp of a split has the largest product, without the scale."""

    def log_sum(self, maximum, log, products):
        return products.max(-1) + log


class EmptySplitCounts(Pages):
    """A split without a visible key has the log-sum-exp 0."""

    empty = 0.0


class LogSumInBfloat16(Pages):
    """The log-sum-exp of a split is stored in bfloat16."""

    def stored(self, run, lse):
        return lse.astype(ml_dtypes.bfloat16).astype(np.float32)


class LogSumOfFirstQuery(Pages):
    """All rows of a head are merged by the log-sum-exp of its first query."""

    def stored(self, run, lse):
        first = lse[..., :: run.tq]
        return np.repeat(first, run.tq, axis=-1)


class MergeWithoutShift(Pages):
    """The merge takes exponentials of log-sum-exps as they are."""

    def shift(self, largest):
        return np.zeros_like(largest)


class MergeKeepsMaximum(Pages):
    """The log-sum-exp after a merge is the larger of both."""

    def both(self, lse, part_lse, log):
        return np.maximum(lse, part_lse)


class HeadsWrittenInterleaved(Pages):
    """The heads of a group are written kv_heads apart."""

    def ungrouped(self, out):
        return np.swapaxes(out, 1, 2)
