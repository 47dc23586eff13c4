"""The same row has the same bits, whatever is computed beside it; and nothing else is written.

On problems this follows from the theorems (Corollary 26 in proofs/19-kernels.md). Two right
gradients of a shared row are within twice the slack of one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from constructive.kernels.backward import NAMES, Backward
from constructive.kernels.inputs import converted
from constructive.kernels.problem import Problem
from constructive.kernels.spec import as_float64, numpy_dtype
from constructive.support.arrays import Array, Integers, Tensor, first_place
from constructive.support.errors import require, require_known

Given = dict[str, Tensor]  # q, k, v and mask
Rows = Callable[[Tensor], Tensor]  # which rows of the first output another one has to equal
_TIMES = 3  # How often a kernel is called again
_EXACT = 2.0**-40  # Slack of log-sum-exps that are known bit for bit


def _along(
    axis: int, names: Iterable[str], index: "Callable[[int, np.random.Generator], Integers]"
) -> "Callable[[Given, np.random.Generator], tuple[Given, Rows]]":
    """Return a change of these arrays along an axis: what is left there, by its index."""

    def change(given: Given, random: "np.random.Generator") -> tuple[Given, Rows]:
        at = index(given["q"].shape[axis], random)
        found = {name: given[name].take(at, axis) for name in names}
        return given | found, lambda x: x.take(at, axis)

    return change


def _rolled(count: int, random: "np.random.Generator") -> Integers:
    return np.roll(np.arange(count), int(random.integers(1, max(2, count))))  # none stays


def _one(count: int, random: "np.random.Generator") -> Integers:
    return random.integers(count, size=1)


def _twice(count: int, _: "np.random.Generator") -> Integers:
    return np.concatenate([np.arange(count), np.arange(count)[::-1]])


_ALL, _OF_QUERIES = ("q", "k", "v", "mask"), ("q", "mask")
# What is changed beside a row.
CLAIMS: "dict[str, Callable[[Given, np.random.Generator], tuple[Given, Rows]]]" = {
    "again": lambda given, _: (given, lambda x: x),
    "order": _along(0, _ALL, _rolled),  # of sequences
    "alone": _along(0, _ALL, _one),  # one sequence
    "batch": _along(0, _ALL, _twice),
    "query": _along(2, _OF_QUERIES, _one),  # one alone
    "queries": _along(2, _OF_QUERIES, _twice),
}


@dataclass(frozen=True)
class Difference:
    """Rows that have other bits beside other things."""

    claim: str  # what was changed, a key of `CLAIMS`, and of which gradient
    rows: int  # how many rows differ
    first: tuple[int, ...]  # the first of them in the changed output: sequence, head, query

    def __str__(self) -> str:
        return f"{self.claim}: {self.rows} rows have other bits, the first one {self.first}"


def invariance(
    kernel: Callable[..., Tensor], problem: Problem | Backward, *,
    claims: Iterable[str] | None = None, workspace: int | None = None,
    library: str = "numpy", device: str = "cpu",
) -> tuple[Difference, ...]:  # fmt: skip
    """Return where a kernel returns other bits for the same row.

    Without `claims` the kernel gets the inputs of the problem, and rows are compared whose output
    is known bit for bit: every kernel of the model passes. With claims it gets random inputs of the
    same shapes, and all rows are compared. Calls alone are compared ("again") where the spec has a
    bias, which the kernel has for the whole problem, and of a backward pass: also the first call,
    which may be another program where kernels are tuned.

    Args:
        kernel: called with q, k, v and a boolean mask (B, H, T_q, T_k), all in the layout BHTd;
            returns the output, or the output and log-sum-exps; of a backward pass also with the
            output's gradient, and returns dq, dk and dv
        problem: shapes, masks and scale (which the kernel has to know), or a backward problem
        claims: what the kernel claims not to depend on, on any inputs: keys of `CLAIMS`
        workspace: how many numbers of float32 the kernel gets as its last argument: 0 in the first
            call, NaN in all others
        library: of the tensors: "numpy", "torch" or "jax"
        device: of torch and jax

    Raises:
        ParameterError: if there is no such claim

    Example:
        >>> from constructive.kernels.spec import Spec
        >>> def kernel(q, k, v, mask):
        ...     weights = np.exp(q @ k.swapaxes(-1, -2) / 8) * mask
        ...     return weights / weights.sum(-1, keepdims=True) @ v
        >>> invariance(kernel, Problem.build(Spec(queries=3, keys=9), "random"))
        ()
        >>> broken = lambda q, k, v, mask: kernel(q, k, v, mask) * len(q)
        >>> print(*invariance(broken, Problem.build(Spec(queries=3, keys=9), "random")))
        batch: 12 rows have other bits, the first one (0, 0, 0)
    """
    known = ("again",) if isinstance(problem, Backward) else tuple(CLAIMS)
    chosen = known if claims is None else tuple(claims)
    for claim in chosen:
        require_known("claim", claim, known)
    forward = problem.problem if isinstance(problem, Backward) else problem
    spec, random = forward.spec, np.random.default_rng((forward.spec.seed, 29))
    shape = (spec.batch, spec.heads[0], spec.queries)
    given: Given = {"q": forward.q, "k": forward.k, "v": forward.v}
    if claims is not None:
        given = {name: random.standard_normal(array.shape) for name, array in given.items()}
    given["mask"] = np.ascontiguousarray(np.broadcast_to(forward.visible, (*shape, spec.keys)))
    outputs = _called(kernel, spec.dtype, workspace, library, device)
    if isinstance(problem, Backward):
        given["d_out"] = problem.d_out
        return _of_gradients(problem, partial(outputs, given), exact=claims is not None)
    compared = _compared(problem, exact=claims is None)
    first, found = outputs(given, 0.0), list[Difference]()
    for claim in chosen:
        if forward.drawn is not None and claim != "again":
            continue  # the kernel has the bias of the whole problem
        for _ in range(_TIMES if claim == "again" else 1):
            inputs, rows = CLAIMS[claim](given, random)
            wrong = np.zeros(inputs["q"].shape[:3], dtype=np.bool_)
            for one, other, these in zip(first, outputs(inputs), compared, strict=False):
                same = (rows(one) == other) | (np.isnan(rows(one)) & np.isnan(other))
                wrong |= rows(these) & ~same.reshape(*wrong.shape, -1).all(-1)
            if wrong.any():
                at = first_place(wrong)
                found.append(Difference(claim, int(wrong.sum()), at))
    return tuple(found)


def _called(
    kernel: Callable[..., Tensor], dtype: str, workspace: int | None, library: str, device: str
) -> Callable[..., list[Array]]:
    """Return what calls a kernel with arrays of a library, and a workspace full of a number."""

    def outputs(inputs: Given, fill: float = np.nan) -> list[Array]:
        arrays = [
            converted(array, library, device, "bool" if name == "mask" else dtype)
            for name, array in inputs.items()
        ]
        if workspace is not None:
            arrays.append(converted(np.full(workspace, fill), library, device, "float32"))
        found = kernel(*arrays)
        return [as_float64(x) for x in (found if isinstance(found, tuple) else (found,))]

    return outputs


def _of_gradients(
    backward: Backward, called: Callable[..., list[Array]], *, exact: bool
) -> tuple[Difference, ...]:
    """Return calls whose gradients differ from those of the first by more than right ones may."""
    first, found = called(0.0), []
    for _ in range(_TIMES):
        for name, one, other in zip(NAMES, first, called(), strict=False):
            near = 0.0 if exact else 2.0 * backward.slack[name]
            with np.errstate(invalid="ignore"):
                wrong = np.asarray(~(np.abs(one - other) <= near).all(-1))
            if wrong.any():
                found.append(Difference(f"again, {name}", int(wrong.sum()), first_place(wrong)))
    return tuple(found)


def _compared(problem: Problem, *, exact: bool) -> tuple[npt.NDArray[np.bool_], ...]:
    """Return which rows of outputs are compared, and of log-sum-exps."""
    answer = problem.answer
    if not exact:
        rows = np.broadcast_to(problem.spec.rows()[:, None], answer.checked.shape)
        return rows, rows
    known = answer.checked & (answer.slack == 0.0).all(-1)
    return known, answer.checked & (problem.lse.slack < _EXACT)


# -0 and a signalling NaN of each format: adding 0 changes the bits of these alone.
_CANARIES: dict[str, Tensor] = {
    "float32": np.array([0x80000000, 0x7FA0DEAD], np.uint32),
    "float16": np.array([0x8000, 0x7D5A], np.uint16),
    "bfloat16": np.array([0x8000, 0x7FA5], np.uint16),
}


class Guarded:
    """An output inside a larger array whose other numbers no kernel may write.

    Attributes:
        array: the output that a kernel is to write, an array or a tensor

    Args:
        shape: of the output
        dtype: "float32", "float16" or "bfloat16"
        library: "numpy" or "torch"
        device: of torch
        around: numbers before and behind the output

    Raises:
        ParameterError: for another format or library

    Example:
        >>> guarded = Guarded((2, 3))
        >>> guarded.array[:] = 1.0
        >>> guarded.outside
        ()
        >>> guarded.array.base[guarded.around - 2] += 0.0  # as an index -1 does
        >>> guarded.outside
        (-2,)
    """

    def __init__(
        self, shape: tuple[int, ...], *, dtype: str = "float32", library: str = "numpy",
        device: str = "cpu", around: int = 1024,
    ) -> None:  # fmt: skip
        require_known("dtype", dtype, _CANARIES)
        require_known("library", library, ("numpy", "torch"))
        self.around, self.size = around, int(np.prod(shape))
        self._fresh = np.resize(_CANARIES[dtype], self.size + 2 * around)
        if library == "numpy":
            whole: Tensor = self._fresh.view(numpy_dtype(dtype)).copy()
        else:
            torch = require("torch", extra="torch", purpose="tensors of torch")
            signed = self._fresh.view(f"int{8 * self._fresh.itemsize}").copy()
            whole = torch.from_numpy(signed).to(device).view(getattr(torch, dtype))
        self._whole = whole
        self.array = whole[around : around + self.size].reshape(shape)

    def _changed(self) -> npt.NDArray[np.bool_]:
        whole, bits = self._whole, self._fresh.dtype
        if not isinstance(whole, np.ndarray):
            import torch  # noqa: PLC0415 - an extra

            kinds = {2: torch.int16, 4: torch.int32}
            whole = whole.view(kinds[bits.itemsize]).cpu().numpy()
        return np.asarray(whole.view(bits) != self._fresh)

    @property
    def outside(self) -> tuple[int, ...]:
        """Where something was written outside: numbers from the start of the output on."""
        at = np.flatnonzero(self._changed()) - self.around
        return tuple(int(i) for i in at if not 0 <= i < self.size)
