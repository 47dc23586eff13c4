"""The layer against its definition, what may be handed to a memorizer, and its output weights."""

import importlib.util
import subprocess
import sys
from dataclasses import replace

import numpy as np
import oracle
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pytorch import torch

from constructive import (
    AttentionLayer,
    CausalLayer,
    DataError,
    Dataset,
    ParameterError,
    build_memorizer,
    generators,
)
from constructive.constructions.choice import CONSTRUCTIONS
from constructive.exact import modular
from constructive.exact.softmax import Point, Residues
from constructive.layers.attention import CausalView, attend
from constructive.layers.layer import Outputs, SignedCycles, drawn
from constructive.strategies import memorizable

# The layer against its definition, written out example by example.


def random_layer(rng, heads=3, width=5, head_dim=2, value_dim=4, between=4, target_dim=2):
    draw = rng.standard_normal
    return AttentionLayer(
        draw((heads, width, head_dim)),
        draw((heads, width, head_dim)),
        draw((heads, width, value_dim)),
        draw((heads * value_dim, between)),
        draw((between, target_dim)),
    )


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 9), st.booleans(), st.sampled_from([1, 4 << 20]),
    st.sampled_from([(4, 4, 2), (1, 7, 3), (2, 3, 4)]),
)  # fmt: skip
def test_forward_pass_is_the_definition(seed, examples, shared, chunk_bytes, shape):
    """Values may be narrower than targets, too."""
    rng = np.random.default_rng(seed)
    value_dim, between, target_dim = shape
    layer = random_layer(rng, value_dim=value_dim, between=between, target_dim=target_dim)
    heads = layer.effective_readout.reshape(3, 5, target_dim)
    assert (np.linalg.matrix_rank(heads) <= value_dim).all()
    contexts = rng.standard_normal((4, 5) if shared else (examples, 4, 5))
    queries = rng.standard_normal((examples, 5))
    outputs = layer(contexts, queries, chunk_bytes=chunk_bytes)
    attention = layer.attention(contexts, queries, chunk_bytes=chunk_bytes)
    representation = layer.intermediate(contexts, queries, chunk_bytes=chunk_bytes)
    given = {"contexts": contexts, "queries": queries}
    wanted = oracle.floats(oracle.outputs(layer.tensors, given))
    z = oracle.floats(oracle.representations(layer.tensors, given)).reshape(examples, -1)
    seen = zip([contexts] * examples if shared else contexts, queries, strict=True)
    alpha = oracle.floats([list(oracle.attended(layer.tensors, *each)) for each in seen])
    np.testing.assert_allclose(outputs, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(attention, alpha, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(representation, z, rtol=1e-9, atol=1e-10)


def test_float32_weights_compute_in_float32():
    rng = np.random.default_rng(0)
    layer = random_layer(rng)
    contexts, queries = rng.standard_normal((6, 4, 5)), rng.standard_normal((6, 5))
    single = layer.astype(np.float32)
    outputs = single(contexts, queries)
    assert outputs.dtype == single.intermediate(contexts, queries).dtype == np.float32
    np.testing.assert_allclose(outputs, layer(contexts, queries), rtol=1e-3, atol=1e-4)


def test_huge_logits_do_not_overflow():
    ones = np.ones((1, 2, 1))
    layer = AttentionLayer.from_effective_readout(1e150 * ones, 1e150 * ones, np.ones((2, 1)))
    assert layer([[[1.0, 0.0], [0.0, 2.0]]], [[1.0, 1.0]]).tolist() == [[2.0]]


def test_effective_readout_is_copied_through_wider_values():
    rng = np.random.default_rng(0)
    readout = rng.standard_normal((3 * 5, 2))
    weights = rng.standard_normal((2, 3, 5, 2))
    layer = AttentionLayer.from_effective_readout(*weights, readout, value_dim=4)
    assert (layer.effective_readout == readout).all()
    assert layer.num_parameters == 3 * (2 * 5 * 2 + 5 * 4 + 16) + 4 * 2
    after = layer.with_outputs(rng)
    assert (after.effective_readout == readout).all()
    assert np.count_nonzero(after.output_weights) == 3 * 4


def test_values_narrower_than_targets_are_refused():
    zeros = np.zeros((1, 2, 1))
    with pytest.raises(ParameterError, match="value_dim=1 is less than the d_out=2"):
        AttentionLayer.from_effective_readout(zeros, zeros, np.zeros((2, 2)), value_dim=1)


@pytest.mark.parametrize(
    ("contexts", "queries"),
    [((2, 3, 4), (2, 5)), ((3, 3, 5), (2, 5)), ((3, 4), (2, 5)), ((2, 3, 5), (5,)), ((5,), (2, 5))],
)
def test_inputs_which_do_not_fit(contexts, queries):
    layer = random_layer(np.random.default_rng(0))
    with pytest.raises(DataError, match="do not fit the layer"):
        layer(np.zeros(contexts), np.zeros(queries))


def nan_at(array, place):
    changed = array.copy()
    changed[place] = np.nan
    return changed


@pytest.mark.parametrize(
    ("position", "change", "words"),
    [
        *((place, lambda w: w[:-1], "shapes of the weights do not fit") for place in range(5)),
        (2, lambda w: nan_at(w, (1, 2, 3)), r"W_V\[1, 2, 3\] is nan"),
        (0, lambda w: w.astype(np.float32), "dtypes"),
    ],
)
def test_weights_which_do_not_fit(position, change, words):
    arrays = list(vars(random_layer(np.random.default_rng(0))).values())
    arrays[position] = change(arrays[position])
    with pytest.raises(ParameterError, match=words):
        AttentionLayer(*arrays)


# What may be handed to a memorizer: one example, and arrays of other libraries.


@pytest.fixture(params=[None, 2])
def data(request):
    return generators.uniform(num_examples=7, context_size=3, width=5, target_dim=request.param)


@pytest.mark.parametrize("make", [generators.uniform, generators.shared_context])
@pytest.mark.parametrize("target_dim", [None, 1, 2])
def test_one_example_without_the_axis_of_examples(make, target_dim):
    data = make(num_examples=7, context_size=3, width=5, target_dim=target_dim)
    memorizer = build_memorizer(data, num_heads=3)
    for context, query, target in data:
        for asked in (query, query.tolist(), torch.tensor(query, requires_grad=True)):
            output = memorizer(context, asked)
            assert output.shape == np.shape(target)
            assert np.abs(output - target).max() < 1e-6
        # A context of several queries is shared. It has the shape of a context for one query.
        several = memorizer.predict(context, data.queries)
        assert several.shape == data.targets.shape
        assert several[0] == pytest.approx(memorizer.predict(context, data.queries[0]))


def test_one_query_has_one_context(data):
    memorizer = build_memorizer(data, num_heads=3)
    with pytest.raises(DataError) as caught:
        memorizer.predict(data.contexts, data.queries[0])
    assert caught.value.problem == "one query (5,) has contexts (7, 3, 5)"
    assert "one context (n, d) for one query (d,)" in caught.value.suggestion
    with pytest.raises(DataError, match="do not fit the layer"):
        memorizer.predict(data.contexts[0], data.queries[0, :4])
    with pytest.raises(DataError, match="do not fit the layer"):
        memorizer.predict(data.contexts, 3.0)


def read_by(make, data):
    return Dataset(make(data.contexts), make(data.queries), make(data.targets))


def test_tensors_with_gradients(data):
    def tensor(array):
        return torch.tensor(array, requires_grad=True)

    assert read_by(tensor, data) == data
    memorizer = build_memorizer(data, num_heads=3)
    found = memorizer.predict(tensor(data.contexts), tensor(data.queries))
    assert (found == memorizer.predict(data.contexts, data.queries)).all()
    rows = [tensor(context) for context in data.contexts]
    assert Dataset(rows, data.queries, data.targets) == data
    nested = [[tensor(token) for token in context] for context in data.contexts]
    with pytest.raises(DataError, match=r"(?s)contexts cannot be read.*torch.stack"):
        Dataset(nested, data.queries, data.targets)


def test_what_is_not_finite_is_refused_with_its_place(data):
    layer = build_memorizer(data, num_heads=3).layer
    for value in (np.nan, np.inf, -np.inf):
        contexts, queries = data.contexts.copy(), data.queries.copy()
        contexts[(1,) * contexts.ndim] = queries[2, 3] = value
        with pytest.raises(DataError, match=rf"contexts\[1, 1(, 1)?\] is {value}"):
            layer.attention(contexts, data.queries)
        with pytest.raises(DataError, match=rf"queries\[2, 3\] is {value}"):
            layer(data.contexts, queries)


def test_pandas(data):
    pandas = pytest.importorskip("pandas")
    queries = pandas.DataFrame(data.queries)
    targets = pandas.DataFrame(data.targets) if data.targets.ndim == 2 else data.targets
    targets = targets if data.targets.ndim == 2 else pandas.Series(targets)
    assert Dataset(data.contexts, queries, targets) == data
    assert data.take(pandas.Series([2, 0])) == data[[2, 0]]
    labels = pandas.Series(["b", "a", "b", "a", "b", "a", "b"], dtype="category")
    assert Dataset.of_classes(data.contexts, queries, labels).classes == ("a", "b")
    queries.loc[2, 3] = None
    with pytest.raises(DataError, match=r"queries\[2, 3\] is nan"):
        Dataset(data.contexts, queries, targets)


JAX = """
import numpy as np
from jax import numpy as jnp
from constructive import Dataset, build_memorizer, generators

data = generators.uniform(num_examples=7, context_size=3, width=5)
found = Dataset(*map(jnp.asarray, (data.contexts, data.queries, data.targets)))
assert found.queries.dtype == np.float32
assert (found.contexts == data.contexts.astype(np.float32)).all()
context, query, target = found[3]
output = build_memorizer(found, num_heads=3)(jnp.asarray(context), jnp.asarray(query))
assert abs(output - target) < 1e-6
"""


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="no jax")
def test_jax():
    """In a process of its own: once it is loaded, nobody may fork."""
    subprocess.run([sys.executable, "-c", JAX], check=True)


class Exchanged:
    """An array that is known by the DLPack protocol alone."""

    def __init__(self, array):
        self.array = array.copy()

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Elsewhere(Exchanged):
    """The same on a device which cannot be read."""

    def __dlpack__(self, **_options):
        raise BufferError("it is on another device")


def test_arrays_by_dlpack(data):
    assert read_by(Exchanged, data) == data
    with pytest.raises(DataError, match="it is on another device"):
        read_by(Elsewhere, data)


# W_O and W_D of built layers: exact, and such that kernels that mistake them are found.


def blocks(layer):
    """W_O of each head (H, d_v, d_o)."""
    return layer.output_weights.reshape(layer.num_heads, layer.value_dim, -1)


def with_blocks(layer, changed):
    return replace(layer, output_weights=changed.reshape(layer.output_weights.shape))


# What becomes of W_O, as blocks.
MISTAKES = {
    "heads reversed": lambda w: w[::-1],
    "heads rotated": lambda w: np.roll(w, 1, axis=0),
    "entries interleaved": lambda w: w.reshape(w.shape[1], len(w), -1).transpose(1, 0, 2),
    "W_O transposed": lambda w: w.reshape(w.shape[2], -1).T,
    "blocks transposed": lambda w: w.transpose(0, 2, 1),
    "values summed, without W_O": lambda w: np.broadcast_to(np.eye(w.shape[1]), w.shape),
    "the W_O of one head for all": lambda w: np.repeat(w[:1], len(w), axis=0),
}


def documented(mistake):
    """The documented one, for a kernel that uses other weights than it is given."""

    @settings(max_examples=30, database=None, phases=[Phase.generate])
    @given(memorizable())
    def test(problem):
        data, layer = problem.dataset, problem.build().layer
        wrong = mistake(layer)
        outputs = wrong(data.contexts, data.queries)
        assert np.abs(outputs - data.target_matrix).max() < 1e-6

    return test


def test_the_oracle_passes_a_kernel_that_is_right():
    documented(lambda layer: layer)()


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_the_oracle_finds_mistakes_of_outputs(mistake):
    with pytest.raises(AssertionError):
        documented(lambda layer: with_blocks(layer, mistake(blocks(layer))))()


@pytest.mark.parametrize("mistake", [np.transpose, lambda w: np.eye(len(w))])
def test_the_oracle_finds_mistakes_of_readouts(mistake):
    with pytest.raises(AssertionError):
        documented(lambda layer: replace(layer, readout_weights=mistake(layer.readout_weights)))()


def built_by_each():
    """A layer of each construction, with two heads or more, and the data."""
    wide = generators.gaussian(num_examples=7, context_size=3, width=5, target_dim=3, seed=2)
    for name in CONSTRUCTIONS:
        yield pytest.param(wide, {"construction": name, "num_heads": 4}, id=name)


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
    wrong = with_blocks(layer, own[::-1])(data.contexts, data.queries)
    assert np.abs(right - wrong).max() > 1e-3


def test_the_seed_draws_them():
    data = generators.gaussian(num_examples=4, context_size=3, width=5, target_dim=2)
    first, again, other = (build_memorizer(data, num_heads=3, seed=s).layer for s in (0, 0, 1))
    assert np.array_equal(first.output_weights, again.output_weights)
    assert not np.array_equal(first.output_weights, other.output_weights)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 6))
