"""A table of integers in a narrow ReLU network: f(z) = table.get(z, 0), for every 0 <= z < Q.

With a scale W above all labels, the table is a *set of integers*: s = W (key + 1) - label, one for
each key, all positive. For an integer z, 0 <= W (z + 1) - s < W just where z is the key, and then
W (z + 1) - s is the label: it is that difference that the network has to find. It cuts the sorted
set into blocks; the differences between neighbours in a block are the digits of one long integer
T, its *code word*. One comparison a block finds the code word of the block of z; then it is read
bit by bit, and each digit that was read is taken from W (z + 1) - s, which is held as X, more by
W Q so as not to be negative. M keys need about sqrt(M) blocks of sqrt(M) keys, and as many weights;
what grows is the length of the code words.

Lemma 14.2 (proofs/14-sequences.md) says why what is found is a label, and found once.

Source: bit extraction and groups of sqrt(M) keys are from Vardi, Yehudai and Shamir (ICLR 2022);
the set in place of the table, its differences, and 0 off the keys, are ours.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from constructive.sequences.examples import Number
from constructive.sequences.network import Affine, Program, ProgramStep
from constructive.support.arrays import Integers
from constructive.support.errors import ParameterError

# Comparisons with an integer, as steps of programs, and the remainders and roundings that are made
# of them (Lemma 14.1, proofs/14-sequences.md).


# Steps, units of the step after them, and a sum of these units that is 0 or 1.
Indicator = tuple[list[ProgramStep], dict[str, Affine], Affine]


@dataclass(frozen=True)
class Comparison:
    """One way to compare a register with an integer, exact at integers."""

    # of a register and a threshold: what makes 1 where it is at least that, and 0 elsewhere
    indicator: Callable[[str, int], Indicator]
    forgiving: bool  # whether it is also right for registers within 1/3 of an integer
    # how many that are not zero it takes, beside two for each register that is changed, for
    # thresholds beyond 1
    weights: int

    def where_at_least(
        self,
        register: str,
        threshold: int,
        changes: Mapping[str, Number],
        start: Mapping[str, Affine] | None = None,
    ) -> list[ProgramStep]:
        """Return steps that add changes[name] to registers where `register` >= threshold."""
        begin = {name: Affine({name: 1}) for name in changes} | dict(start or {})
        first, units, bit = self.indicator(register, threshold)
        updates = {
            name: Affine(
                {**begin[name].terms, **{unit: value * w for unit, w in bit.terms.items()}},
                begin[name].constant + value * bit.constant,
            )
            for name, value in changes.items()
        }
        return [*first, ProgramStep(units, updates)]

    def remainder(self, register: str, modulus: int, below: int) -> list[ProgramStep]:
        """Return steps that leave register mod modulus, for 0 <= register < below."""
        powers: list[int] = []
        while modulus << len(powers) < below:
            powers.append(modulus << len(powers))
        return [
            step
            for power in reversed(powers)
            for step in self.where_at_least(register, power, {register: -power})
        ]

    def rounded(self, register: str, below: int) -> list[ProgramStep]:
        """Return steps that leave the integer, for 0 <= register < below.

        What the register lacks of an integer stays, as units copy what is not negative.
        """
        steps: list[ProgramStep] = []
        for bit in reversed(range((below - 1).bit_length())):
            change = {register: -(1 << bit), "exact": 1 << bit}
            start = None if steps else {"exact": Affine()}
            steps += self.where_at_least(register, 1 << bit, change, start)
        end = {register: Affine({"exact": 1} if steps else {}), "exact": Affine()}
        return [*steps, ProgramStep({}, end)]


def _ramp(register: str, threshold: int) -> Indicator:
    """relu(r - t + 1) - relu(r - t): one layer, a difference of numbers as large as r."""
    high, low = Affine({register: 1}, 1 - threshold), Affine({register: 1}, -threshold)
    return [], {"high": high, "low": low}, Affine({"high": 1, "low": -1})


def _saturating(register: str, threshold: int) -> Indicator:
    """1 - relu(1 - relu(3 (r - t) + 2)): two layers, whose numbers never cancel.

    So floats carry words of as many bits as they have, and rounding is forgiven.
    """
    high = Affine({register: 3}, 2 - 3 * threshold)
    first = ProgramStep({"high": high}, {"above": Affine({"high": 1})})
    return [first], {"below": Affine({"above": -1}, 1)}, Affine({"below": -1}, 1)


RAMP = Comparison(_ramp, forgiving=False, weights=4)
SATURATING = Comparison(_saturating, forgiving=True, weights=7)

ENTRY = 10  # Weights that are not zero for looking whether X is a label
_LARGEST_DOMAIN = 1 << 62
_QUIET = 49  # Bits below which W times the noise, in units of 2^-53, is less than 1/16


@dataclass(frozen=True)
class KeyBlocks:
    """The set of a table, in order, cut into blocks."""

    keys: tuple[int, ...]  # the first key of each block
    members: tuple[tuple[int, ...], ...]  # s = W (key + 1) - label, for each block
    entries: int  # k, the length of the longest block
    scale: int  # W, above all labels
    digit_bits: int  # of the differences in a block
    # of the first s of a block, where it stands in the code word; 0 where it does not, and X jumps
    # with T
    first_bits: int
    domain: int  # Q

    @property
    def answer_bits(self) -> int:
        """Of the labels, which are added to T below the code word."""
        return (self.scale - 1).bit_length()

    @property
    def word_bits(self) -> int:
        """B, the length of a code word with the place for an answer."""
        return self.answer_bits + self.first_bits + (self.entries - 1) * self.digit_bits

    def words(self) -> list[int]:
        """Return the code word of each block: its first member or nothing, then differences."""
        found = []
        for members in self.members:
            word = members[0] if self.first_bits else 0
            for before, after in pairwise(members):
                word = (word << self.digit_bits) | (after - before)
            missing = self.entries - len(members)
            found.append(word << (missing * self.digit_bits + self.answer_bits))
        return found


def plan(
    table: Mapping[int, int],
    domain: int,
    *,
    comparison: Comparison = RAMP,
    max_word_bits: int | None = None,
) -> KeyBlocks:
    """Cut the set of a table such that weights are the fewest (Lemma 14.2)."""
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
    scale = max(table.values()) + 1
    keys = sorted(table)
    members = [scale * (key + 1) - table[key] for key in keys]
    lengths = np.array([(b - a).bit_length() for a, b in pairwise(members)])
    first_bits = members[-1].bit_length()
    answer_bits = (scale - 1).bit_length()
    most = None if max_word_bits is None else max_word_bits - answer_bits
    entries, digit_bits, in_word = _cheapest(lengths, first_bits, comparison, most)
    starts: list[int] = []
    for place in range(len(members)):
        full = not starts or place - starts[-1] == entries
        if full or lengths[place - 1] > digit_bits:
            starts.append(place)
    stops = [*starts[1:], len(members)]
    blocks = [tuple(members[start:stop]) for start, stop in zip(starts, stops, strict=True)]
    return KeyBlocks(
        keys=tuple(keys[start] for start in starts),
        members=tuple(blocks),
        entries=max(map(len, blocks)),
        scale=scale,
        digit_bits=digit_bits,
        first_bits=first_bits if in_word else 0,
        domain=domain,
    )


def _cheapest(
    lengths: Integers, first_bits: int, comparison: Comparison, most: int | None
) -> tuple[int, int, bool]:
    """k, the bits of a digit, and whether first members are in the word, of the fewest weights."""
    best: tuple[int, tuple[int, int, bool]] | None = None
    longest = 4 * int(np.sqrt(len(lengths) + 1)) + 1
    for digit_bits in range(1, int(lengths.max(initial=1)) + 1):
        ends = np.flatnonzero(lengths > digit_bits)
        runs = np.diff(np.concatenate([[-1], ends, [len(lengths)]]))
        for entries in range(1, longest + 1):
            digits = (entries - 1) * digit_bits
            blocks = int((-(-runs // entries)).sum())
            for in_word in (False, True):
                bits = digits + first_bits * in_word
                shortest = entries == 1 and not in_word
                if most is not None and bits > most and not shortest:
                    continue
                cost = (comparison.weights + 4) * bits + ENTRY * entries
                cost += (comparison.weights + (2 if in_word else 4)) * blocks
                if best is None or cost < best[0]:
                    best = cost, (entries, digit_bits, in_word)
    return best[1]  # type: ignore[index] # there is at least one


def steps(blocks: KeyBlocks, comparison: Comparison, noise: int = 0) -> list[ProgramStep]:
    """Return the steps that read register z and leave the table's value in register T."""
    loud = comparison.forgiving and blocks.scale * noise >> _QUIET
    first = comparison.rounded("z", blocks.domain) if loud else []
    return [*first, *_find(blocks, comparison), *_read(blocks, comparison)]


