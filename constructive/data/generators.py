"""Data sets from a seed: the protocols of the paper's experiments, and data with known rank.

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

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import fmpz

from constructive.data.dataset import Dataset, owning
from constructive.data.stored import write_folder
from constructive.support.arguments import is_integer, require_positive, require_seed
from constructive.support.arrays import Array
from constructive.support.errors import DataError, ParameterError, shown

_DRAWN_BYTES = 1 << 20
"""Size of the numbers which are drawn at a time."""


def uniform(
    *,
    num_examples: int,
    context_size: int,
    width: int,
    target_dim: int | None = None,
    seed: int = 0,
    dtype: npt.DTypeLike = np.float64,
    folder: str | Path | None = None,
) -> Dataset:
    """Every example has its own context; tokens and queries are uniform in [0, 1).

    Args:
        num_examples: T
        context_size: n, the number of tokens in a context
        width: d, the number of entries of a token or a query
        target_dim: d_out, the number of entries of a target; by default targets are (T,)
        seed: of all random numbers; the same seed gives the same data
        dtype: float64, or float32, to which all numbers are rounded
        folder: where the data are written, a few examples at a time; by default they are in memory

    Raises:
        ParameterError: for a count which is not a positive integer, a seed which is not a
            non-negative integer, and another dtype
        OutputError: where the folder cannot be written
    """
    rng = _rng(num_examples, context_size, width, target_dim, seed)
    return _drawn(
        (num_examples, context_size, width),
        lambda count: rng.random((count, context_size, width)),
        lambda: rng.random((num_examples, width)),
        lambda: rng.random(_targets(num_examples, target_dim)),
        dtype,
        folder,
    )


def shared_context(
    *,
    num_examples: int,
    context_size: int,
    width: int,
    target_dim: int | None = None,
    seed: int = 0,
    dtype: npt.DTypeLike = np.float64,
    folder: str | Path | None = None,
) -> Dataset:
    """One context for all examples; tokens and queries are uniform in [0, 1).

    Args:
        num_examples: T
        context_size: n, the number of tokens in a context
        width: d, the number of entries of a token or a query
        target_dim: d_out, the number of entries of a target; by default targets are (T,)
        seed: of all random numbers; the same seed gives the same data
        dtype: float64, or float32, to which all numbers are rounded
        folder: where the data are written, a few examples at a time; by default they are in memory

    Raises:
        ParameterError: for a count which is not a positive integer, a seed which is not a
            non-negative integer, and another dtype
        OutputError: where the folder cannot be written
    """
    rng = _rng(num_examples, context_size, width, target_dim, seed)
    return _drawn(
        (context_size, width),
        lambda count: rng.random((count, width)),
        lambda: rng.random((num_examples, width)),
        lambda: rng.random(_targets(num_examples, target_dim)),
        dtype,
        folder,
    )


def gaussian(
    *,
    num_examples: int,
    context_size: int,
    width: int,
    target_dim: int | None = None,
    seed: int = 0,
    dtype: npt.DTypeLike = np.float64,
    folder: str | Path | None = None,
) -> Dataset:
    """Every example has its own context; tokens and queries are standard normal.

    Args:
        num_examples: T
        context_size: n, the number of tokens in a context
        width: d, the number of entries of a token or a query
        target_dim: d_out, the number of entries of a target; by default targets are (T,)
        seed: of all random numbers; the same seed gives the same data
        dtype: float64, or float32, to which all numbers are rounded
        folder: where the data are written, a few examples at a time; by default they are in memory

    Raises:
        ParameterError: for a count which is not a positive integer, a seed which is not a
            non-negative integer, and another dtype
        OutputError: where the folder cannot be written
    """
    rng = _rng(num_examples, context_size, width, target_dim, seed)
    return _drawn(
        (num_examples, context_size, width),
        lambda count: rng.standard_normal((count, context_size, width)),
        lambda: rng.standard_normal((num_examples, width)),
        lambda: rng.random(_targets(num_examples, target_dim)),
        dtype,
        folder,
    )


def bag_of_tokens(
    *,
    num_examples: int,
    context_size: int,
    width: int,
    bag_size: int = 500,
    target_dim: int | None = None,
    seed: int = 0,
    dtype: npt.DTypeLike = np.float64,
    folder: str | Path | None = None,
) -> Dataset:
    """Each context holds n different tokens out of one bag, as words of a vocabulary ("perm").

    The bag is uniform in [0, 1), and so are the queries. Contexts overlap, as they do in language.

    Args:
        num_examples: T
        context_size: n, the number of tokens in a context
        width: d, the number of entries of a token or a query
        bag_size: the number of tokens in the bag, at least n
        target_dim: d_out, the number of entries of a target; by default targets are (T,)
        seed: of all random numbers; the same seed gives the same data
        dtype: float64, or float32, to which all numbers are rounded
        folder: where the data are written, a few examples at a time; by default they are in memory

    Raises:
        ParameterError: for a count which is not a positive integer, a bag of fewer than n tokens,
            a seed which is not a non-negative integer, and another dtype
        OutputError: where the folder cannot be written
    """
    require_positive(bag_size=bag_size, context_size=context_size)
    if bag_size < context_size:
        message = f"bag_size={bag_size} is less than context_size={context_size}"
        raise ParameterError(message, witness=bag_size, suggestion=f"bag_size >= {context_size}")
    rng = _rng(num_examples, context_size, width, target_dim, seed)
    bag = rng.random((bag_size, width))

    def draw(count: int) -> Array:
        rows = np.tile(np.arange(bag_size), (count, 1))
        chosen: Array = bag[rng.permuted(rows, axis=1)[:, :context_size]]
        return chosen

    return _drawn(
        (num_examples, context_size, width),
        draw,
        lambda: rng.random((num_examples, width)),
        lambda: rng.random(_targets(num_examples, target_dim)),
        dtype,
        folder,
    )


def moment_curve(
    *,
    num_examples: int,
    context_size: int,
    width: int,
    target_dim: int | None = None,
    seed: int = 0,
    dtype: npt.DTypeLike = np.float64,
    folder: str | Path | None = None,
) -> Dataset:
    """Queries whose Kruskal rank is exactly min(T, d), by Vandermonde; contexts are uniform.

    Query t is (1, t, t^2, ..., t^(d-1)) reduced modulo a prime p >= T and centred around zero, so
    that its entries are integers of absolute value at most p / 2.

    *Proof.* Any min(T, d) of them contain a square Vandermonde matrix at distinct nodes mod p,
    whose determinant is the product of the differences of the nodes, nonzero mod p. So the
    determinant of the integer matrix is no multiple of p, hence not zero. QED

    Args:
        num_examples: T
        context_size: n, the number of tokens in a context
        width: d, the number of entries of a token or a query
        target_dim: d_out, the number of entries of a target; by default targets are (T,)
        seed: of all random numbers; the same seed gives the same data
        dtype: float64, or float32, to which all numbers are rounded
        folder: where the data are written, a few examples at a time; by default they are in memory

    Raises:
        ParameterError: for a count which is not a positive integer, a seed which is not a
            non-negative integer, and another dtype
        OutputError: where the folder cannot be written

    Example:
        >>> moment_curve(num_examples=5, context_size=2, width=3).queries
        array([[ 1.,  0.,  0.],
               [ 1.,  1.,  1.],
               [ 1.,  2., -1.],
               [ 1., -2., -1.],
               [ 1., -1.,  1.]])
    """
    rng = _rng(num_examples, context_size, width, target_dim, seed)
    return _drawn(
        (num_examples, context_size, width),
        lambda count: rng.random((count, context_size, width)),
        lambda: moment_curve_points(np.arange(num_examples), width),
        lambda: rng.random(_targets(num_examples, target_dim)),
        dtype,
        folder,
    )


def moment_curve_points(nodes: npt.NDArray[np.int64], width: int) -> Array:
    """Points (1, t, ..., t^(d-1)) mod p, centred, at distinct integer nodes 0 <= t < p: (T, d).

    The prime p is the smallest above the largest node; any min(T, d) points are independent (the
    proof is in `moment_curve`).

    Args:
        nodes: (T,)
        width: d

    Raises:
        ParameterError: for a width which is not a positive integer
        DataError: for nodes which are none, negative or not all different
    """
    require_positive(width=width)
    if not len(nodes) or nodes.min() < 0 or len(np.unique(nodes)) < len(nodes):
        raise DataError(
            "nodes are not different integers of 0 or more",
            witness=shown(nodes.tolist()),
            suggestion="np.arange(T)",
        )
    prime = int(nodes.max()) + 1
    while not fmpz(prime).is_prime():
        prime += 1
    points = np.ones((len(nodes), width), dtype=np.int64)
    for power in range(1, width):
        points[:, power] = points[:, power - 1] * nodes % prime
    return np.where(points > prime // 2, points - prime, points).astype(np.float64)


def integers(
    *,
    num_examples: int,
    context_size: int,
    width: int,
    largest: int = 9,
    target_dim: int | None = None,
    seed: int = 0,
    dtype: npt.DTypeLike = np.float64,
    folder: str | Path | None = None,
) -> Dataset:
    """Tokens, queries and targets are integers between -largest and largest, stored as float64.

    Small integers can violate the assumptions by chance; the construction then says which.

    Args:
        num_examples: T
        context_size: n, the number of tokens in a context
        width: d, the number of entries of a token or a query
        largest: the largest absolute value of an entry, 0 or more and below 2^63
        target_dim: d_out, the number of entries of a target; by default targets are (T,)
        seed: of all random numbers; the same seed gives the same data
        dtype: float64, or float32, to which all numbers are rounded
        folder: where the data are written, a few examples at a time; by default they are in memory

    Raises:
        ParameterError: for a count which is not a positive integer, a seed which is not a
            non-negative integer, another dtype, and a `largest` which is none or has more than 63
            bits
        OutputError: where the folder cannot be written
    """
    rng = _rng(num_examples, context_size, width, target_dim, seed)
    if not is_integer(largest) or not 0 <= largest < 1 << 63:
        raise ParameterError(
            f"largest={largest!r} is not an integer from 0 to 2^63 - 1",
            witness=largest,
            suggestion="largest=9",
        )

    def draw(*shape: int) -> Array:
        return rng.integers(-int(largest), largest, size=shape, endpoint=True).astype(np.float64)

    targets = draw(*_targets(num_examples, target_dim))
    return _drawn(
        (num_examples, context_size, width),
        lambda count: draw(count, context_size, width),
        lambda: draw(num_examples, width),
        lambda: targets,
        dtype,
        folder,
    )


def _rng(
    num_examples: int, context_size: int, width: int, target_dim: int | None, seed: int
) -> np.random.Generator:
    """The random numbers of a seed, once the arguments make sense."""
    require_positive(num_examples=num_examples, context_size=context_size, width=width)
    if target_dim is not None:
        require_positive(target_dim=target_dim)
    require_seed(seed)
    return np.random.default_rng(seed)


def _targets(num_examples: int, target_dim: int | None) -> tuple[int, ...]:
    """The shape of the targets."""
    return (num_examples,) if target_dim is None else (num_examples, target_dim)


def _drawn(
    shape: tuple[int, ...],
    contexts: Callable[[int], Array],
    queries: Callable[[], Array],
    targets: Callable[[], Array],
    dtype: npt.DTypeLike,
    folder: str | Path | None,
) -> Dataset:
    """Draw contexts of this shape, so many rows at a time, then queries, then targets.

    However many rows are drawn at a time, the numbers are the same.
    """
    kind = _dtype(dtype)
    step = max(1, _DRAWN_BYTES // (8 * math.prod(shape[1:])))
    counts = (min(step, shape[0] - start) for start in range(0, shape[0], step))

    def others() -> tuple[Array, Array]:
        return queries().astype(kind, copy=False), targets().astype(kind, copy=False)

    if folder is not None:
        write_folder(folder, shape, kind, map(contexts, counts), others)
        return Dataset.open(folder)
    whole, filled = np.empty(shape, kind), 0
    for count in counts:
        whole[filled : filled + count] = contexts(count)
        filled += count
    return owning(whole, *others())


def _dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.float32, np.float64):
        raise ParameterError(
            f"dtype={shown(dtype)} is neither float32 nor float64",
            witness=shown(dtype),
            suggestion="dtype='float32'",
        )
    return kind
