"""A table of integers in a narrow ReLU network: f(z) = table.get(z, 0), for every 0 <= z < Q.

Sort the keys and cut them into blocks. The labels of a block, and the gaps between its keys, are
the digits of one long integer T, its *code word*. The network finds the code word of the block of
z, by one comparison a block, and then reads it bit by bit: after the label and the gap of each
entry it compares z with the key, and adds the label where they agree. So M keys need about
sqrt(M) blocks of sqrt(M) keys, and as many weights; what grows is the length of the code words.

*Lemma (exactness).* Every register is a non-negative integer for every integer 0 <= z < Q, and at
integers r the ramp relu(r - t + 1) - relu(r - t) is 1 where r >= t, else 0. So T and D are those
of the last block whose first key is at most z (of the first one, if there is none); peeling T at
2^(B-1), 2^(B-2), ... gives its binary digits; D - Q = z - key for each key in turn; and
relu(l - 2^c |D - Q|) is l if D = Q, and 0 otherwise, since l < 2^c. Keys are distinct, so at most
one entry adds its label. QED

Source: bit extraction and groups of sqrt(M) keys are from Vardi, Yehudai and Shamir (ICLR 2022);
gaps in place of keys, and 0 off the keys, are ours.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from constructive.contextual.gadgets import Comparison, where_at_least
from constructive.contextual.network import Affine, Number, Program, Step
from constructive.errors import ParameterError

Layout = Literal["deep", "wide"]

_LARGEST_DOMAIN = 1 << 62
_BLOCK, _BIT, _ENTRY = 11, 16, 18
"""Non-zero weights for a block, for a bit and for an entry, of the deep layout."""


@dataclass(frozen=True)
class Blocks:
    """Keys in order, cut into blocks, and the bits of labels and gaps.

    keys, labels: for each block;  entries: k, of the longest block;  label_bits, gap_bits: c and
    gamma;  domain: Q
    """

    keys: tuple[tuple[int, ...], ...]
    labels: tuple[tuple[int, ...], ...]
    entries: int
    label_bits: int
    gap_bits: int
    domain: int

    @property
    def word_bits(self) -> int:
        """B = k c + (k - 1) gamma, the length of a code word."""
        return self.entries * self.label_bits + (self.entries - 1) * self.gap_bits

    def words(self) -> list[int]:
        """The code word of each block: label, then gap and label of each further entry."""
        found = []
        for keys, labels in zip(self.keys, self.labels, strict=True):
            word = labels[0]
            for before, key, label in zip(keys, keys[1:], labels[1:], strict=False):
                word = (word << self.label_bits) | label
                word = (word << self.gap_bits) | (key - before)
            missing = self.entries - len(keys)
            found.append(word << (missing * (self.label_bits + self.gap_bits)))
        return found


def plan(table: Mapping[int, int], domain: int, *, max_word_bits: int | None = None) -> Blocks:
    """Cut the keys into blocks such that the weights of the deep layout are the fewest.

    Raises ParameterError for no keys, keys outside of the domain, and negative labels.

    >>> plan(dict.fromkeys(range(10, 26), 1), domain=64).keys[:3]
    ((10, 11), (12, 13), (14, 15))
    """
    if not table or not 0 <= min(table) <= max(table) < domain <= _LARGEST_DOMAIN:
        raise ParameterError(
            f"{len(table)} keys are none below domain={domain!r}, or none at all",
            witness=max(table, default=None),
            suggestion=f"keys from 0 to domain - 1, below {_LARGEST_DOMAIN}",
        )
    if min(table.values()) < 0:
        raise ParameterError(
            f"the label {min(table.values())} is negative",
            witness=min(table.values()),
            suggestion="labels less the smallest one",
        )
    keys = np.array(sorted(table), dtype=np.int64)
    gaps = np.diff(keys)
    label_bits = max(max(table.values()).bit_length(), 1)
    longest = 4 * int(np.sqrt(len(keys))) + 1
    best: tuple[int, int, int] | None = None
    for gap_bits in range(1, max(int(gaps.max(initial=1)).bit_length(), 1) + 1):
        ends = np.flatnonzero(gaps >= 1 << gap_bits)
        runs = np.diff(np.concatenate([[-1], ends, [len(keys) - 1]]))
        for entries in range(1, longest + 1):
            word_bits = entries * label_bits + (entries - 1) * gap_bits
            if max_word_bits is not None and entries > 1 and word_bits > max_word_bits:
                break
            blocks = int((-(-runs // entries)).sum())
            cost = _BLOCK * blocks + _BIT * word_bits + _ENTRY * entries
            if best is None or cost < best[0]:
                best = cost, gap_bits, entries
    _, gap_bits, entries = best  # type: ignore[misc] # there is at least one plan
    cut: list[list[int]] = []
    for key in keys.tolist():
        if not cut or len(cut[-1]) == entries or key - cut[-1][-1] >= 1 << gap_bits:
            cut.append([])
        cut[-1].append(key)
    return Blocks(
        tuple(map(tuple, cut)),
        tuple(tuple(table[key] for key in block) for block in cut),
        max(map(len, cut)),
        label_bits,
        gap_bits,
        domain,
    )


def steps(blocks: Blocks, *, layout: Layout, comparison: Comparison) -> list[Step]:
    """The steps which read register z and leave the table's value in register out."""
    return [*_find(blocks, layout, comparison), *_read(blocks, comparison)]


