"""The power hash: h(z) = alpha^z mod P, below P however long z is.

*Lemma.* Let c_1, ..., c_N be distinct count vectors of total n, on the residues 0, ..., q - 1, and
P > n a prime. For uniform alpha the probability that some two of the sums sum_z c_i(z) h(z) agree
is at most C(N, 2) (q - 1) / P.
*Proof.* Equal sums are equal modulo P, so alpha is a root of sum_z (c_i - c_j)(z) X^z modulo P.
That polynomial is not zero, since `0 < |c_i - c_j|(z) <= n < P` for some z, and it has degree
below q, so at most q - 1 roots. There are C(N, 2) pairs. QED

Remainders cost weights, and keep sums short: so it is for floats, whose bits are few.
"""

from collections.abc import Iterator

import numpy as np

from constructive.exact.modular import prime_from
from constructive.sequences.constructions.hashes import Hash
from constructive.sequences.dictionary import SATURATING
from constructive.sequences.examples import SequenceDataset
from constructive.sequences.projection import MOST_BITS, TRIES, Projection, none_found


class FloatPowerHash(Hash):
    """Powers modulo the smallest prime that was found, where it takes many tokens to tell apart."""

    name = "float_power_hash"
    comparison = SATURATING

    def factors(
        self, examples: SequenceDataset, projected: Projection, rng: np.random.Generator
    ) -> Iterator[tuple[list[int], int | None]]:
        """Yield powers of bases modulo primes whose sums fit into int64, small ones first."""
        most = MOST_BITS - examples.ids.shape[1].bit_length()
        for bits in range(2, most):
            for _ in range(TRIES):
                prime = prime_from(int(rng.integers(1 << (bits - 1), 1 << bits)))
                base = int(rng.integers(1, prime))
                yield [pow(base, 1 << bit, prime) for bit in range(projected.bits)], prime
        raise none_found("prime", most)


FLOAT_POWER_HASH = FloatPowerHash()
