"""Mistakes of backward passes by name, with the gradients they lead to.

A backward pass computes weights again, P = exp(S - logsumexp), so it has masks, addresses and a
scale of its own. `GradientBench` returns gradients in the place of outputs: mistakes of forward
passes then are those of backward passes whose forward pass is right.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from constructive.exact.formats import FORMATS, nearest
from constructive.kernels.mistakes import addresses, logits, masks, packed, softmax, tiles
from constructive.kernels.mistakes.bench import BLOCKS, Bench, Made, Mistakes
from constructive.kernels.mistakes.gradient_bench import GradientBench, exponentials
from constructive.kernels.mistakes.gradient_places import places
from constructive.kernels.mistakes.gradient_steps import steps
from constructive.support.arrays import Array

# Kinds whose outputs are averages by softmax.
_FORWARD: tuple[Callable[[Bench], Mistakes], ...] = (
    masks.missing, masks.alignment, masks.diagonals, masks.windows, packed.packed, masks.lengths,
    masks.arbitrary, masks.blocks, tiles.neighbours, tiles.tiles, tiles.diagonals_inside,
    tiles.rows_of_blocks, addresses.heads,
    addresses.sequences, logits.soft_caps, softmax.sinks, logits.scale, addresses.rows,
)  # fmt: skip


def gradients(bench: GradientBench) -> Iterator[tuple[str, Made]]:
    """Yield sentences, each with a function that returns dq, dk and dv, (N,)."""
    yield from _own(bench)
    yield from steps(bench)
    yield from places(bench)
    for kind in _FORWARD:
        for sentence, made in kind(bench):
            yield f"in the backward pass, {sentence}", made


def _own(bench: GradientBench) -> Iterator[tuple[str, Made]]:
    """Yield mistakes that forward passes do not have."""
    spec, p, alone = bench.problem.spec, bench.weights, bench.rows_alone
    made = partial(bench.of_weights, p)
    yield "D, the sum of dO O, is not subtracted from dP", partial(made, alone=0.0 * alone)
    yield "D is the sum of dO, not of dO O", partial(made, alone=bench.d_out.sum(-1)[..., None])
    yield "dq is not multiplied by the scale", partial(made, of_query=1.0 / spec.factor)
    yield "dk is not multiplied by the scale", partial(made, of_key=1.0 / spec.factor)
    yield "dq is multiplied by the scale twice", partial(made, of_query=spec.factor)
    yield "dk is multiplied by the scale twice", partial(made, of_key=spec.factor)
    if spec.soft_cap is not None:
        capped = bench.scored(bias=None) / spec.soft_cap
        slopes = {
            "is left out": 1.0,
            "is 1 - |tanh|, not 1 - tanh^2": 1.0 - np.abs(capped),
            "is taken at the capped logit": 1.0 - np.tanh(capped) ** 2,
        }
        for words, slope in slopes.items():
            yield f"the slope of the soft cap {words}", partial(made, slope=slope)
    lse = bench.forward[1]
    logsumexps = {
        "the logsumexp has base two and is read as one of base e": lse / np.log(2.0),
        "the logsumexp is the largest logit alone": bench.logits.max(-1, keepdims=True),
    }
    for sentence, other in logsumexps.items():
        yield sentence, partial(_of_logits, bench, bench.logits - other)
    for name in ("bfloat16", "float16", "float8_e4m3fn"):
        form = FORMATS[name]
        if form.digits < spec.output.digits:
            yield (
                f"gradients of scores are rounded to {name}",
                partial(made, change=partial(nearest, form=form)),
            )
        yield f"weights are rounded to {name}", partial(bench.of_weights, nearest(p, form))
    for block in BLOCKS:
        if block < spec.queries:
            first = np.arange(spec.queries) // block * block
            last = (spec.queries - 1) // block * block
            yield (
                f"D is that of the first query of each block of {block}",
                partial(made, alone=alone[:, :, first]),
            )
            yield (
                f"dk and dv are those of the last block of {block} queries, not summed over blocks",
                partial(_parts, bench, rows=slice(last, None)),
            )
            yield (
                f"the last block of {block} queries, which is not full, adds nothing to dk and dv",
                partial(_parts, bench, rows=slice(0, spec.queries // block * block)),
            )
        if block < spec.keys:
            late = np.maximum(np.arange(spec.keys) - block, np.arange(spec.keys) % block)
            yield (
                f"dP is computed with the values of the block of {block} before",
                partial(made, v=bench.values[:, :, late]),
            )
            last = (spec.keys - 1) // block * block
            yield (
                f"dq is that of the last block of {block} keys, not summed over blocks",
                partial(_parts, bench, keys=slice(last, None)),
            )


def _parts(bench: GradientBench, rows: slice = slice(None), keys: slice = slice(None)) -> Array:
    """Return gradients where dk and dv are those of some queries, and dq is that of some keys."""
    found, kept = bench.of_scores, np.zeros((bench.problem.spec.queries, 1))
    kept[rows] = 1.0
    return bench.joined(
        found[..., keys] @ bench.keys[:, :, keys],
        (found * kept).swapaxes(-1, -2) @ bench.q,
        of_values=bench.weights * kept,
    )


def _of_logits(bench: GradientBench, exponents: Array) -> Array:
    return bench.of_weights(exponentials(exponents))
