"""Wrong kernels are caught, and the first line says what is wrong."""

import math
import pickle

import numpy as np
import pytest
from kernels_of_tests import (
    flash,
    plain,
    shifted_diagonal,
    softmax_average,
    split,
    values_of,
    with_mask,
)

from constructive import ParameterError
from constructive.exact.formats import FORMATS, nearest
from constructive.kernels import KernelError, Problem, Spec, battery, check, diagnose, examine
from constructive.kernels.masks import Boolean, Causal, RightPadding, VariableLengths, Window

SHAPE = {
    "queries": 41, "keys": 70, "head_dim": 16,
    "cases": ["last", "random", "ties", "uniform", "scale", "low level", "lowest level"],
}  # fmt: skip


def diagnosis(kernel, **arguments):
    """What all problems of a battery together say; every kernel must fail at least one."""
    with np.errstate(all="ignore"):
        reports = [examine(each, kernel(each)) for each in battery(**(SHAPE | arguments))]
    assert not all(report.passed for report in reports)
    found = diagnose(reports)
    assert found
    return found[0]


def mapped(k_heads=None, v_heads=None, k_batch=None, factor=1.0):
    """The plain kernel with keys and values from other places."""

    def kernel(problem):
        spec = problem.spec
        own = np.arange(spec.heads[0]) // spec.group
        k = problem.k[:, own if k_heads is None else k_heads(spec)]
        v = problem.v[:, own if v_heads is None else v_heads(spec)]
        k = k if k_batch is None else k[k_batch]
        return softmax_average(problem.q, k, v, problem.visible, spec.factor * factor)

    return kernel


def slow(*case):
    """One more like that before it."""
    return pytest.param(*case, marks=pytest.mark.slow)


def modulo(spec):
    return np.arange(spec.heads[0]) % spec.heads[1]


@pytest.mark.parametrize(
    ("by", "alignment", "words"),
    [
        (1, "top-left", "lets one key of the future through"),
        (-1, "bottom-right", "hides the query's own key"),
    ],
)
def test_causal_off_by_one(by, alignment, words):
    said = diagnosis(lambda problem: shifted_diagonal(problem, by), causal=alignment)
    assert words in said


def test_the_other_alignment():
    said = diagnosis(
        lambda problem: with_mask(problem, np.tri(*problem.visible.shape[2:], dtype=bool)),
        causal="bottom-right",
    )
    assert "aligned top-left" in said


@pytest.mark.parametrize(("more", "words"), [(1, "one key longer"), (-1, "one key shorter")])
def test_windows_off_by_one(more, words):
    def kernel(problem):
        i, j = np.arange(problem.spec.queries)[:, None] + 29, np.arange(problem.spec.keys)
        return with_mask(problem, (j <= i) & (j >= i - 9 - more))

    assert words in diagnosis(kernel, causal="bottom-right", window=(9, 0))


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (mapped(modulo, modulo), "keys and values are those of KV head h % kv_heads"),
        slow(mapped(None, modulo), "values are those of KV head h % kv_heads"),
        slow(mapped(modulo, None), "keys are those of KV head h % kv_heads"),
        (mapped(lambda spec: modulo(spec) * 0), "keys are those of KV head 0"),
        (mapped(k_batch=[0, 0]), "keys are those of sequence 0"),
        (mapped(factor=4.0), "not scaled"),
        slow(mapped(factor=1 / 4), "applied twice"),
        slow(mapped(factor=math.log(2)), "exp2"),
        (lambda problem: flash(problem, forgets=("sums",)), "sums are not rescaled"),
        slow(lambda problem: flash(problem, forgets=("outputs",)), "accumulator is not rescaled"),
        (lambda problem: flash(problem, start=-1e4), "largest logit starts at -10000"),
        (lambda problem: plain(problem) * 70 / 80, "the output is multiplied by 0.875"),
        (lambda problem: np.roll(plain(problem), 1, 1), "previous head"),
        (
            lambda problem: plain(problem).swapaxes(1, 2).reshape(problem.expected.shape),
            "laid out as (B, T, H, d)",
        ),
        (lambda problem: plain(problem) * (np.arange(16) < 8), "columns 8 to 15"),
        (
            lambda problem: plain(problem) * (np.arange(41) < 32)[:, None],
            "the last block of 16 queries, which is not full, is not written",
        ),
    ],
)
def test_addresses_scales_and_sums(kernel, words):
    assert words in diagnosis(kernel)


