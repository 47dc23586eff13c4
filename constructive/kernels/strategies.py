"""Hypothesis strategies for specs and problems of attention kernels, valid by construction.

A kernel that fails is shown the smallest shape, the fewest masks and the plainest case at which it
does. `constructive.strategies` has the same names.
"""

from typing import Any

from constructive.kernels.cases import CASES
from constructive.kernels.masks import (
    Boolean,
    Causal,
    LeftPadding,
    Mask,
    Prefix,
    RightPadding,
    Window,
)
from constructive.kernels.problem import Problem, attempt
from constructive.kernels.spec import Spec
from constructive.support.errors import MissingExtraError, ParameterError, hint

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise MissingExtraError(
        "constructive.kernels.strategies needs hypothesis, which is not installed",
        witness="hypothesis",
        suggestion=hint("strategies"),
    ) from error

_WIDTHS = (16, 24, 32, 40, 64)
_MOST_KEYS = 200  # With heads of 16 coordinates: 4^4 numbers of keys
_KINDS = ("causal", "window", "left padding", "right padding", "prefix", "boolean")


@st.composite
def specs(
    draw: st.DrawFn, /, *, max_batch: int = 3, max_heads: int = 4, max_queries: int = 40,
    max_keys: int = 40, masks: tuple[str, ...] = _KINDS, dtypes: tuple[str, ...] = ("float32",),
    **fixed: Any,  # noqa: ANN401
) -> Spec:  # fmt: skip
    """Specs of small problems."""
    unknown = [name for name in masks if name not in _KINDS]
    if unknown or max_keys > _MOST_KEYS:
        raise ParameterError(
            f"masks={masks}, max_keys={max_keys} are not possible",
            witness=unknown or max_keys,
            suggestion=f"of {', '.join(_KINDS)}; at most {_MOST_KEYS} keys",
        )
    kv_heads = draw(st.integers(1, max_heads))
    group = draw(st.integers(1, max_heads // kv_heads))
    batch = draw(st.integers(1, max_batch))
    keys = draw(st.integers(1, max_keys))
    kind = draw(st.sampled_from(("", *masks)))
    given: dict[str, Any] = {
        "batch": batch,
        "heads": (kv_heads * group, kv_heads),
        "queries": draw(st.integers(1, max_queries)),
        "keys": keys,
        "head_dim": draw(st.sampled_from(_WIDTHS)),
        "value_dim": draw(st.sampled_from((None, *_WIDTHS))),
        "masks": draw(_masks(kind, batch, keys)),
        "dtype": draw(st.sampled_from(dtypes)),
        "seed": draw(st.integers(0, 99)),
    }
    return Spec(**given | fixed)


@st.composite
def _masks(draw: st.DrawFn, kind: str, batch: int, keys: int) -> tuple[Mask, ...]:
    alignment = st.sampled_from(("top-left", "bottom-right"))
    numbers = st.tuples(*(st.integers(0, keys) for _ in range(batch)))
    kinds: dict[str, st.SearchStrategy[Mask]] = {
        "causal": st.builds(Causal, alignment),
        "window": st.builds(
            Window, st.integers(0, keys), st.none() | st.integers(0, keys), alignment
        ),
        "left padding": st.builds(LeftPadding, numbers),
        "right padding": st.builds(RightPadding, numbers),
        "prefix": st.builds(Prefix, numbers, alignment),
        "boolean": st.builds(Boolean, st.booleans(), seed=st.integers(0, 9)),
    }
    return (draw(kinds[kind]),) if kind else ()


@st.composite
def problems(
    draw: st.DrawFn,
    of: st.SearchStrategy[Spec] | None = None,
    *,
    cases: tuple[str, ...] | None = None,
) -> Problem:
    """Problems of specs.

    Example:
        >>> from hypothesis import given
        >>> from constructive.kernels import check
        >>> @given(problems(specs(max_keys=9)))
        ... def test_my_kernel(problem):
        ...     check(problem, problem.expected)
        >>> test_my_kernel()
    """
    spec = draw(specs() if of is None else of)
    names = tuple(CASES) if cases is None else cases
    possible = [name for name in names if CASES[name].refuses(spec) is None]
    while possible:
        case = draw(st.sampled_from(possible))
        found = attempt(spec, case)
        if isinstance(found, Problem):
            return found
        possible.remove(case)  # the format lacks its numbers
    raise ParameterError(
        "no case applies to a spec that was drawn",
        witness=str(spec),
        suggestion="cases=None, or other fields of specs",
    )
