"""Certificates, weights and data as plain values: honest ones, their files, and their signatures.

Files are written here, byte by byte, so that a forgery can be anything; and signed anew, as whoever
forges a certificate would do.
"""

import base64
import copy
import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mutations import content_of, safetensors

from constructive import (
    Dataset,
    SequenceDataset,
    build_memorizer,
    build_sequence_memorizer,
    certify,
    generators,
    upper_bound_certificate,
)
from constructive.sequences.constructions import CONSTRUCTIONS

LAYER, PAIRED = "constructive certificate 1", "constructive paired certificate 1"
SEQUENCE = "constructive sequence certificate 1"
STATEMENTS = {
    "grouping": "all contexts have rank n = {}; the queries of each of {} groups are independent, "
    "and no group but the first has another query in its span",
    "rank": "rank Z = T = {}: for all Y some effective readout U (H d, d_out) has Z U = Y",
    "error": "max |f(E_t, e_t) - y_t| <= {!r}",
    "impossible": "for all W_Q and W_K of H = {} heads rank Z <= {} on {} different examples: "
    "whichever are chosen, some targets have no readout",
}
WEIGHTS = ("W_Q", "W_K", "W_V", "W_O", "W_D")
DATA = ("contexts", "queries", "targets")


def pack(integers):
    return base64.b64encode(np.asarray(integers).astype("<u4").tobytes()).decode()


def unpack(text):
    return np.frombuffer(base64.b64decode(text), dtype="<u4").astype(np.int64)


def described(arrays):
    """What a certificate says about arrays."""
    hashed, told = hashlib.sha256(), {}
    for name, array in arrays.items():
        told[name] = {"dtype": array.dtype.name, "shape": list(array.shape)}
        hashed.update(f"{name} {array.dtype.str} {list(array.shape)}\n".encode())
        hashed.update(np.ascontiguousarray(array).tobytes())
    return told | {"sha256": hashed.hexdigest()}


def digest(content):
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def claim(name, evidence, *shown):
    return {
        "verdict": "PROVED",
        "statement": STATEMENTS[name].format(*shown),
        "detail": "",
        "witness": None,
        "evidence": evidence,
    }


def bound(name, value):
    return claim(name, {"bound": float(value).hex()}, float(value))


@dataclass
class Triple:
    """A certificate, weights (None for an upper bound) and data of one layer, to be written."""

    content: dict
    weights: dict | None
    data: dict

    def copy(self):
        return copy.deepcopy(self)

    def signed(self):
        """With shapes and hashes of these very arrays, and claims about their numbers."""
        self.content["data"] = described(self.data)
        self.content["weights"] = described(self.weights or {})
        return self

    def write(self, folder):
        names = ["c.json", "w.safetensors", "d.npz"]
        (folder / names[0]).write_text(json.dumps(self.content))
        np.savez(folder / names[2], **self.data)
        if self.weights is None:
            names.pop(1)
        else:
            (folder / names[1]).write_bytes(safetensors(self.weights))
        return [str(folder / name) for name in names]

    def rescaled(self, rng, share):
        """At another scale with this probability."""
        return self.scaled(rng) if rng.random() < share else self.copy()

    def scaled(self, rng):
        """The same at another scale: powers of two which leave all logits as they are.

        Evidence stays good but for the solution of the claim rank, which depends on the hashes.
        """
        triple, weights, data = self.copy(), self.weights, self.data
        powers, of_value = {}, 0
        room = 1060 if all(x.dtype == np.float64 for x in (weights or {}).values()) else 140
        of_contexts, of_queries, of_keys, of_values = (
            int(x) for x in rng.integers(-room, room, size=4) // rng.choice([1, 1, 4, 100], size=4)
        )
        shift = of_contexts + of_queries + of_keys
        with np.errstate(over="ignore"):
            if weights is not None:
                of_value = of_contexts + of_values
                powers = {"W_Q": -shift, "W_K": of_keys, "W_V": of_values}
                powers["W_V_corrections"] = of_values
                for name, power in powers.items():
                    if name in weights:
                        triple.weights[name] = np.ldexp(weights[name], power)
                triple.data["targets"] = np.ldexp(data["targets"], of_value)
                if "error" in triple.content["claims"]:
                    old = float.fromhex(self.content["claims"]["error"]["evidence"]["bound"])
                    new = float(np.ldexp(old, of_value))
                    if not new < np.inf or np.ldexp(new, -of_value) != old:
                        return self.copy()
                    triple.content["claims"]["error"] = bound("error", new)
            triple.data["contexts"] = np.ldexp(data["contexts"], of_contexts)
            triple.data["queries"] = np.ldexp(data["queries"], of_queries)
        originals = {**data, **(weights or {})}
        powers = powers | {"contexts": of_contexts, "queries": of_queries, "targets": of_value}
        for name, array in {**triple.data, **(triple.weights or {})}.items():
            exact = np.ldexp(array, -powers.get(name, 0)) == originals[name]
            if not np.isfinite(array).all() or not exact.all():
                return self.scaled(rng)
        return triple.signed()


