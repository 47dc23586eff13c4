"""constructive curve: a table of what decoders of a text cost."""


def test_the_table_has_all_decoders_and_limits(run, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("the cat sat on the mat, and the cat saw the rat. " * 3)
    table = run("curve", str(file), "--limit", "40", "--quiet")
    assert "N = 40 tokens" in table
    for line in ("full heads", "any labels, 1 integer", "limit for any labels", "xz"):
        assert line in table
    assert "  no\n" not in table


def test_what_is_not_text_is_refused(program, tmp_path):
    file = tmp_path / "text.txt"
    for content, word in ((b"", "empty"), (b"\xff", "UTF-8")):
        file.write_bytes(content)
        done = program("curve", str(file))
        assert done.returncode == 2
        assert word in done.stderr
