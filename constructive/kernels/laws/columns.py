"""Laws of columns and features: which column is which, and which features are left out."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from constructive.kernels.laws.evidence import Evidence
from constructive.kernels.laws.sizes import block_sizes
from constructive.kernels.laws.words import listed
from constructive.kernels.mistakes.bench import Mistakes
from constructive.support.arrays import Array, Integers

_ROWS = 256
_ZERO, _NAN = -1, -2  # In the place of a column: it is zero, or not a number


def columns(evidence: Evidence) -> Mistakes:
    """Yield columns of the output that are others, zero, or not a number."""
    rows = np.flatnonzero(evidence.counted)
    rows = rows[:: max(1, len(rows) // _ROWS)]
    width = evidence.out.shape[-1]
    out, right = (
        array.reshape(-1, width)[rows] for array in (evidence.out, evidence.problem.expected)
    )
    near = np.abs(right) * 2.0 ** (2 - min(evidence.problem.spec.output.digits, 20))
    found = np.empty(width, dtype=np.int64)
    for column in range(width):
        got = out[:, column]
        same = np.asarray((np.abs(got[:, None] - right) <= near).all(0))
        if same[column]:
            found[column] = column
        elif same.any():
            found[column] = same.argmax()
        elif not got.any():
            found[column] = _ZERO
        elif not np.isfinite(got).any():
            found[column] = _NAN
        else:
            return
    moved = np.flatnonzero(found != np.arange(width))
    if not len(moved) or (len(moved) == width and found.max() < 0):
        return
    yield _words(found, moved), partial(_chosen, evidence, found)


def _words(found: Integers, moved: Integers) -> str:
    width = len(found)
    said = "columns" if len(moved) > 1 else "column"
    which = f"{said} {listed(moved)} of the output"
    for number, what in ((_ZERO, "zero"), (_NAN, "NaN")):
        if (found[moved] == number).all():
            sizes = [
                size
                for size in block_sizes(width - 1)
                if moved[0] == width // size * size and moved[-1] == width - 1
            ][::-1][:3]
            behind = f", behind the last whole block of {listed(sizes[::-1])}" if sizes else ""
            return f"{which} {'is' if len(moved) == 1 else 'are'} {what}{behind}"
    for words, source in _maps(width):
        if np.array_equal(found, source):
            return f"column c of the output is column {words}"
    pairs = ", ".join(
        f"{column} is {'zero' if found[column] == _ZERO else found[column]}" for column in moved[:4]
    )
    return f"columns of the output are in other places: {pairs}{', ..' if len(moved) > 4 else ''}"


def _maps(width: int) -> Iterator[tuple[str, Integers]]:
    c = np.arange(width)
    yield f"{width - 1} - c", width - 1 - c
    for step in range(1, width):
        yield f"(c + {step}) % {width}", (c + step) % width
        yield f"min(c + {step}, {width - 1})", np.minimum(c + step, width - 1)
    for size in block_sizes(width - 1):
        place, block, start = c % size, c // size, c // size * size
        blocks = -(-width // size)
        yield f"c % {size}", place
        yield f"c // {size} * {size}, the first of its block", start
        yield (
            f"c with blocks of {size} in reverse",
            np.minimum(start + size - 1 - place, width - 1),
        )
        yield f"c with pairs of blocks of {size} exchanged", np.minimum(c ^ size, width - 1)
        yield f"c % {size} * {blocks} + c // {size}", np.minimum(place * blocks + block, width - 1)


def _chosen(evidence: Evidence, found: Integers) -> Array:
    out = evidence.bench.averaged()
    filled = np.where(found == _ZERO, 0.0, np.where(found == _NAN, np.nan, 1.0))
    return np.where(found >= 0, out[..., np.maximum(found, 0)], filled)


def features(evidence: Evidence) -> Mistakes:
    """Yield features of queries and keys that are left out of their products."""
    problem = evidence.problem
    batch, head, _ = evidence.places
    q = problem.q[evidence.places]
    k = problem.k[batch, head // problem.spec.group]
    parts = q[:, None] * k  # (R, T_k, d)
    sums = np.concatenate([np.zeros_like(parts[..., :1]), np.cumsum(parts, -1)], -1)
    width = q.shape[-1]
    cap, factor = problem.spec.soft_cap, problem.spec.factor
    bias = 0.0 if evidence.bench.bias is None else evidence.of(evidence.bench.bias)
    kept = {f"features from {start} on": (0, start) for start in range(width - 1, 0, -1)} | {
        f"features before {end}": (end, width) for end in range(1, width)
    }
    for words, (start, end) in kept.items():
        scores = (sums[..., end] - sums[..., start]) * factor
        scores = scores if cap is None else cap * np.tanh(scores / cap)
        few = evidence.averaged(scores + bias, evidence.visible)
        if evidence.agrees(few).all():
            yield (
                f"{words} of q and k are left out (head_dim is {width})",
                partial(_without, evidence, start, end),
            )


def _without(evidence: Evidence, start: int, end: int) -> Array:
    bench = evidence.bench
    raw = bench.q[..., start:end] @ bench.keys[..., start:end].swapaxes(-1, -2)
    return bench.averaged(bench.scored(raw=raw))
