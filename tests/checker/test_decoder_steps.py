"""The steps of reading decoders in the checker: texts, and shapes of weights."""

import json

import numpy as np
import pytest
from refusals import refused

TEXT = {
    "format": "constructive text 1",
    "unit": "words",
    "prompt": 2,
    "vocabulary": ["a", "b", "c"],
    "texts": [[0, 1, 2], [2, 0]],
}


class TestTexts:
    """`read_texts`."""

    def read(self, checker, folder, **others):
        path = folder / "text.json"
        path.write_text(json.dumps(TEXT | others))
        return checker.decoders.read_texts(path, 1e9)

    def test_what_is_read(self, checker, tmp_path):
        texts, prompt, unit, vocabulary, data = self.read(checker, tmp_path)
        assert [ids.tolist() for ids in texts] == TEXT["texts"]
        assert (prompt, unit, vocabulary) == (2, "words", ["a", "b", "c"])
        assert (data["texts"], data["tokens"], data["vocabulary"]) == (2, 5, 3)
        other = self.read(checker, tmp_path, prompt=1)[-1]
        assert other["sha256"] != data["sha256"]

    @pytest.mark.parametrize(
        ("others", "word"),
        [
            ({"format": "constructive text 2"}, "not text"),
            ({"more": 1}, "unit"),
            ({"unit": "lines"}, "unit"),
            ({"vocabulary": "abc"}, "no text"),
            ({"texts": []}, "no text"),
            ({"texts": {"0": [0, 1]}}, "no text"),
            ({"vocabulary": ["a", "b", 3]}, "vocabulary"),
            ({"vocabulary": ["a", "b", "a"]}, "vocabulary"),
            ({"prompt": 0}, "prompt"),
            ({"prompt": True}, "prompt"),
            ({"prompt": 1.0}, "prompt"),
            ({"prompt": 3}, "shorter"),
            ({"texts": [[0, 1], "ab"]}, "shorter"),
            ({"texts": [[0, 1], [0, 3]]}, "a token"),
            ({"texts": [[0, 1], [0, -1]]}, "a token"),
            ({"texts": [[0, 1], [0, True]]}, "a token"),
            ({"texts": [[0, 1], [0, 1.0]]}, "a token"),
        ],
    )
    def test_what_is_not_text(self, checker, tmp_path, others, word):
        with refused(word):
            self.read(checker, tmp_path, **others)


SHAPES = {
    "embedding": (7, 3),
    "positions": (5, 3),
    "W_Q": (2, 3, 4),
    "W_K": (2, 3, 4),
    "U": (9, 6),
    "unembedding": (8, 6),
}


class TestShapes:
    """`require_shapes`: of seven tokens, and texts of five."""

    def require(self, checker, kinds=None, **others):
        shapes = {
            name: (np.dtype((kinds or {}).get(name, "<f4")), shape, 0)
            for name, shape in (SHAPES | others).items()
        }
        checker.decoders.require_shapes(shapes, 7, 5)

    def test_they_fit(self, checker):
        self.require(checker)
        self.require(checker, positions=(6, 3))
        self.require(checker, U=(9, 1), unembedding=(8, 1))

    @pytest.mark.parametrize("name", SHAPES)
    def test_types(self, checker, name):
        with refused("float32"):
            self.require(checker, {name: "<f8"})

    @pytest.mark.parametrize("axis", [0, 1, 2])
    @pytest.mark.parametrize("by", [-1, 1])
    @pytest.mark.parametrize("name", SHAPES)
    def test_each_size(self, checker, name, axis, by):
        """Any of them alone is another one, but for positions that no text has."""
        shape = list(SHAPES[name])
        if axis >= len(shape):
            shape = [*shape, 1]
        else:
            shape[axis] += by
        with refused(None if (name, axis, by) == ("positions", 0, 1) else r"axes|fit|unpack"):
            self.require(checker, **{name: tuple(shape)})


class TestPlaces:
    """`different`: which places of texts have a context that was not met before."""

    @pytest.mark.parametrize("prompt", [1, 2, 3])
    @pytest.mark.parametrize("window", [None, 1, 2, 3, 9])
    def test_as_contexts_are_defined(self, checker, window, prompt):
        """A place and the tokens in its window, also of texts before the prompt."""
        texts = [np.array(ids) for ids in ([0, 1, 1], [1, 1, 1, 2], [0, 1, 2, 0], [0, 1, 1, 2])]
        found = checker.decoders.different(texts, prompt, window).tolist()
        met, wanted, start = set(), [], 0
        for ids in texts:
            for i in range(len(ids)):
                context = (i, *ids[max(0, i + 1 - (window or 9)) : i + 1].tolist())
                wanted += [start + i] * (context not in met and i >= prompt - 1)
                met.add(context)
            start += len(ids)
        assert found == wanted
