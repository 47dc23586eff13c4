"""Values of fewer entries than targets, d_v < d_out: random heads, and one of two readouts.

With d_v < d_out not every effective readout is a layer's: that of each head has rank d_v at most.
Two parts of it are linear, and either is enough for some examples (Proposition 18.1):

- *random values*. W_V is random, and the T x (H d_v) matrix of values has rank T. W_O, of shape
  (H d_v, d_out), is free: one solve. This holds H d_v examples.
- *slots*. Each of the H d_v entries of values serves one entry of the targets, different ones
  within a head, and W_O says which. W_V is free: each entry of the targets has a readout of its own
  from its heads, floor(H d_v / d_out) or more of them. This holds floor(H d_v / d_out) d examples.

W_D is the identity: with d_o < d_out all outputs would lie in d_o dimensions. Of what holds the
examples the better conditioned is taken, over a few draws of heads as in `generic`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from constructive.constructions import generic
from constructive.constructions.construction import (
    Built,
    Construction,
    Cost,
    Described,
    Options,
    largest,
)
from constructive.constructions.multihead import readout
from constructive.constructions.multihead.assumptions import check_inputs
from constructive.constructions.multihead.intermediate import Intermediate
from constructive.constructions.multihead.readout import Readout
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.exact import modular
from constructive.layers import residues
from constructive.layers.attention import AttentionLayer
from constructive.layers.record import HeadRecord
from constructive.layers.shapes import FLOAT64
from constructive.support.arrays import Array
from constructive.support.errors import CapacityError, ParameterError
from constructive.support.progress import report
from constructive.theory.bounds import Plan
from constructive.theory.values import ValueBounds, generic_spans, heads_for_values, value_bounds

Product = Callable[[Array, Array], Array]
"""`left @ right`, in floats or modulo a prime."""


class Kind(Protocol):
    """One of the two readouts, for heads of known number and values of known size."""

    def systems(self, z: Array, product: Product) -> Iterator[Array]:
        """The matrices made of Z (T, H d) which have to have rank T, one after the other."""
        ...

    def targets(self, targets: Array) -> list[Array]:
        """What each of them is solved for, columns of (T, d_out)."""
        ...

    def weights(self, solutions: list[Array]) -> tuple[Array, Array]:
        """W_V (H, d, d_v) and W_O (H d_v, d_out) of the solutions."""
        ...


@dataclass(frozen=True, eq=False)
class RandomValues:
    """W_V (H, d, d_v) is given, and W_O is solved for. A `Kind`."""

    values: Array

    @classmethod
    def draw(cls, num_heads: int, width: int, value_dim: int, rng: np.random.Generator) -> Kind:
        """Values whose columns are orthonormal; those beyond d are zero, as they would add none."""
        used = min(value_dim, width)
        basis = np.linalg.qr(rng.standard_normal((num_heads, width, used)))[0]
        return cls(np.pad(basis, ((0, 0), (0, 0), (0, value_dim - used))))

    def systems(self, z: Array, product: Product) -> Iterator[Array]:
        """All values, (T, H d_v)."""
        heads, width, _ = self.values.shape
        split = np.ascontiguousarray(z.reshape(len(z), heads, width).transpose(1, 0, 2))
        yield product(split, self.values).transpose(1, 0, 2).reshape(len(z), -1)

    def targets(self, targets: Array) -> list[Array]:
        """All targets."""
        return [targets]

    def weights(self, solutions: list[Array]) -> tuple[Array, Array]:
        """The values, and their solution."""
        return self.values, solutions[0]


@dataclass(frozen=True, eq=False)
class Slots:
    """Entry j of head h serves entry `served[h, j]` of the targets; W_V is solved for. A `Kind`."""

    served: npt.NDArray[np.int64]
    width: int
    target_dim: int

    @classmethod
    def share(cls, num_heads: int, width: int, value_dim: int, target_dim: int) -> Kind:
        """All slots in turn: d_v < d_out in a row serve different entries."""
        slots = np.arange(num_heads * value_dim).reshape(num_heads, value_dim)
        return cls(slots % target_dim, width, target_dim)

    def _parts(self) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Heads, and the entries of the targets which just these heads serve."""
        serves = np.zeros((self.target_dim, len(self.served)), dtype=bool)
        serves[self.served, np.arange(len(self.served))[:, np.newaxis]] = True
        kinds, which = np.unique(serves, axis=0, return_inverse=True)
        return [
            (np.flatnonzero(heads), np.flatnonzero(which.ravel() == index))
            for index, heads in enumerate(kinds)
        ]

    def systems(self, z: Array, product: Product) -> Iterator[Array]:  # noqa: ARG002 - Z as it is
        """The columns of Z of these heads."""
        split = z.reshape(len(z), -1, self.width)
        for heads, _ in self._parts():
            yield split[:, heads].reshape(len(z), -1)

    def targets(self, targets: Array) -> list[Array]:
        """The entries which they serve."""
        return [targets[:, entries] for _, entries in self._parts()]

    def weights(self, solutions: list[Array]) -> tuple[Array, Array]:
        """Each solution in its slots, and the entries which they serve."""
        heads, value_dim = self.served.shape
        values = np.zeros((heads, self.width, value_dim))
        for (some, entries), solution in zip(self._parts(), solutions, strict=True):
            split = solution.reshape(len(some), self.width, len(entries))
            rows, slots = np.nonzero(np.isin(self.served[some], entries))
            columns = np.searchsorted(entries, self.served[some[rows], slots])
            values[some[rows], :, slots] = split[rows, :, columns]
        return values, np.eye(self.target_dim)[self.served.ravel()]


