"""The smallest figure there is: a text file."""

from constructive.figures.figure import Figure


def draw(folder, *, executor, progress):  # noqa: ARG001 - as figures are drawn
    progress("play", 0, 1)
    path = folder / "toy.txt"
    path.write_text("a toy")
    return (path,)


TOY = Figure("A toy", ("toy.txt",), draw)
