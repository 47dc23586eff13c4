"""Margins of the next token: in real arithmetic, and what a program of a model takes of them.

Logits of heads have to be short integers times a power of two, so that their exponentials come from
a table. Float64 then gives margins, with bounds of what it rounds itself; and the same bounds, with
other numbers, are of any program of a model (float_model). For outputs f = U^T z and logits f . o_v

    |z^ - z|  <=  zeta A + added X                                  =: B    averages; 0 where z is x
    |f^ - f|  <=  (1 + gamma_k) |U|^T B + gamma_k |U|^T A + lost    =: D
    |l^ - l|  <=  gamma_m |O| (|f| + D) + |O| D + lost              =: E

with A the averages of |x|, X >= 1 the largest |x|, zeta and what is added of each head by
`weighted`, k and m the counts of `readout_steps`. Where logits of heads are off by eps, attention
moves by a part g = exp(2 eps) - 1 before the rest happens: (1 + zeta)(1 + g) - 1 stands for zeta,
and the weight of small tokens grows by 1 + g. Outputs and logits may be stored, too. The next token
has the largest logit in every such program where its margin exceeds E_next + E_v over all other v.
"""

import math
from collections import namedtuple

import numpy as np

from .attend import Heads, attend, exact_sum, rows_of_positions
from .bounds import chunks, granularity, up
from .files import require
from .float_model import (
    FLOAT64,
    INTEGERS,
    SINGLE,
    Logits,
    Side,
    gamma_of,
    gammas,
    growth,
    held,
    readout_steps,
    weighted,
)
from .floating import Table

ENTRIES = 1 << 22  # logits of heads which are computed at a time
LARGE = 2.0**-24  # of weights which are counted; those of others are summed up
NAMES = ("embedding", "positions", "W_Q", "W_K", "U", "unembedding")

Readouts = namedtuple("Readouts", "u u_sizes o o_sizes")

# Of each position that something has to follow: its place among the tokens of all texts; bounds of
# its margin in real arithmetic; what rounding may take of the margin over the token where that is
# the largest part of it, and which part, infinite where nothing is bounded
Margins = namedtuple("Margins", "places least most error share")

# averages of |x|, tokens seen; of each head those of much weight, and the weight of others;
# max |x|; by how large a part of itself attention may move
Attended = namedtuple("Attended", "sizes seen large rest most grows")


