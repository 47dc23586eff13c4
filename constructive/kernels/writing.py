"""What kernels write: new tokens into a cache, and the indices of the largest scores."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import numpy as np

from constructive.kernels.checking import KernelError
from constructive.kernels.encodings import FORMS, Layout, Paged, Quantized
from constructive.kernels.inputs import converted
from constructive.kernels.problem import Problem
from constructive.kernels.spec import as_float64
from constructive.support.arrays import Array, Booleans, Integers, Tensor, first_place
from constructive.support.errors import (
    ParameterError,
    require_known,
    require_positive,
    require_seed,
)


@dataclass(frozen=True)
class Written:
    """What is wrong with what was written: the `report` of an error."""

    lines: tuple[str, ...]
    first: tuple[object, ...]
    suggestion: str

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


@dataclass(frozen=True, eq=False, repr=False)
class Append:
    """New tokens for a paged cache: every cell of it is known afterwards.

    Attributes:
        paged: the cache before, with `table`, `lengths` (new tokens are counted) and scales
        k: (tokens, G, d) new keys, those of a sequence after each other; not quantized
        v: (tokens, G, d_v) likewise
        slots: (tokens,) int64: page * page size + place of each
        after: keys and values of the cache afterwards, in the layout of `paged.k`
        token: (tokens, 2) sequence and key of each
    """

    paged: Paged
    k: Tensor
    v: Tensor
    slots: Tensor
    after: tuple[Array, Array]
    token: Integers

    @classmethod
    def of(
        cls, problem: Problem | Quantized, *, tokens: int | None = None, page_size: int = 16,
        layout: Layout = "NHD", library: str = "numpy", device: str = "cpu",
    ) -> "Append":  # fmt: skip
        """Return the last tokens of each sequence as new ones.

        All other cells hold tokens already, also those that no sequence has, and must keep them.

        Args:
            problem: the problem, or one with scales of tensors, heads, channels or sequences: the
                kernel divides by them, and rounds
            tokens: new tokens of each sequence, or as many as it has; by default one more than a
                page has
            page_size: keys of a page
            layout: "NHD" or "HND"
            library: "numpy", "torch" or "jax"
            device: of torch and jax

        Raises:
            ParameterError: if scales are those of tokens, pages or blocks, which the kernel chooses

        Example:
            >>> from constructive.kernels.spec import Spec
            >>> append = Append.of(Problem.build(Spec(batch=2, keys=20)), tokens=3, page_size=8)
            >>> append.k.shape, append.slots.tolist()
            ((6, 2, 64), [65, 66, 67, 57, 58, 59])
        """
        require_known("layout", layout, get_args(Layout))
        quantized = problem if isinstance(problem, Quantized) else None
        whole = problem.problem if isinstance(problem, Quantized) else problem
        dtype = whole.spec.dtype
        if quantized is not None:
            dtype = FORMS[quantized.form].dtype
            for scaled in (quantized.stored_k, quantized.stored_v):
                if scaled.kind in ("token", "page", "block"):
                    raise ParameterError(
                        f"a kernel chooses scales of a {scaled.kind} as it writes",
                        witness=scaled.kind,
                        suggestion='"tensor", "head", "channel" or "sequence"',
                    )
        tokens = page_size + 1 if tokens is None else tokens
        require_positive(tokens=tokens)
        paged = Paged.of(problem, page_size=page_size, layout=layout, stale=True)
        pool = paged.pool
        is_new = pool.is_own & (pool.key >= pool.lengths[pool.owner] - tokens)
        at = np.argwhere(is_new)
        at = at[np.lexsort((pool.key[is_new], pool.owner[is_new]))]
        b, j = pool.owner[tuple(at.T)], pool.key[tuple(at.T)]
        after = as_float64(paged.k), as_float64(paged.v)
        before = [_with_others(x, at, layout) for x in after]
        cache = [converted(x, library, device, dtype) for x in before]
        fresh = [
            converted(x[b, :, j], library, device, whole.spec.output.name)
            for x in (whole.k, whole.v)
        ]
        table, lengths = (
            converted(x, library, device, "int32") for x in (pool.table, pool.lengths)
        )
        k_scale, v_scale = (
            None if x is None else converted(x, library, device, "float32")
            for x in (paged.k_scale, paged.v_scale)
        )
        slots = converted(at[:, 0] * page_size + at[:, 1], library, device, "int64")
        made = Paged(cache[0], cache[1], table, lengths, pool, None, k_scale, v_scale)
        return cls(made, fresh[0], fresh[1], slots, (after[0], after[1]), np.stack([b, j], -1))

    def check(self, k: object, v: object) -> None:
        """Raise if a cell of the cache is not what it has to be.

        Args:
            k: the whole cache of keys after the kernel has run, such as `paged.k`
            v: the same of values

        Raises:
            KernelError: an `AssertionError` that says how many new tokens are wrong, and which
                other cells were written
            ParameterError: for another shape
        """
        __tracebackhide__ = True
        lines, first = list[str](), tuple[object, ...]()
        size, axis = (
            self.paged.pool.k.shape[1],
            1 + (self.after[0].shape != self.paged.pool.k.shape),
        )
        slots = as_float64(self.slots).astype(int)
        for name, given, wanted in zip("kv", (k, v), self.after, strict=True):
            found = as_float64(given, name)
            if found.shape != wanted.shape:
                raise ParameterError(
                    f"{name} has shape {found.shape}, not {wanted.shape}",
                    witness=found.shape,
                    suggestion="the whole cache",
                )
            others = tuple(n for n in range(4) if n not in (0, axis))
            wrong: Booleans = (found != wanted).any(others)
            is_new = np.zeros(wrong.size, dtype=np.bool_)
            is_new[slots] = True
            bad, beside = wrong.ravel()[slots], wrong & ~is_new.reshape(wrong.shape)
            if bad.any():
                b, j = self.token[bad][0]
                lines.append(
                    f"{name} of {bad.sum()} of {len(slots)} new tokens is wrong, first key {j} of "
                    f"sequence {b}, slot {slots[bad][0]}"
                )
            if beside.any():
                page, place = first_place(beside)
                lines.append(f"{name} is written in {beside.sum()} cells of other tokens, first "
                             f"slot {page * size + place}")  # fmt: skip
            first = first or ((name, *first_place(wrong)) if wrong.any() else ())
        if lines:
            tried = "slots, pages that change, and the rounding of stored numbers"
            raise KernelError(Written(("the cache is wrong", *lines), first, tried))


def _with_others(cells: Array, at: Integers, layout: Layout) -> Array:
    """Return a cache where some cells hold numbers of other tokens."""
    found = cells if layout == "NHD" else cells.swapaxes(1, 2)
    found = found.copy()
    found[tuple(at.T)] = np.roll(found.reshape(-1, *found.shape[2:]), 7, 0).reshape(found.shape)[
        tuple(at.T)
    ]
    return found if layout == "NHD" else found.swapaxes(1, 2)


# Top-k selection, as indexers of sparse attention do it: the right set is known.


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Scores of keys, of which the largest are to be selected; use `selections`.

    Attributes:
        scores: (T, S) scores; what lies behind the length of a row is larger than all others
        lengths: (T,) int32: keys of each row
        count: k, how many are selected
        case: what is special
        numbers: the scores as numbers
    """

    scores: Tensor
    lengths: Tensor
    count: int
    case: str
    numbers: Array

    @cached_property
    def threshold(self) -> Array:
        """The least score that is selected, (T, 1); -inf in rows of fewer keys."""
        ordered = np.sort(self._there, axis=-1)
        return np.asarray(ordered[:, -self.count, None])

    @property
    def _there(self) -> Array:
        ends = as_float64(self.lengths)[:, None]
        return np.where(np.arange(self.numbers.shape[1]) < ends, self.numbers, -np.inf)

    def check(self, indices: object) -> None:
        """Raise if the selected keys are not the largest ones, in any order.

        Args:
            indices: (T, k); of keys with equal scores any may be selected; -1 where a row has fewer
                keys than k

        Raises:
            KernelError: an `AssertionError` that says what the first wrong row has
            ParameterError: for another shape
        """
        __tracebackhide__ = True
        found = as_float64(indices, "indices").astype(np.int64)
        shape = (len(self.numbers), self.count)
        if found.shape != shape:
            raise ParameterError(
                f"indices have shape {found.shape}, not {shape}",
                witness=found.shape,
                suggestion="-1 for what is missing",
            )
        said = [self._said(row, chosen) for row, chosen in enumerate(found)]
        rows = [row for row, words in enumerate(said) if words]
        if rows:
            title = f"selection {self.case!r}: {len(rows)} of {len(found)} rows are wrong"
            lines = (title, f"row {rows[0]}: {said[rows[0]]}")
            raise KernelError(Written(lines, (rows[0],), "selection.scores and selection.lengths"))

    def _said(self, row: int, chosen: Integers) -> str:
        length = int(as_float64(self.lengths)[row])
        kept, scores = chosen[chosen != -1], self._there[row]
        beyond = kept[(kept < 0) | (kept >= length)]
        if len(beyond):
            return f"{beyond[0]} is not one of its {length} keys"
        if len(np.unique(kept)) < len(kept):
            return "a key is selected twice"
        if len(kept) != min(self.count, length):
            return f"{len(kept)} keys are selected, not {min(self.count, length)}"
        lost = np.setdiff1d(np.flatnonzero(scores > self.threshold[row]), kept)
        if len(lost):
            return f"key {lost[0]} is missing, whose score is {scores[lost[0]]:g}"
        low = kept[scores[kept] < self.threshold[row]]
        return f"key {low[0]} is selected, whose score is {scores[low[0]]:g}" if len(low) else ""


