"""Linear algebra modulo a prime below 2^22: integers in floats, in sums below 2^53, so exactly."""

import math

import numpy as np

from .attend import Heads, Numbers, attend
from .bounds import chunks
from .claim import Unshown
from .files import require, silent
from .pieces import in_pieces

MANY = 1 << 17  # entries which are reduced at a time
BLOCK, SMALL = 256, 16  # rows of a matrix which are eliminated together, and one by one
LARGE = 64  # rows of matrices which are not eliminated all at once
VANISHES = "denominator"  # why nothing is known of a point
ATTEMPTS = 8  # random mixtures which may show a rank


def reduce(x, m):
    """Integers modulo m < 2^22, as floats of size at most m/2 + 2, in the array itself."""
    flat = x.reshape(-1) if x.flags.c_contiguous else x[None]
    for start in range(0, len(flat), MANY):
        part = flat[start : start + MANY]
        part -= np.rint(part * (1.0 / m)) * m
    return x


def times(a, b, m):
    """The product a @ b modulo m, exact since 1024 products stay below 2^53."""
    if b.ndim == 2 < a.ndim:  # one large product, and not many small ones
        return times(a.reshape(-1, a.shape[-1]), b, m).reshape(*a.shape[:-1], -1)
    out = reduce(a[..., :1024] @ b[..., :1024, :], m)
    for k in range(1024, a.shape[-1], 1024):
        reduce(np.add(out, a[..., k : k + 1024] @ b[..., k : k + 1024, :], out=out), m)
    return out


def residues(x, *moduli):
    """How to make integers of parts of x, all times one power of two: a function for that.

    It gives an array for each modulus. The power of two makes the smallest entry an integer.
    """
    flat, lowest, highest = x.reshape(-1), 2000, -2000
    for start in range(0, x.size, MANY):
        mantissa, exponent = np.frexp(flat[start : start + MANY])
        lowest = min(lowest, int(exponent.min(where=mantissa != 0, initial=2000)))
        highest = max(highest, int(exponent.max(where=mantissa != 0, initial=-2000)))
    tables = [powers_of_two(max(highest - lowest, 0) + 28, m) for m in moduli]

    def of(part):
        outs, parts = [np.empty(part.size) for _ in moduli], part.reshape(-1)
        for start in range(0, part.size, MANY):
            mantissa, exponent = np.frexp(parts[start : start + MANY].astype(np.float64))
            high = np.trunc(mantissa * 2.0**26)  # 26 bits, and 27, to be times powers of 22
            low = (mantissa * 2.0**26 - high) * 2.0**27
            shift = np.maximum(exponent.astype(np.int64) - lowest, 0)  # a zero has any exponent
            for m, table, out in zip(moduli, tables, outs, strict=True):
                whole = high * table.take(shift + 27, mode="clip")
                whole += low * table.take(shift, mode="clip")
                out[start : start + MANY] = reduce(whole, m)
        return [out.reshape(part.shape) for out in outs]

    return of


def powers_of_two(count, m):
    """1, 2, 4, ... modulo m, below 2^26: products of two residues are exact in float64."""
    table = np.ones(1)
    while len(table) < count:
        table = np.concatenate([table, np.remainder(table * pow(2, len(table), m), m)])
    return table[:count]


def inverses(x, p):
    """1 / x modulo p, entry by entry, as x^(p - 2)."""
    out, square, exponent = np.ones_like(x), x.copy(), p - 2
    while exponent:
        out = reduce(out * square, p) if exponent & 1 else out
        square, exponent = reduce(square * square, p), exponent >> 1
    return out


def require_nonsingular(a, p, tell=silent):
    """Refuse a square matrix which is singular modulo p; it is used up."""
    solve(a, np.empty((len(a), 0)), p, tell)


