"""What a readout of random heads is solved for: all of it at once, or with values of few entries.

A *shape* says which systems of equations, made of Z, give the readout, and how W_V and W_O are made
of the solutions. With d_v >= d_out one system gives any effective readout (`Whole`). With d_v <
d_out that of each head has rank d_v at most; two parts of it are linear, and either is enough for
some examples (Proposition 18.1): `RandomValues` and `Slots`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from constructive.constructions.multihead import readout
from constructive.constructions.multihead.intermediate import Intermediate
from constructive.constructions.multihead.readout import Readout
from constructive.layers.attention import AttentionLayer
from constructive.support.arrays import Array, Integers

Product = Callable[[Array, Array], Array]  # `left @ right`, in floats or modulo a prime


class Shape(ABC):
    """One kind of readout, for heads of known number and values of known size."""

    @abstractmethod
    def systems(self, z: Array, product: Product) -> Iterator[Array]:
        """Yield the matrices made of Z (T, H d) that have to have rank T, one after the other."""

    @abstractmethod
    def targets(self, targets: Array) -> list[Array]:
        """Return what each of them is solved for, columns of (T, d_out)."""

    @abstractmethod
    def layer(self, z: Intermediate, solutions: list[Array]) -> AttentionLayer:
        """Return the heads of Z, with values and outputs of the solutions."""


@dataclass(frozen=True, eq=False)
class Whole(Shape):
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


class Narrow(Shape):
    """A readout with d_v < d_out. W_D is the identity.

    With d_o < d_out all outputs would lie in d_o dimensions.
    """

    target_dim: int

    @abstractmethod
    def weights(self, solutions: list[Array]) -> tuple[Array, Array]:
        """Return W_V (H, d, d_v) and W_O (H d_v, d_out) of the solutions."""

    def layer(self, z: Intermediate, solutions: list[Array]) -> AttentionLayer:
        """Return the layer with these values and outputs."""
        last = np.eye(self.target_dim)
        return AttentionLayer(z.query_weights, z.key_weights, *self.weights(solutions), last)


@dataclass(frozen=True, eq=False)
class RandomValues(Narrow):
    """W_V (H, d, d_v) is random, and W_O is solved for.

    The T x (H d_v) matrix of values has rank T; this holds H d_v examples.
    """

    values: Array
    target_dim: int

    @classmethod
    def draw(
        cls, num_heads: int, width: int, value_dim: int, target_dim: int, rng: np.random.Generator
    ) -> Shape:
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

    def weights(self, solutions: list[Array]) -> tuple[Array, Array]:
        """Return the values, and their solution."""
        return self.values, solutions[0]


@dataclass(frozen=True, eq=False)
class Slots(Narrow):
    """Entry j of head h serves entry `served[h, j]` of the targets; W_V is solved for.

    Different entries within a head, and W_O says which: each entry of the targets has a readout of
    its own from its heads, floor(H d_v / d_out) or more of them. This holds
    floor(H d_v / d_out) d examples.
    """

    served: Integers
    width: int
    target_dim: int

    @classmethod
    def share(cls, num_heads: int, width: int, value_dim: int, target_dim: int) -> Shape:
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

    def weights(self, solutions: list[Array]) -> tuple[Array, Array]:
        """Return each solution in its slots, and the entries that they serve."""
        heads, value_dim = self.served.shape
        values = np.zeros((heads, self.width, value_dim))
        for (some, entries), solution in zip(self._parts(), solutions, strict=True):
            split = solution.reshape(len(some), self.width, len(entries))
            rows, slots = np.nonzero(np.isin(self.served[some], entries))
            columns = np.searchsorted(entries, self.served[some[rows], slots])
            values[some[rows], :, slots] = split[rows, :, columns]
        return values, np.eye(self.target_dim)[self.served.ravel()]


@dataclass(frozen=True, eq=False)
class Solved:
    """A shape with the solutions of its systems for one Z."""

    z: Intermediate
    shape: Shape
    solutions: list[Readout]

    @classmethod
    def of(cls, z: Intermediate, shape: Shape, targets: Array) -> "Solved":
        """Solve the systems of a shape for targets (T, d_out)."""
        systems = shape.systems(z.representation, np.matmul)
        return cls(
            z,
            shape,
            [
                readout.solve(system, part, z.group_ends)
                for system, part in zip(systems, shape.targets(targets), strict=True)
            ],
        )

    @property
    def condition(self) -> float:
        """The worst of all systems."""
        return max(solution.condition for solution in self.solutions)

    @property
    def ranks(self) -> tuple[int, ...]:
        """What all systems reach on the examples of the first heads, and so does Z."""
        return tuple(min(ranks) for ranks in zip(*(x.ranks for x in self.solutions), strict=True))
