"""Attack the theorems on kernels: run the random programs of their pages with many more seeds.

    python tests/benchmarks/kernels/theorems.py --programs 60000 --jobs 2 ['Theorem 20' ..]

Each check of pages 19, 26 and 27 that draws programs has a loop over seeds. Here that loop has as
many as are asked for, in parts of 1,000, for all theorems or those that are named. It prints how
many seeds each loop had, and those that do not hold.
"""

import argparse
import doctest
import os
import re
import sys
import traceback
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor

from constructive.theory.proofs import pages

LOOP = re.compile(r"^for seed in range\((\d+)\):", re.MULTILINE)
STEP = 1000


def examples():
    """Return (page, heading, statement) of all pages on kernels, in order."""
    found = []
    for page in pages():
        text = page.read_text("utf-8")
        if "kernel" not in page.stem:
            continue
        for example in doctest.DocTestParser().get_examples(text):
            before = "\n".join(text.splitlines()[: example.lineno])
            headings = re.findall(r"^## (.*)$", before, re.MULTILINE)
            found.append((page.stem, (headings or [""])[-1], example.source))
    return found


def attack(index, first):
    """Run a loop with seeds from `first`; what is defined before it is defined.

    Return the loop, how many seeds held, and what the next one raised, or "".
    """
    every, space, seeds = examples(), {}, iter(range(first, first + STEP))
    page, heading, source = every[index]
    for of, _, statement in every[:index]:
        if of == page and not LOOP.match(statement) and not statement.startswith("holds("):
            exec(compile(statement, page, "single"), space)  # noqa: S102 - ours
    space["_seeds"], failure = seeds, ""
    try:
        exec(compile(LOOP.sub("for seed in _seeds:", source), page, "exec"), space)  # noqa: S102
    except Exception as error:  # whatever does not hold
        failure = f"seed {space['seed']}: {error!r} {traceback.format_exc()[-600:]}"
    held = space["seed"] - first + (not failure)
    return (index, heading.split("(")[0], source.splitlines()[0][:70]), held, failure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=60000, help="seeds of each loop")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("theorems", nargs="*", help="words of headings, such as 'Theorem 20'")
    options = parser.parse_args()
    loops = [
        (index, first)
        for first in range(0, options.programs, STEP)
        for index, (_, heading, source) in enumerate(examples())
        if LOOP.match(source)
        and (not options.theorems or any(word in heading for word in options.theorems))
    ]
    held, failures = Counter(), defaultdict(list)
    with ProcessPoolExecutor(options.jobs) as pool:
        for key, count, failure in pool.map(attack, *zip(*loops, strict=True)):
            held[key] += count
            failures[key] += [failure] if failure else []
    for key in sorted(held):
        _, heading, loop = key
        print(f"{heading:<20} {loop:<70}{held[key]:>8} seeds, {len(failures[key])} failures")
        print(*failures[key][:2], sep="\n", end="")
    return int(any(failures.values()))


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main())
