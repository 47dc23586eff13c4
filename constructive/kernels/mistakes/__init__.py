"""Mistakes of kernels by name, with the outputs they lead to. A new kind is a function and a line.

A mistake explains a wrong output where it leads to the same numbers; that is a hint, not a proof.
"""

from collections.abc import Callable

from constructive.kernels.mistakes import (
    addresses,
    appended,
    bits,
    logits,
    masks,
    memory,
    merging,
    packed,
    pages,
    precision,
    running,
    softmax,
    tiles,
    unwritten,
    weights,
)  # fmt: skip
from constructive.kernels.mistakes.bench import Bench, Made, Mistakes

# In the order in which they are tried.
KINDS: tuple[Callable[[Bench], Mistakes], ...] = (
    masks.alignment, masks.missing, appended.appended, masks.diagonals, masks.windows,
    packed.packed, masks.lengths, masks.sides, masks.arbitrary, tiles.neighbours, tiles.tiles,
    tiles.rows_of_blocks, tiles.transposed, tiles.diagonals_inside, addresses.heads,
    addresses.sequences, pages.pages, pages.counts_of_pages, memory.strides,
    memory.layouts_of_inputs, logits.soft_caps, softmax.sinks, logits.slopes, logits.biases,
    logits.scale, masks.blocks, memory.padding_that_is_read, logits.hidden,
    softmax.padding, softmax.twice, softmax.maxima,
    softmax.denominators, running.rescaling, running.running, running.counted_again, weights.cut,
    weights.summed, running.carried, merging.splits, merging.merging,
    merging.lost, merging.empty, bits.bits, precision.precision, addresses.layouts, addresses.rows,
    addresses.coordinates, weights.axes, memory.wrong_strides, memory.query_heads,
    unwritten.unwritten,
)  # fmt: skip


# Of a case: what it was made for, which comes first where several mistakes lead to the same.
_FIRST: dict[str, tuple[Callable[[Bench], Mistakes], ...]] = {
    "lowest level": (logits.hidden, softmax.maxima),
    "low level": (softmax.maxima, logits.hidden),
    "level": (softmax.maxima,),
    "scale": (logits.scale,),
    "soft cap": (logits.soft_caps,),
}


def mistakes(bench: Bench) -> dict[str, Made]:
    """Return sentences, each with a function that returns an output (B, H, T_q, d_v).

    Example:
        >>> from constructive.kernels.problem import Problem
        >>> from constructive.kernels.spec import Spec
        >>> found = mistakes(Bench.of(Problem.build(Spec(queries=3, keys=5, head_dim=16))))
        >>> "each query is that of head 0" in found
        True
    """
    kinds = (*_FIRST.get(bench.problem.case, ()), *KINDS)
    return {sentence: made for kind in kinds for sentence, made in kind(bench)}
