"""Errors come in three parts, with one cause each, and are sent between processes."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.linalg import LinAlgError

from constructive import (
    Certificate,
    ConstructiveError,
    DataError,
    Dataset,
    Decoder,
    Memorizer,
    MissingExtraError,
    OutOfMemoryError,
    OutputError,
    ParameterError,
    PrecisionError,
    SequenceMemorizer,
    Text,
    assumptions,
    build_decoder,
    build_memorizer,
    certify,
    check,
    explain,
    fewest_heads,
    generators,
    token_mixing,
    upper_bound_certificate,
)
from constructive.constructions.multihead import readout
from constructive.support.errors import require, require_packages
from constructive.theory.capacity import fixed_capacity

# Errors of Python and numpy that a user can cause come in three parts, with one cause each.


@pytest.fixture(scope="module")
def data():
    return generators.uniform(num_examples=7, context_size=3, width=5)


@pytest.fixture(scope="module")
def memorizer(data):
    return build_memorizer(data, num_heads=3)


READERS = (
    Memorizer.load, Dataset.load, Dataset.open, Certificate.load, Text.load, Decoder.load,
    SequenceMemorizer.load,
)  # fmt: skip


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__qualname__)
def test_what_is_not_a_path_is_not_read(read, tmp_path):
    for path in (None, 5, b"x", "a\0b", ["data.npz"]):
        with pytest.raises(ParameterError, match="not the path of a file"):
            read(path)
    with pytest.raises(ConstructiveError):
        read(tmp_path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")


def test_what_is_not_a_path_is_not_written(data, memorizer, tmp_path):
    text, name = Text.words("a rat sat"), tmp_path / ("x" * 5000)
    for write in (data.save, data.save_folder, memorizer.save, memorizer.to_onnx, text.save):
        for path in (None, b"x", "a\0b"):
            with pytest.raises(ParameterError, match="not the path of a file"):
                write(path)
        with pytest.raises(OutputError, match="too long"):
            write(name)
    with pytest.raises(ConstructiveError, match="not there"):
        check(name, name, name)


# --- memory and linear algebra


@pytest.mark.parametrize(
    ("error", "ours", "witness"),
    [
        (MemoryError("9 PiB"), OutOfMemoryError, "9 PiB"),
        (MemoryError(), MemoryError, None),
        (LinAlgError("no convergence"), PrecisionError, "no convergence"),
        (OutOfMemoryError("more", witness=3, suggestion="less"), OutOfMemoryError, 3),
    ],
)
def test_builds_say_what_numpy_says(data, error, ours, witness, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(readout, "qr", fail)
    monkeypatch.setattr(readout, "cholesky", fail)
    with pytest.raises(ours) as caught:
        build_memorizer(data, num_heads=3)
    assert isinstance(caught.value, ConstructiveError)
    assert caught.value is error or caught.value.__cause__ is error
    assert caught.value.witness == witness


PUBLIC = (
    build_memorizer, build_decoder, certify, upper_bound_certificate, fixed_capacity, fewest_heads,
    assumptions.check, token_mixing, generators.uniform, Memorizer.predict,
    Memorizer.max_error,
)  # fmt: skip


@pytest.mark.parametrize("function", PUBLIC, ids=lambda function: function.__qualname__)
def test_public_functions_say_it_in_three_parts(function):
    assert function.__code__.co_name == "called"


def test_weights_may_vanish_whatever_is_asked_of_numpy():
    own = generators.gaussian(num_examples=30, context_size=3, width=8, seed=1)
    with np.errstate(all="raise"):
        memorizer = build_memorizer(own, num_heads=16, construction="saturated")
        assert certify(memorizer, own, claims=["rank"]).proved
        assert memorizer.max_error(own) < 1e-6


def test_what_is_not_installed_is_named_with_its_extra():
    with pytest.raises(MissingExtraError, match="the demo needs no_such_module") as caught:
        require("no_such_module.part", extra="demo", purpose="the demo")
    assert caught.value.witness == "no_such_module"
    assert ".[demo]" in caught.value.suggestion
    with pytest.raises(MissingExtraError, match="needs such-thing, which is not installed") as it:
        require_packages({"no_such_module": "such-thing"}, purpose="it")
    assert it.value.suggestion == "pip install such-thing"


# --- other arguments


@pytest.mark.parametrize("given", [None, 5, "data.npz", np.zeros((2, 2))], ids=repr)
def test_what_is_not_a_data_set_is_named(given):
    for function in (
        assumptions.check,
        token_mixing,
        build_memorizer,
        fewest_heads,
        lambda data: fixed_capacity(data, 2),
        lambda data: upper_bound_certificate(data, 2),
        lambda data: explain(data, num_heads=2),
    ):
        with pytest.raises(ParameterError, match="not a Dataset"):
            function(given)


def test_arrays_are_not_names(data, memorizer):
    array, certificate = np.zeros(2), certify(memorizer, data, claims="rank")
    for function in (
        lambda: build_memorizer(data, construction=array),
        lambda: build_memorizer(data, precision=array),
        lambda: certify(memorizer, data, claims=[array]),
        lambda: check(certificate, memorizer, data, max_memory=array),
        lambda: check(certificate, memorizer, data, max_memory=None),
    ):
        with pytest.raises(ParameterError):
            function()


def test_decoders_take_tokens_and_texts():
    decoder = build_decoder(Text.words("a rat sat"), width=16)
    for tokens in (None, 5, [["a"]], np.zeros((2, 2))):
        with pytest.raises(DataError, match="token"):
            decoder.ids(tokens)
    for text in (None, "a rat sat"):
        with pytest.raises(DataError, match="not a Text"):
            decoder.recites(text)


# --- numbers far from one


def scaled(size, every):
    rng = np.random.default_rng(1)
    contexts, queries = size * rng.standard_normal((6, 3, 5)), rng.standard_normal((6, 5))
    contexts[::2] *= every
    return Dataset(contexts, queries * size, rng.standard_normal(6))


@pytest.mark.parametrize("size", [1e-90, 1e90])
def test_logits_whose_squares_are_no_floats_are_scaled(size):
    data = scaled(size, 1.0)
    memorizer = build_memorizer(data, num_heads=6, construction="generic")
    assert memorizer.max_error(data) < 1e-9


@pytest.mark.parametrize("construction", ["saturated", "rank_one", "generic", "paired", "auto"])
def test_numbers_too_far_apart_are_refused_without_a_warning(construction):
    data = scaled(1e-90, 1e180)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConstructiveError):
            build_memorizer(data, num_heads=6, construction=construction, tolerance=1e-12)


# Errors are sent from one process to another, and keep their three parts.


KINDS = [ConstructiveError, *ConstructiveError.__subclasses__()]


@pytest.mark.parametrize("kind", [x for x in KINDS if x.__module__ == "constructive"])
def test_errors_are_pickled_and_copied(kind):
    error = kind("9 examples do not fit", witness=(9, "x"), suggestion="use 3 heads")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301
        assert type(other) is kind
        assert str(other) == str(error)
        assert vars(other) == vars(error)
