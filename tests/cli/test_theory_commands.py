"""The commands about theorems and data."""

import numpy as np
import pytest

from constructive import Certificate, Dataset, Verdict, build_memorizer, generators
from constructive.cli import program as entry


@pytest.fixture
def integers(tmp_path):
    """Data whose first group is dependent as it stands: query 2 is the sum of 0 and 1."""
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    queries = np.round(data.queries * 1000)
    queries[2] = queries[0] + queries[1]
    Dataset(data.contexts, queries, data.targets).save(tmp_path / "data.npz")


@pytest.mark.usefixtures("integers")
def test_assumptions(run):
    text = run("assumptions", "data.npz", "--heads", 3, "--subsets", 100)
    assert "[0] + [1] - [2] = 0" in text
    assert "PROVED: found in pass 1" in text
    assert "estimate (99%)" in text


def test_long_work_says_how_far_it_is_where_no_bar_can_be_drawn(program, tmp_path, monkeypatch):
    generators.uniform(num_examples=7, context_size=3, width=5).save(tmp_path / "few.npz")
    assert program("assumptions", "few.npz").stderr == ""
    monkeypatch.setattr(entry, "_SILENCE", 0.0)
    lines = program("assumptions", "few.npz").stderr.splitlines()
    assert "ranks of contexts: 7 of 7" in lines
    assert "random subsets of 5: 1 of 1" in lines


def test_assumptions_which_fail_end_with_status_1(run, tmp_path):
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    Dataset(data.contexts, np.ones((7, 5)), data.targets).save(tmp_path / "data.npz")
    text = run("assumptions", "data.npz", "--subsets", 10, status=1)
    assert "REFUTED: 7 queries span 1 dimensions" in text
    assert "FileNotFoundError: No such file" in run("assumptions", "none.npz", status=2)
    text = run("regroup", "data.npz", "--heads", 3, status=2)
    assert "AssumptionError: REFUTED" in text
    assert not (tmp_path / "regrouped.npz").exists()


def test_regroup_for_theorem_10(run, tmp_path):
    data = generators.integers(num_examples=12, context_size=2, width=6)
    contexts = np.repeat(data.contexts[:4], 3, axis=0)  # of one kind in a row
    Dataset(contexts, data.queries, data.targets).save(tmp_path / "kinds.npz")
    wide = "--construction", "rank_one", "-o", "ordered.npz"
    assert "PROVED: found in pass 1" in run("regroup", "kinds.npz", "--heads", 3, *wide)
    wide += ("--force",)
    ordered = Dataset.load(tmp_path / "ordered.npz")
    assert build_memorizer(ordered, num_heads=3, construction="rank_one").record.order == ()
    text = run("regroup", "kinds.npz", "--heads", 2, *wide, status=2)
    assert "more than H(d - 1) + 1 = 11" in text
    same = Dataset(np.repeat(contexts[:1], 12, axis=0), data.queries, data.targets)
    same.save(tmp_path / "same.npz")
    text = run("regroup", "same.npz", "--heads", 3, *wide, status=2)
    assert "REFUTED: the contexts of 12 examples span 2 dimensions" in text
    assert "(0, 1, 2, 3, 4, 5" in text


@pytest.mark.usefixtures("integers")
def test_regroup_and_build(run, tmp_path):
    assert "PROVED" in run("regroup", "data.npz", "--heads", 3)
    data = Dataset.load(tmp_path / "regrouped.npz")
    assert build_memorizer(data, num_heads=3).max_error(data) < 1e-9
    run("build", "data.npz", "--heads", 3, "--construction", "saturated", status=2)
    assert "rank_one heads" in run("build", "data.npz", "--heads", 3)


def test_capacity(run):
    text = run("capacity", "-T", 621, "-n", 32, "-d", 64)
    assert "3,861" in text
    assert "Baum" in text


def test_exact_capacity(run):
    run("generate", "shared", "-T", 12, "-n", 3, "-d", 5)
    text = run("exact-capacity", "data.npz", "--heads", 3, "--head-dim", 1, "--head-dim", 3)
    assert [line.split()[:4] for line in text.splitlines()[1:3]] == [
        ["1", "1", "7", "7"],
        ["3", "7", "7", "7"],
    ]
    assert "|J| = 12 examples of J have tokens of k_J = 3 and differences of delta_J = 2" in text


def test_the_fewest_heads(run, program, tmp_path):
    run("generate", "uniform", "-T", 12, "-n", 3, "-d", 5)
    assert run("exact-capacity", "data.npz").splitlines() == [
        "PROVED: H = 3 heads of d_h = 1 memorize all labellings of these T = 12 examples (rank Z = "
        "12 for random weights, modulo a prime)",
        "PROVED: no 2 do; for all weights of H = 2 heads rank Z <= 10 on 12 different examples: "
        "none memorize every labelling",
    ]
    run("generate", "uniform", "-T", 5, "-n", 3, "-d", 5, "-o", "few.npz")
    assert len(run("exact-capacity", "few.npz").splitlines()) == 1
    contexts = np.arange(6.0).reshape(2, 3) + np.arange(7.0)[:, np.newaxis, np.newaxis] ** 2
    Dataset(contexts, np.ones((7, 3)), np.zeros(7)).save(tmp_path / "translates.npz")
    done = program("exact-capacity", "translates.npz")
    assert done.returncode == 1
    assert done.stdout.startswith("UNDECIDED: H = 6 heads")
    assert "--heads" in run("build", "--help")
    assert "H = 3" in run("build", "data.npz")


def test_upper_bound(run, tmp_path):
    run("generate", "shared", "-T", 8, "-n", 3, "-d", 5)
    assert "for all weights" in run("upper-bound", "data.npz", "--heads", 3)
    assert Certificate.load(tmp_path / "upper-bound.json").verdict is Verdict.PROVED
    assert run("check", "upper-bound.json", "data.npz").splitlines()[-1] == "PROVED"
    assert "UNDECIDED" in run("upper-bound", "data.npz", "--heads", 4, "--force", status=1)
    assert run("check", "upper-bound.json", "data.npz", status=1).startswith("NOT PROVED")
    text = run("check", "upper-bound.json", "a", "data.npz", "b", status=2)
    assert "3 files after the certificate" in text


def test_prove(run, tmp_path):
    page = tmp_path / "1-sums.md"
    page.write_text(
        "# Sums\n\n## Lemma (two)\n\nOne and one are two.\n\n**Proof.** By definition. QED\n\n"
        "```pycon\n>>> holds('exact', 1 + 1 == 2)\n\n```\n"
    )
    assert "Lemma (two)  1-sums           exact 1          1  holds" in run("prove", page)
    assert "Lemma 2.1 (counting)" in run("prove", "2-grouping")
    assert "Lemma 2.1 (counting)" in run("prove", "2")
    assert "1-assumptions, 2-grouping, 3-heads" in run("prove", "99", status=2)
    page.write_text(page.read_text().replace("== 2)", "== 3)"))
    text = run("prove", page, status=1)
    assert "FAILED" in text
    assert "an instance does not hold: False" in text
