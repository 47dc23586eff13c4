"""Properties of a network: is there an input of a box whose outputs meet some linear conditions?

This is the convention of VNN-LIB: the property says what is bad. The answer is *sat* if such an
input exists, else *unsat*.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from constructive.instances.network import float32_numbers
from constructive.support.arrays import Array, Rebuilt
from constructive.support.errors import ParameterError


@dataclass(frozen=True, eq=False)
class Box(Rebuilt):
    """A box, l_i <= x_i <= u_i. Bounds are float64 and hold float32 numbers.

    Attributes:
        lower: l (d,)
        upper: u (d,)

    Raises:
        ParameterError: for bounds of different lengths, in the wrong order, or that are not float32
            numbers

    Example:
        >>> Box([0.0, 0.0], [1.0, 0.5]).contains([Fraction(1, 3), 0.5])
        True
    """

    lower: Array
    upper: Array

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            object.__setattr__(self, name, float32_numbers(name, getattr(self, name), 1))
        if self.lower.shape != self.upper.shape or (self.lower > self.upper).any():
            raise ParameterError(
                "the bounds are not those of a box",
                witness=(self.lower.tolist(), self.upper.tolist()),
                suggestion="as many lower bounds as upper ones, none above its upper one",
            )

    @property
    def widths(self) -> Array:
        """Return u - l, as float64 rounds it: (d,)."""
        return self.upper - self.lower

    def contains(self, point: Sequence[float | Fraction] | Array) -> bool:
        """Whether a point, taken exactly, is in the box.

        Args:
            point: x, floats or fractions
        """
        exact = [Fraction(value) for value in point]
        bounds = list(zip(self.lower.tolist(), self.upper.tolist(), strict=True))
        return len(exact) == len(bounds) and all(
            Fraction(low) <= value <= Fraction(high)
            for value, (low, high) in zip(exact, bounds, strict=True)
        )


@dataclass(frozen=True, eq=False)
class Atom(Rebuilt):
    """A condition w . Y >= c in one of the forms of VNN-LIB.

    These are Y_j >= c and Y_j <= c (w = -e_j, with -c), and Y_i >= Y_j (w = e_i - e_j, c = 0).

    Attributes:
        coefficients: w (k,), of entries -1, 0 and 1
        threshold: c, a float32 number

    Raises:
        ParameterError: for other coefficients, and a threshold that is not a float32 number or is
            not 0 for two outputs

    Example:
        >>> Atom([0.0, -1.0], -0.5).coefficients  # Y_1 <= 0.5
        array([ 0., -1.])
    """

    coefficients: Array
    threshold: float

    def __post_init__(self) -> None:
        weights = float32_numbers("coefficients", self.coefficients, 1)
        threshold = float(float32_numbers("threshold", [self.threshold], 1)[0])
        entries = sorted(weights[weights != 0.0].tolist())
        if entries not in ([1.0], [-1.0], [-1.0, 1.0]) or (len(entries) > 1 and threshold):
            raise ParameterError(
                "the condition has none of the forms Y_j >= c, Y_j <= c and Y_i >= Y_j",
                witness=(weights.tolist(), threshold),
                suggestion="one coefficient 1 or -1, or one of each and the threshold 0",
            )
        object.__setattr__(self, "coefficients", weights)
        object.__setattr__(self, "threshold", threshold)


@dataclass(frozen=True, eq=False)
class Property(Rebuilt):
    """Some x of the box has, for some disjunct, all its atoms.

    Attributes:
        box: of inputs
        disjuncts: alternatives, each some atoms that have to hold together

    Raises:
        ParameterError: for no disjunct, a disjunct without atoms, and atoms about different numbers
            of outputs

    Example:
        >>> bad = Property(Box([0.0], [1.0]), ((Atom([1.0], 0.5),),))
        >>> bad.output_dim
        1
    """

    box: Box
    disjuncts: tuple[tuple[Atom, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "disjuncts", tuple(tuple(atoms) for atoms in self.disjuncts))
        outputs = {len(atom.coefficients) for atoms in self.disjuncts for atom in atoms}
        if len(outputs) != 1 or not all(self.disjuncts):
            raise ParameterError(
                "a property has one disjunct or more, of atoms about the same outputs",
                witness=sorted(outputs) or None,
                suggestion="disjuncts=((Atom(...), ...), ...)",
            )

    @property
    def output_dim(self) -> int:
        """Return k, the number of outputs that its atoms are about."""
        return len(self.disjuncts[0][0].coefficients)

    def after(self, fixed: Array) -> "Property":
        """Return the property of a graph with more inputs, which come first and have one value.

        Args:
            fixed: their values (m,)

        Example:
            >>> bad = Property(Box([0.0], [1.0]), ((Atom([1.0], 0.5),),))
            >>> bad.after(np.array([0.25])).box.upper
            array([0.25, 1.  ])
        """
        ends = (np.concatenate([fixed, end]) for end in (self.box.lower, self.box.upper))
        return Property(Box(*ends), self.disjuncts)

    def least_slack(self, outputs: Array) -> Array:
        """Return how far outputs are inside of the best disjunct; negative where outside: (N,).

        Args:
            outputs: Y (N, k)
        """
        slacks = [
            np.min([outputs @ atom.coefficients - atom.threshold for atom in atoms], axis=0)
            for atoms in self.disjuncts
        ]
        best: Array = np.max(slacks, axis=0)
        return best
