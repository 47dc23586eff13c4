"""Readouts of more bits than float64 has."""

import mpmath
import numpy as np
import pytest
import reference

from constructive import (
    Dataset,
    ExtendedLayer,
    Memorizer,
    ParameterError,
    PrecisionError,
    build_memorizer,
    certify,
    generators,
)


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
