"""The claim *executed*: what evaluations in float32 may do, and that both sides know it."""

import dataclasses
import itertools
import math

import mpmath
import numpy as np
import pytest
from checker_parts import COARSE, coarse_models
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    AttentionLayer,
    Dataset,
    ExtendedLayer,
    Memorizer,
    ParameterError,
    Verdict,
    build_memorizer,
    certify,
    check,
    generators,
)
from constructive.certificates.claims import executed
from constructive.exact.float_enclosure import Rounded, Sized, growth
from constructive.exact.float_model import FLOAT32, MODELS
from constructive.layers import exact_logits

SINGLE = FLOAT32
F32 = np.float32


@st.composite
def layers(draw):
    """A random layer and data, with logits of any size."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    heads, inner, value_dim, between, outputs = (draw(st.integers(1, 3)) for _ in range(5))
    total, size, width = (draw(st.integers(1, 5)) for _ in range(3))
    scale = 10.0 ** draw(st.integers(-2, 4))
    weights = [
        scale * rng.standard_normal((heads, width, inner)),
        rng.standard_normal((heads, width, inner)),
        rng.standard_normal((heads, width, value_dim)),
        rng.standard_normal((heads * value_dim, between)),
        rng.standard_normal((between, outputs)),
    ]
    kind = draw(st.sampled_from([np.float32, np.float64]))
    shape = (size, width) if draw(st.booleans()) else (total, size, width)
    contexts, queries = rng.standard_normal(shape), rng.standard_normal((total, width))
    if draw(st.booleans()):  # large terms which cancel
        queries += 1000.0
    dataset = Dataset(contexts, queries, rng.standard_normal((total, outputs)))
    return AttentionLayer(*(w.astype(kind) for w in weights)), dataset


def checked_rounding(checker, layer, dataset, model=SINGLE.name):
    """The bound of the checker, and whether logits are exact."""
    found = checker.float_model.MODELS[model]
    return checker.executed.rounding(dict(layer.tensors), arrays_of(dataset), found)


def arrays_of(dataset):
    return {name: np.asarray(getattr(dataset, name)) for name in ("contexts", "queries", "targets")}


# Bounds, of which tests/programs shows that no program breaks them.


@given(layers(), st.sampled_from([m for m in MODELS.values() if m.storage.name == "float32"]))
def test_the_checker_finds_the_same_bounds(checker, problem, model):
    layer, dataset = problem
    with np.errstate(all="ignore"):
        bounds = exact_logits.rounding(layer, dataset, model).bounds
        theirs, _ = checked_rounding(checker, layer, dataset, model.name)
    assert theirs == pytest.approx(bounds.max(), rel=2.0**-12)  # of 2^-10 of room


@pytest.mark.parametrize("name", [name for name in COARSE if name != "stored"])
@settings(max_examples=25)
@given(layers(), st.sampled_from([0, 20, 40, 60]))
def test_the_checker_finds_the_same_bounds_where_units_are_large(checker, name, problem, down):
    """So that all terms count: rounding, exponentials, underflow, blocks and merged parts."""
    layer, dataset = problem
    layer = dataclasses.replace(layer, query_weights=np.ldexp(layer.query_weights, -down))
    ours, theirs = coarse_models(checker, name)
    with np.errstate(all="ignore"):
        bounds = exact_logits.rounding(layer, dataset, ours).bounds
        found, _ = checker.executed.rounding(dict(layer.tensors), arrays_of(dataset), theirs)
    assert found == pytest.approx(bounds.max(), rel=2.0**-9)


@given(
    st.lists(st.floats(-800, 0), min_size=1, max_size=6),
    st.floats(0, 900),
)
def test_exponentials_are_bounded_from_above(checker, below, x):
    logits = np.array(below)[None, None]
    with mpmath.workdps(50):
        sizes = [mpmath.exp(mpmath.mpf(y)) for y in below]
        shares = [size / sum(sizes) for size in sizes]
        grown = mpmath.expm1(2 * mpmath.mpf(x))
    with np.errstate(over="ignore"):
        rounded = Rounded(lambda sizes: sizes, np.zeros((1, 1)))
        ours = rounded.softmax(Sized(logits, np.zeros((1, 1))), None).bounds
        for bounds in (ours, checker.float_model.softmax(logits)):
            for bound, share in zip(bounds[0, 0].tolist(), shares, strict=True):
                assert share <= bound
                assert bound <= share * (1 + 1e-4) + 1e-300
        for bound in (growth(np.array(x)), checker.float_model.growth(np.array(2 * x))):
            assert grown <= float(bound)
            assert bound <= grown * (1 + 1e-4) + 1e-300 or x > 350


@pytest.mark.parametrize("x", [math.inf, math.nan])
def test_what_is_no_number_is_no_bound(checker, x):
    with np.errstate(all="ignore"):
        assert not growth(np.array(math.inf)) < math.inf
        assert not checker.float_model.growth(np.array(x)) < math.inf


def test_chunks_change_nothing():
    data = generators.uniform(num_examples=61, context_size=8, width=16)
    layer = build_memorizer(data, num_heads=4, construction="rank_one").layer
    whole = exact_logits.rounding(layer, data, SINGLE).bounds
    parts = exact_logits.rounding(layer, data, SINGLE, chunk_bytes=1).bounds
    assert np.allclose(whole, parts, rtol=1e-9, atol=0.0)
    assert whole.shape == (61, 1)


def test_what_is_no_number_bounds_nothing(checker):
    """Logits which are infinities less infinities: no maximum passes over them."""
    huge = np.full((1, 2, 1), 1e308)
    weights = huge, np.concatenate([huge[:, :1], -huge[:, :1]], axis=1), huge, [[1.0]], [[1.0]]
    layer = AttentionLayer(*(np.asarray(w) for w in weights))
    for contexts in (np.full((2, 2), 1e308), np.zeros((2, 2))):
        data = Dataset(contexts, [[1e308, 1e308], [0.0, 0.0]], np.zeros(2))
        with np.errstate(all="ignore"):
            assert checked_rounding(checker, layer, data)[0] == np.inf
        assert not np.isfinite(exact_logits.rounding(layer, data, SINGLE).bounds).all()


def test_underflow_alone_is_bounded(checker):
    """A readout of zeros, whose sums may still be of what was not zero before it underflowed."""
    layer = AttentionLayer(*np.ones((2, 1, 2, 1)), np.zeros((1, 2, 1)), [[1.0]], [[1.0]])
    data = Dataset([[1.0, 1.0], [1.0, -1.0]], [[1.0, 1.0]], [0.0])
    bound = exact_logits.rounding(layer, data, SINGLE).bounds.max()
    assert 2.0**-126 < bound < 2.0**-100
    theirs, exact = checked_rounding(checker, layer, data)
    assert theirs == pytest.approx(bound, rel=2.0**-12, abs=0.0)
    assert exact


def test_an_error_of_zero_is_an_error(checker):
    assert checker.executed.Executed({"evidence": {"real": "0x0p+0"}}).real == 0.0
    for real in ("-0x1p-1074", "inf", "nan"):
        claim = checker.executed.Executed({"evidence": {"real": real}})
        with pytest.raises(ValueError, match="not a number"):
            claim.real  # noqa: B018


# Certificates.


def single(data):
    return Dataset(data.contexts.astype(F32), data.queries.astype(F32), data.targets)


@pytest.fixture(scope="module")
def data():
    return single(generators.uniform(num_examples=7, context_size=3, width=5, seed=0))


@pytest.fixture(scope="module")
def memorizer(data):
    return build_memorizer(data, num_heads=3)


@pytest.fixture(scope="module")
def certificate(data, memorizer):
    return certify(memorizer, data, claims=("error", "executed"))


@pytest.mark.parametrize("name", MODELS)
def test_counts_have_the_same_bounds(checker, name):
    """Of all sizes, also where one is as large as a half."""
    model, theirs = MODELS[name], checker.float_model.MODELS[name]
    counts = np.unique(np.geomspace(1, 2**21, 300).astype(int))
    few = np.minimum(counts, 3)
    theirs_of = checker.float_model
    with np.errstate(all="ignore"):
        zeta, more = model.weighted(counts, few, 1e-6)
        pairs = zip(
            (model.average(counts), zeta, more + model.flushed(counts) * (1.0 + zeta)),
            (
                theirs_of.averaged(theirs, counts)[0],
                *theirs_of.weighted(theirs, counts, few, np.full(len(counts), 1e-6)),
            ),
            strict=True,
        )
    for pair in pairs:  # NaN is no bound, as infinity is none
        ours, found = (np.where(np.isfinite(each), each, np.inf) for each in pair)
        np.testing.assert_allclose(ours, found, rtol=2.0**-29)
    exponents = [theirs_of.exponents(theirs, count) for count in counts]
    np.testing.assert_allclose(model.exponents(counts), exponents, rtol=2.0**-30)
    for sizes in itertools.product((1, 2, 5), repeat=5):
        assert theirs_of.output_steps(theirs, *sizes) == model.output_roundings(*sizes)
        assert theirs_of.logit_steps(theirs, *sizes[:2]) == model.logit_roundings(*sizes[:2])


def test_statements_are_the_same(checker):
    assert checker.executed.Executed.statement == executed.STATEMENT
    assert checker.executed.VACUOUS == executed.VACUOUS
    for name, model in MODELS.items():
        theirs = checker.float_model.MODELS[name]
        assert checker.float_model.of_decoders(theirs) == model.of_decoders()
        for exact in (False, True):
            assert checker.float_model.of_layers(theirs, exact) == model.of_layers(exact=exact)


def test_it_is_made_if_asked_for_only(data, memorizer):
    assert "executed" not in [claim.name for claim in certify(memorizer, data).claims]


@pytest.mark.parametrize("construction", ["saturated", "rank_one", "generic"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_is_proved_and_checked(data, construction, dtype):
    built = build_memorizer(data, num_heads=3, construction=construction).astype(dtype)
    certificate = certify(built, data, claims="executed")
    claim = certificate["executed"]
    assert claim.proved
    bound = float.fromhex(claim.evidence["bound"])
    words = SINGLE.of_layers()
    assert claim.statement == executed.STATEMENT.format(bound, "", SINGLE.name, words)
    assert bound < 2e-3
    assert "vacuous" not in claim.detail
    assert built.astype("float32").max_error(data) <= bound
    assert check(certificate, built, data).proved


@pytest.mark.parametrize("make", [generators.uniform, generators.shared_context])
def test_several_outputs_and_shared_contexts(make):
    data = make(num_examples=7, context_size=3, width=5)
    targets = np.stack([data.targets, 100.0 * data.targets], axis=1)
    data = Dataset(data.contexts, data.queries, targets)
    built = build_memorizer(data, num_heads=3, construction="rank_one")
    certificate = certify(built, data, claims=("rank", "executed"))
    assert certificate.proved
    assert check(certificate, built, data).proved


def test_where_it_says_nothing_it_says_so():
    data = generators.uniform(num_examples=61, context_size=8, width=16)
    built = build_memorizer(data, num_heads=4, construction="rank_one").astype("float32")
    certificate = certify(built, data, claims="executed")
    claim = certificate["executed"]
    assert "(vacuous, as no target is larger than 0.9" in claim.statement
    assert "logits of construction='generic' are smaller" in claim.detail
    assert repr(certificate) == "<Certificate: PROVED, executed PROVED (vacuous)>"
    assert "PROVED (vacuous)" in str(certificate)
    assert check(certificate, built, data).proved  # it is true, though
    for evidence in (
        {name: value for name, value in claim.evidence.items() if name != "vacuous"},
        claim.evidence | {"vacuous": (0.5).hex()},
    ):
        other = dataclasses.replace(claim, evidence=evidence, statement=stated(evidence))
        report = check(dataclasses.replace(certificate, claims=(other,)), built, data)
        assert "whether its bound is vacuous" in report.report
    better = build_memorizer(data, num_heads=4, construction="generic")
    assert "vacuous" not in repr(certify(better, data, claims="executed"))


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("float32")])
def test_models_are_proved_and_checked(data, memorizer, name):
    certificate = certify(memorizer, data, claims="executed", model=name)
    claim = certificate["executed"]
    assert claim.proved
    assert repr(name) in claim.statement
    assert check(certificate, memorizer, data).proved
    usual = certify(memorizer, data, claims="executed")["executed"]
    bounds = [float.fromhex(each.evidence["bound"]) for each in (usual, claim)]
    assert bounds[0] <= bounds[1]
    if bounds[0] < bounds[1]:  # the bound of fewer programs is not a bound of more
        evidence = usual.evidence | {"model": name}
        other = dataclasses.replace(usual, evidence=evidence, statement=stated(evidence))
        report = check(dataclasses.replace(certificate, claims=(other,)), memorizer, data)
        assert "executed: rounding may be" in report.report


@pytest.mark.parametrize("model", ["float32", "bfloat16, pairwise", "", 3])
def test_other_models_are_refused(data, memorizer, model):
    with pytest.raises(ParameterError, match="model") as failure:
        certify(memorizer, data, claims="executed", model=model)
    assert "'float32, any contraction'" in failure.value.suggestion


def test_a_model_is_for_the_claim_executed(data, memorizer):
    with pytest.raises(ParameterError, match="not take model=") as caught:
        certify(memorizer, data, model=SINGLE.name)
    assert "model= with executed" in caught.value.suggestion


@pytest.mark.parametrize("model", ["bfloat16, pairwise", "none", None, ["float32, pairwise"]])
def test_other_models_are_not_believed(certificate, memorizer, data, model):
    error, claim = certificate.claims
    claim = dataclasses.replace(claim, evidence=claim.evidence | {"model": model})
    report = check(dataclasses.replace(certificate, claims=(error, claim)), memorizer, data)
    assert "executed: its model" in report.report


def test_a_bound_above_epsilon_is_undecided(data, memorizer):
    usual = float.fromhex(certify(memorizer, data, claims="executed")["executed"].evidence["bound"])
    for epsilon, verdict in ((usual, Verdict.PROVED), (0.9 * usual, Verdict.UNDECIDED)):
        claim = certify(memorizer, data, claims="executed", epsilon=epsilon)["executed"]
        assert claim.verdict is verdict
        assert ("more than epsilon=" in claim.detail) is (verdict is Verdict.UNDECIDED)


@pytest.mark.parametrize("place", ["contexts", "readout_weights", "query_weights"])
def test_it_is_undecided_beyond_float32(data, memorizer, place):
    if place == "contexts":
        data = Dataset(1e39 * data.contexts.astype(float), data.queries, data.targets)
    else:
        huge = 1e39 * getattr(memorizer.layer, place)
        layer = dataclasses.replace(memorizer.layer, **{place: huge})
        memorizer = Memorizer(layer, memorizer.record)
    claim = certify(memorizer, data, claims="executed")["executed"]
    assert claim.verdict is Verdict.UNDECIDED
    assert claim.statement == executed.UNKNOWN.format(SINGLE.name)
    assert claim.witness == 0
    assert "nothing bounds rounding at example 0: products" in claim.detail


def test_it_is_undecided_of_readouts_of_several_arrays(data):
    built = build_memorizer(data, num_heads=3, precision=106)
    claim = certify(built, data, claims="executed")["executed"]
    assert claim.verdict is Verdict.UNDECIDED
    assert (
        "readout of 106 bits: a sum of several arrays is not evaluated in float32" in claim.detail
    )


def test_it_is_undecided_where_balls_are_wide(data, memorizer):
    claim = certify(memorizer, data, claims="executed", max_prec=8)["executed"]
    assert claim.verdict is Verdict.UNDECIDED
    assert claim.detail == "balls of 8 bits do not enclose the layer; raise max_prec="


def test_large_errors_in_real_arithmetic_are_part_of_the_bound(data, memorizer):
    other = Dataset(data.contexts, data.queries, data.targets + 3.0)
    claim = certify(memorizer, other, claims="executed")["executed"]
    assert 3.0 < float.fromhex(claim.evidence["real"]) < 3.001
    assert 3.0 < float.fromhex(claim.evidence["bound"]) < 3.2
    assert claim.proved


# The checker believes nothing.


def stated(evidence, *, exact=False):
    """The statement that fits this evidence."""
    said, model = "", MODELS[evidence["model"]]
    if "vacuous" in evidence:
        said = executed.VACUOUS.format(float.fromhex(evidence["vacuous"]))
    bound = float.fromhex(evidence["bound"])
    return executed.STATEMENT.format(bound, said, model.name, model.of_layers(exact=exact))


def forged(certificate, *, exact=False, **evidence):
    """With other evidence, and the statement that fits it."""
    error, claim = certificate.claims
    evidence = claim.evidence | evidence
    statement = stated(evidence, exact=exact)
    claim = dataclasses.replace(claim, evidence=evidence, statement=statement)
    return dataclasses.replace(certificate, claims=(error, claim))


def hexed(certificate, name, factor):
    return (float.fromhex(certificate["executed"].evidence[name]) * factor).hex()


def test_it_needs_no_claim_error_and_gives_none(checker, certificate, memorizer, data, tmp_path):
    alone = dataclasses.replace(certificate, claims=certificate.claims[1:])
    assert check(alone, memorizer, data).proved
    data.save(tmp_path / "d.npz")
    memorizer.save(tmp_path / "w.safetensors")
    alone.save(tmp_path / "c.json")
    certificate.save(tmp_path / "both.json")
    files = [str(tmp_path / name) for name in ("w.safetensors", "d.npz")]
    assert checker.main([str(tmp_path / "both.json"), *files, "--epsilon", "1e-3"]) == 0
    assert checker.main([str(tmp_path / "c.json"), *files, "--epsilon", "1e-3"]) == 0
    assert checker.main([str(tmp_path / "c.json"), *files, "--epsilon", "1e-6"]) == 1
    small = forged(certificate, real=hexed(certificate, "real", 1e-8))
    assert not check(dataclasses.replace(small, claims=small.claims[1:]), memorizer, data).proved


def test_what_certify_leaves_undecided_cannot_be_forged(memorizer, data):
    """Weights beyond float32, and a readout of several arrays."""
    huge = dataclasses.replace(
        memorizer.layer,
        output_weights=1e39 * memorizer.layer.output_weights,
        readout_weights=1e-39 * memorizer.layer.readout_weights,
    )
    several = ExtendedLayer(
        memorizer.layer, np.zeros((1, *memorizer.layer.value_weights.shape)), 99
    )
    for layer, words in ((huge, "rounding may be inf"), (several, "is not float32")):
        other = Memorizer(layer, memorizer.record)
        honest = certify(other, data, claims=("error", "executed"), epsilon=1e-3)
        error, claim = honest.claims
        assert error.proved
        claim = dataclasses.replace(
            claim,
            verdict=Verdict.PROVED,
            witness=None,
            evidence={"model": SINGLE.name, "bound": "0x1p-1", "real": "0x1p-2"},
        )
        report = check(forged(dataclasses.replace(honest, claims=(error, claim))), other, data)
        assert not report.proved
        assert words in report.report


def test_the_checker_finds_as_much_where_errors_of_exponents_are_huge(checker):
    """Parts that are merged move by exp(680) times nothing, which `up` raises to 2^-1000."""
    weights = np.array([[[2.0**27]]], dtype=F32), np.ones((1, 1, 1), F32), np.ones((1, 1, 1), F32)
    layer = AttentionLayer(*weights, np.zeros((1, 1), F32), np.ones((1, 1), F32))
    model = "float32, scaled"
    for size, bounded in ((0.5, True), (0.9, True), (1.25, False)):
        data = Dataset(np.array([[1.0], [0.0]], F32), np.array([[size]], F32), [0.0])
        found = exact_logits.rounding(layer, data, MODELS[model])
        assert np.isfinite(found.bounds).all() == bounded
        if bounded:
            arrays = {"contexts": data.contexts, "queries": data.queries, "targets": data.targets}
            theirs = checker.float_model.MODELS[model]
            with np.errstate(all="ignore"):
                shown, _ = checker.executed.rounding(layer.tensors, arrays, theirs)
            assert shown <= found.bounds.max() * (1.0 + 2.0**-10)
