"""Certificates of every claim, construction and view, to compare two versions byte for byte.

Run it once with each version and compare the folders; what differs is what a change means to
change, or a fault::

    PYTHONPATH=before python tests/campaign/corpus.py before-corpus
    PYTHONPATH=after python tests/campaign/corpus.py after-corpus
    diff -r before-corpus after-corpus

All weights are built anew from seeds, so a certificate, which names the hashes of weights and data,
differs where these do. A version of the library itself (`made_by`) is left out. With `--check` each
certificate is also given to the checker of the version that runs, and its last line is recorded.
It takes a quarter of a minute, and half a minute with `--check`.
"""

import argparse
import dataclasses
import itertools
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from constructive import (
    Dataset,
    SequenceDataset,
    Text,
    build_decoder,
    build_memorizer,
    build_sequence_memorizer,
    certify,
    check,
    generators,
    upper_bound_certificate,
)

sys.path.insert(0, str(Path(__file__).parents[1]))

SENTENCE = "the cat sat on the mat and the dog sat on the cat while the mat lay on the floor "
MODELS = ("float32, pairwise", "float32, pairwise, blocks of 16", "float32, scaled",
          "float32, any contraction")  # fmt: skip


def layers():
    """Layers of all constructions, on data of all kinds."""
    makes = {
        "uniform": generators.uniform,
        "gaussian": generators.gaussian,
        "shared": generators.shared_context,
        "integers": generators.integers,
    }
    for (kind, make), outputs in itertools.product(makes.items(), (None, 3)):
        data = make(num_examples=7, context_size=3, width=5, target_dim=outputs, seed=2)
        for construction, heads in (("saturated", 3), ("rank_one", 3), ("generic", 3)):
            memorizer = build_memorizer(data, num_heads=heads, construction=construction, seed=1)
            name = f"{kind}-{outputs or 1}-{construction}"
            yield name, memorizer, data, {}
            if construction == "generic" and outputs:
                yield f"{name}-loose", memorizer, data, {"epsilon": 1e-3}
    data = generators.uniform(num_examples=31, context_size=4, width=8, target_dim=2, seed=0)
    memorizer = build_memorizer(data, num_heads=10)
    yield "uniform-31", memorizer, data, {}
    yield "uniform-31-seed", memorizer, data, {"claims": ["rank"], "seed": 5}
    yield "uniform-31-few-bits", memorizer, data, {"max_prec": 64}
    yield "uniform-31-float32", memorizer.astype(np.float32), data, {"epsilon": 1e3}
    wrong = Dataset(data.contexts, data.queries, data.target_matrix + 1.0)
    yield "uniform-31-refuted", memorizer, wrong, {}
    for bits in (120, "auto"):
        yield f"extended-{bits}", build_memorizer(data, num_heads=10, precision=bits), data, {}


def labels():
    """Layers that give labels to more examples than numbers."""
    from claim_parts import label_layer

    for classes in (2, 3):
        drawn = generators.uniform(num_examples=60, context_size=3, width=6, seed=classes)
        index = np.random.default_rng(classes).integers(classes, size=60)
        data = Dataset.of_classes(drawn.contexts, drawn.queries, index)
        few = data.take(range(20))
        memorizer = label_layer(few, 2)
        yield f"labels-{classes}", memorizer, few, {"claims": ["labels"]}


def pairs():
    """Paired heads, whose proof has a form of its own."""
    for total, size, width, heads, outputs in (
        (7, 3, 4, 4, None),
        (6, 2, 4, 5, 2),
        (61, 4, 8, 18, 3),
    ):
        data = generators.gaussian(
            num_examples=total, context_size=size, width=width, target_dim=outputs, seed=1
        )
        memorizer = build_memorizer(data, num_heads=heads, construction="paired", seed=1)
        yield f"paired-{total}", memorizer, data, {}
        yield f"paired-{total}-dense", memorizer, data, {"claims": ["rank", "error"]}
    yield "paired-error", memorizer, data, {"claims": ["error"], "epsilon": 1e-4}


def decoders():
    """Decoders with all that is seen, a window, more than one text, storage, and models."""
    words = Text.words(SENTENCE)
    several = Text.words("a b c d", "b c a d e", "c a b")
    for name, text, options in (
        ("words", words, {"width": 16}),
        ("window", words, {"width": 16, "window": 6}),
        ("several", several, {"width": 16}),
        ("bytes", Text.bytes(b"attention is written once"), {"width": 24, "num_heads": 3}),
    ):
        decoder = build_decoder(text, seed=1, **options)
        yield f"decoder-{name}", decoder, text, {}
        for model in MODELS:
            asked = {"claims": ["executed"], "model": model}
            yield f"decoder-{name}-{model}", decoder, text, asked
        for storage in ("bfloat16", "float16"):
            yield f"decoder-{name}-{storage}", decoder.stored_as(storage), text, {}
    yield "decoder-few", build_decoder(words, parameters="few"), words, {}
    planes = build_decoder(words, parameters="few", outputs=2, every=True)
    yield "decoder-few-planes", planes, words, {"claims": ["rank", "recites", "executed"]}
    decoder = build_decoder(words, width=16)
    readout = -decoder.layer.readout_weights
    wrong = dataclasses.replace(
        decoder, layer=dataclasses.replace(decoder.layer, readout_weights=readout)
    )
    yield "decoder-refuted", wrong, words, {}


def sequences():
    """Memorizers of sequences for each task, as they are built if nobody asks for more."""
    problems = {
        "next": ([[1, 2], [3, 4], [5, 6]], [0, 1, 2]),
        "seq2seq": ([[(1, 2), (3, 4)], [(1, 2), (0, 0)]], [[1, 2], [3, 4]]),
        "last": (["abc", "abd", "cba", "xyz"], ["x", "y", "z", None]),
    }
    for task, (tokens, labels) in problems.items():
        memorizer = build_sequence_memorizer(tokens, labels, task=task)
        yield f"sequences-{task}", memorizer, SequenceDataset.of(tokens, labels, task), {}


def bounds():
    """Upper bounds of all weights."""
    rng = np.random.default_rng(0)
    for name, contexts, total, heads in (
        ("shared", rng.standard_normal((3, 4)), 12, 2),
        ("own", rng.standard_normal((9, 2, 4)), None, 2),
        ("few", np.eye(4)[rng.integers(4, size=(9, 2))], None, 2),
        ("short", rng.integers(-4, 5, (5, 3)) * 1.0, 8, 2),
    ):
        queries = rng.standard_normal((total or len(contexts), contexts.shape[-1]))
        yield f"bound-{name}", None, Dataset(contexts, queries, np.zeros(len(queries))), heads


def record(folder: Path, *, checked: bool) -> int:
    """Write each certificate as JSON with sorted keys, and return how many there are."""
    kinds = layers, labels, pairs, decoders, sequences, bounds
    count = 0
    for name, memorizer, data, options in itertools.chain.from_iterable(make() for make in kinds):
        made = (
            upper_bound_certificate(data, options)
            if memorizer is None
            else certify(memorizer, data, **options)
        )
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "certificate.json"
            made.save(path)
            content = json.loads(path.read_text())
        del content["made_by"]
        if checked:
            content["checker"] = check(made, memorizer, data).report.splitlines()[-1]
        text = json.dumps(content, indent=1, sort_keys=True)
        (folder / f"{name.replace(', ', '-').replace(' ', '-')}.json").write_text(text + "\n")
        count += 1
        print(f"{name}: {content['verdict']}", content.get("checker", ""), file=sys.stderr)
    return count


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="give each to the checker, too")
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    print(record(given.folder, checked=given.check), "certificates")
