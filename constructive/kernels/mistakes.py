"""Classic mistakes: one formula of attention with replaceable parts, and their names.

A mistake is a sentence and a `Change`: the parts that it does differently, each a function of some
rows. Few rows are computed, so a mistake costs about a tenth of a millisecond. A key is an address
among those of all sequences and KV heads, so reading another one is an index.

A new mistake is a line. Most are products: rows that are taken for others, times the part that is
taken from there (output, query, mask, ..). Keys that are lost, count more or are read elsewhere
have no names: `describe` says which. Sizes of blocks come last in a sentence, in brackets. A name
that no bug of a stranger has needed may go: rows are described without it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from constructive.kernels.encodings import Quantized
from constructive.kernels.inputs import Pool
from constructive.kernels.masks import Causal, LeftPadding, Mask, Prefix, Scalar, Window
from constructive.kernels.problem import Problem
from constructive.support.arrays import Array, Booleans, Integers, Tensor

# How a kernel got its arrays: pages, stored numbers with scales, or a key of `inputs.PLACES`.
Memory = Pool | Quantized | str
Shared = TypeVar("Shared")
Place: TypeAlias = Tensor  # a number, an array of them, or None for a row's own
Part = Callable[..., Tensor] | None
LARGEST, _SMALLEST = 88.7, 2.0**-149  # of float32: exponents that overflow, weights that vanish
_NEGLIGIBLE = 1e-14  # a weight that changes no digit that is compared
_FEW = 2**18  # products of weights and values that are computed faster than zeros are found


class Rows:
    """Some rows of a problem, each one query of one head.

    `index` has the sequence b, head h and query i of each, (R, 3). All numbers of rows are columns,
    (R, 1), and j, the keys, is a row, (1, T_k), so that they broadcast to (R, T_k).
    """

    def __init__(
        self,
        problem: Problem,
        index: Integers,
        memory: Memory | None = None,
        shared: dict[object, object] | None = None,
    ) -> None:
        spec = problem.spec
        self.problem, self.index, self.memory = problem, index, memory
        self.shared = {} if shared is None else shared  # what all rows of a problem share
        self.b, self.h, self.i = index.T[..., None]
        self.g, self.j = self.h // spec.group, np.arange(spec.keys)[None]
        lengths = self.once("lengths", lambda: spec.lengths)
        self.queries, self.keys = lengths[0][self.b], lengths[1][self.b]  # of each sequence

    def once(self, name: object, made: Callable[[], Shared]) -> Shared:
        """Return what is computed once for all rows of a problem."""
        if name not in self.shared:
            self.shared[name] = made()
        return cast("Shared", self.shared[name])

    def moved(self, b: Place = None, h: Place = None, i: Place = None) -> "Rows":
        """Return other rows in the place of these."""
        most = self.problem.answer.checked.shape
        own = (self.b, self.h, self.i)
        parts = [
            np.broadcast_to(mine if x is None else x, mine.shape) % n
            for mine, x, n in zip(own, (b, h, i), most, strict=True)
        ]
        return Rows(self.problem, np.hstack(parts), self.memory, self.shared)

    def of(self, array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Return rows of an array that broadcasts to (B, H, T_q, ..)."""
        ends = zip(self.index.T, array.shape, strict=False)
        found: npt.NDArray[Scalar] = array[tuple(np.minimum(x, n - 1) for x, n in ends)]
        return found

    @cached_property
    def at(self) -> Integers:
        """The key on the diagonal, (R, 1)."""
        return self.of(self.once("diagonal", lambda: self.problem.spec.diagonal))

    @cached_property
    def visible(self) -> Booleans:
        """Which keys may be seen, (R, T_k)."""
        return self.of(self.problem.visible)

    @cached_property
    def bias(self) -> Tensor:
        """What is added to logits, (R, T_k), or None."""
        return None if self.problem.bias is None else self.of(self.problem.bias)

    @cached_property
    def sinks(self) -> Tensor:
        """Logits of sinks, (R, 1), or None."""
        return None if self.problem.sinks is None else self.problem.sinks[self.h]

    @cached_property
    def own(self) -> Integers:
        """Addresses of the keys of each row, (R, T_k)."""
        spec = self.problem.spec
        return np.asarray((self.b * spec.heads[1] + self.g) * spec.keys + self.j)

    def products(self, k: Array | None = None) -> Array:
        """Return products of the queries with all keys, or with those in their place."""
        k = self.problem.k if k is None else k
        return np.asarray(self.of(self.problem.q) @ k.reshape(-1, k.shape[-1]).T)

    @cached_property
    def raw(self) -> Array:
        """Products of each row with its own keys, (R, T_k)."""
        return np.take_along_axis(self.products(), self.own, axis=1)

    @cached_property
    def scores(self) -> Array:
        """Logits after the scale, the soft cap and the bias, (R, T_k)."""
        return self.scored(self.raw)

    @cached_property
    def logits(self) -> Array:
        """The same, -inf where keys are hidden."""
        return np.where(self.visible, self.scores, -np.inf)

    @cached_property
    def softmax(self) -> tuple[Array, Array]:
        """Right weights and their sums."""
        return softmax(self, self.logits, top=largest(self, self.logits))

    @cached_property
    def values(self) -> Array:
        """The values of the keys of each row, (R, T_k, d_v)."""
        return np.asarray(self.problem.v.reshape(-1, self.problem.v.shape[-1])[self.own])

    def scored(self, raw: Array, factor: float = 1.0, *, capped: bool = True) -> Array:
        """Return logits of products; `factor` is beside the scale."""
        found = self.capped(raw, factor) if capped else raw * (self.problem.spec.factor * factor)
        return found if self.bias is None else found + self.bias

    def capped(self, raw: Array, factor: float = 1.0) -> Array:
        """Return logits before the bias."""
        cap, found = self.problem.spec.soft_cap, raw * (self.problem.spec.factor * factor)
        return found if cap is None else cap * np.tanh(found / cap)


