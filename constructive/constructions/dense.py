"""The theorems' own constructions, saturated and rank-one heads, by the five steps of `multihead`.

In rational numbers the heads are others, of small integers, for the same examples.
"""

import math
from dataclasses import dataclass

import numpy as np

from constructive.constructions.construction import (
    FLOAT,
    RATIONAL,
    USUAL,
    Built,
    Construction,
    Cost,
    Options,
    Outcome,
    Survey,
    operations_of_z,
    unsaturated_heads,
)
from constructive.constructions.multihead import grouping, heads, intermediate, readout
from constructive.data.dataset import Dataset
from constructive.data.rational import RationalDataset, fractions
from constructive.data.shapes import ExampleShapes
from constructive.exact import modular
from constructive.exact.softmax import LARGEST_LOGIT, Fractions, array_of, matrix_of
from constructive.layers.layer import AttentionLayer
from constructive.layers.rational import RationalLayer
from constructive.layers.record import HeadRecord
from constructive.support.arrays import Array
from constructive.support.errors import (
    AssumptionError,
    DataError,
    PrecisionError,
)
from constructive.support.work import report
from constructive.theory import bounds
from constructive.theory.bounds import Plan, TheoremHeads
from constructive.theory.grouping import consecutive, group_sizes

# Heads of small integers, drawn until Z has rank T; and the readout, solved exactly.
#
# See `layers.rational` for why there are some.


_ATTEMPTS = 24


def _build_rational(dataset: RationalDataset, plan: Plan, rng: np.random.Generator) -> Outcome:
    """Draw heads from small integers until Z has rank T, and solve Z U = Y exactly.

    Returns an AssumptionError for a context of rank below n or dependent queries in a group.
    Raises PrecisionError where logits would be too large or no small integers were found.
    """
    report("draw heads from small integers", 0, 1)
    obstacle = _obstacle(dataset, plan.num_heads)
    if obstacle is not None:
        return obstacle
    layer = _solved(dataset, plan, rng)
    stops = np.cumsum(group_sizes(dataset.num_examples, plan.num_heads)).tolist()
    solved = np.zeros(dataset.target_dim)  # exactly
    return Built(layer, solved, float("nan"), unsaturated_heads(stops, stops))


def _solved(dataset: RationalDataset, plan: Plan, rng: np.random.Generator) -> RationalLayer:
    num_heads = plan.num_heads
    prime = next(modular.safe_primes())
    scales = [
        math.lcm(*(x.denominator for x in array.ravel().tolist()))
        for array in (dataset.queries, dataset.contexts)
    ]
    total, width = dataset.num_examples, dataset.width
    num_targets = dataset.target_matrix.shape[1]
    smallest_excess = 0
    for attempt in range(_ATTEMPTS):
        largest = 1 + attempt // 4
        w_q, w_k = rng.integers(-largest, largest + 1, size=(2, num_heads, width, plan.head_dim))
        if plan.rank_one:
            w_q[:, :, 1:] = w_k[:, :, 1:] = 0
        weights = fractions("W_Q", w_q) * scales[0], fractions("W_K", w_k) * scales[1]
        readout = fractions("readout", np.zeros((num_heads * width, num_targets)))
        layer = RationalLayer(*weights, readout)
        try:
            z = layer.intermediate(dataset.contexts, dataset.queries)
        except DataError as error:
            smallest_excess = error.witness
            continue
        factors = modular.factor(_modulo(z, prime), prime)
        if factors.rank == total:
            chosen = factors.columns.tolist()
            solution = matrix_of(z[:, chosen]).solve(matrix_of(dataset.target_matrix))
            readout[chosen] = array_of(solution.tolist(), (total, num_targets))
            return RationalLayer(*weights, readout)
    if smallest_excess:
        raise PrecisionError(
            f"logits of {smallest_excess} ln 2 would take numbers of that many bits",
            witness=smallest_excess,
            suggestion="data of small integers or of fractions with a small common denominator",
        )
    raise PrecisionError(
        f"no integer weights up to {largest} gave Z rank T={total} in {_ATTEMPTS} attempts",
        witness=total,
        suggestion="another seed=, more heads, or arithmetic='float'",
    )


