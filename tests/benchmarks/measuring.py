"""What programs that measure share: seconds, memory, processes of their own, files, and tables."""

import multiprocessing
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

CONSOLE = Console(width=150)


def timed(work):
    """Seconds, and what came of it."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def memory(field):
    """VmRSS, what the process has, or VmHWM, the most it had; in bytes (Linux)."""
    status = Path("/proc/self/status").read_text().split()
    return 1024 * int(status[status.index(f"{field}:") + 1])


def forget_peak():
    """Set VmHWM to what the process has now, so that making the data does not count; return it."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def megabytes(count):
    return f"{count / 1e6:,.0f} MB"


def alone(work, *arguments, **options):
    """What a function returns in a fresh process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments, **options).result()


def medians(rows):
    """The median of every number by name; other things from the last row."""
    return {
        key: statistics.median(row[key] for row in rows)
        if isinstance(rows[0][key], (int, float))
        else rows[-1][key]
        for key in rows[0]
    }


def saved(folder, *things):
    """Files of a certificate, weights, and data or texts; None is left out."""
    names = "c.json", "w.safetensors", "d.npz"
    kept = [(thing, Path(folder) / name) for thing, name in zip(things, names, strict=True)]
    for thing, path in kept:
        if thing is not None:
            thing.save(path)
    return [None if thing is None else path for thing, path in kept]


def table(title, headings, rows, *, left=0):
    """Print a table as it stands in the pages; so many first columns are words."""
    made = Table(box=None, pad_edge=False)
    for place, heading in enumerate(headings):
        made.add_column(heading, justify="left" if place < left else "right")
    for row in rows:
        made.add_row(*map(str, row))
    CONSOLE.print(title, made, "", sep="\n")
