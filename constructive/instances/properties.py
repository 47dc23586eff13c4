"""Properties of a network: is there an input of a box whose outputs meet some linear conditions?

This is the convention of VNN-LIB: the property says what is bad. The answer is *sat* if such an
input exists, else *unsat*.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

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
        """Whether a point, taken exactly, is in the box."""
        exact = [Fraction(value) for value in point]
        bounds = list(zip(self.lower.tolist(), self.upper.tolist(), strict=True))
        return len(exact) == len(bounds) and all(
            Fraction(low) <= value <= Fraction(high)
            for value, (low, high) in zip(exact, bounds, strict=True)
        )


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


def version_1(wanted: Property) -> str:
    """Write a property as VNN-LIB 1.0."""
    inputs = [f"(declare-const X_{i} Real)" for i in range(len(wanted.box.lower))]
    outputs = [f"(declare-const Y_{j} Real)" for j in range(wanted.output_dim)]
    return _joined([*inputs, *outputs, *_assertions(wanted, "{}_{}".format)])


def version_2(wanted: Property) -> str:
    """Write a property as VNN-LIB 2.0, about one network in float32."""
    head = [
        "(vnnlib-version <2.0>)",
        "(declare-network N",
        f"    (declare-input X float32 [1, {len(wanted.box.lower)}])",
        f"    (declare-output Y float32 [1, {wanted.output_dim}])",
        ")",
    ]
    return _joined([*head, *_assertions(wanted, "{}[0,{}]".format)])


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _assertions(wanted: Property, name: Callable[[str, int], str]) -> Iterator[str]:
    """The box, and the atoms; alternatives are on one line."""
    bounds = zip(wanted.box.lower.tolist(), wanted.box.upper.tolist(), strict=True)
    for i, (low, high) in enumerate(bounds):
        yield f"(assert (>= {name('X', i)} {decimal(low)}))"
        yield f"(assert (<= {name('X', i)} {decimal(high)}))"
    if len(wanted.disjuncts) == 1:
        for atom in wanted.disjuncts[0]:
            yield f"(assert {_condition(atom, name)})"
        return
    parts = (" ".join(_condition(atom, name) for atom in atoms) for atoms in wanted.disjuncts)
    yield "(assert (or " + " ".join(f"(and {part})" for part in parts) + "))"


def _condition(atom: Linear, name: Callable[[str, int], str]) -> str:
    """An atom in one of its three forms."""
    weights = atom.coefficients.tolist()
    positive, negative = weights.count(1.0), weights.count(-1.0)
    if positive and negative:
        return f"(>= {name('Y', weights.index(1.0))} {name('Y', weights.index(-1.0))})"
    if positive:
        return f"(>= {name('Y', weights.index(1.0))} {decimal(atom.threshold)})"
    return f"(<= {name('Y', weights.index(-1.0))} {decimal(-atom.threshold)})"


_DECLARED = re.compile(r"\(declare-const ([XY])_\d+ Real\)")
_ATOM = re.compile(r"\(([<>]=) ([XY])_(\d+) (?:(-?[\d.]+)|Y_(\d+))\)")


def read_property(text: str) -> Property:
    """Read a property in VNN-LIB 1.0; any other text than `version_1` writes is refused."""
    declared = _DECLARED.findall(text)
    bounds: dict[tuple[str, int], float] = {}
    disjuncts: list[list[tuple[str, ...]]] = [[]]
    for line in text.splitlines():
        atoms = _ATOM.findall(line)
        if "(or " in line:
            disjuncts += map(_ATOM.findall, line.split("(and ")[1:])
        elif atoms and atoms[0][1] == "X":
            bounds.update({(side, int(i)): float(value) for side, _, i, value, _ in atoms})
        else:
            disjuncts[0] += atoms
    inputs, outputs = (declared.count(role) for role in "XY")
    if not (inputs and outputs):
        raise _unread(text)
    try:
        least, most = ([bounds[side, i] for i in range(inputs)] for side in (">=", "<="))
        found = [[_atom(atom, outputs) for atom in atoms] for atoms in disjuncts if atoms]
        wanted = Property(Box(np.array(least), np.array(most)), tuple(map(tuple, found)))
    except (KeyError, IndexError) as error:
        raise _unread(f"bounds of {inputs} inputs, {outputs} outputs") from error
    if text != version_1(wanted):
        raise _unread(text)
    return wanted


def _atom(found: tuple[str, ...], outputs: int) -> Atom:
    """An atom as `_ATOM` finds it."""
    side, _, output, number, other = found
    sign = 1.0 if side == ">=" else -1.0
    weights = np.zeros(outputs)
    weights[int(output)] = sign
    if other:
        weights[int(other)] = -sign
        return Atom(weights, 0.0)
    return Atom(weights, sign * float(number))


def _unread(line: str) -> FormatError:
    return FormatError(
        "the property is not in the form that `instances.save` writes",
        witness=line[:80],
        suggestion="a .vnnlib file of a folder of `constructive instances`",
    )
