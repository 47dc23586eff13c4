"""What is wrong with an output, in words: mistakes that explain it, rows decoded, coverage."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from constructive.exact.kernel_model import KERNEL_MODELS
from constructive.kernels.admissible import sentence
from constructive.kernels.problem import Problem
from constructive.kernels.reading import Reading
from constructive.kernels.same import same_rows
from constructive.support.arrays import Array, Booleans, Integers

if TYPE_CHECKING:
    from constructive.kernels.mistakes.bench import Bench, Made, Memory

_MOST_ROWS = 6
_MOST_EXPLANATIONS = 4
_SCREENED = 12
_DECODED = 240
_MOST_LAWS = 4  # Sentences of one law that may lead to an output. If more do, it says too little.
_FEW_COLUMNS = 0.75
PART = 0.9  # Of wrong rows that an explanation has to explain
NOTHING = "the output is zero"
_NUMBER = re.compile(r"-?\d[\d.e+]*")


@dataclass(frozen=True)
class Explanation:
    """A mistake that leads to the output, or to most of it."""

    sentence: str  # which mistake
    wrong: float  # the share of wrong rows that it leads to
    equal: float  # the share of them where it leads to the same numbers, not to NaN in place of 0
    right: float  # the share of right rows that it leaves right
    is_inferred: bool = False  # whether it is a law that was inferred from the output

    @property
    def is_whole(self) -> bool:
        """Whether it explains every row."""
        return self.wrong == self.right == 1.0

    def __str__(self) -> str:
        if self.is_whole:
            return f"{self.sentence} (explains every row)"
        if self.wrong == 1.0:
            return f"{self.sentence} (explains every wrong row)"
        return f"{self.sentence} (explains {int(100 * self.wrong)}% of wrong rows)"


@dataclass(frozen=True, eq=False)
class Report:
    """What is wrong with an output.

    Attributes:
        problem: what was computed
        out: (B, H, T_q, d_v) the output
        model: the row of the model of floating point that the kernel claims, or None
        memory: how the kernel got its arrays, or None
    """

    problem: Problem
    out: Array
    model: str | None = None
    memory: "Memory | None" = None

    @cached_property
    def wrong(self) -> Booleans:
        """Rows that differ, (B, H, T_q)."""
        answer = self.problem.answer
        with np.errstate(invalid="ignore"):
            near = np.abs(self.out - answer.expected) <= answer.slack
        nan = np.isnan(answer.expected) & np.isnan(self.out)
        return answer.checked & ~(near | nan).all(-1)

    @property
    def passed(self) -> bool:
        """Whether every row that is checked is right."""
        return not self.wrong.any()

    @property
    def first(self) -> tuple[int, ...] | None:
        """The first wrong row: sequence, head, query."""
        found = np.argwhere(self.wrong)
        return tuple(int(index) for index in found[0]) if len(found) else None

    @property
    def suggestion(self) -> str:
        """What to look at next, where this is the `report` of an error."""
        return "error.report.picture(path) draws which key each query read"

    @property
    def distance(self) -> float:
        """How far a wrong row is from the right one, at most; infinite for NaN."""
        if self.passed:
            return 0.0
        away = np.abs(self.out - self.problem.expected)[self.wrong]
        return float(np.nan_to_num(away, nan=np.inf).max())

    @property
    def is_odd(self) -> bool:
        """Whether most wrong rows are NaN or infinite."""
        finite = np.isfinite(self.out).all(-1) & self.wrong
        return bool(2 * finite.sum() < self.wrong.sum())

    @cached_property
    def explanations(self) -> tuple[Explanation, ...]:
        """Mistakes that explain the output, the best first.

        If some explain every row, only these.
        """
        if self.passed:
            return ()
        # Right outputs need none of them.
        from constructive.kernels.mistakes import mistakes  # noqa: PLC0415
        from constructive.kernels.mistakes.bench import Bench  # noqa: PLC0415

        few = Bench(self.problem, self._chosen(), memory=self.memory)
        names = [name for name, made in mistakes(few).items() if self.judge(few, name, made)]
        whole = Bench.of(self.problem, self.memory)
        every = mistakes(whole)
        judged = (self.judge(whole, name, every[name]) for name in names)
        found = [explanation for explanation in judged if explanation is not None]
        found.sort(key=lambda each: (-each.wrong, -each.equal, -each.right))
        if any(each.wrong == each.equal == 1.0 for each in found):
            found = [each for each in found if each.equal > 0.0]  # not NaN where there is 0
        best = [explanation for explanation in found if explanation.is_whole]
        if not best:
            best = [Explanation(name, 1.0, 1.0, 1.0, is_inferred=True) for name in self.laws]
        if not best and self._is_zero:
            return (Explanation(NOTHING, 1.0, 1.0, 0.0),)
        return tuple(best or found)

    @cached_property
    def _found(self) -> "list[dict[str, Made]]":
        """Laws that lead to every row, by what they are about; of the first tier that has some."""
        from constructive.kernels.laws import laws  # noqa: PLC0415 - right outputs need none
        from constructive.kernels.laws.evidence import Evidence  # noqa: PLC0415
        from constructive.kernels.mistakes.bench import Bench  # noqa: PLC0415

        bench = Bench.of(self.problem, self.memory)
        for tier in laws(Evidence(self.problem, self.out, self.wrong, self.memory)):
            found = [
                {name: made for name, made in law if self._is_whole(bench, name, made)}
                for law in tier
            ]
            if any(0 < len(of_kinds(whole)) <= _MOST_LAWS for whole in found):
                return found
        return []

    @property
    def laws(self) -> "dict[str, Made]":
        """Laws that are inferred from the output and lead to every row, each with its output."""
        return {
            name: made
            for whole in self._found
            if len(of_kinds(whole)) <= _MOST_LAWS
            for name, made in whole.items()
        }

    @property
    def fitting(self) -> "dict[str, Made]":
        """The same with laws of which too many sentences lead to the output."""
        return {name: made for whole in self._found for name, made in whole.items()}

    def _is_whole(self, bench: "Bench", name: str, made: "Made") -> bool:
        """Return whether a mistake explains every row."""
        judged = self.judge(bench, name, made)
        return judged is not None and judged.is_whole

    @property
    def _is_zero(self) -> bool:
        """Whether all wrong rows are zero, which is more to the point than what leads to it."""
        wrong = self.out[self.wrong & ~self.problem.answer.empty]
        return bool(len(wrong) and not wrong.any())

    def _chosen(self) -> Integers:
        """Return some queries with wrong rows, and some without, in order."""
        bad = self.wrong.any((0, 1))
        parts = [np.flatnonzero(bad), np.flatnonzero(~bad)]
        kept = [
            part[np.linspace(0, len(part) - 1, _SCREENED).astype(int)]
            for part in parts
            if len(part)
        ]
        return np.unique(np.concatenate(kept))

    def judge(self, bench: "Bench", name: str, made: "Made") -> Explanation | None:
        """Return how far a mistake explains the output, or None where it does not.

        Args:
            bench: which rows are compared
            name: the sentence
            made: returns the output of the mistake
        """
        real = ~self.problem.answer.empty[:, :, bench.rows]
        rows = self.wrong[:, :, bench.rows] & real
        if not rows.any():
            return None
        with np.errstate(all="ignore"):
            other = made()
            out = self.out[:, :, bench.rows]
            away = np.abs(out - self.problem.expected[:, :, bench.rows]).max(-1)
            nearer = ~(np.abs(out - other).max(-1) >= away / 2.0)  # or it explains nothing
            if nearer[rows].mean() < PART:
                return None
            same, equal = same_rows(out, other, self.problem.spec.output)
        wrong = float((same & nearer)[rows].mean())
        if wrong < PART:
            return None
        said = np.isfinite(self.out[:, :, bench.rows]).any(-1) & rows
        told = (real & ~rows).any() or self.problem.draft.level > 0.0
        if not said.any() and (float(same[real].mean()) < 1.0 or not told):
            return None  # NaN says little: many mistakes lead to it
        kept = self.problem.answer.checked[:, :, bench.rows] & real & ~rows
        right = float(same[kept].mean()) if kept.any() else 1.0
        return Explanation(name, wrong, float(equal[rows].mean()), right)

    @property
    def lines(self) -> list[str]:
        """The report, line by line."""
        answer, spec = self.problem.answer, self.problem.spec
        count, checked = int(self.wrong.sum()), int(answer.checked.sum())
        head = f"{self.problem}: "
        if self.passed:
            return [head + f"{checked} rows are right", *self._coverage()]
        found = [head + f"{count} of {checked} rows are wrong{self.where}"]
        empty = int((self.wrong & answer.empty).sum())
        if empty:
            found.append(
                f"{empty} rows see no key and are not {spec.fully_masked!r}: "
                "pass fully_masked='zeros', 'nan' or 'mean' for another convention"
            )
        by_name = {explanation.sentence: explanation for explanation in self.explanations}
        whole = [by_name[name] for name in of_kinds(by_name)][:_MOST_EXPLANATIONS]
        for index, explanation in enumerate(whole):
            found.append(f"{'DIAGNOSIS' if index == 0 else '       or'}: {explanation}")
        reading, rows = self.reading, self._rows
        if not any(explanation.wrong == 1.0 for explanation in whole):
            found.extend(f"ROWS: {line}" for line in self.kinds)
            found.extend(self._not_finite())
        chosen = rows[:: max(1, len(rows) // _MOST_ROWS)][:_MOST_ROWS]
        found.extend(reading.words((b, h, i)) for b, h, i in chosen)
        if len(rows) > len(chosen):
            found.append(f"and {len(rows) - len(chosen)} more rows")
        return [*found, *self._coverage(), *self._model()]

    @cached_property
    def reading(self) -> Reading:
        """Rows, decoded."""
        return Reading(self.problem, self.out)

    @cached_property
    def _rows(self) -> list[tuple[int, int, int]]:
        return [(int(b), int(h), int(i)) for b, h, i in np.argwhere(self.wrong)]

    @cached_property
    def kinds(self) -> list[str]:
        """In which ways rows are wrong, the most frequent first; many rows are a sample."""
        step = max(1, len(self._rows) // _DECODED)
        decoded = [self.reading.row(row).kind for row in self._rows[::step]]
        common = Counter(decoded).most_common(3)
        return [
            f"{100 * count // len(decoded)}% of wrong rows are {kind}" for kind, count in common
        ]

    @property
    def where(self) -> str:
        """Say where all wrong rows are, if it is a part of the problem."""
        words = []
        for axis, name in enumerate(("batch", "head", "query")):
            others = tuple(other for other in range(3) if other != axis)
            there = np.flatnonzero(self.wrong.any(others))
            possible = np.flatnonzero(self.problem.answer.checked.any(others))
            if len(there) < len(possible):
                words.append(f"{name} {_ranges(there)}")
        columns = self._columns()
        if columns.sum() <= _FEW_COLUMNS * len(columns):
            words.append(f"columns {_ranges(np.flatnonzero(columns))}")
        found = f", all in {', '.join(words)}" if words else ""
        return found if "query" in found else found + self._by_key()

    def _columns(self) -> Booleans:
        """Return the columns of the output that are wrong in some row, (d_v,)."""
        answer = self.problem.answer
        with np.errstate(invalid="ignore"):
            right = np.abs(self.out - answer.expected) <= answer.slack
        right |= np.isnan(answer.expected) & np.isnan(self.out)
        return np.asarray((self.wrong[..., None] & ~right).any((0, 1, 2)))

    def _by_key(self) -> str:
        """Say which keys wrong rows should read, if exactly the rows that should read them fail."""
        answer = self.problem.answer
        one = answer.checked & (np.count_nonzero(answer.weights, axis=-1) == 1)
        key = answer.weights.argmax(-1)
        bad, good = np.unique(key[self.wrong & one]), np.unique(key[~self.wrong & one])
        if not len(bad) or not len(good) or np.isin(bad, good).any():
            return ""
        return f", all rows that should read key {_ranges(bad)} and no others"

    def _not_finite(self) -> list[str]:
        """Say what NaN can come from where no logit of a visible key is above 0."""
        out = self.out[self.wrong]
        if np.isfinite(out).any() or self.problem.draft.level > 0.0:
            return []
        return [
            "no visible key has a logit above 0, so nothing overflows: NaN come from memory that "
            "must not be read (padding, unused pages, gaps between rows), or from 0 / 0"
        ]

    def _coverage(self) -> list[str]:
        guarded, checked = self.problem.guarded, self.problem.checked
        return [
            f"coverage: {100 * guarded:.0f}% of hidden keys would change the answer if they "
            f"leaked, {100 * checked:.0f}% of rows are checked"
        ]

    def _model(self) -> list[str]:
        found = [
            "a value outside proves that the kernel left the model of exact outputs: "
            + sentence(self.problem.spec)
        ]
        if self.model in KERNEL_MODELS:
            claimed = KERNEL_MODELS[self.model].describe()
            found.append(f"the kernel claims the model {self.model!r}: {claimed}")
        return found

    def picture(self, path: str, *, batch: int = 0, head: int | None = None) -> None:
        """Draw which key each query of a head should read, and which it read.

        Args:
            path: of the file, a format that matplotlib writes
            batch: the sequence
            head: by default the first one with a wrong row
        """
        from constructive.kernels.picture import draw  # noqa: PLC0415 - matplotlib takes long

        draw(self.problem, self.reading, self.wrong, path, batch=batch, head=head)

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


def of_kinds(names: Iterable[str]) -> tuple[str, ...]:
    """Return one of all sentences that differ in numbers alone, such as sizes of blocks.

    Example:
        >>> of_kinds(["blocks of 16 are lost", "blocks of 32 are lost"])
        ('blocks of 16 are lost',)
    """
    kinds: dict[str, str] = {}
    for name in names:
        kinds.setdefault(_NUMBER.sub("#", name), name)
    return tuple(kinds.values())


def _ranges(numbers: np.ndarray) -> str:
    """Return numbers in words: "3", "64 to 76", "0, 2, 5, .."."""
    if len(numbers) > 1 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(str(number) for number in numbers[:6]) + (", .." if len(numbers) > 6 else "")
