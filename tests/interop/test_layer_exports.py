"""Layers and sequence memorizers as PyTorch modules and ONNX models, and modules as layers."""

import dataclasses
from fractions import Fraction

import numpy as np
import onnx
import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_decoder_exports import in_onnx
from torch import nn
from torch.nn.utils import prune

from constructive import (
    AttentionLayer,
    DataError,
    Dataset,
    Memorizer,
    OutputError,
    ParameterError,
    PrecisionError,
    SequenceDataset,
    TrainedRecord,
    Verdict,
    build_memorizer,
    build_sequence_memorizer,
    certify,
    check,
    generators,
    strategies,
)
from constructive.interop.pytorch import AttentionModule, MultiheadModule
from constructive.sequences.examples import expected_outputs

# Layers as PyTorch modules, and modules as layers.


def tensors(data):
    return torch.tensor(data.contexts), torch.tensor(data.queries)


def outputs(module, data, dtype=torch.float64):
    with torch.no_grad():
        return module(*(tensor.to(dtype) for tensor in tensors(data))).double().numpy()


def assert_read(module, data, atol=1e-12):
    """A module in evaluation mode gives what the layer that it is read as gives."""
    read = Memorizer.from_torch(module, data)
    seen = data.with_constant() if read.record.constant else data
    found = read.predict(seen.contexts, seen.queries)
    np.testing.assert_allclose(found, outputs(module.eval(), data), atol=atol)
    return read


def make(kind=generators.uniform, **options):
    return kind(num_examples=22, context_size=4, width=8, seed=3, **options)


def multihead(width=8, heads=4, target_dim=3, **options):
    torch.manual_seed(5)
    attention = nn.MultiheadAttention(width, heads, batch_first=True, **options)
    module = MultiheadModule(attention, nn.Linear(width, target_dim)).double()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "bias" in name:  # PyTorch starts with zeros
                parameter.normal_()
    return module


@pytest.mark.parametrize("construction", ["saturated", "rank_one", "paired"])
@pytest.mark.parametrize("target_dim", [None, 3])
def test_a_module_gives_what_numpy_gives(construction, target_dim):
    data = make(generators.uniform, target_dim=target_dim)
    memorizer = build_memorizer(data, num_heads=8, construction=construction)
    module = memorizer.to_torch()
    assert isinstance(module, AttentionModule)
    given = outputs(module, data)
    assert given.shape == data.targets.shape
    np.testing.assert_allclose(given, memorizer.predict(data.contexts, data.queries), atol=1e-8)
    assert np.abs(given - data.targets).max() < 1e-7


def test_rounded_modules_are_as_good_as_rounded_layers():
    data = make()
    memorizer = build_memorizer(data, num_heads=8)
    narrow = memorizer.to_torch(torch.float32)
    assert narrow.W_Q.dtype == torch.float32
    error = np.abs(outputs(narrow, data, torch.float32) - data.targets).max()
    assert 1e-9 < error < 1e-2
    assert error < 30 * memorizer.astype(np.float32).max_error(data)
    brief = memorizer.to_torch(torch.bfloat16)
    assert outputs(brief, data, torch.bfloat16).shape == data.targets.shape
    read = Memorizer.from_torch(brief)  # and what is left of the weights is read exactly
    assert read.layer.query_weights.dtype == np.float32
    assert (read.layer.query_weights == brief.W_Q.detach().float().numpy()).all()


@pytest.mark.parametrize("shared", [False, True])
def test_a_real_multihead_attention(shared):
    data = make(generators.shared_context if shared else generators.uniform, target_dim=2)
    some = data.take(range(13))  # H(n - 1) + 1
    memorizer = build_memorizer(some, num_heads=4, head_dim=2, value_dim=2)
    module = memorizer.to_torch(multihead=True)
    assert type(module.attention) is nn.MultiheadAttention
    assert type(module.readout) is nn.Linear
    np.testing.assert_allclose(
        outputs(module, some), memorizer.predict(some.contexts, some.queries), atol=1e-9
    )
    assert np.abs(outputs(module, some) - some.targets).max() < 1e-8
    again = Memorizer.from_torch(module)
    assert again.max_error(some) < 1e-8
    np.testing.assert_allclose(again.layer.query_weights, memorizer.layer.query_weights, rtol=1e-15)


