"""The claims *error* and *readout*, about real numbers: in float64, or with enough digits."""

import math
from contextlib import suppress
from fractions import Fraction

import numpy as np

from .attend import Examples, Heads, attend
from .bounds import (
    BITS,
    LONGEST,
    arranged,
    chunks,
    entries,
    fixed,
    floats,
    gamma,
    integers,
    multiply,
    up,
)
from .claim import Bound
from .files import require, silent
from .floating import CHUNK, DIGITS, Digits, attended, exponential
from .rank import needs


class Error(Bound):
    """No output is further from its target than a bound."""

    name, of_lengths = "error", True
    statement = "max |f(E_t, e_t) - y_t| <= {!r}"

    @property
    def error(self):
        return self.bound

    def needs(self, about):
        return (0, 0) if "readout" in about.names else about.real_needs()


class Readout(Bound):
    """Some exact readout is as near to the stored one, entry by entry."""

    name, of_lengths = "readout", True
    statement = (
        "some U' with Z U' = Y is within {!r} of the stored effective readout U "
        "(H d, d_out), entry by entry"
    )

    def needs(self, about):
        """Those of digits; and, without a rank, of looking whether Z is singular."""
        real, products = first_needs(about.shapes, keep=True)
        held, operations = (0, 0) if "rank" in about.names else needs(about.shapes, beside=1)
        return max(held, real), operations + products


# How both are shown together.

COUNTS = (5, 7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 224)  # of digits
MINUTE = 2e12  # operations which more digits may cost
LESS = Fraction(99, 100)  # of a residual which more digits would still lower


class Work:
    """What has been done and may be done, in operations."""

    def __init__(self, allowed, tell=silent):
        self.spent, self.allowed, self.tell = 0, allowed, tell

    def take(self, operations):
        self.spent += operations
        require(self.spent <= self.allowed, "not shown with the digits which a minute allows")


