"""Errors are sent from one process to another, and keep their three parts."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor

import pytest

from constructive import CapacityError, build_memorizer, generators
from constructive.support import errors

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.ConstructiveError)
]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_pickled_and_copied(kind):
    error = kind("9 examples do not fit", witness=(9, "x"), suggestion="use 3 heads")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301
        assert type(other) is kind
        assert str(other) == str(error)
        assert (other.problem, other.witness, other.suggestion) == (
            error.problem, error.witness, error.suggestion,
        )  # fmt: skip


def too_many():
    build_memorizer(generators.uniform(num_examples=11, context_size=3, width=5), num_heads=2)


def test_an_error_of_a_worker_arrives():
    with ProcessPoolExecutor(1) as executor, pytest.raises(CapacityError, match="for 2 heads"):
        executor.submit(too_many).result()
