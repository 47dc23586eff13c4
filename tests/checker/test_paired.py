"""Certificates of paired heads, and the second island, which checks them."""

import dataclasses
from fractions import Fraction

import flint
import numpy as np
import oracle
import pytest
from checker_parts import altered, said, saved, signed, small_pairs

from constructive import (
    Dataset,
    Memorizer,
    Verdict,
    build_memorizer,
    certify,
    check,
    generators,
)
from constructive.certificates.claims import layers as claims
from constructive.layers.record import TrainedRecord
from constructive.support.verdict import pack


def with_weights(memorizer, **weights):
    layer = dataclasses.replace(memorizer.layer, **weights)
    return Memorizer(layer, memorizer.record)


def about_of(memorizer, data):
    """The layer as the checker has it, in the order on record."""
    return claims.paired_layer(memorizer, data, claims.order_of(memorizer, data))


def applies(memorizer, data):
    """Whether certify proposes that these are paired heads."""
    order = claims.order_of(memorizer, data)
    return order is not None and claims.paired_layer(memorizer, data, order) is not None


@pytest.fixture
def no_matrix(monkeypatch):
    """Certify has no other proof than that of pairs."""
    monkeypatch.setattr(claims, "_LARGEST_DENSE", 0)


# What is evaluated with bounds, against many digits.


def test_entries_and_errors_are_within_their_bounds(checker, paired):
    data, memorizer, _, _ = paired
    about = about_of(memorizer, data)
    scan, coupled = about.scanned()
    where, which = coupled[:2]
    assert len(where)
    layer, owner = scan.layer, scan.layer.owner
    distances, errors = checker.paired.residuals(scan, coupled)
    most, least = checker.paired.InFloats(distances, errors, None, None).sides()
    read = {(t, p) for t, p in enumerate(owner)} | set(zip(where, which, strict=True))
    arrays = {"contexts": data.contexts, "queries": data.queries}
    f = oracle.outputs(memorizer.layer.tensors, arrays)
    with flint.ctx.workprec(oracle.PREC):
        of_f, of_z = flint.arb(2) ** -layer.c, flint.arb(2) ** -layer.a
        z_all = list(oracle.representations(memorizer.layer.tensors, arrays))
        for position, example in enumerate(layer.order):
            z, output = z_all[example], f[example][0]
            true = abs(output - float(data.targets[example])) * of_f
            assert abs(true - float(distances[position, 0])) <= float(errors[position, 0])
            assert float(least[position, 0]) <= true
            assert true <= float(most[position, 0])
            for pair in range(6):
                x = [apart * of_z for apart in (z[2 * pair] - z[2 * pair + 1]).entries()]
                if (position, pair) not in read:
                    assert all(abs(entry) <= float(scan.tail[position]) for entry in x)
                elif pair == owner[position] if position < len(owner) else False:
                    own, off = (part[position].tolist() for part in scan.own)
                    assert all(abs(a - b) <= off for a, b in zip(x, own, strict=True))
    assert float(errors.max()) < 1e-8  # and they are not excuse


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


@pytest.mark.parametrize(
    ("first", "stops", "words"),
    [
        (None, None, None),
        (1, None, "order is not an order"),  # the second example twice
        (None, [12, 22, 32, 42, 52, 59], "all examples but one"),
        (None, [12, 22, 21, 42, 52, 60], "all examples but one"),
        (None, [12, 22, 32, 42, 52, 62], "packed integers"),
    ],
)
def test_orders_which_are_none(checker, paired, first, stops, words):
    _, memorizer, _, _ = paired
    record, about = memorizer.record, about_of(memorizer, paired[0])
    order = [record.order[0 if first is None else first], *record.order[1:]]
    stops = [head.stop for head in record.heads[1::2]] if stops is None else stops
    evidence = {"order": pack(order), "stops": pack(stops)}
    found = checker.verify.verify("rank", evidence, about)
    assert found.verdict == ("UNDECIDED" if words else "PROVED")
    assert (words or "contraction") in found.detail


