"""Files which ask for much: small ones of large shapes, long numbers, deep and wide containers.

Each runs in a process of its own, as a user would run it, and is told how much memory it may take;
what it took, in memory and in time, is what the system counts.
"""

import json
import struct
import subprocess
import sys
import zipfile

import numpy as np
import triples
from mutations import pick
from triples import DATA, PAIRED, bound, certificate, claim, pack

# GB that the checker is told; and with Python, numpy and libraries, which it does not count.
LIMIT, MOST = 0.5, 0.65


def layer(heads, width, head_dim=1, value_dim=1, between=1, outputs=1, fill=1.0):
    shapes = {
        "W_Q": (heads, width, head_dim),
        "W_K": (heads, width, head_dim),
        "W_V": (heads, width, value_dim),
        "W_O": (heads * value_dim, between),
        "W_D": (between, outputs),
    }
    return {name: np.full(shape, fill) for name, shape in shapes.items()}


def examples(total, size, width, outputs=1, *, shared=False, rng=None):
    draw = np.ones if rng is None else rng.standard_normal
    contexts = draw((size, width) if shared else (total, size, width))
    targets = np.zeros((total,) if outputs == 1 else (total, outputs))
    return dict(zip(DATA, (contexts, draw((total, width)), targets), strict=True))


def rank(rng, total, columns):
    evidence = {
        "prime": 4194287,
        "value": 2,
        "columns": pack(rng.permutation(max(total, columns))[:total]),
        "solution": pack(np.zeros(12 * total)),
    }
    return claim("rank", evidence, total)


def wide_tokens(rng):
    width = int(rng.integers(20_000, 60_000))
    claims = {"error": bound("error", 1.0), "rank": rank(rng, 1, width)}
    return certificate(layer(1, width), examples(1, 1, width), claims)


def many_heads(rng):
    heads = size = int(rng.integers(1 << 12, 1 << 14))
    claims = {"error": bound("error", 1.0)}
    return certificate(layer(heads, 1), examples(1, size, 1, shared=True), claims)


def large_contexts(rng):
    """Few examples of many tokens, whose digits are more than what heads make of them."""
    size, width = (int(rng.integers(100, 1000)) for _ in range(2))
    weights, data = layer(4, width, fill=0.1), examples(3, size, width, rng=rng)
    return certificate(weights, data, {"error": bound("error", 1.0)})


def wide_between(rng):
    claims = {"error": bound("error", 1.0)}
    weights = layer(1, int(rng.integers(1, 30_000)), between=int(rng.integers(10**5, 10**6)))
    return certificate(weights, examples(1, 1, weights["W_Q"].shape[1]), claims)


def wide_outputs(rng):
    outputs = int(rng.integers(10**4, 10**5))
    claims = {"error": bound("error", 1.0)}
    weights = layer(1, int(rng.integers(10**4, 10**5)), outputs=outputs)
    return certificate(weights, examples(1, 1, weights["W_Q"].shape[1], outputs), claims)


def many_examples(rng):
    total = int(rng.integers(10**5, 10**6))
    name = pick(rng, ["rank", "error"])
    claims = {name: rank(rng, total, total) if name == "rank" else bound(name, 1.0)}
    return certificate(layer(1, 1), examples(total, 1, 1), claims)


def many_logits(rng):
    """Every exponential is needed, and the claim is false, so that digits are added."""
    total, heads = int(rng.integers(50, 400)), int(rng.integers(1, 20))
    weights = layer(heads, 8, fill=0.1)
    claims = {"error": bound("error", 1e-300)}
    return certificate(weights, examples(total, 16, 8, rng=rng), claims)


