"""What a program of a model makes of logits, and what that makes of attention: for any view.

    eps = gamma_m |x|^T |W_K||W_Q|^T |e| + merging      logits, and l - max l; m: logit_steps

Attention a_j becomes a_j w_j / sum_i a_i w_i with all w in exp(+-eps), and so moves by a part
exp(2 eps) - 1 at most; or, where parts are merged by logsumexp, a_j w_j with all w in exp(+-2 eps).
Underflow takes less than 2^-120 from each path of indices.

Logits are exact, eps = 0, where tokens, queries, and W_Q and W_K of the head are multiples of
powers of two, and the sizes of all terms of each sum on the way, in its unit, make less than 2^24.
Where any arrays may be multiplied first, a sum of some factors over some indices is less, in its
own unit, than d^2 d_h times the product of all four largest entries in theirs.
"""

import math
from collections import namedtuple

import numpy as np

from bounds import granularity, up
from float_model import MODELS, exponents, gamma_of, logit_steps, stretch

SINGLE = MODELS["float32, pairwise"]  # the numbers of float32
SQUARINGS = 20
FINE = 2.0**-SQUARINGS

Format = namedtuple("Format", "bits least top")  # multiples of 2^least, up to the top
FLOAT32 = Format(SINGLE.bits, -126, SINGLE.top)
INTEGERS = Format(52, -900, 2.0**900)  # which float64 holds, sums of them included

# Tokens or queries: their unit 2^u; bounds of their entries; of each head those of sums of sizes
# with its weights (H, d_h) and with |W_K||W_Q|^T (H, d), and of what these weights make of them
Side = namedtuple("Side", "unit most read absorbed stored")


class Logits:
    """Of what logits of each head are multiples, and which sums before them are short.

    matrix: |W_Q||W_K|^T of each head (H, d, d), or more;  tokens, queries: a Side each
    """

    def __init__(self, weights, matrix, tokens, queries):
        w_q, w_k = (np.abs(weights[name].astype(np.float64)) for name in ("W_Q", "W_K"))
        self.heads, self.width, self.inner = w_q.shape
        self.sides = tokens, queries
        q, k = (np.array([granularity(head) for head in w]) for w in (w_q, w_k))
        (x, e), both = (side.unit for side in self.sides), q + k
        self.units, self.unit_of_each = x + e + both, (x, e, q, k)
        self.factors = [tokens.most.max(), queries.most.max(), w_q, w_k]
        self.sums = [
            (x, tokens.most), (e, queries.most), (q, w_q), (k, w_k), (both, matrix),
            (x + k, tokens.read), (e + q, queries.read),
            (x + both, tokens.absorbed), (e + both, queries.absorbed),
        ]  # fmt: skip
        self.stored = [
            (x, tokens.most), (e, queries.most), (x + k, tokens.stored), (e + q, queries.stored),
        ]  # fmt: skip

    def short(self, form):
        """Heads (H,) for which all sums before the logits are numbers of a format."""
        return self.all_held(self.sums, form)

    def all_held(self, sums, form):
        heads = np.ones(self.heads, dtype=bool)
        for unit, sizes in sums:
            whole = sizes.max() if sizes.ndim == 1 else sizes.reshape(self.heads, -1).max(axis=1)
            heads = heads & held(unit, whole, form)
        return heads

    def exact(self, model):
        """Heads of which no program of a model rounds a logit that float32 holds."""
        short = self.short(FLOAT32)
        if model.stored:
            kept = Format(model.bits, math.frexp(model.least)[1] - 1, model.top)
            short = short & self.all_held(self.stored, kept)
        if model.free:  # any of the factors first, over any of the indices
            tops = [x if np.ndim(x) == 0 else x.max(axis=(1, 2)) for x in self.factors]
            whole = up(tops[0] * tops[1] * tops[2] * tops[3] * float(self.width * self.width))
            short = short & held(self.units, up(whole * self.inner), FLOAT32)
            least = sum(np.minimum(unit, 0) for unit in self.unit_of_each)
            short = short & (least >= FLOAT32.least)
        return short & (not (model.constants or model.merged))

    def reach(self, model):
        """More than any path x^T W_K W_Q^T e, and than each of its factors."""
        tops = [max(1.0, float(x.max())) for x in self.factors]
        count = float(self.width * self.width * self.inner)
        return float(up(count * tops[0] * tops[1] * tops[2] * tops[3])) * stretch(model)

    def off(self, model, sizes, seen, ours=0.0):
        """eps, for sums of sizes of the terms of logits, and so many tokens.

        ours: by how large a part of these sizes the logits that are known are off
        """
        steps = gamma_of(model, logit_steps(model, self.width, self.inner)) + ours
        lost = up(2.0**-120 * (self.reach(model) + seen)) + exponents(model, seen)
        return up(steps * sizes + up(lost))


def held(units, sizes, form=FLOAT32):
    """Whether a format holds what is a multiple of 2^unit, up to a size; zero, or a normal number.

    The size is in range, so that its exponent is one.
    """
    short = (np.frexp(sizes)[1] - units <= form.bits) & (units >= form.least)
    return short & (sizes <= form.top)


def exponential(x):
    """Bounds of exp(x) for x >= 0, from below and above: the Nth power of 1 + x/N + (x/N)^2 / 2.

    What its terms leave out of exp(x / N) is a part of (x/N)^3 / 5 at most, for x < N / 10, so of
    the power exp(c) - 1, c = x^3 / (5 N^2), which is at most 2 c up to c = 1. Squaring, and what
    is squared, lose a part of 2^-30 together. An overflow is as it is from below: its reciprocal is
    zero, and `up` makes good what that leaves out.
    """
    small = x * FINE
    power = 1.0 + (small + small * small / 2.0)
    for _ in range(SQUARINGS):
        power = power * power
    left_out = small * small * small / (5.0 * FINE)
    most = np.where(left_out <= 1.0, power * (1.0 + 2.0 * left_out) * (1.0 + 2.0**-29), np.inf)
    return power * (1.0 - 2.0**-30), most


def softmax(logits):
    """Bounds of attention from above."""
    least, most = exponential(logits.max(axis=2, keepdims=True) - logits)
    return up(up(1.0 / least) / (1.0 / most).sum(axis=2, keepdims=True) * (1.0 + 2.0**-30))


def growth(x):
    """Bounds of exp(x) - 1. The series is x + x^2 / 2 and x^3 exp(x) / 6 at most."""
    large = up(exponential(x)[1] - 1.0)
    return np.where(x <= 2.0**-6, up(x + x * x / 2.0 + x * x * x / 2.0), large)
