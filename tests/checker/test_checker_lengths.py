"""Contexts of different lengths in the checker: it hides by itself what fills up."""

import numpy as np
import pytest
from three_files import paths, said

from constructive import Dataset, build_memorizer, certify, generators

LENGTHS = [2, 4, 1, 3, 4, 2, 4, 3, 1, 2]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    contexts = [rng.standard_normal((length, 6)) for length in LENGTHS]
    return Dataset(contexts, rng.standard_normal((10, 6)), rng.standard_normal(10))


@pytest.fixture(scope="module")
def memorizer(data):
    return build_memorizer(data)


def test_attention_that_float64_does_not_know_is_had_in_fixed_point(checker, data, memorizer):
    """Logits are large: the checker evaluates some heads anew, and hides the same tokens there."""
    weights = dict(memorizer.layer.tensors)
    weights["W_Q"] = weights["W_Q"] * 2.0**8
    arrays = {"contexts": data.contexts.tokens, "queries": data.queries, "lengths": data.lengths}
    view = checker.attend.Examples(arrays, [slice(None)])
    anew = 0
    work = checker.real.Work(1e12)
    for _, _, attention, off in checker.floating.attended(weights, view, 10**6, work):
        hidden = np.broadcast_to(~data.contexts.mask[:, None], attention.shape)
        assert not attention[hidden].any()
        assert np.abs(attention.sum(axis=2) - 1.0).max() < 1e-6
        anew += work.spent > 0
        assert (off < 1e-6).all()
    assert anew


FORGED = {
    "no lengths": lambda arrays: {k: v for k, v in arrays.items() if k != "lengths"},
    "other lengths": lambda arrays: arrays | {"lengths": arrays["lengths"][::-1]},
    "one longer": lambda arrays: arrays | {"lengths": arrays["lengths"] + (np.arange(10) == 2)},
    "too long": lambda arrays: arrays | {"lengths": arrays["lengths"] + 1},
    "none": lambda arrays: arrays | {"lengths": 0 * arrays["lengths"]},
    "fractions": lambda arrays: arrays | {"lengths": arrays["lengths"] - 0.5},
    "too few": lambda arrays: arrays | {"lengths": arrays["lengths"][1:]},
    "of one length": lambda arrays: arrays | {"lengths": 0 * arrays["lengths"] + 4},
    "negative": lambda arrays: arrays | {"lengths": -arrays["lengths"]},
}


def checked(checker, certificate, memorizer, arrays, folder):
    """The status of the checker, and what it prints."""
    files = paths(folder)
    certificate.save(files[0])
    memorizer.save(files[1])
    np.savez(files[2], **arrays)
    return said(checker, files)


def stored(data):
    return data.arrays | {"lengths": data.lengths}


@pytest.mark.parametrize("name", FORGED)
def test_certificates_of_other_lengths_are_refused(checker, data, memorizer, name, tmp_path):
    certificate = certify(memorizer, data, claims=["rank", "error"])
    assert checked(checker, certificate, memorizer, stored(data), tmp_path)[0] == 0
    status, printed = checked(checker, certificate, memorizer, FORGED[name](stored(data)), tmp_path)
    assert status == 1
    assert printed.startswith("NOT PROVED")


def test_a_checker_does_not_read_what_fills_up(checker, data, memorizer, tmp_path):
    certificate = certify(memorizer, data, claims=["rank", "error", "executed"])
    arrays = stored(data)
    arrays["contexts"] = np.where(data.contexts.mask[..., None], arrays["contexts"], 1e30)
    assert checked(checker, certificate, memorizer, arrays, tmp_path)[0] == 0
    arrays["contexts"][0, 0, 0] += 1.0
    assert checked(checker, certificate, memorizer, arrays, tmp_path)[0] == 1


def test_lengths_that_are_all_n_are_none(checker, tmp_path):
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=3)
    certificate = certify(memorizer, data)
    arrays = data.arrays | {"lengths": np.full(7, 3)}
    status, printed = checked(checker, certificate, memorizer, arrays, tmp_path)
    assert (status, "of one length" in printed) == (1, True)
    certificate = certify(memorizer, data, claims=["rank", "error"])
    assert checked(checker, certificate, memorizer, arrays, tmp_path)[0] == 0
