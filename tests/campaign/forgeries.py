"""Hostile triples: mutations of honest ones, claims which are built to be false, and spoilt files.

Every function takes a random generator and returns a case: how to write its files, and how to
judge what is accepted.
"""

import contextlib
import copy
import functools
import json
import struct
import warnings
import zipfile
from dataclasses import dataclass

import judges
import numpy as np
import triples
from hypothesis import strategies as st
from mutations import EVIL, mutate_json, pick
from triples import PAIRED, bound, certificate, claim, pack, unpack

PRIMES = (4194287, 4194181, 2097169)  # of the size that is asked for
OTHERS = (4, 7, 4194285, 4194301, 2**31 - 1)


@dataclass
class Case:
    """Files of one case, and what they are for."""

    label: str
    write: object  # puts the files into a folder, and returns their names
    judge: object = judges.of_layer  # whether what is printed is true of the files
    true: bool | None = None  # what is known of the claims by construction
    arguments: tuple = ()  # more for the command


def of_triple(label, triple, *, true=None, arguments=()):
    return Case(label, triple.write, true=true, arguments=arguments)


def quick(rng, share):
    """Arguments of the command: sometimes the probabilistic check of ranks."""
    return ("--quick",) * (rng.random() < share)


def any_honest(rng):
    """An honest triple of some kind, at some scale."""
    pools = triples.honest_layers, triples.honest_pairs, triples.honest_bounds
    return pick(rng, pools[rng.choice(3, p=[0.6, 0.3, 0.1])]()).rescaled(rng, 0.6)


# Family 1: mutations of honest certificates, weights and data.


def mutate_evidence(rng, triple):
    """Evidence altered, with a statement that says so."""
    claims = triple.content["claims"]
    name = pick(rng, claims)
    evidence = claims[name]["evidence"]
    if name == "error":
        old = float.fromhex(evidence["bound"])
        new = pick(rng, [
            np.nextafter(old, 0), old / 2, old * 2.0 ** -int(rng.integers(2, 60)), old * 0.9, 0.0,
            5e-324, old * 2,
        ])  # fmt: skip
        claims[name] = bound(name, new if np.isfinite(new) else old)
        return
    if name == "impossible":
        for _ in range(rng.integers(1, 3)):
            mutate_bound(rng, evidence, len(triple.data["queries"]))
        if rng.random() < 0.9:
            restate(triple)
        return
    mutate_residues(rng, evidence)


def mutate_residues(rng, evidence):
    """Packed integers, a prime, a point, a group."""
    packed = [key for key in evidence if isinstance(evidence[key], str)]
    if packed and rng.random() < 0.7:
        key = pick(rng, packed)
        values = unpack(evidence[key]).copy()
        kind = rng.integers(3)
        if kind == 0:
            i, j = rng.integers(len(values), size=2)
            values[[i, j]] = values[[j, i]]
        elif kind == 1:
            values[rng.integers(len(values))] = rng.integers(1 << 22)
        else:
            values = np.roll(values, 1)
        evidence[key] = pack(values)
    elif "prime" in evidence and rng.random() < 0.5:
        evidence["prime"] = pick(rng, PRIMES + OTHERS)
    elif "value" in evidence:
        evidence["value"] = int(rng.integers(0, 4194287))
    elif evidence.get("groups"):
        group = pick(rng, evidence["groups"])
        group[rng.integers(2)] += int(rng.choice([-1, 1]))


def another(rng, number):
    """An integer which is near another one, or begins as it does, or is a multiple of it."""
    prime = pick(rng, PRIMES)
    return pick(rng, [
        number + 1, number - 1, -number, 0, number * prime, number + prime, number << 53,
        number ^ 1 << int(rng.integers(number.bit_length() + 2)), int(rng.integers(-9, 10)),
    ])  # fmt: skip


