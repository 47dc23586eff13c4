"""Programs against bounds of *executed*. Run: python tests/benchmarks/programs.py --programs 50000

Programs of each model are drawn and evaluated with emulated rounding, on small decoders that
are drawn, too: to nearest as machines do, or at the edge of what the standard model allows. A
search changes programs, weights and data step by step, for the largest part of a bound. No program
may be beyond its bound; of those that do one production more, some have to be.

Without --search there is none. The exit status is 1 where a row is not as it has to be.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "programs"))

from cases import PRODUCTIONS, climb, decoder_case, share, shares
from emulated import MODELS, choices, drawn

# Programs on a case.
EACH = 10
# Cases where a search begins.
SEARCHED = 6
# Programs of each production beyond.
AT_EDGE = 8
COLUMNS = (
    "model", "programs", "to nearest", "at the edge", "searched", "violations",
    "productions beyond", "violations there",
)  # fmt: skip


def case_of(model, number):
    return decoder_case(np.random.default_rng(number), model.storage.name)


def tried(model, count, seed, *, advance):
    """The largest parts, to nearest and at the edge, and how many are more than the whole."""
    largest, violations = {False: 0.0, True: 0.0}, 0
    for done in range(0, count, EACH):
        case = case_of(model, seed + done)
        bounds = case.bounds(model)
        for number in range(seed + done, seed + min(done + EACH, count)):
            program = drawn(model, choices(number))
            found = share(case, program, bounds)
            if not found <= 1.0:
                violations += 1
                print(f"violation: {found} by {program} on case {seed + done}", file=sys.stderr)
            largest[program.edge] = max(largest[program.edge], found)
        advance(min(EACH, count - done))
    return largest, violations


def searched(model, steps, seed):
    """The largest part that a search finds."""
    largest = 0.0
    for number in range(SEARCHED * (steps > 0)):
        case = case_of(model, seed + number)
        found, program, _ = climb(case, model, np.random.default_rng(seed + number), steps)
        if found > 1.0:
            print(f"violation: {found} by {program}, searched from {number}", file=sys.stderr)
        largest = max(largest, found)
    return largest


def over_the_edge(model):
    """Programs one production beyond, and how many of them are beyond the bound."""
    found_shares = [
        found
        for production in PRODUCTIONS.values()
        if model.name in production.models
        for found in shares(production, model.name, AT_EDGE)
    ]
    return len(found_shares), sum(found > 1.0 for found in found_shares)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=50_000)
    parser.add_argument("--search", type=int, default=0, help="steps of a search")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = list(MODELS.values())
    start, wrong = time.time(), 0
    table = Table(box=None)
    for column in COLUMNS:
        left = column in COLUMNS[:1]
        table.add_column(column, justify="left" if left else "right")
    counts = np.diff(np.linspace(0, options.programs, len(rows) + 1).astype(int)).tolist()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("programs", total=options.programs)
        for number, (model, count) in enumerate(zip(rows, counts, strict=True)):
            seed = 10**7 * options.seed + 10**6 * number
            largest, inside = tried(model, count, seed, advance=lambda by: bar.advance(task, by))
            climbed = searched(model, options.search, seed)
            inside += climbed > 1.0
            total, outside = over_the_edge(model)
            wrong += inside > 0 or outside == 0
            table.add_row(
                model.name,
                f"{count:,}",
                *(f"{part:.4f}" for part in (largest[False], largest[True], climbed)),
                str(inside),
                str(total),
                str(outside),
            )
    minutes = (time.time() - start) / 60
    table.title = f"seed {options.seed}, {options.programs:,} programs, {minutes:.0f} minutes"
    Console(width=150).print(table)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