@pytest.mark.parametrize("equal", [False, True])
def test_a_rank_is_judged_in_its_order_after_an_error(checker, paired, tmp_path, equal):
    """The error needs no blocks, so that what was found for it shows no rank."""
    data, memorizer, certificate, _ = paired
    if equal:  # the heads of a pair, whose difference is zero
        queries = memorizer.layer.query_weights[[0, 1, 2, 3, 4, 4, *range(6, 12)]]
        memorizer = with_weights(memorizer, query_weights=queries)
    certificate = altered(certificate, "error", statement=f"max |f(E_t, e_t) - y_t| <= {1e9!r}",
                          evidence={"bound": (1e9).hex()})  # fmt: skip
    certificate = dataclasses.replace(certificate, claims=certificate.claims[::-1])
    files = saved(tmp_path, memorizer, data, signed(certificate, memorizer, data))
    status, printed = said(checker, files)
    assert status == equal, printed
    assert not equal or "rank: " in printed


def test_coupling_in_a_circle_is_proved_by_elimination(paired, monkeypatch):
    """Unless there are too many examples for that."""
    data, memorizer, *_ = paired
    weak = with_weights(memorizer, query_weights=memorizer.layer.query_weights * 1e-5)
    assert "modulo" in certify(weak, data, claims=["rank"])["rank"].detail
    monkeypatch.setattr(claims, "_LARGEST_DENSE", 60)
    assert certify(weak, data, claims=["rank"])["rank"].verdict is Verdict.UNDECIDED


def test_lengths_that_are_all_n_say_nothing(tmp_path):
    data = generators.uniform(num_examples=7, context_size=3, width=6)
    memorizer, file = build_memorizer(data, num_heads=4, construction="paired"), tmp_path / "d.npz"
    certificate = certify(memorizer, data)
    for lengths, proved in ((np.full(7, 3), True), (np.arange(7) % 3 + 1, False)):
        np.savez(
            file,
            contexts=data.contexts,
            queries=data.queries,
            targets=data.targets,
            lengths=lengths,
        )
        assert check(certificate, memorizer, file).proved is proved


def test_errors_of_targets_near_the_largest_float_are_proved_in_digits():
    data = generators.uniform(num_examples=7, context_size=3, width=6)
    memorizer = build_memorizer(data, num_heads=4, construction="paired")
    largest = np.finfo(float).max
    far = Dataset(data.contexts, data.queries, np.full(7, largest))
    claims = certify(memorizer, far, claims=["rank", "error"], epsilon=largest).claims
    assert [claim.verdict.name for claim in claims] == ["PROVED", "PROVED"]


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


def found_of(checker, monkeypatch, built, distances, error, epsilon, exponent=0):
    """The claim *error* where the checker finds these distances, all off by `error`."""
    about = about_of(*built)
    about.shapes = (*about.shapes[:3], distances.shape[1], *about.shapes[4:])
    scan, _ = about.scanned()
    about.order = np.roll(about.order, 1)  # another one than that of the data
    scan.layer.c, scan.layer.targets = exponent, distances
    found = distances, np.full(distances.shape, error)
    monkeypatch.setattr(checker.paired, "residuals", lambda *_: found)
    return checker.verify.verify("error", {"bound": epsilon.hex()}, about), about.order


@pytest.mark.parametrize("exponent", [-1060, 0, 900])
@pytest.mark.parametrize(
    ("worst", "slack", "verdict"),
    [
        (0.89, 0.1, "PROVED"),
        (0.91, 0.1, "UNDECIDED"),
        (1.05, 0.1, "UNDECIDED"),
        (1.11, 0.1, "REFUTED"),
        (1.0 - 2.0**-28, 0.0, "PROVED"),
        (1.0 + 2.0**-52, 0.0, "UNDECIDED"),
        (np.nan, 0.0, "UNDECIDED"),
        (2.0, np.inf, "UNDECIDED"),
    ],
)
def test_errors_are_compared_on_both_sides(
    checker, monkeypatch, built, worst, slack, verdict, exponent
):
    """At their scale, and with the example and the output that are to blame."""
    distances = np.zeros((13, 3))
    distances[4, 1] = worst
    found, order = found_of(checker, monkeypatch, built, distances, slack, 2.0**exponent, exponent)
    assert found.verdict == verdict
    assert found.witness == ((order[4], 1) if verdict == "REFUTED" else None)


