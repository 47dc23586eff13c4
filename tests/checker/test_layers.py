"""Claims about one layer, function by function, against Python's integers and floats."""

import functools
import json
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from checker_parts import other_shapes, refused
from flint import fmpz

from constructive import checker as judge
from constructive import generators, upper_bound_certificate
from constructive.support.verdict import pack

pytestmark = pytest.mark.usefixtures("one_sieve")
PRIME = 4194287
DATA = {"contexts": (6, 3, 4), "queries": (6, 4), "targets": (6, 2)}
"""T = 6, n = 3, d = 4, d_out = 2."""
WEIGHTS = {"W_Q": (5, 4, 7), "W_K": (5, 4, 7), "W_V": (5, 4, 3), "W_O": (15, 8), "W_D": (8, 2)}
"""H = 5, d_h = 7, d_v = 3, d_o = 8."""
WRONG = "do not fit|other axes|out of range|examples with contexts|no W_V_corrections"


def described(shapes):
    """Types and shapes of data and of weights, as files say them."""
    data = {name: shape for name, shape in shapes.items() if name in DATA}
    weights = {name: shape for name, shape in shapes.items() if name not in DATA}
    kind = np.dtype("<f8")
    return {k: (kind, x) for k, x in data.items()}, {k: (kind, x, 0) for k, x in weights.items()}


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [
        ({}, (6, 3, 4, 2, 5, 7, 3, 8)),
        ({"contexts": (3, 4)}, (6, 3, 4, 2, 5, 7, 3, 8)),
        ({"targets": (6,), "W_D": (8, 1)}, (6, 3, 4, 1, 5, 7, 3, 8)),
        ({"W_V_corrections": (2, 5, 4, 3)}, (6, 3, 4, 2, 5, 7, 3, 8)),
        ({"W_V_corrections": (128, 5, 4, 3)}, (6, 3, 4, 2, 5, 7, 3, 8)),
        ({"W_V_corrections": (129, 5, 4, 3)}, "more than 128 corrections of W_V"),
    ],
)
def test_shapes_which_fit(checker, changes, sizes):
    with refused(sizes if isinstance(sizes, str) else None):
        assert checker.layers.sizes_of(*described(DATA | WEIGHTS | changes)) == sizes


def require_refused(function, shapes, *changes):
    for each in changes:
        with pytest.raises((ValueError, IndexError), match=WRONG):
            function(*described(shapes | each))


OTHER_N = [{"contexts": shape} for shape in ((3, 4), (6, 4), (6, 2, 4), (6, 4, 4))]


def test_shapes_which_do_not_fit(checker):
    """Any axis alone is another, but for n; data are refused without weights, too."""
    parts = {"W_V_corrections": (2, 5, 4, 3)}
    allowed = [*OTHER_N, *({"W_V_corrections": (size, 5, 4, 3)} for size in (1, 3))]
    several = {"contexts": (6, 3, 6), "queries": (6, 6, 6)}, {"W_Q": (5, 3, 7), "W_K": (5, 3, 7)}
    shapes, refuse = DATA | WEIGHTS | parts, checker.layers.sizes_of
    require_refused(refuse, shapes, *other_shapes(shapes, allowed), *several)
    allowed = [*OTHER_N, *({"targets": shape} for shape in ((6,), (6, 1), (6, 3)))]
    require_refused(refuse, DATA, *other_shapes(DATA, allowed), several[0])


# The rank of Z modulo p.


def layer_and_data(total=5):
    """A layer with 6 columns of Z, and so many examples."""
    rng = np.random.default_rng(0)
    data = {
        "contexts": rng.standard_normal((total, 2, 3)),
        "queries": rng.standard_normal((total, 3)),
    }
    return {name: rng.standard_normal((2, 3, 2)) for name in ("W_Q", "W_K", "W_V")}, data


