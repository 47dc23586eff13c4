"""What a program may multiply at once, and how many roundings that makes.

A *contraction* multiplies arrays entry by entry and sums over one index or several. A path is one
choice of all indices: the product of one entry of each array. A contraction of m arrays over sets
of k_1, ..., k_r indices rounds each of its paths m - 1 times as it multiplies, and k_1 ... k_r - 1
times at most as it adds, whatever the order. So a program that is a tree of contractions is off by
gamma_K times the sum of the sizes of all paths, K the roundings that a path meets on its way.

*Pairwise* trees multiply two arrays and sum over one index at a time: a sum over k indices rounds a
path k times, its product included. Heads may share a sum with the entries of tokens or with values;
never with tokens.

In *any* tree a path meets all its products, and additions of disjoint sets of indices. A product of
sizes k_1 ... k_r - 1 is at least the sum of all k_i - 1, so the one flat sum over all indices is
the worst tree.
"""

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from constructive.support.arrays import Array


class Contraction(ABC):
    """How the arrays of a layer or of a decoder may be contracted."""

    name: str  # as models are called
    free: bool  # whether any set of the arrays may be multiplied before anything is summed
    projects: bool = False  # whether logits are products of queries and keys, and of nothing else
    of_layers: str  # what it allows for layers, in words
    of_decoders: str  # what it allows for decoders, in words

    @abstractmethod
    def logits(self, width: int, head_dim: int) -> int:
        """Count the roundings of a path of a logit x^T W_K W_Q^T e."""

    @abstractmethod
    def outputs(self, heads: int, tokens: int, width: int, value_dim: int, between: int) -> int:
        """Count those of a path of an output sum_h a_h X W_V W_O W_D, but for softmax."""

    @abstractmethod
    def readouts(self, tokens: npt.ArrayLike, rows: int, outputs: int) -> tuple[Array, int]:
        """Count those of the two products of a decoder, z^T U and its product with o_v.

        A tree that does not sum over the rows of U first has all of them in the first count: its
        errors are then bounded by sums of `|z| |U| |o_v|`.
        """


class Pairwise(Contraction):
    """Products of two arrays at a time."""

    name = "pairwise"
    free = False
    of_layers = (
        "products of two arrays at a time, each summed over one index, in any order of arrays "
        "(heads together with entries of tokens or with values, never with tokens)"
    )
    of_decoders = (
        "products of two arrays at a time, each summed over one index (queries and keys first, or "
        "their matrix first; heads together with entries of tokens, never with tokens; averages "
        "before the readout, and that before the unembedding)"
    )

    def logits(self, width: int, head_dim: int) -> int:
        """Count a product and additions for each of three sums."""
        return 2 * width + head_dim

    def outputs(self, heads: int, tokens: int, width: int, value_dim: int, between: int) -> int:  # noqa: ARG002 - tokens are counted in softmax
        """Count three sums, one of them over heads, too."""
        return max(width + heads * value_dim, heads * width + value_dim) + between

    def readouts(self, tokens: npt.ArrayLike, rows: int, outputs: int) -> tuple[Array, int]:
        """Count each product for itself."""
        return np.full(np.shape(tokens), float(rows)), outputs


class Projected(Pairwise):
    """Products of two arrays at a time, where logits are products of queries and keys."""

    name = "projected"
    projects = True
    of_decoders = Pairwise.of_decoders.replace(", or their matrix first", "")


class AnyContraction(Contraction):
    """Products of any arrays, summed over any indices at once."""

    name = "any contraction"
    free = True
    of_layers = of_decoders = (
        "products of any number of arrays, summed over any number of indices at once, in any order"
    )

    def logits(self, width: int, head_dim: int) -> int:
        """Count one sum of products of four factors."""
        return width * head_dim * width + 2

    def outputs(self, heads: int, tokens: int, width: int, value_dim: int, between: int) -> int:
        """Count one sum of products of five factors."""
        return heads * tokens * width * value_dim * between + 3

    def readouts(self, tokens: npt.ArrayLike, rows: int, outputs: int) -> tuple[Array, int]:
        """Count one sum of products of four factors: attention, tokens, U and the unembedding."""
        return np.asarray(tokens, dtype=np.float64) * rows * outputs + 2.0, 0
