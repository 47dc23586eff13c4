"""Check a certificate about paired heads without trusting the program which made it.

    python -I paired_checker.py CERTIFICATE WEIGHTS DATA [--claims rank error] [--epsilon 1e-9]

An island, like checker.py, for layers so large that no T x T matrix fits: one file, on the standard
library and numpy, with its own arithmetic (so it repeats how files are read, on purpose). What it
checks is proved in proofs/12-paired-heads.md: heads 2p and 2p + 1 read nearly the same on all but a
few examples (`Layer.unlike`), so T equations fall apart into blocks (`Blocks`), up to remainders
which a positive vector w with N w < w bounds. Real numbers are float64 with bounds of their errors:
GAMMA(k) covers k roundings, in whatever order sums are taken, and FLOAT covers the rounding of the
bounds. It prints each claim and PROVED, with status 0, or why not, with status 1.
"""

import argparse
import base64
import hashlib
import json
import math
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np

FORMAT = "constructive paired certificate 1"
STATEMENTS = {
    "rank": "rank Z = T = {}: these attention weights memorize every labelling",
    "error": "max |f(E_t, e_t) - y_t| <= {!r}",
    "readout": "an exact readout is within {!r} of the stored one, entry by entry",
}
NATS, LEFT = 40.0, 4.3e-18  # a token which leads by NATS leaves others at most LEFT > exp(-NATS)
FLOAT = 1.0 + 1e-9  # covers the rounding of sums of up to 10^6 floats which are not negative
TINY = 1e-280  # covers underflow
CHUNK = 1 << 19  # entries of arrays which are worked on at a time
BITS, DIGITS = 20, 5  # numbers as sums of digits, for products which have to be nearly exact
LN2 = 2977044471 * 2.0**-32, 1.9082149292705877e-10  # log(2): its first 32 bits, and the rest
ROUNDS = 500  # of the search for w


def require(condition, reason):
    if not condition:
        raise ValueError(reason)


def GAMMA(terms):  # noqa: N802 - a constant for each k
    return terms * 2.0**-53 / (1.0 - terms * 2.0**-53) * FLOAT


def without_duplicates(pairs):
    require(len({key for key, _ in pairs}) == len(pairs), "a JSON object repeats a key")
    return dict(pairs)


def read_weights(path):
    """The tensors of a .safetensors file: a length, a JSON header, and the bytes."""
    content = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, body, read = json.loads(content[8 : 8 + length]), content[8 + length :], {}
    names = ["W_Q", "W_K", "W_V", "W_O", "W_D"]
    require(set(header) - {"__metadata__"} == set(names), f"the weights are not {names}")
    for name in names:
        kind = {"F64": "<f8", "F32": "<f4"}[header[name]["dtype"]]
        start, stop = header[name]["data_offsets"]
        require(0 <= start <= stop <= len(body), "a tensor is cut off")
        read[name] = np.frombuffer(body[start:stop], dtype=kind).reshape(header[name]["shape"])
        require(read[name].size and np.isfinite(read[name]).all(), f"{name} is not finite")
    return read


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
    fits = contexts.ndim == 3 and contexts.shape[::2] == queries.shape
    fits = fits and len(targets) == len(queries) and targets.ndim < 3
    require(fits and contexts.shape[1] > 1, "these are no examples with contexts of their own")
    return data


def unpack(text, count, below):
    values = np.frombuffer(base64.b64decode(text, validate=True), dtype="<u4").astype(np.int64)
    require(len(values) == count and (values < below).all(), "packed integers misfit")
    return values


def split(x):
    """Digits of 20 bits, the unit of the first one, and a bound of what is left of each entry."""
    top = math.frexp(float(np.abs(x).max()) + TINY)[1] - BITS
    rest, digits = np.ldexp(x, -top), []
    for _ in range(DIGITS):
        digits.append(np.rint(rest))
        rest = (rest - digits[-1]) * 2.0**BITS  # exact
    return digits, top, 2.0 ** (top - BITS * (DIGITS - 1)) + TINY


