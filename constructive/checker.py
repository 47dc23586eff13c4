"""Check a certificate without trusting the program which made it.

    python -I checker.py CERTIFICATE [WEIGHTS] DATA [--quick] [--claims rank] [--epsilon 1e-9]

An island: one file, on the standard library, numpy and mpmath, with its own forward pass. Integers
modulo primes below 2^22 are floats in sums below 2^53; real numbers are digits of 20 bits, with one
bound of the error of an array (docs/certificates.md). It prints each claim and PROVED, with status
0, or why not, with status 1. It neither checks nor prints "detail" and "made_by" of a certificate.
"""

import argparse
import base64
import hashlib
import json
import math
import struct
import sys
import zipfile
from collections import namedtuple
from fractions import Fraction
from pathlib import Path

import numpy as np
from mpmath.libmp import from_man_exp, mpf_exp, to_fixed

FORMAT, ROUNDS = "constructive certificate 1", 12
LARGEST_FIXED = 2_000_000  # entries of Z up to which it is inverted in fixed point
BITS = 20  # of a fixed-point digit
FLOAT = 1.0 + 1e-9  # covers the rounding of sums of up to 10^6 floats which are not negative
STATEMENTS = {
    "grouping": "all contexts have rank n = {}; the queries of each of {} groups are independent, "
    "and no group but the first has another query in its span",
    "rank": "rank Z = T = {}: these attention weights memorize every labelling",
    "error": "max |f(E_t, e_t) - y_t| <= {!r}",
    "impossible": "rank Z <= {} < T = {} for all weights of H = {} heads: "
    "none memorize every labelling",
    "readout": "an exact readout is within {!r} of the stored one, entry by entry",
}


def require(condition, reason):
    if not condition:
        raise ValueError(reason)


def without_duplicates(pairs):
    require(len({key for key, _ in pairs}) == len(pairs), "a JSON object repeats a key")
    return dict(pairs)


def read_weights(path):
    """The tensors of a .safetensors file: a length, a JSON header, and the bytes."""
    content = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, body, read = json.loads(content[8 : 8 + length]), content[8 + length :], {}
    for name in set(header) - {"__metadata__"}:
        kind = {"F64": "<f8", "F32": "<f4"}[header[name]["dtype"]]
        start, stop = header[name]["data_offsets"]
        require(0 <= start <= stop <= len(body), "a tensor is cut off")
        read[name] = np.frombuffer(body[start:stop], dtype=kind).reshape(header[name]["shape"])
    names = ["W_Q", "W_K", "W_V", "W_O", "W_D", *(["W_V_corrections"] * (len(read) == 6))]
    require(set(read) == set(names), "the weights are not W_Q, W_K, W_V, W_O, W_D")
    tensors = {name: read[name] for name in names}
    (heads, width, inner), value_dim = read["W_Q"].shape, read["W_V"].shape[-1]
    shapes, between = [(heads, width, k) for k in (inner, inner, value_dim)], read["W_O"].shape[-1]
    shapes += [(heads * value_dim, between), (between, read["W_D"].shape[-1])]
    shapes += [(len(tensors[names[-1]]), heads, width, value_dim)]
    fits = all(x.shape == shape for x, shape in zip(tensors.values(), shapes, strict=False))
    finite = all(x.size and x.dtype == kind and np.isfinite(x).all() for x in read.values())
    require(fits and finite, "the weights do not fit together, or are not finite")
    return tensors


