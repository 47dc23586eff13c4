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

import csv
import io
import operator
from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import overload

import numpy as np

from constructive.data import generators
from constructive.data.dataset import Dataset
from constructive.data.shapes import require_examples
from constructive.layers import residues
from constructive.layers.attention import AttentionLayer
from constructive.support.arguments import require_positive, require_seed
from constructive.support.errors import CapacityError, ParameterError, in_three_parts
from constructive.support.files import replacing
from constructive.support.parallel import ordered_map
from constructive.support.progress import report
from constructive.support.tables import Sheet, Shown, new_table
from constructive.support.threads import one_blas_thread
from constructive.theory import bounds
from constructive.theory.bounds import rank_one_capacity, require_heads, saturated_capacity
from constructive.theory.context_capacity import (
    ContextCapacity,
    LeastHeads,
    context_capacity,
    least_heads,
)

# How many heads: by the theorems for sizes, and exactly for data.


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


@overload
def heads_needed(num_examples: int, context_size: int, head_dim: int | None = None) -> int: ...
@overload
def heads_needed(num_examples: Dataset) -> int: ...
def heads_needed(
    num_examples: int | Dataset, context_size: int | None = None, head_dim: int | None = None
) -> int:
    """Return the smallest H that holds T examples, or that the contexts of a data set allow.

    For sizes Theorem 1's if d_h is given, else Theorem 2's. For a data set the number that its
    contexts allow: no fewer heads hold it (Theorem 8), and as many do for almost all queries
    (Theorem 9).

    Args:
        num_examples: T, or a data set
        context_size: n, for a number T
        head_dim: d_h; None for rank-one heads

    Raises:
        ParameterError: where a count is not a positive integer, and for sizes with a data set
        CapacityError: where r = min(n, d_h) = 1, or no number of heads holds the data

    Example:
        >>> heads_needed(1861, context_size=32, head_dim=64)
        60
        >>> heads_needed(1862, context_size=32)
        61
        >>> from constructive import generators
        >>> heads_needed(generators.uniform(num_examples=100, context_size=8, width=16))
        7
    """
    if not isinstance(num_examples, Dataset):
        return bounds.heads_needed(num_examples, context_size, head_dim)  # type: ignore[arg-type] # checked there
    if context_size is not None or head_dim is not None:
        raise ParameterError(
            "a data set has its sizes, and every head dimension holds as much",
            witness=(context_size, head_dim),
            suggestion="heads_needed(dataset)",
        )
    return fewest_heads(num_examples).least


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
    found: list[ExactCapacity] = []
    with one_blas_thread(dataset.largest_product(num_heads)):
        report("what contexts hold", 0, 1)
        contexts = context_capacity(dataset, num_heads, rng)
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


# Exact capacity over a grid of sizes: what the theorems promise, and the truth beside it.
#
# Every point is an `exact_capacity` of its own, on data drawn for it, so a map may be computed on
# any executor; it is the same map on all of them.


@dataclass(frozen=True)
class MapPoint:
    """The largest rank of Z over all weights, at one point of the grid, and the theorems' bounds.

    Attributes:
        num_heads: H
        context_size: n
        head_dim: d_h
        width: d
        shared_context: whether all examples have one context
        num_examples: T
        theorem_1: H(min(n, d_h) - 1) + 1
        theorem_2: H(n - 1) + 1
        lower, upper: proved bounds of the largest rank (`exact_capacity`), on T examples
    """

    num_heads: int
    context_size: int
    head_dim: int
    width: int
    shared_context: bool
    num_examples: int
    theorem_1: int
    theorem_2: int
    lower: int
    upper: int


