"""Where an output is wrong, and what its wrong rows have read, decoded from the codes of values.

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
_VALUES = 3  # numbers that are listed
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
        if is_told and len(distinct) <= _VALUES and not np.isin(every, distinct).all():
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
        return f"{', '.join(map(str, numbers[:_VALUES]))}, .."
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
_KINDS = (*("empty", "odd", "zero", "rounded", "scaled", "key", "row", "columns", "sum"),)


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


# The same in words.


_ALL, _MANY, _FEW = 0.995, 0.1, 0.01  # shares: all but for chance, of a kind, of keys that are told
_SAME = 2.0**-7  # of factors that are one
_LOST, _MORE = 0.02, 1.06  # of the usual weight: a key with less is lost, one with more counts more
_TOLD = 0.75  # of the keys that meet a condition
_OF_CONDITION = 3  # keys that a condition has to tell: fewer may meet one by chance
_LISTED = 4  # entries and keys that are shown
_HOW = 3  # lines
LARGEST = 88.7  # the exponent at which exp overflows in float32
_UNKNOWN = "are not a sum of a few values"
Coordinates = dict[str, Integers]


@dataclass(frozen=True, eq=False)
class Description:
    """Where an output is wrong, and how, by what its wrong rows have read."""

    facts: Facts

    @cached_property
    def coordinates(self) -> Coordinates:
        """Numbers of every row, (B, H, T_q), the plainest first."""
        problem, spec, shape = self.facts.problem, self.facts.problem.spec, self.facts.wrong.shape
        b, h, i = np.ogrid[: shape[0], : shape[1], : shape[2]]
        visible, weights = problem.visible, problem.answer.weights
        queries, keys = spec.lengths
        first, last = visible.argmax(-1), spec.keys - 1 - visible[..., ::-1].argmax(-1)
        count = np.count_nonzero(weights, axis=-1)
        one = count == 1
        winner = np.where(one, weights.argmax(-1), -1)
        found = {
            "query": i, "head": h, "sequence": b, "KV head": h // spec.group,
            "head in its group": h % spec.group, "queries behind it": queries[b] - 1 - i,
            "visible keys": visible.sum(-1), "last visible key": last, "first visible key": first,
            "keys behind the last visible one": keys[b] - 1 - last,
            "keys to be averaged": count, "key to be read": winner,
            "visible keys before the one to be read": np.where(one, winner - first, -1),
            "visible keys behind the one to be read": np.where(one, last - winner, -1),
        }  # fmt: skip
        if problem.draft.level_slot is not None:
            found["logit of the winner"] = np.rint(problem.draft.levels * spec.factor).astype(int)
        for name in ("query", "key to be read", "head"):
            most = 0.6 * (np.max(found[name]) + 1)  # a block of which there are two, nearly
            found |= {f"{name} mod {n}": found[name] % n for n in SIZES if n <= most}
        return {name: np.broadcast_to(x, shape) for name, x in found.items()}

    @cached_property
    def place(self) -> Condition:
        """Which rows are wrong: the least conditions that all of them meet, and few others."""
        answer, wrong = self.facts.problem.answer, self.facts.wrong
        possible = answer.checked & (~answer.empty | wrong)
        if wrong[possible].mean() > _ALL:
            return Condition("", 1.0)
        return separate(self.coordinates, wrong, possible)

    @property
    def where(self) -> str:
        """The same in words."""
        words, share = self.place
        if not words:
            return f"{part_of(share)} of all rows" if share < 1.0 else "all rows"
        return f"{f'{part_of(share)} of' if share < 1.0 else 'all'} rows with {words}"

    @cached_property
    def how(self) -> tuple[str, ...]:
        """How rows are wrong, the most frequent way first."""
        kinds, counts = np.unique(self.facts.kind, return_counts=True)
        shares = sorted(zip(kinds, counts / counts.sum(), strict=True), key=lambda each: -each[1])
        found = []
        for kind, share in shares:
            if share >= _MANY:
                said = "; ".join(getattr(self, f"_{kind}")(np.flatnonzero(self.facts.kind == kind)))
                found.append(f"{part_of(share)} of them {said}" if share < 1.0 else f"they {said}")
        return tuple(found[:_HOW])

    @property
    def is_obscure(self) -> bool:
        """Whether some rows are not decoded."""
        return any(_UNKNOWN in line for line in self.how)

    @property
    def example(self) -> str:
        """One wrong row: what it is, and what it should be."""
        facts, spec = self.facts, self.facts.problem.spec
        (b, h, i), key = facts.index[0], int(facts.key[0][0])
        read = ""
        if key >= 0 and facts.kind[0] == "key":
            at = np.unravel_index(key, facts.problem.v.shape[:3])
            names = ((b, "sequence"), (h // spec.group, "KV head"))
            other = [
                f" of {name} {x}" for (own, name), x in zip(names, at, strict=False) if x != own
            ]
            read = f" (key {at[2]}{''.join(other)})"
        return (
            f"sequence {b}, head {h}, query {i} is {_entries(facts.rows[0])}{read}, "
            f"not {_entries(facts.wanted[0])} ({self._wanted(b, h, i)})"
        )

    def _wanted(self, b: int, h: int, i: int) -> str:
        weights = self.facts.problem.answer.weights[b, h, i]
        keys = np.flatnonzero(weights)
        listed = ", ".join(f"{key}" for key in keys[:_LISTED])
        more = ", .." if len(keys) > _LISTED else ""
        return f"key{'s' if len(keys) > 1 else ''} {listed}{more}" if len(keys) else "no key"

    def _of(self, rows: Integers) -> Coordinates:
        where = tuple(self.facts.index[rows].T)
        return {name: x[where] for name, x in self.coordinates.items()}

    def _empty(self, rows: Integers) -> Iterator[str]:
        out, convention = self.facts.rows[rows], self.facts.problem.spec.fully_masked
        what = "NaN" if not np.isfinite(out).any() else "averages" if out.any() else "zero"
        yield f"see no key and are {what}, not {convention!r}"
        yield (
            "fully_masked= is for another convention of such rows, but a block without keys before "
            "others must not do the same"
        )

    def _odd(self, rows: Integers) -> Iterator[str]:
        del rows
        yield "are NaN or infinite"
        yield "exp overflows if what is subtracted is not the largest logit of all keys so far"
        yield "or they come from memory that must not be read (padding, unused pages), or 0 / 0"

    def _zero(self, rows: Integers) -> Iterator[str]:
        yield "are zero"
        problem = self.facts.problem
        level = (problem.draft.levels[tuple(self.facts.index[rows].T)] * problem.spec.factor).min()
        if level < -LARGEST:
            yield f"logits are about {level:.4g}: exp underflows unless the largest is found"
            yield "or they are not written"

    def _rounded(self, rows: Integers) -> Iterator[str]:
        most = float(np.abs(self.facts.ratio[rows] - 1.0).max())
        yield f"are right but for a part of {most:.2g}, 2^{np.log2(most):.1f}"
        yield from self._weights(rows)

    def _scaled(self, rows: Integers) -> Iterator[str]:
        yield f"are right, times {span(self.facts.ratio[rows].mean(1))}"
        yield from self._weights(rows)

    def _columns(self, rows: Integers) -> Iterator[str]:
        first, end = self.facts.columns
        zero = " (zero there)" if not self.facts.rows[rows, first:end].any() else ""
        yield f"are wrong in columns {first} to {end - 1} alone{zero}"

    def _row(self, rows: Integers) -> Iterator[str]:
        yield f"are the right output of another row: {self._other(rows)}"

    def _other(self, rows: Integers) -> str:
        """Say where rows come from that are the right ones of other places."""
        places = np.unravel_index(self.facts.other[rows], self.facts.wrong.shape)
        right, (_, heads, queries) = self._of(rows), self.facts.wrong.shape
        flat = right["head"] * queries + right["query"]
        more: dict[str, Coordinates] = {
            "sequence": {},
            "head": {"place mod heads": flat % heads},
            "query": {"place // heads": flat // heads},
        }
        words = [
            f"the {name} is {relate(number, {name: right[name], **known})}"
            for (name, known), number in zip(more.items(), places, strict=True)
            if (number != right[name]).any()
        ]
        return ", ".join(words)

    def _key(self, rows: Integers) -> Iterator[str]:
        problem, spec, right = self.facts.problem, self.facts.problem.spec, self._of(rows)
        where, factor = self.facts.key[0][rows], self.facts.key[1][rows]
        b, g, j = np.unravel_index(where, problem.v.shape[:3])
        parts, kv = [], spec.heads[1]
        if (b != right["sequence"]).any():
            parts.append(f"the sequence is {relate(b, {'sequence': right['sequence']})}")
        if (g != right["KV head"]).any():
            known = {
                "KV head": right["KV head"], "head mod KV heads": right["head"] % kv,
                f"{kv - 1} - KV head": kv - 1 - right["KV head"], "head": right["head"],
            }  # fmt: skip
            parts.append(f"the KV head is {relate(g, known)}")
        names = ("key to be read", "last visible key", "first visible key", "query")
        known = {f"the {name}": right[name] for name in names}
        known["the last key"] = spec.lengths[1][right["sequence"]] - 1
        if (right["keys to be averaged"] > 1).all():
            parts.append("one of several that should be averaged")
        elif (j != right["key to be read"]).any():
            parts.append(f"the key is {relate(j, known)}")
        if np.abs(factor - 1.0).max() > _SAME:
            parts.append(f"times {span(factor)}")
        yield "read one key alone" + (": " if parts else "") + ", ".join(parts)
        if any(part.endswith("..") for part in parts) and (self.facts.other[rows] >= 0).all():
            words = self._other(rows)
            if ".." not in words:
                yield f"or they are the right output of another row: {words}"
        yield from self._hidden(where, right)
        if (right["keys to be averaged"] > 1).any():
            yield from self._weights(rows)

    def _sum(self, rows: Integers) -> Iterator[str]:
        yield from list(self._weights(rows)) or [_UNKNOWN]

    def _hidden(self, where: Integers, right: Coordinates) -> Iterator[str]:
        """Say which masks hide keys that are read."""
        problem = self.facts.problem
        b, g, j = np.unravel_index(where, problem.v.shape[:3])
        own = (b == right["sequence"]) & (g == right["KV head"])
        for mask in problem.spec.masks:
            seen = np.broadcast_to(problem.spec.grid.visible([mask]), problem.answer.weights.shape)
            hidden = ~seen[right["sequence"], right["head"], right["query"], j] & own
            share = float(hidden.mean())
            if share > _MANY:
                keys = "these keys" if share == 1.0 else f"{share:.0%} of these keys"
                yield f"{keys} are hidden by the mask '{mask}'"

    def _weights(self, rows: Integers) -> Iterator[str]:
        """Describe sums by keys that are lost, read beside the right ones, or counted more."""
        found = self.facts.weights
        kept = np.isin(found.row, rows)
        if not kept.any():
            return
        row, where = found.row[kept], found.key[kept]
        ratio, expected = found.ratio[kept], found.expected[kept]
        known, right = self._of_keys(row, where)
        there = expected & (ratio >= _LOST)
        groups: tuple[tuple[str, Booleans, Booleans], ...] = (
            ("lack keys that they should read", expected & ~there, expected),
            ("read keys that they should not", ~expected, np.ones_like(expected)),
            ("count some keys more", there & (ratio > _MORE), there),
            ("count some keys less", there & (ratio < 1.0 / _MORE), there),
        )
        for words, meant, possible in groups:
            part = len(np.unique(row[meant])) / len(np.unique(row))
            if not part or (part < _MANY and meant.sum() < _FEW * possible.sum()):
                continue
            most = min(2, int(meant.sum()) // _OF_CONDITION)
            those, share = separate(known, meant, possible, most)
            is_lost, is_read = words.startswith("lack"), words.startswith("read")
            said = words if is_lost else f"{words}, with {span(ratio[meant])} of the usual weight"
            if those and share >= _TOLD:
                said += f", those with {those}"
                said += f" ({share:.0%} of such keys)" if share < _ALL else ""
            yield said + (f", in {part:.0%} of rows" if part < 1.0 else "")
            if is_read:
                yield from self._hidden(where[meant], {name: x[meant] for name, x in right.items()})

    def _of_keys(self, row: Integers, where: Integers) -> tuple[Coordinates, Coordinates]:
        """Return numbers of keys in rows, and numbers of these rows."""
        problem, right = self.facts.problem, self._of(row)
        b, g, keys = np.unravel_index(where, problem.v.shape[:3])
        diagonal = problem.spec.diagonal[right["sequence"], 0, right["query"], 0]
        known = {
            "the key": keys, "key less query": keys - right["query"],
            "key less the one on the diagonal": keys - diagonal,
            "key less the last visible one": keys - right["last visible key"],
            "key less the first visible one": keys - right["first visible key"],
            "sequence of the key less its own": b - right["sequence"],
            "KV head of the key less its own": g - right["KV head"],
            "head": right["head"], "query": right["query"],
        }  # fmt: skip
        blocks = {f"the key mod {n}": keys % n for n in SIZES if n <= problem.spec.keys * 0.6}
        return known | blocks, right


def part_of(share: float) -> str:
    """Return a share of rows in words."""
    return "nearly all" if share > _ALL else f"{share:.0%}"


def _entries(row: Array) -> str:
    numbers = ", ".join(f"{value:.6g}" for value in row[:_LISTED])
    return f"[{numbers}{', ..' if len(row) > _LISTED else ''}]"
