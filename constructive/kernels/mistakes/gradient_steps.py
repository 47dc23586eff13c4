"""Mistakes in the steps of a backward pass: D, gradients of scores, transposes, sinks, blocks."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from constructive.kernels.mistakes.bench import BLOCKS, Made
from constructive.kernels.mistakes.gradient_bench import GradientBench, exponentials


def steps(bench: GradientBench) -> Iterator[tuple[str, Made]]:
    """Yield sentences, each with a function that returns dq, dk and dv, (N,)."""
    for kind in (_rows_alone, _scores, _factors, _transposed, _sinks, _blocks):
        yield from kind(bench)


def _rows_alone(bench: GradientBench) -> Iterator[tuple[str, Made]]:
    """Yield other numbers in place of D, the sum of dO O of each row."""
    p, alone, rest = bench.weights, bench.rows_alone, bench.rest
    total = exponentials(bench.forward[1] - bench.logits.max(-1, keepdims=True))
    others = {
        "D is added to dP, not subtracted": -alone,
        "D is subtracted twice": 2.0 * alone,
        "D is that of the query before": np.roll(alone, 1, 2),
        "D is that of the next query": np.roll(alone, -1, 2),
        "D is that of the head before": np.roll(alone, 1, 1),
        "D is that of the next head": np.roll(alone, -1, 1),
        "D is that of head 0": alone[:, :1],
        "D is that of sequence 0": alone[:1],
        "D is the average over all queries": alone.mean(2, keepdims=True),
        "D is of the output before it is divided by the sum of weights": alone * total,
        "D is the sum of dP, not of P dP": rest.sum(-1, keepdims=True),
        "D is the average of dP, not the sum of P dP": rest.mean(-1, keepdims=True),
        "D is an average over keys, not a sum": alone / bench.problem.spec.keys,
        "D is an average over the columns of values, not a sum": alone / bench.problem.spec.d_v,
        "D is multiplied by the scale": alone * bench.problem.spec.factor,
    }
    for sentence, other in others.items():
        yield sentence, partial(bench.of_weights, p, alone=other + 0.0 * alone)


def _scores(bench: GradientBench) -> Iterator[tuple[str, Made]]:
    """Yield other gradients of scores than P (dP - D)."""
    p, right = bench.weights, bench.of_scores
    others = {
        "gradients of scores are not multiplied by the weights":
            (bench.rest - bench.rows_alone) * bench.slope,
        "gradients of scores are P (1 - P) dP: the diagonal of the softmax alone":
            p * (1.0 - p) * bench.rest * bench.slope,
        "gradients of scores are multiplied by the weights twice": p * right,
        "negative gradients of scores are cut off at 0": np.maximum(right, 0.0),
        "gradients of scores have the opposite sign": -right,
    }  # fmt: skip
    for sentence, other in others.items():
        yield sentence, partial(bench.joined, other @ bench.keys, other.swapaxes(-1, -2) @ bench.q)


def _factors(bench: GradientBench) -> Iterator[tuple[str, Made]]:
    """Yield powers of the scale that dq and dk are multiplied by."""
    s = bench.problem.spec.factor
    factors = {
        "dq and dk are not multiplied by the scale": (1.0 / s, 1.0 / s),
        "dq and dk are multiplied by the scale twice": (s, s),
        "dq is divided by the scale": (1.0 / s / s, 1.0),
        "dk is divided by the scale": (1.0, 1.0 / s / s),
        "dq and dk are divided by the scale": (1.0 / s / s, 1.0 / s / s),
    }
    for sentence, (of_query, of_key) in factors.items():
        yield (
            sentence,
            partial(bench.of_weights, bench.weights, of_query=of_query, of_key=of_key),
        )


def _transposed(bench: GradientBench) -> Iterator[tuple[str, Made]]:
    """Yield products with matrices that should be transposed, or of other rows."""
    spec = bench.problem.spec
    if spec.queries != spec.keys:
        return
    p, found = bench.weights, bench.of_scores
    turned = found.swapaxes(-1, -2)
    yield (
        "dv is made of weights that are not transposed",
        partial(bench.joined, of_values=p.swapaxes(-1, -2)),
    )
    yield (
        "dk is made of gradients of scores that are not transposed",
        partial(bench.joined, of_keys=found @ bench.q),
    )
    yield (
        "dq is made of gradients of scores that are transposed",
        partial(bench.joined, turned @ bench.keys),
    )
    yield "dq is made of queries, not of keys", partial(bench.joined, found @ bench.q)
    yield (
        "dk is made of keys, not of queries",
        partial(bench.joined, of_keys=turned @ bench.keys),
    )


def _sinks(bench: GradientBench) -> Iterator[tuple[str, Made]]:
    """Yield a forward pass without the sink, whose output and logsumexp the backward pass has."""
    if bench.sinks is None:
        return
    weights, total = bench.weighed(sinks=None)
    p = weights / np.where(total > 0.0, total, 1.0)
    alone = (bench.d_out * (p @ bench.values)).sum(-1, keepdims=True)
    yield (
        "the sink is missing from the logsumexp and from D",
        partial(bench.of_weights, p, alone=alone),
    )


def _blocks(bench: GradientBench) -> Iterator[tuple[str, Made]]:
    """Yield blocks of queries or keys that a loop leaves out."""
    spec, visible = bench.problem.spec, bench.problem.visible
    i, j = np.arange(spec.queries)[:, None], np.arange(spec.keys)
    first = np.where(visible.any(-2), visible.argmax(-2), 0)[..., None, :]
    for rows in BLOCKS:
        if rows >= spec.queries:
            continue
        yield (
            f"the last block of {rows} queries, which is not full, adds nothing to dk and dv, and "
            "has no dq",
            bench.sees(visible & (i < spec.queries // rows * rows)),
        )
        for keys in BLOCKS:
            begin = first[..., j // keys * keys]
            if keys < spec.keys and begin.any():
                yield (
                    f"the block of {rows} queries in which those that see a block of {keys} keys "
                    "begin is left out",
                    bench.sees(visible & (i >= -(-begin // rows) * rows)),
                )
