"""Impossibility: certificates of upper bounds, and forgeries of them."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import constructive
from constructive import Dataset, Verdict, build_memorizer, check, generators
from constructive import upper_bound_certificate as certify_bound
from constructive.certificates.check import CHECKER
from constructive.layers import residues
from constructive.theory.upper_bounds import rank_upper_bound, token_space


def random_layer(rng, heads, width, head_dim):
    """A layer of random integer weights; only W_Q and W_K matter for the rank of Z."""
    query, key = rng.integers(-9, 10, size=(2, heads, width, head_dim)).astype(float)
    values = np.zeros((heads, width, 1))
    return constructive.AttentionLayer(query, key, values, np.zeros((heads, 1)), np.zeros((1, 1)))


def saved(folder, certificate, data):
    certificate.save(folder / "c.json")
    data.save(folder / "d.npz")
    return folder / "c.json", None, folder / "d.npz"


def test_one_example_too_many_is_impossible(tmp_path):
    data = generators.shared_context(num_examples=8, context_size=3, width=5)
    proof = certify_bound(data, num_heads=3)
    assert proof.verdict is Verdict.PROVED
    assert proof["impossible"].statement.startswith("rank Z <= 7 < T = 8 for all weights of H = 3")
    files = saved(tmp_path, proof, data)
    assert check(*files).verdict is Verdict.PROVED
    loaded = constructive.Certificate.load(files[0])
    assert str(loaded) == str(proof)
    assert "for all weights" in str(proof)


def test_what_is_possible_is_not_called_impossible(tmp_path):
    data = generators.shared_context(num_examples=7, context_size=3, width=5)
    assert certify_bound(data, num_heads=3)["impossible"].verdict is Verdict.UNDECIDED
    assert build_memorizer(data, num_heads=3).max_error(data) < 1e-9
    own = generators.uniform(num_examples=8, context_size=3, width=5)
    assert certify_bound(own, num_heads=3).verdict is Verdict.UNDECIDED
    assert check(*saved(tmp_path, certify_bound(own, num_heads=3), own)).verdict is not (
        Verdict.PROVED
    )


def test_tokens_with_a_constant_entry(tmp_path):
    """Own contexts, yet a hyperplane: a constant feature costs H - 1 dimensions of Z."""
    own = generators.uniform(num_examples=14, context_size=3, width=5)
    contexts = own.contexts.copy()
    contexts[..., 2] = 0.75
    data = Dataset(contexts, own.queries, own.targets)
    assert rank_upper_bound(data, num_heads=3)[0] == 13
    proof = certify_bound(data, num_heads=3)
    assert proof.verdict is Verdict.PROVED
    assert check(*saved(tmp_path, proof, data)).verdict is Verdict.PROVED
    assert rank_upper_bound(own, num_heads=3)[0] == 14


def test_the_hyperplane_is_exact():
    data = generators.shared_context(num_examples=3, context_size=4, width=6, seed=5)
    spanned, solution = token_space(data)
    assert spanned == 4
    for token in data.contexts.tolist():
        assert sum(Fraction(e) * x for e, x in zip(token, solution, strict=True)) == 1


def test_tokens_on_no_hyperplane():
    assert token_space(Dataset([[1], [2]], [[1], [2]], [0, 1])) == (1, None)
    bound, why = rank_upper_bound(Dataset([[1], [2]], [[1], [2], [3]], [0, 1, 2]), num_heads=2)
    assert (bound, why) == (2, "Hk: all tokens span k = 1 dimensions")


def test_one_token_makes_all_heads_agree():
    own = generators.uniform(num_examples=9, context_size=1, width=4)
    bound, why = rank_upper_bound(own, num_heads=5)
    assert bound == 4
    assert "n = 1" in why


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_weights_are_above_the_bound(data):
    """Random contexts of small integers, with equal and dependent tokens, against exact ranks."""
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    total, size, width = (data.draw(st.integers(1, most)) for most in (9, 4, 4))
    heads, head_dim = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    shape = (size, width) if data.draw(st.booleans()) else (total, size, width)
    dataset = Dataset(
        rng.integers(-1, 2, size=shape), rng.integers(-2, 3, size=(total, width)), np.zeros(total)
    )
    bound, _ = rank_upper_bound(dataset, heads)
    found = residues.search(random_layer(rng, heads, width, head_dim), dataset, rng)
    assert found.rank <= bound


FORGERIES = {
    "another denominator": lambda e: e.update(denominator=hex(int(e["denominator"], 16) + 1)),
    "a zero denominator": lambda e: e.update(denominator="0x0", solution=["0x0"] * 5),
    "one number changed": lambda e: e["solution"].__setitem__(
        next(i for i, x in enumerate(e["solution"]) if int(x, 16)), "0x1"
    ),
    "fewer heads": lambda e: e.update(heads=2),
    "no head": lambda e: e.update(heads=0),
    "heads which are no number": lambda e: e.update(heads=2.0),
    "heads as a truth value": lambda e: e.update(heads=True),
    "numbers which are none": lambda e: e.update(solution=["x"] * 5),
    "no evidence": lambda e: e.clear(),
    "more numbers than entries": lambda e: e["solution"].append("0x1"),
}


@pytest.mark.usefixtures("same_process")
@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries(tmp_path, name):
    data = generators.shared_context(num_examples=8, context_size=3, width=5)
    files = saved(tmp_path, certify_bound(data, num_heads=3), data)
    content = json.loads(files[0].read_text())
    FORGERIES[name](content["claims"]["impossible"]["evidence"])
    files[0].write_text(json.dumps(content))
    checked = check(*files)
    assert checked.verdict is Verdict.UNDECIDED
    assert checked.report.splitlines()[-1].startswith("NOT PROVED: ")


def test_a_forged_bound_at_the_limit(tmp_path):
    """T = H(n - 1) + 1 examples are possible; evidence and statement are as true as they can be."""
    data = generators.shared_context(num_examples=8, context_size=3, width=5)
    fewer = data.take(range(7))
    files = saved(tmp_path, certify_bound(data, num_heads=3), fewer)
    content = json.loads(files[0].read_text())
    content["data"] = json.loads(json.dumps(certify_bound(fewer, num_heads=3).data))
    content["claims"]["impossible"]["statement"] = (
        "rank Z <= 7 < T = 7 for all weights of H = 3 heads: none memorize every labelling"
    )
    Path(files[0]).write_text(json.dumps(content))
    checked = check(*files)
    assert checked.verdict is Verdict.UNDECIDED
    assert "7 examples or fewer are possible" in checked.report


def test_a_bound_says_nothing_of_other_data(tmp_path):
    data = generators.shared_context(num_examples=8, context_size=3, width=5)
    other = generators.shared_context(num_examples=8, context_size=3, width=5, seed=1)
    files = saved(tmp_path, certify_bound(data, num_heads=3), other)
    assert "it is about other data" in check(*files).report


def test_files_which_are_not_asked_for(tmp_path):
    data = generators.shared_context(num_examples=8, context_size=3, width=5)
    proof, _, npz = saved(tmp_path, certify_bound(data, num_heads=3), data)
    for files in ([proof, "a", "b", npz], [proof], [proof, "a", npz]):
        command = [sys.executable, "-I", str(CHECKER), *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stdout.startswith("NOT PROVED: ")
        assert "Traceback" not in done.stderr


def test_words_which_the_terminal_cannot_print(tmp_path):
    data = generators.shared_context(num_examples=8, context_size=3, width=5)
    proof, _, npz = saved(tmp_path, certify_bound(data, num_heads=3), data)
    content = json.loads(proof.read_text())
    content["claims"]["impossible"]["evidence"]["solution"] = ["\u6f22"]
    proof.write_text(json.dumps(content))
    command = [sys.executable, "-I", "-X", "utf8=0", str(CHECKER), str(proof), str(npz)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"LC_ALL": "C", "PATH": ""}
    )
    assert done.returncode == 1
    assert done.stdout.startswith("NOT PROVED: ValueError")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("heads", [0, -1, 2.5, True])
def test_no_number_of_heads(heads):
    with pytest.raises(constructive.ParameterError, match="is not a positive integer"):
        certify_bound(generators.shared_context(num_examples=8, context_size=3, width=5), heads)


def test_an_undecided_certificate_is_refused_in_words(tmp_path):
    own = generators.uniform(num_examples=9, context_size=3, width=5)
    own.save(tmp_path / "data.npz")
    undecided = certify_bound(own, num_heads=2)
    assert undecided.verdict is Verdict.UNDECIDED
    undecided.save(tmp_path / "bound.json")
    checked = check(tmp_path / "bound.json", None, tmp_path / "data.npz")
    assert checked.verdict is Verdict.UNDECIDED
    assert "not all claims are PROVED" in checked.report


def test_the_number_of_heads_may_be_numpys(tmp_path):
    data = generators.shared_context(num_examples=8, context_size=3, width=5)
    certificate = certify_bound(data, num_heads=np.int64(3))
    certificate.save(tmp_path / "certificate.json")
    assert check(certificate, None, data).proved
