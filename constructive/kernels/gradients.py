"""Gradients of attention with replaceable parts: what a backward pass with a mistake would return.

A backward pass computes weights again, P = exp(S - lse), so it has masks, addresses and a scale of
its own: mistakes of forward passes are mistakes of it, with the lse and output of a right one. Then
dP = dO V^T, D = sum dO O, dS = P (dP - D), dq = dS K, dk = dS^T Q and dv = P^T dO.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from constructive.exact.float_model import FORMATS, nearest
from constructive.kernels.formula import Change, Part, Rows, largest, masked, softmax, summed
from constructive.kernels.names import mistakes
from constructive.kernels.names_of_places import BLOCKS, places_of_rows
from constructive.kernels.problem import Problem
from constructive.support.arrays import Array, Booleans, Integers

Three = tuple[Array, Array, Array]  # dq, dk, dv
NAMES = ("dq", "dk", "dv")
_LARGEST = float(np.finfo(np.float32).max)
_ROWS, _WHOLE = 6, 100  # rows of dq on which mistakes are tried; mistakes that are computed in all
_NEAR = 2.0**-6  # of the distance from what is right: mistakes that are as near as any
_MOST_DIGITS = 18  # of a gradient, which is a sum of many roundings


@dataclass(frozen=True, eq=False)
class Matrices:
    """What a right backward pass computes, for all rows of a problem."""

    problem: Problem
    d_out: Array  # (B, H, T_q, d_v) gradient of the output

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
    def visible(self) -> Booleans:
        """Which keys may be seen, (B, H, T_q, T_k)."""
        return np.broadcast_to(self.problem.visible, self.problem.answer.weights.shape)

    @cached_property
    def raw(self) -> Array:
        """Products of queries and keys, (B, H, T_q, T_k)."""
        found: Array = self.problem.q @ self.keys.swapaxes(-1, -2)
        return found

    @cached_property
    def slope(self) -> Array | float:
        """The slope of the soft cap, (B, H, T_q, T_k), or 1."""
        cap = self.problem.spec.soft_cap
        if cap is None:
            return 1.0
        found: Array = 1.0 - np.tanh(self.raw * self.problem.spec.factor / cap) ** 2
        return found

    def summed(self, heads: Array) -> Array:
        """Return the sum over the query heads of a KV head."""
        spec = self.problem.spec
        split = heads.reshape(spec.batch, spec.heads[1], spec.group, *heads.shape[2:])
        found: Array = split.sum(2)
        return found

    def whole(self, rows: Array) -> Array:
        """Return numbers of all rows by sequence, head and query."""
        return rows.reshape(*self.d_out.shape[:3], -1)

    @cached_property
    def total(self) -> Array:
        """Sums of weights less the largest logit, (B, H, T_q, 1)."""
        return self.whole(self.rows.softmax[1])

    @cached_property
    def weights(self) -> Array:
        """P, (B, H, T_q, T_k)."""
        return self.whole(self.rows.softmax[0]) / np.where(self.total > 0.0, self.total, 1.0)

    @cached_property
    def lse(self) -> Array:
        """Log-sum-exps, (B, H, T_q, 1); infinite for rows without keys, which have no weights."""
        top = self.whole(largest(self.rows, self.rows.logits))
        with np.errstate(divide="ignore"):
            return np.where(self.total > 0.0, top + np.log(self.total), np.inf)

    @cached_property
    def rest(self) -> Array:
        """dP, (B, H, T_q, T_k)."""
        found: Array = self.d_out @ self.values.swapaxes(-1, -2)
        return found

    @cached_property
    def alone(self) -> Array:
        """D, (B, H, T_q, 1)."""
        found: Array = (self.weights * self.rest).sum(-1, keepdims=True)
        return found

    @cached_property
    def scores(self) -> Array:
        """dS, (B, H, T_q, T_k)."""
        found: Array = self.weights * (self.rest - self.alone) * self.slope
        return found

    @cached_property
    def right(self) -> Three:
        """Dq, dk and dv."""
        return self.made(self.scores @ self.keys, self.scores, self.weights)

    def made(self, dq: Array, scores: Array, weights: Array) -> Three:
        """Return gradients from dq before the scale, dS and P."""
        scale = self.problem.spec.factor
        of_keys, of_values = (self.of_heads(x) for x in (scores * scale, weights))
        return dq * scale, self.summed(of_keys(self.problem.q)), self.summed(of_values(self.d_out))

    @staticmethod
    def of_heads(matrix: Array) -> Callable[[Array], Array]:
        """Return the product of a transposed matrix with queries or gradients of outputs."""
        return lambda x: matrix.swapaxes(-1, -2) @ x


@dataclass(frozen=True)
class Step:
    """What a backward pass does differently, each a function of rows; None: what it should."""

    change: Change = field(default_factory=Change)  # what it computes weights from
    lse: Part = None  # log-sum-exps, (R, 1)
    alone: Part = None  # D, (R, 1)
    slope: Part = None  # of the soft cap, (R, T_k)
    scores: Part = None  # of P, dP, D and the slope: dS
    weights: Part = None  # of P: what is used as P
    kept: Part = None  # which rows and keys add to dk and dv, (R, T_k)
    asked: Part = None  # which rows and keys add to dq, (R, T_k)
    of_query: float = 1.0  # what dq is multiplied by
    of_key: float = 1.0  # what dk is multiplied by

    def computed(self, matrices: Matrices, rows: Rows) -> Three:
        """Return dq before the scale, dS and P, as far as they add to gradients, of rows."""
        change = self.change
        logits = masked(rows, change)
        lse = self.lse(rows) if self.lse else rows.of(matrices.lse)
        if change.sinks:
            sinks = change.sinks(rows)
            lse = largest(rows, logits, sinks) + np.log(softmax(rows, logits, sinks=sinks)[1])
        p = np.exp(logits - np.where(np.isneginf(lse), np.inf, lse))
        p = np.where(p > _LARGEST, np.inf, np.nan_to_num(p, posinf=np.inf))
        p = self.weights(p) if self.weights else p
        if change.v or change.values:
            v = change.v(rows) if change.v else rows.problem.v
            every = rows.of(matrices.d_out) @ v.reshape(-1, v.shape[-1]).T
            where = change.values(rows) if change.values else rows.own
            rest = np.take_along_axis(every, np.broadcast_to(where, p.shape), axis=1)
        else:
            rest = rows.of(matrices.rest)
        alone = self.alone(rows) if self.alone else rows.of(matrices.alone)
        right = matrices.slope if isinstance(matrices.slope, float) else rows.of(matrices.slope)
        slope = self.slope(rows) if self.slope else right
        scores = self.scores(p, rest, alone, slope) if self.scores else p * (rest - alone) * slope
        of_query = np.where(self.asked(rows), scores, 0.0) if self.asked else scores
        k = change.k(rows) if change.k else rows.problem.k
        dq = summed(rows, of_query, k, change.keys) * self.of_query
        kept = self.kept(rows) if self.kept else True
        return dq, np.where(kept, scores, 0.0) * self.of_key, np.where(kept, p, 0.0)


Named = Iterator[tuple[str, Step]]


def steps(matrices: Matrices) -> Named:
    """Mistakes that forward passes do not have: D, dS, slopes, log-sum-exps, factors, blocks."""
    for family in (_differences, _factors, _log_sum_exps, _rounded, _blocks):
        yield from family(matrices)


def _differences(matrices: Matrices) -> Named:
    """Other numbers than D, and other gradients of scores than P (dP - D)."""
    spec, d, rest = matrices.problem.spec, matrices.alone, matrices.rest
    for words, other in {
        "is not subtracted from dP": 0.0 * d,
        "is added to dP, not subtracted": -d,
        "is subtracted twice": 2.0 * d,
        "is the sum of dO, not of dO O": matrices.d_out.sum(-1, keepdims=True),
        "is the average over all queries": d.mean(2, keepdims=True) + 0.0 * d,
        "is of the output before it is divided by the sum of weights": d * matrices.total,
        "is the sum of dP, not of P dP": rest.sum(-1, keepdims=True),
        "is the average of dP, not the sum of P dP": rest.mean(-1, keepdims=True),
        "is an average over keys, not a sum": d / spec.keys,
        "is an average over the columns of values, not a sum": d / spec.d_v,
        "is multiplied by the scale": d * spec.factor,
    }.items():
        yield f"D, the sum of dO O, {words}", Step(alone=partial(_of, array=other))
    for words, place in places_of_rows(matrices.rows).items():
        yield f"D is that {words}", Step(alone=lambda r, place=place: place(r).of(d))
    for words, scores in {
        "are not multiplied by the weights": lambda _, rest, d, slope: (rest - d) * slope,
        "are P (1 - P) dP: the diagonal of the softmax alone": lambda p, rest, _, slope: (
            p * (1.0 - p) * rest * slope
        ),
        "are multiplied by the weights twice": lambda p, rest, d, slope: p * p * (rest - d) * slope,
        "are cut off at 0 where they are negative": lambda p, rest, d, slope: np.maximum(
            p * (rest - d) * slope, 0.0
        ),
        "have the opposite sign": lambda p, rest, d, slope: -p * (rest - d) * slope,
    }.items():
        yield f"gradients of scores {words}", Step(scores=scores)


def _factors(matrices: Matrices) -> Named:
    """Powers of the scale that dq and dk are multiplied by, and slopes of the soft cap."""
    spec, s = matrices.problem.spec, matrices.problem.spec.factor
    for words, (of_query, of_key) in {
        "dq is not multiplied by the scale": (1.0 / s, 1.0),
        "dk is not multiplied by the scale": (1.0, 1.0 / s),
        "dq and dk are not multiplied by the scale": (1.0 / s, 1.0 / s),
        "dq is multiplied by the scale twice": (s, 1.0),
        "dk is multiplied by the scale twice": (1.0, s),
        "dq and dk are multiplied by the scale twice": (s, s),
        "dq is divided by the scale": (1.0 / s / s, 1.0),
        "dk is divided by the scale": (1.0, 1.0 / s / s),
        "dq and dk are divided by the scale": (1.0 / s / s, 1.0 / s / s),
    }.items():
        yield words, Step(of_query=of_query, of_key=of_key)
    if spec.soft_cap is not None:
        tanh = np.tanh(matrices.raw * s / spec.soft_cap)
        for words, slope in {
            "is left out": 1.0 + 0.0 * tanh,
            "is 1 - |tanh|, not 1 - tanh^2": 1.0 - np.abs(tanh),
            "is taken at the capped logit": 1.0 - np.tanh(tanh) ** 2,
        }.items():
            yield f"the slope of the soft cap {words}", Step(slope=partial(_of, array=slope))


def _log_sum_exps(matrices: Matrices) -> Named:
    """Log-sum-exps of other rows, in another base, or without the sink."""
    rest, lse = matrices.rest, matrices.lse
    for words, place in places_of_rows(matrices.rows).items():
        yield f"the log-sum-exp is that {words}", Step(lse=lambda r, place=place: place(r).of(lse))
    top = matrices.whole(largest(matrices.rows, matrices.rows.logits))
    others = {"has base two and is read as one of base e": lse / np.log(2.0)}
    others |= {"is the largest logit alone": np.where(np.isfinite(lse), top, lse)}
    for words, other in others.items():
        yield f"the log-sum-exp {words}", Step(lse=partial(_of, array=other))
    if matrices.problem.sinks is not None:
        weights, total = softmax(matrices.rows, matrices.rows.logits, sinks=np.array(-np.inf))
        other = largest(matrices.rows, matrices.rows.logits, np.array(-np.inf)) + np.log(total)
        alone = (weights / total * rest.reshape(weights.shape)).sum(-1)
        yield (
            "the sink is missing from the log-sum-exp and from D",
            Step(
                lse=partial(_of, array=matrices.whole(other)),
                alone=partial(_of, array=matrices.whole(alone)),
            ),
        )


def _rounded(matrices: Matrices) -> Named:
    for name in ("bfloat16", "float16", "float8_e4m3fn"):
        form = FORMATS[name]
        yield f"weights are rounded to {name}", Step(weights=partial(nearest, form=form))
        if form.digits < matrices.problem.spec.output.digits:
            rounded = lambda p, rest, d, slope, form=form: nearest(p * (rest - d) * slope, form)  # noqa: E731
            yield f"gradients of scores are rounded to {name}", Step(scores=rounded)


def _blocks(matrices: Matrices) -> Named:
    """Blocks of queries or keys that a loop leaves out, or that overwrite those before."""
    spec = matrices.problem.spec
    lost = "the last block, which is not full, adds nothing to dk and dv"
    for n in BLOCKS:
        whole, last = spec.queries // n * n, (spec.queries - 1) // n * n
        if n < spec.queries:
            size = f"(blocks of {n} queries)"
            some, late = partial(_queries, end=whole), partial(_queries, start=last)
            yield f"dk and dv are those of the last block, not summed {size}", Step(kept=late)
            yield f"{lost} {size}", Step(kept=some)
            yield f"{lost}, and has no dq {size}", Step(kept=some, asked=some)
        if n < spec.keys:
            late = partial(_keys, start=(spec.keys - 1) // n * n)
            yield f"dq is that of the last block, not summed (blocks of {n} keys)", Step(asked=late)


def _queries(rows: Rows, start: int = 0, end: int | None = None) -> Booleans:
    return np.asarray(
        (rows.i >= start) & (rows.i < (rows.problem.spec.queries if end is None else end))
    )


def _keys(rows: Rows, start: int) -> Booleans:
    return np.asarray(rows.j >= start)


def _without_last(x: Array) -> Array:
    found: Array = x * (np.arange(x.shape[2]) < x.shape[2] - 1)[:, None]
    return found


def _of(rows: Rows, array: Array) -> Array:
    return rows.of(array)


def written(matrices: Matrices) -> Iterator[tuple[str, Three]]:
    """Gradients that are computed rightly, and written wrongly."""
    spec, right = matrices.problem.spec, matrices.right
    dq, dk, dv = right
    if dk.shape == dv.shape:
        yield "dk and dv are exchanged", (dq, dv, dk)
    yield "dq and dk are zero", (0.0 * dq, 0.0 * dk, dv)
    ways: dict[str, Callable[[Array], Array]] = {
        "is zero": lambda x: 0.0 * x,
        "of the last token is zero": _without_last,
        "has the opposite sign": lambda x: -x,
        "is twice as large": lambda x: 2.0 * x,
        "is multiplied by the scale": lambda x: spec.factor * x,
        "is summed over sequences": lambda x: x.sum(0, keepdims=True) + 0.0 * x,
        "is that of the next token": lambda x: np.roll(x, -1, 2),
        "is that of the token before": lambda x: np.roll(x, 1, 2),
        "is that of the next head": lambda x: np.roll(x, -1, 1),
        "is that of the head before": lambda x: np.roll(x, 1, 1),
        "is that of head 0": lambda x: x[:, :1] + 0.0 * x,
        "is that of the next sequence": lambda x: np.roll(x, -1, 0),
        "is that of sequence 0": lambda x: x[:1] + 0.0 * x,
        "has heads in reverse order": lambda x: x[:, ::-1],
        "has tokens in reverse order": lambda x: x[:, :, ::-1],
        "is laid out as (B, T, H, d), and read as (B, H, T, d)": lambda x: x.swapaxes(1, 2).reshape(
            x.shape
        ),
    }
    for index, name in enumerate(NAMES):
        for words, way in ways.items():
            yield f"{name} {words}", _with(right, {index: way(right[index])})
    p, scores, scale = matrices.weights, matrices.scores, spec.factor
    heads = {1: matrices.of_heads(scores * scale)(matrices.problem.q),
             2: matrices.of_heads(p)(matrices.d_out)}  # fmt: skip

    def split(x: Array) -> Array:
        return x.reshape(spec.batch, spec.heads[1], spec.group, *x.shape[2:])

    of_group: dict[str, Callable[[Array], Array]] = {
        "those of the first query head of each group alone": lambda x: split(x)[:, :, 0],
        "those of the last query head of each group alone": lambda x: split(x)[:, :, -1],
        "averaged over query heads of a group, not summed": lambda x: split(x).mean(2),
        "the largest of the query heads of a group, not summed": lambda x: split(x).max(2),
        "those of query heads h % G, not h // group": lambda x: x.reshape(
            spec.batch, spec.group, spec.heads[1], *x.shape[2:]
        ).sum(1),
    }
    for words, way in of_group.items() if spec.group > 1 else ():
        found = {index: way(x) for index, x in heads.items()}
        yield f"dk and dv are {words}", _with(right, found)
        yield f"rows of dk are {words}", _with(right, {1: found[1]})
        yield f"rows of dv are {words}", _with(right, {2: found[2]})
    if spec.queries == spec.keys:
        q, add = matrices.problem.q, matrices.summed
        turned = scores.swapaxes(-1, -2) * scale
        yield "dv is made of weights that are not transposed", (dq, dk, add(p @ matrices.d_out))
        yield (
            "dk is made of gradients of scores that are not transposed",
            (dq, add(scores @ q * scale), dv),
        )
        yield (
            "dq is made of gradients of scores that are transposed",
            (turned @ matrices.keys, dk, dv),
        )
        if q.shape[-1] == matrices.keys.shape[-1]:
            yield "dq is made of queries, not of keys", (scores @ q * scale, dk, dv)
            yield "dk is made of keys, not of queries", (dq, add(turned @ matrices.keys), dv)


def _with(right: Three, others: dict[int, Array]) -> Three:
    found = [others.get(index, each) for index, each in enumerate(right)]
    return found[0], found[1], found[2]


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
        if not (change.weights or change.rows or change.output):
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
