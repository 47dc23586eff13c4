"""What the claim *executed* says. Run: python tests/benchmarks/executed.py [--skip-large]

Bounds of |f - y| over all evaluations in float32, against the error of one: that of this machine.
And the same on data of small integers, where random heads are built with exact logits, or not.
Seconds are those of processors, of this process and of the checker's.
"""

import argparse
import os
import re

import numpy as np
from rich.console import Console
from rich.table import Table

from constructive import Dataset, ParameterError, build_memorizer, certify, check, generators

CASES = (
    (7, 3, 5, 3, "saturated", {}),
    (7, 3, 5, 3, "rank_one", {}),
    (7, 3, 5, 3, "generic", {}),
    (61, 8, 16, 4, "rank_one", {}),
    (61, 8, 16, 4, "generic", {}),
    (61, 8, 16, 10, "saturated", {}),
    (61, 8, 16, 10, "saturated", {"saturated_fraction": 0.9}),
    (61, 8, 16, 10, "saturated", {"saturated_fraction": 0.5}),
    (61, 8, 16, 20, "saturated", {}),
    (61, 8, 16, 10, "rank_one", {}),
    (61, 8, 16, 10, "paired", {}),
    (61, 8, 16, 10, "generic", {}),
    (1861, 32, 64, 60, "saturated", {}),
    (1861, 32, 64, 60, "rank_one", {}),
    (1861, 32, 64, 60, "generic", {}),
)
INTEGERS = tuple(
    (*sizes, "generic", {"exact_logits": exact, **options})
    for *sizes, options in (
        (7, 3, 5, 3, {}),
        (61, 8, 16, 4, {}),
        (61, 8, 16, 10, {}),
        (61, 8, 16, 4, {"head_dim": 16}),
        (1861, 32, 64, 60, {}),
    )
    for exact in (False, True)
)
LARGEST = 4
"""Of integer data."""
COLUMNS = (
    "T", "n", "d", "H", "construction", "bound", "by logits", "one evaluation", "certify", "check"
)  # fmt: skip
LARGE = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip-large", action="store_true", help="no T = 1861")
    skip = parser.parse_args().skip_large
    show("float32 data and weights, targets of size one", CASES, of_uniform, skip=skip)
    show(
        f"the same, contexts and queries of integers up to {LARGEST}",
        INTEGERS,
        of_integers,
        skip=skip,
    )


def of_uniform(total, size, width):
    drawn = generators.uniform(num_examples=total, context_size=size, width=width, seed=0)
    arrays = drawn.contexts, drawn.queries, drawn.targets
    return Dataset(*(array.astype(np.float32) for array in arrays))


def of_integers(total, size, width):
    rng = np.random.default_rng(0)
    shapes = (total, size, width), (total, width)
    inputs = (rng.integers(-LARGEST, LARGEST + 1, shape) for shape in shapes)
    return Dataset(*(x.astype(np.float32) for x in (*inputs, rng.uniform(-1, 1, total))))


def seconds():
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def show(title, cases, drawn, *, skip):
    table = Table(*COLUMNS, title=title)
    for total, size, width, heads, construction, options in cases:
        if skip and total > LARGE:
            continue
        data = drawn(total, size, width)
        built = build_memorizer(data, num_heads=heads, construction=construction, **options)
        single = built.astype("float32")
        start = seconds()
        certificate = certify(single, data, claims="executed")
        proved = seconds()
        if not check(certificate, single, data).proved:
            raise ParameterError("a certificate is not proved", suggestion="look into it")
        checked = seconds()
        claim = certificate["executed"]
        named = " ".join([construction, *(f"{name}={value}" for name, value in options.items())])
        table.add_row(
            *map(str, (total, size, width, heads, named)),
            f"{float.fromhex(claim.evidence['bound']):.1e}"
            + " (vacuous)" * ("vacuous" in claim.detail),
            re.search("([0-9]+%|none) of that by logits", claim.detail)[1],
            f"{single.max_error(data):.1e}",
            f"{proved - start:.1f} s",
            f"{checked - proved:.1f} s",
        )
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
