"""What every figure has to keep: `check_figure`."""

import sys
from xml.etree import ElementTree as ET

import pytest
from matplotlib import image

from constructive import MissingExtraError


def check_figure(figure, folder, monkeypatch, labels=()):
    """Check the laws of a figure.

    figure: one that is quickly drawn;  folder: an empty one;  labels: what stands in it
    """
    assert figure.title
    for name in ("first", "second"):
        (folder / name).mkdir()
    first, second = (figure.draw(folder / name) for name in ("first", "second"))
    assert [path.name for path in first] == list(figure.files)
    assert sorted(first) == sorted((folder / "first").iterdir())
    for once, again in zip(first, second, strict=True):
        assert once.read_bytes() == again.read_bytes()
        if once.suffix == ".png":
            pixels = image.imread(once)
            assert min(pixels.shape[:2]) > 400
            assert pixels.std() > 0.05  # not empty
            continue
        content = once.read_text()
        if once.suffix == ".svg":
            assert ET.fromstring(content).tag.endswith("svg")  # noqa: S314 - our own file
        for label in labels:
            assert label in content
    check_needs(figure, monkeypatch)


def check_needs(figure, monkeypatch):
    """A figure names the extras that its module draws and reads with, and misses them."""
    module = sys.modules[type(figure).__module__]
    reads = hasattr(module, "digits") or hasattr(module, "english_text")
    assert figure.needs == ("matplotlib",) * hasattr(module, "drawing") + ("sklearn",) * reads
    for module in figure.needs:
        with monkeypatch.context() as missing:
            missing.setitem(sys.modules, module, None)
            with pytest.raises(MissingExtraError, match=f"needs {module}"):
                figure.require()
    figure.require()
