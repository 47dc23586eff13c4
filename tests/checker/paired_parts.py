"""What the checker makes of paired heads, step by step."""

import copy
import dataclasses
from dataclasses import dataclass

import numpy as np

from constructive import Dataset, Memorizer, build_memorizer, generators
from constructive.certificates.claims import paired, pairs
from constructive.exact import upward


def small_pairs():
    """A memorizer of 4 pairs and its 13 examples, the last one of its own."""
    data = generators.gaussian(num_examples=13, context_size=3, width=5, seed=3)
    return build_memorizer(data, num_heads=8, construction="paired", seed=1), data


def strongly_coupled(sign=1, *, turned=False):
    """The same, but that all pairs but the first one look about.

    So two entries an example are beside the blocks, some nearly as large as what is in them. The
    heads and the key have this sign: scores, too, and what is read does not change. Or the query of
    the extra example is turned around, and all heads but those of pair 0: what they read there is
    at the other end than what pair 0 reads, and than what pair 0 reads of others.
    """
    memorizer, data = small_pairs()
    queries = sign * memorizer.layer.query_weights
    queries[2:] *= 0.05
    if turned:
        queries[2:] *= -1
        asked = data.queries.copy()
        asked[memorizer.record.order[-1]] *= -1
        data = Dataset(data.contexts, asked, data.targets)
    keys = sign * memorizer.layer.key_weights
    layer = dataclasses.replace(memorizer.layer, query_weights=queries, key_weights=keys)
    return Memorizer(layer, memorizer.record), data


@dataclass(frozen=True, eq=False)
class Steps:
    """Entries of X, at size one, for T examples in the order of P pairs.

    owner: (T',);  own (T', d), own_error (T',);  extra: tokens (n, d) of the last example
    at, pairs: (m,), coupled (m, d), coupled_error (m,)
    largest, tail, scores, score_error: by example;  key (d,);  first, both: readouts (P, d)
    exponent: contexts are divided by two to this power
    second: what the second head of pair 0 adds, its size and what its errors add (3, T)
    """

    raw: object
    memorizer: Memorizer
    owner: np.ndarray
    own: np.ndarray
    own_error: np.ndarray
    at: np.ndarray
    pairs: np.ndarray
    coupled: np.ndarray
    coupled_error: np.ndarray
    extra: np.ndarray
    largest: np.ndarray
    tail: np.ndarray
    scores: np.ndarray
    score_error: np.ndarray
    key: np.ndarray
    exponent: int
    first: np.ndarray
    both: np.ndarray
    second: np.ndarray

    @property
    def total(self):
        return len(self.largest)


def joined(blocks, direction, sizes):
    """R as (P + 1, d, T): the right inverse of each block, and where the extra token is read."""
    r = np.zeros((len(sizes) + 1, len(direction), sum(sizes) + 1))
    for pair, (stop, block) in enumerate(zip(np.cumsum(sizes), blocks, strict=True)):
        r[pair][:, stop - sizes[pair] : stop] = block
    r[-1, :, -1] = direction
    return r


class OfChecker:
    """Its blocks, residuals and attention."""

    refusal, most = ValueError, 5

    def __init__(self, checker):
        self.paired = checker.paired
        self.gamma, self.margin = checker.bounds.gamma, checker.paired.NATS

    def attention(self, high, low, off, scores, low_scores, errors):
        numbers, parts = self.paired.Pairs(None), self.paired.Parts
        reach = parts(high[..., None], low[..., None], off)
        scores = parts(scores[:, None], low_scores[:, None], errors)
        return numbers.softmax(numbers.product(reach, scores), None)

    def tail(self, tokens):
        return 2 * tokens * self.paired.LEFT

    def rounding(self, tokens):
        return self.gamma(tokens + 5)

    def alone(self, tokens):
        return 2 * (5 * tokens * self.paired.LEFT + self.rounding(tokens))

    def examples(self, reaches, scores, lengths=(1.0,)):
        """Pairs of heads which reach so far at a query of length 1; T examples of these lengths."""
        total, pairs = len(lengths), len(reaches)
        contexts, queries = np.zeros((total, len(scores), 2)), np.zeros((total, 2))
        contexts[:, :, 0], queries[:, 1] = scores, lengths
        keys, heads = np.zeros((2, 2 * pairs, 2, 1))
        keys[:, 0] = 1.0
        heads[:, 1, 0] = np.reshape(reaches, -1)
        weights = {
            "W_Q": heads,
            "W_K": keys,
            "W_V": np.zeros((2 * pairs, 2, 1)),
            "W_O": np.ones((2 * pairs, 1)),
            "W_D": np.ones((1, 1)),
        }
        data = {"contexts": contexts, "queries": queries, "targets": np.zeros(total)}
        layer = self.paired.Layer(weights, data, np.arange(total), np.zeros(pairs, dtype=np.int64))
        return self.paired.Scan(layer)

    def unlike(self, scan, owner=(), score_error=None):
        scan = copy.copy(scan)
        scan.layer = copy.copy(scan.layer)
        scan.layer.owner = np.array(owner, dtype=np.int64)
        if score_error is not None:
            scan.score_error = np.array(score_error)
        with np.errstate(all="ignore"):
            return scan.unlike()

    def steps(self, memorizer, data):
        layer = self.paired.Layer(
            memorizer.layer.tensors,
            {"contexts": data.contexts, "queries": data.queries, "targets": data.targets},
            np.array(memorizer.record.order),
            np.array([head.stop for head in memorizer.record.heads[1::2]]),
        )
        with np.errstate(all="ignore"):
            scan = self.paired.Scan(layer)
            at, pairs = scan.unlike()
        tokens = self.paired.Tokens(layer, np.arange(len(layer.order)))
        return Steps(
            scan, memorizer,
            layer.owner, *scan.own,
            at, pairs, *layer.read(at, pairs, (1.0, -1.0)),
            tokens.x[-1],
            scan.largest, scan.tail, tokens.scores, scan.score_error, layer.key, layer.a,
            layer.first[:, :, 0], layer.both[:, :, 0], scan.second[0, 0],
        )  # fmt: skip

    def read(self, steps, at, pairs, signs):
        return steps.raw.layer.read(at, pairs, signs)

    def parts(self, steps):
        scan = copy.copy(steps.raw)
        scan.own, scan.tail = (steps.own, steps.own_error), steps.tail
        scan.second = steps.second[None, None]
        return scan, (steps.at, steps.pairs, steps.coupled, steps.coupled_error)

    def bound(self, steps):
        return self.paired.Blocks(*self.parts(steps))

    def right_inverse(self, steps):
        bound, sizes = self.bound(steps), np.bincount(steps.owner).tolist()
        blocks = [None] * len(sizes)
        for rows, _, inverses, *_ in bound.parts:
            for columns, block in zip(rows, inverses, strict=True):
                blocks[steps.owner[columns[0]]] = block
        return joined(blocks, bound.token, sizes)

    def reach(self, steps, weights):
        return self.bound(steps).reach(weights)

    def weights(self, steps):
        return next(self.bound(steps).solutions())

    def solve(self, matrix):
        return next(self.paired.Blocks.solutions(matrix), None)

    def distances(self, steps):
        return self.paired.residuals(*self.parts(steps))[:, 0]

    def farther(self, steps, distance):
        scan = copy.copy(steps.raw)
        scan.layer = copy.copy(scan.layer)
        scan.layer.targets = scan.layer.targets + distance
        return dataclasses.replace(steps, raw=scan)


