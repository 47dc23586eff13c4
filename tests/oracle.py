"""A second opinion: the definitions of the pages, in balls and floats; and ranks by elimination.

It imports python-flint and NumPy alone: nothing of the package, and nothing of the checker.
"""

import flint
import numpy as np

PREC = 900


def matrix(array):
    """A matrix of balls without a radius."""
    rows, columns = array.shape
    return flint.arb_mat(rows, columns, [float(x) for x in array.ravel()])


def floats(found):
    """The middles of balls, of matrices of them, and of lists of these."""
    if isinstance(found, flint.arb):
        return float(found.mid())
    parts = found.entries() if isinstance(found, flint.arb_mat) else found
    return np.array([floats(part) for part in parts])


def tokens_of(data, t):
    """The tokens that example t sees."""
    contexts = data["contexts"]
    seen = contexts if contexts.ndim == 2 else contexts[t]
    return seen[: int(data["lengths"][t])] if "lengths" in data else seen


def softmax(logits):
    """Shares of balls, less the largest one first, so that no exponential is infinite."""
    top = max(logits, key=lambda x: float(x.mid()))
    powers = [(x - top).exp() for x in logits]
    total = sum(powers, flint.arb(0))
    return flint.arb_mat(1, len(powers), [x / total for x in powers])


def attended(weights, tokens, query):
    """Attention of each head on the tokens (n, d) that a query sees: rows of n balls."""
    x, e = matrix(tokens), matrix(query[:, None])
    for w_q, w_k in zip(weights["W_Q"], weights["W_K"], strict=True):
        yield softmax((x * (matrix(w_k) * (matrix(w_q).transpose() * e))).entries())


def representations(weights, data, bits=PREC):
    """Z as a list of the H rows (1, d) of each example."""
    with flint.ctx.workprec(bits):
        found = []
        for t, query in enumerate(data["queries"]):
            tokens = tokens_of(data, t)
            rows = attended(weights, tokens, query)
            found.append([shares * matrix(tokens) for shares in rows])
        return found


def outputs(weights, data, bits=PREC):
    """f(E_t, e_t) of each example t, as a list of d_out balls; none where balls are infinite."""
    with flint.ctx.workprec(bits):
        (heads, _, inner), last = weights["W_V"].shape, matrix(weights["W_D"])
        between = weights["W_O"].reshape(heads, inner, -1)
        readouts = []
        for h in range(heads):
            parts = [weights["W_V"][h], *(part[h] for part in weights.get("W_V_corrections", ()))]
            values = sum(map(matrix, parts[1:]), matrix(parts[0]))
            readouts.append(values * matrix(between[h]) * last)
        found = []
        for rows in representations(weights, data, bits):
            read = [z * readout for z, readout in zip(rows, readouts, strict=True)]
            found.append(sum(read[1:], read[0]).entries())
        finite = all(x.is_finite() for row in found for x in row)
        return found if finite else []


def rank_of(rows, prime=None):
    """The rank of a matrix of Fractions, or of integers modulo a prime."""
    rows, rank = [[x % prime if prime else x for x in row] for row in rows], 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        inverse = pow(rows[rank][column], -1, prime)
        for i in range(rank + 1, len(rows)):
            factor = rows[i][column] * inverse
            if factor:
                below = zip(rows[i], rows[rank], strict=True)
                rows[i] = [(x - factor * y) % prime if prime else x - factor * y for x, y in below]
        rank += 1
    return rank


# Decoders: margins of the next token in balls, and what a program may take of them, in floats.


def exact_sum(tokens, places):
    """Their sum, which floats have to hold: the error of a sum is a float, too."""
    x = tokens + places
    added = x - tokens
    if np.any((tokens - (x - added)) + (places - added)):
        raise ValueError("tokens and positions do not add exactly")
    return x


def decoded(weights, texts, prompt=1, window=None, period=None):
    """Of each position that something has to follow: its token, what it sees, attention, and that.

    Attention is a row of balls for each head.
    """
    end, period = len(weights["embedding"]), period or len(weights["positions"])
    embedding, positions = (weights[name].astype(float) for name in ("embedding", "positions"))
    for ids in texts:
        x = exact_sum(embedding[ids], positions[np.arange(len(ids)) % period])
        for i in range(prompt - 1, len(ids)):
            seen = x[max(0, i + 1 - (window or len(ids))) : i + 1]
            attention = list(attended(weights, seen, x[i]))
            yield x[i], seen, attention, ids[i + 1] if i + 1 < len(ids) else end


def read_out(x, seen, attention):
    """The row of Z of a position, as a list of (H + 1) d balls."""
    own = [flint.arb(float(entry)) for entry in x]
    return own + [z for shares in attention for z in (shares * matrix(seen)).entries()]


