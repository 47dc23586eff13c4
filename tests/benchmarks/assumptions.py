"""How fast exact capacities are, as a table in Markdown: docs/capacity.md holds a run of it."""

import time

from constructive import generators
from constructive.theory.bounds import saturated_capacity
from constructive.theory.capacity import fixed_capacity

WIDTH = 64


def capacities():
    print("| d_h | Theorem 1 | own contexts | s | shared context | s |\n|---|---|---|---|---|---|")
    sizes = {"num_examples": 621, "context_size": 32, "width": WIDTH}
    for head_dim in (1, 2, 4, 8, 16, 32, 64):
        cells = [str(head_dim), str(saturated_capacity(20, 32, head_dim))]
        for make in (generators.uniform, generators.shared_context):
            start = time.perf_counter()
            found = fixed_capacity(make(**sizes), 20, head_dim)
            shown = str(found.lower) if found.exact else f"{found.lower} to {found.upper}"
            cells += [shown, f"{time.perf_counter() - start:.1f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    capacities()
