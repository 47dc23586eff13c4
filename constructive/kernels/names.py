"""Classic mistakes: a sentence and a `Change` each. A new mistake is a line.

Most are products: a place that is wrong (of rows, of keys) times the part that is taken from there
(output, query, mask, .., values). Keys that are lost or count more have no names: `describe` says
which. Sizes of blocks come last in a sentence, in brackets. A name that no bug of a stranger has
needed may go: rows are described without it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from constructive.kernels.encodings import Quantized
from constructive.kernels.formula import (
    Change,
    Part,
    Rows,
    exp,
    fading,
    largest,
    of_each_split,
    of_splits,
    softmax,
)
from constructive.kernels.inputs import PLACES, Pool
from constructive.kernels.masks import Causal, LeftPadding, Mask, Prefix, Window
from constructive.support.arrays import Array, Booleans, Integers

BLOCKS = (16, 32, 64, 128, 8, 24, 48)
TILES = ((16, 16), (32, 32), (64, 64), (32, 64), (128, 64), (64, 128), (32, 48))
At = Callable[[Rows], Any]
Of = dict[str, At]
Weighed = Callable[[Rows, Array], Any]
Named = Iterator[tuple[str, Change]]
LOG2E = float(np.log2(np.e))
# Places of rows that are tried for log-sum-exps of splits
_OF_SPLITS = (
    "of the first row of the block (blocks of 16 queries)", "of the next head",
    "of the previous head",
)  # fmt: skip
_WHOLE = 2**21  # logits of a problem of which all may be computed


def mistakes(rows: Rows) -> dict[str, Change]:
    """Return all mistakes that have a meaning for a problem."""
    return {words: change for family in FAMILIES for words, change in family(rows)}


# Places: masks, rows, keys, heads, sequences, memory.


def without(rows: Rows, mask: Mask | None) -> Booleans:
    """Return what is visible by all masks but one."""
    spec = rows.problem.spec
    found: Booleans = rows.of(rows.once(("without", mask), lambda: spec.visible(but=mask)))
    return found


def _masked(words: str, mask: Mask | None, seen: Of) -> Named:
    """Yield masks in the place of one."""
    for name, of in seen.items():
        yield f"{words} {name}", _seen(mask, of)


def _seen(mask: Mask | None, of: At) -> Change:
    return Change(visible=lambda r: without(r, mask) & of(r))


def _up_to(ends: Of) -> Of:
    """Return which keys are seen, by the last one."""
    return {words: partial(_ends_at, end=end) for words, end in ends.items()}


def _ends_at(rows: Rows, end: At) -> Booleans:
    return np.asarray(rows.j <= end(rows))


def diagonals(rows: Rows) -> Named:
    """Ends of a causal mask that are elsewhere."""
    spec = rows.problem.spec
    mask = spec.mask(Causal) or spec.mask(Prefix)
    if mask is None:
        return
    shifts, group = spec.lengths[1] - spec.lengths[0], spec.group
    is_right = mask.alignment == "bottom-right"
    other = "top-left" if is_right else "bottom-right"
    ends: Of = {
        "lets one key of the future through": lambda r: r.at + 1,
        "hides the query's own key": lambda r: r.at - 1,
        "is not applied": lambda r: r.keys,
        f"is aligned {other}, not {mask.alignment}": lambda r: r.i + shifts[r.b] * (not is_right),
        "takes query // group for the query": lambda r: r.i // group + r.at - r.i,
    }
    if is_right and (spec.lengths[1] != spec.keys).any():
        own = {"ends at the last key in memory, not at that of the sequence": _in_memory}
        ends = own | ends
    yield from _masked("the causal mask", mask, _up_to(ends))


def _in_memory(rows: Rows) -> Integers:
    return np.asarray(rows.i + rows.problem.spec.keys - rows.problem.spec.queries)


def blocks_of_masks(rows: Rows) -> Named:
    """Blocks that masks hide as a whole or not at all."""
    if rows.problem.mask is not None:
        for q, k in TILES:
            if k >= rows.problem.spec.keys:
                continue  # it hides nothing
            words = f"masks hide whole blocks alone (blocks of {q} queries and {k} keys)"
            yield words, Change(visible=partial(_whole_blocks, q=q, k=k))


def _whole_blocks(rows: Rows, q: int, k: int) -> Booleans:
    def any_of_blocks() -> Booleans:
        seen = rows.problem.visible
        seen = np.logical_or.reduceat(seen, np.arange(0, seen.shape[2], q), axis=2)
        return np.logical_or.reduceat(seen, np.arange(0, seen.shape[3], k), axis=3)

    blocks: Booleans = rows.once(("blocks", q, k), any_of_blocks)
    ends = zip((rows.b, rows.h, rows.i // q), blocks.shape, strict=False)
    found: Booleans = blocks[(*(np.minimum(x, n - 1) for x, n in ends), rows.j // k)]
    return found


def windows(rows: Rows) -> Named:
    """Windows of another size, or at another place."""
    spec = rows.problem.spec
    mask = spec.mask(Window)
    if mask is None:
        return
    left, right = (np.inf if x is None else x for x in (mask.left, mask.right))
    sides: dict[str, tuple[float, float]] = {
        "is not applied": (np.inf, np.inf),
        "is one key longer on the left": (left + 1, right),
        "has no right side": (left, np.inf),
    }

    def around(at: At, low: float, high: float) -> At:
        return lambda r: (r.j >= at(r) - low) & (r.j <= at(r) + high)

    def of_block(n: int) -> At:
        return around(lambda r: r.at - r.i % n, left, right)

    found = {words: around(lambda r: r.at, *ends) for words, ends in sides.items()}

    def from_block(n: int) -> At:
        return lambda r: (r.j >= -(-(r.at - left) // n) * n) & (r.j <= r.at + right)

    for n in BLOCKS:
        found[f"is that of the first row of its block (blocks of {n} queries)"] = of_block(n)
        found[f"starts at the next block (blocks of {n} keys)"] = from_block(n)
    yield from _masked("the window", mask, found)


def lengths(rows: Rows) -> Named:
    """Ends and starts of sequences that are elsewhere."""
    spec = rows.problem.spec
    ends: Of = {"is not applied": lambda _: spec.keys}

    def of_block(n: int) -> Of:
        return {
            f"is rounded up to a block (blocks of {n})": lambda r: -(-r.keys // n) * n - 1,
            f"is rounded down to a block (blocks of {n})": lambda r: r.keys // n * n - 1,
        }

    for n in BLOCKS:
        ends |= of_block(n)
    of_lengths = (m for m in spec.masks if (m.key_lengths(spec.batch, spec.keys) < spec.keys).any())
    mask = next(of_lengths, None)
    if mask is not None:
        ends["is one key too short"] = lambda r: r.keys - 2
    yield from _masked("the length of a sequence", mask, _up_to(ends))
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
        "of the row before": lambda r: r.moved(i=r.i - 1),
        "of the row behind": lambda r: r.moved(i=r.i + 1),
        "of the next head": lambda r: r.moved(h=r.h + 1),
        "of the previous head": lambda r: r.moved(h=r.h - 1),
        "of head 0": lambda r: r.moved(h=0),
        "of sequence 0": lambda r: r.moved(b=0),
        "of the next sequence": lambda r: r.moved(b=r.b + 1),
        "at (query, head), read as (head, query)": lambda r: r.moved(
            h=(r.h * n + r.i) % count, i=(r.h * n + r.i) // count
        ),
        "at (head, query), read as (query, head)": lambda r: r.moved(
            h=(r.i * count + r.h) // n, i=(r.i * count + r.h) % n
        ),
        "of query 0": lambda r: r.moved(i=0),
    }

    if 1 < spec.heads[1] < count:
        found["of head h % G"] = lambda r: r.moved(h=r.h % spec.heads[1])
        found["of head h // (H / G)"] = lambda r: r.moved(h=r.g)

    def of_block(m: int) -> Of:
        size = f"(blocks of {m} queries)"
        return {
            f"of the block before {size}": lambda r: r.moved(i=np.where(r.i >= m, r.i - m, r.i)),
            f"of the first row of the block {size}": lambda r: r.moved(i=r.i // m * m),
        }

    for m in (m for m in BLOCKS if m < n):
        found |= of_block(m)
    return found


def rows_elsewhere(rows: Rows) -> Named:
    """Outputs, queries, masks, biases and sinks of other rows."""
    parts = ["visible"] + ["bias"] * (rows.bias is not None) + ["sinks"] * (rows.sinks is not None)
    called = {"visible": "mask", "bias": "bias", "sinks": "sink"}
    for words, place in places_of_rows(rows).items():
        yield f"the output is that {words}", Change(rows=place)
        yield f"the query is that {words}", Change(query=place)
        for part in parts:
            other = partial(_other, place=place, part=part)
            yield f"the {called[part]} is that {words}", Change(**{part: other})


def _other(rows: Rows, place: At, part: str) -> Any:  # noqa: ANN401
    return getattr(place(rows), part)


def keys_elsewhere(rows: Rows) -> Named:
    """Keys and values of other places."""
    spec = rows.problem.spec
    batch, (count, kv) = spec.batch, spec.heads
    columns: Of = {
        "of the key before": lambda r: r.j - 1,
        "of the key behind": lambda r: r.j + 1,
    }

    def of_block(n: int) -> At:
        return lambda r: np.where(r.j >= n, r.j - n, r.j)

    for n in (n for n in BLOCKS if n < spec.keys):
        columns[f"of the block before (blocks of {n})"] = of_block(n)
    places: Of = {
        "of KV head h % G": lambda r: (r.b, r.h % kv, r.j),
        "of KV head 0": lambda r: (r.b, 0, r.j),
        "of sequence 0": lambda r: (0, r.g, r.j),
        "of sequence p mod B of program p = b H + h": lambda r: (
            (r.b * count + r.h) % batch, (r.b * count + r.h) // batch // spec.group, r.j,
        ),
    }  # fmt: skip
    where = {words: partial(_address, place=place) for words, place in places.items()}
    for words, at in columns.items():
        where[words] = partial(_column, at=at)
    for words, address in where.items():
        yield f"keys and values are those {words}", Change(keys=address, values=address)
        yield f"values are those {words}", Change(values=address)
        yield f"keys are those {words}", Change(keys=address)


def _address(rows: Rows, place: At) -> Integers:
    found: Integers = rows.address(*place(rows))
    return found


def _column(rows: Rows, at: At) -> Integers:
    return rows.address(rows.b, rows.g, np.clip(at(rows), 0, rows.problem.spec.keys - 1))


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
    kv, b, keys, both = spec.heads[1], spec.batch, spec.keys, spec.head_dim + spec.d_v
    views: dict[str, Callable[[Array], Array]] = {
        "(keys, heads) in memory, and read as (heads, keys)": lambda x: x.swapaxes(1, 2).reshape(
            x.shape
        ),
        "(heads, keys) in memory, and read as (keys, heads)": lambda x: x.reshape(
            b, keys, kv, -1
        ).swapaxes(1, 2),
        "read with the other width as stride": lambda x: _strided(x, both - x.shape[3]),
    }
    if isinstance(source, str):
        place = PLACES[source]
        if place.of_values:
            of_keys = partial(_viewed, view=place.flat, name="v")
            yield "values are read with the strides of keys", Change(v=of_keys)
        else:
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
    found: Array = rows.once((view, name), lambda: view(getattr(rows.problem, name)))
    return found


def _read(words: str, k: Part, v: Part) -> Named:
    yield f"keys and values {words}", Change(k=k, v=v)
    yield f"values {words}", Change(v=v)
    yield f"keys {words}", Change(k=k)


def _strided(x: Array, stride: int) -> Array:
    batch, kv, keys, width = x.shape
    where = np.arange(batch * kv)[:, None, None] * keys * width + np.arange(keys)[:, None] * stride
    found: Array = x.reshape(-1)[np.minimum(where + np.arange(width), x.size - 1)]
    return found.reshape(x.shape)


def _pages(rows: Rows, pool: Pool) -> Named:
    """Pages, and places in them, that are looked up wrongly."""
    keys, size, (batch, width) = rows.problem.spec.keys, pool.k.shape[1], pool.table.shape
    flat, used = pool.table.ravel(), -(-pool.lengths // size)
    row, j = np.arange(batch)[:, None], np.arange(keys)[None]
    page, slot, kv, most = j // size, j % size, pool.k.shape[2], int(used.max())
    is_part = (page > 0) & (page == pool.lengths[:, None] // size)
    entries: dict[str, tuple[Any, Any]] = {
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
    found: Array = x[at]
    return found.swapaxes(1, 2)


# Numbers: logits, sums, sinks, factors between blocks.


def scores(rows: Rows) -> Named:
    """Scales, and logits of hidden keys."""
    problem, spec, d = rows.problem, rows.problem.spec, rows.problem.spec.head_dim
    scale = spec.factor
    factors = {
        "logits are not scaled": 1.0 / scale,
        "the scale is applied twice": scale,
        "logits have the factor log2(e)": LOG2E,
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
    yield "hidden keys have the logit 0", _with_logit(0.0)
    yield "hidden keys have the logit -10000", _with_logit(-1e4)
    of_raw: dict[str, Weighed] = {}
    if problem.answer.weights.size <= _WHOLE:
        yield "softmax is over queries, not over keys", Change(weights=_over_queries)
        if spec.queries == spec.keys:
            of_raw["logits are transposed"] = lambda r, _: r.scored(
                r.of(_products(r).swapaxes(2, 3))
            )
    for words, logits in of_raw.items():
        yield words, Change(logits=logits)
    for n in (n for n in (16, 32, 64, 8) if d % n and d > n):
        kept = partial(_without_entries, end=d // n * n)
        yield f"entries of q and k behind the last {n} are left out", Change(k=kept)


def caps(rows: Rows) -> Named:
    """Soft caps, which explain more than a mask that is not applied: so they come first."""
    cap, scale = rows.problem.spec.soft_cap, rows.problem.spec.factor
    if cap is None:
        return
    words = "hidden keys have the logit -cap, as the soft cap comes after the mask"
    yield words, _with_logit(-cap)
    for q, k in TILES if rows.problem.mask is not None else ():
        read = partial(_whole_blocks, q=q, k=k)
        yield f"{words}, in blocks that are read ({q} queries, {k} keys)", _with_logit(-cap, read)
    yield "the soft cap is not applied", Change(logits=partial(Rows.scored, capped=False))
    yield (
        "the soft cap is applied before the scale",
        Change(logits=lambda _, raw: cap * np.tanh(raw / cap) * scale),
    )


def _with_logit(low: float, read: At = lambda _: True) -> Change:
    """Return what a kernel does whose hidden keys have a logit, where blocks are read."""
    logits = partial(_lowered, low=low)
    return Change(visible=lambda r: (r.j < r.keys) & read(r), logits=logits)


def _lowered(rows: Rows, raw: Array, low: float) -> Array:
    return np.where(rows.visible, rows.scored(raw), low)


def _without_entries(rows: Rows, end: int) -> Array:
    k = rows.problem.k
    return np.where(np.arange(k.shape[-1]) < end, k, 0.0)


def _products(rows: Rows) -> Array:
    """Return products of all queries and keys of a problem, (B, H, T_q, T_k)."""
    problem = rows.problem

    def made() -> Array:
        found: Array = problem.q @ np.repeat(problem.k, problem.spec.group, 1).swapaxes(-1, -2)
        return found

    found: Array = rows.once("products", made)
    return found


def _over_queries(rows: Rows, logits: Array) -> tuple[Array, float]:
    """Return weights that are divided by the sum over the queries that see a key."""

    def sums() -> tuple[Array, Array]:
        problem, each = rows.problem, rows.capped(_products(rows))
        each = each if problem.bias is None else each + problem.bias
        each = np.where(problem.visible, each, -np.inf)
        top = each.max(2, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        return top, exp(each - top).sum(2, keepdims=True)

    top, total = (rows.of(x) for x in rows.once("sums over queries", sums))
    return exp(logits - top) / np.where(total > 0, total, 1.0), 1.0


def biases(rows: Rows) -> Named:
    """What is added to logits."""
    if rows.bias is not None:
        yield "the bias is not added", Change(bias=lambda r: 0.0 * r.bias)
        yield "the bias is subtracted", Change(bias=lambda r: -r.bias)
    if rows.problem.slopes is not None:
        slopes: Array = rows.problem.slopes
        for n in (n for n in BLOCKS if n < rows.problem.spec.keys):
            words = f"ALiBi counts keys from the start of their block (blocks of {n} keys)"
            yield words, Change(bias=partial(_sloped, slopes=slopes, n=n))


def _sloped(rows: Rows, slopes: Array, n: int) -> Array:
    return np.asarray(-slopes[rows.h] * np.abs(rows.at - rows.j % n))


def denominators(rows: Rows) -> Named:
    """Sums of weights that count something else."""

    def zeros(n: int) -> Change:
        return Change(weights=lambda r, logits: softmax(r, logits, zeros=-r.keys % n))

    if rows.sinks is not None:
        yield "the sink is ignored", Change(sinks=lambda r: r.sinks - np.inf)
        yield "the sink is scaled", Change(sinks=lambda r: r.sinks * r.problem.spec.factor)
        for n in (2, 3, 4, 8):
            words = f"the sink counts in each split ({n} splits)"
            yield words, Change(sinks=partial(_more_often, times=n))
    for n in BLOCKS:
        yield f"keys of zeros count, up to a multiple of {n}", zeros(n)
    yield "the sum of weights has hidden keys, too", Change(weights=_with_hidden)


def _more_often(rows: Rows, times: int) -> Array:
    return np.asarray(rows.sinks + np.log(times))


def _with_hidden(rows: Rows, logits: Array) -> tuple[Array, Array]:
    weights, total = softmax(rows, logits)
    seen = np.isfinite(logits) | (rows.j >= rows.keys)
    hidden = exp(np.where(seen, -np.inf, rows.scores) - largest(rows, logits))
    return weights, total + hidden.sum(-1, keepdims=True)


def blocks_and_splits(rows: Rows) -> Named:
    """Wrong factors between blocks of keys, and between splits."""
    for n in (n for n in BLOCKS if n < rows.problem.spec.keys):
        for words, is_sum in (
            ("the accumulator is not rescaled", False), ("sums are not rescaled", True),
        ):  # fmt: skip
            change = Change(weights=partial(fading, is_sum=is_sum, n=n))
            yield f"{words} (blocks of {n} keys)", change
    scale = rows.problem.spec.factor
    shares: dict[str, Callable[[Array], Array]] = {
        # of the log-sum-exps of splits: what is taken for them
        "log-sum-exps of splits have base two, and are merged in base e": lambda lse: LOG2E * lse,
        "log-sum-exps of splits have base e, and are merged in base two": lambda lse: lse / LOG2E,
        "log-sum-exps of splits are multiplied by the scale once more": lambda lse: lse * scale,
        "splits without keys have the log-sum-exp 0": lambda lse: np.where(
            np.isneginf(lse), 0.0, lse
        ),
    }
    places = {words: place for words, place in places_of_rows(rows).items() if words in _OF_SPLITS}
    for n, size in splits(rows):
        for words, share in shares.items():
            yield f"{words} {size}", Change(weights=partial(of_splits, share=share, n=n))
        yield f"splits are added without their maxima {size}", Change(weights=partial(_added, n=n))
        for words, place in places.items():
            change = Change(weights=partial(of_splits, n=n, place=place))
            yield f"log-sum-exps of splits are those {words} {size}", change


def _added(rows: Rows, logits: Array, n: int) -> tuple[Array, Array]:
    del rows
    weights, _, totals = of_each_split(logits, n)
    return weights, totals.sum(-1, keepdims=True)


FAMILIES: tuple[Callable[[Rows], Named], ...] = (
    caps, memory, diagonals, windows, lengths, blocks_of_masks, keys_elsewhere, rows_elsewhere,
    scores, biases, denominators, blocks_and_splits,
)  # fmt: skip
