"""The smallest figure there is: a text file."""

from constructive.figures.figure import Figure
from constructive.support.progress import report


class Toy(Figure):
    title = "A toy"
    files = ("toy.txt",)
    needs = ()

    def draw(self, folder, *, executor=None):  # noqa: ARG002 - as figures are drawn
        report("play", 0, 1)
        path = folder / "toy.txt"
        path.write_text("a toy")
        return (path,)


TOY = Toy()
