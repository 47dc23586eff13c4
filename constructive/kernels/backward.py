"""Gradients of attention: exact for rows with one winner, within a few roundings for shared rows.

Page 26 of the proofs (Propositions 26.1 and 26.2, Theorem 24) says what gradients are, and how far
those of an admissible backward pass may be away; `_Steps` has their numbers.
"""

import logging
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np

from constructive.kernels.answer import (
    LARGEST_VALUE,
    beside,
    most_far,
    near_weight,
    operand_error,
)
from constructive.kernels.cases import LOGIT_ERROR
from constructive.kernels.checking import KernelError, repeated
from constructive.kernels.describe import CLOSE, LARGEST, SIZES, separate
from constructive.kernels.problem import Problem
from constructive.kernels.spec import as_float64
from constructive.support.arrays import Array, Booleans, first_place
from constructive.support.errors import ParameterError

NAMES = ("dq", "dk", "dv")
ONE = np.ones((1, 1, 1, 1))  # without dropout, or a soft cap
_FAINT = 4.0  # Of a weight that is nearly 0, with the roundings of all that is made from it
_TANH = 2.0**-8  # How far the slope of a soft cap may be off by the error of its tanh
_SINGLE = 2.0**-24  # u of numbers that are kept in float32
_LOGARITHM = 2.0**-22  # How far a logarithm may be off, of itself
_OF_LEVEL = 17.0  # Of a level, in u: roundings of a logit, and of a log-sum-exp
_OF_SINKS = 2.0**-16  # Of the weight of a sink and of what it multiplies, where both are exact


