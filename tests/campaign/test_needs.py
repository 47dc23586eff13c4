"""What the checker announces from shapes is not less than what it takes, nor far more; and time."""

import time
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from resources import certificate, examples, layer, rank
from triples import bound, claim, pack, spans

# T, n, d, H, d_h, d_v, d_o, d_out: each large in one way or two
SHAPES = [
    (3, 200, 150, 10, 3, 4, 22, 8),
    (4, 1, 3000, 2, 1, 1, 1, 1),
    (4, 60, 2, 20, 1, 1, 1, 1),
    (40, 3, 5, 20, 1, 1, 1, 1),
    (60, 8, 8, 10, 4, 3, 2, 3),
    (2, 2, 200, 3, 150, 1, 1, 1),
    (3, 2, 40, 20, 1, 40, 200, 30),
    (80, 2, 10, 9, 1, 1, 1, 1),
]
HEAVY = {SHAPES[0], SHAPES[2], SHAPES[3], SHAPES[4]}
CLAIMS = ["error", "rank", "grouping"]


def cases(slow, *values):
    """All combinations of a shape and these values; those which take seconds are slow."""
    return [
        pytest.param(shape, *others, marks=[pytest.mark.slow] * (shape in HEAVY and slow(*others)))
        for shape, *others in product(SHAPES, *values)
    ]


def made(shape, *, shared):
    total, size, width, heads, inner, value_dim, between, outputs = shape
    rng = np.random.default_rng(sum(shape))
    ones = layer(heads, width, inner, value_dim, between, outputs)
    weights = {name: 0.1 * rng.standard_normal(x.shape) for name, x in ones.items()}
    data = examples(total, size, width, outputs, shared=shared, rng=rng)
    return weights, data