def of_blocks(problem, size=16):
    """The plain kernel, which masks whole blocks and nothing inside of them."""
    seen = np.broadcast_to(problem.visible, problem.answer.weights.shape)
    some = np.zeros_like(seen)
    for i in range(0, seen.shape[2], size):
        for j in range(0, seen.shape[3], size):
            tile = np.s_[:, :, i : i + size, j : j + size]
            some[tile] = seen[tile].any((2, 3), keepdims=True)
    return with_mask(problem, some)


def lengths_of(step):
    """Causal attention of packed sequences, whose keys begin `step` earlier, or end later."""

    def kernel(problem):
        spec = problem.spec
        starts = np.cumsum([0, *spec.lengths[1]])
        k, v = (
            np.concatenate([x[b, :, :n] for b, n in enumerate(spec.lengths[1])], 1)
            for x in (problem.k, problem.v)
        )
        own = np.arange(spec.heads[0]) // spec.group
        j = np.arange(starts[-1])
        outs = []
        for b in range(spec.batch):
            low, high = starts[b] - (step < 0), starts[b + 1] + (step > 0)
            seen = (j >= low) & (j < high)
            scores = problem.q[b] @ k[own].swapaxes(-1, -2) * spec.factor
            outs.append(softmax_like(np.where(seen, scores, -np.inf), v[own]))
        return np.stack(outs)

    return kernel


@pytest.mark.parametrize(("step", "words"), [(-1, "the last key of the one"), (1, "the first key")])
def test_borders_of_packed_sequences(step, words):
    masks = [VariableLengths((41, 20, 11), (70, 31, 8))]
    assert words in diagnosis(lengths_of(step), batch=3, masks=masks)


