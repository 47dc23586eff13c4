"""The lemma at work: R from the blocks, N from what is left of I - X R, and w with N w < w."""

from dataclasses import dataclass

import numpy as np

from constructive.claims.paired.entries import Entries
from constructive.claims.paired.examples import Examples, UndecidedError
from constructive.dataset import CHUNK_BYTES, Array
from constructive.exact.compensated import SLACK, TINY, gamma

_ROUNDS = 500
"""Steps of the iteration for w."""

_LARGEST_WEIGHT = 1e100

_CONTRACTION = 0.51
"""q at which the iteration is content; it tends to 1/2 where coupling is triangular."""


@dataclass(frozen=True, eq=False)
class Inverse:
    """What the lemma says of R.

    weights: w (T,);  contraction: q, an upper bound of (N w)_i / w_i
    spread:  an upper bound of the entries of |K R| w
    """

    weights: Array
    contraction: float
    spread: float


class _Bound:
    """N as a function: N w, rounded up, for positive w (T,)."""

    def __init__(self, examples: Examples, entries: Entries) -> None:
        width, total = examples.queries.shape[1], len(examples.order)
        self.examples, self.runs = examples, _right_inverses(examples, entries.own)
        self.column_sums = np.zeros(total)  # of |R_p|, for each position
        self.defects = []
        sizes = np.diff(examples.stops, prepend=0)
        widest = int(sizes.max())
        padded = np.zeros((len(sizes), width, widest))
        for pairs, rows, inverse in self.runs:
            count, _, size = inverse.shape
            blocks = entries.own[rows].reshape(count, size, width)
            error = entries.own_error[rows].reshape(count, size, 1)
            sums = np.abs(inverse).sum(axis=1) * SLACK
            self.column_sums[rows] = sums.ravel()
            defect = np.abs(np.matmul(blocks, inverse) - np.eye(size))
            defect += gamma(width + 2) * (np.matmul(np.abs(blocks), np.abs(inverse)) * SLACK + 1.0)
            defect += error * sums[:, np.newaxis]
            self.defects.append((rows, defect))
            padded[pairs, :, :size] = inverse
        # Row t of |X R| at the examples of a pair p which is coupled to t.
        self.positions = entries.positions
        self.rows = np.empty((len(entries.pairs), widest))
        step = max(1, CHUNK_BYTES // (8 * width * max(widest, 1)))
        for start in range(0, len(self.rows), step):
            part = slice(start, start + step)
            chosen, x = padded[entries.pairs[part]], entries.coupled[part, np.newaxis]
            sizes_of = np.abs(chosen)
            row = np.abs(np.matmul(x, chosen))
            row += gamma(width + 2) * np.matmul(np.abs(x), sizes_of) * SLACK
            error = entries.coupled_error[part, np.newaxis, np.newaxis]
            row += error * sizes_of.sum(axis=1, keepdims=True) * SLACK
            self.rows[part] = row[:, 0]
        first = (examples.stops - sizes)[entries.pairs]
        self.owners = np.minimum(first[:, np.newaxis] + np.arange(widest), total - 1)
        self.correction = _correction(examples, entries) if examples.has_extra else np.zeros(total)

    def __call__(self, weights: Array) -> Array:
        result = self.examples.tail * float(self.column_sums @ weights) * SLACK + TINY
        for rows, defect in self.defects:
            part = weights[rows].reshape(*defect.shape[:2], 1)
            result[rows] += np.matmul(defect, part).ravel()
        coupled = np.einsum("kj,kj->k", self.rows, weights[self.owners])
        result += np.bincount(self.positions, coupled, len(result))
        bounded: Array = (result + self.correction * weights[-1]) * SLACK
        return bounded


def bound_inverse(examples: Examples, entries: Entries) -> Inverse:
    """Find w with N w < w."""
    with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
        bound = _Bound(examples, entries)
        weights = np.ones(len(examples.order))
        bounded = bound(weights)
        for _ in range(_ROUNDS):
            done = (bounded <= _CONTRACTION * weights).all()
            if done or not bounded.max() < _LARGEST_WEIGHT:
                break
            weights = np.maximum(1.0, 2.0 * bounded)
            bounded = bound(weights)
        contraction = float((bounded / weights).max()) * SLACK
        if not contraction < 1.0:
            raise UndecidedError(
                f"coupling does not contract ({len(entries.pairs)} entries beside the blocks of "
                f"{len(examples.stops)} pairs); another seed=, or fewer examples"
            )
        spread = 0.0
        for _, rows, inverse in bound.runs:
            part = weights[rows].reshape(len(inverse), inverse.shape[2], 1)
            spread = max(spread, float(np.matmul(np.abs(inverse), part).max(initial=0.0)) * SLACK)
        if examples.has_extra:
            spread += float(np.abs(_extra_token(examples)[1]).max() * weights[-1]) * SLACK
    return Inverse(weights, contraction, spread)


def _right_inverses(examples: Examples, own: Array) -> tuple[tuple[slice, slice, Array], ...]:
    """Approximate R_p = D_p^T (D_p D_p^T)^-1; any numbers will do."""
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


def _extra_token(examples: Examples) -> tuple[Array, Array]:
    """The token x* which pair 0 reads from the extra example, and x* / |x*|^2, rounded."""
    last = len(examples.order) - 1
    reach = float(examples.queries[last] @ examples.query_weights[1, 0])
    scores = examples.scores[last]
    index = int(scores.argmax() if reach > 0 else scores.argmin())
    token = examples.contexts(np.array([last]))[0, index]
    return token, token / (token @ token)


def _correction(examples: Examples, entries: Entries) -> Array:
    """The last column of |X R - I|: (T,), for what is read along x* / |x*|^2."""
    last = len(examples.order) - 1
    if ((entries.positions == last) & (entries.pairs == 0)).any():
        raise UndecidedError("pair 0 does not agree on the extra example; another seed=")
    token, direction = _extra_token(examples)
    length = float(np.abs(direction).sum()) * SLACK
    # Attention weights sum to one: what is read is a mean of tokens, with entries up to largest.
    column = examples.largest * length * SLACK
    rounding = gamma(len(token) + 2) * examples.largest[-1]
    column[-1] = abs(float(token @ direction) - 1.0) + (rounding + examples.tail[-1]) * length
    return column * SLACK