def judged(checker, claim, evidence, weights, data, *, quick=False, **more):
    """What a claim with this evidence states of weights and data, by examples one by one."""
    heads, width, _ = weights["W_Q"].shape
    shapes = {"W_V": (heads, width, 1), "W_O": (heads, 1), "W_D": (1, 1)}
    both = {name: weights.get(name, weights["W_Q"]) for name in ("W_Q", "W_K")}
    weights = both | {name: np.zeros(shape) for name, shape in shapes.items()}
    targets = {"targets": np.zeros(len(data["queries"]))}
    ordered = {name: (data | targets)[name] for name in ("contexts", "queries", "targets")}
    about = judge.layer(weights, ordered, **more)
    about.quick, about.solves = quick, not quick
    found = claim({"evidence": evidence}).check(about)
    return found.numbers if isinstance(found, checker.claim.Shown) else found


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(
    ("value", "columns", "words"),
    [
        *((value, range(5), "a is not between 1 and p")
          for value in (0, 1, -3, PRIME, PRIME + 5, 5.0, True, "7", None)),
        (5, [0, 1, 2, 3, 3], "a column of Z is named twice"),
        (5, [0, 1, 2, 3, 6], "packed integers misfit"),  # of 2 heads in 3 dimensions
        (5, range(5), "the solution modulo p is wrong"),
    ],
)  # fmt: skip
def test_points_at_which_no_rank_is_shown(checker, value, columns, words, quick):
    solution = pack(np.zeros((5, 12), dtype=np.int64))
    evidence = {"prime": PRIME, "value": value, "columns": pack(columns), "solution": solution}
    with refused(words if quick or "solution" not in words else None):
        judged(checker, checker.rank.Rank, evidence, *layer_and_data(), quick=quick, hashes=b"")


# Groups.


def grouping(groups, normals):
    return {"prime": PRIME, "groups": groups, "normals": pack(np.array(normals))}


def grouped(checker, contexts, queries, evidence):
    """What is stated of a layer of as many heads as there are groups, or as `heads` says."""
    heads = evidence.get("heads", len(evidence["groups"]))
    data = {"contexts": np.array(contexts), "queries": np.array(queries, dtype=float)}
    weights = {"W_Q": np.ones((heads, data["queries"].shape[1], 1))}
    return judged(checker, checker.rank.Grouping, evidence, weights, data)


def test_groups_are_those_which_the_theorem_takes(checker):
    """Contexts of one token: one example for each head, whatever else the queries would allow."""
    queries = [[0, 1, 0], [1, 0, 0], [1, 0, 1]]
    one, two = np.ones((3, 1, 3)), [np.eye(3)[:2]] * 3
    first = (1, 0, 0), (0, 1, 0)
    assert grouped(checker, one[:2], queries[:2], grouping([[0, 1], [1, 2]], first)) == (1, 2)
    other = (1, 0, 0), (1, 1, PRIME - 1)
    assert grouped(checker, two, queries, grouping([[0, 2], [2, 3]], other)) == (2, 2)
    for contexts, groups in (
        (one, [[0, 1], [1, 3]]), (one, [[0, 2], [2, 3]]), (two, [[0, 1], [1, 3]]),
        (two, [[0, 2], [1, 3]]), (two, [[0, 1], [2, 3]]), (two, [[1, 2], [2, 3]]),
        (two, [[0, 1], [1, 2]]), (two, [[0, 2]]),
    ):  # fmt: skip
        evidence = grouping(groups, first[: len(groups)]) | {"heads": 2}
        with refused("partition"):
            grouped(checker, contexts, queries, evidence)
    with refused("not integers"):
        grouped(checker, two, queries, grouping([[0, 2], [2, 3.0]], other))


