"""The bugs of docs/kernels-found.md, each planted in a kernel of our own: which are caught?

    python tests/benchmarks/kernels/real_bugs.py

The right kernel and the wrong one get the same problems, with the settings of somebody who tests
the feature. A bug is caught if the right kernel passes all of them and the wrong one does not; one
that is planted in several ways, if each is. How follows the report; where that says only what was
seen, "like" stands before it. The lines are those of the page.
Needs torch and pytest, as the tests do whose kernels are used.
"""

import logging
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from constructive.kernels import (
    Backward,
    Gathered,
    Guarded,
    Paged,
    Problem,
    Quantized,
    Rotated,
    Spec,
    battery,
    examine,
    invariance,
    merges,
)
from constructive.kernels.masks import Causal, Given, RightPadding

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "kernels"))

import test_encodings as encoded
import test_gradients as gradients
import test_invariance as invariant
import test_log_sum_exps as lses
import test_planted_kernels as planted
from kernels_of_tests import VARIANTS, attend

SINGLE = np.float32
SHAPE = {name: size for name, size in planted.SHAPE.items() if name != "cases"}
ONE_QUERY = {"queries": 1, "heads": (8, 2)}
NOT_PLANTED = {
    31: "a race is wrong only when it happens; repeat `Backward` on a busy device",
    34: "the report has no cause that can be planted",
    38: "linear attention is not softmax attention",
    40: "no shape of ours has offsets of 2^31",
}

# What runs the right kernel and the wrong one: names of cases, and which of both pass.


def forward(steps, right=None, **arguments):
    right = right or {}
    for problem in battery(**(SHAPE | arguments)):
        kernels = (planted.replaced(each)(problem) for each in (right, right | steps))
        yield problem.case, *(examine(problem, kernel.output()).passed for kernel in kernels)


def planted_before(name, **arguments):
    """A bug of the table of planted kernels, on all cases."""
    given, _, steps = planted.BUGS[name]
    return forward(steps, **(given | {"cases": None} | arguments))


def backward(steps, *, d_lse=False, keep=None, **arguments):
    shape = {"batch": 2, "heads": (4, 2), "queries": 30, "keys": 40, "head_dim": 16} | arguments
    for problem in Backward.each(battery(**shape), d_lse=d_lse, keep=keep):
        kernels = gradients.Steps, type("Wrong", (gradients.Steps,), steps)
        yield problem.problem.case, *(kernel(problem).report().passed for kernel in kernels)


def log_sum_exps(change, **options):
    for problem in battery(**lses.SHAPE):
        out, lse = lses.kernel(problem, **options)
        found = (examine(problem, out, lse=each) for each in (lse, change(problem, lse)))
        yield problem.case, *(report.passed for report in found)


def passes(check, *given):
    """Whether a check raises no error of a kernel."""
    try:
        with np.errstate(all="ignore"):
            check(*given)
    except AssertionError:
        return False
    return True


def merging(merge):
    for states in merges():

        def check(each, states=states):
            states.check(*each(states.outs, states.lses, "e"))

        yield f"{len(states.outs)} states", *(passes(check, x) for x in (lses.at_once, merge))


def quantized(name, *, form="float8_e4m3fn", **changed):
    kind, change = encoded.SCALES[name]
    return quantized_by(lambda x: (x, change(x.stored_k, x.stored_v)), kind, form, **changed)


def quantized_by(wrong, kind, form, cases=("random", "low", "levels", "scale"), **changed):
    spec = Spec(**vars(encoded.CACHE) | changed)
    for problem in encoded.of_specs(spec, cases, seeds=(3, 4)):
        cache = Quantized.of(problem, form=form, k=kind, v=kind, page_size=8)
        passed = []
        for stored, scales in ((cache, {}), wrong(cache)):
            with np.errstate(all="ignore"):
                out = encoded.dequantized(stored, VARIANTS[2], **scales)
            passed.append(examine(cache.problem, out).passed)
        yield problem.case, *passed


