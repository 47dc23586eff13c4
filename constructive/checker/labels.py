"""The claims *labels* and *inseparable*: the largest output is that of the label; or never is."""

import math
from fractions import Fraction

import numpy as np

from .bounds import LONGEST, UNIT, floats, gamma, up
from .claim import Claim
from .files import require, unpack
from .floating import DIGITS
from .layers import different, require_orthogonal, triangular
from .real import NEARER, Work, first_needs, inverse_in_floats, readout_of, residuals_in_floats

MOST = 1 << 32  # above all multipliers


class OfLabels(Claim):
    """A claim about one-hot targets and Z, which is known in float64, with a bound."""

    of_lengths = True

    def needs(self, about):
        return first_needs(about.shapes, keep=True)

    def check(self, about):
        labels, classes = labels_of(about.data["targets"])
        readout = readout_of(about.weights, DIGITS)
        work = Work(first_needs(about.shapes, keep=True)[1], about.tell)
        found = residuals_in_floats(about.weights, about.data, readout, True, work)
        require(found is not None, "sums are too long for float64")
        near, scales, z, error = found
        shown = np.isfinite(near).all() and np.isfinite(z).all() and math.isfinite(error)
        require(shown and max(z.shape) <= LONGEST, "float64 does not show what outputs are")
        return self.shown(about, (labels, classes), scales, z, error, readout)


def labels_of(targets):
    """The label of each one-hot target, and how many classes there are."""
    require(targets.ndim == 2 and targets.shape[1] > 1, "targets have no classes")
    one_hot = ((targets == 0) | (targets == 1)).all() and (targets.sum(axis=1) == 1).all()
    require(one_hot, "a target is not one-hot")
    return targets.argmax(axis=1), targets.shape[1]


class Labels(OfLabels):
    """The output of each label leads any other by a bound, which is not zero."""

    name = "labels"
    statement = (
        "targets are one-hot, and the output of each label is larger than any other by {!r} or more"
    )

    def shown(self, about, classified, scales, z, error, readout):
        del about
        labels, _ = classified
        require(self.bound > 0, "labels which lead by nothing")
        u, u_error = floats(readout)
        out, rows = z @ u, np.arange(len(z))
        off = gamma(z.shape[1] + 2) * up(np.abs(z) @ np.abs(u))
        off = off + up(error * up(np.abs(u).sum(axis=0) + u_error * len(u)))
        off = off + up(up(np.abs(z).sum(axis=1)) * u_error)[:, None]
        off = up(off + 4 * UNIT * np.abs(out))  # and the differences
        lead = (out[rows, labels] - out.T).T - up((off[rows, labels] + off.T).T)
        lead[rows, labels] = np.inf
        least = np.ldexp(
            lead.min(axis=1), scales
        )  # rounded, below 2^-1022: so not a lead of itself
        require((least > self.bound).all(), f"a label is not shown to lead by {self.bound!r}")
        return (self.bound,)


class Inseparable(OfLabels):
    """A combination of leads with positive coefficients is zero, whatever the readout is.

    B has the negative multipliers of other classes, and rows which sum to zero. If R is a right
    inverse of Z^T, or nearly so, B' = B - R (Z^T R)^-1 Z^T B has Z^T B' = 0, and entries within
    kappa |Z^T B| of those of B: if signs stay, no readout makes labels lead.

    Only columns of Z are looked at of which the others are combinations: Z_h x = 0 for vectors
    orthogonal to all tokens, Z_h x = Z_1 x for those constant within contexts, and each vector has
    an entry which is zero in all later ones.
    """

    name = "inseparable"
    statement = (
        "targets are one-hot, and no readout of these heads, the stored W_Q and W_K, makes the "
        "output of the label the largest one at all of {} examples"
    )

    def needs(self, about):
        """Also tokens, which are sorted, and vectors of Python's integers, as for *impossible*."""
        held, operations = super().needs(about)
        if self.evidence["vectors"]:
            tokens, width = math.prod(about.contexts[:-1]), about.contexts[-1]
            digits = sum(len(x) for vector in self.evidence["vectors"] for x in vector)
            held += 64 * tokens * (width + 8) + 200 * digits + (8 << 20)
            operations += 100 * tokens * width + 1000 * digits
        return held, operations

    def shown(self, about, classified, scales, z, error, readout):
        del scales, readout
        contexts, width, heads = about.data["contexts"], about.shapes[2], about.shapes[4]
        tokens, ids = different(contexts.reshape(-1, width))
        vectors, zeros = triangular(self.evidence, width)
        require_orthogonal(vectors, zeros, tokens, ids.reshape(-1, contexts.shape[-2]))
        kept = np.ones((heads, width), dtype=bool)
        kept[0, self.evidence["pivots"][:zeros]] = False
        kept[1:, self.evidence["pivots"]] = False
        return self.combined(*classified, z[:, kept.reshape(-1)], error)

    def combined(self, labels, classes, z, error):
        """How many examples there are, if no combination of these columns has the labels."""
        rows = np.arange(len(z))
        others = np.arange(classes) != labels[:, None]
        multipliers = unpack(self.evidence["multipliers"], others.shape, MOST)
        require(((multipliers > 0) == others).all(), "a multiplier is not positive")
        whole = -multipliers.astype(np.float64)
        whole[rows, labels] = multipliers.sum(axis=1)  # integers below 2^53
        require(classes < 1 << 20, "too many classes")
        sizes = np.abs(whole)
        off = gamma(len(z) + 2) * up(np.abs(z).T @ sizes) + up(error * up(sizes.sum(axis=0)))
        rest = float(up(np.abs(z.T @ whole) + off).max())
        require(len(z) >= z.shape[1], "Z^T has no right inverse")
        kappa = inverse_in_floats(np.ascontiguousarray(z.T), error, NEARER)
        require(kappa is not None and math.isfinite(rest), "Z^T has no right inverse, as it seems")
        least = int(multipliers[others].min())
        require(kappa * Fraction(rest) < least, "the combination is not shown to be zero")
        return (len(z),)