def many_pairs(rng):
    """Heads which agree on nothing, or couple without end."""
    pairs, total = int(rng.integers(100, 3000)), int(rng.integers(100, 3000))
    data = examples(total, 2, 4, rng=rng)
    weights = layer(2 * pairs, 4)
    weights["W_Q"] = rng.standard_normal(weights["W_Q"].shape) * 10.0 ** rng.integers(-3, 9)
    weights["W_V"][1::2] *= -1
    stops = np.minimum(4 * (1 + np.arange(pairs)), total)
    evidence = {"order": pack(np.arange(total)), "stops": pack(stops)}
    claims = {"rank": claim("rank", evidence, total), "error": bound("error", 1e-300)}
    return certificate(weights, data, claims, PAIRED)


def many_outputs(rng):
    """Of one entry and one token: all the work is that of the targets."""
    outputs = int(rng.integers(10, 1000))
    data = examples(int(rng.integers(10**4, 10**6)) // outputs, 1, 1, outputs)
    return certificate(layer(1, 1, outputs=outputs), data, {"error": bound("error", 1.0)})


def many_corrections(rng):
    weights = layer(1, 1)
    weights["W_V_corrections"] = np.zeros((int(rng.integers(100, 10**5)), 1, 1, 1))
    return certificate(weights, examples(1, 1, 1), {"error": bound("error", 1.0)})


def upper(data, vectors=(), zeros=0, *, shown=(1, 1)):
    """The claim for one head that all examples are too many."""
    total = len(data["queries"])
    evidence = triples.spans(total, vectors, zeros=zeros)
    return certificate(None, data, {"impossible": claim("impossible", evidence, *shown, total)})


def units(width, number="1"):
    """All but the last unit vector, times a number."""
    return [["0"] * j + [number] + ["0"] * (width - j - 1) for j in range(width - 1)]


def last_entries(total, size, width, *, shared=False):
    """Tokens which have one entry, the last one; and queries which differ there."""
    data = examples(total, size, width, shared=shared)
    data["contexts"][..., :-1] = data["queries"][:, :-1] = 0
    data["queries"][:, -1] = np.arange(total)
    return data


def long_tokens(rng):
    """Tokens from 2^-1000 to 2^1000, and long numbers: products that are not zero."""
    width = int(rng.integers(20, 120))
    data = last_entries(300, int(rng.integers(100, 3000)), width, shared=True)
    data["contexts"] = np.ldexp(1.0, rng.integers(-1000, 1000, data["contexts"].shape))
    return upper(data, [["f" * (width * 500)] * width])


def long_vectors(rng):
    """Numbers of a million digits, for few tokens: where tokens are zero."""
    width = int(rng.integers(2, 12))
    digits = int(rng.integers(10**4, 6 * 10**6 // width))
    vectors = units(width, "f" * min(digits, 700_000))
    return upper(last_entries(3, int(rng.integers(1, 9)), width), vectors)


def dense_vectors(rng):
    """Every entry before the pivots is a long number, but the product is zero."""
    width = int(rng.integers(3, 12))
    long = "f" * min(int(rng.integers(10**4, 12 * 10**6 // width**2)), 700_000)
    vectors = [["0"] * j + [long] * (width - j - 1) + ["0"] for j in range(width - 1)]
    return upper(last_entries(3, 1, width), vectors, width - 1)


def many_vectors(rng):
    """As many as there are entries; one number of them is longer than the others."""
    width = int(rng.integers(100, 1200))
    vectors = units(width)
    vectors[-1][width - 2] = "f" * int(rng.integers(1, 10**5))
    return upper(last_entries(2, 1, width), vectors, width - 1)


def many_moduli(rng):
    """Tables of the powers of two from 2^-1000 to 2^1000, for each modulus."""
    data = last_entries(3, 2, 2, shared=True)
    data["contexts"][:, 1] = 2.0**1000, 2.0**-1000
    return upper(data, [["f" * int(rng.integers(10**4, 7 * 10**5)), "0"]], 1)


def many_queries(rng):
    """Of one shared token."""
    return upper(last_entries(int(rng.integers(10**5, 10**6)), 1, 4, shared=True))


def shared_inputs(rng):
    """As many queries as tokens of one shared context."""
    total = int(rng.integers(10**3, 10**5))
    data = last_entries(total, total, 1, shared=True)
    data["contexts"][:, 0] = np.arange(total)
    return upper(data)


def long_path(rng):
    """Contexts of two tokens, each of which has one token of the one before it."""
    total = int(rng.integers(10**3, 2 * 10**5))
    data = last_entries(total, 2, 1)
    order = np.r_[0, np.arange(total, 0, -1)] * 1.0
    data["contexts"] = np.stack([order[:-1], order[1:]], axis=1)[:, :, None]
    return upper(data)


def late_differences(rng):
    """Tokens and queries which differ in their last entries alone."""
    width = int(rng.integers(1, 1000))
    total = max(2, int(rng.integers(10**4, 4 * 10**6)) // width)
    data = last_entries(total, 1, width)
    data["contexts"][:, 0, -1] = rng.permutation(total)
    return upper(data, shown=(1, width))


def wide_examples(rng):
    return upper(last_entries(2, 1, int(rng.integers(10**4, 10**6))))


SHAPES = (
    wide_tokens, many_heads, large_contexts, wide_between, wide_outputs, many_examples, many_logits,
    many_pairs, many_outputs, many_corrections, long_tokens,
    long_vectors, dense_vectors, many_vectors, many_moduli, many_queries, shared_inputs, long_path,
    late_differences, wide_examples,
)  # fmt: skip


# Whose claims are false; those of the others are only large, or may be.
FALSE = wide_outputs, many_pairs, many_corrections, long_tokens
MAY_BE_TRUE = {shape.__name__ for shape in SHAPES} - {shape.__name__ for shape in FALSE}


# Containers.


def deep(rng, folder):
    (folder / "c.json").write_text("[" * int(rng.integers(10**3, 10**7)))


def many_lists(rng, folder):
    (folder / "c.json").write_text("[" + "[]," * int(rng.integers(10**5, 10**7)) + "[]]")


def long_header(rng, folder):
    text = b'{"W_Q":' + b"[]," * int(rng.integers(10**5, 10**7))
    (folder / "w.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)


def huge_arrays(rng, folder):
    write_arrays(folder, 1 << int(rng.integers(28, 60)), megabytes=1)


def zeros(rng, folder):
    size = 1 << int(rng.integers(26, 28))
    write_arrays(folder, size, megabytes=size >> 17)


def write_arrays(folder, size, megabytes):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({size}, 1), }}\n".encode()
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    with zipfile.ZipFile(folder / "d.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in DATA:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                file.write(start)
                for _ in range(megabytes):
                    file.write(bytes(1 << 20))


def packed_header(_, folder):
    """A kilobyte, which becomes as much as a header of version 2 may be."""
    with zipfile.ZipFile(folder / "d.npz", "w", zipfile.ZIP_BZIP2) as archive:
        for name in DATA:
            start = b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 29)
            archive.writestr(f"{name}.npy", start + b" " * (1 << 28))


def another_array(rng, folder):
    """An entry which numpy would read in the place of the one with the suffix."""
    with zipfile.ZipFile(folder / "d.npz", "a") as archive:
        name = pick(rng, DATA)
        archive.writestr(name, archive.read(f"{name}.npy"))


def many_entries(rng, folder):
    with zipfile.ZipFile(folder / "d.npz", "w") as archive:
        for place in range(int(rng.integers(10**4, 2 * 10**5))):
            archive.writestr(f"{place}.npy", b"")


CONTAINERS = (
    deep, many_lists, long_header, huge_arrays, zeros, packed_header, another_array, many_entries,
)  # fmt: skip


def containers(rng, folder):
    """Honest files of which one is something else."""
    files = pick(rng, triples.honest_layers()).write(folder)
    place = int(rng.integers(len(CONTAINERS) + 1))
    if place == len(CONTAINERS):
        files[rng.integers(3)] = "/dev/zero"
        return "endless", files
    CONTAINERS[place](rng, folder)
    return CONTAINERS[place].__name__, files


# Sequences.


def long_numbers(rng, folder):
    """A network of few weights which makes numbers long, for many examples."""
    count, size = int(rng.integers(100, 3000)), int(rng.integers(1, 9))
    digits = int(rng.integers(100, 10_000))
    long = "f" * digits
    kind = pick(rng, ["long", "doubling", "fractions", "labels", "tokens", "parts"])
    value = {"long": long, "doubling": "ffffffffffffffff", "fractions": "1/" + long[:3000]}
    value = value.get(kind, "1")
    depth = int(rng.integers(1, 30 if kind != "doubling" else 1500))
    first = {"inputs": 1, "rows": [[[0], ["1"], "0"], [[0], ["1"], "0"]]}
    bias = "1/2" if kind == "fractions" else "0"
    rows = [[[0, 1], [value, "1"], bias], [[1], [value], "0"]]
    layers = [{"inputs": 2, "rows": rows} for _ in range(depth)]
    last = {"inputs": 2, "rows": [[[0, 1], ["1", "1"], "0"]]}
    tokens = [
        [long[:-4] + f"{i + 4096:x}" if kind == "tokens" else f"{i + 1:x}"] for i in range(count)
    ]
    if kind == "parts":  # of one, without a common denominator
        tokens = [["1/" + long[:3000] + f"{2 * i + 4097:x}"] for i in range(count)]
    memorizer = {
        "format": "constructive sequence memorizer 1",
        "task": "next",
        "context_size": size,
        "embedding": {"residual": False, "layers": [first]},
        "attention": {"W_Q": ["0", "0"], "W_K": ["0", "0"], "W_V": ["1", "0"], "W_O": ["0", "1"]},
        "classifier": {"residual": False, "layers": [*layers, last]},
        "symbols": None,
        "classes": None,
        "record": {},
    }
    data = {
        "format": "constructive sequences 1",
        "task": "next",
        "tokens": tokens,
        "symbols": None,
        "ids": [[(i + j) % count for j in range(size)] for i in range(count)],
        "labels": [0] * count,
        "classes": [["int", long if kind == "labels" else "1"]],
    }
    statement = f"f(X) == y for all {count} labels of N = {count} sequences of n = {size} tokens"
    claims = {"equality": {"verdict": "PROVED", "statement": statement, "evidence": {}}}
    nonzero = 5 + sum(len(row[1]) + (row[2] != "0") for x in layers for row in x["rows"]) + 2 - 1
    content = triples.content_for(claims, triples.SEQUENCE) | {
        "data": {"sequences": count, "context_size": size, "tokens": count, "task": "next"},
        "weights": {"nonzero": nonzero, "embedding_depth": 0, "classifier_depth": depth},
    }
    contents = triples.signed_sequences(content, memorizer, data)
    return kind, triples.written_sequences(folder, contents)


def case(rng, folder):
    """A label and files."""
    kind = rng.choice(3, p=[0.5, 0.25, 0.25])
    if kind == 0:
        build = pick(rng, SHAPES)
        triple = build(rng)
        files = triple.write(folder)
        if rng.random() < 0.3:
            np.savez_compressed(files[-1], **triple.data)
        return build.__name__, files
    label, files = (containers if kind == 1 else long_numbers)(rng, folder)
    return f"{['', 'containers', 'sequences'][kind]}: {label}", files


# A small process which starts the checker: a large one would count as what the checker took.
LAUNCHER = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds, size = used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6
print(json.dumps([done.returncode, done.stdout + done.stderr, seconds, size]))
"""


def measured(checker, files):
    """Run the checker in a process of its own: status, output, seconds of a processor, and GB."""
    command = [sys.executable, "-I", str(checker), *files, "--max-memory", str(LIMIT)]
    launch = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
    done = subprocess.run(launch, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
