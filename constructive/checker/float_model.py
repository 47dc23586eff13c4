"""What a program may do that evaluates attention in floating point: its bounds, and its words.

Higham, Accuracy and Stability of Numerical Algorithms, 3.1, and for softmax of n exact logits

    eta  = t / (1 - t),  t = B (exp + u),  B = 1 + ceil((n - 1) / block)     a term, before its sum
    beta = (1 + eta) (1 + gamma_n) - 1
    rho  = (1 + u)^2 (1 + s)^2 / (1 - s) - 1      s: storage of terms and averages, terms summed so
    zeta = (2 beta + rho + beta rho) / (1 - beta)                     averages: zeta sum a_j |x_j|

Where all but m tokens have the weight tau together, a sum in any order, to nearest, is off by
(1 + gamma_n) (m u + (1 + n u) tau) at most: an addition is off by no more than either operand,
and only m - 1 of them have large terms on both sides.

Blocks of softmax begin anywhere. Numerators are in range where n max |x| (1 + zeta) is. Where parts
are merged by logsumexp, sums are nested twice: n, m, tau, B + 1 and the roundings of rho double,
and exponents are off by 6 u (a bound of logits) + 5 u log n + 2 exp (1 + log n) more.

A contraction of m arrays rounds a path, a choice of all indices, m - 1 times as it multiplies, and
less often than its indices have choices together as it adds. Pairwise, each of the sums is over one
index, or over heads with entries or with values. If any arrays may be contracted over any indices
at once, one sum over all of them is the worst.
"""

import math
from collections import namedtuple

import numpy as np

from .bounds import granularity, up

MOST = 1 << 20  # terms of a sum
ULPS, SCALES = 32, 8

# unit, error of exp, block of softmax, smallest normal, largest;
# of storage: name, unit, tiny, bits, smallest normal, largest;
# whether any arrays may be contracted at once, roundings by constants, whether parts are merged;
# what factors of products are rounded to: a name, bits and the largest number, or None
Model = namedtuple(
    "Model",
    "unit exp block small overflow kept stored tiny bits least top free constants merged factors",
    defaults=[None],
)
TOP = (2.0 - 2.0**-23) * 2.0**127
KEPT = {
    "float32": ("float32", 0.0, 0.0, 24, 2.0**-126, TOP),
    "bfloat16": ("bfloat16", 2.0**-8, 2.0**-126, 8, 2.0**-126, (2.0 - 2.0**-7) * 2.0**127),
    "float16": ("float16", 2.0**-11, 2.0**-25, 11, 2.0**-14, 65504.0),
}


def row(kept, block, free=False, constants=0, merged=False):
    sums = 2.0**-24, 2.0 * ULPS * 2.0**-24, block, 2.0**-126, TOP
    return Model(*sums, *KEPT[kept], free, constants, merged)


MODELS = {
    "float32, any contraction": row("float32", 16, free=True),
    "float32, scaled": row("float32", 16, constants=SCALES, merged=True),
}
for kept in KEPT:
    MODELS[f"{kept}, pairwise"] = row(kept, 512)
    MODELS[f"{kept}, pairwise, blocks of 16"] = row(kept, 16)
# Of decoders of integers only (integers).
FACTORS = {
    "TF32": (11, (2.0 - 2.0**-10) * 2.0**127),
    "bfloat16": (8, (2.0 - 2.0**-7) * 2.0**127),
    "float16": (11, 65504.0),
}
INTEGER_MODELS = {
    f"float32, {name} products": row("float32", 16)._replace(factors=(name, *form))
    for name, form in FACTORS.items()
}
# What this program does itself: exponentials are those of a table.
FLOAT64 = Model(
    2.0**-53, 2.0**-51, MOST, 2.0**-1022, 2.0**1023,
    "float64", 0, 0, 53, 2.0**-1022, 2.0**1023, False, 0, False,
)  # fmt: skip

PAIRS = "products of two arrays at a time, each summed over one index"
ANY = "products of any number of arrays, summed over any number of indices at once, in any order"


def of_decoders(model):
    """What a program is that evaluates a decoder."""
    matrix = "" if model.factors else ", or their matrix first"
    order = f"{PAIRS} (queries and keys first{matrix}; heads together with entries of tokens, "
    order += "never with tokens; averages before the readout, and that before the unembedding)"
    once = "each logit of a head computed once"
    return "; ".join([once, ANY if model.free else order, *steps_of(model)])