def _obstacle(dataset: RationalDataset, num_heads: int) -> AssumptionError | None:
    """What the theorem asks of the data and they do not meet, decided exactly."""
    size = dataset.context_size
    for example, context in enumerate(dataset.contexts.reshape(-1, size, dataset.width)):
        rank = matrix_of(context).rank()
        if rank < size:
            return AssumptionError(
                f"the context of example {example} has rank {rank}; "
                f"Assumption 2 needs rank n={size}",
                witness=example,
                suggestion="add a positional encoding, or drop repeated tokens",
            )
    for start, stop in consecutive(group_sizes(dataset.num_examples, num_heads)):
        if stop > start and matrix_of(dataset.queries[start:stop]).rank() < stop - start:
            return AssumptionError(
                f"the queries of examples {start} to {stop - 1}, one group, are dependent",
                witness=tuple(range(start, stop)),
                suggestion="drop one of these examples, or use more heads and so smaller groups",
            )
    return None


def _modulo(matrix: Fractions, prime: int) -> Array:
    """Return rational numbers modulo p, after rows are scaled by their denominators."""
    rows = []
    for row in matrix.tolist():
        scale = math.lcm(*(x.denominator for x in row))
        rows.append([int(x * scale) % prime for x in row])
    return modular.reduce(np.array(rows, dtype=np.float64), prime)


TAKES = {FLOAT: USUAL, RATIONAL: frozenset()}


@dataclass(frozen=True)
class Dense(Construction):
    """Heads of a theorem, and a readout by a dense factorization of Z."""

    of: TheoremHeads = bounds.SATURATED  # what the theorem says of its heads

    def plan(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Plan:
        """Plan as the theorem says."""
        return self.of.plan(
            num_examples=shapes.num_examples,
            context_size=shapes.context_size,
            num_heads=num_heads,
            head_dim=options.head_dim,
        )

    def cost(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Cost:
        """Return Z, and its factors: T^3."""
        total, size, columns = shapes.num_examples, shapes.context_size, num_heads * shapes.width
        solve = 2.0 * total**2 * columns + total**3 / 3
        if options.arithmetic == RATIONAL:
            bits = LARGEST_LOGIT * min(total, size)  # of an entry of Z, or of the readout
            return Cost(solve, total * columns * bits / 8.0)
        forward = operations_of_z(shapes, num_heads)
        return Cost(forward + solve, 8.0 * total * (columns + total))

    def build(
        self, survey: Survey, plan: Plan, options: Options, *, rng: np.random.Generator
    ) -> Outcome:
        """Return the five steps of the proof; or in rational numbers, random integers."""
        if options.arithmetic == RATIONAL:
            return _build_rational(survey.dataset, plan, rng)
        token_distance = survey.contexts
        if isinstance(token_distance, AssumptionError):
            return token_distance
        dataset: Dataset = survey.dataset
        groups = grouping.partition(dataset, group_sizes(dataset.num_examples, plan.num_heads))
        if isinstance(groups, AssumptionError):
            return groups
        report("build heads", 0, plan.num_heads)
        built = heads.construct(
            dataset,
            groups,
            plan,
            token_distance=token_distance,
            shared_keys=options.shared_keys,
            fraction=options.saturated_fraction,
            rng=rng,
        )
        if isinstance(built, AssumptionError):
            return built
        z, saturated = intermediate.assemble(dataset, built)
        report("solve for the readout", 0, 1)
        solution = readout.solve(z.representation, dataset.target_matrix)
        records = tuple(
            HeadRecord(
                start=head.group.start,
                stop=head.group.stop,
                sharpness=head.sharpness,
                saturated_fraction=float(share),
                rank_reached=rank,
            )
            for head, share, rank in zip(
                built, saturated, solution.ranks(z.group_ends), strict=True
            )
        )
        return Built(
            AttentionLayer.from_effective_readout(
                z.query_weights, z.key_weights, solution.effective, options.value_dim
            ),
            solution.residuals,
            solution.condition,
            records,
            options.shared_keys,
            fraction=options.saturated_fraction,
        )


SATURATED = Dense(
    bounds.SATURATED.name,
    bounds.SATURATED.formula,
    bounds.SATURATED.theorem,
    has_min_norm_readout=True,
    grouped=True,
    options=TAKES,
)


RANK_ONE = Dense(
    bounds.RANK_ONE.name,
    bounds.RANK_ONE.formula,
    bounds.RANK_ONE.theorem,
    has_min_norm_readout=True,
    grouped=True,
    options=TAKES,
    of=bounds.RANK_ONE,
)
