"""The claims *grouping*, *wide_grouping* and *rank*: integers modulo a prime.

Z has full rank modulo a prime, at a point, so it has it.
"""

import hashlib
import math
import struct
from contextlib import suppress

import numpy as np

from .attend import Examples
from .bounds import chunks, entries
from .claim import Claim
from .files import require, silent, unpack
from .modular import (
    ATTEMPTS,
    full_rank,
    reduce,
    representation,
    require_nonsingular,
    require_prime,
    residues,
    times,
)
from .pieces import in_pieces

CHUNK = 1 << 18  # entries of arrays which are worked on at a time


class Grouping(Claim):
    """Contexts of rank n, independent groups of queries, and no other query in the span of one."""

    name = "grouping"
    statement = (
        "all contexts have rank n = {}; the queries of each of {} groups are independent, "
        "and no group but the first has another query in its span"
    )

    def needs(self, about):
        total, size, width, _, heads, *_ = about.shapes
        held = at_once(about.shapes) + 8 * (3 * total * width + 4 * heads * width)
        return held, 4 * math.prod(about.contexts) * size + 2 * total * heads * width

    def check(self, about):
        evidence, contexts = self.evidence, about.data["contexts"]
        p, (size, width) = require_prime(evidence["prime"]), contexts.shape[-2:]
        groups = require_groups(evidence["groups"], about.weights, len(about.data["queries"]))
        small = all(b - a <= max(1, size - (k > 0)) for k, (a, b) in enumerate(groups))
        require(small, "the groups are not partition")
        contexts = contexts.reshape(-1, size, width)
        of_contexts = residues(contexts, p)

        def full(rows):
            return size <= width and full_rank(of_contexts(contexts[rows])[0], p)

        for shown in in_pieces(full, chunks(len(contexts), size * width, CHUNK)):
            require(shown, "a context is not shown to have rank n")
        check_spans(evidence, groups, about.data["queries"], p, lambda _: slice(None))
        return size, len(groups)


class WideGrouping(Claim):
    """In an order: independent groups which span no earlier query, and contexts as wide."""

    name = "wide_grouping"
    statement = (
        "in an order of the examples, the queries of each of {} groups are "
        "independent, and no query of an earlier group is in the span of a later one; any k "
        "examples of a group have contexts whose differences of tokens, or in the first group "
        "whose tokens, span k dimensions or more"
    )

    def needs(self, about):
        total, _, width, _, heads, *_ = about.shapes
        held = at_once(about.shapes) + 8 * (5 * total * width + 4 * heads * width)
        return held, 4 * math.prod(about.contexts) + 4 * total * width * (width + heads)

    def check(self, about):
        evidence, queries = self.evidence, about.data["queries"]
        p, total = require_prime(evidence["prime"]), len(queries)
        groups = require_groups(evidence["groups"], about.weights, total)
        order = unpack(evidence["order"], (total,), total)
        require((np.bincount(order, minlength=total) == 1).all(), "the order is not a permutation")
        check_spans(evidence, groups, queries[order], p, slice)
        contexts = about.data["contexts"]
        contexts = contexts.reshape(-1, *contexts.shape[-2:])
        of_contexts = residues(contexts, p)

        def wide(head):
            (start, stop), rng = groups[head], np.random.default_rng([total, head])
            members = order[start:stop] % len(contexts)
            return start == stop or any(
                full_rank(mixtures(of_contexts, contexts, members, head == 0, p, rng)[None], p)
                for _ in range(ATTEMPTS)
            )

        for head, shown in enumerate(in_pieces(wide, range(len(groups)))):
            require(shown, f"the contexts of group {head} are not shown to be wide")
        return (len(groups),)


def at_once(shapes):
    """Bytes of arrays of some examples at a time."""
    _, size, width, _, heads, inner, *_ = shapes
    return 8 * 12 * max(CHUNK, entries(size, width, heads, inner))


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
    require(tiled, "the groups are not partition")
    return groups


