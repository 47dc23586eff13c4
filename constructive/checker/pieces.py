"""Pieces of work on several threads: their results do not depend on how many there are.

numpy works without Python's lock, and BLAS has one thread (`__main__`). Pieces are arrays of numpy
alone: mpmath keeps constants of its own, and is left to one thread.
"""

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np

VARIABLE = "CONSTRUCTIVE_JOBS"  # how many threads, unless --jobs says so
ADDRESSES = 1 << 28  # which a thread may reserve: its stack, and what malloc and BLAS keep for it

MOST = 4  # threads where nobody asks for more
jobs = 1  # threads of this process; `command` sets it


def usual():
    """The variable, or as many as there are cores for this process, and four at most."""
    given = os.environ.get(VARIABLE, "")
    if given.isascii() and given.isdigit() and len(given) < 5 and int(given):
        return min(int(given), 64)
    if given:
        return given  # argparse says what is wrong with it
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, MOST))


def take(count):
    global jobs  # noqa: PLW0603 - one number for the process
    jobs = count


def in_pieces(function, pieces):
    """function(piece) for each piece, in their order; few are begun before they are taken."""
    pieces = list(pieces)
    if min(jobs, len(pieces)) < 2:
        yield from map(function, pieces)
        return
    state, running = np.geterr(), deque()

    def work(piece):
        with np.errstate(**state):
            return function(piece)

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for piece in pieces:
                if len(running) == 2 * jobs:
                    yield running.popleft().result()
                running.append(pool.submit(work, piece))
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
