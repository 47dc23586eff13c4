"""What the claim *executed* says. Run: python tests/benchmarks/executed.py [--skip-large]

Bounds of |f - y| over all evaluations in float32, against the error of one: that of this machine.
"""

import argparse
import time

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
COLUMNS = "T", "n", "d", "H", "construction", "bound", "one evaluation", "certify", "check"
LARGE = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip-large", action="store_true", help="no T = 1861")
    skip = parser.parse_args().skip_large
    table = Table(*COLUMNS, title="float32 data and weights, targets of size one")
    for total, size, width, heads, construction, options in CASES:
        if skip and total > LARGE:
            continue
        drawn = generators.uniform(num_examples=total, context_size=size, width=width, seed=0)
        data = Dataset(
            *(x.astype(np.float32) for x in (drawn.contexts, drawn.queries, drawn.targets))
        )
        built = build_memorizer(data, num_heads=heads, construction=construction, **options)
        single = built.astype("float32")
        start = time.perf_counter()
        certificate = certify(single, data, claims="executed")
        proved = time.perf_counter()
        if not check(certificate, single, data).proved:
            raise ParameterError("a certificate is not proved", suggestion="look into it")
        checked = time.perf_counter()
        bound = float.fromhex(certificate["executed"].evidence["bound"])
        named = " ".join([construction, *(f"{name}={value}" for name, value in options.items())])
        table.add_row(
            *map(str, (total, size, width, heads, named)),
            f"{bound:.1e}" + " (vacuous)" * ("vacuous" in certificate["executed"].detail),
            f"{single.max_error(data):.1e}",
            f"{proved - start:.1f} s",
            f"{checked - proved:.1f} s",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