def mutate_bound(rng, evidence, total):
    """Other examples, vectors, pivots, numbers or types in the evidence of an upper bound."""
    with contextlib.suppress(TypeError, KeyError, ValueError, IndexError, AttributeError):
        vectors, pivots = evidence["vectors"], evidence["pivots"]
        kind = rng.integers(7)
        if kind == 0:
            chosen = unpack(evidence["examples"]).tolist()
            place = int(rng.integers(len(chosen)))
            others = [t for t in range(total) if t not in chosen]
            chosen = pick(rng, [
                chosen[:place] + chosen[place + 1 :],
                sorted({*chosen, *others[:1]}),
                sorted([*chosen, chosen[place]]),
                [*chosen[:place], chosen[place] + 1, *chosen[place + 1 :]],
                chosen[::-1],
                list(range(total)),
                sorted({*chosen[:place], *chosen[place + 1 :], *others[-1:]}),
            ])  # fmt: skip
            evidence |= {"examples": pack(chosen), "count": len(chosen)}
        elif kind == 1:
            evidence[pick(rng, ["heads", "count", "zeros"])] += pick(rng, [-1, 1, 10**6])
        elif kind == 2:
            name = pick(rng, evidence)
            old = evidence[name]
            evidence[name] = pick(rng, [bool(old), str(old), [old], None, pick(rng, EVIL)])
            if isinstance(old, int) and rng.random() < 0.4:
                evidence[name] = float(old)
        elif kind == 3:
            vector = pick(rng, vectors)
            place = rng.integers(len(vector))
            vector[place] = hex(another(rng, int(vector[place], 16)))
        elif kind == 4:
            one, other = (pick(rng, vectors) for _ in range(2))
            pairs = [(int(x, 16), int(y, 16)) for x, y in zip(one, other, strict=True)]
            one[:] = [hex(x * int(rng.integers(-2, 3)) + y) for x, y in pairs]
        elif kind == 5:
            width = len(vectors[0]) if vectors else int(rng.integers(1, 6))
            place = int(rng.integers(width))
            new = [hex(int(j == place)) for j in range(width)]
            if rng.random() < 0.3:
                new = [hex(int(x)) for x in rng.integers(-3, 4, width)]
            if vectors and rng.random() < 0.5:
                new = list(pick(rng, vectors))
            where = int(rng.integers(len(vectors) + 1))
            vectors.insert(where, new)
            pivots.insert(where, place)
            evidence["zeros"] += int(where <= evidence["zeros"] and rng.random() < 0.5)
        else:
            place = rng.integers(len(pivots))
            others = int(rng.integers(-1, 7)), pivots[-1], True, float(pivots[place])
            pivots[place] = pick(rng, others)


def restate(triple):
    """Let a claim say what follows from its evidence, if that is right: counts of what is there."""
    claims, data = triple.content["claims"], triple.data
    with contextlib.suppress(TypeError, KeyError, ValueError, IndexError, AttributeError):
        evidence = claims["impossible"]["evidence"]
        chosen = unpack(evidence["examples"])
        shared, width = data["contexts"].ndim == 2, data["queries"].shape[1]
        contexts = (data["contexts"][None] if shared else data["contexts"][chosen]).tolist()
        parts = []
        for context in contexts:
            new = {*map(tuple, context)}
            joined = new.union(*(part for part in parts if part & new))
            parts = [p for p in parts if not p & joined] + [joined]
        tokens = sum(map(len, parts))
        kappa = min(width - evidence["zeros"], tokens)
        delta = min(width - len(evidence["vectors"]), tokens - len(parts))
        queries = data["queries"][chosen].tolist()
        inputs = {
            (tuple(query), () if shared else tuple(sorted(map(tuple, contexts[t]))))
            for t, query in enumerate(queries)
        }
        told = evidence["heads"], kappa + (evidence["heads"] - 1) * delta, len(inputs)
        claims["impossible"] = claim("impossible", evidence, *told)


def mutate_arrays(rng, triple):
    """Numbers altered, and everything signed anew."""
    arrays = pick(rng, [triple.data] + [triple.weights] * bool(triple.weights))
    name = pick(rng, arrays)
    array = arrays[name].copy()
    flat, kind = array.reshape(-1), rng.integers(7)
    i, j = rng.integers(flat.size, size=2)
    if kind == 0:
        flat[i] = np.nextafter(flat[i], rng.choice([-np.inf, np.inf]).astype(flat.dtype))
    elif kind == 1:
        flat[i] = flat[i] + rng.standard_normal() * max(float(np.abs(flat).max()), 1e-300)
    elif kind == 2:
        k, m = rng.integers(len(array), size=2)
        array[[k, m]] = array[[m, k]]
    elif kind == 3:
        array[rng.integers(len(array))] = array[rng.integers(len(array))]
    elif kind == 4:
        flat[i] = 0
    elif kind == 5:
        flat[i] = flat[j]
    else:
        with np.errstate(over="ignore"):
            flat[:] = np.nan_to_num(np.ldexp(flat, int(rng.integers(-300, 300))), posinf=1.0)
    arrays[name] = array
    triple.signed()


