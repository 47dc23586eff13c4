"""Enclosures hold the truth; readouts of more bits than float64 has, and of rational numbers."""

import dataclasses
from fractions import Fraction

import flint
import numpy as np
import oracle
import pytest
from hypothesis import given, settings

from constructive import (
    CapacityError,
    DataError,
    Dataset,
    ExtendedLayer,
    Memorizer,
    ParameterError,
    PrecisionError,
    RationalDataset,
    build_memorizer,
    build_rational,
    certify,
    generators,
    strategies,
)
from constructive.exact import balls
from constructive.exact.balls import bounded_logits, head_factors, relevant_tokens
from constructive.layers import extended

# Balls hold the truth, as an oracle finds it in 900 bits.


def logits_of(layer, data):
    factors = head_factors(layer.query_weights, layer.key_weights)
    return bounded_logits(factors, data.queries, data.contexts_of(slice(None)))


@pytest.mark.parametrize("exponent", [-530, 0, 200])
def test_logits_are_within_their_bounds(exponent):
    rng = np.random.default_rng(0)
    w_q, w_k = rng.standard_normal((2, 2, 4, 2)) * 2.0**exponent
    # The products of one head nearly cancel: sizes are not those of what is left.
    w_q[1, :, 1], w_k[1, :, 1] = w_q[1, :, 0], -(1 + 2.0**-50) * w_k[1, :, 0]
    queries, contexts = rng.standard_normal((3, 4)), rng.standard_normal((3, 5, 4))
    found = bounded_logits(head_factors(w_q, w_k), queries, contexts)
    exact = [np.vectorize(Fraction, otypes=[object])(x) for x in (w_q, w_k, queries, contexts)]
    for t, h in np.ndindex(3, 2):
        truth = exact[3][t] @ (exact[1][h] @ (exact[2][t] @ exact[0][h]))
        for number, bound, logit in zip(
            found.numbers[t, h], found.bounds[t, h], truth, strict=True
        ):
            assert abs(Fraction(number) - logit) <= Fraction(bound)


def test_what_overflows_bounds_nothing():
    weights = np.full((1, 1, 1), 1e200)
    logits = bounded_logits(head_factors(weights, weights), np.ones((1, 1)), np.ones((1, 2, 1)))
    assert not (logits.bounds < np.inf).any()
    assert relevant_tokens(logits, 20).all()


@pytest.mark.parametrize(
    ("prec", "make", "construction"),
    [
        (40, generators.uniform, "saturated"),
        (53, generators.shared_context, "rank_one"),
        (200, generators.uniform, "rank_one"),
    ],
)
def test_the_layer_is_enclosed(prec, make, construction):
    data = make(num_examples=7, context_size=3, width=5, target_dim=2)
    layer = build_memorizer(data, num_heads=3, construction=construction, value_dim=3).layer
    truth = oracle.outputs(layer.tensors, data.arrays)
    for row in extended.enclose(layer, prec)(data):
        for entry, exact in zip(row.output.entries(), truth[row.example], strict=True):
            assert entry.overlaps(exact)
            assert float(entry.rad()) < 2.0 ** (20 - prec)


def test_precision_is_not_left_behind():
    before = flint.ctx.prec
    data = generators.uniform(num_examples=2, context_size=2, width=3)
    rows = extended.enclose(build_memorizer(data, num_heads=2).layer, 333)(data)
    next(rows)
    assert flint.ctx.prec == before


@settings(max_examples=25)
@given(strategies.memorizable())
def test_dropped_tokens_are_light(problem):
    layer, data = problem.build().layer, problem.dataset
    relevant = relevant_tokens(logits_of(layer, data), 20)
    assert relevant.any(axis=2).all()
    attention = layer.attention(data.contexts, data.queries)
    assert (attention[~relevant] <= 2.0**-20).all()


def test_solutions_in_balls():
    rng = np.random.default_rng(0)
    matrix, targets = rng.standard_normal((6, 6)), rng.standard_normal((6, 2))
    matrix[5] = matrix[0] + 1e-15 * matrix[5]
    square, right = balls.exact_matrix(matrix), balls.exact_matrix(targets)
    assert balls.solve(square, right, 20) is None  # too few bits to tell: no guess
    found = balls.solve(square, right, 200)
    with flint.ctx.workprec(200):
        assert (square * found).contains(right)
        assert (square * found - right).tolist()[0][0].rad() < 1e-25
    assert balls.solve(flint.arb_mat(2, 2), flint.arb_mat(2, 1), 100) is None


# Readouts of more bits than float64 has.


def worst_of(memorizer, data, examples):
    """The largest error on some examples, by the oracle."""
    some = data[examples]
    found = oracle.outputs(memorizer.layer.tensors, some.arrays)
    with flint.ctx.workprec(oracle.PREC):
        return max(
            abs(x - y)
            for row, target in zip(found, some.target_matrix.tolist(), strict=True)
            for x, y in zip(row, target, strict=True)
        )