@pytest.mark.parametrize("exponent", [-400, -3, 0, 5])
def test_what_is_said_of_other_entries_is_a_bound(built, exponent):
    """Of data at any scale, with heads that make the same logits of them."""
    memorizer, data = built
    scaled = changed(memorizer, query_weights=memorizer.layer.query_weights * 2.0**-exponent)
    data = Dataset(data.contexts * 2.0**exponent, data.queries, data.targets)
    about = about_of(scaled, data)
    shown = Fraction(about.contraction().split("others below ")[1].split(";")[0])
    tail = (
        Fraction(float(about.scanned()[0].tail.max())) * Fraction(2) ** about.scanned()[0].layer.a
    )
    assert tail <= shown <= tail * Fraction(11, 10)
    assert tail < Fraction(2) ** exponent / 10**15


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
    assert applies(memorizer, data)
    order = list(record.order)
    stops = [head.stop for head in record.heads[1::2]]
    assert stops[-1] == 12
    assert applies(changed(memorizer, with_stops(record, [*stops[:3], 13])), data)
    wide = np.concatenate([layer.query_weights, 0 * layer.query_weights], axis=2)
    keys = np.concatenate([layer.key_weights, 0 * layer.key_weights], axis=2)
    assert applies(changed(memorizer, query_weights=wide, key_weights=keys), data)
    assert applies(changed(memorizer, {"construction": "rank_one"}), data)  # by its weights
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
        assert not applies(other, data)
    assert not applies(
        Memorizer(layer, TrainedRecord("L", scalar_targets=True, constant=False)), data
    )
    exact = build_memorizer(data.take(range(5)), num_heads=4, precision=150)
    assert not applies(Memorizer(exact.layer, record), data)
    assert not applies(memorizer, data.take(range(12)))
    assert not applies(memorizer, Dataset(data.contexts[0], data.queries, data.targets))
    one = Dataset(data.contexts[:, :1], data.queries, data.targets)
    assert not applies(memorizer, one)


def test_a_head_without_a_partner_may_have_another_key():
    data = generators.gaussian(num_examples=10, context_size=2, width=5, seed=3)
    odd = build_memorizer(data, num_heads=7, construction="paired")
    keys = odd.layer.key_weights.copy()
    keys[6] += 1
    assert applies(changed(odd, key_weights=keys), data)


@pytest.mark.usefixtures("no_matrix")
def test_a_rank_which_no_weights_have_is_refuted(built, tmp_path):
    memorizer, data = built
    contexts, queries = data.contexts.copy(), data.queries.copy()
    contexts[7], queries[7] = contexts[2, ::-1], queries[2]
    in_memory = Dataset(contexts, queries, data.targets)
    in_memory.save_folder(tmp_path / "data")
    for twice in (in_memory, Dataset.open(tmp_path / "data")):
        certificate = certify(memorizer, twice)
        assert certificate.format == "constructive paired certificate 1"
        rank = certificate["rank"]
        assert (rank.verdict, rank.witness) == (Verdict.REFUTED, (2, 7))
        assert certificate["error"].verdict is Verdict.REFUTED


@pytest.mark.parametrize("asked", [["rank"], ["error"], ["error", "rank"]])
def test_what_is_asked_is_answered_in_the_order_of_certificates(built, asked):
    found = certify(*built, claims=asked)
    assert [claim.name for claim in found.claims] == sorted(asked, reverse=True)
    assert found.verdict is Verdict.PROVED
    if "rank" in asked:
        order, stops = built[0].record.order, [head.stop for head in built[0].record.heads[1::2]]
        assert found["rank"].evidence == {"order": pack(order), "stops": pack(stops)}
