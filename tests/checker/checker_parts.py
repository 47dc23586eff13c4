"""The files of a certificate in a folder: their names, how they are written, and checked."""

import ast
import contextlib
import dataclasses
import io
import subprocess
import sys

import numpy as np
import onnx
import pytest

from constructive import (
    AttentionLayer,
    Dataset,
    Memorizer,
    SequenceDataset,
    Text,
    build_decoder,
    build_memorizer,
    certify,
    generators,
)
from constructive.certificates.certify import family_of
from constructive.certificates.check import CHECKER as FOLDER
from constructive.instances import Atom, Box, Head, Network, Property
from constructive.instances.properties import version_1
from constructive.layers.record import TrainedRecord

FILES_OF = {
    Dataset: ("certificate.json", "weights.safetensors", "data.npz"),
    Text: ("certificate.json", "decoder.safetensors", "text.json"),
    SequenceDataset: ("certificate.json", "memorizer.json", "data.json"),
}


def paths(folder, kind=Dataset):
    """Certificate, weights and data of this kind."""
    return [str(folder / name) for name in FILES_OF[kind]]


def saved(folder, weights, data, certificate=None):
    """The same, written: of their own certificate, or of another."""
    certificate = certify(weights, data) if certificate is None else certificate
    found = paths(folder, type(data))
    for path, content in zip(found, (certificate, weights, data), strict=True):
        content.save(path)
    return found


def signed(certificate, weights, data):
    """The certificate as a forger signs it: about other weights and data."""
    about = family_of(weights).describe(weights, data)
    return dataclasses.replace(certificate, data=about[0], weights=about[1])


def altered(certificate, name, **changes):
    """The certificate with another claim of that name."""
    claims = tuple(
        dataclasses.replace(claim, **changes) if claim.name == name else claim
        for claim in certificate.claims
    )
    return dataclasses.replace(certificate, claims=claims)


def said(checker, files, *options):
    """The status of the checker, and what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        status = checker.main([*map(str, files), *options])
    return status, printed.getvalue()


# Imports of the sources of the checker.

SOURCES = {path.stem: path for path in sorted(FOLDER.glob("*.py"))}
PARTS = sorted(set(SOURCES) - {"__main__"})


def foreign_imports(source):
    """Modules which a source imports beyond the standard library, numpy, mpmath and its folder."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            beside = [node.module] if node.module else [alias.name for alias in node.names]
            near = node.level == 1 and set(beside) <= {*PARTS}
            found.update([] if near else ["." * node.level + (node.module or "")])
    roots = {name.partition(".")[0] for name in found}
    return roots - set(sys.stdlib_module_names) - {"numpy", "mpmath"}


