"""How many weights a sequence memorizer has at most, by Theorem 7, and at least, in integers.

Nothing here looks at data. L(x) is the number of bits of x. *Bound* (proofs/14-sequences.md)::

    dictionary of M keys below Q, labels below C:  the least of 14 m + 15 ((k - 1) f + k) over
                                                   k and f, with m = M / k (rounded up)
                                                   + 2^(L(C) + L(Q) - f) + 1; and 40 more
    token to residue, d entries, range U:          4 (d + 1) + 14 L(U)
    product hash, residues below q:                40 L(q)
    power hash, modulo P:                          40 L(q) + 14 L(q) (L(P) + 1)
    separating set of S residues, weights below W: dictionary of S keys below q, labels below W,
                                                   and 14 L(q)
    sum to key, range R:                           14 (L(R) + L(Q)) + 8
    attention:                                     2

C is the range of the labels. M is at most N (nN for seq2seq), Q may be taken about M^2, and R below
n q (P + 1), so that all grows as sqrt(M log(M C)), up to logarithms of n, U and N. It holds where
`max_word_bits` is not given.
"""

from bisect import bisect_left
from dataclasses import dataclass
from math import isqrt


@dataclass(frozen=True)
class Sizes:
    """The numbers in the bound; those that may be long by their bits."""

    keys: int  # M, of the examples
    width: int  # d
    label_bits: int  # of C, the range of what is put out
    token_bits: int  # of U, above projections of tokens
    residue_bits: int  # of q
    prime_bits: int  # of P, of a power hash; 0 for others
    kept: int  # S, of a separating set; 0 for others
    weight_bits: int  # of W, of a separating set; 0 for others
    sum_bits: int  # of R, above keys before they are reduced
    key_bits: int  # of Q, above keys after that

    @property
    def bound(self) -> int:
        """The number of non-zero weights that is not exceeded.

        Example:
            >>> Sizes(4096, 4, 5, 31, 6, 22, 0, 0, 25, 22).bound
            12331
        """
        embedding = 4 * (self.width + 1) + 14 * self.token_bits
        if self.kept:
            embedding += dictionary_bound(self.kept, self.weight_bits, self.residue_bits)
            embedding += 14 * self.residue_bits
        else:
            embedding += 40 * self.residue_bits
            if self.prime_bits:
                embedding += 14 * self.residue_bits * (self.prime_bits + 1)
        classifier = dictionary_bound(self.keys, self.label_bits, self.key_bits)
        return embedding + 2 + 14 * (self.sum_bits + self.key_bits) + 8 + classifier


def dictionary_bound(keys: int, label_bits: int, key_bits: int) -> int:
    """Return the bound for a dictionary alone.

    Args:
        keys: M
        label_bits: of C, above labels
        key_bits: of Q, above keys

    Example:
        >>> dictionary_bound(4096, 5, 22)
        9037
    """
    reach = label_bits + key_bits
    # Below these f one bit more saves 28 k or more blocks, and costs 15 (k - 1).
    return 40 + min(
        14 * (-(-keys // entries) + (1 << (reach - bits)) + 1)
        + 15 * ((entries - 1) * bits + entries)
        for entries in range(1, 4 * isqrt(keys) + 2)
        for bits in range(max(1, reach - entries.bit_length() - 2), reach + 1)
    )


def fewest_weights(*, keys: int, classes: int, places: int, width: int) -> int:
    """Return how many real weights some labelling needs with uniform attention (Proposition 14.7).

    With n^3 N in place of `places`, nN, it is for hardmax, too.
    """
    wanted: int = (classes**keys - 1).bit_length()  # C^M <= 2^x for integers x from here on

    def reached(weights: int) -> bool:
        patterns = 4 * weights * (2 * (weights + width)).bit_length()
        signs = (22 * weights * places * classes).bit_length()  # 8 e < 22
        return patterns + (weights // 2 + 1) * weights * signs >= wanted

    return bisect_left(range(wanted + 1), x=True, key=reached)
