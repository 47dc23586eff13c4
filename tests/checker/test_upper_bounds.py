"""Impossibility: certificates of upper bounds, the data which they are about, and forgeries."""

import base64
import copy
import dataclasses
import itertools
import json
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import rank_of

import constructive
from constructive import Dataset, Verdict, check, fewest_heads, generators
from constructive import upper_bound_certificate as certify_bound
from constructive.certificates.check import CHECKER
from constructive.data.dataset import different_inputs
from constructive.support.verdict import pack
from constructive.theory.capacity import context_capacity, fixed_capacity

pytestmark = pytest.mark.usefixtures("one_sieve")


def eight():
    """Eight examples of one context, of which three heads hold seven."""
    return generators.shared_context(num_examples=8, context_size=3, width=5)


def unpacked(text):
    return np.frombuffer(base64.b64decode(text), dtype="<u4").tolist()


def stated(heads, bound, number):
    return (
        f"for all W_Q and W_K of H = {heads} heads rank Z <= {bound} on {number} different "
        "examples: whichever are chosen, some targets have no readout"
    )


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def dataset(contexts, total=None):
    """Contexts, or one which so many examples share, with random queries."""
    contexts = np.asarray(contexts)
    total = total or len(contexts)
    queries = drawn(total, contexts.shape[-1], seed=9).astype(contexts.dtype)
    return Dataset(contexts, queries, np.zeros(total))


# What is impossible, and beside it what is not.


@dataclass
class Limit:
    """Data of which some examples are too many.

    bound:   rank Z of them for H heads
    number:  how many different ones they are
    vectors: of the certificate; none where tokens are counted, or span all dimensions
    """

    data: Dataset
    heads: int
    bound: int
    number: int
    vectors: int = 0


def with_a_constant(total, size, width, dtype=np.float64):
    contexts = drawn(total, size, width).astype(dtype)
    contexts[..., -1] = 0.1
    return dataset(contexts)


def one_among_others():
    """Six examples of one context between four of their own."""
    contexts = drawn(10, 3, 9)
    contexts[2:8] = contexts[2]
    return dataset(contexts)


def equal_inputs():
    """Example 1 is example 0 with its tokens in another order, and other signs of zeros."""
    contexts, queries = drawn(8, 2, 3), drawn(8, 3, seed=1)
    contexts[0, 0, 2] = queries[0, 1] = 0.0
    contexts[1], queries[1] = contexts[0, ::-1], queries[0]
    contexts[1, 1, 2] = queries[1, 1] = -0.0
    return Dataset(contexts, queries, np.zeros(8))


def subnormal_and_huge():
    """Tokens of a context differ by a subnormal number in one entry."""
    contexts = np.ones((7, 2, 3))
    contexts[..., 0] = 2.0**1000 * (1 + np.arange(7)[:, None] / 8)
    contexts[..., 1] = 5e-324 * np.arange(1, 8)[:, None] * [1, 0]
    return dataset(contexts)


def each_entry_at_its_scale():
    """From 2^-1000 to 2^900, beside a constant."""
    contexts = np.ldexp(drawn(8, 3, 4), np.random.default_rng(0).integers(-1000, 900, (8, 3, 4)))
    contexts[..., 2] = 2.0**-300
    return dataset(contexts)


LIMITS = {
    "a shared context": lambda: Limit(dataset(drawn(3, 5), 8), 3, 7, 8),
    "generic contexts": lambda: Limit(dataset(drawn(9, 3, 4)), 2, 8, 9),
    "one token each": lambda: Limit(dataset(drawn(4, 1, 3)), 7, 3, 4, 3),
    "one of everything": lambda: Limit(dataset([[[2.0]], [[3.0]]]), 1, 1, 2, 1),
    "nothing but zeros": lambda: Limit(dataset(np.zeros((1, 2, 3))), 4, 0, 1, 3),
    "a constant entry": lambda: Limit(with_a_constant(14, 3, 5), 3, 13, 14, 1),
    "one context among others": lambda: Limit(one_among_others(), 2, 5, 6),
    "equal inputs": lambda: Limit(equal_inputs(), 2, 6, 7),
    "subnormal and huge": lambda: Limit(subnormal_and_huge(), 4, 6, 7, 2),
    "each entry at its scale": lambda: Limit(each_entry_at_its_scale(), 2, 7, 8, 1),
}


@pytest.mark.parametrize("name", LIMITS)
def test_one_example_too_many_is_impossible_and_without_it_all_is_possible(name):
    limit = LIMITS[name]()
    certificate = certify_bound(limit.data, limit.heads)
    claim = certificate["impossible"]
    assert claim.verdict is Verdict.PROVED
    assert claim.statement == stated(limit.heads, limit.bound, limit.number)
    assert claim.evidence["count"] == limit.number
    assert len(claim.evidence["vectors"]) == len(claim.evidence["pivots"]) == limit.vectors
    said = check(certificate, None, limit.data)
    assert said.proved, said.report
    assert claim.statement in said.report
    rest = limit.data.take(different_inputs(limit.data))
    for _ in range(limit.number - max(limit.bound, 1)):
        found = certify_bound(rest, limit.heads)["impossible"]
        assert found.verdict is Verdict.PROVED
        kept = np.ones(rest.num_examples, dtype=bool)
        kept[unpacked(found.evidence["examples"])[0]] = False
        rest = rest.take(kept)
    if limit.bound:  # without anything to blame, random weights reach rank T
        assert certify_bound(rest, limit.heads)["impossible"].verdict is Verdict.UNDECIDED
        assert fixed_capacity(rest, limit.heads).at_least == rest.num_examples


