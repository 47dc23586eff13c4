"""Certificates of one layer on one data set, and of upper bounds for all weights."""

import math

import numpy as np

import real_claims
from claim import About
from files import (
    ARRAYS,
    LENGTHS,
    announce,
    bytes_of,
    data_shapes,
    read_data,
    read_weights,
    require,
    require_about,
    weights_shapes,
)
from rank import examples, looks_singular
from views import of_lengths

PARTS = 128  # arrays which W_V may be a sum of


class Layer(About):
    """Weights, or none, and data: arrays by their names, and their shapes."""

    format = "constructive certificate 1"

    def __init__(self, content, files, claims, options):
        *weights, data = files
        described = bool(set(content["weights"]) - {"sha256"})
        require(described or not weights, "it is about all weights, and takes none")
        require(weights or not described, "it is about weights, which are not given")
        tensors = weights_shapes(*weights, options.most) if weights else {}
        arrays = data_shapes(data)
        self.names, self.contexts = tuple(claims), arrays["contexts"][1]
        self.shapes = sizes_of(arrays, tensors)
        filled = 8 * math.prod(self.contexts) * (LENGTHS in arrays)  # a copy
        read = bytes_of(arrays) + bytes_of(tensors) + filled
        held, operations = self.needs(claims)
        announce(read + held, operations, options.most)
        self.left, self.quick, self.tell = options.most - read, options.quick, options.tell
        for name, claim in claims.items():
            given = weights or not claim.of_weights
            require(given, f"{name} is about weights, and there are none")
            fits = claim.of_lengths or LENGTHS not in arrays
            require(fits, f"{name} is about contexts of one length")
        self.tell("read the files", 0, 1)
        self.data = read_data(data, arrays)
        self.data = of_lengths(self.data) if LENGTHS in arrays else self.data
        self.weights = read_weights(*weights, tensors) if weights else {}
        parts = ("data", self.data), ("weights", self.weights)
        self.hashes = b"".join(require_about(content, kept, part) for part, kept in parts)

    def needs(self, claims):
        """Bytes and operations of all claims, one after the other, from shapes alone."""
        each = [claim.needs(self) for claim in claims.values()]
        return max(held for held, _ in each), sum(operations for _, operations in each)

    def real_needs(self):
        return real_claims.first(self.shapes, keep=False)

    def rows_of_z(self):
        """A view, which of its rows Z has, and how many columns that has."""
        columns = math.prod(self.weights["W_V"].shape[:2])
        return examples(self.weights, self.data), np.arange(self.shapes[0]), columns

    def conclude(self, claims):
        """What real numbers are within, all together; also the error on which *executed* rests."""
        bounds = {name: claims[name].bound for name in ("error", "readout") if name in claims}
        if "executed" in claims:
            real = claims["executed"].real
            bounds["error"] = min(real, bounds.get("error", math.inf))
        if "readout" in bounds and "rank" not in claims:
            self.tell("is Z singular", 0, 1)
            regular = not looks_singular(self.weights, self.data)
            require(regular, "readout: Z has no right inverse, as it seems")
        if bounds:
            given = self.weights, self.data, self.shapes
            real_claims.check_real(bounds, *given, self.left, self.tell)


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
