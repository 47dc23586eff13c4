"""Classic mistakes: a sentence and a `Change` each. A new mistake is a line.

Most are products: a place that is wrong (of rows, of keys) times the part that is taken from there
(output, query, mask, .., values), or a set of keys times what happens to it (it is not read, it
counts twice, ..). Sizes of blocks come last in a sentence, in brackets. A name that no bug of a
stranger has needed may go: rows are described without it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from constructive.exact.formats import FORMATS, Format, nearest
from constructive.kernels.formula import (
    Change,
    Part,
    Rows,
    exp,
    fading,
    largest,
    of_splits,
    softmax,
)  # fmt: skip
from constructive.kernels.masks import Boolean, Causal, Given, LeftPadding, Mask, Prefix, Window
from constructive.kernels.paged import Pool
from constructive.kernels.places import PLACES
from constructive.support.arrays import Array, Booleans

BLOCKS = (16, 32, 64, 128, 8, 24, 48)
TILES = ((16, 16), (32, 32), (64, 64), (32, 64), (128, 64), (64, 128), (32, 48))
LOG2E = float(np.log2(np.e))
_ROUGH = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
_OF_SPLITS = (
    "of the next head", "of the previous head", "of head 0", "of the next sequence", "of query 0",
    "at (head, query), read as (query, head)",
    "of the first row of the block (blocks of 16 queries)",
)  # fmt: skip # places of log-sum-exps, which are tried for all sizes of splits
_WHOLE = 2**21  # logits of a problem of which all may be computed
Named = Iterator[tuple[str, Change]]
Of = dict[str, Callable[[Rows], Any]]
Weighed = Callable[[Rows, Array], Any]


def mistakes(rows: Rows) -> dict[str, Change]:
    """Return all mistakes that have a meaning for a problem."""
    return {words: change for family in FAMILIES for words, change in family(rows)}


def without(rows: Rows, mask: Mask | None) -> Booleans:
    """Return what is visible by all masks but one."""
    spec = rows.problem.spec
    return rows.of(rows.once(("without", mask), lambda: spec.visible(but=mask)))


def diagonals(rows: Rows) -> Named:
    """Ends of a causal mask that are elsewhere."""
    spec = rows.problem.spec
    mask = spec.mask(Causal) or spec.mask(Prefix)
    if mask is None:
        return
    shifts, last = spec.lengths[1] - spec.lengths[0], spec.queries - 1
    is_right = mask.alignment == "bottom-right"
    other = "top-left" if is_right else "bottom-right"
    ends: Of = {
        "lets one key of the future through": lambda r: r.at + 1,
        "hides the query's own key": lambda r: r.at - 1,
        "is not applied": lambda r: r.keys,
        f"is aligned {other}, not {mask.alignment}": lambda r: r.i + shifts[r.b] * (not is_right),
        "has an offset that is cut off at zero": lambda r: np.maximum(r.at, r.i),
        "has its offset negated": lambda r: 2 * r.i - r.at,
        "takes lengths in memory for those of the sequence": lambda r: (
            r.i + spec.keys - spec.queries
        ),
        "has the offset of sequence 0": lambda r: r.i + shifts[0] * is_right,
        "takes query // group for the query": lambda r: r.i // spec.group + r.at - r.i,
        "takes query * group + the head's number in the group for the query": lambda r: (
            r.i * spec.group + r.h % spec.group + r.at - r.i
        ),
        "takes rows of a group for queries that follow each other": lambda r: (
            (r.h % spec.group * spec.queries + r.i) // spec.group + r.at - r.i
        ),
        "takes every query for the last one": lambda r: r.keys - 1,
    }
    for q, k in TILES:
        size = f"(blocks of {q} queries and {k} keys)"
        first = partial(lambda r, q: r.at - r.i % q, q=q)
        end = partial(lambda r, q: r.at - r.i + np.minimum(r.i // q * q + q - 1, last), q=q)
        ends |= {
            f"hides whole blocks alone, nothing inside of the last one {size}": lambda r, k=k, end=end: (  # noqa: E501
                end(r) // k * k + k - 1
            ),
            f"is that of the last row of each block of queries {size}": end,
            f"is that of the first row of each block of queries {size}": first,
            f"ends before the block of the diagonal {size}": lambda r, k=k, end=end: np.minimum(
                r.at, end(r) // k * k - 1
            ),
            f"ends with the block of keys of the first row of each block {size}": (
                lambda r, k=k, first=first: np.minimum(r.at, first(r) // k * k + k - 1)
            ),
            f"ends with the block of keys of the top-left diagonal {size}": lambda r, q=q, k=k: (
                np.minimum(r.at, (r.i // q * q + q - 1) // k * k + k - 1)
            ),
            f"drops an odd block at the end of the loop {size}": lambda r, k=k, end=end: np.where(
                end(r) < k, r.at, np.minimum(r.at, (end(r) // k + 1) // 2 * 2 * k - 1)
            ),
        }
    for words, end in ends.items():
        yield f"the causal mask {words}", _seen(lambda r, end=end: r.j <= end(r), mask)


def _seen(of: Callable[[Rows], Booleans], mask: Mask | None) -> Change:
    """Return the change of one mask into another."""
    return Change(visible=lambda r: without(r, mask) & of(r))


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
        "is one key shorter on the left": (left - 1, right),
        "is one key longer on the right": (left, right + 1),
        "is one key shorter on the right": (left, right - 1),
        "has no left side": (np.inf, right),
        "has no right side": (left, np.inf),
        "has left and right exchanged": (right, left),
        "has the left size on both sides": (left, left),
        "of 0 keys is unlimited": (left or np.inf, right),
        "is half as long": (left // 2, right),
    }
    inside = lambda r, at, low, high: (r.j >= at - low) & (r.j <= at + high)  # noqa: E731
    for words, (low, high) in sides.items():
        change = _seen(lambda r, low=low, high=high: inside(r, r.at, low, high), mask)
        yield f"the window {words}", change
    places: Of = {"has the other alignment": lambda r: 2 * r.i - r.at + r.keys - r.queries}
    for q in BLOCKS:
        at = partial(lambda r, q: r.at - r.i % q, q=q)
        places[f"is that of the first row of its block (blocks of {q} queries)"] = at
    for words, at in places.items():
        yield f"the window {words}", _seen(lambda r, at=at: inside(r, at(r), left, right), mask)
    causal = spec.mask(Causal)
    yield "the window takes the place of the causal mask", _seen(lambda r: r.visible | True, causal)


def lengths(rows: Rows) -> Named:
    """Ends and starts of sequences that are elsewhere, and masks that are given."""
    spec = rows.problem.spec
    batch, keys = spec.batch, spec.lengths[1]
    ends: Of = {
        "is not applied": lambda r: r.keys * 0 + spec.keys,
        "is one too long": lambda r: r.keys + 1,
        "is one too short": lambda r: r.keys - 1,
        "is that of sequence 0": lambda r: r.keys * 0 + keys[0],
        "is that of the next sequence": lambda r: keys[(r.b + 1) % batch],
        "is that of the sequence before": lambda r: keys[r.b - 1],
    }
    for n in BLOCKS:
        ends[f"is rounded up to a block (blocks of {n})"] = lambda r, n=n: -(-r.keys // n) * n
        ends[f"is rounded down to a block (blocks of {n})"] = lambda r, n=n: r.keys // n * n
    of_lengths = (m for m in spec.masks if (m.key_lengths(batch, spec.keys) < spec.keys).any())
    padding = next(of_lengths, None)
    for words, end in ends.items():
        change = _seen(lambda r, end=end: r.j < end(r), padding)
        yield f"the length of a sequence {words}", change
    mask = spec.mask(LeftPadding)
    if mask is not None:
        starts = np.array(mask.starts)
        seen: Of = {
            "is read": lambda r: r.j >= 0,
            "is one key too short": lambda r: r.j >= starts[r.b] - 1,
            "is one key too long": lambda r: r.j > starts[r.b],
            "is taken to be on the right": lambda r: r.j < r.keys - starts[r.b],
        }
        yield from ((f"left padding {words}", _seen(some, mask)) for words, some in seen.items())
    given = spec.mask(Boolean) or spec.mask(Given)
    if given is None:
        return
    free = lambda r: without(r, given)  # noqa: E731
    yield "the given mask is not applied", Change(visible=free)
    yield "the given mask is inverted", Change(visible=lambda r: free(r) & ~r.visible)
    added = Change(visible=free, logits=lambda r, raw: r.scored(raw) + r.visible)
    yield "the given mask is added as 0 and 1", added
    if spec.keys == spec.queries:
        whole = np.broadcast_to(rows.problem.visible, rows.problem.answer.weights.shape)
        yield "the given mask is transposed", Change(visible=lambda r: r.of(whole.swapaxes(2, 3)))


def places_of_rows(rows: Rows) -> Of:
    """Return other rows in the place of rows, by what they are called."""
    spec = rows.problem.spec
    (count, kv), group, n = spec.heads, spec.group, spec.queries
    flat, turned = lambda r: r.h * n + r.i, lambda r: r.i * count + r.h
    found: Of = {
        "of the row before": lambda r: r.moved(i=r.i - 1),
        "of the row behind": lambda r: r.moved(i=r.i + 1),
        "of head h mod G * group + h // G": lambda r: r.moved(h=r.h % kv * group + r.h // kv),
        "of head h mod group * G + h // group": lambda r: r.moved(h=r.h % group * kv + r.g),
        "of the next head": lambda r: r.moved(h=r.h + 1),
        "of the previous head": lambda r: r.moved(h=r.h - 1),
        "of heads in reverse": lambda r: r.moved(h=count - 1 - r.h),
        "of head 0": lambda r: r.moved(h=0),
        "of head g, the number of the KV head": lambda r: r.moved(h=r.g),
        "of the first head of the group": lambda r: r.moved(h=r.g * group),
        "of head h mod G": lambda r: r.moved(h=r.h % kv),
        "of head h mod group": lambda r: r.moved(h=r.h % group),
        "of a group in reverse": lambda r: r.moved(h=r.g * group + group - 1 - r.h % group),
        "of sequence 0": lambda r: r.moved(b=0),
        "of the next sequence": lambda r: r.moved(b=r.b + 1),
        "at (query, head), read as (head, query)": lambda r: r.moved(
            h=flat(r) % count, i=flat(r) // count
        ),
        "at (head, query), read as (query, head)": lambda r: r.moved(
            h=turned(r) // n, i=turned(r) % n
        ),
        "of queries in reverse": lambda r: r.moved(i=n - 1 - r.i),
        "of query 0": lambda r: r.moved(i=0),
    }
    for m in (m for m in (*BLOCKS, 4) if m < n):
        size = f"(blocks of {m} queries)"
        late = partial(lambda r, m: n // m * m + r.i - (n - m), m=m)
        found |= {
            f"of the block before {size}": lambda r, m=m: r.moved(
                i=np.where(r.i >= m, r.i - m, r.i)
            ),
            f"of the first row of the block {size}": lambda r, m=m: r.moved(i=r.i // m * m),
            f"of the first block {size}": lambda r, m=m: r.moved(i=r.i % m),
            f"of later rows in the last block, moved back to be full {size}": (
                lambda r, m=m, late=late: r.moved(i=np.where(r.i >= n - m, late(r), r.i))
            ),
        }
    return found


def rows_elsewhere(rows: Rows) -> Named:
    """Outputs, queries, masks, biases and sinks of other rows."""
    for words, place in places_of_rows(rows).items():
        yield f"the output is that {words}", Change(rows=place)
        yield f"the query is that {words}", Change(query=place)
        yield f"the mask is that {words}", Change(visible=lambda r, place=place: place(r).visible)
        if rows.bias is not None:
            yield f"the bias is that {words}", Change(bias=lambda r, place=place: place(r).bias)
        if rows.sinks is not None:
            yield f"the sink is that {words}", Change(sinks=lambda r, place=place: place(r).sinks)


def keys_elsewhere(rows: Rows) -> Named:
    """Keys and values of other places, and columns of masks and biases."""
    spec = rows.problem.spec
    count, kv = spec.heads
    columns: Of = {
        "of the key before": lambda r: r.j - 1,
        "of the key behind": lambda r: r.j + 1,
        "of keys in reverse": lambda r: r.keys - 1 - r.j,
        "of the first key": lambda r: r.j * 0,
    }
    for n in (n for n in BLOCKS if n < spec.keys):
        size = f"(blocks of {n})"
        columns |= {
            f"of the block before {size}": lambda r, n=n: np.where(r.j >= n, r.j - n, r.j),
            f"of the first block, in each block {size}": lambda r, n=n: r.j % n,
            f"of the other half of the block {size}": lambda r, n=n: (
                r.j // n * n + (r.j + n // 2) % n
            ),
            f"of the block before, in every other block {size}": lambda r, n=n: (
                r.j - n * (r.j // n % 2)
            ),
            f"that lag behind where blocks are skipped {size}": partial(_lagging, n=n),
        }
    program = lambda r: r.b * count + r.h  # noqa: E731
    places: Of = {
        "of KV head h % G": lambda r: (r.b, r.h % kv, r.j),
        "of KV head 0": lambda r: (r.b, 0, r.j),
        "of KV head min(h, G - 1)": lambda r: (r.b, np.minimum(r.h, kv - 1), r.j),
        "of the next KV head": lambda r: (r.b, (r.g + 1) % kv, r.j),
        "of KV heads in reverse": lambda r: (r.b, kv - 1 - r.g, r.j),
        "of sequence 0": lambda r: (0, r.g, r.j),
        "of the next sequence": lambda r: ((r.b + 1) % spec.batch, r.g, r.j),
        "of sequence p mod B of program p = b H + h": lambda r: (
            program(r) % spec.batch, program(r) // spec.batch // spec.group, r.j,
        ),
    }  # fmt: skip
    clipped = lambda j: np.clip(j, 0, spec.keys - 1)  # noqa: E731
    places |= {words: lambda r, at=at: (r.b, r.g, clipped(at(r))) for words, at in columns.items()}
    for words, place in places.items():
        where = partial(lambda r, place: r.address(*place(r)), place=place)
        yield f"keys and values are those {words}", Change(keys=where, values=where)
        yield f"values are those {words}", Change(values=where)
        yield f"keys are those {words}", Change(keys=where)
    has_mask = spec.mask(Boolean) or spec.mask(Given)
    for words, at in columns.items():
        turned = partial(_turned, at=lambda r, at=at: clipped(at(r)))
        if has_mask:
            change = Change(visible=lambda r, turned=turned: turned(r, r.visible))
            yield f"columns of the mask are those {words}", change
        if rows.bias is not None:
            change = Change(bias=lambda r, turned=turned: turned(r, r.bias))
            yield f"columns of the bias are those {words}", change


def _turned(rows: Rows, x: Array, at: Callable[[Rows], Any]) -> Array:
    return np.take_along_axis(x, np.broadcast_to(at(rows), x.shape), axis=1)


def _lagging(rows: Rows, n: int) -> Array:
    """Return places of keys where each block that is seen comes at once behind the one before."""
    starts = np.arange(0, rows.j.shape[1], n)
    seen = np.logical_or.reduceat(rows.visible, starts, axis=1)
    found: Array = rows.j - np.cumsum(~seen, axis=1)[:, rows.j[0] // n] * n
    return found


def _splits(rows: Rows) -> list[tuple[int, str]]:
    """Return sizes of splits, and what they are called."""
    keys, found = rows.problem.spec.keys, dict[int, str]()
    for parts in (2, 3, 4, 8):
        for block in (1, *BLOCKS[:5]):
            size = -(-keys // (parts * block)) * block
            if size < keys:
                found.setdefault(size, f"({parts} splits of {size} keys)")
    return list(found.items())


def sets_of_keys(rows: Rows) -> Named:
    """Keys that are lost, or count twice."""
    begin = lambda r: r.visible.argmax(-1)[:, None]  # noqa: E731
    end = lambda r: r.visible.shape[1] - 1 - r.visible[:, ::-1].argmax(-1)[:, None]  # noqa: E731
    sets: Of = {
        "the first key": lambda r: r.j == 0,
        "the last key": lambda r: r.j == r.keys - 1,
    }
    for n in (n for n in BLOCKS if n < rows.problem.spec.keys):
        size = f"(blocks of {n} keys)"
        sets |= {
            f"the first block {size}": lambda r, n=n: r.j < n,
            f"the second block {size}": lambda r, n=n: r.j // n == 1,
            f"the last block {size}": lambda r, n=n: r.j // n == end(r) // n,
            f"all but the last block {size}": lambda r, n=n: r.j // n != end(r) // n,
            f"the last key of each block {size}": lambda r, n=n: r.j % n == n - 1,
            f"the block of keys where the row begins {size}": lambda r, n=n: (
                r.visible & (r.j // n == begin(r) // n) & (begin(r) % n > 0)
            ),
            f"what a last block has again that is moved back to be full {size}": lambda r, n=n: (
                (r.j >= r.keys - n) & (r.j < r.keys // n * n) & (r.keys > n)
            ),
        }
    for n, size in _splits(rows):
        sets |= {
            f"the first split {size}": lambda r, n=n: r.j < n,
            f"all but the first split {size}": lambda r, n=n: r.j >= n,
            f"the last split {size}": lambda r, n=n: r.j // n == (r.j.size - 1) // n,
            f"the first key of each split but the first {size}": lambda r, n=n: (
                (r.j % n == 0) & (r.j > 0)
            ),
            f"the last key of each split but the last {size}": lambda r, n=n: (
                (r.j % n == n - 1) & (r.j < r.j.size - 1)
            ),
        }
    keys = rows.problem.spec.keys
    for parts in (2, 3, 4, 8):
        for n in (1, *BLOCKS):
            whole = keys // (parts * n) * n * parts
            if 0 < whole < keys:
                size = f"({parts} splits, of blocks of {n} keys)"
                left = f"what is left if the size of splits is rounded down {size}"
                sets[left] = lambda r, whole=whole: r.j >= whole
    fates = {
        "is not read": (0, 0), "is not in the sum of weights": (1, 0),
        "is not in the output": (0, 1), "counts twice": (2, 2),
    }  # fmt: skip
    for words, some in sets.items():
        for fate, (of_values, of_sums) in fates.items():
            change = partial(_counted, some=some, of_values=of_values, of_sums=of_sums)
            yield f"{words} {fate}", Change(weights=change)


def _counted(
    rows: Rows, logits: Array, some: Callable[[Rows], Booleans], of_values: int, of_sums: int
) -> tuple[Array, Array]:
    """Return weights where some keys count several times, in sums of values and of weights."""
    those = some(rows)
    if of_values == of_sums == 0:
        return softmax(rows, np.where(those, -np.inf, logits))
    weights, total = softmax(rows, logits)
    more = np.where(those, (of_sums - 1) * weights, 0.0).sum(-1, keepdims=True)
    return np.where(those, of_values * weights, weights), total + more


def scores(rows: Rows) -> Named:
    """Scales, soft caps, biases, and logits of hidden keys."""
    problem, spec, d = rows.problem, rows.problem.spec, rows.problem.spec.head_dim
    scale, cap = spec.factor, spec.soft_cap
    for words, factor in {
        "logits are not scaled": 1.0 / scale,
        "the scale is applied twice": scale,
        "the scale is 1 / d": 1.0 / d / scale,
        "the scale is that of the width of values": spec.d_v**-0.5 / scale,
        "the scale of the problem is ignored": d**-0.5 / scale,
        "the scale is also divided by sqrt(d)": d**-0.5,
        "logits have the factor log2(e)": LOG2E,
        "logits lack the factor log2(e): exp2 in the place of exp": 1.0 / LOG2E,
        "logits are doubled": 2.0,
        "logits are negated": -1.0,
    }.items():
        yield words, Change(logits=lambda r, raw, f=factor: r.scored(raw, f))
    of_raw: dict[str, Callable[[Rows, Array], Any]] = {}
    if cap is not None:
        of_raw |= {
            "the soft cap is not applied": lambda r, raw: r.scored(raw, capped=False),
            "the soft cap is not multiplied back": lambda _, raw: np.tanh(raw * scale / cap),
            "the soft cap is applied before the scale": lambda _, raw: (
                cap * np.tanh(raw / cap) * scale
            ),
            "the soft cap cuts off": lambda _, raw: np.clip(raw * scale, -cap, cap),
        }
    hidden = {"0": 0.0, "-100": 100.0, "-10000": 1e4, "-50000": 5e4, "-1e9": 1e9}
    hidden |= {"-cap, as the soft cap comes after the mask": cap} if cap else {}
    for words, low in hidden.items():
        logits = partial(lambda r, raw, low: np.where(r.visible, r.scored(raw), -low), low=low)
        change = Change(visible=lambda r: r.j < r.keys, logits=logits)
        yield f"hidden keys have the logit {words}", change
    if spec.queries == spec.keys and problem.answer.weights.size <= _WHOLE:
        of_raw["logits are transposed"] = lambda r, _: r.scored(
            r.of(r.once("products", lambda: _products(r)).swapaxes(2, 3))
        )
    yield from ((words, Change(logits=logits)) for words, logits in of_raw.items())
    if problem.answer.weights.size <= _WHOLE:
        yield "softmax is over queries, not over keys", Change(weights=_over_queries)
    if rows.bias is not None:
        ahead = lambda r: r.j > r.at  # noqa: E731
        biases: Of = {
            "is not added": lambda r: 0.0 * r.bias,
            "is scaled as logits are": lambda r: scale * r.bias,
            "is added twice": lambda r: 2.0 * r.bias,
            "is multiplied by log2(e)": lambda r: LOG2E * r.bias,
            "is subtracted": lambda r: -r.bias,
            "has distances with a sign": lambda r: r.bias * np.where(ahead(r), -1.0, 1.0),
            "is zero for keys of the future": lambda r: np.where(ahead(r), 0.0, r.bias),
        }
        yield from ((f"the bias {words}", Change(bias=bias)) for words, bias in biases.items())
        product = Change(logits=lambda r, raw: r.capped(raw) * r.bias)
        yield "the bias is multiplied with logits, not added", product
    if rows.bias is not None and cap is not None:
        before = Change(logits=lambda r, raw: cap * np.tanh((raw * scale + r.bias) / cap))
        yield "the bias is added before the soft cap", before
    for n in (n for n in (16, 32, 64, 8) if d % n and d > n):
        k = np.where(np.arange(d) < d // n * n, problem.k, 0.0)
        yield f"entries of q and k behind the last {n} are left out", Change(k=lambda _, k=k: k)


def _products(rows: Rows) -> Array:
    """Return products of all queries and keys of a problem, (B, H, T_q, T_k)."""
    k = np.repeat(rows.problem.k, rows.problem.spec.group, axis=1)
    found: Array = rows.problem.q @ k.swapaxes(-1, -2)
    return found


def _over_queries(rows: Rows, logits: Array) -> tuple[Array, float]:
    """Return weights that are divided by the sum over the queries that see a key."""

    def sums() -> tuple[Array, Array]:
        problem, each = rows.problem, rows.capped(rows.once("products", lambda: _products(rows)))
        each = each if problem.bias is None else each + problem.bias
        each = np.where(problem.visible, each, -np.inf)
        top = each.max(2, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        return top, exp(each - top).sum(2, keepdims=True)

    top, total = (rows.of(x) for x in rows.once("sums over queries", sums))
    return exp(logits - top) / np.where(total > 0, total, 1.0), 1.0


def denominators(rows: Rows) -> Named:
    """Largest logits, sums of weights, sinks."""
    tops: dict[str, Weighed] = {
        "is not subtracted": lambda *_: 0.0,
        "starts at 0": lambda r, s: np.maximum(largest(r, s), 0.0),
        "starts at -10000": lambda r, s: np.maximum(largest(r, s), -1e4),
        "starts at -50000": lambda r, s: np.maximum(largest(r, s), -5e4),
        "is that of hidden keys, too": lambda r, _: np.where(r.j < r.keys, r.scores, -np.inf).max(
            -1, keepdims=True
        ),
        "is that before the scale": lambda r, s: np.where(np.isfinite(s), r.raw, -np.inf).max(
            -1, keepdims=True
        ),
    }
    for n in BLOCKS[:3]:
        tops[f"is that of all rows of a block (blocks of {n} queries)"] = partial(_of_block, n=n)
    for words, top in tops.items():
        change = Change(weights=lambda r, s, top=top: softmax(r, s, top=top(r, s)))
        yield f"the largest logit {words}", change
    of_hidden = lambda r, s: np.isfinite(s) | (r.j >= r.keys)  # noqa: E731
    more: dict[str, Weighed] = {
        "starts at 1": lambda *_: 1.0,
        "has a key of zeros more": lambda r, s: exp(-largest(r, s)),
        "has hidden keys, too": lambda r, s: exp(
            np.where(of_hidden(r, s), -np.inf, r.scores) - largest(r, s)
        ).sum(-1, keepdims=True),
    }
    zeros: Of = {}
    for n in BLOCKS:
        zeros |= {
            f"keys of zeros count, up to a multiple of {n}": lambda r, n=n: -r.keys % n,
            f"keys of zeros count in the place of padding, up to a multiple of {n}": (
                lambda r, n=n: -(-r.problem.spec.keys // n) * n - r.keys
            ),
        }
    for words, count in zeros.items():
        yield words, Change(weights=lambda r, s, count=count: softmax(r, s, zeros=count(r)))
    sums: dict[str, Weighed] = {
        f"the sum of weights {words}": lambda r, s, add=add: softmax(r, s)[1] + add(r, s)
        for words, add in more.items()
    } | {
        "the sum of values is not divided": lambda *_: 1.0,
        "the sum of values is divided twice": lambda r, s: softmax(r, s)[1] ** 2,
    }
    for name, place in places_of_rows(rows).items():
        if "row" in name:  # of the same head
            sums[f"the sum of weights is that {name}"] = lambda r, _, place=place: softmax(
                place(r), place(r).logits
            )[1]
    if rows.sinks is not None:
        sums["the sink is added without the largest logit"] = lambda r, s: (
            softmax(r, s)[0].sum(-1, keepdims=True) + exp(r.sinks)
        )
    for words, total in sums.items():
        yield words, Change(weights=lambda r, s, total=total: (softmax(r, s)[0], total(r, s)))


def _of_block(rows: Rows, logits: Array, n: int) -> Array:
    del logits
    most = rows.problem.spec.queries - 1
    others = (rows.moved(i=np.minimum(rows.i // n * n + step, most)) for step in range(n))
    found: Array = np.max([each.logits.max(-1, keepdims=True) for each in others], axis=0)
    return found


def sinks(rows: Rows) -> Named:
    """Sinks that count for something else."""
    if rows.sinks is None:
        return
    scale, logits = rows.problem.spec.factor, rows.problem.sinks
    others: Of = {
        "is ignored": lambda r: r.sinks - np.inf,
        "counts twice": lambda r: r.sinks + np.log(2.0),
        "is scaled as logits are": lambda r: r.sinks * scale,
        "has the factor log2(e)": lambda r: r.sinks * LOG2E,
        "lacks the factor log2(e)": lambda r: r.sinks / LOG2E,
        "is negated": lambda r: -r.sinks,
        "is that of head i mod H": lambda r: logits[r.i % len(logits)],
    }
    for n in BLOCKS:
        count = partial(lambda r, n: np.where(r.visible, r.j // n + 1, 1).max(-1)[:, None], n=n)
        others[f"counts in each block of keys (blocks of {n})"] = lambda r, count=count: (
            r.sinks + np.log(count(r))
        )
    yield from ((f"the sink {words}", Change(sinks=other)) for words, other in others.items())
    value = lambda r, s: (r.j == 0) * exp(r.sinks - largest(r, s))  # noqa: E731
    change = Change(weights=lambda r, s: (softmax(r, s)[0] + value(r, s), softmax(r, s)[1]))
    yield "the sink has the value of the first key", change


def blocks_and_splits(rows: Rows) -> Named:
    """Wrong factors between blocks of keys: a wrong number that is subtracted of a logit."""
    less: dict[str, Callable[[Array, Array, Array], tuple[Any, Any]]] = {
        # of the largest logits of the block, of all so far, of all: for the output, and for the sum
        "the accumulator is not rescaled": lambda _, so_far, top: (so_far, top),
        "sums are not rescaled": lambda _, so_far, top: (top, so_far),
        "neither sums nor the accumulator are rescaled": lambda _, so_far, __: (so_far, so_far),
        "each block has its own largest logit, and nothing is rescaled": lambda own, *_: (own, own),
        "the accumulator is rescaled twice": lambda _, so_far, top: (2 * top - so_far, top),
        "factors of rescaling are inverted": lambda _, so_far, top: (2 * so_far - top,) * 2,
        "factors of rescaling lack log2(e)": lambda _, so_far, top: (
            (so_far + (top - so_far) / LOG2E,) * 2
        ),
        "growth of less than 8 octaves is not rescaled": lambda _, so_far, top: (
            (np.where(top - so_far < 8 / LOG2E, so_far, top),) * 2
        ),
    }
    for n in (n for n in BLOCKS if n < rows.problem.spec.keys):
        for words, part in less.items():
            change = Change(weights=partial(fading, less=part, n=n))
            yield f"{words} (blocks of {n} keys)", change
    lse = lambda top, total: top + np.log(total)  # noqa: E731
    scale = rows.problem.spec.factor
    shares: dict[str, tuple[Callable[[Array, Array], Array], Part]] = {
        "splits are merged by their largest logits alone": (lambda top, _: top, None),
        "splits are merged with equal weights": (
            lambda _, total: np.where(total > 0, 0.0, -np.inf), None,
        ),
        "log-sum-exps of splits have base two, and are merged in base e": (
            lambda top, total: LOG2E * lse(top, total), None,
        ),
        "log-sum-exps of splits have base e, and are merged in base two": (
            lambda top, total: lse(top, total) / LOG2E, None,
        ),
        "log-sum-exps of splits lack their largest logits": (lambda _, total: np.log(total), None),
        "log-sum-exps of splits are multiplied by the scale once more": (
            lambda top, total: lse(top, total) * scale, None,
        ),
        "splits without keys have the log-sum-exp 0": (
            lambda top, total: np.where(total > 0, lse(top, total), 0.0), None,
        ),
    }  # fmt: skip
    places = places_of_rows(rows)
    for name in (name for name in places if name in _OF_SPLITS):
        shares[f"log-sum-exps of splits are those {name}"] = (lse, places[name])
    for n, size in _splits(rows):
        for words, (share, place) in shares.items():
            change = Change(weights=partial(of_splits, share=share, n=n, place=place))
            yield f"{words} {size}", change


def precision(rows: Rows) -> Named:
    """Numbers that are rounded to fewer bits than the output has."""
    weighed: dict[str, Callable[[Array, Array, Format], tuple[Any, Any]]] = {
        "weights are": lambda w, total, form: (nearest(w, form), total),
        "weights are divided by their sum, and then": lambda w, total, form: (
            nearest(w / total, form), 1.0,
        ),
        "the sum of weights is": lambda w, total, form: (w, nearest(total, form)),
        "the reciprocal of the sum of weights is": lambda w, total, form: (
            w * nearest(1.0 / total, form), 1.0,
        ),
    }  # fmt: skip
    digits = rows.problem.spec.output.digits
    for name in (name for name in _ROUGH if FORMATS[name].digits < digits):
        form = FORMATS[name]
        change = Change(output=lambda _, x, form=form: nearest(x, form))
        yield f"the output is rounded to {name}", change
        change = Change(logits=lambda r, raw, form=form: nearest(r.scored(raw), form))
        yield f"logits are rounded to {name}", change
        for words, of in weighed.items():
            rounded = partial(lambda r, s, of, form: of(*softmax(r, s), form), of=of, form=form)
            yield f"{words} rounded to {name}", Change(weights=rounded)


def memory(rows: Rows) -> Named:
    """Arrays that are taken to lie in memory as they do not."""
    spec, source = rows.problem.spec, rows.memory
    kv, b, keys = spec.heads[1], spec.batch, spec.keys
    views: dict[str, Callable[[Array], Array]] = {
        "(keys, heads) in memory, and read as (heads, keys)": lambda x: x.swapaxes(1, 2).reshape(
            x.shape
        ),
        "(heads, keys) in memory, and read as (keys, heads)": lambda x: x.reshape(
            b, keys, kv, -1
        ).swapaxes(1, 2),
        "read with keys and entries exchanged": lambda x: x.reshape(
            b, kv, x.shape[3], keys
        ).swapaxes(2, 3),
        "read with the other width as stride": lambda x: _strided(
            x, spec.head_dim + spec.d_v - x.shape[3]
        ),
    }
    if isinstance(source, str):
        views["read as if they had no strides"] = PLACES[source].flat
        views["read from the start of their memory"] = partial(PLACES[source].flat, from_start=True)
    for words, view in views.items():
        yield from _read(f"are {words}", *(partial(_viewed, view=view, name=name) for name in "kv"))
    if isinstance(source, str):
        q = rows.problem.q
        found = rows.once("flat q", lambda: PLACES[source].flat(q))
        change = Change(
            logits=lambda r, _: r.scored(np.einsum("rd,rjd->rj", r.of(found), _own_keys(r)))
        )
        yield "queries are read as if they had no strides", change
    if isinstance(source, Pool):
        yield from _pages(rows, source)


def _own_keys(rows: Rows) -> Array:
    """Return the keys of each row, (R, T_k, d)."""
    return rows.problem.k[rows.b[:, 0], rows.g[:, 0]]


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
    return x.reshape(-1)[np.minimum(where + np.arange(width), x.size - 1)].reshape(x.shape)


def _pages(rows: Rows, pool: Pool) -> Named:
    """Pages, and places in them, that are looked up wrongly."""
    keys, size, (batch, width) = rows.problem.spec.keys, pool.k.shape[1], pool.table.shape
    flat, used = pool.table.ravel(), -(-pool.lengths // size)
    row, j = np.arange(batch)[:, None], np.arange(keys)[None]
    page, slot, kv = j // size, j % size, pool.k.shape[2]
    entries: dict[str, tuple[Any, Any]] = {
        "of the page behind": (row * width + np.minimum(page + 1, width - 1), slot),
        "of the table of sequence 0": (page + 0 * row, slot),
        "of a table without spare entries": ((np.cumsum(used) - used)[:, None] + page, slot),
        "of a table with one entry less": (row * (width - 1) + page, slot),
        "of a table in reverse": (row * width + width - 1 - page, slot),
        "of slots in reverse": (row * width + page, size - 1 - slot),
        "of the next slot of the page": (row * width + page, (slot + 1) % size),
        "of the first slot of the page": (row * width + page, 0 * slot),
        "of pages that change one key too late": (
            row * width + np.maximum(j - 1, 0) // size, slot,
        ),
        "of every other page, in two": (row * width + page // 2 * 2, slot),
        f"of pages of {2 * size} keys": (row * width + j // (2 * size), j % (2 * size)),
    }  # fmt: skip
    found = {words: (np.take(flat, at, mode="clip"), to) for words, (at, to) in entries.items()}
    first = np.maximum(pool.table[:, :1], 0)
    found["of pages that follow each other"] = (first + page) % len(pool.k), slot
    found["of pages in order, without the table"] = (row * width + page) % len(pool.k), slot
    turned = [x.reshape(len(x), kv, size, -1).swapaxes(1, 2) for x in (pool.k, pool.v)]
    whole = [x.reshape(-1, kv, x.shape[-1]) for x in (pool.k, pool.v)]
    for words, (pages, slots) in found.items():
        at = np.broadcast_to(np.clip(pages * size + slots, 0, len(whole[0]) - 1), (batch, keys))
        yield from _read(f"are those {words}", *(partial(_taken, x=x, at=at) for x in whole))
    at = np.take(flat, row * width + page, mode="clip") * size + slot
    whole = [x.reshape(-1, kv, x.shape[-1]) for x in turned]
    yield from _read("are those of pages read as (heads, slots)",
                     *(partial(_taken, x=x, at=at) for x in whole))  # fmt: skip


def _taken(rows: Rows, x: Array, at: Array) -> Array:
    del rows
    return x[at].swapaxes(1, 2)


FAMILIES: tuple[Callable[[Rows], Named], ...] = (
    diagonals, windows, lengths, scores, denominators, sinks, blocks_and_splits, memory,
    keys_elsewhere, rows_elsewhere, sets_of_keys, precision,
)  # fmt: skip
