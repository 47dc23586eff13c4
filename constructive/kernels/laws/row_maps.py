"""Which other row a kernel may take something from: maps of rows, for blocks of every size.

A map is a sentence and a function of rows, which returns the numbers of their sources; -1 is
outside of all rows.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

import numpy as np

from constructive.kernels.laws.sizes import block_sizes
from constructive.kernels.spec import Spec
from constructive.support.arrays import Booleans, Integers

Places = tuple[Integers, Integers, Integers]  # Sequence, head and query of rows, (N,) each
Source = Callable[[Places], Integers]  # Numbers of the rows from which rows take something, (N,)
_Moved = Callable[[Integers, Integers, Integers], Places]
_Maps = Iterator[tuple[str, _Moved]]


def row_maps(spec: Spec) -> Iterator[tuple[str, Source]]:
    """Yield maps of rows, the simple ones first."""
    kinds = _queries, _heads, _sequences, _packed, _blocks, _packed_blocks
    for words, moved in chain.from_iterable(kind(spec) for kind in kinds):
        yield words, partial(_numbers, spec, moved)


def _numbers(spec: Spec, moved: _Moved, places: Places) -> Integers:
    b, h, i = moved(*places)
    (heads, _), queries = spec.heads, spec.queries
    inside = (b >= 0) & (b < spec.batch) & (h >= 0) & (h < heads) & (i >= 0) & (i < queries)
    return np.where(inside, (b * heads + h) * queries + i, -1)


def _queries(spec: Spec) -> _Maps:
    """Yield maps to other queries of the same head, without blocks."""
    last = spec.lengths[0] - 1

    def near(step: int) -> _Moved:
        return lambda b, h, i: (b, h, np.clip(i + step, 0, last[b]))

    def around(step: int) -> _Moved:
        return lambda b, h, i: (b, h, (i + step) % (last[b] + 1))

    def scaled(factor: int) -> dict[str, _Moved]:
        return {
            f"query i // {factor}": lambda b, h, i: (b, h, i // factor),
            f"query i * {factor}": lambda b, h, i: (b, h, np.minimum(i * factor, last[b])),
            f"query i % {factor}": lambda b, h, i: (b, h, i % factor),
        }

    yield "the first query", lambda b, h, i: (b, h, 0 * i)
    yield "the last query", lambda b, h, _: (b, h, last[b])
    yield "the queries in reverse order", lambda b, h, i: (b, h, last[b] - i)
    for step in range(1, spec.queries):
        for side, signed in (("after", step), ("before", -step)):
            words = f"the query {step} {side} it" if step > 1 else f"the query {side} it"
            yield words, near(signed)
            yield f"{words}, around the end", around(signed)
    for factor in sorted({2, spec.group, spec.heads[1], spec.heads[0]} - {1}):
        yield from scaled(factor).items()


def _heads(spec: Spec) -> _Maps:
    """Yield maps to other heads of the same query."""
    (heads, kv), group, batch = spec.heads, spec.group, spec.batch
    found: dict[str, _Moved] = {
        "head 0": lambda b, h, i: (b, 0 * h, i),
        "the last head": lambda b, h, i: (b, 0 * h + heads - 1, i),
        "the next head": lambda b, h, i: (b, (h + 1) % heads, i),
        "the head before": lambda b, h, i: (b, (h - 1) % heads, i),
        "the heads in reverse order": lambda b, h, i: (b, heads - 1 - h, i),
        "the first head of its group": lambda b, h, i: (b, h // group * group, i),
        "the last head of its group": lambda b, h, i: (b, h // group * group + group - 1, i),
        "the heads of its group in reverse order":
            lambda b, h, i: (b, h // group * group + group - 1 - h % group, i),
        "the next head of its group":
            lambda b, h, i: (b, h // group * group + (h + 1) % group, i),
        "the head before in its group":
            lambda b, h, i: (b, h // group * group + (h - 1) % group, i),
        "the head with the number of its KV head": lambda b, h, i: (b, h // group, i),
        "head h % kv_heads": lambda b, h, i: (b, h % kv, i),
        "head h % group": lambda b, h, i: (b, h % group, i),
        "head (h % kv_heads) * group + h // kv_heads":
            lambda b, h, i: (b, h % kv * group + h // kv, i),
        "head (h % group) * kv_heads + h // group":
            lambda b, h, i: (b, h % group * kv + h // group, i),
        "head i % heads": lambda b, _, i: (b, i % heads, i),
        "head (b * heads + h) // batch": lambda b, h, i: (b, (b * heads + h) // batch, i),
        "head b": lambda b, _, i: (b, b, i),
    }  # fmt: skip
    yield from found.items()


def _sequences(spec: Spec) -> _Maps:
    batch, heads = spec.batch, spec.heads[0]
    found: dict[str, _Moved] = {
        "sequence 0": lambda b, h, i: (0 * b, h, i),
        "the last sequence": lambda b, h, i: (0 * b + batch - 1, h, i),
        "the next sequence": lambda b, h, i: ((b + 1) % batch, h, i),
        "the next sequence, the last being its own":
            lambda b, h, i: (np.minimum(b + 1, batch - 1), h, i),
        "the sequence before": lambda b, h, i: ((b - 1) % batch, h, i),
        "the sequence before, the first being its own":
            lambda b, h, i: (np.maximum(b - 1, 0), h, i),
        "the sequences in reverse order": lambda b, h, i: (batch - 1 - b, h, i),
        "sequence h % batch": lambda _, h, i: (h % batch, h, i),
        "sequence i % batch": lambda _, h, i: (i % batch, h, i),
        "the place (b, h) whose number is read as (h, b)":
            lambda b, h, i: ((b * heads + h) % batch, (b * heads + h) // batch, i),
        "the place (h, b) whose number is read as (b, h)":
            lambda b, h, i: (*np.divmod(h * batch + b, heads), i),
    }  # fmt: skip
    yield from found.items()


def _packed(spec: Spec) -> _Maps:
    """Yield maps of rows that are a head and a query, in one order or the other."""
    queries = spec.queries

    def beside(size: int, step: int) -> _Moved:
        def moved(b: Integers, h: Integers, i: Integers) -> Places:
            row = i * size + h % size + step
            return b, h // size * size + row % size, row // size

        return moved

    def read_by_head(size: int) -> _Moved:
        def moved(b: Integers, h: Integers, i: Integers) -> Places:
            row = i * size + h % size
            return b, h // size * size + row // queries, row % queries

        return moved

    def read_by_query(size: int) -> _Moved:
        def moved(b: Integers, h: Integers, i: Integers) -> Places:
            row = h % size * queries + i
            return b, h // size * size + row % size, row // size

        return moved

    sizes = {spec.heads[0]: "sequence", spec.group: "group"}
    for size in sorted(sizes):
        what = sizes[size]
        if size > 1:
            yield (
                f"the row (query, head) of its {what} that is read as (head, query)",
                read_by_head(size),
            )
            yield (
                f"the row (head, query) of its {what} that is read as (query, head)",
                read_by_query(size),
            )
            yield f"the row after it among (query, head) of its {what}", beside(size, 1)
            yield f"the row before it among (query, head) of its {what}", beside(size, -1)


def _blocks(spec: Spec) -> _Maps:
    """Yield maps to the first or last query of blocks, the block before, and the first one."""
    last = spec.lengths[0] - 1

    def of_size(size: int) -> dict[str, _Moved]:
        def end(b: Integers, i: Integers) -> Integers:
            found: Integers = np.minimum(i // size * size + size - 1, last[b])
            return found

        return {
            "first query of its block": lambda b, h, i: (b, h, i // size * size),
            "last query of its block": lambda b, h, i: (b, h, end(b, i)),
            "query at its place in the first block": lambda b, h, i: (b, h, i % size),
            "query at its place in the block before":
                lambda b, h, i: (b, h, np.where(i < size, i, i - size)),
            "query of its block in reverse order":
                lambda b, h, i: (b, h, i // size * size + end(b, i) - i),
            "query at its place in the next block":
                lambda b, h, i: (b, h, np.where(i + size > last[b], i, i + size)),
        }  # fmt: skip

    for size in block_sizes(spec.queries - 1):
        for words, moved in of_size(size).items():
            yield f"the {words} (blocks of {size} queries)", moved


def _packed_blocks(spec: Spec) -> _Maps:
    """Yield maps to the first or last row of blocks of rows of a group, in both orders."""
    last, group = spec.lengths[0] - 1, spec.group

    def by_query(size: int, step: int) -> _Moved:
        def moved(b: Integers, h: Integers, i: Integers) -> Places:
            row, most = i * group + h % group, (last[b] + 1) * group - 1
            row = np.minimum(row // size * size + step, most)
            return b, h // group * group + row % group, row // group

        return moved

    def by_head(size: int, step: int) -> _Moved:
        def moved(b: Integers, h: Integers, i: Integers) -> Places:
            queries = last[b] + 1
            row, most = h % group * queries + i, queries * group - 1
            row = np.minimum(row // size * size + step, most)
            return b, h // group * group + row // queries, row % queries

        return moved

    orders = {
        "the heads of a group one after the other for each query": by_query,
        "the queries of a head one after the other, then the next head of the group": by_head,
    }
    for size in block_sizes(group * spec.queries - 1) if group > 1 else ():
        for place, step in (("first", 0), ("last", size - 1)):
            for words, order in orders.items():
                yield (
                    f"the {place} row of its block (blocks of {size} rows, {words})",
                    order(size, step),
                )


def of_places(agrees: Booleans, place: Integers, count: int) -> Booleans:
    """Return whether all rows of each place agree, (count, ..); rows (R, ..) have places (R,)."""
    return np.stack([agrees[place == number].all(0) for number in range(count)])


def explicit(
    allowed: Booleans, own: Integers, *, most: int = 8
) -> tuple[Integers, list[tuple[int, int]]] | None:
    """Return a map that a table leaves, and where it is not the identity; None if there is none.

    A number that may keep its own place keeps it.
    """
    if not allowed.any(1).all():
        return None
    index = np.arange(len(own))
    found = np.where(allowed[index, own], own, allowed.argmax(1))
    changed = [(int(n), int(found[n])) for n in index if found[n] != own[n]]
    if not changed or len(changed) > most:
        return None
    return found, changed
