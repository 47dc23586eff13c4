"""The claim *rank*: Z has full rank modulo a prime, at a point, so it has it."""

import hashlib
import math
import struct
from contextlib import suppress

import numpy as np

from bounds import chunks, entries
from claim import Claim
from files import require, unpack
from grouping import CHUNK, at_once
from modular import reduce, require_nonsingular, require_prime, times
from residues import representation
from steps import silent
from views import Examples

ROUNDS = 12  # columns of the system whose solution shows a rank
POINTS = 3  # at which a rank is looked for


class Rank(Claim):
    """The rows of Z are independent modulo p at exp(1) = a: those of a view which are wanted."""

    name, of_lengths = "rank", True
    statement = "rank Z = T = {}: for all Y some effective readout U (H d, d_out) has Z U = Y"

    def needs(self, about):
        return needs(about.shapes)

    def check(self, about):
        """By elimination, or by a solution for random columns."""
        view, wanted, width = about.rows_of_z()
        evidence, total = self.evidence, len(wanted)
        p, a = require_prime(evidence["prime"]), evidence["value"]
        require(type(a) is int and 1 < a < p, "a is not between 1 and p")
        columns = unpack(evidence["columns"], (total,), width)
        require(len(np.unique(columns)) == total, "a column of Z is named twice")
        z = representation(about.weights, view, wanted, (p, a), columns, about.tell)
        solution = unpack(evidence["solution"], (total, ROUNDS), p).astype(np.float64)
        if about.quick:
            # Nobody can choose these right-hand sides, and a singular Z has few in its range.
            hashed = b"constructive rank 1" + about.hashes + struct.pack("<II", p, a)
            hashed = hashlib.shake_256(hashed + columns.astype("<u4").tobytes())
            right = np.frombuffer(hashed.digest(8 * ROUNDS * total), "<u8") % np.uint64(p)
            left = times(z, reduce(solution, p), p).astype(np.int64) % p
            true = (left.ravel() == right.astype(np.int64)).all()
            require(true, "the solution modulo p is wrong")
        else:
            require_nonsingular(z, p, about.tell)
        return (total,)


class RankOfDecoder(Rank):
    """The same of tokens of texts, with themselves, on the different contexts."""

    statement = (
        "rank Z = R = {} on the different contexts: for all Y some readout U "
        "((H + 1) d, d_out) has Z U = Y"
    )


def needs(shapes, beside=0):
    """Bytes and operations of elimination, with so many other matrices (T, H d)."""
    total, size, width, _, heads, inner, *_ = shapes
    held = at_once(shapes) + 8 * total * (total + 4 * width + 3 * ROUNDS + 4096)
    held += 8 * 4 * heads * width * inner + 8 * 2 * total * heads * width * beside
    return held, 2 * total * heads * (2 * inner * width + 2 * size * width) + total**3


def examples(weights, data):
    """A view of all examples, a few at a time."""
    heads, _, inner = weights["W_Q"].shape
    units = entries(*data["contexts"].shape[-2:], heads, inner)
    return Examples(data, chunks(len(data["queries"]), units, CHUNK))


def looks_singular(weights, data, tell=silent):
    """Whether Z has less than rank T modulo a prime at a few points, by random mixtures of columns.

    It may have rank T all the same, but hardly ever; so nobody needs to look for its inverse.
    """
    view, columns = examples(weights, data), math.prod(weights["W_V"].shape[:2])
    rng, p = np.random.default_rng(view.total), 4194287
    for a in rng.integers(2, p, size=POINTS).tolist() if view.total <= columns else ():
        mixing = reduce(rng.integers(p, size=(columns, view.total)).astype(np.float64), p)
        with suppress(ValueError):
            every = np.arange(view.total), (p, a), np.arange(columns)
            z = representation(weights, view, *every, tell)
            require_nonsingular(times(z, mixing, p), p)
            return False
    return True
