"""What a figure is: a title, its files, what it needs, and how it is drawn."""

from abc import ABC, abstractmethod
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, ClassVar

from constructive.figures import drawing
from constructive.support.extras import require


class Figure(ABC):
    """One figure. Its options are the fields of its dataclass, whose defaults are the paper's.

    The laws: `draw` writes `files` into the folder and nothing else, the same bytes each time; and
    nothing is computed where `require` raises.
    """

    title: str  # what it shows
    # the modules of the extra `demo` that it takes
    needs: ClassVar[tuple[str, ...]] = ("matplotlib",)

    @property
    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """The names of the files that `draw` writes."""

    @abstractmethod
    def draw(self, folder: Path, *, executor: Executor | None = None) -> tuple[Path, ...]:
        """Compute the figure, draw it into a folder, and return the paths of its files."""

    def require(self) -> None:
        """Raise MissingExtraError where a module is not installed."""
        for module in self.needs:
            require(module, extra="demo", purpose="this figure")


class Picture(Figure):
    """A figure of matplotlib, as PNG and as SVG."""

    name: str  # of its files
    inches: ClassVar[tuple[float, float]]  # width and height

    @property
    def files(self) -> tuple[str, ...]:
        """NAME.png and NAME.svg."""
        return drawing.both(self.name)

    @abstractmethod
    def paint(self, figure: Any, *, executor: Executor | None) -> None:  # noqa: ANN401 - of matplotlib
        """Compute and draw everything, in an empty figure of matplotlib."""

    def draw(self, folder: Path, *, executor: Executor | None = None) -> tuple[Path, ...]:
        """Paint the figure, and save it twice."""
        figure = drawing.new_figure(*self.inches)
        self.paint(figure, executor=executor)
        return drawing.save_both(figure, folder, self.name)
