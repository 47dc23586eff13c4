"""Random heads, and the shortest readout: as many examples as contexts hold for any weights.

By Theorem 9 almost all weights give Z the rank c(E; H), for almost all queries (proofs/17). So
heads are drawn, and what they give is looked at. No groups are needed: contexts may be dependent,
and queries equal, as long as inputs are different.

*Conditioning* is chosen by trial. A head of one key and one query direction is scaled so that its
logits have some standard deviation within contexts; with small ones attention is nearly uniform for
all heads, and with large ones nearly one-hot, and both make rows of Z alike. Of a few the best
conditioned Z is taken.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from constructive.constructions.construction import (
    EXACT_LOGITS,
    FLOAT,
    LENGTHS,
    NARROW,
    USUAL,
    WIDE,
    Built,
    Construction,
    Cost,
    Options,
    Outcome,
    Survey,
    operations_of_z,
    unsaturated_heads,
)
from constructive.constructions.multihead import readout
from constructive.constructions.multihead.intermediate import Intermediate, represent
from constructive.constructions.multihead.readout import SolvedReadout, largest
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.exact import modular
from constructive.layers import residues
from constructive.layers.attention import Own, Shared, examples
from constructive.layers.exact_logits import shortened
from constructive.layers.layer import AttentionLayer
from constructive.support.arrays import Array, Integers
from constructive.support.errors import CapacityError
from constructive.support.work import report
from constructive.theory.bounds import (
    Plan,
    ValueBounds,
    generic_bounds,
    heads_for_values,
    require_room,
)
from constructive.theory.grouping import group_sizes

# What a readout of random heads is solved for: all of it at once, or with values of few entries.
#
# A *shape* says which systems of equations, made of Z (T, H d), give the readout; for which columns
# of the targets (T, d_out) each is solved; and how W_V and W_O are made of the solutions. With
# d_v >= d_out one system gives any effective readout (`Whole`). With d_v < d_out that of each head
# has rank d_v at most; two parts of it are linear, and either is enough for some examples
# (Proposition 18.1): `RandomValues` and `Slots`. Then W_D is the identity: with d_o < d_out all
# outputs would lie in d_o dimensions.


Product = Callable[[Array, Array], Array]  # `left @ right`, in floats or modulo a prime


@dataclass(frozen=True, eq=False)
class Whole:
    """One solution for all targets, in values of d_v >= d_out entries, or d_out for None."""

    value_dim: int | None

    def systems(self, z: Array, product: Product) -> Iterator[Array]:  # noqa: ARG002 - Z as it is
        """Yield Z itself."""
        yield z

    def targets(self, targets: Array) -> list[Array]:
        """Return all targets."""
        return [targets]

    def layer(self, z: Intermediate, solutions: list[Array]) -> AttentionLayer:
        """Return the layer with this effective readout."""
        return AttentionLayer.from_effective_readout(
            z.query_weights, z.key_weights, solutions[0], self.value_dim
        )


@dataclass(frozen=True, eq=False)
class RandomValues:
    """W_V (H, d, d_v) is random, and W_O is solved for.

    The T x (H d_v) matrix of values has rank T; this holds H d_v examples.
    """

    values: Array
    target_dim: int

    @classmethod
    def draw(
        cls, num_heads: int, width: int, value_dim: int, target_dim: int, rng: np.random.Generator
    ) -> "RandomValues":
        """Draw values with orthonormal columns; those beyond d are zero, as they would add none."""
        used = min(value_dim, width)
        basis = np.linalg.qr(rng.standard_normal((num_heads, width, used)))[0]
        return cls(np.pad(basis, ((0, 0), (0, 0), (0, value_dim - used))), target_dim)

    def systems(self, z: Array, product: Product) -> Iterator[Array]:
        """Yield all values, (T, H d_v)."""
        heads, width, _ = self.values.shape
        split = np.ascontiguousarray(z.reshape(len(z), heads, width).transpose(1, 0, 2))
        yield product(split, self.values).transpose(1, 0, 2).reshape(len(z), -1)

    def targets(self, targets: Array) -> list[Array]:
        """Return all targets."""
        return [targets]

    def layer(self, z: Intermediate, solutions: list[Array]) -> AttentionLayer:
        """Return the layer with these values, and their solution."""
        last = np.eye(self.target_dim)
        return AttentionLayer(z.query_weights, z.key_weights, self.values, solutions[0], last)


@dataclass(frozen=True, eq=False)
class Slots:
    """Entry j of head h serves entry `served[h, j]` of the targets; W_V is solved for.

    Different entries within a head, and W_O says which: each entry of the targets has a readout of
    its own from its heads, floor(H d_v / d_out) or more of them. This holds
    floor(H d_v / d_out) d examples.
    """

    served: Integers
    width: int
    target_dim: int

    @classmethod
    def share(cls, num_heads: int, width: int, value_dim: int, target_dim: int) -> "Slots":
        """Return all slots in turn: d_v < d_out in a row serve different entries."""
        slots = np.arange(num_heads * value_dim).reshape(num_heads, value_dim)
        return cls(slots % target_dim, width, target_dim)

    def _parts(self) -> list[tuple[Integers, Integers]]:
        """Return heads, and the entries of the targets that just these heads serve."""
        serves = np.zeros((self.target_dim, len(self.served)), dtype=bool)
        serves[self.served, np.arange(len(self.served))[:, np.newaxis]] = True
        kinds, which = np.unique(serves, axis=0, return_inverse=True)
        return [
            (np.flatnonzero(heads), np.flatnonzero(which.ravel() == index))
            for index, heads in enumerate(kinds)
        ]

    def systems(self, z: Array, product: Product) -> Iterator[Array]:  # noqa: ARG002 - Z as it is
        """Yield the columns of Z of these heads."""
        split = z.reshape(len(z), -1, self.width)
        for heads, _ in self._parts():
            yield split[:, heads].reshape(len(z), -1)

    def targets(self, targets: Array) -> list[Array]:
        """Return the entries that they serve."""
        return [targets[:, entries] for _, entries in self._parts()]

    def layer(self, z: Intermediate, solutions: list[Array]) -> AttentionLayer:
        """Return the layer with each solution in its slots, and the entries that they serve."""
        heads, value_dim = self.served.shape
        values = np.zeros((heads, self.width, value_dim))
        for (some, entries), solution in zip(self._parts(), solutions, strict=True):
            split = solution.reshape(len(some), self.width, len(entries))
            rows, slots = np.nonzero(np.isin(self.served[some], entries))
            columns = np.searchsorted(entries, self.served[some[rows], slots])
            values[some[rows], :, slots] = split[rows, :, columns]
        last = np.eye(self.target_dim)
        outputs = last[self.served.ravel()]
        return AttentionLayer(z.query_weights, z.key_weights, values, outputs, last)


Shape = Whole | RandomValues | Slots


@dataclass(frozen=True, eq=False)
class Solved:
    """A shape with the solutions of its systems for one Z, and the worst condition of these."""

    z: Intermediate
    shape: Shape
    solutions: list[SolvedReadout]
    condition: float

    @classmethod
    def of(cls, z: Intermediate, shape: Shape, targets: Array) -> "Solved":
        """Solve the systems of a shape for targets (T, d_out)."""
        systems = shape.systems(z.representation, np.matmul)
        solutions = [
            readout.solve(system, part)
            for system, part in zip(systems, shape.targets(targets), strict=True)
        ]
        return cls(z, shape, solutions, max(found.condition for found in solutions))


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
        inner = options.inner_dim
        holds = require_room(shapes, num_heads)
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
            z = drawn(dataset, plan, deviation, options, rng)
            shapes = self._readout_shapes(dataset, plan, options, rng)
            solved += [Solved.of(z, shape, dataset.target_matrix) for shape in shapes]
            solved = [min(solved, key=lambda found: found.condition)]
        (best,) = solved
        # What all systems reach on the examples of the first heads, and so does Z.
        ends = best.z.group_ends
        ranks = [min(each) for each in zip(*(x.ranks(ends) for x in best.solutions), strict=True)]
        layer = best.shape.layer(best.z, [solution.effective for solution in best.solutions])
        if ranks[-1] < dataset.num_examples or not best.condition < DOUBTFUL:
            require_rank(survey, layer, rng)
            if not isinstance(best.shape, Whole):
                require_ranks(dataset, layer, best.shape, rng)
        with np.errstate(all="ignore"):  # a readout that overflows is refused for its residuals
            missed = best.z.representation @ layer.effective_readout - dataset.target_matrix
        return Built(
            layer,
            largest(missed),
            best.condition,
            unsaturated_heads(ends.tolist(), ranks),
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
) -> Intermediate:
    """Return Z of Gaussian W_Q and W_K, with logits of that deviation within contexts.

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
    if options.exact_logits:
        weights = shortened(weights, dataset)
    ends = np.cumsum(group_sizes(dataset.num_examples, plan.num_heads))
    return represent(dataset, weights, ends)[0]


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


