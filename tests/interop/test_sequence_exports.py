"""Sequence memorizers in floats, in PyTorch and in ONNX."""

import dataclasses
from fractions import Fraction

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import in_onnx

from constructive import (
    DataError,
    OutputError,
    ParameterError,
    PrecisionError,
    SequenceDataset,
    build_sequence_memorizer,
    strategies,
)
from constructive.sequences.examples import expected_outputs

SAFE = {"construction": "float_power_hash", "max_word_bits": 52}


def problem(total=40, size=3, task="next", decimals=100):
    """Tokens of two decimals, most of which no float holds exactly, and 16 labels."""
    rng = np.random.default_rng(total)
    numbers = rng.integers(1000, size=(total, size, 2))
    tokens = [[[Fraction(int(x), decimals) for x in t] for t in row] for row in numbers]
    labels = rng.integers(16, size=(total, size) if task == "seq2seq" else total).tolist()
    return tokens, labels, task


@pytest.mark.parametrize("task", ["next", "last", "seq2seq"])
@pytest.mark.parametrize("construction", ["float_separating_set", "float_power_hash"])
def test_every_label_in_float64(tmp_path, task, construction):
    tokens, labels, _ = given = problem(task=task)
    memorizer = build_sequence_memorizer(
        *given[:2], task=task, construction=construction, max_word_bits=52
    )
    assert memorizer.reproduced(SequenceDataset.of(*given)) == 1.0
    arrays = memorizer.arrays(tokens)
    module = memorizer.to_torch()
    found = module(torch.tensor(arrays)).round().detach().numpy()
    assert found.tolist() == labels
    memorizer.to_onnx(tmp_path / "m.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"), full_check=True)
    model = in_onnx(tmp_path / "m.onnx")
    outputs = model(sequences=arrays)
    assert outputs.dtype == np.float64
    assert np.rint(outputs).tolist() == labels
    assert model(sequences=arrays[:3]).shape == np.shape(labels[:3])  # N is free


@settings(max_examples=15)
@given(strategies.sequence_problems(labels=st.integers(0, 1000)))
def test_small_problems_in_float64(given):
    memorizer = given.build(**SAFE)
    dataset = SequenceDataset.of(*given)
    assert memorizer.reproduced(dataset) == 1.0
    outputs = memorizer.to_torch()(torch.tensor(memorizer.arrays(given.sequences)))
    found = outputs.detach().numpy().reshape(-1)
    known = expected_outputs(memorizer.classes, dataset.classes)
    assert np.rint(found).tolist() == [known[label] for label in dataset.labels]


def test_long_labels_and_means_which_are_rounded():
    """1/49 is not a float; 49/49 of it is off by a last bit, and labels of 30 bits see that."""
    rng = np.random.default_rng(9)
    tokens = rng.integers(100, size=(60, 49))
    labels = rng.integers(1 << 30, size=60).tolist()
    memorizer = build_sequence_memorizer(tokens, labels, **SAFE)
    assert memorizer.reproduced(SequenceDataset.of(tokens, labels)) == 1.0
    outputs = memorizer.to_torch()(torch.tensor(memorizer.arrays(tokens)))
    assert outputs.round().tolist() == labels


def test_tokens_beyond_all_floats():
    given = [[0], [10**400]], [1, 2]
    memorizer = build_sequence_memorizer(*given)
    assert memorizer.reproduced(SequenceDataset.of(*given)) <= 0.5
    with pytest.raises(DataError, match="a token is beyond float64"):
        memorizer.arrays(given[0])


def test_attention_which_no_float_holds(tmp_path):
    memorizer = build_sequence_memorizer(["ab", "cd"], [1, 2], **SAFE)
    values = (Fraction(1, 3), *memorizer.attention.value_weights[1:])
    attention = dataclasses.replace(memorizer.attention, value_weights=values)
    other = dataclasses.replace(memorizer, attention=attention)
    for export in (other.to_torch, lambda: other.to_onnx(tmp_path / "m.onnx")):
        with pytest.raises(PrecisionError, match="a weight of 1 bits is not a number of float64"):
            export()


def test_long_words_are_lost_in_floats():
    tokens, labels, _ = given = problem(total=600)
    memorizer = build_sequence_memorizer(tokens, labels)
    assert memorizer.predict(tokens) == labels
    assert memorizer.largest_bits > 53
    assert memorizer.reproduced(SequenceDataset.of(*given)) < 0.9
    with pytest.raises(PrecisionError, match=r"a weight of \d+ bits is not a number of float64"):
        memorizer.to_torch()


def test_few_sequences_fit_float32():
    given = problem(total=12, decimals=64)  # exact tokens
    memorizer = build_sequence_memorizer(
        *given[:2], construction="float_separating_set", max_word_bits=23
    )
    dataset = SequenceDataset.of(*given)
    assert memorizer.reproduced(dataset, np.float32) == 1.0
    module = memorizer.to_torch(torch.float32)
    found = module(torch.tensor(memorizer.arrays(given[0], np.float32)))
    assert found.dtype == torch.float32
    assert found.round().tolist() == given[1]


def test_labels_which_no_float_holds():
    memorizer = build_sequence_memorizer(["ab", "cd"], [0, 10**400])
    assert memorizer.reproduced(SequenceDataset.of(["ab", "cd"], [0, 10**400])) < 1
    with pytest.raises(PrecisionError, match=r"a weight of \d+ bits"):
        memorizer.to_torch()


def test_types_with_too_few_bits(tmp_path):
    memorizer = build_sequence_memorizer(["ab", "cd"], [1, 2], **SAFE)
    with pytest.raises(ParameterError, match=r"dtype=torch.bfloat16 has too few bits"):
        memorizer.to_torch(torch.bfloat16)
    with pytest.raises(OutputError, match="no such folder"):
        memorizer.to_onnx(tmp_path / "none" / "m.onnx")
    with pytest.raises(ParameterError, match=r"dtype=<class 'numpy.int64'> is neither"):
        memorizer.to_onnx(tmp_path / "m.onnx", np.int64)
    assert list(tmp_path.iterdir()) == []


def test_attention_of_the_module_is_uniform():
    memorizer = build_sequence_memorizer(["ab", "cd"], [1, 2], **SAFE)
    module = memorizer.to_torch()
    assert not module.W_Q.any()
    assert not module.W_K.any()
    assert module.W_V.flatten().tolist() == [2.0, 0.0]
    assert sum(p.count_nonzero().item() for p in module.parameters()) == (
        memorizer.nonzero_parameters
    )
    assert sum(p.numel() for p in module.parameters()) == memorizer.total_parameters
