"""What a report says of wrong rows: where they are, and what they have read."""

import pickle

import numpy as np
import pytest

from constructive.kernels import KernelError, Problem, Spec, check, diagnose, examine
from constructive.kernels.describe import Facts, relate, separate
from constructive.kernels.masks import Causal, RightPadding, Window


def test_one_key_more_than_many_is_told():
    masks = Causal("bottom-right"), Window(127, 0)
    problem = Problem.build(Spec(queries=1, keys=333, masks=masks), "uniform")
    weights = (np.arange(333) >= 333 - 129) / 129.0
    said = examine(problem, np.einsum("k,bhkd->bhd", weights, problem.v)[:, :, None]).how[0]
    assert "read keys that they should not, with 1 of the usual weight" in said
    assert "lack" not in said


@pytest.mark.parametrize(
    ("case", "value", "words"),
    [("levels", np.nan, "exp overflows if"), ("low", 0.0, "exp underflows unless")],
)
def test_exp_is_blamed_at_a_level(case, value, words):
    spec = Spec(batch=2, queries=20, keys=44, head_dim=32, masks=(RightPadding((44, 30)),))
    problem = Problem.build(spec, case)
    said = examine(problem, np.full_like(problem.expected, value)).how[0]
    assert words in said
    assert "; or they" in said


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


def test_right_outputs_have_nothing_to_explain():
    report = examine(problem := Problem.build(Spec(queries=5, keys=9)), problem.expected)
    assert report.passed
    assert report.how == ()
    assert diagnose([report]) == ()
    assert "rows are right" in str(report)


def test_rows_without_keys_have_a_convention():
    spec = Spec(queries=9, keys=5, head_dim=16, masks=(Causal("bottom-right"),))
    problem = Problem.build(spec, "last")
    out = np.where(problem.answer.empty[..., None], np.nan, problem.expected)
    (line,) = examine(problem, out).how
    assert "are NaN, not 'zeros'" in line
    assert "fully_masked=" in line