@pytest.mark.parametrize("bits", [54, 106, 200])
def test_bits_beyond_float64_shrink_the_error(bits):
    data = generators.uniform(num_examples=7, context_size=3, width=5, target_dim=2)
    memorizer = build_memorizer(data, num_heads=3, value_dim=3, precision=bits)
    assert memorizer.record.precision == bits
    assert memorizer.max_error(data) < 2.0 ** (12 - bits)
    assert memorizer.record.max_error == memorizer.max_error(data)
    worst = worst_of(memorizer, data, range(7))
    assert worst <= memorizer.max_error(data)
    assert (memorizer.predict(data.contexts, data.queries) == data.targets).all()
    assert f"readout of {bits} bits" in str(memorizer)
    first, second, _ = memorizer.layer.output_weights.reshape(3, 3, 3)
    assert not (first == second).all()  # W_O tells heads apart


def test_auto_stays_with_float64_where_that_suffices():
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=3, precision="auto")
    assert memorizer.record.precision == 53
    same = build_memorizer(data, num_heads=3)
    assert (memorizer.layer.value_weights == same.layer.value_weights).all()


def test_rank_one_heads_on_a_shared_context_of_16_tokens():
    data = generators.shared_context(num_examples=46, context_size=16, width=64)
    options = {"num_heads": 3, "construction": "rank_one"}
    with pytest.raises(PrecisionError, match="float64 cannot carry") as caught:
        build_memorizer(data, **options, tolerance=1e-12)
    assert "precision='auto'" in caught.value.suggestion
    memorizer = build_memorizer(data, **options, tolerance=1e-12, precision="auto")
    assert memorizer.record.precision > 53
    assert memorizer.max_error(data) < 1e-15
    assert worst_of(memorizer, data, range(0, 46, 9)) <= memorizer.max_error(data)
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
        lambda bits: dataclasses.replace(memorizer.layer, precision=bits),
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
        dataclasses.replace(memorizer.layer, corrections=np.zeros((1, 2, 2, 1)))
    with pytest.raises(PrecisionError, match="misses the targets") as caught:
        build_memorizer(data, num_heads=2, precision=54, tolerance=1e-40)
    assert caught.value.suggestion == "precision=108"


# Equality of Fractions.


@settings(max_examples=25)
@given(strategies.memorizable())
def test_every_target_is_reproduced_exactly(problem):
    data = problem.dataset
    layer = build_rational(data, num_heads=problem.num_heads)
    found = layer(data.contexts, data.queries)
    assert found.shape == data.target_matrix.shape
    assert all(isinstance(x, Fraction) for x in found.ravel())
    assert (found == data.target_matrix).all()
    assert layer.max_error(data) == 0.0


def test_fractions_are_memorized_as_fractions():
    third = Fraction(1, 3)
    data = RationalDataset(
        [[third, 0], [third, 1]], [[1, Fraction(1, 5)], [0, 1], [1, 1]], [third, Fraction(-2, 7), 0]
    )
    layer = build_rational(data, num_heads=2, head_dim=2)
    outputs = layer(data.contexts, data.queries)
    assert outputs[:, 0].tolist() == [third, Fraction(-2, 7), 0]
    assert repr(layer) == "RationalLayer(H=2, d=2, d_h=2, d_out=1)"


def test_equality_fails_for_other_targets():
    data = generators.integers(num_examples=3, context_size=2, width=3)
    layer = build_rational(data, num_heads=2)
    moved = data.targets.copy()
    moved[np.flatnonzero(moved == 0)[0]] = 2.0**-1074
    other = Dataset(data.contexts, data.queries, moved)
    assert layer.max_error(other) == 2.0**-1074
    for wrong, words in (
        (Dataset(data.contexts, data.queries, np.zeros((3, 2))), "d_out=2, the layer 1"),
        (Dataset(np.ones((2, 4)), np.ones((3, 4)), np.zeros(3)), "queries have d=4, the layer d=3"),
    ):
        with pytest.raises(DataError, match=words):
            layer.max_error(wrong)


def test_rational_refusals():
    data = generators.integers(num_examples=4, context_size=2, width=3)
    with pytest.raises(CapacityError):
        build_rational(data, num_heads=1)
    with pytest.raises(ParameterError, match="num_heads=0"):
        build_rational(data, num_heads=0)
    same = data.take([0, 1, 2, 0])
    with pytest.raises(PrecisionError, match="gave Z rank T=4 in 24 attempts"):
        build_rational(same, num_heads=3)
    exact = RationalDataset(data.contexts, data.queries, data.targets)
    with pytest.raises(ParameterError, match="not a Dataset"):
        build_memorizer(exact, num_heads=2)
    floats = generators.uniform(num_examples=3, context_size=2, width=3)
    with pytest.raises(PrecisionError, match=r"logits of [0-9]+ ln 2") as caught:
        build_rational(floats, num_heads=2)
    assert "small integers" in caught.value.suggestion
    layer = build_rational(data, num_heads=3)
    with pytest.raises(DataError, match="not rational numbers"):
        RationalDataset([[["x"]]], [[1]], [1])
    with pytest.raises(DataError, match=r"is [0-9/-]+ ln 2"):
        layer(data.contexts, data.queries / 2**20)
