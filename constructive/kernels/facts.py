"""What wrong rows have read, decoded from the codes of values: facts, before any name.

Most wrong rows are the value of one key, the right output of another row, or the right output times
a factor. Others are sums of a few values; these are solved for the weights of keys.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from constructive.kernels.problem import Problem
from constructive.support.arrays import Array, Booleans, Integers

# The least description of numbers by others: which rows differ, and where a number comes from.


SIZES = (16, 32, 64, 128, 8, 24, 48, 96, 4, 2)  # of blocks, the most usual first
_FEW = 3  # numbers that are listed
_PRICE = 0.03  # of a condition, or of a relation with a block: the share that it has to explain
_ENOUGH = 0.85  # of numbers that a relation has to explain
_BY_CHANCE = 1e-3  # at most, that all meant rows have such remainders


class Condition(NamedTuple):
    """What meant rows have in common, and the share that they are of all that have it."""

    words: str
    share: float


def separate(
    coordinates: Mapping[str, Integers], meant: Booleans, possible: Booleans, most: int = 2
) -> Condition:
    """Return the least conditions that all meant rows meet, and few other possible ones.

    Coordinates are numbers of all rows by name, the plainest first. Thresholds are the least and
    the greatest number of meant rows, so none is searched for.
    """
    inside, words, count = possible, [], meant.sum()
    share = float(count / max(inside.sum(), 1))
    for _ in range(most):
        best, said, kept = share + _PRICE, "", inside
        for order, (name, x) in enumerate(coordinates.items()):
            price = 0.001 * order + (_PRICE if " mod " in name else 0.0)
            for condition, those in _conditions(name, x, meant, inside):
                if " mod " in name and float(those.sum() / inside.sum()) ** count > _BY_CHANCE:
                    continue  # there are many remainders: a few rows meet some of them
                worth = count / those.sum() - price
                if worth > best + 1e-9:
                    best, said, kept = worth, condition, those
        if not said:
            break
        inside, share = kept, float(count / kept.sum())
        words.append(said)
    return Condition(" and ".join(words), share)


def _conditions(
    name: str, x: Integers, meant: Booleans, inside: Booleans
) -> Iterator[tuple[str, Booleans]]:
    mine, every = x[meant], x[inside]
    low, high, least, greatest = mine.min(), mine.max(), every.min(), every.max()
    if low == least and high == greatest:
        distinct = np.unique(mine)
        is_told = 2 * len(distinct) <= len(mine)  # fewer of each are a list, not a condition
        if is_told and len(distinct) <= _FEW and not np.isin(every, distinct).all():
            yield f"{name} = {', '.join(map(str, distinct))}", inside & np.isin(x, distinct)
    elif low == high:
        yield f"{name} = {low}", inside & (x == low)
    elif low > least and high < greatest:
        yield f"{name} from {low} to {high}", inside & (x >= low) & (x <= high)
    elif low > least:
        yield f"{name} >= {low}", inside & (x >= low)
    else:
        yield f"{name} <= {high}", inside & (x <= high)


def relate(numbers: Integers, coordinates: Mapping[str, Integers]) -> str:
    """Return what numbers are in words, by coordinates, the simplest first; else some of them."""
    best, worth, share = "", _ENOUGH, 0.0
    for price, words, guess in _guesses(numbers, coordinates):
        now = float((guess == numbers).mean())
        if now - price > worth:
            best, worth, share = words, now - price, now
    if not best:
        return f"{', '.join(map(str, numbers[:_FEW]))}, .."
    return best if share == 1.0 else f"{best} (in {share:.0%})"


def _guesses(
    numbers: Integers, coordinates: Mapping[str, Integers]
) -> Iterator[tuple[float, str, Integers]]:
    """Yield the price of a relation, its words and the numbers that it leads to."""
    yield 0.02, f"{numbers[0]}", np.full_like(numbers, numbers[0])
    for order, (name, x) in enumerate(coordinates.items()):
        yield _shifted(name, x, numbers, 0.001 * order)
        for size in SIZES:
            start = x // size * size
            yield _shifted(f"the start of the block of {size} of {name}", start, numbers, _PRICE)
            yield _shifted(f"{name} mod {size}", x % size, numbers, _PRICE)


def _shifted(
    words: str, x: Integers, numbers: Integers, price: float
) -> tuple[float, str, Integers]:
    by = int(np.median(numbers - x))
    sign = f" {'+' if by > 0 else '-'} {abs(by)}" if by else ""
    return price + 0.004 * bool(by), f"{words}{sign}", x + by


def span(values: Array) -> str:
    """Return numbers in words: one if they are nearly equal, else the least and the greatest."""
    low, high = float(values.min()), float(values.max())
    return (
        f"{values.mean():.5g}" if high - low <= 2.0**-7 * abs(high) else f"{low:.4g} to {high:.4g}"
    )


CLOSE = 2.0**-6  # ratios that count as equal: wider than a rounding, narrower than one key in 64
_EXACT = 2.0**-7  # of a sum of values, of its largest entry
_DECODED, _SOLVED = 256, 16  # wrong rows, and sums among them; spread over all
_STEPS = 8  # keys that a sum may have more or less than it should
_KINDS = (
    *("empty", "odd", "partly_odd", "zero", "rounded", "scaled", "key", "row", "columns", "sum"),
)


@dataclass(frozen=True, eq=False)
class KeyWeights:
    """Weights of keys in rows that are sums, one line for each row and key, (N,) each."""

    row: Integers  # of the decoded rows
    key: Integers  # address among the keys of all sequences and KV heads
    ratio: Array  # the weight over the one it should have, or over 1, in units of the usual ratio
    expected: Booleans  # whether it should have weight


@dataclass(frozen=True, eq=False)
class Facts:
    """Wrong rows of an output, decoded: some of them, spread over all."""

    problem: Problem
    out: Array  # (B, H, T_q, d_v)
    wrong: Booleans  # (B, H, T_q)

    @cached_property
    def index(self) -> Integers:
        """Sequence, head and query of the rows that are decoded, (W, 3)."""
        return _some(np.argwhere(self.wrong), _DECODED)

    @cached_property
    def rows(self) -> Array:
        """Outputs of these rows, (W, d_v)."""
        return np.asarray(self.out[tuple(self.index.T)])

    @cached_property
    def wanted(self) -> Array:
        """What they should be, (W, d_v)."""
        return np.asarray(self.problem.expected[tuple(self.index.T)])

    @cached_property
    def ratio(self) -> Array:
        """Rows over what they should be, (W, d_v)."""
        with np.errstate(all="ignore"):
            return self.rows / self.wanted

    @cached_property
    def kind(self) -> Array:
        """How each row is wrong, (W,); the first of `_KINDS` that holds."""
        finite = np.isfinite(self.rows)
        with np.errstate(all="ignore"):
            factor = np.abs(self.ratio.mean(1))
            holds = (
                self.problem.answer.empty[tuple(self.index.T)],
                ~finite.any(1),
                ~finite.all(1),
                ~self.rows.any(1),
                np.abs(self.ratio - 1.0).max(1) <= CLOSE,
                np.ptp(self.ratio, axis=1) <= CLOSE * factor,
                self.key[0] >= 0,
                self.other >= 0,
                np.full(len(self.rows), self.columns[1] > 0),
            )
        return np.select(holds, _KINDS[:-1], _KINDS[-1])

    @cached_property
    def key(self) -> tuple[Integers, Array]:
        """The address of the key whose value a row is, -1 for none, and times what, (W,) each."""
        v, spec = self.problem.v, self.problem.spec
        own = self.index[:, 0] * spec.heads[1] + self.index[:, 1] // spec.group
        return _multiples(self.rows, v.reshape(-1, v.shape[-1]), own, spec.keys)

    @cached_property
    def other(self) -> Integers:
        """The row of all, (B H T_q), whose right output a row is; -1 for none, (W,)."""
        table = np.nan_to_num(self.problem.expected).reshape(-1, self.rows.shape[1])
        own = self.index[:, 0] * self.wrong.shape[1] + self.index[:, 1]
        found, factor = _multiples(self.rows, table, own, self.wrong.shape[2])
        return np.where(np.abs(factor - 1.0) < _EXACT, found, -1)

    @cached_property
    def columns(self) -> tuple[int, int]:
        """The first wrong column and one past the last, if these are a part of all; else 0, 0."""
        with np.errstate(invalid="ignore"):
            bad = ~(np.abs(self.rows - self.wanted) <= CLOSE * np.abs(self.wanted))
        there, width = np.flatnonzero(bad.any(0)), bad.shape[1]
        if not len(there):
            return 0, 0
        first, end = int(there[0]), int(there[-1]) + 1
        # Columns at both ends may be right by chance, where rows are sums.
        most = 7 * width // 8 if first == 0 or end == width else width // 2
        return (first, end) if end - first <= most else (0, 0)

    @cached_property
    def weights(self) -> KeyWeights:
        """Weights of keys in some of the rows that are sums."""
        rows = np.flatnonzero(np.isin(self.kind, ("sum", "key", "rounded", "scaled")))
        parts = [
            part for row in _some(rows, _SOLVED) if (part := self._weights(int(row))) is not None
        ]
        none = KeyWeights(np.zeros(0, int), np.zeros(0, int), np.zeros(0), np.zeros(0, bool))
        return KeyWeights(*(np.concatenate([getattr(part, name) for part in (none, *parts)])
                         for name in ("row", "key", "ratio", "expected")))  # fmt: skip

    def _weights(self, row: int) -> KeyWeights | None:
        (b, h, i), spec, v = self.index[row], self.problem.spec, self.problem.v
        right, out, wanted = self.problem.answer.weights[b, h, i], self.rows[row], self.wanted[row]
        first = (b * spec.heads[1] + h // spec.group) * spec.keys
        solved = _solved(out, v[b, h // spec.group], right, wanted)
        if solved is None:  # keys of other sequences and heads
            right = np.pad(right, (first, v[..., 0].size - first - spec.keys))
            solved, first = _solved(out, v.reshape(-1, v.shape[3]), right, wanted), 0
        if solved is None:
            return None
        if solved.min() < -CLOSE * np.abs(solved).max():  # a sum by chance: weights are positive
            return None
        keys = np.flatnonzero((np.abs(solved) > CLOSE * np.abs(solved).max()) | (right > 0))
        expected = right[keys] > 0
        ratio = solved[keys] / np.where(expected, right[keys], 1.0)
        usual = _usual(ratio, right[keys] * (ratio > CLOSE * ratio.max()))
        return KeyWeights(np.full(len(keys), row), keys + first, ratio / usual, expected)


def _some(rows: Integers, count: int) -> Integers:
    """Return at most so many rows, spread over all."""
    at = np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int)
    return np.asarray(rows[np.unique(at)])


def _usual(ratio: Array, weights: Array) -> float:
    """Return the ratio that most keys have, or that of the heaviest; 1 if no right key is read."""
    kept, weights = ratio[weights > 0.0], weights[weights > 0.0]
    if not len(kept):
        return 1.0
    heaviest = float(kept[weights.argmax()])
    values, counts = np.unique(np.round(kept / heaviest, 2), return_counts=True)
    is_common = counts.max() > max(1, counts[values == 1.0].sum())
    return heaviest * float(values[counts.argmax()]) if is_common else heaviest


def _multiples(rows: Array, table: Array, own: Integers, count: int) -> tuple[Integers, Array]:
    """Return which line of a table each row is a multiple of, and the factor; -1 and 1 for none.

    Rows may have the same output, so the `count` lines of its own are preferred.
    """
    table = table.astype(np.float32)
    rows = np.where(np.isfinite(rows), rows, 0.0)
    scale = np.maximum(np.abs(rows).max(1, keepdims=True), 1e-30)  # or squares overflow
    norms = np.maximum(np.linalg.norm(table, axis=1), np.float32(1e-30))
    close = (rows / scale).astype(np.float32) @ (table / norms[:, None]).T
    lines = own[:, None] * count + np.arange(count)
    mine = lines[np.arange(len(rows)), np.take_along_axis(close, lines, axis=1).argmax(1)]
    found, factor = np.full(len(rows), -1), np.ones(len(rows))
    for guess in (close.argmax(1), mine):
        line = table[guess].astype(np.float64)
        with np.errstate(all="ignore"):
            times = (rows * line).sum(1) / (line * line).sum(1)
            away = np.abs(rows - times[:, None] * line).max(1)
            fits = (away <= _EXACT * np.abs(times)) & rows.any(1)
        found, factor = np.where(fits, guess, found), np.where(fits, times, factor)
    return found, factor


def _solved(out: Array, values: Array, right: Array, wanted: Array) -> Array | None:
    """Return weights of keys whose sum of values is a row, or None.

    The weights of few keys are determined by the row; of many, those are found that differ in few.
    """
    support = [int(key) for key in np.flatnonzero(right)]
    if 0 < len(support) <= values.shape[1] - _STEPS:
        found = _greedy(out, values, support, float(np.abs(out).max()))
        if found is not None:
            return found
    # out = (1 - sum w) wanted + sum w_j v_j
    found = _greedy(out - wanted, values - wanted, [], float(np.abs(out - wanted).max()))
    return None if found is None else found + right / max(right.sum(), 1.0) * (1.0 - found.sum())


def _greedy(out: Array, lines: Array, basis: list[int], size: float) -> Array | None:
    """Return weights of lines whose sum is a row: of a basis, and of a few that are added."""
    atoms = lines - lines.mean(1, keepdims=True)  # what all codes have in common tells nothing
    norms = np.maximum(np.linalg.norm(atoms, axis=1), 1e-9)
    rest = out
    for step in range(_STEPS):
        if step or not basis:
            close = np.abs(atoms @ (rest - rest.mean())) / norms
            close[basis] = -1.0
            basis = [*basis, int(close.argmax())]
        part, *_ = np.linalg.lstsq(lines[basis].T, out, rcond=None)
        rest = out - part @ lines[basis]
        if np.abs(rest).max() <= _EXACT * size:
            found = np.zeros(len(lines))
            found[basis] = part
            return found
    return None
