"""A readout that only makes labels lead: for more examples than numbers allow."""

import numpy as np
import pytest

from constructive import (
    CapacityError,
    Dataset,
    Memorizer,
    ParameterError,
    build_memorizer,
    generators,
    labelings,
    padded,
)
from constructive.constructions.separation import separate
from constructive.support import errors


def labeled(total, classes=2, width=8, seed=0, **sizes):
    data = generators.uniform(num_examples=total, context_size=3, width=width, seed=seed, **sizes)
    labels = np.random.default_rng(seed).integers(0, classes, total)
    return Dataset.of_classes(data.contexts, data.queries, [f"class {i}" for i in labels])


def leads(memorizer, data):
    outputs, own = memorizer.predict(data.contexts, data.queries), data.target_matrix == 1
    return outputs[own] - np.where(own, -np.inf, outputs).max(axis=1)


@pytest.mark.parametrize(("total", "classes"), [(8, 2), (50, 2), (56, 2), (60, 3), (90, 5)])
def test_labels_of_more_examples_than_columns(total, classes):
    data = labeled(total, classes)  # H d = 32
    memorizer = build_memorizer(data, num_heads=4, fit="labels")
    assert leads(memorizer, data).min() > 0.99
    assert memorizer.record.lead == pytest.approx(leads(memorizer, data).min())
    names = [data.classes[place] for place in data.target_matrix.argmax(axis=1)]
    assert memorizer.predict_labels(data.contexts, data.queries).tolist() == names
    assert memorizer.record.construction == "generic"


def test_heads_that_nobody_asked_for():
    data = labeled(100)
    memorizer = build_memorizer(data, fit="labels")
    heads = memorizer.layer.num_heads
    assert labelings(100, heads, width=8, context_size=3).share >= 0.99
    assert labelings(100, heads - 1, width=8, context_size=3).share < 0.99
    assert leads(memorizer, data).min() > 0


def test_it_is_the_same_each_time_and_is_kept(tmp_path):
    data = labeled(40, 3)
    one, two, other = (build_memorizer(data, num_heads=4, fit="labels", seed=s) for s in (0, 0, 1))
    assert np.array_equal(one.layer.value_weights, two.layer.value_weights)
    assert not np.array_equal(one.layer.query_weights, other.layer.query_weights)
    one.save(tmp_path / "m.safetensors")
    loaded = Memorizer.load(tmp_path / "m.safetensors")
    assert loaded.record == one.record or np.isnan(one.record.condition)
    assert "labels lead by 1" in repr(loaded)
    assert "labels lead by" in str(loaded)


def test_options_of_random_heads_are_there():
    data = labeled(40)
    contexts = padded(data.contexts, np.arange(3) <= 1 + np.arange(40)[:, np.newaxis] % 2)
    names = [data.classes[place] for place in data.target_matrix.argmax(axis=1)]
    ragged = Dataset.of_classes(contexts, data.queries, names)
    for some, options in (
        (ragged, {}),
        (data, {"value_dim": 5, "head_dim": 2}),
        (data, {"shared_keys": True}),
    ):
        memorizer = build_memorizer(some, num_heads=4, fit="labels", **options)
        assert leads(memorizer, some).min() > 0


def test_labels_that_are_not_attained():
    with pytest.raises(CapacityError, match="no readout of them has these labels") as refused:
        build_memorizer(labeled(120), num_heads=4, fit="labels")
    assert refused.value.witness == 120
    assert "more heads" in refused.value.suggestion


def test_what_is_refused():
    data = labeled(20)
    numbers = Dataset(data.contexts, data.queries, np.arange(20.0))
    for some, options, words in (
        (numbers, {}, "for data with two classes or more"),
        (data.take(np.flatnonzero(data.targets[:, 0])), {"precision": 100}, "has a readout in"),
        (data, {"construction": "saturated"}, "does not take fit="),
        (data, {"construction": "paired"}, "does not take fit="),
        (data, {"value_dim": 1}, "one number for each class"),
    ):
        with pytest.raises(ParameterError, match=words):
            build_memorizer(some, num_heads=4, fit="labels", **options)
    with pytest.raises(ParameterError, match="fit='signs'"):
        build_memorizer(data, fit="signs")


def test_equations_that_no_memory_holds(monkeypatch):
    """Before anything is computed, with sizes and what to try."""
    monkeypatch.setattr(errors, "physical_memory", lambda: 1e6)
    with pytest.raises(ParameterError, match="for 90 classes and 8 columns of Z") as refused:
        separate(np.ones((100, 8)), np.arange(100) % 90, 90)
    assert "fit='targets'" in refused.value.suggestion


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_a_readout_or_a_combination_never_both(classes):
    rng = np.random.default_rng(classes)
    # With few examples of a class, a combination may be of the other classes alone.
    for total in (3, 6, 12, 24, 60) if classes == 2 else (3, 60):
        rows, labels = rng.standard_normal((total, 4)), rng.integers(0, classes, total)
        found = separate(rows, labels, classes)
        assert (found.effective is None) != (found.combination is None)
        own = np.arange(classes) == labels[:, np.newaxis]
        if found.effective is not None:
            outputs = rows @ found.effective
            assert (outputs[own] - np.where(own, -np.inf, outputs).max(axis=1)).min() > 0.99
        else:
            assert (found.combination[~own] < 0).all()
            assert np.abs(found.combination.sum(axis=1)).max() < 1e-9 * found.combination.max()
            assert np.abs(rows.T @ found.combination).max() < 1e-9 * found.combination.max()
