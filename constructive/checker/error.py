"""The claims *error* and *labels* of layers: what real numbers make of weights and data.

How far outputs are from targets is bounded in float64, or with as many digits as decide it.
"""

import math
from collections import namedtuple
from contextlib import suppress
from fractions import Fraction

import numpy as np

from .attend import Examples, Heads, attend
from .bounds import (
    BITS,
    LONGEST,
    UNIT,
    above,
    arranged,
    below,
    chunks,
    entries,
    fixed,
    floats,
    gamma,
    integers,
    lengths,
    multiply,
    up,
)
from .claim import Claim, Refuted, Shown
from .files import require, silent
from .floating import CHUNK, DIGITS, Digits, attended, exponential


class Error(Claim):
    """No output is further from its target than a bound."""

    name, of_lengths = "error", True
    statement = "max |f(E_t, e_t) - y_t| <= {!r}"

    @property
    def error(self):
        return self.bound

    def numbers(self, about):
        del about
        return (self.bound,) if "bound" in self.evidence else ()

    def needs(self, about):
        return about.real_needs()

    def check(self, about):
        """In float64, and then to more and more digits, as long as these may decide."""
        bound = Fraction(self.bound)
        known = ""
        for found in about.residuals():
            if found.most <= bound:
                most = above(found.most, 2, self.bound)
                detail = f"max |f - y| <= {most} ({found.how}, {about.shapes[0]} examples)"
                return Shown((self.bound,), detail)
            if found.least > bound:
                example = found.place[0]
                several = about.shapes[3] > 1
                least = below(found.least, 2, self.bound)
                detail = f"at example {example}, |f - y| is {least} or more"
                raise Refuted(detail, found.place if several else example)
            known = f", but between {below(found.least, 2)} and {above(found.most, 2)}"
        raise ValueError(
            f"it is not shown within epsilon, nor beyond{known}; a larger epsilon, as more digits "
            "may take more than a minute, or are not had"
        )


def labels_of(targets):
    """The label of each one-hot target."""
    require(targets.ndim == 2 and targets.shape[1] > 1, "targets have no classes")
    one_hot = ((targets == 0) | (targets == 1)).all(axis=1) & (targets.sum(axis=1) == 1)
    if not one_hot.all():
        wrong = int(one_hot.argmin())
        raise Refuted(f"the target of example {wrong} is not one-hot", wrong)
    return targets.argmax(axis=1)


class Labels(Claim):
    """The output of each label leads any other by a bound, which is not zero."""

    name, of_lengths = "labels", True
    statement = (
        "targets are one-hot, and the output of each label is larger than any other by {!r} or more"
    )
    unshown = "targets are one-hot, and the output of each label is larger than any other"

    def needs(self, about):
        return about.real_needs()

    def check(self, about):
        labels = labels_of(about.data["targets"])
        found, rows = about.floats, np.arange(len(labels))
        require(found is not None, "float64 does not show what outputs are")
        out = found.outputs
        off = up(found.off + 4 * UNIT * np.abs(out))  # and the differences
        apart, both = (out[rows, labels] - out.T).T, up((off[rows, labels] + off.T).T)
        least, most = apart - both, apart + both
        least[rows, labels] = most[rows, labels] = np.inf
        wrong = np.flatnonzero(most.min(axis=1) < 0)
        if len(wrong):
            detail = f"at example {wrong[0]} another output is larger than that of its label"
            raise Refuted(detail, int(wrong[0]))
        require("bound" in self.evidence and self.bound > 0, "labels which lead by nothing")
        leads = np.ldexp(least.min(axis=1), found.scales)  # rounded, below 2^-1022
        require((leads > self.bound).all(), f"a label is not shown to lead by {self.bound!r}")
        detail = f"labels lead by {below(float(leads.min()), 2, self.bound)} or more (float64 with "
        return Shown((self.bound,), f"{detail}a-priori bounds, {len(labels)} examples)")


# How they are shown.

COUNTS = (5, 7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 224)  # of digits
MINUTE = 2e12  # operations which more digits may cost


class Work:
    """What has been done and may be done, in operations."""

    def __init__(self, allowed, tell=silent):
        self.spent, self.allowed, self.tell = 0, allowed, tell

    def take(self, operations):
        self.spent += operations
        require(self.spent <= self.allowed, "not shown with the digits which a minute allows")


