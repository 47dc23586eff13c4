"""Properties of a network: is there an input of a box whose outputs meet some linear conditions?

This is the convention of VNN-LIB: the property says what is bad. The answer is *sat* if such an
input exists, else *unsat*.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from constructive.checker.properties import read_property as parsed_property
from constructive.support.arrays import Array, Rebuilt, frozen, private
from constructive.support.errors import FormatError, ParameterError

TOLERANCE = 1e-4  # How far outside of the box, and of the property, VNN-COMP accepts a witness


def text_of(value: float | Fraction) -> str:
    """Write a number exactly, as `fractions.Fraction` reads it."""
    exact = Fraction(value)
    twos = exact.denominator.bit_length() - 1
    if exact.denominator != 1 << twos:
        return str(exact)
    sign, digits = "-" * (exact < 0), str(abs(exact.numerator) * 5**twos).rjust(twos + 1, "0")
    return f"{sign}{digits[:-twos]}.{digits[-twos:]}" if twos else f"{sign}{digits}"


def float32_numbers(name: str, values: object, axes: int) -> Array:
    """Return a read-only float64 array whose entries are float32 numbers; messages name it."""
    array = private(name, values)
    if array.ndim != axes or not array.size or array.dtype.kind not in "fiu":
        raise ParameterError(
            f"{name} is not an array of numbers with {axes} axes",
            witness=(str(array.dtype), array.shape),
            suggestion=f"an array with {axes} axes, none of them empty",
        )
    wide = array.astype(np.float64)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32).astype(np.float64)
    wrong = ~np.isfinite(narrow) | (narrow != array)
    if wrong.any():
        raise ParameterError(
            f"{name} has an entry that is not a finite float32 number",
            witness=wide[wrong].flat[0].item(),
            suggestion="round to float32 first: np.float32(...)",
        )
    return frozen(wide + 0.0)  # no negative zeros


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
        >>> Box([0.0, 0.0], [1.0, 0.5]).widths
        array([1. , 0.5])
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


@dataclass(frozen=True, eq=False)
class Linear(Rebuilt):
    """A condition w . Y >= c, with coefficients -1, 0 and 1, at most two of them not zero."""

    coefficients: Array
    threshold: float


@dataclass(frozen=True, eq=False)
class Atom(Linear):
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
    disjuncts: tuple[tuple[Linear, ...], ...]

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

    def least_slack(self, outputs: Array) -> Array:
        """Return how far outputs are inside of the best disjunct; negative where outside: (N,)."""
        slacks = [
            np.min([outputs @ atom.coefficients - atom.threshold for atom in atoms], axis=0)
            for atoms in self.disjuncts
        ]
        best: Array = np.max(slacks, axis=0)
        return best


# Properties as VNN-LIB text, versions 1.0 and 2.0, one assertion on each line. Numbers are exact
# decimals without exponents.


def decimal(value: float) -> str:
    """Write a finite float exactly, with a decimal point."""
    text = text_of(value)
    return text if "." in text else text + ".0"


# Ways to write the same: as it is; sides exchanged; both bounds of an input in one assertion, by
# `and`; conditions first, and a single alternative by `or`.
STYLES = 4
_PLAIN, _EXCHANGED, _TOGETHER, _OUTPUTS_FIRST = range(STYLES)


def version_1(wanted: Property, style: int = _PLAIN) -> str:
    """Write a property as VNN-LIB 1.0."""
    inputs = [f"(declare-const X_{i} Real)" for i in range(len(wanted.box.lower))]
    outputs = [f"(declare-const Y_{j} Real)" for j in range(wanted.output_dim)]
    return _joined([*inputs, *outputs, *_assertions(wanted, "{}_{}".format, style)])


def version_2(wanted: Property, style: int = _PLAIN) -> str:
    """Write a property as VNN-LIB 2.0, about one network in float32."""
    head = [
        "(vnnlib-version <2.0>)",
        "(declare-network N",
        f"    (declare-input X float32 [1, {len(wanted.box.lower)}])",
        f"    (declare-output Y float32 [1, {wanted.output_dim}])",
        ")",
    ]
    return _joined([*head, *_assertions(wanted, "{}[0,{}]".format, style)])


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _assertions(wanted: Property, name: Callable[[str, int], str], style: int) -> list[str]:
    """The box, and the atoms; alternatives are on one line."""

    def compared(one: str, other: str) -> str:
        """One >= other."""
        return f"(<= {other} {one})" if style == _EXCHANGED else f"(>= {one} {other})"

    def condition(atom: Linear) -> str:
        weights = atom.coefficients.tolist()
        positive, negative = weights.count(1.0), weights.count(-1.0)
        high = name("Y", weights.index(1.0)) if positive else ""
        low = name("Y", weights.index(-1.0)) if negative else decimal(atom.threshold)
        if high:
            return compared(high, low)
        bound = decimal(-atom.threshold)
        return f"(>= {bound} {low})" if style == _EXCHANGED else f"(<= {low} {bound})"

    bounds = []
    for i, (low, high) in enumerate(zip(wanted.box.lower, wanted.box.upper, strict=True)):
        x, ends = name("X", i), (decimal(low), decimal(high))
        upper = f"(>= {ends[1]} {x})" if style == _EXCHANGED else f"(<= {x} {ends[1]})"
        both = [compared(x, ends[0]), upper]
        together = style == _TOGETHER
        bounds += (
            [f"(assert (and {' '.join(both)}))"] if together else [f"(assert {b})" for b in both]
        )
    if len(wanted.disjuncts) == 1 and style != _OUTPUTS_FIRST:
        return [*bounds, *(f"(assert {condition(atom)})" for atom in wanted.disjuncts[0])]
    parts = (" ".join(map(condition, atoms)) for atoms in wanted.disjuncts)
    alternatives = "(assert (or " + " ".join(f"(and {part})" for part in parts) + "))"
    return [alternatives, *bounds] if style == _OUTPUTS_FIRST else [*bounds, alternatives]


def read_property(text: str) -> Property:
    """Read a property in VNN-LIB 1.0, as the checker does. Raises FormatError."""
    try:
        found = parsed_property(text.encode(), "vnnlib")
    except ValueError as error:
        raise FormatError(
            f"the property cannot be read: {error}",
            witness=text[:80],
            suggestion="a .vnnlib file of a folder of `constructive instances`",
        ) from error
    box = Box(*(np.array([float(x) for x in side]) for side in (found.lower, found.upper)))
    disjuncts = []
    for conditions in found.alternatives:
        atoms = []
        for each in conditions:
            weights = np.zeros(found.outputs)
            for output, weight in each.weights:
                weights[output] = weight
            atoms.append(Atom(weights, float(each.threshold)))
        disjuncts.append(tuple(atoms))
    return Property(box, tuple(disjuncts))