@dataclass(frozen=True)
class CapacityMap(Shown):
    """Points of a grid, in its order. `str` is a table, and so is the HTML that notebooks show.

    Attributes:
        points: one for each H, n and d_h; the last of these changes first
    """

    points: tuple[MapPoint, ...]

    def save(self, path: str | Path) -> None:
        """Write a .csv file with a row for each point, whole or not at all.

        Args:
            path: the file, .csv; an old one of that name is replaced

        Raises:
            OutputError: where it cannot be written
        """
        text = io.StringIO()
        writer = csv.DictWriter(text, [field.name for field in fields(MapPoint)])
        writer.writeheader()
        writer.writerows(asdict(point) for point in self.points)
        with replacing(path) as file:
            file.write(text.getvalue().encode())

    def _sheet(self) -> Sheet:
        table = new_table(
            "H", "n", "d_h", "context", "T", "Theorem 1", "Theorem 2", "proved rank", "at most",
            left=(),
        )  # fmt: skip
        for p in self.points:
            kind = "shared" if p.shared_context else "own"
            cells = (
                p.num_heads, p.context_size, p.head_dim, kind, p.num_examples, p.theorem_1,
                p.theorem_2, p.lower, p.upper,
            )  # fmt: skip
            table.add_row(*map(str, cells))
        width = self.points[0].width if self.points else 0
        return Sheet(f"Largest rank of Z over all weights, d = {width}", (), table)


def capacity_map(
    *,
    num_heads: Iterable[int],
    context_size: Iterable[int],
    head_dim: Iterable[int],
    width: int,
    shared_context: bool = False,
    seed: int = 0,
    executor: Executor | None = None,
) -> CapacityMap:
    """Return exact capacities of uniform data for all combinations of H, n and d_h.

    Each point has one example more than the bound that is known beforehand: H(n - 1) + 2 with a
    shared context, H d + 1 without.

    Args:
        num_heads: the values of H
        context_size: the values of n
        head_dim: the values of d_h
        width: d
        shared_context: whether all examples of a point have one context
        seed: of data and weights
        executor: where points are computed (`constructive.support.parallel`); None for here

    Raises:
        ParameterError: for sizes that are not positive or are none at all, for n > d, where no
            context has rank n, for a negative seed, and for what is not an executor

    Example:
        >>> print(capacity_map(num_heads=[2, 3], context_size=[4], head_dim=[1], width=6,
        ...                    shared_context=True))
        Largest rank of Z over all weights, d = 6
          H  n  d_h  context   T  Theorem 1  Theorem 2  proved rank  at most
          2  4    1   shared   8          1          7            7        7
          3  4    1   shared  11          1         10           10       10
    """
    require_positive(width=width)
    require_seed(seed)
    sweeps = {"num_heads": num_heads, "context_size": context_size, "head_dim": head_dim}
    heads, sizes, inner = (_values(name, given) for name, given in sweeps.items())
    if max(sizes) > width:
        raise ParameterError(
            f"contexts of n={max(sizes)} tokens in d={width} dimensions cannot have rank n",
            witness=max(sizes),
            suggestion=f"context_size of at most {width}, or a larger width",
        )
    grid = list(product(heads, sizes, inner))
    tasks = [(*point, width, shared_context, seed) for point in grid]
    points = ordered_map(_point, tasks, executor=executor, step="capacities")
    return CapacityMap(tuple(points))


def _values(name: str, given: Iterable[int]) -> list[int]:
    """Return the values of one axis of the grid, checked."""
    values = list(given) if isinstance(given, Iterable) else []
    if not values:
        raise ParameterError(
            f"{name}={given!r} are not values for a grid", witness=given, suggestion=f"{name}=[20]"
        )
    for value in values:
        require_positive(**{name: value})
    return values


def _point(task: tuple[int, int, int, int, bool, int]) -> MapPoint:
    heads, size, inner, width, shared, seed = task
    total = heads * (size - 1) + 2 if shared else heads * width + 1
    draw = generators.shared_context if shared else generators.uniform
    data = draw(num_examples=total, context_size=size, width=width, seed=seed)
    found = exact_capacity(data, heads, inner, seed=seed)
    return MapPoint(
        num_heads=heads,
        context_size=size,
        head_dim=inner,
        width=width,
        shared_context=shared,
        num_examples=total,
        theorem_1=saturated_capacity(heads, size, inner),
        theorem_2=rank_one_capacity(heads, size),
        lower=found.lower,
        upper=found.upper,
    )
