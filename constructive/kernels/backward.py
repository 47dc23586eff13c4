"""Gradients of attention: exact for rows with one winner, within a few roundings for shared rows.

Where a row has one winner, its weight is 1 and its gradient vanishes: so dv of a key is the sum of
the output's gradients of the rows that read it, and dq = dk = 0 up to weights that are not quite 0
(Proposition 19.2).

Where keys share a row, weights are 1 / 2^m or so, and gradients are within an interval that
Proposition 19.5 proves. P, O, dP and dS may be stored with errors of u, and sums have any order. dP
and D = sum dO O are sums of positive numbers, so dS_j = P_j (dP_j - D) is off by at most
theta P_j (dP_j + D). A near key, whose weight depends on the scale, adds how far that may be off,
and a soft cap how far its slope may be.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from constructive.kernels.answer import LOGIT_ERROR, most_far, near_weight, operand_error
from constructive.kernels.checking import MOST_KINDS, KernelError, of_kinds
from constructive.kernels.facts import CLOSE, SIZES, separate
from constructive.kernels.gradients import NAMES, Matrices, names
from constructive.kernels.hypotheses import LARGEST_VALUE
from constructive.kernels.problem import Problem
from constructive.kernels.spec import as_float64
from constructive.support.arrays import Array, Booleans
from constructive.support.errors import ParameterError

_FAINT = 4.0  # Of a weight that is nearly 0, with the roundings of all that is made from it
_TANH = 2.0**-8  # How far the slope of a soft cap may be off by the error of its tanh
_MOST_NAMES = 3


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
        return cls(problem, d_out, *_gradients(problem, d_out, is_exact=is_exact))

    def check(self, dq: object, dk: object, dv: object) -> None:
        """Raise if gradients are not those of every admissible kernel.

        Args:
            dq: (B, H, T_q, d)
            dk: (B, G, T_k, d)
            dv: (B, G, T_k, d_v)

        Raises:
            KernelError: saying which gradient is wrong, where and how
            ParameterError: if a gradient has another shape
        """
        found = []
        for name, given, wanted in zip(
            NAMES, (dq, dk, dv), (self.dq, self.dk, self.dv), strict=True
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


def _gradients(
    problem: Problem, d_out: Array, *, is_exact: bool
) -> tuple[Array, Array, Array, tuple[Array, Array, Array]]:
    """Return expected gradients, and how far they may be away."""
    spec, answer = problem.spec, problem.answer
    bench = Matrices(problem, d_out)
    used = d_out.any(-1, keepdims=True)
    total = _total(problem)
    p = np.where(used, answer.weights / total, 0.0)
    alone = (d_out * np.where(used, np.nan_to_num(problem.expected), 0.0)).sum(-1, keepdims=True)
    rest = d_out @ bench.values.swapaxes(-1, -2)
    slope = bench.slope
    score = p * (rest - alone) * slope
    longest = max(spec.keys, spec.queries * spec.group, spec.d_v)
    unit = max(2.0 ** -min(spec.output.digits, 24), operand_error(spec))
    # Logarithms of sums of winners at a level have its size, and are rounded.
    level = (spec.soft_cap or 0.0) if problem.draft.level else 0.0
    theta = 0.0 if is_exact else 8.0 * unit + 2.0**-18 + longest * 2.0**-21 + level * 2.0**-20
    part, ends = near_weight(spec, problem.draft)
    # A share w / (o + c w) moves by less than w does, as the winner's weight is in o.
    share, faint = max(abs(end - part) for end in ends), _FAINT * most_far(spec)
    kept = answer.weights > 0.0
    more = (1.0 + theta) * np.where(kept, share, faint) * used
    moved = (share + faint * (~kept).sum(-1, keepdims=True)) * rest.max(-1, keepdims=True)
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
        sized @ np.abs(k) * scale,
        bench.summed(sized.swapaxes(-1, -2) @ np.abs(q) * scale),
        bench.summed((more + 2.0 * theta * p).swapaxes(-1, -2) @ d_out),
    )
    return *expected, slack


def _steepness(problem: Problem, bench: Matrices) -> Array | float:
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
                    NAMES, (self.dq, self.dk, self.dv), wanted, self.backward.slack,
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
        """The mistakes that lead to these gradients; none if more than eight kinds do."""
        if self.passed:
            return ()
        matrices = Matrices(self.backward.problem, self.backward.d_out)
        found = names(matrices, (self.dq, self.dk, self.dv), self.backward.slack, self.wrong)
        return tuple(found) if len(of_kinds(found)) <= MOST_KINDS else ()

    def _said(self, name: str) -> list[str]:
        """Say where a gradient is wrong, and how."""
        found, wanted, wrong = getattr(self, name), getattr(self.backward, name), self.wrong[name]
        head, token = ("head", "query") if name == "dq" else ("KV head", "key")
        b, h, i = np.ogrid[tuple(slice(n) for n in wrong.shape)]
        axes = {token: i, head: h, "sequence": b}
        known = {axis: np.broadcast_to(x, wrong.shape) for axis, x in axes.items()}
        known |= {f"{token} mod {n}": known[token] % n for n in SIZES if n <= 0.6 * wrong.shape[2]}
        words, share = separate(known, wrong, np.ones_like(wrong))
        where = f", {share:.0%} of those with {words}" if words else ""
        lines = [f"WHERE: {name}: {int(wrong.sum())} of {wrong.size} rows{where}"]
        if not np.isfinite(found[wrong]).any():
            return [
                *lines,
                f"HOW: {name} is NaN or infinite there; exp(S - lse) overflows where the backward "
                "pass sees keys that the forward pass did not",
            ]
        at = tuple(int(x) for x in np.argwhere(wrong)[0])
        slack = self.backward.slack[NAMES.index(name)]
        column = int(np.nan_to_num(np.abs(found - wanted)[at] - slack[at], nan=np.inf).argmax())
        with np.errstate(all="ignore"):
            ratio = (found / wanted)[wrong][np.abs(wanted[wrong]) > slack[wrong]]
            is_scaled = len(ratio) and np.ptp(ratio) <= CLOSE * np.abs(ratio).max()
        more = ""
        if not found[wrong].any():
            more = "; all of these rows are zero"
        elif is_scaled:
            more = f"; all of these rows are right, times {ratio.mean():.4g}"
        if name == "dv":
            more += self._row(at)
        return [
            *lines,
            f"HOW: {name} of sequence {at[0]}, {head} {at[1]}, {token} {at[2]}, column {column} is "
            f"{found[at][column]:.6g}, not {wanted[at][column]:.6g}{more}",
        ]

    def _row(self, place: tuple[int, ...]) -> str:
        """Say what a row of dv has or lacks, by the codes of rows of the output's gradient."""
        difference = self.dv[place] - self.backward.dv[place]
        group = self.backward.problem.spec.group
        codes = self.backward.d_out[:, place[1] * group : (place[1] + 1) * group]
        for sign, word in ((-1.0, "lacks"), (1.0, "has, beside its own,")):
            found = np.argwhere((codes == sign * difference).all(-1) & codes.any(-1))
            if len(found):
                b, h, i = (int(index) for index in found[0])
                return f"; it {word} query {i} of sequence {b}, head {place[1] * group + h}"
        return ""

    @property
    def lines(self) -> list[str]:
        """The report, line by line: at most twelve."""
        if self.passed:
            return [f"backward of {self.backward.problem}: all gradients are right"]
        bad = [name for name, rows in self.wrong.items() if rows.any()]
        are = "are" if len(bad) > 1 else "is"
        found = [f"backward of {self.backward.problem}: {', '.join(bad)} {are} wrong"]
        blank = int((self.wrong["dq"] & self.backward.problem.answer.empty).sum())
        if blank:
            found.append(f"HOW: {blank} queries that see no key have a gradient in dq")
        for name in bad:
            found.extend(self._said(name))
        like = of_kinds(self.explanations)[:_MOST_NAMES]
        return [*found, *(f"LIKE: {name} (leads to every row)" for name in like)]

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


def _beyond(difference: Array, slack: Array) -> Booleans:
    found: Booleans = np.asarray(~(np.abs(difference) <= slack).all(-1))
    return found


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
