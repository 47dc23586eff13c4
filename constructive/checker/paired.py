"""Certificates of paired heads, for layers so large that no T x T matrix fits.

By proofs/12-paired-heads.md heads 2p and 2p + 1 read nearly the same on all but a few examples
(`Scan.unlike`), so T equations fall apart into blocks (`Blocks`), up to remainders which a
positive vector w with N w < w bounds. Contexts are read once (`Scan`), a few at a time, and again
for entries which couple. Real numbers are float64 with bounds of their errors: `gamma`
covers rounding, in whatever order sums are taken, and `up` that of the bounds. Data and weights are
brought to size one by powers of two first.
"""

import math
from collections import namedtuple
from fractions import Fraction
from pathlib import Path

import numpy as np

from . import pieces
from .attend import Examples, Numbers, attend
from .bounds import LONGEST, UNIT, above, chunks, exponent, exponentials, gamma, lengths, up
from .claim import About, Shown
from .error import InFloats, of_floats
from .files import (
    BLOCK,
    LENGTHS,
    announce,
    bytes_of,
    data_shapes,
    read_data,
    read_folder,
    read_weights,
    require,
    require_about,
    silent,
    unpack,
    weights_shapes,
)
from .floating import Sized
from .layers import shapes_of, sizes_of
from .rank import Rank, require_possible

# Attention of pairs of heads of rank one: reaches times scores, each a high and a low part.
#
# logits  l_j = (e . q) (x_j . k)      so differences of scores count, times the reach e . q

NATS, LEFT = 40.0, 4.3e-18  # a token which leads by NATS leaves others at most LEFT > exp(-NATS)
NEAR = 1e-10  # errors of attention with which scores of one part are good enough
BITS, DIGITS = 20, 5  # numbers as sums of digits, for products which have to be nearly exact

Parts = namedtuple("Parts", "high low off")  # their sum, and a bound of its error


class Pairs(Numbers):
    """Scores of tokens by the key of all heads, which are given: Parts (B, n)."""

    def __init__(self, scores):
        self.scores = scores

    def weights(self, w):
        return w

    def queries(self, x):
        return x

    def tokens(self, parts):
        return self.arranged(self.scores, lambda x: x[..., None]), parts[0]

    def product(self, x, y):
        """Logits less one of the largest, and bounds of what they are off by."""
        ends = np.stack([y.high.argmin(axis=2), y.high.argmax(axis=2)], axis=1)
        top = np.take_along_axis(ends, (x.high > 0).astype(np.int64), axis=1)
        gap = sum(part - np.take_along_axis(part, top, axis=2) for part in (y.high, y.low))
        size = np.abs(gap)
        off = up(2 * np.reshape(y.off, (-1, 1, 1)) + 4 * UNIT * size)
        spread = up(x.off * up(size + off) + np.abs(x.high) * up(2 * off + 4 * UNIT * size))
        return Sized(x.high * gap + x.low * gap, spread)

    def softmax(self, logits, hidden):
        """Attention of both heads (B, 2, n), and a bound (B,) of all errors together."""
        values, spread = logits
        values = values if hidden is None else np.where(hidden, -np.inf, values)
        powers = exponentials(values)
        shares = powers / powers.sum(axis=2, keepdims=True)
        each = up(1.01 * (2.0**-46 + spread))
        delta = up((shares * each).sum(axis=2)) + values.shape[2] * 1e-26
        error = np.where(each.max(axis=2) < 0.01, 2.1 * delta, np.inf)
        surely = values + spread
        np.put_along_axis(surely, values.argmax(axis=2)[..., None], -np.inf, axis=2)
        alone = surely.max(axis=2) <= -NATS * (1 + 2.0**-30)
        error = np.where(alone, 5 * values.shape[2] * LEFT, error)
        return shares, up((error + gamma(values.shape[2] + 5)).sum(axis=1))

    def arranged(self, x, function):
        if isinstance(x, Parts):
            return x._replace(high=function(x.high), low=function(x.low))
        return Sized(*map(function, x)) if isinstance(x, Sized) else function(x)


