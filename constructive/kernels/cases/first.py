"""The winner is the first visible key: windows, left padding, blocks that are lost at the start."""

from typing import ClassVar

from constructive.kernels.cases.case import Case, Draft, board
from constructive.kernels.cases.last import ordered
from constructive.kernels.encoding import MOST_DIGITS
from constructive.kernels.spec import Spec
from constructive.support.arrays import Booleans


class First(Case):
    """Logits fall with the position: 0 at the first visible key, more at every key before it."""

    name: ClassVar[str] = "first"
    purpose: ClassVar[str] = "left edges of masks, the first block"

    def draft(self, spec: Spec, visible: Booleans) -> Draft:
        """Return queries that read the first visible key."""
        chosen = board(spec, visible, "first", times=4.0 ** (MOST_DIGITS // 2))
        return chosen.draft(-ordered(chosen))
