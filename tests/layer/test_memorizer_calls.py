"""What may be handed to a memorizer: one example, and arrays of other libraries."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
import torch

from constructive import DataError, Dataset, ParameterError, build_memorizer, generators


@pytest.fixture(params=[None, 2])
def data(request):
    return generators.uniform(num_examples=7, context_size=3, width=5, target_dim=request.param)


def test_a_memorizer_can_be_called(data):
    memorizer = build_memorizer(data, num_heads=3)
    called = memorizer(data.contexts, data.queries)
    assert (called == memorizer.predict(data.contexts, data.queries)).all()


@pytest.mark.parametrize("make", [generators.uniform, generators.shared_context])
@pytest.mark.parametrize("target_dim", [None, 1, 2])
def test_one_example_without_the_axis_of_examples(make, target_dim):
    data = make(num_examples=7, context_size=3, width=5, target_dim=target_dim)
    memorizer = build_memorizer(data, num_heads=3)
    for context, query, target in data:
        for given in (query, query.tolist(), torch.tensor(query, requires_grad=True)):
            output = memorizer.predict(context, given)
            assert output.shape == np.shape(target)
            assert np.abs(output - target).max() < 1e-6


def test_a_context_of_several_queries_is_shared(data):
    """It has the shape of a context for one query: the queries tell."""
    memorizer = build_memorizer(data, num_heads=3)
    outputs = memorizer.predict(data.contexts[0], data.queries)
    assert outputs.shape == data.targets.shape
    assert outputs[0] == pytest.approx(memorizer.predict(data.contexts[0], data.queries[0]))


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


def test_an_error_is_measured_on_a_data_set(data):
    with pytest.raises(ParameterError, match="dataset is a ndarray, not a Dataset"):
        build_memorizer(data, num_heads=3).max_error(data.contexts)


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