def test_shapes_and_dtypes_that_modules_do_not_have():
    memorizer = build_memorizer(make(), num_heads=8)
    for kind in (torch.int32, np.float32, "float32", torch.complex64):
        with pytest.raises(ParameterError, match=r"is not a torch.dtype of real numbers"):
            memorizer.to_torch(kind)
    with pytest.raises(ParameterError, match="H = 8, d = 8, d_h = 4, d_v = 1") as caught:
        memorizer.to_torch(multihead=True)
    assert caught.value.witness == (8, 8, 4, 1)
    assert "head_dim=1, value_dim=1" in caught.value.suggestion


def test_a_module_of_ours_comes_back_bit_by_bit():
    memorizer = build_memorizer(make(), num_heads=8)
    again = Memorizer.from_torch(memorizer.to_torch())
    for name, array in memorizer.layer.tensors.items():
        assert (again.layer.tensors[name] == array).all()
    assert again.record == TrainedRecord("AttentionModule", scalar_targets=True, constant=False)
    assert "weights of an AttentionModule" in str(again)
    assert repr(again).startswith("Memorizer(of an AttentionModule, AttentionLayer(H=8, d=8")


def test_readouts_beyond_float64_are_not_exported(tmp_path):
    data = generators.integers(num_examples=3, context_size=3, width=4)
    memorizer = build_memorizer(data, num_heads=8, precision=80)
    for export in (memorizer.to_torch, lambda: memorizer.to_onnx(tmp_path / "m.onnx")):
        with pytest.raises(ParameterError, match="hold floats, not the weights of"):
            export()
    with pytest.raises(OutputError, match="no such folder"):
        build_memorizer(make(), num_heads=8).to_onnx(tmp_path / "none" / "m.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 8])
def test_a_module_with_biases_is_a_layer_for_data_with_a_constant(bias, heads):
    """As it is in evaluation mode, where dropout is off; also with a parametrized readout."""
    module, data = multihead(heads=heads, bias=bias, dropout=0.5).train(), make(target_dim=3)
    assert Memorizer.from_torch(module).layer.width == 9  # the readout has a bias in any case
    assert module.training
    assert_read(module, data)
    nn.utils.parametrizations.weight_norm(module.readout)
    assert_read(module, data)


def test_a_module_whose_first_axis_is_that_of_tokens():
    module, data = multihead(), make(target_dim=3)
    first = nn.MultiheadAttention(8, 4).double()
    first.load_state_dict(module.attention.state_dict())
    turned = MultiheadModule(first, module.readout)
    np.testing.assert_allclose(outputs(turned, data), outputs(module, data), atol=1e-14)
    read, again = Memorizer.from_torch(module, data), assert_read(turned, data)
    for name, array in read.layer.tensors.items():
        assert (again.layer.tensors[name] == array).all()


# Arrays of checkpoints.

SIZES = {"query": (12, 7), "key": (4, 7), "value": (10, 7), "output": (8, 30)}  # H = 6, G = 2
BIASES = {"query_bias": 12, "value_bias": 10, "output_bias": 8, "readout_bias": 3}


def checkpoint(kind=np.float64):
    rng = np.random.default_rng(2)
    projections = {name: rng.standard_normal(shape).astype(kind) for name, shape in SIZES.items()}
    biases = {name: rng.standard_normal(size).astype(kind) for name, size in BIASES.items()}
    return projections, rng.standard_normal((3, 8)).astype(kind), biases


@pytest.mark.parametrize("left_out", ["", "query_bias", "readout_bias", "all"])
def test_projections_with_grouped_keys_are_what_pytorch_computes(left_out):
    projections, readout, biases = checkpoint()
    biases = {name: bias for name, bias in biases.items() if left_out not in {name, "all"}}
    layer = AttentionLayer.from_projections(
        **projections, num_heads=6, num_kv_heads=2, readout=readout, **biases
    )
    assert (layer.width, layer.target_dim) == (7 + bool(biases), 3)
    data = generators.gaussian(num_examples=9, context_size=4, width=7)
    bias = {name: torch.tensor(biases.get(name, np.zeros(size))) for name, size in BIASES.items()}
    weights = {name: torch.tensor(array) for name, array in projections.items()}
    contexts, queries = tensors(data)
    of_keys = torch.linspace(-3, 3, 4)  # which softmax does not see
    parts = (
        nn.functional.linear(queries[:, None], weights["query"], bias["query_bias"]),
        nn.functional.linear(contexts, weights["key"], of_keys.double()),
        nn.functional.linear(contexts, weights["value"], bias["value_bias"]),
    )
    query, key, value = (
        part.unflatten(2, (heads, -1)).transpose(1, 2)
        for part, heads in zip(parts, (6, 2, 2), strict=True)
    )
    attended = nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    output = nn.functional.linear(attended.flatten(1), weights["output"], bias["output_bias"])
    wanted = nn.functional.linear(output, torch.tensor(readout), bias["readout_bias"])
    seen = data.with_constant() if biases else data
    np.testing.assert_allclose(layer(seen.contexts, seen.queries), wanted, atol=1e-12)


def test_projections_are_read_from_tensors_of_any_float():
    projections, _, _ = checkpoint(np.float32)
    short = {name: torch.tensor(array).bfloat16() for name, array in projections.items()}
    layer = AttentionLayer.from_projections(**short, num_heads=6, num_kv_heads=2)
    assert layer.key_weights.dtype == np.float64
    second = short["key"][2:].double().numpy().T  # of heads 3 to 5
    assert (second == layer.key_weights[3]).all()
    assert layer.readout_weights.tolist() == np.eye(8).tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 5}, "projections do not fit 5 heads with 2 of keys"),
        ({"num_kv_heads": 4}, "projections do not fit 6 heads with 4 of keys"),
        (
            {"num_kv_heads": 4, "key": np.ones((8, 7)), "value": np.ones((20, 7))},
            "projections do not fit 6 heads with 4 of keys",
        ),
        ({"num_kv_heads": None}, "projections do not fit 6 heads with 6 of keys"),
        ({"num_heads": 0}, "num_heads=0 is not a positive integer"),
        ({"query": np.ones((7, 12))}, "projections do not fit"),
        ({"output": np.ones((8, 10))}, "projections do not fit"),
        ({"readout": np.ones((8, 3))}, r"the readout \(8, 3\) does not fit outputs of 8"),
        ({"value_bias": np.ones(30)}, "value_bias has 30 entries, its projection 10 rows"),
        ({"key": np.ones(4)}, r"key projections have shape \(4,\)"),
        ({"value": [["a"]]}, "value projections has dtype"),
    ],
)
def test_projections_that_do_not_fit(change, message):
    projections, readout, biases = checkpoint()
    given = projections | biases | {"readout": readout, "num_heads": 6, "num_kv_heads": 2}
    with pytest.raises((ParameterError, DataError), match=message):
        AttentionLayer.from_projections(**given | change)


