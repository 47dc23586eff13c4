"""Who certify has proofs of paired heads for, and what it says; see test_paired_steps.py."""

import dataclasses
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from paired_parts import small_pairs, strongly_coupled

from constructive import Dataset, Memorizer, Verdict, build_memorizer, generators
from constructive.certificates.claims import paired, pairs, readout
from constructive.certificates.claims.pairs import Readouts, Scan
from constructive.exact import verified
from constructive.layers.record import TrainedRecord
from constructive.support.verdict import pack


@pytest.fixture(scope="module")
def built():
    return small_pairs()


def steps_of(memorizer, data):
    read = pairs.Examples.of(memorizer, data)
    return read, pairs.evaluate(read, Scan.of(read, None))


@pytest.fixture(scope="module")
def steps(built):
    return steps_of(*built)


def test_constants():
    with mpmath.workprec(200):
        assert mpmath.exp(-(pairs.MARGIN - 1)) < pairs.TAIL < 1e-17
    assert 0 < verified.EXPONENTIAL_ERROR < 1e-10


# Examples.


@pytest.mark.parametrize("scale", [-300, -5, 7, 300])
def test_layers_are_brought_to_size_one_exactly(built, scale):
    memorizer, data = built
    power = 2.0**scale
    layer = memorizer.layer
    moved = dataclasses.replace(layer, query_weights=layer.query_weights * power)
    moved = Memorizer(moved, memorizer.record)
    plain = pairs.Examples.of(*built)
    read = pairs.Examples.of(moved, Dataset(data.contexts / power, data.queries, data.targets))
    assert read.exponent == plain.exponent - scale
    both = [pairs.Tokens.of(each, np.arange(13)) for each in (read, plain)]
    for name in ("query_weights", "queries", "key"):
        assert (getattr(read, name) == getattr(plain, name)).all()
    for name in ("contexts", "scores", "largest"):
        assert (getattr(both[0], name) == getattr(both[1], name)).all()
    assert np.abs(read.queries).max() < 1
    assert np.abs(read.key).max() < 1
    assert 0.5 <= np.abs(read.contexts(np.arange(13))).max() < 1
    reach = np.einsum("td,spd->tsp", read.queries, read.query_weights)
    rows = memorizer.layer.query_weights[:, :, 0].reshape(4, 2, 5)
    logits = np.einsum("td,psd->tsp", data.queries[read.order], rows) * (data.contexts @ layer_key(
        layer))[read.order, 0, None, None]  # fmt: skip
    assert np.allclose(reach * both[0].scores[:, 0, None, None], logits)


def layer_key(layer):
    return layer.key_weights[0, :, 0]


@pytest.mark.parametrize(("size", "words"), [(1e30, "too large for float64"), (1e300, "too large")])
def test_heads_which_are_too_large(built, size, words):
    memorizer, data = built
    layer = dataclasses.replace(memorizer.layer, query_weights=memorizer.layer.query_weights * size)
    with pytest.raises(pairs.UndecidedError, match=words):
        pairs.Examples.of(Memorizer(layer, memorizer.record), data)


def test_more_terms_than_bounds_cover(built, monkeypatch):
    """13 examples of 3 tokens of 5 entries, and 8 heads: 40 terms are the most."""
    for longest, widest, fits in ((40, 5, True), (39, 5, False), (40, 4, False)):
        monkeypatch.setattr(pairs, "LONGEST", longest)
        monkeypatch.setattr(pairs, "_WIDEST", widest)
        if fits:
            assert pairs.Examples.of(*built).has_extra
            continue
        with pytest.raises(pairs.UndecidedError, match=f"more than {longest} terms"):
            pairs.Examples.of(*built)


def test_where_no_example_is_left_over_none_is_extra(built):
    memorizer, data = built
    stops = [head.stop for head in memorizer.record.heads[1::2]]
    full = changed(memorizer, with_stops(memorizer.record, [*stops[:3], 13]))
    assert not pairs.Examples.of(full, data).has_extra


def test_blocks_which_are_singular(steps):
    read, found = steps
    own = found.own.copy()
    for value in (own[0] * 0, np.full(5, np.nan)):
        own[0] = own[1] = value
        with pytest.raises(pairs.UndecidedError, match="singular in float64"):
            paired.bound_inverse(read, found._replace(own=own))


