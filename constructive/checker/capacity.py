"""Claims about all weights of some heads: *impossible*, *almost_impossible* and *onto*.

Heads that are chosen before the targets are *fixed*: of them only rows of Z matter (*impossible*).
*Free* heads may depend on the targets, and then the derivative of outputs in all weights matters
(proofs/24-free-heads.md): if it has as many dimensions as there are targets at weights where all
outputs are zero, then for all targets some weights near these return them, with large readouts
(*onto*); and if it has fewer at all weights, almost no targets are returned by any
(*almost_impossible*).
"""

import math

import numpy as np

from .attend import Examples, Heads, attend
from .bounds import chunks, entries
from .claim import Claim, Shown
from .files import require, unpack
from .modular import (
    Residues,
    inverses,
    reduce,
    require_nonsingular,
    require_prime,
    residues,
    times,
)
from .pieces import in_pieces
from .rank import CHUNK, at_once

# *impossible*: examples J whose rows of Z have too small a rank for all W_Q and W_K. So
# whichever are chosen, some targets have no readout; which ones depends on W_Q and W_K.
#
# Attention weights add up to one, so head 1 puts out an average r_t of the tokens of example t,
# and another head r_t + v with v in the span of differences of these tokens. So rows of J have
# rank kappa + (H - 1) delta at most, where the tokens of J span kappa dimensions at most, and
# differences of tokens of one context delta. Both have bounds by vectors which are orthogonal to
# them, and by counting: tokens of a part of the vocabulary which contexts connect differ by one
# dimension less than there are.

OPERATIONS = 1e11  # which products with long vectors may take, a minute or so
SMALLEST, LARGEST = 1 << 21, 1 << 22  # moduli of these products


def spanned(evidence, data):
    """What tokens and differences of examples J span at most, and what else is known of J.

    That is kappa and delta, the different tokens, which of them each context has, the different
    queries, and how many different examples there are.
    """
    count, (total, width) = evidence["count"], data["queries"].shape
    require(type(count) is int and 0 < count <= total, "J is not a set of examples")
    chosen = unpack(evidence["examples"], (count,), total)
    require((np.diff(chosen) > 0).all(), "J is not increasing")
    contexts = data["contexts"][chosen] if data["contexts"].ndim == 3 else data["contexts"][None]
    tokens, ids = different(contexts.reshape(-1, width))
    ids = ids.reshape(contexts.shape[:2])
    vectors, zeros = triangular(evidence, width)
    require_orthogonal(vectors, zeros, tokens, ids)
    kappa = min(width - zeros, len(tokens))
    delta = min(width - len(vectors), len(tokens) - components(ids, len(tokens)))
    queries, asked = different(data["queries"][chosen])
    lengths = data["lengths"][chosen] if "lengths" in data else None
    return kappa, delta, ids, queries, len(np.unique(inputs(ids, asked, lengths)))


def needs_of(about, vectors):
    """Rows of tokens and of queries, which are sorted, and vectors of Python's integers."""
    contexts, total = about.contexts, about.shapes[0]
    tokens, width = math.prod(contexts[:-1]), contexts[-1]
    digits = [len(x) for vector in vectors for x in vector]
    held = 64 * (tokens + total) * (width + 8) + 160 * len(digits) + 2 * sum(digits) + (8 << 20)
    return held, 100 * (tokens + total) * width + 1000 * len(digits)


def require_sizes(*sizes):
    require(
        all(type(x) is int and x > 0 for x in sizes), "H, d_h or a group is not a number of heads"
    )


class Impossible(Claim):
    """More different examples than rows of J can be independent for any W_Q and W_K."""

    name, of_weights = "impossible", False
    statement = (
        "for all W_Q and W_K of H = {} heads rank Z <= {} on {} different examples: "
        "whichever are chosen, some targets have no readout"
    )
    unshown = "whichever W_Q and W_K are chosen, some targets have no readout"

    def needs(self, about):
        return needs_of(about, self.evidence["vectors"])

    def check(self, about):
        heads = self.evidence["heads"]
        require_sizes(heads)
        kappa, delta, *_, number = spanned(self.evidence, about.data)
        bound = kappa + (heads - 1) * delta
        require(number > bound, f"{number} different examples, and {bound} are possible")
        return Shown((heads, bound, number), f"tokens span {kappa}, their differences {delta}")


