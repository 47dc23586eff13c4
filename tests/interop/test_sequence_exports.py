"""Sequence memorizers in floats, in PyTorch and in ONNX."""

from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from constructive import (
    OutputError,
    ParameterError,
    PrecisionError,
    SequenceDataset,
    build_sequence_memorizer,
    strategies,
)
from constructive.contextual.memorizer import expected_outputs

SAFE = {"step": "saturating", "max_word_bits": 52}


def problem(total=40, size=3, task="next", decimals=100):
    """Tokens of two decimals, most of which no float holds exactly, and 16 labels."""
    rng = np.random.default_rng(total)
    numbers = rng.integers(1000, size=(total, size, 2))
    tokens = [[[Fraction(int(x), decimals) for x in t] for t in row] for row in numbers]
    labels = rng.integers(16, size=(total, size) if task == "seq2seq" else total).tolist()
    return tokens, labels, task


def run_onnx(path, sequences):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (outputs,) = session.run(None, {"sequences": sequences})
    return outputs


@pytest.mark.parametrize("task", ["next", "last", "seq2seq"])
@pytest.mark.parametrize("backend", ["plain", "residual"])
def test_every_label_in_float64(tmp_path, task, backend):
    tokens, labels, _ = given = problem(task=task)
    memorizer = build_sequence_memorizer(*given[:2], task=task, backend=backend, **SAFE)
    assert memorizer.reproduced(SequenceDataset.of(*given)) == 1.0
    arrays = memorizer.arrays(tokens)
    module = memorizer.to_torch()
    found = module(torch.tensor(arrays)).round().detach().numpy()
    assert found.tolist() == labels
    memorizer.to_onnx(tmp_path / "m.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"), full_check=True)
    outputs = run_onnx(tmp_path / "m.onnx", arrays)
    assert outputs.dtype == np.float64
    assert np.rint(outputs).tolist() == labels
    assert run_onnx(tmp_path / "m.onnx", arrays[:3]).shape == np.shape(labels[:3])  # N is free


@settings(max_examples=30, deadline=None)
@given(strategies.sequence_problems(labels=st.integers(0, 1000)))
def test_small_problems_in_float64(given):
    memorizer = given.build(**SAFE)
    dataset = SequenceDataset.of(*given)
    assert memorizer.reproduced(dataset) == 1.0
    outputs = memorizer.to_torch()(torch.tensor(memorizer.arrays(given.sequences)))
    found = outputs.detach().numpy().reshape(-1)
    known = expected_outputs(memorizer.classes, dataset.classes)
    assert np.rint(found).tolist() == [known[label] for label in dataset.labels]


def test_long_words_are_lost_in_floats():
    tokens, labels, _ = given = problem(total=600)
    memorizer = build_sequence_memorizer(tokens, labels)
    assert memorizer.predict(tokens) == labels
    assert memorizer.largest_bits > 53
    assert memorizer.reproduced(SequenceDataset.of(*given)) < 0.9
    with pytest.raises(PrecisionError, match=r"a weight of \d+ bits is no number of float64"):
        memorizer.to_torch()


def test_few_sequences_fit_float32():
    given = problem(total=12, decimals=64)  # exact tokens
    memorizer = build_sequence_memorizer(
        *given[:2], step="saturating", max_word_bits=23, embedding="product_hash"
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
    with pytest.raises(PrecisionError, match="a weight of 1329 bits"):
        memorizer.to_torch()


def test_types_with_too_few_bits(tmp_path):
    memorizer = build_sequence_memorizer(["ab", "cd"], [1, 2], **SAFE)
    with pytest.raises(ParameterError, match=r"dtype=torch.bfloat16 has too few bits"):
        memorizer.to_torch(torch.bfloat16)
    with pytest.raises(OutputError, match="no such folder"):
        memorizer.to_onnx(tmp_path / "none" / "m.onnx")
    with pytest.raises(ParameterError, match="dtype=dtype"):
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
