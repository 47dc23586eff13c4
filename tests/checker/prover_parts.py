"""What certify makes of paired heads, step by step, under the names of `paired_parts`."""

import dataclasses

import numpy as np
from paired_parts import Steps, joined

from constructive import Dataset
from constructive.certificates.claims import paired, pairs
from constructive.exact import upward


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
