"""Classic mistakes: a sentence and a `Change` each. A new mistake is a line.

Most are products: a place that is wrong (of rows, of keys) times the part that is taken from there
(output, query, mask, .., values), or a set of keys times what happens to it (it is not read, it
counts twice, ..). Sizes of blocks come last in a sentence, in brackets. A name that no bug of a
stranger has needed may go: rows are described without it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from constructive.exact.float_model import FORMATS, Format, nearest
from constructive.kernels.formula import Change, Rows, exp, fading, largest, of_splits, softmax
from constructive.kernels.names_of_places import (
    BLOCKS,
    OF_PLACES,
    At,
    Named,
    Of,
    Weighed,
    places_of_rows,
    splits,
)
from constructive.support.arrays import Array

LOG2E = float(np.log2(np.e))
_ROUGH = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
_OF_SPLITS = (
    "of the next head", "of the previous head", "of head 0", "of the next sequence", "of query 0",
    "at (head, query), read as (query, head)",
    "of the first row of the block (blocks of 16 queries)",
)  # fmt: skip # places of log-sum-exps, which are tried for all sizes of splits
_WHOLE = 2**21  # logits of a problem of which all may be computed


def mistakes(rows: Rows) -> dict[str, Change]:
    """Return all mistakes that have a meaning for a problem."""
    return {words: change for family in FAMILIES for words, change in family(rows)}


def scores(rows: Rows) -> Named:
    """Scales, soft caps, and logits of hidden keys."""
    problem, spec, d = rows.problem, rows.problem.spec, rows.problem.spec.head_dim
    scale, cap = spec.factor, spec.soft_cap
    factors = {
        "logits are not scaled": 1.0 / scale,
        "the scale is applied twice": scale,
        "the scale is 1 / d": 1.0 / d / scale,
        "the scale is that of the width of values": spec.d_v**-0.5 / scale,
        "the scale of the problem is ignored": d**-0.5 / scale,
        "the scale is also divided by sqrt(d)": d**-0.5,
        "logits have the factor log2(e)": LOG2E,
        "logits lack the factor log2(e): exp2 in the place of exp": 1.0 / LOG2E,
        "logits are doubled": 2.0,
        "logits are negated": -1.0,
    }
    for words, factor in factors.items():
        yield words, Change(logits=partial(Rows.scored, factor=factor))
    of_raw: dict[str, Weighed] = {}
    hidden = {"0": 0.0, "-100": 100.0, "-10000": 1e4, "-50000": 5e4, "-1e9": 1e9}
    if cap is not None:
        hidden["-cap, as the soft cap comes after the mask"] = cap
        of_raw |= {
            "the soft cap is not applied": lambda r, raw: r.scored(raw, capped=False),
            "the soft cap is not multiplied back": lambda _, raw: np.tanh(raw * scale / cap),
            "the soft cap is applied before the scale": lambda _, raw: (
                cap * np.tanh(raw / cap) * scale
            ),
            "the soft cap cuts off": lambda _, raw: np.clip(raw * scale, -cap, cap),
        }
    for words, low in hidden.items():
        change = Change(visible=lambda r: r.j < r.keys, logits=partial(_lowered, low=low))
        yield f"hidden keys have the logit {words}", change
    if problem.answer.weights.size <= _WHOLE:
        yield "softmax is over queries, not over keys", Change(weights=_over_queries)
        if spec.queries == spec.keys:
            of_raw["logits are transposed"] = lambda r, _: r.scored(
                r.of(_products(r).swapaxes(2, 3))
            )
    for words, logits in of_raw.items():
        yield words, Change(logits=logits)
    for n in (n for n in (16, 32, 64, 8) if d % n and d > n):
        kept = partial(_without_entries, end=d // n * n)
        yield f"entries of q and k behind the last {n} are left out", Change(k=kept)


def _lowered(rows: Rows, raw: Array, low: float) -> Array:
    return np.where(rows.visible, rows.scored(raw), -low)


def _without_entries(rows: Rows, end: int) -> Array:
    k = rows.problem.k
    return np.where(np.arange(k.shape[-1]) < end, k, 0.0)


def _products(rows: Rows) -> Array:
    """Return products of all queries and keys of a problem, (B, H, T_q, T_k)."""
    problem = rows.problem

    def made() -> Array:
        found: Array = problem.q @ np.repeat(problem.k, problem.spec.group, 1).swapaxes(-1, -2)
        return found

    found: Array = rows.once("products", made)
    return found


def _over_queries(rows: Rows, logits: Array) -> tuple[Array, float]:
    """Return weights that are divided by the sum over the queries that see a key."""

    def sums() -> tuple[Array, Array]:
        problem, each = rows.problem, rows.capped(_products(rows))
        each = each if problem.bias is None else each + problem.bias
        each = np.where(problem.visible, each, -np.inf)
        top = each.max(2, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        return top, exp(each - top).sum(2, keepdims=True)

    top, total = (rows.of(x) for x in rows.once("sums over queries", sums))
    return exp(logits - top) / np.where(total > 0, total, 1.0), 1.0


def biases(rows: Rows) -> Named:
    """What is added to logits, and how."""
    if rows.bias is None:
        return
    scale, cap = rows.problem.spec.factor, rows.problem.spec.soft_cap
    others: Of = {
        "is not added": lambda r: 0.0 * r.bias,
        "is scaled as logits are": lambda r: scale * r.bias,
        "is added twice": lambda r: 2.0 * r.bias,
        "is multiplied by log2(e)": lambda r: LOG2E * r.bias,
        "is subtracted": lambda r: -r.bias,
        "has distances with a sign": lambda r: r.bias * np.where(r.j > r.at, -1.0, 1.0),
        "is zero for keys of the future": lambda r: np.where(r.j > r.at, 0.0, r.bias),
    }
    for words, bias in others.items():
        yield f"the bias {words}", Change(bias=bias)
    product = Change(logits=lambda r, raw: r.capped(raw) * r.bias)
    yield "the bias is multiplied with logits, not added", product
    if cap is not None:
        before = Change(logits=lambda r, raw: cap * np.tanh((raw * scale + r.bias) / cap))
        yield "the bias is added before the soft cap", before


def _most(logits: Array) -> Array:
    found: Array = logits.max(-1, keepdims=True)
    return found


def largest_logits(rows: Rows) -> Named:
    """Other numbers that are subtracted of logits."""
    spec = rows.problem.spec

    def of_block(n: int) -> Weighed:
        return lambda r, _: np.max(
            [_most(r.moved(i=np.minimum(r.i // n * n + step, spec.queries - 1)).logits)
             for step in range(n)], axis=0,
        )  # fmt: skip

    tops: dict[str, Weighed] = {
        "is not subtracted": lambda *_: 0.0,
        "starts at 0": lambda r, s: np.maximum(largest(r, s), 0.0),
        "starts at -10000": lambda r, s: np.maximum(largest(r, s), -1e4),
        "starts at -50000": lambda r, s: np.maximum(largest(r, s), -5e4),
        "is that of hidden keys, too": lambda r, _: _most(
            np.where(r.j < r.keys, r.scores, -np.inf)
        ),
        "is that before the scale": lambda r, s: _most(np.where(np.isfinite(s), r.raw, -np.inf)),
    }
    for n in BLOCKS[:3]:
        tops[f"is that of all rows of a block (blocks of {n} queries)"] = of_block(n)
    for words, top in tops.items():
        yield f"the largest logit {words}", Change(weights=partial(_below, top=top))


def _below(rows: Rows, logits: Array, top: Weighed) -> tuple[Array, Array]:
    return softmax(rows, logits, top=top(rows, logits))


def denominators(rows: Rows) -> Named:
    """Sums of weights that count something else, or are of other rows."""
    keys = rows.problem.spec.keys

    def zeros(n: int) -> Of:
        return {
            f"keys of zeros count, up to a multiple of {n}": lambda r: -r.keys % n,
            f"keys of zeros count in the place of padding, up to a multiple of {n}": lambda r: (
                -(-keys // n) * n - r.keys
            ),
        }

    for n in BLOCKS:
        for words, count in zeros(n).items():
            yield words, Change(weights=partial(_with_zeros, count=count))
    sums: dict[str, Weighed] = {
        "the sum of weights starts at 1": lambda r, s: _sum(r, s) + 1.0,
        "the sum of weights has a key of zeros more": lambda r, s: _sum(r, s) + exp(-largest(r, s)),
        "the sum of weights has hidden keys, too": lambda r, s: _sum(r, s) + _sum_of_hidden(r, s),
        "the sum of values is not divided": lambda *_: 1.0,
        "the sum of values is divided twice": lambda r, s: _sum(r, s) ** 2,
    }
    for name, place in places_of_rows(rows).items():
        if "row" in name:  # of the same head
            sums[f"the sum of weights is that {name}"] = partial(_sum_of_others, place=place)
    if rows.sinks is not None:
        sums["the sink is added without the largest logit"] = lambda r, s: (
            softmax(r, s)[0].sum(-1, keepdims=True) + exp(r.sinks)
        )
    for words, total in sums.items():
        yield words, Change(weights=partial(_divided, total=total))


def _with_zeros(rows: Rows, logits: Array, count: At) -> tuple[Array, Array]:
    return softmax(rows, logits, zeros=count(rows))


def _divided(rows: Rows, logits: Array, total: Weighed) -> tuple[Array, Any]:
    return softmax(rows, logits)[0], total(rows, logits)


def _sum(rows: Rows, logits: Array) -> Array:
    return softmax(rows, logits)[1]


def _sum_of_hidden(rows: Rows, logits: Array) -> Array:
    seen = np.isfinite(logits) | (rows.j >= rows.keys)
    found: Array = exp(np.where(seen, -np.inf, rows.scores) - largest(rows, logits)).sum(-1)
    return found[:, None]


def _sum_of_others(rows: Rows, logits: Array, place: At) -> Array:
    del logits
    other: Rows = place(rows)
    return other.softmax[1]


def sinks(rows: Rows) -> Named:
    """Sinks that count for something else."""
    logits = rows.problem.sinks
    if logits is None:
        return
    scale = rows.problem.spec.factor
    others: Of = {
        "is ignored": lambda r: r.sinks - np.inf,
        "counts twice": lambda r: r.sinks + np.log(2.0),
        "is scaled as logits are": lambda r: r.sinks * scale,
        "has the factor log2(e)": lambda r: r.sinks * LOG2E,
        "lacks the factor log2(e)": lambda r: r.sinks / LOG2E,
        "is negated": lambda r: -r.sinks,
        "is that of head i mod H": lambda r: logits[r.i % len(logits)],
    }

    def each_block(n: int) -> At:
        return lambda r: r.sinks + np.log(_most(np.where(r.visible, r.j // n + 1, 1)))

    for n in BLOCKS:
        others[f"counts in each block of keys (blocks of {n})"] = each_block(n)
    for words, other in others.items():
        yield f"the sink {words}", Change(sinks=other)
    yield "the sink has the value of the first key", Change(weights=_with_value)


def _with_value(rows: Rows, logits: Array) -> tuple[Array, Array]:
    weights, total = softmax(rows, logits)
    return weights + (rows.j == 0) * exp(rows.sinks - largest(rows, logits)), total


def blocks_and_splits(rows: Rows) -> Named:
    """Wrong factors between blocks of keys: a wrong number that is subtracted of a logit."""
    less: dict[str, Callable[[Array, Array, Array], tuple[Any, Any]]] = {
        # of the largest logits of the block, of all so far, of all: for the output, and for the sum
        "the accumulator is not rescaled": lambda _, so_far, top: (so_far, top),
        "sums are not rescaled": lambda _, so_far, top: (top, so_far),
        "neither sums nor the accumulator are rescaled": lambda _, so_far, __: (so_far, so_far),
        "each block has its own largest logit, and nothing is rescaled": lambda own, *_: (own, own),
        "the accumulator is rescaled twice": lambda _, so_far, top: (2 * top - so_far, top),
        "factors of rescaling are inverted": lambda _, so_far, top: (2 * so_far - top,) * 2,
        "factors of rescaling lack log2(e)": lambda _, so_far, top: (
            (so_far + (top - so_far) / LOG2E,) * 2
        ),
        "growth of less than 8 octaves is not rescaled": lambda _, so_far, top: (
            (np.where(top - so_far < 8 / LOG2E, so_far, top),) * 2
        ),
    }
    for n in (n for n in BLOCKS if n < rows.problem.spec.keys):
        for words, part in less.items():
            change = Change(weights=partial(fading, less=part, n=n))
            yield f"{words} (blocks of {n} keys)", change
    scale = rows.problem.spec.factor
    shares: dict[str, Callable[[Array, Array], Array]] = {
        # of the largest logits and the sums of splits: their log-sum-exps
        "splits are merged by their largest logits alone": lambda top, _: top,
        "splits are merged with equal weights": lambda _, total: np.where(total > 0, 0.0, -np.inf),
        "log-sum-exps of splits have base two, and are merged in base e": lambda top, total: (
            LOG2E * _lse(top, total)
        ),
        "log-sum-exps of splits have base e, and are merged in base two": lambda top, total: (
            _lse(top, total) / LOG2E
        ),
        "log-sum-exps of splits lack their largest logits": lambda _, total: np.log(total),
        "log-sum-exps of splits are multiplied by the scale once more": lambda top, total: (
            _lse(top, total) * scale
        ),
        "splits without keys have the log-sum-exp 0": lambda top, total: np.where(
            total > 0, _lse(top, total), 0.0
        ),
    }
    places = {words: place for words, place in places_of_rows(rows).items() if words in _OF_SPLITS}
    for n, size in splits(rows):
        for words, share in shares.items():
            yield f"{words} {size}", Change(weights=partial(of_splits, share=share, n=n))
        for words, place in places.items():
            change = Change(weights=partial(of_splits, share=_lse, n=n, place=place))
            yield f"log-sum-exps of splits are those {words} {size}", change


def _lse(top: Array, total: Array) -> Array:
    found: Array = top + np.log(total)
    return found


def precision(rows: Rows) -> Named:
    """Numbers that are rounded to fewer bits than the output has."""
    weighed: dict[str, Callable[[Array, Array, Format], tuple[Any, Any]]] = {
        "weights are": lambda w, total, form: (nearest(w, form), total),
        "weights are divided by their sum, and then": lambda w, total, form: (
            nearest(w / total, form), 1.0,
        ),
        "the sum of weights is": lambda w, total, form: (w, nearest(total, form)),
        "the reciprocal of the sum of weights is": lambda w, total, form: (
            w * nearest(1.0 / total, form), 1.0,
        ),
    }  # fmt: skip

    def of_format(form: Format) -> dict[str, Change]:
        return {
            "the output is": Change(output=lambda _, x: nearest(x, form)),
            "logits are": Change(logits=lambda r, raw: nearest(r.scored(raw), form)),
        } | {
            words: Change(weights=partial(_rounded, of=of, form=form))
            for words, of in weighed.items()
        }

    for form in (FORMATS[name] for name in _ROUGH):
        if form.digits < rows.problem.spec.output.digits:
            for words, change in of_format(form).items():
                yield f"{words} rounded to {form.name}", change


def _rounded(
    rows: Rows, logits: Array, of: Callable[[Array, Array, Format], tuple[Any, Any]], form: Format
) -> tuple[Any, Any]:
    return of(*softmax(rows, logits), form)


FAMILIES: tuple[Callable[[Rows], Named], ...] = (
    *OF_PLACES, scores, biases, largest_logits, denominators, sinks, blocks_and_splits, precision,
)  # fmt: skip
