"""Contexts of different lengths: each example attends to its own tokens, and to no others."""

import numpy as np
import oracle
import pytest
from pytorch import torch

from constructive import (
    ConstructiveError,
    DataError,
    Dataset,
    FormatError,
    Memorizer,
    Padded,
    ParameterError,
    assumptions,
    build_memorizer,
    build_rational,
    certify,
    check,
    explain,
    generators,
    padded,
    token_mixing,
    upper_bound_certificate,
)
from constructive.theory.capacity import fixed_capacity

LENGTHS = [2, 4, 1, 3, 4, 2, 4, 3, 1, 2]


def draw(seed=0, lengths=LENGTHS, width=6):
    rng = np.random.default_rng(seed)
    contexts = [rng.standard_normal((length, width)) for length in lengths]
    queries = rng.standard_normal((len(lengths), width))
    return contexts, queries, rng.standard_normal(len(lengths))


@pytest.fixture(scope="module")
def parts():
    return draw()


@pytest.fixture(scope="module")
def data(parts):
    return Dataset(*parts)


@pytest.fixture(scope="module")
def memorizer(data):
    return build_memorizer(data)


# --- reading


def test_lists_of_arrays_are_read(parts, data):
    contexts, queries, targets = parts
    objects = np.empty(len(contexts), dtype=object)
    objects[:] = contexts
    tensors = [torch.tensor(tokens) for tokens in contexts]
    lists = [tokens.tolist() for tokens in contexts]
    for given in (tuple(contexts), objects, tensors, lists):
        assert Dataset(given, queries, targets) == data
    short = [tokens.bfloat16() for tokens in tensors]
    for read, wanted in ((data, contexts), (Dataset(short, queries, targets), short)):
        assert read.lengths.tolist() == LENGTHS
        for example, tokens in zip(read, wanted, strict=True):
            assert (torch.tensor(example.context) == torch.as_tensor(tokens)).all()
    assert read.context_dtype == np.float32


def test_a_mask_says_which_tokens_count(parts, data):
    contexts, queries, targets = parts
    rng = np.random.default_rng(0)
    given, mask = rng.standard_normal((10, 7, 6)), np.zeros((10, 7), int)
    for index, tokens in enumerate(contexts):
        places = np.sort(rng.permutation(7)[: len(tokens)])
        given[index, places], mask[index, places] = tokens, 1
    for form in (mask, mask.astype(bool), torch.tensor(mask), mask.tolist()):
        assert Dataset(padded(given, form), queries, targets) == data


def test_contexts_of_one_length_are_an_array():
    contexts, queries, targets = draw(lengths=[3, 3])
    assert Dataset(contexts, queries, targets).lengths is None
    given = padded(np.stack(contexts), np.ones((2, 3)))
    assert isinstance(given, np.ndarray)
    assert isinstance(padded(np.zeros((2, 3, 4)), [[1, 0, 0], [0, 0, 1]]), np.ndarray)
    assert Dataset(Padded(np.stack(contexts), np.array([3, 3])), queries, targets).lengths is None
    data = Dataset(*draw())
    assert isinstance(data[[0, 5]].contexts, np.ndarray)
    assert data[[0, 5]].context_size == 2
    assert data[[0, 2]].context_size == 2


def test_padding_repeats_the_first_token_whatever_it_was():
    contexts = Padded(np.arange(12.0).reshape(2, 3, 2), np.array([1, 3]))
    assert contexts.tokens[0].tolist() == [[0.0, 1.0]] * 3
    with pytest.raises(ValueError, match="read-only"):
        contexts.tokens[0, 0, 0] = 5.0


def read_list(second, *others):
    return Dataset([np.ones((2, 3)), second, *others], np.ones((2, 3)), np.ones(2))


def read_mask(*mask):
    return padded(np.ones((2, 3, 4)), mask)


def read_lengths(*lengths):
    return Padded(np.ones((2, 3, 4)), np.array(lengths))


