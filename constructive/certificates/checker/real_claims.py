"""The claims *error* and *readout*, about real numbers: in float64, or with enough digits."""

from fractions import Fraction

import numpy as np

import float_claims
from attend import Heads, attend
from bounds import chunks, entries
from digits import Digits, exponential
from files import require
from fixed import BITS, arranged, fixed, integers, multiply
from floating import DIGITS
from inverse import GAINED, LARGEST, NEARER, inverse_in_floats, right_inverse_bound
from steps import silent
from views import Examples

COUNTS = (5, 7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 224)  # of digits
MINUTE = 2e12  # operations which more digits may cost
CHUNK = 1 << 18  # entries of arrays which are worked on at a time
LESS = Fraction(99, 100)  # of a residual which more digits would still lower


class Work:
    """What has been done and may be done, in operations."""

    def __init__(self, allowed, tell=silent):
        self.spent, self.allowed, self.tell = 0, allowed, tell

    def take(self, operations):
        self.spent += operations
        require(self.spent <= self.allowed, "not shown with the digits which a minute allows")


def needs(shapes, count, keep):
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
    allowed, previous = first(shapes, "readout" in bounds)[1], None
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
            found = float_claims.residuals(weights, data, readout, keep, work)
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
        held, operations = needs(shapes, count, keep)
        if held > most or work.spent + operations > work.allowed:
            return
        work.take(operations)
        yield count


def first(shapes, keep):
    """Bytes and operations for the fewest digits, with all exponentials there may be."""
    total, size, heads = shapes[0], shapes[1], shapes[4]
    held, operations = needs(shapes, COUNTS[0], keep)
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
