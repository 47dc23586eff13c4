"""Commands from signatures: what they take, and how errors name it."""

import pytest
import typer
from typer.testing import CliRunner

from constructive import ParameterError
from constructive.cli.program import command, described


@pytest.fixture
def called():
    """A program of one command, and what this was called with."""
    program, given = typer.Typer(), {}

    @command(program, choices={"colour": ("red", "dark blue")})
    def paint(
        wall: str, *, colour: str = "red", coats: list[int] | None = None, as_json: bool = False,
        heads: int = 1,
    ) -> None:  # fmt: skip
        """Paint it.

        Args:
            wall: Which one, of two,
                or of more.
            colour: A word.
            coats: Thickness.

        Example:

            paint north
        """
        given.update(wall=wall, colour=colour, coats=coats, as_json=as_json)
        if heads == 0:
            raise ParameterError("num_heads=0 is few", suggestion="num_heads >= 1")

    return lambda *words: CliRunner().invoke(program, [*words]), given, paint


def test_a_signature_makes_a_command(called):
    run, given, _ = called
    assert run("north", "--colour", "dark blue", "--coats", "2", "--json").exit_code == 0
    assert given == {"wall": "north", "colour": "dark blue", "coats": [2], "as_json": True}
    assert run("north").exit_code == 0
    assert given == {"wall": "north", "colour": "red", "coats": None, "as_json": False}
    for words in ([], ["north", "--colour", "green"], ["north", "--coats", "few"]):
        assert run(*words).exit_code == 2


def test_a_docstring_says_what_options_are(called):
    run, _, paint = called
    text = " ".join(run("--help").output.replace("│", " ").split())
    for words in ("Which one, of two, or of more.", "Number H of heads.", "paint north"):
        assert words in text
    assert "Args:" not in text
    assert described(paint)[1] == {
        "wall": "Which one, of two, or of more.", "colour": "A word.", "coats": "Thickness.",
    }  # fmt: skip


def test_an_error_names_the_option(called):
    run, _, _ = called
    error = run("north", "--heads", "0").exception
    assert error.__notes__ == ["  num_heads is the option --heads"]
