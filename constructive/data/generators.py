"""Datasets from a seed: the protocols of the paper's experiments, and data with known rank.

Every generator takes `num_examples` T, `context_size` n, `width` d, `target_dim` d_out (None for
targets of shape (T,)) and a `seed`, and returns a `Dataset` with targets uniform in [0, 1) (of
`integers` they are integers). The same seed gives the same numbers, in memory or with `folder=` on
disk, where T may be so large that contexts do not fit into memory. All but `integers` draw from a
continuous distribution, so that Assumptions 1 and 2 hold with probability one (for `bag_of_tokens`
as long as the bag is generic).

Source: Mahdavi, Liao and Thrampoulidis (ICLR 2024), section 5, for the first four.

Example:
    >>> from constructive import generators
    >>> generators.uniform(num_examples=7, context_size=3, width=5, seed=0)
    Dataset(T=7, n=3, d=5, d_out=1, own contexts, float64)
    >>> generators.shared_context(num_examples=7, context_size=3, width=5, seed=0)
    Dataset(T=7, n=3, d=5, d_out=1, one shared context, float64)
"""

import inspect
import math
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from constructive.data.dataset import Dataset, owning
from constructive.data.stored import write_folder
from constructive.exact.modular import prime_from
from constructive.support.arrays import Array, Integers, float_type, row_chunks
from constructive.support.errors import (
    ParameterError,
    in_three_parts,
    is_integer,
    require_memory,
    require_positive,
    require_seed,
)

_DRAWN_BYTES = 1 << 20  # Size of the numbers that are drawn at a time


class _Shapes(NamedTuple):
    """The shapes of what is drawn: (T, n, d), (T, d), and (T,) or (T, d_out)."""

    contexts: tuple[int, ...]
    queries: tuple[int, ...]
    targets: tuple[int, ...]


class _Draws(NamedTuple):
    """How numbers are drawn: contexts row by row, then queries, then targets.

    rows: draws so many rows of the contexts, which have this shape

    However many rows are drawn at a time, the numbers are the same.
    """

    shape: tuple[int, ...]
    rows: Callable[[int], Array]
    queries: Callable[[], Array]
    targets: Callable[[], Array]


class _Generator(Protocol):
    """What every generator is, with options of its own."""

    def __call__(  # noqa: D417 - a generator names its options
        self,
        *,
        num_examples: int,
        context_size: int,
        width: int,
        target_dim: int | None = None,
        seed: int = 0,
        dtype: npt.DTypeLike = np.float64,
        folder: str | Path | None = None,
        **options: int,
    ) -> Dataset:
        """Draw a dataset.

        Args:
            num_examples: T
            context_size: n, the number of tokens in a context
            width: d, the number of entries of a token or a query
            target_dim: d_out, the number of entries of a target; by default targets are (T,)
            seed: of all random numbers; the same seed gives the same data
            dtype: float64, or float32, to which all numbers are rounded
            folder: where the data are written, a few examples at a time; by default they are in
                memory

        Raises:
            ParameterError: for a count that is not a positive integer, a seed that is not a
                non-negative integer, another dtype, and an option beyond what its line allows
            OutputError: where the folder cannot be written
        """


def _generator(draw: Callable[..., _Draws]) -> _Generator:
    """The generator of a function that takes random numbers, shapes, and options by keyword."""

    @in_three_parts
    @wraps(draw)
    def generate(
        *,
        num_examples: int,
        context_size: int,
        width: int,
        target_dim: int | None = None,
        seed: int = 0,
        dtype: npt.DTypeLike = np.float64,
        folder: str | Path | None = None,
        **options: int,
    ) -> Dataset:
        require_positive(num_examples=num_examples, context_size=context_size, width=width)
        if target_dim is not None:
            require_positive(target_dim=target_dim)
        require_seed(seed)
        targets = (num_examples,) if target_dim is None else (num_examples, target_dim)
        shapes = _Shapes((num_examples, context_size, width), (num_examples, width), targets)
        kind = float_type(dtype)
        for name in ("queries", "targets"):
            size = kind.itemsize * math.prod(getattr(shapes, name))
            require_memory(name, size, "fewer examples")
        draws = draw(np.random.default_rng(seed), shapes, **options)
        if folder is None:
            size = kind.itemsize * math.prod(draws.shape)
            require_memory("contexts", size, "fewer examples, or a folder, where they stay on disk")
        return _drawn(draws, kind, folder)

    common = inspect.signature(_Generator.__call__)
    _, *sizes, _ = common.parameters.values()  # but for self and options
    own = [x for x in inspect.signature(draw).parameters.values() if x.kind is x.KEYWORD_ONLY]
    generate.__signature__ = common.replace(  # type: ignore[attr-defined] # which inspect reads
        parameters=[*sizes[:3], *own, *sizes[3:]]
    )
    generate.__doc__ = _documented(inspect.getdoc(draw) or "")
    return generate


def _documented(own: str) -> str:
    """The docstring of a generator, from what is special about it and what all have in common."""
    text, _, example = own.partition("\n\nExample:\n")
    text, _, options = text.partition("\n\nArgs:\n")
    common = (inspect.getdoc(_Generator.__call__) or "").partition("\n\nArgs:\n")[2]
    text += "\n\nArgs:\n" + (options and f"{options}\n") + common
    return text + (example and f"\n\nExample:\n{example}")