@dataclass(frozen=True)
class Change:
    """What a mistake does differently, each a function of rows; None: what it should."""

    rows: Part = None  # the rows whose output is written
    query: Part = None  # the rows whose query is used
    k: Part = None  # keys as they are read, (B, G, T_k, d)
    v: Part = None  # values as they are read, (B, G, T_k, d_v)
    bias: Part = None  # what is added to logits, (R, T_k)
    visible: Part = None  # which keys are read, (R, T_k)
    sinks: Part = None  # logits of sinks, (R, 1)
    logits: Part = None  # also of products: logits before the mask, (R, T_k)
    weights: Part = None  # also of logits: weights, and what their sum is divided by


def attention(rows: Rows, change: Change) -> Array:
    """Return what comes out, (R, d_v); NaN also where float32 would overflow."""
    rows = change.rows(rows) if change.rows else rows
    logits = masked(rows, change)
    if change.sinks:
        weights, total = softmax(rows, logits, sinks=change.sinks(rows))
    elif change.weights:
        weights, total = change.weights(rows, logits)
    else:
        weights, total = softmax(rows, logits)
    v = change.v(rows) if change.v else rows.problem.v
    return np.asarray(summed(rows, weights, v) / total)


def masked(rows: Rows, change: Change) -> Array:
    """Return logits, -inf where keys are hidden, (R, T_k)."""
    raw = rows.raw
    if change.query or change.k:
        asking = change.query(rows) if change.query else rows
        found = asking.products(change.k(rows) if change.k else None)
        raw = np.take_along_axis(found, rows.own, axis=1)
    if change.logits:
        logits = change.logits(rows, raw)
    elif change.bias:
        logits = rows.capped(raw) + change.bias(rows)
    elif raw is not rows.raw:
        logits = rows.scored(raw)
    elif change.visible:
        logits = rows.scores
    else:
        return rows.logits
    return np.where(change.visible(rows) if change.visible else rows.visible, logits, -np.inf)