def mutation(rng):
    """An honest triple after one to three mutations."""
    if rng.random() < 0.12:
        return sequence_mutation(rng)
    triple = any_honest(rng)
    label = []
    for _ in range(rng.integers(1, 3)):
        kind = rng.choice(["json", "evidence", "arrays", "subset"], p=[0.2, 0.35, 0.35, 0.1])
        label.append(str(kind))
        if kind == "json":
            mutate_json(rng, triple.content)
            break
        if kind == "evidence":
            mutate_evidence(rng, triple)
        elif kind == "arrays":
            mutate_arrays(rng, triple)
        else:  # a part of the claims is true as well
            claims = triple.content["claims"]
            if len(claims) > 1:
                claims.pop(pick(rng, claims))
    return of_triple("mutated " + " ".join(label), triple, arguments=quick(rng, 0.2))


# Family 2: claims which are built to be false, beside some which are true.


def exact_layer(rng, heads, width, head_dim, value_dim, outputs, kind):
    """Weights of small integers or floats, or of zeros where attention is uniform."""
    draw = {
        "zero": lambda *shape: np.zeros(shape),
        "integer": lambda *shape: rng.integers(-3, 4, size=shape).astype(float),
        "float": lambda *shape: rng.standard_normal(shape),
        "sharp": lambda *shape: rng.standard_normal(shape) * 30,
    }[kind]
    values = rng.integers(-2, 3, size=(heads, width, value_dim)).astype(float)
    return {
        "W_Q": draw(heads, width, head_dim),
        "W_K": draw(heads, width, head_dim),
        "W_V": values,
        "W_O": np.concatenate([np.eye(value_dim)] * heads),
        "W_D": np.eye(value_dim, outputs),
    }


def rank_evidence(rng, total, columns):
    chosen = rng.permutation(max(columns, total))[:total]
    return {
        "prime": pick(rng, PRIMES),
        "value": int(rng.integers(2, 4194000)),
        "columns": pack(chosen),
        "solution": pack(rng.integers(2097152, size=(total, 12))),
    }


def singular(rng):
    """Z of rank less than T, with a rank claimed, which it has not."""
    heads, width, size = (int(x) for x in rng.integers(1, 4, size=3))
    total = int(rng.integers(2, 7))
    kind = pick(rng, ["zero", "integer", "float", "sharp"])
    weights = exact_layer(rng, heads, width, 1, 1, 1, kind)
    contexts = rng.integers(-4, 5, size=(total, size, width)).astype(float)
    queries = rng.standard_normal((total, width))
    why = pick(rng, ["twice", "permuted", "many", "shared", "equal heads", "uniform"])
    if why == "twice":
        contexts[1], queries[1] = contexts[0], queries[0]
    elif why == "permuted":
        contexts[1], queries[1] = contexts[0][::-1], queries[0]
    elif why == "many":
        total = heads * width + 1
        contexts = rng.integers(-4, 5, size=(total, size, width)).astype(float)
        queries = rng.standard_normal((total, width))
    elif why == "shared":
        total = heads * (size - 1) + 2
        contexts = rng.standard_normal((size, width))
        queries = rng.standard_normal((total, width))
    elif why == "equal heads":
        total = width + 1
        for name in ("W_Q", "W_K"):
            weights[name][:] = weights[name][0]
        contexts = rng.standard_normal((total, size, width))
        queries = rng.standard_normal((total, width))
    else:
        weights = exact_layer(rng, heads, width, 1, 1, 1, "zero")
        contexts[-1] = contexts[:-1].sum(axis=0)  # the mean tokens are dependent, in integers
    targets = rng.standard_normal(total)
    claims = {"rank": claim("rank", rank_evidence(rng, total, heads * width), total)}
    triple = certificate(weights, (contexts, queries, targets), claims).rescaled(rng, 0.7)
    true = None if kind == "sharp" and why in ("shared", "many") else False
    return of_triple(f"singular: {why}", triple, true=true, arguments=quick(rng, 0.3))


