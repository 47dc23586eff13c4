"""Pictures: what is drawn is what was computed, and files are whole PNG and SVG."""

import dataclasses

import numpy as np
import pytest
from figure_conformance import check_figure
from toy_figure import TOY

from constructive import OutputError, ParameterError, build_memorizer, generators
from constructive.data.positions import sinusoidal_positions
from constructive.data.real import random_attention_layer
from constructive.figures import capacity, drawing, gallery, saturation, sequences
from constructive.figures.assumption_table import ASSUMPTIONS
from constructive.figures.curve import CURVE
from constructive.figures.independence import KRUSKAL, TOKENS
from constructive.figures.recital import RECITAL
from constructive.figures.registry import FIGURES
from constructive.figures.stages import digits, text
from constructive.sequences.growth import exponent, growth, prefixes
from constructive.theory.capacity_map import capacity_map

FEWER = {
    "width": 6, "heads": 3, "tokens": 4, "swept": ((1, 3), (1, 4), (4, 5), (1, 4)),
}  # fmt: skip
PANELS = (
    "heads H", "tokens n", "width d", "head dimension d_h", "H = 3, n = d_h = 4", "examples T",
    "Theorem 1: H(min(n, d_h) - 1) + 1", "Theorem 2: H(n - 1) + 1",
    "c(E; H): no weights exceed it", "rank Z, proved", "built: Theorem 1", "built: Theorem 2",
    "built: Theorem 10: H(d - 1) + 1", "built: generic, as many as proved",
)  # fmt: skip
STAGES = "after attention", "sinusoidal positions", "share of independent subsets"
FEW = {"subsets": 20, "candidates": (1, 2, 16)}
SMALL = {
    "kruskal-rank": (dataclasses.replace(KRUSKAL, **FEW), STAGES),
    "capacity": (dataclasses.replace(capacity.CAPACITY, **FEWER), PANELS),
    "saturation": (saturation.SATURATION, (
        "H = 8, n = 6, d = 64", "H = 4, n = 6, d = 64", "example", "head", "1 - max alpha",
    )),
    "general-position": (dataclasses.replace(capacity.GENERAL_POSITION, **FEWER), PANELS),
    "tokens-in-general-position": (dataclasses.replace(TOKENS, **FEW), STAGES),
    "assumptions": (dataclasses.replace(ASSUMPTIONS, subsets=20), ("T = 1797 examples, n = 16",)),
    "recital": (dataclasses.replace(RECITAL, tokens=120), (
        "head 1 of 2", "head 2 of 2", "token that is seen", "position that looks",
        "attention weight", "float32: each of 120 next tokens wins",
    )),
    "curve": (dataclasses.replace(CURVE, tokens=60, kinds=("any labels, 1 integer",)), (
        "any labels, 1 integer", "the text under xz", "limit for any labels",
    )),
    "sequences": (sequences.Parameters(largest=128), (
        "product hash: exponent", "separating set", "sqrt(N)",
        "heads of rank one (Theorem 2), n = 8",
    )),
    "toy": (TOY, ("a toy",)),
}  # fmt: skip
"""A quick one of each kind, and what stands in it."""
TWINS = {"tokens-in-general-position", "assumptions"}
"""Those of the stages that Kruskal's has, too."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in TWINS)) for n in SMALL]
)
def test_figure(name, tmp_path, monkeypatch):
    figure, labels = SMALL[name]
    check_figure(figure, tmp_path, monkeypatch, labels)


def test_no_figure_is_left_out():
    assert list(FIGURES) == [name for name in SMALL if name != "toy"]
    assert all(type(SMALL[name][0]) is type(FIGURES[name]) for name in FIGURES)


def test_the_gallery(tmp_path):
    (drawn,) = gallery.draw(tmp_path, only=["saturation"])
    assert drawn.paths == gallery.files(tmp_path, ["saturation"])
    assert (drawn.name, drawn.title) == ("saturation", "Figure 3: softmax saturation")
    assert drawn.seconds > 0


def test_attention_off_the_top():
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=3)
    attention = memorizer.layer.attention(data.contexts, data.queries)
    off_top = saturation.attention_off_top(memorizer, data)
    np.testing.assert_allclose(off_top, 1 - attention.max(axis=2).T, atol=1e-15)


@pytest.mark.parametrize(
    ("shared", "size", "head_dim", "totals"),
    [
        (False, 4, 4, [10, 10, 16, 18]),
        (False, 4, 1, [1, 10, 16, 18]),  # only Theorem 1 asks for more than d_h = 1
        (False, 1, 1, [1, 1, 6]),
        (True, 4, 4, [10]),
    ],
)
def test_built_weights_carry_both_tasks(shared, size, head_dim, totals):
    point, built = capacity.measure((3, size, head_dim, 6, shared))
    assert [one.goal.total for one in built] == totals
    assert [one.right for one in built] == totals
    assert point.lower == point.upper == max(totals)


def test_what_floats_cannot_carry_does_not_count_as_built():
    (point,) = capacity_map(
        num_heads=[20], context_size=[32], head_dim=[1], width=64, shared_context=True
    ).points
    assert (point.lower, point.upper) == (621, 621)
    assert capacity.built_at(point, capacity.Goal("Theorem 2", "rank_one", 621)).right == 0


def test_stages_are_what_they_say():
    for stages in (digits(), text()):
        assert [stage.stage for stage in stages] == [
            "embedded", "random positions", "sinusoidal positions", "after attention",
        ]  # fmt: skip
        assert {repr(stage.dataset) for stage in stages} == {
            "Dataset(T=1797, n=16, d=64, d_out=1, own contexts, float64)"
        }
    embedded, _, _, after = digits()
    tokens = embedded.dataset.contexts.reshape(-1, 64)
    scaled = tokens * 2.0**20
    assert (scaled == np.round(scaled)).all()  # nothing was rounded in embedding
    assert np.linalg.matrix_rank(tokens) == 4
    assert len(np.unique(embedded.dataset.queries, axis=0)) == 1
    assert len(np.unique(after.dataset.queries, axis=0)) == 1797


def test_positions_and_attention_against_their_definitions():
    encoding = sinusoidal_positions(7, 10)
    for position, k in [(0, 0), (3, 2), (6, 4)]:
        angle = position / 10000 ** (2 * k / 10)
        np.testing.assert_allclose(encoding[position, 2 * k : 2 * k + 2],
                                   [np.sin(angle), np.cos(angle)])  # fmt: skip
    tokens = np.random.default_rng(0).standard_normal((3, 4, 6))
    alone = random_attention_layer(tokens[:, :1], num_heads=2, seed=0)
    twice = random_attention_layer(tokens[:, [0, 0]], num_heads=2, seed=0)
    np.testing.assert_allclose(twice, np.repeat(alone, 2, axis=1))  # attention over equal tokens


@pytest.mark.slow
def test_the_table(tmp_path):
    (path,) = dataclasses.replace(ASSUMPTIONS, subsets=20).draw(tmp_path)
    rows = {tuple(line.split()[:2]): line for line in path.read_text().splitlines()[3:]}
    assert "REFUTED (1797)" in rows["digits", "embedded"]
    assert rows["digits", "after"].split().count("PROVED") == 2
    assert rows["text", "sinusoidal"].split()[3:5] == ["PROVED", "REFUTED"]
    assert rows["text", "after"].split().count("PROVED") == 2


def test_bad_input(tmp_path):
    with pytest.raises(ParameterError, match="unknown figure 'cat'"):
        list(gallery.draw(tmp_path, only=["cat"]))
    with pytest.raises(OutputError, match="no such folder"):
        list(gallery.draw(tmp_path / "none"))
    with pytest.raises(ParameterError, match="unknown figure 'cat'"):
        gallery.files(tmp_path, ["cat"])
    (tmp_path / "sequences-parameters.svg").touch(0o400)
    with pytest.raises(OutputError, match="it is write-protected"):
        list(gallery.draw(tmp_path, only=["sequences"]))


def test_only_what_is_exact_is_drawn():
    (point,) = growth([[1], [2]], [1, 2])
    wrong = dataclasses.replace(point, exact=False)
    with pytest.raises(ParameterError, match="predicts other labels is not drawn"):
        sequences.draw_points(drawing.new_figure(2, 2), {"product hash": [wrong]})


def test_growth():
    windows = [[i, i * i] for i in range(100)]
    labels = [i % 7 for i in range(100)]
    points = list(growth(windows, labels, totals=[10, 100], construction="separating_set"))
    assert [(p.num_sequences, p.num_keys, p.exact) for p in points] == [
        (10, 10, True), (100, 100, True),
    ]  # fmt: skip
    assert points[0].memorizer.record.construction == "separating_set"
    assert prefixes(64) == (64,)
    assert prefixes(3) == (3,)
    with pytest.raises(ParameterError, match="totals=101 is not between 1 and 100"):
        next(growth(windows, labels, totals=[101]))
    with pytest.raises(ParameterError, match=r"keys=\[5\] give no slope"):
        exponent([5], [3])
    assert exponent([16, 64], [16, 64], after_log=True) == pytest.approx(
        1 - np.log(1.5) / np.log(16)
    )
