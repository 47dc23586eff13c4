"""Pictures: what is drawn is what was computed, and files are whole."""

import dataclasses
import itertools
import sys
from xml.etree import ElementTree as ET

import matplotlib.text
import numpy as np
import pytest

from constructive import (
    DataError,
    OutputError,
    ParameterError,
    Text,
    build_decoder,
    build_memorizer,
    generators,
    plot_heads,
)
from constructive.figures import (
    capacity,
    decoders,
    drawing,
    figures,
    heads,
    memorized,
    prepare,
    sequences,
)
from constructive.figures.real_data import (
    digits,
    random_attention_layer,
    sinusoidal_positions,
    text,
)
from constructive.theory.assumptions import dependent_share

SUBSETS = {"subsets": 20}


CURVES = (
    "after attention", "sinusoidal positions", "independent subsets", "digits: subsets of",
    "text: subsets of",
)  # fmt: skip


SIZES = {"width": 6, "heads": 3, "tokens": 4, "swept": ((1, 3), (1, 4), (4, 5), (1, 4))}


PANELS = (
    "heads H", "tokens n", "width d", "head dimension d_h", "H = 3, n = d_h = 4", "examples T",
    "Theorem 1: H(min(n, d_h) - 1) + 1", "Theorem 2: H(n - 1) + 1",
    "c(E; H): the most for fixed heads", "proved: rank of Z", "built: Theorem 1",
    "free heads, at least", "free heads, at most: c_1",
)  # fmt: skip


LAWS = {
    "memorized": ("Memorized", {
        "width": 6, "tokens": 3, "heads": 2, "many_heads": 3, "built": (((2, 3, 6),), ((2, 3, 6),)),
        "swept": ((1, 4), (2, 3), (1, 6)),
    }, (
        "free heads, at most: c_1", "free heads, at least", "fixed heads: c(E; H)", "Theorem 1",
        "built: real numbers", "one context, n = 3", "own contexts, H = 3, n = 3",
        "d = 6; d_h = 6 where it is not the axis",
    )),
    "kruskal-rank": ("Figure 1: ", SUBSETS, (*CURVES, "after attention, rank in float32")),
    "capacity": ("Figures 2 and 5: ", SIZES, PANELS),
    "saturation": ("Figure 3: ", {}, (
        "H = 8, T = 41", "H = 4, T = 21", "n = 6, d = 64", "example", "head", "saturated heads",
        "weight off the top token",
    )),
    "general-position": ("Figure 4: ", SIZES, (
        *PANELS, "built: Theorem 2", "built: generic",
        "the paper: H(d - 1) + 1",
    )),
    "tokens-in-general-position": ("Tokens", SUBSETS, CURVES),
    "assumptions": ("Table 1: ", {"examples": 100, **SUBSETS}, ("T = 100 examples, n = 16",)),
    "recital": ("A decoder", {"tokens": 120}, (
        "head 1 of 2", "head 2 of 2", "token that is seen", "position that looks",
        "attention weight", "float32: each of 120 next tokens wins",
    )),
    "curve": ("What recitation costs", {"tokens": 60, "kinds": (
        "any labels, 2 integers", "any labels, 1 integer", "inequalities, 1 integer",
    )}, (
        "any labels, 1 integer", "the text under xz", "limit for any labels",
    )),
    "sequences": ("Sequences", {"largest": 128}, (
        "product hash: exponent", "separating set", "sqrt(N)",
        "heads of rank one (Theorem 2), n = 8",
    )),
    "planted": ("A needle and a corner", {}, (
        "needle, maximum in the ring", "corner, maximum in the ring", "unsat", "X_1",
    )),
}  # fmt: skip


"""For each figure, how its title begins, what makes it quick, and what stands in it."""


TWIN = "tokens-in-general-position"


"""Drawn by the class of Figure 1."""


TWICE = {"capacity", "planted"}  # a sweep, a map: each run is the same
OPTIONAL = {"matplotlib", "sklearn"}


@pytest.fixture
def texts(monkeypatch):
    """All texts that matplotlib draws, by page: what stands there, and its box in pixels."""
    pages = {}
    draw = matplotlib.text.Text.draw

    def seen(self, renderer):
        draw(self, renderer)
        if self.get_text() and self.get_visible():
            figure, box = self.get_figure(root=True), self.get_window_extent(renderer)
            page = figure, *figure.bbox.extents  # its size in pixels differs between formats
            pages.setdefault(page, {})[self] = self.get_text(), box  # layouts draw it twice

    monkeypatch.setattr(matplotlib.text.Text, "draw", seen)
    return pages


