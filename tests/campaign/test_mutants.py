"""Mutants are one change each; and the table of those that survive is that of the records."""

import json
import os
import signal
import tempfile
from collections import Counter

import mutants
import pytest

SOURCE = """
def f(x, y):
    require(x > 1, f"{x + 1} of 2")
    if x <= y or not abs(x) == -2:
        raise ValueError(x - 1)
    return up(max(x, y)) * 0.5
"""


def test_each_mutant_is_one_change_of_what_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text(SOURCE)
    made = list(mutants.mutants(tmp_path / "a.py"))
    words = [mutant.told.split(" -> ")[1] for mutant in made]
    assert Counter(words) == Counter(
        ["GtE", "LtE", "0", "2", "left out", "left out", "left out", "left out", "Lt", "Gt", "And",
         "NotEq", "1", "3", "UAdd", "min", "Div", "1.0", "0.25"]
    )  # fmt: skip
    codes = {dict(mutants.functions(mutant.code()))["f", 2].co_code for mutant in made}
    constants = {dict(mutants.functions(mutant.code()))["f", 2].co_consts for mutant in made}
    assert len(codes) + len(constants) > len(made)


def test_a_mutant_is_put_where_functions_are(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    path, space = tmp_path / "b.py", {}
    path.write_text("def f(x):\n    return x + 1\n")
    exec(compile(path.read_text(), str(path), "exec"), space)  # noqa: S102
    known = space["f"]
    (less, *_) = [m for m in mutants.mutants(path) if m.told.endswith("Sub")]
    mutants.put_in_place(path, dict(mutants.functions(less.code())))
    assert known(5) == 4


@pytest.mark.parametrize(("waits", "status"), [(False, 3), (True, -signal.SIGKILL)])
def test_a_process_that_waits_for_ever_is_killed(monkeypatch, waits, status):
    """Also where no handler of signals would run."""
    monkeypatch.setattr(mutants, "LONGEST", 0.2)
    with tempfile.TemporaryFile("w+") as told:
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            if waits:
                signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
                signal.pause()
            os._exit(3)
        assert mutants.status_of(child, told) == status


def test_the_page_has_the_table_of_the_records():
    text = mutants.PAGE.read_text()
    assert text == mutants.page(text, json.loads(mutants.RECORDS.read_text()))


def test_a_run_is_recorded(tmp_path, monkeypatch):
    records, page = tmp_path / "mutants.json", tmp_path / "mutants.md"
    records.write_text('{"exact/dyadic": {"why": "a"}}')
    page.write_text("# Mutants\n\n| module | old |\n|---|---|\n\nend\n")
    monkeypatch.setattr(mutants, "RECORDS", records)
    monkeypatch.setattr(mutants, "PAGE", page)
    path = mutants.ROOT / "constructive" / "exact" / "dyadic.py"
    mutants.add(path, Counter(killed=5, survived=1), ["dyadic.py:3 + -> -"], sampled=True)
    assert json.loads(records.read_text())["exact/dyadic"]["survivors"] == ["dyadic.py:3 + -> -"]
    row = page.read_text().splitlines()[4]
    assert row.startswith("| `exact/dyadic` | 6* | 1 | 20")
    assert row.endswith(" | a |")
    assert page.read_text().endswith("\nend\n")


def test_records_of_modules_that_are_gone_are_dropped(tmp_path, monkeypatch):
    records, page = tmp_path / "mutants.json", tmp_path / "mutants.md"
    records.write_text('{"exact/gone": {"why": "a"}}')
    page.write_text("| module | old |\n\n")
    monkeypatch.setattr(mutants, "RECORDS", records)
    monkeypatch.setattr(mutants, "PAGE", page)
    path = mutants.ROOT / "constructive" / "exact" / "directed.py"
    mutants.add(path, Counter(killed=5), [], sampled=False)
    assert list(json.loads(records.read_text())) == ["exact/directed"]
    assert "gone" not in page.read_text()
