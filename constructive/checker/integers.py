"""Margins of decoders whose weights are integers and whose tokens are signs: sums in int64.

Where the largest logit of a head leads by 128 or more, a program that rounds to nearest gives all
other tokens numerators of 2^-124 or less in size, which a sum with a 1 rounds away: so its average
is the one token, exactly. Where then all sums that it may have on the way are integers below 2^24,
it makes no error before the last product. In real arithmetic other tokens have weights of e^-128.

Nothing of that is known where parts are merged by logsumexp, constants multiply logits, or any
arrays may be multiplied first.
"""

import numpy as np

from .attend import exact_sum, rows_of_positions
from .bounds import chunks, up
from .files import require
from .float_model import gamma_of, readout_steps
from .margins import Margins, of_the_worst

EXACT = 1 << 24  # float32 adds integers up to it
HELD = 2.0**52  # and float64 differences of two integers up to this
LEAD = 128
VANISHES = 2.0**-184  # more than e^-128
ENTRIES = 1 << 20
SPLIT = 128
COLUMNS = 1 << 12  # of U: products of integers below 2^24 are added in int64


def are_integers(weights):
    """Whether all entries are integers below 2^24."""
    return all(
        bool((np.abs(w) < EXACT).all()) and bool((np.rint(w) == w).all()) for w in weights.values()
    )


def integer_margins(on, model):
    """The margins of the next token, and what programs of a model may take of them."""
    weights = {name: w.astype(np.int64) for name, w in on.weights.items()}
    require(not (model.free or model.constants or model.merged), "the model merges, or scales")
    require_sums(weights, model)
    w_u, w_o = np.abs(weights["U"]).sum(axis=0), np.abs(weights["unembedding"])
    longest = max(map(len, on.texts))
    seen = min(longest, on.window or longest)
    require(seen <= 1 << 20, "a position sees too many tokens")
    moved = up((w_o @ w_u.astype(np.float64)) * (2.0 * seen * VANISHES))
    found, start = [], 0
    for ids in on.texts:
        on.tell("margins", start, sum(map(len, on.texts)))
        rows = rows_of_positions(np.arange(len(ids)), on.period)
        parts = on.weights["embedding"][ids], on.weights["positions"][rows]
        x = exact_sum(parts).astype(np.int64)
        require((np.abs(x) == 1).all(), "tokens are not signs")
        outputs = read_out(weights, x, on.window, model)
        following = np.append(ids[1:], len(weights["embedding"]))
        asked = np.arange(on.prompt - 1, len(ids))
        for part in chunks(len(asked), len(w_o), ENTRIES):
            at = asked[part]
            known = judge(model, outputs[at], weights["unembedding"], following[at], moved)
            found.append((start + at, *known))
        start += len(ids)
    return Margins(*map(np.concatenate, zip(*found, strict=True)))


def require_sums(weights, model):
    """Require that no sum of weights alone is too large, and that formats hold them."""
    columns = [np.abs(weights[name]).sum(axis=1).astype(np.float64) for name in ("W_Q", "W_K")]
    terms = 2.0 * (columns[0] * columns[1]).sum(axis=1).max()  # of a difference of two logits
    require(terms < EXACT, "differences of logits are not integers below 2^24")
    require(weights["U"].shape[1] <= COLUMNS, "the readout has too many columns")
    form = model.factors
    parts = [weights["U"]]
    if form is not None and not held(weights["U"], form).all():
        high = SPLIT * np.rint(weights["U"] / SPLIT).astype(np.int64)
        parts = [high, weights["U"] - high]
    largest = sum(np.abs(part).sum(axis=0) for part in parts).max()
    require(largest < EXACT, "sums of the readout are not integers below 2^24")
    if form is not None:
        for array in (*parts, weights["W_Q"], weights["W_K"]):
            require(held(array, form).all(), f"{form[0]} does not hold all weights")
    if model.stored:
        kept = model.kept, model.bits, model.top
        require(all(held(w, kept).all() for w in weights.values()), "weights are not stored so")


def read_out(weights, x, window, model):
    """The outputs U^T z at all positions, z of x and of the token that each head reads."""
    heads, width, inner = weights["W_Q"].shape
    total = len(x)
    outputs = x @ weights["U"][:width]
    for part in chunks(heads, total * inner, ENTRIES):
        w_q, w_k = weights["W_Q"][part], weights["W_K"][part]
        queries, keys = (np.einsum("nd,hdk->nhk", x, w) for w in (w_q, w_k))
        form = model.factors or (model.stored and (model.kept, model.bits, model.top))
        fits = not form or (held(queries, form).all() and held(keys, form).all())
        require(fits, f"{form and form[0]} does not hold queries or keys")
        top, place = (queries * keys).sum(axis=2), np.arange(total)[:, None]
        winner = np.broadcast_to(place, top.shape).copy()
        second = np.full(top.shape, -(1 << 62))
        for back in range(1, min(window or total, total)):
            logits = (queries[back:] * keys[:-back]).sum(axis=2)
            best, next_one = top[back:].copy(), second[back:]
            second[back:] = np.maximum(next_one, np.minimum(best, logits))
            above = logits > best
            top[back:][above] = logits[above]
            winner[back:][above] = np.broadcast_to(place[:-back], above.shape)[above]
        require((top - second >= LEAD).all(), "the largest logit of a head does not lead by 128")
        for head in range(part.start, part.stop):
            rows = weights["U"][(head + 1) * width : (head + 2) * width]
            outputs += x[winner[:, head - part.start]] @ rows
    return outputs


def held(whole, form):
    """Which integers are numbers of a format: odd parts of few bits, and in range."""
    _, bits, top = form
    sizes = np.abs(whole)
    odd = sizes // np.maximum(sizes & -sizes, 1)
    return (odd < 1 << bits) & (sizes <= top)


def judge(model, outputs, unembedding, right, moved):
    """Least, most, error and share of some positions."""
    logits, sizes = outputs @ unembedding.T, np.abs(outputs) @ np.abs(unembedding).T
    require(sizes.max() < HELD, "logits are too large")
    gamma = gamma_of(model, readout_steps(model, 1.0, 1, outputs.shape[1])[1])
    errors = np.where(sizes < EXACT, 0.0, up(gamma * sizes))
    if model.stored:  # outputs and logits
        off = up(model.stored * np.abs(outputs))
        spread = up(off @ np.abs(unembedding).T)
        errors = up(gamma * (sizes + spread) + spread)
        errors = up(errors + model.stored * (sizes + errors) + model.tiny)
        fits = up(np.abs(outputs) + off).max(axis=1) <= model.top
        fits = fits & (up(sizes + errors).max(axis=1) <= model.top)
        errors[~fits] = np.inf
    own = np.arange(len(logits)), right
    ahead = (logits[own][:, None] - logits).astype(np.float64)
    error = errors[own][:, None] + errors
    error = np.where(error == 0.0, 0.0, up(error))  # NaN stays, and proves nothing
    return of_the_worst(ahead, up(moved[right][:, None] + moved), error, right)
