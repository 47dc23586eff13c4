"""Mistakes about logits: scale, soft cap, slopes, numbers in place of -inf."""

import math
from functools import partial

import numpy as np

from constructive.kernels.masks import Causal
from constructive.kernels.mistakes.bench import Bench, Mistakes
from constructive.support.arrays import Array

_FINITE = -20.0  # Numbers below stand for -inf; which of them it is does not show


def scale(bench: Bench) -> Mistakes:
    """Yield other factors of logits."""
    spec = bench.problem.spec
    s, d = spec.factor, spec.head_dim
    factors = {
        "logits are not scaled": 1.0 / s,
        "the scale is applied twice": s,
        "the scale is its square root": s**-0.5,
        "the scale is 1 / head_dim": 1.0 / d / s,
        "the scale is sqrt(head_dim)": math.sqrt(d) / s,
        "exp2 without log2(e)": math.log(2.0),
        "log2(e) is applied twice, or with exp": 1.0 / math.log(2.0),
        "the scale is that of value_dim": spec.d_v**-0.5 / s,
        "the scale is 1 / sqrt(heads head_dim)": (spec.heads[0] * d) ** -0.5 / s,
        "the scale is 1 / sqrt(keys)": spec.keys**-0.5 / s,
        "the scale is that of head_dim rounded up to a power of two": _rounded(d) ** -0.5 / s,
        "the scale is the default, not the one that is given": d**-0.5 / s,
        "logits have the opposite sign": -1.0,
        "logits are twice as large": 2.0,
        "logits are half as large": 0.5,
        "logits are divided by 10": 0.1,
    }
    factors |= {f"the scale is {fixed}": fixed / s for fixed in (0.5, 0.25, 0.125, 0.0625, 0.1)}
    for sentence, factor in factors.items():
        if abs(factor - 1.0) > 1e-6:  # noqa: PLR2004
            yield sentence, partial(bench.changed, factor=factor)


def _rounded(width: int) -> float:
    return 2.0 ** math.ceil(math.log2(width))


def soft_caps(bench: Bench) -> Mistakes:
    """Yield soft caps that are missing, after the mask, or of another size."""
    spec, bias = bench.problem.spec, bench.bias
    cap, s = spec.soft_cap, spec.factor
    if cap is None:
        return
    plain = bench.raw * s
    more = 0.0 if bias is None else bias
    yield "the soft cap is ignored", partial(bench.changed, cap=None)
    after = np.where(bench.visible, bench.scores, -cap)
    everything = np.ones_like(bench.visible)
    yield (
        "the soft cap is applied after the mask: hidden keys have a logit of -cap",
        partial(bench.averaged, after, everything),
    )
    variants = {
        "the soft cap is applied before the scale": cap * np.tanh(bench.raw / cap) * s + more,
        "the soft cap does not multiply by the cap": np.tanh(plain / cap) + more,
        "the soft cap does not divide by the cap": cap * np.tanh(plain) + more,
        "the soft cap is applied twice": cap * np.tanh(cap * np.tanh(plain / cap) / cap) + more,
        "the soft cap is a clip": np.clip(plain, -cap, cap) + more,
        "the soft cap is x / (1 + |x|), not tanh": cap * plain / (cap + np.abs(plain)) + more,
        "the soft cap is half as large": cap / 2 * np.tanh(plain / cap * 2) + more,
        "the soft cap is twice as large": cap * 2 * np.tanh(plain / cap / 2) + more,
        "the soft cap is scaled with the logits": cap * s * np.tanh(plain / cap / s) + more,
        "the logit is scaled twice before the soft cap": cap * np.tanh(plain * s / cap) + more,
        "the logit is scaled after the soft cap too": cap * np.tanh(plain / cap) * s + more,
    }
    for sentence, scores in variants.items():
        yield sentence, partial(bench.averaged, scores)


def slopes(bench: Bench) -> Mistakes:
    """Yield slopes of other heads, other signs, other distances."""
    problem = bench.problem
    spec, bias, found = problem.spec, bench.bias, problem.slopes
    if bias is None or found is None:
        return
    yield "the slopes are ignored", partial(bench.changed, bias=None)
    yield "slopes have the opposite sign", partial(bench.changed, bias=-bias)
    yield "slopes are multiplied by the scale", partial(bench.changed, bias=bias * spec.factor)
    count = spec.heads[0]
    h = np.arange(count)
    maps = {
        "slopes are those of head 0": h * 0,
        "slopes are those of the next head": (h + 1) % count,
        "slopes are in reverse order": count - 1 - h,
        "slopes are those of the KV head": h // spec.group,
    }
    unit = bias[:, :1] / found[0] if found[0] else None
    for sentence, order in maps.items():
        if unit is not None and not np.array_equal(found[order], found):
            yield sentence, partial(bench.changed, bias=found[order][:, None, None] * unit)
    i, j = bench.rows[:, None], np.arange(spec.keys)
    each = found[:, None, None]
    causal = spec.mask(Causal)
    shift = spec.keys - spec.queries
    other = 0 if causal is None or causal.alignment == "bottom-right" else shift
    yield (
        "distances of slopes are aligned otherwise",
        partial(bench.changed, bias=-each * np.abs(i + other - j)),
    )
    yield (
        "distances of slopes are not absolute",
        partial(bench.changed, bias=-each * (i + (shift - other) - j)),
    )
    distance = i + (shift - other) - j
    options = {
        "distances of slopes are 0 for keys of the future": np.maximum(distance, 0),
        "distances of slopes are 0 for keys of the past": np.maximum(-distance, 0),
        "distances of slopes are squared": distance**2,
    }
    for sentence, sizes in options.items():
        yield sentence, partial(bench.changed, bias=-each * sizes)
    usual = np.exp2(-8.0 * (h + 1) / count)[:, None, None]
    yield (
        "slopes are 2^(-8 (h + 1) / heads), not those that are given",
        partial(bench.changed, bias=-usual * np.abs(distance)),
    )
    yield "slopes are multiplied by the position of the key", partial(bench.changed, bias=each * j)


