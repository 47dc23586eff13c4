"""Mistakes about memory: strides that are ignored, layouts, and padding that is read."""

from collections.abc import Callable
from functools import partial

import numpy as np

from constructive.kernels.mistakes.bench import BLOCKS, Bench, Mistakes
from constructive.kernels.places import PLACES
from constructive.support.arrays import Array, Booleans

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
        partial(_odd, bench, padded),
    )
    for block in BLOCKS:
        last = (lengths - 1) // block * block
        in_last = np.arange(spec.keys) >= last[:, None, None, None]
        rows = (visible & in_last).any(-1) & padded & (lengths % block > 0)[:, None, None]
        yield (
            "keys or values behind the end of a sequence are read, in its last block of "
            f"{block} (NaN, whatever their weight)",
            partial(_odd, bench, rows),
        )


def _odd(bench: Bench, rows: Booleans) -> Array:
    return np.where(rows[..., None], np.nan, bench.averaged())
