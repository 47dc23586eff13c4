"""What is false by a little, and only one line of the checker refuses it.

Each test is of a change of that line which all other tests let pass.
"""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from decoder_parts import TWO, by_hand, two_tokens
from paired_parts import OfChecker, strongly_coupled
from prover_parts import OfCertify
from three_files import saved

from constructive import certify, check
from constructive.certificates.families import DECODERS

# Decoders: margins, and what rounding takes of them.


def narrow(gap):
    """The first margin is this gap; rounding may take 2^-15.85 of it."""
    rows = np.array([[0.0, 1.0], [gap, 1.0], [-1.0, -1.0]])
    return by_hand(TWO, two_tokens(unembedding=rows))


@pytest.mark.parametrize(("gap", "proved"), [(2.0**-15, True), (2.0**-16, False)])
def test_rounding_of_a_little_more_than_a_margin(tmp_path, gap, proved):
    """The certificate of the wider margin, signed for the narrower one."""
    claims = ["executed"]
    files = saved(tmp_path, narrow(gap), TWO, certify(narrow(2.0**-15), TWO, claims=claims))
    content = json.loads((tmp_path / "certificate.json").read_text())
    content["data"], content["weights"] = DECODERS.describe(narrow(gap), TWO)
    (tmp_path / "certificate.json").write_text(json.dumps(content))
    said = check(*files)
    assert said.proved == proved
    if not proved:
        share = re.search("executed: rounding may take ([0-9.]+)", said.report)[1]
        assert 1.0 < float(share) < 1.2


def test_a_share_of_one_is_too_much_and_a_margin_may_be_claimed_in_full(checker):
    claims = checker.recites
    executed = claims.ExecutedOfDecoder({"evidence": {"model": "float32, pairwise"}})
    recites = claims.Recites({"evidence": {"bound": (0.25).hex()}})
    about = SimpleNamespace(
        texts=[TWO.ids], places=2, model=checker.float_model.MODELS["float32, pairwise"]
    )
    about.margins = 0.25, np.nextafter(1.0, 0)
    assert recites.check(about) == (2, 1, "0.25")
    assert executed.check(about)[:2] == (2, 1)
    about.margins = np.nextafter(0.25, 0), 1.0
    for claim in (recites, executed):
        with pytest.raises(ValueError, match=claim.name):
            claim.check(about)


# Paired heads: what tokens far behind add.


@pytest.mark.parametrize("who", ["checker", "certify"])
def test_tails_count_in_every_column_of_the_coupling(checker, who):
    """Those of the extra example are the last ones: 13 times those of the first."""
    who = OfChecker(checker) if who == "checker" else OfCertify()
    steps = who.steps(*strongly_coupled())
    plain, grown = (who.with_tails(steps, part) for part in (0.0, 1e-3))
    columns = np.eye(steps.total)
    found = [np.stack([who.bound(each)(w) for w in columns], axis=1) for each in (plain, grown)]
    expected = np.outer(grown.tail, np.abs(who.right_inverse(steps)).sum(axis=(0, 1)))
    expected[:-1, -1] = 0.0  # others may read anything there
    assert np.allclose(found[1] - found[0], expected, rtol=1e-6, atol=1e-12)
    readouts = np.abs(steps.first).sum()
    distances = [who.distances(each) for each in (plain, grown)]
    assert np.allclose(distances[1] - distances[0], grown.tail * readouts, rtol=1e-6, atol=1e-12)
