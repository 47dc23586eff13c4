"""Certificates of decoders: one causal layer which recites texts, token by token.

Token v at position i is x_i = embedding_v + position_i. Head h of position i averages the x_j up to
i, or the last `window` of them, by softmax of x_j . W_K W_Q^T x_i; U^T (x_i, averages) is the
output, and its products with the rows of the unembedding are the logits.

    rank       the rows (x_i, averages) of all different contexts are independent modulo a prime
    recites    the next token has the largest logit everywhere, in real arithmetic
    executed   and in every evaluation in float32 of the kind which the statement names

Logits of heads have to be short integers times a power of two, so that their exponentials come from
a table. Float64 then gives margins, with bounds of what it rounds itself; and the same bounds, with
another unit, are of any evaluation in float32 (float_model).
"""

import hashlib
import json
import math
from collections import namedtuple

import mpmath
import numpy as np

from bounds import above, below, chunks, granularity, up
from exact_claims import ROUNDS, require_rank
from files import (
    announce,
    parsed,
    read_json,
    read_weights,
    require,
    require_about,
    require_bound,
    require_claims,
    require_statement,
    same,
    tensor_shapes,
    unpack,
)
from float_model import BLOCK, FLOAT64, MODELS, ULPS, gamma_of, weighted
from modular import inverses, reduce, require_prime, residues, times
from statements import STATEMENTS, STORED

FORMAT = "constructive decoder certificate 1"
FORMATS = {"weights": "constructive decoder 1", "data": "constructive text 1"}
NAMES = ("embedding", "positions", "W_Q", "W_K", "U", "unembedding")
KINDS = {"words": str, "bytes": int, "ids": int}
ENTRIES = 1 << 22  # logits of heads which are computed at a time
ENOUGH = 746.0  # exp(-746) is less than half of the least float64
LARGE = 2.0**-24  # of weights which are counted; those of others are summed up
TABLE = 1 << 20

About = namedtuple("About", "weights texts prompt window storage hashes quick")


def check(content, files, options):
    """The statements which a certificate and its files prove; whatever is wrong raises."""
    claims = require_claims(content, CLAIMS, options.asked)
    require(options.epsilon == math.inf, "error: epsilon is not claimed")
    require(len(files) == 2, "the files are CERTIFICATE WEIGHTS DATA")
    texts, prompt, unit, vocabulary, data = read_texts(files[1], options.most)
    require(same(content["data"], data), "it is about other data")
    shapes, metadata = tensor_shapes(files[0], NAMES, options.most)
    require(metadata["format"] == FORMATS["weights"], "the weights are no decoder")
    about = parsed(metadata["decoder"])
    window, storage = about["window"], about["record"]["storage"]
    require(window is None or (type(window) is int and window > 0), "the window is none")
    require(storage in MODELS, "the storage is none")
    fits = same(about["vocabulary"], vocabulary) and about["unit"] == unit
    require(fits, "decoder and text have different vocabularies")
    require_shapes(shapes, len(vocabulary), max(map(len, texts)))
    held, operations = needs(claims, shapes, texts, window)
    announce(held, operations, options.most)
    weights = read_weights(files[0], shapes)
    hashed = require_about(content, weights, "weights", window=window, storage=storage)
    hashes = bytes.fromhex(data["sha256"]) + hashed
    on = About(weights, texts, prompt, window, storage, hashes, options.quick)
    margins = real_margins(on) if set(claims) & {"recites", "executed"} else None
    return {
        name: require_statement(claim, STATEMENTS[f"{name} of a decoder"].format(*shown))
        for name, claim in claims.items()
        for shown in [CLAIMS[name](claim, on, margins)]
    }


