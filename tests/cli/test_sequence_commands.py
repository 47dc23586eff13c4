"""sequence build and ask on the command line, certify and check of what they write."""

import pytest

TEXT = "the cat sat on the mat, and the dog sat on the log; the cat saw the dog.\n" * 2
LINES = "one\ntwo\nthree\none\n\nowt\n"


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "lines.txt").write_text(LINES)
    return tmp_path


def test_the_next_byte(run, corpus):
    printed = run("sequence", "build", "text.txt", "-o", "m.json", "--save-data", "d.json")
    assert "N = 73 different windows and what follows, n = 13 bytes" in printed
    rows = [line.split() for line in printed.splitlines() if line.split()[1:2] == ["all"]]
    assert [row[0] for row in rows] == ["64", "73"]
    assert "written to m.json; the data are in d.json" in printed
    assert sorted(path.name for path in corpus.iterdir()) == [
        "d.json", "lines.txt", "m.json", "text.txt",
    ]  # fmt: skip
    assert run("sequence", "ask", "m.json", "the cat sat o").strip() == "b'n'"
    assert run("sequence", "ask", "m.json", "sat on the ma").strip() == "b't'"
    printed = run("certify", "m.json", "d.json", "-o", "c.json")
    assert "Certificate: PROVED" in printed
    assert run("check", "c.json", "m.json", "d.json").strip().endswith("PROVED")
    run("sequence", "build", "text.txt", "--limit", 20, "-o", "few.json", "--save-data", "e.json")
    printed = run("certify", "few.json", "d.json", "-o", "c.json", "--force", status=1)
    assert "equality  REFUTED" in printed
    assert "NOT PROVED" in run("check", "c.json", "few.json", "d.json", status=1)


def test_which_line_is_this(run, corpus):
    printed = run("sequence", "build", "lines.txt", "--question", "line", "-o", "m.json")
    assert "N = 5 different lines, n = 5 bytes" in printed
    for number, line in [(1, "one"), (2, "two"), (3, "three"), (5, ""), (6, "owt")]:
        assert run("sequence", "ask", "m.json", line).strip() == str(number)
    assert (corpus / "sequences-data.json").exists()


@pytest.mark.usefixtures("corpus")
def test_options(run):
    printed = run("sequence", "build", "text.txt", "--limit", 20, "--window", 14, "-o", "m.json",
                  "--construction", "separating_set", "--seed", 3)  # fmt: skip
    assert "N = 20 different windows and what follows, n = 14 bytes" in printed
    assert "separating_set, seed 3" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["build", "text.txt", "--window", 3], "is followed by b"),
        (["build", "text.txt", "--window", 500], "n=500 is not a length of windows"),
        (["build", "lines.txt", "--question", "line", "--window", 3], "is for the next byte"),
        (["build", "empty.txt"], "a text of 0 bytes has no next byte"),
        (["build", "empty.txt", "--question", "line"], "the text has no lines"),
        (["build", "none.txt"], "FileNotFoundError"),
        (["build", "text.txt", "-o", "none/m.json"], "no such folder"),
        (["build", "text.txt", "-o", "m.safetensors"], "this is a JSON file"),
        (["build", "text.txt", "--save-data", "d.csv"], ".csv is the ending of a table"),
        (["ask", "text.txt", "what"], "is not a file of SequenceMemorizer.save"),
    ],
)
def test_bad_input(run, corpus, arguments, words):
    (corpus / "empty.txt").write_text("")
    before = sorted(corpus.iterdir())
    assert words in run("sequence", *arguments, status=2)
    assert sorted(corpus.iterdir()) == before


@pytest.mark.usefixtures("corpus")
def test_questions_which_cannot_be_asked(run):
    run("sequence", "build", "text.txt", "--limit", 16, "-o", "m.json")
    printed = run("sequence", "ask", "m.json", "the", status=2)
    assert "what follows 3 bytes was not memorized" in printed
    lines = "--question", "line", "-o", "l.json", "--save-data", "ld.json"
    run("sequence", "build", "lines.txt", *lines)
    assert "7 bytes are more than n=5" in run("sequence", "ask", "l.json", "a longer"[:7], status=2)


def test_a_text_which_repeats_itself(run, corpus):
    (corpus / "long.txt").write_text("a" * 9000 + "b" + "a" * 5000)
    printed = run("sequence", "build", "long.txt", status=2)
    assert "4096 bytes do not decide the next one everywhere" in printed
