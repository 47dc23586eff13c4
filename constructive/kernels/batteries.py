"""Problems that together find what can go wrong: shapes, and the cases each shape needs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, get_args

import numpy as np

from constructive.kernels.cases import CASES
from constructive.kernels.masks import (
    Alignment,
    Boolean,
    Causal,
    Chunked,
    LeftPadding,
    Mask,
    Prefix,
    RightPadding,
    VariableLengths,
    Window,
    require_masks,
)  # fmt: skip
from constructive.kernels.problem import Problem, attempt
from constructive.kernels.spec import TAKES, Bias, FullyMasked, Spec, needs
from constructive.support.arrays import Booleans
from constructive.support.errors import ParameterError, require_known, require_pair

# The shapes that are tried where none are said, by the names of `constructive kernels run --shape`.
#
# Sizes are neither multiples of the blocks of kernels nor off by a multiple, but for those that say
# so. A shape with a mask or an option is for kernels that take it (`Spec.lacks`); what a library
# does not have in combination, its adapter refuses.


TOP, BOTTOM = Causal("top-left"), Causal("bottom-right")
_two = partial(Spec, batch=2, heads=(4, 2))
_four = partial(Spec, batch=4, heads=(4, 2))
_BLOCKS = (129, 65, 64, 0, 1)  # tokens of sequences
_PAGES = (64, 17, 0, 32)  # keys of sequences: whole pages, a part of one, none

SUITE: dict[str, Spec] = {
    "tiny": Spec(queries=3, keys=5, head_dim=16),
    "plain": _two(queries=77, keys=77),
    "one query": Spec(batch=2, heads=(8, 2), queries=1, keys=130),
    "whole pages": Spec(batch=2, heads=(8, 2), queries=1, keys=256),
    "cross, d_v != d": Spec(queries=37, keys=150, value_dim=32),
    "grouped heads": Spec(heads=(6, 2), queries=40, keys=90, head_dim=32),
    "one KV head": Spec(batch=3, heads=(4, 1), queries=40, keys=70, head_dim=32),
    "width 80": _two(queries=50, keys=50, head_dim=80),
    "width 72": Spec(queries=33, keys=129, head_dim=72, value_dim=40),
    "more keys": _two(queries=100, keys=333),
    "fewer keys": _two(queries=200, keys=70),
    "whole blocks": Spec(queries=256, keys=256),
    "long": Spec(heads=(1, 1), queries=16, keys=2000, head_dim=128),
    "scale": Spec(queries=30, keys=60, scale=0.25),
    "causal": Spec(queries=130, keys=130, masks=(TOP,)),
    "causal, grouped": Spec(batch=2, heads=(8, 2), queries=65, keys=65, masks=(TOP,)),
    "causal, more keys": Spec(queries=100, keys=333, masks=(BOTTOM,)),
    "causal, more keys, top-left": Spec(queries=40, keys=233, masks=(TOP,)),
    "causal, fewer keys": Spec(queries=200, keys=70, masks=(BOTTOM,)),
    "causal, fewer keys, top-left": Spec(queries=110, keys=71, masks=(TOP,)),
    "decode": Spec(batch=2, heads=(8, 2), queries=1, keys=300, masks=(BOTTOM,)),
    "decode, unequal": Spec(
        batch=3, heads=(4, 2), queries=2, keys=90, masks=(BOTTOM, RightPadding((90, 31, 2)))
    ),
    "decode, pages": _four(queries=1, keys=64, masks=(RightPadding(_PAGES),)),
    "window": Spec(queries=140, keys=140, masks=(TOP, Window(32, 0, "top-left"))),
    "window, more keys": Spec(queries=50, keys=110, masks=(BOTTOM, Window(20, 0))),
    "window, decode": _two(queries=1, keys=333, masks=(BOTTOM, Window(127, 0))),
    "window, wide": _two(queries=60, keys=90, masks=(BOTTOM, Window(127, 0))),
    "window, both sides": Spec(queries=90, keys=90, masks=(Window(9, 5, "top-left"),)),
    "right padding": _four(queries=48, keys=64, masks=(RightPadding(_PAGES),)),
    "right padding, causal": Spec(
        batch=3, queries=48, keys=48, masks=(TOP, RightPadding((48, 17, 1)))
    ),
    "left padding": Spec(batch=2, queries=48, keys=48, masks=(LeftPadding((0, 29)),)),
    "left padding, causal": Spec(
        batch=3, queries=100, keys=100, masks=(TOP, LeftPadding((0, 29, 64)))
    ),
    "variable lengths": Spec(
        batch=3, queries=40, keys=50, masks=(VariableLengths((40, 7, 1), (50, 20, 3)),)
    ),
    "variable lengths, causal": Spec(
        batch=3, queries=40, keys=50, masks=(BOTTOM, VariableLengths((40, 7, 1), (50, 20, 3)))
    ),
    "variable lengths, ends of blocks": Spec(
        batch=5, heads=(1, 1), queries=129, keys=129, masks=(VariableLengths(_BLOCKS, _BLOCKS),)
    ),
    "variable lengths, none": _four(
        queries=65, keys=64, masks=(VariableLengths((65, 0, 17, 0), (64, 17, 0, 0)),)
    ),
    "variable lengths, more sequences than tokens": Spec(
        batch=6,
        queries=3,
        keys=66,
        masks=(VariableLengths((3, 0, 0, 1, 0, 0), (66, 0, 0, 33, 0, 0)),),
    ),
    "few queries": Spec(queries=3, keys=60),
    "chunks": _two(queries=70, keys=70, masks=(Chunked(16),)),
    "chunks, more keys": _two(queries=20, keys=75, masks=(Chunked(32),)),
    "prefix": Spec(batch=2, queries=60, keys=60, masks=(Prefix((20, 1)),)),
    "boolean mask": Spec(batch=2, queries=70, keys=90, masks=(Boolean(),)),
    "boolean mask per head": Spec(queries=40, keys=60, masks=(Boolean(per_head=True),)),
    "rows without keys": Spec(queries=40, keys=60, masks=(Boolean(empty=True),)),
    "additive mask": Spec(batch=2, queries=40, keys=60, masks=(Boolean(additive=True),)),
    "bias": _two(queries=20, keys=50, bias="bhij"),
    "bias of sequences": _two(queries=33, keys=33, bias="bij"),
    "bias of heads": _two(queries=40, keys=70, bias="hij", masks=(BOTTOM,)),
    "bias of keys": Spec(batch=3, queries=3, keys=60, bias="bj"),
    "soft cap": Spec(queries=60, keys=90, soft_cap=50.0),
    "soft cap, causal": Spec(queries=60, keys=60, soft_cap=50.0, masks=(TOP,)),
    "sink": Spec(queries=60, keys=90, sink=True),
    "sink, causal": Spec(queries=60, keys=60, sink=True, masks=(TOP,)),
    "sink, decode": _two(queries=1, keys=300, sink=True),
    "sink, window": _two(queries=60, keys=110, sink=True, masks=(BOTTOM, Window(20, 0))),
    "ALiBi": Spec(heads=(4, 4), queries=60, keys=60, alibi=True),
    "ALiBi, causal": Spec(heads=(4, 4), queries=60, keys=60, alibi=True, masks=(TOP,)),
    "ALiBi, more keys": Spec(heads=(4, 4), queries=40, keys=100, alibi=True, masks=(BOTTOM,)),
}

# Cases that are drawn again, until all hidden keys are guarded.
_MORE = ("last", "first", "random", "ties", "uniform")
MOST_DRAWS, STEP = 8, 1000  # How often cases are drawn, and how far seeds of draws are apart
# What is a boolean mask
_MASKS = {
    "top-left", "bottom-right", "window", "lengths", "left padding", "variable lengths", "prefix",
    "chunked",
}  # fmt: skip
# Fields of masks that have a number for each sequence, and the size that it is a part of
_NUMBERS = {"lengths": "keys", "starts": "keys", "keys": "keys", "queries": "queries"}


@dataclass(frozen=True, eq=False, repr=False)
class Battery:
    """Problems for a kernel, made as they are asked for; as text, what is on and what is off."""

    shapes: Mapping[str, Spec]  # shapes, masks and options by name, the smallest first
    cases: tuple[str, ...]  # names of cases
    takes: frozenset[str]  # what the kernel was said to have or take, keys of `spec.TAKES`
    why_off: str = "nobody said that the kernel takes it"

    def __iter__(self) -> Iterator[Problem]:
        found = False
        for spec in self.shapes.values():
            for problem in problems(spec, cases=self.cases):
                found = True
                yield problem
        if not found:
            raise ParameterError(
                f"no case applies to these arguments: {_reasons(spec, self.cases)}",
                witness=str(spec),
                suggestion="cases=None for all that apply; most do with head_dim=64, soft_cap=None",
            )

    def __repr__(self) -> str:
        return f"<battery of {len(self.shapes)} shapes: {', '.join(self.cases)}>"

    def __str__(self) -> str:
        implied = {"ALiBi"} if "bias" in self.takes else set()
        implied |= _MASKS if "mask" in self.takes else set()
        implied |= {"lengths"} if "variable lengths" in self.takes else set()
        on = [name for name in TAKES if name in self.takes | implied]
        off = [name for name in TAKES if name not in on]
        lines = [f"{len(self.shapes)} shapes: {'; '.join(self.shapes)}"]
        lines += [f"on: {', '.join(on)}"] if on else []
        lines += [f"off, as {self.why_off}: {', '.join(off)}"] if off else []
        return "\n".join(lines)


def battery(
    *,
    batch: int | None = None,
    heads: tuple[int, int] | None = None,
    queries: int | None = None,
    keys: int | None = None,
    head_dim: int | None = None,
    value_dim: int | None = None,
    causal: Alignment | None = None,
    window: tuple[int | None, int | None] | None = None,
    masks: Iterable[Mask] = (),
    scale: float | None = None,
    soft_cap: float | None = None,
    sink: bool = False,
    alibi: bool = False,
    bias: Bias | None = None,
    dtype: str = "float32",
    fully_masked: FullyMasked = "zeros",
    takes: Iterable[str] = (),
    cases: Iterable[str] | None = None,
    seed: int = 0,
) -> Battery:
    """Return problems for a kernel: awkward shapes, until every hidden key of each is guarded.

    What you say is so in every shape. What you do not say differs from shape to shape: numbers of
    heads, widths, sizes. Masks and options are tried if your kernel `takes` them. Shapes come small
    ones first; `print` says what is on. Cases that do not apply to a shape are left out, and so are
    shapes to which no case applies: numbers of keys need digits, and values codes. A head_dim of 16
    has all cases but those of large formats, one of 8 has `uniform` alone, and one of 4 that for
    the fewest keys.

    Args:
        batch: number of sequences
        heads: query heads and KV heads
        queries: queries of a sequence; with `keys` the one size of all shapes
        keys: keys of a sequence; as many as queries by default
        head_dim: entries of a query and a key
        value_dim: entries of a value; in some shapes not as many as `head_dim` by default
        causal: "top-left", "bottom-right" or None
        window: keys before and after the diagonal, None for all
        masks: more masks, of `constructive.kernels.masks`
        scale: factor of logits
        soft_cap: of logits
        sink: whether heads have sinks
        alibi: whether heads have slopes
        bias: which axes a bias has, as of `Spec`
        dtype: a key of `formats.DTYPES`
        fully_masked: what a row without a visible key is: "zeros", "nan" or "mean"
        takes: what the kernel is given with each problem, names of `constructive.kernels.TAKES`
            such as "mask", "window", "lengths" and "soft cap"; shapes that need no more are tried
        cases: names of cases; all that apply by default
        seed: of all that is drawn

    Returns:
        an iterable of problems; those of one shape follow each other

    Raises:
        ParameterError: for arguments that make no sense, or in the loop if no case applies

    Example:
        >>> found = battery(causal="top-left", queries=40, keys=40, dtype="bfloat16")
        >>> len(list(found)) >= 8, union(found)
        (True, 1.0)
        >>> print(battery(takes=["scale"]))
        15 shapes: tiny; few queries; one query; scale; ...
        on: scale
        off, as nobody said that the kernel takes it: mask, ...
    """
    sizes = {
        "batch": batch, "heads": heads, "queries": queries, "keys": keys, "head_dim": head_dim,
        "value_dim": value_dim, "scale": scale, "soft_cap": soft_cap,
        "sink": sink or None, "alibi": alibi or None, "bias": bias,
    }  # fmt: skip
    given: dict[str, Any] = {name: value for name, value in sizes.items() if value is not None}
    every: list[Mask] = []
    if causal is not None:
        require_known("causal", causal, get_args(Alignment))
        every.append(Causal(causal))
    if window is not None:
        require_pair("window", window, "(127, 0), or (None, 0) for all keys before")
        every.append(Window(*window, alignment=causal or "bottom-right"))
    every.extend(require_masks(masks))
    asked = frozenset((takes,) if isinstance(takes, str) else takes)
    for name in asked:
        require_known("takes", name, TAKES)
    is_sized = "queries" in given or "keys" in given
    if is_sized:
        size = {"queries": given.get("keys"), "keys": given.get("queries")}
        given = {"batch": 2, "heads": (4, 2), "head_dim": 64, "value_dim": None} | size | given
    for mask in every:
        if mask.has_sizes and not is_sized:
            raise ParameterError(
                f"{mask} is for one number of queries and keys, and several are tried by default",
                witness=str(mask),
                suggestion="queries= and keys= of your tensors, beside masks=",
            )
    said = {
        causal: causal, "window": window, "scale": scale, "soft cap": soft_cap, "sink": sink,
        "ALiBi": alibi, "bias": bias,
    }  # fmt: skip
    asked |= {str(name) for name, value in said.items() if value}
    given |= {"dtype": dtype, "fully_masked": fully_masked, "seed": seed}
    return Battery(shapes(given, every, asked), _known(cases), asked)


def shapes(
    given: Mapping[str, Any], masks: Iterable[Mask], takes: frozenset[str],
    names: Iterable[str] | None = None,
) -> dict[str, Spec]:  # fmt: skip
    """Return shapes of the suite with some fields given, the smallest first.

    Their own masks of the kinds of those given make room for them. Shapes that need more than the
    kernel takes are left out, and so are all but the names, if these are given.
    """
    fixed = tuple(masks)
    kinds = tuple(type(mask) for mask in fixed)
    aligned = next((mask.alignment for mask in fixed if isinstance(mask, Causal)), None)
    options = [name for name in ("scale", "soft_cap", "sink", "alibi", "bias") if name in given]
    defaults: dict[str, Any] = {
        each.name: each.default for each in fields(Spec) if each.name in options
    }
    found: dict[Spec, str] = {}
    for name, spec in SUITE.items():
        if aligned is not None and spec.masks in {(TOP,), (BOTTOM,)} - {(Causal(aligned),)}:
            continue  # these differ in the alignment alone
        own = tuple(mask for mask in spec.masks if not isinstance(mask, kinds))
        needed = needs(replace(spec, masks=own, **defaults))
        if not all(need & takes for need in needed) if names is None else name not in names:
            continue
        if "keys" in given and not needed and name != "plain":
            continue  # of one size
        if "bias" in given and any("bias" in need for need in needed):
            continue  # one is enough
        changed = dict(given)
        if "head_dim" in given and "value_dim" not in given and spec.value_dim is not None:
            changed["value_dim"] = max(1, given["head_dim"] // 2)
        sized = replace(spec, masks=(), **changed)
        own = tuple(_resized(mask, spec, sized, aligned) for mask in own)
        made = replace(sized, masks=(*fixed, *own))
        if names is None and aligned is None and (made.lengths[0] != made.lengths[1]).any():
            # A square shape whose masks may be of either alignment may no longer be square.
            turned = [other for mask in own if (other := _aligned(mask, takes)) is not None]
            if len(turned) < len(own):
                continue
            made = replace(sized, masks=(*fixed, *turned))
        found.setdefault(made, name)
    by_size = sorted(found, key=lambda s: s.batch * s.heads[0] * s.queries * s.keys * s.head_dim)
    return {found[spec]: spec for spec in by_size}


def _resized(mask: Mask, old: Spec, new: Spec, alignment: Alignment | None) -> Mask:
    """Return a mask of the suite for other sizes: the same parts of them."""
    changed: dict[str, Any] = {}
    for name, size in _NUMBERS.items():
        parts = getattr(mask, name, None)
        if parts is not None and (old.batch, getattr(old, size)) != (new.batch, getattr(new, size)):
            turn = new.batch < old.batch  # a part rather than all of a sequence that is alone
            every = [parts[(b + turn) % len(parts)] for b in range(new.batch)]
            changed[name] = tuple(-(-n * getattr(new, size) // getattr(old, size)) for n in every)
    if alignment is not None and hasattr(mask, "alignment"):
        changed["alignment"] = alignment
    return replace(mask, **changed)  # type: ignore[type-var] # every mask is a dataclass


def _aligned(mask: Mask, takes: frozenset[str]) -> Mask | None:
    """Return a mask of an alignment that a kernel takes, its own if it can be, or None."""
    if not hasattr(mask, "alignment") or takes & {"mask", mask.alignment}:
        return mask
    other = next((each for each in get_args(Alignment) if each in takes), None)
    return other and replace(mask, alignment=other)  # type: ignore[type-var] # a dataclass


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
