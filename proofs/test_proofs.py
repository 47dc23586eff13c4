"""Every page of proofs runs: `pytest proofs`, or `python -m constructive prove` for the table."""

import pytest

from constructive.theory import proofs

PAGES = proofs.pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page):
    outcomes = list(proofs.run(page))
    assert outcomes
    assert not [outcome.title for outcome in outcomes if not outcome.holds], proofs.table(outcomes)
