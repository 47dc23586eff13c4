"""The control: the interval form of this library, which is proved to be sound."""

import numpy as np
from answering import answer_all, by_bounds

from constructive import __version__
from constructive.instances import Box, Head, Network
from constructive.instances.refutations import attention_ranges


def answer(problem):
    network = Network(tuple(Head(*map(np.array, head)) for head in problem["heads"]))
    ranges = attention_ranges(network, Box(problem["lower"], problem["upper"]))
    return by_bounds(problem, lambda rows: [ranges.upper_bound(np.array(row)) for row in rows])


answer_all(f"constructive {__version__}", answer)
