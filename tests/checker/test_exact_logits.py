"""Logits without rounding: who has them, that evaluations agree, and how they are built."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from emulated import Program, programs
from hypothesis import given
from hypothesis import strategies as st
from test_executed import F32, SINGLE, checked_rounding, forged

from constructive import (
    AttentionLayer,
    DataError,
    Dataset,
    ParameterError,
    build_memorizer,
    certify,
    check,
    explain,
    generators,
)
from constructive.layers.attend import Own
from constructive.layers.exact_logits import exact_logits, rounding, shortened


def layer_of(w_q, w_k):
    """One with values which are tokens, and outputs which are their first entries."""
    heads, width, _ = w_q.shape
    first = np.eye(width)[:, :1]
    return AttentionLayer(w_q, w_k, np.stack([first] * heads), np.ones((heads, 1)), np.eye(1))


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


def test_narrow_values_have_them_too():
    data = integers(target_dim=2, total=12)
    built = build_memorizer(data, num_heads=12, value_dim=1, exact_logits=True)
    assert built.record.construction == "narrow_values"
    assert rounding(built.layer, data, SINGLE).exact == 1.0


def test_auto_takes_heads_which_have_them():
    data = integers()
    explained = explain(data, num_heads=4, exact_logits=True)
    assert explained.plan.construction == "generic"
    assert "exact_logits=" in explained.options[0].refusal.problem
    assert explain(data, num_heads=8).plan.construction == "saturated"


@pytest.mark.parametrize("construction", ["saturated", "rank_one", "paired"])
def test_heads_which_saturate_refuse(construction):
    with pytest.raises(ParameterError) as caught:
        build_memorizer(integers(), num_heads=8, construction=construction, exact_logits=True)
    assert f"{construction!r} does not take exact_logits=" in caught.value.problem
    assert "construction='generic'" in caught.value.suggestion


def test_rational_weights_need_none():
    with pytest.raises(ParameterError, match="exact_logits"):
        build_memorizer(
            integers(), num_heads=8, arithmetic="rational", construction="saturated",
            exact_logits=True,
        )  # fmt: skip


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


def test_as_many_bits_as_fit():
    """Weights get shorter as data get longer, down to one bit, and then it is an error."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((2, 3, 4, 2))
    bits = []
    for largest in (1, 16, 64, 256, 1024):
        entries = rng.integers(-largest, largest + 1, (2, 6, 4)).astype(float)
        data = Dataset(entries, entries[:, 0], np.zeros(2))
        try:
            w_q, w_k = shortened(tuple(weights), data)
        except DataError:
            bits.append(0)
            continue
        assert exact_logits((w_q, w_k), Own(data.contexts, data.queries)).before(SINGLE).all()
        assert np.abs(w_q - weights[0]).max() < 2.0
        units = np.abs(w_q).max(axis=(1, 2)) / np.array([1.0, 1.0, 1.0])
        bits.append(len({*np.abs(w_q[0] / units[0]).ravel().tolist()}))
    assert bits[-1] == 0
    assert bits[0] >= bits[1] >= bits[2]
    assert bits[2] > 1


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
