"""Independent pieces of work: here or on any executor, with arrays they share, kept if interrupted.

An executor is anything with the interface of `concurrent.futures.Executor`: a pool of processes, or
`dask.distributed.Client.get_executor()` for a cluster. Work is cut into the same pieces, with the
same random numbers, whatever computes them, so that results do not depend on the executor.

Work is sent to other processes by pickle. What all its pieces have in common is sent once: as the
path of a folder (`shared`), which each process opens when its first piece needs it.
"""

import json
import shutil
import tempfile
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, as_completed
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from constructive.support.errors import FormatError, OutputError, ParameterError, shown
from constructive.support.files import is_temporary, replacing
from constructive.support.progress import report
from constructive.support.stored import fingerprint
from constructive.support.threads import alone

Task = TypeVar("Task")
Result = TypeVar("Result")
Arrays = Mapping[str, npt.NDArray[Any]]
Place = Arrays | str  # The arrays themselves, or a folder with a file of each

# What dask says of a task whose workers died; by name, as dask is optional.
_LOST = ("KilledWorker", "FutureCancelledError", "CommClosedError")
_DASK = "distributed.cfexecutor"  # which fails where a worker dies as its result arrives
_ABOUT = "about.json"
_SHA256 = "sha256"


def ordered_map(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    executor: Executor | None,
    step: str | None,
    keep: Callable[[int, Result], None] | None = None,
) -> list[Result]:
    """Return the results of function(task), in the order of the tasks.

    Tasks that are lost with a killed worker are computed here, so that nothing is lost. An error of
    a task itself is raised, and also an interrupt, after what has not begun was cancelled.

    step: what the work is called when progress is reported; None where `keep` reports it
    keep: called with the number of a task and its result as soon as that is there
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
        with closing(_elsewhere(function, tasks, executor)) as results:
            for index, result in results:
                finish(index, result)
    for index, task in enumerate(tasks):
        if index not in done:
            finish(index, function(task))
    return [done[index] for index in range(len(tasks))]


def _elsewhere(
    function: Callable[[Task], Result], tasks: Sequence[Task], executor: Executor
) -> Generator[tuple[int, Result], None, None]:
    """Yield the results that an executor computes and does not lose, as they come."""
    futures: dict[Future[Result], int] = {}
    try:
        with suppress(BrokenExecutor):
            for index, task in enumerate(tasks):
                futures[executor.submit(_of_many, function, task)] = index
        for future in as_completed(futures):
            try:
                result = future.result()
            except (BrokenExecutor, CancelledError):
                continue
            except Exception as error:
                *_, (frame, _) = traceback.walk_tb(error.__traceback__)
                where = frame.f_globals["__name__"]
                if type(error).__name__ not in _LOST and where != _DASK:
                    raise
            else:
                yield futures[future], result
    finally:
        for future in futures:
            future.cancel()


def _of_many(function: Callable[[Task], Result], task: Task) -> Result:
    """Return function(task), in a worker that is one of several: with one thread."""
    with alone():
        return function(task)


def require_executor(executor: object) -> None:
    """Check what was given as an executor."""
    if not isinstance(executor, Executor):
        raise ParameterError(
            f"executor={executor!r} is not a concurrent.futures.Executor",
            witness=type(executor).__name__,
            suggestion="a ProcessPoolExecutor, or client.get_executor() of a dask Client",
        )


@contextmanager
def shared(arrays: Arrays, folder: Path | None = None) -> Iterator[str]:
    """Write arrays to a folder of their own, and remove it in the end."""
    place = None
    try:
        try:
            place = Path(tempfile.mkdtemp(prefix="constructive-", dir=folder))
            for name, array in arrays.items():
                np.save(place / f"{name}.npy", array)
        except OSError as error:
            raise OutputError(
                f"cannot write what processes share to {place or folder}: {error.strerror}",
                witness=str(place or folder),
                suggestion="checkpoint= a folder with room for the data",
            ) from error
        yield str(place)
    finally:
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)


def arrays_at(place: Place) -> Arrays:
    """Return the arrays themselves, in any process."""
    return _opened(place) if isinstance(place, str) else place


@lru_cache(maxsize=2)
def _opened(place: str) -> Arrays:
    try:  # plain arrays, as what is computed from mapped ones should be in memory
        files = sorted(Path(place).iterdir())
        return {file.stem: np.asarray(np.load(file, mmap_mode="r")) for file in files}
    except OSError as error:
        raise _unseen(place, error) from error


def require_seen(path: str | Path) -> None:
    """Check that this process can read a file, which may be one on another machine."""
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise _unseen(str(path), error) from error


def _unseen(path: str, error: OSError) -> ParameterError:
    return ParameterError(
        f"a worker cannot read {path}: {error.strerror}",
        witness=path,
        suggestion="data and checkpoint= in folders that all machines of the executor see",
    )


@dataclass(frozen=True)
class Checkpoint:
    """A folder with finished pieces of a long computation, which goes on from there after its end.

    Each result is a file, which has its name only when it is whole. What the computation is about
    is in `about.json`: a folder of another one is refused. Each file has a SHA-256 of that, its
    name and its arrays, so that a file that is damaged is refused, and also a result of another
    computation that began in the same folder at the same moment. A person who can write to the
    folder, and means to, can change results.
    """

    folder: Path
    about: str  # what the computation is about

    @classmethod
    def open(cls, folder: str | Path, about: Mapping[str, Any]) -> "Checkpoint":
        """Open a new folder, or one of the same computation, which `about` says."""
        folder = Path(folder)
        try:
            folder.mkdir(exist_ok=True)
            # A file that is being written, or never was whole, is nobody's: it does not count.
            present = {file.name for file in folder.iterdir() if not is_temporary(file.name)}
        except OSError as error:
            raise OutputError(
                f"cannot make the checkpoint {folder}: {error.strerror}",
                witness=str(folder),
                suggestion="the path of a folder, in one that exists",
            ) from error
        if _ABOUT in present:
            _require_same(folder, about)
        elif present:
            raise ParameterError(
                f"{folder} is not a checkpoint, and not empty",
                witness=min(present),
                suggestion="a new folder, or an empty one",
            )
        else:
            with replacing(folder / _ABOUT) as file:
                file.write(json.dumps(dict(about), indent=1).encode())
        return cls(folder, json.dumps(dict(about), sort_keys=True))

    def load(self, name: str) -> dict[str, npt.NDArray[Any]] | None:
        """Return the arrays of a result, or None; FormatError for a file that is damaged."""
        path = self.folder / f"{name}.npz"
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {key: archive[key] for key in archive.files}
            if arrays.pop(_SHA256).tobytes() != self._hashed(name, arrays):
                raise ValueError("its SHA-256 is not that of its arrays in this computation")
        except FileNotFoundError:
            return None
        except Exception as error:  # readers of zip and npy raise nearly everything
            raise FormatError(
                f"{path} is damaged: {error}",
                witness=str(path),
                suggestion="remove this file; what it held is computed again",
            ) from error
        return arrays

    def save(self, name: str, arrays: Arrays) -> None:
        """Keep the arrays of a result."""
        with replacing(self.folder / f"{name}.npz") as file:
            hashed = np.frombuffer(self._hashed(name, arrays), np.uint8)
            np.savez(file, **arrays, **{_SHA256: hashed})  # type: ignore[arg-type] # no options

    def _hashed(self, name: str, arrays: Arrays) -> bytes:
        about = np.frombuffer(f"{self.about} {name}".encode(), np.uint8)
        return fingerprint({_ABOUT: about} | {key: arrays[key] for key in sorted(arrays)})


def _require_same(folder: Path, now: Mapping[str, Any]) -> None:
    """Raise what `Checkpoint.open` does for a folder that is about something else."""
    path = folder / _ABOUT
    try:
        then = dict(json.loads(path.read_bytes()).items())
    except (OSError, ValueError, AttributeError) as error:
        raise FormatError(
            f"{path} does not say what the checkpoint is about: {error}",
            witness=str(path),
            suggestion="another folder",
        ) from error
    unlike = {
        name: (then.get(name), now.get(name))
        for name in {**now, **then}
        if then.get(name) != now.get(name)
    }
    if unlike:
        name, (old, new) = next(iter(unlike.items()))
        raise ParameterError(
            f"the checkpoint {folder} is of another computation: {name} was {shown(old)}, and is "
            f"{shown(new)} now",
            witness=unlike,
            suggestion="the same arguments and data as then, or another folder",
        )