def biases(bench: Bench) -> Mistakes:
    """Yield biases that are combined with logits in other ways, or are those of other places."""
    bias, spec, visible = bench.bias, bench.problem.spec, bench.visible
    if bias is None:
        added = bench.problem.added
        if added is None:
            return
        # The bias is a mask that is added: -inf, and not hidden otherwise.
        bias, visible = bench.of_rows(added), np.ones_like(visible)
    plain = bench.scored(bias=None)
    with np.errstate(invalid="ignore"):  # 0 times -inf
        product = plain * bias
    ways = {
        "the bias is ignored": plain,
        "the bias is added twice": plain + 2.0 * bias,
        "the bias is subtracted": plain - bias,
        "the bias is multiplied with the logits, not added": product,
        "the bias is added before the scale": plain + bias * spec.factor,
        "the bias is divided by the scale": plain + bias / spec.factor,
        "the bias is multiplied by log2(e)": plain + bias / math.log(2.0),
        "the bias is not multiplied by log2(e), where logits are": plain + bias * math.log(2.0),
        "the bias is half as large": plain + 0.5 * bias,
    }
    if spec.soft_cap is not None:
        cap = spec.soft_cap
        ways["the bias is added before the soft cap"] = cap * np.tanh(
            (bench.raw * spec.factor + bias) / cap
        )
    for sentence, scores in ways.items():
        yield sentence, partial(bench.averaged, scores, visible)
    others = {
        "that of head 0": bias[:, :1],
        "that of the next head": np.roll(bias, -1, 1),
        "that of sequence 0": bias[:1],
        "that of the next sequence": np.roll(bias, -1, 0),
        "that of the next key": np.roll(bias, -1, 3),
        "that of the key before": np.roll(bias, 1, 3),
    }
    for words, other in others.items():
        if not np.array_equal(np.broadcast_to(other, bias.shape), bias):
            yield f"the bias is {words}", partial(bench.averaged, plain + other, visible)


def hidden(bench: Bench) -> Mistakes:
    """Yield finite numbers in place of -inf, and masks that come too late."""
    if bench.problem.visible.all():
        return
    visible, everything = bench.visible, np.ones_like(bench.visible)
    values = (0.0, -1.0, -10.0, -30.0, -50.0, -100.0, -1e3, -1e4, -5e4)
    for value in values:
        logits = np.where(visible, bench.scores, value)
        words = "a logit of" if value > _FINITE else "a finite logit, such as"
        yield f"hidden keys have {words} {value:g}", partial(bench.averaged, logits, everything)
    for value in values:
        if value:
            added = bench.scores + np.where(visible, 0.0, value)
            yield (
                f"{value:g} is added to the logits of hidden keys",
                partial(bench.averaged, added, everything),
            )
    yield (
        "hidden keys have a logit of 1 (the mask is multiplied, or added as numbers)",
        partial(bench.averaged, bench.scores + visible, everything),
    )
    yield "hidden keys are in the denominator", partial(_after, bench)
    yield (
        "the mask is applied with the opposite sign",
        partial(
            bench.averaged, np.where(visible, bench.scores, np.finfo(np.float32).max), everything
        ),
    )
    largest = np.where(visible, -np.inf, bench.scores)
    for words, empty in (("NaN", np.nan), ("zeros", 0.0)):
        yield (
            f"the maximum is taken over hidden keys too, and rows that underflow are {words}",
            partial(_underflow, bench, largest.max(-1, keepdims=True), empty),
        )


def _after(bench: Bench) -> Array:
    weights, total = bench.weighed(visible=np.ones_like(bench.visible))
    return (weights * bench.visible) @ bench.values / total


def _underflow(bench: Bench, least: Array, empty: float) -> Array:
    logits = bench.logits
    with np.errstate(all="ignore"):
        largest = np.maximum(logits.max(-1, keepdims=True), least)
        weights = np.exp((logits - largest).astype(np.float32)).astype(np.float64)
        total = weights.sum(-1, keepdims=True)
        return np.where(total > 0.0, weights @ bench.values / total, empty)