def summed(rows: Rows, weights: Array, v: Array) -> Array:
    """Return sums of weights times values."""
    width = v.shape[-1]
    if v is rows.problem.v and weights.size * width <= _FEW:
        return (weights[:, None] @ rows.values)[:, 0]
    # Most weights are zero, so the others are gathered.
    found = np.zeros((len(weights), width))
    row, key = np.nonzero(~(np.abs(weights) <= _NEGLIGIBLE))
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    if len(row):
        parts = weights[row, key][:, None] * v.reshape(-1, width)[rows.own[row, key]]
        found[row[starts]] = np.add.reduceat(parts, starts, axis=0)
    return found


def exp(x: Array) -> Array:
    """Return exponentials as float32 has them."""
    return np.exp(np.where(x > LARGEST, np.inf, x))


def largest(rows: Rows, logits: Array, sinks: Array | None = None) -> Array:
    """Return the largest logit of each row, (R, 1), sinks among them; 0 if there is none."""
    sinks = rows.sinks if sinks is None else sinks
    top = logits.max(-1, keepdims=True)
    top = top if sinks is None else np.maximum(top, sinks)
    return np.where(np.isfinite(top), top, 0.0)


def softmax(
    rows: Rows, logits: Array, *, zeros: Place = 0, sinks: Array | None = None,
    top: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Return weights and their sums: exponentials of logits less `top`, and of `zeros` more."""
    is_right = logits is rows.logits and sinks is None and np.ndim(zeros) == 0 and not zeros
    sinks, zeros = rows.sinks if sinks is None else sinks, np.asarray(zeros)
    if top is None:
        if is_right:
            return rows.softmax
        top = largest(rows, logits, sinks)
        top = np.where(zeros > 0, np.maximum(top, 0.0), top)
    weights = exp(logits - top)
    total = weights.sum(-1, keepdims=True)
    total = total + np.where(zeros > 0, zeros * exp(-top + 0.0 * total), 0.0)
    total = total if sinks is None else total + exp(sinks - top)
    return np.where(weights < _SMALLEST, 0.0, weights), np.where(total < _SMALLEST, 0.0, total)


def fading(rows: Rows, logits: Array, *, is_sum: bool, n: int) -> tuple[Array, Array]:
    """Return weights and sums where one of both is not rescaled between blocks of n keys.

    What is subtracted of a logit there is the largest one of all blocks so far.
    """
    top, block = largest(rows, logits), np.arange(logits.shape[1]) // n
    own = np.maximum.reduceat(logits, np.arange(0, logits.shape[1], n), axis=1)
    so_far = np.maximum.accumulate(own, axis=1)
    late = np.where(np.isfinite(so_far), so_far, 0.0)[:, block]
    seen = np.isfinite(logits)
    weights, sums = (
        exp(logits - np.where(seen, x, 0.0)) for x in ((top, late) if is_sum else (late, top))
    )
    total = sums.sum(-1, keepdims=True)
    return weights, total if rows.sinks is None else total + exp(rows.sinks - top)


def of_splits(
    rows: Rows, logits: Array, *, n: int, share: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """Return weights where splits of n keys are merged by weights exp(share(log-sum-exps))."""
    split = np.arange(logits.shape[1]) // n
    weights, tops, totals = of_each_split(logits, n)
    logs = share(tops + np.log(totals))
    merged = exp(logs - largest(rows, logs, sinks=np.array(-np.inf)))
    part = (merged / np.where(totals > 0, totals, 1.0))[:, split]
    return weights * part, merged.sum(-1, keepdims=True)


def of_each_split(logits: Array, n: int) -> tuple[Array, Array, Array]:
    """Return weights of keys within their split, and the largest logits and sums of splits."""
    starts, split = np.arange(0, logits.shape[1], n), np.arange(logits.shape[1]) // n
    tops = np.maximum.reduceat(logits, starts, axis=1)
    weights = exp(logits - np.where(np.isfinite(tops), tops, 0.0)[:, split])
    return weights, tops, np.add.reduceat(weights, starts, axis=1)


# Names of mistakes.


BLOCKS = (16, 32, 64, 128, 8, 24, 48)
TILES = ((16, 16), (32, 32), (64, 64), (32, 64), (128, 64), (64, 128), (32, 48))
At = Callable[..., Tensor]  # of rows
Of = dict[str, At]
Named = Iterator[tuple[str, Change]]
LOG2E = float(np.log2(np.e))


def mistakes(rows: Rows) -> dict[str, Change]:
    """Return all mistakes that have a meaning for a problem."""
    return {words: change for family in FAMILIES for words, change in family(rows)}


def _of_sizes(words: str, of: At, sizes: Iterable[int]) -> Of:
    """Return functions of rows and a size n, by what they are called for each size."""
    return {words.format(n): partial(of, n=n) for n in sizes}


def _each(part: str, of: Of) -> Named:
    """Yield changes of one part."""
    for words, change in of.items():
        yield words, Change(**{part: change})


def _below(count: int) -> list[int]:
    """Return sizes of blocks of which there are several."""
    return [n for n in BLOCKS if n < count]


# Places: masks, rows, keys, heads, sequences, memory.


def _masked(words: str, mask: Mask | None, seen: Of) -> Named:
    """Yield which keys are seen in the place of those that a mask shows."""
    for name, of in seen.items():
        yield f"{words} {name}", Change(visible=partial(_seen, mask=mask, of=of))


def _seen(rows: Rows, mask: Mask | None, of: At) -> Booleans:
    spec = rows.problem.spec
    others = rows.of(rows.once(("without", mask), lambda: spec.visible(but=mask)))
    return np.asarray(others & of(rows))


def diagonals(rows: Rows) -> Named:
    """Ends of a causal mask that are elsewhere."""
    spec = rows.problem.spec
    mask = spec.mask(Causal) or spec.mask(Prefix)
    if mask is None:
        return
    shifts, group = spec.lengths[1] - spec.lengths[0], spec.group
    is_right = mask.alignment == "bottom-right"
    other = "top-left" if is_right else "bottom-right"
    seen: Of = {}
    if is_right and (spec.lengths[1] != spec.keys).any():
        in_memory = spec.keys - spec.queries
        words = "ends at the last key in memory, not at that of the sequence"
        seen[words] = lambda r: r.j <= r.i + in_memory
    seen |= {
        "lets one key of the future through": lambda r: r.j <= r.at + 1,
        "is not applied": lambda r: r.j <= r.keys,
        f"is aligned {other}, not {mask.alignment}": lambda r: (
            r.j <= r.i + shifts[r.b] * (not is_right)
        ),
        "takes query // group for the query": lambda r: r.j <= r.i // group + r.at - r.i,
    }
    yield from _masked("the causal mask", mask, seen)


def blocks_of_masks(rows: Rows) -> Named:
    """Blocks that masks hide as a whole or not at all."""
    for q, k in TILES if rows.problem.mask is not None else ():
        if k < rows.problem.spec.keys:  # else it hides nothing
            words = f"masks hide whole blocks alone (blocks of {q} queries and {k} keys)"
            yield words, Change(visible=partial(_whole_blocks, q=q, k=k))


def _whole_blocks(rows: Rows, q: int, k: int) -> Booleans:
    def any_of_blocks() -> Booleans:
        seen = rows.problem.visible
        seen = np.logical_or.reduceat(seen, np.arange(0, seen.shape[2], q), axis=2)
        return np.logical_or.reduceat(seen, np.arange(0, seen.shape[3], k), axis=3)

    blocks = rows.once(("blocks", q, k), any_of_blocks)
    ends = zip((rows.b, rows.h, rows.i // q), blocks.shape, strict=False)
    return np.asarray(blocks[(*(np.minimum(x, n - 1) for x, n in ends), rows.j // k)])


def windows(rows: Rows) -> Named:
    """Windows of another size, or at another place."""
    mask = rows.problem.spec.mask(Window)
    if mask is None:
        return
    left, right = (np.inf if x is None else x for x in (mask.left, mask.right))
    seen: Of = {
        "is one key longer on the left": lambda r: (r.j >= r.at - left - 1) & (r.j <= r.at + right),
        "has no right side": lambda r: r.j >= r.at - left,
    }
    seen |= _of_sizes(
        "starts at the next block (blocks of {} keys)",
        lambda r, n: (r.j >= -(-(r.at - left) // n) * n) & (r.j <= r.at + right),
        BLOCKS,
    )
    yield from _masked("the window", mask, seen)


def lengths(rows: Rows) -> Named:
    """Ends and starts of sequences that are elsewhere."""
    spec = rows.problem.spec
    up, down = (f"is rounded {way} to a block (blocks of {{}})" for way in ("up", "down"))
    seen: Of = {"is not applied": lambda _: True}
    seen |= _of_sizes(up, lambda r, n: r.j < -(-r.keys // n) * n, BLOCKS)
    seen |= _of_sizes(down, lambda r, n: r.j < r.keys // n * n, BLOCKS)
    of_lengths = (m for m in spec.masks if (m.key_lengths(spec.batch, spec.keys) < spec.keys).any())
    mask = next(of_lengths, None)
    if mask is not None:
        seen["is one key too short"] = lambda r: r.j < r.keys - 1
    yield from _masked("the length of a sequence", mask, seen)
    padding = spec.mask(LeftPadding)
    if padding is not None:
        starts = np.array(padding.starts)
        on_the_right: Of = {"is taken to be on the right": lambda r: r.j < r.keys - starts[r.b]}
        yield from _masked("left padding", padding, on_the_right)


def places_of_rows(rows: Rows) -> Of:
    """Return other rows in the place of rows, by what they are called."""
    spec = rows.problem.spec
    count, n = spec.heads[0], spec.queries
    found: Of = {
        "of head 0": lambda r: r.moved(h=0),
        "of sequence 0": lambda r: r.moved(b=0),
        "of the next sequence": lambda r: r.moved(b=r.b + 1),
        "at (query, head), read as (head, query)": lambda r: r.moved(
            h=(r.h * n + r.i) % count, i=(r.h * n + r.i) // count
        ),
        "of query 0": lambda r: r.moved(i=0),
    }
    if 1 < spec.heads[1] < count:
        found["of head h // (H / G)"] = lambda r: r.moved(h=r.g)
    return found | _of_sizes(
        "of the block before (blocks of {} queries)",
        lambda r, n: r.moved(i=np.where(r.i >= n, r.i - n, r.i)),
        _below(spec.queries),
    )


def rows_elsewhere(rows: Rows) -> Named:
    """Outputs, queries, masks, biases and sinks of other rows."""
    parts = {"mask": "visible", "bias": "bias", "sink": "sinks"}
    for words, place in places_of_rows(rows).items():
        yield f"the output is that {words}", Change(rows=place)
        yield f"the query is that {words}", Change(query=place)
        for name, part in parts.items():
            if getattr(rows, part) is not None:
                other = partial(_other, place=place, part=part)
                yield f"the {name} is that {words}", Change(**{part: other})


def _other(rows: Rows, place: At, part: str) -> Tensor:
    return getattr(place(rows), part)


def splits(rows: Rows) -> list[tuple[int, str]]:
    """Return sizes of splits, and what they are called."""
    keys, found = rows.problem.spec.keys, dict[int, str]()
    for parts in (2, 3, 4, 8):
        for block in (1, *BLOCKS[:5]):
            size = -(-keys // (parts * block)) * block
            if size < keys:
                found.setdefault(size, f"({parts} splits of {size} keys)")
    return list(found.items())


def memory(rows: Rows) -> Named:
    """Arrays that are taken to lie in memory as they do not."""
    spec, source = rows.problem.spec, rows.memory
    both = spec.head_dim + spec.d_v
    views: dict[str, Callable[[Array], Array]] = {
        "(keys, heads) in memory, and read as (heads, keys)": lambda x: x.swapaxes(1, 2).reshape(
            x.shape
        ),
        "read with the other width as stride": lambda x: _strided(x, both - x.shape[3]),
    }
    if isinstance(source, str):
        place = rows.problem.place(source)
        views["read as if they had no strides"] = place.flat
        q = partial(_flat_queries, flat=place.flat)
        yield "queries are read as if they had no strides", Change(logits=q)
    for words, view in views.items():
        yield from _read(f"are {words}", *(partial(_viewed, view=view, name=name) for name in "kv"))
    if isinstance(source, Pool):
        yield from _pages(rows, source)
    if isinstance(source, Quantized):
        for words, k, v in source.mistakes():
            yield words, Change(k=_constant(k), v=_constant(v))


def _constant(array: Array | None) -> Part:
    return None if array is None else lambda _rows: array


def _flat_queries(rows: Rows, raw: Array, flat: Callable[[Array], Array]) -> Array:
    del raw
    q = rows.of(rows.once("flat queries", lambda: flat(rows.problem.q)))
    keys = rows.problem.k[rows.b[:, 0], rows.g[:, 0]]
    return rows.scored((keys @ q[:, :, None])[..., 0])


def _viewed(rows: Rows, view: Callable[[Array], Array], name: str) -> Array:
    return rows.once((view, name), lambda: view(getattr(rows.problem, name)))


def _read(words: str, k: Part, v: Part) -> Named:
    yield f"keys and values {words}", Change(k=k, v=v)
    yield f"values {words}", Change(v=v)
    yield f"keys {words}", Change(k=k)


def _strided(x: Array, stride: int) -> Array:
    batch, kv, keys, width = x.shape
    where = np.arange(batch * kv)[:, None, None] * keys * width + np.arange(keys)[:, None] * stride
    found = x.reshape(-1)[np.minimum(where + np.arange(width), x.size - 1)]
    return np.asarray(found.reshape(x.shape))


def _pages(rows: Rows, pool: Pool) -> Named:
    """Pages, and places in them, that are looked up wrongly."""
    keys, size, (batch, width) = rows.problem.spec.keys, pool.k.shape[1], pool.table.shape
    flat, used = pool.table.ravel(), -(-pool.lengths // size)
    row, j = np.arange(batch)[:, None], np.arange(keys)[None]
    page, slot, kv, most = j // size, j % size, pool.k.shape[2], int(used.max())
    is_part = (page > 0) & (page == pool.lengths[:, None] // size)
    entries: dict[str, tuple[Integers, Integers]] = {
        "of the table of sequence 0": (page + 0 * row, slot),
        "of a table as wide as the longest sequence needs": (row * most + page, slot),
        "of the first slot of the page": (row * width + page, 0 * slot),
        "of pages that change one key too late": (
            row * width + np.maximum(j - 1, 0) // size, slot,
        ),
        "of the page before where a page is not full": (row * width + page - is_part, slot),
        f"of pages of {2 * size} keys": (row * width + j // (2 * size), j % (2 * size)),
    }  # fmt: skip
    found = {words: (np.take(flat, at, mode="clip"), to) for words, (at, to) in entries.items()}
    found["of pages in order, without the table"] = (row * most + page) % len(pool.k), slot
    whole = [x.reshape(-1, kv, x.shape[-1]) for x in (pool.k, pool.v)]
    for words, (pages, slots) in found.items():
        at = np.broadcast_to(np.clip(pages * size + slots, 0, len(whole[0]) - 1), (batch, keys))
        yield from _read(f"are those {words}", *(partial(_taken, x=x, at=at) for x in whole))


def _taken(rows: Rows, x: Array, at: Array) -> Array:
    del rows
    return np.asarray(x[at].swapaxes(1, 2))


# Numbers: logits, sums, sinks, factors between blocks.


def scores(rows: Rows) -> Named:
    """Scales, and logits of hidden keys."""
    spec, d, scale = rows.problem.spec, rows.problem.spec.head_dim, rows.problem.spec.factor
    factors = {
        "the scale is applied twice": scale,
        "logits lack the factor log2(e): exp2 in the place of exp": 1.0 / LOG2E,
    }
    if spec.scale is None:
        widths = {f"of a padded width ({m})": m for m in (-(-d // n) * n for n in (16, 32, 64))}
        widths["of the width of values"] = spec.d_v
        factors |= {
            f"the scale is that {words}": float(np.sqrt(d / m))
            for words, m in widths.items() if m != d
        }  # fmt: skip
    for words, factor in factors.items():
        yield words, Change(logits=partial(Rows.scored, factor=factor))
    yield "hidden keys have the logit -10000", _with_logit(-1e4)
    words = "entries of q and k behind the last {} are left out"
    sizes = [n for n in (16, 32, 64, 8) if d % n and d > n]
    yield from _each("k", _of_sizes(words, _without_tail, sizes))


def caps(rows: Rows) -> Named:
    """Soft caps, which explain more than a mask that is not applied: so they come first."""
    cap = rows.problem.spec.soft_cap
    if cap is None:
        return
    words = "hidden keys have the logit -cap, as the soft cap comes after the mask"
    yield words, _with_logit(-cap)
    for q, k in TILES if rows.problem.mask is not None else ():
        read = partial(_whole_blocks, q=q, k=k)
        yield f"{words}, in blocks that are read ({q} queries, {k} keys)", _with_logit(-cap, read)
    yield "the soft cap is not applied", Change(logits=partial(Rows.scored, capped=False))


def _with_logit(low: float, read: At = lambda _: True) -> Change:
    """Return what a kernel does whose hidden keys have a logit, where blocks are read."""
    return Change(
        visible=lambda r: (r.j < r.keys) & read(r),
        logits=lambda r, raw: np.where(r.visible, r.scored(raw), low),
    )


def _without_tail(rows: Rows, n: int) -> Array:
    k, d = rows.problem.k, rows.problem.spec.head_dim
    return np.where(np.arange(d) < d // n * n, k, 0.0)


def biases(rows: Rows) -> Named:
    """What is added to logits."""
    if rows.bias is not None:
        yield "the bias is not added", Change(bias=lambda r: 0.0 * r.bias)


def denominators(rows: Rows) -> Named:
    """Sums of weights that count something else."""
    if rows.sinks is not None:
        yield "the sink is ignored", Change(sinks=lambda r: r.sinks - np.inf)
        words = "the sink counts in each split ({} splits)"
        yield from _each("sinks", _of_sizes(words, lambda r, n: r.sinks + np.log(n), (2, 3, 4, 8)))
    words = "keys of zeros count, up to a multiple of {}"
    yield from _each("weights", _of_sizes(
        words, lambda r, logits, n: softmax(r, logits, zeros=-r.keys % n), BLOCKS
    ))  # fmt: skip


def blocks_and_splits(rows: Rows) -> Named:
    """Wrong factors between blocks of keys, and between splits."""
    for words, is_sum in (
        ("the accumulator is not rescaled (blocks of {} keys)", False),
        ("sums are not rescaled (blocks of {} keys)", True),
    ):
        fades = _of_sizes(words, partial(fading, is_sum=is_sum), _below(rows.problem.spec.keys))
        yield from _each("weights", fades)
    scale = rows.problem.spec.factor
    shares: dict[str, Callable[[Array], Array]] = {  # what is taken for log-sum-exps of splits
        "log-sum-exps of splits are multiplied by the scale once more": lambda lse: lse * scale,
        "splits without keys have the log-sum-exp 0": partial(np.nan_to_num, neginf=0.0),
    }
    for n, size in splits(rows):
        for words, share in shares.items():
            yield f"{words} {size}", Change(weights=partial(of_splits, share=share, n=n))
        yield f"splits are added without their maxima {size}", Change(weights=partial(_added, n=n))


def _added(rows: Rows, logits: Array, n: int) -> tuple[Array, Array]:
    del rows
    weights, _, totals = of_each_split(logits, n)
    return weights, totals.sum(-1, keepdims=True)


FAMILIES: tuple[Callable[[Rows], Named], ...] = (
    caps, memory, diagonals, windows, lengths, blocks_of_masks, rows_elsewhere,
    scores, biases, denominators, blocks_and_splits,
)  # fmt: skip
