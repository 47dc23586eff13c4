"""Attention in rational numbers: logits are integer multiples k ln 2, and exp(k ln 2) = 2^k."""

import flint
import numpy as np

from constructive.exact.arithmetics.arithmetic import Arithmetic, Hidden
from constructive.exact.arithmetics.lazy import PerQuery
from constructive.exact.rational import Fractions, matrix_of

LARGEST_LOGIT = 1 << 12  # Largest `|k|`, for numbers of some thousand bits

Products = tuple[flint.fmpq_mat, ...]
Matrices = PerQuery[flint.fmpq_mat]


class UnfitLogitsError(ArithmeticError):
    """Logits of a query that are not integers, or whose powers of two would be too long."""

    def __init__(self, fraction: flint.fmpq | None, spread: int = 0) -> None:
        super().__init__(fraction, spread)
        self.fraction, self.spread = fraction, spread


class Rationals(Arithmetic[Products, Matrices, Matrices]):
    """Rational numbers, where W_K is in units of ln 2. Matrices are made one at a time."""

    itemsize = 64

    def weights(
        self,
        query_weights: Fractions,
        key_weights: Fractions,
        shared: Fractions | None = None,  # noqa: ARG002 - tokens stay what they are
    ) -> Products:
        """Multiply the weights of each head."""
        pairs = zip(query_weights, key_weights, strict=True)
        return tuple(matrix_of(w_q) * matrix_of(w_k).transpose() for w_q, w_k in pairs)

    def logits(self, weights: Products, queries: Fractions, keys: Fractions) -> Matrices:
        """Return the logits of each query, in units of ln 2: (H, n)."""
        rows = queries.reshape(-1, 1, queries.shape[-1])

        def logits(query: int) -> flint.fmpq_mat:
            tokens = matrix_of(keys[matrices.group(query, len(keys))]).transpose()
            row = matrix_of(rows[query])
            entries = [k for product in weights for k in (row * product * tokens).entries()]
            return flint.fmpq_mat(len(weights), tokens.ncols(), entries)

        matrices = PerQuery(len(rows), logits)
        return matrices

    def softmax(self, logits: Matrices, hidden: Hidden | None) -> Matrices:
        """Return the shares of powers of two: (H, n)."""

        def shares(query: int) -> flint.fmpq_mat:
            table = logits[query]
            seen = list(range(table.ncols()))
            if hidden is not None:
                seen = np.flatnonzero(~hidden[query % len(hidden)]).tolist()
            return flint.fmpq_mat([_shares(row, seen) for row in table.tolist()])

        return PerQuery(len(logits), shares)

    def averages(self, attention: Matrices, values: Fractions) -> Matrices:
        """Return the averages: (H, d)."""
        groups = len(values)
        return PerQuery(
            len(attention),
            lambda query: attention[query] * matrix_of(values[attention.group(query, groups)]),
        )


def _shares(logits: list[flint.fmpq], seen: list[int]) -> list[flint.fmpq]:
    """Return softmax of one head: 0 for what is not seen."""
    for i in seen:
        if logits[i].q != 1:
            raise UnfitLogitsError(logits[i])
    powers = [int(logits[i].p) for i in seen]
    lowest, highest = min(powers), max(powers)
    if highest - lowest > LARGEST_LOGIT:
        raise UnfitLogitsError(None, highest - lowest)
    weights = [1 << (k - lowest) for k in powers]
    total, shares = sum(weights), [flint.fmpq(0)] * len(logits)
    for i, weight in zip(seen, weights, strict=True):
        shares[i] = flint.fmpq(weight, total)
    return shares
