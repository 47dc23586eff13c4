"""Upper bounds under attack: whatever is accepted is true by arithmetic of its own."""

import time
from types import SimpleNamespace

import judges
import numpy as np
import pytest
import triples
from triples import pack, spans, unpack

pytestmark = pytest.mark.usefixtures("one_sieve")


def judged(checker, evidence, data):
    """The numbers that the claim states."""
    claim = checker.capacity.Impossible({"evidence": evidence})
    return claim.check(SimpleNamespace(data=data)).numbers


def accepted(checker, evidence, data):
    """Whether evidence is accepted; if so, what is said has to be true."""
    try:
        heads, bound, number = judged(checker, evidence, data)
    except Exception:
        return False
    chosen = unpack(evidence["examples"]).tolist()
    assert judges.impossible_holds(data, heads, bound, number, chosen)
    return True


@pytest.mark.parametrize("differences", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 30, pytest.param(100, marks=pytest.mark.slow)])
def test_products_which_are_multiples_of_many_primes_are_not_zero(checker, count, differences):
    """Of the smallest ones, of the largest ones, and with what powers of two may be left out."""
    primes = checker.capacity.primes().tolist()
    for some in (primes[:count], primes[-count:], primes[count : 3 * count : 2]):
        for shift in (0, 1, 52, 53, 2000):
            product = 1 << shift
            for p in some:
                product *= p
            for token in (1.0, float(some[0]), float(2**53 - 1), 2.0**-1074, 1.5 * 2.0**1023):
                tokens = np.array([[token, 1.0], [0.0, 1.0]])
                data = {"contexts": tokens[: 1 + differences], "queries": np.eye(5, 2)[:4]}
                data["queries"] = data["queries"] + np.arange(4)[:, None]
                evidence = spans(4, [[hex(product), "0"]], zeros=int(not differences))
                assert not accepted(checker, evidence, data)
                data["contexts"] = tokens[1:]
                assert accepted(checker, evidence, data)


# The judge, on what is known.


def test_the_judge_of_upper_bounds_knows_both_answers():
    tokens = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 1.0], [1.0, 2.0, 2.0]])
    data = {"contexts": tokens[[[0, 1], [1, 0], [0, 2]]], "queries": np.eye(3)}
    statement = triples.STATEMENTS["impossible"]
    evidence = {"examples": pack([0, 1])}

    def judged(*told):
        text = statement.format(*told)
        return judges.layer_statement("impossible", text, None, data, evidence)

    assert judged(1, 2, 2) is False  # no more examples than the rank may be
    data["queries"] = np.eye(3)[[0, 0, 1]]
    data["contexts"][1, 0, 1] = 2 + 2.0**-51  # so that they are two inputs
    assert judged(1, 1, 2) is False
    data["contexts"][:, :] = tokens[0]
    data["queries"] = np.eye(3)[[0, 1, 1]]
    assert judged(1, 1, 2) is True
    assert judged(9, 1, 2) is True
    assert judged(1, 0, 2) is False
    assert judged(1, 1, 3) is False
    evidence["examples"] = pack([1, 2])  # one input, twice
    assert judged(1, 1, 2) is False
    assert judged(1, 0, 1) is False
    data["contexts"][0, 1, 0] = np.nextafter(1.0, 2.0)
    evidence["examples"] = pack([0, 1])
    assert judged(1, 1, 2) is False
    evidence["examples"] = pack([1, 3])
    assert judged(1, 1, 2) is False
    single = {"contexts": np.zeros((2, 3)), "queries": np.eye(3)[:1]}
    evidence["examples"] = pack([0])
    text = statement.format(5, 0, 1)
    assert judges.layer_statement("impossible", text, None, single, evidence) is True
    single["contexts"][1, 1] = 5e-324
    assert judges.layer_statement("impossible", text, None, single, evidence) is False


# Time: what is not refused takes no more than its share of a minute.


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
def test_what_is_not_refused_does_not_take_long(checker, monkeypatch, width, entries, vectors):
    """With a hundredth of a minute."""
    monkeypatch.setattr(checker.capacity, "OPERATIONS", checker.capacity.OPERATIONS / 100)
    evidence, data = demand(width, entries, vectors)
    start = time.process_time()
    try:
        assert judged(checker, evidence, data) == (1, 1, 3)
    except ValueError as refused:
        assert "would take more than a minute" in str(refused)  # noqa: PT017 - it may be proved
    assert time.process_time() - start < 2
