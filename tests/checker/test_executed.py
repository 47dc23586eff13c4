"""The claim *executed*: what evaluations in float32 may do, and that both sides know it."""

import dataclasses
import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from checker_parts import COARSE, coarse_models
from emulated import Program, programs
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    AttentionLayer,
    DataError,
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
from constructive.certificates.claims.outputs import EXECUTED
from constructive.exact.float_enclosure import Rounded, Sized, growth
from constructive.exact.float_model import FLOAT32, MODELS
from constructive.layers.exact_logits import rounding

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
    elif draw(st.booleans()):  # an entry that nobody reads counts in underflow
        queries[:, 0] = 0.0
        weights[0][:, 0] = 2.0 ** draw(st.integers(60, 120))
    dataset = Dataset(contexts, queries, rng.standard_normal((total, outputs)))
    return AttentionLayer(*(w.astype(kind) for w in weights)), dataset


def layer_of(w_q, w_k):
    """One with values which are tokens, and outputs which are their first entries."""
    heads, width, _ = w_q.shape
    first = np.eye(width)[:, :1]
    return AttentionLayer(w_q, w_k, np.stack([first] * heads), np.ones((heads, 1)), np.eye(1))


def short_problem(rng, bits, scales):
    """Integers times powers of two, of bits about as many as float32 has."""
    heads, width, inner, total, size = rng.integers(1, 5, 5)

    def drawn(*shape):
        large = 2 ** rng.integers(0, bits + 1)
        return rng.integers(-large, large + 1, shape) * 2.0 ** rng.integers(-scales, scales + 1)

    shape = (size, width) if rng.random() < 0.5 else (total, size, width)
    data = Dataset(drawn(*shape), drawn(total, width), np.zeros(total))
    return layer_of(drawn(heads, width, inner), drawn(heads, width, inner)), data, rng


@st.composite
def short_problems(draw):
    seed, bits, scales = (draw(st.integers(0, most)) for most in (2**32, 10, 30))
    return short_problem(np.random.default_rng(seed), bits, scales)


def checked_rounding(checker, layer, dataset, model=SINGLE.name):
    """The bound of the checker, and whether logits are exact."""
    found = checker.float_model.MODELS[model]
    return checker.executed.rounding(dict(layer.tensors), arrays_of(dataset), found)


def arrays_of(dataset):
    return {name: np.asarray(getattr(dataset, name)) for name in ("contexts", "queries", "targets")}


# Bounds, of which tests/programs shows that no program breaks them.


@pytest.mark.parametrize("name", [name for name in COARSE if name != "stored"])
@settings(max_examples=40)
@given(
    st.one_of(layers(), short_problems().map(lambda problem: problem[:2])),
    st.sampled_from([0, 20, 40, 60]),
)
def test_the_checker_finds_the_same_where_units_are_large(checker, name, problem, down):
    """So that all terms count: rounding, exponentials, underflow, blocks and merged parts."""
    layer, dataset = problem
    layer = dataclasses.replace(layer, query_weights=np.ldexp(layer.query_weights, -down))
    ours, theirs = coarse_models(checker, name)
    with np.errstate(all="ignore"):
        known = rounding(layer, dataset, ours)
        found, exact = checker.executed.rounding(dict(layer.tensors), arrays_of(dataset), theirs)
    large = 2.0**100  # a bound of that size is as good as none
    assert min(found, large) == pytest.approx(min(known.bounds.max(), large), rel=2.0**-6)
    assert exact == (known.exact == 1.0)


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


def test_what_is_no_number_bounds_nothing(checker):
    """Logits which are infinities less infinities: no maximum passes over them."""
    huge = np.full((1, 2, 1), 1e308)
    weights = huge, np.concatenate([huge[:, :1], -huge[:, :1]], axis=1), huge, [[1.0]], [[1.0]]
    layer = AttentionLayer(*(np.asarray(w) for w in weights))
    for contexts in (np.full((2, 2), 1e308), np.zeros((2, 2))):
        data = Dataset(contexts, [[1e308, 1e308], [0.0, 0.0]], np.zeros(2))
        with np.errstate(all="ignore"):
            assert checked_rounding(checker, layer, data)[0] == np.inf
        assert not np.isfinite(rounding(layer, data, SINGLE).bounds).all()


