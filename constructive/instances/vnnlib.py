"""Properties as VNN-LIB text, versions 1.0 and 2.0, one assertion on each line.

Numbers are exact decimals without exponents. Both versions say what `properties.Property` does:
the text is satisfiable if some input of the box meets all atoms of a disjunct.
"""

from collections.abc import Callable, Iterator

from constructive.instances.proof import text_of
from constructive.instances.properties import Atom, Property


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
