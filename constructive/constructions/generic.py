"""Random heads, and the shortest readout: as many examples as any fixed heads memorize.

By Theorem 9 almost all weights give Z the rank c(E; H), for almost all queries (proofs/17). So
heads are drawn, and what they give is looked at. No groups are needed: contexts may be dependent,
and queries equal, as long as inputs are different.

*Conditioning* is chosen by trial. A head of one key and one query direction is scaled so that its
logits have some standard deviation within contexts; with small ones attention is nearly uniform for
all heads, and with large ones nearly one-hot, and both make rows of Z alike. Of a few the best
conditioned Z is taken.
"""

from collections.abc import Iterator

import numpy as np

from constructive.constructions.construction import SEED, Cost, FixedHeads
from constructive.constructions.multihead.assumptions import Survey
from constructive.constructions.multihead.readout import dense_cost
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.layers import residues
from constructive.layers.attention import Own, Shared, examples
from constructive.layers.layer import AttentionLayer
from constructive.support.arrays import Array
from constructive.support.errors import AssumptionError, CapacityError
from constructive.support.work import report
from constructive.theory.bounds import Plan, group_sizes, require_room
from constructive.theory.capacity import context_capacity, fewest_heads

# Standard deviations of logits that are tried, the likely best first.
_DEVIATIONS = (3.0, 1.5, 6.0)
_SAMPLE = 256  # Examples on which standard deviations are measured
# Condition numbers from which on floats are not asked for ranks: a Gram matrix shows 1e8 or so.
DOUBTFUL = 1e7
# Operations of a solve up to which each is tried twice, and beyond which only the first is.
_SMALL, _LARGE = 1e8, 1e12


def plan(shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Plan:
    """Plan for as many examples as generic contexts of these shapes allow."""
    return Plan("generic", num_heads, head_dim or 1, require_room(shapes, num_heads))


def cost(shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Cost:
    """Estimate what all trials take."""
    once = dense_cost(shapes, num_heads, head_dim)
    tried = len(trials(shapes.num_examples, num_heads * shapes.width))
    return Cost(once.operations * tried, once.memory)


def generic(
    survey: Survey, num_heads: int, head_dim: int, *, rng: np.random.Generator
) -> Iterator[FixedHeads] | AssumptionError:
    """Return random heads, drawn a few times; an AssumptionError if an input is repeated."""
    if survey.repeated is not None:
        return survey.repeated
    dataset = survey.dataset
    deviations = trials(dataset.num_examples, num_heads * dataset.width)

    def tries() -> Iterator[FixedHeads]:
        for index, deviation in enumerate(deviations):
            report("draw heads, and solve", index, len(deviations))
            yield drawn(dataset, num_heads, head_dim, deviation, rng)

    return tries()


def trials(total: int, columns: int) -> tuple[float, ...]:
    """Return the standard deviations of logits that are tried, for a system of these sizes."""
    operations = 2.0 * total**2 * columns
    if operations > _LARGE:
        return _DEVIATIONS[:1]
    return _DEVIATIONS * 2 if operations <= _SMALL else _DEVIATIONS


def drawn(
    dataset: Dataset, num_heads: int, head_dim: int, deviation: float, rng: np.random.Generator
) -> FixedHeads:
    """Return Gaussian W_Q and W_K, with logits of that deviation within contexts."""
    shape = num_heads, dataset.width, head_dim
    query_weights, key_weights = rng.standard_normal((2, *shape))
    some = rng.permutation(dataset.num_examples)[:_SAMPLE]
    contexts = dataset.contexts if dataset.shared_context else dataset.contexts[some]
    size = _deviations(query_weights, key_weights, examples(contexts, dataset.queries[some]))
    scaled = query_weights * (deviation / size)[:, np.newaxis, np.newaxis]
    return FixedHeads(scaled, key_weights, np.cumsum(group_sizes(dataset.num_examples, num_heads)))


def _deviations(query_weights: Array, key_weights: Array, view: Own | Shared) -> Array:
    """Of each head, the root mean square over examples of logits less their mean: (H,)."""
    sizes, seen = np.ones(len(query_weights)), True if view.hidden is None else ~view.hidden
    for head, (w_q, w_k) in enumerate(zip(query_weights, key_weights, strict=True)):
        asked = view.queries @ w_q @ w_k.T
        if view.is_shared:
            logits = np.einsum("...nd,td->tn", view.tokens[0], asked)
        else:
            logits = np.einsum("tnd,td->tn", view.tokens, asked)
        exponent = np.frexp(np.abs(logits).max())[1]  # squares of large logits overflow
        square = np.ldexp(logits, -exponent).var(axis=1, where=seen).mean()
        if square > 0:
            sizes[head] = np.ldexp(np.sqrt(square), exponent)
    return sizes


def _equal_queries(queries: Array) -> str:
    """Say which queries give heads little to tell examples by, if any do."""
    zero = int((~queries.any(axis=1)).sum())
    equal = len(queries) - len(np.unique(queries, axis=0)) - max(zero - 1, 0)
    words = f"; {zero} of them are zero, and all heads attend uniformly there" if zero else ""
    return words + (f"; {equal} of them are equal to another one" if equal else "")


def require_rank(survey: Survey, layer: AttentionLayer, rng: np.random.Generator) -> None:
    """Raise CapacityError, with numbers, where Z has not rank T; else only floats cannot see it."""
    total = survey.dataset.num_examples
    found = residues.search(layer, survey.dataset, rng).rank
    if found == total:
        return
    holds = context_capacity(survey.dataset, layer.num_heads, np.random.default_rng(SEED))
    if holds.upper < total:
        problem = f"these contexts allow {holds.upper} at most, for all W_Q and W_K ({holds})"
        suggestion = f"num_heads={fewest_heads(survey.dataset, seed=SEED).least}"
    else:
        problem = f"these contexts allow {holds.lower} for almost all queries, but not with these"
        problem += _equal_queries(survey.dataset.queries)
        suggestion = "other queries, or another seed=; more heads may not help"
        if not survey.dataset.shared_context and survey.dataset.lengths is None:
            suggestion = f"token_mixing(dataset), whose queries see their contexts; {suggestion}"
    raise CapacityError(
        f"random heads gave Z rank {found} < T = {total}: {problem}",
        witness={"rank": found, "capacity": holds.upper},
        suggestion=suggestion,
    )