def near_the_truth(rng):
    """A bound just below what it bounds (false), or well above it (true)."""
    pool = triples.honest_layers if rng.random() < 0.6 else triples.honest_pairs
    place = int(rng.integers(len(pool())))
    triple = pool()[place].copy()
    if "error" not in triple.content["claims"]:
        return mutation(rng)
    truth = known_truth(pool, place)
    below = [1 - 2.0**-40, 0.5, 0.9, 2.0**-10, 2.0 ** -int(rng.integers(11, 900))]
    above = [float(1.5 * truth), float(4 * truth), float(100 * truth)]
    forged = rng.random() < 0.75
    if forged:
        value = float(truth * pick(rng, below))
        value = [value, float(np.nextafter(float(truth), 0)), 0.0, 5e-324][
            rng.choice(4, p=[0.7, 0.2, 0.05, 0.05])
        ]
    else:
        value = pick(rng, above)
    triple.content["claims"]["error"] = bound("error", value)
    triple = triple.rescaled(rng, 0.7)
    return of_triple("error near the truth", triple, true=False if forged else None)


@functools.cache
def known_truth(pool, place):
    """The largest error of an honest triple, as a number of many bits."""
    triple = pool()[place]
    return judges.largest_error(triple.weights, triple.data).mid()


def exact_bounds(rng):
    """Errors which are dyadic numbers, claimed exactly (true), or one ulp less (false)."""
    width, total, heads = (int(x) for x in rng.integers(1, 4, size=3))
    size = int(rng.choice([1, 2, 4]))
    weights = exact_layer(rng, heads, width, 1, 1, 1, "zero" if size > 1 else "float")
    contexts = rng.integers(-8, 9, size=(total, size, width)).astype(float)
    mean = contexts.mean(axis=1)
    output = sum(mean @ weights["W_V"][h, :, 0] for h in range(heads))
    targets = output + rng.integers(-4, 5, size=total)
    worst = float(np.abs(output - targets).max())
    less = rng.random() < 0.6 and worst > 0
    value = float(np.nextafter(worst, 0)) if less else max(worst * 1.01, 1e-40)
    data = contexts, rng.standard_normal((total, width)), targets
    triple = certificate(weights, data, {"error": bound("error", value)})
    return of_triple("exact error", triple.scaled(rng), true=not less)


def grouped(rng, name):
    """A triple with this claim alone, and its groups."""
    pool = [t for t in triples.honest_layers() if name in t.content["claims"]]
    triple = pick(rng, pool).copy()
    triple.content["claims"] = {name: triple.content["claims"][name]}
    return triple, triple.content["claims"][name]["evidence"]


def regrouped(rng, triple, label, contexts, queries, *, true):
    """A case with other contexts and queries."""
    triple.data |= {"contexts": contexts, "queries": queries}
    return of_triple(label, triple.signed().rescaled(rng, 0.5), true=true)


def groups(rng):
    """Contexts of smaller rank, dependent groups, queries in the span of a group, wrong groups."""
    triple, evidence = grouped(rng, "grouping")
    data, spans = triple.data, evidence["groups"]
    total = len(data["queries"])
    contexts = np.round(data["contexts"] * 2**10) / 2**10
    queries = np.round(data["queries"] * 2**10) / 2**10
    why, true = pick(rng, ["context", "group", "span", "cover", "ulp"]), False
    size = contexts.shape[-2]
    if why == "context" and size > 1:
        one = pick(rng, contexts.reshape(-1, *contexts.shape[-2:]))
        one[-1] = one[:-1].sum(axis=0)
    elif why == "group" and any(b - a > 1 for a, b in spans):
        start, stop = next((a, b) for a, b in spans if b - a > 1)
        queries[stop - 1] = 2 * queries[start : stop - 1].sum(axis=0)
    elif why == "span" and len(spans) > 1 and spans[1][1] > spans[1][0]:
        start, stop = spans[1]
        other = pick(rng, [t for t in range(total) if not start <= t < stop])
        queries[other] = 3 * queries[start:stop].sum(axis=0)
    elif why == "cover" and total > 1:
        spans[-1][1] = total - 1
    else:  # the last bit decides, and it is as it should be
        true = None
    return regrouped(rng, triple, f"grouping: {why}", contexts, queries, true=true)


