"""The table of surviving mutants is that of the records."""

import json
from collections import Counter

import mutant_records


def test_the_page_has_the_table_of_the_records():
    text = mutant_records.PAGE.read_text()
    assert text == mutant_records.page(text, json.loads(mutant_records.RECORDS.read_text()))


def test_a_run_is_recorded(tmp_path, monkeypatch):
    records, page = tmp_path / "mutants.json", tmp_path / "mutants.md"
    records.write_text('{"exact/dyadic": {"why": "a"}}')
    page.write_text("# Mutants\n\n| module | old |\n|---|---|\n\nend\n")
    monkeypatch.setattr(mutant_records, "RECORDS", records)
    monkeypatch.setattr(mutant_records, "PAGE", page)
    path = mutant_records.ROOT / "constructive" / "exact" / "dyadic.py"
    mutant_records.add(path, Counter(killed=5, survived=1), ["dyadic.py:3 + -> -"], sampled=True)
    assert json.loads(records.read_text())["exact/dyadic"]["survivors"] == ["dyadic.py:3 + -> -"]
    row = page.read_text().splitlines()[4]
    assert row.startswith("| `exact/dyadic` | 6* | 1 | 20")
    assert row.endswith(" | a |")
    assert page.read_text().endswith("\nend\n")


def test_records_of_modules_that_are_gone_are_dropped(tmp_path, monkeypatch):
    records, page = tmp_path / "mutants.json", tmp_path / "mutants.md"
    records.write_text('{"exact/gone": {"why": "a"}}')
    page.write_text("| module | old |\n\n")
    monkeypatch.setattr(mutant_records, "RECORDS", records)
    monkeypatch.setattr(mutant_records, "PAGE", page)
    path = mutant_records.ROOT / "constructive" / "exact" / "directed.py"
    mutant_records.add(path, Counter(killed=5), [], sampled=False)
    assert list(json.loads(records.read_text())) == ["exact/directed"]
    assert "gone" not in page.read_text()
