"""`check --rocq` of upper bounds: what the files say, and what Rocq proves of it or refuses."""

import base64

import numpy as np
import pytest
from stored_parts import (
    by_rocq,
    instance_of,
    one_changed,
    replaced,
    require_compared,
    require_refused,
    saved,
    with_evidence,
)
from typer.testing import CliRunner

from constructive import (
    Dataset,
    FormatError,
    ParameterError,
    build_memorizer,
    certify,
    cli,
    generators,
    upper_bound_certificate,
)
from constructive.rocq.confirm import confirm, read, require_same
from constructive.rocq.definitions import write
from constructive.rocq.theories import (
    IMPOSSIBLE,
    INPUT_ARRAYS,
    MODULUS,
    examples_of,
    stored_examples,
)
from constructive.support.verdict import pack


def cases():
    """Data and H: bounds by the width, by counting, by vectors, and of a part of the examples."""
    rng = np.random.default_rng(0)
    own = generators.gaussian(num_examples=16, context_size=4, width=5)
    constant = generators.gaussian(num_examples=14, context_size=4, width=4).with_constant()
    basis = rng.integers(-9, 10, (3, 6))
    inside = (rng.integers(-9, 10, (9, 3, 3)) @ basis).astype(float)
    queries = rng.integers(-9, 10, (9, 6)) + np.arange(9)[:, np.newaxis] / 3
    pairs = np.eye(6)[[[0, 1], [1, 2], [2, 0], [3, 4], [4, 5], [5, 3]] * 2]
    different = np.arange(72.0).reshape(12, 6)
    part = np.concatenate([inside, rng.normal(size=(3, 3, 6))])
    single = own.contexts, own.queries
    scales = np.ldexp(own.contexts, rng.integers(-300, 300, (16, 1, 1)))
    return {
        "own": (own, 3),
        "shared": (generators.shared_context(num_examples=8, context_size=3, width=5), 3),
        "constant": (constant, 3),
        "subspace": (Dataset(inside, queries, np.zeros(9)), 2),
        "words": (Dataset(pairs, different, np.zeros(12)), 2),
        "part": (Dataset(part, np.arange(72.0).reshape(12, 6), np.zeros(12)), 2),
        "scales": (Dataset(scales, own.queries, own.targets), 3),
        "one query": (Dataset(own.contexts, np.ones((16, 5)), own.targets), 3),
        "float32": (Dataset(*(x.astype("float32") for x in single), own.targets), 3),
    }


CASES = cases()


def certificate_of(name):
    return upper_bound_certificate(*CASES[name])


def made_of(name):
    return instance_of(IMPOSSIBLE, certificate_of(name), CASES[name][0])


def known_of(name):
    data, heads = CASES[name]
    return stored_examples(data, examples_of(certificate_of(name), data)[1], heads)


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_is_read_back(name):
    made = made_of(name)
    found = require_compared(made, known_of(name), INPUT_ARRAYS, ["n", "d", "T", "H"])
    for field, value in made.values.items():
        if field in {*INPUT_ARRAYS, "words"}:
            assert np.array_equal(found[field].ravel(), value.ravel())
        else:
            assert found[field] == value


def test_evidence_is_what_the_data_need():
    vectors = {name: len(made_of(name).values["vectors"]) for name in CASES}
    words = {name: len(made_of(name).values["words"]) for name in CASES}
    assert (vectors["own"], words["own"]) == (0, 0)
    assert (vectors["constant"], words["constant"]) == (1, 0)
    assert (vectors["subspace"], words["subspace"]) == (3, 0)
    assert (vectors["words"], words["words"]) == (0, 6)
    assert (vectors["shared"], words["shared"]) == (0, 3)
    assert len(made_of("part").values["queries"]) == 9


def test_other_examples_are_other_numbers():
    data, heads = CASES["part"]
    found = read(IMPOSSIBLE, write(made_of("part")))
    with pytest.raises(FormatError, match=r"contexts\[0, .* is stored"):
        require_same(found, stored_examples(data, np.arange(1, 10), heads))


def test_examples_which_are_one_input_count_once():
    data, heads = CASES["own"]
    twice = Dataset(
        np.concatenate([data.contexts, data.contexts[:, ::-1]]),
        np.concatenate([data.queries] * 2),
        np.zeros(32),
    )
    honest = upper_bound_certificate(data, heads)
    forged = with_evidence(honest, count=32, examples=pack(range(32)))
    assert examples_of(forged, twice)[1].tolist() == list(range(16))
    assert instance_of(IMPOSSIBLE, forged, twice).values["T"] == 16


