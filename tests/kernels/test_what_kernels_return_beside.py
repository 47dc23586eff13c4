"""Outputs in float8, largest logits, and masks in a line: right ones pass, and wrong ones fail."""

import ml_dtypes
import numpy as np
import pytest
from kernels_of_tests import logits_of, plain

from constructive.kernels import Problem, Spec, battery, check, diagnose, examine
from constructive.kernels.answer import expected_logits
from constructive.kernels.masks import Boolean, Causal, Given, RightPadding, VariableLengths
from constructive.support.errors import ParameterError

FLOAT8 = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}
SHAPE = {"heads": (4, 2), "queries": 20, "keys": 33, "causal": "bottom-right"}


def stored(out, scale, name, first="float32"):
    """As kernels quantize: an output in float32 or bfloat16 times the reciprocal of a scale."""
    kinds = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}
    out = out.astype(np.float32).astype(kinds[first]).astype(np.float32)
    inverse = np.float32(1.0) / np.asarray(scale, np.float32)
    with np.errstate(invalid="ignore"):
        return (out * inverse).astype(FLOAT8[name])


@pytest.mark.parametrize("name", FLOAT8)
@pytest.mark.parametrize("scale", [1.0, 0.25, 0.3, "groups"])
def test_right_outputs_in_float8_pass_and_wrong_ones_do_not(name, scale):
    caught = {"scale": 0, "read": 0}
    for dtype in (name, "bfloat16"):
        for problem in battery(**SHAPE, head_dim=64, dtype=dtype):
            if problem.v.max() > 8.0:  # which a format that ends at 448 does not hold
                continue
            of_groups = 0.1 + np.random.default_rng(0).random((1, 4, 20, 4))
            scales = np.repeat(of_groups, 16, -1) if scale == "groups" else scale
            given = of_groups if scale == "groups" else scale
            for first in ("float32", "bfloat16"):
                numbers = stored(plain(problem, np.float32), scales, name, first)
                check(problem, numbers, out_scale=given)
            assert not examine(problem, numbers, out_scale=2 * np.asarray(given)).passed
            other = stored(np.roll(plain(problem, np.float32), 1, 1), scales, name)
            caught["read"] += not examine(problem, other, out_scale=given).passed
    assert caught["read"] >= 15


def test_scales_of_outputs_have_parts_of_the_outputs_axes():
    problem = Problem.build(Spec(queries=3, keys=5, dtype="bfloat16"))
    out = stored(problem.expected, 1.0, "float8_e4m3fn")
    with pytest.raises(ParameterError, match="no parts of the output"):
        check(problem, out, out_scale=np.ones((1, 2, 3, 5)))
    with pytest.raises(ParameterError, match="ends at 448"):
        check(problem, out, out_scale=2.0**-8)
    with pytest.raises(ParameterError, match="is for an output in float8"):
        check(problem, problem.expected, out_scale=2.0)


def test_a_scale_that_is_none_is_wrong_but_in_rows_that_do_not_exist():
    spec = Spec(
        queries=4, keys=6, batch=2, dtype="bfloat16", masks=(VariableLengths((4, 2), (6, 3)),)
    )
    problem = Problem.build(spec)
    out = stored(np.nan_to_num(problem.expected), 1.0, "float8_e4m3fn")
    scales = np.ones((2, 1, 4, 1))
    for none in (np.nan, np.inf, 0.0):
        scales[1, :, 2:] = none
        check(problem, out, out_scale=scales)
    for none in (np.nan, np.inf):
        scales[0, :, 3] = none
        assert examine(problem, out, out_scale=scales).wrong[0, :, 3].all()


def test_rows_of_zeros_may_have_the_scale_zero():
    """As quantizers divide by the largest entry of a row."""
    spec = Spec(queries=4, keys=3, dtype="bfloat16", masks=(Causal(),))
    problem = Problem.build(spec)
    empty = ~problem.expected.any(-1, keepdims=True)
    assert empty.any()
    assert not empty.all()
    scales = np.where(empty, 0.0, 0.5)
    check(problem, stored(problem.expected, 0.5, "float8_e4m3fn"), out_scale=scales)


def test_rows_that_do_not_exist_may_be_nan_in_long_doubles():
    masks = (VariableLengths((4, 2), (6, 3)),)
    problem = Problem.build(Spec(queries=4, keys=6, batch=2, masks=masks))
    assert np.isnan(problem.expected).any()
    check(problem, problem.expected.astype(np.longdouble))