def test_what_groups_have_to_be(checker):
    """Every context of full rank, every group independent, and the only one on its normal."""
    contexts = np.stack([np.eye(3)] * 4)
    queries = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]])
    groups, normals = [[0, 2], [2, 2], [2, 4]], [[0, 0, 1], [0, 0, 0], [1, PRIME - 1, 0]]
    evidence = grouping(groups, normals)
    assert grouped(checker, contexts, queries, evidence) == (3, 3)
    deficient = [contexts.copy() for _ in range(4)]
    for place, spoilt in enumerate(deficient):
        spoilt[place, 2] = spoilt[place, 0] + spoilt[place, 1]
    for spoilt in deficient:
        with refused("is not shown to have rank n"):
            grouped(checker, spoilt, queries, evidence)
    with refused("more tokens than dimensions"):
        grouped(checker, np.ones((4, 4, 3)), queries, evidence)
    with refused("group 2 is dependent"):
        grouped(checker, contexts, [*queries[:3], -2 * queries[2]], evidence)
    for normal in ([0, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]):
        with refused("outside of the span of group 2"):
            grouped(checker, contexts, queries, grouping(groups, [*normals[:2], normal]))


def test_more_queries_than_dimensions_are_dependent(checker):
    evidence = grouping([[0, 4], [4, 7]], [[0] * 3, [0] * 3])
    queries = [*np.eye(3), [1, 1, 1], *np.eye(3)]
    with refused("partition|group 0 is dependent"):
        grouped(checker, [np.eye(3)] * 7, queries, evidence)


# Upper bounds.


def impossible(checker, contexts, queries, vectors=(), pivots=(), zeros=0, **more):
    """(H, bound, different examples) by vectors of integers; of all examples and one head."""
    count = len(queries)
    evidence = {
        "heads": 1, "count": count, "examples": pack(range(count)), "pivots": list(pivots),
        "vectors": [[hex(x) for x in vector] for vector in vectors], "zeros": zeros,
    }  # fmt: skip
    data = {"contexts": np.asarray(contexts), "queries": queries}
    return (
        checker.capacity.Impossible({"evidence": evidence | more})
        .check(SimpleNamespace(data=data))
        .numbers
    )


def many_queries(total, width):
    return np.arange(total * width, dtype=float).reshape(total, width)


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-60, 1.0, 2.0**500])
@pytest.mark.parametrize("order", [None, [[0, 1, 2]] * 9, [[0, 1, 1, 0]] * 8 + [[2, 2, 1, 0]]])
def test_vectors_at_every_scale(checker, scale, order):
    """x_0 + x_1 2^-30 is the same for all tokens, in numbers as long as they need."""
    tokens = np.array([[1.0, 0.0], [0.5, 2.0**29], [-1.0, 2.0**31]]) * scale
    contexts, vector = tokens if order is None else tokens[order], (2**30, 1)
    of = functools.partial(impossible, checker, contexts, many_queries(9, 2))
    for heads, factor in ((1, 1), (3, -5), (6, 2**4000), (7, 1)):
        assert of([[factor * x for x in vector]], [0], heads=heads) == (heads, heads + 1, 9)
    with refused("9 different examples, and 9 are possible"):
        of([vector], [1], heads=8)
    for x in ((2**30 + 1, 1), (2**30, 2), (2**4030, 2**4000 - 1), (1, 0), (0, -1)):
        with refused("not constant within a context"):
            of([x], [x.index(max(x, key=abs))])
    with refused("not orthogonal to a token"):
        of([vector], [0], zeros=1)


def test_moduli_are_all_primes_between_2_21_and_2_22(checker):
    moduli = checker.capacity.primes()
    assert len(moduli) == 295947 - 155611  # pi(2^22) - pi(2^21)
    assert (np.diff(moduli) > 0).all()
    assert (moduli[0], moduli[-1]) == (2097169, 4194301)
    assert all(fmpz(p).is_prime() for p in moduli[::997].tolist())


