"""Gradients of attention: exact for rows with one winner, within a few roundings for shared rows.

Where a row has one winner, its weight is 1 and its gradient vanishes: so dv of a key is the sum of
the output's gradients of the rows that read it, and dq = dk = 0 up to weights that are not quite 0.

Where keys share a row, weights are 1 / 2^m or so, and gradients are within an interval that
Proposition 19.4 proves. P, O, dP and dS may be stored with errors of u, and sums have any order. dP
and D = sum dO O are sums of positive numbers, so dS_j = P_j (dP_j - D) is off by at most
theta P_j (dP_j + D). A near key, whose weight depends on the scale, adds how far that may be off,
and a soft cap how far its slope may be.
"""

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from constructive.kernels.answer import LOGIT_ERROR, near_weight
from constructive.kernels.checking import KernelError
from constructive.kernels.formats import as_float64
from constructive.kernels.hypotheses import LARGEST_VALUE
from constructive.kernels.mistakes.bench import Made
from constructive.kernels.mistakes.gradient_bench import GradientBench
from constructive.kernels.mistakes.gradients import gradients
from constructive.kernels.problem import Problem
from constructive.support.arrays import Array, Booleans
from constructive.support.errors import ParameterError

ZERO = 2.0**-60  # What is as good as zero: weights exp(-64), times products of inputs
_TANH = 2.0**-8  # How far the slope of a soft cap may be off by the error of its tanh
_LARGEST = float(np.finfo(np.float32).max)
_NEARLY_TOO_LARGE = 2.0**-20 * _LARGEST
_MOST_ROWS, _MOST_NAMES = 6, 4


@dataclass(frozen=True, eq=False)
class Backward:
    """The gradient of an output, and what follows from it.

    Attributes:
        problem: the forward problem
        d_out: (B, H, T_q, d_v) gradient of the output: a code for each row that is used, else 0
        dq: (B, H, T_q, d) expected; 0 where all rows have one winner
        dk: (B, G, T_k, d) expected; 0 where all rows have one winner
        dv: (B, G, T_k, d_v) expected
        slack: how far each of the three may be away
    """

    problem: Problem
    d_out: Array
    dq: Array
    dk: Array
    dv: Array
    slack: tuple[Array, Array, Array]

    @classmethod
    def of(cls, problem: Problem) -> "Backward":
        """Return the backward problem of a forward one.

        Args:
            problem: one whose winners are at 0, or under a soft cap; without slopes

        Raises:
            ParameterError: if rows without keys are NaN, or gradients are not known

        Example:
            >>> from constructive.kernels.spec import Spec
            >>> backward = Backward.of(Problem.build(Spec(queries=3, keys=5, head_dim=16), "first"))
            >>> bool((backward.dv[:, :, 0] == backward.d_out.sum(2)).all())
            True
        """
        spec, answer = problem.spec, problem.answer
        if spec.alibi or (problem.draft.level and spec.soft_cap is None):
            raise ParameterError(
                "gradients are known at a level of 0 or under a soft cap, without slopes",
                witness=str(problem),
                suggestion="another spec or case",
            )
        if problem.v.max() > LARGEST_VALUE:
            raise ParameterError(
                f"gradients are known for values up to {LARGEST_VALUE:g}",
                witness=float(problem.v.max()),
                suggestion="another case",
            )
        if answer.empty.any() and spec.fully_masked == "nan":
            raise ParameterError(
                "rows without a visible key are NaN, and so are gradients",
                witness=int(answer.empty.sum()),
                suggestion="fully_masked='zeros' or 'mean'",
            )
        seen = answer.checked & ~answer.empty
        one = seen & (answer.slack == 0.0).all(-1) & (answer.weights.sum(-1) == 1.0)
        if problem.sinks is not None:
            one &= (problem.sinks != 0.0)[:, None]
        is_exact = bool(one.any() and np.array_equal(one, seen)) and spec.soft_cap is None
        used = _at_most(problem, one if is_exact else seen, 2 ** (spec.output.digits - 2))
        if not used.any():
            raise ParameterError(
                "no row of this problem is checked", witness=str(problem), suggestion="another case"
            )
        random = np.random.default_rng((spec.seed, 13))
        d_out = np.exp2(random.integers(0, 2, problem.expected.shape)) * used[..., None]
        if is_exact:
            weights = answer.weights * used[..., None]
            dv = GradientBench(problem, np.arange(spec.queries), d_out).summed(
                weights.swapaxes(-1, -2) @ d_out
            )
            dq, dk = np.zeros_like(problem.q), np.zeros_like(problem.k)
            slack = tuple(np.full_like(each, ZERO) for each in (dq, dk, dv))
            return cls(problem, d_out, dq, dk, dv, (slack[0], slack[1], slack[2]))
        return cls(problem, d_out, *_shared(problem, d_out))

    def check(self, dq: object, dk: object, dv: object) -> None:
        """Raise if gradients are not those of every admissible kernel.

        Args:
            dq: (B, H, T_q, d)
            dk: (B, G, T_k, d)
            dv: (B, G, T_k, d_v)

        Raises:
            KernelError: with the diagnosis
            ParameterError: if a gradient has another shape
        """
        found = []
        for name, given, wanted in zip(
            ("dq", "dk", "dv"), (dq, dk, dv), (self.dq, self.dk, self.dv), strict=True
        ):
            array = as_float64(given)
            if array.shape != wanted.shape:
                raise ParameterError(
                    f"{name} has shape {array.shape}, not {wanted.shape}",
                    witness=array.shape,
                    suggestion="(batch, heads, tokens, d)",
                )
            found.append(array)
        report = BackwardReport(self, *found)
        if not report.passed:
            raise KernelError(report)