def test_layers_which_do_more_than_copy(built, steps):
    memorizer, _ = built
    for name in ("output_weights", "readout_weights"):
        stored = getattr(memorizer.layer, name)
        for factor in (3, 0, 1.5):
            layer = dataclasses.replace(memorizer.layer, **{name: factor * stored})
            with pytest.raises(pairs.UndecidedError, match="do more than copy"):
                Readouts.of(steps[0], Memorizer(layer, memorizer.record))
    for power in (-1060, 1000):  # W_V W_O W_D is not exact then
        layer = dataclasses.replace(
            memorizer.layer, readout_weights=np.ldexp(memorizer.layer.readout_weights, power),
            value_weights=np.ldexp(memorizer.layer.value_weights, 60 if power > 0 else 0),
        )  # fmt: skip
        with pytest.raises(pairs.UndecidedError, match="leaves the range"):
            Readouts.of(steps[0], Memorizer(layer, memorizer.record))
    values = memorizer.layer.value_weights.copy()
    values[2] += 1
    values[4] += 1
    layer = dataclasses.replace(memorizer.layer, value_weights=values)
    with pytest.raises(pairs.UndecidedError, match="more than one pair do not cancel"):
        Readouts.of(steps[0], Memorizer(layer, memorizer.record))


def test_a_head_without_a_partner_reads_nothing():
    data = generators.gaussian(num_examples=10, context_size=2, width=5, seed=3)
    odd = build_memorizer(data, num_heads=7, construction="paired")
    Readouts.of(pairs.Examples.of(odd, data), odd)
    values = odd.layer.value_weights.copy()
    values[6, 0] = 1e-9
    reads = changed(odd, value_weights=values)
    with pytest.raises(pairs.UndecidedError, match="the last head belongs to no pair"):
        Readouts.of(pairs.Examples.of(reads, data), reads)


def test_pairs_of_several_sizes():
    """The last one has fewer examples than the widest one, and there are none after it."""
    memorizer, data = strongly_coupled()
    memorizer = changed(memorizer, with_stops(memorizer.record, [4, 7, 10, 13]))
    read, found = steps_of(memorizer, data)
    bound = paired.Coupling(read, found)
    shown = np.stack([bound(row) for row in np.eye(13)], axis=1)
    blocks = [block for *_, run in bound.runs for block in run]
    assert np.isfinite(shown).all()
    assert (found.pairs == 3).any()
    for t, pair, x in zip(found.positions, found.pairs, found.coupled, strict=True):
        mine = read.owner == pair
        assert (shown[t, mine] >= np.abs(x @ blocks[pair])).all()


# What is said.


def residual_claims(steps, evaluated, slack, epsilon, exponent=0):
    evaluated = np.array(evaluated, dtype=float).reshape(13, -1)
    found = paired.Residuals(evaluated, np.full(evaluated.shape, slack), exponent)
    return paired._error(steps[0], found, epsilon)


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
    example = int(steps[0].order[4])
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
    assert claim.witness == (int(steps[0].order[5]), 2)
    claim = residual_claims(steps, values[:, 1:], 0.0, 1.0)
    assert claim.witness == (int(steps[0].order[5]), 1)
    infinite = residual_claims(steps, values, np.inf, 1.0)
    assert "the bound inf in float64" in infinite.detail


def readout_claim(steps, delta, *, spread=3.0, contraction=0.25, worst=0.5, weight=2.0, **more):
    found = paired.Inverse(np.full(13, weight), contraction, spread)
    values = np.zeros((13, 1))
    values[7] = worst
    near = paired.Residuals(values, np.zeros((13, 1)), more.get("exponent", 5))
    read = dataclasses.replace(steps[0], exponent=more.get("of_contexts", 3))
    return paired._readout(read, found, near, delta)


@pytest.mark.parametrize("shift", [-1000, 0, 1000])
def test_distances_are_claimed_with_room(steps, shift):
    """6 (1/2) / 2 / (1 - 1/4) = 2, times 2^(c - a), and twice that may be claimed."""
    exponents = {"exponent": 5 + shift, "of_contexts": 3, "spread": 6.0}
    power = 8 * 2.0**shift
    claim = readout_claim(steps, None, **exponents)
    assert claim.verdict is Verdict.PROVED
    shown = float.fromhex(claim.evidence["bound"])
    assert 2 * power <= shown <= 2.2 * power
    for delta, verdict in (
        (2.0001 * power, Verdict.PROVED),
        (1.9999 * power, Verdict.UNDECIDED),
        (0.0, Verdict.UNDECIDED),
    ):
        claim = readout_claim(steps, delta, **exponents)
        assert claim.verdict is verdict
        if verdict is Verdict.PROVED:
            assert claim.evidence == {"bound": delta.hex()}


@pytest.mark.parametrize(
    "broken", [{"spread": math.inf}, {"worst": math.nan}, {"weight": 0.0}, {"spread": math.nan}]
)
def test_distances_which_are_none(steps, broken):
    assert readout_claim(steps, None, **broken).verdict is Verdict.UNDECIDED
    assert readout_claim(steps, 1e300, **broken).verdict is Verdict.UNDECIDED


