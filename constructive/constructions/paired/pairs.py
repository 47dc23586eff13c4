"""Paired heads: two heads which agree on every example but their own.

*Pairs.* The heads 2p and 2p + 1 share the saturating part c u w^T and take different groups S and
S'. On S' the first head's own part W* is zero, on S the second's: there they attend uniformly. Off
S and S' both saturate on one token, the same for both. So with readouts U_p and -U_p

    x_{t,p} = E_t^T (alpha_{2p,t} - alpha_{2p+1,t}),        f(E_t, e_t) = sum_p U_p^T x_{t,p},

where x_{t,p} = 0 up to exp(-45) unless t belongs to the pair p. The T equations fall apart into
one block of |S| + |S'| equations in d unknowns for each pair.

*How many examples.* w is orthogonal to the |S| + |S'| queries of the pair, which have to be
independent, so |S| + |S'| <= d - 1. The blocks have rows in general position if contexts do:
H (d - 1) / 2 examples, and one more (`readout`), which for 2(n - 1) <= d - 1 includes the
H(n - 1) + 1 examples of Theorems 1 and 2. Contexts which are shared are not in general position:
then all x_{t,p} lie in one space of dimension n - 1.

The order in which pairs take examples is in `ordering`, how a head attends to its own in `own`.
"""

from dataclasses import dataclass

import numpy as np

from constructive.constructions.multihead.assumptions import Assumptions
from constructive.constructions.multihead.grouping import take
from constructive.constructions.paired.ordering import Integers, Ordered
from constructive.constructions.paired.own import FullRank, Pair, RankOne
from constructive.constructions.sweep import sharpen
from constructive.support.arrays import CHUNK_BYTES, Array
from constructive.support.errors import AssumptionError
from constructive.support.progress import Progress
from constructive.theory.assumptions.numerical import dependency, describe_dependency, unit_rows

_PRODUCT_BYTES = 8 * CHUNK_BYTES
"""Size of the products of several pairs with all queries."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """The heads of all pairs, and where they are not saturated.

    query_weights, key_weights: (P, 2, d, d_h);  sharpness: (P,)
    leftover_positions, leftover_pairs: the unsaturated entries off the diagonal blocks
    """

    query_weights: Array
    key_weights: Array
    sharpness: Array
    leftover_positions: Integers
    leftover_pairs: Integers


def construct(
    ordered: Ordered,
    assumed: Assumptions,
    head_dim: int,
    *,
    full_rank: bool,
    rng: np.random.Generator,
    progress: Progress,
) -> Pairs:
    """Build the heads of every pair: of rank one, or of full rank where the head dimension allows.

    Raises AssumptionError if the queries of a pair are dependent.
    """
    kind = (FullRank if full_rank else RankOne)(ordered, assumed)
    lengths, unit = unit_rows(ordered.queries)
    count, width = ordered.num_pairs, ordered.dataset.width
    starts, stops = [0, *ordered.stops[:-1].tolist()], ordered.stops.tolist()
    query_weights, key_weights = np.zeros((2, count, 2, width, head_dim))
    sharpness, leftover = np.zeros(count), []
    # A pass over the queries costs more than its arithmetic, so several pairs share one product.
    columns = 4 if not full_rank else 2 + stops[0]
    step = max(1, _PRODUCT_BYTES // (8 * len(unit) * columns))
    for first in range(0, count, step):
        block, watched = [], []
        for index in range(first, min(first + step, count)):
            group = take(lengths, unit, starts[index], stops[index])
            if group is None:
                raise _dependent(ordered, starts[index], stops[index])
            pair = Pair(group, query_weights[index], key_weights[index])
            watched += [pair.axes, kind.own_part(pair, rng)]
            block.append(pair)
        products = iter(
            np.split(
                np.concatenate(watched, axis=1).T @ ordered.queries.T,
                np.cumsum([part.shape[1] for part in watched])[:-1],
            )
        )
        for index, pair in enumerate(block, first):
            projected, needed = next(products), kind.needed(pair, next(products))
            chosen = sharpen(projected, pair.group.rows, needed, slice(stops[index], None))
            kind.saturate(pair, pair.axes @ chosen.unit, chosen.sharpness)
            sharpness[index] = chosen.sharpness
            leftover.append(chosen.leftover)
        progress("build pairs of heads", first + len(block), count)
    return Pairs(
        query_weights,
        key_weights,
        sharpness,
        np.concatenate(leftover),
        np.repeat(np.arange(count), [len(each) for each in leftover]),
    )


def _dependent(ordered: Ordered, start: int, stop: int) -> AssumptionError:
    queries = ordered.queries[start:stop]
    rank, coefficients = dependency(queries)
    examples = ordered.order[start:stop].tolist()
    witness, words = describe_dependency(examples, coefficients)
    message = (
        f"the queries of {stop - start} examples, one pair of heads, have rank {rank} "
        f"(numerically); paired heads need them to be independent ({words})"
    )
    return AssumptionError(
        message,
        witness=witness,
        suggestion="another seed=, more heads and so smaller pairs, or construction='saturated', "
        "which asks that of groups half as large",
    )