def paged(wrong, *, stale):
    for problem in encoded.of_specs(encoded.CACHED, ("last", "random", "ties")):
        pages = Paged.of(problem, page_size=8, stale=stale)
        k, v = (cleared(x, problem) for x in encoded.read(pages))
        passed = []
        for values in (v, wrong(pages, problem)):
            with np.errstate(invalid="ignore"):
                passed.append(examine(problem, attend(problem.q, k, values, problem)).passed)
        yield problem.case, *passed


def cleared(x, problem):
    """A right kernel does not multiply what lies behind the end of a sequence."""
    ends = problem.spec.lengths[1][:, None, None, None]
    return np.where(np.arange(x.shape[2])[:, None] < ends, x, 0.0)


def latent(name):
    for turn, problem in enumerate(encoded.latent_problems((0, 1))):  # of three queries
        how = VARIANTS[turn % len(VARIANTS)]
        found = ({}, encoded.LATENT[name](problem))
        outs = (encoded.latent_attention(problem, how, **changed) for changed in found)
        yield problem.problem.case, *(examine(problem.problem, out).passed for out in outs)


def invariances(wrong):
    problem = Problem.build(invariant.SPEC, "random")
    for claim in ("again", "order", "alone", "batch"):
        kernels = invariant.of(problem), wrong(problem)
        yield claim, *(not invariance(each, problem, claims=[claim]) for each in kernels)


# Gradients of gathered keys: those of the problem whose mask hides the others.

SPARSE = {"batch": 1, "heads": (2, 1), "queries": 9, "keys": 20, "head_dim": 16,
          "causal": "bottom-right"}  # fmt: skip


def plain_add(array, head, keys, rows):
    np.add.at(array[head], keys, rows)


