"""Whether a statement of a certificate is true: judges which share no code with what they judge.

They read arrays and texts, and compute with Python's integers and Fractions, or with balls of 2,000
bits beyond what magnitudes cancel. A judge says True, False, or None where it cannot tell.

- *Rank*: Z has rank T over the reals if and only if it has rank T over Q(x), as exp(2^s) is
  transcendental (proofs/10). One point modulo the prime 2^127 - 1 shows that it has; three random
  ones which do not have it show, but for a chance of 10^-100 or so, that it has not.
- *Error*: the layer as it is defined, example by example, in balls.
- *Impossible*: ranks of tokens and of differences within contexts, of the examples that the
  certificate blames, over the rational numbers; and how many of these examples differ.
"""

import json
import re
from fractions import Fraction
from pathlib import Path

import flint
import numpy as np
import oracle
from oracle import rank_of
from safetensors.numpy import load_file
from triples import unpack

PRIME = 2**127 - 1
# Bits beyond what magnitudes may cancel.
SPARE = 2000


def all_of(found):
    """Whether all is true: None if that is not known."""
    return False if False in found else None if None in found else True


def of_lines(judge):
    """A judge of all that a checker prints of files, from one of a name and its statement."""

    def judged(printed, files):
        *lines, last = printed.splitlines()
        stated = [line.split(maxsplit=1) for line in lines]
        right = last == "PROVED" and stated != []
        return right and all_of([judge(name, text, files) for name, text in stated])

    return judged


def fractions(array):
    """An array of floats as nested lists of Fractions."""
    return np.vectorize(Fraction, otypes=[object])(np.asarray(array, dtype=float)).tolist()


def whole(array):
    """Integers and e with array = integers 2^e."""
    listed = [Fraction(float(x)) for x in np.asarray(array).ravel()]
    shift = max((x.denominator.bit_length() - 1 for x in listed), default=0)
    integers = np.array([int(x * 2**shift) for x in listed], dtype=object)
    return integers.reshape(np.shape(array)), -shift


def contexts_of(data):
    contexts = data["contexts"]
    return contexts if contexts.ndim == 3 else np.broadcast_to(
        contexts, (len(data["queries"]), *contexts.shape)
    )  # fmt: skip


# The rank.


def representation_modulo(weights, data, rng):
    """Z at a random x modulo PRIME where no denominator vanishes, times a power of two."""
    point = int.from_bytes(rng.bytes(15), "little") + 2
    w_q, w_k = whole(weights["W_Q"])[0], whole(weights["W_K"])[0]
    queries, contexts = whole(data["queries"])[0], whole(contexts_of(data))[0]
    rows = []
    for query, tokens in zip(queries, contexts, strict=True):
        row = []
        for q, k in zip(w_q, w_k, strict=True):
            logits = tokens @ (k @ (query @ q))
            powers = [pow(point, int(x) % (PRIME - 1), PRIME) for x in logits]
            if sum(powers) % PRIME == 0:
                return representation_modulo(weights, data, rng)
            scale = pow(sum(powers), -1, PRIME)
            for entry in tokens.T:
                total = sum(int(e) * x for e, x in zip(entry, powers, strict=True))
                row.append(total * scale % PRIME)
        rows.append(row)
    return rows


def rank_is_full(weights, data):
    total = len(data["queries"])
    if total > weights["W_Q"].shape[0] * weights["W_Q"].shape[1]:
        return False
    rng = np.random.default_rng(total)
    return any(rank_of(representation_modulo(weights, data, rng), PRIME) == total for _ in range(3))


# The layer, in balls.


def largest_error(weights, data):
    """max |f - y| as a ball, in bits of which 2,000 are left after all cancels that can."""
    arrays = weights["W_Q"], weights["W_K"], data["queries"], data["contexts"]
    reach = sum(int(np.frexp(np.abs(x).max(initial=0.0))[1]) for x in arrays)
    targets = np.asarray(data["targets"], dtype=float).reshape(len(data["queries"]), -1)
    bits = SPARE + 2300 + 2 * max(reach, 0)
    with flint.ctx.workprec(bits):
        errors = [
            abs(x - y)
            for row, goals in zip(oracle.outputs(weights, data, bits), targets, strict=True)
            for x, y in zip(row, goals.tolist(), strict=True)
        ]
        return max(errors, key=lambda error: error.mid())


