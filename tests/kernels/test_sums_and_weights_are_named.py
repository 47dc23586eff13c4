"""Running sums of blocks that are not square, weights that are cut off, and caches are named."""

import ml_dtypes
import numpy as np
import pytest
from kernels_of_tests import logits_of, plain, softmax_average, values_of

from constructive.kernels import Paged, Spec, diagnose, examine
from constructive.kernels.batteries import problems
from constructive.kernels.masks import Causal, RightPadding

QUERIES, KEYS = 16, 32
CASES = ["last", "random", "ties", "uniform", "scale", "low level"]
CAUSAL = Spec(batch=1, heads=(2, 2), queries=80, keys=80, head_dim=32, masks=(Causal(),))


def in_blocks(problem, bug):
    """Attention in blocks of 16 queries and 32 keys, in float32, with a sink if there is one."""
    logits, values = logits_of(problem, np.float32), values_of(problem, np.float32)
    out, sinks = np.zeros(problem.expected.shape, np.float32), problem.sinks
    for start in range(0, logits.shape[2], QUERIES):
        rows = slice(start, start + QUERIES)
        end = int(np.flatnonzero(problem.visible[:, :, rows].any((0, 1, 2))).max()) + 1
        shape = (*logits.shape[:2], logits[:, :, rows].shape[2], 1)
        top, total = np.full(shape, -np.inf, np.float32), np.zeros(shape, np.float32)
        sink = None if sinks is None else sinks.astype(np.float32)[:, None, None]
        if sink is not None:
            top, total = np.broadcast_to(sink, shape), total + 1
        sums = np.zeros((*shape[:3], values.shape[-1]), np.float32)
        for first in range(0, end, KEYS):
            part = logits[:, :, rows, first : first + KEYS]
            new = np.maximum(top, part.max(-1, keepdims=True))
            base = np.where(np.isfinite(new), new, 0)
            weights = np.exp(part - base)
            factor = np.exp(top - base)
            if bug == "first":
                factor = np.broadcast_to(factor[:, :, :1], factor.shape)
            if bug == "inverted":
                factor = np.where(np.isfinite(top), np.exp(base - top), 0)
            before = total
            total = total * factor + weights.sum(-1, keepdims=True)
            if bug == "sinks" and first:
                total = total + np.exp(sink - base)
            sums = sums * factor + weights @ values[:, :, first : first + KEYS]
            top = new
        if bug == "last":
            total = np.where(before > 0, before, total)
        out[:, :, rows] = sums / total
    return out


def reports_of(kernel, spec, **how):
    with np.errstate(all="ignore"):
        return [examine(problem, kernel(problem), **how) for problem in problems(spec, cases=CASES)]


@pytest.mark.parametrize(
    ("bug", "words"),
    [
        ("first", "rescaled by the factor of the first one of their block"),
        ("inverted", "exp(new - old)"),
        ("last", "the sum of weights before the last block (blocks of 16 queries and 32 keys)"),
        ("sinks", "the sink is counted in each block that is read"),
    ],
)
def test_running_sums(bug, words):
    spec = CAUSAL if bug != "sinks" else Spec(**{**vars(CAUSAL), "sink": True})
    assert all(report.passed for report in reports_of(lambda p: in_blocks(p, ""), spec))
    found = diagnose(reports_of(lambda p: in_blocks(p, bug), spec))
    assert any(words in name for name in found), found


def weighed(problem, change):
    logits = logits_of(problem)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return change(weights / weights.sum(-1, keepdims=True), problem)


def by_key(shares, problem):
    out, values = np.zeros(problem.expected.shape, ml_dtypes.bfloat16), values_of(problem)
    for key in range(shares.shape[-1]):
        more = shares[..., key, None] * values[:, :, key, None]
        out = (out.astype(float) + more.astype(ml_dtypes.bfloat16)).astype(ml_dtypes.bfloat16)
    return out.astype(float)


WEIGHTS = {
    "weights below 0.05 are dropped": lambda p, s: np.where(p > 0.05, p, 0) @ values_of(s),
    "only the 8 largest weights are kept, without": lambda p, s: (
        np.where(p > np.sort(p, -1)[..., -8, None], p, 0) @ values_of(s)
    ),
    "the output is summed key by key in bfloat16": by_key,
    "each row of the output is the largest of those so far": lambda p, s: np.maximum.accumulate(
        p @ values_of(s), axis=2
    ),
}


@pytest.mark.parametrize("words", WEIGHTS)
def test_weights(words):
    found = diagnose(reports_of(lambda problem: weighed(problem, WEIGHTS[words]), CAUSAL))
    assert any(words in name for name in found), found


def test_a_cache_without_a_mask_between_its_new_keys():
    causal = (Causal("bottom-right"),)
    cached = Spec(heads=(2, 2), queries=7, keys=40, head_dim=32, masks=causal)
    whole = Spec(heads=(2, 2), queries=40, keys=40, head_dim=32, masks=causal)

    def kernel(problem):
        return plain(problem) if problem.spec.queries == 40 else unmasked(problem)

    reports = [report for spec in (cached, whole) for report in reports_of(kernel, spec)]
    assert "the causal mask is missing between new keys" in diagnose(reports)[0]
    reports = [report for spec in (cached, whole) for report in reports_of(unmasked, spec)]
    assert "new keys" not in diagnose(reports)[0]


def unmasked(problem):
    k, v = (np.repeat(array, problem.spec.group, 1) for array in (problem.k, problem.v))
    return softmax_average(problem.q, k, v, np.ones_like(problem.visible), problem.spec.factor)


LENGTHS = (33, 70, 8)
PAGED = Spec(batch=3, heads=(4, 2), queries=3, keys=70, head_dim=32, masks=(RightPadding(LENGTHS),))
SIZE = 8


def from_pages(paged, problem, column, lengths):
    """Attention over pages of a table in which entries of no page are taken as page 0."""
    width, out = paged.table.shape[1], []
    for b, length in enumerate(lengths):
        key = np.arange(length)
        entry = np.clip(column(key // SIZE, width), 0, width - 1)
        places = np.maximum(paged.table[b, entry], 0), key % SIZE
        k, v = (np.repeat(a[places].swapaxes(0, 1)[None], 2, 1) for a in (paged.k, paged.v))
        visible = np.ones((1, 4, 3, length), dtype=np.bool_)
        out.append(softmax_average(problem.q[b : b + 1], k, v, visible, problem.spec.factor))
    return np.concatenate(out)


@pytest.mark.parametrize(
    ("column", "change", "words"),
    [
        (lambda block, _: block, lambda n: n, None),
        (lambda block, _: block, lambda n: n + 1, "one key too many is read at the end"),
        (lambda block, _: block, lambda n: 0 * n + n[0], "the length of sequence 0 is that of all"),
        (lambda block, width: width - 1 - block, lambda n: n, "table are in reverse order"),
        (lambda block, width: (block + 1) % width, lambda n: n, "the last is the first"),
    ],
)
def test_pages(column, change, words):
    reports = []
    for problem in problems(PAGED, cases=CASES):
        paged = Paged.of(problem, page_size=SIZE, stale=True)
        out = from_pages(paged, problem, column, change(paged.lengths))
        reports.append(examine(problem, out, memory=paged))
    if words is None:
        assert all(report.passed for report in reports)
    else:
        assert words in diagnose(reports)[0]
