"""Facts in words: where an output is wrong, and how what was read differs from what should be."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from constructive.kernels.facts import SIZES, Condition, Facts, relate, separate, span
from constructive.kernels.formula import LARGEST, Rows
from constructive.support.arrays import Array, Booleans, Integers

_ALL, _MANY, _FEW = 0.995, 0.1, 0.01  # shares: all but for chance, of a kind, of keys that are told
_SAME = 2.0**-7  # of factors that are one
_TINY = 1e-4  # a part that is shown as one, not as a factor
_LOST, _MORE = 0.02, 1.06  # of the usual weight: a key with less is lost, one with more counts more
_TOLD = 0.75  # of the keys that meet a condition
_LISTED = 4  # entries and keys that are shown
_HOW = 3  # lines
_FLOAT16 = 65504.0  # its largest number
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
            "key to be read": winner, "keys to be averaged": count,
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
        yield "pass fully_masked='zeros', 'nan' or 'mean' for another convention"

    def _odd(self, rows: Integers) -> Iterator[str]:
        yield "are NaN or infinite"
        level = self._levels(rows).max()
        if level > LARGEST:
            yield f"the largest logit is {level:.4g}: exp overflows unless it is subtracted"
        elif (most := self.facts.problem.v.max()) > _FLOAT16:
            yield f"values are up to {most:.4g}, more than float16 holds"
        elif level <= 0.0:
            yield "no visible key has a logit above 0, so nothing overflows"
            yield "they come from memory that must not be read (padding, unused pages) or 0 / 0"

    def _partly_odd(self, rows: Integers) -> Iterator[str]:
        there = np.flatnonzero(~np.isfinite(self.facts.rows[rows]).all(0))
        yield f"are NaN or infinite in columns {there[0]} to {there[-1]} alone"

    def _zero(self, rows: Integers) -> Iterator[str]:
        yield "are zero"
        level = self._levels(rows).min()
        if level < -LARGEST:
            yield f"logits are about {level:.4g}: exp underflows unless the largest is found"

    def _levels(self, rows: Integers) -> Array:
        problem = self.facts.problem
        levels = problem.draft.levels[tuple(self.facts.index[rows].T)]
        return np.asarray(levels * problem.spec.factor)

    def _rounded(self, rows: Integers) -> Iterator[str]:
        most = float(np.abs(self.facts.ratio[rows] - 1.0).max())
        yield f"are right but for a part of {most:.2g}, 2^{np.log2(most):.1f}"
        yield from list(self._weights(rows)) or ["a format of fewer bits, or a rough step"]

    def _scaled(self, rows: Integers) -> Iterator[str]:
        factor = self.facts.ratio[rows].mean(1)
        off = np.abs(factor - 1.0).max()
        yield f"are right, times {span(factor)}" if off > _TINY else f"are right but for {off:.2g}"
        for name, x in self._of(rows).items():  # what the factor depends on
            ways = (f"over the {name}", factor * x), (f"times the {name}", factor / (x + 1e-9))
            for words, product in ways:
                is_told = len(np.unique(x)) > 1 and product.max() > 0
                if is_told and np.ptp(product) <= _SAME * product.max() < np.ptp(factor):
                    yield f"that is {product.mean():.4g} {words}"
                    return
        yield from self._weights(rows)

    def _columns(self, rows: Integers) -> Iterator[str]:
        first, end = self.facts.columns
        zero = " (zero there)" if not self.facts.rows[rows, first:end].any() else ""
        yield f"are wrong in columns {first} to {end - 1} alone{zero}"

    def _row(self, rows: Integers) -> Iterator[str]:
        yield f"are the right output of {self._other(rows)}"

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
            f"{name} {relate(number, {name: right[name], **known})}"
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
            parts.append(f"of sequence {relate(b, known)}")
        if (g != right["KV head"]).any():
            known = {
                "KV head": right["KV head"], "head mod KV heads": right["head"] % kv,
                f"{kv - 1} - KV head": kv - 1 - right["KV head"], "head": right["head"],
            }  # fmt: skip
            parts.append(f"of KV head {relate(g, known)}")
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
            yield from [f"or they are the right output of {words}"] * (".." not in words)
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
            if meant.sum() < max(1, _FEW * possible.sum()):
                continue
            those, share = separate(known, meant, possible)
            part = len(np.unique(row[meant])) / len(np.unique(row))
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
