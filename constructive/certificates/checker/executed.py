"""The claim *executed* of a layer: |f - y| as any program of a model may evaluate it.

The evidence is a bound of |f - y| in real arithmetic, which real_claims shows; what is left of the
claimed bound has to be enough for rounding. With U_h = W_V W_O W_D of a head, by examples:

    eps    = gamma_m max_j |x_j|^T |W_K||W_Q|^T |e| + merging          logits, and l - max l
    s_j    = min(1, a_j (exp(2 eps) - 1))                              attention a_j
    moved  = sum_h min(sum_j s_j |v_j - c|, max v - min v)             values v_j = U_h^T x_j, any c
    summed = ((1 + zeta)(1 + gamma_k) - 1) sum_h (|W_V||W_O||W_D|)_h^T max_j |x_j|

with m and k roundings as the model counts them (float_model: logit_steps, output_steps).
First logits are exchanged for those that were computed, a_j for a_j w_j / sum_i a_i w_i with all
w in exp(+-eps): both sum to one, so any c may be taken from the values. (Where parts are merged by
logsumexp, a_j w_j is not divided by their sum, all w in exp(+-2 eps): so c = 0, no share is cut at
one, and sizes that are summed grow by a part exp(2 eps) - 1.) Then exact logits are
averaged as floats do (float_model). Underflow takes less than 2^-120 from each path of indices.

Logits are exact, eps = 0, where contexts, queries, and W_Q and W_K of the head are multiples of
powers of two, and the sizes of all terms of each sum on the way, in its unit, make less than 2^24.
Where any arrays may be multiplied first, a sum of some factors over some indices is less, in its
own unit, than d^2 d_h times the product of all four largest entries in theirs.
"""

import math
from fractions import Fraction

import numpy as np

from bounds import LONGEST, above, chunks, gamma, granularity, up
from files import require, require_bound
from float_model import (
    FLOAT64,
    MODELS,
    averaged,
    exponents,
    gamma_of,
    logit_steps,
    of_layers,
    output_steps,
    stretch,
)
from statements import VACUOUS

ENTRIES = 1 << 19  # of the largest array
SQUARINGS = 20
FINE = 2.0**-SQUARINGS
SINGLE = MODELS["float32, pairwise"]  # the numbers of float32


def error_of(claim):
    """The bound of |f - y| in real arithmetic on which it rests."""
    real = float.fromhex(claim["evidence"]["real"])
    require(0 <= real < math.inf, "the real bound of executed is no number")
    return real


def needs(shapes):
    """Bytes and operations, from shapes alone."""
    total, size, width, outputs, heads, inner, value_dim, between = shapes
    each = entries_of(shapes)
    held = 8 * 12 * max(ENTRIES, each)
    held += 8 * heads * width * (4 * width + 4 * inner + 4 * value_dim + 4 * outputs)
    between_them = heads * value_dim * (between + outputs) + between * outputs
    held += 8 * 3 * (between_them + total * (width + outputs))
    products = total * heads * width * (2 * width + 4 * size) + total * size * width * outputs
    products += 2 * heads * width * (inner * width + value_dim * (between + outputs))
    return held, 2 * products + 60 * total * each


def entries_of(shapes):
    """Entries of one example in the largest array: of logits, or of values."""
    _, size, width, outputs, heads, *_ = shapes
    return heads * max(size * max(outputs, 1), width) + size * width


def check_executed(claim, weights, data):
    """Rounding takes no more than what the claim leaves for it."""
    bound, real = require_bound(claim, "executed"), error_of(claim)
    model = require_model(claim, "float32")
    require("W_V_corrections" not in weights, "executed: a readout of several arrays is no float32")
    with np.errstate(all="ignore"):  # what is infinite, or not a number, is not proved
        found, exact = rounding(weights, data, model)
    enough = found < math.inf and Fraction(real) + Fraction(found) <= Fraction(bound)
    require(enough, f"executed: rounding may be {above(found, 6)}, more than is left for it")
    largest = float(np.abs(data["targets"]).max())
    vacuous = bound >= largest
    wanted = {"vacuous": largest.hex()} if vacuous else {}
    marked = {name: claim["evidence"][name] for name in claim["evidence"] if name == "vacuous"}
    require(marked == wanted, "executed: it does not say whether its bound is vacuous")
    said = VACUOUS.format(largest) if vacuous else ""
    return bound, said, claim["evidence"]["model"], of_layers(model, exact)


