"""Claims about one layer, function by function, against Python's integers and floats."""

import functools
import json
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from flint import fmpz

from constructive import generators, upper_bound_certificate
from constructive.support.verdict import pack

F64 = np.dtype("<f8")
PRIME = 4194287


def arrays_of(**changes):
    """T = 6, n = 3, d = 4, d_out = 2."""
    shapes = {"contexts": (6, 3, 4), "queries": (6, 4), "targets": (6, 2)} | changes
    return {name: (F64, shape) for name, shape in shapes.items()}


def tensors_of(**changes):
    """H = 5, d_h = 7, d_v = 3, d_o = 8."""
    shapes = {
        "W_Q": (5, 4, 7), "W_K": (5, 4, 7), "W_V": (5, 4, 3), "W_O": (15, 8), "W_D": (8, 2),
    }  # fmt: skip
    return {name: (F64, shape, 0) for name, shape in (shapes | changes).items()}


@pytest.mark.parametrize(
    ("data", "weights", "sizes"),
    [
        ({}, {}, (6, 3, 4, 2, 5, 7, 3, 8)),
        ({"contexts": (3, 4)}, {}, (6, 3, 4, 2, 5, 7, 3, 8)),
        ({"targets": (6,)}, {"W_D": (8, 1)}, (6, 3, 4, 1, 5, 7, 3, 8)),
        ({}, {"W_V_corrections": (2, 5, 4, 3)}, (6, 3, 4, 2, 5, 7, 3, 8)),
    ],
)
def test_shapes_which_fit(checker, data, weights, sizes):
    assert checker.layers.sizes_of(arrays_of(**data), tensors_of(**weights)) == sizes


@pytest.mark.parametrize(("parts", "fits"), [(1, True), (128, True), (129, False)])
def test_so_many_corrections_are_read(checker, parts, fits):
    tensors = tensors_of(
        W_Q=(200, 4, 1), W_K=(200, 4, 1), W_V=(200, 4, 1), W_O=(200, 8), W_D=(8, 2),
        W_V_corrections=(parts, 200, 4, 1),
    )  # fmt: skip
    if fits:
        assert checker.layers.sizes_of(arrays_of(), tensors)[4] == 200
        return
    with pytest.raises(ValueError, match="more than 128 corrections of W_V"):
        checker.layers.sizes_of(arrays_of(), tensors)


@pytest.mark.parametrize(
    "data",
    [
        {"contexts": (5, 3, 4)},
        {"contexts": (6, 3, 5)},
        {"contexts": (3, 5)},
        {"contexts": (4,)},
        {"contexts": (1, 6, 3, 4)},
        {"queries": (5, 4)},
        {"queries": (4,)},
        {"queries": (6, 4, 4)},
        {"contexts": (6, 3, 6), "queries": (6, 6, 6)},
        {"targets": (5, 2)},
        {"targets": ()},
        {"targets": (6, 2, 1)},
    ],
)
def test_data_which_do_not_fit_together(checker, data):
    for weights in ({}, tensors_of()):
        with pytest.raises((ValueError, IndexError), match=r"do not fit together|out of range"):
            checker.layers.sizes_of(arrays_of(**data), weights)


@pytest.mark.parametrize(
    "weights",
    [
        {"W_Q": (5, 4)},
        {"W_Q": (5, 4, 7, 1)},
        {"W_Q": (6, 4, 7)},
        {"W_K": (5, 4, 6)},
        {"W_Q": (5, 3, 7), "W_K": (5, 3, 7)},
        {"W_V": (5, 4)},
        {"W_V": (4, 4, 3)},
        {"W_V": (5, 3, 3)},
        {"W_V": (5, 4, 4)},
        {"W_O": (15,)},
        {"W_O": (14, 8)},
        {"W_O": (3, 8)},
        {"W_D": (8,)},
        {"W_D": (7, 2)},
        {"W_D": (8, 3)},
        {"W_V_corrections": (5, 4, 3)},
        {"W_V_corrections": (2, 5, 4, 2)},
    ],
)
def test_weights_which_do_not_fit(checker, weights):
    with pytest.raises(ValueError, match=r"do not fit together|have other axes"):
        checker.layers.sizes_of(arrays_of(), tensors_of(**weights))


# Z modulo p.