@dataclass(frozen=True, eq=False)
class Backward:
    """Gradients of the results of attention, and what follows from them.

    Attributes:
        problem: the forward problem
        d_out: (B, H, T_q, d_v) gradient of the output: codes for rows that are used and for rows
            without keys, else 0
        d_lse: (B, H, T_q) gradient of the log-sum-exp: 1 or 2 for rows that are used, or 0
        keep: (B, H, T_q, T_k) which weights dropout keeps, or None
        share: the share of them, so that weights that are kept count 1 / share
        out: (B, H, T_q, d_v) the output, with dropout; 0 in rows that are not used
        expected: by name: dq and dk, 0 where all rows have one winner and `d_lse` is 0; dv; dsink
            (H,), and dbias (B, H, T_q, T_k) before it is summed over what shares a bias
        slack: how far each of them may be away
    """

    problem: Problem
    d_out: Array
    d_lse: Array
    keep: Booleans | None
    share: float
    out: Array
    expected: dict[str, Array]
    slack: dict[str, Array]

    @classmethod
    def of(cls, problem: Problem, *, d_lse: bool = False, keep: float | None = None) -> "Backward":
        """Return the backward problem of a forward one.

        Args:
            problem: the forward problem
            d_lse: whether the loss depends on log-sum-exps, too
            keep: the share of weights that dropout keeps, 1/2, 1/4 or 1/8; None without dropout

        Raises:
            ParameterError: if rows without keys are NaN, or gradients are not known

        Example:
            >>> from constructive.kernels.spec import Spec
            >>> backward = Backward.of(Problem.build(Spec(queries=3, keys=5, head_dim=16), "first"))
            >>> bool((backward.dv[:, :, 0] == backward.d_out.sum(2)).all())
            True
        """
        if keep is not None and keep not in _SHARES:
            raise ParameterError(
                f"keep={keep!r} is not 1/2, 1/4 or 1/8, by which weights are divided exactly",
                witness=keep,
                suggestion="keep=0.5",
            )
        refused = _refused(problem)
        if refused is not None:
            raise ParameterError(
                f"gradients are not known: {refused}",
                witness=str(problem),
                suggestion="Backward.each(problems), which leaves such problems out",
            )
        return _made(problem, d_lse=d_lse, keep=keep)

    @classmethod
    def each(
        cls, problems: Iterable[Problem], *, d_lse: bool = False, keep: float | None = None
    ) -> Iterator["Backward"]:
        """Yield the backward problems of all problems whose gradients are known.

        What is left out, and why, goes to the log of this module as a warning.

        Args:
            problems: such as those of `battery`
            d_lse: as in `of`
            keep: as in `of`

        Yields:
            backward problems; of each shape `ties` first, where dq and dk are not 0: a kernel may
            do something else in the first call of a shape

        Raises:
            ParameterError: if the gradients of no problem are known

        Example:
            >>> from constructive.kernels import battery
            >>> given = battery(queries=9, keys=9, cases=["last", "ties"])
            >>> [backward.problem.case for backward in Backward.each(given)]
            ['ties', 'last']
        """
        left: dict[str, list[str]] = {}
        found = False
        for _, group in groupby(problems, key=lambda problem: replace(problem.spec, seed=0)):
            for problem in sorted(group, key=lambda problem: problem.case != "ties"):
                refused = _refused(problem)
                if refused is None:
                    found = True
                    yield cls.of(problem, d_lse=d_lse, keep=keep)
                else:
                    left.setdefault(refused, []).append(problem.case)
        if not found:
            raise ParameterError(
                f"the gradients of no problem are known: {'; '.join(left) or 'there is none'}",
                witness=tuple(left),
                suggestion="other arguments of battery",
            )
        for reason, cases in left.items():
            named = ", ".join(dict.fromkeys(cases))
            _LOG.warning("no gradients of %d problems (%s): %s", len(cases), named, reason)

    @property
    def dq(self) -> Array:
        """What dq should be, (B, H, T_q, d)."""
        return self.expected["dq"]

    @property
    def dk(self) -> Array:
        """What dk should be, (B, G, T_k, d)."""
        return self.expected["dk"]

    @property
    def dv(self) -> Array:
        """What dv should be, (B, G, T_k, d_v)."""
        return self.expected["dv"]

    def check(
        self, dq: object, dk: object, dv: object, *, dsink: object = None, dbias: object = None
    ) -> None:
        """Raise if gradients are not those of every admissible kernel.

        Args:
            dq: (B, H, T_q, d)
            dk: (B, G, T_k, d)
            dv: (B, G, T_k, d_v)
            dsink: (H,), or None: it is not looked at
            dbias: of what is added to logits, in a shape that broadcasts to (B, H, T_q, T_k); None:
                it is not looked at

        Raises:
            KernelError: saying which gradient is wrong, where and how
            ParameterError: if a gradient has another shape
        """
        __tracebackhide__ = True
        report = self.examine(dq, dk, dv, dsink=dsink, dbias=dbias)
        if not report.passed:
            raise KernelError(report)

    def examine(
        self, dq: object, dk: object, dv: object, *, dsink: object = None, dbias: object = None
    ) -> "BackwardReport":
        """Return the report on gradients, also where they are right.

        Args:
            dq: as of `check`
            dk: as of `check`
            dv: as of `check`
            dsink: as of `check`
            dbias: as of `check`

        Raises:
            ParameterError: if a gradient has another shape
        """
        given = {"dq": dq, "dk": dk, "dv": dv, "dsink": dsink, "dbias": dbias}
        found = {
            name: as_float64(x, name) for name, x in given.items() if x is not None or name in NAMES
        }
        wanted, slack = dict(self.expected), dict(self.slack)
        if "dsink" in found and "dsink" not in wanted:
            raise ParameterError(
                "the problem has no sinks", witness=str(self.problem), suggestion="dsink=None"
            )
        if "dbias" in found:
            shape = found["dbias"].shape
            wanted["dbias"], slack["dbias"] = (
                _summed_to(x, shape) for x in (wanted["dbias"], slack["dbias"])
            )
        for name, x in found.items():
            if x.shape != wanted[name].shape:
                raise ParameterError(
                    f"{name} has shape {x.shape}, not {wanted[name].shape}",
                    witness=x.shape,
                    suggestion="(batch, heads, tokens, d); (heads,) for dsink",
                )
        return BackwardReport(self, found, wanted, slack)

    def __str__(self) -> str:
        more = [", with d_lse"] * bool(self.d_lse.any())
        more += [f", keep {self.share:g}"] * (self.keep is not None)
        return f"{self.problem}{''.join(more)}"

    def __repr__(self) -> str:
        given = ", d_lse=True" * bool(self.d_lse.any())
        given += f", keep={self.share:g}" * (self.keep is not None)
        return f"Backward.of({repeated(self.problem)}{given})"


_SHARES = (0.5, 0.25, 0.125)
_LOG = logging.getLogger(__name__)