class PairOfEach:
    """Two heads (B, 2, d) for each query."""

    count = 2

    def __init__(self, heads):
        self.heads = heads

    def absorbed(self, numbers, queries):
        """Reaches (B, 2, 1)."""
        reach = Parts(*precisely(queries[:, None], self.heads))
        return numbers.arranged(reach, lambda x: x[..., None])


def attention_of(x, queries, heads, key, scores):
    """Attention (B, 2, n) of pairs of heads on contexts, and a bound (B,) of all its errors.

    scores: x @ key, and bounds (B,) of their errors
    """

    def of(rows, scores):
        view = Examples({"contexts": x[rows], "queries": queries[rows]}, [slice(None)])
        (*_, found), = attend(Pairs(scores), PairOfEach(heads[rows]), view)  # fmt: skip
        return found

    high, off = scores
    attention, error = of(slice(None), Parts(high, np.zeros_like(high), off))
    worse = np.flatnonzero(~(error < NEAR))
    if len(worse):  # large logits with small gaps: scores have to be better
        attention[worse], error[worse] = of(worse, Parts(*precisely(x[worse], key)))
    return attention, error


def split(x):
    """Digits of 20 bits, the unit of the first one, and a bound of what is left of each entry."""
    top = exponent(x) - BITS
    rest, digits = np.ldexp(x, -top), []
    for _ in range(DIGITS):
        digits.append(np.rint(rest))
        rest = (rest - digits[-1]) * 2.0**BITS  # exact
    return digits, top, up(2.0 ** max(top - BITS * (DIGITS - 1), -1000))


def precisely(x, y):
    """x.y along the last axis as high + low, and a bound of its error: about 2^-90 |x| |y|."""
    (a, top_a, left_a), (b, top_b, left_b) = split(x), split(y)
    high = low = 0.0
    for order in range(DIGITS + 1):  # at most 5 * 1024 products of at most 2^40: exact
        which = range(max(0, order - DIGITS + 1), min(order + 1, DIGITS))
        term = sum(np.einsum("...d,...d->...", a[i], b[order - i]) for i in which)
        term = np.ldexp(term, top_a + top_b - BITS * order)
        total = high + term
        part = total - high
        low = low + ((high - (total - part)) + (term - part))
        high = total
    x_size, y_size = float(np.abs(x).max()), float(np.abs(y).max())
    dropped = 2.0 ** max(top_a + top_b + 2 * BITS + 4 - BITS * (DIGITS + 1), -1000)
    ends = up(x_size * left_b) + up(y_size * left_a) + up(left_a * left_b)
    # Partial sums are below d size, so each of 6 parts of `low` is below 2^-53 of that.
    return high, low, up(x.shape[-1] * (ends + dropped + up(x_size * y_size) * 2.0**-100))


# Paired heads at size one, and what one pass over all contexts finds of them.

CHUNK = 1 << 19  # entries of arrays which are worked on at a time
COUPLED = 5  # entries an example which may couple, on average
ADVICE = "another seed, or fewer examples"
OF_THREAD = 48 * CHUNK  # bytes which one more thread holds


def readouts_of(weights):
    """W_V W_O W_D of each head (H, d, d_out): copies of entries of W_V, times powers of two."""
    w_v, w_o, w_d = (weights[name].astype(np.float64) for name in ("W_V", "W_O", "W_D"))
    heads, _, value_dim = w_v.shape
    require(((w_d != 0).sum(axis=0) == 1).all(), "W_D does not copy")
    between, columns = np.abs(w_d).argmax(axis=0), np.arange(w_d.shape[1])
    w_o = w_o.reshape(heads, value_dim, -1)[:, :, between]
    require(((w_o != 0).sum(axis=1) == 1).all(), "W_O does not copy")
    from_o, from_d = w_o.sum(axis=1), w_d[between, columns]  # one term
    factors = (from_o * from_d)[:, None]
    exact = all((np.frexp(np.abs(x))[0] == 0.5).all() for x in (from_o, from_d, factors))
    values = np.take_along_axis(w_v, np.abs(w_o).argmax(axis=1)[:, None], axis=2)
    readouts = values * factors
    exact = exact and (readouts / factors == values).all()
    require(exact, "W_O or W_D do not copy: they have other entries than powers of two")
    return readouts


