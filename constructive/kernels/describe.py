"""Facts in words: where an output is wrong, and how what was read differs from what should be."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from constructive.exact.formats import FORMATS, nearest
from constructive.kernels.answer import BASES, LN2, Lse, expected_lse
from constructive.kernels.facts import SIZES, Condition, Facts, relate, separate, span
from constructive.kernels.mistakes import LARGEST, Rows
from constructive.kernels.problem import Problem
from constructive.support.arrays import Array, Booleans, Integers, first_place
from constructive.support.errors import ParameterError

_ALL, _MANY, _FEW = 0.995, 0.1, 0.01  # shares: all but for chance, of a kind, of keys that are told
_SAME = 2.0**-7  # of factors that are one
_TINY = 1e-4  # a part that is shown as one, not as a factor
_LOST, _MORE = 0.02, 1.06  # of the usual weight: a key with less is lost, one with more counts more
_TOLD = 0.75  # of the keys that meet a condition
_OF_CONDITION = 3  # keys that a condition has to tell: fewer may meet one by chance
_LISTED = 4  # entries and keys that are shown
_HOW = 3  # lines
_FLOAT16 = 65504.0  # its largest number
_UNREAD = "memory that must not be read (padding, unused pages)"
_UNKNOWN = "are not a sum of a few values"
Coordinates = dict[str, Integers]


@dataclass(frozen=True, eq=False)
class Description:
    """Where an output is wrong, and how, by what its wrong rows have read."""

    facts: Facts
    is_beside_nan: bool = False  # whether the kernel was given memory that has NaN in unused places

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
        for name in ("query", "key to be read", "last visible key", "head"):
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
            return f"{_part(share)} of all rows" if share < 1.0 else "all rows"
        return f"{f'{_part(share)} of' if share < 1.0 else 'all'} rows with {words}"

    @cached_property
    def how(self) -> tuple[str, ...]:
        """How rows are wrong, the most frequent way first."""
        kinds, counts = np.unique(self.facts.kind, return_counts=True)
        shares = sorted(zip(kinds, counts / counts.sum(), strict=True), key=lambda each: -each[1])
        found = []
        for kind, share in shares:
            if share >= _MANY:
                said = "; ".join(getattr(self, f"_{kind}")(np.flatnonzero(self.facts.kind == kind)))
                found.append(f"{_part(share)} of them {said}" if share < 1.0 else f"they {said}")
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
        yield "are NaN or infinite"
        level = self._levels(rows).max()
        if self.is_beside_nan:
            yield f"they may come from {_UNREAD}"
        if level > LARGEST:
            yield f"the largest logit is {level:.4g}: exp overflows unless it is subtracted"
        else:
            yield "exp overflows if what is subtracted is not the largest logit of all keys so far"
        yield f"or {'' if self.is_beside_nan else f'they come from {_UNREAD}, or '}0 / 0"
        if (most := self.facts.problem.v.max()) > _FLOAT16:
            yield f"or values are kept in float16: they are up to {most:.4g}"

    def _partly_odd(self, rows: Integers) -> Iterator[str]:
        there = np.flatnonzero(~np.isfinite(self.facts.rows[rows]).all(0))
        yield f"are NaN or infinite in columns {there[0]} to {there[-1]} alone"

    def _zero(self, rows: Integers) -> Iterator[str]:
        yield "are zero"
        level = self._levels(rows).min()
        if level < -LARGEST:
            yield f"logits are about {level:.4g}: exp underflows unless the largest is found"
            yield "or they are not written"

    def _levels(self, rows: Integers) -> Array:
        problem = self.facts.problem
        levels = problem.draft.levels[tuple(self.facts.index[rows].T)]
        return np.asarray(levels * problem.spec.factor)

    def _rounded(self, rows: Integers) -> Iterator[str]:
        most = float(np.abs(self.facts.ratio[rows] - 1.0).max())
        yield f"are right but for a part of {most:.2g}, 2^{np.log2(most):.1f}"
        yield from self._weights(rows)

    def _scaled(self, rows: Integers) -> Iterator[str]:
        factor = self.facts.ratio[rows].mean(1)
        off = np.abs(factor - 1.0).max()
        yield f"are right, times {span(factor)}" if off > _TINY else f"are right but for {off:.2g}"
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
            "head": {
                f"{heads - 1} - head": heads - 1 - right["head"],
                "place mod heads": flat % heads,
            },
            "query": {
                f"{queries - 1} - query": queries - 1 - right["query"],
                "place // heads": flat // heads,
            },
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
            program = right["sequence"] * spec.heads[0] + right["head"]
            known = {"sequence": right["sequence"], "program mod sequences": program % spec.batch}
            parts.append(f"the sequence is {relate(b, known)}")
        if (g != right["KV head"]).any():
            known = {
                "KV head": right["KV head"], "head mod KV heads": right["head"] % kv,
                f"{kv - 1} - KV head": kv - 1 - right["KV head"], "head": right["head"],
            }  # fmt: skip
            parts.append(f"the KV head is {relate(g, known)}")
        names = ("key to be read", "last visible key", "first visible key", "query")
        known = {f"the {name}": right[name] for name in names}
        known["the key on the diagonal"] = Rows(problem, self.facts.index[rows]).at[:, 0]
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
        diagonal = Rows(problem, self.facts.index[row]).at[:, 0]
        known = {
            "the key": keys, "key less query": keys - right["query"],
            "key less the one on the diagonal": keys - diagonal,
            "key less the last visible one": keys - right["last visible key"],
            "key less the first visible one": keys - right["first visible key"],
            "keys behind it": problem.spec.lengths[1][right["sequence"]] - 1 - keys,
            "sequence of the key less its own": b - right["sequence"],
            "KV head of the key less its own": g - right["KV head"],
            "head": right["head"], "query": right["query"],
        }  # fmt: skip
        blocks = {f"the key mod {n}": keys % n for n in SIZES if n <= problem.spec.keys * 0.6}
        return known | blocks, right


def _part(share: float) -> str:
    return "nearly all" if share > _ALL else f"{share:.0%}"


def _entries(row: Array) -> str:
    numbers = ", ".join(f"{value:.6g}" for value in row[:_LISTED])
    return f"[{numbers}{', ..' if len(row) > _LISTED else ''}]"


# What is wrong with log-sum-exps: where, and which sum of their two parts they are.


_LSE_CLOSE = 2.0**-12  # of a sum of the parts of a log-sum-exp
_MOST_LOG = 60.0  # of what was added, as the logarithm of a number that is told
_FEW_VALUES = 2  # of log-sum-exps, which those of other rows may have by chance
_OF_SINK = {
    False: "leave the sink out (sink_in_lse=False says that they do)",
    True: "count the sink (sink_in_lse=True says that they do)",
}
_SHORT = ("bfloat16", "float16")  # formats that one may have been stored in


class Beside(ABC):
    """A report on what was returned beside an output."""

    @cached_property
    @abstractmethod
    def wrong(self) -> Booleans:
        """What no admissible kernel returns."""

    @property
    def passed(self) -> bool:
        """Whether all are right."""
        return not self.wrong.any()

    @property
    def first(self) -> tuple[int, ...]:
        """The first wrong one."""
        return first_place(self.wrong)


@dataclass(frozen=True, eq=False, repr=False)
class LseReport(Beside):
    """What is wrong with log-sum-exps."""

    problem: Problem
    lse: Array  # (B, H, T_q)
    wanted: Lse

    @cached_property
    def wrong(self) -> Booleans:
        """Rows whose log-sum-exp no admissible kernel returns, (B, H, T_q)."""
        wanted = self.wanted
        with np.errstate(invalid="ignore"):
            near = np.abs(self.lse - wanted.expected) <= wanted.slack * (1.0 + 2.0**-40)
        same = (
            near | (self.lse == wanted.expected) | (np.isnan(self.lse) & np.isnan(wanted.expected))
        )
        return np.asarray(self.problem.answer.checked & ~same)

    @property
    def where(self) -> str:
        """Which rows are wrong, in words."""
        return Description(Facts(self.problem, self.problem.expected, self.wrong)).where

    @cached_property
    def how(self) -> tuple[str, ...]:
        """How they are wrong: rows without keys, what is not finite, and all others."""
        empty, finite = self.problem.answer.empty, np.isfinite(self.lse)
        found, count = [], self.wrong.sum()
        for rows, say in (
            (self.wrong & empty, self._empty), (self.wrong & ~empty & ~finite, self._odd),
            (self.wrong & ~empty & finite, self._finite),
        ):  # fmt: skip
            if rows.any():
                who = "they" if rows.sum() == count else f"{_part(rows.sum() / count)} of them"
                found.append(f"{who} {say(rows)}")
        return tuple(found)

    def _empty(self, rows: Booleans) -> str:
        values = ", ".join(f"{each:g}" for each in np.unique(self.lse[rows])[:3])
        asked = self.wanted.expected[rows][0]
        return f"see no key and are {values}, not {asked:g} (fully_masked_lse= says what is asked)"

    def _odd(self, rows: Booleans) -> str:
        levels = self.wanted.level[rows]
        return f"are NaN or infinite; logits of their winners are {span(levels)}"

    def _finite(self, rows: Booleans) -> str:
        found, wanted = self.lse[rows], self.wanted.expected[rows]
        if (np.abs(found - wanted) <= self._close(wanted)).all():
            return f"are right but for {np.abs(found - wanted).max():.2g}: some roundings more"
        for name in _SHORT:
            if (np.abs(nearest(wanted, FORMATS[name]) - found) <= self._close(wanted)).all():
                return f"are right but for a rounding to {name}"
        if self.counts_sink is not None:
            return _OF_SINK[self.counts_sink]
        if self.parts is not None:
            return f"are {self._sum()} (L the logit of the winner, n the number of winners)"
        for words, other in self._moved():
            is_told = len(np.unique(other[rows])) > _FEW_VALUES  # else it may be by chance
            if is_told and (np.abs(found - other[rows]) <= self._close(other[rows])).all():
                return f"are those of {words}"
        off = span(found - wanted)
        return f"are {span(found)}, and should be {span(wanted)}: they are off by {off}"

    @cached_property
    def counts_sink(self) -> bool | None:
        """Whether all finite log-sum-exps, right ones too, count the sink, or none; else None."""
        if self.problem.sinks is None:
            return None
        return next((is_in for is_in in _OF_SINK if self.may_have_sink(is_in=is_in)), None)

    def may_have_sink(self, *, is_in: bool) -> bool:
        """Whether all finite log-sum-exps may be those with the sink, or without."""
        problem = self.problem
        if problem.sinks is None:
            return True
        other = expected_lse(
            problem.spec, problem.draft, problem.answer, problem.sinks, base=self.wanted.base,
            sink_in_lse=is_in,
        ).expected  # fmt: skip
        rows = problem.answer.checked & ~problem.answer.empty & np.isfinite(self.lse)
        return bool((np.abs(self.lse - other)[rows] <= self._close(other[rows])).all())

    @staticmethod
    def _close(wanted: Array) -> Array:
        return np.asarray(2.0**-18 * (1.0 + np.abs(wanted)))

    @cached_property
    def parts(self) -> tuple[float, float, float] | None:
        """Factors of L and log n, and what is added, that lead to all finite wrong rows, or None.

        A factor is NaN where its part is 0 in these rows.
        """
        rows = self.wrong & ~self.problem.answer.empty & np.isfinite(self.lse)
        level, log = self.wanted.level[rows], np.log(np.maximum(self.wanted.total[rows], 1.0))
        one, found = BASES[self.wanted.base], self.lse[rows]
        columns = {"level": level / one, "log": log / one}
        kept = {name: each for name, each in columns.items() if each.any()}
        if all(np.ptp(each) > 0.0 for each in kept.values()):  # else it is a part of the others
            kept["more"] = np.ones_like(found)
        if not kept or len(found) <= len(kept) or np.ptp(found) == 0.0:
            return None
        table = np.stack(list(kept.values()), axis=-1)
        solved, _, rank, _ = np.linalg.lstsq(table, found, rcond=None)
        off = np.abs(table @ solved - found)
        # As many factors as there are different rows lead to whatever these are.
        is_free = rank < len(kept) or len(np.unique(table, axis=0)) <= len(kept)
        if is_free or not (off <= self._close(found)).all():
            return None
        by_name = dict(zip(kept, map(float, solved), strict=True))
        more, nan = by_name.get("more", 0.0), float("nan")
        more = more if abs(more) > _LSE_CLOSE else 0.0
        return by_name.get("level", nan), by_name.get("log", nan), more

    def _sum(self) -> str:
        of_level, of_log, more = self.parts or (0.0, 0.0, 0.0)
        terms = [
            f"{factor:.4g} {name}".removeprefix("1 ")
            for factor, name in ((of_level, "L"), (of_log, "log n"))
            if abs(factor) > _LSE_CLOSE
        ]  # fmt: skip
        if more:
            count = float(np.exp(min(abs(more) * BASES[self.wanted.base], _MOST_LOG)))
            said = f" (log {count:.4g})" if abs(count - round(count)) < _LSE_CLOSE * count else ""
            terms.append(f"{more:.4g}{said}")
        return " + ".join(terms) or "0"

    @property
    def like(self) -> str:
        """Which base leads to these factors, or ""."""
        if self.parts is None or self.parts[2]:
            return ""
        other = {"e": "2", "2": "e"}[self.wanted.base]
        c = 1.0 / LN2 if other == "2" else LN2
        names = {
            (c, c): f"it is in base {other}",
            (1.0, c): f"the logarithm is in base {other}, the maximum is not",
            (c, 1.0): f"the maximum is in base {other}, the logarithm is not",
        }  # fmt: skip
        for factors, name in names.items():
            if np.allclose(self.parts[:2], factors, rtol=2.0**-9, atol=2.0**-9):
                return name
        return ""

    def _moved(self) -> Iterator[tuple[str, Array]]:
        wanted = self.wanted.expected
        for axis, word in ((2, "query"), (1, "head"), (0, "sequence")):
            yield f"the {word} before", np.roll(wanted, 1, axis)
            yield f"the next {word}", np.roll(wanted, -1, axis)
        yield "(B, T_q, H), read as (B, H, T_q)", wanted.swapaxes(1, 2).reshape(wanted.shape)

    @property
    def lines(self) -> list[str]:
        """The report, line by line."""
        checked = int(self.problem.answer.checked.sum())
        if self.passed:
            return [f"{self.problem}: {checked} log-sum-exps are right"]
        b, h, i = self.first
        wanted, level = self.wanted.expected[b, h, i], self.wanted.level[b, h, i]
        like = self.like
        return [
            f"{self.problem}: {int(self.wrong.sum())} of {checked} log-sum-exps are wrong",
            f"WHERE: {self.where}",
            *(f"HOW: {line}" for line in self.how),
            *([f"LIKE: {like}"] if like else []),
            f"for example sequence {b}, head {h}, query {i} is {self.lse[b, h, i]:.8g}, not "
            f"{wanted:.8g} (L = {level:g}, n = {self.wanted.total[b, h, i]:.4g})",
        ]


# What is wrong with the largest logits, of rows or of heads.


@dataclass(frozen=True, eq=False, repr=False)
class LogitReport(Beside):
    """What is wrong with largest logits."""

    problem: Problem
    found: Array  # (B, H, T_q), or the largest of all rows of a head, (B, H) or (H,)
    wanted: Array  # of that shape; NaN where it is not known
    slack: Array

    @classmethod
    def of(cls, problem: Problem, found: Array, wanted: Array, slack: Array) -> "LogitReport":
        """Return the report, of rows or of the largest of all rows of a head."""
        spec = problem.spec
        exists = np.broadcast_to(spec.rows()[:, None], wanted.shape)
        wanted = np.where(exists, wanted, -np.inf)
        slack = np.where(exists, slack, 0.0)
        if found.ndim < wanted.ndim:
            axes = (2,) if found.shape == wanted.shape[:2] else (0, 2)
            wanted, slack = wanted.max(axes), slack.max(axes)
        if found.shape != wanted.shape:
            rows = (spec.batch, spec.heads[0], spec.queries)
            raise ParameterError(
                f"max_logit has shape {found.shape}",
                witness=found.shape,
                suggestion=f"{rows} for rows, {rows[:2]} or {rows[1:2]} for heads",
            )
        return cls(problem, found, wanted, slack)

    @cached_property
    def wrong(self) -> Booleans:
        """Which of them no admissible kernel returns."""
        with np.errstate(invalid="ignore"):
            near = np.abs(self.found - self.wanted) <= self.slack
        return np.asarray(~(near | (self.found == self.wanted) | np.isnan(self.wanted)))

    @property
    def where(self) -> str:
        """Which are wrong, in words."""
        return f"{int(self.wrong.sum())} of {self.wrong.size} largest logits"

    @property
    def how(self) -> tuple[str, ...]:
        """How they are wrong: of a hidden key, or off by something else."""
        problem, found, wanted = self.problem, self.found[self.wrong], self.wanted[self.wrong]
        if self.found.ndim == problem.visible.ndim - 1:
            spec = problem.spec
            k = np.repeat(problem.k, spec.group, 1)
            every = problem.q @ k.swapaxes(-1, -2) * spec.factor
            every = every if problem.bias is None else every + problem.bias
            if (np.abs(every.max(-1)[self.wrong] - found) <= _SAME * (1.0 + np.abs(found))).all():
                return ("they are those of all keys, hidden ones too",)
        return (f"they are {span(found)}, and should be {span(wanted)}",)

    @property
    def lines(self) -> list[str]:
        """The report, line by line."""
        if self.passed:
            return [f"{self.problem}: {self.wrong.size} largest logits are right"]
        return [f"{self.problem}: {self.where} are wrong", *(f"HOW: {line}" for line in self.how)]
