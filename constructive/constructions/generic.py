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

from constructive.constructions.construction import (
    Built,
    Construction,
    Cost,
    Outcome,
    operations_of_z,
    unsaturated_heads,
)
from constructive.constructions.multihead import intermediate
from constructive.constructions.multihead.readout import largest
from constructive.constructions.options import FLOAT, USUAL, Options
from constructive.constructions.readout_shapes import Shape, Solved, Whole
from constructive.constructions.survey import Survey
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.exact import modular
from constructive.exact.arithmetics.floats import Floats
from constructive.layers import residues
from constructive.layers.attend import attend
from constructive.layers.attention import AttentionLayer
from constructive.layers.short_weights import shortened
from constructive.layers.views import Own, Shared, examples
from constructive.support.arrays import Array
from constructive.support.errors import CapacityError
from constructive.support.progress import report
from constructive.theory.bounds import Plan, group_sizes
from constructive.theory.values import require_room

# Standard deviations of logits that are tried, the likely best first.
_DEVIATIONS = (3.0, 1.5, 6.0)
_SAMPLE = 256  # Examples on which standard deviations are measured
# Condition numbers from which on floats are not asked for ranks: a Gram matrix shows 1e8 or so.
DOUBTFUL = 1e7
# Operations of a solve up to which each is tried twice, and beyond which only the first is.
_SMALL, _LARGE = 1e8, 1e12


