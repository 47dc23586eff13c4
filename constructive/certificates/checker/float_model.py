"""What a floating-point evaluation of attention may do: bounds from its unit and its formats.

Higham, Accuracy and Stability of Numerical Algorithms, 3.1, and for softmax of n exact logits

    eta  = t / (1 - t),  t = B (exp + u),  B = 1 + ceil((n - 1) / block)     a term, before its sum
    beta = (1 + eta) (1 + gamma_n) - 1,  rho = (1 + u)^2 (1 + s)^2 - 1        s: storage
    zeta = (2 beta + rho + beta rho) / (1 - beta)                     averages: zeta sum a_j |x_j|

Where all but m tokens have the weight tau together, a sum in any order, to nearest, is off by
(1 + gamma_n) (m u + (1 + n u) tau) at most: an addition is off by no more than either operand,
and only m - 1 of them have large terms on both sides.

Blocks of softmax begin anywhere. Numerators are in range where n max |x| (1 + zeta) is.
"""

from collections import namedtuple

import numpy as np

from bounds import up

MOST = 1 << 20  # terms of a sum
ULPS, BLOCK = 32, 512

# unit, error of exp, block of softmax, smallest normal, largest
# of storage: unit, tiny, bits, smallest normal, largest
Model = namedtuple("Model", "unit exp block small overflow stored tiny bits least top")
TOP = (2.0 - 2.0**-23) * 2.0**127
F32 = (2.0**-24, 2.0 * ULPS * 2.0**-24, BLOCK, 2.0**-126, TOP)
MODELS = {
    "float32": Model(*F32, 0.0, 0.0, 24, 2.0**-126, TOP),
    "bfloat16": Model(*F32, 2.0**-8, 2.0**-126, 8, 2.0**-126, (2.0 - 2.0**-7) * 2.0**127),
    "float16": Model(*F32, 2.0**-11, 2.0**-25, 11, 2.0**-14, 65504.0),
}
# What this program does itself: exponentials are those of a table.
FLOAT64 = Model(2.0**-53, 2.0**-51, MOST, 2.0**-1022, 2.0**1023, 0, 0, 53, 2.0**-1022, 2.0**1023)


def small(share, count):
    """Bounds t / (1 - t), or infinite ones."""
    half = np.minimum(share, 0.5)
    return np.where((share < 0.5) & (count <= MOST), up(half / (1.0 - half)), np.inf)


def gamma_of(model, terms):
    return float(small(np.float64(terms * model.unit), terms))


def averaged(model, seen):
    """zeta, and what underflow adds to an average of entries up to one, for so many tokens each."""
    return weighted(model, seen, seen, np.inf)


def weighted(model, seen, large, rest):
    """The same, where all but some have little weight, which is added: for entries up to one."""
    pieces = 1.0 + np.ceil((seen - 1.0) / model.block)
    eta, every = small(pieces * (model.exp + model.unit), seen), small(seen * model.unit, seen)
    few = up((1.0 + every) * large * model.unit)
    others = up((1.0 + every) * (1.0 + seen * model.unit) * rest)
    better = few + others < every
    few, others = np.where(better, few, every), np.where(better, others, 0.0)
    above, below = up(eta + few + eta * few), up(eta + few + others + eta * (few + others))
    once = model.unit + model.stored + model.unit * model.stored
    rho, least = up(2.0 * once + once * once), 1.0 - np.minimum(below, 0.5)
    zeta = np.where(below < 0.5, up((below + rho + above * (1.0 + rho)) / least), np.inf)
    with np.errstate(invalid="ignore"):  # zero times what is not bounded
        added = up((1.0 + rho) * (1.0 + eta) * others / least)
    flushed = up(32.0 * seen * pieces * model.small + (seen + 1.0) * model.tiny)
    return zeta, up(added + flushed * (1.0 + zeta))  # summed, divided and stored with all others
