"""Results do not depend on where they are computed, and a killed worker loses nothing."""

import os
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from tasks import Murdered, fatal_elsewhere

from constructive import ParameterError, assumptions, capacity_map, generators
from constructive.support.parallel import _DASK, ordered_map
from constructive.support.progress import progress_to

HERE = os.getpid()
GRID = {"num_heads": [2, 3], "context_size": [3, 4], "head_dim": [1, 3], "width": 6}


def square(number):
    return number * number


def failing(number):
    if number == 5:
        message = f"no square for {number}"
        raise ValueError(message)
    return number * number


class Lost(ThreadPoolExecutor):
    """Loses a worker with every second task: what is submitted then never comes back."""

    def __init__(self):
        super().__init__(1)
        self.submitted = 0

    def submit(self, function, /, *args, **kwargs):
        self.submitted += 1
        if self.submitted % 2:
            return super().submit(function, *args, **kwargs)
        lost = Future()
        lost.cancel()
        lost.set_running_or_notify_cancel()
        return lost


class Stumbling(ThreadPoolExecutor):
    """Fails, as that of dask, where a worker dies as its result arrives."""

    def __init__(self, module):
        super().__init__(1)
        own = {"__name__": module}
        exec("def deliver(result):\n    typ, exc, tb = result", own)  # noqa: S102 - the same error
        self.deliver = own["deliver"]

    def submit(self, function, /, *args, **kwargs):
        return super().submit(lambda: self.deliver(function(*args, **kwargs)))


def run(function, tasks, executor):
    return ordered_map(function, tasks, executor=executor, step="squares")


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(2) as processes:
        yield processes


def test_order_is_that_of_the_tasks(pool):
    expected = [square(number) for number in range(20)]
    for executor in (None, pool, ThreadPoolExecutor(3), Lost(), Stumbling(_DASK)):
        seen = []

        def listener(_step, done, _total, seen=seen):
            seen.append(done)

        with progress_to(listener):
            assert run(square, range(20), executor) == expected
        assert seen == list(range(1, 21))


def test_an_error_of_a_task_is_no_lost_worker():
    with pytest.raises(TypeError, match="unpack"):
        run(square, [1, 2], Stumbling("a_task"))


def test_a_killed_process_loses_nothing():
    with ProcessPoolExecutor(2) as processes:
        found = run(fatal_elsewhere, [(number, HERE) for number in range(30)], processes)
        assert found == [number * number for number in range(30)]
        again = run(
            square, range(5), processes
        )  # the pool is broken for good, and that is not a harm
    assert again == [0, 1, 4, 9, 16]


def test_an_error_of_a_task_is_raised(pool):
    for executor in (None, pool):
        with pytest.raises(ValueError, match="no square for 5"):
            run(failing, range(10), executor)


def test_an_interrupt_cancels_what_has_not_begun():
    class Never(Executor):
        futures = []  # noqa: RUF012

        def submit(self, function, /, *args, **kwargs):  # noqa: ARG002
            self.futures.append(Future())
            if len(self.futures) == 1:
                self.futures[0].set_result(1)
            return self.futures[-1]

    def interrupt(*_):
        raise KeyboardInterrupt

    with progress_to(interrupt), pytest.raises(KeyboardInterrupt):
        run(square, range(4), Never())
    assert [future.cancelled() for future in Never.futures] == [False, True, True, True]


def test_sampling_is_the_same_everywhere(pool):
    rng = np.random.default_rng(0)
    vectors = rng.integers(-1, 2, size=(300, 64)).astype(float)
    vectors[::3] = vectors[0]
    here = assumptions.dependent_share(vectors, 32, subsets=1000)
    assert 0 < here.dependent <= 1000
    assert assumptions.dependent_share(vectors, 32, subsets=1000, executor=pool) == here
    assert assumptions.dependent_share(vectors, 32, subsets=1000, executor=Lost()) == here
    data = generators.uniform(num_examples=20, context_size=3, width=5)
    reports = [assumptions.check(data, subsets=50, executor=executor) for executor in (None, pool)]
    assert str(reports[0]) == str(reports[1])


def test_a_capacity_map_is_the_same_everywhere(pool):
    here = capacity_map(**GRID)
    assert len(here.points) == 8
    assert all(point.lower == point.upper == point.num_heads * 6 for point in here.points)
    assert capacity_map(**GRID, executor=pool) == here
    shared = capacity_map(**GRID, shared_context=True, executor=pool)
    assert all(p.lower == p.upper == p.theorem_2 for p in shared.points)


def test_a_map_survives_the_death_of_its_workers():
    with Murdered(2) as pool:
        assert capacity_map(**GRID, executor=pool) == capacity_map(**GRID)


def test_maps_are_written_and_shown(tmp_path):
    found = capacity_map(num_heads=[2], context_size=[3], head_dim=[1], width=4)
    found.save(tmp_path / "map.csv")
    head, row = (tmp_path / "map.csv").read_text().split()
    assert head.startswith("num_heads,context_size,head_dim,width,shared_context,num_examples")
    assert row == "2,3,1,4,False,9,1,5,8,8"
    assert "<td" in found._repr_html_()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": []}, r"num_heads=\[\] are not values for a grid"),
        ({"num_heads": 5}, "num_heads=5 are not values for a grid"),
        ({"num_heads": [0]}, "num_heads=0 is not a positive integer"),
        ({"context_size": [3, 5]}, "contexts of n=5 tokens in d=4 dimensions cannot have rank n"),
        ({"seed": -1}, "seed=-1 is not a non-negative integer"),
        ({"seed": None}, "seed=None is not a non-negative integer"),
        ({"executor": 4}, "executor=4"),
    ],
)
def test_bad_grids(change, message):
    grid = {"num_heads": [2], "context_size": [3], "head_dim": [1], "width": 4}
    with pytest.raises(ParameterError, match=message):
        capacity_map(**grid | change)


def test_an_interrupt_while_submitting_cancels_too():
    class Interrupted(Executor):
        futures = []  # noqa: RUF012

        def submit(self, function, /, *args, **kwargs):  # noqa: ARG002
            if len(self.futures) == 2:
                raise KeyboardInterrupt
            self.futures.append(Future())
            return self.futures[-1]

    with pytest.raises(KeyboardInterrupt):
        run(square, range(4), Interrupted())
    assert [future.cancelled() for future in Interrupted.futures] == [True, True]