def gathered_gradients(problem, indices, dk, dv, add=plain_add, lanes=lambda keys: keys >= 0):
    """A sparse backward pass, which adds to the rows of dk and dv that the indices name."""
    inner, spec = problem.problem, problem.problem.spec
    dq = np.zeros_like(inner.q)
    for b, h, i in np.ndindex(*dq.shape[:3]):
        head = (b, h // spec.group)
        row = indices[b, min(h, indices.shape[1] - 1), i]
        keys, real = row[lanes(row)], row[lanes(row)] >= 0
        k, v = inner.k[*head, keys], inner.v[*head, keys]
        logits = np.where(real, k @ inner.q[b, h, i] * spec.factor, -np.inf)
        weights = np.exp(logits - logits.max())
        weights /= weights.sum()
        d_weights = v @ problem.d_out[b, h, i]
        scores = weights * (d_weights - weights @ d_weights)
        dq[b, h, i] = scores @ k * spec.factor
        add(dk, head, keys, np.outer(scores, inner.q[b, h, i]) * spec.factor)
        add(dv, head, keys, np.outer(weights, problem.d_out[b, h, i]))
    return dq


def write_at_minus_one(array, head, keys, rows):
    """Every lane adds its row, unused ones 0 to the row before the first."""
    whole, width = array.base, array.shape[-1]
    start = (whole.size - array.size) // 2 + (head[0] * array.shape[1] + head[1]) * array[0, 0].size
    for key, row in zip(keys, rows, strict=True):
        at = start + key * width
        whole[at : at + width] += row.astype(SINGLE)


def sparse_backward(add, lanes, *, is_guarded):
    for problem in Backward.each(battery(**SPARSE)):
        indices, passed = Gathered.of(problem.problem).indices, []
        for how in ({}, {"add": add, "lanes": lanes}):
            guards = [Guarded(x.shape) for x in (problem.dk, problem.dv)]
            dk, dv = (guard.array for guard in guards)
            dk[:], dv[:] = 0.0, 0.0
            with np.errstate(invalid="ignore"):  # of signalling NaNs, to which 0 is added
                dq = gathered_gradients(problem, indices, dk, dv, **how)
            outside = is_guarded and any(guard.outside for guard in guards)
            passed.append(problem.examine(dq, dk, dv).passed and not outside)
        yield problem.problem.case, *passed


def last_write(array, head, keys, rows):
    """Of queries that share a key one wins, as where an atomic addition is forgotten."""
    array[head][keys] = rows


# Single steps.


def tail_of_keys(steps, dq, dk, dv):
    """Keys of zeros behind the last: their weights are exp(0 - lse), and all else there is 0."""
    return dq + 0 * np.exp(-gradients.Steps.lse(steps).astype(SINGLE)), dk, dv


def tail_of_queries(steps, dq, dk, dv):
    """Queries of zeros behind the last, with the log-sum-exp of the last."""
    tail = 0 * np.exp(-gradients.Steps.lse(steps)[:, :, -1:].astype(SINGLE))
    return dq, dk + steps.summed(tail), dv + steps.summed(tail)


def zero_wins_behind(steps, old, scores, j):
    top = planted.Flash.top(steps, old, scores, j)
    return np.maximum(top, 0) if j[-1] == steps.spec.keys - 1 else top


def of_half_a_buffer(_, ends):
    """Sums of float32 in a buffer for 16 bits: what is behind its end is other memory."""
    return np.resize(ends.ravel()[: ends.size // 2], ends.shape)


def of_the_last_part(problem, _):
    kernel = planted.Flash(problem, splits=3, block=14)
    return kernel.part(*kernel.bounds()[-1])[1][..., 0]


def at_half_the_stride(cache):
    """Rows of 256 numbers at 128 times the token."""

    def read(scaled):
        flat = scaled.numbers.reshape(*scaled.numbers.shape[:2], -1)
        at = np.arange(scaled.numbers.shape[2])[:, None] * 128 + np.arange(256)
        return replace(scaled, numbers=flat[..., at])

    return replace(cache, stored_k=read(cache.stored_k), stored_v=read(cache.stored_v)), {}


def rotations(layout, change):
    spec = Spec(heads=(4, 2), queries=9, keys=20, head_dim=32, masks=(Causal(),))
    for problem in encoded.of_specs(spec, ("last", "random", "ties")):
        rotated = Rotated.of(problem, layout=layout, rotary=16)
        right = {"layout": layout, "rotary": 16}
        outs = (encoded.rotating(rotated, **each) for each in (right, right | change))
        yield problem.case, *(examine(problem, out).passed for out in outs)


CAUSAL, WINDOW = {"causal": "top-left"}, {"causal": "bottom-right", "window": (9, 0)}
SQUARE = {"queries": 40, "keys": 40}
BLOCKS = np.kron(np.eye(4) + np.eye(4, k=-2), np.ones((16, 16))).astype(bool)
TREE = Given(np.array([  # seven tokens behind 30: a token sees itself and those that it follows
    np.r_[np.ones(30), np.isin(np.arange(7), seen)] for seen in (
        [0], [0, 1], [0, 2], [0, 1, 3], [0, 1, 4], [0, 2, 5], [0, 2, 5, 6])
], bool))  # fmt: skip
ALL_KEYS = planted.up_to(lambda _: 10**6)
# By number: how it is planted, what somebody who tests the feature calls, and what is run.
BUGS = {
    1: ("a tail of keys counts exp(0 - lse)", "`Backward`",
           partial(backward, {"written": tail_of_keys})),
    2: ("like: a tail of queries counts exp(0 - lse)", "`Backward`, one query",
           partial(backward, {"written": tail_of_queries}, queries=1)),
    3: ("the largest logit is at least 0 where a block has a tail", "`check`",
           partial(forward, {"top": zero_wins_behind}, **ONE_QUERY)),
    4: ("the counter of query blocks advances at half the rate", "`check`",
           partial(forward, planted.up_to(lambda s: s.i // 32 * 16 + s.i % 16), **CAUSAL)),
    5: ("like: values are those of other keys", "`check`",
           partial(forward, {"value_place": lambda s, j: (
               s.b, s.h // s.group, j * 7 % s.spec.keys)})),
    6: ("the mask is that of the last of four queries", "`check`",
           partial(forward, planted.up_to(lambda s: s.i // 4 * 4 + 3), **CAUSAL)),
    7: ("the width of keys is the stride of values", "`check`, d_v other than d",
           partial(planted_before, "stride of values")),
    8: ("log-sum-exps of two passes are in a buffer of half the size", "`check`, one query",
           partial(forward, planted.merged_by(of_half_a_buffer), {"splits": 2}, **ONE_QUERY)),
    9: ("the window has no right end", "`check`, `window=(9, 0)`",
           partial(forward, {"seen": lambda s, j: j >= s.at - 9}, window=(9, 0))),
    10: ("the window replaces the padding", "`check`, `window=` and padding",
            partial(forward, {"seen": lambda s, j: (j <= s.i) & (j >= s.i - 9)},
                    masks=[RightPadding((40, 13))], window=(9, 0), **CAUSAL, **SQUARE)),
    11: ("splits without keys have an old log-sum-exp, 0", "`check`, `window=`, four splits",
            partial(forward, planted.merged_by(lambda _, x: np.where(np.isneginf(x), 0, x))
                    | {"splits": 4}, {"splits": 4}, **ONE_QUERY, **WINDOW)),
    12: ("weights are divided by their sum, 0", "`merges`",
            partial(merging, lses.MERGES["empty"][0])),
    13: ("a row of a sequence without keys is divided by 0", "`check`, a length of 0",
            partial(forward, {"divided": lambda _, top, total, out: (
                out / total, np.where(total > 0, top + np.log(total), -np.inf))},
                    masks=[RightPadding((70, 0))])),
    14: ("log 2 is added", "`check`, `lse=`",
            partial(log_sum_exps, lses.BUGS["log 2 more"][0])),
    15: ("like: it is that of the last part of the keys", "`check`, `lse=`",
            partial(log_sum_exps, of_the_last_part, splits=3)),
    16: ("the kernel returns base 2 and the merge takes base e", "`check`, `lse=`; `merges`",
            partial(log_sum_exps, lses.BUGS["base 2"][0]),
            partial(merging, lses.MERGES["other base"][0])),
    17: ("both scales are ignored", "`Quantized`",
            partial(quantized, "k_scale and v_scale are ignored")),
    18: ("the scale of queries is ignored", "`Quantized`, queries in float8",
            partial(quantized, "q_scale is ignored", dtype="float8_e4m3fn")),
    19: ("the scale of keys, then that of values is applied twice", "`Quantized`",
            partial(quantized, "k_scale is applied twice"),
            partial(quantized, "v_scale is applied twice")),
    20: ("like: scales of blocks are in reverse", '`Quantized`, form "nvfp4"',
            partial(quantized, "v scales of blocks in reverse", form="nvfp4")),
    21: ("scales of tokens have the stride of compact pages", '`Quantized`, form "int8"',
            partial(quantized, "k scales at the stride of compact pages", form="int8")),
    22: ("rows of 256 have the stride 128", '`Quantized`, form "int8", `head_dim=256`',
            partial(quantized_by, at_half_the_stride, "head", "int8", head_dim=256)),
    23: ("the table has another stride for values", "`Paged(stale=True)`",
            partial(paged, lambda pages, problem: cleared(
                encoded.read(pages, width=5)[1], problem), stale=True)),
    24: ("values behind the end are multiplied by the weight 0", "`Paged`",
            partial(paged, lambda pages, _: encoded.read(pages)[1], stale=False)),
    25: ("all queries are the first, if three", "`Latent`",
            partial(latent, "all queries are the first where their number is no power of two")),
    26: ("unused lanes add 0 to the row -1", "`Gathered`, `Backward`, `Guarded`",
            partial(sparse_backward, write_at_minus_one, lambda keys: keys < 10**6,
                    is_guarded=True)),
    27: ("like: of queries that share a key one is written", "`Gathered`, `Backward`",
            partial(sparse_backward, last_write, lambda keys: keys >= 0, is_guarded=False)),
    28: ("the mask of blocks is ignored", "`check`, the mask `Given`",
            partial(forward, ALL_KEYS, queries=64, keys=64, masks=[Given(BLOCKS)])),
    29: ("whole blocks are seen, as the mask of entries is lost", "`check`",
            partial(planted_before, "whole blocks")),
    30: ("the tree is ignored: all earlier keys are seen", "`check`, the mask `Given`",
            partial(forward, planted.up_to(lambda s: s.at), queries=7, keys=37, masks=[TREE])),
    32: ("the number of splits is that of the batch", "`invariance`",
            partial(invariances, partial(invariant.of, splits=lambda q: 8 // len(q)))),
    33: ("the sink is ignored", "`check`, `sink=True`",
            partial(planted_before, "sink, none")),
    35: ("like: dbias is never written, and 0", "`Backward`, `dbias=`",
            partial(backward, {"of_bias": lambda _, scores: 0 * scores[0]}, d_lse=True)),
    36: ("dsink lacks the gradient of the log-sum-exp", "`Backward`, `d_lse=True`",
            partial(backward, {"of_sinks": lambda _, p, alone: (-p * alone).sum((0, 2, 3))},
                    d_lse=True, sink=True)),
    37: ("weights are those after dropout, dP that before", "`Backward`, `keep=0.5`",
            partial(backward, {"of_scores": lambda _: 1.0, "scores": lambda s, p, rest, alone: (
                p * s.z * (rest - alone))}, keep=0.5)),
    39: ("the other layout; half of the width", "`Rotated`",
            partial(rotations, "half", {"layout": "interleaved"}),
            partial(rotations, "interleaved", {"layout": "half"}),
            partial(rotations, "half", {"rotary": 8})),
    41: ("the output is not written, and 0", "`check`, `head_dim=72`",
            partial(forward, {"written": lambda _, out: 0 * out}, head_dim=72)),
    42: ("as many blocks as the window needs, from block 0", "`check`, `window=`",
            partial(forward, {"blocks": lambda s, _low, _high: planted.Flash.blocks(s, 0, 32)},
                    **ONE_QUERY, **WINDOW)),
}  # fmt: skip


def result(variants):
    """How many problems the wrong kernels fail, or what went wrong."""
    every = []
    for outcomes in variants:
        with np.errstate(over="ignore"):
            found = list(outcomes())
        if not all(right for _, right, _ in found):
            return False, "the RIGHT kernel fails"
        if all(passes for _, _, passes in found):
            return False, "NOT caught"
        every += found
    failed = [case for case, _, passes in every if not passes]
    cases = list(dict.fromkeys(failed))
    names = f" ({', '.join(cases)})" if len(cases) <= 3 else ""
    return True, f"{len(failed)} of {len(every)}{names}"


def main():
    logging.disable()  # of the cases whose gradients are not known
    start, caught = time.process_time(), 0
    for number, (how, seen_by, *variants) in BUGS.items():
        is_caught, said = result(variants)
        caught += is_caught
        print(f"{number} | {how} | {seen_by}: {said}", flush=True)
    for number, reason in NOT_PLANTED.items():
        print(f"{number} | | nothing: {reason}")
    total = len(BUGS) + len(NOT_PLANTED)
    print(f"{caught} of {total} are caught; {time.process_time() - start:.0f} s of CPU")
    return caught == len(BUGS)


if __name__ == "__main__":
    raise SystemExit(not main())