def intermediate_mod(weights, data, p, a):
    """Z(a) by Python's integers: of integer arrays, times powers of two that are taken off."""
    total = len(data["queries"])
    rows = []
    for t in range(total):
        tokens = data["contexts"][t] if data["contexts"].ndim == 3 else data["contexts"]
        row = []
        for w_q, w_k in zip(weights["W_Q"], weights["W_K"], strict=True):
            logits = tokens @ w_k @ (w_q.T @ data["queries"][t])
            powers = [pow(a, int(logit) % (p - 1), p) for logit in logits]
            inverse = pow(sum(powers), -1, p)
            row += [sum(map(int.__mul__, powers, map(int, col))) * inverse % p for col in tokens.T]
        rows.append(row)
    return rows


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("chunk", "total"), [(1, 7), (1, 2), (30, 7), (1 << 18, 7)])
def test_the_representation_modulo_p(checker, monkeypatch, shared, chunk, total):
    """Integers with one odd entry of exponent 1, so that the power of two taken off is 2^-52."""
    monkeypatch.setattr(checker.rank, "CHUNK", chunk)
    rng = np.random.default_rng(chunk)
    size, width, heads, inner = 3, 4, 5, 2
    draw = lambda *shape: rng.integers(-9, 10, size=shape).astype(object)  # noqa: E731
    weights = {"W_Q": draw(heads, width, inner), "W_K": draw(heads, width, inner)}
    contexts = draw(size, width) if shared else draw(total, size, width)
    data = {"contexts": contexts, "queries": draw(total, width)}
    for x in (*weights.values(), *data.values()):
        x.flat[0] = 1  # the smallest entry in size
    # Residues are of x 2^52: four factors make a^(2^208), which is put in the place of a here.
    a = 12345
    point = pow(a, pow(2, 4 * 52, PRIME - 1), PRIME)
    truth = intermediate_mod(weights, data, PRIME, point)
    columns = np.array([0, 19, 7, 8, 3, 12])
    floats = [{name: x.astype(float) for name, x in part.items()} for part in (weights, data)]
    view = checker.rank.examples(*floats)
    wanted = np.arange(total), (PRIME, a), columns
    z = checker.residues.representation(floats[0], view, *wanted)
    unit = pow(2, 52, PRIME)
    for found, row in zip(z, truth, strict=True):
        assert [int(v) % PRIME for v in found] == [row[j] * unit % PRIME for j in columns]


def layer_and_data(rank_deficient, total=5):
    rng = np.random.default_rng(0)
    data = {
        "contexts": rng.standard_normal((total, 2, 3)),
        "queries": rng.standard_normal((total, 3)),
    }
    if rank_deficient:
        data["contexts"][4], data["queries"][4] = data["contexts"][1], data["queries"][1]
    weights = {name: rng.standard_normal((2, 3, 2)) for name in ("W_Q", "W_K", "W_V")}
    return weights, data


def test_what_looks_singular(checker):
    for total in (5, 6):  # of 6 columns
        layer = layer_and_data(rank_deficient=False, total=total)
        assert not checker.rank.looks_singular(*layer)
    assert checker.rank.looks_singular(*layer_and_data(rank_deficient=True))
    weights, data = layer_and_data(rank_deficient=False)
    weights = {name: x[:1] for name, x in weights.items()}  # 3 columns for 5 examples
    assert checker.rank.looks_singular(weights, data)


# Groups.


def grouping(groups, normals=((1, 0, 0), (0, 1, 0))):
    return {"prime": PRIME, "groups": groups, "normals": pack(np.array(normals))}


def judged(checker, claim, evidence, weights, data, **more):
    """What a claim with this evidence states of weights and data, by examples one by one."""
    about = SimpleNamespace(weights=weights, data=data, tell=checker.steps.silent, **more)
    every = np.arange(len(data["queries"])), weights["W_Q"].shape[0] * data["queries"].shape[1]
    about.rows_of_z = lambda: (checker.rank.examples(weights, data), *every)
    return claim({"evidence": evidence}).check(about)


