"""Coupling of paired heads: I - X R, entry by entry, and positive vectors that bound it."""

import numpy as np

from bounds import UNIT, chunks, gamma, up
from files import require
from scan import CHUNK, Tokens, products

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
        self.sums, self.column = np.zeros(total), np.zeros(total)
        (values, errors), (at, pairs, x, x_error) = scan.own, coupled
        sizes = np.diff(layer.stops, prepend=0)
        require(sizes.max() <= width, "a pair has more than d examples")
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
        """All w with N w <= q w for a q < 1 that are found: X R is nonsingular, so rank Z = T."""
        for factor in FACTORS:  # w = 1 + c N w converges where c N has spectral radius below 1
            w = np.ones(len(self.sums))
            for _ in range(ROUNDS):
                bound = self(w)
                if (bound <= (1 - 0.98 * (1 - 1 / factor)) * w).all():
                    yield w, float(up(bound / w).max())
                w = 1 + factor * bound
                if not w.max() < 1e100:
                    break

    def reach(self, w):
        """A bound of the entries of R w, the readouts of all heads taken together."""
        bounds = [up(np.abs(part[2]) @ w[part[0]][:, :, None]).max() for part in self.parts]
        return float(up(max(bounds, default=0.0) + up(np.abs(self.token).max() * w[-1])))


def residuals(scan, coupled):
    """Upper bounds of |f - y| 2^-c: (T, d_out)."""
    layer, bounds = scan.layer, np.empty(scan.layer.targets.shape)
    (total, outputs), owner = bounds.shape, layer.owner
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
        distance = np.abs(f - layer.targets[:, k])
        error = up(error + up(gamma(len(layer.key) + most + 8) * up(size + distance)))
        bounds[:, k] = up(distance + error)
    return bounds
