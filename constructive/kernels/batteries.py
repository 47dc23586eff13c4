"""Problems that together find what can go wrong: shapes, and the cases each shape needs."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from constructive.kernels.cases import CASES
from constructive.kernels.masks import Alignment, Causal, Mask, Window
from constructive.kernels.problem import Problem
from constructive.kernels.spec import FullyMasked, Spec
from constructive.kernels.suite import SIZES
from constructive.support.arguments import is_integer, require_known, require_pair
from constructive.support.errors import ParameterError

# Cases that are drawn again, until all hidden keys are guarded.
_MORE = ("last", "first", "random", "ties", "uniform")
MOST_DRAWS, STEP = 8, 1000  # How often cases are drawn, and how far seeds of draws are apart


def battery(
    *,
    batch: int = 2,
    heads: tuple[int, int] = (4, 2),
    queries: int | None = None,
    keys: int | None = None,
    head_dim: int = 64,
    value_dim: int | None = None,
    causal: Alignment | None = None,
    window: tuple[int | None, int | None] | None = None,
    masks: Iterable[Mask] = (),
    scale: float | None = None,
    soft_cap: float | None = None,
    sink: bool = False,
    alibi: bool = False,
    dtype: str = "float32",
    fully_masked: FullyMasked = "zeros",
    shared: bool = False,
    cases: Iterable[str] | None = None,
    seed: int = 0,
) -> Iterator[Problem]:
    """Yield problems for a kernel, until every hidden key of every shape is guarded by one of them.

    Cases that do not apply to a shape are left out, and so are shapes to which no case applies:
    numbers of keys need digits, and values codes. A head_dim of 16 has all cases but those of large
    formats, one of 8 has `uniform` alone, and one of 4 that for the fewest keys.

    Args:
        batch: number of sequences
        heads: query heads and KV heads
        queries: queries of a sequence; several shapes where neither this nor `keys` is said
        keys: keys of a sequence; as many as queries by default
        head_dim: entries of a query and a key
        value_dim: entries of a value
        causal: "top-left", "bottom-right" or None
        window: keys before and after the diagonal, None for all
        masks: more masks, of `constructive.kernels.masks`
        scale: factor of logits
        soft_cap: of logits
        sink: whether heads have sinks
        alibi: whether heads have slopes
        dtype: a key of `formats.DTYPES`
        fully_masked: what a row without a visible key is: "zeros", "nan" or "mean"
        shared: whether all sequences share keys and values
        cases: names of cases; all that apply by default
        seed: of all that is drawn

    Yields:
        problems; those of one shape follow each other

    Raises:
        ParameterError: for arguments that make no sense, or if no case applies

    Example:
        >>> problems = list(battery(causal="top-left", queries=40, keys=40, dtype="bfloat16"))
        >>> len(problems) >= 8, union(problems)
        (True, 1.0)
    """
    every: list[Mask] = [] if causal is None else [Causal(causal)]
    if window is not None:
        _require_window(window)
        every.append(Window(*window, alignment=causal or "bottom-right"))
    every.extend(_masks(masks))
    shapes: tuple[tuple[int, int], ...] = SIZES
    if queries is not None:
        shapes = ((queries, queries if keys is None else keys),)
    elif keys is not None:
        shapes = ((keys, keys),)
    found = False
    for rows, columns in shapes:
        spec = Spec(
            batch=batch, heads=heads, queries=rows, keys=columns, head_dim=head_dim,
            value_dim=value_dim, masks=tuple(every), scale=scale, soft_cap=soft_cap, sink=sink,
            alibi=alibi, dtype=dtype, fully_masked=fully_masked, shared=shared, seed=seed,
        )  # fmt: skip
        for problem in problems(spec, cases=cases):
            found = True
            yield problem
    if not found:
        raise ParameterError(
            "no case applies to these arguments",
            witness=str(spec),
            suggestion="another soft_cap, head_dim or cases",
        )


def _require_window(window: object) -> None:
    suggestion = "(127, 0), or (None, 0) for all keys before"
    require_pair("window", window, suggestion)
    if not all(each is None or (is_integer(each) and each >= 0) for each in window):  # type: ignore[attr-defined] # a pair
        raise ParameterError(
            f"window={window!r} is not a pair of numbers of keys, or None",
            witness=window,
            suggestion=suggestion,
        )


def _masks(given: object) -> list[Mask]:
    """Return masks, or raise for what is not several of them."""
    several: list[object] = list(given) if isinstance(given, Iterable) else []
    found = [mask for mask in several if isinstance(mask, Mask)]
    if not isinstance(given, Iterable) or len(found) < len(several):
        raise ParameterError(
            "masks are not a list of masks",
            witness=type(given).__name__,
            suggestion="[Given(array)] for an array, [mask] for one of kernels.masks",
        )
    return found


def problems(spec: Spec, *, cases: Iterable[str] | None = None) -> Iterator[Problem]:
    """Yield the problems of one spec: each case, and more draws until every hidden key is guarded.

    Args:
        spec: shapes, masks and options
        cases: names of cases; all that apply by default

    Yields:
        problems that differ in case and seed

    Raises:
        ParameterError: if there is no such case

    Example:
        >>> [problem.case for problem in problems(Spec(queries=5, keys=9), cases=["last", "ties"])]
        ['last', 'ties']
    """
    names = (cases,) if isinstance(cases, str) else cases
    chosen = tuple(CASES) if names is None else tuple(names)
    for case in chosen:
        require_known("case", case, CASES)
    open_keys = None
    for draw in range(MOST_DRAWS):
        drawn = replace(spec, seed=spec.seed + STEP * draw)
        for case in chosen if draw == 0 else [name for name in chosen if name in _MORE]:
            try:
                problem = Problem.build(drawn, case)
            except ParameterError:  # the case does not apply
                continue
            if not problem.answer.checked.any():
                continue
            hidden = problem.hidden if open_keys is None else open_keys
            left = hidden & ~problem.answer.guards
            if draw and left.sum() == hidden.sum():
                continue
            open_keys = left
            problem.verify()
            yield problem
        if open_keys is None or not open_keys.any():
            return


def union(found: Iterable[Problem]) -> float:
    """Return the share of hidden keys that one of the problems guards; all must be of one shape.

    Args:
        found: problems of one spec

    Example:
        >>> union(problems(Spec(queries=20, keys=20), cases=["last"]))
        1.0
    """
    hidden: Any = None
    left: Any = None
    for problem in found:
        hidden = problem.hidden if hidden is None else hidden
        left = (hidden if left is None else left) & ~problem.answer.guards
    if hidden is None or not hidden.any():
        return 1.0
    return float(1.0 - np.count_nonzero(left) / np.count_nonzero(hidden))
