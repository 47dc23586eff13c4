"""Mistakes about which keys are read."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from constructive.kernels.masks import (
    Boolean,
    Causal,
    LeftPadding,
    Mask,
    Prefix,
    RightPadding,
    VariableLengths,
    Window,
)
from constructive.kernels.mistakes.bench import Bench, Mistakes


def alignment(bench: Bench) -> Mistakes:
    """Yield the other diagonal, and diagonals that are off by one."""
    spec = bench.problem.spec
    for mask in spec.masks:
        if not isinstance(mask, Causal | Window | Prefix):
            continue
        other = "top-left" if mask.alignment == "bottom-right" else "bottom-right"
        turned = spec.visible(mask, _changed(mask, "alignment", other))
        yield f"the {mask.name} mask is aligned {other}", bench.sees(turned)
    causal = spec.mask(Causal)
    if causal is not None:
        named = (
            (1, "the causal mask lets one key of the future through (j <= i + 1)"),
            (-1, "the causal mask hides the query's own key (j < i)"),
            (2, "the causal mask lets two keys of the future through"),
            (-2, "the causal mask hides the query's own key and the one before it"),
        )
        for step, sentence in named:
            yield sentence, bench.sees(spec.visible(causal, Window(None, step, causal.alignment)))
        longest = spec.grid.j <= spec.grid.i + spec.keys - spec.queries
        both = spec.visible(causal) & longest
        yield (
            "the causal mask is aligned to the longest sequence, not to each one",
            bench.sees(both),
        )


def diagonals(bench: Bench) -> Mistakes:
    """Yield diagonals that follow another sequence, left padding, groups, or the wrong sign."""
    spec = bench.problem.spec
    causal = spec.mask(Causal)
    if causal is None:
        return
    i, j = np.arange(spec.queries)[:, None], np.arange(spec.keys)
    rest = spec.visible(causal)
    shift = spec.grid.diagonal(causal.alignment) - i
    options = {
        "the causal diagonal is that of sequence 0 everywhere": i + shift[:1],
        "the causal diagonal is shifted by queries less keys, not keys less queries": i - shift,
        "the causal diagonal is that of the total lengths": i + shift.sum(),
    }
    begins = [np.cumsum(lengths) - lengths for lengths in spec.lengths]
    packed = (begins[0] - begins[1])[:, None, None, None]
    if spec.mask(VariableLengths) is not None and packed.any():
        options["the causal diagonal compares places among the tokens of all sequences"] = (
            i + packed
        )
        options["the causal diagonal is moved by the first key less the first query"] = i - packed
    if spec.group > 1:
        options["the causal diagonal is that of query i // group"] = i // spec.group + shift
    padding = spec.mask(LeftPadding)
    if padding is not None:
        starts = np.asarray(padding.starts)[:, None, None, None]
        options["the causal diagonal is moved right by the left padding"] = i + shift + starts
        options["the causal diagonal is moved left by the left padding"] = i + shift - starts
    for sentence, diagonal in options.items():
        if not np.array_equal(np.broadcast_to(diagonal, shift.shape), i + shift):
            yield sentence, bench.sees(rest & (j <= diagonal))
    yield "the causal mask is the other triangle: j >= i", bench.sees(rest & (j >= i + shift))


def windows(bench: Bench) -> Mistakes:
    """Yield windows that are longer, shorter, or missing on a side."""
    spec = bench.problem.spec
    mask = spec.mask(Window)
    if mask is None:
        return
    for side in ("left", "right"):
        size = getattr(mask, side)
        if size is None:
            continue
        sizes = {
            f"one key longer on the {side}": size + 1,
            f"one key shorter on the {side}": max(0, size - 1),
            f"2 longer on the {side}": size + 2,
            f"2 shorter on the {side}": max(0, size - 2),
            f"ignored on the {side}": None,
            f"half as long on the {side}": size // 2,
        }
        for words, changed in sizes.items():
            other = _changed(mask, side, changed)
            yield f"the window is {words}", bench.sees(spec.visible(mask, other))
    yield from _edges(bench, mask)
    if None not in {mask.left, mask.right} and mask.left != mask.right:
        other = replace(mask, left=mask.right, right=mask.left)
        yield "left and right of the window are swapped", bench.sees(spec.visible(mask, other))


def _edges(bench: Bench, mask: Window) -> Mistakes:
    """Yield windows whose edges are rounded to blocks of keys."""
    spec, visible = bench.problem.spec, bench.problem.visible
    diagonal = spec.grid.diagonal(mask.alignment)
    j = np.arange(spec.keys)
    for block in bench.blocks:
        first_rows = np.arange(spec.queries) // block * block
        last_rows = np.minimum(first_rows + block, spec.queries) - 1
        if mask.left is not None:
            edge = diagonal - mask.left
            of_blocks = {
                "": edge,
                f", of all blocks of {block} queries": edge[:, :, first_rows],
            }
            for words, left in of_blocks.items():
                start = -(-np.maximum(left, 0) // block) * block
                yield (
                    f"the block of {block} keys in which the window begins is not read{words}",
                    bench.sees(visible & (j >= start)),
                )
            rest = spec.visible(mask, replace(mask, left=None))
            yield (
                f"the window begins with the block of {block} keys in which it should begin",
                bench.sees(rest & (j >= edge // block * block)),
            )
        if mask.right is not None:
            edge = diagonal + mask.right
            yield (
                f"the block of {block} keys in which the window ends is not read",
                bench.sees(visible & (j < (edge + 1) // block * block)),
            )
            late = edge[:, :, last_rows]
            yield (
                f"the block of {block} keys in which the window of the last query of a block ends "
                "is not read",
                bench.sees(visible & (j < (late + 1) // block * block)),
            )


def missing(bench: Bench) -> Mistakes:
    """Yield masks that are ignored: all, or one of several."""
    spec = bench.problem.spec
    if bench.problem.visible.all():
        return
    yield "the mask is ignored", bench.sees(np.array(True))  # noqa: FBT003
    if len(spec.masks) > 1:
        for mask in spec.masks:
            yield f"the {mask.name} mask is ignored", bench.sees(spec.visible(mask))
    yield "the mask is inverted", bench.sees(~bench.problem.visible)


def lengths(bench: Bench) -> Mistakes:
    """Yield lengths of sequences that are off by one, or those of other sequences."""
    spec = bench.problem.spec
    for mask in spec.masks:
        if not isinstance(mask, RightPadding | LeftPadding | VariableLengths | Prefix):
            continue
        what = {"keys": "key lengths", "queries": "query lengths"}
        for entry in fields(mask):
            values = getattr(mask, entry.name)
            if not isinstance(values, tuple) or entry.name == "queries":
                continue
            name = f"{what.get(entry.name, entry.name)} of {mask.name}"
            most = spec.keys
            options = {
                f"{name} are one too large": [value + 1 for value in values],
                f"{name} are one too small": [value - 1 for value in values],
                f"{name} are those of sequence 0 everywhere": [values[0]] * len(values),
                f"{name} are those of the next sequence": [*values[1:], values[0]],
                f"{name} are those of the sequence before": [values[-1], *values[:-1]],
                f"{name} are the largest one everywhere": [max(values)] * len(values),
            }
            if isinstance(mask, Prefix):
                options = {"the prefix is ignored": [0] * len(values)} | options
            if isinstance(mask, LeftPadding):
                options[f"{name} are one too large, where there is padding"] = [
                    value + (value > 0) for value in values
                ]
            for block in bench.blocks:
                up = [-(-value // block) * block for value in values]
                options[f"{name} are rounded up to blocks of {block}"] = up
                options[f"{name} are rounded down to blocks of {block}"] = [
                    value // block * block for value in values
                ]
            for sentence, found in options.items():
                fitting = tuple(min(max(value, 0), most) for value in found)
                if fitting != values:
                    # The diagonal of causal masks follows true lengths: only this mask changes.
                    other = _changed(mask, entry.name, fitting)
                    yield sentence, bench.sees(spec.visible(mask, other))


def sides(bench: Bench) -> Mistakes:
    """Yield padding that is taken to be on the other side."""
    spec = bench.problem.spec
    left, right = spec.mask(LeftPadding), spec.mask(RightPadding)
    if left is not None and right is None:
        other: Mask = RightPadding(tuple(spec.keys - start for start in left.starts))
        yield "left padding is taken to be on the right", bench.sees(spec.visible(left, other))
        other = RightPadding(tuple(max(start, 1) for start in left.starts))
        yield "starts of left padding are taken as lengths", bench.sees(spec.visible(left, other))
    if right is not None and left is None:
        lengths = spec.lengths[1][:, None, None, None]
        shown = spec.visible(right) & (np.arange(spec.keys) >= spec.keys - lengths)
        yield "right padding is taken to be on the left", bench.sees(shown)


def arbitrary(bench: Bench) -> Mistakes:
    """Yield masks that are transposed, shifted, or those of another sequence or head."""
    spec = bench.problem.spec
    visible = np.broadcast_to(bench.problem.visible, bench.problem.answer.weights.shape)
    if spec.mask(Boolean) is None and not any(mask.name == "given" for mask in spec.masks):
        return
    if spec.queries == spec.keys:
        yield "the mask is transposed", bench.sees(visible.swapaxes(-1, -2))
    options = {
        "the mask is that of sequence 0 everywhere": visible[:1],
        "the mask is that of the next sequence": np.roll(visible, -1, 0),
        "the mask of head h is that of sequence h % batch": visible[
            np.arange(spec.heads[0]) % spec.batch, np.arange(spec.heads[0])
        ][None],
        "the mask is that of head 0 everywhere": visible[:, :1],
        "the mask is that of the next head": np.roll(visible, -1, 1),
        "the mask is that of the first query everywhere": visible[:, :, :1],
        "the mask is that of the next query": np.roll(visible, -1, 2),
        "the mask is that of the query before": np.roll(visible, 1, 2),
        "the mask is shifted by one key to the right": np.roll(visible, 1, 3),
        "the mask is shifted by one key to the left": np.roll(visible, -1, 3),
    }
    heads = np.arange(spec.heads[0]) // spec.group
    options["the mask of a head is that of the head with the number of its KV head"] = visible[
        :, heads
    ]
    for sentence, other in options.items():
        yield sentence, bench.sees(other)


def blocks(bench: Bench) -> Mistakes:
    """Yield blocks of keys that are not read, or masked as a whole."""
    spec, visible = bench.problem.spec, bench.problem.visible
    j = np.arange(spec.keys)
    yield "the last key is not read", bench.sees(visible & (j < spec.keys - 1))
    yield "the first key is not read", bench.sees(visible & (j > 0))
    causal = spec.mask(Causal)
    for block in bench.blocks:
        if block < spec.keys:
            whole, last = spec.keys // block * block, (spec.keys - 1) // block * block
            if whole < spec.keys:
                sentence = (
                    f"the last block of keys, which is not full, is not read (blocks of {block})"
                )
            else:
                sentence = f"the last block of keys is not read (blocks of {block})"
            yield sentence, bench.sees(visible & (j < last))
            yield f"the first block of {block} keys is not read", bench.sees(visible & (j >= block))
            yield f"only the first block of {block} keys is read", bench.sees(visible & (j < block))
            yield (
                f"every second block of {block} keys is not read",
                bench.sees(visible & (j // block % 2 == 0)),
            )
            yield (
                f"the second block of {block} keys is not read",
                bench.sees(visible & (j // block != 1)),
            )
            yield (
                f"the last key of each block of {block} is not read",
                bench.sees(visible & (j % block != block - 1)),
            )
            yield (
                f"the first key of each block of {block} but the first is not read",
                bench.sees(visible & ((j % block != 0) | (j == 0))),
            )
        if block < spec.keys and not visible.all():
            last = (spec.keys - 1) // block * block
            for words, part in (
                (f"last block of {block} keys", j >= last),
                (f"first block of {block} keys", j < block),
            ):
                yield f"the mask is not applied to the {words}", bench.sees(visible | part)
                yield f"the mask is applied to the {words} alone", bench.sees(visible | ~part)
        if causal is not None:
            diagonal = spec.grid.diagonal(causal.alignment)
            rest = spec.visible(causal)
            yield (
                f"causal by whole blocks of {block}: the rest of the diagonal block is read",
                bench.sees(rest & (j // block <= diagonal // block)),
            )
            yield (
                f"causal by whole blocks of {block}: the diagonal block is not read",
                bench.sees(rest & (j // block < diagonal // block)),
            )
            yield (
                f"keys in front of the block of {block} with the diagonal are not read",
                bench.sees(visible & (j // block >= diagonal // block)),
            )
            first = np.arange(spec.queries)[:, None] // block * block
            shift = diagonal - np.arange(spec.queries)[:, None]
            yield (
                f"the causal mask is that of the first query of each block of {block} queries",
                bench.sees(rest & (j <= first + shift)),
            )
            yield (
                f"the causal mask is that of the last query of each block of {block} queries",
                bench.sees(rest & (j <= first + shift + block - 1)),
            )


def _changed(mask: Mask, name: str, value: object) -> Mask:
    fields_of_mask: Any = mask
    changed: Mask = replace(fields_of_mask, **{name: value})
    return changed