def test_underflow_alone_is_bounded(checker):
    """A readout of zeros, whose sums may still be of what was not zero before it underflowed."""
    layer = AttentionLayer(*np.ones((2, 1, 2, 1)), np.zeros((1, 2, 1)), [[1.0]], [[1.0]])
    data = Dataset([[1.0, 1.0], [1.0, -1.0]], [[1.0, 1.0]], [0.0])
    bound = rounding(layer, data, SINGLE).bounds.max()
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


@pytest.mark.parametrize(("power", "bounded"), [(125, True), (126, False)])
def test_logits_times_tokens_are_in_range(checker, power, bounded):
    """Twice a logit for each of three tokens: 6 times 2^125 is a number, and 6 times 2^126 not."""
    one = np.ones((1, 1, 1))
    layer = AttentionLayer(one * 2.0**power, one, one, one[0], one[0])
    data = Dataset(np.ones((1, 3, 1)), np.ones((1, 1)), np.zeros(1))
    bound, exact = checked_rounding(checker, layer, data)
    assert (bound < 1e-4) is bounded
    assert exact


def test_alone_it_needs_what_an_error_does(checker):
    claim, needs = checker.executed.Executed({"evidence": {}}), []
    for names in (("executed",), ("error", "executed")):
        about = SimpleNamespace(names=names, shapes=(7, 3, 5, 1, 3, 3, 1, 3))
        about.real_needs = lambda: (10**9, 10**15)
        needs.append(claim.needs(about))
    assert needs[0] == (10**9, needs[1][1] + 10**15)
    assert needs[1][0] < 10**9


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


def test_statements_are_the_same(checker):
    assert checker.executed.Executed.statement == EXECUTED.statement
    assert EXECUTED.vacuous == checker.executed.VACUOUS
    for name, model in MODELS.items():
        theirs = checker.float_model.MODELS[name]
        for exact in (False, True):
            assert checker.float_model.of_layers(theirs, exact) == model.of_layers(exact=exact)


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
    assert claim.statement == EXECUTED.unshown.format(SINGLE.name)
    assert claim.witness == 0
    assert "nothing bounds rounding at example 0: products" in claim.detail


def test_it_is_undecided_where_balls_are_wide(data, memorizer):
    claim = certify(memorizer, data, claims="executed", max_prec=8)["executed"]
    assert claim.verdict is Verdict.UNDECIDED
    assert claim.detail == "balls of 8 bits do not enclose the layer; raise max_prec="


# The checker believes nothing.


def stated(evidence, *, exact=False):
    """The statement that fits this evidence."""
    said, model = "", MODELS[evidence["model"]]
    if "vacuous" in evidence:
        said = EXECUTED.vacuous.format(float.fromhex(evidence["vacuous"]))
    bound = float.fromhex(evidence["bound"])
    return EXECUTED.statement.format(bound, said, model.name, model.of_layers(exact=exact))


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


# Logits without rounding: who has them, that evaluations agree, and how they are built.


def both(checker, layer, data):
    """Whether prover and checker call all logits exact; and they agree."""
    with np.errstate(all="ignore"):
        theirs = checked_rounding(checker, layer, data)[1]
    ours = rounding(layer, data, SINGLE).exact == 1.0
    assert ours == theirs
    return ours


def whole(entries, queries, w_q, w_k):
    """Data of one example with two tokens, zero the second, and a layer of one head."""
    entries, queries = np.array(entries, float), np.array(queries, float)
    data = Dataset(np.stack([entries, 0 * entries]), queries[None], np.zeros(1))
    return layer_of(np.array(w_q, float)[None], np.array(w_k, float)[None]), data


def product(rng, left, right):
    """A product of matrices (n, k) (k, m) in float32: by BLAS, or term by term in some order."""
    if rng.random() < 0.3:
        return left @ right
    out = np.zeros((len(left), right.shape[1]), F32)
    for k in rng.permutation(len(right)):
        if rng.random() < 0.5:  # fused: one rounding, as the product of two floats is a double
            exact = left[:, k, None].astype(float) * right[k].astype(float)
            out = (exact + out).astype(F32)
        else:
            out = left[:, k, None] * right[k] + out
    return out


