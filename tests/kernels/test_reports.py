"""What reports say: where rows are wrong, what they have read, and which problems fail."""

import pickle

import numpy as np
import pytest
from kernels_of_tests import Flash, plain, softmax_average

from constructive.kernels import (
    KernelError,
    Paged,
    Problem,
    Spec,
    battery,
    check,
    diagnose,
    examine,
)
from constructive.kernels.comparing import comparison
from constructive.kernels.describe import Facts, relate, separate
from constructive.kernels.masks import Causal, RightPadding, Window


def test_one_key_more_than_many_is_told():
    masks = Causal("bottom-right"), Window(127, 0)
    problem = Problem.build(Spec(queries=1, keys=333, masks=masks), "uniform")
    weights = (np.arange(333) >= 333 - 129) / 129.0
    said = examine(problem, np.einsum("k,bhkd->bhd", weights, problem.v)[:, :, None]).how[0]
    assert "read keys that they should not, with 1 of the usual weight" in said
    assert "lack" not in said


def test_exp_is_blamed_where_rows_are_nan():
    problem = Problem.build(Spec(queries=20, keys=44, head_dim=32), "levels")
    said = examine(problem, problem.expected * np.nan).how[0]
    assert "exp overflows if" in said
    assert "memory that must not be read" in said


def test_a_message_has_at_most_twelve_lines():
    problem = Problem.build(Spec(batch=2, heads=(4, 2), queries=41, keys=70, head_dim=16), "ties")
    random = np.random.default_rng(0)
    out = problem.expected.copy()
    kinds = [0.5 * out, 0 * out, np.nan * out, np.roll(out, 1, 1), random.random(out.shape)]
    for number, kind in enumerate(kinds):
        out[:, :, number::7] = kind[:, :, number::7]
    first, *lines = str(examine(problem, out)).splitlines()
    assert "rows are wrong" in first
    assert len(lines) < 12
    for word in ("WHERE: ", "HOW: ", "for example sequence", "coverage: ", "again: Problem.build("):
        assert any(line.startswith(f"  {word}") for line in lines), word
    assert "model" not in " ".join(lines)
    again = next(line for line in lines if "again" in line).partition("again: ")[2]
    assert eval(again, {"Problem": Problem, "Spec": Spec}).spec == problem.spec  # noqa: S307


def test_rows_are_decoded():
    problem = Problem.build(Spec(batch=2, heads=(4, 2), queries=5, keys=9), "random")
    out = problem.expected.copy()
    out[1, 2, 3], out[0, 1, 1] = problem.v[0, 1, 7], np.nan
    out[0, 0, 0] *= 0.5
    report = examine(problem, out)
    text = str(report)
    assert report.first == (0, 0, 0)
    for words in ("3 of 40 rows are wrong", "times 0.5", "key alone: the sequence is", "NaN"):
        assert words in text
    facts = Facts(problem, out, report.wrong)
    assert facts.kind.tolist() == ["scaled", "odd", "key"]
    assert np.unravel_index(facts.key[0][2], problem.v.shape[:3]) == (0, 1, 7)


def test_sums_are_solved_for_weights_of_keys():
    problem = Problem.build(Spec(queries=5, keys=9, masks=(Causal("top-left"),)), "random")
    out = problem.expected.copy()
    out[0, 0, 3] = (problem.expected[0, 0, 3] * 3 + problem.v[0, 0, 8]) / 4
    report = examine(problem, out)
    weights = report.description.facts.weights
    assert weights.key[~weights.expected].tolist() == [8]
    assert weights.ratio[~weights.expected] == pytest.approx([1 / 3])
    assert "hidden by the mask 'causal top-left'" in report.how[0]
    assert "0.33333 of the usual weight" in report.how[0]


def test_conditions_and_relations():
    query, head = (np.broadcast_to(x, (4, 20)) for x in np.ogrid[:4, :20][::-1])
    known = {"query": query, "head": head, "query mod 4": query % 4}
    every = np.ones((4, 20), bool)
    for meant, words in (
        (query >= 7, "query >= 7"),
        ((query >= 7) & (head == 2), "query >= 7"),
        (query % 4 == 3, "query mod 4 = 3"),
        ((query > 4) & (query < 9), "query from 5 to 8"),
    ):
        found = separate(known, meant, every)
        assert words in found.words
        assert found.share == 1.0
    few = np.isin(query, (1, 9, 17)) & (head == 0)  # remainders of few rows may be alike by chance
    assert "mod" not in separate(known, few, every).words
    x = np.arange(40)
    for numbers, words in (
        (x + 3, "x + 3"), (x // 16 * 16, "the start of the block of 16 of x"), (x % 8, "x mod 8"),
        (0 * x + 5, "5"),
    ):  # fmt: skip
        assert relate(numbers, {"x": x}) == words
    assert relate(np.random.default_rng(0).permutation(40), {"x": x}).endswith("..")


def test_the_error_is_an_assertion_with_a_report():
    problem = Problem.build(
        Spec(queries=5, keys=9, masks=(Causal("top-left"), Window(2, 0, "top-left")))
    )
    with pytest.raises(AssertionError) as caught:
        check(problem, problem.expected * 0)
    error = caught.value
    assert isinstance(error, KernelError)
    assert error.witness == (0, 0, 0)
    assert "HOW: they are zero" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own


# Which problems fail: by case, memory, masks, options, size.


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
    assert "rows are right" in str(right)
    assert right.how == diagnose([right]) == ()
    assert comparison([wrong]) == comparison([right, right]) == comparison([]) == ()
    assert comparison([wrong, wrong]) == ("FAIL: all 2 problems",)