DEPENDENT_MODULO_A_PRIME = {
    "one token": ([[[4194287.0]]], 1),
    "translates": ([[[1.0, 0.0], [1.0, 4194287.0]]] * 3, 2),
    "halves": ([[[4194287 / 2.0, 0.0]], [[0.0, 1.0]]], 1),
}


@pytest.mark.parametrize("name", DEPENDENT_MODULO_A_PRIME)
def test_what_is_dependent_modulo_a_prime_alone_is_not_called_impossible(name):
    """And no capacity is more than there are examples."""
    contexts, heads = DEPENDENT_MODULO_A_PRIME[name]
    data = dataset(contexts)
    assert fixed_capacity(data, heads).at_least == data.num_examples
    assert certify_bound(data, heads).verdict is Verdict.UNDECIDED
    assert fixed_capacity(data, 9).at_most == len(contexts)
    if name != "halves":
        assert fewest_heads(data).least == heads


# Against the definition: the least bound over all sets of examples.


def dimensions(contexts):
    """k and delta of lists of tokens, which are lists of Fractions."""
    apart = [
        [x - y for x, y in zip(token, context[0], strict=True)]
        for context in contexts
        for token in context
    ]
    return rank_of([token for context in contexts for token in context]), rank_of(apart)


def inputs_of(data):
    """Queries and contexts as Fractions, for each example."""
    contexts = data.contexts if data.contexts.ndim == 3 else [data.contexts] * data.num_examples
    fractions = [[list(map(Fraction, e)) for e in np.asarray(c).tolist()] for c in contexts]
    queries = [tuple(map(Fraction, q)) for q in data.queries.tolist()]
    return queries, fractions


def number_of(queries, contexts):
    pairs = zip(queries, contexts, strict=True)
    return len({(query, tuple(sorted(map(tuple, context)))) for query, context in pairs})


def subsets(total):
    sizes = range(1, total + 1)
    return itertools.chain(*(itertools.combinations(range(total), size) for size in sizes))


def by_definition(queries, contexts, heads):
    """c(E; H), the least of T - |J| + k_J + (H - 1) delta_J over all sets J of examples.

    Examples that are one input are taken into J together, and count once.
    """
    least = total = number_of(queries, contexts)
    for chosen in subsets(len(contexts)):
        some = [contexts[t] for t in chosen]
        k, delta = dimensions(some)
        number = number_of([queries[t] for t in chosen], some)
        least = min(least, total - number + k + (heads - 1) * delta)
    return total, least


