"""Compare what a kernel returned with what every admissible kernel returns."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from constructive.exact.formats import Format, nearest
from constructive.exact.kernel_model import KERNEL_MODELS, kernel_model_named
from constructive.kernels.answer import BASES, expected_logits, expected_lse, sentence
from constructive.kernels.describe import Description, LogitReport, LseReport
from constructive.kernels.encodings import Paged, Quantized
from constructive.kernels.facts import Facts
from constructive.kernels.inputs import LAYOUTS, PLACES, Pool, from_layout
from constructive.kernels.mistakes import Change, Memory, Rows, attention, mistakes
from constructive.kernels.problem import Problem
from constructive.kernels.spec import Spec, as_float64, format_of
from constructive.support.arrays import Array, Booleans, Integers, first_place
from constructive.support.errors import (
    ConstructiveError,
    ParameterError,
    require_known,
    with_article,
)

_ROUNDS = ((4, 1), (14, 10), (200, 200))  # wrong and right rows; few mistakes reach the last
_CELLS = 2**16  # logits that are computed at most for wrong rows, and for right ones
_PART = 0.9  # of wrong rows that a mistake has to lead to where they are NaN
_SHOWN, MOST_KINDS = 2, 8  # names that are shown; if more kinds lead to an output, none is said
_MOST_CHARACTERS = 2000  # of a line that makes a problem again
_NUMBER = re.compile(r"-?\d[\d.e+]*")
_SIZE = re.compile(r" \((?:blocks|\d)[^)]*\)")


@dataclass(frozen=True)
class Likeness:
    """A mistake that leads to every wrong row of an output."""

    sentence: str  # which mistake
    right: float  # the share of right rows that it leaves right

    @property
    def is_whole(self) -> bool:
        """Whether it leads to every row."""
        return self.right == 1.0

    def __str__(self) -> str:
        spoilt = "" if self.is_whole else f" wrong row, and spoils {1.0 - self.right:.0%} of right"
        return f"{self.sentence} (leads to every{spoilt or ' row'})"


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What is wrong with an output.

    Attributes:
        problem: what was computed
        out: (B, H, T_q, d_v) the output
        model: the row of the model of floating point that the kernel claims, or None
        memory: how the kernel got its arrays, or None
        lse: what is wrong with log-sum-exps, or None where none were given
        has_out: False where log-sum-exps alone were given: `out` is then what it should be
        max_logit: what is wrong with largest logits, or None where none were given
        stored: the format of an output in float8, and its scales, or None
    """

    problem: Problem
    out: Array
    model: str | None = None
    memory: Memory | None = None
    lse: LseReport | None = None
    has_out: bool = True
    max_logit: "LogitReport | None" = None
    stored: "tuple[Format, Array] | None" = None

    @cached_property
    def wrong(self) -> Booleans:
        """Rows that differ, (B, H, T_q)."""
        answer = self.problem.answer

        def differs(out: Array) -> Booleans:
            with np.errstate(invalid="ignore"):
                near = np.abs(out - answer.expected) <= answer.slack
                if self.stored is not None:
                    low, high = _stored_ends(self.problem, *self.stored)
                    near = (low <= out) & (out <= high)
            nan = np.isnan(answer.expected) & np.isnan(out)
            return answer.checked & ~(near | nan).all(-1)

        found = differs(self.out)
        if found.any():  # answers are rounded: of an output of more bits, the nearest numbers count
            found &= differs(nearest(self.out, self.problem.spec.output))
        return found

    @property
    def passed(self) -> bool:
        """Whether every row that is checked is right, its log-sum-exp and its largest logit."""
        return not self.wrong.any() and all(each.passed for each in self._beside)

    @property
    def first(self) -> tuple[int, ...] | None:
        """The first wrong row: sequence, head, query."""
        if self.wrong.any():
            return first_place(self.wrong)
        return next((each.first for each in self._beside if not each.passed), None)

    @property
    def _beside(self) -> "list[LseReport | LogitReport]":
        """Reports on what was returned beside the output."""
        return [each for each in (self.lse, self.max_logit) if each is not None]

    @property
    def _described(self) -> "Description | LseReport | LogitReport":
        wrong = [] if self.wrong.any() else [each for each in self._beside if not each.passed]
        return wrong[0] if wrong else self.description

    @property
    def suggestion(self) -> str:
        """What to look at next, where this is the `report` of an error."""
        return "diagnose(reports) compares all problems; examine(problem, out) is a report"

    @cached_property
    def description(self) -> Description:
        """Where and how it is wrong."""
        return Description(Facts(self.problem, self.out, self.wrong), self._is_beside_nan)

    @property
    def _is_beside_nan(self) -> bool:
        """Whether the kernel was given memory that has NaN in places that it must not read."""
        if isinstance(self.memory, Pool):
            return bool(np.isnan(self.memory.k).any())
        if not isinstance(self.memory, str):
            return False
        return bool(np.isnan(PLACES[self.memory].whole(np.zeros((1, 1, 1, 1)))).any())

    @property
    def where(self) -> str:
        """Which rows are wrong, in words; "" if every row is right."""
        return "" if self.passed else self._described.where

    @property
    def how(self) -> tuple[str, ...]:
        """How they are wrong, in words, the most frequent way first; () if every row is right."""
        return () if self.passed else self._described.how

    @property
    def is_odd(self) -> bool:
        """Whether most wrong rows are NaN or infinite."""
        finite = np.isfinite(self.out).all(-1) & self.wrong
        return bool(2 * finite.sum() < self.wrong.sum())

    @property
    def explanations(self) -> tuple[Likeness, ...]:
        """Mistakes that lead to the output, the best first; none if more than eight kinds do."""
        kinds = of_kinds(each.sentence for each in self.leading)
        return self.leading if len(kinds) <= MOST_KINDS else ()

    @cached_property
    def leading(self) -> tuple[Likeness, ...]:
        """All mistakes that lead to the output and leave as many right rows right as any does.

        None if all wrong rows are zero or not finite: much leads to these.
        """
        known: Mapping[str, Change] = {}
        found: list[Likeness] = []
        for turn, count in enumerate(_ROUNDS if self._is_told else ()):
            sample = self._sample(*count)
            known = known if turn else mistakes(sample.rows)
            shares = ((name, *sample.shares(change)) for name, change in known.items())
            found = [Likeness(name, right) for name, wrong, right in shares if wrong == 1.0]
            known = {each.sentence: known[each.sentence] for each in found}
        found.sort(key=lambda each: -each.right)
        best = max((each.right for each in found), default=1.0)
        return tuple(each for each in found if each.right == best)

    def agrees(self, stems: set[str]) -> set[str]:
        """Return the sentences, but for sizes, of mistakes that lead to this output.

        Nothing is asked of a right output for which a mistake has no meaning. Rows that are wrong
        by no more than roundings of a mistake count as right ones.

        Args:
            stems: sentences without sizes
        """
        sample = self._sample(*_ROUNDS[-1])
        sample = replace(sample, wrong=sample.told)
        is_right = not sample.wrong.any()
        least = _PART if self.is_odd and not is_right else 1.0
        found, known = set[str](), set[str]()
        for name, change in mistakes(sample.rows).items():
            bare = stem(name)
            if bare in stems and bare not in found:
                known.add(bare)
                wrong, right = sample.shares(change)
                if wrong >= least and right == 1.0:
                    found.add(bare)
        return found | (stems - known if is_right else set())

    @cached_property
    def _real(self) -> tuple[Booleans, Booleans]:
        """Wrong rows and right ones that see a key, (B, H, T_q) each."""
        real = self.problem.answer.checked & ~self.problem.answer.empty
        return self.wrong & real, ~self.wrong & real

    @cached_property
    def _told(self) -> Booleans:
        """Rows that are wrong by more than the roundings that a mistake may be off by."""
        with np.errstate(invalid="ignore"):
            same = _same_rows(self.out, self.problem.expected, self.problem.spec.output)
        return self.wrong & ~same

    @property
    def is_beyond_rounding(self) -> bool:
        """Whether some row is wrong by more than roundings."""
        return bool(self._told.any())

    def _sample(self, wrong: int, right: int) -> "_Sample":
        """Return some rows of each kind."""
        most = max(10, _CELLS // self.problem.spec.keys)
        of_wrong, of_right = self._real
        told = of_wrong & self._told
        counts = ((told, wrong), (of_wrong & ~told, wrong), (of_right, right))
        parts = [_spread(np.argwhere(rows), min(count, most)) for rows, count in counts]
        rows = Rows(self.problem, np.concatenate(parts), self.memory)
        out, expected = rows.of(self.out), rows.of(self.problem.expected)
        return _Sample(rows, out, expected, rows.of(self.wrong), rows.of(self._told))

    @property
    def _is_told(self) -> bool:
        """Whether some wrong row has numbers."""
        rows = self.out[self._real[0]]
        return bool((np.isfinite(rows).all(-1) & (rows != 0.0).any(-1)).any())

    @property
    def lines(self) -> list[str]:
        """The report, line by line: at most twelve."""
        checked = int(self.problem.answer.checked.sum())
        coverage = (
            f"coverage: {100 * self.problem.guarded:.0f}% of hidden keys would change the answer "
            f"if they leaked, {100 * self.problem.checked:.0f}% of rows are checked"
        )
        of_lse = [line for each in self._beside for line in each.lines]
        if not self.wrong.any():
            right = [f"{self.problem}: {checked} rows are right"] if self.has_out else []
            again = [] if self.passed else [f"again: {repeated(self.problem)}"]
            return [*right, *of_lse, coverage, *again]
        by_name = {each.sentence: each for each in self.explanations}
        kinds = of_kinds(by_name)
        return [
            f"{self.problem}: {int(self.wrong.sum())} of {checked} rows are wrong",
            f"WHERE: {self.where}",
            *(f"HOW: {line}" for line in self.how),
            *(f"LIKE: {by_name[words]}" for words in kinds[:_SHOWN]),
            *[f"and {len(kinds) - _SHOWN} more: report.explanations"] * (len(kinds) > _SHOWN),
            f"for example {self.description.example}",
            *of_lse[:1],
            coverage,
            f"again: {repeated(self.problem)}",
        ]

    @property
    def model_lines(self) -> tuple[str, ...]:
        """What is assumed of a kernel: to be said once, at the end of a run."""
        outside = "a value outside proves that the kernel left the model of exact outputs: "
        found = [outside + sentence(self.problem.spec)]
        if self.model in KERNEL_MODELS:
            claimed = KERNEL_MODELS[self.model].describe()
            found.append(f"the kernel claims the model {self.model!r}: {claimed}")
        return tuple(found)

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


@dataclass(frozen=True, eq=False)
class _Sample:
    """Some rows of an output: what they are, should be, and which are wrong."""

    rows: Rows
    out: Array
    expected: Array
    wrong: Booleans
    told: Booleans  # those that are wrong by more than the roundings that a mistake may be off by

    @cached_property
    def away(self) -> Array:
        """How far rows are from the right ones, (R,)."""
        with np.errstate(all="ignore"):
            return np.asarray(np.abs(self.expected - self.out).max(-1))

    def shares(self, change: Change) -> tuple[float, float]:
        """Return the shares of wrong rows that a mistake leads to, and of right ones it keeps."""
        wrong = self.wrong
        told = self.told if self.told.any() else wrong
        with np.errstate(all="ignore"):
            other = attention(self.rows, change)
            # A mistake that is not nearer than what is right explains nothing.
            nearer = ~(np.abs(other - self.out).max(-1) >= self.away / 2.0)
            if np.count_nonzero(nearer & told) < _PART * np.count_nonzero(told):
                return 0.0, 0.0
            same = _same_rows(self.out, other, self.rows.problem.spec.output)
        kept = float(same[~wrong].mean()) if not wrong.all() else 1.0
        leads = same & (nearer | ~told)
        return float(leads[wrong].mean()) if wrong.any() else 1.0, kept


# Outputs in float8: what is known is rounded as the format does. With a scale that is not a power
# of two, or where an average is rounded before, the number that is rounded may be a little off.
_BEFORE = 2.0**-7


def _stored_ends(problem: Problem, form: Format, scale: Array) -> tuple[Array, Array]:
    """Return the least and the largest output that is stored in a format, times its scale."""
    answer = problem.answer
    inexact = (np.frexp(scale)[0] != 0.5) | (answer.slack > 0.0)  # noqa: PLR2004 - 2^k
    off = answer.slack + np.where(inexact, _BEFORE, 0.0) * np.abs(answer.expected)
    low, high = (
        nearest(np.asarray((answer.expected + sign * off) / scale), form) * scale
        for sign in (-1.0, 1.0)
    )
    return low, high


def _stored(
    problem: Problem, out: object, scale: object, layout: str | None
) -> tuple[Format, Array] | None:
    """Return the format and the scales, (B, H, T_q, d_v), of an output in float8, or None."""
    name = str(getattr(out, "dtype", "")).removeprefix("torch.")
    if not name.startswith("float8"):
        if scale is not None:
            raise ParameterError(
                f"out_scale is for an output in float8, not in {name or type(out).__name__}",
                witness=name,
                suggestion="the stored numbers as an array or tensor of float8",
            )
        return None
    form = format_of(name)
    shape = tuple(getattr(out, "shape", ()))
    given = np.asarray(1.0 if scale is None else as_float64(scale, "out_scale"))
    given = given.reshape((1,) * (len(shape) - given.ndim) + given.shape)
    if given.ndim != len(shape) or any(n % m for n, m in zip(shape, given.shape, strict=True)):
        raise ParameterError(
            f"out_scale of shape {given.shape} has no parts of the output's {shape}",
            witness=given.shape,
            suggestion="one number, or an axis for each of the output's, 1 or a part of it: "
            "(tokens, heads, value_dim // 128) for groups of 128",
        )
    for axis, (n, m) in enumerate(zip(shape, given.shape, strict=True)):
        given = given.repeat(n // m, axis)
    whole = np.nan_to_num(arranged(problem, given, layout), nan=1.0)
    most = float(np.nan_to_num(np.abs(problem.expected) / whole).max())
    if most > form.largest:
        raise ParameterError(
            f"{name} ends at {form.largest:g}, and an output over its scale is {most:g}",
            witness=most,
            suggestion="a larger scale",
        )
    return form, whole


def _same_rows(out: Array, other: Array, form: Format) -> Booleans:
    """Return rows that a mistake leads to, but for a few roundings.

    Where it leads to NaN, a kernel may have 0: many ask for a sum > 0 before they divide.
    """
    close = 2.0 ** (2 - min(form.digits, 18))
    near = np.abs(out - other) <= close * np.maximum(np.abs(other), 2.0**-6)
    near &= (out != 0.0) | (np.abs(other) <= form.smallest)  # what is tiny is not 0
    odd = ~np.isfinite(other)
    same = ((~odd & near) | (odd & ~np.isfinite(out))).all(-1)
    return np.asarray(same | (odd.all(-1) & (out == 0.0).all(-1)))


def of_kinds(names: Iterable[str]) -> tuple[str, ...]:
    """Return one of all sentences that differ in numbers alone, such as sizes of blocks."""
    kinds: dict[str, str] = {}
    for name in names:
        kinds.setdefault(_NUMBER.sub("#", name), name)
    return tuple(kinds.values())


def stem(name: str) -> str:
    """Return a sentence without sizes of blocks and splits: other shapes may have others."""
    return _SIZE.sub("", name)


def _spread(rows: Integers, count: int) -> Integers:
    """Return some rows, spread over all by a stride that has nothing in common with sizes."""
    if len(rows) <= count:
        return rows
    at = (np.arange(count) * 0.6180339887 % 1.0 * len(rows)).astype(int)
    return np.asarray(rows[np.unique(at)])


def repeated(problem: Problem) -> str:
    """Return the line of Python that makes a problem again."""
    own = ((each.name, getattr(problem.spec, each.name), each.default) for each in fields(Spec))
    given = ", ".join(f"{name}={value!r}" for name, value, default in own if value != default)
    made = f"Problem.build(Spec({given}), {problem.case!r})"
    line = " ".join((problem.encoded or "{}").format(made).split())
    return line if len(line) <= _MOST_CHARACTERS else "error.report.problem, whose mask is large"


class Finding(Protocol):
    """A report on an output, or on gradients."""

    @property
    def first(self) -> tuple[object, ...] | None:
        """The first row that is wrong."""

    @property
    def suggestion(self) -> str:
        """What to look at next, where it is the `report` of an error."""


class KernelError(ConstructiveError, AssertionError):
    """A kernel returned what no evaluation of the named model returns.

    Attributes:
        report: what was found
    """

    def __init__(self, report: Finding) -> None:
        super().__init__(str(report), witness=report.first, suggestion=report.suggestion)
        self.report = report

    def __reduce__(self) -> tuple[type["KernelError"], tuple[Finding]]:
        """Processes send errors to each other."""
        return type(self), (self.report,)


def check(
    problem: Problem,
    out: object = None,
    *,
    lse: object = None,
    base: str = "e",
    layout: str | None = None,
    model: str | None = None,
    memory: Paged | Quantized | Pool | str | None = None,
    sink_in_lse: bool = True,
    fully_masked_lse: float = -math.inf,
    max_logit: object = None,
    out_scale: object = None,
) -> None:
    """Raise if an output, or a log-sum-exp, is not the one that every admissible kernel returns.

    Args:
        problem: what was computed
        out: the output, an array or a tensor; or None, where `lse` alone is to be checked
        lse: log-sum-exps: (B, H, T_q), (B, T_q, H), or packed, (H, tokens) or (tokens, H)
        base: of these: "e" or "2"
        layout: of the output, "BHTd", "BTHd" or "packed"; by default the one whose shape it has,
            and "BHTd" where there are as many heads as queries: say "BTHd" then, if it is
        model: the row of the model of floating point that the kernel claims, a key of
            `exact.kernel_model.KERNEL_MODELS`; one that stores logits may return a rougher `lse`
        memory: how the kernel got its tensors, so that the message can name mistakes about it: the
            `Paged` or `Quantized` that it read, what was passed as `placed=`, or the `memory` of a
            report
        sink_in_lse: whether a sink counts in `lse`
        fully_masked_lse: `lse` of a row that sees no key: -inf, or inf, 0.0 and so on
        max_logit: the largest logit of a visible key, without sinks: of rows (B, H, T_q), or of all
            rows of a head, (B, H) or (H,)
        out_scale: of an output in float8, which is the stored numbers times it: a number, or an
            array of the output's axes, each 1 or a part of it, as for groups of columns

    Raises:
        KernelError: an `AssertionError` that says where and how it is wrong
        ParameterError: if the output has another shape, or `memory`, `base` or `model` is not known

    Example:
        >>> from constructive.kernels.spec import Spec
        >>> problem = Problem.build(Spec(queries=3, keys=5, head_dim=16))
        >>> check(problem, problem.expected, lse=problem.lse.expected)
    """
    __tracebackhide__ = True
    report = examine(
        problem, out, lse=lse, base=base, layout=layout, model=model, memory=memory,
        sink_in_lse=sink_in_lse, fully_masked_lse=fully_masked_lse, max_logit=max_logit,
        out_scale=out_scale,
    )  # fmt: skip
    if not report.passed:
        raise KernelError(report)


def examine(
    problem: Problem,
    out: object = None,
    *,
    lse: object = None,
    base: str = "e",
    layout: str | None = None,
    model: str | None = None,
    memory: Paged | Quantized | Pool | str | None = None,
    sink_in_lse: bool = True,
    fully_masked_lse: float = -math.inf,
    max_logit: object = None,
    out_scale: object = None,
) -> Report:
    """Return the report on an output, also where it is right; `check` says more on arguments.

    Args:
        problem: what was computed
        out: the output, or None
        lse: log-sum-exps, or None
        base: of these
        layout: of the output
        model: the row of the model of floating point that the kernel claims
        memory: how the kernel got its tensors
        sink_in_lse: whether a sink counts in `lse`
        fully_masked_lse: `lse` of a row that sees no key
        max_logit: largest logits, or None
        out_scale: scales of an output in float8

    Raises:
        ParameterError: if the output has another shape, `memory`, `base` or `model` is not known,
            or the first argument is not a problem

    Example:
        >>> from constructive.kernels.spec import Spec
        >>> problem = Problem.build(Spec(queries=3, keys=5, head_dim=16))
        >>> examine(problem, problem.expected).passed
        True
    """
    if not isinstance(problem, Problem):
        raise ParameterError(
            f"{with_article(type(problem).__name__)} is not a problem",
            witness=type(problem).__name__,
            suggestion="check(problem, out) with a problem of `battery`",
        )
    if model is not None:
        kernel_model_named(model)
    require_known("base", base, BASES)
    if isinstance(memory, Paged):
        source: Memory | None = memory.pool
    else:
        if memory is None and problem.is_strided(type(out).__module__.partition(".")[0]):
            memory = "strided"
        if memory is not None and not isinstance(memory, (Pool, Quantized)):
            require_known("memory", memory, PLACES)
        source = memory
    of_lse = None
    if lse is not None:
        wanted = expected_lse(
            problem.spec, problem.draft, problem.answer, problem.sinks, base=base,
            sink_in_lse=sink_in_lse, fully_masked_lse=fully_masked_lse, model=model,
        )  # fmt: skip
        of_lse = LseReport(problem, _arranged_lse(problem, as_float64(lse, "the lse")), wanted)
    has_out = out is not None or (lse is None and max_logit is None)
    found = arranged(problem, as_float64(out), layout) if has_out else problem.expected
    stored = _stored(problem, out, out_scale, layout)
    if stored is not None:
        found = found * stored[1]
    of_logits = None
    if max_logit is not None:
        found_logit = as_float64(max_logit, "max_logit")
        logit = expected_logits(problem.spec, problem.draft, problem.answer, model)
        of_logits = LogitReport.of(problem, found_logit, *logit)
    return Report(problem, found, model, source, of_lse, has_out, of_logits, stored)


def _arranged_lse(problem: Problem, lse: Array) -> Array:
    """Return log-sum-exps in the layout (B, H, T_q)."""
    spec = problem.spec
    heads, tokens = spec.heads[0], int(spec.rows().sum())
    if lse.shape == (heads, tokens):  # as kernels of packed tokens have it
        if heads == tokens > 1:
            raise ParameterError(
                f"the lse has shape {lse.shape}, which may be (heads, tokens) or (tokens, heads)",
                witness=lse.shape,
                suggestion="lse in the shape (B, H, T_q)",
            )
        lse = lse.T
    shapes = {each[:-1] for each in _shapes(spec, 1).values()}
    if lse.shape not in shapes:
        raise ParameterError(
            f"the lse has shape {lse.shape}, not {(spec.batch, spec.heads[0], spec.queries)} "
            "(B, H, T_q)",
            witness=lse.shape,
            suggestion="the log-sum-exps of all sequences, heads and queries",
        )
    return arranged(problem, lse[..., None], None, width=1)[..., 0]


def _shapes(spec: Spec, width: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of outputs in each layout."""
    return {
        "BHTd": (spec.batch, spec.heads[0], spec.queries, width),
        "BTHd": (spec.batch, spec.queries, spec.heads[0], width),
        "packed": (int(spec.rows().sum()), spec.heads[0], width),
    }


def arranged(
    problem: Problem, out: Array, layout: str | None, *, width: int | None = None
) -> Array:
    """Return an output in the layout (B, H, T_q, d_v), or one of another width."""
    spec = problem.spec
    shapes = _shapes(spec, spec.d_v if width is None else width)
    if layout is not None:
        require_known("layout", layout, LAYOUTS)
    names = shapes if layout is None else (layout,)
    for name in names:
        if out.shape == shapes[name]:
            return np.asarray(from_layout(spec, out, name))
    raise ParameterError(
        f"the output has shape {out.shape}, not {' or '.join(str(shapes[name]) for name in names)}",
        witness=out.shape,
        suggestion="the output for all sequences, heads and queries",
    )
