"""Values that are large: formats of too small a range, and numbers that are cut off."""

from typing import ClassVar

from constructive.kernels.cases.random import Random
from constructive.kernels.spec import Spec

_BEYOND = 2.0**17
"""More than float16 holds."""
_ENOUGH = 2.0**100
"""The range of formats in which no sum of such values overflows."""


class LargeValues(Random):
    """`random`, with values from 2^17 on: all outputs are as much larger, without rounding."""

    name: ClassVar[str] = "large values"
    purpose: ClassVar[str] = "formats of too small a range, outputs that are cut off"

    @property
    def unit(self) -> float:
        """The smallest value."""
        return _BEYOND

    def refuses(self, spec: Spec) -> str | None:
        """Return why: a format that has no such numbers."""
        if min(spec.inputs.largest, spec.output.largest) < _ENOUGH:
            return f"{spec.dtype} has no such values"
        return None
