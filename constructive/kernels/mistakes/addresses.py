"""Mistakes about where things are: heads, sequences, rows, coordinates, layouts."""

from functools import partial

import numpy as np

from constructive.kernels.answer import grouped
from constructive.kernels.mistakes.bench import Bench, Made, Mistakes
from constructive.support.arrays import Array


def heads(bench: Bench) -> Mistakes:
    """Yield other KV heads than h // group: of keys, of values, of both."""
    spec = bench.problem.spec
    h, (_, count) = np.arange(spec.heads[0]), spec.heads
    maps = {
        "KV head h % kv_heads, not h // group (tiled, not repeated)": h % count,
        "KV head 0, whatever the head": np.zeros_like(h),
        "the next KV head": (h // spec.group + 1) % count,
        "the KV head before": (h // spec.group - 1) % count,
        "KV heads in reverse": count - 1 - h // spec.group,
        "KV head h // kv_heads, not h // group": np.minimum(h // count, count - 1),
        "KV head min(h, kv_heads - 1), not h // group": np.minimum(h, count - 1),
        "the last KV head": np.full_like(h, count - 1),
        "KV head h // (group + 1), not h // group": h // (spec.group + 1),
        "KV head h // (group - 1), not h // group": np.minimum(
            h // max(spec.group - 1, 1), count - 1
        ),
    }
    for sentence, chosen in maps.items():
        if count > 1 and not np.array_equal(chosen, h // spec.group):
            yield from _from(bench, sentence, (slice(None), chosen))


def sequences(bench: Bench) -> Mistakes:
    """Yield keys and values of another sequence."""
    spec = bench.problem.spec
    if spec.batch == 1:
        return
    b = np.arange(spec.batch)
    kv = np.arange(spec.heads[0]) // spec.group
    maps = {
        "sequence 0, whatever the sequence": np.zeros_like(b),
        "the next sequence": (b + 1) % spec.batch,
        "the sequence before": (b - 1) % spec.batch,
        "sequences in reverse": spec.batch - 1 - b,
    }
    for sentence, chosen in maps.items():
        yield from _from(bench, sentence, (chosen[:, None], kv[None]))
    flat = b[:, None] * spec.heads[1] + kv
    pairs = spec.batch * spec.heads[1]
    strides = {
        "a batch stride of one head": b[:, None] + kv,
        "a batch stride of query heads, not KV heads": b[:, None] * spec.heads[0] + kv,
        "a head stride and a batch stride that are swapped": kv * spec.batch + b[:, None],
    }
    program = b[:, None] * spec.heads[0] + np.arange(spec.heads[0])
    exchanged = program % spec.batch, program // spec.batch // spec.group
    if not np.array_equal(exchanged[0], b[:, None] + 0 * program):
        yield from _from(
            bench, "the program's number by (head, batch), not (batch, head)", exchanged
        )
        yield from _from(
            bench, "sequence program % batch, not program // heads", (exchanged[0], kv)
        )
    for sentence, index in strides.items():
        index = index % pairs  # noqa: PLW2901
        if not np.array_equal(index, flat):
            where = index // spec.heads[1], index % spec.heads[1]
            yield from _from(bench, f"the place that {sentence} leads to", where)


def _from(bench: Bench, place: str, where: tuple[object, object]) -> Mistakes:
    problem = bench.problem
    k, v = problem.k[where], problem.v[where]  # type: ignore[index] # of two arrays
    yield f"keys and values are those of {place}", partial(bench.read, k=k, v=v)
    yield f"keys are those of {place}, values are right", partial(bench.read, k=k)
    yield f"values are those of {place}, keys are right", partial(bench.read, v=v)


def rows(bench: Bench) -> Mistakes:
    """Yield keys, values and queries that are shifted or repeated."""
    spec, q, k, v = bench.problem.spec, bench.problem.q, bench.keys, bench.values
    for step, place, side in ((-1, "the next one", "next"), (1, "the one before", "previous")):
        yield f"each value is {place}, keys are right", partial(bench.read, v=np.roll(v, step, 2))
        yield f"each key is {place}, values are right", partial(bench.read, k=np.roll(k, step, 2))
        yield f"each query is {place}", partial(_asked, bench, np.roll(q, step, 2))
        head = "next head" if step < 0 else "head before"
        yield f"each query is that of the {head}", partial(_asked, bench, np.roll(q, step, 1))
        yield (
            f"each query is that of the {side} sequence",
            partial(_asked, bench, np.roll(q, step, 0)),
        )
    yield "each query is that of head 0", partial(_asked, bench, q[:, :1] + 0.0 * q)
    yield "each query is that of sequence 0", partial(_asked, bench, q[:1] + 0.0 * q)
    yield "each query is the first one", partial(_asked, bench, q[:, :, :1] + 0.0 * q)
    h = np.arange(spec.heads[0])
    if spec.group > 1:
        turned = h // spec.group * spec.group + spec.group - 1 - h % spec.group
        yield (
            "queries of the heads of a group are in reverse order",
            partial(_asked, bench, q[:, turned]),
        )
    yield "values are in reverse order", partial(bench.read, v=v[:, :, ::-1])
    yield "keys are in place of values", partial(_columns, bench)
    for block in bench.blocks:
        if block < spec.keys:
            yield from _blocks(bench, block)
        if block < spec.queries:
            yield (
                f"every block of {block} queries is the first",
                partial(_asked, bench, q[:, :, np.arange(spec.queries) % block]),
            )


def _blocks(bench: Bench, block: int) -> Mistakes:
    """Yield keys and values of other blocks of a size."""
    k, v, j = bench.keys, bench.values, np.arange(bench.problem.spec.keys)
    late = np.maximum(j - block, 0)
    before = np.where(j < block, j, late)
    stale = np.where(j < j[-1] // block * block, j, late)
    every_second = np.where(j // block % 2 == 0, j, late)
    found: dict[str, dict[str, Array]] = {
        f"every block of {block} keys has the values of the first": {"v": v[:, :, j % block]},
        f"every block of {block} keys is the first, values are right": {"k": k[:, :, j % block]},
        f"values of each block of {block} are those of the block before": {"v": v[:, :, late]},
        f"values of each block of {block} but the first are those of the block before":
            {"v": v[:, :, before]},
        f"keys of each block of {block} but the first are those of the block before, values are "
        "right": {"k": k[:, :, before]},
        f"values of each block of {block} are those of the block before, first zeros":
            {"v": np.where((j < block)[:, None], 0.0, v[:, :, late])},
        f"values of the last block of {block} are those of the block before":
            {"v": v[:, :, stale]},
        f"keys of every second block of {block} are those of the block before":
            {"k": k[:, :, every_second]},
        f"the halves of each block of {block} values are exchanged": {"v": _exchanged(v, block)},
    }  # fmt: skip
    for sentence, arrays in found.items():
        yield sentence, partial(bench.read, **arrays)


def _exchanged(v: Array, block: int) -> Array:
    """Return rows with the halves of blocks exchanged; what is behind the last key is zero."""
    keys = v.shape[2]
    padded = np.pad(v, [(0, 0), (0, 0), (0, -keys % block), (0, 0)])
    j = np.arange(keys)
    return padded[:, :, j // block * block + (j + block // 2) % block]


def _asked(bench: Bench, q: Array) -> Array:
    return bench.read(q=q[:, :, bench.rows])


def _columns(bench: Bench) -> Array:
    wide = np.zeros_like(bench.values)
    width = min(wide.shape[-1], bench.keys.shape[-1])
    wide[..., :width] = bench.keys[..., :width]
    return bench.read(v=wide)


def coordinates(bench: Bench) -> Mistakes:
    """Yield coordinates of queries and keys that are left out, and columns of values."""
    spec = bench.problem.spec
    d = spec.head_dim
    parts = {f"the last {count} coordinates of": slice(d - count, d) for count in (1, 2, 4, 8, 16)}
    parts |= {f"the first {count} coordinates of": slice(0, count) for count in (1, 8, 16)}
    parts |= {f"coordinates from {start} on of": slice(start, d) for start in (32, 64, 128)}
    parts |= {"the second half of coordinates of": slice(d // 2, d)}
    parts |= {"the first half of coordinates of": slice(0, d // 2)}
    parts |= {"every second coordinate of": slice(1, d, 2)}
    more = min(d, 2 ** (d - 1).bit_length() - d)
    if more:
        yield (
            f"q and k are read as if they had {d + more} coordinates: {more} are of the next token",
            partial(_next_token, bench, more),
        )
    for words, part in parts.items():
        if len(range(*part.indices(d))) in range(1, d):
            yield f"{words} q and k are left out", partial(_left_out, bench, part)


def _left_out(bench: Bench, part: slice) -> Array:
    q = bench.problem.q.copy()
    q[..., part] = 0.0
    return _asked(bench, q)


def _next_token(bench: Bench, more: int) -> Array:
    q = np.roll(bench.problem.q, -1, 2)[:, :, bench.rows, :more]
    k = np.roll(bench.problem.k, -1, 2)[..., :more]
    return bench.changed(raw=bench.raw + grouped(bench.problem.spec, q, k))


def layouts(bench: Bench) -> Mistakes:
    """Yield right numbers in wrong places of the output."""
    for sentence, made in _moved(bench):
        yield sentence, partial(_chosen, bench, made)


def _chosen(bench: Bench, made: Made) -> Array:
    return made()[:, :, bench.rows]


def _moved(bench: Bench) -> Mistakes:
    """Yield the same for all rows."""
    out = np.nan_to_num(bench.problem.expected)
    batch, count, queries, width = out.shape
    tokens = out.transpose(0, 2, 1, 3)
    yield (
        "the output is laid out as (B, T, H, d), and read as (B, H, T, d)",
        lambda: tokens.reshape(out.shape),
    )
    turned = out.reshape(batch, queries, count, width).transpose(0, 2, 1, 3)
    yield "the output is laid out as (B, H, T, d), and read as (B, T, H, d)", lambda: turned
    for step in (-1, 1):
        side = "next" if step < 0 else "previous"
        for axis, what in ((0, "sequence"), (1, "head"), (2, "query")):
            if out.shape[axis] > 1:
                yield (
                    f"rows of the output are those of the {side} {what}",
                    partial(np.roll, out, step, axis),
                )
    if batch > 1:
        yield "rows of the output are those of sequence 0", lambda: np.repeat(out[:1], batch, 0)
    if count > 1:
        yield "rows of the output are those of head 0", lambda: np.repeat(out[:, :1], count, 1)
    if width == bench.problem.q.shape[-1]:
        yield "the query is added to the output", lambda: out + bench.problem.q
    yield "queries of the output are in reverse order", lambda: out[:, :, ::-1]
    yield "heads of the output are in reverse order", lambda: out[:, ::-1]
    yield "columns of the output are in reverse order", lambda: out[..., ::-1]
    group = bench.problem.spec.group
    if 1 < group < count:
        for shape, order in (
            ((count // group, group), "(member of the group, group)"),
            ((group, count // group), "(group, member of the group), where they were not"),
        ):
            mixed = out.reshape(batch, *shape, queries, width).swapaxes(1, 2).reshape(out.shape)
            yield f"heads of the output are in the order {order}", partial(np.copy, mixed)
    for step in (-1, 1):
        yield f"columns of the output are shifted by {-step}", partial(np.roll, out, step, 3)
    yield "the output is zero", lambda: np.zeros_like(out)
