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
    return checker.folder.Problem(checker.graphs.read_graph(data), wanted, model)


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
