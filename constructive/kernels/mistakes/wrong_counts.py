"""Mistakes of addresses: strides that are made of the number of something else."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from constructive.kernels.mistakes.bench import Bench, Mistakes
from constructive.support.arrays import Array

Strides = tuple[int, int, int]


def strides(bench: Bench) -> Mistakes:
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
