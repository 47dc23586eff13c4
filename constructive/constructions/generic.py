"""Random heads, and the shortest readout: as many examples as contexts hold for any weights.

By Theorem 9 almost all weights of any head dimension give Z the rank c(E; H), for almost all
queries; and by Theorem 8 no weights do better. So heads are drawn, and what they give is looked at.
No groups are asked for: contexts may be dependent, and queries equal, as long as inputs are
different. What a theorem about almost all cannot say of these very data, a certificate does.

*Conditioning* is chosen by trial. A head of one key and one query direction is scaled so that its
logits have some standard deviation within contexts; with small ones attention is nearly uniform for
all heads, and with large ones nearly one-hot, and both make rows of Z alike. Of a few the best
conditioned Z is taken.

*Exact logits*, where they are asked for: W_Q and W_K are rounded to few bits before Z is formed, so
that float32 makes no error in logits (`layers.short_weights`). They are as random as others.
"""

import numpy as np

from constructive.constructions.construction import Built, Construction, Cost, Described, Options
from constructive.constructions.multihead import intermediate, readout
from constructive.constructions.multihead.assumptions import check_inputs
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.exact.arithmetics.floats import Floats
from constructive.layers import residues
from constructive.layers.attend import attend
from constructive.layers.attention import AttentionLayer
from constructive.layers.record import HeadRecord
from constructive.layers.short_weights import shortened
from constructive.layers.views import examples
from constructive.support.arrays import Array
from constructive.support.errors import CapacityError
from constructive.support.progress import report
from constructive.theory.bounds import Plan, group_sizes
from constructive.theory.context_capacity import context_capacity, least_heads
from constructive.theory.values import require_room

_DEVIATIONS = (3.0, 1.5, 6.0)
"""Standard deviations of logits which are tried, the likely best first."""
_SAMPLE = 256
"""Examples on which standard deviations are measured."""
DOUBTFUL = 1e7
"""Condition numbers from which on floats are not asked for ranks: a Gram matrix shows 1e8 or so."""
_SMALL, _LARGE = 1e8, 1e12
"""Operations of a solve up to which each is tried twice, and beyond which only the first is."""


