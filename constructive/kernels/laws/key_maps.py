"""Laws of places of keys: the value or the key at one place is that of another place.

Single rows say which key they read in place of which; that leaves few maps of places.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from constructive.kernels.laws.evidence import Evidence
from constructive.kernels.laws.sizes import block_sizes
from constructive.kernels.mistakes.bench import Mistakes
from constructive.support.arrays import Array, Booleans, Integers

_NOWHERE = -1  # A place that holds zeros


def key_maps(evidence: Evidence) -> Mistakes:
    """Yield places of keys, values or both that are taken from other places."""
    count = evidence.problem.spec.keys
    maps = list(_maps(count))
    sources = np.stack([source for _, source in maps])
    for what in ("values", "keys", "keys and values"):
        alive = np.arange(len(maps))
        for rows in np.array_split(np.arange(len(evidence.sample)), 6):
            alive = alive[_agrees(evidence, what, sources[alive], rows).all(1)]
            if not len(alive):
                break
        for index in alive:
            words, source = maps[index]
            yield f"{what} at place {words}", partial(_read, evidence, what, source)


def _agrees(evidence: Evidence, what: str, sources: Integers, rows: Integers) -> Booleans:
    """Return whether rows of the sample agree with maps, (S, rows)."""
    found = np.zeros((len(sources), len(rows)), dtype=np.bool_)
    inside = sources != _NOWHERE
    places = np.maximum(sources, 0)
    for index, row in enumerate(rows):
        scores, values = evidence.scores[row], evidence.values[row]
        visible = evidence.visible[row]
        bias = 0.0
        if evidence.bench.bias is not None:
            bias = evidence.of(evidence.bench.bias)[row]
        logits = np.broadcast_to(scores, sources.shape)
        if "keys" in what:
            logits = np.where(inside, (scores - bias)[places], 0.0) + bias
        weights, total = evidence.weighed(logits, visible, evidence.sinks[row, None])
        with np.errstate(all="ignore"):
            shares = weights / total
            if "values" in what:
                moved = np.zeros_like(shares)
                np.add.at(
                    moved, (np.arange(len(sources))[:, None], places), np.where(inside, shares, 0.0)
                )
                shares = moved
            found[:, index] = evidence.is_same(int(row), shares @ values)
    return found


def _maps(count: int) -> Iterator[tuple[str, Integers]]:
    """Yield maps of places, the simple ones first."""
    j = np.arange(count)
    yield "j are in reverse order", count - 1 - j
    for step in range(1, count):
        for word, place in (("j + {}", j + step), ("j - {}", j - step)):
            said = word.format(step)
            yield f"j are those of place {said}, up to the end", np.clip(place, 0, count - 1)
            yield f"j are those of place {said}, around the end", place % count
            yield (
                f"j are those of place {said}, zeros beyond the end",
                np.where((place >= 0) & (place < count), place, _NOWHERE),
            )
    for factor in (2, 3, 4):
        yield f"j are those of place {factor} * j", factor * j % count
        yield f"j are those of place j // {factor}", j // factor
    for size in block_sizes(count - 1):
        block, place, start = j // size, j % size, j // size * size
        said = f" (blocks of {size} keys)"
        last = block == (count - 1) // size
        end = np.minimum(start + size, count) - 1
        before = np.maximum(j - size, place)
        half = start + (place + size // 2) % size
        blocks = -(-count // size)
        found = {
            "j are those of the same place in the first block": place,
            "j are those of the first place of the block": start,
            "j are those of the last place of the block": end,
            "j are those of the block before": before,
            "j of the first block are zeros, others those of the block before":
                np.where(block == 0, _NOWHERE, before),
            "j of every second block are those of the block before":
                np.where(block % 2 == 1, before, j),
            "j of every third block are those of the block before":
                np.where(block % 3 == 2, before, j),
            "j of every second block, the first being one of them, are those of the block after":
                np.where((block % 2 == 0) & ~last, np.minimum(j + size, count - 1), j),
            "j of the last block are those of the block before": np.where(last, before, j),
            "j of the second block are those of the first": np.where(block == 1, place, j),
            "j are those of the next block, the last being its own":
                np.where(last, j, np.minimum(j + size, count - 1)),
            "j of blocks are in reverse order": start + end - j,
            "j of the halves of blocks are exchanged": np.where(half < count, half, _NOWHERE),
            "j of pairs of blocks are exchanged": np.where(
                (block ^ 1) * size + place < count, (block ^ 1) * size + place, j
            ),
            "j are those of blocks in reverse order": np.where(
                (blocks - 1 - block) * size + place < count, (blocks - 1 - block) * size + place, j
            ),
            "j are one further in each block, around its end":
                np.minimum(start + (place + 1) % size, count - 1),
            "j are one before in each block, around its end":
                np.minimum(start + (place - 1) % size, count - 1),
            "j are read as (place in the block, block)":
                np.minimum(place * blocks + block, count - 1),
            "j are read as (block, place in the block), where they are the other way":
                np.minimum(j % blocks * size + j // blocks, count - 1),
            "j of the last block begin so early that it is full":
                np.where(last, np.maximum(j - (blocks * size - count), 0), j),
            "j are those of places of which every block of this size leaves out one":
                np.minimum(j + block, count - 1),
            "j are those of places of which every block of this size has one twice":
                np.maximum(j - block, 0),
        }  # fmt: skip
        for words, source in found.items():
            yield words + said, source


def _read(evidence: Evidence, what: str, source: Integers) -> Array:
    bench = evidence.bench
    inside = source != _NOWHERE
    scores, values = bench.scores, bench.values
    if "keys" in what:
        raw = bench.raw[..., source] * inside
        scores = bench.scored(raw=raw)
    if "values" in what:
        values = values[:, :, source] * inside[:, None]
    return bench.averaged(scores, v=values)