class Generic(Construction):
    """Random heads."""

    def plan(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Plan:
        """Plan for as many examples as generic contexts of these shapes allow."""
        holds = require_room(shapes, num_heads)
        inner = options.inner_dim
        return Plan(self.name, num_heads, inner, holds, rank_one=inner == 1)

    def cost(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Cost:  # noqa: ARG002
        """Return Z, and its factors, for each trial."""
        total, columns = shapes.num_examples, num_heads * shapes.width
        once = operations_of_z(shapes, num_heads) + 2.0 * total**2 * columns + total**3 / 3
        return Cost(once * len(trials(total, columns)), 8.0 * total * (columns + total))

    def build(
        self, survey: Survey, plan: Plan, options: Options, *, rng: np.random.Generator
    ) -> Outcome:
        """Draw heads a few times, and solve; refuse with numbers where ranks are too small."""
        if survey.repeated is not None:
            return survey.repeated
        dataset: Dataset = survey.dataset
        deviations = trials(dataset.num_examples, plan.num_heads * dataset.width)
        solved: list[Solved] = []
        for index, deviation in enumerate(deviations):
            report("draw heads, and solve", index, len(deviations))
            z = represented(dataset, drawn(dataset, plan, deviation, options, rng), plan)
            shapes = self._readout_shapes(dataset, plan, options, rng)
            solved += [Solved.of(z, shape, dataset.target_matrix) for shape in shapes]
            solved = [min(solved, key=lambda found: found.condition)]
        best = solved[0]
        layer = best.shape.layer(best.z, [solution.effective for solution in best.solutions])
        if best.ranks[-1] < dataset.num_examples or not best.condition < DOUBTFUL:
            require_rank(survey, layer, rng)
            if not isinstance(best.shape, Whole):
                require_ranks(dataset, layer, best.shape, rng)
        with np.errstate(all="ignore"):  # a readout that overflows is refused for its residuals
            missed = best.z.representation @ layer.effective_readout - dataset.target_matrix
        return Built(
            layer,
            largest(missed),
            best.condition,
            unsaturated_heads(best.z.group_ends.tolist(), best.ranks),
            options.shared_keys,
        )

    def _readout_shapes(
        self,
        dataset: Dataset,  # noqa: ARG002 - others ask for more
        plan: Plan,  # noqa: ARG002
        options: Options,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> list[Shape]:
        """What the readout may be solved for; of these the best conditioned is taken."""
        return [Whole(options.value_dim)]


def trials(total: int, columns: int) -> tuple[float, ...]:
    """Return the standard deviations of logits that are tried, for a system of these sizes."""
    operations = 2.0 * total**2 * columns
    if operations > _LARGE:
        return _DEVIATIONS[:1]
    return _DEVIATIONS * 2 if operations <= _SMALL else _DEVIATIONS


def drawn(
    dataset: Dataset, plan: Plan, deviation: float, options: Options, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return W_Q and W_K (H, d, d_h), Gaussian, with logits of that deviation within contexts.

    Rounded to few bits where logits have to be exact; DataError where data have too many.
    """
    shape = plan.num_heads, dataset.width, plan.head_dim
    query_weights, key_weights = rng.standard_normal((2, *shape))
    if options.shared_keys:
        key_weights[1:] = key_weights[0]
    some = rng.permutation(dataset.num_examples)[:_SAMPLE]
    contexts = dataset.contexts if dataset.shared_context else dataset.contexts[some]
    size = _deviations(query_weights, key_weights, examples(contexts, dataset.queries[some]))
    weights = query_weights * (deviation / size)[:, np.newaxis, np.newaxis], key_weights
    return shortened(weights, dataset) if options.exact_logits else weights


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


def represented(
    dataset: Dataset, weights: tuple[Array, Array], plan: Plan
) -> intermediate.Intermediate:
    """Return Z of these W_Q and W_K, as others want it."""
    z = np.empty((dataset.num_examples, plan.num_heads * dataset.width))
    for chunk in attend(Floats(np.float64), weights, examples(dataset.contexts, dataset.queries)):
        z[chunk.rows] = chunk.representation.reshape(len(chunk.representation), -1)
    ends = np.cumsum(group_sizes(dataset.num_examples, plan.num_heads))
    return intermediate.Intermediate(*weights, z, ends)


def require_rank(survey: Survey, layer: AttentionLayer, rng: np.random.Generator) -> None:
    """Raise CapacityError, with numbers, where Z has not rank T; else only floats cannot see it."""
    total = survey.dataset.num_examples
    found = residues.search(layer, survey.dataset, rng).rank
    if found == total:
        return
    holds = survey.capacity(layer.num_heads)
    if holds.upper < total:
        enough = survey.least_heads.heads
        problem = f"these contexts allow {holds.upper} at most, for all weights ({holds})"
        suggestion = f"num_heads={enough}"
        if enough is None:
            suggestion = "other contexts: no number of heads can memorize these"
    else:
        problem = f"these contexts allow {holds.lower} for almost all queries, but not with these"
        suggestion = "other queries, or another seed=; more heads may not help"
    raise CapacityError(
        f"random heads gave Z rank {found} < T = {total}: {problem}",
        witness={"rank": found, "capacity": holds.upper},
        suggestion=suggestion,
    )


def require_ranks(
    dataset: Dataset, layer: AttentionLayer, shape: Shape, rng: np.random.Generator
) -> None:
    """Raise CapacityError where some system has not rank T modulo a prime; else only floats err."""
    total, prime = dataset.num_examples, next(modular.safe_primes())

    def product(left: Array, right: Array) -> Array:
        whole = modular.residues(right, prime)
        return modular.product(left, whole, prime)

    every = np.arange(layer.num_heads * layer.width)
    _, z, _ = residues.evaluate(layer, dataset, prime, every, rng)
    if z is None:
        return
    found = min(modular.factor(system, prime).rank for system in shape.systems(z, product))
    if found < total:
        raise CapacityError(
            f"values of random heads have rank {found} < T = {total}, though Z has rank T: these "
            "contexts allow fewer than generic ones, where differences of tokens are arbitrary",
            witness={"rank": found},
            suggestion=f"more heads, or value_dim={layer.target_dim}",
        )


GENERIC = Generic(
    "generic",
    "c(E; H) of generic contexts",
    "Theorem 9",
    has_min_norm_readout=True,
    options={FLOAT: USUAL | {"exact_logits", "lengths"}},
)
