"""A small memorizer with its files, built once."""

import pytest
from three_files import saved

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