def chain(rng, *factors):
    """Their product, multiplied in some order."""
    factors = list(factors)
    while len(factors) > 1:
        at = rng.integers(len(factors) - 1)
        factors[at : at + 2] = [product(rng, *factors[at : at + 2])]
    return factors[0]


@given(short_problems())
def test_exact_logits_are_those_of_every_order(checker, problem):
    layer, data, rng = problem
    if not both(checker, layer, data):
        return
    for t, query in enumerate(data.queries):
        tokens = data.contexts if data.shared_context else data.contexts[t]
        for w_q, w_k in zip(layer.query_weights, layer.key_weights, strict=True):
            factors = tokens, w_k, w_q.T.copy(), query[:, None]
            true = chain_of_fractions(factors)
            for _ in range(3):
                found = chain(rng, *(factor.astype(F32) for factor in factors))[:, 0]
                assert [Fraction(float(x)) for x in found] == true
                top = found.max()
                assert [Fraction(float(top - x)) for x in found] == [max(true) - x for x in true]


def chain_of_fractions(factors):
    """The product, exactly; its only column."""
    found = [[Fraction(x) for x in row] for row in factors[0].tolist()]
    for factor in factors[1:]:
        columns = factor.T.tolist()
        found = [
            [sum(a * Fraction(b) for a, b in zip(row, column, strict=True)) for column in columns]
            for row in found
        ]
    return [row[0] for row in found]


def test_some_of_these_problems_are_exact_and_some_are_not(checker):
    """So that the test above is of something."""
    rng = np.random.default_rng(0)
    exact = [both(checker, *short_problem(rng, 10, 30)[:2]) for _ in range(100)]
    assert 20 < sum(exact) < 80


