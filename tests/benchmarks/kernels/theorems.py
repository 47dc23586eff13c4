"""Attack the theorems on kernels: run the random programs of page 19 with many more seeds.

    python tests/benchmarks/kernels/theorems.py --programs 60000 --jobs 2 [--from 20]

Each check of the page that draws programs has a loop over seeds. Here that loop has as many as are
asked for, in parts of 1,000, for all theorems or those after a line of the page. It prints how many
seeds each loop had, and the first that does not hold.
"""

import argparse
import doctest
import json
import multiprocessing
import os
import re
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from constructive.theory.proofs import pages

LOOP = re.compile(r"^for seed in range\((\d+)\):", re.MULTILINE)
STEP = 1000


def examples():
    """Return (heading, statement) of the page, in order."""
    (page,) = (path for path in pages() if path.name == "19-kernels.md")
    text = page.read_text("utf-8")
    headings = [(m.start(), m[1]) for m in re.finditer(r"^## (.*)$", text, re.MULTILINE)]
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for example in doctest.DocTestParser().get_examples(text):
        at = starts[example.lineno]
        heading = next((name for start, name in reversed(headings) if start < at), "")
        found.append((heading, example.source))
    return found


def attack(index, first, seconds, output):
    """Run a loop with seeds from `first`; what is defined before it is defined."""
    every, line = examples(), {"index": index, "first": first, "seeds": 0, "failure": ""}
    heading, source = every[index]
    space = {}
    line["heading"], line["loop"] = heading, source.splitlines()[0]
    end = time.monotonic() + seconds
    try:
        for _, statement in every[:index]:
            if not LOOP.match(statement) and not statement.startswith("holds("):
                exec(compile(statement, "page 19", "single"), space)  # noqa: S102 - ours

        def seeds():
            for seed in range(first, first + STEP):
                if time.monotonic() > end:
                    return
                line["last"] = seed
                yield seed
                line["seeds"] += 1

        space["_seeds"] = seeds
        exec(compile(LOOP.sub("for seed in _seeds():", source), "page 19", "exec"), space)  # noqa: S102
    except Exception as error:  # whatever does not hold
        line["failure"] = f"seed {line.get('last')}: {error!r} {traceback.format_exc()[-600:]}"
    with Path(output).open("a") as file:
        file.write(json.dumps(line) + "\n")


def show(output):
    found, failures = Counter(), {}
    for text in Path(output).read_text().splitlines():
        line = json.loads(text)
        key = line["index"], f"{line['heading'].split('(')[0]:<20} {line['loop'][:70]}"
        found[key] += line["seeds"]
        if line["failure"]:
            failures.setdefault(key, []).append(line["failure"])
    for key in sorted(found):
        bad = failures.get(key, [])
        print(f"{key[1]:<96}{found[key]:>8} seeds, {len(bad)} failures")
        for each in bad[:2]:
            print("    " + each.replace("\n", "\n    "))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=60000, help="seeds of each loop")
    parser.add_argument("--begin", type=int, default=0, help="the first seed, in place of 0")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--total", type=float, default=3600.0, help="seconds of all")
    parser.add_argument("--part", type=float, default=600.0, help="seconds of 1,000 seeds")
    parser.add_argument("--output", default="theorems.jsonl")
    parser.add_argument("theorems", nargs="*", help="words of headings, such as 'Theorem 20'")
    options = parser.parse_args()
    Path(options.output).unlink(missing_ok=True)
    loops = [
        (index, first)
        for first in range(options.begin, options.begin + options.programs, STEP)
        for index, (heading, source) in enumerate(examples())
        if LOOP.match(source)
        and (not options.theorems or any(word in heading for word in options.theorems))
    ]
    context, end, running = (
        multiprocessing.get_context("fork"),
        time.monotonic() + options.total,
        [],
    )
    while (loops or running) and time.monotonic() < end:
        running = [process for process in running if process.is_alive()]
        while loops and len(running) < options.jobs:
            index, first = loops.pop(0)
            left = min(options.part, end - time.monotonic() - 2)
            process = context.Process(target=attack, args=(index, first, left, options.output))
            process.start()
            running.append(process)
        time.sleep(0.05)
    for process in running:
        process.join(5)
        if process.is_alive():
            process.kill()
    show(options.output)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main())
