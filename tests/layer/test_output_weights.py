"""W_O and W_D of built layers: exact, and such that kernels that mistake them are found."""

from dataclasses import replace

import numpy as np
import pytest
from definition import output
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from constructive import AttentionLayer, Dataset, RationalDataset, build_memorizer, generators
from constructive.constructions.planning import CONSTRUCTIONS
from constructive.layers.attention import Outputs, SignedCycles, drawn
from constructive.strategies import memorizable


def blocks(layer):
    """W_O of each head (H, d_v, d_o)."""
    return layer.output_weights.reshape(layer.num_heads, layer.value_dim, -1)


def with_output(layer, output):
    return replace(layer, output_weights=np.ascontiguousarray(output))


def with_blocks(layer, changed):
    return with_output(layer, changed.reshape(-1, changed.shape[2]))


MISTAKES = {
    "heads reversed": lambda layer: with_blocks(layer, blocks(layer)[::-1]),
    "heads rotated": lambda layer: with_blocks(layer, np.roll(blocks(layer), 1, axis=0)),
    "entries of heads interleaved": lambda layer: with_blocks(
        layer,
        blocks(layer)
        .reshape(layer.value_dim, layer.num_heads, -1)
        .transpose(1, 0, 2)
        .reshape(blocks(layer).shape),
    ),
    "W_O transposed": lambda layer: with_output(
        layer, layer.output_weights.reshape(layer.output_weights.shape[::-1]).T
    ),
    "blocks of W_O transposed": lambda layer: with_blocks(layer, blocks(layer).transpose(0, 2, 1)),
    "W_D transposed": lambda layer: replace(layer, readout_weights=layer.readout_weights.T),
    "values summed, without W_O": lambda layer: with_output(
        layer, np.concatenate([np.eye(layer.value_dim)] * layer.num_heads)
    ),
    "no W_D": lambda layer: replace(layer, readout_weights=np.eye(layer.target_dim)),
    "the W_O of one head for all": lambda layer: with_blocks(
        layer, np.repeat(blocks(layer)[:1], layer.num_heads, axis=0)
    ),
}


def oracle(mistake):
    """The documented one, for a kernel that uses other weights than it is given."""

    @settings(max_examples=30, database=None, phases=[Phase.generate])
    @given(memorizable())
    def test(problem):
        data, layer = problem.dataset, problem.build().layer
        wrong = mistake(layer)
        outputs = [output(wrong, *data[t][:2]) for t in range(data.num_examples)]
        assert np.abs(outputs - data.target_matrix).max() < 1e-6

    return test


def test_the_oracle_passes_a_kernel_that_is_right():
    oracle(lambda layer: layer)()


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_the_oracle_finds(mistake):
    with pytest.raises(AssertionError):
        oracle(mistake)()


def built_by_each():
    """A layer of each construction, with two heads or more, and the data."""
    wide = generators.gaussian(num_examples=7, context_size=3, width=5, target_dim=3, seed=2)
    for name in CONSTRUCTIONS:
        narrow = {"value_dim": 2} if name == "narrow_values" else {}
        yield pytest.param(wide, {"construction": name, "num_heads": 4, **narrow}, id=name)


@pytest.mark.parametrize(("data", "options"), list(built_by_each()))
def test_every_construction_tells_heads_apart(data, options):
    memorizer = build_memorizer(data, **options)
    layer = memorizer.layer
    assert memorizer.max_error(data) < 1e-8
    assert (np.frexp(np.abs(layer.readout_weights[layer.readout_weights != 0]))[0] == 0.5).all()
    assert (layer.readout_weights != 0).sum() == data.target_dim
    assert not np.array_equal(layer.readout_weights, layer.readout_weights.T)
    own = blocks(layer)
    for head, block in enumerate(own):
        assert not any(np.array_equal(block, other) for other in own[:head])
    right = layer(data.contexts, data.queries)
    wrong = MISTAKES["heads reversed"](layer)(data.contexts, data.queries)
    assert np.abs(right - wrong).max() > 1e-3


def test_the_seed_draws_them():
    data = generators.gaussian(num_examples=4, context_size=3, width=5, target_dim=2)
    first, again, other = (build_memorizer(data, num_heads=3, seed=s).layer for s in (0, 0, 1))
    assert np.array_equal(first.output_weights, again.output_weights)
    assert not np.array_equal(first.output_weights, other.output_weights)


def test_extended_readouts_keep_every_bit():
    data = generators.gaussian(num_examples=4, context_size=3, width=5, target_dim=2)
    memorizer = build_memorizer(data, num_heads=3, value_dim=3, precision=212)
    assert 0 < memorizer.max_error(data) < 1e-50
    assert not (blocks(memorizer.layer.leading)[0] == blocks(memorizer.layer.leading)[1]).all()


