"""Check a certificate about sequences without trusting the program which made it.

    python -I sequence_checker.py CERTIFICATE MEMORIZER DATA [--claims equality size]

An island, like checker.py: one file, on the standard library and numpy, with its own reading of the
files (so it repeats how files are read, on purpose) and its own evaluation. All numbers are Python
integers and Fractions in arrays of objects, so that nothing can round or overflow. It prints each
claim and PROVED, with status 0, or why not, with status 1.

The network: a token-wise ReLU network makes a stream of each token, one head of attention adds
W_O softmax(x W_Q (x W_K)^T) x W_V to it, and another token-wise network makes the label of it. W_Q
and W_K have to be zero, so that softmax is 1/n. Symbols and classes which are no numbers stand for
their place in a list of the memorizer. docs/certificates.md says what the claims mean.
"""

import argparse
import hashlib
import json
import re
import sys
from fractions import Fraction
from math import isqrt, lcm
from pathlib import Path

import numpy as np

FORMATS = (
    "constructive sequence certificate 1",
    "constructive sequence memorizer 1",
    "constructive sequences 1",
)
STATEMENTS = {
    "equality": "f(X) == y for all {} labels of N = {} sequences of n = {} tokens",
    "size": "{} non-zero parameters <= {}: Theorem 7 for {}",
}
SIZES = ("keys", "width", "label_bits", "token_bits", "residue_bits", "prime_bits", "kept",
         "weight_bits", "sum_bits", "key_bits")  # fmt: skip
NUMBER = re.compile(r"(0|-?[1-9a-f][0-9a-f]*)(?:/([1-9a-f][0-9a-f]*))?", re.ASCII)
CHUNK = 1 << 10  # examples which are evaluated at a time
SPARE = 8  # bits by which chance may miss the least prime or modulus
LONGEST = 1 << 14  # bits of a denominator; those of tokens cancel in the first layer


def require(condition, reason):
    if not condition:
        raise ValueError(reason)


def without_duplicates(pairs):
    require(len({key for key, _ in pairs}) == len(pairs), "a JSON object repeats a key")
    return dict(pairs)


def read(path, form):
    content = json.loads(Path(path).read_bytes(), object_pairs_hook=without_duplicates)
    require(content["format"] == form, f"the format of {path} is not {form!r}")
    return content


def digest(content):
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def number(text):
    """An integer or Fraction of text in base 16, which is written in one way only."""
    found = NUMBER.fullmatch(text)
    require(found, f"{text[:40]!r} is no number")
    if not found[2]:
        return int(found[1], 16)
    numerator, denominator = int(found[1], 16), int(found[2], 16)
    fraction = Fraction(numerator, denominator)
    require(1 < denominator == fraction.denominator, f"{text[:40]!r} is not in lowest terms")
    return fraction


def whole(x):
    if type(x) is Fraction:
        require(x.denominator.bit_length() < LONGEST, "a denominator is too long to go on")
        return x.numerator if x.denominator == 1 else x
    return x


def index(x, below):
    require(type(x) is int and 0 <= x < below, f"{x!r:.40} is no index below {below}")
    return x


