"""The claims which certify judges, one by one: where each verdict begins and ends."""

import base64
import json
from types import SimpleNamespace

import flint
import numpy as np
import pytest
from checker_parts import DRAWN, said, saved

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
)
from constructive import checker as judge
from constructive.certificates.certify import LAYERS, made_by
from constructive.certificates.claims.kind import CertifyOptions
from constructive.exact import modular
from constructive.theory.assumptions import judged_grouping, propose_grouping

PROVED, REFUTED, UNDECIDED = Verdict.PROVED, Verdict.REFUTED, Verdict.UNDECIDED


# Groups.


def data_of(contexts, queries):
    return Dataset(np.array(contexts, dtype=float), np.array(queries, dtype=float), np.zeros(4))


QUERIES = [[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]
GROUPS = ((0, 2), (2, 2), (2, 4))


FULL = np.stack([np.eye(3)] * 4)


def grouped(contexts=FULL, queries=QUERIES, groups=GROUPS):
    """What the checker says of what is proposed, and of what is proposed where it saw nothing."""
    data = data_of(contexts, queries)
    weights = {name: np.zeros((len(groups), 3, 1)) for name in ("W_Q", "W_K", "W_V")}
    weights |= {"W_O": np.zeros((len(groups), 1)), "W_D": np.zeros((1, 1))}
    given = propose_grouping(data, groups, np.random.default_rng(0))
    return judged_grouping(data, given, judge.layer(weights, data.arrays)), given


def test_groups_which_are_as_they_should_be():
    found, given = grouped()
    assert found.verdict is PROVED
    assert given["groups"] == [[0, 2], [2, 2], [2, 4]]
    normals = np.frombuffer(base64.b64decode(given["normals"]), "<u4")
    products = np.array(QUERIES).astype(np.int64) @ normals.reshape(3, 3)[2].astype(np.int64)
    assert ((products % given["prime"]) == 0).tolist() == [False, False, True, True]
    assert "rank n = 3; the queries of each of 3 groups" in found.statement


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
    "all is well": ({}, PROVED, None),
    "the last query is also of the first group's span": (
        with_queries(X, Y, Z, [1, 1, 1.0]), PROVED, None,
    ),
    "as many as there are dimensions": (
        with_queries(X, Y, Z, [1.0, 2, 3], groups=ALL_THREE), PROVED, None,
    ),
    "an example is left over": ({"groups": ((0, 2), (2, 3))}, UNDECIDED, None),
    "a gap": ({"groups": ((0, 2), (3, 4))}, UNDECIDED, None),
    "the first is left out": ({"groups": ((1, 2), (2, 4))}, UNDECIDED, None),
    "one too many": ({"groups": ((0, 2), (2, 5))}, UNDECIDED, None),
    "three of two": ({"groups": ((0, 1), (1, 4))}, UNDECIDED, None),
    "all in one": ({"groups": ((0, 4),)}, UNDECIDED, None),
    **{f"rank 2 at {t}": (with_row(t, [1.0, -1, 0]), REFUTED, t) for t in range(4)},
    "more tokens than their width": ({"contexts": np.ones((4, 4, 3))}, REFUTED, 4),
    "rank 2 modulo p": (with_row(1, [0, 0, P]), UNDECIDED, None),
    "parallel queries": (with_queries(X, Y, Z, [0, 0, -2.0]), REFUTED, (3, (2, 4))),
    "parallel at first": (with_queries(X, [2.0, 0, 0]), REFUTED, (1, (0, 2))),
    "the span of others": (with_queries(X, [0, 0, 5.0]), REFUTED, (1, (2, 4))),
    "of those before": (with_queries(X, Y, Z, Z, groups=APART), REFUTED, (3, (2, 3))),
    "parallel modulo p": (with_queries(X, Y, Z, [0, P, 1.0]), UNDECIDED, None),
    "in a span modulo p": (with_queries([1.0, P, 0], Y, X, Z, groups=APART), UNDECIDED, None),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPED)
def test_groups(name):
    given, verdict, witness = GROUPED[name]
    found, _ = grouped(**given)
    assert found.verdict is verdict
    assert verdict is not REFUTED or found.witness == witness


# Too many examples.


def refuted_by(checker, layer, data):
    """The witness of the checker that rank Z < T for all W_Q and W_K, if it has one."""
    about = checker.verify.layer(layer.tensors, data.arrays)
    found = checker.verify.verify("rank", {}, about)
    assert found.verdict == ("UNDECIDED" if found.witness is None else "REFUTED")
    return found.witness


def test_more_examples_than_columns_and_twice_the_same(checker):
    data = generators.uniform(num_examples=16, context_size=3, width=5)
    layer = build_memorizer(data.take(range(7)), num_heads=3).layer
    assert refuted_by(checker, layer, data) == 15
    assert refuted_by(checker, layer, data.take(range(15))) is None
    assert refuted_by(checker, layer, data.take([0, 1, 2, 1])) == (1, 3)
    one = generators.uniform(num_examples=6, context_size=1, width=5)
    assert refuted_by(checker, layer, one) == 5
    shared = generators.shared_context(num_examples=8, context_size=3, width=5)
    assert refuted_by(checker, layer, shared) == 7
    assert refuted_by(checker, layer, shared.take(range(7))) is None
    assert refuted_by(checker, layer, one.take(range(5))) is None


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
    assert certificate.verdict is Verdict.REFUTED


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
        *(({"epsilon": value}, "bound") for value in BOUNDS),
        *(({"claims": claims}, "claims") for claims in ([], ["proof"], ["rank", "ranks"], 5)),
        *(({"max_prec": value}, "positive integer") for value in (np.array([64, 64]), 0, 64.0)),
        ({"max_prec": 1}, "less than balls"),
        *(({"seed": value}, "non-negative integer") for value in (np.array([1, 2]), -1)),
        ({"model": "float32, scaled"}, "model="),
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
        ("epsilon", 1e-20, "grouping", "error"),
        ("max_prec", 64, "grouping", "error"),
    ],
)
def test_an_option_that_no_claim_takes_is_refused(proved, option, value, idle, taker):
    data, memorizer, *_ = proved
    with pytest.raises(ParameterError, match=f"{idle}.* not take {option}=") as caught:
        certify(memorizer, data, claims=[idle], **{option: value})
    assert caught.value.witness in (value, repr(value))
    assert taker in caught.value.suggestion
    certificate = certify(memorizer, data, claims=[taker, idle], **{option: value})
    assert [claim.name for claim in certificate.claims] == [idle, taker]  # in their order
    usual = CertifyOptions()
    assert certify(memorizer, data, claims=[idle], **{option: getattr(usual, option)}).proved
    assert certify(memorizer, data, claims=[idle], seed=3).proved  # it changes no statement