def test_groups_are_those_which_the_theorem_takes(checker):
    """Contexts of one token: one example for each head, whatever else the queries would allow."""
    queries = np.array([[0.0, 1, 0], [1, 0, 0], [1, 0, 1]])
    weights = {"W_Q": np.ones((2, 3, 1))}
    one = {"contexts": np.ones((3, 1, 3)), "queries": queries}
    two = {"contexts": np.stack([np.eye(3)[:2]] * 3), "queries": queries}
    of = functools.partial(judged, checker, checker.grouping.Grouping)
    assert of(grouping([[0, 1], [1, 2]]), weights, {k: v[:2] for k, v in one.items()}) == (1, 2)
    assert of(grouping([[0, 2], [2, 3]], ((1, 0, 0), (1, 1, PRIME - 1))), weights, two) == (2, 2)
    for data, groups in (
        (one, [[0, 1], [1, 3]]),
        (one, [[0, 2], [2, 3]]),
        (two, [[0, 1], [1, 3]]),
        (two, [[0, 2], [1, 3]]),
        (two, [[0, 1], [2, 3]]),
        (two, [[1, 2], [2, 3]]),
        (two, [[0, 1], [1, 2]]),
        (two, [[0, 2]]),
    ):
        normals = ((1, 0, 0), (0, 1, 0))[: len(groups)]
        with pytest.raises(ValueError, match="partition"):
            of(grouping(groups, normals), weights, data)


def test_what_groups_have_to_be(checker):
    """Every context of full rank, every group independent, and the only one on its normal."""
    of = functools.partial(judged, checker, checker.grouping.Grouping)
    weights = {"W_Q": np.ones((3, 3, 1))}
    contexts = np.stack([np.eye(3)] * 4)
    queries = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]])
    groups, normals = [[0, 2], [2, 2], [2, 4]], [[0, 0, 1], [0, 0, 0], [1, PRIME - 1, 0]]
    data = {"contexts": contexts, "queries": queries}
    assert of(grouping(groups, normals), weights, data) == (3, 3)
    for place in range(4):
        spoilt = contexts.copy()
        spoilt[place, 2] = spoilt[place, 0] + spoilt[place, 1]
        with pytest.raises(ValueError, match="a context is not shown to have rank n"):
            of(grouping(groups, normals), weights, data | {"contexts": spoilt})
    with pytest.raises(ValueError, match="a context is not shown to have rank n"):
        of(grouping(groups, normals), weights, data | {"contexts": np.ones((4, 4, 3))})
    dependent = queries.copy()
    dependent[3] = -2 * dependent[2]
    with pytest.raises(ValueError, match="group 2 is dependent"):
        of(grouping(groups, normals), weights, data | {"queries": dependent})
    for normal in ([0, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]):
        with pytest.raises(ValueError, match="outside of the span of group 2"):
            of(grouping(groups, [*normals[:2], normal]), weights, data)


def wide(groups, order, normals):
    return grouping(groups, normals) | {"order": pack(np.array(order))}


