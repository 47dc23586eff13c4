"""Paired heads at size one, and what one pass over all contexts finds of them."""

import math

import numpy as np

from bounds import UNIT, chunks, exponent, gamma, lengths, up
from files import require
from pairs import LEFT, NATS, attention_of
from steps import silent

CHUNK = 1 << 19  # entries of arrays which are worked on at a time
COUPLED = 5  # entries an example which may couple, on average


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
        alike = (w_k[: 2 * pairs, :, 0] == self.key).all() and not w_q[: 2 * pairs, :, 1:].any()
        require(alike, "heads are not of rank one, with one key direction")
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
    second: if a pair's readouts do not cancel, what its second head adds (`products`)
    """

    def __init__(self, layer, bounded=True, tell=silent):
        self.layer = layer
        (total, size, width), outputs = layer.contexts.shape, layer.targets.shape[1]
        owned = len(layer.owner)
        unlike = np.flatnonzero(layer.both.any(axis=(1, 2))) if bounded else ()
        require(len(unlike) <= 1, "the readouts of more than one pair do not cancel")
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
        for rows in chunks(len(layer.order), 2 * len(layer.stops), CHUNK):
            first, second = np.split(layer.queries[rows] @ heads, 2, axis=1)
            like = np.minimum(first, second) >= least[0][rows, None]
            like |= np.maximum(first, second) <= -least[1][rows, None]
            inside = np.arange(rows.start, min(rows.stop, len(layer.owner)))
            like[inside - rows.start, layer.owner[inside]] = True
            where, pair = np.nonzero(~like)
            found.append((where + rows.start, pair))
            require(sum(len(x) for x, _ in found) <= most, "too many couple")
        return [np.concatenate(each) for each in zip(*found, strict=True)]


def products(x, x_error, u):
    """Dot products with readouts u (k, d), their sizes, and how far errors of x put them off."""
    sizes = np.einsum("td,td->t", np.abs(x), np.abs(u))
    return np.einsum("td,td->t", x, u), sizes, up(x_error * up(np.abs(u).sum(axis=1)))
