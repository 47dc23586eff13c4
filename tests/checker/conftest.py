"""A small memorizer with its files, built once; and `check` without a process."""

import contextlib
import io

import pytest

from constructive import build_memorizer, certify, generators
from constructive.certificates import check
from constructive.certificates.check import CHECKER


@pytest.fixture
def same_process(checker, monkeypatch):
    """Let `check` run the checker here: for tests which do so often, whatever they test of it."""

    def run(command, _printed):
        _, isolated, folder, *arguments = command
        assert (isolated, folder) == ("-I", str(CHECKER))
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = checker.main(arguments)
        return status, errors.getvalue() + output.getvalue()

    monkeypatch.setattr(check, "_run", run)


@pytest.fixture(scope="session")
def proved(tmp_path_factory):
    """Data, memorizer and certificate at the bound, T = 7, and a folder with their files."""
    folder = tmp_path_factory.mktemp("proved")
    data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
    memorizer = build_memorizer(data, num_heads=3)
    certificate = certify(memorizer, data)
    data.save(folder / "data.npz")
    memorizer.save(folder / "weights.safetensors")
    certificate.save(folder / "certificate.json")
    return data, memorizer, certificate, folder


@pytest.fixture(scope="session")
def paired(tmp_path_factory):
    """The same for paired heads: 61 examples, of which one is the extra one, and some coupling."""
    folder = tmp_path_factory.mktemp("paired")
    data = generators.gaussian(num_examples=61, context_size=4, width=12, seed=4)
    memorizer = build_memorizer(data, num_heads=12, construction="paired")
    certificate = certify(memorizer, data)
    data.save(folder / "data.npz")
    memorizer.save(folder / "weights.safetensors")
    certificate.save(folder / "certificate.json")
    return data, memorizer, certificate, folder