@st.composite
def problems(draw):
    """Contexts of few words and few queries, some of them equal, at some scale; and heads."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, width = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["small", "one-hot", "line", "constant", "scales", "any"]))
    if kind == "one-hot":
        vocabulary = np.eye(count)
    elif kind == "line":
        vocabulary = np.outer(np.arange(count), rng.integers(-2, 3, width)) + rng.integers(0, 2)
    else:
        high = 2 if kind == "small" else 9
        vocabulary = rng.integers(-high, high + 1, (count, width))
    vocabulary = vocabulary.astype(np.float64)
    if kind == "constant":
        vocabulary[:, 0] = 1
    if kind == "scales":
        vocabulary = np.ldexp(vocabulary, rng.integers(-1000, 900, (count, 1)))
    total, size = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    shared = draw(st.integers(0, 3)) == 0
    contexts = vocabulary[rng.integers(0, count, (size,) if shared else (total, size))]
    contexts[contexts == 0] *= rng.choice([-1, 1], size=np.count_nonzero(contexts == 0))
    several = draw(st.sampled_from([1, 2, 100]))
    queries = rng.integers(-several, several, (total, contexts.shape[-1])) * 1.0
    return Dataset(contexts, queries, np.zeros(total)), draw(st.integers(1, 4))


@settings(max_examples=60)
@given(problems())
def test_impossible_is_proved_and_checked_where_examples_are_more_than_the_least_bound(problem):
    data, heads = problem
    queries, contexts = inputs_of(data)
    total, least = by_definition(queries, contexts, heads)
    capacity = context_capacity(data, heads, np.random.default_rng(0))
    assert (capacity.lower, capacity.upper, capacity.exact) == (least, least, True)
    certificate = certify_bound(data, heads)
    assert certificate.proved == (total > least)
    assert check(certificate, None, data).proved == (total > least)
    if certificate.proved:
        claim = certificate["impossible"]
        chosen = unpacked(claim.evidence["examples"])
        some = [contexts[t] for t in chosen]
        k, delta = dimensions(some)
        number = number_of([queries[t] for t in chosen], some)
        assert total - number + k + (heads - 1) * delta == least
        assert claim.statement == stated(heads, k + (heads - 1) * delta, number)


# Forgeries.


def forgeable():
    """Ten examples, k = 5, delta = 4: 9 are possible for two heads. Entry 5 is 0 plus 1."""
    contexts = np.random.default_rng(0).integers(-99, 100, (11, 2, 6)) * 1.0
    contexts[..., 4] = 3
    contexts[..., 5] = contexts[..., 0] + contexts[..., 1]
    return dataset(contexts[:10])


def altered(change):
    """What the checker says after a change of the evidence."""
    data = forgeable()
    honest = certify_bound(data, num_heads=2)
    claim = honest["impossible"]
    evidence = copy.deepcopy(claim.evidence)
    assert claim.statement == stated(2, 9, 10)
    assert [x.count("0x0") for x in evidence["vectors"]] == [3, 5]
    assert (evidence["pivots"], evidence["zeros"]) == ([0, 4], 1)
    change(evidence)
    forged = dataclasses.replace(honest, claims=(dataclasses.replace(claim, evidence=evidence),))
    return check(forged, None, data)


def put(**values):
    return lambda e: e.update(values)


def chosen(*rows):
    return lambda e: e.update(examples=pack(rows), count=len(rows))


def entry(row, place, value):
    return lambda e: e["vectors"][row].__setitem__(place, value)


FORGERIES = {
    "more heads": (put(heads=3), "10 different examples, and 13 are possible"),
    "no head": (put(heads=0), "not a number of heads"),
    "more counted than there are": (put(count=11), "set of examples"),
    "none counted": (put(count=0), "set of examples"),
    "one left out": (chosen(*range(1, 10)), "9 different examples, and 9 are possible"),
    "one twice": (chosen(0, 0, *range(2, 10)), "not increasing"),
    "one that is not there": (chosen(*range(9), 10), "packed integers misfit"),
    "a number off in the first vector": (entry(0, 0, "0x2"), "not orthogonal to a token"),
    "a number off in the second vector": (entry(1, 3, "0x1"), "not constant within a context"),
    "one vector more": (
        lambda e: (e["vectors"].append(["0", "0", "1", "0", "0", "0"]), e["pivots"].append(2)),
        "not constant within a context",
    ),
    "more vectors than entries": (
        lambda e: e.update(vectors=e["vectors"][1:] * 7, pivots=[4] * 7), "other pivots"
    ),
    "one vector less": (
        lambda e: (e["vectors"].pop(), e["pivots"].pop()), "10 different examples, and 10 are"
    ),
    "a vector that is longer": (lambda e: e["vectors"][0].append("0"), "another length"),
    "a vector of texts which are none": (entry(0, 0, "x"), "invalid literal"),
    "a pivot which is zero": (put(pivots=[2, 4]), "not triangular"),
    "a pivot which is not alone": (
        lambda e: (e["vectors"][1].__setitem__(0, "0x1"), e.update(zeros=0)), "not triangular"
    ),
    "a pivot before the first": (put(pivots=[-6, 4]), "a pivot is not a place"),
    "a pivot beyond the last": (put(pivots=[0, 6]), "a pivot is not a place"),
    "one pivot less": (put(pivots=[0]), "other pivots"),
    "more zeros than vectors": (put(zeros=3), "number of vectors"),
    "fewer zeros": (put(zeros=0), "10 different examples, and 10 are possible"),
    "less than no zeros": (put(zeros=-1), "number of vectors"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries(name):
    change, words = FORGERIES[name]
    checked = altered(change)
    assert checked.verdict is Verdict.UNDECIDED
    last = checked.report.splitlines()[-1]
    assert last.startswith("NOT PROVED: ")
    assert words in last


def test_words_which_the_terminal_cannot_print(tmp_path):
    data = eight()
    proof, npz = tmp_path / "c.json", tmp_path / "d.npz"
    certify_bound(data, num_heads=3).save(proof)
    data.save(npz)
    content = json.loads(proof.read_text())
    content["claims"]["impossible"]["evidence"]["vectors"] = [["\u6f22"]]
    proof.write_text(json.dumps(content))
    command = [sys.executable, "-I", "-X", "utf8=0", str(CHECKER), str(proof), str(npz)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"LC_ALL": "C", "PATH": ""}
    )
    assert done.returncode == 1
    assert done.stdout.startswith("NOT PROVED: impossible: invalid literal")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "options",
    [{"num_heads": x} for x in (0, -1, 2.5, True)]
    + [{"num_heads": 3, "seed": x} for x in (-1, 1.5, None)],
)
def test_options_which_are_none(options):
    words = "non-negative integer" if "seed" in options else "positive integer"
    with pytest.raises(constructive.ParameterError, match=words):
        certify_bound(eight(), **options)
