"""The claims which certify judges, one by one: where each verdict begins and ends."""

import base64
import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, arb_mat

from constructive import (
    Dataset,
    SequenceDataset,
    Verdict,
    build_memorizer,
    build_sequence_memorizer,
    certify,
    generators,
    upper_bound_certificate,
)
from constructive.certificates.claims import error, rank, readout
from constructive.exact import modular, verified
from constructive.exact.directed import working_precision
from constructive.layers import extended
from constructive.support.verdict import pack
from constructive.theory import grouping

PROVED, REFUTED, UNDECIDED = Verdict.PROVED, Verdict.REFUTED, Verdict.UNDECIDED


def evaluated(residuals, *, radii=None, readout=1.0, exponents=None, midpoints=None, radius=0.0):
    """An evaluation with balls around these residuals (T, d_out)."""
    residuals = np.atleast_2d(np.array(residuals, dtype=float))
    radii = np.zeros_like(residuals) if radii is None else np.array(radii).reshape(residuals.shape)
    balls = [arb(x, r) for x, r in zip(residuals.ravel(), radii.ravel(), strict=True)]
    exponents = np.zeros(len(residuals), dtype=np.int64) if exponents is None else exponents
    return error.Evaluation(
        100,
        arb_mat(*residuals.shape, balls),
        arb(readout),
        np.array(exponents),
        midpoints,
        radius,
    )


# The error.


@pytest.mark.parametrize("scale", [2.0**-1070, 2.0**-300, 1.0, 2.0**900])
@pytest.mark.parametrize(
    ("worst", "radius", "verdict"),
    [
        (0.5, 0.0, PROVED),
        (-0.5, 0.25, PROVED),
        (0.5, 0.5, UNDECIDED),  # the end of the ball is epsilon
        (0.9, 0.2, UNDECIDED),
        (1.0, 0.0, UNDECIDED),
        (1.0 - 2.0**-29, 0.0, PROVED),
        (1.0 - 2.0**-31, 0.0, UNDECIDED),
        (1.5, 0.25, REFUTED),
        (-1.5, 0.25, REFUTED),
        (1.5, 0.5, UNDECIDED),
        (math.inf, 0.0, UNDECIDED),
        (math.nan, 0.0, UNDECIDED),
    ],
)
def test_errors(worst, radius, verdict, scale):
    if scale < 2.0**-1000 and math.isfinite(worst) and worst % 0.25:
        worst = {True: 0.5, False: 1.5}[verdict is PROVED] if verdict is not UNDECIDED else 1.0
    residuals, radii = np.zeros((5, 1)), np.zeros((5, 1))
    residuals[3], radii[3] = worst * scale, radius * scale
    claim = error.judge(evaluated(residuals, radii=radii), scale)
    assert claim.verdict is verdict
    assert claim.statement == error.STATEMENT.format(scale)
    if verdict is REFUTED:
        assert claim.witness == 3
        shown = Fraction(claim.detail.split()[-3])
        assert scale < shown <= abs(Fraction(worst)) * Fraction(scale)
    if verdict is UNDECIDED:
        assert "at example 3 the enclosure straddles" in claim.detail
    if verdict is PROVED:
        assert claim.evidence == {"bound": scale.hex()}
        shown = Fraction(claim.detail.split("<= ")[1].split()[0])
        assert (abs(Fraction(worst)) + Fraction(radius)) * Fraction(scale) <= shown <= scale


def test_what_refutes_an_error_is_named():
    residuals = np.zeros((4, 3))
    residuals[2, 1] = 7.0
    assert error.judge(evaluated(residuals), 1.0).witness == (2, 1)
    assert error.judge(evaluated(residuals[:, :2]), 1.0).witness == (2, 1)
    residuals[1, 2] = 1.0  # straddles, before what refutes
    assert error.judge(evaluated(residuals), 1.0).witness == (2, 1)
    residuals[2, 1] = 1.0
    assert "at example 1 " in error.judge(evaluated(residuals), 1.0).detail


def test_an_error_of_zero_is_shown_where_nothing_is_rounded():
    for size, verdict in ((0.0, PROVED), (1.0, UNDECIDED)):
        assert error.judge(evaluated(np.zeros((2, 1)), readout=size), 0.0).verdict is verdict
    assert error.judge(evaluated([[5e-324]], readout=0.0), 0.0).verdict is REFUTED


