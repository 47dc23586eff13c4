"""Which other row a kernel may take something from: maps of rows, for blocks of every size.

A map is a sentence and, for each row, the number of its source; -1 is outside of all rows.
"""

from collections.abc import Iterator

import numpy as np

from constructive.kernels.laws.sizes import block_sizes
from constructive.kernels.spec import Spec
from constructive.support.arrays import Booleans, Integers

Places = tuple[Integers, Integers, Integers]
Maps = Iterator[tuple[str, Integers]]


def row_maps(spec: Spec, places: Places) -> Maps:
    """Yield maps of rows, the simple ones first."""
    yield from query_maps(spec, places)
    yield from head_maps(spec, places)
    yield from _sequences(spec, places)
    yield from _packed(spec, places)
    yield from _blocks(spec, places)


def _number(spec: Spec, b: Integers, h: Integers, i: Integers) -> Integers:
    (heads, _), queries = spec.heads, spec.queries
    inside = (b >= 0) & (b < spec.batch) & (h >= 0) & (h < heads) & (i >= 0) & (i < queries)
    return np.where(inside, (b * heads + h) * queries + i, -1)


def query_maps(spec: Spec, places: Places) -> Maps:
    """Yield maps to other queries of the same head, without blocks."""
    b, h, i = places
    last = spec.lengths[0][b] - 1
    for words, query in (
        ("the first query", 0 * i),
        ("the last query", last),
        ("the queries in reverse order", last - i),
    ):
        yield words, _number(spec, b, h, query)
    for step in range(1, spec.queries):
        for side, query in (("after", i + step), ("before", i - step)):
            words = f"the query {step} {side} it" if step > 1 else f"the query {side} it"
            yield words, _number(spec, b, h, np.clip(query, 0, last))
            yield f"{words}, around the end", _number(spec, b, h, query % (last + 1))
    for factor in sorted({2, spec.group, spec.heads[1], spec.heads[0]} - {1}):
        yield f"query i // {factor}", _number(spec, b, h, i // factor)
        yield f"query i * {factor}", _number(spec, b, h, np.minimum(i * factor, last))
        yield f"query i % {factor}", _number(spec, b, h, i % factor)


def head_maps(spec: Spec, places: Places) -> Maps:
    """Yield maps to other heads of the same query."""
    b, h, i = places
    (heads, kv), group = spec.heads, spec.group
    found = {
        "head 0": 0 * h,
        "the last head": 0 * h + heads - 1,
        "the next head": (h + 1) % heads,
        "the head before": (h - 1) % heads,
        "the heads in reverse order": heads - 1 - h,
        "the first head of its group": h // group * group,
        "the last head of its group": h // group * group + group - 1,
        "the heads of its group in reverse order": h // group * group + group - 1 - h % group,
        "the next head of its group": h // group * group + (h + 1) % group,
        "the head before in its group": h // group * group + (h - 1) % group,
        "the head with the number of its KV head": h // group,
        "head h % kv_heads": h % kv,
        "head h % group": h % group,
        "head (h % kv_heads) * group + h // kv_heads": h % kv * group + h // kv,
        "head (h % group) * kv_heads + h // group": h % group * kv + h // group,
        "head i % heads": i % heads,
        "head (b * heads + h) // batch": (b * heads + h) // spec.batch,
        "head b": b + 0 * h,
    }
    for words, head in found.items():
        yield words, _number(spec, b, head, i)


def _sequences(spec: Spec, places: Places) -> Maps:
    b, h, i = places
    batch, heads = spec.batch, spec.heads[0]
    program = b * heads + h
    found = {
        "sequence 0": (0 * b, h),
        "the last sequence": (0 * b + batch - 1, h),
        "the next sequence": ((b + 1) % batch, h),
        "the next sequence, the last being its own": (np.minimum(b + 1, batch - 1), h),
        "the sequence before": ((b - 1) % batch, h),
        "the sequence before, the first being its own": (np.maximum(b - 1, 0), h),
        "the sequences in reverse order": (batch - 1 - b, h),
        "sequence h % batch": (h % batch, h),
        "sequence i % batch": (i % batch, h),
        "the place (b, h) whose number is read as (h, b)": (program % batch, program // batch),
        "the place (h, b) whose number is read as (b, h)": np.divmod(h * batch + b, heads),
    }
    for words, (sequence, head) in found.items():
        yield words, _number(spec, sequence, head, i)


def _packed(spec: Spec, places: Places) -> Maps:
    """Yield maps of rows that are a head and a query, in one order or the other."""
    b, h, i = places
    queries = spec.queries
    for what, size in (("group", spec.group), ("sequence", spec.heads[0])):
        if size == 1:
            continue
        first, member = h // size * size, h % size
        if what == "sequence" and size == spec.group:
            continue
        for words, row, split in (
            (f"the row (query, head) of its {what} that is read as (head, query)",
             i * size + member, False),
            (f"the row (head, query) of its {what} that is read as (query, head)",
             member * queries + i, True),
        ):  # fmt: skip
            other = (row % size, row // size) if split else (row // queries, row % queries)
            yield words, _number(spec, b, first + other[0], other[1])
        for step in (1, -1):
            row = i * size + member + step
            side = "after" if step > 0 else "before"
            yield (
                f"the row {side} it among (query, head) of its {what}",
                _number(spec, b, first + row % size, row // size),
            )


def _blocks(spec: Spec, places: Places) -> Maps:
    """Yield maps to the first or last row of blocks, the block before, and the first one."""
    b, h, i = places
    last = spec.lengths[0][b] - 1
    for size in block_sizes(spec.queries):
        start = i // size * size
        end = np.minimum(start + size - 1, last)
        for words, query in (
            ("the first query of its block", start),
            ("the last query of its block", end),
            ("the query at its place in the first block", i % size),
            ("the query at its place in the block before", np.where(i < size, i, i - size)),
            ("the query of its block in reverse order", start + end - i),
            ("the query at its place in the next block", np.where(i + size > last, i, i + size)),
        ):
            if size < spec.queries:
                yield f"{words} (blocks of {size} queries)", _number(spec, b, h, query)
    size_of_group = spec.group
    if size_of_group > 1:
        first, member = h // size_of_group * size_of_group, h % size_of_group
        row, most = i * size_of_group + member, (last + 1) * size_of_group - 1
        turned = member * (last + 1) + i
        for size in block_sizes(size_of_group * spec.queries - 1):
            for place in ("first", "last"):
                start = row // size * size
                other = start if place == "first" else np.minimum(start + size - 1, most)
                yield (
                    f"the {place} row of its block (blocks of {size} rows, the heads of a group "
                    "one after the other for each query)",
                    _number(spec, b, first + other % size_of_group, other // size_of_group),
                )
                start = turned // size * size
                other = start if place == "first" else np.minimum(start + size - 1, most)
                yield (
                    f"the {place} row of its block (blocks of {size} rows, the queries of a head "
                    "one after the other, then the next head of the group)",
                    _number(spec, b, first + other // (last + 1), other % (last + 1)),
                )


def of_places(agrees: Booleans, place: Integers, count: int) -> Booleans:
    """Return whether all rows of each place agree, (count, ..); rows (R, ..) have places (R,)."""
    return np.stack([agrees[place == number].all(0) for number in range(count)])


def explicit(
    allowed: Booleans, own: Integers, *, most: int = 8
) -> tuple[Integers, list[tuple[int, int]]] | None:
    """Return a map that a table leaves, and where it is not the identity; None if there is none.

    A number that may keep its own place keeps it.

    Args:
        allowed: (n, m) whether n may be m
        own: (n,) the right places
        most: places that may differ
    """
    if not allowed.any(1).all():
        return None
    index = np.arange(len(own))
    found = np.where(allowed[index, own], own, allowed.argmax(1))
    changed = [(int(n), int(found[n])) for n in index if found[n] != own[n]]
    if not changed or len(changed) > most:
        return None
    return found, changed