def margins(weights, texts, bits=PREC, **view):
    """By how much the logit that has to follow is more than each other one: rows of balls."""
    with flint.ctx.workprec(bits):
        read = matrix(weights["U"]) * matrix(weights["unembedding"]).transpose()
        found = []
        for *position, right in decoded(weights, texts, **view):
            logits = (flint.arb_mat([read_out(*position)]) * read).entries()
            own = logits.pop(right)
            found.append([own - other for other in logits])
        return found


def small_part(k, unit):
    """gamma_k."""
    return k * unit / (1 - k * unit)


def average_error(model, seen, large, rest):
    """zeta, and what comes on top for entries of at most one (proofs/11)."""
    nested = 1 + model.merged
    pieces = 1 + model.merged + np.ceil((seen - 1) / model.block)
    eta = small_part(nested * pieces, model.exp + model.unit)
    main, more = small_part(nested * seen, model.unit), 0.0
    few = (1 + main) * nested * large * model.unit
    others = (1 + main) * (1 + nested * seen * model.unit) * nested * rest
    if few + others < main:
        main, more = few, others
    below, above = eta + (1 + eta) * (main + more), eta + (1 + eta) * main
    kept = (1 + nested * model.unit) * (1 + model.stored)
    rho = kept**2 / (1 - model.stored) - 1
    zeta = (below + rho + (1 + rho) * above) / (1 - below)
    flushed = 32 * seen * pieces * model.small + (3 * seen + 1) * model.tiny
    return zeta, (1 + rho) * (1 + eta) * more / (1 - below) + flushed * (1 + zeta)


def logits_move(model, weights, tokens):
    """By how large a part of itself attention may move, where logits are not exact."""
    if not (model.constants or model.merged):
        return 0.0
    w_q, w_k = (np.abs(weights[name]).astype(float) for name in ("W_Q", "W_K"))
    sizes = np.abs(tokens)
    asked, keys = ((sizes @ w).max(axis=1) for w in (w_q, w_k))
    absorbed = (sizes @ (w_q @ w_k.transpose(0, 2, 1))).max(axis=1) @ sizes.max(axis=0)
    largest = np.maximum((asked * keys).sum(axis=1), absorbed).max()
    _, width, inner = w_q.shape
    steps = 2 * width + inner + 6 + 2 * model.constants + 6 * model.merged
    off, logs = small_part(steps, model.unit) * largest, np.log(len(tokens))
    if model.merged:
        off += 5 * model.unit * logs + 2 * model.exp * (1 + logs)
    return np.expm1(2 * off)


def largest_share(weights, text, model, **view):
    """The largest part of a margin of one text that rounding may take, as proofs/21 has it."""
    u, o = (weights[name].astype(float) for name in ("U", "unembedding"))
    (rows, outputs), width = u.shape, weights["embedding"].shape[1]
    every = list(decoded(weights, [text], **view))
    tokens = np.array([x for x, *_ in every])
    top, moves = max(1.0, np.abs(tokens).max()), logits_move(model, weights, tokens)
    found = []
    for (x, seen, attention, right), ahead in zip(
        every, margins(weights, [text], **view), strict=True
    ):
        count, sizes, moved, z = len(seen), [np.abs(x)], [np.zeros(width)], [x]
        for shares in attention:
            a = np.array([float(share) for share in shares.entries()])
            large = a >= 2.0**-24
            zeta, added = average_error(model, count, large.sum(), a[~large].sum() * (1 + moves))
            zeta += moves + zeta * moves
            z, sizes = [*z, a @ seen], [*sizes, a @ np.abs(seen)]
            moved.append(zeta * sizes[-1] + added * top)
        z, sizes, moved = map(np.concatenate, (z, sizes, moved))
        first = small_part(count * rows * outputs + 2 if model.free else rows, model.unit)
        last = small_part(0 if model.free else outputs, model.unit)
        lost = 8 * rows * model.small * (np.abs(u).sum(axis=0) + 1) * top
        off = (1 + first) * (moved @ np.abs(u) + lost) + first * (sizes @ np.abs(u))
        f = np.abs(z @ u)
        off += model.stored * (f + off) + model.tiny
        error = (last * (f + off) + off) @ np.abs(o).T
        error += 8 * outputs * model.small * (1 + (f + off).max())
        error += model.stored * ((f + off) @ np.abs(o).T + error) + model.tiny
        if model.free:
            reach = top * max(1, np.abs(u).max()) * max(1, np.abs(o).max())
            error += 8 * model.small * reach * (count * rows * outputs + 2)
        others = np.delete(error, right) + error[right]
        least = np.array([float(margin) for margin in ahead])
        found.append((others / least).max() if (least > 0).all() else np.inf)
    return max(found)
