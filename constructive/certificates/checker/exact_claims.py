"""The claims *grouping*, *wide_grouping* and *rank*: integers modulo a prime."""

import hashlib
import math
import struct
from contextlib import suppress

import numpy as np

from bounds import chunks, entries
from files import require, unpack
from modular import (
    ATTEMPTS,
    full_rank,
    inverses,
    reduce,
    require_nonsingular,
    require_prime,
    residues,
    times,
)
from steps import silent

ROUNDS = 12  # columns of the system whose solution shows a rank
POINTS = 3  # at which a rank is looked for
CHUNK = 1 << 18  # entries of arrays which are worked on at a time


def check_grouping(evidence, weights, data):
    """Contexts of rank n, independent groups of queries, and no other query in the span of one."""
    p, contexts = require_prime(evidence["prime"]), data["contexts"]
    size, width = contexts.shape[-2:]
    groups = require_groups(evidence["groups"], weights, len(data["queries"]))
    small = all(b - a <= max(1, size - (k > 0)) for k, (a, b) in enumerate(groups))
    require(small, "the groups are no partition")
    contexts = contexts.reshape(-1, size, width)
    of_contexts = residues(contexts, p)
    for rows in chunks(len(contexts), size * width, CHUNK):
        full = size <= width and full_rank(of_contexts(contexts[rows])[0], p)
        require(full, "a context is not shown to have rank n")
    check_spans(evidence, groups, data["queries"], p, lambda _: slice(None))
    return size, len(groups)


def check_wide_grouping(evidence, weights, data):
    """In an order: independent groups which span no earlier query, and contexts as wide."""
    p, total = require_prime(evidence["prime"]), len(data["queries"])
    groups = require_groups(evidence["groups"], weights, total)
    order = unpack(evidence["order"], (total,), total)
    require((np.bincount(order, minlength=total) == 1).all(), "the order is no permutation")
    check_spans(evidence, groups, data["queries"][order], p, slice)
    contexts = data["contexts"].reshape(-1, *data["contexts"].shape[-2:])
    of_contexts, rng = residues(contexts, p), np.random.default_rng(total)
    for head, (start, stop) in enumerate(groups):
        members = order[start:stop] % len(contexts)
        wide = start == stop or any(
            full_rank(mixtures(of_contexts, contexts, members, head == 0, p, rng)[None], p)
            for _ in range(ATTEMPTS)
        )
        require(wide, f"the contexts of group {head} are not shown to be wide")
    return (len(groups),)


def mixtures(of_contexts, contexts, members, of_tokens, p, rng):
    """Random differences of tokens of some contexts, or sums of tokens, modulo p."""
    (_, size, width), out = contexts.shape, np.empty((len(members), contexts.shape[2]))
    for rows in chunks(len(members), size * width, CHUNK):
        tokens = of_contexts(contexts[members[rows]])[0]
        mixing = rng.integers(p, size=(len(tokens), 1, size))
        mixing[:, :, 0] -= 0 if of_tokens else mixing.sum(axis=2)
        out[rows] = times(reduce((mixing % p).astype(np.float64), p), tokens, p)[:, 0]
    return out


def require_groups(groups, weights, total):
    """Groups [start, stop] of consecutive examples, one for each head, which are all of them."""
    require(all(type(end) is int for pair in groups for end in pair), "a group is not integers")
    ends = [0, *(stop for _, stop in groups)]
    tiled = ends[:-1] == [start for start, _ in groups] and ends[-1] == total
    tiled = tiled and ends == sorted(ends) and len(groups) == len(weights["W_Q"])
    require(tiled, "the groups are no partition")
    return groups


def check_spans(evidence, groups, queries, p, others):
    """Independent groups, and normals which show that some queries are outside of their spans."""
    width = queries.shape[1]
    normals = unpack(evidence["normals"], (len(groups), width), p).astype(np.float64)
    queries = residues(queries, p)(queries)[0]
    for head, (start, stop) in enumerate(groups):
        if start == stop:
            continue
        independent = stop - start <= width and full_rank(queries[None, start:stop], p)
        require(independent, f"group {head} is dependent modulo p")
        normal = reduce(normals[head, :, None].copy(), p)
        zero = times(queries, normal, p)[:, 0] == 0
        own = zero[start:stop].all()
        zero[start:stop] = False
        alone = head == 0 or (own and not zero[others(start)].any())
        require(alone, f"a query is not shown to be outside of the span of group {head}")