def _summed_to(array: Array, shape: tuple[int, ...]) -> Array:
    """Return (B, H, T_q, T_k) summed over what a bias of a shape has in common."""
    whole = (1,) * (array.ndim - len(shape)) + shape
    if len(whole) > array.ndim or any(
        n not in {1, m} for n, m in zip(whole, array.shape, strict=True)
    ):
        raise ParameterError(
            f"dbias has shape {shape}, which does not broadcast to {array.shape}",
            witness=shape,
            suggestion="such as (1, heads, queries, keys)",
        )
    axes = tuple(axis for axis, n in enumerate(whole) if n == 1)
    return np.asarray(array.sum(axes, keepdims=True).reshape(shape))


def _refused(problem: Problem) -> str | None:
    """Return why the gradients of a problem are not known, or None."""
    spec, answer = problem.spec, problem.answer
    if problem.v.max() > LARGEST_VALUE:
        return f"values are larger than {LARGEST_VALUE:g}"
    if answer.empty.any() and spec.fully_masked == "nan":
        return "rows without a visible key are NaN, so fully_masked='zeros' or 'mean'"
    if not (answer.checked & ~answer.empty).any():
        return "no row is checked"
    return None


def _made(problem: Problem, *, d_lse: bool, keep: float | None) -> Backward:
    """Return a backward problem: gradients of results are codes, and gradients of inputs follow."""
    spec, answer = problem.spec, problem.answer
    random = np.random.default_rng((spec.seed, 13))
    used = _at_most(problem, answer.checked & ~answer.empty, 2 ** (spec.output.digits - 2))
    coded = used | (answer.empty & (spec.fully_masked == "zeros"))  # which must not contribute
    d_out = np.exp2(random.integers(0, 2, problem.expected.shape)) * coded[..., None]
    of_lse = np.exp2(random.integers(0, 2, used.shape)) * used * d_lse
    kept = None if keep is None else random.random(answer.weights.shape) < keep
    z = ONE if kept is None or keep is None else kept / keep
    steps = _Steps(Matrices(problem, d_out, of_lse[..., None], z))
    expected, slack = _of_inputs(steps)
    if problem.sinks is not None:
        expected["dsink"], slack["dsink"] = _of_sinks(steps)
    out = (steps.matrices.weights * z) @ steps.matrices.values
    return Backward(problem, d_out, of_lse, kept, keep or 1.0, out, expected, slack)


@dataclass(frozen=True, eq=False)
class Matrices:
    """What a right backward pass computes, for all rows of a problem.

    P = exp(S - lse), dP = Z dO V^T, D = sum dO O, dS = P (dP - D + dlse), dq = dS K, dk = dS^T Q
    and dv = (Z P)^T dO, where Z is the mask of dropout over the share that it keeps.
    """

    problem: Problem
    d_out: Array  # (B, H, T_q, d_v) gradient of the output
    d_lse: Array  # (B, H, T_q, 1) gradient of the log-sum-exp
    z: Array  # what dropout multiplies weights by, (B, H, T_q, T_k), or ONE

    @cached_property
    def keys(self) -> Array:
        """Keys of each query head, (B, H, T_k, d)."""
        return np.repeat(self.problem.k, self.problem.spec.group, axis=1)

    @cached_property
    def values(self) -> Array:
        """Values of each query head, (B, H, T_k, d_v)."""
        return np.repeat(self.problem.v, self.problem.spec.group, axis=1)

    @cached_property
    def raw(self) -> Array:
        """Products of queries and keys, (B, H, T_q, T_k)."""
        return np.asarray(self.problem.q @ self.keys.swapaxes(-1, -2))

    @cached_property
    def slope(self) -> Array:
        """The slope of the soft cap, (B, H, T_q, T_k), or `ONE`."""
        cap = self.problem.spec.soft_cap
        if cap is None:
            return ONE
        return np.asarray(1.0 - np.tanh(self.raw * self.problem.spec.factor / cap) ** 2)

    def summed(self, heads: Array) -> Array:
        """Return the sum over the query heads of a KV head."""
        spec = self.problem.spec
        split = heads.reshape(spec.batch, spec.heads[1], spec.group, *heads.shape[2:])
        return np.asarray(split.sum(2))

    @cached_property
    def used(self) -> Booleans:
        """Rows whose output has a gradient, and which see a key, (B, H, T_q, 1)."""
        answer = self.problem.answer
        return (self.d_out.any(-1) & answer.checked & ~answer.empty)[..., None]

    @cached_property
    def total(self) -> Array:
        """Sums of weights where a winner has 1, (B, H, T_q, 1); 1 in rows that are not used."""
        problem = self.problem
        found = problem.answer.weights.sum(-1) + beside(problem.draft, problem.sinks)
        return np.where(self.used, found[..., None], 1.0)

    @cached_property
    def weights(self) -> Array:
        """P, (B, H, T_q, T_k), exactly: 0 for keys that are far below, and in rows not used."""
        return np.where(self.used, self.problem.answer.weights / self.total, 0.0)

    @cached_property
    def rest(self) -> Array:
        """dP, (B, H, T_q, T_k)."""
        return np.asarray((self.d_out @ self.values.swapaxes(-1, -2)) * self.z)

    @cached_property
    def alone(self) -> Array:
        """D, (B, H, T_q, 1)."""
        return np.asarray((self.weights * self.rest).sum(-1, keepdims=True))

    @cached_property
    def scores(self) -> Array:
        """The gradient of what is added to logits: dS but for the slope of a soft cap."""
        return self.weights * (self.rest - self.alone + self.d_lse)