# The readout.


def readout_of(kappa, residual, delta, *, exponents=None, size=1.0):
    """A Z of one row whose right inverse has this norm."""
    found = evaluated(
        [[residual]], exponents=exponents, midpoints=np.array([[1 / kappa]]), readout=size
    )
    return readout.judge(found, delta, lambda: 1 / 0)


@pytest.mark.parametrize("scale", [2.0**-1020, 1e-300, 1.0, 1e300])
def test_distances_are_claimed_with_room(scale):
    """kappa = 4 times a residual, and a quarter more."""
    claim = readout_of(4.0, scale, None)
    assert claim.verdict is PROVED
    shown = float.fromhex(claim.evidence["bound"])
    assert 5 * scale <= shown <= 5.6 * scale
    assert claim.statement == readout.STATEMENT.format(shown)
    for delta, verdict in ((5.01, PROVED), (4.99, UNDECIDED), (3.0, UNDECIDED), (0.0, UNDECIDED)):
        claim = readout_of(4.0, scale, delta * scale)
        assert claim.verdict is verdict
        assert claim.statement == readout.STATEMENT.format(delta * scale)


def test_distances_take_the_scale_of_contexts():
    claim = readout_of(4.0, 1.0, None, exponents=[3])
    assert 5 / 8 <= float.fromhex(claim.evidence["bound"]) <= 5.6 / 8


def test_a_distance_of_zero_is_claimed_as_a_part_of_the_readout():
    claim = readout_of(4.0, 0.0, None, size=2.0)
    assert claim.verdict is PROVED
    assert 0 < float.fromhex(claim.evidence["bound"]) <= 2.0 * 2.0**-99
    assert readout_of(4.0, 0.0, 0.0, size=2.0).verdict is UNDECIDED
    assert readout_of(4.0, 0.0, 0.0, size=0.0).verdict is PROVED


@pytest.mark.parametrize(("radius", "balls"), [(0.0, None), (math.inf, 4.0)])
def test_where_float64_finds_no_inverse_balls_may(radius, balls):
    found = evaluated([[1.0]], midpoints=np.array([[0.25]]), radius=radius, exponents=[1])
    claim = readout.judge(found, None, lambda: arb_mat([[arb(0.5)]]))
    assert claim.verdict is PROVED  # Z is 1/4 when it is scaled, either way
    assert 2.5 <= float.fromhex(claim.evidence["bound"]) <= 2.8
    assert ("balls" in claim.detail) == (balls is not None)


@pytest.mark.parametrize("z", [0.0, math.nan])
def test_where_nobody_finds_an_inverse(monkeypatch, z):
    found = evaluated([[1.0]], midpoints=np.array([[0.0]]))
    for delta in (None, 1e300):
        claim = readout.judge(found, delta, lambda: arb_mat([[arb(z)]]))
        assert claim.verdict is UNDECIDED
        assert claim.statement == readout.UNKNOWN
    monkeypatch.setattr(readout, "LARGEST_IN_BALLS", 0)
    assert readout.judge(found, None, lambda: 1 / 0).verdict is UNDECIDED


def test_a_readout_needs_z():
    with pytest.raises(TypeError, match="did not keep Z"):
        readout.judge(evaluated([[1.0]]), None, lambda: None)


# Evaluation.


@pytest.mark.parametrize(("bits", "most"), [(200, 1e-15), (40, 1e-4)])
@pytest.mark.parametrize("scale", [2.0**-1000, 1.0, 2.0**900])
@pytest.mark.parametrize("shared", [False, True])
def test_what_is_kept_of_z_is_within_its_radius(scale, shared, bits, most):
    """With many bits a midpoint is rounded; with few, it is the middle of a wide ball."""
    make = generators.shared_context if shared else generators.uniform
    data = make(num_examples=7, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=4)
    layer = dataclasses.replace(
        memorizer.layer, query_weights=memorizer.layer.query_weights / scale
    )
    data = Dataset(data.contexts * scale, data.queries, data.targets)
    enclosed, exact = (extended.enclose(layer, prec) for prec in (bits, 300))
    found = error.evaluate(enclosed, data, representation=True)
    largest = np.abs(np.broadcast_to(data.contexts, (7, 3, 5))).max(axis=(1, 2))
    assert (largest < 2.0**found.exponents).all()
    assert (largest >= 2.0 ** (found.exponents - 1)).all()
    assert found.radius < most
    with working_precision(300):
        for row in exact(data):
            power = arb(2) ** -int(found.exponents[row.example])
            for x, kept in zip(
                row.representation.entries(), found.midpoints[row.example], strict=True
            ):
                assert abs(x * power - arb(float(kept))) <= found.radius
            truth = row.output[0, 0] - arb(float(data.targets[row.example]))
            assert found.residuals[row.example, 0].overlaps(truth)
            middle = abs(truth.mid())
            assert middle <= found.largest_residual
            assert middle * power <= found.largest_scaled_residual
        assert largest_of(enclosed.readout) <= found.readout
    without = error.evaluate(enclosed, data, representation=False)
    assert without.midpoints is None