def test_trained_heads_have_no_groups_nor_full_rank_on_equal_inputs():
    data = make(target_dim=3)
    again = Dataset(data.contexts, data.queries, data.targets + 1)[:1]
    arrays = ("contexts", "queries", "targets")
    twice = Dataset(*(np.concatenate([getattr(x, n) for x in (data, again)]) for n in arrays))
    assert certify(multihead(), twice, claims=["rank"]).verdict is Verdict.REFUTED
    with pytest.raises(ParameterError, match="are not claims about trained heads"):
        certify(multihead(), data, claims=["grouping"])
    with pytest.raises(ParameterError, match="were not built here"):
        _ = Memorizer.from_torch(multihead()).built


def test_a_trained_module_is_certified(tmp_path):
    """Its Z has full rank; it memorizes within what training reached, and no better."""
    data = generators.gaussian(num_examples=20, context_size=4, width=8, target_dim=2, seed=1)
    module = multihead(target_dim=2)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    contexts, queries = tensors(data)
    targets = torch.tensor(data.targets)
    for _ in range(60):
        optimizer.zero_grad()
        loss = ((module(contexts, queries) - targets) ** 2).mean()
        loss.backward()
        optimizer.step()
    reached = np.abs(outputs(module, data) - data.targets).max()
    certificate = certify(module, data, epsilon=reached * 1.01)
    assert [claim.name for claim in certificate.claims] == ["rank", "error"]
    assert certificate["rank"].verdict is Verdict.PROVED
    assert certificate["error"].verdict is Verdict.PROVED
    better = certify(module, data, claims=["error"], epsilon=reached * 0.99)
    assert better.verdict is Verdict.REFUTED
    read = Memorizer.from_torch(module)
    read.save(tmp_path / "m.safetensors")
    data.with_constant().save(tmp_path / "d.npz")
    certify(module, data, claims=["rank", "error"], epsilon=reached * 1.01).save(
        tmp_path / "c.json"
    )
    paths = (tmp_path / name for name in ("c.json", "m.safetensors", "d.npz"))
    assert check(*paths).verdict is Verdict.PROVED
    assert Memorizer.load(tmp_path / "m.safetensors").record == read.record


