"""Compare what a kernel returned with what every admissible kernel returns."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Protocol

import numpy as np

from constructive.exact.formats import FORMATS, Format, nearest
from constructive.exact.kernel_model import KERNEL_MODELS, kernel_model_named
from constructive.kernels.answer import BASES, Lse, expected_logits, expected_lse, sentence
from constructive.kernels.describe import Description, Facts, part_of, span
from constructive.kernels.encodings import Paged
from constructive.kernels.inputs import LAYOUTS, PLACES, from_layout
from constructive.kernels.problem import Problem
from constructive.kernels.spec import Spec, as_float64, format_of
from constructive.support.arrays import Array, Booleans, first_place
from constructive.support.errors import (
    ConstructiveError,
    ParameterError,
    require_known,
    with_article,
)

_MOST_CHARACTERS = 2000  # of a line that makes a problem again


# What is wrong with log-sum-exps: where, and which sum of their two parts they are.


_LSE_CLOSE = 2.0**-12  # of a sum of the parts of a log-sum-exp
_MOST_LOG = 60.0  # of what was added, as the logarithm of a number that is told
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
            (self.wrong & empty, self._empty),
            (self.wrong & ~empty & ~finite, lambda _: "are NaN or infinite"),
            (self.wrong & ~empty & finite, self._finite),
        ):  # fmt: skip
            if rows.any():
                who = "they" if rows.sum() == count else f"{part_of(rows.sum() / count)} of them"
                found.append(f"{who} {say(rows)}")
        if self.problem.sinks is not None:
            found.append("sink_in_lse= says whether a sink counts")
        return tuple(found)

    def _empty(self, rows: Booleans) -> str:
        values = ", ".join(f"{each:g}" for each in np.unique(self.lse[rows])[:3])
        asked = self.wanted.expected[rows][0]
        return f"see no key and are {values}, not {asked:g} (fully_masked_lse= says what is asked)"

    def _finite(self, rows: Booleans) -> str:
        found, wanted = self.lse[rows], self.wanted.expected[rows]
        if (np.abs(found - wanted) <= self._close(wanted)).all():
            return f"are right but for {np.abs(found - wanted).max():.2g}: some roundings more"
        for name in _SHORT:
            if (np.abs(nearest(wanted, FORMATS[name]) - found) <= self._close(wanted)).all():
                return f"are right but for a rounding to {name}"
        if self.parts is not None:
            return f"are {self._sum()} (L the logit of the winner, n the number of winners)"
        off = span(found - wanted)
        return f"are {span(found)}, and should be {span(wanted)}: they are off by {off}"

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
    def lines(self) -> list[str]:
        """The report, line by line."""
        checked = int(self.problem.answer.checked.sum())
        if self.passed:
            return [f"{self.problem}: {checked} log-sum-exps are right"]
        b, h, i = self.first
        wanted, level = self.wanted.expected[b, h, i], self.wanted.level[b, h, i]
        return [
            f"{self.problem}: {int(self.wrong.sum())} of {checked} log-sum-exps are wrong",
            f"WHERE: {self.where}",
            *(f"HOW: {line}" for line in self.how),
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
    least: Array  # what is known of all: the largest of the rows that are

    @classmethod
    def of(cls, problem: Problem, found: Array, wanted: Array, slack: Array) -> "LogitReport":
        """Return the report, of rows or of the largest of all rows of a head."""
        spec = problem.spec
        exists = np.broadcast_to(spec.rows()[:, None], wanted.shape)
        wanted = np.where(exists, wanted, -np.inf)
        slack = np.where(exists, slack, 0.0)
        least = np.where(np.isnan(wanted), -np.inf, wanted - slack)
        if found.ndim < wanted.ndim:
            axes = (2,) if found.shape == wanted.shape[:2] else (0, 2)
            wanted, slack, least = wanted.max(axes), slack.max(axes), least.max(axes)
        if found.shape != wanted.shape:
            rows = (spec.batch, spec.heads[0], spec.queries)
            raise ParameterError(
                f"max_logit has shape {found.shape}",
                witness=found.shape,
                suggestion=f"{rows} for rows, {rows[:2]} or {rows[1:2]} for heads",
            )
        return cls(problem, found, wanted, slack, least)

    @cached_property
    def wrong(self) -> Booleans:
        """Which of them no admissible kernel returns."""
        with np.errstate(invalid="ignore"):
            near = np.abs(self.found - self.wanted) <= self.slack
        open_above = np.isnan(self.wanted) & ((self.found >= self.least) | np.isneginf(self.least))
        return np.asarray(~(near | (self.found == self.wanted) | open_above))

    @property
    def where(self) -> str:
        """Which are wrong, in words."""
        return f"{int(self.wrong.sum())} of {self.wrong.size} largest logits"

    @property
    def how(self) -> tuple[str, ...]:
        """What they are, and should be."""
        known = np.fmax(self.wanted, self.least)
        found, wanted = span(self.found[self.wrong]), span(known[self.wrong])
        return (f"they are {found}, and should be {wanted}",)

    @property
    def lines(self) -> list[str]:
        """The report, line by line."""
        if self.passed:
            return [f"{self.problem}: {self.wrong.size} largest logits are right"]
        return [f"{self.problem}: {self.where} are wrong", *(f"HOW: {line}" for line in self.how)]


# What is wrong with an output.


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
    memory: Paged | str | None = None
    lse: LseReport | None = None
    has_out: bool = True
    max_logit: LogitReport | None = None
    stored: tuple[Format, Array] | None = None

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
    def _beside(self) -> list[LseReport | LogitReport]:
        """Reports on what was returned beside the output."""
        return [each for each in (self.lse, self.max_logit) if each is not None]

    @property
    def _described(self) -> Description | LseReport | LogitReport:
        wrong = [] if self.wrong.any() else [each for each in self._beside if not each.passed]
        return wrong[0] if wrong else self.description

    @property
    def suggestion(self) -> str:
        """What to look at next, where this is the `report` of an error."""
        return "diagnose(reports) compares all problems; examine(problem, out) is a report"

    @cached_property
    def description(self) -> Description:
        """Where and how it is wrong."""
        return Description(Facts(self.problem, self.out, self.wrong))

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
        return [
            f"{self.problem}: {int(self.wrong.sum())} of {checked} rows are wrong",
            f"WHERE: {self.where}",
            *(f"HOW: {line}" for line in self.how),
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


# Outputs in float8: what is known is rounded as the format does. With a scale that is not a power
# of two, or where an average is rounded before, the number that is rounded may be a little off.
_BEFORE = 2.0**-7


def _stored_ends(problem: Problem, form: Format, scale: Array) -> tuple[Array, Array]:
    """Return the least and the largest output that is stored in a format, times its scale."""
    answer = problem.answer
    inexact = (np.frexp(scale)[0] != 0.5) | (answer.slack > 0.0)  # noqa: PLR2004 - 2^k
    off = answer.slack + np.where(inexact, _BEFORE, 0.0) * np.abs(answer.expected)
    unit = np.where(scale == 0.0, 1.0, scale)  # of zeros, whose scale may be zero
    low, high = (
        nearest(np.asarray((answer.expected + sign * off) / unit), form) * scale
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
    # of rows that are not checked scales may be anything; elsewhere NaN stays, and is wrong
    whole = np.where(problem.answer.checked[..., None], arranged(problem, given, layout), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):  # a scale of zero, of zeros
        most = float(np.nan_to_num(np.abs(problem.expected) / whole).max())
    if most > form.largest:
        raise ParameterError(
            f"{name} ends at {form.largest:g}, and an output over its scale is {most:g}",
            witness=most,
            suggestion="a larger scale",
        )
    return form, whole


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
    memory: Paged | str | None = None,
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
        memory: how the kernel got its tensors, by which `diagnose` compares problems: the `Paged`
            that it read, or what was passed as `placed=`
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
    memory: Paged | str | None = None,
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
    if memory is None and problem.is_strided(type(out).__module__.partition(".")[0]):
        memory = "strided"
    if memory is not None and not isinstance(memory, Paged):
        require_known("memory", memory, PLACES)
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
        with np.errstate(over="ignore", invalid="ignore"):  # which is then wrong
            found = found * stored[1]
    of_logits = None
    if max_logit is not None:
        found_logit = as_float64(max_logit, "max_logit")
        logit = expected_logits(problem.spec, problem.draft, problem.answer, model)
        of_logits = LogitReport.of(problem, found_logit, *logit)
    return Report(problem, found, model, memory, of_lse, has_out, of_logits, stored)


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