def largest_of(matrix):
    return max(abs(x) for x in matrix.entries())


# A right inverse in float64.


@pytest.mark.parametrize("shape", [(1, 1), (2, 4), (5, 9)])
def test_right_inverses_are_bounded_from_above(shape):
    z = np.random.default_rng(1).standard_normal(shape)
    truth = np.abs(np.linalg.pinv(z)).sum(axis=1).max()
    found = verified.right_inverse_bound(z, 0.0)
    assert truth * (1 - 1e-9) <= found <= truth * (1 + 1e-6)


def test_errors_of_z_count():
    z = np.eye(2, 4)
    for error_of_z in (1 / 64, 1 / 24):
        found = verified.right_inverse_bound(z, error_of_z)
        assert 1 / (1 - 2 * error_of_z) <= found <= 1.001 / (1 - 2 * error_of_z)
    assert verified.right_inverse_bound(z, 1 / 16) == math.inf
    assert verified.right_inverse_bound(z, math.inf) == math.inf
    assert verified.right_inverse_bound(z, math.nan) == math.inf


def test_rounding_counts(monkeypatch):
    monkeypatch.setattr(verified, "gamma", lambda terms: 1e-3 * terms)
    least = 1 / (1 - 2 * 6e-3)
    assert least <= verified.right_inverse_bound(np.eye(2, 4), 0.0) <= least * (1 + 1e-6)


def test_newtons_iteration_mends_what_is_near(monkeypatch):
    z = np.random.default_rng(1).standard_normal((4, 6))
    exact = np.linalg.pinv(z)
    truth = np.abs(exact).sum(axis=1).max()
    near = np.random.default_rng(2).standard_normal((6, 4))
    for size, works in ((0.02, True), (30.0, False)):
        off = exact + near * size / np.abs(z @ near).sum(axis=1).max() * 10
        monkeypatch.setattr(verified, "_approximate_right_inverse", lambda _, off=off: off)
        found = verified.right_inverse_bound(z, 0.0)
        assert (found < 1.5 * truth) == works
        assert works or found == math.inf


def test_more_terms_than_bounds_cover(monkeypatch):
    monkeypatch.setattr(verified, "LONGEST", 3)
    assert verified.right_inverse_bound(np.eye(2, 4), 0.0) == math.inf
    assert verified.right_inverse_bound(np.eye(2, 3), 0.0) < 1.01


# Groups.


def data_of(contexts, queries):
    return Dataset(np.array(contexts, dtype=float), np.array(queries, dtype=float), np.zeros(4))


QUERIES = [[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]
GROUPS = ((0, 2), (2, 2), (2, 4))


FULL = np.stack([np.eye(3)] * 4)


def grouped(contexts=FULL, queries=QUERIES, groups=GROUPS):
    return grouping.prove(data_of(contexts, queries), groups, np.random.default_rng(0))


def test_groups_which_are_as_they_should_be():
    claim = grouped()
    assert claim.verdict is PROVED
    assert claim.evidence["groups"] == [[0, 2], [2, 2], [2, 4]]
    prime = claim.evidence["prime"]
    assert pack(np.zeros((3, 3))) != claim.evidence["normals"]
    normals = np.frombuffer(base64.b64decode(claim.evidence["normals"]), "<u4")
    products = np.array(QUERIES).astype(np.int64) @ normals.reshape(3, 3)[2].astype(np.int64)
    assert ((products % prime) == 0).tolist() == [False, False, True, True]
    assert "rank n = 3; the queries of each of 3 groups" in claim.statement
    assert grouped(queries=[*QUERIES[:3], [1, 1, 1.0]]).verdict is PROVED  # of the first head


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (((0, 2), (2, 3)), "cover 3 of 4"),
        (((0, 2), (3, 4)), "the groups cover"),
        (((1, 2), (2, 4)), "the groups cover"),
        (((0, 2), (2, 5)), "cover 5 of 4"),
        (((0, 1), (1, 4)), "the group of head 1 has 3"),
        (((0, 4),), "the group of head 0 has 4"),
    ],
)
def test_groups_of_other_data_are_not_decided(groups, words):
    claim = grouped(groups=groups)
    assert claim.verdict is UNDECIDED
    assert words in claim.detail