def require_legible(texts):
    """No text leaves its page, or covers another."""
    for (_, left, bottom, right, top), written in texts.items():
        for content, box in written.values():
            assert left <= box.x0 <= box.x1 <= right, content
            assert bottom <= box.y0 <= box.y1 <= top, content
        for (one, first), (other, second) in itertools.combinations(written.values(), 2):
            across = min(first.x1, second.x1) - max(first.x0, second.x0)
            along = min(first.y1, second.y1) - max(first.y0, second.y0)
            assert min(across, along) <= 2, (one, other)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == TWIN)) for n in LAWS]
)
def test_figure(name, tmp_path, monkeypatch, texts):
    title, quick, labels = LAWS[name]
    figure = dataclasses.replace(figures()[name], **quick)
    assert figure.title.startswith(title)
    folders = [tmp_path / "first", tmp_path / "second"][: 2 if name in TWICE else 1]
    for folder in folders:
        folder.mkdir()
        with monkeypatch.context() as missing:
            for module in OPTIONAL - set(figure.needs):
                missing.setitem(sys.modules, module, None)
            figure.draw(folder / figure.file)
    require_legible(texts)
    (path,) = folders[0].iterdir()
    assert path.name == figure.file
    assert path.read_bytes() == (folders[-1] / path.name).read_bytes()
    content = path.read_text()
    assert not [label for label in labels if label not in content]
    if path.suffix == ".svg":
        assert ET.fromstring(content).tag.endswith("svg")  # noqa: S314 - our own file
        assert "prefers-color-scheme: dark" in content
        assert "#ffffff" not in content  # nothing white behind it


def test_no_figure_is_left_out():
    assert list(figures()) == list(LAWS)


@pytest.mark.parametrize("name", figures())
def test_a_quick_figure_is_the_same_of_less(name):
    whole = figures()[name]
    quick = whole.quick()
    assert (quick.title, quick.file) == (whole.title, whole.file)
    numbers = [
        (getattr(quick, field.name), getattr(whole, field.name))
        for field in dataclasses.fields(whole)
    ]
    assert all(less <= more for less, more in numbers if isinstance(more, int))
    assert quick != whole or name in {"planted", "recital", "saturation"}  # these take seconds


def test_the_gallery(tmp_path):
    folder = tmp_path / "of" / "pictures"
    ((figure, path),) = prepare(folder, ["capacity"], quick=True)
    assert (figure, path) == (figures()["capacity"].quick(), folder / "figure-2-capacity.svg")
    assert folder.is_dir()


def test_attention_off_the_top():
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=3)
    attention = memorizer.layer.attention(data.contexts, data.queries)
    off_top = heads.attention_off_top(memorizer, data)
    np.testing.assert_allclose(off_top, 1 - attention.max(axis=2).T, atol=1e-15)


@pytest.mark.parametrize(
    ("construction", "heads", "panels"),
    [("rank_one", 13, 4), ("saturated", 3, 3), ("tangent", 3, 2)],
)
def test_the_heads_of_a_memorizer(construction, heads, panels, tmp_path):
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=heads, construction=construction)
    plot = plot_heads(memorizer, data)
    *drawn, _bar = plot.figure.axes
    assert repr(plot) == f"Plot('{construction} heads: H = {heads}, T = 7')"
    assert len(drawn) == panels
    plot.save(tmp_path / "heads.svg")
    assert plot._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(DataError, match="do not fit the layer"):
        plot_heads(memorizer, generators.uniform(num_examples=7, context_size=3, width=4))
    for wrong in ((memorizer, data.contexts), (memorizer.layer, data)):
        with pytest.raises(ParameterError):
            plot_heads(*wrong)


def test_the_heads_of_pairs_on_other_examples():
    data = generators.uniform(num_examples=7, context_size=3, width=6)
    memorizer = build_memorizer(data, num_heads=4, construction="paired")
    assert repr(plot_heads(memorizer, data.take([3, 1]))) == "Plot('paired heads: H = 4, T = 2')"


@pytest.mark.parametrize(
    ("shared", "size", "head_dim", "totals"),
    [
        (False, 4, 4, [10, 10, 18]),
        (False, 4, 1, [1, 10, 18]),  # only Theorem 1 asks for more than d_h = 1
        (False, 1, 1, [1, 1, 6]),
        (True, 4, 4, [10]),
    ],
)
def test_built_weights_carry_both_tasks(shared, size, head_dim, totals):
    sizes = 3, size, head_dim, 6
    point = capacity.measure(sizes, shared=shared)
    assert [point[name] for name in point if name.startswith("built")] == totals
    assert point["proved: rank of Z"] == max(totals)
    lines = capacity.bounds_at(sizes, shared=shared)
    assert lines["c(E; H): the most for fixed heads"] == max(totals)


def test_built_tangent_heads_return_their_targets():
    sizes, proved = (2, 3, 3), memorized.proved((2, 3, 3), 6, shared=False)
    assert memorized.built_at(sizes, 6, shared=False) == int(0.8 * proved["free heads, at least"])
    assert list(proved.values()) == sorted(proved.values(), reverse=True)


