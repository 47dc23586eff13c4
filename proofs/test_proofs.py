"""Every page of proofs runs: `pytest proofs`, or `python -m constructive prove` for the table."""

import doctest

import pytest

from constructive.theory import proofs

PAGES = proofs.pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page):
    outcomes = list(proofs.run(page))
    assert outcomes
    assert not [outcome.title for outcome in outcomes if not outcome.holds], proofs.table(outcomes)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_brings_what_it_needs_where_it_is_pasted(page):
    """Its first block imports `holds`: without the runner, which counts, the checks run, too."""
    first = doctest.DocTestParser().get_examples(proofs.sections(page)[0].text)
    names = {}
    exec("".join(example.source for example in first), names)  # noqa: S102
    assert names["holds"] is proofs.holds