def spans(count, vectors=(), pivots=None, zeros=None):
    """Evidence that so many examples are too many for one head: vectors that tokens lie beside."""
    return {
        "heads": 1,
        "count": count,
        "examples": pack(np.arange(count)),
        "vectors": vectors,
        "pivots": list(range(len(vectors))) if pivots is None else pivots,
        "zeros": len(vectors) if zeros is None else zeros,
    }


def content_for(claims, form=LAYER):
    """A certificate of these claims, which is not signed yet."""
    return {"format": form, "verdict": "PROVED", "made_by": {}, "claims": claims}


def certificate(weights, data, claims, form=LAYER):
    """A triple of these claims; data are a dictionary, or contexts, queries and targets."""
    data = data if isinstance(data, dict) else dict(zip(DATA, data, strict=True))
    return Triple(content_for(claims, form), weights, data).signed()


def of_objects(certificate, memorizer, dataset):
    """A triple from what certify took and gave."""
    tensors = None
    if memorizer is not None:
        tensors = {name: np.array(array) for name, array in memorizer.layer.tensors.items()}
    data = {name: np.array(getattr(dataset, name)) for name in DATA}
    return Triple(content_of(certificate), tensors, data)


@functools.lru_cache(maxsize=1)
def honest_layers():
    """Honest triples of every kind of layer, small ones."""
    found = []
    makes = (
        generators.uniform, generators.shared_context, generators.gaussian, generators.integers,
    )  # fmt: skip
    sizes = (1, 1, 1, 1), (3, 3, 4, 1), (5, 3, 4, 2), (7, 3, 5, 3)
    for seed in range(3):
        for make in makes:
            for total, size, width, heads in sizes:
                if make is generators.integers and size == 1:
                    continue
                data = drawn(make, total, size, width, seed)
                kind = ["saturated", "rank_one"][seed % 2] if size > 1 else "saturated"
                memorizer = build_memorizer(data, num_heads=heads, construction=kind, seed=seed)
                single = memorizer.astype(np.float32)
                found.append(of_objects(certify(memorizer, data), memorizer, data))
                loose = certify(single, data, claims=["grouping", "rank", "error"], epsilon=1e3)
                found.append(of_objects(loose, single, data))
        data = generators.shared_context(num_examples=7, context_size=3, width=4, seed=seed)
        memorizer = build_memorizer(data, num_heads=3, precision=120)
        found.append(of_objects(certify(memorizer, data), memorizer, data))
    return tuple(triple for triple in found if triple.content["verdict"] == "PROVED")


def drawn(make, total, size, width, seed):
    """Data, with two targets for each example if the seed is odd."""
    sizes = {"num_examples": total, "context_size": size, "width": width}
    return make(**sizes, target_dim=[None, 2][seed % 2], seed=seed)


@functools.lru_cache(maxsize=1)
def honest_pairs():
    found = []
    for seed in range(4):
        for total, size, width, heads in ((3, 2, 3, 2), (5, 2, 3, 4), (7, 3, 4, 4), (6, 2, 4, 5)):
            data = drawn(generators.gaussian, total, size, width, seed)
            memorizer = build_memorizer(data, num_heads=heads, construction="paired", seed=seed)
            certificate = certify(memorizer, data)
            if certificate.proved and certificate.format == PAIRED:
                found.append(of_objects(certificate, memorizer, data))
    return tuple(found)