ATTENTION = nn.MultiheadAttention(8, 2, batch_first=True)


class OtherArguments(MultiheadModule):
    def forward(self, tokens):
        return tokens


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            OtherArguments(ATTENTION, nn.Linear(8, 3)),
            r"forward\(contexts, queries\) of an OtherArguments fails",
        ),
        (nn.Linear(3, 4), "has 0 MultiheadAttention and 1 Linear, not one of each"),
        (multihead(add_bias_kv=True), "with bias_k or bias_v is not a layer"),
        (multihead(add_zero_attn=True), "with add_zero_attn is not a layer"),
        (multihead(kdim=5, vdim=5), "with kdim or vdim is not a layer"),
        (
            nn.TransformerEncoderLayer(8, 2, batch_first=True),
            "has 1 MultiheadAttention and 2 Linear, not one of each; it also has LayerNorm",
        ),
        (MultiheadModule(ATTENTION, nn.Linear(8, 3, dtype=torch.complex64)), "torch.complex64"),
        (MultiheadModule(ATTENTION, nn.LazyLinear(3)), "readout.weight .* is not there yet"),
        (multihead().to("meta"), "is not there yet"),
        ("module", "a str is not a torch.nn.Module"),
    ],
)
def test_modules_which_are_something_else(module, message):
    with pytest.raises(ParameterError, match=message):
        Memorizer.from_torch(module)


def test_a_network_is_told_to_take_states_after_its_norm():
    residual = wrapped(lambda f, c, q: f(c, q) + q[:, :1].sum(dim=1))
    for module in (nn.TransformerEncoderLayer(8, 2), residual):
        with pytest.raises(ParameterError, match="attention") as caught:
            Memorizer.from_torch(module)
        assert "hidden states after the norm" in caught.value.suggestion


def wrapped(change):
    class Changed(MultiheadModule):
        def forward(self, contexts, queries):
            return change(super().forward, contexts, queries)

    torch.manual_seed(0)
    module = Changed(nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 1),
                     scalar_targets=True)  # fmt: skip
    return module.double()


