"""All of a compact decoder but its heads and its readout, and the system that these solve."""

from typing import NamedTuple

from constructive.constructions.compact.cells import Cells, cells_of
from constructive.constructions.compact.tokens import Layout
from constructive.data.corpus import Text
from constructive.support.arrays import Array, Integers

ATTEMPTS = 12  # Numbers of heads that are tried
MORE_HEADS = 1.08  # Factor from one of them to the next one
# Columns for a position with an equation, with an inequality, and where all have equations.
_FOR_EQUATIONS, _FOR_OTHERS, _FOR_EVERY = 1.2, 0.4, 1.1


class Plan(NamedTuple):
    """Tokens, their points, and what is asked of the readout."""

    text: Text  # one text or several
    wanted: Integers  # places of the different contexts (R,)
    order: Integers  # places of the V + 1 tokens
    layout: Layout  # of tokens
    points: Integers  # of tokens (V + 1, k)
    every: bool  # whether all positions have equations
    largest: float  # what entries of U have to be smaller than

    @property
    def embedding(self) -> Array:
        """The rows of tokens (V, d)."""
        return self.layout.embedding(self.order[: self.text.end])

    @property
    def shift(self) -> Integers:
        """The middle of the points, which they are moved by (k,)."""
        middle: Integers = self.points.min(axis=0) // 2
        return middle

    @property
    def centred(self) -> Integers:
        """The points when they are moved: about as short as possible."""
        return self.points - self.shift

    def cells(self, following: Integers) -> list[Cells]:
        """Return the cells of each output at positions that these tokens follow (N,)."""
        return cells_of(self.points, following, every=self.every)

    def columns_for(self, cells: list[Cells]) -> float:
        """Return the number of columns of Z that is tried first for the cells of all outputs."""
        total = len(cells[0].centres)
        if self.every:
            return _FOR_EVERY * total
        equations = max(int(each.equations.sum()) for each in cells)
        return _FOR_EQUATIONS * equations + _FOR_OTHERS * (total - equations)
