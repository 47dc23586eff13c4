"""A campaign against the checker and certify. Run: python tests/campaign/hostile.py

Hostile triples of certificate, weights and data in three families: mutations of honest ones, claims
which are built to be false, and spoilt files; and files which ask for much. What is accepted is
judged by code which shares nothing with what it judges (tests/campaign/judges.py). The same arrays
go to certify: what it proves and refutes is judged, and what it proves the checker has to accept.
Decoders are a family of their own, with forgeries and a judge of their own; every fifth is
certify's.

The last columns of the table have to be 0. Files of cases which are counted there are kept with
--keep FOLDER. The same seed and number of cases make the same cases, on any number of processes.
"""

import argparse
import secrets
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path[:0] = map(str, Path(__file__).parents[:2])

FAMILIES = {
    "mutations": (0.40, 250),
    "false claims": (0.38, 250),
    "fuzzed files": (0.15, 250),
    "large demands": (0.002, 10),
    "certify": (0.068, 100),
    "decoders": (0.05, 100),
    "instances": (0.02, 50),
}
"""Shares of all cases, and how many are run at a time."""


def work(family: str, number: int, cases: int, keep: str | None) -> dict[str, Counter]:
    warnings.simplefilter("ignore")  # of numpy, where forgeries overflow
    import campaign

    return campaign.run(family, number, cases, keep)


def tasks(cases: int, seed: int, only: list[str]) -> list[tuple[str, int, int]]:
    """Families, numbers for the generators, and cases: pieces of equal size, in turns."""
    made = []
    for place, (family, (share, size)) in enumerate(FAMILIES.items()):
        if family not in only:
            continue
        count = max(1, round(cases * share / size))
        made += [(i / count, family, 10**6 * seed + 10**5 * place + i, size) for i in range(count)]
    return [task[1:] for task in sorted(made)]


def main() -> int:
    import campaign

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=110_000, help="hostile triples, about")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, help="by default a new one, which the table names")
    parser.add_argument("--keep", help="folder for the files of cases which must not be")
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    options = parser.parse_args()
    if options.seed is None:
        options.seed = secrets.randbelow(10**6)
    counts: dict[str, Counter] = {family: Counter() for family in options.only}
    start, pieces = time.time(), tasks(options.cases, options.seed, options.only)
    console = Console(width=150)
    with (
        ProcessPoolExecutor(options.processes) as pool,
        Progress(console=Console(stderr=True), transient=True) as bar,
    ):
        task = bar.add_task("hostile cases", total=sum(piece[2] for piece in pieces))
        running = {pool.submit(work, *piece, options.keep): piece for piece in pieces}
        for done in as_completed(running):
            for family, found in done.result().items():
                counts[family].update(found)
            bar.advance(task, running[done][2])
    minutes = (time.time() - start) / 60
    day = datetime.now(tz=UTC).date()
    table = Table(box=None, title=f"{day}, seed {options.seed}, {minutes:.0f} minutes")
    for heading in ("family", *campaign.COLUMNS):
        table.add_column(heading, justify="left" if heading == "family" else "right")
    total = sum(counts.values(), Counter())
    for family, found in [*counts.items(), ("all", total)]:
        table.add_row(family, *(f"{found[column]:,}" for column in campaign.COLUMNS))
    console.print(table)
    bad = sum(total[column] for column in campaign.BAD) + sum(
        counts[family]["true, refused"] for family in ("certify", "decoders") if family in counts
    )
    return 1 if bad or not total["accepted, true"] else 0


if __name__ == "__main__":
    sys.exit(main())