def _find(blocks: KeyBlocks, comparison: Comparison) -> list[ProgramStep]:
    """Return the code word T of the block of z, and X."""
    words = blocks.words()
    firsts = [0 if blocks.first_bits else members[0] for members in blocks.members]
    above = blocks.scale * (blocks.domain + 1)
    begin = {"T": Affine({}, words[0]), "X": Affine({"z": blocks.scale}, above - firsts[0])}
    found: list[ProgramStep] = []
    for key, words_here, firsts_here in zip(
        blocks.keys[1:], pairwise(words), pairwise(firsts), strict=True
    ):
        changes = {"T": words_here[1] - words_here[0]}
        if firsts_here[1] != firsts_here[0]:
            changes["X"] = firsts_here[0] - firsts_here[1]
        start = None if found else {name: begin[name] for name in changes}
        found += comparison.where_at_least("z", key, changes, start)
    if not found:
        return [ProgramStep({}, begin)]
    late = {"X": begin["X"]} if blocks.first_bits else {}  # z itself is kept until then
    found[-1] = replace(found[-1], updates={**found[-1].updates, **late})
    return found


def _read(blocks: KeyBlocks, comparison: Comparison) -> Iterator[ProgramStep]:
    """Peel the digits of T, take them from X, and look whether X is now a label."""
    place = blocks.word_bits
    offset, scale = blocks.scale * blocks.domain, blocks.scale
    for entry in range(blocks.entries):
        for bit in reversed(range(blocks.digit_bits if entry else blocks.first_bits)):
            place -= 1
            changes = {"T": -(1 << place), "X": -(1 << bit)}
            yield from comparison.where_at_least("T", 1 << place, changes)
        beyond = Affine({"X": 2}, 1 - 2 * offset - 2 * scale)
        yield ProgramStep({"over": beyond}, {"over": Affine({"over": 1})})
        yield ProgramStep(
            {"found": Affine({"X": 1, "over": -scale}, -offset)},
            {"T": Affine({"T": 1, "found": 1}), "X": Affine({"X": 1, "found": -1})},
        )


def program(table: Mapping[int, int], domain: int, *, comparison: Comparison = RAMP) -> Program:
    """Return a program with input z and output table.get(z, 0), for all 0 <= z < domain."""
    blocks = plan(table, domain, comparison=comparison)
    return Program(
        inputs=("z",),
        start={"z": Affine({"z": 1})},
        steps=tuple(steps(blocks, comparison)),
        outputs=(Affine({"T": 1}),),
    )
