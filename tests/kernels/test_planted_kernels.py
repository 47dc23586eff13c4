"""Planted bugs: a right kernel in which one step is wrong is caught, and the message says how.

A bug is a row: arguments of the battery, words that must occur in what `diagnose` says of all
outputs, and the step that is replaced. They stand for the families of 325 bugs that were
planted in six kernels before (docs/kernels.md, "Planted bugs").
"""

from dataclasses import replace

import numpy as np
import pytest
from kernels_of_tests import SINGLE, Flash, plain

from constructive.exact.formats import FORMATS, nearest
from constructive.kernels import battery, diagnose, examine
from constructive.kernels.masks import Boolean, Chunked, LeftPadding, RightPadding, VariableLengths


def up_to(last):
    """Masks that show keys up to a last one."""
    return {"seen": lambda s, j: j <= last(s)}


def places(place):
    """Keys and values that are read elsewhere."""
    return {"key_place": place}


def whole_blocks(self, j):
    seen = np.broadcast_to(self.problem.visible, self.problem.answer.weights.shape)[..., j]
    rows = np.arange(0, self.spec.queries, 16)
    blocks = np.logical_or.reduceat(seen, rows, axis=2).any(-1, keepdims=True)
    return np.repeat(blocks, 16, axis=2)[:, :, : self.spec.queries] & (j >= 0)


