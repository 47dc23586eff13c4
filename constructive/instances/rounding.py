"""How far float32 evaluations of a network are from its real values, at most, on a box.

The model of programs is `exact.float_model`, the bound Proposition 20.7 (proofs/20-instances.md).
With u the unit roundoff, n tokens and H heads, and for each head sizes S of its logits, at most r
terms in one, and zeta the error of an average::

    eta  = gamma_(r + 2) S + d 2^-120 max(1, |A|, |x|)        errors of l_i - max l
    |computed f_k - f_k|  <=  sum_h max_i |V_ik| (e^(2 eta) (1 + zeta)(1 + gamma_(H n)) - 1)
                              + H flushed(n) max(1, max |V_ik|).

Two of the roundings in eta are that of l_i - max l, which is at most 2 S in size; terms with the
factor zero are exact. The last line is what underflow takes. TF32 and bfloat16 are not of the
model.
"""

from collections.abc import Sequence

import numpy as np

from constructive.exact.float_enclosure import growth
from constructive.exact.float_model import FLOAT32
from constructive.exact.upward import up
from constructive.instances.network import Head, Network, Rectified, Stacked
from constructive.instances.properties import Box, Linear, Property
from constructive.support.arrays import Array

MODEL = FLOAT32  # The model of floating-point programs that answers hold for
_FLUSHED = 2.0**-120  # More than underflow takes from a product, or from a number that is loaded
# Nats by which computed logits of a first layer lead, and what the other tokens then do to values.
_LEAD, _SATURATED = 80.0, 2.0**-76


def reach_of(box: Box) -> Array:
    """Return the largest sizes of inputs on a box: (d,)."""
    return np.maximum(np.abs(box.lower), np.abs(box.upper))


def largest_logit(head: Head, reach: Array) -> float:
    """Bound the sums of sizes that the logits of a head are made of, for inputs of sizes (d,)."""
    return float(up(np.abs(head.offsets) + np.abs(head.slopes) @ reach).max())


def flushed_logit(head: Head, reach: Array) -> float:
    """Bound what underflow takes from a logit: from products, and from numbers that are loaded."""
    largest = max(1.0, float(np.abs(head.slopes).max()), float(reach.max()))
    return len(reach) * _FLUSHED * largest


def output_rounding(network: Network, box: Box) -> Array:
    """Bound how far evaluations of each output are off: (k,), infinite where nothing is bounded.

    The second of two layers is one of x + v, which is rounded once (Proposition 20.10): the first
    returns v but for `_SATURATED` of its largest value, and that for each head.
    """
    reach, steps, moved = reach_of(box), 2, 0.0
    if isinstance(network, Stacked):
        first = network.first.heads
        off = max(_eta(head, reach, 2) for head in first)
        if not network.lead(box) - 4.0 * off >= _LEAD:
            return np.full(network.output_dim, np.inf)
        moved = _SATURATED * max(1.0, sum(float(np.abs(head.values).max()) for head in first))
        reach, steps = reach + sum(np.abs(head.values[0]) for head in first), 3 + len(first)
    etas = []
    for head in network.heads:
        steep = float(np.abs(head.slopes).sum(axis=1).max())
        lost = flushed_logit(head, reach) + 2.0 * steep * moved
        etas.append(_eta(head, reach, steps) + lost)
    largest = max(largest_logit(head, reach) for head in network.heads)
    rounding = averages_rounding(network, etas, largest)
    return _rectified_rounding(network, rounding) if isinstance(network, Rectified) else rounding


def _eta(head: Head, reach: Array, steps: int) -> float:
    """Bound what is rounded of a logit less the largest one, without what underflows."""
    terms = int(np.count_nonzero(head.slopes, axis=1).max()) + 1
    return float(MODEL.gamma(terms + steps)) * largest_logit(head, reach)


def averages_rounding(network: Network, etas: Sequence[float], largest: float) -> Array:
    """Bound how far sums of heads are off: (k,), if l_i - max l is off by eta in each of them.

    No logit is above `largest` in size.
    """
    tokens, count = network.num_tokens, len(network.heads)
    zeta, flushed = float(MODEL.average(tokens)), float(MODEL.flushed(tokens))
    added = float(MODEL.gamma(count * tokens))
    total: Array = np.zeros(network.heads[0].values.shape[1])
    for head, eta in zip(network.heads, etas, strict=True):
        moved = float(growth(up(np.array(eta))))
        relative = moved + (1.0 + moved) * (zeta + added + zeta * added)
        sizes = np.abs(head.values).max(axis=0)
        total = total + relative * sizes + flushed * np.maximum(1.0, sizes)
        room = 4.0 * tokens * max(largest, float(sizes.max()), 1.0)
        if not room <= MODEL.overflow:
            return np.full(len(total), np.inf)
    return up(total)


def _rectified_rounding(network: Rectified, rounding: Array) -> Array:
    """Bound how far the sum of the units is off, if the features (k,) are off by so much.

    Products with weights -1 and 1 are exact, and so is relu. A unit adds k + 1 numbers of sizes Z
    together, and the sum of m units is of sum Z at most, each with one rounding more.
    """
    reach = rounding + sum(np.abs(head.values).max(axis=0) for head in network.heads)
    weights = np.abs(network.units)
    sizes = weights @ reach + np.abs(network.biases)
    steps = network.units.shape[1] + len(sizes) + 4
    return up(up((weights @ rounding).sum() + float(MODEL.gamma(steps)) * sizes.sum(keepdims=True)))


def atom_rounding(rounding: Array, atom: Linear) -> float:
    """Bound how far evaluations of w . Y are off, from bounds for each output (k,)."""
    return float(up(np.abs(atom.coefficients) @ rounding))


def property_rounding(network: Network, wanted: Property) -> float:
    """Bound how far evaluations are off for the atom of a property that is off most."""
    rounding = output_rounding(network, wanted.box)
    return max(atom_rounding(rounding, atom) for atoms in wanted.disjuncts for atom in atoms)


def gradient_bound(network: Network, atom: Linear) -> float:
    """Bound the 1-norm of the gradient of w . f, anywhere (Lemma 20.8).

    The gradient of a head is `sum_{i < j} p_i p_j (v_i - v_j)(a_i - a_j)`, and
    `sum_{i < j} p_i p_j |v_i - v_j|` is at most a quarter of the largest difference of values.
    """
    total = 0.0
    for head in network.heads:
        values = head.values @ atom.coefficients
        spread, steepest = float(values.max() - values.min()), 0.0
        for value, row in zip(values.tolist(), head.slopes, strict=True):
            apart = np.abs(head.slopes[values != value] - row).sum(axis=1)
            steepest = max(steepest, float(apart.max(initial=0.0)))
        total += 0.25 * spread * steepest
    return float(up(np.array(total)))


def needed_margin(network: Network, wanted: Property) -> float:
    """Return the least margin at which an answer is shipped, the largest over all atoms.

    Scorers accept witnesses slightly outside of the box, so it is `1e-3 + 1e-4 sup |grad f|_1`; and
    at least twice the bound of rounding.
    """
    rounding = output_rounding(network, wanted.box)
    atoms = [atom for atoms in wanted.disjuncts for atom in atoms]
    return max(
        max(1e-3 + 1e-4 * gradient_bound(network, atom), 2.0 * atom_rounding(rounding, atom))
        for atom in atoms
    )