FIVE = {  # two directions of differences in each context, three of tokens
    "contexts": np.stack(
        [np.eye(4)[:3], np.eye(4)[1:], np.eye(4)[:3], np.eye(4)[1:], np.eye(4)[:3]]
    ),
    "queries": np.array([[0.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [1, 0, 1, 0], [0, 0, 0, 1]]),
}


def test_what_wide_groups_have_to_be(checker):
    """Independent in an order, not those that span an earlier query, and contexts as wide."""
    of = functools.partial(judged, checker, checker.grouping.WideGrouping)
    weights = {"W_Q": np.ones((3, 4, 1))}
    evidence = wide([[0, 3], [3, 3], [3, 5]], [4, 2, 0, 3, 1], [[0] * 4, [0] * 4, [0, 1, 0, 1]])
    data = dict(FIVE)
    with pytest.raises(ValueError, match="outside of the span of group 2"):
        of(evidence, weights, data)  # 2 is in the span of 1 and 3
    first = evidence | {"order": pack(np.array([4, 2, 3, 0, 1]))}
    with pytest.raises(ValueError, match="outside of the span of group 2"):
        of(first, weights, data)  # normals are of another group
    normals = pack(np.array([[0] * 4, [0] * 4, [0, 0, 1, 1]]))
    assert of(first | {"normals": normals}, weights, data) == (3,)
    later = {"order": pack(np.array([0, 2, 3, 4, 1])), "normals": normals}
    with pytest.raises(ValueError, match="outside of the span of group 2"):
        of(first | later, weights, data)  # 4 is not on it
    dependent = data["queries"].copy()
    dependent[0] = -3 * dependent[1]
    with pytest.raises(ValueError, match="group 2 is dependent"):
        of(first | {"normals": normals}, weights, data | {"queries": dependent})
    for order in ([4, 2, 3, 0, 0], [4, 2, 3, 0, 5]):
        with pytest.raises(ValueError, match=r"permutation|misfit"):
            of(first | {"normals": normals, "order": pack(np.array(order))}, weights, data)
    for groups in ([[0, 3], [3, 5]], [[0, 3], [3, 2], [2, 5]], [[0, 2], [3, 3], [3, 5]]):
        with pytest.raises(ValueError, match=r"partition|misfit"):
            of(first | {"normals": normals, "groups": groups}, weights, data)


def test_contexts_of_a_group_are_as_wide_as_it_is_large(checker):
    """Differences count, and tokens in the first group only, which may be empty."""
    of = functools.partial(judged, checker, checker.grouping.WideGrouping)
    weights = {"W_Q": np.ones((2, 4, 1))}
    queries = np.eye(4)
    one = np.stack([np.eye(4)[:2]] * 4)  # one direction, and two dimensions of tokens
    two = np.stack([np.eye(4)[:3]] * 4)
    normals = [[0] * 4, [1] * 2 + [0] * 2]
    for contexts, groups, proved in (
        (two, [[0, 2], [2, 4]], True),
        (two[0], [[0, 2], [2, 4]], True),  # a shared one
        (two, [[0, 3], [3, 4]], True),
        (two, [[0, 4], [4, 4]], False),
        (two, [[0, 0], [0, 4]], False),
        (one, [[0, 2], [2, 4]], False),
        (one, [[0, 3], [3, 4]], False),
        (one[:3], [[0, 2], [2, 3]], True),
        (one[:3], [[0, 0], [0, 3]], False),
        (one[:2], [[0, 0], [0, 2]], False),  # the first one is empty
        (two[:2], [[0, 0], [0, 2]], True),
        (one[:2], [[0, 1], [1, 2]], True),
        (np.repeat(one[:, :1], 2, axis=1)[:2], [[0, 1], [1, 2]], False),  # no direction
        (np.repeat(one[:, :1], 2, axis=1)[:1], [[0, 1], [1, 1]], True),
        (0 * one[:1], [[0, 1], [1, 1]], False),
    ):
        total = groups[-1][1]
        start = groups[1][0]
        normal = [int(k < start) for k in range(4)]
        evidence = wide(groups, range(total), [normals[0], normal])
        data = {"contexts": contexts, "queries": queries[:total]}
        if proved:
            assert of(evidence, weights, data) == (2,)
        else:
            with pytest.raises(ValueError, match="not shown to be wide"):
                of(evidence, weights, data)
    many = {"contexts": np.stack([np.eye(4)] * 5), "queries": np.vstack([queries, queries[:1] + 1])}
    with pytest.raises(ValueError, match="group 0 is dependent"):
        of(wide([[0, 5], [5, 5]], range(5), [[0] * 4] * 2), weights, many)


def point(value):
    return {
        "prime": PRIME,
        "value": value,
        "columns": pack(np.arange(5)),
        "solution": pack(np.zeros((5, 12), dtype=np.int64)),
    }


@pytest.mark.parametrize("value", [0, 1, -3, PRIME, PRIME + 5, 5.0, True, "7", None])
@pytest.mark.parametrize("quick", [False, True])
def test_points_which_are_none(checker, value, quick):
    weights, data = layer_and_data(rank_deficient=False)
    with pytest.raises(ValueError, match="a is not between 1 and p"):
        judged(checker, checker.rank.Rank, point(value), weights, data, quick=quick, hashes=b"")


@pytest.mark.parametrize("quick", [False, True])
def test_points_at_which_nothing_is_shown(checker, quick):
    weights, data = layer_and_data(rank_deficient=False)
    evidence = point(5)
    match = "the solution modulo p is wrong" if quick else "twice"
    evidence["columns"] = evidence["columns"] if quick else pack(np.array([0, 1, 2, 3, 3]))
    with pytest.raises(ValueError, match=match):
        judged(checker, checker.rank.Rank, evidence, weights, data, quick=quick, hashes=b"")
    evidence["columns"] = pack(np.array([0, 1, 2, 3, 6]))  # of 2 heads in 3 dimensions
    with pytest.raises(ValueError, match="packed integers misfit"):
        judged(checker, checker.rank.Rank, evidence, weights, data, quick=quick, hashes=b"")


# Upper bounds.


def evidence_of(count, vectors=(), pivots=(), zeros=0, heads=1):
    """The first examples, and vectors of integers."""
    return {
        "heads": heads,
        "count": count,
        "examples": pack(np.arange(count)),
        "vectors": [[hex(x) for x in vector] for vector in vectors],
        "pivots": list(pivots),
        "zeros": zeros,
    }


def many_queries(total, width):
    return np.arange(total * width, dtype=float).reshape(total, width)


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-60, 1.0, 2.0**500])
@pytest.mark.parametrize("order", [None, [[0, 1, 2]] * 9, [[0, 1, 1, 0]] * 8 + [[2, 2, 1, 0]]])
def test_vectors_at_every_scale(checker, scale, order):
    """x_0 + x_1 2^-30 is the same for all tokens, in numbers as long as they need."""
    tokens = np.array([[1.0, 0.0], [0.5, 2.0**29], [-1.0, 2.0**31]]) * scale
    data = {"contexts": tokens if order is None else tokens[order], "queries": many_queries(9, 2)}
    vector, of = (2**30, 1), checker.impossible.check_impossible
    for heads, factor in ((1, 1), (3, -5), (6, 2**4000), (7, 1)):
        x = [factor * x for x in vector]
        assert of(evidence_of(9, [x], [0], heads=heads), data) == (heads, heads + 1, 9)
    with pytest.raises(ValueError, match="9 different examples, and 9 are possible"):
        of(evidence_of(9, [vector], [1], heads=8), data)
    for x in ((2**30 + 1, 1), (2**30, 2), (2**4030, 2**4000 - 1), (1, 0), (0, -1)):
        with pytest.raises(ValueError, match="not constant within a context"):
            of(evidence_of(9, [x], [x.index(max(x, key=abs))]), data)
    with pytest.raises(ValueError, match="not orthogonal to a token"):
        of(evidence_of(9, [vector], [0], zeros=1), data)


