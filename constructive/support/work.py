"""Long work: threads of this process, by one rule for all loops and products, and progress.

- In a build, a proof and a capacity BLAS has one thread (`one_blas_thread`). Hundreds of small
  products that wake all threads, and wait for the last one, take twice the time of the processor,
  and many times as long beside a busy neighbour.
- Their loops run in pieces (`in_pieces`), on threads of ours, whose number is `workers`. Most of
  the time is spent inside numpy, which releases Python's lock.
- What a piece is does not depend on the number of workers, and results are taken in the order of
  the pieces. So results have the same bits for any number.

What is too small for that runs as it is, without threads and without limits.

A piece writes to rows of its own, or returns what it finds. It never sets the precision of balls,
which is one number for the process (`exact.directed`).
"""

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from contextvars import ContextVar
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from constructive.support.errors import ParameterError

Piece = TypeVar("Piece")
Result = TypeVar("Result")

JOBS = "CONSTRUCTIVE_JOBS"  # The variable that sets the number of workers

# Multiplications of a product below which BLAS takes one thread anyway: 4 * 65,536 in OpenBLAS.
_SMALL = 1 << 18
_MOST = 4  # Threads where nobody asks for more
# Multiplications of a loop from which on threads are worth it: some milliseconds on one core.
_WORTH = 1e7
_GROUPS = Path("/proc/self/cgroup")
_LIMITS = Path("/sys/fs/cgroup")


def workers() -> int:
    """Return how many threads loops take.

    That is the variable `CONSTRUCTIVE_JOBS`, or else the number of cores that this process may use,
    and four at most: between operations threads wait for Python's lock, and with 16 of them some
    proofs took longer than with one.
    """
    given = os.environ.get(JOBS, "")
    if not given:
        return min(cores(), _MOST)
    if not (given.isascii() and given.isdigit() and 0 < len(given) < 5 and int(given)):
        raise ParameterError(
            f"{JOBS}={given!r} is not a number of workers",
            witness=given,
            suggestion=f"{JOBS}=2, or unset it for as many as there are cores, {_MOST} at most",
        )
    return int(given)