class Layer:
    """Paired heads on examples in the order of the certificate, at size one.

    Contexts (and what is read), queries and the key are divided by powers of two, to be below 1,
    and heads are multiplied by all three. An entry loses 2^-1075 at most by that, so what it enters
    less than `up` adds, as heads are below 2^60. Targets count times 2^-c, readouts 2^(a - c).
    """

    def __init__(self, weights, data, order, stops):
        w_q, w_k = (weights[name].astype(np.float64) for name in ("W_Q", "W_K"))
        width, pairs = w_q.shape[1], len(stops)
        self.order, self.stops, self.contexts = order, stops, data["contexts"]
        self.owner = np.repeat(np.arange(pairs), np.diff(stops, prepend=0))
        self.queries = data["queries"][order].astype(np.float64)
        targets = data["targets"].reshape(len(order), -1)[order].astype(np.float64)
        readouts, self.key = readouts_of(weights), w_k[0, :, 0]
        require(not readouts[2 * pairs :].any(), "a head without a partner reads")
        self.a, b, c = exponent(self.contexts), exponent(self.queries), exponent(self.key)
        self.queries, self.key = np.ldexp(self.queries, -b), np.ldexp(self.key, -c)
        self.heads = np.ldexp(w_q[: 2 * pairs, :, 0], self.a + b + c).reshape(pairs, 2, width)
        require(np.abs(self.heads).max() < 2.0**60, "heads are too large for float64")
        self.c = max(exponent(targets), exponent(readouts) + self.a)
        self.targets, readouts = np.ldexp(targets, -self.c), np.ldexp(readouts, self.a - self.c)
        self.first = readouts[: 2 * pairs : 2]
        self.both = self.first + readouts[1 : 2 * pairs : 2]  # rounded, if it is not zero

    def read(self, positions, pairs, signs):
        """`Tokens.read` of a few examples (k,), whose contexts are read anew, as they lie."""
        _, size, width = self.contexts.shape
        out, errors = np.empty((len(positions), width)), np.empty(len(positions))
        by_example = np.argsort(self.order[positions], kind="stable")
        for rows in chunks(len(positions), size * width, CHUNK):
            part = by_example[rows]
            out[part], errors[part] = Tokens(self, positions[part]).read(pairs[part], signs)
        return out, errors


class Tokens:
    """Contexts of some examples, in memory: scores and bounds, and what heads read."""

    def __init__(self, layer, at):
        self.layer, self.at = layer, at
        self.x = np.ldexp(layer.contexts[layer.order[at]].astype(np.float64), -layer.a)
        self.scores = self.x @ layer.key
        longest, length = lengths(self.x).max(axis=1), float(lengths(layer.key))
        self.score_error = up(gamma(len(layer.key) + 2) * length * longest)
        self.largest = up(np.abs(self.x).max(axis=(1, 2)))

    def read(self, pairs, signs):
        """signs[0] z_{t,2p} + signs[1] z_{t,2p+1}: (k, d), and bounds (k,) of their errors.

        Of the first k examples, for k pairs.
        """
        layer, k = self.layer, len(pairs)
        x, scores = self.x[:k], (self.scores[:k], self.score_error[:k])
        queries, heads = layer.queries[self.at[:k]], layer.heads[pairs]
        attention, error = attention_of(x, queries, heads, layer.key, scores)
        mixed = signs[0] * attention[:, 0] + signs[1] * attention[:, 1]
        errors = up(up(error + 3 * gamma(x.shape[1] + 2)) * self.largest[:k])
        return np.matmul(mixed[:, None], x)[:, 0], errors