@pytest.mark.parametrize(
    ("read", "given", "word"),
    [
        (read_list, [np.ones((1, 2))], "entries"),
        (read_list, [np.ones(3), np.ones((1, 3))], "shape"),
        (read_list, [np.ones((0, 3))], "shape"),
        (read_list, [np.full((1, 3), np.nan)], "nan"),
        (read_list, [[["a", "b", "c"]]], "dtype"),
        (read_list, [[[1, 2, 3], [1]]], "array"),
        (read_mask, np.ones((2, 2)), "fit"),
        (read_mask, np.full((2, 3), 0.5), "0 and 1"),
        (read_mask, [[1, 1, 1], [0, 0, 0]], "example 1"),
        (read_mask, [["a"] * 3] * 2, "0 and 1"),
        (read_mask, [[1], [1, 1]], "array"),
        (read_lengths, [1, 4], "is 4"),
        (read_lengths, [0, 3], "is 0"),
        (read_lengths, [1, 2], "longest"),
        (read_lengths, [1.5, 3], "float"),
        (read_lengths, [3], "fit"),
        (read_lengths, "ab", "fit"),
    ],
)
def test_other_lists_masks_and_lengths_are_refused(read, given, word):
    with pytest.raises(DataError, match=word):
        read(*given)


# --- what a dataset does


def test_a_data_set_sees_lengths(parts, data):
    contexts, _, _ = parts
    assert Dataset(*parts) == data
    assert data.filled != data
    assert data.filled.fingerprint() != data.fingerprint()
    assert hash(data[:]) == hash(data)
    assert "n=1 to 4" in repr(data)
    for example, tokens in zip(data.with_constant(), contexts, strict=True):
        assert (example.context == np.hstack([tokens, np.ones((len(tokens), 1))])).all()


def test_files_keep_lengths(data, tmp_path):
    data.save(tmp_path / "data.npz")
    assert Dataset.open(tmp_path / "data.npz") == data
    with np.load(tmp_path / "data.npz") as stored:
        arrays = dict(stored)
    assert arrays["lengths"].tolist() == LENGTHS
    arrays["contexts"][~data.contexts.mask] = 1e30
    np.savez(tmp_path / "other.npz", **arrays)  # what fills up is not read
    assert Dataset.open(tmp_path / "other.npz") == data
    with pytest.raises(DataError, match="folder"):
        data.save_folder(tmp_path / "folder")
    data.filled.save_folder(tmp_path / "folder")
    np.save(tmp_path / "folder" / "lengths.npy", data.lengths)
    with pytest.raises(FormatError, match="different lengths"):
        Dataset.open(tmp_path / "folder")


def test_inputs_are_equal_where_tokens_have_the_same_shares():
    a, b = np.eye(2)
    contexts = [[a, b], [b, a, a, b], [a, b, b], [a]]
    data = Dataset(contexts, np.ones((4, 2)), [1, 1, 2, 3])
    assert data.distinct().targets.tolist() == [1, 2, 3]
    with pytest.raises(DataError, match="same input"):
        Dataset(contexts, np.ones((4, 2)), [1, 0, 2, 3]).distinct()


# --- the layer


def test_the_layer_attends_to_own_tokens_only(parts, data, memorizer):
    contexts, queries, targets = parts
    layer = memorizer.layer
    rows = oracle.representations(layer.tensors, data.arrays)
    wanted = oracle.floats(rows).reshape(len(queries), -1)
    assert np.abs(layer.intermediate(contexts, queries) - wanted).max() < 1e-12
    assert np.abs(layer.intermediate(data.filled.contexts, queries) - wanted).max() > 1e-3
    attention = layer.attention(data.contexts, queries)
    assert not attention[~np.broadcast_to(data.contexts.mask[:, None], attention.shape)].any()
    for given in (contexts, data.contexts):
        assert np.abs(memorizer(given, queries) - targets).max() < 1e-9
    assert memorizer.max_error(data) < 1e-9
    assert abs(memorizer(*data[2][:2]) - targets[2]) < 1e-9
    assert memorizer.layer.astype(np.float32)(contexts, queries).dtype == np.float32