@pytest.mark.parametrize(
    ("kernel", "arguments", "words"),
    [
        (of_blocks, {"causal": "bottom-right"}, "whole blocks of 16, and nothing inside"),
        (
            of_blocks,
            {"causal": "top-left", "window": (9, 0)},
            "whole blocks of 16, and nothing inside",
        ),
        (
            lambda problem: nearest(plain(problem), FORMATS["bfloat16"]),
            {},
            "the output passes through bfloat16",
        ),
        (
            lambda problem: split(problem, parts=2, logsumexp=lambda x: x * problem.spec.factor),
            {},
            "logsumexps of splits are multiplied by the scale once more",
        ),
        (
            lambda problem: split(
                problem, parts=2, logsumexp=lambda x: x[:, :, np.arange(41) // 16 * 16]
            ),
            {},
            "logsumexps of splits are those of the first query of each block of 16",
        ),
    ],
)
def test_blocks_splits_and_precision(kernel, arguments, words):
    assert words in diagnosis(kernel, **arguments)


def test_padding_in_the_denominator():
    def kernel(problem):
        scores = problem.q @ np.repeat(problem.k, 2, 1).swapaxes(-1, -2) * problem.spec.factor
        top = np.maximum(scores.max(-1, keepdims=True), 0)
        weights = np.exp(scores - top)
        total = weights.sum(-1, keepdims=True) + 10 * np.exp(-top)
        return weights @ values_of(problem) / total

    assert "10 keys of zeros, up to a multiple of 16" in diagnosis(kernel)


def test_a_soft_cap_after_the_mask_and_none():
    def after(problem):
        spec = problem.spec
        scores = problem.q @ np.repeat(problem.k, spec.group, 1).swapaxes(-1, -2) * spec.factor
        scores = 50 * np.tanh(np.where(problem.visible, scores, -np.inf) / 50)
        return softmax_like(scores, values_of(problem))

    def without(problem):
        return with_mask(problem, problem.visible)

    capped = {"soft_cap": 50.0, "causal": "top-left", "cases": None}
    assert "after the mask" in diagnosis(after, **capped)
    assert "the soft cap is ignored" in diagnosis(without, **capped)


def softmax_like(scores, v):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def test_sinks_and_slopes():
    def without_sink(problem):
        return with_mask(problem, problem.visible)

    assert diagnosis(without_sink, sink=True) == "the sink is ignored"
    assert "slopes are ignored" in diagnosis(without_sink, alibi=True, causal="bottom-right")


def test_masks_of_other_sequences_and_heads():
    boolean = (Boolean(per_head=True),)
    said = diagnosis(lambda each: with_mask(each, each.visible[:1]), masks=boolean)
    assert "that of sequence 0 everywhere" in said
    said = diagnosis(lambda each: with_mask(each, each.visible[:, :1]), masks=boolean)
    assert "that of head 0 everywhere" in said
    padded = (RightPadding((70, 33)),)
    said = diagnosis(lambda each: with_mask(each, True), masks=padded)  # noqa: FBT003
    assert said == "the mask is ignored"


def test_a_head_alone_is_said_to_be_alone():
    def kernel(problem):
        out = plain(problem)
        out[:, 3] = with_mask(problem, np.array(True))[:, 3]  # noqa: FBT003
        return out

    said = diagnosis(kernel, causal="top-left", queries=20, keys=20, cases=["random", "ties"])
    assert "the mask is ignored" in said
    assert "head 3" in said


def test_rows_are_decoded():
    problem = Problem.build(Spec(batch=2, heads=(4, 2), queries=5, keys=9), "random")
    out = problem.expected.copy()
    out[1, 2, 3] = problem.v[0, 1, 7]
    out[0, 0, 0] *= 0.5
    out[0, 1, 1] = np.nan
    report = examine(problem, out)
    text = str(report)
    assert "3 of 40 rows are wrong" in text
    assert "batch 1 head 2 query 3 reads key 7 of batch 0" in text
    assert "batch 0 head 0 query 0 is right, times 0.5" in text
    assert "batch 0 head 1 query 1 is NaN" in text
    assert "left the model" in text
    assert report.first == (0, 0, 0)


def test_a_hidden_key_is_said_to_be_hidden():
    problem = Problem.build(Spec(queries=5, keys=9, masks=(Causal("top-left"),)), "random")
    out = problem.expected.copy()
    out[0, 1, 2] = problem.v[0, 1, 6]
    out[0, 0, 3] = (problem.expected[0, 0, 3] * 3 + problem.v[0, 0, 8]) / 4
    text = str(examine(problem, out))
    assert "query 2 reads key 6, which the mask hides" in text
    assert "query 3 reads key 8, which the mask hides with weight 0.333" in text


def test_the_error_is_an_assertion_with_a_report():
    problem = Problem.build(Spec(queries=5, keys=9, masks=(Causal(), Window(2, 0, "top-left"))))
    with pytest.raises(AssertionError) as caught:
        check(problem, problem.expected * 0)
    error = caught.value
    assert isinstance(error, KernelError)
    assert error.witness == (0, 0, 0)
    assert "explains" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own


def test_right_outputs_have_no_diagnosis():
    report = examine(problem := Problem.build(Spec(queries=5, keys=9)), problem.expected)
    assert report.passed
    assert report.explanations == ()
    assert diagnose([report]) == ()
    assert "rows are right" in str(report)


def test_a_mistake_that_changes_nothing_explains_nothing():
    """Weights of float32 under outputs of float64: right but for a rounding, under any mask."""

    def coarse(q, k, v):
        k, v = (np.repeat(a, q.shape[1] // a.shape[1], axis=1) for a in (k, v))
        logits = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        query, key = np.indices(logits.shape[-2:])
        logits[..., key > query] = -np.inf
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        return np.float32(weights / weights.sum(-1, keepdims=True)).astype(float) @ v

    options = {"causal": "top-left", "dtype": "float64", "cases": ["uniform"]}
    problem = next(iter(battery(heads=(2, 1), queries=9, keys=9, **options)))
    report = examine(problem, coarse(*problem.tensors("numpy")))
    assert not report.passed
    assert report.explanations == ()
    assert "right but for" in str(report)


def test_arguments_that_are_something_else():
    problem = next(iter(battery(queries=4, keys=4, causal="top-left", cases="last")))
    assert problem.case == "last"
    with pytest.raises(ParameterError, match="not a problem"):
        check("last", problem.expected)
    with pytest.raises(ParameterError, match="complex"):
        check(problem, problem.expected.astype(complex))
