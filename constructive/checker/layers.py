"""Certificates of one layer on one dataset, and of upper bounds for all weights."""

import math
from functools import cached_property
from itertools import tee

import numpy as np

from . import pieces
from .attend import of_lengths
from .bounds import entries
from .claim import About
from .error import all_residuals, first_needs, in_floats
from .files import (
    ARRAYS,
    LENGTHS,
    announce,
    bytes_of,
    data_shapes,
    read_data,
    read_weights,
    require,
    require_about,
    require_shapes,
    weights_shapes,
)
from .rank import CHUNK, examples

ARRAYS_OF_PIECE = 64  # which a thread may hold, of so many entries as a piece of work has
PARTS = 128  # arrays which W_V may be a sum of


class Expected:
    """What claims need, from shapes alone."""

    def __init__(self, arrays, tensors):
        self.contexts, self.shapes = arrays["contexts"][1], sizes_of(arrays, tensors)

    def needs(self, claims):
        """Bytes and operations of all claims, one after the other, from shapes alone."""
        each = [claim.needs(self) for claim in claims.values()]
        return max(held for held, _ in each), sum(operations for _, operations in each)

    def take_threads(self, left):
        """Take as many threads as there are pieces, and as memory allows: bytes for them."""
        total, size, width, _, heads, inner, *_ = self.shapes
        units = entries(size, width, heads, inner)
        each = 8 * ARRAYS_OF_PIECE * max(CHUNK, units)
        parts = -(-total // max(1, CHUNK // units))
        pieces.take(min(pieces.jobs, parts, 1 + int(min(max(left / each, 0), pieces.jobs))))
        return (pieces.jobs - 1) * each

    def real_needs(self):
        return first_needs(self.shapes)


class Layer(About):
    """Weights, or none, and data: arrays by their names, and what was computed of them.

    hashes: of data and weights;  left: bytes which may be taken
    """

    format = "constructive certificate 1"

    def __init__(self, weights, data, hashes, options, left=math.inf):
        self.weights, self.hashes, self.left = weights, hashes, left
        self.data = of_lengths(data) if LENGTHS in data else data
        self.shapes = sizes_of(*(shapes_of(arrays) for arrays in (data, weights)))
        self.quick, self.tell, self.bits = options.quick, options.tell, options.bits
        self._residuals, self._kept = all_residuals(self), {}

    @classmethod
    def read(cls, content, files, claims, options):
        """What is in these files, when they are small enough, and are those of the certificate."""
        *weights, data = files
        described = bool(set(content["weights"]) - {"sha256"})
        require(described or not weights, "it is about all weights, and takes none")
        require(weights or not described, "it is about weights, which are not given")
        tensors = weights_shapes(*weights, options.most) if weights else {}
        arrays = data_shapes(data)
        require_shapes(content, arrays, "data")
        require_shapes(content, tensors, "weights")
        for name, claim in claims.items():
            given = weights or not claim.of_weights
            require(given, f"{name} is about weights, and there are none")
            fits = claim.of_lengths or LENGTHS not in arrays
            require(fits, f"{name} is about contexts of one length")
        filled = 8 * math.prod(arrays["contexts"][1]) * (LENGTHS in arrays)  # a copy
        read = bytes_of(arrays) + bytes_of(tensors) + filled
        expected = Expected(arrays, tensors)
        held, operations = expected.needs(claims)
        held += expected.take_threads(options.most - read - held)
        announce(read + held, operations, options.most)
        options.tell("read the files", 0, 1)
        parts = read_data(data, arrays), read_weights(*weights, tensors) if weights else {}
        about = cls(*parts[::-1], b"", options, options.most - read)
        hashes = [require_about(content, about.data, "data")]
        about.hashes = b"".join([*hashes, require_about(content, about.weights, "weights")])
        return about

    @cached_property
    def floats(self):
        """What float64 has of outputs, with bounds; or None."""
        return in_floats(self.weights, self.data, self.tell)

    def once(self, key, compute):
        """What a claim and who proposes it share, computed by the first that needs it."""
        if key not in self._kept:
            self._kept[key] = compute()
        return self._kept[key]

    def residuals(self):
        """What is known of |f - y|, nearer each time: computed once for all claims."""
        self._residuals, ours = tee(self._residuals)
        return ours

    def rows_of_z(self):
        """A view, which of its rows Z has, and how many columns that has."""
        columns = math.prod(self.weights["W_V"].shape[:2])
        return examples(self.weights, self.data), np.arange(self.shapes[0]), columns


def shapes_of(arrays):
    """The same of arrays as of what files say of them: (type, shape)."""
    return {name: (array.dtype, array.shape, None) for name, array in arrays.items()}


def sizes_of(arrays, tensors):
    """T, n, d, d_out, and H, d_h, d_v, d_o of the weights, if there are any; or refuse."""
    contexts, queries, targets = (arrays[name][1] for name in ARRAYS)
    fits = len(queries) == 2 and len(contexts) in (2, 3) and len(targets) in (1, 2)
    fits = fits and contexts[-1] == queries[1] and targets[0] == queries[0]
    require(fits and contexts[:-2] in ((), queries[:1]), "the data do not fit together")
    (total, width), size, outputs = queries, contexts[-2], math.prod(targets[1:])
    if not tensors:
        return total, size, width, outputs, 0, 0, 0, 0
    w_q, w_k, w_v, w_o, w_d, *more = (shape for _, shape, _ in tensors.values())
    require(len(w_q) == len(w_v) == 3 and len(w_o) == len(w_d) == 2, "the weights have other axes")
    heads, inner, value_dim, between = w_q[0], w_q[2], w_v[2], w_o[1]
    fits = w_q == w_k == (heads, width, inner) and w_v == (heads, width, value_dim)
    fits = fits and w_o == (heads * value_dim, between) and w_d == (between, outputs)
    fits = fits and all(shape[1:] == w_v for shape in more)
    require(fits, "the weights do not fit together, or not the data")
    require(all(shape[0] <= PARTS for shape in more), f"more than {PARTS} corrections of W_V")
    return total, size, width, outputs, heads, inner, value_dim, between