def coupled_pairs(rng):
    """Two or three pairs of heads by hand, whose coupling is near 1, on either side."""
    pairs = int(rng.integers(1, 4))
    width = max(2, pairs + int(rng.integers(0, 2)))
    extra = int(rng.random() < 0.2)
    total = pairs + extra
    contexts = np.zeros((total, 2, width))
    contexts[:, 0, 0] = rng.choice([1.0, 1.0, 2.0, 3.0], size=total)
    if rng.random() < 0.5:
        contexts[:, 1, 1:] = rng.integers(-2, 3, size=(total, width - 1))
    queries = np.eye(total, width)
    draw, *limits = (rng.uniform, 1.5, 5) if rng.random() < 0.6 else (rng.normal, 0, 20)
    size = draw(*limits, (2 * pairs, width))
    size[rng.random(size.shape) < 0.2] = 0
    if rng.random() < 0.2:
        size[1] = size[0]  # a pair of equal heads
    key = np.zeros((2 * pairs, width, 1))
    key[:, 0, 0] = 1
    values = rng.choice([0.0, 1.0, -1.0], size=(2 * pairs, width, 1)) * float(rng.random() < 0.7)
    values[1::2] = -values[::2]
    arrays = size[:, :, None], key, values, np.ones((2 * pairs, 1)), np.ones((1, 1))
    weights = dict(zip(triples.WEIGHTS, arrays, strict=True))
    scale = pick(rng, [0, 0, -30, -100, -225, -230, -290])
    targets = rng.choice([0.0, 1.0, 1.0, -2.5], size=total) * 10.0**scale
    order = rng.permutation(total) if rng.random() < 0.2 else np.arange(total)
    stops = np.arange(1, pairs + 1)
    if rng.random() >= 0.9:
        stops = np.sort(rng.integers(0, total + 1, pairs))
    claims = {"rank": claim("rank", {"order": pack(order), "stops": pack(stops)}, total)}
    if rng.random() < 0.4:
        claims["error"] = bound("error", 10.0 ** max(-300, scale + rng.integers(-3, 3)))
    triple = certificate(weights, (contexts, queries, targets), claims, PAIRED)
    return of_triple("coupled pairs", triple.rescaled(rng, 0.7))


def impossible(rng):
    """Upper bounds for more heads, of tokens beside their span, and of examples that are too few.

    What is stated follows from the evidence, if that is right.
    """
    triple = pick(rng, triples.honest_bounds()).copy()
    data, evidence = triple.data, triple.content["claims"]["impossible"]["evidence"]
    contexts, queries = data["contexts"], data["queries"]
    why = pick(rng, ["heads", "token", "few", "equal", "multiple", "modulo", "all", "fine"])
    if why == "heads":
        evidence["heads"] = max(1, evidence["heads"] + pick(rng, [-1, 1]))
    elif why == "token":
        flat = contexts.reshape(-1)
        place = rng.integers(flat.size)
        flat[place] = np.nextafter(flat[place], flat.dtype.type(pick(rng, [-1, 1]) * 1e300))
    elif why == "few":
        chosen = unpack(evidence["examples"])
        kept = np.delete(chosen, rng.integers(len(chosen))) if len(chosen) > 1 else chosen
        evidence |= {"examples": pack(kept), "count": len(kept)}
    elif why == "equal":  # one input counts once
        i, j = rng.integers(len(queries), size=2)
        queries[i] = queries[j]
        if contexts.ndim == 3:
            contexts[i] = contexts[j][rng.permutation(contexts.shape[1])]
    elif why == "multiple" and evidence["vectors"]:  # of many primes, and off by one before
        vector = pick(rng, evidence["vectors"])
        numbers = [int(x, 16) for x in vector]
        numbers[rng.integers(len(numbers))] += 1
        factor = judges.product_of_primes(int(rng.integers(1, 60)))
        vector[:] = [hex(x * factor) for x in numbers]
    elif why == "modulo":  # vectors that are right modulo some primes, of tokens that are not
        width, factor = queries.shape[1], pick(rng, PRIMES)
        contexts[:] = np.round(contexts / np.abs(contexts).max().clip(1e-300) * 9) * factor
        count = int(rng.integers(width + 1))
        evidence["vectors"] = [[hex(int(i == j)) for j in range(width)] for i in range(count)]
        evidence |= {"pivots": list(range(count)), "zeros": int(rng.integers(count + 1))}
    elif why == "all":
        evidence |= {"examples": pack(np.arange(len(queries))), "count": len(queries)}
    restate(triple)
    triple = triple.signed().rescaled(rng, 0.3)
    return of_triple(f"impossible: {why}", triple, true=True if why == "fine" else None)


# Sequences.


def of_contents(label, contents):
    def write(folder):
        return triples.written_sequences(folder, contents)

    return Case(label, write, judges.of_sequences)


