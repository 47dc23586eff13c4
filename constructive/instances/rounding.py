"""How far float32 evaluations of a network are from its real values, at most, on a box.

An evaluation loads A, b, V and x, which are float32 numbers, computes each logit as a sum of
products and an offset, takes softmax as the model of floating-point programs says
(`exact.float_model`), averages the values, and adds the heads. With u the unit roundoff, n tokens,
H heads, and for each head (Proposition 20.7,
proofs/20-instances.md)::

    S    = max_i  |b_i| + sum_j |a_ij| max(|l_j|, |u_j|)      sizes of its logits on the box
    r    = max_i  #{j: a_ij != 0} + 1                         terms of a logit
    eta  = gamma_(r + 2) S + d 2^-120                         errors of l_i - max l
    zeta = the error of an average of n terms, exp's error included (FloatModel.average)

    |computed f_k - f_k|  <=  sum_h max_i |V_ik| (e^(2 eta) (1 + zeta)(1 + gamma_(H n)) - 1)
                              + H flushed(n) max(1, max |V_ik|).

Two of the roundings in eta are that of l_i - max l, which is at most 2 S in size; terms with the
factor zero are exact. One sum may have the values of all heads, so it has H n terms. The last line
is what underflow takes.

TF32 and bfloat16 execution are not evaluations of this model: they round x and A to 11 or 8 bits
first, and so move logits by S 2^-11 or S 2^-8.
"""

import numpy as np

from constructive.exact.float_enclosure import growth
from constructive.exact.float_model import FLOAT32
from constructive.exact.upward import up
from constructive.instances.network import Head, Network
from constructive.instances.properties import Atom, Box, Property
from constructive.support.arrays import Array

MODEL = FLOAT32  # The model of floating-point programs that answers hold for
_FLUSHED_LOGIT = 2.0**-120  # More than underflow takes from a term of a logit


def logit_sizes(head: Head, box: Box) -> Array:
    """Bound the sums of sizes that the logits of a head are made of, on a box: (n,)."""
    reach = np.maximum(np.abs(box.lower), np.abs(box.upper))
    return up(np.abs(head.offsets) + np.abs(head.slopes) @ reach)


def output_rounding(network: Network, box: Box) -> Array:
    """Bound how far evaluations of each output are off: (k,), infinite where nothing is bounded."""
    tokens, count = network.num_tokens, len(network.heads)
    zeta, flushed = float(MODEL.average(tokens)), float(MODEL.flushed(tokens))
    added = float(MODEL.gamma(count * tokens))
    total = np.zeros(network.output_dim)
    for head in network.heads:
        sizes = logit_sizes(head, box)
        terms = int(np.count_nonzero(head.slopes, axis=1).max()) + 1
        eta = float(MODEL.gamma(terms + 2)) * float(sizes.max())
        eta += network.input_dim * _FLUSHED_LOGIT
        moved = float(growth(up(np.array(eta))))
        relative = moved + (1.0 + moved) * (zeta + added + zeta * added)
        largest = np.abs(head.values).max(axis=0)
        total = total + relative * largest + flushed * np.maximum(1.0, largest)
        room = 4.0 * tokens * max(float(sizes.max()), float(largest.max()), 1.0)
        if not room <= MODEL.overflow:
            return np.full(network.output_dim, np.inf)
    return up(total)


def atom_rounding(rounding: Array, atom: Atom) -> float:
    """Bound how far evaluations of w . Y are off, from bounds for each output (k,)."""
    return float(up(np.abs(atom.coefficients) @ rounding))


def property_rounding(network: Network, wanted: Property) -> float:
    """Bound how far evaluations are off for the atom of a property that is off most."""
    rounding = output_rounding(network, wanted.box)
    return max(atom_rounding(rounding, atom) for atoms in wanted.disjuncts for atom in atoms)


def gradient_bound(network: Network, atom: Atom) -> float:
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