class Scan:
    """What one pass over all contexts finds, while those of a chunk are in memory.

    gaps: from the largest score to the next one, and from the least one (2, T)
    own: x_{t,p} = z_{t,2p} - z_{t,2p+1} of the own pairs, and bounds of their errors
    second: if the readouts of one pair do not cancel, what its second head adds (`products`)
    """

    def __init__(self, layer, tell=silent):
        self.layer = layer
        (total, size, width), outputs = layer.contexts.shape, layer.targets.shape[1]
        owned = len(layer.owner)
        unlike = np.flatnonzero(layer.both.any(axis=(1, 2)))
        unlike = unlike if len(unlike) < 2 else ()  # then `residuals` are not had
        self.gaps, self.score_error, self.largest = np.empty((2, total)), *np.empty((2, total))
        self.own = np.empty((owned, width)), np.empty(owned)
        self.second = np.empty((len(unlike), outputs, 3, total))
        # As contexts lie on disk; the extra example, which has no pair, comes last.
        positions = np.append(np.argsort(layer.order[:owned]), np.arange(owned, total))
        for part in chunks(total, size * width, CHUNK):
            tell("read contexts", part.start, total)
            at, mine = positions[part], positions[part][: max(0, owned - part.start)]
            tokens = Tokens(layer, at)
            ends = np.sort(tokens.scores, axis=1)
            self.gaps[:, at] = ends[:, -1] - ends[:, -2], ends[:, 1] - ends[:, 0]
            self.score_error[at], self.largest[at] = tokens.score_error, tokens.largest
            if len(mine):
                own = tokens.read(layer.owner[mine], (1.0, -1.0))
                self.own[0][mine], self.own[1][mine] = own
            for pair in unlike:
                which = np.full(len(at), pair)
                z = tokens.read(which, (0.0, 1.0))
                for k in range(outputs):
                    self.second[0, k][:, at] = products(*z, layer.both[which, :, k])
        self.tail = up(2 * size * LEFT * self.largest)

    def unlike(self, room=math.inf):
        """Examples and pairs, but for their own, whose heads are not sure to read one token.

        room: for so many of them
        """
        layer, least, most = self.layer, [], min(COUPLED * len(self.layer.order), room)
        error = up(gamma(layer.queries.shape[1] + 2) * float(lengths(layer.heads).max()))
        error = up(error * lengths(layer.queries))
        for gap in self.gaps:
            surely = np.maximum(gap - up(2 * self.score_error + 2 * UNIT * gap), 0)
            least.append(up(up(NATS / surely) + error))
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        heads = layer.heads.transpose(1, 0, 2).reshape(-1, layer.heads.shape[2]).T

        def of(rows):
            first, second = np.split(layer.queries[rows] @ heads, 2, axis=1)
            like = np.minimum(first, second) >= least[0][rows, None]
            like |= np.maximum(first, second) <= -least[1][rows, None]
            inside = np.arange(rows.start, min(rows.stop, len(layer.owner)))
            like[inside - rows.start, layer.owner[inside]] = True
            where, pair = np.nonzero(~like)
            return where + rows.start, pair

        total, count = len(layer.order), 0
        for part in pieces.in_pieces(of, chunks(total, 2 * len(layer.stops), CHUNK)):
            found.append(part)
            count += len(part[0])
            require(count <= most, f"too many couple: more than {most}; {ADVICE}")
        return [np.concatenate(each) for each in zip(*found, strict=True)]


def products(x, x_error, u):
    """Dot products with readouts u (k, d), their sizes, and how far errors of x put them off."""
    sizes = np.einsum("td,td->t", np.abs(x), np.abs(u))
    return np.einsum("td,td->t", x, u), sizes, up(x_error * up(np.abs(u).sum(axis=1)))


# Coupling of paired heads: I - X R, entry by entry, and positive vectors that bound it.

FACTORS, ROUNDS = (2.0, 1.2, 1.02), 500  # of the search for w


