"""A second opinion on the checker: the definitions of the pages, in balls and integers.

It imports python-flint and NumPy alone: nothing of the package, and nothing of the checker.
"""

import flint
import numpy as np

PREC = 900


def matrix(array):
    """A matrix of balls without a radius."""
    rows, columns = array.shape
    return flint.arb_mat(rows, columns, [float(x) for x in array.ravel()])


def scaled(value, power):
    """A float times a power of two, exactly."""
    return flint.arb(float(value)) * flint.arb(2) ** int(power)


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


def outputs(weights, data):
    """f(E_t, e_t) of each example t, as a list of d_out balls; none where balls are infinite."""
    with flint.ctx.workprec(PREC):
        (heads, _, inner), last = weights["W_V"].shape, matrix(weights["W_D"])
        between = weights["W_O"].reshape(heads, inner, -1)
        readouts = []
        for h in range(heads):
            parts = [weights["W_V"][h], *(part[h] for part in weights.get("W_V_corrections", ()))]
            values = sum(map(matrix, parts[1:]), matrix(parts[0]))
            readouts.append(values * matrix(between[h]) * last)
        found = []
        for t, query in enumerate(data["queries"]):
            x, e = matrix(tokens_of(data, t)), matrix(query[:, None])
            total = None
            for h in range(heads):
                read = matrix(weights["W_K"][h]) * matrix(weights["W_Q"][h]).transpose() * e
                part = softmax((x * read).entries()) * x * readouts[h]
                total = part if total is None else total + part
            found.append(total.entries())
        finite = all(x.is_finite() for row in found for x in row)
        return found if finite else []


def integers(array):
    """Rows of floats as integers, all times one power of two."""
    low = min((int(np.frexp(x)[1]) - 53 for x in array.ravel() if x), default=0)
    unit = flint.fmpq(2) ** -low
    return [[int(flint.fmpq(*float(x).as_integer_ratio()) * unit) for x in row] for row in array]


def rank(rows):
    """The rank of rows of floats, over the rational numbers."""
    rows = np.asarray(rows, dtype=np.float64)
    return flint.fmpz_mat(integers(rows)).rank() if rows.size else 0


def is_grouping(data, groups):
    """Whether contexts have rank n, and the groups of queries are those of Theorem 1."""
    queries, contexts = data["queries"], data["contexts"]
    for tokens in contexts.reshape(-1, *contexts.shape[-2:]):
        if rank(tokens) < len(tokens):
            return False
    for head, (start, stop) in enumerate(groups):
        own = queries[start:stop]
        if rank(own) < len(own):
            return False
        others = [*range(start), *range(stop, len(queries))] if head else []
        if any(rank([*own, queries[t]]) == len(own) for t in others):
            return False
    return True


def rows_modulo(weights, data, p, a, columns):
    """These columns of Z modulo p with a in the place of exp(unit), entry by entry."""
    contexts = data["contexts"].reshape(-1, data["contexts"].shape[-1])
    tokens, queries = integers(contexts), integers(data["queries"])
    heads, width, inner = weights["W_Q"].shape
    w_q, w_k = (integers(weights[name].reshape(-1, inner)) for name in ("W_Q", "W_K"))
    size, found = data["contexts"].shape[-2], []
    for t, e in enumerate(queries):
        start = t * size if data["contexts"].ndim == 3 else 0
        seen = tokens[start : start + len(tokens_of(data, t))]
        row = []
        for h in range(heads):
            q, k = w_q[h * width : (h + 1) * width], w_k[h * width : (h + 1) * width]
            reads = [sum(q[i][j] * e[i] for i in range(width)) for j in range(inner)]
            weight = [sum(k[i][j] * reads[j] for j in range(inner)) for i in range(width)]
            logits = [sum(x * w for x, w in zip(token, weight, strict=True)) for token in seen]
            powers = [pow(a, logit % (p - 1), p) for logit in logits]
            inverse = pow(sum(powers), -1, p)  # ValueError where the denominator is zero
            row += [
                sum(power * token[i] for power, token in zip(powers, seen, strict=True)) * inverse
                for i in range(width)
            ]
        found.append([row[c] % p for c in columns])
    return found


def rank_modulo(rows, p):
    """The rank of a matrix of integers modulo p."""
    return flint.nmod_mat(len(rows), len(rows[0]), [x for row in rows for x in row], p).rank()


# Decoders: margins of the next token in balls, and what a program may take of them, in floats.


def decoded(weights, texts, prompt=1, window=None, period=None):
    """Of each position that something has to follow: its token, what it sees, attention, and that.

    Attention is a row of balls for each head.
    """
    end, period = len(weights["embedding"]), period or len(weights["positions"])
    codes, heads = (weights[name].astype(float) for name in ("embedding", "positions")), []
    embedding, positions = codes
    for w_q, w_k in zip(weights["W_Q"], weights["W_K"], strict=True):
        heads.append(matrix(w_k) * matrix(w_q).transpose())
    for ids in texts:
        x = embedding[ids] + positions[np.arange(len(ids)) % period]
        for i in range(prompt - 1, len(ids)):
            seen = x[max(0, i + 1 - (window or len(ids))) : i + 1]
            reads = [matrix(seen) * head * matrix(x[i][:, None]) for head in heads]
            attention = [softmax(read.entries()) for read in reads]
            yield x[i], seen, attention, ids[i + 1] if i + 1 < len(ids) else end


def margins(weights, texts, **view):
    """By how much the logit that has to follow is more than each other one: rows of balls."""
    with flint.ctx.workprec(PREC):
        read = matrix(weights["U"]) * matrix(weights["unembedding"]).transpose()
        found = []
        for x, seen, attention, right in decoded(weights, texts, **view):
            z = [flint.arb(float(entry)) for entry in x]
            for shares in attention:
                z += (shares * matrix(seen)).entries()
            logits = (flint.arb_mat([z]) * read).entries()
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