class AlmostImpossible(Claim):
    """Outputs on examples J move in fewer dimensions than they have, at all weights.

    The attention of a head is moved by a form on (differences of tokens) x (queries), of rank d_h
    at most, and moves outputs of an example within what readouts make of differences of its tokens.
    Readouts move outputs in as many dimensions as rows of Z have rank, times d_out.
    """

    name, of_weights, of_lengths = "almost_impossible", False, True
    statement = (
        "at all weights of H = {} heads with d_h = {} the derivative of {} outputs, on {} "
        "different examples, has rank {} at most: almost no targets of these are returned by any "
        "weights"
    )
    unshown = "almost no targets of these examples are returned by any weights of these heads"

    def needs(self, about):
        return needs_of(about, self.evidence["vectors"] + self.evidence["of_queries"]["vectors"])

    def check(self, about):
        evidence, (width, outputs) = self.evidence, about.shapes[2:4]
        heads, inner = evidence["heads"], evidence["head_dim"]
        require_sizes(heads, inner)
        kappa, delta, ids, queries, number = spanned(evidence, about.data)
        vectors, zeros = triangular(evidence["of_queries"], width)
        require(zeros == len(vectors), "a vector is not to be orthogonal to queries")
        require_orthogonal(vectors, zeros, queries, np.arange(len(queries))[:, None])
        asked = min(width - len(vectors), len(queries))
        rank = min(inner, delta, asked)
        own = np.array([len(np.unique(row)) for row in ids]) - 1  # dimensions of differences
        moved = np.minimum(outputs, min(heads, outputs) * np.minimum(own, delta)).sum()
        moved = int(moved) * (evidence["count"] if len(ids) == 1 else 1)  # one context of all
        bound = min(heads * rank * (delta + asked - rank), moved)
        bound += outputs * (kappa + (heads - 1) * delta)
        require(bound < number * outputs, f"{number * outputs} outputs, and {bound} are possible")
        detail = f"tokens span {kappa}, their differences {delta}, and queries {asked}"
        return Shown((heads, inner, number * outputs, number, bound), detail)


OF_POINT = 1 << 20  # above all integers of a zero point
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
        "for all Y of T = {} targets with d_out = {}, some weights of H = {} heads with d_h = {} "
        "and d_v = d_out return Y exactly on these examples"
    )
    unshown = "for all Y some weights of these heads return Y exactly on these examples"

    def needs(self, about):
        total, size, width, outputs = about.shapes[:4]
        rows, heads = total * outputs, sum(self.evidence["groups"])
        held = at_once((total, size, width, outputs, heads, width)) + 8 * (rows * (rows + 4096))
        held += 8 * 4 * heads * width * self.evidence["head_dim"] + needs_of(about, [])[0]
        return held + 32 * COLUMNS, rows**2 * heads * (4 * width) + rows**3

    def check(self, about):
        width, outputs = about.shapes[2:4]
        evidence = self.evidence
        groups, inner = evidence["groups"], evidence["head_dim"]
        require(isinstance(groups, list) and groups, "there are no groups")
        require_sizes(*groups, inner)
        p, a = require_prime(evidence["prime"]), evidence["value"]
        require(type(a) is int and 1 < a < p, "a is not between 1 and p")
        base, data = zero_point(evidence, width, outputs), distinct(about.data)[0]
        total = len(data["queries"])
        rows = derivative(base, data, (p, a), about.tell)
        about.tell("eliminate the derivative modulo p", 0, 1)
        require_nonsingular(rows, p, about.tell)
        detail = f"rank {total * outputs} modulo {p} at a zero point of {len(groups)} groups"
        return Shown((total, outputs, sum(groups), inner), detail)


