"""What is certified, and what must not be."""

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import flint
import numpy as np
import pytest
from claim_parts import certified
from hypothesis import given
from hypothesis import strategies as st

from constructive import (
    AttentionLayer,
    Certificate,
    Claim,
    DataError,
    Dataset,
    FormatError,
    Memorizer,
    ParameterError,
    Verdict,
    build_memorizer,
    certify,
    check,
    generators,
    strategies,
)
from constructive.certificates.claims.kind import CertifyOptions


def with_layer(memorizer, **changes):
    return dataclasses.replace(memorizer, layer=dataclasses.replace(memorizer.layer, **changes))


def verdicts(certificate):
    return {claim.name: claim.verdict.name for claim in certificate.claims}


ALL_PROVED = dict.fromkeys(("grouping", "rank", "error", "readout"), "PROVED")


@given(strategies.memorizable(), st.booleans())
def test_whatever_is_built_at_the_bound_is_proved(problem, single):
    memorizer = problem.build()
    claims = ("grouping", "rank", "error", "readout")
    if single:  # float32 keeps the rank, not the error
        memorizer, claims = memorizer.astype(np.float32), ("grouping", "rank")
    certificate = certify(memorizer, problem.dataset, claims=claims)
    assert verdicts(certificate) == {name: ALL_PROVED[name] for name in claims}


def test_float32_data_and_weights():
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    single = Dataset(*(x.astype(np.float32) for x in (data.contexts, data.queries, data.targets)))
    memorizer = build_memorizer(single, num_heads=3).astype(np.float32)
    assert verdicts(certified(memorizer, single, epsilon=1e-2)) == ALL_PROVED


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


def test_duplicates_whose_tokens_are_permuted(proved):
    data, memorizer, *_ = proved
    contexts = data.contexts[[0, 1, 1]].copy()
    contexts[2] = contexts[2][::-1]
    twice = Dataset(contexts, data.queries[[0, 1, 1]], [0.0, 1.0, 2.0])
    assert certify(memorizer, twice, claims=["rank"])["rank"].verdict is Verdict.REFUTED


def test_a_perturbed_readout(proved):
    data, memorizer, *_ = proved
    values = memorizer.layer.value_weights.copy()
    values[1, 2, 0] += 1e-3
    certificate = certified(with_layer(memorizer, value_weights=values), data)
    expected = {**ALL_PROVED, "error": "REFUTED"}
    assert verdicts(certificate) == expected
    assert 0 <= certificate["error"].witness < 7
    assert "at example" in certificate["error"].detail
    near = certified(with_layer(memorizer, value_weights=values), data, delta=1e-9)
    assert near["readout"].verdict is Verdict.UNDECIDED


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


@pytest.mark.parametrize("tiny", [0.0, 2.0**-40, 2.0**-52])
def test_nearly_singular(tiny):
    # det [[1, 1], [1, 1 + tiny]] = tiny, far below what singular values in float64 resolve.
    memorizer, data = uniform_attention([[[1.0, 1.0]], [[1.0, 1.0 + tiny]]], [0.0, 1.0])
    claim = certify(memorizer, data, claims=["rank"])["rank"]
    assert (claim.verdict is Verdict.PROVED) == (tiny > 0)


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
        ({"executor": 4}, "Executor"),
        ({"executor": ThreadPoolExecutor(1)}, "pieces"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else given,
)
def test_refused_options(proved, option, words):
    data, memorizer, *_ = proved
    with pytest.raises(ParameterError, match=words):
        certify(memorizer, data, **option)


def test_bounds_of_any_real_type(proved):
    data, memorizer, *_ = proved
    for epsilon in (np.float64(1e-6), np.float32(1e-6), 1, Fraction(1, 10**6)):
        claim = certify(memorizer, data, claims="error", epsilon=epsilon)["error"]
        assert claim.evidence == {"bound": float(epsilon).hex()}


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
        with pytest.raises(ParameterError, match="certify takes a memorizer and a data set") as e:
            certify(*pair)
        assert ("in this order; here they are swapped" in e.value.problem) == (pair[0] is data)


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
    with pytest.raises(ParameterError, match=f"{idle} takes {option}=") as caught:
        certify(memorizer, data, claims=[idle], **{option: value})
    assert caught.value.witness == str({option: value})
    assert taker in caught.value.suggestion
    certificate = certify(memorizer, data, claims=[idle, taker], **{option: value})
    assert {claim.name for claim in certificate.claims} == {idle, taker}
    usual = CertifyOptions()
    assert certify(memorizer, data, claims=[idle], **{option: getattr(usual, option)}).proved
    assert certify(memorizer, data, claims=[idle], seed=3).proved  # it changes no statement


def test_another_seed_is_another_proof(proved):
    data, memorizer, certificate, _ = proved
    assert certify(memorizer, data, seed=5)["rank"].evidence != certificate["rank"].evidence