def digits_needed(shapes, count):
    """Bytes and operations for so many digits, but exponentials."""
    total, size, width, outputs, heads, inner, value_dim, between = shapes
    units, columns = max(entries(size, width, heads, inner), outputs), heads * width
    number, logit = 8 * (count + 6), 48 * (count + 10)  # bytes; logits become Python's integers
    rows = min(total, max(1, CHUNK // units))
    weights = columns * (2 * inner + value_dim) + heads * value_dim * between + between * outputs
    held = number * (2 * weights + 3 * heads * (value_dim + width) * outputs)
    held += rows * (2 * number * size * width + logit * heads * max(size, width, inner))
    held += rows * outputs * (2 * number + 1500)  # integers of 4,000 bits and more
    held += 72 * total * outputs  # bounds in float64, and what is on the way to them; measured
    each = units * (2 * inner + 2 * width) + columns * outputs
    once = heads * value_dim * outputs * (between + width)
    products = total * each + once
    operations = count * count * products + 1e5 * total * (outputs + 4)  # in Python's integers
    return held, operations


# Bounds of |f - y| from both sides, where it is largest as far as is known, a bound of the root of
# the sum of squares, and how all was had
Residuals = namedtuple("Residuals", "most least place length how")


def all_residuals(about):
    """What is known of |f - y|: in float64, and then with more and more digits."""
    if about.floats is not None:
        yield of_floats(about.floats)
    allowed = first_needs(about.shapes)[1] + MINUTE
    work = Work(allowed, about.tell)
    for count in COUNTS:
        held, operations = digits_needed(about.shapes, count)
        if count * BITS > about.bits or held > about.left or work.spent + operations > work.allowed:
            return
        work.take(operations)
        with suppress(OverflowError):  # more digits may decide
            yield residuals(about.weights, about.data, count, work)


def in_floats(weights, data, tell):
    """What float64 shows of all examples, if it shows anything of all of them.

    That takes less memory than the fewest digits, and far fewer operations.
    """
    with np.errstate(all="ignore"):  # what overflows or is not a number shows nothing
        try:
            readout = readout_of(weights, DIGITS)
            found = residuals_in_floats(weights, data, readout, tell)
        except OverflowError:  # it takes more digits
            return None
    return found if found is not None and found.finite else None


def of_floats(found):
    (most, _), (least, place) = (largest_of(x, found.scales) for x in found.sides())
    with np.errstate(over="ignore"):
        sizes = np.ldexp(found.sides()[0], found.scales[:, None])
        length = float(lengths(lengths(sizes)))
    return Residuals(most, least, place, length, "float64 with a-priori bounds")


def largest_of(sizes, scales):
    """The largest entry of sizes (T, d_out) times 2^scales (T,), exactly, and its place."""
    mantissas, places = np.frexp(sizes)
    places = np.where(mantissas > 0, places + scales[:, None], -(1 << 40))
    tops = np.argwhere(places == places.max())
    row, column = max(tops.tolist(), key=lambda at: mantissas[tuple(at)])
    value = Fraction(float(sizes[row, column])) * Fraction(2) ** int(scales[row])
    return value, (row, column)


def first_needs(shapes):
    """Bytes and operations for the fewest digits, with all exponentials there may be."""
    total, size, heads = shapes[0], shapes[1], shapes[4]
    held, operations = digits_needed(shapes, COUNTS[0])
    return held, operations + exponential(COUNTS[0]) * total * heads * size * (size > 1)


def residuals(weights, data, count, work):
    """The same to so many digits of 20 bits."""
    readout = readout_of(weights, count)
    targets = data["targets"].reshape(len(data["targets"]), -1)
    most, least, place, squares = Fraction(0), Fraction(0), (0, 0), Fraction(0)
    for rows, scales, z in representation(weights, data, count, work):
        far, near, at, more = farthest(multiply(z, readout, count), targets[rows], scales)
        most, squares = max(most, far), squares + more
        if near >= least:
            least, place = near, (rows.start + at[0], at[1])
    length = math.inf
    with suppress(OverflowError):
        length = float(up(math.sqrt(max(squares, Fraction(1e-300)))))  # above what underflows
    return Residuals(most, least, place, length, f"{count} digits of {BITS} bits")


def readout_of(weights, count):
    """W_V W_O W_D of all heads in fixed point: (H d, d_out)."""
    heads, width, value_dim = weights["W_V"].shape
    output = fixed([weights["W_O"].reshape(heads, value_dim, -1)], count)
    output = multiply(output, fixed([weights["W_D"]], count), count)
    values = fixed([weights["W_V"], *weights.get("W_V_corrections", [])], count)
    return arranged(multiply(values, output, count), lambda x: x.reshape(heads * width, -1))


def farthest(out, targets, scales):
    """Bounds of |f - y| from both sides, its place, and a bound of the sum of squares, by integers.

    out: f 2^-scale
    """
    mantissas, places = np.frexp(targets.astype(np.float64))
    goals = np.ldexp(mantissas, 53).astype(np.int64).astype(object)
    places = places.astype(np.int64) - 53 - scales[:, None]
    last = min(out.last, int(places.min()))  # all are multiples of 2^last
    found = integers(out.digits) << (out.last - last)
    off, least = out.error << (out.last - last), int(scales.min())
    far = np.abs(found - (goals << (places - last)))
    each, unit = far << (scales - least)[:, None], Fraction(2) ** (last + least)
    row, column = divmod(int(each.argmax()), each.shape[1])
    near = each[row, column] - (off << int(scales[row] - least))
    upper = (far + off) << (scales - least)[:, None]
    squares = int((upper * upper).sum()) * unit * unit
    return int(upper.max()) * unit, max(0, int(near)) * unit, (row, column), squares


def representation(weights, data, count, work):
    """Rows of Z times 2^-scale, for contexts of size one: rows, scales, and a Fixed (k, H d)."""
    (heads, width, _), contexts = weights["W_V"].shape, data["contexts"]
    inner = weights["W_Q"].shape[2]
    total, outputs = len(data["queries"]), data["targets"].size // len(data["queries"])
    units = max(entries(*contexts.shape[-2:], heads, inner), outputs)
    view = Examples(data, chunks(total, units, CHUNK))
    numbers = Digits(count, work)
    for (rows, *_), _, tokens, attention in attend(numbers, Heads(numbers, weights), view):
        work.tell(f"outputs to {count} digits of {BITS} bits", rows.start, total)
        scale = np.frexp(np.abs(tokens).max(axis=(1, 2)))[1]
        z = multiply(attention, fixed([tokens], count, scale[:, None, None]), count)
        z = arranged(z, lambda x: x.reshape(-1, heads * width))
        yield rows, np.broadcast_to(scale, z.digits.shape[1]).astype(np.int64), z


# Outputs in float64 with bounds of rounding, often enough for *error*.
#
# Contexts are divided by powers of two, to be of size one, and so is what heads read.

# |f - y| 2^-scale and f 2^-scale (T, d_out), and what the latter is off by
Floated = namedtuple("Floated", "far off scales outputs")


class InFloats(Floated):
    """What float64 has of all examples."""

    def sides(self):
        """Bounds of |f - y| 2^-scale from above and from below: the difference is rounded, too."""
        off = up(self.off + 2.0 * UNIT * self.far)
        return up(self.far + off), np.maximum(self.far - off, 0.0)

    @property
    def finite(self):
        """Whether all bounds are numbers: those of numbers near the largest float are not."""
        with np.errstate(all="ignore"):
            return bool(np.isfinite(self.sides()[0]).all())


def residuals_in_floats(weights, data, readout, tell):
    """What float64 has of all examples, or nothing for sums which are too long.

    readout: W_V W_O W_D in fixed point (H d, d_out)
    """
    (heads, width, _), contexts = weights["W_V"].shape, data["contexts"]
    inner = weights["W_Q"].shape[2]
    total, size, columns = len(data["queries"]), contexts.shape[-2], heads * width
    if max(columns, size, inner) > LONGEST:
        return None
    targets = data["targets"].reshape(total, -1).astype(np.float64)
    u = floats(readout)[0].reshape(heads, width, -1)  # each off by less than 2^-50, and by u_error
    u_error = float(up(float(Fraction(readout.error) * Fraction(2) ** readout.last)))
    u_sizes = np.abs(u)
    per_head = up(u_sizes.sum(axis=1))
    outputs, far, errors = (np.empty(targets.shape) for _ in range(3))
    scales = np.empty(total, np.int64)
    tokens_of_one = size * width * (contexts.ndim == 3)
    units = max(tokens_of_one, heads * max(size, width, inner, targets.shape[1]))
    view = Examples(data, chunks(total, units, CHUNK))

    def then(group, tokens, attention, off):
        rows = group.rows
        scale = np.frexp(np.abs(tokens).max(axis=(1, 2)))[1]
        z = (attention @ np.ldexp(tokens, -scale[:, None, None])).transpose(1, 0, 2)
        scales[rows] = scale
        goal = np.ldexp(targets[rows], -scales[rows, None])
        out, sizes = added(z @ u), up(added(np.abs(z) @ u_sizes))
        error = (gamma(width + heads.bit_length() + 4) + 2.0**-49) * sizes + up(off @ per_head)
        read = up(np.abs(z).sum(axis=(0, 2)) + width * up(off.sum(axis=1)))
        outputs[rows], far[rows] = out, np.abs(out - goal)
        errors[rows] = up(error + up(read * u_error)[:, None])
        return rows.start

    for start in attended(weights, view, then):
        tell("outputs in float64", start, total)
    return InFloats(far, errors, scales, outputs)


def added(parts):
    """The sum over the first axis by halves: each of k terms is in k.bit_length() sums at most."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = np.concatenate([parts[:half] + parts[half : 2 * half], parts[2 * half :]])
    return parts[0]