def require_rank(survey: Survey, layer: AttentionLayer, rng: np.random.Generator) -> None:
    """Raise CapacityError, with numbers, where Z has not rank T; else only floats cannot see it."""
    total = survey.dataset.num_examples
    found = residues.search(layer, survey.dataset, rng).rank
    if found == total:
        return
    holds = survey.capacity(layer.num_heads)
    if holds.upper < total:
        problem = f"these contexts allow {holds.upper} at most, for all weights ({holds})"
        suggestion = f"num_heads={survey.fewest_heads.least}"
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
    options={FLOAT: USUAL | {EXACT_LOGITS, LENGTHS}},
)


# Values of fewer entries than targets, d_v < d_out: random heads, and one of two readouts.
#
# The heads are those of `generic`. Of the shapes of a readout, `RandomValues` and `Slots`, that
# hold the examples the better conditioned one is taken, over a few draws of heads.


@dataclass(frozen=True)
class NarrowValues(Generic):
    """Random heads whose values have fewer entries than targets."""

    def plan(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Plan:
        """Plan for as many examples as Proposition 18.1 promises where contexts are generic."""
        inner = options.inner_dim
        value_dim = _value_dim(shapes, options)
        bounds = generic_bounds(shapes, num_heads, inner, value_dim)
        if shapes.num_examples > bounds.holds:
            raise self._too_many(shapes, num_heads, (inner, value_dim), bounds)
        return Plan(self.name, num_heads, inner, bounds.holds, rank_one=inner == 1)

    def _too_many(
        self, shapes: ExampleShapes, num_heads: int, dims: tuple[int, int], bounds: ValueBounds
    ) -> CapacityError:
        total, (head_dim, value_dim) = shapes.num_examples, dims
        of = f"{num_heads} heads with d_h={head_dim}, d_v={value_dim} and d_out="
        of += str(shapes.target_dim)
        if total > bounds.at_most:
            problem = f"no weights of {of} memorize every labelling of {total} examples: "
            problem += bounds.reason
        else:
            problem = f"{total} examples are too many for {of} as {self.name} builds them, which "
            problem += f"hold {bounds.holds}; that no weights do is proved above {bounds.at_most}"
        enough = heads_for_values(shapes, value_dim)
        ways = [] if enough is None else [f"num_heads={enough}"]
        wide = generic_bounds(shapes, num_heads, head_dim, shapes.target_dim)
        if total <= wide.holds:
            ways.append(f"value_dim={shapes.target_dim}")
        ways.append(f"keep {bounds.holds} of the examples")
        return CapacityError(problem, witness=total, suggestion=", or ".join(ways))

    def cost(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Cost:
        """Return Z, and the factors of one matrix for each entry of the targets, for each trial."""
        total, columns = shapes.num_examples, num_heads * shapes.width
        solves = 2.0 * total**2 * columns * (options.value_dim or 1)
        solves += shapes.target_dim * total**3 / 3
        once = operations_of_z(shapes, num_heads) + solves
        tried = len(trials(total, columns))
        return Cost(once * tried, 8.0 * total * (2 * columns + total))

    def _readout_shapes(
        self, dataset: Dataset, plan: Plan, options: Options, rng: np.random.Generator
    ) -> list[Shape]:
        """Return those of the two that hold so many examples."""
        value_dim = _value_dim(dataset, options)
        sizes = plan.num_heads, dataset.width, value_dim, dataset.target_dim
        bounds = generic_bounds(dataset, plan.num_heads, plan.head_dim, value_dim)
        found: list[Shape] = []
        if dataset.num_examples <= bounds.by_rank:
            found.append(RandomValues.draw(*sizes, rng))
        if dataset.num_examples <= bounds.by_slots:
            found.append(Slots.share(*sizes))
        return found


def _value_dim(shapes: ExampleShapes, options: Options) -> int:
    return shapes.target_dim if options.value_dim is None else options.value_dim


NARROW_VALUES = NarrowValues(
    "narrow_values",
    "max(H d_v, floor(H d_v / d_out) d)",
    "Proposition 18.1",
    has_min_norm_readout=True,
    options={FLOAT: (USUAL - {WIDE, "precision="}) | {NARROW, EXACT_LOGITS, LENGTHS}},
)
