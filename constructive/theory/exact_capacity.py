"""Exact capacity: the largest rank of Z over all weights, for a given data set.

rank Z = T is what it takes to memorize T examples, whatever their targets. Minors of Z are analytic
in the weights, so almost all weights give the largest rank, and random ones most likely do.

- *Proved from below*: rank Z(a) modulo p for the random integer weights that are returned
  (`layers.residues`). These very weights memorize as many examples.
- *Proved from above*: Theorem 8, c(E; H), by the set J of examples that gives the least bound
  (`theory.context_capacity`).
- Where both agree, that is the capacity. By Theorem 9 they do for almost all queries. For some they
  do not, as where contexts are translates of each other and have one query (Proposition 15.5); then
  the capacity is probably the lower one, and that is all that is said: no weights found it higher.
"""

import operator
from dataclasses import dataclass

import numpy as np

from constructive.data.dataset import Dataset
from constructive.data.shapes import require_examples
from constructive.layers import residues
from constructive.layers.attention import AttentionLayer
from constructive.support.arguments import require_positive, require_seed
from constructive.support.foreign import in_three_parts
from constructive.support.progress import report
from constructive.theory.context_capacity import ContextCapacity, context_capacity
from constructive.theory.many_heads import require_heads

_LARGEST_WEIGHT = 1 << 20


@dataclass(frozen=True, eq=False)
class ExactCapacity:
    """Bounds for the largest rank of Z over all weights of H heads of dimension d_h.

    Attributes:
        lower: proved, by the weights of `layer`
        upper: proved for all weights, for this `reason`
        reason: which bound of all weights it is, in words
        layer: integer W_Q and W_K whose Z has rank `lower` or more; its readout is zero
        contexts: bounds of c(E; H), and the examples that are to blame for it
    """

    lower: int
    upper: int
    reason: str
    layer: AttentionLayer
    contexts: ContextCapacity

    @property
    def exact(self) -> bool:
        """Whether the bounds agree; if not, the capacity is probably the lower one."""
        return self.lower == self.upper

    def __repr__(self) -> str:
        shape = f"H={self.layer.num_heads}, d_h={self.layer.head_dim}"
        if self.exact:
            return f"ExactCapacity({self.lower}, proved, {shape})"
        return f"ExactCapacity({self.lower} probably, at most {self.upper}, {shape})"


@in_three_parts
def exact_capacity(
    dataset: Dataset, num_heads: int, head_dim: int = 1, *, attempts: int = 2, seed: int = 0
) -> ExactCapacity:
    """Find the largest rank of Z over all weights, proved from below and from above.

    Args:
        dataset: T examples, contexts (T, n, d) or one shared (n, d); targets have no part in it
        num_heads: H
        head_dim: d_h
        attempts: random weights that are tried while the bounds differ
        seed: of the weights

    Raises:
        ParameterError: for a count that is not positive, a negative seed, and far too many heads

    Example:
        >>> from constructive import generators
        >>> shared = generators.shared_context(num_examples=20, context_size=4, width=6)
        >>> exact_capacity(shared, num_heads=3)  # H(n - 1) + 1, also with d_h = 1
        ExactCapacity(10, proved, H=3, d_h=1)
    """
    require_examples(dataset, Dataset)
    require_positive(num_heads=num_heads, head_dim=head_dim, attempts=attempts)
    require_seed(seed)
    num_heads, head_dim = operator.index(num_heads), operator.index(head_dim)
    of_z = dataset.num_examples * (dataset.width + dataset.context_size)
    of_weights = 2 * dataset.width * (head_dim + dataset.target_dim)
    require_heads(num_heads, dataset.num_examples, of_z + of_weights)
    rng = np.random.default_rng(seed)
    report("what contexts hold", 0, 1)
    contexts = context_capacity(dataset, num_heads, rng)
    found: list[ExactCapacity] = []
    while len(found) < attempts and not any(capacity.exact for capacity in found):
        report("random weights", len(found), attempts)
        layer = _random_layer(dataset, num_heads, head_dim, rng)
        rank = residues.search(layer, dataset, rng).rank
        found.append(ExactCapacity(rank, contexts.upper, str(contexts), layer, contexts))
    return max(found, key=lambda capacity: capacity.lower)


def _random_layer(
    dataset: Dataset, num_heads: int, head_dim: int, rng: np.random.Generator
) -> AttentionLayer:
    shape = (2, num_heads, dataset.width, head_dim)
    query, key = rng.integers(1, _LARGEST_WEIGHT, size=shape).astype(np.float64)
    values = np.zeros((num_heads, dataset.width, dataset.target_dim))
    outputs = np.zeros((num_heads * dataset.target_dim, dataset.target_dim))
    return AttentionLayer(query, key, values, outputs, np.zeros((dataset.target_dim,) * 2))
