"""Independent pieces of work: one after the other here, or on any executor.

An executor is anything with the interface of `concurrent.futures.Executor`: a pool of processes, or
`dask.distributed.Client.get_executor()` for a cluster. Work is cut into the same pieces, with the
same random numbers, whatever computes them, so that results do not depend on the executor.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, as_completed
from typing import TypeVar

from constructive.support.errors import ParameterError
from constructive.support.progress import report

Task = TypeVar("Task")
Result = TypeVar("Result")

_LOST = ("KilledWorker", "FutureCancelledError", "CommClosedError")
"""What dask says of a task whose workers died; by name, as dask is optional."""


def ordered_map(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    executor: Executor | None,
    step: str | None,
    keep: Callable[[int, Result], None] | None = None,
) -> list[Result]:
    """The results of function(task), in the order of the tasks.

    Tasks which are lost with a killed worker are computed here, so that nothing is lost. An error
    of a task itself is raised, and an interrupt too, after what has not begun was cancelled.

    Args:
        function: what is called with each task
        tasks: the independent pieces of work
        executor: where they are computed; None for here. Functions and tasks go there by pickle.
        step: what the work is called when progress is reported; None where `keep` reports it
        keep: called with the number of a task and its result as soon as that is there

    Raises:
        ParameterError: for what is no executor

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with ThreadPoolExecutor() as threads:
        ...     ordered_map(abs, [-3, 2, -1], executor=threads, step="sizes")
        [3, 2, 1]
    """
    done: dict[int, Result] = {}

    def finish(index: int, result: Result) -> None:
        done[index] = result
        if keep is not None:
            keep(index, result)
        if step is not None:
            report(step, len(done), len(tasks))

    if executor is not None:
        require_executor(executor)
        futures: dict[Future[Result], int] = {}
        try:
            _submit(function, tasks, executor, futures)
            for index, result in _results(futures):
                finish(index, result)
        finally:
            for future in futures:
                future.cancel()
    for index, task in enumerate(tasks):
        if index not in done:
            finish(index, function(task))
    return [done[index] for index in range(len(tasks))]


def require_executor(executor: object) -> None:
    """Check what was given as an executor.

    Args:
        executor: what was given

    Raises:
        ParameterError: for what is no executor

    Example:
        >>> require_executor(4)
        Traceback (most recent call last):
            ...
        constructive.ParameterError: executor=4 is no concurrent.futures.Executor
          witness: int
          try: a ProcessPoolExecutor, or client.get_executor() of a dask Client
    """
    if not isinstance(executor, Executor):
        raise ParameterError(
            f"executor={executor!r} is no concurrent.futures.Executor",
            witness=type(executor).__name__,
            suggestion="a ProcessPoolExecutor, or client.get_executor() of a dask Client",
        )


def _submit(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    executor: Executor,
    futures: "dict[Future[Result], int]",
) -> None:
    """Add a future for each task, until the executor breaks."""
    try:
        for index, task in enumerate(tasks):
            futures[executor.submit(function, task)] = index
    except BrokenExecutor:
        pass


def _results(futures: "dict[Future[Result], int]") -> Iterator[tuple[int, Result]]:
    """The results of the futures which were not lost, as they come."""
    for future in as_completed(futures):
        try:
            yield futures[future], future.result()
        except (BrokenExecutor, CancelledError):
            continue
        except Exception as error:
            if type(error).__name__ not in _LOST:
                raise
