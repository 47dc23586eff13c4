"""Independent pieces of work: one after the other here, or on any executor.

An executor is anything with the interface of `concurrent.futures.Executor`: a pool of processes, or
`dask.distributed.Client.get_executor()` for a cluster. Work is cut into the same pieces, with the
same random numbers, whatever computes them, so that results do not depend on the executor.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, as_completed
from typing import TypeVar

from constructive.progress import Progress

Task = TypeVar("Task")
Result = TypeVar("Result")

_LOST = ("KilledWorker", "FutureCancelledError", "CommClosedError")
"""What dask says of a task whose workers died; by name, as dask is optional."""


def ordered_map(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    executor: Executor | None,
    progress: Progress,
    step: str,
) -> list[Result]:
    """The results of function(task), in the order of the tasks.

    executor: where they are computed; None for here. Functions and tasks go there by pickle.

    Tasks which are lost with a killed worker are computed here, so that nothing is lost. An error
    of a task itself is raised, and an interrupt too, after what has not begun was cancelled.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from constructive.progress import silent
    >>> with ThreadPoolExecutor() as threads:
    ...     ordered_map(abs, [-3, 2, -1], executor=threads, progress=silent, step="sizes")
    [3, 2, 1]
    """
    done: dict[int, Result] = {}
    if executor is not None:
        done = _collected(_submitted(function, tasks, executor), len(tasks), progress, step)
    for index, task in enumerate(tasks):
        if index not in done:
            done[index] = function(task)
            progress(step, len(done), len(tasks))
    return [done[index] for index in range(len(tasks))]


def _submitted(
    function: Callable[[Task], Result], tasks: Sequence[Task], executor: Executor
) -> "dict[Future[Result], int]":
    """A future for each task, until the executor breaks."""
    futures: dict[Future[Result], int] = {}
    try:
        for index, task in enumerate(tasks):
            futures[executor.submit(function, task)] = index
    except BrokenExecutor:
        pass
    return futures


def _collected(
    futures: "dict[Future[Result], int]", total: int, progress: Progress, step: str
) -> dict[int, Result]:
    """The results of the futures which were not lost."""
    done: dict[int, Result] = {}
    try:
        for future in as_completed(futures):
            try:
                done[futures[future]] = future.result()
            except (BrokenExecutor, CancelledError):
                continue
            except Exception as error:
                if type(error).__name__ in _LOST:
                    continue
                raise
            progress(step, len(done), total)
    finally:
        for future in futures:
            future.cancel()
    return done