@pytest.mark.parametrize(
    ("change", "scale"),
    [
        (lambda f, c, q: torch.relu(f(c, q)), 1.0),
        (lambda f, c, q: f(c, q) + q[:, 0], 1.0),
        (lambda f, c, q: f(c, q).clamp(-5, 5), 100.0),
        (lambda f, c, q: f(c.clamp(-80, 80), q), 100.0),
        (lambda f, c, q: f(c[..., :8, :], q), 1.0),
    ],
)
def test_a_module_which_is_something_else_on_the_data_is_refused(change, scale):
    """Whether or not random tokens show it, the data to be certified do."""
    drawn = generators.gaussian(num_examples=300, context_size=12, width=8, seed=1)
    data = Dataset(scale * drawn.contexts, scale * drawn.queries, drawn.targets)
    with pytest.raises(ParameterError, match="computes something else than its attention"):
        certify(wrapped(change), data, claims=["error"])


def pruned(module):
    prune.custom_from_mask(module, "W_D", torch.zeros_like(module.W_D))


def hooked(module):
    module.register_forward_hook(lambda _module, _inputs, outputs: 2 * outputs)


def replaced(module):
    module.forward = lambda contexts, queries: queries.sum(dim=1) + 0 * contexts.sum()


def swapped(module):
    key = module.W_K
    del module.W_K
    module.register_parameter("W_K", nn.Parameter(key.detach().clone()))


def tied(module):
    module.W_K = module.W_Q


@pytest.mark.parametrize("change", [pruned, hooked, replaced, swapped, tied])
def test_modules_of_ours_that_were_changed_are_compared_or_read_by_names(change):
    data = make()
    module = build_memorizer(data, num_heads=8).to_torch()
    change(module)
    if change in (swapped, tied):
        assert_read(module, data, atol=1e-8)
        return
    with pytest.raises(ParameterError, match=r"computes something else|cannot be copied"):
        Memorizer.from_torch(module, data)


def test_data_of_another_width_are_refused():
    plain = build_memorizer(
        generators.gaussian(num_examples=10, context_size=4, width=9), num_heads=5
    ).to_torch()
    with pytest.raises(DataError, match=r"AttentionModule takes .* d=9 .* have d=8") as caught:
        certify(plain, make(), claims=["rank"])  # d = 8, and there are no biases
    assert caught.value.witness == 8
    assert "a module of d=8" in caught.value.suggestion
    wide = generators.gaussian(num_examples=12, context_size=4, width=9, target_dim=3)
    for far in (wide, make(target_dim=3)[:2].with_constant().with_constant()):
        with pytest.raises(DataError, match=f"d=8 .* have d={far.width}") as caught:
            certify(multihead(), far, claims=["rank"])  # biases, but the data are wide already
        assert "data of d=8 entries as they are" in caught.value.suggestion
    ours = build_memorizer(make(), num_heads=8).to_torch()
    with pytest.raises(DataError, match="d_out=2"):
        Memorizer.from_torch(ours, make(target_dim=2))
    with pytest.raises(DataError, match=r"or Dataset.with_constant\(\) for weights of a module"):
        certify(Memorizer.from_torch(multihead()), make(target_dim=3))


def test_one_number_a_target_and_several_do_not_go_together():
    module = multihead()  # three outputs
    module.scalar_targets = True  # and it hands out the first one
    with pytest.raises(ParameterError, match=r"gives outputs \(16,\); its attention and readout"):
        Memorizer.from_torch(module)
    layer = build_memorizer(make(target_dim=3), num_heads=8).layer
    with pytest.raises(ParameterError, match="scalar_targets=True, but the layer has d_out=3"):
        AttentionModule(layer, scalar_targets=True)
    with pytest.raises(ParameterError, match="scalar_targets=True, but the layer has d_out=3"):
        Memorizer(layer, TrainedRecord("a", scalar_targets=True, constant=False))
    with pytest.raises(ParameterError, match="the record is a str"):
        Memorizer(layer, "a")


def test_logits_too_sharp_to_compare():
    """A comparison which can say nothing is not a comparison."""
    module = multihead(bias=False, heads=1)
    with torch.no_grad():
        module.attention.in_proj_weight[:16] *= 1e8
    with pytest.raises(ParameterError, match="are too sharp, by a factor of"):
        Memorizer.from_torch(module)