def precisely(x, y):
    """x.y along the last axis as high + low, and a bound of its error: about 2^-90 |x| |y|."""
    (a, top_a, left_a), (b, top_b, left_b) = split(x), split(y)
    high = low = 0.0
    for order in range(DIGITS + 1):  # at most 5 * 1024 products of at most 2^40: exact
        pairs = [(i, order - i) for i in range(DIGITS) if 0 <= order - i < DIGITS]
        term = sum(np.einsum("...d,...d->...", a[i], b[j]) for i, j in pairs)
        term = np.ldexp(term, top_a + top_b - BITS * order)
        total = high + term
        part = total - high
        low = low + ((high - (total - part)) + (term - part))
        high = total
    size = float(np.abs(x).max() * np.abs(y).max()) + TINY
    dropped = 2.0 ** (top_a + top_b + 2 * BITS + 4 - BITS * (DIGITS + 1))
    ends = float(np.abs(x).max()) * left_b + float(np.abs(y).max()) * left_a + left_a * left_b
    # Partial sums are below d size, so each of 6 parts of `low` is below 2^-53 of that.
    return high, low, x.shape[-1] * (ends + dropped + size * 2.0**-100) * FLOAT


def exponentials(x):
    """exp(x) for x < 1, with relative errors below 2^-46, or absolute ones below 1e-26."""
    half = np.rint(np.maximum(x, -60.0) / LN2[0])
    y = np.maximum(x, -60.0) - half * LN2[0] - half * LN2[1]  # the first difference is exact
    out = np.full_like(x, 1.0 / math.factorial(14))
    for k in range(13, -1, -1):  # off by 28 roundings, and by 0.35^15 / 15! < 2^-62
        out = out * y + 1.0 / math.factorial(k)
    return np.where(x < -60.0, 0.0, np.ldexp(out, half.astype(np.int64)))


