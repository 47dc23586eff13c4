"""Mistakes of kernels that work in tiles: blocks of queries times blocks of keys.

A kernel skips tiles that a mask hides as a whole, so a mistake inside a tile leaks no further.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from constructive.kernels.masks import Boolean, Causal, Given, Window
from constructive.kernels.mistakes.bench import Bench, Mistakes
from constructive.support.arrays import Array, Booleans


def tiles(bench: Bench) -> Mistakes:
    """Yield masks that hide whole tiles, and nothing inside of them."""
    problem = bench.problem
    if problem.visible.all():
        return
    for size in bench.blocks:
        touched = _touched(problem.visible, size)
        yield (
            f"the mask hides whole blocks of {size}, and nothing inside of them",
            bench.sees(touched & _exists(bench)),
        )
        for words, others in _parts(bench):
            yield (
                f"{words} hides whole blocks of {size}, and nothing inside of them",
                bench.sees(others & touched),
            )
        cap = problem.spec.soft_cap
        if cap is not None:
            seen = bench.of_rows(touched)
            logits = np.where(bench.visible, bench.scores, -cap)
            yield (
                "the soft cap is applied after the mask: hidden keys in the same blocks of "
                f"{size} have a logit of -cap",
                partial(bench.averaged, logits, seen),
            )


def diagonals_inside(bench: Bench) -> Mistakes:
    """Yield causal masks that are off by one in tiles that are read, others being skipped."""
    spec = bench.problem.spec
    causal = spec.mask(Causal)
    if causal is None:
        return
    for step, words in ((1, "one key"), (2, "two keys")):
        shown = spec.visible(causal, Window(None, step, causal.alignment))
        for size in bench.blocks:
            inside = shown & _touched(bench.problem.visible, size)
            if not np.array_equal(inside, shown):
                yield (
                    f"the causal mask lets {words} of the future through, but for tiles of {size} "
                    "that it hides as a whole",
                    bench.sees(inside),
                )


def _parts(bench: Bench) -> list[tuple[str, Booleans]]:
    """Return what all masks but one show, or all but a side of a window."""
    spec = bench.problem.spec
    parts = []
    for mask in spec.masks:
        if len(spec.masks) > 1:
            parts.append((f"the {mask.name} mask", spec.visible(mask)))
        if isinstance(mask, Window) and None not in {mask.left, mask.right}:
            parts.append(("the left of the window", spec.visible(mask, replace(mask, left=None))))
            parts.append(("the right of the window", spec.visible(mask, replace(mask, right=None))))
    return parts


def rows_of_blocks(bench: Bench) -> Mistakes:
    """Yield what is looked up by the place in a block, or once in a block of queries."""
    spec, problem = bench.problem.spec, bench.problem
    i, j = np.arange(spec.queries), np.arange(spec.keys)
    for size in bench.blocks:
        ways = {
            f"of the first query of each block of {size}": (i // size * size, j),
            f"at the place of the query in its block of {size}": (i % size, j),
            f"at the place of the key in its block of {size}": (i, j % size),
        }
        for words, (rows, keys) in ways.items():
            if np.array_equal(rows, i) and np.array_equal(keys, j):
                continue
            where = np.ix_(np.arange(spec.batch), np.arange(spec.heads[0]), rows, keys)
            if not problem.visible.all():
                seen = np.broadcast_to(problem.visible, problem.answer.weights.shape)
                yield f"the mask is that {words}", bench.sees(seen[where] & _exists(bench))
            if problem.bias is not None:
                other = bench.of_rows(problem.bias[where])
                yield f"the bias is that {words}", partial(bench.changed, bias=other)


def transposed(bench: Bench) -> Mistakes:
    """Yield tiles of scores or weights that are transposed before they are used."""
    for size in bench.blocks:
        yield (
            f"weights are transposed in tiles of {size} x {size} before they multiply values",
            partial(_transposed, bench, size, of_weights=True),
        )
        yield (
            f"logits are transposed in tiles of {size} x {size}",
            partial(_transposed, bench, size, of_weights=False),
        )


def _transposed(bench: Bench, size: int, *, of_weights: bool) -> Array:
    every = bench.every
    queries, keys = every.visible.shape[2:]
    logits = every.logits
    weights, total = every.weighed()
    source = weights if of_weights else logits
    empty = 0.0 if of_weights else -np.inf
    wide = [(0, 0), (0, 0), (0, -queries % size), (0, -keys % size)]
    padded = np.pad(source, wide, constant_values=empty)
    rows, columns = (count // size for count in padded.shape[2:])
    tiled = padded.reshape(*source.shape[:2], rows, size, columns, size).swapaxes(3, 5)
    turned = tiled.reshape(padded.shape)[:, :, :queries, :keys]
    if of_weights:
        out: Array = turned @ every.values / total
    else:
        out = every.averaged(turned, np.isfinite(turned))
    return out[:, :, bench.rows]


def neighbours(bench: Bench) -> Mistakes:
    """Yield masks of the key beside, which end at the border, and keys that are never hidden."""
    spec = bench.problem.spec
    if spec.mask(Boolean) is None and spec.mask(Given) is None:
        return
    seen = np.broadcast_to(bench.problem.visible, bench.problem.answer.weights.shape)
    j = np.arange(spec.keys)
    for step, side in ((1, "next"), (-1, "previous")):
        other = seen[..., np.clip(j + step, 0, spec.keys - 1)]
        yield f"the mask of a key is that of the {side} key", bench.sees(other)
    for alignment in ("top-left", "bottom-right"):
        own = j == spec.grid.diagonal(alignment)
        yield f"the query's own key ({alignment}) is never hidden", bench.sees(seen | own)


def _touched(visible: Booleans, size: int) -> Booleans:
    """Return the keys of tiles in which some query sees some key."""
    queries, keys = visible.shape[2:]
    padded = np.pad(visible, [(0, 0), (0, 0), (0, -queries % size), (0, -keys % size)])
    shape = padded.shape[2] // size, size, padded.shape[3] // size, size
    some = padded.reshape(*visible.shape[:2], *shape).any((3, 5), keepdims=True)
    whole = np.broadcast_to(some, (*visible.shape[:2], *shape)).reshape(padded.shape)
    found: Booleans = whole[:, :, :queries, :keys]
    return found


def _exists(bench: Bench) -> Booleans:
    """Return which keys there are, (B, 1, 1, T_k)."""
    spec = bench.problem.spec
    return np.asarray(np.arange(spec.keys) < spec.lengths[1][:, None, None, None])