def test_distances_beyond_all_floats(steps):
    claim = readout_claim(steps, None, exponent=1030)
    assert claim.verdict is Verdict.UNDECIDED
    claim = readout_claim(steps, math.inf, exponent=1030)
    assert (claim.verdict, claim.statement) == (Verdict.UNDECIDED, readout.UNKNOWN)


@pytest.mark.parametrize("exponent", [-900, -3, 0, 5])
def test_ranks_are_those_of_the_order(steps, exponent):
    steps = dataclasses.replace(steps[0], exponent=exponent), steps[1]
    claim = paired._rank("s", *steps, paired.Inverse(np.ones(13), 0.5, 1.0))
    assert claim.verdict is Verdict.PROVED
    assert claim.evidence == {"order": pack(steps[0].order), "stops": pack(steps[0].stops)}
    shown = Fraction(claim.detail.split("others below ")[1].split(";")[0])
    tail = Fraction(float(steps[1].tail.max())) * Fraction(2) ** steps[0].exponent
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
    assert paired.applies(memorizer, data)
    order = list(record.order)
    stops = [head.stop for head in record.heads[1::2]]
    assert stops[-1] == 12
    assert paired.applies(changed(memorizer, with_stops(record, [*stops[:3], 13])), data)
    wide = np.concatenate([layer.query_weights, 0 * layer.query_weights], axis=2)
    keys = np.concatenate([layer.key_weights, 0 * layer.key_weights], axis=2)
    assert paired.applies(changed(memorizer, query_weights=wide, key_weights=keys), data)
    assert paired.applies(changed(memorizer, {"construction": "rank_one"}), data)  # by its weights
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
        assert not paired.applies(other, data)
    assert not paired.applies(
        Memorizer(layer, TrainedRecord("L", scalar_targets=True, constant=False)), data
    )
    exact = build_memorizer(data.take(range(5)), num_heads=4, precision=150)
    assert not paired.applies(Memorizer(exact.layer, record), data)
    assert not paired.applies(memorizer, data.take(range(12)))
    assert not paired.applies(memorizer, Dataset(data.contexts[0], data.queries, data.targets))
    one = Dataset(data.contexts[:, :1], data.queries, data.targets)
    assert not paired.applies(memorizer, one)


def test_the_least_and_the_largest_pairs_which_these_proofs_apply_to():
    data = generators.gaussian(num_examples=2, context_size=2, width=5, seed=3)
    two = build_memorizer(data, num_heads=2, construction="paired")
    assert paired.applies(two, data)
    heads = list(two.record.heads)
    one = dataclasses.replace(
        two.layer,
        **{
            name: getattr(two.layer, name)[:1]
            for name in ("query_weights", "key_weights", "value_weights", "output_weights")
        },
    )
    record = dataclasses.replace(two.record, heads=tuple(heads[:1]))
    assert not paired.applies(Memorizer(one, record), data)
    wide = generators.gaussian(num_examples=10, context_size=2, width=5, seed=3)
    built = build_memorizer(wide, num_heads=8, construction="paired")
    for stops, fits in (
        ([5, 5, 10, 10], True),  # none, and as many as dimensions
        ([0, 5, 5, 9], True),
        ([0, 6, 6, 10], False),
        ([2, 4, 6, 8], False),
    ):
        assert paired.applies(changed(built, with_stops(built.record, stops)), wide) == fits
    odd = build_memorizer(wide, num_heads=7, construction="paired")
    keys = odd.layer.key_weights.copy()
    keys[6] += 1  # of a head without a partner
    assert paired.applies(changed(odd, key_weights=keys), wide)


def test_a_rank_which_no_weights_have_is_refuted(built):
    memorizer, data = built
    contexts, queries = data.contexts.copy(), data.queries.copy()
    contexts[7], queries[7] = contexts[2, ::-1], queries[2]
    twice = Dataset(contexts, queries, data.targets)
    (claim,) = paired.prove(memorizer, twice, ["rank"], 1e-6, None)
    assert (claim.verdict, claim.witness) == (Verdict.REFUTED, (2, 7))
    error, rank = paired.prove(memorizer, twice, ["error", "rank"], 1e-6, None)
    assert (error.name, rank.verdict) == ("error", Verdict.REFUTED)
    (distance,) = paired.prove(memorizer, twice, ["readout"], 1e-6, None)
    assert distance.verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("asked", [["rank"], ["error"], ["readout"], ["readout", "error"]])
def test_what_is_asked_is_answered_in_its_order(built, asked):
    claims = paired.prove(*built, asked, 1e-6, None)
    assert [claim.name for claim in claims] == asked
    assert {claim.verdict for claim in claims} == {Verdict.PROVED}