def test_certificates_of_something_else_are_refused():
    data, heads = CASES["own"]
    certificate = upper_bound_certificate(data, heads)
    with pytest.raises(FormatError, match="does not claim that impossible is PROVED"):
        instance_of(IMPOSSIBLE, upper_bound_certificate(data, 9), data)
    for change, words in (
        ({"examples": pack([3, 2])}, "not about these data"),
        ({"examples": pack(range(15))}, "not about these data"),  # as many as the bound
        ({"examples": pack([*range(15), 99])}, "not about these data"),
        ({"examples": base64.b64encode(b"abc").decode()}, "cannot be read"),
        ({"heads": 4}, "not about these data"),
        ({"heads": 0}, "not about these data"),
        ({"heads": None}, "cannot be read"),
        ({"vectors": [["x"] * 5]}, "cannot be read"),
        ({"zeros": 1}, "not about these data"),
    ):
        with pytest.raises((FormatError, ParameterError), match=words):
            instance_of(IMPOSSIBLE, with_evidence(certificate, **change), data)


def test_the_certificate_of_weights_is_none_of_an_upper_bound(tmp_path):
    data, _ = CASES["own"]
    part = data.take(range(9))
    memorizer = build_memorizer(part, num_heads=3, construction="generic")
    certify(memorizer, part, claims=["rank"]).save(tmp_path / "c.json")
    part.save(tmp_path / "d.npz")
    done = CliRunner().invoke(
        cli.app, ["check", str(tmp_path / "c.json"), str(tmp_path / "d.npz"), "--rocq"]
    )
    assert "does not claim that impossible is PROVED" in str(done.exception)


@by_rocq
@pytest.mark.parametrize("name", CASES)
def test_rocq_proves_the_bound(name, tmp_path):
    certificate, data = saved(tmp_path, certificate_of(name), CASES[name][0])
    done = confirm(certificate, None, data)
    assert done.proved, done.report
    values = made_of(name).values
    assert f"H = {values['H']} heads rank Z <= {values['bound']} on {values['T']}" in done.report


def fewer(made):
    """As many examples as the bound allows."""
    bound = made.values["bound"]
    contexts = made.values["contexts"]
    contexts = contexts if len(contexts) == 1 else contexts[:bound]
    return replaced(made, T=bound, contexts=contexts, queries=made.values["queries"][:bound])


def vector_changed(made):
    vectors = [list(vector) for vector in made.values["vectors"]]
    vectors[-1][0] += 1
    return replaced(made, vectors=vectors)


def repeated(made):
    """The last example is the first one, with its tokens in another order."""
    contexts, queries = made.values["contexts"].copy(), made.values["queries"].copy()
    contexts[-1], queries[-1] = contexts[0, ::-1], queries[0]
    return replaced(made, contexts=contexts, queries=queries)


FORGED = {
    "J too small": ("own", fewer),
    "J too small, shared": ("shared", fewer),
    "more heads": ("own", lambda made: replaced(made, H=4)),
    "a bound too small": ("own", lambda made: replaced(made, bound=14)),
    "vector": ("subspace", vector_changed),
    "vector, constant": ("constant", vector_changed),
    "no constant": ("constant", lambda made: replaced(made, zeros=1, bound=12)),
    "one vector twice": (
        "constant",
        lambda made: replaced(
            made, vectors=made.values["vectors"] * 2, pivots=made.values["pivots"] * 2
        ),
    ),
    "pivot": ("subspace", lambda made: replaced(made, pivots=[9] * 3)),
    "data": ("subspace", lambda made: one_changed(made, "contexts", 1)),
    "data, constant": ("constant", lambda made: one_changed(made, "contexts", 1)),
    "data, words": ("words", lambda made: one_changed(made, "contexts", 1)),
    "roots": ("words", lambda made: replaced(made, roots=list(range(6)))),
    "roots beyond": ("words", lambda made: replaced(made, roots=[9] * 6)),
    "word": ("words", lambda made: replaced(made, words=made.values["words"][:-1])),
    "repeated": ("own", repeated),
    "base": ("own", lambda made: replaced(made, base=MODULUS)),
    "modulus": ("own", lambda made: replaced(made, modulus=1 << 40)),
}


@by_rocq
@pytest.mark.parametrize("forged", FORGED)
def test_rocq_refuses_what_does_not_hold(forged):
    name, change = FORGED[forged]
    report = require_refused(change(made_of(name)), known_of(name))
    assert "roots = true" in report  # what the program does not say, and nothing else
