"""Inputs of attention as float64 arrays, exactly, from numpy, torch, jax and others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.exact.float_model import Format, nearest
from constructive.kernels.masks import Grid, Mask
from constructive.kernels.spec import require_factors
from constructive.support.arrays import UNREADABLE, Array, Booleans, as_array
from constructive.support.errors import DataError

_AXES = 4  # Batch, heads, tokens and entries


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of attention."""

    q: Array  # (B, H, T_q, d), zero in rows that see no key
    k: Array  # (B, G, T_k, d), zero where no query sees the key
    v: Array  # (B, G, T_k, d_v), zero where no query sees the key
    # broadcasts to (B, H, T_q, T_k), True where a key may be seen; None where all may
    visible: Booleans | None
    judged: Booleans  # (B, H, T_q) True where a query exists and sees a key
    empty: Booleans  # (B, H, T_q) True where a query exists and sees none
    # what is added to logits; each broadcasts to (B, H, T_q, T_k) and is finite
    added: tuple[Array, ...]
    sinks: Array | None  # (H,) logits without values, or None
    scale: float  # factor of logits
    softcap: float | None  # c of c tanh(logit / c), or None


def read(
    q: object,
    k: object,
    v: object,
    form: Format,
    *,
    mask: object,
    scale: float | None,
    softcap: float | None,
    bias: object,
    sinks: object,
) -> Inputs:
    """Read inputs of attention, and check that they make sense."""
    arrays = [exactly(name, given) for name, given in (("q", q), ("k", k), ("v", v))]
    _require_shapes(*arrays)
    queries, keys, values = arrays
    heads = queries.shape[1]
    whole = (*queries.shape[:3], keys.shape[2])
    require_factors(scale=scale, softcap=softcap)
    visible, exists, added = _masked(mask, whole)
    if bias is not None:
        added += (_broadcasts("bias", exactly("bias", bias), whole),)
    exist = np.broadcast_to(exists[:, None], whole[:3])
    judged = exist
    if visible is not None:
        judged = np.asarray(exist & visible.any(-1))
        queries, keys, values = _read_only_where_seen(queries, keys, values, visible, judged)
    for name, array in (("q", queries), ("k", keys), ("v", values)):
        _require_numbers(name, array, form)
    logits = None if sinks is None else exactly("sinks", sinks)
    if logits is not None and (logits.shape != (heads,) or not np.isfinite(logits).all()):
        raise DataError(
            f"sinks of shape {logits.shape} are not {heads} finite numbers",
            witness=logits.shape,
            suggestion="one logit for each query head",
        )
    factor = 1.0 / math.sqrt(queries.shape[3]) if scale is None else float(scale)
    return Inputs(
        queries, keys, values, visible, judged, exist & ~judged, added, logits, factor,
        None if softcap is None else float(softcap),
    )  # fmt: skip


def exactly(name: str, values: object) -> Array:
    """Return numbers as float64, without rounding.

    Example:
        >>> exactly("q", np.float16([0.1])).tolist()
        [0.0999755859375]
    """
    given: Any = values
    try:
        array = as_array(given.detach().cpu().double() if hasattr(given, "detach") else given)
        found: Array = array.astype(np.float64)
        same = array.dtype.itemsize <= found.dtype.itemsize and array.dtype.kind not in "iu"
        if not same and not (found == array).all():
            raise DataError(
                f"{name} has numbers that float64 lacks", suggestion="numbers of 53 bits or fewer"
            )
    except UNREADABLE as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{name} is not an array of numbers: {error}", suggestion="arrays"
        ) from None
    return found


def _require_shapes(q: Array, k: Array, v: Array) -> None:
    shapes = q.shape, k.shape, v.shape
    fits = (
        all(array.ndim == _AXES and array.size for array in (q, k, v))
        and q.shape[0] == k.shape[0]
        and q.shape[3] == k.shape[3]
        and k.shape[:3] == v.shape[:3]
        and q.shape[1] % k.shape[1] == 0
    )
    if not fits:
        raise DataError(
            f"q, k and v have shapes {shapes[0]}, {shapes[1]} and {shapes[2]}",
            witness=shapes,
            suggestion="(batch, heads, queries, d), (batch, KV heads, keys, d) and (batch, KV "
            "heads, keys, d_v), where the number of KV heads divides that of heads",
        )


def _read_only_where_seen(
    q: Array, k: Array, v: Array, visible: Booleans, judged: Booleans
) -> tuple[Array, Array, Array]:
    """Put zeros where nothing is read, which may be a NaN."""
    batch, groups, keys = k.shape[:3]
    heads = visible.shape[1]
    seen = np.broadcast_to(visible.any(2), (batch, heads, keys))
    if heads > 1:
        seen = np.asarray(seen.reshape(batch, groups, heads // groups, keys).any(2))
    hidden = ~seen[..., None]
    return np.where(judged[..., None], q, 0.0), np.where(hidden, 0.0, k), np.where(hidden, 0.0, v)


def _require_numbers(name: str, array: Array, form: Format) -> None:
    if not np.isfinite(array).all() or not np.array_equal(nearest(array, form), array):
        wrong = ~(np.isfinite(array) & (nearest(array, form) == array))
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise DataError(
            f"{name}{list(index)} is {array[index]}, which is not a number of {form.name}",
            witness=index,
            suggestion=f"the arrays that the kernel reads, in {form.name}; or another model",
        )


def _masked(
    mask: object, whole: tuple[int, int, int, int]
) -> tuple[Booleans | None, Booleans, tuple[Array, ...]]:
    """Who sees whom, which queries exist, and what is added to logits."""
    batch, _, queries, _ = whole
    exists = np.ones((batch, queries), dtype=np.bool_)
    if mask is None:
        return None, exists, ()
    masks = (mask,) if isinstance(mask, Mask) else mask
    if isinstance(masks, Sequence) and all(isinstance(each, Mask) for each in masks):
        rules = [each for each in masks if isinstance(each, Mask)]
        grid = Grid.of(rules, *whole)
        return grid.visible(rules), np.arange(queries) < grid.query_lengths[:, None], ()
    added = exactly("mask", mask)
    kind = str(getattr(mask, "dtype", np.asarray(mask).dtype))
    if "bool" in kind:
        return _broadcasts("mask", added > 0.0, whole), exists, ()
    if "int" in kind:
        raise DataError(
            "a mask of integers may hide keys, or be added to logits",
            witness=kind,
            suggestion="a boolean mask (True is visible), or floating-point numbers to add",
        )
    hidden = np.isneginf(added)
    shown = _broadcasts("mask", ~hidden, whole)
    bias = np.where(hidden, 0.0, added)
    return shown, exists, (_broadcasts("mask", bias, whole),) if bias.any() else ()


def _broadcasts(name: str, array: npt.NDArray[Any], whole: tuple[int, ...]) -> npt.NDArray[Any]:
    """Give an array four axes, and check that it broadcasts and is finite."""
    fits = array.ndim <= _AXES and all(
        size in {1, full} for size, full in zip(array.shape[::-1], whole[::-1], strict=False)
    )
    if not fits or not np.isfinite(array).all():
        raise DataError(
            f"{name} of shape {array.shape} does not broadcast to {whole}, or is not finite",
            witness=array.shape,
            suggestion="(batch, heads, queries, keys), with 1 for what all share; -inf hides a key "
            "in a mask",
        )
    return array.reshape((1,) * (_AXES - array.ndim) + array.shape)
