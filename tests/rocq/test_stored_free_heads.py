"""`check --rocq` of *onto*: what Rocq proves of free heads on stored data, or refuses."""

import numpy as np
import pytest
from stored_parts import (
    by_rocq,
    instance_of,
    replaced,
    require_compared,
    require_refused,
    saved,
    with_evidence,
)

from constructive import Dataset, FormatError, ParameterError, build_memorizer, certify
from constructive.rocq.confirm import confirm
from constructive.rocq.theories import INPUT_ARRAYS, ONTO, NotConfirmableError


def memorized(data, num_heads, head_dim):
    memorizer = build_memorizer(
        data, num_heads=num_heads, head_dim=head_dim, construction="tangent", seed=0
    )
    return certify(memorizer, data, claims=["onto"]), memorizer, data


def drawn(total, size, width, outputs=(), *, shared=False):
    rng = np.random.default_rng(0)
    contexts = rng.random((size, width) if shared else (total, size, width))
    return Dataset(contexts, rng.random((total, width)), rng.random((total, *outputs)))


LAYERS = {
    "equal heads": memorized(drawn(14, 3, 5), 3, 1),
    "uniform attention": memorized(drawn(14, 2, 5), 2, 2),
    "several groups": memorized(drawn(15, 3, 4), 6, 1),
    "one context": memorized(drawn(12, 5, 5, shared=True), 3, 2),
    "two outputs": memorized(drawn(7, 3, 5, (2,)), 3, 2),
    "an example twice": memorized(drawn(13, 3, 5).take(np.r_[:13, 0]), 3, 1),
}
SIZES = "n", "d", "dh", "T", "H", "m"


def test_these_layers_are_of_all_kinds():
    evidence = {name: layer[0]["onto"].evidence for name, layer in LAYERS.items()}
    assert evidence["equal heads"]["groups"] == [3]
    assert evidence["uniform attention"]["uniform"]
    assert not evidence["equal heads"]["uniform"]
    assert len(evidence["several groups"]["groups"]) > 1
    assert ONTO.known_of(*LAYERS["an example twice"]).sizes["T"] == 13


@pytest.mark.parametrize("name", LAYERS)
def test_what_is_written_is_read_back(name):
    made = instance_of(ONTO, *LAYERS[name])
    found = require_compared(made, ONTO.known_of(*LAYERS[name]), INPUT_ARRAYS, SIZES)
    for field, value in made.values.items():
        assert np.array_equal(found[field], value) if field != "inverse" else found[field] == value


@by_rocq
@pytest.mark.parametrize("name", LAYERS)
def test_rocq_proves_that_all_targets_are_returned(name, tmp_path):
    done = confirm(*saved(tmp_path, *LAYERS[name]))
    assert done.proved, done.report
    sizes = ONTO.known_of(*LAYERS[name]).sizes
    words = "for all Y of T = {T} targets with d_out = {m} some weights of H = {H} heads"
    assert words.format(**sizes) in done.report


def one_more(inverse):
    """A right inverse with another first entry."""
    ((first, *entries), *heads), *columns = inverse
    return [[[first + 1, *entries], *heads], *columns]


def first_twice(array):
    return np.concatenate([array[:1], array[:1], array[2:]])


# What is said of this layer, of three heads with one leader.
FORGED = {
    "an entry of the inverse": lambda v: {"inverse": one_more(v["inverse"])},
    "other directions": lambda v: {"columns": [marks[::-1] for marks in v["columns"]]},
    "another point": lambda v: {"point": v["point"] + 1},
    "no prime": lambda v: {"modulus": v["modulus"] + 1},
    "another prime": lambda _: {"modulus": 2097143, "order": 2097142, "point": 3},
    "another order": lambda v: {"order": v["order"] + 1},
    "a scaled context": lambda v: {
        "contexts": v["contexts"] * np.r_[2.0, np.ones(13)][:, None, None]
    },
    "a scaled query": lambda v: {"queries": v["queries"] * np.r_[3.0, np.ones(13)][:, None]},
    "examples in another order": lambda v: {"contexts": v["contexts"][::-1].copy()},
    "an example twice": lambda v: {name: first_twice(v[name]) for name in INPUT_ARRAYS},
    "heads that lead themselves": lambda _: {"leaders": [0, 1, 2]},
    "a leader who is led": lambda _: {"leaders": [1, 2, 2]},
    "a leader beyond all heads": lambda _: {"leaders": [3, 3, 3]},
    "keys of zero": lambda _: {"uniform": 3},
    "fewer heads": lambda _: {"H": 2},
    "wider contexts": lambda _: {"n": 4},
    "more examples": lambda _: {"T": 15},
    "more outputs": lambda _: {"m": 2},
    "other readouts": lambda v: {"readouts": v["readouts"][::-1].copy()},
}


@by_rocq
@pytest.mark.parametrize("forged", FORGED)
def test_rocq_refuses_what_does_not_hold(forged):
    layer = LAYERS["equal heads"]
    made = instance_of(ONTO, *layer)
    assert made.values["leaders"] == [2, 2, 2]
    changed = replaced(made, **FORGED[forged](made.values))
    require_refused(changed, ONTO.known_of(*layer))


def test_data_of_smaller_rank_have_no_right_inverse():
    certificate, memorizer, _ = LAYERS["equal heads"]
    with pytest.raises(ParameterError, match=r"rows have rank 22 modulo \d+ in 45 columns, not 23"):
        instance_of(ONTO, certificate, memorizer, drawn(23, 3, 5))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prime": 1 << 22}, "not about these data"),
        ({"value": 1}, "not about these data"),
        ({"groups": [2]}, "cannot be read"),
        ({"query": ""}, "cannot be read"),
        ({"uniform": 0}, "cannot be read"),
        ({"head_dim": None}, "cannot be read"),
    ],
)
def test_other_evidence_is_refused(change, words):
    certificate, memorizer, data = LAYERS["equal heads"]
    with pytest.raises((FormatError, ParameterError), match=words):
        instance_of(ONTO, with_evidence(certificate, **change), memorizer, data)


def test_contexts_of_different_lengths_are_not_confirmed(tmp_path):
    data = drawn(14, 3, 5)
    contexts = [data.contexts[0, :2], *data.contexts[1:]]
    layer = memorized(Dataset(contexts, data.queries, data.targets), 3, 1)
    with pytest.raises(NotConfirmableError, match="contexts of one length") as caught:
        confirm(*saved(tmp_path, *layer))
    assert caught.value.witness == "lengths from 2 to 3"
