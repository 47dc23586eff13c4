"""Bounds of decoders against evaluations which round as badly as the model lets them.

The checker's own bounds, of outputs and of logits, at every position: an evaluation in float32 (or
with fewer bits in storage) which chooses the order of its sums, the errors of exp, the blocks of
softmax and what underflows must not pass them. With 512 tokens in a block, and 2^-126 for the
smallest number, hardly anything would be seen; so the model has others.
"""

import itertools

import numpy as np
import pytest

from constructive.exact.models import FLOAT32

BLOCK, SMALL = 3, 2.0**-24
SIZE = {"count": 14, "width": 5, "heads": 2, "outputs": 3, "tokens": 4}


class Evaluation:
    """Float32 arithmetic with choices, made at random or so that it goes far off."""

    def __init__(self, rng, model, *, flush, order):
        self.rng, self.model, self.flush, self.order = rng, model, flush, order

    def kept(self, x):
        x = np.float32(x)
        return np.where(np.abs(x) < self.model.small, np.float32(0), x) if self.flush else x

    def stored(self, x):
        if self.model.stored == 2.0**-11:
            return np.float32(np.float16(x))
        if self.model.stored == 2.0**-8:
            bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
            even = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
            return (even & np.uint32(0xFFFF0000)).view(np.float32)
        return x

    def sum(self, terms):
        """Along the first axis."""
        terms = list(terms)
        if self.order == "random":
            self.rng.shuffle(terms)
        elif self.order == "tree":
            while len(terms) > 1:
                pairs = itertools.zip_longest(terms[::2], terms[1::2], fillvalue=np.float32(0))
                terms = [self.kept(a + b) for a, b in pairs]
        elif self.order == "large first":
            terms.sort(key=lambda term: -float(np.abs(term).max()))
        total = terms[0]
        for term in terms[1:]:
            total = self.kept(total + term)
        return total

    def products(self, a, b):
        """Of the last axis of a and the first of b."""
        terms = [self.kept(self.kept(a[..., k, None]) * self.kept(b[k])) for k in range(len(b))]
        return self.sum(terms)

    def exp(self, x, sign):
        true = np.exp(np.float64(x))
        off = true * (1 + 0.98 * self.model.exp * sign)
        off = np.where(np.float64(x) == 0, 1.0, off)
        low = true < self.model.small
        return np.float32(np.where(low, 2 * self.model.small * (sign > 0), off))

    def average(self, logits, tokens, sign, *, begin, late):
        """Softmax of (n,) logits, in blocks of which the first one is cut off, and its average."""
        count, largest, numerator, denominator = len(logits), None, None, None
        stops = [*range(begin, count, BLOCK), count] if begin else [count]
        start = 0
        for stop in stops:
            here = slice(start, stop)
            start = stop
            new = logits[here].max() if largest is None else max(largest, logits[here].max())
            e = self.exp(logits[here] - new, sign[here])
            each = self.kept(self.stored(e)[:, None] * tokens[here]) if late else None
            sums = self.sum(e), self.sum(each) if late else e
            if largest is None:
                denominator, numerator = sums
            else:
                scale = self.exp(np.float32(largest - new), 1.0)  # what came first grows
                denominator = self.kept(self.kept(denominator * scale) + sums[0])
                old = self.kept(numerator * scale)
                numerator = self.kept(old + sums[1]) if late else np.concatenate([old, sums[1]])
            largest = new
        if late:
            return self.stored(self.kept(numerator / denominator))
        weights = self.stored(self.kept(numerator / denominator))
        return self.stored(self.sum(self.kept(weights[:, None] * tokens)))


def case(rng, scale):
    """Tokens, exact logits of heads, a readout, and an unembedding.

    Logits grow, so that blocks are rescaled, and what tokens give to the first output gets less.
    """
    count, width, heads = SIZE["count"], SIZE["width"], SIZE["heads"]
    u = rng.normal(size=((heads + 1) * width, SIZE["outputs"]))
    u[:width] *= rng.choice([0.0, 1.0])
    tokens = rng.integers(-2, 3, size=(count, width)) * scale
    tokens = tokens[np.argsort(-(tokens @ u[width : 2 * width, 0]))]
    logits = np.sort(rng.integers(-8, 1, size=(heads, count)) * rng.choice([0.0, 0.125, 2.0]))
    o = rng.normal(size=(SIZE["tokens"], SIZE["outputs"]))
    return [x.astype(np.float32) for x in (tokens, logits, u, o)]


