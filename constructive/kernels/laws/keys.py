"""Laws of keys that are lost: not read, not in the sum, not in the output, or counted twice.

Rows that should read a lost key are wrong, and no others: that leaves few sets of keys.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from constructive.kernels.laws.evidence import Evidence
from constructive.kernels.laws.sizes import block_sizes
from constructive.kernels.laws.words import listed
from constructive.kernels.mistakes.bench import Mistakes
from constructive.support.arrays import Array, Booleans

_MOST = 40  # Sets that are tried on all rows, for each way to lose keys


def keys(evidence: Evidence) -> Mistakes:
    """Yield sets of keys that are lost."""
    count = evidence.problem.spec.keys
    yield from _lost(evidence, dict(sets_of("keys", count, periodic=_is_periodic(evidence))))


def ranges(evidence: Evidence) -> Mistakes:
    """Yield ranges of keys that are lost, whatever blocks there are."""
    j = np.arange(evidence.problem.spec.keys)
    found = {
        f"keys {listed(range(first, end))}": (j >= first) & (j < end)
        for first, end in _intervals(evidence)
    }
    if found:
        yield from _lost(evidence, found)


def _is_periodic(evidence: Evidence) -> bool:
    """Return whether keys that wrong rows should read lie in more than one range."""
    first, end = next(_intervals(evidence), (0, 0))
    weights = evidence.problem.answer.weights
    good = evidence.counted & ~evidence.wrong & (np.count_nonzero(weights, axis=-1) == 1)
    key = weights.argmax(-1)[good]
    return bool(((key > first) & (key < end)).any()) or first == end


def _lost(evidence: Evidence, sets: dict[str, Booleans]) -> Mistakes:
    words, members = list(sets), np.stack(list(sets.values()))
    rows = evidence.counted
    wanted = evidence.winners[rows]
    wrong = evidence.wrong[rows]
    count = wanted.astype(np.float32) @ members.T.astype(np.float32)  # (rows, sets)
    total = wanted.sum(-1, keepdims=True)
    some, every = count > 0, count == total
    single = total[:, 0] == 1
    # In one set or the other: what is lost from a sum alone changes no row that has lost nothing.
    lost = (some == wrong[:, None]).all(0)
    only = (some | ~wrong[:, None]).all(0)
    twice = only & ((~some | every) | wrong[:, None]).all(0) & bool(~single[wrong].any())
    for index in np.flatnonzero(lost)[:_MOST]:
        kept = ~members[index]
        yield f"{words[index]} are not read", partial(_unread, evidence, kept)
        yield (
            f"{words[index]} are in the sum of weights, not in the output",
            partial(_without_values, evidence, kept),
        )
        yield (
            f"{words[index]} are in the output, not in the sum of weights",
            partial(_without_weights, evidence, kept),
        )
    for index in np.flatnonzero(twice)[:_MOST]:
        for number in (2.0, 0.5):
            often = "twice" if number > 1.0 else "half"
            yield (
                f"{words[index]} count {often}",
                partial(_counted, evidence, members[index], number),
            )
            yield (
                f"{words[index]} count {often} in the sum of weights alone",
                partial(_summed, evidence, members[index], number),
            )


def sets_of(what: str, count: int, *, periodic: bool = True) -> Iterator[tuple[str, Booleans]]:
    """Yield sets of numbers that blocks lead to, each once, with the sizes in its words."""
    j = np.arange(count)
    found: dict[bytes, tuple[str, list[int], Booleans]] = {}

    def add(words: str, size: int, members: Booleans) -> None:
        if members.any() and not members.all():
            found.setdefault(members.tobytes(), (words, [], members))[1].append(size)

    for size in block_sizes(count - 1)[::-1]:
        add(f"{what} in the last block", size, j >= (count - 1) // size * size)
        add(f"{what} in the first block", size, j < size)
        add(f"{what} in all blocks but the first", size, j >= size)
    for size in block_sizes(count // 2 + 1)[::-1]:
        for block in range(1, (count - 1) // size):
            add(f"{what} in block {block}", size, j // size == block)
        for remainder, which in ((1, "second"), (0, "first and then every second")):
            add(f"{what} in the {which} block", size, j // size % 2 == remainder)
        for place in range(size) if periodic else ():
            add(f"{what} at place {place} of each block", size, j % size == place)
            add(f"{what} from place {place} on in each block", size, j % size >= place)
            add(f"{what} before place {place} in each block", size, j % size < place)
    for words, sizes, members in found.values():
        yield f"{words} ({_of_sizes(sizes)}: {listed(np.flatnonzero(members))})", members


def _of_sizes(sizes: list[int]) -> str:
    shown = sorted(set(sizes), reverse=True)[:4]
    return "blocks of " + " or ".join(map(str, shown))


def _intervals(evidence: Evidence) -> Iterator[tuple[int, int]]:
    """Yield the smallest and largest interval that holds all keys that wrong rows should read."""
    weights = evidence.problem.answer.weights
    single = evidence.counted & (np.count_nonzero(weights, axis=-1) == 1)
    key = weights.argmax(-1)
    bad, good = np.unique(key[single & evidence.wrong]), np.unique(key[single & ~evidence.wrong])
    if len(bad):
        first, end = int(bad[0]), int(bad[-1]) + 1
        before, after = good[good < first], good[good >= end]
        yield first, end
        yield (
            int(before[-1]) + 1 if len(before) else 0,
            int(after[0]) if len(after) else evidence.problem.spec.keys,
        )


def _unread(evidence: Evidence, kept: Booleans) -> Array:
    return evidence.bench.averaged(visible=evidence.bench.visible & kept)


def _without_values(evidence: Evidence, kept: Booleans) -> Array:
    return evidence.bench.averaged(v=evidence.bench.values * kept[:, None])


def _without_weights(evidence: Evidence, kept: Booleans) -> Array:
    return _summed(evidence, ~kept, 0.0)


def _counted(evidence: Evidence, members: Booleans, number: float) -> Array:
    bench = evidence.bench
    return bench.averaged(bench.scores + np.log(np.where(members, number, 1.0)))


def _summed(evidence: Evidence, members: Booleans, number: float) -> Array:
    """Return the output where some keys count otherwise in the sum of weights."""
    bench = evidence.bench
    weights, total = bench.weighed()
    more = (weights * members).sum(-1, keepdims=True) * (number - 1.0)
    with np.errstate(all="ignore"):
        found: Array = weights @ bench.values / (total + more)
    return found