class Blocks:
    """I - X R, entry by entry at most N, as the function w -> N w for positive w.

    X holds x_{t,p} = z_{t,2p} - z_{t,2p+1}, and what the second head of pair 0 reads along the
    token of the extra example; R holds a right inverse of each block, near enough.
    """

    def __init__(self, scan, coupled):
        self.layer = layer = scan.layer
        self.tail, self.parts = scan.tail, []
        total, width = len(layer.order), len(layer.key)
        require(len(layer.owner) >= total - 1, "more than one example has no pair")
        self.sums, self.column = np.zeros(total), np.zeros(total)
        (values, errors), (at, pairs, x, x_error) = scan.own, coupled
        sizes = np.diff(layer.stops, prepend=0)
        place = np.zeros(len(sizes), dtype=np.int64)
        for size in set(sizes.tolist()) - {0}:
            which = np.flatnonzero(sizes == size)
            place[which] = np.arange(len(which))
            rows = (layer.stops - sizes)[which, None] + np.arange(size)
            inverse = np.empty((len(which), width, size))
            defect = np.empty((len(which), size, size))
            for part in chunks(len(which), width * width, CHUNK):
                block = values[rows[part]]
                basis, triangle = np.linalg.qr(block.transpose(0, 2, 1))
                r = inverse[part] = basis @ np.linalg.inv(triangle).transpose(0, 2, 1)
                column = self.sums[rows[part]] = up(np.abs(r).sum(axis=1))
                off = gamma(width + 2) * (up(np.abs(block) @ np.abs(r)) + 1)
                off += up(errors[rows[part]][:, :, None] * column[:, None])
                defect[part] = up(np.abs(block @ r - np.eye(size)) + off)
            mine = np.flatnonzero(sizes[pairs] == size)
            near = np.empty((len(mine), size))
            for part in chunks(len(mine), width * size, CHUNK):
                row, r = x[mine[part], None], inverse[place[pairs[mine[part]]]]
                off = gamma(width + 2) * up(np.abs(row) @ np.abs(r))[:, 0]
                off += up(x_error[mine[part], None] * up(np.abs(r).sum(axis=1)))
                near[part] = up(np.abs(row @ r)[:, 0] + off)
            self.parts.append((rows, defect, inverse, at[mine], near, rows[place[pairs[mine]]]))
        self.token = np.zeros(width)
        if len(layer.owner) < total:
            sure = not ((at == total - 1) & (pairs == 0)).any()
            require(sure, "pair 0 is not sure to read one token from the extra example")
            end = np.argmax if float(layer.queries[-1] @ layer.heads[0, 1]) > 0 else np.argmin
            tokens = Tokens(layer, np.array([total - 1]))
            token = tokens.x[0, end(tokens.scores[0])]
            self.token = token / (token @ token)
            length = float(up(np.abs(self.token).sum()))
            self.column = up(scan.largest * length)
            off = up(gamma(width + 2) * scan.largest[-1] + scan.tail[-1])
            self.column[-1] = up(abs(float(token @ self.token) - 1) + up(off * length))

    def __call__(self, w):
        out = up(self.tail * float(up(self.sums @ w))) + self.column * w[-1]
        for rows, defect, _, at, near, columns in self.parts:
            out[rows] += (defect @ w[rows][:, :, None])[:, :, 0]
            out += np.bincount(at, np.einsum("ks,ks->k", near, w[columns]), len(out))
        return up(out)

    def solutions(self):
        """All w and q that are found with N w <= q w: if q < 1, X R is nonsingular."""
        for factor in FACTORS:  # w = 1 + c N w converges where c N has spectral radius below 1
            w = np.ones(len(self.sums))
            for _ in range(ROUNDS):
                bound = self(w)
                if (bound <= (1 - 0.98 * (1 - 1 / factor)) * w).all():
                    yield w, float(up(bound / w).max())
                w = 1 + factor * bound
                if not w.max() < 1e100:
                    break


