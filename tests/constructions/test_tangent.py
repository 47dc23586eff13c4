"""Tangent heads: as many examples as weights, whatever the targets are."""

import numpy as np
import pytest

from constructive import (
    AssumptionError,
    CapacityError,
    DataError,
    Dataset,
    ParameterError,
    PrecisionError,
    build_memorizer,
    certify,
    check,
    explain,
)
from constructive.constructions import tangent
from constructive.theory.capacity import fixed_capacity


def drawn(total, size, width, *, kind="gauss", outputs=None, shared=False, seed=1):
    rng = np.random.default_rng(seed)
    draw = rng.standard_normal if kind == "gauss" else (lambda shape: rng.uniform(0, 1, shape))
    shape = (size, width) if shared else (total, size, width)
    targets = rng.standard_normal(total if outputs is None else (total, outputs))
    return Dataset(draw(shape), draw((total, width)), targets)


@pytest.mark.parametrize("kind", ["gauss", "uniform"])
@pytest.mark.parametrize(
    ("size", "width", "heads", "head_dim", "room"),
    [(2, 16, 2, 8, 272), (8, 32, 4, 8, 1352), (3, 8, 3, 2, 62)],
)
def test_all_that_is_promised_is_memorized(kind, size, width, heads, head_dim, room):
    for total in (4 * room // 5, room):
        data = drawn(total, size, width, kind=kind)
        built = build_memorizer(data, num_heads=heads, head_dim=head_dim, construction="tangent")
        assert built.record.capacity == room
        assert built.max_error(data) == built.record.max_error < 1e-6
        largest = np.abs(built.layer.value_weights).max()
        assert largest < (1e3 if total < room else 1e6), "readouts are larger than they have to be"
        assert built.record.scale > 1


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.8, 1.0])
@pytest.mark.parametrize("kind", ["gauss", "uniform"])
@pytest.mark.parametrize(
    ("size", "width", "heads", "head_dim"), [(8, 32, 4, 16), (16, 64, 8, 8), (256, 32, 4, 8)]
)
def test_large_data_at_any_load(kind, size, width, heads, head_dim, load):
    asked = {"num_heads": heads, "head_dim": head_dim, "construction": "tangent"}
    room = explain(drawn(1, size, width), **asked).plan.capacity
    data = drawn(int(load * room), size, width, kind=kind)
    memorizer = build_memorizer(data, **asked)
    assert memorizer.max_error(data) < 1e-6
    if size == 256:  # certificates take about a minute of CPU time at a load of 1
        certificate = certify(memorizer, data, claims=["error", "onto", "near"])
        assert certificate.proved, certificate
        assert check(certificate, memorizer, data).proved


def test_more_than_that_is_refused_with_what_would_do():
    data = drawn(63, 3, 8)
    with pytest.raises(
        CapacityError, match="3 tangent heads with d_h=2: the construction memorizes 62"
    ) as caught:
        build_memorizer(data, num_heads=3, head_dim=2, construction="tangent")
    assert "almost no targets" not in str(caught.value)  # c_1 = 108
    heads = int(caught.value.suggestion.split()[0].removeprefix("num_heads="))
    assert build_memorizer(data, num_heads=heads, head_dim=2).max_error(data) < 1e-6
    with pytest.raises(CapacityError, match="almost no targets of more than 108"):
        build_memorizer(drawn(109, 3, 8), num_heads=3, head_dim=2, construction="tangent")


def test_auto_goes_on_to_it_where_fixed_heads_hold_too_few():
    assert build_memorizer(drawn(24, 3, 8), num_heads=3).record.construction == "generic"
    assert build_memorizer(drawn(25, 3, 8), num_heads=3).record.construction == "tangent"
    rng = np.random.default_rng(0)  # contexts in a plane, of which their shapes say nothing
    flat = rng.integers(-9, 9, (12, 3, 2)) @ rng.integers(-9, 9, (2, 8))
    data = Dataset(flat, rng.standard_normal((12, 8)), rng.standard_normal(12))
    assert fixed_capacity(data, num_heads=3).at_most == 6
    built = build_memorizer(data, num_heads=3)
    assert built.record.construction == "tangent"
    assert built.max_error(data) < 1e-6


def test_the_fewest_heads_have_a_load_of_four_fifths():
    data = drawn(200, 3, 8)
    built = build_memorizer(data, construction="tangent", head_dim=4)
    heads, room = built.layer.num_heads, built.record.capacity
    assert 0.8 * room >= 200
    fewer = explain(data, construction="tangent", head_dim=4, num_heads=heads - 1)
    assert 0.8 * fewer.plan.capacity < 200
    with pytest.raises(CapacityError, match="one token"):
        build_memorizer(drawn(20, 1, 8), construction="tangent")


@pytest.mark.parametrize("count", [2, 3, 100])
def test_labels_are_two_numbers_each(count):
    rng = np.random.default_rng(count)
    data = drawn(200, 4, 16)
    data = Dataset.of_classes(data.contexts, data.queries, rng.permuted(np.arange(200) % count))
    built = build_memorizer(data, num_heads=4, head_dim=8, construction="tangent")
    assert built.layer.value_dim == min(2, count - 1)
    labels = np.array(data.classes)[data.target_matrix.argmax(axis=1)]
    assert (built.predict_labels(data.contexts, data.queries) == labels).all()
    assert built.max_error(data) == built.record.max_error


