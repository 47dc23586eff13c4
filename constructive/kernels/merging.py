"""Merging of states (out, lse), as of splits, rings and chunked prefills: what it has to return.

A merge is a row of attention whose logits are the log-sum-exps and whose values are the outputs:
weights exp(lse_i - max), or a sigmoid of a difference, or exp(lse_i - lse), at once or two by two
in any order. Theorem 22 (proofs/19-kernels.md) says what all of them return.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from constructive.exact.formats import nearest
from constructive.kernels.answer import BASES, LN2, LOG_ERROR, UNIT
from constructive.kernels.checking import KernelError
from constructive.kernels.inputs import converted
from constructive.kernels.problem import Problem
from constructive.kernels.spec import as_float64, output_of
from constructive.support.arrays import Array, Booleans, Integers, Tensor, first_place
from constructive.support.errors import (
    ParameterError,
    require_known,
    require_positive,
    require_seed,
)

KINDS = (
    "one state wins", "all states weigh the same", "all states but one are empty",
    "all states are empty", "two states share the weight",
)  # fmt: skip
_WINS, _EQUAL, _LEFT, _EMPTY, _SHARED = range(len(KINDS))
_LEVELS = (0.0, 1.0, -1.0, 64.0, -64.0, 256.0, -256.0, -1024.0, 4096.0, 0.5)
_GAP = 100.0  # more than 60 + log k, in both bases
_FAINT = 2.0**-60  # what a state that is as far below adds
_CODES = 4  # sizes of values; two entries tell 16 states
_LISTED = 3  # values of a log-sum-exp that are listed


@dataclass(frozen=True, eq=False, repr=False)
class Merge:
    """States, and what every admissible merge of them returns; use `merges`.

    Attributes:
        outs: (k, T, H, d_v) outputs of k states, some number where a state is empty
        lses: (k, T, H) their log-sum-exps, -inf where a state is empty
        out: (T, H, d_v) the merged output, 0 where all states are empty
        lse: (T, H) the merged log-sum-exp, -inf there
        out_slack: (T, H, d_v) how far an admissible output may be away; 0: bit for bit
        lse_slack: (T, H) the same of a log-sum-exp
        kind: (T, H) what rows are, an index of `merging.KINDS`
        dtype: the format of outputs
        base: of log-sum-exps, "e" or "2"
        sinks: (H,) logits of sinks in that base, which the merge counts once; or None
    """

    outs: Array
    lses: Array
    out: Array
    lse: Array
    out_slack: Array
    lse_slack: Array
    kind: Integers
    dtype: str
    base: str
    sinks: Array | None = None

    def tensors(self, library: str = "numpy", *, device: str = "cpu") -> tuple[Tensor, Tensor]:
        """Return outputs in their format and log-sum-exps in float32.

        Args:
            library: "numpy", "torch" or "jax"
            device: of torch

        Example:
            >>> outs, lses = next(merges()).tensors()
            >>> outs.shape, lses.dtype
            ((2, 12, 4, 16), dtype('float32'))
        """
        outs = converted(self.outs, library, device, self.dtype)
        return outs, converted(self.lses, library, device, "float32")

    def check(self, out: object, lse: object = None) -> None:
        """Raise if a merge is not one that an admissible kernel returns.

        Args:
            out: (T, H, d_v) the merged output
            lse: (T, H) the merged log-sum-exp, or None

        Raises:
            KernelError: an `AssertionError` that says of which kind wrong rows are, and what is
                read
            ParameterError: for another shape

        Example:
            >>> merge = next(merges())
            >>> merge.check(merge.out, merge.lse)
        """
        __tracebackhide__ = True
        found = _shaped("output", out, self.out)
        report = MergeReport(self, found, None if lse is None else _shaped("lse", lse, self.lse))
        if not report.passed:
            raise KernelError(report)

    def __str__(self) -> str:
        return f"merge of {len(self.outs)} states, {self.dtype}, lse in base {self.base}"


def _shaped(name: str, given: object, like: Array) -> Array:
    found = as_float64(given)
    if found.shape != like.shape:
        raise ParameterError(
            f"the merged {name} has shape {found.shape}, not {like.shape}",
            witness=found.shape,
            suggestion="(tokens, heads, value_dim) and (tokens, heads)",
        )
    return found


def merges(
    states: int = 4,
    *,
    tokens: int = 12,
    heads: int = 4,
    value_dim: int = 16,
    dtype: str = "float32",
    base: str = "e",
    sink: bool = False,
    seed: int = 0,
) -> Iterator[Merge]:
    """Yield problems of merging 2, 3, .. states.

    Rows are of five kinds: one state wins, all weigh the same, all but one are empty, all are
    empty, two share the weight.

    Args:
        states: the largest number of states
        tokens: T
        heads: H
        value_dim: entries of an output, 2 or more
        dtype: the format of outputs, before and after; log-sum-exps are in float32
        base: of log-sum-exps, "e" or "2"
        sink: whether each head has a sink, which counts once, in the merge
        seed: of everything that is drawn

    Yields:
        problems, each with `outs`, `lses` and `check`

    Raises:
        ParameterError: for numbers that make no sense

    Example:
        >>> def average(outs, lses):  # a merge that forgets empty states
        ...     weights = np.exp(lses - lses.max(0))
        ...     return (weights[..., None] * outs).sum(0) / weights.sum(0)[..., None]
        >>> merge = next(merges())
        >>> try:
        ...     with np.errstate(invalid="ignore"):
        ...         merge.check(average(*merge.tensors()))
        ... except AssertionError as error:
        ...     print(str(error).splitlines()[1])
          WHERE: all 10 rows in which all states are empty: out is NaN or infinite
    """
    require_positive(states=states, tokens=tokens, heads=heads, value_dim=value_dim)
    require_known("base", base, BASES)
    require_seed(seed)
    if states < 2 or value_dim < 2:  # two entries tell states apart
        raise ParameterError(
            f"states={states}, value_dim={value_dim}: there is nothing to merge, or to tell",
            witness=(states, value_dim),
            suggestion="2 or more of each",
        )
    for count in range(2, states + 1):
        yield _merge((count, tokens, heads, value_dim), dtype, base, seed, sink=sink)


def _merge(
    shape: tuple[int, int, int, int], dtype: str, base: str, seed: int, *, sink: bool
) -> Merge:
    count, tokens, heads, _ = shape
    random = np.random.default_rng((seed, count, 41))
    state = np.arange(count)[:, None, None]
    kind = np.add.outer(np.arange(tokens), np.arange(heads)) % len(KINDS)
    outs = np.exp2(random.integers(0, _CODES - 1, shape))
    outs[..., 0], outs[..., 1] = np.exp2(state % _CODES), np.exp2(state // _CODES % _CODES)
    level = random.choice(_LEVELS, kind.shape)
    if sink:  # beside the states of a head, or far below
        level = np.broadcast_to(random.choice(_LEVELS, heads), kind.shape)
        sinks = np.where(np.arange(heads) % 2 == 0, level[0], level[0] - 4096.0)
    winner = random.integers(0, count, kind.shape)
    is_winner = state == winner
    below = _GAP * np.exp2(random.integers(0, 4, shape[:3]))
    below[random.random(below.shape) < 1.0 / 4.0] = np.inf
    lses = np.where(is_winner, level, level - below)
    second = (winner + random.integers(1, count, kind.shape)) % count
    near = level - np.exp2(random.integers(-2, 2, kind.shape))
    lses = np.where((kind == _SHARED) & (state == second), near, lses)
    lses = np.where(kind == _EQUAL, level, lses)
    lses = np.where((kind == _EMPTY) | ((kind == _LEFT) & ~is_winner), -np.inf, lses)
    outs = np.where((kind == _EMPTY)[..., None], 0.0, outs)
    if not sink:
        return _merged(outs, lses, kind, dtype, base)
    # A sink is one more state, whose output is 0; it is all of the weight where others are empty.
    more = np.broadcast_to(sinks, (1, *kind.shape))
    beside = np.where((kind == _EMPTY) | (sinks < level[0]), kind, _SHARED)
    outs_, lses_ = np.concatenate([outs, 0.0 * outs[:1]]), np.concatenate([lses, more])
    whole = _merged(outs_, lses_, beside, dtype, base)
    return replace(whole, outs=outs, lses=lses, kind=kind, sinks=sinks)


def _merged(outs: Array, lses: Array, kind: Integers, dtype: str, base: str) -> Merge:
    weights = _weights(lses, BASES[base])
    out = _averaged(weights, outs)
    lse = lses.max(0) + np.log(np.maximum(weights.sum(0), 1.0)) / BASES[base]
    slacks = _slacks(kind, outs, lses, out, dtype, base)
    return Merge(outs, lses, out, lse, *slacks, kind, dtype, base)


def cut_keys(problem: Problem, ranks: int, *, zigzag: bool = False) -> list[Integers]:
    """Return the keys of each rank of a ring, for one process that plays all of them.

    Args:
        problem: the problem: `k[:, :, keys]`, `v[:, :, keys]` and `mask[..., keys]` are a rank's
        ranks: how many
        zigzag: whether a rank has a part from the front and one from the back, as rings do that
            balance causal masks

    Example:
        >>> from constructive.kernels.spec import Spec
        >>> [keys.tolist() for keys in cut_keys(Problem.build(Spec(keys=8)), 2, zigzag=True)]
        [[0, 1, 6, 7], [2, 3, 4, 5]]
    """
    require_positive(ranks=ranks)
    parts = np.array_split(np.arange(problem.spec.keys), ranks * (1 + zigzag))
    if not zigzag:
        return parts
    return [np.concatenate([parts[n], parts[-1 - n]]) for n in range(ranks)]


def _weights(lses: Array, base: float) -> Array:
    """Return weights of states; those that are far below have none."""
    top = lses.max(0)
    away = (lses - np.where(np.isneginf(top), 0.0, top)) * base
    return np.where(away < -_GAP * LN2 / 2.0, 0.0, np.exp(away))


def _averaged(weights: Array, outs: Array) -> Array:
    """Return averages of outputs, 0 where no state has a weight."""
    total = weights.sum(0)[..., None]
    return np.asarray((weights[..., None] * outs).sum(0) / np.where(total > 0.0, total, 1.0))


def _slacks(
    kind: Integers, outs: Array, lses: Array, out: Array, dtype: str, base: str
) -> tuple[Array, Array]:
    """Return how far outputs and log-sum-exps may be away, by Theorem 22."""
    count, form = len(outs), output_of(dtype)
    sizes = np.where(np.isneginf(lses), 0.0, np.abs(lses)) * BASES[base]
    span = 2.0 * sizes.max(0) + 2.0 + math.log(count)
    of_lse = count * (6.0 * UNIT * span + LOG_ERROR)  # E of (d)
    of_out = count * (6.0 * UNIT + LOG_ERROR + of_lse[..., None]) * outs.max(0)
    of_out = of_out + count * 4.0 * UNIT * out
    if form.unit > UNIT:  # merged two by two, each result is stored
        of_out = of_out + 2.0 * (count - 1) * form.unit * out
        if count == 2:  # the average of two codes is a number of the format, by (b)
            is_near = 6.0 * UNIT * (sizes.max(0) + 2.0) + 4.0 * LOG_ERROR < form.unit / 2.0
            of_out = np.where(((kind == _EQUAL) & is_near)[..., None], 0.0, of_out)
    gap = np.where(np.isneginf(lses), 0.0, np.nan_to_num(lses.max(0)) - lses).max(0)
    of_winner = _FAINT + 8.0 * UNIT * gap
    is_shared = (kind == _EQUAL) | (kind == _SHARED)
    of_lse = np.where(is_shared, of_lse / BASES[base], np.where(kind == _WINS, of_winner, 0.0))
    return np.where(is_shared[..., None], of_out, 0.0), of_lse


@dataclass(frozen=True, eq=False, repr=False)
class MergeReport:
    """What is wrong with a merge."""

    merge: Merge
    out: Array
    lse: Array | None

    @cached_property
    def wrong(self) -> tuple[Booleans, Booleans]:
        """Rows whose output is wrong, and whose log-sum-exp is, (T, H) each."""
        merge = self.merge
        with np.errstate(invalid="ignore"):
            # Of an output of more bits than the format, the nearest numbers count.
            rounded = nearest(self.out, output_of(merge.dtype))
            near = [np.abs(each - merge.out) <= merge.out_slack for each in (self.out, rounded)]
            out = np.asarray((near[0] | near[1]).all(-1))
            if self.lse is None:
                return ~out, np.zeros_like(out)
            right = np.abs(self.lse - merge.lse) <= merge.lse_slack
        return ~out, np.asarray(~(right | (self.lse == merge.lse)))

    @property
    def rows(self) -> Booleans:
        """Rows of which one of both is wrong, (T, H)."""
        return self.wrong[0] | self.wrong[1]

    @property
    def passed(self) -> bool:
        """Whether every row is right."""
        return not self.rows.any()

    @property
    def first(self) -> tuple[int, ...]:
        """The first wrong row: token and head."""
        return first_place(self.rows)

    @property
    def suggestion(self) -> str:
        """What to look at next."""
        if (self.merge.kind[self.rows] == _EMPTY).all():
            return "a guard where the largest lse is -inf"
        return "merge.outs and merge.lses of the row above"

    def _of_kind(self, kind: int) -> Iterator[str]:
        rows = self.merge.kind == kind
        both = self.rows & rows
        if not both.any():
            return
        parts = []
        if (self.wrong[0] & rows).any():
            parts.append(f"out is {self._read_out(self.wrong[0] & rows)}")
        if self.lse is not None and (self.wrong[1] & rows).any():
            parts.append(f"lse is {self._read_lse(self.lse, self.wrong[1] & rows)}")
        count, every = int(both.sum()), int(rows.sum())
        who = f"all {every}" if count == every else f"{count} of {every}"
        yield f"{who} rows in which {KINDS[kind]}: {', '.join(parts)}"

    def _read_out(self, rows: Booleans) -> str:
        found = self.out[rows]
        if not np.isfinite(found).all(-1).any():
            return "NaN or infinite"
        return "0" if not found.any() else _off(found, self.merge.out[rows])

    def _read_lse(self, lse: Array, rows: Booleans) -> str:
        values = sorted({f"{each:.6g}" for each in lse[rows]})
        few = len(values) <= _LISTED
        return " or ".join(values) if few else _off(lse[rows], self.merge.lse[rows])

    def __str__(self) -> str:
        token, head = self.first
        said = ", ".join(f"{each:g}" for each in self.merge.lses[:, token, head])
        return "\n  ".join([
            f"{self.merge}: {self.rows.sum()} of {self.rows.size} rows are wrong",
            *(f"WHERE: {line}" for kind in range(len(KINDS)) for line in self._of_kind(kind)),
            f"for example token {token}, head {head}: states {said}",
        ])  # fmt: skip


def _off(found: Array, wanted: Array) -> str:
    with np.errstate(invalid="ignore"):
        return f"off by up to {np.nanmax(np.abs(found - wanted)):.3g}"
