"""The claim *near*: some weights within a distance of the stored ones return all targets exactly.

Let f be the outputs at the stored weights, v = Y - f, J their derivative in the directions dW_Q,
dW_K and dU = r du of the effective readout, beta a bound of a right inverse of J, and L one of the
second derivative in a ball of radius 2 beta |v|. If beta^2 L |v| < 1/2, Newton's chord steps
converge to an exact solution in this ball (proofs/24-free-heads.md, "An exact solution near stored
weights"). beta is shown by any matrix R with |I - J R| <= q < 1: then beta <= |R| / (1 - q). Roots
of sums of squares are bounds of all norms here.
"""

import math
from contextlib import suppress

import numpy as np

from .attend import Examples
from .bounds import UNIT, above, chunks, entries, floats, gamma, lengths, up
from .capacity import distinct, needs_of
from .claim import Claim, Shown
from .error import readout_of
from .files import require
from .floating import CHUNK, DIGITS, attended
from .pieces import in_pieces

THIRD = 0.14  # E (X - EX)(A - EA)^2 is at most this times range(X) range(A)^2
NEARER = 2.0**-6  # |I - J R|
REFINED = 3  # Newton steps for the right inverse
COLUMNS = 512  # of a product that one piece computes


class Near(Claim):
    """Some exact weights are as near; readouts are counted in units of r."""

    name, of_lengths = "near", True
    statement = (
        "some W_Q', W_K' and effective readout U' within {!r} of the stored ones return the "
        "targets of the data exactly (root of the sum of squares of all differences, of U in units "
        "of {!r})"
    )
    unshown = "some W_Q', W_K' and effective readout U' near the stored ones return the targets"

    def needs(self, about):
        total, _, width, outputs, heads, inner, *_ = about.shapes
        rows = total * outputs
        columns = heads * width * outputs + self.blocks(heads) * width * inner
        held = 8 * (2 * rows * columns + 4 * rows**2) + 64 * 8 * CHUNK + needs_of(about, [])[0]
        real, operations = about.real_needs()
        return held + real, operations + rows**2 * (6 * columns + 2 * rows)

    def check(self, about):
        unit = self.number("unit", "unit of readouts")
        require(math.frexp(unit)[0] == 0.5, "the unit of readouts is not a power of two")
        for distance, how in distances(about, unit, self.blocks(about.shapes[4])):
            if distance <= self.bound:
                shown = f"distance at most {above(distance, 2, self.bound)} ({how})"
                return Shown((self.bound, unit), shown)
        raise ValueError("near: no exact weights are shown to be so near")

    def blocks(self, heads):
        """How many matrices W_K and W_Q move, beside readouts."""
        found = self.evidence["blocks"]
        require(type(found) is int and 0 <= found <= 2 * heads, "`blocks` is not a number of them")
        return found


def distances(about, unit, blocks):
    """Distances in which exact weights are, nearer each time, and how they were shown.

    Each input counts once. Outputs whose targets and readouts are zero are exact as they are: their
    readouts do not move.
    """
    data, of_each = distinct(about.data)
    targets = about.data["targets"].reshape(len(of_each), -1)
    same = (targets == data["targets"].reshape(len(data["queries"]), -1)[of_each]).all()
    require(same, "near: equal examples have different targets")
    outputs = np.flatnonzero(targets.any(axis=0) | has_readout(about.weights))
    if not len(outputs):
        yield 0.0, "targets and readouts are zero"
        return

    def derivative():
        stored = Stored(about, data, outputs, unit, blocks)
        return stored, right_inverse(*stored.rows(), about.tell)

    with np.errstate(all="ignore"):  # what overflows or is not a number shows nothing
        try:
            stored, beta = about.once(("near", unit, blocks), derivative)
        except OverflowError as failure:
            raise ValueError("near: readouts are too large for float64") from failure
        require(beta < math.inf, "near: the derivative is not shown to have a right inverse")
        for found in about.residuals():
            missed = found.length
            distance = float(up(2.0 * beta * missed))
            curved = up(up(beta * beta) * up(stored.second_derivative(distance) * missed))
            if distance < math.inf and curved < 0.5:
                yield distance, f"beta = {above(beta, 2)}, |v| <= {above(missed, 2)}, {found.how}"


def has_readout(weights):
    """Whether a product of entries of W_V, W_O and W_D that are not zero leads to each output."""
    values = weights["W_V"].any(axis=1)
    for more in weights.get("W_V_corrections", []):
        values = values | more.any(axis=1)
    between = (values.reshape(-1, 1) & (weights["W_O"] != 0)).any(axis=0)
    return (between[:, None] & (weights["W_D"] != 0)).any(axis=0)