def solve(a, b, p, tell=silent):
    """X with a X = b modulo p, or a refusal where a is singular; both are used up.

    A block of rows at a time is eliminated: with V the inverse of a block of its first columns,
    what is left of the others is singular if and only if the matrix is, A_ij - A_i V A_j.
    """
    total, names, steps = len(a), np.arange(len(a)), chunks(len(a), 1, BLOCK)
    for step in steps:
        first, last = step.start, step.stop
        tell("eliminate Z modulo p", first, total)
        inverse = inverse_of(a[step, step], p)
        if inverse is None:  # other columns stand first, in which it has one
            order = first + order_of(a[step, first:].copy(), p)
            for rows in chunks(total, total, 1 << 22):
                a[rows, first:] = a[rows, order]
            names[first:] = names[order]
            inverse = inverse_of(a[step, step], p)
        a[step, step] = inverse
        right = np.empty((last - first, total - last))

        def multiply(columns, rows=a[step, last:], inverse=inverse, right=right):
            right[:, columns] = times(inverse, rows[:, columns], p)

        def subtract(rows, left=a[last:, step], rest=a[last:, last:], right=right):
            rest[rows] = reduce(rest[rows] - left[rows] @ right, p)

        for one in (multiply, subtract):
            for _ in in_pieces(one, chunks(total - last, 1, BLOCK)):
                pass
        b[last:] = reduce(b[last:] - a[last:, step] @ times(inverse, b[step], p), p)
    for step in steps[::-1]:  # rows of X are V times what is left of b
        left = reduce(b[step] - times(a[step, step.stop :], b[step.stop :], p), p)
        b[step] = times(a[step, step], left, p)
    out = np.empty_like(b)
    out[names] = b
    return out


def inverse_of(a, p):
    """The inverse modulo p, or None where a square at the upper left corner is singular."""
    size = len(a)
    if size <= SMALL:
        both = np.concatenate([a, np.eye(size)], axis=1)
        for k in range(size):
            if not both[k, k]:
                return None
            both[k] = reduce(both[k] * float(pow(int(both[k, k]), -1, p)), p)
            column = both[:, k].copy()
            column[k] = 0.0
            both -= column[:, None] * both[k]
            reduce(both, p)
        return both[:, size:]
    half = size // 2
    corner = inverse_of(a[:half, :half], p)
    if corner is None:
        return None
    left, above = times(a[half:, :half], corner, p), a[:half, half:]
    other = inverse_of(reduce(a[half:, half:] - times(left, above, p), p), p)
    if other is None:
        return None
    out = np.empty_like(a)
    out[half:, half:], out[half:, :half] = other, -times(other, left, p)
    out[:half, half:] = -times(times(corner, above, p), other, p)
    out[:half, :half] = reduce(corner - times(out[:half, half:], left, p), p)
    return out


def order_of(rows, p):
    """An order of columns, in which no square at the left of these rows is singular."""
    order = np.arange(rows.shape[1])
    for k in range(len(rows)):  # entries below are sums of at most 256 products: < 2^51
        reduce(rows[k, k:], p)
        pivot = k + int((rows[k, k:] != 0).argmax())
        require(rows[k, pivot] != 0, "Z is singular modulo p at this point")
        rows[:, [k, pivot]], order[[k, pivot]] = rows[:, [pivot, k]], order[[pivot, k]]
        rows[k + 1 :, k] = reduce(rows[k + 1 :, k].copy(), p)
        rows[k, k + 1 :] = reduce(rows[k, k + 1 :] * float(pow(int(rows[k, k]), -1, p)), p)
        rows[k + 1 :, k + 1 :] -= rows[k + 1 :, k : k + 1] * rows[k, k + 1 :]
    return order


def full_rank(batch, p):
    """Whether all matrices (B, k, d), k <= d, are shown to have rank k modulo p.

    They are multiplied by random d x k matrices, which lose rank with a chance of k/p each time.
    """
    pending, rng = np.arange(len(batch)), np.random.default_rng(len(batch))
    for _ in range(ATTEMPTS):
        mixing = reduce(rng.integers(p, size=batch.shape[:0:-1]).astype(np.float64), p)
        a, full = times(batch[pending], mixing, p), np.ones(len(pending), dtype=bool)
        if a.shape[1] > LARGE:
            full[:] = [inverse_of(each, p) is not None for each in a]
        for k in range(a.shape[1] if a.shape[1] <= LARGE else 0):
            pivot = np.arange(len(a)), k + (a[:, k:, k] != 0).argmax(axis=1)
            row = a[pivot]
            a[pivot] = a[:, k]
            full &= row[:, k] != 0
            rest = a[:, k + 1 :, k + 1 :] * row[:, None, k : k + 1]
            rest -= a[:, k + 1 :, k : k + 1] * row[:, None, k + 1 :]
            a[:, k + 1 :, k + 1 :] = reduce(rest, p)
        pending = pending[~full]
        if not len(pending):
            return True
    return False


