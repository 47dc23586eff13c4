"""Certificates of paired heads, and the second island, which checks them."""

import copy
import dataclasses
import math
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from checker_parts import altered, evaluated, said, saved, signed, small_pairs
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    Dataset,
    Memorizer,
    Verdict,
    build_memorizer,
    certify,
    check,
    generators,
)
from constructive.certificates.claims import paired as claims
from constructive.layers.record import TrainedRecord
from constructive.support.verdict import pack


def with_weights(memorizer, **weights):
    layer = dataclasses.replace(memorizer.layer, **weights)
    return Memorizer(layer, memorizer.record)


# What is true is proved by both.


@settings(max_examples=25)
@given(
    st.integers(2, 7),
    st.integers(2, 5),
    st.integers(2, 7),
    st.integers(0, 2),
    st.booleans(),
    st.integers(0, 999),
    st.data(),
)
def test_both_agree(checker, tmp_path_factory, heads, size, extra, outputs, single, seed, draw):
    width = size + extra
    count = draw.draw(st.integers(1, (heads // 2) * (width - 2) + 1))
    data = generators.gaussian(
        num_examples=count, context_size=size, width=width, target_dim=outputs or None, seed=seed
    )
    if single:
        data = Dataset(*(x.astype(np.float32) for x in (data.contexts, data.queries, data.targets)))
    memorizer = build_memorizer(data, num_heads=heads, construction="paired", seed=seed)
    certificate = certify(memorizer, data)
    assert certificate.verdict is Verdict.PROVED
    files = saved(tmp_path_factory.mktemp("agree"), memorizer, data, certificate)
    found = checker.check(files)
    assert found == {claim.name: claim.statement for claim in certificate.claims}


@pytest.mark.slow
def test_thirty_thousand_examples_are_proved_and_checked(tmp_path):
    data = generators.uniform(num_examples=31_001, context_size=32, width=64, seed=1)
    memorizer = build_memorizer(data, num_heads=1000)
    assert memorizer.record.construction == "paired"
    certificate = certify(memorizer, data)
    assert certificate.verdict is Verdict.PROVED
    files = saved(tmp_path, memorizer, data, certificate)
    assert check(*files).verdict is Verdict.PROVED


def test_pairs_with_columns_of_zeros_have_the_same_proof(tmp_path):
    data = generators.gaussian(num_examples=61, context_size=4, width=12, seed=4)
    memorizer = build_memorizer(data, num_heads=12, head_dim=7, construction="paired")
    certificate = certify(memorizer, data, claims=["rank", "error"])
    assert certificate.verdict is Verdict.PROVED
    assert "contraction" in certificate["rank"].detail
    assert check(*saved(tmp_path, memorizer, data, certificate)).verdict is Verdict.PROVED


# What is evaluated with bounds, against many digits.


def test_entries_and_errors_are_within_their_bounds(checker, paired):
    data, memorizer, _, _ = paired
    heads = claims.HeadPairs(memorizer, data)
    entries = claims.Scan(heads, bounded=True)
    shown, slack = claims.residuals(entries)
    layer = checker.paired.Layer(
        memorizer.layer.tensors,
        {"contexts": data.contexts, "queries": data.queries, "targets": data.targets},
        heads.order,
        heads.stops,
    )
    owner = heads.owner
    with np.errstate(all="ignore"):
        scan = checker.paired.Scan(layer)
        where, which = scan.unlike()
    coupled = set(zip(where, which, strict=True))
    assert coupled  # certify asks for a nat more, so that the checker finds no other ones
    assert coupled <= set(zip(entries.positions, entries.pairs, strict=True))
    own = scan.own
    coupled = where, which, *layer.read(where, which, (1.0, -1.0))
    distances = checker.paired.residuals(scan, coupled)
    assert (heads.target_exponent, heads.exponent) == (layer.c, layer.a)
    of_f, of_z = mpmath.mpf(2) ** -layer.c, mpmath.mpf(2) ** -layer.a
    read = {(t, p) for t, p in enumerate(owner)} | set(zip(where, which, strict=True))
    arrays = {"contexts": data.contexts, "queries": data.queries}
    with mpmath.workdps(60):
        z_all, f = evaluated(memorizer.layer.tensors, arrays)
        z_all = z_all.reshape(len(f), 12, -1)
        for position, example in enumerate(heads.order):
            z, output = z_all[example], f[example, 0]
            true = abs(output - mpmath.mpf(float(data.targets[example]))) * of_f
            assert abs(true - float(shown[position, 0])) <= float(slack[position, 0])
            assert true <= float(distances[position, 0])
            for pair in range(6):
                x = [(a - b) * of_z for a, b in zip(z[2 * pair], z[2 * pair + 1], strict=True)]
                if (position, pair) not in read:
                    assert max(map(abs, x)) <= float(entries.tail[position])
                elif pair == owner[position] if position < len(owner) else False:
                    for found, error in (
                        (entries.own[position], entries.own_error[position]),
                        (own[0][position], own[1][position]),
                    ):
                        assert max(
                            abs(a - float(b)) for a, b in zip(x, found, strict=True)
                        ) <= float(error)
    assert float(slack.max()) < 1e-8  # and they are not excuse


# What is false, or not shown, is not proved.


@pytest.mark.parametrize(("first", "words"), [(12, "Singular"), (13, "more than d examples")])
def test_pairs_with_as_many_examples_as_dimensions_and_one_more(
    checker, paired, tmp_path, first, words
):
    """Which pairs are wrong, so that their numbers are refused if their sizes are not."""
    data, memorizer, certificate, _ = paired
    evidence = {"order": pack(memorizer.record.order), "stops": pack([first, 22, 32, 42, 52, 60])}
    forged = altered(certificate, "rank", evidence=evidence)
    status, printed = said(checker, saved(tmp_path, memorizer, data, forged), "--claims", "rank")
    assert status == 1
    assert words in printed


def at(head, factor):
    """That one of the twelve heads times a factor."""
    return lambda w: (
        w * np.where(np.arange(12) == head, factor, 1.0).reshape(-1, *[1] * (w.ndim - 1))
    )


OTHERS = {
    "heads of a pair are equal": (
        {"query_weights": lambda w: w[[0, 1, 2, 3, 4, 4, *range(6, 12)]]},
        "",
    ),
    "coupling in a circle": ({"query_weights": lambda w: w * 1e-5}, ""),
    "two pairs do not cancel": (
        {"value_weights": lambda w: at(7, 2)(at(3, 2)(w))},
        "do not cancel",
    ),
    "two key directions": ({"key_weights": at(3, 2)}, "key direction"),
    "copied in part": ({"output_weights": lambda w: 1.5 * w}, "do not copy"),
    "beyond float64": (
        {
            "readout_weights": lambda w: np.ldexp(w, 1000),
            "value_weights": lambda w: np.ldexp(w, 60),
        },
        "copy",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_layers_are_refused(checker, paired, tmp_path, name):
    """And certify does not prove that they have rank T as paired heads, nor what they read."""
    data, memorizer, certificate, _ = paired
    changes, words = OTHERS[name]
    changed = {field: f(getattr(memorizer.layer, field)) for field, f in changes.items()}
    other = with_weights(memorizer, **changed)
    if words != "key direction":  # for which `applies` says no
        (claim,) = claims.prove(other, data, ["error" if words else "rank"], 1e300)
        assert claim.verdict is Verdict.UNDECIDED
        reasons = "do not cancel|do more than copy|leaves the range", "singular|more than 4 entries"
        assert re.search(reasons[not words], claim.detail)
    files = saved(tmp_path, other, data, signed(certificate, other, data))
    status, printed = said(checker, files)
    assert status == 1
    assert words in printed


def test_coupling_in_a_circle_is_proved_by_elimination(paired, monkeypatch):
    """Unless there are too many examples for that."""
    data, memorizer, *_ = paired
    weak = with_weights(memorizer, query_weights=memorizer.layer.query_weights * 1e-5)
    assert "modulo" in certify(weak, data, claims=["rank"])["rank"].detail
    monkeypatch.setattr(claims, "_LARGEST_DENSE", 60)
    assert certify(weak, data, claims=["rank"])["rank"].verdict is Verdict.UNDECIDED


def test_data_which_do_not_fit_the_record(paired):
    data, memorizer, _, _ = paired
    more = generators.gaussian(num_examples=80, context_size=4, width=12, seed=4)
    certificate = certify(memorizer, more)
    assert certificate["error"].verdict is Verdict.REFUTED
    assert certificate["rank"].verdict is Verdict.REFUTED or "modulo" in certificate["rank"].detail
    fewer = certify(memorizer, data.take(range(20)), claims=["rank"])
    assert "modulo" in fewer["rank"].detail


# Who certify has proofs of paired heads for, and what it says; see test_paired_steps.py.


@pytest.fixture(scope="module")
def built():
    return small_pairs()


@pytest.fixture(scope="module")
def steps(built):
    return claims.Scan(claims.HeadPairs(*built), bounded=False)


def test_constants():
    with mpmath.workprec(200):
        assert mpmath.exp(-(claims.MARGIN - 1)) < claims.TAIL < 1e-17


# Examples.


@pytest.mark.parametrize(("size", "words"), [(1e30, "too large for float64"), (1e300, "too large")])
def test_heads_which_are_too_large(built, size, words):
    memorizer, data = built
    layer = dataclasses.replace(memorizer.layer, query_weights=memorizer.layer.query_weights * size)
    with pytest.raises(claims.UndecidedError, match=words):
        claims.HeadPairs(Memorizer(layer, memorizer.record), data)


def test_more_terms_than_bounds_cover(built, monkeypatch):
    """13 examples of 3 tokens of 5 entries, and 8 heads: 40 terms are the most."""
    for longest, widest, fits in ((40, 5, True), (39, 5, False), (40, 4, False)):
        monkeypatch.setattr(claims, "LONGEST", longest)
        monkeypatch.setattr(claims, "_WIDEST", widest)
        if fits:
            assert claims.HeadPairs(*built).has_extra
            continue
        with pytest.raises(claims.UndecidedError, match=f"more than {longest} terms"):
            claims.HeadPairs(*built)


def test_a_head_without_a_partner_reads_nothing():
    data = generators.gaussian(num_examples=10, context_size=2, width=5, seed=3)
    odd = build_memorizer(data, num_heads=7, construction="paired")
    claims.HeadPairs(odd, data)
    values = odd.layer.value_weights.copy()
    values[6, 0] = 1e-9
    reads = changed(odd, value_weights=values)
    with pytest.raises(claims.UndecidedError, match="the last head belongs to no pair"):
        claims.HeadPairs(reads, data)


# What is said.


def residual_claims(steps, evaluated, slack, epsilon, exponent=0):
    evaluated = np.array(evaluated, dtype=float).reshape(13, -1)
    layer = copy.copy(steps.layer)
    layer.target_exponent = exponent
    return claims._error(layer, evaluated, np.full(evaluated.shape, slack), epsilon)


@pytest.mark.parametrize("exponent", [-1060, -40, 0, 900])
@pytest.mark.parametrize(
    ("worst", "slack", "verdict"),
    [
        (0.5, 0.1, Verdict.PROVED),
        (0.59, 0.1, Verdict.PROVED),
        (0.61, 0.1, Verdict.UNDECIDED),  # four slacks are asked for
        (1.05, 0.1, Verdict.UNDECIDED),
        (1.11, 0.1, Verdict.REFUTED),
        (1.0, 0.0, Verdict.UNDECIDED),
        (1.0 - 2.0**-52, 0.0, Verdict.UNDECIDED),
        (1.0 - 2.0**-28, 0.0, Verdict.PROVED),
        (1.0 + 2.0**-52, 0.0, Verdict.UNDECIDED),
        (1.0 + 2.0**-48, 0.0, Verdict.REFUTED),
        (np.nan, 0.0, Verdict.UNDECIDED),
        (2.0, np.inf, Verdict.UNDECIDED),
    ],
)
def test_errors_are_compared_with_room(steps, worst, slack, verdict, exponent):
    values = np.zeros(13)
    values[4] = worst
    claim = residual_claims(steps, values, slack, 2.0**exponent, exponent)
    assert claim.verdict is verdict
    example = int(steps.layer.order[4])
    power = Fraction(2) ** exponent
    if verdict is Verdict.REFUTED:
        assert claim.witness == example
        shown = Fraction(claim.detail.split(" is ")[1].split()[0])
        assert power < shown <= Fraction(worst - slack) * power
    if verdict is Verdict.UNDECIDED and slack < 1 and not math.isnan(worst):
        shown = Fraction(claim.detail.split(f"at example {example} the bound ")[1].split()[0])
        assert Fraction(worst + 4 * slack) * power <= shown
        assert shown <= Fraction(worst + 4 * slack) * power * Fraction(12, 10)
    if verdict is Verdict.PROVED:
        assert claim.evidence == {"bound": (2.0**exponent).hex()}
        shown = Fraction(claim.detail.split("<= ")[1].split()[0])
        assert Fraction(worst) * power <= shown <= power


def test_one_output_of_several_is_named(steps):
    values = np.zeros((13, 3))
    values[5, 2] = 2.0
    claim = residual_claims(steps, values, 0.0, 1.0)
    assert claim.witness == (int(steps.layer.order[5]), 2)
    claim = residual_claims(steps, values[:, 1:], 0.0, 1.0)
    assert claim.witness == (int(steps.layer.order[5]), 1)
    infinite = residual_claims(steps, values, np.inf, 1.0)
    assert "the bound inf in float64" in infinite.detail


@pytest.mark.parametrize("exponent", [-900, -3, 0, 5])
def test_ranks_are_those_of_the_order(steps, exponent):
    steps = copy.copy(steps)
    steps.layer = copy.copy(steps.layer)
    steps.layer.exponent = exponent
    claim = claims._rank(steps, 0.5)
    assert claim.verdict is Verdict.PROVED
    assert claim.evidence == {"order": pack(steps.layer.order), "stops": pack(steps.layer.stops)}
    shown = Fraction(claim.detail.split("others below ")[1].split(";")[0])
    tail = Fraction(float(steps.tail.max())) * Fraction(2) ** exponent
    assert tail <= shown <= tail * Fraction(11, 10)


def changed(memorizer, record=None, **weights):
    return Memorizer(
        dataclasses.replace(memorizer.layer, **weights),
        dataclasses.replace(memorizer.record, **record or {}),
    )


def with_stops(record, stops):
    heads = list(record.heads)
    for pair, stop in enumerate(stops):
        heads[2 * pair + 1] = dataclasses.replace(heads[2 * pair + 1], stop=stop)
    return {"heads": tuple(heads)}


def test_who_these_proofs_apply_to(built):
    memorizer, data = built
    record, layer = memorizer.record, memorizer.layer
    assert claims.applies(memorizer, data)
    order = list(record.order)
    stops = [head.stop for head in record.heads[1::2]]
    assert stops[-1] == 12
    assert claims.applies(changed(memorizer, with_stops(record, [*stops[:3], 13])), data)
    wide = np.concatenate([layer.query_weights, 0 * layer.query_weights], axis=2)
    keys = np.concatenate([layer.key_weights, 0 * layer.key_weights], axis=2)
    assert claims.applies(changed(memorizer, query_weights=wide, key_weights=keys), data)
    assert claims.applies(changed(memorizer, {"construction": "rank_one"}), data)  # by its weights
    other_key = layer.key_weights.copy()
    other_key[7] += 1
    for other in (
        changed(memorizer, {"order": tuple(order[:-1])}),
        changed(memorizer, {"order": (*order[:-1], order[0])}),
        changed(memorizer, with_stops(record, [*stops[:3], 11])),
        changed(memorizer, with_stops(record, [*stops[:3], 14])),
        changed(memorizer, with_stops(record, [stops[1], stops[0], *stops[2:]])),
        changed(memorizer, with_stops(record, [6, 7, 8, 12])),
        changed(memorizer, with_stops(record, [-1, *stops[1:]])),
        changed(memorizer, {"heads": record.heads[:-2]}),
        changed(memorizer, query_weights=np.concatenate([wide[:, :, :1]] * 2, 2), key_weights=keys),
        changed(memorizer, key_weights=other_key),
    ):
        assert not claims.applies(other, data)
    assert not claims.applies(
        Memorizer(layer, TrainedRecord("L", scalar_targets=True, constant=False)), data
    )
    exact = build_memorizer(data.take(range(5)), num_heads=4, precision=150)
    assert not claims.applies(Memorizer(exact.layer, record), data)
    assert not claims.applies(memorizer, data.take(range(12)))
    assert not claims.applies(memorizer, Dataset(data.contexts[0], data.queries, data.targets))
    one = Dataset(data.contexts[:, :1], data.queries, data.targets)
    assert not claims.applies(memorizer, one)


def test_the_least_and_the_largest_pairs_which_these_proofs_apply_to():
    data = generators.gaussian(num_examples=2, context_size=2, width=5, seed=3)
    two = build_memorizer(data, num_heads=2, construction="paired")
    assert claims.applies(two, data)
    heads = list(two.record.heads)
    one = dataclasses.replace(
        two.layer,
        **{
            name: getattr(two.layer, name)[:1]
            for name in ("query_weights", "key_weights", "value_weights", "output_weights")
        },
    )
    record = dataclasses.replace(two.record, heads=tuple(heads[:1]))
    assert not claims.applies(Memorizer(one, record), data)
    wide = generators.gaussian(num_examples=10, context_size=2, width=5, seed=3)
    built = build_memorizer(wide, num_heads=8, construction="paired")
    for stops, fits in (
        ([5, 5, 10, 10], True),  # none, and as many as dimensions
        ([0, 5, 5, 9], True),
        ([0, 6, 6, 10], False),
        ([2, 4, 6, 8], False),
    ):
        assert claims.applies(changed(built, with_stops(built.record, stops)), wide) == fits
    odd = build_memorizer(wide, num_heads=7, construction="paired")
    keys = odd.layer.key_weights.copy()
    keys[6] += 1  # of a head without a partner
    assert claims.applies(changed(odd, key_weights=keys), wide)


def test_a_rank_which_no_weights_have_is_refuted(built):
    memorizer, data = built
    contexts, queries = data.contexts.copy(), data.queries.copy()
    contexts[7], queries[7] = contexts[2, ::-1], queries[2]
    twice = Dataset(contexts, queries, data.targets)
    (claim,) = claims.prove(memorizer, twice, ["rank"], 1e-6)
    assert (claim.verdict, claim.witness) == (Verdict.REFUTED, (2, 7))
    error, rank = claims.prove(memorizer, twice, ["error", "rank"], 1e-6)
    assert (error.name, rank.verdict) == ("error", Verdict.REFUTED)


@pytest.mark.parametrize("asked", [["rank"], ["error"], ["rank", "error"]])
def test_what_is_asked_is_answered_in_its_order(built, asked):
    found = claims.prove(*built, asked, 1e-6)
    assert [claim.name for claim in found] == asked
    assert {claim.verdict for claim in found} == {Verdict.PROVED}
