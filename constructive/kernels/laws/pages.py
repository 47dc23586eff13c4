"""Laws of paged caches: which page of memory, and which place of it, a kernel reads."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from constructive.kernels.laws.evidence import Evidence
from constructive.kernels.laws.sizes import block_sizes
from constructive.kernels.mistakes.bench import PARTS, Mistakes
from constructive.kernels.paged import Pool
from constructive.kernels.same import same_rows
from constructive.support.arrays import Array, Integers

_MOST_CHANGES = 2  # Single entries of a table that are inferred; more would explain anything
_SHOWN = 3


# Sentences, each with a function that returns places in memory, (B, T_k).
Addresses = Iterator[tuple[str, Callable[[], Integers]]]


@dataclass(frozen=True, eq=False)
class Cache:
    """Pages, and what a kernel reads that finds its keys elsewhere."""

    evidence: Evidence  # the output
    pool: Pool  # the pages
    nowhere: int = 0  # the page that an entry of no page leads to, 0 or -1, the last one in memory

    @property
    def size(self) -> int:
        """Keys of a page."""
        return int(self.pool.k.shape[1])

    @cached_property
    def table(self) -> Integers:
        """Pages, (B, W), also where there is none."""
        count = self.pool.k.shape[0]
        return np.where(self.pool.table < 0, self.nowhere % count, self.pool.table)

    @cached_property
    def places(self) -> tuple[Integers, Integers]:
        """Sequences (B, 1) and keys (1, T_k)."""
        spec = self.evidence.problem.spec
        return np.arange(spec.batch)[:, None], np.arange(spec.keys)[None]

    @cached_property
    def exists(self) -> np.ndarray:
        """Keys that there are, (B, T_k)."""
        return self.places[1] < self.pool.lengths[:, None]

    def own(self) -> Integers:
        """Return the right addresses, (B, T_k)."""
        b, j = self.places
        return self.at(b, j // self.size, j % self.size)

    def at(self, row: Integers, entry: Integers, place: Integers) -> Integers:
        """Return addresses in memory, counted in tokens; those outside are clipped."""
        flat = self.table.ravel()
        index = np.clip(row * self.table.shape[1] + entry, 0, len(flat) - 1)
        most = self.pool.k.shape[0] * self.size - 1
        found: Integers = np.clip(flat[index] * self.size + place, 0, most)
        return found

    def made(self, addresses: Integers, changed: tuple[bool, bool]) -> Array:
        """Return the output of keys and values at addresses, (B, H, T_q, d_v)."""
        problem, bench = self.evidence.problem, self.evidence.bench
        arrays = []
        for pages, own, is_changed in zip(
            (self.pool.k, self.pool.v), (problem.k, problem.v), changed, strict=True
        ):
            tokens = pages.reshape(-1, *pages.shape[2:])[addresses].swapaxes(1, 2)
            there = np.where(self.exists[:, None, :, None], tokens, own)
            arrays.append(there if is_changed else own)
        with np.errstate(all="ignore"):
            return bench.read(k=arrays[0], v=arrays[1])

    def right(self, out: Array) -> np.ndarray:
        """Return which rows an output explains, (B, H, T_q)."""
        with np.errstate(all="ignore"):
            same, _ = same_rows(self.evidence.out, out, self.evidence.problem.spec.output)
        return np.asarray(same | ~self.evidence.counted)


Rules = Callable[[Cache], Addresses]


def pages(evidence: Evidence) -> Mistakes:
    """Yield places of pages by other rules, for every size and step."""
    if not isinstance(evidence.memory, Pool):
        return
    yield from _elsewhere(evidence, evidence.memory, _rules)


def _elsewhere(evidence: Evidence, pool: Pool, rules: Rules) -> Mistakes:
    """Yield what is read by rules, with entries of no page that lead to the first or last one."""
    tried: set[bytes] = set()
    for nowhere, said in ((0, ""), (-1, " (an entry of no page is taken as the last page)")):
        cache = Cache(evidence, pool, nowhere)
        own = cache.own()
        for words, made in rules(cache):
            addresses = np.where(cache.exists, made(), own)
            if addresses.tobytes() not in tried and (addresses != own).any():
                tried.add(addresses.tobytes())
                for what, changed in PARTS.items():
                    yield f"{what} of pages: {words}{said}", partial(cache.made, addresses, changed)


def _rules(cache: Cache) -> Addresses:
    """Yield addresses by rules with one free number."""
    b, j = cache.places
    size, batch, width = cache.size, *cache.table.shape
    entry, place = j // size, j % size
    for step in range(1, size):
        yield (
            f"the place in a page is (j + {step}) % {size}",
            lambda step=step: cache.at(b, entry, (place + step) % size),  # type: ignore[misc]
        )
    for other in block_sizes(max(2 * size, size + 1)):
        if other != size:
            yield (
                f"the place in a page is j % {other}, not j % {size}",
                lambda other=other: cache.at(b, entry, j % other),  # type: ignore[misc]
            )
            yield (
                f"the page is that of entry j // {other}, not j // {size}",
                lambda other=other: cache.at(b, j // other, place),  # type: ignore[misc]
            )
            yield (
                f"pages have {other} keys, not {size}",
                lambda other=other: cache.at(b, j // other, j % other),  # type: ignore[misc]
            )
    for step in range(1, size):
        yield (
            f"the page is that of key j + {step}",
            lambda step=step: cache.at(b, (j + step) // size, place),  # type: ignore[misc]
        )
        yield (
            f"the page is that of key j - {step}",
            lambda step=step: cache.at(b, np.maximum(j - step, 0) // size, place),  # type: ignore[misc]
        )
    yield "places in a page are in reverse order", lambda: cache.at(b, entry, size - 1 - place)
    for stride in range(2 * width + 1):
        yield (
            f"a row of the table begins {stride} entries after the one before, not {width}",
            lambda stride=stride: cache.at(0 * b, b * stride + entry, place),  # type: ignore[misc]
        )
    for step in range(1, batch * width):
        for sign, word in ((1, "after"), (-1, "before")):
            yield (
                f"entries of the table are those {step} {word} them",
                lambda step=step * sign: cache.at(b, entry + step, place),  # type: ignore[misc]
            )
    for other in range(batch):
        yield (
            f"the row of the table is that of sequence {other}",
            lambda other=other: cache.at(0 * b + other, entry, place),  # type: ignore[misc]
        )
    yield "the table is read as (page, sequence)", lambda: cache.at(0 * b, entry * batch + b, place)
    pages_in_all = cache.pool.k.shape[0]
    for step in range(1, pages_in_all):
        yield (
            f"pages are those {step} further on in memory, around its end",
            lambda step=step: (cache.own() + step * size) % (pages_in_all * size),  # type: ignore[misc]
        )


def chosen(evidence: Evidence) -> Mistakes:
    """Yield entries of the table, such as every second one, that are read as other ones."""
    if not isinstance(evidence.memory, Pool):
        return
    yield from _elsewhere(evidence, evidence.memory, _chosen)


def _chosen(cache: Cache) -> Addresses:
    """Yield addresses where some entries are read as others."""
    b, j = cache.places
    batch, entry, place = len(cache.table), j // cache.size, j % cache.size
    last = -(-cache.pool.lengths // cache.size)[:, None] - 1
    which = {
        "entries with an odd number": entry % 2 == 1,
        "entries with an even number": entry % 2 == 0,
        "entries with an even number, but for the first,": (entry % 2 == 0) & (entry > 0),
        "the first entry of a sequence": entry == 0,
        "all entries but the first": entry > 0,
        "the last entry of a sequence": entry == last,
        "the last entry of a sequence, if its page is not full,":
            (entry == last) & (cache.pool.lengths % cache.size > 0)[:, None],
        "all entries but the last": entry < last,
        "entries of sequences with an odd number": b % 2 == 1,
        "entries of all sequences but the first": b > 0,
        "entries of the last sequence": b == batch - 1,
        "entries of the second half of a sequence": 2 * entry > last,
    }  # fmt: skip
    which |= {f"entry {number}": entry == number for number in range(1, int(last.max()) + 1)}
    where = {
        "those of the next sequence": ((b + 1) % batch, entry),
        "those of the sequence before": ((b - 1) % batch, entry),
        "those of sequence 0": (0 * b, entry),
        "the next entry": (b, np.minimum(entry + 1, last)),
        "the entry before": (b, np.maximum(entry - 1, 0)),
        "the entry two before": (b, np.maximum(entry - 2, 0)),
        "the first entry": (b, 0 * entry),
        "the last entry": (b, last + 0 * entry),
        "entry p // 2": (b, entry // 2),
        "entries in reverse order": (b, last - entry),
    }
    own = cache.own()
    for name, members in which.items():
        for other, (row, column) in where.items():
            yield (
                f"{name} of the table are read as {other}",
                lambda members=members, row=row, column=column: np.where(  # type: ignore[misc]
                    members, cache.at(row, np.maximum(column, 0), place), own
                ),
            )


def entries(evidence: Evidence) -> Mistakes:
    """Yield the pages that are read in place of single entries of the table, one by one."""
    if not isinstance(evidence.memory, Pool):
        return
    cache = Cache(evidence, evidence.memory)
    for what, changed in PARTS.items():
        moved = _moved(cache, changed)
        if moved:
            yield (
                f"{what} of pages: {_described(cache, moved)}",
                partial(cache.made, _with(cache, moved), changed),
            )


def _with(cache: Cache, moved: dict[tuple[int, int], int]) -> Integers:
    addresses, size = cache.own().copy(), cache.size
    for (sequence, entry), page in moved.items():
        keys = np.arange(entry * size, min((entry + 1) * size, addresses.shape[1]))
        addresses[sequence, keys] = page * size + keys % size
    return addresses


def _moved(cache: Cache, changed: tuple[bool, bool]) -> dict[tuple[int, int], int]:
    """Return pages of entries, found one at a time: the page with which most rows are explained."""
    count = cache.pool.k.shape[0]
    counts = -(-cache.pool.lengths // cache.size)
    found: dict[tuple[int, int], int] = {}
    explained = cache.right(cache.made(_with(cache, found), changed))
    while not explained.all() and len(found) < _MOST_CHANGES:
        best: tuple[int, tuple[int, int], int] | None = None
        for sequence in np.flatnonzero(~explained.all((1, 2))):
            for entry in range(counts[sequence]):
                for page in range(count):
                    trial = found | {(int(sequence), entry): page}
                    right = cache.right(cache.made(_with(cache, trial), changed))
                    gain = int(right.sum()) - int(explained.sum())
                    if gain > 0 and (best is None or gain > best[0]):
                        best = gain, (int(sequence), entry), page
        if best is None:
            return {}
        found[best[1]] = best[2]
        explained = cache.right(cache.made(_with(cache, found), changed))
    return found if explained.all() else {}


def _described(cache: Cache, moved: dict[tuple[int, int], int]) -> str:
    """Return entries and what is read in their place, or what they have in common."""
    table = cache.pool.table
    owners = {
        int(table[sequence, entry]): (sequence, entry)
        for sequence in range(len(table))
        for entry in range(table.shape[1])
        if table[sequence, entry] >= 0
    }
    parts = []
    for (sequence, entry), page in list(moved.items())[:_SHOWN]:
        owner = owners.get(page)
        other = (
            f"memory page {page}, which is of no sequence"
            if owner is None
            else f"entry {owner[1]} of sequence {owner[0]}"
        )
        parts.append(f"entry {entry} of sequence {sequence} is read as {other}")
    return ", ".join(parts) + (", .." if len(moved) > _SHOWN else "")