def require_model(claim, kept):
    """The model which a claim names, of numbers stored in a format."""
    name = claim["evidence"]["model"]
    require(type(name) is str and name in MODELS, "executed: its model is none")
    require(MODELS[name].kept == kept, f"executed: its model does not store in {kept}")
    return MODELS[name]


def rounding(weights, data, model):
    """The most that rounding does to any output, and whether all logits are exact."""
    names = ("W_Q", "W_K", "W_V", "W_O", "W_D")
    w_q, w_k, w_v, w_o, w_d = (weights[name].astype(np.float64) for name in names)
    (heads, width, inner), value_dim, between = w_q.shape, w_v.shape[2], len(w_d)
    contexts, queries = data["contexts"], data["queries"]
    total, size, outputs = len(queries), contexts.shape[-2], w_d.shape[1]
    require(
        max(heads * (width + value_dim), size, inner, between) <= LONGEST,
        "executed: sums are too long",
    )
    w_o = w_o.reshape(heads, value_dim, between)
    scored = beside(w_q @ w_k.transpose(0, 2, 1))
    score_sizes = beside(up(np.abs(w_q) @ np.abs(w_k).transpose(0, 2, 1)))
    readout = beside(w_v @ (w_o @ w_d))
    reach = up(up(np.abs(w_v) @ up(np.abs(w_o) @ np.abs(w_d))).sum(axis=0))

    sizes = heads, size, width, value_dim, between
    zeta, flushed = averaged(model, np.float64(size))
    units, short = short_sums(w_q, w_k, score_sizes, data, model)
    lost, lost_last = underflow(weights, data, float(flushed), stretch(model))
    lost = up(lost + exponents(model, size))
    both = gamma_of(model, logit_steps(model, width, inner))
    both += gamma(logit_steps(FLOAT64, width, inner))
    last = gamma_of(model, output_steps(model, *sizes))
    ours = (size + 2) * gamma(output_steps(FLOAT64, *sizes))
    relative = float(up(zeta + (1.0 + zeta) * last + ours))

    shapes, worst = (total, size, width, outputs, heads, inner, value_dim, between), 0.0
    all_exact = True
    for rows in chunks(total, entries_of(shapes), ENTRIES):
        tokens = (contexts[rows] if contexts.ndim == 3 else contexts[None]).astype(np.float64)
        asked, turned = queries[rows].astype(np.float64), tokens.transpose(0, 2, 1)
        logits = (asked @ scored).reshape(-1, heads, width) @ turned
        sizes = up(np.abs(asked) @ score_sizes).reshape(-1, heads, width)
        sizes = up(sizes @ np.abs(turned)).max(axis=2)
        exact = short & held(units, 2.0 * sizes)
        off = np.where(exact, 0.0, up(both * sizes + lost))
        all_exact = all_exact and bool(exact.all())
        attention = softmax(logits)
        grows = growth(2.0 * off)
        values = (tokens @ readout).reshape(len(tokens), size, heads, outputs)
        values = np.broadcast_to(values.transpose(0, 2, 1, 3), (len(asked), heads, size, outputs))
        summed = up(np.abs(tokens).max(axis=1) @ reach)
        if model.merged:
            each = up(attention * grows[..., None])[..., None, :] @ np.abs(values)
            moved = up(up(each).sum(axis=1))[:, 0]
            summed = up(summed * (1.0 + grows.max(axis=1))[:, None])
        else:
            moved = apart_by_head(attention, grows, values)
        summed = up(relative * summed + lost_last)
        found = float(up(moved + summed).max())
        worst = max(worst, found) if found < math.inf else math.inf  # which a NaN becomes, too
    return worst, all_exact


def apart_by_head(attention, grows, values):
    """How far outputs move, where attention sums to one before and after."""
    share = np.minimum(up(attention * grows[..., None]), 1.0)
    center = (attention[..., None, :] @ values)[..., 0, :]
    center /= attention.sum(axis=2, keepdims=True)
    away = up(share[..., None, :] @ np.abs(values - center[:, :, None]))[..., 0, :]
    apart = up(values.max(axis=2) - values.min(axis=2))
    return up(np.minimum(away, apart).sum(axis=1))