def test_moduli_are_all_primes_between_2_21_and_2_22(checker):
    moduli = checker.impossible.primes()
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
    assert checker.impossible.reach(tokens) == bits
    used = np.abs(tokens[tokens != 0])
    unit = Fraction(2) ** (int(np.frexp(used.min(initial=1e308))[1]) - 53)
    whole = [Fraction(x) / unit for x in used.tolist()]
    assert all(x.denominator == 1 and x < 2**bits for x in whole)


def test_only_the_examples_which_are_named_are_looked_at(checker):
    tokens = np.ones((9, 2, 3))
    tokens[[2, 5]] = np.arange(12).reshape(2, 2, 3)
    data = {"contexts": tokens, "queries": many_queries(9, 3)}
    rows = np.array([0, 1, 3, 4, 6, 7, 8])
    vectors = (1, 0, -1), (0, 1, -1), (0, 0, 1)
    evidence = evidence_of(7, vectors, [0, 1, 2], 2) | {"examples": pack(rows)}
    assert checker.impossible.check_impossible(evidence, data) == (1, 1, 7)
    for row, other in ((0, 2), (6, 5)):
        chosen = np.sort(np.where(rows == rows[row], other, rows))
        evidence["examples"] = pack(chosen)
        with pytest.raises(ValueError, match="not orthogonal to a token"):
            checker.impossible.check_impossible(evidence, data)


def parts_of(ids, total):
    """Into how many parts contexts join tokens, one by one."""
    label = list(range(total))
    for context in ids.tolist():
        joined = {label[i] for i in context}
        label = [min(joined) if x in joined else x for x in label]
    return len(set(label))


def test_tokens_are_joined_by_contexts(checker):
    rng = np.random.default_rng(0)
    for _ in range(300):
        total, size = rng.integers(1, 30), rng.integers(1, 4)
        ids = rng.integers(0, total, (rng.integers(1, 20), size))
        assert checker.impossible.components(ids, int(total)) == parts_of(ids, total)
    for order in (np.arange(50), np.arange(50)[::-1], np.r_[0, 49:0:-1], rng.permutation(50)):
        path = np.stack([order[:-1], order[1:]], axis=1)
        assert checker.impossible.components(path, 50) == 1
        assert checker.impossible.components(np.delete(path, [7, 30], axis=0), 50) == 3
        assert checker.impossible.components(np.array([order]), 50) == 1
    assert checker.impossible.components(np.arange(50)[:, None], 50) == 50