def _shared(
    problem: Problem, d_out: Array
) -> tuple[Array, Array, Array, tuple[Array, Array, Array]]:
    """Return expected gradients where keys share rows, and how far they may be away."""
    spec, answer = problem.spec, problem.answer
    bench = GradientBench(problem, np.arange(spec.queries), d_out)
    used = d_out.any(-1, keepdims=True)
    total = _total(problem)
    p = np.where(used, answer.weights / total, 0.0)
    alone = (d_out * np.where(used, np.nan_to_num(problem.expected), 0.0)).sum(-1, keepdims=True)
    rest = d_out @ bench.values.swapaxes(-1, -2)
    slope = bench.slope
    score = p * (rest - alone) * slope
    longest = max(spec.keys, spec.queries * spec.group, spec.d_v)
    theta = 8.0 * 2.0 ** -min(spec.output.digits, 24) + 2.0**-18 + longest * 2.0**-21
    part, ends = near_weight(spec, problem.draft)
    # A share w / (o + c w) moves by less than w does, as the winner's weight is in o.
    share, faint = max(abs(end - part) for end in ends), _faint(problem)
    kept = (answer.weights > 0.0) & used
    more = (1.0 + theta) * (share * kept + faint * (bench.visible & used))
    moved = (share + spec.keys * faint) * rest.max(-1, keepdims=True)
    most = rest + alone + moved
    steep = _steepness(problem, bench)
    off = (theta * p * most + more * most + (1.0 + theta) * p * moved) * (slope + steep)
    off = off + (1.0 + theta) * p * np.abs(rest - alone) * steep
    scale, q, k = spec.factor, problem.q, bench.keys
    expected = (
        score @ k * scale,
        bench.summed(score.swapaxes(-1, -2) @ q * scale),
        bench.summed(p.swapaxes(-1, -2) @ d_out),
    )
    sized = off + theta * np.abs(score)
    slack = (
        sized @ np.abs(k) * scale + ZERO,
        bench.summed(sized.swapaxes(-1, -2) @ np.abs(q) * scale) + ZERO,
        bench.summed((more + 2.0 * theta * p).swapaxes(-1, -2) @ d_out) + ZERO,
    )
    return *expected, slack


