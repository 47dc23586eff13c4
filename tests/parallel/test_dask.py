"""The same on a real Dask cluster on this machine."""

import os
import warnings

import distributed
import numpy as np
import pytest
from tasks import fatal_elsewhere

from constructive import assumptions, build_memorizer, certify, generators
from constructive.support.parallel import ordered_map

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # dask's own
]


@pytest.fixture
def client(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True,
                dashboard_address=None, local_directory=str(tmp_path),
            ) as cluster,
            distributed.Client(cluster) as client,
        ):  # fmt: skip
            yield client


def test_results_are_those_of_one_process(client):
    executor = client.get_executor()
    vectors = np.random.default_rng(0).integers(-1, 2, size=(300, 64)).astype(float)
    vectors[::3] = vectors[0]
    here = assumptions.dependent_share(vectors, 32, subsets=1000)
    assert assumptions.dependent_share(vectors, 32, subsets=1000, executor=executor) == here


def test_killed_workers_lose_nothing(client):
    """Dask starts them anew, and gives a task up which kills four of them; it is done here."""
    tasks = [(number, os.getpid()) for number in range(6)]
    found = ordered_map(fatal_elsewhere, tasks, executor=client.get_executor(), step="squares")
    assert found == [0, 1, 4, 9, 16, 25]


def test_pairs_are_the_same_bits(client, tmp_path):
    data = generators.uniform(num_examples=751, context_size=3, width=7)
    options = {"num_heads": 300, "construction": "paired"}
    here = build_memorizer(data, **options)
    executor = client.get_executor()
    folder = tmp_path / "kept"
    there = build_memorizer(data, **options, executor=executor, checkpoint=folder)
    assert len(list(folder.glob("pairs-*.npz"))) == 3
    assert there.record == here.record
    for name, tensor in here.layer.tensors.items():
        assert there.layer.tensors[name].tobytes() == tensor.tobytes()
    proved = certify(there, data, executor=executor)
    assert proved.proved
    assert proved == certify(here, data)