def test_other_data():
    """One shared context, lengths, several outputs, repeated examples, and float32."""
    asked = {"num_heads": 4, "head_dim": 8, "construction": "tangent"}
    rng = np.random.default_rng(0)
    shared = drawn(120, 5, 16, shared=True)
    several = drawn(100, 4, 16, outputs=3)
    lengths = rng.integers(2, 6, 200)
    ragged = Dataset(
        [rng.standard_normal((n, 16)) for n in lengths],
        rng.standard_normal((200, 16)),
        rng.standard_normal(200),
    )
    twice = several.take([0, *range(100)])
    single = Dataset(
        *(x.astype(np.float32) for x in (several.contexts, several.queries)), several.targets
    )
    scaled = Dataset(1e-30 * several.contexts, 1e20 * several.queries, 1e9 * several.targets)
    for data in (shared, several, ragged, twice, single, scaled):
        built = build_memorizer(data, **asked)
        assert built.max_error(data) < 1e-6 * np.abs(data.targets).max()
    conflict = Dataset(twice.contexts, twice.queries, twice.targets + np.arange(101)[:, None])
    with pytest.raises(DataError, match="different targets"):
        build_memorizer(conflict, **asked)


def test_data_in_special_position_are_refused_with_their_rank():
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((30, 1, 8))
    pairs = np.concatenate([tokens, -tokens], axis=1)  # and one query for all
    data = Dataset(pairs, np.ones((30, 8)), rng.standard_normal(30))
    with pytest.raises((CapacityError, AssumptionError)):
        build_memorizer(data, num_heads=2, head_dim=2, construction="tangent")


def test_the_derivative_is_that_of_the_outputs():
    data = drawn(40, 4, 6, outputs=2)
    heads = tangent.Heads.of(data, (slice(0, 2), slice(2, 3)))
    rng = np.random.default_rng(0)
    shapes = (3, 6, 2), (3, 6, 2), (3, 6, 2)
    weights = tangent.HeadWeights(*(rng.standard_normal(shape) for shape in shapes))
    found = heads.tangent(weights)
    x = rng.standard_normal((40, 2))
    step = found.pull(x)
    ends = [
        heads.outputs(weights.moved(tangent.HeadWeights(*(h * part for part in step))))
        for h in (1e-5, -1e-5)
    ]
    moved = (found.gram(float) @ x.ravel()).reshape(x.shape)
    np.testing.assert_allclose((ends[0] - ends[1]) / 2e-5, moved, atol=1e-4 * np.abs(moved).max())
    assert np.abs(found.gram(np.float32) - found.gram(float)).max() < 1e-6 * found.gram(float).max()


@pytest.mark.parametrize(
    ("total", "tiny", "kind"), [(1081, False, "f4"), (1352, False, "f8"), (500, True, "f8")]
)
def test_float32_is_taken_where_it_is_enough(monkeypatch, total, tiny, kind):
    found = []
    take = tangent.Solver.of
    monkeypatch.setattr(tangent.Solver, "of", lambda of: found.append(take(of)) or found[-1])
    data = drawn(total, 8, 32)
    if tiny:
        sizes = np.where(np.arange(total) == 7, 1e-5, 1.0)[:, None, None]
        data = Dataset(data.contexts * sizes, data.queries, data.targets)
    built = build_memorizer(data, num_heads=4, head_dim=8, construction="tangent")
    assert built.max_error(data) < 1e-6
    assert found[0].factor.dtype == kind
    assert built.record.condition == found[0].condition


def test_a_matrix_beyond_memory_is_refused(monkeypatch):
    monkeypatch.setattr("constructive.support.errors.physical_memory", lambda: 159_999.0)
    with pytest.raises(ParameterError, match="200 x 200 numbers of 0 GB do not fit into memory"):
        build_memorizer(drawn(200, 4, 16), num_heads=4, head_dim=4, construction="tangent")


def test_outputs_of_any_size_each_have_their_own():
    data = drawn(20, 3, 6, outputs=4)
    targets = data.targets * [1.0, 1e-12, 0.0, 1e200]
    several = Dataset(data.contexts, data.queries, targets)
    built = build_memorizer(several, construction="tangent")
    errors = np.abs(built(several.contexts, several.queries) - targets).max(axis=0)
    assert (errors <= 1e-9 * np.abs(targets).max(axis=0)).all()
    zero = Dataset(data.contexts, data.queries, np.zeros(20))
    assert build_memorizer(zero, construction="tangent").record.max_error == 0


def test_contexts_of_equal_tokens_are_left_to_readouts():
    data = drawn(5, 3, 6)
    equal = Dataset(np.repeat(data.contexts[:, :1], 3, axis=1), data.queries, data.targets)
    built = build_memorizer(equal, construction="tangent")
    assert built.max_error(equal) < 1e-12


def test_where_float64_is_too_short_no_capacity_is_blamed():
    data = drawn(20, 3, 6)
    far = Dataset(data.contexts + 1e10, data.queries, data.targets)
    with pytest.raises(PrecisionError, match="cannot factor the derivative"):
        build_memorizer(far, construction="tangent")