def cores() -> int:
    """Return how many cores this process may use: by its affinity, and the limit of a container."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(allowed or 1, _share_of_container()))


def _share_of_container() -> int:
    """Return how many cores the control groups of Linux allow, rounded up; else very many."""
    try:
        lines = _GROUPS.read_text().splitlines()
    except OSError:
        return 1 << 16
    own = next((line[3:] for line in lines if line.startswith("0::")), "/").strip("/")
    folders = [_LIMITS, *(_LIMITS / part for part in (Path(own), *Path(own).parents))]
    quotas = [folder / "cpu.max" for folder in folders]
    return min(map(_cores_of, [*quotas, _LIMITS / "cpu" / "cpu.cfs_quota_us"]))


def _cores_of(file: Path) -> int:
    """Return how many cores such a file allows, one at least; very many if it sets no limit."""
    try:
        words = file.read_text().split()
        if file.name != "cpu.max":
            words += file.with_name("cpu.cfs_period_us").read_text().split()
        quota, period = map(int, words)
    except (OSError, ValueError):  # it is not there, or says "max"
        return 1 << 16
    return max(1, math.ceil(quota / period)) if quota > 0 and period > 0 else 1 << 16


# What all threads of the process share: the limit of BLAS, and the pool while one is needed.


class _Shared:
    """How many blocks limit BLAS, what they restore in the end, and the threads they use."""

    def __init__(self) -> None:
        # One thread may come twice: the collector closes loops that were left, wherever it runs.
        self.lock = threading.RLock()
        self.blocks = 0
        self.limits: Any = None
        self.pools: dict[int, ThreadPoolExecutor] = {}

    def pool(self, count: int) -> ThreadPoolExecutor:
        with self.lock:
            if count not in self.pools:
                self.pools[count] = ThreadPoolExecutor(count, "constructive")
            return self.pools[count]


_shared = _Shared()
_thread = threading.local()  # `worker`: whether this thread is one, whose loops stay in it


def _is_worker() -> bool:
    """Return whether this thread is one that loops take."""
    return getattr(_thread, "worker", False)


def _after_fork() -> None:
    """Leave the threads of the parent, which a child does not have; BLAS keeps its limit."""
    _shared.lock, _shared.pools = threading.RLock(), {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def one_blas_thread(operations: float = math.inf) -> Iterator[None]:
    """Give BLAS one thread in this block, unless all its products are too small to have more.

    operations: multiplications of the largest product of the block, or more

    The limit is one of the process. It ends with the last of the blocks that are open at a time.
    """
    if operations <= _SMALL:
        yield
        return
    with _shared.lock:
        if not _shared.blocks:
            _shared.limits = _control_of_blas().threadpool_limits(1, user_api="blas")
        _shared.blocks += 1
    try:
        yield
    finally:
        with _shared.lock:
            _shared.blocks -= 1
            pools = []
            if not _shared.blocks:
                _control_of_blas()
                _shared.limits.restore_original_limits()
                _control_of_blas()
                pools, _shared.pools = list(_shared.pools.values()), {}
        for pool in pools:
            pool.shutdown(wait=not _is_worker())


def _control_of_blas() -> Any:  # noqa: ANN401 - a module without types
    """Return threadpoolctl, where no thread controls OpenBLAS, so that this one and any later may.

    From 3.8 on one thread does, the first to set a limit, and what others set is silently left
    undone. But the last block may end in another thread than the one in which the first began.
    """
    import threadpoolctl  # type: ignore[import-untyped] # noqa: PLC0415 - it takes 10 ms

    openblas = threadpoolctl.OpenBLASController
    if hasattr(openblas, "clear_controlling_thread"):
        openblas.clear_controlling_thread(force=True)
    return threadpoolctl


def in_pieces(
    function: Callable[[Piece], Result], pieces: Iterable[Piece], operations: float = math.inf
) -> Iterator[Result]:
    """Yield function(piece) for each piece, in their order, from as many threads as there are.

    Twice as many pieces as threads are begun before the results of the first ones are taken, so
    that memory is bounded. An error of a piece is raised where its result would be. Then, and after
    an interrupt, no other piece begins, and those that run are waited for.

    function: what is called with each piece, in any thread, with the caller's `errstate`
    pieces: the independent pieces of work
    operations: about how many multiplications all of them are; few are done in this thread
    """
    coming = iter(pieces)
    first = list(islice(coming, 2))
    coming = chain(first, coming)
    if operations < _WORTH or len(first) == 1 or _is_worker():
        yield from map(function, coming)
        return
    count = workers()
    with one_blas_thread():  # also for one worker, whose results have the same bits
        if count == 1:
            yield from map(function, coming)
            return
        with closing(_elsewhere(function, coming, count)) as results:
            yield from results


def _elsewhere(
    function: Callable[[Piece], Result], pieces: Iterator[Piece], count: int
) -> Generator[Result, None, None]:
    pool, state, called = _shared.pool(count), np.geterr(), np.geterrcall()

    def work(piece: Piece) -> Result:
        _thread.worker = True
        with np.errstate(call=called, **state):  # type: ignore[arg-type] # it may be None, too
            return function(piece)

    running: deque[Future[Result]] = deque()
    try:
        for piece in pieces:
            if len(running) == 2 * count:
                yield running.popleft().result()
            running.append(pool.submit(work, piece))
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()
        # In a worker the collector closes a loop that was left, and perhaps in one of these pieces.
        if not _is_worker():
            wait(running)


# Progress: reported where the work is, shown where somebody listens.


# Called with (step, done, total) while long work goes on.
Progress = Callable[[str, int, int], None]

# A context and no global state: each thread and each task of asyncio has its own.
_LISTENER: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def progress_to(listener: Progress | None) -> Iterator[None]:
    """Call `listener` with (step, done, total) while the work in this context goes on.

    An exception of the listener ends the work, as Ctrl-C does.

    Args:
        listener: what is called; None for nothing

    Example:
        >>> with progress_to(lambda step, done, total: print(f"{step}: {done} of {total}")):
        ...     report("solve", 1, 2)
        solve: 1 of 2
    """
    before = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def report(step: str, done: int, total: int) -> None:
    """Tell the listener of this context, if there is one, what has been done."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(step, done, total)


def listened() -> bool:
    """Return whether this context has a listener."""
    return _LISTENER.get() is not None


def counted(step: str, pieces: Iterable[Piece], total: int) -> Iterator[Piece]:
    """Yield pieces of work, and report how many of them are done."""
    for done, piece in enumerate(pieces, 1):
        report(step, done, total)
        yield piece
