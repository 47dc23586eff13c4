"""The lemma at work: R from the blocks, N from what is left of I - X R, and w with N w < w.

A checker computes its own R, N and w, which differ from these by rounding. So a margin is needed:
bounds of rounding count twice, for N', which is at most 2 (1 + 2^-16) N.
With w = 1 + c N w from w = 1 on, step k adds (c N)^k 1, which is monotone in N. So if a step for N'
adds 1 at most, then so does the same step for every N below N': N w <= w / c. That is more than
the checker needs, which takes as many steps. Where q and w are small for N, it holds for N', too:
(c N')^k 1 <= (2 (1 + 2^-16) c q)^k w.
"""

from dataclasses import dataclass

import numpy as np

from constructive.certificates.claims.paired.entries import Entries
from constructive.certificates.claims.paired.examples import Examples, UndecidedError
from constructive.certificates.claims.paired.reading import Tokens
from constructive.exact.upward import gamma, up
from constructive.support.arrays import Array, row_chunks

_ROUNDS = 500  # Steps of an iteration for w

_LARGEST_WEIGHT = 1e100

MARGIN = 2.0  # How many times bounds of rounding count in N'

# q and w up to which N' needs no look: for c = 2, 0.81^500 times the second is below 1.
_SURELY = 0.2, 2.0**100

# c of the iterations w = 1 + c N w, which converge where c N has a spectral radius below 1.
FACTORS = 2.0, 1.2, 1.02

# An iteration is content with this part of 1 - 1/c, which 1 - q tends to; N' needs all of it.
_NEARLY = 0.98

Extra = tuple[Array, Array]  # The token that pair 0 reads from the extra example, and a direction


@dataclass(frozen=True, eq=False)
class Inverse:
    """What the lemma says of R."""

    weights: Array  # w (T,)
    contraction: float  # q, an upper bound of all (N w)_i / w_i
    spread: float  # an upper bound of the entries of `|K R| w`


class Coupling:
    """N as a function: N w, rounded up, for positive w (T,).

    It is N' if bounds of rounding count `margin` times. `extra` is the token of the extra example
    and its direction, where they were read before.
    """

    def __init__(
        self,
        examples: Examples,
        entries: Entries,
        margin: float = 1.0,
        extra: Extra | None = None,
    ) -> None:
        width, total = examples.queries.shape[1], len(examples.order)
        self.tail, self.runs = margin * entries.tail, _right_inverses(examples, entries.own)
        self.more = 1.0 + 2.0**-16 * (margin - 1.0)
        self.column_sums = np.zeros(total)  # of |R_p|, for each position
        self.defects = []
        sizes = np.diff(examples.stops, prepend=0)
        widest = int(sizes.max())
        padded = np.zeros((len(sizes), width, widest))
        for pairs, rows, inverse in self.runs:
            count, _, size = inverse.shape
            blocks = entries.own[rows].reshape(count, size, width)
            error = margin * entries.own_error[rows].reshape(count, size, 1)
            sums = up(np.abs(inverse).sum(axis=1))
            self.column_sums[rows] = sums.ravel()
            defect = np.abs(np.matmul(blocks, inverse) - np.eye(size))
            off = margin * gamma(width + 2) * (up(np.matmul(np.abs(blocks), np.abs(inverse))) + 1.0)
            self.defects.append((rows, up(defect + off + up(error * sums[:, np.newaxis]))))
            padded[pairs, :, :size] = inverse
        # Row t of |X R| at the examples of a pair p that is coupled to t.
        self.positions = entries.positions
        self.rows = np.empty((len(entries.pairs), widest))
        for part in row_chunks(len(self.rows), 8 * width * max(widest, 1)):
            chosen, x = padded[entries.pairs[part]], entries.coupled[part, np.newaxis]
            sizes_of = np.abs(chosen)
            row = np.abs(np.matmul(x, chosen))
            row += margin * gamma(width + 2) * up(np.matmul(np.abs(x), sizes_of))
            error = margin * entries.coupled_error[part, np.newaxis, np.newaxis]
            row += up(error * up(sizes_of.sum(axis=1, keepdims=True)))
            self.rows[part] = up(row)[:, 0]
        first = (examples.stops - sizes)[entries.pairs]
        self.owners = np.minimum(first[:, np.newaxis] + np.arange(widest), total - 1)
        self.direction: Array = np.zeros(width)  # of the token of the extra example
        self.correction: Array = np.zeros(total)
        if examples.has_extra:
            token, self.direction = extra or extra_token(examples)
            self.correction = _correction(entries, token, self.direction, margin)

    def __call__(self, weights: Array) -> Array:
        """Return N w, rounded up."""
        result = up(self.tail * float(up(self.column_sums @ weights)))
        for rows, defect in self.defects:
            part = weights[rows].reshape(*defect.shape[:2], 1)
            result[rows] += np.matmul(defect, part).ravel()
        coupled = np.einsum("kj,kj->k", self.rows, weights[self.owners])
        result += np.bincount(self.positions, coupled, len(result))
        return up(self.more * (result + self.correction * weights[-1]))


