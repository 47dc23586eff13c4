"""Properties as VNN-LIB text, versions 1.0 and 2.0, one assertion on each line.

Numbers are exact decimals without exponents. Both versions say what `properties.Property` does:
the text is satisfiable if some input of the box meets all atoms of a disjunct.
"""

import re
from collections.abc import Callable, Iterator

import numpy as np

from constructive.instances.proof import text_of
from constructive.instances.properties import Atom, Box, Property
from constructive.support.errors import FormatError


def decimal(value: float) -> str:
    """Write a finite float exactly, with a decimal point.

    Example:
        >>> decimal(1.0), decimal(-0.171875)
        ('1.0', '-0.171875')
    """
    text = text_of(value)
    return text if "." in text else text + ".0"


def version_1(wanted: Property) -> str:
    """Write a property as VNN-LIB 1.0.

    Example:
        >>> from constructive.instances.properties import Box
        >>> print(version_1(Property(Box([0.0], [0.5]), ((Atom([1.0], 0.25),),))), end="")
        (declare-const X_0 Real)
        (declare-const Y_0 Real)
        (assert (>= X_0 0.0))
        (assert (<= X_0 0.5))
        (assert (>= Y_0 0.25))
    """
    inputs = [f"(declare-const X_{i} Real)" for i in range(len(wanted.box.lower))]
    outputs = [f"(declare-const Y_{j} Real)" for j in range(wanted.output_dim)]
    return _joined([*inputs, *outputs, *_assertions(wanted, "{}_{}".format)])


def version_2(wanted: Property) -> str:
    """Write a property as VNN-LIB 2.0, about one network in float32.

    Example:
        >>> from constructive.instances.properties import Box
        >>> print(version_2(Property(Box([0.0], [0.5]), ((Atom([1.0], 0.25),),))), end="")
        (vnnlib-version <2.0>)
        (declare-network N
            (declare-input X float32 [1, 1])
            (declare-output Y float32 [1, 1])
        )
        (assert (>= X[0,0] 0.0))
        (assert (<= X[0,0] 0.5))
        (assert (>= Y[0,0] 0.25))
    """
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


def _condition(atom: Atom, name: Callable[[str, int], str]) -> str:
    """An atom in one of its three forms."""
    weights = atom.coefficients.tolist()
    positive, negative = weights.count(1.0), weights.count(-1.0)
    if positive and negative:
        return f"(>= {name('Y', weights.index(1.0))} {name('Y', weights.index(-1.0))})"
    if positive:
        return f"(>= {name('Y', weights.index(1.0))} {decimal(atom.threshold)})"
    return f"(<= {name('Y', weights.index(-1.0))} {decimal(-atom.threshold)})"


_DECLARED = re.compile(
    r"\(declare-const ([XY])_\d+ Real\)|\(declare-(?:in|out)put ([XY]) .*, (\d+)\]"
)
_ATOM = re.compile(r"\(([<>]=) ([XY])(?:_|\[0,)(\d+)\]? (?:(-?[\d.]+)|Y(?:_|\[0,)(\d+)\]?)\)")


def read_property(text: str) -> Property:
    """Read a property in VNN-LIB 1.0 or 2.0; any other text than `vnnlib` writes is refused.

    Example:
        >>> bad = Property(Box([0.0], [0.5]), ((Atom([1.0], 0.25),), (Atom([-1.0], 2.0),)))
        >>> read_property(version_2(bad)).disjuncts[1][0].threshold
        2.0
    """
    counts, bounds = {"X": 0, "Y": 0}, {}
    disjuncts: list[list[tuple[str, ...]]] = [[]]
    for line in text.splitlines():
        declared = _DECLARED.search(line)
        if declared is not None:
            counts[declared[1] or declared[2]] += int(declared[3] or 1)
            continue
        if not line.startswith("(assert "):
            continue
        parts = line.removeprefix("(assert ").removesuffix(")").removeprefix("(or ").split("(and ")
        for part in parts:
            atoms = _ATOM.findall(part)
            if not atoms and part.strip("() "):
                raise _unread(line)
            if atoms and atoms[0][1] == "X":
                bounds.update({(atom[0], int(atom[2])): float(atom[3]) for atom in atoms})
            elif atoms and len(parts) > 1:
                disjuncts.append(atoms)
            else:
                disjuncts[0] += atoms
    try:
        least, most = ([bounds[side, i] for i in range(counts["X"])] for side in (">=", "<="))
        found = [[_atom(atom, counts["Y"]) for atom in atoms] for atoms in disjuncts if atoms]
        wanted = Property(Box(np.array(least), np.array(most)), tuple(map(tuple, found)))
    except (KeyError, IndexError) as error:
        raise _unread(f"bounds of {counts['X']} inputs, {counts['Y']} outputs") from error
    if text not in (version_1(wanted), version_2(wanted)):
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