def modules_loaded_by(path, arguments):
    """Modules of this package and of its dependencies which a run of a checker loads."""
    code = (
        "import runpy, sys\n"
        f"sys.argv = {[str(path), *arguments]!r}\n"
        "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except SystemExit as end: status = end.code\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "suspects = {'constructive', 'flint', 'scipy', 'safetensors', 'rich', 'typer', 'sympy'}\n"
        "print('status', status, 'loaded', sorted(names & suspects))\n"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()[-1]


# What a row of a table asks for: a result, or a refusal with a word of its reason.


def refused(words, error=ValueError):
    """An error with these words; without words, none."""
    return pytest.raises(error, match=words) if words else contextlib.nullcontext()


def other_shapes(shapes, allowed=()):
    """Each array with an axis longer, shorter, left out or added, unless that is allowed."""
    for name, shape in shapes.items():
        others = [(*shape, 1)]
        for axis, size in enumerate(shape):
            new = (), (size - 1,), (size + 1,)
            others += [(*shape[:axis], *sizes, *shape[axis + 1 :]) for sizes in new]
        yield from ({name: other} for other in others if {name: other} not in allowed)


# Layers for the claims about real numbers.


class Free:
    """Nothing costs anything, and nobody is told."""

    def take(self, operations):
        pass

    def tell(self, step, done, total):
        pass


FREE = Free()


def layer_and_data(rng, *, shared, outputs, parts, total=7):
    size, width, heads, inner, value_dim, between = 3, 4, 5, 2, 3, 6
    draw = rng.standard_normal
    contexts = draw((size, width)) if shared else draw((total, size, width))
    contexts *= 1.0 if shared else 2.0 ** rng.integers(-9, 9, (total, 1, 1))
    data = {
        "contexts": contexts,
        "queries": draw((total, width)),
        "targets": draw((total, outputs)) if outputs else draw(total),
    }
    weights = {
        "W_Q": draw((heads, width, inner)),
        "W_K": draw((heads, width, inner)),
        "W_V": draw((heads, width, value_dim)),
        "W_O": draw((heads * value_dim, between)),
        "W_D": draw((between, max(outputs, 1))),
    }
    if parts:
        weights["W_V_corrections"] = 1e-17 * draw((parts, heads, width, value_dim))
    return weights, data


# Decoders in the checker.

RIDDLE = "a rat sat, a cat sat"


def small():
    """A text of words, and a decoder of it."""
    text = Text.words(RIDDLE)
    return build_decoder(text, width=16), text


# Models of which every term counts: units are large.

COARSE = {
    "plain": {},
    "blocks": {"block": 2},
    "exponentials": {"exp": 2.0**-9},
    "underflow": {"small": 2.0**-21},
    "scaled": {"constants": 8, "merged": True, "unit": 2.0**-22, "exp": 2.0**-21},
    "merged": {"merged": True, "unit": 2.0**-22, "exp": 2.0**-20, "block": 2},
    "any contraction": {"free": True, "small": 2.0**-28},
    "stored": {"kept": "float16", "stored": 2.0**-11, "tiny": 2.0**-15, "bits": 11,
               "least": 2.0**-14, "top": 65504.0},
}  # fmt: skip


def coarse_model(checker, name, **others):
    """The model of that name."""
    usual = {"unit": 2.0**-13, "exp": 2.0**-12, "small": 2.0**-60}
    plain = checker.float_model.MODELS["float32, pairwise"]
    return plain._replace(**(usual | COARSE[name] | others))


def decoder_of(checker, decoder, text, model, prompt=None):
    """A decoder as the checker has it, of no files."""
    known = checker.float_model.MODELS | checker.float_model.INTEGER_MODELS
    return checker.decoders.Decoder(
        {name: np.asarray(array) for name, array in decoder.tensors.items()},
        np.split(text.ids, text.starts[1:]),
        known[model] if isinstance(model, str) else model,
        checker.verify.Options(quick=False, asked=(), epsilon=np.inf, most=np.inf),
        prompt=prompt or text.prompt,
        window=decoder.layer.window,
        period=None if decoder.longest is None else len(decoder.positions),
    )


# What tests of graphs share: small networks, their graphs, and boxes.


NOT_NEGATIVE = ((Atom([1.0], 0.0),),)


def network(heads=2, tokens=3, inputs=2, outputs=2, seed=0, size=2.0):
    """Entries with few bits, some of them zeros."""
    random = np.random.default_rng(seed)

    def entries(*shape):
        drawn = np.round(random.normal(size=shape) * size * 16) / 16
        return np.where(random.random(shape) < 0.2, 0.0, drawn)

    return Network(
        tuple(
            Head(entries(tokens, inputs), entries(tokens), entries(tokens, outputs))
            for _ in range(heads)
        )
    )


def unit_box(inputs=2):
    return Box(-np.ones(inputs), np.ones(inputs))


def changed(data, change):
    """The bytes of a model after a change."""
    model = onnx.ModelProto.FromString(data)
    found = change(model)
    return (found if isinstance(found, onnx.ModelProto) else model).SerializeToString()


def ints(box, checker):
    """A box as the checker takes it: integers in units of 2^-149."""
    return [
        list(checker.operators.integers(np.asarray(side, np.float32)))
        for side in (box.lower, box.upper)
    ]


def problem(checker, data, box, disjuncts=NOT_NEGATIVE):
    """What the checker makes of a graph and a property."""
    text = version_1(Property(box, disjuncts)).encode()
    wanted = checker.properties.read_property(text, "vnnlib")
    model = checker.softmaxes.KNOWN["float32, pairwise"]
    return checker.instances.Problem(checker.graphs.read_graph(data), wanted, model)


# Paired heads: four pairs, and four that look about.


def small_pairs():
    """A memorizer of 4 pairs and its 13 examples, the last one of its own."""
    data = generators.gaussian(num_examples=13, context_size=3, width=5, seed=3)
    return build_memorizer(data, num_heads=8, construction="paired", seed=1), data


def strongly_coupled(sign=1, *, turned=False):
    """The same, but that all pairs but the first one look about.

    So two entries an example are beside the blocks, some nearly as large as what is in them. The
    heads and the key have this sign: scores, too, and what is read does not change. Or the query of
    the extra example is turned around, and all heads but those of pair 0: what they read there is
    at the other end than what pair 0 reads, and than what pair 0 reads of others.
    """
    memorizer, data = small_pairs()
    queries = sign * memorizer.layer.query_weights
    queries[2:] *= 0.05
    if turned:
        queries[2:] *= -1
        asked = data.queries.copy()
        asked[memorizer.record.order[-1]] *= -1
        data = Dataset(data.contexts, asked, data.targets)
    keys = sign * memorizer.layer.key_weights
    layer = dataclasses.replace(memorizer.layer, query_weights=queries, key_weights=keys)
    return Memorizer(layer, memorizer.record), data


# Layers with data, drawn by a number: built ones and random ones, at the edge of each claim.


DRAWN = TrainedRecord("drawn", scalar_targets=False, constant=False)


def random_layer(rng, sharpness):
    """A layer of random weights, contexts, queries and its outputs."""
    heads, width, inner, value_dim, outputs, size, total = (
        int(rng.integers(1, most)) for most in (6, 7, 4, 4, 4, 7, 20)
    )
    draw = rng.standard_normal
    weights = draw((heads, width, inner)) * sharpness, draw((heads, width, inner))
    values = draw((heads, width, value_dim)), draw((heads * value_dim, value_dim))
    layer = AttentionLayer(*weights, *values, draw((value_dim, outputs)))
    contexts, queries = draw((total, size, width)), draw((total, width))
    contexts = contexts[0] if rng.random() < 0.3 else contexts
    return layer, contexts, queries, layer(contexts, queries)


def built(rng, kind, seed):
    """A layer that is built, as many examples as it holds at most, some in float32."""
    size, width, heads = (int(rng.integers(*ends)) for ends in ((2, 7), (6, 20), (1, 8)))
    total = int(rng.integers(1, heads * (min(size, width) - 1) + 2))
    shapes = {"num_examples": total, "context_size": size, "width": width, "seed": seed}
    if kind == 4:  # more than Theorem 1 says
        width, heads = int(rng.integers(4, 9)), int(rng.integers(2, 5))
        total = int(rng.integers(2, heads * width))
        shapes |= {"num_examples": total, "context_size": 5, "width": width}
    make = {1: generators.gaussian, 2: generators.shared_context, 4: generators.gaussian}
    if kind == 3:
        shapes["target_dim"] = 3
    data = make.get(kind, generators.uniform)(**shapes)
    construction = "generic" if kind == 4 else "auto"
    memorizer = build_memorizer(data, num_heads=heads, construction=construction, seed=seed)
    return (memorizer.astype(np.float32) if rng.random() < 0.2 else memorizer), data


def broken(rng, seed):
    """A layer that is built, and data of which something breaks a claim, or nearly does."""
    data = generators.uniform(num_examples=12, context_size=4, width=8, seed=seed)
    memorizer = build_memorizer(data, num_heads=4, seed=seed)
    contexts, queries = data.contexts.copy(), data.queries.copy()
    one, other = rng.choice(12, 2, replace=False)
    match int(rng.integers(6)):
        case 0:
            queries[one] = 2 * queries[other]
        case 1:
            contexts[one, 0] = contexts[one, 1] + contexts[one, 2]
        case 2:
            queries[one], contexts[one] = queries[other], contexts[other]
        case 3:
            contexts[one, 0] = contexts[one, 1] * (1 + 2.0**-52)
        case 4:
            queries[11] = queries[0] + queries[1] * 2.0**-60
    return memorizer, Dataset(contexts, queries, data.targets)


def case(number):
    """A memorizer and data: five in ten are built, the others random."""
    rng, kind = np.random.default_rng([7, number]), number % 10
    if kind < 5:
        return built(rng, kind, number)
    if kind == 9:
        return broken(rng, number)
    sharpness = 1.0 if kind == 7 else 10.0 ** rng.integers(-1, 5)
    layer, contexts, queries, outputs = random_layer(rng, sharpness)
    if kind == 6:  # errors of any size
        outputs = outputs + rng.standard_normal(outputs.shape) * 10.0 ** rng.integers(-16, 0)
    if kind == 7:  # at any scale
        scale = 2.0 ** int(rng.integers(-400, 400))
        outputs = outputs * scale
        layer = dataclasses.replace(layer, readout_weights=layer.readout_weights * scale)
    if kind == 8:  # labels, some wrong, some targets not one-hot
        outputs = np.eye(outputs.shape[1])[outputs.argmax(axis=1)]
        if rng.random() < 0.4:
            outputs[0] = np.roll(outputs[0], 1)
        if rng.random() < 0.2:
            outputs[-1, 0] += 0.5
    return Memorizer(layer, DRAWN), Dataset(contexts, queries, outputs)
