"""A small memorizer with its files, built once; and constants that no small input reaches."""

import pytest
from checker_parts import saved

from constructive import build_memorizer, certify, generators


@pytest.fixture(scope="session")
def proved(tmp_path_factory):
    """Data, memorizer and certificate at the bound, T = 7, and a folder with their files."""
    folder = tmp_path_factory.mktemp("proved")
    data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
    memorizer = build_memorizer(data, num_heads=3)
    certificate = certify(memorizer, data)
    saved(folder, memorizer, data, certificate)
    return data, memorizer, certificate, folder


@pytest.fixture(scope="session")
def paired(tmp_path_factory):
    """The same for paired heads: 61 examples, of which one is the extra one, and some coupling."""
    folder = tmp_path_factory.mktemp("paired")
    data = generators.gaussian(num_examples=61, context_size=4, width=12, seed=4)
    memorizer = build_memorizer(data, num_heads=12, construction="paired")
    certificate = certify(memorizer, data)
    saved(folder, memorizer, data, certificate)
    return data, memorizer, certificate, folder


@pytest.fixture
def as_if(checker, monkeypatch):
    """Let constants of the checker be others: `as_if(CHUNK=1)`, or `as_if("error", LARGEST=0)`.

    In all modules that have them, or in those that are named. What they are reached by takes
    gigabytes (pieces of work), minutes (the longest sums), or is not seen beside other terms of a
    bound (the rounding of float64). What smaller or scaled data reach has tests without this.
    """

    def set_to(*names, **constants):
        for name, value in constants.items():
            parts = [getattr(checker, part) for part in names] or list(vars(checker).values())
            having = [part for part in parts if hasattr(part, name)]
            assert having, name
            for part in having:
                monkeypatch.setattr(part, name, value)

    return set_to