def zero_point(evidence, width, outputs):
    """W_Q (H, d, d_h), W_K, readouts (H, d, d_out), and slices of groups: integers, in floats."""
    sizes, inner, uniform = evidence["groups"], evidence["head_dim"], evidence["uniform"]
    require(type(uniform) is bool, "`uniform` is neither true nor false")
    heads, equal = sum(sizes), len(sizes) - uniform
    asked = unpack(evidence["query"], (equal + sizes[0] * uniform, width, inner), OF_POINT)
    keys = unpack(evidence["key"], (equal, width, inner), OF_POINT)
    free = unpack(evidence["readout"], (heads - len(sizes), width, outputs), OF_POINT)
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
    p, (_, width, outputs) = point[0], readout.shape
    firsts = [group.start for group in groups]
    units = entries(*data["contexts"].shape[-2:], len(groups), query.shape[2])
    view = Examples(data, chunks(len(data["queries"]), units, CHUNK))
    numbers = Residues(view, *point)
    attended = Heads(numbers, {"W_Q": query[firsts], "W_K": key[firsts]})
    of_queries = residues(view.queries, p)
    q, k, v = (reduce(np.ascontiguousarray(x), p) for x in (query, key, readout))
    total = view.total
    out = np.zeros((total, outputs, total * outputs))
    # What is drawn is one matrix for all rows: pieces of it do not depend on which rows they are.
    pieces = chunks(out.shape[2], max(1, CHUNK // units) * (outputs + 2) * 4, COLUMNS)

    def one(part):
        for group, _, tokens, (powers, sums) in attend(numbers, attended, part):
            tell("derivative modulo p", group.rows.start, total)
            shares = reduce(powers * inverses(sums, p)[..., None], p)
            asked = of_queries(group.queries)[0]
            for columns in pieces:
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


# What tokens are, and what they span.


def different(rows):
    """The different rows, with no sign at zeros, and which of them each one is: by their bytes."""
    plain = np.ascontiguousarray(rows.astype(np.float64) + 0.0)
    whole = plain.view(np.dtype((np.void, 8 * plain.shape[1]))).reshape(-1)
    _, first, ids = np.unique(whole, return_index=True, return_inverse=True)
    return plain[first], ids.reshape(-1)


def inputs(ids, asked, lengths=None):
    """Numbers of inputs: one has the same query and, of contexts of their own, the same tokens.

    At all weights outputs of one input are equal, in whichever order its tokens are.
    """
    if len(ids) == 1:
        return asked
    tokens = np.sort(ids, axis=1) if lengths is None else shares(ids, lengths)
    return different(np.concatenate([asked[:, None], tokens], axis=1))[1]


def distinct(data):
    """The data with the first example of each input; and of each example which of these it is."""
    contexts, width = data["contexts"], data["contexts"].shape[-1]
    ids = different(contexts.reshape(-1, width))[1].reshape(-1, contexts.shape[-2])
    asked = different(data["queries"])[1]
    own = contexts.ndim == 3
    found = inputs(ids, asked, data.get("lengths")) if own else asked
    first, of_each = np.unique(found, return_index=True, return_inverse=True)[1:]
    if len(first) == len(found):
        return data, np.arange(len(found))
    kept = {name: x if name == "contexts" and not own else x[first] for name, x in data.items()}
    return kept, of_each


def shares(ids, counts):
    """Rows, equal where tokens occur in the same proportions among the first ones of a context."""
    out = np.full(ids.shape, -1)
    for row, own, count in zip(out, ids, counts, strict=True):
        known, times = np.unique(own[: int(count)], return_counts=True)
        found = np.repeat(known, times // np.gcd.reduce(times))
        row[: len(found)] = found
    return out


def components(ids, total):
    """Into how many parts the tokens fall, if those of one context are together."""
    label = np.arange(total)
    while True:
        roots = label[ids]
        new = label.copy()  # labels are of the least token known; these join, and then jump
        np.minimum.at(new, roots, np.broadcast_to(roots.min(axis=1)[:, None], ids.shape))
        while (new[new] != new).any():
            new = new[new]
        if (new == label).all():
            return len(np.unique(label))
        label = new


def triangular(evidence, width):
    """Integer vectors, independent as each has an entry which is zero in all later ones."""
    vectors = [[int(x, 16) for x in vector] for vector in evidence["vectors"]]
    pivots, zeros = evidence["pivots"], evidence["zeros"]
    require(len(pivots) == len(vectors) <= width, "the vectors have other pivots")
    require(type(zeros) is int and 0 <= zeros <= len(vectors), "`zeros` is not a number of vectors")
    require(all(len(vector) == width for vector in vectors), "a vector has another length")
    for i, pivot in enumerate(pivots):
        require(type(pivot) is int and 0 <= pivot < width, "a pivot is not a place")
        alone = vectors[i][pivot] and not any(vector[pivot] for vector in vectors[i + 1 :])
        require(alone, "the vectors are not triangular")
    return vectors, zeros


def require_orthogonal(vectors, zeros, tokens, ids):
    """Products with tokens are 0 for the first `zeros` vectors, and constant in each context.

    As integers: what is 0 modulo moduli without a common factor is 0, if it is less than their
    product.
    """
    if not vectors:
        return
    span = reach(tokens)
    bits = max(x.bit_length() for vector in vectors for x in vector)
    bits += span + tokens.shape[1].bit_length() + 1
    moduli = primes()[: -(-bits // (SMALLEST.bit_length() - 1))]
    entries = len(vectors) * tokens.shape[1]
    each = tokens.size * (len(vectors) + 40) + entries * (500 + bits / 4)
    cost = len(moduli) * (each + 500 * span)  # with tables of powers of two
    enough = len(moduli) * (SMALLEST.bit_length() - 1) >= bits
    require(enough and cost <= OPERATIONS, "numbers so long would take more than a minute")
    for p in moduli.tolist():
        whole = residues(tokens, p)(tokens)[0]
        columns = np.array([[x % p for x in vector] for vector in vectors], dtype=np.float64)
        products = times(whole, reduce(np.ascontiguousarray(columns.T), p), p)
        products -= p * np.floor(products / p)  # balanced residues are not unique
        require(not products[:, :zeros].any(), "a vector is not orthogonal to a token")
        each = products[ids]
        require((each == each[:, :1]).all(), "a vector is not constant within a context")


def reach(tokens):
    """Bits of the integers which tokens are, times one power of two."""
    mantissas, places = np.frexp(tokens)
    lowest = int(places.min(where=mantissas != 0, initial=2000))
    highest = int(places.max(where=mantissas != 0, initial=-2000))
    return 53 + max(highest - lowest, 0)


def primes():
    """All primes between the smallest and the largest modulus."""
    sieve = np.ones(LARGEST, dtype=bool)
    for k in range(2, 1 << 11):
        if sieve[k]:
            sieve[k * k :: k] = False
    return SMALLEST + np.flatnonzero(sieve[SMALLEST:])