def test_cycles_do_what_they_say(seed, count, size):
    rng = np.random.default_rng(seed)
    cycles = SignedCycles.random(count, size, (0.125, 0.25, 0.5, 2.0, 4.0, 8.0), rng)
    dense = cycles.times(np.broadcast_to(np.eye(size), (count, size, size)))
    matrices = rng.standard_normal((count, 3, size))
    assert np.array_equal(cycles.undone(matrices @ dense), matrices)
    last = SignedCycles.random(1, size, (2.0,), rng)
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


# The causal layer against its definition, and its rank.


PRIME = next(modular.safe_primes())
SEEDS = st.integers(0, 2**32 - 1)
WINDOWS = st.sampled_from([None, 1, 2, 3, 100])


def random_causal(rng, *, heads=2, width=3, head_dim=2, outputs=4, window=None):
    draw = rng.standard_normal
    return CausalLayer(
        draw((heads, width, head_dim)), draw((heads, width, head_dim)),
        draw(((heads + 1) * width, outputs)), window,
    )  # fmt: skip


def by_definition(layer, sequence):
    """The representation of each position of one sequence (N, K)."""
    rows = []
    for i, query in enumerate(sequence):
        first = 0 if layer.window is None else max(0, i + 1 - layer.window)
        seen = sequence[first : i + 1]
        attention = oracle.attended(layer.tensors, seen, query)
        rows.append(oracle.floats(oracle.read_out(query, seen, attention)))
    return np.array(rows)


