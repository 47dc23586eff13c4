"""Laws of numbers: the factor of logits, what is added to sums of weights, sinks and slopes."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from constructive.kernels.laws.evidence import Evidence
from constructive.kernels.laws.row_maps import explicit, of_places
from constructive.kernels.laws.sizes import block_sizes
from constructive.kernels.laws.words import listed
from constructive.kernels.mistakes.bench import Mistakes
from constructive.support.arrays import Array, Integers

_SPREAD = 0.02  # By which factors of rows may differ, as a part
_NEARLY = 1e-4
_TIMES = (-1.0, 0.0, 0.5, 2.0, 4.0, 0.25)  # Factors of slopes that are tried


def scales(evidence: Evidence) -> Mistakes:
    """Yield the factor of logits that two keys of a row show."""
    problem = evidence.problem
    if problem.draft.near is None or problem.spec.soft_cap is not None:
        return
    weights = evidence.of(problem.answer.weights)
    apart = problem.draft.near * problem.spec.factor
    found = []
    for row in range(len(weights)):
        keys = np.flatnonzero(weights[row])
        near = weights[row, keys] < 1.0
        if len(keys) == 2 and near.any() and np.isfinite(evidence.read[row]).all():
            parts = np.linalg.lstsq(evidence.values[row, keys].T, evidence.read[row], rcond=None)[0]
            if (parts > 0.0).all():
                found.append(float(np.log(parts[near][0] / parts[~near][0]) / apart))
    if not found or np.ptp(found) > _SPREAD * max(abs(np.median(found)), _NEARLY):
        return
    factor = float(np.mean(found))
    if abs(factor - 1.0) > _NEARLY:
        own = problem.spec.factor
        yield (
            f"logits are {factor:.4g} times what they should be: the scale is {factor * own:.5g}, "
            f"not {own:.5g}{_of_width(evidence, factor * own)}",
            partial(_scaled, evidence, factor),
        )


def _of_width(evidence: Evidence, scale: float) -> str:
    """Say of which number a scale is made, if it is one that kernels have."""
    spec = evidence.problem.spec
    numbers = {
        "head_dim": spec.head_dim, "value_dim": spec.d_v, "heads": spec.heads[0],
        "heads * head_dim": spec.heads[0] * spec.head_dim, "kv_heads * head_dim":
        spec.heads[1] * spec.head_dim, "keys": spec.keys, "queries": spec.queries,
    }  # fmt: skip
    powers = {"1 / sqrt({})": -0.5, "1 / {}": -1.0, "sqrt({})": 0.5, "{}^-0.25": -0.25}
    for words, power in powers.items():
        for name, number in numbers.items():
            if abs(scale * float(number) ** -power - 1.0) < _NEARLY * 10:
                return f" ({words.format(name)})"
    return ""


def _scaled(evidence: Evidence, factor: float) -> Array:
    return evidence.bench.averaged(evidence.bench.scored(factor=factor))


def sums(evidence: Evidence) -> Mistakes:
    """Yield a number that is added to sums of weights, and a factor of all rows."""
    right, read = evidence.of(np.nan_to_num(evidence.problem.expected)), evidence.read
    with np.errstate(all="ignore"):
        ratios = (read / right).mean(-1)
        ratio = float(np.median(ratios[evidence.is_wrong]))
    if np.isfinite(ratio) and ratio > 0.0 and abs(ratio - 1.0) > _NEARLY:
        yield f"the output is multiplied by {ratio:.6g}", partial(_times, evidence, ratio)
    _, total = evidence.weighed(evidence.scores, evidence.visible)
    with np.errstate(all="ignore"):
        more = (total[:, 0] / ratios - total[:, 0])[evidence.is_wrong]
    number = float(np.median(more)) if len(more) else 0.0
    if np.isfinite(number) and abs(number) > _NEARLY:
        number = round(number * 64) / 64 if abs(number * 64 - round(number * 64)) < 0.05 else number  # noqa: PLR2004
        yield (
            f"{number:.6g} is added to the sum of weights of every row",
            partial(evidence.bench.averaged, more=number),
        )


def phantoms(evidence: Evidence) -> Mistakes:
    """Yield keys that are not there and count in sums of weights."""
    agree = _with_zeros(evidence)
    for words, counts in dict(_counts(evidence)).items():
        if counts.max() > 0 and agree(counts[evidence.sample]):
            yield (
                f"keys that are not there count, with a logit and a value of 0: {words}",
                partial(_zeros, evidence, counts),
            )


def _with_zeros(evidence: Evidence) -> Callable[[Integers], bool]:
    """Return whether rows of the sample agree with numbers of keys of zeros, (R,)."""
    weights, total = evidence.weighed(evidence.scores, evidence.visible)
    top = np.where(evidence.visible, evidence.scores, -np.inf).max(-1, keepdims=True)
    top = np.maximum(top, evidence.sinks[:, None])
    up = np.maximum(top, 0.0)
    with np.errstate(all="ignore"):
        factor, zero = np.exp(top - up), np.exp(-up)

    def agree(counts: Integers) -> bool:
        some = counts[:, None]
        with np.errstate(all="ignore"):
            shrunk = np.where(some > 0, factor, 1.0)
            more = np.where(some > 0, some * zero, 0.0)
            shares = weights * shrunk / (total * shrunk + more)
        return bool(evidence.agrees(evidence.summed(shares)).all())

    return agree


def _counts(evidence: Evidence) -> Iterator[tuple[str, Integers]]:
    """Yield how many keys too many each row has, (N,)."""
    spec, visible = evidence.problem.spec, evidence.bench.visible
    length = spec.lengths[1][evidence.every[0]]
    seen = visible.sum(-1).ravel()
    end = np.where(visible, np.arange(spec.keys) + 1, 0).max(-1).ravel()
    yield "as many as are hidden", spec.keys - seen
    yield "as many as the mask hides, without padding", np.maximum(length - seen, 0)
    yield "as many as a sequence is shorter than the longest", length.max() - length
    for size in block_sizes(max(spec.keys, 129) - 1):
        padding = f"up to the end of the last block (blocks of {size} keys)"
        yield f"{padding}, of the length of a sequence", -length % size
        yield f"{padding}, of all keys", 0 * length + -spec.keys % size
        yield f"{padding}, of visible keys", -end % size
        blocks = -(-length // size)
        yield f"one for each block of keys (blocks of {size} keys)", blocks
        yield f"one for each block of keys but the first (blocks of {size} keys)", blocks - 1


def _zeros(evidence: Evidence, counts: Integers) -> Array:
    return evidence.bench.averaged(zeros=counts.reshape(*evidence.wrong.shape, 1))


def _times(evidence: Evidence, ratio: float) -> Array:
    return evidence.bench.averaged() * ratio


def sinks(evidence: Evidence) -> Mistakes:
    """Yield what the sink of each head weighs, and how often it counts."""
    own = evidence.problem.sinks
    if own is None:
        return
    h, count = evidence.places[1], len(own)
    other = np.unique(own)
    with np.errstate(divide="ignore"):
        logits = np.concatenate([own, [-np.inf, 0.0], other, *(own + np.log(n) for n in (2, 3, 4))])
    agrees = np.stack(
        [
            evidence.agrees(
                evidence.averaged(evidence.scores, evidence.visible, np.full(len(h), logit))
            )
            for logit in logits
        ],
        axis=1,
    )
    allowed = of_places(agrees, h, count)
    allowed[:, count:] &= ~allowed[np.arange(count), np.arange(count)][:, None]
    found = explicit(allowed, np.arange(count))
    if found is not None:
        chosen = logits[found[0]]
        parts = [
            f"{_shown(chosen[head])}, not {_shown(own[head])}, in head {head}"
            for head, _ in found[1]
        ]
        yield (
            f"the logit of the sink is {'; '.join(parts)}",
            partial(evidence.bench.averaged, sinks=chosen[:, None, None]),
        )
    for size in block_sizes(evidence.problem.spec.keys - 1):
        for of_length in (True, False):
            end = evidence.problem.spec.lengths[1][:, None, None] + 0 * evidence.every[2].reshape(
                evidence.wrong.shape
            )
            if not of_length:
                j = np.arange(evidence.problem.spec.keys) + 1
                end = np.where(evidence.bench.visible, j, 0).max(-1)
            number = np.maximum(-(-end // size), 1)
            more = own[h] + np.log(evidence.of(number))
            if evidence.agrees(evidence.averaged(evidence.scores, evidence.visible, more)).all():
                of_what = "its sequence" if of_length else "the row"
                every = own[:, None, None] + np.log(number[..., None])
                yield (
                    f"the sink counts once for each block of keys of {of_what} "
                    f"(blocks of {size} keys)",
                    partial(evidence.bench.averaged, sinks=every),
                )


def _shown(logit: float) -> str:
    return "gone" if logit == -np.inf else f"{logit:.4g}"


def slopes(evidence: Evidence) -> Mistakes:
    """Yield the slope of each head."""
    own, bias = evidence.problem.slopes, evidence.bench.bias
    if own is None or bias is None or not own.any():
        return
    steepest = float(own.max())
    unit = bias[:, int(own.argmax())][:, None] / steepest
    h, count = evidence.places[1], len(own)
    tried = np.concatenate([own, [0.0], steepest * np.asarray(_TIMES), [steepest]])
    rows = evidence.of(np.broadcast_to(unit, bias.shape))
    plain = evidence.scores - evidence.of(bias)
    agrees = np.stack(
        [
            evidence.agrees(evidence.averaged(plain + slope * rows, evidence.visible))
            for slope in tried
        ],
        axis=1,
    )
    allowed = of_places(agrees, h, count)
    allowed[:, count:] &= ~allowed[np.arange(count), np.arange(count)][:, None]
    found = explicit(allowed, np.arange(count))
    if found is None:
        return
    chosen = tried[found[0]]
    heads = [head for head, _ in found[1]]
    said = "; ".join(
        f"{slope:.4g} in head{'s' if len(which) > 1 else ''} {listed(which)}"
        for slope in np.unique(chosen[heads])
        if (which := [head for head in heads if chosen[head] == slope])
    )
    was = ", ".join(f"{own[head]:.4g}" for head in heads)
    yield (
        f"slopes are wrong: {said}, where they should be {was}",
        partial(_sloped, evidence, unit, chosen),
    )


def _sloped(evidence: Evidence, unit: Array, chosen: Array) -> Array:
    bias = unit * chosen[:, None, None]
    return evidence.bench.averaged(evidence.bench.scored(bias=bias))