@pytest.mark.parametrize("storage", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("flush", [False, True])
def test_no_evaluation_passes_the_bounds(checker, storage, flush):
    parts, models = checker.margins, checker.float_model.MODELS
    rng, worst = np.random.default_rng(7), 0.0
    small = SMALL if flush else 2.0**-126
    model = models[f"{storage}, pairwise"]._replace(block=BLOCK, small=small)
    for trial in range(60):
        order = ("given", "random", "tree", "large first")[trial % 4]
        run = Evaluation(rng, model, flush=flush, order=order)
        x, logits, u, o = case(rng, (1.0, 2.0**-10, 2.0**6)[trial % 3])
        u, o = run.stored(u), run.stored(o)
        own, count = x[-1].astype(np.float64), np.array([float(len(x))])
        weights = np.exp(logits.astype(np.float64))
        weights /= weights.sum(axis=1, keepdims=True)
        z = np.concatenate([own, (weights @ x.astype(np.float64)).ravel()])
        sizes = np.concatenate([np.abs(own), (weights @ np.abs(x.astype(np.float64))).ravel()])
        reads = [w.astype(np.float64) for w in (u, o.T)]
        readouts = parts.Readouts(reads[0], np.abs(reads[0]), reads[1], np.abs(reads[1]))
        spread = parts.up(sizes[None] @ readouts.u_sizes)
        largest = max(1.0, float(np.abs(x).max()))
        few = weights >= parts.LARGE
        rest = np.where(few, 0.0, weights).sum(axis=1)[None] * (1 + 2.0**-40)
        attended = parts.Attended(sizes[None], count, few.sum(axis=1)[None], rest, largest, 0.0)
        bound = parts.output_errors(model, readouts, spread, attended)
        reach = np.abs(z @ reads[0])[None]
        bound = bound + model.stored * (reach + bound) + model.tiny
        final = parts.logit_errors(model, readouts, reach, bound)
        heads = []
        for k in range(len(logits)):
            sign = np.sign(x @ u[(k + 1) * x.shape[1] : (k + 2) * x.shape[1], 0] + 1e-3)
            begin = int(rng.integers(BLOCK + 1))
            heads.append(run.average(logits[k], x, sign, begin=begin, late=trial % 5 < 3))
        f = run.stored(run.products(np.concatenate([x[-1], *heads])[None], u))
        last = run.stored(run.products(f, o.T))
        for found, true, most in ((f, z @ reads[0], bound), (last, z @ reads[0] @ reads[1], final)):
            share = np.abs(found.astype(np.float64) - true) / most
            worst = max(worst, float(share.max()))
    assert worst < 1.0
    assert worst > 0.005  # what is never approached tests nothing


def test_blocks_begin_anywhere(checker):
    """Two tokens may be in two blocks, as may 513, and then terms have two exponentials each."""
    parts, counts = checker.margins, [1, 2, 513, 514]
    model = checker.float_model.MODELS["float32, pairwise"]
    head = np.array([[0.0], [1.0]])
    one, seen = parts.Readouts(head, head, None, None), np.array(counts, dtype=float)
    every = seen[:, None], np.zeros((4, 1))  # all have much weight
    attended = parts.Attended(np.ones((4, 2)), seen, *every, 1.0, 0.0)
    errors = parts.output_errors(model, one, np.ones((4, 1)), attended)[:, 0]
    for found in (errors, FLOAT32.average(counts)):
        assert found[0] < 3 * model.exp
        assert found[1] > 4 * model.exp
        assert found[2] - found[1] < 2 * 520 * model.unit
        assert found[3] - found[2] > 2 * model.exp
