"""The claims *grouping* and *rank*: integers modulo a prime.

Z has full rank modulo a prime, at a point, so it has it.
"""

import hashlib
import math
import struct
from fractions import Fraction

import numpy as np

from .attend import Examples
from .bounds import chunks, entries
from .claim import Claim, Refuted, Shown, Unshown
from .files import require, unpack
from .modular import (
    full_rank,
    reduce,
    representation,
    require_nonsingular,
    require_prime,
    residues,
    solve,
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

    def numbers(self, about):
        return about.shapes[1], len(self.evidence["groups"])

    def check(self, about):
        evidence, contexts = self.evidence, about.data["contexts"]
        p, (size, width) = require_prime(evidence["prime"]), contexts.shape[-2:]
        groups = require_groups(evidence["groups"], about.weights, len(about.data["queries"]))
        small = all(b - a <= max(1, size - (k > 0)) for k, (a, b) in enumerate(groups))
        require(small, "the groups are not partition")
        if size > width:
            raise Refuted("contexts have more tokens than dimensions", size)
        contexts = contexts.reshape(-1, size, width)
        if "dependence" in evidence:
            refute_by(evidence["dependence"], contexts, about.data["queries"], groups)
        of_contexts = residues(contexts, p)

        def full(rows):
            whole = of_contexts(contexts[rows])[0]
            if full_rank(whole, p):
                return None
            return rows.start + [full_rank(each[None], p) for each in whole].index(False)

        for place in in_pieces(full, chunks(len(contexts), size * width, CHUNK)):
            if place is not None:
                raise Unshown(f"context {place} is not shown to have rank n", ("contexts", place))
        check_spans(evidence, groups, about.data["queries"], p)
        return Shown(self.numbers(about), f"modulo p = {p}")


def refute_by(found, contexts, queries, groups):
    """Refute it by integers with which tokens of a context, or queries, sum to zero."""
    of, examples, whole = found["of"], found["examples"], [int(x, 16) for x in found["vector"]]
    require(of in ("contexts", "group", "span"), "a dependence of nothing known")
    rows = contexts[examples[0]] if of == "contexts" else queries[examples]
    require(len(whole) == len(rows) and len(set(examples)) == len(examples), "a dependence misfits")
    columns = rows.T.astype(np.float64).tolist()
    zero = not any(
        sum(c * Fraction(x) for c, x in zip(whole, each, strict=True)) for each in columns
    )
    require(zero and any(whole), "what should be zero is not")
    if of == "contexts":
        raise Refuted(f"the tokens of context {examples[0]} are dependent", examples[0])
    *inside, last = [place for place, c in zip(examples, whole, strict=True) if c]
    head = [a <= last < b for a, b in groups].index(True) if of == "group" else None
    for k, (start, stop) in enumerate(groups):
        own = all(start <= place < stop for place in inside)
        if own and (k == head or (of == "span" and k > 0 and not start <= last < stop)):
            said = "is in the span of the queries" if of == "span" else "depends on others"
            detail = f"query {last} {said} {start} to {stop - 1} of a group"
            raise Refuted(detail, (last, (start, stop)))
    raise ValueError("a dependence is not within a group")


def at_once(shapes):
    """Bytes of arrays of some examples at a time."""
    _, size, width, _, heads, inner, *_ = shapes
    return 8 * 12 * max(CHUNK, entries(size, width, heads, inner))


def require_groups(groups, weights, total):
    """Groups [start, stop] of consecutive examples, one for each head, which are all of them."""
    require(all(type(end) is int for pair in groups for end in pair), "a group is not integers")
    ends = [0, *(stop for _, stop in groups)]
    tiled = ends[:-1] == [start for start, _ in groups] and ends[-1] == total
    tiled = tiled and ends == sorted(ends) and len(groups) == len(weights.get("W_Q", groups))
    require(tiled, "the groups are not partition")
    return groups


def check_spans(evidence, groups, queries, p):
    """Independent groups, and normals which show that other queries are outside of their spans."""
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
        return independent, head == 0 or (own and not zero.any())

    for head, (independent, alone) in enumerate(in_pieces(look, range(len(groups)))):
        if not independent:
            raise Unshown(f"group {head} is dependent modulo p", ("group", head))
        if not alone:
            detail = f"a query is not shown to be outside of the span of group {head}"
            raise Unshown(detail, ("span", head))


ROUNDS = 12  # columns of the system whose solution shows a rank


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
        if "prime" not in evidence:
            self.require_possible(about)
            raise ValueError("no prime is given at which rows would be independent")
        p, a = require_prime(evidence["prime"]), evidence["value"]
        require(type(a) is int and 1 < a < p, "a is not between 1 and p")
        columns = unpack(evidence["columns"], (total,), width)
        require(len(np.unique(columns)) == total, "a column of Z is named twice")
        z = representation(about.weights, view, wanted, (p, a), columns, about.tell)
        right = challenge(about.hashes, p, a, columns)
        if about.solves:
            about.solution = solve(z, right, p, about.tell).astype(np.int64) % p
            return Shown((total,), f"rank {total} modulo p = {p} at x = {a}")
        solution = unpack(evidence["solution"], (total, ROUNDS), p).astype(np.float64)
        if about.quick:
            true = (times(z, reduce(solution, p), p) % p == right % p).all()
            require(true, "the solution modulo p is wrong")
        else:
            require_nonsingular(z, p, about.tell)
        return Shown((total,), f"rank {total} modulo p = {p} at x = {a}")

    def numbers(self, about):
        return (len(about.rows_of_z()[1]),)

    def require_possible(self, about):
        """Refute it where rank Z is less for all W_Q and W_K of these shapes."""
        require_possible(about.shapes, about.data)


def challenge(hashes, p, a, columns):
    """Right-hand sides which nobody can choose; and a singular Z has few in its range."""
    hashed = b"constructive rank 1" + hashes + struct.pack("<II", p, a)
    hashed = hashlib.shake_256(hashed + columns.astype("<u4").tobytes())
    right = np.frombuffer(hashed.digest(8 * ROUNDS * len(columns)), "<u8") % np.uint64(p)
    return reduce(right.astype(np.float64).reshape(len(columns), ROUNDS), p)


def require_possible(shapes, data):
    """Refute rank Z = T where it is less for all W_Q and W_K of these shapes, on these data."""
    total, size, width, _, heads, *_ = shapes
    contexts, lengths = data["contexts"], data.get("lengths")
    own = len(contexts.shape) == 3
    if not own and total > heads * (size - 1) + 1:
        bound = heads * (size - 1) + 1
        detail = f"on a shared context rank Z <= H(n - 1) + 1 = {bound} < {total}, since attention "
        raise Refuted(f"{detail}weights sum to one", bound)
    columns = width * (1 if size == 1 else heads)
    if total > columns:
        detail = f"Z has {columns} different columns, fewer than {total} examples"
        raise Refuted(detail, columns)
    seen = {}
    for rows in chunks(total, size * width, CHUNK):
        tokens = contexts[rows] if own else np.broadcast_to(contexts, (total, size, width))[rows]
        for k, t in enumerate(range(total)[rows]):
            context = tokens[k, : size if lengths is None else int(lengths[t])]
            hashed = hashlib.sha256((data["queries"][t].astype(np.float64) + 0.0).tobytes())
            whole = context.astype(np.float64) + 0.0
            hashed.update(b"".join(sorted(token.tobytes() for token in whole)))
            first = seen.setdefault(hashed.digest(), t)
            if first != t:
                detail = f"examples {first} and {t} are one input, so two rows of Z are equal"
                raise Refuted(detail, (first, t))


class RankOfDecoder(Rank):
    """The same of tokens of texts, with themselves, on the different contexts."""

    statement = (
        "rank Z = R = {} on the different contexts: for all Y some readout U "
        "((H + 1) d, d_out) has Z U = Y"
    )

    def require_possible(self, about):
        _, wanted, columns = about.rows_of_z()
        if len(wanted) > columns:
            detail = f"Z has {columns} columns, fewer than {len(wanted)} contexts"
            raise Refuted(detail, columns)


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