@dataclass(frozen=True, eq=False)
class _Solved:
    z: Intermediate
    kind: Kind
    solutions: list[Readout]

    @property
    def condition(self) -> float:
        """The worst of all systems."""
        return max(solution.condition for solution in self.solutions)

    @property
    def ranks(self) -> tuple[int, ...]:
        """What all systems reach on the examples of the first heads, and so does Z."""
        return tuple(min(ranks) for ranks in zip(*(x.ranks for x in self.solutions), strict=True))


@dataclass(frozen=True)
class NarrowValues(Described):
    """Random heads whose values have fewer entries than targets. A `Construction`.

    Attributes:
        value_dim: d_v; 0 where it was not said
    """

    value_dim: int = 0

    def with_values(self, value_dim: int | None, target_dim: int) -> Construction:
        """The same for d_v. Raises ParameterError unless d_v < d_out."""
        if value_dim is None or value_dim >= target_dim:
            raise ParameterError(
                f"construction={self.name!r} is for value_dim= below d_out={target_dim}",
                witness=value_dim,
                suggestion="construction='auto'",
            )
        return replace(self, value_dim=value_dim)

    def with_exact_logits(self) -> Construction:
        """The construction itself: random weights may be short."""
        return self

    def plan(self, shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Plan:
        """As many examples as Proposition 18.1 promises where contexts are generic."""
        inner = 1 if head_dim is None else head_dim
        bounds = _bounds(shapes, num_heads, inner, self.value_dim)
        if shapes.num_examples > bounds.holds:
            raise self._too_many(shapes, num_heads, inner, bounds)
        return Plan(self.name, num_heads, inner, bounds.holds, rank_one=inner == 1)

    def _too_many(
        self, shapes: ExampleShapes, num_heads: int, head_dim: int, bounds: ValueBounds
    ) -> CapacityError:
        total = shapes.num_examples
        of = f"{num_heads} heads with d_h={head_dim}, d_v={self.value_dim} and d_out="
        of += str(shapes.target_dim)
        if total > bounds.at_most:
            problem = f"no weights of {of} memorize every labelling of {total} examples: "
            problem += bounds.reason
        else:
            problem = f"{total} examples are too many for {of} as {self.name} builds them, which "
            problem += f"hold {bounds.holds}; that no weights do is proved above {bounds.at_most}"
        enough = heads_for_values(shapes, self.value_dim)
        ways = [] if enough is None else [f"num_heads={enough}"]
        wide = _bounds(shapes, num_heads, head_dim, shapes.target_dim)
        if total <= wide.holds:
            ways.append(f"value_dim={shapes.target_dim}")
        ways.append(f"keep {bounds.holds} of the examples")
        return CapacityError(problem, witness=total, suggestion=", or ".join(ways))

    def cost(self, shapes: ExampleShapes, num_heads: int) -> Cost:
        """Z, and the factors of one matrix for each entry of the targets, for each trial."""
        total, size, width = shapes.num_examples, shapes.context_size, shapes.width
        columns = num_heads * width
        keys = size if shapes.shared_context else width + size
        solves = 2.0 * total**2 * columns * max(self.value_dim, 1)
        solves += shapes.target_dim * total**3 / 3
        once = 2.0 * total * columns * (keys + size) + solves
        tried = len(generic.trials(total, columns))
        return Cost(once * tried, 8.0 * total * (2 * columns + total))

    def build(
        self, dataset: Dataset, plan: Plan, options: Options, *, rng: np.random.Generator
    ) -> Built:
        """Draw heads a few times, and solve; refuse with numbers where ranks are too small."""
        if options.precision != FLOAT64:
            raise ParameterError(
                f"precision={options.precision!r} is for readouts which W_V holds, and d_v < d_out",
                witness=options.precision,
                suggestion=f"precision={FLOAT64}, or value_dim={dataset.target_dim}",
            )
        check_inputs(dataset)
        total, width, target_dim = dataset.num_examples, dataset.width, dataset.target_dim
        value_dim = target_dim if options.value_dim is None else options.value_dim
        bounds = _bounds(dataset, plan.num_heads, plan.head_dim, value_dim)
        deviations = generic.trials(total, plan.num_heads * width)
        solved: list[_Solved] = []
        for index, deviation in enumerate(deviations):
            report("draw heads, and solve", index, len(deviations))
            weights = generic.drawn(dataset, plan, deviation, options, rng)
            z = generic.represented(dataset, weights, plan)
            kinds: list[Kind] = []
            if total <= bounds.by_rank:
                kinds.append(RandomValues.draw(plan.num_heads, width, value_dim, rng))
            if total <= bounds.by_slots:
                kinds.append(Slots.share(plan.num_heads, width, value_dim, target_dim))
            solved += [_solved(z, kind, dataset.target_matrix) for kind in kinds]
            solved.sort(key=lambda found: found.condition)
            del solved[1:]
        return _built(dataset, solved[0], options, rng)


def _bounds(shapes: ExampleShapes, num_heads: int, head_dim: int, value_dim: int) -> ValueBounds:
    tokens, differences = generic_spans(shapes)
    return value_bounds(
        num_heads=num_heads,
        width=shapes.width,
        head_dim=head_dim,
        value_dim=value_dim,
        target_dim=shapes.target_dim,
        tokens=tokens,
        differences=differences,
    )


def _solved(z: Intermediate, kind: Kind, targets: Array) -> _Solved:
    systems = kind.systems(z.representation, np.matmul)
    return _Solved(
        z,
        kind,
        [
            readout.solve(replace(z, representation=system), part)
            for system, part in zip(systems, kind.targets(targets), strict=True)
        ],
    )


def _built(dataset: Dataset, best: _Solved, options: Options, rng: np.random.Generator) -> Built:
    z, ranks = best.z, best.ranks
    values, output = best.kind.weights([solution.effective for solution in best.solutions])
    last = np.eye(dataset.target_dim)
    layer = AttentionLayer(z.query_weights, z.key_weights, values, output, last)
    if ranks[-1] < dataset.num_examples or not best.condition < generic.DOUBTFUL:
        generic.require_rank(dataset, layer, rng)
        _require_ranks(dataset, layer, best.kind, rng)
    missed = z.representation @ layer.effective_readout - dataset.target_matrix
    stops = z.group_ends.tolist()
    records = tuple(
        HeadRecord(start, stop, sharpness=0.0, saturated_fraction=0.0, rank_reached=rank)
        for start, stop, rank in zip([0, *stops[:-1]], stops, ranks, strict=True)
    )
    return Built(layer, largest(missed), best.condition, records, options.shared_keys)


def _require_ranks(
    dataset: Dataset, layer: AttentionLayer, kind: Kind, rng: np.random.Generator
) -> None:
    """Raise CapacityError where some system has not rank T modulo a prime; else only floats err."""
    total, prime = dataset.num_examples, next(modular.safe_primes())

    def product(left: Array, right: Array) -> Array:
        whole = modular.residues(right, prime, modular.least_exponent(right))
        return modular.product(left, whole, prime)

    every = np.arange(layer.num_heads * layer.width)
    _, z, _ = residues.evaluate(layer, dataset, prime, every, rng)
    if z is None:
        return
    found = min(modular.factor(system, prime).rank for system in kind.systems(z, product))
    if found < total:
        raise CapacityError(
            f"values of random heads have rank {found} < T = {total}, though Z has rank T: these "
            "contexts hold less than generic ones, whose differences of tokens have any direction",
            witness={"rank": found},
            suggestion=f"more heads, or value_dim={layer.target_dim}",
        )


NARROW_VALUES = NarrowValues(
    "narrow_values",
    "max(H d_v, floor(H d_v / d_out) d)",
    "Proposition 18.1",
    shortest=True,
)