def _find(blocks: Blocks, layout: Layout, comparison: Comparison) -> Iterator[Step]:
    """Stage II: T and D of the block of z."""
    words = blocks.words()
    firsts = [keys[0] for keys in blocks.keys]
    begin = {"T": Affine({}, words[0]), "D": Affine({"z": 1}, blocks.domain - firsts[0])}
    jumps = [
        (first, {"T": word - last, "D": before - first})
        for first, before, word, last in zip(firsts[1:], firsts, words[1:], words, strict=False)
    ]
    if not jumps:
        yield Step({}, begin)
        return
    if layout == "deep":
        for index, (first, changes) in enumerate(jumps):
            start = None if index else begin
            yield from where_at_least("z", first, changes, comparison=comparison, start=start)
        return
    units: dict[str, Affine] = {}
    sums: dict[str, dict[str, Number]] = {"T": {}, "D": dict(begin["D"].terms)}
    for index, (first, changes) in enumerate(jumps):
        units[f"high {index}"] = Affine({"z": 1}, 1 - first)
        units[f"low {index}"] = Affine({"z": 1}, -first)
        for name, value in changes.items():
            sums[name] |= {f"high {index}": value, f"low {index}": -value}
    yield Step(units, {name: Affine(terms, begin[name].constant) for name, terms in sums.items()})
    yield Step({}, {})  # else the next three rows would each hold all of these sums


def _read(blocks: Blocks, comparison: Comparison) -> Iterator[Step]:
    """Stage III: peel labels and gaps, and compare."""
    place = blocks.word_bits
    offset = blocks.domain

    def peel(bits: int, name: str, sign: int, *, fresh: bool) -> Iterator[Step]:
        nonlocal place
        for bit in reversed(range(bits)):
            place -= 1
            new = {name: Affine()} if fresh and bit == bits - 1 else None
            yield from where_at_least(
                "T", 1 << place, {"T": -(1 << place), name: sign * (1 << bit)},
                comparison=comparison, start=new,
            )  # fmt: skip

    for entry in range(blocks.entries):
        yield from peel(blocks.label_bits, "l", 1, fresh=True)
        if entry:
            yield from peel(blocks.gap_bits, "D", -1, fresh=False)
        above = Affine({"D": 1}, -offset)
        below = Affine({"D": -1}, offset)
        yield Step({"above": above, "below": below}, {"far": Affine({"above": 1, "below": 1})})
        found = Affine({"l": 1, "far": -(1 << blocks.label_bits)})
        kept = {"out": 1} if entry else {}
        yield Step({"found": found}, {"out": Affine({**kept, "found": 1})})


def program(
    table: Mapping[int, int],
    domain: int,
    *,
    layout: Layout = "deep",
    comparison: Comparison = "ramp",
    max_word_bits: int | None = None,
) -> Program:
    """A program with input z and output table.get(z, 0), for every integer 0 <= z < domain.

    table: non-negative integers by keys in the domain

    >>> from constructive.contextual.network import plain
    >>> network = plain(program({2: 7, 3: 1, 11: 4}, domain=16))
    >>> network([np.arange(16)])[0].tolist()
    [0, 0, 7, 1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]
    """
    blocks = plan(table, domain, max_word_bits=max_word_bits)
    return Program(
        inputs=("z",),
        start={"z": Affine({"z": 1})},
        steps=tuple(steps(blocks, layout=layout, comparison=comparison)),
        outputs=(Affine({"out": 1}),),
    )
