"""Every construction keeps the laws, and one that does not is found out."""

import dataclasses

import pytest
from sequence_conformance import check_sequence_construction

from constructive.sequences import NAMES
from constructive.sequences.constructions import CONSTRUCTIONS, ProductHash
from constructive.sequences.dictionary import SATURATING


@pytest.mark.parametrize("name", NAMES)
def test_construction(name, checker, tmp_path):
    check_sequence_construction(name, checker, tmp_path)


def test_names_are_known_before_anything_is_imported():
    assert tuple(CONSTRUCTIONS) == NAMES


class Lying(ProductHash):
    """Its network computes other hashes than it says."""

    def embed(self, *given):
        embedded = super().embed(*given)
        return dataclasses.replace(embedded, hashes=embedded.hashes + 1)


def test_a_toy_keeps_the_laws_and_a_liar_does_not(monkeypatch, checker, tmp_path):
    monkeypatch.setitem(CONSTRUCTIONS, "toy", ProductHash("toy", SATURATING))
    check_sequence_construction("toy", checker, tmp_path)
    monkeypatch.setitem(CONSTRUCTIONS, "toy", Lying("toy", SATURATING))
    with pytest.raises(AssertionError):
        check_sequence_construction("toy", checker, tmp_path)