# Labels that lead: what is proved of them, by whom, and at which edge.


@pytest.fixture(scope="module")
def leading():
    """Two heads that separate three classes, and the data."""
    data = generators.gaussian(num_examples=7, context_size=2, width=4, seed=2)
    labels = Dataset.of_classes(data.contexts, data.queries, [0, 1, 2, 0, 1, 1, 2])
    return build_memorizer(labels, num_heads=2, construction="generic"), labels


def forged(bound, memorizer, data):
    """A certificate about these very files, which claims that lead."""
    statement = judge.STATEMENTS["labels"].format(bound)
    claim = Claim("labels", statement, Verdict.PROVED, "forged", evidence={"bound": bound.hex()})
    return Certificate((claim,), *LAYERS.describe(memorizer, data), made_by())


def proved(checker, folder, certificate, memorizer, data):
    status, printed = said(checker, saved(folder, memorizer, data, certificate))
    assert (status == 1) == printed.startswith("NOT PROVED: ")
    return status == 0


def test_half_the_least_lead_is_claimed(leading):
    claim = certify(*leading, claims=["labels"])["labels"]
    assert claim.proved
    assert claim.statement == judge.STATEMENTS["labels"].format(0.5)
    assert "lead by 0.9" in claim.detail or "lead by 1.0" in claim.detail


@pytest.mark.parametrize("power", [-300, -40, 0, 40, 300])
def test_the_scale_of_contexts_does_not_matter(leading, checker, tmp_path, power):
    memorizer, data = leading
    scaled = Dataset(data.contexts * 2.0**power, data.queries * 2.0**-power, data.targets)
    certificate = certify(memorizer, scaled, claims=["labels"])
    assert certificate.proved
    assert proved(checker, tmp_path, certificate, memorizer, scaled)


def test_who_is_to_blame(leading):
    """The first example whose label does not lead, or whose target is not a class."""
    memorizer, data = leading
    for targets, at in ((np.roll(data.targets, 1, axis=1), 0), (data.targets.copy(), 3)):
        if at:
            targets[at:] = np.roll(targets[at:], 1, axis=1)
        wrong = certify(memorizer, Dataset(data.contexts, data.queries, targets), claims=["labels"])
        assert (wrong.verdict, wrong["labels"].witness) == (Verdict.REFUTED, at)
    targets = data.targets.copy()
    targets[3] = 0.5
    other = Dataset(data.contexts, data.queries, targets)
    claim = certify(memorizer, other, claims=["labels"])["labels"]
    assert (claim.verdict, claim.witness) == (Verdict.REFUTED, 3)


@pytest.mark.parametrize(("power", "part"), [(-1023, 0.6), (-1000, 0.9), (-1000, 5.0)])
def test_a_lead_that_rounds_up_to_a_bound_is_below_it(checker, tmp_path, power, part):
    """Leads are multiples of 2^-1074 where contexts are so small."""
    zeros = np.zeros((1, 1, 1))
    layer = AttentionLayer.from_effective_readout(
        zeros, zeros, np.array([[part * 2.0 ** (-1074 - power), 0.0]])
    )
    contexts = np.array([[[1.0]], [[-1.0]]]) * 2.0**power
    data = Dataset(contexts, np.ones((2, 1)), np.eye(2))
    memorizer, least = Memorizer(layer, DRAWN), 2.0**-1074
    certificate = forged(least, memorizer, data)
    assert proved(checker, tmp_path, certificate, memorizer, data) == (part > 2.0)
    claim = certify(memorizer, data, claims=["labels"])["labels"]
    assert claim.verdict is (Verdict.UNDECIDED if part < 2.0 else Verdict.PROVED)


@pytest.mark.parametrize(
    ("ahead", "verdict"),
    [(1.01, "PROVED"), (0.99, "UNDECIDED"), (-0.99, "UNDECIDED"), (-1.01, "REFUTED")],
)
def test_what_is_not_known_of_both_outputs_counts(checker, ahead, verdict):
    """Each is off by a half, one way or the other."""
    outputs = np.array([[3.0, 0.0], [3.0, 0.0], [ahead, 0.0]])
    found = checker.error.InFloats(0 * outputs, 0.5 + 0 * outputs, np.zeros(3, int), outputs)
    about = SimpleNamespace(data={"targets": np.array([[1, 0]] * 3)}, floats=found)
    said = checker.error.Labels({"evidence": {"bound": (1e-9).hex()}}).judge(about)
    assert (said.verdict, said.witness) == (verdict, 2 if verdict == "REFUTED" else None)
