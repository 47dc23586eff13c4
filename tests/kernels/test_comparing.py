"""Which problems fail: by case, memory, masks, options, size."""

import numpy as np
import pytest
from kernels_of_tests import Flash, plain, softmax_average

from constructive.kernels import Paged, Problem, Spec, battery, diagnose, examine
from constructive.kernels.comparing import comparison
from constructive.kernels.masks import RightPadding


def compared(kernel, **arguments):
    with np.errstate(all="ignore"):
        return comparison(examine(each, kernel(each)) for each in battery(**arguments))


def heads_modulo(problem):
    k, v = (np.tile(array, (1, problem.spec.group, 1, 1)) for array in (problem.k, problem.v))
    return softmax_average(problem.q, k, v, problem.visible, problem.spec.factor)


def last_query(problem):
    factor = np.where(np.arange(problem.spec.queries) < problem.spec.queries - 1, 1.0, 1.25)
    return plain(problem) * (factor[:, None] if problem.spec.keys % 64 else 1.0)


def no_keys(problem):
    return np.where(problem.answer.empty[..., None], np.nan, plain(problem))


def doubled_sink(problem):
    return plain(problem) * (0.5 if problem.spec.sink else 1.0)


RANDOM = {"cases": ["random"]}


@pytest.mark.parametrize(
    ("kernel", "arguments", "words"),
    [
        (
            lambda problem: Flash(problem, first=np.zeros_like).output(),
            {"cases": ["last", "first", "ties", "low"]},
            ["case low", "none of last, first"],
        ),
        (heads_modulo, RANDOM, ["all with query heads of a KV head >= 2 and KV heads = 2"]),
        (last_query, RANDOM, ["all with keys mod 64 not 0"]),
        (no_keys, RANDOM | {"takes": "lengths"}, ["all with masks right padding", "none of none"]),
        (
            doubled_sink,
            RANDOM | {"takes": "sink"},
            ["all with options sink", "all of sink; none of none"],
        ),
    ],
)
def test_what_outputs_that_fail_have_in_common_is_said(kernel, arguments, words):
    text = "\n".join(compared(kernel, **arguments))
    assert text.startswith("FAIL: ")
    assert not [each for each in words if each not in text], text
    assert text.count("\n") <= 6


def test_pages_beside_nan_are_told_from_pages_beside_stale_ones():
    spec = Spec(batch=2, queries=1, keys=40, masks=(RightPadding((40, 17)),))
    problem = Problem.build(spec, "last")
    nan, stale = (Paged.of(problem, stale=each) for each in (False, True))
    reports = [
        examine(problem, problem.expected * np.nan, memory=nan),
        examine(problem, problem.expected, memory=stale),
    ]
    lines = diagnose(reports)
    assert lines[0] == "FAIL: 1 of 2 problems, all with memory pages beside NaN"
    assert "  memory: all of pages beside NaN; none of pages beside stale ones" in lines


def test_a_small_part_is_said():
    last = Problem.build(Spec(queries=9, keys=20), "last")
    for part, words in ((2.0**-9.5, "2^-9.5"), (2.0**-20, "2^-20.0")):
        far = examine(last, last.expected * (1.0 + part))
        assert words in far.how[0]


def test_nothing_is_said_of_one_problem_or_of_right_ones():
    problem = Problem.build(Spec(queries=3, keys=5, head_dim=16))
    wrong, right = examine(problem, problem.expected * 2), examine(problem, problem.expected)
    assert comparison([wrong]) == comparison([right, right]) == comparison([]) == ()
    assert comparison([wrong, wrong]) == ("FAIL: all 2 problems",)