def test_what_floats_cannot_carry_does_not_count_as_built():
    assert capacity.built_at((20, 32, 1, 64), "rank_one", 621, shared=True) == 0


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


def test_a_rank_in_float32_is_less_than_the_exact_one():
    figure, after = figures()["kruskal-rank"].quick(), digits()[-1]
    assert dependent_share(after.dataset.queries, 64, subsets=figure.subsets).dependent == 0
    seeming = [figure.seemingly_independent(after, k) for k in (48, 64)]
    assert seeming == [1.0, 0.0]


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


def test_the_table(tmp_path):
    path = tmp_path / "table.txt"
    dataclasses.replace(figures()["assumptions"], examples=100, subsets=20).draw(path)
    rows = {tuple(line.split()[:2]): line for line in path.read_text().splitlines()[3:]}
    assert "REFUTED (100)" in rows["digits", "embedded"]
    assert rows["digits", "after"].split().count("PROVED") == 2
    assert rows["text", "sinusoidal"].split()[3:5] == ["PROVED", "REFUTED"]
    assert rows["text", "after"].split().count("PROVED") == 2


def test_bad_input(tmp_path):
    with pytest.raises(ParameterError, match="unknown figure 'cat'"):
        prepare(tmp_path, ["cat"])
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="no such folder"):
        prepare(tmp_path / "file" / "folder")
    (tmp_path / "sequences-parameters.svg").touch(0o400)
    with pytest.raises(OutputError, match="it is write-protected"):
        prepare(tmp_path, ["sequences"])


def test_growth():
    points = sequences.growth(100, "separating_set")
    assert [point.record.num_sequences for point in points] == [64, 100]
    assert points[0].record.construction == "separating_set"
    assert len(sequences.growth(64, "product_hash")) == 1
    assert sequences.exponent([16, 64], [16, 64], after_log=True) == pytest.approx(
        1 - np.log(1.5) / np.log(16)
    )


# The picture of a decoder: attention is that of the layer, and titles say what is proved.


CAT = "the cat sat on the mat, and the cat saw the rat"


@pytest.fixture
def pictured(tmp_path):
    """Draw a decoder: the words in its picture."""

    def pictured(decoder, text):
        figure = drawing.new_figure(decoders.HEIGHT)
        decoders.draw_recital(figure, decoder, text)
        drawing.write(figure, tmp_path / "picture.svg")
        return (tmp_path / "picture.svg").read_text()

    return pictured


@pytest.mark.parametrize("window", [None, 5])
def test_attention_is_that_of_the_layer(window):
    text = Text.words(CAT)
    decoder = build_decoder(text, width=64, window=window, num_heads=3)
    tokens = decoder.embedded(text.ids[np.newaxis])[0]
    weights = decoders.attention(decoder, text.ids, last=7, heads=2)
    assert weights.shape == (2, 7, 24)
    np.testing.assert_allclose(weights.sum(axis=2), 1.0, rtol=1e-5)
    z = decoder.layer.intermediate(tokens[np.newaxis])[0, -7:].reshape(7, 4, 64)
    np.testing.assert_allclose(weights @ tokens, z[:, 1:3].transpose(1, 0, 2), atol=1e-5)
    row, key = np.arange(17, 24)[:, np.newaxis], np.arange(24)
    unseen = (key > row) | (key <= row - (window or 24))
    assert (weights[:, unseen] == 0).all()
    assert decoders.attention(decoder, text.ids, last=100, heads=100).shape == (3, 24, 24)


@pytest.mark.parametrize(
    ("text", "window"),
    [(Text.of([5]), None), (Text.of([1, 2, 3], [4, 5] * 9), None), (Text.bytes(CAT), 4)],
)
def test_any_text(pictured, text, window):
    svg = pictured(build_decoder(text, width=64, window=window), text)
    assert f"each of {text.num_positions} next tokens wins" in svg


def test_what_is_not_proved_is_said(pictured):
    text = Text.words(CAT)
    decoder = build_decoder(text, width=64)
    swapped = text.ids.copy()
    swapped[[2, 4]] = swapped[[4, 2]]
    other = dataclasses.replace(text, ids=swapped)
    assert "of 24 next tokens are not proved to win" in pictured(decoder, other)
    coarse = pictured(decoder.stored_as("bfloat16"), text)
    assert "bfloat16: " in coarse
    # Logits of heads which are not exact: no bound at all, and the picture is there all the same.
    record = dataclasses.replace(decoder.record, storage="bfloat16")
    unbounded = dataclasses.replace(decoder, record=record)
    assert "24 of 24 next tokens are not proved to win" in pictured(unbounded, text)