class Stored:
    """The stored weights on all examples: a derivative of outputs, and a bound of the second one.

    A head with attention a on a context X moves output j by (C u_j) . dK (Q^T e), where C is the
    covariance of tokens; by (K^T C u_j) . (dQ^T e); and by the average of tokens times dU.
    """

    def __init__(self, about, data, outputs, unit, blocks):
        self.weights, self.data, self.unit = about.weights, data, unit
        self.width, _, self.heads, self.inner, *_ = about.shapes[2:]
        self.total, self.outputs = len(data["queries"]), len(outputs)
        # Of so many blocks, readouts first, then W_K and W_Q of one head after the other.
        self.columns = self.heads * self.width * self.outputs + blocks * self.width * self.inner
        self.query, self.key = (about.weights[name].astype(np.float64) for name in ("W_Q", "W_K"))
        readout, self.readout_off = floats(readout_of(about.weights, DIGITS))
        self.readout = readout.reshape(self.heads, self.width, -1)[:, :, outputs]
        # For each example and head: the diameter of tokens, the range of what readouts make of
        # them, |Q^T e|; and |e| of each example. All from above.
        self.diameters = np.empty((self.total, 1))
        self.ranges = np.empty((self.total, self.heads, self.outputs))
        self.asked = np.empty((self.total, self.heads))
        self.queries = up(lengths(data["queries"].astype(np.float64)))
        self.tell = about.tell

    def rows(self):
        """J (T d_out, columns) in float64, and a bound of the distance to the truth."""
        out = np.empty((self.total, self.outputs, self.columns))
        off = np.empty((self.total, self.outputs))
        contexts = self.data["contexts"]
        each = entries(*contexts.shape[-2:], self.heads, self.inner) * self.outputs
        view = Examples(self.data, chunks(self.total, each, CHUNK))

        def then(group, tokens, attention, error):
            asked = group.queries.astype(np.float64)
            off[group.rows] = self.fill(
                out[group.rows], group.rows, tokens, asked, attention, error
            )
            return group.rows.start

        for start in attended(self.weights, view, then):
            self.tell("derivative in float64", start, self.total)
        return out.reshape(-1, self.columns), float(lengths(off.reshape(-1)))

    def fill(self, out, rows, tokens, asked, attention, error):
        """Write the rows of some examples (B, d_out, columns), and return what they are off by."""
        error = np.where(error < 0.5, error, np.inf)  # constants below are for that
        (count, heads, size), width, outputs = attention.shape, self.width, self.outputs
        flat = self.readout.transpose(1, 0, 2).reshape(width, -1)
        values = (tokens @ flat).reshape(-1, size, heads, outputs)
        sizes = (np.abs(tokens) @ np.abs(flat)).reshape(values.shape)
        largest = up(np.abs(tokens).max(axis=(1, 2)))[:, None, None]  # (B or 1, 1, 1)
        value = up(sizes.max(axis=1))  # of any token, above the largest
        value_off = gamma(width + 1) * value + up(largest * width * self.readout_off)
        value = value + value_off
        self.diameters[rows] = diameters(tokens)[:, None]
        self.ranges[rows] = up(values.max(axis=1) - values.min(axis=1) + 2.0 * value_off)

        # Covariances: attention is off by `error` in all, and so are averages, times what they are
        # of. Sums over tokens lose gamma_(n + 4) of sizes, and values are off by `value_off`.
        averages = np.matmul(attention, tokens)  # (B, H, d)
        means = np.einsum("bhd,hdj->bhj", averages, self.readout)
        values = np.broadcast_to(values.transpose(0, 2, 3, 1), (count, heads, outputs, size))
        weighed = attention[:, :, None] * (values - means[..., None])
        moved = np.matmul(weighed.reshape(count, -1, size), tokens).reshape(
            count, heads, outputs, -1
        )
        far = error[:, :, None]  # (B, H, 1)
        moved_off = up(
            largest * (4.0 * far * value + 3.0 * value_off + 6.0 * gamma(size + width + 8) * value)
        ) * math.sqrt(width)
        average_off = up(largest[:, :, 0] * (error + 2.0 * gamma(size + 1))) * math.sqrt(width)

        query = np.einsum("bd,hdk->bhk", asked, self.query)
        query_off = gamma(width + 1) * up(self.queries[rows, None] * norms(self.query))
        query_size = up(lengths(query) + query_off)
        self.asked[rows] = query_size
        keyed = np.einsum("bhjd,hdk->bhjk", moved, self.key)
        key_size = norms(self.key)[:, None]
        moved_size = up(lengths(moved) + moved_off)
        keyed_off = up(moved_off * key_size + gamma(width + 1) * moved_size * key_size)

        # One block after the other, as many as there are: readouts, then W_K and W_Q of each head.
        out[:] = 0.0
        split = heads * width * outputs
        of_readouts = out[:, :, :split].reshape(count, outputs, heads, width, outputs)
        for output in range(outputs):
            of_readouts[:, output, :, :, output] = averages * self.unit
        average_off = up(average_off * self.unit)
        off = up((average_off * average_off).sum(axis=1))[:, None]
        off = np.broadcast_to(off, (count, outputs)).copy()
        step = width * self.inner
        for block, start in enumerate(range(split, self.columns, step)):
            head = block // 2
            if block % 2 == 0:  # W_K: covariance x query
                left, right = moved[:, head, :, :, None], query[:, head, None, None]
                one = moved_off[:, head] * query_size[:, head, None]
                two = moved_size[:, head] * query_off[:, head, None]
            else:  # W_Q: query x keyed covariance
                left, right = asked[:, None, :, None], keyed[:, head, :, None, :]
                one, two = keyed_off[:, head] * self.queries[rows, None], 0.0
            found = left * right
            out[:, :, start : start + step] = found.reshape(count, outputs, step)
            rounded = UNIT * up(np.sqrt(np.square(found).sum(axis=(2, 3))))
            both = up(one + two + rounded)
            off += both * both
        return up(np.sqrt(up(off)))

    def second_derivative(self, radius):
        """A bound of the second derivative in the ball of this radius, over all outputs."""
        key = norms(self.key) + radius
        asked = self.asked + radius * self.queries[:, None]
        w = up(np.sqrt(up(asked * asked + up(key * key) * np.square(self.queries)[:, None])))
        w, length, d = w[..., None], self.queries[:, None, None], self.diameters[..., None]
        omega = up(self.ranges + self.unit * radius * d)
        each = THIRD * up(omega * d) * up(d * w * w)
        each = up(each + 0.25 * self.unit * up(d * d * w) + 0.25 * up(omega * d * length))
        return float(lengths(up(each.max(axis=1)).reshape(-1)))