LIMITS = {
    "differences of logits, twice 2^23 - 1": ([2**23 - 1], [1], [[1]], [[1]], True),
    "differences of logits, twice 2^23": ([2**23 + 1], [1], [[1]], [[1]], False),
    "the terms of a sum which cancel": (
        [2**22 + 1, 2**22], [1, -1], [[1], [1]], [[1], [1]], False
    ),
    "an entry of a token which nobody reads": ([2.0**24 + 1, 1], [1, 1], [[0], [1]], [[0], [1]], 0),
    "an entry of a query which nobody reads": ([1, 1], [2.0**24 + 1, 1], [[0], [1]], [[0], [1]], 0),
    "W_Q, on zeros": ([1, 1], [0, 1], [[2.0**24 + 1], [1]], [[1], [1]], False),
    "W_K, on zeros": ([0, 1], [1, 1], [[1], [1]], [[2.0**24 + 1], [1]], False),
    "W_Q^T e, for keys which are zero": (
        [1], [2**12 + 1], [[2**12 + 1, 1]], [[0, 1]], False
    ),
    "W_K^T x, for queries that are zero": (
        [2**12 + 1], [1], [[0, 1]], [[2**12 + 1, 1]], False
    ),
    "W_Q^T e, in smaller units": (
        [1], [2**12 + 1], [[1 + 2.0**-12, 2.0**-12]], [[0, 1]], False
    ),
    "W_K^T x, in smaller units": (
        [2**12 + 1], [1], [[0, 1]], [[1 + 2.0**-12, 2.0**-12]], False
    ),
    "W_K W_Q^T, where tokens and queries are zero": (
        [0, 1], [0, 1], [[2**12 + 1], [0]], [[2**12 + 1], [0]], False
    ),
    "W_K W_Q^T e, for a token that is zero": (
        [0, 1], [2**12, 1], [[2**6 + 1], [0]], [[2**6 + 1], [0]], False
    ),
    "W_Q W_K^T x, for a query which is zero": (
        [2**12, 1], [0, 1], [[2**6 + 1], [0]], [[2**6 + 1], [0]], False
    ),
    "a normal unit": ([2.0**-63], [2.0**-63], [[1]], [[1]], True),
    "a unit of logits below the normal ones": ([2.0**-64], [2.0**-63], [[1]], [[1]], False),
    "subnormal tokens": ([2.0**-127], [2.0**20], [[1]], [[1]], False),
    "beyond all floats": ([2.0**100], [2.0**100], [[2.0**300]], [[2.0**-300]], False),
    "units beyond float64": ([2.0**-1000], [2.0**-1000], [[1]], [[1]], False),
    "zeros": ([0], [0], [[0]], [[0]], True),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_limits(checker, name):
    """Each condition on its own, as all others hold where it fails."""
    *given_, exact = LIMITS[name]
    assert both(checker, *whole(*given_)) is bool(exact)


def integers(largest=4, total=31, target_dim=1):
    rng = np.random.default_rng(1)
    shapes = (total, 5, 8), (total, 8)
    contexts, queries = (rng.integers(-largest, largest + 1, shape) for shape in shapes)
    targets = rng.standard_normal((total, target_dim))
    return Dataset(*(x.astype(F32) for x in (contexts, queries, targets)))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("options", [{}, {"head_dim": 3}, {"shared_keys": True}])
def test_they_are_built_proved_and_checked(shared, options):
    data = integers()
    if shared:
        data = Dataset(data.contexts[0], data.queries, data.targets)
    heads, options = 8 if shared else 4, {"construction": "generic", **options}
    data = data.take(range(24))
    bounds = []
    for exact in (False, True):
        built = build_memorizer(data, num_heads=heads, exact_logits=exact, **options)
        certificate = certify(built, data, claims="executed")
        claim = certificate["executed"]
        assert check(certificate, built, data).proved
        assert ("each logit computed once, without error;" in claim.statement) is exact
        assert ("none of that by logits, which are exact" in claim.detail) is exact
        bounds.append(float.fromhex(claim.evidence["bound"]))
        off = np.abs(Program().of_layer(built.layer, data) - data.target_matrix)
        assert off.max() <= bounds[-1]
    for name in ("W_Q", "W_K"):
        assert np.array_equal(
            built.layer.tensors[name], built.astype("float32").layer.tensors[name]
        )
    assert bounds[1] < bounds[0]


@pytest.mark.parametrize("construction", ["saturated", "rank_one", "paired"])
def test_heads_which_saturate_refuse(construction):
    with pytest.raises(ParameterError) as caught:
        build_memorizer(integers(), num_heads=8, construction=construction, exact_logits=True)
    assert f"{construction!r} does not take exact_logits=" in caught.value.problem
    assert "construction='generic'" in caught.value.suggestion


def test_data_of_many_bits_are_refused():
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    with pytest.raises(DataError) as caught:
        build_memorizer(data, num_heads=3, exact_logits=True)
    assert "sums of 5 x 5 x 1 products of contexts of 53 bits and queries of" in str(caught.value)
    assert "with weights of one bit are longer than 24 bits" in str(caught.value)
    assert caught.value.witness["contexts"] == 53
    assert "np.rint(8 * x) / 8" in caught.value.suggestion
    rounded = Dataset(np.rint(8 * data.contexts) / 8, np.rint(8 * data.queries) / 8, data.targets)
    assert build_memorizer(rounded, num_heads=3, exact_logits=True).max_error(rounded) < 1e-9


def test_the_statement_is_that_of_these_logits():
    """Neither may a certificate call logits exact which are not, nor pass over that they are."""
    data = integers(total=24)
    for exact in (False, True):
        built = build_memorizer(
            data, num_heads=4, construction="generic", exact_logits=exact
        ).astype("float32")
        honest = certify(built, data, claims=("error", "executed"), epsilon=1.0)
        assert check(forged(honest, exact=exact), built, data).proved
        report = check(forged(honest, exact=not exact), built, data)
        assert "it does not state: max |fl(" in report.report


def test_the_bound_of_exact_logits_is_no_bound_of_others():
    """W_Q moved by one unit in the last place: rounding may take more than the certificate says."""
    data = integers(total=24)
    built = build_memorizer(data, num_heads=4, construction="generic", exact_logits=True)
    honest = certify(built, data, claims=("error", "executed"))
    layer = built.layer
    moved = np.nextafter(layer.query_weights, 9.0)
    other = dataclasses.replace(built, layer=dataclasses.replace(layer, query_weights=moved))
    dishonest = dataclasses.replace(honest, weights=certify(other, data, claims="executed").weights)
    for exact in (False, True):
        report = check(forged(dishonest, exact=exact), other, data)
        assert "executed: rounding may be" in report.report
    assert check(honest, built, data).proved


@given(short_problems(), programs(SINGLE.name))
def test_programs_are_within_the_bounds(problem, program):
    layer, data, _ = problem
    bounds = rounding(layer, data, SINGLE).bounds
    double = layer.astype(np.float64)
    with np.errstate(all="ignore"):
        off = np.abs(program.of_layer(layer, data) - double(data.contexts, data.queries))
    assert (off[np.isfinite(bounds)] <= bounds[np.isfinite(bounds)]).all()


# The steps of rounding in the checker: exact logits, what others are off by, and averages.


PLAIN = "float32, pairwise"
ANY = "float32, any contraction"
NEAR = 1e-7  # what `up` may add


def logits_of(checker, tokens=1.0, queries=1.0, w_q=1.0, w_k=1.0):
    """Of one token, one query, and heads of two entries, of which each has one number or more."""
    shapes = {"W_Q": (1, 2, 2), "W_K": (1, 2, 2)}
    weights = {
        name: np.ones(shape) * np.reshape(entry, (-1, 1, 1))
        for (name, shape), entry in zip(shapes.items(), (w_q, w_k), strict=True)
    }
    heads = max(map(len, weights.values()))
    weights = {name: np.repeat(w, heads // len(w), axis=0) for name, w in weights.items()}
    data = {"contexts": np.full((1, 1, 2), tokens), "queries": np.full((1, 2), queries)}
    return checker.executed.logits_of(weights, data)


FACTORS = ("tokens", "queries", "w_q", "w_k")


@pytest.mark.parametrize(
    ("model", "numbers", "exact"),
    [
        # The sum over all three indices, eight terms, has to be below 2^24.
        *((ANY, {factor: 2.0**21 - 1}, [True]) for factor in FACTORS),
        *((ANY, {factor: 2.0**21 + 1}, [False]) for factor in FACTORS),
        (ANY, {"w_q": [1.0, 2.0**21 + 1, 3.0]}, [True, False, True]),
        (ANY, {"w_k": [1.0, 2.0**21 + 1, 3.0]}, [True, False, True]),
        (PLAIN, {"w_q": [1.0, 2.0**24 + 1, 3.0]}, [True, False, True]),
        # Units of some factors may not be below the normal numbers, though those of logits are.
        (ANY, dict(zip(FACTORS, (2.0**-63, 2.0**-63, 1.0, 2.0), strict=True)), [True]),
        (ANY, dict(zip(FACTORS, (2.0**-64, 2.0**-63, 1.0, 2.0), strict=True)), [False]),
        ("bfloat16, pairwise", {"tokens": 127.0}, [True]),
        ("bfloat16, pairwise", {"tokens": 129.0}, [False]),  # keys of 258: bits count, not sizes
        ("bfloat16, pairwise", {"tokens": 257.0}, [False]),
        ("bfloat16, pairwise", {"queries": 257.0}, [False]),
        ("bfloat16, pairwise", {"tokens": 7.0, "w_k": 19.0}, [False]),
        ("bfloat16, pairwise", {"queries": 7.0, "w_q": 19.0}, [False]),
        ("bfloat16, pairwise", {"w_q": 127.0, "w_k": 127.0}, [True]),  # their product is not stored
        ("float16, pairwise", {"tokens": 2.0**-14}, [True]),
        ("float16, pairwise", {"tokens": 2.0**-15, "w_k": 2.0}, [False]),
        ("float16, pairwise", {"queries": 2.0**-15, "w_q": 2.0}, [False]),
    ],
)
def test_which_heads_have_exact_logits(checker, model, numbers, exact):
    logits = logits_of(checker, **numbers)
    assert logits.exact(checker.float_model.MODELS[model]).tolist() == exact


def test_exponentials_beyond_the_series(checker):
    """Where too much is left out, nothing is known from above."""
    with np.errstate(over="ignore"):
        most = checker.float_model.exponential(np.array([17000.0, 18000.0]))[1]
    assert most.tolist() == [math.inf, math.inf]


@pytest.mark.parametrize("eps", [1e-4, 0.01, 0.5, 4.0])
@pytest.mark.parametrize("seed", range(3))
def test_no_choice_of_weights_moves_outputs_further(checker, seed, eps):
    """Each token may weigh exp(eps) times as much or as little: two heads, five tokens."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((1, 2, 5, 1))
    attention = rng.dirichlet(np.ones(5), (1, 2))
    grows = np.full((1, 2), np.expm1(2 * eps))
    found = checker.executed.apart_by_head(attention, grows, values)
    worst = 0.0
    for head in range(2):
        a, v = attention[0, head], values[0, head, :, 0]
        signs = 2.0 * (np.arange(32)[:, None] >> np.arange(5) & 1) - 1.0
        moved = a * np.exp(eps * signs)
        worst += np.abs((moved @ v) / moved.sum(axis=1) - a @ v).max()
    assert worst <= found[0, 0]
    if eps <= 0.01:
        assert found[0, 0] <= 2.2 * worst
    spread = (values.max(axis=2) - values.min(axis=2)).sum()
    assert found[0, 0] <= spread * (1 + NEAR)


@pytest.mark.parametrize("name", ["W_V", "W_O", "W_D", "contexts"])
def test_products_are_in_range(checker, name):
    """Numerators are sums of n outputs, of which blocks may double."""
    shapes = {"W_V": (2, 3, 5), "W_O": (10, 7), "W_D": (7, 1), "contexts": (4, 6, 3)}
    weights = {each: np.full(shape, 0.5) for each, shape in shapes.items()}
    data = {"contexts": weights["contexts"]}
    most = (2.0 - 2.0**-23) * 2.0**127 / (2 * 6 * 2 * 3 * 5 * 7)
    for entry, known in ((most * (1 - NEAR), True), (most * (1 + NEAR), False)):
        weights[name].flat[-1] = entry
        assert (checker.executed.underflow(weights, data, 0.0) < math.inf) == known


# Every term of what averages are off by, in a model.


@pytest.mark.parametrize(
    ("share", "count", "known"),
    [
        (0.25, 4, True),
        (0.5 - 2.0**-53, 4, True),
        (0.5, 4, False),
        (0.25, 1 << 20, True),
        (0.25, (1 << 20) + 1, False),
        (math.nan, 4, False),
    ],
)
def test_shares_are_below_one_and_sums_not_too_long(checker, share, count, known):
    """t / (1 - t), as long as that is so."""
    found = float(checker.float_model.small(np.float64(share), count))
    assert (found < math.inf) == known
    if known:
        assert share / (1 - share) <= found <= share / (1 - share) * (1 + NEAR)


@pytest.mark.parametrize("name", COARSE)
@pytest.mark.parametrize("unit", [2.0**-11, 2.0**-14])
@pytest.mark.parametrize(
    ("seen", "large", "rest"),
    [(40, 40, math.inf), (40, 40, 1.0), (40, 3, 2.0**-9), (1, 1, 0.0), (17, 2, 0.0)],
)
def test_averages_are_off_by_the_same_on_both_sides(checker, name, unit, seen, large, rest):
    """The prover counts what underflows apart."""
    ours, theirs = coarse_models(checker, name, unit=unit, exp_error=unit / 2, smallest=1e-3)
    zeta, added = checker.float_model.weighted(theirs, np.float64(seen), large, rest)
    one, more = ours.weighted(seen, large, rest)
    assert 0.0 < zeta < math.inf
    assert zeta == pytest.approx(float(one), rel=NEAR)
    assert added == pytest.approx(float(more + ours.flushed(seen) * (1.0 + one)), rel=NEAR)
    found = checker.float_model.exponents(theirs, seen)
    assert found == pytest.approx(float(ours.exponents(seen)), rel=NEAR)


def test_large_errors_have_no_bound(checker):
    model = checker.float_model.MODELS[PLAIN]._replace(unit=2.0**-30)
    for exp, known in ((0.15, True), (0.17, False)):  # t / (1 - t) with t of two of them
        zeta = checker.float_model.averaged(model._replace(exp=exp), np.float64(2))[0]
        assert (zeta < math.inf) == known
