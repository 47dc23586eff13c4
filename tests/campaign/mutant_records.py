"""What became of mutants, module by module: mutants.json, and the table of mutants.md.

`why` is written by hand, in mutants.json; all else by `mutants.py`.
"""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORDS = Path(__file__).parent / "mutants.json"
PAGE = Path(__file__).parent / "mutants.md"
HEAD = ["| module | mutants | survive | run on | why |", "|---|---|---|---|---|"]


def add(path: Path, counts: Counter, left: list[str], *, sampled: bool) -> None:
    """Record a run of all mutants of a module, or of a sample, and write the page.

    Records of modules that are not there any more are dropped.
    """
    records = json.loads(RECORDS.read_text())
    there = ROOT / "constructive"
    records = {name: kept for name, kept in records.items() if (there / f"{name}.py").exists()}
    name = path.relative_to(ROOT / "constructive").with_suffix("").as_posix()
    records[name] = {
        "day": str(datetime.now(tz=UTC).date()),
        "mutants": counts.total(),
        "survived": counts["survived"],
        "tested_since": 0,
        "sampled": sampled,
        "why": records.get(name, {}).get("why", ""),
        "survivors": left,
    }
    RECORDS.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(PAGE.read_text(), records))


def table(records: dict) -> list[str]:
    """The lines of the table: a star where mutants are a sample."""
    rows = []
    for name, found in sorted(records.items()):
        count = f"{found['mutants']}{'*' * found['sampled']}"
        since = f" ({found['tested_since']})" if found["tested_since"] else ""
        cells = f"`{name}`", count, f"{found['survived']}{since}", found["day"], found["why"]
        rows.append(f"| {' | '.join(cells)} |")
    return [*HEAD, *rows]


def page(text: str, records: dict) -> str:
    """The page with its table written anew."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| module |"))
    stop = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    return "\n".join([*lines[:start], *table(records), *lines[stop:]]) + "\n"