def read_data(path):
    """The arrays of an .npz file as float32 or float64; integers become float64 exactly."""
    unpacked, data = sum(entry.file_size for entry in zipfile.ZipFile(path).infolist()), {}
    require(unpacked < 1 << 33, "the data unpack to 8 GiB or more")
    with np.load(path, allow_pickle=False) as archive:
        for name in ("contexts", "queries", "targets"):
            array = archive[name]
            real = array.dtype.kind in "biuf" and array.itemsize <= 8 and array.size < 1 << 30
            require(real, f"{name} are not real, or 8 GiB or more")
            small = array.dtype.kind == "f" or (np.abs(array.astype(np.float64)) < 2.0**53).all()
            require(small, f"{name} have integers of 2^53 or more")
            kind = {"f4": "<f4", "f2": "<f4"}.get(array.dtype.str[1:], "<f8")
            data[name] = np.ascontiguousarray(array, dtype=kind)
            require(array.size and np.isfinite(data[name]).all(), f"{name} are not finite")
    contexts, queries, targets = data.values()
    (total, width), size = queries.shape, contexts.shape[-2]
    fits = contexts.shape in ((size, width), (total, size, width))
    require(fits and len(targets) == total and targets.ndim < 3, "the data do not fit together")
    return data


def unpack(text, shape, below):
    values = np.frombuffer(base64.b64decode(text, validate=True), dtype="<u4")
    require(len(values) == math.prod(shape) and (values < below).all(), "packed integers misfit")
    return values.astype(np.int64).reshape(shape)


def reduce(x, m):
    """Integers modulo m < 2^22, as floats of size at most m/2 + 2, in the array itself."""
    flat = x.reshape(-1) if x.flags.c_contiguous else x[None]
    for start in range(0, len(flat), 1 << 14):
        part = flat[start : start + (1 << 14)]
        part -= np.rint(part * (1.0 / m)) * m
    return x


def times(a, b, m):
    """a @ b modulo m, exact since 1024 products stay below 2^53."""
    out = reduce(a[..., :1024] @ b[..., :1024, :], m)
    for k in range(1024, a.shape[-1], 1024):
        reduce(np.add(out, a[..., k : k + 1024] @ b[..., k : k + 1024, :], out=out), m)
    return out


def residues(x, *moduli):
    """x / 2^unit, integers, for each modulus; 2^unit is a last bit of the smallest entry of x."""
    unit = math.frexp(np.abs(x).min(where=x != 0, initial=np.inf))[1] - 53 if x.any() else 0
    highest = max(0, math.frexp(np.abs(x).max())[1] - 53 - unit)
    tables = [np.array([pow(2, k, m) for k in range(highest + 28)], dtype=float) for m in moduli]
    outs = [np.empty(x.size) for _ in moduli]
    for start in range(0, x.size, 1 << 14):
        mantissa, exponent = np.frexp(x.reshape(-1)[start : start + (1 << 14)].astype(np.float64))
        high = np.trunc(mantissa * 2.0**26)  # 26 bits, and 27, to be times powers of 22
        low = (mantissa * 2.0**26 - high) * 2.0**27
        shift = np.maximum(exponent.astype(np.int64) - 53 - unit, 0)  # a zero has any exponent
        for m, table, out in zip(moduli, tables, outs, strict=True):
            whole = high * table.take(shift + 27, mode="clip")
            whole += low * table.take(shift, mode="clip")
            out[start : start + (1 << 14)] = reduce(whole, m)
    return [out.reshape(x.shape) for out in outs]


def inverses(x, p):
    out, square, exponent = np.ones_like(x), x.copy(), p - 2
    while exponent:
        out = reduce(out * square, p) if exponent & 1 else out
        square, exponent = reduce(square * square, p), exponent >> 1
    return out


