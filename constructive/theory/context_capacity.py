"""What contexts hold, whatever queries and weights are: c(E; H), and the examples to blame.

For a set J of examples let R_J be the span of their tokens, D_J the span of differences of tokens
of one context, k_J and delta_J their dimensions.

*Theorem 8.* For all weights of H heads and all queries,

    rank Z <= T - |J| + k_J + (H - 1) delta_J     for every set J of examples.

*Proof.* The part of head h in row t of Z is an average of tokens of E_t, with weights that add up
to one. So the first part is in R_t, and the difference of another part and the first is in D_t. The
rows of J are in {(r, r + v_2, ..., r + v_H): r in R_J, v_h in D_J}, of dimension
k_J + (H - 1) delta_J, and there are T - |J| other rows. QED

Let c(E; H) be the least of these bounds (0 for T = 0 examples). *Theorem 9* (proofs/15) says that
almost all queries and weights reach it. *The minimizer* costs one elimination: draw y_t from
L_t = {(r, r + v_2, ..., r + v_H): r in R_t, v_h in D_t}, and let J be the rows that take part in
some linear dependency. Rows outside of J add one to the rank each. A row y_t of J is a combination
of other rows of J for almost all choices of y_t, so all of L_t lies in the span of the rows of J.
Hence these rows span sum L_t, and the rank of all is T - |J| + k_J + (H - 1) delta_J.

Here that is computed modulo a prime, where chance may fail. So nothing is taken from it but J: k_J
and delta_J are those over the rational numbers, and the rank modulo a prime is a lower bound of
c(E; H). Where both agree, they are c(E; H), and that is proved.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from constructive.data.dataset import Dataset
from constructive.data.repeats import different_inputs
from constructive.exact import modular
from constructive.support.arrays import Array, Booleans, Integers, row_chunks
from constructive.theory.context_spans import Spans, spans_of

_PRIMES = 4  # Primes that are tried as long as the bounds differ
# Random combinations of the dependencies that were found, whose supports are taken together.
_MIXTURES = 8


@dataclass(frozen=True, eq=False)
class ContextCapacity:
    """Bounds of c(E; H), and the set J that gives the upper one."""

    lower: int  # the rank of random elements of all L_t, modulo a prime
    upper: int  # T - |J| + k_J + (H - 1) delta_J, for T different inputs
    num_heads: int  # H
    # J, ascending; empty where none was found whose bound is below the number of different inputs:
    # that is c(E; H) if the bounds agree
    blamed: Integers
    spans: Spans  # k_J and delta_J, with vectors that prove them

    @property
    def exact(self) -> bool:
        """Whether both bounds agree, and so are c(E; H)."""
        return self.lower == self.upper

    def __str__(self) -> str:
        if not len(self.blamed):
            return f"{self.upper} different inputs"
        return (
            f"T - |J| + k_J + (H - 1) delta_J, where the |J| = {len(self.blamed)} examples of J "
            f"have tokens of k_J = {self.spans.tokens} and differences of delta_J = "
            f"{self.spans.differences} dimensions"
        )


def context_capacity(
    dataset: Dataset,
    num_heads: int,
    rng: np.random.Generator,
    different: Integers | None = None,
) -> ContextCapacity:
    """Return bounds of c(E; H), from one elimination modulo a prime, and exact spans.

    Examples that are one input have one row of Z, and count once.

    dataset: of its queries only which are equal has a part in it
    different: one example of each input (`different_inputs`), where that is known

    Example:
        >>> one_hot = np.eye(3)[[[0, 1], [1, 2], [2, 0], [0, 1], [1, 2], [2, 0]]]
        >>> queries = np.arange(18.0).reshape(6, 3)
        >>> data = Dataset(one_hot, queries, np.zeros(6))
        >>> found = context_capacity(data, 2, np.random.default_rng(0))
        >>> found.lower, found.upper, found.blamed.tolist()
        (5, 5, [0, 1, 2, 3, 4, 5])
    """
    different = different_inputs(dataset) if different is None else different
    total = len(different)
    if dataset.shared_context:  # L_t is one space for all
        spans = spans_of(dataset.contexts[np.newaxis])
        holds = spans.tokens + (num_heads - 1) * spans.differences
        blamed = different if total > holds else different[:0]
        return ContextCapacity(min(total, holds), min(total, holds), num_heads, blamed, spans)
    contexts = dataset.filled.contexts[different]
    nothing = spans_of(contexts[:0])
    found = ContextCapacity(0, total, num_heads, different[:0], nothing)
    common = np.arange(total)
    enough = min(num_heads, total)  # as many have the same rank: k + (T - 1) delta >= T
    for prime, _ in zip(modular.safe_primes(), range(_PRIMES), strict=False):
        factors = modular.factor(generic_rows(contexts, enough, prime, rng), prime)
        found = replace(found, lower=max(found.lower, factors.rank))
        dependent = dependent_rows(factors, rng)
        common = np.intersect1d(common, dependent)  # without what depends modulo one prime alone
        for blamed in (dependent, common, np.arange(total)):
            if found.exact:
                return found
            spans = spans_of(contexts[blamed])
            upper = total - len(blamed) + spans.tokens + (num_heads - 1) * spans.differences
            if upper < found.upper:
                found = ContextCapacity(found.lower, upper, num_heads, different[blamed], spans)
    return found


def generic_rows(
    contexts: Array,
    num_heads: int,
    prime: int,
    rng: np.random.Generator,
    differences: Booleans | None = None,
) -> Array:
    """Return a random element of each L_t, modulo a prime: (T, H d); or of D_t at each head.

    The part of each head is a combination of tokens; the sums of coefficients agree for all heads,
    as integers, and are zero for differences.

    contexts: (T, n, d)
    differences: (T,), for which contexts differences of tokens are drawn; None for none
    """
    total, size, width = contexts.shape
    out = np.empty((total, num_heads * width))
    exponent = modular.least_exponent(contexts)
    for rows in row_chunks(total, 8 * max(size * width, num_heads * (size + width))):
        tokens = modular.residues(contexts[rows], prime, exponent)
        mixing = rng.integers(prime, size=(len(tokens), num_heads, size))
        wanted = mixing[:, :1].sum(axis=2)
        if differences is not None:
            wanted[differences[rows]] = 0
        mixing[:, :, 0] += wanted - mixing.sum(axis=2)
        balanced = modular.reduce((mixing % prime).astype(np.float64), prime)
        out[rows] = modular.product(balanced, tokens, prime).reshape(len(tokens), -1)
    return out


def dependent_rows(factors: modular.Factors, rng: np.random.Generator) -> Integers:
    """Return the rows that take part in some dependency, but with a chance of T / p each time."""
    rank, total = factors.rank, len(factors.rows)
    if rank == total:
        return np.empty(0, dtype=np.int64)
    prime = factors.modulus
    mixing = modular.random_residues(rng, (_MIXTURES, total - rank), prime, least=1)
    used = modular.dependencies(factors, mixing)
    return np.sort(np.concatenate([factors.rows[rank:], factors.rows[:rank][used.any(axis=0)]]))


class LeastHeads(NamedTuple):
    """The smallest H that contexts allow for all different inputs, and why."""

    heads: int | None  # H; None where no number of heads will do
    # what was found with one head less (with H = 1: with that), whose J says why
    below: ContextCapacity
    decided: bool  # whether c(E; H) is proved to be the number of different inputs
    different: Integers  # one example of each input


def least_heads(dataset: Dataset, rng: np.random.Generator) -> LeastHeads:
    """Return the smallest H that contexts allow for all different inputs.

    Example:
        >>> from constructive import generators
        >>> data = generators.uniform(num_examples=11, context_size=3, width=5)
        >>> least_heads(data, np.random.default_rng(0)).heads  # 2 * 5 < 11 <= 3 * 5
        3
    """
    different = different_inputs(dataset)
    found = context_capacity(dataset, 1, rng, different)
    heads = 1
    while len(found.blamed):
        # The rows of J need k + (H - 1) delta >= |J|.
        if not found.spans.differences:
            return LeastHeads(None, found, decided=True, different=different)
        missing = len(found.blamed) - found.spans.tokens
        heads = 1 + -(-missing // found.spans.differences)
        last, found = found, context_capacity(dataset, heads, rng, different)
    if heads == 1:
        return LeastHeads(1, found, found.exact, different)
    below = context_capacity(dataset, heads - 1, rng, different)
    below = below if len(below.blamed) else last
    return LeastHeads(heads, below, found.exact, different)