@settings(max_examples=60)
@given(SEEDS, st.integers(1, 4), st.integers(1, 9), WINDOWS,
       st.sampled_from([1, 100, 1000, 1 << 25]))  # fmt: skip
def test_causal_forward_pass_is_the_definition(seed, count, length, window, block_bytes):
    rng = np.random.default_rng(seed)
    layer = random_causal(rng, window=window)
    sequences = rng.standard_normal((count, length, 3))
    wanted = np.array([by_definition(layer, sequence) for sequence in sequences])
    z = layer.intermediate(sequences, block_bytes=block_bytes)
    np.testing.assert_allclose(z, wanted, rtol=1e-10, atol=1e-12)
    outputs = layer(sequences, block_bytes=block_bytes)
    np.testing.assert_allclose(outputs, wanted @ layer.readout_weights, rtol=1e-10, atol=1e-11)
    assert layer.inner_dim == z.shape[2]


def test_single_precision_stays_single():
    rng = np.random.default_rng(0)
    layer = random_causal(rng)
    single = CausalLayer(*(weights.astype(np.float32) for weights in layer.tensors.values()))
    sequences = rng.standard_normal((2, 5, 3))
    assert single(sequences).dtype == single.intermediate(sequences).dtype == np.float32
    np.testing.assert_allclose(single(sequences), layer(sequences), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"query_weights": np.zeros((2, 3, 1))}, "weights have shapes"),
        ({"key_weights": np.zeros((2, 4, 2))}, "weights have shapes"),
        ({"readout_weights": np.zeros((6, 4))}, r"weights have shapes(.|\n)*\(H \+ 1\) d"),
        ({"readout_weights": np.zeros((9, 0))}, "weights have shapes"),
        ({"query_weights": np.zeros((2, 3, 2), np.float32)}, "dtypes"),
        ({"readout_weights": np.full((9, 4), np.nan)}, r"U\[0, 0\] is nan"),
        ({"window": 0}, "window=0"),
        ({"window": 2.5}, "window=2.5"),
    ],
)
def test_causal_weights_which_do_not_fit(change, words):
    given_ = {
        "query_weights": np.zeros((2, 3, 2)), "key_weights": np.zeros((2, 3, 2)),
        "readout_weights": np.zeros((9, 4)), "window": None,
    }  # fmt: skip
    with pytest.raises(ParameterError, match=words):
        CausalLayer(**{**given_, **change})