class Generic(Described):
    """Random heads. A `Construction`."""

    def with_exact_logits(self) -> Construction:
        """The construction itself: random weights may be short."""
        return self

    def plan(self, shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Plan:
        """As many examples as contexts of these shapes hold where they are generic."""
        holds = require_room(shapes, num_heads)
        inner = 1 if head_dim is None else head_dim
        return Plan(self.name, num_heads, inner, holds, rank_one=inner == 1)

    def cost(self, shapes: ExampleShapes, num_heads: int) -> Cost:
        """Z, and its factors, for each trial."""
        total, size, width = shapes.num_examples, shapes.context_size, shapes.width
        columns = num_heads * width
        keys = size if shapes.shared_context else width + size
        once = 2.0 * total * columns * (keys + size + total) + total**3 / 3
        return Cost(once * len(trials(total, columns)), 8.0 * total * (columns + total))

    def build(
        self, dataset: Dataset, plan: Plan, options: Options, *, rng: np.random.Generator
    ) -> Built:
        """Draw heads a few times, and solve; refuse with numbers where Z has too small a rank."""
        check_inputs(dataset)
        total = dataset.num_examples
        deviations = trials(total, plan.num_heads * dataset.width)
        solved = []
        for index, deviation in enumerate(deviations):
            report("draw heads, and solve", index, len(deviations))
            z = represented(dataset, drawn(dataset, plan, deviation, options, rng), plan)
            solved.append((z, readout.solve(z, dataset.target_matrix)))
            solved.sort(key=lambda found: found[1].condition)
            del solved[1:]
        z, solution = solved[0]
        layer = AttentionLayer.from_effective_readout(
            z.query_weights, z.key_weights, solution.effective, options.value_dim
        )
        if solution.ranks[-1] < total or not solution.condition < DOUBTFUL:
            require_rank(dataset, layer, rng)
        stops = z.group_ends.tolist()
        records = tuple(
            HeadRecord(start, stop, sharpness=0.0, saturated_fraction=0.0, rank_reached=rank)
            for start, stop, rank in zip([0, *stops[:-1]], stops, solution.ranks, strict=True)
        )
        return Built(layer, solution.residuals, solution.condition, records, options.shared_keys)


def trials(total: int, columns: int) -> tuple[float, ...]:
    """The standard deviations of logits which are tried, for a system of these sizes."""
    operations = 2.0 * total**2 * columns
    if operations > _LARGE:
        return _DEVIATIONS[:1]
    return _DEVIATIONS * 2 if operations <= _SMALL else _DEVIATIONS


def drawn(
    dataset: Dataset, plan: Plan, deviation: float, options: Options, rng: np.random.Generator
) -> tuple[Array, Array]:
    """W_Q and W_K (H, d, d_h), Gaussian, with logits of that deviation within contexts.

    Rounded to few bits where logits have to be exact; DataError where data have too many.
    """
    shape = plan.num_heads, dataset.width, plan.head_dim
    query_weights, key_weights = rng.standard_normal((2, *shape))
    if options.shared_keys:
        key_weights[1:] = key_weights[0]
    some = rng.permutation(dataset.num_examples)[:_SAMPLE]
    contexts = dataset.contexts if dataset.shared_context else dataset.contexts[some]
    size = _deviations(query_weights, key_weights, contexts, dataset.queries[some])
    weights = query_weights * (deviation / size)[:, np.newaxis, np.newaxis], key_weights
    return shortened(weights, dataset) if options.exact_logits else weights


def _deviations(query_weights: Array, key_weights: Array, contexts: Array, queries: Array) -> Array:
    """Of each head, the root mean square over examples of logits less their mean: (H,)."""
    squares = np.zeros(len(query_weights))
    for head, (w_q, w_k) in enumerate(zip(query_weights, key_weights, strict=True)):
        logits = np.einsum(
            "...nd,td->tn" if contexts.ndim == 2 else "tnd,td->tn", contexts, queries @ w_q @ w_k.T
        )
        squares[head] = logits.var(axis=1).mean()
    return np.sqrt(np.where(squares > 0, squares, 1.0))


def represented(
    dataset: Dataset, weights: tuple[Array, Array], plan: Plan
) -> intermediate.Intermediate:
    """Z of these W_Q and W_K, as others want it."""
    z = np.empty((dataset.num_examples, plan.num_heads * dataset.width))
    for chunk in attend(Floats(np.float64), weights, examples(dataset.contexts, dataset.queries)):
        z[chunk.rows] = chunk.representation.reshape(len(chunk.representation), -1)
    ends = np.cumsum(group_sizes(dataset.num_examples, plan.num_heads))
    return intermediate.Intermediate(*weights, z, np.zeros(plan.num_heads), ends)


def require_rank(dataset: Dataset, layer: AttentionLayer, rng: np.random.Generator) -> None:
    """Raise CapacityError, with numbers, where Z has not rank T; else only floats cannot see it."""
    total, heads = dataset.num_examples, layer.num_heads
    found = residues.search(layer, dataset, rng).rank
    if found == total:
        return
    holds = context_capacity(dataset, heads, rng)
    if holds.upper < total:
        enough, *_ = least_heads(dataset, rng)
        problem = f"these contexts hold {holds.upper} at most, for all weights ({holds})"
        suggestion = f"num_heads={enough}"
        if enough is None:
            suggestion = "other contexts: no number of heads holds these"
    else:
        problem = f"these contexts hold {holds.lower} for almost all queries, but not with these"
        suggestion = "other queries, or another seed=; more heads may not help"
    raise CapacityError(
        f"random heads gave Z rank {found} < T = {total}: {problem}",
        witness={"rank": found, "capacity": holds.upper},
        suggestion=suggestion,
    )


GENERIC = Generic("generic", "c(E; H) of generic contexts", "Theorem 9", shortest=True)