def test_safetensors_files_have_the_documented_names(tmp_path):
    memorizer = build_memorizer(make(), num_heads=8)
    memorizer.save(tmp_path / "m.safetensors")
    with safetensors.safe_open(tmp_path / "m.safetensors", framework="pt") as file:
        assert sorted(file.keys()) == ["W_D", "W_K", "W_O", "W_Q", "W_V"]
        assert file.get_slice("W_Q").get_shape() == [8, 8, 4]  # (H, d, d_h)
    module = AttentionModule(
        build_memorizer(make(), num_heads=8, seed=9).layer, scalar_targets=True
    )
    module.load_state_dict(safetensors.torch.load_file(tmp_path / "m.safetensors"))
    np.testing.assert_allclose(outputs(module, make()), make().targets, atol=1e-9)


# Layers as ONNX models, run by onnxruntime.


@pytest.mark.parametrize("target_dim", [None, 3])
@pytest.mark.parametrize("shared", [False, True])
def test_onnxruntime_gives_what_numpy_gives(tmp_path, shared, target_dim):
    kind = generators.shared_context if shared else generators.uniform
    data = kind(num_examples=22, context_size=4, width=8, target_dim=target_dim)
    memorizer = build_memorizer(data, num_heads=8, value_dim=3)
    memorizer.to_onnx(tmp_path / "m.onnx", shared_context=shared)
    stored = onnx.load(tmp_path / "m.onnx").graph.initializer
    assert {tensor.name for tensor in stored} > {"W_Q", "W_K", "W_V", "W_O", "W_D"}
    model = in_onnx(tmp_path / "m.onnx")
    outputs = model(contexts=data.contexts, queries=data.queries)
    assert outputs.dtype == np.float64
    assert outputs.shape == data.targets.shape
    np.testing.assert_allclose(outputs, memorizer.predict(data.contexts, data.queries), atol=1e-9)
    first = data.take(range(5))
    some = model(contexts=first.contexts, queries=first.queries)  # T is free
    np.testing.assert_allclose(some, data.targets[:5], atol=1e-9)


# Sequence memorizers in floats, in PyTorch and in ONNX.


SAFE = {"construction": "float_separating_set", "max_word_bits": 52}


def problem(total=40, size=3, task="next", decimals=100):
    """Tokens of two decimals, most of which no float holds exactly, and 16 labels."""
    rng = np.random.default_rng(total)
    numbers = rng.integers(1000, size=(total, size, 2))
    tokens = [[[Fraction(int(x), decimals) for x in t] for t in row] for row in numbers]
    labels = rng.integers(16, size=(total, size) if task == "seq2seq" else total).tolist()
    return tokens, labels, task


@pytest.mark.parametrize("task", ["next", "last", "seq2seq"])
@pytest.mark.parametrize("construction", ["float_separating_set"])
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


@pytest.mark.parametrize("given", [problem(total=600)[:2], (["ab", "cd"], [0, 10**400])])
def test_what_no_float_holds(given, tmp_path):
    """Long words, long labels, weights of attention, and tokens."""
    memorizer = build_sequence_memorizer(*given)
    assert memorizer.predict(given[0]) == given[1]
    assert memorizer.largest_bits > 53
    assert memorizer.reproduced(SequenceDataset.of(*given)) < 0.9
    safe = build_sequence_memorizer(["ab", "cd"], [1, 2], **SAFE)
    values = (Fraction(1, 3), *safe.attention.value_weights[1:])
    attention = dataclasses.replace(safe.attention, value_weights=values)
    for each in (memorizer, dataclasses.replace(safe, attention=attention)):
        for export in (each.to_torch, lambda m=each: m.to_onnx(tmp_path / "m.onnx")):
            with pytest.raises(PrecisionError, match=r"a weight of \d+ bits is not a number of f"):
                export()
    far = build_sequence_memorizer([[0], [10**400]], [1, 2])
    assert far.reproduced(SequenceDataset.of([[0], [10**400]], [1, 2])) <= 0.5
    with pytest.raises(DataError, match="a token is beyond float64"):
        far.arrays([[0], [10**400]])


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
