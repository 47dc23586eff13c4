"""Problems that together find what can go wrong: shapes, and the cases each shape needs."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import get_args

import numpy as np

from constructive.kernels.cases import CASES
from constructive.kernels.masks import (
    Alignment,
    Boolean,
    Causal,
    LeftPadding,
    Mask,
    Prefix,
    RightPadding,
    VariableLengths,
    Window,
    require_masks,
)  # fmt: skip
from constructive.kernels.problem import Problem, attempt
from constructive.kernels.spec import FullyMasked, Spec
from constructive.support.arguments import require_known, require_pair, require_positive
from constructive.support.arrays import Booleans
from constructive.support.errors import ParameterError

# The shapes that are tried where none are said.
#
# A command knows nothing of the library that it runs, and tries all of them, with their masks and
# heads. `battery` knows heads, masks and formats of the kernel, and tries them at sizes of
# `DRAWN`.


TOP, BOTTOM = Causal("top-left"), Causal("bottom-right")
_large = partial(Spec, queries=65, keys=65, heads=(8, 2))
_small = partial(Spec, queries=40, head_dim=32)

# By the names of `constructive kernels run --shape`, in float32. What a library does not have, its
# adapter refuses.
SUITE: dict[str, Spec] = {
    "plain": Spec(queries=77, keys=77),
    "one query": Spec(queries=1, keys=130),
    "cross, d_v != d": Spec(queries=37, keys=150, value_dim=32),
    "tiny": Spec(queries=3, keys=5, head_dim=16),
    "whole blocks": Spec(queries=256, keys=256),
    "grouped heads": _small(heads=(6, 2), keys=90),
    "one KV head": _small(batch=3, heads=(4, 1), keys=70),
    "shared keys": _small(batch=3, shared=True, keys=50),
    "scale": Spec(queries=30, keys=60, scale=0.25),
    "causal": Spec(queries=130, keys=130, masks=(TOP,)),
    "causal, grouped": _large(batch=2, masks=(TOP,)),
    "causal, more keys": Spec(queries=40, keys=233, masks=(BOTTOM,)),
    "causal, more keys, top-left": Spec(queries=40, keys=233, masks=(TOP,)),
    "causal, fewer keys": Spec(queries=110, keys=71, masks=(BOTTOM,)),
    "causal, fewer keys, top-left": Spec(queries=110, keys=71, masks=(TOP,)),
    "decode": Spec(batch=2, heads=(8, 2), queries=1, keys=300, masks=(BOTTOM,)),
    "decode, unequal": Spec(
        batch=3, heads=(4, 2), queries=2, keys=90, masks=(BOTTOM, RightPadding((90, 31, 2)))
    ),
    "window": Spec(queries=140, keys=140, masks=(TOP, Window(32, 0, "top-left"))),
    "window, more keys": Spec(queries=50, keys=110, masks=(BOTTOM, Window(20, 0))),
    "window, both sides": Spec(queries=90, keys=90, masks=(Window(9, 5, "top-left"),)),
    "right padding": Spec(batch=3, queries=48, keys=48, masks=(RightPadding((48, 17, 1)),)),
    "right padding, causal": Spec(
        batch=3, queries=48, keys=48, masks=(TOP, RightPadding((48, 17, 1)))
    ),
    "left padding": Spec(batch=2, queries=48, keys=48, masks=(LeftPadding((0, 29)),)),
    "variable lengths": Spec(
        batch=3, queries=40, keys=50, masks=(VariableLengths((40, 7, 1), (50, 20, 3)),)
    ),
    "variable lengths, causal": Spec(
        batch=3, queries=40, keys=50, masks=(BOTTOM, VariableLengths((40, 7, 1), (50, 20, 3)))
    ),
    "prefix": Spec(batch=2, queries=60, keys=60, masks=(Prefix((20, 1)),)),
    "boolean mask": Spec(batch=2, queries=70, keys=90, masks=(Boolean(),)),
    "boolean mask per head": Spec(queries=40, keys=60, masks=(Boolean(per_head=True),)),
    "additive mask": Spec(queries=40, keys=60, masks=(Boolean(additive=True),)),
    "rows without keys": Spec(queries=40, keys=60, masks=(Boolean(empty=True),)),
    "long": Spec(heads=(1, 1), queries=16, keys=2000, head_dim=128),
    "odd width": Spec(queries=50, keys=50, head_dim=80, masks=(TOP,)),
    "width 72": Spec(queries=33, keys=129, head_dim=72, value_dim=40),
    "soft cap": Spec(queries=60, keys=60, soft_cap=50.0, masks=(TOP,)),
    "sink": Spec(queries=60, keys=60, sink=True, masks=(TOP,)),
    "ALiBi": Spec(heads=(4, 4), queries=60, keys=60, alibi=True, masks=(TOP,)),
}

# Squares, a decoding step, more keys, fewer keys, and values of another width. Neither sizes nor
# their differences are multiples of the blocks of kernels, but for the last.
DRAWN = (
    "plain", "one query", "cross, d_v != d", "causal", "causal, more keys", "causal, fewer keys",
    "whole blocks",
)  # fmt: skip

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
    lengths: bool = False,
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
        value_dim: entries of a value; by default as many as `head_dim`, and half as many in one of
            the shapes that are tried where neither `queries` nor `keys` is said
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
        lengths: whether sequences have several numbers of keys, 0 among them; the others are right
            padding
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
    require_positive(head_dim=head_dim)
    every: list[Mask] = []
    if causal is not None:
        require_known("causal", causal, get_args(Alignment))
        every.append(Causal(causal))
    if window is not None:
        require_pair("window", window, "(127, 0), or (None, 0) for all keys before")
        every.append(Window(*window, alignment=causal or "bottom-right"))
    every.extend(require_masks(masks))
    chosen = _known(cases)
    found = False
    for turn, (rows, columns, width) in enumerate(_shapes(queries, keys, head_dim, every)):
        spec = Spec(
            batch=batch, heads=heads, queries=rows, keys=columns, head_dim=head_dim,
            value_dim=width if value_dim is None else value_dim, masks=tuple(every), scale=scale,
            soft_cap=soft_cap, sink=sink, alibi=alibi, dtype=dtype, fully_masked=fully_masked,
            shared=shared, seed=seed,
        )  # fmt: skip
        if lengths:
            spec = replace(spec, masks=(*every, RightPadding(_lengths(batch, columns, turn))))
        for problem in problems(spec, cases=chosen):
            found = True
            yield problem
    if not found:
        raise ParameterError(
            f"no case applies to these arguments: {_reasons(spec, chosen)}",
            witness=str(spec),
            suggestion="cases=None for all that apply; most do with head_dim=64, soft_cap=None",
        )


def _known(cases: Iterable[str] | None) -> tuple[str, ...]:
    """Return names of cases, or raise for what is not one."""
    if cases is None:
        return tuple(CASES)
    chosen = (cases,) if isinstance(cases, str) else tuple(cases)
    for case in chosen:
        require_known("case", case, CASES)
    if not chosen:
        raise ParameterError(
            "cases names no case", witness=(), suggestion="cases=None for all that apply"
        )
    return chosen


def _shapes(
    queries: int | None, keys: int | None, head_dim: int, masks: list[Mask]
) -> list[tuple[int, int, int | None]]:
    """Return queries, keys and entries of a value of all shapes: those that are said, or several.

    None stands for as many entries as a key has.
    """
    if queries is not None:
        return [(queries, queries if keys is None else keys, None)]
    if keys is not None:
        return [(keys, keys, None)]
    for mask in masks:
        if mask.has_sizes:
            raise ParameterError(
                f"{mask} is for one number of queries and keys, and several are tried by default",
                witness=str(mask),
                suggestion="queries= and keys= of your tensors, beside masks=",
            )
    drawn = [SUITE[name] for name in DRAWN]
    half = max(1, head_dim // 2)
    return [
        (spec.queries, spec.keys, None if spec.d_v == spec.head_dim else half) for spec in drawn
    ]


def _lengths(batch: int, keys: int, turn: int) -> tuple[int, ...]:
    """Return keys of each sequence: a part, none and all, from another one on in each shape."""
    every = (1 + keys // 3, 0, keys)
    return tuple(every[(turn + sequence) % len(every)] for sequence in range(batch))


def _reasons(spec: Spec, cases: Iterable[str]) -> str:
    """Return why cases do not apply to a spec."""
    found: dict[str, list[str]] = {}
    for case in cases:
        reason = attempt(spec, case)
        said = reason if isinstance(reason, str) else "no row has an answer"
        found.setdefault(said, []).append(case)
    return "; ".join(f"{reason} ({', '.join(names)})" for reason, names in found.items())


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
    chosen = _known(cases)
    open_keys = None
    for draw in range(MOST_DRAWS):
        drawn = replace(spec, seed=spec.seed + STEP * draw)
        for case in chosen if draw == 0 else [name for name in chosen if name in _MORE]:
            problem = attempt(drawn, case)
            if isinstance(problem, str) or not problem.answer.checked.any():
                continue  # the case does not apply
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
    """Return the share of hidden keys that one of the problems of their shape guards.

    Args:
        found: problems, of one shape or of several

    Example:
        >>> union(problems(Spec(queries=20, keys=20), cases=["last"]))
        1.0
    """
    left: dict[Spec, tuple[int, Booleans]] = {}
    for problem in found:
        spec, hidden = replace(problem.spec, seed=0), problem.hidden
        count, unguarded = left.get(spec, (int(hidden.sum()), hidden))
        left[spec] = count, unguarded & ~problem.answer.guards
    total = sum(count for count, _ in left.values())
    missed = sum(np.count_nonzero(keys) for _, keys in left.values())
    return float(1.0 - missed / total) if total else 1.0