def residuals(scan, coupled):
    """|f - y| 2^-c, and bounds of what f 2^-c is off by: (T, d_out)."""
    layer = scan.layer
    cancel = np.count_nonzero(layer.both.any(axis=(1, 2))) == len(scan.second)
    require(cancel, "the readouts of more than one pair do not cancel")
    distances, errors = np.empty((2, *layer.targets.shape))
    (total, outputs), owner = distances.shape, layer.owner
    terms = (np.arange(len(owner)), owner, *scan.own), coupled
    most = 1 + int(np.bincount(coupled[0], minlength=1).max()) + len(scan.second)
    for k in range(outputs):
        sums = np.zeros((3, total))
        for at, pairs, x, x_error in terms:
            for part in chunks(len(at), x.shape[1], CHUNK):
                found = products(x[part], x_error[part], layer.first[pairs[part], :, k])
                sums += [np.bincount(at[part], each, total) for each in found]
        f, size, error = sums + sum(scan.second[:, k])
        error += scan.tail * float(up(np.abs(layer.first[:, :, k]).sum()))
        error += scan.largest * float(up(np.abs(layer.both[:, :, k]).sum() * 2 * UNIT))
        distances[:, k] = far = np.abs(f - layer.targets[:, k])
        errors[:, k] = up(error + up(gamma(len(layer.key) + most + 8) * up(size + far)))
    return distances, errors


class PairedRank(Rank):
    """*rank* by an order of the examples, in which pairs take one after the other."""

    def numbers(self, about):
        return about.shapes[:1]

    def check(self, about):
        try:
            about.arrange(self.evidence)
            return Shown(self.numbers(about), about.contraction())
        except ValueError:
            require_possible(about.shapes, about.data)
            raise


