"""`check --rocq`: what the file for Rocq says, and what Rocq proves of it or refuses."""

import base64
import dataclasses
import shutil
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

from constructive import (
    FormatError,
    ParameterError,
    build_memorizer,
    certify,
    cli,
    generators,
)
from constructive.certificates.rocq import confirm
from constructive.certificates.rocq.confirm import axioms, confirm_rank, instance_of
from constructive.certificates.rocq.instance import DEFINITIONS, write
from constructive.certificates.rocq.reading import read, require_same
from constructive.certificates.rocq.witness import cleared, right_inverse
from constructive.exact import modular
from constructive.layers.residues import Point

needs_rocq = pytest.mark.skipif(shutil.which("coqc") is None, reason="Rocq (coqc) is not installed")


def layers():
    own = generators.uniform(num_examples=7, context_size=3, width=5, seed=0)
    shared = generators.shared_context(num_examples=7, context_size=3, width=5)
    one = build_memorizer(own, num_heads=3, construction="rank_one")
    return {
        "own": (build_memorizer(own, num_heads=3), own),
        "shared": (build_memorizer(shared, num_heads=3), shared),
        "rank one": (one, own),
        "float32": (one.astype("float32"), own),
    }


LAYERS = layers()


def instance(name="own"):
    memorizer, data = LAYERS[name]
    return instance_of(certify(memorizer, data, claims=["rank"]), memorizer, data)


def value_of(x, exponent):
    """A number as the file has it, by fractions."""
    sign, whole, shift = x.split()
    size = int(whole) * 2 ** int(shift) * Fraction(2) ** exponent
    return -size if sign == "Minus" else size


@pytest.mark.parametrize("name", LAYERS)
def test_every_number_of_the_file_is_the_stored_one(name):
    memorizer, data = LAYERS[name]
    text = write(instance(name))
    lines = dict(
        line.removeprefix("Definition ").removesuffix(".").split(" := ", 1)
        for line in text.splitlines()
        if line.startswith("Definition ") and " := " in line
    )
    lines = {key.split()[0]: value for key, value in lines.items()}
    stored = {
        "shared_context" if data.shared_context else "contexts": data.contexts,
        "queries": data.queries,
        "query_weights": memorizer.layer.query_weights,
        "key_weights": memorizer.layer.key_weights,
    }
    for key, array in stored.items():
        words = lines[key].removesuffix("%uint63").replace("[::", "").replace("]", "")
        power = lines[f"{'contexts' if key == 'shared_context' else key}_exponent"]
        exponent = int(power.removesuffix("%:Z)%R").removeprefix("(").replace(" ", ""))
        values = [value_of(x, exponent) for x in words.split(";")]
        assert values == [Fraction(x) for x in array.ravel().tolist()]
    if data.shared_context:
        assert lines["contexts"] == "nseq T shared_context"


@pytest.mark.parametrize("name", LAYERS)
def test_what_is_written_is_read_back(name):
    made = instance(name)
    found = read(write(made))
    assert require_same(found, made.arrays) == sum(x.size for x in made.arrays.values())
    for field in ("columns", "inverse", "prime", "value"):
        assert np.array_equal(getattr(found, field), getattr(made, field))


def test_numbers_of_all_sizes_are_read_back():
    made = instance()
    queries = np.array([[5e-324, -1e308, 0.0, -0.1, 2.0**-1074]] * 7)
    changed = dataclasses.replace(made, queries=queries)
    assert np.array_equal(read(write(changed)).queries, queries)


def with_line(text, name, value):
    """The text with another value of a definition."""
    start = text.index(f"Definition {name} : {DEFINITIONS[name]} := ")
    stop = text.index(".\n", start)
    return f"{text[:start]}Definition {name} : {DEFINITIONS[name]} := {value}{text[stop:]}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("= T.", "= 0."), "its beginning or its end"),
        (lambda text: "Unset Guard Checking.\n" + text, "its beginning or its end"),
        (lambda text: with_line(text, "n", "4%N"), "its sizes"),
        (lambda text: with_line(text, "n", "3%N). Definition x := (3%N"), "the value of n"),
        (lambda text: with_line(text, "order", "5%uint63"), "its sizes"),
        (lambda text: with_line(text, "queries", "[::[::Plus x 0]]%uint63"), "of queries"),
        (lambda text: with_line(text, "inverse", "[::[::[::0-1]]]%uint63"), "of inverse"),
        (lambda text: with_line(text, "columns", "[::[::negb true]]"), "of columns"),
        (
            lambda text: with_line(text, "queries", f"[::[::Plus {1 << 60} 0]]%uint63"),
            "a number of queries",
        ),
        (lambda text: text.replace("Definition d :", "Definition e :"), "the definition of d"),
        (
            lambda text: text.replace("Lemma checked", "Definition x := 1.\nLemma checked"),
            "its sizes",
        ),
        (
            lambda text: text.replace(
                "Definition T :", "Definition U : nat := 1%N.\nDefinition T :"
            ),
            "the definition of T",
        ),
    ],
)
def test_a_file_with_anything_else_is_refused(change, words):
    with pytest.raises(FormatError, match="this is no file for Rocq") as caught:
        read(change(write(instance())))
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["contexts", "queries", "query_weights", "key_weights"])
def test_one_number_which_is_not_the_stored_one_is_found(name):
    made = instance()
    other = made.arrays[name].copy()
    other.flat[3] = np.nextafter(other.flat[3], 9)
    with pytest.raises(FormatError, match=rf"{name}\[.*\] is .* is stored"):
        require_same(read(write(made)), {**made.arrays, name: other})
    with pytest.raises(FormatError, match=f"{name} have shape"):
        require_same(read(write(made)), {**made.arrays, name: other[:1]})