def _drawn(draws: _Draws, kind: np.dtype[Any], folder: str | Path | None) -> Dataset:
    """Draw a few rows of contexts at a time, then the rest, into memory or into a folder."""
    shape = draws.shape
    chunks = row_chunks(shape[0], 8 * math.prod(shape[1:]), _DRAWN_BYTES)
    blocks = (draws.rows(rows.stop - rows.start) for rows in chunks)

    def others() -> tuple[Array, Array]:
        return draws.queries().astype(kind, copy=False), draws.targets().astype(kind, copy=False)

    if folder is not None:
        write_folder(folder, shape, kind, blocks, others)
        return Dataset.open(folder)
    contexts, filled = np.empty(shape, kind), 0
    for block in blocks:
        contexts[filled : filled + len(block)] = block
        filled += len(block)
    return owning(contexts, *others())


def _uniform(rng: np.random.Generator, shapes: _Shapes) -> _Draws:
    """All numbers uniform in [0, 1)."""
    return _Draws(
        shapes.contexts,
        lambda count: rng.random((count, *shapes.contexts[1:])),
        lambda: rng.random(shapes.queries),
        lambda: rng.random(shapes.targets),
    )


@_generator
def uniform(rng: np.random.Generator, shapes: _Shapes) -> _Draws:
    """Draw a context for each example; tokens and queries are uniform in [0, 1)."""
    return _uniform(rng, shapes)


@_generator
def shared_context(rng: np.random.Generator, shapes: _Shapes) -> _Draws:
    """Draw one context for all examples; tokens and queries are uniform in [0, 1)."""
    _, size, width = shapes.contexts
    return _uniform(rng, shapes._replace(contexts=(size, width)))


@_generator
def gaussian(rng: np.random.Generator, shapes: _Shapes) -> _Draws:
    """Draw a context for each example; tokens and queries are standard normal."""
    return _uniform(rng, shapes)._replace(
        rows=lambda count: rng.standard_normal((count, *shapes.contexts[1:])),
        queries=lambda: rng.standard_normal(shapes.queries),
    )


@_generator
def bag_of_tokens(  # noqa: D417 - callers do not give the others
    rng: np.random.Generator, shapes: _Shapes, *, bag_size: int = 500
) -> _Draws:
    """Draw n different tokens of one bag for each context, as words of a vocabulary ("perm").

    The bag is uniform in [0, 1), and so are the queries. Contexts overlap, as they do in language.

    Args:
        bag_size: the number of tokens in the bag, at least n
    """
    _, size, width = shapes.contexts
    require_positive(bag_size=bag_size)
    if bag_size < size:
        message = f"bag_size={bag_size} is less than context_size={size}"
        raise ParameterError(message, witness=bag_size, suggestion=f"bag_size >= {size}")
    bag = rng.random((bag_size, width))

    def draw_contexts(count: int) -> Array:
        rows = np.tile(np.arange(bag_size), (count, 1))
        chosen: Array = bag[rng.permuted(rows, axis=1)[:, :size]]
        return chosen

    return _uniform(rng, shapes)._replace(rows=draw_contexts)


@_generator
def moment_curve(rng: np.random.Generator, shapes: _Shapes) -> _Draws:
    """Draw uniform contexts, with queries of Kruskal rank exactly min(T, d), by Vandermonde.

    Query t is (1, t, t^2, ..., t^(d-1)) reduced modulo a prime p >= T and centred around zero, so
    that its entries are integers of absolute value at most p / 2.

    *Proof.* Any min(T, d) of them contain a square Vandermonde matrix at distinct nodes mod p,
    whose determinant is the product of the differences of the nodes, nonzero mod p. So the
    determinant of the integer matrix is not a multiple of p, hence not zero. QED

    Example:
        >>> moment_curve(num_examples=5, context_size=2, width=3).queries
        array([[ 1.,  0.,  0.],
               [ 1.,  1.,  1.],
               [ 1.,  2., -1.],
               [ 1., -2., -1.],
               [ 1., -1.,  1.]])
    """
    total, width = shapes.queries
    return _uniform(rng, shapes)._replace(
        queries=lambda: moment_curve_points(np.arange(total), width)
    )


@_generator
def integers(  # noqa: D417 - callers do not give the others
    rng: np.random.Generator, shapes: _Shapes, *, largest: int = 9
) -> _Draws:
    """Draw tokens, queries and targets from the integers between -largest and largest.

    They are stored as floats. Small integers can violate the assumptions by chance; the
    construction then says which.

    Args:
        largest: the largest absolute value of an entry, 0 or more and below 2^63
    """
    if not is_integer(largest) or not 0 <= largest < 1 << 63:
        raise ParameterError(
            f"largest={largest!r} is not an integer from 0 to 2^63 - 1",
            witness=largest,
            suggestion="largest=9",
        )

    def draw_integers(*shape: int) -> Array:
        return rng.integers(-int(largest), largest, size=shape, endpoint=True).astype(np.float64)

    targets = draw_integers(*shapes.targets)
    return _Draws(
        shapes.contexts,
        lambda count: draw_integers(count, *shapes.contexts[1:]),
        lambda: draw_integers(*shapes.queries),
        lambda: targets,
    )


def moment_curve_points(nodes: Integers, width: int) -> Array:
    """Return points (1, t, ..., t^(d-1)) mod p, centred, at distinct nodes 0 <= t < p: (T, d).

    The prime p is the smallest above the largest node; any min(T, d) points are independent (the
    proof is in `moment_curve`).
    """
    prime = prime_from(int(nodes.max()) + 1)
    points = np.ones((len(nodes), width), dtype=np.int64)
    for power in range(1, width):
        points[:, power] = points[:, power - 1] * nodes % prime
    return np.where(points > prime // 2, points - prime, points).astype(np.float64)