def test_rational_layers_stay_as_they_are():
    data = RationalDataset([[1, 0], [1, 1]], [[2, 3], [4, 6]], [5, 7])
    memorizer = build_memorizer(data, num_heads=2, arithmetic="rational")
    assert (memorizer.predict(data.contexts, data.queries) == data.targets).all()


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 5), st.integers(1, 5),
    st.sampled_from(["identities", "any"]),
)  # fmt: skip
def test_products_keep_their_bits(seed, heads, value_dim, between, kind):
    """proposition (1), with the weights of a kernel that sums over all entries."""
    rng = np.random.default_rng(seed)
    if kind == "identities":
        between = value_dim
        output = np.concatenate([np.eye(value_dim)] * heads)
    else:
        output = rng.standard_normal((heads * value_dim, between))
    target_dim = int(rng.integers(1, between + 1))
    layer = AttentionLayer(
        *rng.standard_normal((2, heads, 4, 2)),
        rng.standard_normal((heads, 4, value_dim)),
        output,
        np.eye(between)[:, :target_dim],
    )
    after = layer.with_outputs(rng)
    sizes = [
        np.abs(x.value_weights) @ np.abs(blocks(x)) @ np.abs(x.readout_weights)
        for x in (layer, after)
    ]
    if kind == "identities":
        assert np.array_equal(layer.effective_readout, after.effective_readout)
        assert np.array_equal(*sizes)
        assert np.count_nonzero(after.output_weights) == np.count_nonzero(output)
        assert after.num_parameters == layer.num_parameters
        symmetric = blocks(after) == blocks(after).transpose(0, 2, 1)
        assert value_dim == 1 or not symmetric.all(axis=(1, 2)).any()
    else:  # the order of summands is another one
        np.testing.assert_allclose(after.effective_readout, layer.effective_readout, atol=1e-13)
        np.testing.assert_allclose(*sizes, rtol=1e-13)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 6))
def test_cycles_do_what_they_say(seed, count, size):
    rng = np.random.default_rng(seed)
    cycles = SignedCycles.draw(count, size, (0.125, 0.25, 0.5, 2.0, 4.0, 8.0), rng)
    dense = cycles.times(np.broadcast_to(np.eye(size), (count, size, size)))
    matrices = rng.standard_normal((count, 3, size))
    assert np.array_equal(cycles.undone(matrices @ dense), matrices)
    last = SignedCycles.draw(1, size, (2.0,), rng)
    product = dense @ last.times(np.eye(size)[np.newaxis])
    assert np.array_equal(
        cycles.then(last).times(np.eye(size)[np.newaxis].repeat(count, 0)), product
    )
    assert size == 1 or not (dense == dense.transpose(0, 2, 1)).all(axis=(1, 2)).any()
    for distance in range(1, min(6, count)):
        assert (dense[distance:] != dense[:-distance]).any(axis=(1, 2)).all()
    if count > 1:
        assert (dense != dense[::-1]).any()


@pytest.mark.parametrize("size", [5e-324, 1e-306, 1e308])
def test_weights_at_the_ends_of_the_range_keep_their_bits(size):
    values = np.full((2, 1, 2), size)
    given = Outputs((values,), np.concatenate([np.eye(2)] * 2), np.eye(2))
    rng = np.random.default_rng(0)
    after = drawn(given, rng)
    assert np.array_equal(np.abs(after.values[0]), values)
    assert set(np.abs(after.output).ravel()) == {0.0, 1.0}
    apart = drawn(given._replace(values=(np.ones((2, 1, 2)),)), rng)
    assert 1.0 not in np.abs(apart.output)


def test_a_head_order_is_seen_by_multihead_attention():
    """Weights of `torch.nn.MultiheadAttention` differ from head to head, too."""
    torch = pytest.importorskip("torch")
    data = Dataset(
        np.eye(4)[:3], [[1, 2, 3, 4], [4, 3, 2, 1], [1, 0, 1, 0]], [[1, 2], [3, 4], [5, 7]]
    )
    memorizer = build_memorizer(data, num_heads=2, head_dim=2, value_dim=2)
    module = memorizer.to_torch(multihead=True)
    contexts = torch.tensor(np.broadcast_to(data.contexts, (3, 3, 4)).copy())
    right = module(contexts, torch.tensor(data.queries)).detach().numpy()
    assert np.abs(right - data.targets).max() < 1e-9
    with torch.no_grad():
        output = module.attention.out_proj.weight
        output.copy_(torch.cat([output[:, 2:], output[:, :2]], dim=1))
    wrong = module(contexts, torch.tensor(data.queries)).detach().numpy()
    assert np.abs(wrong - data.targets).max() > 1e-3