def honest_contents(rng):
    return copy.deepcopy(pick(rng, triples.honest_sequences()))


def sequence_mutation(rng):
    """A value of one of three JSON files altered, signed or not."""
    contents = honest_contents(rng)
    mutate_json(rng, pick(rng, contents))
    if rng.random() < 0.8:
        with contextlib.suppress(TypeError, KeyError, AttributeError):
            contents = triples.signed_sequences(*contents)
    return of_contents("sequences mutated", contents)


def false_sequences(rng):
    """Labels exchanged, a weight altered, sizes inflated."""
    content, memorizer, data = honest_contents(rng)
    why = pick(rng, ["labels", "weight", "sizes", "tokens"])
    if why == "labels" and len(data["labels"]) > 1:
        i, j = rng.choice(len(data["labels"]), size=2, replace=False)
        data["labels"][i], data["labels"][j] = data["labels"][j], data["labels"][i]
    elif why == "weight":
        network = memorizer[pick(rng, ["embedding", "classifier"])]
        row = pick(rng, [row for layer in network["layers"] for row in layer["rows"] if row[1]])
        row[1][rng.integers(len(row[1]))] = pick(rng, ["1", "-1", "2", "1/3", "ffff"])
    elif why == "sizes":
        evidence = content["claims"]["size"]["evidence"]
        evidence[pick(rng, evidence)] += pick(rng, [1, 3, 10**6])
        sized = ", ".join(f"{k} {v}" for k, v in evidence.items())
        if max(evidence.values()) < 200:
            weights = content["weights"]["nonzero"]
            content["claims"]["size"]["statement"] = (
                f"{weights} non-zero parameters <= {judges.size_formula(evidence)}: "
                f"Theorem 7 for {sized}"
            )
    elif data["tokens"] and len(data["tokens"]) > 1:
        data["tokens"].reverse()
    contents = triples.signed_sequences(content, memorizer, data)
    return of_contents(f"sequences: {why}", contents)


FALSE = (
    (singular, 4),
    (near_the_truth, 5),
    (exact_bounds, 3),
    (groups, 2),
    (coupled_pairs, 5),
    (impossible, 1),
    (false_sequences, 2),
)


def weighed(rng, ways, size=None):
    """One or some of ways with shares."""
    shares = np.array([share for _, share in ways], dtype=float)
    found = rng.choice(len(ways), size=size, p=shares / shares.sum())
    return ways[found][0] if size is None else [ways[place][0] for place in found]


def false_claim(rng):
    """One of the builders of false claims, at any scale."""
    return weighed(rng, FALSE)(rng)


# Family 3: the formats of the files, by Hypothesis.

SHAPES = st.lists(
    st.one_of(
        st.integers(-2, 9),
        st.sampled_from([0, 1, 2**20, 2**31, 2**62, 2**64]),
        st.booleans(),
        st.floats(-2, 9, allow_nan=False),
        st.none(),
    ),
    max_size=4,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=8,
)
EDITS = st.one_of(
    st.tuples(st.just("tensor shape"), st.integers(0, 5), SHAPES),
    st.tuples(
        st.just("tensor type"), st.integers(0, 5), st.sampled_from(["F64", "F32", "F16", "I64", ""])
    ),
    st.tuples(
        st.just("tensor place"),
        st.integers(0, 5),
        st.tuples(st.integers(-9, 2**65), st.integers(-9, 2**65)),
    ),
    st.tuples(st.just("tensor more"), st.text(max_size=5), JSON),
    st.tuples(st.just("header length"), st.integers(0, 2**64 - 1)),
    st.tuples(st.just("array shape"), st.integers(0, 2), SHAPES),
    st.tuples(
        st.just("array type"),
        st.integers(0, 2),
        st.sampled_from(
            ["<f8", ">f8", "<f4", "<f2", "<i8", "<u8", "|b1", "|i1", "<c16", "|O", "<U3"]
        ),
    ),
    st.tuples(st.just("array order"), st.integers(0, 2)),
    st.tuples(st.just("array gone"), st.integers(0, 2)),
    st.tuples(st.just("array twice"), st.integers(0, 2)),
    st.tuples(st.just("array version"), st.integers(0, 2), st.integers(0, 255)),
    st.tuples(st.just("certificate"), st.lists(st.integers(0, 200), max_size=4), JSON),
    st.tuples(st.just("cut"), st.integers(0, 2), st.floats(0, 1, exclude_max=True)),
    st.tuples(
        st.just("byte"), st.integers(0, 2), st.floats(0, 1, exclude_max=True), st.integers(1, 255)
    ),
    st.tuples(st.just("deep"), st.integers(1, 5000)),
)