def require_prime(p):
    require(type(p) is int and 1 << 21 < p < 1 << 22, "p is not between 2^21 and 2^22")
    require(all(p % k for k in range(2, math.isqrt(p) + 1)), f"p = {p} is not prime")
    return p


# Attention modulo a prime p, at exp(x) = a^x: logits modulo p - 1, and averages modulo p.

LOW = 11  # bits of an exponent which one of two tables has


class Residues(Numbers):
    """Integers modulo p - 1 and p: tokens, queries and weights times powers of two."""

    def __init__(self, view, p, a):
        self.p, self.m = p, p - 1
        self.of_tokens = residues(view.tokens, self.m, p)
        self.of_queries = residues(view.queries, self.m)
        low, high = 1 << LOW, (p >> LOW) + 1
        self.small = np.array([pow(a, k, p) for k in range(low)], dtype=np.float64)
        self.large = np.array([pow(a, low * k, p) for k in range(high)], dtype=np.float64)

    def weights(self, w):
        return residues(w, self.m)(w)[0]

    def queries(self, x):
        return self.of_queries(x)[0]

    def tokens(self, parts):
        found = [self.of_tokens(part) for part in parts]
        if len(found) == 1:
            return found[0]
        sums = (sum(each) for each in zip(*found, strict=True))
        return [reduce(x, modulus) for x, modulus in zip(sums, (self.m, self.p), strict=True)]

    def product(self, x, y):
        return times(x, y, self.m)

    def softmax(self, logits, hidden):
        """Powers of a, and their sums: what they are divided by is known only modulo p."""
        index = (logits + self.m * (logits < 0)).astype(np.int64)
        powers = self.small.take(index & ((1 << LOW) - 1), mode="clip")
        powers *= self.large.take(index >> LOW, mode="clip")
        powers = reduce(powers, self.p)
        if hidden is not None:
            powers[np.broadcast_to(hidden, powers.shape)] = 0.0
        sums = reduce(powers.sum(axis=2), self.p)
        if not sums.all():
            raise Unshown("a softmax denominator vanishes modulo p", VANISHES)
        return powers, sums

    def averages(self, attention, tokens, own, columns):
        """Columns of (tokens themselves if they ask, averages of all heads)."""
        powers, sums = attention
        (rows, heads, size), width = powers.shape, tokens.shape[2]
        if len(tokens) == 1:
            powers = powers.reshape(1, -1, size)
        z = times(powers, tokens, self.p).reshape(rows, heads * width)
        inverse = inverses(sums, self.p)
        if own is not None:
            z = np.concatenate([own, z], axis=1)
            inverse = np.concatenate([np.ones((rows, 1)), inverse], axis=1)
        inverse = inverse.take(columns // width, axis=1, mode="clip")
        return reduce(z.take(columns, axis=1, mode="clip") * inverse, self.p)


def representation(weights, view, wanted, point, columns, tell=silent):
    """The given columns of Z modulo p, times a power of two: of wanted rows, which increase.

    point: the prime p, and what exp(1) stands for
    """
    numbers = Residues(view, *point)
    heads, out = Heads(numbers, weights), np.empty((len(wanted), len(columns)))
    total = view.total

    def one(view):
        for group, block, tokens, attention in attend(numbers, heads, view):
            first = group.rows.start + (block.rows.start or 0)
            tell("rank: Z modulo p", first, total)
            own = None if group.queries is not None else tokens[0, block.rows]
            part = numbers.averages(attention, tokens[:, block.seen], own, columns)
            start, stop = np.searchsorted(wanted, [first, first + len(part)])
            out[start:stop] = part[wanted[start:stop] - first]

    for _ in in_pieces(one, view.parts()):
        pass
    return out
