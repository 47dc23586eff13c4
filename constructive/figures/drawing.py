"""What all figures share: what one is, colours, and its file. Needs matplotlib to draw."""

import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from constructive.support.errors import OutputError, require
from constructive.support.files import replacing

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

    Axes = matplotlib.axes.Axes
    Canvas = matplotlib.figure.Figure

# Colours of Okabe and Ito (2008), which readers with any colour vision tell apart.
BLUE, ORANGE, GREEN, VERMILLION, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#666666"

# Dark to bright in equal steps, for the same readers.
COLOUR_MAP = "cividis"

# A page is 5.6 inches wide: type of 10 points is still read where that is shrunk to a phone.
WIDTH = 5.6

# What a viewer in dark mode sees in an SVG, whose background is transparent.
_INK = "#e6e6e6"
_DARK = {"#000000": _INK, GREY: "#a6a6a6", BLUE: "#56b4e9"}
_RULES = f"svg {{fill: {_INK}}}" + "".join(  # the fill of glyphs, of which matplotlib says nothing
    f' [style*="{part}: {light}"] {{{part}: {dark} !important}}'
    for light, dark in _DARK.items()
    for part in ("fill", "stroke")
)
_STYLE = "<style type="
_DARK_STYLE = f'{_STYLE}"text/css">@media (prefers-color-scheme: dark) {{{_RULES}}}</style>'


class Figure(ABC):
    """One figure. Its options are the fields of its dataclass, whose defaults are the paper's.

    The laws: `draw` writes one file, the same bytes each time; and nothing is computed where
    `require` raises.
    """

    title: str
    needs: ClassVar[tuple[str, ...]] = ("matplotlib",)  # modules of the extra `demo`

    @property
    @abstractmethod
    def file(self) -> str:
        """The name of the file that `draw` writes."""

    @abstractmethod
    def draw(self, path: Path) -> None:
        """Compute the figure, and write it, whole or not at all."""

    def quick(self) -> Self:
        """Return the same figure of less, drawn in seconds."""
        return self

    def require(self) -> None:
        """Raise MissingExtraError where a module is not installed."""
        for module in self.needs:
            require(module, extra="demo", purpose="this figure")


class Picture(Figure):
    """A figure of matplotlib, as NAME.svg."""

    name: str
    height: ClassVar[float]

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.name}.svg"

    @abstractmethod
    def paint(self, figure: "Canvas") -> None:
        """Compute and draw everything, in an empty figure of matplotlib."""

    def draw(self, path: Path) -> None:
        """Paint the figure, and save it."""
        figure = new_figure(self.height)
        self.paint(figure)
        write(figure, path)


def require_matplotlib() -> None:
    """Raise MissingExtraError without matplotlib; commands call it before they work."""
    require("matplotlib.figure", extra="demo", purpose="a picture")


def require_picture(path: Path) -> None:
    """Raise OutputError for a name with the ending of neither PNG nor SVG; it may have none."""
    if path.suffix.lower() not in ("", ".png", ".svg"):
        raise OutputError(
            f"cannot write {path}: pictures are PNG or SVG",
            witness=path.suffix,
            suggestion=str(path.with_suffix(".png")),
        )


def new_figure(height: float) -> "Canvas":
    """Return an empty figure, as wide as a page. Raises MissingExtraError without matplotlib."""
    figures = require("matplotlib.figure", extra="demo", purpose="a picture")
    figure: Canvas = figures.Figure(figsize=(WIDTH, height), layout="constrained")
    return figure


def write(figure: "Canvas", path: Path) -> None:
    """Write a picture, whole or not at all; the ending of its name says whether PNG or SVG.

    An old file of that name is replaced. A PNG is white behind; an SVG is transparent, with colours
    for light and for dark pages. Raises OutputError where it cannot be written, and for another
    ending.
    """
    require_picture(path)
    with replacing(path) as file:
        file.write(_svg(figure) if path.suffix.lower() == ".svg" else png(figure))


def png(figure: "Canvas") -> bytes:
    """Return a picture as a PNG file."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=200)
    return content.getvalue()


def _svg(figure: "Canvas") -> bytes:
    matplotlib = require("matplotlib", extra="demo", purpose="a picture")
    content = io.BytesIO()
    # The same drawing gives the same bytes: no date, and names of SVG elements from their content.
    with matplotlib.rc_context({"svg.hashsalt": "constructive"}):
        figure.savefig(content, format="svg", transparent=True, metadata={"Date": None})
    return content.getvalue().replace(_STYLE.encode(), f"{_DARK_STYLE}{_STYLE}".encode(), 1)


def describe(axes: "Axes", *, x: str, y: str, title: str = "") -> None:
    """Name the axes, and take away lines that say nothing."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title, loc="left", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)


def draw_series(
    axes: "Axes", styles: Mapping[str, dict[str, Any]], found: Sequence[tuple[int, dict[str, int]]]
) -> None:
    """Draw each series at the values where it is known, on a logarithmic axis of examples."""
    for name, style in styles.items():
        shown = [(value, point[name]) for value, point in found if name in point]
        if shown:
            axes.plot(*zip(*shown, strict=True), label=name, **style)
    axes.set_yscale("log")
