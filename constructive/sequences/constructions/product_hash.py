"""The product hash: h(z) is the product of a_i over the bits i that are set in z, an integer.

*Lemma.* Let the residues have J bits, and let a_1, ..., a_J be drawn uniformly from a set of A
integers. The probability that some two of the sums agree is at most C(N, 2) J / A.
*Proof.* The difference of two sums is a polynomial in a_1, ..., a_J, of degree at most J, whose
coefficients are the numbers (c_i - c_j)(z), since different z have different bits. They are not all
zero, so it vanishes with probability at most J / A (Schwartz and Zippel). QED

It takes no remainders, and so about log(q) weights, where a power hash takes log(q) log(P).
"""

import numpy as np

from constructive.sequences.comparisons import RAMP
from constructive.sequences.constructions.construction import Embedded, SequenceConstruction
from constructive.sequences.constructions.hashes import hashed
from constructive.sequences.examples import SequenceDataset
from constructive.sequences.projection import MOST_BITS, TRIES, Projection, none_found


class ProductHash(SequenceConstruction):
    """Products of the smallest factors that were found: the fewest weights for most data."""

    name = "product_hash"
    embedding = "product_hash"
    comparison = RAMP

    def embed(
        self,
        examples: SequenceDataset,
        projected: Projection,
        max_word_bits: int | None,  # noqa: ARG002 - it has no code words
        rng: np.random.Generator,
    ) -> Embedded:
        """Return the embedding of the first factors that tell the examples apart.

        Raises:
            PrecisionError: where none were found up to 2^61, which the lemma makes unlikely
        """
        for half_bits in range(2, 2 * MOST_BITS):
            largest = int(2 ** (half_bits / 2))
            for _ in range(TRIES):
                factors = rng.integers(2, largest, projected.bits, endpoint=True).tolist()
                embedded = hashed(self, examples, projected, factors)
                if embedded is not None:
                    return embedded
        raise none_found("factors", MOST_BITS)


PRODUCT_HASH = ProductHash()
