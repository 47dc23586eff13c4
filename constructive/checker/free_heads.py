"""The claims about heads that may depend on the targets: *onto*, *near* and *almost_impossible*.

Where all outputs are zero, and their derivative in the weights has a right inverse, some weights
nearby return any targets, with readouts times a large number (proofs/24-free-heads.md). Such a zero
point needs no search here: heads of a group have one attention, and readouts whose sum is zero.
"""

import math

import numpy as np

from .attend import Examples, Heads, attend
from .bounds import chunks, entries
from .claim import Claim, Shown
from .files import require, unpack
from .layers import components, different, require_orthogonal, triangular
from .modular import Residues, inverses, reduce, require_nonsingular, require_prime, residues, times
from .pieces import in_pieces
from .rank import CHUNK, at_once

LARGEST = 1 << 20  # above all integers of a zero point
COLUMNS = 1 << 22  # entries of products with random vectors, at a time


class Onto(Claim):
    """For all targets there are weights: the derivative at a zero point has rank T d_out.

    Evidence is a prime, a residue that stands for exp(1), and integers: the sizes of groups of
    heads, of which the first may have uniform attention; W_Q of each head of that one, and of each
    other group; W_K of each other group; and readouts of all heads of a group but the last, whose
    readout is minus their sum. So outputs are zero whatever these are.
    """

    name, of_weights, of_lengths = "onto", False, True
    statement = (
        "for all Y some weights of H = {} heads with d_h = {} return the {} targets of these "
        "examples exactly, with d_out = {} outputs"
    )

    def needs(self, about):
        total, size, width, outputs = about.shapes[:4]
        rows, heads = total * outputs, sum(self.evidence["groups"])
        held = at_once((total, size, width, outputs, heads, width)) + 8 * (rows * (rows + 4096))
        held += 8 * 4 * heads * width * self.evidence["head_dim"]
        return held + 32 * COLUMNS, rows**2 * heads * (4 * width) + rows**3

    def check(self, about):
        total, _, width, outputs = about.shapes[:4]
        evidence = self.evidence
        groups, inner = evidence["groups"], evidence["head_dim"]
        sizes = [*groups, inner]
        require(all(type(x) is int and x > 0 for x in sizes) and groups, "groups are not sizes")
        p, a = require_prime(evidence["prime"]), evidence["value"]
        require(type(a) is int and 1 < a < p, "a is not between 1 and p")
        base = zero_point(evidence, width, outputs)
        rows = derivative(base, about.data, (p, a), about.tell)
        about.tell("eliminate the derivative modulo p", 0, 1)
        require_nonsingular(rows, p, about.tell)
        detail = f"rank {total * outputs} modulo {p} at a zero point of {len(groups)} groups"
        return Shown((sum(groups), inner, total, outputs), detail)


def zero_point(evidence, width, outputs):
    """W_Q (H, d, d_h), W_K, readouts (H, d, d_out), and slices of groups: integers, in floats."""
    sizes, inner, uniform = evidence["groups"], evidence["head_dim"], evidence["uniform"]
    require(type(uniform) is bool, "`uniform` is neither true nor false")
    heads, equal = sum(sizes), len(sizes) - uniform
    asked = unpack(evidence["query"], (equal + sizes[0] * uniform, width, inner), LARGEST)
    keys = unpack(evidence["key"], (equal, width, inner), LARGEST)
    free = unpack(evidence["readout"], (heads - len(sizes), width, outputs), LARGEST)
    query, key, readout, groups, start = [], [], [], [], 0
    for index, size in enumerate(sizes):
        if uniform and not index:
            query += [*asked[:size]]
            key += [np.zeros((width, inner), np.int64)] * size
        else:
            query += [asked[index - len(sizes)]] * size
            key += [keys[index - len(sizes)]] * size
        others = [*free[start - index : start - index + size - 1]]
        readout += [*others, -sum(others, np.zeros((width, outputs), np.int64))]
        groups.append(slice(start, start + size))
        start += size
    return *(np.array(x, dtype=np.float64) for x in (query, key, readout)), groups


