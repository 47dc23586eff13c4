"""Certificates of sequence memorizers: every number is a Python integer or a Fraction."""

import hashlib
import json
import re
from copy import copy
from fractions import Fraction
from functools import cached_property
from math import isqrt, lcm

import numpy as np

from .claim import About, Claim, Refuted, Shown
from .files import announce, read_json, require, same, silent

# Long numbers of many examples: Python's integers and Fractions, counted before they are computed.
#
# Numbers are in arrays of objects, one array for each unit. They can be long, and a short file can
# make them very long: so what a row of a layer will take is counted before it is computed (`Work`).

NUMBER = re.compile(r"(0|-?[1-9a-f][0-9a-f]*)(?:/([1-9a-f][0-9a-f]*))?", re.ASCII)
CHUNK = 1 << 10  # examples which are evaluated at a time
LONGEST = 1 << 14  # bits of a denominator; those of tokens cancel in the first layer


def number(text):
    """An integer or Fraction of text in base 16, which is written in one way only."""
    found = NUMBER.fullmatch(text)
    require(found, f"{text[:40]!r} is not a number")
    if not found[2]:
        return int(found[1], 16)
    require(4 * len(found[2]) <= LONGEST, f"the denominator of {text[:40]!r} is too long")
    numerator, denominator = int(found[1], 16), int(found[2], 16)
    fraction = Fraction(numerator, denominator)
    require(1 < denominator == fraction.denominator, f"{text[:40]!r} is not in lowest terms")
    return fraction


def whole(x):
    if type(x) is Fraction:
        require(x.denominator.bit_length() < LONGEST, "a denominator is too long to go on")
        return x.numerator if x.denominator == 1 else x
    return x


class Work:
    """What evaluation has cost and may cost: nanoseconds or so in all, and bytes at a time."""

    def __init__(self, allowed, most, tell=silent):
        self.spent, self.allowed, self.most, self.tell = 0, allowed, most, tell

    def take(self, count, factors, integers, start=0):
        """Count so many sums of products of numbers of these lengths in bits, to one of `start`."""
        each, total = 0.0, start
        for a, b in factors:
            total = max(total, a + b) + 1 if integers else total + a + b
            each += 60 + 0.15 * (a + b + total) + 1.2e-3 * (a + 30) * (b + 30)
            if not integers:  # common denominators, and lowest terms
                each += 3000 + 0.015 * (a + b + LONGEST / 16) ** 2 + 5e-3 * total * (a + b)
        self.spent += count * each + 1000 * len(factors)
        require(self.spent <= self.allowed, "long numbers would take more than a minute")

    def hold(self, size):
        if size > self.most:
            raise MemoryError("these numbers are too many, or too long, for --max-memory")


def length(x):
    """Bits of a number, of its numerator and denominator together."""
    return x.numerator.bit_length() + x.denominator.bit_length() - 1


