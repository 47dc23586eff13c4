"""New tokens of a cache, selected keys, merges with sinks, and rings."""

import sys
from pathlib import Path

import numpy as np
import pytest
from test_log_sum_exps import at_once

from constructive.exact.formats import FORMATS, nearest
from constructive.kernels import (
    Append,
    Backward,
    Problem,
    Quantized,
    Spec,
    cut_keys,
    merges,
    selections,
)
from constructive.kernels.masks import Causal, RightPadding
from constructive.support.errors import ParameterError

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "kernels"))

import held_out

SPEC = Spec(
    batch=3, heads=(4, 2), queries=3, keys=70, dtype="bfloat16", masks=(RightPadding((70, 33, 0)),)
)


@pytest.mark.parametrize("form", [None, "int8", "float8_e4m3fn"])
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("tokens", [1, None])
def test_appended_tokens(form, layout, tokens):
    problem = Problem.build(SPEC, "random")
    kind = {"k": "head", "v": "channel"}
    given = problem if form is None else Quantized.of(problem, form=form, **kind)
    append = Append.of(given, tokens=tokens, layout=layout)
    assert append.k.shape == (2 * (tokens or 17), 2, 64)
    right = []
    for name, scale in (("k", append.paged.k_scale), ("v", append.paged.v_scale)):
        cache = np.array(getattr(append.paged, name)).astype(float)
        tall = cache if layout == "NHD" else cache.swapaxes(1, 2)
        fresh = np.array(getattr(append, name)).astype(float)
        if form is not None:
            fresh = fresh / (scale[:, None] if scale.ndim == 1 else scale)
        page, place = np.divmod(np.asarray(append.slots), tall.shape[1])
        tall[page, place] = np.rint(fresh) if form == "int8" else fresh
        right.append(cache)
    append.check(*right)
    before = [np.array(getattr(append.paged, name)).astype(float) for name in "kv"]
    with pytest.raises(AssertionError, match="new tokens is wrong"):
        append.check(*before)
    other = right[0].copy()
    free = [cell for cell in np.ndindex(other.shape[0]) if cell[0] not in np.asarray(page)]
    other[free[0]] += 1.0
    with pytest.raises(AssertionError, match="is written in"):
        append.check(other, right[1])


def test_scales_that_a_kernel_chooses_are_refused():
    problem = Problem.build(SPEC, "random")
    with pytest.raises(ParameterError, match="chooses scales of a token"):
        Append.of(Quantized.of(problem, v="token"))
    append = Append.of(problem)
    with pytest.raises(ParameterError, match="k has shape"):
        append.check(append.after[0][1:], append.after[1])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_selected_keys(dtype):
    cases = set()
    for selection in selections(5, keys=60, dtype=dtype):
        assert (np.asarray(selection.scores, float) == selection.numbers).all()
        right = held_out.chosen(selection, lambda x, _: x, 0)
        selection.check(right)
        selection.check(right[:, ::-1])
        first = np.asarray(right).copy()
        row = int(np.argmax(np.asarray(selection.lengths) >= 5))
        wrong = {"a key is selected twice": first[row, 1], "4 keys are selected, not 5": -1}
        if selection.lengths[row] < 60:
            wrong["59 is not one of its"] = 59
        for words, key in wrong.items():
            bad = first.copy()
            bad[row, 0] = key
            with pytest.raises(AssertionError, match=words):
                selection.check(bad)
        cases.add(selection.case)
    assert len(cases) == 6 - (dtype == "float16")
    with pytest.raises(ParameterError, match="indices have shape"):
        selection.check(right[:, 1:])
    with pytest.raises(ParameterError, match="nothing to select"):
        list(selections(5, keys=5))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("base", ["e", "2"])
def test_merges_with_sinks(dtype, base):
    for states in merges(5, dtype=dtype, base=base, sink=True):
        outs, ends = states.outs.astype(np.float32), states.lses.astype(np.float32)
        sink = np.broadcast_to(states.sinks.astype(np.float32), (1, *ends.shape[1:]))
        with_sink = np.concatenate([outs, 0 * outs[:1]]), np.concatenate([ends, sink])
        out, lse = at_once(*with_sink, base)
        states.check(nearest(out.astype(float), FORMATS[dtype]), lse)
        with np.errstate(all="ignore"):
            without = at_once(outs, ends, base)
            twice = at_once(np.concatenate([*with_sink[:1], 0 * outs[:1]]),
                            np.concatenate([*with_sink[1:], sink]), base)  # fmt: skip
        for wrong in (without, twice):
            with pytest.raises(AssertionError, match="rows are wrong"):
                states.check(*wrong)


@pytest.mark.parametrize("zigzag", [False, True])
@pytest.mark.parametrize("case", ["ties", "levels", "last"])
def test_a_ring_of_ranks_in_one_process(zigzag, case):
    """Each rank's gradients come from the log-sum-exp of all ranks."""
    problem = Problem.build(Spec(heads=(4, 2), queries=40, keys=41, masks=(Causal(),)), case)
    backward = Backward.of(problem)
    parts = cut_keys(problem, 3, zigzag=zigzag)
    assert sorted(np.concatenate(parts)) == list(range(41))
    steps = held_out.gradients.Steps(backward, np.float32)
    p = steps.weights(steps.lse())
    rest = steps.d_out @ steps.v.swapaxes(-1, -2)
    alone = steps.alone(p @ steps.v)
    dq, dk, dv = 0.0, np.zeros_like(backward.dk), np.zeros_like(backward.dv)
    for keys in parts:
        scores = (p * (rest - alone))[..., keys] * problem.spec.factor
        dq = dq + scores @ steps.k[:, :, keys]
        dk[:, :, keys] = steps.summed(scores.swapaxes(-1, -2) @ steps.q)
        dv[:, :, keys] = steps.summed(p[..., keys].swapaxes(-1, -2) @ steps.d_out)
    backward.check(dq, dk, dv)


FAST = [report for report in held_out.BUGS if not report.startswith(("pytorch#18", "onnxruntime"))]


@pytest.mark.parametrize("report", FAST)
def test_bugs_that_were_not_looked_at_are_caught(report):
    *_, run = held_out.BUGS[report]
    for _, right, wrong in run():
        assert right
        if not wrong:
            return
    raise AssertionError(report)
