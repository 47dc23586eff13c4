"""What the tests of `check --rocq` share: marks, files, and for each claim cases and forgeries."""

import dataclasses
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from decoder_parts import WINDOW, compact

from constructive import (
    Dataset,
    FormatError,
    Text,
    build_decoder,
    build_memorizer,
    certify,
    generators,
    upper_bound_certificate,
)
from constructive.rocq.confirm import confirm_instances, read, require_same
from constructive.rocq.definitions import FilledTheory, Theory, write
from constructive.rocq.theories import (
    ERROR,
    ERROR_ARRAYS,
    IMPOSSIBLE,
    INPUT_ARRAYS,
    MODULUS,
    ONTO,
    RANK,
    RANK_ARRAYS,
    RECITES,
)


def version():
    """Of Rocq, or "" where it is not installed."""
    if shutil.which("coqc") is None:
        return ""
    command = ["coqc", "--print-version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


needs_rocq = pytest.mark.skipif(
    not version().startswith("8.16."), reason="Rocq (coqc) 8.16 is not installed"
)


def by_rocq(test):
    """Mark a slow test of what Rocq proves or refuses, with theories that are compiled once."""
    for mark in (pytest.mark.usefixtures("compiled_once"), pytest.mark.slow, needs_rocq):
        test = mark(test)
    return test


def instance_of(theory, *subject):
    return theory.filled(theory.known_of(*subject), *subject)


def replaced(made, **values):
    return dataclasses.replace(made, values={**made.values, **values})


def one_changed(made, name, step, place=-1):
    """The instance with another number in one place of an array."""
    array = made.values[name].copy()
    array.flat[place] += step
    return replaced(made, **{name: array})


def with_evidence(certificate, **changes):
    """The certificate with other evidence of all its claims."""
    claims = tuple(
        dataclasses.replace(claim, evidence={**claim.evidence, **changes})
        for claim in certificate.claims
    )
    return dataclasses.replace(certificate, claims=claims)


def saved(folder, certificate, *things):
    """Paths of a certificate, weights (or none) and data, which are written."""
    names = {Dataset: "d.npz", Text: "t.json"}
    files = [folder / "c.json"] + [folder / names.get(type(x), "w.safetensors") for x in things]
    for thing, path in zip((certificate, *things), files, strict=True):
        thing.save(path)
    return files


def require_compared(made, known, arrays, sizes):
    """The files are of the stored numbers; another number in one place, or another size, is found.

    Returns the values that are read.
    """
    found = read(made.theory, write(made))
    assert require_same(found, known) == sum(x.size for x in known.arrays.values())
    for name in arrays:
        array = known.arrays[name] * 1
        array.flat[-1] = 3 * array.flat[-1] + 1
        with pytest.raises(FormatError, match=rf"{name}\[.*\] is .* is stored"):
            require_same(found, dataclasses.replace(known, arrays={**known.arrays, name: array}))
    for name in sizes:
        other = {**known.sizes, name: known.sizes[name] + 1}
        with pytest.raises(FormatError, match=f"{name} is .* is stored"):
            require_same(found, dataclasses.replace(known, sizes=other))
    return found.values


def require_refused(made, known):
    """Rocq refuses this instance, whose numbers are taken for the stored ones; its report."""
    believed = dataclasses.replace(
        known,
        arrays={name: made.values[name] for name in known.arrays},
        sizes={name: made.values[name] for name in known.sizes},
    )
    done = confirm_instances([(made, believed)])
    assert not done.proved
    assert done.report.endswith("NOT PROVED: Rocq refuses")
    return done.report


# Claims, their cases and forgeries.

Change = Callable[[FilledTheory], FilledTheory]


class Kind(NamedTuple):
    """A claim, cases by their names, and what forgeries of cases Rocq has to refuse."""

    theory: Theory
    make: Callable[[str], tuple[Any, ...]]  # the certificate, weights (or none) and data of a case
    cases: tuple[str, ...]
    arrays: tuple[str, ...]  # what is compared with what is stored
    sizes: tuple[str, ...]
    words: str  # of the report, with values
    forged: dict[str, dict[str, Change]]  # of each case, what is changed

    def instance(self, name):
        return instance_of(self.theory, *self.make(name))

    def known(self, name):
        return self.theory.known_of(*self.make(name))


def values(**changes):
    """Other values; a function is given the one that is there."""

    def change(made):
        found = {k: f(made.values[k]) if callable(f) else f for k, f in changes.items()}
        return replaced(made, **found)

    return change


def entry(name, step, place=-1):
    """Another number in one place of an array."""
    return lambda made: one_changed(made, name, step, place=place)


def first_twice(array):
    return np.concatenate([array[:1], array[:1], array[2:]])


def one_more(inverse):
    """A right inverse with another first entry."""
    ((first, *entries), *heads), *columns = inverse
    return [[[first + 1, *entries], *heads], *columns]


def swapped(ids):
    places = np.arange(len(ids))
    places[[10, 12]] = 12, 10
    assert ids[10] != ids[12]
    return ids[places]


def vector_changed(vectors):
    *others, (first, *entries) = vectors
    return [*others, [first + 1, *entries]]


OWN = generators.uniform(num_examples=7, context_size=3, width=5, seed=0)
SHARED = generators.shared_context(num_examples=7, context_size=3, width=5)


# *rank*


@cache
def rank(name):
    kind = {"construction": "rank_one"} if name in {"rank one", "float32"} else {}
    data = SHARED if name == "shared" else OWN
    memorizer = build_memorizer(data, num_heads=3, **kind)
    if name == "float32":
        memorizer = memorizer.astype("float32")
    return certify(memorizer, data, claims=["rank"]), memorizer, data


# A wrong witness; three heads that are one: rank Z <= 5; a^(p - 1) is not 1 modulo what is not a
# prime.
RANKS = Kind(
    RANK,
    rank,
    ("own", "shared", "rank one", "float32"),
    RANK_ARRAYS,
    ("n", "d", "dh", "T", "H"),
    "rank Z = T = {T}",
    {
        "own": {
            "inverse": values(inverse=one_more),
            "weights": values(
                query_weights=lambda x: np.repeat(x[:1], 3, axis=0),
                key_weights=lambda x: np.repeat(x[:1], 3, axis=0),
            ),
            "contexts": values(contexts=lambda x: x[::-1].copy()),
            "point": values(point=lambda x: x + 1),
            "order": values(modulus=lambda x: x + 1),
        }
    },
)


# *onto*


def drawn(total, size, width, outputs=(), *, shared=False):
    rng = np.random.default_rng(0)
    contexts = rng.random((size, width) if shared else (total, size, width))
    return Dataset(contexts, rng.random((total, width)), rng.random((total, *outputs)))


def of_lengths(total):
    """Contexts of one to four tokens."""
    data = drawn(total, 4, 5)
    contexts = [tokens[: 1 + t % 4] for t, tokens in enumerate(data.contexts)]
    return Dataset(contexts, data.queries, data.targets)


FREE = {
    "equal heads": (drawn(14, 3, 5), 3, 1),
    "uniform attention": (drawn(14, 2, 5), 2, 2),
    "several groups": (drawn(15, 3, 4), 6, 1),
    "one context": (drawn(12, 5, 5, shared=True), 3, 2),
    "two outputs": (drawn(7, 3, 5, (2,)), 3, 2),
    "an example twice": (drawn(13, 3, 5).take(np.r_[:13, 0]), 3, 1),
    "lengths": (of_lengths(14), 3, 1),
    "lengths, uniform attention": (of_lengths(12), 2, 2),
}


@cache
def onto(name):
    data, heads, inner = FREE[name]
    asked = {"num_heads": heads, "head_dim": inner, "construction": "tangent"}
    memorizer = build_memorizer(data, **asked)
    return certify(memorizer, data, claims=["onto"]), memorizer, data


ONTOS = Kind(
    ONTO,
    onto,
    tuple(FREE),
    (*INPUT_ARRAYS, "lengths"),
    ("d", "dh", "T", "H", "m"),
    "for all Y of T = {T} targets with d_out = {m} some weights of H = {H} heads",
    {
        "equal heads": {
            "an entry of the inverse": values(inverse=one_more),
            "other directions": values(columns=lambda columns: [m[::-1] for m in columns]),
            "another point": values(point=lambda x: x + 1),
            "no prime": values(modulus=lambda x: x + 1),
            "another prime": values(modulus=2097143, order=2097142, point=3),
            "another order": values(order=lambda x: x + 1),
            "a scaled context": values(contexts=lambda x: np.concatenate([3.0 * x[:1], x[1:]])),
            "a scaled query": values(queries=lambda x: np.concatenate([3.0 * x[:1], x[1:]])),
            "examples in another order": values(contexts=lambda x: x[::-1].copy()),
            "an example twice": values(contexts=first_twice, queries=first_twice),
            "heads that lead themselves": values(leaders=[0, 1, 2]),
            "a leader who is led": values(leaders=[1, 2, 2]),
            "a leader beyond all heads": values(leaders=[3, 3, 3]),
            "keys of zero": values(uniform=3),
            "fewer heads": values(H=2),
            "more examples": values(T=15),
            "more outputs": values(m=2),
            "other readouts": values(readouts=lambda x: x[::-1].copy()),
            "a shorter context": entry("lengths", -1),
        },
        "lengths": {
            "no tokens": entry("lengths", -1, 0),
            "a longer context": entry("lengths", 1, 1),
            "all tokens": values(lengths=np.full(14, 4)),
        },
    },
)  # fmt: skip


# *error*: tokens of unlike sizes are integers of unlike lengths in Rocq.

_TARGETS = np.random.default_rng(0).normal(size=(7, 3))
THREE = Dataset(OWN.contexts, OWN.queries, _TARGETS)
_UNLIKE = Dataset(OWN.contexts * [1.0, -1e-9, 1e9, 3.0, 1e-3], OWN.queries, OWN.targets)
ERRORS_OF = {
    "own": (OWN, 1e-6),
    "shared": (SHARED, 1e-6),
    "three outputs": (THREE, 1e-6),
    "random heads": (OWN, 1e-5),
    "tight": (OWN, 1e-14),
    "unlike sizes": (_UNLIKE, 1e-6),
    "float32": (OWN, 0.5),
}


@cache
def error(name):
    data, epsilon = ERRORS_OF[name]
    kind = {"construction": "generic"} if name == "random heads" else {}
    memorizer = build_memorizer(data, num_heads=3, **kind)
    if name == "float32":
        memorizer = memorizer.astype("float32")
    claims = ["rank", "error"]
    return certify(memorizer, data, claims=claims, epsilon=epsilon), memorizer, data


ERRORS = Kind(
    ERROR,
    error,
    tuple(ERRORS_OF),
    ERROR_ARRAYS,
    ("n", "d", "dh", "dv", "dout", "T", "H"),
    "max |f(E_t, e_t) - y_t| <= {epsilon[0][0]}",
    {
        "own": {
            "target": entry("targets", 3e-6, 3),
            "readout": entry("readout_weights", 1.0),
            "token": entry("contexts", 0.5, 52),
            "values": values(value_weights=lambda x: x[::-1].copy()),
            "epsilon": values(epsilon=np.array([[1e-18]])),
            "too few digits": values(digits=1),
            "too few terms": values(terms=3),
            "fewer tokens": values(n=2),
        }
    },
)


# *recites*: one output and two, many texts, and all that was seen: a text that is shorter than the
# window, which is then left out.

RHYME = "one for the cook, one for the crook, and one for the boy with the broken hook"
TEXTS = {
    "built": Text.words(RHYME),
    "texts": Text.words("one two three", "one ten two", "two one ten", prompt=3),
}


@cache
def recital(name):
    if name in TEXTS:
        text = TEXTS[name]
        decoder = build_decoder(text, parameters="few")
    elif name == "two outputs":
        decoder, text = compact(outputs=2)
    else:
        decoder, text = compact(Text.words("a b c d"))
        assert len(text) < WINDOW
        layer = dataclasses.replace(decoder.layer, window=None)
        decoder = dataclasses.replace(decoder, layer=layer)
    return certify(decoder, text, claims=["recites", "executed"]), decoder, text


RECITALS = Kind(
    RECITES,
    recital,
    ("built", "two outputs", "texts", "no window"),
    (
        "margin", "embedding", "positions", "query_weights", "key_weights", "skip", "readouts",
        "unembedding", "lengths", "ids",
    ),
    ("window", "prompt", "V", "margin_bits"),
    "positions of S = ",
    {
        "two outputs": {
            "text": values(ids=swapped),
            "another end": values(lengths=lambda x: x - 1),
            "readout": entry("readouts", 10**6, 4),
            "skip": entry("skip", 10**6, 4),
            "token": entry("embedding", 2, 2),
            "key": values(key_weights=lambda x: np.append(x.flat[:-1], 0).reshape(x.shape)),
            "unembedding": entry("unembedding", 10**9),
            "margin": values(margin=lambda margin: 2 * margin),
            "no margin": values(margin=np.array([[0]])),
            "window": values(window=lambda window: 2 * window),
            "width": values(d=lambda x: x - 1),
        }
    },
)  # fmt: skip


# *impossible*: bounds by the width, by counting, by vectors, and of a part of the examples.


def limited():
    rng = np.random.default_rng(0)
    own = generators.gaussian(num_examples=16, context_size=4, width=5)
    constant = generators.gaussian(num_examples=14, context_size=4, width=4).with_constant()
    basis = rng.integers(-9, 10, (3, 6))
    inside = (rng.integers(-9, 10, (9, 3, 3)) @ basis).astype(float)
    queries = rng.integers(-9, 10, (9, 6)) + np.arange(9)[:, np.newaxis] / 3
    pairs = np.eye(6)[[[0, 1], [1, 2], [2, 0], [3, 4], [4, 5], [5, 3]] * 2]
    different = np.arange(72.0).reshape(12, 6)
    part = np.concatenate([inside, rng.normal(size=(3, 3, 6))])
    single = (x.astype("float32") for x in (own.contexts, own.queries))
    scales = np.ldexp(own.contexts, rng.integers(-300, 300, (16, 1, 1)))
    return {
        "own": (own, 3),
        "shared": (generators.shared_context(num_examples=8, context_size=3, width=5), 3),
        "constant": (constant, 3),
        "subspace": (Dataset(inside, queries, np.zeros(9)), 2),
        "words": (Dataset(pairs, different, np.zeros(12)), 2),
        "part": (Dataset(part, different, np.zeros(12)), 2),
        "scales": (Dataset(scales, own.queries, own.targets), 3),
        "one query": (Dataset(own.contexts, np.ones((16, 5)), own.targets), 3),
        "float32": (Dataset(*single, own.targets), 3),
    }


LIMITED = limited()


@cache
def bound(name):
    return upper_bound_certificate(*LIMITED[name]), LIMITED[name][0]


def fewer(made):
    """As many examples as the bound allows."""
    bound = made.values["bound"]
    contexts = made.values["contexts"]
    contexts = contexts if len(contexts) == 1 else contexts[:bound]
    return replaced(made, T=bound, contexts=contexts, queries=made.values["queries"][:bound])


def repeated(made):
    """The last example is the first one, with its tokens in another order."""
    contexts, queries = made.values["contexts"].copy(), made.values["queries"].copy()
    contexts[-1], queries[-1] = contexts[0, ::-1], queries[0]
    return replaced(made, contexts=contexts, queries=queries)


BOUNDS = Kind(
    IMPOSSIBLE,
    bound,
    tuple(LIMITED),
    INPUT_ARRAYS,
    ("n", "d", "T", "H"),
    "H = {H} heads rank Z <= {bound} on {T}",
    {
        "own": {
            "J too small": fewer,
            "more heads": values(H=4),
            "a bound too small": values(bound=14),
            "repeated": repeated,
            "base": values(base=MODULUS),
            "modulus": values(modulus=1 << 40),
        },
        "shared": {"J too small, shared": fewer},
        "subspace": {
            "vector": values(vectors=vector_changed),
            "pivot": values(pivots=[9] * 3),
            "data": entry("contexts", 1),
        },
        "constant": {
            "vector, constant": values(vectors=vector_changed),
            "no constant": values(zeros=1, bound=12),
            "one vector twice": values(vectors=lambda x: x * 2, pivots=lambda x: x * 2),
            "data, constant": entry("contexts", 1),
        },
        "words": {
            "data, words": entry("contexts", 1),
            "roots": values(roots=list(range(6))),
            "roots beyond": values(roots=[9] * 6),
            "word": values(words=lambda words: words[:-1]),
        },
    },
)  # fmt: skip

KINDS = {kind.theory.claim: kind for kind in (RANKS, ONTOS, ERRORS, RECITALS, BOUNDS)}
