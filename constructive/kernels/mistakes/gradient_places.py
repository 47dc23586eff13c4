"""Mistakes of backward passes in one gradient: where it is written, and of which heads it is."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from constructive.kernels.mistakes.bench import Made
from constructive.kernels.mistakes.gradient_bench import GradientBench, flat
from constructive.support.arrays import Array

Way = Callable[[Array], Array]
_NAMES = ("dq", "dk", "dv")


def places(bench: GradientBench) -> Iterator[tuple[str, Made]]:
    """Yield sentences, each with a function that returns dq, dk and dv, (N,)."""
    spec = bench.problem.spec
    shapes = bench.problem.q.shape, bench.problem.k.shape, bench.problem.v.shape
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    right = [
        part.reshape(shape)
        for part, shape in zip(np.split(bench.joined(), ends), shapes, strict=True)
    ]
    if shapes[1] == shapes[2]:
        yield "dk and dv are exchanged", lambda: flat(right[0], right[2], right[1])
    yield "dq and dk are zero", lambda: flat(0.0 * right[0], 0.0 * right[1], right[2])
    for index, name in enumerate(_NAMES):
        for words, way in _WAYS.items():
            found = [*right[:index], way(right[index]), *right[index + 1 :]]
            yield f"{name} {words}", partial(flat, *found)
    if spec.group > 1:
        yield from _groups(bench, right)


def _groups(bench: GradientBench, right: list[Array]) -> Iterator[tuple[str, Made]]:
    """Yield one of dk and dv that is made of other query heads than those of its KV head."""
    spec = bench.problem.spec
    of_heads = (
        bench.of_scores.swapaxes(-1, -2) @ bench.q * spec.factor,
        bench.weights.swapaxes(-1, -2) @ bench.d_out,
    )
    shape = spec.batch, spec.heads[1], spec.group
    turned = spec.batch, spec.group, spec.heads[1]
    ways: dict[str, Way] = {
        "those of the first query head of each group alone":
            lambda x: x.reshape(*shape, *x.shape[2:])[:, :, 0],
        "those of the last query head of each group alone":
            lambda x: x.reshape(*shape, *x.shape[2:])[:, :, -1],
        "averaged over query heads of a group, not summed":
            lambda x: x.reshape(*shape, *x.shape[2:]).mean(2),
        "the largest of the query heads of a group, not summed":
            lambda x: x.reshape(*shape, *x.shape[2:]).max(2),
        "those of query heads h % kv_heads, not h // group":
            lambda x: x.reshape(*turned, *x.shape[2:]).sum(1),
    }  # fmt: skip
    for words, way in ways.items():
        yield f"dk and dv are {words}", partial(_changed, right, of_heads, way, (1, 2))
        yield f"rows of dk are {words}", partial(_changed, right, of_heads, way, (1,))
        yield f"rows of dv are {words}", partial(_changed, right, of_heads, way, (2,))


def _changed(
    right: list[Array], of_heads: tuple[Array, Array], way: Way, which: tuple[int, ...]
) -> Array:
    """Return gradients of which some are made of those of query heads."""
    return flat(
        *(way(of_heads[index - 1]) if index in which else right[index] for index in range(3))
    )


def _without_last(array: Array) -> Array:
    found = array.copy()
    found[:, :, -1] = 0.0
    return found


# What is done to one gradient after it is computed.
_WAYS: dict[str, Way] = {
    "is zero": lambda x: 0.0 * x,
    "of the last token is zero": _without_last,
    "has the opposite sign": lambda x: -x,
    "is twice as large": lambda x: 2.0 * x,
    "is that of the next token": lambda x: np.roll(x, -1, 2),
    "is that of the token before": lambda x: np.roll(x, 1, 2),
    "is that of the next head": lambda x: np.roll(x, -1, 1),
    "is that of the head before": lambda x: np.roll(x, 1, 1),
    "is that of head 0": lambda x: x[:, :1] + 0.0 * x,
    "is that of the next sequence": lambda x: np.roll(x, -1, 0),
    "is that of sequence 0": lambda x: x[:1] + 0.0 * x,
    "has heads in reverse order": lambda x: x[:, ::-1],
    "has tokens in reverse order": lambda x: x[:, :, ::-1],
    "is laid out as (B, T, H, d), and read as (B, H, T, d)":
        lambda x: x.swapaxes(1, 2).reshape(x.shape),
}  # fmt: skip