def _steepness(problem: Problem, bench: GradientBench) -> Array | float:
    """Return how far the slope of the soft cap may be off, (B, H, T_q, T_k): its ends, as it falls.

    A logit is off by a part of its size, and tanh by a part of its own.
    """
    cap = problem.spec.soft_cap
    if cap is None:
        return 0.0
    ends = [
        1.0 - np.tanh(bench.raw * (problem.spec.factor / cap * (1.0 + sign * LOGIT_ERROR))) ** 2
        for sign in (-1.0, 1.0)
    ]
    found: Array = np.maximum(*(np.abs(end - bench.slope) for end in ends)) + _TANH
    return found


def _faint(problem: Problem) -> float:
    """Return the weight of a key that is far below the winner: not 0 under a soft cap."""
    cap = problem.spec.soft_cap
    if cap is None:
        return 0.0
    level = cap * math.tanh(problem.draft.level * problem.spec.factor / cap)
    return math.exp(-0.999 * (cap + level))


def _total(problem: Problem) -> Array:
    """Return the sum of weights of rows, sinks among them, (B, H, T_q, 1)."""
    total: Array = problem.answer.weights.sum(-1, keepdims=True)
    if problem.sinks is not None:
        level = problem.draft.level * problem.spec.factor
        total = total + (problem.sinks == level)[:, None, None]
    return np.where(total > 0.0, total, 1.0)


@dataclass(frozen=True, eq=False)
class BackwardReport:
    """What is wrong with gradients."""

    backward: Backward  # what was computed
    dq: Array  # (B, H, T_q, d)
    dk: Array  # (B, G, T_k, d)
    dv: Array  # (B, G, T_k, d_v)

    @cached_property
    def wrong(self) -> dict[str, Booleans]:
        """Rows that differ, of each gradient."""
        wanted = self.backward.dq, self.backward.dk, self.backward.dv
        with np.errstate(invalid="ignore"):
            return {
                name: _beyond(found - each, slack)
                for name, found, each, slack in zip(
                    ("dq", "dk", "dv"), (self.dq, self.dk, self.dv), wanted, self.backward.slack,
                    strict=True,
                )
            }  # fmt: skip

    @property
    def passed(self) -> bool:
        """Whether every row of every gradient is right."""
        return not any(rows.any() for rows in self.wrong.values())

    @property
    def first(self) -> tuple[object, ...] | None:
        """The first wrong row: gradient, sequence, head, token."""
        for name, rows in self.wrong.items():
            if rows.any():
                return name, *(int(index) for index in np.argwhere(rows)[0])
        return None

    @property
    def suggestion(self) -> str:
        """What to look at next, where this is the `report` of an error."""
        return "error.report.wrong[name] tells which rows differ, for the names dq, dk and dv"

    @cached_property
    def explanations(self) -> tuple[str, ...]:
        """The mistakes that lead to these gradients."""
        problem, d_out = self.backward.problem, self.backward.d_out
        sizes = np.cumsum([self.dq.size, self.dk.size])
        found = np.concatenate([self.dq.ravel(), self.dk.ravel(), self.dv.ravel()])
        bench = GradientBench(problem, np.arange(problem.spec.queries), d_out)
        with np.errstate(all="ignore"):
            made = [*_dv_alone(self.backward), *gradients(bench)]
            close = 2.0 ** (2 - min(problem.spec.output.digits, 18))
            slack = np.concatenate([each.ravel() for each in self.backward.slack])
            return tuple(
                name for name, each in made if _is_same(found, each(), slack, sizes, close)
            )

    def _row(self, place: tuple[int, int, int]) -> str:
        """Say what a row of dv has or lacks, by the codes of rows of the output's gradient."""
        batch, head, key = place
        where = f"dv of batch {batch} KV head {head} key {key}"
        difference = self.dv[place] - self.backward.dv[place]
        if not np.isfinite(difference).all():
            return f"{where} has NaN or infinite entries"
        group = self.backward.problem.spec.group
        codes = self.backward.d_out[:, head * group : (head + 1) * group]
        for sign, word in ((-1.0, "lacks"), (1.0, "has, beside its own,")):
            found = np.argwhere((codes == sign * difference).all(-1) & codes.any(-1))
            if len(found):
                b, h, i = (int(index) for index in found[0])
                return f"{where} {word} query {i} of batch {b} head {head * group + h}"
        return f"{where} is off by {np.abs(difference).max():.3g}"

    @property
    def lines(self) -> list[str]:
        """The report, line by line."""
        found = [f"backward of {self.backward.problem}"]
        for name, rows in self.wrong.items():
            if rows.any():
                found.append(f"{name}: {int(rows.sum())} of {rows.size} rows are wrong")
        blank = int((self.wrong["dq"] & self.backward.problem.answer.empty).sum())
        if blank:
            found.append(f"{blank} queries that see no key have a gradient in dq")
        for index, name in enumerate(self.explanations[:_MOST_NAMES]):
            word = "DIAGNOSIS" if index == 0 else "       or"
            found.append(f"{word}: {name} (explains every row)")
        places = [
            (int(b), int(g), int(j)) for b, g, j in np.argwhere(self.wrong["dv"])[:_MOST_ROWS]
        ]
        found.extend(self._row(place) for place in places)
        for name, array, wanted in (
            ("dq", self.dq, self.backward.dq), ("dk", self.dk, self.backward.dk),
        ):  # fmt: skip
            if self.wrong[name].any():
                place = tuple(int(index) for index in np.argwhere(self.wrong[name])[0])
                most = float(np.abs(array - wanted)[place].max())
                found.append(f"{name} of batch, head, token {place} is off by {most:.3g}")
        return found

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