def test_sequences_which_do_not_fit():
    layer = random_causal(np.random.default_rng(0))
    for shape in ((5, 3), (1, 5, 4), (0, 5, 3), (1, 0, 3)):
        with pytest.raises(DataError, match=r"not \(S, N, d=3\)"):
            layer(np.zeros(shape))
    with pytest.raises(DataError, match="sequences"):
        layer([[[1.0, np.inf, 0.0]]])


# --- the rank (Theorem 12)


def rank_modulo(layer, tokens, first):
    """The rank of Z modulo p, without the first positions."""
    out = np.empty((*tokens.shape[:2], layer.inner_dim))
    exponent = modular.least_exponent(tokens)
    arithmetic = Residues(Point(PRIME, 12345), exponent, exponent)
    weights, view = (layer.query_weights, layer.key_weights), CausalView(tokens)
    own = layer.width
    every = np.divmod(np.arange(layer.inner_dim - own), layer.width)
    out[..., :own] = modular.residues(tokens, PRIME)[..., :own]
    for chunk in attend(arithmetic, weights, view):
        out[..., own:][chunk.rows] = chunk.representation.entries(*every)
    return modular.rank(out[:, first:].reshape(-1, layer.inner_dim), PRIME)


@pytest.mark.parametrize(
    ("count", "heads", "head_dim"), [(1, 1, 1), (1, 2, 3), (2, 2, 3), (5, 1, 1)]
)
def test_rank_at_the_bound_and_one_beyond(count, heads, head_dim):
    """All positions: min(K, min(S, d) + S (n - 1)); without the first ones min(K, S (n - 1))."""
    rng, width = np.random.default_rng(3), 3
    inner = (heads + 1) * width
    weights = rng.integers(-9, 10, (2, heads, width, head_dim)).astype(float)
    layer = CausalLayer(*weights, np.zeros((inner, 1)))
    longest = 2 + inner // count  # rows at n - 1 of them, n, and n + 1
    for length in range(max(1, longest - 2), longest + 2):
        tokens = rng.integers(-9, 10, (count, length, width)).astype(float)
        later = count * (length - 1)
        assert rank_modulo(layer, tokens, 0) == min(inner, min(count, width) + later)
        assert not later or rank_modulo(layer, tokens, 1) == min(inner, later)
