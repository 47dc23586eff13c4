"""Certificates of paired heads, for layers so large that no T x T matrix fits.

By proofs/12-paired-heads.md heads 2p and 2p + 1 read nearly the same on all but a few examples
(`Scan.unlike`), so T equations fall apart into blocks (`Blocks`), up to remainders which a
positive vector w with N w < w bounds. Contexts are read once (`Scan`), a few at a time, and again
for entries which couple. Real numbers are float64 with bounds of their errors: `gamma`
covers rounding, in whatever order sums are taken, and `up` that of the bounds. Data and weights are
brought to size one by powers of two first.
"""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np

import stored
from bounds import LONGEST, up
from claim import About
from coupling import FACTORS, ROUNDS, Blocks, residuals
from files import (
    LENGTHS,
    announce,
    bytes_of,
    data_shapes,
    read_data,
    read_weights,
    require,
    require_about,
    unpack,
    weights_shapes,
)
from rank import Rank
from scan import CHUNK, COUPLED, Layer, Scan
from steps import silent


class PairedRank(Rank):
    """*rank* by an order of the examples, in which pairs take one after the other."""

    def check(self, about):
        self.order(*about.sizes)
        return about.sizes[:1]

    def order(self, total, pairs):
        """The examples in that order, and where the ones of each pair end."""
        order = unpack(self.evidence["order"], (total,), total)
        stops = unpack(self.evidence["stops"], (pairs,), total + 1)
        require(
            (np.bincount(order, minlength=total) == 1).all(), "order is not an order of examples"
        )
        ordered = (np.diff(stops, prepend=0) >= 0).all() and stops[-1] >= total - 1
        require(ordered, "the pairs do not take all examples but one at most")
        return order, stops


class PairedLayer(About):
    """Weights, and data: arrays by their names, or contexts in a file of their own."""

    format = "constructive paired certificate 1"

    def __init__(self, content, files, claims, options):
        require(len(files) == 2, "a certificate of paired heads needs weights and data")
        tensors, arrays = weights_shapes(files[0], options.most), data_shapes(files[1])
        require(LENGTHS not in arrays, "paired heads are for contexts of one length")
        on_disk = Path(files[1]).is_dir()
        left = options.most - needs(arrays, tensors, on_disk=on_disk, coupled=0)[0]
        (total, _, width), pairs = arrays["contexts"][1], tensors["W_Q"][1][0] // 2
        self.room = max(0, min(COUPLED * total, int(left // of_coupled(width))))
        announce(*needs(arrays, tensors, on_disk=on_disk, coupled=self.room), options.most)
        read = stored.read if on_disk else read_data
        self.data, self.weights = read(files[1], arrays), read_weights(files[0], tensors)
        require_about(content, self.data, "data")
        require_about(content, self.weights, "weights")
        require("rank" in claims or "readout" not in claims, "a readout without the claim rank")
        self.sizes, self.tell = (total, pairs), options.tell

    def conclude(self, claims):
        """All claims, by one pass over contexts."""
        total, pairs = self.sizes
        order, stops = np.arange(total), np.zeros(pairs, dtype=np.int64)
        if "rank" in claims:  # the error needs no blocks
            order, stops = claims["rank"].order(total, pairs)
        bound = {name: claims[name].bound for name in claims if name != "rank"}
        with np.errstate(all="ignore"):  # what overflows or is not a number compares as not proved
            layer = Layer(self.weights, self.data, order, stops)
            prove(layer, "rank" in claims, bound, self.room, self.tell)


def needs(arrays, tensors, *, on_disk=False, coupled=None):
    """Bytes and operations for arrays of these types and shapes, which have to fit together.

    on_disk: contexts are, and take no memory;  coupled: entries which do, or as many as may
    """
    require(len(tensors) == 5, "paired heads have no W_V_corrections")
    contexts, queries, targets = (shape for _, shape in arrays.values())
    w_q, w_k, w_v, w_o, w_d = (shape for _, shape, _ in tensors.values())
    fits = len(contexts) == 3 and contexts[::2] == queries and len(targets) in (1, 2)
    fits = fits and targets[0] == queries[0] and contexts[1] > 1
    require(fits, "these are not examples with contexts of their own")
    (total, size, width), outputs = contexts, math.prod(targets[1:])
    require(len(w_q) == len(w_v) == 3, "the weights have other axes")
    heads, inner = w_q[0], w_v[2]
    fits = w_q == w_k == (heads, width, w_q[2]) and w_v == (heads, width, inner)
    fits = fits and w_o == (heads * inner, inner) and w_d == (inner, outputs) and outputs <= inner
    require(fits, "the weights do not fit together, or not the data")
    require(heads > 1 and width <= 1024, "no pair of heads, or tokens of more than 1024 entries")
    require(max(total, size, heads * width) <= LONGEST, f"sums of more than {LONGEST} terms")
    read = {name: arrays[name] for name in ("queries", "targets") if on_disk} or arrays
    held = bytes_of(read) + 4 * bytes_of(tensors) + 16 * stored.CHUNK * on_disk
    together = max(CHUNK // width, size)  # tokens of a chunk, or of one example
    held += max(200 * CHUNK, together * (80 * width + 300))
    held += 8 * total * (5 * width + 10 * outputs + 60)
    held += (COUPLED * total if coupled is None else coupled) * of_coupled(width)
    steps = len(FACTORS) * ROUNDS * (1 + COUPLED)
    each = width * (2 * heads + (2 + 40 * COUPLED) * size + 8 * width + steps)
    return held, total * each


def of_coupled(width):
    """Bytes for one entry which couples."""
    return 8 * (4 * width + 10)


def prove(layer, rank, bound, room=math.inf, tell=silent):
    """Require the rank, if it is claimed, and the bounds of the other claims."""
    scan = Scan(layer, bool(bound), tell)
    tell("heads which are not sure to read one token", 0, 5)
    at, which = scan.unlike(room)
    tell("entries which couple", 1, 5)
    coupled = at, which, *layer.read(at, which, (1.0, -1.0))
    tell("residuals", 2, 5)
    distances = residuals(scan, coupled) if bound else None
    if "error" in bound:
        worst = float(distances.max())
        within = worst < math.inf and Fraction(worst) * Fraction(2) ** layer.c <= bound["error"]
        require(within, f"error: it is not shown to be within {bound['error']!r}")
    if rank:
        tell("a right inverse of Z", 3, 5)
        blocks = Blocks(scan, coupled)
        tell("coupling", 4, 5)
        solved = False
        for w, q in blocks.solutions():
            solved |= q < 1
            if q < 1 and (
                "readout" not in bound or near(blocks, distances, w, q, bound["readout"])
            ):
                return
        require(solved, "rank: coupling is not shown to contract")
        raise ValueError("readout: no exact one is shown to be so near")


def near(blocks, distances, w, q, claimed):
    """Whether w and q show an exact readout within that distance."""
    factors = blocks.reach(w), float(up(distances / w[:, None]).max())
    if not all(map(math.isfinite, factors)):  # a bound overflows
        return False
    shown = Fraction(factors[0]) * Fraction(factors[1]) / (1 - Fraction(q))
    return shown * Fraction(2) ** (blocks.layer.c - blocks.layer.a) <= claimed