class Column:
    """A quantity for several examples: numbers, how long they are, and whether all are integers."""

    def __init__(self, entries, integers=False):
        self.entries = entries
        self.integers = integers or Fraction not in set(map(type, entries))
        if self.integers:
            self.bits = max(int(entries.max()).bit_length(), int(entries.min()).bit_length())
        else:
            self.bits = max(map(length, entries))
        self.size = len(entries) * (self.bits // 8 + 48)

    def relu(self):
        """max(x, 0), which is no longer."""
        found = copy(self)
        found.entries = np.maximum(self.entries, 0)
        return found


def affine(rows, x, count, work):
    """For each row the sum of values times the columns it names, and the bias."""
    found, held = [], sum(column.size for column in x)
    for names, values, bias in rows:
        parts = [x[name] for name in names]
        if list(values) == [1] and not bias:
            found.append(parts[0])  # a copy
            continue
        lengths = [(length(value), part.bits) for value, part in zip(values, parts, strict=True)]
        whole_numbers = all(type(v) is int for v in (*values, bias))
        whole_numbers = whole_numbers and all(part.integers for part in parts)
        work.take(count, lengths, whole_numbers, length(bias))
        longest = max(map(sum, lengths), default=0) + length(bias) + len(lengths)
        longest += 0 if whole_numbers else sum(map(sum, lengths))
        work.hold(held + 3 * count * (longest // 8 + 48))
        total = np.full(count, bias, dtype=object)
        for value, part in zip(values, parts, strict=True):
            total = total + (part.entries if value == 1 else value * part.entries)
        total = total if whole_numbers else np.frompyfunc(whole, 1, 1)(total)
        found.append(Column(total, whole_numbers))
        held += found[-1].size
    return found


def common(numbers, why, work):
    """The least common denominator, which may not be too long."""
    unit = 1
    work.take(len(numbers), [(LONGEST, 0)], integers=True)
    for x in numbers:
        unit = lcm(unit, x.denominator)
        require(unit.bit_length() < LONGEST, why)
    return unit


def in_parts(function, total):
    """Ranges of examples and what a function gives for them, as many as fit at a time."""
    pending = [range(k, min(k + CHUNK, total)) for k in range(0, total, CHUNK)][::-1]
    while pending:
        part = pending.pop()
        try:
            result = function(part)
        except MemoryError:
            require(len(part) > 1, "one example takes more than --max-memory")
            half = len(part) // 2
            pending += [part[half:], part[:half]]
        else:
            yield part, result


# Networks of sequence memorizers, and what they put out.
#
# A token-wise ReLU network makes a stream of each token, one head of attention adds W_O softmax(x
# W_Q (x W_K)^T) x W_V to it, and another token-wise network makes the label of it. W_Q and W_K
# have to be zero, so that softmax is 1/n. Symbols and classes which are not numbers stand for
# their place in a list of the memorizer.

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
            rows = [
                ([*names, len(units) + k], [*values, 1], bias)  # what was there is added
                for k, (names, values, bias) in enumerate(second)
            ]
            x = affine(rows, units + x, count, work)
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


# The claim *size* of sequence memorizers: they have no more parameters than Theorem 7 says.

# In the order of a statement; certificates of earlier builds name `prime_bits`, too, which is 0.
NAMES = (
    "keys", "width", "label_bits", "token_bits", "residue_bits", "prime_bits", "kept",
    "weight_bits", "sum_bits", "key_bits",
)  # fmt: skip
SPARE = 8  # bits by which chance may miss the least prime or modulus


class Size(Claim):
    """The formula, for numbers which are possible for these data and this network."""

    name = "size"
    statement = "{} non-zero parameters <= {}: Theorem 7 for {}"

    unshown = "non-zero parameters are no more than Theorem 7 says"
    shown = ()  # the numbers of the statement, once they are known to be possible

    def numbers(self, about):
        del about
        return self.shown

    def check(self, about):
        nonzero, bound = about.problem[0].nonzero, check_size(self.evidence, *about.problem)
        named = [f"{name} {self.evidence[name]}" for name in NAMES if name in self.evidence]
        self.shown = nonzero, bound, ", ".join(named)
        if nonzero > bound:
            raise Refuted(f"{nonzero} parameters, above {bound}", nonzero)
        return Shown(self.shown, "sizes that these data and this network may have")


def require_sizes(evidence):
    sizes = dict(evidence)
    require({*sizes, "prime_bits"} == set(NAMES), "the evidence names other sizes")
    require(all(type(x) is int and x >= 0 for x in sizes.values()), "a size is not a number")
    require(not sizes.pop("prime_bits", 0), "no network has a power hash")
    return sizes


def bound_of(sizes):
    """Theorem 7's formula."""
    bound = 4 * (sizes["width"] + 1) + 14 * sizes["token_bits"] + 2
    bound += 14 * (sizes["sum_bits"] + sizes["key_bits"]) + 8
    bound += dictionary_bound(sizes["keys"], sizes["label_bits"], sizes["key_bits"])
    if sizes["kept"]:
        bound += dictionary_bound(sizes["kept"], sizes["weight_bits"], sizes["residue_bits"])
        return bound + 14 * sizes["residue_bits"]
    return bound + 40 * sizes["residue_bits"]


def check_size(evidence, memorizer, tokens, ids, expected, work):
    """Theorem 7's formula, for numbers which are possible for these data and this network."""
    sizes = require_sizes(evidence)
    context = np.unique(np.sort(ids, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    keys = context[:, None]
    if memorizer.task != "next":
        own = ids if memorizer.task == "seq2seq" else ids[:, -1:]
        keys = np.stack([np.repeat(context, own.shape[1]), own.reshape(-1)], axis=1)
    keys, width = len(np.unique(keys, axis=0)), tokens.shape[1]
    labels = (max(expected) - min(expected) + 1).bit_length()
    true = {"keys": keys, "width": width, "label_bits": labels}
    require(all(sizes[name] == true[name] for name in true), f"the sizes of the data are {true}")
    hashes, spans = extents(memorizer, tokens, work)
    unit = common(tokens.ravel().tolist(), "the common denominator of tokens is too long", work)
    reach = (2 * width * int(max(abs(x * unit) for x in tokens.ravel())) + 1).bit_length()
    reach += 0 if width == 1 else 2 * len(tokens).bit_length() + SPARE  # for the projection
    pairs, residue_bits = 2 * len(ids).bit_length() + SPARE, sizes["residue_bits"]
    longest = memorizer.size.bit_length() + max(residue_bits, 1) * (pairs + SPARE)
    allowed = {
        "token_bits": min([reach, *spans]),  # z is there, and three times z; or nothing
        "residue_bits": sizes["token_bits"],
        "kept": max(int(context.max()), 1),
        "weight_bits": min(hashes + 1, pairs),
        "sum_bits": min(hashes + 1, longest) + residue_bits + 1,
        "key_bits": min(sizes["sum_bits"], 2 * keys.bit_length() + SPARE),
    }
    require(all(sizes[name] <= allowed[name] for name in allowed), f"sizes are above {allowed}")
    return bound_of(sizes)


def extents(memorizer, tokens, work):
    """Bits of n times the largest hash, and of the spans of the units of the first layer."""

    def of(part):
        rows = tokens[part.start : part.stop]
        columns = [Column(rows[:, k]) for k in range(tokens.shape[1])]
        units = affine(memorizer.embedding.layers[0][1], columns, len(rows), work)
        ends = [(unit.entries.min(), unit.entries.max()) for unit in units]
        return ends, memorizer.values(memorizer.streams(rows, work), work).max()

    parts, largest = zip(*(found for _, found in in_parts(of, len(tokens))), strict=True)
    ends = [(min(a for a, _ in unit), max(b for _, b in unit)) for unit in zip(*parts, strict=True)]
    spans = [int(high - low + 1).bit_length() for low, high in ends if high > low]
    return int(max(0, *largest)).bit_length(), spans


def dictionary_bound(keys, label_bits, key_bits):
    """The least of 14 m + 15 ((k - 1) f + k), and 40, for m blocks of at most k keys."""
    reach, found = label_bits + key_bits, []
    for entries in range(1, 4 * isqrt(keys) + 2):  # with fewer bits, 28 k blocks cost 15 (k - 1)
        for bits in range(max(1, reach - entries.bit_length() - 2), reach + 1):
            blocks = (keys + entries - 1) // entries + 2 ** (reach - bits) + 1
            found.append(14 * blocks + 15 * ((entries - 1) * bits + entries))
    return min(found) + 40


FORMATS = {"memorizer": "constructive sequence memorizer 1", "data": "constructive sequences 1"}
MINUTE = 6e10  # nanoseconds which long numbers may cost


class Equality(Claim):
    """Every label, example by example."""

    name = "equality"
    statement = "f(X) == y for all {} labels of N = {} sequences of n = {} tokens"

    def numbers(self, about):
        ids = about.data["ids"]
        return len(about.data["labels"]), len(ids), len(ids[0])

    def check(self, about):
        check_equality(*about.problem)
        return Shown(self.numbers(about), "by rational arithmetic, exactly")


class Sequences(About):
    """A memorizer, and tokens, sequences and labels: what their files hold."""

    format = "constructive sequence certificate 1"

    def __init__(self, weights, data, options):
        self.weights, self.data, self.options = weights, data, options

    @classmethod
    def read(cls, content, files, claims, options):
        del claims
        require(len(files) == 2, "a certificate of sequences needs a memorizer and data")
        options.tell("read the memorizer and the data", 0, 1)
        weights, data = (
            read_json(path, role, options.most) for path, role in zip(files, FORMATS, strict=True)
        )
        for role, read in (("memorizer", weights), ("data", data)):
            require(read["format"] == FORMATS[role], f"the format of the {role} is another")
        for part, read in (("data", data), ("weights", weights)):
            require(
                content[part]["sha256"] == digest(read), f"the certificate is about other {part}"
            )
        found = cls(weights, data, options)
        memorizer, tokens, ids, *_ = found.problem
        about = {"sequences": len(ids), "context_size": memorizer.size, "tokens": len(tokens)}
        require_said(content["data"], about | {"task": memorizer.task})
        about = {"nonzero": memorizer.nonzero, "embedding_depth": memorizer.embedding.depth}
        require_said(content["weights"], about | {"classifier_depth": memorizer.classifier.depth})
        announce(ids.size * 300, 100 * found.short, options.most)
        return found

    @cached_property
    def problem(self):
        """The memorizer, tokens, sequences, what it should put out, and the work allowed."""
        memorizer, data = Memorizer(self.weights), self.data
        tokens, labels = read_tokens(data, memorizer), read_labels(data, memorizer)
        size = memorizer.size
        require(data["task"] == memorizer.task, "the data are for another task")
        lengths = {len(items(row)) for row in items(data["ids"])}
        require(lengths == {size}, "lengths differ")
        ids = np.array([[index(i, len(tokens)) for i in row] for row in data["ids"]])
        require(len(np.unique(ids)) == len(tokens), "a token is in no sequence")
        each = ids.size if memorizer.task == "seq2seq" else len(ids)
        require(len(items(data["labels"])) == each, "labels do not fit the sequences")
        expected = [labels[index(i, len(labels))] for i in data["labels"]]
        require(len(set(data["labels"])) == len(labels), "a class is the label of nothing")
        self.short = memorizer.embedding.terms * ids.size + memorizer.classifier.terms * each
        work = Work(2000 * self.short + MINUTE, self.options.most / 2, self.options.tell)
        return memorizer, tokens, ids, expected, work


def require_said(said, about):
    """Require of a part of the certificate that it says this, and a hash."""
    about = about | {"sha256": said["sha256"]}
    require(same(said, about), f"the certificate says something else than {about}")


def digest(content):
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def check_equality(memorizer, tokens, ids, expected, work):
    """Require that no label is another."""
    per = ids.shape[1] if memorizer.task == "seq2seq" else 1

    def of(part):
        rows = ids[part.start : part.stop]
        used, own = np.unique(rows, return_inverse=True)
        return memorizer(tokens[used], own.reshape(rows.shape), work)

    for part, found in in_parts(of, len(ids)):
        work.tell("equality", part.stop, len(ids))
        for i, x in enumerate(found, part.start * per):
            if x != expected[i]:
                witness = divmod(i, per) if memorizer.task == "seq2seq" else i
                known = None if memorizer.classes is None else list(memorizer.classes)
                given, wanted = (said_of(y, known) for y in (x, expected[i]))
                raise Refuted(f"label {i} is {given}, not {wanted}", witness)


def said_of(value, classes):
    """An output in words: the class that it stands for, or itself unless it is long."""
    if classes is not None and type(value) is int and 0 <= value < len(classes):
        return f"{classes[value]:.60}"
    return str(value) if length(value) < LONGEST >> 3 else "a long number"


def read_tokens(data, memorizer):
    """Tokens as the network reads them (V, d), which have to be different."""
    require((data["tokens"] is None) != (data["symbols"] is None), "tokens, or symbols")
    if data["tokens"] is None:
        require(memorizer.symbols is not None, "the memorizer knows no symbols")
        known = {name: memorizer.symbols.get(name) for name in places(data["symbols"])}
        other = [name for name, place in known.items() if place is None]
        require(not other, f"the memorizer has no symbol {''.join(other[:1]):.80}")
        rows = [[place] for place in known.values()]
    else:
        require(memorizer.symbols is None, "the memorizer reads symbols")
        rows = [[number(x) for x in items(row)] for row in items(data["tokens"])]
        # By their texts, of which a number has one: numbers can be made to have equal hashes.
        require(len(set(map(tuple, data["tokens"]))) == len(rows), "a token is there twice")
    width = memorizer.embedding.inputs
    require(rows and all(len(row) == width > 0 for row in rows), f"tokens have not {width} entries")
    tokens = np.empty((len(rows), width), dtype=object)
    tokens[:] = rows
    return tokens


def read_labels(data, memorizer):
    """What has to be put out for each class of the data."""
    require(len(places(data["classes"])) > 0, "there are no classes")
    if memorizer.classes is not None:
        known = {name: memorizer.classes.get(name) for name in places(data["classes"])}
        other = [name for name, place in known.items() if place is None]
        require(not other, f"the memorizer has no label {''.join(other[:1]):.80}")
        return list(known.values())
    other = [pair for pair in data["classes"] if pair[0] not in {"int", "bool"}]
    why = f"the memorizer puts out integers, and not {json.dumps(other)[1:-1]:.80}"
    require(not other, why)
    found = [number(x) if kind == "int" else index(x, 2) for kind, x in data["classes"]]
    require(all(type(x) is int for x in found), "a label is not an integer")
    return found