def test_groups_as_large_as_they_may_be():
    queries = [*np.eye(3), [1.0, 2, 3]]
    assert grouped(queries=queries, groups=((0, 3), (3, 4))).verdict is PROVED
    one = np.ones((4, 1, 3))
    each = tuple((k, k + 1) for k in range(4))
    assert grouped(contexts=one, groups=each).verdict is PROVED
    assert grouped(contexts=one, groups=((0, 2), (2, 3), (3, 4))).verdict is UNDECIDED


@pytest.mark.parametrize("place", range(4))
def test_contexts_of_less_rank_are_refuted(place):
    contexts = FULL.copy()
    contexts[place, 2] = contexts[place, 0] - contexts[place, 1]
    claim = grouped(contexts)
    assert (claim.verdict, claim.witness) == (REFUTED, place)
    assert f"context of example {place} has rank 2" in claim.detail
    wide = grouped(np.ones((4, 4, 3)))
    assert (wide.verdict, wide.witness) == (REFUTED, 4)


def test_contexts_are_looked_at_in_every_piece(monkeypatch):
    walk = Dataset.context_chunks
    monkeypatch.setattr(Dataset, "context_chunks", lambda self: walk(self, chunk_bytes=1))
    assert len(list(data_of(FULL, QUERIES).context_chunks())) == 4
    for place in range(4):
        contexts = FULL.copy()
        contexts[place, 2] = contexts[place, 0]
        assert grouped(contexts).witness == place
    assert grouped().verdict is PROVED


def test_ranks_which_are_missed_by_chance_are_looked_for_again(monkeypatch):
    calls, looks = [], modular.full_row_rank

    def unlucky(*given):
        calls.append(given)
        found = looks(*given)
        return found if len(calls) > 3 else found & (np.arange(len(found)) > 0)

    monkeypatch.setattr(modular, "full_row_rank", unlucky)
    monkeypatch.setattr(grouping.dyadic, "rank", lambda _: 1 / 0)
    assert grouped().verdict is PROVED
    assert [len(residues) for residues, *_ in calls] == [4, 1, 1, 1]


def test_a_group_which_spans_everything_has_the_others_in_it():
    data = Dataset(np.ones((2, 1, 1)), np.array([[1.0], [2.0]]), np.zeros(2))
    claim = grouping.prove(data, ((0, 1), (1, 2)), np.random.default_rng(0))
    assert (claim.verdict, claim.witness) == (REFUTED, (0, (1, 2)))


def test_groups_which_are_dependent_are_refuted():
    claim = grouped(queries=[*QUERIES[:3], [0, 0, -2.0]])
    assert (claim.verdict, claim.witness) == (REFUTED, (2, 3))
    claim = grouped(queries=[[1.0, 0, 0], [2, 0, 0], *QUERIES[2:]])
    assert (claim.verdict, claim.witness) == (REFUTED, (0, 1))


