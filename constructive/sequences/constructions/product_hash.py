"""The product hash: h(z) is the product of a_i over the bits i that are set in z, an integer.

*Lemma.* Let the residues have J bits, and let a_1, ..., a_J be drawn uniformly from a set of A
integers. The probability that some two of the sums agree is at most C(N, 2) J / A.
*Proof.* The difference of two sums is a polynomial in a_1, ..., a_J, of degree at most J, whose
coefficients are the numbers (c_i - c_j)(z), since different z have different bits. They are not all
zero, so it vanishes with probability at most J / A (Schwartz and Zippel). QED

It takes no remainders, and so about log(q) weights, where a power hash takes log(q) log(P).
"""

from collections.abc import Iterator

import numpy as np

from constructive.sequences.constructions.hashes import Hash
from constructive.sequences.dictionary import RAMP
from constructive.sequences.examples import SequenceDataset
from constructive.sequences.projection import MOST_BITS, TRIES, Projection, none_found


class ProductHash(Hash):
    """Products of the smallest factors that were found: the fewest weights for most data."""

    name = "product_hash"
    comparison = RAMP

    def factors(
        self,
        examples: SequenceDataset,  # noqa: ARG002 - sums may be of any length
        projected: Projection,
        rng: np.random.Generator,
    ) -> Iterator[tuple[list[int], int | None]]:
        """Yield factors up to 2^61, small ones first; by the lemma some of the first will do."""
        for half_bits in range(2, 2 * MOST_BITS):
            largest = int(2 ** (half_bits / 2))
            for _ in range(TRIES):
                yield rng.integers(2, largest, projected.bits, endpoint=True).tolist(), None
        raise none_found("factors", MOST_BITS)


PRODUCT_HASH = ProductHash()