def test_different_rows_are_told_apart(checker):
    rows = np.array([[1.0, 0.0], [1.0, -0.0], [1.0, 5e-324], [1 + 2.0**-52, 0.0], [1.0, 0.0]])
    found, ids = checker.impossible.different(rows)
    assert found[ids].tolist() == rows.tolist()
    assert (ids == [0, 0, 1, 2, 0]).all()
    assert not np.signbit(found).any()
    single = np.array([[np.float32(0.1)], [np.float32(1e-45)]], dtype=np.float32)
    assert checker.impossible.different(single)[0].dtype == np.float64


def test_different_examples_are_counted(checker):
    """By their queries and the multisets of their tokens; one token is twice in one of them."""
    tokens = np.eye(3)
    order = [[0, 1, 2], [2, 0, 1], [0, 0, 1], [0, 1, 1], [0, 1, 2], [1, 0, 0], [0, 0, 0]]
    queries = np.ones((7, 3))
    queries[4, 2] = 1 + 2.0**-52
    data = {"contexts": tokens[order], "queries": queries}
    with pytest.raises(ValueError, match="5 different examples, and 5 are possible"):
        checker.impossible.check_impossible(evidence_of(7, heads=2), data)
    assert checker.impossible.check_impossible(evidence_of(7), data) == (1, 3, 5)
    data["queries"] = queries[:, :2] @ np.ones((2, 3)) / 2  # equal ones
    assert checker.impossible.check_impossible(evidence_of(7), data) == (1, 3, 4)
    shared = {"contexts": tokens, "queries": queries}
    with pytest.raises(ValueError, match="2 different examples, and 3 are possible"):
        checker.impossible.check_impossible(evidence_of(7), shared)
    two = {"contexts": np.array([[[1.0]], [[2.0]]]), "queries": np.ones((2, 1))}
    assert checker.impossible.check_impossible(evidence_of(2), two) == (1, 1, 2)


def test_residues_of_one_number_may_differ_by_a_prime(checker, monkeypatch):
    """Balanced ones are not unique."""
    original, rng = checker.impossible.times, np.random.default_rng(0)

    def times(a, b, p):
        products = original(a, b, p)
        return products + p * rng.integers(-1, 2, products.shape)

    monkeypatch.setattr(checker.impossible, "times", times)
    tokens = np.array([[3.0, 1.0, 1.0], [5.0, -1.0, -1.0], [-7.0, 2.0, 2.0], [0.0, 4.0, 4.0]])
    data = {"contexts": tokens[[[0, 1], [1, 2], [3, 0]] * 3], "queries": many_queries(9, 3)}
    vectors = (0, 1, -1), (1, 0, 0)
    with pytest.raises(ValueError, match="not constant within a context"):
        checker.impossible.check_impossible(evidence_of(9, vectors, [1, 0], 1), data)
    tokens[:, 0] = -11.0
    data["contexts"] = tokens[[[0, 1], [1, 2], [3, 0]] * 3]
    known = (2, 2 + 1, 9)
    assert checker.impossible.check_impossible(evidence_of(9, vectors, [1, 0], 1, 2), data) == known


@pytest.mark.parametrize(
    ("order", "heads", "bound"),
    [
        ([[0, 1], [1, 2], [2, 3]], 3, 4 + 2 * 3),
        ([[0, 1], [2, 3], [2, 3]], 3, 4 + 2 * 2),
        ([[0, 0], [1, 1], [2, 3]], 3, 4 + 2),
        ([[0, 0], [1, 1], [2, 2]], 3, 3),
        ([[0, 4], [1, 5], [2, 3]], 3, 4 + 2 * 3),  # six tokens in four dimensions
        ([[0, 1], [1, 0], [1, 0]], 9, 2 + 8),
    ],
)
def test_tokens_are_counted_where_they_are_few(checker, order, heads, bound):
    tokens = np.array([*np.eye(4), [1.0] * 4, [2.0] * 4])
    data = {"contexts": tokens[np.tile(order, (5, 1))], "queries": many_queries(15, 4)}
    assert checker.impossible.check_impossible(evidence_of(15, heads=heads), data) == (
        heads, bound, 15,
    )  # fmt: skip


