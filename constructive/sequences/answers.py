"""What is to be put out for labels, and whether an output of floats is one."""

from collections.abc import Hashable, Sequence
from fractions import Fraction
from math import isfinite

_MET = Fraction(1, 8)  # How near to a label an output of floats has to be


def expected_outputs(
    known: tuple[Hashable, ...] | None, classes: Sequence[Hashable]
) -> list[int | None]:
    """Return the wanted outputs for classes: themselves, or their places among known ones.

    None for what cannot be put out.

    Example:
        >>> expected_outputs(("x", "y"), ["y", "z"])
        [1, None]
    """
    if known is None:
        return [_integer(label) for label in classes]
    places = {label: place for place, label in enumerate(known)}
    return [places.get(label) for label in classes]


def _integer(label: Hashable) -> int | None:
    """Return the integer that a label is equal to."""
    equal = isinstance(label, int) or (isinstance(label, float | Fraction) and label % 1 == 0)
    return int(label) if equal else None  # type: ignore[call-overload] # a number, as asked


def met(output: float, label: int | None) -> bool:
    """Return whether an output is a label, within 1/8.

    Example:
        >>> met(2.1, 2), met(2.2, 2), met(2.0, None)
        (True, False, False)
    """
    return label is not None and isfinite(output) and abs(Fraction(output) - label) <= _MET