def short_sums(w_q, w_k, score_sizes, data, model):
    """Of what logits of each head are multiples; for which heads all sums before them are short."""
    heads, width, _ = w_q.shape
    given = [data[name].reshape(-1, width) for name in ("contexts", "queries")]
    in_x, in_e = map(granularity, given)
    in_q, in_k = (np.array([granularity(head) for head in w]) for w in (w_q, w_k))
    x, e = (np.maximum(a.max(axis=0), -a.min(axis=0)).astype(np.float64) for a in given)
    w_q, w_k = np.abs(w_q), np.abs(w_k)
    by_head = score_sizes.reshape(width, heads, width).transpose(1, 0, 2)
    short = held(in_x, x.max()) & held(in_e, e.max())
    for unit, sums in (
        (in_q, w_q), (in_k, w_k), (in_q + in_k, by_head),
        (in_e + in_q, up(e @ w_q)), (in_x + in_k, up(x @ w_k)),
        (in_e + in_q + in_k, up(e @ by_head)), (in_x + in_q + in_k, up(by_head @ x)),
    ):  # fmt: skip
        short = short & held(unit, sums.reshape(heads, -1).max(axis=1))
    units = in_x + in_e + in_q + in_k
    if model.free:  # any of the factors first, over any of the indices
        tops = [part.reshape(heads, -1).max(axis=1) for part in (w_q, w_k)]
        whole = up(x.max() * e.max() * tops[0] * tops[1] * float(width * width))
        short = short & held(units, up(whole * w_q.shape[2]))
        least = sum(np.minimum(unit, 0) for unit in (in_x, in_e, in_q, in_k))
        short = short & (least >= -126)
    return units, short & (not (model.constants or model.merged))


def held(units, sizes):
    """Whether float32 holds what is a multiple of 2^unit, up to a size; zero, or a normal number.

    The size is in range, so that its exponent is one.
    """
    short = (np.frexp(sizes)[1] - units <= SINGLE.bits) & (units >= -126)
    return short & (sizes <= SINGLE.top)


def beside(matrices):
    """Those of all heads side by side: (H, d, k) as (d, H k)."""
    return np.ascontiguousarray(matrices.transpose(1, 0, 2)).reshape(matrices.shape[1], -1)


def underflow(weights, data, flushed, scaled):
    """What it takes from a logit, which constants scale, and from an output.

    Infinite where numbers may leave float32.
    """
    top = {name: max(1.0, float(np.abs(x).max())) for name, x in (weights | data).items()}
    heads, width, inner = weights["W_Q"].shape
    between, value_dim, size = (
        len(weights["W_D"]),
        weights["W_V"].shape[2],
        data["contexts"].shape[-2],
    )
    logit = (
        float(width * width * inner) * top["contexts"] * top["W_K"] * top["W_Q"] * top["queries"]
    )
    logit *= scaled
    output = float(heads * width * value_dim * between) * top["contexts"]
    output *= top["W_V"] * top["W_O"] * top["W_D"]
    if not up(2.0 * size * max(logit, output)) <= SINGLE.top:
        return math.inf, math.inf
    return float(up(2.0**-120 * (logit + size))), float(up((flushed + 2.0**-120) * output))


def exponential(x):
    """Bounds of exp(x) for x >= 0, from below and above: the Nth power of 1 + x/N + (x/N)^2 / 2.

    What its terms leave out of exp(x / N) is a part of (x/N)^3 / 5 at most, for x < N / 10, so of
    the power exp(c) - 1, c = x^3 / (5 N^2), which is at most 2 c up to c = 1. Squaring, and what
    is squared, lose a part of 2^-30 together. An overflow is as it is from below: its reciprocal is
    zero, and `up` makes good what that leaves out.
    """
    small = x * FINE
    power = 1.0 + (small + small * small / 2.0)
    for _ in range(SQUARINGS):
        power = power * power
    left_out = small * small * small / (5.0 * FINE)
    most = np.where(left_out <= 1.0, power * (1.0 + 2.0 * left_out) * (1.0 + 2.0**-29), np.inf)
    return power * (1.0 - 2.0**-30), most


def softmax(logits):
    """Bounds of attention from above."""
    least, most = exponential(logits.max(axis=2, keepdims=True) - logits)
    return up(up(1.0 / least) / (1.0 / most).sum(axis=2, keepdims=True) * (1.0 + 2.0**-30))


def growth(x):
    """Bounds of exp(x) - 1. The series is x + x^2 / 2 and x^3 exp(x) / 6 at most."""
    large = up(exponential(x)[1] - 1.0)
    return np.where(x <= 2.0**-6, up(x + x * x / 2.0 + x * x * x / 2.0), large)
