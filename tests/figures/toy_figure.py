"""The smallest figure there is: a text file."""

from constructive.figures.figure import Figure
from constructive.support.progress import report


def draw(folder, *, executor):  # noqa: ARG001 - as figures are drawn
    report("play", 0, 1)
    path = folder / "toy.txt"
    path.write_text("a toy")
    return (path,)


TOY = Figure("A toy", ("toy.txt",), draw)
