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
