"""Gradients of saturated attention: exact sums for values, zero for queries and keys.

Where a row has one winner, its weight is 1 and its gradient vanishes: so dv of a key is the sum of
the output's gradients of the rows that read it, and dq = dk = 0 up to weights that are not quite 0.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from constructive.kernels.checking import KernelError
from constructive.kernels.formats import as_float64
from constructive.kernels.masks import Booleans
from constructive.kernels.problem import Problem
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError

ZERO = 2.0**-60
"""What is as good as zero: weights exp(-64), times products of inputs."""
_MOST_ROWS = 6


@dataclass(frozen=True, eq=False)
class Backward:
    """The gradient of an output, and what follows from it.

    Attributes:
        problem: the forward problem
        d_out: (B, H, T_q, d_v) gradient of the output: a code for each row that is used, else 0
        dv: (B, G, T_k, d_v) expected; dq and dk are zero
    """

    problem: Problem
    d_out: Array
    dv: Array

    @classmethod
    def of(cls, problem: Problem) -> "Backward":
        """Return the backward problem of a forward one.

        Args:
            problem: one with rows that have one winner, without a soft cap

        Raises:
            ParameterError: if no row has one winner, or gradients do not vanish

        Example:
            >>> from constructive.kernels.spec import Spec
            >>> backward = Backward.of(Problem.build(Spec(queries=3, keys=5, head_dim=16), "first"))
            >>> bool((backward.dv[:, :, 0] == backward.d_out.sum(2)).all())
            True
        """
        spec, answer = problem.spec, problem.answer
        if spec.soft_cap is not None or problem.draft.level or spec.alibi:
            raise ParameterError(
                "gradients vanish at a level of 0 without a soft cap or slopes alone",
                witness=str(problem),
                suggestion="another spec or case",
            )
        if answer.empty.any() and spec.fully_masked == "nan":
            raise ParameterError(
                "rows without a visible key are NaN, and so are gradients",
                witness=int(answer.empty.sum()),
                suggestion="fully_masked='zeros' or 'mean'",
            )
        exact = (answer.slack == 0.0).all(-1) & answer.checked & ~answer.empty
        one = exact & (answer.weights.sum(-1) == 1.0)
        if problem.sinks is not None:
            one &= (problem.sinks != 0.0)[:, None]
        if not one.any():
            raise ParameterError(
                "no row of this problem has one winner",
                witness=str(problem),
                suggestion="case 'last', 'first', 'random' or 'batch'",
            )
        used = _at_most(problem, one, 2 ** (spec.output.digits - 2))
        random = np.random.default_rng((spec.seed, 13))
        d_out = np.exp2(random.integers(0, 2, problem.expected.shape)) * used[..., None]
        weights = answer.weights * used[..., None]
        shape = spec.batch, spec.heads[1], spec.group * spec.queries
        of_rows = weights.reshape(*shape, spec.keys).swapaxes(-1, -2)
        return cls(problem, d_out, of_rows @ d_out.reshape(*shape, spec.d_v))

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
        shapes = self.problem.q.shape, self.problem.k.shape, self.problem.v.shape
        found = []
        for name, given, shape in zip(("dq", "dk", "dv"), (dq, dk, dv), shapes, strict=True):
            array = as_float64(given)
            if array.shape != shape:
                raise ParameterError(
                    f"{name} has shape {array.shape}, not {shape}",
                    witness=array.shape,
                    suggestion="(batch, heads, tokens, d)",
                )
            found.append(array)
        report = BackwardReport(self, *found)
        if not report.passed:
            raise KernelError(report)


@dataclass(frozen=True, eq=False)
class BackwardReport:
    """What is wrong with gradients.

    Attributes:
        backward: what was computed
        dq: (B, H, T_q, d)
        dk: (B, G, T_k, d)
        dv: (B, G, T_k, d_v)
    """

    backward: Backward
    dq: Array
    dk: Array
    dv: Array

    @cached_property
    def wrong(self) -> dict[str, Booleans]:
        """Rows that differ, of each gradient."""
        with np.errstate(invalid="ignore"):
            return {
                "dq": _beyond(self.dq),
                "dk": _beyond(self.dk),
                "dv": _beyond(self.dv - self.backward.dv),
            }

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

    @cached_property
    def explanation(self) -> str | None:
        """The mistake that leads to this dv, or None."""
        if not self.wrong["dv"].any():
            return None
        with np.errstate(invalid="ignore"):
            return next(
                (name for name, dv in self._mistakes() if np.abs(self.dv - dv).max() <= ZERO), None
            )

    def _mistakes(self) -> list[tuple[str, Array]]:
        problem, d_out, right = self.backward.problem, self.backward.d_out, self.backward.dv
        spec = problem.spec
        weights = problem.answer.weights * d_out.any(-1, keepdims=True)
        each = weights.swapaxes(-1, -2) @ d_out
        split = each.reshape(spec.batch, spec.heads[1], spec.group, *each.shape[2:])
        turned = each.reshape(spec.batch, spec.group, spec.heads[1], *each.shape[2:])
        shared = right.sum(0, keepdims=True) + 0.0 * right
        return [
            ("dv is that of the first query head of each group alone", split[:, :, 0]),
            ("dv is that of the last query head of each group alone", split[:, :, -1]),
            ("dv is averaged over query heads of a group, not summed", right / spec.group),
            ("dv of query head h goes to KV head h % kv_heads, not h // group", turned.sum(1)),
            ("dv is that of the next key", np.roll(right, -1, 2)),
            ("dv is that of the key before", np.roll(right, 1, 2)),
            ("dv is that of the next KV head", np.roll(right, -1, 1)),
            ("dv is that of the next sequence", np.roll(right, -1, 0)),
            ("dv is summed over sequences", shared),
            ("dv is that of the gradient of the query before", self._rolled(1)),
            ("dv is that of the gradient of the next query", self._rolled(-1)),
            ("dv is multiplied by the scale", right * spec.factor),
            ("dv is twice as large", right * 2.0),
            ("dv is zero", np.zeros_like(right)),
            ("dv has the opposite sign", -right),
        ]

    def _rolled(self, step: int) -> Array:
        problem = self.backward.problem
        spec, d_out = problem.spec, np.roll(self.backward.d_out, step, 2)
        weights = problem.answer.weights
        each = weights.swapaxes(-1, -2) @ d_out
        found: Array = each.reshape(spec.batch, spec.heads[1], spec.group, *each.shape[2:]).sum(2)
        return found

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
        if self.explanation is not None:
            found.append(f"DIAGNOSIS: {self.explanation} (explains every row)")
        places = [
            (int(b), int(g), int(j)) for b, g, j in np.argwhere(self.wrong["dv"])[:_MOST_ROWS]
        ]
        found.extend(self._row(place) for place in places)
        for name, array in (("dq", self.dq), ("dk", self.dk)):
            if self.wrong[name].any():
                place = tuple(int(index) for index in np.argwhere(self.wrong[name])[0])
                most = float(np.abs(array[place]).max())
                found.append(f"{name} of batch, head, token {place} is {most:.3g}, not 0")
        return found

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


def _beyond(difference: Array) -> Booleans:
    found: Booleans = np.asarray(~(np.abs(difference) <= ZERO).all(-1))
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
