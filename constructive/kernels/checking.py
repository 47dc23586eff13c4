"""Compare what a kernel returned with what every admissible kernel returns."""

from typing import TYPE_CHECKING, Protocol

import numpy as np

from constructive.exact.kernel_model import kernel_model_named
from constructive.kernels.memory import LAYOUTS, from_layout, place_named
from constructive.kernels.paged import Paged, Pool
from constructive.kernels.problem import Problem
from constructive.kernels.report import Report
from constructive.kernels.spec import as_float64
from constructive.support.arguments import require_known
from constructive.support.arrays import Array
from constructive.support.errors import ConstructiveError, ParameterError

if TYPE_CHECKING:
    from constructive.kernels.formula import Memory


class Finding(Protocol):
    """A report on an output, or on gradients."""

    @property
    def first(self) -> tuple[object, ...] | None:
        """The first row that is wrong."""

    @property
    def suggestion(self) -> str:
        """What to look at next, where it is the `report` of an error."""


class KernelError(ConstructiveError, AssertionError):
    """A kernel returned what no evaluation of the named model returns.

    Attributes:
        report: what was found
    """

    def __init__(self, report: Finding) -> None:
        super().__init__(str(report), witness=report.first, suggestion=report.suggestion)
        self.report = report

    def __reduce__(self) -> tuple[type["KernelError"], tuple[Finding]]:
        """Processes send errors to each other."""
        return type(self), (self.report,)


def check(
    problem: Problem,
    out: object,
    *,
    layout: str | None = None,
    model: str | None = None,
    memory: Paged | Pool | str | None = None,
) -> None:
    """Raise if an output is not the one that every admissible kernel returns.

    Args:
        problem: what was computed
        out: the output: an array or a tensor
        layout: "BHTd", "BTHd" or "packed"; by default the one whose shape it has, and "BHTd" where
            there are as many heads as queries: say "BTHd" then, if it is
        model: the row of the model of floating point that the kernel claims, for the message: a key
            of `exact.kernel_model.KERNEL_MODELS`
        memory: how the kernel got its tensors, so that the message can name mistakes about it: the
            `Paged` that it read, what was passed as `placed=`, or the `memory` of a report

    Raises:
        KernelError: an `AssertionError` that says where and how it is wrong
        ParameterError: if the output has another shape, or `memory` or `model` is not known

    Example:
        >>> from constructive.kernels.spec import Spec
        >>> problem = Problem.build(Spec(queries=3, keys=5, head_dim=16))
        >>> check(problem, problem.expected)
    """
    report = examine(problem, out, layout=layout, model=model, memory=memory)
    if not report.passed:
        raise KernelError(report)


def examine(
    problem: Problem,
    out: object,
    *,
    layout: str | None = None,
    model: str | None = None,
    memory: Paged | Pool | str | None = None,
) -> Report:
    """Return the report on an output, also where it is right.

    Args:
        problem: what was computed
        out: the output: an array or a tensor
        layout: "BHTd", "BTHd" or "packed"; by default the one whose shape it has, and "BHTd" where
            there are as many heads as queries: say "BTHd" then, if it is
        model: the row of the model of floating point that the kernel claims, for the message: a key
            of `exact.kernel_model.KERNEL_MODELS`
        memory: how the kernel got its tensors, as in `check`

    Raises:
        ParameterError: if the output has another shape, `memory` or `model` is not known, or the
            first argument is not a problem

    Example:
        >>> from constructive.kernels.spec import Spec
        >>> problem = Problem.build(Spec(queries=3, keys=5, head_dim=16))
        >>> examine(problem, problem.expected).passed
        True
    """
    if not isinstance(problem, Problem):
        raise ParameterError(
            f"a {type(problem).__name__} is not a problem",
            witness=type(problem).__name__,
            suggestion="check(problem, out) with a problem of `battery`",
        )
    if model is not None:
        kernel_model_named(model)
    if isinstance(memory, Paged):
        source: Memory | None = memory.pool
    else:
        if memory is not None and not isinstance(memory, Pool):
            place_named(memory)
        source = memory
    return Report(problem, arranged(problem, as_float64(out), layout), model, source)


def arranged(problem: Problem, out: Array, layout: str | None) -> Array:
    """Return an output in the layout (B, H, T_q, d_v)."""
    spec = problem.spec
    tokens = int(spec.rows().sum())
    shapes = {
        "BHTd": (spec.batch, spec.heads[0], spec.queries, spec.d_v),
        "BTHd": (spec.batch, spec.queries, spec.heads[0], spec.d_v),
        "packed": (tokens, spec.heads[0], spec.d_v),
    }
    if layout is not None:
        require_known("layout", layout, LAYOUTS)
    names = shapes if layout is None else (layout,)
    for name in names:
        if out.shape == shapes[name]:
            return np.asarray(from_layout(spec, out, name))
    raise ParameterError(
        f"the output has shape {out.shape}, not {' or '.join(str(shapes[name]) for name in names)}",
        witness=out.shape,
        suggestion="the output for all sequences, heads and queries",
    )