@pytest.mark.parametrize(("left", "words"), [(56, "not orthogonal"), (55, "more than a minute")])
def test_numbers_are_not_longer_than_all_primes_together(checker, monkeypatch, left, words):
    monkeypatch.setattr(checker.impossible, "OPERATIONS", math.inf)
    data = {"contexts": np.array([[0.0, 1.0]]), "queries": many_queries(3, 2)}
    bits = 21 * 140336 - left
    with pytest.raises(ValueError, match=words):
        checker.impossible.check_impossible(evidence_of(3, [(0, 1 << bits - 1)], [1], 1), data)


# Pairs.


def announced_of_pairs(checker, total=30, size=4, width=5, heads=6, outputs=1):
    """Bytes beside those of the arrays themselves, and operations, of paired heads."""
    data = arrays_of(
        contexts=(total, size, width), queries=(total, width), targets=(total, outputs)
    )
    weights = tensors_of(
        W_Q=(heads, width, 1),
        W_K=(heads, width, 1),
        W_V=(heads, width, outputs),
        W_O=(heads * outputs, outputs),
        W_D=(outputs, outputs),
    )
    held, operations = checker.paired.needs(data, weights)
    return held - checker.files.bytes_of(data) - checker.files.bytes_of(weights), operations


PAIRED_DATA = {"contexts": (30, 4, 5), "queries": (30, 5), "targets": (30, 2)}
PAIRED = {"W_Q": (6, 5, 3), "W_K": (6, 5, 3), "W_V": (6, 5, 2), "W_O": (12, 2), "W_D": (2, 2)}


@pytest.mark.parametrize(
    ("data", "weights"),
    [
        ({"contexts": (4, 5)}, {}),
        ({"contexts": (29, 4, 5)}, {}),
        ({"contexts": (30, 4, 6)}, {}),
        ({"contexts": (30, 1, 5)}, {}),
        ({"contexts": (30, 4, 5, 1)}, {}),
        ({"queries": (30, 6)}, {}),
        ({"targets": (29, 2)}, {}),
        ({"targets": ()}, {}),
        ({"targets": (30, 2, 1)}, {}),
        ({"targets": (30, 3)}, {"W_D": (2, 3)}),
        ({}, {"W_Q": (6, 5)}),
        ({}, {"W_V": (6, 5)}),
        ({}, {"W_Q": (6, 4, 3), "W_K": (6, 4, 3)}),
        ({}, {"W_K": (6, 5, 2)}),
        ({}, {"W_K": (5, 5, 3)}),
        ({}, {"W_V": (5, 5, 2)}),
        ({}, {"W_V": (6, 4, 2)}),
        ({}, {"W_O": (11, 2)}),
        ({}, {"W_O": (12, 3)}),
        ({}, {"W_O": (12,)}),
        ({}, {"W_D": (3, 2)}),
        ({}, {"W_D": (2, 3)}),
        ({}, {"W_V_corrections": (1, 6, 5, 2)}),
    ],
)
def test_pairs_which_do_not_fit(checker, data, weights):
    words = r"do not fit|examples with contexts|other axes|no W_V_corrections"
    with pytest.raises((ValueError, IndexError), match=rf"{words}|out of range"):
        checker.paired.needs(arrays_of(**PAIRED_DATA | data), tensors_of(**PAIRED | weights))


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"heads": 1}, "no pair of heads"),
        ({"width": 1025}, "more than 1024 entries"),
        ({"total": (1 << 22) + 1}, "sums of more than"),
        ({"size": (1 << 22) + 1}, "sums of more than"),
        ({"heads": 1 << 20}, "sums of more than"),
        ({"size": 1}, "contexts of their own"),
    ],
)
def test_pairs_which_are_too_few_or_too_large(checker, sizes, words):
    with pytest.raises(ValueError, match=words):
        announced_of_pairs(checker, **sizes)


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
    for name in ("rank", "error", "readout", "grouping"):
        forged = content | {"claims": {name: claims[name]}}
        (tmp_path / "forged.json").write_text(json.dumps(forged))
        with pytest.raises(ValueError, match=f"{name} is about weights"):
            checker.check([str(tmp_path / "forged.json"), data])