def _beyond(difference: Array, slack: Array) -> Booleans:
    found: Booleans = np.asarray(~(np.abs(difference) <= slack).all(-1))
    return found


def _is_same(found: Array, made: Array, slack: Array, sizes: Array, close: float) -> bool:
    """Return whether gradients are those of a mistake: numbers, and where they are not finite."""
    if made.shape != found.shape:  # an output: this mistake says nothing about gradients
        return False
    # Where numbers are nearly too large for float32, a kernel has infinite ones among them.
    overflows = float(np.abs(np.nan_to_num(made, posinf=np.inf)).max()) > _NEARLY_TOO_LARGE
    parts = (np.split(array, sizes) for array in (found, made, slack))
    for each, other, near in zip(*parts, strict=True):
        known = np.isfinite(other) & (np.abs(other) < _LARGEST)
        if (np.isfinite(each) & ~known).any():
            return False
        if overflows and 2 * np.isfinite(each).sum() > each.size:
            known &= np.isfinite(each)
        elif not np.array_equal(np.isfinite(each), known):
            return False
        most = float(np.abs(other[known]).max(initial=0.0))
        if (np.abs(each - other) > close * most + near)[known].any():
            return False
    return True


def _dv_alone(backward: Backward) -> list[tuple[str, Made]]:
    """Return mistakes about dv, with dq and dk as they should be."""
    right, spec = backward.dv, backward.problem.spec
    others = {
        "dv is summed over sequences": right.sum(0, keepdims=True) + 0.0 * right,
        "dv is multiplied by the scale": right * spec.factor,
    }
    first = np.concatenate([backward.dq.ravel(), backward.dk.ravel()])
    return [
        (name, partial(np.concatenate, [first, dv.ravel()]))
        for name, dv in others.items()
        if not np.array_equal(dv, right)
    ]


def _at_most(problem: Problem, rows: Booleans, count: int) -> Booleans:
    """Return rows of which at most `count` read the same key, so that sums are numbers."""
    spec = problem.spec
    shape = spec.batch, spec.heads[1], spec.group * spec.queries
    winner = problem.answer.weights.argmax(-1).reshape(shape)
    kept = rows.reshape(shape).copy()
    order = np.argsort(np.where(kept, winner, spec.keys), axis=-1, kind="stable")
    ordered = np.take_along_axis(winner, order, -1)
    start = np.concatenate([np.ones_like(ordered[..., :1]), np.diff(ordered, axis=-1)], -1) != 0
    place = np.arange(shape[-1])
    first = np.maximum.accumulate(np.where(start, place, 0), axis=-1)
    allowed = np.zeros(shape, dtype=np.bool_)
    np.put_along_axis(allowed, order, place - first < count, axis=-1)
    return (kept & allowed).reshape(rows.shape)