def fuzzed(which, scale_seed, edits):
    """An honest triple whose files have been written with these edits."""
    rng = np.random.default_rng(scale_seed)
    pools = triples.honest_layers() + triples.honest_pairs()
    triple = pools[which % len(pools)]
    triple = triple.scaled(rng) if scale_seed % 2 else triple.copy()

    def write(target):
        return write_fuzzed(target, triple, edits)

    return Case("fuzzed " + " ".join(edit[0] for edit in edits), write)


def write_fuzzed(folder, triple, edits):
    """Write the files of a triple with edits of their formats; what makes no sense is left out."""
    for kind, *rest in edits:
        if kind == "certificate":
            put(triple.content, *rest)
        elif kind == "deep":
            triple.content["made_by"] = "[" * rest[0]
    text = json.dumps(triple.content).replace('"[', "[").replace('["', "[")
    files = [folder / name for name in ("c.json", "w.safetensors", "d.npz")]
    files[0].write_text(text)
    files[1].write_bytes(spoilt_tensors(triple.weights, edits))
    write_archive(files[2], triple.data, edits)
    for kind, *rest in edits:
        if kind in ("cut", "byte"):
            which, where, *bits = rest
            raw = bytearray(files[which].read_bytes())
            place = int(where * len(raw))
            if kind == "cut":
                raw = raw[:place]
            elif raw:
                raw[place] ^= bits[0]
            files[which].write_bytes(bytes(raw))
    return [str(file) for file in files]


def spoilt_tensors(tensors, edits):
    """The bytes of a .safetensors file, whose header may say something else."""
    keys = {"tensor shape": "shape", "tensor type": "dtype", "tensor place": "data_offsets"}

    def change(header):
        for kind, *rest in edits:
            if kind in keys:
                entry = header[list(header)[rest[0] % len(header)]]
                if isinstance(entry, dict):
                    entry[keys[kind]] = rest[1] if kind == "tensor type" else list(rest[1])
            elif kind == "tensor more":
                header[rest[0]] = rest[1]
        return header

    raw = triples.safetensors(tensors, change)
    told = [rest[0] for kind, *rest in edits if kind == "header length"]
    return struct.pack("<Q", told[-1]) + raw[8:] if told else raw


def write_archive(path, arrays, edits):
    """An .npz file whose arrays may be missing, there twice, or have other headers."""
    names, headers = list(arrays), {}
    edits = [(kind, names[rest[0]], *rest[1:]) for kind, *rest in edits if kind.startswith("array")]
    for kind, name, *rest in edits:
        headers.setdefault(name, {})[kind] = rest[0] if rest else True
    listed = [name for name in names if "array gone" not in headers.get(name, {})]
    listed += [name for name in listed if "array twice" in headers.get(name, {})]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zipfile, where a name is there twice
        for name in listed:
            archive.writestr(f"{name}.npy", npy(arrays[name], headers.get(name, {})))


def put(content, trail, value):
    """Put a value somewhere into JSON, along a trail of numbers."""
    part = content
    for step in trail[:-1]:
        keys = list(part) if isinstance(part, dict) else range(len(part))
        if not keys:
            return
        key = list(keys)[step % len(keys)]
        if not isinstance(part[key], dict | list) or not part[key]:
            break
        part = part[key]
    if isinstance(part, dict) and part:
        part[list(part)[trail[-1] % len(part) if trail else 0]] = value
    elif isinstance(part, list) and part:
        part[trail[-1] % len(part) if trail else 0] = value


def npy(array, edits):
    """The bytes of an .npy file, whose header may say something else."""
    kind, fortran = edits.get("array type", array.dtype.str), "array order" in edits
    shape = edits.get("array shape", list(array.shape))
    raw = np.asfortranarray(array).tobytes("F") if fortran else array.tobytes()
    told = ", ".join(repr(k) for k in shape) + ("," if len(shape) == 1 else "")
    header = f"{{'descr': {kind!r}, 'fortran_order': {fortran}, 'shape': ({told}), }}".ljust(117)
    start = b"\x93NUMPY" + bytes([edits.get("array version", 1), 0])
    return start + struct.pack("<H", len(header) + 1) + header.encode() + b"\n" + raw