def check_spans(evidence, groups, queries, p, others):
    """Independent groups, and normals which show that some queries are outside of their spans."""
    width = queries.shape[1]
    normals = unpack(evidence["normals"], (len(groups), width), p).astype(np.float64)
    queries = residues(queries, p)(queries)[0]

    def look(head):
        start, stop = groups[head]
        if start == stop:
            return True, True
        independent = stop - start <= width and full_rank(queries[None, start:stop], p)
        normal = reduce(normals[head, :, None].copy(), p)
        zero = times(queries, normal, p)[:, 0] == 0
        own = zero[start:stop].all()
        zero[start:stop] = False
        return independent, head == 0 or (own and not zero[others(start)].any())

    for head, (independent, alone) in enumerate(in_pieces(look, range(len(groups)))):
        require(independent, f"group {head} is dependent modulo p")
        require(alone, f"a query is not shown to be outside of the span of group {head}")


ROUNDS = 12  # columns of the system whose solution shows a rank
POINTS = 3  # at which a rank is looked for


class Rank(Claim):
    """The rows of Z are independent modulo p at exp(1) = a: those of a view which are wanted."""

    name, of_lengths = "rank", True
    statement = "rank Z = T = {}: for all Y some effective readout U (H d, d_out) has Z U = Y"

    def needs(self, about):
        return needs(about.shapes)

    def check(self, about):
        """By elimination, or by a solution for random columns."""
        view, wanted, width = about.rows_of_z()
        evidence, total = self.evidence, len(wanted)
        p, a = require_prime(evidence["prime"]), evidence["value"]
        require(type(a) is int and 1 < a < p, "a is not between 1 and p")
        columns = unpack(evidence["columns"], (total,), width)
        require(len(np.unique(columns)) == total, "a column of Z is named twice")
        z = representation(about.weights, view, wanted, (p, a), columns, about.tell)
        solution = unpack(evidence["solution"], (total, ROUNDS), p).astype(np.float64)
        if about.quick:
            # Nobody can choose these right-hand sides, and a singular Z has few in its range.
            hashed = b"constructive rank 1" + about.hashes + struct.pack("<II", p, a)
            hashed = hashlib.shake_256(hashed + columns.astype("<u4").tobytes())
            right = np.frombuffer(hashed.digest(8 * ROUNDS * total), "<u8") % np.uint64(p)
            left = times(z, reduce(solution, p), p).astype(np.int64) % p
            true = (left.ravel() == right.astype(np.int64)).all()
            require(true, "the solution modulo p is wrong")
        else:
            require_nonsingular(z, p, about.tell)
        return (total,)


class RankOfDecoder(Rank):
    """The same of tokens of texts, with themselves, on the different contexts."""

    statement = (
        "rank Z = R = {} on the different contexts: for all Y some readout U "
        "((H + 1) d, d_out) has Z U = Y"
    )


def needs(shapes, beside=0):
    """Bytes and operations of elimination, with so many other matrices (T, H d)."""
    total, size, width, _, heads, inner, *_ = shapes
    held = at_once(shapes) + 8 * total * (total + 4 * width + 3 * ROUNDS + 4096)
    held += 8 * 4 * heads * width * inner + 8 * 2 * total * heads * width * beside
    return held, 2 * total * heads * (2 * inner * width + 2 * size * width) + total**3


def examples(weights, data):
    """A view of all examples, a few at a time."""
    heads, _, inner = weights["W_Q"].shape
    units = entries(*data["contexts"].shape[-2:], heads, inner)
    return Examples(data, chunks(len(data["queries"]), units, CHUNK))


def looks_singular(weights, data, tell=silent):
    """Whether Z has less than rank T modulo a prime at a few points, by random mixtures of columns.

    It may have rank T all the same, but hardly ever; so nobody needs to look for its inverse.
    """
    view, columns = examples(weights, data), math.prod(weights["W_V"].shape[:2])
    rng, p = np.random.default_rng(view.total), 4194287
    for a in rng.integers(2, p, size=POINTS).tolist() if view.total <= columns else ():
        mixing = reduce(rng.integers(p, size=(columns, view.total)).astype(np.float64), p)
        with suppress(ValueError):
            every = np.arange(view.total), (p, a), np.arange(columns)
            z = representation(weights, view, *every, tell)
            require_nonsingular(times(z, mixing, p), p)
            return False
    return True