def test_the_witness_is_a_right_inverse():
    memorizer, data = LAYERS["own"]
    made = instance()
    matrix = cleared(memorizer.layer, data, Point(made.prime, made.value)).astype(np.int64)
    product = matrix[:, made.columns].astype(object) @ made.inverse.astype(object)
    assert (product % made.prime == np.eye(7)).all()


def test_rows_are_times_the_denominators():
    """By integers of Python: W_K W_Q^T e, powers and sums."""
    memorizer, data = LAYERS["own"]
    p, a = 4194287, 1234567

    def whole(array):
        unit = Fraction(2) ** modular.least_exponent(array)
        return np.vectorize(lambda x: int(Fraction(x) / unit), otypes=[object])(array)

    arrays = data.contexts, data.queries, memorizer.layer.query_weights, memorizer.layer.key_weights
    contexts, queries, w_q, w_k = map(whole, arrays)
    expected = []
    for context, query in zip(contexts, queries, strict=True):
        powers = [
            [pow(a, int(k), p) for k in context @ (key @ (read.T @ query))]
            for read, key in zip(w_q, w_k, strict=True)
        ]
        product = np.prod([sum(row) for row in powers], dtype=object)
        expected.append([x * (product // sum(row)) for row in powers for x in row @ context])
    found = cleared(memorizer.layer, data, Point(p, a)).astype(np.int64)
    assert ((found - np.array(expected)) % p == 0).all()


def test_dependent_columns_have_no_right_inverse():
    with pytest.raises(ParameterError, match="Z has rank 1 modulo 1009 in 2 columns, not 2"):
        right_inverse(np.array([[1.0, 2.0], [2.0, 4.0]]), np.array([0, 1]), 1009)


def test_certificates_of_something_else_are_refused():
    memorizer, data = LAYERS["own"]
    with pytest.raises(FormatError, match="does not claim that rank is PROVED"):
        instance_of(certify(memorizer, data, claims=["error"]), memorizer, data)
    certificate = certify(memorizer, data, claims=["rank"])
    claim = certificate["rank"]
    for change, words in (
        ({"columns": base64.b64encode(b"\0" * 28).decode()}, "not about these weights"),
        ({"value": 1}, "not about these weights"),
        ({"prime": None}, "cannot be read"),
    ):
        forged = dataclasses.replace(claim, evidence={**claim.evidence, **change})
        with pytest.raises((FormatError, ParameterError), match=words):
            instance_of(dataclasses.replace(certificate, claims=(forged,)), memorizer, data)


def test_axioms_are_read():
    assert axioms("nothing") is None
    assert axioms("Axioms:\nfalse\n  : False\n") == {"false"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["c", "w", "d", "--folder", "x"], "--folder is for Rocq"),
        (["c", "d", "--rocq"], "the rank of one layer"),
        (["c", "w", "d", "--rocq", "--quick"], "never quick"),
    ],
)
def test_options_which_do_not_go_together(arguments, words):
    assert words in str(CliRunner().invoke(cli.app, ["check", *arguments]).exception)


@pytest.fixture(scope="module")
def theory(tmp_path_factory):
    return tmp_path_factory.mktemp("theory")


def saved(folder, memorizer, data):
    files = folder / "c.json", folder / "m.safetensors", folder / "d.npz"
    things = certify(memorizer, data, claims=["rank"]), memorizer, data
    for thing, path in zip(things, files, strict=True):
        thing.save(path)
    return files


@needs_rocq
@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_rocq_proves_the_rank(name, tmp_path, theory):
    done = confirm_rank(*saved(tmp_path, *LAYERS[name]), folder=theory)
    assert done.proved, done.report
    assert "rank Z = T = 7" in done.report
    size = sum(x.size for x in instance(name).arrays.values())
    assert done.report.startswith(f"read back: {size} numbers")


@needs_rocq
@pytest.mark.slow
@pytest.mark.parametrize("forged", ["inverse", "weights", "point", "order", "contexts"])
def test_rocq_refuses_what_does_not_hold(forged, tmp_path, theory, monkeypatch):
    """A wrong witness; a layer of smaller rank; an a whose powers are not what they should be."""

    def changed(made):
        if forged == "inverse":
            made.inverse[2, 3] += 1
        elif forged == "weights":  # three heads are one: rank Z <= 5
            made.query_weights[1:] = made.query_weights[0]
            made.key_weights[1:] = made.key_weights[0]
        elif forged == "point":
            return dataclasses.replace(made, value=made.value + 1)
        elif forged == "order":  # a^(p - 1) is not 1 modulo what is no prime
            return dataclasses.replace(made, prime=made.prime + 1)
        else:
            return dataclasses.replace(made, contexts=made.contexts[::-1].copy())
        return made

    def copied(made):
        arrays = {name: array.copy() for name, array in made.arrays.items()}
        return dataclasses.replace(made, **arrays, inverse=made.inverse.copy())

    monkeypatch.setattr(confirm, "instance_of", lambda *given: changed(copied(instance_of(*given))))
    done = confirm_rank(*saved(tmp_path, *LAYERS["own"]), folder=theory)
    assert not done.proved
    assert "NOT PROVED: Rocq refuses" in done.report


@needs_rocq
@pytest.mark.slow
def test_the_command(tmp_path, theory):
    files = list(map(str, saved(tmp_path, *LAYERS["own"])))
    done = CliRunner().invoke(cli.app, ["check", *files, "--rocq", "--folder", str(theory)])
    assert done.exit_code == 0, done.output
    assert done.output.endswith("PROVED\n")