def read_texts(path, most):
    """The texts as numbers of tokens, the prompt, unit and vocabulary, and what names the data."""
    content = read_json(path, "data", most)
    require(content["format"] == FORMATS["data"], "the data are no text")
    unit, prompt, vocabulary, texts = (
        content[name] for name in ("unit", "prompt", "vocabulary", "texts")
    )
    require(len(content) == 5 and unit in KINDS, "the unit is none")
    require(type(vocabulary) is list and type(texts) is list and texts, "there is no text")
    tokens = all(type(token) is KINDS[unit] for token in vocabulary)
    require(tokens and len(set(vocabulary)) == len(vocabulary), "the vocabulary is none")
    require(type(prompt) is int and prompt > 0, "the prompt is none")
    for ids in texts:
        require(type(ids) is list and len(ids) >= prompt, "a text is shorter than its prompt")
        inside = all(type(i) is int and 0 <= i < len(vocabulary) for i in ids)
        require(inside, "a token is none of the vocabulary")
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    count = sum(map(len, texts))
    data = {"texts": len(texts), "tokens": count, "vocabulary": len(vocabulary)}
    data["sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
    return [np.array(ids) for ids in texts], prompt, unit, vocabulary, data


def require_shapes(shapes, count, longest):
    embedding, positions, w_q, w_k, u, unembedding = (shape for _, shape, _ in shapes.values())
    require(all(kind == "<f4" for kind, *_ in shapes.values()), "the weights are not float32")
    require(len(w_q) == 3 and len(u) == len(unembedding) == 2, "the weights have other axes")
    heads, width, _ = w_q
    fits = w_k == w_q and embedding == (count, width) and u[0] == (heads + 1) * width
    fits = fits and len(positions) == 2 and positions[1] == width and positions[0] >= longest
    require(fits and unembedding == (count + 1, u[1]), "the weights do not fit together")


def needs(claims, shapes, texts, window):
    """Bytes and operations, from shapes alone."""
    heads, width, inner = shapes["W_Q"][1]
    outputs, count = shapes["unembedding"][1][1], shapes["unembedding"][1][0]
    lengths = [len(ids) for ids in texts]
    total, longest, block, rows = sum(lengths), max(lengths), ENTRIES, 1
    for length in set(lengths):
        seen = min(length, window or length)
        most = rows_of(length, heads, seen)
        block, rows = max(block, heads * most * min(length, most + seen)), max(rows, most)
    held = 8 * (6 * block + 10 * rows * (heads + 1) * width + 8 * longest * width)
    held += 8 * heads * width * (6 * width + 6 * inner)
    held += 8 * max(1, ENTRIES // 8 // (count + outputs)) * (20 * (count + outputs))
    held += sum(28 * math.prod(shape) for _, shape, _ in shapes.values()) + 400 * total + (1 << 26)
    pairs = sum(length * min(length, rows + (window or length)) for length in lengths)
    once = 2 * pairs * heads * width + 2 * total * (heads + 1) * width * (width + outputs)
    once += 2 * heads * width * inner * (2 * width + 5 * total) + 10**6 * len(texts)
    operations = 0
    if "rank" in claims:
        held += 8 * total * (total + 3 * ROUNDS + 4096 + min(window or 0, longest))
        operations = once + total**3
    if set(claims) & {"recites", "executed"}:
        operations += 2 * once + 6 * total * outputs * count
    return held, operations


def tokens_of(on, ids, places):
    """Tokens with positions (n, d), which have to be exact in float32: float64 may round, too."""
    one = on.weights["embedding"][ids].astype(np.float64)
    other = on.weights["positions"][places].astype(np.float64)
    with np.errstate(over="ignore"):
        tokens = (one + other).astype(np.float32).astype(np.float64)
    rest = tokens - one
    exact = ((rest == other) & (tokens - rest == one)).all()
    require(exact, "a token and its position do not add exactly")
    return tokens


def blocks(length, heads, window):
    """Rows, the keys which they see, and which of these each row does not see."""
    window = min(length, window or length)
    for rows in chunks(length, 1, rows_of(length, heads, window)):
        begin = max(0, rows.start + 1 - window)
        row, key = np.arange(rows.start, rows.stop)[:, None], np.arange(begin, rows.stop)
        yield rows, slice(begin, rows.stop), ((key > row) | (key <= row - window))[:, None]


def rows_of(length, heads, window):
    """How many rows are computed together: they see rows + window keys, or all."""
    half = max(1, ENTRIES // (2 * heads))
    return max(
        1,
        min(length, half // window, math.isqrt(half))
        if window < length
        else min(length, 2 * half // length),
    )


def side_by_side(matrices):
    """W_Q W_K^T of all heads: (H, d, d) as (d, H d)."""
    return np.ascontiguousarray(matrices.transpose(1, 0, 2)).reshape(matrices.shape[1], -1)


# --- rank ---------------------------------------------------------------------------------------


def check_rank(claim, on, _):
    """The rows of all different contexts are independent modulo p, at x = a."""
    evidence, wanted = claim["evidence"], different(on)
    total, p, a = sum(map(len, wanted)), require_prime(evidence["prime"]), evidence["value"]
    require(type(a) is int and 1 < a < p, "a is not between 1 and p")
    columns = unpack(evidence["columns"], (total,), len(on.weights["U"]))
    require(len(np.unique(columns)) == total, "a column of Z is named twice")
    z = representation(on, wanted, p, a, columns)
    require_rank(z, p, a, columns, evidence["solution"], on.hashes, on.quick)
    return (total,)


def different(on):
    """The places of each text where something has to follow a context which was not met before.

    A context is a position, and the tokens in its window.
    """
    met, found = {}, []
    whole = on.window is None or on.window >= max(map(len, on.texts))
    for ids in on.texts:
        listed, context, new = ids.tolist(), 0, []
        for i, token in enumerate(listed):
            seen = (context, token)
            if not whole:
                seen = (i, *listed[max(0, i + 1 - on.window) : i + 1])
            if seen not in met:
                met[seen] = len(met) + 1
                new += [i] * (i >= on.prompt - 1)
            context = met[seen]
        found.append(np.array(new, dtype=int))
    return found


def representation(on, wanted, p, a, columns):
    """The given columns of Z(a) modulo p at the wanted places, times one power of two."""
    m, (heads, width, _) = p - 1, on.weights["W_Q"].shape
    codes = [on.weights["embedding"], on.weights["positions"]]
    of_codes = residues(np.concatenate(codes), m, p)
    (e_m, e_p), (i_m, i_p) = (of_codes(code) for code in codes)
    small = np.array([pow(a, k, p) for k in range(2048)], dtype=np.float64)
    large = np.array([pow(a, 2048 * k, p) for k in range((p >> 11) + 1)], dtype=np.float64)
    w_q, w_k = (residues(on.weights[name], m)(on.weights[name])[0] for name in ("W_Q", "W_K"))
    absorbed = side_by_side(times(w_q, np.ascontiguousarray(w_k.transpose(0, 2, 1)), m))
    out, done = np.empty((len(columns), len(columns))), 0
    for ids, places in zip(on.texts, wanted, strict=True):
        exponents = reduce(e_m[ids] + i_m[: len(ids)], m)
        tokens = reduce(e_p[ids] + i_p[: len(ids)], p)
        for rows, keys, hidden in blocks(len(ids), heads, on.window):
            query = times(exponents[rows], absorbed, m).reshape(-1, width)
            logits = times(query, np.ascontiguousarray(exponents[keys].T), m)
            index = (logits + m * (logits < 0)).astype(np.int64)
            powers = small.take(index & 2047, mode="clip") * large.take(index >> 11, mode="clip")
            powers = reduce(powers, p).reshape(len(hidden), heads, -1)
            powers[np.broadcast_to(hidden, powers.shape)] = 0.0
            sums = reduce(powers.sum(axis=2), p)
            require(sums.all(), "a softmax denominator vanishes modulo p")
            z = times(powers.reshape(len(index), -1), tokens[keys], p).reshape(*sums.shape, width)
            z = reduce(z * inverses(sums, p)[..., None], p).reshape(len(sums), -1)
            z = np.concatenate([tokens[rows], z], axis=1)
            chosen = places[(places >= rows.start) & (places < rows.stop)] - rows.start
            out[done : done + len(chosen)] = z[chosen][:, columns]
            done += len(chosen)
    return out


# --- recites and executed ------------------------------------------------------------------------


def check_recites(claim, on, margins):
    """The least margin is what is claimed, or more."""
    bound = require_bound(claim, "recites")
    require(
        0.0 < bound <= margins[0], f"recites: the least margin is {below(margins[0], 6)}, as shown"
    )
    return places_of(on), len(on.texts), repr(bound)


def check_executed(_, on, margins):
    """Rounding takes less than the margin everywhere."""
    require(margins[1] < 1.0, f"executed: rounding may take {above(margins[1])} of a margin")
    return places_of(on), len(on.texts), STORED[on.storage], BLOCK, ULPS


def places_of(on):
    return sum(len(ids) - on.prompt + 1 for ids in on.texts)


def real_margins(on):
    """The least margin of the next token, and the largest part of one which rounding may take."""
    model, weights = MODELS[on.storage], on.weights
    unit, widest, exact = exact_logits(on, model)
    exact = exact and all(stored_in(w, on.storage) for w in weights.values())
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
                one, other = judge(readouts, model, z_part, right, Attended(*about, largest))
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


# averages of |x|, tokens seen; of each head those of much weight, and the weight of others; max |x|
Attended = namedtuple("Attended", "sizes seen large rest most")


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
    own = output_errors(FLOAT64, readouts, spread, attended)
    reach = up(np.abs(outputs) + own)
    ours = logit_errors(FLOAT64, readouts, reach, own)
    theirs = output_errors(model, readouts, spread, attended)
    with np.errstate(invalid="ignore"):  # zero times what is not bounded
        theirs = up(theirs + model.stored * (reach + theirs) + model.tiny)
    theirs[~(up(spread + theirs).max(axis=1) <= model.top)] = np.inf
    executed = logit_errors(model, readouts, reach, theirs)
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
    zeta, added = weighted(model, seen, attended.large, attended.rest)
    gamma, top = gamma_of(model, inner), up(added * attended.most)
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
    gamma = gamma_of(model, width)
    with np.errstate(invalid="ignore"):  # zero times what is not bounded
        bound = up((gamma * computed + errors) @ readouts.o_sizes)
        whole = up(computed @ readouts.o_sizes)
        lost = 8.0 * width * model.small * (1.0 + up(computed).max(axis=1, keepdims=True))
        bound = up(bound + lost + model.stored * (whole + bound) + model.tiny)
    bound[~(up(whole + bound).max(axis=1) <= model.top)] = np.inf
    return bound


def exact_logits(on, model):
    """Of what all logits are multiples, their largest difference, and whether float32 is exact.

    Every sum on the way, in any order, has to be an integer of few bits times a power of two.
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
    single = MODELS["float32"]
    exact = all(fits(*sums, single.bits, single.least, single.top) for sums in summed)
    kept = [(x, most.max()), (x * q, stored[0]), (x * k, stored[1])]
    exact = exact and all(fits(*sums, model.bits, model.least, model.top) for sums in kept)
    return x * x * q * k, widest, exact


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


CLAIMS = {"rank": check_rank, "recites": check_recites, "executed": check_executed}
