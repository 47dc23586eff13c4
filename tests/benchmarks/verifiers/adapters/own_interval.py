"""The control: the interval form of this library, which is proved to be sound."""

import numpy as np
from answering import answer_all, by_bounds

from constructive import __version__
from constructive.instances import Atom, Box, Head, Network, Property
from constructive.instances.network import Rectified, Stacked
from constructive.instances.refutations import attention_ranges


def answer(problem):
    heads, before = (
        tuple(Head(*map(np.array, head)) for head in problem[part]) for part in ("heads", "before")
    )
    network = Stacked(heads, Network(before)) if before else Network(heads)
    network = Rectified(heads, *map(np.array, problem["units"])) if problem["units"] else network
    atoms = [[Atom(w, c) for w, c in disjunct] for disjunct in problem["disjuncts"]]
    wanted = Property(Box(problem["lower"], problem["upper"]), atoms)
    network, wanted, error = network.reduced(wanted)
    ranges = attention_ranges(network, wanted.box)
    disjuncts = [[(a.coefficients, a.threshold) for a in atoms] for atoms in wanted.disjuncts]
    return by_bounds(
        {"disjuncts": disjuncts}, lambda rows: [ranges.upper_bound(row) + error for row in rows]
    )


answer_all(f"constructive {__version__}", answer)