# What certify makes of paired heads, step by step, under the names of `paired_parts`.


class OfCertify:
    """What `certificates.claims.paired` has."""

    refusal, most, margin = pairs.UndecidedError, 4, pairs.MARGIN

    def attention(self, high, low, off, scores, low_scores, errors):
        reach = high, low, np.full_like(high, off)
        return pairs.bounded_attention(reach, scores, low_scores, np.reshape(errors, -1))

    def tail(self, tokens):
        return 2 * (tokens - 1) * pairs.TAIL

    def rounding(self, tokens):
        return upward.gamma(tokens + 4)

    def alone(self, tokens):
        return 2 * (4.1 * (tokens - 1) * pairs.TAIL + self.rounding(tokens))

    def examples(self, reaches, scores, lengths=(1.0,)):
        total, count = len(lengths), len(reaches)
        contexts, queries = np.zeros((total, len(scores), 2)), np.zeros((total, 2))
        contexts[:, :, 0], queries[:, 1] = scores, lengths
        heads = np.zeros((2, count, 2))
        heads[:, :, 1] = 4 * np.array(reaches, dtype=float).T  # of queries divided by 4
        read = pairs.Examples(
            dataset=Dataset(contexts, queries, np.zeros(total)),
            exponent=0,
            order=np.arange(total),
            stops=np.zeros(count, dtype=np.int64),
            queries=queries / 4,
            query_weights=heads,
            key=np.array([1.0, 0.0]),
        )
        return read, pairs.Scan.of(read, None)

    def unlike(self, given, owner=(), score_error=None):
        read, found = given
        if score_error is not None:
            found = dataclasses.replace(found, score_error=np.array(score_error))
        with np.errstate(all="ignore"):
            return pairs.coupled_entries(read, np.array(owner, dtype=np.int64), found, None)

    def steps(self, memorizer, data):
        read = pairs.Examples.of(memorizer, data)
        used = pairs.Readouts.of(read, memorizer)
        seen = pairs.Scan.of(read, used.unlike)
        found = pairs.evaluate(read, seen)
        tokens = pairs.Tokens.of(read, np.arange(data.num_examples))
        return Steps(
            (read, used), memorizer,
            read.owner, found.own, found.own_error,
            found.positions, found.pairs, found.coupled, found.coupled_error,
            tokens.contexts[-1],
            found.largest, found.tail, tokens.scores, seen.score_error, read.key, read.exponent,
            used.first[:, :, 0], used.both[:, :, 0], np.array(seen.second)[:, :, 0],
        )  # fmt: skip

    def read(self, steps, at, which, signs):
        return pairs.read(steps.raw[0], at, which, signs)

    def parts(self, steps):
        return steps.raw[0], pairs.Entries(
            steps.own, steps.own_error, steps.at, steps.pairs, steps.coupled, steps.coupled_error,
            steps.tail, steps.largest,
        )  # fmt: skip

    def bound(self, steps):
        return paired.Coupling(*self.parts(steps))

    def right_inverse(self, steps):
        blocks = [block for *_, run in self.bound(steps).runs for block in run]
        _, direction = paired.extra_token(steps.raw[0])
        return joined(blocks, direction, np.bincount(steps.owner).tolist())

    def reach(self, steps, weights):
        return paired.spread_of(self.bound(steps), weights)

    def weights(self, steps):
        found = paired.bound_inverse(*self.parts(steps))
        return found.weights, found.contraction

    def solve(self, matrix):
        return paired.contracting(matrix, len(matrix.matrix))

    def distances(self, steps):
        second = pairs.Terms(*steps.second[:, :, np.newaxis])
        return paired.residuals_of(*self.parts(steps), second, steps.raw[1]).bounds[:, 0]

    def farther(self, steps, distance):
        read, used = steps.raw
        used = dataclasses.replace(used, targets=used.targets + distance)
        return dataclasses.replace(steps, raw=(read, used))