class Layer:
    """Paired heads on examples in the order of the certificate."""

    def __init__(self, weights, data, order, stops):
        w_q, w_k, w_v, w_o, w_d = (x.astype(np.float64) for x in weights.values())
        (heads, width, _), value_dim, pairs = w_q.shape, w_v.shape[-1], len(stops)
        self.order, self.stops, self.contexts = order, stops, data["contexts"]
        self.queries = data["queries"][order].astype(np.float64)
        self.targets = data["targets"].reshape(len(order), -1)[order].astype(np.float64)
        outputs = self.targets.shape[1]
        fits = w_k.shape == w_q.shape and w_v.shape == (heads, width, value_dim)
        fits = fits and self.queries.shape[1] == width and w_d.shape == (value_dim, outputs)
        require(fits and w_o.shape == (heads * value_dim, value_dim), "shapes do not fit")
        copies = (w_o == np.tile(np.eye(value_dim), (heads, 1))).all()
        require(copies and (w_d == np.eye(value_dim)[:, :outputs]).all(), "W_O or W_D do not copy")
        require(pairs == heads // 2 > 0, "there is not a pair for two heads each")
        require(not w_q[: 2 * pairs, :, 1:].any(), "heads are not of rank one")
        require(width <= 1024, "tokens have more than 1024 entries")
        arrays = (*weights.values(), *data.values())
        require(all(np.abs(x).max() <= 1e140 for x in arrays), "an entry is larger than 1e140")
        self.key = w_k[0, :, 0]
        require((w_k[: 2 * pairs, :, 0] == self.key).all(), "heads have several key directions")
        readouts = w_v[:, :, :outputs]
        require(not readouts[2 * pairs :].any(), "a head without a partner has a readout")
        self.heads = w_q[: 2 * pairs, :, 0].reshape(pairs, 2, width)
        self.first = readouts[: 2 * pairs : 2]
        self.both = self.first + readouts[1 : 2 * pairs : 2]  # rounded, if it is not zero
        self.scores, longest, self.largest = self.over_contexts()
        self.score_error = GAMMA(width + 2) * float(lengths(self.key)) * longest * FLOAT + TINY
        self.tail = 2 * self.scores.shape[1] * LEFT * self.largest * FLOAT + TINY

    def over_contexts(self):
        total, size, width = self.contexts.shape
        scores, longest, largest = np.empty((total, size)), np.empty(total), np.empty(total)
        for rows in chunks(total, size * width):
            tokens = self.tokens(np.arange(rows.start, rows.stop))
            scores[rows] = tokens @ self.key
            longest[rows] = lengths(tokens).max(axis=1)
            largest[rows] = np.abs(tokens).max(axis=(1, 2))
        return scores, longest, largest

    def tokens(self, positions):
        return self.contexts[self.order[positions]].astype(np.float64)

    def unlike(self, owner):
        """Examples and pairs, but for their own, whose heads are not sure to read one token."""
        ends = np.sort(self.scores, axis=1)
        gaps = [ends[:, -1] - ends[:, -2], ends[:, 1] - ends[:, 0]]
        error = GAMMA(self.queries.shape[1] + 2) * float(lengths(self.heads).max())
        error = error * lengths(self.queries) * FLOAT + TINY
        with np.errstate(divide="ignore"):
            least = [
                NATS / np.maximum(gap / FLOAT - 2 * self.score_error, 0) * FLOAT + error
                for gap in gaps
            ]
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        first, second = (np.ascontiguousarray(self.heads[:, k].T) for k in (0, 1))
        for rows in chunks(len(self.order), 2 * len(self.stops)):
            a, b = self.queries[rows] @ first, self.queries[rows] @ second
            like = np.minimum(a, b) >= least[0][rows, None]
            like |= np.maximum(a, b) <= -least[1][rows, None]
            inside = np.arange(rows.start, min(rows.stop, len(owner)))
            like[inside - rows.start, owner[inside]] = True
            where, pair = np.nonzero(~like)
            found.append((where + rows.start, pair))
            require(sum(len(each) for each, _ in found) <= 8 * len(self.order), "too many couple")
        return [np.concatenate(each) for each in zip(*found, strict=True)]

    def read(self, positions, pairs, signs):
        """signs[0] z_{t,2p} + signs[1] z_{t,2p+1}: (k, d), and bounds (k,) of their errors."""
        (_, size), width = self.scores.shape, len(self.key)
        out, errors = np.empty((len(positions), width)), np.empty(len(positions))
        for part in chunks(len(positions), size * width):
            at = positions[part]
            tokens, scores, zero = self.tokens(at), self.scores[at], np.zeros((len(at), size))
            reach = precisely(self.queries[at, None], self.heads[pairs[part]])
            attention, error = self.attention(reach, scores, zero, self.score_error[at, None])
            worse = np.flatnonzero(~(error < 1e-10))
            if len(worse):  # large logits with small gaps: scores have to be better
                high, low, bound = precisely(tokens[worse], self.key)
                better = [each[worse] for each in reach[:2]]
                attention[worse], error[worse] = self.attention(
                    (*better, reach[2]), high, low, bound
                )
            mixed = signs[0] * attention[:, 0] + signs[1] * attention[:, 1]
            out[part] = np.matmul(mixed[:, None], tokens)[:, 0]
            errors[part] = (error + 3 * GAMMA(size + 2)) * self.largest[at] * FLOAT + TINY
        return out, errors

    @staticmethod
    def attention(reach, scores, low_scores, score_error):
        """Softmax of both heads (k, 2, n), and a bound (k,) of all errors together."""
        high, low, off = reach[0][:, :, None], reach[1][:, :, None], reach[2]
        ends = np.stack([scores.argmin(axis=1), scores.argmax(axis=1)], axis=1)
        top = np.take_along_axis(ends, (high[:, :, 0] > 0).astype(np.int64), axis=1)
        less = [
            x[:, None] - np.take_along_axis(x, top, axis=1)[:, :, None]
            for x in (scores, low_scores)
        ]
        gap = less[0] + less[1]
        logits, size = high * gap + low * gap, np.abs(gap)
        gap_off = 2 * np.reshape(score_error, (-1, 1, 1)) + 2.0**-51 * size
        spread = off * (size + gap_off) + np.abs(high) * (2 * gap_off + 2.0**-51 * size)
        powers = exponentials(logits)
        shares = powers / powers.sum(axis=2, keepdims=True)
        each = 1.01 * (2.0**-46 + spread) * FLOAT
        delta = (shares * each).sum(axis=2) * FLOAT + scores.shape[1] * 1e-26
        error = np.where(each.max(axis=2) < 0.01, 2.1 * delta, np.inf)
        surely = logits + spread * FLOAT
        np.put_along_axis(surely, top[:, :, None], -np.inf, axis=2)
        alone = surely.max(axis=2) <= -NATS * FLOAT
        error = np.where(alone, 5 * scores.shape[1] * LEFT, error)
        return shares, (error + GAMMA(scores.shape[1] + 5)).sum(axis=1) * FLOAT

    def extra_token(self):
        """The token which pair 0 reads from the last example, if it is sure to read one."""
        scores, last = self.scores[-1], len(self.order) - 1
        positive = float(self.queries[-1] @ self.heads[0, 1]) > 0
        return self.tokens(np.array([last]))[0, scores.argmax() if positive else scores.argmin()]


def lengths(x):
    """Upper bounds of lengths along the last axis; squares that underflow add less than 1e-150."""
    return np.sqrt((x * x).sum(axis=-1)) * FLOAT + 1e-150


def chunks(total, entries):
    step = max(1, CHUNK // entries)
    return [slice(start, min(start + step, total)) for start in range(0, total, step)]


class Blocks:
    """I - X R, entry by entry at most N, as the function w -> N w for positive w.

    X holds x_{t,p} = z_{t,2p} - z_{t,2p+1}, and what the second head of pair 0 reads along the
    token of the extra example; R holds a right inverse of each block, near enough.
    """

    def __init__(self, layer, owner, own, coupled):
        self.layer, self.parts, total, width = layer, [], len(layer.order), len(layer.key)
        self.sums, self.column = np.zeros(total), np.zeros(total)
        (values, errors), (self.at, pairs, x, x_error) = own, coupled
        sizes = np.diff(layer.stops, prepend=0)
        require(sizes.min() >= 0 and sizes.max() <= width, "a pair has more than d examples")
        inverses = np.zeros((len(sizes), width, sizes.max()))
        for size in set(sizes.tolist()) - {0}:
            which = np.flatnonzero(sizes == size)
            for part in chunks(len(which), width * width):
                chosen = which[part]
                rows = (layer.stops - sizes)[chosen, None] + np.arange(size)
                block = values[rows]
                inverse = block.transpose(0, 2, 1) @ np.linalg.inv(
                    block @ block.transpose(0, 2, 1)
                )  # once more, by Newton's iteration, for what the Gram matrix lost
                inverse = 2 * inverse - inverse @ (block @ inverse)
                column = np.abs(inverse).sum(axis=1) * FLOAT
                defect = np.abs(block @ inverse - np.eye(size)) + GAMMA(width + 2) * (
                    np.abs(block) @ np.abs(inverse) * FLOAT + 1
                )
                defect += errors[rows][:, :, None] * column[:, None]
                self.parts.append((rows, defect, inverse))
                self.sums[rows] = column
                inverses[chosen, :, :size] = inverse
        self.rows = np.empty((len(x), inverses.shape[2]))
        for part in chunks(len(x), width * inverses.shape[2]):
            size, near = np.abs(inverses[pairs[part]]), x[part, None]
            bound = np.abs(near @ inverses[pairs[part]])[:, 0]
            bound += GAMMA(width + 2) * (np.abs(near) @ size)[:, 0] * FLOAT
            self.rows[part] = bound + x_error[part, None] * size.sum(axis=1) * FLOAT
        start = (layer.stops - sizes)[pairs]
        self.columns = np.minimum(start[:, None] + np.arange(inverses.shape[2]), total - 1)
        self.token = np.zeros(width)
        if len(owner) < total:
            sure = not ((self.at == total - 1) & (pairs == 0)).any()
            require(sure, "pair 0 is not sure to read one token from the extra example")
            token = layer.extra_token()
            self.token = token / (token @ token)
            length = float(np.abs(self.token).sum()) * FLOAT
            self.column = layer.largest * length * FLOAT
            off = GAMMA(width + 2) * layer.largest[-1] + layer.tail[-1]
            self.column[-1] = (abs(float(token @ self.token) - 1) + off * length) * FLOAT

    def __call__(self, w):
        out = self.layer.tail * float(self.sums @ w) * FLOAT + self.column * w[-1] + TINY
        for rows, defect, _ in self.parts:
            out[rows] += (defect @ w[rows][:, :, None])[:, :, 0]
        out += np.bincount(self.at, (self.rows * w[self.columns]).sum(axis=1), len(out))
        return out * FLOAT

    def solve(self):
        """w with N w <= q w for some q < 1, and that q: so X R is nonsingular, and rank Z = T."""
        w = np.ones(len(self.sums))
        bound = self(w)
        for _ in range(ROUNDS):
            if (bound <= 0.51 * w).all() or not bound.max() < 1e100:
                break
            w = np.maximum(1.0, 2.0 * bound)
            bound = self(w)
        q = float((bound / w).max()) * FLOAT
        require(q < 1, "rank: coupling is not shown to contract")
        return w, q

    def reach(self, w):
        """A bound of the entries of R w, the readouts of all heads taken together."""
        bounds = [np.abs(inverse) @ w[rows][:, :, None] for rows, _, inverse in self.parts]
        largest = max(float(bound.max()) for bound in bounds)
        return (largest + float(np.abs(self.token).max() * w[-1])) * FLOAT


def residuals(layer, owner, own, coupled):
    """Upper bounds of |f - y|: (T, d_out)."""
    total, outputs = layer.targets.shape
    unlike = np.flatnonzero(np.abs(layer.both).any(axis=(1, 2)))
    require(len(unlike) <= 1, "the readouts of more than one pair do not cancel")
    everywhere = np.arange(total)
    terms = [(np.arange(len(owner)), *own, layer.first[owner])]
    terms.append((coupled[0], *coupled[2:], layer.first[coupled[1]]))
    for pair in unlike:
        read = layer.read(everywhere, np.full(total, pair), (0.0, 1.0))
        terms.append(
            (everywhere, *read, np.broadcast_to(layer.both[pair], (total, *layer.both[pair].shape)))
        )
    most = sum(int(np.bincount(at, minlength=1).max()) for at, *_ in terms)
    bounds = np.empty((total, outputs))
    for k in range(outputs):
        f, size, error = np.zeros((3, total))
        for at, x, x_error, readouts in terms:
            u = readouts[:, :, k]
            f += np.bincount(at, np.einsum("td,td->t", x, u), total)
            size += np.bincount(at, np.einsum("td,td->t", np.abs(x), np.abs(u)), total)
            error += np.bincount(at, x_error * np.abs(u).sum(axis=1), total)
        error += layer.tail * float(np.abs(layer.first[:, :, k]).sum()) * FLOAT
        error += layer.largest * float(np.abs(layer.both[:, :, k]).sum()) * 2.0**-52
        distance = np.abs(f - layer.targets[:, k])
        error += GAMMA(len(layer.key) + most + 8) * (size + distance) * FLOAT + TINY
        bounds[:, k] = (distance + error * FLOAT) * FLOAT
    return bounds


def check(files, asked=(), epsilon=math.inf):
    """The statements which the files of these names prove; whatever is wrong raises."""
    certificate, weights, data = files
    content = json.loads(Path(certificate).read_bytes(), object_pairs_hook=without_duplicates)
    require(content["format"] == FORMAT, f"the format of the certificate is not {FORMAT!r}")
    data, weights, claims = read_data(data), read_weights(weights), content["claims"]
    for part, arrays in (("data", data), ("weights", weights)):
        hashed, true = hashlib.sha256(), {}
        for name, x in arrays.items():
            true[name] = {"dtype": x.dtype.name, "shape": list(x.shape)}
            hashed.update(f"{name} {x.dtype.str} {list(x.shape)}\n".encode())
            hashed.update(np.ascontiguousarray(x).data)
        true["sha256"] = hashed.hexdigest()
        require(content[part] == true, f"it is about other {part}")
    require(claims and set(claims) <= set(STATEMENTS), "it claims nothing, or nothing known")
    require(set(asked) <= set(claims), "it does not claim all that is asked")
    require(all(c["verdict"] == "PROVED" for c in claims.values()), "not all claims are PROVED")
    bound = {k: float.fromhex(claims[k]["evidence"]["bound"]) for k in claims if k != "rank"}
    require(all(0 <= x < math.inf for x in bound.values()), "a bound is no number")
    require(bound.get("error", math.inf) <= epsilon, "epsilon is not claimed, or is larger")
    total, pairs = len(data["queries"]), len(weights["W_Q"]) // 2
    shown = {"rank": total, **bound}
    statements = {name: STATEMENTS[name].format(shown[name]) for name in claims}
    for name, claim in claims.items():
        require(claim["statement"] == statements[name], f"it does not state: {statements[name]}")

    order, stops = np.arange(total), np.zeros(pairs, dtype=np.int64)  # the error needs no blocks
    if "rank" in claims:
        order = unpack(claims["rank"]["evidence"]["order"], total, total)
        stops = unpack(claims["rank"]["evidence"]["stops"], pairs, total + 1)
        require((np.bincount(order, minlength=total) == 1).all(), "order is no order of examples")
        ordered = pairs and (np.diff(stops, prepend=0) >= 0).all() and stops[-1] >= total - 1
        require(ordered, "the pairs do not take all examples but one at most")
    require("rank" in claims or "readout" not in claims, "a readout without the claim rank")
    with np.errstate(all="ignore"):  # what overflows or is not a number compares as not proved
        layer = Layer(weights, data, order, stops)
        owner = np.repeat(np.arange(pairs), np.diff(stops, prepend=0))
        at, which = layer.unlike(owner)
        coupled = at, which, *layer.read(at, which, (1.0, -1.0))
        own = layer.read(np.arange(len(owner)), owner, (1.0, -1.0))
        if bound:
            distances = residuals(layer, owner, own, coupled)
        if "error" in bound:
            worst = float(distances.max())
            require(worst <= bound["error"], f"error: |f - y| may be {worst:.3g}")
        if "rank" in claims:
            blocks = Blocks(layer, owner, own, coupled)
            w, q = blocks.solve()
        if "readout" in bound:
            scaled = float((distances / w[:, None]).max()) * FLOAT
            near = blocks.reach(w) * scaled / (1 - q) * FLOAT + TINY
            require(near <= bound["readout"], f"readout: only {near:.3g} is shown")
    return statements


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs=3, help="CERTIFICATE WEIGHTS DATA")
    parser.add_argument("--claims", nargs="*", default=(), help="refuse if one is missing")
    parser.add_argument("--epsilon", type=float, default=math.inf, help="refuse a larger epsilon")
    given = parser.parse_args(arguments)
    try:
        shown = check(given.files, given.claims, given.epsilon)
        print(*(f"{name:9} {statement}" for name, statement in shown.items()), "PROVED", sep="\n")
    except Exception as failure:  # hostile files make readers raise nearly everything
        print(f"NOT PROVED: {failure!a:.300}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
