"""Results do not depend on where they are computed, and a killed worker loses nothing."""

import os
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from tasks import Murdered, fatal_elsewhere

from constructive import ParameterError, assumptions, generators
from constructive.support.parallel import _DASK, ordered_map
from constructive.support.progress import progress_to

HERE = os.getpid()


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
    with Murdered(2) as killed:
        assert assumptions.dependent_share(vectors, 32, subsets=1000, executor=killed) == here
    with pytest.raises(ParameterError, match="executor=4"):
        assumptions.dependent_share(vectors, 32, executor=4)
    data = generators.uniform(num_examples=20, context_size=3, width=5)
    reports = [assumptions.check(data, subsets=50, executor=executor) for executor in (None, pool)]
    assert str(reports[0]) == str(reports[1])


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