@pytest.mark.parametrize("multihead", [False, True])
def test_torch_modules_take_the_mask(parts, data, multihead):
    _, queries, targets = parts
    shapes = {"num_heads": 6, "head_dim": 1, "value_dim": 1} if multihead else {}
    module = build_memorizer(data, **shapes).to_torch(multihead=multihead)
    tokens, mask = torch.tensor(data.contexts.tokens), torch.tensor(data.contexts.mask)
    outputs = module(tokens, torch.tensor(queries), mask).detach().numpy()
    assert np.abs(outputs - targets).max() < 1e-9
    unmasked = module(tokens, torch.tensor(queries)).detach().numpy()
    assert np.abs(unmasked - targets).max() > 1e-3
    assert Memorizer.from_torch(module, data).max_error(data) < 1e-9


# --- capacity and proofs


def test_heads_are_as_few_as_contexts_allow(data):
    found = fixed_capacity(data, 2)
    assert found.at_least == found.at_most
    single = Dataset(*draw(lengths=[1, 1, 1, 2]))  # one token each: no directions to answer in
    assert fixed_capacity(single, 9).at_most == 4
    alone = Dataset(
        [np.ones((1, 2)), [[1, 2], [3, 4]], [[5, 6]], [[7, 9]]], np.eye(4)[:, :2], [0] * 4
    )
    assert fixed_capacity(alone, 1).at_most == 2
    assert fixed_capacity(alone, 9).at_most == 3  # a context of one token adds nothing per head


@pytest.mark.parametrize(
    "options",
    [{}, {"head_dim": 3}, {"precision": 106}, {"value_dim": 3}],
    ids=str,
)
def test_certificates_are_checked(parts, options):
    contexts, queries, _ = parts
    targets = np.random.default_rng(1).standard_normal((10, 2))
    data = Dataset(contexts, queries, targets)
    memorizer = build_memorizer(data, **options)
    certificate = certify(memorizer, data, claims=["rank", "error"])
    assert certificate.proved
    assert "n <= 4" in str(certificate)
    assert check(certificate, memorizer, data).proved
    assert not check(certificate, memorizer, data.filled).proved


# --- what does not take them


REFUSED = {
    "saturated": lambda data: build_memorizer(data, construction="saturated"),
    "rank one": lambda data: build_memorizer(data, construction="rank_one"),
    "paired": lambda data: build_memorizer(data, construction="paired"),
    "rational": lambda data: build_rational(data, num_heads=9),
    "assumptions": assumptions.check,
    "mixing": token_mixing,
    "upper bound": lambda data: upper_bound_certificate(data, 1),
    "array": lambda data: np.asarray(data.contexts),
    "method": lambda data: data.contexts.reshape(-1),
    "two axes": lambda data: data.contexts[:, 0],
    "sum": lambda data: np.ones((10, 4, 6)) + data.contexts,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_one_length_says_so(data, name):
    with pytest.raises(ConstructiveError, match=r"one length|different lengths") as caught:
        REFUSED[name](data)
    assert isinstance(caught.value, DataError | ParameterError)
    assert explain(data).plan.construction == "generic"


def test_paired_heads_are_judged_as_any_others_on_other_lengths():
    full = generators.gaussian(num_examples=13, context_size=3, width=7)
    memorizer = build_memorizer(full, num_heads=6, construction="paired")
    contexts = [tokens[: 1 + index % 3] for index, tokens in enumerate(full.contexts)]
    data = Dataset(contexts, full.queries, full.targets)
    assert certify(memorizer, data, claims="error").verdict.name == "REFUTED"
    certificate = certify(memorizer, data, claims="rank")
    assert certificate.proved
    assert check(certificate, memorizer, data).proved
