"""Memorizers in files, and how they print."""

import json
import math

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from constructive import DataError, Dataset, FormatError, Memorizer, build_memorizer, generators
from constructive.support.tables import Sheet, Shown, new_table


@pytest.fixture
def data():
    return generators.gaussian(num_examples=7, context_size=3, width=5, seed=1)


@pytest.fixture
def memorizer(data):
    return build_memorizer(data, num_heads=3)


@pytest.fixture
def saved(memorizer, tmp_path):
    path = tmp_path / "memorizer.safetensors"
    memorizer.save(path)
    return path


def test_files_keep_every_bit(memorizer, saved, data):
    again = Memorizer.load(saved)
    assert again.record == memorizer.record
    for name, weights in vars(memorizer.layer).items():
        assert (weights == vars(again.layer)[name]).all()
    assert again.max_error(data) == memorizer.max_error(data)
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_tensors_have_the_names_of_the_theory_and_keep_their_dtype(memorizer, saved):
    memorizer.astype(np.float32).save(saved)
    shapes = {name: tensor.shape for name, tensor in load_file(saved).items()}
    heads = {"W_Q": (3, 5, 3), "W_K": (3, 5, 3), "W_V": (3, 5, 1)}
    assert shapes == heads | {"W_O": (3, 1), "W_D": (1, 1)}
    assert Memorizer.load(saved).layer.query_weights.dtype == np.float32


def metadata_of(path):
    content = path.read_bytes()
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]


def rewrite(path, *, tensors=None, **metadata):
    merged = {**metadata_of(path), **metadata}
    save_file(tensors or load_file(path), path, metadata=merged)


def record_with(path, **changes):
    return json.dumps({**json.loads(metadata_of(path)["record"]), **changes})


def trained(**changes):
    fields = {"source": "Module", "scalar_targets": True, "constant": False}
    return json.dumps(fields | changes)


def heads_with(path, **changes):
    (first, *others) = json.loads(metadata_of(path)["record"])["heads"]
    return record_with(path, heads=[first | changes, *others])


OF_HEADS = "start", "stop", "sharpness", "saturated_fraction", "rank_reached"
OF_RECORDS = (
    "num_examples", "context_size", "capacity", "seed", "saturated_fraction", "condition",
    "max_error", "largest_target", "precision", "coupled",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "name"),
    [(heads_with, name) for name in OF_HEADS] + [(record_with, name) for name in OF_RECORDS],
)
def test_numbers_of_a_record_are_in_range(saved, changed, name):
    """And whatever is read is shown: what is not estimated is NaN or infinite."""
    for value in (-1, 2**2000, True, math.inf, math.nan):
        rewrite(saved, record=changed(saved, **{name: value}))
        if name == "condition" and type(value) is float:
            assert "not estimated" in str(Memorizer.load(saved))
        else:
            with pytest.raises(FormatError, match=f"{name} is"):
                Memorizer.load(saved)


def without(tensors, name):
    return {other: array for other, array in tensors.items() if other != name}


NOT_RECORDS = [
    "{", "[]", "{}", "[" * 100_000, '"abc"', trained(source="a\x1b[2J"), trained(scalar_targets=1),
    trained(more=1),
]  # fmt: skip
CHANGES = [
    {"heads": []}, {"heads": 7}, {"max_error": "small"}, {"max_error": 10**400}, {"surprise": 1},
    {"num_examples": 10**9, "order": [0]}, {"num_examples": 10**30, "order": [0]},
]  # fmt: skip
TENSORS = [
    lambda _: {"W_Q": np.ones(3)},
    lambda tensors: {**tensors, "W_D": np.ones((2, 2))},
    lambda tensors: {**tensors, "W_D": np.full((1, 1), np.nan)},
    lambda tensors: {**tensors, "slopes": np.ones(3)},
    lambda tensors: without(tensors, "W_O"),
    lambda tensors: {name: array.astype(np.int64) for name, array in tensors.items()},
]
DAMAGE = [
    *(lambda path, cut=cut: path.write_bytes(path.read_bytes()[:cut]) for cut in (0, 30, -5)),
    lambda path: rewrite(path, format="another"),
    lambda path: save_file(load_file(path), path),  # without a record
    *(lambda path, text=text: rewrite(path, record=text) for text in NOT_RECORDS),
    *(lambda path, new=new: rewrite(path, record=record_with(path, **new)) for new in CHANGES),
    *(lambda path, new=new: rewrite(path, tensors=new(load_file(path))) for new in TENSORS),
    lambda path: rewrite(
        path, tensors={**load_file(path), "W_D": np.ones((1, 2))}, record=trained()
    ),
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_files_that_are_not_memorizers(saved, damage):
    damage(saved)
    with pytest.raises(FormatError) as caught:
        Memorizer.load(saved)
    assert str(saved) in caught.value.problem
    assert "Memorizer.save" in caught.value.suggestion


def test_a_single_example_has_no_others_to_saturate_on():
    memorizer = build_memorizer(Dataset([[1, 2]], [[3, 4]], [5]), num_heads=1)
    assert str(memorizer).splitlines()[-1].split() == ["0", "0..0", "-", "-", "1", "of", "1"]


def test_predictions_have_the_shape_of_the_targets(data, memorizer):
    assert memorizer.predict(data.contexts, data.queries).shape == (7,)
    column = Dataset(data.contexts, data.queries, data.targets[:, np.newaxis])
    assert build_memorizer(column, num_heads=3).predict(data.contexts, data.queries).shape == (7, 1)


def test_max_error_of_other_targets(data, memorizer):
    off_by_one = Dataset(data.contexts, data.queries, data.targets + 1)
    assert abs(memorizer.max_error(off_by_one) - 1) < 1e-9
    wide = Dataset(data.contexts, data.queries, np.ones((7, 2)))
    with pytest.raises(DataError, match="targets have d_out=2, the layer 1"):
        memorizer.max_error(wide)


def test_repr_is_one_line(memorizer):
    text = repr(memorizer)
    assert text.startswith("Memorizer(saturated, T=7 of 7, H=3, n=3, d=5, d_h=3, max error ")
    assert "\n" not in text


def test_str_is_a_table(memorizer):
    lines = str(memorizer).splitlines()
    assert lines[0] == "Memorizer: saturated heads, float64 weights"
    assert lines[1] == "  layer      H = 3, n = 3, d = 5, d_h = 3, 109 parameters"
    assert lines[2] == "  examples   7, bound H(min(n, d_h) - 1) + 1 = 7 (Theorem 1)"
    assert lines[-4].split() == [
        "head", "examples", "sharpness", "saturated", "rank", "reached", "(estimate)",
    ]  # fmt: skip
    assert lines[-3].split() == ["0", "0..2", "-", "0.0%", "3", "of", "3"]
    assert lines[-1].split()[-4:] == ["100.0%", "7", "of", "7"]


def test_large_tables_are_abridged():
    data = generators.gaussian(num_examples=41, context_size=3, width=5)
    lines = str(build_memorizer(data, num_heads=20)).splitlines()
    assert [line.split()[0] for line in lines[-12:]] == [*"01234567", "...", "17", "18", "19"]


def test_notebooks_show_the_text_and_what_is_in_it_escaped():
    class Titled(Shown):
        def _sheet(self):
            return Sheet("<title>", (("x", "1 < 2"),), new_table("a"))

    assert Titled()._repr_html_() == "<pre>&lt;title&gt;\n  x  1 &lt; 2</pre>"