def bound_inverse(examples: Examples, entries: Entries) -> Inverse:
    """Find w with N w < w. Raises UndecidedError where coupling is not shown to contract."""
    with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
        extra = extra_token(examples) if examples.has_extra else None
        bound = Coupling(examples, entries, extra=extra)
        found = contracting(bound, len(examples.order))
        if found is None:
            raise _coupled(examples, entries, "coupling does not contract")
        weights, contraction = found
        if not (contraction <= _SURELY[0] and weights.max() <= _SURELY[1]):
            found = contracting(
                Coupling(examples, entries, MARGIN, extra), len(examples.order), 1.0
            )
            if found is None:
                raise _coupled(examples, entries, "coupling hardly contracts")
            weights, contraction = found
        return Inverse(weights, contraction, spread_of(bound, weights))


def spread_of(bound: Coupling, weights: Array) -> float:
    """Return an upper bound of the entries of `|K R| w`."""
    spread = 0.0
    for _, rows, inverse in bound.runs:
        part = weights[rows].reshape(len(inverse), inverse.shape[2], 1)
        spread = max(spread, float(up(np.matmul(np.abs(inverse), part)).max(initial=0.0)))
    if bound.direction.any():
        spread = float(up(spread + up(np.abs(bound.direction).max() * weights[-1])))
    return spread


def _coupled(examples: Examples, entries: Entries, what: str) -> UndecidedError:
    return UndecidedError(
        f"{what} ({len(entries.pairs)} entries beside the blocks of {len(examples.stops)} pairs); "
        "another seed=, or fewer examples"
    )


def contracting(bound: Coupling, total: int, nearly: float = _NEARLY) -> tuple[Array, float] | None:
    """Find some w with N w <= q w for some q < 1, and that q; None where there is none.

    Where c N has a spectral radius below 1, w = 1 + c N w converges from below, to the sum of all
    (c N)^k 1, and N w = (w - 1) / c is less than w / c. So the largest c that converges is taken:
    it leaves most room. Nothing has to be aperiodic or connected for that. An iteration is content
    with the part `nearly` of 1 - 1/c.
    """
    for factor in FACTORS:
        content = 1.0 - nearly * (1.0 - 1.0 / factor)
        weights: Array = np.ones(total)
        for _ in range(_ROUNDS):
            bounded = bound(weights)
            if (bounded <= content * weights).all():
                contraction = float(up(bounded / weights).max())
                return (weights, contraction) if contraction < 1.0 else None
            weights = 1.0 + factor * bounded
            if not weights.max() < _LARGEST_WEIGHT:
                break
    return None


def _right_inverses(examples: Examples, own: Array) -> tuple[tuple[slice, slice, Array], ...]:
    """Return approximate R_p = D_p^T (D_p D_p^T)^-1; any numbers will do."""
    sizes = np.diff(examples.stops, prepend=0)
    breaks = np.flatnonzero(np.diff(sizes)) + 1
    runs = []
    for chosen in np.split(np.arange(len(sizes)), breaks):
        size = int(sizes[chosen[0]])
        rows = slice(int(examples.stops[chosen[0]]) - size, int(examples.stops[chosen[-1]]))
        blocks = own[rows].reshape(len(chosen), size, own.shape[1])
        basis, triangle = np.linalg.qr(blocks.transpose(0, 2, 1))
        singular = (np.diagonal(triangle, axis1=1, axis2=2) == 0.0).any()
        if singular or not np.isfinite(triangle).all():
            raise UndecidedError("a block of a pair is singular in float64; another seed=")
        inverse = np.matmul(basis, np.linalg.inv(triangle).transpose(0, 2, 1))
        runs.append((slice(int(chosen[0]), int(chosen[-1]) + 1), rows, inverse))
    return tuple(runs)


def extra_token(examples: Examples) -> Extra:
    """Return the token `x*` that pair 0 reads of the extra example, and `x* / |x*|^2`, rounded."""
    tokens = Tokens.of(examples, np.array([len(examples.order) - 1]))
    reach = float(examples.queries[-1] @ examples.query_weights[1, 0])
    scores = tokens.scores[0]
    index = int(scores.argmax() if reach > 0 else scores.argmin())
    token = tokens.contexts[0, index]
    return token, token / (token @ token)


def _correction(entries: Entries, token: Array, direction: Array, margin: float) -> Array:
    """Return the last column of `|X R - I|`: (T,), for what is read along `x* / |x*|^2`."""
    last = len(entries.tail) - 1
    if ((entries.positions == last) & (entries.pairs == 0)).any():
        raise UndecidedError("pair 0 does not agree on the extra example; another seed=")
    length = float(up(np.abs(direction).sum()))
    # Attention weights sum to one: what is read is a mean of tokens, with entries up to largest.
    column = entries.largest * length
    rounding = gamma(len(token) + 2) * entries.largest[-1]
    off = margin * up(up(rounding + entries.tail[-1]) * length)
    column[-1] = abs(float(token @ direction) - 1.0) + off
    return up(column)
