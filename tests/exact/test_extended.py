"""Readouts of more bits than float64 has, and of rational numbers."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import reference
import sympy
from hypothesis import given

from constructive import (
    AssumptionError,
    CapacityError,
    DataError,
    Dataset,
    ExtendedLayer,
    Memorizer,
    ParameterError,
    PrecisionError,
    RationalDataset,
    build_memorizer,
    certify,
    generators,
    strategies,
)

# Readouts of more bits than float64 has.


def ill_conditioned(size, heads=20):
    count = heads * (size - 1) + 1
    data = generators.shared_context(num_examples=count, context_size=size, width=64)
    return data, {"num_heads": heads, "construction": "rank_one"}


def worst_by_mpmath(memorizer, data, examples, digits):
    layer = memorizer.layer
    found = reference.outputs(layer.leading, data, examples, digits, tuple(layer.corrections))
    with mpmath.workdps(digits):
        targets = data.target_matrix[list(examples)].tolist()
        return max(
            abs(x - mpmath.mpf(y))
            for row, target in zip(found, targets, strict=True)
            for x, y in zip(row, target, strict=True)
        )


@pytest.mark.parametrize("bits", [54, 106, 200])
def test_bits_beyond_float64_shrink_the_error(bits):
    data = generators.uniform(num_examples=7, context_size=3, width=5, target_dim=2)
    memorizer = build_memorizer(data, num_heads=3, value_dim=3, precision=bits)
    assert memorizer.record.precision == bits
    assert memorizer.max_error(data) < 2.0 ** (12 - bits)
    assert memorizer.record.max_error == memorizer.max_error(data)
    worst = worst_by_mpmath(memorizer, data, range(7), 100)
    assert worst <= memorizer.max_error(data)
    assert (memorizer.predict(data.contexts, data.queries) == data.targets).all()
    assert f"readout of {bits} bits" in str(memorizer)


def test_auto_stays_with_float64_where_that_suffices():
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=3, precision="auto")
    assert memorizer.record.precision == 53
    same = build_memorizer(data, num_heads=3)
    assert (memorizer.layer.value_weights == same.layer.value_weights).all()


@pytest.mark.parametrize("heads", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_rank_one_heads_on_a_shared_context_of_16_tokens(heads):
    data, options = ill_conditioned(16, heads)
    with pytest.raises(PrecisionError, match="float64 cannot carry") as caught:
        build_memorizer(data, **options, tolerance=1e-12)
    assert "precision='auto'" in caught.value.suggestion
    memorizer = build_memorizer(data, **options, tolerance=1e-12, precision="auto")
    assert memorizer.record.precision > 53
    assert memorizer.max_error(data) < 1e-15
    examples = range(0, 15 * heads + 1, 3 * heads)
    assert worst_by_mpmath(memorizer, data, examples, 60) <= memorizer.max_error(data)
    certificate = certify(memorizer, data, claims=("grouping", "rank", "error"), epsilon=1e-15)
    assert certificate.verdict.name == "PROVED"


@pytest.mark.slow
def test_rank_one_heads_on_a_shared_context_of_32_tokens():
    data, options = ill_conditioned(32)
    with pytest.raises(PrecisionError, match="float64 cannot carry"):
        build_memorizer(data, **options)
    memorizer = build_memorizer(data, **options, precision=160)
    assert memorizer.max_error(data) < 1e-15
    assert worst_by_mpmath(memorizer, data, [0, 300, 620], 80) <= memorizer.max_error(data)
    certificate = certify(memorizer, data, claims=("grouping", "rank", "error"), epsilon=1e-15)
    assert certificate.verdict.name == "PROVED"


def test_files_keep_every_bit(tmp_path):
    data = generators.uniform(num_examples=3, context_size=2, width=3)
    memorizer = build_memorizer(data, num_heads=2, precision=150)
    memorizer.save(tmp_path / "m.safetensors")
    loaded = Memorizer.load(tmp_path / "m.safetensors")
    assert isinstance(loaded.layer, ExtendedLayer)
    assert loaded.record == memorizer.record
    for name, tensor in memorizer.layer.tensors.items():
        assert (loaded.layer.tensors[name] == tensor).all()
    assert loaded.layer.corrections.shape == (2, 2, 3, 1)


def two_columns(seed, small):
    """Targets of size one, and others that are so small."""
    data = generators.uniform(num_examples=7, context_size=3, width=5, target_dim=2, seed=seed)
    return Dataset(data.contexts, data.queries, data.targets * [1.0, small])


def test_the_tolerance_holds_for_each_column_of_targets():
    data = two_columns(seed=1, small=1e-9)
    memorizer = build_memorizer(data, num_heads=3, precision=54)
    parts = memorizer.layer.column_errors(data) / np.abs(data.targets).max(axis=0)
    assert memorizer.max_error(data) == memorizer.layer.column_errors(data).max()
    assert parts[0] < parts[1]  # the second column misses by less, but by more of its size
    between = float(np.sqrt(parts[0] * parts[1]))
    with pytest.raises(PrecisionError, match=r"targets of size 8\.5e-10"):
        build_memorizer(data, num_heads=3, precision=54, tolerance=between)
    same = build_memorizer(data, num_heads=3, precision=54, tolerance=1.01 * float(parts[1]))
    assert (same.layer.corrections == memorizer.layer.corrections).all()


def test_columns_of_the_size_of_the_smallest_floats():
    data = two_columns(seed=1, small=1e-300)
    options = {"num_heads": 3, "precision": 106}
    with pytest.raises(PrecisionError, match="misses"):  # the second part of U is no float there
        build_memorizer(data, **options, tolerance=1e-27)
    assert build_memorizer(data, **options, tolerance=1e-22).max_error(data) < 1e-30
    zeros = two_columns(seed=1, small=0.0)
    assert build_memorizer(zeros, **options).layer.column_errors(zeros)[1] == 0.0


def test_more_bits_are_suggested_up_to_the_most_that_there_are():
    data = two_columns(seed=1, small=1e-300)
    options = {"num_heads": 3, "tolerance": 1e-27}
    for bits, suggested in ((3000, "precision=4096"), (4096, "more heads")):
        with pytest.raises(PrecisionError, match="misses") as caught:
            build_memorizer(data, **options, precision=bits)
        assert suggested in caught.value.suggestion
    memorizer = build_memorizer(data, num_heads=3, precision=106)
    for make in (
        lambda bits: build_memorizer(data, num_heads=3, precision=bits),
        lambda bits: ExtendedLayer(memorizer.layer.leading, memorizer.layer.corrections, bits),
    ):
        with pytest.raises(ParameterError, match="4097"):
            make(4097)


def test_refusals():
    data = generators.uniform(num_examples=3, context_size=2, width=3)
    for precision in (52, 10**6, "double", 60.0, True):
        with pytest.raises(ParameterError, match="not a number of bits"):
            build_memorizer(data, num_heads=2, precision=precision)
    memorizer = build_memorizer(data, num_heads=2, precision=100)
    with pytest.raises(
        ParameterError, match="arrays of float32 hold floats, not the weights of ExtendedLayer"
    ):
        memorizer.astype(np.float32)
    with pytest.raises(ParameterError, match=r"corrections .* do not fit values"):
        ExtendedLayer(memorizer.layer.leading, np.zeros((1, 2, 2, 1)), 100)
    with pytest.raises(PrecisionError, match="misses the targets") as caught:
        build_memorizer(data, num_heads=2, precision=54, tolerance=1e-40)
    assert caught.value.suggestion == "precision=108"


# Equality of Fractions, and sympy's opinion of the same networks.


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


def test_rational_refusals():
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
