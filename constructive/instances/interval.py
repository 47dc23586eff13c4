"""The interval form: a proved bound of a network on a box, by the range of each token's attention.

For one head with logits l(x) = A x + b let M_ij be at least the maximum over the box of the affine
function l_j - l_i. As p_i = 1 / sum_j exp(l_j - l_i), attention stays within ::

    P-_i = 1 / sum_j exp(M_ij)  <=  p_i(x)  <=  P+_i = 1 / sum_j exp(-M_ji).

Let v be the values that a condition weighs, v_i = w . V_i. As the p_i sum to one, every real number
theta gives a bound, ::

    v . p  =  theta + sum_i (v_i - theta) p_i
           <=  theta + sum_{v_i > theta} (v_i - theta) P+_i - sum_{v_i < theta} (theta - v_i) P-_i.

The best theta is one of the v_i, since the right side is convex, and affine between them. By
duality of linear programs it attains the maximum of v . p over the simplex within [P-, P+], at the
point that a greedy choice finds. The bounds of the heads are added. This is Proposition 22.1,
proofs/22-perturbations.md. In float64 it is rounded as follows.

u = 2^-53, gamma_k and `up` are those of `exact.upward`. Entries are float32 numbers, so differences
and products of two of them neither underflow nor overflow in float64.

- M_ij is a sum of b_j - b_i and d terms max(D lower, D upper), D = A_j - A_i. It has at most d + 3
  roundings, relative to `S_ij = |b_j - b_i| + sum |D| max(|lower|, |upper|)`. So
  M_ij + gamma_(d+8) up(S_ij) is at least the maximum, with its own rounding. M_ii = 0.
- Exponentials are those of `exact.verified`, within 2^-49, times 1 + 2^-40 and `up` for upper
  bounds, 1 - 2^-40 for lower ones. Beyond 700 an upper bound is infinite, and a lower one that of
  exp(700). Below -700 a lower bound is 0, and 2^-1000 is an upper bound.
- Lower bounds of sums, quotients and products lose a factor 1 - 2^-30, and 2^-1000 where they may
  underflow. Upper ones are covered by `up`.
- v is a difference of two float32 numbers, off by u max|v| at most, and so is v . p. For this and
  the three additions of a bound, 8 u times the sum of the sizes of all parts is added.
- The sum over the heads is rounded once, correctly (`math.fsum`), and the next float is taken.
"""

import math
from dataclasses import dataclass

import numpy as np

from constructive.exact.upward import TINY, UNIT, gamma, up
from constructive.exact.verified import exponential
from constructive.instances.network import Network
from constructive.instances.proof import Refutation
from constructive.instances.properties import Atom, Box
from constructive.support.arrays import Array, Rebuilt
from constructive.support.errors import ParameterError

_LARGEST = 700.0  # Exponents up to which `exponential` is one
_EXPONENTIAL_SLACK = 2.0**-40
_DOWN = 1.0 - 2.0**-30


@dataclass(frozen=True, eq=False)
class AttentionRanges(Rebuilt):
    """Proved bounds of the attention of every token of every head, for all inputs of a box."""

    network: Network  # whose attention it is
    least: Array  # P- (H, n)
    most: Array  # P+ (H, n)

    def upper_bounds(self, coefficients: Array) -> Array:
        """Return an upper bound of w . f for each head on its own: (H,).

        w (k,) has entries -1, 0 and 1, at most two of them not 0.
        """
        values = np.stack([head.values for head in self.network.heads]) @ coefficients
        above = values[:, np.newaxis, :] - values[:, :, np.newaxis]  # v_i - theta: (H, theta, i)
        gain = up(np.einsum("hti,hi->ht", np.maximum(above, 0.0), self.most))
        loss = np.einsum("hti,hi->ht", np.maximum(-above, 0.0), self.least)
        loss = np.maximum(loss * _DOWN - TINY, 0.0)
        sizes = np.abs(values) + gain + loss + np.abs(values).max(axis=1, keepdims=True)
        bounds: Array = ((gain - loss + values) + 8.0 * UNIT * up(sizes)).min(axis=1)
        return bounds

    def upper_bound(self, coefficients: Array) -> float:
        """Return an upper bound of w . f over the box.

        Example:
            >>> from constructive.instances.network import Head
            >>> network = Network((Head([[2.0], [0.0]], [0.0, 0.0], [[1.0], [0.0]]),))
            >>> ranges = attention_ranges(network, Box([-1.0], [1.0]))
            >>> 0.880797 < ranges.upper_bound(np.ones(1)) < 0.880798  # 1 / (1 + exp(-2))
            True
        """
        return math.nextafter(math.fsum(self.upper_bounds(coefficients)), math.inf)


@dataclass(frozen=True)
class Interval(Refutation):
    """The interval form. It needs no evidence, since a checker computes the bound again.

    Attributes:
        atom: the index of the atom that is refuted

    Example:
        >>> from constructive.instances.network import Head
        >>> network = Network((Head([[2.0], [0.0]], [0.0, 0.0], [[1.0], [0.0]]),))
        >>> round(Interval(0).margin(network, Box([-1.0], [1.0]), Atom([1.0], 1.0)), 6)
        0.119203
    """

    kind = "interval"

    atom: int

    def margin(self, network: Network, box: Box, atom: Atom) -> float:
        """Return c less the bound of w . f."""
        bound = attention_ranges(network, box).upper_bound(atom.coefficients)
        return math.nextafter(atom.threshold - bound, -math.inf)


def attention_ranges(network: Network, box: Box) -> AttentionRanges:
    """Bound the attention of every token of every head on a box.

    Example:
        >>> from constructive.instances.network import Head
        >>> network = Network((Head([[2.0], [0.0]], [0.0, 0.0], [[1.0], [0.0]]),))
        >>> ranges = attention_ranges(network, Box([0.0], [1.0]))
        >>> ranges.least.round(6), ranges.most.round(6)
        (array([[0.5     , 0.119203]]), array([[0.880797, 0.5     ]]))
    """
    if len(box.lower) != network.input_dim:
        raise ParameterError(
            f"the box has {len(box.lower)} inputs, the network {network.input_dim}",
            witness=len(box.lower),
            suggestion=f"a box of {network.input_dim} inputs",
        )
    ranges = [_head_ranges(head.slopes, head.offsets, box) for head in network.heads]
    least, most = (np.stack(bounds) for bounds in zip(*ranges, strict=True))
    return AttentionRanges(network, least, most)


def _head_ranges(slopes: Array, offsets: Array, box: Box) -> tuple[Array, Array]:
    """P- and P+ of one head."""
    steps = slopes - slopes[:, np.newaxis]  # A_j - A_i: (i, j, d)
    rises = offsets - offsets[:, np.newaxis]
    largest = rises + np.maximum(steps * box.lower, steps * box.upper).sum(axis=2)
    sizes = np.abs(rises) + np.abs(steps) @ np.maximum(np.abs(box.lower), np.abs(box.upper))
    largest = largest + gamma(slopes.shape[1] + 8) * up(sizes)  # M
    np.fill_diagonal(largest, 0.0)

    high = up(exponential(np.minimum(largest, _LARGEST)) * (1.0 + _EXPONENTIAL_SLACK))
    high = np.where(largest <= _LARGEST, high, np.inf)
    low = exponential(np.minimum(-largest.T, _LARGEST)) * (1.0 - _EXPONENTIAL_SLACK)
    least = _DOWN / up(high.sum(axis=1))
    most = np.minimum(up(1.0 / (low.sum(axis=1) * _DOWN)), 1.0)
    return least, most