class _Steps:
    """How far P, O, dP, D and dS may be off."""

    def __init__(self, matrices: Matrices) -> None:
        problem = matrices.problem
        spec, answer, draft = problem.spec, problem.answer, problem.draft
        self.matrices, total = matrices, matrices.total[..., 0]
        sink = np.broadcast_to(beside(draft, problem.sinks), total.shape)[..., None]
        self.sink = np.where(matrices.used, sink / matrices.total, 0.0)

        # A row of one winner is exact, but for a level that is rounded; others are all rounded.
        one = (answer.slack == 0.0).all(-1) | (draft.levels != 0.0)
        one &= (total == 1.0) & (answer.weights.sum(-1) == 1.0) & (spec.soft_cap is None)
        self.unit = max(2.0 ** -min(spec.output.digits, 24), operand_error(spec))
        longest = max(spec.keys, spec.queries * spec.group, spec.d_v)
        # Logarithms of sums of winners at a level have its size, and are rounded.
        cap = (spec.soft_cap or 0.0) if draft.level else 0.0
        rounded = 8.0 * self.unit + 2.0**-18 + longest * 2.0**-21 + cap * 2.0**-20
        self.sums = 4.0 * self.unit + longest * 2.0**-23  # of sums of known numbers that are stored
        self.theta = np.where(one, 0.0, rounded)[..., None]
        self.common = _common(problem, total)[..., None]
        self.exact = one[..., None] & (self.common == 0.0)

        part, ends = near_weight(spec, draft)
        # A share w / (o + c w) moves by less than w does, as the winner's weight is in o.
        share, self.faint = max(abs(end - part) for end in ends), _FAINT * most_far(spec)
        read = answer.weights > 0.0
        more = np.where(read, share, self.faint) * matrices.used
        self.more = (1.0 + self.theta) * more  # how far P of a key may be off by its logit
        most = matrices.rest.max(-1, keepdims=True)
        self.moved = (share + self.faint * (~read).sum(-1, keepdims=True)) * most  # the same of D
        if spec.soft_cap is None:  # at a level the output is off by more than `theta` (Theorem 15)
            off = (matrices.d_out * answer.slack).sum(-1, keepdims=True) * np.max(matrices.z)
            self.moved = self.moved + np.where(draft.levels[..., None] != 0.0, off, 0.0)

    def off(self, slope: Array, steep: Array | float) -> Array:
        """Return how far dS may be off, (B, H, T_q, T_k), with a slope that is off by `steep`."""
        matrices, theta = self.matrices, self.theta
        p, size = matrices.weights, np.abs(matrices.scores)
        most = matrices.rest + matrices.alone + self.moved + matrices.d_lse
        found = (theta * p * most + self.more * most + (1.0 + theta) * p * self.moved) * (
            slope + steep
        )
        found = found + (1.0 + theta) * size * steep + theta * size * slope
        common = self.common * size * slope + np.where(self.exact, 0.0, 4.0 * self.unit) * size
        return np.asarray((1.0 + self.common) * found + common)