def digits_needed(shapes, count, keep):
    """Bytes and operations for so many digits, but exponentials; `keep` for the inverse of Z."""
    total, size, width, outputs, heads, inner, value_dim, between = shapes
    units, columns = largest(size, width, heads, inner, outputs), heads * width
    number, logit = 8 * (count + 6), 48 * (count + 10)  # bytes; logits become Python's integers
    whole = keep and total * columns <= LARGEST
    rows = total if whole else min(total, max(1, CHUNK // units))
    weights = columns * (2 * inner + value_dim) + heads * value_dim * between + between * outputs
    held = number * (2 * weights + 3 * heads * (value_dim + width) * outputs)
    held += rows * (2 * number * size * width + logit * heads * max(size, width, inner))
    held += rows * outputs * (2 * number + 1500)  # integers of 4,000 bits and more
    held += 32 * total * outputs  # targets and bounds in float64
    each = units * (2 * inner + 2 * width) + columns * outputs
    steps = 3 + count * BITS // GAINED
    once = heads * value_dim * outputs * (between + width)
    products = total * each + once
    if keep:
        held += total * columns * (48 + 8 * count + 4 * number * whole)
        held += total * total * (48 + 4 * number * whole)
        products += whole * total * total * (4 * columns + 2 * steps * total)
    operations = count * count * products + 1e5 * total * (outputs + 4)  # in Python's integers
    return held, operations + keep * 12 * total * total * (columns + total)


def largest(size, width, heads, inner, outputs):
    """Entries of one example in the largest array."""
    return max(entries(size, width, heads, inner), outputs)


def check_real(bounds, weights, data, shapes, most, tell=silent):
    """|f - y| <= epsilon for the claim error, and kappa |f - y| <= delta for the claim readout.

    kappa is for rows of Z, and residuals, times the powers of two which bring contexts to size one.
    Where float64 does not decide, digits do: more of them as long as they may, and cost about a
    minute at most.
    """
    allowed, previous = first_needs(shapes, "readout" in bounds)[1], None
    *found, kappa = in_floats(weights, data, "readout" in bounds, Work(allowed, tell))
    if enough(bounds, *found, kappa):
        return
    work = Work(allowed + MINUTE, tell)
    for count in affordable(shapes, "readout" in bounds, most, work):
        keep = "readout" in bounds and kappa is None
        try:
            *found, z_all = residuals(weights, data, count, keep, work)
            tell("a right inverse of Z", 0, 1)
            kappa = right_inverse_bound(z_all, count) if keep else kappa
        except OverflowError:  # more digits may decide
            continue
        if enough(bounds, *found, kappa):
            return
        worst, scaled = found
        if previous and worst > LESS * previous[0] and scaled > LESS * previous[1]:
            small = worst <= bounds.get("error", worst)
            require(small, f"error: it is not shown to be within {bounds.get('error')!r}")
            require(kappa is None, "readout: no exact one is shown to be so near")
        previous = found
    raise ValueError(f"{', '.join(bounds)}: not shown with the digits which a minute allows")


def enough(bounds, worst, scaled, kappa):
    """Whether bounds of residuals, times kappa, are within those which are claimed."""
    small = "error" not in bounds or (worst is not None and worst <= bounds["error"])
    known = scaled is not None and kappa is not None
    near = "readout" not in bounds or (known and kappa * scaled <= bounds["readout"])
    return small and near


def in_floats(weights, data, keep, work):
    """Bounds of |f - y| and |f - y| 2^-scale, and kappa if Z is kept: what float64 shows of them.

    That takes less memory than the fewest digits, and far fewer operations.
    """
    nothing = None, None, None
    with np.errstate(all="ignore"):  # what overflows or is not a number shows nothing
        try:
            readout = readout_of(weights, DIGITS)
            found = residuals_in_floats(weights, data, readout, keep, work)
        except OverflowError:  # it takes more digits
            return nothing
        if found is None or not np.isfinite(found[0]).all():
            return nothing
        far, scales, z, z_error = found
        work.tell("a right inverse of Z", 0, 1)
        kappa = inverse_in_floats(z, z_error, NEARER) if keep else None
    largest = {int(s): Fraction(float(far[scales == s].max())) for s in np.unique(scales)}
    worst = max(bound * Fraction(2) ** scale for scale, bound in largest.items())
    return worst, max(largest.values()), kappa


def affordable(shapes, keep, most, work):
    """Counts of digits, as long as memory and what may be done allow more."""
    for count in COUNTS:
        held, operations = digits_needed(shapes, count, keep)
        if held > most or work.spent + operations > work.allowed:
            return
        work.take(operations)
        yield count


def first_needs(shapes, keep):
    """Bytes and operations for the fewest digits, with all exponentials there may be."""
    total, size, heads = shapes[0], shapes[1], shapes[4]
    held, operations = digits_needed(shapes, COUNTS[0], keep)
    return held, operations + exponential(COUNTS[0]) * total * heads * size * (size > 1)


def residuals(weights, data, count, keep, work):
    """Bounds of |f - y| and of |f - y| 2^-scale, as fractions, and parts of Z if kept."""
    heads, width, _ = weights["W_V"].shape
    readout = readout_of(weights, count)
    targets, z_all = data["targets"].reshape(len(data["targets"]), -1), []
    whole = keep and len(targets) * heads * width <= LARGEST  # at once, for its inverse
    worst = scaled = Fraction(0)
    for rows, scales, z in representation(weights, data, count, whole, work):
        out = multiply(z, readout, count)
        far, far_scaled = farthest(out, targets[rows], scales)
        worst, scaled = max(worst, far), max(scaled, far_scaled)
        z_all += [z] * keep
    return worst, scaled, z_all


def readout_of(weights, count):
    """W_V W_O W_D of all heads in fixed point: (H d, d_out)."""
    heads, width, value_dim = weights["W_V"].shape
    output = fixed([weights["W_O"].reshape(heads, value_dim, -1)], count)
    output = multiply(output, fixed([weights["W_D"]], count), count)
    values = fixed([weights["W_V"], *weights.get("W_V_corrections", [])], count)
    return arranged(multiply(values, output, count), lambda x: x.reshape(heads * width, -1))


def farthest(out, targets, scales):
    """Bounds of |f - y| and |f - y| 2^-scale, for f 2^-scale as it is put out: in integers."""
    mantissas, places = np.frexp(targets.astype(np.float64))
    goals = np.ldexp(mantissas, 53).astype(np.int64).astype(object)
    places = places.astype(np.int64) - 53 - scales[:, None]
    last = min(out.last, int(places.min()))  # all are multiples of 2^last
    found = integers(out.digits) << (out.last - last)
    far = np.abs(found - (goals << (places - last))).max(axis=1) + (out.error << (out.last - last))
    least = int(scales.min())
    worst = int((far << (scales - least)).max())
    return worst * Fraction(2) ** (last + least), int(far.max()) * Fraction(2) ** last


def representation(weights, data, count, whole, work):
    """Rows of Z times 2^-scale, for contexts of size one: rows, scales, and a Fixed (k, H d)."""
    (heads, width, _), contexts = weights["W_V"].shape, data["contexts"]
    inner = weights["W_Q"].shape[2]
    total, outputs = len(data["queries"]), data["targets"].size // len(data["queries"])
    units = largest(*contexts.shape[-2:], heads, inner, outputs)
    view = Examples(data, chunks(total, units, total * units if whole else CHUNK))
    numbers = Digits(count, work)
    for (rows, *_), _, tokens, attention in attend(numbers, Heads(numbers, weights), view):
        work.tell(f"outputs to {count} digits of {BITS} bits", rows.start, total)
        scale = np.frexp(np.abs(tokens).max(axis=(1, 2)))[1]
        z = multiply(attention, fixed([tokens], count, scale[:, None, None]), count)
        z = arranged(z, lambda x: x.reshape(-1, heads * width))
        yield rows, np.broadcast_to(scale, z.digits.shape[1]).astype(np.int64), z


# Outputs in float64 with bounds of rounding, often enough for *error* and *readout*.
#
# Contexts are divided by powers of two, to be of size one, and so is what heads read.

FEW = 0.125  # part of all attention which may be had in fixed point


def residuals_in_floats(weights, data, readout, keep, work):
    """Bounds of |f - y| 2^-scale (T, d_out), the scales (T,), Z 2^-scale and what that is off by.

    readout: W_V W_O W_D in fixed point (H d, d_out);  keep: whether Z is wanted
    Nothing for sums which are too long.
    """
    (heads, width, _), contexts = weights["W_V"].shape, data["contexts"]
    inner = weights["W_Q"].shape[2]
    total, size, columns = len(data["queries"]), contexts.shape[-2], heads * width
    if max(columns, size, inner) > LONGEST:
        return None
    targets = data["targets"].reshape(total, -1).astype(np.float64)
    u, u_error = floats(readout)
    u = u.reshape(heads, width, -1)
    u_sizes = np.abs(u)
    per_head = up(u_sizes.sum(axis=1))
    bounds, scales = np.empty(targets.shape), np.empty(total, np.int64)
    few, found = FEW * total * heads, []
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
        error = gamma(width + heads.bit_length() + 4) * sizes + up(off @ per_head)
        read = up(np.abs(z).sum(axis=(0, 2)) + width * up(off.sum(axis=1)))
        error = up(error + up(read * u_error)[:, None])
        bounds[rows] = up(np.abs(out - goal) + error)
        z = z.transpose(1, 0, 2).reshape(-1, columns) if keep else None
        return rows.start, z, float(off.max())

    for start, *kept in attended(weights, view, few, then):
        work.tell("outputs in float64", start, total)
        found.append(kept)
    z_all, errors = zip(*found, strict=True)
    return bounds, scales, np.concatenate(z_all) if keep else None, max(errors)


def added(parts):
    """The sum over the first axis by halves: each of k terms is in k.bit_length() sums at most."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = np.concatenate([parts[:half] + parts[half : 2 * half], parts[2 * half :]])
    return parts[0]


# Right inverses of Z, in float64 or in fixed point: any R which is near enough will do.

LARGEST = 2_000_000  # entries of Z up to which it is inverted in fixed point
GAINED = 50  # bits which a step of the iteration for an inverse gains
NEAR = 0.1  # |I - Z R| above which R is too far from a right inverse
NEARER = 2.0**-10  # the same for Z in float64: nothing is lost by that


def right_inverse_bound(z_all, count):
    """A number kappa = |R| / (1 - |I - Z R|) for some R, by floats or in fixed point; or None.

    In floats Z is taken times a power of two which makes its largest entries about one.
    """
    top = max(part.last + BITS * len(part.digits) for part in z_all)
    pieces = [floats(part, top) for part in z_all]
    z, error = np.concatenate([piece[0] for piece in pieces]), max(piece[1] for piece in pieces)
    require(max(z.shape) <= LONGEST, f"Z has more than {LONGEST} columns")
    found = inverse_in_floats(z, error, NEAR)
    if found is not None:
        return found / Fraction(2) ** top
    if z.size > LARGEST:
        return None
    one = np.eye(len(z))
    turned = arranged(z_all[0], np.transpose)
    gram = multiply(z_all[0], turned, count)
    top = gram.last + BITS * len(gram.digits)
    right = fixed([guess(floats(gram, top)[0])], count)
    right = right._replace(last=right.last - top)
    for _ in range(3 + count * BITS // GAINED):  # any R will do: its digits are R, without an error
        left, error = floats(multiply(gram, right, count))
        q = float(up(up(np.abs(left - one).sum(axis=1)).max() + up(len(one) * error)))
        if q < NEAR:
            wide = multiply(turned, right, count)
            top = wide.last + BITS * len(wide.digits)
            wide, error = floats(wide, top)
            reach = float(up(up(np.abs(wide).sum(axis=1)).max() + up(len(one) * error)))
            return Fraction(reach) * Fraction(2) ** top / (1 - Fraction(q))
        if not math.isfinite(q):
            return None
        # Where float64 sees a singular matrix, each step makes good what is smaller by 2^50.
        right = multiply(right, fixed([guess(left)], count), count)._replace(error=0)
    return None


def inverse_in_floats(z, error, near):
    """The same for Z in float64, whose entries are off by so much at most; if |I - Z R| < near."""
    one = np.eye(len(z))
    with np.errstate(all="ignore"):  # what overflows or is not a number shows nothing
        inverse = z.T @ guess(z @ z.T)
        for _ in range(3):
            sums, defect = up(np.abs(inverse).sum(axis=1)), z @ inverse - one
            off = gamma(z.shape[1] + 2) * (up(np.abs(z) @ sums) + 1)
            off = up(np.abs(defect).sum(axis=1) + off)
            q = float(up(off.max() + up(error * up(sums.sum()))))
            if q < near:
                return Fraction(float(up(sums.max()))) / (1 - Fraction(q))
            inverse = inverse - inverse @ defect  # Newton
    return None


def guess(gram):
    """About the inverse of a matrix, or of one with a little more on its diagonal: any will do."""
    one = np.eye(len(gram))
    with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):
        inverse = np.linalg.inv(gram + one * 2.0**-51 * np.abs(gram).max())
        if np.isfinite(inverse).all():
            return inverse
    return one