def first_row_of_block(x):
    return x[..., np.arange(x.shape[-2]) // 16 * 16, :]


def strides_of_keys(self, j):
    spec, d_v = self.spec, self.spec.d_v
    row = (self.b * spec.heads[1] + self.h // self.group) * spec.keys * d_v
    address = row + j[:, None] * spec.head_dim + np.arange(d_v)
    return self.v.reshape(-1)[np.minimum(address, self.v.size - 1)]


def programs(self, j):
    program = self.b * self.spec.heads[0] + self.h
    return program % self.spec.batch, program // self.spec.batch // self.group, j


def moved_back(self, low, high):
    blocks = Flash.blocks(self, low, high)
    return [*blocks[:-1], np.arange(high - 16, high)]


def merged_by(change):
    """Splits whose log-sum-exps are something else."""
    return {
        "splits": 2, "merged": lambda s, outs, ends: Flash.merged(s, outs, change(s, ends)),
    }  # fmt: skip


def packed(self, j):
    """All sequences follow each other in memory; the offset of each is that of its queries."""
    (queries, keys), b = self.spec.lengths, self.b[:, 0, 0, 0]
    starts, wrong = (np.cumsum(x) - x for x in (keys, queries))
    at = np.minimum(wrong[b][:, None] + j, keys.sum() - 1)
    sequence = np.searchsorted(np.cumsum(keys), at, side="right")
    return sequence[:, None, :, None], self.h // self.group, (at - starts[sequence])[:, None]


RIGHT, LEFT = {"causal": "bottom-right"}, {"causal": "top-left"}
FEW = {"cases": ["random", "ties"]}
PADDED = {"masks": [RightPadding((70, 33))]}
HEADS = {"masks": [Boolean(per_head=True)]}
EIGHT = {"heads": (8, 2)}
BUGS = {
    # masks
    "causal, rows of a group": (
        RIGHT | FEW, "with the key <= 44 and key less query <= 20",
        up_to(lambda s: s.i // s.group + s.at - s.i),
    ),
    "whole blocks": (RIGHT, "the key is 47, 47, 47", {"seen": whole_blocks}),
    "window, one longer": (
        RIGHT | {"window": (9, 0)},
        "with key less query = 19; these keys are hidden by the mask 'window",
        {"seen": lambda s, j: (j <= s.at) & (j >= s.at - 10)},
    ),
    "window, from the next block": (
        RIGHT | {"window": (9, 0)}, "all rows with key to be read mod 16 >= 10",
        {"seen": lambda s, j: (j <= s.at) & (j >= -(-(s.at - 9) // 16) * 16)},
    ),
    "mask of head 0": (
        HEADS, "all rows with head >= 1", {"seen": lambda s, j: s.problem.visible[:, :1, :, j]},
    ),
    "hidden logits are finite": (
        RIGHT | {"cases": None, "head_dim": 32}, "all with case low",
        {"hidden": lambda _, scores, seen, j: np.where(seen, scores, SINGLE(-1e4))},
    ),
    # heads, sequences and memory
    "heads, tiled": (
        {}, "the KV head is head mod KV heads",
        places(lambda s, j: (s.b, s.h % s.spec.heads[1], j)),
    ),
    "programs": ({"batch": 3}, "KV head of the key less its own = 1", places(programs)),
    "layout of the output": (
        {}, "the head is place mod heads (in 99%), the query is place // heads",
        {"written": lambda s, out: out.swapaxes(1, 2).reshape(out.shape)},
    ),
    "width, the tail": (
        {"head_dim": 36}, "all with case other than uniform",
        {"products": lambda s, j: s.q[..., :32] @ s.keys(j)[..., :32].swapaxes(-1, -2)},
    ),
    "stride of values": (
        {"value_dim": 24}, "key to be read - 23", {"values": strides_of_keys},
    ),
    "columns": (
        {}, "columns 8 to 15 alone (zero there)",
        {"written": lambda s, out: out * (np.arange(16) < 8)},
    ),
    # scores
    "scale, base two": (
        {}, "all with case scale", {"scale": lambda _: SINGLE(0.25 * np.log(2))},
    ),
    "soft cap, after the mask": (
        LEFT | {"soft_cap": 50.0, "cases": None}, "all with case uniform",
        {"capped": lambda _, x: x, "hidden": lambda s, x, seen, j: Flash.capped(
            s, np.where(seen, x, SINGLE(-np.inf)))},
    ),
    "soft cap, none": (
        LEFT | {"soft_cap": 50.0, "cases": None}, "all with case soft cap",
        {"capped": lambda _, x: x},
    ),
    "slopes, a tenth less": (
        RIGHT | {"alibi": True}, "all with case slopes",
        {"bias": lambda s, j: 0.9 * Flash.bias(s, j)},
    ),
    "slopes, of the head modulo four": (
        EIGHT | {"alibi": True}, "case: all of ties, uniform, slopes",
        {"bias": lambda s, j: Flash.bias(s, j)[:, np.arange(8) % 4]},
    ),
    "bias, of the last sequence": (
        {"bias": "bij", "cases": None}, "", {"bias": lambda s, j: Flash.bias(s, j)[-1:]},
    ),
    "bias, of the first query": (
        {"bias": "hij", "cases": None}, "right output of another row: the query is 0",
        {"bias": lambda s, j: Flash.bias(s, j)[:, :, :1]},
    ),
    "bias, without log2(e)": (
        {"bias": "bj", "cases": None}, "scale or bias",
        {"bias": lambda s, j: Flash.bias(s, j) * SINGLE(np.log(2))},
    ),
    "chunks are windows": (
        {"masks": [Chunked(16)]}, "", {"seen": lambda s, j: (j <= s.at) & (j > s.at - 16)},
    ),
    "soft cap, after the mask, where blocks are skipped": (
        LEFT | {"soft_cap": 50.0, "cases": None, "queries": 70},
        "the query is the start of the block of 16",
        {"capped": lambda _, x: x, "hidden": lambda s, x, seen, j: np.where(
            whole_blocks(s, j).any(-1, keepdims=True),
            Flash.capped(s, np.where(seen, x, SINGLE(-np.inf))), SINGLE(-np.inf))},
    ),
    "scale, of a padded width": (
        {"head_dim": 24}, "count some keys more, with 1.1156 of",
        {"scale": lambda _: SINGLE(32**-0.5)},
    ),
    # blocks
    "last block, moved back": (
        {"cases": ["ties", "uniform"]}, "those with the key from 54 to 63", {"blocks": moved_back},
    ),
    "outputs not rescaled": (
        {}, "rows with key to be read >= 16",
        {"added": lambda s, out, fade, weights, j: Flash.added(s, out, SINGLE(1), weights, j)},
    ),
    "largest from -10000": (
        {}, "exp underflows unless the largest is found",
        {"first": lambda _, top: np.full_like(top, -1e4)},
    ),
    "values of the block before": (
        {}, "key to be read - 16",
        {"value_place": lambda s, j: (s.b, s.h // s.group, np.where(j >= 16, j - 16, j))},
    ),
    # padding
    "length, one less": (
        PADDED, "with key less the last visible one <= -1", up_to(lambda s: s.lengths - 2),
    ),
    "left padding": (
        {"masks": [LeftPadding((0, 5))]}, "those with the key <= 64",
        up_to(lambda s: 69 - np.array([0, 5])[:, None, None, None]),
    ),
    "packed": (
        {"masks": [VariableLengths((41, 30), (70, 55))]}, "sequence of the key less its own = -1",
        {"key_place": packed},
    ),
    # sinks and splits
    "sink, none": ({"sink": True}, "they are right, times 2", {"sinks": lambda _: SINGLE(-np.inf)}),
    "sink, of the KV head": (
        EIGHT | {"sink": True}, "all rows with head >= 4",
        {"sinks": lambda s: Flash.sinks(s)[np.arange(8) // 4]},
    ),
    "splits, scaled sums": (
        {}, "all with case ties or uniform or scale or levels",
        merged_by(lambda s, x: x * s.scale()),
    ),
    "splits, of the first row": (
        {}, "lack keys that they should read, those with the key >= 32",
        merged_by(lambda _, x: first_row_of_block(x)),
    ),
    # precision
    "output, rounded": (
        {}, "a part of 0.0026, 2^-8.6", {"written": lambda _, x: nearest(x, FORMATS["bfloat16"])},
    ),
}  # fmt: skip


def replaced(steps):
    return type("Wrong", (Flash,), steps)


SHAPE = {
    "queries": 41, "keys": 70, "head_dim": 16,
    "cases": ["last", "random", "ties", "uniform", "scale", "slopes", "levels", "low"],
}  # fmt: skip


@pytest.mark.parametrize("name", BUGS)
def test_bugs_are_caught_and_explained(name):
    arguments, words, steps = BUGS[name]
    reports = [
        examine(problem, replaced(steps)(problem).output())
        for problem in battery(**(SHAPE | arguments))
    ]
    assert not all(report.passed for report in reports)
    said = diagnose(reports)
    assert any(words in line for line in said), said


def of_heads(option, **arguments):
    """What the battery has for each head, slopes or sinks, by problem."""
    name = {"alibi": "slopes", "sink": "sinks"}[option]
    shape = {"queries": 9, "keys": 9, "head_dim": 64, "value_dim": 16, option: True}
    return [getattr(problem, name) for problem in battery(**(shape | arguments))]


def wrong_heads(heads):
    """Wrong numbers of heads: modulo or divided, shifted or turned, of pairs and of KV heads."""
    h = np.arange(heads)
    yield heads - 1 - h
    yield h ^ 1
    yield h // 2 * 2
    for k in range(1, heads):
        yield from (h % k, (h + k) % heads, np.minimum(h + k, heads - 1))
        if k > 1:
            yield h // k


@pytest.mark.parametrize("option", ["alibi", "sink"])
@pytest.mark.parametrize("heads", [2, 3, 4, 5, 6, 7, 8, 12, 16, 32, 64])
def test_slopes_and_sinks_of_wrong_heads_are_other_ones(heads, option):
    for seed in range(3):
        cases = ["uniform", "slopes", "ties"] if option == "alibi" else None  # they show slopes
        given = of_heads(option, batch=1, heads=(heads, 1), seed=seed, cases=cases)
        if option == "sink":  # every head is told from every other one
            assert len(np.unique(np.stack(given), axis=1).T) == heads
        for wrong in wrong_heads(heads):
            if heads % 2 and max(wrong) == heads:
                continue  # there is no such head
            assert any((numbers[wrong] != numbers).any() for numbers in given), wrong
        assert all(len(set(numbers)) <= 2 for numbers in given)


@pytest.mark.parametrize(("option", "heads"), [("alibi", 4), ("sink", 8)])
def test_a_slope_or_a_sink_of_any_other_head_is_seen(option, heads):
    name = {"alibi": "slopes", "sink": "sinks"}[option]
    given = list(battery(**SHAPE, heads=(heads, 2), **{option: True}))
    for head, other in np.argwhere(~np.eye(heads, dtype=bool)):
        seen = False
        for problem in given:
            numbers = getattr(problem, name).copy()
            numbers[head] = numbers[other]
            seen = seen or not examine(problem, plain(replace(problem, **{name: numbers}))).passed
        assert seen, (head, other)