class PairedLayer(About):
    """Weights, and data: arrays by their names, or contexts in a file of their own.

    room: for so many entries which couple
    """

    format = "constructive paired certificate 1"

    def __init__(self, weights, data, tell=silent, room=math.inf):
        self.weights, self.data, self.tell, self.room = weights, data, tell, room
        require(LENGTHS not in data, "paired heads are for contexts of one length")
        self.shapes = pairs_of(shapes_of(data), shapes_of(weights))
        pairs = self.shapes[4] // 2
        w_q, w_k = (weights[name][: 2 * pairs] for name in ("W_Q", "W_K"))
        alike = (w_k[:, :, 0] == w_k[0, :, 0]).all() and not w_q[:, :, 1:].any()
        require(alike, "heads are not of rank one, with one key direction")
        # Blocks are for the rank alone: the error needs none.
        self.order, self.stops = np.arange(self.shapes[0]), np.zeros(pairs, dtype=np.int64)
        self._scanned = None

    @classmethod
    def read(cls, content, files, claims, options):
        del claims
        require(len(files) == 2, "a certificate of paired heads needs weights and data")
        tensors, arrays = weights_shapes(files[0], options.most), data_shapes(files[1])
        on_disk = Path(files[1]).is_dir()
        left = options.most - needs(arrays, tensors, on_disk=on_disk, coupled=0)[0]
        total, _, width, _, heads, *_ = pairs_of(arrays, tensors)
        room = max(0, min(COUPLED * total, int(left // of_coupled(width))))
        left -= room * of_coupled(width)
        shares = -(-total * heads // CHUNK)
        pieces.take(min(pieces.jobs, shares, 1 + int(max(left, 0) // OF_THREAD)))
        held, operations = needs(arrays, tensors, on_disk=on_disk, coupled=room)
        announce(held + (pieces.jobs - 1) * OF_THREAD, operations, options.most)
        parts = (read_folder if on_disk else read_data)(files[1], arrays)
        size = arrays["contexts"][1][1]
        if LENGTHS in parts and np.array_equal(parts[LENGTHS], np.full(total, size)):
            del parts[LENGTHS]  # which say nothing where all contexts have one length
        parts = read_weights(files[0], tensors), parts
        for part, name in zip(parts[::-1], ("data", "weights"), strict=True):
            require_about(content, part, name)
        return cls(*parts, options.tell, room)

    def arrange(self, evidence):
        """Take the examples in an order in which pairs take one after the other."""
        total, _, width, _, heads, *_ = self.shapes
        order = unpack(evidence["order"], (total,), total)
        stops = unpack(evidence["stops"], (heads // 2,), total + 1)
        whole = (np.bincount(order, minlength=total) == 1).all()
        require(whole, "order is not an order of examples")
        sizes = np.diff(stops, prepend=0)
        ordered = (sizes >= 0).all() and stops[-1] >= total - 1
        require(ordered, "the pairs do not take all examples but one at most")
        require(sizes.max() <= width, "a pair has more than d examples")
        self.order, self.stops, self._scanned = order, stops, None

    def scanned(self):
        """What one pass over all contexts finds for all claims, and which entries couple."""
        if self._scanned is None:
            layer = Layer(self.weights, self.data, self.order, self.stops)
            scan = Scan(layer, self.tell)
            self.tell("heads which are not sure to read one token", 0, 4)
            at, which = scan.unlike(self.room)
            self.tell("entries which couple", 1, 4)
            self._scanned = scan, (at, which, *layer.read(at, which, (1.0, -1.0)))
        return self._scanned

    @np.errstate(all="ignore")  # what overflows or is not a number compares as not proved
    def contraction(self):
        """How it is shown that X R, and so Z, has rank T."""
        scan, coupled = self.scanned()
        self.tell("a right inverse of Z", 2, 4)
        blocks = Blocks(scan, coupled)
        self.tell("coupling", 3, 4)
        contracts = next((q for _, q in blocks.solutions() if q < 1), None)
        require(contracts is not None, f"coupling is not shown to contract; {ADVICE}")
        tail = Fraction(float(scan.tail.max())) * Fraction(2) ** scan.layer.a
        return (
            f"{len(self.stops)} blocks, {len(coupled[0])} coupled entries beside them, all "
            f"others below {above(tail)}; contraction {above(contracts)}"
        )

    @np.errstate(all="ignore")  # the same
    def residuals(self):
        """What is known of |f - y|: in float64, if anything."""
        scan, coupled = self.scanned()
        self.tell("residuals", 2, 4)
        found, scales = np.empty((2, *scan.layer.targets.shape)), np.empty(self.shapes[0], np.int64)
        found[:, self.order], scales[:] = residuals(scan, coupled), scan.layer.c
        bounds = InFloats(*found, scales, None)
        return [of_floats(bounds)] if bounds.finite else []


def pairs_of(arrays, tensors):
    """The sizes of arrays of these types and shapes, which have to fit together, and to be few."""
    require(len(tensors) == 5, "paired heads have no W_V_corrections")
    sizes = total, size, width, outputs, heads, _, inner, between = sizes_of(arrays, tensors)
    own = len(arrays["contexts"][1]) == 3 and size > 1
    require(own, "these are not examples with contexts of their own")
    require(outputs <= inner == between, "the weights do not fit together, or not the data")
    require(heads > 1 and width <= 1024, "no pair of heads, or tokens of more than 1024 entries")
    require(max(total, size, heads * width) <= LONGEST, f"sums of more than {LONGEST} terms")
    return sizes


def needs(arrays, tensors, *, on_disk=False, coupled=None):
    """Bytes and operations for arrays of these types and shapes.

    on_disk: contexts are, and take no memory;  coupled: entries which do, or as many as may
    """
    total, size, width, outputs, heads, *_ = pairs_of(arrays, tensors)
    read = {name: arrays[name] for name in ("queries", "targets") if on_disk} or arrays
    held = bytes_of(read) + 4 * bytes_of(tensors) + 16 * BLOCK * on_disk
    together = max(CHUNK // width, size)  # tokens of a chunk, or of one example
    held += max(200 * CHUNK, together * (80 * width + 300))
    held += 8 * total * (5 * width + 10 * outputs + 60)
    held += (COUPLED * total if coupled is None else coupled) * of_coupled(width)
    steps = len(FACTORS) * ROUNDS * (1 + COUPLED)
    each = width * (2 * heads + (2 + 40 * COUPLED) * size + 8 * width + steps)
    return held, total * each


def of_coupled(width):
    """Bytes for one entry which couples."""
    return 8 * (4 * width + 10)
