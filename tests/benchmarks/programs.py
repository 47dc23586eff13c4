"""Programs against bounds of *executed*. Run: python tests/benchmarks/programs.py --programs 50000

Programs of each model are drawn and evaluated with emulated rounding, on small layers and decoders
that are drawn, too: to nearest as machines do, or at the edge of what the standard model allows. A
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

from cases import DECODERS, LAYERS, climb, decoder_case, layer_case, share, shares
from emulated import choices, drawn

from constructive.exact.float_model import MODELS

# Programs on a case.
EACH = 10
# Cases where a search begins.
SEARCHED = 6
# Programs of each production beyond.
AT_EDGE = 8
COLUMNS = (
    "model", "evaluates", "programs", "to nearest", "at the edge", "searched", "violations",
    "productions beyond", "violations there",
)  # fmt: skip


def case_of(model, number, *, decoder):
    rng = np.random.default_rng(number)
    return decoder_case(rng, model.storage.name) if decoder else layer_case(rng, wide=0.1)


def tried(model, count, seed, *, decoder, advance):
    """The largest parts, to nearest and at the edge, and how many are more than the whole."""
    largest, violations = {False: 0.0, True: 0.0}, 0
    for done in range(0, count, EACH):
        case = case_of(model, seed + done, decoder=decoder)
        bounds = case.bounds(model)
        for number in range(seed + done, seed + min(done + EACH, count)):
            program = drawn(model, choices(number), decoder=decoder)
            found = share(case, program, bounds)
            if not found <= 1.0:
                violations += 1
                print(f"violation: {found} by {program} on case {seed + done}", file=sys.stderr)
            largest[program.edge] = max(largest[program.edge], found)
        advance(min(EACH, count - done))
    return largest, violations


def searched(model, steps, seed, *, decoder):
    """The largest part that a search finds."""
    largest = 0.0
    for number in range(SEARCHED * (steps > 0)):
        case = case_of(model, seed + number, decoder=decoder)
        found, program, _ = climb(case, model, np.random.default_rng(seed + number), steps)
        if found > 1.0:
            print(f"violation: {found} by {program}, searched from {number}", file=sys.stderr)
        largest = max(largest, found)
    return largest


def over_the_edge(model, *, decoder):
    """Programs one production beyond, and how many of them are beyond the bound."""
    table = DECODERS if decoder else LAYERS
    found_shares = [
        found
        for production in table.values()
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
    rows = [
        (model, decoder)
        for model in MODELS.values()
        for decoder in (False, True)
        if decoder or not model.stored_unit
    ]
    start, wrong = time.time(), 0
    table = Table(box=None)
    for column in COLUMNS:
        left = column in COLUMNS[:2]
        table.add_column(column, justify="left" if left else "right")
    counts = np.diff(np.linspace(0, options.programs, len(rows) + 1).astype(int)).tolist()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("programs", total=options.programs)
        for number, ((model, decoder), count) in enumerate(zip(rows, counts, strict=True)):
            seed = 10**7 * options.seed + 10**6 * number
            largest, inside = tried(
                model, count, seed, decoder=decoder, advance=lambda by: bar.advance(task, by)
            )
            climbed = searched(model, options.search, seed, decoder=decoder)
            inside += climbed > 1.0
            total, outside = over_the_edge(model, decoder=decoder)
            wrong += inside > 0 or outside == 0
            table.add_row(
                model.name,
                "decoders" if decoder else "layers",
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
