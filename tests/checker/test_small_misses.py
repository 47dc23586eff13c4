"""What is false by a little, and only one line of the checker refuses it.

Each test is of a change of that line which all other tests let pass.
"""

import dataclasses
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
    claims = checker.decoders
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
    tails = 1e-3 * np.arange(1, steps.total + 1)
    plain, grown = (dataclasses.replace(steps, tail=tail) for tail in (0 * tails, tails))
    columns = np.eye(steps.total)
    found = [np.stack([who.bound(each)(w) for w in columns], axis=1) for each in (plain, grown)]
    expected = np.outer(tails, np.abs(who.right_inverse(steps)).sum(axis=(0, 1)))
    expected[:-1, -1] = 0.0  # others may read anything there
    assert np.allclose(found[1] - found[0], expected, rtol=1e-6, atol=1e-12)
    readouts = np.abs(steps.first).sum()
    distances = [who.distances(each) for each in (plain, grown)]
    assert np.allclose(distances[1] - distances[0], tails * readouts, rtol=1e-6, atol=1e-12)


COPIED = np.array([[0.0, 0.0, 2.0], [4.0, 0.0, 0.0], [0.0, -0.5, 0.0]])
"""W_O of a head: each column copies one entry of a value, times a power of two."""
CHOSEN = np.array([[0.0, 4.0], [0.0, 0.0], [0.5, 0.0]])
"""W_D: the same of outputs."""


@pytest.mark.parametrize("chosen", [CHOSEN, CHOSEN[:, [0, 0]], np.roll(CHOSEN, 1, axis=0)])
def test_what_copies_is_read_as_the_product(checker, chosen):
    w_v = np.random.default_rng(0).standard_normal((2, 4, 3))
    w_o = np.concatenate([COPIED, COPIED[::-1]])
    found = checker.paired.readouts_of({"W_V": w_v, "W_O": w_o, "W_D": chosen})
    assert (found == w_v @ (w_o.reshape(2, 3, 3) @ chosen)).all()


@pytest.mark.parametrize(
    ("name", "entry", "words"),
    [
        ("W_D", ([2, 1], [0, 0]), "W_D does not copy"),
        ("W_O", ([3, 4], [0, 0]), "W_O does not copy"),
    ],
)
def test_a_sum_of_two_entries_does_not_copy(checker, name, entry, words):
    """Where each row, or each column of all heads together, still has one entry or more."""
    weights = {
        "W_V": np.ones((2, 4, 3)),
        "W_O": np.concatenate([COPIED, COPIED[::-1]]),
        "W_D": CHOSEN.copy(),
    }
    weights[name][entry] = 1.0
    with pytest.raises(ValueError, match=words):
        checker.paired.readouts_of(weights)


@pytest.mark.parametrize("also", [0, 1])
def test_one_pair_at_most_reads_what_does_not_cancel(checker, also):
    """What the second heads of two add is not counted."""
    memorizer, data = strongly_coupled()
    weights = {name: np.array(array) for name, array in memorizer.layer.tensors.items()}
    weights["W_V"][2 * also + 1] *= 1.5
    arrays = {"contexts": data.contexts, "queries": data.queries, "targets": data.targets}
    stops = np.array([head.stop for head in memorizer.record.heads[1::2]])
    layer = checker.paired.Layer(weights, arrays, np.array(memorizer.record.order), stops)
    assert np.count_nonzero(layer.both.any(axis=(1, 2))) == 1 + also
    if also:
        with pytest.raises(ValueError, match="more than one pair"):
            checker.paired.Scan(layer)
    else:
        assert len(checker.paired.Scan(layer).second) == 1


# Sequence memorizers: the formula of Theorem 7 where no network limits its numbers.


@pytest.mark.parametrize(
    ("residue", "prime", "total", "bound", "hashed"),
    [(0, 18, 21, 702, 605), (2, 20, 41, 1010, 1553)],
)
def test_each_size_has_a_limit_of_its_own(
    checker, monkeypatch, residue, prime, total, bound, hashed
):
    """One sequence of three tokens 0 and 4, with labels 0 to 2; hashes may have a million bits.

    The bound is 66 + 14 (total + 10) + 8, for two dictionaries of one key 97 each, and 14 residue;
    or where no weights are kept, 40 residue + 14 residue (prime + 1) for the second one.
    """
    monkeypatch.setattr(checker.sequences, "extents", lambda *_: (10**6, []))
    memorizer = SimpleNamespace(task="next", size=3, nonzero=0)
    given = np.array([[0], [4]], dtype=object), np.array([[0, 1, 1]]), [0, 1, 2]
    work = checker.sequences.Work(10**9, 10**9)
    sizes = {"keys": 1, "width": 1, "label_bits": 2}  # as the data have it
    sizes |= {"token_bits": 4, "residue_bits": residue, "prime_bits": prime, "kept": 1}
    sizes |= {"weight_bits": 10, "sum_bits": total, "key_bits": 10}  # the largest
    assert checker.sequences.check_size(sizes, memorizer, *given, work)[:2] == (0, bound)
    found = checker.sequences.check_size(sizes | {"kept": 0}, memorizer, *given, work)
    assert found[:2] == (0, hashed)
    for name, size in sizes.items():
        if name == "residue_bits":  # at most those of tokens
            continue
        with pytest.raises(ValueError, match="sizes"):
            checker.sequences.check_size(sizes | {name: size + 1}, memorizer, *given, work)


def test_seven_values_of_a_unit_have_three_bits(checker):
    network = SimpleNamespace(layers=[(1, [([0], [1], 0)])])
    memorizer = SimpleNamespace(
        embedding=network, streams=lambda rows, _: rows, values=lambda stream, _: stream[:, 0]
    )
    for largest, bits in ((6, 3), (7, 4)):
        tokens = np.array([[0], [largest]], dtype=object)
        work = checker.sequences.Work(10**9, 10**9)
        assert checker.sequences.extents(memorizer, tokens, work) == (3, [bits])


# Upper bounds: how long the integers are which tokens are.


def test_integers_of_tokens_are_as_long_as_their_scales_are_apart(checker):
    """83 bits: 53, and 30 between the largest and the smallest; zeros have no scale."""
    full = 1.0 - 2.0**-53
    assert checker.layers.reach(np.array([[full, 0.0, full * 2.0**-30]])) == 83
    assert int(full * 2.0**83).bit_length() == 83
    assert checker.layers.reach(np.array([[0.0, 0.0]])) == 53