class Network:
    """Layers of rows (columns, values, bias), checked to fit together."""

    def __init__(self, content):
        self.residual, self.layers, self.nonzero = content["residual"], [], 0
        require(type(self.residual) is bool and content["layers"], "a network without layers")
        for layer in content["layers"]:
            width, rows = layer["inputs"], []
            require(type(width) is int and width >= 0, "a width is no width")
            require(not self.layers or len(self.layers[-1][1]) == width, "layers do not fit")
            for row in layer["rows"]:
                columns, values = [index(c, width) for c in row[0]], list(map(number, row[1]))
                bias = number(row[2])
                require(len(row) == 3, "a row is not columns, values and a bias")
                require(len(values) == len(columns) == len(set(columns)), "a row is no row")
                rows.append((columns, values, bias))
                self.nonzero += sum(v != 0 for v in [*values, bias])
            self.layers.append((width, rows))
        self.inputs, self.outputs = self.layers[0][0], len(self.layers[-1][1])
        self.depth = len(self.layers) - 1
        if self.residual:
            require(len(self.layers) % 2 == 0, "a residual network of an odd number of layers")
            self.depth = len(self.layers) // 2 - 1
            widths = {width for width, _ in self.layers[1::2]}
            require(len(widths) == 1, "blocks of different widths")

    def __call__(self, x):
        """A list of arrays of numbers, one for each output, from such a list of inputs."""
        maps, count = [rows for _, rows in self.layers], len(x[0])
        if not self.residual:
            for rows in maps[:-1]:
                x = [np.maximum(y, 0) for y in affine(rows, x, count)]
            return affine(maps[-1], x, count)
        x = affine(maps[0], x, count)
        for first, second in zip(maps[1:-1:2], maps[2:-1:2], strict=True):
            added = affine(second, [np.maximum(y, 0) for y in affine(first, x, count)], count)
            x = [a + b for a, b in zip(x, added, strict=True)]
        return affine(maps[-1], x, count)


def affine(rows, x, count):
    """For each row the sum of values times the arrays (count,) in its columns, and the bias."""
    found, fractions = [], [any(type(entry) is Fraction for entry in y) for y in x]
    for columns, values, bias in rows:
        total = np.full(count, bias, dtype=object)
        for column, value in zip(columns, values, strict=True):
            total = total + value * x[column]
        exact = [type(v) is Fraction for v in [*values, bias]]
        if any(exact) or any(fractions[c] for c in columns):
            total = np.frompyfunc(whole, 1, 1)(total)  # integers are quicker
        found.append(total)
    return found