def test_rows_that_are_known_bound_the_largest_logit_of_a_head():
    found = {"problems": 0, "caught": 0}
    shape = {"heads": (4, 2), "queries": 5, "keys": 5, "causal": "top-left", "alibi": True}
    for problem in battery(**shape, head_dim=8, dtype="bfloat16"):
        known = expected_logits(problem.spec, problem.draft, problem.answer, None)[0]
        some = np.isnan(known).any((0, 2)) & (known > -np.inf).any((0, 2))
        if some.any():
            largest = np.nanmax(known, (0, 2))
            check(problem, max_logit=largest)
            check(problem, max_logit=largest + 64.0 * some)
            for wrong in (np.nan, -np.inf):
                found["problems"] += 1
                other = np.where(some, wrong, largest)
                found["caught"] += not examine(problem, max_logit=other).passed
    assert found["caught"] == found["problems"] > 0


LOGITS = {
    "of a hidden key": lambda p: logits_of_all(p).max(-1),
    "at least 0": lambda p: np.maximum(logits_of(p).max(-1), 0),
    "not scaled": lambda p: logits_of(p).max(-1) / p.spec.factor,
    "of the head before": lambda p: np.roll(logits_of(p).max(-1), 1, 1),
}  # fmt: skip


def logits_of_all(problem):
    k = np.repeat(problem.k, problem.spec.group, 1)
    return problem.q @ k.swapaxes(-1, -2) * problem.spec.factor


@pytest.mark.parametrize("wrong", LOGITS)
@pytest.mark.parametrize("axes", [(), (2,), (0, 2)])
def test_largest_logits(wrong, axes):
    failed = 0
    for problem in battery(**SHAPE, masks=[RightPadding((33, 9))]):
        right = logits_of(problem, np.float32).max(-1)
        check(problem, plain(problem), max_logit=right.max(axes) if axes else right)
        found = LOGITS[wrong](problem)
        report = examine(problem, max_logit=found.max(axes) if axes else found)
        failed += not report.passed
    assert failed >= (not axes or wrong != "of the head before")


def test_largest_logits_of_another_shape():
    with pytest.raises(ParameterError, match="max_logit has shape"):
        check(Problem.build(Spec(queries=3, keys=5)), max_logit=np.zeros((3, 2)))


def test_scales_may_be_applied_by_their_root():
    """Lemma 19.2 asks for a root that is a power of two, so 1/8 is a scale like any other."""
    for case in ("levels", "low"):
        problem = Problem.build(Spec(queries=40, keys=40, head_dim=64), case)
        root = np.sqrt(np.float32(problem.spec.factor))
        q, k = ((x.astype(np.float32) * root).astype(float) for x in (problem.q, problem.k))
        logits = (q @ k.swapaxes(-1, -2)).astype(np.float32)
        top = logits.max(-1)
        lse = top + np.log(np.exp(logits - top[..., None]).sum(-1))
        check(problem, lse=lse, max_logit=top)
        said = str(examine(problem, lse=lse * (1.0 + 2.0**-18)))
        assert "are wrong" in said
        assert "bfloat16" not in said


@pytest.mark.parametrize(
    "mask", [np.random.default_rng(1).random((7, 57)) < 0.5, np.tri(70, 90, 20, dtype=bool)]
)
def test_a_large_mask_is_in_the_line_that_repeats_a_problem(mask):
    queries, keys = mask.shape
    problem = Problem.build(Spec(queries=queries, keys=keys, masks=(Given(mask), Causal())))
    line = str(examine(problem, 0 * problem.expected)).partition("again: ")[2].splitlines()[0]
    again = eval(line, {"Problem": Problem, "Spec": Spec, "Given": Given, "Causal": Causal})  # noqa: S307
    assert (again.visible == problem.visible).all()
    assert (again.expected == problem.expected).all()
    noise = np.random.default_rng(0).random((300, 300)) < 0.5
    large = Problem.build(Spec(queries=300, keys=300, head_dim=64, masks=(Given(noise),)))
    assert "again: error.report.problem" in str(examine(large, 0 * large.expected))


def test_a_place_is_said_with_the_number_of_outputs_that_have_it():
    reports = []
    for queries in (1, 90, 90):
        problem = Problem.build(Spec(queries=queries, keys=90, masks=(Boolean(seed=3),)), "random")
        wrong = np.arange(queries)[:, None] >= (70 if queries > 1 else 0)
        noise = np.random.default_rng(0).random(problem.expected.shape)
        reports.append(examine(problem, np.where(wrong, noise, problem.expected)))
    said = "\n".join(diagnose(reports))
    assert "query >= 70, in 2 of 3 wrong outputs" in said