def real_margins(on, model):
    """The margins of the next token, and what programs of a model may take of them."""
    weights, found, start = on.weights, [], 0
    unit, widest, grows = exact_logits(on, model)
    exact = all(stored_in(w, model.kept) for w in weights.values())
    exact = exact and all(normal(weights[name]) for name in NAMES[:4])
    u, o = weights["U"].astype(np.float64), weights["unembedding"].astype(np.float64).T
    readouts = Readouts(u, np.abs(u), np.ascontiguousarray(o), np.abs(o))
    for ids, rows, z, largest, *attended in averages(on, Table(unit, widest)):
        on.tell("margins", start + rows.start, sum(map(len, on.texts)))
        places = np.arange(rows.start, rows.stop)
        kept = places >= on.prompt - 1
        following = np.append(ids[1:], len(weights["embedding"]))[rows]
        for part in chunks(int(kept.sum()), sum(readouts.o.shape), ENTRIES // 8):
            at, z_part, right, *about = (x[kept][part] for x in (places, z, following, *attended))
            attended_here = Attended(*about, largest, grows)
            found.append((start + at, *judge(readouts, model, z_part, right, attended_here)))
        start += len(ids) * (rows.stop == len(ids))
    margins = Margins(*map(np.concatenate, zip(*found, strict=True)))
    return margins if exact else unbounded(margins)


def unbounded(margins):
    """The same margins, where nothing bounds what rounding takes."""
    nothing = np.full(len(margins.least), np.inf)
    return margins._replace(error=nothing, share=nothing)


def of_the_worst(ahead, doubt, error, right):
    """Least, most, error and share of positions, of what is known of each token (R, V + 1).

    ahead: by how much its logit is less than the right one, up to a doubt
    """
    each = np.arange(len(right))
    doubt = up(doubt + 2.0**-50 * np.abs(ahead))
    least, most = ahead - doubt, ahead + doubt
    least[np.isnan(least)], most[np.isnan(most)] = -np.inf, np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        part = up(error / least) * (error > 0.0)  # 0 where the error is
        share = np.where((least > 0.0) & (error < np.inf), part, np.inf)
    least[each, right], most[each, right], share[each, right] = np.inf, np.inf, -np.inf
    worst = share.argmax(axis=1)
    return least.min(axis=1), most.min(axis=1), error[each, worst], share[each, worst]


def averages(on, numbers):
    """Rows of texts, their (x, averages), the largest |x|, and what is known of attention."""
    heads, view = Heads(numbers, on.weights), on.view()
    texts = iter(on.texts)
    for _, (rows, seen, hidden), tokens, attention in attend(numbers, heads, view):
        if rows.start == 0:
            ids, largest = next(texts), max(1.0, float(np.abs(tokens).max()))
        x, own = tokens[0, seen], tokens[0, rows]
        weights = attention.reshape(-1, len(x))
        z = (weights @ x).reshape(len(own), -1)
        sizes = up(up(weights @ np.abs(x))).reshape(len(own), -1)
        z = np.concatenate([own, z], axis=1)
        sizes = np.concatenate([np.abs(own), sizes], axis=1)
        little = attention < LARGE
        large = (~little).sum(axis=2, dtype=np.float64)
        rest = up(up(np.einsum("bhk,bhk->bh", attention, little)))
        count = (~hidden[:, 0]).sum(axis=1, dtype=np.float64)
        yield ids, rows, z, largest, sizes, count, large, rest


def judge(readouts, model, z, right, attended):
    """Least, most, error and share of some positions."""
    outputs = z @ readouts.u
    spread = up(attended.sizes @ readouts.u_sizes)
    own = output_errors(FLOAT64, readouts, spread, attended._replace(grows=0.0))
    reach = up(np.abs(outputs) + own)
    ours = logit_errors(FLOAT64, readouts, reach, own)
    theirs = output_errors(model, readouts, spread, attended)
    with np.errstate(invalid="ignore"):  # zero times what is not bounded
        theirs = up(theirs + model.stored * (reach + theirs) + model.tiny)
    theirs[~(up(spread + theirs).max(axis=1) <= model.top)] = np.inf
    executed = logit_errors(model, readouts, reach, theirs)
    if model.free:
        executed = up(executed + lost_in_paths(model, readouts, attended))
    logits, own = outputs @ readouts.o, (np.arange(len(z)), right)
    ahead, doubt, error = (
        each(of[own][:, None], of)
        for each, of in ((np.subtract, logits), (np.add, ours), (np.add, executed))
    )
    return of_the_worst(ahead, up(doubt), up(error), right)


def output_errors(model, readouts, spread, attended):
    """What rounding does to outputs: to averages, and to their products with U."""
    inner, (total, heads) = len(readouts.u), attended.large.shape
    seen, width = attended.seen[:, None], inner // (heads + 1)
    with np.errstate(invalid="ignore"):  # zero times what is not bounded
        rest = attended.rest * (1.0 + attended.grows)
    rest[np.isnan(rest)] = np.inf
    zeta, added = weighted(model, seen, attended.large, rest)
    zeta = up(zeta + attended.grows + zeta * attended.grows)
    gamma = gammas(model, readout_steps(model, seen, inner, readouts.u.shape[1])[0])
    top = up(added * attended.most)
    by_head = attended.sizes[:, width:].reshape(total, heads, width)  # x itself is exact
    moved = up(by_head * zeta[:, :, None] + top[:, :, None]).reshape(total, -1)
    lost = 8.0 * inner * model.small * up(up(readouts.u_sizes.sum(axis=0) + 1.0) * attended.most)
    tops = up(attended.most * (1.0 + zeta) + top).max(axis=1, keepdims=True)  # of averages
    with np.errstate(invalid="ignore"):  # zero times what is not bounded
        errors = (1.0 + gamma) * up(moved @ readouts.u_sizes[width:]) + gamma * spread
        errors = up(errors + (1.0 + gamma) * lost)
    # Numerators are sums of n of the averages' terms.
    fits = (tops <= model.top) & (up(tops * seen) <= model.overflow) & ~np.isnan(errors)
    return np.where(fits, errors, np.inf)


def logit_errors(model, readouts, reach, errors):
    """What rounding does to logits."""
    width, computed = reach.shape[1], up(reach + errors)
    gamma = gamma_of(model, readout_steps(model, 1.0, len(readouts.u), width)[1])
    with np.errstate(invalid="ignore"):  # zero times what is not bounded
        bound = up((gamma * computed + errors) @ readouts.o_sizes)
        whole = up(computed @ readouts.o_sizes)
        lost = 8.0 * width * model.small * (1.0 + up(computed).max(axis=1, keepdims=True))
        bound = up(bound + lost + model.stored * (whole + bound) + model.tiny)
    bound[~(up(whole + bound).max(axis=1) <= model.top)] = np.inf
    return bound


def lost_in_paths(model, readouts, attended):
    """What underflow takes where any arrays may be multiplied first; infinite if out of range."""
    rows, outputs = readouts.u.shape
    paths, _ = readout_steps(model, attended.seen[:, None], rows, outputs)
    tops = max(1.0, readouts.u_sizes.max()) * max(1.0, readouts.o_sizes.max())
    reach = up(attended.most * tops * paths)
    return np.where(reach <= model.overflow, up(8.0 * model.small * reach), np.inf)


def logits_of(on):
    """What is known of logits of heads, bounds of what they are sums of (H,), and tokens seen."""
    w_q, w_k = (np.abs(on.weights[name].astype(np.float64)) for name in ("W_Q", "W_K"))
    matrix = up(w_q @ w_k.transpose(0, 2, 1))
    (heads, width, inner), units = w_q.shape, []
    most, tops = np.zeros(width), [np.zeros((heads, n)) for n in (inner, inner, width)]
    stored = np.zeros((2, heads))
    places = np.concatenate([np.arange(len(ids)) for ids in on.texts])
    longest = int(places.max()) + 1
    pairs = np.unique(np.concatenate(on.texts) * longest + places)  # what is there often, once
    for part in chunks(len(pairs), max(width, inner), ENTRIES):
        ids, at = divmod(pairs[part], longest)
        at = rows_of_positions(at, on.period)
        tokens = exact_sum([on.weights["embedding"][ids], on.weights["positions"][at]])
        sizes = np.abs(tokens)
        units.append(granularity(tokens))
        most = np.maximum(most, sizes.max(axis=0))
        for head in range(heads):
            for top, w in zip(tops, (w_q, w_k, matrix), strict=True):
                top[head] = np.maximum(top[head], up(sizes @ w[head]).max(axis=0))
            for k, name in enumerate(("W_Q", "W_K")):
                read = up(np.abs(tokens @ on.weights[name][head].astype(np.float64)))
                stored[k, head] = max(stored[k, head], float(read.max()))
    asking, keys, absorbed = tops
    other = up(matrix @ most)  # the matrix, and then its product with a key
    tokens = Side(min(units), most, keys, other, stored[1, :, None])
    queries = Side(min(units), most, asking, absorbed, stored[0, :, None])
    sizes = np.maximum(up((asking * keys).sum(axis=1)), up(absorbed @ most))
    return Logits(on.weights, matrix, tokens, queries), sizes, longest


def exact_logits(on, model):
    """Of what all logits are multiples, their largest difference, and how far attention may move.

    It moves by a part exp(2 eps) - 1 at most (`float_model`).
    """
    logits, sizes, longest = logits_of(on)
    short = logits.short(INTEGERS) & held(logits.units, 2.0 * sizes, INTEGERS)
    require(short.all(), "logits of heads are not short integers times a power of two")
    # Zeros are multiples of any unit.
    reads = np.logical_and(*(on.weights[name].any(axis=(1, 2)) for name in ("W_Q", "W_K")))
    least = logits.units.min(where=reads, initial=logits.units.max())
    unit, widest = 2.0 ** int(least), 2.0 * float(sizes.max())
    exact = (logits.exact(model) & held(logits.units, 2.0 * sizes)).all()
    in_range = 2.0 * logits.reach(model) <= SINGLE.top  # whichever factors are multiplied first
    if exact and (in_range or not model.free):
        return unit, widest, 0.0
    if model.stored or not in_range:
        return unit, widest, math.inf
    with np.errstate(all="ignore"):  # what overflows, or is not a number, is not proved
        moved = float(growth(2.0 * logits.off(model, sizes, longest)).max())
    return unit, widest, math.inf if math.isnan(moved) else moved


def normal(weights):
    """Whether entries are normal numbers or zero: some machines read others as zeros."""
    return not ((weights != 0) & (np.abs(weights) < 2.0**-126)).any()


def stored_in(weights, storage):
    """Whether float32 weights are numbers of a format of fewer bits."""
    if storage == "float32":
        return True
    if storage == "bfloat16":
        return not (weights.view(np.uint32) & np.uint32(0xFFFF)).any()
    with np.errstate(over="ignore"):
        return bool((weights.astype(np.float16).astype(np.float32) == weights).all())