def selections(
    count: int = 16, *, tokens: int = 12, keys: int = 200, dtype: str = "float32", seed: int = 0,
    library: str = "numpy", device: str = "cpu",
) -> Iterator[Selection]:  # fmt: skip
    """Yield problems of selecting the keys with the k largest scores.

    Scores are distinct, equal at the threshold, equal for all keys, or all below -65504 (but in
    float16), and rows may have fewer keys than k.

    Args:
        count: k
        tokens: rows T
        keys: scores of a row S, more than k
        dtype: of scores, "float32", "bfloat16" or "float16"
        seed: of all that is drawn
        library: "numpy", "torch" or "jax"
        device: of torch and jax

    Yields:
        problems, each with `scores`, `lengths` and `check`

    Raises:
        ParameterError: unless keys are more than k, for counts below 1, and for a negative seed

    Example:
        >>> for selection in selections(4, keys=30):
        ...     hidden = np.arange(30) >= selection.lengths[:, None]
        ...     order = np.argsort(np.where(hidden, np.inf, -selection.scores))[:, :4]
        ...     ends = np.minimum(selection.lengths, 4)[:, None]
        ...     selection.check(np.where(np.arange(4) < ends, order, -1))
    """
    require_positive(count=count, tokens=tokens, keys=keys)
    require_seed(seed)
    if keys <= count:
        raise ParameterError(
            f"keys={keys} leave nothing to select", witness=keys, suggestion=f"more than {count}"
        )
    random = np.random.default_rng((seed, 53))
    rank = random.permuted(np.tile(np.arange(keys), (tokens, 1)), axis=1) % 256.0  # of 8 bits
    whole, some = np.full(tokens, keys), random.integers(count + 1, keys + 1, tokens)
    few = np.arange(tokens) % (count + 1)
    made = {
        "distinct": (rank, whole), "ends": (rank - 100.0, some),
        "ties": (np.minimum(rank // 8.0, 2.0), some), "equal": (0.0 * rank, some),
        "low": (-131072.0 * (256.0 - rank), some), "few": (rank - 255.0, few),
    }  # fmt: skip
    if dtype == "float16":
        del made["low"]
    for case, (scores, lengths) in made.items():
        numbers = np.where(np.arange(keys) < lengths[:, None], scores, 1024.0)
        yield Selection(
            converted(numbers, library, device, dtype),
            converted(lengths, library, device, "int32"), count, case, numbers,
        )  # fmt: skip
