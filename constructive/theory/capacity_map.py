"""Exact capacity over a grid of sizes: what the theorems promise, and the truth beside it.

Every point is an `exact_capacity` of its own, on data drawn for it, so a map may be computed on any
executor; it is the same map on all of them.
"""

import csv
import io
from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path

from constructive.data import generators
from constructive.support.arguments import require_positive, require_seed
from constructive.support.errors import ParameterError
from constructive.support.files import replacing
from constructive.support.parallel import ordered_map
from constructive.support.tables import Sheet, Shown, new_table
from constructive.theory.bounds import rank_one_capacity, saturated_capacity
from constructive.theory.exact_capacity import exact_capacity


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
