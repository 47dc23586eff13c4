"""Mistakes about paged caches: which page of the table, which place in the page, how many pages."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from constructive.kernels.answer import grouped
from constructive.kernels.masks import Causal
from constructive.kernels.mistakes.bench import BLOCKS, Bench, Mistakes
from constructive.kernels.paged import Pool
from constructive.support.arrays import Array, Booleans, Integers

_NOWHERE = -1  # An address outside of all pages: NaN is read there
_CLAMPED = " (an entry of no page is taken as page 0)"


def pages(bench: Bench) -> Mistakes:
    """Yield addresses of keys and values in other pages, or elsewhere in the page."""
    pool = bench.memory
    if not isinstance(pool, Pool):
        return
    found = dict(_addresses(pool, bench.problem.spec.keys))
    clamped = Pool(pool.k, pool.v, np.maximum(pool.table, 0), pool.lengths)
    for words, addresses in list(_addresses(clamped, bench.problem.spec.keys)):
        exists = np.arange(bench.problem.spec.keys) < pool.lengths[:, None]
        if (addresses != found[words])[exists].any():
            found[words + _CLAMPED] = addresses
    for words, addresses in found.items():
        for sentence, changed in (
            (words, (True, True)),
            (f"{words}, for keys alone", (True, False)),
            (f"{words}, for values alone", (False, True)),
        ):
            yield sentence, partial(_read, bench, pool, addresses, changed)
    for by_head, axes in ((False, ("token", "head")), (True, ("head", "token"))):
        laid, read = ", ".join(axes), ", ".join(axes[::-1])
        for what, changed in (("", (True, True)), ("keys of ", (True, False)),
                              ("values of ", (False, True))):  # fmt: skip
            yield (
                f"{what}pages are laid out as ({laid}), and read as ({read})",
                partial(_exchanged, bench, pool, changed, by_head=by_head),
            )


def counts_of_pages(bench: Bench) -> Mistakes:
    """Yield pages that are read beyond the end of a sequence, and pages that are not read."""
    pool, spec = bench.memory, bench.problem.spec
    if not isinstance(pool, Pool):
        return
    size = pool.k.shape[1]
    lengths = pool.lengths[:, None, None, None]
    ends = {
        "the last page of each sequence is read to its end, not to the end of the sequence":
            -(-lengths // size) * size,
        "one page too many is read at the end of each sequence": (-(-lengths // size) + 1) * size,
        "one page too many is read where the end of a sequence is that of a page":
            (lengths // size + 1) * size,
        "the whole table is read, not the pages of the sequence":
            0 * lengths + pool.table.shape[1] * size,
    }  # fmt: skip
    for sentence, end in ends.items():
        yield sentence, partial(_to, bench, pool, end)
    moved = {
        "one key too many is read at the end of each sequence": lengths + 1,
        "one key is missing at the end of each sequence": lengths - 1,
        "the length of sequence 0 is that of all": 0 * lengths + lengths[0],
        "the length of the longest sequence is that of all": 0 * lengths + lengths.max(),
        "lengths are those of the next sequence": np.roll(lengths, -1, 0),
    }
    for sentence, end in moved.items():
        if (end != lengths).any():
            yield f"{sentence}, in pages", partial(_to, bench, pool, end, moves=True)
    j, visible = np.arange(spec.keys), bench.problem.visible
    parts = {
        "the last page of each sequence is not read": j < (lengths - 1) // size * size,
        "the last page of a sequence is not read if it is not full": j < lengths // size * size,
        "the first page of each sequence is not read": j >= size,
    }
    for sentence, kept in parts.items():
        yield sentence, bench.sees(visible & kept)


def _addresses(pool: Pool, keys: int) -> Iterator[tuple[str, Integers]]:
    """Yield addresses of all keys in the memory of pages, counted in tokens, (B, T_k)."""
    count, size = pool.k.shape[:2]
    batch, width = pool.table.shape
    b, j = np.arange(batch)[:, None], np.arange(keys)[None]
    block, slot = j // size, j % size
    counts = -(-pool.lengths // size)
    starts = (np.cumsum(counts) - counts)[:, None]
    flat = pool.table.ravel()

    def page(index: Integers) -> Integers:
        """Return the page at an index of the table's memory."""
        inside = (index >= 0) & (index < flat.size)
        return np.where(inside, flat[np.clip(index, 0, flat.size - 1)], _NOWHERE)

    def at(pages: Integers, slots: Integers) -> Integers:
        return np.where(pages < 0, _NOWHERE, pages * size + slots)

    own = b * width
    tables = {
        "the table of pages is ignored: pages are taken in order": own + block,
        "the table of pages is ignored: sequences lie one after the other": starts + block,
    }
    for words, pages_in_order in tables.items():
        yield words, at(np.where(pages_in_order < count, pages_in_order, _NOWHERE), slot)
    rows = {
        "pages are those of the next sequence": (b + 1) % batch * width + block,
        "pages are those of the sequence before": (b - 1) % batch * width + block,
        "pages are those of sequence 0, whatever the sequence": 0 * b + block,
        "the table of pages is read as (page, sequence)": block * batch + b,
        "rows of the table of pages are taken as one page shorter": b * (width - 1) + block,
        "rows of the table of pages are taken as one page longer": b * (width + 1) + block,
        "rows of the table of pages are taken as without gaps": starts + block,
        "each page is the next one of the sequence": own + block + 1,
        "each page is the one before in the sequence": own + np.maximum(block - 1, 0),
        "every page is the first one of the sequence": own + 0 * block,
        "pages of a sequence are in reverse order": own + counts[:, None] - 1 - block,
        "entries of a row of the table are in reverse order": own + width - 1 - block,
        "each page is the next one of the table's row, the last is the first":
            own + (block + 1) % width,
        "rows of the table of pages are as far apart as their sequence has pages":
            b * counts[:, None] + block,
        "the last page of a sequence is its first":
            own + np.where(block == counts[:, None] - 1, 0, block),
    }  # fmt: skip
    for words, index in rows.items():
        yield words, at(page(index), slot)
    yield (
        "page and place are exchanged: j % page_size and j // page_size",
        at(page(own + slot % width), block % size),
    )
    right = page(own + block)
    yield "the page changes one key too late", at(page(own + np.maximum(j - 1, 0) // size), slot)
    yield "the page changes one key too early", at(page(own + (j + 1) // size), slot)
    for step, word in ((1, "next"), (-1, "previous")):
        beside = np.where(right < 0, _NOWHERE, right + step)
        yield f"each page is the {word} one in memory", at(beside, slot)
    slots = {
        "the place in a page is that of the next key": slot + 1,
        "the place in a page is that of the next key, and wraps around": (slot + 1) % size,
        "the place in a page is that of the key before, and wraps around": (slot - 1) % size,
        "the place in a page is always the first": 0 * slot,
        "places in a page are in reverse order": size - 1 - slot,
        "the place in a page is counted from the start of the sequence": j,
    }
    for words, places in slots.items():
        yield words, at(right, places)
    yield from _sizes(pool, page, at, keys)


def _sizes(
    pool: Pool,
    page: Callable[[Integers], Integers],
    at: Callable[[Integers, Integers], Integers],
    keys: int,
) -> Iterator[tuple[str, Integers]]:
    """Yield addresses where pages are taken to have another size."""
    size = pool.k.shape[1]
    own = np.arange(len(pool.table))[:, None] * pool.table.shape[1]
    j = np.arange(keys)[None]
    slot, right = j % size, page(own + j // size)
    for other in sorted({*BLOCKS, 1, 4, size // 2, 2 * size} - {size, 0}):
        index = page(own + j // other)
        yield f"pages are taken to have {other} keys, not {size}", at(index, j % other)
        if other < size:
            yield f"the place in a page is j % {other}, not j % {size}", at(right, j % other)
        yield (
            f"pages are taken to have {other} keys, not {size}, in the table alone",
            at(index, slot),
        )
        yield (
            f"pages are taken to have {other} keys, not {size}, also in their addresses",
            np.where(index < 0, _NOWHERE, index * other + j % other),
        )
    for block_of_keys in BLOCKS:
        if size < block_of_keys:
            first = page(own + j // block_of_keys * block_of_keys // size)
            words = f"the page of the first key of each block of {block_of_keys} is that of all"
            yield words, at(first, slot)
            yield f"{words}, and memory behind it is read", at(first, j % block_of_keys)


def _taken(array: Array, addresses: Integers, lengths: Integers) -> Array:
    """Return tokens of pages as (B, G, T_k, ..); zeros behind the end of a sequence."""
    tokens = array.reshape(-1, *array.shape[2:])
    inside = (addresses >= 0) & (addresses < len(tokens))
    found = np.where(inside[..., None, None], tokens[np.where(inside, addresses, 0)], np.nan)
    exists = np.arange(addresses.shape[1]) < lengths[:, None]
    return np.where(exists[..., None, None], found, 0.0).swapaxes(1, 2)


def _read(bench: Bench, pool: Pool, addresses: Integers, changed: tuple[bool, bool]) -> Array:
    k, v = (
        _taken(array, addresses, pool.lengths) if is_changed else own
        for array, own, is_changed in zip(
            (pool.k, pool.v), (bench.problem.k, bench.problem.v), changed, strict=True
        )
    )
    return bench.read(k=k, v=v)


def _exchanged(bench: Bench, pool: Pool, changed: tuple[bool, bool], *, by_head: bool) -> Array:
    """Return the output where the axes of tokens and heads of pages are taken for each other."""
    count, size, heads = pool.k.shape[:3]
    k, v = (
        array.swapaxes(1, 2).reshape(array.shape)
        if by_head
        else array.reshape(count, heads, size, -1).swapaxes(1, 2)
        for array in (pool.k, pool.v)
    )
    other = Pool(k, v, pool.table, pool.lengths)
    addresses = _right(pool, bench.problem.spec.keys)
    return _read(bench, other, addresses, changed)


def _right(pool: Pool, keys: int) -> Integers:
    """Return the addresses of keys, (B, T_k), also behind the end of a sequence; or nowhere."""
    size, j = pool.k.shape[1], np.arange(keys)
    block = j // size
    inside = block < pool.table.shape[1]
    pages = np.where(inside, pool.table[:, np.minimum(block, pool.table.shape[1] - 1)], _NOWHERE)
    return np.where(pages < 0, _NOWHERE, pages * size + j % size)


def _to(bench: Bench, pool: Pool, end: Integers, *, moves: bool = False) -> Array:
    """Return the output where keys are read up to an end, (B, 1, 1, 1), that need not be theirs."""
    spec = bench.problem.spec
    keys = max(int(end.max()), spec.keys)
    j, lengths = np.arange(keys), pool.lengths
    full = Pool(pool.k, pool.v, np.maximum(pool.table, 0), lengths) if moves else pool
    addresses = _right(full, keys)
    beyond: Booleans = np.asarray((j >= lengths[:, None, None, None]) & (j < end))
    wide = [(0, 0), (0, 0), (0, 0), (0, keys - spec.keys)]
    visible = np.pad(bench.visible, wide)
    causal = spec.mask(Causal)
    if causal is not None:
        diagonal = spec.grid.diagonal(causal.alignment)[:, :, bench.rows]
        if moves and causal.alignment == "bottom-right":
            diagonal = diagonal + (end - lengths[:, None, None, None])
            visible = np.broadcast_to(j < lengths[:, None, None, None], visible.shape)
            visible = visible & (j <= diagonal)
        beyond = beyond & (j <= diagonal)
    visible = (visible & (j < end) if moves else visible) | beyond
    unread = np.asarray(~beyond.any((1, 2)))[:, None, :, None]
    k, v = (
        np.where(np.isnan(array) & unread, 0.0, array)
        for array in (_taken(pages, addresses, lengths * 0 + keys) for pages in (pool.k, pool.v))
    )
    bias = None if bench.bias is None else np.pad(bench.bias, wide)
    scores = bench.scored(raw=grouped(spec, bench.q, k), bias=bias)
    return bench.averaged(scores, visible, np.repeat(v, spec.group, 1))
