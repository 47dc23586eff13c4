"""What is wrong with an output, in words."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from constructive.kernels.masks import Booleans
from constructive.kernels.problem import Problem
from constructive.support.arrays import Array


@dataclass(frozen=True, eq=False)
class Report:
    """What is wrong with an output.

    Attributes:
        problem: what was computed
        out: (B, H, T_q, d_v) the output
        model: the row of the model of floating point that the kernel claims, or None
    """

    problem: Problem
    out: Array
    model: str | None = None

    @cached_property
    def wrong(self) -> Booleans:
        """Rows that differ, (B, H, T_q)."""
        answer = self.problem.answer
        with np.errstate(invalid="ignore"):
            near = np.abs(self.out - answer.expected) <= answer.slack
        nan = np.isnan(answer.expected) & np.isnan(self.out)
        return answer.checked & ~(near | nan).all(-1)

    @property
    def passed(self) -> bool:
        """Whether every row that is checked is right."""
        return not self.wrong.any()

    @property
    def first(self) -> tuple[int, ...] | None:
        """The first wrong row: sequence, head, query."""
        found = np.argwhere(self.wrong)
        return tuple(int(index) for index in found[0]) if len(found) else None

    def __str__(self) -> str:
        return f"{int(self.wrong.sum())} of {int(self.problem.answer.checked.sum())} rows are wrong"