@pytest.mark.parametrize(
    ("tokens", "bits"),
    [
        ([[1.0]], 53),
        ([[0.75, -0.5]], 53),
        ([[0.0, 1.0], [0.0, 0.0]], 53),
        ([[0.0]], 53),
        ([[0.0, 2.0**-100]], 53),
        ([[0.0, 2.0**100]], 53),
        ([[1.0, 0.5]], 54),
        ([[-(2.0**-1074), 3.0]], 53 + 1075),
        ([[2.0**900, -(2.0**-1000)]], 53 + 1900),
        ([[1.7e308, 5e-324]], 53 + 2097),
    ],
)
def test_how_long_tokens_are_as_integers(checker, tokens, bits):
    tokens = np.array(tokens)
    assert checker.capacity.reach(tokens) == bits
    used = np.abs(tokens[tokens != 0])
    unit = Fraction(2) ** (int(np.frexp(used.min(initial=1e308))[1]) - 53)
    whole = [Fraction(x) / unit for x in used.tolist()]
    assert all(x.denominator == 1 and x < 2**bits for x in whole)


def parts_of(ids, total):
    """Into how many parts contexts join tokens, one by one."""
    label = list(range(total))
    for context in ids.tolist():
        joined = {label[i] for i in context}
        label = [min(joined) if x in joined else x for x in label]
    return len(set(label))


def test_tokens_are_joined_by_contexts(checker):
    rng, of = np.random.default_rng(0), checker.capacity.components
    for _ in range(300):
        total, size = rng.integers(1, 30), rng.integers(1, 4)
        ids = rng.integers(0, total, (rng.integers(1, 20), size))
        assert of(ids, int(total)) == parts_of(ids, total)
    for order in (np.arange(50), np.arange(50)[::-1], np.r_[0, 49:0:-1], rng.permutation(50)):
        path = np.stack([order[:-1], order[1:]], axis=1)
        pieces = path, np.delete(path, [7, 30], axis=0), order[None], order[:, None]
        assert [of(each, 50) for each in pieces] == [1, 3, 1, 50]


def test_different_rows_are_told_apart(checker):
    rows = np.array([[1.0, 0.0], [1.0, -0.0], [1.0, 5e-324], [1 + 2.0**-52, 0.0], [1.0, 0.0]])
    found, ids = checker.capacity.different(rows)
    assert found[ids].tolist() == rows.tolist()
    assert (ids == [0, 0, 1, 2, 0]).all()
    assert not np.signbit(found).any()
    single = np.array([[np.float32(0.1)], [np.float32(1e-45)]], dtype=np.float32)
    assert checker.capacity.different(single)[0].dtype == np.float64


def test_different_examples_are_counted(checker):
    """By their queries and the multisets of their tokens; one token is twice in one of them."""
    order = [[0, 1, 2], [2, 0, 1], [0, 0, 1], [0, 1, 1], [0, 1, 2], [1, 0, 0], [0, 0, 0]]
    contexts, queries = np.eye(3)[order], np.ones((7, 3))
    queries[4, 2] = 1 + 2.0**-52
    with refused("5 different examples, and 5 are possible"):
        impossible(checker, contexts, queries, heads=2)
    assert impossible(checker, contexts, queries) == (1, 3, 5)
    assert impossible(checker, contexts, np.ones((7, 3))) == (1, 3, 4)
    with refused("2 different examples, and 3 are possible"):
        impossible(checker, np.eye(3), queries)
    assert impossible(checker, [[[1.0]], [[2.0]]], np.ones((2, 1))) == (1, 1, 2)


def test_residues_of_one_number_may_differ_by_a_prime(checker, monkeypatch):
    """Balanced ones are not unique; `times` gives either, by the number of its terms."""
    original, rng = checker.capacity.times, np.random.default_rng(0)

    def times(a, b, p):
        products = original(a, b, p)
        return products + p * rng.integers(-1, 2, products.shape)

    monkeypatch.setattr(checker.capacity, "times", times)
    tokens = np.array([[3.0, 1.0, 1.0], [5.0, -1.0, -1.0], [-7.0, 2.0, 2.0], [0.0, 4.0, 4.0]])
    order, vectors = [[0, 1], [1, 2], [3, 0]] * 3, ([(0, 1, -1), (1, 0, 0)], [1, 0], 1)
    with refused("not constant within a context"):
        impossible(checker, tokens[order], many_queries(9, 3), *vectors)
    tokens[:, 0] = -11.0
    found = impossible(checker, tokens[order], many_queries(9, 3), *vectors, heads=2)
    assert found == (2, 2 + 1, 9)


