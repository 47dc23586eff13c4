"""Equality of Fractions, and sympy's opinion of the same networks."""

from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given

from constructive import (
    AssumptionError,
    CapacityError,
    DataError,
    Dataset,
    ParameterError,
    PrecisionError,
    RationalDataset,
    build_memorizer,
    certify,
    generators,
    strategies,
)


@given(strategies.memorizable())
def test_every_target_is_reproduced_exactly(problem):
    data = problem.dataset
    memorizer = build_memorizer(
        data,
        num_heads=problem.num_heads,
        head_dim=problem.head_dim,
        construction=problem.construction,
        arithmetic="rational",
    )
    found = memorizer.predict(data.contexts, data.queries)
    assert found.shape == data.targets.shape
    assert all(isinstance(x, Fraction) for x in found.ravel())
    assert (found == data.targets).all()
    assert memorizer.max_error(data) == memorizer.record.max_error == 0.0


def sympy_output(layer, context, query):
    """f by sympy, with W_K = log(2) K and symbolic exponentials."""
    total = sympy.zeros(1, layer.target_dim)
    exact = np.vectorize(lambda x: sympy.Rational(x.numerator, x.denominator), otypes=[object])
    readout = exact(layer.readout).reshape(layer.num_heads, layer.width, -1)
    for head in range(layer.num_heads):
        keys = sympy.log(2) * sympy.Matrix(exact(layer.key_weights[head]))
        weights = sympy.Matrix(exact(layer.query_weights[head]))
        logits = sympy.Matrix(context) * keys * weights.T * sympy.Matrix(query)
        powers = [sympy.exp(sympy.expand(x)) for x in logits]
        attention = sympy.Matrix([[x / sum(powers) for x in powers]])
        total += attention * sympy.Matrix(context) * sympy.Matrix(readout[head])
    return [sympy.nsimplify(sympy.simplify(x)) for x in total]


@pytest.mark.parametrize("construction", ["saturated", "rank_one"])
def test_sympy_agrees_symbolically(construction):
    data = generators.integers(num_examples=5, context_size=3, width=3, target_dim=2)
    layer = build_memorizer(
        data, num_heads=2, construction=construction, arithmetic="rational"
    ).layer
    for context, query, target in zip(data.contexts, data.queries, data.targets, strict=True):
        found = sympy_output(layer, context.astype(int), query.astype(int))
        assert found == [sympy.Integer(int(y)) for y in target]


def test_fractions_are_memorized_as_fractions():
    third = Fraction(1, 3)
    data = RationalDataset(
        [[third, 0], [third, 1]], [[1, Fraction(1, 5)], [0, 1], [1, 1]], [third, Fraction(-2, 7), 0]
    )
    memorizer = build_memorizer(data, num_heads=2, arithmetic="rational")
    assert memorizer.predict(data.contexts, data.queries).tolist() == [third, Fraction(-2, 7), 0]
    assert "rational weights" in str(memorizer)
    assert repr(memorizer.layer) == "RationalLayer(H=2, d=2, d_h=2, d_out=1)"


def test_equality_fails_for_other_targets():
    data = generators.integers(num_examples=3, context_size=2, width=3)
    memorizer = build_memorizer(data, num_heads=2, arithmetic="rational")
    moved = data.targets.copy()
    moved[np.flatnonzero(moved == 0)[0]] = 2.0**-1074
    other = Dataset(data.contexts, data.queries, moved)
    assert memorizer.max_error(other) == 2.0**-1074
    wide = Dataset(data.contexts, data.queries, np.zeros((3, 2)))
    with pytest.raises(DataError, match="d_out=2, the layer 1"):
        memorizer.max_error(wide)


def test_refusals():
    data = generators.integers(num_examples=3, context_size=2, width=3)
    with pytest.raises(CapacityError):
        build_memorizer(data, num_heads=1, arithmetic="rational")
    with pytest.raises(ParameterError, match="unknown arithmetic='exact'"):
        build_memorizer(data, num_heads=2, arithmetic="exact")
    exact = RationalDataset(data.contexts, data.queries, data.targets)
    with pytest.raises(ParameterError, match="the data are rational"):
        build_memorizer(exact, num_heads=2)
    floats = generators.uniform(num_examples=3, context_size=2, width=3)
    with pytest.raises(PrecisionError, match=r"logits of [0-9]+ ln 2") as caught:
        build_memorizer(floats, num_heads=2, arithmetic="rational")
    assert "small integers" in caught.value.suggestion
    memorizer = build_memorizer(data, num_heads=2, arithmetic="rational")
    with pytest.raises(ParameterError, match="needs no certificate"):
        certify(memorizer, data)
    with pytest.raises(ParameterError, match="holds Fractions, not floats"):
        memorizer.save("never.safetensors")
    with pytest.raises(DataError, match="not rational numbers"):
        RationalDataset([[["x"]]], [[1]], [1])
    with pytest.raises(DataError, match=r"is [0-9/-]+ ln 2"):
        memorizer.predict(data.contexts, data.queries / 2**20)
    floating = build_memorizer(data, num_heads=2)
    with pytest.raises(DataError, match="the layer is not"):
        floating.max_error(exact)


def test_violated_assumptions_are_decided_exactly():
    with pytest.raises(AssumptionError, match="context of example 1 has rank 1") as caught:
        build_memorizer(
            RationalDataset([[[1, 0], [0, 1]], [[1, 2], [2, 4]]], [[1, 0], [0, 1]], [1, 2]),
            num_heads=2,
            arithmetic="rational",
        )
    assert caught.value.witness == 1
    with pytest.raises(AssumptionError, match="one group, are dependent"):
        build_memorizer(
            RationalDataset([[1, 0], [0, 1]], [[1, 2], [2, 4]], [1, 2]),
            num_heads=1,
            arithmetic="rational",
        )