def representation_modulo(weights, data, p, a, columns):
    """The given columns of Z(a) modulo p, times a power of two."""
    m, (heads, width, _) = p - 1, weights["W_Q"].shape
    contexts = data["contexts"].reshape(-1, *data["contexts"].shape[-2:])
    exponents, tokens = residues(contexts, m, p)
    small = np.array([pow(a, k, p) for k in range(2048)], dtype=np.float64)
    large = np.array([pow(a, 2048 * k, p) for k in range((p >> 11) + 1)], dtype=np.float64)
    w_q, w_k = residues(weights["W_Q"], m)[0], residues(weights["W_K"], m)[0]
    both = times(w_q, np.ascontiguousarray(w_k.transpose(0, 2, 1)), m).transpose(1, 0, 2)
    both, queries = both.reshape(width, -1), residues(data["queries"], m)[0]
    out = np.empty((len(queries), len(columns)))
    step = max(1, (1 << 17) // (heads * max(contexts.shape[1:])))
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        own = rows if len(contexts) > 1 else slice(1)
        absorbed = times(queries[rows], both, m).reshape(-1, heads, width)
        logits = times(absorbed, exponents[own].transpose(0, 2, 1), m)
        index = (logits + m * (logits < 0)).astype(np.int64)
        powers = small.take(index & 2047, mode="clip") * large.take(index >> 11, mode="clip")
        reduce(powers, p)
        sums = reduce(powers.sum(axis=2), p)
        require(sums.all(), "a softmax denominator vanishes modulo p")
        z = times(powers, tokens[own], p).reshape(len(sums), -1)
        inverse = inverses(sums, p).take(columns // width, axis=1, mode="clip")
        out[rows] = reduce(z.take(columns, axis=1, mode="clip") * inverse, p)
    return out


def require_nonsingular(a, p):
    """Eliminate a square matrix modulo p from the right, in blocks of rows; a is used up."""
    for first in range(0, len(a), 64):
        last = min(first + 64, len(a))
        for k in range(first, last):  # entries of the rows below are sums of 64 products: < 2^49
            reduce(a[k, k:], p)
            pivot = k + int((a[k, k:] != 0).argmax())
            require(a[k, pivot] != 0, "Z is singular modulo p at this point")
            if pivot != k:
                a[:, [k, pivot]] = a[:, [pivot, k]]
            a[k + 1 : last, k] = reduce(a[k + 1 : last, k].copy(), p)
            a[k, k + 1 :] = reduce(a[k, k + 1 :] * float(pow(int(a[k, k]), -1, p)), p)
            a[k + 1 : last, k + 1 :] -= a[k + 1 : last, k : k + 1] * a[k, k + 1 :]
        for k in range(first + 1, last):
            a[last:, k] = reduce(a[last:, k] - a[last:, first:k] @ a[first:k, k], p)
        rest = a[last:, last:] - a[last:, first:last] @ a[first:last, last:]
        a[last:, last:] = reduce(rest, p)


def full_rank(batch, p):
    """Which matrices (B, k, d), k <= d, are shown to have rank k modulo p, by random mixtures."""
    rng = np.random.default_rng(len(batch))
    mixing = reduce(rng.integers(p, size=batch.shape[:0:-1]).astype(np.float64), p)
    a, shown = times(batch, mixing, p), np.ones(len(batch), dtype=bool)
    for k in range(a.shape[1]):
        pivot = np.arange(len(a)), k + (a[:, k:, k] != 0).argmax(axis=1)
        row = a[pivot]
        a[pivot] = a[:, k]
        shown &= row[:, k] != 0
        rest = a[:, k + 1 :, k + 1 :] * row[:, None, k : k + 1]
        a[:, k + 1 :, k + 1 :] = reduce(rest - a[:, k + 1 :, k : k + 1] * row[:, None, k + 1 :], p)
    return shown


# sum_k digits[k] 2^(top - 20 k) is within `error` of the truth, |truth| <= bound, |digits| <= 2^20
Fixed = namedtuple("Fixed", "digits top error bound")


def fixed(parts, count):
    bound = sum(float(np.abs(part).max()) for part in parts) * FLOAT
    top, left = math.frexp(bound)[1] - BITS + 1, 0.0
    digits = np.zeros((count + 1, *parts[0].shape))
    for part in parts:
        rest = np.ldexp(part.astype(np.float64), -top)
        for k in range(count):
            digits[k + 1] += np.rint(rest)
            rest = (rest - np.rint(rest)) * 2.0**BITS
        left += float(np.abs(rest).max()) * 2.0**-BITS
    error = left * 2.0 ** (top - BITS * (count - 1)) + 2.0 ** max(top - 1000, -1000)
    return normal(carried(digits), top + BITS, error, bound, count)


def carried(digits):
    for k in range(len(digits) - 1, 0, -1):
        carry = np.rint(digits[k] * 2.0**-BITS)
        digits[k] -= carry * 2.0**BITS
        digits[k - 1] += carry
    return digits


def normal(digits, top, error, bound, count):
    """Drop leading digits which are zero everywhere, and cut to `count` digits."""
    first = next((k for k, digit in enumerate(digits) if digit.any()), len(digits) - 1)
    error += (len(digits) > first + count) * 2.0 ** (top - BITS * (first + count - 1))
    return Fixed(digits[first : first + count], top - BITS * first, error * FLOAT, bound)


def multiply(x, y, count):
    """x @ y to `count` digits; sums of at most 2^12 products of at most 2^40 are exact."""
    inner, kept, total = x.digits.shape[-1], count + 1, 0.0
    step = max(1, (1 << 12) // kept)
    for start in range(0, inner, step):
        part, sums = slice(start, start + step), [0.0] * (kept + 3)
        for i, a in enumerate(x.digits[:kept]):
            for j, b in enumerate(y.digits[: kept - i]):
                sums[3 + i + j] = sums[3 + i + j] + a[..., part] @ b[..., part, :]
        total = carried(total + np.stack(np.broadcast_arrays(*sums)))
    top, bound = x.top + y.top, inner * x.bound * y.bound * FLOAT + 1e-300
    error = x.bound * y.error + y.bound * x.error + x.error * y.error + 1e-300
    error += len(x.digits) * len(y.digits) * 2.0 ** (2 * BITS + top - BITS * kept)
    return normal(total, top + 3 * BITS, inner * error, bound, count)


def floats(x):
    """The nearest floats or so, and a bound on their distance to the truth."""
    scales = [2.0 ** max(x.top - BITS * k, -1000) for k in range(len(x.digits))]
    values = sum(d * s for d, s in zip(x.digits[::-1], scales[::-1], strict=True))
    return values, x.error + 2.0**-50 * float(np.abs(values).max()) + 2.0**-900


def integers(digits):
    """Digits as Python integers, in units of the last one."""
    return sum(d << (BITS * k) for k, d in enumerate(digits[::-1].astype(np.int64).astype(object)))


def arranged(x, function):
    return x._replace(digits=np.stack([function(digit) for digit in x.digits]))


def softmax(logits, count):
    """Attention (B, H, n). Tokens whose share is below e^-cut of the largest one count as zero."""
    if not logits.error < 0.01:
        raise OverflowError("logits need more digits")
    large = floats(logits)[0].argmax(axis=-1)[..., None]  # nearly the largest; others less it:
    less = arranged(logits, lambda x: x - np.take_along_axis(x, large, axis=-1)).digits
    rough = floats(logits._replace(digits=carried(less)))[0]
    size, cut, unit, widest = rough.shape[-1], 14.0 * count, BITS * (count - 1), 0
    low = rough.max(axis=-1, keepdims=True) * (1 - 2.0**-48) - (cut + 0.1)
    alive = rough + np.abs(rough) * 2.0**-48 >= low
    several = alive & (alive.sum(axis=-1, keepdims=True) > 1)
    digits = np.zeros((count, *rough.shape))
    digits[0] = alive & ~several
    places = np.argwhere(several)
    if len(places):
        exact = integers(logits.digits[(slice(None), *places.T)])
        scale = logits.top - BITS * (len(logits.digits) - 1)
        owner = places[:, 0] * rough.shape[1] + places[:, 1]
        first, owner = np.unique(owner, return_index=True, return_inverse=True)[1:]
        below = exact - np.maximum.reduceat(exact, first)[owner]
        for k, difference in enumerate(below):
            exponent = from_man_exp(difference, scale)
            low, high = (to_fixed(mpf_exp(exponent, unit + 20, r), unit) for r in "fc")
            below[k], widest = low, max(widest, high - low + 2)
        share = (below << unit) // np.add.reduceat(below, first)[owner]
        for k in range(count):
            digits[(k, *places.T)] = (share >> (unit - BITS * k)) & ((1 << BITS) - 1)
    # Logits off by e change a share by less than 2.1 e; the largest term of a denominator is 1.
    lost = 2 * (size + 1) * (widest * 2.0**-unit + math.exp(-cut)) + 2.0**-unit
    return Fixed(digits, 0, 2.1 * logits.error + lost, 1.0)


def representation(weights, data, count, whole):
    """Z in fixed point, a few examples at a time: yields rows and a Fixed (rows, H d)."""
    (heads, width, _), total = weights["W_Q"].shape, len(data["queries"])
    w_k = fixed([weights["W_K"].transpose(0, 2, 1)], count)
    both = multiply(fixed([weights["W_Q"]], count), w_k, count)
    both = arranged(both, lambda x: x.transpose(1, 0, 2).reshape(width, -1))
    step = total if whole else max(1, (1 << 18) // (heads * max(data["contexts"].shape[-2:])))
    for start in range(0, total, step):
        rows = slice(start, start + step)
        absorbed = multiply(fixed([data["queries"][rows]], count), both, count)
        absorbed = arranged(absorbed, lambda x: x.reshape(-1, heads, width))
        own = data["contexts"].ndim == 3
        tokens = fixed([data["contexts"][rows] if own else data["contexts"]], count)
        logits = multiply(absorbed, arranged(tokens, lambda x: x.swapaxes(-1, -2)), count)
        z = multiply(softmax(logits, count), tokens, count)
        yield rows, arranged(z, lambda x: x.reshape(-1, heads * width))


def residuals(weights, data, count, keep):
    """An upper bound of |f - y|, as a fraction, and Z as a list of Fixed if it is to be kept."""
    heads, width, value_dim = weights["W_V"].shape
    values = fixed([weights["W_V"], *weights.get("W_V_corrections", [])], count)
    output = fixed([weights["W_O"].reshape(heads, value_dim, -1)], count)
    readout = multiply(multiply(values, output, count), fixed([weights["W_D"]], count), count)
    readout = arranged(readout, lambda x: x.reshape(heads * width, -1))
    targets, worst, z_all = data["targets"].reshape(len(data["targets"]), -1), Fraction(0), []
    require(readout.digits.shape[-1] == targets.shape[1], "targets do not fit the weights")
    whole = keep and len(targets) * heads * width <= LARGEST_FIXED  # at once, for its inverse
    for rows, z in representation(weights, data, count, whole):
        out = multiply(z, readout, count)
        unit, error = Fraction(2) ** (out.top - BITS * (len(out.digits) - 1)), Fraction(out.error)
        for value, target in zip(integers(out.digits).flat, targets[rows].flat, strict=True):
            worst = max(worst, abs(value * unit - Fraction(float(target))) + error)
        z_all.extend([z] * keep)
    return worst, z_all


def right_inverse_bound(z_all, count):
    """kappa = |R| / (1 - |I - Z R|) for some R, by floats or else in fixed point; or None."""
    pieces = [floats(part) for part in z_all]
    z, error = np.concatenate([piece[0] for piece in pieces]), max(piece[1] for piece in pieces)
    gamma, one = (max(z.shape) + 16) * 2.0**-53 * FLOAT, np.eye(len(z))
    with np.errstate(all="ignore"):
        gram = z @ z.T
        start = np.linalg.inv(gram + one * 2.0**-51 * gram.max())  # any guess will do
        inverse = z.T @ start
        sizes = np.abs(inverse).sum(axis=1)
        defects = np.abs(z @ inverse - one).sum(axis=1) + gamma * (np.abs(z) @ sizes + 1)
        q = float(defects.max() + error * sizes.sum()) * FLOAT + 1e-200
    if q < 1 or z.size > LARGEST_FIXED:
        return float(sizes.max()) * FLOAT / (1 - q) * FLOAT if q < 1 else None
    turned = arranged(z_all[0], np.transpose)
    gram = multiply(z_all[0], turned, count)
    right = fixed([start], count)
    for _ in range(8):  # any R will do, so the digits of one are R, and have no error
        left, error = floats(multiply(gram, right, count))
        q = float(np.abs(left - one).sum(axis=1).max() + len(one) * error) * FLOAT
        if q < 0.5:
            wide, error = floats(multiply(turned, right, count))
            return float(np.abs(wide).sum(axis=1).max() + len(one) * error) * FLOAT / (1 - q)
        right = multiply(right, fixed([np.linalg.inv(left)], count), count)._replace(error=0.0)
        right = right._replace(bound=float(np.abs(right.digits[0]).max() + 1) * 2.0**right.top)
    return None


def check_grouping(evidence, weights, data, _hashes, _quick):
    p, groups, contexts = evidence["prime"], evidence["groups"], data["contexts"]
    size, width = contexts.shape[-2:]
    normals = unpack(evidence["normals"], (len(groups), width), p).astype(np.float64)
    ends, total = [0, *(stop for _, stop in groups)], len(data["queries"])
    require(all(type(end) is int for pair in groups for end in pair), "a group is not integers")
    tiled = ends[:-1] == [start for start, _ in groups] and ends[-1] == total
    small = all(0 <= b - a <= max(1, size - (k > 0)) for k, (a, b) in enumerate(groups))
    require(tiled and small and len(groups) == len(weights["W_Q"]), "the groups are no partition")
    contexts = residues(contexts.reshape(-1, size, width), p)[0]
    require(size <= width and full_rank(contexts, p).all(), "a context is not shown to have rank n")
    queries = residues(data["queries"], p)[0]
    orthogonal = times(queries, reduce(normals.T.copy(), p), p) == 0
    for head, (start, stop) in enumerate(groups):
        if start < stop:
            require(full_rank(queries[None, start:stop], p).all(), f"group {head}: dependent mod p")
            alone = head == 0 or set(np.flatnonzero(orthogonal[:, head])) == {*range(start, stop)}
            require(alone, f"a query is not shown to be outside of the span of group {head}")
    return size, len(groups)


def check_rank(evidence, weights, data, hashes, quick):
    p, a, total = evidence["prime"], evidence["value"], len(data["queries"])
    require(type(a) is int and 1 < a < p, "a is not between 1 and p")
    columns = unpack(evidence["columns"], (total,), math.prod(weights["W_Q"].shape[:2]))
    solution = unpack(evidence["solution"], (total, ROUNDS), p).astype(np.float64)
    require(len(np.unique(columns)) == total, "a column of Z is named twice")
    z = representation_modulo(weights, data, p, a, columns)
    if quick:  # nobody can choose these right-hand sides, and a singular Z has few in its range
        hashed = hashlib.shake_256(b"constructive rank 1" + hashes + struct.pack("<II", p, a))
        hashed.update(columns.astype("<u4").tobytes())
        right = np.frombuffer(hashed.digest(8 * ROUNDS * total), "<u8") % np.uint64(p)
        left = times(z, reduce(solution, p), p).astype(np.int64) % p
        require((left.ravel() == right.astype(np.int64)).all(), "the solution modulo p is wrong")
    else:
        require_nonsingular(z, p)
    return (total,)


def check_impossible(evidence, data):
    """x with e.x = 1 for every token makes H - 1 null vectors, whatever the weights are."""
    heads, tokens = evidence["heads"], data["contexts"].reshape(-1, data["contexts"].shape[-1])
    require(type(heads) is int and heads > 0, "H is not a number of heads")
    solution = [(j, int(x, 16)) for j, x in enumerate(evidence["solution"]) if int(x, 16)]
    denominator, bound = int(evidence["denominator"], 16), heads * (min(tokens.shape) - 1) + 1
    sums = (sum(Fraction(row[j]) * x for j, x in solution) for row in tokens.tolist())
    require(denominator and all(s == denominator for s in sums), "a token is off the hyperplane")
    require(len(data["queries"]) > bound, f"{bound} examples or fewer are possible")
    return bound, len(data["queries"]), heads


def check_real(bounds, weights, data):
    """|f - y| <= epsilon for the claim error, and kappa |f - y| <= delta for the claim readout."""
    kappa = previous = None
    for count in (5, 7, 10, 14, 20, 28, 40) if bounds else ():
        try:
            worst, z_all = residuals(weights, data, count, "readout" in bounds and kappa is None)
            if z_all:
                kappa = right_inverse_bound(z_all, count)
        except (OverflowError, np.linalg.LinAlgError):  # more digits may decide
            continue
        small = "error" not in bounds or worst <= bounds["error"]
        near = "readout" not in bounds or (kappa and worst * Fraction(kappa) <= bounds["readout"])
        if small and near:
            return
        if previous is not None and worst > previous * Fraction(99, 100):
            require(small, f"error: |f - y| may be {float(worst):.3g}, beyond {bounds['error']!r}")
            require(kappa is None, "readout: no exact one is shown to be so near")
        previous = worst
    require(not bounds, "error, readout: not shown with 40 digits of 20 bits")


def check(files, quick=False, asked=(), epsilon=math.inf):
    """The statements which the files of these names prove; whatever is wrong raises."""
    certificate, *weights, data = files
    content = json.loads(Path(certificate).read_bytes(), object_pairs_hook=without_duplicates)
    require(content["format"] == FORMAT, f"the format of the certificate is not {FORMAT!r}")
    data, weights = read_data(data), read_weights(*weights) if weights else {}
    claims, hashes, statements, real = content["claims"], b"", {}, {}
    for part, arrays in (("data", data), ("weights", weights)):
        hashed, true = hashlib.sha256(), {}
        for name, x in arrays.items():
            true[name] = {"dtype": x.dtype.name, "shape": list(x.shape)}
            hashed.update(f"{name} {x.dtype.str} {list(x.shape)}\n".encode())
            hashed.update(np.ascontiguousarray(x).data)
        hashes, true["sha256"] = hashes + hashed.digest(), hashed.hexdigest()
        require(content[part] == true, f"it is about other {part}")
    fits = not weights or data["queries"].shape[1] == weights["W_Q"].shape[1]
    large = len(weights.get("W_Q", ())) * max(data["contexts"].shape[-2:])
    require(fits, "the data do not fit the weights")
    require(large < 1 << 24, f"one example needs arrays of {large} entries")
    require(claims and set(claims) <= set(STATEMENTS), "it claims nothing, or nothing known")
    require(set(asked) <= set(claims), "it does not claim all that is asked")
    require(all(c["verdict"] == "PROVED" for c in claims.values()), "not all claims are PROVED")
    for name, claim in claims.items():
        if name in ("error", "readout"):
            real[name] = float.fromhex(claim["evidence"]["bound"])
            require(0 <= real[name] < math.inf, f"the bound of {name} is no number")
            shown = (real[name],)
        elif name == "impossible":
            shown = check_impossible(claim["evidence"], data)
        else:
            p = claim["evidence"]["prime"]
            require(type(p) is int and 1 << 21 < p < 1 << 22, "p is not between 2^21 and 2^22")
            require(all(p % k for k in range(2, 2049)), f"p = {p} is not prime")
            function = check_rank if name == "rank" else check_grouping
            shown = function(claim["evidence"], weights, data, hashes, quick)
        statement = statements[name] = STATEMENTS[name].format(*shown)
        require(claim["statement"] == statement, f"it does not state: {statement}")
    require(real.get("error", math.inf) <= epsilon, "error: epsilon is not claimed, or is larger")
    check_real(real, weights, data)
    return statements


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", help="CERTIFICATE WEIGHTS DATA")
    parser.add_argument("--quick", action="store_true", help="rank by products, error < 2^-100")
    parser.add_argument("--claims", nargs="*", default=(), help="refuse if one is missing")
    parser.add_argument("--epsilon", type=float, default=math.inf, help="refuse a larger epsilon")
    given = parser.parse_args(arguments)
    try:
        shown = check(given.files, given.quick, given.claims, given.epsilon)
        print(*(f"{name:9} {statement}" for name, statement in shown.items()), "PROVED", sep="\n")
    except Exception as failure:  # hostile files make readers raise nearly everything
        print(f"NOT PROVED: {failure!a:.300}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