def steps_of(model):
    """How it sums, stores, scales and averages."""
    words = [
        "sums in float32, in any order, rounding to nearest, with or without fused multiply-add"
    ]
    if model.factors:
        name = model.factors[0]
        words += [
            f"factors of all products rounded to {name} first, but those of outputs with the "
            f"unembedding and those that rescale sums; a readout that {name} does not hold in two "
            "parts, 128 times U / 128 rounded to integers, and the rest",
            "tokens that a position does not see have no logit, or one of -2^24 or less",
        ]
    if model.stored:
        gradual = ", where underflow is gradual" if model.tiny < model.least else ""
        words += [
            "tokens, queries, keys, either exponentials or attention weights, averages, outputs of "
            f"the layer and the last logits stored in {model.kept}{gradual}",
            "logits of heads, the product of W_K and W_Q and its products, denominators, and "
            "factors that rescale sums in float32",
        ]
    if model.constants:
        words.append(
            f"constants scale W_Q, queries, keys, logits or exponents, in {model.constants} "
            "roundings at most, and their product is 1 (log2 e for exp2), and from "
            f"{power(1.0 / stretch(model))} to {power(stretch(model))} on the way"
        )
    words.append(
        f"softmax less the largest logit so far, in one piece or in blocks of {model.block} tokens "
        "or more, divided by its sum once, before or after the average"
    )
    if model.merged:
        words.append(
            "or in parts that are divided by their sum L, or are exp(l - (m + log L)), and merged "
            f"once by logsumexp, with log off by at most {power(model.exp)} (1 + |log|)"
        )
    tiny, ulps = power(2.0 * model.small), round(model.exp / model.unit / 2.0)
    exponential = "exp or exp2" if model.constants else "exp"
    return [
        *words,
        "underflow to zero or gradual",
        f"if {exponential} is off by at most {ulps} units in the last place where it is {tiny} or "
        f"more, by {tiny} where it is less, and is 1 at 0",
    ]


def stretch(model):
    """By how much constants may scale what is on the way to an exponent, or its inverse."""
    return 2.0**16 if model.constants else 1.0


def power(number):
    return f"2^{math.frexp(number)[1] - 1}"


def logit_steps(model, width, inner):
    """Roundings of a path x^T W_K W_Q^T e, of its four factors, and of l - m.

    An exponent is as large as two logits, so constants count twice.
    """
    paths = width * inner * width + 2 if model.free else 2 * width + inner
    return paths + 6 + 2 * model.constants + 6 * model.merged


def readout_steps(model, seen, rows, outputs):
    """Roundings of the products with U and with the unembedding: all are in the first if free."""
    if model.free:
        return seen * float(rows) * outputs + 2.0, 0
    return np.full(np.shape(seen), float(rows)), outputs


def small(share, count):
    """Bounds t / (1 - t), or infinite ones."""
    half = np.minimum(share, 0.5)
    return np.where((share < 0.5) & (count <= MOST), up(half / (1.0 - half)), np.inf)


def gammas(model, terms):
    return small(terms * model.unit, terms)


def gamma_of(model, terms):
    return float(gammas(model, np.float64(terms)))


def exponents(model, seen):
    """What merging adds to errors of exponents."""
    if not model.merged:
        return 0.0
    logs = math.log(max(float(seen), 1.0)) * (1.0 + 2.0**-40)
    return float(up(5.0 * model.unit * logs + 2.0 * model.exp * (1.0 + logs)))


def averaged(model, seen):
    """zeta, and what underflow adds to an average of entries up to one, for so many tokens each."""
    return weighted(model, seen, seen, np.inf)


def weighted(model, seen, large, rest):
    """The same, where all but some have little weight, which is added: for entries up to one."""
    twice = 1 + model.merged
    pieces = 1.0 + model.merged + np.ceil((seen - 1.0) / model.block)
    eta = small(twice * pieces * (model.exp + model.unit), seen)
    every = gammas(model, twice * seen)
    few = up((1.0 + every) * (twice * large) * model.unit)
    others = up((1.0 + every) * (1.0 + twice * seen * model.unit) * (twice * rest))
    better = few + others < every
    few, others = np.where(better, few, every), np.where(better, others, 0.0)
    above, below = up(eta + few + eta * few), up(eta + few + others + eta * (few + others))
    unit = twice * model.unit
    once = unit + model.stored + unit * model.stored
    rho = up((2.0 * once + once * once + model.stored) / (1.0 - model.stored))
    least = 1.0 - np.minimum(below, 0.5)
    zeta = np.where(below < 0.5, up((below + rho + above * (1.0 + rho)) / least), np.inf)
    with np.errstate(invalid="ignore"):  # zero times what is not bounded
        added = up((1.0 + rho) * (1.0 + eta) * others / least)
    flushed = up(32.0 * seen * pieces * model.small + (3.0 * seen + 1.0) * model.tiny)
    return zeta, up(added + flushed * (1.0 + zeta))  # summed, divided and stored with all others


# What a program of a model makes of logits, and what that makes of attention: for any view.
#
#     eps = gamma_m |x|^T |W_K||W_Q|^T |e| + merging      logits, and l - max l; m: logit_steps
#
# Attention a_j becomes a_j w_j / sum_i a_i w_i with all w in exp(+-eps), and so moves by a part
# exp(2 eps) - 1 at most; or, where parts are merged by logsumexp, a_j w_j with all w in exp(+-2
# eps). Underflow takes less than 2^-120 from each path of indices.
#
# Logits are exact, eps = 0, where tokens, queries, and W_Q and W_K of the head are multiples of
# powers of two, and the sizes of all terms of each sum on the way, in its unit, make less than
# 2^24. Where any arrays may be multiplied first, a sum of some factors over some indices is less,
# in its own unit, than d^2 d_h times the product of all four largest entries in theirs.

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

    def off(self, model, sizes, seen):
        """eps, for sums of sizes of the terms of logits, and so many tokens."""
        steps = gamma_of(model, logit_steps(model, self.width, self.inner))
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


def growth(x):
    """Bounds of exp(x) - 1. The series is x + x^2 / 2 and x^3 exp(x) / 6 at most."""
    large = up(exponential(x)[1] - 1.0)
    return np.where(x <= 2.0**-6, up(x + x * x / 2.0 + x * x * x / 2.0), large)
