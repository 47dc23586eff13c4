"""Gradients of attention with replaceable parts: what a backward pass with a mistake would return.

A backward pass computes weights again, P = exp(S - lse), so it has masks, addresses and a scale of
its own: mistakes of forward passes are mistakes of it, with the lse and output of a right one. Then
dP = Z dO V^T, D = sum dO O, dS = P (dP - D + dlse), dq = dS K, dk = dS^T Q and dv = (Z P)^T dO,
where Z is the mask of dropout over the share that it keeps.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from constructive.kernels.answer import beside
from constructive.kernels.formula import Change, Part, Rows, largest, masked, summed
from constructive.kernels.names import mistakes, places_of_rows
from constructive.kernels.problem import Problem
from constructive.support.arrays import Array, Booleans, Integers

Three = tuple[Array, Array, Array]  # dq, dk, dv
NAMES = ("dq", "dk", "dv")
ONE = np.ones((1, 1, 1, 1))  # without dropout, or a soft cap
_LARGEST = float(np.finfo(np.float32).max)
_ROWS, _WHOLE = 6, 100  # rows of dq on which mistakes are tried; mistakes that are computed in all
_NEAR = 2.0**-6  # of the distance from what is right: mistakes that are as near as any
_MOST_DIGITS = 18  # of a gradient, which is a sum of many roundings


@dataclass(frozen=True, eq=False)
class Matrices:
    """What a right backward pass computes, for all rows of a problem."""

    problem: Problem
    d_out: Array  # (B, H, T_q, d_v) gradient of the output
    d_lse: Array  # (B, H, T_q, 1) gradient of the log-sum-exp
    z: Array  # what dropout multiplies weights by, (B, H, T_q, T_k), or ONE

    @cached_property
    def rows(self) -> Rows:
        """All rows, in order."""
        return Rows(self.problem, np.argwhere(np.ones(self.d_out.shape[:3], dtype=np.bool_)))

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

    def whole(self, rows: Array) -> Array:
        """Return numbers of all rows by sequence, head and query."""
        return rows.reshape(*self.d_out.shape[:3], -1)

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
    def lse(self) -> Array:
        """Log-sum-exps, (B, H, T_q, 1); infinite for rows without keys, which have no weights."""
        top, total = largest(self.rows, self.rows.logits), self.rows.softmax[1]
        with np.errstate(divide="ignore"):
            return self.whole(np.where(total > 0.0, top + np.log(total), np.inf))

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

    @cached_property
    def right(self) -> Three:
        """Dq, dk and dv."""
        scores = self.scores * self.slope
        return self.made(scores @ self.keys, scores, self.weights * self.z)

    def made(self, dq: Array, scores: Array, weights: Array) -> Three:
        """Return gradients from dq before the scale, dS and Z P."""
        scale = self.problem.spec.factor
        of_keys, of_values = (x.swapaxes(-1, -2) for x in (scores * scale, weights))
        return (
            dq * scale,
            self.summed(of_keys @ self.problem.q),
            self.summed(of_values @ self.d_out),
        )


@dataclass(frozen=True)
class Step:
    """What a backward pass does differently, each a function of rows; None: what it should."""

    change: Change = field(default_factory=Change)  # what it computes weights from
    lse: Part = None  # log-sum-exps, (R, 1)
    alone: Part = None  # D, (R, 1)
    d_lse: Part = None  # gradients of log-sum-exps, (R, 1)
    slope: Part = None  # of the soft cap, (R, T_k)
    of_query: float = 1.0  # what dq is multiplied by
    of_key: float = 1.0  # what dk is multiplied by
    of_scores: bool = True  # whether dropout is applied to dP
    of_values: bool = True  # and to P in dv

    def computed(self, matrices: Matrices, rows: Rows) -> Three:
        """Return dq before the scale, dS and Z P of rows."""
        change = self.change
        logits = masked(rows, change)
        lse = self.lse(rows) if self.lse else rows.of(matrices.lse)
        p = np.exp(logits - np.where(np.isneginf(lse), np.inf, lse))
        p = np.where(p > _LARGEST, np.inf, np.nan_to_num(p, posinf=np.inf))
        z = rows.of(matrices.z)
        if change.v or change.values or not self.of_scores:
            v = change.v(rows) if change.v else rows.problem.v
            every = rows.of(matrices.d_out) @ v.reshape(-1, v.shape[-1]).T
            where = change.values(rows) if change.values else rows.own
            rest = np.take_along_axis(every, np.broadcast_to(where, p.shape), axis=1)
            rest = rest * z if self.of_scores else rest
        else:
            rest = rows.of(matrices.rest)
        rest = rest + (self.d_lse(rows) if self.d_lse else rows.of(matrices.d_lse))
        alone = self.alone(rows) if self.alone else rows.of(matrices.alone)
        slope = self.slope(rows) if self.slope else rows.of(matrices.slope)
        scores = p * (rest - alone) * slope
        k = change.k(rows) if change.k else rows.problem.k
        dq = summed(rows, scores, k, change.keys) * self.of_query
        return dq, scores * self.of_key, p * z if self.of_values else p


Named = Iterator[tuple[str, Step]]


def steps(matrices: Matrices) -> Named:
    """Mistakes that forward passes do not have: D, lse and its gradient, dS, factors, dropout."""
    s, cap = matrices.problem.spec.factor, matrices.problem.spec.soft_cap
    d, lse, d_lse = matrices.alone, matrices.lse, matrices.d_lse
    tanh = np.tanh(matrices.raw * s / (cap or np.inf))
    # what it is called, what it is, and what is taken for it
    numbers: dict[str, tuple[str, Array, dict[str, Array]]] = {
        "alone": ("D, the sum of dO O,", d, {
            "is not subtracted from dP": 0.0 * d,
            "is added to dP, not subtracted": -d,
            "is the average over all queries": d.mean(2, keepdims=True) + 0.0 * d,
        }),
        "lse": ("the log-sum-exp", lse, {
            "has base two and is read as one of base e": lse / np.log(2.0),
        }),
        "d_lse": ("the gradient of the log-sum-exp", d_lse, {
            "is ignored": 0.0 * d_lse,
            "has the opposite sign": -d_lse,
        }),
        "slope": ("the slope of the soft cap", 1.0 - tanh**2, {
            "is left out": 1.0 + 0.0 * tanh,
            "is 1 - |tanh|, not 1 - tanh^2": 1.0 - np.abs(tanh),
        }),
    }  # fmt: skip
    is_there = {"d_lse": d_lse.any(), "slope": cap is not None}
    places = places_of_rows(matrices.rows)
    for part, (name, right, others) in numbers.items():
        if not is_there.get(part, True):
            continue
        for words, array in others.items():
            yield f"{name} {words}", _step(part, partial(_of, array=array))
        for words, place in places.items() if part != "slope" else ():
            yield f"{name} is that {words}", _step(part, partial(_of, array=right, place=place))
    scalings = {"not multiplied by the scale": 1.0 / s, "multiplied by the scale twice": s}
    for words, by in scalings.items():
        yield f"dq is {words}", Step(of_query=by)
        yield f"dk is {words}", Step(of_key=by)
        yield f"dq and dk are {words}", Step(of_query=by, of_key=by)
    if matrices.z is not ONE:
        yield "dropout is not applied to dP", Step(of_scores=False)
        yield "dropout is not applied to the weights of dv", Step(of_values=False)


def _step(part: str, of: Part) -> Step:
    changes: dict[str, Any] = {part: of}
    return Step(**changes)


def _of(rows: Rows, array: Array, place: Callable[[Rows], Rows] = lambda rows: rows) -> Array:
    return place(rows).of(array)


def written(matrices: Matrices) -> Iterator[tuple[str, Three]]:
    """Gradients that are computed rightly, and written or summed wrongly."""
    spec, right = matrices.problem.spec, matrices.right
    dq, dk, dv = right
    if dk.shape == dv.shape:
        yield "dk and dv are exchanged", (dq, dv, dk)
    ways: dict[str, Callable[[Array], Array]] = {
        "is that of the next token": lambda x: np.roll(x, -1, 2),
        "is that of the token before": lambda x: np.roll(x, 1, 2),
        "is laid out as (B, T, H, d), and read as (B, H, T, d)": lambda x: x.swapaxes(1, 2).reshape(
            x.shape
        ),
    }
    for index, name in enumerate(NAMES):
        for words, way in ways.items():
            yield f"{name} {words}", (*right[:index], way(right[index]), *right[index + 1 :])  # type: ignore[misc]
    q, d_out, shape = matrices.problem.q, matrices.d_out, (spec.batch, spec.heads[1], spec.group)
    scores = matrices.scores * matrices.slope * spec.factor
    p = matrices.weights * matrices.z
    if spec.group == 1:
        return
    heads = [x.swapaxes(-1, -2) @ y for x, y in ((scores, q), (p, d_out))]
    groups = [x.reshape(*shape, *x.shape[2:]) for x in heads]
    for words, (of_keys, of_values) in {
        "those of the first query head of each group alone": [x[:, :, 0] for x in groups],
        "those of the last query head of each group alone": [x[:, :, -1] for x in groups],
        "averaged over query heads of a group, not summed": [x.mean(2) for x in groups],
    }.items():
        yield f"dk and dv are {words}", (dq, of_keys, of_values)
        yield f"rows of dk are {words}", (dq, of_keys, dv)
        yield f"rows of dv are {words}", (dq, dk, of_values)


def names(matrices: Matrices, found: Three, slack: Three, wrong: dict[str, Booleans]) -> list[str]:
    """Return the mistakes that lead to gradients, the nearest first."""
    bad = [wrong[name] for name in NAMES]
    told = (np.isfinite(x[at]).all(-1).any() for x, at in zip(found, bad, strict=True))
    if not any(told):  # much leads to NaN
        return []
    with np.errstate(all="ignore"):
        close = 2.0 ** (2 - min(matrices.problem.spec.output.digits, _MOST_DIGITS))
        same = partial(_is_same, close=close)
        distances: dict[str, float] = {}
        for name, made in _made(matrices, rows_of=found[0], slack=slack[0], wrong=wrong, same=same):
            if all(map(same, found, made, slack)):
                # Of what is a difference of large sums, roundings alone may be left of a mistake.
                every = zip(found, made, matrices.right, bad, strict=True)
                away = (_distance(x[at], y[at], z[at]) for x, y, z, at in every if at.any())
                distances[name] = min(away)
    most = min(0.5, max(4.0 * min(distances.values(), default=0.0), _NEAR))
    return [
        name for name in sorted(distances, key=distances.__getitem__) if distances[name] <= most
    ]


def _made(
    matrices: Matrices, rows_of: Array, slack: Array, wrong: dict[str, Booleans],
    same: Callable[..., bool],
) -> Iterator[tuple[str, Three]]:  # fmt: skip
    """Yield gradients of mistakes, as far as they lead to some rows of dq."""
    yield from written(matrices)
    rows = Rows(matrices.problem, _tried(matrices, wrong), shared=matrices.rows.shared)
    found, near, scale = rows.of(rows_of), rows.of(slack), matrices.problem.spec.factor
    known = dict(steps(matrices))
    for name, change in mistakes(rows).items():
        if not (change.weights or change.rows or change.sinks):  # which lse and output have
            known[f"in the backward pass, {name}"] = Step(change)
    left = [
        name
        for name, step in known.items()
        if same(found, step.computed(matrices, rows)[0] * scale, near)
    ]
    for name in left[:_WHOLE]:
        parts = known[name].computed(matrices, matrices.rows)
        yield name, matrices.made(*map(matrices.whole, parts))


def _tried(matrices: Matrices, wrong: dict[str, Booleans]) -> Integers:
    """Return some rows whose dq is wrong, or that read keys whose dk or dv is, and some others."""
    keys = np.repeat(wrong["dk"] | wrong["dv"], matrices.problem.spec.group, axis=1)[:, :, None]
    reading: Booleans = np.asarray((keys & (matrices.weights > 0.0)).any(-1))
    bad = wrong["dq"] if wrong["dq"].any() else reading
    parts = [np.argwhere(rows) for rows in (bad, ~bad & matrices.d_out.any(-1))]
    return np.concatenate(
        [x[np.linspace(0, len(x) - 1, _ROWS).astype(int)] for x in parts if len(x)]
    )


def _distance(found: Array, made: Array, wanted: Array) -> float:
    """Return how far a mistake leads from wrong rows, over how far what is right is."""
    away = np.abs(found - wanted).max(initial=0.0)
    left = np.nan_to_num(np.abs(found - made), nan=0.0, posinf=0.0).max(initial=0.0)
    return float(left / away) if 0.0 < away < np.inf else 0.0


def _is_same(found: Array, made: Array, slack: Array, close: float) -> bool:
    """Return whether a gradient is that of a mistake: numbers, and where it is not finite."""
    finite = np.isfinite(made) & (np.abs(made) < _LARGEST)
    if not np.array_equal(np.isfinite(found), finite):
        return False
    most = float(np.abs(made[finite]).max(initial=0.0))
    return bool((np.abs(found - made) <= close * most + slack)[finite].all())