@pytest.mark.parametrize(("left", "words"), [(56, "not orthogonal"), (55, "more than a minute")])
def test_numbers_are_not_longer_than_all_primes_together(checker, as_if, left, words):
    """As if a minute were longer: 2^21 bits of vectors take more of it than there is."""
    as_if("capacity", OPERATIONS=math.inf)
    vector = 0, 1 << 21 * 140336 - left - 1
    with refused(words):
        impossible(checker, [[0.0, 1.0]], many_queries(3, 2), [vector], [1], 1)


# Pairs.

PAIRS = {
    "contexts": (30, 4, 5), "queries": (30, 5), "targets": (30, 2),
    "W_Q": (6, 5, 3), "W_K": (6, 5, 3), "W_V": (6, 5, 2), "W_O": (12, 2), "W_D": (2, 2),
}  # fmt: skip


def test_pairs_which_do_not_fit(checker):
    require_refused(
        checker.paired.needs,
        PAIRS,
        *other_shapes(PAIRS, [{"contexts": (30, size, 5)} for size in (3, 5)]),
        {"contexts": (30, 1, 5)},
        {"targets": (30, 3), "W_D": (2, 3)},
        {"W_Q": (6, 4, 3), "W_K": (6, 4, 3)},
        {"W_V_corrections": (1, 6, 5, 2)},
    )


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({}, None),
        ({"heads": 2}, None),
        ({"heads": 1}, "no pair of heads"),
        ({"width": 1025}, "more than 1024 entries"),
        ({"total": (1 << 22) + 1}, "sums of more than"),
        ({"size": (1 << 22) + 1}, "sums of more than"),
        ({"heads": 1 << 20}, "sums of more than"),
    ],
)
def test_pairs_which_are_too_few_or_too_large(checker, sizes, words):
    total, size, width, heads = (
        {"total": 30, "size": 4, "width": 5, "heads": 6} | sizes
    ).values()  # fmt: skip
    each = dict.fromkeys(("W_Q", "W_K", "W_V"), (heads, width, 1))
    data = {"contexts": (total, size, width), "queries": (total, width), "targets": (total, 1)}
    with refused(words):
        checker.paired.needs(*described(data | each | {"W_O": (heads, 1), "W_D": (1, 1)}))


# What is asked of whom.


def test_who_takes_weights_and_who_does_not(checker, tmp_path, proved):
    shared = generators.shared_context(num_examples=8, context_size=3, width=5)
    upper_bound_certificate(shared, num_heads=3).save(tmp_path / "upper.json")
    shared.save(tmp_path / "shared.npz")
    upper, data = str(tmp_path / "upper.json"), str(tmp_path / "shared.npz")
    certificate, weights, own = (
        str(proved[3] / name) for name in ("certificate.json", "weights.safetensors", "data.npz")
    )
    assert list(checker.check([upper, data])) == ["impossible"]
    with pytest.raises(ValueError, match="about all weights, and takes none"):
        checker.check([upper, weights, data])
    with pytest.raises(ValueError, match="about weights, which are not given"):
        checker.check([certificate, own])
    content = json.loads((tmp_path / "upper.json").read_text())
    claims = json.loads((proved[3] / "certificate.json").read_text())["claims"]
    for name in ("rank", "error", "grouping"):
        forged = content | {"claims": {name: claims[name]}}
        (tmp_path / "forged.json").write_text(json.dumps(forged))
        with pytest.raises(ValueError, match=f"{name} is about weights"):
            checker.check([str(tmp_path / "forged.json"), data])
