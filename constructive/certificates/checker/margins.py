"""Margins of the next token: in real arithmetic, and what a program of a model takes of them.

Logits of heads have to be short integers times a power of two, so that their exponentials come from
a table. Float64 then gives margins, with bounds of what it rounds itself; and the same bounds, with
other numbers, are of any program of a model (float_model).
"""

import math
from collections import namedtuple

import mpmath
import numpy as np

from bounds import chunks, granularity, up
from causal import ENTRIES, blocks, side_by_side, tokens_of
from files import require
from float_model import (
    FLOAT64,
    MODELS,
    exponents,
    gamma_of,
    gammas,
    logit_steps,
    readout_steps,
    stretch,
    weighted,
)

ENOUGH = 746.0  # exp(-746) is less than half of the least float64
LARGE = 2.0**-24  # of weights which are counted; those of others are summed up
TABLE = 1 << 20
NAMES = ("embedding", "positions", "W_Q", "W_K", "U", "unembedding")


def real_margins(on):
    """The least margin of the next token, and the largest part of one which rounding may take."""
    model, weights = on.model, on.weights
    unit, widest, grows = exact_logits(on, model)
    exact = all(stored_in(w, on.storage) for w in weights.values())
    exact = exact and all(normal(weights[name]) for name in NAMES[:4])
    require(min(ENOUGH, widest) <= TABLE * unit, "logits of heads are too fine for a table")
    count = min(math.ceil(ENOUGH / unit), int(widest / unit)) + 1  # the last may be 0
    table = exponentials(count, unit)
    u, o = weights["U"].astype(np.float64), weights["unembedding"].astype(np.float64).T
    readouts = Readouts(u, np.abs(u), np.ascontiguousarray(o), np.abs(o))
    absorbed = side_by_side(
        weights["W_Q"].astype(np.float64) @ weights["W_K"].astype(np.float64).transpose(0, 2, 1)
    )
    least, share = math.inf, -math.inf
    for ids in on.texts:
        tokens = tokens_of(on, ids, np.arange(len(ids)))
        following = np.append(ids[1:], len(weights["embedding"]))
        largest = max(1.0, float(np.abs(tokens).max()))
        for rows, z, *attended in averages(on, tokens, absorbed / unit, table):
            kept = np.arange(rows.start, rows.stop) >= on.prompt - 1
            for part in chunks(int(kept.sum()), sum(readouts.o.shape), ENTRIES // 8):
                z_part, right, *about = (x[kept][part] for x in (z, following[rows], *attended))
                attended_here = Attended(*about, largest, grows)
                one, other = judge(readouts, model, z_part, right, attended_here)
                least, share = min(least, one), max(share, other)
    return least, share if exact else math.inf


def exponentials(count, unit):
    """exp(-k unit) for k below count, as products of two."""
    with mpmath.workprec(80):
        low, high = (
            [mpmath.exp(mpmath.mpf(-k * step) * unit) for k in range(steps)]
            for step, steps in ((1, 1024), (1024, count // 1024 + 1))
        )
        return np.array([float(high[k // 1024] * low[k % 1024]) for k in range(count)])


Readouts = namedtuple("Readouts", "u u_sizes o o_sizes")


# averages of |x|, tokens seen; of each head those of much weight, and the weight of others;
# max |x|; by how large a part of itself attention may move
Attended = namedtuple("Attended", "sizes seen large rest most grows")


def averages(on, tokens, absorbed, table):
    """Rows, their (x, averages), and what is known of them."""
    heads, width, _ = on.weights["W_Q"].shape
    for rows, keys, hidden in blocks(len(tokens), heads, on.window):
        logits = (tokens[rows] @ absorbed).reshape(-1, width) @ tokens[keys].T
        logits = logits.reshape(len(hidden), heads, -1)
        logits[np.broadcast_to(hidden, logits.shape)] = -np.inf
        logits -= logits.max(axis=2, keepdims=True)
        places = np.minimum(-logits, len(table) - 1).astype(np.int64)
        weights = table.take(places, mode="clip")
        weights[np.broadcast_to(hidden, weights.shape)] = 0.0
        weights = (weights / weights.sum(axis=2, keepdims=True)).reshape(len(hidden) * heads, -1)
        z = (weights @ tokens[keys]).reshape(len(hidden), -1)
        sizes = up(up(weights @ np.abs(tokens[keys]))).reshape(len(hidden), -1)
        z = np.concatenate([tokens[rows], z], axis=1)
        sizes = np.concatenate([np.abs(tokens[rows]), sizes], axis=1)
        little = weights < LARGE
        large = (~little).sum(axis=1, dtype=np.float64).reshape(len(hidden), heads)
        rest = up(up(np.einsum("qk,qk->q", weights, little)).reshape(len(hidden), heads))
        yield rows, z, sizes, (~hidden[:, 0]).sum(axis=1, dtype=np.float64), large, rest


def judge(readouts, model, z, right, attended):
    """The least margin of some positions, and the largest share of one."""
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
    logits, each = outputs @ readouts.o, np.arange(len(z))
    ahead = logits[each, right][:, None] - logits
    doubt = up(up(ours[each, right][:, None] + ours) + 2.0**-50 * np.abs(ahead))
    least = ahead - doubt
    error = up(executed[each, right][:, None] + executed)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where((least > 0.0) & (error < np.inf), up(error / least), np.inf)
    least[each, right], share[each, right] = np.inf, -np.inf
    known = not np.isnan(least).any()
    return (float(least.min()) if known else -math.inf), float(share.max())


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


def exact_logits(on, model):
    """Of what all logits are multiples, their largest difference, and how far attention may move.

    It moves by a part exp(2 eps) - 1 at most, where exponents are off by eps: by nothing where
    every sum on the way, in any order, is an integer of few bits times a power of two, which
    float32 holds.
    """
    w_q, w_k = (on.weights[name].astype(np.float64) for name in ("W_Q", "W_K"))
    matrix = up(np.abs(w_q) @ np.abs(w_k).transpose(0, 2, 1))
    (heads, width, inner), steps = w_q.shape, []
    most, tops = np.zeros(width), [np.zeros((heads, n)) for n in (inner, inner, width)]
    stored = [0.0, 0.0]
    places = np.concatenate([np.arange(len(ids)) for ids in on.texts])
    longest = int(places.max()) + 1
    pairs = np.unique(np.concatenate(on.texts) * longest + places)  # what is there often, once
    for part in chunks(len(pairs), max(width, inner), ENTRIES):
        tokens = tokens_of(on, *divmod(pairs[part], longest))
        sizes = np.abs(tokens)
        steps.append(granularity(tokens))
        most = np.maximum(most, sizes.max(axis=0))
        for head in range(heads):
            absolute = np.abs(w_q[head]), np.abs(w_k[head]), matrix[head]
            for top, w in zip(tops, absolute, strict=True):
                top[head] = np.maximum(top[head], up(sizes @ w).max(axis=0))
            for k, w in enumerate((w_q, w_k)):
                stored[k] = max(stored[k], float(up(np.abs(tokens @ w[head])).max()))
    x, q, k = 2.0 ** min(steps), 2.0 ** granularity(w_q), 2.0 ** granularity(w_k)
    asking, keys, absorbed = tops
    other = up(matrix @ most)  # the matrix, and then its product with a key
    widest = 2.0 * max(
        float(up((asking * keys).sum(axis=1)).max()), float(up(absorbed @ most).max())
    )
    summed = [
        (x * q, asking.max()), (x * k, keys.max()), (q * k, matrix.max()),
        (x * q * k, absorbed.max()), (x * q * k, other.max()), (x * x * q * k, widest),
    ]  # fmt: skip
    known = all(fits(*sums, 52, 2.0**-900, 2.0**900) for sums in summed)
    require(known, "logits of heads are no short integers times a power of two")
    single = MODELS["float32, pairwise"]
    exact = all(fits(*sums, single.bits, single.least, single.top) for sums in summed)
    kept = [(x, most.max()), (x * q, stored[0]), (x * k, stored[1])]
    exact = exact and all(fits(*sums, model.bits, model.least, model.top) for sums in kept)
    paths = [most.max(), most.max(), np.abs(w_q).max(), np.abs(w_k).max()]
    count = float(width * width * inner)
    largest = float(up(count * np.prod(np.maximum(paths, 1.0)))) * stretch(model)
    in_range = 2.0 * largest <= single.top  # whichever factors are multiplied first
    if model.free:  # any of the factors first, over any of the indices
        whole, least = up(count * np.prod(paths)), min(1.0, x) ** 2 * min(1.0, q) * min(1.0, k)
        sums = [(x * x * q * k, whole), (least, least)]
        exact = exact and all(fits(*each, single.bits, single.least, single.top) for each in sums)
        exact = exact and in_range
    if exact and not (model.constants or model.merged):
        return x * x * q * k, widest, 0.0
    steps = gamma_of(model, logit_steps(model, width, inner))
    eps = exponents(model, longest) + 2.0**-120 * (largest + longest)
    eps = float(up(steps * widest / 2.0 + eps))
    known = not model.stored and eps <= 0.25 and in_range
    return x * x * q * k, widest, float(up(2.0 * eps + 4.0 * eps * eps)) if known else math.inf


def fits(unit, largest, bits, least, top):
    """Whether multiples of a unit up to a size are numbers of so many bits and of this range."""
    return math.frexp(largest / unit)[1] <= bits and unit >= least and largest <= top


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
