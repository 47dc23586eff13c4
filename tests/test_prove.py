"""The runner of literate proofs: what must not count as proved or checked."""

import numpy as np
import pytest
import sympy

from constructive import ParameterError, Verdict
from constructive.theory import proofs

PROOF = "**Proof.** Clear. QED\n\n"
CHECK = "```pycon\n>>> holds('exact', 1 + 1 == 2)\n\n```\n"
TRIED = "```pycon\n>>> try: holds('exact', False)\n... except ValueError: pass\n\n```\n"
IMPORT = "```pycon\n>>> from constructive.theory.proofs import holds\n\n```\n"
EXPECTED = (
    "```pycon\n>>> holds('exact', False)\nTraceback (most recent call last):\n"
    "    ...\nValueError: an instance does not hold: False\n\n```\n"
)


def outcomes(tmp_path, text):
    page = tmp_path / "1-page.md"
    page.write_text(text)
    return list(proofs.run(page))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# P\n\n## L\n\n**Proof.** Clear, but for the end.\n\n" + CHECK, "no"),
        ("# P\n\n## L\n\n" + CHECK, "no"),
        ("# P\n\n## L\n\n" + PROOF, "no"),
        ("# P\n\n## L\n\n" + PROOF + CHECK.replace("2)", "3)"), "does not hold: False"),
        ("# P\n\n## L\n\n" + PROOF + CHECK + "```pycon\n>>> 1 + 1\n3\n\n```\n", "Expected"),
        ("# P\n\n## L\n\n" + PROOF + CHECK + "```pycon\n>>> 1 / 0\n\n```\n", "ZeroDivisionError"),
        ("# P\n\n## L\n\n" + PROOF + CHECK.replace("2)", "3)  # doctest: +SKIP"), "skipped"),
        ("# P\n\n## L\n\n" + PROOF + CHECK + TRIED, "expect an error"),
        ("# P\n\n## L\n\n" + PROOF + IMPORT + CHECK, "no"),  # what nobody counts is not a check
        ("# P\n\n## L\n\n" + PROOF + CHECK + EXPECTED, "expect an error"),
    ],
)
def test_what_is_incomplete_or_wrong_does_not_hold(tmp_path, text, words):
    (found,) = outcomes(tmp_path, text)
    assert not found.holds
    table = proofs.table([found])
    assert "FAILED" in table
    assert words in table


def test_a_whole_statement_holds(tmp_path):
    (found,) = outcomes(tmp_path, "# P\n\n## L\n\n" + PROOF + CHECK)
    assert found.holds
    assert found.instances == {"exact": 1}


def test_a_page_may_import_what_it_calls(tmp_path):
    """At its top, for those who paste it; the runner counts all the same."""
    (found,) = outcomes(tmp_path, "# P\n\n" + IMPORT + "## L\n\n" + PROOF + CHECK)
    assert found.holds
    assert found.instances == {"exact": 1}
    failing = IMPORT + "## L\n\n" + PROOF + CHECK.replace("2)", "3)")
    (found,) = outcomes(tmp_path, "# P\n\n" + failing)
    assert not found.holds


def test_sections_share_their_names_and_start_their_counts_anew(tmp_path):
    text = "# P\n\n```pycon\n>>> x = 2\n\n```\n## L\n\n" + PROOF + CHECK.replace("2)", "x)")
    first, second = outcomes(tmp_path, text + "\n## M\n\n" + PROOF + CHECK)
    assert first.holds
    assert second.holds
    assert second.instances == {"exact": 1}


@pytest.mark.parametrize(
    "condition",
    [False, None, 1, "True", [True], Verdict.UNDECIDED, Verdict.REFUTED, sympy.Symbol("x") > 0,
     np.array([True]), "yes", sympy.false, np.False_],
)  # fmt: skip
def test_only_what_is_true_counts(condition):
    ledger = proofs.Ledger()
    with pytest.raises(ValueError, match="an instance does not hold"):
        ledger("exact", condition)
    assert not ledger.counts


@pytest.mark.parametrize("condition", [True, np.True_, Verdict.PROVED, sympy.true])
def test_what_counts(condition):
    ledger = proofs.Ledger()
    ledger("symbolic", condition)
    assert ledger.counts == {"symbolic": 1}


def test_unknown_kinds_are_refused():
    with pytest.raises(ParameterError, match="unknown kind of check 'by eye'"):
        proofs.Ledger()("by eye", condition=True)


def test_no_pages(tmp_path):
    with pytest.raises(ParameterError, match="no proofs in"):
        proofs.pages(tmp_path)


def test_the_pages_are_in_reading_order_and_each_step_has_one():
    stems = [page.stem for page in proofs.pages()]
    assert [int(stem.partition("-")[0]) for stem in stems] == list(range(1, len(stems) + 1))
    steps = ["assumptions", "grouping", "heads", "intermediate", "readout"]
    assert [stem.partition("-")[2] for stem in stems[:5]] == steps