def _of_inputs(steps: _Steps) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return dq, dk, dv and dbias, and how far they may be away."""
    matrices, problem = steps.matrices, steps.matrices.problem
    s, q, k, d_out = problem.spec.factor, problem.q, matrices.keys, matrices.d_out
    p, ds = matrices.weights, matrices.scores * matrices.slope
    sums, sized = steps.sums, steps.off(matrices.slope, _steepness(matrices))
    # A scale may be applied as its root, twice.
    is_pure = math.frexp(math.sqrt(s))[0] == 0.5  # noqa: PLR2004 - of a power of two
    terms = matrices.summed((ds != 0.0).sum(2)[..., None] * 1.0)  # of each row of dk

    def to_keys(of_heads: Array, x: Array) -> Array:
        return matrices.summed(of_heads.swapaxes(-1, -2) @ x)

    dv = to_keys(p * matrices.z, d_out)
    of_weights = (1.0 + steps.common) * (steps.more + 2.0 * steps.theta * p) + steps.common * p
    expected = {"dq": ds @ k * s, "dk": to_keys(ds, q) * s, "dv": dv, "dbias": matrices.scores}
    slack = {
        "dq": (sized + (0.0 if is_pure else sums) * np.abs(ds)) @ np.abs(k) * s,
        "dk": (
            to_keys(sized, np.abs(q))
            + np.where((terms > 1.0) | (not is_pure), sums, 0.0) * to_keys(np.abs(ds), np.abs(q))
        ) * s,
        "dv": to_keys(of_weights * matrices.z, d_out) + (0.0 if steps.exact.all() else sums) * dv,
        "dbias": steps.off(ONE, 0.0) + sums * np.abs(matrices.scores),
    }  # fmt: skip
    return expected, slack


def _of_sinks(steps: _Steps) -> tuple[Array, Array]:
    """Return the gradient of sinks, (H,), and how far it may be away."""
    matrices, slack = steps.matrices, steps.matrices.problem.answer.slack
    theta = np.where((slack == 0.0).all(-1, keepdims=True), _OF_SINKS, steps.theta + _OF_SINKS)
    wrong = steps.sink * (theta + steps.common + steps.sums)
    wrong = np.where(steps.sink > 0.0, wrong, steps.faint) * matrices.used
    found = steps.sink * (matrices.d_lse - matrices.alone)
    off = wrong * (matrices.d_lse + matrices.alone) + steps.sink * steps.moved
    return found.sum((0, 2, 3)), off.sum((0, 2, 3))


def _common(problem: Problem, total: Array) -> Array:
    """Return how far all weights exp(l - lse) of a row may be off alike, (B, H, T_q).

    At 0 nothing is rounded for one winner; logarithms of sums are; and a level is unless the
    scale, its root and all constants are powers of two, which nothing here asks for.
    """
    ties = np.log(np.maximum(total, 1.0))
    size = np.abs(problem.draft.levels) * problem.spec.factor
    if problem.spec.soft_cap is not None:  # `theta` has room for it
        return np.zeros(total.shape)
    off = _SINGLE * (_OF_LEVEL * size + 5.0 * ties) + 1.2 * _LOGARITHM * ties
    return np.asarray(np.expm1(np.minimum(off, 1.0)))


def _steepness(matrices: Matrices) -> Array | float:
    """Return how far the slope of the soft cap may be off, (B, H, T_q, T_k): its ends, as it falls.

    A logit is off by a part of its size, and tanh by a part of its own.
    """
    cap, scale = matrices.problem.spec.soft_cap, matrices.problem.spec.factor
    if cap is None:
        return 0.0
    ends = [
        1.0 - np.tanh(matrices.raw * (scale / cap * (1.0 + sign * LOGIT_ERROR))) ** 2
        for sign in (-1.0, 1.0)
    ]
    return np.asarray(np.maximum(*(np.abs(end - matrices.slope) for end in ends)) + _TANH)


@dataclass(frozen=True, eq=False, repr=False)
class BackwardReport:
    """What is wrong with gradients."""

    backward: Backward  # what was computed
    found: dict[str, Array]  # by name, as is what it should be, and how far it may be away
    wanted: dict[str, Array]
    slack: dict[str, Array]

    @cached_property
    def wrong(self) -> dict[str, Booleans]:
        """Rows that differ, of each gradient; entries of dsink."""
        with np.errstate(invalid="ignore"):
            return {
                name: _beyond(found - self.wanted[name], self.slack[name])
                for name, found in self.found.items()
            }

    @property
    def problem(self) -> Problem:
        """The forward problem."""
        return self.backward.problem

    @property
    def passed(self) -> bool:
        """Whether every row of every gradient is right."""
        return not any(rows.any() for rows in self.wrong.values())

    @property
    def first(self) -> tuple[object, ...] | None:
        """The first wrong row: gradient, sequence, head, token."""
        for name, rows in self.wrong.items():
            if rows.any():
                return name, *first_place(rows)
        return None

    @property
    def suggestion(self) -> str:
        """What to look at next, where this is the `report` of an error."""
        return "error.report.wrong[name] tells which rows differ, for the names dq, dk and dv"

    def _said(self, name: str) -> list[str]:
        """Say where a gradient is wrong, and how."""
        found, wanted, wrong = self.found[name], self.wanted[name], self.wrong[name]
        words = {"dq": ("sequence", "head", "query"), "dsink": ("head",)}
        axes = words.get(name, ("sequence", "KV head", "key"))
        axes = ("sequence", "head", "query")[-wrong.ndim :] if name == "dbias" else axes
        grid = np.indices(wrong.shape)
        known = dict(zip(reversed(axes), grid[::-1], strict=True))
        token = axes[-1]
        known |= {f"{token} mod {n}": known[token] % n for n in SIZES if n <= 0.6 * wrong.shape[-1]}
        conditions, share = separate(known, wrong, np.ones_like(wrong))
        where = f", {share:.0%} of those with {conditions}" if conditions else ""
        at = first_place(wrong)
        with np.errstate(all="ignore"):
            away = np.abs(found - wanted)[at] - self.slack[name][at]
            column = int(np.nan_to_num(away, nan=np.inf).argmax())
            ratio = (found / wanted)[wrong][np.abs(wanted[wrong]) > self.slack[name][wrong]]
            is_scaled = bool(len(ratio)) and bool(np.isfinite(ratio).all())
            is_scaled = (
                is_scaled
                and abs(ratio.mean()) > CLOSE
                and np.ptp(ratio) <= min(CLOSE * np.abs(ratio).max(), abs(ratio.mean() - 1.0))
            )
            # What should be 0 is not right, times a factor.
            is_zero = np.abs(wanted[wrong]) <= self.slack[name][wrong]
            near = np.abs(found) <= (1.0 + np.abs(ratio).max(initial=0.0)) * self.slack[name]
            is_scaled &= bool(near[wrong][is_zero].all())
        more = ""
        if not np.isfinite(found[wrong]).any():
            more = f"; all of these rows are NaN or infinite{self._overflows}"
        elif not found[wrong].any():
            more = "; all of these rows are zero"
        elif is_scaled:
            more = f"; all of these rows are right, times {ratio.mean():.4g}"
        place = ", ".join(f"{axis} {x}" for axis, x in zip(axes, at, strict=True))
        is_row = found.ndim > wrong.ndim
        place += f", {'key' if name == 'dbias' else 'column'} {column}" if is_row else ""
        actual, right = ((x[at][column] if is_row else x[at]) for x in (found, wanted))
        return [
            f"WHERE: {name}: {int(wrong.sum())} of {wrong.size} rows{where}",
            f"HOW: {name} of {place} is {actual:.6g}, not {right:.6g}{more}",
        ]

    @property
    def _overflows(self) -> str:
        problem = self.backward.problem
        level = np.abs(problem.draft.levels).max() * problem.spec.factor
        said = f": logits are up to {level:.4g}, so exp(S) overflows unless lse is subtracted"
        return said if level > LARGEST else ""

    @property
    def lines(self) -> list[str]:
        """The report, line by line: at most twelve."""
        title = f"backward of {self.backward}"
        if self.passed:
            return [f"{title}: all gradients are right"]
        bad = [name for name, rows in self.wrong.items() if rows.any()]
        are = "are" if len(bad) > 1 else "is"
        found = [f"{title}: {', '.join(bad)} {are} wrong"]
        for name in bad:
            found.extend(self._said(name))
        return [*found, f"again: {self.backward!r}"]

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


def _beyond(difference: Array, slack: Array) -> Booleans:
    wrong: Booleans = ~(np.abs(difference) <= slack)
    return np.asarray(wrong.any(-1)) if wrong.ndim > 1 else wrong


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
