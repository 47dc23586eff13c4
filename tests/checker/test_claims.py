"""The claims which certify judges, one by one: where each verdict begins and ends."""

import base64
import dataclasses
import json
import math
from fractions import Fraction

import flint
import numpy as np
import pytest
from flint import arb, arb_mat

from constructive import (
    AttentionLayer,
    Certificate,
    Claim,
    DataError,
    Dataset,
    FormatError,
    Memorizer,
    ParameterError,
    SequenceDataset,
    Verdict,
    build_memorizer,
    build_sequence_memorizer,
    certify,
    check,
    generators,
)
from constructive.certificates.claims import outputs, rank
from constructive.certificates.claims.kind import CertifyOptions
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
    return outputs.Evaluation(
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
    claim = outputs.judge_error(evaluated(residuals, radii=radii), scale)
    assert claim.verdict is verdict
    assert claim.statement == outputs.ERROR.statement.format(scale)
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


def test_an_error_of_zero_is_shown_where_nothing_is_rounded():
    for size, verdict in ((0.0, PROVED), (1.0, UNDECIDED)):
        assert (
            outputs.judge_error(evaluated(np.zeros((2, 1)), readout=size), 0.0).verdict is verdict
        )
    assert outputs.judge_error(evaluated([[5e-324]], readout=0.0), 0.0).verdict is REFUTED


# The readout.


def readout_of(kappa, residual, delta, *, exponents=None, size=1.0):
    """A Z of one row whose right inverse has this norm."""
    found = evaluated(
        [[residual]], exponents=exponents, midpoints=np.array([[1 / kappa]]), readout=size
    )
    return outputs.judge_readout(found, delta, lambda: 1 / 0)


@pytest.mark.parametrize("scale", [2.0**-1020, 1e-300, 1.0, 1e300])
def test_distances_are_claimed_with_room(scale):
    """kappa = 4 times a residual, and a quarter more."""
    claim = readout_of(4.0, scale, None)
    assert claim.verdict is PROVED
    shown = float.fromhex(claim.evidence["bound"])
    assert 5 * scale <= shown <= 5.6 * scale
    assert claim.statement == outputs.READOUT.statement.format(shown)
    for delta, verdict in ((5.01, PROVED), (4.99, UNDECIDED), (3.0, UNDECIDED), (0.0, UNDECIDED)):
        claim = readout_of(4.0, scale, delta * scale)
        assert claim.verdict is verdict
        assert claim.statement == outputs.READOUT.statement.format(delta * scale)


def test_a_distance_of_zero_is_claimed_as_a_part_of_the_readout():
    claim = readout_of(4.0, 0.0, None, size=2.0)
    assert claim.verdict is PROVED
    assert 0 < float.fromhex(claim.evidence["bound"]) <= 2.0 * 2.0**-99
    assert readout_of(4.0, 0.0, 0.0, size=2.0).verdict is UNDECIDED
    assert readout_of(4.0, 0.0, 0.0, size=0.0).verdict is PROVED


@pytest.mark.parametrize(("radius", "balls"), [(0.0, None), (math.inf, 4.0)])
def test_where_float64_finds_no_inverse_balls_may(radius, balls):
    found = evaluated([[1.0]], midpoints=np.array([[0.25]]), radius=radius, exponents=[1])
    claim = outputs.judge_readout(found, None, lambda: arb_mat([[arb(0.5)]]))
    assert claim.verdict is PROVED  # Z is 1/4 when it is scaled, either way
    assert 2.5 <= float.fromhex(claim.evidence["bound"]) <= 2.8
    assert ("balls" in claim.detail) == (balls is not None)


@pytest.mark.parametrize("z", [0.0, math.nan])
def test_where_nobody_finds_an_inverse(monkeypatch, z):
    found = evaluated([[1.0]], midpoints=np.array([[0.0]]))
    for delta in (None, 1e300):
        claim = outputs.judge_readout(found, delta, lambda: arb_mat([[arb(z)]]))
        assert claim.verdict is UNDECIDED
        assert claim.statement == outputs.UNKNOWN
    monkeypatch.setattr(outputs, "LARGEST_IN_BALLS", 0)
    assert outputs.judge_readout(found, None, lambda: 1 / 0).verdict is UNDECIDED


def test_a_readout_needs_z():
    with pytest.raises(TypeError, match="did not keep Z"):
        outputs.judge_readout(evaluated([[1.0]]), None, lambda: None)


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
    found = outputs.evaluate(enclosed, data, representation=True)
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
    without = outputs.evaluate(enclosed, data, representation=False)
    assert without.midpoints is None


def largest_of(matrix):
    return max(abs(x) for x in matrix.entries())


# A right inverse in float64.


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


def with_row(place, row):
    """Contexts of which one has another last row."""
    contexts = FULL.copy()
    contexts[place, 2] = row
    return {"contexts": contexts}


def with_queries(*queries, groups=GROUPS):
    return {"queries": [*queries, *QUERIES[len(queries) :]], "groups": groups}


P = next(modular.safe_primes())
X, Y, Z = QUERIES[:3]
APART = ((0, 2), (2, 3), (3, 4))
ALL_THREE = ((0, 3), (3, 4))
GROUPED = {
    "all is well": ({}, PROVED, None, ""),
    "the last query is also of the first group's span": (
        with_queries(X, Y, Z, [1, 1, 1.0]), PROVED, None, "",
    ),
    "as many as there are dimensions": (
        with_queries(X, Y, Z, [1.0, 2, 3], groups=ALL_THREE), PROVED, None, "",
    ),
    "an example is left over": ({"groups": ((0, 2), (2, 3))}, UNDECIDED, None, "cover 3 of 4"),
    "a gap": ({"groups": ((0, 2), (3, 4))}, UNDECIDED, None, "the groups cover"),
    "the first is left out": ({"groups": ((1, 2), (2, 4))}, UNDECIDED, None, "the groups cover"),
    "one too many": ({"groups": ((0, 2), (2, 5))}, UNDECIDED, None, "cover 5 of 4"),
    "three of two": ({"groups": ((0, 1), (1, 4))}, UNDECIDED, None, "the group of head 1 has 3"),
    "all in one": ({"groups": ((0, 4),)}, UNDECIDED, None, "the group of head 0 has 4"),
    **{f"rank 2 at {t}": (with_row(t, [1.0, -1, 0]), REFUTED, t, f"example {t} has rank 2")
       for t in range(4)},
    "more tokens than their width": ({"contexts": np.ones((4, 4, 3))}, REFUTED, 4, ""),
    "rank 2 modulo p": (with_row(1, [0, 0, P]), UNDECIDED, None, "not modulo p"),
    "parallel queries": (with_queries(X, Y, Z, [0, 0, -2.0]), REFUTED, (2, 3), ""),
    "parallel at first": (with_queries(X, [2.0, 0, 0]), REFUTED, (0, 1), ""),
    "the span of others": (with_queries(X, [0, 0, 5.0]), REFUTED, (1, (2, 4)), ""),
    "of those before": (with_queries(X, Y, Z, Z, groups=APART), REFUTED, None, ""),
    "parallel modulo p": (with_queries(X, Y, Z, [0, P, 1.0]), UNDECIDED, None, ""),
    "in a span modulo p": (
        with_queries([1.0, P, 0], Y, X, Z, groups=APART), UNDECIDED, None, "modulo p only",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPED)
def test_groups(name):
    given, verdict, witness, words = GROUPED[name]
    claim = grouped(**given)
    assert claim.verdict is verdict
    assert witness is None or claim.witness == witness
    assert words in claim.detail


def test_ranks_which_are_missed_by_chance_are_looked_for_again(monkeypatch):
    looks = modular.full_row_rank

    def unlucky(*given):
        found = looks(*given)
        return found & (np.arange(len(found)) > 0)

    monkeypatch.setattr(modular, "full_row_rank", unlucky)
    monkeypatch.setattr(grouping.dyadic, "rank", lambda _: 1 / 0)
    assert grouped().verdict is PROVED


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


# What is certified, and what must not be.


def verdicts(certificate):
    return {claim.name: claim.verdict.name for claim in certificate.claims}


@pytest.mark.parametrize("size", [16, 32])
def test_rank_where_float64_sees_a_singular_matrix(size):
    count = 20 * (size - 1) + 1
    data = generators.shared_context(num_examples=count, context_size=size, width=64)
    memorizer = build_memorizer(data, num_heads=20, construction="rank_one", tolerance=1e99)
    if size == 32:
        z = memorizer.layer.intermediate(data.contexts, data.queries)
        assert np.linalg.matrix_rank(z) < count
    claim = certify(memorizer, data, claims=["rank"])["rank"]
    assert (claim.verdict, claim.evidence["prime"]) == (Verdict.PROVED, 4194287)
    single = certify(memorizer.astype(np.float32), data, claims=["rank"])["rank"]
    assert single.verdict is Verdict.PROVED


# What must not be certified.


def test_one_example_beyond_the_bound_of_a_shared_context():
    data = generators.shared_context(num_examples=8, context_size=3, width=5)
    memorizer = build_memorizer(data.take(range(7)), num_heads=3)
    certificate = certify(memorizer, data)
    assert verdicts(certificate)["rank"] == "REFUTED"
    assert certificate["rank"].witness == 7
    assert "H(n - 1) + 1 = 7 < 8" in certificate["rank"].detail
    assert "readout" not in [c.name for c in certificate.claims if c.verdict is Verdict.PROVED]
    assert certificate.verdict is Verdict.REFUTED


def test_duplicated_examples_with_different_targets(proved):
    data, memorizer, *_ = proved
    twice = Dataset(data.contexts[[0, 1, 1]], data.queries[[0, 1, 1]], [0.0, 1.0, 2.0])
    certificate = certify(memorizer, twice)
    assert verdicts(certificate)["rank"] == verdicts(certificate)["error"] == "REFUTED"
    assert certificate["rank"].witness == (1, 2)


def test_the_least_error_decides(proved):
    data, memorizer, *_ = proved
    # A residual of known size: at example 3 the target is moved by 2^-20 times itself.
    targets = data.targets.copy()
    targets[3] += 2.0**-20
    moved = Dataset(data.contexts, data.queries, targets)
    for epsilon, verdict in ((2.0**-20 * 1.001, "PROVED"), (2.0**-20 * 0.999, "REFUTED")):
        claim = certify(memorizer, moved, claims=["error"], epsilon=epsilon)["error"]
        assert claim.verdict.name == verdict
    assert claim.witness == 3


def uniform_attention(contexts, targets):
    """One head of zero weights, so that Z has the mean tokens as its rows, exactly."""
    contexts = np.asarray(contexts, dtype=float)
    width = contexts.shape[-1]
    layer = AttentionLayer.from_effective_readout(
        np.zeros((1, width, 1)), np.zeros((1, width, 1)), np.zeros((width, 1))
    )
    data = Dataset(contexts, np.eye(len(contexts), width), targets)
    template = build_memorizer(
        generators.uniform(num_examples=1, context_size=1, width=2), num_heads=1
    )
    return Memorizer(layer, template.record), data


def test_what_the_last_bit_decides():
    # The last row is a combination of the others, or off by one bit: only exact numbers can tell.
    rng = np.random.default_rng(0)
    for _ in range(40):
        rows = rng.integers(-9, 10, size=(2, 3)).astype(float)
        combination = rng.integers(-3, 4, size=2) * 2.0 ** rng.integers(-30, 30, size=2)
        last = combination @ rows
        if rng.random() < 0.5:
            last[0] = np.nextafter(last[0], np.inf)
        matrix = np.vstack([rows, last])
        memorizer, data = uniform_attention(matrix[:, None, :], [1.0, 2.0, 3.0])
        scaled = flint.fmpq_mat(
            3, 3, [flint.fmpq(*x.as_integer_ratio()) for x in matrix.ravel().tolist()]
        )
        claim = certify(memorizer, data, claims=["rank"])["rank"]
        assert (claim.verdict is Verdict.PROVED) == (scaled.rank() == 3)


# The object.


def test_what_has_a_verdict_is_no_boolean(proved):
    data, memorizer, certificate, _ = proved
    said = check(certificate, memorizer, data)
    assert certificate.proved is certificate["rank"].proved is said.proved is True
    refuted = certify(memorizer, data, claims=["error"], epsilon=1e-300)
    assert refuted.proved is refuted["error"].proved is False
    for thing in (Verdict.PROVED, certificate, certificate["rank"], said, refuted):
        with pytest.raises(TypeError, match="three values"):
            bool(thing)


def test_verdicts_of_several_claims():
    for first in Verdict:
        for second in Verdict:
            both = Verdict.all_of([first, second])
            assert (both is Verdict.PROVED) == (first is second is Verdict.PROVED)
            assert (both is Verdict.REFUTED) == (Verdict.REFUTED in (first, second))
    assert Verdict.all_of([]) is Verdict.UNDECIDED


BOUNDS = (-1.0, float("nan"), float("inf"), 10**400, 10**9999, "1e-9", True, np.array([1e-6] * 2))


@pytest.mark.parametrize(
    ("option", "words"),
    [
        *(({name: value}, "bound") for name in ("epsilon", "delta") for value in BOUNDS),
        *(({"claims": claims}, "claims") for claims in ([], ["proof"], ["rank", "ranks"], 5)),
        *(({"max_prec": value}, "positive integer") for value in (np.array([64, 64]), 0, 64.0)),
        ({"max_prec": 1}, "less than balls"),
        *(({"seed": value}, "non-negative integer") for value in (np.array([1, 2]), -1)),
        ({"model": "float8", "claims": "executed"}, "model"),
        ({"model": "float32, scaled"}, "executed"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else given,
)
def test_refused_options(proved, option, words):
    data, memorizer, *_ = proved
    with pytest.raises(ParameterError, match=words):
        certify(memorizer, data, **option)


def test_data_which_do_not_fit(proved):
    data, memorizer, *_ = proved
    wide = Dataset(data.contexts, data.queries, np.zeros((7, 2)))
    with pytest.raises(DataError, match="d_out=2"):
        certify(memorizer, wide)
    with pytest.raises(DataError, match="do not fit"):
        certify(memorizer, Dataset(data.contexts[:, :, :4], data.queries[:, :4], data.targets))


def test_what_is_no_memorizer_or_no_data_set(proved):
    data, memorizer, _, folder = proved
    for pair in (
        (data, memorizer),
        (memorizer, memorizer),
        (memorizer, str(folder / "data.npz")),
        (str(folder / "weights.safetensors"), data),
        (memorizer.layer, data),
    ):
        with pytest.raises(ParameterError, match="certify takes a memorizer and then a dataset"):
            certify(*pair)


def test_files_and_printing(proved, tmp_path):
    *_, certificate, _ = proved
    path = tmp_path / "c.json"
    certificate.save(path)
    assert Certificate.load(path) == certificate
    assert str(certificate).startswith("Certificate: PROVED, for the stored float64 weights")
    assert all(claim.name in str(certificate) for claim in certificate.claims)
    assert repr(certificate).startswith("<Certificate: PROVED, grouping PROVED")
    assert isinstance(certificate["rank"], Claim)
    with pytest.raises(KeyError):
        certificate["beauty"]
    for text in ("[]", "{", json.dumps({"format": "constructive certificate 1"}), "[" * 10**5, "7"):
        path.write_text(text)
        with pytest.raises(FormatError, match="is not a certificate"):
            Certificate.load(path)


@pytest.mark.parametrize(
    ("option", "value", "idle", "taker"),
    [
        ("epsilon", 1e-20, "rank", "error"),
        ("epsilon", 1e-20, "readout", "executed"),
        ("delta", 1e-3, "error", "readout"),
        ("max_prec", 64, "grouping", "readout"),
        ("model", "float32, scaled", "rank", "executed"),
    ],
)
def test_an_option_that_no_claim_takes_is_refused(proved, option, value, idle, taker):
    data, memorizer, *_ = proved
    with pytest.raises(ParameterError, match=f"{idle}.* not take {option}=") as caught:
        certify(memorizer, data, claims=[idle], **{option: value})
    assert caught.value.witness in (value, repr(value))
    assert taker in caught.value.suggestion
    certificate = certify(memorizer, data, claims=[idle, taker], **{option: value})
    assert {claim.name for claim in certificate.claims} == {idle, taker}
    usual = CertifyOptions()
    assert certify(memorizer, data, claims=[idle], **{option: getattr(usual, option)}).proved
    assert certify(memorizer, data, claims=[idle], seed=3).proved  # it changes no statement