class Memorizer:
    """The parts of a memorizer's file, and what it puts out."""

    def __init__(self, content):
        self.task, self.size = content["task"], content["context_size"]
        require(self.task in {"next", "last", "seq2seq"}, "an unknown task")
        require(type(self.size) is int and self.size > 0, "n is no number of tokens")
        self.embedding = Network(content["embedding"])
        self.classifier = Network(content["classifier"])
        weights = content["attention"]
        require(set(weights) == {"W_Q", "W_K", "W_V", "W_O"}, "attention has other weights")
        require(all(type(x) is list for x in weights.values()), "attention is no lists")
        w_q, w_k, self.w_v, self.w_o = (
            [number(x) for x in weights[name]] for name in ("W_Q", "W_K", "W_V", "W_O")
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

    def __call__(self, tokens, ids):
        """The outputs (N,), or (N n,) for seq2seq, of sequences ids (N, n) of tokens (V, d)."""
        stream = self.embedding([tokens[:, k] for k in range(tokens.shape[1])])
        values = sum(w * y for w, y in zip(self.w_v, stream, strict=True))
        mean = values[ids].sum(axis=1) * Fraction(1, self.size)
        mean = np.frompyfunc(whole, 1, 1)(mean)
        own = ids if self.task == "seq2seq" else ids[:, -1:]
        means = np.repeat(mean, own.shape[1])
        moved = [y[own.reshape(-1)] + w * means for w, y in zip(self.w_o, stream, strict=True)]
        return self.classifier(moved)[0]


def places(listed):
    """The place of each symbol or class, by its JSON; None for none."""
    if listed is None:
        return None
    pairs = type(listed) is list and all(type(x) is list and len(x) == 2 for x in listed)
    require(pairs, "symbols and classes are no pairs of a kind and a value")
    found = {json.dumps(value): place for place, value in enumerate(listed)}
    require(len(found) == len(listed), "a symbol or class is named twice")
    return found


def read_tokens(data, memorizer):
    """Tokens as the network reads them (V, d), which have to be different."""
    require((data["tokens"] is None) != (data["symbols"] is None), "tokens, or symbols")
    if data["tokens"] is None:
        require(memorizer.symbols is not None, "the memorizer knows no symbols")
        known = [memorizer.symbols.get(name) for name in places(data["symbols"])]
        require(None not in known, "a symbol is not one of the memorizer's")
        rows = [[place] for place in known]
    else:
        require(memorizer.symbols is None, "the memorizer reads symbols")
        rows = [[number(x) for x in row] for row in data["tokens"]]
    width = memorizer.embedding.inputs
    require(rows and all(len(row) == width > 0 for row in rows), f"tokens have not {width} entries")
    require(len(set(map(tuple, rows))) == len(rows), "a token is there twice")
    tokens = np.empty((len(rows), width), dtype=object)
    tokens[:] = rows
    return tokens


def read_labels(data, memorizer):
    """What has to be put out for each class of the data."""
    require(len(places(data["classes"])) > 0, "there are no classes")
    if memorizer.classes is not None:
        found = [memorizer.classes.get(json.dumps(value)) for value in data["classes"]]
        require(None not in found, "a label is none of the memorizer's")
        return found
    integers = [kind in {"int", "bool"} for kind, _ in data["classes"]]
    require(all(integers), "a label is none of the memorizer's, which are integers")
    found = [number(x) if kind == "int" else index(x, 2) for kind, x in data["classes"]]
    require(all(type(x) is int for x in found), "a label is no integer")
    return found


def check_size(claim, memorizer, tokens, ids, expected):
    """Theorem 7's formula, for numbers which are possible for these data and this network."""
    sizes = dict(claim["evidence"])
    require(set(sizes) == set(SIZES), "the evidence names other sizes")
    require(all(type(x) is int and x >= 0 for x in sizes.values()), "a size is no number")
    context = np.unique(np.sort(ids, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    keys = context[:, None]
    if memorizer.task != "next":
        own = ids if memorizer.task == "seq2seq" else ids[:, -1:]
        keys = np.stack([np.repeat(context, own.shape[1]), own.reshape(-1)], axis=1)
    keys, width = len(np.unique(keys, axis=0)), tokens.shape[1]
    labels = (max(expected) - min(expected) + 1).bit_length()
    true = {"keys": keys, "width": width, "label_bits": labels}
    require(all(sizes[name] == true[name] for name in true), f"the sizes of the data are {true}")
    columns = [tokens[:, k] for k in range(width)]
    first = affine(memorizer.embedding.layers[0][1], columns, len(tokens))
    spans = [int(y.max() - y.min() + 1).bit_length() for y in first if y.max() > y.min()]
    unit = lcm(*(x.denominator for x in tokens.ravel()))
    reach = (2 * width * int(max(abs(x * unit) for x in tokens.ravel())) + 1).bit_length()
    reach += 0 if width == 1 else 2 * len(tokens).bit_length() + SPARE  # for the projection
    read = sum(w * y for w, y in zip(memorizer.w_v, memorizer.embedding(columns), strict=True))
    hashes = int(max(read.max(), 0)).bit_length()  # n times the largest one
    pairs, residue_bits = 2 * len(ids).bit_length() + SPARE, sizes["residue_bits"]
    longest = memorizer.size.bit_length() + max(residue_bits, 1) * (pairs + SPARE)
    allowed = {
        "token_bits": min([reach, *spans]),  # z is there, and three times z; or nothing
        "residue_bits": sizes["token_bits"],
        "prime_bits": min(hashes, pairs + residue_bits) + SPARE,
        "kept": max(int(context.max()), 1),
        "weight_bits": min(hashes + 1, pairs),
        "sum_bits": min(hashes + 1, longest) + residue_bits + 1,
        "key_bits": min(sizes["sum_bits"], 2 * keys.bit_length() + SPARE),
    }
    require(all(sizes[name] <= allowed[name] for name in allowed), f"sizes are above {allowed}")
    bound = 4 * (width + 1) + 14 * sizes["token_bits"] + 2
    bound += 14 * (sizes["sum_bits"] + sizes["key_bits"]) + 8
    bound += dictionary_bound(keys, labels, sizes["key_bits"])
    if sizes["kept"]:
        bound += dictionary_bound(sizes["kept"], sizes["weight_bits"], sizes["residue_bits"])
        bound += 14 * sizes["residue_bits"]
    else:
        bound += 40 * sizes["residue_bits"]
        if sizes["prime_bits"]:
            bound += 14 * sizes["residue_bits"] * (sizes["prime_bits"] + 1)
    require(memorizer.nonzero <= bound, f"size: {memorizer.nonzero} parameters, above {bound}")
    return memorizer.nonzero, bound, ", ".join(f"{name} {sizes[name]}" for name in SIZES)


def dictionary_bound(keys, label_bits, key_bits):
    """The least of 14 m + 15 ((k - 1) f + k), and 40, for m blocks of at most k keys."""
    reach, found = label_bits + key_bits, []
    for entries in range(1, 4 * isqrt(keys) + 2):  # with fewer bits, 28 k blocks cost 15 (k - 1)
        for bits in range(max(1, reach - entries.bit_length() - 2), reach + 1):
            blocks = (keys + entries - 1) // entries + 2 ** (reach - bits) + 1
            found.append(14 * blocks + 15 * ((entries - 1) * bits + entries))
    return min(found) + 40


def check(files, asked=()):
    """The statements which the files of these names prove; whatever is wrong raises."""
    certificate, weights, data = (read(*pair) for pair in zip(files, FORMATS, strict=True))
    claims, statements = certificate["claims"], {}
    for part, content in (("data", data), ("weights", weights)):
        require(certificate[part]["sha256"] == digest(content), f"it is about other {part}")
    require(claims and set(claims) <= set(STATEMENTS), "it claims nothing, or nothing known")
    require(set(asked) <= set(claims), "it does not claim all that is asked")
    require(all(c["verdict"] == "PROVED" for c in claims.values()), "not all claims are PROVED")
    require(certificate["verdict"] == "PROVED", "its verdict is not PROVED")
    memorizer = Memorizer(weights)
    tokens, labels = read_tokens(data, memorizer), read_labels(data, memorizer)
    size = memorizer.size
    require(data["task"] == memorizer.task, "the data are for another task")
    require(data["ids"] and all(len(row) == size for row in data["ids"]), "lengths differ")
    ids = np.array([[index(i, len(tokens)) for i in row] for row in data["ids"]])
    require(len(np.unique(ids)) == len(tokens), "a token is in no sequence")
    each = ids.size if memorizer.task == "seq2seq" else len(ids)
    require(len(data["labels"]) == each, "labels do not fit the sequences")
    require(len(set(data["labels"])) == len(labels), "a class is the label of nothing")
    expected = [labels[index(i, len(labels))] for i in data["labels"]]
    about = {"sequences": len(ids), "context_size": size, "tokens": len(tokens)}
    about |= {"task": memorizer.task, "sha256": digest(data)}
    told = digest(certificate["data"]), digest(certificate["weights"])
    require(told[0] == digest(about), f"the certificate says something else than {about}")
    about = {"nonzero": memorizer.nonzero, "embedding_depth": memorizer.embedding.depth}
    about |= {"classifier_depth": memorizer.classifier.depth, "sha256": digest(weights)}
    require(told[1] == digest(about), f"the certificate says something else than {about}")
    for name, claim in claims.items():
        if name == "equality":
            shown, per = (each, len(ids), size), each // len(ids)
            for start in range(0, len(ids), CHUNK):
                rows = ids[start : start + CHUNK]
                used, own = np.unique(rows, return_inverse=True)
                found = memorizer(tokens[used], own.reshape(rows.shape))
                for i, x in enumerate(found, start * per):
                    require(x == expected[i], f"equality: label {i} is not as it should be")
        else:
            shown = check_size(claim, memorizer, tokens, ids, expected)
        statement = statements[name] = STATEMENTS[name].format(*shown)
        require(claim["statement"] == statement, f"it does not state: {statement}")
    return statements


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs=3, help="CERTIFICATE MEMORIZER DATA")
    parser.add_argument("--claims", nargs="*", default=(), help="refuse if one is missing")
    given = parser.parse_args(arguments)
    try:
        shown = check(given.files, given.claims)
        print(*(f"{name:9} {statement}" for name, statement in shown.items()), "PROVED", sep="\n")
    except Exception as failure:  # hostile files make readers raise nearly everything
        print(f"NOT PROVED: {failure!a:.300}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