def claims_of(name, shape):
    total, size, width, heads, *_ = shape
    rng = np.random.default_rng(0)
    ends = np.minimum(np.arange(heads + 1) * (total // heads + 1), total).tolist()
    groups = list(zip(ends[:-1], [*ends[1:-1], total], strict=True))
    normals = pack(np.ones((heads, width)))
    evidence = {"prime": 4194287, "groups": groups, "normals": normals}
    return {
        "error": bound("error", 1e300),
        "rank": rank(rng, total, heads * width),
        "grouping": claim("grouping", evidence, size, heads),
    }[name]


def announced(checker, claims, files):
    """Bytes for claims about a layer, from the shapes of its files."""
    layers, read = checker.layers, checker.files
    arrays = read.data_shapes(files[-1])
    tensors = read.weights_shapes(files[1], 8e9) if len(files) > 2 else {}
    known = {claim.name: claim for claim in checker.verify.CLAIMS[layers.Layer]}
    expected = layers.Expected(arrays, tensors)
    held, _ = expected.needs({name: known[name](claims[name]) for name in claims})
    return held + read.bytes_of(arrays) + read.bytes_of(tensors)


@pytest.mark.parametrize(
    ("shape", "name", "shared"),
    cases(lambda name, _: name == "error", CLAIMS, [False, True]),
    ids=str,
)
def test_memory_is_not_above_what_is_announced(checker, tmp_path, peak_of, name, shape, shared):
    weights, data = made(shape, shared=shared)
    claims = {name: claims_of(name, shape)}
    files = certificate(weights, data, claims).write(tmp_path)
    held = announced(checker, claims, files)
    peak = peak_of(lambda: checker.verify.check(files, most=held))
    assert peak <= held + 3e5


@pytest.mark.parametrize(("shape", "count"), cases(lambda *_: True, [5, 28]), ids=str)
def test_memory_for_more_digits_is_not_above_what_is_announced(checker, peak_of, shape, count):
    weights, data = made(shape, shared=False)
    held, _ = checker.error.digits_needed(shape[:3] + shape[7:] + shape[3:7], count)
    work = checker.error.Work(1e18)
    peak = peak_of(lambda: checker.error.residuals(weights, data, count, work))
    assert peak <= held + 3e5
    assert 10 * peak + 1e7 > held


@pytest.mark.parametrize(
    "shape",
    [
        *SHAPES,
        (60, 300, 300, 1, 1, 1, 1, 1),  # tokens of an example are more than what heads make of them
        (600, 2, 2, 10, 1, 1, 1, 5000),  # and outputs, of each head, far more than both
        pytest.param((250_000, 1, 1, 1, 1, 1, 1, 100), marks=pytest.mark.slow),  # many targets
        (300, 3, 4, 100, 1, 1, 1, 1),
    ],
    ids=str,
)
def test_memory_in_floats_is_not_above_what_is_announced(checker, peak_of, shape):
    weights, data = made(shape, shared=False)
    sizes, real = shape[:3] + shape[7:] + shape[3:7], checker.error
    held, _ = real.digits_needed(sizes, real.COUNTS[0])
    assert peak_of(lambda: real.in_floats(weights, data, checker.files.silent)) <= held + 3e5


# Upper bounds: T, n, d, whether one context is shared, and whether vectors are given.


def upper_bound(total, size, width, *, shared, vectors):
    """For one head, of small integers or of zeros: true, or refused at the end."""
    rng = np.random.default_rng(0)
    data = examples(total, size, width, shared=shared, rng=rng)
    data["contexts"] = np.zeros_like(data["contexts"]) if vectors else np.rint(data["contexts"])
    rows = np.triu(rng.integers(1 << 20, 1 << 21, (width, width))).tolist() if vectors else []
    evidence = spans(total, [list(map(hex, row)) for row in rows])
    tokens = len(np.unique(data["contexts"].reshape(-1, width), axis=0))
    bound = 0 if vectors else min(tokens, width)
    return {"impossible": claim("impossible", evidence, 1, bound, total)}, data


UPPER = [
    ((1000, 10, 10), False, False),
    ((10_000, 1, 10), False, False),
    ((1000, 100, 1), False, False),
    ((2, 1000, 2), False, False),
    ((100, 10, 100), False, False),
    ((20, 200, 150), False, False),
    ((40, 1, 3000), False, False),
    ((1000, 10, 10), False, True),
    ((10_000, 1, 10), False, True),
    ((1000, 100, 1), False, True),
    ((20, 200, 150), False, True),
    ((200, 150, 50), True, False),
    ((2000, 20, 10), True, True),
]
# What takes memory beside the rows of tokens.
BESIDE = {
    "queries of one shared context": ((100_000, 1, 20), True, False),
    "queries times tokens of one shared context": ((1500, 1500, 1), True, False),
    "a data type of many entries": ((2, 1, 60_000), False, False),
    "vectors": ((2, 1, 600), False, True),
}


@pytest.fixture
def peak_and_announced(checker, tmp_path, peak_of):
    def found(sizes, *, shared, vectors):
        claims, data = upper_bound(*sizes, shared=shared, vectors=vectors)
        files = certificate(None, data, claims).write(tmp_path)
        held = announced(checker, claims, files)
        return peak_of(lambda: checker.verify.check(files, most=max(held, 8e9))), held

    return found


@pytest.mark.parametrize(("sizes", "shared", "vectors"), UPPER, ids=str)
def test_memory_of_upper_bounds_is_announced(peak_and_announced, sizes, shared, vectors):
    peak, held = peak_and_announced(sizes, shared=shared, vectors=vectors)
    assert peak <= held + 3e5
    assert 10 * peak + 1e7 > held


@pytest.mark.parametrize(("sizes", "shared", "vectors"), BESIDE.values(), ids=BESIDE)
def test_memory_beside_that_of_tokens_is_announced(peak_and_announced, sizes, shared, vectors):
    peak, held = peak_and_announced(sizes, shared=shared, vectors=vectors)
    assert peak <= held + 3e5


# Time: an upper bound that is not refused takes no more than its share of a minute.


def demand(width, entries, vectors):
    """Tokens with these last entries, and vectors that are orthogonal to them."""
    contexts = np.zeros((len(entries), width))
    contexts[:, -1] = entries
    queries = np.arange(3.0)[:, None] * np.ones((1, width))
    return spans(3, vectors), {"contexts": contexts, "queries": queries}


def vectors_of(width, long, *, dense=False):
    fill = long if dense else "0"
    found = [["0"] * j + ["1"] + [fill] * (width - j - 2) + ["0"] for j in range(width - 1)]
    found[-1][width - 2] = long
    return found


DEMANDS = {
    "many tokens": (5, range(1, 2000), vectors_of(5, "f" * 5000)),
    "many vectors": (300, [1], vectors_of(300, "f" * 5000)),
    "long numbers": (8, [1], vectors_of(8, "f" * 50_000, dense=True)),
    "many scales": (2, [2.0**1000, 2.0**-1000], vectors_of(2, "f" * 25_000)),
}


@pytest.mark.parametrize(("width", "entries", "vectors"), DEMANDS.values(), ids=DEMANDS)
@pytest.mark.usefixtures("one_sieve")
def test_what_is_not_refused_does_not_take_long(checker, monkeypatch, width, entries, vectors):
    """With a hundredth of a minute."""
    monkeypatch.setattr(checker.capacity, "OPERATIONS", checker.capacity.OPERATIONS / 100)
    evidence, data = demand(width, entries, vectors)
    start = time.process_time()
    try:
        claim = checker.capacity.Impossible({"evidence": evidence})
        assert claim.check(SimpleNamespace(data=data)).numbers == (1, 1, 3)
    except ValueError as refused:
        assert "would take more than a minute" in str(refused)  # noqa: PT017 - it may be proved
    assert time.process_time() - start < 2
