"""Networks of sequence memorizers, and what they put out.

A token-wise ReLU network makes a stream of each token, one head of attention adds
W_O softmax(x W_Q (x W_K)^T) x W_V to it, and another token-wise network makes the label of it. W_Q
and W_K have to be zero, so that softmax is 1/n. Symbols and classes which are not numbers stand for
their place in a list of the memorizer.
"""

import json
from fractions import Fraction

import numpy as np

from columns import Column, affine, common, length, number, whole
from files import require

WIDEST = 1 << 32  # inputs of a layer


def items(x):
    require(type(x) is list, f"{x!r:.40} is not a list")
    return x


def index(x, below):
    require(type(x) is int and 0 <= x < below, f"{x!r:.40} is not an index below {below}")
    return x


class Network:
    """Layers of rows (columns, values, bias), checked to fit together."""

    def __init__(self, content):
        self.residual, self.layers, self.nonzero, self.terms = content["residual"], [], 0, 0
        require(type(self.residual) is bool and content["layers"], "a network without layers")
        for layer in items(content["layers"]):
            width, rows = layer["inputs"], []
            require(type(width) is int and 0 <= width < WIDEST, "a width is not a width")
            require(not self.layers or len(self.layers[-1][1]) == width, "layers do not fit")
            for row in items(layer["rows"]):
                require(len(row) == 3, "a row is not columns, values and a bias")
                names = [index(c, width) for c in items(row[0])]
                values, bias = list(map(number, items(row[1]))), number(row[2])
                require(len(values) == len(names) == len(set(names)), "a row is not a row")
                rows.append((names, values, bias))
                self.nonzero += sum(v != 0 for v in [*values, bias])
                self.terms += len(values) + 1
            self.layers.append((width, rows))
        self.inputs, self.outputs = self.layers[0][0], len(self.layers[-1][1])
        self.depth = len(self.layers) - 1
        if self.residual:
            require(len(self.layers) % 2 == 0, "a residual network of an odd number of layers")
            self.depth = len(self.layers) // 2 - 1
            widths = {width for width, _ in self.layers[1::2]}
            require(len(widths) == 1, "blocks of different widths")

    def __call__(self, x, work):
        """A list of columns of numbers, one for each output, from such a list of inputs."""
        maps, count = [rows for _, rows in self.layers], len(x[0].entries)
        if not self.residual:
            for rows in maps[:-1]:
                x = [column.relu() for column in affine(rows, x, count, work)]
            return affine(maps[-1], x, count, work)
        x = affine(maps[0], x, count, work)
        for first, second in zip(maps[1:-1:2], maps[2:-1:2], strict=True):
            units = [column.relu() for column in affine(first, x, count, work)]
            added = affine(second, units, count, work)
            pairs = [([k, k + len(x)], [1, 1], 0) for k in range(len(x))]
            x = affine(pairs, x + added, count, work)
        return affine(maps[-1], x, count, work)


class Memorizer:
    """The parts of a memorizer's file, and what it puts out."""

    def __init__(self, content):
        self.task, self.size = content["task"], content["context_size"]
        require(self.task in {"next", "last", "seq2seq"}, "an unknown task")
        require(type(self.size) is int and self.size > 0, "n is not a number of tokens")
        self.embedding = Network(content["embedding"])
        self.classifier = Network(content["classifier"])
        weights = content["attention"]
        require(set(weights) == {"W_Q", "W_K", "W_V", "W_O"}, "attention has other weights")
        w_q, w_k, self.w_v, self.w_o = (
            [number(x) for x in items(weights[name])] for name in ("W_Q", "W_K", "W_V", "W_O")
        )
        stream = {len(w_q), len(w_k), len(self.w_v), len(self.w_o)}
        stream |= {self.embedding.outputs, self.classifier.inputs}
        fits = len(stream) == 1 and min(stream) > 1 and self.classifier.outputs == 1
        require(fits, "the parts do not fit")
        require(not any(w_q) and not any(w_k), "attention is not uniform")
        self.nonzero = self.embedding.nonzero + self.classifier.nonzero
        self.nonzero += sum(x != 0 for x in [*self.w_v, *self.w_o])
        self.symbols, self.classes = (places(content[k]) for k in ("symbols", "classes"))
        require(self.symbols is None or self.embedding.inputs == 1, "symbols are one number each")

    def streams(self, tokens, work):
        """The stream of tokens (V, d), a column for each entry."""
        return self.embedding([Column(tokens[:, k]) for k in range(tokens.shape[1])], work)

    def values(self, stream, work):
        """What attention reads of each token, by W_V."""
        row = list(range(len(stream))), self.w_v, 0
        return affine([row], stream, len(stream[0].entries), work)[0].entries

    def sums(self, values, ids, work):
        """What attention adds up for each sequence, over one denominator which is not too long."""
        unit = common(values.tolist(), "values have no common denominator to go on with", work)
        scaled = [x.numerator * (unit // x.denominator) for x in values.tolist()]
        scaled = np.array(scaled, dtype=object)  # numpy makes floats of integers beyond 2^63
        work.take(ids.size, [(max(length(x) for x in scaled.tolist()), 0)], integers=True)
        total = scaled[ids].sum(axis=1)
        return (
            total if unit == 1 else np.frompyfunc(lambda x: whole(Fraction(x, unit)), 1, 1)(total)
        )

    def __call__(self, tokens, ids, work):
        """The outputs (N,), or (N n,) for seq2seq, of sequences ids (N, n) of tokens (V, d)."""
        stream = self.streams(tokens, work)
        total = Column(self.sums(self.values(stream, work), ids, work))
        mean = affine([([0], [Fraction(1, self.size)], 0)], [total], len(ids), work)[0].entries
        own = ids if self.task == "seq2seq" else ids[:, -1:]
        moved = [np.repeat(mean, own.shape[1])]
        moved = [Column(moved[0]), *(Column(y.entries[own.reshape(-1)]) for y in stream)]
        rows = [([0, k + 1], [w, 1], 0) for k, w in enumerate(self.w_o)]
        return self.classifier(affine(rows, moved, own.size, work), work)[0].entries


def places(listed):
    """The place of each symbol or class, by its JSON; None for none."""
    if listed is None:
        return None
    pairs = all(type(x) is list and len(x) == 2 for x in items(listed))
    require(pairs, "symbols and classes are not pairs of a kind and a value")
    found = {json.dumps(value): place for place, value in enumerate(listed)}
    require(len(found) == len(listed), "a symbol or class is named twice")
    return found