def bounded(rng):
    """Contexts, or a shared one and a number of examples, of all kinds which hold too few; heads.

    The smallest numbers are subnormal, the largest near 2^1000, and some zeros are negative.
    """

    def words(count, size, total):
        return np.eye(count)[rng.integers(count, size=(total, size))]

    normal, integers = rng.standard_normal, lambda *shape: rng.integers(-4, 5, shape) * 1.0
    yield normal((3, 4)), 6, 2
    yield integers(5, 3), 8, 2
    yield normal((1, 2)), 2, 3
    yield normal((9, 2, 4)), None, 2
    yield normal((5, 3, 4)), None, 1
    yield normal((4, 1, 3)), None, 5
    yield normal((4, 2, 1)), None, 3
    yield np.array([[[rng.standard_normal()]], [[-0.0]]]), None, 1
    yield words(4, 2, 9), None, 2
    yield words(3, 3, 8), None, 3
    yield normal((2, 3, 6))[[0, 1, 0, 0, 1, 0, 0, 0, 0]], None, 2
    contexts = integers(8, 2, 5)
    contexts[..., 2], contexts[..., 4] = 3.0, contexts[..., 0] - contexts[..., 1]
    yield contexts, None, 2
    yield contexts * -1.0, None, 1
    contexts = np.ldexp(normal((8, 2, 4)), rng.integers(-1000, 900, (8, 2, 4)))
    contexts[..., 1] = np.ldexp(1.0, -300)
    yield contexts, None, 2
    contexts = np.ldexp(normal((7, 2, 4)), rng.integers(-900, 800, (7, 2, 1)))
    contexts[..., 3] = np.ldexp(contexts[..., 0], 60)
    yield contexts, None, 2
    contexts = np.ones((6, 2, 3))
    contexts[..., 0] = 2.0**1000 * (1 + np.arange(6)[:, None] / 8)
    contexts[..., 1] = 5e-324 * rng.integers(1, 9, (6, 1)) * [1, 0]
    yield contexts, None, 3
    yield normal((7, 2, 3)).astype(np.float32), None, 2
    contexts = normal((7, 2, 3)).astype(np.float32)
    contexts[..., 1] = 0.1
    yield contexts, None, 2
    own = normal((8, 2, 7))
    own[1:7] = own[1]
    yield own, None, 3


@functools.lru_cache(maxsize=1)
def honest_bounds():
    """Upper bounds; of the second half two examples are one input."""
    found, rng = [], np.random.default_rng(0)
    for repeated in (False, True):
        for contexts, total, heads in bounded(rng):
            queries = rng.standard_normal((total or len(contexts), contexts.shape[-1]))
            queries, tokens = queries.astype(contexts.dtype), contexts
            if repeated:
                tokens = contexts if total else np.concatenate([contexts, contexts[:1, ::-1]])
                queries[0, 0] = 0.0
                queries = np.concatenate([queries, queries[:1]])
                queries[-1, 0] = -0.0
            data = Dataset(tokens, queries, np.zeros(len(queries)))
            certificate = upper_bound_certificate(data, heads)
            found.append(of_objects(certificate, None, data))
    return tuple(triple for triple in found if triple.content["verdict"] == "PROVED")


@functools.lru_cache(maxsize=1)
def honest_sequences():
    """Contents of certificate, memorizer and data of sequence memorizers."""
    found = []
    problems = [
        ([[1, 2], [3, 4], [5, 6]], [0, 1, 2], "next"),
        ([[(1, 2), (3, 4)], [(1, 2), (0, 0)]], [[1, 2], [3, 4]], "seq2seq"),
        (["abc", "abd", "cba", "xyz"], ["x", "y", "z", None], "last"),
        ([[0.5, 0.25], [0.125, 3]], [1 << 70, 0], "next"),
        ([[i, i * i % 7] for i in range(9)], [i % 3 for i in range(9)], "last"),
    ]
    for sequences, labels, task in problems:
        for construction in CONSTRUCTIONS:
            memorizer = build_sequence_memorizer(
                sequences, labels, task=task, construction=construction
            )
            dataset = SequenceDataset.of(sequences, labels, task)
            things = certify(memorizer, dataset), memorizer, dataset
            found.append([content_of(thing) for thing in things])
    return tuple(found)


def written_sequences(folder, contents):
    """The files of certificate, memorizer and data of a sequence memorizer."""
    names = [str(folder / name) for name in ("c.json", "m.json", "d.json")]
    for name, content in zip(names, contents, strict=True):
        Path(name).write_text(json.dumps(content))
    return names


def signed_sequences(certificate, memorizer, data):
    """A certificate with the hashes of these contents, and sizes which follow from them."""
    certificate["data"] |= {"sha256": digest(data)}
    certificate["weights"] |= {"sha256": digest(memorizer)}
    return certificate, memorizer, data