def derivative(base, data, point, tell):
    """The derivative of all outputs modulo p, times random product vectors: (T d_out, T d_out).

    Row (t, j) has blocks (C U)_j x Q^T e and K^T (C U)_j x e of each head, and the average of
    tokens of each group at entry j, with the covariance C of tokens under its attention. It is an
    integer matrix times others, in which products of unit vectors give back each of its entries;
    so whatever is drawn, the rank is not larger than that of the derivative, and mostly as large.

    All rows are divided by residues of sums of exponentials, which are not zero: that is their
    product with such sums, which are the same for all entries of a row, divided by a number.
    """
    query, key, readout, groups = base
    p, (heads, width, outputs) = point[0], readout.shape
    firsts = [group.start for group in groups]
    view = Examples(data, chunks(len(data["queries"]), entries(*data["contexts"].shape[-2:], len(groups), query.shape[2]), CHUNK))
    numbers = Residues(view, *point)
    attended = Heads(numbers, {"W_Q": query[firsts], "W_K": key[firsts]})
    of_queries = residues(view.queries, p)
    q, k, v = (reduce(np.ascontiguousarray(x), p) for x in (query, key, readout))
    total = view.total
    out = np.zeros((total, outputs, total * outputs))

    def one(part):
        for group, _, tokens, (powers, sums) in attend(numbers, attended, part):
            tell("derivative modulo p", group.rows.start, total)
            shares = reduce(powers * inverses(sums, p)[..., None], p)
            asked = of_queries(group.queries)[0]
            for columns in chunks(out.shape[2], len(shares) * (outputs + 2) * 4, COLUMNS):
                found = np.zeros((len(shares), outputs, columns.stop - columns.start))
                for index, members in enumerate(groups):
                    share = shares[:, index, :, None]
                    averages = times(share.transpose(0, 2, 1), tokens, p)  # (B, 1, d)
                    for head in range(members.start, members.stop):
                        rng = np.random.default_rng([total, head, columns.start])
                        count = found.shape[2]
                        b, c, b_of, c_of, of_average = (
                            random(rng, (size, count), p)
                            for size in (width, q.shape[2], q.shape[2], width, outputs * width)
                        )
                        read = reduce(times(tokens, v[head], p) - times(averages, v[head], p), p)
                        rows = times(reduce(share * read, p).transpose(0, 2, 1), tokens, p)
                        keys = times(times(asked, q[head], p), c, p)[:, None]
                        found += reduce(times(rows, b, p) * keys, p)
                        queries = times(asked, c_of, p)[:, None]
                        found += reduce(times(times(rows, k[head], p), b_of, p) * queries, p)
                        if head == members.start:
                            each = of_average.reshape(outputs, width, count)
                            found += times(averages[:, 0], each, p).transpose(1, 0, 2)
                        reduce(found, p)
                out[group.rows, :, columns] = found

    for _ in in_pieces(one, view.parts()):
        pass
    return out.reshape(total * outputs, -1)


def random(rng, shape, p):
    return reduce(rng.integers(p, size=shape).astype(np.float64), p)


class AlmostImpossible(Claim):
    """Outputs on examples J move in fewer dimensions than their targets have, for all weights.

    Heads are forms on (differences of tokens) x (queries) of rank d_h at most, and move outputs of
    an example within the span of what readouts make of differences of its tokens; and readouts have
    as many dimensions as rows of Z are independent. So the image of all weights is a null set.
    """

    name, of_weights, of_lengths = "almost_impossible", False, True
    statement = (
        "whatever the weights of H = {} heads with d_h = {} are, their {} outputs on {} different "
        "examples have a derivative of rank {} at most: almost no targets of these are returned"
    )

    def needs(self, about):
        contexts, total = about.contexts, about.shapes[0]
        tokens, width = math.prod(contexts[:-1]), contexts[-1]
        vectors = self.evidence["vectors"] + self.evidence["of_queries"]["vectors"]
        digits = [len(x) for vector in vectors for x in vector]
        held = 64 * (tokens + total) * (width + 8) + 160 * len(digits) + 2 * sum(digits) + (8 << 20)
        return held, 100 * (tokens + total) * width + 1000 * len(digits)

    def check(self, about):
        evidence, data = self.evidence, about.data
        heads, inner, count = (evidence[name] for name in ("heads", "head_dim", "count"))
        require(all(type(x) is int and x > 0 for x in (heads, inner)), "H or d_h is not a number")
        tokens, ids, queries, number = chosen(evidence, data)
        width, outputs = about.shapes[2:4]
        vectors, zeros = triangular(evidence, width)
        require_orthogonal(vectors, zeros, tokens, ids)
        of_queries, none = triangular(evidence["of_queries"], width)
        require(none == len(of_queries), "a vector is not to be orthogonal to queries")
        require_orthogonal(of_queries, none, queries, np.arange(len(queries))[:, None])
        kappa = min(width - zeros, len(tokens))
        delta = min(width - len(vectors), len(tokens) - components(ids, len(tokens)))
        asked = min(width - len(of_queries), len(queries))
        rank = min(inner, delta, asked)
        each = np.array([len(np.unique(row)) for row in ids]) - 1  # differences of one context
        moved = np.minimum(outputs, heads * np.minimum(each, delta)).sum()
        moved = int(moved) * (count if len(ids) < count else 1)  # one context is of all
        bound = min(heads * rank * (delta + asked - rank), moved)
        bound += outputs * (kappa + (heads - 1) * delta)
        require(bound < number * outputs, f"{number * outputs} targets, and {bound} are possible")
        return heads, inner, number * outputs, number, bound
