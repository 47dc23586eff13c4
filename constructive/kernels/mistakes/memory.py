"""Mistakes about memory: strides that are ignored or wrong, layouts, and padding that is read."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from constructive.kernels.mistakes.bench import BLOCKS, Bench, Mistakes
from constructive.kernels.places import PLACES
from constructive.support.arrays import Array

Strides = tuple[int, int, int]  # Of sequences, heads and tokens
_PARTS = ("queries", "keys", "values", "keys and values", "queries, keys and values")


def strides(bench: Bench) -> Mistakes:
    """Yield arrays that are read as if they were contiguous, in the memory that the kernel got."""
    if isinstance(bench.memory, str) and bench.memory != "contiguous":
        for what in _PARTS:
            yield (
                f"strides of {what} are ignored: memory is read as if it were contiguous",
                partial(_flat, bench, PLACES[bench.memory].flat, what),
            )
            yield (
                f"strides and the offset of {what} are ignored: memory is read from its start",
                partial(_flat, bench, partial(PLACES[bench.memory].flat, from_start=True), what),
            )
    spec = bench.problem.spec
    if spec.d_v != spec.head_dim:
        yield (
            "values are addressed with the strides of keys (value_dim is not head_dim)",
            partial(_of_keys, bench),
        )


def layouts_of_inputs(bench: Bench) -> Mistakes:
    """Yield arrays whose axes of heads and tokens are taken for each other."""
    for what in _PARTS:
        yield (
            f"{what} are laid out as (B, T, H, d), and read as (B, H, T, d)",
            partial(_flat, bench, PLACES["swapped"].flat, what),
        )
        yield (
            f"{what} are laid out as (B, H, T, d), and read as (B, T, H, d)",
            partial(_flat, bench, _reshaped, what),
        )
        yield (
            f"{what} are laid out as (B, H, T, d), and read as (B, H, d, T)",
            partial(_flat, bench, _as_columns, what),
        )


def _as_columns(array: Array) -> Array:
    """Return memory (B, H, T, d) read as (B, H, d, T), in the order (B, H, T, d)."""
    batch, heads, tokens, width = array.shape
    return array.reshape(batch, heads, width, tokens).swapaxes(-1, -2)


def _reshaped(array: Array) -> Array:
    """Return memory (B, H, T, d) read as (B, T, H, d), in the order (B, H, T, d)."""
    batch, heads, tokens, width = array.shape
    return array.reshape(batch, tokens, heads, width).swapaxes(1, 2)


def _flat(bench: Bench, read: Callable[[Array], Array], what: str) -> Array:
    problem = bench.problem
    q, k, v = (
        read(array) if name in what else array
        for name, array in (("queries", problem.q), ("keys", problem.k), ("values", problem.v))
    )
    return bench.read(q=q[:, :, bench.rows], k=k, v=v)


def _of_keys(bench: Bench) -> Array:
    """Return the output where values have the addresses of keys; NaN behind their memory."""
    spec, v = bench.problem.spec, bench.problem.v
    places = np.arange(spec.batch * spec.heads[1] * spec.keys) * spec.head_dim
    addresses = places[:, None] + np.arange(spec.d_v)
    memory = np.pad(
        v.ravel(), (0, max(0, int(addresses.max()) + 1 - v.size)), constant_values=np.nan
    )
    return bench.read(v=memory[addresses].reshape(v.shape))


def padding_that_is_read(bench: Bench) -> Mistakes:
    """Yield NaN in rows that read the memory behind the end of a sequence, and nowhere else."""
    spec, visible = bench.problem.spec, bench.visible
    lengths = spec.lengths[1]
    if (lengths == spec.keys).all():
        return
    padded = np.broadcast_to((lengths < spec.keys)[:, None, None], visible.shape[:3])
    yield (
        "keys or values behind the end of a sequence are read (NaN, whatever their weight)",
        bench.filled(padded[..., None], np.nan),
    )
    for block in BLOCKS:
        last = (lengths - 1) // block * block
        in_last = np.arange(spec.keys) >= last[:, None, None, None]
        rows = (visible & in_last).any(-1) & padded & (lengths % block > 0)[:, None, None]
        yield (
            "keys or values behind the end of a sequence are read, in its last block of "
            f"{block} (NaN, whatever their weight)",
            bench.filled(rows[..., None], np.nan),
        )


def wrong_strides(bench: Bench) -> Mistakes:
    """Yield keys or values that are read with other strides of sequences, heads or tokens."""
    spec = bench.problem.spec
    for name, array in (("keys", bench.problem.k), ("values", bench.problem.v)):
        for words, order, found in _strides(bench, array.shape[-1]):
            others = {name}
            if spec.d_v == spec.head_dim:
                others.add("keys and values")
            for what in sorted(others):
                yield (
                    f"the stride of {words}, for {what} laid out as {order}",
                    partial(_read, bench, what, order, found),
                )


def query_heads(bench: Bench) -> Mistakes:
    """Yield KV heads with the number of the query head, beyond the last of which memory goes on."""
    spec = bench.problem.spec
    if spec.heads[0] == spec.heads[1]:
        return
    for order in ("(B, T, H, d)", "(B, H, T, d)"):
        for what in ("keys", "values", "keys and values"):
            yield (
                f"the KV head of {what} is h, not h // group, for memory laid out as {order}",
                partial(_by_query_head, bench, what, order),
            )


def _by_query_head(bench: Bench, what: str, order: str) -> Array:
    spec = bench.problem.spec
    (heads, kv), keys = spec.heads, spec.keys
    b, h, t = np.ix_(*(np.arange(size) for size in (spec.batch, heads, keys)))
    in_tokens = order == "(B, T, H, d)"
    place = (b * keys + t) * kv + h if in_tokens else (b * kv + h) * keys + t
    k, v = bench.problem.k, bench.problem.v
    for name, array in (("keys", bench.problem.k), ("values", bench.problem.v)):
        if name in what:
            memory = array.swapaxes(1, 2) if in_tokens else array
            found = memory.reshape(-1, array.shape[-1])[place % (spec.batch * keys * kv)]
            k, v = (found, v) if name == "keys" else (k, found)
    return bench.read(k=k, v=v)


def _strides(bench: Bench, width: int) -> Iterator[tuple[str, str, Strides]]:
    """Yield what is wrong, the layout, and strides of sequences, heads and tokens."""
    spec = bench.problem.spec
    (heads, kv), queries, keys = spec.heads, spec.queries, spec.keys
    for order in ("(B, T, H, d)", "(B, H, T, d)"):
        in_tokens = order == "(B, T, H, d)"
        head, token = (width, kv * width) if in_tokens else (keys * width, width)
        whole = kv * keys * width
        found = {
            "sequences has the number of queries": (kv * queries * width, head, token),
            "sequences has the number of query heads": (heads * keys * width, head, token),
            "sequences is zero": (0, head, token),
        }
        if in_tokens:
            found["tokens has the number of query heads"] = (whole, head, heads * width)
            other = spec.d_v if width == spec.head_dim else spec.head_dim
            found["tokens has the width of keys or values"] = (whole, head, kv * other)
        else:
            found["heads has the number of queries"] = (whole, queries * width, token)
        for words, each in found.items():
            if each != (whole, head, token):
                yield words, order, each


def _read(bench: Bench, what: str, order: str, strides: Strides) -> Array:
    k, v = (
        _placed(array, order, strides) if name in what else array
        for name, array in (("keys", bench.problem.k), ("values", bench.problem.v))
    )
    return bench.read(k=k, v=v)


def _placed(array: Array, order: str, strides: Strides) -> Array:
    """Return an array read with other strides; behind its memory, it begins again."""
    memory = (array if order == "(B, H, T, d)" else array.swapaxes(1, 2)).ravel()
    b, h, t, column = np.indices(array.shape)
    found: Array = memory[(b * strides[0] + h * strides[1] + t * strides[2] + column) % len(memory)]
    return found
