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
from constructive.layers.layer import AttentionLayer
from constructive.support.errors import (
    CapacityError,
    in_three_parts,
    require_positive,
    require_seed,
)
from constructive.support.work import one_blas_thread, report
from constructive.theory.bounds import require_heads
from constructive.theory.context_capacity import (
    ContextCapacity,
    LeastHeads,
    context_capacity,
    least_heads,
)

# Dimensions whose mean squares are below this part of the largest ones are there by a hair.
_HAIR = 1e-14


@dataclass(frozen=True)
class FewestHeads:
    """The fewest heads that the contexts of data allow, and some room.

    Attributes:
        least: the smallest H with T <= c(E; H), for the different inputs: no fewer do (Theorem 8),
            and as many do for almost all queries (Theorem 9)
        heads: the same, or one more where less than half a head would be left: Z of a full layer is
            ill-conditioned; and more where tokens lie in fewer dimensions but for a hair, which
            float64 does not see
        reason: why no fewer do, and what is left, in words
    """

    least: int
    heads: int
    reason: str


@in_three_parts
def fewest_heads(dataset: Dataset, *, seed: int = 0) -> FewestHeads:
    """Return the fewest heads that the contexts of a data set allow, with a margin in conditioning.

    No fewer memorize it, whatever its queries and the weights are (Theorem 8); as many do for
    almost all queries (Theorem 9). For some they do not, whatever their number (Proposition 15.5):
    `exact_capacity(dataset, least)` decides that.

    Args:
        dataset: T examples, contexts (T, n, d) or one shared (n, d)
        seed: of the elimination that finds the examples to blame

    Raises:
        ParameterError: for a negative seed
        CapacityError: where no number of heads holds them

    Example:
        >>> from constructive import generators
        >>> data = generators.uniform(num_examples=100, context_size=8, width=16)
        >>> found = fewest_heads(data)
        >>> found.least, found.heads
        (7, 7)
        >>> print(found.reason)
        contexts allow 96 of 100 examples with 6 heads, and 112 with 7
    """
    require_examples(dataset, Dataset)
    require_seed(seed)
    return with_room(dataset, least_heads(dataset, np.random.default_rng(seed)))


def with_room(dataset: Dataset, known: LeastHeads) -> FewestHeads:
    """Return the fewest heads of a data set, and some room.

    CapacityError where no number of heads holds it.
    """
    least, below, decided, different = known
    spans, blamed = below.spans, len(below.blamed)
    if least is None:
        raise CapacityError(
            f"no number of heads can memorize these examples: {blamed} have equal tokens in "
            f"each context, which span {spans.tokens} dimensions",
            witness=tuple(below.blamed[:8].tolist()),
            suggestion="contexts with two different tokens, or fewer examples",
        )
    seen, words = _seen_in_floats(dataset, len(different))
    doubt = "" if decided else "; whether that is enough is not decided"
    if not blamed:
        reason = f"contexts allow all {below.upper} different inputs with one head" + doubt
        return FewestHeads(1, max(1, seen), reason + words * (seen > 1))
    room = spans.tokens + (least - 1) * spans.differences - blamed
    heads = least + (2 * room < spans.differences)
    holds = blamed + room + (heads - least) * spans.differences
    fewer = blamed + room - spans.differences
    allowed = f"contexts allow {fewer} of {blamed} examples with {least - 1} heads"
    reason = f"{allowed}, and {holds} with {heads}{doubt}"
    return FewestHeads(least, max(heads, seen), reason + words * (seen > heads))


def _seen_in_floats(dataset: Dataset, inputs: int) -> tuple[int, str]:
    """Return the heads for all examples by the dimensions that float64 sees, and how to say so."""
    dataset = dataset.filled
    grams, scale = np.zeros((2, dataset.width, dataset.width)), np.abs(dataset.contexts).max() or 1
    for _, contexts in dataset.context_chunks():
        tokens = contexts / scale
        for index, vectors in enumerate((tokens, tokens - tokens[:, :1])):
            flat = vectors.reshape(-1, dataset.width)
            grams[index] += flat.T @ flat
    sizes = np.linalg.eigvalsh(grams)
    spanned, differences = (sizes > _HAIR * sizes[:, -1:]).sum(axis=1).tolist()
    missing = inputs - spanned
    if missing <= 0 or not differences:
        return 1, ""
    return 1 + -(-missing // differences), (
        f"; but float64 sees tokens in {spanned} dimensions and differences in {differences}"
    )


_LARGEST_WEIGHT = 1 << 20
_ATTEMPTS = 2  # Random weights that are tried while the bounds differ


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
    dataset: Dataset, num_heads: int, head_dim: int = 1, *, seed: int = 0
) -> ExactCapacity:
    """Find the largest rank of Z over all weights, proved from below and from above.

    Args:
        dataset: T examples, contexts (T, n, d) or one shared (n, d); targets have no part in it
        num_heads: H
        head_dim: d_h
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
    require_positive(num_heads=num_heads, head_dim=head_dim)
    require_seed(seed)
    num_heads, head_dim = operator.index(num_heads), operator.index(head_dim)
    of_z = dataset.num_examples * (dataset.width + dataset.context_size)
    of_weights = 2 * dataset.width * (head_dim + dataset.target_dim)
    require_heads(num_heads, dataset.num_examples, of_z + of_weights)
    rng = np.random.default_rng(seed)
    found: list[ExactCapacity] = []
    with one_blas_thread(dataset.largest_product(num_heads)):
        report("what contexts hold", 0, 1)
        contexts = context_capacity(dataset, num_heads, rng)
        while len(found) < _ATTEMPTS and not any(capacity.exact for capacity in found):
            report("random weights", len(found), _ATTEMPTS)
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
