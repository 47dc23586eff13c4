"""Mistakes of splits of the keys: how they are merged, what is lost, what is read twice."""

from functools import partial

import numpy as np

from constructive.exact.formats import FORMATS, nearest
from constructive.kernels.mistakes.bench import SPLITS, Bench, Mistakes
from constructive.support.arrays import Array

_ROWS = (16, 64, 128)
# In the place of rows of a block: logsumexps in another order of their axes.
_HEADS_FIRST, _BATCH_FIRST = -1, -2


def splits(bench: Bench) -> Mistakes:
    """Yield results of splits of the keys that are merged in a wrong way."""
    for size, words in bench.splits.items():
        for how, sentence in (
            ("equal", "are averaged, not weighted by their sums"),
            ("maxima", "are weighted by their largest logits without their sums"),
            ("sums", "are weighted by their sums without their largest logits"),
            ("plain", "are added without weights"),
            ("log2", "are weighted by exp of a logsumexp with log2"),
            ("exp2", "are weighted by exp2 of a logsumexp with ln"),
            ("best", "are not merged: the one with the largest logit is returned"),
            ("last", "are not merged: the last is returned"),
        ):
            yield f"results of splits {sentence} ({words})", partial(_shared, bench, size, how)


def merging(bench: Bench) -> Mistakes:
    """Yield logsumexps of other rows, of other sizes, or of fewer bits."""
    spec = bench.problem.spec
    for size, words in bench.splits.items():
        for how, sentence in (
            ("scaled", "logsumexps of splits are multiplied by the scale once more"),
            ("bfloat16", "logsumexps of splits are rounded to bfloat16"),
            ("float16", "logsumexps of splits are rounded to float16"),
            ("undivided", "results of splits are merged before they are divided by their sums"),
            ("twice", "each split but the first reads the last key of the one before again"),
        ):
            yield f"{sentence} ({words})", partial(_merged, bench, size, how)
        for rows in _ROWS:
            if rows < spec.queries:
                yield (
                    f"logsumexps of splits are those of the first query of each block of {rows} "
                    f"({words})",
                    partial(_elsewhere, bench, size, rows),
                )
        if spec.batch > 1 and spec.heads[0] > 1:
            for order, stored, wanted in (
                (_HEADS_FIRST, "(head, batch)", "(batch, head)"),
                (_BATCH_FIRST, "(batch, head)", "(head, batch)"),
            ):
                yield (
                    f"logsumexps of splits are stored as {stored} and read as {wanted} ({words})",
                    partial(_elsewhere, bench, size, order),
                )