def test_queries_in_the_span_of_others_are_refuted():
    queries = [[1.0, 0, 0], [0, 0, 5], [0, 0, 1], [1, 1, 0]]
    claim = grouped(queries=queries)
    assert (claim.verdict, claim.witness) == (REFUTED, (1, (2, 4)))
    first = [[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
    assert grouped(queries=first, groups=((0, 2), (2, 3), (3, 4))).verdict is REFUTED


def test_what_a_prime_does_not_show_is_not_refuted():
    prime = next(modular.safe_primes())
    contexts = FULL.copy()
    contexts[1, 1, 1] = prime
    claim = grouped(contexts)
    assert claim.verdict is UNDECIDED
    assert "not modulo p" in claim.detail
    claim = grouped(queries=[*QUERIES[:3], [0, prime, 1.0]])
    assert claim.verdict is UNDECIDED
    claim = grouped(queries=[[1.0, prime, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]],
                    groups=((0, 2), (2, 3), (3, 4)))  # fmt: skip
    assert (claim.verdict, "modulo p only" in claim.detail) == (UNDECIDED, True)


# Too many examples.


@pytest.mark.parametrize(
    ("total", "heads", "size", "shared", "refuted"),
    [(7, 3, 3, True, None), (8, 3, 3, True, 7), (9, 3, 3, False, None), (4, 1, 3, True, 3)],
)
def test_ranks_which_no_weights_have(total, heads, size, shared, refuted):
    make = generators.shared_context if shared else generators.uniform
    data = make(num_examples=total, context_size=size, width=5)
    built = build_memorizer(make(num_examples=3, context_size=size, width=5), num_heads=heads)
    found = rank.refute(built.layer, data)
    assert (found[1] if found else None) == refuted


def test_more_examples_than_columns_and_twice_the_same():
    data = generators.uniform(num_examples=16, context_size=3, width=5)
    layer = build_memorizer(data.take(range(7)), num_heads=3).layer
    assert rank.refute(layer, data)[1] == 15
    assert rank.refute(layer, data.take(range(15))) is None
    detail, witness = rank.refute(layer, data.take([0, 1, 2, 1]))
    assert witness == (1, 3)
    assert "two rows of Z are equal" in detail
    one = generators.uniform(num_examples=6, context_size=1, width=5)
    assert rank.refute(layer, one)[1] == 5
    assert rank.refute(layer, one.take(range(5))) is None


def proved_of(data, heads):
    return upper_bound_certificate(data, heads)["impossible"]


@pytest.mark.parametrize(("heads", "verdict"), [(1, PROVED), (3, PROVED), (4, UNDECIDED)])
def test_more_examples_than_possible(heads, verdict):
    """Three tokens: counting them is the proof."""
    data = generators.shared_context(num_examples=8, context_size=3, width=5)
    claim = proved_of(data, heads)
    assert claim.verdict is verdict
    if verdict is UNDECIDED:
        assert claim.statement == "no weights of H = 4 heads memorize every labelling"
        assert claim.detail == "contexts allow all 8 different inputs, for almost all queries"
        assert claim.evidence == {}
        return
    assert claim.statement == (
        f"for all weights of H = {heads} heads rank Z <= {2 * heads + 1} on 8 different examples: "
        "none memorize every labelling"
    )
    assert "|J| = 8 examples of J have tokens of k_J = 3 and differences of delta_J = 2" in (
        claim.detail
    )
    assert claim.evidence == {
        "heads": heads,
        "count": 8,
        "examples": pack(range(8)),
        "vectors": [],
        "pivots": [],
        "zeros": 0,
    }


# Sequences.


def test_sizes_of_sequences():
    sequences, labels = [[i * i % 97, i] for i in range(30)], [i % 5 for i in range(30)]
    memorizer = build_sequence_memorizer(sequences, labels)
    dataset = SequenceDataset.of(sequences, labels)
    claim = certify(memorizer, dataset)["size"]
    assert claim.verdict is PROVED
    assert claim.evidence["keys"] == 30
    assert claim.evidence["label_bits"] == 3
    assert claim.evidence["width"] == 1
    other = SequenceDataset.of(sequences, [label + 100 * (label == 4) for label in labels])
    wide = certify(memorizer, other)
    assert wide["size"].evidence["label_bits"] == 7
    assert wide["equality"].verdict is REFUTED
    assert wide["equality"].witness == 4
    for name in ("token_bits", "residue_bits", "sum_bits", "key_bits", "kept", "weight_bits"):
        sizes = dataclasses.replace(memorizer.record.sizes, **{name: 10**6})
        record = dataclasses.replace(memorizer.record, sizes=sizes)
        claim = certify(dataclasses.replace(memorizer, record=record), dataset)["size"]
        assert claim.verdict is UNDECIDED
        assert f"{name} = 1000000 of the record" in claim.detail