def diameters(tokens):
    """Bounds of the largest distance between two tokens of each context."""
    moved = tokens - tokens.mean(axis=1, keepdims=True)  # any point will do
    squares = np.square(lengths(moved))
    apart = squares[:, :, None] + squares[:, None] - 2.0 * moved @ moved.transpose(0, 2, 1)
    off = 8.0 * gamma(tokens.shape[2] + 8) * squares.max(axis=1) + 2.0**-500
    return up(np.sqrt(up(apart.max(axis=(1, 2)) + off)))


def norms(matrices):
    """Bounds of the lengths of matrices (H, d, k)."""
    return lengths(matrices.reshape(len(matrices), -1))


def right_inverse(rows, off, tell):
    """A bound of the length of a right inverse of a matrix that is off by so much, or infinity.

    The matrix is J, with |J - rows| <= off. R is rows^T X, with X about the inverse of rows rows^T,
    and then R (2 I - rows R). What is shown of it is |I - J R| <= |I - rows R| + off |R|, where
    products lose gamma_k |rows| |R|.
    """
    tell("a right inverse of the derivative", 0, REFINED + 1)
    gram = in_blocks(rows, rows.T)
    with suppress(np.linalg.LinAlgError):
        inverse = in_blocks(rows.T, np.linalg.inv(gram))
        size = length_of(rows)
        for step in range(REFINED):
            tell("a right inverse of the derivative", step + 1, REFINED + 1)
            defect = in_blocks(rows, inverse)
            defect[np.diag_indices(len(defect))] -= 1.0
            long = length_of(inverse)
            lost = up(gamma(rows.shape[1] + 2) * up(size * long) + UNIT * len(rows))
            q = float(up(length_of(defect) + lost + up(off * long)))
            if q < NEARER:
                # |R|^2 = |R^T R|, which is shorter than the root of the sum of squares of R
                squares = length_of(in_blocks(inverse.T, inverse))
                squares = up(squares + gamma(rows.shape[1] + 2) * up(long * long))
                return float(up(min(long, math.sqrt(squares)) / (1.0 - q)))
            inverse -= in_blocks(inverse, defect)
    return math.inf


def length_of(matrix):
    """A bound of the root of the sum of squares."""
    return float(lengths(lengths(matrix)))


def in_blocks(left, right):
    """Left @ right, by blocks of columns."""
    out = np.empty((len(left), right.shape[1]))

    def one(columns):
        np.matmul(left, right[:, columns], out=out[:, columns])

    for _ in in_pieces(one, chunks(right.shape[1], 1, COLUMNS)):
        pass
    return out
