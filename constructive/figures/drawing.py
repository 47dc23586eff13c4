"""What all figures share: colours, a figure, and its files. Needs matplotlib."""

from pathlib import Path
from typing import Any

from constructive.support.errors import OutputError
from constructive.support.extras import require
from constructive.support.files import replacing

# Colours of Okabe and Ito (2008), which readers with any colour vision tell apart.
BLUE, ORANGE, GREEN, VERMILLION, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#666666"

COLOUR_MAP = "cividis"  # Dark to bright in equal steps, for the same readers


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


def new_figure(width: float, height: float) -> Any:  # noqa: ANN401 - of matplotlib, if installed
    """Return an empty figure, in inches. Raises MissingExtraError without matplotlib."""
    figures = require("matplotlib.figure", extra="demo", purpose="a picture")
    return figures.Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: Path) -> Path:  # noqa: ANN401
    """Write a picture, whole or not at all; the ending of its name says whether PNG or SVG.

    An old file of that name is replaced. Raises OutputError where it cannot be written, and for
    another ending.
    """
    require_picture(path)
    matplotlib = require("matplotlib", extra="demo", purpose="a picture")
    kind = path.suffix[1:].lower() or "png"
    # The same drawing gives the same bytes: no date, and names of SVG elements from their content.
    metadata = {"Date": None} if kind == "svg" else None
    with replacing(path) as file, matplotlib.rc_context({"svg.hashsalt": "constructive"}):
        figure.savefig(file, format=kind, dpi=130, metadata=metadata)
    return path


def save_both(figure: Any, folder: Path, name: str) -> tuple[Path, ...]:  # noqa: ANN401
    """Return the picture as NAME.png and NAME.svg."""
    return tuple(save(figure, folder / file) for file in both(name))


def both(name: str) -> tuple[str, ...]:
    """Return the files that `save_both` writes."""
    return f"{name}.png", f"{name}.svg"


def describe(axes: Any, *, x: str, y: str, title: str = "") -> None:  # noqa: ANN401
    """Name the axes, and take away lines that say nothing."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title, loc="left", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