def lost(bench: Bench) -> Mistakes:
    """Yield keys that no split reads, and splits that are not merged."""
    keys, visible = bench.problem.spec.keys, bench.problem.visible
    j = np.arange(keys)
    sizes = {f"{parts} splits": -(-keys // parts) for parts in SPLITS if parts < keys}
    for block in bench.blocks:
        blocks = -(-keys // block)
        for parts in (parts for parts in SPLITS if parts < blocks):
            sizes[f"{parts} splits of blocks of {block}"] = -(-blocks // parts) * block
            size = blocks // parts * block
            if size * parts < keys:
                yield (
                    f"keys behind {parts} splits of {size} are not read: the number of blocks of "
                    f"{block} is rounded down",
                    bench.sees(visible & (j < size * parts)),
                )
    for parts in SPLITS:
        if parts < keys and keys % parts:
            yield (
                f"keys behind {parts} splits of {keys // parts} are not read: the size of splits "
                "is rounded down",
                bench.sees(visible & (j < keys // parts * parts)),
            )
    for words, size in sizes.items():
        if size < keys:
            kept = {
                "the first split is lost": j >= size,
                "the last split is lost": j < (keys - 1) // size * size,
                "only the first split is returned": j < size,
                "each split but the first loses its first key": (j % size > 0) | (j < size),
                "each split but the last loses its last key": (
                    (j % size < size - 1) | (j >= (keys - 1) // size * size)
                ),
            }
            for sentence, shown in kept.items():
                yield f"{sentence} ({words})", bench.sees(visible & shown)


def empty(bench: Bench) -> Mistakes:
    """Yield splits without visible keys that count, and splits that have keys in common."""
    visible, j = bench.visible, np.arange(bench.problem.spec.keys)
    for size, words in bench.splits.items():
        counts = np.zeros((*visible.shape[:3], 1), dtype=np.int64)
        for start in range(0, visible.shape[-1], size):
            counts += ~visible[..., start : start + size].any(-1, keepdims=True)
        if counts.any():
            yield (
                f"splits without visible keys are merged with a weight of 1 ({words})",
                partial(bench.averaged, zeros=counts),
            )
        for block in (block for block in bench.blocks if block < size):
            again = (j % size < block) & (j >= size)
            yield (
                f"each split but the last also reads the first {block} keys of the next one "
                f"({words})",
                partial(bench.averaged, bench.scores + np.log(1.0 + again)),
            )


def _splits(bench: Bench, size: int, overlap: int = 0) -> tuple[Array, Array, Array]:
    """Return sums, largest logits and sums of weights of splits, each with an axis in front."""
    logits = bench.logits
    outs, tops, sums = [], [], []
    for start in range(0, logits.shape[-1], size):
        first = max(0, start - overlap)
        part = logits[..., first : start + size]
        top = part.max(-1, keepdims=True)
        weights = np.exp(part - np.where(np.isfinite(top), top, 0.0))
        outs.append(weights @ bench.values[:, :, first : start + size])
        tops.append(top)
        sums.append(weights.sum(-1, keepdims=True))
    return np.stack(outs), np.stack(tops), np.stack(sums)


def _shared(bench: Bench, size: int, how: str) -> Array:
    """Return the merge of splits by other shares than their sums of weights."""
    with np.errstate(all="ignore"):
        sums, top, total = _splits(bench, size)
        out, some = np.nan_to_num(sums / total), np.isfinite(top)
        last = np.arange(len(out)) == len(out) - 1
        shares = {
            "equal": some * 1.0,
            "maxima": np.exp(top - top.max(0)),
            "sums": total,
            "log2": np.exp(top - top.max(0) + np.log2(total)),
            "exp2": np.exp2(top - top.max(0) + np.log(total)),
            "plain": some * 1.0,
            "best": (top == top.max(0)) * 1.0,
            "last": some * last[:, None, None, None, None],
        }[how]
        whole = (shares * out).sum(0)
        merged: Array = whole if how == "plain" else whole / shares.sum(0)
    return merged


def _average(outs: Array, lse: Array) -> Array:
    top = lse.max(0)
    shares = np.exp(lse - np.where(np.isfinite(top), top, 0.0))
    found: Array = (shares * outs).sum(0) / shares.sum(0)
    return found


def _merged(bench: Bench, size: int, how: str) -> Array:
    outs, tops, sums = _splits(bench, size, 1 if how == "twice" else 0)
    lse = tops + np.log(sums)
    divided = outs / np.where(sums > 0.0, sums, 1.0)
    if how == "scaled":
        lse = lse * bench.problem.spec.factor
    if how in FORMATS:
        lse = nearest(lse, FORMATS[how])
    return _average(outs if how == "undivided" else divided, lse)


def _elsewhere(bench: Bench, size: int, rows: int) -> Array:
    """Return the merge by logsumexps of other rows: the first of blocks, or of other heads."""
    outs, tops, sums = _splits(bench, size)
    lse, divided = tops + np.log(sums), outs / np.where(sums > 0.0, sums, 1.0)
    if rows > 0:
        _, tops, sums = _splits(Bench(bench.problem, bench.rows // rows * rows), size)
        lse = tops + np.log(sums)
    elif rows == _HEADS_FIRST:
        lse = lse.swapaxes(1, 2).reshape(lse.shape)
    else:
        turned = lse.shape[0], lse.shape[2], lse.shape[1], *lse.shape[3:]
        lse = lse.reshape(turned).swapaxes(1, 2)
    return _average(divided, lse)