def check_rank(evidence, weights, data, hashes, quick, tell=silent):
    """Z has rank T modulo p at x = a: by elimination, or by a solution for random columns."""
    p, a, total = require_prime(evidence["prime"]), evidence["value"], len(data["queries"])
    require(type(a) is int and 1 < a < p, "a is not between 1 and p")
    columns = unpack(evidence["columns"], (total,), math.prod(weights["W_Q"].shape[:2]))
    require(len(np.unique(columns)) == total, "a column of Z is named twice")
    z = representation(weights, data, p, a, columns, tell)
    require_rank(z, p, a, columns, evidence["solution"], hashes, quick, tell)
    return (total,)


def require_rank(z, p, a, columns, solution, hashes, quick, tell=silent):
    """A square matrix modulo p has full rank: by elimination, or by a solution which is given."""
    total = len(z)
    solution = unpack(solution, (total, ROUNDS), p).astype(np.float64)
    if quick:  # nobody can choose these right-hand sides, and a singular Z has few in its range
        hashed = hashlib.shake_256(b"constructive rank 1" + hashes + struct.pack("<II", p, a))
        hashed.update(columns.astype("<u4").tobytes())
        right = np.frombuffer(hashed.digest(8 * ROUNDS * total), "<u8") % np.uint64(p)
        left = times(z, reduce(solution, p), p).astype(np.int64) % p
        require((left.ravel() == right.astype(np.int64)).all(), "the solution modulo p is wrong")
    else:
        require_nonsingular(z, p, tell)


def looks_singular(weights, data):
    """Whether Z has less than rank T modulo a prime at a few points, by random mixtures of columns.

    It may have rank T all the same, but hardly ever; so nobody needs to look for its inverse.
    """
    total, columns = len(data["queries"]), math.prod(weights["W_Q"].shape[:2])
    rng, p = np.random.default_rng(total), 4194287
    for a in rng.integers(2, p, size=POINTS).tolist() if total <= columns else ():
        mixing = reduce(rng.integers(p, size=(columns, total)).astype(np.float64), p)
        with suppress(ValueError):
            z = representation(weights, data, p, a, np.arange(columns))
            require_nonsingular(times(z, mixing, p), p)
            return False
    return True


def representation(weights, data, p, a, columns, tell=silent):
    """The given columns of Z(a) modulo p, times a power of two."""
    m, (heads, width, inner) = p - 1, weights["W_Q"].shape
    contexts, queries = data["contexts"].reshape(-1, *data["contexts"].shape[-2:]), data["queries"]
    of_contexts, of_queries = residues(contexts, m, p), residues(queries, m)
    small = np.array([pow(a, k, p) for k in range(2048)], dtype=np.float64)
    large = np.array([pow(a, 2048 * k, p) for k in range((p >> 11) + 1)], dtype=np.float64)
    w_q, w_k = (residues(weights[name], m)(weights[name])[0] for name in ("W_Q", "W_K"))
    w_q = np.ascontiguousarray(w_q.transpose(1, 0, 2)).reshape(width, -1)
    w_k = np.ascontiguousarray(w_k.transpose(0, 2, 1))
    out = np.empty((len(queries), len(columns)))
    for rows in chunks(len(out), entries(*contexts.shape[1:], heads, inner), CHUNK):
        tell("rank: Z modulo p", rows.start, len(out))
        exponents, tokens = of_contexts(contexts[rows] if len(contexts) > 1 else contexts)
        read = times(of_queries(queries[rows])[0], w_q, m).reshape(-1, heads, inner)
        read = np.ascontiguousarray(read.transpose(1, 0, 2))
        absorbed = np.ascontiguousarray(times(read, w_k, m).transpose(1, 0, 2))
        logits = times(absorbed, exponents.transpose(0, 2, 1), m)
        index = (logits + m * (logits < 0)).astype(np.int64)
        powers = small.take(index & 2047, mode="clip") * large.take(index >> 11, mode="clip")
        sums = reduce(reduce(powers, p).sum(axis=2), p)
        require(sums.all(), "a softmax denominator vanishes modulo p")
        z = times(powers, tokens, p).reshape(len(sums), -1)
        inverse = inverses(sums, p).take(columns // width, axis=1, mode="clip")
        out[rows] = reduce(z.take(columns, axis=1, mode="clip") * inverse, p)
    return out