def error_holds(weights, data, epsilon):
    """Whether it is at most epsilon, as far as balls tell; None if they are too wide."""
    worst, room = largest_error(weights, data), flint.arb(2) ** -(SPARE // 2)
    if worst.rad() > room * (flint.arb(float(epsilon)) + room):
        return None
    return not worst > float(epsilon)


# Exact statements about the data.


def grouping_holds(data, groups):
    """Contexts of rank n, independent groups, and but for the first no other query in a span."""
    contexts, queries = data["contexts"], fractions(data["queries"])
    for context in contexts.reshape(-1, *contexts.shape[-2:]):
        if rank_of(fractions(context)) < len(context):
            return False
    for head, (start, stop) in enumerate(groups):
        members = queries[start:stop]
        if rank_of(members) < len(members):
            return False
        others = queries[:start] + queries[stop:]
        if head and members and any(rank_of([*members, e]) == len(members) for e in others):
            return False
    return True


def product_of_primes(count):
    """Of so many from 2^21 on."""
    found, candidate = 1, 1 << 21
    while count:
        candidate += 1
        if all(candidate % k for k in range(2, 1449)):
            found, count = found * candidate, count - 1
    return found


def impossible_holds(data, heads, bound, number, chosen):
    """Whether the rows of these examples have no larger rank than `bound`, and are `number`."""
    contexts, queries = fractions(data["contexts"]), fractions(data["queries"])
    shared = np.ndim(data["contexts"]) == 2
    if not all(0 <= t < len(queries) for t in chosen):
        return False
    some = [contexts] if shared else [contexts[t] for t in chosen]
    tokens = [token for context in some for token in context]
    differences = [
        [x - y for x, y in zip(token, context[0], strict=True)]
        for context in some
        for token in context[1:]
    ]
    different = {
        (tuple(queries[t]), () if shared else tuple(sorted(map(tuple, contexts[t]))))
        for t in chosen
    }
    largest = rank_of(tokens) + (heads - 1) * rank_of(differences)
    return heads > 0 and largest <= bound < number == len(different)


# What a checker prints.


@of_lines
def of_layer(name, statement, files):
    """Whether a printed statement is true of these files: certificate, weights if any, data."""
    weights = load_file(files[1]) if len(files) == 3 else None
    data = {k: np.array(v, dtype=float) for k, v in np.load(files[-1]).items()}
    evidence = json.loads(Path(files[0]).read_bytes())["claims"][name]["evidence"]
    return layer_statement(name, statement, weights, data, evidence)


def layer_statement(name, statement, weights, data, evidence):
    """Whether a printed statement about one layer is true."""
    total = len(data["queries"])
    if name == "rank":
        wanted = f"rank Z = T = {total}: for all Y some effective readout U (H d, d_out)"
        return statement.startswith(wanted) and rank_is_full(weights, data)
    if name == "error":
        return error_holds(weights, data, float(statement.split("<= ")[1]))
    groups = evidence.get("groups")
    if name == "grouping":
        words = r"all contexts have rank n = (\d+); the queries of each of (\d+) "
        told = re.match(words, statement)
        right = [int(x) for x in told.groups()] == [data["contexts"].shape[-2], len(groups)]
        return right and grouping_holds(data, groups)
    told = re.fullmatch(
        r"for all W_Q and W_K of H = (\d+) heads rank Z <= (\d+) on (\d+) different examples: "
        "whichever are chosen, some targets have no readout",
        statement,
    )
    chosen = unpack(evidence["examples"]).tolist()
    return impossible_holds(data, *map(int, told.groups()), chosen)


# Sequences.


def evaluate(network, x):
    """A ReLU network of the file, on one vector of Fractions."""

    def affine(layer, x):
        return [
            sum((number(v) * x[c] for c, v in zip(row[0], row[1], strict=True)), number(row[2]))
            for row in layer["rows"]
        ]

    layers = network["layers"]
    if not network["residual"]:
        for layer in layers[:-1]:
            x = [max(y, Fraction(0)) for y in affine(layer, x)]
        return affine(layers[-1], x)
    x = affine(layers[0], x)
    for first, second in zip(layers[1:-1:2], layers[2:-1:2], strict=True):
        units = [max(y, Fraction(0)) for y in affine(first, x)]
        x = [a + b for a, b in zip(x, affine(second, units), strict=True)]
    return affine(layers[-1], x)


def number(text):
    top, _, bottom = text.partition("/")
    return Fraction(int(top, 16), int(bottom, 16) if bottom else 1)


def sequence_labels(memorizer, data):
    """What the network puts out for every label of the data, in order."""
    if data["symbols"] is None:
        tokens = [[number(x) for x in row] for row in data["tokens"]]
    else:
        tokens = [[Fraction(memorizer["symbols"].index(name))] for name in data["symbols"]]
    w_v, w_o = ([number(x) for x in memorizer["attention"][k]] for k in ("W_V", "W_O"))
    streams = [evaluate(memorizer["embedding"], token) for token in tokens]
    for row in data["ids"]:
        read = [sum(v * x for v, x in zip(w_v, streams[i], strict=True)) for i in row]
        mean = sum(read) / len(row)
        for i in row if memorizer["task"] == "seq2seq" else row[-1:]:
            moved = [x + w * mean for x, w in zip(streams[i], w_o, strict=True)]
            yield evaluate(memorizer["classifier"], moved)[0]


def label_value(memorizer, kind, value):
    if memorizer["classes"] is not None:
        return Fraction(memorizer["classes"].index([kind, value]))
    return number(value) if kind == "int" else Fraction(int(value))


def count_weights(memorizer):
    texts = [x for k in ("W_Q", "W_K", "W_V", "W_O") for x in memorizer["attention"][k]]
    for part in ("embedding", "classifier"):
        for layer in memorizer[part]["layers"]:
            for row in layer["rows"]:
                texts += [*row[1], row[2]]
    return sum(number(text) != 0 for text in texts)


def dictionary(keys, labels, bits):
    """The least of 14 m + 15 ((k - 1) f + k) + 40 over all k and f (proofs/14)."""
    return 40 + min(
        14 * (-(-keys // k) + 2 ** (labels + bits - f) + 1) + 15 * ((k - 1) * f + k)
        for k in range(1, keys + 2)
        for f in range(1, labels + bits + 1)
    )


def size_formula(s):
    embedding = 4 * (s["width"] + 1) + 14 * s["token_bits"]
    if s["kept"]:
        embedding += dictionary(s["kept"], s["weight_bits"], s["residue_bits"])
        embedding += 14 * s["residue_bits"]
    else:
        embedding += 40 * s["residue_bits"]
    classifier = dictionary(s["keys"], s["label_bits"], s["key_bits"])
    return embedding + 2 + 14 * (s["sum_bits"] + s["key_bits"]) + 8 + classifier


@of_lines
def of_sequences(name, statement, files):
    """Whether a printed statement about a sequence memorizer is true."""
    memorizer, data = (json.loads(Path(file).read_bytes()) for file in files[1:])
    if name == "equality":
        told = re.fullmatch(
            r"f\(X\) == y for all (\d+) labels of N = (\d+) sequences of n = (\d+) tokens",
            statement,
        )
        found = list(sequence_labels(memorizer, data))
        classes = [label_value(memorizer, *pair) for pair in data["classes"]]
        counts = [len(found), len(data["ids"]), len(data["ids"][0])]
        right = [int(x) for x in told.groups()] == counts and len(found) == len(data["labels"])
        return right and found == [classes[i] for i in data["labels"]]
    told = re.fullmatch(r"(\d+) non-zero parameters <= (\d+): Theorem 7 for (.*)", statement)
    sizes = {k: int(v) for k, v in (pair.split() for pair in told[3].split(", "))}
    weights, bound = int(told[1]), int(told[2])
    return weights == count_weights(memorizer) and weights <= bound == size_formula(sizes)
